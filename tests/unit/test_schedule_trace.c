/* Traced runs on simulated GPUs: the measured process beside the predicted one. */
#include "sim/internal.h"
#include "tests/unit/schedule_fixture.h"
#include <cjson/cJSON.h>

enum { MANY_LAYERS = 24, OP_NS = 4000 };

/* An operation that takes its time, on all ranks' clock. */
static bool spend(void *ctx, struct sim *s, unsigned rank)
{
	(void)ctx;
	(void)rank;
	s->ns += OP_NS;
	return true;
}

static int held_calls; /* operations that were enqueued while streams were held back */

static int timed_operation(void *ctx, const struct plait_operation *op)
{
	struct fixture *f = ctx;
	int r = operation(ctx, op);

	held_calls += atomic_load(&f->sched->held);
	if (!r && !op->warm)
		sim_driver_host((struct cu_stream *)op->stream, spend, NULL);
	return r;
}

static int set_up_timed(void **state)
{
	int r = set_up(state);
	struct fixture *f = *state;

	f->o.operation = timed_operation;
	f->o.unfused = true;
	f->o.all_reduce = all_reduce;
	held_calls = 0;
	return r;
}

/* ---- what is in a trace ---- */

static const char *text_of(const cJSON *e, const char *name)
{
	const cJSON *x = cJSON_GetObjectItem(e, name);

	if (!x || !x->valuestring)
		fail_msg("no %s in %s", name, cJSON_PrintUnformatted(e));
	return x->valuestring;
}

static double number_of(const cJSON *e, const char *name)
{
	const cJSON *x = cJSON_GetObjectItem(e, name);

	if (!x || !cJSON_IsNumber(x))
		fail_msg("no %s in %s", name, cJSON_PrintUnformatted(e));
	return x->valuedouble;
}

static const cJSON *args_of(const cJSON *e)
{
	return cJSON_GetObjectItem(e, "args");
}

/* The n-th slice of a process's lane, NULL: it has no more. */
static const cJSON *slice(const cJSON *doc, int pid, int tid, int n)
{
	const cJSON *e;

	cJSON_ArrayForEach(
	        e, cJSON_GetObjectItem(doc, "traceEvents")) if (*text_of(e, "ph") == 'X' &&
	                                                        (int)number_of(e, "pid") == pid &&
	                                                        (int)number_of(e, "tid") == tid &&
	                                                        n-- == 0) return e;
	return NULL;
}

static void near(double a, double b, double by)
{
	if (!(fabs(a - b) <= by))
		fail_msg("%g is not %g", a, b);
}

static double end_of(const cJSON *e)
{
	return number_of(e, "ts") + number_of(e, "dur");
}

/* One thing at a time in each lane of a process, and the slices are those that were predicted. */
static unsigned lanes_are_as_predicted(const cJSON *doc, int pid)
{
	unsigned n = 0;

	for (int tid = 0; tid < 2; tid++) {
		double end = -1;

		for (int i = 0;; i++) {
			const cJSON *x = slice(doc, pid, tid, i), *y = slice(doc, 0, tid, i);

			assert_int_equal(!x, !y);
			if (!x)
				break;
			assert_string_equal(text_of(x, "name"), text_of(y, "name"));
			assert_string_equal(text_of(x, "cat"), text_of(y, "cat"));
			assert_int_equal(number_of(args_of(x), "step"),
			                 number_of(args_of(y), "step"));
			assert_int_equal(number_of(args_of(x), "rows"),
			                 number_of(args_of(y), "rows"));
			assert_true(number_of(x, "dur") >= 0);
			assert_true(number_of(x, "ts") > end - 0.002); /* 3 digits */
			end = end_of(x);
			n++;
		}
	}
	return n;
}

/* Each arrow has two ends, in order of time, and no two have one number. */
static unsigned arrows_are_whole(const cJSON *doc)
{
	const cJSON *all = cJSON_GetObjectItem(doc, "traceEvents"), *from = NULL, *e;
	unsigned n = 0;

	cJSON_ArrayForEach(e, all)
	{
		if (*text_of(e, "ph") == 's') {
			assert_null(from);
			from = e;
			n++;
			assert_int_equal(number_of(e, "id"), n);
		} else if (*text_of(e, "ph") == 'f') {
			assert_non_null(from);
			assert_int_equal(number_of(e, "id"), n);
			assert_int_equal(number_of(e, "pid"), number_of(from, "pid"));
			assert_true(number_of(e, "tid") < 1 ? number_of(from, "tid") > 0
			                                    : number_of(from, "tid") < 1);
			assert_true(number_of(e, "ts") > number_of(from, "ts") - 0.002);
			from = NULL;
		}
	}
	return n;
}

static cJSON *trace_of(struct fixture *f, int64_t rows)
{
	char *json = NULL;
	cJSON *doc;

	fill(f, (uint64_t)rows);
	good(f, plait_schedule_trace(f->sched, plan_of(f, rows), NULL, f->stream, &json));
	assert_non_null(json);
	doc = cJSON_Parse(json);
	assert_non_null(doc);
	plait_text_free(json);
	return doc;
}

/* ---- tests ---- */

static void every_way_is_measured_as_it_was_predicted(void **state)
{
	struct fixture *f = *state;
	uint16_t *y = malloc(MOST * HIDDEN * 2);

	make_stage(f);
	make_memory(f);
	for (unsigned mode = PLAIT_RUN_UNFUSED; mode <= PLAIT_RUN_SPLIT; mode++) {
		const unsigned parts = mode == PLAIT_RUN_SPLIT ? 2 : 1;
		const unsigned slices = parts * (6 * LAYERS + 2 * LAYERS + 1);
		cJSON *doc;

		schedule(f, (enum plait_run_mode)mode, mode == PLAIT_RUN_SPLIT ? 24 : 0);
		doc = trace_of(f, 64);
		for (int pid = 0; pid <= (int)f->tp; pid++)
			assert_int_equal(lanes_are_as_predicted(doc, pid), slices);
		assert_null(slice(doc, (int)f->tp + 1, 0, 0));
		/* to a collective from each segment with compute, and from it to each behind it */
		assert_int_equal(arrows_are_whole(doc), (f->tp + 1) * parts * 4 * LAYERS);
		cJSON_Delete(doc);
		if (mode == PLAIT_RUN_REMOVED)
			continue;
		assert_int_equal(f->stale, 0);
		read_y(f, 0, 64, y);
		check(f, 64, y);
	}
	free(y);
}

/*
 * Clocks of a GPU that the test knows: on the caller's stream events are 10 us apart, on the schedule's
 * 25 us, and a rank's clock is ahead of the one before it by 7 us.
 */
static struct fixture *clocks_of;

static cu_result known_clock(float *ms, struct cu_event *from, struct cu_event *to)
{
	const struct sim_driver *d = clocks_of->d;
	const struct cu_stream *s = NULL;
	double us[2] = {0, 0};

	for (unsigned k = 0; k < 2; k++) {
		const struct cu_event *e = k ? to : from;
		unsigned before = 0;

		for (size_t i = 0; i < d->nlog; i++)
			if (d->log[i].what == SIM_DRIVER_RECORD && d->log[i].other == e)
				s = d->log[i].stream;
		for (size_t i = 0; i < d->nlog && d->log[i].other != e; i++)
			before += d->log[i].what == SIM_DRIVER_RECORD && d->log[i].stream == s;
		for (unsigned r = 0; r < clocks_of->tp; r++)
			if (s == clocks_of->sched->local[r].stream)
				us[k] = 25 * before + 7 * r;
			else if (s == (struct cu_stream *)clocks_of->stream[r])
				us[k] = 10 * before;
	}
	*ms = (float)(us[1] - us[0]) * 1e-3F;
	return 0;
}

/* What of a collective has compute beside it, by looking each quarter of a microsecond. */
static double beside(const cJSON *doc, int pid, const cJSON *x)
{
	double sum = 0;

	for (double at = number_of(x, "ts") + 0.125; at < end_of(x); at += 0.25)
		for (int i = 0; slice(doc, pid, 0, i); i++) {
			const cJSON *c = slice(doc, pid, 0, i);

			sum += at > number_of(c, "ts") && at < end_of(c) ? 0.25 : 0;
		}
	return sum;
}

static void times_are_those_of_the_gpu(void **state)
{
	struct fixture *f = *state;
	unsigned partly = 0;
	cJSON *doc;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	f->d->log = arena_news(&f->arena, struct sim_driver_entry, MOST_LOG);
	f->d->log_room = MOST_LOG;
	f->d->table.event_elapsed = known_clock;
	clocks_of = f;
	doc = trace_of(f, 32);
	for (int r = 1; r <= (int)f->tp; r++) {
		for (int i = 0; slice(doc, r, 0, i); i++)
			near(number_of(slice(doc, r, 0, i), "dur"), 10, 0.002);
		for (int i = 0; slice(doc, r, 1, i); i++) {
			const cJSON *x = slice(doc, r, 1, i);
			double out = number_of(args_of(x), "exposed_us");

			near(number_of(x, "dur"), 25, 0.002);
			near(out, 25 - beside(doc, r, x), 0.6);
			partly += out > 1 && out < 24;
			assert_true(number_of(args_of(x), "ctas") >= 1);
			assert_true(number_of(args_of(x), "GB/s") > 0);
		}
		/* ranks' clocks are laid together at the end of the first collective */
		near(end_of(slice(doc, r, 1, 0)), end_of(slice(doc, 1, 1, 0)), 0.003);
	}
	assert_true(partly > f->tp);
	cJSON_Delete(doc);
}

/* Nothing is beside a collective then. */
static void in_one_piece_all_of_a_collective_is_exposed(void **state)
{
	struct fixture *f = *state;
	const cJSON *x;
	cJSON *doc;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_FUSED, 0);
	doc = trace_of(f, 64);
	for (int i = 0; (x = slice(doc, 2, 1, i)); i++) {
		assert_true(number_of(x, "dur") > 0);
		near(number_of(args_of(x), "exposed_us"), number_of(x, "dur"), 0.002);
		assert_true(number_of(args_of(x), "ctas") >= 1);
	}
	for (int i = 0; (x = slice(doc, 2, 0, i)); i++)
		assert_true(number_of(x, "dur") >= OP_NS * 1e-3 - 0.002);
	cJSON_Delete(doc);
}

/* The streams are held until the host is ahead; a host that is far ahead would fill them. */
static void streams_are_held_until_the_host_is_ahead(void **state)
{
	struct fixture *f = *state;
	struct strbuf b;
	cJSON *doc;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	cJSON_Delete(trace_of(f, 32));
	assert_int_equal(held_calls, 2 * 6 * LAYERS * (int)f->tp);
	assert_false(atomic_load(&f->sched->held));

	plait_schedule_free(f->sched);
	plait_planner_free(f->planner);
	f->sched = NULL;
	f->planner = NULL;
	strbuf_init(&b, &f->arena);
	strbuf_printf(&b, "const hidden = 256, ffn = 128, layers = %d;%s", MANY_LAYERS,
	              strchr(spec, '\n'));
	make_planner_of(f, b.s);
	good(f, plait_schedule_create(f->s, f->planner, &f->o, &f->sched));
	held_calls = 0;
	doc = trace_of(f, 32);
	assert_true(held_calls > 100 * (int)f->tp && held_calls < 200 * (int)f->tp);
	for (int pid = 1; pid <= (int)f->tp; pid++)
		assert_int_equal(lanes_are_as_predicted(doc, pid), 2 * (8 * MANY_LAYERS + 1));
	cJSON_Delete(doc);
}

static void a_driver_that_cannot_hold_streams_will_do(void **state)
{
	struct fixture *f = *state;

	make_stage(f);
	make_memory(f);
	f->d->table.launch_host = NULL;
	schedule(f, PLAIT_RUN_SPLIT, 24);
	cJSON_Delete(trace_of(f, 32));
}

static void what_is_captured_is_not_traced(void **state)
{
	struct fixture *f = *state;
	char *json = (char *)(uintptr_t)1;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	f->d->capturing = true;
	assert_int_equal(plait_schedule_trace(f->sched, plan_of(f, 64), NULL, f->stream, &json),
	                 PLAIT_USAGE);
	assert_null(json);
	assert_non_null(strstr(plait_comm_error(f->c), "rank 0's stream is being captured"));
	assert_int_equal(f->calls, 0);
	f->d->capturing = false;
	assert_int_equal(plait_schedule_trace(f->sched, f->plan, NULL, f->stream, NULL),
	                 PLAIT_USAGE);
	assert_int_equal(plait_schedule_trace(NULL, f->plan, NULL, f->stream, &json), PLAIT_USAGE);
	assert_int_equal(
	        plait_schedule_trace(f->sched, plan_of(f, MOST + 8), NULL, f->stream, &json),
	        PLAIT_USAGE);
	assert_non_null(strstr(plait_comm_error(f->c), "168 rows"));
}

static void a_callback_that_fails_ends_a_trace(void **state)
{
	struct fixture *f = *state;
	char *json;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	for (int at = 1; at <= 2 * 2 * LAYERS * 6; at += 5) {
		fill(f, 64);
		f->calls = 0;
		f->fail_at = at;
		assert_int_equal(
		        plait_schedule_trace(f->sched, plan_of(f, 64), NULL, f->stream, &json),
		        PLAIT_ENV);
		assert_null(json);
		assert_non_null(strstr(plait_comm_error(f->c), "the callback gave 7"));
		assert_false(atomic_load(&f->sched->held));
		for (unsigned r = 0; r < f->tp; r++)
			good(f, plait_workspace_check(plait_schedule_workspace(f->sched), r, NULL));
	}
	f->fail_at = 0;
	cJSON_Delete(trace_of(f, 64));
}

static void a_failure_of_any_call_of_a_trace_unwinds(void **state)
{
	struct fixture *f = *state;
	unsigned live, n, failed = 0;
	const plait_plan *plan;
	char *json;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	plan = plan_of(f, 32);
	fill(f, 32);
	live = f->d->live;
	f->d->calls = 0;
	good(f, plait_schedule_trace(f->sched, plan, NULL, f->stream, &json));
	plait_text_free(json);
	n = f->d->calls;
	assert_int_equal(f->d->live, live);
	for (unsigned at = 1; at <= n; at += at < 8 ? 1 : 7) {
		f->d->calls = 0;
		f->d->fail_at = at;
		if (plait_schedule_trace(f->sched, plan, NULL, f->stream, &json) != PLAIT_OK) {
			failed++;
			assert_null(json);
			assert_non_null(strstr(plait_comm_error(f->c), "made up"));
		}
		plait_text_free(json);
		f->d->fail_at = 0;
		assert_int_equal(f->d->live, live);
		assert_false(atomic_load(&f->sched->held));
		run_sim(f);
		good(f, plait_workspace_reset(plait_schedule_workspace(f->sched)));
	}
	assert_true(failed > n / 9);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_timed, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(every_way_is_measured_as_it_was_predicted),
	        TEST(times_are_those_of_the_gpu),
	        TEST(in_one_piece_all_of_a_collective_is_exposed),
	        TEST(streams_are_held_until_the_host_is_ahead),
	        TEST(a_driver_that_cannot_hold_streams_will_do),
	        TEST(what_is_captured_is_not_traced),
	        TEST(a_callback_that_fails_ends_a_trace),
	        TEST(a_failure_of_any_call_of_a_trace_unwinds),
	};

	return cmocka_run_group_tests_name("schedule_trace", tests, NULL, NULL);
}
