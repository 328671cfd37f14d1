/*
 * Number formats of the reference: rounding to nearest even and encodings, from the definitions
 * (IEEE 754, OCP FP8 v1.0, OCP Microscaling v1.0) and nothing else.
 */
#include "ir/eval.h"
#include "ir/eval_priv.h"
#include <math.h>
#include <string.h>

/* What the definition of a format says beyond dtypes.def. */
struct format {
	int emin;          /* exponent of the smallest normal value */
	unsigned mant, ex; /* bits of the mantissa and of the exponent */
	bool inf;          /* has infinities; else conversions saturate */
	double max;        /* largest finite value */
	double least;      /* smallest normal value */
};

/* clang-format off */
static const struct format formats[IR_NDTYPES] = {
	[IR_F32]  = {-126, 23, 8, true,  0x1.fffffep127, 0x1p-126},
	[IR_BF16] = {-126,  7, 8, true,  0x1.fep127,     0x1p-126},
	[IR_F16]  = { -14, 10, 5, true,  65504.0,        0x1p-14},
	[IR_E4M3] = {  -6,  3, 4, false, 448.0,          0x1p-6},
	[IR_E5M2] = { -14,  2, 5, false, 57344.0,        0x1p-14},   /* has infinities; conversions to it saturate (OCP FP8 5.2.2) */
	[IR_E8M0] = {-127,  0, 8, false, 0x1p127,        0x1p-127},
	[IR_E2M1] = {   0,  1, 2, false, 6.0,            1.0},
};
/* clang-format on */

/* floor(log2(|v|)) of a finite v != 0. */
static int exponent(double v)
{
	uint64_t b;
	int e;

	memcpy(&b, &v, sizeof b);
	e = (int)(b >> 52 & 0x7ff);
	return e ? e - 1023 : ilogb(v);
}

/* 2^e for the exponents of a normal f64. */
static double power(int e)
{
	uint64_t b = (uint64_t)(e + 1023) << 52;
	double v;

	memcpy(&v, &b, sizeof v);
	return v;
}

/* The nearest power of two, ties to the even code; a scale is never zero, and negative is not a
 * number here. */
static double round_e8m0(double v)
{
	int e;
	double lo;

	if (!(v >= 0.0))
		return (double)NAN;
	if (v >= 0x1p127)
		return 0x1p127;
	if (v <= 0x1p-127)
		return 0x1p-127;
	e = exponent(v);
	lo = power(e);
	if (v == 1.5 * lo)
		return (e + 127) % 2 ? 2.0 * lo : lo;
	return v > 1.5 * lo ? 2.0 * lo : lo;
}

/* v to a multiple of the unit that its magnitude has in f; no overflow handling. */
static double to_grid(const struct format *f, double v)
{
	const double magic =
	        0x1.8p52; /* adding it leaves no bits below 1: rounds to nearest even */
	int e = exponent(v);
	double unit = power((e < f->emin ? f->emin : e) - (int)f->mant);
	double q = v / unit;

	return copysign(((q + magic) - magic) * unit, v);
}

/* Of a normal number that cannot overflow: the bits below the mantissa are rounded away in place.
 */
static double round_normal(const struct format *f, double v)
{
	unsigned drop = 52 - f->mant;
	uint64_t b, half = (uint64_t)1 << (drop - 1);

	memcpy(&b, &v, sizeof b);
	b += half - 1 + (b >> drop & 1);
	b &= ~(2 * half - 1);
	memcpy(&v, &b, sizeof v);
	return v;
}

double ir_round(enum ir_dtype t, double v)
{
	const struct format *f = &formats[t];
	double r, a = fabs(v);

	if (t == IR_F32)
		return (double)(float)v;
	if (t != IR_E8M0 && a >= f->least && a <= f->max / 2)
		return round_normal(f, v);
	if (t == IR_BOOL)
		return v != 0.0;
	if (t == IR_E8M0)
		return round_e8m0(v);
	if (isnan(v))
		return t == IR_E2M1 ? f->max : (double)NAN; /* E2M1 has no NaN */
	if (v == 0.0)
		return v;
	if (isinf(v))
		return f->inf ? v : copysign(f->max, v);
	r = to_grid(f, v);
	if (fabs(r) > f->max)
		return copysign(f->inf ? (double)INFINITY : f->max, v);
	return r;
}

static uint32_t nan_bits(enum ir_dtype t)
{
	const struct format *f = &formats[t];

	if (t == IR_E2M1)
		return 7;
	if (t == IR_E8M0)
		return 0xff;
	if (t == IR_E4M3)
		return 0x7f;
	return ((1u << f->ex) - 1) << f->mant | 1u << (f->mant - 1);
}

uint32_t ir_encode(enum ir_dtype t, double v)
{
	const struct format *f = &formats[t];
	uint32_t sign;
	uint64_t b;
	double a = fabs(v);

	if (t == IR_BOOL)
		return v != 0.0;
	if (isnan(v))
		return nan_bits(t);
	if (t == IR_E8M0)
		return (uint32_t)(exponent(v) + 127);
	memcpy(&b, &v, sizeof b);
	sign = (uint32_t)(b >> 63) << (f->ex + f->mant);
	if (isinf(v))
		return sign | ((1u << f->ex) - 1) << f->mant;
	if (a < f->least)
		return sign | (uint32_t)(a / power(f->emin - (int)f->mant));
	/* exponent and mantissa as they stand, the bias changed */
	b = (b & INT64_MAX) - ((uint64_t)(f->emin + 1022) << 52);
	return sign | (uint32_t)(b >> (52 - f->mant));
}

double ir_decode(enum ir_dtype t, uint32_t bits)
{
	const struct format *f = &formats[t];
	uint32_t mant = bits & ((1u << f->mant) - 1), e = bits >> f->mant & ((1u << f->ex) - 1);
	double v, s = bits >> (f->ex + f->mant) & 1 ? -1.0 : 1.0;

	if (t == IR_BOOL)
		return bits & 1;
	if (t == IR_E8M0)
		return bits == 0xff ? (double)NAN : power((int)bits - 127);
	if (t == IR_E4M3 && (bits & 0x7f) == 0x7f)
		return (double)NAN;
	if (t != IR_E4M3 && t != IR_E2M1 && e == (1u << f->ex) - 1)
		return mant ? (double)NAN : s * (double)INFINITY;
	v = ldexp((double)mant, f->emin - (int)f->mant);
	if (e)
		v = ldexp((double)(mant | 1u << f->mant), f->emin + (int)e - 1 - (int)f->mant);
	return s * v;
}

/* The largest value of t not above v (down), or the smallest not below it; for t with a total order
 * of codes. */
double ev_round_dir(enum ir_dtype t, double v, bool up)
{
	const struct format *f = &formats[t];
	double r = ir_round(t, v), unit, next;
	int e;

	if (isnan(r) || isinf(v) || r == v || (up ? r > v : r < v))
		return r;
	if (isinf(r))
		return copysign(f->max, r);
	/* r is on the wrong side: one unit back, the unit of v's own binade */
	e = exponent(v);
	unit = power((e < f->emin ? f->emin : e) - (int)f->mant);
	next = up ? r + unit : r - unit;
	if (fabs(next) > f->max)
		return copysign(f->inf ? (double)INFINITY : f->max, v);
	return next;
}

double ev_ulp32(double v)
{
	int e;

	if (v == 0.0 || !isfinite(v))
		return 0x1p-149;
	e = exponent(v);
	return power((e < -126 ? -126 : e) - 23);
}
