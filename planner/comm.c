/* Times of collectives: lines or measured points by CTA count, and the fit of a line. */
#include "planner/machine.h"

/* Row i of the table at `bytes`. */
static double row_us(const struct pl_comm *c, unsigned i, double bytes)
{
	const double *x = c->bytes, *y = c->us[i];
	unsigned p = 0, last = c->npoint - 1;

	if (!c->npoint)
		return c->alpha[i] + bytes / (c->gbs[i] * 1e3);
	if (last == 0)
		return y[0];
	if (bytes <= x[0]) /* fewer bytes than measured: no less than the least time */
		return y[0];
	while (p + 1 < last && bytes > x[p + 1])
		p++;
	return y[p] + (y[p + 1] - y[p]) * (bytes - x[p]) / (x[p + 1] - x[p]);
}

double pl_comm_us(const struct pl_comm *c, double bytes, unsigned ctas)
{
	unsigned i = 0;
	double lo, hi, f;

	if (!c->n)
		return 0;
	while (i + 1 < c->n && ctas >= c->ctas[i + 1])
		i++;
	lo = row_us(c, i, bytes);
	if (i + 1 == c->n || ctas <= c->ctas[i])
		return lo;
	hi = row_us(c, i + 1, bytes);
	f = (double)(ctas - c->ctas[i]) / (double)(c->ctas[i + 1] - c->ctas[i]);
	return lo + (hi - lo) * f;
}

const struct pl_comm *pl_comm_beside(const struct pl_machine *m)
{
	return m->beside.n ? &m->beside : &m->fused;
}

unsigned pl_comm_best(const struct pl_comm *c, double bytes, double *us)
{
	unsigned best = 0;
	double t;

	*us = c->n ? row_us(c, 0, bytes) : 0;
	for (unsigned i = 1; i < c->n; i++) {
		t = row_us(c, i, bytes);
		if (t < *us) {
			*us = t;
			best = i;
		}
	}
	return c->n ? c->ctas[best] : 0;
}

/* ---- the fit: convex in alpha and in the slope, so nested ternary searches find it ---- */

struct points {
	const double *x, *y;
	unsigned n;
};

static double worst(const struct points *p, double alpha, double slope)
{
	double most = 0;

	for (unsigned i = 0; i < p->n; i++) {
		double e = (alpha + slope * p->x[i] - p->y[i]) / p->y[i];

		e = e < 0 ? -e : e;
		most = e > most ? e : most;
	}
	return most;
}

static double best_slope(const struct points *p, double alpha)
{
	double lo = 0, hi = 0;

	for (unsigned i = 0; i < p->n; i++)
		hi = p->y[i] / p->x[i] > hi ? p->y[i] / p->x[i] : hi;
	for (int k = 0; k < 90; k++) {
		double a = lo + (hi - lo) / 3, b = hi - (hi - lo) / 3;

		if (worst(p, alpha, a) < worst(p, alpha, b))
			hi = b;
		else
			lo = a;
	}
	return (lo + hi) / 2;
}

double pl_comm_fit(const double *bytes, const double *us, unsigned n, double *alpha, double *gbs)
{
	struct points p = {bytes, us, n};
	double lo = 0, hi = n ? us[0] : 0;

	for (unsigned i = 0; i < n; i++)
		hi = us[i] > hi ? us[i] : hi;
	for (int k = 0; k < 90; k++) {
		double a = lo + (hi - lo) / 3, b = hi - (hi - lo) / 3;

		if (worst(&p, a, best_slope(&p, a)) < worst(&p, b, best_slope(&p, b)))
			hi = b;
		else
			lo = a;
	}
	*alpha = (lo + hi) / 2;
	*gbs = 1 / (best_slope(&p, *alpha) * 1e3);
	return worst(&p, *alpha, 1 / (*gbs * 1e3));
}
