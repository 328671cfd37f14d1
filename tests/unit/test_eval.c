/* The reference: values and bounds of operations, reductions (test_eval_num.c: formats;
 * test_eval_ranks.c: collectives). */
#include "tests/unit/eval_kernel.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- operations ---- */

/* One row of one rank through one elementwise operation; v and err of the first column. */
static double apply(enum ir_op op, unsigned n, const double *x, double *err)
{
	struct kernel k;
	struct ir_value *src[3] = {NULL, NULL, NULL};
	unsigned p[3], y;
	double v;

	begin(&k, 1, 1);
	for (unsigned i = 0; i < n; i++) {
		p[i] = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 1);
		k.in[p[i]].v[0] = x[i];
	}
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
	for (unsigned i = 0; i < n; i++)
		src[i] = load(&k, p[i]);
	store(&k, y, value(&k, op, n, src[0], src[1], src[2]));
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	v = k.out[y].v[0];
	*err = k.out[y].err[0];
	arena_free(&k.a);
	return v;
}

static void arithmetic_is_that_of_f32_and_its_bits_are_fixed(void **state)
{
	uint64_t s = 1;

	(void)state;
	for (unsigned i = 0; i < 2000; i++) {
		float a = (float)(frand(&s) * ldexp(1.0, (int)(i % 60) - 30)), b = (float)frand(&s);
		float c = (float)(frand(&s) * ldexp(1.0, (int)(i % 40) - 20));
		double x[3] = {(double)a, (double)b, (double)c}, err;

		assert_true(apply(IR_OP_ADD, 2, x, &err) == (double)(a + b) && err == 0.0);
		assert_true(apply(IR_OP_SUB, 2, x, &err) == (double)(a - b) && err == 0.0);
		assert_true(apply(IR_OP_MUL, 2, x, &err) == (double)(a * b) && err == 0.0);
		assert_true(apply(IR_OP_DIV, 2, x, &err) == (double)(a / b) && err == 0.0);
		assert_true(apply(IR_OP_FMA, 3, x, &err) == (double)fmaf(a, b, c) && err == 0.0);
		x[0] = fabs(x[0]);
		assert_true(apply(IR_OP_SQRT, 1, x, &err) == (double)sqrtf(fabsf(a)) && err == 0.0);
	}
}

static void approximations_have_the_bounds_of_the_table(void **state)
{
	double x = 1.75, err, v, ulp = 0x1p-24; /* rsqrt(1.75) is in [0.5, 1) */

	(void)state;
	v = apply(IR_OP_RSQRT, 1, &x, &err);
	assert_true(fabs(v - 1.0 / sqrt(1.75)) <= ulp / 2);
	assert_true(err == 3.0 * ulp);
	x = 0.0;
	assert_true(isinf(apply(IR_OP_RSQRT, 1, &x, &err)) && err == 0.0);
	x = -0.0; /* as IEEE 754 has it, and PTX */
	assert_true(apply(IR_OP_RSQRT, 1, &x, &err) == -(double)INFINITY && err == 0.0);
	x = -1.0;
	assert_true(isnan(apply(IR_OP_RSQRT, 1, &x, &err)) && err == 0.0);
	v = apply(IR_OP_TANH, 1, &x, &err);
	assert_true(fabs(v - tanh(-1.0)) <= ulp && err >= 0x1p-21 && err < 0x1p-20);
}

/* What ops.def grants exp does not reach from its first infinity back to FLT_MAX; its last finite
 * value may be an infinity. */
static void an_exp_that_overflows_overflows_everywhere(void **state)
{
	float last = logf(FLT_MAX);
	double x, err, v;

	(void)state;
	if (exp((double)last) > (double)FLT_MAX)
		last = nextafterf(last, 0.0f);
	x = (double)nextafterf(last, INFINITY);
	assert_true(exp(x) - 4.0 * 0x1p104 > 0x1.ffffffp127); /* where f32 rounds to infinity */
	assert_true(isinf(apply(IR_OP_EXP, 1, &x, &err)) && err == 0.0);
	x = (double)last;
	v = apply(IR_OP_EXP, 1, &x, &err);
	assert_true(isfinite(v) && err >= 4.0 * 0x1p104);
}

static void minimum_and_maximum_pass_over_a_nan(void **state)
{
	double x[2] = {(double)NAN, 3.0}, y[2] = {2.0, (double)NAN},
	       z[2] = {(double)NAN, (double)NAN}, err;

	(void)state;
	assert_true(apply(IR_OP_MIN, 2, x, &err) == 3.0 && err == 0.0);
	assert_true(apply(IR_OP_MAX, 2, y, &err) == 2.0 && err == 0.0);
	assert_true(isnan(apply(IR_OP_MAX, 2, z, &err)));
}

static void a_select_on_an_undecided_comparison_is_bounded_by_both_sides(void **state)
{
	struct kernel k;
	struct ir_value *x, *c;
	unsigned p, y;

	(void)state;
	begin(&k, 1, 1);
	p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 1);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
	k.in[p].v[0] = 4.0;
	x = value(&k, IR_OP_RSQRT, 1, load(&k, p), NULL, NULL); /* 0.5, give or take 3 ulp */
	c = value(&k, IR_OP_LT, 2, x, number(&k, 0.5), NULL);
	store(&k, y, value(&k, IR_OP_SELECT, 3, c, number(&k, -1.0), number(&k, 7.0)));
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	assert_true(k.out[y].v[0] == 7.0 && k.out[y].err[0] == 8.0);
	arena_free(&k.a);
}

static void a_quotient_near_a_pole_is_unknown(void **state)
{
	struct kernel k;
	struct ir_value *x;
	unsigned p, y;

	(void)state;
	begin(&k, 1, 1);
	p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 1);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
	k.in[p].v[0] = 4.0;
	x = value(&k, IR_OP_SUB, 2, value(&k, IR_OP_RSQRT, 1, load(&k, p), NULL, NULL),
	          number(&k, 0.5), NULL);
	store(&k, y, value(&k, IR_OP_DIV, 2, number(&k, 1.0), x, NULL));
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	assert_true(isinf(k.out[y].err[0]));
	assert_true(ir_conforms((double)NAN, k.out[y].v[0], k.out[y].err[0]));
	arena_free(&k.a);
}

/* x / x, times 0, of an x that may be 0: a NaN may be in it, whatever follows. */
static void what_is_unknown_stays_unknown(void **state)
{
	static const enum ir_op then[] = {IR_OP_SIGMOID, IR_OP_TANH, IR_OP_EXP, IR_OP_ABS};

	(void)state;
	for (unsigned i = 0; i < sizeof then / sizeof *then; i++) {
		struct kernel k;
		struct ir_value *x;
		unsigned p, y;

		begin(&k, 1, 1);
		p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 1);
		y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
		k.in[p].v[0] = 4.0;
		x = value(&k, IR_OP_SUB, 2, value(&k, IR_OP_RSQRT, 1, load(&k, p), NULL, NULL),
		          number(&k, 0.5), NULL); /* 0, give or take */
		x = value(&k, IR_OP_MUL, 2, value(&k, IR_OP_DIV, 2, x, x, NULL), number(&k, 0.0),
		          NULL);
		store(&k, y, value(&k, then[i], 1, x, NULL, NULL));
		eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
		assert_true(isinf(k.out[y].err[0]));
		arena_free(&k.a);
	}
}

/* ---- row reductions ---- */

#define COLS 1000

/* Sums x in f32 in a random tree no deeper than `depth`; 0 when the tree drawn was too deep. */
static bool random_tree(uint64_t *s, const float *x, unsigned n, unsigned depth, float *sum)
{
	float v[COLS];
	unsigned d[COLS];

	for (unsigned i = 0; i < n; i++) {
		v[i] = x[i];
		d[i] = 0;
	}
	for (unsigned m = n; m > 1; m--) {
		unsigned i = (unsigned)((frand(s) + 1.0) * 0.5 * m) % m, j = (i + 1 + m / 2) % m;

		if (i == j)
			j = (i + 1) % m;
		v[i] += v[j];
		d[i] = (d[i] > d[j] ? d[i] : d[j]) + 1;
		v[j] = v[m - 1];
		d[j] = d[m - 1];
	}
	*sum = v[0];
	return d[0] <= depth;
}

static void a_row_sum_in_any_legal_order_is_within_the_bound(void **state)
{
	uint64_t s = 7;
	unsigned tried = 0;

	(void)state;
	for (unsigned round = 0; round < 60; round++) {
		struct kernel k;
		unsigned p, y;
		float x[COLS], sum;

		begin(&k, 1, 1);
		p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, COLS);
		y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
		for (unsigned i = 0; i < COLS; i++) {
			x[i] = (float)(frand(&s) * ldexp(1.0, (int)(i % 30) - 15));
			k.in[p].v[i] = (double)x[i];
		}
		store(&k, y, value(&k, IR_OP_ROW_SUM, 1, load(&k, p), NULL, NULL));
		eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
		if (random_tree(&s, x, COLS, ir_reduction_depth(COLS), &sum)) {
			assert_true(ir_conforms((double)sum, k.out[y].v[0], k.out[y].err[0]));
			tried++;
		}
		arena_free(&k.a);
	}
	assert_true(tried > 40);
}

/* rmsnorm in long double against the reference: near it, and with a bound of a few units. */
static void the_bound_of_an_rmsnorm_is_a_few_units_and_holds(void **state)
{
	struct kernel k;
	struct ir_value *x, *m, *n;
	unsigned p, g, y;
	uint64_t s = 3;
	long double q = 0, scale;

	(void)state;
	begin(&k, 1, 1);
	p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, COLS);
	g = param(&k, IR_IN, IR_BF16, 1, IR_REPLICATED, COLS);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, COLS);
	for (unsigned i = 0; i < COLS; i++) {
		k.in[p].v[i] = (double)(float)frand(&s);
		k.in[g].v[i] = ir_round(IR_BF16, frand(&s));
		q += (long double)k.in[p].v[i] * k.in[p].v[i];
	}
	x = load(&k, p);
	m = value(&k, IR_OP_ROW_MEAN, 1, value(&k, IR_OP_MUL, 2, x, x, NULL), NULL, NULL);
	m = value(&k, IR_OP_RSQRT, 1, value(&k, IR_OP_ADD, 2, m, number(&k, 1e-5), NULL), NULL,
	          NULL);
	n = value(&k, IR_OP_MUL, 2, value(&k, IR_OP_MUL, 2, x, m, NULL), load(&k, g), NULL);
	store(&k, y, n);
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	scale = 1 / sqrtl(q / COLS + 1e-5L);
	for (unsigned i = 0; i < COLS; i++) {
		long double want = k.in[p].v[i] * scale * k.in[g].v[i];

		assert_true(fabsl(want - k.out[y].v[i]) <= k.out[y].err[i] + 1e-45);
		assert_true(k.out[y].err[i] <= 64 * 0x1p-23 * fabs(k.out[y].v[i]) + 1e-44);
	}
	eval(&k, IR_EVAL_REAL, IR_SUM_RANK_ORDER);
	for (unsigned i = 0; i < COLS; i++) {
		double want = (double)(k.in[p].v[i] * scale * k.in[g].v[i]);

		assert_true(fabs(want - k.out[y].v[i]) <= fabs(want) * 1e-14);
		assert_true(k.out[y].err[i] == 0.0);
	}
	arena_free(&k.a);
}

static void the_sum_of_a_row_of_zeros_is_zero_to_the_bit(void **state)
{
	struct kernel k;
	unsigned p, y;

	(void)state;
	begin(&k, 1, 1);
	p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, COLS);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
	store(&k, y, value(&k, IR_OP_ROW_SUM, 1, load(&k, p), NULL, NULL));
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	assert_true(k.out[y].v[0] == 0.0 && k.out[y].err[0] == 0.0);
	arena_free(&k.a);
}

static void groups_reduce_and_expand(void **state)
{
	struct kernel k;
	struct ir_value *x, *g;
	unsigned p, y, z;

	(void)state;
	begin(&k, 1, 1);
	p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 6);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 2);
	z = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 6);
	for (unsigned i = 0; i < 6; i++)
		k.in[p].v[i] = i == 2 ? 9.0 : i;
	x = load(&k, p);
	g = ir_value_new(k.f, IR_OP_GROUP_MAX, nowhere, 1, &x);
	g->n = 3;
	g->type = (struct ir_type){IR_F32, 2, IR_REPLICATED, 2};
	ir_append(k.f, g);
	store(&k, y, g);
	x = ir_value_new(k.f, IR_OP_EXPAND, nowhere, 1, &g);
	x->n = 3;
	x->type = (struct ir_type){IR_F32, 2, IR_REPLICATED, 6};
	ir_append(k.f, x);
	store(&k, z, x);
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	assert_true(k.out[y].v[0] == 9.0 && k.out[y].v[1] == 5.0);
	assert_true(k.out[z].v[2] == 9.0 && k.out[z].v[3] == 5.0);
	arena_free(&k.a);
}

/* In f32 (a + b) - a overflows where (a - a) + b does not. */
static void a_row_sum_that_overflows_in_some_order_is_unknown(void **state)
{
	static const double x[4][4] = {{3e38, 3e38, -3e38, 1.0},
	                               {3e38, 3e38, -INFINITY, 1.0},
	                               {3e38, 3e38, 3e38, 1.0},
	                               {3e38, -INFINITY, -3e38, 1.0}};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct kernel k;
		unsigned p, y;

		begin(&k, 1, 1);
		p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 4);
		y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
		for (unsigned c = 0; c < 4; c++)
			k.in[p].v[c] = (double)(float)x[i][c];
		store(&k, y, value(&k, IR_OP_ROW_SUM, 1, load(&k, p), NULL, NULL));
		eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
		assert_true(!isinf(k.out[y].v[0]) == (i == 0));
		assert_true(i < 2 ? isinf(k.out[y].err[0]) : k.out[y].err[0] == 0.0);
		arena_free(&k.a);
	}
}

/* A sum of zeros, or of products that round to zero, may be either zero: 1 / sqrt of it is either
 * infinity. */
static void the_sign_of_a_zero_that_was_summed_is_unknown(void **state)
{
	static const double x[2] = {0.0, 0x1p-100};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct kernel k;
		struct ir_value *s, *v;
		unsigned p, y;

		begin(&k, 1, 1);
		p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 4);
		y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
		for (unsigned c = 0; c < 4; c++)
			k.in[p].v[c] = x[i];
		v = load(&k, p);
		s = value(&k, IR_OP_ROW_DOT, 2, v, v, NULL);
		store(&k, y, value(&k, IR_OP_RSQRT, 1, s, NULL, NULL));
		eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
		assert_true(isinf(k.out[y].v[0]) && isinf(k.out[y].err[0]));
		arena_free(&k.a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(arithmetic_is_that_of_f32_and_its_bits_are_fixed),
	        cmocka_unit_test(approximations_have_the_bounds_of_the_table),
	        cmocka_unit_test(an_exp_that_overflows_overflows_everywhere),
	        cmocka_unit_test(minimum_and_maximum_pass_over_a_nan),
	        cmocka_unit_test(a_select_on_an_undecided_comparison_is_bounded_by_both_sides),
	        cmocka_unit_test(a_quotient_near_a_pole_is_unknown),
	        cmocka_unit_test(what_is_unknown_stays_unknown),
	        cmocka_unit_test(a_row_sum_in_any_legal_order_is_within_the_bound),
	        cmocka_unit_test(a_row_sum_that_overflows_in_some_order_is_unknown),
	        cmocka_unit_test(the_sign_of_a_zero_that_was_summed_is_unknown),
	        cmocka_unit_test(the_bound_of_an_rmsnorm_is_a_few_units_and_holds),
	        cmocka_unit_test(the_sum_of_a_row_of_zeros_is_zero_to_the_bit),
	        cmocka_unit_test(groups_reduce_and_expand),
	};

	return cmocka_run_group_tests_name("eval", tests, NULL, NULL);
}
