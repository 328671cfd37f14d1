/*
 * Typing: shapes, dtypes and the algebra of placements (design.md section 3), from the columns of
 * ops.def: `shape` gives the extents, `linear` what a partial may meet, `kind` the dtype and what a
 * collective needs.
 */
#include "ir/ir.h"

typedef enum ir_type_error shape_fn(const struct ir_value *v, struct ir_type *r, unsigned *bad);

/* ---- extents ---- */

/* Widens r by one more operand of an elementwise operation. */
static bool broadcast(struct ir_type *r, struct ir_type t)
{
	if (t.ndim > r->ndim)
		r->ndim = t.ndim;
	if (t.cols == r->cols || t.cols == 1)
		return true;
	if (r->cols != 1)
		return false;
	r->cols = t.cols;
	return true;
}

static enum ir_type_error shape_bcast(const struct ir_value *v, struct ir_type *r, unsigned *bad)
{
	r->ndim = 0;
	r->cols = 1;
	for (*bad = 0; *bad < v->nsrc; ++*bad)
		if (!broadcast(r, v->src[*bad]->type))
			return IR_TYPE_SHAPE;
	return IR_TYPE_OK;
}

static enum ir_type_error shape_one(const struct ir_value *v, struct ir_type *r, unsigned *bad)
{
	enum ir_type_error e = shape_bcast(v, r, bad);

	*bad = e ? *bad : 0;
	if (!e && r->ndim == 0)
		e = IR_TYPE_ROWS;
	r->cols = 1;
	return e;
}

static enum ir_type_error shape_same(const struct ir_value *v, struct ir_type *r, unsigned *bad)
{
	*bad = 0;
	r->ndim = v->src[0]->type.ndim;
	r->cols = v->src[0]->type.cols;
	return IR_TYPE_OK;
}

static enum ir_type_error shape_grp(const struct ir_value *v, struct ir_type *r, unsigned *bad)
{
	shape_same(v, r, bad);
	if (r->ndim == 0)
		return IR_TYPE_ROWS;
	if (v->n < 1 || r->cols % v->n)
		return IR_TYPE_GROUP;
	r->cols /= v->n;
	return IR_TYPE_OK;
}

static enum ir_type_error shape_expand(const struct ir_value *v, struct ir_type *r, unsigned *bad)
{
	shape_same(v, r, bad);
	if (r->ndim == 0)
		return IR_TYPE_ROWS;
	if (v->n < 1)
		return IR_TYPE_GROUP;
	if (v->n > IR_MAX_COLS / r->cols)
		return IR_TYPE_WIDE;
	r->cols *= v->n;
	return IR_TYPE_OK;
}

static shape_fn *const shape_of[] = {
        [IR_SHAPE_BCAST] = shape_bcast,   [IR_SHAPE_SAME] = shape_same,
        [IR_SHAPE_ONE] = shape_one,       [IR_SHAPE_GRP] = shape_grp,
        [IR_SHAPE_EXPAND] = shape_expand, [IR_SHAPE_NONE] = shape_same,
};

/* ---- placements ---- */

/* The algebra without partials: a carried operand makes the result carried, else a sharded one
 * sharded. */
static enum ir_place join(const struct ir_value *v)
{
	enum ir_place p = IR_REPLICATED;

	for (unsigned i = 0; i < v->nsrc; i++) {
		enum ir_place q = v->src[i]->type.place;

		if (q == IR_CARRIED || (q == IR_SHARDED && p == IR_REPLICATED))
			p = q;
	}
	return p;
}

static unsigned first_with(const struct ir_value *v, bool partial)
{
	unsigned i = 0;

	while (i < v->nsrc && (v->src[i]->type.place == IR_PARTIAL) != partial)
		i++;
	return i;
}

/* Row-local work: `linear` says what a partial may meet. */
static enum ir_type_error place_local(const struct ir_value *v, struct ir_type *r, unsigned *bad)
{
	unsigned partial = first_with(v, true);

	r->place = IR_PARTIAL;
	if (partial == v->nsrc) {
		r->place = (uint8_t)join(v);
		return IR_TYPE_OK;
	}
	switch (ir_op_info[v->op].linear) {
	case IR_LIN_UNARY:
		return IR_TYPE_OK;
	case IR_LIN_SUM:
		*bad = first_with(v, false);
		return *bad == v->nsrc ? IR_TYPE_OK : IR_PLACE_MIXED;
	case IR_LIN_SCALE:
		*bad = 1 - partial;
		return v->src[*bad]->type.place == IR_REPLICATED ? IR_TYPE_OK : IR_PLACE_SCALE;
	case IR_LIN_NO:
	case IR_LIN_COLL:
		break;
	}
	*bad = partial;
	return IR_PLACE_NONLINEAR;
}

/* Collectives and slice: what each takes and gives. */
static enum ir_type_error place_moved(const struct ir_value *v, struct ir_type *r)
{
	struct ir_type t = v->src[0]->type;
	bool whole = v->op == IR_OP_ALL_REDUCE || v->op == IR_OP_ALL_GATHER;

	if (t.ndim != 2)
		return IR_TYPE_ROWS;
	r->place = whole ? IR_REPLICATED : IR_SHARDED;
	if (ir_op_info[v->op].linear == IR_LIN_COLL)
		return t.place == IR_PARTIAL ? IR_TYPE_OK : IR_PLACE_NEED_PARTIAL;
	if (ir_op_info[v->op].kind == IR_KIND_MOVE)
		return t.place == IR_REPLICATED ? IR_TYPE_OK : IR_PLACE_NEED_REPLICATED;
	return t.place == IR_SHARDED || t.place == IR_CARRIED ? IR_TYPE_OK : IR_PLACE_NEED_SHARDED;
}

/* ---- dtypes ---- */

static enum ir_type_error check_bools(const struct ir_value *v, unsigned *bad)
{
	for (unsigned i = 0; i < v->nsrc; i++) {
		bool want = v->op == IR_OP_SELECT && i == 0;

		*bad = i;
		if ((v->src[i]->type.dtype == IR_BOOL) != want)
			return IR_TYPE_BOOL;
	}
	return IR_TYPE_OK;
}

static enum ir_type_error dtype_local(const struct ir_value *v, struct ir_type *r)
{
	r->dtype = ir_op_compares(v->op) ? IR_BOOL : IR_F32;
	if (v->op == IR_OP_CAST)
		r->dtype = v->type.dtype;
	return r->dtype == IR_BOOL && !ir_op_compares(v->op) ? IR_TYPE_BOOL : IR_TYPE_OK;
}

static enum ir_type_error dtype_moved(const struct ir_value *v, struct ir_type have,
                                      struct ir_type *r, bool sum)
{
	r->dtype = v->type.dtype;
	return r->dtype == have.dtype || (sum && r->dtype == IR_F32) ? IR_TYPE_OK : IR_TYPE_DTYPE;
}

/* ---- the kinds ---- */

static enum ir_type_error infer_source(const struct ir_func *f, const struct ir_value *v,
                                       struct ir_type *r)
{
	enum ir_place want = v->type.place;
	bool full = want == IR_REPLICATED && v->type.ndim == 2; /* of a carried parameter */

	if (v->op == IR_OP_CONST) {
		*r = (struct ir_type){.dtype = IR_F32, .cols = 1};
		return IR_TYPE_OK;
	}
	if (v->param >= f->nparam)
		return IR_TYPE_ARITY;
	*r = f->param[v->param].type;
	if (v->op == IR_OP_PARAM) {
		if (r->place == IR_CARRIED && (full || want == IR_SHARDED))
			r->place = (uint8_t)want;
		return IR_TYPE_OK;
	}
	if (r->ndim < 2)
		return v->op == IR_OP_LOAD_SUM ? IR_TYPE_ROWS : IR_TYPE_OK;
	if ((r->place == IR_PARTIAL) != (v->op == IR_OP_LOAD_SUM))
		return v->op == IR_OP_LOAD_SUM ? IR_PLACE_NEED_PARTIAL : IR_PLACE_NONLINEAR;
	if (v->op == IR_OP_LOAD_SUM) {
		r->place = want == IR_REPLICATED ? IR_REPLICATED : IR_SHARDED;
		return dtype_moved(v, *r, r, true);
	}
	if (r->place == IR_CARRIED)
		r->place = full ? IR_REPLICATED : IR_SHARDED;
	else if (r->place == IR_REPLICATED && want != IR_REPLICATED)
		r->place = IR_SHARDED;
	return IR_TYPE_OK;
}

/* Which parameters a value may be stored to: rows are the value's placement, columns the
 * parameter's. */
/* clang-format off */
static const bool can_store[IR_NPLACES][IR_NPLACES] = {
	/*                  replicated partial  sharded  carried */
	[IR_REPLICATED] = { true,      false,   true,    true },
	[IR_PARTIAL]    = { false,     false,   false,   false },
	[IR_SHARDED]    = { true,      false,   true,    true },
	[IR_CARRIED]    = { true,      false,   true,    true },
};
/* clang-format on */

static enum ir_type_error infer_sink(const struct ir_func *f, const struct ir_value *v,
                                     struct ir_type *r)
{
	struct ir_type have = v->src[0]->type, want;
	bool fits;

	*r = have;
	if (v->param >= f->nparam)
		return IR_TYPE_ARITY;
	want = f->param[v->param].type;
	fits = can_store[have.place][want.place];
	if (have.ndim != want.ndim || have.cols != want.cols)
		return IR_TYPE_SHAPE;
	if (have.dtype != want.dtype)
		return have.dtype == IR_BOOL ? IR_TYPE_BOOL : IR_TYPE_DTYPE;
	if (v->op == IR_OP_STORE && have.ndim == 2)
		fits = fits && have.place != IR_CARRIED &&
		       (want.place == IR_CARRIED || want.place == have.place);
	if (v->op == IR_OP_STORE_ALL)
		fits = have.place == IR_SHARDED && want.place == IR_REPLICATED;
	return fits ? IR_TYPE_OK : IR_PLACE_STORE;
}

static enum ir_type_error infer_call(const struct ir_value *v, struct ir_type *r, unsigned *bad)
{
	*bad = 0;
	if (!v->callee || !v->callee->result || v->nsrc != v->callee->nparam)
		return IR_TYPE_ARITY;
	for (; *bad < v->nsrc; ++*bad)
		if (!ir_type_equal(v->src[*bad]->type, v->callee->param[*bad].type))
			return IR_TYPE_CALLEE;
	*r = v->callee->result->type;
	return IR_TYPE_OK;
}

enum ir_type_error ir_infer(const struct ir_func *f, const struct ir_value *v,
                            struct ir_type *result, unsigned *bad)
{
	const struct ir_op_info *op = &ir_op_info[v->op];
	struct ir_type r = {.dtype = IR_F32, .cols = 1};
	enum ir_type_error e = IR_TYPE_OK;

	*bad = 0;
	if (op->nsrc >= 0 && v->nsrc != (unsigned)op->nsrc)
		return IR_TYPE_ARITY;
	if (op->kind != IR_KIND_CALL && op->kind != IR_KIND_SINK && op->kind != IR_KIND_MOVE)
		e = check_bools(v, bad);
	if (!e && shape_of[op->shape])
		e = shape_of[op->shape](v, &r, bad);
	if (e)
		return e;
	*bad = 0;
	if (op->kind == IR_KIND_CALL) {
		e = infer_call(v, &r, bad);
	} else if (op->kind == IR_KIND_SINK) {
		e = infer_sink(f, v, &r);
	} else if (op->nsrc == 0) {
		e = infer_source(f, v, &r);
	} else if (op->kind == IR_KIND_COLL || op->kind == IR_KIND_MOVE) {
		e = place_moved(v, &r);
		if (!e)
			e = dtype_moved(v, v->src[0]->type, &r, op->linear == IR_LIN_COLL);
	} else {
		e = place_local(v, &r, bad);
		if (!e)
			e = dtype_local(v, &r);
	}
	if (!e)
		*result = r;
	return e;
}

bool ir_set_type(const struct ir_func *f, struct ir_value *v)
{
	unsigned bad;

	return ir_infer(f, v, &v->type, &bad) == IR_TYPE_OK;
}

/* ---- what to say ---- */

/* clang-format off */
static const struct {
	enum diag_code code;
	const char *text;         /* %1: the operation; %2: the operand's type; %3: the other type */
	const char *fix;
} errors[IR_TYPE_NERRORS] = {
	[IR_TYPE_ARITY]  = {DIAG_TYPE_ARITY,  "'%1' has the wrong number of operands", NULL},
	[IR_TYPE_BOOL]   = {DIAG_TYPE_BOOL,   "'%1' cannot take %2 here", "a comparison gives bool, which only select() takes, as its first operand"},
	[IR_TYPE_SHAPE]  = {DIAG_TYPE_SHAPE,  "'%1' cannot combine %2 and %3", "extents must be equal, or one of them 1; expand(x, n) repeats columns"},
	[IR_TYPE_ROWS]   = {DIAG_TYPE_ROWS,   "'%1' needs rows, this is %2", "it takes [T, columns], as kernel parameters with T are"},
	[IR_TYPE_GROUP]  = {DIAG_TYPE_GROUP,  "'%1' needs a group size of 1 or more that divides the columns of %2", "choose a divisor of the number of columns"},
	[IR_TYPE_WIDE]   = {DIAG_TYPE_WIDE,   "'%1' of %2 would have more than 1048576 columns", "expand by less, or split the columns over several kernels"},
	[IR_TYPE_DTYPE]  = {DIAG_TYPE_DTYPE,  "'%1' takes %2 to another dtype: %3", "a reduction keeps its operand's dtype, or gives f32; cast before a store"},
	[IR_TYPE_CALLEE] = {DIAG_TYPE_CALLEE, "'%1' passes %2 where the function takes %3", NULL},
	[IR_PLACE_NONLINEAR] = {DIAG_PLACE_NONLINEAR, "'%1' is not linear, and %2 is an addend on each rank", "reduce it first: all_reduce(x) or reduce_scatter(x)"},
	[IR_PLACE_MIXED] = {DIAG_PLACE_MIXED, "'%1' of a partial value and %2 would count the latter once per rank", "reduce the partial value first: all_reduce(x) or reduce_scatter(x)"},
	[IR_PLACE_SCALE] = {DIAG_PLACE_SCALE, "'%1' scales a partial value by %2, which is not the same on every rank", "a partial value may be multiplied by a replicated one only; reduce it first"},
	[IR_PLACE_NEED_PARTIAL]    = {DIAG_PLACE_NEED_PARTIAL,    "'%1' sums a partial value over the ranks, this is %2", "leave it out: the value is already a sum"},
	[IR_PLACE_NEED_SHARDED]    = {DIAG_PLACE_NEED_SHARDED,    "'%1' gathers a sharded value, this is %2", "a partial value is reduced with all_reduce(x); a replicated one is whole already"},
	[IR_PLACE_NEED_REPLICATED] = {DIAG_PLACE_NEED_REPLICATED, "'%1' takes own rows of a replicated value, this is %2", NULL},
	[IR_PLACE_STORE] = {DIAG_PLACE_STORE, "%2 cannot be stored to an output that is %3", "an output is replicated, sharded or carried; reduce a partial value first"},
};
/* clang-format on */

/* The type that operand `bad` was held against; false if there is none. */
static bool other_type(const struct ir_value *v, unsigned bad, struct ir_type *t)
{
	*t = (struct ir_type){.cols = 1};
	if (ir_op_info[v->op].kind == IR_KIND_SINK && v->func && v->param < v->func->nparam) {
		*t = v->func->param[v->param].type;
		return true;
	}
	if (v->op == IR_OP_CALL && v->callee && bad < v->callee->nparam) {
		*t = v->callee->param[bad].type;
		return true;
	}
	if (ir_op_info[v->op].kind == IR_KIND_COLL && v->nsrc) {
		*t = v->src[0]->type;
		t->dtype = v->type.dtype;
		return true;
	}
	for (unsigned i = 0; i < bad && i < v->nsrc; i++)
		broadcast(t, v->src[i]->type);
	return bad > 0 && bad < v->nsrc;
}

const char *ir_type_error_text(struct arena *a, enum ir_type_error e, const struct ir_value *v,
                               unsigned bad)
{
	struct strbuf b;
	struct ir_type t;

	strbuf_init(&b, a);
	for (const char *s = errors[e].text; s && *s; s++) {
		if (*s != '%') {
			strbuf_putc(&b, *s);
			continue;
		}
		switch (*++s) {
		case '1':
			strbuf_puts(&b, v->op == IR_OP_CALL && v->callee ? v->callee->name
			                                                 : ir_op_info[v->op].text);
			break;
		case '2':
			strbuf_puts(&b,
			            bad < v->nsrc ? ir_type_text(a, v->src[bad]->type) : "nothing");
			break;
		default:
			strbuf_puts(&b,
			            other_type(v, bad, &t) ? ir_type_text(a, t) : "another type");
		}
	}
	return b.s;
}

const char *ir_type_error_fix(enum ir_type_error e)
{
	return errors[e].fix;
}

enum diag_code ir_type_error_code(enum ir_type_error e)
{
	return errors[e].code;
}
