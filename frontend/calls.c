/*
 * Calls of operations and builtins; arguments by position and by name.
 */
#include "frontend/sema.h"
#include <string.h>

static struct fe_val bad(void)
{
	return (struct fe_val){.kind = FE_BAD};
}

/* ---- arguments ---- */

static int find_name(const char *const *names, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return (int)i;
	return -1;
}

/* "rmsnorm(x, w, eps)" */
static const char *signature(const struct fe_ctx *cx, const char *callee, const char *const *names,
                             unsigned n)
{
	struct strbuf b;

	strbuf_init(&b, cx->fe->arena);
	strbuf_printf(&b, "%s(", callee);
	for (unsigned i = 0; i < n; i++)
		strbuf_printf(&b, "%s%s", i ? ", " : "", names[i]);
	strbuf_puts(&b, ")");
	return b.s;
}

static bool no_such_keyword(const struct fe_ctx *cx, const struct ast *call, const struct ast *a,
                            const char *const *names, unsigned n)
{
	const char *near = nearest_name(a->name, names, n);

	fe_error(cx, DIAG_KEYWORD, a->name_at,
	         arena_printf(cx->fe->arena, "it is %s", signature(cx, call->name, names, n)),
	         "'%s' has no parameter '%s'", call->name, a->name);
	if (near)
		fe_note(cx, (struct span){0, 0}, "did you mean '%s'?", near);
	return false;
}

static bool too_many(const struct fe_ctx *cx, const struct ast *call, const struct ast *a,
                     const char *const *names, unsigned n)
{
	fe_error(cx, DIAG_ARITY, a->at,
	         arena_printf(cx->fe->arena, "it is %s", signature(cx, call->name, names, n)),
	         "'%s' takes %u argument%s, not %zu", call->name, n, n == 1 ? "" : "s",
	         ast_count(call->kids));
	return false;
}

bool fe_match_args(const struct fe_ctx *cx, const struct ast *call, const char *const *names,
                   unsigned n, unsigned need, struct fe_args *out)
{
	unsigned next = 0;
	bool named = false;

	*out = (struct fe_args){.n = n};
	for (const struct ast *a = call->kids; a; a = a->next) {
		int i = a->name ? find_name(names, n, a->name) : (int)next++;

		if (i < 0)
			return no_such_keyword(cx, call, a, names, n);
		if ((unsigned)i >= n)
			return too_many(cx, call, a, names, n);
		if (!a->name && named) {
			fe_error(cx, DIAG_KEYWORD, a->at, "give it a name, or move it forward",
			         "an argument without a name follows one with a name");
			return false;
		}
		if (out->arg[i]) {
			fe_error(cx, DIAG_ARG_TWICE, a->at, NULL, "'%s' is given twice", names[i]);
			return false;
		}
		named |= a->name != NULL;
		out->arg[i] = a->value;
	}
	for (unsigned i = 0; i < need; i++)
		if (!out->arg[i]) {
			fe_error(cx, DIAG_ARITY, call->at,
			         arena_printf(cx->fe->arena, "it is %s",
			                      signature(cx, call->name, names, n)),
			         "'%s' is called without '%s'", call->name, names[i]);
			return false;
		}
	return true;
}

/* ---- builtins ---- */

static struct fe_val call_cols(struct fe_ctx *cx, const struct ast *e)
{
	struct fe_val v = fe_expr(cx, e);

	if (v.kind == FE_BAD)
		return v;
	if (v.kind == FE_TENSOR)
		return (struct fe_val){.kind = FE_INT, .i = v.v->type.cols};
	if (fe_is_number(v))
		return (struct fe_val){.kind = FE_INT, .i = 1};
	fe_error(cx, DIAG_NOT_VALUE, e->at, NULL, "cols() needs a value, this is %s",
	         fe_kind_text(v.kind));
	return bad();
}

static struct fe_val call_builtin(struct fe_ctx *cx, enum fe_builtin b, const struct ast *e)
{
	static const char *const names[FE_NBUILTINS][2] = {
	        [FE_CAST] = {"x", "dtype"}, [FE_COLS] = {"x", NULL}, [FE_CEIL_DIV] = {"a", "b"}};
	unsigned n = b == FE_COLS ? 1 : 2;
	enum ir_dtype t;
	struct fe_args args;
	struct fe_val x;

	if (!fe_match_args(cx, e, names[b], n, n, &args))
		return bad();
	if (b == FE_COLS)
		return call_cols(cx, args.arg[0]);
	x = fe_expr(cx, args.arg[0]);
	if (b == FE_CEIL_DIV)
		return fe_ceil_div(cx, e->at, x, fe_expr(cx, args.arg[1]));
	return fe_want_dtype(cx, args.arg[1], &t) ? fe_cast(cx, x, t, e->at) : bad();
}

/* ---- operations ---- */

const char *fe_attribute_of(enum ir_op op)
{
	if (ir_op_info[op].kind == IR_KIND_GROUP)
		return "n";
	return ir_op_info[op].linear == IR_LIN_COLL ? "out" : NULL;
}

enum { MAX_OPERANDS = 3 };

/* Sets the attribute of v from its argument. */
static bool set_attribute(struct fe_ctx *cx, struct ir_value *v, const struct ast *arg)
{
	enum ir_dtype t;

	if (!arg)
		return true;
	if (ir_op_info[v->op].kind == IR_KIND_GROUP)
		return fe_want_int(cx, arg, &v->n, NULL);
	if (!fe_want_dtype(cx, arg, &t))
		return false;
	v->type.dtype = (uint8_t)t;
	return true;
}

static struct fe_val make_op(struct fe_ctx *cx, enum ir_op op, const struct ast *e,
                             const struct fe_args *args, const struct fe_val *val, unsigned n)
{
	struct ir_value *src[MAX_OPERANDS], *v;
	struct span at[MAX_OPERANDS];
	bool ok = true;

	if (!cx->f) {
		fe_error(cx, DIAG_NOT_CONST, e->at,
		         "constants are numbers, names of consts and what is computed from them",
		         "this must be constant");
		return bad();
	}
	for (unsigned i = 0; i < n; i++) {
		at[i] = args->arg[i]->at;
		src[i] = val[i].kind == FE_BAD ? NULL : fe_tensor(cx, val[i], at[i]);
		ok &= src[i] != NULL;
	}
	if (!ok)
		return bad();
	v = ir_value_new(cx->f, op, e->at, n, src);
	if (!set_attribute(cx, v, args->arg[n]))
		return bad();
	return fe_emit(cx, v, at);
}

static struct fe_val call_op(struct fe_ctx *cx, enum ir_op op, const struct ast *e)
{
	const char *names[MAX_OPERANDS + 1] = {"a", "b", "c"};
	const char *attr = fe_attribute_of(op);
	unsigned n = (unsigned)ir_op_info[op].nsrc, all = n;
	struct fe_val val[MAX_OPERANDS], folded;
	struct fe_args args;
	unsigned i = 0;

	if (attr)
		names[all++] = attr;
	if (!fe_match_args(cx, e, names, all, n + (ir_op_info[op].kind == IR_KIND_GROUP), &args))
		return bad();
	/* where the condition is constant, only the arm that is taken is looked at */
	if (op == IR_OP_SELECT) {
		val[i] = fe_expr(cx, args.arg[i]);
		if (val[i].kind == FE_BOOL)
			return fe_expr(cx, args.arg[val[i].b ? 1 : 2]);
		i++;
	}
	for (; i < n; i++)
		val[i] = fe_expr(cx, args.arg[i]);
	for (i = 0; i < n; i++)
		if (val[i].kind == FE_BAD)
			return bad();
	if (fe_const_call(cx, (int)op, e->at, val, n, &folded))
		return folded;
	return make_op(cx, op, e, &args, val, n);
}

struct fe_val fe_call_expr(struct fe_ctx *cx, const struct ast *e)
{
	static const char *const one[] = {"x"};
	int builtin = fe_builtin_find(e->name);
	int op = ir_op_by_name(e->name, strlen(e->name));
	struct fe_symbol *y = fe_find_fn(cx->scope, e->name);
	struct fe_args args;

	if (builtin >= 0)
		return call_builtin(cx, (enum fe_builtin)builtin, e);
	if (op >= 0 && ir_op_info[op].pub)
		return call_op(cx, (enum ir_op)op, e);
	if (y)
		return fe_call_fn(cx, e, y);
	y = fe_scope_find(cx->scope, e->name);
	if (y && y->val.kind == FE_DTYPE)
		return fe_match_args(cx, e, one, 1, 1, &args)
		               ? fe_cast(cx, fe_expr(cx, args.arg[0]), y->val.dtype, e->at)
		               : bad();
	if (y && (y->kind == FE_SYM_CONST || y->kind == FE_SYM_PARAM || y->kind == FE_SYM_LOCAL) &&
	    y->val.kind != FE_BAD) {
		fe_error(cx, DIAG_UNKNOWN_CALL, e->name_at, NULL, "'%s' cannot be called: it is %s",
		         e->name, fe_kind_text(y->val.kind));
	} else if (!y && !cx->walked) {
		fe_error(cx, DIAG_UNKNOWN_CALL, e->name_at, NULL,
		         "there is no operation or function '%s'", e->name);
		fe_suggest(cx, e->name, FE_WANT_CALL);
	}
	return bad();
}
