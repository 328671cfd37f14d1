/*
 * Exhaustive search: every choice is taken in turn, by running again from the start with a list of
 * choices.  Here are choices and states; explore_go.c says which choices there are.
 *
 * A state is known by its trace: what each warp has done and which writes it has seen, and the writes
 * of each location in order, hashed so that steps that do not touch one another may come in either
 * order.  A state that was there before is not gone on from (stateful search with happens-before
 * caching: Musuvathi and Qadeer, PLDI 2007).
 */
#include "sim/explore.h"
#include <string.h>

struct sim_explore *sim_explore_new(struct arena *a, uint64_t most_runs)
{
	struct sim_explore *e = arena_new(a, struct sim_explore);

	e->arena = a;
	e->most = most_runs;
	e->cap_seen = 1u << 12;
	e->seen = arena_news(a, uint64_t, e->cap_seen);
	return e;
}

/* To the next list of choices.  false: there is none, or no run is left. */
static bool advance(struct sim_explore *e)
{
	e->n = e->at;
	if (e->grown) { /* some choices were not seen as such: from the beginning */
		memset(e->seen, 0, e->cap_seen * sizeof *e->seen);
		e->n = e->states = e->runs = 0;
		e->grown = false;
		return e->all_runs < e->most;
	}
	while (e->n && e->choice[e->n - 1].taken + 1 == e->choice[e->n - 1].n)
		e->n--;
	if (!e->n || e->all_runs >= e->most)
		return false;
	e->choice[e->n - 1].taken++;
	return true;
}

bool sim_explore_next(struct sim_explore *e)
{
	if (e->begun && !advance(e))
		return false;
	e->begun = true;
	e->cut = false;
	e->at = 0;
	e->sum = e->fences = 0;
	memset(e->stream, 0, sizeof e->stream);
	e->runs++;
	e->all_runs++;
	return true;
}

struct sim_explored sim_explored(const struct sim_explore *e)
{
	return (struct sim_explored){.runs = e->runs,
	                             .states = e->states,
	                             .complete = e->begun && !e->n && !e->grown,
	                             .cut = e->cut};
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

bool sim_explore_note(struct sim_explore *e, uint64_t state)
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
	if (n < 2 || e->cut)
		return 0;
	if (e->at == e->n) {
		e->choice =
		        arena_grow(e->arena, e->choice, e->n, &e->cap, e->n + 1, sizeof *e->choice);
		e->choice[e->n++] = (struct sim_choice){n, 0};
	}
	return e->choice[e->at++].taken;
}

void sim_explore_sum(struct sim *s, uint64_t key, uint64_t old, uint64_t now)
{
	s->explore->sum += sim_mix(key, now) - sim_mix(key, old);
}

void sim_explore_step(struct sim *s, struct sim_warp *w, uint64_t what)
{
	const uint64_t now = sim_mix(w->x.trace, what);

	sim_explore_sum(s, w->x.place, w->x.trace, now);
	w->x.trace = now;
}

void sim_explore_join(struct sim *s, struct sim_cta *c, uint32_t warps)
{
	uint64_t all = 0;

	SIM_EACH (i, warps)
		all += c->warp[i]->x.trace;
	SIM_EACH (j, warps)
		sim_explore_step(s, c->warp[j], all);
}

void sim_explore_born(struct sim *s, struct sim_warp *w)
{
	const struct sim_launch *l = w->cta->launch;

	memset(&w->x, 0, sizeof w->x);
	w->x.place = sim_mix(sim_mix(l->rank * 8u + l->stream + 1u, w->cta->index), w->index);
	w->x.trace = w->x.place; /* no two warps have done the same */
	sim_explore_sum(s, w->x.place, 0, w->x.trace);
	sim_explore_step(s, w, s->explore->stream[l->rank][l->stream]);
}

void sim_explore_died(struct sim *s, struct sim_warp *w)
{
	const struct sim_launch *l = w->cta->launch;

	sim_explore_step(s, w, 0);
	s->explore->stream[l->rank][l->stream] += sim_mix(w->x.place, w->x.trace);
}
