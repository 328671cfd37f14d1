/* Ranks as threads or as forked processes, for tests of what they do together. */
#pragma once
#include "tests/fake/fake.h"

enum { RANKS = 16 };

/* What threads gather through.  A thread that has ended makes the others' gather fail. */
struct ranks_meeting;

struct ranks_thread {
	unsigned process, processes;
	struct ranks_meeting *meeting;
	void *ctx;   /* the test's */
	bool strays; /* may come to another exchange than the others: then theirs fails, as its own */
};

/* Runs f in `processes` threads and waits for all of them. */
void ranks_run(unsigned processes, void (*f)(struct ranks_thread *t), void *ctx);

/* An allgather of the threads; ctx is the struct ranks_thread. */
int ranks_gather(void *ctx, const void *send, void *recv, size_t bytes);

/*
 * Forks `processes` children that run f and exit with what it returns, and waits at most `seconds`.
 * What a child writes to `say` (NUL-terminated, at most 1000 bytes) is then in said[].  exit[] is
 * its exit status, or -1: it was killed, or did not end in time.
 */
struct ranks_child {
	unsigned process, processes;
	char *say;
	void *ctx;
};
struct ranks_result {
	int exit[RANKS];
	char said[RANKS][1000];
};
void ranks_fork(unsigned processes, unsigned seconds, int (*f)(struct ranks_child *c), void *ctx,
                struct ranks_result *out);

/* Open descriptors of this process. */
int ranks_fds(void);
