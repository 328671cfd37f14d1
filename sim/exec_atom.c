/* Atomics on one address: lanes one after the other, in order. */
#include "sim/exec.h"
#include "sim/move.h"
#include "sim/order.h"
#include "sim/rmw.h"

static uint64_t lane_value(const struct sim_warp *w, const struct sim_op *op, uint32_t o,
                           unsigned i)
{
	const void *v = sim_src(w, o);

	return op->aw == 8 ? ((const uint64_t *)v)[i] : ((const uint32_t *)v)[i];
}

static uint64_t updated(struct sim_warp *w, const struct sim_op *op, unsigned i, uint64_t old)
{
	const uint64_t keep = ~UINT64_C(0) >> (64 - 8 * op->size);
	const uint64_t b = lane_value(w, op, op->a, i) & keep;

	switch (op->insn->op) {
	case PTX_atom_cas:
		return old == b ? lane_value(w, op, op->b, i) & keep : old;
	case PTX_atom_exch:
		return b;
	default:
		return sim_reduce(op->insn->mod.red, op->type, old, b);
	}
}

/* A compare-and-swap that found another value only reads. */
static bool failed(const struct sim_warp *w, const struct sim_op *op, unsigned i, uint64_t old)
{
	return old != (lane_value(w, op, op->a, i) & ~UINT64_C(0) >> (64 - 8 * op->size));
}

static void give(struct sim_warp *w, const struct sim_op *op, unsigned i, uint64_t old)
{
	if (op->insn->op == PTX_red || op->d == SIM_NOREG)
		return;
	if (op->dw == 8)
		((uint64_t *)sim_reg(w, op->d))[i] = old;
	else
		((uint32_t *)sim_reg(w, op->d))[i] = (uint32_t)old;
}

static enum sim_step atomic_shared(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                   unsigned i, uint64_t addr)
{
	uint8_t *p = sim_shared_access(s, w, op, i, addr, op->size, true, true);
	uint64_t old = 0, now;

	if (!p)
		return SIM_STEP_STOP;
	old = sim_get(p, op->size);
	now = updated(w, op, i, old);
	sim_put(p, now, op->size);
	give(w, op, i, old);
	return SIM_STEP_NEXT;
}

/* *changed: memory has another value now; one that has not is to the liveness check a load. */
static enum sim_step atomic_global(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                   unsigned i, uint64_t addr, uint64_t *seen, bool *changed)
{
	uint64_t off, old = 0, now;
	struct sim_block *b = sim_check_addr(s, w, op, i, addr, op->size, false, &off);
	bool reads;

	if (!b || !sim_check_defined(s, w, op, i, b, off, op->size))
		return SIM_STEP_STOP;
	old = sim_get(b->data + off, op->size);
	now = updated(w, op, i, old);
	reads = op->insn->op == PTX_atom_cas && failed(w, op, i, old);
	if (!sim_race_lane(s, w, op, i, b, off, op->size, reads ? SIM_ACC_READ : SIM_ACC_RMW,
	                   RACE_GENERIC, reads ? NULL : (uint8_t *)&now))
		return SIM_STEP_STOP;
	if (now != old) {
		sim_store(s, w, op, b, off, &now, op->size);
		*changed = true;
	}
	*seen = old;
	give(w, op, i, old);
	if (s->o.on_access)
		sim_event(s, w, op, i, SIM_ACC_RMW, b, off, op->size, false);
	return SIM_STEP_NEXT;
}

static enum sim_step atomic(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                            uint32_t mask)
{
	uint64_t addr[SIM_LANES] = {0}, seen[SIM_LANES] = {0};
	bool changed = false;
	uint32_t global = 0;

	SIM_EACH (i, mask) {
		bool window;
		enum sim_step r;

		addr[i] = sim_lane_addr(w, op, i);
		window = op->space == PTX_GENERIC && addr[i] >> SIM_ADDR_SHIFT == SIM_SHARED_NUMBER;
		if (op->space == PTX_SHARED || window) {
			r = atomic_shared(s, w, op, i, addr[i] - (window ? SIM_SHARED_WINDOW : 0));
		} else {
			global |= 1u << i;
			r = atomic_global(s, w, op, i, addr[i], &seen[i], &changed);
		}
		if (r == SIM_STEP_STOP)
			return r;
	}
	if (changed)
		sim_note_store(s, w);
	else if (global)
		sim_note_load(w, op, global, addr, seen);
	return SIM_STEP_NEXT;
}

#define ATOMIC(ID)                                                                          \
	enum sim_step exec_##ID(struct sim *s, struct sim_warp *w, const struct sim_op *op, \
	                        uint32_t mask)                                              \
	{                                                                                   \
		return atomic(s, w, op, mask);                                              \
	}
ATOMIC(atom)
ATOMIC(atom_cas)
ATOMIC(atom_exch)
ATOMIC(red)
