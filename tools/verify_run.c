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

struct step { /* one launch, on all ranks */
	struct run *run;
	unsigned index;
	const struct vf_item *item;
	uint8_t **first; /* [param]: a replicated output as the first rank to end wrote it */
};

struct run {
	const struct vf_data *d;
	const struct ptx_module *m;
	const char *text;
	struct arena *a;
	struct vf_result *r;
	struct vf_schedule schedule;
	struct sim *sim;
	struct vf_memory mem;
	struct step *step;
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

	if (t.ndim == 2 &&
	    (t.place == IR_SHARDED || (t.place == IR_CARRIED && vf_carried(u->d) == IR_ROWS_OWN))) {
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
	return u->mem.at[p].uc[rank] + (uint64_t)buffer_row * pitch(u, p);
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

static struct vf_failure *failure(struct run *u, enum vf_kind kind, unsigned launch)
{
	struct vf_failure *f = &u->r->failure;

	f->kind = kind;
	f->seed = u->schedule.seed;
	f->schedule = vf_schedule_text(u->a, &u->schedule);
	f->launches = u->d->o.launches;
	f->launch = launch + 1;
	f->rows = u->step[launch].item->T;
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
	struct vf_failure *f = failure(u, kind, s->index);
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

		if (resized && f->param[p].mode == IR_IN)
			sim_undefine(sim, u->mem.at[p].uc[rank], all);
		else if (resized)
			sim_write(sim, u->mem.at[p].uc[rank], u->canary, all);
		if (image)
			image += (uint64_t)w.begin * row_bytes(u, p);
		each_row(u, p, rank, w, image);
	}
	u->had[rank] = s->item->T;
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
	enum ir_sum sum =
	        vf_switch_sums(u->d) ? vf_reference_sum(u->schedule.sim.sum) : IR_SUM_RANK_ORDER;
	const struct vf_ref *ref = &s->item->ref[sum][p];
	struct ir_type t = u->d->k->f->param[p].type;
	bool same = (t.place == IR_REPLICATED ||
	             (t.place == IR_CARRIED && vf_carried(u->d) == IR_ROWS_ALL)) &&
	            !(u->d->k->f->rank_divergence && vf_switch_sums(u->d));
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
			if (!check_input(s, p, rank, w))
				return false;
		} else if (!check_output(s, p, rank, w) || !check_canaries(s, p, rank, w)) {
			return false;
		}
	}
	return true;
}

/* ---- the whole schedule ---- */

static void make_memory(struct run *u)
{
	const struct cg_kernel *k = u->d->k->k;
	uint64_t most = 0;

	u->mem.at = arena_news(u->a, struct sim_symmetric, k->nparam ? k->nparam : 1);
	for (unsigned p = 0; p < k->nparam; p++) {
		uint64_t n = (uint64_t)capacity(u, p) * pitch(u, p);

		most = n > most ? n : most;
		if (k->param[p].symmetric != CG_SYM_NONE)
			u->mem.at[p] = sim_alloc_symmetric(
			        u->sim, n, k->param[p].symmetric == CG_SYM_MULTICAST,
			        k->param[p].name);
		else
			for (unsigned r = 0; r < u->d->o.tp; r++)
				u->mem.at[p].uc[r] = sim_alloc(u->sim, r, n, k->param[p].name);
	}
	u->scratch = arena_alloc(u->a, most);
	u->canary = arena_alloc(u->a, most);
	memset(u->canary, CANARY, most);
	u->had = arena_news(u->a, int64_t, u->d->o.tp);
	for (unsigned r = 0; r < u->d->o.tp; r++)
		u->had[r] = -1;
}

static void launch(struct run *u, const struct sim_kernel *entry, struct step *s, unsigned rank)
{
	const struct cg_kernel *k = u->d->k->k;
	static const unsigned wishes[] = {0, 3, 1, 8};
	unsigned wish = u->d->o.ctas ? u->d->o.ctas : wishes[(u->schedule.which + s->index) % 4];
	unsigned grid = cg_grid(&k->plan, (uint64_t)s->item->T, wish);
	uint8_t *block = arena_alloc(u->a, k->param_bytes + 8);

	vf_arguments(k, &u->mem, rank, (uint64_t)s->item->T, block);
	if (grid > u->r->most_ctas)
		u->r->most_ctas = grid;
	sim_launch(u->sim, rank, 0, entry, grid, k->plan.threads, block, k->param_bytes);
}

/* Which row count and which data launch i has: every schedule begins elsewhere, every other one
 * runs backwards. */
static const struct vf_item *item_of(const struct run *u, unsigned i)
{
	unsigned n = u->d->o.ntokens, q = u->schedule.which, k = i % n;
	unsigned token = (q + (q & 1 ? n - 1 - k : k)) % n;

	return &u->d->item[token * u->d->variants + (q + i + i / n) % u->d->variants];
}

static void make_steps(struct run *u, const struct sim_kernel *entry)
{
	unsigned n = u->d->o.launches;

	u->step = arena_news(u->a, struct step, n);
	for (unsigned i = 0; i < n; i++) {
		struct step *s = &u->step[i];

		s->run = u;
		s->index = i;
		s->item = item_of(u, i);
		s->first = arena_news(u->a, uint8_t *, u->d->k->f->nparam);
		u->r->rows += (uint64_t)s->item->T;
		for (unsigned r = 0; r < u->d->o.tp; r++) {
			sim_host(u->sim, r, 0, before, s);
			launch(u, entry, s, r);
			sim_host(u->sim, r, 0, after, s);
		}
	}
}

/* The kernel's own report of a time-out or a broken contract, if there is one. */
static void check_abort(struct run *u)
{
	static const char *const kinds[] = {
	        "none", "a spin ran out of time", "ranks launched with different contracts",
	        "another rank aborted", "the exchange buffer is too small"};
	struct cg_workspace w;

	for (unsigned r = 0; r < u->d->o.tp && u->d->k->k->plan.communicates; r++) {
		struct vf_failure *f;

		if (!sim_read(u->sim, u->mem.ws.uc[r], &w, sizeof w) || !w.abort)
			continue;
		f = failure(u, VF_ABORT, u->d->o.launches - 1);
		f->rank = r;
		f->text = arena_printf(
		        u->a,
		        "rank %u aborted: %s (recorded by rank %u, CTA %u, phase %u: "
		        "peer %u, expected %#llx, seen %#llx)",
		        r, w.record.kind < 5 ? kinds[w.record.kind] : "unknown", w.record.rank,
		        w.record.cta, w.record.phase, w.record.peer,
		        (unsigned long long)w.record.expected, (unsigned long long)w.record.seen);
		at_line(u, f, sim_writer(u->sim, u->mem.ws.uc[r], &f->writer));
		return;
	}
}

static void report_findings(struct run *u)
{
	const struct sim_finding *x = sim_findings(u->sim);
	struct vf_failure *f = failure(u, VF_FINDING, 0);
	struct strbuf b;

	strbuf_init(&b, u->a);
	sim_render_findings(u->sim, &b);
	f->text = b.s;
	f->launch = 0;
	if (!x)
		return;
	f->rank = x->rank;
	at_line(u, f, x->line);
	if (x->loc_line) {
		f->spec_line = x->loc_line;
		f->spec_text = spec_text_of(u, x->loc_line);
	}
}

void vf_run_schedule(const struct vf_data *d, const struct ptx_module *m, const char *text,
                     uint64_t seed, struct arena *a, struct vf_result *r)
{
	struct run u = {.d = d, .m = m, .text = text, .a = a, .r = r};
	const struct sim_kernel *entry;
	struct sim_stats st;
	bool good;

	u.schedule = vf_schedule_of(d, seed);
	u.sim = sim_new(a, &u.schedule.sim);
	make_memory(&u);
	vf_communication(d, u.sim, a, u.schedule.which, &u.mem);
	entry = sim_load(u.sim, m, d->k->k->name);
	if (entry)
		make_steps(&u, entry);
	good = entry && sim_run(u.sim);
	st = sim_stats(u.sim);
	r->schedules = 1;
	r->launches = d->o.launches;
	r->lane_insns = st.lane_insns;
	if (r->failure.kind == VF_GOOD)
		check_abort(&u);
	if (!good && r->failure.kind == VF_GOOD)
		report_findings(&u);
}
