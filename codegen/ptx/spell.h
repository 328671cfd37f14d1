/*
 * How mnemonics are spelt: the letters of insns.def as data, read by the printer, the parser, the
 * verifier, the row tests and the decoder of sim/.
 */
#pragma once
#include "codegen/ptx/ptx.h"

/* A modifier: member of struct ptx_mod at `offset`, whose value v is written names[v] (NULL: not
 * written). */
struct ptx_letter {
	char letter;
	bool optional; /* value 0 may stand */
	uint8_t count; /* of names */
	size_t offset;
	const char *const *names; /* ".relaxed" */
	const char *what;         /* for messages: "memory order" */
};

/* The letters but %t and %u; ends with letter 0. */
extern const struct ptx_letter ptx_letters[];

/* The row of a letter; NULL for t, u and unknown ones. */
const struct ptx_letter *ptx_letter_find(char letter);

/* Whether the row's spelling has %LETTER. */
bool ptx_has_letter(enum ptx_op op, char letter);

static inline uint8_t ptx_mod_get(const struct ptx_mod *m, const struct ptx_letter *l)
{
	return *((const uint8_t *)m + l->offset);
}

static inline void ptx_mod_set(struct ptx_mod *m, const struct ptx_letter *l, unsigned v)
{
	*((uint8_t *)m + l->offset) = (uint8_t)v;
}

/* The state space of operand k, an address: the modifier's, or for copies that of the spelling. */
enum ptx_space ptx_opnd_space(const struct ptx_insn *i, unsigned k);

/* The type of operand k of the instruction (mul.wide, shifts, cvt and the like differ from
 * i->type); PTX_T_pred for p, P and q. */
enum ptx_type ptx_opnd_type(const struct ptx_insn *i, unsigned k);

/* The shape without "none": one letter an operand. */
static inline const char *ptx_shape(enum ptx_op op)
{
	const char *s = ptx_insn_info[op].shape;

	return s[0] == 'n' ? "" : s;
}

/* Least .version (times 10) that knows the target; 0: no such target. */
unsigned ptx_target_version(unsigned sm, char suffix);

enum {
	PTX_MAX_INSNS =
	        1 << 17, /* of a function; the builder fails and the parser refuses beyond it */
	PTX_MAX_REGS = 1 << 20, /* of a class */
};
