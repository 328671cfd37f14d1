/*
 * fe_lower: declarations in order, names first, then kernels to IR and models.
 */
#include "frontend/model.h"
#include <string.h>

extern const char fe_prelude_text[];
extern const unsigned fe_prelude_len;

static void add_constant(struct fe_scope *s, const char *name, struct fe_val v)
{
	fe_scope_add(s, FE_SYM_CONST, name, (struct span){0, 0}, NULL)->val = v;
}

static void add_builtin_names(struct fe *fe)
{
	add_constant(&fe->builtin, "true", (struct fe_val){.kind = FE_BOOL, .b = true});
	add_constant(&fe->builtin, "false", (struct fe_val){.kind = FE_BOOL});
	for (int i = 0; i < IR_NDTYPES; i++)
		add_constant(&fe->builtin, ir_dtype_info[i].text,
		             (struct fe_val){.kind = FE_DTYPE, .dtype = (enum ir_dtype)i});
}

static void declare(struct fe *fe, struct fe_scope *s, struct ast *d)
{
	static const int kind[AST_NKINDS] = {
	        [AST_FN] = FE_SYM_FN, [AST_KERNEL] = FE_SYM_KERNEL, [AST_MODEL] = FE_SYM_MODEL};

	if (kind[d->kind])
		fe_declare(fe, s, (enum fe_symbol_kind)kind[d->kind], d);
}

/* Consts and fns in their order, so that they see those before them, and no fn is called unchecked.
 */
static void check_in_order(struct fe *fe, struct fe_scope *s, struct ast *d)
{
	struct fe_ctx cx = {.fe = fe, .scope = s};

	if (d->kind == AST_CONST)
		fe_check_const(fe, s, d);
	else if (d->kind == AST_ASSERT)
		fe_check_assert(&cx, d);
	else if (d->kind == AST_FN)
		fe_check_names_fn(fe, s, d);
}

static void load_prelude(struct fe *fe)
{
	const struct source *src =
	        diags_add_source(fe->diags, "prelude.plait", fe_prelude_text, fe_prelude_len);
	struct ast_file *f = src ? fe_parse(fe->arena, fe->diags, src) : NULL;

	for (struct ast *d = f ? f->decls : NULL; d; d = d->next)
		declare(fe, &fe->prelude, d);
	for (struct ast *d = f ? f->decls : NULL; d; d = d->next)
		check_in_order(fe, &fe->prelude, d);
}

static void check_empty(struct fe *fe, const struct ast_file *ast)
{
	struct fe_ctx cx = {.fe = fe, .scope = &fe->file};
	struct span at = {ast->src->base, ast->src->base};

	for (const struct ast *d = ast->decls; d; d = d->next)
		if (d->kind == AST_KERNEL || d->kind == AST_MODEL)
			return;
	if (!ast->lost_kernel)
		fe_error(&cx, DIAG_EMPTY, at,
		         "kernel NAME(x: bf16[T, 8192] partial) -> y: bf16[T, 8192] { out y = "
		         "all_reduce(x); }",
		         "there is no kernel and no model in this file");
}

static void check_file(struct fe *fe, struct ast_file *ast)
{
	check_empty(fe, ast);
	for (struct ast *d = ast->decls; d; d = d->next)
		declare(fe, &fe->file, d);
	for (struct ast *d = ast->decls; d; d = d->next)
		check_in_order(fe, &fe->file, d);
	fe_check_sets(fe);
	for (struct ast *d = ast->decls; d; d = d->next)
		if (d->kind == AST_KERNEL) {
			fe_check_names_kernel(fe, &fe->file, d);
			fe_lower_kernel(fe, d);
		}
	for (struct ast *d = ast->decls; d; d = d->next)
		if (d->kind == AST_MODEL)
			fe_check_model(fe, d);
}

static void list_steps(struct fe *fe, const struct ast_file *ast)
{
	struct fe_steps **tail = fe->o->steps;

	*tail = NULL;
	for (struct ast *d = ast->decls; d; d = d->next)
		if (d->kind == AST_MODEL) {
			*tail = fe_model_steps(fe, d);
			tail = &(*tail)->next;
		}
}

/* The module's list is in order of creation, and has functions that turned out to be constants. */
static void link_functions(struct fe *fe)
{
	struct ir_module *m = fe->module;

	m->funcs = NULL;
	m->tail = &m->funcs;
	for (size_t i = 0; i < fe->ndone; i++) {
		fe->done[i]->next = NULL;
		*m->tail = fe->done[i];
		m->tail = &fe->done[i]->next;
	}
}

struct ir_module *fe_lower(struct arena *a, struct diags *d, struct ast_file *ast,
                           const struct fe_options *o)
{
	static const struct fe_options none;
	struct fe *fe = arena_new(a, struct fe);

	if (!ast)
		return NULL;
	*fe = (struct fe){.arena = a, .diags = d, .o = o ? o : &none, .decls = ast->decls};
	fe->module = ir_module_new(a);
	fe->damaged = ast->damaged;
	fe->lost_kernel = ast->lost_kernel;
	fe_scope_init(&fe->builtin, a, NULL);
	fe_scope_init(&fe->prelude, a, &fe->builtin);
	fe_scope_init(&fe->file, a, &fe->prelude);
	add_builtin_names(fe);
	load_prelude(fe);
	check_file(fe, ast);
	if (d->nerror)
		return NULL;
	if (fe->o->steps && fe->o->tp)
		list_steps(fe, ast);
	link_functions(fe);
	return d->nerror ? NULL : fe->module;
}
