/*
 * plait_machine_measure: running GEMMs beside a collective (measure_run.c), what to run and what
 * follows from the times (measure.c, measure_fit.c).
 */
#pragma once
#include "runtime/plait_gemms.h"
#include "runtime/plan_api.h"
#include "runtime/stage.h"

/* A GEMM of the model. */
struct rt_shape {
	const struct pl_op *op;
	const char *dtype;
};

enum {
	RT_MOST_SHAPES = 6,
	RT_MOST_GRIDS = 8,
	RT_MEASURE_ROWS = 4096, /* at most */
	RT_REPEATS = 7,
	RT_WARM = 2 /* of the repeats: they do not count */
};

/* What runs once: a GEMM (shape RT_NONE: none) and a collective (ctas 0: none). */
struct rt_point {
	uint32_t shape, ctas, target, rows, kernel_rows;
};

/* Microseconds of the slowest rank, each from its own beginning to its end; both: until both have
 * ended. */
struct rt_times {
	double gemm, collective, both;
};

/* The five events of a repeat: begin, collective from and to, GEMM's end, end of both. */
enum rt_mark { RT_BEGIN, RT_FROM, RT_TO, RT_GEMM, RT_END, RT_NMARKS };

struct rt_bench_local { /* of one rank of this process */
	struct cu_stream *compute, *collective;
	struct cu_event *ready, *done, *mark[RT_REPEATS][RT_NMARKS];
	cu_address x, w, out;
	cu_address param[RT_MOST_PARAMS]; /* what is not symmetric */
};

struct rt_bench {
	plait_comm *c;
	plait_stage *s;
	plait_workspace *w;
	struct plait_measure_options o;
	struct rt_shape shape[RT_MOST_SHAPES];
	unsigned nshape;
	uint32_t unit, variant; /* the collective */
	uint32_t rows;          /* the most of any point */
	size_t w_bytes;         /* of the largest weight */
	uint64_t start;         /* of it all, rt_now_ns */
	double lead_us;         /* what the last shape's GEMM takes; 0: not known yet */
	plait_buffer *buffer[RT_MOST_PARAMS];
	struct plait_operand operand[RT_MOST_PARAMS];
	struct rt_bench_local local[CG_MAX_RANKS];
};

/* Collective: memory, streams and events for b's shapes, kernel and rows.  rt_bench_close also after a
 * failure, when nothing runs on any rank. */
enum plait_status rt_bench_open(struct rt_bench *b);
void rt_bench_close(struct rt_bench *b);

/*
 * Collective: runs a point once, and then some times, unless that would end more than limit_ns behind
 * b->start: then *late is set.  *t are medians, 0 where it is late.  Both are the same on all ranks.
 */
enum plait_status rt_bench_point(struct rt_bench *b, const struct rt_point *p, uint64_t limit_ns,
                                 bool *late, struct rt_times *t);

/* Collective: did a collective give up? */
enum plait_status rt_bench_check(struct rt_bench *b);

/* ---- what follows ---- */

/* All that was measured; a time of 0 was not. */
struct rt_measured {
	uint32_t rows[2], kernel_rows[2]; /* few and many */
	double message;                   /* bytes of a row of the collective */
	unsigned sms;
	unsigned nshape, big; /* the shape that is paired with every CTA count */
	struct rt_shape shape[RT_MOST_SHAPES];
	double gemm[RT_MOST_SHAPES][2]; /* alone, all SMs, few and many rows */
	unsigned ngrid, ctas[RT_MOST_GRIDS];
	double collective[RT_MOST_GRIDS][2]; /* alone */
	double target[RT_MOST_GRIDS];        /* the big GEMM alone, without as many SMs */
	struct rt_times pair[RT_MOST_GRIDS][2];
	/* of each other shape at one CTA count (usual), alone with that target and beside it */
	unsigned usual; /* index of ctas */
	double other_target[RT_MOST_SHAPES];
	struct rt_times other[RT_MOST_SHAPES];
	struct rt_times untargeted; /* the big GEMM on all SMs, beside the collective of few rows */
};

/* The machine: o's, with what m says in place of its figures. */
void rt_measure_fit(const struct rt_measured *m, const struct pl_options *o, struct pl_machine *to);

/* The pairs with what `machine` predicts of them; how many. */
unsigned rt_measure_pairs(const struct rt_measured *m, const struct pl_options *o,
                          const struct pl_machine *machine,
                          struct plait_pair pair[PLAIT_MAX_PAIRS]);
