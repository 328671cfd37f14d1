/*
 * What registers stem from.  Not by paths: every instruction adds to what its destinations may
 * hold, until nothing is added.  Compilers give a variable a register of its own, so little is lost.
 */
#include "codegen/ptx/spell.h"
#include "lint/internal.h"
#include <string.h>

/* Grids that are seen: of kernels that stride, and of those with a CTA a row; a thread of either has a 32-bit
 * number. */
enum { MOST_CTAS = 1 << 16, MOST_CTA = (1 << 22) - 1 };
enum { MOST_THREADS = 1024, MOST_PASSES = 64, WIDEN_AFTER = 4 };

const char *lint_shape(const struct ptx_insn *i)
{
	static const char opaque[] = "dABCDE";

	return i->op == PTX_OPAQUE ? opaque : ptx_shape((enum ptx_op)i->op);
}

bool lint_is_dest(const struct ptx_insn *i, unsigned operand)
{
	char c = operand < i->nopnd ? lint_shape(i)[operand] : 'A';

	return c == 'd' || c == 'p' || c == 'q';
}

uint32_t lint_reg(const struct lint_fn *f, unsigned cls, uint32_t number)
{
	return number == PTX_SINK ? f->nreg : f->first_reg[cls] + number;
}

unsigned lint_regs(const struct ptx_opnd *o)
{
	return o->kind == PTX_VEC ? o->n : o->kind == PTX_REG;
}

/* ---- roots ---- */

static uint64_t root_of(struct lint_fn *f, const char *param, int64_t off)
{
	unsigned k = 0;

	while (k < f->nroot && (f->root[k].off != off || strcmp(f->root[k].param, param)))
		k++;
	if (k == LINT_ROOTS)
		return 0;
	if (k == f->nroot)
		f->root[f->nroot++] = (struct lint_root){param, off};
	return UINT64_C(1) << k;
}

static struct lint_value special(enum ptx_special s)
{
	struct lint_value v = {.most = UINT32_MAX};

	if (s <= PTX_TID_Z || s == PTX_LANEID || s == PTX_WARPID) {
		v.facts = LINT_THREAD;
		v.most = MOST_THREADS - 1;
	} else if (s <= PTX_NTID_Z || s == PTX_NWARPID) {
		v.most = MOST_THREADS;
	} else if (s <= PTX_CTAID_Z) {
		v.most = MOST_CTA;
	} else if (s <= PTX_NCTAID_Z || s == PTX_SMID) {
		v.most = MOST_CTAS;
	} else if (s == PTX_CLOCK64 || s == PTX_GLOBALTIMER) {
		v.facts = LINT_TIME;
	}
	return v;
}

static void add(struct lint_value *to, struct lint_value v)
{
	to->roots |= v.roots;
	to->facts |= v.facts;
	to->product |= v.product;
	if (v.most > to->most)
		to->most = v.most;
}

struct lint_value lint_opnd(const struct lint_fn *f, const struct ptx_opnd *o)
{
	struct lint_value v = {0};

	switch (o->kind) {
	case PTX_REG:
	case PTX_VEC:
		for (unsigned k = 0; k < lint_regs(o); k++)
			add(&v, f->reg[lint_reg(f, o->cls, o->reg[k])]);
		break;
	case PTX_MEM:
		if (o->sym)
			v.facts = LINT_SHARED;
		else
			v = f->reg[lint_reg(f, o->cls, o->reg[0])];
		break;
	case PTX_IMM:
		v.most = (uint64_t)o->imm > UINT32_MAX ? UINT32_MAX : (uint64_t)o->imm;
		break;
	case PTX_SYM:
		v.facts = LINT_SHARED;
		break;
	case PTX_SPEC:
		v = special((enum ptx_special)o->reg[0]);
		break;
	default:
		break;
	}
	return v;
}

/* ---- accesses ---- */

static bool global(const struct lint_fn *f, const struct ptx_insn *x, unsigned k)
{
	enum ptx_space s = ptx_opnd_space(x, k);
	const struct ptx_opnd *o = &x->o[k];
	struct lint_value v = lint_opnd(f, o);

	if (s == PTX_GENERIC)
		return o->kind == PTX_MEM && !o->sym && (v.roots || !(v.facts & LINT_SHARED));
	return s == PTX_GLOBAL;
}

static enum lint_kind kind_of(enum ptx_op op)
{
	static const uint8_t kind[PTX_NOPS] = {
	        [PTX_ld] = LINT_LOAD,          [PTX_st] = LINT_STORE,
	        [PTX_atom] = LINT_RMW,         [PTX_atom_cas] = LINT_RMW,
	        [PTX_atom_exch] = LINT_RMW,    [PTX_red] = LINT_RMW,
	        [PTX_mm_ld] = LINT_LOAD,       [PTX_mm_st] = LINT_STORE,
	        [PTX_mm_red] = LINT_RMW,       [PTX_bulk_ld] = LINT_LOAD,
	        [PTX_bulk_ld_cta] = LINT_LOAD, [PTX_bulk_st] = LINT_STORE,
	};

	return op < PTX_NOPS ? (enum lint_kind)kind[op] : LINT_NO_ACCESS;
}

bool lint_access(const struct lint_fn *f, uint32_t i, struct lint_access *x)
{
	const struct ptx_insn *in = &f->fn->insn[i];
	const char *shape;
	unsigned k = 0;

	*x = (struct lint_access){.kind = kind_of((enum ptx_op)in->op)};
	if (x->kind == LINT_NO_ACCESS)
		return false;
	shape = lint_shape(in);
	while (shape[k] != 'M')
		k++;
	if (ptx_opnd_space(in, k) == PTX_SHARED && in->op != PTX_ld && in->op != PTX_st)
		k++;
	if (k >= in->nopnd || !global(f, in, k))
		return false;
	x->opnd = k;
	x->multimem = in->op == PTX_mm_ld || in->op == PTX_mm_st || in->op == PTX_mm_red;
	x->nc = in->mod.nc;
	x->strong = in->mod.order > PTX_WEAK || (x->kind == LINT_RMW && in->mod.order != PTX_WEAK);
	x->release = in->mod.order == PTX_RELEASE || in->mod.order == PTX_ACQ_REL;
	x->acquire = in->mod.order == PTX_ACQUIRE || in->mod.order == PTX_ACQ_REL;
	x->scope = (enum ptx_scope)in->mod.scope;
	if (in->mod.order == PTX_VOLATILE)
		x->scope = PTX_SYS; /* relaxed.sys, by definition */
	else if (x->strong && !x->scope)
		x->scope = PTX_GPU; /* the default of atomics */
	return true;
}

/* ---- transfer ---- */

static bool is_copy(const struct ptx_insn *x)
{
	return x->op == PTX_mov || x->op == PTX_cvt || x->op == PTX_cvta || x->op == PTX_cvta_to;
}

/* The product may pass 2^32: both factors unknown, or one large. */
static bool overflows(const struct lint_fn *f, const struct ptx_insn *x)
{
	uint64_t a = lint_opnd(f, &x->o[1]).most, b = lint_opnd(f, &x->o[2]).most;

	return a && b && a > UINT32_MAX / b;
}

static bool is_32(const struct ptx_insn *x)
{
	return x->type == PTX_T_u32 || x->type == PTX_T_s32 || x->type == PTX_T_b32;
}

static uint64_t limit(uint64_t v)
{
	return v > UINT32_MAX ? UINT32_MAX : v;
}

/* Upper bounds of 32-bit arithmetic, and products that may wrap. */
static void bound(const struct lint_fn *f, const struct ptx_insn *x, struct lint_value *v)
{
	uint64_t a, b;

	if (x->op == PTX_OPAQUE || x->nopnd < 3) {
		if (!is_copy(x))
			v->most = UINT32_MAX;
		return;
	}
	a = lint_opnd(f, &x->o[1]).most;
	b = lint_opnd(f, &x->o[2]).most;
	switch (x->op) {
	case PTX_add:
		v->most = limit(a + b);
		break;
	case PTX_and:
	case PTX_min:
		v->most = a < b ? a : b;
		break;
	case PTX_mul:
	case PTX_mad:
		v->most = b && a > UINT32_MAX / b ? UINT32_MAX : a * b;
		v->product |= is_32(x) && x->mod.half == PTX_LOW && overflows(f, x);
		if (x->op == PTX_mad)
			v->most = limit(v->most + lint_opnd(f, &x->o[3]).most);
		break;
	case PTX_shl:
		v->most = b >= 32 ? UINT32_MAX : limit(a << b);
		v->product |= is_32(x) && b < 32 && a << b > UINT32_MAX;
		break;
	case PTX_shr:
	case PTX_div:
	case PTX_rem:
		v->most = x->op == PTX_rem && b ? (b - 1 < a ? b - 1 : a) : a;
		break;
	default:
		v->most = UINT32_MAX;
	}
}

/* Widened: what was a 32-bit product goes on as part of an address. */
static void widen(const struct ptx_insn *x, struct lint_value *v)
{
	bool wide = x->op == PTX_cvt && ptx_type_info[x->type].bits == 64 &&
	            x->mod.type2 < PTX_NTYPES && ptx_type_info[x->mod.type2].bits == 32;

	wide |= (x->op == PTX_mul || x->op == PTX_mad) && x->mod.half == PTX_WIDE;
	if (!wide)
		return;
	if (v->product)
		v->facts |= LINT_WIDENED;
	v->product = false;
}

static struct lint_value transfer(struct lint_fn *f, uint32_t i)
{
	const struct ptx_insn *x = &f->fn->insn[i];
	struct lint_value v = {0};
	struct lint_access access;

	if (x->op == PTX_ld && x->mod.space == PTX_PARAM) {
		v.most = UINT32_MAX;
		if (ptx_type_info[x->type].bits == 64 && x->o[1].sym && x->o[0].kind == PTX_REG)
			v.roots = root_of(f, x->o[1].sym, x->o[1].imm);
		return v;
	}
	if (kind_of((enum ptx_op)x->op) != LINT_NO_ACCESS) {
		v.most = UINT32_MAX;
		if (lint_access(f, i, &access) && access.strong)
			v.facts = LINT_POLLED | LINT_COPIED;
		return v;
	}
	for (unsigned k = 0; k < x->nopnd; k++)
		if (!lint_is_dest(x, k))
			add(&v, lint_opnd(f, &x->o[k]));
	if (!is_copy(x))
		v.facts &= (uint8_t)~LINT_COPIED;
	if (x->op == PTX_OPAQUE && (strstr(x->opaque, "clock") || strstr(x->opaque, "timer")))
		v.facts |= LINT_TIME;
	bound(f, x, &v);
	if (!is_copy(x) && x->op != PTX_add && x->op != PTX_shl && x->op != PTX_mul &&
	    x->op != PTX_mad)
		v.product = false;
	widen(x, &v);
	if (x->nopnd && x->o[0].cls == PTX_C_PRED)
		v.roots = 0;
	return v;
}

/* A bound that still grows after some passes is of a loop, and unknown. */
static bool put(struct lint_value *to, struct lint_value v, unsigned passes)
{
	struct lint_value old = *to;

	add(to, v);
	if (to->most != old.most && passes > WIDEN_AFTER)
		to->most = UINT32_MAX;
	return to->roots != old.roots || to->facts != old.facts || to->most != old.most ||
	       to->product != old.product;
}

static bool pass(struct lint_fn *f, unsigned passes)
{
	bool changed = false;

	for (uint32_t i = 0; i < f->n; i++) {
		const struct ptx_insn *x = &f->fn->insn[i];
		struct lint_value v = transfer(f, i);

		for (unsigned k = 0; k < x->nopnd; k++) {
			const struct ptx_opnd *o = &x->o[k];

			for (unsigned e = 0; lint_is_dest(x, k) && e < lint_regs(o); e++)
				if (o->reg[e] != PTX_SINK)
					changed |= put(&f->reg[lint_reg(f, o->cls, o->reg[e])], v,
					               passes);
		}
	}
	return changed;
}

/* What is done with the memory behind each root. */
static void uses(struct lint_fn *f)
{
	struct lint_access x;

	for (uint32_t i = 0; i < f->n; i++) {
		const struct ptx_insn *in = &f->fn->insn[i];
		uint64_t roots;

		if (in->op == PTX_fence && in->mod.scope == PTX_SYS)
			f->across = true;
		if (!lint_access(f, i, &x))
			continue;
		roots = lint_opnd(f, &in->o[x.opnd]).roots;
		if (x.multimem)
			f->multicast |= roots;
		if (x.kind != LINT_LOAD)
			f->written |= roots;
		if (x.strong && x.scope == PTX_SYS) {
			f->system_load |= x.kind == LINT_LOAD;
			f->system_release |= x.kind != LINT_LOAD;
		}
		if (x.strong)
			f->strong |= roots;
		f->across |= x.multimem || (x.strong && x.scope == PTX_SYS);
	}
}

/* Calls each for every register that an instruction writes. */
static void each_def(struct lint_fn *f, void (*each)(struct lint_fn *f, uint32_t reg, uint32_t i))
{
	for (uint32_t i = 0; i < f->n; i++) {
		const struct ptx_insn *x = &f->fn->insn[i];

		for (unsigned k = 0; k < x->nopnd; k++)
			for (unsigned e = 0; lint_is_dest(x, k) && e < lint_regs(&x->o[k]); e++)
				if (x->o[k].reg[e] != PTX_SINK)
					each(f, lint_reg(f, x->o[k].cls, x->o[k].reg[e]), i);
	}
}

static void count_def(struct lint_fn *f, uint32_t reg, uint32_t i)
{
	(void)i;
	f->def_at[reg + 2]++;
}

static void put_def(struct lint_fn *f, uint32_t reg, uint32_t i)
{
	f->def[f->def_at[reg + 1]++] = i;
}

static void definitions(struct lint_fn *f)
{
	/* Counted two places up, so that filling moves each start to where it belongs. */
	f->def_at = arena_news(f->a, uint32_t, f->nreg + 3);
	each_def(f, count_def);
	for (uint32_t r = 1; r < f->nreg + 3; r++)
		f->def_at[r] += f->def_at[r - 1];
	f->def = arena_news(f->a, uint32_t, f->def_at[f->nreg + 2] + 1);
	each_def(f, put_def);
}

void lint_flow(struct lint_fn *f)
{
	f->nreg = 0;
	for (unsigned c = 0; c < PTX_NCLASSES; c++) {
		f->first_reg[c] = f->nreg;
		f->nreg += f->fn->nreg[c];
	}
	f->reg = arena_news(f->a, struct lint_value, f->nreg + 1); /* the last: of a sink */
	for (unsigned n = 0; n < MOST_PASSES && pass(f, n); n++)
		;
	definitions(f);
	uses(f);
}
