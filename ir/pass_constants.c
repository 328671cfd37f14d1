/*
 * constants: folds what is known, and drops operations that change no bit.
 *
 * Before and after: form PLACED.  A constant is a real number, rounded to f32 where it is used.  An
 * operation of constants folds only if its bits are fixed (ops.def: 0 ulp) and the f64 result,
 * rounded to f32, has the bits that the f32 operation gives: so neither the real meaning nor the
 * f32 one changes.  Identities hold for every operand, signed zeros and NaN included (x + 0 is not
 * one: -0 + 0 is +0).
 */
#include "ir/edit.h"
#include "ir/pass.h"
#include <math.h>
#include <string.h>

typedef double fold_fn(const double *x);
typedef float fold32_fn(const float *x);

#define FOLD(name, expr64, expr32)               \
	static double name##_64(const double *x) \
	{                                        \
		return expr64;                   \
	}                                        \
	static float name##_32(const float *x)   \
	{                                        \
		return expr32;                   \
	}
FOLD(neg, -x[0], -x[0])
FOLD(abs, fabs(x[0]), fabsf(x[0]))
FOLD(sqrt, sqrt(x[0]), sqrtf(x[0]))
FOLD(add, x[0] + x[1], x[0] + x[1])
FOLD(sub, x[0] - x[1], x[0] - x[1])
FOLD(mul, x[0] * x[1], x[0] * x[1])
FOLD(div, x[0] / x[1], x[0] / x[1])
FOLD(min, fmin(x[0], x[1]), fminf(x[0], x[1]))
FOLD(max, fmax(x[0], x[1]), fmaxf(x[0], x[1]))
FOLD(fma, fma(x[0], x[1], x[2]), fmaf(x[0], x[1], x[2]))

/* clang-format off */
static const struct {
	fold_fn *real;
	fold32_fn *f32;
} folds[IR_NOPS] = {
	[IR_OP_NEG] = {neg_64, neg_32},   [IR_OP_ABS] = {abs_64, abs_32},   [IR_OP_SQRT] = {sqrt_64, sqrt_32},
	[IR_OP_ADD] = {add_64, add_32},   [IR_OP_SUB] = {sub_64, sub_32},   [IR_OP_MUL] = {mul_64, mul_32},
	[IR_OP_DIV] = {div_64, div_32},   [IR_OP_MIN] = {min_64, min_32},   [IR_OP_MAX] = {max_64, max_32},
	[IR_OP_FMA] = {fma_64, fma_32},
};
/* clang-format on */

static bool is_const(const struct ir_value *v)
{
	return v->op == IR_OP_CONST;
}

static bool fold(struct ir_value *v)
{
	double x[3], y;
	float x32[3], y32, rounded;

	if (!folds[v->op].real)
		return false;
	for (unsigned i = 0; i < v->nsrc; i++) {
		if (!is_const(v->src[i]))
			return false;
		x[i] = v->src[i]->num;
		x32[i] = (float)x[i];
	}
	y = folds[v->op].real(x);
	y32 = folds[v->op].f32(x32);
	rounded = (float)y;
	if (!isfinite(y32) || memcmp(&rounded, &y32, sizeof(y32)))
		return false;
	v->op = IR_OP_CONST;
	v->nsrc = 0;
	v->num = y;
	return true;
}

/* Operand i is exactly this constant, sign of zero included. */
static bool is_number(const struct ir_value *v, unsigned i, double x)
{
	return is_const(v->src[i]) && v->src[i]->num == x &&
	       !signbit(v->src[i]->num) == !signbit(x);
}

/* The operand whose bits v's are; NULL: none. */
static struct ir_value *same_bits(const struct ir_value *v)
{
	switch (v->op) {
	case IR_OP_MUL:
		return is_number(v, 1, 1) ? v->src[0] : is_number(v, 0, 1) ? v->src[1] : NULL;
	case IR_OP_DIV:
		return is_number(v, 1, 1) ? v->src[0] : NULL;
	case IR_OP_SUB:
		return is_number(v, 1, 0) ? v->src[0] : NULL;
	case IR_OP_ADD:
		return is_number(v, 1, -0.0) ? v->src[0] : is_number(v, 0, -0.0) ? v->src[1] : NULL;
	case IR_OP_NEG:
		return v->src[0]->op == IR_OP_NEG ? v->src[0]->src[0] : NULL;
	case IR_OP_CAST:
		return v->src[0];
	default:
		return NULL;
	}
}

bool ir_pass_constants(struct ir_func *f, const struct ir_pass_options *o, struct diags *d)
{
	(void)o;
	(void)d;
	ir_clear_scratch(f);
	for (struct ir_value *v = f->first; v; v = v->next) {
		struct ir_value *by;

		ir_resolve_operands(v);
		if (fold(v))
			continue;
		/* A wider dtype is another type: the value stays. */
		by = same_bits(v);
		if (by && ir_type_equal(by->type, v->type))
			ir_forward(v, by);
	}
	return true;
}
