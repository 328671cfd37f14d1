/*
 * What `plait bench` measured, and its reports.  Nothing here needs a GPU: bench_gpu.h fills it.
 *
 * Of each row count T and contender there is a sample for each round.  A round times every contender
 * once, one after the other, so sample k of one goes with sample k of another: speed-ups are medians of
 * such quotients, and drift of clocks and temperature falls out.
 */
#pragma once
#include "support/strbuf.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

enum bench_kind {
	BENCH_PLAIT,   /* plait's kernel; the first is `auto` */
	BENCH_NORM,    /* plait's `local` kernel alone: the work without communication */
	BENCH_REDUCE,  /* an all-reduce alone */
	BENCH_UNFUSED, /* all-reduce, then that `local` kernel */
	BENCH_FUSED,   /* somebody else's fused kernel */
	BENCH_NKINDS
};

struct bench_who {
	const char *name; /* "plait", "plait push", "NCCL + norm" */
	enum bench_kind kind;
};

struct bench_cell {
	double *us; /* [rounds] of one launch; NULL: not measured, `why` says why */
	const char *why;
	const char *protocol; /* of plait's; NULL: does not apply */
	unsigned ctas;        /* 0: does not apply */
	double off; /* largest difference from the first contender's result, as a part of the largest
	               value; < 0: not compared */
};

struct bench_result {
	const char *gpu, *driver, *spec, *kernel, *dtype, *settings;
	unsigned tp, gpus, sm;
	int64_t cols;
	uint64_t sum_bytes;  /* of a row that are summed */
	uint64_t norm_bytes; /* of a row that `local` reads and writes */
	double link_gbs; /* in each direction of the link, half pull, half push; 0: not measured */
	unsigned link_ctas;
	double copy_gbs; /* of memory, read and written; 0: not measured */
	unsigned launches, rounds;
	const uint64_t *T;
	unsigned ntokens;
	struct bench_who *who;
	unsigned nwho;
	struct bench_cell *cell; /* [ntokens][nwho] */
};

struct bench_stat {
	double median, low, high; /* 10 % and 90 % */
};

static inline struct bench_cell *bench_at(const struct bench_result *r, unsigned t, unsigned w)
{
	return &r->cell[t * r->nwho + w];
}

/* Of n > 0 numbers; `a` has the sorted copy. */
struct bench_stat bench_stat_of(const double *x, unsigned n, struct arena *a);

/* Of y[k] / x[k]: how many times x is faster. */
struct bench_stat bench_ratio(const double *x, const double *y, unsigned n, struct arena *a);

/* The contender of a kind with the least median at T[t]; -1: none was measured. */
int bench_best(const struct bench_result *r, unsigned t, enum bench_kind kind, struct arena *a);

/* Part of what the link gives that the kernel of T[t] rows in `us` uses; 0: not known. */
double bench_link_share(const struct bench_result *r, unsigned t, double us);

/* Of what a copy of memory reaches, for `local`. */
double bench_copy_share(const struct bench_result *r, unsigned t, double us);

/*
 * What the project asks of itself at T rows (tools/targets.def): least speed-ups over the best unfused and
 * the best fused peer, and parts of what the machine can do.  false: it asks nothing here.
 */
struct bench_target {
	double unfused, fused;
	double link, norm; /* parts of bench_link_share and bench_copy_share; 0: none asked */
};
bool bench_target(const struct bench_result *r, uint64_t T, struct bench_target *to);

/* ---- reports ---- */

/* One JSON object a line: one of "run", then one a row count and contender. */
void bench_json_lines(const struct bench_result *r, struct strbuf *out);

/* A section: tables for people. `svg` names a picture beside it; NULL: none. */
void bench_markdown(const struct bench_result *r, const char *svg, struct strbuf *out);

/* The head of the page that such sections are in. */
void bench_markdown_head(const struct bench_result *r, const char *command, struct strbuf *out);

/* A picture: time of each contender over T, both logarithmic.  Sections are one below the other. */
void bench_svg(const struct bench_result *const *r, unsigned n, struct strbuf *out);

/* For a terminal. */
void bench_text(const struct bench_result *r, struct strbuf *out);
