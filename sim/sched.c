/*
 * Who runs next: ranks, streams, launches, CTAs, warps.  All choices come from one generator, so a
 * seed replays a run.
 *
 * A warp runs for a burst of instructions.  Warps that wait are out of the lists that are drawn
 * from; when only those are left, all of them are let run a few more turns, and if none of those
 * changes anything, that is a deadlock.
 */
#include "sim/async.h"
#include "sim/explore.h"
#include "sim/order.h"
#include <inttypes.h>
#include <string.h>

enum { IDLE_TURNS = 32, TURN = 64, GRACE = 24, JUMPS = 48 };
#define DEFAULT_STEPS UINT64_C(20000000000)
#define STALL         UINT64_C(20000000)

uint64_t sim_random(struct sim *s)
{
	uint64_t z = s->rng += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

struct sim *sim_new(struct arena *a, const struct sim_options *o)
{
	struct sim *s = arena_new(a, struct sim);

	s->arena = a;
	s->o = *o;
	if (!s->o.ranks || s->o.ranks > SIM_MAX_RANKS)
		s->o.ranks = s->o.ranks ? SIM_MAX_RANKS : 1;
	if (!s->o.max_steps)
		s->o.max_steps = DEFAULT_STEPS;
	s->o.slow_rank %= s->o.ranks;
	s->rng = sim_mix(o->seed, 1);
	s->ns = 1000;
	s->slow_odds = 64u << sim_random(s) % 5;
	s->changes = 32;
	s->change_at = UINT64_C(1) << (4 + sim_random(s) % 14);
	s->lazy_copies = sim_random(s) & 1;
	s->tail = &s->findings;
	s->explore = o->explore;
	if (s->o.races)
		sim_race_new(s);
	for (unsigned r = 0; r < s->o.ranks; r++)
		for (unsigned t = 0; t < SIM_STREAMS; t++)
			s->rank[r].tail[t] = &s->rank[r].stream[t];
	return s;
}

static struct sim_list *list_of(struct sim *s, const struct sim_warp *w, enum sim_state state)
{
	struct sim_rank *r = &s->rank[w->cta->launch->rank];

	return state == SIM_READY ? &r->ready : state == SIM_WAITING ? &r->waiting : NULL;
}

void sim_set_state(struct sim *s, struct sim_warp *w, enum sim_state state)
{
	struct sim_list *from = list_of(s, w, w->state), *to = list_of(s, w, state);

	if (from) {
		struct sim_warp *last = from->w[--from->n];

		from->w[w->where] = last;
		last->where = w->where;
	}
	if (to) {
		to->w = arena_grow(s->arena, to->w, to->n, &to->cap, to->n + 1,
		                   sizeof(struct sim_warp *));
		w->where = (unsigned)to->n;
		to->w[to->n++] = w;
	}
	s->nwaiting -= w->state == SIM_WAITING;
	s->nwaiting += state == SIM_WAITING;
	w->state = state;
}

static void queue(struct sim *s, struct sim_launch *l)
{
	struct sim_rank *r = &s->rank[l->rank];

	l->start_at = UINT64_MAX;
	*r->tail[l->stream] = l;
	r->tail[l->stream] = &l->next;
	r->last[l->stream] = l;
	l->number = r->launched++;
	s->pending++;
}

void sim_host(struct sim *s, unsigned rank, unsigned stream,
              bool (*fn)(void *ctx, struct sim *s, unsigned rank), void *ctx)
{
	struct sim_launch *l;

	if (rank >= s->o.ranks || stream >= SIM_STREAMS)
		return;
	l = arena_new(s->arena, struct sim_launch);
	l->host = fn;
	l->host_ctx = ctx;
	l->rank = rank;
	l->stream = stream;
	queue(s, l);
}

const struct sim_launch *sim_mark(struct sim *s, unsigned rank, unsigned stream)
{
	struct sim_launch *l =
	        rank < s->o.ranks && stream < SIM_STREAMS ? s->rank[rank].last[stream] : NULL;

	if (l && !l->marked) {
		l->marked = true;
		if (s->race && l->finished)
			sim_race_mark(s, l);
	}
	return l;
}

void sim_wait(struct sim *s, unsigned rank, unsigned stream, const struct sim_launch *mark)
{
	struct sim_launch *l;

	if (!mark || rank >= s->o.ranks || stream >= SIM_STREAMS)
		return;
	l = arena_new(s->arena, struct sim_launch);
	l->after = mark;
	l->rank = rank;
	l->stream = stream;
	queue(s, l);
}

void sim_launch(struct sim *s, unsigned rank, unsigned stream, const struct sim_kernel *k,
                unsigned grid, unsigned block, const void *params, uint32_t param_bytes)
{
	sim_launch_dynamic(s, rank, stream, k, grid, block, 0, params, param_bytes);
}

/* Checks and queues a launch; NULL: a finding says what is wrong with it. */
static struct sim_launch *launch(struct sim *s, unsigned rank, unsigned stream,
                                 const struct sim_kernel *k, unsigned grid, unsigned block,
                                 uint32_t shared_bytes, const void *params, uint32_t param_bytes)
{
	const unsigned most = k && k->fn->maxntid ? k->fn->maxntid : SIM_MAX_WARPS * SIM_LANES;
	struct sim_launch *l;

	if (!k || rank >= s->o.ranks || stream >= SIM_STREAMS) {
		sim_found_at(s, rank, SIM_PARAM, NULL,
		             "launch on rank %u, stream %u: there are %u ranks, %d streams%s", rank,
		             stream, s->o.ranks, SIM_STREAMS, k ? "" : ", and no kernel was given");
		return NULL;
	}
	if (!block || block > most || param_bytes != k->param_bytes) {
		sim_found_at(s, rank, SIM_PARAM, NULL,
		             "'%s' launched with %u threads a CTA and %u bytes of arguments; it "
		             "takes 1 to %u "
		             "threads and %u bytes",
		             k->fn->name, block, param_bytes, most, k->param_bytes);
		return NULL;
	}
	if (shared_bytes > sim_most_dynamic(k)) {
		sim_found_at(
		        s, rank, SIM_PARAM, NULL,
		        "'%s' launched with %u bytes of dynamic shared memory; it takes up to %u",
		        k->fn->name, shared_bytes, sim_most_dynamic(k));
		return NULL;
	}
	l = arena_new(s->arena, struct sim_launch);
	l->kernel = k;
	l->dynamic = shared_bytes;
	l->rank = rank;
	l->stream = stream;
	l->grid = grid;
	l->block = block;
	l->params = arena_alloc(s->arena, param_bytes + 1);
	memcpy(l->params, params, param_bytes);
	queue(s, l);
	return l;
}

void sim_launch_dynamic(struct sim *s, unsigned rank, unsigned stream, const struct sim_kernel *k,
                        unsigned grid, unsigned block, uint32_t shared_bytes, const void *params,
                        uint32_t param_bytes)
{
	launch(s, rank, stream, k, grid, block, shared_bytes, params, param_bytes);
}

void sim_launch_early(struct sim *s, unsigned rank, unsigned stream, const struct sim_kernel *k,
                      unsigned grid, unsigned block, uint32_t shared_bytes, const void *params,
                      uint32_t param_bytes)
{
	struct sim_launch *l =
	        launch(s, rank, stream, k, grid, block, shared_bytes, params, param_bytes);

	if (l)
		l->programmatic = true;
}

/* The stream's next launch has waited in its threads for this moment. */
static void wake_grid(struct sim *s, const struct sim_launch *l)
{
	for (const struct sim_cta *c = l ? l->resident : NULL; c; c = c->next)
		for (unsigned i = 0; i < c->nwarp; i++)
			if (c->warp[i]->state == SIM_AT_GRID)
				sim_set_state(s, c->warp[i], SIM_READY);
}

void sim_launch_done(struct sim *s, struct sim_launch *l)
{
	struct sim_rank *r = &s->rank[l->rank];

	s->progress++;
	if (r->stream[l->stream] != l) {
		l->over = true;
		return;
	}
	if (s->race)
		sim_race_launch_end(s, l);
	if (s->race && l->marked)
		sim_race_mark(s, l);
	r->stream[l->stream] = l->next;
	if (!l->next)
		r->tail[l->stream] = &r->stream[l->stream];
	r->finished++;
	s->pending--;
	l->finished = true;
	s->stats.launches += !l->host && !l->after;
	wake_grid(s, l->next);
}

/* In which order the CTAs of a launch start. */
static void order_ctas(struct sim *s, struct sim_launch *l)
{
	l->order = arena_news(s->arena, uint32_t, l->grid);
	for (unsigned i = 0; i < l->grid; i++)
		l->order[i] = i;
	if (s->o.schedule == SIM_ROUND_ROBIN && !s->o.resident)
		return;
	for (unsigned i = l->grid; i > 1; i--) {
		unsigned j = (unsigned)(sim_random(s) % i);
		uint32_t t = l->order[i - 1];

		l->order[i - 1] = l->order[j];
		l->order[j] = t;
	}
}

/* Steps before a rank's first item; the others follow at once, but for what a programmatic launch is
 * behind: that comes late. */
static uint64_t start_delay(struct sim *s, const struct sim_launch *l)
{
	uint64_t most = l->number == 0 ? s->o.max_start_delay : 0;

	if (l->host && l->next && l->next->programmatic && s->o.schedule != SIM_ROUND_ROBIN &&
	    !most)
		most = 4096;
	return most ? sim_random(s) % (most + 1) : 0;
}

static void start(struct sim *s, struct sim_launch *l)
{
	struct sim_rank *r = &s->rank[l->rank];

	if (!l->started) {
		l->started = true;
		l->when = ++s->started;
		order_ctas(s, l);
		if (s->race)
			sim_race_launch_start(s, l);
	}
	while (l->begun < l->grid && (!s->o.resident || r->resident < s->o.resident))
		sim_cta_start(s, l, l->order[l->begun++]);
}

/* A programmatic launch behind one that runs, or that is a host function to come. */
static void start_dependent(struct sim *s, const struct sim_launch *l)
{
	if (l->next && l->next->programmatic &&
	    (l->host || (l->started && l->triggered == l->grid)))
		start(s, l->next);
}

static void run_host(struct sim *s, struct sim_launch *l)
{
	if (s->race)
		sim_race_host_begin(s, l->rank, l->stream);
	s->stopped |= !l->host(l->host_ctx, s, l->rank);
	if (s->race)
		sim_race_host_end(s);
	s->stopped |= s->findings != NULL;
	sim_launch_done(s, l);
}

/* Starts what may start at the head of a stream. */
static void advance_stream(struct sim *s, unsigned rank, unsigned stream)
{
	struct sim_launch *l;

	while ((l = s->rank[rank].stream[stream])) {
		if (l->after) {
			if (!l->after->finished)
				return;
			if (s->race)
				sim_race_after(s, l);
			sim_launch_done(s, l);
			continue;
		}
		if (l->start_at == UINT64_MAX)
			l->start_at = s->steps + start_delay(s, l);
		if (s->steps < l->start_at && !l->started) {
			start_dependent(s, l);
			return;
		}
		if (l->host) {
			run_host(s, l);
			if (s->stopped)
				return;
			continue;
		}
		start(s, l);
		if (l->grid && !l->over) {
			start_dependent(s, l);
			return;
		}
		sim_launch_done(s, l);
	}
}

/* Starts launches and CTAs; returns the number of ready warps. */
static size_t advance(struct sim *s)
{
	size_t n = 0;

	for (unsigned r = 0; r < s->o.ranks; r++) {
		unsigned finished;

		do { /* what finishes may be what another stream waits for */
			finished = s->rank[r].finished;
			for (unsigned t = 0; t < SIM_STREAMS; t++)
				if (s->rank[r].stream[t])
					advance_stream(s, r, t);
		} while (s->rank[r].finished != finished);
		n += s->rank[r].ready.n;
	}
	return n;
}

/* The least start time of a launch that has not begun; UINT64_MAX: none. */
static uint64_t next_start(const struct sim *s)
{
	uint64_t least = UINT64_MAX;

	for (unsigned r = 0; r < s->o.ranks; r++)
		for (unsigned t = 0; t < SIM_STREAMS; t++) {
			const struct sim_launch *l = s->rank[r].stream[t];

			if (l && !l->started && !l->after && l->start_at < least)
				least = l->start_at;
		}
	return least;
}

/* Draws a rank with ready warps. */
static unsigned draw_rank(struct sim *s, size_t ready)
{
	const struct sim_rank *slow = &s->rank[s->o.slow_rank];
	unsigned r;

	if (s->o.schedule == SIM_ROUND_ROBIN) {
		do
			s->turn = (s->turn + 1) % s->o.ranks;
		while (!s->rank[s->turn].ready.n);
		return s->turn;
	}
	do
		r = (unsigned)(sim_random(s) % s->o.ranks);
	while (!s->rank[r].ready.n || (s->o.schedule == SIM_SLOW_RANK && r == s->o.slow_rank &&
	                               slow->ready.n != ready && sim_random(s) % s->slow_odds));
	return r;
}

/* At a change point the warp that runs falls behind all others, and copies become eager or lazy. */
static void change_priorities(struct sim *s, struct sim_warp *running)
{
	if (s->steps < s->change_at || !s->changes)
		return;
	s->changes--;
	running->priority = --s->lowest;
	s->lazy_copies = sim_random(s) & 1;
	s->change_at = s->steps + (UINT64_C(1) << (4 + sim_random(s) % 14));
}

/* The ready warp of the highest priority, for some instructions (probabilistic concurrency testing:
 * Burckhardt and others, ASPLOS 2010). */
static bool run_first(struct sim *s)
{
	struct sim_warp *first = NULL;

	for (unsigned r = 0; r < s->o.ranks; r++)
		for (size_t i = 0; i < s->rank[r].ready.n; i++)
			if (!first || s->rank[r].ready.w[i]->priority > first->priority)
				first = s->rank[r].ready.w[i];
	change_priorities(s, first);
	/* One that spins and is not seen to wait must not keep the others from what it waits for. */
	if (s->progress != s->pct_progress) {
		s->pct_progress = s->progress;
		s->pct_idle = 0;
	} else if (++s->pct_idle % IDLE_TURNS == 0) {
		first->priority = --s->lowest; /* behind all others, so that each has its turn */
	}
	return sim_run_warp(s, first, TURN);
}

/* Bulk copies get on, as fast as the schedule has them. */
static void run_copies(struct sim *s)
{
	if (s->o.schedule == SIM_ROUND_ROBIN || (s->o.schedule == SIM_PCT && !s->lazy_copies) ||
	    (s->o.schedule != SIM_PCT && sim_random(s) % 4 == 0))
		sim_copies_advance(s);
}

static bool run_burst(struct sim *s, size_t ready)
{
	struct sim_rank *r;
	unsigned burst;
	size_t i;

	if (s->explore) {
		struct sim_warp *w = sim_explore_warp(s);

		return w && sim_run_warp(s, w, UINT32_MAX);
	}
	if (s->o.schedule == SIM_PCT)
		return run_first(s);
	r = &s->rank[draw_rank(s, ready)];
	if (s->o.schedule == SIM_ROUND_ROBIN) {
		i = r->turn++ % r->ready.n;
		burst = s->o.turn ? s->o.turn : TURN;
	} else {
		i = (size_t)(sim_random(s) % r->ready.n);
		burst = 1u << sim_random(s) % 10;
		if (s->o.schedule == SIM_SLOW_RANK && r == &s->rank[s->o.slow_rank] &&
		    r->ready.n != ready)
			burst = 1;
	}
	return sim_run_warp(s, r->ready.w[i], burst);
}

/* Nothing is ready.  false: nothing can come any more. */
static bool unblock(struct sim *s, unsigned *idle, uint64_t *seen)
{
	uint64_t start = next_start(s);

	if (s->progress != *seen) {
		*idle = 0;
		s->fresh = false;
	}
	*seen = s->progress;
	if (start != UINT64_MAX && s->steps < start) {
		s->ns += start - s->steps;
		s->steps = start;
		return true;
	}
	if (s->explore && *idle)
		return false; /* what they poll is the last that was written */
	if (s->nwaiting && *idle < (s->o.jump_time ? GRACE + JUMPS : GRACE)) {
		if (s->o.jump_time && *idle >= GRACE)
			s->ns += UINT64_C(1000) << (*idle - GRACE);
		++*idle;
		s->fresh = s->o.weak && !s->explore;
		for (unsigned r = 0; s->explore && r < s->o.ranks; r++)
			for (size_t i = 0; i < s->rank[r].waiting.n; i++)
				s->rank[r].waiting.w[i]->x.fresh = true;
		sim_wake_all(s);
		return true;
	}
	return false;
}

/* A warp that is ready, to show where a run that was given up was busy. */
static const struct sim_warp *busy_warp(const struct sim *s)
{
	for (unsigned r = 0; r < s->o.ranks; r++)
		if (s->rank[r].ready.n)
			return s->rank[r].ready.w[0];
	return NULL;
}

/* Too many steps, or too many since memory or the set of CTAs last changed (at step `since`). */
static void check_limits(struct sim *s, uint64_t since)
{
	const bool stalled = s->steps - since > STALL;
	const struct sim_warp *w;

	if (!stalled && s->steps <= s->o.max_steps)
		return;
	w = busy_warp(s);
	if (w)
		sim_found(s, w, &w->cta->launch->kernel->op[w->pc], SIM_LANES, SIM_LIMIT,
		          "%" PRIu64 " warp instructions were executed%s; this one was about to be",
		          s->steps,
		          stalled ? ", the last 20 million of them without a store or the end of a "
		                    "CTA"
		                  : "");
	else
		sim_found_at(s, 0, SIM_LIMIT, NULL, "%" PRIu64 " warp instructions were executed",
		             s->steps);
}

bool sim_run(struct sim *s)
{
	unsigned idle = 0;
	uint64_t seen = s->progress, changed = s->progress, changed_at = s->steps;

	if (s->race)
		sim_race_run(s);
	while (!s->findings && !s->stopped && s->pending) {
		size_t ready;

		if (s->wake || s->steps >= s->wake_at)
			sim_wake_all(s);
		ready = advance(s);
		if (!s->pending || s->stopped)
			break;
		if (!ready && s->ncopy) {
			sim_copies_advance(s);
			continue;
		}
		if (!ready) {
			if (!unblock(s, &idle, &seen))
				sim_report_deadlock(s);
			continue;
		}
		if (!run_burst(s, ready))
			break;
		if (s->ncopy)
			run_copies(s);
		if (s->progress != changed) {
			changed = s->progress;
			changed_at = s->steps;
		}
		check_limits(s, changed_at);
	}
	if (s->explore && !s->findings && !s->stopped)
		sim_explore_end(s);
	s->stats.ns = s->ns;
	return !s->findings && !s->stopped;
}

struct sim_stats sim_stats(const struct sim *s)
{
	return s->stats;
}
