/*
 * Reserved names, the builtins that the IR does not have, and suggestions for misspelt names.
 */
#include "frontend/sema.h"
#include <string.h>

const char *const fe_builtin_name[FE_NBUILTINS] = {
        [FE_CAST] = "cast",
        [FE_COLS] = "cols",
        [FE_CEIL_DIV] = "ceil_div",
};

int fe_builtin_find(const char *name)
{
	for (int i = 0; i < FE_NBUILTINS; i++)
		if (!strcmp(fe_builtin_name[i], name))
			return i;
	return -1;
}

static int public_op(const char *name)
{
	int op = ir_op_by_name(name, strlen(name));

	return op >= 0 && ir_op_info[op].pub ? op : -1;
}

bool fe_is_callable_name(const char *name)
{
	return public_op(name) >= 0 || fe_builtin_find(name) >= 0 || !strcmp(name, FE_GEMM);
}

bool fe_reserved(const char *name)
{
	return !strcmp(name, "T") || !strcmp(name, "tp") || !strcmp(name, "true") ||
	       !strcmp(name, "false") || ir_dtype_by_name(name, strlen(name)) >= 0;
}

enum { MAX_CALL_NOTES = 8 };

void fe_error(const struct fe_ctx *cx, enum diag_code code, struct span at, const char *fix,
              const char *fmt, ...)
{
	va_list ap;
	const char *text;

	va_start(ap, fmt);
	text = arena_vprintf(cx->fe->arena, fmt, ap);
	va_end(ap);
	diag_at(cx->fe->diags, DIAG_ERROR, code, at, "%s", text);
	if (fix)
		diag_note(cx->fe->diags, (struct span){0, 0}, "%s", fix);
	for (int n = 0; cx && cx->fn && n < MAX_CALL_NOTES; cx = cx->caller, n++)
		diag_note(cx->fe->diags, cx->call_at, "in this call of '%s'", cx->fn->name);
}

void fe_note(const struct fe_ctx *cx, struct span at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	diag_note(cx->fe->diags, at, "%s", arena_vprintf(cx->fe->arena, fmt, ap));
	va_end(ap);
}

/* A list of names for nearest_name. */
struct names {
	struct arena *arena;
	const char **s;
	size_t n, cap;
};

static void add(struct names *l, const char *s)
{
	l->s = arena_grow(l->arena, l->s, l->n, &l->cap, l->n + 1, sizeof(*l->s));
	l->s[l->n++] = s;
}

enum { ENOUGH_ERRORS = 100, ENOUGH_NAMES = 5000 };

static bool suits(const struct fe_symbol *y, enum fe_want want)
{
	switch (want) {
	case FE_WANT_CALL:
		return y->kind == FE_SYM_FN;
	case FE_WANT_KERNEL:
		return y->kind == FE_SYM_KERNEL;
	case FE_WANT_OUTPUT:
		return y->kind == FE_SYM_OUT || y->kind == FE_SYM_INOUT;
	default:
		return y->kind == FE_SYM_CONST || y->kind >= FE_SYM_LOCAL;
	}
}

/* A const that is declared behind its use. */
static bool note_later(const struct fe_ctx *cx, const char *name)
{
	for (const struct ast *d = cx->fe->decls; d; d = d->next)
		if (d->kind == AST_CONST && !strcmp(d->name, name)) {
			diag_note(cx->fe->diags, d->name_at, "it is declared here, after its use");
			return true;
		}
	return false;
}

void fe_suggest(const struct fe_ctx *cx, const char *name, enum fe_want want)
{
	struct names l = {.arena = cx->fe->arena};
	const char *near;

	/* later errors are not shown, and a search for each would make the time quadratic */
	if (cx->fe->diags->nerror > ENOUGH_ERRORS)
		return;
	for (const struct fe_scope *s = cx->scope; s; s = s->parent)
		for (const struct fe_symbol *y = s->first; y && l.n < ENOUGH_NAMES; y = y->next)
			if (suits(y, want))
				add(&l, y->name);
	for (int i = 0; want == FE_WANT_CALL && i < IR_NOPS; i++)
		if (ir_op_info[i].pub)
			add(&l, ir_op_info[i].text);
	for (int i = 0; want == FE_WANT_CALL && i < FE_NBUILTINS; i++)
		add(&l, fe_builtin_name[i]);
	if (want == FE_WANT_KERNEL)
		add(&l, FE_GEMM);
	if (want == FE_WANT_VALUE && note_later(cx, name))
		return;
	near = nearest_name(name, l.s, l.n);
	if (near)
		diag_note(cx->fe->diags, (struct span){0, 0}, "did you mean '%s'?", near);
}
