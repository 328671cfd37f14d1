/*
 * Names of kernels and fns, checked once whatever the types: undefined, doubled and unused names,
 * unknown calls, outputs written once, returns in their place.
 */
#include "frontend/sema.h"
#include <string.h>

struct walk {
	struct fe_ctx cx;
	struct ast *owner; /* the kernel or fn */
	struct fe_scope local;
	unsigned order; /* of the fn: it may call those declared before it */
	bool undefined; /* a name was: it may be a misspelt one, which then looks unused */
};

static void walk_expr(struct walk *w, const struct ast *e);

struct fe_symbol *fe_find_fn(const struct fe_scope *s, const char *name)
{
	for (; s; s = s->parent) {
		struct fe_symbol *y = fe_scope_own(s, name);

		if (y && y->kind == FE_SYM_FN)
			return y;
	}
	return NULL;
}

struct fe_symbol *fe_declare(struct fe *fe, struct fe_scope *s, enum fe_symbol_kind kind,
                             struct ast *decl)
{
	struct fe_ctx cx = {.fe = fe, .scope = s};
	struct fe_symbol *old = fe_scope_own(s, decl->name);

	if (fe_reserved(decl->name)) {
		fe_error(&cx, DIAG_RESERVED, decl->name_at, "choose another name",
		         "'%s' is a reserved name", decl->name);
		return NULL;
	}
	if (kind == FE_SYM_FN && fe_is_callable_name(decl->name)) {
		fe_error(&cx, DIAG_RESERVED, decl->name_at, "choose another name",
		         "'%s' is an operation of the language", decl->name);
		return NULL;
	}
	if (old) {
		fe_error(&cx, DIAG_DUPLICATE, decl->name_at, NULL, "'%s' is declared twice",
		         decl->name);
		fe_note(&cx, old->at, "the first one is here");
		return NULL;
	}
	old = fe_scope_add(s, kind, decl->name, decl->name_at, decl);
	if (kind == FE_SYM_FN)
		old->order = ++fe->nfn;
	return old;
}

/* A parameter, output or binding of a body. */
static struct fe_symbol *declare_local(struct walk *w, enum fe_symbol_kind kind, const char *name,
                                       struct span at, struct ast *decl)
{
	struct fe_symbol *old = fe_scope_find(&w->local, name);

	if (fe_reserved(name)) {
		fe_error(&w->cx, DIAG_RESERVED, at, "choose another name",
		         "'%s' is a reserved name", name);
		return NULL;
	}
	if (old && (old->kind == FE_SYM_CONST || fe_scope_own(&w->local, name))) {
		fe_error(&w->cx, DIAG_DUPLICATE, at, "names are bound once: choose another one",
		         "'%s' is bound twice", name);
		fe_note(&w->cx, old->at, "the first one is here");
		return NULL;
	}
	return fe_scope_add(&w->local, kind, name, at, decl);
}

static void walk_name(struct walk *w, const struct ast *e)
{
	struct fe_symbol *y = fe_scope_find(&w->local, e->name);

	if (!strcmp(e->name, "T") || !strcmp(e->name, "tp")) {
		fe_error(&w->cx, DIAG_LATE_NAME, e->at,
		         "T is the first extent of a type; tp has a value in models only",
		         "'%s' has no value here", e->name);
		return;
	}
	if (!y) {
		if (w->owner->lost_name || w->cx.fe->damaged)
			return;
		w->undefined = true;
		fe_error(&w->cx, DIAG_UNDEFINED, e->at, NULL, "'%s' is not defined", e->name);
		fe_suggest(&w->cx, e->name, FE_WANT_VALUE);
		return;
	}
	y->used = true;
	if (y->kind == FE_SYM_OUT)
		fe_error(&w->cx, DIAG_OUT_READ, e->at,
		         "bind the value to a name, and write that name to the output",
		         "'%s' is an output, which cannot be read", e->name);
	else if (y->kind == FE_SYM_FN || y->kind == FE_SYM_KERNEL || y->kind == FE_SYM_MODEL)
		fe_error(&w->cx, DIAG_NOT_VALUE, e->at,
		         y->kind == FE_SYM_FN ? "a function is called: give it arguments" : NULL,
		         "'%s' is a %s, not a value", e->name, ast_kind_text[y->decl->kind]);
}

/* A fn calls fns declared before it, so recursion cannot happen unseen. */
static void check_order(struct walk *w, const struct ast *e, const struct fe_symbol *fn)
{
	struct fe_symbol *self = fe_find_fn(&w->local, w->owner->name);

	if (!w->order || fn->order < w->order)
		return;
	self->recursive = true;
	if (fn->decl == w->owner)
		fe_error(&w->cx, DIAG_RECURSION, e->name_at, "a function cannot call itself",
		         "'%s' calls itself", e->name);
	else
		fe_error(&w->cx, DIAG_RECURSION, e->name_at,
		         "functions call functions that are declared before them",
		         "'%s' is declared after '%s', which calls it", e->name, w->owner->name);
}

static void walk_callee(struct walk *w, const struct ast *e)
{
	struct fe_symbol *y = fe_scope_find(&w->local, e->name), *fn;

	if (fe_is_callable_name(e->name) && strcmp(e->name, FE_GEMM))
		return;
	if (ir_dtype_by_name(e->name, strlen(e->name)) >= 0)
		return;
	fn = fe_find_fn(&w->local, e->name);
	if (fn) {
		fn->used = true;
		check_order(w, e, fn);
		return;
	}
	if (y &&
	    (y->kind == FE_SYM_CONST || (y->kind == FE_SYM_PARAM && w->owner->kind == AST_FN))) {
		y->used = true; /* a dtype, perhaps: expr.c sees */
		return;
	}
	if (y) {
		y->used = true;
		fe_error(&w->cx, DIAG_UNKNOWN_CALL, e->name_at,
		         y->kind == FE_SYM_KERNEL ? "kernels are called in models; what kernels "
		                                    "share is written as a fn"
		                                  : NULL,
		         "'%s' cannot be called here", e->name);
		return;
	}
	if (w->cx.fe->damaged)
		return;
	fe_error(&w->cx, DIAG_UNKNOWN_CALL, e->name_at, NULL,
	         "there is no operation or function '%s'", e->name);
	fe_suggest(&w->cx, e->name, FE_WANT_CALL);
}

static void walk_expr(struct walk *w, const struct ast *e)
{
	switch (e->kind) {
	case AST_NAME:
		walk_name(w, e);
		break;
	case AST_UNARY:
		walk_expr(w, e->value);
		break;
	case AST_BINARY:
		walk_expr(w, e->kids);
		walk_expr(w, e->kids->next);
		break;
	case AST_CALL:
		walk_callee(w, e);
		for (const struct ast *a = e->kids; a; a = a->next)
			walk_expr(w, a->value);
		break;
	case AST_INDEX:
		fe_error(&w->cx, DIAG_NOT_VALUE, e->at, "only a model has arrays, of weights",
		         "'%s' is not an array", e->name);
		walk_expr(w, e->value);
		break;
	default:
		break;
	}
}

static void walk_out(struct walk *w, struct ast *s)
{
	struct fe_symbol *y = fe_scope_own(&w->local, s->name);

	walk_expr(w, s->value);
	if (w->owner->kind == AST_FN) {
		fe_error(&w->cx, DIAG_OUT_UNKNOWN, s->at, "a function ends with return",
		         "a function has no outputs");
		return;
	}
	if (!y || (y->kind != FE_SYM_OUT && y->kind != FE_SYM_INOUT)) {
		fe_error(&w->cx, DIAG_OUT_UNKNOWN, s->name_at,
		         "outputs are declared after '->', or as inout parameters",
		         "'%s' is not an output of '%s'", s->name, w->owner->name);
		fe_suggest(&w->cx, s->name, FE_WANT_OUTPUT);
		return;
	}
	if (y->written) {
		fe_error(&w->cx, DIAG_OUT_TWICE, s->name_at, NULL, "'%s' is written twice",
		         s->name);
		fe_note(&w->cx, y->written_at, "the first time is here");
		return;
	}
	y->written = true;
	y->written_at = s->name_at;
}

static void walk_return(struct walk *w, const struct ast *s)
{
	walk_expr(w, s->value);
	if (w->owner->kind == AST_KERNEL)
		fe_error(&w->cx, DIAG_RETURN, s->at,
		         "a kernel writes its outputs: out NAME = value;",
		         "a kernel returns nothing");
	else if (s->next)
		fe_error(&w->cx, DIAG_RETURN, s->at, "nothing after a return is reached",
		         "a return is the last statement");
}

static void walk_stmt(struct walk *w, struct ast *s)
{
	struct fe_symbol *dtype;

	switch (s->kind) {
	case AST_BIND:
		walk_expr(w, s->value);
		dtype = s->type ? fe_scope_find(&w->local, s->type->name) : NULL;
		if (dtype)
			dtype->used = true;
		declare_local(w, FE_SYM_LOCAL, s->name, s->name_at, s);
		break;
	case AST_OUT:
		walk_out(w, s);
		break;
	case AST_RETURN:
		walk_return(w, s);
		break;
	case AST_ASSERT:
		walk_expr(w, s->value);
		break;
	default:
		break;
	}
}

static void check_unused(struct walk *w)
{
	for (const struct fe_symbol *y = w->local.first; y; y = y->next) {
		if (!y->used && !w->owner->damaged && !w->undefined &&
		    (y->kind == FE_SYM_LOCAL || y->kind == FE_SYM_PARAM))
			fe_error(&w->cx, DIAG_UNUSED, y->at, "remove it", "'%s' is not used",
			         y->name);
		if (!y->written && !w->owner->lost_name &&
		    (y->kind == FE_SYM_OUT || y->kind == FE_SYM_INOUT))
			fe_error(&w->cx, DIAG_OUT_MISSING, y->at,
			         y->kind == FE_SYM_OUT ? "write it: out NAME = value;"
			                               : "write it, or make it a plain parameter",
			         "'%s' is not written in '%s'", y->name, w->owner->name);
	}
}

static void walk_init(struct walk *w, struct fe *fe, struct fe_scope *scope, struct ast *owner)
{
	*w = (struct walk){.owner = owner};
	fe_scope_init(&w->local, fe->arena, scope);
	w->cx = (struct fe_ctx){.fe = fe, .scope = &w->local};
}

void fe_check_names_fn(struct fe *fe, struct fe_scope *scope, struct ast *fn)
{
	struct fe_symbol *self = fe_scope_own(scope, fn->name);
	const struct ast *last = NULL;
	bool had_default = false;
	struct walk w;

	walk_init(&w, fe, scope, fn);
	w.order = self && self->decl == fn ? self->order : 0;
	for (struct ast *p = fn->kids; p; p = p->next) {
		if (p->value)
			walk_expr(&w, p->value);
		else if (had_default)
			fe_error(&w.cx, DIAG_ARITY, p->at,
			         "give it a default too, or move it forward",
			         "'%s' has no default but follows a parameter that has one",
			         p->name);
		had_default |= p->value != NULL;
		declare_local(&w, FE_SYM_PARAM, p->name, p->name_at, p);
	}
	if (ast_count(fn->kids) > FE_MAX_ARGS)
		fe_error(&w.cx, DIAG_ARITY, fn->name_at, NULL,
		         "a function has at most %d parameters", FE_MAX_ARGS);
	for (struct ast *s = fn->body; s; s = s->next) {
		walk_stmt(&w, s);
		last = s;
	}
	if ((!last || last->kind != AST_RETURN) && !fn->lost_name)
		fe_error(&w.cx, DIAG_RETURN, fn->name_at, "end it with: return value;",
		         "'%s' returns nothing", fn->name);
	check_unused(&w);
	if (w.order)
		self->checked = true;
}

static void declare_param(struct walk *w, struct ast *p, bool output)
{
	enum fe_symbol_kind kind = output ? FE_SYM_OUT : p->flag ? FE_SYM_INOUT : FE_SYM_PARAM;

	for (const struct ast *a = p->type->kids; a; a = a->next)
		if (a->kind != AST_NAME || strcmp(a->name, "T"))
			walk_expr(w, a);
	for (const struct ast *a = p->attrs; a; a = a->next)
		if (a->value)
			walk_expr(w, a->value);
	declare_local(w, kind, p->name, p->name_at, p);
}

void fe_check_names_kernel(struct fe *fe, struct fe_scope *scope, struct ast *kernel)
{
	struct walk w;
	bool writes = kernel->outs != NULL;

	walk_init(&w, fe, scope, kernel);
	for (struct ast *p = kernel->kids; p; p = p->next) {
		writes |= p->flag;
		declare_param(&w, p, false);
	}
	for (struct ast *p = kernel->outs; p; p = p->next)
		declare_param(&w, p, true);
	if (!writes)
		fe_error(&w.cx, DIAG_NO_OUTPUT, kernel->name_at,
		         "declare one: -> y: f32[T, n], or an inout parameter",
		         "'%s' has no output", kernel->name);
	if (ast_count(kernel->kids) + ast_count(kernel->outs) > FE_MAX_ARGS)
		fe_error(&w.cx, DIAG_ARITY, kernel->name_at, NULL,
		         "a kernel has at most %d parameters", FE_MAX_ARGS);
	for (struct ast *s = kernel->body; s; s = s->next)
		walk_stmt(&w, s);
	check_unused(&w);
}
