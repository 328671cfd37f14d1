/* What the lanes of a warp, or the warps of a CTA, do together: shuffles, votes, barriers, fences.
 */
#include "sim/async.h"
#include "sim/exec.h"
#include "sim/lanes.h"
#include "sim/order.h"
#include <string.h>

/* The active lanes with a guard that holds are `mask`; the lanes that are missing run behind, or
 * left. */
static enum sim_step missing(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                             uint32_t mask, uint32_t want, enum sim_check check, const char *what)
{
	uint32_t absent = want & ~mask;

	if (absent & w->waiting)
		return sim_step_aside(s, w, w->active, true);
	return sim_found(s, w, op, (unsigned)__builtin_ctz(mask), check,
	                 "%s: lanes 0x%08x take part, 0x%08x are missing%s", what, mask, absent,
	                 absent & ~w->live ? " (they have ended)" : "");
}

/* The members that an instruction names have to be the lanes that execute it, and the same for
 * each. */
static enum sim_step check_members(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                   uint32_t mask, const uint32_t *members, const char *what)
{
	uint32_t all = 0;

	SIM_EACH (i, mask) {
		if (!(members[i] >> i & 1))
			return sim_found(s, w, op, i, SIM_SHFL,
			                 "%s: the lane is not in its own mask 0x%08x", what,
			                 members[i]);
		all |= members[i];
	}
	all &= w->born;
	if (all & ~mask)
		return missing(s, w, op, mask, all, SIM_SHFL, what);
	return SIM_STEP_NEXT;
}

/* The lane that lane i reads, and whether it is in range (PTX ISA, shfl.sync). */
static unsigned source_lane(enum ptx_shfl mode, unsigned i, uint32_t b, uint32_t c, bool *in)
{
	const unsigned clamp = c & 31, segment = c >> 8 & 31;
	const unsigned most = (i & segment) | (clamp & ~segment & 31), least = i & segment;
	int j;

	b &= 31;
	switch (mode) {
	case PTX_UP:
		j = (int)i - (int)b;
		*in = j >= (int)most;
		break;
	case PTX_DOWN:
		j = (int)(i + b);
		*in = j <= (int)most;
		break;
	case PTX_BFLY:
		j = (int)(i ^ b);
		*in = j <= (int)most;
		break;
	default:
		j = (int)(least | (b & ~segment & 31));
		*in = j <= (int)most;
		break;
	}
	return *in ? (unsigned)j : i;
}

/* With a second destination, it says whether the lane was in range. */
enum sim_step exec_shfl(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const uint32_t *a = sim_src(w, op->a), *b = sim_src(w, op->b), *c = sim_src(w, op->c);
	const uint32_t *members = sim_src(w, op->v[0]);
	uint32_t old[SIM_LANES], *d = sim_reg(w, op->d), in = 0;
	enum sim_step r = check_members(s, w, op, mask, members, "shfl.sync");

	if (r != SIM_STEP_NEXT)
		return r;
	memcpy(old, a, sizeof old);
	SIM_EACH (i, mask) {
		bool ok;
		unsigned j = source_lane(op->insn->mod.shfl, i, b[i], c[i], &ok);

		if (!(mask >> j & 1))
			return sim_found(s, w, op, i, SIM_SHFL,
			                 "shfl.sync reads lane %u, which does not take part", j);
		d[i] = old[j];
		in |= (uint32_t)ok << i;
	}
	if (op->p != SIM_NOREG)
		w->pred[op->p] = (w->pred[op->p] & ~mask) | in;
	return SIM_STEP_NEXT;
}

enum sim_step exec_vote(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const uint32_t yes = sim_pred(w, op) & mask;
	uint32_t *d;
	enum sim_step r = check_members(s, w, op, mask, sim_src(w, op->a), "vote.sync");

	if (r != SIM_STEP_NEXT)
		return r;
	switch (op->insn->mod.vote) {
	case PTX_ALL:
		return sim_set_pred(w, op, mask, yes == mask ? mask : 0);
	case PTX_ANY:
		return sim_set_pred(w, op, mask, yes ? mask : 0);
	case PTX_UNI:
		return sim_set_pred(w, op, mask, yes == mask || !yes ? mask : 0);
	default:
		d = sim_reg(w, op->d);
		SIM_EACH (i, mask)
			d[i] = yes;
		return SIM_STEP_NEXT;
	}
}

static void note(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask,
                 enum sim_access_kind kind)
{
	if (s->o.on_access)
		SIM_EACH (i, mask)
			sim_event(s, w, op, i, kind, NULL, UINT64_MAX, 0, false);
}

enum sim_step exec_bar_warp(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                            uint32_t mask)
{
	enum sim_step r = check_members(s, w, op, mask, sim_src(w, op->a), "bar.warp.sync");

	if (r != SIM_STEP_NEXT)
		return r;
	note(s, w, op, mask, SIM_ACC_BARRIER);
	sim_shared_barrier(w->cta, 1u << w->index);
	return SIM_STEP_NEXT;
}

static enum sim_step cta_barrier(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                 uint32_t mask, bool counted)
{
	const uint32_t *a = sim_src(w, op->a), *b = sim_src(w, op->b);
	const unsigned lane = (unsigned)__builtin_ctz(mask);
	const unsigned threads = counted ? b[lane] : 0;

	if (mask != w->born)
		return missing(s, w, op, mask, w->born, SIM_BARRIER, "bar.sync");
	SIM_EACH (i, mask)
		if (a[i] != a[lane] || (counted && b[i] != b[lane]))
			return sim_found(s, w, op, i, SIM_BARRIER,
			                 "bar.sync: the lanes of a warp name different barriers");
	if (a[lane] >= SIM_BARRIERS)
		return sim_found(s, w, op, lane, SIM_BARRIER, "bar.sync %u: there are 16 barriers",
		                 a[lane]);
	if (counted && (!threads || threads % SIM_LANES || threads > w->cta->nwarp * SIM_LANES))
		return sim_found(
		        s, w, op, lane, SIM_BARRIER,
		        "bar.sync %u, %u: the count is no multiple of 32 up to the CTA's size",
		        a[lane], threads);
	note(s, w, op, mask, SIM_ACC_BARRIER);
	return sim_barrier_arrive(s, w, op, a[lane], threads);
}

enum sim_step exec_bar_sync(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                            uint32_t mask)
{
	return cta_barrier(s, w, op, mask, false);
}

enum sim_step exec_bar_syncn(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                             uint32_t mask)
{
	return cta_barrier(s, w, op, mask, true);
}

enum sim_step exec_fence(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	if (w->cta->async && op->insn->mod.order != PTX_RELEASE && op->insn->mod.scope >= PTX_GPU)
		w->cta->async->acquires++;
	if (s->race)
		sim_race_fence(s, w, op, mask);
	note(s, w, op, mask, SIM_ACC_FENCE);
	return SIM_STEP_NEXT;
}

enum sim_step exec_fence_alias(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                               uint32_t mask)
{
	if (s->race)
		sim_race_alias(s, w, op, mask);
	note(s, w, op, mask, SIM_ACC_FENCE);
	return SIM_STEP_NEXT;
}

enum sim_step exec_nanosleep(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                             uint32_t mask)
{
	(void)s;
	(void)w;
	(void)op;
	(void)mask;
	return SIM_STEP_YIELD;
}

/* Until the launch heads its stream, the one before it has not ended. */
enum sim_step exec_gdc_wait(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                            uint32_t mask)
{
	const struct sim_launch *l = w->cta->launch;

	if (s->rank[l->rank].stream[l->stream] != l) {
		sim_set_state(s, w, SIM_AT_GRID);
		return SIM_STEP_BLOCK;
	}
	if (s->race)
		sim_race_grid_wait(s, w, mask);
	note(s, w, op, mask, SIM_ACC_FENCE);
	return SIM_STEP_NEXT;
}

/* A CTA lets dependents start when one of its threads does (or when it ends). */
enum sim_step exec_gdc_launch(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                              uint32_t mask)
{
	struct sim_cta *c = w->cta;

	(void)op;
	(void)mask;
	if (!c->triggered) {
		c->triggered = true;
		c->launch->triggered++;
		s->progress++;
	}
	return SIM_STEP_NEXT;
}
