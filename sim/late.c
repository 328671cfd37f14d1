/*
 * Loads that are made later than their place in the program (weak memory): a relaxed load of global
 * memory may come behind what follows, as long as that neither needs its result, nor touches the
 * same bytes, nor orders memory.  So a load can see a store that its own thread's later store brought
 * about.  A warp has one such load at most.
 */
#include "sim/explore.h"

/* Its address is known already. */
static bool shares_register(const struct sim_op *late, const struct sim_op *op)
{
	for (unsigned k = 0; k < late->ndef; k++) {
		for (unsigned i = 0; i < op->nuse; i++)
			if (op->use[i] == late->def[k])
				return true;
		for (unsigned i = 0; i < op->ndef; i++)
			if (op->def[i] == late->def[k])
				return true;
	}
	return false;
}

/* A weak or relaxed access of other bytes. */
static bool apart(const struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const unsigned n = op->nv * (unsigned)op->size, m = w->late->nv * (unsigned)w->late->size;

	if ((op->insn->op != PTX_ld && op->insn->op != PTX_st) || op->space != PTX_GLOBAL ||
	    op->insn->mod.order > PTX_RELAXED)
		return false;
	SIM_EACH (i, mask) {
		const uint64_t at = sim_lane_addr(w, op, i);

		for (unsigned k = 0; k < SIM_LANES; k++)
			if (w->late_mask >> k & 1 && at < w->late_addr[k] + m &&
			    w->late_addr[k] < at + n)
				return false;
	}
	return true;
}

bool sim_late_passes(const struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	if (shares_register(w->late, op))
		return false;
	return op->insn->op < PTX_ld || op->space == PTX_PARAM ||
	       (op->insn->op == PTX_bra && !op->back) || apart(w, op, mask);
}

bool sim_late_begin(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask,
                    const uint64_t *addr)
{
	if (w->late || !op->strong || op->insn->mod.order != PTX_RELAXED || s->fresh)
		return false;
	if (s->explore ? !sim_explore_late(s, w, op, mask, addr) : sim_random(s) % 4 != 0)
		return false;
	w->late = op;
	w->late_mask = mask;
	for (unsigned i = 0; i < SIM_LANES; i++)
		w->late_addr[i] = addr[i];
	for (unsigned k = 0; k < op->ndef; k++)
		w->def[op->def[k]] &= ~mask;
	return true;
}

bool sim_late_before(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const struct sim_op *late = w->late;

	if (sim_late_passes(w, op, mask))
		return true;
	w->late = NULL;
	if (sim_load_global(s, w, late, w->late_mask, w->late_addr) == SIM_STEP_STOP)
		return false;
	for (unsigned k = 0; k < late->ndef; k++)
		w->def[late->def[k]] |= w->late_mask;
	return true;
}
