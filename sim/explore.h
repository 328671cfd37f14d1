/* Exhaustive search, for the rest of the simulator (explore.c). */
#pragma once
#include "sim/internal.h"

struct sim_trace { /* of a location */
	uint64_t write, reads;
};

/* The warp that makes the next step; NULL: the state has been gone on from, and the run stops. */
struct sim_warp *sim_explore_warp(struct sim *s);
struct sim_warp *sim_explore_nth(const struct sim_list *l, unsigned k);
/* w has done something that others can see, or could have. */
void sim_explore_step(struct sim *s, struct sim_warp *w, uint64_t what);
void sim_explore_read(struct sim *s, struct sim_warp *w, struct sim_trace *t, uint64_t key,
                      uint64_t saw);
uint64_t sim_explore_write(struct sim *s, struct sim_warp *w, struct sim_trace *t, uint64_t key,
                           uint64_t place);
/* A fence; those of order .sc come one after the other. */
void sim_explore_fence(struct sim *s, struct sim_warp *w, const struct sim_op *op);
/* The warps have met. */
void sim_explore_join(struct sim *s, struct sim_cta *c, uint32_t warps);
void sim_explore_born(struct sim *s, struct sim_warp *w);
void sim_explore_died(struct sim *s, struct sim_warp *w);
