/*
 * GEMMs by cuBLASLt, opened at run time: tile facts for the planner, and the GEMMs of a schedule
 * (plait_schedule.h).  An engine that has GEMMs of its own needs none of this.
 */
#pragma once
#include "plait.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plait_gemms plait_gemms;

/*
 * Collective: opens cuBLASLt for the ranks of this process; each gets a workspace of 64 MiB.
 * PLAIT_ENV: there is no cuBLASLt; PLAIT_MISMATCH: the ranks have different versions of it or different
 * GPUs, or it chooses otherwise for the same few GEMMs, so that facts would differ.  *out is NULL unless PLAIT_OK; plait_comm_error() says why.
 */
enum plait_status plait_gemms_create(plait_comm *c, plait_gemms **out);
/* Not collective; nothing of it may run.  NULL is accepted. */
void plait_gemms_free(plait_gemms *g);

/*
 * A plait_gemm_fn for plait_planner_options.gemm, with the gemms as gemm_ctx: what cuBLASLt's heuristic
 * chooses for the query on the GPU of the first rank of this process: tile, cluster, split-K, waves, for
 * the query's types (only its bits known: bf16) and weights as plait_gemms_weights said.  Whether CTAs
 * wait for SMs that are taken the library does not say: there the planner's machine counts.  Remembered,
 * so that the same is asked once, also where there is no algorithm.  false: none is known for the query
 * (operands of other than 16 bits or of several types, a tile of a library that is newer than this one),
 * and the planner's own table answers.
 */
bool plait_gemms_fact(void *gemms, const struct plait_gemm_query *q, struct plait_gemm_fact *f);

/* How weights are that facts are asked for: [k, n], else (as it begins) [n, k].  Before a planner asks,
 * and the same on all ranks. */
void plait_gemms_weights(plait_gemms *g, bool w_is_k_by_n);

struct plait_gemm_call {
	size_t struct_size;
	unsigned local; /* which rank of this process */
	plait_stream stream;
	int64_t m, n, k;
	const char *dtype;       /* "bf16" or "f16", of x, w and out; sums are f32 */
	bool w_is_k_by_n;        /* w is [k, n]; else [n, k], as most engines keep weights */
	unsigned sm_target;      /* 0: all SMs */
	plait_address x, w, out; /* [m, k], w, [m, n]; rows follow one another; 256-byte aligned */
};

#define PLAIT_GEMM_CALL_INIT                                  \
	{                                                     \
		.struct_size = sizeof(struct plait_gemm_call) \
	}

/*
 * Enqueues out = x w.  The first call of a shape asks the heuristic; later ones allocate nothing, so
 * warm before a capture.  GEMMs of one rank share its workspace: they belong on one stream.  Ranks may
 * be called by threads of their own.  PLAIT_USAGE, PLAIT_ENV: see plait_comm_error().
 */
enum plait_status plait_gemms_run(plait_gemms *g, const struct plait_gemm_call *call);

#ifdef __cplusplus
}
#endif
