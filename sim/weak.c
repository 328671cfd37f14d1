/*
 * Weak memory: which write a strong read sees, and where in the order of its location's writes a
 * strong write comes (PTX ISA section 8.10).
 *
 * A location (an element of a strong access) keeps its last writes in coherence order.  A read may
 * see any of them but those that come before a write that is ordered before it, or that a read that
 * is ordered before it has seen.  A write may come at any place behind those, but not between a
 * read-modify-write and what that read.  So every observer has stores at its own time; elements of a
 * vector, and replicas of a multicast store, are locations apart.
 */
#include "sim/order.h"
#include <string.h>

enum { WRITES = 8 };

struct weak_write {
	uint64_t e; /* 0: before the run */
	uint32_t rel;
	bool strong, rmw;
	uint64_t name; /* in traces of the search */
	uint8_t bytes[8];
	uint64_t *reader; /* the first read of each thread */
	uint32_t nreader;
	size_t cap;
};

struct weak_hist {
	struct weak_write w[WRITES];
	unsigned n;
	uint64_t by; /* explore: the instruction that read it last, and which write */
	unsigned picked;
	uint64_t gone; /* explore: names of those that were forgotten */
	struct weak_hist *free;
};

static bool seen_by(const struct ctx *c, const struct weak_write *w)
{
	for (uint32_t i = 0; i < w->nreader; i++)
		if (sim_race_ordered(c, w->reader[i]))
			return true;
	return false;
}

/* The first write that a read may see; a write comes behind it. */
static unsigned least(const struct ctx *c, const struct weak_hist *h)
{
	unsigned i = h->n - 1;

	while (i && h->w[i].e && !sim_race_ordered(c, h->w[i].e) && !seen_by(c, &h->w[i]))
		i--;
	return i;
}

void sim_weak_begin(const struct ctx *c, struct race_cell *cell, const uint8_t *now)
{
	struct sim_race *r = c->s->race;
	struct weak_hist *h = r->free_hist;

	if (cell->hist)
		return;
	if (h)
		r->free_hist = h->free;
	else
		h = arena_new(c->s->arena, struct weak_hist);
	h->n = 1;
	h->by = h->gone = 0;
	h->w[0].e = cell->last == RACE_STRONG ? cell->sw : cell->last == RACE_WEAK ? cell->ww : 0;
	h->w[0].strong = cell->last == RACE_STRONG;
	h->w[0].rel = sim_rel_ref(r, cell->rel);
	h->w[0].rmw = false;
	h->w[0].nreader = 0;
	h->w[0].name = 0;
	memcpy(h->w[0].bytes, now, c->x->elem);
	cell->hist = h;
}

void sim_weak_drop(struct sim *s, struct race_cell *cell)
{
	struct weak_hist *h = cell->hist;

	if (!h)
		return;
	for (unsigned i = 0; i < h->n; i++)
		sim_rel_put(s, h->w[i].rel);
	h->free = s->race->free_hist;
	s->race->free_hist = h;
	cell->hist = NULL;
}

static void note_reader(const struct ctx *c, struct weak_write *w)
{
	for (uint32_t i = 0; i < w->nreader; i++)
		if (!((w->reader[i] ^ c->me) & EPOCH_PLACE))
			return;
	w->reader = arena_grow(c->s->arena, w->reader, w->nreader, &w->cap, w->nreader + 1u,
	                       sizeof *w->reader);
	w->reader[w->nreader++] = c->me;
}

/* The oldest is forgotten. */
static void forget(struct sim *s, struct weak_hist *h)
{
	struct weak_write first = h->w[0];

	sim_rel_put(s, first.rel);
	h->gone = sim_mix(h->gone, first.name);
	memmove(&h->w[0], &h->w[1], (h->n - 1) * sizeof h->w[0]);
	h->n--;
	first.nreader = 0;
	h->w[h->n] = first; /* its list of readers is used again */
}

/* Room at place j. */
static struct weak_write *open_at(struct weak_hist *h, unsigned j)
{
	struct weak_write spare = h->w[h->n];

	memmove(&h->w[j + 1], &h->w[j], (h->n - j) * sizeof h->w[0]);
	h->n++;
	h->w[j] = spare;
	h->w[j].nreader = 0;
	return &h->w[j];
}

/* One of n, the last as often as not. */
static unsigned choose(const struct ctx *c, unsigned n)
{
	struct sim *s = c->s;

	if (n == 1 || s->fresh)
		return n - 1;
	if (s->explore)
		return sim_choose(s, n);
	return sim_random(s) & 1 ? n - 1 : (unsigned)(sim_random(s) % n);
}

/*
 * Which of the writes from `low` on is read.  A search takes lanes of one instruction that read a word
 * for one reader, unless one of them knows of a later write, and has loops that wait read what they
 * read before.
 */
static unsigned pick(const struct ctx *c, struct weak_hist *h, unsigned low)
{
	const struct sim_warp *w = c->x->w;
	const uint64_t by = sim_mix(w->x.place + w->cta->launch->number, w->count) | 1;

	if (!c->s->explore)
		return low + choose(c, h->n - low);
	if (w->x.fresh)
		return h->n - 1;
	if (w->x.again)
		return low;
	if (h->by == by && h->picked >= low)
		return h->picked;
	h->by = by;
	h->picked = low;
	if (h->n - low > 1)
		h->picked += sim_explore_read(c->s, w, c->pair.b->addr + c->pair.off, h->n - low);
	return h->picked;
}

void sim_weak_read(struct ctx *c, struct race_cell *cell, uint8_t *bytes)
{
	struct weak_hist *h = cell->hist;
	struct weak_write *w;
	unsigned low;

	if (!h)
		return;
	low = least(c, h);
	w = &h->w[bytes ? pick(c, h, low) : h->n - 1];
	if (bytes)
		memcpy(bytes, w->bytes, c->x->elem);
	c->saw = w->name;
	note_reader(c, w);
	if (w->strong)
		sim_race_observe(c, w->e, w->rel);
}

void sim_weak_write(struct ctx *c, struct race_cell *cell, uint8_t *bytes)
{
	struct weak_hist *h = cell->hist;
	struct weak_write *w;
	unsigned low, j;

	if (h->n == WRITES)
		forget(c->s, h);
	low = least(c, h);
	j = c->read ? h->n : low + 1 + choose(c, h->n - low);
	while (j < h->n && h->w[j].rmw)
		j++;
	if (c->read) { /* what a read-modify-write sees */
		note_reader(c, &h->w[j - 1]);
		c->saw = h->w[j - 1].name;
	}
	w = open_at(h, j);
	c->put = j + 1;
	w->e = c->me;
	w->strong = true;
	w->rmw = c->read;
	memcpy(w->bytes, bytes, c->x->elem);
	w->rel = sim_rel_ref(c->s->race, cell->rel);
	if (j + 1 < h->n) /* later ones are there already */
		memcpy(bytes, h->w[h->n - 1].bytes, c->x->elem);
}

uint64_t sim_weak_named(struct race_cell *cell, uint64_t name, uint64_t put)
{
	struct weak_hist *h = cell->hist;
	uint64_t sum;

	if (!h)
		return 0;
	if (put)
		h->w[put - 1].name = name;
	sum = h->gone;
	for (unsigned i = 0; i < h->n; i++)
		sum = sim_mix(sum, h->w[i].name);
	return sum;
}
