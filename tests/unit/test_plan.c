/* What every plan must keep to, on models drawn at random. */
#include "tests/unit/plan_fixture.h"
#include <math.h>

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * (1 + fabs(a) + fabs(b));
}

/* ---- waves ---- */

static int64_t up(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static void two_parts_need_at_most_one_wave_more_and_the_remainders_say_whether(void **state)
{
	(void)state;
	for (int s = 100; s <= 150; s += 3)
		for (int a = 1; a < 400; a++)
			for (int b = 1; b < 400; b++) {
				int64_t more = up(a, s) + up(b, s) - up(a + b, s);
				bool none = a % s == 0 || b % s == 0 || a % s + b % s > s;

				assert_true(more == !none);
			}
}

static bool fixed_tile(void *ctx, const struct pl_gemm_query *q, struct pl_gemm_fact *fact)
{
	(void)q;
	*fact = *(const struct pl_gemm_fact *)ctx;
	return true;
}

static void the_lemma_holds_for_gemms_cut_at_a_multiple_of_their_tile(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_gemm_fact tile = {.bm = 128, .bn = 256, .cm = 1, .cn = 1, .splitk = 1};
	struct pl_options o = plan_options("h100", 8);

	o.gemm = fixed_tile;
	o.gemm_ctx = &tile;
	for (int k = 0; k < 20000; k++) {
		struct pl_op op = gemm_op("g", draw(f, 1, 200) * 64, 8192);
		int64_t rows = draw(f, 200, 16384), first = draw(f, 1, (rows - 1) / 128) * 128;
		struct pl_gemm whole, a, b;
		double more;

		pl_gemm_choose(&o, &op, rows, 0, &whole);
		pl_gemm_choose(&o, &op, first, 0, &a);
		pl_gemm_choose(&o, &op, rows - first, 0, &b);
		more = a.run.waves + b.run.waves - whole.run.waves;
		assert_true(near(a.run.tiles + b.run.tiles, whole.run.tiles));
		assert_true(near(more, 0) || near(more, 1));
	}
}

/* CTAs one by one: `open` slots from `begin` on, the others from `until` on. */
static double list_schedule(int64_t tiles, unsigned open, unsigned more, double tau, double begin,
                            double until)
{
	double ready[512], end = begin;

	for (unsigned i = 0; i < open + more; i++)
		ready[i] = i < open ? begin : until;
	while (tiles--) {
		unsigned at = 0;

		for (unsigned i = 1; i < open + more; i++)
			if (ready[i] < ready[at])
				at = i;
		ready[at] += tau;
		end = ready[at] > end ? ready[at] : end;
	}
	return end;
}

static void a_gemm_beside_a_collective_ends_when_its_tiles_do_one_by_one(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_machine m = plan_options("h100", 8).machine;

	m.gamma = 0;
	for (int k = 0; k < 3000; k++) {
		unsigned held = (unsigned)draw(f, 1, 32);
		struct pl_run g = {.tiles = (double)draw(f, 1, 1500),
		                   .slots = m.sms,
		                   .cluster = 1,
		                   .tau = (double)draw(f, 5, 400) / 7};
		double begin = (double)draw(f, 0, 100) / 3,
		       until = begin + (double)draw(f, 1, 3000) / 11;
		double want =
		        list_schedule((int64_t)g.tiles, m.sms - held, held, g.tau, begin, until);

		g.waves = (double)up((int64_t)g.tiles, g.slots);
		g.us = g.waves * g.tau;
		assert_true(fabs(pl_gemm_finish(&m, &g, begin, until, held) - want) < 1e-6 * want);
		/* a target that leaves the SMs free is not touched at all */
		g.slots = m.sms - held;
		g.waves = (double)up((int64_t)g.tiles, g.slots);
		assert_true(
		        near(pl_gemm_finish(&m, &g, begin, until, held), begin + g.waves * g.tau));
	}
}

static void nothing_ends_earlier_that_begins_later_or_meets_a_longer_collective(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_machine m = plan_options("h100", 8).machine;

	for (int k = 0; k < 20000; k++) {
		unsigned held = (unsigned)draw(f, 1, 32);
		struct pl_run g = {.tiles = (double)draw(f, 1, 1500),
		                   .slots = m.sms,
		                   .cluster = 1,
		                   .tau = (double)draw(f, 5, 400) / 7,
		                   .mem = (double)draw(f, 0, 200),
		                   .waits = draw(f, 0, 1)};
		struct pl_fluid w = {(double)draw(f, 0, 300), (double)draw(f, 0, 300)};
		double t = (double)draw(f, 0, 300), x = (double)draw(f, 0, 600),
		       d = (double)draw(f, 1, 90) / 7;

		g.waves = (double)up((int64_t)g.tiles, g.slots);
		g.us = fmax(g.waves * g.tau, g.mem);
		assert_true(pl_gemm_finish(&m, &g, t + d, x, held) >=
		            pl_gemm_finish(&m, &g, t, x, held) - 1e-9);
		assert_true(pl_gemm_finish(&m, &g, t, x + d, held) >=
		            pl_gemm_finish(&m, &g, t, x, held) - 1e-9);
		assert_true(pl_fluid_finish(&m, w, t + d, x, held) >=
		            pl_fluid_finish(&m, w, t, x, held) - 1e-9);
		assert_true(pl_fluid_finish(&m, w, t, x + d, held) >=
		            pl_fluid_finish(&m, w, t, x, held) - 1e-9);
	}
}

/* ---- the search ---- */

/* A stage with given CTAs and SMs left free by each GEMM: written again, from the formulas. */
static double stage_time(const struct pl_options *o, const struct pl_segment *g, int64_t row,
                         int64_t rows, const struct pl_batch *b, double x, unsigned ctas,
                         const unsigned *leave)
{
	double t = 0;

	for (uint32_t k = 0; k < g->nop; k++) {
		const struct pl_op *op = &g->op[k];
		struct pl_gemm c;

		t += o->machine.launch_us;
		if (op->kind == PL_GEMM) {
			pl_gemm_choose(o, op, rows, leave[k] ? o->machine.sms - leave[k] : 0, &c);
			t = pl_gemm_finish(&o->machine, &c.run, t, x, ctas);
		} else {
			t = pl_fluid_finish(&o->machine, pl_fluid_of(&o->machine, op, b, row, rows),
			                    t, x, ctas);
		}
	}
	return x > 0 ? fmax(t, x) + o->machine.join_us : t;
}

enum { MOST = 512 };

/* The times of a step of the lockstep for every choice of CTAs and of SM targets; how many. */
static unsigned all_choices(const struct pl_options *o, const struct pl_model *m, uint32_t step,
                            int64_t split, const struct pl_batch *b, double out[MOST])
{
	const struct pl_segment *g = &m->shape[m->seq[step / 2]];
	uint32_t half = step % 2;
	int64_t rows = half ? b->tokens - split : split, row = half ? split : 0;
	unsigned ctas[PL_MAX_CTAS], leave[2][PL_MAX_TARGETS], n, nl, count = 0;
	double bytes;

	if (!step) {
		unsigned all[4] = {0};

		out[0] = stage_time(o, g, row, rows, b, 0, 0, all);
		return 1;
	}
	bytes = m->shape[m->seq[(step - 1) / 2]].tail.message * (double)(b->tokens - rows);
	n = pl_cta_choices(pl_comm_beside(&o->machine), ctas);
	for (unsigned i = 0; i < n; i++) {
		double x = pl_comm_us(pl_comm_beside(&o->machine), bytes, ctas[i]);

		nl = pl_free_choices(o, ctas[i], leave[0]);
		for (unsigned a = 0; a < nl; a++)
			for (unsigned c = 0; c < nl; c++) {
				unsigned use[4] = {leave[0][a], leave[0][c], 0, 0};

				if (g->op[g->nop > 1 ? 1 : 0].kind != PL_GEMM && c)
					continue; /* one GEMM: one choice */
				assert_true(count < MOST);
				out[count++] = stage_time(o, g, row, rows, b, x, ctas[i], use);
			}
	}
	return count;
}

/* The least sum over every combination of choices of all steps, by trying them all. */
static double least_sum(double t[4][MOST], const unsigned n[4], unsigned nstep, unsigned at)
{
	double best = INFINITY;

	if (at == nstep || at == 4) /* 4: compilers see no nstep <= 4 */
		return 0;
	for (unsigned i = 0; i < n[at]; i++) {
		double rest = least_sum(t, n, nstep, at + 1);

		best = fmin(best, t[at][i] + rest);
	}
	return best;
}

/* Without recursion into what does not depend on the choice: for models with many choices. */
static double brute(const struct pl_options *o, const struct pl_model *m, int64_t split,
                    const struct pl_batch *b, bool all)
{
	static double t[4][MOST];
	unsigned n[4], nstep = 2 * m->nseq;
	double sum = 0, last;

	for (uint32_t k = 0; k < nstep; k++)
		n[k] = all_choices(o, m, k, split, b, t[k]);
	pl_comm_best(&o->machine.fused,
	             m->shape[m->seq[m->nseq - 1]].tail.message * (double)(b->tokens - split),
	             &last);
	if (all)
		return least_sum(t, n, nstep, 0) + last;
	for (uint32_t k = 0; k < nstep; k++) {
		double best = t[k][0];

		for (unsigned i = 1; i < n[k]; i++)
			best = fmin(best, t[k][i]);
		sum += best;
	}
	return sum + last;
}

static void the_search_finds_what_trying_everything_finds(void **state)
{
	struct plan_fixture *f = *state;

	for (int k = 0; k < 2000; k++) {
		/* every twentieth: all combinations of all stages, of few choices */
		bool all = k % 20 == 0;
		struct pl_model *m = random_model(f, all ? 1 : (unsigned)draw(f, 1, 2),
		                                  all ? 1 : (unsigned)draw(f, 1, 2), 1);
		struct pl_options o = plan_options(k % 3 ? "h100" : "a100", 8);
		struct pl_batch b = {.tokens = draw(f, 130, 1400)};
		const struct pl_plan *plan;
		struct planner *p;
		double best = INFINITY;

		o.machine.persistent = draw(f, 0, 1);
		o.machine.gamma = (double)draw(f, 0, 20) / 100;
		if (all)
			o.machine.fused.n = 2;
		if (draw(f, 0, 1)) { /* as measured beside GEMMs */
			o.machine.beside = o.machine.fused;
			for (unsigned i = 0; i < o.machine.beside.n; i++)
				o.machine.beside.gbs[i] *= (double)draw(f, 5, 10) / 10;
			o.machine.rate[0] =
			        (struct pl_rate){m->shape[0].op[0].n, m->shape[0].op[0].k, 1.5};
			o.machine.nrate = 1;
		}
		p = pl_new(m, &o);
		assert_int_equal(pl_plan(p, &b, &plan), ST_OK);
		for (int64_t split = 128; split < b.tokens; split += 128)
			best = fmin(best, brute(&o, m, split, &b, all));
		if (!near(best, plan->best_split_us))
			print_error("case %d: %.12g, and the search says %.12g\n", k, best,
			            plan->best_split_us);
		assert_true(near(best, plan->best_split_us));
		pl_free(p);
	}
}

static void running_the_schedule_by_events_takes_what_the_sum_says(void **state)
{
	struct plan_fixture *f = *state;

	for (int k = 0; k < 500; k++) {
		struct pl_model *m =
		        random_model(f, (unsigned)draw(f, 1, 3), (unsigned)draw(f, 1, 3), 5);
		struct pl_options o = plan_options("h200", 8);
		const struct pl_plan *plan;
		struct planner *p;
		struct pl_span *s;
		double us;
		size_t n;

		o.forced = k % 3 != 0;
		o.force = k % 3 == 1 ? PL_SPLIT : PL_UNFUSED;
		p = pl_new(m, &o);
		assert_int_equal(pl_plan_rows(p, draw(f, 129, 9000), &plan), ST_OK);
		s = pl_simulate(plan, &f->arena, &n, &us);
		assert_true(near(us, plan->us));
		for (size_t i = 1; i < n; i++) /* one thing at a time on each stream */
			for (size_t j = i; j-- > 0;)
				if (s[j].stream == s[i].stream) {
					assert_true(s[i].start >= s[j].start + s[j].us - 1e-6);
					break;
				}
		pl_free(p);
	}
}

static void more_bandwidth_never_costs_time(void **state)
{
	struct plan_fixture *f = *state;

	for (int k = 0; k < 200; k++) {
		struct pl_model *m = random_model(f, 2, (unsigned)draw(f, 1, 2), 2);
		struct pl_options o = plan_options("h100", 8);
		int64_t tokens = draw(f, 1, 5000);
		double before = INFINITY;

		o.hysteresis = 0;
		for (int step = 0; step < 6; step++) {
			const struct pl_plan *plan;
			struct planner *p = pl_new(m, &o);

			assert_int_equal(pl_plan_rows(p, tokens, &plan), ST_OK);
			assert_true(plan->us <= before * (1 + 1e-12));
			before = plan->us;
			pl_free(p);
			for (unsigned i = 0; i < o.machine.fused.n; i++)
				o.machine.fused.gbs[i] *= 1.25;
			for (unsigned i = 0; i < o.machine.push.n; i++)
				o.machine.push.gbs[i] *= 1.25;
			for (unsigned i = 0; i < o.machine.plain.n; i++)
				o.machine.plain.gbs[i] *= 1.25;
		}
	}
}

static void no_plan_takes_longer_than_fused_only_or_unfused(void **state)
{
	struct plan_fixture *f = *state;
	unsigned split = 0;

	for (int k = 0; k < 1000; k++) {
		struct pl_model *m = random_model(f, 2, (unsigned)draw(f, 1, 2), 2);
		struct pl_options o = plan_options(k % 2 ? "h100" : "b200", 8);
		struct planner *p = pl_new(m, &o);
		const struct pl_plan *plan;

		assert_int_equal(pl_plan_rows(p, draw(f, 1, 6000), &plan), ST_OK);
		assert_true(plan->us <= plan->mode_us[PL_FUSED]);
		assert_true(plan->us <= plan->mode_us[PL_UNFUSED]);
		if (plan->mode == PL_SPLIT) /* by the margin */
			assert_true(plan->us < 0.98 * plan->mode_us[PL_FUSED]);
		split += plan->mode == PL_SPLIT;
		pl_free(p);
	}
	assert_in_range(split, 100, 980); /* both happen */
}

static void a_gain_within_the_margin_is_left_alone(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_model *m = sample(f, "llama3-70b", 8);
	struct pl_options o = plan_options("h100", 8);
	const struct pl_plan *plan;
	struct planner *p;
	double gain;

	p = pl_new(m, &o);
	assert_int_equal(pl_plan_rows(p, 4096, &plan), ST_OK);
	assert_int_equal(plan->mode, PL_SPLIT);
	gain = 1 - plan->us / plan->mode_us[PL_FUSED];
	pl_free(p);
	for (int side = 0; side < 2; side++) {
		o.hysteresis = side ? gain - 0.001 : gain + 0.001;
		p = pl_new(m, &o);
		assert_int_equal(pl_plan_rows(p, 4096, &plan), ST_OK);
		assert_int_equal(plan->mode, side ? PL_SPLIT : PL_FUSED);
		if (!side)
			assert_non_null(strstr(plan->why, "within the margin"));
		pl_free(p);
	}
}

/* ---- the same everywhere ---- */

static void every_rank_and_run_gets_the_same_bytes(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_model *m = sample(f, "gpt-oss-120b", 4);
	struct pl_options o = plan_options("h100", 4);
	struct planner *p[3] = {pl_new(m, &o), pl_new(m, &o), pl_new(m, &o)};
	const struct pl_plan *a, *b, *other;

	for (int64_t t = 100; t < 9000; t += 789) {
		struct strbuf x, y;

		/* one has planned other things before */
		assert_int_equal(pl_plan_rows(p[0], 9000 - t, &other), ST_OK);
		assert_int_equal(pl_plan_rows(p[0], t, &a), ST_OK);
		assert_int_equal(pl_plan_rows(p[1], t, &b), ST_OK);
		strbuf_init(&x, &f->arena);
		strbuf_init(&y, &f->arena);
		pl_json(a, &o.machine, &x);
		pl_json(b, &o.machine, &y);
		assert_string_equal(x.s, y.s);
		assert_true(a->hash == b->hash && a->hash != other->hash);
	}
	for (int i = 0; i < 3; i++)
		pl_free(p[i]);
}

static void plans_are_remembered_until_there_are_too_many(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_model *m = random_model(f, 1, 1, 1);
	struct pl_options o = plan_options("h100", 8);
	struct planner *p = pl_new(m, &o);
	const struct pl_plan *a, *b;

	assert_int_equal(pl_plan_rows(p, 300, &a), ST_OK);
	for (int64_t t = 1; t < PL_MEMO; t++) {
		assert_int_equal(pl_plan_rows(p, 1000 + t, &b), ST_OK);
		assert_int_equal(b->tokens, 1000 + t);
	}
	assert_int_equal(pl_plan_rows(p, 300, &b), ST_OK);
	assert_ptr_equal(a, b);
	assert_int_equal(pl_plan_rows(p, 7, &b), ST_OK); /* all are forgotten */
	assert_int_equal(pl_plan_rows(p, 300, &b), ST_OK);
	assert_int_equal(b->tokens, 300);
	assert_ptr_not_equal(a, b);
	pl_free(p);
}

/* As plait.h promises: also a plan that was the last for which the memo had room. */
static void a_plan_outlives_as_many_more_as_are_remembered(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_model *m = random_model(f, 1, 1, 1);
	struct pl_options o = plan_options("h100", 8);
	struct planner *p = pl_new(m, &o);
	const struct pl_plan *a = NULL, *b;

	for (int64_t t = 1; t <= PL_MEMO; t++)
		assert_int_equal(pl_plan_rows(p, 1000 + t, &a), ST_OK);
	for (int64_t t = 1; t <= PL_MEMO; t++)
		assert_int_equal(pl_plan_rows(p, 5000 + t, &b), ST_OK);
	assert_int_equal(a->tokens, 1000 + PL_MEMO);
	assert_string_equal(a->model->name, m->name);
	assert_int_equal(a->stage[0].rows, a->mode == PL_SPLIT ? a->split : a->tokens);
	pl_free(p);
}

/* Prefix sums and cached rows that are the same numbers in the same order. */
static void batches_with_and_without_cached_rows_are_told_apart(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_model *m = random_model(f, 1, 1, 1);
	struct pl_options o = plan_options("h100", 8);
	struct planner *p = pl_new(m, &o);
	int64_t cum[] = {0, 100, 300, 300, 300};
	struct pl_batch five = {300, 4, cum, NULL}, two = {300, 2, cum, cum + 3};
	const struct pl_plan *a, *b;

	assert_int_equal(pl_plan(p, &five, &a), ST_OK);
	assert_int_equal(pl_plan(p, &two, &b), ST_OK);
	assert_ptr_not_equal(a, b);
	pl_free(p);
}

/* ---- requests ---- */

static void parts_of_a_batch_have_all_of_its_rows_and_pairs_once(void **state)
{
	struct plan_fixture *f = *state;

	for (int k = 0; k < 2000; k++) {
		int64_t cum[12] = {0}, cached[11], split, seen = 0,
		        window = draw(f, 0, 1) * draw(f, 1, 300);
		struct pl_batch b = {
		        .nrequest = (size_t)draw(f, 1, 11), .cum = cum, .cached = cached};
		double pairs, a, c, keys;
		struct pl_part part[2];

		for (size_t i = 0; i < b.nrequest; i++) {
			cum[i + 1] = cum[i] + (draw(f, 0, 3) || !i ? draw(f, 2, 400) : 0);
			cached[i] = draw(f, 0, 1) * draw(f, 0, 500);
		}
		b.tokens = cum[b.nrequest];
		split = draw(f, 1, b.tokens - 1);
		part[0] = pl_part_of(&b, 0, split, &f->arena);
		part[1] = pl_part_of(&b, split, b.tokens - split, &f->arena);
		for (int h = 0; h < 2; h++) {
			int64_t rows = 0;

			for (size_t i = 0; i < part[h].n; i++)
				rows += part[h].length[i];
			assert_int_equal(rows, part[h].rows);
			seen += rows;
		}
		assert_int_equal(seen, b.tokens);
		if (part[1].n && part[0].n && part[1].first == part[0].first + part[0].n - 1) {
			size_t r = part[1].first; /* a request in both: its rows go on */

			assert_int_equal(part[1].cached[0], cached[r] + split - cum[r]);
			assert_int_equal(part[0].length[part[0].n - 1] + part[1].length[0],
			                 cum[r + 1] - cum[r]);
		}
		pl_attention_pairs(&b, 0, b.tokens, window, &pairs, &keys);
		pl_attention_pairs(&b, 0, split, window, &a, &keys);
		pl_attention_pairs(&b, split, b.tokens - split, window, &c, &keys);
		assert_true(near(a + c, pairs));
	}
}

static void pairs_are_what_counting_them_gives(void **state)
{
	struct plan_fixture *f = *state;

	for (int k = 0; k < 500; k++) {
		int64_t cached = draw(f, 0, 200), n = draw(f, 1, 300),
		        window = draw(f, 0, 1) * draw(f, 1, 250);
		int64_t cum[2] = {0, n}, row = draw(f, 0, n - 1), rows = draw(f, 1, n - row);
		struct pl_batch b = {.tokens = n, .nrequest = 1, .cum = cum, .cached = &cached};
		double want = 0, pairs, keys;

		for (int64_t r = row; r < row + rows; r++) {
			int64_t sees = cached + r + 1;

			want += (double)(window && sees > window ? window : sees);
		}
		pl_attention_pairs(&b, row, rows, window, &pairs, &keys);
		assert_true(near(pairs, want));
	}
}

static void what_is_no_batch_is_refused(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_options o = plan_options("h100", 8);
	struct planner *p = pl_new(random_model(f, 1, 1, 1), &o);
	int64_t falls[] = {0, 5, 3, 8}, less[] = {0, 3, 7}, minus[] = {-1, 0};
	struct pl_batch bad[] = {
	        {.tokens = 0},
	        {.tokens = -4},
	        {.tokens = (int64_t)1 << 25},
	        {.tokens = 8, .nrequest = 3, .cum = falls},
	        {.tokens = 8, .nrequest = 2, .cum = less},
	        {.tokens = 7, .nrequest = 2, .cum = less, .cached = minus},
	};
	const struct pl_plan *plan;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(pl_plan(p, &bad[i], &plan), ST_USAGE);
		assert_null(plan);
	}
	pl_free(p);
}

/* ---- the parts of a plan ---- */

static void parts_say_where_their_rows_and_residuals_are(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_options o = plan_options("h100", 8);
	struct planner *p;
	const struct pl_plan *plan;

	o.at = 1280;
	p = pl_new(sample(f, "llama3-70b", 8), &o);
	assert_int_equal(pl_plan_rows(p, 3000, &plan), ST_OK);
	assert_int_equal(plan->mode, PL_SPLIT);
	assert_int_equal(plan->split, 1280);
	assert_int_equal(plan->row_base[1], 1280);
	assert_int_equal(plan->residual_base[1], 1280); /* row t is at row t on all ranks */
	assert_true(plan->own_rows);
	for (uint32_t i = 0; i < plan->nstage; i++)
		assert_int_equal(plan->stage[i].rows, plan->stage[i].half ? 1720 : 1280);
	pl_free(p);
}

struct asked {
	int64_t first, second;
	unsigned n, targets;
	double us;
};

static bool count_questions(void *ctx, const struct pl_gemm_query *q, struct pl_gemm_fact *fact)
{
	struct asked *a = ctx;

	a->n++;
	a->targets += q->sm_target != 0;
	a->first += q->m == a->first ? 0 : 0;
	if (a->us <= 0)
		return false;
	*fact = (struct pl_gemm_fact){.us = a->us * (double)q->m / 1000};
	return true;
}

static void facts_are_asked_for_both_parts_with_targets_and_believed(void **state)
{
	struct plan_fixture *f = *state;
	struct pl_model *m = sample(f, "llama3-8b", 2);
	struct pl_options o = plan_options("h200", 2);
	struct asked none = {0}, slow = {.us = 5000};
	const struct pl_plan *a, *b, *c;
	struct planner *p[3];

	p[0] = pl_new(m, &o);
	o.gemm = count_questions;
	o.gemm_ctx = &none;
	p[1] = pl_new(m, &o);
	o.gemm_ctx = &slow;
	p[2] = pl_new(m, &o);
	assert_int_equal(pl_plan_rows(p[0], 4096, &a), ST_OK);
	assert_int_equal(pl_plan_rows(p[1], 4096, &b), ST_OK);
	assert_int_equal(pl_plan_rows(p[2], 4096, &c), ST_OK);
	/* what answers nothing changes nothing */
	assert_true(a->hash == b->hash && near(a->us, b->us));
	assert_true(none.n > 100 && none.targets > 50);
	/* four GEMMs a layer, of 5 us a row each */
	assert_true(c->mode_us[PL_FUSED] > 32 * 4 * 4096 * 5.0);
	assert_true(c->mode_us[PL_FUSED] < 32 * 4 * 4096 * 5.5);
	/* many rows: only the best by the table are asked for */
	none.n = 0;
	assert_int_equal(pl_plan_rows(p[1], 65536, &b), ST_OK);
	assert_in_range(none.n, 100, 6000);
	for (int i = 0; i < 3; i++)
		pl_free(p[i]);
}

/* A library says which tile it takes, and not what becomes of CTAs without an SM. */
static void whether_ctas_wait_the_machine_says_where_facts_do_not(void **state)
{
	static const struct {
		bool machine, persistent, dynamic, waits;
	} row[] = {{true, false, false, true}, {false, false, false, false},
	           {true, false, true, false}, {false, true, false, true},
	           {true, true, false, true},  {false, false, true, false}};
	struct pl_options o = plan_options("h200", 2);
	struct pl_op op = gemm_op("g", 5120, 8192);

	(void)state;
	o.gemm = fixed_tile;
	for (unsigned i = 0; i < 12; i++) {
		const unsigned k = i / 2;
		struct pl_gemm_fact fact = {.persistent = row[k].persistent,
		                            .dynamic = row[k].dynamic};
		struct pl_gemm g;

		if (i % 2) { /* a time alone */
			fact.us = 200;
		} else {
			fact.bm = 128;
			fact.bn = 256;
		}
		o.gemm_ctx = &fact;
		o.machine.persistent = row[k].machine;
		pl_gemm_choose(&o, &op, 2048, 0, &g);
		assert_int_equal(g.run.waits, row[k].waits);
		/* without a target it ends a run after the collective, or when its tiles do */
		if (row[k].waits)
			assert_true(pl_gemm_finish(&o.machine, &g.run, 0, 100, 8) >
			            100 / (1 + o.machine.gamma) + g.run.us);
		else
			assert_true(pl_gemm_finish(&o.machine, &g.run, 0, 100, 8) < 1.5 * g.run.us);
	}
}

#define FIXTURE(test) cmocka_unit_test_setup_teardown(test, plan_set_up, plan_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(
	                two_parts_need_at_most_one_wave_more_and_the_remainders_say_whether),
	        FIXTURE(the_lemma_holds_for_gemms_cut_at_a_multiple_of_their_tile),
	        FIXTURE(a_gemm_beside_a_collective_ends_when_its_tiles_do_one_by_one),
	        FIXTURE(nothing_ends_earlier_that_begins_later_or_meets_a_longer_collective),
	        FIXTURE(the_search_finds_what_trying_everything_finds),
	        FIXTURE(running_the_schedule_by_events_takes_what_the_sum_says),
	        FIXTURE(more_bandwidth_never_costs_time),
	        FIXTURE(no_plan_takes_longer_than_fused_only_or_unfused),
	        FIXTURE(a_gain_within_the_margin_is_left_alone),
	        FIXTURE(every_rank_and_run_gets_the_same_bytes),
	        FIXTURE(plans_are_remembered_until_there_are_too_many),
	        FIXTURE(a_plan_outlives_as_many_more_as_are_remembered),
	        FIXTURE(batches_with_and_without_cached_rows_are_told_apart),
	        FIXTURE(parts_of_a_batch_have_all_of_its_rows_and_pairs_once),
	        FIXTURE(pairs_are_what_counting_them_gives),
	        FIXTURE(what_is_no_batch_is_refused),
	        FIXTURE(parts_say_where_their_rows_and_residuals_are),
	        FIXTURE(facts_are_asked_for_both_parts_with_targets_and_believed),
	        FIXTURE(whether_ctas_wait_the_machine_says_where_facts_do_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
