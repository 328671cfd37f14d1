/*
 * The planner's public face: plait_planner_*, plait_plan_*.  A handle has an arena with the spec's
 * model and the texts that were asked for; the plans belong to the planner inside.
 */
#include "runtime/plan_api.h"
#include "runtime/front.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The smaller of what the caller knows and what this library does. */
static void copy_out(void *to, const void *from, size_t have)
{
	size_t size;

	memcpy(&size, to, sizeof size);
	memcpy((char *)to + sizeof size, (const char *)from + sizeof size,
	       (size < have ? size : have) - sizeof size);
}

static bool has_size(const void *info)
{
	size_t size = 0;

	if (info)
		memcpy(&size, info, sizeof size);
	return size >= sizeof size;
}

/* ---- machines ---- */

_Static_assert((int)PLAIT_MAX_CTA_ROWS == (int)PL_MAX_CTA_ROWS, "rows of collectives");
_Static_assert((int)PLAIT_MAX_RATES == (int)PL_MAX_RATES, "measured GEMMs");

static unsigned rows_out(const struct pl_comm *c, struct plait_collective_row *to)
{
	for (unsigned i = 0; i < c->n; i++)
		to[i] = (struct plait_collective_row){c->ctas[i], c->alpha[i], c->gbs[i]};
	return c->n;
}

/* Not of NaN and infinity. */
static bool is_in(double x, double least, double most)
{
	return x >= least && x <= most;
}

enum { MOST_US = 1000000 };

static bool rows_in(const struct plait_collective_row *from, unsigned n, struct pl_comm *c)
{
	if (n > PL_MAX_CTA_ROWS)
		return false;
	c->n = n;
	for (unsigned i = 0; i < n; i++) {
		if (!is_in(from[i].gbs, 1e-6, 1e9) || !is_in(from[i].alpha_us, 0, MOST_US) ||
		    (i && from[i].ctas <= from[i - 1].ctas))
			return false;
		c->ctas[i] = from[i].ctas;
		c->alpha[i] = from[i].alpha_us;
		c->gbs[i] = from[i].gbs;
	}
	return true;
}

static bool rates_in(const struct plait_gemm_rate *from, unsigned n, struct pl_machine *m)
{
	if (n > PL_MAX_RATES)
		return false;
	m->nrate = n;
	for (unsigned i = 0; i < n; i++) {
		if (from[i].n < 1 || from[i].k < 1 || !is_in(from[i].rate, 1e-2, 1e2))
			return false;
		m->rate[i] = (struct pl_rate){from[i].n, from[i].k, from[i].rate};
	}
	return true;
}

void rt_machine_out(const struct pl_machine *from, struct plait_machine *m)
{
	struct plait_machine x = {0};

	memcpy(x.name, from->name, sizeof x.name);
	x.sms = from->sms;
	x.sms_per_gpc = from->sms_per_gpc;
	x.tflops = from->tflops;
	x.hbm_gbs = from->hbm_gbs;
	x.link_gbs = from->link_gbs;
	x.gemm_eff = from->gemm_eff;
	x.grouped_eff = from->grouped_eff;
	x.attention_eff = from->attention_eff;
	x.mem_eff = from->mem_eff;
	x.tile_us = from->tile_us;
	x.launch_us = from->launch_us;
	x.join_us = from->join_us;
	x.gamma = from->gamma;
	x.persistent = from->persistent;
	x.nfused = rows_out(&from->fused, x.fused);
	x.npush = rows_out(&from->push, x.push);
	x.nplain = rows_out(&from->plain, x.plain);
	x.nbeside = rows_out(&from->beside, x.beside);
	x.nrate = from->nrate;
	for (unsigned i = 0; i < from->nrate; i++)
		x.rate[i] = (struct plait_gemm_rate){from->rate[i].n, from->rate[i].k,
		                                     from->rate[i].rate};
	copy_out(m, &x, sizeof x);
}

enum plait_status plait_machine_get(const char *name, unsigned tp, bool multicast,
                                    struct plait_machine *m)
{
	struct pl_machine from;

	if (!name || !has_size(m) || tp < 1 || tp > IR_MAX_TP ||
	    !pl_machine_find(name, tp, multicast, &from))
		return PLAIT_USAGE;
	rt_machine_out(&from, m);
	return PLAIT_OK;
}

static bool numbers_in(const struct pl_machine *m)
{
	return is_in(m->tflops, 1e-3, 1e6) && is_in(m->hbm_gbs, 1e-3, 1e6) &&
	       is_in(m->link_gbs, 0, 1e6) && is_in(m->gemm_eff, 1e-3, 10) &&
	       is_in(m->grouped_eff, 1e-3, 10) && is_in(m->attention_eff, 1e-3, 10) &&
	       is_in(m->mem_eff, 1e-3, 10) && is_in(m->tile_us, 0, MOST_US) &&
	       is_in(m->launch_us, 0, MOST_US) && is_in(m->join_us, 0, MOST_US) &&
	       is_in(m->gamma, 0, 100);
}

bool rt_machine_in(const struct plait_machine *m, unsigned tp, struct pl_machine *to)
{
	struct plait_machine x = {0};

	if (!has_size(m))
		return false;
	memcpy(&x, m, m->struct_size < sizeof x ? m->struct_size : sizeof x);
	*to = (struct pl_machine){.tp = tp,
	                          .sms = x.sms,
	                          .sms_per_gpc = x.sms_per_gpc,
	                          .tflops = x.tflops,
	                          .hbm_gbs = x.hbm_gbs,
	                          .link_gbs = x.link_gbs,
	                          .gemm_eff = x.gemm_eff,
	                          .grouped_eff = x.grouped_eff,
	                          .attention_eff = x.attention_eff,
	                          .mem_eff = x.mem_eff,
	                          .tile_us = x.tile_us,
	                          .launch_us = x.launch_us,
	                          .join_us = x.join_us,
	                          .gamma = x.gamma,
	                          .persistent = x.persistent};
	memcpy(to->name, x.name, sizeof to->name - 1);
	for (const char *c = to->name; *c; c++) /* it goes into JSON and texts as it is */
		if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
			return false;
	return rates_in(x.rate, x.nrate, to) && rows_in(x.beside, x.nbeside, &to->beside) &&
	       rows_in(x.fused, x.nfused, &to->fused) && rows_in(x.push, x.npush, &to->push) &&
	       rows_in(x.plain, x.nplain, &to->plain) && is_in(x.sms, 1, 4096) &&
	       is_in(x.sms_per_gpc, 0, 4096) && numbers_in(to) && (x.nfused || x.npush) && x.nplain;
}

/* ---- making a planner ---- */

static enum status wrong(plait_planner *p, enum diag_code code, const char *text, const char *fix)
{
	diag_at(&p->d, DIAG_ERROR, code, (struct span){0, 0}, "%s", text);
	if (fix)
		diag_note(&p->d, (struct span){0, 0}, "%s", fix);
	return code == DIAG_RT_ARGUMENT ? ST_USAGE : ST_INPUT;
}

static bool makes_sense(const struct plait_gemm_fact *f)
{
	enum { TILE = 1 << 16, CLUSTER = 16 };

	return f->tile_m <= TILE && f->tile_n <= TILE && f->cluster_m <= CLUSTER &&
	       f->cluster_n <= CLUSTER && f->split_k <= TILE && is_in(f->waves, 0, 1e9) &&
	       is_in(f->us, 0, 1e12);
}

static bool ask_caller(void *ctx, const struct pl_gemm_query *q, struct pl_gemm_fact *fact)
{
	plait_planner *p = ctx;
	struct plait_gemm_query pq = {q->m,        q->n,         q->k,      q->x_bits, q->w_bits,
	                              q->out_bits, q->sm_target, q->x_type, q->w_type, q->out_type};
	struct plait_gemm_fact f = {0};

	if (!p->o.gemm(p->o.gemm_ctx, &pq, &f))
		return false;
	if (!makes_sense(&f)) {
		p->strange = p->has_strange ? p->strange : pq;
		p->has_strange = true;
		return false;
	}
	*fact = (struct pl_gemm_fact){.bm = f.tile_m,
	                              .bn = f.tile_n,
	                              .cm = f.cluster_m,
	                              .cn = f.cluster_n,
	                              .splitk = f.split_k,
	                              .persistent = f.persistent,
	                              .dynamic = f.dynamic,
	                              .fractional = f.fractional,
	                              .waves = f.waves,
	                              .us = f.us};
	return f.us > 0 || (f.tile_m && f.tile_n);
}

static enum status check(plait_planner *p)
{
	const struct plait_planner_options *o = &p->o;

	if (!o->text)
		return wrong(p, DIAG_RT_ARGUMENT, "no spec is given", "set 'text' and 'text_len'");
	if (rt_set_wrong(o->set, o->nset))
		return wrong(p, DIAG_RT_ARGUMENT, rt_set_wrong(o->set, o->nset), RT_SET_FIX);
	if (o->tp < 1 || o->tp > IR_MAX_TP)
		return wrong(p, DIAG_RT_ARGUMENT, "tp is not 1 to 16",
		             "set 'tp' to the number of ranks");
	if (o->machine && !rt_machine_in(o->machine, o->tp, &p->plan.machine))
		return wrong(p, DIAG_RT_ARGUMENT, "the machine has members that make no sense",
		             "begin with plait_machine_get and set what was measured");
	if (!o->machine && (!o->gpu || !pl_machine_find(o->gpu, o->tp, true, &p->plan.machine)))
		return wrong(p, DIAG_RT_ARGUMENT, "there is no such machine",
		             arena_printf(&p->arena, "give one of: %s", pl_machine_names()));
	if (!is_in(o->hysteresis, 0, 0.999) || o->align > 1 << 20)
		return wrong(p, DIAG_RT_ARGUMENT, "'hysteresis' or 'align' makes no sense", NULL);
	return ST_OK;
}

/* The schedule compiles the spec again, for kernels without communication. */
static void keep_spec(plait_planner *p)
{
	struct plait_planner_options *o = &p->o;
	struct plait_set *set = arena_news(&p->arena, struct plait_set, o->nset);

	for (size_t i = 0; i < o->nset; i++) {
		set[i].name = arena_printf(&p->arena, "%s", o->set[i].name);
		set[i].value = arena_printf(&p->arena, "%s", o->set[i].value);
	}
	o->set = set;
	o->text = arena_strndup(&p->arena, o->text, o->text_len);
	o->spec_name = arena_printf(&p->arena, "%s", o->spec_name);
}

static const struct fe_steps *find_model(plait_planner *p, const struct fe_steps *steps)
{
	while (steps && p->o.model && strcmp(steps->name, p->o.model) != 0)
		steps = steps->next;
	return steps;
}

static enum status read_spec(plait_planner *p, const struct pl_model **model)
{
	struct fe_steps *steps = NULL;
	struct fe_options fo = {.tp = p->o.tp, .steps = &steps};
	struct ir_module *before;
	const struct fe_steps *m;
	const char *why;

	if (rt_front(&p->arena, &p->d, p->o.spec_name, p->o.text, p->o.text_len, p->o.set,
	             p->o.nset, &fo, &before) != ST_OK)
		return ST_INPUT;
	m = find_model(p, steps);
	if (!m)
		return wrong(p, DIAG_NO_MODEL, "the spec has no such model",
		             "add: model NAME { ... } (doc/language.md, Models)");
	p->steps = m;
	p->model = *model = pl_model_make(&p->arena, m, p->o.tp, &why);
	return *model ? ST_OK : wrong(p, DIAG_NO_PLAN, why, NULL);
}

static enum status make(plait_planner *p)
{
	const struct pl_model *model = NULL;
	struct strbuf text;
	enum status s;

	diags_init(&p->d, &p->arena);
	s = check(p);
	if (s == ST_OK) {
		keep_spec(p);
		s = read_spec(p, &model);
	}
	if (s == ST_OK) {
		p->plan.align = p->o.align;
		p->plan.hysteresis = p->o.hysteresis > 0 ? p->o.hysteresis : -1;
		p->plan.even = -1;
		p->plan.no_split = p->o.no_split;
		p->plan.no_targets = p->o.no_sm_targets;
		p->plan.gemm = p->o.gemm ? ask_caller : NULL;
		p->plan.gemm_ctx = p;
		p->planner = pl_new(model, &p->plan);
		s = p->planner ? ST_OK : ST_NOMEM;
	}
	strbuf_init(&text, &p->arena);
	diags_render(&p->d, DIAG_WARNING, &text);
	p->diagnostics = text.s;
	return s;
}

static enum status make_guarded(plait_planner *p)
{
	if (setjmp(p->arena.oom)) {
		p->diagnostics = "error: out of memory\n";
		return ST_NOMEM;
	}
	return make(p);
}

enum plait_status plait_planner_make(const struct plait_planner_options *o, plait_planner **out)
{
	if (!out)
		return PLAIT_USAGE;
	*out = NULL;
	if (!has_size(o))
		return PLAIT_USAGE;
	*out = calloc(1, sizeof **out);
	if (!*out)
		return PLAIT_NOMEM;
	memcpy(&(*out)->o, o, o->struct_size < sizeof *o ? o->struct_size : sizeof *o);
	if (!(*out)->o.spec_name)
		(*out)->o.spec_name = "spec";
	arena_init(&(*out)->arena, (size_t)1 << 30);
	return (enum plait_status)make_guarded(*out);
}

void plait_planner_free(plait_planner *p)
{
	if (!p)
		return;
	pl_free(p->planner);
	arena_free(&p->arena);
	free(p);
}

const char *plait_planner_diagnostics(const plait_planner *p)
{
	return p ? p->diagnostics : "out of memory";
}

/* ---- plans: a plait_plan is a pl_plan ---- */

bool rt_batch_in(const struct plait_batch *b, struct pl_batch *to)
{
	struct plait_batch x = {0};

	if (!has_size(b))
		return false;
	memcpy(&x, b, b->struct_size < sizeof x ? b->struct_size : sizeof x);
	*to = (struct pl_batch){x.tokens, x.nrequest, x.cum, x.cached};
	return true;
}

static enum plait_status blame_caller(plait_planner *p)
{
	snprintf(p->text, sizeof p->text,
	         "error: the function 'gemm' answers what makes no sense (a time or waves that "
	         "are negative, infinite or no number, or a tile beyond 65536) for m = %lld, "
	         "n = %lld, k = %lld, SM target %u\n",
	         (long long)p->strange.m, (long long)p->strange.n, (long long)p->strange.k,
	         p->strange.sm_target);
	p->diagnostics = p->text;
	return PLAIT_USAGE;
}

static enum plait_status give(plait_planner *p, enum status s, const struct pl_plan *plan,
                              const plait_plan **out)
{
	if (p->has_strange)
		return blame_caller(p);
	*out = (const plait_plan *)(const void *)plan;
	return (enum plait_status)s;
}

enum plait_status plait_plan_make(plait_planner *p, const struct plait_batch *b,
                                  const plait_plan **out)
{
	const struct pl_plan *plan;
	struct pl_batch x;
	enum status s;

	if (!out)
		return PLAIT_USAGE;
	*out = NULL;
	if (!p || !p->planner || !rt_batch_in(b, &x))
		return PLAIT_USAGE;
	s = pl_plan(p->planner, &x, &plan);
	return give(p, s, plan, out);
}

enum plait_status plait_plan_force(plait_planner *p, const struct plait_batch *b,
                                   enum plait_run_mode mode, int64_t split_at,
                                   const plait_plan **out)
{
	const struct pl_plan *plan;
	struct pl_batch x;
	enum status s;

	if (!out)
		return PLAIT_USAGE;
	*out = NULL;
	if (!p || !p->planner || !rt_batch_in(b, &x) || (unsigned)mode > PLAIT_RUN_SPLIT ||
	    split_at < 0)
		return PLAIT_USAGE;
	s = pl_plan_as(p->planner, &x, (enum pl_mode)mode, split_at, &plan);
	if (s == ST_OK && plan->mode != (enum pl_mode)mode)
		s = ST_USAGE;
	return give(p, s, s == ST_OK ? plan : NULL, out);
}

#define SAME(a, b) _Static_assert((int)PLAIT_RUN_##a == (int)PL_##b, "modes agree")
SAME(UNFUSED, UNFUSED);
SAME(REMOVED, REMOVED);
SAME(FUSED, FUSED);
SAME(SPLIT, SPLIT);
#undef SAME

enum plait_status plait_plan_get(const plait_plan *plan, struct plait_plan_info *info)
{
	const struct pl_plan *p = rt_plan(plan);
	struct plait_plan_info x = {0};

	if (!p || !has_size(info))
		return PLAIT_USAGE;
	x.tokens = p->tokens;
	x.split = p->split;
	x.mode = (enum plait_run_mode)p->mode;
	x.own_rows = p->own_rows;
	x.us = p->us;
	x.nstage = p->nstage;
	x.nstep = p->nseq;
	x.last_ctas = p->tail_ctas;
	x.hash = p->hash;
	x.why = p->why;
	memcpy(x.row_base, p->row_base, sizeof x.row_base);
	memcpy(x.residual_base, p->residual_base, sizeof x.residual_base);
	memcpy(x.mode_us, p->mode_us, sizeof x.mode_us);
	copy_out(info, &x, sizeof x);
	return PLAIT_OK;
}

enum plait_status plait_plan_get_stage(const plait_plan *plan, size_t i,
                                       struct plait_plan_stage *info)
{
	const struct pl_plan *p = rt_plan(plan);
	const struct pl_stage *st;
	struct plait_plan_stage x = {0};

	if (!p || i >= p->nstage || !has_size(info))
		return PLAIT_USAGE;
	st = &p->stage[i];
	x.part = st->half;
	x.row = st->row;
	x.rows = st->rows;
	x.overlap = st->overlap;
	x.kernel = st->kernel;
	x.kernel_row = st->kernel && st->kernel_half ? p->split : 0;
	x.kernel_rows = st->kernel_rows;
	x.ctas = st->ctas;
	x.us = st->us;
	x.compute_us = st->compute;
	x.collective_us = st->collective;
	x.exposed_us = st->exposed;
	x.noperation = st->nop;
	x.times = st->count;
	copy_out(info, &x, sizeof x);
	return PLAIT_OK;
}

enum plait_status plait_plan_get_operation(const plait_plan *plan, size_t i, size_t k,
                                           struct plait_plan_operation *info)
{
	const struct pl_plan *p = rt_plan(plan);
	const struct pl_op_plan *op;
	struct plait_plan_operation x = {0};

	if (!p || i >= p->nstage || k >= p->stage[i].nop || !has_size(info))
		return PLAIT_USAGE;
	op = &p->stage[i].op[k];
	x.name = op->op->name;
	x.kind = pl_kind_name[op->op->kind];
	x.rows = op->rows;
	x.n = op->op->n;
	x.k = op->op->k;
	x.sm_target = op->sm_target;
	x.tile_m = op->gemm.fact.bm;
	x.tile_n = op->gemm.fact.bn;
	x.split_k = op->gemm.fact.splitk;
	x.waves_before = op->waves_before;
	x.waves = op->gemm.run.waves;
	x.last_wave = op->gemm.tail;
	x.start_us = op->start;
	x.us = op->us;
	copy_out(info, &x, sizeof x);
	return PLAIT_OK;
}

size_t plait_plan_step(const plait_plan *plan, size_t k)
{
	const struct pl_plan *p = rt_plan(plan);

	return p && k < p->nseq ? p->seq[k] : p ? p->nstage : 0;
}

/* ---- texts ---- */

typedef void text_fn(const struct pl_plan *p, const struct pl_machine *m, struct strbuf *out);

static char *in_arena(struct arena *a, const plait_planner *p, const plait_plan *plan, text_fn *fn)
{
	struct strbuf b;

	if (setjmp(a->oom))
		return NULL;
	strbuf_init(&b, a);
	fn(rt_plan(plan), &p->plan.machine, &b);
	return strdup(b.s);
}

static char *text(const plait_planner *p, const plait_plan *plan, text_fn *fn)
{
	struct arena a;
	char *s;

	if (!p || !plan)
		return NULL;
	arena_init(&a, 0);
	s = in_arena(&a, p, plan, fn);
	arena_free(&a);
	return s;
}

char *plait_plan_text(const plait_planner *p, const plait_plan *plan)
{
	return text(p, plan, pl_explain);
}

char *plait_plan_json(const plait_planner *p, const plait_plan *plan)
{
	return text(p, plan, pl_json);
}

char *plait_plan_trace(const plait_planner *p, const plait_plan *plan)
{
	return text(p, plan, pl_trace);
}

void plait_text_free(char *s)
{
	free(s);
}

/* ---- requests ---- */

enum plait_status plait_batch_part(const struct plait_batch *b, int64_t row, int64_t rows,
                                   size_t *first, size_t *n, int64_t *length, int64_t *cached,
                                   size_t room)
{
	struct pl_batch x;

	if (!first || !n || !rt_batch_in(b, &x) || !pl_is_batch(&x) || row < 0 || rows < 0 ||
	    row > x.tokens - rows)
		return PLAIT_USAGE;
	*n = pl_part_into(&x, row, rows, first, length, cached, room);
	return PLAIT_OK;
}
