/*
 * Where a constant of one kind is needed: extents, conditions, dtypes, assertions, `const` and
 * --set.
 */
#include "frontend/sema.h"
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* The constant that e is; FE_BAD after a diagnostic. */
static struct fe_val constant(const struct fe_ctx *cx, const struct ast *e)
{
	struct fe_ctx in = *cx;

	in.f = NULL;
	in.exact = true;
	return fe_expr(&in, e);
}

static bool wrong(const struct fe_ctx *cx, const struct ast *e, struct fe_val v, const char *want)
{
	if (v.kind == FE_TENSOR)
		fe_error(cx, DIAG_NOT_CONST, e->at,
		         "constants are numbers, names of consts and what is computed from them",
		         "this must be constant");
	else if (v.kind != FE_BAD)
		fe_error(cx, DIAG_CONST_KIND, e->at, NULL, "this must be %s, it is %s", want,
		         fe_kind_text(v.kind));
	return false;
}

bool fe_want_int(const struct fe_ctx *cx, const struct ast *e, int64_t *out, bool *known)
{
	struct fe_val v = constant(cx, e);

	*out = v.i;
	if (known)
		*known = v.kind == FE_INT;
	if (v.kind == FE_INT || (known && v.kind == FE_UNKNOWN))
		return true;
	return wrong(cx, e, v, "an integer");
}

bool fe_want_bool(const struct fe_ctx *cx, const struct ast *e, bool *out)
{
	struct fe_val v = constant(cx, e);

	*out = v.b;
	return v.kind == FE_BOOL || wrong(cx, e, v, "a bool");
}

bool fe_want_dtype(const struct fe_ctx *cx, const struct ast *e, enum ir_dtype *out)
{
	struct fe_val v = constant(cx, e);

	*out = v.dtype;
	return v.kind == FE_DTYPE || wrong(cx, e, v, "a dtype");
}

void fe_check_assert(const struct fe_ctx *cx, const struct ast *s)
{
	struct fe_val v = constant(cx, s->value);

	if (v.kind == FE_BOOL && !v.b)
		fe_error(cx, DIAG_ASSERT, s->value->at,
		         "change the constants it names, in the spec or by --set, or the assertion",
		         "this does not hold");
	else if (v.kind != FE_BOOL && v.kind != FE_UNKNOWN)
		wrong(cx, s->value, v, "a bool");
}

/* ---- const, and --set NAME=VALUE ---- */

static const struct fe_set *find_set(const struct fe *fe, const char *name)
{
	for (size_t i = 0; i < fe->o->nset; i++)
		if (!strcmp(fe->o->set[i].name, name))
			return &fe->o->set[i];
	return NULL;
}

static bool read_number(const char *s, struct fe_val *v)
{
	static const char digits[] = "0123456789";
	const char *d = s + (*s == '-');
	char *end;

	errno = 0;
	if (*d && !d[strspn(d, digits)]) {
		*v = (struct fe_val){.kind = FE_INT, .i = strtoll(s, &end, 10)};
		return errno == 0;
	}
	if (!*s || s[strspn(s, "+-.eE0123456789")])
		return false;
	/* the C locale is static in the C library: nothing to free */
	*v = (struct fe_val){.kind = FE_REAL};
	v->r = strtod_l(s, &end, newlocale(LC_ALL_MASK, "C", (locale_t)0));
	return *end == 0 && errno == 0;
}

/* The value of a --set, of the same kind as what it replaces. */
static bool read_set(const char *s, enum fe_kind kind, struct fe_val *v)
{
	int t = ir_dtype_by_name(s, strlen(s));

	if (kind == FE_BOOL && (!strcmp(s, "true") || !strcmp(s, "false"))) {
		*v = (struct fe_val){.kind = FE_BOOL, .b = *s == 't'};
		return true;
	}
	if (kind == FE_DTYPE && t >= 0) {
		*v = (struct fe_val){.kind = FE_DTYPE, .dtype = (enum ir_dtype)t};
		return true;
	}
	if ((kind != FE_INT && kind != FE_REAL) || !read_number(s, v))
		return false;
	return kind == FE_REAL || v->kind == FE_INT;
}

void fe_check_const(struct fe *fe, struct fe_scope *s, struct ast *c)
{
	struct fe_ctx cx = {.fe = fe, .scope = s, .exact = true};
	/* evaluated first, so that a const does not see itself */
	struct fe_val v = fe_expr(&cx, c->value), set = v;
	struct fe_symbol *y = fe_declare(fe, s, FE_SYM_CONST, c);
	const struct fe_set *o = s == &fe->file ? find_set(fe, c->name) : NULL;

	if (o && v.kind != FE_BAD && !read_set(o->value, v.kind, &set)) {
		fe_error(&cx, DIAG_SET, c->name_at, NULL, "--set %s=%s: this const is %s", o->name,
		         o->value, fe_kind_text(v.kind));
		set.kind = FE_BAD;
	}
	if (y)
		y->val = set;
}

void fe_check_sets(struct fe *fe)
{
	struct fe_ctx cx = {.fe = fe, .scope = &fe->file};

	for (size_t i = 0; i < fe->o->nset; i++) {
		const struct fe_symbol *y = fe_scope_own(&fe->file, fe->o->set[i].name);

		if (y && y->kind == FE_SYM_CONST)
			continue;
		fe_error(&cx, DIAG_SET, (struct span){0, 0},
		         "--set gives a const of the spec another value",
		         "--set %s: there is no const of that name", fe->o->set[i].name);
		fe_suggest(&cx, fe->o->set[i].name, FE_WANT_VALUE);
	}
}
