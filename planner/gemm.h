/* GEMMs by tiles and waves, alone and beside a collective; the other operations' times.  Private to
 * the planner. */
#pragma once
#include "planner/planner.h"

struct pl_tile {
	unsigned bm, bn, cm, cn;
	double eff;
};
enum {
#define PL_TILE(bm, bn, cm, cn, eff) PL_TILE_##bm##_##bn,
#include "planner/tiles.def"
#undef PL_TILE
	PL_NTILE
};
extern const struct pl_tile pl_tiles[PL_NTILE];
extern const unsigned pl_ntile;

/* CTAs that run at once on `sms` SMs in clusters of `cluster`: GPCs of the machine are not cut. */
unsigned pl_slots(const struct pl_machine *m, unsigned sms, unsigned cluster);

/* What of that depends on the shape alone, made once for a search. */
struct pl_prep {
	double k_us[PL_NTILE], columns[PL_NTILE]; /* us of a tile's K; tiles beside one another */
};
void pl_prepare(const struct pl_options *o, const struct pl_op *op, struct pl_prep *p);
void pl_gemm_prepared(const struct pl_options *o, const struct pl_op *op, const struct pl_prep *p,
                      int64_t rows, unsigned sm_target, struct pl_gemm *g);

/*
 * While a collective runs, everything beside it is slower by gamma: memory, L2 and power are shared.
 * Work of `us` that begins at `begin` ends at the time returned.
 */
double pl_slowed(const struct pl_machine *m, double us, double begin, double until);

/* Time of memory traffic and of flops, alone. */
double pl_mem_us(const struct pl_machine *m, double bytes);
double pl_flops_us(const struct pl_machine *m, double flops, double eff);

/* When `op` ends for rows [row, row + rows) of a batch. */
struct pl_fluid {
	double work, mem; /* us alone */
};
struct pl_fluid pl_fluid_of(const struct pl_machine *m, const struct pl_op *op,
                            const struct pl_batch *b, int64_t row, int64_t rows);
double pl_fluid_finish(const struct pl_machine *m, struct pl_fluid f, double begin, double until,
                       unsigned held);

/* ---- what is chosen from ---- */

enum { PL_MAX_CTAS = 8, PL_MAX_TARGETS = 8 };

/* CTA counts for a collective that overlaps compute, rising; the number of them. */
unsigned pl_cta_choices(const struct pl_comm *c, unsigned out[PL_MAX_CTAS]);

/* SMs to leave free of a GEMM (target = SMs - free; 0: no target) beside a collective of `ctas` CTAs;
 * the number of them. */
unsigned pl_free_choices(const struct pl_options *o, unsigned ctas, unsigned out[PL_MAX_TARGETS]);
