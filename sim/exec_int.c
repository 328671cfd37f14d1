/* Integers.  A 16-bit value lives in the low half of a 4-byte lane; what is above is not looked at.
 */
#include "sim/exec.h"
#include "sim/lanes.h"

__extension__ typedef __int128 s128;
__extension__ typedef unsigned __int128 u128;

enum shape { U16, S16, U32, S32, U64, S64 };

static enum shape shape_of(const struct sim_op *op)
{
	switch (op->type) {
	case PTX_T_b16:
	case PTX_T_u16:
		return U16;
	case PTX_T_s16:
		return S16;
	case PTX_T_s32:
		return S32;
	case PTX_T_b64:
	case PTX_T_u64:
		return U64;
	case PTX_T_s64:
		return S64;
	default:
		return U32;
	}
}

#define LOW16(v) ((uint32_t)(v)&0xffff)

/* Operations whose low bits do not depend on the sign. */
#define WRAP2(ID, OP)                                                                       \
	enum sim_step exec_##ID(struct sim *s, struct sim_warp *w, const struct sim_op *op, \
	                        uint32_t mask)                                              \
	{                                                                                   \
		(void)s;                                                                    \
		if (ptx_type_info[op->type].bits == 64)                                     \
			LANES2(uint64_t, uint64_t, x OP y);                                 \
		if (ptx_type_info[op->type].bits == 16)                                     \
			LANES2(uint32_t, uint32_t, LOW16(x OP y));                          \
		LANES2(uint32_t, uint32_t, x OP y);                                         \
	}
WRAP2(add, +)
WRAP2(sub, -)

#define LOGIC2(ID, OP)                                                                      \
	enum sim_step exec_##ID(struct sim *s, struct sim_warp *w, const struct sim_op *op, \
	                        uint32_t mask)                                              \
	{                                                                                   \
		(void)s;                                                                    \
		if (op->type == PTX_T_pred)                                                 \
			return sim_set_pred(w, op, mask, w->pred[op->a] OP w->pred[op->b]); \
		if (op->dw == 8)                                                            \
			LANES2(uint64_t, uint64_t, x OP y);                                 \
		LANES2(uint32_t, uint32_t, x OP y);                                         \
	}
LOGIC2(and, &)
LOGIC2(or, |)
LOGIC2(xor, ^)

enum sim_step exec_not(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)s;
	if (op->type == PTX_T_pred)
		return sim_set_pred(w, op, mask, ~w->pred[op->a]);
	if (op->dw == 8)
		LANES1(uint64_t, uint64_t, ~x);
	if (op->type == PTX_T_b16)
		LANES1(uint32_t, uint32_t, LOW16(~x));
	LANES1(uint32_t, uint32_t, ~x);
}

enum sim_step exec_neg(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)s;
	if (op->dw == 8)
		LANES1(uint64_t, uint64_t, 0 - x);
	if (op->type == PTX_T_s16)
		LANES1(uint32_t, uint32_t, LOW16(0 - x));
	LANES1(uint32_t, uint32_t, 0 - x);
}

static enum sim_step mul_wide(struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	switch (shape_of(op)) {
	case U16:
		LANES2(uint32_t, uint32_t, LOW16(x) * LOW16(y));
	case S16:
		LANES2(uint32_t, uint32_t, (int32_t)(int16_t)x * (int32_t)(int16_t)y);
	case S32:
		LANES2(uint64_t, uint32_t, (int64_t)(int32_t)x * (int64_t)(int32_t)y);
	default:
		LANES2(uint64_t, uint32_t, (uint64_t)x * y);
	}
}

static enum sim_step mul_high(struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	switch (shape_of(op)) {
	case U16:
		LANES2(uint32_t, uint32_t, LOW16(x) * LOW16(y) >> 16);
	case S16:
		LANES2(uint32_t, uint32_t, LOW16((int32_t)(int16_t)x * (int32_t)(int16_t)y >> 16));
	case U32:
		LANES2(uint32_t, uint32_t, (uint64_t)x * y >> 32);
	case S32:
		LANES2(uint32_t, uint32_t, (int64_t)(int32_t)x * (int64_t)(int32_t)y >> 32);
	case U64:
		LANES2(uint64_t, uint64_t, (u128)x * y >> 64);
	default:
		LANES2(uint64_t, uint64_t, (s128)(int64_t)x * (s128)(int64_t)y >> 64);
	}
}

static enum sim_step mul_low(struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	if (ptx_type_info[op->type].bits == 64)
		LANES2(uint64_t, uint64_t, x * y);
	if (ptx_type_info[op->type].bits == 16)
		LANES2(uint32_t, uint32_t, LOW16(x * y));
	LANES2(uint32_t, uint32_t, x * y);
}

enum sim_step exec_mul(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)s;
	switch (op->insn->mod.half) {
	case PTX_WIDE:
		return mul_wide(w, op, mask);
	case PTX_HIGH:
		return mul_high(w, op, mask);
	default:
		return mul_low(w, op, mask);
	}
}

static enum sim_step mad_wide(struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	switch (shape_of(op)) {
	case U16:
		LANES3(uint32_t, uint32_t, uint32_t, LOW16(x) * LOW16(y) + z);
	case S16:
		LANES3(uint32_t, uint32_t, uint32_t,
		       (uint32_t)((int32_t)(int16_t)x * (int32_t)(int16_t)y) + z);
	case S32:
		LANES3(uint64_t, uint32_t, uint64_t,
		       (uint64_t)((int64_t)(int32_t)x * (int64_t)(int32_t)y) + z);
	default:
		LANES3(uint64_t, uint32_t, uint64_t, (uint64_t)x * y + z);
	}
}

static enum sim_step mad_high(struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	switch (shape_of(op)) {
	case U16:
		LANES3(uint32_t, uint32_t, uint32_t, LOW16((LOW16(x) * LOW16(y) >> 16) + z));
	case S16:
		LANES3(uint32_t, uint32_t, uint32_t,
		       LOW16((uint32_t)((int32_t)(int16_t)x * (int32_t)(int16_t)y >> 16) + z));
	case U32:
		LANES3(uint32_t, uint32_t, uint32_t, ((uint64_t)x * y >> 32) + z);
	case S32:
		LANES3(uint32_t, uint32_t, uint32_t,
		       (uint64_t)((int64_t)(int32_t)x * (int64_t)(int32_t)y >> 32) + z);
	case U64:
		LANES3(uint64_t, uint64_t, uint64_t, ((u128)x * y >> 64) + z);
	default:
		LANES3(uint64_t, uint64_t, uint64_t,
		       (u128)((s128)(int64_t)x * (s128)(int64_t)y >> 64) + z);
	}
}

enum sim_step exec_mad(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)s;
	if (op->insn->mod.half == PTX_WIDE)
		return mad_wide(w, op, mask);
	if (op->insn->mod.half == PTX_HIGH)
		return mad_high(w, op, mask);
	if (ptx_type_info[op->type].bits == 64)
		LANES3(uint64_t, uint64_t, uint64_t, x * y + z);
	if (ptx_type_info[op->type].bits == 16)
		LANES3(uint32_t, uint32_t, uint32_t, LOW16(x * y + z));
	LANES3(uint32_t, uint32_t, uint32_t, x * y + z);
}

/* Division by 0 gives all ones and a remainder of the dividend, as the hardware does; PTX leaves
 * both open. */
#define DIVIDE(U, x, y) ((y) == 0 ? (U)-1 : (U)((x) / (y)))
#define REMAIN(U, x, y) ((y) == 0 ? (U)(x) : (U)((x) % (y)))
#define SDIVIDE(T, U, x, y) \
	((y) == 0 ? (U)-1 : (T)(y) == -1 ? (U)(0 - (U)(x)) : (U)((T)(x) / (T)(y)))
#define SREMAIN(T, U, x, y) ((y) == 0 ? (U)(x) : (T)(y) == -1 ? (U)0 : (U)((T)(x) % (T)(y)))

enum sim_step exec_div(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)s;
	switch (shape_of(op)) {
	case U16:
		LANES2(uint32_t, uint32_t, LOW16(DIVIDE(uint32_t, LOW16(x), LOW16(y))));
	case S16:
		LANES2(uint32_t, uint32_t,
		       LOW16(SDIVIDE(int32_t, uint32_t, (int16_t)x, (int16_t)y)));
	case U32:
		LANES2(uint32_t, uint32_t, DIVIDE(uint32_t, x, y));
	case S32:
		LANES2(uint32_t, uint32_t, SDIVIDE(int32_t, uint32_t, x, y));
	case U64:
		LANES2(uint64_t, uint64_t, DIVIDE(uint64_t, x, y));
	default:
		LANES2(uint64_t, uint64_t, SDIVIDE(int64_t, uint64_t, x, y));
	}
}

enum sim_step exec_rem(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)s;
	switch (shape_of(op)) {
	case U16:
		LANES2(uint32_t, uint32_t, REMAIN(uint32_t, LOW16(x), LOW16(y)));
	case S16:
		LANES2(uint32_t, uint32_t,
		       LOW16(SREMAIN(int32_t, uint32_t, (int16_t)x, (int16_t)y)));
	case U32:
		LANES2(uint32_t, uint32_t, REMAIN(uint32_t, x, y));
	case S32:
		LANES2(uint32_t, uint32_t, SREMAIN(int32_t, uint32_t, x, y));
	case U64:
		LANES2(uint64_t, uint64_t, REMAIN(uint64_t, x, y));
	default:
		LANES2(uint64_t, uint64_t, SREMAIN(int64_t, uint64_t, x, y));
	}
}

#define CHOOSE(ID, OP)                                                                          \
	enum sim_step exec_##ID(struct sim *s, struct sim_warp *w, const struct sim_op *op,     \
	                        uint32_t mask)                                                  \
	{                                                                                       \
		(void)s;                                                                        \
		switch (shape_of(op)) {                                                         \
		case U16:                                                                       \
			LANES2(uint32_t, uint32_t, LOW16(x) OP LOW16(y) ? LOW16(x) : LOW16(y)); \
		case S16:                                                                       \
			LANES2(uint32_t, uint32_t,                                              \
			       (int16_t)x OP(int16_t) y ? LOW16(x) : LOW16(y));                 \
		case U32:                                                                       \
			LANES2(uint32_t, uint32_t, x OP y ? x : y);                             \
		case S32:                                                                       \
			LANES2(uint32_t, uint32_t, (int32_t)x OP(int32_t) y ? x : y);           \
		case U64:                                                                       \
			LANES2(uint64_t, uint64_t, x OP y ? x : y);                             \
		default:                                                                        \
			LANES2(uint64_t, uint64_t, (int64_t)x OP(int64_t) y ? x : y);           \
		}                                                                               \
	}
CHOOSE(min, <)
CHOOSE(max, >)

/* Shifts take their count from 32 bits; counts of the width and more shift everything out. */
#define LANES_SHIFT(D, T, EXPR)                               \
	do {                                                  \
		const D *const a_ = sim_src(w, op->a);        \
		const uint32_t *const b_ = sim_src(w, op->b); \
		D *const d_ = sim_out(w, op, mask);           \
		SIM_LOOP                                      \
		{                                             \
			const T x = (T)a_[i];                 \
			const uint32_t y = b_[i];             \
			d_[i] = (D)(EXPR);                    \
		}                                             \
		return SIM_CLOSE(D);                          \
	} while (0)

enum sim_step exec_shl(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)s;
	if (op->dw == 8)
		LANES_SHIFT(uint64_t, uint64_t, y > 63 ? 0 : x << (y & 63));
	if (op->type == PTX_T_b16)
		LANES_SHIFT(uint32_t, uint32_t, y > 15 ? 0 : LOW16(x << (y & 15)));
	LANES_SHIFT(uint32_t, uint32_t, y > 31 ? 0 : x << (y & 31));
}

enum sim_step exec_shr(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)s;
	switch (shape_of(op)) {
	case U16:
		LANES_SHIFT(uint32_t, uint32_t, y > 15 ? 0 : LOW16(x) >> (y & 15));
	case S16:
		LANES_SHIFT(uint32_t, int16_t, LOW16(x >> (y > 15 ? 15 : y)));
	case U32:
		LANES_SHIFT(uint32_t, uint32_t, y > 31 ? 0 : x >> (y & 31));
	case S32:
		LANES_SHIFT(uint32_t, int32_t, x >> (y > 31 ? 31 : y));
	case U64:
		LANES_SHIFT(uint64_t, uint64_t, y > 63 ? 0 : x >> (y & 63));
	default:
		LANES_SHIFT(uint64_t, int64_t, x >> (y > 63 ? 63 : y));
	}
}
