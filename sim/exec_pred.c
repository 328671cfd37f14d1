/* Comparisons, selection. */
#include "sim/exec.h"
#include "sim/lanes.h"
#include "sim/num.h"
#include <math.h>

static bool is_float(enum ptx_type t)
{
	return t == PTX_T_f32 || t == PTX_T_f64 || t == PTX_T_f16 || t == PTX_T_bf16;
}

static bool is_signed(enum ptx_type t)
{
	return t == PTX_T_s16 || t == PTX_T_s32 || t == PTX_T_s64;
}

#define COMPARE(T)                    \
	switch (op->insn->mod.cmp) {  \
	case PTX_EQ:                  \
		LANES_SET(T, x == y); \
	case PTX_NE:                  \
		LANES_SET(T, x != y); \
	case PTX_LT:                  \
	case PTX_LO:                  \
		LANES_SET(T, x < y);  \
	case PTX_LE:                  \
	case PTX_LS:                  \
		LANES_SET(T, x <= y); \
	case PTX_GT:                  \
	case PTX_HI:                  \
		LANES_SET(T, x > y);  \
	default:                      \
		LANES_SET(T, x >= y); \
	}

static uint32_t compare_u32(const struct sim_warp *w, const struct sim_op *op)
{
	COMPARE(uint32_t)
}

static uint32_t compare_s32(const struct sim_warp *w, const struct sim_op *op)
{
	COMPARE(int32_t)
}

static uint32_t compare_u64(const struct sim_warp *w, const struct sim_op *op)
{
	COMPARE(uint64_t)
}

static uint32_t compare_s64(const struct sim_warp *w, const struct sim_op *op)
{
	COMPARE(int64_t)
}

/* Of two numbers as f64; unordered comparisons hold when one is NaN. */
static bool holds(enum ptx_cmp c, double x, double y)
{
	bool nan = isnan(x) || isnan(y);

	switch (c) {
	case PTX_EQ:
	case PTX_EQU:
		return x == y || (nan && c == PTX_EQU);
	case PTX_NE:
	case PTX_NEU:
		return nan ? c == PTX_NEU : x != y;
	case PTX_LT:
	case PTX_LTU:
		return x < y || (nan && c == PTX_LTU);
	case PTX_LE:
	case PTX_LEU:
		return x <= y || (nan && c == PTX_LEU);
	case PTX_GT:
	case PTX_GTU:
		return x > y || (nan && c == PTX_GTU);
	case PTX_GE:
	case PTX_GEU:
		return x >= y || (nan && c == PTX_GEU);
	case PTX_NUM:
		return !nan;
	default:
		return nan;
	}
}

static uint64_t lane_bits(const void *p, unsigned i, const struct sim_op *op)
{
	uint64_t v = op->aw == 8 ? ((const uint64_t *)p)[i] : ((const uint32_t *)p)[i];

	if (ptx_type_info[op->type].bits == 16)
		v = op->type == PTX_T_s16 ? (uint64_t)(int64_t)(int16_t)v : v & 0xffff;
	return v;
}

static uint32_t compare_slow(const struct sim_warp *w, const struct sim_op *op)
{
	const void *a = sim_src(w, op->a), *b = sim_src(w, op->b);
	enum num_fmt f = num_fmt_of(op->type);
	uint32_t m = 0;

	for (unsigned i = 0; i < SIM_LANES; i++) {
		uint64_t x = lane_bits(a, i, op), y = lane_bits(b, i, op);
		static const uint8_t plain[] = {
		        [PTX_LO] = PTX_LT, [PTX_LS] = PTX_LE, [PTX_HI] = PTX_GT, [PTX_HS] = PTX_GE};
		enum ptx_cmp c = op->insn->mod.cmp;
		double u, v;

		if (c >= PTX_LO && c <= PTX_HS)
			c = plain[c];
		u = is_float(op->type) ? num_value(f, x) : (double)(int64_t)x;
		v = is_float(op->type) ? num_value(f, y) : (double)(int64_t)y;
		m |= (uint32_t)holds(c, u, v) << i;
	}
	return m;
}

static uint32_t compare(const struct sim_warp *w, const struct sim_op *op)
{
	if (is_float(op->type) || op->aw == 4) {
		if (is_float(op->type) || ptx_type_info[op->type].bits == 16)
			return compare_slow(w, op);
		return is_signed(op->type) ? compare_s32(w, op) : compare_u32(w, op);
	}
	return is_signed(op->type) ? compare_s64(w, op) : compare_u64(w, op);
}

enum sim_step exec_setp(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)s;
	return sim_set_pred(w, op, mask, compare(w, op));
}

enum sim_step exec_setpb(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	uint32_t v = compare(w, op), p = sim_pred(w, op);

	(void)s;
	switch (op->insn->mod.boolean) {
	case PTX_B_AND:
		v &= p;
		break;
	case PTX_B_OR:
		v |= p;
		break;
	default:
		v ^= p;
		break;
	}
	return sim_set_pred(w, op, mask, v);
}

enum sim_step exec_selp(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const uint32_t p = sim_pred(w, op);

	(void)s;
	if (op->dw == 8)
		LANES2(uint64_t, uint64_t, p >> i & 1 ? x : y);
	LANES2(uint32_t, uint32_t, p >> i & 1 ? x : y);
}
