/*
 * Division, roots and the approximate functions of f32.  Approximate ones give the correctly
 * rounded value, or with perturb_approx a value within the documented bound: which one depends on
 * the seed, the operation and the operands only, since on hardware, too, equal operands give equal
 * results.
 */
#include "sim/exec.h"
#include "sim/lanes.h"
#include "sim/num.h"
#include <math.h>

struct fn {
	double (*f)(double x, double y);
	int ulps;        /* a perturbed result is at most so many places away */
	double relative; /* and at most this, before the rounding to f32; 0: no relative bound */
};

static double f_div(double x, double y)
{
	return x / y;
}

static double f_rcp(double x, double y)
{
	(void)y;
	return 1 / x;
}

static double f_sqrt(double x, double y)
{
	(void)y;
	return sqrt(x);
}

static double f_rsqrt(double x, double y)
{
	(void)y;
	return 1 / sqrt(x);
}

static double f_ex2(double x, double y)
{
	(void)y;
	return exp2(x);
}

static double f_lg2(double x, double y)
{
	(void)y;
	return log2(x);
}

static double f_tanh(double x, double y)
{
	(void)y;
	return tanh(x);
}

/* A number in [-1, 1], from a hash. */
static double spread(uint64_t h)
{
	return (double)(int64_t)(h & ((UINT64_C(1) << 40) - 1)) / (double)(UINT64_C(1) << 39) - 1;
}

/* Moves a finite, nonzero result by k places; never to another sign, zero or infinity. */
static uint32_t nudge(uint32_t u, int k)
{
	uint32_t mag = u & 0x7fffffffu, to = mag + (uint32_t)k;

	if (mag == 0 || mag >= 0x7f800000u || to == 0 || to >= 0x7f800000u || to > 0x7fffffffu)
		return u;
	return (u & 0x80000000u) | to;
}

static uint32_t perturb(const struct sim *s, const struct sim_op *op, const struct fn *fn, double r,
                        uint32_t x, uint32_t y)
{
	uint64_t h = sim_mix(sim_mix(sim_mix(s->o.seed, op->insn->op), x), y);
	uint32_t u;

	if (!isfinite(r) || r == 0)
		return num_bits((float)r);
	if (fn->relative != 0)
		return num_bits((float)(r * (1 + spread(h) * fn->relative)));
	u = num_bits((float)r);
	if (fn->ulps == 1) { /* the other neighbour of r */
		int side = fabs((double)num_float(u)) > fabs(r) ? -1 : 1;

		return h & 1 && (double)num_float(u) != r ? nudge(u, side) : u;
	}
	return nudge(u, (int)(h % 3) - 1);
}

static enum sim_step apply(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                           uint32_t mask, const struct fn *fn)
{
	const uint32_t *a = sim_src(w, op->a), *b = sim_src(w, op->b);
	uint32_t *d = sim_reg(w, op->d);
	const bool flush = op->insn->mod.ftz, off = s->o.perturb_approx;
	const bool binary = op->insn->nopnd > 2; /* else b is no operand and must not count */

	SIM_EACH (i, mask) {
		uint32_t x = flush ? num_flush(a[i]) : a[i], u;
		uint32_t y = !binary ? 0 : flush ? num_flush(b[i]) : b[i];
		double r = fn->f((double)num_float(x), (double)num_float(y));

		u = off ? perturb(s, op, fn, r, x, y) : num_bits((float)r);
		u = num_canonical(u);
		d[i] = flush ? num_flush(u) : u;
	}
	return SIM_STEP_NEXT;
}

/*
 * .rn, .rz, .rm, .rp of a quotient or root: `check` is the exact remainder's sign, which says on
 * which side of r the true value is.
 */
static enum sim_step directed(struct sim_warp *w, const struct sim_op *op, uint32_t mask, bool root)
{
	const uint32_t *a = sim_src(w, op->a), *b = sim_src(w, op->b);
	uint32_t *d = sim_reg(w, op->d);
	const bool flush = op->insn->mod.ftz;

	SIM_EACH (i, mask) {
		double x = (double)num_float(flush ? num_flush(a[i]) : a[i]);
		double y = (double)num_float(flush ? num_flush(b[i]) : b[i]), r, err = 0;
		uint32_t u;

		if (op->insn->op == PTX_rcpf) {
			y = x;
			x = 1;
		}
		r = root ? sqrt(x) : x / y;
		if (isfinite(r) && r != 0)
			err = root ? fma(-r, r, x) : copysign(1, y) * fma(-r, y, x);
		u = (uint32_t)num_round(NUM_F32, r, err, op->insn->mod.round);
		d[i] = flush ? num_flush(u) : u;
	}
	return SIM_STEP_NEXT;
}

/* 2^-22.9 and 2^-11, less the half place that rounding to f32 may add. */
static const struct fn fn_div = {f_div, 2, 0}, fn_rcp = {f_rcp, 1, 0}, fn_sqrt = {f_sqrt, 1, 0};
static const struct fn fn_rsqrt = {f_rsqrt, 1, 6.8e-8}, fn_ex2 = {f_ex2, 2, 0};
static const struct fn fn_lg2 = {f_lg2, 1, 1.7e-7}, fn_tanh = {f_tanh, 1, 4.8e-4};

#define ROUNDED(ID, FN, ROOT)                                                               \
	enum sim_step exec_##ID(struct sim *s, struct sim_warp *w, const struct sim_op *op, \
	                        uint32_t mask)                                              \
	{                                                                                   \
		if (op->insn->mod.approx == PTX_A_NONE)                                     \
			return directed(w, op, mask, ROOT);                                 \
		return apply(s, w, op, mask, &FN);                                          \
	}
ROUNDED(divf, fn_div, false)
ROUNDED(rcpf, fn_rcp, false)
ROUNDED(sqrtf, fn_sqrt, true)

#define APPROXIMATE(ID, FN)                                                                 \
	enum sim_step exec_##ID(struct sim *s, struct sim_warp *w, const struct sim_op *op, \
	                        uint32_t mask)                                              \
	{                                                                                   \
		return apply(s, w, op, mask, &FN);                                          \
	}
APPROXIMATE(rsqrt, fn_rsqrt)
APPROXIMATE(ex2, fn_ex2)
APPROXIMATE(lg2, fn_lg2)
APPROXIMATE(tanh, fn_tanh)
