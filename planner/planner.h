/*
 * The planner: for T rows of a model on a machine, whether to split the rows in two parts, where, how
 * many CTAs each collective gets and which SM target each GEMM.  No GPU is needed and nothing here
 * sees a vendor's header.
 *
 * A model is a sequence of segments: compute (GEMMs, attention, ...) that ends in a collective.  With
 * the rows in two parts, a part's collective runs beside the other part's compute:
 *
 *	compute   A.1 | A.2      | F.1      | F.2      | A.1 ...
 *	comm          | x(A.1)   | x(A.2)   | x(F.1)   | x(F.2) ...
 *
 * Both streams join between stages, so the time is a sum over stages of the larger of the two, and
 * each stage is optimised alone (doc/planner.md).
 */
#pragma once
#include "frontend/steps.h"
#include "planner/machine.h"
#include "support/arena.h"
#include "support/status.h"
#include "support/strbuf.h"

/* ---- models (model.c) ---- */

enum pl_kind { PL_GEMM, PL_GROUPED, PL_ATTENTION, PL_BYTES, PL_WORK, PL_NKINDS };
extern const char *const pl_kind_name[PL_NKINDS];

/* One operation, as one rank does it. */
struct pl_op {
	enum pl_kind kind;
	const char *name; /* of its result, for people */
	uint32_t step;    /* of the model's steps: the first that is like it */
	unsigned share;   /* works on one of `share` parts of the rows (1: on all) */
	/* GEMM, GROUPED: [rows, k] by [k, n] */
	int64_t n, k;
	unsigned x_bits, w_bits, out_bits;
	const char *x_type, *w_type, *out_type; /* GEMM: "bf16"; NULL: not said */
	/* GROUPED: of `experts`, `active` work for a row */
	int64_t experts, active;
	/* ATTENTION, of one rank */
	int64_t heads, kv_heads, dim, window; /* window 0: all before */
	/* BYTES, WORK: of a row (BYTES has no flops) */
	double flops, bytes;
};

/* The collective that ends a segment. */
struct pl_tail {
	const char *kernel; /* NULL: the segment ends the model without one */
	unsigned sums, gathers;
	double message;                /* bytes of a row: half of what is summed and gathered */
	double sum_bytes, local_bytes; /* of a row: summed; read and written by the unfused norm */
	bool residual;                 /* it has a carried parameter */
};

struct pl_segment {
	uint32_t nop;
	const struct pl_op *op;
	struct pl_tail tail;
	uint32_t count; /* how often it occurs in the model */
};

struct pl_model {
	const char *name;
	unsigned tp;
	uint32_t nshape, nseq;
	const struct pl_segment *shape; /* those that differ */
	const uint32_t *seq;            /* the model: a shape for each segment */
	const uint32_t *first_step;     /* of each segment of seq, in the model's steps; nseq + 1 */
};

/* The model of a spec's steps for tp ranks, in `a`.  NULL, and *why in `a`, where it cannot be
 * planned (no collective). */
struct pl_model *pl_model_make(struct arena *a, const struct fe_steps *steps, unsigned tp,
                               const char **why);

/* ---- GEMM facts (gemm.c) ---- */

struct pl_gemm_query {
	int64_t m, n, k;
	unsigned x_bits, w_bits, out_bits;
	unsigned sm_target;                     /* 0: all */
	const char *x_type, *w_type, *out_type; /* as pl_op has them */
};

/* What a library chooses for a GEMM.  What is 0 follows from the rest: waves from the tile, us from
 * the waves. */
struct pl_gemm_fact {
	unsigned bm, bn; /* the tile: rows (tokens) by columns; 0: not known */
	unsigned cm, cn, splitk;
	/* As many CTAs as slots, each with several tiles; CTAs that come and go.  Neither: as the machine's
	 * GEMMs are. */
	bool persistent, dynamic;
	bool fractional; /* stream-K: waves are not rounded up */
	double waves, us;
};

/* Fills *fact; false: not known, the analytic table answers.  Asked for each part and SM target. */
typedef bool pl_gemm_fn(void *ctx, const struct pl_gemm_query *q, struct pl_gemm_fact *fact);

/* What a GEMM's time consists of. */
struct pl_run {
	double us;      /* alone, from its start: the larger of waves * tau and mem */
	double tiles;   /* with clusters, split-K and groups */
	double waves;   /* rounded up unless fractional */
	double tau;     /* us of a tile */
	double mem;     /* us that memory needs */
	unsigned slots; /* CTAs at once */
	uint16_t cluster;
	bool waits; /* CTAs without an SM wait for one: a persistent or stream-K grid */
};

/* A GEMM of given rows and SM target, as chosen. */
struct pl_gemm {
	struct pl_gemm_fact fact;
	struct pl_run run;
	double tail; /* part of the last wave's slots that work */
};

struct pl_options;

/* The GEMM `op` of `rows` rows with an SM target (0: all), as the facts say or the table chooses. */
void pl_gemm_choose(const struct pl_options *o, const struct pl_op *op, int64_t rows,
                    unsigned sm_target, struct pl_gemm *g);

/*
 * When g ends that may start at `begin`, while a collective holds `held` SMs until `until`.  Never
 * earlier for a later begin or until.
 */
double pl_gemm_finish(const struct pl_machine *m, const struct pl_run *g, double begin,
                      double until, unsigned held);

/* ---- requests of a batch (split.c) ---- */

struct pl_batch {
	int64_t tokens;        /* T */
	size_t nrequest;       /* 0: one request of T rows */
	const int64_t *cum;    /* nrequest + 1: prefix sums of the requests' lengths, from 0 to T */
	const int64_t *cached; /* rows that each request has in its cache already; NULL: none */
};

/* A part's requests: `first` .. first + n - 1 of the batch, the first one without its first `skip`
 * rows, the last one cut to what remains. */
struct pl_part {
	int64_t row, rows; /* of the batch */
	size_t first, n;
	int64_t *length; /* n */
	int64_t *cached; /* n: rows before them that attention sees */
};

/* Do its prefix sums rise from 0 to T, which is 1 to 2^24? */
bool pl_is_batch(const struct pl_batch *b);

/* The requests of rows [row, row + rows), in `a`. */
struct pl_part pl_part_of(const struct pl_batch *b, int64_t row, int64_t rows, struct arena *a);
/* The same without an arena: how many there are; of the first `room` their lengths and rows before
 * them (each may be NULL). */
size_t pl_part_into(const struct pl_batch *b, int64_t row, int64_t rows, size_t *first,
                    int64_t *length, int64_t *cached, size_t room);

/* Pairs of a query and a key that rows [row, row + rows) need, and keys that are read for them;
 * window 0: all before. */
void pl_attention_pairs(const struct pl_batch *b, int64_t row, int64_t rows, int64_t window,
                        double *pairs, double *keys);

/* ---- plans ---- */

enum pl_mode { PL_UNFUSED, PL_REMOVED, PL_FUSED, PL_SPLIT, PL_NMODES };
extern const char *const pl_mode_name[PL_NMODES];

struct pl_op_plan {
	const struct pl_op *op;
	int64_t rows;
	unsigned sm_target;  /* GEMM: 0: all SMs */
	double start, us;    /* from the stage's beginning */
	struct pl_gemm gemm; /* GEMM, GROUPED */
	double waves_before; /* of all rows on all SMs */
	double us_before;    /* and their time */
};

/*
 * Compute of one part of a segment, and a collective: of the stage before, beside it (SPLIT), or its
 * own, behind it.
 */
struct pl_stage {
	uint32_t shape, half; /* half 0: the first part, or all rows */
	int64_t row, rows;
	bool overlap;       /* both run at once, and us is the larger; else the sum */
	const char *kernel; /* the collective's; NULL: there is none */
	uint32_t kernel_shape, kernel_half;
	int64_t kernel_rows;
	unsigned ctas; /* of that collective; 0: the library's choice */
	double compute, collective, us;
	double exposed; /* of the collective */
	uint32_t count; /* how often it occurs */
	uint32_t nop;
	struct pl_op_plan *op;
};

struct pl_plan {
	const struct pl_model *model;
	int64_t tokens;
	enum pl_mode mode; /* FUSED, SPLIT or UNFUSED: what to run */
	int64_t split;     /* rows of the first part; tokens where there is one part */
	bool own_rows; /* the residual's form: own rows of each part, else all rows on every rank */
	int64_t row_base[2];      /* of both parts in the batch */
	int64_t residual_base[2]; /* and in the residual's buffer, the same on all ranks */
	double us;                /* of the whole model, by mode */
	double best_split_us; /* at the best split row, whether chosen or not; 0: no row to split at */
	int64_t best_split;
	double mode_us[PL_NMODES]; /* [PL_SPLIT]: best_split_us */
	const char *why;           /* one line */
	uint32_t nstage, nseq;
	struct pl_stage *stage; /* those that differ, in the order of their first occurrence */
	uint32_t *seq;          /* the schedule: stage of each step of the lockstep */
	double tail_us;         /* the last collective, which nothing hides */
	unsigned tail_ctas;
	uint64_t hash;  /* of all that ranks must agree on */
	uint64_t facts; /* of what the decisions on GEMMs were made from: tiles, waves, times */
};

struct pl_options {
	struct pl_machine machine;
	pl_gemm_fn *gemm; /* NULL: the analytic table */
	void *gemm_ctx;
	unsigned align; /* split rows are multiples of it, or of a doubling for large T; 0: 128 */
	double hysteresis;         /* a split has to be better by this part; < 0: 0.02 */
	double even;               /* a more even split may take longer by this part; < 0: 0.002 */
	bool no_split, no_targets; /* leave them out of the search */
	int64_t at;                /* not 0: split at this row, whatever the search says */
	enum pl_mode force;        /* with `forced`: this mode */
	bool forced;
};

struct planner;

/* A planner of a model; NULL: no memory.  The model must outlive it. */
struct planner *pl_new(const struct pl_model *model, const struct pl_options *o);
void pl_free(struct planner *p); /* NULL is accepted */

/*
 * The plan for a batch, made or remembered; valid until PL_MEMO further ones were made.  ST_USAGE:
 * not a batch (prefix sums that fall, T beyond 2^24 or below 1).
 */
enum { PL_MEMO = 1024 };
enum status pl_plan(struct planner *p, const struct pl_batch *b, const struct pl_plan **out);
/* The plan of a mode (a split: at row `at`, 0: the best), as far as it can be had. */
enum status pl_plan_as(struct planner *p, const struct pl_batch *b, enum pl_mode mode, int64_t at,
                       const struct pl_plan **out);
enum status pl_plan_rows(struct planner *p, int64_t tokens, const struct pl_plan **out);
const struct pl_options *pl_options_of(const struct planner *p);

/* ---- showing (explain.c, trace.c, json.c, svg.c); all append to out ---- */

/* Something in time: an operation, or a collective, of one step of a plan. */
struct pl_span {
	unsigned stream; /* 0 compute, 1 collectives */
	const char *name;
	const struct pl_stage *stage;
	const struct pl_op_plan *op; /* compute: NULL where the planner has none */
	uint32_t at;                 /* step of the schedule; of the last collective nseq */
	double start, us;
	/* of a collective: CTAs, 0: not known; what of it had no compute beside it */
	unsigned ctas;
	double exposed;
};

/* Runs the plan's schedule on two streams with events; spans of all steps in order of their start,
 * the end of everything in *us. */
struct pl_span *pl_simulate(const struct pl_plan *p, struct arena *a, size_t *n, double *us);

/* What was decided, and the times of all ways to run. */
void pl_summary(const struct pl_plan *p, const struct pl_machine *m, struct strbuf *out);
/* That, and every stage and operation. */
void pl_explain(const struct pl_plan *p, const struct pl_machine *m, struct strbuf *out);
void pl_gantt(const struct pl_plan *p, unsigned width, struct strbuf *out);
/* What happens on one GPU: a process of a trace. */
struct pl_process {
	unsigned pid; /* distinct; shown in this order */
	const char *name;
	const struct pl_span *span; /* those of a stream in order of time */
	size_t n;
};
/* As Chrome's JSON; what is predicted alone, or any processes of one plan side by side. */
void pl_trace(const struct pl_plan *p, const struct pl_machine *m, struct strbuf *out);
void pl_trace_processes(const struct pl_plan *p, const struct pl_machine *m,
                        const struct pl_process *q, size_t n, struct strbuf *out);
void pl_json(const struct pl_plan *p, const struct pl_machine *m, struct strbuf *out);

/* Charts.  Of n row counts: the times of all ways to run, and of the plans. */
void pl_svg_rows(const struct pl_model *model, const struct pl_machine *m, const int64_t *tokens,
                 const double (*us)[PL_NMODES], const double *plan_us, size_t n,
                 struct strbuf *out);
/* Of n split rows of one plan, as pl_split_curve gives them. */
void pl_svg_split(const struct pl_plan *p, const struct pl_machine *m, const int64_t *row,
                  const double *us, size_t n, struct strbuf *out);

/* The model's time for each split row of T rows; arrays in `a`; how many. */
size_t pl_split_curve(struct planner *p, int64_t tokens, struct arena *a, int64_t **row,
                      double **us);
