/*
 * The reference: what a function means on tp virtual ranks, in f64 or in the spec's own roundings,
 * with a bound on how far a conforming implementation may be from it.  Written against ops.def
 * alone: shares no arithmetic with codegen or sim.
 */
#pragma once
#include "ir/ir.h"
#include "support/status.h"

enum ir_eval_mode {
	IR_EVAL_REAL, /* real arithmetic (f64), no rounding anywhere, err = 0 */
	IR_EVAL_SPEC, /* f32 arithmetic and the spec's roundings */
};

/* How a sum over ranks is rounded (design.md section 3). */
enum ir_sum {
	IR_SUM_RANK_ORDER, /* f32 in order of ranks, then to nearest even: the bits are fixed */
	IR_SUM_EXACT,      /* the exact sum to nearest even: the bits are fixed */
	IR_SUM_FAITHFUL,   /* f32 in any order, or exact, then to either neighbour: v is the nearest
	                      of the exact sum */
};

/*
 * What a bound says of a conforming implementation's value g, against the reference's v:
 *	err = 0         g is v: the same bits, but for the sign of a zero, and any NaN for a NaN
 *	err > 0         |g - v| <= err, so g is a number; v is one
 *	err = INFINITY  nothing is known: any g, a NaN included (inf - inf within the bounds, a pole,
 *	                an overflow that depends on the order of additions)
 *	err = -1        not written
 *
 * err is never NaN.  ir_conforms() is this rule.
 */
bool ir_conforms(double g, double v, double err);

/*
 * One parameter's contents on one rank.  rows x cols values, row by row; a scalar is 1 x 1, [cols]
 * is 1 x cols. partial, replicated and carried: rows = T (of a carried one in row-owned form,
 * IR_ROWS_OWN, only own rows are defined); sharded: rows = own rows, indexed locally.
 *
 * Carried with all rows (IR_ROWS_ALL) is alike on all ranks, unless the kernel has
 * `allow rank_divergence`: then ranks may differ, the reference's value is rank 0's, and the bounds
 * hold for every rank.
 */
struct ir_buffer {
	int64_t rows, cols;
	double *v;   /* values, exact in the parameter's dtype on input */
	double *err; /* |implementation - v| <= err is conforming; NULL on input: 0 */
};

struct ir_eval_options {
	unsigned tp;  /* 1..IR_MAX_TP */
	int64_t rows; /* T >= 0 */
	enum ir_eval_mode mode;
	enum ir_sum sum;
	enum ir_rows carried; /* what buffers of carried parameters hold, in and out */
	bool in_switch; /* a sum over ranks of nothing but -0 is of either sign; else, as one that
	                         begins at +0, it is +0 */
};

/* Rows [*begin, *end) that rank r of tp owns among T (design.md section 3). */
void ir_own_rows(int64_t T, unsigned tp, unsigned r, int64_t *begin, int64_t *end);

/*
 * Evaluates f.  in[p * tp + r] is parameter p on rank r (OUT parameters: ignored).  out[p * tp + r]
 * of every OUT and INOUT parameter is allocated in `a` and filled: all rows for replicated, local
 * rows for sharded, for carried own rows' positions (other rows: err = -1, "not written") or all
 * rows, as the options say.  Ranks share arrays where they cannot differ: read only.  Works on
 * every form of the IR (before any pass and after each; the options must suit the form that pass
 * `place` chose).  ST_INPUT with a diagnostic when a buffer has the wrong extent or one that is the
 * same on every rank differs; ST_USAGE when the options are out of range.
 */
enum status ir_eval(const struct ir_func *f, const struct ir_eval_options *o,
                    const struct ir_buffer *in, struct ir_buffer *out, struct arena *a,
                    struct diags *d);

/* v rounded to nearest even in dtype t (saturation and NaN as the OCP and IEEE formats say). */
double ir_round(enum ir_dtype t, double v);

/* The bits of v (exact in t), and back; low bits of the result.  NaN is the canonical one. */
uint32_t ir_encode(enum ir_dtype t, double v);
double ir_decode(enum ir_dtype t, uint32_t bits);
