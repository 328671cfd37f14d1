/* What the manual says of gelu (doc/language.md, the prelude), against the erf form. */
#include "frontend/frontend.h"
#include "ir/eval.h"
#include "tests/unit/unit.h"
#include <math.h>

enum { COLS = 4001 }; /* x from -10 to 10 */

static double x_of(int i)
{
	return (i - (COLS - 1) / 2) * 0.005;
}

static double erf_form(double x)
{
	return 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
}

/* gelu of every x, in real arithmetic. */
static const double *gelu(struct arena *a, const char *fn)
{
	const char *text = arena_printf(
	        a, "kernel k(x: f32[T, %d]) -> y: f32[T, %d] { out y = %s(x); }", COLS, COLS, fn);
	struct ir_eval_options o = {1, 1, IR_EVAL_REAL, IR_SUM_RANK_ORDER, IR_ROWS_OWN, false};
	struct ir_buffer in[2] = {{1, COLS, NULL, NULL}, {0}}, out[2] = {{0}};
	struct fe_options fo = {0};
	struct ast_file *ast;
	struct ir_module *m;
	struct diags d;

	diags_init(&d, a);
	ast = fe_parse(a, &d, diags_add_source(&d, "gelu.plait", text, strlen(text)));
	m = ast ? fe_lower(a, &d, ast, &fo) : NULL;
	assert_non_null(m);
	in[0].v = arena_news(a, double, COLS);
	for (int i = 0; i < COLS; i++)
		in[0].v[i] = (double)(float)x_of(i);
	assert_int_equal(ir_eval(ir_func_find(m, "k"), &o, in, out, a, &d), ST_OK);
	return out[1].v;
}

static double largest_difference(const double *y)
{
	double most = 0.0;

	for (int i = 0; i < COLS; i++)
		most = fmax(most, fabs(y[i] - erf_form((double)(float)x_of(i))));
	return most;
}

static void gelu_is_near_the_erf_form_as_the_manual_says(void **state)
{
	struct arena a;
	const double *y;

	(void)state;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail_msg("out of memory");
	y = gelu(&a, "gelu");
	assert_true(largest_difference(y) < 0.0005 && largest_difference(y) > 0.0003);
	for (int at = -3; at <= -1; at += 2) { /* "0.1 % of them at -1, 10 % at -3" */
		int i = (COLS - 1) / 2 + at * 200;
		double share = fabs(y[i] / erf_form(at) - 1.0);

		assert_true(at == -1 ? share > 0.0005 && share < 0.002
		                     : share > 0.05 && share < 0.15);
	}
	assert_true(y[(COLS - 1) / 2] == 0.0);
	assert_true(fabs(y[COLS - 1] - x_of(COLS - 1)) < 1e-5);
	arena_free(&a);
}

static void gelu_quick_is_the_sigmoid_form(void **state)
{
	struct arena a;
	const double *y;

	(void)state;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail_msg("out of memory");
	y = gelu(&a, "gelu_quick");
	for (int i = 0; i < COLS; i++) {
		double x = (double)(float)x_of(i);

		assert_true(fabs(y[i] - x / (1.0 + exp(-1.702 * x))) < 1e-6);
	}
	arena_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(gelu_is_near_the_erf_form_as_the_manual_says),
	        cmocka_unit_test(gelu_quick_is_the_sigmoid_form),
	};

	return cmocka_run_group_tests_name("gelu", tests, NULL, NULL);
}
