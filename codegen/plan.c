/*
 * The shape of a kernel: threads, vectors, rows in flight; shared memory; the grid.
 *
 * Threads and vectors follow from cols alone, so the tree of row reductions does too (design
 * section 3: a numeric class).  Rows in flight fill the registers that are left (regs.c), up to
 * 64 KB of loads (what one SM needs to keep its share of the switch busy: doc/codegen.md).
 */
#include "codegen/regs.h"
#include "codegen/wide.h"

#define MAX_IN_FLIGHT 8
#define MAX_TEAMS     4
#define STATIC_SMEM   (48 * 1024)
/* CTAs that are launched where nobody says how many: of what takes all SMs, of bulk copies
 * (fastest with so many: doc/protocols.md, "Which one"), of the rest. */
#define SMS        128
#define BULK_CTAS  11
#define OTHER_CTAS 64

static unsigned ceil_div(unsigned a, unsigned b)
{
	return (a + b - 1) / b;
}

static void set_shape(struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_options *o)
{
	unsigned vecs = CG_ELEMS_PER_THREAD / rp->elems;

	p->threads = o->threads ? o->threads : ceil_div(rp->nvec, vecs);
	p->threads = ceil_div(p->threads, 32) * 32;
	if (p->threads > p->target->max_threads)
		p->threads = p->target->max_threads;
	p->vecs = ceil_div(rp->nvec, p->threads);
	p->row_threads = p->threads;
	p->teams = p->per_sm = 1;
	p->stages = 1;
	for (unsigned l = 0; l < rp->nlevel; l++)
		p->stages += rp->level[l].nrow > 0;
}

/* As many teams of threads as fit into a block, each with rows of its own; the registers left to a
 * thread. */
static unsigned set_teams(struct cg_plan *p, const struct cg_rowprog *rp)
{
	unsigned n = p->target->max_threads / p->row_threads;

	n = n < MAX_TEAMS ? n : MAX_TEAMS;
	while (n > 1 && (!cg_teams_fit(p, rp, n) || cg_group_bytes(rp)))
		n--;
	for (p->teams = n; p->teams > 1 && !cg_bulk_fits(p, rp);)
		n = --p->teams;
	p->threads = n * p->row_threads;
	return cg_regs_limit(p, 1);
}

/* Bytes that one row's in-switch loads bring (any loads, if there are none). */
static uint64_t row_bytes(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	uint64_t sums = 0, loads = 0;

	for (unsigned i = 0; i < rp->nval; i++) {
		const struct cg_value *v = &rp->val[i];
		uint64_t bytes = (uint64_t)v->ir->type.cols * cg_dtype_bytes(v->ir->type.dtype) *
		                 (v->summed ? p->sum_ranks : 1);

		if (v->ir->op == IR_OP_LOAD_SUM)
			sums += bytes;
		else if (v->ir->op == IR_OP_LOAD)
			loads += bytes;
	}
	return sums ? sums : loads;
}

static unsigned smem_bytes(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	unsigned warps = p->row_threads / 32;

	return (warps > 1 ? 2 * p->teams * cg_reduce_buffer(rp->max_nrow, warps) : 0) +
	       cg_group_bytes(rp) +
	       (p->xchg_row       ? 8
	        : p->communicates ? 4
	                          : 0);
}

/* What the reductions have of it is declared, so not more than kernels have without asking. */
static bool check_static(const struct cg_plan *p, const struct cg_rowprog *rp, struct diags *d)
{
	if (p->smem <= STATIC_SMEM)
		return true;
	diag_at(d, DIAG_ERROR, DIAG_CG_GROUP, rp->func->at,
	        "the groups of rows of %lld elements need %u bytes of shared memory: at most %d",
	        (long long)rp->cols, p->smem, STATIC_SMEM);
	diag_note(d, (struct span){0, 0},
	          "use groups of a power of two of %u elements, or fewer at a time", rp->elems);
	return false;
}

static bool check_options(const struct cg_options *o, const struct ir_func *f, struct diags *d)
{
	if (o->tp < 1 || o->tp > CG_MAX_RANKS) {
		diag_at(d, DIAG_ERROR, DIAG_CG_OPTION, f->at, "tp is %u; it must be from 1 to %d",
		        o->tp, CG_MAX_RANKS);
		return false;
	}
	if (!o->target) {
		diag_at(d, DIAG_ERROR, DIAG_CG_OPTION, f->at, "no target is given");
		diag_note(d, (struct span){0, 0}, "known targets: %s", cg_target_names(d->arena));
		return false;
	}
	if (o->pdl && o->target->sm < 90) {
		diag_at(d, DIAG_ERROR, DIAG_CG_OPTION, f->at,
		        "programmatic dependent launch needs sm_90 or later, the target is %s",
		        o->target->name);
		diag_note(d, (struct span){0, 0}, "use --pdl none");
		return false;
	}
	if (o->threads > o->target->max_threads || o->in_flight > MAX_IN_FLIGHT) {
		diag_at(d, DIAG_ERROR, DIAG_CG_OPTION, f->at,
		        "%u threads and %u rows in flight: at most %u and %d", o->threads,
		        o->in_flight, o->target->max_threads, MAX_IN_FLIGHT);
		return false;
	}
	return true;
}

/* Every row of a parameter begins where its vectors may be accessed. */
static bool check_align(const struct cg_rowprog *rp, struct diags *d)
{
	for (unsigned i = 0; i < rp->func->nparam; i++) {
		const struct ir_param *q = &rp->func->param[i];
		unsigned size = cg_dtype_bytes(q->type.dtype), least = size == 2 ? 4 : size;

		if (q->type.ndim == 0 || q->type.cols * rp->elems < rp->cols * 2)
			continue;
		if (cg_param_align(q) < least) {
			diag_at(d, DIAG_ERROR, DIAG_CG_ALIGN, q->at,
			        "rows of '%s' are aligned to %u bytes; at least %u are needed",
			        q->name, cg_param_align(q), least);
			diag_note(d, (struct span){0, 0},
			          "make its leading dimension even, and 'align' at least %u",
			          least);
			return false;
		}
	}
	return true;
}

static bool too_wide(const struct cg_rowprog *rp, struct diags *d, const char *why, const char *fix)
{
	diag_at(d, DIAG_ERROR, DIAG_CG_WIDE, rp->func->at, "%s", why);
	diag_note(d, (struct span){0, 0}, "%s", fix);
	return false;
}

/* Neither shared memory nor registers hold what a wide row keeps. */
static bool no_room(const struct cg_plan *p, const struct cg_rowprog *rp, struct arena *a,
                    struct diags *d)
{
	const char *why = arena_printf(
	        a,
	        "rows of %lld elements: what '%s' keeps of one between its reductions takes %llu "
	        "bytes, of which %s has %u in shared memory, and registers are too few for the "
	        "rest",
	        (long long)rp->cols, rp->func->name, (unsigned long long)cg_wide_bytes(p, rp),
	        p->target->name, p->target->smem_per_cta - p->smem);

	return too_wide(rp, d, why,
	                "keep 16-bit values, or fewer, between reductions; or write two kernels");
}

/* A row that goes vector by vector (wide.c). */
static bool plan_wide(struct cg_plan *p, const struct cg_rowprog *rp, unsigned limit,
                      struct arena *a, struct diags *d)
{
	const char *name = cg_protocol_name(p->protocol);

	if (rp->cols > CG_WIDEST)
		return too_wide(rp, d,
		                arena_printf(a, "rows of %lld elements", (long long)rp->cols),
		                arena_printf(a, "rows of up to %d elements are done", CG_WIDEST));
	if (cg_ops(p)->plan)
		return too_wide(rp, d,
		                arena_printf(a,
		                             "protocol '%s' keeps rows in registers: one of %lld "
		                             "elements does not fit into those of %u threads",
		                             name, (long long)rp->cols, p->threads),
		                "use --protocol p2p-twoshot or mm-twoshot, which keep wide rows in "
		                "shared memory");
	p->wide = true;
	p->per_sm = 1;
	p->xchg_ranks = p->xchg_row ? p->tp : p->xchg_ranks;
	p->in_flight = 1;
	p->keep_weights = false;
	while (cg_regs_vector(p, rp) + CG_REGS_MARGIN > limit && p->sum_ranks > 1)
		p->sum_ranks = (p->sum_ranks + 1) / 2;
	if (!cg_wide_plan(p, rp, cg_regs_vector(p, rp), limit - CG_REGS_MARGIN)) {
		p->reread = true;
		if (!cg_wide_plan(p, rp, cg_regs_vector(p, rp), limit - CG_REGS_MARGIN))
			return no_room(p, rp, a, d);
	}
	p->bytes_in_flight = row_bytes(p, rp) / p->vecs * (p->ahead + 1);
	p->why = arena_printf(a,
	                      "%u elements a thread, vector by vector; %u registers estimated of "
	                      "%u%s",
	                      p->vecs * p->elems, p->est_regs, limit,
	                      p->reread ? "; inputs are read again after reductions" : "");
	return true;
}

/* Rows in flight; false: registers allow fewer than are useful. */
static bool set_in_flight(struct cg_plan *p, const struct cg_rowprog *rp,
                          const struct cg_options *o, unsigned limit)
{
	uint64_t bytes = row_bytes(p, rp);
	unsigned want = bytes ? (unsigned)((CG_BYTES_IN_FLIGHT + bytes - 1) / bytes) : 1;

	want = want < 1 ? 1 : want > MAX_IN_FLIGHT ? MAX_IN_FLIGHT : want;
	if (p->xchg_row) /* what takes time is the way, and other CTAs of the SM use it */
		want = 1;
	if (cg_ops(p)->plan) /* the ring has the rows; what is left is small */
		want = 1;
	p->in_flight = o->in_flight ? o->in_flight : want;
	while (cg_regs_row(p, rp) + CG_REGS_MARGIN > limit && p->in_flight > 1 && !o->in_flight)
		p->in_flight--;
	return p->in_flight == want || o->in_flight;
}

/* Ranks whose addends, or words, are in registers at once; the estimate that this gives. */
static void set_sum_ranks(struct cg_plan *p, const struct cg_rowprog *rp, unsigned limit)
{
	unsigned margin = p->xchg_row ? CG_POLL_MARGIN : CG_REGS_MARGIN;

	if (p->xchg_row && p->xchg_ranks > 1 && p->threads > CG_FEW_THREADS)
		p->xchg_ranks = p->tp; /* no registers for its own words: by way of the buffer */
	while (cg_regs_row(p, rp) + margin > limit && p->sum_ranks > 1)
		p->sum_ranks = (p->sum_ranks + 1) / 2;
	p->est_regs = cg_regs_row(p, rp);
}

bool cg_plan_make(struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_options *o,
                  struct arena *a, struct diags *d)
{
	unsigned limit, ranks;
	bool enough;

	*p = (struct cg_plan){.order = o->order,
	                      .tp = o->tp,
	                      .target = o->target,
	                      .cols = rp->cols,
	                      .elems = rp->elems,
	                      .own_rows = rp->own_rows,
	                      .pdl = o->pdl,
	                      .rows_in_memory = o->rows_in_memory};
	if (!check_options(o, rp->func, d) || !cg_protocol_choose(p, rp, o, a, d) ||
	    !check_align(rp, d))
		return false;
	p->max_ctas = o->max_ctas && o->max_ctas < CG_MAX_CTAS ? o->max_ctas : CG_MAX_CTAS;
	set_shape(p, rp, o);
	ranks = p->sum_ranks;
	limit = cg_regs_limit(p, 1);
	enough = set_in_flight(p, rp, o, limit);
	set_sum_ranks(p, rp, limit);
	if (cg_ops(p)->plan && p->threads <= CG_FEW_THREADS)
		limit = set_teams(p, rp);
	p->smem = smem_bytes(p, rp);
	if (!check_static(p, rp, d))
		return false;
	if (!cg_row_fits(p, limit) || (o->wide && !cg_ops(p)->plan)) {
		p->sum_ranks = ranks;
		return plan_wide(p, rp, limit, a, d);
	}
	p->per_sm = cg_pair_fits(p, rp) ? 2 : 1;
	p->keep_weights = cg_weights_fit(p, rp);
	p->bytes_in_flight = row_bytes(p, rp) * p->in_flight;
	if (cg_ops(p)->plan && !cg_ops(p)->plan(p, rp, d))
		return false;
	p->why = arena_printf(a, "%u elements a thread; %u registers estimated of %u; %s",
	                      p->vecs * p->elems, p->est_regs, limit,
	                      enough ? "64 KB of loads in flight, or all that is useful"
	                             : "rows in flight limited by registers");
	return true;
}

unsigned cg_grid(const struct cg_plan *p, uint64_t T, unsigned ctas)
{
	uint64_t rows = p->own_rows ? T / p->tp + (T % p->tp != 0) : T;
	uint64_t n = ctas                              ? ctas
	             : p->xchg_row || !p->communicates ? SMS * p->per_sm
	             : p->ring_stages                  ? BULK_CTAS
	                                               : OTHER_CTAS;

	n = n < rows ? n : rows;
	n = n < p->max_ctas ? n : p->max_ctas;
	return n ? (unsigned)n : 1;
}
