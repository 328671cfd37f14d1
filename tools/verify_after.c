/* Behind each launch on each rank: outputs against the reference, canaries, inputs as they were. */
#include "tools/verify_step.h"
#include <math.h>
#include <string.h>

/* The first byte of rows [from, to) that is not the canary, as an offset from row `from`; -1: none.
 */
static int64_t stray(struct vf_step_run *u, unsigned p, unsigned rank, int64_t from, int64_t to)
{
	uint64_t n = (uint64_t)(to - from) * vf_pitch(u, p);

	if (to <= from)
		return -1;
	sim_read(u->sim, vf_address(u, p, rank, from), u->scratch, n);
	if (!memcmp(u->scratch, u->canary, n))
		return -1;
	for (uint64_t i = 0; i < n; i++)
		if (u->scratch[i] != VF_CANARY)
			return (int64_t)i;
	return -1;
}

static bool check_canaries(const struct vf_step *s, unsigned p, unsigned rank, struct vf_rows w)
{
	struct vf_step_run *u = s->run;
	int64_t split[2][2] = {{0, w.at}, {w.at + (w.end - w.begin), vf_capacity(u, p)}};

	for (unsigned k = 0; k < 2; k++) {
		int64_t i = stray(u, p, rank, split[k][0], split[k][1]);

		if (i >= 0) {
			int64_t row = split[k][0] + i / (int64_t)vf_pitch(u, p);
			int64_t col =
			        i % (int64_t)vf_pitch(u, p) / vf_size(u->d->k->f->param[p].type);

			return vf_fail_at(s, VF_STRAY, p, rank, row, row, col);
		}
	}
	return true;
}

/* Elements of one row against the reference; the row's bits differ from its. */
static bool check_row(const struct vf_step *s, unsigned p, unsigned rank, int64_t row, int64_t at,
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
			return vf_fail_at(s, VF_VALUE, p, rank, row, at, c);
		}
		if (err > 0.0 && isfinite(err) && diff / err > r->worst) {
			r->worst = diff / err;
			r->worst_err = err;
			r->worst_diff = diff;
		}
	}
	return true;
}

static bool check_written(const struct vf_step *s, unsigned p, unsigned rank, struct vf_rows w)
{
	struct vf_step_run *u = s->run;
	unsigned size = vf_size(u->d->k->f->param[p].type);

	for (int64_t i = w.begin; i < w.end; i++) {
		uint64_t at = vf_address(u, p, rank, w.at + (i - w.begin));

		if (sim_defined(u->sim, at, vf_row_bytes(u, p)))
			continue;
		for (int64_t c = 0; c < (int64_t)(vf_row_bytes(u, p) / size); c++)
			if (!sim_defined(u->sim, at + (uint64_t)c * size, size))
				return vf_fail_at(s, VF_UNWRITTEN, p, rank, i, w.at + (i - w.begin),
				                  c);
	}
	return true;
}

static void count_elements(struct vf_step_run *u, const struct vf_ref *ref, struct vf_rows w,
                           int64_t cols)
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

static bool check_output(const struct vf_step *s, unsigned p, unsigned rank, struct vf_rows w)
{
	struct vf_step_run *u = s->run;
	enum ir_sum sum = vf_sum_of(u->d, u->schedule.sim.sum);
	const struct vf_ref *ref = &s->item->ref[sum][p];
	struct ir_type t = u->d->k->f->param[p].type;
	bool same = !vf_own(u->d, p) && !(u->d->k->f->rank_divergence && u->d->in_switch);
	uint64_t n = vf_row_bytes(u, p), step = vf_pitch(u, p),
	         all = (uint64_t)(w.end - w.begin) * step;
	int64_t differs = -1;

	if (w.end == w.begin)
		return true;
	if (!check_written(s, p, rank, w))
		return false;
	sim_read(u->sim, vf_address(u, p, rank, w.at), u->scratch, all);
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

		return vf_fail_at(s, VF_DIFFERS, p, rank, row, row,
		                  differs % (int64_t)step / vf_size(t));
	}
	if (same) {
		s->first[p] = arena_alloc(u->a, all);
		memcpy(s->first[p], u->scratch, all);
	}
	return true;
}

/* An input is as it was. */
static bool check_input(const struct vf_step *s, unsigned p, unsigned rank, struct vf_rows w)
{
	struct vf_step_run *u = s->run;
	uint64_t n = vf_row_bytes(u, p);
	const uint8_t *image = s->item->in[(size_t)p * u->d->o.tp + rank];

	for (int64_t i = w.begin; i < w.end; i++) {
		int64_t at = w.at + (i - w.begin);
		uint64_t c = 0;

		sim_read(u->sim, vf_address(u, p, rank, at), u->scratch, n);
		if (!memcmp(u->scratch, image + (uint64_t)i * n, n))
			continue;
		while (u->scratch[c] == image[(uint64_t)i * n + c])
			c++;
		return vf_fail_at(s, VF_STRAY, p, rank, i, at,
		                  (int64_t)c / vf_size(u->d->k->f->param[p].type));
	}
	return true;
}

bool vf_after(void *ctx, struct sim *sim, unsigned rank)
{
	struct vf_step *s = ctx;
	struct vf_step_run *u = s->run;
	const struct ir_func *f = u->d->k->f;

	(void)sim;
	for (unsigned p = 0; p < f->nparam; p++) {
		struct vf_rows w = vf_rows_of(u, p, rank, s->item->T);

		if (f->param[p].mode == IR_IN) {
			if (!u->d->link[p].linked && !check_input(s, p, rank, w))
				return false;
		} else if (!check_output(s, p, rank, w) || !check_canaries(s, p, rank, w)) {
			return false;
		}
	}
	return true;
}
