/*
 * Statements of a model: declarations, bindings, loops, outputs.
 */
#include "frontend/model.h"
#include <string.h>

static void statements(struct fe_model *m, struct ast *s);

static struct fe_mvar *add_var(struct fe_model *m, struct fe_scope *scope, enum fe_mkind kind,
                               const struct ast *name)
{
	struct fe_mvar *v = arena_new(m->fe->arena, struct fe_mvar);
	struct fe_symbol *y =
	        fe_scope_add(scope, FE_SYM_LOCAL, name->name, name->name_at, (struct ast *)name);

	v->kind = kind;
	v->bound_at = name->name_at;
	v->depth = m->depth;
	y->model = v;
	return v;
}

/* Can `name` be bound here?  Reserved names, consts and what is declared cannot. */
static bool free_name(struct fe_model *m, const struct ast *n, const struct fe_symbol *old)
{
	if (fe_reserved(n->name)) {
		fe_error(&m->cx, DIAG_RESERVED, n->name_at, "choose another name",
		         "'%s' is a reserved name", n->name);
		return false;
	}
	if (!old || (!old->model && old->kind != FE_SYM_CONST))
		return true;
	fe_error(&m->cx, DIAG_DUPLICATE, n->name_at, "choose another name", "'%s' is bound twice",
	         n->name);
	fe_note(&m->cx, old->at, "the first one is here");
	return false;
}

static void declaration(struct fe_model *m, const struct ast *s)
{
	static const bool allowed[AST_NDECLS][FE_NMPLACES] = {
	        [AST_INPUT] = {true, true, true, true, true, false, true},
	        [AST_STATE] = {true, false, true, true, true, false, true},
	        [AST_WEIGHT] = {true, false, false, false, true, true, true},
	};
	static const enum fe_mkind kind[AST_NDECLS] = {FE_M_INPUT, FE_M_STATE, FE_M_WEIGHT};
	struct fe_mvar *v;

	if (m->depth)
		fe_error(&m->cx, DIAG_MODEL_STATEMENT, s->at, "move it out of the loop",
		         "%s is declared inside a loop", ast_decl_text[s->op]);
	if (!free_name(m, s, fe_scope_find(m->cx.scope, s->name)))
		return;
	v = add_var(m, m->cx.scope, kind[s->op], s);
	if (s->damaged) {
		v->used = true;
		return;
	}
	v->array = s->value != NULL;
	if (v->array && s->op != AST_WEIGHT)
		fe_error(&m->cx, DIAG_MODEL_STATEMENT, s->value->at, NULL,
		         "only weights come in arrays");
	if (v->array && fe_want_int(&m->cx, s->value, &v->count, &v->count_known) &&
	    v->count_known && v->count < 1)
		fe_error(&m->cx, DIAG_EXTENT, s->value->at, NULL,
		         "an array has at least one element");
	v->type = fe_model_type(m, s->type, s->attrs, allowed[s->op]);
	if (v->type.ok && v->type.rows != (s->op != AST_WEIGHT)) {
		fe_error(&m->cx, DIAG_DIMS, s->type->at,
		         s->op == AST_WEIGHT ? "weights are [n] or [k, n]" : "write [T, n]",
		         "%s cannot be %s",
		         s->op == AST_WEIGHT  ? "a weight"
		         : s->op == AST_STATE ? "a state"
		                              : "an input",
		         fe_mtype_text(m->fe->arena, v->type));
		v->type.ok = false;
	}
}

static void unused(struct fe_model *m, const char *name, const struct fe_mvar *v, const char *what)
{
	if (!v->used && !m->decl->damaged && !m->undefined)
		fe_error(&m->cx, DIAG_UNUSED, v->bound_at, "remove it", "%s '%s' is not used", what,
		         name);
}

static void write_var(struct fe_model *m, struct fe_mvar *v)
{
	for (unsigned d = 0; d < m->depth; d++) {
		struct fe_loop *l = &m->loop[d];

		if (v->touched[d] != l->serial) {
			v->touched[d] = l->serial;
			v->read_first[d] = false;
		}
		if (v->depth <= d) {
			l->written =
			        arena_grow(m->fe->arena, l->written, l->nwritten, &l->written_cap,
			                   l->nwritten + 1, sizeof(*l->written));
			l->written[l->nwritten++] = v;
		}
	}
	v->used = false;
}

static void assign(struct fe_model *m, const struct ast *target, struct fe_mtype t)
{
	const struct ast *name = target->kind == AST_ARG ? target->value : target;
	struct ast *n = ast_named(m->fe->arena, AST_TARGET, name->at, name->name, name->at);
	struct fe_symbol *old;
	struct fe_mvar *v;

	if ((name->kind != AST_NAME && name->kind != AST_TARGET) ||
	    (target->kind == AST_ARG && target->name)) {
		fe_error(&m->cx, DIAG_MODEL_STATEMENT, target->at, NULL, "what is bound is a name");
		return;
	}
	old = fe_scope_find(m->cx.scope, name->name);
	v = old ? old->model : NULL;
	if (!v || v->kind != FE_M_VALUE) {
		if (!free_name(m, n, old))
			return;
		v = add_var(m, m->cx.scope, FE_M_VALUE, n);
		v->type = t;
	} else {
		unused(m, name->name, v, "this value of");
		if (v->depth < m->depth && !fe_mtype_equal(v->type, t)) {
			fe_error(&m->cx, DIAG_LOOP_TYPE, name->at,
			         "the next turn of the loop reads it: use another name",
			         "'%s' was %s before the loop, and is %s here", name->name,
			         fe_mtype_text(m->fe->arena, v->type),
			         fe_mtype_text(m->fe->arena, t));
			t.ok = false;
		}
		v->type = t;
		v->bound_at = name->at;
	}
	write_var(m, v);
}

static void binding(struct fe_model *m, const struct ast *s)
{
	struct fe_mtype result[FE_MAX_RESULTS], none = {0};
	unsigned n = 0, i = 0;
	bool ok = fe_model_call(m, s->value, result, &n);

	if (ok && ast_count(s->kids) != n)
		fe_error(&m->cx, DIAG_MODEL_RESULTS, s->kids ? s->kids->at : s->at,
		         n == 1 ? NULL : "(a, b) = kernel(...) binds two",
		         "%u result%s, bound to %zu name%s", n, n == 1 ? "" : "s",
		         ast_count(s->kids), ast_count(s->kids) == 1 ? "" : "s");
	for (const struct ast *t = s->kids; t; t = t->next, i++)
		assign(m, t, ok && i < n ? result[i] : none);
}

/* ---- loops ---- */

static void check_scope(struct fe_model *m, const struct fe_scope *scope)
{
	static const char *const what[] = {"the input", "the state", "the weight", "this value of"};

	for (const struct fe_symbol *y = scope->first; y; y = y->next)
		if (y->model)
			unused(m, y->name, y->model,
			       what[((const struct fe_mvar *)y->model)->kind]);
}

/* A value bound at the end of a turn is read by the next one. */
static void close_loop(struct fe_loop *l, unsigned depth)
{
	for (size_t i = 0; i < l->nwritten; i++)
		if (l->written[i]->touched[depth] == l->serial && l->written[i]->read_first[depth])
			l->written[i]->used = true;
}

static bool loop_range(struct fe_model *m, const struct ast *s, int64_t *lo, int64_t *hi)
{
	const struct ast *a = s->kids->value, *b = s->kids->next->value;

	bool from, to;

	if (!fe_want_int(&m->cx, a, lo, &from) || !fe_want_int(&m->cx, b, hi, &to) || !from || !to)
		return false;
	if (*lo < *hi && *lo >= 0 && *hi <= INT32_MAX)
		return true;
	fe_error(&m->cx, DIAG_REPEAT, s->kids->at, "a..b runs from a to b - 1, from 0 upwards",
	         "%lld..%lld is not a range that can be repeated", (long long)*lo, (long long)*hi);
	return false;
}

static void repeat(struct fe_model *m, const struct ast *s)
{
	struct fe_scope *outer = m->cx.scope;
	struct fe_loop *l = &m->loop[m->depth];
	int64_t lo = 0, hi = 1;

	if (m->depth == FE_MAX_LOOPS) {
		fe_error(&m->cx, DIAG_NESTING, s->at, NULL, "loops nest at most %d deep",
		         FE_MAX_LOOPS);
		return;
	}
	if (!loop_range(m, s, &lo, &hi)) {
		lo = 0;
		hi = 1;
	}
	*l = (struct fe_loop){.lo = lo, .hi = hi, .serial = ++m->serial};
	fe_scope_init(&l->scope, m->fe->arena, outer);
	free_name(m, s, fe_scope_find(outer, s->name));
	l->index = fe_scope_add(&l->scope, FE_SYM_CONST, s->name, s->name_at, (struct ast *)s);
	l->index->val = (struct fe_val){.kind = FE_INT, .i = lo};
	m->cx.scope = &l->scope;
	m->depth++;
	statements(m, s->body);
	m->depth--;
	close_loop(l, m->depth);
	check_scope(m, &l->scope);
	m->cx.scope = outer;
}

/* ---- statements ---- */

static void output(struct fe_model *m, const struct ast *s)
{
	struct fe_mvar *var;
	struct fe_mtype t = fe_model_operand(m, s->value, &var);

	if (m->depth)
		fe_error(&m->cx, DIAG_MODEL_OUTPUT, s->at, "move it behind the loop",
		         "an output inside a loop");
	if (t.ok && t.place == FE_PARTIAL)
		fe_error(&m->cx, DIAG_MODEL_OUTPUT, s->value->at, "reduce it first, in a kernel",
		         "a partial value cannot leave the model");
	m->has_output = true;
}

static void statements(struct fe_model *m, struct ast *s)
{
	for (; s; s = s->next) {
		switch (s->kind) {
		case AST_DECL:
			declaration(m, s);
			break;
		case AST_BIND:
			binding(m, s);
			break;
		case AST_REPEAT:
			repeat(m, s);
			break;
		case AST_OUTPUT:
			output(m, s);
			break;
		case AST_ASSERT:
			fe_check_assert(&m->cx, s);
			break;
		default:
			break;
		}
	}
}

void fe_check_model(struct fe *fe, struct ast *model)
{
	struct fe_model *m = arena_new(fe->arena, struct fe_model);

	m->fe = fe;
	m->decl = model;
	fe_scope_init(&m->scope, fe->arena, &fe->file);
	m->cx = (struct fe_ctx){.fe = fe, .scope = &m->scope, .exact = true, .in_model = true};
	statements(m, model->body);
	check_scope(m, &m->scope);
	if (!m->has_output && !model->lost_name)
		fe_error(&m->cx, DIAG_MODEL_OUTPUT, model->name_at, "end it with: output y;",
		         "'%s' has no output", model->name);
}
