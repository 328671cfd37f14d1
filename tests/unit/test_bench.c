/* Statistics and reports of bench, on numbers whose answers are known. */
#include "tests/unit/unit.h"
#include "tools/bench.h"
#include <math.h>
#include <stdio.h>

static double ours[] = {10, 11, 9, 10, 12}, plain[] = {20, 22, 18, 20, 12};
static double windows[] = {16, 17, 14, 15, 19}, fused[] = {11, 12, 10, 11, 13};
static double norm[] = {1, 1, 1, 1, 1};
static const uint64_t tokens[] = {1, 64};
static struct bench_who who[] = {{"plait", BENCH_PLAIT},
                                 {"norm", BENCH_NORM},
                                 {"NCCL + norm", BENCH_UNFUSED},
                                 {"NCCL <windows> + norm", BENCH_UNFUSED},
                                 {"FlashInfer", BENCH_FUSED}};

static int set_up(void **state)
{
	struct arena *a = calloc(1, sizeof *a);

	arena_init(a, 0);
	if (setjmp(a->oom))
		abort();
	*state = a;
	return 0;
}

static int tear_down(void **state)
{
	struct arena *a = *state;

	arena_free(a);
	free(a);
	return 0;
}

static struct bench_result example(struct arena *a)
{
	struct bench_result r = {.gpu = "NVIDIA H200",
	                         .driver = "580.1",
	                         .spec = "s.plait",
	                         .kernel = "add_norm",
	                         .dtype = "bf16",
	                         .settings = "",
	                         .tp = 2,
	                         .gpus = 2,
	                         .cols = 8192,
	                         .sum_bytes = 16384,
	                         .norm_bytes = 65536,
	                         .link_gbs = 335,
	                         .link_ctas = 12,
	                         .copy_gbs = 4096,
	                         .launches = 10,
	                         .rounds = 5,
	                         .T = tokens,
	                         .ntokens = 2,
	                         .who = who,
	                         .nwho = 5};

	r.cell = arena_news(a, struct bench_cell, 10);
	for (unsigned t = 0; t < 2; t++) {
		*bench_at(&r, t, 0) = (struct bench_cell){ours, NULL, "push", 8, 0};
		*bench_at(&r, t, 1) = (struct bench_cell){norm, NULL, NULL, 0, -1};
		*bench_at(&r, t, 2) = (struct bench_cell){plain, NULL, NULL, 0, 0};
		*bench_at(&r, t, 3) = (struct bench_cell){windows, NULL, NULL, 0, 0};
		*bench_at(&r, t, 4) = (struct bench_cell){fused, NULL, NULL, 0, 0};
	}
	return r;
}

static void near(double x, double want)
{
	if (fabs(x - want) > 1e-9)
		fail_msg("%g, not %g", x, want);
}

static void has(const char *text, const char *want)
{
	if (!strstr(text, want))
		fail_msg("no '%s' in:\n%s", want, text);
}

static void quantiles_are_those_of_the_sorted_numbers(void **state)
{
	static const double one[] = {3}, four[] = {4, 1, 3, 2};
	struct bench_stat s = bench_stat_of(one, 1, *state);

	near(s.median, 3);
	near(s.low, 3);
	s = bench_stat_of(four, 4, *state);
	near(s.median, 2.5);
	near(s.low, 1.3);
	near(s.high, 3.7);
	near(four[0], 4); /* left as they were */
}

static void a_speed_up_is_the_median_of_the_rounds_quotients(void **state)
{
	struct bench_stat s = bench_ratio(ours, plain, 5, *state);

	near(s.median, 2); /* not 20 / 10 by luck: the last round is 1 */
	near(s.low, 1.4);
	near(s.high, 2);
}

static void the_better_of_a_kind_is_compared_with(void **state)
{
	struct bench_result r = example(*state);

	assert_int_equal(bench_best(&r, 0, BENCH_UNFUSED, *state), 3);
	bench_at(&r, 1, 3)->us = NULL;
	assert_int_equal(bench_best(&r, 1, BENCH_UNFUSED, *state), 2);
	assert_int_equal(bench_best(&r, 0, BENCH_REDUCE, *state), -1);
}

static void shares_are_of_bytes_that_must_move(void **state)
{
	struct bench_result r = example(*state);

	near(bench_link_share(&r, 1, 64 * 16384 / 335e3), 1);
	r.tp = 8;
	near(bench_link_share(&r, 1, 64 * 16384 * 1.75 / 335e3), 1);
	near(bench_copy_share(&r, 1, 64 * 65536 / 4096e3), 1);
	r.link_gbs = 0;
	near(bench_link_share(&r, 1, 1), 0);
}

static void targets_are_for_two_h200s_and_rows_of_8192(void **state)
{
	struct bench_result r = example(*state);
	struct bench_target g;

	assert_true(bench_target(&r, 1, &g));
	near(g.unfused, 1.25);
	assert_true(bench_target(&r, 16384, &g));
	near(g.fused, 1.42);
	near(g.link, 0.95);
	near(g.norm, 0.85);
	assert_true(bench_target(&r, 4096, &g));
	near(g.link, 0);
	assert_false(bench_target(&r, 3, &g));
	r.cols = 4096;
	assert_false(bench_target(&r, 1, &g));
}

static void the_page_says_what_was_met_and_what_not(void **state)
{
	struct bench_result r = example(*state);
	struct strbuf b;

	strbuf_init(&b, *state);
	bench_markdown_head(&r, "plait bench s.plait", &b);
	bench_at(&r, 1, 2)->why = "no NCCL";
	bench_at(&r, 1, 2)->us = NULL;
	bench_at(&r, 0, 4)->off = 0.5;
	bench_markdown(&r, "p.svg", &b);
	has(b.s, "Written by `plait bench s.plait`");
	has(b.s, "| 1 | **10.0** | push, 8 | 16.0 (NCCL <windows> + norm) | **1.56x**");
	has(b.s, "asked 1.25: met");
	has(b.s, "| 64 | **10.0**");
	has(b.s, "asked 1.95: **not met**");
	has(b.s, "11.0 (FlashInfer) | **1.10x**");
	has(b.s, "NCCL + norm was not measured everywhere: no NCCL");
	has(b.s, "FlashInfer at T = 1: its result differs by 0.5");
	has(b.s, "335 GB/s in each direction");
	has(b.s, "![times over T](p.svg)");
}

static void json_lines_are_one_object_each(void **state)
{
	struct bench_result r = example(*state);
	struct strbuf b;
	unsigned lines = 0;

	bench_at(&r, 1, 4)->us = NULL;
	bench_at(&r, 1, 4)->why = "too many rows";
	strbuf_init(&b, *state);
	bench_json_lines(&r, &b);
	for (char *s = b.s; *s; lines++) {
		char *nl = strchr(s, '\n');
		cJSON *o;

		*nl = 0;
		o = cJSON_Parse(s);
		assert_non_null(o);
		if (lines == 1) {
			near(cJSON_GetObjectItem(o, "us")->valuedouble, 10);
			assert_string_equal(cJSON_GetObjectItem(o, "who")->valuestring, "plait");
			assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(o, "samples")), 5);
		}
		if (lines == 10)
			assert_string_equal(cJSON_GetObjectItem(o, "why_not")->valuestring,
			                    "too many rows");
		cJSON_Delete(o);
		s = nl + 1;
	}
	assert_int_equal(lines, 11);
}

static void the_picture_is_well_formed(void **state)
{
	struct bench_result r = example(*state);
	const struct bench_result *two[] = {&r, &r};
	struct strbuf b;
	unsigned open = 0, close = 0;

	bench_at(&r, 0, 2)->us = NULL;
	strbuf_init(&b, *state);
	bench_svg(two, 2, &b);
	has(b.s, "NCCL &lt;windows> + norm");
	has(b.s, "viewBox=\"0 0 900 840\"");
	for (const char *s = b.s; *s; s++) {
		open += *s == '<' && s[1] != '/';
		close += (*s == '<' && s[1] == '/') || (*s == '/' && s[1] == '>');
	}
	assert_int_equal(open, close);
	assert_null(strstr(b.s, "nan"));
	assert_null(strstr(b.s, "inf"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(quantiles_are_those_of_the_sorted_numbers),
	        TEST(a_speed_up_is_the_median_of_the_rounds_quotients),
	        TEST(the_better_of_a_kind_is_compared_with),
	        TEST(shares_are_of_bytes_that_must_move),
	        TEST(targets_are_for_two_h200s_and_rows_of_8192),
	        TEST(the_page_says_what_was_met_and_what_not),
	        TEST(json_lines_are_one_object_each),
	        TEST(the_picture_is_well_formed),
	};

	return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
