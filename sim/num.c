/* Formats and rounding: packing a binary number into a format is the one place that rounds other
 * than the host's f32 and f64. */
#include "sim/num.h"
#include <math.h>

static const struct {
	int mant, emin; /* explicit bits; exponent of the least normal number */
	uint64_t inf, nan, sign;
} fmt[NUM_NFMTS] = {
        [NUM_F16] = {10, -14, 0x7c00, 0x7fff, 0x8000},
        [NUM_BF16] = {7, -126, 0x7f80, 0x7fff, 0x8000},
        [NUM_F32] = {23, -126, 0x7f800000, 0x7fffffff, 0x80000000},
        [NUM_F64] = {52, -1022, 0x7ff0000000000000, 0x7fffffffffffffff, 0x8000000000000000},
};

enum num_fmt num_fmt_of(enum ptx_type t)
{
	switch (t) {
	case PTX_T_f16:
	case PTX_T_f16x2:
		return NUM_F16;
	case PTX_T_bf16:
	case PTX_T_bf16x2:
		return NUM_BF16;
	case PTX_T_f64:
		return NUM_F64;
	default:
		return NUM_F32;
	}
}

double num_value(enum num_fmt f, uint64_t bits)
{
	uint64_t m = bits & ((UINT64_C(1) << fmt[f].mant) - 1);
	uint64_t mag = bits & (fmt[f].sign - 1);
	int e = (int)(mag >> fmt[f].mant);
	double v;

	if (f == NUM_F64)
		return num_double(bits);
	if (f == NUM_F32)
		return (double)num_float((uint32_t)bits);
	if (f == NUM_BF16)
		return (double)num_float((uint32_t)bits << 16);
	if (mag > fmt[f].inf)
		v = (double)NAN;
	else if (mag == fmt[f].inf)
		v = (double)INFINITY;
	else if (e)
		v = ldexp((double)(m | UINT64_C(1) << fmt[f].mant),
		          e - 1 + fmt[f].emin - fmt[f].mant);
	else
		v = ldexp((double)m, fmt[f].emin - fmt[f].mant);
	return bits & fmt[f].sign ? -v : v;
}

/* Does the magnitude `kept` plus a rest (compared with a half by `half`: -1, 0, 1; 2: no rest) go
 * up? */
static bool goes_up(bool neg, uint64_t kept, int half, unsigned round)
{
	if (half == 2)
		return false;
	switch (round) {
	case PTX_RZ:
	case PTX_RZI:
		return false;
	case PTX_RM:
	case PTX_RMI:
		return neg;
	case PTX_RP:
	case PTX_RPI:
		return !neg;
	case NUM_AWAY:
		return true;
	default:
		return half > 0 || (half == 0 && (kept & 1));
	}
}

/* The rest below bit `shift` of m: see goes_up. */
static int rest(uint64_t m, int shift, bool sticky)
{
	uint64_t r, half;

	if (shift <= 0)
		return sticky ? -1 : 2;
	if (shift > 64)
		return m || sticky ? -1 : 2;
	r = shift == 64 ? m : m & ((UINT64_C(1) << shift) - 1);
	half = UINT64_C(1) << (shift - 1);
	if (r == half)
		return sticky ? 1 : 0;
	if (r == 0)
		return sticky ? -1 : 2;
	return r > half ? 1 : -1;
}

uint64_t num_pack(enum num_fmt f, bool neg, uint64_t m, int e, bool sticky, unsigned round)
{
	int qmin = fmt[f].emin - fmt[f].mant, q, shift;
	uint64_t kept, bits, sign = neg ? fmt[f].sign : 0;

	if (m == 0)
		return sign;
	q = e + 63 - __builtin_clzll(m) - fmt[f].mant;
	if (q < qmin)
		q = qmin;
	if (q - qmin > 4096)
		return sign | fmt[f].inf;
	shift = q - e;
	kept = shift <= 0 ? m << -shift : shift > 63 ? 0 : m >> shift;
	bits = ((uint64_t)(q - qmin) << fmt[f].mant) + kept +
	       goes_up(neg, kept, rest(m, shift, sticky), round);
	if (bits >= fmt[f].inf) {
		bool stay =
		        round == PTX_RZ || (round == PTX_RM && !neg) || (round == PTX_RP && neg);

		bits = stay ? fmt[f].inf - 1 : fmt[f].inf;
	}
	return sign | bits;
}

uint64_t num_round(enum num_fmt f, double hi, double err, unsigned round)
{
	int e;
	double m;
	uint64_t n;
	bool neg = signbit(hi);

	if (isnan(hi))
		return fmt[f].nan;
	if (isinf(hi))
		return (neg ? fmt[f].sign : 0) | fmt[f].inf;
	if (hi == 0)
		return neg ? fmt[f].sign : 0;
	m = frexp(fabs(hi), &e);
	n = (uint64_t)ldexp(m, 53) << 8;
	if (err != 0 && isfinite(err))
		n = signbit(err) == signbit(hi) ? n | 1 : n - 1;
	return num_pack(f, neg, n, e - 61, false, round);
}
