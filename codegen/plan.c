/*
 * The shape of a kernel: threads, vectors, rows in flight; the grid.
 *
 * Threads and vectors follow from cols alone, so the tree of row reductions does too (design
 * section 3: a numeric class).  Rows in flight fill the registers that are left, up to 64 KB of
 * loads (what one SM needs to keep its share of the switch busy: doc/codegen.md).
 */
#include "codegen/emit.h"
#include "codegen/wide.h"
#include "support/strbuf.h"
#include <string.h>

#define ELEMS_PER_THREAD 16
#define SMS              128 /* of a GPU, for what is launched by default */
#define MAX_IN_FLIGHT    8
#define MAX_VECS         64
#define STATIC_SMEM      (48 * 1024)
#define FIXED_REGS       12 /* addresses, row numbers, lane; found with ptxas, as the next two */
#define MAX_TEMPS        6
#define SUM_TEMPS        6  /* while addends are summed */
#define POLL_MARGIN      16 /* where several ranks are polled at once */
#define MANY_PEERS       30 /* beyond CG_MAX_ADDENDS ranks, of which one more group is loaded */
#define MARGIN           8  /* left free when there is a choice */
#define MAX_TEAMS        4
#define WIDE_THREADS     512
#define PAIR_MARGIN      4  /* the same, where two CTAs are to share an SM */
#define TURNS_MARGIN     16 /* more, for a row that is reduced again after a reduction */
#define KEEP_MARGIN      8  /* more, to keep weights: ptxas then begins the next rows earlier */
#define WIDE_MARGIN      16 /* with more elements a thread ptxas keeps more in flight */

static unsigned ceil_div(unsigned a, unsigned b)
{
	return (a + b - 1) / b;
}

static void set_shape(struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_options *o)
{
	unsigned vecs = ELEMS_PER_THREAD / rp->elems;

	p->threads = o->threads ? o->threads : ceil_div(rp->nvec, vecs);
	p->threads = ceil_div(p->threads, 32) * 32;
	if (p->threads > p->target->max_threads)
		p->threads = p->target->max_threads;
	p->vecs = ceil_div(rp->nvec, p->threads);
	p->row_threads = p->threads;
	p->teams = p->per_sm = 1;
}

/* Several levels with work of their own make ptxas hoist more. */
static unsigned turns_margin(const struct cg_rowprog *rp)
{
	return rp->nlevel > 2 ? TURNS_MARGIN : 0;
}

/* Registers a thread may use so that one CTA fits into an SM: warps are dealt to four partitions,
 * in units of 8. */
static unsigned reg_limit(const struct cg_plan *p, unsigned ctas)
{
	unsigned r = p->target->regs_per_sm / 4 / 32 / ceil_div(ctas * p->threads / 32, 4) / 8 * 8;

	return r < p->target->max_regs_per_thread ? r : p->target->max_regs_per_thread;
}

/* As many teams of threads as fit into a block, each with rows of its own; the registers left to a
 * thread. */
static unsigned set_teams(struct cg_plan *p, const struct cg_rowprog *rp)
{
	unsigned n = p->target->max_threads / p->row_threads;

	n = n < MAX_TEAMS ? n : MAX_TEAMS;
	while (n > 1 && (p->est_regs + PAIR_MARGIN + turns_margin(rp) > reg_limit(p, n) ||
	                 cg_group_bytes(rp)))
		n--;
	for (p->teams = n; p->teams > 1 && !cg_bulk_fits(p, rp);)
		n = --p->teams;
	p->threads = n * p->row_threads;
	return reg_limit(p, 1);
}

/* Registers of a summed value's addends. */
static unsigned addend_regs(const struct cg_plan *p, const struct cg_rowprog *rp,
                            const struct cg_value *v)
{
	unsigned vecs = v->home == CG_HOME_ROW ? 1 : p->vecs;

	return v->used ? p->sum_ranks * vecs * cg_sum_words(rp, v) : 0;
}

/* Of those, what a slot has: of a protocol that pushes the rank's own. */
static unsigned slot_addends(const struct cg_plan *p, const struct cg_rowprog *rp,
                             const struct cg_value *v)
{
	return addend_regs(p, rp, v) / (p->xchg_row ? p->sum_ranks : 1);
}

/* Beyond the slot, to make the summed values: what is polled, and the sums of a part of the ranks.
 */
static unsigned sum_regs(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	unsigned most = 0;

	for (unsigned i = 0; i < rp->nval; i++) {
		const struct cg_value *v = &rp->val[i];
		unsigned n = 0;

		if (!v->summed || !v->used)
			continue;
		n += cg_ops(p)->ahead && !p->xchg_row ? SUM_TEMPS
		                                      : SUM_TEMPS + addend_regs(p, rp, v);
		n += p->sum_ranks < p->tp ? p->vecs * v->n : 0;
		most = n > most ? n : most;
	}
	return most;
}

/* Registers of one slot: a row's prefetched values. */
static unsigned slot_regs(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	unsigned n = 0;

	for (unsigned i = 0; i < rp->nval; i++) {
		const struct cg_value *v = &rp->val[i];

		if (cg_in_slot(v) && v->used)
			n += cg_value_regs(v, p->vecs);
		else if (v->summed && cg_ops(p)->ahead)
			n += slot_addends(p, rp, v);
	}
	return n;
}

/* Registers of values that stay from level l to l + 1. */
static unsigned held_regs(const struct cg_plan *p, const struct cg_rowprog *rp, unsigned l)
{
	unsigned n = 0;

	for (unsigned i = 0; i < rp->nval; i++)
		if (cg_value_held(&rp->val[i], l))
			n += cg_value_regs(&rp->val[i], p->vecs);
	return n;
}

/* What a level works with: one vector of each weight and of each store, a few elements of its
 * values. */
static unsigned work_regs(const struct cg_plan *p, const struct cg_rowprog *rp, unsigned l)
{
	unsigned n = 0, temps = 0;

	for (unsigned i = 0; i < rp->nval; i++) {
		const struct cg_value *v = &rp->val[i];

		if (cg_is_store(v->ir) && v->level == l)
			n += p->elems * cg_dtype_bytes(rp->func->param[v->ir->param].type.dtype) /
			     4;
		else if (cg_is_constant(v->ir) && v->home == CG_HOME_WEIGHT && v->used >> l & 1)
			n += cg_value_regs(v, 1);
		else if (v->home == CG_HOME_ELEM && v->used >> l & 1)
			temps += 2;
	}
	return n + (temps < MAX_TEMPS ? temps : MAX_TEMPS);
}

/*
 * Beside the rows in flight: what came from the level before or goes to the next, and the level's
 * work.  The work is done while the slot drains, so half of what the level drains counts as free.
 */
static unsigned level_regs(const struct cg_plan *p, const struct cg_rowprog *rp, unsigned l)
{
	unsigned in = l ? held_regs(p, rp, l - 1) : 0, out = held_regs(p, rp, l),
	         acc = 2 * rp->level[l].nrow;
	unsigned work = work_regs(p, rp, l) + acc + (in > out ? in : out), drained = 0;

	for (unsigned i = 0; i < rp->nval; i++) {
		const struct cg_value *v = &rp->val[i];

		if (cg_in_slot(v) && v->used && v->last == l)
			drained += cg_value_regs(v, p->vecs);
		if (v->summed && v->used && !l) {
			work += cg_value_regs(v, p->vecs);
			drained += cg_ops(p)->ahead ? 2 * slot_addends(p, rp, v) : 0;
		}
	}
	work -= drained / 2 < work ? drained / 2 : work;
	work = work > out + acc ? work : out + acc;
	return l || work > sum_regs(p, rp) ? work : sum_regs(p, rp);
}

static unsigned estimate(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	unsigned most = 0, fixed = FIXED_REGS;

	for (unsigned i = 0; i < rp->nval; i++)
		if (rp->val[i].home == CG_HOME_UNIFORM && rp->val[i].used)
			fixed++;
	if (cg_ops(p)->ahead && p->sum_ranks && p->tp > CG_MAX_ADDENDS)
		fixed += MANY_PEERS + turns_margin(rp);
	for (unsigned l = 0; l < rp->nlevel; l++) {
		unsigned n = level_regs(p, rp, l);

		most = n > most ? n : most;
	}
	return fixed + p->in_flight * slot_regs(p, rp) + most;
}

/* Registers that hold all weights' part of a thread. */
static unsigned weight_regs(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	unsigned n = 0;

	for (unsigned i = 0; i < rp->nval; i++)
		if (cg_is_constant(rp->val[i].ir) && rp->val[i].home == CG_HOME_WEIGHT &&
		    rp->val[i].used)
			n += cg_value_regs(&rp->val[i], p->vecs);
	return n;
}

/* Two CTAs an SM, where the data are the flags: one polls while the other works. */
static bool pairs(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	unsigned margin = turns_margin(rp) + (p->sum_ranks > 2 ? POLL_MARGIN : PAIR_MARGIN);

	return p->xchg_row && p->threads <= WIDE_THREADS && p->est_regs + margin <= reg_limit(p, 2);
}

/*
 * Weights are loaded once, before the first row, if they fit beside it.  What shares an SM has
 * registers to the last: there ptxas makes do with some less than estimated.  Polling many ranks,
 * and dividing rows among a number of them that is no power of two, takes some more.
 */
static bool weights_fit(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	bool tight = p->teams > 1 || p->per_sm > 1, odd = p->teams > 1 && p->tp & (p->tp - 1);
	int need = (int)(p->est_regs + weight_regs(p, rp) + turns_margin(rp));
	int have = (int)reg_limit(p, p->per_sm);

	if (tight ? p->sum_ranks > 2 || odd : rp->nlevel > 2)
		need += KEEP_MARGIN;
	if (!tight)
		need += MARGIN;
	else if (p->sum_ranks <= 2 && !odd)
		have += p->target->spare_regs;
	return p->tp <= CG_MAX_ADDENDS && need <= have;
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

/* Registers for one vector of a wide row in the level that needs most, and what is kept beside. */
static unsigned vector_regs(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	unsigned most = 0, fixed = FIXED_REGS, sums = 0;

	for (unsigned i = 0; i < rp->nval; i++) {
		const struct cg_value *v = &rp->val[i];

		fixed += v->used && v->home == CG_HOME_UNIFORM;
		if (v->summed && v->used)
			sums = SUM_TEMPS + p->sum_ranks * cg_sum_words(rp, v) + v->n;
	}
	for (unsigned l = 0; l < rp->nlevel; l++) {
		unsigned n = work_regs(p, rp, l) + 2 * rp->level[l].nrow;

		for (unsigned i = 0; i < rp->nval; i++) {
			const struct cg_value *v = &rp->val[i];

			if (v->home == CG_HOME_ROW && cg_value_held(v, l))
				n++;
			else if (v->home == CG_HOME_ELEM && v->used >> l & 1 && !cg_is_alias(v->ir))
				n += cg_value_regs(v, 1);
		}
		most = n > most ? n : most;
	}
	if (sums) /* before the work of level 0 */
		sums += p->xchg_row ? POLL_MARGIN / 2 : cg_wide_loaded(p, rp);
	most = sums > most ? sums : most;
	return fixed + most;
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
	while (vector_regs(p, rp) + MARGIN > limit && p->sum_ranks > 1)
		p->sum_ranks = (p->sum_ranks + 1) / 2;
	if (!cg_wide_plan(p, rp, vector_regs(p, rp), limit - MARGIN)) {
		p->reread = true;
		if (!cg_wide_plan(p, rp, vector_regs(p, rp), limit - MARGIN))
			return too_wide(
			        rp, d,
			        arena_printf(
			                a,
			                "rows of %lld elements: what '%s' keeps of one between "
			                "its reductions takes %llu bytes, of which %s has %u "
			                "in shared memory, and registers are too few for the "
			                "rest",
			                (long long)rp->cols, rp->func->name,
			                (unsigned long long)cg_wide_bytes(p, rp), p->target->name,
			                p->target->smem_per_cta - p->smem),
			        "keep 16-bit values, or fewer, between reductions; or write two "
			        "kernels");
	}
	p->bytes_in_flight = row_bytes(p, rp) / p->vecs * (p->ahead + 1);
	p->why = arena_printf(a,
	                      "%u elements a thread, vector by vector; %u registers estimated of "
	                      "%u%s",
	                      p->vecs * p->elems, p->est_regs, limit,
	                      p->reread ? "; inputs are read again after reductions" : "");
	return true;
}

/* Does the row go into registers? */
static bool row_fits(const struct cg_plan *p, unsigned limit)
{
	return p->vecs <= MAX_VECS &&
	       (p->est_regs + WIDE_MARGIN <= limit || p->vecs * p->elems <= ELEMS_PER_THREAD);
}

bool cg_plan_make(struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_options *o,
                  struct arena *a, struct diags *d)
{
	uint64_t bytes;
	unsigned want, limit, ranks;

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
	p->stages = 1;
	for (unsigned l = 0; l < rp->nlevel; l++)
		p->stages += rp->level[l].nrow > 0;
	limit = reg_limit(p, 1);
	bytes = row_bytes(p, rp);
	want = bytes ? (unsigned)((CG_BYTES_IN_FLIGHT + bytes - 1) / bytes) : 1;
	p->in_flight = want < 1 ? 1 : want > MAX_IN_FLIGHT ? MAX_IN_FLIGHT : want;
	if (p->xchg_row) /* what takes time is the way, and other CTAs of the SM use it */
		p->in_flight = want = 1;
	if (cg_ops(p)->plan) /* the ring has the rows; what is left is small */
		p->in_flight = want = 1;
	if (o->in_flight)
		p->in_flight = o->in_flight;
	while (estimate(p, rp) + MARGIN > limit && p->in_flight > 1 && !o->in_flight)
		p->in_flight--;
	if (p->xchg_row && p->xchg_ranks > 1 && p->threads > WIDE_THREADS)
		p->xchg_ranks = p->tp; /* no registers for its own words: by way of the buffer */
	while (estimate(p, rp) + (p->xchg_row ? POLL_MARGIN : MARGIN) > limit && p->sum_ranks > 1)
		p->sum_ranks = (p->sum_ranks + 1) / 2;
	p->est_regs = estimate(p, rp);
	if (cg_ops(p)->plan && p->threads <= WIDE_THREADS)
		limit = set_teams(p, rp);
	p->smem = smem_bytes(p, rp);
	if (!check_static(p, rp, d))
		return false;
	if (!row_fits(p, limit) || (o->wide && !cg_ops(p)->plan)) {
		p->sum_ranks = ranks;
		return plan_wide(p, rp, limit, a, d);
	}
	p->per_sm = pairs(p, rp) ? 2 : 1;
	p->keep_weights = weights_fit(p, rp);
	p->bytes_in_flight = row_bytes(p, rp) * p->in_flight;
	if (cg_ops(p)->plan && !cg_ops(p)->plan(p, rp, d))
		return false;
	p->why = arena_printf(a, "%u elements a thread; %u registers estimated of %u; %s",
	                      p->vecs * p->elems, p->est_regs, limit,
	                      p->in_flight == want || o->in_flight
	                              ? "64 KB of loads in flight, or all that is useful"
	                              : "rows in flight limited by registers");
	return true;
}

unsigned cg_grid(const struct cg_plan *p, uint64_t T, unsigned ctas)
{
	uint64_t rows = p->own_rows ? T / p->tp + (T % p->tp != 0) : T;
	uint64_t n = ctas                              ? ctas
	             : p->xchg_row || !p->communicates ? SMS * p->per_sm
	             : p->ring_stages                  ? 11
	                                               : 64;

	n = n < rows ? n : rows;
	n = n < p->max_ctas ? n : p->max_ctas;
	return n ? (unsigned)n : 1;
}

static void print_block(const struct cg_plan *p, struct strbuf *out)
{
	strbuf_printf(out, "  block %u threads", p->threads);
	if (p->teams > 1)
		strbuf_printf(out, " in %u teams", p->teams);
	strbuf_printf(
	        out, " x %u vectors x %u elements, %u rows in flight (%llu bytes), %u stages\n",
	        p->vecs, p->elems, p->in_flight, (unsigned long long)p->bytes_in_flight, p->stages);
}

static void print_params(const struct cg_kernel *k, struct strbuf *out)
{
	static const char *const sym[] = {"", ", peer", ", multicast"};

	for (unsigned i = 0; i < k->nparam; i++) {
		const struct cg_param *q = &k->param[i];

		strbuf_printf(out, "  param %s: %s", q->name, ir_dtype_info[q->type.dtype].text);
		if (q->type.ndim == 2)
			strbuf_printf(out, "[T, %lld] %s", (long long)q->type.cols,
			              ir_place_name[q->type.place]);
		else if (q->type.ndim == 1)
			strbuf_printf(out, "[%lld]", (long long)q->type.cols);
		strbuf_printf(out, ", ld %lld, align %u%s%s%s\n", (long long)q->ld, q->align,
		              sym[q->symmetric], q->local_index ? ", local rows" : "",
		              q->constant ? ", constant" : "");
	}
}

void cg_print_plan(const struct cg_kernel *k, struct strbuf *out)
{
	static const char *const kinds[] = {
	        [CG_ARG_UC] = "address",
	        [CG_ARG_MC] = "multicast address",
	        [CG_ARG_WS_UC] = "workspace",
	        [CG_ARG_WS_MC] = "multicast workspace",
	        [CG_ARG_ROWS] = "T",
	        [CG_ARG_RANK] = "rank",
	        [CG_ARG_PEERS] = "peers' addresses",
	        [CG_ARG_WS_PEERS] = "peers' workspaces",
	        [CG_ARG_XCHG_UC] = "exchange buffer",
	        [CG_ARG_XCHG_MC] = "multicast exchange buffer",
	        [CG_ARG_XCHG_PEERS] = "peers' exchange buffers",
	        [CG_ARG_ROWS_PTR] = "where T is",
	};
	const struct cg_plan *p = &k->plan;

	strbuf_printf(out, "kernel %s\n", k->name);
	strbuf_printf(out, "  protocol %s, order %s, tp %u, target %s\n",
	              cg_protocol_name(p->protocol), cg_order_name(p->order), p->tp,
	              p->target->name);
	strbuf_printf(out, "  rows: %s of %lld elements, %s\n", p->own_rows ? "own" : "all",
	              (long long)p->cols,
	              p->xchg_row       ? "data are the flags"
	              : p->communicates ? "barriers at entry and exit"
	                                : "no communication");
	print_block(p, out);
	if (p->sum_ranks)
		strbuf_printf(out, "  sums in order of ranks, %u of %u at a time\n", p->sum_ranks,
		              p->tp);
	if (p->xchg_row)
		strbuf_printf(out, "  exchange buffer: 3 x (%d + %u x rows) bytes\n", CG_XCHG_HEAD,
		              p->xchg_ranks * p->xchg_row);
	if (p->pdl)
		strbuf_printf(out, "  programmatic dependent launch: %s\n", cg_pdl_name(p->pdl));
	if (p->wide)
		strbuf_printf(out,
		              "  wide: vector by vector, %u loaded ahead; %u vectors of a thread "
		              "parked in %u bytes of dynamic shared memory, %u in registers\n",
		              p->ahead, p->parked, p->dynamic, p->vecs - p->parked);
	else if (p->dynamic)
		strbuf_printf(out,
		              "  ring of %u stages x %u ranks, results staged in %u bytes, each "
		              "team: %u bytes of dynamic shared memory\n",
		              p->ring_stages, p->ring_ranks, p->ring_out, p->dynamic);
	strbuf_printf(out, "  shared memory %u bytes, at most %u CTAs, about %u registers\n",
	              p->smem, p->max_ctas, p->est_regs);
	strbuf_printf(out, "  chosen: %s\n", p->why);
	print_params(k, out);
	for (unsigned i = 0; i < k->narg; i++) {
		const struct cg_arg *g = &k->arg[i];
		bool of = g->kind == CG_ARG_UC || g->kind == CG_ARG_MC || g->kind == CG_ARG_PEERS;

		strbuf_printf(out, "  argument %u: %s, %u bytes at %u: %s%s%s\n", i, g->name,
		              g->size, g->offset, kinds[g->kind], of ? " of " : "",
		              of ? k->param[g->param].name : "");
	}
	strbuf_printf(out, "  contract %016llx\n", (unsigned long long)k->contract);
}
