/*
 * Arithmetic of constants: exact integers, real numbers (f64), bools, dtypes.
 *
 * In a constant expression `/` must leave no remainder.  In a value expression numbers are real: an
 * integer result is kept as an integer where it is exact, and becomes a real number where it is
 * not.
 */
#include "frontend/sema.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *fe_kind_text(enum fe_kind k)
{
	static const char *const text[FE_NKINDS] = {
	        [FE_BAD] = "an error",       [FE_INT] = "an integer",
	        [FE_REAL] = "a real number", [FE_BOOL] = "a bool",
	        [FE_DTYPE] = "a dtype",      [FE_UNKNOWN] = "an integer",
	        [FE_TENSOR] = "a value",     [FE_ABSENT] = "an absent parameter",
	};
	return text[k];
}

double fe_real(struct fe_val v)
{
	return v.kind == FE_INT ? (double)v.i : v.r;
}

static struct fe_val bad(void)
{
	return (struct fe_val){.kind = FE_BAD};
}

static struct fe_val make_int(int64_t i)
{
	return (struct fe_val){.kind = FE_INT, .i = i};
}

static struct fe_val make_bool(bool b)
{
	return (struct fe_val){.kind = FE_BOOL, .b = b};
}

static struct fe_val make_real(const struct fe_ctx *cx, struct span at, double r)
{
	if (isfinite(r))
		return (struct fe_val){.kind = FE_REAL, .r = r};
	fe_error(cx, DIAG_OVERFLOW, at, "real constants are f64: keep them below 1.8e308",
	         "this constant is not a finite number");
	return bad();
}

static struct fe_val overflow(const struct fe_ctx *cx, struct span at)
{
	fe_error(cx, DIAG_OVERFLOW, at, "constant integers have 64 bits",
	         "this constant overflows");
	return bad();
}

static struct fe_val wrong_kind(const struct fe_ctx *cx, struct span at, const char *op,
                                struct fe_val v)
{
	fe_error(cx, DIAG_CONST_KIND, at, NULL, "'%s' cannot take %s", op, fe_kind_text(v.kind));
	return bad();
}

struct fe_val fe_const_unary(const struct fe_ctx *cx, enum ast_op op, struct span at,
                             struct fe_val a)
{
	if (a.kind == FE_BAD || a.kind == FE_UNKNOWN)
		return a;
	if (op == AST_NOT)
		return a.kind == FE_BOOL ? make_bool(!a.b) : wrong_kind(cx, at, "!", a);
	if (a.kind == FE_REAL)
		return make_real(cx, at, -a.r);
	if (a.kind != FE_INT)
		return wrong_kind(cx, at, "-", a);
	return a.i == INT64_MIN ? overflow(cx, at) : make_int(-a.i);
}

static struct fe_val divide(const struct fe_ctx *cx, const struct ast *e, struct fe_val a,
                            struct fe_val b)
{
	if (fe_real(b) == 0) {
		fe_error(cx, DIAG_DIV_ZERO, e->at, "give a divisor that is not 0",
		         "this divides by zero");
		return bad();
	}
	if (a.kind == FE_REAL || b.kind == FE_REAL)
		return make_real(cx, e->at, fe_real(a) / fe_real(b));
	if (b.i == -1)
		return a.i == INT64_MIN ? overflow(cx, e->at) : make_int(-a.i);
	if (a.i % b.i == 0)
		return make_int(a.i / b.i);
	if (!cx->exact)
		return make_real(cx, e->at, (double)a.i / (double)b.i);
	fe_error(cx, DIAG_INEXACT, e->at,
	         "ceil_div(a, b) rounds up; a real number is written with a point",
	         "%lld / %lld leaves a remainder of %lld", (long long)a.i, (long long)b.i,
	         (long long)(a.i % b.i));
	return bad();
}

static struct fe_val remainder_of(const struct fe_ctx *cx, const struct ast *e, struct fe_val a,
                                  struct fe_val b)
{
	if (a.kind != FE_INT || b.kind != FE_INT)
		return wrong_kind(cx, e->at, "%", a.kind == FE_INT ? b : a);
	if (b.i == 0) {
		fe_error(cx, DIAG_DIV_ZERO, e->at, "give a divisor that is not 0",
		         "this divides by zero");
		return bad();
	}
	return make_int(b.i == -1 ? 0 : a.i % b.i);
}

static struct fe_val compare(enum ast_op op, struct fe_val a, struct fe_val b)
{
	bool ints = a.kind == FE_INT && b.kind == FE_INT;
	bool lt = ints ? a.i < b.i : fe_real(a) < fe_real(b);
	bool eq = ints ? a.i == b.i : fe_real(a) == fe_real(b);

	switch (op) {
	case AST_LT:
		return make_bool(lt);
	case AST_LE:
		return make_bool(lt || eq);
	case AST_GT:
		return make_bool(!lt && !eq);
	case AST_GE:
		return make_bool(!lt);
	case AST_EQ:
		return make_bool(eq);
	default:
		return make_bool(!eq);
	}
}

static struct fe_val arithmetic(const struct fe_ctx *cx, enum ast_op op, struct span at,
                                struct fe_val a, struct fe_val b)
{
	double x = fe_real(a), y = fe_real(b);
	int64_t r = 0;
	bool over;

	if (a.kind == FE_REAL || b.kind == FE_REAL)
		return make_real(cx, at, op == AST_ADD ? x + y : op == AST_SUB ? x - y : x * y);
	over = op == AST_ADD   ? __builtin_add_overflow(a.i, b.i, &r)
	       : op == AST_SUB ? __builtin_sub_overflow(a.i, b.i, &r)
	                       : __builtin_mul_overflow(a.i, b.i, &r);
	return over ? overflow(cx, at) : make_int(r);
}

/* && || on bools; == and != on bools and dtypes; the rest is wrong. */
static struct fe_val logic(const struct fe_ctx *cx, enum ast_op op, struct span at, struct fe_val a,
                           struct fe_val b)
{
	const char *text = ast_op_text[op];
	bool same = a.kind == FE_BOOL ? a.b == b.b : a.dtype == b.dtype;

	if (op == AST_AND || op == AST_OR) {
		if (a.kind != FE_BOOL || b.kind != FE_BOOL)
			return wrong_kind(cx, at, text, a.kind == FE_BOOL ? b : a);
		return make_bool(op == AST_AND ? a.b && b.b : a.b || b.b);
	}
	if (op != AST_EQ && op != AST_NE)
		return wrong_kind(cx, at, text, fe_is_number(a) ? b : a);
	if (a.kind == b.kind)
		return make_bool(same == (op == AST_EQ));
	fe_error(cx, DIAG_CONST_KIND, at, NULL, "'%s' cannot compare %s with %s", text,
	         fe_kind_text(a.kind), fe_kind_text(b.kind));
	return bad();
}

struct fe_val fe_const_binary(const struct fe_ctx *cx, enum ast_op op, const struct ast *e,
                              struct fe_val a, struct fe_val b)
{
	if (a.kind == FE_BAD || b.kind == FE_BAD)
		return bad();
	if (a.kind == FE_UNKNOWN || b.kind == FE_UNKNOWN)
		return (struct fe_val){.kind = FE_UNKNOWN};
	if (!fe_is_number(a) || !fe_is_number(b) || op == AST_AND || op == AST_OR)
		return logic(cx, op, e->at, a, b);
	if (op == AST_DIV)
		return divide(cx, e, a, b);
	if (op == AST_REM)
		return remainder_of(cx, e, a, b);
	if (op < AST_ADD)
		return compare(op, a, b);
	return arithmetic(cx, op, e->at, a, b);
}

struct fe_val fe_ceil_div(const struct fe_ctx *cx, struct span at, struct fe_val a, struct fe_val b)
{
	if (a.kind == FE_BAD || b.kind == FE_BAD)
		return bad();
	if (a.kind == FE_UNKNOWN || b.kind == FE_UNKNOWN)
		return (struct fe_val){.kind = FE_UNKNOWN};
	if (a.kind != FE_INT || b.kind != FE_INT)
		return wrong_kind(cx, at, "ceil_div", a.kind == FE_INT ? b : a);
	if (a.i < 0 || b.i <= 0) {
		fe_error(cx, DIAG_DIV_ZERO, at, "ceil_div(a, b) is a / b, rounded up",
		         "ceil_div needs a first argument of 0 or more and a positive second one");
		return bad();
	}
	return make_int(a.i / b.i + (a.i % b.i != 0));
}

static struct fe_val real_function(const struct fe_ctx *cx, int op, struct span at, double x,
                                   bool *folds)
{
	switch (op) {
	case IR_OP_EXP:
		return make_real(cx, at, exp(x));
	case IR_OP_LOG:
		return make_real(cx, at, log(x));
	case IR_OP_SQRT:
		return make_real(cx, at, sqrt(x));
	case IR_OP_RSQRT:
		return make_real(cx, at, 1 / sqrt(x));
	case IR_OP_TANH:
		return make_real(cx, at, tanh(x));
	case IR_OP_SIGMOID:
		return make_real(cx, at, 1 / (1 + exp(-x)));
	default:
		*folds = false;
		return bad();
	}
}

bool fe_const_call(const struct fe_ctx *cx, int op, struct span at, const struct fe_val *arg,
                   unsigned n, struct fe_val *result)
{
	bool folds = true;

	*result = bad();
	for (unsigned i = 0; i < n; i++) {
		if (arg[i].kind == FE_UNKNOWN && (op == IR_OP_MIN || op == IR_OP_MAX)) {
			*result = (struct fe_val){.kind = FE_UNKNOWN};
			return true;
		}
		if (!fe_is_number(arg[i]))
			return false;
	}
	if (n == 2 && (op == IR_OP_MIN || op == IR_OP_MAX)) {
		bool less = compare(AST_LT, arg[1], arg[0]).b;

		*result = less == (op == IR_OP_MIN) ? arg[1] : arg[0];
		return true;
	}
	if (n != 1)
		return false;
	if (op == IR_OP_NEG)
		*result = fe_const_unary(cx, AST_NEG, at, arg[0]);
	else if (op == IR_OP_ABS)
		*result = fe_real(arg[0]) < 0 ? fe_const_unary(cx, AST_NEG, at, arg[0]) : arg[0];
	else
		*result = real_function(cx, op, at, fe_real(arg[0]), &folds);
	return folds;
}
