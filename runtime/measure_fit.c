/* What times of GEMMs, collectives and pairs say of the machine, in the planner's terms. */
#include "runtime/measure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double within(double x, double least, double most)
{
	return x < least ? least : x > most ? most : x;
}

/* To so many parts of one: what is printed by a few digits is then read back as it was. */
static double rounded(double x, double parts)
{
	return (double)(int64_t)(x * parts + 0.5) / parts;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, unsigned n)
{
	qsort(v, n, sizeof *v, by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* ---- GEMMs ---- */

/* How much longer than by the formula a tile's K takes; 0: the time says nothing about it. */
static double rate_of(const struct pl_options *o, const struct rt_shape *s, uint32_t rows,
                      double us)
{
	const struct pl_machine *m = &o->machine;
	struct pl_gemm g;

	pl_gemm_choose(o, s->op, rows, 0, &g);
	if (us <= 0 || g.fact.us > 0 || g.run.mem >= g.run.waves * g.run.tau)
		return 0;
	us = (us - m->launch_us) / g.run.waves;
	return us > m->tile_us ? within((us - m->tile_us) / (g.run.tau - m->tile_us), 0.1, 10) : 0;
}

static double rate_in(const struct pl_machine *m, const struct pl_op *op)
{
	for (unsigned i = 0; i < m->nrate; i++)
		if (m->rate[i].n == op->n && m->rate[i].k == op->k)
			return m->rate[i].rate;
	return 1;
}

/*
 * From o's machine a nearer one (a tile that is chosen depends on what tiles take, so once is not
 * enough).  The median goes into gemm_eff, which is for GEMMs that were not measured, too.
 */
static void fit_gemms(const struct rt_measured *x, const struct pl_options *o,
                      struct pl_machine *to)
{
	double eff[RT_MOST_SHAPES], sorted[RT_MOST_SHAPES];
	struct pl_rate rate[RT_MOST_SHAPES];
	unsigned n = 0;

	for (unsigned i = 0; i < x->nshape; i++) {
		const struct pl_op *op = x->shape[i].op;
		double few = rate_of(o, &x->shape[i], x->rows[0], x->gemm[i][0]);
		double many = rate_of(o, &x->shape[i], x->rows[1], x->gemm[i][1]);
		double r = few > 0 && many > 0 ? (few + many) / 2 : few + many;

		if (r <= 0)
			continue;
		rate[n] = (struct pl_rate){op->n, op->k, 1};
		eff[n] = sorted[n] = o->machine.gemm_eff / (rate_in(&o->machine, op) * r);
		n++;
	}
	if (!n)
		return;
	to->gemm_eff = within(rounded(median(sorted, n), 1e5), 1e-3, 4);
	to->nrate = n;
	for (unsigned i = 0; i < n; i++) {
		to->rate[i] = rate[i];
		to->rate[i].rate = within(rounded(to->gemm_eff / eff[i], 1e5), 0.01, 100);
	}
}

/* ---- collectives ---- */

/* The line through two times, of which either may be 0: not measured. */
static bool line(const struct rt_measured *x, const double us[2], double alpha, double *a,
                 double *gbs)
{
	double b0 = x->message * x->kernel_rows[0], b1 = x->message * x->kernel_rows[1];
	double slope = us[0] > 0 && us[1] > 1.02 * us[0] ? (us[1] - us[0]) / (b1 - b0) : 0;
	double bytes = us[1] > 0 ? b1 : b0, last = us[1] > 0 ? us[1] : us[0];

	if (last <= 0)
		return false;
	if (slope > 0)
		alpha = us[0] - b0 * slope;
	alpha = rounded(within(alpha, 0.1 * last < 0.5 ? 0.1 * last : 0.5, 0.9 * last), 1e3);
	*a = alpha;
	*gbs = within(rounded(bytes / ((last - alpha) * 1e3), 1e3), 1e-3, 1e6);
	return true;
}

static void fit_table(const struct rt_measured *x, const struct pl_comm *base, bool beside,
                      struct pl_comm *to)
{
	struct pl_comm c = {0};

	for (unsigned g = 0; g < x->ngrid; g++) {
		double us[2] = {beside ? x->pair[g][0].collective : x->collective[g][0],
		                beside ? x->pair[g][1].collective : x->collective[g][1]};

		if (!line(x, us, pl_comm_us(base, 0, x->ctas[g]), &c.alpha[c.n], &c.gbs[c.n]))
			continue;
		c.ctas[c.n++] = x->ctas[g];
	}
	if (c.n)
		*to = c;
}

static void round_table(struct pl_comm *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		c->alpha[i] = rounded(c->alpha[i], 1e3);
		c->gbs[i] = larger(rounded(c->gbs[i], 1e3), 1e-3);
	}
}

/* ---- both ---- */

/*
 * A GEMM of `alone` took `us` beside a collective: while that ran it was slower by gamma.  Work u in
 * the time of the collective takes u (1 + gamma), so what is added is gamma u.
 */
static double gamma_of(double alone, double launch, const struct rt_times *t)
{
	double shared = (t->collective < t->gemm ? t->collective : t->gemm) - launch;
	double more = t->gemm - alone;

	if (alone <= 0 || t->gemm <= 0 || t->collective <= 0 || shared < 0.2 * alone)
		return -1;
	return more <= 0 ? 0 : more >= shared / 2 ? 1 : more / (shared - more);
}

static double join_of(const struct rt_times *t)
{
	return t->both > 0 && t->gemm > 0 && t->collective > 0
	               ? larger(0, t->both - larger(t->gemm, t->collective))
	               : -1;
}

/* All pairs whose GEMM has a target, and the GEMM alone. */
static unsigned list_pairs(const struct rt_measured *x, struct rt_times *t, double *alone)
{
	unsigned n = 0;

	for (unsigned g = 0; g < x->ngrid; g++)
		for (unsigned j = 0; j < 2; j++, n++) {
			t[n] = x->pair[g][j];
			alone[n] = x->target[g];
		}
	for (unsigned i = 0; i < x->nshape; i++, n++) {
		t[n] = x->other[i];
		alone[n] = x->other_target[i];
	}
	return n;
}

static void fit_pairs(const struct rt_measured *x, const struct pl_options *o,
                      struct pl_machine *to)
{
	enum { MOST = 2 * RT_MOST_GRIDS + RT_MOST_SHAPES };
	double alone[MOST], gamma[MOST], join[MOST];
	struct rt_times t[MOST];
	unsigned n = list_pairs(x, t, alone), ngamma = 0, njoin = 0;

	for (unsigned i = 0; i < n; i++) {
		gamma[ngamma] = gamma_of(alone[i], o->machine.launch_us, &t[i]);
		ngamma += gamma[ngamma] >= 0;
		join[njoin] = join_of(&t[i]);
		njoin += join[njoin] >= 0;
	}
	if (ngamma)
		to->gamma = rounded(median(gamma, ngamma), 1e5);
	if (njoin)
		to->join_us = rounded(within(median(join, njoin), 0, 50), 1e3);
}

/* Do CTAs without an SM wait?  Whichever of the two is nearer to how long a GEMM on all SMs took. */
static bool waits(const struct rt_measured *x, const struct pl_options *o)
{
	const struct pl_machine *m = &o->machine;
	const struct rt_times *u = &x->untargeted;
	struct pl_gemm g;
	double us[2];

	if (u->gemm <= 0 || u->collective <= 0)
		return m->persistent;
	pl_gemm_choose(o, x->shape[x->big].op, x->rows[1], 0, &g);
	for (unsigned i = 0; i < 2; i++) {
		g.run.waits = i;
		us[i] = pl_gemm_finish(m, &g.run, m->launch_us, u->collective, x->ctas[x->usual]);
	}
	if (us[1] < 1.03 * us[0] && us[0] < 1.03 * us[1])
		return m->persistent; /* it makes no difference here */
	return fabs(u->gemm - us[1]) < fabs(u->gemm - us[0]);
}

void rt_measure_fit(const struct rt_measured *x, const struct pl_options *o, struct pl_machine *to)
{
	struct pl_options base = *o;

	base.machine.nrate = 0; /* of an earlier measurement */
	base.machine.beside.n = 0;
	*to = base.machine;
	to->sms = base.machine.sms = x->sms;
	for (unsigned i = 0; i < 4; i++) {
		fit_gemms(x, &base, to);
		base.machine = *to;
	}
	fit_table(x, &o->machine.fused, false, &to->fused);
	fit_table(x, &o->machine.fused, true, &to->beside);
	fit_pairs(x, &base, to);
	base.machine = *to;
	to->persistent = waits(x, &base);
	round_table(&to->push);
	round_table(&to->plain);
	round_table(&to->fused);
}

/* ---- for people ---- */

static double predicted(const struct rt_measured *x, const struct pl_options *o,
                        const struct pl_op *op, const struct plait_pair *p)
{
	const struct pl_machine *m = &o->machine;
	double comm = pl_comm_us(pl_comm_beside(m), x->message * (double)p->kernel_rows, p->ctas);
	struct pl_gemm g;

	pl_gemm_choose(o, op, p->rows, p->sm_target, &g);
	return larger(pl_gemm_finish(m, &g.run, m->launch_us, comm, p->ctas), comm) + m->join_us;
}

unsigned rt_measure_pairs(const struct rt_measured *x, const struct pl_options *o,
                          const struct pl_machine *machine, struct plait_pair pair[PLAIT_MAX_PAIRS])
{
	struct pl_options with = *o;
	unsigned n = 0;

	with.machine = *machine;
	for (unsigned g = 0; g < x->ngrid + x->nshape + 1; g++)
		for (unsigned j = 0; j < (g < x->ngrid ? 2 : 1); j++) {
			bool grid = g < x->ngrid, other = !grid && g < x->ngrid + x->nshape;
			unsigned shape = other ? g - x->ngrid : x->big, at = grid ? g : x->usual;
			const struct rt_times *t = grid    ? &x->pair[g][j]
			                           : other ? &x->other[shape]
			                                   : &x->untargeted;
			unsigned many = grid ? j : other; /* rows of the collective */
			struct plait_pair *p = &pair[n];

			if (t->both <= 0 || n == PLAIT_MAX_PAIRS)
				continue;
			*p = (struct plait_pair){.rows = x->rows[1],
			                         .n = x->shape[shape].op->n,
			                         .k = x->shape[shape].op->k,
			                         .kernel_rows = x->kernel_rows[many],
			                         .ctas = x->ctas[at],
			                         .sm_target =
			                                 grid || other ? x->sms - x->ctas[at] : 0,
			                         .gemm_us = grid    ? x->target[g]
			                                    : other ? x->other_target[shape]
			                                            : x->gemm[x->big][1],
			                         .collective_us = x->collective[at][many],
			                         .gemm_beside_us = t->gemm,
			                         .collective_beside_us = t->collective,
			                         .both_us = t->both};
			p->predicted_us = predicted(x, &with, x->shape[shape].op, p);
			n++;
		}
	return n;
}
