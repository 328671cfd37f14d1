/*
 * What is behind plait_comm and plait_buffer, and what the rest of the runtime does with them:
 * agree, gather, wait for a stream.  Every call that says "collective" is made once per process and
 * in the same order by all of them; all of them get the same outcome unless the communicator breaks
 * (a process dies or does not come), and then every later call fails at once.
 */
#pragma once
#include "runtime/boot.h"
#include "runtime/driver.h"
#include "runtime/libnccl.h"
#include "codegen/workspace.h"

/* One rank of this process. */
struct rt_local {
	unsigned rank;
	cu_device device;
	struct cu_ctx *ctx;       /* the device's primary context, retained */
	struct cu_stream *stream; /* for set-up only; of ctx, non-blocking */
};

/* What all know of each rank. */
struct rt_rank {
	uint64_t host;    /* same value: descriptors can be passed, peers can be mapped */
	uint32_t process; /* that drives it */
	int32_t ordinal;  /* CUDA ordinal, there */
	int32_t major, minor, sms;
	uint32_t shared_optin;              /* bytes of shared memory a CTA can get */
	int32_t vmm, fd, fabric, multicast; /* what the driver says of the GPU */
	int32_t multicast_off;  /* and who has switched it off: 0: nobody; rt_why_no_multicast */
	unsigned char uuid[16]; /* of the GPU */
	char name[64];          /* of the GPU */
};

struct plait_comm {
	const struct rt_driver *drv;
	struct rt_driver own_drv;   /* drv, unless a test handed in another */
	const struct rt_nccl *nccl; /* NULL: NCCL is not used */
	struct rt_nccl own_nccl;
	struct rt_boot *boot;
	unsigned size, first, nlocal, process, processes;
	struct rt_local local[CG_MAX_RANKS];
	struct rt_rank rank[CG_MAX_RANKS];
	uint64_t timeout_ns;       /* of a wait in a kernel */
	uint64_t setup_timeout_ns; /* of a wait for peers in a collective call */
	enum plait_transport transport;
	int handle_type; /* how memory goes from process to process: RT_CU_MEM_HANDLE_TYPE_... */
	struct nccl_comm *nccl_comm[CG_MAX_RANKS]; /* [nlocal], when transport is PLAIT_BY_NCCL */
	bool nccl_owned;
	char why[4096];
	struct rt_error error; /* of the last call that failed */
};

/* One symmetric allocation, mapped; what is not there is 0. */
struct rt_memory {
	size_t bytes;                /* on each rank, rounded up */
	cu_handle own[CG_MAX_RANKS]; /* [nlocal] */
	bool have[CG_MAX_RANKS];     /* own */
	cu_address va[CG_MAX_RANKS]; /* [size]: rank r's, at one address for all local ranks */
	size_t reserved[CG_MAX_RANKS];
	bool mapped[CG_MAX_RANKS];
	cu_handle mc; /* the multicast object */
	bool have_mc;
	cu_address mc_va[CG_MAX_RANKS]; /* [nlocal] */
	size_t mc_reserved[CG_MAX_RANKS];
	bool mc_mapped[CG_MAX_RANKS], mc_bound[CG_MAX_RANKS];
};

struct plait_buffer {
	plait_comm *comm;
	size_t bytes; /* that may be used; at least those asked for */
	/*
	 * peer[local][rank]: where `local` finds rank's memory; 0: it cannot (only with
	 * PLAIT_BY_NCCL)
	 */
	plait_address peer[CG_MAX_RANKS][CG_MAX_RANKS];
	plait_address multicast[CG_MAX_RANKS]; /* [nlocal]; 0: there is none, then on no rank */
	bool owned;                            /* memory is of ours; else the caller's */
	struct rt_memory memory;
};

/* What a test may put in place of the machine; a NULL member is the real thing. */
struct rt_hooks {
	const struct rt_driver *drv;
	const struct rt_nccl *nccl;
	const char *(*env)(void *ctx, const char *name);
	void *ctx;
};

/* plait_comm_create with a machine of the test's. */
enum plait_status rt_comm_create(const struct plait_comm_options *o, const struct rt_hooks *h,
                                 plait_comm **out);

/* ---- collective; each leaves its message in c->error ---- */

/* Gathers `bytes` of every process, in order of processes. */
enum plait_status rt_gather(plait_comm *c, const void *send, void *recv, size_t bytes);

/*
 * All succeed or all fail: what this process has to say is c->error (status PLAIT_OK: well).  When
 * any has failed, c->error becomes the failure of the first that did, with its rank, on all, and
 * its status is returned.  Is a barrier, too.
 */
enum plait_status rt_vote(plait_comm *c);

/* Fails with PLAIT_MISMATCH, and names the ranks and `what`, unless all have the same value. */
enum plait_status rt_same(plait_comm *c, const char *what, uint64_t value);

/* ---- of this process alone ---- */

/* Makes the rank's context current, and back.  A call that changes it does so between these two. */
bool rt_enter(plait_comm *c, unsigned local);
void rt_leave(plait_comm *c);

/* Waits for a stream of a rank, at most the time for set-up; the rank's context is current. */
bool rt_wait(plait_comm *c, unsigned local, struct cu_stream *s);

/* Puts "rank R: " before the message of c->error: the rank is the local one's. */
void rt_blame(plait_comm *c, unsigned local);

/* A line more of why the transport is what it is. */
void rt_why(plait_comm *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- the parts of plait_comm_create and plait_buffer_create ---- */

/* Collective: finds c->transport, by trying. */
enum plait_status rt_find_transport(plait_comm *c, const struct plait_comm_options *o,
                                    const struct rt_hooks *h);

/* Collective: an NCCL communicator for each rank of this process in out[nlocal]; opens NCCL.  What was
 * made before a failure is there, too. */
enum plait_status rt_nccl_ranks(plait_comm *c, struct nccl_comm **out);
void rt_nccl_ranks_free(plait_comm *c, struct nccl_comm **comm);

/* What has switched multicast off here: 0: nothing; else the text says, "NCCL_NVLS_ENABLE=0". */
int rt_why_no_multicast(const struct rt_env *env, enum plait_transport at_most);
bool rt_is_why_no_multicast(int why); /* one of the above, 0 included */
void rt_why_no_multicast_text(int why, char *out, size_t n);

/*
 * Collective: allocates, maps what c->transport (or `by`) lets map, and zeroes.  When the multicast
 * object cannot be made, the memory has none, on all ranks, and c->why says so.  On failure nothing
 * is left.
 */
enum plait_status rt_memory_create(plait_comm *c, struct rt_memory *m, size_t bytes,
                                   enum plait_transport by);
void rt_memory_free(plait_comm *c, struct rt_memory *m);

/*
 * Collective: makes the multicast object of memory that is mapped.  PLAIT_OK: m->mc_va is there on
 * all ranks; else nothing of it is left on any.
 */
enum plait_status rt_multicast_create(plait_comm *c, struct rt_memory *m);
void rt_multicast_free(plait_comm *c, struct rt_memory *m);

/* How a handle is written to go to another process: a descriptor, or bytes. */
union rt_shared {
	int fd;
	unsigned char fabric[64]; /* CUmemFabricHandle */
};

bool rt_export(plait_comm *c, cu_handle h, union rt_shared *out);
/*
 * Collective: process p gives n[p] handles, exported by c->handle_type; got[p * RT_FDS + i] are the
 * others', for rt_import.  false with a message: vote afterwards.  rt_shared_close closes what was
 * given or got.
 */
bool rt_exchange(plait_comm *c, const union rt_shared *give, const unsigned *n,
                 union rt_shared *got);
bool rt_import(plait_comm *c, union rt_shared *from, cu_handle *h);
void rt_shared_close(const plait_comm *c, union rt_shared *s, unsigned n);

/* The granularity that memory of every rank needs; 0 with a message on failure. */
size_t rt_granularity(plait_comm *c, enum plait_transport by);

/*
 * Reserves, maps and opens h to the local rank's GPU, or to those of all when local is -1.  What
 * was done before a failure is in the three, for rt_unmap.
 */
bool rt_map(plait_comm *c, cu_handle h, size_t bytes, int local, cu_address *va, size_t *reserved,
            bool *mapped);
void rt_unmap(plait_comm *c, cu_address *va, size_t *reserved, bool *mapped);
