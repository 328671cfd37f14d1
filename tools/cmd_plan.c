/* plait plan: how a model of a spec would run, on a machine of the database. */
#include "tools/choose.h"
#include "tools/commands.h"
#include "tools/facts.h"
#include "tools/json.h"
#include "tools/pipeline.h"
#include <stdio.h>
#include <string.h>

struct plan {
	struct pipe p;
	const struct args *args;
	const struct pl_model *model;
	struct pl_options o;
	struct planner *planner;
	cJSON *plans; /* of --json */
};

/* ---- the model ---- */

static const struct fe_steps *find_model(struct plan *q, const struct fe_steps *s)
{
	const char *names[64];
	size_t n = 0;

	for (const struct fe_steps *m = s; m; m = m->next) {
		if (!q->args->model || !strcmp(m->name, q->args->model))
			return m;
		if (n < 64)
			names[n++] = m->name;
	}
	if (!s) {
		diag_at(&q->p.d, DIAG_ERROR, DIAG_NO_MODEL, (struct span){0, 0},
		        "'%s' has no model to plan", q->p.src->name);
		diag_note(&q->p.d, (struct span){0, 0},
		          "add: model NAME { ... } (doc/language.md, Models)");
		return NULL;
	}
	diag_at(&q->p.d, DIAG_ERROR, DIAG_NO_MODEL, (struct span){0, 0}, "'%s' has no model '%s'",
	        q->p.src->name, q->args->model);
	if (nearest_name(q->args->model, names, n))
		diag_note(&q->p.d, (struct span){0, 0}, "did you mean '%s'?",
		          nearest_name(q->args->model, names, n));
	return NULL;
}

static enum status read_model(struct plan *q)
{
	struct fe_steps *steps = NULL;
	struct fe_options o = {
	        .tp = q->args->tp, .set = q->args->set, .nset = q->args->nset, .steps = &steps};
	const struct fe_steps *m;
	const char *why;
	enum status s = pipe_read(&q->p);

	if (s != ST_OK)
		return s;
	q->p.ast = fe_parse(q->p.a, &q->p.d, q->p.src);
	if (!fe_lower(q->p.a, &q->p.d, q->p.ast, &o) || q->p.d.nerror)
		return ST_INPUT;
	m = find_model(q, steps);
	if (!m)
		return ST_INPUT;
	q->model = pl_model_make(q->p.a, m, q->args->tp, &why);
	if (!q->model)
		diag_at(&q->p.d, DIAG_ERROR, DIAG_NO_PLAN, m->at, "%s", why);
	return q->model ? ST_OK : ST_INPUT;
}

static enum status begin(struct plan *q)
{
	const struct args *a = q->args;
	enum status s = read_model(q);

	if (s == ST_OK && a->measure)
		s = machine_measure(q->p.a, &q->p.d, a, q->p.src->text, q->p.src->len);
	if (s != ST_OK)
		return s;
	q->o.hysteresis = q->o.even = -1;
	q->o.at = a->split;
	q->o.align = a->align;
	if (a->machine || a->measure)
		s = machine_read(q->p.a, &q->p.d, a->machine ? a->machine : a->measure, a->tp,
		                 choose_multicast(a), &q->o.machine);
	else if (!pl_machine_find(a->gpu ? a->gpu : "h100", a->tp, choose_multicast(a),
	                          &q->o.machine))
		s = ST_INTERNAL; /* the option's value was checked */
	if (s != ST_OK)
		return s;
	if (a->facts) {
		s = facts_read(q->p.a, &q->p.d, a->facts, &q->o.gemm, &q->o.gemm_ctx);
		if (s != ST_OK)
			return s;
	}
	q->planner = pl_new(q->model, &q->o);
	return q->planner ? ST_OK : ST_NOMEM;
}

static void add_json(struct plan *q, const struct pl_plan *plan)
{
	struct strbuf b;

	strbuf_init(&b, q->p.a);
	pl_json(plan, &q->o.machine, &b);
	cJSON_AddItemToArray(q->plans, cJSON_CreateRaw(b.s));
}

/* ---- files ---- */

static enum status write_file(struct plan *q, const char *path, const struct strbuf *b)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "wb") : stdout;
	bool bad = !f || fwrite(b->s, 1, b->n, f) != b->n;

	if (f && f != stdout)
		bad |= fclose(f) != 0;
	if (!bad)
		return ST_OK;
	diag_at(&q->p.d, DIAG_ERROR, DIAG_FILE, (struct span){0, 0}, "cannot write '%s'", path);
	return ST_ENV;
}

static enum status split_svg(struct plan *q, const struct pl_plan *plan)
{
	struct strbuf b;
	int64_t *row = NULL;
	double *us = NULL;
	size_t n = pl_split_curve(q->planner, plan->tokens, q->p.a, &row, &us);

	strbuf_init(&b, q->p.a);
	pl_svg_split(plan, &q->o.machine, row, us, n, &b);
	return write_file(q, q->args->svg, &b);
}

static enum status trace(struct plan *q, const struct pl_plan *plan)
{
	struct strbuf b;

	strbuf_init(&b, q->p.a);
	pl_trace(plan, &q->o.machine, &b);
	return write_file(q, q->args->trace, &b);
}

/* ---- requests ---- */

static enum status batch_of(struct plan *q, struct pl_batch *b)
{
	const struct args *a = q->args;
	int64_t *cum = arena_news(q->p.a, int64_t, a->nrequest + 1);

	for (size_t i = 0; i < a->nrequest; i++)
		cum[i + 1] = cum[i] + a->request[i];
	*b = (struct pl_batch){.tokens = a->ntokens ? a->tokens[0] : cum[a->nrequest],
	                       .nrequest = a->nrequest,
	                       .cum = cum};
	if (!a->nrequest || b->tokens == cum[a->nrequest])
		return ST_OK;
	diag_at(&q->p.d, DIAG_ERROR, DIAG_NO_PLAN, (struct span){0, 0},
	        "the requests have %lld rows, and --tokens says %lld", (long long)cum[a->nrequest],
	        (long long)b->tokens);
	return ST_INPUT;
}

static void print_parts(struct plan *q, const struct pl_batch *b, const struct pl_plan *plan)
{
	int64_t at[3] = {0, plan->split, plan->tokens};

	if (!b->nrequest || plan->mode != PL_SPLIT)
		return;
	for (int h = 0; h < 2; h++) {
		struct pl_part part = pl_part_of(b, at[h], at[h + 1] - at[h], q->p.a);

		printf("  part %d: requests %zu to %zu, lengths", h + 1, part.first,
		       part.first + part.n - 1);
		for (size_t i = 0; i < part.n; i++)
			printf("%s%lld", i ? "," : " ", (long long)part.length[i]);
		if (part.n && part.cached[0] > 0)
			printf("; the first has %lld rows before it", (long long)part.cached[0]);
		putchar('\n');
	}
}

/* ---- one T ---- */

static enum status one(struct plan *q)
{
	const struct pl_plan *plan;
	struct pl_batch b;
	struct strbuf out;
	enum status s = batch_of(q, &b);

	if (s == ST_OK)
		s = pl_plan(q->planner, &b, &plan);
	if (s != ST_OK)
		return s;
	strbuf_init(&out, q->p.a);
	if (q->args->json)
		add_json(q, plan);
	else if (q->args->explain)
		pl_explain(plan, &q->o.machine, &out);
	else
		pl_summary(plan, &q->o.machine, &out);
	if (q->args->gantt && !q->args->json)
		pl_gantt(plan, 100, &out);
	fputs(out.s, stdout);
	if (!q->args->json)
		print_parts(q, &b, plan);
	if (s == ST_OK && q->args->trace)
		s = trace(q, plan);
	if (s == ST_OK && q->args->svg)
		s = split_svg(q, plan);
	return s;
}

/* ---- many ---- */

/* a, then three quarters of the next doubling, and each doubling, to b. */
static size_t list_rows(struct plan *q, int64_t **rows)
{
	int64_t a = q->args->sweep[0], b = q->args->sweep[1];
	size_t n = 0;

	*rows = arena_news(q->p.a, int64_t, 130);
	for (int64_t t = a; t <= b && n < 128; t *= 2) {
		(*rows)[n++] = t;
		if (t % 2 == 0 && t + t / 2 <= b)
			(*rows)[n++] = t + t / 2;
	}
	if (n && (*rows)[n - 1] != b)
		(*rows)[n++] = b;
	return n;
}

static void sweep_row(const struct pl_plan *p)
{
	double gain = p->mode_us[PL_UNFUSED] - p->mode_us[PL_REMOVED];

	printf("%8lld  %-10s ", (long long)p->tokens, pl_mode_name[p->mode]);
	if (p->mode == PL_SPLIT)
		printf("%8lld", (long long)p->split);
	else
		printf("%8s", "-");
	printf(" %10.3f %10.3f %10.3f %10.3f", p->us / 1e3, p->mode_us[PL_UNFUSED] / 1e3,
	       p->mode_us[PL_FUSED] / 1e3, p->mode_us[PL_REMOVED] / 1e3);
	if (gain > 0)
		printf(" %9.2f", (p->mode_us[PL_UNFUSED] - p->us) / gain);
	putchar('\n');
}

static enum status sweep(struct plan *q)
{
	int64_t *rows;
	size_t n = list_rows(q, &rows);
	double(*us)[PL_NMODES] = arena_array(q->p.a, n, sizeof *us);
	double *best = arena_news(q->p.a, double, n);
	struct strbuf b;

	if (!q->args->json)
		printf("%s on %s, tp %u; times in ms\n    rows  plan       split at       plan    "
		       "unfused fused-only  no-commun  recovered\n",
		       q->model->name, q->o.machine.name, q->model->tp);
	for (size_t i = 0; i < n; i++) {
		const struct pl_plan *p;
		enum status s = pl_plan_rows(q->planner, rows[i], &p);

		if (s != ST_OK)
			return s;
		memcpy(us[i], p->mode_us, sizeof us[i]);
		best[i] = p->us;
		if (q->args->json)
			add_json(q, p);
		else
			sweep_row(p);
	}
	if (!q->args->svg)
		return ST_OK;
	strbuf_init(&b, q->p.a);
	pl_svg_rows(q->model, &q->o.machine, rows, (const double(*)[PL_NMODES])us, best, n, &b);
	return write_file(q, q->args->svg, &b);
}

int cmd_plan(struct args *a)
{
	struct plan q = {.args = a};
	cJSON *doc = NULL;
	enum status s;

	if (!a->tp)
		return args_wrong(a, "a plan needs --tp");
	if (!a->ntokens && !a->sweep[1] && !a->nrequest && !a->measure)
		return args_wrong(a, "a plan needs --tokens N, or --sweep A:B");
	if (a->sweep[1] && (a->ntokens || a->trace || a->explain || a->gantt || a->nrequest))
		return args_wrong(a,
		                  "--sweep is for many row counts; --tokens, --requests, --trace, "
		                  "--explain and --gantt are for one");
	if (a->ntokens > 1 || (a->ntokens && !a->tokens[0]))
		return args_wrong(a, "a plan is for one row count, of at least 1; see --sweep");
	if (a->gpu && a->machine)
		return args_wrong(a, "--gpu or --machine, not both");
	if (a->machine && a->measure)
		return args_wrong(a, "--machine reads a file, and --measure writes one: not both");
	if (a->measure && a->tp < 2)
		return args_wrong(a, "--measure is of GEMMs beside collectives, and one rank has "
		                     "none: give --tp from 2");
	pipe_init(&q.p, a->arena, a);
	if (a->json) {
		doc = json_document(a);
		q.plans = cJSON_AddArrayToObject(doc, "plans");
	}
	s = begin(&q);
	if (s == ST_OK && (a->ntokens || a->sweep[1] || a->nrequest))
		s = a->sweep[1] ? sweep(&q) : one(&q);
	pl_free(q.planner);
	return doc ? json_finish(doc, &q.p, s) : pipe_finish(&q.p, s);
}
