/*
 * Processes that find one another by a launcher's environment: forked children on a machine that is
 * not there (tests/fake), with memory passed between them.  And those that do not come, die, or are
 * strangers.
 */
#include "tests/unit/unit.h"
#include "runtime/comm.h"
#include "runtime/net.h"
#include "tests/fake/ranks.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- an environment of a process's own ---- */

struct env {
	char name[12][40], value[12][40];
	unsigned n;
};

static void put(struct env *e, const char *name, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	snprintf(e->name[e->n], sizeof e->name[0], "%s", name);
	vsnprintf(e->value[e->n++], sizeof e->value[0], fmt, ap);
	va_end(ap);
}

static const char *get(void *ctx, const char *name)
{
	const struct env *e = ctx;

	for (unsigned i = 0; i < e->n; i++)
		if (strcmp(e->name[i], name) == 0)
			return e->value[i];
	return NULL;
}

/* clang-format off */
static const char *const launchers[][4] = { /* rank, size, number on the host, size of the host */
	{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
	 "OMPI_COMM_WORLD_LOCAL_SIZE"},
	{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
	{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL},
};
/* clang-format on */

static unsigned a_port(void)
{
	static unsigned n;

	return 21000 + ((unsigned)getpid() * 97 + 40 * n++) % 10000;
}

static void launched(struct env *e, unsigned launcher, unsigned process, unsigned processes,
                     unsigned port)
{
	const char *const *l = launchers[launcher];

	e->n = 0;
	put(e, l[0], "%u", process);
	put(e, l[1], "%u", processes);
	put(e, l[2], "%u", process);
	if (l[3])
		put(e, l[3], "%u", processes);
	else
		put(e, "SLURM_NNODES", "1");
	put(e, "PLAIT_PORT", "%u", port);
}

/* ---- a child that makes a communicator and a buffer and looks at all of it ---- */

struct group {
	unsigned port, launcher;
	unsigned base, size, nlocal; /* as in the options */
	enum plait_transport at_most;
	uint64_t timeout_ns;
	int fail_process, fail_at;
	int dies;       /* the process that dies when it exports its memory; -1: none */
	int absent;     /* the process that never comes; -1: none */
	int twice;      /* the process that says it is process 0 or 1 as well; -1: none */
	unsigned hosts; /* that the processes are on; 0: this one */
	const struct rt_driver *drv;
};

static struct group a_group(void)
{
	return (struct group){.port = a_port(),
	                      .nlocal = 1,
	                      .timeout_ns = 8000000000u,
	                      .dies = -1,
	                      .absent = -1,
	                      .twice = -1,
	                      .drv = &fake_driver};
}

static struct plait_comm_options options(const struct group *g)
{
	struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;

	o.bootstrap = PLAIT_BOOT_ENV;
	o.base = g->base;
	o.size = g->size;
	o.nlocal = g->nlocal;
	o.at_most = g->at_most;
	o.setup_timeout_ns = g->timeout_ns;
	return o;
}

static bool look(plait_comm *c, plait_buffer *b, unsigned salt)
{
	for (unsigned l = 0; l < c->nlocal; l++)
		*(uint32_t *)(uintptr_t)plait_buffer_address(b, l) = salt + c->first + l;
	if (plait_comm_barrier(c) != PLAIT_OK)
		return false;
	for (unsigned l = 0; l < c->nlocal; l++)
		for (unsigned r = 0; r < c->size; r++) {
			plait_address a = plait_buffer_peer(b, l, r);

			if (c->transport != PLAIT_BY_NCCL &&
			    (!a || *(uint32_t *)(uintptr_t)a != salt + r))
				return false;
		}
	return plait_comm_barrier(c) == PLAIT_OK;
}

static cu_result die_at_export(void *os, cu_handle h, int type, unsigned long long flags)
{
	(void)os;
	(void)h;
	(void)type;
	(void)flags;
	_exit(9);
}

/*
 * 0: all is well; 100 + status: the communicator failed; 200 + status: the buffer did; 50...: a
 * leak
 */
static int member(struct ranks_child *child)
{
	const struct group *g = child->ctx;
	struct plait_comm_options o = options(g);
	struct rt_driver drv = *g->drv;
	struct env e;
	struct rt_hooks h = {&drv, &fake_nccl, get, &e};
	int fds = ranks_fds(), device[RANKS], r = 0;
	plait_comm *c;
	plait_buffer *b = NULL;
	unsigned process = child->process;

	if ((int)process == g->absent)
		return 0;
	if ((int)process == g->twice)
		process = 1;
	if ((int)process == g->dies)
		drv.vmm_export = die_at_export;
	launched(&e, g->launcher, process, child->processes, g->port);
	if (g->hosts)
		put(&e, "PLAIT_HOST_ID", "host %u", process % g->hosts);
	fake_thread =
	        (struct fake_thread){.fail_at = (int)process == g->fail_process ? g->fail_at : 0};
	for (unsigned l = 0; l < g->nlocal; l++)
		device[l] = (int)(process * g->nlocal + l);
	if (g->nlocal > 1)
		o.device = device;
	r = (int)rt_comm_create(&o, &h, &c);
	r = r ? 100 + r : 0;
	if (!r) {
		r = (int)plait_buffer_create(c, 3000, &b);
		r = r ? 200 + r : look(c, b, 7 * g->base + 1000) ? 0 : 99;
	}
	snprintf(child->say, 1000, "%.700s|%.50s|%.200s", r ? plait_comm_error(c) : c->why,
	         fake_thread.failed ? fake_thread.failed : "", fake.what_wrong);
	plait_buffer_free(b);
	plait_comm_free(c);
	if (fake_alive() || ranks_fds() != fds || fake.wrong)
		return 50;
	return r;
}

static void all_exit(const struct ranks_result *r, unsigned n, int status)
{
	for (unsigned i = 0; i < n; i++)
		if (r->exit[i] != status)
			fail_msg("process %u: exit %d, not %d: %s", i, r->exit[i], status,
			         r->said[i]);
}

static void says(const struct ranks_result *r, unsigned i, const char *part)
{
	if (!strstr(r->said[i], part))
		fail_msg("process %u: '%s' is not in: %s", i, part, r->said[i]);
}

/* ---- what works ---- */

static void each_launchers_processes_meet(void **state)
{
	(void)state;
	for (unsigned l = 0; l < sizeof launchers / sizeof *launchers; l++) {
		struct group g = a_group();
		struct ranks_result r;

		fake_reset(16);
		g.launcher = l;
		ranks_fork(2, 20, member, &g, &r);
		all_exit(&r, 2, 0);
		says(&r, 1, "multicast: the object was made on all ranks");
	}
}

static void processes_of_several_ranks_meet(void **state)
{
	static const unsigned shape[][2] = {{8, 1}, {4, 2}, {2, 4}, {3, 1}};

	(void)state;
	for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
		struct group g = a_group();
		struct ranks_result r;

		fake_reset(16);
		g.nlocal = shape[i][1];
		ranks_fork(shape[i][0], 30, member, &g, &r);
		all_exit(&r, shape[i][0], 0);
	}
}

/* By fabric handles where the GPUs have them, which are bytes; else by NCCL. */
static void processes_on_several_hosts_meet_by_a_fabric(void **state)
{
	struct group g = a_group();
	struct ranks_result r;

	(void)state;
	fake_reset(16);
	fake.fabric = true;
	g.hosts = 2;
	ranks_fork(4, 20, member, &g, &r);
	all_exit(&r, 4, 0);
	says(&r, 3, "multicast: the object was made on all ranks");
	fake.fabric = false;
	g.port = a_port();
	ranks_fork(4, 20, member, &g, &r);
	all_exit(&r, 4, 0);
	says(&r, 3, "peer: rank 0 and rank 1 are on different hosts");
	says(&r, 3, "NCCL: a communicator of all ranks was made");
}

static const uint64_t long_limits[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 1000000000,
                                       UINT64_MAX / 5 * 4 + 1, INT64_MAX};

/* Listening, seeking, gathering and passing descriptors. */
static void a_limit_near_the_largest_number_is_a_long_one(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof long_limits / sizeof *long_limits; i++) {
		struct group g = a_group();
		struct ranks_result r;

		fake_reset(4);
		g.timeout_ns = long_limits[i];
		ranks_fork(3, 20, member, &g, &r);
		all_exit(&r, 3, 0);
	}
}

static void deadlines_do_not_wrap(void **state)
{
	uint64_t now = rt_now_ns();

	(void)state;
	for (size_t i = 0; i < sizeof long_limits / sizeof *long_limits; i++) {
		assert_true(rt_later(now, long_limits[i]) >= long_limits[i]);
		assert_true(rt_deadline(long_limits[i]) > now);
		assert_true(rt_later(rt_deadline(long_limits[i]), long_limits[i]) > now);
		assert_int_equal(rt_poll_ms(rt_deadline(long_limits[i]), 200), 200);
	}
	assert_true(rt_later(UINT64_MAX, 1) == UINT64_MAX);
	assert_true(rt_later(UINT64_MAX - 1, 1) == UINT64_MAX);
	assert_true(rt_later(5, 7) == 12);
	assert_int_equal(rt_poll_ms(rt_deadline(0), 200), 0);
}

/* A communicator of all, and while it lives one of each half. */
static int in_two_groups(struct ranks_child *child)
{
	struct group g = *(struct group *)child->ctx;
	struct env e;
	struct rt_hooks h = {&fake_driver, &fake_nccl, get, &e};
	struct plait_comm_options o = options(&g);
	plait_comm *all, *half;
	plait_buffer *a = NULL, *b = NULL;
	bool ok;

	launched(&e, 0, child->process, child->processes, g.port);
	if (rt_comm_create(&o, &h, &all) != PLAIT_OK) {
		snprintf(child->say, 1000, "all: %s", plait_comm_error(all));
		return 1;
	}
	g.base = child->process < 2 ? 0 : 2;
	g.size = 2;
	o = options(&g);
	if (rt_comm_create(&o, &h, &half) != PLAIT_OK) {
		snprintf(child->say, 1000, "half: %s", plait_comm_error(half));
		return 2;
	}
	ok = half->first == child->process % 2 && half->size == 2 && all->size == 4 &&
	     plait_buffer_create(half, 1, &b) == PLAIT_OK &&
	     plait_buffer_create(all, 1, &a) == PLAIT_OK && look(all, a, 10) &&
	     look(half, b, 20 + g.base * 100);
	plait_buffer_free(a);
	plait_buffer_free(b);
	plait_comm_free(half);
	plait_comm_free(all);
	return ok && !fake_alive() ? 0 : 3;
}

static void groups_of_some_ranks_meet_beside_a_group_of_all(void **state)
{
	struct group g = a_group();
	struct ranks_result r;

	(void)state;
	fake_reset(4);
	ranks_fork(4, 30, in_two_groups, &g, &r);
	all_exit(&r, 4, 0);
}

/* ---- who does not come, or dies ---- */

static void a_process_that_does_not_come_is_named_by_all(void **state)
{
	struct group g = a_group();
	struct ranks_result r;
	uint64_t begin = rt_now_ns();

	(void)state;
	fake_reset(4);
	g.absent = 2;
	g.timeout_ns = 700000000;
	ranks_fork(4, 20, member, &g, &r);
	for (unsigned i = 0; i < 4; i++)
		if (i != 2) {
			assert_int_equal(r.exit[i], 100 + PLAIT_TIMEOUT);
			says(&r, i, "process 2 did not come within 0.7 s");
		}
	assert_true(rt_now_ns() - begin < 6000000000u);

	g = a_group();
	g.absent = 0;
	g.timeout_ns = 500000000;
	ranks_fork(2, 20, member, &g, &r);
	assert_int_equal(r.exit[1], 100 + PLAIT_TIMEOUT);
	says(&r, 1, "process 0 was not found within 0.5 s at 127.0.0.1");
}

static void a_process_that_dies_is_named_by_all(void **state)
{
	(void)state;
	for (int who = 0; who < 3; who++) {
		struct group g = a_group();
		struct ranks_result r;
		char part[40];

		fake_reset(4);
		g.dies = who;
		ranks_fork(3, 20, member, &g, &r);
		snprintf(part, sizeof part, "process %d has gone", who);
		for (int i = 0; i < 3; i++)
			if (i != who) {
				assert_int_equal(r.exit[i], 100 + PLAIT_ENV);
				says(&r, (unsigned)i, part);
			}
		assert_int_equal(r.exit[who], 9);
	}
}

static void two_that_say_they_are_the_same_are_told(void **state)
{
	struct group g = a_group();
	struct ranks_result r;
	unsigned told = 0;

	(void)state;
	fake_reset(4);
	g.twice = 2; /* says 1, so 2 is missing */
	g.timeout_ns = 1500000000;
	ranks_fork(3, 20, member, &g, &r);
	for (unsigned i = 1; i < 3; i++)
		told += strstr(r.said[i], "two processes say that they are process 1") != NULL;
	assert_int_equal(told, 1);
	says(&r, 0, "process 2 did not come");
}

static void who_is_not_of_the_group_is_refused_at_once(void **state)
{
	struct group g = a_group();
	struct ranks_result r;

	(void)state;
	fake_reset(4);
	g.base = 1;
	g.size = 2;
	ranks_fork(3, 20, member, &g, &r);
	assert_int_equal(r.exit[0], 100 + PLAIT_USAGE);
	says(&r, 0, "process 0 is not one of the group [1, 3)");
	assert_int_equal(r.exit[1], 0);
	assert_int_equal(r.exit[2], 0);
	g.size = 3;
	ranks_fork(3, 20, member, &g, &r);
	all_exit(&r, 3, 100 + PLAIT_USAGE);
	says(&r, 1, "[1, 4) is not within the 3 ranks that torchrun started");
	g.base = UINT32_MAX;
	ranks_fork(3, 20, member, &g, &r);
	all_exit(&r, 3, 100 + PLAIT_USAGE);
	says(&r, 1, "[4294967295, 4294967298) is not within the 3 ranks");
}

/* ---- a failure at each call of one process ---- */

static void a_failure_at_any_call_of_a_process_is_one_outcome(void **state)
{
	(void)state;
	for (int process = 0; process < 2; process++) {
		bool well = false;

		for (int n = 1; !well; n++) {
			struct group g = a_group();
			struct ranks_result r;

			fake_reset(4);
			g.fail_process = process;
			g.fail_at = n;
			ranks_fork(2, 30, member, &g, &r);
			if (r.exit[0] != r.exit[1] || r.exit[0] < 0 || r.exit[0] == 50 ||
			    r.exit[0] == 99)
				fail_msg("call %d of %d fails: exit %d (%s), exit %d (%s)", n,
				         process, r.exit[0], r.said[0], r.exit[1], r.said[1]);
			well = strstr(r.said[process], "||") != NULL;
			assert_true(!well || r.exit[0] == 0);
		}
	}
}

/* ---- strangers ---- */

struct strangers {
	unsigned port;
	int server, client[8];
	bool stop;
	pthread_t thread;
};

/*
 * At the first port: takes connections and answers nonsense.  At the second, where the group then
 * is: connects, is silent, or says nonsense.
 */
static void *pester(void *p)
{
	struct strangers *s = p;
	struct rt_error e = {0};
	struct addrinfo *a = rt_resolve("127.0.0.1", &e);
	char nonsense[64];

	memset(nonsense, 'x', sizeof nonsense);
	for (unsigned n = 0; !s->stop; n++) {
		int fd = accept(s->server, NULL, NULL), *c = &s->client[n % 8];

		if (fd >= 0) {
			send(fd, nonsense, sizeof nonsense, MSG_NOSIGNAL);
			close(fd);
		}
		if (*c >= 0)
			close(*c);
		*c = rt_connect(a, s->port + 1, rt_now_ns() + 10000000);
		if (*c >= 0 && n % 2)
			send(*c, nonsense, sizeof nonsense, MSG_NOSIGNAL);
		usleep(500);
	}
	freeaddrinfo(a);
	return NULL;
}

static void strangers_do_not_keep_a_group_apart(void **state)
{
	struct group g = a_group();
	struct strangers s = {.port = g.port};
	struct rt_error e = {0};
	struct addrinfo *a = rt_resolve("127.0.0.1", &e);
	struct ranks_result r;

	(void)state;
	fake_reset(4);
	memset(s.client, -1, sizeof s.client);
	s.server = rt_listen(a, s.port, 1);
	freeaddrinfo(a);
	assert_true(s.server >= 0);
	assert_int_equal(pthread_create(&s.thread, NULL, pester, &s), 0);
	ranks_fork(4, 30, member, &g, &r);
	s.stop = true;
	pthread_join(s.thread, NULL);
	close(s.server);
	for (unsigned i = 0; i < 8; i++)
		if (s.client[i] >= 0)
			close(s.client[i]);
	all_exit(&r, 4, 0);
}

static void a_greeting_with_a_wrong_magic_number_is_not_answered(void **state)
{
	struct group g = a_group();
	struct rt_error e = {0};
	struct addrinfo *a = rt_resolve("127.0.0.1", &e);
	uint64_t deadline = rt_now_ns() + 3000000000u;
	char hello[64], answer[24];
	pid_t pid;
	int fd = -1, status;

	(void)state;
	fake_reset(2);
	memset(hello, 0, sizeof hello);
	pid = fork();
	if (pid == 0) {
		static char say[1000];
		struct ranks_child c = {0, 2, say, &g};

		g.timeout_ns = 1000000000;
		_exit(member(&c));
	}
	while (fd < 0 && rt_now_ns() < deadline) {
		fd = rt_connect(a, g.port, deadline);
		usleep(1000);
	}
	assert_true(fd >= 0);
	assert_int_equal(rt_send_all(fd, hello, sizeof hello, deadline), RT_IO_DONE);
	assert_int_equal(rt_recv_all(fd, answer, sizeof answer, deadline), RT_IO_GONE);
	close(fd);
	freeaddrinfo(a);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 100 + PLAIT_TIMEOUT);
}

/* ---- the environment ---- */

static void an_environment_that_makes_no_sense_is_explained(void **state)
{
	/* clang-format off */
	static const struct {
		const char *name[4], *value[4], *part;
	} cases[] = {
		{{0}, {0}, "no launcher's variables are set"},
		{{"RANK"}, {"0"}, "of RANK and WORLD_SIZE only one is set"},
		{{"RANK", "WORLD_SIZE"}, {"2", "2"}, "RANK='2' is not a number below WORLD_SIZE=2"},
		{{"RANK", "WORLD_SIZE"}, {"-1", "2"}, "RANK='-1' is not a number"},
		{{"RANK", "WORLD_SIZE"}, {"0", "0"}, "WORLD_SIZE='0' is not a number of processes"},
		{{"RANK", "WORLD_SIZE"}, {"0", "99999999999999999999"}, "is not a number of processes"},
		{{"RANK", "WORLD_SIZE"}, {"0", "2"}, "MASTER_ADDR is not set"},
		{{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}, {"0", "2", "localhost", "70000"},
		 "MASTER_PORT='70000' is not a port"},
		{{"RANK", "WORLD_SIZE", "MASTER_ADDR", "PLAIT_PORT"}, {"0", "2", "localhost", "x"},
		 "PLAIT_PORT='x' is not a port"},
		{{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NNODES"}, {"0", "4", "2"}, "MASTER_ADDR is not set"},
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct env e = {.n = 0};
		struct rt_env re = {get, &e};
		struct rt_error err = {0};
		struct rt_world w;

		for (unsigned k = 0; k < 4 && cases[i].name[k]; k++)
			put(&e, cases[i].name[k], "%s", cases[i].value[k]);
		assert_int_equal(rt_world_read(&re, &w, &err), PLAIT_ENV);
		if (!strstr(err.text, cases[i].part))
			fail_msg("'%s' is not in: %s", cases[i].part, err.text);
	}
}

static void the_port_is_beside_the_launchers_and_runs_differ(void **state)
{
	struct env e = {.n = 0};
	struct rt_env re = {get, &e};
	struct rt_error err = {0};
	struct rt_world w, other;

	(void)state;
	put(&e, "RANK", "3");
	put(&e, "WORLD_SIZE", "8");
	put(&e, "LOCAL_RANK", "1");
	put(&e, "MASTER_ADDR", "10.0.0.1");
	put(&e, "MASTER_PORT", "29500");
	assert_int_equal(rt_world_read(&re, &w, &err), PLAIT_OK);
	assert_int_equal(w.process, 3);
	assert_int_equal(w.processes, 8);
	assert_int_equal(w.local, 1);
	assert_int_equal(w.port, 29501);
	assert_string_equal(w.address, "10.0.0.1");
	assert_int_equal(rt_local_rank(&re), 1);
	put(&e, "TORCHELASTIC_RUN_ID", "another");
	assert_int_equal(rt_world_read(&re, &other, &err), PLAIT_OK);
	assert_true(w.job != other.job);
	assert_int_equal(rt_port(65530, 16), 1024 + 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(an_environment_that_makes_no_sense_is_explained),
	        cmocka_unit_test(the_port_is_beside_the_launchers_and_runs_differ),
	        cmocka_unit_test(each_launchers_processes_meet),
	        cmocka_unit_test(processes_of_several_ranks_meet),
	        cmocka_unit_test(processes_on_several_hosts_meet_by_a_fabric),
	        cmocka_unit_test(a_limit_near_the_largest_number_is_a_long_one),
	        cmocka_unit_test(deadlines_do_not_wrap),
	        cmocka_unit_test(groups_of_some_ranks_meet_beside_a_group_of_all),
	        cmocka_unit_test(a_process_that_does_not_come_is_named_by_all),
	        cmocka_unit_test(a_process_that_dies_is_named_by_all),
	        cmocka_unit_test(two_that_say_they_are_the_same_are_told),
	        cmocka_unit_test(who_is_not_of_the_group_is_refused_at_once),
	        cmocka_unit_test(a_greeting_with_a_wrong_magic_number_is_not_answered),
	        cmocka_unit_test(strangers_do_not_keep_a_group_apart),
	        cmocka_unit_test(a_failure_at_any_call_of_a_process_is_one_outcome),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
