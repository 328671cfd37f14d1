/*
 * A traced run: the same enqueueing with an event behind each operation and around each collective,
 * and what these say, as a trace beside the predicted one.
 */
#include "runtime/schedule.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of one rank: spans that are enqueued before the first of them may begin.  Streams take about a
 * thousand launches; a host that is blocked by a full one would wait for itself. */
enum { HEAD_START = 192, MOST_WAIT_US = 100000, NAP_US = 20 };

/* ---- events ---- */

/* One on each rank's stream; RT_NONE: a message. */
static uint32_t mark(const struct rt_run *r, bool callers)
{
	struct rt_trace *t = r->trace;
	plait_comm *c = r->s->comm;
	bool good = true;

	for (unsigned l = 0; l < c->nlocal && good; l++) {
		struct cu_stream *on =
		        callers ? (struct cu_stream *)r->stream[l] : r->s->local[l].stream;

		good = rt_enter(c, l);
		if (!good)
			break;
		good = RT_CU(c->drv, &c->error, event_record, t->event[l][t->nevent], on);
		rt_leave(c);
		if (!good)
			rt_blame(c, l);
	}
	return good ? t->nevent++ : RT_NONE;
}

void rt_trace_step(const struct rt_run *r, uint32_t at, const struct pl_stage *st)
{
	if (!r->trace)
		return;
	r->trace->at = at;
	r->trace->stage = st;
	if (r->trace->nspan >= HEAD_START)
		atomic_store(&r->s->held, false);
}

bool rt_trace_compute(const struct rt_run *r)
{
	if (r->trace)
		r->trace->since = mark(r, true);
	return !r->trace || r->trace->since != RT_NONE;
}

bool rt_trace_operation(const struct rt_run *r, const struct rt_step *x)
{
	struct rt_trace *t = r->trace;
	uint32_t end;

	if (!t)
		return true;
	end = mark(r, true);
	if (end == RT_NONE)
		return false;
	t->span[t->nspan++] = (struct rt_trace_span){{.name = x->name,
	                                              .stage = t->stage,
	                                              .op = x->nop ? &t->stage->op[x->op] : NULL,
	                                              .at = t->at},
	                                             t->since,
	                                             end};
	t->since = end;
	return true;
}

bool rt_trace_collective(const struct rt_run *r, const struct rt_step *x, const struct rt_part *p,
                         unsigned ctas, bool callers, bool begin)
{
	struct rt_trace *t = r->trace;
	uint32_t e;

	if (!t)
		return true;
	e = mark(r, callers);
	if (e == RT_NONE)
		return false;
	if (r->plan->mode == PL_FUSED)
		plait_stage_protocol(r->s->stage, x->unit, (uint64_t)p->rows, &ctas);
	if (begin)
		t->span[t->nspan++] = (struct rt_trace_span){.s = {.stream = 1,
		                                                   .name = x->name,
		                                                   .stage = t->stage,
		                                                   .at = t->at,
		                                                   .ctas = ctas},
		                                             .begin = e};
	else
		t->span[t->nspan - 1].end = e;
	return true;
}

/* Statements of all steps, and a collective of each, with the events around them. */
static bool make_events(const struct rt_run *r, struct arena *a)
{
	plait_schedule *s = r->s;
	plait_comm *c = s->comm;
	struct rt_trace *t = r->trace;
	const uint32_t parts = r->plan->mode == PL_SPLIT ? 2 : 1;
	const uint32_t most = parts * (s->planner->steps->nstep + s->model->nseq);

	t->room = 2 * most + 1;
	t->span = arena_news(a, struct rt_trace_span, most);
	for (unsigned l = 0; l < c->nlocal; l++)
		t->event[l] = arena_news(a, struct cu_event *, t->room);
	for (unsigned l = 0; l < c->nlocal; l++) {
		bool good = rt_enter(c, l);

		if (!good)
			return false;
		for (uint32_t i = 0; i < t->room && good; i++)
			good = RT_CU_GIVES(c->drv, &c->error, event_create, &t->event[l][i],
			                   RT_CU_EVENT_DEFAULT);
		rt_leave(c);
		if (!good) {
			rt_blame(c, l);
			return false;
		}
	}
	return true;
}

static void free_events(const struct rt_run *r)
{
	const struct rt_trace *t = r->trace;

	for (unsigned l = 0; l < r->s->comm->nlocal; l++)
		for (uint32_t i = 0; t->event[l] && i < t->room && t->event[l][i]; i++)
			r->s->comm->drv->event_destroy(t->event[l][i]);
}

/* ---- before it begins ---- */

static bool is_captured(const struct rt_run *r)
{
	plait_comm *c = r->s->comm;

	for (unsigned l = 0; l < c->nlocal; l++) {
		bool good = rt_enter(c, l);
		int status = 0;

		if (!good)
			return true;
		good = RT_CU(c->drv, &c->error, stream_is_capturing,
		             (struct cu_stream *)r->stream[l], &status);
		rt_leave(c);
		if (good && !status)
			continue;
		rt_fail(&c->error, PLAIT_USAGE,
		        "rank %u's stream is being captured: a run is traced outside of captures",
		        c->local[l].rank);
		return true;
	}
	return false;
}

/* Runs on a thread of the driver's. */
static void hold_stream(void *schedule)
{
	plait_schedule *s = schedule;

	for (unsigned us = 0; us < MOST_WAIT_US && atomic_load(&s->held); us += NAP_US)
		usleep(NAP_US);
}

/* What is enqueued next waits until the host is ahead, where the driver can do that. */
static bool hold(const struct rt_run *r)
{
	plait_comm *c = r->s->comm;
	bool good = true;

	atomic_store(&r->s->held, true);
	for (unsigned l = 0; l < c->nlocal && good && c->drv->launch_host; l++) {
		good = rt_enter(c, l);
		if (!good)
			break;
		good = RT_CU(c->drv, &c->error, launch_host, (struct cu_stream *)r->stream[l],
		             hold_stream, r->s);
		rt_leave(c);
	}
	return good;
}

/* ---- afterwards ---- */

/* Microseconds of event e since the first one. */
static bool when(const struct rt_run *r, unsigned l, uint32_t e, double *us)
{
	plait_comm *c = r->s->comm;
	struct cu_event **event = r->trace->event[l];
	float ms = 0;

	if (e && !RT_CU(c->drv, &c->error, event_elapsed, &ms, event[0], event[e]))
		return false;
	*us = (double)ms * 1000;
	return true;
}

static bool read_spans(const struct rt_run *r, unsigned l, struct pl_span *out)
{
	const struct rt_trace *t = r->trace;
	bool good = rt_enter(r->s->comm, l);

	if (!good)
		return false;
	for (size_t i = 0; i < t->nspan && good; i++) {
		double end = 0;

		out[i] = t->span[i].s;
		good = when(r, l, t->span[i].begin, &out[i].start) &&
		       when(r, l, t->span[i].end, &end);
		out[i].us = end - out[i].start;
	}
	rt_leave(r->s->comm);
	if (!good)
		rt_blame(r->s->comm, l);
	return good;
}

/* What of a collective has no compute beside it. */
static double exposed(const struct pl_span *s, size_t n, const struct pl_span *x)
{
	double left = x->us, end = x->start + x->us;

	for (size_t i = 0; i < n; i++) {
		double from = s[i].start > x->start ? s[i].start : x->start;
		double to = s[i].start + s[i].us < end ? s[i].start + s[i].us : end;

		if (s[i].stream == 0 && to > from)
			left -= to - from;
	}
	return left > 0 ? left : 0;
}

/* The end of the first collective, which all ranks leave at nearly the same time; 0: there is none. */
static double meeting(const struct rt_run *r, const struct pl_span *s, size_t n)
{
	for (size_t i = 0; i < n && r->plan->mode != PL_REMOVED && r->s->comm->size > 1; i++)
		if (s[i].stream == 1)
			return s[i].start + s[i].us;
	return 0;
}

static void shift(struct pl_span *s, size_t n, double by)
{
	for (size_t i = 0; i < n; i++)
		s[i].start += by;
}

static bool show(const struct rt_run *r, struct arena *a, struct strbuf *out)
{
	const size_t n = r->trace->nspan;
	const unsigned nlocal = r->s->comm->nlocal;
	struct pl_process *q = arena_news(a, struct pl_process, nlocal + 1);
	struct pl_span *span[CG_MAX_RANKS];
	double met[CG_MAX_RANKS], last = 0, us;

	q[0].name = "predicted";
	q[0].span = pl_simulate(r->plan, a, &q[0].n, &us);
	for (unsigned l = 0; l < nlocal; l++) {
		unsigned rank = r->s->comm->local[l].rank;

		span[l] = arena_news(a, struct pl_span, n);
		if (!read_spans(r, l, span[l]))
			return false;
		met[l] = meeting(r, span[l], n);
		last = met[l] > last ? met[l] : last;
		q[l + 1] = (struct pl_process){.pid = rank + 1,
		                               .name = arena_printf(a, "measured, rank %u", rank),
		                               .span = span[l],
		                               .n = n};
	}
	for (unsigned l = 0; l < nlocal; l++) {
		shift(span[l], n, last - met[l]);
		for (size_t i = 0; i < n; i++)
			if (span[l][i].stream == 1)
				span[l][i].exposed = exposed(span[l], n, &span[l][i]);
	}
	pl_trace_processes(r->plan, &r->s->planner->plan.machine, q, nlocal + 1, out);
	return true;
}

/* ---- the call ---- */

/* What was enqueued has ended, or failed, before its events are given back. */
static void enqueue_and_wait(const struct rt_run *r)
{
	struct rt_error kept;

	if (hold(r) && mark(r, true) != RT_NONE)
		rt_schedule_enqueue(r);
	atomic_store(&r->s->held, false);
	kept = r->s->comm->error;
	rt_error_clear(&r->s->comm->error);
	rt_schedule_wait(r);
	if (kept.status != PLAIT_OK)
		r->s->comm->error = kept;
}

static void trace(const struct rt_run *r, struct arena *a, char **json)
{
	struct rt_error *e = &r->s->comm->error;
	struct strbuf out;

	if (setjmp(a->oom)) {
		rt_fail(e, PLAIT_NOMEM, "out of memory");
		return;
	}
	strbuf_init(&out, a);
	if (make_events(r, a))
		enqueue_and_wait(r);
	if (e->status != PLAIT_OK || !show(r, a, &out))
		return;
	*json = strdup(out.s);
	if (!*json)
		rt_fail(e, PLAIT_NOMEM, "out of memory");
}

enum plait_status plait_schedule_trace(plait_schedule *s, const plait_plan *plan,
                                       const struct plait_batch *b, const plait_stream *stream,
                                       char **json)
{
	struct rt_trace t = {0};
	struct rt_run r = {.s = s, .plan = rt_plan(plan), .stream = stream, .trace = &t};
	struct arena a;

	if (json)
		*json = NULL;
	if (!s || !json)
		return PLAIT_USAGE;
	rt_error_clear(&s->comm->error);
	if (rt_schedule_begin(&r, b) != PLAIT_OK || is_captured(&r))
		return s->comm->error.status;
	arena_init(&a, (size_t)1 << 30);
	trace(&r, &a, json);
	free_events(&r);
	arena_free(&a);
	return s->comm->error.status;
}
