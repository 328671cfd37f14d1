/*
 * Inside the reference (eval*.c).  A tensor is evaluated row by row: every operation but a
 * collective is row-local, and a collective needs the same row of each rank, so a row's values are
 * all that is ever held.
 */
#pragma once
#include "ir/eval.h"
#include <math.h>

/*
 * One row of a value, on one rank: any conforming implementation's element i lies in [lo[i],
 * hi[i]], and v[i] is the reference's.  lo = hi = v means that the bits are fixed.  [-inf, inf]
 * means that nothing is known, not even that it is a number; lo = hi = v = NaN means that it must
 * be NaN.
 */
struct ev_row {
	double *v, *lo, *hi;
	bool exact; /* lo and hi are v */
};

/* A value's rows: tp of them for a partial, else one, which is that of whichever rank has the row.
 */
struct ev_slot {
	struct ev_row *row;
	double **own; /* 3 buffers of `cols` a row, made at the first use */
	unsigned nrow;
	int64_t cols;
};

struct ev_frame {
	const struct ir_func *f;
	struct ev_slot *slot;    /* by value id */
	struct ev_frame **child; /* by the id of a CALL */
	struct ev_slot **arg;    /* a fn's parameters; NULL in a kernel */
};

struct ev {
	const struct ir_eval_options *o;
	const struct ir_buffer *in;
	struct ir_buffer *out;
	struct arena *a;
	struct ev_frame *frame;
	int64_t t;      /* the row; -1 while values without rows are evaluated */
	unsigned owner; /* the rank that owns it */
	int64_t local;  /* its index among the owner's rows */
	bool spec;      /* IR_EVAL_SPEC */
};

#define IR_OP(ID, ...) void eval_##ID(struct ev *e, const struct ir_value *v);
#include "ir/ops.def"

/*
 * Row i of parameter v->param in `rank`'s buffer, with the bounds given there.  k: which of v's
 * rows this is, for the bounds need memory; below tp + 1.
 */
void ev_read(struct ev *e, const struct ir_value *v, unsigned rank, int64_t i, unsigned k,
             struct ev_row *row);

/* The slot of operand k of v; its row on rank r. */
struct ev_slot *ev_src(struct ev *e, const struct ir_value *v, unsigned k);
struct ev_row *ev_src_row(struct ev *e, const struct ir_value *v, unsigned k, unsigned r);

/* Buffers for row r of v's result; exact until ev_inexact() gives it bounds of its own. */
struct ev_row *ev_result(struct ev *e, const struct ir_value *v, unsigned r);
void ev_inexact(struct ev *e, const struct ir_value *v, unsigned r);
unsigned ev_nrow(const struct ev *e, const struct ir_value *v); /* 1, or tp for a partial */

/* f32 in spec mode, itself in real mode. */
static inline double ev_f32(const struct ev *e, double x)
{
	return e->spec ? (double)(float)x : x;
}

struct ev_iv {
	double lo, hi;
};

/* Nothing is known, not even that it is a number (see struct ev_row). */
static inline struct ev_iv ev_unknown(void)
{
	return (struct ev_iv){-(double)INFINITY, (double)INFINITY};
}

static inline bool ev_is_unknown(double lo, double hi)
{
	return lo < hi && isinf(lo) && isinf(hi);
}

/*
 * May an f32 sum overflow on the way, so that its value (or whether it is a number) depends on the
 * order of additions?  up and down: the most that addends above and below 0 come to.  A sum of one
 * sign overflows in every order or in none.  The limit leaves room for the roundings.  An infinite
 * addend of exact ones decides the sum, unless the others may overflow against it.
 */
static inline bool ev_overflows(double up, double down, bool exact)
{
	if (exact && (isinf(up) || isinf(down)))
		return isinf(up) != isinf(down) && up > 0x1.fffp127 && down > 0x1.fffp127;
	return up > 0.0 && down > 0.0 && up + down > 0x1.fffp127;
}

/* The interval of results whose values at the ends are c[0..n), around v (see struct ev_row for
 * NaN). */
struct ev_iv ev_hull(double v, const double *c, unsigned n);

/* The neighbour of v in dtype t at or beyond it; one unit in the last place of an f32. */
double ev_round_dir(enum ir_dtype t, double v, bool up);
double ev_ulp32(double v);
