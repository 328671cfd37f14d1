/*
 * Workspaces: one symmetric buffer with the protocols' state and the exchange buffers behind it.
 *
 *	[struct cg_workspace][exchange buffer of push][exchange buffer of mm-push][padded rows of NCCL]
 */
#include "runtime/launch.h"
#include <stdlib.h>
#include <string.h>

/* Bytes of the exchange buffer of each set: for the most rows that its protocols are chosen for. */
static void size_exchange(const plait_stage *s, uint64_t bytes[CG_NPUSH])
{
	for (uint32_t i = 0; i < s->image.nvariant; i++) {
		const struct cg_plan *p = &s->image.variant[i].k->plan;
		int set = cg_push_set(p->protocol);
		uint64_t n;

		if (set < 0 || !p->xchg_row)
			continue;
		n = cg_exchange_bytes(p, rt_image_most(&s->image, i));
		bytes[set] = n > bytes[set] ? n : bytes[set];
	}
}

static size_t lay_out(plait_workspace *w)
{
	uint64_t bytes[CG_NPUSH] = {0};
	size_t at = rt_align_part(sizeof(struct cg_workspace));

	size_exchange(w->stage, bytes);
	for (int i = 0; i < CG_NPUSH; i++) {
		w->xchg[i] = (struct rt_exchange){at, (size_t)bytes[i]};
		at = rt_align_part(at + (size_t)bytes[i]);
	}
	w->rows = (struct rt_exchange){at, rt_nccl_bytes(w->stage)};
	return at + w->rows.bytes;
}

/* ---- setting up ---- */

static void first_state(const plait_workspace *w, struct cg_workspace *state)
{
	memset(state, 0, sizeof *state);
	state->limit_ns = w->stage->comm->timeout_ns;
	for (int i = 0; i < CG_NPUSH; i++)
		state->push[i].stride = w->xchg[i].bytes / 3;
}

/* What a rank's own copy holds before the first launch. */
static bool fill(plait_workspace *w, unsigned local, const struct cg_workspace *state)
{
	plait_comm *c = w->stage->comm;
	cu_address own = plait_buffer_address(w->buffer, local);
	struct cu_stream *st = c->local[local].stream;
	bool good;

	if (!rt_enter(c, local))
		return false;
	good = RT_CU(c->drv, &c->error, copy_to_device, own, state, sizeof *state, st);
	for (int i = 0; i < CG_NPUSH && good; i++)
		if (w->xchg[i].bytes)
			good = RT_CU(c->drv, &c->error, set_d32, own + w->xchg[i].at,
			             cg_exchange_fill(), w->xchg[i].bytes / 4, st);
	good = good && rt_wait(c, local, st);
	rt_leave(c);
	return good;
}

/* Collective.  A barrier before, so that no rank's launch still writes; one after, so that none
 * begins before all are ready. */
static enum plait_status set_up(plait_workspace *w)
{
	plait_comm *c = w->stage->comm;
	struct cg_workspace *state = malloc(sizeof *state);
	enum plait_status s;

	if (!state)
		rt_fail(&c->error, PLAIT_NOMEM, "out of memory");
	s = rt_vote(c);
	if (state && s == PLAIT_OK) {
		first_state(w, state);
		for (unsigned i = 0; i < c->nlocal; i++)
			if (!fill(w, i, state))
				break;
		s = rt_vote(c);
	}
	free(state);
	return s;
}

/* ---- the way of the record to the host ---- */

static bool open_side(plait_workspace *w, unsigned local)
{
	plait_comm *c = w->stage->comm;
	struct rt_side *x = &w->side[local];
	int least = 0, greatest = 0;
	void *page = NULL;
	bool good;

	if (!rt_enter(c, local))
		return false;
	/* of another priority than most streams: in a queue of the hardware that a kernel which
	 * spins does not stand in */
	good = RT_CU(c->drv, &c->error, ctx_priorities, &least, &greatest) &&
	       RT_CU_GIVES(c->drv, &c->error, stream_create, &x->stream, RT_CU_STREAM_NON_BLOCKING,
	                   greatest) &&
	       RT_CU_GIVES(c->drv, &c->error, host_alloc, &page, sizeof *x->probe,
	                   RT_CU_MEMHOSTALLOC_PORTABLE);
	x->probe = page;
	rt_leave(c);
	return good;
}

static void close_side(plait_workspace *w, unsigned local)
{
	plait_comm *c = w->stage->comm;
	struct rt_side *x = &w->side[local];

	if ((!x->stream && !x->probe) || !rt_enter(c, local))
		return;
	if (x->stream) {
		if (x->asked)
			c->drv->stream_synchronize(x->stream);
		c->drv->stream_destroy(x->stream);
	}
	if (x->probe)
		c->drv->host_free(x->probe);
	rt_leave(c);
}

/* ---- the interface ---- */

static bool takes_multicast(const plait_stage *s)
{
	for (uint32_t i = 0; i < s->image.nvariant; i++) {
		const struct rt_kernel *k = s->image.variant[i].k;

		for (uint32_t g = 0; g < k->info.narg; g++)
			if (k->arg[g].kind == PLAIT_ARG_WS_MC ||
			    k->arg[g].kind == PLAIT_ARG_XCHG_MC)
				return true;
	}
	return false;
}

static enum plait_status create(plait_workspace *w)
{
	plait_comm *c = w->stage->comm;
	enum plait_status s = plait_buffer_create(c, lay_out(w), &w->buffer);

	if (s != PLAIT_OK)
		return s;
	/* The same on all ranks: a multicast object is made on all or on none. */
	if (!w->buffer->multicast[0] && takes_multicast(w->stage))
		return rt_fail(&c->error, PLAIT_ENV,
		               "no multicast object could be made for the workspace (see 'why' of "
		               "plait_comm_info), and the stage has kernels that need one: make it "
		               "with compile.multicast = PLAIT_NO");
	for (unsigned i = 0; i < c->nlocal; i++)
		if (!open_side(w, i))
			break;
	return set_up(w);
}

enum plait_status plait_workspace_create(plait_stage *s, plait_workspace **out)
{
	enum plait_status st;

	if (out)
		*out = NULL;
	if (!s)
		return PLAIT_USAGE;
	rt_error_clear(&s->comm->error);
	if (!out)
		return rt_fail(&s->comm->error, PLAIT_USAGE,
		               "'out' is NULL: there is no place for the workspace");
	if (!s->loaded)
		return rt_fail(&s->comm->error, PLAIT_USAGE, "the stage was not made");
	*out = calloc(1, sizeof **out);
	if (!*out)
		rt_fail(&s->comm->error, PLAIT_NOMEM, "out of memory");
	st = rt_vote(s->comm);
	if (*out)
		(*out)->stage = s;
	if (st == PLAIT_OK)
		st = create(*out);
	if (st != PLAIT_OK) {
		struct rt_error kept = s->comm->error;

		plait_workspace_free(*out);
		s->comm->error = kept;
		*out = NULL;
	}
	return st;
}

void plait_workspace_free(plait_workspace *w)
{
	if (!w)
		return;
	for (unsigned i = 0; i < w->stage->comm->nlocal; i++)
		close_side(w, i);
	plait_buffer_free(w->buffer);
	free(w);
}

size_t plait_workspace_bytes(const plait_workspace *w)
{
	return w ? w->buffer->bytes : 0;
}

/* A record that is on its way is of before the reset: it has come, and counts no more. */
static bool forget(plait_workspace *w, unsigned local)
{
	plait_comm *c = w->stage->comm;
	struct rt_side *x = &w->side[local];
	bool good = true;

	if (x->asked) {
		if (!rt_enter(c, local))
			return false;
		good = rt_wait(c, local, x->stream);
		rt_leave(c);
	}
	x->asked = x->asked && !good;
	return good;
}

enum plait_status plait_workspace_reset(plait_workspace *w)
{
	enum plait_status s;
	unsigned n;

	if (!w)
		return PLAIT_USAGE;
	n = w->stage->comm->nlocal;
	rt_error_clear(&w->stage->comm->error);
	for (unsigned i = 0; i < n && forget(w, i); i++)
		;
	s = set_up(w);
	for (unsigned i = 0; i < n && s == PLAIT_OK; i++)
		__atomic_store_n(&w->side[i].dead, false, __ATOMIC_RELEASE);
	return s;
}
