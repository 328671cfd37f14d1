/*
 * Communicators and symmetric buffers, on a machine that is not there (tests/fake): ranks as
 * threads with the caller's allgather, and all ranks in one process.
 */
#include "tests/unit/unit.h"
#include <limits.h>
#include "runtime/comm.h"
#include "runtime/machine.h"
#include "tests/fake/ranks.h"
#include <stdio.h>

/* What a test asks of every rank, and what became of it. */
struct job {
	unsigned nlocal;
	enum plait_transport at_most;
	const char *const *env; /* name, value, ..., NULL */
	int fail_rank, fail_at; /* the process and its call; fail_at 0: none */
	bool one_gpu;
	size_t bytes[RANKS]; /* of the buffer, by process; 0: 1000 */
	bool by_nccl;
	uint64_t timeout_ns; /* 0: 5 s */

	enum plait_status comm[RANKS], buffer[RANKS];
	char error[RANKS][1000], why[RANKS][2000];
	enum plait_transport transport[RANKS];
	bool multicast[RANKS], reached[RANKS];
	int calls[RANKS];
	const char *failed;
};

static const char *get_env(void *ctx, const char *name)
{
	const struct job *j = ctx;

	for (size_t i = 0; j->env && j->env[i]; i += 2)
		if (strcmp(j->env[i], name) == 0)
			return j->env[i + 1];
	return NULL;
}

/* Writes the rank's number to its own copy; all see it everywhere. */
static bool exchange(plait_comm *c, plait_buffer *b)
{
	bool ok = true;

	for (unsigned l = 0; l < c->nlocal; l++)
		*(uint32_t *)(uintptr_t)plait_buffer_address(b, l) = 100 + c->first + l;
	if (plait_comm_barrier(c) != PLAIT_OK)
		return false;
	for (unsigned l = 0; l < c->nlocal; l++)
		for (unsigned r = 0; r < c->size; r++) {
			plait_address a = plait_buffer_peer(b, l, r);

			if (c->transport == PLAIT_BY_NCCL && r != c->first + l)
				ok &= a == 0;
			else
				ok &= a && *(uint32_t *)(uintptr_t)a == 100 + r;
		}
	return plait_comm_barrier(c) == PLAIT_OK && ok;
}

static void rank(struct ranks_thread *t)
{
	struct job *j = t->ctx;
	unsigned p = t->process;
	struct rt_hooks h = {&fake_driver, &fake_nccl, get_env, j};
	struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;
	struct plait_comm_info info = PLAIT_COMM_INFO_INIT;
	int device[RANKS];
	plait_comm *c;
	plait_buffer *b = NULL;
	struct nccl_comm *nc = NULL;

	fake_thread = (struct fake_thread){.fail_at = (int)p == j->fail_rank ? j->fail_at : 0};
	for (unsigned l = 0; l < j->nlocal; l++)
		device[l] = j->one_gpu ? 0 : (int)(p * j->nlocal + l);
	o.bootstrap = t->processes > 1 ? PLAIT_BOOT_ALLGATHER : PLAIT_BOOT_LOCAL;
	o.process = p;
	o.processes = t->processes;
	o.allgather = ranks_gather;
	o.allgather_ctx = t;
	o.device = device;
	o.nlocal = j->nlocal;
	o.at_most = j->at_most;
	o.setup_timeout_ns = j->timeout_ns ? j->timeout_ns : 5000000000u;
	if (j->by_nccl) {
		fake_nccl_rank =
		        (struct fake_nccl_rank){(int)p, (int)t->processes, (int)p, ranks_gather, t};
		fake_nccl.init_rank(&nc, (int)t->processes, (struct nccl_id){{7}}, (int)p);
		o.bootstrap = PLAIT_BOOT_NCCL;
		o.nccl = nc;
		o.device = NULL;
	}
	j->comm[p] = rt_comm_create(&o, &h, &c);
	if (j->comm[p] == PLAIT_OK) {
		j->buffer[p] = plait_buffer_create(c, j->bytes[p] ? j->bytes[p] : 1000, &b);
		plait_comm_info(c, &info);
		j->transport[p] = info.transport;
		snprintf(j->why[p], sizeof j->why[p], "%s", info.why);
	}
	snprintf(j->error[p], sizeof j->error[p], "%s", plait_comm_error(c));
	if (b) {
		j->multicast[p] = plait_buffer_multicast(b, 0) != 0;
		j->reached[p] = exchange(c, b);
	}
	j->calls[p] = fake_thread.calls;
	if (fake_thread.failed)
		j->failed = fake_thread.failed;
	plait_buffer_free(b);
	plait_comm_free(c);
	if (nc)
		fake_nccl.destroy(nc);
}

static void run(struct job *j, unsigned processes)
{
	int fds = ranks_fds();

	j->nlocal = j->nlocal ? j->nlocal : 1;
	ranks_run(processes, rank, j);
	if (fake.wrong)
		fail_msg("%s (after the failure of %s)", fake.what_wrong, j->failed);
	if (fake_alive())
		fail_msg("alive: contexts %d, streams %d, handles %d, reservations %d, mappings "
		         "%d, allocations %d, bound %d, comms %d (after the failure of %s)",
		         fake.contexts, fake.streams, fake.handles, fake.reservations,
		         fake.mappings, fake.allocations, fake.bound, fake.comms, j->failed);
	assert_int_equal(ranks_fds(), fds);
}

static void all_well(const struct job *j, unsigned processes, enum plait_transport by)
{
	for (unsigned p = 0; p < processes; p++) {
		if (j->comm[p] != PLAIT_OK || j->buffer[p] != PLAIT_OK)
			fail_msg("process %u: %s", p, j->error[p]);
		assert_int_equal(j->transport[p], by);
		assert_int_equal(j->multicast[p], by == PLAIT_BY_MULTICAST);
		assert_true(j->reached[p]);
		assert_string_equal(j->why[p], j->why[0]);
	}
}

static void expect_why(const struct job *j, const char *part)
{
	if (!strstr(j->why[0], part))
		fail_msg("'%s' is not in: %s", part, j->why[0]);
}

static void expect_error(const struct job *j, unsigned p, const char *part)
{
	if (!strstr(j->error[p], part))
		fail_msg("'%s' is not in: %s", part, j->error[p]);
}

/* ---- what works ---- */

static void every_rank_reaches_every_ranks_memory(void **state)
{
	/* processes, ranks of each */
	static const unsigned shape[][2] = {{1, 1}, {1, 2}, {1, 8}, {2, 1}, {3, 1},
	                                    {8, 1}, {2, 4}, {4, 2}, {16, 1}};

	(void)state;
	for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
		unsigned size = shape[i][0] * shape[i][1];
		struct job j = {.nlocal = shape[i][1]};

		fake_reset(16);
		run(&j, shape[i][0]);
		all_well(&j, shape[i][0], size > 1 ? PLAIT_BY_MULTICAST : PLAIT_BY_PEER);
	}
}

static void ranks_on_one_gpu_are_peers(void **state)
{
	for (unsigned processes = 1; processes <= 8; processes *= 2) {
		struct job j = {.nlocal = 8 / processes, .one_gpu = true};

		(void)state;
		fake_reset(1);
		run(&j, processes);
		all_well(&j, processes, PLAIT_BY_PEER);
		expect_why(&j, "multicast: ranks 0 and 1 are on one GPU");
		assert_int_equal(fake.multicast_calls, 0);
	}
}

static void an_nccl_communicator_brings_its_ranks_together(void **state)
{
	struct job j = {.by_nccl = true};

	(void)state;
	fake_reset(4);
	run(&j, 4);
	all_well(&j, 4, PLAIT_BY_MULTICAST);
	j = (struct job){.by_nccl = true, .at_most = PLAIT_BY_NCCL};
	run(&j, 4);
	all_well(&j, 4, PLAIT_BY_NCCL);
}

/* ---- multicast, and what switches it off ---- */

static void each_variable_and_at_most_keep_from_any_multicast_call(void **state)
{
	(void)state;
	for (const struct rt_switch *s = rt_multicast_switches; s->name; s++)
		for (unsigned processes = 1; processes <= 2; processes++) {
			const char *const env[] = {s->name, s->off, NULL};
			struct job j = {.env = env, .nlocal = 4 / processes};
			char part[100];

			fake_reset(4);
			run(&j, processes);
			all_well(&j, processes, PLAIT_BY_PEER);
			snprintf(part, sizeof part, "multicast: switched off on rank 0 by %s=%s",
			         s->name, s->off);
			expect_why(&j, part);
			assert_int_equal(fake.multicast_calls, 0);
		}
	for (int at_most = PLAIT_BY_PEER; at_most <= PLAIT_BY_NCCL; at_most++) {
		struct job j = {.at_most = (enum plait_transport)at_most};

		fake_reset(2);
		run(&j, 2);
		all_well(&j, 2, j.at_most);
		expect_why(&j, "by at_most");
		assert_int_equal(fake.multicast_calls, 0);
	}
}

static void variables_that_allow_it_do_not_switch_it_off(void **state)
{
	static const char *const env[] = {"PLAIT_MULTICAST",
	                                  "1",
	                                  "NCCL_NVLS_ENABLE",
	                                  "2",
	                                  "TORCH_SYMM_MEM_DISABLE_MULTICAST",
	                                  "0",
	                                  "NVSHMEM_DISABLE_NVLS",
	                                  "",
	                                  NULL};
	struct job j = {.env = env};

	(void)state;
	fake_reset(2);
	run(&j, 2);
	all_well(&j, 2, PLAIT_BY_MULTICAST);
	assert_true(fake.multicast_calls > 0);
}

static void gpus_without_multicast_are_peers(void **state)
{
	struct job j = {0};

	(void)state;
	fake_reset(2);
	fake.no_multicast = true;
	run(&j, 2);
	all_well(&j, 2, PLAIT_BY_PEER);
	expect_why(&j, "multicast: rank 0's GPU, or its driver, has none");
	assert_int_equal(fake.multicast_calls, 0);
}

/* ---- peers that do not reach one another ---- */

static void a_pair_that_loses_writes_makes_all_fall_back(void **state)
{
	for (unsigned processes = 1; processes <= 4; processes *= 2) {
		struct job j = {.nlocal = 4 / processes};

		(void)state;
		fake_reset(4);
		fake.lost[3][1] = true;
		run(&j, processes);
		all_well(&j, processes, PLAIT_BY_NCCL);
		expect_why(&j, "peer: rank 1: of what rank 3 wrote to rank 1, word 0 is");
	}
}

static void without_vmm_or_descriptors_it_is_nccl(void **state)
{
	struct job j = {0};

	(void)state;
	fake_reset(2);
	fake.no_fd = true;
	run(&j, 2);
	all_well(&j, 2, PLAIT_BY_NCCL);
	expect_why(&j, "cannot share memory by descriptors");
	j = (struct job){.nlocal = 2};
	run(&j, 1);
	all_well(&j, 1, PLAIT_BY_MULTICAST);
}

static void when_nothing_works_all_ranks_say_why(void **state)
{
	struct job j = {.one_gpu = true, .at_most = PLAIT_BY_NCCL};

	(void)state;
	fake_reset(1);
	run(&j, 2);
	for (unsigned p = 0; p < 2; p++) {
		assert_int_equal(j.comm[p], PLAIT_ENV);
		expect_error(&j, p, "no transport works");
		expect_error(&j, p, "multicast: switched off on rank 0 by at_most");
		expect_error(&j, p, "NCCL: ranks 0 and 1 are on one GPU");
	}
}

static void a_gpu_that_does_not_finish_is_a_time_out(void **state)
{
	struct job j = {.timeout_ns = 100000000};

	(void)state;
	fake_reset(1);
	fake.hang = true;
	run(&j, 1);
	expect_why(&j, "peer: rank 0: the GPU did not finish within 0.1 s");
	assert_int_equal(j.buffer[0], PLAIT_TIMEOUT);
	expect_error(&j, 0, "the GPU did not finish within 0.1 s");
}

/* Of a wait for the GPU, and of NCCL's exchanges. */
static void a_limit_near_the_largest_number_is_a_long_one(void **state)
{
	static const uint64_t limit[] = {UINT64_MAX, UINT64_MAX - 1, INT64_MAX};

	(void)state;
	for (size_t i = 0; i < 2 * sizeof limit / sizeof *limit; i++) {
		struct job j = {.timeout_ns = limit[i / 2], .by_nccl = i % 2};

		fake_reset(2);
		fake.slow = 2;
		run(&j, 2);
		all_well(&j, 2, PLAIT_BY_MULTICAST);
	}
}

/* ---- arguments ---- */

static void ranks_that_ask_for_different_sizes_are_named(void **state)
{
	struct job j = {.bytes = {0, 0, 5000, 0}};

	(void)state;
	fake_reset(4);
	run(&j, 4);
	for (unsigned p = 0; p < 4; p++) {
		assert_int_equal(j.buffer[p], PLAIT_MISMATCH);
		expect_error(&j, p, "the size of a buffer differs: 1000 on rank 0, 5000 on rank 2");
	}
}

static void a_gpu_that_is_not_there_is_said_to_all(void **state)
{
	struct job j = {.nlocal = 2};

	(void)state;
	fake_reset(3);
	run(&j, 2);
	for (unsigned p = 0; p < 2; p++) {
		assert_int_equal(j.comm[p], PLAIT_USAGE);
		expect_error(&j, p, "rank 3: there is no GPU 3: the driver finds 3");
	}
}

static int no_allgather(void *ctx, const void *send, void *recv, size_t bytes)
{
	(void)ctx, (void)send, (void)recv, (void)bytes;
	return 1;
}

static void arguments_that_make_no_sense_are_usage(void **state)
{
	struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;
	struct rt_hooks h = {&fake_driver, &fake_nccl, NULL, NULL};
	struct plait_comm_info info = PLAIT_COMM_INFO_INIT;
	plait_address peer[4] = {256, 512, 768, 3};
	static const unsigned many[] = {9, 16, 17, 200, 100000, 1u << 31, UINT_MAX};
	struct plait_stage_options so = PLAIT_STAGE_OPTIONS_INIT;
	plait_stage *s;
	plait_comm *c;
	plait_buffer *b;

	(void)state;
	fake_reset(2);
	assert_int_equal(rt_comm_create(&o, &h, NULL), PLAIT_USAGE);
	assert_int_equal(rt_comm_create(NULL, &h, &c), PLAIT_USAGE);
	o.size = 17;
	assert_int_equal(rt_comm_create(&o, &h, &c), PLAIT_USAGE);
	assert_non_null(strstr(plait_comm_error(c), "size is 17"));
	assert_int_equal(plait_comm_info(c, &info), PLAIT_USAGE);
	assert_int_equal(plait_buffer_create(c, 1, &b), PLAIT_USAGE);
	assert_int_equal(plait_stage_create(c, &so, &s), PLAIT_USAGE);
	plait_comm_free(c);
	o = (struct plait_comm_options)PLAIT_COMM_OPTIONS_INIT;
	o.bootstrap = PLAIT_BOOT_ALLGATHER;
	assert_int_equal(rt_comm_create(&o, &h, &c), PLAIT_USAGE);
	plait_comm_free(c);
	o.allgather = no_allgather;
	o.processes = 2;
	for (unsigned i = 0; i < sizeof many / sizeof *many; i++) {
		o.nlocal = many[i];
		assert_int_equal(rt_comm_create(&o, &h, &c), PLAIT_USAGE);
		assert_non_null(strstr(plait_comm_error(c), "ranks each are not a group of"));
		plait_comm_free(c);
	}
	o.nlocal = 0;
	o.bootstrap = (enum plait_bootstrap)9;
	assert_int_equal(rt_comm_create(&o, &h, &c), PLAIT_USAGE);
	plait_comm_free(c);

	o.bootstrap = PLAIT_BOOT_LOCAL; /* all GPUs */
	assert_int_equal(rt_comm_create(&o, &h, &c), PLAIT_OK);
	assert_int_equal(plait_comm_info(c, &info), PLAIT_OK);
	assert_int_equal(info.size, 2);
	assert_int_equal(info.nlocal, 2);
	assert_int_equal(plait_buffer_create(c, 0, &b), PLAIT_USAGE);
	assert_int_equal(plait_buffer_create(c, SIZE_MAX, &b), PLAIT_USAGE);
	assert_int_equal(plait_buffer_import(c, NULL, NULL, 1, &b), PLAIT_USAGE);
	assert_int_equal(plait_buffer_import(c, peer, NULL, 1, &b), PLAIT_USAGE);
	assert_non_null(strstr(plait_comm_error(c), "0x3 for rank 1, is not 256-byte aligned"));
	peer[3] = 1024;
	assert_int_equal(plait_buffer_import(c, peer, NULL, 64, &b), PLAIT_OK);
	assert_int_equal(plait_buffer_address(b, 1), 1024);
	assert_int_equal(plait_buffer_peer(b, 1, 0), 768);
	assert_int_equal(plait_buffer_address(b, 2), 0);
	assert_int_equal(plait_buffer_multicast(b, 0), 0);
	plait_buffer_free(b);
	plait_comm_free(c);
	assert_int_equal(fake_alive(), 0);
}

/* Each entry of the caller's own memory, wrong in each way. */
static void every_address_that_is_imported_is_checked(void **state)
{
	struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;
	struct rt_hooks h = {&fake_driver, &fake_nccl, get_env, &(struct job){0}};
	static const struct {
		plait_address peer, multicast; /* what the entry becomes */
		const char *why;
	} wrong[] = {
	        {0, 0, "is 0"},
	        {257, 257, "is not 256-byte aligned"},
	        {UINT64_MAX - 511, UINT64_MAX - 511, "beyond the end of the addresses"},
	};
	plait_comm *c;
	plait_buffer *b;
	char said[80];

	(void)state;
	fake_reset(2);
	assert_int_equal(rt_comm_create(&o, &h, &c), PLAIT_OK);
	assert_int_equal(c->transport, PLAIT_BY_MULTICAST);
	for (unsigned w = 0; w < sizeof wrong / sizeof *wrong; w++)
		for (unsigned i = 0; i < 6; i++) {
			plait_address peer[4] = {256, 512, 768, 1024}, multicast[2] = {4096, 8192};

			if (i < 4)
				peer[i] = wrong[w].peer;
			else
				multicast[i - 4] = wrong[w].multicast;
			assert_int_equal(plait_buffer_import(c, peer, multicast, 1024, &b),
			                 PLAIT_USAGE);
			assert_null(b);
			if (i < 4)
				snprintf(said, sizeof said, "peer[%u][%u]", i / 2, i % 2);
			else
				snprintf(said, sizeof said, "multicast[%u]", i - 4);
			if (!strstr(plait_comm_error(c), said) ||
			    !strstr(plait_comm_error(c), wrong[w].why))
				fail_msg("%s", plait_comm_error(c));
		}
	{
		const plait_address peer[4] = {256, 512, 768, 1024}, none[2] = {0, 0};
		const plait_address multicast[2] = {4096, 8192};

		assert_int_equal(plait_buffer_import(c, peer, multicast, 1024, &b), PLAIT_OK);
		assert_int_equal(plait_buffer_multicast(b, 1), 8192);
		plait_buffer_free(b);
		assert_int_equal(plait_buffer_import(c, peer, none, 1024, &b), PLAIT_OK);
		assert_int_equal(plait_buffer_multicast(b, 1), 0);
		plait_buffer_free(b);
		assert_int_equal(plait_buffer_import(c, peer, none, 1024, NULL), PLAIT_USAGE);
		assert_true(*plait_comm_error(c));
	}
	plait_comm_free(c);
}

/* ---- a bootstrap that breaks ---- */

struct breaking {
	int calls, fails; /* so far; the one that fails */
};

static int gather_alone(void *ctx, const void *send, void *recv, size_t bytes)
{
	struct breaking *b = ctx;

	memcpy(recv, send, bytes);
	return ++b->calls == b->fails ? 7 : 0;
}

/* At any exchange: what there was is given back, and nobody is asked again. */
static void an_allgather_that_fails_breaks_the_communicator_for_good(void **state)
{
	struct rt_hooks h = {&fake_driver, &fake_nccl, get_env, &(struct job){0}};
	unsigned created = 0, failed = 0;

	(void)state;
	for (int n = 1; n < 60; n++) {
		struct breaking br = {.fails = n};
		struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;
		plait_comm *c;
		plait_buffer *b = NULL;
		enum plait_status s;
		int calls;

		fake_reset(1);
		o.bootstrap = PLAIT_BOOT_ALLGATHER;
		o.processes = 1;
		o.allgather = gather_alone;
		o.allgather_ctx = &br;
		s = rt_comm_create(&o, &h, &c);
		if (s == PLAIT_OK) {
			created++;
			while (s == PLAIT_OK) {
				plait_buffer_free(b);
				s = plait_buffer_create(c, 100, &b);
			}
			assert_null(b);
		}
		failed += s == PLAIT_ENV;
		assert_non_null(strstr(plait_comm_error(c), "the caller's allgather returned 7"));
		calls = br.calls;
		assert_int_equal(calls, n);
		assert_int_not_equal(plait_comm_barrier(c), PLAIT_OK);
		assert_int_not_equal(plait_buffer_create(c, 1, &b), PLAIT_OK);
		assert_int_equal(br.calls, calls);
		plait_comm_free(c);
		assert_int_equal(fake_alive(), 0);
		assert_int_equal(fake.wrong, 0);
	}
	assert_true(created > 10 && created < 59);
	assert_int_equal(failed, 59);
}

/* ---- a failure at each call ---- */

/* All have the same outcome, and when it is a failure it names the call. */
static void agree(const struct job *j, unsigned processes)
{
	const char *failed = j->failed ? j->failed : "no call";

	for (unsigned p = 0; p < processes; p++) {
		if (j->comm[p] != j->comm[0] || j->buffer[p] != j->buffer[0] ||
		    j->transport[p] != j->transport[0] || j->multicast[p] != j->multicast[0])
			fail_msg("ranks differ after the failure of %s: '%s', '%s'", failed,
			         j->error[0], j->error[p]);
		if (j->comm[p] == PLAIT_OK && j->buffer[p] == PLAIT_OK && !j->reached[p])
			fail_msg("memory is not reached after the failure of %s", failed);
		if ((j->comm[p] != PLAIT_OK || j->buffer[p] != PLAIT_OK) &&
		    !strstr(j->error[p], failed))
			fail_msg("'%s' does not name %s", j->error[p], failed);
	}
}

static void sweep(struct job proto, unsigned processes)
{
	bool fell_back = false, failed = false;

	for (unsigned p = 0; p<processes; p += processes> 1 ? processes - 1 : 1)
		for (int n = 1;; n++) {
			struct job j = proto;

			j.fail_rank = (int)p;
			j.fail_at = n;
			fake_reset(8);
			run(&j, processes);
			if (!j.failed) {
				assert_true(j.calls[p] < n);
				break;
			}
			agree(&j, processes);
			fell_back |= j.comm[0] == PLAIT_OK && j.transport[0] == PLAIT_BY_NCCL &&
			             proto.at_most != PLAIT_BY_NCCL;
			failed |= j.comm[0] != PLAIT_OK;
		}
	assert_true(failed && fell_back == (proto.at_most != PLAIT_BY_NCCL));
}

static void a_failure_at_any_call_unwinds_on_all_ranks(void **state)
{
	(void)state;
	sweep((struct job){.nlocal = 2}, 1);
	sweep((struct job){.nlocal = 1}, 2);
	sweep((struct job){.nlocal = 2}, 2);
	sweep((struct job){.nlocal = 1, .at_most = PLAIT_BY_PEER}, 3);
	sweep((struct job){.nlocal = 2, .at_most = PLAIT_BY_NCCL}, 2);
}

static void a_failure_in_multicast_leaves_peers(void **state)
{
	unsigned fell_back = 0;

	(void)state;
	for (int n = 1;; n++) {
		struct job j = {.fail_rank = 1, .fail_at = n};

		fake_reset(2);
		run(&j, 2);
		if (!j.failed)
			break;
		if (strncmp(j.failed, "cuMulticast", 11) != 0 || strstr(j.failed, "Granularity") ||
		    j.comm[0] != PLAIT_OK)
			continue;
		fell_back++;
		assert_int_equal(j.buffer[1], PLAIT_OK);
		assert_false(j.multicast[0]);
		expect_why(&j, j.failed);
	}
	/* add and bind, of the probe's memory and of the buffer's */
	assert_int_equal(fell_back, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(every_rank_reaches_every_ranks_memory),
	        cmocka_unit_test(ranks_on_one_gpu_are_peers),
	        cmocka_unit_test(an_nccl_communicator_brings_its_ranks_together),
	        cmocka_unit_test(each_variable_and_at_most_keep_from_any_multicast_call),
	        cmocka_unit_test(variables_that_allow_it_do_not_switch_it_off),
	        cmocka_unit_test(gpus_without_multicast_are_peers),
	        cmocka_unit_test(a_pair_that_loses_writes_makes_all_fall_back),
	        cmocka_unit_test(without_vmm_or_descriptors_it_is_nccl),
	        cmocka_unit_test(when_nothing_works_all_ranks_say_why),
	        cmocka_unit_test(a_gpu_that_does_not_finish_is_a_time_out),
	        cmocka_unit_test(a_limit_near_the_largest_number_is_a_long_one),
	        cmocka_unit_test(ranks_that_ask_for_different_sizes_are_named),
	        cmocka_unit_test(a_gpu_that_is_not_there_is_said_to_all),
	        cmocka_unit_test(arguments_that_make_no_sense_are_usage),
	        cmocka_unit_test(every_address_that_is_imported_is_checked),
	        cmocka_unit_test(an_allgather_that_fails_breaks_the_communicator_for_good),
	        cmocka_unit_test(a_failure_at_any_call_unwinds_on_all_ranks),
	        cmocka_unit_test(a_failure_in_multicast_leaves_peers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
