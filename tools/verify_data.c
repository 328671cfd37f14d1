/*
 * Data of verify: inputs that show mistakes (rows of tiny, ordinary and huge magnitude, rows of
 * zeros, a different addend on every rank) and what the reference makes of them under each way of
 * summing.
 */
#include "tools/verify_priv.h"
#include <math.h>
#include <string.h>

uint64_t vf_mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9e3779b97f4a7c15u ^ (b + 0x7f4a7c15u) * 0xbf58476d1ce4e5b9u;

	x ^= x >> 31;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 29;
}

unsigned vf_size(struct ir_type t)
{
	return ir_dtype_info[t.dtype].bits / 8;
}

int64_t vf_cols(struct ir_type t)
{
	return t.ndim ? t.cols : 1;
}

enum ir_sum vf_reference_sum(enum sim_sum s)
{
	static const enum ir_sum of[SIM_NSUMS] = {
	        [SIM_SUM_RANK_ORDER] = IR_SUM_RANK_ORDER,
	        [SIM_SUM_PERMUTED] = IR_SUM_FAITHFUL,
	        [SIM_SUM_EXACT] = IR_SUM_EXACT,
	        [SIM_SUM_FAITHFUL] = IR_SUM_FAITHFUL,
	};

	return of[s];
}

enum ir_sum vf_sum_of(const struct vf_data *d, enum sim_sum s)
{
	return d->in_switch ? vf_reference_sum(s) : IR_SUM_RANK_ORDER;
}

bool vf_own(const struct vf_data *d, unsigned p)
{
	struct ir_type t = d->k->f->param[p].type;

	return t.ndim == 2 &&
	       (t.place == IR_SHARDED || (t.place == IR_CARRIED && d->k->rows == IR_ROWS_OWN));
}

/* ---- inputs ---- */

/* Magnitude of row t: by turns ordinary, tiny (eps shows), huge (but no sum of squares overflows),
 * zero. */
static double magnitude(const struct vf_item *it, int64_t t)
{
	static const double of[] = {1.0, 0x1p-20, 0x1p14, 0.0, 0x1p-10, 0x1p20, 3.0, 0x1p-17};

	return of[(uint64_t)(t + 5 * (int64_t)it->variant) % 8];
}

/* Kept so far from overflow in the dtype that sums over ranks do not either. */
static double within(enum ir_dtype t, double m)
{
	double most = ldexp(1.0, ir_dtype_info[t].emax - 7);

	return m < most ? m : most;
}

/* In [-1, 1), with one element in 64 eight times as large. */
static double uniform(uint64_t *s)
{
	double v;

	*s = *s * 6364136223846793005u + 1442695040888963407u;
	v = (double)(int64_t)(*s >> 11) * 0x1p-52 - 1.0;
	return (*s & 0x3f00000000u) ? v : 8.0 * v;
}

/* One row in 16 is so large that sums over ranks, products and sums of squares overflow; its own
 * elements do not. */
static double magnitude_in(const struct vf_item *it, int64_t t, enum ir_dtype d)
{
	if ((uint64_t)(t + 5 * (int64_t)it->variant) % 16 == 11)
		return ldexp(1.0, ir_dtype_info[d].emax - 3);
	return within(d, magnitude(it, t));
}

static void fill_rows(const struct vf_data *d, const struct vf_item *it, unsigned p, unsigned rank,
                      double *v)
{
	const struct ir_param *pa = &d->k->f->param[p];
	enum ir_dtype t = (enum ir_dtype)pa->type.dtype;
	int64_t rows = pa->type.ndim == 2 ? it->T : 1, cols = vf_cols(pa->type);
	uint64_t data = d->o.seed >> VF_SCHEDULE_BITS;

	for (int64_t i = 0; i < rows; i++) {
		uint64_t s = vf_mix(
		        vf_mix(data + (uint64_t)it->T, it->variant * 64 + p + 4096 * d->index),
		        vf_mix(rank, (uint64_t)i));
		double m = pa->type.ndim == 2 ? magnitude_in(it, i, t) : 0.5;
		double base = pa->type.ndim == 2 ? 0.0 : 1.0; /* weights and scales are around 1 */

		for (int64_t c = 0; c < cols; c++)
			v[i * cols + c] = ir_round(t, base + m * uniform(&s));
	}
}

static uint8_t *encode(struct arena *a, enum ir_dtype t, const double *v, size_t n)
{
	unsigned size = ir_dtype_info[t].bits / 8;
	uint8_t *b = arena_alloc(a, n * size);

	for (size_t i = 0; i < n; i++) {
		uint32_t bits = ir_encode(t, v[i]);

		memcpy(b + i * size, &bits,
		       size); /* the device is little-endian, as this machine */
	}
	return b;
}

/* The rows of a sharded parameter that rank r has, out of all rows. */
static struct ir_buffer shard(const struct vf_data *d, const struct vf_item *it,
                              struct ir_buffer all, unsigned r)
{
	int64_t begin, end;

	ir_own_rows(it->T, d->o.tp, r, &begin, &end);
	return (struct ir_buffer){end - begin, all.cols, all.v + begin * all.cols, NULL};
}

/* Values of all inputs (in `tmp`, for the reference) and their images (in the item). */
static struct ir_buffer *make_inputs(const struct vf_data *d, struct vf_item *it, struct arena *tmp)
{
	const struct ir_func *f = d->k->f;
	struct ir_buffer *in = arena_news(tmp, struct ir_buffer, (size_t)f->nparam * d->o.tp);

	it->in = arena_news(&it->arena, uint8_t *, (size_t)f->nparam * d->o.tp);
	for (unsigned p = 0; p < f->nparam; p++) {
		struct ir_type t = f->param[p].type;
		bool partial = t.ndim == 2 && t.place == IR_PARTIAL;
		struct ir_buffer b = {t.ndim == 2 ? it->T : 1, vf_cols(t), NULL, NULL};
		size_t n = (size_t)(b.rows * b.cols);
		uint8_t *image = NULL;

		if (f->param[p].mode == IR_OUT)
			continue;
		for (unsigned r = 0; r < d->o.tp; r++) {
			if (!r || partial) {
				b.v = arena_news(tmp, double, n + 1);
				fill_rows(d, it, p, r, b.v);
				image = encode(&it->arena, (enum ir_dtype)t.dtype, b.v, n);
			}
			in[p * d->o.tp + r] =
			        t.ndim == 2 && t.place == IR_SHARDED ? shard(d, it, b, r) : b;
			it->in[p * d->o.tp + r] = image;
		}
	}
	return in;
}

/* ---- references ---- */

/* Row t of output p, from whichever rank's buffer the reference put it in. */
static void find_row(const struct vf_data *d, const struct vf_item *it, const struct ir_buffer *out,
                     unsigned p, int64_t t, const double **v, const double **err)
{
	struct ir_type ty = d->k->f->param[p].type;
	const struct ir_buffer *b = &out[(size_t)p * d->o.tp];
	int64_t begin = 0, end = it->T;
	unsigned r = 0;

	if (vf_own(d, p))
		for (; r < d->o.tp; r++) {
			ir_own_rows(it->T, d->o.tp, r, &begin, &end);
			if (t < end)
				break;
		}
	if (ty.ndim == 2 && ty.place == IR_SHARDED)
		t -= begin;
	*v = b[r].v + t * b[r].cols;
	*err = b[r].err + t * b[r].cols;
}

static float round_up(double x)
{
	float f = (float)x;

	return (double)f < x ? nextafterf(f, INFINITY) : f;
}

static struct vf_ref keep(const struct vf_data *d, struct vf_item *it, const struct ir_buffer *out,
                          unsigned p)
{
	struct ir_type ty = d->k->f->param[p].type;
	int64_t rows = ty.ndim == 2 ? it->T : 1, cols = vf_cols(ty);
	unsigned size = vf_size(ty);
	struct vf_ref r = {arena_alloc(&it->arena, (size_t)(rows * cols) * size + 1), NULL, NULL};

	for (int64_t t = 0; t < rows; t++) {
		const double *v, *err;

		find_row(d, it, out, p, t, &v, &err);
		for (int64_t c = 0; c < cols; c++) {
			uint32_t bits = ir_encode((enum ir_dtype)ty.dtype, v[c]);

			memcpy(r.bits + (size_t)(t * cols + c) * size, &bits, size);
			if (err[c] == 0.0)
				continue;
			if (!r.err) {
				r.err = arena_news(&it->arena, float, (size_t)(rows * cols));
				r.bounded = arena_news(&it->arena, int64_t, (size_t)rows);
			}
			r.err[t * cols + c] = round_up(err[c]);
			r.bounded[t]++;
		}
	}
	return r;
}

/* The kernel after each pass must mean what it meant before all, within the bounds. */
static void check_stages(const struct vf_data *d, struct vf_item *it, const struct ir_buffer *in,
                         const struct ir_buffer *want, struct arena *tmp, struct diags *dg)
{
	const struct ir_func *f = d->k->f;
	struct ir_eval_options o = {d->o.tp,           it->T,      IR_EVAL_SPEC,
	                            IR_SUM_RANK_ORDER, d->k->rows, false};

	for (size_t s = 0; s < d->k->nstage; s++) {
		struct ir_buffer *out = arena_news(tmp, struct ir_buffer, (size_t)f->nparam * o.tp);

		it->status = ir_eval(d->k->stage[s].f, &o, in, out, tmp, dg);
		for (unsigned p = 0; p < f->nparam && it->status == ST_OK; p++) {
			int64_t cols = vf_cols(f->param[p].type);
			int64_t rows = f->param[p].type.ndim == 2 ? it->T : 1;

			for (int64_t i = 0; f->param[p].mode != IR_IN && i < rows * cols; i++) {
				const double *v, *err, *gv, *gerr;

				find_row(d, it, want, p, i / cols, &v, &err);
				find_row(d, it, out, p, i / cols, &gv, &gerr);
				if (gerr[i % cols] >= 0.0 &&
				    ir_conforms(gv[i % cols], v[i % cols], err[i % cols]))
					continue;
				it->status = ST_INTERNAL;
				it->error =
				        arena_printf(&it->arena,
				                     "pass '%s' changes what '%s' means: %s[%lld, "
				                     "%lld] is %.9g and "
				                     "was %.9g",
				                     d->k->stage[s].pass, f->name, f->param[p].name,
				                     (long long)(i / cols), (long long)(i % cols),
				                     gv[i % cols], v[i % cols]);
				return;
			}
		}
		if (it->status != ST_OK)
			return;
	}
}

/* What kernel d makes of `in`, in `tmp`; NULL: it->status and it->error say why not. */
static struct ir_buffer *make_reference(const struct vf_data *d, struct vf_item *it,
                                        const struct ir_buffer *in, enum ir_sum sum,
                                        struct arena *tmp)
{
	const struct ir_func *f = d->k->f;
	const struct cg_plan *plan = &d->k->k->plan;
	bool in_switch = plan->communicates && !plan->sum_ranks;
	struct ir_eval_options o = {d->o.tp,      it->T,
	                            IR_EVAL_SPEC, in_switch ? sum : IR_SUM_RANK_ORDER,
	                            d->k->rows,   in_switch};
	struct ir_buffer *out = arena_news(tmp, struct ir_buffer, (size_t)f->nparam * o.tp);
	struct diags dg;

	diags_init(&dg, tmp);
	it->status = ir_eval(f, &o, in, out, tmp, &dg);
	it->ref[sum] = arena_news(&it->arena, struct vf_ref, f->nparam);
	for (unsigned p = 0; p < f->nparam && it->status == ST_OK; p++)
		if (f->param[p].mode != IR_IN)
			it->ref[sum][p] = keep(d, it, out, p);
	if (it->status == ST_OK && sum == IR_SUM_RANK_ORDER && it->T <= 2 * (int64_t)o.tp &&
	    !it->variant)
		check_stages(d, it, in, out, tmp, &dg);
	if (it->status == ST_OK)
		return out;
	if (!it->error) {
		struct strbuf b;

		strbuf_init(&b, &it->arena);
		diags_render(&dg, DIAG_WARNING, &b);
		it->error = b.s;
	}
	return NULL;
}

/* What the kernels before wrote to d's carried parameters goes in. */
static struct ir_buffer *hand_on(const struct vf_data *d, const struct ir_buffer *in,
                                 struct ir_buffer *const *in_of, struct ir_buffer *const *out_of,
                                 struct arena *tmp)
{
	size_t tp = d->o.tp, n = d->k->f->nparam * tp;
	struct ir_buffer *all = arena_news(tmp, struct ir_buffer, n);

	memcpy(all, in, n * sizeof *all);
	for (unsigned p = 0; p < d->k->f->nparam; p++) {
		const struct vf_link *l = &d->link[p];

		if (l->linked && l->written)
			memcpy(&all[p * tp], &out_of[l->writer][l->writer_param * tp],
			       tp * sizeof *all);
		else if (l->linked)
			memcpy(&all[p * tp], &in_of[l->owner][l->owner_param * tp],
			       tp * sizeof *all);
	}
	return all;
}

/* All kernels of the chain with one way of summing. */
static void fill_sum(const struct vf_data *d, unsigned i, struct ir_buffer *const *in,
                     enum ir_sum sum)
{
	struct vf_item *first = &d->item[i];
	struct ir_buffer **out, **fed;
	struct arena tmp;

	arena_init(&tmp, 0);
	if (setjmp(tmp.oom)) {
		arena_free(&tmp);
		longjmp(first->arena.oom, 1);
	}
	out = arena_news(&tmp, struct ir_buffer *, d->nchain);
	fed = arena_news(&tmp, struct ir_buffer *, d->nchain);
	for (unsigned j = 0; j < d->nchain; j++) {
		const struct vf_data *e = d->chain[j];

		fed[j] = hand_on(e, in[j], fed, out, &tmp);
		out[j] = make_reference(e, &e->item[i], fed[j], sum, &tmp);
		if (!out[j])
			break;
	}
	arena_free(&tmp);
}

static void fill(const struct vf_data *d, unsigned i, struct arena *tmp)
{
	bool sums[3] = {true, false, false}; /* in order of ranks: also where nothing is summed */
	struct ir_buffer **in = arena_news(tmp, struct ir_buffer *, d->nchain);
	bool good = true;

	for (int s = 0; s < SIM_NSUMS; s++)
		if (d->o.sum < 0 || d->o.sum == s)
			sums[vf_sum_of(d, (enum sim_sum)s)] = true;
	for (unsigned j = 0; j < d->nchain; j++)
		in[j] = make_inputs(d->chain[j], &d->chain[j]->item[i], tmp);
	for (int s = 0; s < 3 && good; s++) {
		if (sums[s])
			fill_sum(d, i, in, (enum ir_sum)s);
		for (unsigned j = 0; j < d->nchain; j++)
			good &= d->chain[j]->item[i].status == ST_OK;
	}
}

void vf_fill(const struct vf_data *d, unsigned i)
{
	struct vf_item *first = &d->item[i];
	struct arena tmp;

	arena_init(&tmp, 0);
	for (unsigned j = 0; j < d->nchain; j++)
		if (setjmp(d->chain[j]->item[i].arena.oom) || setjmp(tmp.oom)) {
			arena_free(&tmp);
			first->status = ST_NOMEM;
			first->error = "out of memory";
			return;
		}
	fill(d, i, &tmp);
	arena_free(&tmp);
}
