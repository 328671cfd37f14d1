/*
 * A machine that is not there: a CUDA driver whose devices are numbers and whose memory is the
 * host's, so that what the runtime does with it can be looked at, counted, and made to fail at any
 * call.  Physical memory is a memfd: it can be exported, passed to another process and imported
 * there.
 *
 * Ranks are threads or forked processes.  What concerns one rank, its calls and which of them
 * fails, is of the thread; what concerns the machine is of the process.
 */
#pragma once
#include "runtime/libnccl.h"
#include <stdatomic.h>

enum { FAKE_DEVICES = 16 };

struct fake {
	/* what the machine is; set before it is used */
	int devices;
	bool no_vmm, no_fd, no_multicast;
	bool fabric; /* memory can be exported to other hosts */
	bool hang;   /* streams never finish */
	int slow;    /* queries of a stream that say that it has not finished, before one says so */
	/*
	 * Copies to the host stay on their way until so many queries of streams have been made; for
	 * ever, with the error that queries then give, where `sticky` is one.
	 */
	int hold, sticky;
	bool capturing; /* a thread has a capture in global mode */
	/* what a launch does to its stream's clock */
	void (*launched)(const struct cu_launch *l, void **extra);
	/* lost[a][b]: what device a writes to device b's memory does not arrive */
	bool lost[FAKE_DEVICES][FAKE_DEVICES];

	/* what has been done with it */
	atomic_int contexts, streams /* and events */, handles, reservations, mappings, allocations,
	        bound, comms, modules;
	atomic_int multicast_calls; /* of any kind */
	atomic_int wrong;     /* calls that the real driver would refuse, or block in for ever */
	char what_wrong[200]; /* of the first of them */
};
extern struct fake fake;

/* The machine anew, with so many devices; nothing may be alive. */
void fake_reset(int devices);

/* The clock of a stream, microseconds: events of it tell it, what waits for them is no earlier. */
double *fake_clock(struct cu_stream *s);

/* How many objects are alive. */
int fake_alive(void);

/*
 * The calling thread's calls so far, and the one (from 1) that fails; 0: none.  Calls that give
 * something back do not fail and do not count.
 */
struct fake_thread {
	int calls, fail_at;
	const char *failed; /* the symbol of the call that did */
};
extern _Thread_local struct fake_thread fake_thread;

extern const struct rt_driver fake_driver;

/*
 * NCCL without a network: communicators are counted, and collectives go through the thread's
 * gather, which is set where a test needs them.
 */
typedef int (*fake_gather_fn)(void *ctx, const void *send, void *recv, size_t bytes);
struct fake_nccl_rank {
	int rank, size, device;
	fake_gather_fn gather;
	void *ctx;
};
extern _Thread_local struct fake_nccl_rank fake_nccl_rank;
extern const struct rt_nccl fake_nccl;
