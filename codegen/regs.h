/*
 * Registers: how many a thread will need, as ptxas deals them, and what fits into those of an SM.
 * Numbers are 32-bit registers of a thread.  Of the plan, what has been set by then is read:
 * protocol, target, shape, rows in flight, ranks summed at once; est_regs by what says "fits".
 */
#pragma once
#include "codegen/emit.h"

#define CG_ELEMS_PER_THREAD 16 /* of a row, where threads are enough */
#define CG_FEW_THREADS      512 /* of a CTA: with no more, registers are left for more than its row */
#define CG_REGS_MARGIN      8   /* left free when there is a choice */
#define CG_POLL_MARGIN      16 /* where several ranks are polled at once */

/* What a thread may use so that `ctas` CTAs fit into an SM. */
unsigned cg_regs_limit(const struct cg_plan *p, unsigned ctas);
/* The estimate for rows in registers, weights that are kept aside. */
unsigned cg_regs_row(const struct cg_plan *p, const struct cg_rowprog *rp);
/* Of one vector of a wide row, in the level that needs most, with what is kept beside it. */
unsigned cg_regs_vector(const struct cg_plan *p, const struct cg_rowprog *rp);

/* Does the row go into registers, given `limit` of them?  Else it is wide. */
bool cg_row_fits(const struct cg_plan *p, unsigned limit);
/* n teams in a CTA. */
bool cg_teams_fit(const struct cg_plan *p, const struct cg_rowprog *rp, unsigned n);
/* Two CTAs in an SM, and whether they are of use. */
bool cg_pair_fits(const struct cg_plan *p, const struct cg_rowprog *rp);
/* All weights' part of a thread, for the whole launch. */
bool cg_weights_fit(const struct cg_plan *p, const struct cg_rowprog *rp);
