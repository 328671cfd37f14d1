/*
 * A CUDA driver whose GPUs are the simulator's ranks: memory, copies, modules (from PTX), streams and
 * launches, enough for a communicator of one process and all that is made of it.  So what plait_launch
 * enqueues is executed, with every check of the simulator's.
 *
 * Kernels are queued by launches and run when something is waited for, copied or set.  One at a time;
 * not for threads.
 */
#pragma once
#include "runtime/comm.h"
#include "sim/sim.h"

struct sim_driver_options {
	unsigned gpus;
	bool multicast;
	bool one_gpu;           /* the ranks are said to be on one, though each has its memory */
	struct sim_options sim; /* ranks is set to gpus */
};

enum sim_driver_call { SIM_DRIVER_LAUNCH, SIM_DRIVER_HOST, SIM_DRIVER_RECORD, SIM_DRIVER_WAIT };
struct sim_driver_entry {
	enum sim_driver_call what;
	const struct cu_stream *stream;
	const void *other; /* the function, the host function's context, the event */
};

struct sim_driver {
	struct rt_driver table;
	struct sim_driver_options o;
	struct sim *sim;
	struct arena *a;
	unsigned calls, fail_at; /* the call with this number (from 1) fails; 0: none does */
	unsigned live;           /* things made and not yet given back */
	unsigned allocations; /* made since it was set to 0; so are loads and synchronisations: */
	unsigned loads, waits, multicasts;
	bool capturing;               /* what streams say; nothing is captured */
	bool failed;                  /* the simulator found something: see sim_render_findings */
	struct sim_driver_entry *log; /* the test's: what was enqueued */
	size_t nlog, log_room;
	struct sim_launch_seen { /* the last launch */
		unsigned grid, block, shared, rank, nattr;
		int attr, attr_value;
		uint32_t bytes;
		unsigned char block_[4096];
	} last;
};

/* The one driver; its memory is in `a`, until the next begins. */
struct sim_driver *sim_driver_begin(struct arena *a, const struct sim_driver_options *o);

/* Runs what is queued; false: a finding. */
bool sim_driver_run(struct sim_driver *d);

/* Enqueues a function of the host's, as a kernel that is not there (sim_host). */
void sim_driver_host(struct cu_stream *s, bool (*fn)(void *ctx, struct sim *sim, unsigned rank),
                     void *ctx);

/* An NCCL of its ranks, which are all of one process. */
const struct rt_nccl *sim_nccl_begin(struct sim_driver *d);
