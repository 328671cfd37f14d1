/*
 * What comes from other processes and is not what they would send: an allgather of the caller's that
 * gives garbage, at any exchange.  The communicator fails with a message that can be shown, in bounded
 * time, and nothing is left.
 */
#include "tests/unit/unit.h"
#include "runtime/comm.h"
#include "runtime/net.h"
#include "support/text.h"
#include "tests/fake/ranks.h"
#include <stdio.h>

static const char *no_variable(void *ctx, const char *name)
{
	(void)ctx;
	(void)name;
	return NULL;
}

enum kind { NONE, ZEROS, ONES, NOISE, ONE_BIT, SHIFTED, UNTOUCHED, REVERSED, KINDS };

struct job {
	enum kind kind;
	unsigned at, seed; /* the exchange from which on, from 1 */
	unsigned calls[RANKS];
	enum plait_status got[RANKS];
	char error[RANKS][1000];
};

static uint32_t next(uint32_t *x)
{
	*x = *x * 1664525 + 1013904223;
	return *x >> 8;
}

/* Process 0's view of what the others sent becomes something else. */
static void spoil(const struct job *j, unsigned processes, char *recv, size_t bytes)
{
	uint32_t x = j->seed;
	char *other = recv + bytes;
	size_t n = bytes * (processes - 1);

	switch (j->kind) {
	case ZEROS:
	case ONES:
		memset(other, j->kind == ONES ? 0xff : 0, n);
		break;
	case NOISE:
		for (size_t i = 0; i < n; i++)
			other[i] = (char)next(&x);
		break;
	case ONE_BIT:
		other[next(&x) % n] ^= (char)(1u << next(&x) % 8);
		break;
	case SHIFTED:
		memmove(other + 1, other, n - 1);
		break;
	case UNTOUCHED:
		memset(recv, 0, bytes * processes);
		break;
	case REVERSED:
		for (unsigned p = 0; p < processes / 2; p++)
			for (size_t i = 0; i < bytes; i++) {
				char *a = recv + p * bytes + i;
				char *b = recv + (processes - 1 - p) * bytes + i, c = *a;

				*a = *b;
				*b = c;
			}
		break;
	default:
		break;
	}
}

static int gather(void *ctx, const void *send, void *recv, size_t bytes)
{
	struct ranks_thread *t = ctx;
	struct job *j = t->ctx;
	int r = ranks_gather(t, send, recv, bytes);

	if (++j->calls[t->process] >= j->at && t->process == 0 && r == 0 && bytes)
		spoil(j, t->processes, recv, bytes);
	return r;
}

static void rank(struct ranks_thread *t)
{
	struct job *j = t->ctx;
	struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;
	struct rt_hooks h = {.drv = &fake_driver, .nccl = &fake_nccl, .env = no_variable};
	int device = (int)t->process;
	plait_buffer *b = NULL;
	plait_comm *c;

	t->strays = true;
	fake_thread = (struct fake_thread){0};
	fake_nccl_rank = (struct fake_nccl_rank){device, (int)t->processes, device, gather, t};
	o.bootstrap = PLAIT_BOOT_ALLGATHER;
	o.process = t->process;
	o.processes = t->processes;
	o.allgather = gather;
	o.allgather_ctx = t;
	o.device = &device;
	o.setup_timeout_ns = j->kind == NONE ? 30000000000 : 100000000;
	j->got[t->process] = rt_comm_create(&o, &h, &c);
	if (j->got[t->process] == PLAIT_OK)
		j->got[t->process] = plait_buffer_create(c, 1000, &b);
	if (j->got[t->process] == PLAIT_OK)
		j->got[t->process] = plait_comm_barrier(c);
	snprintf(j->error[t->process], sizeof j->error[0], "%s", plait_comm_error(c));
	plait_buffer_free(b);
	plait_comm_free(c);
}

static void run(struct job *j)
{
	int fds = ranks_fds();

	fake_reset(4);
	ranks_run(3, rank, j);
	if (fake_alive() || ranks_fds() != fds)
		fail_msg("kind %d at %u: %d alive, %d descriptors", (int)j->kind, j->at,
		         fake_alive(), ranks_fds() - fds);
	for (unsigned p = 0; p < 3; p++) {
		const char *s = j->error[p];
		struct text_glyph g;

		if ((unsigned)j->got[p] > PLAIT_MISMATCH || (j->got[p] != PLAIT_OK && !*s))
			fail_msg("kind %d at %u, process %u: status %d, '%s'", (int)j->kind, j->at,
			         p, (int)j->got[p], s);
		for (; *s; s += g.n) {
			g = text_glyph_at(s, strlen(s));
			if (!g.plain && *s != '\n')
				fail_msg("kind %d at %u: byte %d in '%s'", (int)j->kind, j->at, *s,
				         j->error[p]);
		}
	}
}

static void garbage_at_any_exchange_is_an_error_or_harmless(void **state)
{
	struct job well = {.at = 1};
	unsigned failed = 0, runs = 0;

	(void)state;
	run(&well);
	assert_int_equal(well.got[0] + well.got[1] + well.got[2], PLAIT_OK);
	for (int kind = NONE + 1; kind < KINDS; kind++)
		for (unsigned at = 1; at <= well.calls[0]; at += kind == NOISE ? 1 : 3) {
			struct job j = {.kind = (enum kind)kind, .at = at, .seed = at * 77};

			run(&j);
			failed += j.got[0] != PLAIT_OK;
			runs++;
			/* votes of all who are well are equal; what they say of themselves is not */
			if (at == 1 && (kind == UNTOUCHED || kind == REVERSED))
				assert_non_null(strstr(j.error[0], "than what it had sent"));
		}
	assert_true(failed > runs / 2);
}

/* A vote, as the second process of two casts it. */
struct cast {
	int32_t status;
	const char *text;
};

static int gather_vote(void *ctx, const void *send, void *recv, size_t bytes)
{
	const struct cast *v = ctx;
	char *other = (char *)recv + bytes;

	memcpy(recv, send, bytes);
	memset(other, 0, bytes);
	memcpy(other, &v->status, sizeof v->status);
	memcpy(other + sizeof v->status, v->text, strlen(v->text));
	return 0;
}

static void a_vote_is_taken_for_what_it_is(void **state)
{
	static const struct {
		struct cast cast;
		enum plait_status want;
		const char *says;
	} cases[] = {
	        {{PLAIT_NOMEM, "rank 1: no"}, PLAIT_NOMEM, "rank 1: no"},
	        {{PLAIT_MISMATCH, "x"}, PLAIT_MISMATCH, "x"},
	        {{PLAIT_MISMATCH + 1, "x"}, PLAIT_ENV, "process 1 votes with status 8, which"},
	        {{-1, "x"}, PLAIT_ENV, "process 1 votes with status -1, which"},
	        {{INT32_MIN, ""}, PLAIT_ENV, "process 1 votes with status -2147483648"},
	        {{PLAIT_ENV, "a\033[31mb\nc\td\007\177\xc2\x9b\xff\xe2\x80\xae"},
	         PLAIT_ENV,
	         "a?[31mb c d?????"},
	        {{PLAIT_ENV, "gr\xc3\xbc\xc3\x9f"}, PLAIT_ENV, "gr\xc3\xbc\xc3\x9f"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;
		struct rt_hooks h = {&fake_driver, &fake_nccl, no_variable, NULL};
		struct cast v = cases[i].cast;
		plait_comm *c;

		fake_reset(1);
		o.bootstrap = PLAIT_BOOT_ALLGATHER;
		o.processes = 2;
		o.allgather = gather_vote;
		o.allgather_ctx = &v;
		assert_int_equal(rt_comm_create(&o, &h, &c), cases[i].want);
		if (strncmp(plait_comm_error(c), cases[i].says, strlen(cases[i].says)) != 0)
			fail_msg("'%s' is not '%s'", plait_comm_error(c), cases[i].says);
		plait_comm_free(c);
		assert_int_equal(fake_alive(), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(garbage_at_any_exchange_is_an_error_or_harmless),
	        cmocka_unit_test(a_vote_is_taken_for_what_it_is),
	};

	return cmocka_run_group_tests_name("garbage", tests, NULL, NULL);
}
