/*
 * Barriers and liveness of generated kernels, on simulated ranks: who does not come is named, what
 * does not agree is reported at once, a dead workspace stays dead, epochs wrap.
 */
#include "tests/unit/cg_fixture.h"
#include "sim/sim.h"

enum { COLS = 64, ROWS = 8, RANKS = 4 };

static const char spec[] = "kernel sum(x: bf16[T, 64] partial) -> y: bf16[T, 64] replicated { out "
                           "y = all_reduce(x); }\n"
                           "kernel twice(x: bf16[T, 64] partial) -> y: bf16[T, 64] replicated { "
                           "out y = 2 * all_reduce(x); }\n";

struct world {
	struct cg_fixture *f;
	struct sim *sim;
	struct sim_options o;
	struct sim_symmetric x, y, ws;
};

struct loaded {
	const struct cg_kernel *k;
	const struct sim_kernel *s;
};

static struct world begin_with(struct cg_fixture *f, uint64_t limit_ns, struct sim_options o)
{
	struct world w = {.f = f, .o = o};
	struct cg_workspace *zero = arena_new(&f->arena, struct cg_workspace);
	uint16_t one[ROWS * COLS];

	w.sim = sim_new(&f->arena, &w.o);
	w.x = sim_alloc_symmetric(w.sim, sizeof one, true, "x");
	w.y = sim_alloc_symmetric(w.sim, sizeof one, true, "y");
	w.ws = sim_alloc_symmetric(w.sim, sizeof *zero, true, "workspace");
	zero->limit_ns = limit_ns;
	for (unsigned i = 0; i < ROWS * COLS; i++)
		one[i] = 0x3f80;
	for (unsigned r = 0; r < RANKS; r++) {
		assert_true(sim_write(w.sim, w.x.uc[r], one, sizeof one));
		assert_true(sim_write(w.sim, w.ws.uc[r], zero, sizeof *zero));
	}
	return w;
}

static struct world begin(struct cg_fixture *f, uint64_t limit_ns, bool jump_time)
{
	struct sim_options o = {.ranks = RANKS, .jump_time = jump_time, .sum = SIM_SUM_EXACT};

	return begin_with(f, limit_ns, o);
}

static struct loaded load(struct world *w, const char *name, enum cg_order order)
{
	struct cg_options o = cg_defaults(w->f, "sm_90");
	struct loaded l;

	o.tp = RANKS;
	o.order = order;
	l.k = cg_kernel_of(w->f, spec, name, 0, &o);
	if (!l.k)
		fail_msg("%s", cg_shown(w->f));
	cg_text(w->f, l.k);
	l.s = sim_load(w->sim, l.k->module, l.k->name);
	assert_non_null(l.s);
	return l;
}

static void launch(struct world *w, struct loaded l, unsigned rank, uint32_t T, unsigned grid)
{
	uint8_t block[256] = {0};

	for (unsigned i = 0; i < l.k->narg; i++) {
		const struct cg_arg *g = &l.k->arg[i];
		struct sim_symmetric *s = g->param == 0 ? &w->x : &w->y;
		uint64_t v = g->kind == CG_ARG_ROWS    ? T
		             : g->kind == CG_ARG_RANK  ? rank
		             : g->kind == CG_ARG_WS_UC ? w->ws.uc[rank]
		             : g->kind == CG_ARG_WS_MC ? w->ws.mc
		             : g->kind == CG_ARG_UC    ? s->uc[rank]
		                                       : s->mc;

		memcpy(block + g->offset, &v, g->size);
	}
	sim_launch_dynamic(w->sim, rank, 0, l.s, grid, l.k->plan.threads, l.k->plan.dynamic, block,
	                   l.k->param_bytes);
}

static void run(struct world *w)
{
	struct strbuf b;

	if (sim_run(w->sim))
		return;
	strbuf_init(&b, &w->f->arena);
	sim_render_findings(w->sim, &b);
	fail_msg("%s", b.s);
}

static struct cg_workspace workspace(struct world *w, unsigned rank)
{
	struct cg_workspace ws;

	assert_true(sim_read(w->sim, w->ws.uc[rank], &ws, sizeof ws));
	return ws;
}

static void assert_result(struct world *w, uint16_t want)
{
	for (unsigned r = 0; r < RANKS; r++) {
		uint16_t y[ROWS * COLS];

		assert_true(sim_read(w->sim, w->y.uc[r], y, sizeof y));
		for (unsigned i = 0; i < ROWS * COLS; i++)
			assert_int_equal(y[i], want);
	}
}

static void assert_nothing_written(struct world *w)
{
	for (unsigned r = 0; r < RANKS; r++)
		for (unsigned i = 0; i < ROWS * COLS * 2; i++)
			assert_false(sim_defined(w->sim, w->y.uc[r] + i, 1));
}

static void every_order_gives_the_sum_and_advances_the_epoch(void **state)
{
	for (unsigned order = CG_FORMAL; order <= CG_STRICT; order++) {
		struct world w = begin(*state, 0, false);
		struct loaded l = load(&w, "sum", (enum cg_order)order);

		for (unsigned n = 0; n < 3; n++)
			for (unsigned r = 0; r < RANKS; r++)
				launch(&w, l, r, ROWS, n == 1 ? 1 : 2);
		run(&w);
		assert_result(&w, 0x4080);
		for (unsigned r = 0; r < RANKS; r++) {
			struct cg_workspace ws = workspace(&w, r);

			assert_int_equal(ws.epoch[0], 6);
			assert_int_equal(ws.epoch[1], 4);
			assert_int_equal(ws.epoch[2], 0);
			for (unsigned s = 0; s < RANKS; s++)
				assert_int_equal((uint32_t)ws.slot[1][s], 4);
			assert_int_equal(ws.abort, 0);
			assert_int_equal(ws.record.kind, CG_WS_GOOD);
		}
	}
}

static void epochs_wrap(void **state)
{
	struct world w = begin(*state, 0, false);
	struct loaded l = load(&w, "sum", CG_FORMAL);

	for (unsigned r = 0; r < RANKS; r++) {
		struct cg_workspace ws = workspace(&w, r);

		ws.epoch[0] = UINT32_MAX - 2;
		for (unsigned s = 0; s < RANKS; s++)
			ws.slot[0][s] = UINT32_MAX - 2;
		sim_write(w.sim, w.ws.uc[r], &ws, sizeof ws);
		for (unsigned n = 0; n < 3; n++)
			launch(&w, l, r, ROWS, 1);
	}
	run(&w);
	assert_result(&w, 0x4080);
	assert_int_equal(workspace(&w, 0).epoch[0], 3);
}

static void no_rows_still_meet(void **state)
{
	struct world w = begin(*state, 0, false);
	struct loaded l = load(&w, "sum", CG_FORMAL);

	for (unsigned r = 0; r < RANKS; r++)
		launch(&w, l, r, 0, 1);
	run(&w);
	assert_nothing_written(&w);
	assert_int_equal(workspace(&w, 3).epoch[0], 2);
}

/* Rank 2 does not launch. */
static void a_rank_that_does_not_come_is_named(void **state)
{
	struct world w = begin(*state, 100000, true);
	struct loaded l = load(&w, "sum", CG_FORMAL);
	unsigned timeouts = 0;

	for (unsigned r = 0; r < RANKS; r++)
		if (r != 2)
			launch(&w, l, r, ROWS, 2);
	run(&w);
	assert_nothing_written(&w);
	for (unsigned r = 0; r < RANKS; r++) {
		struct cg_workspace ws = workspace(&w, r);

		assert_int_equal(ws.abort, 1);
		assert_int_equal(ws.epoch[0], 0);
		if (ws.record.kind == CG_WS_TIMEOUT) {
			timeouts++;
			assert_int_equal(ws.record.rank, r);
			assert_in_range(ws.record.cta, 0, 1);
			assert_int_equal(ws.record.phase, 0);
			assert_int_equal(ws.record.peer, 2);
			assert_int_equal(ws.record.kernel, (uint32_t)l.k->contract);
			assert_true(ws.record.expected ==
			            (1 | (uint64_t)((uint32_t)l.k->contract ^ ROWS) << 32));
			assert_true(ws.record.seen == 0);
		} else {
			assert_int_equal(ws.record.kind, r == 2 ? CG_WS_GOOD : CG_WS_PEER);
		}
	}
	assert_true(timeouts >= 1);
}

static void a_dead_workspace_stays_dead(void **state)
{
	struct world w = begin(*state, 100000, true);
	struct loaded l = load(&w, "sum", CG_FORMAL);

	launch(&w, l, 0, ROWS, 1);
	run(&w);
	for (unsigned r = 0; r < RANKS; r++)
		launch(&w, l, r, ROWS, 1);
	run(&w);
	assert_nothing_written(&w);
	for (unsigned r = 0; r < RANKS; r++) {
		struct cg_workspace ws = workspace(&w, r);

		assert_int_equal(ws.epoch[0], 0);
		assert_int_equal(ws.slot[0][1], 0); /* rank 1 has not even arrived */
	}
}

/* No limit and no jumps of time: what disagrees is seen, not waited out. */
static void another_T_is_a_broken_contract(void **state)
{
	struct world w = begin(*state, UINT64_MAX, false);
	struct loaded l = load(&w, "sum", CG_FORMAL);
	unsigned found = 0;

	for (unsigned r = 0; r < RANKS; r++)
		launch(&w, l, r, r == 1 ? ROWS - 1 : ROWS, 1);
	run(&w);
	assert_nothing_written(&w);
	for (unsigned r = 0; r < RANKS; r++) {
		struct cg_workspace ws = workspace(&w, r);

		assert_int_equal(ws.abort, 1);
		found += ws.record.kind == CG_WS_CONTRACT;
		if (ws.record.kind == CG_WS_CONTRACT && r != 1)
			assert_int_equal(ws.record.peer, 1);
		if (ws.record.kind == CG_WS_CONTRACT)
			assert_int_equal((uint32_t)ws.record.seen, (uint32_t)ws.record.expected);
	}
	assert_true(found >= 1);
}

/* Two ranks may find it at once, and each one's word come before the other's record. */
static void whoever_aborts_has_a_record(void **state)
{
	for (unsigned seed = 0; seed < 100; seed++) {
		struct sim_options o = {.ranks = RANKS, .seed = seed, .schedule = SIM_RANDOM};
		struct world w = begin_with(*state, UINT64_MAX, o);
		struct loaded l = load(&w, "sum", CG_FORMAL);

		for (unsigned r = 0; r < RANKS; r++)
			launch(&w, l, r, r == 1 ? ROWS - 1 : ROWS, 1);
		run(&w);
		for (unsigned r = 0; r < RANKS; r++) {
			struct cg_workspace ws = workspace(&w, r);
			bool arrived = ws.slot[0][r] != 0; /* it was not dead at entry */

			assert_true(ws.abort && (ws.record.kind != CG_WS_GOOD) == arrived);
		}
	}
}

static void another_kernel_is_a_broken_contract(void **state)
{
	struct world w = begin(*state, UINT64_MAX, false);
	struct loaded a = load(&w, "sum", CG_FORMAL), b = load(&w, "twice", CG_FORMAL);
	unsigned found = 0;

	for (unsigned r = 0; r < RANKS; r++)
		launch(&w, r == 3 ? b : a, r, ROWS, 1);
	run(&w);
	assert_nothing_written(&w);
	for (unsigned r = 0; r < RANKS; r++)
		found += workspace(&w, r).record.kind == CG_WS_CONTRACT;
	assert_true(found >= 1);
}

/* Rank 1 takes part in a first launch, not in a second one: its slots then show the first one's
 * epochs. */
static void a_rank_that_stops_coming_is_named_with_what_was_seen(void **state)
{
	struct world w = begin(*state, 100000, true);
	struct loaded l = load(&w, "sum", CG_FORMAL);
	unsigned timeouts = 0;

	for (unsigned r = 0; r < RANKS; r++)
		launch(&w, l, r, ROWS, 1);
	run(&w);
	for (unsigned r = 0; r < RANKS; r++)
		if (r != 1)
			launch(&w, l, r, ROWS, 1);
	run(&w);
	assert_result(&w, 0x4080);
	for (unsigned r = 0; r < RANKS; r++) {
		struct cg_workspace ws = workspace(&w, r);

		assert_int_equal(ws.epoch[0], 2);
		if (ws.record.kind != CG_WS_TIMEOUT)
			continue;
		timeouts++;
		assert_int_equal(ws.record.peer, 1);
		assert_int_equal((uint32_t)ws.record.expected, 3);
		assert_int_equal((uint32_t)ws.record.seen, 2);
	}
	assert_true(timeouts >= 1);
}

/* Lanes load the abort word one by one, and the wait votes with all of them: they leave together. */
static void a_warp_leaves_a_dead_workspace_together(void **state)
{
	struct world w = begin(*state, 0, false);
	const struct ptx_fn *f = load(&w, "sum", CG_FORMAL).k->module->fn;
	const struct ptx_insn *in = f->insn, *end = f->insn + f->ninsn;

	while (in < end && !(in->op == PTX_ld && in->mod.order == PTX_RELAXED))
		in++;
	while (in < end && in->op != PTX_bra && in->op != PTX_vote)
		in++;
	assert_true(in < end);
	assert_int_equal(in->op, PTX_vote);
	assert_int_equal(in->mod.vote, PTX_ANY);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cg_set_up, cg_tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(every_order_gives_the_sum_and_advances_the_epoch),
	        TEST(epochs_wrap),
	        TEST(no_rows_still_meet),
	        TEST(a_rank_that_does_not_come_is_named),
	        TEST(a_dead_workspace_stays_dead),
	        TEST(a_warp_leaves_a_dead_workspace_together),
	        TEST(another_T_is_a_broken_contract),
	        TEST(whoever_aborts_has_a_record),
	        TEST(another_kernel_is_a_broken_contract),
	        TEST(a_rank_that_stops_coming_is_named_with_what_was_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
