/*
 * plait_workspace_check on a GPU whose copies are late, never come, or come after a reset; beside
 * captures and launches of other threads.  The driver is not there (tests/fake), so a record is
 * written where a kernel would write it.
 */
#include "tests/unit/unit.h"
#include "runtime/stage.h"
#include "tests/fake/fake.h"
#include <pthread.h>

enum { GPUS = 2 };

static const char spec[] = "kernel sum(x: bf16[T, 64] partial) -> y: bf16[T, 64] replicated\n"
                           "{\n"
                           "    out y = all_reduce(x);\n"
                           "}\n";

static plait_comm *comm;
static plait_stage *stage;
static plait_workspace *work;

static const char *no_variable(void *ctx, const char *name)
{
	(void)ctx;
	(void)name;
	return NULL;
}

static int set_up(void **state)
{
	struct plait_comm_options co = PLAIT_COMM_OPTIONS_INIT;
	struct plait_stage_options o = PLAIT_STAGE_OPTIONS_INIT;
	struct rt_hooks h = {.drv = &fake_driver, .env = no_variable};

	(void)state;
	fake_reset(GPUS);
	co.at_most = PLAIT_BY_PEER;
	co.setup_timeout_ns = 2000000000;
	o.compile.text = spec;
	o.compile.text_len = sizeof spec - 1;
	o.compile.protocol = "push";
	o.max_rows = 64;
	o.cache_dir = "";
	return rt_comm_create(&co, &h, &comm) || plait_stage_create(comm, &o, &stage) ||
	       plait_workspace_create(stage, &work);
}

static int tear_down(void **state)
{
	(void)state;
	plait_workspace_free(work);
	plait_stage_free(stage);
	plait_comm_free(comm);
	if (fake.wrong)
		print_message("# %s\n", fake.what_wrong);
	return fake_alive() || fake.wrong;
}

/* As a kernel does that has waited in vain for rank 1. */
static void abort_on(unsigned rank)
{
	struct cg_workspace *w =
	        (struct cg_workspace *)(uintptr_t)plait_buffer_address(work->buffer, rank);

	w->record = (struct cg_ws_record){.kind = CG_WS_TIMEOUT, .rank = rank, .peer = 1};
	w->abort = 1;
}

static void a_rank_that_is_not_there_is_said_to_be_so(void **state)
{
	(void)state;
	assert_int_equal(plait_workspace_check(NULL, 0, NULL), PLAIT_USAGE);
	assert_int_equal(plait_workspace_check(work, GPUS, NULL), PLAIT_USAGE);
	assert_string_equal(plait_comm_error(comm), "'local' is 2, and this process has 2 ranks");
	assert_int_equal(plait_workspace_check(work, UINT32_MAX, NULL), PLAIT_USAGE);
}

/* 700: an illegal address; 719: a launch that failed. */
static void a_gpu_with_an_error_is_told_at_every_call(void **state)
{
	static const int errors[] = {700, 719, 2};
	struct plait_record r = PLAIT_RECORD_INIT;

	(void)state;
	fake.sticky = errors[0];
	for (unsigned k = 0; k < GPUS; k++)
		assert_int_equal(plait_workspace_check(work, k, &r),
		                 PLAIT_OK); /* as far as is known */
	for (unsigned i = 0; i < 6; i++) {
		fake.sticky = errors[i / 2];
		assert_int_equal(plait_workspace_check(work, i % 2, &r),
		                 fake.sticky == 2 ? PLAIT_NOMEM : PLAIT_ENV);
		assert_non_null(strstr(plait_comm_error(comm), "cuStreamQuery"));
		assert_non_null(strstr(plait_comm_error(comm), i % 2 ? "rank 1" : "rank 0"));
	}
	fake.sticky = 0;
}

static void a_copy_that_is_late_is_waited_for_at_a_later_call(void **state)
{
	struct plait_record r = PLAIT_RECORD_INIT;

	(void)state;
	abort_on(0);
	fake.hold = 4;
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(plait_workspace_check(work, 0, &r), PLAIT_OK);
	/* the fourth query, of the fifth call, lets it come */
	plait_workspace_check(work, 0, &r);
	assert_int_equal(plait_workspace_check(work, 0, &r), PLAIT_TIMEOUT);
	assert_string_equal(r.what, "time-out");
	assert_int_equal(r.peer, 1);
	assert_string_equal(plait_comm_error(comm), r.text);
	assert_int_equal(plait_workspace_check(work, 1, &r), PLAIT_OK);
}

static void a_record_of_before_a_reset_does_not_count_after_it(void **state)
{
	(void)state;
	abort_on(0);
	fake.hold = 3;
	assert_int_equal(plait_workspace_check(work, 0, NULL), PLAIT_OK);
	assert_int_equal(plait_workspace_reset(work), PLAIT_OK);
	assert_int_equal(plait_workspace_check(work, 0, NULL), PLAIT_OK);
	assert_int_equal(plait_workspace_check(work, 0, NULL), PLAIT_OK);
}

static void a_capture_is_not_disturbed_and_the_threads_mode_stays(void **state)
{
	int mode = RT_CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

	(void)state;
	fake_driver.thread_capture_mode(&mode);
	fake.capturing = true;
	fake.hold = 2;
	assert_int_equal(plait_workspace_check(work, 0, NULL), PLAIT_OK);
	assert_int_equal(plait_workspace_check(work, 0, NULL), PLAIT_OK);
	fake.sticky = 700;
	assert_int_equal(plait_workspace_check(work, 1, NULL), PLAIT_OK);
	assert_int_equal(plait_workspace_check(work, 1, NULL), PLAIT_ENV);
	fake.sticky = 0;
	fake.capturing = false;
	assert_int_equal(fake.wrong, 0);
	mode = RT_CU_STREAM_CAPTURE_MODE_GLOBAL;
	fake_driver.thread_capture_mode(&mode);
	assert_int_equal(mode, RT_CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

/* Launches that are refused and checks that find an abort, which all write messages. */
static void *launch_and_check(void *p)
{
	unsigned local = (unsigned)(uintptr_t)p;
	struct plait_record r = PLAIT_RECORD_INIT;
	struct plait_launch l = PLAIT_LAUNCH_INIT;
	uintptr_t wrong = 0;

	for (unsigned i = 0; i < 300; i++) {
		l.local = local;
		l.workspace = work;
		l.rows = 1000;
		wrong += plait_launch(stage, &l) != PLAIT_USAGE;
		wrong += plait_workspace_check(work, local, &r) != PLAIT_TIMEOUT;
		wrong += r.rank != local || !strstr(r.text, local ? "rank 1, CTA" : "rank 0, CTA");
		if (i == 0)
			wrong += plait_workspace_check(work, 9, &r) != PLAIT_USAGE;
	}
	return (void *)wrong;
}

static void ranks_may_be_launched_and_checked_by_threads_of_their_own(void **state)
{
	pthread_t t[GPUS];
	void *wrong;

	(void)state;
	for (unsigned i = 0; i < GPUS; i++)
		abort_on(i);
	for (uintptr_t i = 0; i < GPUS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, launch_and_check, (void *)i), 0);
	for (unsigned i = 0; i < GPUS; i++) {
		assert_int_equal(pthread_join(t[i], &wrong), 0);
		assert_null(wrong);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	setenv("PLAIT_JIT", "driver", 1);
	const struct CMUnitTest tests[] = {
	        TEST(a_rank_that_is_not_there_is_said_to_be_so),
	        TEST(a_gpu_with_an_error_is_told_at_every_call),
	        TEST(a_copy_that_is_late_is_waited_for_at_a_later_call),
	        TEST(a_record_of_before_a_reset_does_not_count_after_it),
	        TEST(a_capture_is_not_disturbed_and_the_threads_mode_stays),
	        TEST(ranks_may_be_launched_and_checked_by_threads_of_their_own),
	};

	return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
