/* The state of a planner, and the search.  Private to the planner. */
#pragma once
#include "planner/gemm.h"

/* A step of the lockstep that occurs: compute of a shape's part beside the collective of the step
 * before. */
struct pl_pair {
	uint32_t shape, half;
	int32_t before; /* shape whose collective runs beside; -1: none */
	uint32_t count;
};

enum { PL_NFREE = 9 }; /* rows of the table of GEMMs: SMs left free */

struct planner {
	struct arena arena;  /* the planner's own */
	struct arena plans;  /* of the memo */
	struct arena before; /* of the memo before, for plans that are still in use */
	struct pl_options o;
	const struct pl_model *model;
	uint32_t npair;
	struct pl_pair *pair;
	uint32_t *pair_seq; /* 2 * nseq steps */
	uint32_t *by_count; /* pairs, the most frequent first */
	uint32_t *first_op; /* by shape: where its operations begin in the numbering of all */
	uint32_t nop;
	struct pl_prep *prep; /* by operation */
	/* scratch of a search, kept because it is large */
	struct pl_run *run;     /* [op][row index][free] ... */
	uint32_t *seen, search; /* ... of which those with the number of this search are made */
	size_t nrun;
	struct pl_fluid *fluid; /* [op][row index]; work < 0: not yet */
	size_t nfluid;
	double *alone; /* [op][half][row index]: end without a collective; < 0: not yet */
	size_t nalone;
	struct pl_ranked { /* split rows in the order in which they are looked at */
		double us;
		uint32_t i, order;
	} * ranked;
	size_t nranked;
	/* the memo */
	struct pl_memo {
		uint64_t key;
		const struct pl_plan *plan;
	} memo[2 * PL_MEMO];
	unsigned nmemo;
};

/* A search for one batch. */
struct pl_search {
	struct planner *p;
	const struct pl_options *o; /* the planner's, perhaps without its facts */
	const struct pl_batch *b;
	int64_t align;
	uint32_t ncand;                    /* split rows align * (1 .. ncand) */
	uint32_t nrow;                     /* row indices: parts of both kinds, and all rows */
	unsigned nctas, ctas[PL_MAX_CTAS]; /* that a collective may have */
	double alpha[PL_MAX_CTAS], slope[PL_MAX_CTAS];
	unsigned nleave[PL_MAX_CTAS], leave[PL_MAX_CTAS][PL_MAX_TARGETS];
	bool bounded; /* fewer SMs never make a GEMM faster: bounds hold */
};

/* One stage, decided. */
struct pl_choice {
	double compute, collective, us;
	unsigned ctas;
};

bool pl_search_begin(struct pl_search *s, struct planner *p, const struct pl_options *o,
                     const struct pl_batch *b);

/* The best stage for `pair` where the rows are split behind candidate i (from 0).  With `op` (room for
 * the shape's operations) what each does is written there. */
struct pl_choice pl_best_stage(struct pl_search *s, const struct pl_pair *pair, uint32_t i,
                               struct pl_op_plan *op);

/* Compute of all rows of a shape, alone. */
double pl_whole_compute(struct pl_search *s, uint32_t shape, struct pl_op_plan *op);

/* The whole model split behind candidate i; and the best i, with its time (ncand: there is none). */
double pl_split_us(struct pl_search *s, uint32_t i);
uint32_t pl_best_split(struct pl_search *s, double *us);

/* The collective of a tail alone, by its best CTA count: own rows (two-shot) or all rows (push). */
double pl_tail_us(const struct pl_machine *m, const struct pl_tail *t, int64_t rows, bool own,
                  unsigned *ctas);

/* The line that says why (why.c).  `best` are the stages at the best split, in steps of the pairs. */
const char *pl_why(const struct pl_plan *plan, const struct planner *p, struct pl_search *s,
                   struct arena *a);
