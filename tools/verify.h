/*
 * The core of `plait verify`: a kernel's PTX text on simulated ranks against the reference, hostile
 * by default (design.md section 6).  A schedule is one simulator and one workspace; its launches
 * follow each other on every rank's stream, and what a rank's neighbours on the stream would do
 * (write inputs, read outputs) happens there as soon as that rank's kernel has ended, whatever the
 * other ranks are doing.
 *
 *	d = vf_data_new(&kernel, &options);    inputs and references, computed once
 *	vf_run(d, module, text, &result)       any number of texts against them
 *	vf_data_free(d);
 */
#pragma once
#include "codegen/codegen.h"
#include "ir/eval.h"
#include "sim/sim.h"

struct vf_options {
	unsigned tp;
	const int64_t *tokens; /* row counts, at least one */
	unsigned ntokens;
	unsigned ctas;     /* 0: differs from launch to launch */
	unsigned launches; /* a schedule; 0: max(4, ntokens) */
	unsigned schedules;
	uint64_t seed;               /* low 10 bits: the first schedule; the rest: the data */
	int sum;                     /* enum sim_sum, or -1: rotates over the schedules */
	bool weak;                   /* weak memory in every other schedule */
	unsigned races;              /* enum sim_races + 1; 0: the level of the kernels' order */
	unsigned race_every;         /* races are looked for in every n-th schedule; 0: in all */
	struct sim_explore *explore; /* who makes the choices; NULL: seeds (vf_explore sets it) */
	void (*on_race)(void *ctx, const struct sim_raced *r); /* sim_options.on_race */
	void *race_ctx;
	unsigned threads;
	void (*progress)(void *ctx, unsigned done,
	                 unsigned of); /* may be NULL; calls do not overlap */
	void *ctx;
};

struct vf_stage { /* the kernel after a pass, to be checked against the one before all */
	const char *pass;
	const struct ir_func *f;
};

struct vf_kernel {
	const struct ir_func *f; /* before any pass: the reference */
	const struct cg_kernel *k;
	enum ir_rows rows; /* the form that its passes made */
	const struct vf_stage *stage;
	size_t nstage;
	const struct diags *places; /* for lines of the spec; may be NULL */
};

enum vf_kind {
	VF_GOOD,
	VF_VALUE,     /* an output's element outside of its bound */
	VF_UNWRITTEN, /* an element that the kernel left as it was */
	VF_DIFFERS,   /* a replicated output that is not the same on all ranks */
	VF_STRAY,     /* a byte that the kernel must not write */
	VF_FINDING,   /* the simulator stopped: text is its report */
	VF_ABORT,     /* the kernel's own liveness or contract check fired */
};
extern const char *const vf_kind_name[]; /* "wrong value", ... */

struct vf_failure {
	enum vf_kind kind;
	const char *kernel; /* of a chain: which; NULL where it is not known */
	const char *param;  /* NULL for FINDING and ABORT */
	unsigned rank;
	int64_t row, col; /* row of the buffer's tensor (global) */
	double got, want, err;
	int64_t rows; /* T of the launch */
	unsigned launch, launches;
	uint64_t seed;        /* replays this schedule alone with schedules = 1 */
	const char *schedule; /* in words */
	unsigned writer;      /* the rank that wrote last */
	uint32_t line;        /* PTX line at fault, 0: none known */
	const char *line_text;
	uint32_t other; /* PTX line that writes this output elsewhere, where no line wrote the
	                   element; 0: none */
	const char *other_text;
	uint32_t spec_line; /* 0: none known */
	const char *spec_text;
	const char *text; /* the simulator's findings, or the abort record */
};

struct vf_result {
	unsigned schedules, launches, most_ctas;
	uint64_t rows, lane_insns;
	double worst;            /* largest |got - want| / err over all elements with a bound */
	double worst_err;        /* that bound, */
	double worst_diff;       /* and that difference */
	uint64_t exact, bounded; /* elements compared bit for bit, within a bound */
	struct vf_failure failure;
};

struct vf_data;

/*
 * Inputs and references of every row count, and a check that each pass keeps the kernel's meaning.
 * On failure *d has no data and `*error` says why (ST_INTERNAL: a pass changed the meaning), in
 * `a`.
 */
enum status vf_data_new(const struct vf_kernel *k, const struct vf_options *o, struct arena *a,
                        struct vf_data **d, const char **error);

/*
 * The same for n kernels that run one after the other, in one row form: a carried parameter is the
 * buffer that an earlier kernel of the chain has under the same name, with what the last of them
 * wrote to it.  The reference is handed on in the same way, with its bounds.  ST_INPUT: the kernels
 * do not go together.
 */
enum status vf_chain_new(const struct vf_kernel *k, unsigned n, const struct vf_options *o,
                         struct arena *a, struct vf_data **d, const char **error);
void vf_data_free(struct vf_data *d);

struct vf_text { /* of one kernel, and parsed; its entry is the kernel's name */
	const struct ptx_module *m;
	const char *text;
};

/*
 * Runs all schedules of the text, parsed as m.  ST_OK: all good; ST_INPUT: r->failure says what;
 * texts are in `a`.
 */
enum status vf_run(const struct vf_data *d, const struct ptx_module *m, const char *text,
                   struct arena *a, struct vf_result *r);

/* The same for a chain: t[i] is kernel i's. */
enum status vf_run_chain(const struct vf_data *d, const struct vf_text *t, struct arena *a,
                         struct vf_result *r);

struct vf_explored {
	uint64_t runs,
	        states; /* of the search: runs, also those that were cut; states that it chose in */
	uint64_t all_runs;  /* and of attempts before it, which showed who writes where */
	uint64_t whole;     /* runs to the end: executions that differ */
	bool complete;      /* there is no other execution */
	struct vf_result r; /* of the run that failed, if one did */
};

/*
 * One text in all ways that the memory model allows, with launches and CTAs as d's options say, and at
 * most so many runs.  ST_OK: x says what came of it.
 */
enum status vf_explore(struct vf_data *d, const struct ptx_module *m, const char *text,
                       uint64_t most, struct arena *a, struct vf_explored *x);

/* The failure as a few lines of text, ending in a newline.  `spec` names the spec. */
void vf_print_failure(const struct vf_failure *f, const char *spec, struct strbuf *out);
