/* Statistics of bench, and what is read off them. */
#include "tools/bench.h"
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Between two neighbours in proportion. */
static double quantile(const double *sorted, unsigned n, double q)
{
	double at = q * (n - 1);
	unsigned i = (unsigned)at;

	if (i + 1 >= n)
		return sorted[n - 1];
	return sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]);
}

struct bench_stat bench_stat_of(const double *x, unsigned n, struct arena *a)
{
	double *s = arena_news(a, double, n);

	memcpy(s, x, n * sizeof *s);
	qsort(s, n, sizeof *s, ascending);
	return (struct bench_stat){quantile(s, n, 0.5), quantile(s, n, 0.1), quantile(s, n, 0.9)};
}

struct bench_stat bench_ratio(const double *x, const double *y, unsigned n, struct arena *a)
{
	double *q = arena_news(a, double, n);

	for (unsigned i = 0; i < n; i++)
		q[i] = y[i] / x[i];
	return bench_stat_of(q, n, a);
}

int bench_best(const struct bench_result *r, unsigned t, enum bench_kind kind, struct arena *a)
{
	double least = 0;
	int best = -1;

	for (unsigned w = 0; w < r->nwho; w++) {
		const struct bench_cell *c = bench_at(r, t, w);
		double us;

		if (r->who[w].kind != kind || !c->us)
			continue;
		us = bench_stat_of(c->us, r->rounds, a).median;
		if (best < 0 || us < least) {
			best = (int)w;
			least = us;
		}
	}
	return best;
}

/* An all-reduce takes 2 (n - 1) / n of its bytes into every rank, whatever the algorithm. */
double bench_link_share(const struct bench_result *r, unsigned t, double us)
{
	double bytes = (double)r->T[t] * (double)r->sum_bytes * 2 * (r->tp - 1) / r->tp;

	return r->link_gbs > 0 && us > 0 ? bytes / (r->link_gbs * 1e3) / us : 0;
}

double bench_copy_share(const struct bench_result *r, unsigned t, double us)
{
	double bytes = (double)r->T[t] * (double)r->norm_bytes;

	return r->copy_gbs > 0 && us > 0 ? bytes / (r->copy_gbs * 1e3) / us : 0;
}

bool bench_target(const struct bench_result *r, uint64_t T, struct bench_target *to)
{
	/* clang-format off */
	static const struct { uint64_t from, to; struct bench_target least; } rows[] = {
#define BENCH_TARGET(from, to, unfused, fused, link, norm) {from, to, {unfused, fused, link, norm}},
#include "tools/targets.def"
	};
	/* clang-format on */

	if (r->tp != 2 || r->gpus != 2 || r->cols != 8192 || strcmp(r->dtype, "bf16") ||
	    !strstr(r->gpu, "H200"))
		return false;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (T >= rows[i].from && T <= rows[i].to) {
			*to = rows[i].least;
			return true;
		}
	return false;
}
