/* Clock objects: tables that are shared, and what is known of single threads beyond them (order.h). */
#include "sim/order.h"
#include <string.h>

/* ---- tables ---- */

/* Which list of free tables: slots grow with launches, and small tables must not be looked through. */
static unsigned size_of(uint32_t n)
{
	unsigned k = 0;

	while ((UINT32_C(64) << k) < n)
		k++;
	return k;
}

static struct race_table *table_new(struct sim *s, uint32_t n)
{
	const unsigned k = size_of(n);
	struct sim_race *r = s->race;
	struct race_table *t = r->free_table[k];

	if (t) {
		r->free_table[k] = t->free;
	} else {
		t = arena_new(s->arena, struct race_table);
		t->cap = UINT32_C(64) << k;
		t->d = arena_news(s->arena, uint32_t, 2 * (size_t)t->cap);
		t->a = t->d + t->cap;
	}
	t->serial = ++r->serial;
	t->refs = 1;
	t->n = n;
	return t;
}

static struct race_table *table_ref(struct race_table *t)
{
	t->refs++;
	return t;
}

static void table_put(struct sim *s, struct race_table *t)
{
	if (--t->refs)
		return;
	t->serial = 0;
	t->free = s->race->free_table[size_of(t->cap)];
	s->race->free_table[size_of(t->cap)] = t;
}

/* Makes c's table its alone, with room for all slots, to be changed. */
static struct race_table *table_own(struct sim *s, struct race_clock *c)
{
	struct race_table *from = c->t, *t;

	if (from->refs == 1 && from->n == s->race->nslot) {
		from->serial = ++s->race->serial;
		return from;
	}
	t = table_new(s, s->race->nslot);
	memcpy(t->d, from->d, from->n * sizeof *t->d);
	memcpy(t->a, from->a, from->n * sizeof *t->a);
	memset(t->d + from->n, 0, (t->n - from->n) * sizeof *t->d);
	memset(t->a + from->n, 0, (t->n - from->n) * sizeof *t->a);
	table_put(s, from);
	return c->t = t;
}

static void raise(uint32_t *restrict to, const uint32_t *restrict from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] = from[i] > to[i] ? from[i] : to[i];
}

static struct race_join *join_at(struct sim_race *r, uint64_t before, uint64_t what)
{
	return &r->join[(before * 31 + what) % RACE_JOINS];
}

/* c's table becomes the one that this join made before, if that is still there. */
static bool joined(struct sim *s, struct race_clock *c, uint64_t what, bool alias)
{
	const struct race_join *j = join_at(s->race, c->t->serial, what);
	struct race_table *old = c->t;

	if (j->before != old->serial || j->what != what || j->alias != alias ||
	    j->after->serial != j->serial)
		return false;
	c->t = table_ref(j->after);
	table_put(s, old);
	return true;
}

static void note_join(struct sim *s, uint64_t before, uint64_t what, bool alias,
                      struct race_table *after)
{
	*join_at(s->race, before, what) =
	        (struct race_join){before, what, alias, after, after->serial};
}

static struct race_table *join_table(struct sim *s, struct race_clock *to,
                                     const struct race_table *from, bool alias)
{
	struct race_table *t = table_own(s, to);

	raise(t->d, from->d, from->n);
	if (alias)
		raise(t->a, from->a, from->n);
	return t;
}

/* ---- clocks ---- */

static struct race_clock *clock_new(struct sim *s, struct race_table *t)
{
	struct race_clock *c = s->race->free_clock;

	if (c)
		s->race->free_clock = c->free;
	else
		c = arena_new(s->arena, struct race_clock);
	c->refs = 1;
	c->none = 0;
	c->t = t;
	return c;
}

struct race_clock *sim_clock_zero(struct sim *s)
{
	return clock_new(s, table_new(s, 0));
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
	table_put(s, c->t);
	c->free = s->race->free_clock;
	s->race->free_clock = c;
}

static bool knows(const struct race_clock *c, uint32_t who, uint32_t d, uint32_t a)
{
	const uint32_t slot = who >> 5;

	return slot < c->t->n && c->t->d[slot] >= d && c->t->a[slot] >= a;
}

static struct race_one *one_of(const struct race_clock *c, uint32_t who)
{
	for (uint32_t i = c->none; i > 0; i--)
		if (c->one[i - 1].who == who)
			return &c->one[i - 1];
	return NULL;
}

static struct race_one *one_new(struct sim *s, struct race_clock *c, uint32_t who)
{
	size_t cap = c->cap_one;

	c->one = arena_grow(s->arena, c->one, c->none, &cap, c->none + 1u, sizeof *c->one);
	c->cap_one = (uint32_t)cap;
	c->one[c->none] = (struct race_one){who, 0, 0};
	return &c->one[c->none++];
}

static void set_one(struct sim *s, struct race_clock *c, uint32_t who, uint32_t d, uint32_t a)
{
	struct race_one *x = one_of(c, who);

	if (!x) {
		if (knows(c, who, d, a))
			return;
		x = one_new(s, c, who);
	}
	if (d > x->d)
		x->d = d;
	if (a > x->a)
		x->a = a;
}

/* What threads are known beyond their warps, where that is still so. */
static void copy_ones(struct sim *s, struct race_clock *to, const struct race_clock *from)
{
	const bool fresh = !to->none; /* then none is there twice */

	for (uint32_t i = 0; i < from->none; i++) {
		const struct race_one *x = &from->one[i];

		if (knows(to, x->who, x->d, x->a))
			continue;
		if (fresh)
			*one_new(s, to, x->who) = *x;
		else
			set_one(s, to, x->who, x->d, x->a);
	}
}

/* Makes *c the caller's alone, but for its table. */
static struct race_clock *own_ones(struct sim *s, struct race_clock **c)
{
	struct race_clock *x = *c, *copy;

	if (x->refs == 1)
		return x;
	copy = clock_new(s, table_ref(x->t));
	copy_ones(s, copy, x);
	sim_clock_put(s, x);
	return *c = copy;
}

struct race_clock *sim_clock_own(struct sim *s, struct race_clock **c)
{
	struct race_clock *x = own_ones(s, c);

	table_own(s, x);
	return x;
}

static void join_into(struct sim *s, struct race_clock *to, const struct race_clock *from,
                      bool alias)
{
	const uint64_t before = to->t->serial, what = from->t->serial;

	if (to->t != from->t && !joined(s, to, what, alias))
		note_join(s, before, what, alias, join_table(s, to, from->t, alias));
	copy_ones(s, to, from);
}

void sim_clock_join(struct sim *s, struct race_clock **to, const struct race_clock *from)
{
	if (*to != from)
		join_into(s, own_ones(s, to), from, true);
}

void sim_clock_join_plain(struct sim *s, struct race_clock **to, const struct race_clock *from)
{
	if (*to != from)
		join_into(s, own_ones(s, to), from, false);
}

void sim_clock_join_rel(struct sim *s, struct race_clock **to, const struct race_rel *x)
{
	const bool alias = s->race->level != SIM_RACES_STRICT;
	struct race_clock *c = own_ones(s, to);
	const uint64_t before = c->t->serial;

	if (!joined(s, c, x->same, alias)) {
		struct race_table *t = join_table(s, c, x->base->t, alias);

		raise(t->d + x->first, x->own, x->n);
		for (uint32_t i = 0; i < x->nasync; i++)
			raise(t->d + x->async[2 * i], &x->async[2 * i + 1], 1);
		note_join(s, before, x->same, alias, t);
	}
	copy_ones(s, c, x->base);
	if (x->who != UINT32_MAX)
		set_one(s, c, x->who, x->clock, 0);
}

void sim_clock_bridge(struct sim *s, struct race_clock **to, uint32_t first, const uint32_t *seen,
                      uint32_t n, uint32_t who, uint32_t clock)
{
	struct race_clock *c = sim_clock_own(s, to);

	raise(c->t->a, c->t->d, c->t->n);
	raise(c->t->a + first, seen, n);
	for (uint32_t i = 0; i < c->none; i++)
		c->one[i].a = c->one[i].d;
	set_one(s, c, who, 0, clock);
}

void sim_clock_cross(struct sim *s, struct race_clock **to)
{
	struct race_clock *c;

	if (!(*to)->t->n)
		return;
	c = sim_clock_own(s, to);
	memcpy(c->t->a, c->t->d, c->t->n * sizeof *c->t->a);
	for (uint32_t i = 0; i < c->none; i++)
		c->one[i].a = c->one[i].d;
}

bool sim_clock_covers(const struct race_clock *c, uint64_t e, bool alias)
{
	const uint32_t slot = EPOCH_SLOT(e), clock = EPOCH_CLOCK(e);
	const struct race_one *x;

	if (slot < c->t->n && (alias ? c->t->a : c->t->d)[slot] > clock)
		return true;
	if (!c->none || (e & EPOCH_MULTI))
		return false;
	x = one_of(c, slot << 5 | EPOCH_LANE(e));
	return x && (alias ? x->a : x->d) > clock;
}
