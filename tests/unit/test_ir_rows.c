/*
 * The two row forms: what the passes and the verifier make of carried parameters, and what the
 * reference says of carried buffers with all rows, where ranks differ, and of inputs with bounds.
 */
#include "tests/unit/ir_fixture.h"
#include "ir/eval.h"
#include "ir/pass.h"
#include <math.h>

enum { TP = 2, ROWS = 3, MAX_PARAMS = 4 };

static const char add[] = "kernel k(in x: f32[T, 2] partial, inout r: f32[T, 2] carried) {\n"
                          "\t%x = param x %r = param r %s = all_reduce %x %h = add %s, %r\n"
                          "\tout r = %h\n}\n";

/* A module's one kernel, fused in the form asked for. */
static struct ir_func *fused(struct ir_fixture *f, const char *text, enum ir_rows rows)
{
	struct ir_pass_options o = {.rows = rows};
	struct ir_module *m = ir_text(f, text);

	assert_non_null(m);
	if (ir_run_passes(m, &o, &f->d))
		fail_msg("%s", ir_shown(f));
	return m->funcs;
}

/* ---- the passes and the verifier ---- */

static void all_rows_need_no_remark_and_no_gather(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_func *k =
	        fused(f,
	              "kernel k(in x: f32[T, 2] partial, out y: f32[T, 2]) { %0 = param x "
	              "%1 = reduce_scatter %0 %2 = exp %1 %3 = all_gather %2 out y = %3 }",
	              IR_ROWS_ALL);

	assert_int_equal(f->d.nremark, 0);
	for (const struct ir_value *v = k->first; v; v = v->next) {
		assert_int_equal(v->type.place, IR_REPLICATED);
		assert_int_not_equal(v->op, IR_OP_STORE_ALL);
	}
}

static void a_sharded_parameter_is_named_where_all_rows_are_asked_for(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_pass_options o = {.rows = IR_ROWS_ALL};
	struct ir_module *m =
	        ir_text(f, "kernel k(in x: f32[T, 2] partial, in s: f32[T, 2] sharded, "
	                   "out y: f32[T, 2]) { %0 = param x %1 = param s "
	                   "%2 = all_reduce %0 %3 = add %1, %2 out y = %3 }");

	assert_int_equal(ir_run_passes(m, &o, &f->d), ST_INPUT);
	assert_int_equal(f->d.nerror, 1);
	assert_int_equal(f->d.head->code, DIAG_ROWS_SHARDED);
	assert_non_null(strstr(f->d.head->text, "'s'"));
}

static void a_kernel_has_one_form_of_carried_rows(void **state)
{
	static const struct {
		enum ir_form form;
		const char *text;
		bool good;
	} cases[] = {
	        {IR_FORM_PLACED,
	         "kernel k(in a: f32[T, 2] carried, out b: f32[T, 2] carried) {"
	         " %0 = param a : f32[T, 2] replicated out b = %0 }",
	         true},
	        {IR_FORM_PLACED,
	         "kernel k(in a: f32[T, 2] carried, out b: f32[T, 2] carried) {"
	         " %0 = param a : f32[T, 2] sharded out b = %0 }",
	         true},
	        {IR_FORM_PLACED,
	         "kernel k(in a: f32[T, 2] carried, out b: f32[T, 2] carried) {"
	         " %0 = param a : f32[T, 2] replicated %1 = slice %0 out b = %1 }",
	         false},
	        {IR_FORM_FUSED,
	         "kernel k(in a: f32[T, 2] carried, out b: f32[T, 2] carried) {"
	         " %0 = load a : f32[T, 2] replicated store b = %0 }",
	         true},
	        {IR_FORM_FUSED,
	         "kernel k(in a: f32[T, 2] carried, out b: f32[T, 2] carried) {"
	         " %0 = load a : f32[T, 2] replicated store_all b = %0 }",
	         false},
	        {IR_FORM_FUSED,
	         "kernel k(in a: f32[T, 2] carried, in x: f32[T, 2] partial) {"
	         " %0 = load a : f32[T, 2] replicated %1 = load_sum x : f32[T, 2] sharded }",
	         false},
	};
	struct ir_fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ir_module *m = ir_text(f, cases[i].text);

		if (!m && !cases[i].good)
			continue; /* refused by the reader */
		assert_non_null(m);
		if (ir_verify(m->funcs, cases[i].form, &f->d) != cases[i].good)
			fail_msg("case %u", (unsigned)i);
	}
}

static void a_load_without_a_type_has_own_rows_of_a_carried_parameter(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_module *m = ir_text(f, "kernel k(inout a: f32[T, 2] carried) { %0 = load a "
	                                 "store a = %0 }");

	assert_non_null(m);
	assert_int_equal(m->funcs->first->type.place, IR_SHARDED);
}

/* ---- the reference ---- */

struct run {
	struct ir_fixture *f;
	struct ir_eval_options o;
	struct ir_buffer in[MAX_PARAMS * TP], out[MAX_PARAMS * TP];
};

/* Element i of parameter p on rank r is p + r / 8 for partial, p elsewhere. */
static void set_up(struct run *t, struct ir_fixture *f, const struct ir_func *k, enum ir_rows rows)
{
	*t = (struct run){
	        f, {TP, ROWS, IR_EVAL_SPEC, IR_SUM_RANK_ORDER, rows, false}, {{0}}, {{0}}};
	for (unsigned i = 0; i < k->nparam * TP; i++) {
		const struct ir_type ty = k->param[i / TP].type;
		struct ir_buffer *b = &t->in[i];

		*b = (struct ir_buffer){.rows = ty.ndim == 2 ? ROWS : 1, .cols = ty.cols};
		b->v = arena_news(&f->arena, double, (size_t)(b->rows * b->cols));
		b->err = arena_news(&f->arena, double, (size_t)(b->rows * b->cols));
		for (int64_t c = 0; c < b->rows * b->cols; c++)
			b->v[c] = i / TP + (ty.place == IR_PARTIAL ? i % TP / 8.0 : 0.0);
	}
}

static enum status evaluate(struct run *t, const struct ir_func *k)
{
	return ir_eval(k, &t->o, t->in, t->out, &t->f->arena, &t->f->d);
}

static void a_carried_buffer_with_all_rows_is_written_on_every_rank(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_func *const k[] = {ir_text(f, add)->funcs, fused(f, add, IR_ROWS_ALL)};
	struct run t;

	for (unsigned i = 0; i < 2; i++) {
		set_up(&t, f, k[i], IR_ROWS_ALL);
		assert_int_equal(evaluate(&t, k[i]), ST_OK);
		for (unsigned r = 0; r < TP; r++)
			for (unsigned c = 0; c < ROWS * 2; c++) {
				assert_true(t.out[TP + r].v[c] == 1.125);
				assert_true(t.out[TP + r].err[c] == 0.0);
			}
	}
}

static void a_kernel_of_own_rows_leaves_the_others_where_all_were_asked_for(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_func *k = fused(f, add, IR_ROWS_OWN);
	struct run t;

	set_up(&t, f, k, IR_ROWS_ALL);
	assert_int_equal(evaluate(&t, k), ST_OK);
	assert_true(t.out[TP].err[0] == 0.0 && t.out[TP].err[4] == -1.0);
	assert_true(t.out[TP + 1].err[0] == -1.0 && t.out[TP + 1].err[4] == 0.0);
}

static void ranks_differ_only_where_the_kernel_allows_it(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_func *k = ir_text(f, add)->funcs;
	struct run t;

	set_up(&t, f, k, IR_ROWS_ALL);
	t.in[TP + 1].v[3] = 1.5;
	assert_int_equal(evaluate(&t, k), ST_INPUT);
	assert_int_equal(f->d.head->code, DIAG_EVAL_REPLICATED);
	k->rank_divergence = true;
	assert_int_equal(evaluate(&t, k), ST_OK);
	/* rank 0's value, and a bound in which rank 1's lies too */
	assert_true(t.out[TP].v[3] == 1.125 && t.out[TP].err[3] == 0.5);
	assert_true(t.out[TP].err[2] == 0.0);
	/* on own rows there is nothing to differ */
	k->rank_divergence = false;
	t.o.carried = IR_ROWS_OWN;
	assert_int_equal(evaluate(&t, k), ST_OK);
	assert_true(t.out[TP].v[3] == 1.125 && t.out[TP].err[3] == 0.0);
}

/* What one rank has as a number and another as a NaN is not known. */
static void a_nan_on_one_rank_makes_the_rows_unknown(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_func *k = ir_text(f, add)->funcs;
	struct run t;

	k->rank_divergence = true;
	set_up(&t, f, k, IR_ROWS_ALL);
	t.in[TP + 1].v[0] = (double)NAN;
	assert_int_equal(evaluate(&t, k), ST_OK);
	assert_true(isinf(t.out[TP].err[0]) && t.out[TP].err[1] == 0.0);
}

/* Bounds of one kernel's results are the next one's of its inputs, whether the sum is still a value
 * or has become a load. */
static void bounds_of_inputs_reach_the_outputs(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_func *const k[] = {ir_text(f, add)->funcs, fused(f, add, IR_ROWS_ALL)};
	struct run t;

	for (unsigned i = 0; i < 2; i++) {
		set_up(&t, f, k[i], IR_ROWS_ALL);
		t.in[0].err[0] = 0.25;
		t.in[1].err[0] = 0.5;
		t.in[0].err[1] = (double)INFINITY;
		t.in[TP].err[2] = 2.0;
		t.in[TP + 1].err = t.in[TP].err;
		t.in[TP + 1].v = t.in[TP].v;
		assert_int_equal(evaluate(&t, k[i]), ST_OK);
		assert_true(t.out[TP].err[0] == 0.75);
		assert_true(isinf(t.out[TP].err[1]));
		assert_true(t.out[TP].err[2] == 2.0);
		assert_true(t.out[TP].err[3] == 0.0);
	}
}

/* Two kernels in a row, in-switch sums on every rank: whatever neighbours the ranks get, the
 * reference of the second, told of the first one's bounds, holds. */
static void the_bounds_of_a_chain_hold_on_ranks_that_differ(void **state)
{
	static const char text[] =
	        "kernel k(in x: bf16[T, 2] partial, inout r: bf16[T, 2] carried) rank_divergence "
	        "{\n"
	        "\t%x = param x %r = param r %s = all_reduce %x %h = add %s, %r\n"
	        "\t%b = cast %h : bf16[T, 2] carried out r = %b\n}\n";
	struct ir_fixture *f = *state;
	struct ir_func *k = ir_text(f, text)->funcs;
	struct run a, b;
	double low, high;

	set_up(&a, f, k, IR_ROWS_ALL);
	a.o.sum = IR_SUM_FAITHFUL;
	for (unsigned c = 0; c < ROWS * 2; c++) {
		a.in[0].v[c] = 1.0;
		a.in[1].v[c] = 0x1p-8 + 0x1p-12; /* 1 + this lies between two neighbours */
	}
	assert_int_equal(evaluate(&a, k), ST_OK);
	low = 1.0 + 1.0;
	high = ir_round(IR_BF16, 1.0 + (1.0 + 0x1p-7));
	assert_true(ir_conforms(low, a.out[TP].v[0], a.out[TP].err[0]));
	assert_true(ir_conforms(high, a.out[TP].v[0], a.out[TP].err[0]));
	b = a;
	for (unsigned r = 0; r < TP; r++) {
		b.in[TP + r].v = a.out[TP + r].v;
		b.in[TP + r].err = a.out[TP + r].err;
	}
	assert_int_equal(evaluate(&b, k), ST_OK);
	assert_true(ir_conforms(low + 1.0, b.out[TP].v[0], b.out[TP].err[0]));
	assert_true(ir_conforms(ir_round(IR_BF16, high + 1.0 + 0x1p-7), b.out[TP].v[0],
	                        b.out[TP].err[0]));
	assert_false(ir_conforms(low + 1.125, b.out[TP].v[0], b.out[TP].err[0]));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, ir_set_up, ir_tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(all_rows_need_no_remark_and_no_gather),
	        TEST(a_sharded_parameter_is_named_where_all_rows_are_asked_for),
	        TEST(a_kernel_has_one_form_of_carried_rows),
	        TEST(a_load_without_a_type_has_own_rows_of_a_carried_parameter),
	        TEST(a_carried_buffer_with_all_rows_is_written_on_every_rank),
	        TEST(a_kernel_of_own_rows_leaves_the_others_where_all_were_asked_for),
	        TEST(ranks_differ_only_where_the_kernel_allows_it),
	        TEST(a_nan_on_one_rank_makes_the_rows_unknown),
	        TEST(bounds_of_inputs_reach_the_outputs),
	        TEST(the_bounds_of_a_chain_hold_on_ranks_that_differ),
	};

	return cmocka_run_group_tests_name("ir rows", tests, NULL, NULL);
}
