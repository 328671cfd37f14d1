/* Sockets with deadlines, for the bootstrap. */
#pragma once
#include "runtime/driver.h"
#include <netdb.h>
#include <sys/socket.h>

/* CLOCK_MONOTONIC */
uint64_t rt_now_ns(void);

/*
 * When `ns` will have passed, from t and from now: the one way to a deadline, for it does not wrap.
 * UINT64_MAX is never.
 */
uint64_t rt_later(uint64_t t, uint64_t ns);
uint64_t rt_deadline(uint64_t ns);

/* Milliseconds for poll() until the deadline, at most `most`; 0 when it is over. */
int rt_poll_ms(uint64_t deadline, int most);

/* Resolves; NULL with a message when it cannot.  The caller frees it. */
struct addrinfo *rt_resolve(const char *host, struct rt_error *e);

/* 127.0.0.0/8 or ::1 */
bool rt_is_loopback(const struct addrinfo *a);

/*
 * A listening socket, not blocking, at the first of `ports` ports from `port` that is free; -1 when
 * none is.  On the address itself when that is a loopback, else on all.
 */
int rt_listen(const struct addrinfo *a, unsigned port, unsigned ports);

/* A connected socket, not blocking; -1 when nobody answers before the deadline. */
int rt_connect(const struct addrinfo *a, unsigned port, uint64_t deadline);

/* Small messages go at once, and a peer that vanishes is noticed. */
void rt_no_delay(int fd);

enum rt_io { RT_IO_DONE, RT_IO_LATE, RT_IO_GONE };
/* All n bytes, or why not: the deadline is over, or the other side has closed or failed. */
enum rt_io rt_send_all(int fd, const void *p, size_t n, uint64_t deadline);
enum rt_io rt_recv_all(int fd, void *p, size_t n, uint64_t deadline);

/* "process 3, 5": base + i for every bit i of the set, as much as fits into out[n]. */
void rt_name_processes(unsigned base, uint32_t set, char *out, size_t n);

/* The port that is `step` after p, among those that need no privilege. */
unsigned rt_port(unsigned p, unsigned step);
