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

/* ---- measuring GEMMs beside collectives ---- */

struct plait_measure_options {
	size_t struct_size;
	plait_gemms *gemms; /* whose GEMMs run, or the engine's own: */
	/* Enqueues out = x w on call->stream for rank call->local, whose GPU is the thread's current one: no
	 * synchronisation, no allocation after the first call of a shape.  Not 0: an error. */
	int (*gemm)(void *ctx, const struct plait_gemm_call *call);
	void *gemm_ctx;
	const char
	        *gemm_version; /* of the engine's own, for the cache; NULL: results are not kept */
	bool w_is_k_by_n;
	unsigned limit_ms;     /* what would not end by then is not measured; 0: 900 */
	const char *cache_dir; /* as plait_stage_options has it */
	bool again;            /* measures although the cache has an answer */
};

#define PLAIT_MEASURE_OPTIONS_INIT                                  \
	{                                                           \
		.struct_size = sizeof(struct plait_measure_options) \
	}

/* A GEMM and a collective, alone and at once; microseconds, of the slowest rank; 0: not measured. */
struct plait_pair {
	int64_t rows, n, k, kernel_rows;
	unsigned ctas, sm_target;      /* of the collective; of the GEMM, 0: all SMs */
	double gemm_us, collective_us; /* alone, the GEMM with its target */
	double gemm_beside_us, collective_beside_us; /* one beside the other */
	double both_us;                              /* until both have ended */
	double predicted_us;                         /* of both, by the machine that was measured */
};

enum { PLAIT_MAX_PAIRS = 24 };

struct plait_measured {
	size_t struct_size;
	bool cached;    /* of an earlier run: no GPU was asked */
	bool partial;   /* limit_ms passed: some figures are the base's */
	double seconds; /* that this call took, on the slowest rank */
	unsigned npair;
	struct plait_pair pair[PLAIT_MAX_PAIRS];
};

#define PLAIT_MEASURED_INIT                                  \
	{                                                    \
		.struct_size = sizeof(struct plait_measured) \
	}

/*
 * Collective, at start-up: what planning needs of this machine, measured in less than a second.  GEMMs of the
 * planner's model run alone and beside the model's collective, on two streams as a schedule has them, with
 * several CTA counts, with the SM target that leaves these free and with none; *m is the planner's machine with
 * what came out: `rate` of each GEMM and gemm_eff, `fused` and `beside` by CTAs, gamma, join_us,
 * persistent.  A planner made with it (plait_planner_options.machine) plans by it; the planner given here
 * only says model, base and tile facts.  What is not measured (attention, memory, the library's all-reduce, few rows) is
 * the base's.  The same bytes on all ranks, and kept in the cache for the same GPUs, driver, ranks,
 * libraries and spec.
 *
 * Takes memory for its time: the largest GEMM's operands, and the collective's for at most 4096 rows; runs on
 * streams of its own, waits for them, and must not be called in a capture.  info may be NULL.
 * PLAIT_USAGE, PLAIT_MISMATCH (ranks with different options, specs or libraries), PLAIT_TIMEOUT,
 * PLAIT_ENV: see plait_comm_error() of the stage's communicator; then *m is as it was.
 */
enum plait_status plait_machine_measure(plait_stage *s, plait_planner *p,
                                        const struct plait_measure_options *o,
                                        struct plait_machine *m, struct plait_measured *info);

/*
 * The machine as JSON, for `plait plan --machine FILE`; `base`: its name in the database.  The caller
 * frees it by plait_text_free.  NULL: there is no such base, or m makes no sense, or out of memory.
 */
char *plait_machine_json(const struct plait_machine *m, const char *base);

#ifdef __cplusplus
}
#endif
