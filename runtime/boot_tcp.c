/*
 * The launcher's processes over TCP.  The first process of the group gathers for all: it listens,
 * the others find it by the launcher's address and a port near the launcher's, and a connection
 * stays for each of them.  A greeting has a magic number, a version and the group's key, so that
 * other servers, groups and old runs do not mix.  Like the launchers' own rendezvous it trusts the
 * network of the job.
 */
#include "runtime/net.h"
#include "runtime/boot.h"
#include "codegen/workspace.h"
#include "support/hash.h"
#include "support/text.h"
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
	VERSION = 1,
	PORTS = 16,   /* that are tried, one after the other */
	PENDING = 64, /* connections that have not said who they are */
	MAX_BYTES = 1 << 26,
};

static const char magic[8] = {'P', 'L', 'A', 'I', 'T', 'B', 'T', '\n'};

struct hello {
	char magic[8];
	uint32_t order; /* 0x01020304 in the sender's order of bytes */
	uint32_t version;
	uint64_t key;
	uint32_t process, zero;
};

enum answer { WELCOME, NOT_THIS, OTHER_VERSION, TWICE };

struct reply {
	char magic[8];
	uint32_t version;
	uint32_t answer;
	uint64_t session; /* drawn by the first process; in each frame */
};

enum kind { DATA = 0x61746164, FAILURE = 0x6c696166 };

struct frame {
	uint32_t kind, process;
	uint64_t session, number, bytes; /* of a FAILURE: its text's */
};

struct tcp {
	struct rt_boot b;
	unsigned base; /* the world's number of process 0, for messages */
	uint64_t key, session, number;
	int fd[CG_MAX_RANKS]; /* process 0: of each other; else [0]: process 0's */
};

struct pending {
	int fd;
	size_t got;
	struct hello hello;
	uint64_t since;
};

struct join {
	struct tcp *t;
	int listener;
	struct pending p[PENDING];
	unsigned np, joined;
};

static void close_tcp(struct rt_boot *b)
{
	struct tcp *t = (struct tcp *)b;

	for (unsigned i = 0; i < CG_MAX_RANKS; i++)
		if (t->fd[i] >= 0)
			close(t->fd[i]);
	free(t);
}

/* ---- joining: process 0 ---- */

static void drop_pending(struct join *j, unsigned i)
{
	if (j->p[i].fd >= 0)
		close(j->p[i].fd);
	j->p[i] = j->p[--j->np];
}

/* No more at once than there is room for: who floods the port must not keep others waiting. */
static void accept_all(struct join *j)
{
	for (unsigned i = 0; i < PENDING; i++) {
		int fd = accept4(j->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		rt_no_delay(fd);
		if (j->np == PENDING)
			drop_pending(j, 0); /* of the oldest: who means well says so at once */
		j->p[j->np++] = (struct pending){.fd = fd, .since = rt_now_ns()};
	}
}

static enum answer judge(const struct join *j, const struct hello *h)
{
	const struct tcp *t = j->t;

	if (h->key != t->key || h->process >= t->b.processes)
		return NOT_THIS;
	if (h->version != VERSION)
		return OTHER_VERSION;
	return h->process == 0 || t->fd[h->process] >= 0 ? TWICE : WELCOME;
}

/* The greeting is complete: answers, and keeps the connection if it is of the group. */
static void greet(struct join *j, struct pending *p)
{
	struct reply r = {.version = VERSION, .session = j->t->session};

	if (memcmp(p->hello.magic, magic, sizeof magic) != 0 || p->hello.order != 0x01020304)
		return;
	memcpy(r.magic, magic, sizeof magic);
	r.answer = judge(j, &p->hello);
	if (r.answer != WELCOME)
		r.session = 0;
	if (rt_send_all(p->fd, &r, sizeof r, 0) != RT_IO_DONE || r.answer != WELCOME)
		return;
	j->t->fd[p->hello.process] = p->fd;
	j->joined++;
	p->fd = -1;
}

/* Reads what is there of a greeting; whether the connection is settled, one way or the other. */
static bool read_pending(struct join *j, struct pending *p)
{
	ssize_t r = recv(p->fd, (char *)&p->hello + p->got, sizeof p->hello - p->got, 0);

	if (r <= 0)
		return r == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
	p->got += (size_t)r;
	if (p->got < sizeof p->hello)
		return false;
	greet(j, p);
	return true;
}

/* A process that came and went may come again. */
static void drop_dead(struct join *j)
{
	struct tcp *t = j->t;

	for (unsigned i = 1; i < t->b.processes; i++) {
		char c;
		ssize_t r;

		if (t->fd[i] < 0)
			continue;
		r = recv(t->fd[i], &c, 1, MSG_PEEK | MSG_DONTWAIT);
		if (r == 0 ||
		    (r < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
			close(t->fd[i]);
			t->fd[i] = -1;
			j->joined--;
		}
	}
}

static bool join_all(struct join *j, uint64_t deadline, struct rt_error *e)
{
	const uint64_t patience = 5000000000u;
	struct pollfd w[PENDING + 1];
	struct tcp *t = j->t;
	char who[256];

	while (j->joined < t->b.processes - 1) {
		if (rt_now_ns() >= deadline) {
			uint32_t late = 0;

			for (unsigned i = 1; i < t->b.processes; i++)
				late |= (uint32_t)(t->fd[i] < 0) << i;
			rt_name_processes(t->base, late, who, sizeof who);
			rt_fail(e, PLAIT_TIMEOUT, "%s did not come within %.1f s", who,
			        (double)t->b.timeout_ns * 1e-9);
			return false;
		}
		w[0] = (struct pollfd){.fd = j->listener, .events = POLLIN};
		for (unsigned i = 0; i < j->np; i++)
			w[i + 1] = (struct pollfd){.fd = j->p[i].fd, .events = POLLIN};
		poll(w, j->np + 1, rt_poll_ms(deadline, 200));
		drop_dead(j);
		for (unsigned i = j->np; i-- > 0;)
			if ((w[i + 1].revents && read_pending(j, &j->p[i])) ||
			    rt_now_ns() - j->p[i].since > patience)
				drop_pending(j, i);
		accept_all(j);
	}
	return true;
}

static bool is_only_first(struct tcp *t, const struct addrinfo *a, unsigned port, int listener,
                          uint64_t deadline, struct rt_error *e);

static bool serve(struct tcp *t, const struct rt_world *w, struct rt_error *e)
{
	uint64_t deadline = rt_deadline(t->b.timeout_ns);
	struct join *j = calloc(1, sizeof *j);
	struct addrinfo *a = rt_resolve(w->address, e);
	bool ok = false;

	if (!j)
		rt_fail(e, PLAIT_NOMEM, "out of memory");
	if (j && a) {
		j->t = t;
		while ((j->listener = rt_listen(a, rt_port(w->port, t->base), PORTS)) < 0 &&
		       rt_now_ns() < deadline)
			usleep(50000);
		if (j->listener < 0)
			rt_fail(e, PLAIT_ENV,
			        "none of %d ports from %u is free; set PLAIT_PORT to another one",
			        PORTS, rt_port(w->port, t->base));
		else
			ok = is_only_first(t, a, rt_port(w->port, t->base), j->listener, deadline,
			                   e) &&
			     join_all(j, deadline, e);
		while (j->np)
			drop_pending(j, j->np - 1);
		if (j->listener >= 0)
			close(j->listener);
	}
	if (a)
		freeaddrinfo(a);
	free(j);
	return ok;
}

/* ---- joining: the others ---- */

/* What became of one attempt. */
enum attempt { JOINED, NOBODY, STRANGER, REFUSED };

static enum attempt knock(struct tcp *t, const struct addrinfo *a, unsigned port, uint64_t deadline,
                          struct rt_error *e)
{
	struct hello h = {.order = 0x01020304, .version = VERSION, .key = t->key};
	uint64_t soon = rt_deadline(1000000000u);
	struct reply r;
	int fd = rt_connect(a, port, deadline);

	if (fd < 0)
		return NOBODY;
	memcpy(h.magic, magic, sizeof magic);
	h.process = t->b.process;
	if (soon > deadline)
		soon = deadline;
	if (rt_send_all(fd, &h, sizeof h, soon) != RT_IO_DONE ||
	    rt_recv_all(fd, &r, sizeof r, soon) != RT_IO_DONE ||
	    memcmp(r.magic, magic, sizeof magic) != 0 || r.answer == NOT_THIS || r.answer > TWICE) {
		close(fd);
		return STRANGER;
	}
	if (r.answer == WELCOME) {
		t->fd[0] = fd;
		t->session = r.session;
		return JOINED;
	}
	close(fd);
	if (r.answer == OTHER_VERSION)
		rt_fail(e, PLAIT_MISMATCH,
		        "process %u speaks version %u of the rendezvous, this one version %d: "
		        "different versions of plait",
		        t->base, r.version, VERSION);
	else
		rt_fail(e, PLAIT_MISMATCH, "two processes say that they are process %u",
		        t->base + t->b.process);
	return REFUSED;
}

/*
 * Process 0, which listens, asks whether another one does, at a port before its own: that happens when a
 * launcher's variables are those of another process, and it would wait for those that the other has.
 */
static bool is_only_first(struct tcp *t, const struct addrinfo *a, unsigned port, int listener,
                          uint64_t deadline, struct rt_error *e)
{
	const uint64_t patience = 300000000u;
	struct sockaddr_storage own = {0};
	socklen_t n = sizeof own;
	unsigned mine;

	if (getsockname(listener, (struct sockaddr *)&own, &n) != 0)
		return true;
	mine = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
	                                       : ((struct sockaddr_in *)&own)->sin_port);
	for (unsigned i = 0; i < PORTS && rt_port(port, i) != mine && rt_now_ns() < deadline; i++) {
		uint64_t soon = rt_deadline(patience);

		if (knock(t, a, rt_port(port, i), soon < deadline ? soon : deadline, e) == REFUSED)
			return false;
	}
	return true;
}

/*
 * Tries all ports at the launcher's address, then on this host: process 0 of a group need not be
 * where process 0 of the world is.
 */
static enum attempt knock_everywhere(struct tcp *t, const struct addrinfo *a,
                                     const struct addrinfo *here, unsigned port, uint64_t deadline,
                                     bool *stranger, struct rt_error *e)
{
	for (unsigned i = 0; i < PORTS; i++)
		for (unsigned n = 0; n < 2; n++) {
			const struct addrinfo *at = n ? here : a;
			enum attempt r;

			if (!at || (n && rt_is_loopback(a)) || rt_now_ns() >= deadline)
				continue;
			r = knock(t, at, rt_port(port, i), deadline, e);
			if (r == JOINED || r == REFUSED)
				return r;
			*stranger |= r == STRANGER;
		}
	return NOBODY;
}

static bool seek(struct tcp *t, const struct rt_world *w, struct rt_error *e)
{
	uint64_t deadline = rt_deadline(t->b.timeout_ns);
	unsigned port = rt_port(w->port, t->base), pause_us = 10000;
	struct addrinfo *a = rt_resolve(w->address, e), *here = NULL;
	enum attempt r = NOBODY;
	bool stranger = false;
	struct rt_error ignored = {0};

	if (!a)
		return false;
	here = rt_resolve("127.0.0.1", &ignored);
	while (r == NOBODY && rt_now_ns() < deadline) {
		r = knock_everywhere(t, a, here, port, deadline, &stranger, e);
		if (r == NOBODY)
			usleep(pause_us);
		pause_us = pause_us < 200000 ? pause_us * 2 : pause_us;
	}
	if (r == NOBODY)
		rt_fail(e, PLAIT_TIMEOUT,
		        "process %u was not found within %.1f s at %s, ports %u and the next %d%s",
		        t->base, (double)t->b.timeout_ns * 1e-9, w->address, port, PORTS - 1,
		        stranger ? "; who answers there is of another group or another program"
		                 : "");
	freeaddrinfo(a);
	if (here)
		freeaddrinfo(here);
	return r == JOINED;
}

/* ---- gathering ---- */

/* Tells the others why there is nothing more to wait for.  What they have sent meanwhile is read: a
 * socket that is closed with something unread takes back what it said last. */
static void tell(struct tcp *t, const struct rt_error *why)
{
	struct frame f = {.kind = FAILURE, .session = t->session, .number = t->number};
	uint64_t deadline = rt_deadline(1000000000u);
	char waste[4096];

	f.process = (uint32_t)why->status;
	f.bytes = strlen(why->text);
	for (unsigned i = 0; i < t->b.processes; i++)
		if (t->fd[i] >= 0 &&
		    (rt_send_all(t->fd[i], &f, sizeof f, deadline) != RT_IO_DONE ||
		     rt_send_all(t->fd[i], why->text, (size_t)f.bytes, deadline) != RT_IO_DONE ||
		     shutdown(t->fd[i], SHUT_WR) != 0)) {
			close(t->fd[i]);
			t->fd[i] = -1;
		}
	for (unsigned i = 0; i < t->b.processes; i++)
		while (t->fd[i] >= 0 && rt_now_ns() < deadline && /* also of one who never stops */
		       rt_recv_all(t->fd[i], waste, sizeof waste, deadline) == RT_IO_DONE)
			;
}

/* The head of a frame that should be DATA: false with a message when it is not. */
static bool check(struct tcp *t, unsigned from, const struct frame *f, size_t bytes,
                  uint64_t deadline, struct rt_error *e)
{
	int fd = t->fd[t->b.process ? 0 : from];
	char text[600] = "";

	if (f->session != t->session || (f->kind != DATA && f->kind != FAILURE)) {
		rt_fail(e, PLAIT_ENV, "process %u sends what is not of this rendezvous",
		        t->base + from);
	} else if (f->kind == FAILURE) {
		size_t n = f->bytes < sizeof text - 1 ? (size_t)f->bytes : sizeof text - 1;

		if (rt_recv_all(fd, text, n, deadline) != RT_IO_DONE)
			text[0] = '\0';
		text_make_plain(text);
		rt_fail(e, f->process == PLAIT_TIMEOUT ? PLAIT_TIMEOUT : PLAIT_ENV, "%s",
		        *text ? text : "the rendezvous was given up");
	} else if (f->number != t->number || f->bytes != bytes) {
		rt_fail(e, PLAIT_MISMATCH,
		        "process %u makes another collective call (exchange %llu of %llu bytes) "
		        "than process %u (%llu of %zu)",
		        t->base + from, (unsigned long long)f->number, (unsigned long long)f->bytes,
		        t->base + t->b.process, (unsigned long long)t->number, bytes);
	} else {
		return true;
	}
	return false;
}

static void explain(struct tcp *t, unsigned from, enum rt_io r, struct rt_error *e)
{
	if (r == RT_IO_GONE)
		rt_fail(e, PLAIT_ENV, "process %u has gone", t->base + from);
	else
		rt_fail(e, PLAIT_TIMEOUT, "process %u did not come within %.1f s", t->base + from,
		        (double)t->b.timeout_ns * 1e-9);
}

/* One process's part of an exchange, as far as it has come. */
struct part {
	struct frame head;
	size_t got; /* bytes, the head included */
};

/* Reads what is there.  RT_IO_LATE: not all yet. */
static enum rt_io read_part(struct tcp *t, unsigned from, struct part *p, char *to, size_t bytes,
                            struct rt_error *e)
{
	for (;;) {
		size_t head = sizeof p->head;
		char *at = p->got < head ? (char *)&p->head + p->got : to + (p->got - head);
		size_t left = p->got < head ? head - p->got : head + bytes - p->got;
		ssize_t r = left ? recv(t->fd[from], at, left, 0) : 0;

		if (left == 0)
			return RT_IO_DONE;
		if (r < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
			return RT_IO_LATE;
		if (r <= 0) {
			explain(t, from, RT_IO_GONE, e);
			return RT_IO_GONE;
		}
		p->got += (size_t)r;
		if (p->got == head && !check(t, from, &p->head, bytes, rt_deadline(1000000000u), e))
			return RT_IO_GONE;
	}
}

/* Process 0 reads from all at once, so that the message names all who are late. */
static bool collect(struct tcp *t, char *recv, size_t bytes, uint64_t deadline, struct rt_error *e)
{
	struct part part[CG_MAX_RANKS] = {0};
	uint32_t late = ((1u << t->b.processes) - 1) & ~1u;
	char who[256];

	while (late) {
		struct pollfd w[CG_MAX_RANKS];
		unsigned n = 0;

		for (unsigned i = 1; i < t->b.processes; i++)
			if (late >> i & 1) {
				enum rt_io r =
				        read_part(t, i, &part[i], recv + i * bytes, bytes, e);

				if (r == RT_IO_GONE)
					return false;
				if (r == RT_IO_DONE)
					late &= ~(1u << i);
				else
					w[n++] = (struct pollfd){.fd = t->fd[i], .events = POLLIN};
			}
		if (late && rt_now_ns() >= deadline) {
			rt_name_processes(t->base, late, who, sizeof who);
			rt_fail(e, PLAIT_TIMEOUT, "%s did not come within %.1f s", who,
			        (double)t->b.timeout_ns * 1e-9);
			return false;
		}
		if (late)
			poll(w, n, rt_poll_ms(deadline, 1000));
	}
	return true;
}

static bool gather_first(struct tcp *t, const void *send, char *recv, size_t bytes,
                         struct rt_error *e)
{
	uint64_t deadline = rt_deadline(t->b.timeout_ns);
	struct frame f = {.kind = DATA,
	                  .session = t->session,
	                  .number = t->number,
	                  .bytes = bytes * t->b.processes};

	memcpy(recv, send, bytes);
	if (!collect(t, recv, bytes, deadline, e)) {
		tell(t, e);
		return false;
	}
	deadline = rt_deadline(t->b.timeout_ns);
	for (unsigned i = 1; i < t->b.processes; i++) {
		enum rt_io r = rt_send_all(t->fd[i], &f, sizeof f, deadline);

		if (r == RT_IO_DONE)
			r = rt_send_all(t->fd[i], recv, (size_t)f.bytes, deadline);
		if (r != RT_IO_DONE) {
			explain(t, i, r, e);
			tell(t, e);
			return false;
		}
	}
	return true;
}

/* The others wait a little longer than process 0, which knows who is late and tells. */
static bool gather_other(struct tcp *t, const void *send, void *recv, size_t bytes,
                         struct rt_error *e)
{
	uint64_t deadline =
	        rt_later(rt_deadline(t->b.timeout_ns), t->b.timeout_ns / 4 + 1000000000u);
	struct frame f = {.kind = DATA, .session = t->session, .number = t->number, .bytes = bytes};
	enum rt_io r;

	f.process = t->b.process;
	r = rt_send_all(t->fd[0], &f, sizeof f, deadline);
	if (r == RT_IO_DONE)
		r = rt_send_all(t->fd[0], send, bytes, deadline);
	/* Also when it did not take them: it may have said why before it went. */
	if (r != RT_IO_LATE)
		r = rt_recv_all(t->fd[0], &f, sizeof f, deadline);
	if (r == RT_IO_DONE) {
		if (!check(t, 0, &f, bytes * t->b.processes, deadline, e))
			return false;
		r = rt_recv_all(t->fd[0], recv, (size_t)f.bytes, deadline);
	}
	if (r != RT_IO_DONE)
		explain(t, 0, r, e);
	return r == RT_IO_DONE;
}

static bool gather_tcp(struct rt_boot *b, const void *send, void *recv, size_t bytes,
                       struct rt_error *e)
{
	struct tcp *t = (struct tcp *)b;

	if (bytes > MAX_BYTES) {
		rt_fail(e, PLAIT_INTERNAL, "%zu bytes are too many to gather", bytes);
		return false;
	}
	t->number++;
	return b->process ? gather_other(t, send, recv, bytes, e)
	                  : gather_first(t, send, recv, bytes, e);
}

struct rt_boot *rt_boot_tcp(const struct rt_world *w, unsigned base, unsigned processes,
                            uint64_t timeout_ns, struct rt_error *e)
{
	struct tcp *t = calloc(1, sizeof *t);
	uint32_t shape[3] = {w->processes, base, processes};

	if (!t) {
		rt_fail(e, PLAIT_NOMEM, "out of memory");
		return NULL;
	}
	t->b = (struct rt_boot){.process = w->process - base,
	                        .processes = processes,
	                        .timeout_ns = timeout_ns,
	                        .gather = gather_tcp,
	                        .close = close_tcp};
	t->base = base;
	t->key = hash_bytes(w->job, shape, sizeof shape);
	memset(t->fd, -1, sizeof t->fd);
	if (t->b.process == 0 &&
	    getrandom(&t->session, sizeof t->session, 0) != (ssize_t)sizeof t->session)
		t->session = rt_now_ns();
	if (processes > 1 && !(t->b.process ? seek(t, w, e) : serve(t, w, e))) {
		if (t->b.process == 0)
			tell(t, e);
		close_tcp(&t->b);
		return NULL;
	}
	return &t->b;
}
