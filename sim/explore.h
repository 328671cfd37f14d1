/* Exhaustive search, for the rest of the simulator: states and choices (explore.c), who goes on
 * (explore_go.c). */
#pragma once
#include "sim/internal.h"

struct explore_loc;

struct sim_choice {
	uint32_t n, taken;
};

struct sim_explore {
	struct arena *arena;
	struct sim_choice *choice;
	size_t n, cap, at; /* made so far in this run: at; n: to be made again */
	uint64_t *seen;    /* a hash table of states */
	uint64_t cap_seen, states, runs, all_runs, most;
	uint64_t fences; /* the trace behind the last fence of order .sc */
	uint64_t sum; /* the state: what the warps have done and seen, and each location's writes */
	uint64_t stream[SIM_MAX_RANKS][SIM_STREAMS];
	bool cut, begun;
	/* who writes where, in any run so far (explore_go.c) */
	struct explore_loc **loc;
	size_t nloc, cap_loc;
	bool grown; /* since the search began: it has to begin again */
};

/* ---- explore.c ---- */
/* Is the state new?  It is noted. */
bool sim_explore_note(struct sim_explore *e, uint64_t state);
/* w has done something that others can see, or could have. */
void sim_explore_step(struct sim *s, struct sim_warp *w, uint64_t what);
/* What is said of `key` in the state changes. */
void sim_explore_sum(struct sim *s, uint64_t key, uint64_t old, uint64_t now);
/* A fence; those of order .sc come one after the other. */
void sim_explore_fence(struct sim *s, struct sim_warp *w, const struct sim_op *op);
/* The warps have met. */
void sim_explore_join(struct sim *s, struct sim_cta *c, uint32_t warps);
void sim_explore_born(struct sim *s, struct sim_warp *w);
void sim_explore_died(struct sim *s, struct sim_warp *w);

/* ---- explore_go.c ---- */
/* The warp that runs next; NULL: the state has been gone on from, and the run stops. */
struct sim_warp *sim_explore_warp(struct sim *s);
/* The run is over, with no finding: is its end a new one? */
void sim_explore_end(struct sim *s);
/* May w, about to execute op, do so?  false: it stops at a choice; or, with a finding, for good. */
bool sim_explore_go(struct sim *s, struct sim_warp *w, const struct sim_op *op);
/* Which of n writes a read of the place `key` sees. */
unsigned sim_explore_read(struct sim *s, const struct sim_warp *w, uint64_t key, unsigned n);
/* May the load be put off to some use, and is it? */
bool sim_explore_late(struct sim *s, const struct sim_warp *w, const struct sim_op *op,
                      uint32_t mask, const uint64_t *addr);
/* A strong write of n bytes at a physical address; rmw: it read them, too. */
void sim_explore_wrote(struct sim *s, const struct sim_warp *w, uint64_t at, unsigned n, bool rmw);
/* Was the load made by these lanes of these addresses, with nothing stored since? */
bool sim_explore_same(const struct sim_warp *w, const struct sim_poll *p, uint32_t mask,
                      const uint64_t *addr);
/* w begins to wait: what it saw in vain is forgotten. */
void sim_explore_waits(struct sim *s, struct sim_warp *w);
