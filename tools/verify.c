/* The core of verify: schedules as functions of a seed, threads over items and schedules, reports.
 */
#include "tools/verify.h"
#include "tools/verify_priv.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const vf_kind_name[] = {
        [VF_GOOD] = "good",
        [VF_VALUE] = "wrong value",
        [VF_UNWRITTEN] = "not written",
        [VF_DIFFERS] = "differs by rank",
        [VF_STRAY] = "written where it must not be",
        [VF_FINDING] = "stopped by the simulator",
        [VF_ABORT] = "aborted by itself",
};

/* ---- schedules ---- */

/* A number of kinds that shares no factor with that of the switch's sums. */
enum { NKINDS = 5 };
static const enum sim_schedule kinds[NKINDS] = {SIM_ROUND_ROBIN, SIM_RANDOM, SIM_SLOW_RANK, SIM_PCT,
                                                SIM_PCT};

/* A kernel of an order promises that much and no more. */
static enum sim_races level_of(enum cg_order o)
{
	return o == CG_HW ? SIM_RACES_HW : o == CG_STRICT ? SIM_RACES_STRICT : SIM_RACES_FORMAL;
}

struct vf_schedule vf_schedule_of(const struct vf_data *d, uint64_t seed)
{
	unsigned q = (unsigned)(seed & ((1u << VF_SCHEDULE_BITS) - 1));
	struct vf_schedule s = {.which = q, .seed = seed};
	bool communicates = false;
	enum sim_races races = SIM_RACES_STRICT;

	for (unsigned i = 0; i < d->nchain; i++) {
		const struct cg_plan *plan = &d->chain[i]->k->k->plan;

		communicates |= plan->communicates;
		if (level_of(plan->order) < races)
			races = level_of(plan->order);
	}
	if (d->o.races)
		races = (enum sim_races)(d->o.races - 1);
	if (d->o.race_every && q % d->o.race_every)
		races = SIM_RACES_OFF;
	s.sim = (struct sim_options){
	        .ranks = d->o.tp,
	        .seed = vf_mix(seed, 17),
	        .schedule = kinds[q % NKINDS],
	        .slow_rank = q / NKINDS % d->o.tp,
	        .sum = (enum sim_sum)(d->o.sum >= 0 ? (unsigned)d->o.sum : q % SIM_NSUMS),
	        .sum_no_negative_zero = q / 3 & 1,
	        .perturb_approx = q / 4 & 1,
	        /* CTAs that wait for each other are all resident, by the launch contract; others
	           need not be */
	        .resident = !communicates && q % 5 == 4 ? 1 + q / 5 % 2 : 0,
	        .max_start_delay = q ? 4096 : 0,
	        .tear = q / 2 % 2,
	        .races = races,
	        .weak = d->o.weak && races && q % 2,
	        .on_race = d->o.on_race,
	        .ctx = d->o.race_ctx,
	};
	if (d->o.explore)
		s.sim = (struct sim_options){.ranks = d->o.tp,
		                             .seed = vf_mix(seed, 17),
		                             .sum = SIM_SUM_RANK_ORDER,
		                             .races = races,
		                             .weak = true,
		                             .explore = d->o.explore};
	return s;
}

const char *vf_schedule_text(struct arena *a, const struct vf_schedule *s)
{
	struct strbuf b;

	if (s->sim.explore)
		return "searched in all ways";
	strbuf_init(&b, a);
	strbuf_printf(&b, "%s", sim_schedule_name[s->sim.schedule]);
	if (s->sim.schedule == SIM_SLOW_RANK)
		strbuf_printf(&b, " (rank %u)", s->sim.slow_rank);
	strbuf_printf(&b, ", switch sums %s", sim_sum_name[s->sim.sum]);
	if (s->sim.resident)
		strbuf_printf(&b, ", %u CTA%s at a time", s->sim.resident,
		              s->sim.resident > 1 ? "s" : "");
	if (s->sim.tear)
		strbuf_puts(&b, ", vectors torn");
	if (s->sim.weak)
		strbuf_puts(&b, ", weak memory");
	if (s->sim.perturb_approx)
		strbuf_puts(&b, ", approximations perturbed");
	return b.s;
}

/* ---- threads ---- */

struct work {
	pthread_mutex_t lock;
	unsigned next, done, n;
	unsigned stop; /* jobs from here on are not started any more */
	void (*job)(struct work *w, unsigned i);
	const struct vf_data *d;
	const struct vf_text *text;
	struct outcome {
		struct arena arena;
		struct vf_result r;
		bool ran, oom;
	} * outcome;
};

static void *worker(void *ctx)
{
	struct work *w = ctx;

	pthread_mutex_lock(&w->lock);
	while (w->next < w->n && w->next < w->stop) {
		unsigned i = w->next++;

		pthread_mutex_unlock(&w->lock);
		w->job(w, i);
		pthread_mutex_lock(&w->lock);
		w->done++;
		if (w->d->o.progress)
			w->d->o.progress(w->d->o.ctx, w->done, w->n);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void work(struct work *w, unsigned threads)
{
	pthread_t id[256];
	unsigned started = 0;

	pthread_mutex_init(&w->lock, NULL);
	w->stop = w->n;
	if (threads > w->n)
		threads = w->n;
	while (started + 1 < threads && started < 256 &&
	       !pthread_create(&id[started], NULL, worker, w))
		started++;
	worker(w); /* this thread too, so that no thread at all is enough */
	while (started)
		pthread_join(id[--started], NULL);
	pthread_mutex_destroy(&w->lock);
}

/* ---- data ---- */

static void fill_job(struct work *w, unsigned i)
{
	vf_fill(w->d, i);
}

static struct vf_data *new_data(const struct vf_kernel *k, const struct vf_options *o)
{
	struct vf_data *d = calloc(1, sizeof *d);
	unsigned n = o->ntokens;

	if (!d)
		return NULL;
	d->k = k;
	d->o = *o;
	if (!d->o.launches)
		d->o.launches = n > 4 ? n : 4;
	d->variants = n > 1 ? 2 : d->o.launches < VF_VARIANTS ? d->o.launches : VF_VARIANTS;
	d->nitem = n * d->variants;
	d->item = calloc(d->nitem, sizeof *d->item);
	if (!d->item) {
		free(d);
		return NULL;
	}
	for (unsigned i = 0; i < d->nitem; i++) {
		d->item[i].T = o->tokens[i / d->variants];
		d->item[i].variant = i % d->variants;
		arena_init(&d->item[i].arena, 0);
		if (d->item[i].T > d->most)
			d->most = d->item[i].T;
	}
	return d;
}

/* Bytes at the worst moment: each thread makes one item, in f64, while all items and references are
 * kept. */
static double memory(const struct vf_kernel *k, const struct vf_data *d)
{
	double rows = 0.0, kept = 0.0, working = 0.0, tp = d->o.tp;

	for (unsigned i = 0; i < d->nitem; i++)
		rows += (double)d->item[i].T;
	for (unsigned p = 0; p < k->f->nparam; p++) {
		struct ir_type t = k->f->param[p].type;
		double cols = t.ndim == 2 ? (double)t.cols : 0.0;
		double copies = t.ndim == 2 && t.place == IR_PARTIAL ? tp : 1.0;

		working += cols * (k->f->param[p].mode == IR_IN ? 8.0 * copies : 16.0 + 8.0 * tp);
		kept += cols * vf_size(t) * copies +
		        cols * (k->f->param[p].mode == IR_IN ? 0.0 : 18.0);
	}
	return rows * kept + (double)d->most * d->o.threads * (working + 2.0 * tp * kept);
}

static enum status unsupported(const struct vf_kernel *k, const struct vf_data *d, struct arena *a,
                               const char **error)
{
	double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	double need = memory(k, d);

	for (unsigned p = 0; p < k->f->nparam; p++)
		if (!vf_size(k->f->param[p].type)) {
			*error = arena_printf(a,
			                      "'%s' has elements of less than a byte, which verify "
			                      "cannot lay out",
			                      k->f->param[p].name);
			return ST_INPUT;
		}
	if (need < have)
		return ST_OK;
	*error = arena_printf(
	        a,
	        "this many rows take about %.0f GiB and the machine has %.0f: verify fewer "
	        "rows, which come in all the same ways",
	        need / 0x1p30, have / 0x1p30);
	return ST_ENV;
}

/* Carried parameters by name: the first kernel with it has the buffer. */
static const char *make_links(struct vf_data *const *chain, unsigned j, struct arena *a)
{
	struct vf_data *d = chain[j];
	const struct ir_func *f = d->k->f;

	d->link = calloc(f->nparam + 1, sizeof *d->link);
	if (!d->link)
		return "out of memory";
	for (unsigned p = 0; p < f->nparam; p++) {
		struct vf_link *l = &d->link[p];

		if (f->param[p].type.ndim != 2 || f->param[p].type.place != IR_CARRIED)
			continue;
		for (unsigned i = 0; i < j; i++) {
			const struct ir_func *g = chain[i]->k->f;

			for (unsigned q = 0; q < g->nparam; q++) {
				const struct ir_param *x = &g->param[q], *y = &f->param[p];

				if (strcmp(x->name, y->name) || x->type.place != IR_CARRIED)
					continue;
				if (!ir_type_equal(x->type, y->type) ||
				    chain[i]->k->k->param[q].ld != d->k->k->param[p].ld)
					return arena_printf(a, "'%s' of %s is %s and of %s %s",
					                    x->name, g->name,
					                    ir_type_text(a, x->type), f->name,
					                    ir_type_text(a, y->type));
				if (!l->linked) {
					l->linked = true;
					l->owner = i;
					l->owner_param = q;
				}
				if (x->mode == IR_IN)
					continue;
				l->written = true;
				l->writer = i;
				l->writer_param = q;
			}
		}
	}
	return NULL;
}

static const char *make_chain(struct vf_data *d, const struct vf_kernel *k, unsigned n,
                              const struct vf_options *o, struct arena *a)
{
	const char *error;

	d->chain = calloc(n, sizeof(struct vf_data *));
	if (!d->chain)
		return "out of memory";
	d->chain[0] = d;
	for (d->nchain = 1; d->nchain < n; d->nchain++) {
		d->chain[d->nchain] = new_data(&k[d->nchain], o);
		if (!d->chain[d->nchain])
			return "out of memory";
	}
	for (unsigned j = 0; j < n; j++) {
		const struct cg_plan *plan = &k[j].k->plan;

		d->in_switch |= plan->communicates && !plan->sum_ranks;
		d->chain[j]->index = j;
		d->chain[j]->length = n;
		if (k[j].rows != k[0].rows)
			return "the kernels of a chain work on rows in one form, and these do not: "
			       "choose protocols of one form";
		error = make_links(d->chain, j, a);
		if (error)
			return error;
	}
	for (unsigned j = 1; j < n; j++)
		d->chain[j]->in_switch = d->in_switch;
	return NULL;
}

static enum status fill(struct vf_data *d, struct arena *a, const char **error)
{
	struct work w = {.job = fill_job, .d = d, .n = d->nitem};
	void (*progress)(void *, unsigned, unsigned) = d->o.progress;

	d->o.progress = NULL;
	work(&w, d->o.threads);
	d->o.progress = progress;
	for (unsigned j = 0; j < d->nchain; j++)
		for (unsigned i = 0; i < d->nitem; i++) {
			const struct vf_item *it = &d->chain[j]->item[i];

			if (it->status == ST_OK)
				continue;
			*error = arena_strndup(a, it->error, strlen(it->error));
			return it->status;
		}
	return ST_OK;
}

enum status vf_chain_new(const struct vf_kernel *k, unsigned n, const struct vf_options *o,
                         struct arena *a, struct vf_data **out, const char **error)
{
	struct vf_data *d = new_data(k, o);
	enum status s;

	*out = NULL;
	*error = d ? make_chain(d, k, n, o, a) : "out of memory";
	s = *error ? ST_INPUT : ST_OK;
	for (unsigned j = 0; j < n && s == ST_OK; j++)
		s = unsupported(&k[j], d->chain[j], a, error);
	if (s == ST_OK)
		s = fill(d, a, error);
	if (s == ST_OK)
		*out = d;
	else
		vf_data_free(d);
	return s;
}

enum status vf_data_new(const struct vf_kernel *k, const struct vf_options *o, struct arena *a,
                        struct vf_data **d, const char **error)
{
	return vf_chain_new(k, 1, o, a, d, error);
}

static void free_one(struct vf_data *d)
{
	for (unsigned i = 0; i < d->nitem; i++)
		arena_free(&d->item[i].arena);
	free(d->item);
	free(d->link);
	free(d);
}

void vf_data_free(struct vf_data *d)
{
	if (!d)
		return;
	for (unsigned i = 1; i < d->nchain; i++)
		if (d->chain[i])
			free_one(d->chain[i]);
	free(d->chain);
	free_one(d);
}

/* ---- running ---- */

static uint64_t seed_of(const struct vf_data *d, unsigned i)
{
	uint64_t mask = (1u << VF_SCHEDULE_BITS) - 1;

	return (d->o.seed & ~mask) | ((d->o.seed + i) & mask);
}

static void schedule_job(struct work *w, unsigned i)
{
	struct outcome *o = &w->outcome[i];

	arena_init(&o->arena, 0);
	if (setjmp(o->arena.oom)) {
		o->oom = true;
		return;
	}
	vf_run_schedule(w->d, w->text, seed_of(w->d, i), &o->arena, &o->r);
	o->ran = true;
	if (o->r.failure.kind == VF_GOOD) {
		arena_free(&o->arena);
		return;
	}
	pthread_mutex_lock(&w->lock);
	if (i < w->stop)
		w->stop = i; /* earlier ones go on: the first failure is what is reported */
	pthread_mutex_unlock(&w->lock);
}

static const char *keep(struct arena *a, const char *s)
{
	return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

struct vf_failure vf_keep(const struct vf_failure *f, struct arena *a)
{
	struct vf_failure x = *f;

	x.kernel = keep(a, f->kernel);
	x.param = keep(a, f->param);
	x.schedule = keep(a, f->schedule);
	x.line_text = keep(a, f->line_text);
	x.other_text = keep(a, f->other_text);
	x.spec_text = keep(a, f->spec_text);
	x.text = keep(a, f->text);
	return x;
}

static void add(struct vf_result *to, const struct vf_result *r, struct arena *a)
{
	to->schedules += r->schedules;
	to->launches += r->launches;
	to->rows += r->rows;
	to->lane_insns += r->lane_insns;
	to->exact += r->exact;
	to->bounded += r->bounded;
	if (r->most_ctas > to->most_ctas)
		to->most_ctas = r->most_ctas;
	if (r->worst > to->worst) {
		to->worst = r->worst;
		to->worst_err = r->worst_err;
		to->worst_diff = r->worst_diff;
	}
	if (r->failure.kind == VF_GOOD || to->failure.kind != VF_GOOD)
		return;
	to->failure = vf_keep(&r->failure, a);
}

enum status vf_run(const struct vf_data *d, const struct ptx_module *m, const char *text,
                   struct arena *a, struct vf_result *r)
{
	struct vf_text t = {m, text};

	return vf_run_chain(d, &t, a, r);
}

enum status vf_run_chain(const struct vf_data *d, const struct vf_text *t, struct arena *a,
                         struct vf_result *r)
{
	struct work w = {.job = schedule_job, .d = d, .text = t, .n = d->o.schedules};
	bool oom = false;

	memset(r, 0, sizeof *r);
	w.outcome = calloc(w.n, sizeof *w.outcome);
	if (!w.outcome)
		return ST_NOMEM;
	work(&w, d->o.threads);
	for (unsigned i = 0; i < w.n; i++) {
		if (w.outcome[i].ran)
			add(r, &w.outcome[i].r, a);
		oom |= w.outcome[i].oom;
		arena_free(&w.outcome[i].arena);
	}
	free(w.outcome);
	return oom ? ST_NOMEM : r->failure.kind == VF_GOOD ? ST_OK : ST_INPUT;
}

/* ---- reports ---- */

static void print_value(const struct vf_failure *f, struct strbuf *out)
{
	strbuf_printf(out, "  %s[row %lld, column %lld] on rank %u: %s", f->param,
	              (long long)f->row, (long long)f->col, f->rank, vf_kind_name[f->kind]);
	if (f->kind == VF_VALUE && f->err == 0.0)
		strbuf_printf(out, ": got %.9g, must be %.9g", f->got, f->want);
	else if (f->kind == VF_VALUE)
		strbuf_printf(out, ": got %.9g, must be %.9g +- %.3g", f->got, f->want, f->err);
	else if (f->kind != VF_UNWRITTEN)
		strbuf_printf(out, ": got %.9g", f->got);
	strbuf_putc(out, '\n');
}

/* The simulator's report, indented; of a deadlock of many warps the first ones say it all. */
static void print_text(const char *s, struct strbuf *out)
{
	unsigned lines = 0, most = 24;

	for (; *s; lines++) {
		size_t n = strcspn(s, "\n");

		if (lines < most)
			strbuf_printf(out, "  %.*s\n", (int)n, s);
		s += n + (s[n] == '\n');
	}
	if (lines > most)
		strbuf_printf(out, "  ... and %u more lines\n", lines - most);
}

void vf_print_failure(const struct vf_failure *f, const char *spec, struct strbuf *out)
{
	if (f->param)
		print_value(f, out);
	else
		strbuf_printf(out, "  %s\n", vf_kind_name[f->kind]);
	if (f->text)
		print_text(f->text, out);
	if (f->kernel)
		strbuf_printf(out, "  in kernel %s of the chain\n", f->kernel);
	if (f->launch)
		strbuf_printf(out, "  in launch %u of %u (T = %lld), schedule %llu: %s\n",
		              f->launch, f->launches, (long long)f->rows,
		              (unsigned long long)f->seed, f->schedule);
	else
		strbuf_printf(out, "  schedule %llu: %s\n", (unsigned long long)f->seed,
		              f->schedule);
	if (f->line && f->param)
		strbuf_printf(out, "  last written by rank %u at PTX line %u: %s\n", f->writer,
		              f->line, f->line_text ? f->line_text : "");
	else if (f->line)
		strbuf_printf(out, "  PTX line %u: %s\n", f->line,
		              f->line_text ? f->line_text : "");
	else if (f->other)
		strbuf_printf(out, "  no line wrote it; PTX line %u writes this output: %s\n",
		              f->other, f->other_text);
	else if (f->param)
		strbuf_puts(out, "  no PTX line writes it\n");
	if (f->spec_line)
		strbuf_printf(out, "  %s:%u%s%s\n", spec, f->spec_line, f->spec_text ? ": " : "",
		              f->spec_text ? f->spec_text : "");
}
