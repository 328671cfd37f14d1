/*
 * The rendezvous against a peer that knows its greeting and then misbehaves: as a member against
 * process 0, and as process 0 against a member.  The other side ends in bounded time, with a
 * message that says whose fault it was.  What is sent is written out here: it is the format of
 * version 1.
 */
#include "tests/unit/unit.h"
#include "runtime/boot.h"
#include "runtime/net.h"
#include "support/hash.h"
#include "tests/unit/wire.h"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { BYTES = 64 };
static const uint64_t limit = 400000000;

/* What the bad peer sends after the greeting, and what the good one then says. */
struct deed {
	const char *what;
	struct frame head;      /* session: is xor-ed into the true one */
	unsigned head_bytes;    /* of the head that are sent */
	unsigned payload_bytes; /* and of what follows */
	bool stays;             /* silent, else it closes */
	enum plait_status status;
	const char *says;
	bool floods; /* sends for as long as it can, at most 6 s */
};

/* clang-format off */
static const struct deed deeds[] = {
	{"nothing",             {0},                           0,  0,    true,  PLAIT_TIMEOUT,  "did not come within 0.4 s", false},
	{"goes",                {0},                           0,  0,    false, PLAIT_ENV,      "has gone", false},
	{"half a head",         {DATA, 1, 0, 1, BYTES},        16, 0,    true,  PLAIT_TIMEOUT,  "did not come within 0.4 s", false},
	{"half a head, goes",   {DATA, 1, 0, 1, BYTES},        16, 0,    false, PLAIT_ENV,      "has gone", false},
	{"half of it",          {DATA, 1, 0, 1, BYTES},        32, 20,   true,  PLAIT_TIMEOUT,  "did not come within 0.4 s", false},
	{"half of it, goes",    {DATA, 1, 0, 1, BYTES},        32, 20,   false, PLAIT_ENV,      "has gone", false},
	{"another session",     {DATA, 1, 99, 1, BYTES},       32, 64,   true,  PLAIT_ENV,      "sends what is not of this rendezvous", false},
	{"another kind",        {77, 1, 0, 1, BYTES},          32, 64,   true,  PLAIT_ENV,      "sends what is not of this rendezvous", false},
	{"another exchange",    {DATA, 1, 0, 2, BYTES},        32, 64,   true,  PLAIT_MISMATCH, "makes another collective call", false},
	{"too many bytes",      {DATA, 1, 0, 1, UINT64_MAX},   32, 4000, true,  PLAIT_MISMATCH, "makes another collective call", false},
	{"too few bytes",       {DATA, 1, 0, 1, 0},            32, 0,    true,  PLAIT_MISMATCH, "makes another collective call", false},
	{"a failure, no text",  {FAILURE, 3, 0, 1, 0},         32, 0,    true,  PLAIT_ENV,      "the rendezvous was given up", false},
	{"a failure, all text", {FAILURE, 6, 0, 1, UINT64_MAX},32, 4000, true,  PLAIT_TIMEOUT,  "xxxxxxxx", false},
	{"a failure, cut off",  {FAILURE, 3, 0, 1, 4000},      32, 10,   true,  PLAIT_ENV,      "the rendezvous was given up", false},
	{"a failure's status",  {FAILURE, 12345, 0, 1, 0},     32, 0,    true,  PLAIT_ENV,      "the rendezvous was given up", false},
	{"never stops",         {77, 1, 0, 1, BYTES},          32, 64,   true,  PLAIT_ENV,      "sends what is not of this rendezvous", true},
};
/* clang-format on */

static struct rt_world a_world(unsigned process)
{
	static unsigned n;
	struct rt_world w = {.process = process, .processes = 2, .launcher = "test", .job = 42};

	snprintf(w.address, sizeof w.address, "127.0.0.1");
	w.port = 24000 + ((unsigned)getpid() * 61 + 20 * n++) % 8000;
	return w;
}

struct bad {
	const struct deed *deed;
	struct rt_world w; /* of the good one */
	pthread_t thread;
};

static void misbehave(const struct bad *b, int fd, uint64_t session, size_t good_bytes)
{
	struct frame f = b->deed->head;
	char payload[4000], c;

	memset(payload, 'x', sizeof payload);
	f.session ^= session;
	if (f.bytes == BYTES)
		f.bytes = good_bytes;
	rt_send_all(fd, &f, b->deed->head_bytes, rt_now_ns() + limit);
	rt_send_all(fd, payload, b->deed->payload_bytes, rt_now_ns() + limit);
	for (uint64_t end = rt_now_ns() + 6000000000u; b->deed->floods && rt_now_ns() < end;)
		if (rt_send_all(fd, payload, sizeof payload, end) != RT_IO_DONE)
			break;
	if (b->deed->stays)
		while (rt_recv_all(fd, &c, 1, rt_now_ns() + 10 * limit) == RT_IO_DONE)
			;
	close(fd);
}

/* Process 1 of 2. */
static void *bad_member(void *p)
{
	struct bad *b = p;
	struct rt_error e = {0};
	struct addrinfo *a = rt_resolve("127.0.0.1", &e);
	uint32_t shape[3] = {2, 0, 2};
	struct hello h = {"PLAITBT", 0x01020304, 1, hash_bytes(42, shape, sizeof shape), 1, 0};
	struct reply r = {.answer = 9};
	uint64_t deadline = rt_now_ns() + 3000000000u;
	int fd = -1;

	h.magic[7] = '\n';
	while (fd < 0 && rt_now_ns() < deadline) {
		fd = rt_connect(a, b->w.port, deadline);
		usleep(500);
	}
	freeaddrinfo(a);
	if (fd < 0 || rt_send_all(fd, &h, sizeof h, deadline) != RT_IO_DONE ||
	    rt_recv_all(fd, &r, sizeof r, deadline) != RT_IO_DONE || r.answer != 0)
		return NULL;
	misbehave(b, fd, r.session, BYTES);
	return b;
}

/* Process 0 of 2. */
static void *bad_first(void *p)
{
	struct bad *b = p;
	struct rt_error e = {0};
	struct addrinfo *a = rt_resolve("127.0.0.1", &e);
	int listener = rt_listen(a, b->w.port, 1), fd = -1;
	struct reply r = {"PLAITBT", 1, 0, 4711};
	struct hello h;
	struct frame f;
	char payload[BYTES];
	uint64_t deadline = rt_now_ns() + 3000000000u;

	r.magic[7] = '\n';
	freeaddrinfo(a);
	while (fd < 0 && rt_now_ns() < deadline) {
		fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
		usleep(500);
	}
	close(listener);
	if (fd < 0 || rt_recv_all(fd, &h, sizeof h, deadline) != RT_IO_DONE ||
	    rt_send_all(fd, &r, sizeof r, deadline) != RT_IO_DONE ||
	    rt_recv_all(fd, &f, sizeof f, deadline) != RT_IO_DONE ||
	    rt_recv_all(fd, payload, sizeof payload, deadline) != RT_IO_DONE)
		return NULL;
	misbehave(b, fd, r.session, 2 * BYTES);
	return b;
}

static void meet(const struct deed *d, unsigned good, void *(*bad)(void *))
{
	struct bad b = {.deed = d, .w = a_world(good)};
	struct rt_error e = {0};
	char send[BYTES] = {0}, recv[2 * BYTES];
	struct rt_boot *boot;
	uint64_t begin;
	void *did;

	assert_int_equal(pthread_create(&b.thread, NULL, bad, &b), 0);
	boot = rt_boot_tcp(&b.w, 0, 2, 3000000000u, &e);
	if (!boot)
		fail_msg("%s: %s", d->what, e.text);
	boot->timeout_ns = limit;
	begin = rt_now_ns();
	assert_false(rt_boot_gather(boot, send, recv, sizeof send, &e));
	if (e.status != d->status || !strstr(e.text, d->says))
		fail_msg("%s: status %d, '%s'", d->what, (int)e.status, e.text);
	assert_true(strlen(e.text) < 700);
	assert_true(rt_now_ns() - begin < 3000000000u);
	/* and for good */
	begin = rt_now_ns();
	assert_false(rt_boot_gather(boot, send, recv, sizeof send, &e));
	assert_true(rt_now_ns() - begin < limit / 2);
	rt_boot_close(boot);
	pthread_join(b.thread, &did);
	assert_non_null(did);
}

static void a_member_that_misbehaves_is_named_by_process_0(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++)
		meet(&deeds[i], 0, bad_member);
}

static void a_process_0_that_misbehaves_is_named_by_its_members(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++) {
		struct deed d = deeds[i];

		/* A member waits a second longer than process 0, which would say who is late. */
		if (d.stays && d.status == PLAIT_TIMEOUT && d.head.kind != FAILURE)
			d.says = "process 0 did not come";
		meet(&d, 1, bad_first);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_member_that_misbehaves_is_named_by_process_0),
	        cmocka_unit_test(a_process_0_that_misbehaves_is_named_by_its_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
