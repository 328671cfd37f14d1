/*
 * Timing on GPUs: ranks of this process, memory, contenders in CUDA graphs, rounds.
 *
 * Failures: a call returns false and g->e says why.
 */
#pragma once
#include "ir/ir.h"
#include "runtime/driver.h"
#include "tools/bench.h"

enum { BENCH_MAX_TP = 16, BENCH_LAUNCHES = 10, BENCH_MAX_WHO = 16 };

struct bench_memory {
	unsigned rank;
	cu_address at;
	struct bench_memory *next;
};

struct bench_gpu {
	struct rt_driver drv;
	struct rt_error e;
	struct arena *a;
	unsigned tp, gpus; /* ranks; GPUs that they are on */
	int device[BENCH_MAX_TP];
	char name[96];
	const char *driver;
	unsigned sm, processors;
	size_t l2, memory; /* bytes of one GPU */
	struct cu_ctx *ctx[BENCH_MAX_TP];
	struct cu_stream *stream[BENCH_MAX_TP];
	struct cu_module *probe[BENCH_MAX_TP];
	struct cu_function *delay[BENCH_MAX_TP], *link[BENCH_MAX_TP];
	struct cu_event *begin, *end;   /* of rank 0 */
	cu_address noise[BENCH_MAX_TP]; /* random elements, BENCH_NOISE bytes of them */
	struct bench_memory *memory_head;
	const char *(*problem)(
	        void *ctx); /* asked after a wait: an abort of a collective; may be NULL */
	void *problem_ctx;
};

#define BENCH_NOISE ((size_t)32 << 20)

/* tp 0: as many ranks as there are GPUs; more than those share them in turn.  gpus: at most so many are used; 0: all. */
bool bench_gpu_open(struct bench_gpu *g, unsigned tp, unsigned gpus, struct arena *a);
void bench_gpu_close(struct bench_gpu *g);

/* Makes the rank's context current. */
bool bench_enter(struct bench_gpu *g, unsigned rank);

/* Memory of a rank, freed by close. */
bool bench_alloc(struct bench_gpu *g, unsigned rank, size_t bytes, cu_address *out);

/* Random elements of a dtype for bench_fill. */
bool bench_noise(struct bench_gpu *g, enum ir_dtype t);

/* `bytes` of them from `to` on, others for another seed; not waited for. */
bool bench_fill(struct bench_gpu *g, unsigned rank, cu_address to, size_t bytes, unsigned seed);

/* Waits for all ranks' streams. */
bool bench_wait(struct bench_gpu *g);

/* Something that can be timed.  A launch enqueues one collective on the streams of all ranks. */
struct bench_contender {
	struct bench_who who;
	void *ctx;
	/* NULL: can do T rows; else why not */
	const char *(*refuses)(void *ctx, uint64_t T);
	/* number i of a graph: another set of buffers each */
	bool (*launch)(void *ctx, unsigned i, uint64_t T);
	/* may be NULL: what it does at T rows */
	void (*describe)(void *ctx, uint64_t T, struct bench_cell *cell);
};

/*
 * Times `n` contenders at T rows: cells[w].us has `rounds` samples each.  A contender that refuses gets none.
 * `launches` of a graph.
 */
bool bench_time(struct bench_gpu *g, const struct bench_contender *c, unsigned n, uint64_t T,
                unsigned rounds, struct bench_cell *cells);

/* GB/s that half pulling and half pushing gives in each direction of the link, the best of some grids; 0: not with these GPUs. */
bool bench_link(struct bench_gpu *g, double *gbs, unsigned *ctas);

/* GB/s read and written by a copy of memory on rank 0. */
bool bench_copy(struct bench_gpu *g, double *gbs);
