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
/* clusters of the table have one or two CTAs (see analytic) */
_Static_assert(sizeof(pl_tiles) / sizeof(pl_tiles[0]) == PL_NTILE, "tiles are counted");
const unsigned pl_ntile = PL_NTILE;

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
static inline double ceiling(double x)
{
	double n = (double)(int64_t)x;

	return n < x ? n + 1 : n;
}

unsigned pl_slots(const struct pl_machine *m, unsigned sms, unsigned cluster)
{
	unsigned gpc = m->sms_per_gpc ? m->sms_per_gpc : sms, rest;

	if (cluster <= 1 || gpc < cluster)
		return sms ? sms : 1;
	if (gpc % cluster == 0) { /* nothing is lost in whole GPCs */
		sms -= cluster == 2 ? sms & 1 : sms % cluster;
		return sms ? sms : cluster;
	}
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
	double miss, all = 1;

	if (op->kind != PL_GROUPED)
		return 1;
	miss = larger(0, 1 - (double)op->active / (double)op->experts);

	for (int64_t n = rows; n > 0; n >>= 1, miss *= miss)
		if (n & 1)
			all *= miss;
	return 1 - all;
}

/* Tile rows of all groups: half a tile row of each is not filled, on average. */
static double tile_rows(const struct pl_op *op, int64_t rows, double reached, unsigned bm)
{
	double each;

	if (op->kind != PL_GROUPED)
		return (double)(((uint32_t)rows + bm - 1) / bm); /* rows are below 2^24 */
	each = (double)rows * (double)op->active / (double)op->experts / bm;
	return ceiling((double)op->experts * (reached + larger(0, each - 0.5)));
}

static double gemm_bytes(const struct pl_op *op, int64_t rows, double reached)
{
	double x = (double)rows * (op->kind == PL_GROUPED ? (double)op->active : 1);
	double w = op->kind == PL_GROUPED ? (double)op->experts * reached : 1;

	return (x * (double)op->k * op->x_bits + w * (double)op->k * (double)op->n * op->w_bits +
	        x * (double)op->n * op->out_bits) /
	       8;
}

/* ---- the time of a choice ---- */

static double measured_rate(const struct pl_machine *m, const struct pl_op *op)
{
	for (unsigned i = 0; i < m->nrate && op->kind == PL_GEMM; i++)
		if (m->rate[i].n == op->n && m->rate[i].k == op->k)
			return m->rate[i].rate;
	return 1;
}

static double tile_us(const struct pl_machine *m, const struct pl_op *op, double bm, double bn,
                      double eff, unsigned splitk)
{
	double k = (double)op->k / splitk;
	double sm = m->tflops / m->sms * m->gemm_eff * eff * rate_of(op) * 1e6; /* flops per us */

	if (op->kind == PL_GROUPED)
		sm *= m->grouped_eff;
	return 2 * bm * bn * k / sm * measured_rate(m, op) + m->tile_us;
}

static double eff_of(unsigned bm, unsigned bn)
{
	double r = (double)bm * bn / (bm + bn), best = 0, eff = 1;

	for (unsigned i = 0; i < pl_ntile; i++) {
		double q =
		        (double)pl_tiles[i].bm * pl_tiles[i].bn / (pl_tiles[i].bm + pl_tiles[i].bn);

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
	double reached = touched(op, rows);
	double tm = up_to(tile_rows(op, rows, reached, f->bm), f->cm);
	double tn = up_to((double)ceil_div(op->n, f->bn), f->cn), last;

	r->tiles = tm * tn * sk;
	r->cluster = (uint16_t)cluster_of(f);
	r->slots = pl_slots(m, sms, r->cluster);
	r->waits = f->persistent || f->fractional || (m->persistent && !f->dynamic);
	r->waves = f->waves > 0 ? f->waves : r->tiles / r->slots;
	r->waves = f->fractional ? larger(r->waves, 1) : ceiling(r->waves - 1e-9);
	last = r->tiles - (r->waves - 1) * r->slots;
	g->tail = f->fractional || last <= 0 ? 1 : smaller(last / r->slots, 1);
	r->tau = tile_us(m, op, f->bm, f->bn, eff, sk);
	r->mem = pl_mem_us(m, gemm_bytes(op, rows, reached) +
	                              (sk > 1 ? 8.0 * sk * (double)rows * (double)op->n : 0));
	r->us = larger(r->waves * r->tau, r->mem);
}

void pl_prepare(const struct pl_options *o, const struct pl_op *op, struct pl_prep *p)
{
	for (unsigned i = 0; i < pl_ntile; i++) {
		const struct pl_tile *t = &pl_tiles[i];

		p->k_us[i] = tile_us(&o->machine, op, t->bm, t->bn, t->eff, 1) - o->machine.tile_us;
		p->columns[i] = up_to((double)ceil_div(op->n, t->bn), t->cn);
	}
}

/* How many parts of K give the least time on one tile: there may be more only while all of them run
 * at once. */
static unsigned split_k(const struct pl_op *op, double tiles, double slots)
{
	unsigned sk = 1;

	while (sk < 8 && op->kind == PL_GEMM && tiles * sk * 2 <= slots && op->k / (sk * 2) >= 512)
		sk *= 2;
	return sk;
}

/* The fact of tile i of the table, and what follows from it. */
static void take_tile(const struct pl_options *o, const struct pl_op *op, int64_t rows,
                      const struct pl_run *run, double reached, unsigned i, unsigned splitk,
                      struct pl_gemm *g)
{
	const struct pl_tile *t = &pl_tiles[i];
	double last = run->tiles - (run->waves - 1) * run->slots;

	g->fact = (struct pl_gemm_fact){
	        .bm = t->bm, .bn = t->bn, .cm = t->cm, .cn = t->cn, .splitk = splitk};
	g->fact.persistent = o->machine.persistent && op->kind == PL_GEMM;
	g->run = *run;
	g->run.cluster = (uint16_t)(t->cm * t->cn);
	g->run.waits = g->fact.persistent;
	g->run.mem =
	        pl_mem_us(&o->machine,
	                  gemm_bytes(op, rows, reached) +
	                          (splitk > 1 ? 8.0 * splitk * (double)rows * (double)op->n : 0));
	g->run.us = larger(run->waves * run->tau, g->run.mem);
	g->tail = last <= 0 ? 1 : smaller(last / run->slots, 1);
}

/* The tile with the least time; what memory needs matters only where K is cut, which costs a pass
 * more. */
static void analytic(const struct pl_options *o, const struct pl_op *op, const struct pl_prep *p,
                     int64_t rows, unsigned sms, struct pl_gemm *best)
{
	const struct pl_machine *m = &o->machine;
	unsigned slots[2] = {pl_slots(m, sms, 1), pl_slots(m, sms, 2)};
	double per_slot[2] = {1.0 / slots[0], 1.0 / slots[1]}, tm = 0, least = 0, us;
	unsigned bm = 0, cm = 0, which = 0, parts = 1;
	double reached = touched(op, rows);
	struct pl_run run = {0}, won = {0};

	for (unsigned i = 0; i < pl_ntile; i++) {
		const struct pl_tile *t = &pl_tiles[i];
		unsigned two = t->cm * t->cn > 1, sk = 1;

		if (t->bm != bm || t->cm != cm) {
			bm = t->bm;
			cm = t->cm;
			tm = up_to(tile_rows(op, rows, reached, bm), cm);
		}
		run.tiles = tm * p->columns[i];
		/* without rounding up it is already longer */
		if (i &&
		    run.tiles * per_slot[two] * (p->k_us[i] + m->tile_us) > least * (1 + 1e-9) &&
		    run.tiles > slots[two])
			continue;
		run.slots = slots[two];
		if (run.tiles * 2 <= run.slots)
			sk = split_k(op, run.tiles, run.slots);
		run.tiles *= sk;
		run.waves = ceiling(run.tiles / run.slots);
		run.tau = p->k_us[i] / sk + m->tile_us;
		us = run.waves * run.tau;
		if (sk > 1)
			us = larger(us,
			            pl_mem_us(m, gemm_bytes(op, rows, reached) +
			                                 8.0 * sk * (double)rows * (double)op->n));
		if (i && us >= least)
			continue;
		least = us;
		which = i;
		parts = sk;
		won = run;
	}
	take_tile(o, op, rows, &won, reached, which, parts, best);
}

void pl_gemm_prepared(const struct pl_options *o, const struct pl_op *op, const struct pl_prep *p,
                      int64_t rows, unsigned sm_target, struct pl_gemm *g)
{
	struct pl_gemm_query q = {.m = rows,
	                          .n = op->n,
	                          .k = op->k,
	                          .x_bits = op->x_bits,
	                          .w_bits = op->w_bits,
	                          .out_bits = op->out_bits,
	                          .sm_target = sm_target,
	                          .x_type = op->x_type,
	                          .w_type = op->w_type,
	                          .out_type = op->out_type};
	unsigned sms = sm_target ? sm_target : o->machine.sms;

	*g = (struct pl_gemm){0};
	if (rows < 1)
		return;
	if (op->kind == PL_GROUPED || !o->gemm || !o->gemm(o->gemm_ctx, &q, &g->fact)) {
		analytic(o, op, p, rows, sms, g);
		return;
	}
	if (!g->fact.bm || !g->fact.bn) { /* a time alone: its tiles are as the table has them */
		struct pl_gemm_fact said = g->fact;
		struct pl_gemm like;

		analytic(o, op, p, rows, sms, &like);
		g->fact = like.fact;
		g->fact.us = said.us;
		g->fact.waves = said.waves;
		g->fact.fractional = said.fractional;
		g->fact.persistent = said.persistent;
		g->fact.dynamic = said.dynamic;
	}
	finish(o, op, rows, sms, eff_of(g->fact.bm, g->fact.bn), g);
	if (g->fact.us > 0) {
		g->run.us = g->fact.us;
		g->run.tau = g->run.us / g->run.waves;
		g->run.mem = smaller(g->run.mem, g->run.us);
	}
}

void pl_gemm_choose(const struct pl_options *o, const struct pl_op *op, int64_t rows,
                    unsigned sm_target, struct pl_gemm *g)
{
	struct pl_prep p;

	pl_prepare(o, op, &p);
	pl_gemm_prepared(o, op, &p, rows, sm_target, g);
}

/* ---- beside a collective ---- */

/*
 * While a collective runs, everything beside it is slower by gamma: memory, L2 and power are shared.
 * Work of u microseconds that begins at 0 in this slower time ends at the time returned.
 */
double pl_slowed(const struct pl_machine *m, double u, double begin, double until)
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

double pl_gemm_finish(const struct pl_machine *m, const struct pl_run *g, double begin,
                      double until, unsigned held)
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
	return pl_slowed(m, larger(end, g->mem), begin, until);
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
	return pl_slowed(m, larger(end, f.mem), begin, until);
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

	/* first what usually wins, so that the rest need not be looked at */
	for (unsigned i = 0; i < sizeof all / sizeof *all && !o->no_targets && !n; i++)
		if (all[i] >= ctas && all[i] < o->machine.sms)
			out[n++] = all[i];
	for (unsigned i = 0; i < sizeof all / sizeof *all && n; i++)
		if (all[i] * 2 >= ctas && all[i] <= ctas + 4 && all[i] < o->machine.sms &&
		    all[i] != out[0] && n + 1 < PL_MAX_TARGETS)
			out[n++] = all[i];
	out[n++] = 0;
	return n;
}
