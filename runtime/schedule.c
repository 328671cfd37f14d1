/* Making a schedule: kernels without communication, NCCL, a workspace, streams and events. */
#include "runtime/schedule.h"
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

static enum plait_status refuse(plait_schedule *s, const char *what)
{
	return rt_fail(&s->comm->error, PLAIT_USAGE, "%s", what);
}

static enum plait_status take_options(plait_schedule *s, const struct plait_schedule_options *o)
{
	size_t size = o->struct_size < sizeof s->o ? o->struct_size : sizeof s->o;

	memcpy(&s->o, o, size);
	if (!s->stage->loaded)
		return refuse(s, "the stage was not made");
	if (!s->planner->planner)
		return refuse(s, "the planner was not made");
	if (!s->o.tensor || !s->o.operation)
		return refuse(s, "'tensor' and 'operation' have to be given");
	if (s->planner->o.tp != s->comm->size)
		return rt_fail(&s->comm->error, PLAIT_USAGE,
		               "the planner is for %u ranks, and the stage has %u",
		               s->planner->o.tp, s->comm->size);
	if (s->stage->rows_in_memory)
		return refuse(s, "a schedule knows T: the stage is to be made without "
		                 "rows_in_memory");
	if (s->o.max_requests > 1 << 24)
		return refuse(s, "max_requests is more than 2^24");
	if (!s->o.max_requests)
		s->o.max_requests = 1;
	s->model = s->planner->model;
	return PLAIT_OK;
}

/* ---- what unfused plans need ---- */

/* Collective. */
static enum plait_status make_alone(plait_schedule *s)
{
	struct plait_stage_options o = PLAIT_STAGE_OPTIONS_INIT;
	const struct plait_planner_options *p = &s->planner->o;

	o.compile.spec_name = p->spec_name;
	o.compile.text = p->text;
	o.compile.text_len = p->text_len;
	o.compile.set = p->set;
	o.compile.nset = p->nset;
	o.compile.protocol = "local";
	o.max_rows = s->stage->image.max_rows;
	o.cache_dir = s->o.cache_dir;
	o.table = "";
	return rt_stage_create_alone(s->comm, &o, &s->alone);
}

/* Collective. */
static enum plait_status open_nccl(plait_schedule *s)
{
	struct nccl_comm *comm[CG_MAX_RANKS] = {NULL};
	plait_comm *c = s->comm;

	if (c->transport == PLAIT_BY_NCCL) {
		for (unsigned l = 0; l < c->nlocal; l++)
			s->local[l].nccl = c->nccl_comm[l];
		return PLAIT_OK;
	}
	s->nccl_owned = true;
	rt_nccl_ranks(c, comm);
	for (unsigned l = 0; l < c->nlocal; l++)
		s->local[l].nccl = comm[l];
	return c->error.status;
}

/* ---- streams and events ---- */

static bool open_local(plait_schedule *s, unsigned l)
{
	const struct rt_driver *d = s->comm->drv;
	struct rt_error *e = &s->comm->error;
	struct rt_sched_local *x = &s->local[l];
	int least = 0, greatest = 0;
	bool good;

	if (!rt_enter(s->comm, l))
		return false;
	good = RT_CU(d, e, ctx_priorities, &least, &greatest) &&
	       RT_CU_GIVES(d, e, stream_create, &x->stream, RT_CU_STREAM_NON_BLOCKING, greatest) &&
	       RT_CU_GIVES(d, e, event_create, &x->ready, RT_CU_EVENT_DISABLE_TIMING) &&
	       RT_CU_GIVES(d, e, event_create, &x->done[0], RT_CU_EVENT_DISABLE_TIMING) &&
	       RT_CU_GIVES(d, e, event_create, &x->done[1], RT_CU_EVENT_DISABLE_TIMING);
	rt_leave(s->comm);
	return good;
}

static void close_local(plait_schedule *s, unsigned l)
{
	const struct rt_driver *d = s->comm->drv;
	struct rt_sched_local *x = &s->local[l];
	struct cu_event *event[] = {x->ready, x->done[0], x->done[1]};

	if (!x->stream || !rt_enter(s->comm, l))
		return;
	for (unsigned i = 0; i < 3; i++)
		if (event[i])
			d->event_destroy(event[i]);
	d->stream_destroy(x->stream);
	rt_leave(s->comm);
}

/* ---- creating ---- */

static enum plait_status model(plait_schedule *s)
{
	if (setjmp(s->arena.oom))
		return rt_fail(&s->comm->error, PLAIT_NOMEM, "out of memory");
	for (unsigned p = 0; p < 2; p++) {
		s->length[p] = arena_news(&s->arena, int64_t, s->o.max_requests);
		s->cached[p] = arena_news(&s->arena, int64_t, s->o.max_requests);
	}
	return rt_schedule_model(s);
}

/* Collective; what a rank has to say is in the communicator's error. */
static enum plait_status create(plait_schedule *s)
{
	plait_comm *c = s->comm;
	enum plait_status st = rt_vote(c);

	if (st == PLAIT_OK)
		st = rt_same(c, "plait_schedule_options.unfused",
		             (uint64_t)s->o.unfused + (s->o.unfused && !s->o.all_reduce));
	if (st == PLAIT_OK && s->o.unfused)
		st = make_alone(s);
	if (st == PLAIT_OK && s->o.unfused && !s->o.all_reduce)
		st = open_nccl(s);
	if (st != PLAIT_OK)
		return st;
	model(s);
	st = rt_vote(c);
	if (st == PLAIT_OK)
		st = plait_workspace_create(s->stage, &s->workspace);
	if (st != PLAIT_OK)
		return st;
	for (unsigned l = 0; l < c->nlocal; l++)
		if (!open_local(s, l)) {
			rt_blame(c, l);
			break;
		}
	return rt_vote(c);
}

enum plait_status plait_schedule_create(plait_stage *stage, plait_planner *p,
                                        const struct plait_schedule_options *o,
                                        plait_schedule **out)
{
	plait_schedule *s;
	plait_comm *c;
	enum plait_status st;

	if (out)
		*out = NULL;
	if (!stage || !p || !o || !out || o->struct_size < sizeof o->struct_size)
		return PLAIT_USAGE;
	c = stage->comm;
	rt_error_clear(&c->error);
	s = calloc(1, sizeof *s);
	if (!s) {
		rt_fail(&c->error, PLAIT_NOMEM, "out of memory");
		return rt_vote(c);
	}
	*s = (plait_schedule){.stage = stage, .planner = p, .comm = c};
	arena_init(&s->arena, (size_t)1 << 30);
	take_options(s, o);
	st = create(s);
	if (st != PLAIT_OK) {
		struct rt_error kept = c->error;

		plait_schedule_free(s);
		c->error = kept;
		return st;
	}
	*out = s;
	return PLAIT_OK;
}

void plait_schedule_free(plait_schedule *s)
{
	struct nccl_comm *comm[CG_MAX_RANKS];

	if (!s)
		return;
	for (unsigned l = 0; l < s->comm->nlocal; l++) {
		close_local(s, l);
		comm[l] = s->local[l].nccl;
	}
	if (s->nccl_owned)
		rt_nccl_ranks_free(s->comm, comm);
	plait_workspace_free(s->workspace);
	plait_stage_free(s->alone);
	arena_free(&s->arena);
	free(s);
}

plait_workspace *plait_schedule_workspace(const plait_schedule *s)
{
	return s ? s->workspace : NULL;
}
