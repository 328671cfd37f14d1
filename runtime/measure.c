/* plait_machine_measure: what is run, in which order, agreed on and kept. */
#include "runtime/measure.h"
#include "runtime/build_id.h"
#include "runtime/gemms.h"
#include "support/hash.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What ranks give each other and the cache keeps: bytes, with zeroes where there is nothing. */
struct answer {
	struct plait_machine machine;
	uint32_t partial, npair;
	struct plait_pair pair[PLAIT_MAX_PAIRS];
};

struct given { /* of process 0 */
	uint64_t there;
	struct answer answer;
};

struct measuring {
	struct arena arena;
	struct rt_bench b;
	plait_planner *p;
	struct rt_measured m;
	const char *kernel;
	uint64_t limit_ns;
	bool late;
	struct answer answer;
	struct rt_cache cache;
	struct strbuf key;
	uint64_t asked; /* the part of the key that all ranks have to have */
	bool cached;
	struct given mine, all[CG_MAX_RANKS];
};

static enum plait_status refuse(struct measuring *q, const char *what)
{
	return rt_fail(&q->b.c->error, PLAIT_USAGE, "plait_machine_measure: %s", what);
}

/* ---- what there is to measure ---- */

/* The same type throughout, and one that the GEMMs here have. */
static const char *dtype_of(const struct pl_op *op)
{
	if (op->kind != PL_GEMM || !op->x_type || op->w_type != op->x_type ||
	    op->out_type != op->x_type)
		return NULL;
	return !strcmp(op->x_type, "bf16") || !strcmp(op->x_type, "f16") ? op->x_type : NULL;
}

static double size_of(const struct pl_op *op)
{
	return (double)op->n * (double)op->k;
}

/* The model's largest GEMMs that differ, the largest first. */
static void add_shape(struct rt_bench *b, const struct pl_op *op)
{
	unsigned at = b->nshape;

	if (!dtype_of(op))
		return;
	for (unsigned i = 0; i < b->nshape; i++)
		if (b->shape[i].op->n == op->n && b->shape[i].op->k == op->k)
			return;
	while (at && size_of(b->shape[at - 1].op) < size_of(op))
		at--;
	if (at == RT_MOST_SHAPES)
		return;
	b->nshape += b->nshape < RT_MOST_SHAPES;
	memmove(&b->shape[at + 1], &b->shape[at], (b->nshape - 1 - at) * sizeof b->shape[0]);
	b->shape[at] = (struct rt_shape){op, dtype_of(op)};
}

/* The collective that the model has most often. */
static const struct pl_tail *tail_of(const struct pl_model *m)
{
	const struct pl_segment *best = NULL;

	for (uint32_t i = 0; i < m->nshape; i++)
		if (m->shape[i].tail.kernel && m->shape[i].tail.message > 0 &&
		    (!best || m->shape[i].count > best->count))
			best = &m->shape[i];
	return best ? &best->tail : NULL;
}

static uint32_t unit_of(const plait_stage *s, const char *name)
{
	for (uint32_t i = 0; i < s->image.nkernel; i++)
		if (!strcmp(s->image.unit[i].name, name))
			return i;
	return RT_NONE;
}

/* What runs where rows are split: the variant of own rows, if the kernel has one. */
static uint32_t variant_of(const plait_stage *s, uint32_t unit, uint32_t rows)
{
	const struct rt_unit *u = &s->image.unit[unit];
	uint32_t v = rt_image_range(&s->image, unit, rows)->variant;

	for (uint32_t i = u->nrange; i-- > 0 && u->carried;)
		if (s->image.variant[v].rows != IR_ROWS_OWN)
			v = u->range[i].variant;
	return v;
}

/* So few rows that the largest GEMM takes about a millisecond: all of it has to fit into a second. */
static uint32_t rows_for(const struct rt_bench *b)
{
	uint64_t most = b->s->image.max_rows;
	uint32_t rows = most < RT_MEASURE_ROWS ? (uint32_t)most : RT_MEASURE_ROWS;

	while (rows > 1024 && 2.0 * rows * size_of(b->shape[0].op) > 1e12)
		rows /= 2;
	return rows;
}

/* CTA counts that the kernel can have and that leave GEMMs the most of a GPU. */
static void list_grids(struct measuring *q)
{
	static const unsigned wish[] = {2, 4, 8, 12, 16, 32};
	const plait_stage *s = q->b.s;
	const struct rt_kernel *k = s->image.variant[q->b.variant].k;
	struct rt_measured *m = &q->m;

	for (unsigned i = 0; i < sizeof wish / sizeof *wish; i++)
		if (wish[i] * 3 <= m->sms &&
		    rt_stage_grid(s, k, m->kernel_rows[0], wish[i]) == wish[i] &&
		    rt_stage_grid(s, k, m->kernel_rows[1], wish[i]) == wish[i])
			m->ctas[m->ngrid++] = wish[i];
	for (unsigned g = 0; g < m->ngrid; g++)
		m->usual = m->ctas[g] <= 8 ? g : m->usual;
}

static enum plait_status find_work(struct measuring *q)
{
	plait_stage *s = q->b.s;
	const struct pl_model *model = q->p->model;
	const struct pl_tail *t = tail_of(model);
	uint32_t most;

	for (uint32_t i = 0; i < model->nshape; i++)
		for (uint32_t k = 0; k < model->shape[i].nop; k++)
			add_shape(&q->b, &model->shape[i].op[k]);
	if (!q->b.nshape)
		return refuse(q, "the model has no GEMM whose operands are all bf16, or all f16");
	if (!t)
		return refuse(q, "the model has no collective");
	most = rows_for(&q->b);
	q->b.unit = unit_of(s, t->kernel);
	if (q->b.unit == RT_NONE)
		return refuse(q, "the stage has no kernel of the model's: make both of one spec");
	if (most < 64)
		return refuse(q, "the stage is for too few rows: max_rows has to be at least 64");
	q->kernel = t->kernel;
	q->b.rows = most;
	q->b.variant = variant_of(s, q->b.unit, most);
	q->m.rows[1] = q->m.kernel_rows[1] = most;
	q->m.rows[0] = q->m.kernel_rows[0] = most / 4;
	q->m.message = t->message;
	q->m.sms = (unsigned)q->b.c->rank[0].sms;
	q->m.nshape = q->b.nshape;
	memcpy(q->m.shape, q->b.shape, sizeof q->m.shape);
	list_grids(q);
	return q->m.ngrid ? PLAIT_OK : refuse(q, "the collective runs with no CTA count to choose");
}

static enum plait_status check(struct measuring *q, const struct plait_measure_options *o)
{
	plait_stage *s = q->b.s;
	size_t size = o->struct_size < sizeof q->b.o ? o->struct_size : sizeof q->b.o;

	memcpy(&q->b.o, o, size);
	if (!s->loaded)
		return refuse(q, "the stage was not made");
	if (!q->p->planner)
		return refuse(q, "the planner was not made");
	if (!q->b.o.gemms == !q->b.o.gemm)
		return refuse(q, "one of 'gemms' and 'gemm' has to be given");
	if (q->b.o.gemms && rt_gemms_comm(q->b.o.gemms) != s->comm)
		return refuse(q, "'gemms' is of another communicator");
	if (q->p->o.tp != s->comm->size)
		return rt_fail(&s->comm->error, PLAIT_USAGE,
		               "the planner is for %u ranks, and the stage has %u", q->p->o.tp,
		               s->comm->size);
	if (s->comm->size < 2)
		return refuse(q, "one rank has no collective");
	if (s->image.nccl)
		return refuse(q, "NCCL carries the rows here, whose CTAs are its own choice");
	if (s->rows_in_memory)
		return refuse(q, "the stage is to be made without rows_in_memory");
	q->limit_ns = (q->b.o.limit_ms ? q->b.o.limit_ms : 900) * (uint64_t)1000000;
	return find_work(q);
}

/* ---- the order ---- */

/* Runs a point, unless it is too late for more. */
static enum plait_status run(struct measuring *q, const struct rt_point *p, struct rt_times *t)
{
	return q->late ? PLAIT_OK : rt_bench_point(&q->b, p, q->limit_ns, &q->late, t);
}

static enum plait_status run_gemm(struct measuring *q, uint32_t shape, unsigned many,
                                  unsigned target, double *us)
{
	struct rt_point p = {.shape = shape, .rows = q->m.rows[many], .target = target};
	struct rt_times t = {0};
	enum plait_status st = run(q, &p, &t);

	*us = t.gemm;
	return st;
}

/* At one CTA count: the GEMM with its target, alone and beside many rows and few; these alone. */
static enum plait_status run_grid(struct measuring *q, unsigned g)
{
	struct rt_measured *m = &q->m;
	enum plait_status st = run_gemm(q, m->big, 1, m->sms - m->ctas[g], &m->target[g]);

	for (unsigned j = 2; j-- > 0 && st == PLAIT_OK;) {
		struct rt_point p = {.shape = m->big,
		                     .rows = m->rows[1],
		                     .target = m->sms - m->ctas[g],
		                     .ctas = m->ctas[g],
		                     .kernel_rows = m->kernel_rows[j]};
		struct rt_times t = {0};

		st = run(q, &p, &m->pair[g][j]);
		p.shape = RT_NONE;
		if (st == PLAIT_OK)
			st = run(q, &p, &t);
		m->collective[g][j] = t.collective;
	}
	return st;
}

static enum plait_status run_other(struct measuring *q, uint32_t shape)
{
	struct rt_measured *m = &q->m;
	const unsigned ctas = m->ctas[m->usual];
	struct rt_point p = {.shape = shape,
	                     .rows = m->rows[1],
	                     .target = m->sms - ctas,
	                     .ctas = ctas,
	                     .kernel_rows = m->kernel_rows[1]};
	enum plait_status st = run_gemm(q, shape, 1, m->sms - ctas, &m->other_target[shape]);

	return st == PLAIT_OK ? run(q, &p, &m->other[shape]) : st;
}

/* What matters most comes first. */
static enum plait_status run_all(struct measuring *q)
{
	struct rt_measured *m = &q->m;
	struct rt_point free = {.shape = m->big,
	                        .rows = m->rows[1],
	                        .ctas = m->ctas[m->usual],
	                        .kernel_rows = m->kernel_rows[0]};
	enum plait_status st = PLAIT_OK;

	for (unsigned i = 0; i < m->nshape && st == PLAIT_OK; i++)
		st = run_gemm(q, i, 1, 0, &m->gemm[i][1]);
	q->b.lead_us = m->gemm[m->nshape - 1][1];
	if (st == PLAIT_OK)
		st = run(q, &free, &m->untargeted);
	if (st == PLAIT_OK)
		st = run_grid(q, m->usual);
	for (unsigned g = 0; g < m->ngrid && st == PLAIT_OK; g++)
		if (g != m->usual)
			st = run_grid(q, g);
	for (unsigned i = 0; i < m->nshape && st == PLAIT_OK; i++)
		if (i != m->big)
			st = run_other(q, i);
	for (unsigned i = 0; i < m->nshape && st == PLAIT_OK; i++)
		st = run_gemm(q, i, 0, 0, &m->gemm[i][0]);
	return st;
}

/* Collective.  Memory goes when nothing runs on any rank: behind a vote. */
static enum plait_status measure(struct measuring *q)
{
	plait_comm *c = q->b.c;
	enum plait_status st = rt_bench_open(&q->b);
	struct rt_error kept;

	if (st == PLAIT_OK)
		st = run_all(q);
	if (st == PLAIT_OK)
		st = rt_bench_check(&q->b);
	kept = c->error;
	rt_error_clear(&c->error);
	rt_bench_close(&q->b);
	c->error = kept;
	return st;
}

static void conclude(struct measuring *q)
{
	struct pl_machine to;

	rt_measure_fit(&q->m, &q->p->plan, &to);
	if (!strstr(to.name, " measured"))
		snprintf(to.name, sizeof to.name, "%.22s measured", q->p->plan.machine.name);
	memset(&q->answer, 0, sizeof q->answer);
	q->answer.machine.struct_size = sizeof q->answer.machine;
	rt_machine_out(&to, &q->answer.machine);
	q->answer.partial = q->late;
	q->answer.npair = rt_measure_pairs(&q->m, &q->p->plan, &to, q->answer.pair);
}

/* ---- agreeing and keeping ---- */

/* What the figures depend on, of which all ranks have the same; then what only the cache asks for. */
static void write_key(struct measuring *q, struct strbuf *b)
{
	const struct rt_bench *x = &q->b;
	struct plait_machine base;

	memset(&base, 0, sizeof base);
	base.struct_size = sizeof base;
	rt_machine_out(&q->p->plan.machine, &base);
	strbuf_printf(
	        b, "measure 1 %s\n%s\nkernel %s variant %u rows %u layout %d facts %d limit %llu\n",
	        rt_build_id(&q->arena), rt_stage_contract(x->s, &q->arena), q->kernel, x->variant,
	        x->rows, x->o.w_is_k_by_n, q->p->o.gemm != NULL, (unsigned long long)q->limit_ns);
	for (unsigned i = 0; i < x->nshape; i++)
		strbuf_printf(b, "gemm %lld x %lld %s\n", (long long)x->shape[i].op->n,
		              (long long)x->shape[i].op->k, x->shape[i].dtype);
	for (unsigned g = 0; g < q->m.ngrid; g++)
		strbuf_printf(b, "ctas %u\n", q->m.ctas[g]);
	if (x->o.gemms)
		strbuf_printf(b, "cublasLt %zu\n", rt_gemms_version(x->o.gemms));
	else
		strbuf_printf(b, "gemms %s\n", x->o.gemm_version ? x->o.gemm_version : "");
	strbuf_printf(b, "base %016llx\n",
	              (unsigned long long)hash_bytes(HASH_INIT, &base, sizeof base));
}

static void write_place(struct measuring *q, struct strbuf *b)
{
	struct rt_table_key key;

	rt_machine_key(q->b.c, &q->arena, &key);
	strbuf_printf(b, "gpu %s, %u SMs\ndriver %s\ntopology %s\ntp %u multicast %d\n", key.gpu,
	              q->m.sms, key.driver, key.topology, key.tp, key.multicast);
}

static bool is_sane(const struct answer *x, unsigned tp)
{
	struct pl_machine m;

	return x->machine.struct_size == sizeof x->machine && x->npair <= PLAIT_MAX_PAIRS &&
	       x->partial <= 1 && rt_machine_in(&x->machine, tp, &m);
}

/* Collective: everyone takes what process 0 has; *there: that it has something. */
static enum plait_status hand_out(struct measuring *q, bool *there)
{
	plait_comm *c = q->b.c;

	q->mine.there = *there;
	q->mine.answer = q->answer;
	if (rt_gather(c, &q->mine, q->all, sizeof q->mine) != PLAIT_OK)
		return c->error.status;
	*there = q->all[0].there == 1;
	if (!*there)
		return PLAIT_OK;
	if (!is_sane(&q->all[0].answer, c->size))
		return rt_fail(&c->error, PLAIT_INTERNAL,
		               "rank 0 has measured a machine that makes no sense");
	q->answer = q->all[0].answer;
	return PLAIT_OK;
}

static bool is_kept(const struct measuring *q)
{
	return q->b.c->process == 0 && (q->b.o.gemms || q->b.o.gemm_version);
}

/* Of process 0: what was measured before. */
static bool recall(struct measuring *q)
{
	const struct rt_bytes key = {q->key.s, q->key.n};
	struct rt_bytes value;

	if (!is_kept(q) || q->b.o.again ||
	    rt_cache_get(&q->cache, key, &q->arena, &value) != RT_CACHE_HIT ||
	    value.n != sizeof q->answer)
		return false;
	memcpy(&q->answer, value.p, sizeof q->answer);
	return is_sane(&q->answer, q->b.c->size) && !q->answer.partial;
}

/* ---- the call ---- */

/* Not collective: what is wrong with the arguments, the key, what the cache has. */
static enum plait_status prepare(struct measuring *q, const struct plait_measure_options *o)
{
	if (setjmp(q->arena.oom))
		return rt_fail(&q->b.c->error, PLAIT_NOMEM, "out of memory");
	if (check(q, o) != PLAIT_OK)
		return q->b.c->error.status;
	strbuf_init(&q->key, &q->arena);
	write_key(q, &q->key);
	q->asked = hash_bytes(HASH_INIT, q->key.s, q->key.n);
	write_place(q, &q->key);
	rt_cache_open(&q->cache, q->b.o.cache_dir, &q->arena);
	q->cached = recall(q);
	return PLAIT_OK;
}

/* Collective, after prepare. */
static enum plait_status agree(struct measuring *q)
{
	plait_comm *c = q->b.c;
	enum plait_status st = rt_vote(c);
	bool there = true;

	if (st == PLAIT_OK)
		st = rt_same(c,
		             "what plait_machine_measure is asked for (spec, planner's machine, "
		             "options, libraries)",
		             q->asked);
	if (st == PLAIT_OK)
		st = hand_out(q, &q->cached);
	if (st != PLAIT_OK || q->cached)
		return st;
	st = measure(q);
	if (st != PLAIT_OK)
		return st;
	conclude(q);
	st = hand_out(q, &there);
	if (st == PLAIT_OK && is_kept(q) && !q->answer.partial)
		rt_cache_put(&q->cache, (struct rt_bytes){q->key.s, q->key.n},
		             (struct rt_bytes){&q->answer, sizeof q->answer}, false);
	return st;
}

static void give(const struct measuring *q, struct plait_machine *m, struct plait_measured *info)
{
	struct plait_measured x;
	size_t size = m->struct_size;

	size = size < sizeof *m ? size : sizeof *m;
	memcpy((char *)m + sizeof m->struct_size,
	       (const char *)&q->answer.machine + sizeof m->struct_size, size - sizeof size);
	if (!info)
		return;
	memset(&x, 0, sizeof x);
	x.cached = q->cached;
	x.partial = q->answer.partial;
	x.seconds = (double)(rt_now_ns() - q->b.start) * 1e-9;
	x.npair = q->answer.npair;
	memcpy(x.pair, q->answer.pair, sizeof x.pair);
	size = info->struct_size < sizeof x ? info->struct_size : sizeof x;
	memcpy((char *)info + sizeof size, (const char *)&x + sizeof size, size - sizeof size);
}

enum plait_status plait_machine_measure(plait_stage *s, plait_planner *p,
                                        const struct plait_measure_options *o,
                                        struct plait_machine *m, struct plait_measured *info)
{
	struct measuring *q;
	enum plait_status st;

	if (!s || !p || !o || !m || o->struct_size < sizeof o->struct_size ||
	    m->struct_size < sizeof m->struct_size ||
	    (info && info->struct_size < sizeof info->struct_size))
		return PLAIT_USAGE;
	rt_error_clear(&s->comm->error);
	q = calloc(1, sizeof *q);
	if (!q) {
		rt_fail(&s->comm->error, PLAIT_NOMEM, "out of memory");
		return rt_vote(s->comm);
	}
	q->b.s = s;
	q->b.c = s->comm;
	q->p = p;
	q->b.start = rt_now_ns();
	arena_init(&q->arena, (size_t)1 << 28);
	q->cache.dir = -1;
	prepare(q, o);
	st = agree(q);
	if (st == PLAIT_OK)
		give(q, m, info);
	rt_cache_close(&q->cache);
	arena_free(&q->arena);
	free(q);
	return st;
}
