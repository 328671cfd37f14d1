/*
 * Measuring a machine whose times are known: the fake driver's streams have clocks, on which GEMMs and
 * collectives take what a planted machine says.  Ranks are threads.
 */
#include "runtime/measure.h"
#include "planner/gemm.h"
#include "tests/fake/ranks.h"
#include "tests/unit/folder.h"
#include "tests/unit/unit.h"
#include "tools/facts.h"
#include "tools/pipeline.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static const char spec[] =
        "const hidden = 1024, ffn = 4096, layers = 2;\n"
        "kernel add_norm(x: bf16[T, hidden] partial, inout residual: bf16[T, hidden] carried,\n"
        "                gamma: bf16[hidden]) -> y: bf16[T, hidden] replicated\n"
        "{\n"
        "    h = all_reduce(x) + residual;\n"
        "    out residual = h;\n"
        "    out y = rmsnorm(h, gamma, eps = 1e-5);\n"
        "}\n"
        "model small {\n"
        "    input e: bf16[T, hidden] partial;\n"
        "    state residual: bf16[T, hidden] carried;\n"
        "    weight g[2 * layers + 1]: bf16[hidden];\n"
        "    weight w_up[layers]: bf16[hidden, ffn] columns;\n"
        "    weight w_down[layers]: bf16[ffn, hidden] rows;\n"
        "    y = add_norm(e, residual, g[0]);\n"
        "    repeat i in 0..layers {\n"
        "        u = gemm(y, w_up[i]);\n"
        "        s = opaque act(u) -> bf16[T, ffn] columns cost elementwise();\n"
        "        d = gemm(s, w_down[i]);\n"
        "        y = add_norm(d, residual, g[2 * i + 2]);\n"
        "    }\n"
        "    output y;\n"
        "}\n";

enum { PROCESSES = 2, ROWS = 4096 };

/* What the test plants and what came out, by process. */
static struct job {
	struct pl_options truth;
	const char *cache;   /* "": none */
	unsigned odd;        /* the process that is as follows; the others are as usual */
	int fail_at;         /* its call of the driver from the measurement on */
	int gemm_fails_at;   /* and of its GEMMs */
	bool layout, untold; /* weights are [k, n]; no version of the GEMMs is told */
	bool again, hangs, no_gemm;
	unsigned limit_ms, gemm_ms; /* of all: GEMMs take the host so long */
	uint64_t max_rows;
	double base_eff; /* of odd's planner; 0: as usual */

	enum plait_status got[PROCESSES];
	char error[PROCESSES][1000];
	struct plait_machine machine[PROCESSES];
	struct plait_measured info[PROCESSES];
	unsigned gemms[PROCESSES];
	int calls;
} * job;

/* Of the thread. */
static _Thread_local struct {
	unsigned process;
	plait_stage *stage;
	struct cu_stream *collective; /* that ran last */
	unsigned ctas;
} me;

static const char *no_variable(void *ctx, const char *name)
{
	(void)ctx;
	(void)name;
	return NULL;
}

/* ---- the planted machine ---- */

static uint32_t rows_of(void **extra)
{
	const struct rt_kernel *k = me.stage->image.variant[0].k;
	uint32_t rows = 0;

	for (uint32_t i = 0; i < k->info.narg; i++)
		if (k->arg[i].kind == PLAIT_ARG_ROWS)
			memcpy(&rows, (const unsigned char *)extra[1] + k->arg[i].offset, 4);
	return rows;
}

static void launched(const struct cu_launch *l, void **extra)
{
	const struct pl_comm *c = &job->truth.machine.fused;

	if (!me.stage)
		return;
	me.collective = l->stream;
	me.ctas = l->grid[0];
	*fake_clock(l->stream) += pl_comm_us(c, (double)rows_of(extra) * 1024 * 2, l->grid[0]);
}

/* A GEMM beside the collective that was launched before it. */
static int gemm(void *ctx, const struct plait_gemm_call *call)
{
	const struct pl_machine *m = &job->truth.machine;
	double *now = fake_clock((struct cu_stream *)call->stream), until = 0;
	struct pl_op op = {.kind = PL_GEMM,
	                   .name = "g",
	                   .share = 1,
	                   .n = call->n,
	                   .k = call->k,
	                   .x_bits = 16,
	                   .w_bits = 16,
	                   .out_bits = 16};
	struct pl_gemm g;

	(void)ctx;
	job->gemms[me.process]++;
	usleep(job->gemm_ms * 1000);
	fake.hang = job->hangs;
	assert_true(call->x % 256 == 0 && call->w % 256 == 0 && call->out % 256 == 0);
	if (me.process == job->odd && (int)job->gemms[me.process] == job->gemm_fails_at)
		return 5;
	if (me.collective)
		until = *fake_clock(me.collective) - *now;
	pl_gemm_choose(&job->truth, &op, call->m, call->sm_target, &g);
	*now += pl_gemm_finish(m, &g.run, m->launch_us, until, me.ctas);
	return 0;
}

static struct pl_options planted(void)
{
	struct pl_options o = {.hysteresis = -1};

	assert_true(pl_machine_find("h200", PROCESSES, false, &o.machine));
	/* so slow that GEMMs of this size wait for no memory */
	o.machine.gemm_eff *= 0.1;
	o.machine.gamma = 0.17;
	o.machine.persistent = false;
	o.machine.nrate = 1; /* the other is as fast as before */
	o.machine.rate[0] = (struct pl_rate){1024, 4096 / PROCESSES, 1.3};
	for (unsigned i = 0; i < o.machine.fused.n; i++) {
		o.machine.fused.alpha[i] = 5;
		o.machine.fused.gbs[i] *= 0.02;
	}
	return o;
}

/* ---- a rank ---- */

static plait_planner *make_planner(bool odd)
{
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
	struct plait_machine base = PLAIT_MACHINE_INIT;
	plait_planner *p;

	o.text = spec;
	o.text_len = strlen(spec);
	o.tp = PROCESSES;
	if (plait_machine_get("h200", PROCESSES, false, &base) != PLAIT_OK)
		return NULL;
	if (odd && job->base_eff > 0)
		base.gemm_eff = job->base_eff;
	o.machine = &base;
	return plait_planner_make(&o, &p) == PLAIT_OK ? p : NULL;
}

static void measure(struct ranks_thread *t, plait_comm *c, plait_stage *s, plait_planner *p)
{
	struct plait_measure_options o = PLAIT_MEASURE_OPTIONS_INIT;
	bool odd = t->process == job->odd;

	o.gemm = job->no_gemm ? NULL : gemm;
	o.gemm_version = job->untold ? NULL : "planted";
	o.w_is_k_by_n = odd && job->layout;
	o.cache_dir = job->cache ? job->cache : "";
	o.again = job->again;
	o.limit_ms = job->limit_ms ? job->limit_ms : 60000;
	me.stage = s;
	if (odd)
		fake_thread = (struct fake_thread){.fail_at = job->fail_at};
	job->machine[t->process] = (struct plait_machine)PLAIT_MACHINE_INIT;
	job->info[t->process] = (struct plait_measured)PLAIT_MEASURED_INIT;
	job->got[t->process] =
	        plait_machine_measure(s, p, &o, &job->machine[t->process], &job->info[t->process]);
	if (odd)
		job->calls = fake_thread.calls;
	fake_thread = (struct fake_thread){0};
	me.stage = NULL;
	snprintf(job->error[t->process], sizeof job->error[0], "%s", plait_comm_error(c));
}

static void rank(struct ranks_thread *t)
{
	struct plait_comm_options co = PLAIT_COMM_OPTIONS_INIT;
	struct plait_stage_options o = PLAIT_STAGE_OPTIONS_INIT;
	struct rt_hooks h = {.drv = &fake_driver, .env = no_variable};
	plait_comm *c;
	plait_stage *s = NULL;
	plait_planner *p = make_planner(t->process == job->odd);
	int device = (int)t->process;

	memset(&me, 0, sizeof me);
	me.process = t->process;
	fake_thread = (struct fake_thread){0};
	co.bootstrap = PLAIT_BOOT_ALLGATHER;
	co.process = t->process;
	co.processes = co.size = t->processes;
	co.allgather = ranks_gather;
	co.allgather_ctx = t;
	co.device = &device;
	co.at_most = PLAIT_BY_PEER;
	co.setup_timeout_ns = job->hangs ? 300000000 : 0;
	job->got[t->process] = PLAIT_INTERNAL;
	o.compile.text = spec;
	o.compile.text_len = strlen(spec);
	o.compile.protocol = "p2p-twoshot";
	o.max_rows = job->max_rows ? job->max_rows : ROWS;
	o.cache_dir = "";
	if (rt_comm_create(&co, &h, &c) == PLAIT_OK && p &&
	    plait_stage_create(c, &o, &s) == PLAIT_OK)
		measure(t, c, s, p);
	plait_stage_free(s);
	plait_comm_free(c);
	plait_planner_free(p);
}

static void run(struct job *j)
{
	fake_reset(PROCESSES);
	fake.launched = launched;
	job = j;
	memset(j->gemms, 0, sizeof j->gemms);
	ranks_run(PROCESSES, rank, NULL);
	assert_int_equal(fake_alive(), 0);
	assert_int_equal(fake.wrong, 0);
}

static struct job usual(void)
{
	return (struct job){.truth = planted(), .odd = PROCESSES - 1};
}

static void expect(struct job *j, enum plait_status want, const char *said)
{
	run(j);
	for (unsigned p = 0; p < PROCESSES; p++)
		if (j->got[p] != want || !strstr(j->error[p], said))
			fail_msg("process %u: %d, not %d: '%s' has not '%s'", p, (int)j->got[p],
			         (int)want, j->error[p], said);
}

/* ---- tests ---- */

static void about(double x, double want, double part)
{
	if (!(fabs(x - want) <= part * want))
		fail_msg("%g, and not %g", x, want);
}

static void what_was_planted_is_found_and_is_the_same_on_all_ranks(void **state)
{
	struct job j = usual();
	const struct plait_machine *m = &j.machine[0];
	const struct pl_machine *t = &j.truth.machine;

	(void)state;
	expect(&j, PLAIT_OK, "");
	assert_memory_equal(&j.machine[0], &j.machine[1], sizeof j.machine[0]);
	assert_memory_equal(j.info[0].pair, j.info[1].pair, sizeof j.info[0].pair);
	assert_false(j.info[0].partial || j.info[0].cached);
	assert_true(j.info[0].npair > 10 && j.gemms[0] > 100);
	assert_string_equal(m->name, "h200 measured");
	assert_int_equal(m->sms, 132);
	assert_false(m->persistent);
	about(m->gamma, 0.17, 0.01);
	assert_true(m->join_us < 0.1);
	/* both GEMMs' own rates, whatever of them is in gemm_eff */
	assert_int_equal(m->nrate, 2);
	for (unsigned i = 0; i < 2; i++)
		about(m->gemm_eff / m->rate[i].rate, t->gemm_eff / (m->rate[i].n == 1024 ? 1.3 : 1),
		      0.01);
	assert_int_equal(m->nfused, 6);
	assert_int_equal(m->nbeside, 6);
	for (unsigned i = 0; i < m->nfused; i++) {
		double us = pl_comm_us(&t->fused, 1e6, m->fused[i].ctas);

		about(m->fused[i].alpha_us + 1e6 / (m->fused[i].gbs * 1e3), us, 0.01);
		about(m->beside[i].alpha_us + 1e6 / (m->beside[i].gbs * 1e3), us, 0.01);
	}
	for (unsigned i = 0; i < j.info[0].npair; i++)
		about(j.info[0].pair[i].predicted_us, j.info[0].pair[i].both_us, 0.03);
	/* what was not measured is the base's */
	about(m->attention_eff, t->attention_eff, 1e-9);
	assert_true(m->npush && m->nplain);
}

/* The same collective may take longer beside a GEMM: both tables are there, and plans know which. */
static void beside_a_gemm_a_collective_may_be_slower(void **state)
{
	struct pl_options o = planted();
	struct pl_op op = {.kind = PL_GEMM,
	                   .name = "g",
	                   .share = 1,
	                   .n = 8192,
	                   .k = 8192,
	                   .x_bits = 16,
	                   .w_bits = 16,
	                   .out_bits = 16};
	struct rt_measured m = {.rows = {256, 1024},
	                        .kernel_rows = {256, 1024},
	                        .message = 16384,
	                        .sms = 132,
	                        .nshape = 1,
	                        .shape = {{&op, "bf16"}},
	                        .ngrid = 1,
	                        .ctas = {8},
	                        .collective = {{30, 90}},
	                        .target = {400},
	                        .pair = {{{430, 40, 435}, {460, 130, 470}}}};
	struct pl_machine to;

	(void)state;
	rt_measure_fit(&m, &o, &to);
	assert_true(to.fused.n == 1 && to.beside.n == 1);
	about(pl_comm_us(&to.fused, 16384.0 * 1024, 8), 90, 1e-3);
	about(pl_comm_us(&to.beside, 16384.0 * 1024, 8), 130, 1e-3);
	about(pl_comm_us(pl_comm_beside(&to), 16384.0 * 256, 8), 40, 1e-3);
	about(to.join_us, 7.5, 1e-9); /* between 5 and 10 */
	/* of both pairs the second's counts: the first's collective is too short to tell */
	about(to.gamma, 60.0 / 68, 1e-4);
	/* nothing measured: nothing changed, but for the SMs */
	memset(m.collective, 0, sizeof m.collective);
	memset(m.pair, 0, sizeof m.pair);
	rt_measure_fit(&m, &o, &to);
	assert_true(to.beside.n == 0 && to.fused.n == o.machine.fused.n);
	about(to.gamma, 0.17, 1e-9);
	assert_false(to.persistent);
}

static void ctas_that_wait_are_found_too(void **state)
{
	struct job j = usual();

	(void)state;
	j.truth.machine.persistent = true;
	expect(&j, PLAIT_OK, "");
	assert_true(j.machine[0].persistent);
	about(j.machine[0].gamma, 0.17, 0.01);
}

static const char *folder(char dir[64])
{
	snprintf(dir, 64, "/tmp/plait-measure-XXXXXX");
	assert_non_null(mkdtemp(dir));
	return dir;
}

static void it_is_kept_until_something_differs(void **state)
{
	char dir[64];
	struct job j = usual(), k;

	(void)state;
	j.cache = folder(dir);
	expect(&j, PLAIT_OK, "");
	k = j;
	expect(&k, PLAIT_OK, "");
	assert_int_equal(k.gemms[0] + k.gemms[1], 0);
	assert_true(k.info[0].cached && k.info[1].cached);
	assert_memory_equal(&j.machine[0], &k.machine[1], sizeof j.machine[0]);
	k.again = true;
	expect(&k, PLAIT_OK, "");
	assert_true(k.gemms[0] > 0);
	k = j; /* another model size is another question */
	k.max_rows = 2 * ROWS;
	expect(&k, PLAIT_OK, "");
	assert_true(k.gemms[0] > 0);
	k = j; /* what the engine has of GEMMs is not known */
	k.untold = true;
	expect(&k, PLAIT_OK, "");
	expect(&k, PLAIT_OK, "");
	assert_true(k.gemms[0] > 0);
	remove_folder(dir);
}

/* Whatever happens to a file of the cache, the answer is measured again. */
static void a_cache_that_is_damaged_is_no_answer(void **state)
{
	static const off_t at[] = {3, 40, 70, 2000, -100, -1};
	char dir[64], name[400] = "";
	struct job j = usual(), k;
	DIR *d;

	(void)state;
	j.cache = folder(dir);
	expect(&j, PLAIT_OK, "");
	d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));)
		if (strlen(e->d_name) == 32)
			snprintf(name, sizeof name, "%s/%s", dir, e->d_name);
	closedir(d);
	assert_true(name[0]);
	for (unsigned i = 0; i < sizeof at / sizeof *at; i++) {
		FILE *f = fopen(name, "r+b");

		assert_non_null(f);
		fseek(f, at[i], at[i] < 0 ? SEEK_END : SEEK_SET);
		fputc(0x5a, f);
		fclose(f);
		k = j;
		expect(&k, PLAIT_OK, "");
		assert_true(k.gemms[0] > 0);
		assert_memory_equal(&j.machine[0], &k.machine[0], sizeof j.machine[0]);
	}
	assert_int_equal(truncate(name, 100), 0);
	k = j;
	expect(&k, PLAIT_OK, "");
	assert_true(k.gemms[0] > 0);
	remove_folder(dir);
}

static void ranks_that_ask_for_different_things_are_told(void **state)
{
	struct job j = usual();

	(void)state;
	j.layout = true;
	expect(&j, PLAIT_MISMATCH, "what plait_machine_measure is asked for");
	assert_int_equal(j.gemms[0] + j.gemms[1], 0);
	j = usual();
	j.base_eff = 0.5;
	expect(&j, PLAIT_MISMATCH, "what plait_machine_measure is asked for");
	j = usual();
	j.max_rows = 32;
	expect(&j, PLAIT_USAGE, "max_rows has to be at least 64");
}

static void a_gemm_that_fails_fails_on_all(void **state)
{
	static const int at[] = {1, 2, 9, 40, 100};

	(void)state;
	for (unsigned i = 0; i < sizeof at / sizeof *at; i++) {
		struct job j = usual();

		j.max_rows = 64;
		j.gemm_fails_at = at[i];
		expect(&j, PLAIT_ENV, "rank 1: a GEMM of ");
		assert_non_null(strstr(j.error[0], "the callback gave 5"));
	}
}

static void a_failure_of_any_call_on_one_rank_is_one_on_all(void **state)
{
	unsigned failed = 0;
	struct job j;
	int k = 1;

	(void)state;
	/* each call of the beginning, then some */
	for (; k < 8000; k += k < 120 ? 2 : 191) {
		j = usual();
		j.max_rows = 64; /* little to fill */
		j.fail_at = k;
		run(&j);
		assert_int_equal(j.got[0], j.got[1]);
		if (j.got[0] != PLAIT_OK && !strstr(j.error[0], "rank 1"))
			fail_msg("call %d: %s", k, j.error[0]);
		failed += j.got[0] != PLAIT_OK;
		if (j.calls < k)
			break;
	}
	assert_true(k < 8000 && failed > 60);
}

static void what_takes_too_long_is_left_to_the_base(void **state)
{
	struct job j = usual();

	(void)state;
	/* GEMMs are there, a collective takes minutes: it is tried once */
	for (unsigned i = 0; i < j.truth.machine.fused.n; i++)
		j.truth.machine.fused.gbs[i] *= 1e-6;
	expect(&j, PLAIT_OK, "");
	assert_true(j.info[0].partial && j.info[1].partial);
	assert_memory_equal(&j.machine[0], &j.machine[1], sizeof j.machine[0]);
	assert_int_equal(j.machine[0].nrate, 2);
	assert_int_equal(j.machine[0].nbeside, 0);
	assert_int_equal(j.info[0].npair, 0);
	about(j.machine[0].gamma, 0.06, 1e-9);
	assert_true(j.machine[0].nfused > 6);
	/* no time at all: one GEMM was tried */
	j = usual();
	j.limit_ms = 1;
	j.gemm_ms = 1;
	expect(&j, PLAIT_OK, "");
	assert_true(j.info[0].partial && j.info[1].partial);
	assert_memory_equal(&j.machine[0], &j.machine[1], sizeof j.machine[0]);
	assert_int_equal(j.machine[0].nrate, 0);
	assert_int_equal(j.gemms[0], 2);
}

static void a_gpu_that_does_not_end_is_given_up(void **state)
{
	struct job j = usual();

	(void)state;
	j.max_rows = 64;
	j.hangs = true;
	expect(&j, PLAIT_TIMEOUT, "the GPU did not finish");
}

/* What the program's --machine reads is what was measured, to the last bit. */
static void the_json_is_read_back_as_it_was(void **state)
{
	struct job j = usual();
	struct arena a;
	struct diags d;
	struct pl_machine want, got;
	char dir[64], path[100], *text;
	FILE *f;

	(void)state;
	expect(&j, PLAIT_OK, "");
	text = plait_machine_json(&j.machine[0], "h200");
	assert_non_null(text);
	snprintf(path, sizeof path, "%s/m.json", folder(dir));
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	plait_text_free(text);
	arena_init(&a, 0);
	assert_false(setjmp(a.oom));
	diags_init(&d, &a);
	assert_int_equal(machine_read(&a, &d, path, PROCESSES, false, &got), ST_OK);
	assert_true(rt_machine_in(&j.machine[0], PROCESSES, &want));
	assert_true(want.nrate == 2 && got.nrate == 2 && got.beside.n == 6);
	assert_memory_equal(want.rate, got.rate, sizeof want.rate);
	assert_memory_equal(&want.beside, &got.beside, sizeof want.beside);
	assert_memory_equal(&want.fused, &got.fused, sizeof want.fused);
	assert_memory_equal(&want.plain, &got.plain, sizeof want.plain);
	assert_memory_equal(&want.push, &got.push, sizeof want.push);
	assert_string_equal(want.name, got.name);
	assert_true(want.sms == got.sms && want.persistent == got.persistent);
	assert_memory_equal(&want.gamma, &got.gamma, sizeof want.gamma);
	assert_memory_equal(&want.join_us, &got.join_us, sizeof want.join_us);
	assert_memory_equal(&want.gemm_eff, &got.gemm_eff, sizeof want.gemm_eff);
	arena_free(&a);
	remove_folder(dir);
	/* and what is no machine has none */
	assert_null(plait_machine_json(&j.machine[0], "abacus"));
	assert_null(plait_machine_json(NULL, "h200"));
	j.machine[0].gamma = NAN;
	assert_null(plait_machine_json(&j.machine[0], "h200"));
}

static void arguments_that_make_no_sense_are_refused(void **state)
{
	struct job j = usual();

	(void)state;
	j.no_gemm = true;
	expect(&j, PLAIT_USAGE, "one of 'gemms' and 'gemm' has to be given");
	assert_int_equal(plait_machine_measure(NULL, NULL, NULL, NULL, NULL), PLAIT_USAGE);
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
	setenv("PLAIT_JIT", "driver", 1);
	const struct CMUnitTest tests[] = {
	        TEST(what_was_planted_is_found_and_is_the_same_on_all_ranks),
	        TEST(beside_a_gemm_a_collective_may_be_slower),
	        TEST(ctas_that_wait_are_found_too),
	        TEST(it_is_kept_until_something_differs),
	        TEST(a_cache_that_is_damaged_is_no_answer),
	        TEST(ranks_that_ask_for_different_things_are_told),
	        TEST(a_gemm_that_fails_fails_on_all),
	        TEST(a_failure_of_any_call_on_one_rank_is_one_on_all),
	        TEST(what_takes_too_long_is_left_to_the_base),
	        TEST(a_gpu_that_does_not_end_is_given_up),
	        TEST(the_json_is_read_back_as_it_was),
	        TEST(arguments_that_make_no_sense_are_refused),
	};

	return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
