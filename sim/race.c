/*
 * Races: shadow memory of every allocation says who touched the bytes last (order.h has the clocks).
 *
 * A cell of 16 bytes, or a part of one where accesses are smaller, keeps the last weak write, one
 * read and one strong write, and a list of further reads and strong writes that none of them covers.
 * A weak write covers all that is ordered before it: whoever is unordered with that is unordered with
 * the write (as FastTrack has it: Flanagan and Freund, PLDI 2009).
 */
#include "sim/async.h"
#include "sim/order.h"
#include <string.h>

enum { CELL = 16, PAGE = 4096 };

struct race_item {
	uint64_t e;
	uint32_t site;
	bool write; /* a strong write; else a read */
};

struct race_more {
	struct race_item *item;
	uint32_t n;
	size_t cap;
	struct race_more *free;
};

/* ---- the model's questions ---- */

static bool aliases(const struct ctx *c, uint64_t e)
{
	return c->s->race->level >= SIM_RACES_FORMAL &&
	       (EPOCH_PROXY(e) == RACE_MULTI) != (c->x->proxy == RACE_MULTI);
}

bool sim_race_ordered(const struct ctx *c, uint64_t e)
{
	const struct race_access *x = c->x;
	const struct sim *s = c->s;

	if (!x->w)
		return EPOCH_SLOT(e) == c->slot ||
		       sim_clock_covers(s->race->host->now, e, aliases(c, e));
	if (x->copy && EPOCH_PROXY(e) != RACE_ASYNC)
		return sim_clock_covers(x->w->cta->race->start, e, aliases(c, e)) ||
		       (x->copy->fence &&
		        sim_rel_covers(s->race, sim_rel(s->race, x->copy->fence), e));
	return sim_race_known(s, x->w, x->lane, e, aliases(c, e));
}

/* Both strong, each in the other's scope, of one size, and by proxies that are taken to cohere. */
static bool moral(const struct ctx *c, uint64_t e)
{
	const struct sim_race *r = c->s->race;

	return c->strong && (e & EPOCH_STRONG) && EPOCH_SIZE(e) == EPOCH_SIZE(c->me) &&
	       sim_scope_includes(r, c->scope, c->slot, EPOCH_SLOT(e)) &&
	       sim_scope_includes(r, EPOCH_SCOPE(e), EPOCH_SLOT(e), c->slot);
}

/* No race with an earlier access; else it is reported. */
static bool good(struct ctx *c, uint64_t e, uint32_t site, bool write)
{
	if (!e || moral(c, e) || sim_race_ordered(c, e)) /* the cheaper one first */
		return true;
	c->pair.was = e;
	c->pair.now = c->me;
	c->pair.site = site;
	c->pair.was_write = write;
	return sim_race_report(c->s, &c->pair);
}

/* ---- lists ---- */

static struct race_more *more_new(struct sim *s)
{
	struct race_more *m = s->race->free_more;

	if (m)
		s->race->free_more = m->free;
	else
		m = arena_new(s->arena, struct race_more);
	m->n = 0;
	return m;
}

static void more_free(struct sim *s, struct race_cell *cell)
{
	if (!cell->more)
		return;
	cell->more->free = s->race->free_more;
	s->race->free_more = cell->more;
	cell->more = NULL;
}

/* The same thread, or warp, in the same way. */
static bool same(uint64_t a, uint64_t b)
{
	return !((a ^ b) & (EPOCH_KIND | (UINT64_C(0x3ffff) << 32)));
}

/* b after a: whoever is unordered with a is so with b, too, and would not do with it either. */
static bool covers(const struct ctx *c, uint64_t a)
{
	if ((c->me & EPOCH_STRONG) && (a ^ c->me) & EPOCH_KIND)
		return false;
	return EPOCH_PROXY(a) == EPOCH_PROXY(c->me) && sim_race_ordered(c, a);
}

static uint64_t both(uint64_t old, uint64_t now)
{
	return (old ^ now) & EPOCH_PLACE || old & EPOCH_MULTI ? now | EPOCH_MULTI : now;
}

static void more_add(struct ctx *c, struct race_cell *cell, uint64_t e, uint32_t site, bool write)
{
	struct race_more *m = cell->more;

	if (!m)
		m = cell->more = more_new(c->s);
	for (uint32_t i = 0; i < m->n; i++)
		if (m->item[i].write == write && same(m->item[i].e, e)) {
			m->item[i].e = both(m->item[i].e, e);
			m->item[i].site = site;
			return;
		}
	m->item = arena_grow(c->s->arena, m->item, m->n, &m->cap, m->n + 1u, sizeof *m->item);
	m->item[m->n++] = (struct race_item){e, site, write};
}

/* ---- one cell ---- */

static void note_read(struct ctx *c, struct race_cell *cell)
{
	const uint64_t old = cell->rd;

	if (!old || covers(c, old)) {
		cell->rd = c->me;
	} else if (same(old, c->me)) {
		cell->rd = both(old, c->me);
	} else {
		more_add(c, cell, c->me, c->site, false);
		return;
	}
	cell->rd_site = c->site;
}

static bool check_list(struct ctx *c, const struct race_cell *cell)
{
	for (uint32_t i = 0; cell->more && i < cell->more->n; i++) {
		const struct race_item *t = &cell->more->item[i];

		if ((c->write || t->write) && !good(c, t->e, t->site, t->write))
			return false;
	}
	return true;
}

void sim_race_observe(struct ctx *c, uint64_t e, uint32_t rel)
{
	const enum ptx_op op = (enum ptx_op)c->x->op->insn->op;
	struct race_cta *cta = c->x->w->cta->race;

	if (!rel || op == PTX_red || op == PTX_mm_red) /* a reduction acquires nothing */
		return;
	if (!moral(c, e)) {
		cta->note =
		        EPOCH_SIZE(e) != EPOCH_SIZE(c->me)
		                ? "the flag is written and read in other sizes"
		                : "the scope of the flag's store or load does not reach the other";
		return;
	}
	if ((c->order == PTX_ACQUIRE || c->order == PTX_ACQ_REL) &&
	    sim_race_acquire(c->s, c->x->w, c->x->lane, rel, c->scope, c->site))
		return;
	sim_race_pend(c->s, c->x->w, c->x->lane, rel);
}

static void hand_on(struct ctx *c, struct race_cell *cell)
{
	struct sim *s = c->s;
	struct sim_warp *w = c->x->w;
	struct race_cta *cta = w->cta->race;
	const struct race_lane *l = &cta->lane[w->index * SIM_LANES + c->x->lane];
	uint32_t id, old = cell->last == RACE_STRONG && moral(c, cell->sw) ? cell->rel : 0;

	if (c->order == PTX_RELEASE || c->order == PTX_ACQ_REL)
		id = sim_rel_new(s, w, c->x->lane, c->scope, c->site);
	else
		id = sim_rel_ref(s->race, l->fence ? l->fence : cta->rel);
	/* a chain of read-modify-writes, or a release of the same thread before its store */
	if (old && (c->read || sim_rel(s->race, old)->who == (c->slot << 5 | c->x->lane))) {
		uint32_t chain = sim_rel_chain(s, id, old);

		sim_rel_put(s, id);
		id = chain;
	}
	sim_rel_put(s, cell->rel);
	cell->rel = id;
}

static void weak_write(struct ctx *c, struct race_cell *cell)
{
	if (cell->rel)
		sim_rel_put(c->s, cell->rel);
	if (cell->hist)
		sim_weak_drop(c->s, cell);
	more_free(c->s, cell);
	cell->rel = 0;
	cell->rd = cell->sw = 0;
	cell->ww = c->me;
	cell->ww_site = c->site;
	cell->last = RACE_WEAK;
}

static uint8_t *bytes_at(const struct ctx *c)
{
	return c->x->bytes ? c->x->bytes + (c->pair.off - c->from) : NULL;
}

static void strong_write(struct ctx *c, struct race_cell *cell)
{
	uint8_t *bytes = c->s->o.weak ? bytes_at(c) : NULL;

	if (bytes)
		sim_weak_begin(c, cell, c->pair.b->data + c->pair.off);
	hand_on(c, cell);
	if (bytes)
		sim_weak_write(c, cell, bytes);
	if (cell->sw && !covers(c, cell->sw) && !same(cell->sw, c->me))
		more_add(c, cell, cell->sw, cell->sw_site, true);
	cell->sw = cell->sw && same(cell->sw, c->me) ? both(cell->sw, c->me) : c->me;
	cell->sw_site = c->site;
	cell->last = RACE_STRONG;
}

static void explore(struct ctx *c, struct race_cell *cell)
{
	const uint64_t key = c->pair.b->addr + c->pair.off;
	uint64_t now = 0;

	if (c->read && c->strong)
		sim_explore_step(c->s, c->x->w, sim_mix(key, c->saw));
	if (!c->write)
		return;
	if (c->strong) {
		sim_explore_step(c->s, c->x->w, key);
		sim_explore_wrote(c->s, c->x->w, key, c->x->elem, c->read);
		now = sim_weak_named(cell, c->x->w->x.trace, c->put);
	}
	sim_explore_sum(c->s, key, cell->written, now);
	cell->written = now;
}

static bool touch(struct ctx *c, struct race_cell *cell)
{
	if (!good(c, cell->ww, cell->ww_site, true) || !good(c, cell->sw, cell->sw_site, true) ||
	    (cell->more && !check_list(c, cell)))
		return false;
	if (c->write && !good(c, cell->rd, cell->rd_site, false))
		return false;
	/* A strong read sees what the last write came with, or (weak memory) another one. */
	if (c->read && c->strong && c->x->w && (!cell->hist || c->write) &&
	    cell->last == RACE_STRONG)
		sim_race_observe(c, cell->sw, cell->rel);
	c->saw = c->put = 0;
	if (!c->write && c->strong)
		sim_weak_read(c, cell, bytes_at(c));
	if (!c->write)
		note_read(c, cell);
	else if (c->strong)
		strong_write(c, cell);
	else
		weak_write(c, cell);
	if (c->s->explore && c->x->w)
		explore(c, cell);
	return true;
}

/* ---- cells of parts ---- */

static void copy_cell(struct sim *s, struct race_cell *to, const struct race_cell *from)
{
	*to = *from;
	sim_rel_ref(s->race, to->rel);
	to->hist = NULL;
	if (!from->more)
		return;
	to->more = more_new(s);
	to->more->item = arena_grow(s->arena, to->more->item, 0, &to->more->cap, from->more->n,
	                            sizeof *to->more->item);
	memcpy(to->more->item, from->more->item, from->more->n * sizeof *to->more->item);
	to->more->n = from->more->n;
}

static void drop_cell(struct sim *s, struct race_cell *cell)
{
	sim_rel_put(s, cell->rel);
	sim_weak_drop(s, cell);
	more_free(s, cell);
}

/* Makes the cell's parts `bytes` large, or leaves smaller ones. */
static void split(struct sim *s, struct race_cell *cell, unsigned bytes)
{
	struct race_cell old = *cell, *sub;

	if (cell->split && cell->split <= bytes)
		return;
	sub = arena_news(s->arena, struct race_cell, CELL / bytes);
	for (unsigned i = 0; i < CELL / bytes; i++)
		copy_cell(s, &sub[i], old.split ? &old.sub[i * bytes / old.split] : &old);
	for (unsigned i = 0; old.split && i < (unsigned)(CELL / old.split); i++)
		drop_cell(s, &old.sub[i]);
	if (!old.split)
		drop_cell(s, cell);
	memset(cell, 0, sizeof *cell);
	cell->sub = sub;
	cell->split = (uint8_t)bytes;
}

static struct race_cell *cell_at(struct sim *s, struct sim_block *b, uint64_t off)
{
	struct race_cell **page = &b->shadow[off / PAGE];

	if (!*page)
		*page = arena_news(s->arena, struct race_cell, PAGE / CELL);
	return &(*page)[off % PAGE / CELL];
}

/* Bytes [off, off + n) of one cell. */
static bool part(struct ctx *c, struct sim_block *b, uint64_t off, unsigned n)
{
	struct race_cell *cell = cell_at(c->s, b, off);
	const unsigned lo = (unsigned)(off % CELL);

	c->pair.off = off;
	if (c->s->o.weak && c->strong)
		split(c->s, cell, c->x->elem);
	if (n == CELL && !cell->split)
		return touch(c, cell);
	if (n < CELL) {
		const unsigned bits = lo | n;

		split(c->s, cell, bits & ~(bits - 1));
	}
	for (unsigned k = lo / cell->split; k < (lo + n) / cell->split; k++) { /* of parts */
		c->pair.off = off - lo + (uint64_t)k * cell->split;
		if (!touch(c, &cell->sub[k]))
			return false;
	}
	return true;
}

static bool range(struct ctx *c, struct sim_block *b, uint64_t off, uint64_t n)
{
	c->pair.x = c->x;
	c->pair.b = b;
	c->from = off;
	while (n) {
		const uint64_t left = CELL - off % CELL;
		const unsigned k = (unsigned)(n < left ? n : left);

		if (!part(c, b, off, k))
			return false;
		off += k;
		n -= k;
	}
	return true;
}

/* ---- accesses ---- */

struct race_cell **sim_race_shadow(struct sim *s, uint64_t bytes)
{
	return arena_news(s->arena, struct race_cell *, bytes / PAGE + 1);
}

static void order_of(struct ctx *c, const struct ptx_insn *i)
{
	const bool atomic = i->op == PTX_atom || i->op == PTX_atom_cas || i->op == PTX_atom_exch ||
	                    i->op == PTX_red || i->op == PTX_mm_red;

	c->order = i->mod.order;
	c->scope = i->mod.scope;
	if (c->order == PTX_VOLATILE) {
		c->order = PTX_RELAXED;
		c->scope = PTX_SYS;
	}
	if (atomic && c->order == PTX_O_NONE)
		c->order = PTX_RELAXED;
	if (atomic && c->scope == PTX_S_NONE)
		c->scope = i->op == PTX_mm_red ? PTX_SYS : PTX_GPU;
	c->strong = c->order > PTX_WEAK && c->scope != PTX_S_NONE;
}

bool sim_race_access(struct sim *s, const struct race_access *x, struct sim_block *b, uint64_t off,
                     unsigned n)
{
	struct ctx c = {
	        .s = s, .x = x, .read = x->kind != SIM_ACC_WRITE, .write = x->kind != SIM_ACC_READ};
	const struct race_cta *cta = x->w->cta->race;
	uint32_t clock = cta->clock[x->w->index];
	unsigned lane = x->lane;

	c.slot = cta->first + x->w->index;
	if (x->copy) {
		c.slot = sim_race_async_slot(s, x->w->cta, x->copy, &clock);
		lane = 0;
	} else {
		order_of(&c, x->op->insn);
	}
	c.site = sim_site(s, x->w, x->op);
	c.me = clock | (uint64_t)c.slot << 32 | (uint64_t)lane << 50 | (uint64_t)x->proxy << 59 |
	       (uint64_t)__builtin_ctz(x->elem) << 61;
	if (c.strong)
		c.me |= EPOCH_STRONG | (uint64_t)(c.scope - 1) << 57;
	return range(&c, b, off, n);
}

void sim_race_host(struct sim *s, struct sim_block *b, uint64_t off, uint64_t n, bool write)
{
	const struct race_access x = {.kind = write ? SIM_ACC_WRITE : SIM_ACC_READ, .elem = 1};
	struct ctx c = {.s = s, .x = &x, .read = !write, .write = write};

	if (!s->race || !s->race->host || !n || s->findings)
		return;
	c.slot = s->race->host->host - 1;
	c.me = s->race->slot[c.slot].clock | (uint64_t)c.slot << 32;
	range(&c, b, off, n);
}
