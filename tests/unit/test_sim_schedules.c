/*
 * Barriers between ranks under thousands of schedules, several launches, streams, replay,
 * residency, and deadlocks that say who waits for whom.
 */
#include "tests/unit/unit.h"
#include "tests/unit/sim_run.h"

/*
 * k(a: x in multicast, b: flags in unicast, c: flags in multicast, n: arrivals to wait for).  Every
 * CTA writes its word of x through multicast, arrives at its CTA's flag and waits for all ranks
 * there; then x has to hold the sum.
 */
static const char arrive_and_wait[] =
        "setp.ne.u32 %p1, %r1, 0; mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd0, %rd4;\n"
        "add.s64 %rd6, %rd1, %rd4; add.s64 %rd7, %rd2, %rd4;\n"
        "@%p1 bra done;\n"
        "multimem.red.relaxed.sys.global.add.u32 [%rd5], 1;\n"
        "multimem.red.release.sys.global.add.u32 [%rd7], 1;\n"
        "spin: ld.relaxed.sys.global.u32 %r10, [%rd6];\n"
        "sub.u32 %r11, %r10, %r0; setp.lt.s32 %p2, %r11, 0; @%p2 bra spin;\n"
        "fence.acq_rel.sys;\n"
        "done: bar.sync 0;\n"
        "multimem.ld_reduce.relaxed.sys.global.min.u32 %r12, [%rd5];\n"
        "setp.lt.u32 %p3, %r12, %r0; @%p3 trap;\n";

struct world {
	struct sim_test t;
	const struct sim_kernel *k;
	struct sim_symmetric x, flags;
	uint64_t trace; /* hash of all accesses, in their order */
};

static void trace(void *ctx, const struct sim_access *e)
{
	uint64_t *h = ctx;

	*h = (*h ^ e->offset ^ (uint64_t)e->rank << 20 ^ (uint64_t)e->cta << 30 ^
	      (uint64_t)e->thread << 40 ^ (uint64_t)e->home << 56 ^ (uint64_t)e->kind << 60) *
	     0x100000001b3u;
}

static void begin(struct world *w, const char *body)
{
	uint32_t zero[64] = {0};

	w->trace = 1;
	w->t.o.on_access = trace;
	w->t.o.ctx = &w->trace;
	sim_test_start(&w->t);
	w->k = sim_test_load(&w->t, "", body);
	assert_non_null(w->k);
	w->x = sim_alloc_symmetric(w->t.sim, sizeof zero, true, "x");
	w->flags = sim_alloc_symmetric(w->t.sim, sizeof zero, true, "flags");
	for (unsigned r = 0; r < w->t.o.ranks; r++) {
		sim_write(w->t.sim, w->x.uc[r], zero, sizeof zero);
		sim_write(w->t.sim, w->flags.uc[r], zero, sizeof zero);
	}
}

static void launch(struct world *w, unsigned rank, unsigned stream, unsigned grid, unsigned block,
                   uint32_t n)
{
	struct sim_test_args a = {w->x.mc, w->flags.uc[rank], w->flags.mc, n};

	sim_launch(w->t.sim, rank, stream, w->k, grid, block, &a, SIM_TEST_ARGS);
}

static void good(struct world *w, const char *what)
{
	if (!sim_run(w->t.sim)) {
		sim_test_show(&w->t);
		fail_msg("%s", what);
	}
}

static void barriers_of_2_to_16_ranks_hold_under_thousands_of_seeds(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 2000; seed++) {
		static struct world w;
		const unsigned grid = 1 + seed % 3;

		sim_test_begin(&w.t);
		w.t.o.ranks = 2 + seed % 15;
		w.t.o.seed = seed;
		w.t.o.schedule = seed % SIM_NSCHEDULES;
		w.t.o.slow_rank = seed / 7;
		w.t.o.resident = seed % 5 == 0 ? grid : 0;
		w.t.o.max_start_delay = seed % 4 ? 200 : 0;
		begin(&w, arrive_and_wait);
		for (unsigned n = 1; n <= 3; n++)
			for (unsigned r = 0; r < w.t.o.ranks; r++)
				launch(&w, r, 0, grid, 33, n * w.t.o.ranks);
		good(&w, "three launches in a row");
		assert_int_equal(sim_stats(w.t.sim).launches, 3 * w.t.o.ranks);
		sim_test_end(&w.t);
	}
}

static uint64_t traced(unsigned seed, enum sim_schedule schedule)
{
	static struct world w;
	uint64_t h;

	sim_test_begin(&w.t);
	w.t.o.ranks = 4;
	w.t.o.seed = seed;
	w.t.o.schedule = schedule;
	w.t.o.max_start_delay = 50;
	begin(&w, arrive_and_wait);
	for (unsigned r = 0; r < 4; r++)
		launch(&w, r, 0, 2, 64, 4);
	good(&w, "traced");
	h = w.trace ^ sim_stats(w.t.sim).warp_insns << 32 ^ sim_stats(w.t.sim).ns;
	sim_test_end(&w.t);
	return h;
}

static void a_seed_replays_its_run_and_another_seed_another(void **state)
{
	unsigned differ = 0;

	(void)state;
	for (unsigned seed = 0; seed < 50; seed++) {
		enum sim_schedule s = seed % SIM_NSCHEDULES;

		assert_true(traced(seed, s) == traced(seed, s));
		differ += traced(seed, SIM_RANDOM) != traced(seed + 1, SIM_RANDOM);
	}
	assert_in_range(differ, 49, 50);
}

static void a_barrier_that_does_not_wait_is_found_by_some_seed(void **state)
{
	static const char body[] = "setp.ne.u32 %p1, %r1, 0; @%p1 bra done;\n"
	                           "multimem.red.relaxed.sys.global.add.u32 [%rd0], 1;\n"
	                           "multimem.red.release.sys.global.add.u32 [%rd2], 1;\n"
	                           "done: bar.sync 0;\n"
	                           "multimem.ld_reduce.relaxed.sys.global.min.u32 %r12, [%rd0];\n"
	                           "setp.lt.u32 %p3, %r12, %r0; @%p3 trap;\n";
	unsigned found = 0;

	(void)state;
	for (unsigned seed = 0; seed < 40; seed++) {
		static struct world w;

		sim_test_begin(&w.t);
		w.t.o.ranks = 2;
		w.t.o.seed = seed;
		w.t.o.schedule = SIM_RANDOM;
		begin(&w, body);
		launch(&w, 0, 0, 1, 64, 2);
		launch(&w, 1, 0, 1, 64, 2);
		if (!sim_run(w.t.sim))
			found += sim_test_found(&w.t) == SIM_TRAP;
		sim_test_end(&w.t);
	}
	assert_in_range(found, 20, 40);
}

static void a_rank_that_is_never_launched_is_named_as_what_the_others_wait_for(void **state)
{
	static struct world w;
	const struct sim_finding *f;

	(void)state;
	sim_test_begin(&w.t);
	w.t.o.ranks = 3;
	w.t.o.schedule = SIM_RANDOM;
	begin(&w, arrive_and_wait);
	launch(&w, 0, 0, 1, 64, 3);
	launch(&w, 2, 0, 1, 64, 3);
	assert_false(sim_run(w.t.sim));
	f = sim_findings(w.t.sim);
	assert_int_equal(f->check, SIM_DEADLOCK);
	assert_int_equal(f->thread, 0);
	assert_non_null(strstr(f->text, "rank 0 CTA 0 thread 0 polls 'flags' + 0 (rank 0)"));
	assert_non_null(strstr(f->text, "rank 2 CTA 0 thread 0 polls 'flags' + 0 (rank 2)"));
	assert_non_null(strstr(f->text, "sees 0x2, last written by rank"));
	assert_non_null(strstr(f->text, "1 of 2 warps wait in bar.sync 0"));
	assert_non_null(strstr(f->text, "rank 1 has ended all of its 0 launches"));
	sim_test_end(&w.t);
}

/* With one CTA at a time, CTA 0 of one rank and CTA 1 of another wait for one another, under some
 * order of CTAs. */
static void ctas_that_are_not_resident_are_in_the_report(void **state)
{
	unsigned deadlocks = 0;

	(void)state;
	for (unsigned seed = 0; seed < 20; seed++) {
		static struct world w;

		sim_test_begin(&w.t);
		w.t.o.ranks = 2;
		w.t.o.seed = seed;
		w.t.o.resident = 1;
		begin(&w, arrive_and_wait);
		launch(&w, 0, 0, 2, 32, 2);
		launch(&w, 1, 0, 2, 32, 2);
		if (!sim_run(w.t.sim)) {
			assert_int_equal(sim_test_found(&w.t), SIM_DEADLOCK);
			assert_non_null(strstr(sim_findings(w.t.sim)->text, "are not resident"));
			deadlocks++;
		}
		sim_test_end(&w.t);
	}
	assert_in_range(deadlocks, 2, 18);
}

static void empty_grids_and_short_ones_end(void **state)
{
	static struct world w;

	(void)state;
	sim_test_begin(&w.t);
	w.t.o.ranks = 2;
	begin(&w, arrive_and_wait);
	for (unsigned n = 1; n <= 3; n++) {
		launch(&w, 0, 0, 0, 32, 0);
		launch(&w, 0, 0, 1, 1, 2 * n);
		launch(&w, 1, 0, 1, 1024, 2 * n);
		launch(&w, 1, 0, 0, 32, 0);
	}
	good(&w, "empty grids");
	assert_int_equal(sim_stats(w.t.sim).launches, 12);
	sim_test_end(&w.t);
}

/* Stream 1 of each rank gives what stream 0 waits for: both streams have to run at once. */
static void streams_of_a_rank_run_side_by_side(void **state)
{
	static struct world w;

	(void)state;
	sim_test_begin(&w.t);
	w.t.o.ranks = 2;
	w.t.o.schedule = SIM_RANDOM;
	begin(&w, arrive_and_wait);
	for (unsigned r = 0; r < 2; r++) {
		launch(&w, r, 0, 1, 32, 4);
		launch(&w, r, 1, 1, 32, 4);
	}
	good(&w, "two streams");
	sim_test_end(&w.t);
	sim_test_begin(&w.t);
	w.t.o.ranks = 2;
	begin(&w, arrive_and_wait);
	for (unsigned r = 0; r < 2; r++) {
		launch(&w, r, 0, 1, 32, 4);
		launch(&w, r, 0, 1, 32, 4);
	}
	assert_false(sim_run(w.t.sim));
	assert_int_equal(sim_test_found(&w.t), SIM_DEADLOCK);
	sim_test_end(&w.t);
}

struct host_log {
	struct world *w;
	unsigned calls, stop_at;
	uint32_t seen[8];
};

static bool look(void *ctx, struct sim *s, unsigned rank)
{
	struct host_log *l = ctx;

	assert_true(sim_read(s, l->w->x.uc[rank], &l->seen[l->calls], 4));
	return ++l->calls != l->stop_at;
}

static void host_functions_run_between_the_launches_of_their_stream(void **state)
{
	static struct world w;

	(void)state;
	for (unsigned stop = 0; stop < 2; stop++) {
		struct host_log l = {&w, 0, stop, {0}};

		sim_test_begin(&w.t);
		w.t.o.schedule = SIM_RANDOM;
		begin(&w, arrive_and_wait);
		sim_host(w.t.sim, 0, 0, look, &l);
		launch(&w, 0, 0, 1, 32, 1);
		sim_host(w.t.sim, 0, 0, look, &l);
		launch(&w, 0, 0, 1, 32, 2);
		sim_host(w.t.sim, 0, 0, look, &l);
		assert_int_equal(sim_run(w.t.sim), !stop);
		assert_null(sim_findings(w.t.sim));
		assert_int_equal(l.calls, stop ? 1 : 3);
		assert_int_equal(l.seen[0], 0);
		if (!stop) {
			assert_int_equal(l.seen[1], 1);
			assert_int_equal(l.seen[2], 2);
		}
		sim_test_end(&w.t);
	}
}

static void the_last_writer_of_a_byte_is_known(void **state)
{
	static struct world w;
	unsigned rank = 9;
	uint32_t line;

	(void)state;
	sim_test_begin(&w.t);
	w.t.o.ranks = 2;
	begin(&w, "setp.ne.u32 %p1, %r1, 0; @%p1 ret;\n\n\nst.global.u32 [%rd1], %r0;\n");
	launch(&w, 1, 0, 1, 32, 5);
	good(&w, "one store");
	line = sim_writer(w.t.sim, w.flags.uc[1] + 3, &rank);
	assert_int_equal(rank, 1);
	assert_int_equal(line, 14);
	assert_int_equal(sim_writer(w.t.sim, w.flags.uc[1] + 4, &rank), 0);
	assert_true(sim_undefine(w.t.sim, w.flags.uc[1] + 1, 1));
	assert_false(sim_defined(w.t.sim, w.flags.uc[1], 4));
	assert_false(sim_write(w.t.sim, w.flags.uc[1] + 250, "0123456789", 10));
	assert_false(sim_read(w.t.sim, w.flags.mc, &line, 4));
	sim_test_end(&w.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(barriers_of_2_to_16_ranks_hold_under_thousands_of_seeds),
	        cmocka_unit_test(a_seed_replays_its_run_and_another_seed_another),
	        cmocka_unit_test(a_barrier_that_does_not_wait_is_found_by_some_seed),
	        cmocka_unit_test(
	                a_rank_that_is_never_launched_is_named_as_what_the_others_wait_for),
	        cmocka_unit_test(ctas_that_are_not_resident_are_in_the_report),
	        cmocka_unit_test(empty_grids_and_short_ones_end),
	        cmocka_unit_test(streams_of_a_rank_run_side_by_side),
	        cmocka_unit_test(host_functions_run_between_the_launches_of_their_stream),
	        cmocka_unit_test(the_last_writer_of_a_byte_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
