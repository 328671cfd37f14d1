/*
 * How processes greet one another over TCP: answers that are none, greetings that are none, two that
 * say they are the first.  (What comes after the greeting: test_rendezvous.c.)
 */
#include "runtime/boot.h"
#include "runtime/net.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire.h"
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

static const uint64_t timeout_ns = 1200000000u;

static unsigned a_port(void)
{
	static unsigned n;

	/* below those that the system gives to connections, and not test_boot's */
	return 11000 + ((unsigned)getpid() * 97 + 40 * n++) % 9000;
}

/* ---- the process under test, in a thread ---- */

struct process {
	struct rt_world world;
	pthread_t thread;
	struct rt_error error;
	uint64_t took_ns;
	bool joined, gathered;
};

static void *live(void *x)
{
	struct process *p = x;
	uint64_t start = rt_now_ns(), all[2];
	struct rt_boot *b = rt_boot_tcp(&p->world, 0, 2, timeout_ns, &p->error);

	p->joined = b != NULL;
	if (b) {
		p->gathered = rt_boot_gather(b, &start, all, sizeof start, &p->error);
		rt_boot_close(b);
	}
	p->took_ns = rt_now_ns() - start;
	return NULL;
}

static void begin(struct process *p, unsigned process, unsigned port)
{
	*p = (struct process){.world = {.process = process,
	                                .processes = 2,
	                                .local = -1,
	                                .launcher = "torchrun",
	                                .address = "127.0.0.1",
	                                .port = port,
	                                .job = 42}};
	assert_int_equal(pthread_create(&p->thread, NULL, live, p), 0);
}

static void must_fail(struct process *p, const char *name, enum plait_status want, const char *said)
{
	pthread_join(p->thread, NULL);
	if (p->gathered || p->error.status != want || !strstr(p->error.text, said))
		fail_msg("%s: status %d: %s", name, (int)p->error.status, p->error.text);
	for (const char *c = p->error.text; *c; c++)
		assert_true((unsigned char)*c >= ' ');
	/* its limit, a quarter and a second for the other's word, and the machine's own slowness */
	assert_true(p->took_ns < 2 * timeout_ns + 10000000000u);
}

/* ---- the test as process 0 ---- */

#define MAGIC                                           \
	{                                               \
		'P', 'L', 'A', 'I', 'T', 'B', 'T', '\n' \
	}

/* clang-format off */
static const struct zero {
	const char *name;
	struct reply reply;
	size_t cut; /* bytes of it that are not sent */
	enum plait_status want;
	const char *said;
} zeros[] = {
	{"not plait",                   {{'P'}, 1, WELCOME, 7},       0, PLAIT_TIMEOUT,  "another program"},
	{"another group",               {MAGIC, 1, NOT_THIS, 7},      0, PLAIT_TIMEOUT,  "another group"},
	{"an answer that there is not", {MAGIC, 1, 77, 7},            0, PLAIT_TIMEOUT,  "another program"},
	{"half an answer",              {MAGIC, 1, WELCOME, 7},       3, PLAIT_TIMEOUT,  "another program"},
	{"another version",             {MAGIC, 9, OTHER_VERSION, 0}, 0, PLAIT_MISMATCH, "version 9"},
	{"taken",                       {MAGIC, 1, TWICE, 0},         0, PLAIT_MISMATCH, "two processes say that they are process 1"},
};
/* clang-format on */

static int next_caller(int listener, uint64_t deadline)
{
	int fd = -1;

	while (fd < 0 && rt_now_ns() < deadline) {
		fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			usleep(1000);
	}
	return fd;
}

static void be_zero(const struct zero *z, int listener)
{
	uint64_t deadline = rt_now_ns() + timeout_ns / 2;
	struct hello h;

	/* it may ask more than once */
	for (int fd; (fd = next_caller(listener, deadline)) >= 0; close(fd)) {
		if (rt_recv_all(fd, &h, sizeof h, deadline) != RT_IO_DONE)
			continue;
		assert_int_equal(h.process, 1);
		rt_send_all(fd, &z->reply, sizeof z->reply - z->cut, deadline);
		usleep(20000);
	}
}

/* Listens at a port that nobody has. */
static int listen_somewhere(unsigned *port)
{
	struct rt_error e = {0};
	struct addrinfo *a = rt_resolve("127.0.0.1", &e);
	int fd = -1;

	for (unsigned i = 0; i < 100 && fd < 0; i++) {
		*port = a_port();
		fd = rt_listen(a, *port, 1);
	}
	freeaddrinfo(a);
	assert_true(fd >= 0);
	return fd;
}

static void answers_that_are_none_are_no_welcome(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
		unsigned port;
		int listener = listen_somewhere(&port);
		struct process p;

		begin(&p, 1, port);
		be_zero(&zeros[i], listener);
		close(listener);
		must_fail(&p, zeros[i].name, zeros[i].want, zeros[i].said);
	}
}

/* ---- the test as process 1, and as strangers ---- */

/* What a process of this world says at first: learned from one. */
static struct hello learn(void)
{
	unsigned port;
	int listener = listen_somewhere(&port), fd;
	struct reply no = {MAGIC, 1, TWICE, 0};
	struct process p;
	struct hello h;

	begin(&p, 1, port);
	fd = next_caller(listener, rt_now_ns() + timeout_ns);
	assert_true(fd >= 0);
	assert_int_equal(rt_recv_all(fd, &h, sizeof h, rt_now_ns() + timeout_ns), RT_IO_DONE);
	assert_int_equal(rt_send_all(fd, &no, sizeof no, rt_now_ns() + timeout_ns), RT_IO_DONE);
	pthread_join(p.thread, NULL);
	close(fd);
	close(listener);
	return h;
}

static int knock(unsigned port)
{
	struct rt_error e = {0};
	struct addrinfo *a = rt_resolve("127.0.0.1", &e);
	uint64_t deadline = rt_now_ns() + timeout_ns / 2;
	int fd = -1;

	while (fd < 0 && rt_now_ns() < deadline) {
		fd = rt_connect(a, port, deadline);
		if (fd < 0)
			usleep(1000);
	}
	freeaddrinfo(a);
	assert_true(fd >= 0);
	return fd;
}

/* Greets as process 1, and is welcome. */
static int join(unsigned port, const struct hello *h, struct reply *r)
{
	uint64_t deadline = rt_now_ns() + timeout_ns / 2;
	int fd = knock(port);

	assert_int_equal(rt_send_all(fd, h, sizeof *h, deadline), RT_IO_DONE);
	assert_int_equal(rt_recv_all(fd, r, sizeof *r, deadline), RT_IO_DONE);
	return fd;
}

static void greetings_that_are_none_are_refused_and_the_right_one_is_heard(void **state)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: plait\r\nUser-Agent: none\r\n\r\n";
	const struct hello right = learn();
	struct hello h;
	struct process p;
	struct reply r;
	unsigned port = a_port();
	int silent[80], fd;
	char end;

	(void)state;
	begin(&p, 0, port);
	/* more than it remembers, that say nothing */
	for (unsigned i = 0; i < 80; i++)
		silent[i] = knock(port);
	fd = knock(port);
	rt_send_all(fd, http, sizeof http - 1, rt_now_ns() + timeout_ns);
	assert_int_equal(rt_recv_all(fd, &end, 1, rt_now_ns() + timeout_ns), RT_IO_GONE);
	close(fd);
	h = right;
	h.order = 0x04030201;
	fd = knock(port);
	rt_send_all(fd, &h, sizeof h, rt_now_ns() + timeout_ns);
	assert_int_equal(rt_recv_all(fd, &end, 1, rt_now_ns() + timeout_ns), RT_IO_GONE);
	close(fd);
	for (unsigned k = 0; k < 4; k++) {
		static const uint32_t process[] = {0, 2, UINT32_MAX, 1};
		static const uint32_t answer[] = {TWICE, NOT_THIS, NOT_THIS, OTHER_VERSION};

		h = right;
		h.process = process[k];
		h.version += k == 3;
		fd = join(port, &h, &r);
		assert_int_equal(r.answer, answer[k]);
		close(fd);
	}
	h = right;
	h.key++;
	fd = join(port, &h, &r);
	assert_int_equal(r.answer, NOT_THIS);
	assert_int_equal(r.session, 0);
	close(fd);
	fd = join(port, &right, &r);
	assert_int_equal(r.answer, WELCOME);
	close(fd);
	pthread_join(p.thread, NULL);
	assert_true(p.joined);
	for (unsigned i = 0; i < 80; i++)
		close(silent[i]);
}

static void a_second_first_process_is_told(void **state)
{
	unsigned port = a_port();
	struct process first, second, other;

	(void)state;
	begin(&first, 0, port);
	usleep(150000);
	begin(&second, 0, port);
	pthread_join(second.thread, NULL);
	assert_int_equal(second.error.status, PLAIT_MISMATCH);
	assert_non_null(strstr(second.error.text, "two processes say that they are process 0"));
	assert_true(second.took_ns < timeout_ns);
	begin(&other, 1, port);
	pthread_join(other.thread, NULL);
	pthread_join(first.thread, NULL);
	assert_true(first.gathered && other.gathered);
}

static void of_two_first_ones_that_start_at_once_one_is_told(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		unsigned port = a_port(), told = 0;
		struct process p[2], other;

		begin(&p[0], 0, port);
		begin(&p[1], 0, port);
		usleep(200000);
		begin(&other, 1, port);
		for (unsigned k = 0; k < 2; k++) {
			pthread_join(p[k].thread, NULL);
			told += strstr(p[k].error.text, "say that they are process 0") != NULL;
		}
		pthread_join(other.thread, NULL);
		assert_int_equal(told, 1);
		assert_true(other.gathered && (p[0].gathered || p[1].gathered));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(answers_that_are_none_are_no_welcome),
	        cmocka_unit_test(greetings_that_are_none_are_refused_and_the_right_one_is_heard),
	        cmocka_unit_test(a_second_first_process_is_told),
	        cmocka_unit_test(of_two_first_ones_that_start_at_once_one_is_told),
	};

	return cmocka_run_group_tests_name("greetings", tests, NULL, NULL);
}
