/*
 * Exhaustive search: every choice (which warp makes the next visible step, which write a read sees,
 * where a write comes, whether a load is late) is taken in turn, by running again from the start with
 * a list of choices.
 *
 * A state is known by its trace: what each warp has done and seen, and for every location its
 * accesses in order, hashed so that steps that do not touch one another may come in either order.
 * A state that was there before is not gone on from (stateful search with happens-before caching:
 * Musuvathi and Qadeer, PLDI 2007).
 */
#include "sim/explore.h"
#include <string.h>

struct choice {
	uint32_t n, taken;
};

struct sim_explore {
	struct arena *arena;
	struct choice *choice;
	size_t n, cap, at; /* made so far in this run: at; n: to be made again */
	uint64_t *seen;    /* a hash table of states */
	uint64_t cap_seen, states, runs, most;
	uint64_t sum; /* the state */
	uint64_t stream[SIM_MAX_RANKS][SIM_STREAMS];
	struct sim_trace sc;
	bool cut, begun;
};

struct sim_explore *sim_explore_new(struct arena *a, uint64_t most_runs)
{
	struct sim_explore *e = arena_new(a, struct sim_explore);

	e->arena = a;
	e->most = most_runs;
	e->cap_seen = 1u << 12;
	e->seen = arena_news(a, uint64_t, e->cap_seen);
	return e;
}

bool sim_explore_next(struct sim_explore *e)
{
	if (e->begun) {
		e->n = e->at;
		while (e->n && e->choice[e->n - 1].taken + 1 == e->choice[e->n - 1].n)
			e->n--;
		if (!e->n || e->runs == e->most)
			return false;
		e->choice[e->n - 1].taken++;
	}
	e->begun = true;
	e->cut = false;
	e->at = 0;
	e->sum = 0;
	memset(e->stream, 0, sizeof e->stream);
	memset(&e->sc, 0, sizeof e->sc);
	e->runs++;
	return true;
}

struct sim_explored sim_explored(const struct sim_explore *e)
{
	return (struct sim_explored){e->runs, e->states, e->begun && !e->n, e->cut};
}

static bool put(uint64_t *table, uint64_t cap, uint64_t state)
{
	uint64_t i = state * UINT64_C(0x9e3779b97f4a7c15) >> 20;

	for (;; i++) {
		i &= cap - 1;
		if (table[i] == state)
			return false;
		if (!table[i]) {
			table[i] = state;
			return true;
		}
	}
}

/* Is the state new?  It is noted. */
static bool note(struct sim_explore *e, uint64_t state)
{
	state = state ? state : 1;
	if (e->states * 2 > e->cap_seen) {
		uint64_t *bigger = arena_news(e->arena, uint64_t, 2 * e->cap_seen);

		for (uint64_t i = 0; i < e->cap_seen; i++)
			if (e->seen[i])
				put(bigger, 2 * e->cap_seen, e->seen[i]);
		e->seen = bigger;
		e->cap_seen *= 2;
	}
	if (!put(e->seen, e->cap_seen, state))
		return false;
	e->states++;
	return true;
}

unsigned sim_choose(struct sim *s, unsigned n)
{
	struct sim_explore *e = s->explore;

	if (!e)
		return (unsigned)(sim_random(s) % n);
	if (n < 2)
		return 0;
	if (e->at == e->n) {
		e->choice =
		        arena_grow(e->arena, e->choice, e->n, &e->cap, e->n + 1, sizeof *e->choice);
		e->choice[e->n++] = (struct choice){n, 0};
	}
	return e->choice[e->at++].taken;
}

struct sim_warp *sim_explore_warp(struct sim *s)
{
	struct sim_explore *e = s->explore;
	unsigned n = 0, k;

	/* Only where this run is the first to come by. */
	if (e->at == e->n && !note(e, e->sum)) {
		e->cut = true;
		s->stopped = true;
		return NULL;
	}
	for (unsigned r = 0; r < s->o.ranks; r++)
		n += (unsigned)s->rank[r].ready.n;
	k = sim_choose(s, n);
	for (unsigned r = 0;; r++) {
		if (k < s->rank[r].ready.n)
			return sim_explore_nth(&s->rank[r].ready, k);
		k -= (unsigned)s->rank[r].ready.n;
	}
}

/* By place, not by the list's order, which differs from run to run. */
struct sim_warp *sim_explore_nth(const struct sim_list *l, unsigned k)
{
	for (size_t i = 0; i < l->n; i++) {
		unsigned before = 0;

		for (size_t j = 0; j < l->n; j++)
			before += l->w[j]->place < l->w[i]->place;
		if (before == k)
			return l->w[i];
	}
	return l->w[0];
}

static void add(struct sim_explore *e, uint64_t key, uint64_t old, uint64_t now)
{
	e->sum += sim_mix(key, now) - sim_mix(key, old);
}

void sim_explore_step(struct sim *s, struct sim_warp *w, uint64_t what)
{
	const uint64_t now = sim_mix(w->trace, what);

	add(s->explore, w->place, w->trace, now);
	w->trace = now;
	s->acted = true;
}

void sim_explore_read(struct sim *s, struct sim_warp *w, struct sim_trace *t, uint64_t key,
                      uint64_t saw)
{
	const uint64_t old = t->write + t->reads;

	sim_explore_step(s, w, sim_mix(key, saw));
	t->reads += w->trace;
	add(s->explore, key, old, t->write + t->reads);
}

uint64_t sim_explore_write(struct sim *s, struct sim_warp *w, struct sim_trace *t, uint64_t key,
                           uint64_t place)
{
	const uint64_t old = t->write + t->reads;

	sim_explore_step(s, w, sim_mix(sim_mix(key, old), place));
	t->write = w->trace;
	t->reads = 0;
	add(s->explore, key, old, t->write);
	return w->trace;
}

void sim_explore_fence(struct sim *s, struct sim_warp *w, const struct sim_op *op)
{
	if (op->insn->mod.order == PTX_SC)
		sim_explore_write(s, w, &s->explore->sc, 1, 0);
}

void sim_explore_join(struct sim *s, struct sim_cta *c, uint32_t warps)
{
	uint64_t all = 0;

	SIM_EACH (i, warps)
		all += c->warp[i]->trace;
	SIM_EACH (j, warps)
		sim_explore_step(s, c->warp[j], all);
}

void sim_explore_born(struct sim *s, struct sim_warp *w)
{
	const struct sim_launch *l = w->cta->launch;

	w->place = sim_mix(sim_mix(l->rank * 8u + l->stream + 1u, w->cta->index), w->index);
	w->trace = 0;
	sim_explore_step(s, w, s->explore->stream[l->rank][l->stream]);
}

void sim_explore_died(struct sim *s, struct sim_warp *w)
{
	const struct sim_launch *l = w->cta->launch;

	sim_explore_step(s, w, 0);
	s->explore->stream[l->rank][l->stream] += sim_mix(w->place, w->trace);
}
