/*
 * Rows wider than registers (wide.c), for the plan and the loop.
 */
#pragma once
#include "codegen/emit.h"

#define CG_WIDEST          65536 /* elements of a row */
#define CG_BYTES_IN_FLIGHT 65536

/* Sets parked, park_units, dynamic, ahead and est_regs; false: there is no room.  `regs`: of one
 * vector's work and what is kept beside it; `limit`: what a thread may use. */
bool cg_wide_plan(struct cg_plan *p, const struct cg_rowprog *rp, unsigned regs, unsigned limit);
/* Registers of what level 0 loads of a vector, sums of addends aside. */
unsigned cg_wide_loaded(const struct cg_plan *p, const struct cg_rowprog *rp);
/* Bytes of shared memory that hold all of a row that has to be kept. */
uint64_t cg_wide_bytes(const struct cg_plan *p, const struct cg_rowprog *rp);

/* Is the value made in each level that reads it, rather than kept? */
bool cg_wide_again(const struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_value *v);
/* Is it kept from level l to l + 1?  -1: from before level 0. */
bool cg_wide_held(const struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_value *v,
                  int l);

void cg_wide_setup(struct cg_emit *e);
void cg_wide_early(struct cg_emit *e); /* at the beginning of a row */
void cg_wide_level(struct cg_emit *e, unsigned level);
/* Parks what the value's registers of a vector hold, if the vector is one that is parked. */
void cg_wide_park(struct cg_emit *e, const struct cg_value *v, unsigned vec);
/* At a level's end: registers that hold nothing any more. */
void cg_wide_forget(struct cg_emit *e, struct cg_value *v, unsigned level);
