/*
 * Elementwise operations in PTX: lower_ID for each ELEM row of ir/ops.def, on f32 registers and
 * predicates.
 *
 * The bits are fixed (round to nearest even) unless ops.def gives a bound; the approximations'
 * error budgets are beside them (PTX ISA 9.1, section 9.7.3).
 */
#include "codegen/emit.h"
#include <math.h>

typedef struct ptx_opnd op;
typedef struct cg_emit em;

#define F32   PTX_T_f32
#define RN    ptx_MODS(.round = PTX_RN)
#define LOG2E 0x1.715476p+0f
#define LN2HI 0x1.62ep-1f     /* 12 bits: n * LN2HI is exact for |n| < 4096 */
#define LN2LO 0x1.0bfbe8p-15f /* ln 2 - LN2HI */

static op k(float v)
{
	return ptx_f32(v);
}

static op lower_neg(em *e, const op *s)
{
	return ptx_negf(e->f, F32, s[0]);
}

static op lower_abs(em *e, const op *s)
{
	return ptx_absf(e->f, F32, s[0]);
}

static op lower_add(em *e, const op *s)
{
	return ptx_addf(e->f, F32, s[0], s[1]);
}

static op lower_sub(em *e, const op *s)
{
	return ptx_subf(e->f, F32, s[0], s[1]);
}

static op lower_mul(em *e, const op *s)
{
	return ptx_mulf(e->f, F32, s[0], s[1]);
}

static op lower_div(em *e, const op *s)
{
	return ptx_divf_m(e->f, RN, F32, s[0], s[1]);
}

static op lower_min(em *e, const op *s)
{
	return ptx_minf(e->f, F32, s[0], s[1]);
}

static op lower_max(em *e, const op *s)
{
	return ptx_maxf(e->f, F32, s[0], s[1]);
}

static op lower_fma(em *e, const op *s)
{
	return ptx_fma(e->f, F32, s[0], s[1], s[2]);
}

static op lower_sqrt(em *e, const op *s)
{
	return ptx_sqrtf_m(e->f, RN, F32, s[0]);
}

/* 2^-22.9 relative: below 3 ulp. */
static op lower_rsqrt(em *e, const op *s)
{
	return ptx_rsqrt(e->f, F32, s[0]);
}

/* 2^n for -254 <= n <= 254 as a product of two factors, so that subnormal results are rounded once.
 */
static op scale(em *e, op v, op n)
{
	struct ptx_fn *f = e->f;
	op half = ptx_shr(f, PTX_T_s32, n, ptx_imm(1)), rest = ptx_sub(f, PTX_T_s32, n, half);
	op part[2] = {half, rest};

	for (unsigned i = 0; i < 2; i++) {
		op bits = ptx_shl(f, PTX_T_b32, ptx_add(f, PTX_T_s32, part[i], ptx_imm(127)),
		                  ptx_imm(23));

		v = ptx_mulf(f, F32, v, cg_bits_to_f32(e, bits));
	}
	return v;
}

/*
 * e^a = 2^n * 2^(r * log2 e), r = a - n * ln 2, |r| <= 0.35 (Cody and Waite): 2 ulp of ex2 and less
 * than one of the rest.  Beyond [-104, 89] the result is 0 or infinite; comparisons are false for a
 * NaN, which so reaches ex2.
 */
static op lower_exp(em *e, const op *s)
{
	struct ptx_fn *f = e->f;
	op a = s[0], n, whole, r;

	a = ptx_selp(f, F32, k(-104.0f), a, ptx_setp(f, PTX_LT, F32, a, k(-104.0f)));
	a = ptx_selp(f, F32, k(89.0f), a, ptx_setp(f, PTX_GT, F32, a, k(89.0f)));
	n = ptx_cvt_m(f, ptx_MODS(.round = PTX_RNI), PTX_T_s32, F32, ptx_mulf(f, F32, a, k(LOG2E)));
	whole = ptx_cvt_m(f, RN, F32, PTX_T_s32, n);
	r = ptx_fma(f, F32, whole, k(-LN2HI), a);
	r = ptx_fma(f, F32, whole, k(-LN2LO), r);
	return scale(e, ptx_ex2(f, F32, ptx_mulf(f, F32, r, k(LOG2E))), n);
}

/* lg2's 2^-22 absolute in (0.5, 2) and relative outside, times ln 2: within 4 ulp + 2^-21. */
static op lower_log(em *e, const op *s)
{
	return ptx_mulf(e->f, F32, ptx_lg2(e->f, F32, s[0]), k(0x1.62e43p-1f));
}

/*
 * tanh |a| = (1 - t) / (1 + t), t = e^(-2|a|) <= 1.  The argument's rounding moves t by at most
 * 2|a| e^(-2|a|) 2^-24; with ex2 and rcp the result is within 2^-21.  The sign is put back as a
 * bit.
 */
static op lower_tanh(em *e, const op *s)
{
	struct ptx_fn *f = e->f;
	op t = ptx_ex2(f, F32, ptx_mulf(f, F32, ptx_absf(f, F32, s[0]), k(-2.0f * LOG2E)));
	op below = ptx_rcp_approx(f, ptx_addf(f, F32, t, k(1.0f)));
	op y = ptx_mulf(f, F32, ptx_subf(f, F32, k(1.0f), t), below);
	op sign = ptx_and(f, PTX_T_b32, ptx_mov(f, PTX_T_b32, s[0]), ptx_imm(INT64_C(0x80000000)));

	return cg_bits_to_f32(e, ptx_or(f, PTX_T_b32, ptx_mov(f, PTX_T_b32, y), sign));
}

/* e^-a has 4 ulp, the sum half, rcp one.  e^-a infinite gives 0, off by less than 2^-126. */
static op lower_sigmoid(em *e, const op *s)
{
	op minus = ptx_negf(e->f, F32, s[0]);

	return ptx_rcp_approx(e->f, ptx_addf(e->f, F32, lower_exp(e, &minus), k(1.0f)));
}

static op lower_lt(em *e, const op *s)
{
	return ptx_setp(e->f, PTX_LT, F32, s[0], s[1]);
}

static op lower_le(em *e, const op *s)
{
	return ptx_setp(e->f, PTX_LE, F32, s[0], s[1]);
}

static op lower_gt(em *e, const op *s)
{
	return ptx_setp(e->f, PTX_GT, F32, s[0], s[1]);
}

static op lower_ge(em *e, const op *s)
{
	return ptx_setp(e->f, PTX_GE, F32, s[0], s[1]);
}

static op lower_eq(em *e, const op *s)
{
	return ptx_setp(e->f, PTX_EQ, F32, s[0], s[1]);
}

/* A NaN differs from everything. */
static op lower_ne(em *e, const op *s)
{
	return ptx_setp(e->f, PTX_NEU, F32, s[0], s[1]);
}

static op lower_select(em *e, const op *s)
{
	return ptx_selp(e->f, F32, s[1], s[2], s[0]);
}

/* The operand's bits: to f32 (it is one already), expand, a slice.  Narrow results are made in
 * pairs (value.c). */
static op lower_cast(em *e, const op *s)
{
	(void)e;
	return s[0];
}

static op (*const lower[IR_NOPS])(em *, const op *) = {
        [IR_OP_NEG] = lower_neg,
        [IR_OP_ABS] = lower_abs,
        [IR_OP_EXP] = lower_exp,
        [IR_OP_LOG] = lower_log,
        [IR_OP_SQRT] = lower_sqrt,
        [IR_OP_RSQRT] = lower_rsqrt,
        [IR_OP_TANH] = lower_tanh,
        [IR_OP_SIGMOID] = lower_sigmoid,
        [IR_OP_ADD] = lower_add,
        [IR_OP_SUB] = lower_sub,
        [IR_OP_MUL] = lower_mul,
        [IR_OP_DIV] = lower_div,
        [IR_OP_MIN] = lower_min,
        [IR_OP_MAX] = lower_max,
        [IR_OP_FMA] = lower_fma,
        [IR_OP_LT] = lower_lt,
        [IR_OP_LE] = lower_le,
        [IR_OP_GT] = lower_gt,
        [IR_OP_GE] = lower_ge,
        [IR_OP_EQ] = lower_eq,
        [IR_OP_NE] = lower_ne,
        [IR_OP_SELECT] = lower_select,
        [IR_OP_CAST] = lower_cast,
        [IR_OP_EXPAND] = lower_cast,
        [IR_OP_SLICE] = lower_cast,
        /* of rows and groups of one element */
        [IR_OP_ROW_SUM] = lower_cast,
        [IR_OP_ROW_MEAN] = lower_cast,
        [IR_OP_ROW_DOT] = lower_mul,
        [IR_OP_ROW_MAX] = lower_cast,
        [IR_OP_ROW_MIN] = lower_cast,
        [IR_OP_GROUP_SUM] = lower_cast,
        [IR_OP_GROUP_MEAN] = lower_cast,
        [IR_OP_GROUP_MAX] = lower_cast,
        [IR_OP_GROUP_MIN] = lower_cast,
};

struct ptx_opnd cg_lower(struct cg_emit *e, const struct ir_value *v, const struct ptx_opnd *s)
{
	return lower[v->op](e, s);
}
