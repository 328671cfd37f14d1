/*
 * Running a GEMM and a collective as a schedule does: the collective first, on a stream of high
 * priority behind what it reads, the GEMM on the other, both joined at the end.  A GEMM or two ahead
 * of the first repeat keep the GPU busy until all are enqueued, so that what is timed is the GPU.
 */
#include "runtime/launch.h"
#include "runtime/measure.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CU(b, member, ...) RT_CU((b)->c->drv, &(b)->c->error, member, __VA_ARGS__)

/* ---- memory ---- */

enum { NOISE = 1 << 20 };

/* Numbers of about 1 to the bf16 reader and to the f16 one: zeroes would cost less power, and time. */
static void make_noise(uint16_t *to)
{
	uint64_t s = 88172645463325252u;

	for (size_t i = 0; i < NOISE / sizeof *to; i++) {
		s = s * 6364136223846793005u + 1442695040888963407u;
		to[i] = (uint16_t)((s >> 48 & 0x8000) | 0x3c00 | (s >> 32 & 0x3ff));
	}
}

/* The noise once from the host, then as often as it takes from where it is. */
static bool fill(struct rt_bench *b, unsigned l, cu_address at, size_t bytes, const void *noise)
{
	struct cu_stream *on = b->local[l].compute;
	size_t have = bytes < NOISE ? bytes : NOISE;

	if (!CU(b, copy_to_device, at, noise, have, on))
		return false;
	for (size_t n; have < bytes; have += n) {
		n = bytes - have < have ? bytes - have : have;
		if (!CU(b, copy, at + have, at, n, on))
			return false;
	}
	return true;
}

static bool take(struct rt_bench *b, unsigned l, size_t bytes, const void *noise, cu_address *at)
{
	return RT_CU_GIVES(b->c->drv, &b->c->error, mem_alloc, at, bytes ? bytes : 16) &&
	       (!noise || fill(b, l, *at, bytes, noise));
}

static size_t param_bytes(const struct rt_bench *b, uint32_t i)
{
	const struct plait_param_info *q = &b->s->view.kernel[b->unit].param[i];
	size_t each = b->s->element[b->unit][i];

	return q->ndim == 2   ? (size_t)b->rows * (size_t)q->ld * each
	       : q->ndim == 1 ? (size_t)q->cols * each
	                      : each;
}

static uint32_t nparam(const struct rt_bench *b)
{
	return b->s->image.unit[b->unit].nparam;
}

static bool is_symmetric(const struct rt_bench *b, uint32_t i)
{
	return b->s->view.kernel[b->unit].param[i].ndim == 2;
}

/* Collective. */
static enum plait_status make_buffers(struct rt_bench *b)
{
	enum plait_status st = PLAIT_OK;

	for (uint32_t i = 0; i < nparam(b) && st == PLAIT_OK; i++)
		if (is_symmetric(b, i))
			st = plait_buffer_create(b->c, param_bytes(b, i), &b->buffer[i]);
	return st;
}

static bool make_params(struct rt_bench *b, unsigned l, const void *noise)
{
	for (uint32_t i = 0; i < nparam(b); i++) {
		size_t bytes = param_bytes(b, i);

		if (b->buffer[i] ? !fill(b, l, plait_buffer_address(b->buffer[i], l), bytes, noise)
		                 : !take(b, l, bytes, noise, &b->local[l].param[i]))
			return false;
	}
	return true;
}

static bool make_gemm(struct rt_bench *b, unsigned l, const void *noise)
{
	struct rt_bench_local *x = &b->local[l];
	size_t most_k = 0, most_n = 0;

	b->w_bytes = 0;
	for (unsigned i = 0; i < b->nshape; i++) {
		size_t n = (size_t)b->shape[i].op->n, k = (size_t)b->shape[i].op->k;

		most_k = k > most_k ? k : most_k;
		most_n = n > most_n ? n : most_n;
		b->w_bytes = 2 * n * k > b->w_bytes ? 2 * n * k : b->w_bytes;
	}
	return take(b, l, 2 * b->rows * most_k, noise, &x->x) &&
	       take(b, l, b->w_bytes, noise, &x->w) &&
	       take(b, l, 2 * b->rows * most_n, NULL, &x->out);
}

static bool make_streams(struct rt_bench *b, unsigned l)
{
	const struct rt_driver *d = b->c->drv;
	struct rt_error *e = &b->c->error;
	struct rt_bench_local *x = &b->local[l];
	int least = 0, greatest = 0;
	bool good =
	        CU(b, ctx_priorities, &least, &greatest) &&
	        RT_CU_GIVES(d, e, stream_create, &x->compute, RT_CU_STREAM_NON_BLOCKING, least) &&
	        RT_CU_GIVES(d, e, stream_create, &x->collective, RT_CU_STREAM_NON_BLOCKING,
	                    greatest) &&
	        RT_CU_GIVES(d, e, event_create, &x->ready, RT_CU_EVENT_DISABLE_TIMING) &&
	        RT_CU_GIVES(d, e, event_create, &x->done, RT_CU_EVENT_DISABLE_TIMING);

	for (unsigned r = 0; r < RT_REPEATS && good; r++)
		for (unsigned i = 0; i < RT_NMARKS && good; i++)
			good = RT_CU_GIVES(d, e, event_create, &x->mark[r][i], RT_CU_EVENT_DEFAULT);
	return good;
}

static bool open_local(struct rt_bench *b, unsigned l, const void *noise)
{
	bool good;

	if (!rt_enter(b->c, l))
		return false;
	good = make_streams(b, l) && make_gemm(b, l, noise) && make_params(b, l, noise) &&
	       rt_wait(b->c, l, b->local[l].compute);
	rt_leave(b->c);
	return good;
}

enum plait_status rt_bench_open(struct rt_bench *b)
{
	enum plait_status st = make_buffers(b);
	uint16_t *noise;

	if (st == PLAIT_OK)
		st = plait_workspace_create(b->s, &b->w);
	if (st != PLAIT_OK)
		return st;
	noise = malloc(NOISE);
	if (noise)
		make_noise(noise);
	else
		rt_fail(&b->c->error, PLAIT_NOMEM, "out of memory");
	for (unsigned l = 0; l < b->c->nlocal && noise; l++)
		if (!open_local(b, l, noise)) {
			rt_blame(b->c, l);
			break;
		}
	free(noise);
	return rt_vote(b->c);
}

static void close_local(struct rt_bench *b, unsigned l)
{
	const struct rt_driver *d = b->c->drv;
	struct rt_bench_local *x = &b->local[l];
	const cu_address at[] = {x->x, x->w, x->out};
	struct cu_event *const event[] = {x->ready, x->done};

	if (!x->compute || !rt_enter(b->c, l))
		return;
	for (unsigned i = 0; i < 2; i++)
		if (event[i])
			d->event_destroy(event[i]);
	for (unsigned r = 0; r < RT_REPEATS; r++)
		for (unsigned i = 0; i < RT_NMARKS; i++)
			if (x->mark[r][i])
				d->event_destroy(x->mark[r][i]);
	for (unsigned i = 0; i < 3; i++)
		if (at[i])
			d->mem_free(at[i]);
	for (unsigned i = 0; i < RT_MOST_PARAMS; i++)
		if (x->param[i])
			d->mem_free(x->param[i]);
	if (x->collective)
		d->stream_destroy(x->collective);
	d->stream_destroy(x->compute);
	rt_leave(b->c);
}

void rt_bench_close(struct rt_bench *b)
{
	for (unsigned l = 0; l < b->c->nlocal; l++)
		close_local(b, l);
	plait_workspace_free(b->w);
	for (unsigned i = 0; i < RT_MOST_PARAMS; i++)
		plait_buffer_free(b->buffer[i]);
}

/* ---- enqueueing ---- */

/* Weights one behind the other where there is room, as layers have them: none is in the L2 cache. */
static bool gemm(struct rt_bench *b, uint32_t shape, uint32_t rows, unsigned target,
                 unsigned repeat, unsigned l)
{
	const struct rt_shape *s = &b->shape[shape];
	const struct rt_bench_local *x = &b->local[l];
	size_t bytes = 2 * (size_t)s->op->n * (size_t)s->op->k, each = (bytes + 255) & ~(size_t)255;
	struct plait_gemm_call call = PLAIT_GEMM_CALL_INIT;
	size_t sets = 1 + (b->w_bytes - bytes) / each;
	int code;

	call.local = l;
	call.stream = (plait_stream)x->compute;
	call.m = rows;
	call.n = s->op->n;
	call.k = s->op->k;
	call.dtype = s->dtype;
	call.w_is_k_by_n = b->o.w_is_k_by_n;
	call.sm_target = target;
	call.x = x->x;
	call.w = x->w + repeat % sets * each;
	call.out = x->out;
	if (b->o.gemms)
		return plait_gemms_run(b->o.gemms, &call) == PLAIT_OK;
	code = b->o.gemm(b->o.gemm_ctx, &call);
	if (!code) {
		rt_error_clear(&b->c->error);
		return true;
	}
	rt_fail(&b->c->error, PLAIT_ENV, "the callback gave %d", code);
	b->c->error.status = PLAIT_ENV;
	rt_error_context(&b->c->error, "a GEMM of %lld x %lld x %lld", (long long)call.m,
	                 (long long)call.n, (long long)call.k);
	return false;
}

static bool collective(struct rt_bench *b, const struct rt_point *p, unsigned l)
{
	struct plait_launch call = PLAIT_LAUNCH_INIT;

	for (uint32_t i = 0; i < nparam(b); i++)
		b->operand[i] = b->buffer[i] ? (struct plait_operand){b->buffer[i], 0}
		                             : (struct plait_operand){NULL, b->local[l].param[i]};
	call.local = l;
	call.kernel = b->unit;
	call.workspace = b->w;
	call.stream = (plait_stream)b->local[l].collective;
	call.operand = b->operand;
	call.noperand = nparam(b);
	call.rows = p->kernel_rows;
	call.ctas = p->ctas;
	return rt_launch_variant(b->s, &call, b->variant) == PLAIT_OK;
}

static bool record(struct rt_bench *b, unsigned l, unsigned repeat, enum rt_mark m)
{
	const struct rt_bench_local *x = &b->local[l];

	return CU(b, event_record, x->mark[repeat][m],
	          m == RT_FROM || m == RT_TO ? x->collective : x->compute);
}

/* What of a repeat each rank does before the next step of any. */
static bool first_step(struct rt_bench *b, const struct rt_point *p, unsigned repeat, unsigned l)
{
	const struct rt_bench_local *x = &b->local[l];

	return record(b, l, repeat, RT_BEGIN) &&
	       (!p->ctas ||
	        (CU(b, event_record, x->ready, x->compute) &&
	         CU(b, stream_wait_event, x->collective, x->ready, 0) &&
	         record(b, l, repeat, RT_FROM) && collective(b, p, l) &&
	         record(b, l, repeat, RT_TO) && CU(b, event_record, x->done, x->collective)));
}

static bool second_step(struct rt_bench *b, const struct rt_point *p, unsigned repeat, unsigned l)
{
	const struct rt_bench_local *x = &b->local[l];

	return (p->shape == RT_NONE || gemm(b, p->shape, p->rows, p->target, repeat, l)) &&
	       record(b, l, repeat, RT_GEMM) &&
	       (!p->ctas || CU(b, stream_wait_event, x->compute, x->done, 0)) &&
	       record(b, l, repeat, RT_END);
}

typedef bool step_fn(struct rt_bench *b, const struct rt_point *p, unsigned repeat, unsigned l);

static bool for_each(struct rt_bench *b, step_fn *step, const struct rt_point *p, unsigned repeat)
{
	for (unsigned l = 0; l < b->c->nlocal; l++) {
		bool good = rt_enter(b->c, l);

		if (good) {
			good = step(b, p, repeat, l);
			rt_leave(b->c);
		}
		if (!good) {
			rt_blame(b->c, l);
			return false;
		}
	}
	return true;
}

/* GEMMs ahead, and one that is thrown away: `repeat` of them. */
static bool lead_step(struct rt_bench *b, const struct rt_point *p, unsigned repeat, unsigned l)
{
	(void)p;
	for (unsigned i = 0; i < repeat; i++)
		if (!gemm(b, b->nshape - 1, b->rows, 0, i, l))
			return false;
	return true;
}

/* So many GEMMs of the smallest shape that the repeats are enqueued before they have ended. */
static unsigned lead_of(const struct rt_bench *b)
{
	double us = 60.0 * RT_REPEATS * b->c->nlocal, n = b->lead_us > 0 ? us / b->lead_us : 4;

	return n > 64 ? 64 : 1 + (unsigned)n;
}

/* A shape's first call may choose, load and wait: not between the repeats. */
static bool warm_step(struct rt_bench *b, const struct rt_point *p, unsigned repeat, unsigned l)
{
	return p->shape == RT_NONE || gemm(b, p->shape, p->rows, p->target, repeat, l);
}

/* One repeat, to know how long it takes. */
static bool enqueue_one(struct rt_bench *b, const struct rt_point *p)
{
	return for_each(b, warm_step, p, 0) && for_each(b, first_step, p, 0) &&
	       for_each(b, second_step, p, 0);
}

static bool enqueue_all(struct rt_bench *b, const struct rt_point *p)
{
	if (!for_each(b, lead_step, p, lead_of(b)))
		return false;
	for (unsigned r = 0; r < RT_REPEATS; r++)
		if (!for_each(b, first_step, p, r) || !for_each(b, second_step, p, r))
			return false;
	return true;
}

/* ---- times ---- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The time between two marks of a repeat; of what makes no sense 0. */
static bool time_of(struct rt_bench *b, unsigned l, unsigned repeat, enum rt_mark from,
                    enum rt_mark to, double *us)
{
	const struct rt_bench_local *x = &b->local[l];
	float ms = 0;

	if (!CU(b, event_elapsed, &ms, x->mark[repeat][from], x->mark[repeat][to]))
		return false;
	*us = ms > 0 && ms < 1e6f ? 1e3 * (double)ms : 0;
	return true;
}

/* The median over the repeats. */
static bool median(struct rt_bench *b, unsigned l, enum rt_mark from, enum rt_mark to, double *us)
{
	double v[RT_REPEATS - RT_WARM];

	for (unsigned r = RT_WARM; r < RT_REPEATS; r++)
		if (!time_of(b, l, r, from, to, &v[r - RT_WARM]))
			return false;
	qsort(v, RT_REPEATS - RT_WARM, sizeof *v, by_value);
	*us = v[(RT_REPEATS - RT_WARM) / 2];
	return true;
}

static void keep_larger(double *to, double us)
{
	*to = us > *to ? us : *to;
}

static bool read_one(struct rt_bench *b, const struct rt_point *p, unsigned l, struct rt_times *t)
{
	double us;

	(void)p;
	if (!time_of(b, l, 0, RT_BEGIN, RT_END, &us))
		return false;
	keep_larger(&t->both, us);
	return true;
}

static bool read_all(struct rt_bench *b, const struct rt_point *p, unsigned l, struct rt_times *t)
{
	struct rt_times x = {0};

	if ((p->shape != RT_NONE && !median(b, l, RT_BEGIN, RT_GEMM, &x.gemm)) ||
	    (p->ctas && !median(b, l, RT_FROM, RT_TO, &x.collective)) ||
	    !median(b, l, RT_BEGIN, RT_END, &x.both))
		return false;
	keep_larger(&t->gemm, x.gemm);
	keep_larger(&t->collective, x.collective);
	keep_larger(&t->both, x.both);
	return true;
}

/* Waits for every rank's stream, also after a failure: what was enqueued must have ended before memory
 * goes. */
typedef bool read_fn(struct rt_bench *b, const struct rt_point *p, unsigned l, struct rt_times *t);

static bool finish(struct rt_bench *b, const struct rt_point *p, bool good, read_fn *read,
                   struct rt_times *t)
{
	struct rt_error kept = b->c->error;

	for (unsigned l = 0; l < b->c->nlocal; l++) {
		bool entered;

		rt_error_clear(&b->c->error);
		entered = rt_enter(b->c, l);
		if (!entered || !rt_wait(b->c, l, b->local[l].collective) ||
		    !rt_wait(b->c, l, b->local[l].compute) || (good && !read(b, p, l, t))) {
			rt_blame(b->c, l);
			if (good)
				kept = b->c->error;
			good = false;
		}
		if (entered)
			rt_leave(b->c);
	}
	b->c->error = kept;
	return good;
}

enum plait_status rt_bench_check(struct rt_bench *b)
{
	struct plait_record r = PLAIT_RECORD_INIT;

	for (unsigned l = 0; l < b->c->nlocal && b->c->error.status == PLAIT_OK; l++)
		for (unsigned i = 0; i < 20;
		     i++) { /* an answer is on its way since the call before */
			enum plait_status st = plait_workspace_check(b->w, l, &r);

			if (st != PLAIT_OK) {
				rt_error_clear(&b->c->error);
				rt_fail(&b->c->error, st, "a collective was given up: %s",
				        r.text ? r.text : "");
				break;
			}
			usleep(100);
		}
	return rt_vote(b->c);
}

struct said { /* of a process */
	struct rt_times t;
	double elapsed_us;
};

/* Collective: what was enqueued (good: all of it) ends; the most of all ranks'. */
static enum plait_status collect(struct rt_bench *b, const struct rt_point *p, bool good,
                                 read_fn *read, struct said *most)
{
	struct said mine = {0}, all[CG_MAX_RANKS];

	finish(b, p, good, read, &mine.t);
	mine.elapsed_us = (double)(rt_now_ns() - b->start) * 1e-3;
	if (rt_vote(b->c) != PLAIT_OK)
		return b->c->error.status;
	if (rt_gather(b->c, &mine, all, sizeof mine) != PLAIT_OK)
		return b->c->error.status;
	*most = (struct said){0};
	for (unsigned q = 0; q < b->c->processes; q++) {
		keep_larger(&most->t.gemm, all[q].t.gemm);
		keep_larger(&most->t.collective, all[q].t.collective);
		keep_larger(&most->t.both, all[q].t.both);
		keep_larger(&most->elapsed_us, all[q].elapsed_us);
	}
	return PLAIT_OK;
}

enum plait_status rt_bench_point(struct rt_bench *b, const struct rt_point *p, uint64_t limit_ns,
                                 bool *late, struct rt_times *t)
{
	enum plait_status st;
	struct said said;

	*t = (struct rt_times){0};
	st = collect(b, p, enqueue_one(b, p), read_one, &said);
	if (st != PLAIT_OK)
		return st;
	*late = said.elapsed_us + (RT_REPEATS + 1) * said.t.both > (double)limit_ns * 1e-3;
	if (*late)
		return PLAIT_OK;
	st = collect(b, p, enqueue_all(b, p), read_all, &said);
	if (st == PLAIT_OK)
		*t = said.t;
	return st;
}
