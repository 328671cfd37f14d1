/*
 * How the processes of a communicator find one another and gather small things, before and beside
 * the GPUs.  Every wait is bounded; a message names the process that is missing.  A boot that has
 * failed stays failed.
 */
#pragma once
#include "runtime/driver.h"
#include "runtime/libnccl.h"

struct rt_boot {
	unsigned process, processes;
	uint64_t timeout_ns;
	bool broken;
	struct rt_error failure; /* when broken */
	/* Gathers `bytes` of each process into recv, in order of processes.  false: e says why. */
	bool (*gather)(struct rt_boot *b, const void *send, void *recv, size_t bytes,
	               struct rt_error *e);
	void (*close)(struct rt_boot *b); /* frees b */
};

/* One process. */
struct rt_boot *rt_boot_local(struct rt_error *e);

/* The caller's allgather. */
struct rt_boot *rt_boot_callback(plait_allgather_fn fn, void *ctx, unsigned process,
                                 unsigned processes, struct rt_error *e);

/* Where a launcher's environment says that this process is. */
struct rt_world {
	unsigned process, processes; /* of all that the launcher started */
	int local;                   /* its number on this host; -1: not said */
	const char *launcher;        /* whose variables they are, for messages */
	char address[256];           /* of process 0 */
	unsigned port;               /* the first of those that are tried */
	uint64_t job;                /* a hash of what tells this run from others */
};

/* What reads a variable of the environment. */
struct rt_env {
	const char *(*get)(void *ctx, const char *name);
	void *ctx;
};
const char *rt_getenv(const struct rt_env *env, const char *name);

/*
 * RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_*, PMI_*, SLURM_*.  PLAIT_ENV: none is complete,
 * or one makes no sense.
 */
enum plait_status rt_world_read(const struct rt_env *env, struct rt_world *w, struct rt_error *e);

/* The number of this process on its host, as the launchers say it; -1: none does. */
int rt_local_rank(const struct rt_env *env);

/* TCP: processes [base, base + processes) of the world; the first of them gathers. */
struct rt_boot *rt_boot_tcp(const struct rt_world *w, unsigned base, unsigned processes,
                            uint64_t timeout_ns, struct rt_error *e);

/* The processes of an NCCL communicator, of one rank each; it stays the caller's. */
struct rt_boot *rt_boot_nccl(const struct rt_driver *drv, const struct rt_nccl *nccl,
                             struct nccl_comm *comm, uint64_t timeout_ns, struct rt_error *e);

/* Gathers with b, looks whether what this process sent is at its place, and remembers a failure. */
bool rt_boot_gather(struct rt_boot *b, const void *send, void *recv, size_t bytes,
                    struct rt_error *e);

void rt_boot_close(struct rt_boot *b);
