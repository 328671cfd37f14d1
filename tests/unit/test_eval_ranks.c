/* The reference: sums over ranks, rows and placements. */
#include "tests/unit/eval_kernel.h"
#include <float.h>
#include <math.h>

/* ---- collectives ---- */

/* The sum over ranks of one number each, as bf16. */
static double reduce(const double *x, unsigned tp, enum ir_sum sum, double *err)
{
	struct kernel k;
	unsigned p, y;
	double v;

	begin(&k, tp, 1);
	p = param(&k, IR_IN, IR_BF16, 2, IR_PARTIAL, 1);
	y = param(&k, IR_OUT, IR_BF16, 2, IR_REPLICATED, 1);
	for (unsigned r = 0; r < tp; r++)
		k.in[p * tp + r].v[0] = x[r];
	store(&k, y, value(&k, IR_OP_ALL_REDUCE, 1, load(&k, p), NULL, NULL));
	eval(&k, IR_EVAL_SPEC, sum);
	v = k.out[y * tp].v[0];
	*err = k.out[y * tp].err[0];
	arena_free(&k.a);
	return v;
}

static void a_sum_over_ranks_is_rounded_as_the_mode_says(void **state)
{
	/* In f32, in order: 2^24 + 1 + 1 + ... stays; exactly it grows. */
	const double x[4] = {0x1p24, 1.0, 1.0, -0x1p24};
	/* 1 + 2^-8 is a tie in bf16; with 2^-40 it is over it, which f32 does not see. */
	const double y[3] = {1.0, 0x1p-8, 0x1p-40};
	double err;

	(void)state;
	assert_true(reduce(x, 4, IR_SUM_RANK_ORDER, &err) == 0.0 && err == 0.0);
	assert_true(reduce(x, 4, IR_SUM_EXACT, &err) == 2.0 && err == 0.0);
	assert_true(reduce(x, 4, IR_SUM_FAITHFUL, &err) == 2.0 && err >= 2.0);
	assert_true(reduce(y, 3, IR_SUM_RANK_ORDER, &err) == 1.0 && err == 0.0);
	assert_true(reduce(y, 3, IR_SUM_EXACT, &err) == 1.0 + 0x1p-7 && err == 0.0);
	assert_true(reduce(y, 3, IR_SUM_FAITHFUL, &err) == 1.0 + 0x1p-7 && err == 0x1p-7);
}

/* From +0 in registers: 1 / sqrt of it is +inf.  The switch may have either zero, but where an
 * addend is +0. */
static void a_sum_of_negative_zeros_is_positive_unless_the_switch_made_it(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 12; i++) {
		bool in_switch = i & 1, mixed = i & 2;
		struct ir_value *s;
		struct kernel k;
		unsigned p, y;

		begin(&k, 2, 1);
		k.in_switch = in_switch;
		p = param(&k, IR_IN, IR_F32, 2, IR_PARTIAL, 1);
		y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
		k.in[p * 2].v[0] = -0.0;
		k.in[p * 2 + 1].v[0] = mixed ? 0.0 : -0.0;
		s = value(&k, IR_OP_ALL_REDUCE, 1, load(&k, p), NULL, NULL);
		store(&k, y, value(&k, IR_OP_RSQRT, 1, s, NULL, NULL));
		eval(&k, IR_EVAL_SPEC, (enum ir_sum)(i / 4));
		assert_true(isinf(k.out[y * 2].v[0]) && k.out[y * 2].v[0] > 0.0);
		assert_true(isinf(k.out[y * 2].err[0]) == (in_switch && !mixed));
		arena_free(&k.a);
	}
}

static void a_representable_sum_is_faithful_only_as_itself(void **state)
{
	const double x[3] = {1.0, 0.5, -0.25};
	double err;

	(void)state;
	assert_true(reduce(x, 3, IR_SUM_FAITHFUL, &err) == 1.25 && err == 0.0);
}

/* Against integers: addends are multiples of 2^-20 below 2^20, so their sum is an exact int64. */
static void exact_sums_agree_with_integer_arithmetic(void **state)
{
	uint64_t s = 11;

	(void)state;
	for (unsigned i = 0; i < 3000; i++) {
		double x[16], err, v, want;
		int64_t sum = 0;

		for (unsigned r = 0; r < 16; r++) {
			x[r] = ir_round(IR_BF16, frand(&s) * ldexp(1.0, (int)((i + r * 7) % 24)));
			x[r] = rint(x[r] * 0x1p20) * 0x1p-20;
			x[r] = ir_round(IR_BF16, x[r]);
			sum += (int64_t)(x[r] * 0x1p20);
		}
		want = ir_round(IR_BF16, (double)sum * 0x1p-20);
		assert_true(reduce(x, 16, IR_SUM_EXACT, &err) == want && err == 0.0);
		v = reduce(x, 16, IR_SUM_FAITHFUL, &err);
		assert_true(v == want && fabs((double)sum * 0x1p-20 - v) <= err);
	}
}

static void f32_sums_in_any_order_are_within_the_faithful_bound(void **state)
{
	uint64_t s = 5;

	(void)state;
	for (unsigned i = 0; i < 3000; i++) {
		double x[8], err, v;
		float sum = 0;

		for (unsigned r = 0; r < 8; r++)
			x[r] = ir_round(IR_BF16,
			                frand(&s) * ldexp(1.0, (int)((i * 5 + r * 11) % 50) - 25));
		for (unsigned r = 0; r < 8; r++)
			sum += (float)x[(r * 3 + i) % 8];
		v = reduce(x, 8, IR_SUM_FAITHFUL, &err);
		assert_true(ir_conforms(ir_round(IR_BF16, (double)sum), v, err));
	}
}

static void infinities_and_nans_pass_through_a_sum(void **state)
{
	const double x[3] = {(double)INFINITY, 1.0, 2.0},
	             y[3] = {(double)INFINITY, -(double)INFINITY, 2.0};
	double err;

	(void)state;
	for (int m = IR_SUM_RANK_ORDER; m <= IR_SUM_FAITHFUL; m++) {
		assert_true(isinf(reduce(x, 3, (enum ir_sum)m, &err)) && err == 0.0);
		assert_true(isnan(reduce(y, 3, (enum ir_sum)m, &err)) && err == 0.0);
	}
}

static void a_sum_over_ranks_that_overflows_in_some_order_is_unknown(void **state)
{
	const double x[3] = {0x1.fep127, 0x1.fep127, -0x1.fep127};
	double err;

	(void)state;
	assert_true(isfinite(reduce(x, 3, IR_SUM_FAITHFUL, &err)) && isinf(err));
	assert_true(isinf(reduce(x, 3, IR_SUM_RANK_ORDER, &err)) && err == 0.0);
	assert_true(reduce(x, 3, IR_SUM_EXACT, &err) == x[0] && err == 0.0);
}

/* ---- rows and placements ---- */

static void ranks_own_rows_in_chunks_and_the_last_may_own_none(void **state)
{
	int64_t lo, hi;

	(void)state;
	ir_own_rows(9, 8, 0, &lo, &hi);
	assert_true(lo == 0 && hi == 2);
	ir_own_rows(9, 8, 4, &lo, &hi);
	assert_true(lo == 8 && hi == 9);
	ir_own_rows(9, 8, 7, &lo, &hi);
	assert_true(lo == 9 && hi == 9);
	ir_own_rows(0, 8, 3, &lo, &hi);
	assert_true(lo == 0 && hi == 0);
}

static void a_carried_output_is_written_on_own_rows_and_a_sharded_one_indexed_locally(void **state)
{
	struct kernel k;
	struct ir_value *h;
	unsigned x, res, sh;

	(void)state;
	begin(&k, 2, 3);
	x = param(&k, IR_IN, IR_BF16, 2, IR_PARTIAL, 2);
	res = param(&k, IR_INOUT, IR_BF16, 2, IR_CARRIED, 2);
	sh = param(&k, IR_OUT, IR_F32, 2, IR_SHARDED, 2);
	for (unsigned i = 0; i < 6; i++) {
		k.in[x * 2].v[i] = i;
		k.in[x * 2 + 1].v[i] = 10.0 * i;
		k.in[res * 2].v[i] = i / 2 < 2 ? 100.0 : (double)NAN;
		k.in[res * 2 + 1].v[i] = i / 2 < 2 ? (double)NAN : 200.0;
	}
	h = value(&k, IR_OP_REDUCE_SCATTER, 1, load(&k, x), NULL, NULL);
	h = value(&k, IR_OP_ADD, 2, h, load(&k, res), NULL);
	store(&k, res, h);
	h = ir_value_new(k.f, IR_OP_OUT, nowhere, 1, &h);
	h->type = h->src[0]->type;
	h->param = sh;
	ir_append(k.f, h);
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	assert_int_equal(k.out[sh * 2].rows, 2);
	assert_int_equal(k.out[sh * 2 + 1].rows, 1);
	assert_true(k.out[sh * 2].v[3] == 133.0 && k.out[sh * 2 + 1].v[1] == 255.0);
	assert_true(k.out[res * 2].v[3] == 133.0 && k.out[res * 2].err[3] == 0.0);
	assert_true(k.out[res * 2].err[4] == -1.0 && k.out[res * 2 + 1].err[3] == -1.0);
	assert_true(k.out[res * 2 + 1].v[5] == 255.0 && k.out[res * 2 + 1].err[5] == 0.0);
	arena_free(&k.a);
}

static void a_call_means_its_body(void **state)
{
	struct kernel k;
	struct ir_func *kernel, *fn;
	struct ir_value *a, *b, *src[2], *c;
	unsigned x, g, y;

	(void)state;
	begin(&k, 1, 2);
	kernel = k.f;
	fn = k.f = ir_func_new(k.m, "f.1", false, nowhere);
	ir_param_add(fn, (struct ir_param){.name = "a", .type = {IR_F32, 2, IR_REPLICATED, 3}});
	ir_param_add(fn, (struct ir_param){.name = "w", .type = {IR_F32, 1, IR_REPLICATED, 3}});
	a = load(&k, 0);
	b = value(&k, IR_OP_ADD, 2, load(&k, 1), number(&k, 1.0), NULL);
	fn->result = value(&k, IR_OP_MUL, 2, a, b, NULL);
	k.f = kernel;
	x = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 3);
	g = param(&k, IR_IN, IR_F32, 1, IR_REPLICATED, 3);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 3);
	for (unsigned i = 0; i < 6; i++)
		k.in[x].v[i] = i;
	for (unsigned i = 0; i < 3; i++)
		k.in[g].v[i] = i;
	src[0] = load(&k, x);
	src[1] = load(&k, g);
	c = ir_value_new(k.f, IR_OP_CALL, nowhere, 2, src);
	c->callee = fn;
	c->type = fn->result->type;
	ir_append(k.f, c);
	store(&k, y, c);
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	for (unsigned i = 0; i < 6; i++)
		assert_true(k.out[y].v[i] == i * (i % 3 + 1.0) && k.out[y].err[i] == 0.0);
	arena_free(&k.a);
}

static void wrong_buffers_are_refused(void **state)
{
	struct ir_eval_options o = {2, 2, IR_EVAL_SPEC, IR_SUM_RANK_ORDER, IR_ROWS_OWN, false};
	struct kernel k;
	unsigned x, y;

	(void)state;
	begin(&k, 2, 2);
	x = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 3);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 3);
	store(&k, y, load(&k, x));
	k.in[x * 2 + 1].v[4] = 1.0;
	assert_int_equal(ir_eval(k.f, &o, k.in, k.out, &k.a, &k.d), ST_INPUT);
	assert_int_equal(k.d.head->code, DIAG_EVAL_REPLICATED);
	k.in[x * 2 + 1].v[4] = 0.0;
	k.in[x * 2 + 1].rows = 1;
	assert_int_equal(ir_eval(k.f, &o, k.in, k.out, &k.a, &k.d), ST_INPUT);
	o.tp = 17;
	assert_int_equal(ir_eval(k.f, &o, k.in, k.out, &k.a, &k.d), ST_USAGE);
	arena_free(&k.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_sum_over_ranks_is_rounded_as_the_mode_says),
	        cmocka_unit_test(a_sum_of_negative_zeros_is_positive_unless_the_switch_made_it),
	        cmocka_unit_test(a_representable_sum_is_faithful_only_as_itself),
	        cmocka_unit_test(exact_sums_agree_with_integer_arithmetic),
	        cmocka_unit_test(f32_sums_in_any_order_are_within_the_faithful_bound),
	        cmocka_unit_test(infinities_and_nans_pass_through_a_sum),
	        cmocka_unit_test(a_sum_over_ranks_that_overflows_in_some_order_is_unknown),
	        cmocka_unit_test(ranks_own_rows_in_chunks_and_the_last_may_own_none),
	        cmocka_unit_test(
	                a_carried_output_is_written_on_own_rows_and_a_sharded_one_indexed_locally),
	        cmocka_unit_test(a_call_means_its_body),
	        cmocka_unit_test(wrong_buffers_are_refused),
	};

	return cmocka_run_group_tests_name("eval_ranks", tests, NULL, NULL);
}
