#include "tests/unit/unit.h"
#include "support/arena.h"
#include "support/status.h"
#include <stdbool.h>
#include <string.h>

static void blocks_are_zeroed_aligned_and_apart(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail();
	for (size_t n = 0; n < 300; n++) {
		unsigned char *p = arena_alloc(&a, n);

		assert_int_equal((uintptr_t)p % 16, 0);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0xff, n);
	}
	assert_int_equal(a.count, 300);
	assert_int_equal(a.used, 299 * 300 / 2);
	arena_free(&a);
	assert_int_equal(a.used, 0);
	assert_null(a.head);
}

static void a_block_larger_than_a_chunk_is_given_whole(void **state)
{
	struct arena a;
	unsigned char *p;

	(void)state;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail();
	p = arena_alloc(&a, 5 << 20);
	p[0] = 1;
	p[(5 << 20) - 1] = 1;
	arena_free(&a);
}

/* Returns how many allocations of `each` bytes succeed before one fails, at most 1000. */
static unsigned succeed(size_t limit, uint64_t fail_at, size_t each)
{
	struct arena a;
	volatile unsigned n = 0;

	arena_init(&a, limit);
	if (setjmp(a.oom)) {
		arena_free(&a);
		return n;
	}
	a.fail_at = fail_at;
	for (; n < 1000; n = n + 1)
		arena_alloc(&a, each);
	arena_free(&a);
	return n;
}

static void the_allocation_numbered_fail_at_fails(void **state)
{
	(void)state;
	assert_int_equal(succeed(0, 1, 10), 0);
	assert_int_equal(succeed(0, 7, 10), 6);
	assert_int_equal(succeed(0, 0, 10), 1000);
}

static void the_limit_is_reached_exactly(void **state)
{
	(void)state;
	assert_int_equal(succeed(100, 0, 10), 10);
	assert_int_equal(succeed(99, 0, 10), 9);
	assert_int_equal(succeed(5, 0, 10), 0);
}

static bool array_fails(size_t count, size_t size)
{
	struct arena a;

	arena_init(&a, 0);
	if (setjmp(a.oom)) {
		arena_free(&a);
		return true;
	}
	arena_array(&a, count, size);
	arena_free(&a);
	return false;
}

static void a_product_that_overflows_is_a_failed_allocation(void **state)
{
	(void)state;
	assert_true(array_fails(SIZE_MAX / 8 + 2, 8));
	assert_true(array_fails(SIZE_MAX, SIZE_MAX));
	assert_true(array_fails(SIZE_MAX - 1, 1));
	assert_false(array_fails(0, SIZE_MAX));
	assert_false(array_fails(10, 0));
}

/* An array of 0..n-1, grown one by one. */
static uint32_t *grow_to(struct arena *a, uint32_t n, size_t *cap)
{
	uint32_t *v = NULL;

	for (uint32_t i = 0; i < n; i++) {
		v = arena_grow(a, v, i, cap, i + 1, sizeof *v);
		v[i] = i;
	}
	return v;
}

static void a_growing_array_keeps_its_elements(void **state)
{
	struct arena a;
	size_t cap = 0;
	uint32_t *v;

	(void)state;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail();
	v = grow_to(&a, 10000, &cap);
	for (uint32_t i = 0; i < 10000; i++)
		assert_int_equal(v[i], i);
	assert_true(cap >= 10000 && cap < 20000);
	assert_ptr_equal(arena_grow(&a, v, 10000, &cap, 5, sizeof *v), v);
	arena_free(&a);
}

static void strings_are_copied_and_printed(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail();
	assert_string_equal(arena_strndup(&a, "residual", 3), "res");
	assert_string_equal(arena_strndup(&a, NULL, 0), "");
	assert_string_equal(arena_printf(&a, "%s=%d", "tp", 8), "tp=8");
	arena_free(&a);
}

static void every_status_has_its_phrase(void **state)
{
	(void)state;
	for (int i = ST_OK; i <= ST_NOMEM; i++)
		for (int j = ST_OK; j < i; j++)
			assert_string_not_equal(status_text((enum status)i),
			                        status_text((enum status)j));
	assert_string_equal(status_text((enum status)77), "not a status");
	assert_string_equal(status_text((enum status) - 1), "not a status");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(blocks_are_zeroed_aligned_and_apart),
	        cmocka_unit_test(a_block_larger_than_a_chunk_is_given_whole),
	        cmocka_unit_test(the_allocation_numbered_fail_at_fails),
	        cmocka_unit_test(the_limit_is_reached_exactly),
	        cmocka_unit_test(a_product_that_overflows_is_a_failed_allocation),
	        cmocka_unit_test(a_growing_array_keeps_its_elements),
	        cmocka_unit_test(strings_are_copied_and_printed),
	        cmocka_unit_test(every_status_has_its_phrase),
	};

	return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
