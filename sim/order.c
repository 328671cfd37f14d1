/* Releases, which hand clocks on, and who acquires them (order.h). */
#include "sim/order.h"
#include "sim/async.h"
#include <string.h>

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
	x->uid = ++r->uid;
	x->same = ++r->serial;
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

/* Says so when the CTA's last release had the same table and `own`. */
static uint64_t same_as_last(struct sim *s, struct race_cta *c, const struct race_rel *x)
{
	const size_t bytes = x->n * sizeof *x->own;

	if (c->said.table != x->base->t->serial || c->said.first != x->first ||
	    memcmp(c->said.own, x->own, bytes) != 0) {
		c->said.table = x->base->t->serial;
		c->said.first = x->first;
		c->said.same = ++s->race->serial;
		memcpy(c->said.own, x->own, bytes);
	}
	return c->said.same;
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
	if (!x->nasync)
		x->same = same_as_last(s, c, x);
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

void sim_rel_join(struct sim *s, struct race_clock **to, uint32_t id)
{
	for (; id; id = sim_rel(s->race, id)->next)
		sim_clock_join_rel(s, to, sim_rel(s->race, id));
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
	c = sim_clock_ref(x->base);
	sim_clock_join_rel(s, &c, x);
	sim_clock_join_rel(s, &c, y);
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
	if (!x->nasync)
		z->same = x->same;
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

/* Where a lane notes the release; what it knows never becomes less while the CTA runs. */
static uint32_t *had(struct race_lane *l, const struct race_rel *x)
{
	return &l->had[x->uid * 0x9e3779b1u >> 28];
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
		if (*had(l, x) == x->uid)
			continue;
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
			l->own = sim_clock_ref(c->base[w->index]);
			c->dirty[w->index] |= 1u << lane;
		}
		sim_clock_join_rel(s, &l->own, x);
		*had(l, x) = x->uid;
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
