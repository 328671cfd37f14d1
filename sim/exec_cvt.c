/* Moves and conversions. */
#include "sim/exec.h"
#include "sim/lanes.h"
#include "sim/num.h"
#include <math.h>

/* {v0, v1, ..} = a, or d = {v0, v1, ..}: op->size bytes an element, op->nv of them. */
static enum sim_step mov_unpack(struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const void *a = sim_src(w, op->a);
	const uint64_t keep = ~UINT64_C(0) >> (64 - 8 * op->size);

	SIM_EACH (i, mask) {
		uint64_t x = op->aw == 8 ? ((const uint64_t *)a)[i] : ((const uint32_t *)a)[i];

		for (unsigned k = 0; k < op->nv; k++, x = x >> 4 * op->size >> 4 * op->size)
			if (op->v[k] != SIM_NOREG)
				((uint32_t *)sim_reg(w, op->v[k]))[i] = (uint32_t)(x & keep);
	}
	return SIM_STEP_NEXT;
}

static enum sim_step mov_pack(struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const uint64_t keep = ~UINT64_C(0) >> (64 - 8 * op->size);
	void *d = sim_reg(w, op->d);

	SIM_EACH (i, mask) {
		uint64_t x = 0;

		for (unsigned k = 0; k < op->nv; k++)
			x |= (((const uint32_t *)sim_src(w, op->v[k]))[i] & keep)
			     << 8 * op->size * k;
		if (op->dw == 8)
			((uint64_t *)d)[i] = x;
		else
			((uint32_t *)d)[i] = (uint32_t)x;
	}
	return SIM_STEP_NEXT;
}

enum sim_step exec_mov(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const struct ptx_opnd *source = &op->insn->o[1];

	(void)s;
	if (op->type == PTX_T_pred && source->kind == PTX_IMM)
		return sim_set_pred(w, op, mask, source->imm ? UINT32_MAX : 0);
	if (op->type == PTX_T_pred)
		return sim_set_pred(w, op, mask, w->pred[op->a]);
	if (op->nv)
		return op->insn->o[0].kind == PTX_VEC ? mov_unpack(w, op, mask)
		                                      : mov_pack(w, op, mask);
	if (op->dw == 8)
		LANES1(uint64_t, uint64_t, x);
	LANES1(uint32_t, uint32_t, x);
}

/* The generic address of global memory is its address; shared memory has a window. */
enum sim_step exec_cvta(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const uint64_t base = op->insn->mod.space == PTX_SHARED ? SIM_SHARED_WINDOW : 0;

	(void)s;
	LANES1(uint64_t, uint64_t, x + base);
}

enum sim_step exec_cvta_to(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                           uint32_t mask)
{
	const uint64_t base = op->insn->mod.space == PTX_SHARED ? SIM_SHARED_WINDOW : 0;

	(void)s;
	LANES1(uint64_t, uint64_t, x - base);
}

/* ---- cvt ---- */

static bool is_float(unsigned t)
{
	return t == PTX_T_f16 || t == PTX_T_bf16 || t == PTX_T_f32 || t == PTX_T_f64;
}

static bool is_signed(unsigned t)
{
	return t == PTX_T_s8 || t == PTX_T_s16 || t == PTX_T_s32 || t == PTX_T_s64;
}

static uint64_t extend(uint64_t x, unsigned t)
{
	unsigned shift = 64 - ptx_type_info[t].bits;

	return is_signed(t) ? (uint64_t)((int64_t)(x << shift) >> shift) : x << shift >> shift;
}

/* Bounds of an integer type, as the magnitude of the least and the greatest value. */
static void bounds(unsigned t, uint64_t *below, uint64_t *above)
{
	unsigned bits = ptx_type_info[t].bits;

	*below = is_signed(t) ? UINT64_C(1) << (bits - 1) : 0;
	*above = is_signed(t) ? *below - 1 : ~UINT64_C(0) >> (64 - bits);
}

static double round_integer(double v, unsigned round)
{
	switch (round) {
	case PTX_RZI:
	case PTX_RZ:
		return trunc(v);
	case PTX_RMI:
	case PTX_RM:
		return floor(v);
	case PTX_RPI:
	case PTX_RP:
		return ceil(v);
	default:
		return rint(v);
	}
}

/* Out of range gives the nearest bound, NaN gives 0. */
static uint64_t float_to_int(double v, unsigned to, unsigned round)
{
	uint64_t below, above, n;

	if (isnan(v))
		return 0;
	bounds(to, &below, &above);
	v = round_integer(v, round);
	if (v < 0) {
		n = -v >= (double)below ? below : (uint64_t)-v;
		return 0 - n;
	}
	return v >= (double)above ? above : (uint64_t)v;
}

static uint64_t int_to_int(uint64_t x, unsigned from, unsigned to, bool sat)
{
	uint64_t below, above;

	if (!sat)
		return x;
	bounds(to, &below, &above);
	if (is_signed(from) && (int64_t)x < 0)
		return 0 - x > below ? 0 - below : x;
	return x > above ? above : x;
}

static uint64_t int_to_float(uint64_t x, unsigned from, unsigned to, unsigned round)
{
	bool neg = is_signed(from) && (int64_t)x < 0;

	return num_pack(num_fmt_of(to), neg, neg ? 0 - x : x, 0, false, round);
}

static uint64_t float_to_float(const struct sim_op *op, double v)
{
	enum num_fmt f = num_fmt_of(op->type);
	unsigned round = op->insn->mod.round ? op->insn->mod.round : PTX_RN;
	uint64_t u;

	if (round >= PTX_RNI && !isnan(v) && !isinf(v))
		v = copysign(round_integer(v, round), v);
	if (op->insn->mod.sat == PTX_SAT)
		v = isnan(v) || v < 0 ? 0 : v > 1 ? 1 : v;
	u = num_round(f, v, 0, round);
	if (op->insn->mod.sat == PTX_SATFINITE && isinf(num_value(f, u)))
		u = num_round(f, v, 0, PTX_RZ);
	if (op->insn->mod.sat == PTX_SATFINITE && isinf(v))
		u--;
	return op->insn->mod.ftz && f == NUM_F32 ? num_flush((uint32_t)u) : u;
}

static uint64_t convert(const struct sim_op *op, uint64_t x)
{
	const unsigned from = op->type2, to = op->type, round = op->insn->mod.round;

	x = extend(x, from);
	if (!is_float(from) && !is_float(to))
		return extend(int_to_int(x, from, to, op->insn->mod.sat == PTX_SAT), to);
	if (!is_float(from))
		return int_to_float(x, from, to, round ? round : PTX_RN);
	if (from == PTX_T_f32 && op->insn->mod.ftz)
		x = num_flush((uint32_t)x);
	if (is_float(to))
		return float_to_float(op, num_value(num_fmt_of(from), x));
	return extend(float_to_int(num_value(num_fmt_of(from), x), to, round), to);
}

static enum sim_step cvt_slow(struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const void *a = sim_src(w, op->a);
	void *d = sim_reg(w, op->d);

	SIM_EACH (i, mask) {
		uint64_t x = op->aw == 8 ? ((const uint64_t *)a)[i] : ((const uint32_t *)a)[i];

		x = convert(op, x);
		if (op->dw == 8)
			((uint64_t *)d)[i] = x;
		else
			((uint32_t *)d)[i] = (uint32_t)x;
	}
	return SIM_STEP_NEXT;
}

enum sim_step exec_cvt(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const struct ptx_mod *m = &op->insn->mod;

	(void)s;
	if (m->sat || m->ftz || (m->round && m->round != PTX_RN))
		return cvt_slow(w, op, mask);
	if (op->type == PTX_T_f32 && op->type2 == PTX_T_bf16)
		LANES1(uint32_t, uint32_t, num_canonical(x << 16));
	if (op->type == PTX_T_bf16 && op->type2 == PTX_T_f32)
		LANES1(uint32_t, uint32_t, num_bf16_of(x));
	if (op->type == PTX_T_u64 && op->type2 == PTX_T_u32 && op->aw == 4 && op->dw == 8)
		LANES1(uint64_t, uint32_t, x);
	if (op->type == PTX_T_f32 && op->type2 == PTX_T_u32 && op->aw == 4)
		LANES1(uint32_t, uint32_t, num_bits((float)x));
	return cvt_slow(w, op, mask);
}

enum sim_step exec_cvt2(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const uint32_t *a = sim_src(w, op->a), *b = sim_src(w, op->b);
	uint32_t *d = sim_reg(w, op->d);

	(void)s;
	if (op->type == PTX_T_bf16x2 && !op->insn->mod.sat && op->insn->mod.round == PTX_RN)
		LANES2(uint32_t, uint32_t, num_bf16_of(x) << 16 | num_bf16_of(y));
	SIM_EACH (i, mask)
		d[i] = (uint32_t)(float_to_float(op, (double)num_float(a[i])) << 16 |
		                  float_to_float(op, (double)num_float(b[i])));
	return SIM_STEP_NEXT;
}

/* Byte k of the result is byte (selector & 7) of {b, a}, or with bit 3 set its sign repeated. */
static uint32_t permute(uint32_t x, uint32_t y, uint32_t selector)
{
	uint64_t both = (uint64_t)y << 32 | x;
	uint32_t r = 0;

	for (unsigned k = 0; k < 4; k++) {
		uint32_t n = selector >> 4 * k & 15, byte = (uint32_t)(both >> 8 * (n & 7)) & 0xff;

		if (n & 8)
			byte = byte & 0x80 ? 0xff : 0;
		r |= byte << 8 * k;
	}
	return r;
}

enum sim_step exec_prmt(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)s;
	LANES3(uint32_t, uint32_t, uint32_t, permute(x, y, z));
}
