/*
 * Runs a warp: decode is done, so this fetches, checks that registers are defined, applies guards
 * and executes.
 *
 * Lanes that diverge have their own pc.  The lanes with the least pc run, until they meet others
 * (stop_pc), which brings lanes together again right after the code that only some of them took.
 * Lanes that poll in vain step aside, so that the others of their warp get on.
 */
#include "sim/exec.h"
#include "sim/explore.h"

bool sim_pick(struct sim_warp *w)
{
	uint32_t can = w->live & ~w->waiting & ~w->parked, pc = UINT32_MAX, at = 0;

	SIM_EACH (i, can)
		if (w->lane_pc[i] < pc)
			pc = w->lane_pc[i];
	if (!can)
		return false;
	w->stop_pc = UINT32_MAX;
	SIM_EACH (j, w->live) {
		if (w->lane_pc[j] == pc)
			at |= 1u << j;
		else if (w->lane_pc[j] > pc && w->lane_pc[j] < w->stop_pc)
			w->stop_pc = w->lane_pc[j];
	}
	w->pc = pc;
	w->active = at;
	w->waiting &= ~at;
	w->parked &= ~at;
	return true;
}

/* Writes the active lanes' pc back, so that sim_pick can choose among all. */
static void put_back(struct sim_warp *w)
{
	SIM_EACH (i, w->active)
		w->lane_pc[i] = w->pc;
}

void sim_split(struct sim_warp *w, uint32_t mask, uint32_t at)
{
	SIM_EACH (i, mask)
		w->lane_pc[i] = at;
	w->active &= ~mask;
}

static enum sim_step undefined(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                               uint32_t mask)
{
	for (unsigned k = 0; k < op->nuse; k++) {
		uint32_t miss = mask & ~w->def[op->use[k]];

		if (miss)
			return sim_found(s, w, op, (unsigned)__builtin_ctz(miss), SIM_UNINIT_REG,
			                 "register %s is read before it is written",
			                 sim_register_text(s, w->cta->launch->kernel, op->use[k]));
	}
	return SIM_STEP_STOP;
}

static inline bool all_defined(const struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	uint32_t have = SIM_ALL_LANES;

	for (unsigned k = 0; k < op->nuse; k++)
		have &= w->def[op->use[k]];
	return !(mask & ~have);
}

static void refresh_timers(struct sim *s, struct sim_warp *w)
{
	const struct sim_kernel *k = w->cta->launch->kernel;
	uint64_t *ns = sim_reg(w, k->timer_off[0]), *clock = sim_reg(w, k->timer_off[1]);

	for (unsigned i = 0; i < SIM_LANES; i++) {
		ns[i] = s->ns;
		clock[i] = w->count;
	}
}

enum sim_step sim_step_aside(struct sim *s, struct sim_warp *w, uint32_t mask, bool parked)
{
	if (parked)
		w->parked |= mask;
	else
		w->waiting |= mask;
	sim_split(w, mask, w->pc);
	if (sim_pick(w))
		return SIM_STEP_JUMPED;
	sim_watch(s, w);
	sim_set_state(s, w, SIM_WAITING);
	return SIM_STEP_BLOCK;
}

/* After a jump or where lanes meet: who is next?  false: nobody can run. */
static bool choose(struct sim *s, struct sim_warp *w)
{
	put_back(w);
	if (sim_pick(w))
		return true;
	if (w->waiting) {
		sim_watch(s, w);
		sim_set_state(s, w, SIM_WAITING);
	}
	return false;
}

/* One instruction at w->pc. */
static enum sim_step step(struct sim *s, struct sim_warp *w, const struct sim_op *op)
{
	uint32_t mask = w->active;
	enum sim_step r;

	if (op->guard && w->late && !sim_late_before(s, w, op, mask))
		return SIM_STEP_STOP;
	if (op->guard) {
		uint32_t p = w->pred[op->guard - 1];

		if (mask & ~w->def[op->use[0]])
			return undefined(s, w, op, mask);
		mask &= op->guard_not ? ~p : p;
		if (!mask)
			return SIM_STEP_NEXT;
	}
	if (w->late && !sim_late_before(s, w, op, mask))
		return SIM_STEP_STOP;
	if (!all_defined(w, op, mask))
		return undefined(s, w, op, mask);
	if (op->timer)
		refresh_timers(s, w);
	s->stats.lane_insns += (unsigned)__builtin_popcount(mask);
	r = op->exec(s, w, op, mask);
	if (w->late == op) /* put off: nothing is defined yet */
		return r;
	for (unsigned k = 0; k < op->ndef; k++)
		w->def[op->def[k]] |= mask;
	return r;
}

bool sim_run_warp(struct sim *s, struct sim_warp *w, unsigned budget)
{
	const struct sim_op *ops = w->cta->launch->kernel->op;
	unsigned left = budget;
	bool good = true;

	if (!w->replica && !w->torn && !w->x.at_choice &&
	    (w->active != w->live || w->waiting || w->parked)) {
		w->waiting = w->parked = 0;
		put_back(w);
		sim_pick(w);
	}
	while (left) {
		enum sim_step r;

		if (s->explore && !sim_explore_go(s, w, &ops[w->pc])) {
			good = !s->findings;
			break;
		}
		r = step(s, w, &ops[w->pc]);
		left--;
		w->count++;
		s->ns++;
		if (r == SIM_STEP_NEXT || r == SIM_STEP_YIELD) {
			w->pc++;
			if (w->pc >= w->stop_pc && !choose(s, w))
				break;
			if (r == SIM_STEP_YIELD && !s->explore)
				break;
		} else if (r == SIM_STEP_JUMPED) {
			if (w->active != w->live && !choose(s, w))
				break;
		} else {
			good = r != SIM_STEP_STOP;
			break;
		}
	}
	s->steps += budget - left;
	s->stats.warp_insns += budget - left;
	return good;
}
