/* The planner as callers of plait.h have it: what the program says, and what is refused. */
#include "runtime/plait.h"
#include "tests/unit/plan_fixture.h"
#include <math.h>

static char *read_sample(const char *name, size_t *len)
{
	char path[128], *text = malloc(65536);
	FILE *f;

	snprintf(path, sizeof path, "samples/%s.plait", name);
	f = fopen(path, "rb");
	assert_non_null(f);
	assert_non_null(text);
	*len = fread(text, 1, 65536, f);
	fclose(f);
	return text;
}

static plait_planner *planner_of(const char *name, unsigned tp, const char *gpu)
{
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
	char *text = read_sample(name, &o.text_len);
	plait_planner *p;

	o.text = text;
	o.tp = tp;
	o.gpu = gpu;
	assert_int_equal(plait_planner_make(&o, &p), PLAIT_OK);
	assert_string_equal(plait_planner_diagnostics(p), "");
	free(text);
	return p;
}

static const plait_plan *plan_of(plait_planner *p, int64_t tokens)
{
	struct plait_batch b = PLAIT_BATCH_INIT;
	const plait_plan *plan;

	b.tokens = tokens;
	assert_int_equal(plait_plan_make(p, &b, &plan), PLAIT_OK);
	return plan;
}

/* Of one rank, too, whose collectives carry nothing. */
static void every_machine_of_the_database_can_be_handed_back(void **state)
{
	static const char *const name[] = {"h100", "h200", "b200", "a100"};
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
	char *text = read_sample("llama3-8b", &o.text_len);

	(void)state;
	o.text = text;
	for (unsigned i = 0; i < 2 * 4 * 8; i++) {
		struct plait_machine m = PLAIT_MACHINE_INIT;
		plait_planner *p;

		o.tp = 1 + i % 8;
		if (32 % o.tp)
			continue;
		assert_int_equal(plait_machine_get(name[i / 16], o.tp, i / 8 % 2, &m), PLAIT_OK);
		o.machine = &m;
		if (plait_planner_make(&o, &p) != PLAIT_OK)
			fail_msg("%s, tp %u: %s", name[i / 16], o.tp, plait_planner_diagnostics(p));
		plait_planner_free(p);
	}
	free(text);
}

/* An operation that does nothing takes no launch. */
static void an_opaque_node_without_work_takes_no_time(void **state)
{
	static const char *const spec[] = {"",
	                                   "    b = opaque nothing(y) -> bf16[T, 4096] replicated "
	                                   "cost work(flops = 0, bytes = 0);\n",
	                                   "    b = opaque something(y) -> bf16[T, 4096] "
	                                   "replicated cost work(flops = 0, bytes = 1);\n"};
	double us[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
		struct plait_plan_info info = PLAIT_PLAN_INFO_INIT;
		char text[1000];
		plait_planner *p;

		snprintf(text, sizeof text,
		         "kernel sum(x: bf16[T, 4096] partial) -> y: bf16[T, 4096] replicated\n"
		         "{\n    out y = all_reduce(x);\n}\n"
		         "model m {\n    input y: bf16[T, 4096] replicated;\n"
		         "    weight w: bf16[4096, 4096] rows;\n"
		         "    weight v: bf16[4096, 4096] columns;\n%s"
		         "    c = gemm(%s, v);\n    x = gemm(c, w);\n    z = sum(x);\n"
		         "    output z;\n}\n",
		         spec[i], i ? "b" : "y");
		o.text = text;
		o.text_len = strlen(text);
		o.tp = 2;
		o.gpu = "h200";
		if (plait_planner_make(&o, &p) != PLAIT_OK)
			fail_msg("%s", plait_planner_diagnostics(p));
		plait_plan_get(plan_of(p, 256), &info);
		us[i] = info.us;
		plait_planner_free(p);
	}
	assert_true(us[1] <= us[0] && us[1] >= us[0]);
	assert_true(us[2] > us[0] + 1);
}

static void a_plan_is_read_stage_by_stage(void **state)
{
	plait_planner *p = planner_of("llama3-70b", 8, "h100");
	const plait_plan *plan = plan_of(p, 4096);
	struct plait_plan_info info = PLAIT_PLAN_INFO_INIT;
	double sum = 0;
	unsigned targets = 0;

	(void)state;
	assert_int_equal(plait_plan_get(plan, &info), PLAIT_OK);
	assert_int_equal(info.mode, PLAIT_RUN_SPLIT);
	assert_true(info.own_rows && info.row_base[1] == info.split);
	assert_int_equal(info.residual_base[1], info.split);
	assert_int_equal(info.nstep, 2 * 161);
	assert_true(info.us < info.mode_us[PLAIT_RUN_FUSED]);
	for (size_t i = 0; i < info.nstage; i++) {
		struct plait_plan_stage st = PLAIT_PLAN_STAGE_INIT;

		assert_int_equal(plait_plan_get_stage(plan, i, &st), PLAIT_OK);
		assert_int_equal(st.rows, st.part ? 4096 - info.split : info.split);
		sum += st.us * st.times;
		for (size_t k = 0; k < st.noperation; k++) {
			struct plait_plan_operation op = PLAIT_PLAN_OPERATION_INIT;

			assert_int_equal(plait_plan_get_operation(plan, i, k, &op), PLAIT_OK);
			targets += op.sm_target != 0;
			if (!strcmp(op.kind, "gemm"))
				assert_true(op.waves >= 1 && op.waves_before >= op.waves &&
				            op.tile_m);
		}
		assert_int_equal(plait_plan_get_operation(
		                         plan, i, st.noperation,
		                         &(struct plait_plan_operation)PLAIT_PLAN_OPERATION_INIT),
		                 PLAIT_USAGE);
	}
	assert_true(targets > 0);
	/* the last collective is left */
	assert_true(sum < info.us && sum > 0.99 * info.us);
	assert_true(plait_plan_step(plan, 0) == 0 && plait_plan_step(plan, 322) == info.nstage);
	plait_planner_free(p);
}

static void ranks_have_equal_texts_and_hashes(void **state)
{
	plait_planner *p[2] = {planner_of("gemma3-27b", 4, "h200"),
	                       planner_of("gemma3-27b", 4, "h200")};
	struct plait_plan_info a = PLAIT_PLAN_INFO_INIT, b = PLAIT_PLAN_INFO_INIT;
	char *json[2], *text, *trace;

	(void)state;
	plan_of(p[1], 77);
	for (int i = 0; i < 2; i++)
		json[i] = plait_plan_json(p[i], plan_of(p[i], 3000));
	assert_string_equal(json[0], json[1]);
	plait_plan_get(plan_of(p[0], 3000), &a);
	plait_plan_get(plan_of(p[1], 3000), &b);
	assert_true(a.hash == b.hash);
	text = plait_plan_text(p[0], plan_of(p[0], 3000));
	trace = plait_plan_trace(p[0], plan_of(p[0], 3000));
	assert_non_null(strstr(text, "gemma3_27b on h200, tp 4, 3000 rows"));
	assert_non_null(strstr(trace, "\"traceEvents\":["));
	plait_text_free(text);
	plait_text_free(trace);
	for (int i = 0; i < 2; i++) {
		plait_text_free(json[i]);
		plait_planner_free(p[i]);
	}
}

static void a_machine_may_be_measured(void **state)
{
	struct plait_machine m = PLAIT_MACHINE_INIT;
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
	struct plait_plan_info info = PLAIT_PLAN_INFO_INIT;
	double before = 0;
	char *text = read_sample("llama3-8b", &o.text_len);
	plait_planner *p;

	(void)state;
	o.text = text;
	o.tp = 2;
	assert_int_equal(plait_machine_get("no such", 2, true, &m), PLAIT_USAGE);
	assert_int_equal(plait_machine_get("H200", 2, false, &m), PLAIT_OK);
	assert_int_equal(m.sms, 132);
	assert_true(m.nfused >= 5 && m.npush == 1 && m.nplain == 1);
	o.machine = &m;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(plait_planner_make(&o, &p), PLAIT_OK);
		plait_plan_get(plan_of(p, 2048), &info);
		assert_true(i == 0 || info.us < before); /* twice as fast GEMMs */
		before = info.us;
		m.gemm_eff *= 2;
		plait_planner_free(p);
	}
	m.fused[0].gbs = 0;
	assert_int_equal(plait_planner_make(&o, &p), PLAIT_USAGE);
	assert_non_null(strstr(plait_planner_diagnostics(p), "make no sense"));
	plait_planner_free(p);
	free(text);
}

static bool ten_us(void *ctx, const struct plait_gemm_query *q, struct plait_gemm_fact *f)
{
	++*(unsigned *)ctx;
	if (q->m > 100000)
		return false;
	f->us = 10;
	return true;
}

static void gemms_may_be_the_callers(void **state)
{
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
	struct plait_plan_info info = PLAIT_PLAN_INFO_INIT;
	char *text = read_sample("llama3-8b", &o.text_len);
	unsigned asked = 0;
	plait_planner *p;

	(void)state;
	o.text = text;
	o.tp = 2;
	o.gpu = "h200";
	o.gemm = ten_us;
	o.gemm_ctx = &asked;
	assert_int_equal(plait_planner_make(&o, &p), PLAIT_OK);
	plait_plan_get(plan_of(p, 4096), &info);
	assert_true(asked > 50);
	/* two halves would be eight GEMMs of 10 us in place of four */
	assert_true(info.mode_us[PLAIT_RUN_REMOVED] > 32 * 4 * 10);
	plait_planner_free(p);
	free(text);
}

static void expect(struct plait_planner_options *o, enum plait_status want, const char *part)
{
	plait_planner *p;

	assert_int_equal(plait_planner_make(o, &p), want);
	if (!strstr(plait_planner_diagnostics(p), part))
		fail_msg("'%s' is not in: %s", part, plait_planner_diagnostics(p));
	assert_int_equal(plait_plan_make(p, NULL, &(const plait_plan *){NULL}), PLAIT_USAGE);
	plait_planner_free(p);
}

static void a_plan_of_a_mode_can_be_had_to_measure_it(void **state)
{
	plait_planner *p = planner_of("llama3-70b", 8, "h100");
	const plait_plan *best = plan_of(p, 4096), *plan, *again;
	struct plait_batch b = PLAIT_BATCH_INIT;
	struct plait_plan_info info = PLAIT_PLAN_INFO_INIT, chosen = PLAIT_PLAN_INFO_INIT;

	(void)state;
	plait_plan_get(best, &chosen);
	b.tokens = 4096;
	for (unsigned mode = 0; mode <= PLAIT_RUN_SPLIT; mode++) {
		assert_int_equal(plait_plan_force(p, &b, (enum plait_run_mode)mode, 0, &plan),
		                 PLAIT_OK);
		plait_plan_get(plan, &info);
		assert_int_equal(info.mode, mode);
		assert_true(fabs(info.us - chosen.mode_us[mode]) < 1e-6 * info.us);
	}
	assert_int_equal(info.hash, chosen.hash);
	assert_int_equal(plait_plan_force(p, &b, PLAIT_RUN_SPLIT, 1000, &plan), PLAIT_OK);
	plait_plan_get(plan, &info);
	assert_int_equal(info.split, 896);
	assert_true(info.us >= chosen.us);
	/* remembered, and not for the plan that was chosen */
	assert_int_equal(plait_plan_force(p, &b, PLAIT_RUN_SPLIT, 1000, &again), PLAIT_OK);
	assert_ptr_equal(again, plan);
	assert_ptr_equal(plan_of(p, 4096), best);
	b.tokens = 1;
	assert_int_equal(plait_plan_force(p, &b, PLAIT_RUN_SPLIT, 0, &plan), PLAIT_USAGE);
	assert_int_equal(plait_plan_force(p, &b, (enum plait_run_mode)9, 0, &plan), PLAIT_USAGE);
	assert_null(plan);
	plait_planner_free(p);
}

static void what_is_wrong_is_said(void **state)
{
	static const char kernel[] = "kernel k(x: bf16[T, 8] partial) -> y: bf16[T, 8] { out y = "
	                             "all_reduce(x); }\n";
	static const char local[] =
	        "model m { input e: bf16[T, 8]; weight w: bf16[8, 8]; y = gemm(e, "
	        "w); output y; }\n";
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
	plait_planner *p;

	(void)state;
	assert_int_equal(plait_planner_make(NULL, &p), PLAIT_USAGE);
	assert_null(p);
	assert_int_equal(plait_planner_make(&o, NULL), PLAIT_USAGE);
	expect(&o, PLAIT_USAGE, "no spec is given");
	o.text = kernel;
	o.text_len = strlen(kernel);
	o.nset = 1;
	expect(&o, PLAIT_USAGE, "an override has no name or no value");
	o.set = &(struct plait_set){"hidden", NULL};
	expect(&o, PLAIT_USAGE, "an override has no name or no value");
	o.set = &(struct plait_set){NULL, "1"};
	expect(&o, PLAIT_USAGE, "an override has no name or no value");
	o.nset = SIZE_MAX;
	expect(&o, PLAIT_USAGE, "more than 65536 overrides");
	o.nset = 0;
	o.text = kernel;
	o.text_len = strlen(kernel);
	expect(&o, PLAIT_USAGE, "tp is not 1 to 16");
	o.tp = 2;
	expect(&o, PLAIT_USAGE, "h100, h200, b200, a100");
	o.gpu = "h200";
	expect(&o, PLAIT_INPUT, "no such model");
	o.text = local;
	o.text_len = strlen(local);
	expect(&o, PLAIT_INPUT, "has no collective");
	o.text_len = 20;
	expect(&o, PLAIT_INPUT, "E100");
	plait_planner_free(NULL);
	assert_int_equal(plait_plan_get(NULL, &(struct plait_plan_info)PLAIT_PLAN_INFO_INIT),
	                 PLAIT_USAGE);
}

static const double strange_numbers[] = {-1, -1e-300, INFINITY, -INFINITY, 1e308, NAN};
enum { NSTRANGE = sizeof strange_numbers / sizeof *strange_numbers };

/* Every number of a machine, one after the other. */
static void numbers_of_a_machine_that_make_no_sense_are_refused(void **state)
{
	static const size_t at[] = {
	        offsetof(struct plait_machine, tflops),
	        offsetof(struct plait_machine, hbm_gbs),
	        offsetof(struct plait_machine, link_gbs),
	        offsetof(struct plait_machine, gemm_eff),
	        offsetof(struct plait_machine, grouped_eff),
	        offsetof(struct plait_machine, attention_eff),
	        offsetof(struct plait_machine, mem_eff),
	        offsetof(struct plait_machine, tile_us),
	        offsetof(struct plait_machine, launch_us),
	        offsetof(struct plait_machine, join_us),
	        offsetof(struct plait_machine, gamma),
	        offsetof(struct plait_machine, fused[0].alpha_us),
	        offsetof(struct plait_machine, fused[0].gbs),
	        offsetof(struct plait_machine, push[0].alpha_us),
	        offsetof(struct plait_machine, push[0].gbs),
	        offsetof(struct plait_machine, plain[0].alpha_us),
	        offsetof(struct plait_machine, plain[0].gbs),
	};
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
	struct plait_machine m = PLAIT_MACHINE_INIT, good = PLAIT_MACHINE_INIT;

	(void)state;
	o.text = "";
	o.tp = 2;
	o.machine = &m;
	assert_int_equal(plait_machine_get("h200", 2, false, &good), PLAIT_OK);
	assert_true(good.nfused && good.npush && good.nplain);
	for (size_t k = 0; k < sizeof at / sizeof *at; k++)
		for (size_t i = 0; i < NSTRANGE; i++) {
			m = good;
			memcpy((char *)&m + at[k], &strange_numbers[i], sizeof(double));
			expect(&o, PLAIT_USAGE, "members that make no sense");
		}
	m = good;
	snprintf(m.name, sizeof m.name, "a\"b\\\n");
	expect(&o, PLAIT_USAGE, "members that make no sense");
	m = good;
	o.hysteresis = NAN;
	expect(&o, PLAIT_USAGE, "'hysteresis'");
}

static bool strange_time(void *ctx, const struct plait_gemm_query *q, struct plait_gemm_fact *f)
{
	(void)q;
	f->us = *(const double *)ctx;
	return true;
}

static bool strange_waves(void *ctx, const struct plait_gemm_query *q, struct plait_gemm_fact *f)
{
	(void)q;
	f->tile_m = f->tile_n = 128;
	f->waves = *(const double *)ctx;
	return true;
}

static bool strange_tile(void *ctx, const struct plait_gemm_query *q, struct plait_gemm_fact *f)
{
	(void)ctx;
	(void)q;
	f->tile_m = 128;
	f->tile_n = 1u << 31;
	return true;
}

static void answers_of_a_callback_that_make_no_sense_are_named(void **state)
{
	static const plait_gemm_fn fn[] = {strange_time, strange_waves, strange_tile};
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
	struct plait_batch b = PLAIT_BATCH_INIT;
	const plait_plan *plan;
	plait_planner *p;

	(void)state;
	o.text = read_sample("llama3-70b", &o.text_len);
	o.tp = 8;
	o.gpu = "h100";
	b.tokens = 2048;
	for (size_t k = 0; k < 3 * NSTRANGE; k++) {
		double number = strange_numbers[k % NSTRANGE];

		o.gemm = fn[k / NSTRANGE];
		o.gemm_ctx = &number;
		assert_int_equal(plait_planner_make(&o, &p), PLAIT_OK);
		assert_int_equal(plait_plan_make(p, &b, &plan), PLAIT_USAGE);
		assert_null(plan);
		assert_non_null(strstr(plait_planner_diagnostics(p), "'gemm' answers"));
		assert_non_null(strstr(plait_planner_diagnostics(p), "k = "));
		assert_int_equal(plait_plan_force(p, &b, PLAIT_RUN_FUSED, 0, &plan), PLAIT_USAGE);
		plait_planner_free(p);
	}
	free((char *)(uintptr_t)o.text);
}

static void a_part_has_its_requests(void **state)
{
	int64_t cum[] = {0, 100, 250, 300}, cached[] = {0, 40, 7}, length[3], before[3];
	struct plait_batch b = PLAIT_BATCH_INIT;
	size_t first, n;

	(void)state;
	b.tokens = 300;
	b.nrequest = 3;
	b.cum = cum;
	b.cached = cached;
	assert_int_equal(plait_batch_part(&b, 128, 172, &first, &n, length, before, 3), PLAIT_OK);
	assert_int_equal(first, 1);
	assert_int_equal(n, 2);
	assert_int_equal(length[0], 122);
	assert_int_equal(before[0], 40 + 28);
	assert_int_equal(length[1], 50);
	assert_int_equal(before[1], 7);
	assert_int_equal(plait_batch_part(&b, 0, 128, &first, &n, length, NULL, 1), PLAIT_OK);
	assert_int_equal(n, 2);
	assert_int_equal(length[0], 100);
	assert_int_equal(plait_batch_part(&b, 200, 101, &first, &n, NULL, NULL, 0), PLAIT_USAGE);
	cum[1] = 260;
	assert_int_equal(plait_batch_part(&b, 0, 300, &first, &n, NULL, NULL, 0), PLAIT_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(every_machine_of_the_database_can_be_handed_back),
	        cmocka_unit_test(an_opaque_node_without_work_takes_no_time),
	        cmocka_unit_test(a_plan_is_read_stage_by_stage),
	        cmocka_unit_test(ranks_have_equal_texts_and_hashes),
	        cmocka_unit_test(a_machine_may_be_measured),
	        cmocka_unit_test(gemms_may_be_the_callers),
	        cmocka_unit_test(a_plan_of_a_mode_can_be_had_to_measure_it),
	        cmocka_unit_test(what_is_wrong_is_said),
	        cmocka_unit_test(numbers_of_a_machine_that_make_no_sense_are_refused),
	        cmocka_unit_test(answers_of_a_callback_that_make_no_sense_are_named),
	        cmocka_unit_test(a_part_has_its_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
