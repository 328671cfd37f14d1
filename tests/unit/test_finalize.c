#include "tests/unit/unit.h"
#include "tests/unit/folder.h"
#include "runtime/finalize.h"
#include "runtime/jit.h"
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

static const char text[] = ".version 7.8\n.target sm_90\n.address_size 64\n"
                           ".visible .entry %s(.param .u64 p)\n"
                           "{\n\t.reg .b64 %%rd<2>;\n\tld.param.u64 %%rd1, [p];\n"
                           "\tst.global.u64 [%%rd1], %%rd1;\n\tret;\n}\n";

struct fixture {
	struct arena arena;
	struct rt_cache cache;
	struct rt_finalize f;
	struct rt_cubin_job job[3];
	bool linker;
	char dir[64];
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	const struct rt_nvjitlink *l;
	struct diags d;

	unsetenv("PLAIT_JIT");
	arena_init(&f->arena, 0);
	if (setjmp(f->arena.oom))
		return -1;
	diags_init(&d, &f->arena);
	f->linker = rt_nvjitlink_open(&f->arena, &d, NULL, &l) == ST_OK;
	strcpy(f->dir, "/tmp/plait-cubins-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	rt_cache_open(&f->cache, f->dir, &f->arena);
	f->f = (struct rt_finalize){.cache = &f->cache, .target = "sm_90", .driver = 13000};
	for (int i = 0; i < 3; i++) {
		f->job[i].ptx = arena_printf(&f->arena, text, (const char *[]){"a", "b", "c"}[i]);
		f->job[i].ptx_len = strlen(f->job[i].ptx);
	}
	*state = f;
	return 0;
}

static void forget(struct fixture *f)
{
	for (int i = 0; i < 3; i++) {
		arena_free(&f->job[i].arena);
		f->job[i].cubin = (struct rt_bytes){NULL, 0};
	}
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	remove_folder(f->dir);
	forget(f);
	rt_cache_close(&f->cache);
	arena_free(&f->arena);
	free(f);
	return 0;
}

static void all_are_made_at_once_and_found_the_next_time(void **state)
{
	struct fixture *f = *state;
	size_t n[3];

	SKIP_UNLESS(f->linker, "nvJitLink");
	f->f.threads = 3;
	assert_true(rt_finalize_all(&f->f, f->job, 3));
	for (int i = 0; i < 3; i++) {
		assert_false(f->job[i].hit);
		assert_memory_equal(f->job[i].cubin.p, "\177ELF", 4);
		n[i] = f->job[i].cubin.n;
	}
	forget(f);
	assert_true(rt_finalize_all(&f->f, f->job, 3));
	for (int i = 0; i < 3; i++) {
		assert_true(f->job[i].hit);
		assert_int_equal(f->job[i].cubin.n, n[i]);
	}
	/* another driver may want other cubins */
	forget(f);
	f->f.driver = 13010;
	assert_true(rt_finalize_all(&f->f, f->job, 1));
	assert_false(f->job[0].hit);
}

static void what_cannot_be_made_is_left_to_the_driver_with_the_reason(void **state)
{
	struct fixture *f = *state;

	SKIP_UNLESS(f->linker, "nvJitLink");
	f->job[1].ptx = ".version 7.8\n.target sm_90\n.address_size 64\nfrobnicate;\n";
	f->job[1].ptx_len = strlen(f->job[1].ptx);
	for (int k = 0; k < 2; k++) {
		assert_true(rt_finalize_all(&f->f, f->job, 3));
		assert_int_equal(f->job[1].cubin.n, 0);
		assert_non_null(strstr(f->job[1].log, "line 4"));
		assert_int_equal(f->job[1].hit, k); /* the failure is remembered */
		assert_true(f->job[0].cubin.n && f->job[2].cubin.n);
		forget(f);
	}
}

static void cubins_that_are_given_are_kept(void **state)
{
	struct fixture *f = *state;

	f->job[0].cubin = (struct rt_bytes){"cubin", 5};
	f->job[1].cubin = (struct rt_bytes){"cubin", 5};
	assert_true(rt_finalize_all(&f->f, f->job, 2));
	assert_memory_equal(f->job[0].cubin.p, "cubin", 5);
}

static void all_is_left_to_the_driver_where_that_is_wished(void **state)
{
	struct fixture *f = *state;

	setenv("PLAIT_JIT", "driver", 1);
	assert_true(rt_finalize_all(&f->f, f->job, 3));
	assert_int_equal(f->job[0].cubin.n, 0);
	unsetenv("PLAIT_JIT");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(all_are_made_at_once_and_found_the_next_time),
	        TEST(what_cannot_be_made_is_left_to_the_driver_with_the_reason),
	        TEST(cubins_that_are_given_are_kept),
	        TEST(all_is_left_to_the_driver_where_that_is_wished),
	};

	return cmocka_run_group_tests_name("finalize", tests, NULL, NULL);
}
