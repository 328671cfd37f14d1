/* Rules about loops that wait for memory: what their exits depend on, by a backward slice inside
 * the loop. */
#include "lint/internal.h"
#include <string.h>

struct lint_set { /* of registers (lint_reg) */
	bool *has;
	uint32_t *list, n;
};

struct slice {
	struct lint_fn *f;
	const uint32_t *node;
	uint32_t n;
	const bool *in;
	struct lint_set *reg; /* the exits depend on them */
};

static struct lint_set *new_set(struct lint_fn *f)
{
	struct lint_set *s = arena_new(f->a, struct lint_set);

	s->has = arena_news(f->a, bool, f->nreg + 1);
	s->list = arena_news(f->a, uint32_t, f->nreg + 1);
	return s;
}

static void clear(struct lint_set *s)
{
	while (s->n)
		s->has[s->list[--s->n]] = false;
}

static void mark(struct lint_set *s, uint32_t reg)
{
	if (!s->has[reg])
		s->list[s->n++] = reg;
	s->has[reg] = true;
}

static bool defines(const struct lint_fn *f, const struct ptx_insn *x, const struct lint_set *s)
{
	for (unsigned k = 0; k < x->nopnd; k++) {
		const struct ptx_opnd *o = &x->o[k];

		for (unsigned e = 0; lint_is_dest(x, k) && e < lint_regs(o); e++)
			if (o->reg[e] != PTX_SINK && s->has[lint_reg(f, o->cls, o->reg[e])])
				return true;
	}
	return false;
}

static void mark_sources(const struct lint_fn *f, const struct ptx_insn *x, struct lint_set *s)
{
	if (x->guard)
		mark(s, lint_reg(f, PTX_C_PRED, x->guard - 1));
	for (unsigned k = 0; k < x->nopnd; k++) {
		const struct ptx_opnd *o = &x->o[k];

		/* not through addresses: where a value is says nothing of it */
		for (unsigned e = 0; !lint_is_dest(x, k) && e < lint_regs(o); e++)
			if (o->reg[e] != PTX_SINK)
				mark(s, lint_reg(f, o->cls, o->reg[e]));
	}
}

/* All that the marked registers stem from, inside the loop.  false: there are no steps left. */
static bool close_slice(const struct slice *s, struct lint_set *set)
{
	struct lint_fn *f = s->f;

	for (uint32_t done = 0; done < set->n; done++) {
		const uint32_t r = set->list[done];
		const uint32_t from = f->def_at[r], to = f->def_at[r + 1];

		if (!lint_steps(f, 1u + to - from))
			return false;
		for (uint32_t d = from; d < to; d++)
			if (s->in[f->def[d]])
				mark_sources(f, &f->fn->insn[f->def[d]], set);
	}
	return true;
}

/* The condition of a way out; LINT_NONE: this is none, or it has none. */
static uint32_t exit_condition(const struct slice *s, uint32_t i)
{
	const struct ptx_insn *x = &s->f->fn->insn[i];

	if (!x->guard)
		return LINT_NONE;
	for (unsigned k = 0; k < 2; k++)
		if (s->f->succ[i][k] != LINT_NONE && !s->in[s->f->succ[i][k]])
			return lint_reg(s->f, PTX_C_PRED, x->guard - 1);
	return LINT_NONE;
}

/* An addition whose result comes back to it: the loop counts.  So it is held to do when no steps are left. */
static bool counts(const struct slice *s, const struct ptx_insn *x)
{
	struct lint_set *set = s->f->cycle;
	bool closed;

	if ((x->op != PTX_add && x->op != PTX_sub) || x->o[0].kind != PTX_REG)
		return false;
	clear(set);
	mark_sources(s->f, x, set);
	closed = close_slice(s, set);
	return !closed || set->has[lint_reg(s->f, x->o[0].cls, x->o[0].reg[0])];
}

struct found { /* among what the exits depend on */
	bool bounded, ordered;
	uint32_t load, equal, real; /* instructions; LINT_NONE */
};

/* setp.eq.ftz.f32 and the like are not in the table. */
static bool opaque_has(const struct ptx_insn *x, const char *a, const char *b)
{
	return x->op == PTX_OPAQUE && (strstr(x->opaque, a) || strstr(x->opaque, b));
}

static bool compares(const struct ptx_insn *x)
{
	return x->op == PTX_setp || x->op == PTX_setpb || opaque_has(x, "setp.", "set.");
}

static bool is_float(const struct ptx_insn *x)
{
	if (x->op == PTX_OPAQUE)
		return opaque_has(x, ".f", ".bf");
	return x->type < PTX_NTYPES && strchr("fb", ptx_type_info[x->type].text[0]) &&
	       strncmp(ptx_type_info[x->type].text, "b16", 4) &&
	       strncmp(ptx_type_info[x->type].text, "b32", 4) &&
	       strncmp(ptx_type_info[x->type].text, "b64", 4);
}

static bool tests_equality(const struct ptx_insn *x)
{
	if (x->op == PTX_OPAQUE)
		return opaque_has(x, ".eq", ".ne");
	return x->mod.cmp == PTX_EQ || x->mod.cmp == PTX_NE || x->mod.cmp == PTX_EQU ||
	       x->mod.cmp == PTX_NEU;
}

/* A register that only ever gets a number that the text has. */
static bool is_constant(const struct lint_fn *f, const struct ptx_opnd *o)
{
	uint32_t r;

	if (o->kind != PTX_REG)
		return o->kind == PTX_IMM;
	r = lint_reg(f, o->cls, o->reg[0]);
	for (uint32_t d = f->def_at[r]; d < f->def_at[r + 1]; d++) {
		const struct ptx_insn *x = &f->fn->insn[f->def[d]];

		if (x->op != PTX_mov || x->o[1].kind != PTX_IMM)
			return false;
	}
	return true;
}

static bool is_nonzero(const struct lint_fn *f, const struct ptx_opnd *o)
{
	return is_constant(f, o) && lint_opnd(f, o).most;
}

static void look_at_compare(const struct slice *s, uint32_t i, struct found *r)
{
	const struct ptx_insn *x = &s->f->fn->insn[i];
	struct lint_value a = lint_opnd(s->f, &x->o[1]), b = lint_opnd(s->f, &x->o[2]);
	const unsigned copied = LINT_POLLED | LINT_COPIED;

	if (!tests_equality(x)) {
		r->ordered |= !is_float(x) && (a.facts | b.facts) & LINT_POLLED &&
		              !((a.facts | b.facts) & LINT_TIME);
		return;
	}
	if ((a.facts & copied) != copied) {
		struct lint_value swap = a;

		a = b;
		b = swap;
	}
	if ((a.facts & copied) != copied)
		return;
	if (is_float(x))
		r->real = i;
	else if (is_nonzero(s->f, &x->o[1]) || is_nonzero(s->f, &x->o[2]))
		r->ordered = true; /* it waits for a word to be written, whatever the word */
	else if (!(b.facts & LINT_POLLED) && !is_constant(s->f, &x->o[1]) &&
	         !is_constant(s->f, &x->o[2]))
		r->equal = i;
}

static void look_at(const struct slice *s, uint32_t i, struct found *r)
{
	const struct ptx_insn *x = &s->f->fn->insn[i];
	struct lint_access access;

	if (!defines(s->f, x, s->reg))
		return;
	if (lint_access(s->f, i, &access) && access.strong && access.kind != LINT_STORE &&
	    x->op != PTX_atom_cas)
		r->load = i;
	for (unsigned k = 0; k < x->nopnd; k++)
		if (!lint_is_dest(x, k) && lint_opnd(s->f, &x->o[k]).facts & LINT_TIME)
			r->bounded = true;
	if (x->op == PTX_OPAQUE && strstr(x->opaque, "clock"))
		r->bounded = true;
	if (compares(x))
		look_at_compare(s, i, r);
}

static void scope_of(struct lint_fn *f, uint32_t load)
{
	struct lint_access a;

	lint_access(f, load, &a);
	if (f->across && a.scope < PTX_SYS && !f->system_load)
		lint_found(f, LINT_SCOPE, load, LINT_NONE);
}

static bool loop_counts(const struct slice *s)
{
	for (uint32_t k = 0; k < s->n; k++)
		if (s->node[k] < s->f->n) {
			const struct ptx_insn *x = &s->f->fn->insn[s->node[k]];

			if (defines(s->f, x, s->reg) && counts(s, x))
				return true;
		}
	return false;
}

static void spin(struct lint_fn *f, const uint32_t *node, uint32_t n, const bool *in)
{
	struct slice s = {.f = f, .node = node, .n = n, .in = in, .reg = f->slice};
	struct found r = {.load = LINT_NONE, .equal = LINT_NONE, .real = LINT_NONE};

	clear(s.reg);
	for (uint32_t k = 0; k < n; k++) {
		uint32_t c = node[k] < f->n ? exit_condition(&s, node[k]) : LINT_NONE;

		if (c != LINT_NONE)
			mark(s.reg, c);
	}
	if (!close_slice(&s, s.reg))
		return;
	for (uint32_t k = 0; k < n; k++)
		if (node[k] < f->n)
			look_at(&s, node[k], &r);
	if (r.load == LINT_NONE)
		return;
	if (r.real != LINT_NONE)
		lint_found(f, LINT_FLOAT_SENTINEL, r.real, r.load);
	if (!r.bounded && !loop_counts(&s))
		lint_found(f, LINT_SPIN, r.load, LINT_NONE);
	if (r.equal != LINT_NONE && !r.ordered)
		lint_found(f, LINT_EPOCH, r.equal, r.load);
	scope_of(f, r.load);
}

void lint_spins(struct lint_fn *f)
{
	f->slice = new_set(f);
	f->cycle = new_set(f);
	lint_loops(f, spin);
}
