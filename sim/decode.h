/* Decoding: what decode.c and decode_insn.c share. */
#pragma once
#include "sim/exec.h"

struct decoder {
	struct sim *s;
	const struct ptx_module *m;
	const struct ptx_fn *fn;
	struct sim_kernel *k;
	uint32_t first[PTX_NCLASSES]; /* index of a class's register 0, in warp->def */
	uint32_t off[PTX_NCLASSES];   /* and its offset in the register file */
	size_t cap_const, const_bytes;
	size_t cap_slot, cap_shared;
	bool failed;
};

/* A lane's bytes in a register of the class; 0 for predicates. */
unsigned sim_class_width(unsigned cls);

/* Records that the instruction is not modelled, once; returns false. */
bool sim_refuse(struct decoder *d, const struct ptx_insn *i, const char *why);

/* The operand of a value that is the same in all lanes, or of a special register or a variable's
 * address. */
uint32_t sim_const(struct decoder *d, uint64_t value, unsigned width);
uint32_t sim_slot(struct decoder *d, bool var, uint32_t index, unsigned width);

/* A variable's number in k->shared (*shared true) or k->global; false: neither. */
bool sim_variable(struct decoder *d, const char *name, bool *shared, uint32_t *index);

/* Fills *op from insn number n; false: refused. */
bool sim_decode_insn(struct decoder *d, uint32_t n, struct sim_op *op);
