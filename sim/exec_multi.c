/*
 * multimem: one address, a replica on every rank.  Stores and reductions reach the replicas one by
 * one, in an order of the seed's, and others may run between two replicas.
 */
#include "sim/exec.h"
#include "sim/move.h"
#include "sim/order.h"
#include "sim/rmw.h"
#include "sim/switch.h"
#include <string.h>

enum sim_step exec_mm_ld(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const unsigned n = op->nv * (unsigned)op->size;
	uint64_t addr[SIM_LANES] = {0}, seen[SIM_LANES] = {0};
	uint8_t buf[SIM_MAX_RANKS][32];

	SIM_EACH (i, mask) {
		uint64_t off, key, sum[8];
		const uint8_t *from[SIM_MAX_RANKS];
		struct sim_block *b;

		addr[i] = sim_lane_addr(w, op, i);
		b = sim_check_addr(s, w, op, i, addr[i], n, true, &off);
		if (!b)
			return SIM_STEP_STOP;
		for (unsigned r = 0; r < s->o.ranks; r++) {
			if (!sim_check_defined(s, w, op, i, b->replica[r], off, n))
				return SIM_STEP_STOP;
			from[r] = b->replica[r]->data + off;
			if (s->o.weak && op->strong)
				from[r] = memcpy(buf[r], from[r], n);
			if (!sim_race_lane(s, w, op, i, b->replica[r], off, n, SIM_ACC_READ,
			                   RACE_MULTI, buf[r]))
				return SIM_STEP_STOP;
			if (s->o.on_access)
				sim_event(s, w, op, i, SIM_ACC_READ, b->replica[r], off, n, true);
		}
		key = sim_mix(sim_mix(sim_mix(s->o.seed, addr[i]), w->cta->launch->rank),
		              w->cta->launch->number);
		sim_switch_sum(s, op, from, key, sum);
		seen[i] = sum[0];
		for (unsigned k = 0; k < op->nv; k++)
			sim_set_element(w, op, k, i, sum[k]);
	}
	sim_note_load(w, op, mask, addr, seen);
	return SIM_STEP_NEXT;
}

/* Where every lane goes and what it brings, worked out once for all replicas. */
struct sent {
	struct sim_block *b[SIM_LANES];
	uint64_t off[SIM_LANES];
	_Alignas(32) uint8_t bytes[SIM_LANES][32];
};

static bool gather(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask,
                   struct sent *x)
{
	const unsigned n = op->nv * (unsigned)op->size;

	SIM_EACH (i, mask) {
		x->b[i] = sim_check_addr(s, w, op, i, sim_lane_addr(w, op, i), n, true, &x->off[i]);
		if (!x->b[i])
			return false;
		sim_store_lane(w, op, i, x->bytes[i]);
	}
	return true;
}

/* What a lane's reduction leaves in one replica: in `out`. */
static bool reduce_lane(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned i,
                        const struct sim_block *b, const struct sent *x, uint8_t *out)
{
	const unsigned n = op->size;

	if (!sim_check_defined(s, w, op, i, b, x->off[i], op->nv * n))
		return false;
	for (unsigned k = 0; k < op->nv; k++)
		sim_put(out + k * n,
		        sim_reduce(op->insn->mod.red, op->type,
		                   sim_get(b->data + x->off[i] + k * n, n),
		                   sim_get(x->bytes[i] + k * n, n)),
		        n);
	return true;
}

/* All lanes' access to the replica of one rank. */
static bool reach(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask,
                  const struct sent *x, unsigned rank, bool torn)
{
	const bool red = op->insn->op == PTX_mm_red;
	const unsigned n = op->nv * (unsigned)op->size;
	const unsigned k = (w->torn + (unsigned)w->order_key) % op->nv;

	SIM_EACH (i, mask) {
		struct sim_block *b = x->b[i]->replica[rank];
		uint8_t bytes[32];

		memcpy(bytes, x->bytes[i], sizeof bytes);
		if (red && !reduce_lane(s, w, op, i, b, x, bytes))
			return false;
		if (!sim_race_lane(s, w, op, i, b, x->off[i] + (torn ? k * op->size : 0),
		                   torn ? op->size : n, red ? SIM_ACC_RMW : SIM_ACC_WRITE,
		                   RACE_MULTI, bytes + (torn ? k * op->size : 0)))
			return false;
		if (torn)
			sim_store(s, w, op, b, x->off[i] + (size_t)(k * op->size),
			          bytes + (size_t)(k * op->size), op->size);
		else
			sim_store(s, w, op, b, x->off[i], bytes, n);
		if (s->o.on_access)
			sim_event(s, w, op, i, red ? SIM_ACC_RMW : SIM_ACC_WRITE, b, x->off[i], n,
			          true);
	}
	return true;
}

/* Replica by replica; w->replica says how many have been reached, when others ran in between. */
static enum sim_step broadcast(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                               uint32_t mask)
{
	uint8_t order[SIM_MAX_RANKS];
	struct sent x;
	bool torn;

	if (!gather(s, w, op, mask, &x))
		return SIM_STEP_STOP;
	if (!w->replica && !w->torn)
		w->order_key = sim_random(s);
	torn = s->o.tear && op->nv > 1 && op->insn->op == PTX_mm_st &&
	       s->o.schedule != SIM_ROUND_ROBIN && w->order_key >> 32 & 1;
	sim_permute(order, s->o.ranks, w->order_key);
	while (w->replica < s->o.ranks) {
		if (!reach(s, w, op, mask, &x, order[w->replica], torn))
			return SIM_STEP_STOP;
		if (torn && ++w->torn < op->nv) {
			sim_note_store(s, w);
			return SIM_STEP_STAY;
		}
		w->torn = 0;
		w->replica++;
		sim_note_store(s, w);
		if (s->o.schedule != SIM_ROUND_ROBIN && w->replica < s->o.ranks &&
		    sim_random(s) % 16 == 0)
			return SIM_STEP_STAY;
	}
	w->replica = 0;
	return SIM_STEP_NEXT;
}

enum sim_step exec_mm_st(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	return broadcast(s, w, op, mask);
}

enum sim_step exec_mm_red(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	return broadcast(s, w, op, mask);
}
