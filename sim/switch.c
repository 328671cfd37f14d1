/*
 * Sums in the switch, in the modes of enum sim_sum.  Packed bf16 in f32 or exactly is what kernels
 * ask for, so it has a way of its own: all elements of an access side by side.
 */
#include "sim/switch.h"
#include "sim/move.h"
#include "sim/num.h"
#include "sim/rmw.h"
#include <math.h>

enum { PAIRS = 8, HALVES = 2 * PAIRS };

void sim_permute(uint8_t *p, unsigned n, uint64_t h)
{
	for (unsigned i = 0; i < n; i++)
		p[i] = (uint8_t)i;
	for (unsigned i = n; i > 1; i--) {
		unsigned j;
		uint8_t t;

		h = sim_mix(h, i);
		j = (unsigned)(h % i);
		t = p[i - 1];
		p[i - 1] = p[j];
		p[j] = t;
	}
}

/* The sum with a rounding after every addition: to f32 for .acc::f32, f32 and where the switch is
 * free to; else to f. */
static uint64_t sum_in_order(const struct sim_op *op, enum num_fmt f, const double *v,
                             const uint8_t *order, unsigned n)
{
	enum num_fmt acc = f == NUM_F64 ? NUM_F64 : op->insn->mod.acc ? NUM_F32 : f;
	double sum = v[order[0]];

	for (unsigned r = 1; r < n; r++) {
		double t = sum + v[order[r]];

		sum = num_value(acc, num_round(acc, t, num_sum_err(sum, v[order[r]], t), PTX_RN));
	}
	return num_round(f, sum, 0, PTX_RN);
}

static uint64_t float_sum(const struct sim *s, const struct sim_op *op, enum num_fmt f,
                          const double *v, uint64_t key)
{
	const unsigned n = s->o.ranks;
	uint8_t order[SIM_MAX_RANKS] = {0};
	uint64_t u;

	switch (s->o.sum) {
	case SIM_SUM_EXACT:
		u = num_exact_sum(f, v, n, PTX_RN);
		break;
	case SIM_SUM_FAITHFUL:
		u = num_exact_sum(f, v, n, key & 1 ? NUM_AWAY : PTX_RZ);
		break;
	default:
		for (unsigned r = 0; r < n; r++)
			order[r] = (uint8_t)r;
		if (s->o.sum == SIM_SUM_PERMUTED)
			sim_permute(order, n, key);
		u = sum_in_order(op, f, v, order, n);
		break;
	}
	if (s->o.sum_no_negative_zero && num_value(f, u) == 0)
		u = 0;
	return u;
}

/* One element of all replicas to one; packed types are two elements. */
static uint64_t reduce_element(const struct sim *s, const struct sim_op *op, const uint64_t *in,
                               uint64_t key)
{
	const enum ptx_type t = op->type;
	const unsigned parts = t == PTX_T_f16x2 || t == PTX_T_bf16x2 ? 2 : 1;
	const bool add =
	        op->insn->mod.red == PTX_ADD && (parts == 2 || t == PTX_T_f16 || t == PTX_T_bf16 ||
	                                         t == PTX_T_f32 || t == PTX_T_f64);
	uint64_t out = 0;

	if (!add) {
		out = in[0];
		for (unsigned r = 1; r < s->o.ranks; r++)
			out = sim_reduce(op->insn->mod.red, t, out, in[r]);
		return out;
	}
	for (unsigned k = 0; k < parts; k++) {
		enum num_fmt f = num_fmt_of(t);
		double v[SIM_MAX_RANKS];

		for (unsigned r = 0; r < s->o.ranks; r++)
			v[r] = num_value(f, parts == 2 ? in[r] >> 16 * k & 0xffff : in[r]);
		out |= float_sum(s, op, f, v, sim_mix(key, k)) << 16 * k;
	}
	return out;
}

/* ---- bf16x2 ---- */

static void halves(const uint8_t *p, unsigned pairs, float *v)
{
	for (unsigned k = 0; k < pairs; k++) {
		uint32_t u;

		memcpy(&u, p + 4 * k, 4);
		v[2 * k] = num_float(u << 16);
		v[2 * k + 1] = num_float(u & 0xffff0000u);
	}
}

static void bf16_in_f32(const struct sim *s, const uint8_t *const from[SIM_MAX_RANKS],
                        unsigned pairs, const uint8_t *order, uint32_t bits[HALVES])
{
	float sum[HALVES] = {0}, v[HALVES] = {0};

	halves(from[order[0]], pairs, sum);
	for (unsigned r = 1; r < s->o.ranks; r++) {
		halves(from[order[r]], pairs, v);
		for (unsigned k = 0; k < HALVES; k++)
			sum[k] += v[k];
	}
	for (unsigned k = 0; k < HALVES; k++)
		bits[k] = num_bf16_of(num_bits(sum[k]));
}

/* An f64 to bf16 by way of an f32 rounded to odd; the same as rounding once. */
static uint32_t bf16_of_f64(double d, unsigned round)
{
	uint32_t u = num_bits((float)d), low;
	double f = (double)num_float(u);

	if (f != d && !(u & 1))
		u += fabs(d) > fabs(f) ? 1u : ~0u;
	low = u & 0xffff;
	if (round == PTX_RN)
		return num_bf16_of(u);
	return round == NUM_AWAY && low ? (u >> 16) + 1 : u >> 16;
}

/* False when a partial sum in f64 loses a bit, or is no number. */
static bool bf16_exactly(const struct sim *s, const uint8_t *const from[SIM_MAX_RANKS],
                         unsigned pairs, uint64_t key, uint32_t bits[HALVES])
{
	double sum[HALVES] = {0}, lost[HALVES] = {0};
	float v[HALVES] = {0};
	bool exact = true;

	halves(from[0], pairs, v);
	for (unsigned k = 0; k < HALVES; k++)
		sum[k] = (double)v[k];
	for (unsigned r = 1; r < s->o.ranks; r++) {
		halves(from[r], pairs, v);
		for (unsigned k = 0; k < HALVES; k++) {
			double t = sum[k] + (double)v[k];

			lost[k] += fabs(num_sum_err(sum[k], (double)v[k], t));
			sum[k] = t;
		}
	}
	for (unsigned k = 0; k < HALVES; k++)
		exact &= lost[k] == 0;
	for (unsigned k = 0; exact && k < HALVES; k++) {
		unsigned round = PTX_RN;

		if (s->o.sum == SIM_SUM_FAITHFUL)
			round = sim_mix(sim_mix(key, k / 2), k % 2) & 1 ? NUM_AWAY : PTX_RZ;
		bits[k] = bf16_of_f64(sum[k], round);
	}
	return exact;
}

static bool bf16_pairs(const struct sim *s, const struct sim_op *op,
                       const uint8_t *const from[SIM_MAX_RANKS], uint64_t key, uint64_t out[8])
{
	uint32_t bits[HALVES];
	uint8_t order[SIM_MAX_RANKS] = {0};

	if (op->type != PTX_T_bf16x2 || op->insn->mod.red != PTX_ADD || op->nv > PAIRS)
		return false;
	if (s->o.sum == SIM_SUM_EXACT || s->o.sum == SIM_SUM_FAITHFUL) {
		if (!bf16_exactly(s, from, op->nv, key, bits))
			return false;
	} else {
		if (!op->insn->mod.acc)
			return false;
		for (unsigned r = 0; r < s->o.ranks; r++)
			order[r] = (uint8_t)r;
		if (s->o.sum == SIM_SUM_PERMUTED)
			sim_permute(order, s->o.ranks, key);
		bf16_in_f32(s, from, op->nv, order, bits);
	}
	for (unsigned k = 0; k < op->nv; k++) {
		uint32_t low = bits[2 * k], high = bits[2 * k + 1];

		if (s->o.sum_no_negative_zero) {
			low = low == 0x8000 ? 0 : low;
			high = high == 0x8000 ? 0 : high;
		}
		out[k] = low | high << 16;
	}
	return true;
}

void sim_switch_sum(const struct sim *s, const struct sim_op *op,
                    const uint8_t *const from[SIM_MAX_RANKS], uint64_t key, uint64_t out[8])
{
	if (bf16_pairs(s, op, from, key, out))
		return;
	for (unsigned k = 0; k < op->nv; k++) {
		uint64_t in[SIM_MAX_RANKS] = {0};

		for (unsigned r = 0; r < s->o.ranks; r++)
			in[r] = sim_get(from[r] + k * op->size, op->size);
		out[k] = reduce_element(s, op, in, sim_mix(key, k));
	}
}
