#include "tests/unit/unit.h"
#include "runtime/jit.h"

static const char good[] = ".version 7.8\n"
                           ".target sm_90\n"
                           ".address_size 64\n"
                           ".visible .entry nothing(.param .u64 p)\n"
                           "{\n"
                           "\t.reg .b64 %rd<2>;\n"
                           "\tld.param.u64 %rd1, [p];\n"
                           "\tst.global.u64 [%rd1], %rd1;\n"
                           "\tret;\n"
                           "}\n";

struct fixture {
	struct arena arena;
	struct diags d;
	const struct rt_nvjitlink *link;
};

static int set_up(void **state)
{
	static struct fixture f;

	arena_init(&f.arena, 0);
	if (setjmp(f.arena.oom))
		return -1;
	diags_init(&f.d, &f.arena);
	rt_nvjitlink_open(&f.arena, &f.d, NULL, &f.link);
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	arena_free(&f->arena);
	return 0;
}

static const char *shown(struct fixture *f)
{
	struct strbuf b;

	strbuf_init(&b, &f->arena);
	diags_render(&f->d, DIAG_REMARK, &b);
	return b.s;
}

static void a_missing_library_is_named_with_what_needs_it(void **state)
{
	struct fixture *f = *state;
	const struct rt_nvjitlink *l;

	diags_init(&f->d, &f->arena);
	assert_int_equal(rt_nvjitlink_open(&f->arena, &f->d, "/nonexistent", &l), ST_ENV);
	assert_null(l);
	assert_non_null(strstr(shown(f), "libnvJitLink.so"));
	assert_non_null(strstr(shown(f), "to make cubins"));
}

static void good_ptx_becomes_an_elf_file_and_a_report(void **state)
{
	struct fixture *f = *state;
	struct rt_cubin c;

	SKIP_UNLESS(f->link, "nvJitLink");
	assert_int_equal(
	        rt_nvjitlink_link(f->link, good, strlen(good), "sm_90", &f->arena, &f->d, &c),
	        ST_OK);
	assert_true(c.size > 100);
	assert_memory_equal(c.data, "\177ELF", 4);
	assert_non_null(strstr(c.info, "registers"));
	assert_string_equal(shown(f), "");
}

static void wrong_ptx_is_refused_with_the_line(void **state)
{
	struct fixture *f = *state;
	static const char bad[] = ".version 7.8\n.target sm_90\n.address_size 64\nfrobnicate;\n";
	struct rt_cubin c;

	SKIP_UNLESS(f->link, "nvJitLink");
	assert_int_equal(
	        rt_nvjitlink_link(f->link, bad, strlen(bad), "sm_90", &f->arena, &f->d, &c),
	        ST_INPUT);
	assert_null(c.data);
	assert_non_null(strstr(c.errors, "line 4"));
	assert_non_null(strstr(shown(f), "line 4"));
}

static void an_unknown_target_is_the_environments_lack(void **state)
{
	struct fixture *f = *state;
	struct rt_cubin c;

	SKIP_UNLESS(f->link, "nvJitLink");
	assert_int_equal(
	        rt_nvjitlink_link(f->link, good, strlen(good), "sm_999", &f->arena, &f->d, &c),
	        ST_ENV);
	assert_non_null(strstr(shown(f), "'sm_999'"));
}

/* Links with the allocation `fail_at` failing; the status, ST_NOMEM when it did. */
static enum status link_failing(uint64_t fail_at)
{
	struct arena a;
	struct diags d;
	const struct rt_nvjitlink *l;
	struct rt_cubin c;
	enum status s;

	arena_init(&a, 0);
	a.fail_at = fail_at;
	if (setjmp(a.oom)) {
		arena_free(&a);
		return ST_NOMEM;
	}
	diags_init(&d, &a);
	s = rt_nvjitlink_open(&a, &d, NULL, &l);
	if (s == ST_OK)
		s = rt_nvjitlink_link(l, good, strlen(good), "sm_90", &a, &d, &c);
	arena_free(&a);
	return s;
}

static void running_out_of_memory_anywhere_comes_back_clean(void **state)
{
	struct fixture *f = *state;
	uint64_t k = 1;

	SKIP_UNLESS(f->link, "nvJitLink");
	while (link_failing(k) == ST_NOMEM)
		k++;
	assert_true(k > 5);
	assert_int_equal(link_failing(k), ST_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(a_missing_library_is_named_with_what_needs_it),
	        TEST(good_ptx_becomes_an_elf_file_and_a_report),
	        TEST(wrong_ptx_is_refused_with_the_line),
	        TEST(an_unknown_target_is_the_environments_lack),
	        TEST(running_out_of_memory_anywhere_comes_back_clean),
	};

	return cmocka_run_group_tests_name("jit", tests, NULL, NULL);
}
