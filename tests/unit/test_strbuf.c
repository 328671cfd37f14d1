#include "tests/unit/unit.h"
#include "support/strbuf.h"
#include <string.h>

static void an_empty_string_is_terminated(void **state)
{
	struct arena a;
	struct strbuf b;

	(void)state;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail();
	strbuf_init(&b, &a);
	assert_string_equal(b.s, "");
	assert_int_equal(b.n, 0);
	arena_free(&a);
}

static void all_ways_of_appending_agree(void **state)
{
	struct arena a;
	struct strbuf b;

	(void)state;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail();
	strbuf_init(&b, &a);
	strbuf_putc(&b, 'm');
	strbuf_puts(&b, "ulti");
	strbuf_putn(&b, "memory", 3);
	strbuf_printf(&b, ".%s", "ld_reduce");
	strbuf_putn(&b, NULL, 0);
	assert_string_equal(b.s, "multimem.ld_reduce");
	assert_int_equal(b.n, strlen(b.s));
	arena_free(&a);
}

static void text_of_any_length_is_printed_whole(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail();
	for (int n = 0; n < 300; n++) {
		struct strbuf b;

		strbuf_init(&b, &a);
		strbuf_printf(&b, "%*s", n, "");
		strbuf_printf(&b, "%*s", n, "x");
		assert_int_equal(b.n, n + (n ? n : 1));
		assert_int_equal(strlen(b.s), b.n);
		assert_int_equal(b.s[b.n - 1], 'x');
	}
	arena_free(&a);
}

static void a_million_bytes_take_few_allocations(void **state)
{
	struct arena a;
	struct strbuf b;

	(void)state;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail();
	strbuf_init(&b, &a);
	for (int i = 0; i < 1000000; i++)
		strbuf_putc(&b, (char)('a' + i % 26));
	assert_int_equal(b.n, 1000000);
	assert_int_equal(b.s[999999], 'a' + 999999 % 26);
	assert_true(a.count < 30);
	arena_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(an_empty_string_is_terminated),
	        cmocka_unit_test(all_ways_of_appending_agree),
	        cmocka_unit_test(text_of_any_length_is_printed_whole),
	        cmocka_unit_test(a_million_bytes_take_few_allocations),
	};

	return cmocka_run_group_tests_name("strbuf", tests, NULL, NULL);
}
