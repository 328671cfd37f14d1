/*
 * What stands on the right of a model's `=`: kernels, gemm, opaque nodes.
 */
#include "frontend/model.h"
#include <string.h>

/* ---- operands ---- */

static void read_var(struct fe_model *m, struct fe_mvar *v)
{
	v->used = true;
	for (unsigned d = 0; d < m->depth; d++)
		if (v->touched[d] != m->loop[d].serial) {
			v->touched[d] = m->loop[d].serial;
			v->read_first[d] = true;
		}
}

/* One combination of the loops' indices: false if the element it names does not exist (reported).
 */
static bool check_element(struct fe_model *m, const struct ast *e, const struct fe_mvar *v)
{
	int64_t i;
	bool known;

	if (!fe_want_int(&m->cx, e->value, &i, &known))
		return false;
	if (!known || !v->count_known || (i >= 0 && i < v->count))
		return true;
	fe_error(&m->cx, DIAG_INDEX, e->value->at, NULL,
	         "'%s' has elements 0 to %lld, this is %lld", e->name, (long long)v->count - 1,
	         (long long)i);
	for (unsigned d = 0; d < m->depth; d++)
		fe_note(&m->cx, (struct span){0, 0}, "where %s is %lld", m->loop[d].index->name,
		        (long long)m->loop[d].index->val.i);
	return false;
}

/* For one index, and for all of a model: checking must not take long, whatever the file says. */
enum { MAX_TURNS = 1 << 16, MAX_ALL_TURNS = 1 << 22 };

/* Every turn of the loops around, or, where these are too many, the first and last turns. */
static void check_index(struct fe_model *m, const struct ast *e, const struct fe_mvar *v)
{
	int64_t turns = 1, i[FE_MAX_LOOPS];
	bool ends, more = true;
	unsigned d;

	for (d = 0; d < m->depth && turns <= MAX_TURNS; d++)
		turns *= m->loop[d].hi - m->loop[d].lo;
	ends = turns > MAX_TURNS || m->turns > MAX_ALL_TURNS;
	m->turns += ends ? 1 << m->depth : turns;
	for (d = 0; d < m->depth; d++)
		i[d] = m->loop[d].lo;
	while (more) {
		for (d = 0; d < m->depth; d++)
			m->loop[d].index->val.i = i[d];
		if (!check_element(m, e, v))
			break;
		more = false;
		for (d = 0; d < m->depth && !more; d++) {
			i[d] = ends && i[d] == m->loop[d].lo && m->loop[d].hi - i[d] > 1
			               ? m->loop[d].hi - 1
			               : i[d] + 1;
			more = i[d] < m->loop[d].hi;
			i[d] = more ? i[d] : m->loop[d].lo;
		}
	}
	for (d = 0; d < m->depth; d++)
		m->loop[d].index->val.i = m->loop[d].lo;
}

static struct fe_mvar *find_var(struct fe_model *m, const struct ast *e)
{
	struct fe_symbol *y = fe_scope_find(m->cx.scope, e->name);

	if (y && y->model)
		return y->model;
	if (y) {
		fe_error(&m->cx, DIAG_NOT_VALUE, e->at,
		         "operands are inputs, states, weights, and names bound before",
		         "'%s' is not an operand", e->name);
	} else if (!m->decl->lost_name && !m->fe->damaged) {
		m->undefined = true;
		fe_error(&m->cx, DIAG_UNDEFINED, e->at, NULL, "'%s' is not defined", e->name);
		fe_suggest(&m->cx, e->name, FE_WANT_VALUE);
	}
	return NULL;
}

struct fe_mtype fe_model_operand(struct fe_model *m, const struct ast *e, struct fe_mvar **var)
{
	struct fe_mtype none = {0};
	struct fe_mvar *v;

	*var = NULL;
	if (e->kind != AST_NAME && e->kind != AST_INDEX) {
		if (e->kind != AST_BAD)
			fe_error(&m->cx, DIAG_MODEL_STATEMENT, e->at,
			         "bind it to a name first; arithmetic belongs into kernels",
			         "an operand is a name, or an element of an array of weights");
		return none;
	}
	v = *var = find_var(m, e);
	if (!v)
		return none;
	read_var(m, v);
	if (v->array != (e->kind == AST_INDEX)) {
		fe_error(&m->cx, DIAG_INDEX, e->at, NULL,
		         v->array ? "'%s' is an array: give an index" : "'%s' is not an array",
		         e->name);
		return none;
	}
	if (v->array)
		check_index(m, e, v);
	return v->type;
}

/* ---- gemm ---- */

/* [x][w]: the result's placement, or -1.  columns x rows splits the sum, so each rank has an
 * addend. */
/* clang-format off */
static const signed char gemm_place[FE_NMPLACES][FE_NMPLACES] = {
	/*                 replicated      partial sharded carried columns      rows        local */
	[FE_REPLICATED] = {FE_REPLICATED,  -1,     -1,     -1,     FE_COLUMNS,  -1,         FE_LOCAL},
	[FE_PARTIAL]    = {-1,             -1,     -1,     -1,     -1,          -1,         -1},
	[FE_SHARDED]    = {FE_SHARDED,     -1,     -1,     -1,     -1,          -1,         -1},
	[FE_CARRIED]    = {-1,             -1,     -1,     -1,     -1,          -1,         -1},
	[FE_COLUMNS]    = {-1,             -1,     -1,     -1,     -1,          FE_PARTIAL, -1},
	[FE_ROWS]       = {-1,             -1,     -1,     -1,     -1,          -1,         -1},
	[FE_LOCAL]      = {FE_LOCAL,       -1,     -1,     -1,     -1,          -1,         FE_LOCAL},
};
/* clang-format on */

static void check_bias(struct fe_model *m, const struct ast *e, struct fe_mtype r)
{
	struct fe_mvar *var;
	struct fe_mtype b = fe_model_operand(m, e, &var), want = r;

	if (!b.ok || !r.ok)
		return;
	if (r.place == FE_PARTIAL) {
		fe_error(&m->cx, DIAG_GEMM_PLACE, e->at, "add it in the kernel that reduces",
		         "a bias of a partial result would be added once per rank");
		return;
	}
	want.ndim = 1;
	want.rows = false;
	want.dim[0] = r.dim[1];
	want.known[0] = r.known[1];
	want.dtype = b.dtype;
	if (want.place == FE_SHARDED)
		want.place = FE_REPLICATED;
	if (!fe_mtype_equal(b, want))
		fe_error(&m->cx, DIAG_MODEL_ARGUMENT, e->at, NULL,
		         "the bias must be %s, this is %s", fe_mtype_text(m->fe->arena, want),
		         fe_mtype_text(m->fe->arena, b));
}

static bool gemm_shapes(struct fe_model *m, const struct fe_args *a, struct fe_mtype x,
                        struct fe_mtype w)
{
	struct arena *mem = m->fe->arena;

	if (!x.rows || w.rows || w.ndim != 2) {
		fe_error(&m->cx, DIAG_GEMM_SHAPE, a->arg[x.rows ? 1 : 0]->at,
		         "gemm(x: [T, k], w: [k, n]) is [T, n]", "gemm cannot take %s here",
		         fe_mtype_text(mem, x.rows ? w : x));
		return false;
	}
	if (x.known[1] && w.known[0] && x.dim[1] != w.dim[0]) {
		fe_error(&m->cx, DIAG_GEMM_SHAPE, a->arg[1]->at,
		         "gemm(x: [T, k], w: [k, n]) is [T, n]", "%s cannot be multiplied by %s",
		         fe_mtype_text(mem, x), fe_mtype_text(mem, w));
		return false;
	}
	return true;
}

static struct fe_mtype call_gemm(struct fe_model *m, const struct ast *e)
{
	static const char *const names[] = {"x", "w", "bias", "out"};
	struct fe_mtype x, w, r = {0};
	struct fe_mvar *var;
	struct fe_args a;
	int place;

	if (!fe_match_args(&m->cx, e, names, 4, 2, &a))
		return r;
	x = fe_model_operand(m, a.arg[0], &var);
	w = fe_model_operand(m, a.arg[1], &var);
	if (x.ok && w.ok && gemm_shapes(m, &a, x, w)) {
		place = gemm_place[x.place][w.place];
		r = x;
		r.dim[1] = w.dim[1];
		r.known[1] = w.known[1];
		r.place = (enum fe_mplace)place;
		r.ok = place >= 0;
		if (place < 0)
			fe_error(&m->cx, DIAG_GEMM_PLACE, e->at,
			         x.place == FE_PARTIAL
			                 ? "reduce it first, in a kernel"
			                 : "replicated x columns is columns, columns x rows is "
			                   "partial; replicated or local x local is local",
			         "%s cannot be multiplied by %s", fe_mplace_name[x.place],
			         fe_mplace_name[w.place]);
	}
	if (a.arg[3])
		r.ok = fe_want_dtype(&m->cx, a.arg[3], &r.dtype) && r.ok;
	if (a.arg[2])
		check_bias(m, a.arg[2], r);
	return r;
}

/* ---- kernels ---- */

static void check_argument(struct fe_model *m, const struct ir_param *p, const struct ast *e,
                           struct fe_mvar **var)
{
	struct fe_mtype have = fe_model_operand(m, e, var), want = fe_mtype_of_param(p->type);

	/* taking one's own rows of what everyone has costs nothing */
	if (have.ok && have.place == FE_REPLICATED && want.place == FE_SHARDED && have.rows)
		have.place = FE_SHARDED;
	if (!fe_mtype_equal(have, want)) {
		fe_error(&m->cx, DIAG_MODEL_ARGUMENT, e->at, NULL, "'%s' takes %s, this is %s",
		         p->name, fe_mtype_text(m->fe->arena, want),
		         fe_mtype_text(m->fe->arena, have));
		fe_note(&m->cx, p->at, "the parameter is here");
	}
	if (p->mode == IR_INOUT && *var && (*var)->kind != FE_M_STATE)
		fe_error(&m->cx, DIAG_MODEL_INOUT, e->at, "declare it: state NAME: type placement;",
		         "'%s' is updated by the kernel, so it must be a state", e->name);
}

/* A state that a kernel updates is given to it once. */
static void check_aliases(struct fe_model *m, const struct ir_func *f, const struct fe_args *a,
                          struct fe_mvar *const *var, const unsigned *param)
{
	for (unsigned i = 0; i < a->n; i++)
		for (unsigned j = 0; j < i; j++)
			if (var[i] && var[i] == var[j] &&
			    (f->param[param[i]].mode == IR_INOUT ||
			     f->param[param[j]].mode == IR_INOUT)) {
				fe_error(&m->cx, DIAG_MODEL_INOUT, a->arg[i]->at, NULL,
				         "a state that is updated is given twice");
				fe_note(&m->cx, a->arg[j]->at, "the first time is here");
			}
}

static bool call_kernel(struct fe_model *m, const struct ast *e, struct fe_symbol *y,
                        struct fe_mtype *result, unsigned *n)
{
	const struct ir_func *f = y->func;
	const char *names[FE_MAX_ARGS] = {NULL};
	struct fe_mvar *var[FE_MAX_ARGS] = {NULL}, *unused;
	unsigned param[FE_MAX_ARGS], nin = 0;
	struct fe_args a;

	*n = 0;
	y->used = true;
	if (!f || f->nparam > FE_MAX_ARGS) {
		for (const struct ast *p = e->kids; p; p = p->next)
			fe_model_operand(m, p->value, &unused);
		return false;
	}
	for (unsigned i = 0; i < f->nparam; i++) {
		if (f->param[i].mode == IR_OUT) {
			result[(*n)++] = fe_mtype_of_param(f->param[i].type);
			continue;
		}
		param[nin] = i;
		names[nin++] = f->param[i].name;
	}
	if (!fe_match_args(&m->cx, e, names, nin, nin, &a)) {
		fe_note(&m->cx, y->at, "the kernel is here");
		return true;
	}
	for (unsigned i = 0; i < nin; i++)
		check_argument(m, &f->param[param[i]], a.arg[i], &var[i]);
	check_aliases(m, f, &a, var, param);
	return true;
}

/* ---- opaque ---- */

static const struct cost {
	const char *name;
	unsigned need, n;
	const char *param[4];
} costs[FE_NCOSTS] = {
        {"attention",
         3,
         4,
         {"heads", "kv_heads", "dim", "window"}}, /* of queries and keys; window 0: all before */
        {"elementwise", 0, 0, {NULL}},            /* the bytes of its operands and result */
        /* experts with three matrices of inner extent ffn each, `active` of them for a row; shared:
         * the inner extent of what every row passes besides */
        {"moe", 3, 4, {"experts", "active", "ffn", "shared"}},
        {"work", 0, 2, {"flops", "bytes"}}, /* per row */
};

static void check_cost(struct fe_model *m, const struct ast *e)
{
	const char *names[FE_NCOSTS], *near;
	struct fe_args a;
	int64_t v;
	bool known;
	unsigned i = 0;

	if (e->kind != AST_CALL)
		return;
	while (i < FE_NCOSTS && strcmp(costs[i].name, e->name))
		i++;
	if (i == FE_NCOSTS) {
		for (i = 0; i < FE_NCOSTS; i++)
			names[i] = costs[i].name;
		near = nearest_name(e->name, names, FE_NCOSTS);
		fe_error(&m->cx, DIAG_COST, e->name_at,
		         "costs are attention(heads, kv_heads, dim, window), elementwise(), "
		         "moe(experts, active, ffn, shared) and work(flops, bytes)",
		         "there is no cost '%s'", e->name);
		if (near)
			fe_note(&m->cx, (struct span){0, 0}, "did you mean '%s'?", near);
		return;
	}
	if (!fe_match_args(&m->cx, e, costs[i].param, costs[i].n, costs[i].need, &a))
		return;
	for (unsigned k = 0; k < costs[i].n; k++)
		if (a.arg[k] && fe_want_int(&m->cx, a.arg[k], &v, &known) && known && v < 0)
			fe_error(&m->cx, DIAG_COST, a.arg[k]->at, NULL, "a cost is not negative");
}

void fe_model_cost(struct fe_model *m, const struct ast *e, enum fe_cost_kind *kind, int64_t arg[4])
{
	struct fe_args a;
	bool known;
	unsigned i = 0;

	while (i < FE_NCOSTS && strcmp(costs[i].name, e->name))
		i++;
	*kind = i < FE_NCOSTS ? (enum fe_cost_kind)i : FE_COST_ELEMENTWISE;
	if (i == FE_NCOSTS || !fe_match_args(&m->cx, e, costs[i].param, costs[i].n, 0, &a))
		return;
	for (unsigned k = 0; k < costs[i].n; k++)
		if (a.arg[k])
			fe_want_int(&m->cx, a.arg[k], &arg[k], &known);
}

static struct fe_mtype call_opaque(struct fe_model *m, const struct ast *e)
{
	static const bool allowed[FE_NMPLACES] = {true, true, true, true, true, false, true};
	struct fe_mvar *var;

	for (const struct ast *a = e->kids; a; a = a->next) {
		if (a->name)
			fe_error(&m->cx, DIAG_KEYWORD, a->name_at, "leave the name out",
			         "operands of an opaque node have no names");
		fe_model_operand(m, a->value, &var);
	}
	check_cost(m, e->value);
	return fe_model_type(m, e->type, e->attrs, allowed);
}

bool fe_model_call(struct fe_model *m, const struct ast *e, struct fe_mtype result[FE_MAX_RESULTS],
                   unsigned *n)
{
	struct fe_symbol *y;

	*n = 1;
	if (e->kind == AST_BAD)
		return false;
	if (e->kind == AST_OPAQUE) {
		result[0] = call_opaque(m, e);
		return true;
	}
	if (e->kind != AST_CALL) {
		fe_error(&m->cx, DIAG_MODEL_STATEMENT, e->at, "arithmetic belongs into kernels",
		         "a model is made of kernels, gemm(x, w) and opaque nodes");
		return false;
	}
	if (!strcmp(e->name, FE_GEMM)) {
		result[0] = call_gemm(m, e);
		return true;
	}
	y = fe_scope_find(&m->fe->file, e->name);
	if (y && y->kind == FE_SYM_KERNEL)
		return call_kernel(m, e, y, result, n);
	if (m->fe->lost_kernel)
		return false;
	fe_error(&m->cx, DIAG_UNKNOWN_CALL, e->name_at,
	         y || fe_is_callable_name(e->name) ? "a model calls kernels and gemm" : NULL,
	         "there is no kernel '%s'", e->name);
	fe_suggest(&m->cx, e->name, FE_WANT_KERNEL);
	return false;
}
