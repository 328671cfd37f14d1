/*
 * Plans: the best split against the model in one piece, written down stage by stage, and remembered
 * by the batch.
 */
#include "planner/search.h"
#include "support/hash.h"
#include <stdlib.h>
#include <string.h>

const char *const pl_mode_name[PL_NMODES] = {"unfused", "no-communication", "fused-only", "split"};

/* ---- a planner ---- */

/* The steps of the lockstep, of which only those that differ are kept. */
static void list_pairs(struct planner *p)
{
	const struct pl_model *mo = p->model;
	uint32_t nstep = 2 * mo->nseq;
	size_t cap = 0;

	p->pair_seq = arena_news(&p->arena, uint32_t, nstep);
	for (uint32_t k = 0; k < nstep; k++) {
		struct pl_pair want = {mo->seq[k / 2], k % 2, -1, 1};
		uint32_t i = 0;

		if (k && mo->shape[mo->seq[(k - 1) / 2]].tail.kernel)
			want.before = (int32_t)mo->seq[(k - 1) / 2];
		while (i < p->npair &&
		       (p->pair[i].shape != want.shape || p->pair[i].half != want.half ||
		        p->pair[i].before != want.before))
			i++;
		if (i == p->npair) {
			p->pair = arena_grow(&p->arena, p->pair, i, &cap, i + 1, sizeof *p->pair);
			p->pair[p->npair++] = want;
		} else {
			p->pair[i].count++;
		}
		p->pair_seq[k] = i;
	}
	p->by_count = arena_news(&p->arena, uint32_t, p->npair);
	for (uint32_t k = 0, at; k < p->npair; k++) {
		for (at = k; at && p->pair[p->by_count[at - 1]].count < p->pair[k].count; at--)
			p->by_count[at] = p->by_count[at - 1];
		p->by_count[at] = k;
	}
	p->first_op = arena_news(&p->arena, uint32_t, mo->nshape);
	for (uint32_t i = 0; i < mo->nshape; i++) {
		p->first_op[i] = p->nop;
		p->nop += mo->shape[i].nop;
	}
	p->prep = arena_news(&p->arena, struct pl_prep, p->nop);
	for (uint32_t i = 0; i < mo->nshape; i++)
		for (uint32_t k = 0; k < mo->shape[i].nop; k++)
			pl_prepare(&p->o, &mo->shape[i].op[k], &p->prep[p->first_op[i] + k]);
}

static bool listed(struct planner *p)
{
	if (setjmp(p->arena.oom))
		return false;
	list_pairs(p);
	return true;
}

struct planner *pl_new(const struct pl_model *model, const struct pl_options *o)
{
	struct planner *p = calloc(1, sizeof *p);

	if (!p)
		return NULL;
	arena_init(&p->arena, 0);
	arena_init(&p->plans, 0);
	arena_init(&p->before, 0);
	p->model = model;
	p->o = *o;
	if (p->o.hysteresis < 0)
		p->o.hysteresis = 0.02;
	if (p->o.even < 0)
		p->o.even = 0.002;
	if (!listed(p)) {
		pl_free(p);
		return NULL;
	}
	return p;
}

void pl_free(struct planner *p)
{
	if (!p)
		return;
	arena_free(&p->arena);
	arena_free(&p->plans);
	arena_free(&p->before);
	free(p->run);
	free(p->seen);
	free(p->fluid);
	free(p->alone);
	free(p->ranked);
	free(p);
}

const struct pl_options *pl_options_of(const struct planner *p)
{
	return &p->o;
}

/* ---- in one piece ---- */

/* The collective and the norm as separate kernels; only the norm. */
static double plain_us(const struct pl_machine *m, const struct pl_tail *t, int64_t rows,
                       bool removed)
{
	double us = 0, each;

	if (!t->kernel)
		return 0;
	if (!removed && t->message > 0) {
		unsigned n = t->sums ? t->sums : 1;

		pl_comm_best(&m->plain, (t->sums ? t->sum_bytes / n : t->message) * (double)rows,
		             &each);
		us = n * each;
	}
	return us + m->launch_us + pl_mem_us(m, t->local_bytes * (double)rows);
}

static void whole_times(struct pl_search *s, double us[PL_NMODES], bool *own)
{
	const struct pl_machine *m = &s->o->machine;
	const struct pl_model *mo = s->p->model;
	double own_us = 0, all_us = 0;
	unsigned ctas;

	us[PL_UNFUSED] = us[PL_REMOVED] = 0;
	for (uint32_t i = 0; i < mo->nshape; i++) {
		const struct pl_segment *g = &mo->shape[i];
		double n = g->count, c = pl_whole_compute(s, i, NULL);

		us[PL_UNFUSED] += n * (c + plain_us(m, &g->tail, s->b->tokens, false));
		us[PL_REMOVED] += n * (c + plain_us(m, &g->tail, s->b->tokens, true));
		own_us += n * (c + pl_tail_us(m, &g->tail, s->b->tokens, true, &ctas));
		all_us += n * (c + pl_tail_us(m, &g->tail, s->b->tokens, false, &ctas));
	}
	*own = !m->push.n || !(all_us < own_us);
	if (!m->fused.n && m->push.n)
		*own = false;
	us[PL_FUSED] = *own ? own_us : all_us;
}

/* ---- writing stages down ---- */

static void note_before(struct pl_search *s, struct pl_stage *st)
{
	const struct pl_segment *g = &s->p->model->shape[st->shape];
	struct pl_op_plan *all = arena_news(&s->p->plans, struct pl_op_plan, g->nop);

	pl_whole_compute(s, st->shape, all);
	for (uint32_t k = 0; k < g->nop; k++) {
		st->op[k].waves_before = all[k].gemm.run.waves;
		st->op[k].us_before = all[k].us;
	}
}

static void fill_split(struct pl_search *s, struct pl_plan *plan, uint32_t i)
{
	struct planner *p = s->p;
	const struct pl_model *mo = p->model;

	plan->nstage = p->npair;
	plan->stage = arena_news(&p->plans, struct pl_stage, p->npair);
	for (uint32_t k = 0; k < p->npair; k++) {
		const struct pl_pair *q = &p->pair[k];
		struct pl_stage *st = &plan->stage[k];
		struct pl_choice c;

		st->shape = q->shape;
		st->half = q->half;
		st->row = q->half ? plan->split : 0;
		st->rows = q->half ? plan->tokens - plan->split : plan->split;
		st->nop = mo->shape[q->shape].nop;
		st->op = arena_news(&p->plans, struct pl_op_plan, st->nop);
		st->overlap = true;
		st->count = q->count;
		c = pl_best_stage(s, q, i, st->op);
		if (q->before >= 0) {
			st->kernel = mo->shape[q->before].tail.kernel;
			st->kernel_shape = (uint32_t)q->before;
			st->kernel_half = q->half ^ 1;
			st->kernel_rows = plan->tokens - st->rows;
		}
		st->ctas = c.ctas;
		st->compute = c.compute;
		st->collective = c.collective;
		st->us = c.us;
		st->exposed = c.collective > c.compute ? c.collective - c.compute : 0;
		note_before(s, st);
	}
	plan->nseq = 2 * mo->nseq;
	plan->seq = p->pair_seq;
	plan->tail_us = pl_tail_us(&s->o->machine, &mo->shape[mo->seq[mo->nseq - 1]].tail,
	                           plan->tokens - plan->split, true, &plan->tail_ctas);
}

static void fill_whole(struct pl_search *s, struct pl_plan *plan)
{
	struct planner *p = s->p;
	const struct pl_model *mo = p->model;
	const struct pl_machine *m = &s->o->machine;

	plan->nstage = mo->nshape;
	plan->stage = arena_news(&p->plans, struct pl_stage, mo->nshape);
	for (uint32_t k = 0; k < mo->nshape; k++) {
		const struct pl_tail *t = &mo->shape[k].tail;
		struct pl_stage *st = &plan->stage[k];

		st->shape = st->kernel_shape = k;
		st->rows = st->kernel_rows = plan->tokens;
		st->nop = mo->shape[k].nop;
		st->op = arena_news(&p->plans, struct pl_op_plan, st->nop);
		st->count = mo->shape[k].count;
		st->kernel = t->kernel;
		st->compute = pl_whole_compute(s, k, st->op);
		if (plan->mode == PL_FUSED)
			st->collective = pl_tail_us(m, t, plan->tokens, plan->own_rows, &st->ctas);
		else
			st->collective = plain_us(m, t, plan->tokens, plan->mode == PL_REMOVED);
		st->exposed = st->collective;
		st->us = st->compute + st->collective;
		note_before(s, st);
	}
	plan->nseq = mo->nseq;
	plan->seq = arena_news(&p->plans, uint32_t, mo->nseq);
	memcpy(plan->seq, mo->seq, mo->nseq * sizeof *plan->seq);
}

/* What ranks must agree on: decisions, not times. */
static uint64_t hash_plan(const struct pl_plan *p)
{
	uint64_t h = hash_bytes(HASH_INIT, p->model->name, strlen(p->model->name));
	int64_t head[] = {p->model->tp, p->tokens, p->mode,     p->split,
	                  p->own_rows,  p->nseq,   p->tail_ctas};

	h = hash_bytes(h, head, sizeof head);
	for (uint32_t i = 0; i < p->nstage; i++) {
		const struct pl_stage *st = &p->stage[i];
		uint32_t what[] = {st->shape, st->half, st->ctas, st->nop};

		h = hash_bytes(h, what, sizeof what);
		for (uint32_t k = 0; k < st->nop; k++)
			h = hash_bytes(h, &st->op[k].sm_target, sizeof st->op[k].sm_target);
	}
	return hash_bytes(h, p->seq, p->nseq * sizeof *p->seq);
}

/* What was known of the GEMMs: of ranks that decide otherwise it says whether that is why. */
static uint64_t hash_facts(const struct pl_plan *p)
{
	uint64_t h = HASH_INIT;

	for (uint32_t i = 0; i < p->nstage; i++)
		for (uint32_t k = 0; k < p->stage[i].nop; k++) {
			const struct pl_gemm *g = &p->stage[i].op[k].gemm;
			uint32_t what[] = {g->fact.bm, g->fact.bn,     g->fact.cm,
			                   g->fact.cn, g->fact.splitk, g->run.waits};
			double times[] = {g->run.waves, g->run.us, p->stage[i].op[k].us_before};

			h = hash_bytes(h, what, sizeof what);
			h = hash_bytes(h, times, sizeof times);
		}
	return h;
}

/* ---- the decision ---- */

/*
 * With facts from outside every question may cost a call: the table ranks the rows, and facts are
 * asked for the best of them.  Candidate i alone is then looked at, by facts.
 */
enum { REFINE = 24 };

struct ranked {
	double us;
	uint32_t i;
};

static int by_us(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->us < y->us || x->us > y->us)
		return x->us < y->us ? -1 : 1;
	return x->i < y->i ? -1 : x->i > y->i;
}

static uint32_t refined_split(struct pl_search *s, double *us)
{
	struct planner *p = s->p;
	struct pl_options table = p->o;
	struct ranked *r = arena_news(&p->plans, struct ranked, s->ncand);
	struct pl_search rough;
	uint32_t best = s->ncand, half = (s->ncand - 1) / 2;

	table.gemm = NULL;
	if (!pl_search_begin(&rough, p, &table, s->b))
		return s->ncand;
	for (uint32_t i = 0; i < s->ncand; i++)
		r[i] = (struct ranked){pl_split_us(&rough, i), i};
	qsort(r, s->ncand, sizeof *r, by_us);
	r[REFINE] = (struct ranked){0, half};
	if (!pl_search_begin(s, p, &p->o, s->b))
		return s->ncand;
	for (uint32_t k = 0; k <= REFINE; k++) {
		double t = pl_split_us(s, r[k].i);

		if (best == s->ncand || t < *us) {
			best = r[k].i;
			*us = t;
		}
	}
	return best;
}

static uint32_t find_split(struct pl_search *s, double *us)
{
	int64_t at = s->o->at / s->align;

	*us = 0;
	if (s->o->at && s->ncand) {
		at = at < 1 ? 1 : at > s->ncand ? s->ncand : at;
		*us = pl_split_us(s, (uint32_t)at - 1);
		return (uint32_t)at - 1;
	}
	return s->o->gemm && s->ncand > 64 ? refined_split(s, us) : pl_best_split(s, us);
}

static enum pl_mode choose(const struct pl_options *o, const struct pl_plan *p, bool can_split)
{
	double whole = p->mode_us[PL_FUSED] <= p->mode_us[PL_UNFUSED] ? p->mode_us[PL_FUSED]
	                                                              : p->mode_us[PL_UNFUSED];

	if (o->forced && (o->force != PL_SPLIT || can_split))
		return o->force;
	if (can_split && (o->at || p->best_split_us < (1 - o->hysteresis) * whole))
		return PL_SPLIT;
	return p->mode_us[PL_FUSED] <= p->mode_us[PL_UNFUSED] ? PL_FUSED : PL_UNFUSED;
}

static struct pl_plan *make(struct planner *p, struct pl_search *s)
{
	struct pl_plan *plan = arena_new(&p->plans, struct pl_plan);
	uint32_t i;

	plan->model = p->model;
	plan->tokens = plan->split = s->b->tokens;
	i = find_split(s, &plan->best_split_us);
	whole_times(s, plan->mode_us, &plan->own_rows);
	plan->mode_us[PL_SPLIT] = plan->best_split_us;
	plan->best_split = s->ncand ? s->align * (int64_t)(i + 1) : 0;
	plan->mode = choose(&p->o, plan, s->ncand > 0);
	plan->us = plan->mode_us[plan->mode];
	if (plan->mode == PL_SPLIT) {
		plan->split = plan->best_split;
		plan->own_rows = true;
		plan->row_base[1] = plan->split;
		/* a carried parameter has row t at row t, whichever rank it belongs to */
		plan->residual_base[1] = plan->split;
		fill_split(s, plan, i);
	} else {
		fill_whole(s, plan);
	}
	plan->hash = hash_plan(plan);
	plan->facts = hash_facts(plan);
	plan->why = pl_why(plan, p, s, &p->plans);
	return plan;
}

/* ---- the memo ---- */

static uint64_t key_of(const struct pl_options *o, const struct pl_batch *b)
{
	uint64_t head[] = {(uint64_t)b->tokens, b->nrequest, b->cached != NULL,
	                   o->forced ? o->force + 1 : 0, (uint64_t)o->at};
	uint64_t h = hash_bytes(HASH_INIT, head, sizeof head);

	if (b->nrequest)
		h = hash_bytes(h, b->cum, (b->nrequest + 1) * sizeof *b->cum);
	if (b->nrequest && b->cached)
		h = hash_bytes(h, b->cached, b->nrequest * sizeof *b->cached);
	return h ? h : 1;
}

static struct pl_memo *slot_of(struct planner *p, uint64_t key)
{
	uint64_t i = key;

	while (p->memo[i % (2 * PL_MEMO)].key && p->memo[i % (2 * PL_MEMO)].key != key)
		i++;
	return &p->memo[i % (2 * PL_MEMO)];
}

static const struct pl_plan *made(struct planner *p, const struct pl_batch *b)
{
	struct pl_search s;

	if (setjmp(p->plans.oom))
		return NULL;
	return pl_search_begin(&s, p, &p->o, b) ? make(p, &s) : NULL;
}

enum status pl_plan(struct planner *p, const struct pl_batch *b, const struct pl_plan **out)
{
	struct pl_memo *m;
	uint64_t key;

	*out = NULL;
	if (!pl_is_batch(b))
		return ST_USAGE;
	key = key_of(&p->o, b);
	m = slot_of(p, key);
	if (m->key) {
		*out = m->plan;
		return ST_OK;
	}
	if (p->nmemo == PL_MEMO) {
		memset(p->memo, 0, sizeof p->memo);
		arena_free(&p->before); /* the plans of the memo that was just full stay */
		p->before = p->plans;
		arena_init(&p->plans, 0);
		p->nmemo = 0;
		m = slot_of(p, key);
	}
	*out = made(p, b);
	if (!*out)
		return ST_NOMEM;
	*m = (struct pl_memo){key, *out};
	p->nmemo++;
	return ST_OK;
}

enum status pl_plan_as(struct planner *p, const struct pl_batch *b, enum pl_mode mode, int64_t at,
                       const struct pl_plan **out)
{
	const struct pl_options kept = p->o;
	enum status s;

	p->o.forced = true;
	p->o.force = mode;
	p->o.at = mode == PL_SPLIT ? at : 0;
	s = pl_plan(p, b, out);
	p->o = kept;
	return s;
}

enum status pl_plan_rows(struct planner *p, int64_t tokens, const struct pl_plan **out)
{
	struct pl_batch b = {.tokens = tokens};

	return pl_plan(p, &b, out);
}
