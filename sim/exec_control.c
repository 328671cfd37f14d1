/* Branches and the end of threads. */
#include "sim/async.h"
#include "sim/exec.h"

enum sim_step exec_bra(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const bool back = op->target <= w->pc;

	if (mask != w->active) {
		uint32_t stay = w->active & ~mask;

		sim_split(w, stay, w->pc + 1);
	}
	w->pc = op->target;
	return back && sim_note_back(w, op, mask) ? sim_step_aside(s, w, mask, false)
	                                          : SIM_STEP_JUMPED;
}

static enum sim_step end(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const uint32_t stay = w->active & ~mask;

	if (w->cta->async && !sim_async_exit(s, w, op, mask))
		return SIM_STEP_STOP;
	w->live &= ~mask;
	s->progress++;
	if (!w->live)
		return sim_warp_done(s, w) ? SIM_STEP_BLOCK : SIM_STEP_STOP;
	w->pc++;
	w->active = stay;
	return SIM_STEP_JUMPED;
}

enum sim_step exec_ret(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	return end(s, w, op, mask);
}

enum sim_step exec_exit(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	return end(s, w, op, mask);
}

enum sim_step exec_trap(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	(void)mask;
	return sim_found(s, w, op, SIM_LANES, SIM_TRAP, "the kernel aborted itself");
}
