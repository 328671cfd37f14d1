/*
 * Evaluation: which registers hold a value's elements, and making them in the order of the program,
 * pair by pair.
 *
 * Values of 16 bits are kept as the pairs they came in, and widened where they are used.
 */
#include "codegen/emit.h"
#include "codegen/wide.h"

void cg_at(struct cg_emit *e, const struct cg_value *v)
{
	ptx_loc(e->f, v->loc_line, v->loc_col);
}

struct ptx_opnd cg_bits_to_f32(struct cg_emit *e, struct ptx_opnd word)
{
	struct ptx_opnd x = ptx_reg(e->f, PTX_C_F32);

	ptx_put_mov(e->f, PTX_T_b32, x, word);
	return x;
}

struct ptx_opnd cg_in_register(struct cg_emit *e, struct ptx_opnd x)
{
	return x.kind == PTX_IMM ? ptx_mov(e->f, PTX_T_f32, x) : x;
}

/* bf16 is the upper half of an f32. */
struct ptx_opnd cg_widen(struct cg_emit *e, unsigned dtype, struct ptx_opnd word, bool upper)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd half[2], bits;

	if (dtype == IR_BF16 && word.cls == PTX_C_B16) {
		half[0] = ptx_mov(f, PTX_T_b16, ptx_imm(0));
		half[1] = word;
		bits = ptx_mov(f, PTX_T_b32, ptx_vec_of(half, 2));
		return cg_bits_to_f32(e, bits);
	}
	if (dtype == IR_BF16) {
		bits = upper ? ptx_and(f, PTX_T_b32, word, ptx_imm(INT64_C(0xffff0000)))
		             : ptx_shl(f, PTX_T_b32, word, ptx_imm(16));
		return cg_bits_to_f32(e, bits);
	}
	if (word.cls != PTX_C_B16) {
		half[0] = ptx_reg(f, PTX_C_B16);
		half[1] = ptx_reg(f, PTX_C_B16);
		ptx_put_mov(f, PTX_T_b32, ptx_vec_of(half, 2), word);
		word = half[upper];
	}
	return ptx_cvt(f, PTX_T_f32, PTX_T_f16, word);
}

struct ptx_opnd cg_narrow(struct cg_emit *e, unsigned dtype, struct ptx_opnd upper,
                          struct ptx_opnd lower)
{
	return ptx_cvt2(e->f, dtype == IR_BF16 ? PTX_T_bf16x2 : PTX_T_f16x2, PTX_T_f32, upper,
	                lower);
}

static bool by_element(const struct cg_value *v)
{
	return v->home == CG_HOME_ELEM || v->home == CG_HOME_WEIGHT;
}

struct ptx_opnd cg_get(struct cg_emit *e, struct cg_value *v, unsigned vec, unsigned elem)
{
	unsigned at = by_element(v) ? vec * v->n + (v->n > 1 ? elem / v->ratio : 0) : 0;

	if (v->home == CG_HOME_CONST)
		return ptx_f32((float)v->ir->num);
	if (v->f[at].kind == PTX_NONE && v->half) {
		struct ptx_opnd word = v->n > 1 ? v->w[at / 2] : v->w[at];

		v->f[at] = cg_widen(e, v->ir->type.dtype, word, v->n > 1 && at % 2);
	}
	return v->f[at];
}

/* Elements 2 * pair and 2 * pair + 1 (of the value's own) as 16 bits each. */
struct ptx_opnd cg_get_pair(struct cg_emit *e, struct cg_value *v, unsigned dtype, unsigned vec,
                            unsigned pair)
{
	struct ptx_opnd s[2];

	if (v->half && v->ir->type.dtype == dtype && v->n > 1)
		return v->w[vec * v->n / 2 + pair];
	for (unsigned i = 0; i < 2; i++)
		s[i] = cg_in_register(
		        e, cg_get(e, v, vec, (2 * pair + i) * (by_element(v) ? v->ratio : 1)));
	return cg_narrow(e, dtype, s[1], s[0]);
}

static struct ptx_opnd element(struct cg_emit *e, const struct cg_value *v, unsigned vec,
                               unsigned elem)
{
	struct ptx_opnd s[3];

	for (unsigned i = 0; i < v->ir->nsrc && i < 3; i++)
		s[i] = cg_get(e, cg_value_of(v->ir->src[i]), vec, elem);
	/* An operation on immediates alone needs one in a register. */
	if (v->ir->nsrc)
		s[0] = cg_in_register(e, s[0]);
	return cg_lower(e, v->ir, s);
}

struct ptx_opnd cg_rounded(struct cg_emit *e, unsigned dtype, struct ptx_opnd x)
{
	struct ptx_opnd zero = ptx_mov(e->f, PTX_T_f32, ptx_f32(0.0f));

	return cg_widen(e, dtype, cg_narrow(e, dtype, zero, x), false);
}

static void eval_scalar(struct cg_emit *e, struct cg_value *v)
{
	unsigned t = v->ir->type.dtype;

	cg_at(e, v);
	v->f[0] = element(e, v, 0, 0);
	if (t == IR_BF16 || t == IR_F16)
		v->f[0] = cg_rounded(e, t, v->f[0]);
}

static bool computed(const struct cg_value *v)
{
	return v->used && !v->reduces && !cg_is_load(v->ir) && !cg_is_constant(v->ir) &&
	       v->ir->op != IR_OP_CONST;
}

void cg_eval_uniform(struct cg_emit *e)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		if (v->home != CG_HOME_UNIFORM || !v->used)
			continue;
		if (cg_is_constant(v->ir))
			cg_load_uniform(e, v);
		else
			eval_scalar(e, v);
	}
}

/* A row's prefetched scalar is copied out of the slot, which the next row is loaded into. */
static void take_scalar(struct cg_emit *e, struct cg_value *v)
{
	unsigned t = v->ir->type.dtype;

	cg_at(e, v);
	v->f[0] = t == IR_F32 ? ptx_mov(e->f, PTX_T_f32, v->w[0]) : cg_widen(e, t, v->w[0], false);
}

void cg_eval_row(struct cg_emit *e, unsigned level)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		if (v->home == CG_HOME_ROW && v->used && level == 0 && cg_in_slot(v))
			take_scalar(e, v);
		if (v->home == CG_HOME_ROW && v->level == level && computed(v))
			eval_scalar(e, v);
	}
}

/* Narrow results: two neighbours at a time. */
static void eval_half(struct cg_emit *e, struct cg_value *v, unsigned vec, unsigned first,
                      unsigned n)
{
	for (unsigned i = first; i < first + n; i += 2) {
		struct ptx_opnd lower = element(e, v, vec, i * v->ratio), upper;

		if (v->n > 1)
			upper = element(e, v, vec, (i + 1) * v->ratio);
		else
			upper = ptx_mov(e->f, PTX_T_f32, ptx_f32(0.0f));
		lower = cg_in_register(e, lower);
		upper = cg_in_register(e, upper);
		v->w[v->n > 1 ? (vec * v->n + i) / 2 : vec] =
		        cg_narrow(e, v->ir->type.dtype, upper, lower);
	}
}

/* A value of one element per group is made with the vector's first pair: its operands are per
 * group, too. */
static void eval_elements(struct cg_emit *e, struct cg_value *v, unsigned vec, unsigned pair)
{
	unsigned first = v->ratio == 1 ? 2 * pair : 0, n = v->ratio == 1 ? 2 : v->n;

	if (v->ratio > 1 && pair > 0)
		return;
	cg_at(e, v);
	if (v->half) {
		eval_half(e, v, vec, first, n);
		return;
	}
	for (unsigned i = first; i < first + n; i++)
		v->f[vec * v->n + i] = element(e, v, vec, i * v->ratio);
}

static bool made_in(const struct cg_emit *e, const struct cg_value *v, unsigned level)
{
	bool again = v->home == CG_HOME_WEIGHT || (e->p->wide && cg_wide_again(e->p, e->rp, v));

	return again ? v->used >> level & 1 : v->first == level;
}

void cg_eval_pair(struct cg_emit *e, unsigned level, unsigned vec, unsigned pair)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		if (!by_element(v) || !v->used || !made_in(e, v, level))
			continue;
		if (cg_is_constant(v->ir) && pair == 0)
			cg_load_weight(e, v, vec);
		else if (computed(v))
			eval_elements(e, v, vec, pair);
	}
}

static void clear(struct ptx_opnd *o, unsigned n)
{
	for (unsigned i = 0; o && i < n; i++)
		o[i].kind = PTX_NONE;
}

void cg_forget(struct cg_emit *e, unsigned level)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];
		unsigned n = e->p->vecs * v->n;
		bool keep = cg_value_held(v, level) || cg_in_slot(v);

		if (!by_element(v))
			continue;
		if (e->p->wide && v->home == CG_HOME_ELEM) {
			cg_wide_forget(e, v, level);
			continue;
		}
		if (v->half)
			clear(v->f, n);
		if (!keep)
			clear(v->half ? v->w : v->f, n);
	}
}
