/*
 * Types and properties as they are written behind a parameter.
 */
#include "frontend/sema.h"
#include <string.h>

bool fe_is_rows(const struct ast *dim)
{
	return dim && dim->kind == AST_NAME && !strcmp(dim->name, "T");
}

bool fe_type_dtype(const struct fe_ctx *cx, const struct ast *type, enum ir_dtype *t)
{
	struct fe_symbol *y = fe_scope_find(cx->scope, type->name);
	const char *names[IR_NDTYPES], *near;

	if (y)
		y->used = true;
	if (y && y->val.kind == FE_DTYPE && y->val.dtype != IR_BOOL) {
		*t = y->val.dtype;
		return true;
	}
	if (y && y->val.kind == FE_BAD && y->kind == FE_SYM_CONST)
		return false;
	fe_error(cx, DIAG_DTYPE, type->name_at,
	         "dtypes are f32, bf16, f16, e4m3, e5m2, e8m0, e2m1, and consts that are one of "
	         "them",
	         "'%s' is not a dtype that memory can hold", type->name);
	for (int i = 0; i < IR_NDTYPES; i++)
		names[i] = ir_dtype_info[i].text;
	near = nearest_name(type->name, names, IR_NDTYPES);
	if (near && strcmp(near, type->name))
		fe_note(cx, (struct span){0, 0}, "did you mean '%s'?", near);
	return false;
}

static void set_once(const struct fe_ctx *cx, const struct ast **where, const struct ast *a,
                     const char *what)
{
	if (*where) {
		fe_error(cx, DIAG_ATTRIBUTE, a->at, NULL, "a parameter has one %s", what);
		fe_note(cx, (*where)->at, "the first one is here");
		return;
	}
	*where = a;
}

struct fe_attrs fe_read_attrs(const struct fe_ctx *cx, const struct ast *attrs)
{
	struct fe_attrs r = {0};

	for (const struct ast *a = attrs; a; a = a->next) {
		if (!strcmp(a->name, "when"))
			set_once(cx, &r.when, a, "'when'");
		else if (!a->value)
			set_once(cx, &r.place, a, "placement");
		else if (!strcmp(a->name, "ld"))
			set_once(cx, &r.ld, a, "leading dimension");
		else if (!strcmp(a->name, "align"))
			set_once(cx, &r.align, a, "alignment");
		else
			fe_error(cx, DIAG_ATTRIBUTE, a->name_at,
			         "properties are 'ld = N' and 'align = N'",
			         "'%s' is not a property", a->name);
	}
	return r;
}
