/*
 * One schedule of verify: memory, launches, and the host work before and after each launch on each
 * rank's stream.  Memory that a launch has to write is undefined before it, memory that it must not
 * write holds a canary, and every input is rewritten before every launch.
 */
#include "tools/verify_priv.h"
#include <math.h>
#include <string.h>

#define CANARY 0xff /* NaN in every float format */

struct run;

struct step { /* one launch of one kernel, on all ranks */
	struct run *run;
	unsigned index; /* which pass over the chain */
	const struct vf_item *item;
	uint8_t **first; /* [param]: a replicated output as the first rank to end wrote it */
};

struct run { /* one kernel of the chain */
	const struct vf_data *d;
	const struct ptx_module *m;
	const char *text;
	struct arena *a;
	struct vf_result *r;
	struct vf_schedule schedule;
	struct sim *sim;
	struct sim_symmetric *at; /* [param]; a linked one's is the owner's */
	const struct vf_memory *mem;
	const struct sim_kernel *entry;
	int64_t *had;              /* [rank]: T of the launch before; -1: none */
	uint8_t *scratch, *canary; /* as large as the largest buffer */
};

/* ---- where things are ---- */

struct rows { /* of a parameter on a rank: tensor rows [begin, end), the first at buffer row `at` */
	int64_t begin, end, at;
};

static struct rows rows_of(const struct run *u, unsigned p, unsigned rank, int64_t T)
{
	const struct cg_param *c = &u->d->k->k->param[p];
	struct ir_type t = u->d->k->f->param[p].type;
	struct rows r = {0, t.ndim == 2 ? T : 1, 0};

	if (vf_own(u->d, p)) {
		ir_own_rows(T, u->d->o.tp, rank, &r.begin, &r.end);
		r.at = c->local_index ? 0 : r.begin;
	}
	return r;
}

static uint64_t row_bytes(const struct run *u, unsigned p)
{
	struct ir_type t = u->d->k->f->param[p].type;

	return (uint64_t)vf_cols(t) * vf_size(t);
}

static uint64_t pitch(const struct run *u, unsigned p)
{
	const struct cg_param *c = &u->d->k->k->param[p];
	uint64_t ld = (uint64_t)c->ld * vf_size(c->type);

	return ld > row_bytes(u, p) ? ld : row_bytes(u, p);
}

/* Rows of the buffer, whatever T is. */
static int64_t capacity(const struct run *u, unsigned p)
{
	const struct cg_param *c = &u->d->k->k->param[p];
	int64_t n = c->type.ndim < 2 ? 1 : u->d->most, begin, end;

	if (c->type.ndim == 2 && c->local_index) {
		ir_own_rows(n, u->d->o.tp, 0, &begin, &end);
		n = end;
	}
	return n ? n : 1;
}

static uint64_t address(const struct run *u, unsigned p, unsigned rank, int64_t buffer_row)
{
	return u->at[p].uc[rank] + (uint64_t)buffer_row * pitch(u, p);
}

/* ---- failures ---- */

static const char *line_of(struct arena *a, const char *text, uint32_t line)
{
	const char *end;

	for (uint32_t i = 1; text && i < line; i++) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	if (!text || !line)
		return NULL;
	while (*text == '\t' || *text == ' ')
		text++;
	end = strchr(text, '\n');
	return arena_strndup(a, text, end ? (size_t)(end - text) : strlen(text));
}

static uint32_t spec_line_of(const struct ptx_module *m, uint32_t line)
{
	for (const struct ptx_fn *f = m->fn; f; f = f->next)
		for (uint32_t i = 0; i < f->ninsn; i++)
			if (f->insn[i].line == line)
				return f->insn[i].loc_line;
	return 0;
}

/* The spec's source line. */
static const char *spec_text_of(const struct run *u, uint32_t line)
{
	const char *name = u->m->loc_file;

	for (const struct source *s = u->d->k->places ? u->d->k->places->sources : NULL; s;
	     s = s->next)
		if (line && name && !strcmp(s->name, name))
			return line_of(u->a, arena_strndup(u->a, s->text, s->len), line);
	return NULL;
}

/* The statement that writes output p, and an instruction that does so where the one at fault is not
 * known. */
static void spec_of_output(struct run *u, unsigned p, struct vf_failure *f)
{
	const struct ir_value *v = u->d->k->f->first;
	struct diag_place at;

	while (v && !(v->op == IR_OP_OUT && v->param == p))
		v = v->next;
	if (!v || !u->d->k->places || span_none(v->at))
		return;
	at = diag_place(u->d->k->places, v->at);
	f->spec_line = at.line;
	for (const struct ptx_fn *fn = u->m->fn; fn && !f->line; fn = fn->next)
		for (uint32_t i = 0; i < fn->ninsn && !f->other; i++) {
			const struct ptx_insn *x = &fn->insn[i];

			if ((x->op == PTX_st || x->op == PTX_mm_st) && x->loc_line == at.line)
				f->other = x->line;
		}
	f->other_text = line_of(u->a, u->text, f->other);
}

/* s NULL: no launch in particular. */
static struct vf_failure *failure(struct run *u, enum vf_kind kind, const struct step *s)
{
	struct vf_failure *f = &u->r->failure;

	f->kind = kind;
	f->seed = u->schedule.seed;
	f->schedule = vf_schedule_text(u->a, &u->schedule);
	f->launches = u->d->o.launches;
	f->launch = s ? s->index + 1 : 0;
	f->rows = s ? s->item->T : 0;
	if (s && u->d->length > 1)
		f->kernel = u->d->k->k->name;
	return f;
}

static void at_line(struct run *u, struct vf_failure *f, uint32_t line)
{
	f->line = line;
	f->line_text = line_of(u->a, u->text, line);
	f->spec_line = spec_line_of(u->m, line);
	f->spec_text = spec_text_of(u, f->spec_line);
}

/* Element (row, col) of parameter p, at buffer row `at` of `rank`. */
static bool fail_at(const struct step *s, enum vf_kind kind, unsigned p, unsigned rank, int64_t row,
                    int64_t at, int64_t col)
{
	struct run *u = s->run;
	const struct ir_param *pa = &u->d->k->f->param[p];
	unsigned size = vf_size(pa->type);
	uint64_t addr = address(u, p, rank, at) + (uint64_t)col * size;
	struct vf_failure *f = failure(u, kind, s);
	uint32_t bits = 0;

	f->param = pa->name;
	f->rank = rank;
	f->row = row;
	f->col = col;
	sim_read(u->sim, addr, &bits, size);
	f->got = ir_decode((enum ir_dtype)pa->type.dtype, bits);
	at_line(u, f, sim_writer(u->sim, addr, &f->writer));
	if (!f->spec_line) {
		spec_of_output(u, p, f);
		f->spec_text = spec_text_of(u, f->spec_line);
	}
	return false;
}

/* ---- before a launch ---- */

static void each_row(struct run *u, unsigned p, unsigned rank, struct rows w, const uint8_t *image)
{
	uint64_t n = row_bytes(u, p), step = pitch(u, p), at = address(u, p, rank, w.at);
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

static bool before(void *ctx, struct sim *sim, unsigned rank)
{
	struct step *s = ctx;
	struct run *u = s->run;
	const struct ir_func *f = u->d->k->f;
	bool resized = u->had[rank] != s->item->T;

	for (unsigned p = 0; p < f->nparam; p++) {
		struct rows w = rows_of(u, p, rank, s->item->T);
		uint64_t all = (uint64_t)capacity(u, p) * pitch(u, p);
		const uint8_t *image = s->item->in[(size_t)p * u->d->o.tp + rank];

		if (u->d->link[p].linked)
			continue; /* as the kernels before left it */
		if (resized && f->param[p].mode == IR_IN)
			sim_undefine(sim, u->at[p].uc[rank], all);
		else if (resized)
			sim_write(sim, u->at[p].uc[rank], u->canary, all);
		if (image)
			image += (uint64_t)w.begin * row_bytes(u, p);
		each_row(u, p, rank, w, image);
	}
	u->had[rank] = s->item->T;
	if (u->mem->rows_at[rank])
		sim_write(sim, u->mem->rows_at[rank], &(uint32_t){(uint32_t)s->item->T}, 4);
	return true;
}

/* ---- after a launch ---- */

/* The first byte of rows [from, to) that is not the canary, as an offset from row `from`; -1: none.
 */
static int64_t stray(struct run *u, unsigned p, unsigned rank, int64_t from, int64_t to)
{
	uint64_t n = (uint64_t)(to - from) * pitch(u, p);

	if (to <= from)
		return -1;
	sim_read(u->sim, address(u, p, rank, from), u->scratch, n);
	if (!memcmp(u->scratch, u->canary, n))
		return -1;
	for (uint64_t i = 0; i < n; i++)
		if (u->scratch[i] != CANARY)
			return (int64_t)i;
	return -1;
}

static bool check_canaries(const struct step *s, unsigned p, unsigned rank, struct rows w)
{
	struct run *u = s->run;
	int64_t split[2][2] = {{0, w.at}, {w.at + (w.end - w.begin), capacity(u, p)}};

	for (unsigned k = 0; k < 2; k++) {
		int64_t i = stray(u, p, rank, split[k][0], split[k][1]);

		if (i >= 0) {
			int64_t row = split[k][0] + i / (int64_t)pitch(u, p);
			int64_t col = i % (int64_t)pitch(u, p) / vf_size(u->d->k->f->param[p].type);

			return fail_at(s, VF_STRAY, p, rank, row, row, col);
		}
	}
	return true;
}

/* Elements of one row against the reference; the row's bits differ from its. */
static bool check_row(const struct step *s, unsigned p, unsigned rank, int64_t row, int64_t at,
                      const uint8_t *got, const struct vf_ref *ref)
{
	struct vf_result *r = s->run->r;
	struct ir_type t = s->run->d->k->f->param[p].type;
	unsigned size = vf_size(t);
	int64_t cols = vf_cols(t);

	for (int64_t c = 0; c < cols; c++) {
		uint32_t g = 0, w = 0;
		double gv, wv, err = ref->err ? (double)ref->err[row * cols + c] : 0.0, diff;

		memcpy(&g, got + c * size, size);
		memcpy(&w, ref->bits + (row * cols + c) * size, size);
		if (g == w)
			continue;
		gv = ir_decode((enum ir_dtype)t.dtype, g);
		wv = ir_decode((enum ir_dtype)t.dtype, w);
		diff = fabs(gv - wv);
		if (!ir_conforms(gv, wv, err)) {
			r->failure.want = wv;
			r->failure.err = err;
			return fail_at(s, VF_VALUE, p, rank, row, at, c);
		}
		if (err > 0.0 && isfinite(err) && diff / err > r->worst) {
			r->worst = diff / err;
			r->worst_err = err;
			r->worst_diff = diff;
		}
	}
	return true;
}

static bool check_written(const struct step *s, unsigned p, unsigned rank, struct rows w)
{
	struct run *u = s->run;
	unsigned size = vf_size(u->d->k->f->param[p].type);

	for (int64_t i = w.begin; i < w.end; i++) {
		uint64_t at = address(u, p, rank, w.at + (i - w.begin));

		if (sim_defined(u->sim, at, row_bytes(u, p)))
			continue;
		for (int64_t c = 0; c < (int64_t)(row_bytes(u, p) / size); c++)
			if (!sim_defined(u->sim, at + (uint64_t)c * size, size))
				return fail_at(s, VF_UNWRITTEN, p, rank, i, w.at + (i - w.begin),
				               c);
	}
	return true;
}

static void count_elements(struct run *u, const struct vf_ref *ref, struct rows w, int64_t cols)
{
	int64_t bounded = 0;

	for (int64_t i = w.begin; i < w.end && ref->bounded; i++)
		bounded += ref->bounded[i];
	u->r->bounded += (uint64_t)bounded;
	u->r->exact += (uint64_t)((w.end - w.begin) * cols - bounded);
}

/* Where a and b, which differ, do so first. */
static int64_t first_difference(const uint8_t *a, const uint8_t *b)
{
	int64_t i = 0;

	while (a[i] == b[i])
		i++;
	return i;
}

static bool check_output(const struct step *s, unsigned p, unsigned rank, struct rows w)
{
	struct run *u = s->run;
	enum ir_sum sum = vf_sum_of(u->d, u->schedule.sim.sum);
	const struct vf_ref *ref = &s->item->ref[sum][p];
	struct ir_type t = u->d->k->f->param[p].type;
	bool same = !vf_own(u->d, p) && !(u->d->k->f->rank_divergence && u->d->in_switch);
	uint64_t n = row_bytes(u, p), step = pitch(u, p), all = (uint64_t)(w.end - w.begin) * step;
	int64_t differs = -1;

	if (w.end == w.begin)
		return true;
	if (!check_written(s, p, rank, w))
		return false;
	sim_read(u->sim, address(u, p, rank, w.at), u->scratch, all);
	count_elements(u, ref, w, vf_cols(t));
	if (same && s->first[p]) {
		if (!memcmp(u->scratch, s->first[p], all))
			return true;
		differs = first_difference(u->scratch, s->first[p]);
	}
	for (int64_t i = w.begin; i < w.end; i++) {
		const uint8_t *row = u->scratch + (uint64_t)(i - w.begin) * step;

		if (memcmp(row, ref->bits + (uint64_t)i * n, n) &&
		    !check_row(s, p, rank, i, w.at + (i - w.begin), row, ref))
			return false;
	}
	if (differs >= 0) {
		int64_t row = w.begin + differs / (int64_t)step;

		return fail_at(s, VF_DIFFERS, p, rank, row, row,
		               differs % (int64_t)step / vf_size(t));
	}
	if (same) {
		s->first[p] = arena_alloc(u->a, all);
		memcpy(s->first[p], u->scratch, all);
	}
	return true;
}

/* An input is as it was. */
static bool check_input(const struct step *s, unsigned p, unsigned rank, struct rows w)
{
	struct run *u = s->run;
	uint64_t n = row_bytes(u, p);
	const uint8_t *image = s->item->in[(size_t)p * u->d->o.tp + rank];

	for (int64_t i = w.begin; i < w.end; i++) {
		int64_t at = w.at + (i - w.begin);
		uint64_t c = 0;

		sim_read(u->sim, address(u, p, rank, at), u->scratch, n);
		if (!memcmp(u->scratch, image + (uint64_t)i * n, n))
			continue;
		while (u->scratch[c] == image[(uint64_t)i * n + c])
			c++;
		return fail_at(s, VF_STRAY, p, rank, i, at,
		               (int64_t)c / vf_size(u->d->k->f->param[p].type));
	}
	return true;
}

static bool after(void *ctx, struct sim *sim, unsigned rank)
{
	struct step *s = ctx;
	struct run *u = s->run;
	const struct ir_func *f = u->d->k->f;

	(void)sim;
	for (unsigned p = 0; p < f->nparam; p++) {
		struct rows w = rows_of(u, p, rank, s->item->T);

		if (f->param[p].mode == IR_IN) {
			if (!u->d->link[p].linked && !check_input(s, p, rank, w))
				return false;
		} else if (!check_output(s, p, rank, w) || !check_canaries(s, p, rank, w)) {
			return false;
		}
	}
	return true;
}

/* ---- the whole schedule ---- */

/* What the kernels of the chain from u on need parameter p's buffer to be. */
static enum cg_symmetric symmetry(const struct run *u, unsigned p)
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
static void make_buffers(struct run *u, const struct run *all)
{
	const struct cg_kernel *k = u->d->k->k;
	uint64_t most = 0;

	u->at = arena_news(u->a, struct sim_symmetric, k->nparam ? k->nparam : 1);
	for (unsigned p = 0; p < k->nparam; p++) {
		uint64_t n = (uint64_t)capacity(u, p) * pitch(u, p);
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
	memset(u->canary, CANARY, most);
	u->had = arena_news(u->a, int64_t, u->d->o.tp);
	for (unsigned r = 0; r < u->d->o.tp; r++)
		u->had[r] = -1;
}

/* What all kernels share.  In some schedules the workspace's epochs are about to wrap. */
static void make_memory(const struct vf_data *d, struct run *all, struct vf_memory *mem)
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

static void launch(struct run *u, struct step *s, unsigned rank)
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
static const struct vf_item *item_of(const struct run *u, unsigned i)
{
	unsigned n = u->d->o.ntokens, q = u->schedule.which, k = i % n;
	unsigned token = (q + (q & 1 ? n - 1 - k : k)) % n;

	return &u->d->item[token * u->d->variants + (q + i + i / n) % u->d->variants];
}

static void make_step(struct run *u, unsigned i)
{
	struct step *s = arena_new(u->a, struct step);

	s->run = u;
	s->index = i;
	s->item = item_of(u, i);
	s->first = arena_news(u->a, uint8_t *, u->d->k->f->nparam);
	u->r->rows += (uint64_t)s->item->T;
	for (unsigned r = 0; r < u->d->o.tp; r++) {
		sim_host(u->sim, r, 0, before, s);
		launch(u, s, r);
		sim_host(u->sim, r, 0, after, s);
	}
}

/* The kernel's own report of a time-out or a broken contract, if there is one. */
static void check_abort(struct run *u)
{
	for (unsigned r = 0; r < u->d->o.tp; r++) {
		const char *text = vf_abort_text(u->mem, r, u->a);
		struct vf_failure *f;

		if (!text)
			continue;
		f = failure(u, VF_ABORT, NULL);
		f->rank = r;
		f->text = text;
		at_line(u, f, sim_writer(u->sim, u->mem->ws.uc[r], &f->writer));
		return;
	}
}

static void report_findings(struct run *all, unsigned n)
{
	const struct sim_finding *x = sim_findings(all->sim);
	struct run *u = all;
	struct vf_failure *f;
	struct strbuf b;

	for (unsigned j = 1; x && x->kernel && j < n; j++)
		u = all[j].entry == x->kernel ? &all[j] : u;
	f = failure(u, VF_FINDING, NULL);
	if (n > 1 && x && x->kernel)
		f->kernel = u->d->k->k->name;

	strbuf_init(&b, u->a);
	sim_render_findings(u->sim, &b);
	f->text = b.s;
	if (!x)
		return;
	f->rank = x->rank;
	at_line(u, f, x->line);
	if (x->loc_line) {
		f->spec_line = x->loc_line;
		f->spec_text = spec_text_of(u, x->loc_line);
	}
}

void vf_run_schedule(const struct vf_data *d, const struct vf_text *t, uint64_t seed,
                     struct arena *a, struct vf_result *r)
{
	struct run *u = arena_news(a, struct run, d->nchain);
	struct vf_schedule schedule = vf_schedule_of(d, seed);
	struct sim *sim = sim_new(a, &schedule.sim);
	struct vf_memory mem;
	struct sim_stats st;
	bool good = true;

	for (unsigned j = 0; j < d->nchain; j++)
		u[j] = (struct run){.d = d->chain[j],
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
