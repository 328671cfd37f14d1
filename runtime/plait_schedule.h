/*
 * plait: running plans (doc/schedule.md).  A schedule enqueues a whole model as a plan says: the
 * caller's GEMMs and opaque nodes on the caller's streams, the fused kernels behind them or, where the
 * rows are split, beside them on streams of the schedule's own.
 *
 *	plait_schedule_create(stage, planner, &options, &schedule);   once
 *	plait_plan_make(planner, &batch, &plan);                      each batch, or each T that gets a graph
 *	plait_schedule_agree(schedule, plan);                         once for a plan
 *	plait_schedule_warm(schedule, plan, &batch, streams);         once for a plan, before a capture
 *	plait_schedule_run(schedule, plan, &batch, streams);          in a capture or not
 */
#pragma once
#include "plait.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor of the model, as one rank has it. */
struct plait_tensor {
	size_t struct_size;
	const char *name;  /* as the model has it; a name that is bound again is asked for again */
	const char *what;  /* "input", "state", "weight", "value" */
	const char *dtype; /* "bf16" */
	const char *
	        placement; /* "replicated", "partial", "sharded", "carried", "columns", "rows", "local" */
	unsigned local; /* the rank */
	int64_t index;  /* of an array of weights; else 0 */
	bool has_rows;  /* its first extent is T */
	unsigned ndim;  /* 1 or 2 */
	int64_t dim
	        [2]; /* the rank's part: [n], [k, n], or [rows, n] for rows of the stage's max_rows, its
	                   own ones where it is sharded */
};

/*
 * Where the tensor is: its first row, whatever the parts.  What kernels reach on other ranks has to be
 * in a symmetric buffer (plait_param_info.symmetric).  Left as it is, zeroes: only the caller's own
 * operations have to do with it.  Values of one name may share memory, and so may values of which one
 * is no longer read when the other is written; a weight is asked for once an element and rank.
 * Not 0: an error, which plait_schedule_create returns as PLAIT_ENV.
 */
typedef int (*plait_tensor_fn)(void *ctx, const struct plait_tensor *t, struct plait_operand *at);

enum plait_operation_kind { PLAIT_OP_GEMM, PLAIT_OP_OPAQUE };

/* A GEMM or an opaque node, of one part of the rows, to be enqueued on `stream`. */
struct plait_operation {
	size_t struct_size;
	enum plait_operation_kind kind;
	const char *name; /* of a GEMM: its weight's */
	unsigned local;   /* the rank, whose GPU is the thread's current one */
	plait_stream stream;
	uint32_t step;      /* number of the model's statement, loops unrolled */
	uint32_t turn;      /* how often this statement ran before in this model: the layer */
	unsigned part;      /* 0, or 1: the second part of a split */
	int64_t row, rows;  /* of the batch; of a sharded operand the rank's own rows of them */
	int64_t n, k;       /* GEMM: [rows, k] by [k, n], one rank's */
	const char *dtype;  /* of out[0] */
	unsigned sm_target; /* SMs that it should take; 0: all */
	bool warm;          /* called by plait_schedule_warm: what it computes does not count */
	/* Operands in the order of the model's statement (GEMM: x, w, perhaps bias), at this part's rows
	 * on this rank; 0: plait_tensor_fn left it out. */
	size_t nin, nout;
	const plait_address *in, *out;
	/* The part's requests, for attention: `first` .. first + nrequest - 1 of the batch, how many rows of
	 * each are here, and how many keys are before them (of the cache and of the first part). */
	size_t first, nrequest;
	const int64_t *length, *cached;
};

/* Enqueues the operation: no synchronisation, no allocation.  Not 0: an error. */
typedef int (*plait_operation_fn)(void *ctx, const struct plait_operation *op);

/* Enqueues the sum over all ranks, in place, of n elements; called for all ranks of this process in
 * turn.  Not 0: an error. */
typedef int (*plait_all_reduce_fn)(void *ctx, unsigned local, plait_stream stream, plait_address at,
                                   size_t n, const char *dtype);

struct plait_schedule_options {
	size_t struct_size;
	plait_tensor_fn tensor;
	plait_operation_fn operation;
	void *ctx;           /* of both, and of all_reduce */
	size_t max_requests; /* of a batch; 0: 1 */
	/*
	 * Plans of the modes unfused and no-communication can be run, too: kernels without communication
	 * are compiled and loaded, and NCCL is opened unless all_reduce is given.
	 */
	bool unfused;
	plait_all_reduce_fn all_reduce;
	const char *cache_dir; /* as plait_stage_options has it, for those kernels */
};

#define PLAIT_SCHEDULE_OPTIONS_INIT                                  \
	{                                                            \
		.struct_size = sizeof(struct plait_schedule_options) \
	}

/* A model on a stage, with the streams, events and the workspace that running it takes.  Used by one
 * thread at a time. */
typedef struct plait_schedule plait_schedule;

/*
 * Collective.  The stage has the kernels of the planner's model, and both have the same tp; the model is
 * asked for its tensors here.  Stage and planner must outlive the schedule.  The message of a failure is
 * plait_comm_error() of the stage's communicator; then *out is NULL.
 */
enum plait_status plait_schedule_create(plait_stage *s, plait_planner *p,
                                        const struct plait_schedule_options *o,
                                        plait_schedule **out);
/* Not collective, but nothing of it may run on any rank: a barrier comes before.  NULL is accepted. */
void plait_schedule_free(plait_schedule *s);

/* The workspace of its collectives, for plait_workspace_check and plait_workspace_reset. */
plait_workspace *plait_schedule_workspace(const plait_schedule *s);

/* Collective, not for the hot path: PLAIT_MISMATCH names ranks whose plans differ. */
enum plait_status plait_schedule_agree(plait_schedule *s, const plait_plan *plan);

/*
 * Calls each distinct operation of the plan once on each rank, with op->warm set, and sums once where
 * the plan sums by NCCL; waits for the streams.  Nothing is loaded or chosen for the first time later, beside a collective
 * or in a capture.  Writes the tensors that operations write.  Where NCCL sums it is collective.
 */
enum plait_status plait_schedule_warm(plait_schedule *s, const plait_plan *plan,
                                      const struct plait_batch *b, const plait_stream *stream);

/*
 * Enqueues the whole model for the ranks of this process: stream[local] is the rank's.  No allocation
 * and no synchronisation; what is enqueued on the schedule's own streams begins behind what is on
 * stream[local] and is joined to it at the end, also after a failure: so it may be captured, with a
 * capture begun on each of the streams.
 *
 * PLAIT_USAGE: what does not fit, with a message; nothing was enqueued.  PLAIT_ENV: an operation
 * failed, which the message names; collectives that were enqueued find their peers in this process, those
 * of other processes end by their time-out.
 */
enum plait_status plait_schedule_run(plait_schedule *s, const plait_plan *plan,
                                     const struct plait_batch *b, const plait_stream *stream);

/*
 * Measures a run: enqueues the plan once, as plait_schedule_run does, with events between all that it
 * enqueues; waits for it; and gives what happened when, beside what the plan predicts, as the Chrome
 * JSON of plait_plan_trace (doc/schedule.md): a process "predicted", and one for each rank of this
 * process.  Give *json to plait_text_free.  Not in a capture (PLAIT_USAGE), and not for the hot path: it
 * allocates.  What is enqueued waits for at most 0.1 s until enough of it is there, so that the host's
 * pace does not show.  Warm the plan first, and run it a few times.  Other processes may run the plan or
 * trace it.  Failures are plait_schedule_run's, and those of waiting; then *json is NULL.
 */
enum plait_status plait_schedule_trace(plait_schedule *s, const plait_plan *plan,
                                       const struct plait_batch *b, const plait_stream *stream,
                                       char **json);

/*
 * Whether the carried tensors then are in the form of own rows: each rank has its own rows of each part,
 * where the part's rows are in the buffer (plait_own_rows of the part's rows, behind its first one).  Else
 * all rows are right on every rank.  Sharded tensors have the rank's own rows of the first part, and
 * behind them those of the second.
 */
bool plait_schedule_own_rows(const plait_schedule *s, const plait_plan *plan);

#ifdef __cplusplus
}
#endif
