/*
 * Running a plan: what is enqueued on which stream, in which order.  With the rows in two parts step k
 * is compute of part k % 2 of segment k / 2, on the caller's stream, and beside it the collective of
 * step k - 1, on the schedule's.  Each step is enqueued for all ranks of the process before the next,
 * collectives first: so a callback that fails leaves no rank behind in a collective.
 */
#include "runtime/launch.h"
#include "runtime/schedule.h"
#include <string.h>

static struct cu_stream *stream_of(const struct rt_run *r, unsigned l)
{
	return (struct cu_stream *)r->stream[l];
}

/* ---- operands ---- */

static uint64_t offset_of(const struct rt_run *r, const struct rt_ref *f, const struct rt_part *p,
                          unsigned local)
{
	uint64_t begin = 0, end, row = 0;

	switch (f->base) {
	case RT_BASE_NONE:
		break;
	case RT_BASE_BATCH:
		row = (uint64_t)p->row;
		break;
	case RT_BASE_OWN:
		row = (uint64_t)p->own;
		break;
	case RT_BASE_SLICE:
		plait_own_rows((uint64_t)p->rows, r->s->comm->size, r->s->comm->local[local].rank,
		               &begin, &end);
		row = (uint64_t)p->row + begin;
		break;
	}
	return row * f->row;
}

static struct plait_operand operand_of(const struct rt_run *r, const struct rt_ref *f,
                                       const struct rt_part *p, unsigned local)
{
	struct plait_operand o = r->s->local[local].tensor[f->slot];

	if (o.buffer || o.address)
		o.address += offset_of(r, f, p, local);
	return o;
}

static plait_address address_of(const struct plait_operand *o, unsigned local)
{
	return o->buffer ? plait_buffer_address(o->buffer, local) + o->address : o->address;
}

/* ---- messages ---- */

static bool blame(const struct rt_run *r, const struct rt_step *x, const struct rt_part *p,
                  unsigned l)
{
	rt_error_context(&r->s->comm->error, "rank %u: '%s', turn %u, part %u",
	                 r->s->comm->local[l].rank, x->name, x->turn, p->number);
	return false;
}

/* ---- operations of the caller ---- */

bool rt_callback_good(plait_schedule *s, int code)
{
	struct rt_error *e = &s->comm->error;

	if (!code) {
		rt_error_clear(e);
		return true;
	}
	rt_fail(e, PLAIT_ENV, "the callback gave %d", code);
	e->status = PLAIT_ENV;
	return false;
}

static unsigned target_of(const struct rt_step *x, const struct pl_stage *st)
{
	unsigned least = 0;

	for (uint32_t i = x->op; i < x->op + x->nop; i++)
		if (st->op[i].sm_target && (!least || st->op[i].sm_target < least))
			least = st->op[i].sm_target;
	return least;
}

static bool operation(const struct rt_run *r, const struct rt_step *x, const struct rt_part *p,
                      const struct pl_stage *st, unsigned l)
{
	plait_schedule *s = r->s;
	struct plait_operation op = {.struct_size = sizeof op,
	                             .name = x->name,
	                             .local = l,
	                             .stream = r->stream[l],
	                             .step = (uint32_t)(x - s->step),
	                             .turn = x->turn,
	                             .part = p->number,
	                             .row = p->row,
	                             .rows = p->rows,
	                             .n = x->n,
	                             .k = x->k,
	                             .dtype = x->dtype,
	                             .sm_target = target_of(x, st),
	                             .warm = r->warm,
	                             .nin = x->nin,
	                             .nout = x->nout,
	                             .in = s->address,
	                             .out = s->address + x->nin,
	                             .first = p->first,
	                             .nrequest = p->nrequest,
	                             .length = s->length[p->number],
	                             .cached = s->cached[p->number]};
	uint64_t begin, end;
	int code;

	op.kind = x->kind == FE_STEP_GEMM ? PLAIT_OP_GEMM : PLAIT_OP_OPAQUE;
	for (uint32_t i = 0; i < x->nin + x->nout; i++) {
		struct plait_operand o = operand_of(r, &s->ref[x->ref + i], p, l);

		s->address[i] = address_of(&o, l);
	}
	if (x->own) {
		plait_own_rows((uint64_t)p->rows, s->comm->size, s->comm->local[l].rank, &begin,
		               &end);
		op.row += (int64_t)begin;
		op.rows = (int64_t)(end - begin);
	}
	if (!rt_enter(s->comm, l))
		return blame(r, x, p, l);
	code = s->o.operation(s->o.ctx, &op);
	rt_leave(s->comm);
	return rt_callback_good(s, code) || blame(r, x, p, l);
}

/* ---- kernels ---- */

/* The variant of a kernel that keeps the form of carried rows. */
static uint32_t variant_of(const struct rt_run *r, const struct rt_step *x, const struct rt_part *p)
{
	const struct rt_image *m = &r->s->stage->image;
	const struct rt_unit *u = &m->unit[x->unit];
	const enum ir_rows want = p->own_form ? IR_ROWS_OWN : IR_ROWS_ALL;
	const struct rt_range *range = rt_image_range(m, x->unit, (uint64_t)p->rows);
	uint32_t best = range->variant;

	if (!u->carried || m->variant[best].rows == want)
		return best;
	/* that of the nearest T */
	for (uint32_t i = 0; i < u->nrange; i++) {
		uint32_t v = u->range[i].variant;

		if (m->variant[v].rows == want && (&u->range[i] < range || best == range->variant))
			best = v;
	}
	return best;
}

static bool launch(const struct rt_run *r, plait_stage *stage, const struct rt_step *x,
                   const struct rt_part *p, struct cu_stream *stream, unsigned ctas, bool fixed,
                   unsigned l)
{
	plait_schedule *s = r->s;
	struct plait_launch call = PLAIT_LAUNCH_INIT;
	enum plait_status st;

	for (uint32_t i = 0; i < x->nin; i++)
		s->operand[i] = operand_of(r, &s->ref[x->ref + i], p, l);
	call.local = l;
	call.kernel = stage == s->alone ? x->alone : x->unit;
	call.workspace = s->workspace;
	call.stream = (plait_stream)stream;
	call.operand = s->operand;
	call.noperand = x->nin;
	call.rows = (uint64_t)p->rows;
	call.ctas = ctas;
	st = fixed ? rt_launch_variant(stage, &call, variant_of(r, x, p))
	           : plait_launch(stage, &call);
	return st == PLAIT_OK || blame(r, x, p, l);
}

/* Kernels without communication, which the model has between its collectives. */
static bool local_kernel(const struct rt_run *r, const struct rt_step *x, const struct rt_part *p,
                         unsigned l)
{
	bool alone = r->plan->mode == PL_UNFUSED || r->plan->mode == PL_REMOVED;

	return launch(r, alone ? r->s->alone : r->s->stage, x, p, stream_of(r, l), 0, !alone, l);
}

/* ---- segments ---- */

static const struct rt_step *tail_of(const plait_schedule *s, uint32_t seg)
{
	return s->model->shape[s->model->seq[seg]].tail.kernel
	               ? &s->step[s->model->first_step[seg + 1] - 1]
	               : NULL;
}

/* All of a segment but its collective. */
static bool compute(const struct rt_run *r, uint32_t seg, const struct rt_part *p,
                    const struct pl_stage *st)
{
	plait_schedule *s = r->s;
	const struct rt_step *end = tail_of(s, seg);

	if (!end)
		end = &s->step[s->model->first_step[seg + 1]];
	if (!rt_trace_compute(r))
		return false;
	for (const struct rt_step *x = &s->step[s->model->first_step[seg]]; x < end; x++) {
		for (unsigned l = 0; l < s->comm->nlocal; l++)
			if (x->kind == FE_STEP_KERNEL ? !r->warm && !local_kernel(r, x, p, l)
			                              : !operation(r, x, p, st, l))
				return false;
		if (!rt_trace_operation(r, x))
			return false;
	}
	return true;
}

/* ---- an all-reduce ---- */

static int nccl_type(const char *dtype)
{
	return !strcmp(dtype, "f32")    ? RT_NCCL_FLOAT32
	       : !strcmp(dtype, "f16")  ? RT_NCCL_FLOAT16
	       : !strcmp(dtype, "bf16") ? RT_NCCL_BFLOAT16
	                                : -1;
}

static bool sum_one(const struct rt_run *r, const struct rt_ref *f, const struct rt_part *p,
                    unsigned l)
{
	plait_schedule *s = r->s;
	struct rt_error *e = &s->comm->error;
	const struct plait_operand o = operand_of(r, f, p, l);
	void *at = (void *)(uintptr_t)address_of(&o, l);
	size_t n = (size_t)p->rows * f->numbers;
	int type = nccl_type(f->dtype), code;

	if (s->o.all_reduce) {
		code = s->o.all_reduce(s->o.ctx, l, r->stream[l], (plait_address)(uintptr_t)at, n,
		                       f->dtype);
		return rt_callback_good(s, code);
	}
	if (type < 0) {
		rt_fail(e, PLAIT_USAGE, "NCCL does not sum %s: give all_reduce", f->dtype);
		return false;
	}
	return RT_NC(s->comm->nccl, e, all_reduce, at, at, n, type, RT_NCCL_SUM, s->local[l].nccl,
	             stream_of(r, l));
}

/* What a kernel sums, in place, on all ranks of this process. */
static bool sum(const struct rt_run *r, const struct rt_step *x, const struct rt_part *p)
{
	plait_schedule *s = r->s;
	struct rt_error *e = &s->comm->error;

	for (uint32_t i = 0; i < x->nin; i++) {
		const struct rt_ref *f = &s->ref[x->ref + i];
		bool group = !s->o.all_reduce && s->comm->nlocal > 1, good = true;
		unsigned l = 0;

		if (!f->numbers)
			continue;
		if (group && !RT_NC0(s->comm->nccl, e, group_start))
			return blame(r, x, p, 0);
		for (; l < s->comm->nlocal && good; l++) {
			good = rt_enter(s->comm, l);
			if (!good)
				break;
			good = sum_one(r, f, p, l);
			rt_leave(s->comm);
		}
		/* also after a failure: the thread's group must not stay open */
		if (group && !RT_NC0(s->comm->nccl, e, group_end))
			good = false;
		if (!good)
			return blame(r, x, p, l ? l - 1 : 0);
	}
	return true;
}

/* ---- in one piece ---- */

static bool whole_tail(const struct rt_run *r, const struct rt_step *x)
{
	const struct rt_part *p = &r->part[0];
	const enum pl_mode mode = r->plan->mode;
	plait_stage *stage = mode == PL_FUSED ? r->s->stage : r->s->alone;

	if (!rt_trace_collective(r, x, p, 0, true, true))
		return false;
	if (mode == PL_UNFUSED && r->s->comm->size > 1 && !sum(r, x, p))
		return false;
	for (unsigned l = 0; l < r->s->comm->nlocal; l++)
		if (!launch(r, stage, x, p, stream_of(r, l), 0, false, l))
			return false;
	return rt_trace_collective(r, x, p, 0, true, false);
}

static bool run_whole(const struct rt_run *r)
{
	const struct pl_plan *plan = r->plan;

	for (uint32_t k = 0; k < plan->nseq; k++) {
		const struct pl_stage *st = &plan->stage[plan->seq[k]];
		const struct rt_step *x = tail_of(r->s, k);

		rt_trace_step(r, k, st);
		if (!compute(r, k, &r->part[0], st) || (x && !whole_tail(r, x)))
			return false;
	}
	return true;
}

/* ---- in two parts ---- */

/* An event of each rank: recorded on one of its two streams, or waited for. */
static bool event(const struct rt_run *r, unsigned l, bool wait, bool callers, struct cu_event *e)
{
	plait_schedule *s = r->s;
	struct cu_stream *on = callers ? stream_of(r, l) : s->local[l].stream;
	bool good = rt_enter(s->comm, l);

	if (!good)
		return false;
	good = wait ? RT_CU(s->comm->drv, &s->comm->error, stream_wait_event, on, e, 0)
	            : RT_CU(s->comm->drv, &s->comm->error, event_record, e, on);
	rt_leave(s->comm);
	if (!good)
		rt_blame(s->comm, l);
	return good;
}

/* The collective of step k, behind what its compute has made. */
static bool collective(const struct rt_run *r, uint32_t k, unsigned ctas)
{
	plait_schedule *s = r->s;
	const struct rt_step *x = tail_of(s, k / 2);
	const struct rt_part *p = &r->part[k % 2];

	if (!x)
		return true;
	for (unsigned l = 0; l < s->comm->nlocal; l++) {
		if (!event(r, l, false, true, s->local[l].ready))
			return false;
		if (!event(r, l, true, false, s->local[l].ready))
			return false;
		s->local[l].forked = true;
	}
	if (!rt_trace_collective(r, x, p, ctas, false, true))
		return false;
	for (unsigned l = 0; l < s->comm->nlocal; l++)
		if (!launch(r, s->stage, x, p, s->local[l].stream, ctas, true, l))
			return false;
	if (!rt_trace_collective(r, x, p, ctas, false, false))
		return false;
	for (unsigned l = 0; l < s->comm->nlocal; l++)
		if (!event(r, l, false, false, s->local[l].done[k % 2]))
			return false;
	return true;
}

/* The caller's streams go on behind the collective of step k. */
static bool join(const struct rt_run *r, uint32_t k)
{
	plait_schedule *s = r->s;

	for (unsigned l = 0; l < s->comm->nlocal && tail_of(s, k / 2); l++)
		if (!event(r, l, true, true, s->local[l].done[k % 2]))
			return false;
	return true;
}

static bool run_split(const struct rt_run *r)
{
	const struct pl_plan *plan = r->plan;
	const uint32_t n = plan->nseq;

	for (uint32_t k = 0; k < n; k++) {
		const struct pl_stage *st = &plan->stage[plan->seq[k]];

		rt_trace_step(r, k, st);
		if (k > 1 && !join(r, k - 2))
			return false;
		if (k > 0 && !collective(r, k - 1, st->ctas))
			return false;
		if (!compute(r, k / 2, &r->part[k % 2], st))
			return false;
	}
	rt_trace_step(r, n, &plan->stage[plan->seq[n - 1]]);
	return join(r, n - 2) && collective(r, n - 1, plan->tail_ctas) && join(r, n - 1);
}

/* After a failure: what was forked comes back, whatever it is, so that a capture can be ended. */
static void join_all(const struct rt_run *r)
{
	plait_schedule *s = r->s;
	struct rt_error kept = s->comm->error;

	for (unsigned l = 0; l < s->comm->nlocal; l++)
		if (s->local[l].forked && event(r, l, false, false, s->local[l].done[0]))
			event(r, l, true, true, s->local[l].done[0]);
	s->comm->error = kept;
}

enum plait_status rt_schedule_enqueue(const struct rt_run *r)
{
	if (r->plan->mode == PL_SPLIT ? run_split(r) : run_whole(r))
		return PLAIT_OK;
	join_all(r);
	return r->s->comm->error.status;
}

enum plait_status plait_schedule_run(plait_schedule *s, const plait_plan *plan,
                                     const struct plait_batch *b, const plait_stream *stream)
{
	struct rt_run r = {.s = s, .plan = rt_plan(plan), .stream = stream};

	if (!s)
		return PLAIT_USAGE;
	rt_error_clear(&s->comm->error);
	if (rt_schedule_begin(&r, b) != PLAIT_OK)
		return s->comm->error.status;
	return rt_schedule_enqueue(&r);
}

/* ---- before running ---- */

static bool warm_all(const struct rt_run *r)
{
	plait_schedule *s = r->s;
	bool summed = r->plan->mode != PL_UNFUSED || s->comm->size == 1;

	for (uint32_t i = 0; i < r->plan->nstage; i++) {
		const struct pl_stage *st = &r->plan->stage[i];
		uint32_t seg = s->shape_seg[st->shape];
		const struct rt_step *x = tail_of(s, seg);

		if (!compute(r, seg, &r->part[st->half], st))
			return false;
		if (!summed && x && !sum(r, x, &r->part[0]))
			return false;
		summed |= x != NULL;
	}
	return true;
}

bool rt_schedule_wait(const struct rt_run *r)
{
	plait_schedule *s = r->s;

	for (unsigned l = 0; l < s->comm->nlocal; l++) {
		bool good = rt_enter(s->comm, l);

		if (!good)
			return false;
		good = rt_wait(s->comm, l, stream_of(r, l));
		rt_leave(s->comm);
		if (!good)
			return false;
	}
	return true;
}

enum plait_status plait_schedule_warm(plait_schedule *s, const plait_plan *plan,
                                      const struct plait_batch *b, const plait_stream *stream)
{
	struct rt_run r = {.s = s, .plan = rt_plan(plan), .stream = stream, .warm = true};

	if (!s)
		return PLAIT_USAGE;
	rt_error_clear(&s->comm->error);
	if (rt_schedule_begin(&r, b) == PLAIT_OK && warm_all(&r))
		rt_schedule_wait(&r);
	return s->comm->error.status;
}
