/* Every combination of types and modifiers of the rows of insns.def, as instructions with plausible
 * operands. */
#pragma once
#include "codegen/ptx/build.h"
#include "codegen/ptx/rules.h"
#include <string.h>

struct row_state {
	struct ptx_fn *f;
	struct ptx_opnd pred, base, param, end;
};

/* An entry with what operands need: a base address, a parameter of bytes, a predicate, a label at
 * the end. */
static inline void rows_begin(struct row_state *s, struct ptx_module *m, const char *name)
{
	s->f = ptx_fn_new(m, name);
	s->param = ptx_param_add(s->f, PTX_T_b8, "blob");
	s->f->param[0].count = 256;
	s->f->param[0].align = 16;
	s->base = ptx_ld(s->f, ptx_MODS(.space = PTX_PARAM), PTX_T_u64, ptx_at(s->param, 0));
	s->pred = ptx_setp(s->f, PTX_NE, PTX_T_u64, s->base, ptx_imm(0));
	s->end = ptx_label_new(s->f, "end");
}

static inline void rows_end(struct row_state *s)
{
	ptx_place(s->f, s->end);
	ptx_ret(s->f);
}

static inline struct ptx_opnd row_operand(struct row_state *s, const struct ptx_insn *i, unsigned k)
{
	char c = ptx_shape((enum ptx_op)i->op)[k];
	enum ptx_class cls = ptx_type_info[ptx_opnd_type(i, k)].cls;
	bool store = c == 'A' && !strchr(ptx_shape((enum ptx_op)i->op), 'd');

	switch (c) {
	case 'q':
		return (struct ptx_opnd){0};
	case 'p':
	case 'P':
		return c == 'p' ? ptx_reg(s->f, PTX_C_PRED) : s->pred;
	case 'L':
		return s->end;
	case 'M':
		return ptx_at(i->mod.space == PTX_PARAM ? s->param : s->base, 32);
	default:
		if (i->op == PTX_bar_sync || i->op == PTX_bar_syncn)
			return ptx_imm(c == 'A' ? 1 : 64);
		if (i->op == PTX_bulk_wait || i->op == PTX_bulk_wait_read)
			return ptx_imm(1);
		if (i->mod.vec > 1 && (c == 'd' || store))
			return ptx_vec_reg(s->f, cls, i->mod.vec);
		return ptx_reg(s->f, cls);
	}
}

static inline void row_emit(struct row_state *s, const struct ptx_insn *like)
{
	const char *shape = ptx_shape((enum ptx_op)like->op);
	struct ptx_opnd o[PTX_MAX_OPNDS];
	unsigned n = 0;

	for (; shape[n]; n++)
		o[n] = row_operand(s, like, n);
	ptx_emit(s->f, (enum ptx_op)like->op, (enum ptx_type)like->type, NULL, o, n)->mod =
	        like->mod;
}

/* Steps *i to the next value of its modifiers and second type, as an odometer; false: it went
 * round. */
static inline bool row_next_modifiers(struct ptx_insn *i)
{
	if (ptx_has_letter((enum ptx_op)i->op, 'u')) {
		i->mod.type2 = (uint8_t)((i->mod.type2 + 1) % PTX_NTYPES);
		if (i->mod.type2)
			return true;
	}
	for (const struct ptx_letter *l = ptx_letters; l->letter; l++) {
		unsigned v = ptx_mod_get(&i->mod, l);

		if (!ptx_has_letter((enum ptx_op)i->op, l->letter))
			continue;
		do
			v = (v + 1) % l->count;
		while (v && !l->names[v]);
		ptx_mod_set(&i->mod, l, v);
		if (v)
			return true;
	}
	return false;
}

/* Whether all modifiers that must stand do. */
static inline bool row_complete(const struct ptx_insn *i)
{
	for (const struct ptx_letter *l = ptx_letters; l->letter; l++)
		if (!l->optional && ptx_has_letter((enum ptx_op)i->op, l->letter) &&
		    !ptx_mod_get(&i->mod, l))
			return false;
	return true;
}

/* Calls fn for every type and every combination of modifiers that can be spelt, legal or not. */
static inline void rows_each(enum ptx_op op, void (*fn)(const struct ptx_insn *i, void *ctx),
                             void *ctx)
{
	uint32_t types = ptx_insn_info[op].types;

	for (unsigned t = 0; t <= PTX_NTYPES; t++) {
		struct ptx_insn i = {.op = (uint16_t)op, .type = (uint8_t)t};

		if (t < PTX_NTYPES ? !(types >> t & 1) : types != 0)
			continue;
		i.mod.type2 = ptx_has_letter(op, 'u') ? 0 : PTX_T_none;
		do
			if (row_complete(&i))
				fn(&i, ctx);
		while (row_next_modifiers(&i));
	}
}
