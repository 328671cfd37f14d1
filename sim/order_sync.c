/* What orders: launches and streams, barriers, fences, mbarriers, host functions (order.h). */
#include "sim/order.h"
#include "sim/async.h"
#include <string.h>

/* ---- slots ---- */

static uint32_t slots_new(struct sim *s, unsigned n, struct race_slot like)
{
	struct sim_race *r = s->race;
	const uint32_t first = r->nslot;

	if (first + n > RACE_MAX_SLOTS)
		longjmp(s->arena->oom, 1);
	r->slot = arena_grow(s->arena, r->slot, r->nslot, &r->cap_slot, r->nslot + n,
	                     sizeof *r->slot);
	for (unsigned i = 0; i < n; i++) {
		r->slot[first + i] = like;
		r->slot[first + i].warp = (uint8_t)i;
	}
	r->nslot += n;
	return first;
}

/* The CTA's slots: those of its launch before the last, when they are enough. */
static struct race_place *place_of(struct sim *s, const struct sim_cta *c)
{
	const struct sim_launch *l = c->launch;
	struct race_stream *t = &s->race->stream[l->rank][l->stream];
	struct race_place **list = &t->place[l->race_turn & 1], *p = *list;

	while (p && (p->cta != c->index || p->nwarp < c->nwarp))
		p = p->next;
	if (p)
		return p;
	p = arena_new(s->arena, struct race_place);
	p->cta = c->index;
	p->nwarp = c->nwarp;
	p->first = slots_new(s, c->nwarp,
	                     (struct race_slot){.rank = (uint8_t)l->rank,
	                                        .kind = RACE_SLOT_WARP,
	                                        .stream = (uint16_t)l->stream,
	                                        .cta = c->index});
	p->next = *list;
	*list = p;
	return p;
}

uint32_t sim_site(const struct sim *s, const struct sim_warp *w, const struct sim_op *op)
{
	const struct sim_kernel *k = w->cta->launch->kernel;

	(void)s;
	return k->race_number << RACE_SITE_BITS |
	       ((uint32_t)(op - k->op) & ((1u << RACE_SITE_BITS) - 1));
}

uint32_t sim_race_async_slot(struct sim *s, struct sim_cta *cta, const struct sim_copy *x,
                             uint32_t *clock)
{
	const struct race_cta *c = cta->race;
	const unsigned i = x->load ? x->mbar : SIM_MBARS + x->issuer;
	struct race_slot *slot;

	if (!c->place->async[i])
		c->place->async[i] =
		        1 + slots_new(s, 1,
		                      (struct race_slot){.rank = (uint8_t)cta->launch->rank,
		                                         .kind = RACE_SLOT_ASYNC,
		                                         .stream = (uint16_t)cta->launch->stream,
		                                         .cta = cta->index});
	slot = &s->race->slot[c->place->async[i] - 1];
	*clock = c->async_base[i] + x->group;
	if (slot->clock < *clock)
		slot->clock = *clock;
	return c->place->async[i] - 1;
}

/* ---- launches ---- */

void sim_race_new(struct sim *s)
{
	struct sim_race *r = s->race = arena_new(s->arena, struct sim_race);

	r->level = s->o.races;
	r->zero = sim_clock_zero(s);
	for (unsigned i = 0; i < SIM_MAX_RANKS; i++) {
		r->sc_gpu[i] = sim_clock_ref(r->zero);
		for (unsigned t = 0; t < SIM_STREAMS; t++)
			r->stream[i][t].now = sim_clock_ref(r->zero);
	}
	r->sc_sys = sim_clock_ref(r->zero);
	/* slot 0 is nobody's, so that no epoch is 0 */
	slots_new(s, 1, (struct race_slot){.kind = RACE_SLOT_HOST});
	r->kernel = arena_grow(s->arena, r->kernel, 0, &r->cap_kernel, 1, sizeof *r->kernel);
	r->nkernel = 1;
}

void sim_race_run(struct sim *s)
{
	struct sim_race *r = s->race;
	struct race_clock *all;

	if (!r->ran) {
		r->ran = true;
		return;
	}
	all = sim_clock_ref(r->zero);
	for (unsigned i = 0; i < s->o.ranks; i++)
		for (unsigned t = 0; t < SIM_STREAMS; t++)
			sim_clock_join(s, &all, r->stream[i][t].now);
	for (unsigned i = 0; i < s->o.ranks; i++)
		for (unsigned t = 0; t < SIM_STREAMS; t++) {
			sim_clock_put(s, r->stream[i][t].now);
			r->stream[i][t].now = sim_clock_ref(all);
		}
	sim_clock_put(s, all);
}

static void set_early(struct sim *s, struct race_stream *t)
{
	sim_clock_put(s, t->early);
	t->early = sim_clock_ref(t->now);
}

void sim_race_launch_start(struct sim *s, struct sim_launch *l)
{
	struct sim_race *r = s->race;
	struct race_stream *t = &r->stream[l->rank][l->stream];
	struct race_launch *x = l->race = arena_new(s->arena, struct race_launch);
	struct sim_kernel *k = (struct sim_kernel *)(uintptr_t)l->kernel;
	const struct sim_launch *head = s->rank[l->rank].stream[l->stream];
	struct race_clock *first = t->now;

	if (!k->race_number) {
		r->kernel = arena_grow(s->arena, r->kernel, r->nkernel, &r->cap_kernel,
		                       r->nkernel + 1, sizeof *r->kernel);
		k->race_number = (uint32_t)r->nkernel;
		r->kernel[r->nkernel++] = k;
	}
	l->race_turn = t->count++;
	/* One that may start early knows no more than the item before it knew to begin with. */
	if (l->programmatic && head != l)
		first = head->race ? head->race->early : t->now;
	else if (l->programmatic && t->early)
		first = t->early;
	x->early = sim_clock_ref(first);
	x->start = sim_clock_ref(first);
	if (!l->programmatic)
		set_early(s, t);
	x->end = sim_clock_ref(x->early);
}

void sim_race_launch_end(struct sim *s, struct sim_launch *l)
{
	struct race_stream *t = &s->race->stream[l->rank][l->stream];
	struct race_launch *x = l->race;

	if (!x)
		return;
	sim_clock_put(s, t->last);
	t->last = sim_clock_ref(x->end);
	sim_clock_join(s, &t->now, x->end);
	sim_clock_cross(s, &t->now);
	sim_clock_put(s, x->early);
	sim_clock_put(s, x->start);
	sim_clock_put(s, x->end);
	sim_rel_put(s, x->rel);
}

void sim_race_mark(struct sim *s, struct sim_launch *l)
{
	l->left = sim_clock_ref(s->race->stream[l->rank][l->stream].now);
}

void sim_race_after(struct sim *s, const struct sim_launch *l)
{
	struct race_stream *t = &s->race->stream[l->rank][l->stream];

	sim_clock_join(s, &t->now, l->after->left);
	sim_clock_cross(s, &t->now);
}

/*
 * The launches before have ended, and what they did is visible to these threads: across aliases only
 * where the launch itself has bridged them.
 */
void sim_race_grid_wait(struct sim *s, struct sim_warp *w, uint32_t mask)
{
	const struct sim_launch *l = w->cta->launch;
	const struct race_stream *t = &s->race->stream[l->rank][l->stream];
	struct race_cta *c = w->cta->race;

	if (!l->programmatic)
		return;
	SIM_EACH (i, mask) {
		struct race_lane *x = &c->lane[w->index * SIM_LANES + i];

		if (!x->own)
			x->own = sim_clock_ref(c->base[w->index]);
		c->dirty[w->index] |= 1u << i;
		sim_clock_join_plain(s, &x->own, t->now);
		if (t->last)
			sim_clock_join(s, &x->own, t->last);
	}
}

/* ---- CTAs ---- */

static struct race_cta *cta_new(struct sim *s)
{
	struct race_cta *c = arena_new(s->arena, struct race_cta);

	c->lane = arena_news(s->arena, struct race_lane, (size_t)RACE_WARPS * SIM_LANES);
	return c;
}

/* Clocks of bulk copies begin where the launch before left them. */
static void async_start(struct sim *s, struct sim_cta *cta)
{
	struct race_cta *c = cta->race;

	if (!c->mbar) {
		c->mbar = arena_news(s->arena, struct race_mbar, SIM_MBARS);
		c->async_base = arena_news(s->arena, uint32_t, SIM_MBARS + SIM_ISSUERS);
	}
	memset(c->mbar, 0, SIM_MBARS * sizeof *c->mbar);
	if (!c->place->async)
		c->place->async = arena_news(s->arena, uint32_t, SIM_MBARS + SIM_ISSUERS);
	for (unsigned i = 0; i < SIM_MBARS + SIM_ISSUERS; i++) {
		const uint32_t slot = c->place->async[i];

		c->async_base[i] = slot ? s->race->slot[slot - 1].clock : 0;
	}
}

void sim_race_cta_start(struct sim *s, struct sim_cta *cta)
{
	struct sim_race *r = s->race;
	struct race_launch *l = cta->launch->race;
	struct race_cta *c;

	if (!cta->race)
		cta->race = cta_new(s);
	c = cta->race;
	c->place = place_of(s, cta);
	c->first = c->place->first;
	c->nwarp = cta->nwarp;
	c->note = NULL;
	c->start = sim_clock_ref(l->start);
	c->sc = sim_clock_ref(r->zero);
	memset(c->seen, 0, sizeof c->seen);
	memset(c->dirty, 0, sizeof c->dirty);
	r->instances++;
	for (unsigned w = 0; w < c->nwarp; w++) {
		struct race_slot *x = &r->slot[c->first + w];

		c->clock[w] = x->since = x->clock + 1;
		x->launch = cta->launch->number;
		x->instance = r->instances;
		c->base[w] = sim_clock_ref(l->start);
		for (unsigned i = 0; i < SIM_LANES; i++)
			memset(c->lane[w * SIM_LANES + i].had, 0, sizeof c->lane->had);
	}
	if (cta->async)
		async_start(s, cta);
	if (r->level == SIM_RACES_HW && !l->rel)
		l->rel = sim_rel_boundary(s, l->start);
	c->rel = l->rel;
}

static void lane_end(struct sim *s, struct race_lane *l, struct race_clock **end, bool acquires)
{
	if (l->own) {
		sim_clock_join(s, end, l->own);
		sim_clock_put(s, l->own);
		l->own = NULL;
	}
	for (uint32_t i = 0; i < l->npend; i++) {
		if (acquires)
			sim_rel_join(s, end, l->pend[i]);
		sim_rel_put(s, l->pend[i]);
	}
	l->npend = 0;
	sim_rel_put(s, l->fence);
	sim_rel_put(s, l->async);
	l->fence = l->async = 0;
}

static void async_end(struct sim *s, struct sim_cta *cta, struct race_clock *end)
{
	const struct race_cta *c = cta->race;

	for (unsigned i = 0; i < SIM_MBARS + SIM_ISSUERS; i++) {
		const uint32_t slot = c->place->async[i];

		if (i < SIM_MBARS)
			for (unsigned k = 0; k < 2; k++)
				sim_clock_put(s, c->mbar[i].base[k]);
		if (slot)
			end->t->d[slot - 1] = ++s->race->slot[slot - 1].clock;
	}
}

void sim_race_cta_end(struct sim *s, struct sim_cta *cta)
{
	struct race_cta *c = cta->race;
	struct race_clock **end = &cta->launch->race->end, *last = NULL;

	for (unsigned w = 0; w < c->nwarp; w++) {
		if (c->base[w] != last)
			sim_clock_join(s, end, c->base[w]);
		last = c->base[w];
		for (unsigned i = 0; i < SIM_LANES; i++)
			lane_end(s, &c->lane[w * SIM_LANES + i], end,
			         s->race->level == SIM_RACES_HW);
	}
	sim_clock_own(s, end);
	for (unsigned w = 0; w < c->nwarp; w++) {
		sim_clock_put(s, c->base[w]);
		s->race->slot[c->first + w].clock = c->clock[w] + 1;
		(*end)->t->d[c->first + w] = c->clock[w] + 1;
	}
	if (cta->async)
		async_end(s, cta, *end);
	sim_clock_put(s, c->start);
	sim_clock_put(s, c->sc);
}

/* ---- barriers ---- */

/* The warps know from here on what any of them, or a lane of any, knew of other CTAs. */
static void join_bases(struct sim *s, struct race_cta *c, uint32_t warps)
{
	const unsigned first = (unsigned)__builtin_ctz(warps);
	struct race_clock *all = sim_clock_ref(c->base[first]);

	SIM_EACH (w, warps) {
		if (c->base[w] != c->base[first])
			sim_clock_join(s, &all, c->base[w]);
		SIM_EACH2(i, c->dirty[w])
		{
			struct race_lane *l = &c->lane[w * SIM_LANES + i];

			if (l->own) {
				sim_clock_join(s, &all, l->own);
				sim_clock_put(s, l->own);
			}
			l->own = NULL;
		}
		c->dirty[w] = 0;
	}
	SIM_EACH (w, warps) {
		struct race_clock *old = c->base[w];

		c->base[w] = sim_clock_ref(all);
		sim_clock_put(s, old);
	}
	sim_clock_put(s, all);
}

void sim_race_barrier(struct sim *s, struct sim_cta *cta, uint32_t warps)
{
	struct race_cta *c = cta->race;
	uint32_t most[RACE_WARPS] = {0};

	SIM_EACH (i, warps) {
		c->seen[i][i] = ++c->clock[i];
		for (unsigned v = 0; v < c->nwarp; v++)
			if (c->seen[i][v] > most[v])
				most[v] = c->seen[i][v];
	}
	SIM_EACH (j, warps)
		memcpy(c->seen[j], most, sizeof most);
	join_bases(s, c, warps);
}

void sim_race_mbar_arrive(struct sim *s, struct sim_warp *w, unsigned mbar)
{
	struct race_cta *c = w->cta->race;
	struct race_mbar *m = &c->mbar[mbar];

	c->seen[w->index][w->index] = ++c->clock[w->index];
	for (unsigned v = 0; v < c->nwarp; v++)
		if (c->seen[w->index][v] > m->seen[0][v])
			m->seen[0][v] = c->seen[w->index][v];
	join_bases(s, c, 1u << w->index);
	if (!m->base[0])
		m->base[0] = sim_clock_ref(c->base[w->index]);
	else
		sim_clock_join(s, &m->base[0], c->base[w->index]);
}

void sim_race_mbar_complete(struct sim *s, struct sim_cta *cta, unsigned mbar)
{
	struct race_mbar *m = &cta->race->mbar[mbar];

	memcpy(m->seen[1], m->seen[0], sizeof m->seen[1]);
	sim_clock_put(s, m->base[1]);
	m->base[1] = m->base[0] ? sim_clock_ref(m->base[0]) : NULL;
}

void sim_race_mbar_wait(struct sim *s, struct sim_warp *w, unsigned mbar)
{
	struct race_cta *c = w->cta->race;
	const struct race_mbar *m = &c->mbar[mbar];

	for (unsigned v = 0; v < c->nwarp; v++)
		if (m->seen[1][v] > c->seen[w->index][v])
			c->seen[w->index][v] = m->seen[1][v];
	if (m->base[1] && m->base[1] != c->base[w->index])
		sim_clock_join(s, &c->base[w->index], m->base[1]);
}

/* ---- fences ---- */

/* Acquires what the lane has read; what is out of scope stays. */
static void take(struct sim *s, struct sim_warp *w, unsigned lane, unsigned scope, uint32_t site)
{
	struct race_lane *l = &w->cta->race->lane[w->index * SIM_LANES + lane];
	uint32_t left = 0;

	for (uint32_t i = 0; i < l->npend; i++)
		if (sim_race_acquire(s, w, lane, l->pend[i], scope, site))
			sim_rel_put(s, l->pend[i]);
		else
			l->pend[left++] = l->pend[i];
	l->npend = left;
}

/* fence.sc of one thread: behind those before it whose scope and its own include one another. */
static void order_sc(struct sim *s, struct sim_warp *w, unsigned lane, unsigned scope, uint32_t id)
{
	struct sim_race *r = s->race;
	struct race_cta *c = w->cta->race;
	struct race_lane *l = &c->lane[w->index * SIM_LANES + lane];
	struct race_clock **of[3] = {&c->sc, &r->sc_gpu[w->cta->launch->rank], &r->sc_sys};
	const unsigned n = scope == PTX_SYS ? 3 : scope == PTX_GPU ? 2 : 1;

	if (!l->own)
		l->own = sim_clock_ref(c->base[w->index]);
	c->dirty[w->index] |= 1u << lane;
	for (unsigned k = 0; k < n; k++)
		sim_clock_join(s, &l->own, *of[k]);
	for (unsigned k = 0; k < n; k++)
		sim_rel_join(s, of[k], id);
}

void sim_race_fence(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	struct race_cta *c = w->cta->race;
	const unsigned order = op->insn->mod.order, scope = op->insn->mod.scope;
	const uint32_t site = sim_site(s, w, op);

	if (s->explore)
		sim_explore_fence(s, w, op);
	SIM_EACH (i, mask) {
		struct race_lane *l = &c->lane[w->index * SIM_LANES + i];
		uint32_t id;

		if (order != PTX_RELEASE)
			take(s, w, i, scope, site);
		if (order == PTX_ACQUIRE)
			continue;
		id = sim_rel_new(s, w, i, scope, site);
		if (order == PTX_SC) {
			order_sc(s, w, i, scope, id);
			sim_rel_put(s, id);
			id = sim_rel_new(s, w, i, scope, site);
		}
		/* one of a narrower scope leaves the one before it as it is, for others */
		if (l->fence && sim_rel(s->race, l->fence)->scope > scope) {
			uint32_t both = sim_rel_chain(s, l->fence, id);

			sim_rel_put(s, id);
			id = both;
		}
		sim_rel_put(s, l->fence);
		l->fence = id;
	}
}

void sim_race_alias(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	struct race_cta *c = w->cta->race;
	const uint32_t clock = ++c->clock[w->index];

	(void)op;
	SIM_EACH (i, mask) {
		struct race_lane *l = &c->lane[w->index * SIM_LANES + i];

		if (!l->own)
			l->own = sim_clock_ref(c->base[w->index]);
		c->dirty[w->index] |= 1u << i;
		sim_clock_bridge(s, &l->own, c->first, c->seen[w->index], c->nwarp,
		                 (c->first + w->index) << 5 | i, clock);
	}
}

void sim_race_async_fence(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	struct race_cta *c = w->cta->race;

	SIM_EACH (i, mask) {
		struct race_lane *l = &c->lane[w->index * SIM_LANES + i];

		sim_rel_put(s, l->async);
		l->async = sim_rel_new(s, w, i, PTX_SYS, sim_site(s, w, op));
	}
}

/* ---- host functions ---- */

void sim_race_host_begin(struct sim *s, unsigned rank, unsigned stream)
{
	struct sim_race *r = s->race;
	struct race_stream *t = &r->stream[rank][stream];

	if (!t->host)
		t->host = 1 + slots_new(s, 1,
		                        (struct race_slot){.rank = (uint8_t)rank,
		                                           .kind = RACE_SLOT_HOST,
		                                           .stream = (uint16_t)stream});
	set_early(s, t);
	r->host = t;
	r->host_rank = rank;
}

void sim_race_host_end(struct sim *s)
{
	struct race_stream *t = s->race->host;
	const uint32_t slot = t->host - 1;

	sim_clock_own(s, &t->now);
	t->now->t->d[slot] = ++s->race->slot[slot].clock;
	sim_clock_cross(s, &t->now);
	s->race->host = NULL;
}
