/*
 * The reference, collectives.  Gathers and slices move rows, which this evaluator never splits; a
 * sum over ranks is made column by column in the way the options ask for.
 */
#include "ir/eval_priv.h"
#include <math.h>
#include <string.h>

/* ---- the exact sum of up to IR_MAX_TP numbers ---- */

static double two_sum(double a, double b, double *err)
{
	double s = a + b, t = s - a;

	*err = (a - (s - t)) + (b - t);
	return s;
}

/* s + rest, where rest != 0 is under one unit of s, rounded to odd: rounding that again to fewer
 * bits rounds once. */
static double to_odd(double s, double rest)
{
	uint64_t b;

	memcpy(&b, &s, sizeof b);
	if (rest == 0.0 || b & 1)
		return s;
	return nextafter(s, rest > 0.0 ? (double)INFINITY : -(double)INFINITY);
}

/* The exact sum as an f64 rounded to odd, by Shewchuk's expansions (Adaptive Precision, 1997,
 * section 2.4). */
static double exact_sum(const double *x, unsigned n)
{
	double part[IR_MAX_TP], s, rest = 0.0;
	unsigned m = 0;

	for (unsigned i = 0; i < n; i++) {
		double q = x[i];
		unsigned k = 0;

		for (unsigned j = 0; j < m; j++) {
			double err;

			q = two_sum(q, part[j], &err);
			if (err != 0.0)
				part[k++] = err;
		}
		part[k++] = q;
		m = k;
	}
	s = part[m - 1];
	for (unsigned j = m - 1; j-- > 0;) {
		double err;

		s = two_sum(s, part[j], &err);
		if (err != 0.0) {
			rest = err; /* what is below cannot change its sign */
			break;
		}
	}
	return to_odd(s, rest);
}

/* The largest power of two that divides x (a finite f32, not 0). */
static double low_bit(double x)
{
	const uint64_t hidden = (uint64_t)1 << 52;
	uint64_t b;

	/* a subnormal f32 is a normal f64, and so is the power that is looked for */
	memcpy(&b, &x, sizeof b);
	b = (b & INT64_MAX & ~(hidden - 1)) -
	    ((uint64_t)(52 - __builtin_ctzll((b & (hidden - 1)) | hidden)) << 52);
	memcpy(&x, &b, sizeof x);
	return x;
}

/* How far the f32 sum of x in any order may be from the exact one: 0 if every partial sum is a
 * multiple that f32 holds. */
static double order_error(const double *x, unsigned n)
{
	double mag = 0.0, low = (double)INFINITY;

	for (unsigned i = 0; i < n; i++) {
		if (x[i] == 0.0)
			continue;
		mag += fabs(x[i]);
		low = fmin(low, low_bit(x[i]));
	}
	return mag <= low * 0x1p24 ? 0.0 : mag * ((double)(n - 1) * 0x1p-24 * (1.0 + 0x1p-18));
}

/* ---- one column ---- */

static double in_order(const double *x, unsigned n)
{
	float s = 0.0f;

	for (unsigned r = 0; r < n; r++)
		s += (float)x[r];
	return (double)s;
}

static bool all_finite(const double *x, unsigned n)
{
	double s = 0.0;

	for (unsigned r = 0; r < n; r++)
		s += x[r];
	return isfinite(s);
}

static double plain(const double *x, unsigned n)
{
	double s = x[0];

	for (unsigned r = 1; r < n; r++)
		s += x[r];
	return s;
}

/* The sum of x as options ask, before it is rounded to the result's dtype; as a value that rounds
 * correctly. */
static double total(const struct ev *e, const double *x)
{
	unsigned n = e->o->tp;
	double s;

	if (!e->spec || !all_finite(x, n))
		return plain(x, n);
	s = e->o->sum == IR_SUM_RANK_ORDER ? in_order(x, n) : exact_sum(x, n);
	return s == 0.0 ? 0.0 : s;
}

/* All addends of column c may be -0, and no +0 is added to them. */
static bool negative_zero(const struct ev *e, const struct ev_row *const *x, int64_t c)
{
	if (!e->spec || !e->o->in_switch)
		return false;
	for (unsigned r = 0; r < e->o->tp; r++) {
		double low = x[r]->exact ? x[r]->v[c] : x[r]->lo[c];

		if (!signbit(low) || (x[r]->exact && low != 0.0))
			return false;
	}
	return true;
}

/* The lowest (or highest) conforming result where the addends x are at most (at least) these, and
 * their sum is s. */
static double extreme(const struct ev *e, enum ir_dtype t, const double *x, double s, bool up)
{
	double w;

	if (!e->spec)
		return s;
	if (e->o->sum != IR_SUM_FAITHFUL || !isfinite(s))
		return ir_round(t, s);
	w = order_error(x, e->o->tp);
	return ev_round_dir(t, up ? s + w : s - w, up);
}

/* Column c of the sum, with its bounds when `end` is not NULL. */
static double sum_column(const struct ev *e, enum ir_dtype t, const struct ev_row *const *x,
                         int64_t c, bool exact, double *end)
{
	double col[IR_MAX_TP], s, above = 0.0, below = 0.0;

	for (unsigned r = 0; r < e->o->tp; r++) {
		col[r] = x[r]->v[c];
		above += x[r]->hi[c] > 0.0 ? x[r]->hi[c] : 0.0;
		below -= x[r]->lo[c] < 0.0 ? x[r]->lo[c] : 0.0;
	}
	s = total(e, col);
	for (unsigned up = 0; end && up < 2; up++) {
		for (unsigned r = 0; !exact && r < e->o->tp; r++)
			col[r] = up ? x[r]->hi[c] : x[r]->lo[c];
		end[up] = extreme(e, t, col, exact ? s : total(e, col), up);
	}
	if (end && e->spec && e->o->sum == IR_SUM_FAITHFUL && ev_overflows(above, below, exact)) {
		end[0] = ev_unknown().lo;
		end[1] = ev_unknown().hi;
	}
	if (end && end[0] == 0.0 && negative_zero(e, x, c))
		end[0] = -0.0;
	return e->spec ? ir_round(t, s) : s;
}

static void sum_ranks(struct ev *e, const struct ir_value *v, const struct ev_row *const *x)
{
	enum ir_dtype t = (enum ir_dtype)v->type.dtype;
	struct ev_row *o = ev_result(e, v, 0);
	bool exact = true, bounds;

	for (unsigned r = 0; r < e->o->tp; r++)
		exact &= x[r]->exact;
	bounds = !exact || (e->spec && e->o->sum == IR_SUM_FAITHFUL);
	for (int64_t c = 0; !bounds && c < v->type.cols; c++)
		bounds = negative_zero(e, x, c);
	if (bounds)
		ev_inexact(e, v, 0);
	for (int64_t c = 0; c < v->type.cols; c++) {
		double end[2];
		struct ev_iv h;

		o->v[c] = sum_column(e, t, x, c, exact, bounds ? end : NULL);
		if (!bounds)
			continue;
		h = ev_hull(o->v[c], end, 2);
		o->lo[c] = h.lo;
		o->hi[c] = h.hi;
	}
}

static void sum_operand(struct ev *e, const struct ir_value *v)
{
	const struct ev_row *x[IR_MAX_TP];

	for (unsigned r = 0; r < e->o->tp; r++)
		x[r] = ev_src_row(e, v, 0, r);
	sum_ranks(e, v, x);
}

void eval_ALL_REDUCE(struct ev *e, const struct ir_value *v)
{
	sum_operand(e, v);
}

void eval_REDUCE_SCATTER(struct ev *e, const struct ir_value *v)
{
	sum_operand(e, v);
}

/* The parameter's rows and the sum in one: the addends are read where they lie. */
void eval_LOAD_SUM(struct ev *e, const struct ir_value *v)
{
	struct ev_row row[IR_MAX_TP];
	const struct ev_row *x[IR_MAX_TP];

	for (unsigned r = 0; r < e->o->tp; r++) {
		ev_read(e, v, r, e->t, 1 + r, &row[r]);
		x[r] = &row[r];
	}
	sum_ranks(e, v, x);
}

static void same(struct ev *e, const struct ir_value *v)
{
	e->frame->slot[v->id] = *ev_src(e, v, 0);
}

void eval_ALL_GATHER(struct ev *e, const struct ir_value *v)
{
	same(e, v);
}

void eval_SLICE(struct ev *e, const struct ir_value *v)
{
	same(e, v);
}
