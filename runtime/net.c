/* Sockets with deadlines. */
#include "runtime/net.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t rt_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t rt_later(uint64_t t, uint64_t ns)
{
	return ns < UINT64_MAX - t ? t + ns : UINT64_MAX;
}

uint64_t rt_deadline(uint64_t ns)
{
	return rt_later(rt_now_ns(), ns);
}

int rt_poll_ms(uint64_t deadline, int most)
{
	uint64_t now = rt_now_ns(), ms;

	if (now >= deadline)
		return 0;
	ms = (deadline - now) / 1000000 + 1;
	return ms < (uint64_t)most ? (int)ms : most;
}

struct addrinfo *rt_resolve(const char *host, struct rt_error *e)
{
	struct addrinfo hint = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *a = NULL;
	int r = getaddrinfo(host, NULL, &hint, &a);

	if (r == 0)
		return a;
	rt_fail(e, PLAIT_ENV, "the address '%s' cannot be resolved: %s", host, gai_strerror(r));
	return NULL;
}

bool rt_is_loopback(const struct addrinfo *a)
{
	if (a->ai_family == AF_INET)
		return (ntohl(((struct sockaddr_in *)(void *)a->ai_addr)->sin_addr.s_addr) >> 24) ==
		       127;
	if (a->ai_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(
		        &((struct sockaddr_in6 *)(void *)a->ai_addr)->sin6_addr);
	return false;
}

unsigned rt_port(unsigned p, unsigned step)
{
	const unsigned first = 1024, n = 65536 - first;

	return p + step < 65536 ? p + step : first + (p + step - 65536) % n;
}

static socklen_t with_port(const struct addrinfo *a, unsigned port, bool any,
                           struct sockaddr_storage *out)
{
	memset(out, 0, sizeof *out);
	memcpy(out, a->ai_addr, a->ai_addrlen);
	if (a->ai_family == AF_INET) {
		struct sockaddr_in *in = (struct sockaddr_in *)(void *)out;

		in->sin_port = htons((uint16_t)port);
		if (any)
			in->sin_addr.s_addr = htonl(INADDR_ANY);
	} else {
		struct sockaddr_in6 *in = (struct sockaddr_in6 *)(void *)out;

		in->sin6_port = htons((uint16_t)port);
		if (any)
			in->sin6_addr = in6addr_any;
	}
	return a->ai_addrlen;
}

int rt_listen(const struct addrinfo *a, unsigned port, unsigned ports)
{
	struct sockaddr_storage at;
	int fd, one = 1, zero = 0;

	if (a->ai_family != AF_INET && a->ai_family != AF_INET6)
		return -1;
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
	for (unsigned i = 0; i < ports; i++) {
		socklen_t n = with_port(a, rt_port(port, i), !rt_is_loopback(a), &at);

		/*
		 * Two may bind a port that nobody listens at yet; then one of them is refused here.
		 */
		if (bind(fd, (struct sockaddr *)&at, n) != 0)
			continue;
		if (listen(fd, 64) == 0)
			return fd;
		close(fd);
		return rt_listen(a, rt_port(port, i + 1), ports - i - 1);
	}
	close(fd);
	return -1;
}

void rt_no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
}

int rt_connect(const struct addrinfo *a, unsigned port, uint64_t deadline)
{
	struct sockaddr_storage at;
	struct pollfd p;
	socklen_t n;
	int fd, error = 0;
	socklen_t len = sizeof error;

	if (a->ai_family != AF_INET && a->ai_family != AF_INET6)
		return -1;
	n = with_port(a, port, false, &at);
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&at, n) != 0) {
		p = (struct pollfd){.fd = fd, .events = POLLOUT};
		if (errno != EINPROGRESS || poll(&p, 1, rt_poll_ms(deadline, 300)) <= 0 ||
		    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error) {
			close(fd);
			return -1;
		}
	}
	rt_no_delay(fd);
	return fd;
}

static enum rt_io all(int fd, char *p, size_t n, uint64_t deadline, short event)
{
	while (n > 0) {
		struct pollfd w = {.fd = fd, .events = event};
		ssize_t r = event == POLLIN ? recv(fd, p, n, 0) : send(fd, p, n, MSG_NOSIGNAL);

		if (r > 0) {
			p += r;
			n -= (size_t)r;
			continue;
		}
		if (r == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
			return RT_IO_GONE;
		if (rt_now_ns() >= deadline)
			return RT_IO_LATE;
		poll(&w, 1, rt_poll_ms(deadline, 1000));
	}
	return RT_IO_DONE;
}

enum rt_io rt_send_all(int fd, const void *p, size_t n, uint64_t deadline)
{
	return all(fd, (char *)(uintptr_t)p, n, deadline, POLLOUT);
}

enum rt_io rt_recv_all(int fd, void *p, size_t n, uint64_t deadline)
{
	return all(fd, p, n, deadline, POLLIN);
}

void rt_name_processes(unsigned base, uint32_t set, char *out, size_t n)
{
	size_t at = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < 32 && at < n; i++)
		if (set >> i & 1)
			at += (size_t)snprintf(out + at, n - at, "%s%u", at ? ", " : "process ",
			                       base + i);
}
