/*
 * Expressions: constants are computed, the rest becomes IR.  Every value is typed by ir_infer, and
 * its errors become diagnostics with the caret on the operand at fault.
 */
#include "frontend/sema.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_VALUES = 1 << 16, MAX_NEST = 1000 };

static struct fe_val bad(void)
{
	return (struct fe_val){.kind = FE_BAD};
}

static struct fe_val from_value(struct ir_value *v)
{
	return (struct fe_val){.kind = FE_TENSOR, .v = v};
}

static struct fe_val not_constant(const struct fe_ctx *cx, struct span at)
{
	fe_error(cx, DIAG_NOT_CONST, at,
	         "constants are numbers, names of consts and what is computed from them",
	         "this must be constant");
	return bad();
}

struct fe_val fe_emit(struct fe_ctx *cx, struct ir_value *v, const struct span *at_src)
{
	unsigned at_fault = 0;
	struct ir_type t = {0};
	enum ir_type_error e = ir_infer(cx->f, v, &t, &at_fault);

	if (e) {
		fe_error(cx, ir_type_error_code(e), at_fault < v->nsrc ? at_src[at_fault] : v->at,
		         ir_type_error_fix(e), "%s",
		         ir_type_error_text(cx->fe->arena, e, v, at_fault));
		return bad();
	}
	if (++cx->size > MAX_VALUES) {
		if (!cx->full)
			fe_error(cx, DIAG_TOO_LARGE, v->at,
			         "split the kernel, or call fewer functions",
			         "more than %d operations, with all functions expanded",
			         MAX_VALUES);
		cx->full = true;
		return bad();
	}
	v->type = t;
	ir_append(cx->f, v);
	return from_value(v);
}

static struct ir_value *constant_value(struct fe_ctx *cx, double r, struct span at)
{
	struct ir_value *v;

	if (fabs(r) > (double)FLT_MAX) {
		fe_error(cx, DIAG_OVERFLOW, at, "arithmetic is f32", "%g does not fit f32", r);
		return NULL;
	}
	v = ir_value_new(cx->f, IR_OP_CONST, at, 0, NULL);
	v->num = r;
	return fe_emit(cx, v, NULL).v;
}

struct ir_value *fe_tensor(struct fe_ctx *cx, struct fe_val v, struct span at)
{
	switch (v.kind) {
	case FE_TENSOR:
		return v.v;
	case FE_INT:
	case FE_REAL:
		return constant_value(cx, fe_real(v), at);
	case FE_ABSENT:
		fe_error(cx, DIAG_ABSENT, at,
		         "use it only where its condition holds: select(condition, with, without)",
		         "this parameter is absent, its 'when' does not hold");
		return NULL;
	case FE_BAD:
		return NULL;
	default:
		fe_error(cx, DIAG_CONST_KIND, at, NULL, "a number is needed, this is %s",
		         fe_kind_text(v.kind));
		return NULL;
	}
}

struct fe_val fe_cast(struct fe_ctx *cx, struct fe_val a, enum ir_dtype t, struct span at)
{
	struct ir_value *src, *v;

	if (!cx->f)
		return a.kind == FE_BAD ? a : not_constant(cx, at);
	src = fe_tensor(cx, a, at);
	if (!src)
		return bad();
	if (src->type.dtype == t)
		return from_value(src);
	v = ir_value_new(cx->f, IR_OP_CAST, at, 1, &src);
	v->type.dtype = (uint8_t)t;
	return fe_emit(cx, v, &at);
}

static struct fe_val tp_value(const struct fe_ctx *cx, const struct ast *e)
{
	unsigned tp = cx->fe->o->tp;

	if (cx->in_model)
		return (struct fe_val){.kind = tp ? FE_INT : FE_UNKNOWN, .i = tp};
	if (!cx->walked)
		fe_error(cx, DIAG_LATE_NAME, e->at, "write what depends on tp into the model",
		         "'tp' has a value in models only");
	return bad();
}

static struct fe_val name_value(struct fe_ctx *cx, const struct ast *e)
{
	struct fe_symbol *y = fe_scope_find(cx->scope, e->name);

	if (!strcmp(e->name, "tp"))
		return tp_value(cx, e);
	if (y && y->kind == FE_SYM_OUT)
		return bad();
	if (y && (y->kind == FE_SYM_CONST || y->kind >= FE_SYM_LOCAL)) {
		y->used = true;
		return y->model ? not_constant(cx, e->at) : y->val;
	}
	if (cx->walked || cx->fe->damaged)
		return bad();
	if (!strcmp(e->name, "T")) {
		fe_error(cx, DIAG_LATE_NAME, e->at, "T is the first extent of a type",
		         "'T' is known at launch only");
	} else if (y) {
		fe_error(cx, DIAG_NOT_VALUE, e->at, NULL, "'%s' is a %s, not a value", e->name,
		         ast_kind_text[y->decl->kind]);
	} else {
		fe_error(cx, DIAG_UNDEFINED, e->at, NULL, "'%s' is not defined", e->name);
		fe_suggest(cx, e->name, FE_WANT_VALUE);
	}
	return bad();
}

static const enum ir_op op_of[AST_NOPS] = {
        [AST_EQ] = IR_OP_EQ,   [AST_NE] = IR_OP_NE,   [AST_LT] = IR_OP_LT,   [AST_LE] = IR_OP_LE,
        [AST_GT] = IR_OP_GT,   [AST_GE] = IR_OP_GE,   [AST_ADD] = IR_OP_ADD, [AST_SUB] = IR_OP_SUB,
        [AST_MUL] = IR_OP_MUL, [AST_DIV] = IR_OP_DIV,
};

static bool is_tensor(struct fe_val v)
{
	return v.kind == FE_TENSOR || v.kind == FE_ABSENT;
}

static struct fe_val binary(struct fe_ctx *cx, const struct ast *e)
{
	const struct ast *ea = e->kids, *eb = e->kids->next;
	struct span at[2] = {ea->at, eb->at};
	enum ast_op op = (enum ast_op)e->op;
	struct fe_val a = fe_expr(cx, ea), b = fe_expr(cx, eb);
	struct ir_value *src[2];

	if (!is_tensor(a) && !is_tensor(b))
		return fe_const_binary(cx, op, e, a, b);
	if (a.kind == FE_BAD || b.kind == FE_BAD)
		return bad();
	if (!cx->f)
		return not_constant(cx, is_tensor(a) ? at[0] : at[1]);
	if (op == AST_AND || op == AST_OR || op == AST_REM) {
		fe_error(cx, DIAG_NOT_CONST, e->at, op == AST_REM ? NULL : "nest select() instead",
		         "'%s' is for constants", ast_op_text[op]);
		return bad();
	}
	src[0] = fe_tensor(cx, a, at[0]);
	src[1] = fe_tensor(cx, b, at[1]);
	if (!src[0] || !src[1])
		return bad();
	return fe_emit(cx, ir_value_new(cx->f, op_of[op], e->at, 2, src), at);
}

static struct fe_val unary(struct fe_ctx *cx, const struct ast *e)
{
	struct fe_val a = fe_expr(cx, e->value);
	struct ir_value *src;

	if (!is_tensor(a))
		return fe_const_unary(cx, (enum ast_op)e->op, e->at, a);
	if (!cx->f || e->op == AST_NOT)
		return not_constant(cx, e->value->at);
	src = fe_tensor(cx, a, e->value->at);
	if (!src)
		return bad();
	return fe_emit(cx, ir_value_new(cx->f, IR_OP_NEG, e->at, 1, &src), &e->value->at);
}

static struct fe_val expression(struct fe_ctx *cx, const struct ast *e)
{
	switch (e->kind) {
	case AST_INT:
		return (struct fe_val){.kind = FE_INT, .i = e->i};
	case AST_REAL:
		return (struct fe_val){.kind = FE_REAL, .r = e->r};
	case AST_NAME:
		return name_value(cx, e);
	case AST_UNARY:
		return unary(cx, e);
	case AST_BINARY:
		return binary(cx, e);
	case AST_CALL:
		return fe_call_expr(cx, e);
	case AST_INDEX:
		return cx->walked ? bad() : not_constant(cx, e->at);
	default:
		return bad();
	}
}

/* The C stack bounds how deep expressions and the functions they call may go, all together. */
struct fe_val fe_expr(struct fe_ctx *cx, const struct ast *e)
{
	struct fe_val v;

	if (cx->nest >= MAX_NEST) {
		fe_error(cx, DIAG_NESTING, e->at, "bind parts of it to names",
		         "this is nested too deeply to be compiled");
		return bad();
	}
	cx->nest++;
	v = expression(cx, e);
	cx->nest--;
	return v;
}
