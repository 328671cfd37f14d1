/* PTX -> cubin of many kernels at once, through the cache. */
#pragma once
#include "runtime/cache.h"
#include "runtime/code.h"
#include <pthread.h>

struct rt_cubin_job {
	const char *ptx; /* as given */
	size_t ptx_len;
	struct arena arena; /* of the result */
	struct rt_bytes
	        cubin;   /* given: nothing is to do; after: 0 bytes: none could be made here, and
	                          the driver takes the PTX */
	bool hit;        /* from the cache */
	const char *log; /* why there is none; never NULL */
};

struct rt_finalize {
	const struct rt_cache *cache;
	const char *target; /* "sm_90" */
	int driver;         /* its version: a cubin of another's time may not load */
	unsigned threads;   /* at once, at most; 0: as many as the machine has processors */
};

/* Does all jobs, on threads of its own where it can have them. The caller frees the jobs' arenas, also after false: out of memory. */
bool rt_finalize_all(const struct rt_finalize *f, struct rt_cubin_job *job, unsigned n);

/* The key of a job's cubin, in `a`. */
struct rt_bytes rt_cubin_key(const struct rt_finalize *f, const struct rt_cubin_job *job,
                             struct arena *a);

/* Begins to open the linker's library, which takes long, beside what the caller does next; nothing where it
 * will not be used.  rt_finalize_prefetched waits for the end of that. */
struct rt_prefetch {
	pthread_t thread;
	bool begun;
};
void rt_finalize_prefetch(struct rt_prefetch *p);
void rt_finalize_prefetched(struct rt_prefetch *p);
