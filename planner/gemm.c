/*
 * GEMMs: tiles, clusters, waves, split-K, and what a collective beside them costs.
 *
 *	tiles = ceil(m/bm) * ceil(n/bn) * split-K, rounded up to clusters
 *	waves = ceil(tiles / slots)     us = max(waves * tau, bytes / bandwidth)
 *
 * In the analytic table the tile with the least time wins, as a library's heuristic would have it.
 */
#include "planner/gemm.h"

/* clang-format off */
const struct pl_tile pl_tiles[] = {
#define PL_TILE(bm, bn, cm, cn, eff) {bm, bn, cm, cn, eff},
#include "planner/tiles.def"
#undef PL_TILE
};
/* clang-format on */
const unsigned pl_ntile = sizeof(pl_tiles) / sizeof(pl_tiles[0]);

static int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

/* The smallest whole number that is not less; of numbers below 2^52, without libm. */
static double ceiling(double x)
{
	double n = (double)(int64_t)x;

	return n < x ? n + 1 : n;
}

unsigned pl_slots(const struct pl_machine *m, unsigned sms, unsigned cluster)
{
	unsigned gpc = m->sms_per_gpc ? m->sms_per_gpc : sms, rest;

	if (cluster <= 1 || gpc < cluster)
		return sms ? sms : 1;
	rest = sms % gpc;
	sms = sms / gpc * (gpc - gpc % cluster) + (rest - rest % cluster);
	return sms ? sms : cluster;
}

double pl_mem_us(const struct pl_machine *m, double bytes)
{
	return bytes / (m->hbm_gbs * m->mem_eff * 1e3);
}

double pl_flops_us(const struct pl_machine *m, double flops, double eff)
{
	return flops / (m->tflops * eff * 1e6);
}

/* Tensor cores are twice as fast for half the bits of the wider operand; a narrow weight of a wide x
 * is widened. */
static double rate_of(const struct pl_op *op)
{
	unsigned bits = op->x_bits > op->w_bits ? op->x_bits : op->w_bits;

	return bits > 16 ? 0.5 : bits > 8 ? 1 : bits > 4 ? 2 : 4;
}

/* ---- experts: rows of a group are not known before; their expectation is ---- */

/* Part of the experts that some of `rows` rows reach: 1 - (1 - active/experts)^rows. */
static double touched(const struct pl_op *op, int64_t rows)
{
	double miss = 1 - (double)op->active / (double)op->experts, all = 1;

	for (int64_t n = rows; n > 0; n >>= 1, miss *= miss)
		if (n & 1)
			all *= miss;
	return 1 - all;
}

/* Tile rows of all groups: half a tile row of each is not filled, on average. */
static double tile_rows(const struct pl_op *op, int64_t rows, unsigned bm)
{
	double each;

	if (op->kind != PL_GROUPED)
		return (double)ceil_div(rows, bm);
	each = (double)rows * (double)op->active / (double)op->experts / bm;
	return ceiling((double)op->experts * (touched(op, rows) + larger(0, each - 0.5)));
}

static double gemm_bytes(const struct pl_op *op, int64_t rows)
{
	double x = (double)rows * (op->kind == PL_GROUPED ? (double)op->active : 1);
	double w = op->kind == PL_GROUPED ? (double)op->experts * touched(op, rows) : 1;

	return (x * (double)op->k * op->x_bits + w * (double)op->k * (double)op->n * op->w_bits +
	        x * (double)op->n * op->out_bits) /
	       8;
}

/* ---- the time of a choice ---- */

static double tile_us(const struct pl_machine *m, const struct pl_op *op, double bm, double bn,
                      double eff, unsigned splitk)
{
	double k = (double)op->k / splitk;
	double sm = m->tflops / m->sms * m->gemm_eff * eff * rate_of(op) * 1e6; /* flops per us */

	if (op->kind == PL_GROUPED)
		sm *= m->grouped_eff;
	return 2 * bm * bn * k / sm + m->tile_us;
}

static double eff_of(unsigned bm, unsigned bn)
{
	double r = (double)bm * bn / (bm + bn), best = 0, eff = 1;

	for (unsigned i = 0; i < pl_ntile; i++) {
		double q = (double)pl_tiles[i].bm * pl_tiles[i].bn /
		           (pl_tiles[i].bm + pl_tiles[i].bn);

		if (q <= r && q > best) {
			best = q;
			eff = pl_tiles[i].eff;
		}
	}
	return best > 0 ? eff : pl_tiles[pl_ntile - 1].eff;
}

static unsigned cluster_of(const struct pl_gemm_fact *f)
{
	return (f->cm ? f->cm : 1) * (f->cn ? f->cn : 1);
}

static double up_to(double n, unsigned c)
{
	return c > 1 ? ceiling(n / c) * c : n;
}

/* Everything that follows from fact, whose tile is known. */
static void finish(const struct pl_options *o, const struct pl_op *op, int64_t rows, unsigned sms,
                   double eff, struct pl_gemm *g)
{
	const struct pl_machine *m = &o->machine;
	struct pl_gemm_fact *f = &g->fact;
	struct pl_run *r = &g->run;
	unsigned sk = f->splitk ? f->splitk : 1;
	double tm = up_to(tile_rows(op, rows, f->bm), f->cm);
	double tn = up_to((double)ceil_div(op->n, f->bn), f->cn), last;

	r->tiles = tm * tn * sk;
	r->cluster = (uint16_t)cluster_of(f);
	r->slots = pl_slots(m, sms, r->cluster);
	r->waits = f->persistent || f->fractional;
	r->waves = f->waves > 0 ? f->waves : r->tiles / r->slots;
	r->waves = f->fractional ? larger(r->waves, 1) : ceiling(r->waves - 1e-9);
	last = r->tiles - (r->waves - 1) * r->slots;
	g->tail = f->fractional || last <= 0 ? 1 : smaller(last / r->slots, 1);
	r->tau = tile_us(m, op, f->bm, f->bn, eff, sk);
	r->mem = pl_mem_us(m, gemm_bytes(op, rows) +
	                              (sk > 1 ? 8.0 * sk * (double)rows * (double)op->n : 0));
	r->us = larger(r->waves * r->tau, r->mem);
}

static void analytic(const struct pl_options *o, const struct pl_op *op, int64_t rows, unsigned sms,
                     struct pl_gemm *best)
{
	const struct pl_machine *m = &o->machine;
	struct pl_gemm g;

	best->run.us = 0;
	for (unsigned i = 0; i < pl_ntile; i++) {
		const struct pl_tile *t = &pl_tiles[i];

		for (unsigned sk = 1; sk <= 8; sk *= 2) {
			g.fact = (struct pl_gemm_fact){.bm = t->bm,
			                               .bn = t->bn,
			                               .cm = t->cm,
			                               .cn = t->cn,
			                               .splitk = sk,
			                               .persistent = m->persistent &&
			                                             op->kind == PL_GEMM};
			finish(o, op, rows, sms, t->eff, &g);
			if (best->run.us <= 0 || g.run.us < best->run.us)
				*best = g;
			/* K is cut only where there are not enough tiles */
			if (g.run.tiles * 2 > g.run.slots || op->kind == PL_GROUPED || op->k / sk < 1024)
				break;
		}
	}
}

void pl_gemm_choose(const struct pl_options *o, const struct pl_op *op, int64_t rows,
                    unsigned sm_target, struct pl_gemm *g)
{
	struct pl_gemm_query q = {rows, op->n, op->k, op->x_bits, op->w_bits, op->out_bits, sm_target};
	unsigned sms = sm_target ? sm_target : o->machine.sms;

	*g = (struct pl_gemm){0};
	if (rows < 1)
		return;
	if (op->kind == PL_GROUPED || !o->gemm || !o->gemm(o->gemm_ctx, &q, &g->fact)) {
		analytic(o, op, rows, sms, g);
		return;
	}
	if (!g->fact.bm || !g->fact.bn) { /* a time alone: its tiles are as the table has them */
		struct pl_gemm like;
		double us = g->fact.us, waves = g->fact.waves;

		analytic(o, op, rows, sms, &like);
		g->fact = like.fact;
		g->fact.us = us;
		g->fact.waves = waves;
	}
	finish(o, op, rows, sms, eff_of(g->fact.bm, g->fact.bn), g);
	if (g->fact.us > 0) {
		g->run.us = g->fact.us;
		g->run.tau = g->run.us / g->run.waves;
		g->run.mem = smaller(g->run.mem, g->run.us);
	}
}

/* ---- beside a collective ---- */

/*
 * While a collective runs, everything beside it is slower by gamma: memory, L2 and power are shared.
 * Work of u microseconds that begins at 0 in this slower time ends at the time returned.
 */
static double unwarp(const struct pl_machine *m, double u, double begin, double until)
{
	double slow = 1 + m->gamma, room = (until - begin) / slow;

	return u <= room ? begin + u * slow : until + u - room;
}

/* Any SM can take a piece of the work, so that it is as much slower as there are fewer of them. */
static double work_end(const struct pl_machine *m, double us, double until, unsigned held)
{
	double slow = held < m->sms ? (double)m->sms / (m->sms - held) : 1e6;

	return us * slow <= until ? us * slow : us + until - until / slow;
}

/*
 * CTAs that come and go: `open` slots from 0 on, `more` from `until` on.  The least t with
 *	open * floor(t / tau) + more * floor((t - until) / tau) >= tiles
 * is i * tau or until + j * tau.
 */
static double dynamic_end(const struct pl_run *g, double open, double more, double until)
{
	double d = until / g->tau, i, j;

	i = ceiling(g->tiles / open);
	if (i > d) /* some of the others' tiles count: floor(i - d) = i - ceiling(d) */
		i = larger(ceiling((g->tiles + more * ceiling(d)) / (open + more)), ceiling(d));
	j = ceiling((g->tiles - open * (double)(int64_t)d) / (open + more));
	return smaller(i * g->tau, until + larger(j, 1) * g->tau);
}

double pl_gemm_finish(const struct pl_machine *m, const struct pl_run *g, double begin, double until,
                      unsigned held)
{
	unsigned open = pl_slots(m, held < m->sms ? m->sms - held : 1, g->cluster);
	double alone = g->waves * g->tau, room, end;

	if (until <= begin || !held)
		return begin + g->us;
	room = (until - begin) / (1 + m->gamma);
	if (open >= g->slots || g->tiles <= open)
		end = alone;
	else if (g->waits)
		/* a CTA without an SM waits for the collective, or for another CTA, to end */
		end = smaller(room, alone) + alone;
	else
		end = dynamic_end(g, open, g->slots - open, room);
	return unwarp(m, larger(end, g->mem), begin, until);
}

/* ---- operations without tiles ---- */

struct pl_fluid pl_fluid_of(const struct pl_machine *m, const struct pl_op *op,
                            const struct pl_batch *b, int64_t row, int64_t rows)
{
	struct pl_fluid f = {0, 0};
	double pairs, keys, width;

	if (op->kind != PL_ATTENTION) {
		f.work = pl_flops_us(m, op->flops * (double)rows, m->gemm_eff);
		f.mem = pl_mem_us(m, op->bytes * (double)rows);
		return f;
	}
	pl_attention_pairs(b, row, rows, op->window, &pairs, &keys);
	width = (double)op->dim * op->x_bits / 8;
	f.work = pl_flops_us(m, 4 * (double)op->heads * (double)op->dim * pairs, m->attention_eff);
	f.mem = pl_mem_us(m, 2 * (double)op->kv_heads * width * keys +
	                             2 * (double)op->heads * width * (double)rows);
	return f;
}

double pl_fluid_finish(const struct pl_machine *m, struct pl_fluid f, double begin, double until,
                       unsigned held)
{
	double end;

	if (until <= begin || !held)
		return begin + larger(f.work, f.mem);
	end = work_end(m, f.work, (until - begin) / (1 + m->gamma), held);
	return unwarp(m, larger(end, f.mem), begin, until);
}

/* ---- what is chosen from ---- */

unsigned pl_cta_choices(const struct pl_comm *c, unsigned out[PL_MAX_CTAS])
{
	static const unsigned all[PL_MAX_CTAS] = {2, 4, 6, 8, 12, 16, 24, 32};
	unsigned n = 0;

	for (unsigned i = 0; i < PL_MAX_CTAS && c->n; i++)
		if (all[i] >= c->ctas[0] && all[i] <= c->ctas[c->n - 1])
			out[n++] = all[i];
	if (!n && c->n)
		out[n++] = c->ctas[0];
	return n;
}

unsigned pl_free_choices(const struct pl_options *o, unsigned ctas, unsigned out[PL_MAX_TARGETS])
{
	static const unsigned all[] = {2, 4, 6, 8, 12, 16, 24, 32};
	unsigned n = 0;

	out[n++] = 0;
	for (unsigned i = 0; i < sizeof all / sizeof *all && !o->no_targets; i++)
		if (all[i] * 2 >= ctas && all[i] <= ctas + 4 && all[i] < o->machine.sms &&
		    n < PL_MAX_TARGETS)
			out[n++] = all[i];
	return n;
}
