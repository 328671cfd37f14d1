/*
 * The driver's table and the messages of what fails.  The toolkit's stub library has all the
 * symbols and does nothing: it shows that every row names something that exists.
 */
#include "tests/unit/unit.h"
#include "runtime/driver.h"
#include <stdio.h>
#include <unistd.h>

static bool find_stub(char *path, size_t n)
{
	const char *home = getenv("CUDA_HOME");
	const char *dir[] = {home ? home : "/usr/local/cuda", "/usr/local/cuda"};
	static const char *const sub[] = {"lib64/stubs", "lib/stubs",
	                                  "targets/x86_64-linux/lib/stubs"};

	for (size_t i = 0; i < 2; i++)
		for (size_t j = 0; j < 3; j++) {
			snprintf(path, n, "%s/%s/libcuda.so", dir[i], sub[j]);
			if (access(path, R_OK) == 0)
				return true;
		}
	return false;
}

static void every_row_is_in_the_toolkits_library(void **state)
{
	struct rt_driver d;
	struct rt_error e = {0};
	char path[512];

	(void)state;
	SKIP_UNLESS(find_stub(path, sizeof path), "CUDA toolkit's libcuda.so");
	if (rt_driver_load(&d, path, &e) != PLAIT_OK)
		fail_msg("%s", e.text);
#define RT_DRIVER(need, member, symbol, args) assert_true((bool)d.member);
#include "runtime/driver.def"
#undef RT_DRIVER
}

static void a_call_that_fails_is_named_with_its_code(void **state)
{
	struct rt_driver d;
	struct rt_error e = {0};
	char path[512];

	(void)state;
	SKIP_UNLESS(find_stub(path, sizeof path), "CUDA toolkit's libcuda.so");
	assert_int_equal(rt_driver_open(&d, path, &e), PLAIT_ENV);
	assert_non_null(strstr(e.text, "cuInit: "));
	assert_non_null(strstr(e.text, "(34)"));
}

static void a_machine_without_the_driver_is_told_so(void **state)
{
	struct rt_driver d;
	struct rt_error e = {0};

	(void)state;
	assert_int_equal(rt_driver_open(&d, "/nowhere/libcuda.so.1", &e), PLAIT_ENV);
	assert_int_equal(e.status, PLAIT_ENV);
	assert_non_null(strstr(e.text, "the CUDA driver cannot be opened"));
	assert_null(d.init);
}

static void a_library_that_is_not_the_driver_is_refused_by_name(void **state)
{
	struct rt_driver d;
	struct rt_error e = {0};

	(void)state;
	assert_int_equal(rt_driver_open(&d, "libc.so.6", &e), PLAIT_ENV);
	assert_non_null(strstr(e.text, "has no 'cuInit'"));
}

static void the_first_failure_stays_and_gets_its_context(void **state)
{
	struct rt_error e = {0};

	(void)state;
	assert_int_equal(rt_fail(&e, PLAIT_ENV, "first %d", 1), PLAIT_ENV);
	assert_int_equal(rt_fail(&e, PLAIT_NOMEM, "second"), PLAIT_NOMEM);
	assert_int_equal(e.status, PLAIT_ENV);
	rt_error_context(&e, "rank %d", 3);
	assert_string_equal(e.text, "rank 3: first 1");
	for (int i = 0; i < 300; i++)
		rt_error_context(&e, "rank %d", i);
	assert_true(strlen(e.text) < sizeof e.text);
	rt_error_clear(&e);
	assert_string_equal(e.text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(every_row_is_in_the_toolkits_library),
	        cmocka_unit_test(a_call_that_fails_is_named_with_its_code),
	        cmocka_unit_test(a_machine_without_the_driver_is_told_so),
	        cmocka_unit_test(a_library_that_is_not_the_driver_is_refused_by_name),
	        cmocka_unit_test(the_first_failure_stays_and_gets_its_context),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
