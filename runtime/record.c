/*
 * The record of an abort, as the host sees it.  It is copied on a stream of its own, which no kernel
 * that spins is on; a word copied behind it says that it has come.  Nothing of the driver's is waited
 * for, so a capture in another stream is not disturbed; what does not come is asked about, in the
 * mode in which that disturbs none either.
 */
#include "runtime/launch.h"
#include "runtime/stage.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { POLLS = 100, POLL_NS = 10000, AT_ABORT = 0, AT_RECORD = 16, NOT_YET = 1 };

_Static_assert(offsetof(struct cg_workspace, record) == AT_RECORD, "a probe has the beginning");

/* Enqueues the copies: first the record, then the word that is always 0. */
static bool ask(plait_workspace *w, unsigned local)
{
	plait_comm *c = w->stage->comm;
	struct rt_side *x = &w->side[local];
	cu_address own = plait_buffer_address(w->buffer, local);
	bool good;

	if (!rt_enter(c, local))
		return false;
	x->probe->done = NOT_YET;
	good = RT_CU(c->drv, &c->error, copy_to_host, x->probe->head, own, sizeof x->probe->head,
	             x->stream) &&
	       RT_CU(c->drv, &c->error, copy_to_host, (void *)&x->probe->done,
	             own + offsetof(struct cg_workspace, reserved), sizeof x->probe->done,
	             x->stream);
	rt_leave(c);
	x->asked = good;
	return good;
}

/* Waits a millisecond at most. */
static bool has_come(struct rt_side *x)
{
	for (int i = 0; i < POLLS; i++) {
		if (__atomic_load_n(&x->probe->done, __ATOMIC_ACQUIRE) != NOT_YET)
			return true;
		nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
	}
	return false;
}

/* A copy that has not come since the last call: false when it never will. */
static bool may_come(plait_workspace *w, unsigned local)
{
	plait_comm *c = w->stage->comm;
	int mode = RT_CU_STREAM_CAPTURE_MODE_RELAXED;
	cu_result r;

	if (!c->drv->thread_capture_mode || !rt_enter(c, local))
		return true;
	c->drv->thread_capture_mode(&mode);
	r = c->drv->stream_query(w->side[local].stream);
	c->drv->thread_capture_mode(&mode);
	rt_leave(c);
	if (r == RT_CU_ERROR_NOT_READY || rt_cu_ok(c->drv, &c->error, RT_DRIVER_NO_stream_query, r))
		return true;
	rt_blame(c, local);
	return false;
}

static void take(struct rt_side *x)
{
	uint32_t abort;

	x->asked = false;
	memcpy(&abort, x->probe->head + AT_ABORT, sizeof abort);
	memcpy(&x->record, x->probe->head + AT_RECORD, sizeof x->record);
	/* The word is set before the record is whole; its kind is written last. */
	if (abort && x->record.kind != CG_WS_GOOD)
		__atomic_store_n(&x->dead, true, __ATOMIC_RELEASE); /* launches look at it */
}

/* clang-format off */
static const struct kind {
	const char *what, *text;
	enum plait_status status;
} kinds[] = {
	[CG_WS_GOOD]     = {"",         "",                                            PLAIT_OK},
	[CG_WS_TIMEOUT]  = {"time-out", "waited in vain for",                          PLAIT_TIMEOUT},
	[CG_WS_CONTRACT] = {"contract", "found another kernel or another T launched by", PLAIT_MISMATCH},
	[CG_WS_PEER]     = {"peer",     "was told by another rank to stop",            PLAIT_TIMEOUT},
	[CG_WS_ROWS]     = {"rows",     "was launched with more rows than the exchange buffer has room for", PLAIT_MISMATCH},
};
static const char *const phases[] = {"at the entry barrier", "at the exit barrier", "polling rows"};
/* clang-format on */

static const char *kernel_of(const plait_stage *s, uint32_t contract)
{
	for (uint32_t i = 0; i < s->image.nvariant; i++)
		if ((uint32_t)s->image.variant[i].k->info.contract == contract)
			return s->image.variant[i].k->name;
	return "";
}

static const char *describe(struct rt_side *x, const struct kind *k, const struct cg_ws_record *r,
                            const char *kernel)
{
	char peer[32] = "";
	const char *phase = r->phase < 3 ? phases[r->phase] : "";

	if (r->kind == CG_WS_TIMEOUT || r->kind == CG_WS_CONTRACT)
		snprintf(peer, sizeof peer, " rank %u", r->peer);
	if (r->kind == CG_WS_PEER)
		snprintf(x->text, sizeof x->text, "this rank %s", k->text);
	else
		snprintf(x->text, sizeof x->text,
		         "rank %u, CTA %u of kernel '%s' %s%s %s (expected %#llx, seen %#llx)",
		         r->rank, r->cta, kernel, k->text, peer, phase,
		         (unsigned long long)r->expected, (unsigned long long)r->seen);
	return x->text;
}

/* As much as the caller's structure holds. */
static void answer(struct plait_record *to, const struct plait_record *from)
{
	size_t n = to->struct_size < sizeof *from ? to->struct_size : sizeof *from;

	if (n > sizeof n)
		memcpy((char *)to + sizeof n, (const char *)from + sizeof n, n - sizeof n);
}

static enum plait_status report(plait_workspace *w, struct rt_side *x, struct plait_record *to)
{
	static const struct cg_ws_record none;
	const struct cg_ws_record *r = x->dead ? &x->record : &none;
	const struct kind *k = &kinds[r->kind <= CG_WS_ROWS ? r->kind : CG_WS_PEER];
	const char *kernel = x->dead ? kernel_of(w->stage, r->kernel) : "";
	struct plait_record full = {
	        .what = k->what,
	        .kernel = kernel,
	        .rank = r->rank,
	        .cta = r->cta,
	        .phase = r->phase,
	        .peer = r->peer,
	        .expected = r->expected,
	        .seen = r->seen,
	        .text = x->dead ? describe(x, k, r, kernel) : "",
	};

	if (to)
		answer(to, &full);
	if (x->dead) {
		rt_error_clear(&w->stage->comm->error);
		rt_fail(&w->stage->comm->error, k->status, "%s", x->text);
	}
	return k->status;
}

static enum plait_status look(plait_workspace *w, unsigned local, struct plait_record *record)
{
	struct rt_side *x = &w->side[local];
	struct rt_error *e = &w->stage->comm->error, kept = *e;
	bool again = x->asked;

	if (x->dead)
		return report(w, x, record);
	rt_error_clear(e);
	if (!x->asked && !ask(w, local))
		return e->status;
	if (has_come(x))
		take(x);
	else if (again && !may_come(w, local))
		return e->status;
	*e = kept; /* what failed before remains said while all is well */
	return report(w, x, record);
}

enum plait_status plait_workspace_check(plait_workspace *w, unsigned local,
                                        struct plait_record *record)
{
	enum plait_status s;

	if (!w)
		return PLAIT_USAGE;
	if (local >= w->stage->comm->nlocal)
		return rt_launch_refuse(w->stage, PLAIT_USAGE,
		                        "'local' is %u, and this process has %u ranks", local,
		                        w->stage->comm->nlocal);
	/* launches of other threads write the message, too */
	pthread_mutex_lock(&w->stage->lock);
	s = look(w, local, record);
	pthread_mutex_unlock(&w->stage->lock);
	return s;
}
