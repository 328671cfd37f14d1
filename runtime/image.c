/*
 * Images as bytes.  One description of each structure, walked to write and to read, so that the two
 * cannot differ.
 */
#include "runtime/image.h"
#include "frontend/sema.h"
#include <string.h>

enum { FORMAT = 1, MOST_UNITS = 4096, MOST_VARIANTS = 65536 };

_Static_assert((int)RT_MOST_PARAMS == (int)FE_MAX_ARGS, "parameters of a kernel");

struct io {
	struct strbuf *out; /* writing; else NULL */
	const unsigned char *p, *end;
	struct arena *a;
	bool bad;
};

static void raw(struct io *o, void *x, size_t n)
{
	if (o->out) {
		strbuf_putn(o->out, x, n);
	} else if (o->bad || (size_t)(o->end - o->p) < n) {
		o->bad = true;
		memset(x, 0, n);
	} else {
		memcpy(x, o->p, n);
		o->p += n;
	}
}

static void u32(struct io *o, uint32_t *x)
{
	raw(o, x, sizeof *x);
}

static void u64(struct io *o, uint64_t *x)
{
	raw(o, x, sizeof *x);
}

static void flag(struct io *o, bool *x)
{
	uint32_t v = *x;

	u32(o, &v);
	*x = v != 0;
	o->bad |= v > 1;
}

/* An enumerator less than n. */
static uint32_t choice(struct io *o, uint32_t v, uint32_t n)
{
	u32(o, &v);
	o->bad |= v >= n;
	return o->bad ? 0 : v;
}

/* A number of elements of at least `each` bytes: so many are left. */
static void count(struct io *o, uint32_t *n, size_t each, uint32_t most)
{
	u32(o, n);
	if (!o->out && (*n > most || *n > (size_t)(o->end - o->p) / each))
		o->bad = true;
	if (o->bad)
		*n = 0;
}

/* Text or bytes, with a NUL behind that does not count. */
static void text(struct io *o, const char **s, size_t *len)
{
	uint32_t n = o->out ? (uint32_t)(len ? *len : strlen(*s)) : 0;

	count(o, &n, 1, UINT32_MAX);
	if (o->out) {
		strbuf_putn(o->out, *s, n);
		return;
	}
	*s = o->bad ? "" : arena_strndup(o->a, (const char *)o->p, n);
	if (!o->bad)
		o->p += n;
	if (len)
		*len = n;
	else
		o->bad |= strlen(*s) != n;
}

static void blob(struct io *o, struct rt_bytes *b)
{
	const char *s = b->p ? b->p : "";

	text(o, &s, &b->n);
	b->p = s;
}

static void param(struct io *o, struct plait_param_info *p)
{
	p->struct_size = sizeof *p;
	text(o, &p->name, NULL);
	text(o, &p->dtype, NULL);
	text(o, &p->placement, NULL);
	p->mode = (enum plait_mode)choice(o, p->mode, PLAIT_INOUT + 1);
	u32(o, &p->ndim);
	u64(o, (uint64_t *)&p->cols);
	u64(o, (uint64_t *)&p->ld);
	u32(o, &p->align);
	p->symmetric = (enum plait_symmetric)choice(o, p->symmetric, PLAIT_SYM_MULTICAST + 1);
	flag(o, &p->local_index);
	flag(o, &p->constant);
}

static void argument(struct io *o, struct plait_arg_info *g)
{
	g->struct_size = sizeof *g;
	text(o, &g->name, NULL);
	g->kind = (enum plait_arg_kind)choice(o, g->kind, CG_NARGS);
	u32(o, &g->param);
	u32(o, &g->offset);
	u32(o, &g->size);
}

/* Texts that are names of tables come back as the tables'. */
static void names(struct io *o, struct rt_kernel *k)
{
	const char *target = o->out ? k->plan.target->name : "";

	k->plan.protocol = (enum cg_protocol)choice(o, k->plan.protocol, CG_NPROTOCOLS);
	k->plan.order = (enum cg_order)choice(o, k->plan.order, CG_STRICT + 1);
	text(o, &target, NULL);
	if (o->out)
		return;
	k->plan.target = cg_target_by_name(target);
	o->bad |= !k->plan.target || k->plan.protocol == CG_AUTO;
	k->info.protocol = cg_protocol_name(k->plan.protocol);
	k->info.order = cg_order_name(k->plan.order);
	k->info.target = k->plan.target ? k->plan.target->name : "";
}

/* An image that lacks a field of the plan would launch otherwise than what was compiled. */
_Static_assert(sizeof(struct cg_plan) == 168, "a new field of the plan goes into the list below");

static void plan(struct io *o, struct cg_plan *p)
{
	unsigned *const numbers[] = {
	        &p->tp,        &p->elems,      &p->threads,  &p->vecs,        &p->in_flight,
	        &p->stages,    &p->smem,       &p->dynamic,  &p->ring_stages, &p->ring_ranks,
	        &p->ring_out,  &p->ring_bars,  &p->max_ctas, &p->per_sm,      &p->est_regs,
	        &p->sum_ranks, &p->xchg_row,   &p->parked,   &p->park_units,  &p->park_words,
	        &p->ahead,     &p->xchg_ranks, &p->teams,    &p->row_threads,
	};

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		u32(o, numbers[i]);
	u64(o, (uint64_t *)&p->cols);
	u64(o, &p->bytes_in_flight);
	flag(o, &p->own_rows);
	flag(o, &p->communicates);
	flag(o, &p->keep_weights);
	flag(o, &p->rows_in_memory);
	flag(o, &p->wide);
	flag(o, &p->reread);
	p->pdl = (enum cg_pdl)choice(o, p->pdl, CG_PDL_EARLY + 1);
}

/* What is in the plan, too, is not written twice. */
static void info(struct io *o, struct rt_kernel *k)
{
	const struct cg_plan *p = &k->plan;
	struct plait_kernel_info *i = &k->info;

	plan(o, &k->plan);
	i->struct_size = sizeof *i;
	u32(o, &i->argument_bytes);
	u64(o, &i->contract);
	i->tp = p->tp;
	i->threads = p->threads;
	i->shared_bytes = p->smem;
	i->dynamic_bytes = p->dynamic;
	i->max_ctas = p->max_ctas;
	i->cols = p->cols;
	i->communicates = p->communicates;
}

static void kernel(struct io *o, struct rt_kernel *k)
{
	text(o, &k->name, NULL);
	text(o, &k->entry, NULL);
	text(o, &k->ptx, &k->ptx_len);
	text(o, &k->plan_text, NULL);
	names(o, k);
	info(o, k);
	count(o, &k->info.nparam, 40, RT_MOST_PARAMS);
	count(o, &k->info.narg, 20, 8 * RT_MOST_PARAMS);
	if (!o->out) {
		k->param = arena_news(o->a, struct plait_param_info, k->info.nparam);
		k->arg = arena_news(o->a, struct plait_arg_info, k->info.narg);
	}
	for (uint32_t i = 0; i < k->info.nparam; i++)
		param(o, &k->param[i]);
	for (uint32_t i = 0; i < k->info.narg; i++)
		argument(o, &k->arg[i]);
}

static void unit(struct io *o, struct rt_unit *u)
{
	text(o, &u->name, NULL);
	flag(o, &u->carried);
	count(o, &u->nparam, 8, RT_MOST_PARAMS);
	count(o, &u->nrange, 16, MOST_VARIANTS);
	if (!o->out) {
		u->export_ = arena_news(o->a, uint32_t, u->nparam);
		u->role = arena_news(o->a, uint32_t, u->nparam);
		u->range = arena_news(o->a, struct rt_range, u->nrange);
	}
	for (uint32_t i = 0; i < u->nparam; i++) {
		u32(o, &u->export_[i]);
		u->role[i] = choice(o, u->role[i], RT_GATHERED + 1);
	}
	for (uint32_t i = 0; i < u->nrange; i++) {
		u64(o, &u->range[i].until);
		u32(o, &u->range[i].variant);
		u32(o, &u->range[i].ctas);
	}
}

static void image(struct io *o, struct rt_image *m)
{
	uint32_t format = FORMAT;
	const char *version = plait_version();

	/* kernels and the layout of the workspace go together */
	u32(o, &format);
	text(o, &version, NULL);
	o->bad |= format != FORMAT || strcmp(version, plait_version()) != 0;
	text(o, &m->code.diagnostics, NULL);
	u64(o, &m->max_rows);
	u32(o, &m->tp);
	flag(o, &m->nccl);
	u32(o, &m->nkernel);
	count(o, &m->nunit, 16, MOST_UNITS);
	count(o, &m->nvariant, 80, MOST_VARIANTS);
	if (!o->out) {
		m->unit = arena_news(o->a, struct rt_unit, m->nunit);
		m->variant = arena_news(o->a, struct rt_variant, m->nvariant);
		m->code.kernel = arena_news(o->a, struct rt_kernel, m->nvariant);
		m->code.nkernel = m->nvariant;
	}
	for (uint32_t i = 0; i < m->nunit; i++)
		unit(o, &m->unit[i]);
	for (uint32_t i = 0; i < m->nvariant; i++) {
		struct rt_variant *v = &m->variant[i];

		u32(o, &v->unit);
		v->rows = (enum ir_rows)choice(o, v->rows, IR_ROWS_ALL + 1);
		v->k = &m->code.kernel[i];
		kernel(o, v->k);
		blob(o, &v->cubin);
	}
}

/* ---- consistency ---- */

static bool check_arg(const struct plait_kernel_info *k, const struct plait_arg_info *g)
{
	bool of_param =
	        g->kind == PLAIT_ARG_UC || g->kind == PLAIT_ARG_MC || g->kind == PLAIT_ARG_PEERS;
	bool array = g->kind == PLAIT_ARG_PEERS || g->kind == PLAIT_ARG_WS_PEERS ||
	             g->kind == PLAIT_ARG_XCHG_PEERS;
	uint32_t size = array                                                    ? 8 * k->tp
	                : g->kind == PLAIT_ARG_ROWS || g->kind == PLAIT_ARG_RANK ? 4
	                                                                         : 8;

	return g->size == size && g->offset <= k->argument_bytes &&
	       size <= k->argument_bytes - g->offset && (!of_param || g->param < k->nparam);
}

/* What a launch multiplies stays within 64 bits. */
static bool check_param(const struct plait_param_info *p)
{
	const int64_t most = (int64_t)1 << 24; /* a spec's are at most 4 * IR_MAX_COLS */

	return p->ndim <= 2 && p->cols > 0 && p->cols <= most && p->ld > 0 && p->ld <= most &&
	       p->align > 0 && p->align <= 256 && (p->align & (p->align - 1)) == 0;
}

static bool check_kernel(const struct rt_image *m, const struct rt_variant *v)
{
	const struct rt_kernel *k = v->k;
	const struct plait_kernel_info *i = &k->info;
	bool good = v->unit < m->nunit && i->tp == m->tp && i->nparam == m->unit[v->unit].nparam &&
	            i->threads >= 1 && i->threads <= 1024 && i->max_ctas >= 1 &&
	            i->max_ctas <= CG_MAX_CTAS && i->argument_bytes <= RT_MOST_BLOCK &&
	            i->dynamic_bytes <= 1u << 20 && i->cols > 0 && k->plan.per_sm <= 32 &&
	            (!k->plan.xchg_row || cg_push_set(k->plan.protocol) >= 0) &&
	            k->plan.xchg_row <= 1u << 30 && k->plan.xchg_ranks <= CG_MAX_RANKS;

	for (uint32_t g = 0; g < i->narg && good; g++)
		good = check_arg(i, &k->arg[g]);
	for (uint32_t p = 0; p < i->nparam && good; p++)
		good = check_param(&k->param[p]);
	return good;
}

static bool check_unit(const struct rt_image *m, uint32_t n)
{
	const struct rt_unit *u = &m->unit[n];
	uint64_t from = 0;
	bool good = u->nrange > 0 && u->range[u->nrange - 1].until == m->max_rows;

	for (uint32_t i = 0; i < u->nparam && good; i++)
		good = u->export_[i] == RT_NONE ||
		       (u->export_[i] >= m->nkernel && u->export_[i] < m->nunit);
	for (uint32_t i = 0; i < u->nrange && good; i++) {
		const struct rt_range *r = &u->range[i];

		good = (i == 0 || r->until > from) && r->variant < m->nvariant &&
		       m->variant[r->variant].unit == n && r->ctas <= CG_MAX_CTAS;
		from = r->until;
	}
	return good;
}

bool rt_image_check(const struct rt_image *m)
{
	bool good = m->tp >= 1 && m->tp <= CG_MAX_RANKS && m->nkernel <= m->nunit &&
	            m->nkernel > 0 && m->max_rows <= UINT32_MAX;

	for (uint32_t i = 0; i < m->nvariant && good; i++)
		good = check_kernel(m, &m->variant[i]);
	for (uint32_t i = 0; i < m->nunit && good; i++)
		good = check_unit(m, i);
	return good;
}

/* ---- the interface ---- */

void rt_image_init(struct rt_image *m)
{
	memset(m, 0, sizeof *m);
	arena_init(&m->code.arena, 0);
	m->code.diagnostics = "";
}

void rt_image_free(struct rt_image *m)
{
	arena_free(&m->code.arena);
	m->nunit = m->nvariant = m->nkernel = 0;
}

struct rt_bytes rt_image_write(struct rt_image *m, struct arena *a)
{
	struct strbuf b;
	struct io o = {.out = &b, .a = a};

	strbuf_init(&b, a);
	image(&o, m);
	return (struct rt_bytes){b.s, b.n};
}

bool rt_image_read(struct rt_image *m, struct rt_bytes b)
{
	struct io o = {.p = b.p, .end = (const unsigned char *)b.p + b.n, .a = &m->code.arena};

	image(&o, m);
	return !o.bad && o.p == o.end && rt_image_check(m);
}

bool rt_image_clip(struct rt_image *m, uint64_t max_rows)
{
	if (max_rows > m->max_rows)
		return false;
	for (uint32_t i = 0; i < m->nunit; i++) {
		struct rt_unit *u = &m->unit[i];
		uint32_t last = 0;

		while (u->range[last].until < max_rows)
			last++;
		u->range[last].until = max_rows;
		u->nrange = last + 1;
	}
	m->max_rows = max_rows;
	return true;
}

const struct rt_range *rt_image_range(const struct rt_image *m, uint32_t unit, uint64_t rows)
{
	const struct rt_unit *u = &m->unit[unit];
	uint32_t low = 0, high = u->nrange;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (u->range[mid].until < rows)
			low = mid + 1;
		else
			high = mid;
	}
	return low < u->nrange ? &u->range[low] : NULL;
}

uint64_t rt_image_most(const struct rt_image *m, uint32_t variant)
{
	const struct rt_unit *u = &m->unit[m->variant[variant].unit];

	for (uint32_t i = u->nrange; i-- > 0;)
		if (u->range[i].variant == variant)
			return u->range[i].until;
	return 0;
}
