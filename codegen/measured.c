/*
 * Selection from what was measured on the machine itself: times are interpolated between points,
 * the CTAs are those of the nearer one.
 */
#include "codegen/select.h"
#include <math.h>

/* The row length of the table that is nearest to the kernel's; 0: the table has none. */
static uint64_t nearest_row(const struct cg_table *t, uint64_t row)
{
	uint64_t best = 0;

	for (size_t i = 0; i < t->n; i++) {
		uint64_t r = t->point[i].row;
		double a = fabs(log((double)r / (double)row));
		double b = best ? fabs(log((double)best / (double)row)) : INFINITY;

		if (r && (a < b || (a == b && r < best)))
			best = r;
	}
	return best;
}

struct around { /* the points on both sides of some bytes; NULL: none */
	const struct cg_point *below, *above;
};

/* In bytes of all rows: a table of another row length is read at as many bytes. */
static struct around find(const struct cg_table *t, uint64_t row, enum cg_protocol p, double bytes)
{
	struct around a = {NULL, NULL};

	for (size_t i = 0; i < t->n; i++) {
		const struct cg_point *q = &t->point[i];
		double at = (double)q->T * (double)q->row;

		if (q->row != row || q->protocol != p)
			continue;
		if (at <= bytes && (!a.below || q->T > a.below->T))
			a.below = q;
		if (at >= bytes && (!a.above || q->T < a.above->T))
			a.above = q;
	}
	return a;
}

static uint64_t last_rows(const struct cg_table *t, uint64_t row)
{
	uint64_t most = 0;

	for (size_t i = 0; i < t->n; i++)
		if (t->point[i].row == row && t->point[i].T > most)
			most = t->point[i].T;
	return most;
}

/* Below the first point its time; beyond the last of the whole table in proportion. */
static double time_at(struct around a, double bytes, unsigned *ctas)
{
	double x0, x1, w;

	*ctas = a.below ? a.below->ctas : a.above->ctas;
	if (!a.below || a.below == a.above)
		return a.above->us;
	x0 = (double)a.below->T * (double)a.below->row;
	if (!a.above)
		return x0 > 0 ? a.below->us * bytes / x0 : a.below->us;
	x1 = (double)a.above->T * (double)a.above->row;
	w = (bytes - x0) / (x1 - x0);
	if (bytes * bytes > x0 * x1) /* nearer by ratio */
		*ctas = a.above->ctas;
	return a.below->us + w * (a.above->us - a.below->us);
}

struct cg_choice cg_measured(const struct cg_case *c, uint64_t T, int rows)
{
	const struct cg_table *t = c->table;
	struct cg_choice best = {.protocol = CG_AUTO, .rows = IR_ROWS_OWN, .us = INFINITY};
	double bytes = (double)T * (double)c->row.sums;
	uint64_t row;

	if (!t || t->tp != c->tp || t->multicast != c->multicast || !c->row.sums)
		return best;
	row = nearest_row(t, c->row.sums);
	for (int i = CG_AUTO + 1; i < CG_NPROTOCOLS; i++) {
		enum cg_protocol p = (enum cg_protocol)i;
		struct around a = find(t, row, p, bytes);
		unsigned ctas;
		double us;

		/* a protocol that was not measured to the end was cut off there */
		if (!(c->can >> p & 1) || !cg_has_form(p, rows) || (!a.below && !a.above) ||
		    (!a.above && a.below->T < last_rows(t, row)))
			continue;
		us = time_at(a, bytes, &ctas);
		if (us < best.us)
			best = (struct cg_choice){.protocol = p,
			                          .rows = cg_form_of(p, rows),
			                          .ctas = ctas,
			                          .us = us,
			                          .source = t->note};
	}
	return best;
}
