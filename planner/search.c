/*
 * The search: for each split row and each step of the lockstep, the CTAs of the collective beside it
 * and the SM target of each GEMM that minimise the larger of both.  Exhaustive, and cheap because
 * steps do not depend on one another.
 */
#include "planner/search.h"
#include <math.h>
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
	size_t cell = ((size_t)at->number * s->nrow + at->index) * PL_NFREE + free_row(leave);
	struct pl_run *r = &s->p->run[cell];
	struct pl_gemm g;

	if (s->p->seen[cell] != s->p->search) {
		pl_gemm_prepared(s->o, at->op, &s->p->prep[at->number], op_rows(at->op, at->rows),
		                 leave ? s->o->machine.sms - leave : 0, &g);
		*r = g.run;
		s->p->seen[cell] = s->p->search;
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
		*f = pl_fluid_of(&s->o->machine, at->op, s->b, at->row, op_rows(at->op, at->rows));
	return *f;
}

/* ---- one operation after another ---- */

static unsigned free_choices(const struct pl_search *s, unsigned ctas, const unsigned **choice)
{
	unsigned k = 0;

	while (k + 1 < s->nctas && s->ctas[k] != ctas)
		k++;
	*choice = s->leave[k];
	return s->nleave[k];
}

/* When the operation ends that may start at t; which GEMM target wins is written to *leave. */
static double op_finish(struct pl_search *s, const struct place *at, uint32_t half, double t,
                        double until, unsigned ctas, unsigned *leave)
{
	const struct pl_machine *m = &s->o->machine;
	const unsigned *choice;
	double best = 0, least;
	unsigned n;

	*leave = 0;
	if (at->op->kind == PL_WORK && !(at->op->flops > 0) && !(at->op->bytes > 0))
		return t; /* nothing is enqueued */
	t += m->launch_us;
	if (at->op->kind != PL_GEMM && at->op->kind != PL_GROUPED)
		return pl_fluid_finish(m, fluid_of(s, at, half), t, until, ctas);
	if (until <= t)
		return t + run_of(s, at, 0)->us;
	if (at->op->kind == PL_GROUPED)
		return pl_gemm_finish(m, run_of(s, at, 0), t, until, ctas);
	least = s->bounded ? pl_slowed(m, run_of(s, at, 0)->us, t, until) : 0;
	n = free_choices(s, ctas, &choice);
	for (unsigned i = 0; i < n && (!i || best > least); i++) {
		double e = pl_gemm_finish(m, run_of(s, at, choice[i]), t, until, ctas);

		if (i == 0 || e < best) {
			best = e;
			*leave = choice[i];
		}
	}
	return best;
}

/* When the operation ends if no collective runs, from the beginning of its segment. */
static double *alone_to(struct pl_search *s, uint32_t number, uint32_t half, uint32_t index)
{
	return &s->p->alone[((size_t)number * 2 + half) * s->nrow + index];
}

/* The operations of a shape for one part, beside a collective that ends at `until`. */
static double compute(struct pl_search *s, uint32_t shape, uint32_t half, uint32_t index,
                      int64_t row, int64_t rows, double until, unsigned ctas, struct pl_op_plan *op)
{
	const struct pl_segment *g = &s->p->model->shape[shape];
	uint32_t first = s->p->first_op[shape];
	double t = 0;

	for (uint32_t k = 0; k < g->nop; k++) {
		struct place at = {&g->op[k], first + k, index, row, rows};
		unsigned leave;
		double e;

		/* nothing runs beside the rest */
		if (!op && k && until > 0 && t + s->o->machine.launch_us >= until)
			return t + *alone_to(s, first + g->nop - 1, half, index) -
			       *alone_to(s, first + k - 1, half, index);
		e = op_finish(s, &at, half, t, until, ctas, &leave);
		if (op) {
			op[k] = (struct pl_op_plan){.op = at.op, .rows = op_rows(at.op, rows)};
			op[k].sm_target = leave ? s->o->machine.sms - leave : 0;
			op[k].start = t;
			op[k].us = e - t;
			if (at.op->kind == PL_GEMM || at.op->kind == PL_GROUPED)
				pl_gemm_prepared(s->o, at.op, &s->p->prep[at.number], op[k].rows,
				                 op[k].sm_target, &op[k].gemm);
		}
		t = e;
	}
	return t;
}

double pl_whole_compute(struct pl_search *s, uint32_t shape, struct pl_op_plan *op)
{
	return compute(s, shape, 0, all_index(s), 0, s->b->tokens, 0, 0, op);
}

/* Without a collective; made once for each part. */
static double alone_us(struct pl_search *s, uint32_t shape, uint32_t half, uint32_t i)
{
	const struct pl_segment *g = &s->p->model->shape[shape];
	uint32_t index = row_index(s, half, i), first = s->p->first_op[shape];
	int64_t rows = part_rows(s, half, i), row = half ? first_rows(s, i) : 0;
	unsigned leave;
	double t = 0;

	if (!g->nop)
		return 0;
	if (*alone_to(s, first + g->nop - 1, half, index) >= 0)
		return *alone_to(s, first + g->nop - 1, half, index);
	for (uint32_t k = 0; k < g->nop; k++) {
		struct place at = {&g->op[k], first + k, index, row, rows};

		t = op_finish(s, &at, half, t, 0, 0, &leave);
		*alone_to(s, first + k, half, index) = t;
	}
	return t;
}

/* ---- a stage: the best CTA count ---- */

/* What follows from each CTA count: SM targets, and the line of its times unless the table has points. */
static void list_ctas(struct pl_search *s)
{
	const struct pl_comm *c = pl_comm_beside(&s->o->machine);

	for (unsigned k = 0; k < s->nctas; k++) {
		s->nleave[k] = pl_free_choices(s->o, s->ctas[k], s->leave[k]);
		if (c->npoint)
			continue;
		s->alpha[k] = pl_comm_us(c, 0, s->ctas[k]);
		s->slope[k] = (pl_comm_us(c, 1e9, s->ctas[k]) - s->alpha[k]) / 1e9;
	}
}

static double comm_us(const struct pl_search *s, double bytes, unsigned k)
{
	const struct pl_comm *c = pl_comm_beside(&s->o->machine);

	if (c->npoint)
		return pl_comm_us(c, bytes, s->ctas[k]);
	return s->alpha[k] + bytes * s->slope[k];
}

/* What a stage takes at least with each CTA count, and the collective's time. */
struct trial {
	double bound, collective;
	unsigned ctas;
};

/* Launches are no slower beside a collective; the rest is, and may lose waves. */
static double bound_of(struct pl_search *s, const struct pl_segment *g, double alone, double x)
{
	const struct pl_machine *m = &s->o->machine;
	double launches = g->nop * m->launch_us, c = 0;

	if (s->bounded)
		c = launches + pl_slowed(m, alone - launches, 0, x > launches ? x - launches : 0);
	return (c > x ? c : x) + m->join_us;
}

/* Trials in the order of their bounds; how many. */
static unsigned list_trials(struct pl_search *s, const struct pl_pair *pair, uint32_t i,
                            double alone, struct trial t[PL_MAX_CTAS])
{
	const struct pl_model *mo = s->p->model;
	double bytes, least = INFINITY;
	unsigned n = 0;

	if (pair->before < 0)
		return 0;
	bytes = mo->shape[pair->before].tail.message * (double)part_rows(s, pair->half ^ 1, i);
	for (unsigned k = 0; k < s->nctas && bytes > 0; k++) {
		double x = comm_us(s, bytes, k), b;
		unsigned at = n;

		if (x >= least) /* more CTAs, and no less time */
			continue;
		least = x;
		b = bound_of(s, &mo->shape[pair->shape], alone, x);
		n++;

		for (; at && t[at - 1].bound > b; at--)
			t[at] = t[at - 1];
		t[at] = (struct trial){b, x, s->ctas[k]};
	}
	return n;
}

static double stage_bound(struct pl_search *s, const struct pl_pair *pair, uint32_t i)
{
	double alone = alone_us(s, pair->shape, pair->half, i);
	struct trial t[PL_MAX_CTAS];

	return list_trials(s, pair, i, alone, t) ? t[0].bound : alone;
}

struct pl_choice pl_best_stage(struct pl_search *s, const struct pl_pair *pair, uint32_t i,
                               struct pl_op_plan *op)
{
	double alone = alone_us(s, pair->shape, pair->half, i);
	uint32_t index = row_index(s, pair->half, i);
	int64_t rows = part_rows(s, pair->half, i), row = pair->half ? first_rows(s, i) : 0;
	struct pl_choice best = {alone, 0, alone, 0};
	struct trial t[PL_MAX_CTAS];
	unsigned n = list_trials(s, pair, i, alone, t);

	for (unsigned k = 0; k < n; k++) {
		double c, x = t[k].collective, us;

		if (k && t[k].bound >= best.us)
			break;
		c = compute(s, pair->shape, pair->half, index, row, rows, x, t[k].ctas, NULL);
		us = (c > x ? c : x) + s->o->machine.join_us;
		if (!k || us < best.us)
			best = (struct pl_choice){c, x, us, t[k].ctas};
	}
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

/* Does candidate i, whose bound is `sum`, take longer than `most`?  Bounds give way to times, the pairs
 * that occur most first, until that is known. */
static bool is_longer(struct pl_search *s, uint32_t i, double sum, double most)
{
	const struct planner *p = s->p;

	for (uint32_t k = 0; k < p->npair; k++) {
		const struct pl_pair *q = &p->pair[p->by_count[k]];

		sum += q->count * (pl_best_stage(s, q, i, NULL).us - stage_bound(s, q, i));
		if (sum > most * (1 + 1e-9))
			return true;
	}
	return false;
}

/* What the whole model takes at least. */
static double split_bound(struct pl_search *s, uint32_t i)
{
	double sum = last_us(s, i);

	for (uint32_t k = 0; k < s->p->npair; k++)
		sum += s->p->pair[k].count * stage_bound(s, &s->p->pair[k], i);
	return sum;
}

static int by_bound(const void *a, const void *b)
{
	const struct pl_ranked *x = a, *y = b;

	if (x->us < y->us || x->us > y->us)
		return x->us < y->us ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

uint32_t pl_best_split(struct pl_search *s, double *us)
{
	struct pl_ranked *r = s->p->ranked;
	uint32_t middle = (s->ncand - 1) / 2, at = 0, n = 0;
	double slack = 1 + s->o->even, best = 0;

	for (uint32_t i = 0; i < s->ncand; i++) {
		r[i].i = i;
		r[i].us = split_bound(s, i);
		r[i].order = i > middle ? 2 * (i - middle) - 1 : 2 * (middle - i);
	}
	qsort(r, s->ncand, sizeof *r, by_bound);
	for (uint32_t k = 0; k < s->ncand; k++) {
		struct pl_ranked c = r[k];

		if (s->bounded && n && c.us > best * slack * (1 + 1e-12))
			break;
		if (s->bounded && n && is_longer(s, c.i, c.us, best * slack))
			continue;
		c.us = pl_split_us(s, c.i);
		if (!n || c.us < best)
			best = c.us;
		r[n++] = c; /* n <= k: its place is read already */
	}
	/* of those that are as good as the best the most even one */
	for (uint32_t k = 0; k < n; k++)
		if (r[k].us <= best * slack &&
		    (r[at].us > best * slack || r[k].order < r[at].order))
			at = k;
	*us = n ? r[at].us : 0;
	return n ? r[at].i : s->ncand;
}

/* ---- room ---- */

/* Room for n elements of `size` bytes: `block` itself, which has room for *have, or a new one. */
static void *room(void *block, size_t *have, size_t n, size_t size)
{
	if (n <= *have)
		return block;
	free(block);
	block = malloc(n * size);
	*have = block ? n : 0;
	return block;
}

/* With more split rows than this, steps are doubled: of a hundred waves one more or less is nothing. */
enum { MOST_SPLITS = 256 };

bool pl_search_begin(struct pl_search *s, struct planner *p, const struct pl_options *o,
                     const struct pl_batch *b)
{
	size_t nrun, nfluid, nalone;

	*s = (struct pl_search){.p = p, .o = o, .b = b, .align = o->align ? o->align : 128};
	while ((b->tokens - 1) / s->align > MOST_SPLITS)
		s->align *= 2;
	s->ncand = o->no_split || p->model->tp < 2 || !o->machine.fused.n
	                   ? 0
	                   : (uint32_t)((b->tokens - 1) / s->align);
	s->nrow = (b->tokens % s->align ? 2 : 1) * s->ncand + 1;
	s->nctas = pl_cta_choices(pl_comm_beside(&o->machine), s->ctas);
	s->bounded = !o->gemm;
	nrun = (size_t)(p->nop + 1) * PL_NFREE * s->nrow;
	nfluid = (size_t)(p->nop + 1) * (s->nrow + s->ncand);
	nalone = (size_t)(p->nop + 1) * 2 * s->nrow;
	if (nrun > p->nrun || ++p->search == 0) { /* nothing is seen */
		p->run = room(p->run, &p->nrun, nrun, sizeof *p->run);
		free(p->seen);
		p->seen = calloc(p->nrun, sizeof *p->seen);
		p->search = 1;
	}
	p->fluid = room(p->fluid, &p->nfluid, nfluid, sizeof *p->fluid);
	p->alone = room(p->alone, &p->nalone, nalone, sizeof *p->alone);
	p->ranked = room(p->ranked, &p->nranked, s->ncand + 1, sizeof *p->ranked);
	if (!p->run || !p->seen || !p->fluid || !p->alone || !p->ranked)
		return false;
	list_ctas(s);
	for (size_t i = 0; i < nfluid; i++)
		p->fluid[i].work = -1;
	for (size_t i = 0; i < nalone; i++)
		p->alone[i] = -1;
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
