/* Schedules on simulated GPUs: what they compute, in which order, and what goes wrong. */
#include "tests/unit/schedule_fixture.h"

/* ---- tests ---- */

/* One piece is right, and all splits of it are the same bits on all ranks. */
static void splits_equal_the_whole(struct fixture *f)
{
	static const int64_t rows[] = {MOST, 67, 24, 16};
	uint16_t *whole = malloc(MOST * HIDDEN * 2), *y = malloc(MOST * HIDDEN * 2);
	struct plait_plan_info info = PLAIT_PLAN_INFO_INIT;

	make_stage(f);
	make_memory(f);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		schedule(f, PLAIT_RUN_FUSED, 0);
		run_model(f, rows[i]);
		read_y(f, 0, rows[i], whole);
		check(f, rows[i], whole);
		for (int64_t at = 8; at < rows[i]; at += i ? 24 : 72) {
			schedule(f, PLAIT_RUN_SPLIT, at);
			run_model(f, rows[i]);
			plait_plan_get(f->plan, &info);
			assert_int_equal(info.mode, PLAIT_RUN_SPLIT);
			assert_int_equal(info.split, at);
			for (unsigned r = 0; r < f->tp; r++) {
				read_y(f, r, rows[i], y);
				assert_memory_equal(whole, y, (size_t)rows[i] * HIDDEN * 2);
			}
		}
	}
	free(whole);
	free(y);
}

static void two_parts_of_own_rows_are_the_whole(void **state)
{
	struct fixture *f = *state;

	f->protocol = "p2p-twoshot";
	splits_equal_the_whole(f);
	assert_true(plait_schedule_own_rows(f->sched, f->plan));
}

static void and_where_all_rows_are_on_every_rank(void **state)
{
	struct fixture *f = *state;

	f->protocol = "push";
	splits_equal_the_whole(f);
	assert_false(plait_schedule_own_rows(f->sched, f->plan));
}

static void and_of_four_ranks_whose_protocol_depends_on_T(void **state)
{
	struct fixture *f = *state;

	f->tp = 4;
	f->seed = 11;
	splits_equal_the_whole(f);
}

static void unfused_plans_run_with_an_all_reduce_of_the_callers(void **state)
{
	struct fixture *f = *state;
	uint16_t *y = malloc(MOST * HIDDEN * 2);

	make_stage(f);
	make_memory(f);
	f->o.unfused = true;
	f->o.all_reduce = all_reduce;
	schedule(f, PLAIT_RUN_UNFUSED, 0);
	run_model(f, 40);
	assert_int_equal(f->sums, (2 * LAYERS + 1) * (int)f->tp);
	for (unsigned r = 0; r < f->tp; r++) {
		read_y(f, r, 40, y);
		check(f, 40, y);
	}
	schedule(f, PLAIT_RUN_REMOVED, 0);
	f->sums = 0;
	run_model(f, 40);
	assert_int_equal(f->sums, 0);
	f->o.unfused = false;
	schedule(f, PLAIT_RUN_UNFUSED, 0);
	assert_int_equal(plait_schedule_run(f->sched, plan_of(f, 40), NULL, f->stream),
	                 PLAIT_USAGE);
	assert_non_null(strstr(plait_comm_error(f->c), "'unfused'"));
	free(y);
}

/* By peers, with an NCCL for the sums alone; and where NCCL carries all rows. */
static void and_with_NCCL(void **state)
{
	struct fixture *f = *state;
	uint16_t *y = malloc(MOST * HIDDEN * 2);

	for (unsigned all = 0; all < 2; all++) {
		f->at_most = all ? PLAIT_BY_NCCL : PLAIT_BY_ANY;
		make_stage(f);
		make_memory(f);
		if (!all)
			f->c->nccl = sim_nccl_begin(f->d);
		f->o.unfused = true;
		for (unsigned mode = PLAIT_RUN_UNFUSED; mode <= PLAIT_RUN_SPLIT; mode++) {
			if (mode == PLAIT_RUN_REMOVED)
				continue;
			schedule(f, (enum plait_run_mode)mode, mode == PLAIT_RUN_SPLIT ? 24 : 0);
			run_model(f, 64);
			for (unsigned r = 0; r < f->tp; r++) {
				read_y(f, r, 64, y);
				check(f, 64, y);
			}
		}
		end(f);
		assert_int_equal(f->d->live, 0);
	}
	free(y);
}

/* ---- order ---- */

/* reach[i]: entries that entry i comes behind, by stream order and events. */
static void order_log(const struct sim_driver *d, bool *reach)
{
	size_t n = d->nlog;

	for (size_t i = 0; i < n; i++) {
		const struct sim_driver_entry *x = &d->log[i];

		for (size_t j = i; j-- > 0;) {
			const struct sim_driver_entry *y = &d->log[j];
			bool before = y->stream == x->stream ||
			              (x->what == SIM_DRIVER_WAIT && y->what == SIM_DRIVER_RECORD &&
			               y->other == x->other);

			if (!before || reach[i * n + j])
				continue;
			reach[i * n + j] = true;
			for (size_t k = 0; k < j; k++)
				reach[i * n + k] |= reach[j * n + k];
			if (x->what == SIM_DRIVER_WAIT && y->what == SIM_DRIVER_RECORD &&
			    y->other == x->other)
				break; /* an event's last record only; stream order is transitive */
		}
	}
}

/* Launches of a rank are its collectives in order: step k's is the k-th. */
static void each_part_waits_for_its_own_collective_and_not_for_the_other(void **state)
{
	struct fixture *f = *state;
	struct sim_driver *d;
	const struct cu_stream *comm;
	bool *reach;
	size_t n, overlapped = 0;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	d = f->d;
	d->log = arena_news(&f->arena, struct sim_driver_entry, MOST_LOG);
	d->log_room = MOST_LOG;
	fill(f, 64);
	good(f, plait_schedule_run(f->sched, plan_of(f, 64), NULL, f->stream));
	n = d->nlog;
	assert_true(n < MOST_LOG);
	reach = calloc(n * n, sizeof *reach);
	order_log(d, reach);
	for (unsigned r = 0; r < f->tp; r++) {
		size_t launch[64], nlaunch = 0;

		comm = f->sched->local[r].stream;
		for (size_t i = 0; i < n; i++)
			if (d->log[i].what == SIM_DRIVER_LAUNCH && d->log[i].stream == comm)
				launch[nlaunch++] = i;
		assert_int_equal(nlaunch, 2 * (2 * LAYERS + 1));
		for (size_t i = 0; i < n; i++) {
			const struct work *w = d->log[i].other;
			size_t seg, own, other;

			if (d->log[i].what != SIM_DRIVER_HOST || w->local != r)
				continue;
			seg = 1 + w->turn * 2 + (w->step - 1) % 8 / 4;
			own = launch[2 * (seg - 1) + w->part]; /* makes what it reads */
			other = launch[2 * seg + w->part - 1]; /* beside it */
			assert_true(reach[i * n + own]);
			overlapped += !reach[i * n + other];
			assert_true(reach[launch[2 * seg + w->part] * n + i]);
		}
		/* all of it is behind the caller's stream, and joined to it */
		for (size_t k = 0; k < nlaunch; k++)
			for (size_t i = n; i-- > 0;)
				if (d->log[i].stream == (struct cu_stream *)f->stream[r]) {
					assert_true(reach[i * n + launch[k]]);
					break;
				}
	}
	assert_int_equal(overlapped, f->tp * 2 * LAYERS * 6);
	run_sim(f);
	free(reach);
}

static void running_allocates_loads_and_waits_for_nothing(void **state)
{
	struct fixture *f = *state;
	const plait_plan *plan;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 40);
	plan = plan_of(f, 96);
	good(f, plait_schedule_agree(f->sched, plan));
	good(f, plait_schedule_warm(f->sched, plan, NULL, f->stream));
	/* one for each stage: A.1 occurs beside two collectives */
	assert_int_equal(f->calls, 5 * 3 * f->tp);
	assert_true(f->last.warm);
	fill(f, 96);
	f->d->allocations = f->d->loads = f->d->waits = 0;
	for (unsigned i = 0; i < 3; i++)
		good(f, plait_schedule_run(f->sched, plan, NULL, f->stream));
	assert_int_equal(f->d->allocations + f->d->loads + f->d->waits, 0);
	assert_false(f->last.warm);
	run_sim(f);
	assert_int_equal(f->stale, 0);
}

static void a_request_that_is_cut_is_in_both_parts(void **state)
{
	struct fixture *f = *state;
	const int64_t cum[] = {0, 10, 70, 96}, cached[] = {5, 6, 7};
	struct plait_batch b = PLAIT_BATCH_INIT;
	const plait_plan *plan;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 40);
	b.tokens = 96;
	b.nrequest = 3;
	b.cum = cum;
	b.cached = cached;
	assert_int_equal(plait_plan_force(f->planner, &b, f->mode, f->at, &plan), PLAIT_OK);
	fill(f, 96);
	good(f, plait_schedule_run(f->sched, plan, &b, f->stream));
	run_sim(f);
	assert_int_equal(f->part[0].first, 0);
	assert_int_equal(f->part[0].n, 2);
	assert_int_equal(f->part[0].length[1], 30);
	assert_int_equal(f->part[0].cached[0], 5);
	assert_int_equal(f->part[1].first, 1);
	assert_int_equal(f->part[1].n, 2);
	assert_int_equal(f->part[1].length[0], 30);
	assert_int_equal(f->part[1].cached[0], 36);
	b.tokens = 95;
	assert_int_equal(plait_schedule_run(f->sched, plan, &b, f->stream), PLAIT_USAGE);
	b.tokens = 96;
	f->o.max_requests = 2;
	schedule(f, PLAIT_RUN_SPLIT, 40);
	assert_int_equal(plait_plan_force(f->planner, &b, f->mode, f->at, &plan), PLAIT_OK);
	assert_int_equal(plait_schedule_run(f->sched, plan, &b, f->stream), PLAIT_USAGE);
	assert_non_null(strstr(plait_comm_error(f->c), "3 requests"));
}

/* ---- what goes wrong ---- */

static void a_callback_that_fails_is_named_and_nothing_hangs(void **state)
{
	struct fixture *f = *state;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	for (int at = 1; at <= 2 * 2 * LAYERS * 6; at++) {
		fill(f, 64);
		f->calls = 0;
		f->fail_at = at;
		assert_int_equal(plait_schedule_run(f->sched, plan_of(f, 64), NULL, f->stream),
		                 PLAIT_ENV);
		assert_non_null(strstr(plait_comm_error(f->c), "the callback gave 7"));
		if (at == 1)
			assert_non_null(
			        strstr(plait_comm_error(f->c), "rank 0: 'w_qkv', turn 0, part 0"));
		run_sim(f);
		for (unsigned r = 0; r < f->tp; r++)
			good(f, plait_workspace_check(plait_schedule_workspace(f->sched), r, NULL));
	}
	f->fail_at = 0;
	run_model(f, 64);
}

/* Both streams are one again after a failure of any call, so that a capture can be ended. */
static void after_any_failure_the_streams_are_joined(void **state)
{
	struct fixture *f = *state;
	const plait_plan *plan;
	unsigned before, n;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	plan = plan_of(f, 64);
	f->d->log = arena_news(&f->arena, struct sim_driver_entry, MOST_LOG);
	f->d->log_room = MOST_LOG;
	before = f->d->calls;
	fill(f, 64);
	good(f, plait_schedule_run(f->sched, plan, NULL, f->stream));
	n = f->d->calls - before;
	run_sim(f);
	for (unsigned at = 1; at <= n; at += 3) {
		f->d->calls = 0;
		f->d->nlog = 0;
		f->d->fail_at = at;
		assert_int_equal(plait_schedule_run(f->sched, plan, NULL, f->stream), PLAIT_ENV);
		assert_non_null(strstr(plait_comm_error(f->c), "made up"));
		f->d->fail_at = 0;
		for (unsigned r = 0; r < f->tp; r++) {
			const struct sim_driver_entry *last = NULL, *used = NULL;

			for (size_t i = 0; i < f->d->nlog; i++) {
				const struct sim_driver_entry *x = &f->d->log[i];

				if (x->stream == f->sched->local[r].stream)
					used = x;
				if (x->stream == (struct cu_stream *)f->stream[r])
					last = x;
			}
			if (used)
				assert_true(last && last->what == SIM_DRIVER_WAIT &&
				            used->what == SIM_DRIVER_RECORD &&
				            used->other == last->other);
		}
		run_sim(f); /* with time-outs where a rank did not come */
		good(f, plait_workspace_reset(plait_schedule_workspace(f->sched)));
	}
}

static void a_failure_of_any_call_of_creation_unwinds(void **state)
{
	struct fixture *f = *state;
	unsigned live, calls, at = 0, failed = 0;
	enum plait_status st;

	make_stage(f);
	make_memory(f);
	make_planner(f);
	f->o.unfused = true;
	f->o.all_reduce = all_reduce;
	live = f->d->live;
	do {
		f->d->calls = 0;
		f->d->fail_at = ++at;
		st = plait_schedule_create(f->s, f->planner, &f->o, &f->sched);
		calls = f->d->calls;
		f->d->fail_at = 0;
		if (st ==
		    PLAIT_OK) { /* done without what failed, or that was beyond the last call */
			plait_schedule_free(f->sched);
			f->sched = NULL;
		} else {
			assert_null(f->sched);
			assert_true(*plait_comm_error(f->c));
			failed++;
		}
		assert_int_equal(f->d->live, live);
	} while (calls >= at);
	assert_true(failed > 40);
	good(f, plait_schedule_create(f->s, f->planner, &f->o, &f->sched));
	run_model(f, 64);
}

static void what_does_not_fit_is_refused(void **state)
{
	struct fixture *f = *state;
	struct plait_schedule_options o;
	plait_schedule *other = NULL;
	plait_planner *first;
	const plait_plan *plan;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	assert_int_equal(plait_schedule_run(f->sched, plan_of(f, MOST + 8), NULL, f->stream),
	                 PLAIT_USAGE);
	assert_non_null(strstr(plait_comm_error(f->c), "168 rows"));
	assert_non_null(strstr(plait_comm_error(f->c), "160 at most"));
	assert_int_equal(plait_schedule_agree(f->sched, f->plan), PLAIT_USAGE);
	assert_int_equal(plait_schedule_run(f->sched, NULL, NULL, f->stream), PLAIT_USAGE);
	plan = plan_of(f, 64);
	assert_int_equal(plait_schedule_run(f->sched, plan, NULL, NULL), PLAIT_USAGE);
	o = f->o;
	o.tensor = NULL;
	assert_int_equal(plait_schedule_create(f->s, f->planner, &o, &other), PLAIT_USAGE);
	o = f->o;
	o.struct_size = 0;
	assert_int_equal(plait_schedule_create(f->s, f->planner, &o, &other), PLAIT_USAGE);
	first = f->planner;
	f->tp = 4;
	make_planner(f);
	f->tp = 2;
	assert_int_equal(plait_schedule_create(f->s, f->planner, &f->o, &other), PLAIT_USAGE);
	assert_non_null(strstr(plait_comm_error(f->c), "4 ranks"));
	assert_int_equal(plait_schedule_run(f->sched, plan_of(f, 64), NULL, f->stream),
	                 PLAIT_USAGE);
	plait_schedule_free(f->sched);
	f->sched = NULL;
	plait_planner_free(first);
}

/* Another process, whose plan is as the test wants it. */
static bool other_facts;

static bool gather_two(struct rt_boot *b, const void *send, void *recv, size_t bytes,
                       struct rt_error *e)
{
	(void)b;
	(void)e;
	memcpy(recv, send, bytes);
	memcpy((char *)recv + bytes, send, bytes);
	if (bytes == 40) { /* what plans are compared by: T first */
		int64_t tokens = 48;

		memcpy((char *)recv + bytes, &tokens, sizeof tokens);
		((char *)recv)[bytes + 16] ^= 1;
		((char *)recv)[bytes + 24] ^= (char)other_facts;
	}
	return true;
}

static void ranks_with_different_plans_are_named(void **state)
{
	struct fixture *f = *state;
	struct rt_boot two = {.processes = 2, .gather = gather_two}, *own;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	good(f, plait_schedule_agree(f->sched, plan_of(f, 64)));
	own = f->c->boot;
	f->c->boot = &two;
	f->c->processes = 2;
	assert_int_equal(plait_schedule_agree(f->sched, f->plan), PLAIT_MISMATCH);
	assert_non_null(strstr(plait_comm_error(f->c), "split of 64 rows, split at 24"));
	assert_non_null(strstr(plait_comm_error(f->c), "of 48"));
	assert_non_null(strstr(plait_comm_error(f->c), "on rank 2"));
	assert_non_null(strstr(plait_comm_error(f->c), "times of GEMMs are the same"));
	other_facts = true;
	assert_int_equal(plait_schedule_agree(f->sched, f->plan), PLAIT_MISMATCH);
	assert_non_null(strstr(plait_comm_error(f->c), "other tiles or times of GEMMs"));
	other_facts = false;
	f->c->boot = own;
	f->c->processes = 1;
}

static int refuses(void *ctx, const struct plait_tensor *t, struct plait_operand *at)
{
	return strcmp(t->name, "u") ? tensor(ctx, t, at) : 3;
}

static void a_tensor_that_is_not_there_is_named(void **state)
{
	struct fixture *f = *state;

	make_stage(f);
	make_memory(f);
	make_planner(f);
	f->o.tensor = refuses;
	assert_int_equal(plait_schedule_create(f->s, f->planner, &f->o, &f->sched), PLAIT_ENV);
	assert_non_null(strstr(plait_comm_error(f->c), "tensor 'u'"));
}

static int leaves_out(void *ctx, const struct plait_tensor *t, struct plait_operand *at)
{
	(void)ctx;
	(void)t;
	(void)at;
	return 0;
}

/* A kernel of that name with other rows would read and write beyond what it is given. */
static void a_planner_of_another_spec_than_the_stages_is_refused(void **state)
{
	static const char *const other[][2] = {{"hidden = 256", "hidden = 128"}, {"bf16", "f16"}};
	struct fixture *f = *state;

	make_stage(f);
	f->o.tensor = leaves_out;
	for (unsigned i = 0; i < 2; i++) {
		struct strbuf b;

		strbuf_init(&b, &f->arena);
		for (const char *s = spec; *s;) {
			bool is = !strncmp(s, other[i][0], strlen(other[i][0]));

			strbuf_printf(&b, "%.*s", is ? 99 : 1, is ? other[i][1] : s);
			s += is ? strlen(other[i][0]) : 1;
		}
		make_planner_of(f, b.s);
		assert_int_equal(plait_schedule_create(f->s, f->planner, &f->o, &f->sched),
		                 PLAIT_USAGE);
		assert_non_null(strstr(plait_comm_error(f->c),
		                       i ? "is f16[256] in the planner's spec, and in the stage's "
		                           "'x', bf16[256]"
		                         : "is bf16[128] in the planner's spec"));
		assert_null(f->sched);
		plait_planner_free(f->planner);
		f->planner = NULL;
	}
}

/* What a callback's own calls leave in the message is not the schedule's. */
static int calls_what_is_refused(void *ctx, const struct plait_operation *op)
{
	struct fixture *f = ctx;

	assert_int_equal(plait_launch(f->s, NULL), PLAIT_USAGE);
	return op->warm ? 0 : f->refused;
}

static void a_callbacks_own_failures_do_not_hide_the_schedules(void **state)
{
	struct fixture *f = *state;

	make_stage(f);
	make_memory(f);
	f->o.operation = calls_what_is_refused;
	schedule(f, PLAIT_RUN_SPLIT, 24);
	good(f, plait_schedule_warm(f->sched, plan_of(f, 64), NULL, f->stream));
	f->refused = 0;
	good(f, plait_schedule_run(f->sched, f->plan, NULL, f->stream));
	f->refused = 5;
	assert_int_equal(plait_schedule_run(f->sched, f->plan, NULL, f->stream), PLAIT_ENV);
	/* why is what it said itself, behind where */
	assert_non_null(strstr(plait_comm_error(f->c), "turn 0, part 0"));
	assert_non_null(strstr(plait_comm_error(f->c), "no struct plait_launch is given"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(two_parts_of_own_rows_are_the_whole),
	        TEST(and_where_all_rows_are_on_every_rank),
	        TEST(and_of_four_ranks_whose_protocol_depends_on_T),
	        TEST(unfused_plans_run_with_an_all_reduce_of_the_callers),
	        TEST(and_with_NCCL),
	        TEST(each_part_waits_for_its_own_collective_and_not_for_the_other),
	        TEST(running_allocates_loads_and_waits_for_nothing),
	        TEST(a_request_that_is_cut_is_in_both_parts),
	        TEST(a_callback_that_fails_is_named_and_nothing_hangs),
	        TEST(after_any_failure_the_streams_are_joined),
	        TEST(a_failure_of_any_call_of_creation_unwinds),
	        TEST(what_does_not_fit_is_refused),
	        TEST(ranks_with_different_plans_are_named),
	        TEST(a_tensor_that_is_not_there_is_named),
	        TEST(a_planner_of_another_spec_than_the_stages_is_refused),
	        TEST(a_callbacks_own_failures_do_not_hide_the_schedules),
	};

	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
