/*
 * What is behind plait_schedule: the model's statements with their operands resolved, made once
 * (runtime/schedule.c, schedule_model.c), and what running them takes (schedule_run.c).
 */
#pragma once
#include "runtime/plait_schedule.h"
#include "runtime/plan_api.h"
#include "runtime/stage.h"
#include <stdatomic.h>

/* What the first row of a part is counted in. */
enum rt_base {
	RT_BASE_NONE,  /* the tensor has no rows */
	RT_BASE_BATCH, /* all rows of the batch */
	RT_BASE_OWN,   /* the rank's own rows */
	RT_BASE_SLICE  /* all rows, of which the rank takes its own */
};

/* An operand of a statement. */
struct rt_ref {
	uint32_t slot; /* of the tensors: one for each element of an array */
	enum rt_base base;
	uint64_t row;     /* bytes from row to row */
	uint64_t numbers; /* a row's elements, if it is to be summed; else 0 */
	const char *dtype;
};

/* A statement of the model. */
struct rt_step {
	enum fe_step_kind kind;
	bool own; /* GEMM, OPAQUE: works on the rank's own rows */
	uint32_t turn;
	uint32_t unit, alone; /* KERNEL: in the stage, and in the one without communication */
	uint32_t ref, nin, nout;
	int64_t n, k;
	uint32_t op, nop; /* its operations, in those of the segment's shape */
	const char *name, *dtype;
};

struct rt_sched_local {           /* of one rank of this process */
	struct cu_stream *stream; /* the collectives', of high priority */
	/* ready: the caller's stream has made what a collective reads; done: collectives of even and odd
	 * steps have ended */
	struct cu_event *ready, *done[2];
	struct plait_operand *tensor; /* [nslot] */
	struct nccl_comm *nccl;
	bool forked;
};

struct plait_schedule {
	struct arena arena;
	plait_stage *stage, *alone; /* alone: NULL unless unfused plans can be run */
	plait_planner *planner;
	plait_comm *comm;
	plait_workspace *workspace;
	struct plait_schedule_options o;
	const struct pl_model *model;
	struct rt_step *step; /* as the planner's steps */
	struct rt_ref *ref;
	uint32_t nslot, *first_slot; /* by value */
	uint32_t *shape_seg;         /* a segment of each shape */
	size_t nparam;               /* the most operands of a statement */
	const char *sharded;         /* a kernel with sharded parameters; NULL: there is none */
	bool can_own, can_all;       /* every kernel with a carried parameter has that form */
	bool nccl_owned;
	struct rt_sched_local local[CG_MAX_RANKS];
	atomic_bool held; /* what a traced run has enqueued waits */
	/* scratch of a run */
	struct plait_operand *operand;
	plait_address *address;
	int64_t *length[2], *cached[2]; /* [max_requests] */
};

/*
 * What a callback of the caller's gave: what calls of its own have left in the communicator's message
 * is dropped when all is well, and stands behind PLAIT_ENV when it is not.
 */
bool rt_callback_good(plait_schedule *s, int code);

/* Fills the statements and the tensors; not collective.  The communicator's error says why not. */
enum plait_status rt_schedule_model(plait_schedule *s);

/* ---- running one ---- */

struct rt_part { /* of the rows */
	unsigned number;
	int64_t row, rows;
	int64_t own;   /* own rows before it */
	bool own_form; /* of carried tensors */
	size_t first, nrequest;
};

struct rt_run {
	plait_schedule *s;
	const struct pl_plan *plan;
	const plait_stream *stream;
	struct rt_part part[2];
	bool warm;
	struct rt_trace *trace; /* NULL: the run is not traced */
};

/* ---- events of a traced run (schedule_trace.c) ---- */

struct rt_trace {
	uint32_t at; /* the step that is being enqueued */
	const struct pl_stage *stage;
	struct cu_event *
	        *event[CG_MAX_RANKS]; /* of each rank; they are recorded in the same order */
	uint32_t nevent, room, since; /* recorded; there are; the last one behind compute */
	struct rt_trace_span {
		struct pl_span s;
		uint32_t begin, end; /* events */
	} * span;
	size_t nspan;
};

/* Each of these does nothing in a run that is not traced; false: a message. */

/* From here on step `at` of the plan is enqueued. */
void rt_trace_step(const struct rt_run *r, uint32_t at, const struct pl_stage *st);
/* Compute of the step begins on the callers' streams; x of it was enqueued on all of them. */
bool rt_trace_compute(const struct rt_run *r);
bool rt_trace_operation(const struct rt_run *r, const struct rt_step *x);
/* The collective x of the part begins, or has been enqueued, for all ranks; on the callers' streams, or
 * on the schedule's. */
bool rt_trace_collective(const struct rt_run *r, const struct rt_step *x, const struct rt_part *p,
                         unsigned ctas, bool callers, bool begin);

/* plait_schedule_run of what rt_schedule_begin filled in (schedule_run.c). */
enum plait_status rt_schedule_enqueue(const struct rt_run *r);
/* Waits for the callers' streams. */
bool rt_schedule_wait(const struct rt_run *r);

/* Checks the plan, the batch and the streams of r, and fills in the parts. */
enum plait_status rt_schedule_begin(struct rt_run *r, const struct plait_batch *b);
