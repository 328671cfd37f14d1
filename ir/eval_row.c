/*
 * The reference, reductions of rows and groups.  The sum itself is made in f64; an implementation
 * adds in f32 in any tree in which no addend passes through more than ir_reduction_depth()
 * additions, each off by at most 2^-24 of its result, so it is within ((1 + 2^-24)^depth - 1) * sum
 * |x| of the exact sum (Higham, Accuracy and Stability, 4.2).
 */
#include "ir/eval_priv.h"
#include <math.h>

struct total {
	double s, lo, hi; /* sums of the values and of the ends */
	double mag;       /* sum of the largest magnitudes */
	double up, down;  /* the most that addends above and below 0 come to */
};

static double larger(double a, double b)
{
	return fabs(a) > fabs(b) ? fabs(a) : fabs(b);
}

static void add(struct total *t, double v, double lo, double hi)
{
	t->s += v;
	t->lo += lo;
	t->hi += hi;
	t->mag += larger(lo, hi);
	t->up += hi > 0.0 ? hi : 0.0;
	t->down -= lo < 0.0 ? lo : 0.0;
}

static struct total sum(const struct ev_row *x, int64_t at, int64_t n)
{
	struct total t = {0};

	for (int64_t i = at; i < at + n; i++)
		add(&t, x->v[i], x->lo[i], x->hi[i]);
	return t;
}

static struct total dot(const struct ev_row *x, int64_t xstep, const struct ev_row *y,
                        int64_t ystep, int64_t n)
{
	struct total t = {0};

	for (int64_t i = 0; i < n; i++) {
		int64_t k = i * xstep, j = i * ystep;
		double c[4] = {x->lo[k] * y->lo[j], x->lo[k] * y->hi[j], x->hi[k] * y->lo[j],
		               x->hi[k] * y->hi[j]};
		double p = x->v[k] * y->v[j];
		struct ev_iv h = ev_hull(p, c, 4);

		if (ev_is_unknown(x->lo[k], x->hi[k]) || ev_is_unknown(y->lo[j], y->hi[j]))
			h = ev_unknown();
		add(&t, p, h.lo, h.hi);
	}
	return t;
}

/*
 * Element j of the result from a total over n addends, times `scale` (1 for a sum), each step
 * rounded.  `first` counts the rounding of a product that is added by fma; `exact`: the addends'
 * bits are fixed.
 */
static void finish(struct ev *e, struct ev_row *o, int64_t j, struct total t, int64_t n,
                   unsigned first, double scale, bool exact)
{
	double du = (n > 1 ? ir_reduction_depth(n) + first : 0) * 0x1p-24;
	double slack = t.mag * (du / (1.0 - du) + (double)n * 0x1p-50);
	double c[2];
	struct ev_iv h;

	o->v[j] = ev_f32(e, ev_f32(e, t.s) * scale);
	if (e->spec && t.mag == 0.0) { /* which zero depends on what the sum begins with */
		o->lo[j] = -0.0;
		o->hi[j] = 0.0;
		return;
	}
	if (!e->spec ||
	    (exact && (n == 1 || (!isfinite(t.mag) && !ev_overflows(t.up, t.down, true))))) {
		o->lo[j] = o->hi[j] = o->v[j];
		return;
	}
	slack += first && n > 1 ? (double)n * 0x1p-149 : 0.0;
	c[0] = ev_f32(e, ev_f32(e, t.lo - slack) * scale);
	c[1] = ev_f32(e, ev_f32(e, t.hi + slack) * scale);
	h = n > 1 && ev_overflows(t.up, t.down, exact) ? ev_unknown() : ev_hull(o->v[j], c, 2);
	o->lo[j] = h.lo;
	o->hi[j] = h.hi;
}

static void sums(struct ev *e, const struct ir_value *v, int64_t n, double scale)
{
	for (unsigned r = 0; r < ev_nrow(e, v); r++) {
		const struct ev_row *x = ev_src_row(e, v, 0, r);
		struct ev_row *o = ev_result(e, v, r);

		if (e->spec)
			ev_inexact(e, v, r);
		for (int64_t j = 0; j < v->type.cols; j++)
			finish(e, o, j, sum(x, j * n, n), n, 0, scale, x->exact);
	}
}

static double inverse(const struct ev *e, int64_t n)
{
	return ev_f32(e, 1.0 / (double)n);
}

static int64_t width(const struct ir_value *v)
{
	return v->src[0]->type.ndim ? v->src[0]->type.cols : 1;
}

void eval_ROW_SUM(struct ev *e, const struct ir_value *v)
{
	sums(e, v, width(v), 1.0);
}

void eval_ROW_MEAN(struct ev *e, const struct ir_value *v)
{
	sums(e, v, width(v), inverse(e, width(v)));
}

void eval_GROUP_SUM(struct ev *e, const struct ir_value *v)
{
	sums(e, v, v->n, 1.0);
}

void eval_GROUP_MEAN(struct ev *e, const struct ir_value *v)
{
	sums(e, v, v->n, inverse(e, v->n));
}

void eval_ROW_DOT(struct ev *e, const struct ir_value *v)
{
	int64_t xn = ev_src(e, v, 0)->cols, yn = ev_src(e, v, 1)->cols, n = xn > yn ? xn : yn;

	for (unsigned r = 0; r < ev_nrow(e, v); r++) {
		const struct ev_row *x = ev_src_row(e, v, 0, r), *y = ev_src_row(e, v, 1, r);
		struct ev_row *o = ev_result(e, v, r);

		if (e->spec)
			ev_inexact(e, v, r);
		finish(e, o, 0, dot(x, xn == 1 ? 0 : 1, y, yn == 1 ? 0 : 1, n), n, 1, 1.0,
		       x->exact && y->exact);
	}
}

/* ---- largest and smallest: exact, NaN passed over (as ops.def says of MIN and MAX) ---- */

typedef double pick(double, double);

static void extremes(struct ev *e, const struct ir_value *v, int64_t n, pick *fn)
{
	for (unsigned r = 0; r < ev_nrow(e, v); r++) {
		const struct ev_row *x = ev_src_row(e, v, 0, r);
		struct ev_row *o = ev_result(e, v, r);

		if (!x->exact)
			ev_inexact(e, v, r);
		for (int64_t j = 0; j < v->type.cols; j++) {
			int64_t at = j * n;
			double s = x->v[at], c[2] = {x->lo[at], x->hi[at]};
			struct ev_iv h;

			for (int64_t i = at + 1; i < at + n; i++) {
				s = fn(s, x->v[i]);
				c[0] = fn(c[0], x->lo[i]);
				c[1] = fn(c[1], x->hi[i]);
			}
			o->v[j] = s;
			h = ev_hull(s, c, 2);
			o->lo[j] = h.lo;
			o->hi[j] = h.hi;
		}
	}
}

/* clang-format off */
void eval_ROW_MAX(struct ev *e, const struct ir_value *v)   { extremes(e, v, width(v), fmax); }
void eval_ROW_MIN(struct ev *e, const struct ir_value *v)   { extremes(e, v, width(v), fmin); }
void eval_GROUP_MAX(struct ev *e, const struct ir_value *v) { extremes(e, v, v->n, fmax); }
void eval_GROUP_MIN(struct ev *e, const struct ir_value *v) { extremes(e, v, v->n, fmin); }
/* clang-format on */

void eval_EXPAND(struct ev *e, const struct ir_value *v)
{
	for (unsigned r = 0; r < ev_nrow(e, v); r++) {
		const struct ev_row *x = ev_src_row(e, v, 0, r);
		struct ev_row *o = ev_result(e, v, r);

		if (!x->exact)
			ev_inexact(e, v, r);
		for (int64_t i = 0; i < v->type.cols; i++) {
			o->v[i] = x->v[i / v->n];
			if (x->exact)
				continue;
			o->lo[i] = x->lo[i / v->n];
			o->hi[i] = x->hi[i / v->n];
		}
	}
}
