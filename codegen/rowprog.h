/*
 * A row program: what a fused kernel does to one row, sorted for code generation.  Made from the IR
 * (IR_FORM_FUSED) by rowprog.c; read by the plan and by the emitters.
 *
 * A row is cut into vectors of `elems` neighbouring elements.  Thread t holds vectors t, t +
 * threads, t + 2 * threads, ... A reduction ends a level: what needs its result is done in a later
 * level.
 */
#pragma once
#include "codegen/ptx/ptx.h"
#include "ir/ir.h"

#define CG_MAX_LEVELS  32
#define CG_FIXED_LEVEL 31 /* before the first row: stores of what has no rows */

enum cg_home {
	CG_HOME_CONST,   /* an immediate */
	CG_HOME_UNIFORM, /* one for the launch: computed before the first row */
	CG_HOME_WEIGHT,  /* [cols], the same for all rows: made again in each level that uses it */
	CG_HOME_ROW,     /* one for the row */
	CG_HOME_ELEM,    /* one for each element (or group of elements) of the row */
};

struct cg_value {
	struct ir_value *ir;
	enum cg_home home;
	bool reduces;         /* ROW_* or GROUP_*: its result belongs to the next level */
	bool half;            /* kept as pairs of 16 bits, widened where used */
	unsigned ratio;       /* ELEM, WEIGHT: elements of the row for one of this value */
	unsigned n;           /* ELEM, WEIGHT: its elements in one vector of the row, at least 1 */
	unsigned level;       /* the first level in which it can be evaluated */
	uint32_t used;        /* bit l: level l reads it */
	unsigned first, last; /* level of the first and last use; first > last: none */
	bool summed;          /* LOAD_SUM: made in level 0 from the addends of all ranks */
	unsigned park;        /* wide.c: its first unit of a vector */

	/* state of the emitters: registers, by vector and element; kind PTX_NONE: not made yet */
	struct ptx_opnd *f; /* f32 (or predicates of a bool) */
	struct ptx_opnd *w; /* pairs, when half */
	uint32_t loc_line, loc_col;
};

struct cg_level {
	unsigned nrow; /* row reductions: they share one barrier of the CTA */
};

struct cg_rowprog {
	const struct ir_func *func;
	int64_t cols;         /* elements of a row */
	unsigned elems;       /* of a vector: 8, 4 or 2, from cols and the sizes of groups */
	unsigned nvec;        /* vectors of a row */
	struct cg_value *val; /* in the order of the IR */
	unsigned nval;
	struct cg_level level[CG_MAX_LEVELS];
	unsigned nlevel;
	unsigned max_nrow;  /* most row reductions of one level */
	bool own_rows;      /* the row domain is the rank's own rows */
	bool sums, gathers; /* has LOAD_SUM, STORE_ALL */
};

/* The analysis; NULL with E8xx diagnostics for a program that no protocol of ours can hold in
 * registers. */
struct cg_rowprog *cg_rowprog_new(const struct ir_func *f, struct arena *a, struct diags *d);

static inline struct cg_value *cg_value_of(const struct ir_value *v)
{
	return v->aux;
}

/* A load of rows: its registers are filled rows ahead. */
static inline bool cg_is_load(const struct ir_value *v)
{
	return v->op == IR_OP_LOAD_SUM || (v->op == IR_OP_LOAD && v->type.ndim == 2);
}

/* A load whose registers are the value, until its last use. */
static inline bool cg_in_slot(const struct cg_value *v)
{
	return cg_is_load(v->ir) && !v->summed;
}

/* The result is its operand's register. */
static inline bool cg_is_alias(const struct ir_value *v)
{
	return v->op == IR_OP_EXPAND || v->op == IR_OP_SLICE ||
	       (v->op == IR_OP_CAST && v->type.dtype == IR_F32);
}

/* An input that the kernel also stores, whose elements other threads have to have loaded before one
 * stores them anew. */
bool cg_shared_inout(const struct cg_rowprog *rp, const struct cg_value *v);

/* A load of a weight or a scalar in memory, which no row changes. */
static inline bool cg_is_constant(const struct ir_value *v)
{
	return v->op == IR_OP_LOAD && v->type.ndim < 2;
}

static inline bool cg_is_store(const struct ir_value *v)
{
	return v->op == IR_OP_STORE || v->op == IR_OP_STORE_ALL;
}

/* Vectors of one element of a value that has one for `ratio` elements of the row. */
static inline unsigned cg_lanes(unsigned elems, unsigned ratio)
{
	return ratio > elems ? ratio / elems : 1;
}

/* Do its lanes lie in one warp, whatever the thread's vector? */
static inline bool cg_in_warp(unsigned lanes)
{
	return lanes <= 32 && (lanes & (lanes - 1)) == 0;
}

/* 32-bit registers that one thread needs for the value's part of a row with `vecs` vectors. */
unsigned cg_value_regs(const struct cg_value *v, unsigned vecs);

/* The value's registers of one vector of the thread: words when half, else f32s or predicates. */
static inline struct ptx_opnd *cg_value_vec(const struct cg_value *v, unsigned vec)
{
	return v->half ? &v->w[vec * cg_value_regs(v, 1)] : &v->f[vec * v->n];
}

/* Values that stay in registers from level l to l + 1, prefetched ones aside. */
bool cg_value_held(const struct cg_value *v, unsigned l);

/* Bytes of one element in memory. */
unsigned cg_dtype_bytes(unsigned dtype);
