/* Clock objects, and the releases that hand them on (order.h). */
#include "sim/order.h"
#include "sim/async.h"
#include <string.h>

/* ---- clock objects ---- */

static struct race_clock *clock_new(struct sim *s, uint32_t n)
{
	struct sim_race *r = s->race;
	struct race_clock **at = &r->free_clock, *c;

	while (*at && (*at)->cap < n)
		at = &(*at)->free;
	c = *at;
	if (c) {
		*at = c->free;
	} else {
		c = arena_new(s->arena, struct race_clock);
		c->cap = (n + 63) / 64 * 64;
		c->d = arena_news(s->arena, uint32_t, 2 * (size_t)c->cap);
		c->a = c->d + c->cap;
	}
	c->refs = 1;
	c->n = n;
	c->none = 0;
	return c;
}

struct race_clock *sim_clock_ref(struct race_clock *c)
{
	c->refs++;
	return c;
}

void sim_clock_put(struct sim *s, struct race_clock *c)
{
	if (!c || --c->refs)
		return;
	c->free = s->race->free_clock;
	s->race->free_clock = c;
}

static struct race_one *one_of(const struct race_clock *c, uint32_t who)
{
	for (uint32_t i = 0; i < c->none; i++)
		if (c->one[i].who == who)
			return &c->one[i];
	return NULL;
}

static void set_one(struct sim *s, struct race_clock *c, uint32_t who, uint32_t d, uint32_t a)
{
	struct race_one *x = one_of(c, who);

	if (!x) {
		size_t cap = c->cap_one;

		if (c->d[who >> 5] >= d && c->a[who >> 5] >= a)
			return;
		c->one = arena_grow(s->arena, c->one, c->none, &cap, c->none + 1u, sizeof *c->one);
		c->cap_one = (uint32_t)cap;
		x = &c->one[c->none++];
		*x = (struct race_one){who, 0, 0};
	}
	if (d > x->d)
		x->d = d;
	if (a > x->a)
		x->a = a;
}

/* What threads are known beyond their warps, where that is still so. */
static void copy_ones(struct sim *s, struct race_clock *to, const struct race_clock *from)
{
	for (uint32_t i = 0; i < from->none; i++) {
		const struct race_one *x = &from->one[i];

		if (to->d[x->who >> 5] < x->d || to->a[x->who >> 5] < x->a)
			set_one(s, to, x->who, x->d, x->a);
	}
}

/* A copy that is the caller's alone, with room for all slots. */
static struct race_clock *clock_copy(struct sim *s, const struct race_clock *from)
{
	struct race_clock *c = clock_new(s, s->race->nslot);

	memcpy(c->d, from->d, from->n * sizeof *c->d);
	memcpy(c->a, from->a, from->n * sizeof *c->a);
	memset(c->d + from->n, 0, (c->n - from->n) * sizeof *c->d);
	memset(c->a + from->n, 0, (c->n - from->n) * sizeof *c->a);
	copy_ones(s, c, from);
	return c;
}

/* Makes *c the caller's alone, so that it can be changed. */
struct race_clock *sim_clock_own(struct sim *s, struct race_clock **c)
{
	struct race_clock *x = *c;

	if (x->refs == 1 && x->n == s->race->nslot)
		return x;
	*c = clock_copy(s, x);
	sim_clock_put(s, x);
	return *c;
}

static void raise(uint32_t *restrict to, const uint32_t *restrict from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] = from[i] > to[i] ? from[i] : to[i];
}

static void join_into(struct sim *s, struct race_clock *to, const struct race_clock *from,
                      bool alias)
{
	raise(to->d, from->d, from->n);
	if (alias)
		raise(to->a, from->a, from->n);
	copy_ones(s, to, from);
}

void sim_clock_join(struct sim *s, struct race_clock **to, const struct race_clock *from)
{
	if (*to != from)
		join_into(s, sim_clock_own(s, to), from, true);
}

void sim_clock_join_plain(struct sim *s, struct race_clock **to, const struct race_clock *from)
{
	if (*to != from)
		join_into(s, sim_clock_own(s, to), from, false);
}

void sim_clock_bridge(struct sim *s, struct race_clock **to, uint32_t first, const uint32_t *seen,
                      uint32_t n, uint32_t who, uint32_t clock)
{
	struct race_clock *c = sim_clock_own(s, to);

	raise(c->a, c->d, c->n);
	raise(c->a + first, seen, n);
	for (uint32_t i = 0; i < c->none; i++)
		c->one[i].a = c->one[i].d;
	set_one(s, c, who, 0, clock);
}

void sim_clock_cross(struct sim *s, struct race_clock **to)
{
	struct race_clock *c;

	if (!(*to)->n)
		return;
	c = sim_clock_own(s, to);
	memcpy(c->a, c->d, c->n * sizeof *c->a);
	for (uint32_t i = 0; i < c->none; i++)
		c->one[i].a = c->one[i].d;
}

bool sim_clock_covers(const struct race_clock *c, uint64_t e, bool alias)
{
	const uint32_t slot = EPOCH_SLOT(e), clock = EPOCH_CLOCK(e);
	const struct race_one *x;

	if (slot < c->n && (alias ? c->a : c->d)[slot] > clock)
		return true;
	if (!c->none || (e & EPOCH_MULTI))
		return false;
	x = one_of(c, slot << 5 | EPOCH_LANE(e));
	return x && (alias ? x->a : x->d) > clock;
}

/* ---- releases ---- */

struct race_rel *sim_rel(const struct sim_race *r, uint32_t id)
{
	return r->rel[id - 1];
}

static uint32_t rel_alloc(struct sim *s)
{
	struct sim_race *r = s->race;
	uint32_t id = r->free_rel;
	struct race_rel *x;

	if (id) {
		x = sim_rel(r, id);
		r->free_rel = x->next;
	} else {
		r->rel = arena_grow(s->arena, r->rel, r->nrel, &r->cap_rel, r->nrel + 1u,
		                    sizeof *r->rel);
		x = r->rel[r->nrel++] = arena_new(s->arena, struct race_rel);
		id = r->nrel;
	}
	x->refs = 1;
	x->next = x->n = x->nasync = 0;
	x->who = UINT32_MAX;
	return id;
}

uint32_t sim_rel_ref(struct sim_race *r, uint32_t id)
{
	if (id)
		sim_rel(r, id)->refs++;
	return id;
}

void sim_rel_put(struct sim *s, uint32_t id)
{
	while (id) {
		struct race_rel *x = sim_rel(s->race, id);
		const uint32_t next = x->next;

		if (--x->refs)
			return;
		sim_clock_put(s, x->base);
		x->next = s->race->free_rel;
		s->race->free_rel = id;
		id = next;
	}
}

static struct race_clock *knowledge(const struct race_cta *c, unsigned w, unsigned lane)
{
	struct race_clock *own_clock = c->lane[w * SIM_LANES + lane].own;

	return own_clock ? own_clock : c->base[w];
}

/* Bulk copies of the CTA that the warp knows to be over. */
static void add_async(struct sim *s, struct race_rel *x, const struct sim_cta *cta, unsigned w)
{
	const struct race_cta *c = cta->race;
	const struct sim_know *know = &cta->async->know[w];

	for (unsigned i = 0; i < SIM_MBARS + SIM_ISSUERS; i++) {
		const uint32_t slot = c->place->async[i];
		const uint32_t n = i < SIM_MBARS ? know->phases[i] : know->written[i - SIM_MBARS];

		if (!slot || !n)
			continue;
		x->async = arena_grow(s->arena, x->async, 2 * (size_t)x->nasync, &x->cap_async,
		                      2 * ((size_t)x->nasync + 1), sizeof *x->async);
		x->async[2 * x->nasync] = slot - 1;
		x->async[2 * x->nasync + 1] = c->async_base[i] + n;
		x->nasync++;
	}
}

static uint32_t make_rel(struct sim *s, const struct sim_warp *w, unsigned lane, unsigned scope,
                         uint32_t site)
{
	struct race_cta *c = w->cta->race;
	const uint32_t id = rel_alloc(s);
	struct race_rel *x = sim_rel(s->race, id);

	x->base = sim_clock_ref(knowledge(c, w->index, lane));
	x->first = c->first;
	x->n = c->nwarp;
	memcpy(x->own, c->seen[w->index], c->nwarp * sizeof *x->own);
	if (w->cta->async && c->place->async)
		add_async(s, x, w->cta, w->index);
	x->who = (c->first + w->index) << 5 | lane;
	x->clock = c->clock[w->index] + 1;
	x->scope = (uint8_t)scope;
	x->site = site;
	return id;
}

uint32_t sim_rel_new(struct sim *s, struct sim_warp *w, unsigned lane, unsigned scope,
                     uint32_t site)
{
	const uint32_t id = make_rel(s, w, lane, scope, site);

	w->cta->race->clock[w->index]++;
	return id;
}

bool sim_rel_covers(const struct sim_race *r, const struct race_rel *x, uint64_t e)
{
	const uint32_t slot = EPOCH_SLOT(e), clock = EPOCH_CLOCK(e);

	(void)r;
	if (slot - x->first < x->n && x->own[slot - x->first] > clock)
		return true;
	if (x->who == (slot << 5 | EPOCH_LANE(e)) && !(e & EPOCH_MULTI) && x->clock > clock)
		return true;
	for (uint32_t i = 0; i < x->nasync; i++)
		if (x->async[2 * i] == slot && x->async[2 * i + 1] > clock)
			return true;
	return sim_clock_covers(x->base, e, false);
}

/* All that the release hands on, into `to`. */
static void join_rel(struct sim *s, struct race_clock *to, const struct race_rel *x)
{
	join_into(s, to, x->base, s->race->level != SIM_RACES_STRICT);
	raise(to->d + x->first, x->own, x->n);
	for (uint32_t i = 0; i < x->nasync; i++)
		raise(to->d + x->async[2 * i], &x->async[2 * i + 1], 1);
	if (x->who != UINT32_MAX)
		set_one(s, to, x->who, x->clock, 0);
}

void sim_rel_join(struct sim *s, struct race_clock **to, uint32_t id)
{
	for (; id; id = sim_rel(s->race, id)->next)
		join_rel(s, sim_clock_own(s, to), sim_rel(s->race, id));
}

uint32_t sim_rel_boundary(struct sim *s, struct race_clock *start)
{
	const uint32_t id = rel_alloc(s);
	struct race_rel *x = sim_rel(s->race, id);

	x->base = sim_clock_ref(start);
	x->scope = PTX_SYS;
	x->site = 0;
	return id;
}

/* Both in one, where their scopes are the same and reach as far. */
static uint32_t merged(struct sim *s, uint32_t a, uint32_t b)
{
	const struct race_rel *x = sim_rel(s->race, a), *y = sim_rel(s->race, b);
	struct race_clock *c;
	struct race_rel *z;
	uint32_t id;

	if (x->scope != PTX_SYS || y->scope != PTX_SYS || x->next || y->next)
		return 0;
	c = clock_copy(s, x->base);
	join_rel(s, c, x);
	join_rel(s, c, y);
	id = rel_alloc(s);
	z = sim_rel(s->race, id);
	z->base = c;
	z->scope = PTX_SYS;
	z->site = sim_rel(s->race, a)->site;
	return id;
}

uint32_t sim_rel_chain(struct sim *s, uint32_t a, uint32_t b)
{
	uint32_t id;
	struct race_rel *x, *z;

	if (!a || !b || a == b)
		return sim_rel_ref(s->race, a ? a : b);
	id = merged(s, a, b);
	if (id)
		return id;
	x = sim_rel(s->race, a);
	id = rel_alloc(s);
	z = sim_rel(s->race, id);
	x = sim_rel(s->race, a);
	z->base = sim_clock_ref(x->base);
	z->first = x->first;
	z->n = x->n;
	memcpy(z->own, x->own, sizeof z->own);
	z->who = x->who;
	z->clock = x->clock;
	z->scope = x->scope;
	z->site = x->site;
	z->next = sim_rel_chain(s, b, x->next);
	return id;
}

/* ---- scopes ---- */

bool sim_scope_includes(const struct sim_race *r, unsigned scope, uint32_t a, uint32_t b)
{
	const struct race_slot *x = &r->slot[a], *y = &r->slot[b];

	switch (scope) {
	case PTX_SYS:
		return true;
	case PTX_GPU:
		return x->rank == y->rank;
	default: /* a CTA is its own cluster */
		return x->rank == y->rank && x->instance == y->instance;
	}
}

bool sim_race_acquire(struct sim *s, struct sim_warp *w, unsigned lane, uint32_t id, unsigned scope,
                      uint32_t site)
{
	struct race_cta *c = w->cta->race;
	struct race_lane *l = &c->lane[w->index * SIM_LANES + lane];
	const uint32_t me = c->first + w->index;
	bool all = true;

	(void)site;
	for (const struct race_rel *x; id; id = x->next) {
		uint32_t other;

		x = sim_rel(s->race, id);
		other = x->who == UINT32_MAX ? me : x->who >> 5;
		if (!sim_scope_includes(s->race, x->scope, other, me) ||
		    !sim_scope_includes(s->race, scope, me, other)) {
			c->note = scope == PTX_SYS ? "the release's scope does not reach the "
			                             "thread that acquires"
			                           : "the acquire's scope does not reach the "
			                             "thread that releases";
			all = false;
			continue;
		}
		if (!l->own) {
			l->own = clock_copy(s, c->base[w->index]);
			c->dirty[w->index] |= 1u << lane;
		}
		join_rel(s, sim_clock_own(s, &l->own), x);
	}
	return all;
}

void sim_race_pend(struct sim *s, struct sim_warp *w, unsigned lane, uint32_t id)
{
	struct race_lane *l = &w->cta->race->lane[w->index * SIM_LANES + lane];

	for (uint32_t i = l->npend; i > 0; i--)
		if (l->pend[i - 1] == id)
			return;
	l->pend = arena_grow(s->arena, l->pend, l->npend, &l->cap_pend, l->npend + 1u,
	                     sizeof *l->pend);
	l->pend[l->npend++] = sim_rel_ref(s->race, id);
}

bool sim_race_known(const struct sim *s, const struct sim_warp *w, unsigned lane, uint64_t e,
                    bool alias)
{
	const struct race_cta *c = w->cta->race;
	const uint32_t slot = EPOCH_SLOT(e), v = slot - c->first;

	if (v < c->nwarp && !alias) {
		if (v == w->index && !(e & EPOCH_MULTI) && EPOCH_LANE(e) == lane)
			return true;
		if (c->seen[w->index][v] > EPOCH_CLOCK(e))
			return true;
	}
	if (s->race->slot[slot].kind == RACE_SLOT_ASYNC && w->cta->async && c->place->async)
		for (unsigned i = 0; i < SIM_MBARS + SIM_ISSUERS; i++) {
			const struct sim_know *know = &w->cta->async->know[w->index];
			const uint32_t n =
			        i < SIM_MBARS ? know->phases[i] : know->written[i - SIM_MBARS];

			if (c->place->async[i] == slot + 1)
				return c->async_base[i] + n > EPOCH_CLOCK(e);
		}
	return sim_clock_covers(knowledge(c, w->index, lane), e, alias);
}
