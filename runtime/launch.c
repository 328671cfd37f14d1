/*
 * plait_launch: checks, the argument block, one call of the driver.  It touches no state but the
 * message of an error, so it may be captured, and ranks may be launched by threads of their own.
 */
#include "runtime/launch.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum plait_status rt_launch_refuse(plait_stage *s, enum plait_status st, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&s->lock);
	rt_error_clear(&s->comm->error);
	rt_fail(&s->comm->error, st, "%s", text);
	pthread_mutex_unlock(&s->lock);
	return st;
}

/* ---- what is launched ---- */

static enum plait_status named(plait_stage *s, struct rt_launching *x)
{
	const struct rt_image *m = &s->image;

	for (uint32_t i = 0; i < m->nvariant; i++) {
		const struct rt_variant *v = &m->variant[i];

		if (v->unit != x->unit || strcmp(v->k->info.protocol, x->l.protocol) != 0)
			continue;
		x->variant = i;
		x->ctas = x->l.ctas;
		return PLAIT_OK;
	}
	return rt_launch_refuse(
	        s, PLAIT_USAGE,
	        "kernel '%s' was not compiled for protocol '%s'; name it in compile.protocol "
	        "of the stage",
	        m->unit[x->unit].name, x->l.protocol);
}

static enum plait_status choose(plait_stage *s, struct rt_launching *x)
{
	const struct rt_range *r = rt_image_range(&s->image, x->unit, x->l.rows);

	if (!r)
		return rt_launch_refuse(
		        s, PLAIT_USAGE, "%llu rows, and the stage was made for %llu at most",
		        (unsigned long long)x->l.rows, (unsigned long long)s->image.max_rows);
	if (x->fixed) {
		x->ctas = x->l.ctas;
		return PLAIT_OK;
	}
	if (x->l.protocol)
		return named(s, x);
	x->variant = r->variant;
	x->ctas = x->l.ctas ? x->l.ctas : r->ctas;
	return PLAIT_OK;
}

static enum plait_status take(plait_stage *s, const struct plait_launch *l, struct rt_launching *x)
{
	size_t size = l->struct_size < sizeof x->l ? l->struct_size : sizeof x->l;
	enum plait_status st;

	memcpy(&x->l, l, size);
	if (!s->loaded)
		return rt_launch_refuse(s, PLAIT_USAGE, "the stage was not made");
	if (x->l.local >= s->comm->nlocal)
		return rt_launch_refuse(s, PLAIT_USAGE,
		                        "local is %u, and this process has %u ranks", x->l.local,
		                        s->comm->nlocal);
	if (x->l.kernel >= s->image.nunit)
		return rt_launch_refuse(s, PLAIT_USAGE, "there is no kernel %zu", x->l.kernel);
	x->unit = (uint32_t)x->l.kernel;
	x->rank = s->alone ? 0 : s->comm->local[x->l.local].rank;
	st = choose(s, x);
	if (st != PLAIT_OK)
		return st;
	x->k = s->image.variant[x->variant].k;
	x->w = x->l.workspace;
	if (!x->l.rows_address != !s->rows_in_memory)
		return rt_launch_refuse(
		        s, PLAIT_USAGE,
		        s->rows_in_memory
		                ? "the stage was made with rows_in_memory: give rows_address"
		                : "rows_address needs a stage made with rows_in_memory");
	if (x->l.rows_address % 4)
		return rt_launch_refuse(s, PLAIT_USAGE, "rows_address is not aligned to 4 bytes");
	return PLAIT_OK;
}

static enum plait_status check_workspace(plait_stage *s, const struct rt_launching *x)
{
	const struct cg_plan *p = &x->k->plan;
	int set = cg_push_set(p->protocol);

	if (!p->communicates && !s->image.nccl)
		return PLAIT_OK;
	if (!x->w || x->w->stage != s)
		return rt_launch_refuse(s, PLAIT_USAGE,
		                        "kernel '%s' needs a workspace of its stage", x->k->name);
	if (__atomic_load_n(&x->w->side[x->l.local].dead, __ATOMIC_ACQUIRE))
		return rt_launch_refuse(
		        s, PLAIT_TIMEOUT,
		        "the workspace is dead since an abort: plait_workspace_reset");
	if (set >= 0 && p->xchg_row && cg_exchange_bytes(p, x->l.rows) > x->w->xchg[set].bytes)
		return rt_launch_refuse(
		        s, PLAIT_USAGE,
		        "the exchange buffer is for fewer than %llu rows of kernel '%s' by "
		        "protocol '%s'",
		        (unsigned long long)x->l.rows, x->k->name, x->k->info.protocol);
	return PLAIT_OK;
}

/* ---- operands ---- */

/* Bytes that a launch reads or writes of a parameter, from its beginning. */
static uint64_t bytes_of(const plait_stage *s, const struct rt_launching *x, uint32_t p)
{
	const struct plait_param_info *q = &x->k->param[p];
	uint64_t each = s->element[x->unit][p], rows = x->l.rows, begin = 0, end = rows;

	if (q->ndim == 0)
		return each;
	if (q->ndim == 1)
		return (uint64_t)q->cols * each;
	if (q->local_index && s->image.unit[x->unit].role[p] == RT_PLAIN)
		plait_own_rows(rows, s->image.tp, x->rank, &begin, &end);
	rows = end - begin;
	return rows ? ((rows - 1) * (uint64_t)q->ld + (uint64_t)q->cols) * each : 0;
}

static enum plait_status check_operand(plait_stage *s, const struct rt_launching *x, uint32_t p)
{
	const struct plait_param_info *q =
	        x->l.protocol || x->fixed ? &x->k->param[p] : &s->view.kernel[x->unit].param[p];
	const struct plait_operand *o = &x->l.operand[p];
	const plait_buffer *b = o->buffer;
	uint64_t bytes = bytes_of(s, x, p);
	uint64_t at = b ? plait_buffer_address(b, x->l.local) + o->address : o->address;

	if (!b && !o->address && bytes)
		return rt_launch_refuse(s, PLAIT_USAGE, "operand '%s' is missing", q->name);
	if (!b && bytes > ~o->address)
		return rt_launch_refuse(s, PLAIT_USAGE,
		                        "operand '%s' at 0x%llx and its %llu bytes go beyond the "
		                        "end of the addresses",
		                        q->name, (unsigned long long)o->address,
		                        (unsigned long long)bytes);
	if (b && b->comm != s->comm)
		return rt_launch_refuse(s, PLAIT_USAGE,
		                        "the buffer of '%s' is of another communicator", q->name);
	if (q->symmetric != PLAIT_SYM_NONE && !b)
		return rt_launch_refuse(
		        s, PLAIT_USAGE,
		        "'%s' has to be in a symmetric buffer: other ranks reach it", q->name);
	if (q->symmetric == PLAIT_SYM_MULTICAST && !b->multicast[x->l.local])
		return rt_launch_refuse(s, PLAIT_USAGE,
		                        "the buffer of '%s' has no multicast address", q->name);
	if (at % q->align)
		return rt_launch_refuse(s, PLAIT_USAGE, "'%s' is not aligned to %u bytes", q->name,
		                        q->align);
	if (b && (o->address > b->bytes || bytes > b->bytes - o->address))
		return rt_launch_refuse(
		        s, PLAIT_USAGE,
		        "the buffer of '%s' has %zu bytes, and %llu rows at offset %llu need "
		        "%llu more",
		        q->name, b->bytes, (unsigned long long)x->l.rows,
		        (unsigned long long)o->address, (unsigned long long)bytes);
	return PLAIT_OK;
}

static enum plait_status check_operands(plait_stage *s, const struct rt_launching *x)
{
	enum plait_status st = PLAIT_OK;

	if (x->l.noperand != x->k->info.nparam || (x->l.noperand && !x->l.operand))
		return rt_launch_refuse(s, PLAIT_USAGE, "kernel '%s' has %u parameters, not %zu",
		                        x->k->name, x->k->info.nparam,
		                        x->l.operand ? x->l.noperand : 0);
	for (uint32_t p = 0; p < x->k->info.nparam && st == PLAIT_OK; p++)
		st = check_operand(s, x, p);
	return st;
}

/* ---- the argument block ---- */

/* Where an offset into a buffer is on every rank, as this rank sees it. */
static void peers(const plait_stage *s, const plait_buffer *b, unsigned local, uint64_t at,
                  uint64_t *out)
{
	for (unsigned r = 0; r < s->comm->size; r++)
		out[r] = b ? b->peer[local][r] + at : 0;
}

static uint64_t address(const struct plait_operand *o, unsigned local)
{
	return o->buffer ? plait_buffer_address(o->buffer, local) + o->address : o->address;
}

static uint64_t multicast(const plait_buffer *b, unsigned local, uint64_t at)
{
	return b && b->multicast[local] ? b->multicast[local] + at : 0;
}

void rt_launch_arguments(const plait_stage *s, const struct rt_launching *x, unsigned char *block)
{
	int set = cg_push_set(x->k->plan.protocol);
	const plait_buffer *ws = x->w ? x->w->buffer : NULL;
	uint64_t xchg = ws && set >= 0 ? x->w->xchg[set].at : 0;
	unsigned local = x->l.local;

	memset(block, 0, x->k->info.argument_bytes);
	for (uint32_t i = 0; i < x->k->info.narg; i++) {
		const struct plait_arg_info *g = &x->k->arg[i];
		const struct plait_operand none = {0};
		const struct plait_operand *o =
		        g->param < x->l.noperand ? &x->l.operand[g->param] : &none;
		const uint64_t own = ws ? plait_buffer_address(ws, local) : 0;
		const uint64_t one[CG_NARGS] = {
		        [CG_ARG_UC] = address(o, local),
		        [CG_ARG_MC] = multicast(o->buffer, local, o->address),
		        [CG_ARG_WS_UC] = own,
		        [CG_ARG_WS_MC] = multicast(ws, local, 0),
		        [CG_ARG_ROWS] = x->l.rows,
		        [CG_ARG_RANK] = x->rank,
		        [CG_ARG_XCHG_UC] = own + xchg,
		        [CG_ARG_XCHG_MC] = multicast(ws, local, xchg),
		        [CG_ARG_ROWS_PTR] = x->l.rows_address,
		};
		uint64_t all[CG_MAX_RANKS];

		if (g->kind == PLAIT_ARG_PEERS)
			peers(s, o->buffer, local, o->address, all);
		else if (g->kind == PLAIT_ARG_WS_PEERS)
			peers(s, ws, local, 0, all);
		else if (g->kind == PLAIT_ARG_XCHG_PEERS)
			peers(s, ws, local, xchg, all);
		else
			all[0] = one[g->kind];
		memcpy(block + g->offset, all, g->size);
	}
}

/* ---- the call ---- */

enum plait_status rt_launch_kernel(plait_stage *s, const struct rt_launching *x)
{
	plait_comm *c = s->comm;
	const struct rt_loaded *f = &s->loaded[(size_t)x->variant * c->nlocal + x->l.local];
	unsigned grid = rt_stage_grid(s, x->k, x->l.rows, x->ctas);
	struct cu_launch_attr attr = {
	        .id = RT_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.i = 1};
	struct cu_launch call = {
	        .grid = {grid, 1, 1},
	        .block = {x->k->info.threads, 1, 1},
	        .shared_bytes = x->k->info.dynamic_bytes,
	        .stream = x->l.stream,
	        .attr = &attr,
	        /* a successor's CTAs that wait would take the SMs of another rank's kernel */
	        .nattr = x->k->plan.pdl != CG_PDL_NONE && !s->shared && !x->plain,
	};
	_Alignas(16) unsigned char block[RT_MOST_BLOCK];
	size_t bytes = x->k->info.argument_bytes;
	void *extra[] = {(void *)RT_LAUNCH_BLOCK, block, (void *)RT_LAUNCH_BYTES, &bytes,
	                 (void *)RT_LAUNCH_END};
	struct rt_error e = {0};

	rt_launch_arguments(s, x, block);
	if (RT_CU(c->drv, &e, ctx_push, c->local[x->l.local].ctx)) {
		RT_CU(c->drv, &e, launch, &call, f->function, NULL, extra);
		rt_leave(c);
	}
	if (e.status == PLAIT_OK)
		return PLAIT_OK;
	return rt_launch_refuse(s, e.status, "kernel '%s': %s", x->k->name, e.text);
}

static enum plait_status enqueue(plait_stage *s, const struct plait_launch *l,
                                 struct rt_launching *x)
{
	enum plait_status st = take(s, l, x);

	if (st == PLAIT_OK)
		st = check_workspace(s, x);
	if (st == PLAIT_OK)
		st = check_operands(s, x);
	if (st != PLAIT_OK)
		return st;
	return s->image.nccl ? rt_launch_nccl(s, x) : rt_launch_kernel(s, x);
}

enum plait_status rt_launch_variant(plait_stage *s, const struct plait_launch *l, uint32_t variant)
{
	struct rt_launching x = {.variant = variant, .fixed = variant != RT_NONE, .plain = true};

	return enqueue(s, l, &x);
}

enum plait_status plait_launch(plait_stage *s, const struct plait_launch *l)
{
	struct rt_launching x = {0};

	if (!s)
		return PLAIT_USAGE;
	if (!l || l->struct_size < sizeof l->struct_size)
		return rt_launch_refuse(s, PLAIT_USAGE,
		                        l ? "struct_size of the launch is 0: begin with "
		                            "PLAIT_LAUNCH_INIT"
		                          : "no struct plait_launch is given");
	return enqueue(s, l, &x);
}
