/* Descriptors passed between processes (here: threads), with somebody who sends his own. */
#include "tests/unit/unit.h"
#include "runtime/fdpass.h"
#include "tests/fake/ranks.h"
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A datagram that is not one of the group's, though who sends it may know the token. */
struct datagram {
	size_t bytes;
	unsigned descriptors;
	bool token;
	uint32_t process, n;
};

/* clang-format off */
static const struct datagram datagrams[] = {
	{24, 1, false, 0, 1},                                /* no token */
	{24, 1, false, 2, 1},
	{0, 0, true, 2, 1},                                  /* of other sizes */
	{1, 1, true, 2, 1}, {16, 1, true, 2, 1}, {23, 1, true, 2, 1}, {25, 1, true, 2, 1}, {4000, 1, true, 2, 1},
	{24, 0, true, 2, 1}, {24, 2, true, 2, 1}, {24, 16, true, 2, 1}, {24, 40, true, 2, 1}, {24, 250, true, 2, 1},
	{24, 0, true, 2, 0}, {24, 2, true, 2, 2}, {24, 1, true, 2, 2}, {24, 1, true, 2, UINT32_MAX},
	{24, 1, true, 1, 1}, {24, 0, true, 1, 0},            /* who gives none */
	{24, 1, true, 4, 1}, {24, 1, true, 31, 1}, {24, 1, true, 32, 1}, {24, 1, true, UINT32_MAX, 1},
};
/* clang-format on */

struct passing {
	const struct datagram *datagram;
	int given[RANKS];
	bool ok[RANKS];
	char error[RANKS][200];
};

/*
 * As somebody does who has read the sockets' names in /proc: sends datagrams of the right size,
 * with descriptors, before the group's own.
 */
static int gather_and_disturb(void *ctx, const void *send, void *recv, size_t bytes)
{
	struct ranks_thread *t = ctx;
	int r = ranks_gather(t, send, recv, bytes), fd;

	for (unsigned p = 0; p < t->processes && r == 0; p++) {
		const struct datagram *d = ((struct passing *)t->ctx)->datagram;
		struct sockaddr_un un = {.sun_family = AF_UNIX};
		char letter[4000] = {0};
		struct iovec io = {letter, d->bytes};
		union {
			struct cmsghdr align;
			char room[CMSG_SPACE(250 * sizeof fd)];
		} c = {0};
		struct msghdr m = {.msg_name = &un, .msg_iov = &io, .msg_iovlen = 1};
		struct cmsghdr *h;

		memcpy(un.sun_path + 1, (char *)recv + p * bytes, 32);
		m.msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 33);
		if (d->token)
			memcpy(letter, (char *)recv + p * bytes + 32, 16);
		memcpy(letter + 16, &d->process, 4);
		memcpy(letter + 20, &d->n, 4);
		if (d->descriptors) {
			m.msg_control = c.room;
			m.msg_controllen = CMSG_SPACE(d->descriptors * sizeof fd);
			h = CMSG_FIRSTHDR(&m);
			h->cmsg_level = SOL_SOCKET;
			h->cmsg_type = SCM_RIGHTS;
			h->cmsg_len = CMSG_LEN(d->descriptors * sizeof fd);
			fd = 2;
			for (unsigned i = 0; i < d->descriptors; i++)
				memcpy(CMSG_DATA(h) + i * sizeof fd, &fd, sizeof fd);
		}
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		for (unsigned i = 0; i < 5; i++)
			sendmsg(fd, &m, MSG_DONTWAIT);
		close(fd);
	}
	return r;
}

static void pass(struct ranks_thread *t)
{
	struct passing *x = t->ctx;
	struct rt_error e = {0};
	struct rt_boot *b = rt_boot_callback(gather_and_disturb, t, t->process, t->processes, &e);
	int got[RANKS * RT_FDS];
	unsigned n[RANKS];
	bool ok;

	for (unsigned p = 0; p < t->processes; p++)
		n[p] = p == 1 ? 0 : 1;
	ok = rt_fd_exchange(b, 5000000000u, &x->given[t->process], n, got, &e);
	for (unsigned p = 0; p < t->processes && ok; p++) {
		struct stat mine, theirs;

		if (p == t->process || p == 1) {
			ok = got[p * RT_FDS] == -1;
			continue;
		}
		ok = fstat(got[p * RT_FDS], &theirs) == 0 && fstat(x->given[p], &mine) == 0 &&
		     mine.st_ino == theirs.st_ino && got[p * RT_FDS + 1] == -1;
		close(got[p * RT_FDS]);
	}
	snprintf(x->error[t->process], sizeof x->error[0], "%.199s", e.text);
	x->ok[t->process] = ok;
	rt_boot_close(b);
}

static void descriptors_come_and_those_of_strangers_are_closed(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof datagrams / sizeof *datagrams; k++) {
		struct passing x = {.datagram = &datagrams[k]};
		int fds, pipes[RANKS][2];

		for (unsigned p = 0; p < 4; p++) {
			assert_int_equal(pipe(pipes[p]), 0);
			x.given[p] = pipes[p][0];
		}
		fds = ranks_fds();
		ranks_run(4, pass, &x);
		for (unsigned p = 0; p < 4; p++) {
			if (!x.ok[p])
				fail_msg("datagram %zu, process %u: %s", k, p, x.error[p]);
			close(pipes[p][0]);
			close(pipes[p][1]);
		}
		assert_int_equal(ranks_fds(), fds - 8);
	}
}

/* Who is missing is named, and the wait ends. */
static void withhold(struct ranks_thread *t)
{
	struct passing *x = t->ctx;
	struct rt_error e = {0};
	struct rt_boot *b = rt_boot_callback(ranks_gather, t, t->process, t->processes, &e);
	int got[RANKS * RT_FDS];
	unsigned n[RANKS] = {0, 0, t->process != 2}; /* process 2 thinks that it gives none */

	x->ok[t->process] = rt_fd_exchange(b, 200000000u, &x->given[t->process], n, got, &e);
	snprintf(x->error[t->process], sizeof x->error[0], "%.199s", e.text);
	rt_boot_close(b);
}

static void who_does_not_pass_his_own_is_named(void **state)
{
	struct passing x = {0};
	int fds = ranks_fds();

	(void)state;
	ranks_run(3, withhold, &x);
	assert_true(x.ok[2]);
	assert_false(x.ok[0] || x.ok[1]);
	assert_string_equal(x.error[0], "process 2 did not pass its descriptors within 0.2 s");
	assert_int_equal(ranks_fds(), fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(descriptors_come_and_those_of_strangers_are_closed),
	        cmocka_unit_test(who_does_not_pass_his_own_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
