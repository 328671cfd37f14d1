/*
 * The search: for each split row and each step of the lockstep, the CTAs of the collective beside it
 * and the SM target of each GEMM that minimise the larger of both.  Exhaustive, and cheap because
 * steps do not depend on one another.
 */
#include "planner/search.h"
#include <stdlib.h>

/* ---- row indices: 0 .. ncand-1 first parts, then second parts, then all rows ---- */

static uint32_t row_index(const struct pl_search *s, uint32_t half, uint32_t i)
{
	if (half == 0)
		return i;
	/* where align divides T, a second part is as long as some first part */
	return s->b->tokens % s->align == 0 ? s->ncand - 1 - i : s->ncand + i;
}

static uint32_t all_index(const struct pl_search *s)
{
	return s->nrow - 1;
}

static int64_t first_rows(const struct pl_search *s, uint32_t i)
{
	return s->align * (int64_t)(i + 1);
}

static int64_t part_rows(const struct pl_search *s, uint32_t half, uint32_t i)
{
	int64_t m = first_rows(s, i);

	return half ? s->b->tokens - m : m;
}

static int64_t op_rows(const struct pl_op *op, int64_t rows)
{
	return op->share > 1 ? (rows + op->share - 1) / op->share : rows;
}

/* ---- cells that are filled when they are first asked for ---- */

static const unsigned free_of[PL_NFREE] = {0, 2, 4, 6, 8, 12, 16, 24, 32};

static uint32_t free_row(unsigned n)
{
	for (uint32_t i = 0; i < PL_NFREE; i++)
		if (free_of[i] == n)
			return i;
	return 0;
}

/* Where a part's operation stands: which one of all, of how many rows, beginning where. */
struct place {
	const struct pl_op *op;
	uint32_t number, index;
	int64_t row, rows;
};

static const struct pl_run *run_of(struct pl_search *s, const struct place *at, unsigned leave)
{
	struct pl_run *r =
	        &s->p->run[((size_t)at->number * PL_NFREE + free_row(leave)) * s->nrow + at->index];
	struct pl_gemm g;

	if (r->us < 0) {
		pl_gemm_choose(s->o, at->op, op_rows(at->op, at->rows),
		               leave ? s->o->machine.sms - leave : 0, &g);
		*r = g.run;
	}
	return r;
}

/* Attention depends on which rows a part has, not only on how many. */
static struct pl_fluid fluid_of(struct pl_search *s, const struct place *at, uint32_t half)
{
	size_t per = s->nrow + s->ncand;
	struct pl_fluid *f = &s->p->fluid[(size_t)at->number * per + at->index +
	                                  (half && at->index < s->ncand ? s->nrow : 0)];

	if (f->work < 0)
		*f = pl_fluid_of(&s->o->machine, at->op, s->b, at->row,
		                 op_rows(at->op, at->rows));
	return *f;
}

/* ---- one operation after another ---- */

/* When the operation ends that may start at t; which GEMM target wins is written to *leave. */
static double op_finish(struct pl_search *s, const struct place *at, uint32_t half, double t,
                        double until, unsigned ctas, unsigned *leave)
{
	const struct pl_machine *m = &s->o->machine;
	unsigned choice[PL_MAX_TARGETS], n;
	double best = 0;

	*leave = 0;
	t += m->launch_us;
	if (at->op->kind != PL_GEMM && at->op->kind != PL_GROUPED)
		return pl_fluid_finish(m, fluid_of(s, at, half), t, until, ctas);
	if (until <= t)
		return t + run_of(s, at, 0)->us;
	n = at->op->kind == PL_GEMM ? pl_free_choices(s->o, ctas, choice) : 1;
	for (unsigned i = 0; i < n; i++) {
		unsigned c = at->op->kind == PL_GEMM ? choice[i] : 0;
		double e = pl_gemm_finish(m, run_of(s, at, c), t, until, ctas);

		if (i == 0 || e < best) {
			best = e;
			*leave = c;
		}
	}
	return best;
}

/* The operations of a shape for one part, beside a collective that ends at `until`. */
static double compute(struct pl_search *s, uint32_t shape, uint32_t half, uint32_t index,
                      int64_t row, int64_t rows, double until, unsigned ctas,
                      struct pl_op_plan *op)
{
	const struct pl_segment *g = &s->p->model->shape[shape];
	double t = 0;

	for (uint32_t k = 0; k < g->nop; k++) {
		struct place at = {&g->op[k], s->p->first_op[shape] + k, index, row, rows};
		unsigned leave;
		double e = op_finish(s, &at, half, t, until, ctas, &leave);

		if (op) {
			op[k] = (struct pl_op_plan){.op = at.op, .rows = op_rows(at.op, rows)};
			op[k].sm_target = leave ? s->o->machine.sms - leave : 0;
			op[k].start = t;
			op[k].us = e - t;
			if (at.op->kind == PL_GEMM || at.op->kind == PL_GROUPED)
				pl_gemm_choose(s->o, at.op, op[k].rows, op[k].sm_target,
				               &op[k].gemm);
		}
		t = e;
	}
	return t;
}

double pl_whole_compute(struct pl_search *s, uint32_t shape, struct pl_op_plan *op)
{
	return compute(s, shape, 0, all_index(s), 0, s->b->tokens, 0, 0, op);
}

/* ---- a stage: the best CTA count ---- */

struct pl_choice pl_best_stage(struct pl_search *s, const struct pl_pair *pair, uint32_t i,
                               struct pl_op_plan *op)
{
	const struct pl_machine *m = &s->o->machine;
	uint32_t index = row_index(s, pair->half, i), other = pair->half ^ 1;
	int64_t rows = part_rows(s, pair->half, i), row = pair->half ? first_rows(s, i) : 0;
	struct pl_choice best = {0, 0, -1, 0};
	unsigned ctas[PL_MAX_CTAS], n = 0;
	double bytes = 0, alone;

	alone = compute(s, pair->shape, pair->half, index, row, rows, 0, 0, NULL);
	if (pair->before >= 0) {
		bytes = s->p->model->shape[pair->before].tail.message *
		        (double)part_rows(s, other, i);
		n = bytes > 0 ? pl_cta_choices(&m->fused, ctas) : 0;
	}
	for (unsigned k = 0; k < n; k++) {
		double x = pl_comm_us(&m->fused, bytes, ctas[k]), c, us;

		if (best.us >= 0 && (x + m->join_us >= best.us || alone + m->join_us >= best.us))
			continue; /* it cannot be better */
		c = compute(s, pair->shape, pair->half, index, row, rows, x, ctas[k], NULL);
		us = (c > x ? c : x) + m->join_us;
		if (best.us < 0 || us < best.us)
			best = (struct pl_choice){c, x, us, ctas[k]};
	}
	if (!n)
		best = (struct pl_choice){alone, 0, alone, 0};
	if (op)
		compute(s, pair->shape, pair->half, index, row, rows, best.collective, best.ctas,
		        op);
	return best;
}

/* ---- the whole model ---- */

double pl_tail_us(const struct pl_machine *m, const struct pl_tail *t, int64_t rows, bool own,
                  unsigned *ctas)
{
	double us;

	*ctas = 0;
	if (!t->kernel)
		return 0;
	if (t->message <= 0)
		return m->launch_us + pl_mem_us(m, t->local_bytes * (double)rows);
	*ctas = pl_comm_best(own ? &m->fused : &m->push, t->message * (double)rows, &us);
	return us;
}

/* The last collective: nothing hides it. */
static double last_us(const struct pl_search *s, uint32_t i)
{
	const struct pl_model *mo = s->p->model;
	unsigned ctas;

	return pl_tail_us(&s->o->machine, &mo->shape[mo->seq[mo->nseq - 1]].tail,
	                  part_rows(s, 1, i), true, &ctas);
}

double pl_split_us(struct pl_search *s, uint32_t i)
{
	double sum = last_us(s, i);

	for (uint32_t k = 0; k < s->p->npair; k++)
		sum += s->p->pair[k].count * pl_best_stage(s, &s->p->pair[k], i, NULL).us;
	return sum;
}

/* The order of trial: from the middle outwards, so that of equals the most even split wins. */
static uint32_t nth_from_middle(uint32_t n, uint32_t k)
{
	uint32_t middle = (n - 1) / 2, step = (k + 1) / 2;

	return k % 2 ? middle + step : middle - step;
}

uint32_t pl_best_split(struct pl_search *s, double *us)
{
	uint32_t best = s->ncand;

	for (uint32_t k = 0; k < s->ncand; k++) {
		uint32_t i = nth_from_middle(s->ncand, k);
		double t = pl_split_us(s, i);

		if (best == s->ncand || t < *us) {
			best = i;
			*us = t;
		}
	}
	return best;
}

/* ---- room ---- */

static bool room_for(struct planner *p, size_t nrun, size_t nfluid)
{
	if (nrun > p->nrun) {
		free(p->run);
		p->run = malloc(nrun * sizeof *p->run);
		p->nrun = p->run ? nrun : 0;
	}
	if (nfluid > p->nfluid) {
		free(p->fluid);
		p->fluid = malloc(nfluid * sizeof *p->fluid);
		p->nfluid = p->fluid ? nfluid : 0;
	}
	return p->run && p->fluid;
}

bool pl_search_begin(struct pl_search *s, struct planner *p, const struct pl_options *o,
                     const struct pl_batch *b)
{
	size_t nrun, nfluid;

	*s = (struct pl_search){.p = p, .o = o, .b = b, .align = o->align ? o->align : 128};
	s->ncand = o->no_split || p->model->tp < 2 || !o->machine.fused.n ? 0 : (uint32_t)((b->tokens - 1) / s->align);
	s->nrow = (b->tokens % s->align ? 2 : 1) * s->ncand + 1;
	nrun = (size_t)(p->nop + 1) * PL_NFREE * s->nrow;
	nfluid = (size_t)(p->nop + 1) * (s->nrow + s->ncand);
	if (!room_for(p, nrun, nfluid))
		return false;
	for (size_t i = 0; i < nrun; i++)
		p->run[i].us = -1;
	for (size_t i = 0; i < nfluid; i++)
		p->fluid[i].work = -1;
	return true;
}

size_t pl_split_curve(struct planner *p, int64_t tokens, struct arena *a, int64_t **row,
                      double **us)
{
	struct pl_batch b = {.tokens = tokens};
	struct pl_search s;

	if (tokens < 1 || !pl_search_begin(&s, p, &p->o, &b))
		return 0;
	*row = arena_news(a, int64_t, s.ncand);
	*us = arena_news(a, double, s.ncand);
	for (uint32_t i = 0; i < s.ncand; i++) {
		(*row)[i] = first_rows(&s, i);
		(*us)[i] = pl_split_us(&s, i);
	}
	return s.ncand;
}
