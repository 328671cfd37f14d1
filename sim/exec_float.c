/*
 * Floating point.  f32 and f64 to nearest are the host's; every other rounding, and 16-bit formats,
 * go through num.h by way of an exact f64 (or one rounded to odd).  NaN results are canonical.
 */
#include "sim/exec.h"
#include "sim/lanes.h"
#include "sim/num.h"
#include <math.h>

static bool plain_f32(const struct sim_op *op)
{
	return op->type == PTX_T_f32 && op->insn->mod.round <= PTX_RN;
}

static bool ftz(const struct sim_op *op)
{
	return op->insn->mod.ftz;
}

/* How often each operation is done per lane: 2 for packed halves. */
static bool packed(const struct sim_op *op)
{
	return op->type == PTX_T_f16x2 || op->type == PTX_T_bf16x2;
}

/* ---- the general way: one lane, any format, any rounding ---- */

struct exact {
	double hi, err; /* the exact value is hi + err, or hi is rounded to odd */
};
typedef struct exact exact_fn(double x, double y, double z);

static struct exact exact_add(double x, double y, double z)
{
	double s = x + y;

	(void)z;
	return (struct exact){s, num_sum_err(x, y, s)};
}

static struct exact exact_sub(double x, double y, double z)
{
	return exact_add(x, -y, z);
}

static struct exact exact_mul(double x, double y, double z)
{
	double p = x * y;

	(void)z;
	return (struct exact){p, fma(x, y, -p)};
}

/* The product of two numbers of at most 26 bits is exact; the sum is rounded to odd. */
static struct exact exact_fma(double x, double y, double z)
{
	double p = x * y;

	return exact_add(p, z, 0);
}

static uint64_t one(const struct sim_op *op, exact_fn *f, const uint64_t in[3])
{
	enum num_fmt t = num_fmt_of(op->type);
	double v[3];
	struct exact r;
	uint64_t bits;

	for (unsigned k = 0; k < 3; k++) {
		uint64_t u = in[k];

		if (ftz(op) && op->type == PTX_T_f32)
			u = num_flush((uint32_t)u);
		v[k] = num_value(t, u);
	}
	if (t == NUM_F64 && f == exact_fma)
		r = (struct exact){fma(v[0], v[1], v[2]), 0};
	else
		r = f(v[0], v[1], v[2]);
	bits = num_round(t, r.hi, r.err, op->insn->mod.round ? op->insn->mod.round : PTX_RN);
	return ftz(op) && op->type == PTX_T_f32 ? num_flush((uint32_t)bits) : bits;
}

static enum sim_step general(struct sim_warp *w, const struct sim_op *op, uint32_t mask,
                             exact_fn *f)
{
	const void *src[3] = {sim_src(w, op->a), sim_src(w, op->b), sim_src(w, op->c)};
	void *d = sim_reg(w, op->d);

	SIM_EACH (i, mask) {
		uint64_t in[3], r = 0;

		for (unsigned half = 0; half < (packed(op) ? 2u : 1u); half++) {
			for (unsigned k = 0; k < 3; k++)
				in[k] = op->dw == 8 ? ((const uint64_t *)src[k])[i]
				                    : ((const uint32_t *)src[k])[i] >> 16 * half;
			if (op->dw == 4 && op->type != PTX_T_f32)
				for (unsigned k = 0; k < 3; k++)
					in[k] &= 0xffff;
			r |= one(op, f, in) << 16 * half;
		}
		if (op->dw == 8)
			((uint64_t *)d)[i] = r;
		else
			((uint32_t *)d)[i] = (uint32_t)r;
	}
	return SIM_STEP_NEXT;
}

/* ---- f32 and bf16x2 to nearest: whole-warp loops ---- */

#define F(u)        num_float(u)
#define OUT(f)      num_canonical(num_bits(f))
#define FZ(u)       num_float(num_flush(u))
#define OUTZ(f)     num_flush(num_canonical(num_bits(f)))
#define BLO(u)      num_float((u) << 16)
#define BHI(u)      num_float((u)&0xffff0000u)
#define BPAIR(l, h) (num_bf16_of(num_bits(l)) | num_bf16_of(num_bits(h)) << 16)

#define ARITH2(ID, EXACT, OP)                                                                  \
	enum sim_step exec_##ID(struct sim *s, struct sim_warp *w, const struct sim_op *op,    \
	                        uint32_t mask)                                                 \
	{                                                                                      \
		(void)s;                                                                       \
		if (plain_f32(op) && ftz(op))                                                  \
			LANES2(uint32_t, uint32_t, OUTZ(FZ(x) OP FZ(y)));                      \
		if (plain_f32(op))                                                             \
			LANES2(uint32_t, uint32_t, OUT(F(x) OP F(y)));                         \
		if (op->type == PTX_T_bf16x2)                                                  \
			LANES2(uint32_t, uint32_t, BPAIR(BLO(x) OP BLO(y), BHI(x) OP BHI(y))); \
		return general(w, op, mask, EXACT);                                            \
	}
ARITH2(addf, exact_add, +)
ARITH2(subf, exact_sub, -)
ARITH2(mulf, exact_mul, *)

static inline float fma_f32(float x, float y, float z)
{
	return (float)num_sum_odd((double)x * (double)y, (double)z);
}

enum sim_step exec_fma(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)s;
	if (plain_f32(op) && ftz(op))
		LANES3(uint32_t, uint32_t, uint32_t, OUTZ(fma_f32(FZ(x), FZ(y), FZ(z))));
	if (plain_f32(op))
		LANES3(uint32_t, uint32_t, uint32_t, OUT(fma_f32(F(x), F(y), F(z))));
	return general(w, op, mask, exact_fma);
}

/* ---- minimum, maximum, sign ---- */

/* The greater of two encodings of format f: numbers beat NaN, +0 beats -0. */
static uint64_t greater(enum num_fmt f, uint64_t x, uint64_t y, bool least)
{
	double a = num_value(f, x), b = num_value(f, y);
	bool first;

	if (isnan(a) && isnan(b))
		return num_round(f, a, 0, PTX_RN);
	if (isnan(a) || isnan(b))
		return isnan(a) ? y : x;
	first = a > b || (a == b && !signbit(a));
	if (least)
		first = a < b || (a == b && signbit(a));
	return first ? x : y;
}

static enum sim_step choose(struct sim_warp *w, const struct sim_op *op, uint32_t mask, bool least)
{
	enum num_fmt f = num_fmt_of(op->type);

	if (op->dw == 8)
		LANES2(uint64_t, uint64_t, greater(f, x, y, least));
	if (op->type == PTX_T_f32 && ftz(op))
		LANES2(uint32_t, uint32_t, greater(f, num_flush(x), num_flush(y), least));
	if (op->type == PTX_T_f32)
		LANES2(uint32_t, uint32_t, greater(f, x, y, least));
	if (!packed(op))
		LANES2(uint32_t, uint32_t, greater(f, x & 0xffff, y & 0xffff, least));
	LANES2(uint32_t, uint32_t,
	       greater(f, x & 0xffff, y & 0xffff, least) | greater(f, x >> 16, y >> 16, least)
	                                                           << 16);
}

enum sim_step exec_minf(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)s;
	return choose(w, op, mask, true);
}

enum sim_step exec_maxf(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)s;
	return choose(w, op, mask, false);
}

static uint32_t sign_bits(const struct sim_op *op)
{
	return op->type == PTX_T_f32 ? 0x80000000u : packed(op) ? 0x80008000u : 0x8000u;
}

enum sim_step exec_negf(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const uint32_t sign = sign_bits(op);

	(void)s;
	if (op->dw == 8)
		LANES1(uint64_t, uint64_t, x ^ UINT64_C(1) << 63);
	if (op->type == PTX_T_f32 && ftz(op))
		LANES1(uint32_t, uint32_t, num_flush(num_canonical(x ^ sign)));
	if (op->type == PTX_T_f32)
		LANES1(uint32_t, uint32_t, num_canonical(x ^ sign));
	LANES1(uint32_t, uint32_t, x ^ sign);
}

enum sim_step exec_absf(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const uint32_t keep = ~sign_bits(op);

	(void)s;
	if (op->dw == 8)
		LANES1(uint64_t, uint64_t, x & ~(UINT64_C(1) << 63));
	if (op->type == PTX_T_f32 && ftz(op))
		LANES1(uint32_t, uint32_t, num_flush(num_canonical(x & keep)));
	if (op->type == PTX_T_f32)
		LANES1(uint32_t, uint32_t, num_canonical(x & keep));
	LANES1(uint32_t, uint32_t, x & keep);
}
