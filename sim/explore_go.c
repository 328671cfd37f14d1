/*
 * Which choices an exhaustive search has (explore.c).
 *
 * An execution is, to the memory model, a graph: which write each read sees, and the order of each
 * location's writes.  So warps go on without a choice, whoever is first, up to a strong load (or
 * another access that has to see what comes last) that some other warp may still write to: that one
 * is made now, and sees any of the writes that there are, or is put off until there is another one.
 * Where a write comes among its location's is chosen when it is made.  So each graph is come by, most
 * of them once, and not each schedule.  Who may still write where is known from the runs before: when
 * a run shows more, the search begins again.
 *
 * A load that is repeated, by the same lanes of the same words with nothing stored since, is one of a
 * loop that waits: it sees what it saw, until its warp is known to wait.  What such a loop has seen in
 * vain is then forgotten: as if it had only now begun.
 */
#include "sim/explore.h"

enum { GRANULE = 4, FENCES = 1 /* a location that fences of order .sc write */ };

struct explore_who { /* a warp that writes to the location: in all, and in this run */
	uint64_t place;
	uint32_t most[2], done[2]; /* writes; read-modify-writes among them */
};

struct explore_loc {
	uint64_t key, run, version; /* version: writes in this run */
	struct explore_who *who;
	size_t n, cap;
};

/* ---- who writes where ---- */

static struct explore_loc **find(struct sim_explore *e, uint64_t key)
{
	size_t i = (size_t)sim_mix(key, 7);

	for (;; i++) {
		i &= e->cap_loc - 1;
		if (!e->loc[i] || e->loc[i]->key == key)
			return &e->loc[i];
	}
}

static void more_room(struct sim_explore *e)
{
	struct explore_loc **old = e->loc;
	const size_t n = e->cap_loc;

	if (2 * e->nloc < n)
		return;
	e->cap_loc = n ? 2 * n : 256;
	e->loc = arena_news(e->arena, struct explore_loc *, e->cap_loc);
	for (size_t i = 0; i < n; i++)
		if (old[i])
			*find(e, old[i]->key) = old[i];
}

/* As it is in this run; NULL: nobody ever wrote there. */
static struct explore_loc *at(struct sim_explore *e, uint64_t key)
{
	struct explore_loc *l = e->cap_loc ? *find(e, key) : NULL;

	if (l && l->run != e->all_runs) {
		l->run = e->all_runs;
		l->version = 0;
		for (size_t i = 0; i < l->n; i++)
			l->who[i].done[0] = l->who[i].done[1] = 0;
	}
	return l;
}

static struct explore_loc *make(struct sim_explore *e, uint64_t key)
{
	struct explore_loc *l = at(e, key);

	if (l)
		return l;
	more_room(e);
	l = arena_new(e->arena, struct explore_loc);
	l->key = key;
	l->run = e->all_runs;
	e->nloc++;
	*find(e, key) = l;
	return l;
}

static struct explore_who *who_of(struct sim_explore *e, struct explore_loc *l, uint64_t place)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->who[i].place == place)
			return &l->who[i];
	l->who = arena_grow(e->arena, l->who, l->n, &l->cap, l->n + 1, sizeof *l->who);
	l->who[l->n] = (struct explore_who){.place = place};
	return &l->who[l->n++];
}

static void wrote(struct sim_explore *e, const struct sim_warp *w, uint64_t key, bool rmw)
{
	struct explore_loc *l = make(e, key);
	struct explore_who *x = who_of(e, l, w->x.place);

	l->version++;
	for (unsigned k = 0; k < 1u + rmw; k++)
		if (++x->done[k] > x->most[k]) {
			x->most[k] = x->done[k];
			e->grown = true;
		}
}

void sim_explore_wrote(struct sim *s, const struct sim_warp *w, uint64_t addr, unsigned n, bool rmw)
{
	for (uint64_t g = addr / GRANULE; g <= (addr + n - 1) / GRANULE; g++)
		wrote(s->explore, w, g * GRANULE, rmw);
}

void sim_explore_fence(struct sim *s, struct sim_warp *w, const struct sim_op *op)
{
	if (op->insn->mod.order != PTX_SC)
		return;
	sim_explore_step(s, w, FENCES);
	wrote(s->explore, w, FENCES, true);
	sim_explore_sum(s, FENCES, s->explore->fences, w->x.trace);
	s->explore->fences = w->x.trace;
}

/* ---- what an instruction is about to touch ---- */

struct look {
	const struct sim_warp *w;
	unsigned kind;    /* others' writes (0), or read-modify-writes (1), matter */
	uint64_t version; /* of all that it touches */
	bool more;        /* others may still write there */
};

static void look_at(struct sim_explore *e, struct look *k, uint64_t key)
{
	const struct explore_loc *l = at(e, key);

	if (!l)
		return;
	k->version += l->version;
	for (size_t i = 0; i < l->n; i++)
		if (l->who[i].place != k->w->x.place &&
		    l->who[i].most[k->kind] > l->who[i].done[k->kind])
			k->more = true;
}

static void look_range(struct sim *s, struct look *k, uint64_t addr, unsigned n)
{
	const struct sim_block *b = sim_find(s, addr);
	const unsigned replicas = b && b->rank == SIM_MAX_RANKS ? s->o.ranks : 1;

	for (unsigned r = 0; b && r < replicas; r++) {
		const uint64_t first = replicas > 1 ? addr - b->addr + b->replica[r]->addr : addr;

		for (uint64_t g = first / GRANULE; g <= (first + n - 1) / GRANULE; g++)
			look_at(s->explore, k, g * GRANULE);
	}
}

static unsigned bytes_of(const struct sim_op *op)
{
	return (op->nv ? op->nv : 1u) * op->size;
}

enum what { NOTHING, LOAD, LAST, STORE };

/* Is it an access for which it matters what others still do? */
static enum what what_of(const struct sim_op *op)
{
	const struct ptx_insn *i = op->insn;
	const bool global = op->space == PTX_GLOBAL || op->space == PTX_GENERIC;

	switch (i->op) {
	case PTX_ld:
	case PTX_mm_ld:
		return global && i->mod.order > PTX_WEAK ? LOAD : NOTHING;
	case PTX_atom:
	case PTX_atom_cas:
	case PTX_atom_exch:
	case PTX_red:
		return global ? LAST : NOTHING;
	case PTX_mm_red:
		return LAST;
	case PTX_st:
	case PTX_mm_st:
		return global && i->mod.order > PTX_WEAK ? STORE : NOTHING;
	default:
		return i->mod.order == PTX_SC ? LAST : NOTHING;
	}
}

static uint32_t lanes_of(const struct sim_warp *w, const struct sim_op *op)
{
	const uint32_t p = op->guard ? w->pred[op->guard - 1] : SIM_ALL_LANES;

	return w->active & (op->guard_not ? ~p : p);
}

/* The late load, when op may not come before it; else op. */
static struct look look(struct sim *s, const struct sim_warp *w, const struct sim_op *op)
{
	struct look k = {.w = w, .kind = what_of(op) == STORE};
	const bool late = w->late && !sim_late_passes(w, op, w->active);

	if (late) {
		k.kind = 0;
		SIM_EACH (i, w->late_mask)
			look_range(s, &k, w->late_addr[i], bytes_of(w->late));
	} else if (what_of(op) == LAST && op->insn->mod.order == PTX_SC) {
		look_at(s->explore, &k, FENCES);
	} else if (what_of(op)) {
		SIM_EACH (j, lanes_of(w, op))
			look_range(s, &k, sim_lane_addr(w, op, j), bytes_of(op));
	}
	return k;
}

/* ---- loops that wait ---- */

bool sim_explore_same(const struct sim_warp *w, const struct sim_poll *p, uint32_t mask,
                      const uint64_t *addr)
{
	if (!p->turn || mask & ~p->mask || p->stores != w->stores)
		return false;
	SIM_EACH (i, mask)
		if (p->addr[i] != addr[i])
			return false;
	return true;
}

/* The load, of a loop that waits as it seems: nothing is stored between its turns. */
static const struct sim_poll *polled(const struct sim_warp *w, const struct sim_op *op)
{
	for (unsigned k = 0; k < w->npoll; k++)
		if (w->poll[k].op == op && w->poll[k].stores == w->stores)
			return &w->poll[k];
	return NULL;
}

static bool again(const struct sim_warp *w, const struct sim_op *op, const struct sim_poll *p)
{
	const uint32_t mask = lanes_of(w, op);
	uint64_t addr[SIM_LANES] = {0};

	SIM_EACH (i, mask)
		addr[i] = sim_lane_addr(w, op, i);
	return p->waits == w->x.waits && sim_explore_same(w, p, mask, addr);
}

void sim_explore_waits(struct sim *s, struct sim_warp *w)
{
	const struct sim_poll *first = NULL;

	for (unsigned k = 0; k < w->npoll; k++)
		if (w->poll[k].turn > w->poll_from && (!first || w->poll[k].turn < first->turn))
			first = &w->poll[k];
	w->x.waits++;
	w->x.fresh = false;
	if (!first || first->stores != w->stores)
		return;
	sim_explore_sum(s, w->x.place, w->x.trace, first->before);
	w->x.trace = first->before;
}

/* ---- who goes on ---- */

static bool may(struct sim *s, struct sim_warp *w, const struct sim_op *op)
{
	const enum what what = what_of(op);
	const bool late = w->late && !sim_late_passes(w, op, w->active);
	const struct sim_poll *p = what == LOAD || what == LAST ? polled(w, op) : NULL;

	if (w->x.granted) {
		w->x.granted = w->x.at_choice = false;
		return true;
	}
	if (!late && (!what || !lanes_of(w, op)))
		return true;
	if (!late && p && w->x.fresh)
		return true;
	if (!late && p && again(w, op, p)) {
		w->x.again = true;
		return true;
	}
	w->x.fresh = false;
	if (!look(s, w, op).more)
		return true;
	w->x.at_choice = true;
	w->x.postponed = false;
	return false;
}

bool sim_explore_go(struct sim *s, struct sim_warp *w, const struct sim_op *op)
{
	if (s->explore->cut)
		return false;
	w->x.again = false;
	w->x.before = w->x.trace;
	if (op->guard && w->active & ~w->def[op->use[0]] && !w->late)
		return true; /* a finding to come */
	if (!may(s, w, op))
		return false;
	if (!w->late || sim_late_passes(w, op, w->active))
		return true;
	if (!sim_late_before(s, w, op, w->active))
		return false;
	w->x.before = w->x.trace;
	return may(s, w, op);
}

/* Can a store come between the load at op and the first use of it?  Branches are followed. */
static bool store_before_use(const struct sim_kernel *k, const struct sim_op *late, uint32_t at,
                             unsigned depth)
{
	for (uint32_t i = at; i < k->nop; i++) {
		const struct sim_op *op = &k->op[i];

		for (unsigned j = 0; j < late->ndef; j++) {
			for (unsigned n = 0; n < op->nuse; n++)
				if (op->use[n] == late->def[j])
					return false;
			for (unsigned n = 0; n < op->ndef; n++)
				if (op->def[n] == late->def[j])
					return false;
		}
		if (op->insn->op == PTX_st && op->space == PTX_GLOBAL)
			return op->insn->mod.order <= PTX_RELAXED;
		if (op->insn->op == PTX_bra) {
			if (op->back)
				return false;
			if (!depth || store_before_use(k, late, op->target, depth - 1))
				return true;
			if (!op->guard)
				return false;
		} else if (op->insn->op >= PTX_ld && op->space != PTX_PARAM &&
		           !(op->insn->op == PTX_ld && op->space == PTX_GLOBAL &&
		             op->insn->mod.order <= PTX_RELAXED)) {
			return false;
		}
	}
	return false;
}

bool sim_explore_late(struct sim *s, const struct sim_warp *w, const struct sim_op *op,
                      uint32_t mask, const uint64_t *addr)
{
	const struct sim_kernel *k = w->cta->launch->kernel;
	struct look l = {.w = w};

	if (w->x.again || w->x.fresh)
		return false;
	SIM_EACH (i, mask)
		look_range(s, &l, addr[i], bytes_of(op));
	return l.more && store_before_use(k, op, (uint32_t)(op - k->op) + 1, 8) && sim_choose(s, 2);
}

/* The first by place that is ready, and has `at_choice`; NULL: none. */
static struct sim_warp *first(struct sim *s, bool at_choice)
{
	struct sim_warp *best = NULL;

	for (unsigned r = 0; r < s->o.ranks; r++)
		for (size_t i = 0; i < s->rank[r].ready.n; i++) {
			struct sim_warp *w = s->rank[r].ready.w[i];

			if (w->x.at_choice != at_choice || (best && best->x.place < w->x.place))
				continue;
			if (at_choice && w->x.postponed &&
			    look(s, w, &w->cta->launch->kernel->op[w->pc]).version == w->x.version)
				continue;
			best = w;
		}
	return best;
}

/* The state, and who waits in it for something to be written. */
static uint64_t state(struct sim *s)
{
	uint64_t sum = s->explore->sum;

	for (unsigned r = 0; r < s->o.ranks; r++) {
		for (size_t i = 0; i < s->rank[r].waiting.n; i++)
			sum += sim_mix(s->rank[r].waiting.w[i]->x.place, 3);
		for (size_t i = 0; i < s->rank[r].ready.n; i++) {
			const struct sim_warp *w = s->rank[r].ready.w[i];

			if (w->x.postponed &&
			    look(s, w, &w->cta->launch->kernel->op[w->pc]).version == w->x.version)
				sum += sim_mix(w->x.place, 3);
		}
	}
	return sum;
}

/* The run is given up: others show what would come of it. */
static void cut(struct sim *s)
{
	s->explore->cut = true;
	s->stopped = true;
}

/* Only where this run is the first to come by. */
static bool is_new(struct sim *s, uint64_t more)
{
	struct sim_explore *e = s->explore;

	if (e->at < e->n || sim_explore_note(e, state(s) + more))
		return true;
	cut(s);
	return false;
}

unsigned sim_explore_read(struct sim *s, const struct sim_warp *w, uint64_t key, unsigned n)
{
	if (s->explore->cut || !is_new(s, sim_mix(w->x.place, key)))
		return 0;
	return sim_choose(s, n);
}

void sim_explore_end(struct sim *s)
{
	is_new(s, 0);
}

struct sim_warp *sim_explore_warp(struct sim *s)
{
	struct sim_warp *w = first(s, false);

	if (w)
		return w;
	while ((w = first(s, true))) {
		const struct look k = look(s, w, &w->cta->launch->kernel->op[w->pc]);

		if (!is_new(s, 0))
			return NULL;
		if (!k.more || !sim_choose(s, 2)) {
			w->x.granted = true;
			w->x.postponed = false;
			return w;
		}
		w->x.postponed = true;
		w->x.version = k.version;
	}
	cut(s);
	return NULL;
}
