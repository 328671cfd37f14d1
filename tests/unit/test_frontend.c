/* The frontend as a library: memory, time, and what is made of a spec. */
#include "frontend/frontend.h"
#include "tests/unit/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char kernel[] =
        "const n = 8, scale = 0.5, dtype = bf16;\n"
        "fn twice(x, k = 2) = x * k;\n"
        "kernel k(x: dtype[T, n] partial, w: dtype[n]) -> y: dtype[T, n] {\n"
        "  h = all_reduce(x);\n"
        "  out y = rmsnorm(twice(h) + twice(h) + twice(h, k = 3), w, eps = 1e-5) * scale;\n"
        "}\n"
        "model m { input e: dtype[T, n] partial; weight g[2]: dtype[n]; y = k(e, g[1]);\n"
        "  repeat i in 0..2 { y = opaque f(y, g[i]) -> dtype[T, n] cost work(); } output y; }\n";

struct result {
	bool good;
	char *said;
};

/* Compiles; the allocation with number fail_at fails (0: none).  false: out of memory. */
static bool compile(const char *text, size_t n, const struct fe_options *o, uint64_t fail_at,
                    struct result *r)
{
	struct arena a;
	struct diags d;
	struct strbuf b;
	struct source *src;
	struct ir_module *m;

	*r = (struct result){.good = false};
	arena_init(&a, 0);
	a.fail_at = fail_at;
	if (setjmp(a.oom)) {
		arena_free(&a);
		return false;
	}
	diags_init(&d, &a);
	strbuf_init(&b, &a);
	src = diags_add_source(&d, "test.plait", text, n);
	m = fe_lower(&a, &d, fe_parse(&a, &d, src), o);
	diags_render(&d, DIAG_REMARK, &b);
	if (m)
		ir_print(m, &b);
	r->good = m != NULL;
	r->said = strdup(b.s);
	arena_free(&a);
	return true;
}

static void any_allocation_may_fail(void **state)
{
	static const struct fe_options o = {.tp = 8};
	struct result r;
	uint64_t k = 1;

	(void)state;
	while (!compile(kernel, sizeof(kernel) - 1, &o, k, &r))
		k++;
	assert_true(r.good);
	assert_true(k > 500);
	free(r.said);
}

static void ten_megabytes_of_nesting_are_refused_at_once(void **state)
{
	static const char open[] = "([{-!";
	size_t n = 10 << 20, head;
	char *text = malloc(n);
	struct result r;

	(void)state;
	assert_non_null(text);
	for (const char *c = open; *c; c++) {
		clock_t begin = clock();

		memset(text, *c, n);
		head = (size_t)snprintf(text, n,
		                        "kernel k(x: f32[T, 8]) -> y: f32[T, 8] { out y = ");
		text[head] = *c;
		assert_true(compile(text, n, NULL, 0, &r));
		assert_false(r.good);
		assert_non_null(strstr(r.said, "error: "));
		assert_true(clock() - begin < 5 * CLOCKS_PER_SEC);
		free(r.said);
	}
	free(text);
}

static void a_set_changes_a_const_and_what_follows_from_it(void **state)
{
	static const struct fe_set set[] = {{"n", "16"}, {"dtype", "f16"}, {"scale", "0.25"}};
	static const struct fe_options o = {.set = set, .nset = 3};
	struct result r;

	(void)state;
	assert_true(compile(kernel, sizeof(kernel) - 1, &o, 0, &r));
	assert_true(r.good);
	assert_non_null(strstr(r.said, "in x: f16[T, 16] partial"));
	assert_non_null(strstr(r.said, "const 0.25"));
	assert_non_null(strstr(r.said, "const 0.0625"));
	free(r.said);
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	while ((text = strstr(text, what))) {
		n++;
		text++;
	}
	return n;
}

static void calls_of_one_signature_share_an_instance(void **state)
{
	struct result r;

	(void)state;
	assert_true(compile(kernel, sizeof(kernel) - 1, NULL, 0, &r));
	assert_true(r.good);
	assert_int_equal(count(r.said, "fn twice."), 2);
	assert_int_equal(count(r.said, "call twice."), 3);
	free(r.said);
}

static void constants_are_exact_until_they_meet_a_value(void **state)
{
	static const char text[] =
	        "kernel k(x: f32[T, 8]) -> y: f32[T, 8] { out y = x * (1 / 3 + 2 / 3) + (7 - 7); }";
	struct result r;

	(void)state;
	assert_true(compile(text, sizeof(text) - 1, NULL, 0, &r));
	assert_true(r.good);
	assert_non_null(strstr(r.said, "const 1 "));
	assert_non_null(strstr(r.said, "const 0 "));
	free(r.said);
}

static void a_function_of_the_file_comes_before_the_preludes(void **state)
{
	static const char text[] =
	        "fn silu(x) = x * 3;\nkernel k(x: f32[T, 8]) -> y: f32[T, 8] { out y = silu(x); }";
	struct result r;

	(void)state;
	assert_true(compile(text, sizeof(text) - 1, NULL, 0, &r));
	assert_true(r.good);
	assert_null(strstr(r.said, "sigmoid"));
	free(r.said);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(any_allocation_may_fail),
	        cmocka_unit_test(ten_megabytes_of_nesting_are_refused_at_once),
	        cmocka_unit_test(a_set_changes_a_const_and_what_follows_from_it),
	        cmocka_unit_test(calls_of_one_signature_share_an_instance),
	        cmocka_unit_test(constants_are_exact_until_they_meet_a_value),
	        cmocka_unit_test(a_function_of_the_file_comes_before_the_preludes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
