/*
 * The exact sum of a few numbers, rounded once.  f64 partial sums are enough when none of them
 * loses a bit, which is nearly always so for 16-bit addends; otherwise the addends go into one long
 * fixed-point number that spans all of f64's range.
 */
#include "sim/num.h"
#include <math.h>

enum {
	LIMBS = 36,
	BIAS = 1100
}; /* bit 0 of limb 0 weighs 2^-BIAS; 2 * 1100 bits and room for carries */

struct fixed {
	uint64_t limb[LIMBS]; /* two's complement */
};

static void fixed_add(struct fixed *x, double v)
{
	int e, at;
	uint64_t m = (uint64_t)ldexp(frexp(fabs(v), &e), 53), part[2];
	unsigned carry = 0;
	bool neg = v < 0;

	if (m == 0)
		return;
	e += BIAS - 53;
	at = e / 64;
	part[0] = m << (e % 64);
	part[1] = e % 64 ? m >> (64 - e % 64) : 0;
	for (int i = at; i < LIMBS; i++) {
		uint64_t add = i - at < 2 ? part[i - at] : 0, old = x->limb[i], sum;

		if (neg) {
			sum = old - add - carry;
			carry = old < add || (old == add && carry);
		} else {
			sum = old + add + carry;
			carry = sum < old || (carry && sum == old);
		}
		x->limb[i] = sum;
	}
}

static bool fixed_negate(struct fixed *x)
{
	unsigned carry = 1;

	if (!(x->limb[LIMBS - 1] >> 63))
		return false;
	for (int i = 0; i < LIMBS; i++) {
		x->limb[i] = ~x->limb[i] + carry;
		carry = carry && x->limb[i] == 0;
	}
	return true;
}

static uint64_t fixed_round(enum num_fmt f, struct fixed *x, unsigned round)
{
	bool neg = fixed_negate(x), sticky = false;
	int top = LIMBS - 1, lead;
	uint64_t m;

	while (top > 0 && !x->limb[top])
		top--;
	if (!x->limb[top])
		return 0;
	lead = __builtin_clzll(x->limb[top]);
	m = x->limb[top] << lead;
	if (top > 0 && lead)
		m |= x->limb[top - 1] >> (64 - lead);
	if (top > 0)
		sticky = (x->limb[top - 1] << lead) != 0;
	for (int i = 0; i < top - 1; i++)
		sticky |= x->limb[i] != 0;
	return num_pack(f, neg, m, 64 * top - lead - BIAS, sticky, round);
}

uint64_t num_exact_sum(enum num_fmt f, const double *v, unsigned n, unsigned round)
{
	struct fixed x = {{0}};
	double s = v[0];
	bool exact = true;

	for (unsigned i = 1; i < n; i++) {
		double t = s + v[i];

		exact &= num_sum_err(s, v[i], t) == 0;
		s = t;
	}
	if (exact || !isfinite(s))
		return num_round(f, s, 0, round);
	for (unsigned i = 0; i < n; i++)
		fixed_add(&x, v[i]);
	return fixed_round(f, &x, round);
}
