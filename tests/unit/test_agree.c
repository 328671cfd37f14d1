/* Stages of several processes (threads of this one, on a driver that is not there): what differs is
 * named on all of them, and a failure of one is a failure of all. */
#include "tests/unit/unit.h"
#include "runtime/comm.h"
#include "tests/fake/ranks.h"
#include <stdio.h>

static const char spec[] = "const hidden = 64;\n"
                           "kernel sum(x: %s[T, hidden] partial) -> y: %s[T, hidden] replicated\n"
                           "{\n"
                           "    out y = all_reduce(x);\n"
                           "}\n";

struct job {
	/* of the process with the highest number; all others have the usual */
	const char *dtype, *hidden, *protocol, *order, *text;
	uint64_t max_rows, timeout_ns;
	bool dependent;
	bool resets;
	int fail_at; /* its call of the driver; 0: none */

	int calls;
	enum plait_status got[RANKS];
	char error[RANKS][1000];
	int alive;
};

static const char *no_variable(void *ctx, const char *name)
{
	(void)ctx;
	(void)name;
	return NULL;
}

static void rank(struct ranks_thread *t)
{
	struct job *j = t->ctx;
	bool odd = t->process == t->processes - 1;
	struct plait_comm_options co = PLAIT_COMM_OPTIONS_INIT;
	struct plait_stage_options o = PLAIT_STAGE_OPTIONS_INIT;
	struct rt_hooks h = {.drv = &fake_driver, .env = no_variable};
	struct plait_set set = {"hidden", odd && j->hidden ? j->hidden : "64"};
	char text[400];
	plait_comm *c;
	plait_stage *s = NULL;
	plait_workspace *w = NULL;
	int device = (int)t->process;

	fake_thread = (struct fake_thread){0};
	co.bootstrap = PLAIT_BOOT_ALLGATHER;
	co.process = t->process;
	co.processes = co.size = t->processes;
	co.allgather = ranks_gather;
	co.allgather_ctx = t;
	co.device = &device;
	co.at_most = PLAIT_BY_PEER;
	co.timeout_ns = odd && j->timeout_ns ? j->timeout_ns : 0;
	if (rt_comm_create(&co, &h, &c) == PLAIT_OK) {
		snprintf(text, sizeof text, spec, odd && j->dtype ? j->dtype : "bf16",
		         odd && j->dtype ? j->dtype : "bf16");
		o.compile.text = odd && j->text ? j->text : text;
		o.compile.text_len = strlen(o.compile.text);
		o.compile.protocol = odd && j->protocol ? j->protocol : "push";
		o.compile.order = odd ? j->order : NULL;
		o.compile.set = &set;
		o.compile.nset = odd && j->text ? 0 : 1;
		o.max_rows = odd && j->max_rows ? j->max_rows : 64;
		o.dependent_launch = odd && j->dependent;
		o.cache_dir = "";
		if (odd)
			fake_thread = (struct fake_thread){.fail_at = j->fail_at};
		j->got[t->process] = plait_stage_create(c, &o, &s);
		if (j->got[t->process] == PLAIT_OK)
			j->got[t->process] = plait_workspace_create(s, &w);
		if (j->got[t->process] == PLAIT_OK && j->resets)
			j->got[t->process] = plait_workspace_reset(w);
		if (odd)
			j->calls = fake_thread.calls;
		fake_thread = (struct fake_thread){0};
	} else {
		j->got[t->process] = PLAIT_INTERNAL;
	}
	snprintf(j->error[t->process], sizeof j->error[0], "%s", plait_comm_error(c));
	plait_workspace_free(w);
	plait_stage_free(s);
	plait_comm_free(c);
}

/* Four processes; the last differs, and all say so. */
static void expect(struct job j, enum plait_status want, const char *said)
{
	fake_reset(4);
	ranks_run(4, rank, &j);
	for (unsigned p = 0; p < 4; p++) {
		if (j.got[p] != want || !strstr(j.error[p], said))
			fail_msg("process %u: %d, not %d: '%s' has not '%s'", p, (int)j.got[p],
			         (int)want, j.error[p], said);
	}
	assert_int_equal(fake_alive(), 0);
	assert_int_equal(fake.wrong, 0);
}

static void each_field_that_differs_is_named_with_its_ranks(void **state)
{
	(void)state;
	expect((struct job){.hidden = "128"}, PLAIT_MISMATCH,
	       "rank 0 and rank 3 differ in kernel sum, hidden: 64, but 128");
	expect((struct job){.dtype = "f16"}, PLAIT_MISMATCH,
	       "rank 0 and rank 3 differ in kernel sum, dtype of x: bf16, but f16");
	expect((struct job){.max_rows = 63}, PLAIT_MISMATCH, "differ in max_rows: 64, but 63");
	expect((struct job){.dependent = true}, PLAIT_MISMATCH, "dependent_launch: 0, but 1");
	expect((struct job){.order = "hw"}, PLAIT_MISMATCH,
	       "kernel sum, memory order: formal, but hw");
	expect((struct job){.protocol = "p2p-twoshot"}, PLAIT_MISMATCH, "protocols by T:");
	expect((struct job){.timeout_ns = 77}, PLAIT_MISMATCH, "time-out in ns:");
	expect(
	        (struct job){
	                .text = "kernel sum(x: bf16[T, 64] partial) -> y: bf16[T, 64] replicated\n"
	                        "{\n    out y = all_reduce(x) * 2;\n}\n"},
	        PLAIT_MISMATCH, "kernel sum, push, co");
	expect(
	        (struct job){
	                .text = "kernel mul(x: bf16[T, 64] partial) -> y: bf16[T, 64] replicated\n"
	                        "{\n    out y = all_reduce(x);\n}\n"},
	        PLAIT_MISMATCH, "kernel 0: sum, but mul");
}

static void a_spec_that_is_wrong_on_one_rank_fails_all(void **state)
{
	(void)state;
	expect((struct job){.text = "kernel"}, PLAIT_INPUT, "rank 3");
	expect((struct job){.protocol = "pigeon"}, PLAIT_USAGE, "rank 3");
}

/* Loading, the workspace and its reset: where one process fails, all do, and nothing is left. */
static void a_failure_of_any_call_on_one_rank_is_one_on_all(void **state)
{
	unsigned failed = 0;

	(void)state;
	for (int k = 1; k < 400; k++) {
		struct job j = {.fail_at = k, .resets = true};

		fake_reset(3);
		ranks_run(3, rank, &j);
		assert_int_equal(fake_alive(), 0);
		assert_int_equal(fake.wrong, 0);
		for (unsigned p = 0; p < 3; p++) {
			assert_int_equal(j.got[p] != PLAIT_OK, j.got[0] != PLAIT_OK);
			if (j.got[p] != PLAIT_OK && !strstr(j.error[p], "rank 2"))
				fail_msg("call %d, process %u: %s", k, p, j.error[p]);
		}
		failed += j.got[0] != PLAIT_OK;
		if (j.calls < k)
			break;
	}
	assert_true(failed > 15);
}

int main(void)
{
	setenv("PLAIT_JIT", "driver", 1);
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(each_field_that_differs_is_named_with_its_ranks),
	        cmocka_unit_test(a_failure_of_any_call_on_one_rank_is_one_on_all),
	        cmocka_unit_test(a_spec_that_is_wrong_on_one_rank_fails_all),
	};

	return cmocka_run_group_tests_name("agree", tests, NULL, NULL);
}
