/* Which protocol `auto` gives: the model against what was measured, and what every answer must keep
 * to. */
#include "codegen/select.h"
#include "tests/unit/cg_fixture.h"
#include <math.h>

static const uint64_t H = 8192 * 2;

/* add + norm of one row: x, y of S bytes, a residual read and written. */
static struct cg_case norm_case(unsigned tp, bool multicast)
{
	return (struct cg_case){.kernel = "k",
	                        .target = cg_target_by_name("sm_90"),
	                        .multicast = multicast,
	                        .tp = tp,
	                        .row = {H, H, 2 * H},
	                        .can = 1u << CG_PUSH | 1u << CG_P2P_TWOSHOT | 1u << CG_P2P_BULK |
	                               (multicast ? 1u << CG_MM_TWOSHOT | 1u << CG_MM_PUSH : 0)};
}

static struct ir_func *fused(struct cg_fixture *f, const char *spec, unsigned tp, enum ir_rows rows)
{
	struct source *src = diags_add_source(&f->d, "spec.plait", spec, strlen(spec));
	struct ast_file *ast = fe_parse(&f->arena, &f->d, src);
	struct fe_options o = {0};
	struct ir_module *m = ast ? fe_lower(&f->arena, &f->d, ast, &o) : NULL;
	struct ir_pass_options po = {.tp = tp, .rows = rows};

	return m && ir_run_passes(m, &po, &f->d) == ST_OK ? m->funcs : NULL;
}

/* The case of a spec's first kernel. */
static struct cg_case case_at(struct cg_fixture *f, const char *spec, const char *target,
                              bool multicast, unsigned tp)
{
	struct cg_options o = {.tp = tp, .target = cg_target_by_name(target)};
	struct ir_func *own = fused(f, spec, tp, IR_ROWS_OWN);
	struct ir_func *all = fused(f, spec, tp, IR_ROWS_ALL);
	struct cg_case c;

	diags_init(&f->d, &f->arena); /* what `all` said is expected */
	cg_case_make(&c, own, "no own rows", all, "a parameter is sharded", &o, multicast,
	             &f->arena);
	return c;
}

static struct cg_case case_of(struct cg_fixture *f, const char *spec, const char *target,
                              bool multicast)
{
	return case_at(f, spec, target, multicast, 8);
}

static const char plain[] = "kernel k(x: bf16[T, 256] partial) -> y: bf16[T, 256] replicated { out "
                            "y = all_reduce(x); }";
static const char fixed_order[] = "kernel k(x: bf16[T, 256] partial) -> y: bf16[T, 256] replicated "
                                  "{ deterministic; out y = all_reduce(x); }";
static const char diverging[] = "kernel k(x: bf16[T, 256] partial) -> y: bf16[T, 256] replicated { "
                                "allow rank_divergence; out y = all_reduce(x); }";
static const char sharded[] = "kernel k(x: bf16[T, 256] partial, r: bf16[T, 256] sharded) -> y: "
                              "bf16[T, 256] replicated { out y = all_reduce(x) + r; }";
static const char lonely[] = "kernel k(x: bf16[T, 256]) -> y: bf16[T, 256] { out y = x + x; }";

static void the_model_is_near_what_was_measured(void **state)
{
	static const struct {
		enum cg_protocol p;
		uint64_t T;
		double us;
		unsigned ctas;
	} points[] = {{CG_PUSH, 1, 5.49, 256},          {CG_PUSH, 4, 5.47, 256},
	              {CG_PUSH, 16, 6.30, 256},         {CG_PUSH, 64, 7.83, 256},
	              {CG_PUSH, 128, 10.8, 256},        {CG_PUSH, 256, 17.2, 256},
	              {CG_PUSH, 512, 29.4, 256},        {CG_PUSH, 1024, 54.0, 256},
	              {CG_PUSH, 2048, 100.8, 256},      {CG_PUSH, 1024, 348, 8},
	              {CG_P2P_TWOSHOT, 16, 8.8, 64},    {CG_P2P_TWOSHOT, 256, 20.1, 64},
	              {CG_P2P_TWOSHOT, 1024, 57.3, 64}, {CG_P2P_TWOSHOT, 2048, 107.5, 64},
	              {CG_P2P_TWOSHOT, 16384, 818, 64}, {CG_P2P_TWOSHOT, 16384, 1515, 8},
	              {CG_P2P_BULK, 256, 23.3, 12},     {CG_P2P_BULK, 512, 35.1, 12},
	              {CG_P2P_BULK, 1024, 62.3, 12},    {CG_P2P_BULK, 2048, 113.6, 12},
	              {CG_P2P_BULK, 8192, 416.8, 12},   {CG_P2P_BULK, 16384, 832, 12},
	              {CG_P2P_BULK, 16384, 1089, 8},    {CG_P2P_BULK, 1024, 60.6, 11},
	              {CG_P2P_BULK, 16384, 812, 11}};
	struct cg_case c = norm_case(2, false);

	(void)state;
	for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
		double us = cg_cost(&c, points[i].p, points[i].T, points[i].ctas);

		if (fabs(us - points[i].us) > 0.1 * points[i].us)
			fail_msg("%s, T = %llu: %.2f us, measured %.2f",
			         cg_protocol_name(points[i].p), (unsigned long long)points[i].T, us,
			         points[i].us);
	}
}

static void at_two_ranks_push_gives_way_between_512_and_1024_rows(void **state)
{
	struct cg_case c = norm_case(2, false), other;

	(void)state;
	assert_int_equal(cg_select(&c, 512).protocol, CG_PUSH);
	assert_int_equal(cg_select(&c, 1024).protocol, CG_P2P_BULK);
	assert_int_equal(cg_select(&c, 1024).ctas, 11);
	assert_non_null(cg_select(&c, 512).source);
	/* by the model too */
	assert_true(cg_cost(&c, CG_PUSH, 512, 64) < cg_cost(&c, CG_P2P_TWOSHOT, 512, 64));
	other = norm_case(8, false);
	assert_null(cg_select(&other, 512).source);
}

static void few_rows_are_pushed_and_many_take_two_shots(void **state)
{
	(void)state;
	for (unsigned tp = 2; tp <= 16; tp++)
		for (int mc = 0; mc < 2; mc++) {
			struct cg_case c = norm_case(tp, mc);
			enum cg_protocol few = cg_select(&c, 1).protocol,
			                 many = cg_select(&c, 16384).protocol;

			assert_int_equal(cg_protocol_info[few].rows, CG_ROWS_ALL);
			assert_int_equal(cg_protocol_info[many].rows, CG_ROWS_OWN);
			if (mc && tp > 2)
				assert_int_equal(many, CG_MM_TWOSHOT);
		}
}

static void more_rows_never_cost_less_and_the_choice_changes_forms_once(void **state)
{
	(void)state;
	for (unsigned tp = 1; tp <= 16; tp++)
		for (int mc = 0; mc < 2; mc++) {
			struct cg_case c = norm_case(tp, mc);
			bool own = false;

			for (uint64_t T = 1; T < 100000; T += 1 + T / 8) {
				enum cg_protocol x = cg_select(&c, T).protocol;

				for (int p = CG_AUTO + 1; p < CG_NPROTOCOLS; p++)
					for (unsigned n = 1; n <= 64; n *= 2)
						assert_true(
						        cg_cost(&c, (enum cg_protocol)p, T, n) <=
						        cg_cost(&c, (enum cg_protocol)p,
						                T + 1 + T / 8, n));
				assert_false(own && cg_protocol_info[x].rows == CG_ROWS_ALL);
				own = cg_protocol_info[x].rows == CG_ROWS_OWN;
			}
		}
}

static void more_ctas_never_cost_more_and_the_fewest_good_are_taken(void **state)
{
	struct cg_case c = norm_case(8, true);

	(void)state;
	for (uint64_t T = 1; T < 100000; T *= 3) {
		struct cg_choice x = cg_select(&c, T);

		assert_true(x.us <= 1.025 * cg_cost(&c, x.protocol, T, 64));
		for (int p = CG_AUTO + 1; p < CG_NPROTOCOLS; p++)
			for (unsigned n = 1; n < 64; n++)
				assert_true(cg_cost(&c, (enum cg_protocol)p, T, n + 1) <=
				            cg_cost(&c, (enum cg_protocol)p, T, n));
	}
	assert_true(cg_select(&c, 16384).ctas <= 8);
}

static void without_rows_it_is_a_two_shot_by_what_memory_there_is(void **state)
{
	for (unsigned tp = 2; tp <= 16; tp++) {
		struct cg_case mc = norm_case(tp, true), peer = norm_case(tp, false);

		assert_int_equal(cg_select_default(&mc).protocol, CG_MM_TWOSHOT);
		assert_int_equal(cg_select_default(&peer).protocol, CG_P2P_BULK);
	}
	(void)state;
}

static void what_cannot_be_done_is_never_chosen_and_the_reason_is_kept(void **state)
{
	static const struct {
		const char *spec, *target;
		bool multicast;
		enum cg_protocol cannot;
		const char *why;
		enum cg_protocol instead; /* by default */
	} rows[] = {
	        {fixed_order, "sm_90", true, CG_MM_TWOSHOT, "deterministic", CG_P2P_BULK},
	        {fixed_order, "sm_90", true, CG_MM_ONESHOT, "by rank", CG_P2P_BULK},
	        {plain, "sm_90", true, CG_MM_ONESHOT, "may differ by rank", CG_MM_TWOSHOT},
	        {plain, "sm_80", true, CG_MM_TWOSHOT, "needs sm_90", CG_P2P_TWOSHOT},
	        {plain, "sm_90", false, CG_MM_PUSH, "no multicast", CG_P2P_BULK},
	        {sharded, "sm_90", true, CG_PUSH, "sharded", CG_MM_TWOSHOT},
	        {lonely, "sm_90", true, CG_PUSH, "not communicate", CG_LOCAL},
	        {plain, "sm_90", true, CG_LOCAL, "communicates", CG_MM_TWOSHOT},
	};
	struct cg_fixture *f = *state;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct cg_case c = case_of(f, rows[i].spec, rows[i].target, rows[i].multicast);

		assert_false(c.can >> rows[i].cannot & 1);
		assert_non_null(strstr(c.why_not[rows[i].cannot], rows[i].why));
		if (cg_select_default(&c).protocol != rows[i].instead)
			fail_msg("%zu: %s", i, c.why_not[rows[i].instead]);
		for (uint64_t T = 1; T < 100000; T *= 3)
			assert_true(c.can >> cg_select(&c, T).protocol & 1);
	}
	assert_true(case_of(f, diverging, "sm_90", true).can >> CG_MM_ONESHOT & 1);
}

static void at_one_rank_it_is_local_whatever_the_kernel_is(void **state)
{
	static const char *const specs[] = {plain, fixed_order, diverging, sharded, lonely};
	struct cg_fixture *f = *state;

	for (size_t i = 0; i < 10; i++) {
		struct cg_case c = case_at(f, specs[i / 2], "sm_90", i % 2, 1);

		assert_int_equal(cg_select_default(&c).protocol, CG_LOCAL);
		for (uint64_t T = 1; T < 100000; T *= 3) {
			assert_int_equal(cg_select(&c, T).protocol, CG_LOCAL);
			/* what it loads costs time, sums too */
			assert_true(cg_cost(&c, CG_LOCAL, 100 * T, 64) >
			            cg_cost(&c, CG_LOCAL, T, 64));
		}
	}
}

static void traffic_is_that_of_the_kernel_in_either_form(void **state)
{
	static const char spec[] =
	        "kernel k(x: bf16[T, 256] partial, inout r: f32[T, 256] carried, g: bf16[256]) -> "
	        "y: bf16[T, 256] replicated { h = all_reduce(x) + r; out r = h; out y = rmsnorm(h, "
	        "g, "
	        "eps = 1e-5); }";
	struct cg_fixture *f = *state;
	struct cg_options o = {.tp = 8, .target = cg_target_by_name("sm_90")};

	for (int r = 0; r < 2; r++) {
		struct ir_func *g = fused(f, spec, 8, (enum ir_rows)r);
		struct cg_case c;

		cg_case_make(&c, r ? NULL : g, "none", r ? g : NULL, "none", &o, true, &f->arena);
		assert_int_equal(c.row.sums, 512);
		assert_int_equal(c.row.gathers, 512);
		assert_int_equal(c.row.local, 2048);
		assert_int_equal(c.can >> CG_MM_TWOSHOT & 1, !r);
		assert_int_equal(c.can >> CG_MM_PUSH & 1, r);
	}
}

static void kernels_of_a_chain_have_one_form(void **state)
{
	struct cg_case c[3] = {norm_case(8, false), norm_case(8, false), norm_case(8, false)};
	struct cg_choice x[3];
	bool seen[2] = {false, false};

	(void)state;
	c[1].row =
	        (struct cg_traffic){H / 16, H / 16, H / 16}; /* alone it would be pushed longer */
	for (uint64_t T = 1; T < 100000; T += 1 + T / 8) {
		assert_true(cg_select_chain(c, 3, T, x));
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(x[i].rows, x[0].rows);
		seen[x[0].rows] = true;
	}
	assert_true(seen[0] && seen[1]);
	c[2].can = 1u << CG_P2P_TWOSHOT; /* one cannot push: none does */
	assert_true(cg_select_chain(c, 3, 1, x));
	assert_int_equal(x[0].protocol, CG_P2P_TWOSHOT);
	assert_true(cg_select_chain(c, 3, 0, x));
	assert_int_equal(x[0].protocol, CG_P2P_BULK);
	assert_int_equal(x[2].protocol, CG_P2P_TWOSHOT);
	c[0].can = 1u << CG_PUSH;
	assert_false(cg_select_chain(c, 3, 1, x));
	assert_int_equal(x[1].protocol, CG_AUTO);
	c[2].can = 1u << CG_LOCAL; /* goes with either */
	assert_true(cg_select_chain(c, 3, 1, x));
	assert_int_equal(x[2].rows, IR_ROWS_ALL);
}

static void the_table_over_rows_names_the_ranges_and_the_refusals(void **state)
{
	struct cg_fixture *f = *state;
	struct cg_case c = case_of(f, plain, "sm_90", true);
	struct strbuf b;

	strbuf_init(&b, &f->arena);
	cg_print_select(&c, &f->arena, &b);
	assert_non_null(strstr(b.s, "  T <= "));
	assert_non_null(strstr(b.s, ": mm-push, by the model; at T = 1: mm-push "));
	assert_non_null(strstr(b.s, ": mm-twoshot, by the model; at T = "));
	assert_non_null(strstr(b.s, "  not mm-oneshot: "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(the_model_is_near_what_was_measured),
	        cmocka_unit_test(at_two_ranks_push_gives_way_between_512_and_1024_rows),
	        cmocka_unit_test(few_rows_are_pushed_and_many_take_two_shots),
	        cmocka_unit_test(more_rows_never_cost_less_and_the_choice_changes_forms_once),
	        cmocka_unit_test(more_ctas_never_cost_more_and_the_fewest_good_are_taken),
	        cmocka_unit_test(without_rows_it_is_a_two_shot_by_what_memory_there_is),
	        cmocka_unit_test_setup_teardown(
	                what_cannot_be_done_is_never_chosen_and_the_reason_is_kept, cg_set_up,
	                cg_tear_down),
	        cmocka_unit_test_setup_teardown(at_one_rank_it_is_local_whatever_the_kernel_is,
	                                        cg_set_up, cg_tear_down),
	        cmocka_unit_test_setup_teardown(traffic_is_that_of_the_kernel_in_either_form,
	                                        cg_set_up, cg_tear_down),
	        cmocka_unit_test(kernels_of_a_chain_have_one_form),
	        cmocka_unit_test_setup_teardown(
	                the_table_over_rows_names_the_ranges_and_the_refusals, cg_set_up,
	                cg_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
