/*
 * From a model that is right to its steps.  Walks the statements again, each turn of each loop, and
 * keeps what fe_model_call finds; types and placements are those of the checks.
 */
#include "frontend/model.h"
#include <string.h>

struct walk {
	struct fe_model m; /* depth stays 0: an index has one value at a time */
	struct fe_steps *to;
	struct fe_mvalue *value;
	struct fe_step *step;
	uint32_t *output;
	size_t value_cap, step_cap, output_cap;
	bool full;
};

static struct arena *memory(struct walk *w)
{
	return w->m.fe->arena;
}

static uint32_t add_value(struct walk *w, const char *name, const struct fe_mvar *v)
{
	uint32_t n = w->to->nvalue++;

	w->value = arena_grow(memory(w), w->value, n, &w->value_cap, n + 1, sizeof *w->value);
	w->value[n] = (struct fe_mvalue){.name = name,
	                                 .kind = v->kind,
	                                 .dtype = v->type.dtype,
	                                 .place = v->type.place,
	                                 .rows = v->type.rows,
	                                 .ndim = v->type.ndim,
	                                 .dim = {v->type.dim[0], v->type.dim[1]},
	                                 .count = v->array ? v->count : 0};
	return n;
}

static void declaration(struct walk *w, const struct ast *s)
{
	static const bool allowed[FE_NMPLACES] = {true, true, true, true, true, true, true};
	static const enum fe_mkind kind[AST_NDECLS] = {FE_M_INPUT, FE_M_STATE, FE_M_WEIGHT};
	struct fe_mvar *v = arena_new(memory(w), struct fe_mvar);
	bool known;

	v->kind = kind[s->op];
	v->array = s->value != NULL;
	if (v->array)
		fe_want_int(&w->m.cx, s->value, &v->count, &known);
	v->type = fe_model_type(&w->m, s->type, s->attrs, allowed);
	v->value = add_value(w, s->name, v);
	fe_scope_add(w->m.cx.scope, FE_SYM_LOCAL, s->name, s->name_at, NULL)->model = v;
}

static struct fe_operand operand(struct walk *w, const struct ast *e)
{
	struct fe_operand o = {0, 0};
	struct fe_symbol *y = fe_scope_find(w->m.cx.scope, e->name);
	bool known;

	if (y && y->model)
		o.value = ((struct fe_mvar *)y->model)->value;
	if (e->kind == AST_INDEX)
		fe_want_int(&w->m.cx, e->value, &o.index, &known);
	return o;
}

/* Operands in the order of `names` (those not given are left out), or as they stand. */
static void operands(struct walk *w, struct fe_step *s, const struct ast *e,
                     const char *const *names, unsigned n)
{
	struct fe_operand *in = arena_news(memory(w), struct fe_operand, FE_MAX_ARGS);
	struct fe_args a = {0};

	if (names && !fe_match_args(&w->m.cx, e, names, n, 0, &a))
		return;
	for (const struct ast *p = names ? NULL : e->kids; p; p = p->next)
		a.arg[a.n < FE_MAX_ARGS ? a.n++ : 0] = p->value;
	for (unsigned i = 0; i < a.n; i++)
		if (a.arg[i])
			in[s->nin++] = operand(w, a.arg[i]);
	s->in = in;
}

static void of_gemm(struct walk *w, struct fe_step *s, const struct ast *e)
{
	/* `out` is a dtype, and the result's type has it */
	static const char *const names[] = {"x", "w", "bias", "out"};
	struct ast call = *e, *p, **tail = &call.kids;
	unsigned at = 0;

	s->kind = FE_STEP_GEMM;
	call.kids = NULL;
	for (const struct ast *a = e->kids; a; a = a->next, at++) {
		if (a->name ? !strcmp(a->name, "out") : at == 3)
			continue;
		p = arena_new(memory(w), struct ast);
		*p = *a;
		p->next = NULL;
		*tail = p;
		tail = &p->next;
	}
	operands(w, s, &call, names, 4);
	s->name = s->nin > 1 ? w->value[s->in[1].value].name : "";
}

static void of_kernel(struct walk *w, struct fe_step *s, const struct ast *e)
{
	const struct fe_symbol *y = fe_scope_find(&w->m.fe->file, e->name);
	const char *names[FE_MAX_ARGS];
	unsigned n = 0;

	s->kind = FE_STEP_KERNEL;
	s->func = y ? y->func : NULL;
	for (unsigned i = 0; s->func && i < s->func->nparam; i++)
		if (s->func->param[i].mode != IR_OUT && n < FE_MAX_ARGS)
			names[n++] = s->func->param[i].name;
	operands(w, s, e, names, n);
}

static void of_opaque(struct walk *w, struct fe_step *s, const struct ast *e)
{
	s->kind = FE_STEP_OPAQUE;
	operands(w, s, e, NULL, 0);
	fe_model_cost(&w->m, e->value, &s->cost, s->arg);
}

static struct fe_step step_of(struct walk *w, const struct ast *e)
{
	struct fe_step s = {.name = e->name, .at = e->at};

	if (e->kind == AST_OPAQUE)
		of_opaque(w, &s, e);
	else if (!strcmp(e->name, FE_GEMM))
		of_gemm(w, &s, e);
	else
		of_kernel(w, &s, e);
	return s;
}

static uint32_t assign(struct walk *w, const struct ast *target, struct fe_mtype t)
{
	const char *name = (target->kind == AST_ARG ? target->value : target)->name;
	struct fe_symbol *y = fe_scope_find(w->m.cx.scope, name);
	struct fe_mvar *v;

	if (!y || !y->model) {
		y = fe_scope_add(w->m.cx.scope, FE_SYM_LOCAL, name, target->at, NULL);
		y->model = arena_new(memory(w), struct fe_mvar);
	}
	v = y->model;
	v->kind = FE_M_VALUE;
	v->type = t;
	v->value = add_value(w, name, v);
	return v->value;
}

static void binding(struct walk *w, const struct ast *b)
{
	struct fe_mtype result[FE_MAX_RESULTS];
	struct fe_step s;
	uint32_t *out;
	unsigned n = 0;

	if (w->to->nstep == FE_MAX_STEPS) {
		if (!w->full)
			fe_error(&w->m.cx, DIAG_TOO_LARGE, w->m.decl->name_at, NULL,
			         "'%s' has more than %d steps", w->to->name, FE_MAX_STEPS);
		w->full = true;
		return;
	}
	s = step_of(w, b->value);
	if (!fe_model_call(&w->m, b->value, result, &n))
		return;
	out = arena_news(memory(w), uint32_t, n);
	for (const struct ast *t = b->kids; t && s.nout < n; t = t->next, s.nout++)
		out[s.nout] = assign(w, t, result[s.nout]);
	s.out = out;
	w->step = arena_grow(memory(w), w->step, w->to->nstep, &w->step_cap, w->to->nstep + 1,
	                     sizeof *w->step);
	w->step[w->to->nstep++] = s;
}

static void statements(struct walk *w, const struct ast *s);

static void repeat(struct walk *w, const struct ast *s)
{
	struct fe_scope *outer = w->m.cx.scope;
	int64_t lo = 0, hi = 0;
	bool known;

	fe_want_int(&w->m.cx, s->kids->value, &lo, &known);
	fe_want_int(&w->m.cx, s->kids->next->value, &hi, &known);
	for (int64_t i = lo; i < hi && !w->full; i++) {
		struct fe_scope *turn = arena_new(memory(w), struct fe_scope);
		struct fe_symbol *y;

		fe_scope_init(turn, memory(w), outer);
		y = fe_scope_add(turn, FE_SYM_CONST, s->name, s->name_at, NULL);
		y->val = (struct fe_val){.kind = FE_INT, .i = i};
		w->m.cx.scope = turn;
		statements(w, s->body);
	}
	w->m.cx.scope = outer;
}

static void output(struct walk *w, const struct ast *s)
{
	uint32_t n = w->to->noutput++;

	w->output = arena_grow(memory(w), w->output, n, &w->output_cap, n + 1, sizeof *w->output);
	w->output[n] = operand(w, s->value).value;
}

static void statements(struct walk *w, const struct ast *s)
{
	for (; s && !w->full; s = s->next) {
		if (s->kind == AST_DECL)
			declaration(w, s);
		else if (s->kind == AST_BIND)
			binding(w, s);
		else if (s->kind == AST_REPEAT)
			repeat(w, s);
		else if (s->kind == AST_OUTPUT)
			output(w, s);
	}
}

struct fe_steps *fe_model_steps(struct fe *fe, struct ast *model)
{
	struct walk *w = arena_new(fe->arena, struct walk);

	w->to = arena_new(fe->arena, struct fe_steps);
	w->to->name = model->name;
	w->to->at = model->name_at;
	w->m.fe = fe;
	w->m.decl = model;
	fe_scope_init(&w->m.scope, fe->arena, &fe->file);
	w->m.cx = (struct fe_ctx){.fe = fe, .scope = &w->m.scope, .exact = true, .in_model = true};
	statements(w, model->body);
	w->to->value = w->value;
	w->to->step = w->step;
	w->to->output = w->output;
	return w->to;
}
