/* The arithmetic of atomics: one old value, one operand. */
#include "sim/rmw.h"
#include "sim/num.h"
#include <math.h>

static uint64_t float_one(enum ptx_red red, enum num_fmt f, uint64_t a, uint64_t b)
{
	double x = num_value(f, a), y = num_value(f, b), s = x + y;

	if (red == PTX_ADD)
		return num_round(f, s, num_sum_err(x, y, s), PTX_RN);
	if (isnan(x) || isnan(y))
		return isnan(x) && isnan(y) ? num_round(f, x, 0, PTX_RN) : isnan(x) ? b : a;
	if (x == y)
		return signbit(x) == (red == PTX_MIN) ? a : b;
	return (x < y) == (red == PTX_MIN) ? a : b;
}

static uint64_t integer(enum ptx_red red, enum ptx_type t, uint64_t a, uint64_t b)
{
	const bool sgn = t == PTX_T_s32 || t == PTX_T_s64;
	const bool less = !sgn             ? a < b
	                  : t == PTX_T_s32 ? (int32_t)a < (int32_t)b
	                                   : (int64_t)a < (int64_t)b;

	switch (red) {
	case PTX_ADD:
		return a + b;
	case PTX_MIN:
		return less ? a : b;
	case PTX_MAX:
		return less ? b : a;
	case PTX_AND:
		return a & b;
	case PTX_OR:
		return a | b;
	case PTX_XOR:
		return a ^ b;
	case PTX_INC:
		return a >= b ? 0 : a + 1;
	case PTX_DEC:
		return a == 0 || a > b ? b : a - 1;
	default:
		return b;
	}
}

uint64_t sim_reduce(enum ptx_red red, enum ptx_type t, uint64_t old, uint64_t x)
{
	const unsigned bits = ptx_type_info[t].bits;
	uint64_t r;

	switch (t) {
	case PTX_T_f16x2:
	case PTX_T_bf16x2:
		r = float_one(red, num_fmt_of(t), old & 0xffff, x & 0xffff);
		return r | float_one(red, num_fmt_of(t), old >> 16 & 0xffff, x >> 16 & 0xffff)
		                   << 16;
	case PTX_T_f16:
	case PTX_T_bf16:
	case PTX_T_f32:
	case PTX_T_f64:
		return float_one(red, num_fmt_of(t), old, x);
	default:
		r = integer(red, t, old, x);
		return bits == 64 ? r : r & ((UINT64_C(1) << bits) - 1);
	}
}
