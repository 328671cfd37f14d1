/*
 * The estimate counts the rows in flight, what is kept between levels and a level's work.  Its
 * constants were found with ptxas 13.0, so that no kernel of the samples spills up to hidden 8192,
 * on any target, with 2 to 8 and 16 ranks (sm_120: to 8):
 *
 *	PLAIT_TEST_ALL=1 build/tests/kernels/kernels samples doc/kernels.md
 */
#include "codegen/regs.h"
#include "codegen/wide.h"

#define FIXED_REGS   12 /* addresses, row numbers, lane */
#define MAX_TEMPS    6
#define SUM_TEMPS    6  /* while addends are summed */
#define MANY_PEERS   30 /* beyond CG_MAX_ADDENDS ranks, of which one more group is loaded */
#define PAIR_MARGIN  4  /* left free where two CTAs are to share an SM */
#define TURNS_MARGIN 16 /* more, for a row that is reduced again after a reduction */
#define KEEP_MARGIN  8  /* more, to keep weights: ptxas then begins the next rows earlier */
#define WIDE_MARGIN  16 /* with more elements a thread ptxas keeps more in flight */
#define MAX_VECS     64

/* Several levels with work of their own make ptxas hoist more. */
static unsigned turns_margin(const struct cg_rowprog *rp)
{
	return rp->nlevel > 2 ? TURNS_MARGIN : 0;
}

/* Warps are dealt to the four partitions of an SM, registers to a thread in units of 8. */
unsigned cg_regs_limit(const struct cg_plan *p, unsigned ctas)
{
	unsigned warps = (ctas * p->threads / 32 + 3) / 4; /* of a partition */
	unsigned r = p->target->regs_per_sm / 4 / 32 / warps / 8 * 8;

	return r < p->target->max_regs_per_thread ? r : p->target->max_regs_per_thread;
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

unsigned cg_regs_row(const struct cg_plan *p, const struct cg_rowprog *rp)
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

bool cg_teams_fit(const struct cg_plan *p, const struct cg_rowprog *rp, unsigned n)
{
	return p->est_regs + PAIR_MARGIN + turns_margin(rp) <= cg_regs_limit(p, n);
}

/* Where the data are the flags: one CTA polls while the other works. */
bool cg_pair_fits(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	unsigned margin = turns_margin(rp) + (p->sum_ranks > 2 ? CG_POLL_MARGIN : PAIR_MARGIN);

	return p->xchg_row && p->threads <= CG_FEW_THREADS &&
	       p->est_regs + margin <= cg_regs_limit(p, 2);
}

/*
 * Weights are loaded once, before the first row, if they fit beside it.  What shares an SM has
 * registers to the last: there ptxas makes do with some less than estimated.  Polling many ranks,
 * and dividing rows among a number of them that is no power of two, takes some more.
 */
bool cg_weights_fit(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	bool tight = p->teams > 1 || p->per_sm > 1, odd = p->teams > 1 && p->tp & (p->tp - 1);
	int need = (int)(p->est_regs + weight_regs(p, rp) + turns_margin(rp));
	int have = (int)cg_regs_limit(p, p->per_sm);

	if (tight ? p->sum_ranks > 2 || odd : rp->nlevel > 2)
		need += KEEP_MARGIN;
	if (!tight)
		need += CG_REGS_MARGIN;
	else if (p->sum_ranks <= 2 && !odd)
		have += p->target->spare_regs;
	return p->tp <= CG_MAX_ADDENDS && need <= have;
}

bool cg_row_fits(const struct cg_plan *p, unsigned limit)
{
	return p->vecs <= MAX_VECS &&
	       (p->est_regs + WIDE_MARGIN <= limit || p->vecs * p->elems <= CG_ELEMS_PER_THREAD);
}

unsigned cg_regs_vector(const struct cg_plan *p, const struct cg_rowprog *rp)
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
		sums += p->xchg_row ? CG_POLL_MARGIN / 2 : cg_wide_loaded(p, rp);
	most = sums > most ? sums : most;
	return fixed + most;
}
