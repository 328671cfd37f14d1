/*
 * The planner's model against what was published and measured, and plans of real models.  Numbers of
 * TokenWeave are in tests/data/tokenweave (MIT licence, there), those of two H200s stand here.
 */
#include "tests/unit/plan_fixture.h"
#include <math.h>

enum { MAX_COLS = 12, MAX_ROWS = 16 };

struct table {
	unsigned rows;
	double at[MAX_ROWS][MAX_COLS];
};

/* Numbers of a CSV file; what is no number is 0. */
static struct table read_csv(const char *name)
{
	char path[128], line[1024], *s;
	struct table t = {0};
	FILE *file;

	snprintf(path, sizeof path, "tests/data/tokenweave/%s", name);
	file = fopen(path, "rb");
	assert_non_null(file);
	assert_non_null(fgets(line, sizeof line, file));
	for (; fgets(line, sizeof line, file) && t.rows < MAX_ROWS; t.rows++) {
		unsigned col = 0;

		for (s = strtok(line, ",\n"); s && col < MAX_COLS; s = strtok(NULL, ",\n"))
			t.at[t.rows][col++] = atof(s);
	}
	fclose(file);
	return t;
}

/* A column over bytes: rows of 8192 elements of two bytes. */
static unsigned column(const struct table *t, unsigned col, double *x, double *y)
{
	for (unsigned i = 0; i < t->rows; i++) {
		x[i] = t->at[i][0] * 8192 * 2;
		y[i] = t->at[i][col];
	}
	return t->rows;
}

/* ---- collectives ---- */

static const unsigned fused_ctas[] = {2, 4, 8, 16, 32}; /* columns 3 to 7 of figure 10 */

static void a_line_through_each_cta_count_is_within_8_percent_of_figure_10(void **state)
{
	struct table t = read_csv("figure_10.csv");
	double x[MAX_ROWS], y[MAX_ROWS], alpha, gbs, e;

	(void)state;
	for (unsigned c = 0; c < 5; c++) {
		unsigned n = column(&t, 3 + c, x, y);

		assert_int_equal(n, 10);
		e = pl_comm_fit(x, y, n, &alpha, &gbs);
		assert_true(e < 0.08);
		for (unsigned i = 0; i < n; i++)
			assert_true(fabs(alpha + x[i] / (gbs * 1e3) - y[i]) <= (e + 1e-6) * y[i]);
	}
}

static void the_database_has_these_lines(void **state)
{
	struct pl_machine m = plan_options("h100", 8).machine;
	struct table t = read_csv("figure_10.csv");

	(void)state;
	for (unsigned c = 0; c < 5; c++)
		for (unsigned i = 0; i < t.rows; i++) {
			double us = pl_comm_us(&m.fused, t.at[i][0] * 8192 * 2, fused_ctas[c]);

			assert_true(fabs(us - t.at[i][3 + c]) < 0.06 * t.at[i][3 + c]);
		}
}

/* A table of points with one row of figure 10 left out, asked for that row. */
static double left_out(const struct table *t, unsigned out, unsigned c)
{
	struct pl_comm k = {.n = 5};

	for (unsigned i = 0; i < t->rows; i++)
		if (i != out) {
			k.bytes[k.npoint] = t->at[i][0] * 8192 * 2;
			for (unsigned j = 0; j < 5; j++) {
				k.ctas[j] = fused_ctas[j];
				k.us[j][k.npoint] = t->at[i][3 + j];
			}
			k.npoint++;
		}
	return pl_comm_us(&k, t->at[out][0] * 8192 * 2, fused_ctas[c]);
}

static void a_row_left_out_is_within_6_percent_of_its_neighbours_line(void **state)
{
	struct table t = read_csv("figure_10.csv");

	(void)state;
	for (unsigned c = 0; c < 5; c++)
		for (unsigned i = 1; i + 1 < t.rows; i++)
			assert_true(fabs(left_out(&t, i, c) / t.at[i][3 + c] - 1) < 0.06);
}

static void between_cta_counts_the_time_lies_between_theirs(void **state)
{
	struct pl_machine m = plan_options("h100", 8).machine;

	(void)state;
	for (unsigned c = 2; c < 16; c++) {
		double a = pl_comm_us(&m.fused, 3e7, c), b = pl_comm_us(&m.fused, 3e7, c + 1);

		assert_true(a >= b && b > 0);
	}
	assert_true(pl_comm_us(&m.fused, 3e7, 1) >= pl_comm_us(&m.fused, 3e7, 2));
}

/* ---- a whole model: figure 11a ---- */

/*
 * Llama-3.3-70B on eight H100s, one prefill of T rows.  Six parameters, the same for all columns and
 * chosen with all of them in view: the GEMMs' and attention's efficiency, the epilogue of a tile and the
 * launch of a kernel (eager vLLM), which the runs without communication tell most of, what a collective
 * costs its neighbour and a join of streams, which the overlapped ones do.  Their GEMMs know of no SM target.
 */
static void fitted(struct pl_options *o)
{
	o->machine.gemm_eff = 0.66;
	o->machine.attention_eff = 0.54;
	o->machine.tile_us = 1.0;
	o->machine.launch_us = 9.5;
	o->machine.gamma = 0.07;
	o->machine.join_us = 6;
	o->machine.persistent = false;
	o->no_targets = true;
}

static void prefill_of_a_70b_model_is_within_6_percent_of_figure_11a(void **state)
{
	struct plan_fixture *f = *state;
	struct table t = read_csv("figure_11a_llama.csv");
	struct pl_options o = plan_options("h100", 8);
	struct planner *p;

	fitted(&o);
	p = pl_new(sample(f, "llama3-70b", 8), &o);
	assert_int_equal(t.rows, 7);
	for (unsigned i = 0; i < t.rows; i++) {
		const struct pl_plan *plan;
		double baseline = t.at[i][2] * 1e3, no_ar = t.at[i][3] * 1e3,
		       overlap = t.at[i][4] * 1e3;

		assert_int_equal(pl_plan_rows(p, (int64_t)t.at[i][1], &plan), ST_OK);
		assert_true(fabs(plan->mode_us[PL_UNFUSED] / baseline - 1) < 0.06);
		assert_true(fabs(plan->mode_us[PL_REMOVED] / no_ar - 1) < 0.06);
		assert_true(fabs(plan->us / overlap - 1) < 0.06);
		assert_int_equal(plan->mode, PL_SPLIT);
	}
	pl_free(p);
}

/* ---- GEMMs as measured on two H200s ---- */

/* us of cuBLASLt 13.1, bf16; the first seven with random data. */
static const struct {
	int64_t n, k, m;
	double us;
} gemms[] = {
        {5120, 8192, 1024, 117},  {5120, 8192, 2048, 224},   {5120, 8192, 4096, 443},
        {14336, 8192, 1024, 301}, {14336, 8192, 2048, 621},  {14336, 8192, 4096, 1242},
        {8192, 14336, 2048, 613}, {7168, 8192, 256, 45},     {7168, 8192, 512, 70},
        {7168, 8192, 1024, 154},  {7168, 8192, 2048, 264},   {7168, 8192, 4096, 569},
        {7168, 8192, 8192, 1105}, {7168, 8192, 16384, 2239}, {8192, 3584, 1024, 72},
        {8192, 3584, 2048, 140},  {8192, 3584, 4096, 273},   {8192, 3584, 8192, 594},
        {8192, 1024, 1024, 25},   {8192, 1024, 2048, 48},    {8192, 1024, 4096, 90},
        {8192, 1024, 8192, 181},
};

static void the_table_of_tiles_is_near_what_a_library_takes(void **state)
{
	struct pl_options o = plan_options("h200", 2);
	double sum = 0, worst = 0;
	unsigned n = sizeof gemms / sizeof *gemms;

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		struct pl_op op = gemm_op("g", gemms[i].n, gemms[i].k);
		struct pl_gemm g;
		double e;

		pl_gemm_choose(&o, &op, gemms[i].m, 0, &g);
		e = fabs((g.run.us + o.machine.launch_us) / gemms[i].us - 1);
		sum += e;
		worst = e > worst ? e : worst;
	}
	assert_true(sum / n < 0.08);
	assert_true(worst < 0.27);
}

/*
 * A GEMM beside the collective on two H200s, us: the GEMM alone; the collective alone by 8, 12 and 16
 * CTAs; both without an SM target; both with the best target (of 8 CTAs).
 */
static const struct {
	double gemm, collective[3], both[3], target;
} pairs[] = {
        {117, {91, 67, 67}, {214, 189, 179}, 122},
        {224, {158, 119, 120}, {367, 353, 346}, 238},
        {443, {313, 231, 223}, {623, 572, 587}, 481},
        {301, {94, 72, 68}, {429, 378, 389}, 335},
        {621, {179, 124, 121}, {708, 709, 717}, 649},
        {1242, {337, 254, 221}, {1443, 1462, 1537}, 1286},
        {613, {182, 135, 120}, {711, 688, 758}, 666},
};

/* Persistent, one run of each CTA: what is left is how both get on together. */
static double pair_us(const struct pl_machine *m, double us, double collective, unsigned held,
                      unsigned slots)
{
	struct pl_run g = {.us = us,
	                   .tiles = 132,
	                   .waves = 1,
	                   .tau = us,
	                   .slots = slots,
	                   .cluster = 1,
	                   .waits = true};

	return pl_gemm_finish(m, &g, 0, collective, held);
}

static void a_gemm_beside_a_collective_is_near_what_was_measured(void **state)
{
	static const unsigned held[] = {8, 12, 16};
	struct pl_machine m = plan_options("h200", 2).machine;
	double without = 0, with = 0, e;
	unsigned n = sizeof pairs / sizeof *pairs;

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		for (unsigned c = 0; c < 3; c++) {
			e = fabs(pair_us(&m, pairs[i].gemm, pairs[i].collective[c], held[c], 132) /
			                 pairs[i].both[c] -
			         1);
			assert_true(e < 0.25);
			without += e / (3 * n);
		}
		e = fabs(pair_us(&m, pairs[i].gemm, pairs[i].collective[0], 8, 124) /
		                 pairs[i].target -
		         1);
		assert_true(e < 0.10);
		with += e / n;
	}
	assert_true(without < 0.08);
	assert_true(with < 0.05);
}

/* ---- real models ---- */

/* Columns of qkv, rows of o, columns of gate-up, rows of down, of one rank at tp 2, 4, 8. */
static const struct shapes {
	const char *name;
	int64_t hidden, n[3][4];
} shapes[] = {
        {"llama3-8b",
         4096,
         {{3072, 2048, 14336, 7168}, {1536, 1024, 7168, 3584}, {768, 512, 3584, 1792}}},
        {"llama3-70b",
         8192,
         {{5120, 4096, 28672, 14336}, {2560, 2048, 14336, 7168}, {1280, 1024, 7168, 3584}}},
        {"llama3-405b",
         16384,
         {{9216, 8192, 53248, 26624}, {4608, 4096, 26624, 13312}, {2304, 2048, 13312, 6656}}},
        {"qwen2.5-72b",
         8192,
         {{5120, 4096, 29568, 14784}, {2560, 2048, 14784, 7392}, {1280, 1024, 7392, 3696}}},
        {"qwen3-32b",
         5120,
         {{5120, 4096, 25600, 12800}, {2560, 2048, 12800, 6400}, {1280, 1024, 6400, 3200}}},
        {"gemma3-27b",
         5376,
         {{4096, 2048, 21504, 10752}, {2048, 1024, 10752, 5376}, {1024, 512, 5376, 2688}}},
        {"gemma2-27b",
         4608,
         {{4096, 2048, 36864, 18432}, {2048, 1024, 18432, 9216}, {1024, 512, 9216, 4608}}},
        {"olmo2-32b",
         5120,
         {{3584, 2560, 27648, 13824}, {1792, 1280, 13824, 6912}, {896, 640, 6912, 3456}}},
        {"command-r-plus",
         12288,
         {{7168, 6144, 33792, 16896}, {3584, 3072, 16896, 8448}, {1792, 1536, 8448, 4224}}},
        {"gpt-j-6b",
         4096,
         {{6144, 2048, 8192, 8192}, {3072, 1024, 4096, 4096}, {1536, 512, 2048, 2048}}},
        {"gpt-neox-20b",
         6144,
         {{9216, 3072, 12288, 12288}, {4608, 1536, 6144, 6144}, {2304, 768, 3072, 3072}}},
        {"mixtral-8x22b",
         6144,
         {{4096, 3072, 16384, 8192}, {2048, 1536, 8192, 4096}, {1024, 768, 4096, 2048}}},
        {"qwen3-235b-a22b",
         4096,
         {{4608, 4096, 1536, 768}, {2304, 2048, 768, 384}, {1280, 1024, 384, 192}}},
        {"gpt-oss-120b",
         2880,
         {{2560, 2048, 2880, 1440}, {1280, 1024, 1440, 720}, {640, 512, 720, 360}}},
};

static bool has_gemm(const struct pl_model *m, int64_t n, int64_t k)
{
	for (uint32_t i = 0; i < m->nshape; i++)
		for (uint32_t j = 0; j < m->shape[i].nop; j++)
			if (m->shape[i].op[j].n == n && m->shape[i].op[j].k == k)
				return true;
	return false;
}

static void gemms_of_real_models_have_their_shapes_on_a_rank(void **state)
{
	struct plan_fixture *f = *state;

	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (unsigned t = 0; t < 3; t++) {
			const int64_t *n = shapes[i].n[t], h = shapes[i].hidden;
			struct pl_model *m = sample(f, shapes[i].name, 2u << t);

			if (!has_gemm(m, n[0], h) || !has_gemm(m, h, n[1]) ||
			    !has_gemm(m, n[2], h) || !has_gemm(m, h, n[3]))
				print_error("%s at tp %u\n", shapes[i].name, 2u << t);
			assert_true(has_gemm(m, n[0], h) && has_gemm(m, h, n[1]));
			assert_true(has_gemm(m, n[2], h) && has_gemm(m, h, n[3]));
		}
}

static const char *const samples[] = {
        "llama3-8b",      "llama3-70b",    "llama3-405b",  "qwen2.5-72b",
        "qwen3-32b",      "gemma3-27b",    "olmo2-32b",    "command-r-plus",
        "gpt-neox-20b",   "mixtral-8x22b", "gpt-oss-120b", "qwen3-235b-a22b",
        "granite-3.1-8b", "deepseek-v3",   "gemma2-27b",   "gpt-j-6b",
};

static void every_real_model_has_a_plan_on_every_machine(void **state)
{
	static const char *const gpus[] = {"h100", "h200", "b200", "a100"};
	static const int64_t rows[] = {1, 37, 512, 1000, 2048, 4097, 16384};
	struct plan_fixture *f = *state;

	for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
		for (unsigned tp = 1; tp <= 8; tp *= 2) {
			struct pl_model *m = sample(f, samples[i], tp);
			struct pl_options o = plan_options(gpus[(i + tp) % 4], tp);
			struct planner *p = pl_new(m, &o);

			for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
				const struct pl_plan *plan;
				double last = 0;
				size_t n;

				assert_int_equal(pl_plan_rows(p, rows[k], &plan), ST_OK);
				assert_true(plan->us > 0 && plan->us < 1e9 && plan->why[0]);
				assert_true(plan->mode_us[PL_REMOVED] < plan->mode_us[PL_UNFUSED] ||
				            tp == 1);
				if (tp == 1 || rows[k] <= 128)
					assert_int_not_equal(plan->mode, PL_SPLIT);
				pl_simulate(plan, &f->arena, &n, &last);
				assert_true(fabs(last - plan->us) < 1e-6 * plan->us);
			}
			pl_free(p);
		}
}

static void experts_of_few_rows_are_not_split_and_the_plan_says_why(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_options o = plan_options("h100", 8);
	struct planner *p = pl_new(sample(f, "mixtral-8x22b", 8), &o);
	const struct pl_plan *plan;

	assert_int_equal(pl_plan_rows(p, 1024, &plan), ST_OK);
	assert_int_equal(plan->mode, PL_FUSED);
	assert_non_null(strstr(plan->why, "no split: two parts compute"));
	assert_non_null(strstr(plan->why, "'experts "));
	assert_int_equal(pl_plan_rows(p, 8192, &plan), ST_OK); /* and many rows are */
	assert_int_equal(plan->mode, PL_SPLIT);
	pl_free(p);
}

static void decoding_is_not_split_and_keeps_all_rows_where_that_is_faster(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_options o = plan_options("h200", 2);
	struct planner *p = pl_new(sample(f, "llama3-70b", 2), &o);
	const struct pl_plan *plan;

	assert_int_equal(pl_plan_rows(p, 16, &plan), ST_OK);
	assert_int_equal(plan->mode, PL_FUSED);
	assert_false(plan->own_rows);
	assert_int_equal(pl_plan_rows(p, 4096, &plan), ST_OK);
	assert_true(plan->own_rows);
	pl_free(p);
}

/* ---- steps ---- */

static void costs_that_depend_on_the_layer_make_segments_of_their_own(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_model *m = sample(f, "gpt-oss-120b", 8);
	unsigned narrow = 0, wide = 0;

	/* the first norm, attention with and without a window, the experts */
	assert_int_equal(m->nshape, 4);
	assert_int_equal(m->nseq, 1 + 2 * 36);
	for (uint32_t i = 0; i < m->nshape; i++)
		for (uint32_t k = 0; k < m->shape[i].nop; k++)
			if (m->shape[i].op[k].kind == PL_ATTENTION) {
				narrow += m->shape[i].op[k].window == 128 ? m->shape[i].count : 0;
				wide += m->shape[i].op[k].window == 0 ? m->shape[i].count : 0;
			}
	assert_int_equal(narrow, 18);
	assert_int_equal(wide, 18);
	m = sample(f, "deepseek-v3", 8);
	assert_int_equal(m->nshape, 4); /* norm, attention, three dense layers, 58 with experts */
	assert_int_equal(m->nseq, 1 + 2 * 61);
}

static void steps_name_the_element_of_each_weight(void **state)
{
	static const char text[] =
	        "kernel k(x: bf16[T, 8] partial, inout r: bf16[T, 8] carried) -> y: bf16[T, 8] {\n"
	        "    h = all_reduce(x) + r;\n    out r = h;\n    out y = h;\n}\n"
	        "model m {\n    input e: bf16[T, 8] partial;\n    state r: bf16[T, 8] carried;\n"
	        "    weight u[6]: bf16[8, 16] columns;\n    weight d[6]: bf16[16, 8] rows;\n"
	        "    y = k(e, r);\n"
	        "    repeat i in 0..3 {\n        a = gemm(y, u[2 * i + 1]);\n"
	        "        b = gemm(a, d[5 - i], out = bf16);\n        y = k(x = b, r = r);\n    }\n"
	        "    output y;\n}\n";
	struct plan_fixture *f = *state;
	const struct fe_steps *s = spec_steps(f, text, strlen(text), 2);

	assert_non_null(s);
	assert_string_equal(s->name, "m");
	assert_int_equal(s->nstep, 10);
	for (uint32_t i = 0; i < 3; i++) {
		const struct fe_step *g = &s->step[1 + 3 * i];

		assert_int_equal(g[0].kind, FE_STEP_GEMM);
		assert_string_equal(g[0].name, "u");
		assert_int_equal(g[0].in[1].index, 2 * i + 1);
		assert_int_equal(g[1].in[1].index, 5 - i);
		assert_int_equal(g[1].in[0].value, g[0].out[0]);
		assert_int_equal(g[1].nin, 2);
		assert_int_equal(g[2].kind, FE_STEP_KERNEL);
		assert_int_equal(g[2].in[0].value, g[1].out[0]);
		assert_string_equal(s->value[g[2].in[1].value].name, "r");
		/* what a turn reads is what the turn before bound */
		assert_int_equal(g[0].in[0].value, g[-1].out[0]);
		assert_int_equal(s->value[g[1].out[0]].place, FE_PARTIAL);
	}
	assert_int_equal(s->output[0], s->step[9].out[0]);
}

#define FIXTURE(test) cmocka_unit_test_setup_teardown(test, plan_set_up, plan_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_line_through_each_cta_count_is_within_8_percent_of_figure_10),
	        cmocka_unit_test(the_database_has_these_lines),
	        cmocka_unit_test(a_row_left_out_is_within_6_percent_of_its_neighbours_line),
	        cmocka_unit_test(between_cta_counts_the_time_lies_between_theirs),
	        FIXTURE(prefill_of_a_70b_model_is_within_6_percent_of_figure_11a),
	        cmocka_unit_test(the_table_of_tiles_is_near_what_a_library_takes),
	        cmocka_unit_test(a_gemm_beside_a_collective_is_near_what_was_measured),
	        FIXTURE(gemms_of_real_models_have_their_shapes_on_a_rank),
	        FIXTURE(every_real_model_has_a_plan_on_every_machine),
	        FIXTURE(experts_of_few_rows_are_not_split_and_the_plan_says_why),
	        FIXTURE(decoding_is_not_split_and_keeps_all_rows_where_that_is_faster),
	        FIXTURE(costs_that_depend_on_the_layer_make_segments_of_their_own),
	        FIXTURE(steps_name_the_element_of_each_weight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
