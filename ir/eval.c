/*
 * The reference: runs a function over the rows of its parameters (eval_priv.h), sources and sinks.
 * Elementwise work is in eval_elem.c, row and group reductions in eval_row.c, collectives in
 * eval_coll.c, number formats in eval_num.c.
 */
#include "ir/eval_priv.h"
#include <math.h>
#include <string.h>

typedef void eval_fn(struct ev *e, const struct ir_value *v);

static eval_fn *const table[IR_NOPS] = {
#define IR_OP(ID, ...) [IR_OP_##ID] = eval_##ID,
#include "ir/ops.def"
};

void ir_own_rows(int64_t T, unsigned tp, unsigned r, int64_t *begin, int64_t *end)
{
	int64_t c = (T + tp - 1) / tp, b = (int64_t)r * c, n = b + c;

	*begin = b < T ? b : T;
	*end = n < T ? n : T;
}

bool ir_conforms(double g, double v, double err)
{
	if (isinf(err) || (isnan(v) && isnan(g)))
		return true;
	if (err == 0.0 || isinf(v) || isinf(g))
		return g == v;
	return fabs(g - v) <= err;
}

/* ---- slots ---- */

unsigned ev_nrow(const struct ev *e, const struct ir_value *v)
{
	return v->type.ndim == 2 && v->type.place == IR_PARTIAL ? e->o->tp : 1;
}

static struct ev_slot *slot_of(struct ev *e, const struct ir_value *v)
{
	struct ev_slot *s = &e->frame->slot[v->id];

	if (!s->row) {
		s->nrow = ev_nrow(e, v);
		s->cols = v->type.ndim ? v->type.cols : 1;
		s->row = arena_news(e->a, struct ev_row, s->nrow);
		s->own = arena_news(e->a, double *, 3 * ((size_t)e->o->tp + 1));
	}
	return s;
}

static double *buffer(struct ev *e, struct ev_slot *s, unsigned k)
{
	if (!s->own[k])
		s->own[k] = arena_news(e->a, double, (size_t)s->cols);
	return s->own[k];
}

struct ev_slot *ev_src(struct ev *e, const struct ir_value *v, unsigned k)
{
	return &e->frame->slot[v->src[k]->id];
}

struct ev_row *ev_src_row(struct ev *e, const struct ir_value *v, unsigned k, unsigned r)
{
	struct ev_slot *s = ev_src(e, v, k);

	return &s->row[r < s->nrow ? r : 0];
}

struct ev_row *ev_result(struct ev *e, const struct ir_value *v, unsigned r)
{
	struct ev_slot *s = slot_of(e, v);
	struct ev_row *row = &s->row[r];

	row->v = row->lo = row->hi = buffer(e, s, 3 * r);
	row->exact = true;
	return row;
}

void ev_inexact(struct ev *e, const struct ir_value *v, unsigned r)
{
	struct ev_slot *s = slot_of(e, v);
	struct ev_row *row = &s->row[r];

	row->lo = buffer(e, s, 3 * r + 1);
	row->hi = buffer(e, s, 3 * r + 2);
	row->exact = false;
}

/* The order of ends: -0 is below +0, so that what divides by a zero of either sign is seen. */
static bool below(double a, double b)
{
	return a < b || (a == b && signbit(a) && !signbit(b));
}

struct ev_iv ev_hull(double v, const double *c, unsigned n)
{
	struct ev_iv h = {v, v};
	unsigned nan = 0;

	for (unsigned i = 0; i < n; i++) {
		nan += isnan(c[i]) != 0;
		if (below(c[i], h.lo))
			h.lo = c[i];
		if (below(h.hi, c[i]))
			h.hi = c[i];
	}
	if (nan < n && !nan && !isnan(v))
		return h;
	if (nan == n && isnan(v))
		return (struct ev_iv){v, v};
	return ev_unknown();
}

/* ---- sources ---- */

void ev_read(struct ev *e, const struct ir_value *v, unsigned rank, int64_t i, unsigned k,
             struct ev_row *row)
{
	const struct ir_buffer *b = &e->in[(size_t)v->param * e->o->tp + rank];
	const double *err = b->err ? b->err + i * b->cols : NULL;
	struct ev_slot *s = slot_of(e, v);

	row->v = row->lo = row->hi = b->v + i * b->cols;
	row->exact = true;
	for (int64_t c = 0; err && c < b->cols; c++)
		row->exact &= err[c] == 0.0;
	if (row->exact)
		return;
	row->lo = buffer(e, s, 3 * k + 1);
	row->hi = buffer(e, s, 3 * k + 2);
	for (int64_t c = 0; c < b->cols; c++) {
		row->lo[c] = isinf(err[c]) ? -(double)INFINITY : row->v[c] - err[c];
		row->hi[c] = isinf(err[c]) ? (double)INFINITY : row->v[c] + err[c];
	}
}

/* Are the rows of this parameter's buffers different on each rank, though none of them is the
 * owner's alone? */
static bool diverges(const struct ev *e, const struct ir_value *v)
{
	const struct ir_type *t = &e->frame->f->param[v->param].type;
	const struct ir_buffer *b = &e->in[(size_t)v->param * e->o->tp];

	for (unsigned r = 1; r < e->o->tp; r++)
		if (b[r].v != b[0].v || b[r].err != b[0].err)
			return t->ndim == 2 && t->place == IR_CARRIED &&
			       e->o->carried == IR_ROWS_ALL;
	return false;
}

/* Row t of all ranks in one: rank 0's value, bounds that hold everywhere. */
static void read_diverging(struct ev *e, const struct ir_value *v)
{
	struct ev_row x[IR_MAX_TP], *row = ev_result(e, v, 0);

	ev_inexact(e, v, 0);
	for (unsigned r = 0; r < e->o->tp; r++)
		ev_read(e, v, r, e->t, 1 + r, &x[r]);
	for (int64_t c = 0; c < v->type.cols; c++) {
		double end[2 * IR_MAX_TP];
		struct ev_iv h;

		for (unsigned r = 0; r < e->o->tp; r++) {
			end[2 * r] = x[r].lo[c];
			end[2 * r + 1] = x[r].hi[c];
		}
		h = ev_hull(x[0].v[c], end, 2 * e->o->tp);
		row->v[c] = x[0].v[c];
		row->lo[c] = h.lo;
		row->hi[c] = h.hi;
	}
}

void eval_LOAD(struct ev *e, const struct ir_value *v)
{
	const struct ir_type *t = &e->frame->f->param[v->param].type;
	int64_t i = t->ndim < 2 ? 0 : t->place == IR_SHARDED ? e->local : e->t;
	struct ev_slot *s = slot_of(e, v);

	if (t->ndim == 2 && t->place == IR_PARTIAL)
		for (unsigned r = 0; r < s->nrow; r++)
			ev_read(e, v, r, i, r, &s->row[r]);
	else if (diverges(e, v))
		read_diverging(e, v);
	else
		ev_read(e, v, t->ndim == 2 && t->place != IR_REPLICATED ? e->owner : 0, i, 0,
		        &s->row[0]);
}

void eval_PARAM(struct ev *e, const struct ir_value *v)
{
	if (e->frame->arg)
		e->frame->slot[v->id] = *e->frame->arg[v->param];
	else
		eval_LOAD(e, v);
}

void eval_CONST(struct ev *e, const struct ir_value *v)
{
	ev_result(e, v, 0)->v[0] = ev_f32(e, v->num);
}

/* ---- calls ---- */

static struct ev_frame *frame_new(struct ev *e, const struct ir_func *f)
{
	struct ev_frame *fr = arena_new(e->a, struct ev_frame);
	size_t n = f->next_id;

	for (const struct ir_value *v = f->first; v; v = v->next)
		if (v->id >= n)
			n = (size_t)v->id + 1;
	fr->f = f;
	fr->slot = arena_news(e->a, struct ev_slot, n ? n : 1);
	fr->child = arena_news(e->a, struct ev_frame *, n ? n : 1);
	return fr;
}

/* Evaluates the values that have rows (t >= 0), or those that have none. */
static void run(struct ev *e, struct ev_frame *fr)
{
	struct ev_frame *up = e->frame;

	e->frame = fr;
	for (const struct ir_value *v = fr->f->first; v; v = v->next)
		if (v->op == IR_OP_CALL || (v->type.ndim == 2) == (e->t >= 0))
			table[v->op](e, v);
	e->frame = up;
}

void eval_CALL(struct ev *e, const struct ir_value *v)
{
	struct ev_frame *fr = e->frame->child[v->id];

	if (!fr) {
		fr = e->frame->child[v->id] = frame_new(e, v->callee);
		fr->arg = arena_news(e->a, struct ev_slot *, v->nsrc ? v->nsrc : 1);
	}
	for (unsigned k = 0; k < v->nsrc; k++)
		fr->arg[k] = ev_src(e, v, k);
	run(e, fr);
	if ((v->type.ndim == 2) == (e->t >= 0))
		e->frame->slot[v->id] = fr->slot[v->callee->result->id];
}

/* ---- sinks ---- */

/* Writes row i of an output buffer: the value in the parameter's dtype, and how far a conforming
 * one may be. */
static void sink_row(const struct ev *e, const struct ir_param *p, const struct ir_buffer *b,
                     int64_t i, const struct ev_row *x, bool one)
{
	double *v = b->v + i * b->cols, *err = b->err + i * b->cols;

	for (int64_t c = 0; c < b->cols; c++) {
		int64_t k = one ? 0 : c;
		double w = x->v[k], end[2];
		struct ev_iv h;

		v[c] = e->spec ? ir_round((enum ir_dtype)p->type.dtype, w) : w;
		err[c] = 0.0;
		if (x->exact)
			continue;
		for (unsigned j = 0; j < 2; j++) {
			end[j] = j ? x->hi[k] : x->lo[k];
			if (e->spec)
				end[j] = ir_round((enum ir_dtype)p->type.dtype, end[j]);
		}
		h = ev_hull(v[c], end, 2);
		if (isnan(v[c]) || (isinf(v[c]) && h.lo == h.hi))
			err[c] = isnan(h.lo) || isinf(v[c]) ? 0.0 : (double)INFINITY;
		else if (isinf(v[c])) /* at the edge of overflow, or a pole: no distance says it */
			err[c] = (double)INFINITY;
		else
			err[c] = h.hi - v[c] > v[c] - h.lo ? h.hi - v[c] : v[c] - h.lo;
	}
}

static void sink(struct ev *e, const struct ir_value *v, bool own_only)
{
	const struct ir_param *p = &e->frame->f->param[v->param];
	struct ir_buffer *out = &e->out[(size_t)v->param * e->o->tp];
	bool one = v->src[0]->type.ndim == 0 || v->src[0]->type.cols == 1;

	bool one_rank = p->type.place == IR_SHARDED || own_only ||
	                (p->type.place == IR_CARRIED && e->o->carried == IR_ROWS_OWN);

	if (p->type.ndim < 2) {
		sink_row(e, p, &out[0], 0, ev_src_row(e, v, 0, 0), one);
	} else if (p->type.place == IR_PARTIAL) {
		for (unsigned r = 0; r < e->o->tp; r++)
			sink_row(e, p, &out[r], e->t, ev_src_row(e, v, 0, r), one);
	} else {
		sink_row(e, p, &out[one_rank ? e->owner : 0],
		         p->type.place == IR_SHARDED ? e->local : e->t, ev_src_row(e, v, 0, 0),
		         one);
	}
}

void eval_OUT(struct ev *e, const struct ir_value *v)
{
	sink(e, v, false);
}

void eval_STORE(struct ev *e, const struct ir_value *v)
{
	sink(e, v, v->src[0]->type.ndim == 2 && v->src[0]->type.place != IR_REPLICATED);
}

void eval_STORE_ALL(struct ev *e, const struct ir_value *v)
{
	sink(e, v, false);
}

/* ---- buffers ---- */

static int64_t rows_on(const struct ir_param *p, const struct ir_eval_options *o, unsigned r)
{
	int64_t b, end;

	if (p->type.ndim < 2)
		return 1;
	if (p->type.place != IR_SHARDED)
		return o->rows;
	ir_own_rows(o->rows, o->tp, r, &b, &end);
	return end - b;
}

static bool check_input(const struct ir_func *f, const struct ir_eval_options *o,
                        const struct ir_buffer *in, unsigned p, unsigned r, struct diags *d)
{
	const struct ir_param *pa = &f->param[p];
	const struct ir_buffer *b = &in[(size_t)p * o->tp + r], *b0 = &in[(size_t)p * o->tp];
	int64_t rows = rows_on(pa, o, r), cols = pa->type.ndim ? pa->type.cols : 1;
	size_t n = (size_t)(rows * cols) * sizeof *b->v;
	bool same;

	if (b->rows != rows || b->cols != cols || (n && !b->v)) {
		diag_at(d, DIAG_ERROR, DIAG_EVAL_EXTENT, pa->at,
		        "'%s' on rank %u has %lld x %lld elements, and the kernel takes %lld x "
		        "%lld",
		        pa->name, r, (long long)b->rows, (long long)b->cols, (long long)rows,
		        (long long)cols);
		return false;
	}
	same = pa->type.place == IR_REPLICATED ||
	       (pa->type.place == IR_CARRIED && o->carried == IR_ROWS_ALL && !f->rank_divergence);
	if (same && b->v != b0->v && memcmp(b->v, b0->v, n) != 0) {
		diag_at(d, DIAG_ERROR, DIAG_EVAL_REPLICATED, pa->at,
		        "'%s' is %s, and ranks 0 and %u have different values", pa->name,
		        ir_place_name[pa->type.place], r);
		return false;
	}
	return true;
}

static double *unwritten(struct arena *a, size_t n)
{
	double *err = arena_news(a, double, n);

	for (size_t i = 0; i < n; i++)
		err[i] = -1.0;
	return err;
}

/* True when p is written on one rank at a time, so that "written" differs by rank. */
static bool differs(const struct ir_func *f, const struct ir_eval_options *o, unsigned p)
{
	const struct ir_type *t = &f->param[p].type;

	if (t->ndim < 2)
		return false;
	if (t->place == IR_SHARDED || (t->place == IR_CARRIED && o->carried == IR_ROWS_OWN))
		return true;
	for (const struct ir_value *v = f->first; v; v = v->next)
		if (v->op == IR_OP_STORE && v->param == p && v->src[0]->type.ndim == 2 &&
		    v->src[0]->type.place != IR_REPLICATED)
			return true;
	return false;
}

/* Buffers of an output: one for all ranks where they cannot differ, values shared where only
 * ownership does. */
static void make_output(const struct ir_func *f, const struct ir_eval_options *o, unsigned p,
                        struct ir_buffer *out, struct arena *a)
{
	const struct ir_param *pa = &f->param[p];
	bool same = !differs(f, o, p);
	bool share = same || pa->type.place == IR_CARRIED || pa->type.place == IR_REPLICATED;

	for (unsigned r = 0; r < o->tp; r++) {
		struct ir_buffer *b = &out[(size_t)p * o->tp + r], *b0 = &out[(size_t)p * o->tp];
		size_t n;

		b->rows = rows_on(pa, o, r);
		b->cols = pa->type.ndim ? pa->type.cols : 1;
		n = (size_t)(b->rows * b->cols);
		b->v = r && share ? b0->v : arena_news(a, double, n ? n : 1);
		b->err = r && same ? b0->err : unwritten(a, n ? n : 1);
	}
}

enum status ir_eval(const struct ir_func *f, const struct ir_eval_options *o,
                    const struct ir_buffer *in, struct ir_buffer *out, struct arena *a,
                    struct diags *d)
{
	struct ev e = {.o = o, .in = in, .out = out, .a = a, .t = -1};
	struct ev_frame *fr;

	if (o->tp < 1 || o->tp > IR_MAX_TP || o->rows < 0)
		return ST_USAGE;
	for (unsigned p = 0; p < f->nparam; p++) {
		for (unsigned r = 0; r < o->tp && f->param[p].mode != IR_OUT; r++)
			if (!check_input(f, o, in, p, r, d))
				return ST_INPUT;
		if (f->param[p].mode != IR_IN)
			make_output(f, o, p, out, a);
	}
	e.spec = o->mode == IR_EVAL_SPEC;
	fr = frame_new(&e, f);
	run(&e, fr);
	for (unsigned r = 0; r < o->tp; r++) {
		int64_t begin, end;

		ir_own_rows(o->rows, o->tp, r, &begin, &end);
		for (e.owner = r, e.t = begin; e.t < end; e.t++) {
			e.local = e.t - begin;
			run(&e, fr);
		}
	}
	return ST_OK;
}
