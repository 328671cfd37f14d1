/*
 * Which protocol a kernel gets for T rows: the machine's own table, else measured rows of
 * picks.def, else a model of the time.  Pure functions of their arguments, so the answer is the
 * same on all ranks.
 */
#pragma once
#include "codegen/codegen.h"

struct cg_traffic {       /* bytes of one row */
	uint64_t sums;    /* of the operands that are summed over the ranks */
	uint64_t gathers; /* of the results that all ranks get */
	uint64_t local;   /* of what else is loaded and stored */
};

/*
 * What was measured on one machine, as points in any order (runtime/table.h reads them from a
 * file).  A kernel takes the points of the row length nearest to its own.
 */
struct cg_point {
	uint64_t row; /* bytes of a row that are summed (cg_traffic.sums) */
	uint64_t T;
	enum cg_protocol protocol;
	unsigned ctas; /* that were launched */
	double us;
};

struct cg_table {
	unsigned tp;
	bool multicast;   /* measured with it */
	const char *note; /* where: the source of choices that rest on it */
	const struct cg_point *point;
	size_t n;
};

/* One kernel and where it runs. */
struct cg_case {
	const char *kernel;
	const struct cg_target *target;
	bool multicast; /* the ranks' buffers may have multicast addresses */
	unsigned tp;
	struct cg_traffic row;
	const struct cg_table *table;       /* NULL: none; else it goes before all else */
	uint32_t can;                       /* bit p: protocol p can do it */
	const char *why_not[CG_NPROTOCOLS]; /* one line; NULL where it can */
};

struct cg_choice {
	enum cg_protocol protocol; /* CG_AUTO: none can */
	enum ir_rows rows;         /* the form the passes have to make */
	unsigned ctas;             /* the fewest that are within 2.5 % of the best time */
	double us;                 /* the model's time with them */
	const char *source;        /* what a measured pick rests on; NULL: the model */
};

/*
 * Fills *c for a kernel whose fused IR is `own` and `all`, by row form; NULL, with `no_own` or
 * `no_all` as the reason, where the kernel has not that form.  `o` is as for cg_compile (protocol is
 * not read).  Texts are in the arena.
 */
void cg_case_make(struct cg_case *c, const struct ir_func *own, const char *no_own,
                  const struct ir_func *all, const char *no_all, const struct cg_options *o,
                  bool multicast, struct arena *a);

/* Microseconds that the model gives to T rows by protocol p on `ctas` CTAs; never less for more
 * rows. */
double cg_cost(const struct cg_case *c, enum cg_protocol p, uint64_t T, unsigned ctas);

/* Has the protocol row form `rows` (enum ir_rows; -1: any)?  And which it then works on: `local` has
 * both. */
bool cg_has_form(enum cg_protocol p, int rows);
enum ir_rows cg_form_of(enum cg_protocol p, int rows);

/*
 * What the table says of T rows, of one row form (enum ir_rows) or of any (-1): the protocol with
 * the least time, interpolated between the points around T, among those that can do the kernel and
 * were measured at T (or up to the table's end).  CG_AUTO: it says nothing.
 */
struct cg_choice cg_measured(const struct cg_case *c, uint64_t T, int rows);

/* The best protocol for T rows. */
struct cg_choice cg_select(const struct cg_case *c, uint64_t T);

#define CG_MANY_ROWS 16384 /* for which CTAs and costs are given where no T is */

/*
 * Without T: a two-shot protocol, which is right for many rows and never far off in memory: through
 * the switch where there is multicast; then by peers; then a push.
 */
struct cg_choice cg_select_default(const struct cg_case *c);

/*
 * The same for kernels that run one after the other and share carried parameters, whose buffers
 * have one form: that with the least sum of times.  T 0: by cg_select_default.  False, and choices
 * of CG_AUTO, where no form suits all.
 */
bool cg_select_chain(const struct cg_case *c, unsigned n, uint64_t T, struct cg_choice *out);

/* The candidates at T rows, best first, by the model; at most CG_NPROTOCOLS.  Returns how many. */
unsigned cg_costs(const struct cg_case *c, uint64_t T, struct cg_choice *out);

/* A row of the table over T: the same choice for all of [from, to]. */
struct cg_range {
	uint64_t from, to; /* CG_MAX_ROWS: and all above */
	struct cg_choice choice;
};
#define CG_MAX_ROWS ((uint64_t)1 << 20) /* the table ends there */

/* The range that begins at `from`; the first begins at 1.  False: there is no more, or no choice. */
bool cg_select_range(const struct cg_case *c, uint64_t from, struct cg_range *r);

/* "push 7.6 us, p2p-twoshot 11.4 us": the candidates at T rows, best first. */
const char *cg_costs_text(const struct cg_case *c, uint64_t T, struct arena *a);

/* A table over T: the best protocol of each range with the costs at its beginning, and who cannot. */
void cg_print_select(const struct cg_case *c, struct arena *a, struct strbuf *out);
