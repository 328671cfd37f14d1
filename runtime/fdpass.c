/* Passing file descriptors between the processes of a communicator. */
#include "runtime/fdpass.h"
#include "runtime/net.h"
#include "codegen/workspace.h"
#include "support/hash.h"
#include "support/text.h"
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

/* What a process says of its socket, before. */
struct address {
	char name[32]; /* of the abstract socket; no NUL */
	unsigned char token[16];
	int32_t ready;
	char why[92];
};

struct letter {
	unsigned char token[16]; /* the receiver's */
	uint32_t process, n;
};

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(int) * RT_FDS) + CMSG_SPACE(sizeof(struct ucred)) + 64];
};

struct exchange {
	struct rt_boot *b;
	const int *give;
	const unsigned *give_n;
	int *got;
	int fd;
	struct address at[CG_MAX_RANKS];
	uint32_t unsent, missing; /* processes */
};

uint64_t rt_host_id(const struct rt_env *env)
{
	const char *named = rt_getenv(env, "PLAIT_HOST_ID");
	uint64_t h = HASH_INIT;
	char text[128];
	struct utsname u;
	struct stat st;
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	size_t n = f ? fread(text, 1, sizeof text, f) : 0;

	if (f)
		fclose(f);
	if (named)
		return hash_bytes(h, named, strlen(named));
	h = hash_bytes(h, text, n);
	if (n == 0 && uname(&u) == 0)
		h = hash_bytes(h, u.nodename, strlen(u.nodename));
	if (stat("/proc/self/ns/net", &st) == 0)
		h = hash_bytes(h, &st.st_ino, sizeof st.st_ino);
	return h;
}

static void open_socket(struct exchange *x, struct address *a)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	unsigned char random[16];
	int one = 1;

	*a = (struct address){0};
	x->fd = -1;
	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random ||
	    getrandom(a->token, sizeof a->token, 0) != (ssize_t)sizeof a->token) {
		snprintf(a->why, sizeof a->why, "getrandom: %s", strerror(errno));
		return;
	}
	for (unsigned i = 0; i < sizeof a->name; i++)
		a->name[i] = "0123456789abcdef"[random[i / 2] >> (i % 2 ? 4 : 0) & 15];
	memcpy(un.sun_path + 1, a->name, sizeof a->name);
	x->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (x->fd < 0 || setsockopt(x->fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof one) != 0 ||
	    bind(x->fd, (struct sockaddr *)&un,
	         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + sizeof a->name)) != 0)
		snprintf(a->why, sizeof a->why, "a Unix socket: %s", strerror(errno));
	else
		a->ready = 1;
}

/* Sends to process p; false when it has to be tried again.  A failure is in e. */
static bool send_to(struct exchange *x, unsigned p, struct rt_error *e)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct letter l = {.process = x->b->process, .n = x->give_n[x->b->process]};
	struct iovec io = {&l, sizeof l};
	union control c = {0};
	struct msghdr m = {.msg_name = &un, .msg_iov = &io, .msg_iovlen = 1};
	struct cmsghdr *h;

	m.msg_namelen =
	        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + sizeof x->at[p].name);
	m.msg_control = c.room;
	m.msg_controllen = CMSG_SPACE(sizeof(int) * l.n);
	memcpy(un.sun_path + 1, x->at[p].name, sizeof x->at[p].name);
	memcpy(l.token, x->at[p].token, sizeof l.token);
	h = CMSG_FIRSTHDR(&m);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int) * l.n);
	memcpy(CMSG_DATA(h), x->give, sizeof(int) * l.n);
	if (sendmsg(x->fd, &m, MSG_NOSIGNAL) == (ssize_t)sizeof l)
		return true;
	if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS ||
	    errno == ETOOMANYREFS)
		return false;
	rt_fail(e, PLAIT_ENV, "descriptors cannot be passed to process %u: %s", p,
	        errno == ECONNREFUSED ? "it has gone, or is in another network namespace"
	                              : strerror(errno));
	return true;
}

/* What came with a datagram. */
struct parcel {
	int fd[RT_FDS];
	unsigned n;
	bool trusted; /* of the same user */
};

static void open_parcel(struct msghdr *m, struct parcel *p)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		if (h->cmsg_level != SOL_SOCKET)
			continue;
		if (h->cmsg_type == SCM_CREDENTIALS &&
		    h->cmsg_len >= CMSG_LEN(sizeof(struct ucred))) {
			struct ucred who;

			memcpy(&who, CMSG_DATA(h), sizeof who);
			p->trusted = who.uid == getuid() || who.uid == geteuid();
		} else if (h->cmsg_type == SCM_RIGHTS) {
			size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);

			for (size_t i = 0; i < n; i++) {
				int fd;

				memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
				if (p->n < RT_FDS)
					p->fd[p->n++] = fd;
				else
					close(fd);
			}
		}
	}
}

/* Takes one datagram; false when there is none. */
static bool receive(struct exchange *x)
{
	struct letter l;
	struct iovec io = {&l, sizeof l};
	union control c;
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
	struct parcel p = {.n = 0};
	ssize_t r;

	m.msg_control = c.room;
	m.msg_controllen = sizeof c.room;
	r = recvmsg(x->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (r < 0)
		return false;
	open_parcel(&m, &p);
	if (p.trusted && r == (ssize_t)sizeof l && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
	    memcmp(l.token, x->at[x->b->process].token, sizeof l.token) == 0 &&
	    l.process < x->b->processes && (x->missing >> l.process & 1) &&
	    l.n == x->give_n[l.process] && p.n == l.n) {
		memcpy(x->got + l.process * RT_FDS, p.fd, sizeof(int) * p.n);
		x->missing &= ~(1u << l.process);
		return true;
	}
	for (unsigned i = 0; i < p.n; i++)
		close(p.fd[i]);
	return true;
}

static bool pass(struct exchange *x, uint64_t timeout_ns, struct rt_error *e)
{
	uint64_t deadline = rt_deadline(timeout_ns);
	char who[200];

	while (x->unsent | x->missing) {
		struct pollfd w = {.fd = x->fd, .events = POLLIN};

		for (unsigned p = 0; p < x->b->processes; p++)
			if ((x->unsent >> p & 1) && send_to(x, p, e))
				x->unsent &= ~(1u << p);
		if (e->status != PLAIT_OK)
			return false;
		/*
		 * One at a time: a flood of strangers' datagrams is bounded by the deadline, too.
		 */
		receive(x);
		if (!(x->unsent | x->missing))
			break;
		if (rt_now_ns() >= deadline) {
			rt_name_processes(0, x->missing ? x->missing : x->unsent, who, sizeof who);
			rt_fail(e, PLAIT_TIMEOUT, "%s %s within %.1f s", who,
			        x->missing ? "did not pass its descriptors"
			                   : "did not take the descriptors",
			        (double)timeout_ns * 1e-9);
			return false;
		}
		poll(&w, 1, rt_poll_ms(deadline, x->unsent ? 1 : 200));
	}
	return true;
}

static bool all_ready(struct exchange *x, struct rt_error *e)
{
	for (unsigned p = 0; p < x->b->processes; p++)
		if (!x->at[p].ready) {
			x->at[p].why[sizeof x->at[p].why - 1] = '\0';
			text_make_plain(x->at[p].why);
			rt_fail(e, PLAIT_ENV, "process %u cannot take descriptors: %s", p,
			        x->at[p].why);
			return false;
		}
	return true;
}

bool rt_fd_exchange(struct rt_boot *b, uint64_t timeout_ns, const int *give, const unsigned *give_n,
                    int *got, struct rt_error *e)
{
	struct exchange x = {.b = b, .give = give, .give_n = give_n, .got = got};
	struct address mine;
	bool ok;

	memset(got, -1, sizeof *got * RT_FDS * b->processes);
	open_socket(&x, &mine);
	ok = rt_boot_gather(b, &mine, x.at, sizeof mine, e) && all_ready(&x, e);
	for (unsigned p = 0; p < b->processes; p++)
		if (p != b->process) {
			x.unsent |= (uint32_t)(give_n[b->process] > 0) << p;
			x.missing |= (uint32_t)(give_n[p] > 0) << p;
		}
	ok = ok && pass(&x, timeout_ns, e);
	if (x.fd >= 0)
		close(x.fd);
	for (unsigned i = 0; !ok && i < RT_FDS * b->processes; i++)
		if (got[i] >= 0) {
			close(got[i]);
			got[i] = -1;
		}
	return ok;
}
