/* Whether a plan can be run, its parts, and whether ranks have the same. */
#include "runtime/schedule.h"

static enum plait_status refuse(plait_schedule *s, enum plait_status st, const char *what)
{
	return rt_fail(&s->comm->error, st, "%s", what);
}

static enum plait_status check(plait_schedule *s, const struct pl_plan *p)
{
	if (!p || p->model != s->model)
		return refuse(s, PLAIT_USAGE, "the plan is not of the schedule's planner");
	if ((uint64_t)p->tokens > s->stage->image.max_rows)
		return rt_fail(&s->comm->error, PLAIT_USAGE,
		               "the plan has %lld rows, and the stage was made for %llu at most",
		               (long long)p->tokens, (unsigned long long)s->stage->image.max_rows);
	if (p->mode != PL_UNFUSED && p->mode != PL_REMOVED)
		return PLAIT_OK;
	if (!s->alone)
		return rt_fail(&s->comm->error, PLAIT_USAGE,
		               "the plan is '%s': make the schedule with 'unfused'",
		               pl_mode_name[p->mode]);
	if (s->sharded)
		return rt_fail(&s->comm->error, PLAIT_USAGE,
		               "the plan is '%s', and kernel '%s' has sharded parameters, which "
		               "an all-reduce does not make",
		               pl_mode_name[p->mode], s->sharded);
	return PLAIT_OK;
}

static bool is_own(const plait_schedule *s, const struct rt_step *x, int64_t rows)
{
	const struct rt_image *m = &s->stage->image;

	return m->variant[rt_image_range(m, x->unit, (uint64_t)rows)->variant].rows == IR_ROWS_OWN;
}

/* The form of carried tensors: of a split the plan's if the stage has it, else the stage's for T. */
static bool form_of(const plait_schedule *s, const struct pl_plan *p)
{
	const struct fe_steps *m = s->planner->steps;

	if (p->mode == PL_SPLIT)
		return p->own_rows ? s->can_own : !s->can_all;
	for (uint32_t i = 0; i < m->nstep && p->mode == PL_FUSED; i++)
		if (s->step[i].unit != RT_NONE && s->stage->image.unit[s->step[i].unit].carried)
			return is_own(s, &s->step[i], p->tokens);
	return false;
}

static void set_parts(const plait_schedule *s, const struct pl_plan *p, struct rt_part part[2])
{
	bool own = form_of(s, p);

	part[0] = (struct rt_part){.rows = p->split, .own_form = own};
	part[1] = (struct rt_part){.number = 1,
	                           .row = p->split,
	                           .rows = p->tokens - p->split,
	                           .own = (p->split + s->comm->size - 1) / s->comm->size,
	                           .own_form = own};
}

enum plait_status rt_schedule_begin(struct rt_run *r, const struct plait_batch *b)
{
	plait_schedule *s = r->s;
	struct pl_batch batch = {.tokens = r->plan ? r->plan->tokens : 0};
	enum plait_status st = check(s, r->plan);

	if (st != PLAIT_OK)
		return st;
	if (!r->stream)
		return refuse(s, PLAIT_USAGE, "no streams are given");
	if (b && (!rt_batch_in(b, &batch) || !pl_is_batch(&batch)))
		return refuse(s, PLAIT_USAGE, "the batch makes no sense: see plait_batch");
	if (batch.tokens != r->plan->tokens)
		return rt_fail(&s->comm->error, PLAIT_USAGE,
		               "the batch has %lld rows, and the plan %lld",
		               (long long)batch.tokens, (long long)r->plan->tokens);
	if (batch.nrequest > s->o.max_requests)
		return rt_fail(&s->comm->error, PLAIT_USAGE,
		               "the batch has %zu requests, and the schedule was made for %zu at "
		               "most",
		               batch.nrequest, s->o.max_requests);
	set_parts(s, r->plan, r->part);
	for (unsigned p = 0; p < 2; p++)
		r->part[p].nrequest =
		        pl_part_into(&batch, r->part[p].row, r->part[p].rows, &r->part[p].first,
		                     s->length[p], s->cached[p], s->o.max_requests);
	for (unsigned l = 0; l < s->comm->nlocal; l++)
		s->local[l].forked = false;
	if (r->plan->mode == PL_SPLIT && !s->can_own && !s->can_all)
		return refuse(
		        s, PLAIT_USAGE,
		        "the plan is a split, and the stage's kernels have carried parameters "
		        "in different forms: make it without compile.protocol");
	return PLAIT_OK;
}

/* ---- of the interface ---- */

/* What of a plan a message shows. */
struct agreed {
	int64_t tokens, split;
	uint64_t hash, facts;
	int32_t mode, status;
};

enum plait_status plait_schedule_agree(plait_schedule *s, const plait_plan *plan)
{
	const struct pl_plan *p = rt_plan(plan);
	struct agreed mine = {0}, all[CG_MAX_RANKS];
	plait_comm *c = s ? s->comm : NULL;
	enum plait_status st;

	if (!s)
		return PLAIT_USAGE;
	rt_error_clear(&c->error);
	check(s, p);
	st = rt_vote(c);
	if (st != PLAIT_OK)
		return st;
	mine.tokens = p->tokens;
	mine.split = p->split;
	mine.hash = p->hash;
	mine.facts = p->facts;
	mine.mode = (int32_t)p->mode;
	if (rt_gather(c, &mine, all, sizeof mine) != PLAIT_OK)
		return c->error.status;
	for (unsigned q = 1; q < c->processes; q++)
		if (all[q].hash != all[0].hash)
			return rt_fail(
			        &c->error, PLAIT_MISMATCH,
			        "plans differ: %s of %lld rows, split at %lld (%016llx) on rank 0; "
			        "%s of %lld, split at %lld (%016llx) on rank %u; %s",
			        pl_mode_name[(unsigned)all[0].mode % PL_NMODES],
			        (long long)all[0].tokens, (long long)all[0].split,
			        (unsigned long long)all[0].hash,
			        pl_mode_name[(unsigned)all[q].mode % PL_NMODES],
			        (long long)all[q].tokens, (long long)all[q].split,
			        (unsigned long long)all[q].hash, q * c->nlocal,
			        all[q].facts != all[0].facts
			                ? "they were made for other tiles or times of GEMMs (the "
			                  "planner's machine, 'gemm')"
			                : "tiles and times of GEMMs are the same");
	return PLAIT_OK;
}

bool plait_schedule_own_rows(const plait_schedule *s, const plait_plan *plan)
{
	const struct pl_plan *p = rt_plan(plan);

	return s && p && p->model == s->model && (uint64_t)p->tokens <= s->stage->image.max_rows &&
	       form_of(s, p);
}
