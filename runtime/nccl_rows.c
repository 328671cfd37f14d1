/*
 * Where GPUs do not reach each other: ncclReduceScatter of what is summed, the kernel on own rows,
 * ncclAllGather of what all get.  NCCL wants the same number of rows from every rank, so where tp
 * does not divide T the rows go through padded copies in the workspace.
 *
 * NCCL takes the ranks of one process in one group.  So where a process has several, their launches
 * are held back, and the last one enqueues all.
 */
#include "runtime/launch.h"
#include <stdlib.h>
#include <string.h>

struct rows { /* one parameter that NCCL carries */
	uint32_t param;
	enum rt_role role;
	uint64_t row;    /* bytes */
	size_t own, all; /* in the workspace's buffer: own rows; those of all ranks, padded */
	bool padded;     /* else `all` is not used: the operand itself is in place */
};

struct plan {
	struct rows of[RT_MOST_PARAMS];
	unsigned n;
	uint64_t each; /* rows of a rank */
	size_t bytes;
};

/* How a launch of T rows lies in the workspace. */
static void lay_out(const plait_stage *s, uint32_t unit, uint64_t T, struct plan *p)
{
	const struct rt_unit *u = &s->image.unit[unit];
	const unsigned tp = s->comm->size;

	*p = (struct plan){.each = T / tp + (T % tp != 0)};
	for (uint32_t i = 0; i < u->nparam; i++) {
		uint64_t row = (uint64_t)s->view.kernel[unit].param[i].cols * s->element[unit][i];
		struct rows *r = &p->of[p->n];

		if (u->role[i] == RT_PLAIN)
			continue;
		*r = (struct rows){.param = i,
		                   .role = (enum rt_role)u->role[i],
		                   .row = row,
		                   .padded = T % tp != 0};
		r->own = p->bytes;
		p->bytes += rt_align_part(u->role[i] == RT_SUMMED ? p->each * row : 0);
		r->all = p->bytes;
		p->bytes += rt_align_part(r->padded ? p->each * tp * row : 0);
		p->n++;
	}
}

size_t rt_nccl_bytes(const plait_stage *s)
{
	uint64_t T = s->image.max_rows;
	size_t most = 0;

	/* the largest T that is no multiple of the ranks, and the largest */
	for (uint32_t u = 0; u < s->image.nunit && s->image.nccl; u++)
		for (uint64_t t = T; t + 1 >= T && t > 0; t--) {
			struct plan p;

			lay_out(s, u, t, &p);
			most = p.bytes > most ? p.bytes : most;
		}
	return most;
}

static int type_of(const char *dtype)
{
	return !strcmp(dtype, "f32")   ? RT_NCCL_FLOAT32
	       : !strcmp(dtype, "f16") ? RT_NCCL_FLOAT16
	                               : RT_NCCL_BFLOAT16;
}

static cu_address operand_at(const struct rt_launching *x, uint32_t p)
{
	const struct plait_operand *o = &x->l.operand[p];

	return o->buffer ? plait_buffer_address(o->buffer, x->l.local) + o->address : o->address;
}

static cu_address scratch(const struct rt_launching *x, size_t at)
{
	return plait_buffer_address(x->w->buffer, x->l.local) + x->w->rows.at + at;
}

/* Copies, or half of NCCL's work, of one rank. */
typedef bool (*step)(plait_stage *s, const struct rt_launching *x, const struct plan *p,
                     struct rt_error *e);

static bool copy_in(plait_stage *s, const struct rt_launching *x, const struct plan *p,
                    struct rt_error *e)
{
	bool good = true;

	for (unsigned i = 0; i < p->n && good; i++)
		if (p->of[i].role == RT_SUMMED && p->of[i].padded)
			good = RT_CU(s->comm->drv, e, copy, scratch(x, p->of[i].all),
			             operand_at(x, p->of[i].param), x->l.rows * p->of[i].row,
			             x->l.stream);
	return good;
}

static bool sum(plait_stage *s, const struct rt_launching *x, const struct plan *p,
                struct rt_error *e)
{
	bool good = true;

	for (unsigned i = 0; i < p->n && good; i++) {
		const struct rows *r = &p->of[i];
		const char *dtype = x->k->param[r->param].dtype;

		if (r->role == RT_SUMMED)
			good = rt_nccl_reduce_scatter(
			        s->comm->nccl, e, s->comm->nccl_comm[x->l.local],
			        r->padded ? scratch(x, r->all) : operand_at(x, r->param),
			        scratch(x, r->own), p->each, (uint64_t)x->k->param[r->param].cols,
			        type_of(dtype), x->l.stream);
	}
	return good;
}

/* Where the rows of all ranks are that will be gathered. */
static cu_address gathered(const struct rt_launching *x, const struct rows *r)
{
	return r->padded ? scratch(x, r->all) : operand_at(x, r->param);
}

static bool kernel(plait_stage *s, const struct rt_launching *x, const struct plan *p,
                   struct rt_error *e)
{
	struct rt_launching own = *x;
	struct plait_operand operand[RT_MOST_PARAMS];

	memcpy(operand, x->l.operand, x->l.noperand * sizeof *operand);
	for (unsigned i = 0; i < p->n; i++) {
		const struct rows *r = &p->of[i];

		operand[r->param] = (struct plait_operand){
		        .address = r->role == RT_SUMMED
		                           ? scratch(x, r->own)
		                           : gathered(x, r) + x->rank * p->each * r->row};
	}
	own.l.operand = operand;
	if (rt_launch_kernel(s, &own) == PLAIT_OK)
		return true;
	rt_fail(e, s->comm->error.status, "%s", s->comm->error.text);
	return false;
}

static bool gather(plait_stage *s, const struct rt_launching *x, const struct plan *p,
                   struct rt_error *e)
{
	bool good = true;

	for (unsigned i = 0; i < p->n && good; i++) {
		const struct rows *r = &p->of[i];
		cu_address all = gathered(x, r);

		if (r->role == RT_GATHERED)
			good = rt_nccl_all_gather(s->comm->nccl, e, s->comm->nccl_comm[x->l.local],
			                          all + x->rank * p->each * r->row, all, p->each,
			                          r->row, x->l.stream);
	}
	return good;
}

static bool copy_out(plait_stage *s, const struct rt_launching *x, const struct plan *p,
                     struct rt_error *e)
{
	bool good = true;

	for (unsigned i = 0; i < p->n && good; i++)
		if (p->of[i].role == RT_GATHERED && p->of[i].padded)
			good = RT_CU(s->comm->drv, e, copy, operand_at(x, p->of[i].param),
			             scratch(x, p->of[i].all), x->l.rows * p->of[i].row,
			             x->l.stream);
	return good;
}

/* One step of n ranks, those that are NCCL's in a group. */
static bool all_ranks(plait_stage *s, struct rt_held *h, unsigned n, const struct plan *p,
                      step do_it, bool group, struct rt_error *e)
{
	const struct rt_nccl *nccl = s->comm->nccl;
	bool good = !group || n == 1 || RT_NC0(nccl, e, group_start);
	bool started = good;

	for (unsigned i = 0; i < n && good; i++) {
		good = RT_CU(s->comm->drv, e, ctx_push, s->comm->local[h[i].x.l.local].ctx);
		if (!good)
			break;
		good = do_it(s, &h[i].x, p, e);
		rt_leave(s->comm);
	}
	/* also after a failure: the thread's group must not stay open */
	if (group && n > 1 && started && !RT_NC0(nccl, e, group_end))
		good = false;
	return good;
}

static enum plait_status run(plait_stage *s, struct rt_held *h, unsigned n)
{
	static const struct {
		step do_it;
		bool group;
	} steps[] = {
	        {copy_in, false}, {sum, true}, {kernel, false}, {gather, true}, {copy_out, false}};
	const struct rt_launching *x = &h[0].x;
	struct rt_error e = {0};
	struct plan p;
	bool good = x->l.rows > 0;

	lay_out(s, x->unit, x->l.rows, &p);
	if (good && p.bytes > x->w->rows.bytes)
		return rt_launch_refuse(s, PLAIT_USAGE,
		                        "the workspace has no room for %llu rows of kernel '%s'",
		                        (unsigned long long)x->l.rows, x->k->name);
	for (size_t i = 0; i < sizeof steps / sizeof *steps && good; i++)
		good = all_ranks(s, h, n, &p, steps[i].do_it, steps[i].group, &e);
	if (e.status != PLAIT_OK)
		return rt_launch_refuse(s, e.status, "kernel '%s': %s", x->k->name, e.text);
	return PLAIT_OK;
}

/* Holds a launch; true: it was the last of this process's ranks. */
static bool hold(plait_stage *s, const struct rt_launching *x)
{
	struct rt_held *h = &s->held[x->l.local];
	bool all = true;

	memcpy(h->operand, x->l.operand, x->l.noperand * sizeof *h->operand);
	h->x = *x;
	h->x.l.operand = h->operand;
	h->here = true;
	for (unsigned i = 0; i < s->comm->nlocal; i++)
		all &= s->held[i].here;
	for (unsigned i = 0; i < s->comm->nlocal && all; i++)
		s->held[i].here = false;
	return all;
}

/* With s->turn: what is held must not change while it is enqueued. */
static enum plait_status take_turn(plait_stage *s, const struct rt_launching *x)
{
	bool other = s->held[x->l.local].here; /* twice */

	for (unsigned i = 0; i < s->comm->nlocal; i++)
		other |= s->held[i].here &&
		         (s->held[i].x.unit != x->unit || s->held[i].x.l.rows != x->l.rows);
	if (other)
		return rt_launch_refuse(
		        s, PLAIT_USAGE,
		        "rank %u launches kernel '%s' while other ranks of this process have not "
		        "yet launched, or launched another: NCCL takes them together",
		        x->rank, x->k->name);
	return hold(s, x) ? run(s, s->held, s->comm->nlocal) : PLAIT_OK;
}

enum plait_status rt_launch_nccl(plait_stage *s, const struct rt_launching *x)
{
	struct rt_held one = {.x = *x};
	enum plait_status st;

	if (s->comm->nlocal == 1)
		return run(s, &one, 1);
	pthread_mutex_lock(&s->turn);
	st = take_turn(s, x);
	pthread_mutex_unlock(&s->turn);
	return st;
}
