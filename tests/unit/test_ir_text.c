/* The text form: what is printed is read back, and mistakes in a text are named where they are. */
#include "tests/unit/ir_fixture.h"
#include <locale.h>

static const char every_op[] =
        "fn f.1(in a: f32[T, 64] sharded,\n\t\tin b: bool[T, 64] sharded) {\n"
        "\t%0 = param a : f32[T, 64] sharded\n"
        "\t%1 = param b : bool[T, 64] sharded\n"
        "\t%2 = select %1, %0, %0 : f32[T, 64] sharded\n"
        "\treturn %2\n}\n"
        "\n"
        "kernel k(in x: bf16[T, 64] partial ld 72 align 16,\n\t\tinout r: f32[T, 64] carried,\n"
        "\t\tin g: bf16[64],\n\t\tin s: f32[],\n\t\tin w: f16[T, 64] sharded,\n"
        "\t\tout y: bf16[T, 64] replicated,\n\t\tout z: f32[T, 8] sharded) deterministic "
        "merged_sums {\n"
        "\t%0 = param x : bf16[T, 64] partial\n"
        "\t%res = param r : f32[T, 64] carried\n"
        "\t%2 = reduce_scatter %0 : f32[T, 64] sharded\n"
        "\t%h.2 = add %2, %res : f32[T, 64] carried\n"
        "\t%4 = const 1e-05 : f32[]\n"
        "\t%5 = const -0.1 : f32[]\n"
        "\t%6 = lt %h.2, %4 : bool[T, 64] carried\n"
        "\t%7 = select %6, %h.2, %5 : f32[T, 64] carried\n"
        "\tout r = %7\n"
        "\t%9 = param w : f16[T, 64] sharded\n"
        "\t%10 = lt %9, %4 : bool[T, 64] sharded\n"
        "\t%11 = mul %9, %4 : f32[T, 64] sharded\n"
        "\t%12 = call f.1(%11, %10) : f32[T, 64] sharded\n"
        "\t%13 = group_sum %12, n = 8 : f32[T, 8] sharded\n"
        "\tout z = %13\n"
        "\t%14 = param g : bf16[64]\n"
        "\t%15 = mul %12, %14 : f32[T, 64] sharded\n"
        "\t%16 = cast %15 : bf16[T, 64] sharded\n"
        "\tout y = %16\n"
        "}\n";

static void what_is_printed_is_read_back(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_module *m = ir_text(f, every_op);

	assert_string_equal(ir_shown(f), "");
	assert_non_null(m);
	for (struct ir_func *g = m->funcs; g; g = g->next)
		if (!ir_verify(g, IR_FORM_SOURCE, &f->d))
			fail_msg("%s", ir_shown(f));
	assert_string_equal(ir_printed(f, m), every_op);
	assert_string_equal(ir_printed(f, ir_module_copy(m, &f->arena)), every_op);
}

static void types_may_be_left_out_where_they_follow(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_module *m =
	        ir_text(f, "kernel k(in x: bf16[T, 4] partial, out y: f32[T, 1]) {\n"
	                   "%a = param x %b = all_reduce %a %c = row_sum %b out y = %c }");

	assert_string_equal(ir_shown(f), "");
	assert_string_equal(
	        ir_printed(f, m),
	        "kernel k(in x: bf16[T, 4] partial,\n\t\tout y: f32[T, 1] replicated) {\n"
	        "\t%a = param x : bf16[T, 4] partial\n"
	        "\t%b = all_reduce %a : bf16[T, 4] replicated\n"
	        "\t%c = row_sum %b : f32[T, 1] replicated\n"
	        "\tout y = %c\n}\n");
}

static void a_copy_shares_nothing_with_its_original(void **state)
{
	struct ir_fixture *f = *state;
	struct arena other;
	struct ir_module *c;

	arena_init(&other, 0);
	if (setjmp(other.oom))
		fail();
	{
		struct ir_fixture *g = test_malloc(sizeof(*g));

		arena_init(&g->arena, 0);
		if (setjmp(g->arena.oom))
			fail();
		diags_init(&g->d, &g->arena);
		c = ir_module_copy(ir_text(g, every_op), &other);
		arena_free(&g->arena);
		test_free(g);
	}
	assert_string_equal(ir_printed(f, c), every_op);
	arena_free(&other);
}

static void numbers_do_not_depend_on_the_locale(void **state)
{
	struct ir_fixture *f = *state;
	static const char text[] =
	        "kernel k(out y: f32[]) {\n\t%0 = const 0.5 : f32[]\n\tout y = %0\n}\n";

	if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "de_DE"))
		skip();
	assert_string_equal(ir_printed(f, ir_text(f, text)), text);
	setlocale(LC_NUMERIC, "C");
}

static void names_that_two_values_share_are_printed_once(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_module *m = ir_text(f, "kernel k(in x: f32[T, 4], out y: f32[T, 4]) {\n"
	                                 "%x = param x %b = neg %x out y = %b }");

	m->funcs->first->next->name = "x";
	assert_non_null(strstr(ir_printed(f, m), "%1 = neg %x :"));
	assert_non_null(strstr(ir_printed(f, m), "out y = %1\n"));
}

static void mistakes_are_named_where_they_are(void **state)
{
#define HEAD "kernel k(in x: f32[T, 4], out y: f32[T, 4]) {\n"
	static const struct {
		const char *text, *error;
	} bad[] = {
	        {"\x01\x02", "1:1: error: 'kernel' or 'fn' expected"},
	        {"kernel", "1:7: error: a function's name expected"},
	        {"kernel k", "'(' expected"},
	        {"kernel k(x", "'in', 'out' or 'inout' expected"},
	        {"kernel k(in x: f33[T, 4]) {}", "1:16: error: a dtype expected"},
	        {"kernel k(in x: f32[T, 0]) {}", "this number is too small here"},
	        {"kernel k(in x: f32[T, 99999999999999999999]) {}",
	         "this number is too large here"},
	        {"kernel k(in x: f32[T, 4.5]) {}", "an integer expected"},
	        {"kernel k(in x: f32[], in x: f32[]) {}",
	         "a parameter of this name is there already"},
	        {"kernel k() { }\nkernel k() { }",
	         "2:8: error: a function of this name is there already"},
	        {HEAD "%0 = param z }", "2:12: error: no parameter has this name"},
	        {HEAD "%0 = parm x }", "2:6: error: an operation expected"},
	        {HEAD "%0 = neg %1 }", "2:10: error: this value is not defined before its use"},
	        {HEAD "%0 = param x\n%0 = param x }",
	         "3:1: error: a value of this name is defined already"},
	        {HEAD "%00 = param x }", "a value's name begins with a letter"},
	        {HEAD "%99999999999 = param x }", "this number is too large here"},
	        {HEAD "% = param x }", "a value ('%name' or '%12') expected"},
	        {HEAD "%0 = param x\nout z = %0 }", "no parameter has this name"},
	        {HEAD "%0 = out y = %1 }", "this operation has no result"},
	        {HEAD "param x }", "'%name =' expected"},
	        {HEAD "%0 = const foo }", "a number expected"},
	        {HEAD "%0 = const 1e }", "a number expected"},
	        {HEAD "%0 = param x\n%1 = cast %0 }", "': type' expected"},
	        {HEAD "%0 = param x\n%1 = group_sum %0 }", "', n = ...' expected"},
	        {HEAD "%0 = param x\n%1 = neg %0, n = 3 }", "this operation has no 'n'"},
	        {HEAD "%0 = param x\n%1 = group_sum %0, n = 3 }",
	         "a group size of 1 or more that divides"},
	        {HEAD "%0 = call g(%1) }", "no function before this one has this name"},
	        {HEAD "%0 = param x\nreturn %0 }", "a kernel returns nothing"},
	        {"fn g(in x: f32[]) { %0 = param x }", "'return' expected"},
	        {HEAD "%0 = param x\n", "'}' expected"},
	};
	struct ir_fixture *f = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		diags_init(&f->d, &f->arena);
		assert_null(ir_text(f, bad[i].text));
		if (!strstr(ir_shown(f), bad[i].error))
			fail_msg("%s\n gave: %s", bad[i].text, ir_shown(f));
	}
}

static void all_mistakes_of_a_text_are_reported(void **state)
{
	struct ir_fixture *f = *state;

	assert_null(ir_text(
	        f,
	        HEAD "%0 = parm x\n%1 = neg %0\n%2 = neg %7\n}\nkernel j( { }\nkernel l() { }\n"));
	assert_int_equal(f->d.nerror, 3);
}

static void long_and_deep_texts_are_refused_quickly(void **state)
{
	struct ir_fixture *f = *state;
	size_t n = 4 << 20;
	char *text = test_malloc(n + 1);

	text[n] = 0;
	for (const char *c = "([{%,=:-k0."; *c; c++) {
		memset(text, *c, n);
		diags_init(&f->d, &f->arena);
		assert_null(ir_text(f, text));
		assert_in_range(f->d.nerror, 1, 100);
	}
	test_free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(what_is_printed_is_read_back, ir_set_up,
	                                        ir_tear_down),
	        cmocka_unit_test_setup_teardown(types_may_be_left_out_where_they_follow, ir_set_up,
	                                        ir_tear_down),
	        cmocka_unit_test_setup_teardown(a_copy_shares_nothing_with_its_original, ir_set_up,
	                                        ir_tear_down),
	        cmocka_unit_test_setup_teardown(numbers_do_not_depend_on_the_locale, ir_set_up,
	                                        ir_tear_down),
	        cmocka_unit_test_setup_teardown(names_that_two_values_share_are_printed_once,
	                                        ir_set_up, ir_tear_down),
	        cmocka_unit_test_setup_teardown(mistakes_are_named_where_they_are, ir_set_up,
	                                        ir_tear_down),
	        cmocka_unit_test_setup_teardown(all_mistakes_of_a_text_are_reported, ir_set_up,
	                                        ir_tear_down),
	        cmocka_unit_test_setup_teardown(long_and_deep_texts_are_refused_quickly, ir_set_up,
	                                        ir_tear_down),
	};

	return cmocka_run_group_tests_name("ir text", tests, NULL, NULL);
}
