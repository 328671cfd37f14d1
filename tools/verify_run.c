/*
 * One schedule of verify: memory, launches, and the host work before and after each launch on each
 * rank's stream.  Memory that a launch has to write is undefined before it, memory that it must not
 * write holds a canary, and every input is rewritten before every launch.
 */
#include "tools/verify_step.h"
#include <string.h>

/* ---- before a launch ---- */

static void each_row(struct vf_step_run *u, unsigned p, unsigned rank, struct vf_rows w,
                     const uint8_t *image)
{
	uint64_t n = vf_row_bytes(u, p), step = vf_pitch(u, p), at = vf_address(u, p, rank, w.at);
	int64_t rows = w.end - w.begin;

	if (n == step) { /* one block */
		n *= (uint64_t)rows;
		rows = rows > 0;
	}
	for (int64_t i = 0; i < rows; i++, at += step)
		if (image)
			sim_write(u->sim, at, image + (uint64_t)i * n, n);
		else
			sim_undefine(u->sim, at, n);
}

static void write_inputs(struct vf_step *s, struct sim *sim, unsigned rank, bool constants)
{
	struct vf_step_run *u = s->run;
	const struct ir_func *f = u->d->k->f;
	bool resized = u->had[rank] != s->item->T;

	for (unsigned p = 0; p < f->nparam; p++) {
		struct vf_rows w = vf_rows_of(u, p, rank, s->item->T);
		uint64_t all = (uint64_t)vf_capacity(u, p) * vf_pitch(u, p);
		const uint8_t *image = s->item->in[(size_t)p * u->d->o.tp + rank];

		if (u->d->link[p].linked || u->d->k->k->param[p].constant != constants)
			continue; /* as the kernels before left it; or not its turn */
		if (resized && f->param[p].mode == IR_IN)
			sim_undefine(sim, u->at[p].uc[rank], all);
		else if (resized)
			sim_write(sim, u->at[p].uc[rank], u->canary, all);
		if (image)
			image += (uint64_t)w.begin * vf_row_bytes(u, p);
		each_row(u, p, rank, w, image);
	}
}

/* What a dependent launch may read before it waits: it is there when what the launch waits for
 * begins. */
static bool constants(void *ctx, struct sim *sim, unsigned rank)
{
	write_inputs(ctx, sim, rank, true);
	return true;
}

static bool before(void *ctx, struct sim *sim, unsigned rank)
{
	struct vf_step *s = ctx;
	struct vf_step_run *u = s->run;

	write_inputs(s, sim, rank, false);
	u->had[rank] = s->item->T;
	if (u->mem->rows_at[rank])
		sim_write(sim, u->mem->rows_at[rank], &(uint32_t){(uint32_t)s->item->T}, 4);
	return true;
}

/* ---- the whole schedule ---- */

/* What the kernels of the chain from u on need parameter p's buffer to be. */
static enum cg_symmetric symmetry(const struct vf_step_run *u, unsigned p)
{
	enum cg_symmetric most = u->d->k->k->param[p].symmetric;
	unsigned n = u->d->length - u->d->index;

	for (unsigned j = 1; j < n; j++) {
		const struct vf_data *e = u[j].d;

		for (unsigned q = 0; q < e->k->k->nparam; q++)
			if (e->link[q].linked && e->link[q].owner == u->d->index &&
			    e->link[q].owner_param == p && e->k->k->param[q].symmetric > most)
				most = e->k->k->param[q].symmetric;
	}
	return most;
}

/* `all` is the chain's first; u may use what those before it have. */
static void make_buffers(struct vf_step_run *u, const struct vf_step_run *all)
{
	const struct cg_kernel *k = u->d->k->k;
	uint64_t most = 0;

	u->at = arena_news(u->a, struct sim_symmetric, k->nparam ? k->nparam : 1);
	for (unsigned p = 0; p < k->nparam; p++) {
		uint64_t n = (uint64_t)vf_capacity(u, p) * vf_pitch(u, p);
		const struct vf_link *l = &u->d->link[p];
		enum cg_symmetric symmetric = symmetry(u, p);

		most = n > most ? n : most;
		if (l->linked)
			u->at[p] = all[l->owner].at[l->owner_param];
		else if (symmetric != CG_SYM_NONE)
			u->at[p] = sim_alloc_symmetric(u->sim, n, symmetric == CG_SYM_MULTICAST,
			                               k->param[p].name);
		else
			for (unsigned r = 0; r < u->d->o.tp; r++)
				u->at[p].uc[r] = sim_alloc(u->sim, r, n, k->param[p].name);
	}
	u->scratch = arena_alloc(u->a, most);
	u->canary = arena_alloc(u->a, most);
	memset(u->canary, VF_CANARY, most);
	u->had = arena_news(u->a, int64_t, u->d->o.tp);
	for (unsigned r = 0; r < u->d->o.tp; r++)
		u->had[r] = -1;
}

/* What all kernels share.  In some schedules the workspace's epochs are about to wrap. */
static void make_memory(const struct vf_data *d, struct vf_step_run *all, struct vf_memory *mem)
{
	const struct cg_kernel **k = arena_news(all->a, const struct cg_kernel *, d->nchain);
	/* a schedule may be slow; deadlocks are found otherwise */
	uint64_t limit = (uint64_t)1 << 60;

	for (unsigned j = 0; j < d->nchain; j++)
		k[j] = d->chain[j]->k->k;
	vf_memory_new(mem, all->sim, d->o.tp, limit, k, d->nchain,
	              (uint64_t)d->most + (all->schedule.which & 1),
	              all->a); /* just enough, or room */
	if (all->schedule.which % 4 == 3)
		vf_memory_reset(mem, true, all->a);
	for (unsigned j = 0; j < d->nchain; j++)
		make_buffers(&all[j], all);
}

static void launch(struct vf_step_run *u, struct vf_step *s, unsigned rank)
{
	const struct cg_kernel *k = u->d->k->k;
	static const unsigned wishes[] = {0, 3, 1, 8};
	unsigned wish = u->d->o.ctas ? u->d->o.ctas : wishes[(u->schedule.which + s->index) % 4];
	unsigned grid = cg_grid(&k->plan, (uint64_t)s->item->T, wish);
	const uint8_t *block = vf_arguments(u->mem, k, u->at, (uint64_t)s->item->T, rank, u->a);

	if (grid > u->r->most_ctas)
		u->r->most_ctas = grid;
	if (k->plan.pdl)
		sim_launch_early(u->sim, rank, 0, u->entry, grid, k->plan.threads, k->plan.dynamic,
		                 block, k->param_bytes);
	else
		sim_launch_dynamic(u->sim, rank, 0, u->entry, grid, k->plan.threads,
		                   k->plan.dynamic, block, k->param_bytes);
}

/* Which row count and which data pass i over the chain has: every schedule begins elsewhere, every
 * other one runs backwards. */
static const struct vf_item *item_of(const struct vf_step_run *u, unsigned i)
{
	unsigned n = u->d->o.ntokens, q = u->schedule.which, k = i % n;
	unsigned token = (q + (q & 1 ? n - 1 - k : k)) % n;

	return &u->d->item[token * u->d->variants + (q + i + i / n) % u->d->variants];
}

static void make_step(struct vf_step_run *u, unsigned i)
{
	struct vf_step *s = arena_new(u->a, struct vf_step);

	s->run = u;
	s->index = i;
	s->item = item_of(u, i);
	s->first = arena_news(u->a, uint8_t *, u->d->k->f->nparam);
	u->r->rows += (uint64_t)s->item->T;
	for (unsigned r = 0; r < u->d->o.tp; r++) {
		sim_host(u->sim, r, 0, constants, s);
		sim_host(u->sim, r, 0, before, s);
		launch(u, s, r);
		sim_host(u->sim, r, 0, vf_after, s);
	}
}

/* The kernel's own report of a time-out or a broken contract, if there is one. */
static void check_abort(struct vf_step_run *u)
{
	for (unsigned r = 0; r < u->d->o.tp; r++) {
		const char *text = vf_abort_text(u->mem, r, u->a);
		struct vf_failure *f;

		if (!text)
			continue;
		f = vf_failure_at(u, VF_ABORT, NULL);
		f->rank = r;
		f->text = text;
		vf_at_line(u, f, sim_writer(u->sim, u->mem->ws.uc[r], &f->writer));
		return;
	}
}

static void report_findings(struct vf_step_run *all, unsigned n)
{
	const struct sim_finding *x = sim_findings(all->sim);
	struct vf_step_run *u = all;
	struct vf_failure *f;
	struct strbuf b;

	for (unsigned j = 1; x && x->kernel && j < n; j++)
		u = all[j].entry == x->kernel ? &all[j] : u;
	f = vf_failure_at(u, VF_FINDING, NULL);
	if (n > 1 && x && x->kernel)
		f->kernel = u->d->k->k->name;

	strbuf_init(&b, u->a);
	sim_render_findings(u->sim, &b);
	f->text = b.s;
	if (!x)
		return;
	f->rank = x->rank;
	vf_at_line(u, f, x->line);
	if (x->loc_line) {
		f->spec_line = x->loc_line;
		f->spec_text = vf_spec_text(u, x->loc_line);
	}
}

void vf_run_schedule(const struct vf_data *d, const struct vf_text *t, uint64_t seed,
                     struct arena *a, struct vf_result *r)
{
	struct vf_step_run *u = arena_news(a, struct vf_step_run, d->nchain);
	struct vf_schedule schedule = vf_schedule_of(d, seed);
	struct sim *sim = sim_new(a, &schedule.sim);
	struct vf_memory mem;
	struct sim_stats st;
	bool good = true;

	for (unsigned j = 0; j < d->nchain; j++)
		u[j] = (struct vf_step_run){.d = d->chain[j],
		                            .m = t[j].m,
		                            .text = t[j].text,
		                            .a = a,
		                            .r = r,
		                            .schedule = schedule,
		                            .sim = sim,
		                            .mem = &mem};
	make_memory(d, u, &mem);
	for (unsigned j = 0; j < d->nchain && good; j++) {
		u[j].entry = sim_load(sim, t[j].m, d->chain[j]->k->k->name);
		good = u[j].entry != NULL;
	}
	for (unsigned i = 0; i < d->o.launches && good; i++)
		for (unsigned j = 0; j < d->nchain; j++)
			make_step(&u[j], i);
	good = good && sim_run(sim);
	st = sim_stats(sim);
	r->schedules = 1;
	r->launches = d->o.launches * d->nchain;
	r->lane_insns = st.lane_insns;
	if (r->failure.kind == VF_GOOD)
		check_abort(u);
	if (!good && r->failure.kind == VF_GOOD)
		report_findings(u, d->nchain);
}
