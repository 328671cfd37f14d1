/* CTAs: start with fresh registers and shared memory, barriers, end. */
#include "sim/async.h"
#include "sim/explore.h"
#include "sim/order.h"
#include <string.h>

static struct sim_cta *cta_new(struct sim *s, const struct sim_kernel *k)
{
	struct sim_cta *c = arena_new(s->arena, struct sim_cta);

	c->shared = arena_alloc(s->arena, k->shared_bytes + 1);
	c->shared_defined = arena_alloc(s->arena, k->shared_bytes + 1);
	c->word = arena_array(s->arena, k->shared_bytes / 4 + 1, sizeof *c->word);
	if (k->bulk) {
		c->async = arena_new(s->arena, struct sim_async);
		c->async->piece = arena_array(s->arena, k->shared_bytes / SIM_PIECE + 1,
		                              sizeof *c->async->piece);
	}
	return c;
}

static struct sim_warp *warp_new(struct sim *s, struct sim_cta *c, const struct sim_kernel *k)
{
	struct sim_warp *w = arena_new(s->arena, struct sim_warp);

	w->cta = c;
	w->base[0] = arena_alloc(s->arena, k->reg_bytes + 1);
	w->base[1] = k->consts;
	w->def = arena_array(s->arena, k->nreg + 1, sizeof *w->def);
	w->pred = arena_array(s->arena, k->npred + 1, sizeof *w->pred);
	w->back = arena_array(s->arena, k->nback + 1, sizeof *w->back);
	return w;
}

/* x, y or z of a special register's group; only x varies, since launches are one-dimensional. */
static uint64_t special(const struct sim_warp *w, unsigned which, unsigned lane)
{
	const struct sim_launch *l = w->cta->launch;

	switch (which) {
	case PTX_TID_X:
		return sim_thread(w, lane);
	case PTX_NTID_X:
		return l->block;
	case PTX_CTAID_X:
		return w->cta->index;
	case PTX_NCTAID_X:
		return l->grid;
	case PTX_NTID_Y:
	case PTX_NTID_Z:
	case PTX_NCTAID_Y:
	case PTX_NCTAID_Z:
		return 1;
	case PTX_LANEID:
		return lane;
	case PTX_WARPID:
		return w->index;
	case PTX_NWARPID:
		return w->cta->nwarp;
	case PTX_SMID:
		return w->cta->index;
	default:
		return 0;
	}
}

static void fill_slots(struct sim_warp *w, const struct sim_kernel *k)
{
	for (uint32_t n = 0; n < k->nslot; n++) {
		const struct sim_slot *t = &k->slot[n];
		void *p = sim_reg(w, t->off);

		for (unsigned i = 0; i < SIM_LANES; i++) {
			uint64_t v = t->var ? k->global[t->index][w->cta->launch->rank]
			                    : special(w, t->index, i);

			if (t->width == 8)
				((uint64_t *)p)[i] = v;
			else
				((uint32_t *)p)[i] = (uint32_t)v;
		}
	}
}

static void warp_reset(struct sim_warp *w, const struct sim_kernel *k, unsigned threads)
{
	memset(w->def, 0, (k->nreg + 1) * sizeof *w->def);
	memset(w->pred, 0, (k->npred + 1) * sizeof *w->pred);
	memset(w->back, 0, (k->nback + 1) * sizeof *w->back);
	memset(w->lane_pc, 0, sizeof w->lane_pc);
	w->born = threads >= SIM_LANES ? SIM_ALL_LANES : (1u << threads) - 1;
	w->live = w->active = w->born;
	w->pc = 0;
	w->stop_pc = UINT32_MAX;
	w->waiting = w->parked = 0;
	w->torn = 0;
	w->late = NULL;
	w->replica = w->npoll = w->next_poll = 0;
	w->count = w->loads = w->stores = w->strong = 0;
	w->state = SIM_DONE;
	fill_slots(w, k);
}

static void shared_reset(struct sim_cta *c, const struct sim_kernel *k)
{
	memset(c->shared_defined, 0, k->shared_bytes);
	memset(c->word, 0, (k->shared_bytes / 4 + 1) * sizeof *c->word);
	memset(c->clock, 0, sizeof c->clock);
	memset(c->met, 0, sizeof c->met);
	memset(c->seen, 0, sizeof c->seen);
	if (c->async)
		sim_async_reset(c, k);
}

void sim_cta_start(struct sim *s, struct sim_launch *l, unsigned index)
{
	struct sim_kernel *k = (struct sim_kernel *)(uintptr_t)l->kernel;
	struct sim_cta *c = k->pool;

	if (c)
		k->pool = c->next;
	else
		c = cta_new(s, k);
	c->launch = l;
	c->index = index;
	c->nwarp = (l->block + SIM_LANES - 1) / SIM_LANES;
	c->done = 0;
	c->exited = 0;
	c->triggered = false;
	memset(c->barrier, 0, sizeof c->barrier);
	shared_reset(c, k);
	if (s->race)
		sim_race_cta_start(s, c);
	c->next = l->resident;
	l->resident = c;
	for (unsigned i = 0; i < c->nwarp; i++) {
		if (!c->warp[i])
			c->warp[i] = warp_new(s, c, k);
		c->warp[i]->index = i;
		warp_reset(c->warp[i], k, l->block - i * SIM_LANES);
		c->warp[i]->priority = s->o.schedule == SIM_PCT ? (int64_t)(sim_random(s) >> 2) : 0;
		sim_set_state(s, c->warp[i], SIM_READY);
		if (s->explore)
			sim_explore_born(s, c->warp[i]);
	}
	s->rank[l->rank].resident++;
	s->progress++;
}

static void cta_done(struct sim *s, struct sim_cta *c)
{
	struct sim_launch *l = c->launch;
	struct sim_kernel *k = (struct sim_kernel *)(uintptr_t)l->kernel;
	struct sim_cta **at = &l->resident;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->next = k->pool;
	k->pool = c;
	s->rank[l->rank].resident--;
	l->triggered += !c->triggered;
	if (s->race)
		sim_race_cta_end(s, c);
	if (++l->ended == l->grid)
		sim_launch_done(s, l);
}

/* All warps that are left wait at a barrier for ones that have ended: false, with a finding. */
static bool left_out(struct sim *s, struct sim_cta *c)
{
	for (unsigned b = 0; b < SIM_BARRIERS; b++) {
		struct sim_barrier *x = &c->barrier[b];
		const struct sim_warp *w;

		if (!x->warps || x->expect ||
		    (x->warps | c->exited) != (1u << (c->nwarp - 1) << 1) - 1)
			continue;
		w = c->warp[__builtin_ctz(x->warps)];
		sim_found(s, w, &c->launch->kernel->op[w->pc - 1], SIM_LANES, SIM_BARRIER,
		          "bar.sync %u: the CTA's warps 0x%x wait, but warps 0x%x have ended "
		          "without it",
		          b, x->warps, c->exited);
		return false;
	}
	return true;
}

bool sim_warp_done(struct sim *s, struct sim_warp *w)
{
	struct sim_cta *c = w->cta;

	sim_set_state(s, w, SIM_DONE);
	if (s->explore)
		sim_explore_died(s, w);
	c->exited |= 1u << w->index;
	s->progress++;
	if (++c->done == c->nwarp) {
		if (c->async && !sim_async_end(s, c))
			return false;
		cta_done(s, c);
		return true;
	}
	return left_out(s, c);
}

enum sim_step sim_barrier_arrive(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                 unsigned barrier, unsigned threads)
{
	struct sim_cta *c = w->cta;
	struct sim_barrier *b = &c->barrier[barrier];
	uint32_t warps;
	unsigned want;

	if (b->warps && b->expect != threads)
		return sim_found(
		        s, w, op, SIM_LANES, SIM_BARRIER,
		        "bar.sync %u: warps of the CTA wait there for %u threads, this one for %u",
		        barrier, b->expect, threads);
	b->expect = threads;
	b->warps |= 1u << w->index;
	w->barrier = barrier;
	w->pc++;
	want = threads ? threads / SIM_LANES : c->nwarp;
	if ((unsigned)__builtin_popcount(b->warps) < want) {
		sim_set_state(s, w, SIM_AT_BARRIER);
		return left_out(s, c) ? SIM_STEP_BLOCK : SIM_STEP_STOP;
	}
	warps = b->warps;
	b->warps = 0;
	b->expect = 0;
	s->progress++;
	sim_shared_barrier(c, warps);
	if (s->explore)
		sim_explore_join(s, c, warps);
	SIM_EACH (i, warps & ~(1u << w->index))
		sim_set_state(s, c->warp[i], SIM_READY);
	return SIM_STEP_JUMPED;
}
