/*
 * Making a stage: options, image (from the cache or compiled), kernels on GPUs, agreement.  Steps
 * that only some ranks may fail end in a vote, so that all ranks fail together.
 */
#include "runtime/front.h"
#include "runtime/launch.h"
#include "runtime/build_id.h"
#include "runtime/bundle.h"
#include "runtime/finalize.h"
#include "runtime/machine.h"
#include "runtime/variants.h"
#include <stdlib.h>
#include <string.h>

static const size_t default_limit = (size_t)1 << 30;

struct making {
	plait_stage *s;
	plait_comm *c;
	struct plait_stage_options o;
	struct rt_variants_options v;
	struct rt_table table;
	struct cg_table select;
	struct rt_cache cache;
	struct arena scratch;
	enum status front; /* of making the image */
	struct rt_prefetch prefetch;
};

/* ---- the machine ---- */

void rt_machine_key(const plait_comm *c, struct arena *a, struct rt_table_key *key)
{
	bool one = true, host = true;

	for (unsigned r = 1; r < c->size; r++) {
		one &= !memcmp(c->rank[r].uuid, c->rank[0].uuid, sizeof c->rank[0].uuid);
		host &= c->rank[r].host == c->rank[0].host;
	}
	*key = (struct rt_table_key){
	        .gpu = arena_printf(a, "%s", c->rank[0].name),
	        .driver = rt_machine_driver(c->drv, a),
	        .topology = one    ? "one-gpu"
	                    : host ? "one-host"
	                           : "hosts",
	        .tp = c->size,
	        .multicast = c->transport == PLAIT_BY_MULTICAST,
	};
}

/* The target that all GPUs have: that of the least of them. */
static const char *target_of(const plait_comm *c)
{
	const struct cg_target *t;
	unsigned least = UINT32_MAX;

	for (unsigned r = 0; r < c->size; r++) {
		unsigned sm = (unsigned)(c->rank[r].major * 10 + c->rank[r].minor);

		least = sm < least ? sm : least;
	}
	t = cg_target_of(least);
	return t ? t->name : NULL;
}

/* SMs of a rank: several ranks may share a GPU, whose CTAs have to run at the same time. */
static unsigned sms_of(const plait_comm *c, bool *shared)
{
	unsigned least = CG_MAX_CTAS;

	*shared = false;
	for (unsigned r = 0; r < c->size; r++) {
		unsigned sharing = 0, each;

		for (unsigned q = 0; q < c->size; q++)
			sharing +=
			        !memcmp(c->rank[q].uuid, c->rank[r].uuid, sizeof c->rank[r].uuid);
		*shared |= sharing > 1;
		each = (unsigned)c->rank[r].sms / sharing;
		least = each < least ? each : least;
	}
	return least ? least : 1;
}

/*
 * A grid that is larger could wait for CTAs that cannot start.  Where ranks share a GPU, CTAs of
 * different kernels are on it at once: small ones, a few an SM, may lie about so that no SM is left for
 * a large one of another rank.  With no more CTAs than SMs there always is one.
 */
unsigned rt_stage_grid(const plait_stage *s, const struct rt_kernel *k, uint64_t rows,
                       unsigned wish)
{
	unsigned n = cg_grid(&k->plan, rows, wish);
	unsigned most = s->sms * (s->shared || !k->plan.per_sm ? 1 : k->plan.per_sm);

	return n < most ? n : most;
}

/* ---- the image ---- */

/* One that is named has to be there, and is taken at its word. */
static enum plait_status read_table(struct making *k)
{
	struct rt_table_key key;
	struct diags d;
	const char *path = k->o.table;
	enum status s;

	diags_init(&d, &k->scratch);
	rt_machine_key(k->c, &k->scratch, &key);
	if (!path)
		path = rt_table_path(k->cache.dir < 0 ? NULL : k->cache.path, &key, &k->scratch);
	if (!path || !*path)
		return PLAIT_OK;
	s = rt_table_load(&k->table, path, &k->scratch, &d);
	if (s != ST_OK && k->o.table)
		return rt_fail(&k->c->error, (enum plait_status)s, "%s", d.head->text);
	if (s != ST_OK || (!k->o.table && rt_table_differs(&k->table.key, &key, &k->scratch)))
		return PLAIT_OK;
	k->select = rt_table_select(&k->table, &k->scratch);
	k->v.table = &k->select;
	return PLAIT_OK;
}

static enum status make_image(void *ctx, struct arena *a, struct rt_bytes *value)
{
	struct making *k = ctx;
	rt_finalize_prefetch(&k->prefetch); /* kernels that are new have no cubins yet */
	k->front = rt_variants_make(&k->s->image, &k->v, a);
	*value = (struct rt_bytes){"", 0};
	if (k->front == ST_OK)
		*value = rt_image_write(&k->s->image, a);
	/* Not a failure to remember: a spec's mistakes are found again as fast as they are read. */
	return k->front == ST_OK ? ST_OK : ST_INTERNAL;
}

static void new_image(struct making *k)
{
	struct rt_image *m = &k->s->image;
	jmp_buf outer;

	memcpy(&outer, &m->code.arena.oom, sizeof outer);
	rt_image_free(m);
	rt_image_init(m);
	memcpy(&m->code.arena.oom, &outer, sizeof outer);
}

/* Compiled, or as it was the last time that the same was asked for. */
static enum status image_from_text(struct making *k)
{
	struct strbuf b;
	struct rt_bytes key = rt_variants_key(&k->v, &k->scratch), value;

	strbuf_init(&b, &k->scratch);
	strbuf_printf(&b, "build=%s\n", rt_build_id(&k->scratch));
	strbuf_putn(&b, key.p, key.n);
	key = (struct rt_bytes){b.s, b.n};
	rt_cache_make(&k->cache, key, make_image, k, &k->scratch, &value, &k->s->stats.image_hit);
	if (!k->s->stats.image_hit)
		return k->front;
	if (rt_image_read(&k->s->image, value))
		return ST_OK;
	rt_cache_drop(&k->cache, key); /* of our own making, yet not good: make it anew */
	new_image(k);
	k->s->stats.image_hit = false;
	make_image(k, &k->scratch, &value);
	return k->front;
}

static enum plait_status failed(struct making *k, enum status s)
{
	const char *text = k->s->image.code.diagnostics;

	if (s == ST_OK)
		return PLAIT_OK;
	return rt_fail(&k->c->error, (enum plait_status)s, "%.*s", (int)strcspn(text, "\n"),
	               *text ? text : status_text(s));
}

static enum plait_status image(struct making *k)
{
	uint64_t start = rt_now_ns();
	enum status s;

	if (k->o.bundle)
		s = rt_bundle_read(&k->s->image, (struct rt_bytes){k->o.bundle, k->o.bundle_len},
		                   &k->v);
	else
		s = image_from_text(k);
	k->s->stats.front_ns = rt_now_ns() - start;
	return failed(k, s);
}

/* ---- what the caller may ask about ---- */

static void widen(struct rt_kernel *to, const struct rt_image *m, uint32_t unit, struct arena *a)
{
	struct plait_param_info *p = arena_news(a, struct plait_param_info, to->info.nparam);

	memcpy(p, to->param, to->info.nparam * sizeof *p);
	to->param = p;
	for (uint32_t v = 0; v < m->nvariant; v++)
		for (uint32_t i = 0; i < to->info.nparam && m->variant[v].unit == unit; i++)
			if (m->variant[v].k->param[i].symmetric > p[i].symmetric)
				p[i].symmetric = m->variant[v].k->param[i].symmetric;
	for (uint32_t i = 0; i < to->info.nparam; i++) {
		if (m->unit[unit].role[i] == RT_PLAIN)
			continue;
		p[i].local_index = false;
		p[i].placement = ir_place_name[m->unit[unit].role[i] == RT_SUMMED ? IR_PARTIAL
		                                                                  : IR_REPLICATED];
	}
}

static uint32_t element_bytes(const char *dtype)
{
	int d = ir_dtype_by_name(dtype, strlen(dtype));

	return d < 0 ? 0 : (ir_dtype_info[d].bits + 7) / 8;
}

static void make_view(plait_stage *s)
{
	struct rt_image *m = &s->image;
	struct arena *a = &m->code.arena;

	s->view.diagnostics = m->code.diagnostics;
	s->view.kernel = arena_news(a, struct rt_kernel, m->nunit);
	s->element = arena_news(a, uint32_t *, m->nunit);
	for (uint32_t i = 0; i < m->nunit; i++) {
		const struct rt_unit *u = &m->unit[i];
		struct rt_kernel *k = &s->view.kernel[i];

		*k = *m->variant[u->range[u->nrange - 1].variant].k;
		widen(k, m, i, a);
		s->element[i] = arena_news(a, uint32_t, u->nparam);
		for (uint32_t p = 0; p < u->nparam; p++)
			s->element[i][p] = element_bytes(k->param[p].dtype);
	}
	s->view.nkernel = m->nunit;
}

/* Room for launches that NCCL's groups hold back. */
static void make_held(plait_stage *s)
{
	struct arena *a = &s->image.code.arena;
	uint32_t most = 0;

	if (!s->image.nccl)
		return;
	for (uint32_t i = 0; i < s->image.nunit; i++)
		most = s->image.unit[i].nparam > most ? s->image.unit[i].nparam : most;
	s->held = arena_news(a, struct rt_held, s->comm->nlocal);
	for (unsigned i = 0; i < s->comm->nlocal; i++)
		s->held[i].operand = arena_news(a, struct plait_operand, most);
}

/* ---- creating ---- */

static enum plait_status refuse(struct making *k, const char *what)
{
	return rt_fail(&k->c->error, PLAIT_USAGE, "%s", what);
}

static enum plait_status check_options(struct making *k)
{
	const struct plait_compile_options *c = &k->o.compile;

	if (!k->o.max_rows || k->o.max_rows > UINT32_MAX / 2)
		return rt_fail(&k->c->error, PLAIT_USAGE, "max_rows is %llu, not 1 to 2^31 - 1",
		               (unsigned long long)k->o.max_rows);
	if (!c->text == !k->o.bundle)
		return refuse(k, "give one of compile.text and bundle");
	if (rt_set_wrong(c->set, c->nset))
		return refuse(k, rt_set_wrong(c->set, c->nset));
	if (c->rows || c->form)
		return refuse(
		        k,
		        "compile.rows and compile.form are for a single T, and a stage has kernels "
		        "for all: leave them out");
	if (c->pdl && cg_pdl_by_name(c->pdl) < 0)
		return refuse(k, "compile.pdl is none of none, wait and early");
	if ((unsigned)c->multicast > PLAIT_YES)
		return refuse(k, "compile.multicast is none of PLAIT_AUTO, PLAIT_NO and PLAIT_YES");
	if (k->o.rows_in_memory && k->c->transport == PLAIT_BY_NCCL)
		return refuse(k, "NCCL carries the rows, so T has to be known on the host: no "
		                 "rows_in_memory");
	return PLAIT_OK;
}

/* Also of structures that are older, or newer, than this library. */
static enum plait_status copy_options(struct making *k, const struct plait_stage_options *o)
{
	size_t size = o->struct_size < sizeof k->o ? o->struct_size : sizeof k->o;
	size_t inner = 0, at = offsetof(struct plait_stage_options, compile);

	/* the options of compiling have a size of their own, which must be ours to find what is behind */
	if (size >= at + sizeof inner)
		memcpy(&inner, (const char *)o + at, sizeof inner);
	if (inner != sizeof k->o.compile)
		return refuse(k, "the options were not made by PLAIT_STAGE_OPTIONS_INIT");
	memcpy(&k->o, o, size);
	k->o.rows_in_memory |= k->o.compile.rows_in_memory;
	return check_options(k);
}

static enum plait_status take_options(struct making *k, const struct plait_stage_options *o)
{
	struct plait_compile_options *c = &k->o.compile;
	enum plait_status s = copy_options(k, o);

	if (s != PLAIT_OK)
		return s;
	if (c->memory_limit)
		k->scratch.limit = c->memory_limit;
	c->tp = k->s->alone ? 1 : k->c->size;
	c->target = c->target ? c->target : target_of(k->c);
	if (!c->target)
		return rt_fail(&k->c->error, PLAIT_ENV,
		               "the GPUs are older than compute capability 8.0");
	k->v = (struct rt_variants_options){
	        .compile = *c,
	        .multicast = k->c->transport == PLAIT_BY_MULTICAST && c->multicast != PLAIT_NO &&
	                     !k->s->alone,
	        .nccl = k->c->transport == PLAIT_BY_NCCL && !k->s->alone,
	        .pdl = c->pdl                  ? (enum cg_pdl)cg_pdl_by_name(c->pdl)
	               : k->o.dependent_launch ? CG_PDL_EARLY
	                                       : CG_PDL_NONE,
	        .rows_in_memory = k->o.rows_in_memory,
	        .max_rows = k->o.max_rows,
	};
	k->s->sms = sms_of(k->c, &k->s->shared);
	k->s->rows_in_memory = k->o.rows_in_memory;
	return PLAIT_OK;
}

/* What this process can do by itself; not collective. */
static enum plait_status prepare(struct making *k, const struct plait_stage_options *o)
{
	enum plait_status s = take_options(k, o);

	if (s != PLAIT_OK)
		return s;
	rt_cache_open(&k->cache, k->o.cache_dir, &k->scratch);
	/* who waits for the lock of another that compiles must not make the others wait in vain */
	if (k->cache.wait_ms > k->c->setup_timeout_ns / 2000000)
		k->cache.wait_ms = (unsigned)(k->c->setup_timeout_ns / 2000000);
	if (!k->v.nccl)
		s = read_table(k);
	if (s == PLAIT_OK)
		s = image(k);
	if (s != PLAIT_OK)
		return s;
	k->s->dependent = k->s->image.variant[0].k->plan.pdl != CG_PDL_NONE;
	make_view(k->s);
	make_held(k->s);
	return PLAIT_OK;
}

static enum plait_status guarded_prepare(struct making *k, const struct plait_stage_options *o)
{
	if (setjmp(k->scratch.oom) || setjmp(k->s->image.code.arena.oom))
		return rt_fail(&k->c->error, PLAIT_NOMEM, "out of memory");
	return prepare(k, o);
}

/* The collective steps. */
static enum plait_status create(struct making *k, const struct plait_stage_options *o)
{
	plait_stage *s = k->s;
	enum plait_status st;

	guarded_prepare(k, o);
	st = rt_vote(k->c);
	if (st == PLAIT_OK)
		st = rt_stage_agree(s);
	if (st != PLAIT_OK)
		return st;
	rt_stage_load(s, &k->cache);
	st = rt_vote(k->c);
	if (st != PLAIT_OK)
		rt_stage_unload(s); /* where it did load: nothing may be launched */
	return st;
}

static enum plait_status create_stage(plait_comm *c, const struct plait_stage_options *o,
                                      bool alone, plait_stage **out)
{
	struct making *k;
	enum plait_status st;

	if (out)
		*out = NULL;
	if (!c || !c->boot)
		return PLAIT_USAGE;
	rt_error_clear(&c->error);
	if (!o || !out || o->struct_size < sizeof o->struct_size)
		return rt_fail(&c->error, PLAIT_USAGE, "%s",
		               !out ? "'out' is NULL: there is no place for the stage"
		                    : "the options were not made by PLAIT_STAGE_OPTIONS_INIT");
	k = calloc(1, sizeof *k);
	*out = calloc(1, sizeof **out);
	if (k && *out) {
		k->c = c;
		k->s = *out;
		k->cache.dir = -1;
		k->s->comm = c;
		k->s->alone = alone;
		k->s->view.diagnostics = "";
		pthread_mutex_init(&k->s->lock, NULL);
		pthread_mutex_init(&k->s->turn, NULL);
		arena_init(&k->scratch, default_limit);
		rt_image_init(&k->s->image);
		st = create(k, o);
		k->s->view.diagnostics = k->s->image.code.diagnostics;
		rt_finalize_prefetched(&k->prefetch);
		rt_cache_close(&k->cache);
		arena_free(&k->scratch);
	} else {
		rt_fail(&c->error, PLAIT_NOMEM, "out of memory");
		st = rt_vote(c);
		free(*out);
		*out = NULL;
	}
	free(k);
	return st;
}

enum plait_status plait_stage_create(plait_comm *c, const struct plait_stage_options *o,
                                     plait_stage **out)
{
	return create_stage(c, o, false, out);
}

enum plait_status rt_stage_create_alone(plait_comm *c, const struct plait_stage_options *o,
                                        plait_stage **out)
{
	return create_stage(c, o, true, out);
}

void plait_stage_free(plait_stage *s)
{
	if (!s)
		return;
	rt_stage_unload(s);
	rt_image_free(&s->image);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->turn);
	free(s);
}

const plait_code *plait_stage_code(const plait_stage *s)
{
	return s ? &s->view : NULL;
}

size_t plait_stage_export(const plait_stage *s, size_t kernel, size_t param)
{
	const struct rt_unit *u = s && kernel < s->image.nkernel ? &s->image.unit[kernel] : NULL;

	return u && param < u->nparam && u->export_[param] != RT_NONE ? u->export_[param]
	                                                              : SIZE_MAX;
}

const char *plait_stage_protocol(const plait_stage *s, size_t kernel, uint64_t rows, unsigned *ctas)
{
	const struct rt_range *r = s && kernel < s->image.nunit
	                                   ? rt_image_range(&s->image, (uint32_t)kernel, rows)
	                                   : NULL;
	const struct rt_kernel *k = r ? s->image.variant[r->variant].k : NULL;

	if (ctas)
		*ctas = k ? rt_stage_grid(s, k, rows, r->ctas) : 0;
	return k ? k->info.protocol : NULL;
}
