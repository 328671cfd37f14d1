/* What the switch makes of one access: the replicas' elements reduced to one. */
#pragma once
#include "sim/internal.h"

/* A permutation of 0..n-1 from a hash. */
void sim_permute(uint8_t *p, unsigned n, uint64_t h);

/* out[k] is element k of all ranks' `from`, reduced as the instruction and the mode of sums say;
 * `key` decides what is open. */
void sim_switch_sum(const struct sim *s, const struct sim_op *op,
                    const uint8_t *const from[SIM_MAX_RANKS], uint64_t key, uint64_t out[8]);
