/*
 * The reference, elementwise operations: the value by its definition in f64 (and once rounded to
 * f32), the bounds by the operation at the ends of its operands' intervals, which is rigorous
 * because each is monotone in every operand there.  Of an operand that may be NaN the ends say
 * nothing: only min and max know better than "unknown".
 */
#include "ir/eval_priv.h"
#include <math.h>

#define INLINE static inline __attribute__((always_inline))

/* An operand's row with its stride: 0 broadcasts one element over the columns. */
struct arg {
	const struct ev_row *row;
	int64_t step;
};

static struct arg arg_of(struct ev *e, const struct ir_value *v, unsigned k, unsigned r)
{
	struct ev_slot *s = ev_src(e, v, k);

	return (struct arg){ev_src_row(e, v, k, r), s->cols == 1 ? 0 : 1};
}

static int64_t cols_of(const struct ir_value *v)
{
	return v->type.ndim ? v->type.cols : 1;
}

/* ---- one operand ---- */

typedef double fn1(double);

/*
 * Widens the correctly rounded ends by what ops.def grants an implementation.  Infinite ends stay:
 * they are poles, or e^a of an f32 a above ln(FLT_MAX), the least of which is 5 ulp above FLT_MAX.
 */
static struct ev_iv widen(const struct ev *e, const struct ir_value *v, struct ev_iv h)
{
	const struct ir_op_info *info = &ir_op_info[v->op];
	bool point = h.lo == h.hi;
	double lo = point ? ev_ulp32(h.lo) : fabs(h.lo) * 0x1p-23 + 0x1p-149;
	double hi = point ? lo : fabs(h.hi) * 0x1p-23 + 0x1p-149;

	if (!e->spec || (info->ulp == 0.0 && info->abs == 0.0) || isnan(h.lo))
		return h;
	if (isfinite(h.lo))
		h.lo = ev_f32(e, h.lo - info->ulp * lo - info->abs);
	if (isfinite(h.hi))
		h.hi = ev_f32(e, h.hi + info->ulp * hi + info->abs);
	return h;
}

static void map1(struct ev *e, const struct ir_value *v, fn1 *fn)
{
	const struct ir_op_info *info = &ir_op_info[v->op];
	bool fixed = !e->spec || (info->ulp == 0.0 && info->abs == 0.0);

	for (unsigned r = 0; r < ev_nrow(e, v); r++) {
		struct arg a = arg_of(e, v, 0, r);
		struct ev_row *o = ev_result(e, v, r);

		for (int64_t i = 0; i < cols_of(v); i++)
			o->v[i] = ev_f32(e, fn(a.row->v[i * a.step]));
		if (fixed && a.row->exact)
			continue;
		ev_inexact(e, v, r);
		for (int64_t i = 0; i < cols_of(v); i++) {
			double c[2] = {ev_f32(e, fn(a.row->lo[i * a.step])),
			               ev_f32(e, fn(a.row->hi[i * a.step]))};
			struct ev_iv h = widen(e, v, ev_hull(o->v[i], c, 2));

			if (ev_is_unknown(a.row->lo[i * a.step], a.row->hi[i * a.step]))
				h = ev_unknown();
			o->lo[i] = h.lo;
			o->hi[i] = h.hi;
		}
	}
}

static double neg(double a)
{
	return -a;
}

static double rsqrt(double a)
{
	return 1.0 / sqrt(a);
}

static double sigmoid(double a)
{
	return 1.0 / (1.0 + exp(-a));
}

/* clang-format off */
void eval_NEG(struct ev *e, const struct ir_value *v)     { map1(e, v, neg); }
void eval_EXP(struct ev *e, const struct ir_value *v)     { map1(e, v, exp); }
void eval_LOG(struct ev *e, const struct ir_value *v)     { map1(e, v, log); }
void eval_SQRT(struct ev *e, const struct ir_value *v)    { map1(e, v, sqrt); }
void eval_RSQRT(struct ev *e, const struct ir_value *v)   { map1(e, v, rsqrt); }
void eval_TANH(struct ev *e, const struct ir_value *v)    { map1(e, v, tanh); }
void eval_SIGMOID(struct ev *e, const struct ir_value *v) { map1(e, v, sigmoid); }
/* clang-format on */

/* |a| falls, then rises: the least is 0 where the interval holds 0. */
void eval_ABS(struct ev *e, const struct ir_value *v)
{
	map1(e, v, fabs);
	for (unsigned r = 0; r < ev_nrow(e, v); r++) {
		struct arg a = arg_of(e, v, 0, r);
		struct ev_row *o = &e->frame->slot[v->id].row[r];

		for (int64_t i = 0; i < cols_of(v) && !o->exact; i++)
			if (a.row->lo[i * a.step] < 0.0 && a.row->hi[i * a.step] > 0.0 &&
			    o->lo[i] > 0.0)
				o->lo[i] = 0.0;
	}
}

void eval_CAST(struct ev *e, const struct ir_value *v)
{
	enum ir_dtype t = (enum ir_dtype)v->type.dtype;

	for (unsigned r = 0; r < ev_nrow(e, v); r++) {
		struct arg a = arg_of(e, v, 0, r);
		struct ev_row *o = ev_result(e, v, r);

		for (int64_t i = 0; i < cols_of(v); i++)
			o->v[i] =
			        e->spec ? ir_round(t, a.row->v[i * a.step]) : a.row->v[i * a.step];
		if (a.row->exact)
			continue;
		ev_inexact(e, v, r);
		for (int64_t i = 0; i < cols_of(v); i++) {
			double c[2] = {a.row->lo[i * a.step], a.row->hi[i * a.step]};
			bool unknown = ev_is_unknown(c[0], c[1]);
			struct ev_iv h;

			for (unsigned k = 0; k < 2 && e->spec; k++)
				c[k] = ir_round(t, c[k]);
			h = unknown ? ev_unknown() : ev_hull(o->v[i], c, 2);
			o->lo[i] = h.lo;
			o->hi[i] = h.hi;
		}
	}
}

/* ---- two operands ---- */

typedef double fn2(double, double);

enum rule {
	PLAIN,
	POLE, /* at b = 0 */
	PICK, /* one of the operands, a number if either is */
};

INLINE bool undecided(enum rule rule, double alo, double ahi, double blo, double bhi)
{
	if (rule == PICK)
		return false;
	if (rule == POLE && blo <= 0.0 && bhi >= 0.0 && blo < bhi)
		return true;
	return ev_is_unknown(alo, ahi) || ev_is_unknown(blo, bhi);
}

/* fn is monotone in each operand, so its extremes are at the corners. */
INLINE void map2(struct ev *e, const struct ir_value *v, fn2 *fn, enum rule rule)
{
	int64_t n = cols_of(v);

	for (unsigned r = 0; r < ev_nrow(e, v); r++) {
		struct arg a = arg_of(e, v, 0, r), b = arg_of(e, v, 1, r);
		struct ev_row *o = ev_result(e, v, r);

		for (int64_t i = 0; i < n; i++)
			o->v[i] = ev_f32(e, fn(a.row->v[i * a.step], b.row->v[i * b.step]));
		if (a.row->exact && b.row->exact)
			continue;
		ev_inexact(e, v, r);
		for (int64_t i = 0; i < n; i++) {
			int64_t k = i * a.step, j = i * b.step;
			double c[4] = {ev_f32(e, fn(a.row->lo[k], b.row->lo[j])),
			               ev_f32(e, fn(a.row->lo[k], b.row->hi[j])),
			               ev_f32(e, fn(a.row->hi[k], b.row->lo[j])),
			               ev_f32(e, fn(a.row->hi[k], b.row->hi[j]))};
			struct ev_iv h = ev_hull(o->v[i], c, 4);

			if (undecided(rule, a.row->lo[k], a.row->hi[k], b.row->lo[j], b.row->hi[j]))
				h = ev_unknown();
			o->lo[i] = h.lo;
			o->hi[i] = h.hi;
		}
	}
}

/* clang-format off */
INLINE double add(double a, double b) { return a + b; }
INLINE double sub(double a, double b) { return a - b; }
INLINE double mul(double a, double b) { return a * b; }
INLINE double quo(double a, double b) { return a / b; }

void eval_ADD(struct ev *e, const struct ir_value *v) { map2(e, v, add, PLAIN); }
void eval_SUB(struct ev *e, const struct ir_value *v) { map2(e, v, sub, PLAIN); }
void eval_MUL(struct ev *e, const struct ir_value *v) { map2(e, v, mul, PLAIN); }
void eval_DIV(struct ev *e, const struct ir_value *v) { map2(e, v, quo, POLE); }
void eval_MIN(struct ev *e, const struct ir_value *v) { map2(e, v, fmin, PICK); }
void eval_MAX(struct ev *e, const struct ir_value *v) { map2(e, v, fmax, PICK); }
/* clang-format on */

/* ---- comparisons ---- */

/* What is known of a relation: it holds, it does not, or that depends on the implementation. */
enum truth { NO, YES, MAYBE };

static enum truth less(double alo, double ahi, double blo, double bhi)
{
	if (ev_is_unknown(alo, ahi) || ev_is_unknown(blo, bhi))
		return MAYBE;
	if (ahi < blo)
		return YES;
	return alo >= bhi || isnan(alo) || isnan(blo) ? NO : MAYBE;
}

static enum truth less_equal(double alo, double ahi, double blo, double bhi)
{
	if (ev_is_unknown(alo, ahi) || ev_is_unknown(blo, bhi))
		return MAYBE;
	if (ahi <= blo)
		return YES;
	return alo > bhi || isnan(alo) || isnan(blo) ? NO : MAYBE;
}

static enum truth greater(double alo, double ahi, double blo, double bhi)
{
	return less(blo, bhi, alo, ahi);
}

static enum truth greater_equal(double alo, double ahi, double blo, double bhi)
{
	return less_equal(blo, bhi, alo, ahi);
}

static enum truth equal(double alo, double ahi, double blo, double bhi)
{
	if (ev_is_unknown(alo, ahi) || ev_is_unknown(blo, bhi))
		return MAYBE;
	if (alo == ahi && blo == bhi && alo == blo)
		return YES;
	return ahi < blo || alo > bhi || isnan(alo) || isnan(blo) ? NO : MAYBE;
}

static enum truth not_equal(double alo, double ahi, double blo, double bhi)
{
	enum truth t = equal(alo, ahi, blo, bhi);

	return t == MAYBE ? MAYBE : t == YES ? NO : YES;
}

typedef enum truth relation(double, double, double, double);

static void compare(struct ev *e, const struct ir_value *v, relation *rel)
{
	for (unsigned r = 0; r < ev_nrow(e, v); r++) {
		struct arg a = arg_of(e, v, 0, r), b = arg_of(e, v, 1, r);
		struct ev_row *o = ev_result(e, v, r);
		bool exact = a.row->exact && b.row->exact;

		if (!exact)
			ev_inexact(e, v, r);
		for (int64_t i = 0; i < cols_of(v); i++) {
			int64_t k = i * a.step, j = i * b.step;
			double x = a.row->v[k], y = b.row->v[j];
			enum truth t;

			o->v[i] = rel(x, x, y, y) == YES;
			if (exact)
				continue;
			t = rel(a.row->lo[k], a.row->hi[k], b.row->lo[j], b.row->hi[j]);
			o->lo[i] = t == YES;
			o->hi[i] = t != NO;
		}
	}
}

/* clang-format off */
void eval_LT(struct ev *e, const struct ir_value *v) { compare(e, v, less); }
void eval_LE(struct ev *e, const struct ir_value *v) { compare(e, v, less_equal); }
void eval_GT(struct ev *e, const struct ir_value *v) { compare(e, v, greater); }
void eval_GE(struct ev *e, const struct ir_value *v) { compare(e, v, greater_equal); }
void eval_EQ(struct ev *e, const struct ir_value *v) { compare(e, v, equal); }
void eval_NE(struct ev *e, const struct ir_value *v) { compare(e, v, not_equal); }
/* clang-format on */

/* ---- three operands ---- */

/* Three operands of row r, and the result's row: with bounds where not all operands are exact. */
struct three {
	struct arg x[3];
	struct ev_row *o;
	bool exact;
};

static struct three three_of(struct ev *e, const struct ir_value *v, unsigned r)
{
	struct three t = {.exact = true};

	for (unsigned k = 0; k < 3; k++) {
		t.x[k] = arg_of(e, v, k, r);
		t.exact &= t.x[k].row->exact;
	}
	t.o = ev_result(e, v, r);
	if (!t.exact)
		ev_inexact(e, v, r);
	return t;
}

void eval_SELECT(struct ev *e, const struct ir_value *v)
{
	for (unsigned r = 0; r < ev_nrow(e, v); r++) {
		struct three t = three_of(e, v, r);
		struct arg p = t.x[0], a = t.x[1], b = t.x[2];

		for (int64_t i = 0; i < cols_of(v); i++) {
			int64_t c = i * p.step, k = i * a.step, j = i * b.step;
			double end[4] = {a.row->lo[k], a.row->hi[k], b.row->lo[j], b.row->hi[j]};
			bool yes = p.row->lo[c] != 0.0, no = p.row->hi[c] == 0.0;
			struct ev_iv h;

			t.o->v[i] = p.row->v[c] != 0.0 ? a.row->v[k] : b.row->v[j];
			if (t.exact)
				continue;
			h = ev_hull(t.o->v[i], yes ? end : no ? end + 2 : end, yes || no ? 2 : 4);
			t.o->lo[i] = h.lo;
			t.o->hi[i] = h.hi;
		}
	}
}

/* Rounded once: fmaf on f32 operands; the ends are f32 as well (every result of spec mode is). */
static double fused(const struct ev *e, double a, double b, double c)
{
	return e->spec ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
}

void eval_FMA(struct ev *e, const struct ir_value *v)
{
	for (unsigned r = 0; r < ev_nrow(e, v); r++) {
		struct three t = three_of(e, v, r);
		struct arg a = t.x[0], b = t.x[1], c = t.x[2];

		for (int64_t i = 0; i < cols_of(v); i++) {
			int64_t k = i * a.step, j = i * b.step, l = i * c.step;
			double end[8];
			struct ev_iv h;

			t.o->v[i] = fused(e, a.row->v[k], b.row->v[j], c.row->v[l]);
			if (t.exact)
				continue;
			for (unsigned m = 0; m < 8; m++)
				end[m] = fused(e, m & 1 ? a.row->hi[k] : a.row->lo[k],
				               m & 2 ? b.row->hi[j] : b.row->lo[j],
				               m & 4 ? c.row->hi[l] : c.row->lo[l]);
			h = ev_hull(t.o->v[i], end, 8);
			if (ev_is_unknown(a.row->lo[k], a.row->hi[k]) ||
			    ev_is_unknown(b.row->lo[j], b.row->hi[j]) ||
			    ev_is_unknown(c.row->lo[l], c.row->hi[l]))
				h = ev_unknown();
			t.o->lo[i] = h.lo;
			t.o->hi[i] = h.hi;
		}
	}
}
