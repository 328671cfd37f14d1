/*
 * Selection: measured picks, else a model in the form of NCCL's tuner for symmetric kernels:
 * time = latency + softplus(bytes / bandwidth - 1), the fewest CTAs within 2.5 % of the best.
 */
#include "codegen/select.h"
#include "codegen/emit.h"
#include <math.h>

/*
 * Of a class of targets.  sm_90: measured with kernels of ours on two H200s over NVLink 4, medians:
 * 345 GB/s pushing (8 to 64 MiB), 335 two-shot, 4.1 TB/s of a norm kernel.  Multimem was not
 * measured: 386 GB/s is the most that NCCL's model says its switch kernels reach on Hopper.  The
 * other classes are that, scaled by data sheets and by what NCCL's model has for Blackwell (latency
 * x 2.5, bandwidth x 2): a model's.
 */
struct machine {
	unsigned sm;                  /* the least of the class */
	double latency, port;         /* times that of sm_90: latency; GB/s of an SM */
	double push, shot, multicast; /* GB/s of a rank, each way */
	double hbm_gbs, l2_mib;       /* memory; what stays off it */
};
/* clang-format off */
static const struct machine machines[] = {
	/* sm  latency port  push  shot  multicast HBM   L2 */
	{  80, 1.2,    0.70, 230,  224,    0,     1600,  40},
	{  90, 1.0,    1.00, 345,  335,  386,     4100,  50},
	{ 100, 2.5,    1.25, 690,  670,  772,     6800, 126},
	{ 120, 1.5,    1.00,  50,   50,   50,     1500,  96},
};

/*
 * Of a protocol: us at two ranks and for each rank more, and GB/s in and out of an SM.  push, p2p-twoshot
 * and p2p-bulk at two ranks: fitted to kernels of ours on two H200s (an SM's rate at 8 CTAs and 16384
 * or 1024 rows).  The rest is a model's: NCCL's has one latency for two-shot by peers and by the
 * switch; the steps for each rank are a guess at one more store in sequence.
 */
static const struct prior {
	double base, rank, sm_gbs;
} priors[CG_NPROTOCOLS] = {
	[CG_PUSH]        = { 5.2, 0.30, 43},
	[CG_MM_PUSH]     = { 5.2, 0.05, 43},
	[CG_P2P_TWOSHOT] = { 8.3, 0.25, 67},
	[CG_P2P_BULK]    = {11.5, 0.25, 90},
	[CG_MM_TWOSHOT]  = { 8.3, 0.05, 88},
	[CG_MM_ONESHOT]  = { 7.8, 0.05, 88},
	[CG_LOCAL]       = { 2.2, 0.00, 53},
};

static const struct pick {
	unsigned sm, multicast, tp;
	uint64_t from, to;
	enum cg_protocol protocol;
	unsigned ctas;
	bool measured;
	const char *note;
} picks[] = {
#define MEASURED true
#define MODEL    false
#define CG_PICK(class, multicast, tp, from, to, protocol, ctas, source, note) \
	{class, multicast, tp, from, to, CG_##protocol, ctas, source, note},
#include "codegen/picks.def"
};

/* Without T, the first that can; all rows last.  `local` can where nothing else is needed. */
static const enum cg_protocol for_many[] = {
	CG_LOCAL, CG_MM_TWOSHOT, CG_P2P_BULK, CG_P2P_TWOSHOT, CG_MM_PUSH, CG_PUSH, CG_MM_ONESHOT,
};
static const unsigned grids[] = {1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64};
/* clang-format on */

#define COUNT(x)     (sizeof(x) / sizeof((x)[0]))
#define SLACK        1.025
#define LARGE_BUFFER 1.25 /* of L2 */
#define MIB          1048576.0

static const struct machine *machine_of(const struct cg_case *c)
{
	const struct machine *m = &machines[0];

	for (size_t i = 0; i < COUNT(machines); i++)
		if (c->target->sm >= machines[i].sm)
			m = &machines[i];
	return m;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* log(1 + exp(x)): max(x, 0) with a round corner. */
static double softplus(double x)
{
	return x > 30 ? x : log1p(exp(x));
}

struct load {                              /* bytes of T rows, on one rank */
	double link, sm, hbm, beyond, gbs; /* beyond: of a large buffer; gbs: of the link */
};

/* The table of doc/protocols.md, "What each moves". */
static struct load load_of(const struct cg_case *c, const struct machine *m, enum cg_protocol p,
                           double T)
{
	const struct cg_protocol_info *q = &cg_protocol_info[p];
	double S = (double)c->row.sums, G = (double)c->row.gathers, L = (double)c->row.local;
	double R = c->tp, share = T / R, beyond;
	bool mc = q->memory == CG_SYM_MULTICAST;

	if (p == CG_LOCAL)
		return (struct load){0, T * (S + G + L), T * (S + G + L), 0, m->shot};
	if (q->rows == CG_ROWS_OWN && mc)
		return (struct load){share * larger(S + R * G, R * S + G), share * (S + G + L),
		                     T * (S + G) + share * L, 0, m->multicast};
	if (q->rows == CG_ROWS_OWN)
		return (struct load){share * (R - 1) * (S + G), share * (R * S + R * G + L),
		                     T * (S + G) + share * L, 0, m->shot};
	if (p == CG_MM_ONESHOT)
		return (struct load){T * R * S, T * (S + G + L), T * (R * S + G + L), 0,
		                     m->multicast};
	/* By peers its own addends do not go by way of the buffer.  Three thirds are written, polled
	 * and cleared in turn: what L2 does not hold is not free, if not for this kernel. */
	R = mc ? R : R - 1;
	beyond = larger(0, 3 * R * S * T - LARGE_BUFFER * m->l2_mib * MIB);
	return (struct load){T * (c->tp - 1.0) * S, T * (S + S * (mc ? 1 : R) + 2 * R * S + G + L),
	                     T * (S + G + L), beyond, mc ? m->multicast : m->push};
}

double cg_cost(const struct cg_case *c, enum cg_protocol p, uint64_t T, unsigned ctas)
{
	const struct machine *m = machine_of(c);
	const struct prior *k = &priors[p];
	struct load l = load_of(c, m, p, (double)T);
	double more = c->tp > 2 ? c->tp - 2 : 0, us;

	us = l.gbs > 0 ? l.link / (l.gbs * 1e3) : INFINITY;
	us = larger(us, l.sm / (k->sm_gbs * m->port * 1e3 * (ctas ? ctas : 1)));
	us = larger(us, l.hbm / (m->hbm_gbs * 1e3)) + l.beyond / (m->hbm_gbs * 1e3);
	return (k->base + k->rank * more) * m->latency + softplus(us - 1);
}

static bool candidate(const struct cg_case *c, enum cg_protocol p)
{
	return c->can >> p & 1;
}

bool cg_has_form(enum cg_protocol p, int rows)
{
	enum cg_rows r = cg_protocol_info[p].rows;

	return rows < 0 || r == CG_ROWS_ANY || (int)r == rows;
}

enum ir_rows cg_form_of(enum cg_protocol p, int rows)
{
	return cg_protocol_info[p].rows == CG_ROWS_ANY && rows >= 0 ? (enum ir_rows)rows
	                                                            : cg_protocol_rows(p);
}

static struct cg_choice choice_of(const struct cg_case *c, enum cg_protocol p, int rows, uint64_t T)
{
	struct cg_choice x = {.protocol = p, .rows = cg_form_of(p, rows)};
	double best = cg_cost(c, p, T, grids[COUNT(grids) - 1]);

	for (size_t i = 0; i < COUNT(grids); i++) {
		x.ctas = grids[i];
		x.us = cg_cost(c, p, T, x.ctas);
		if (x.us <= SLACK * best)
			break;
	}
	return x;
}

static const struct pick *pick_of(const struct cg_case *c, uint64_t T)
{
	uint64_t bytes = T * c->row.sums;

	for (size_t i = 0; i < COUNT(picks); i++)
		if (picks[i].sm == machine_of(c)->sm && picks[i].multicast == c->multicast &&
		    picks[i].tp == c->tp && bytes >= picks[i].from && bytes < picks[i].to)
			return &picks[i];
	return NULL;
}

static struct cg_choice none(void)
{
	return (struct cg_choice){.protocol = CG_AUTO, .rows = IR_ROWS_OWN, .us = INFINITY};
}

/* `rows`: of this form only; -1: of any. */
static struct cg_choice select_unmeasured(const struct cg_case *c, uint64_t T, int rows)
{
	const struct pick *k = pick_of(c, T);
	struct cg_choice best = none();

	if (k && candidate(c, k->protocol) && cg_has_form(k->protocol, rows)) {
		best = choice_of(c, k->protocol, rows, T);
		best.ctas = k->ctas ? k->ctas : best.ctas;
		best.us = cg_cost(c, k->protocol, T, best.ctas);
		best.source = k->measured ? k->note : NULL;
		return best;
	}
	for (int pass = 0; pass < 2; pass++) {
		double least = best.us;

		for (int p = CG_AUTO + 1; p < CG_NPROTOCOLS; p++) {
			struct cg_choice x;

			if (!candidate(c, (enum cg_protocol)p) ||
			    !cg_has_form((enum cg_protocol)p, rows))
				continue;
			x = choice_of(c, (enum cg_protocol)p, rows, T);
			/* then, of those that are as good, the one with the fewest CTAs */
			if (pass ? x.us <= SLACK * least && x.ctas < best.ctas : x.us < best.us)
				best = x;
		}
	}
	return best;
}

/*
 * By the machine's table where it has the form.  A form that it has not, though it has the other,
 * does not win by what the model says of it: it is for chains that cannot do without.
 */
static struct cg_choice select_rows(const struct cg_case *c, uint64_t T, int rows)
{
	struct cg_choice best = cg_measured(c, T, rows), other;

	if (best.protocol != CG_AUTO)
		return best;
	best = select_unmeasured(c, T, rows);
	other = rows < 0 ? none() : cg_measured(c, T, -1);
	if (other.protocol != CG_AUTO && best.us < 2 * other.us)
		best.us = 2 * other.us;
	return best;
}

static struct cg_choice default_rows(const struct cg_case *c, int rows)
{
	for (size_t i = 0; i < COUNT(for_many); i++)
		if (candidate(c, for_many[i]) && cg_has_form(for_many[i], rows))
			return choice_of(c, for_many[i], rows, CG_MANY_ROWS);
	return none();
}

struct cg_choice cg_select(const struct cg_case *c, uint64_t T)
{
	return select_rows(c, T, -1);
}

struct cg_choice cg_select_default(const struct cg_case *c)
{
	return default_rows(c, -1);
}

bool cg_select_chain(const struct cg_case *c, unsigned n, uint64_t T, struct cg_choice *out)
{
	double sum[2] = {0, 0};
	int best;

	for (int r = 0; r < 2; r++)
		for (unsigned i = 0; i < n; i++)
			sum[r] += T ? select_rows(&c[i], T, r).us : default_rows(&c[i], r).us;
	/* by default own rows, where they can be */
	best = T ? sum[IR_ROWS_ALL] < sum[IR_ROWS_OWN] : isinf(sum[IR_ROWS_OWN]);
	for (unsigned i = 0; i < n; i++)
		out[i] = isinf(sum[best]) ? none()
		         : T              ? select_rows(&c[i], T, best)
		                          : default_rows(&c[i], best);
	return !isinf(sum[best]);
}

/* ---- a case ---- */

static void add_traffic(struct cg_traffic *t, const struct ir_func *f)
{
	for (const struct ir_value *v = f->first; v; v = v->next) {
		const struct ir_type q = cg_is_load(v) || cg_is_store(v) ? f->param[v->param].type
		                                                         : (struct ir_type){0};
		uint64_t bytes = q.ndim == 2 ? (uint64_t)q.cols * cg_dtype_bytes(q.dtype) : 0;

		if (v->op == IR_OP_LOAD_SUM)
			t->sums += bytes;
		else if (cg_is_store(v) && q.place == IR_REPLICATED)
			t->gathers += bytes;
		else
			t->local += bytes;
	}
}

/* NULL where protocol p can do f; else the reason that cg_compile would give. */
static const char *refusal(const struct ir_func *f, const struct cg_options *o, enum cg_protocol p,
                           struct arena *a)
{
	struct cg_options with = *o;
	struct cg_plan plan;
	struct diags d;
	struct cg_rowprog *rp;

	with.protocol = p;
	diags_init(&d, a);
	rp = cg_rowprog_new(f, a, &d);
	if (rp && cg_plan_make(&plan, rp, &with, a, &d))
		return plan.communicates || p == CG_LOCAL ? NULL : "it does not communicate";
	return d.head ? d.head->text : "it cannot be compiled";
}

void cg_case_make(struct cg_case *c, const struct ir_func *own, const char *no_own,
                  const struct ir_func *all, const char *no_all, const struct cg_options *o,
                  bool multicast, struct arena *a)
{
	const struct ir_func *any = own ? own : all;

	*c = (struct cg_case){.kernel = any ? any->name : "",
	                      .target = o->target,
	                      .multicast = multicast,
	                      .tp = o->tp};
	if (any)
		add_traffic(&c->row, any);
	for (int i = CG_AUTO + 1; i < CG_NPROTOCOLS; i++) {
		enum cg_protocol p = (enum cg_protocol)i;
		const struct cg_protocol_info *q = &cg_protocol_info[i];
		const struct ir_func *f = q->rows == CG_ROWS_OWN   ? own
		                          : q->rows == CG_ROWS_ALL ? all
		                                                   : any;

		if (q->memory == CG_SYM_MULTICAST && !multicast)
			c->why_not[i] = "there is no multicast";
		else if (!f)
			c->why_not[i] = q->rows == CG_ROWS_ALL ? no_all : no_own;
		else
			c->why_not[i] = refusal(f, o, p, a);
		c->can |= c->why_not[i] ? 0 : 1u << i;
	}
}

/* ---- what is printed ---- */

unsigned cg_costs(const struct cg_case *c, uint64_t T, struct cg_choice *out)
{
	uint32_t left = 0;
	unsigned n = 0;

	for (int p = CG_AUTO + 1; p < CG_NPROTOCOLS; p++)
		left |= candidate(c, (enum cg_protocol)p) ? 1u << p : 0;
	while (left) {
		struct cg_choice best = none();

		for (int p = 0; p < CG_NPROTOCOLS; p++)
			if (left >> p & 1) {
				struct cg_choice x = choice_of(c, (enum cg_protocol)p, -1, T);

				best = x.us < best.us ? x : best;
			}
		if (best.protocol == CG_AUTO)
			break;
		left &= ~(1u << best.protocol);
		out[n++] = best;
	}
	return n;
}

const char *cg_costs_text(const struct cg_case *c, uint64_t T, struct arena *a)
{
	struct cg_choice x[CG_NPROTOCOLS];
	unsigned n = cg_costs(c, T, x);
	const char *s = "";

	for (unsigned i = 0; i < n; i++)
		s = arena_printf(a, "%s%s%s %.1f us", s, *s ? ", " : "",
		                 cg_protocol_name(x[i].protocol), x[i].us);
	return s;
}

/* The last T of [T, CG_MAX_ROWS] with choice x, which is that of T; choices do not come back. */
static uint64_t same_until(const struct cg_case *c, uint64_t T, const struct cg_choice *x)
{
	uint64_t step = 1, at = T;

	while (at + step <= CG_MAX_ROWS && step) {
		struct cg_choice y = cg_select(c, at + step);

		if (y.protocol != x->protocol || y.source != x->source) {
			if (step == 1)
				return at;
			step = 1;
			continue;
		}
		at += step;
		step = step < 1 + at / 16 ? step * 2 : step;
	}
	return CG_MAX_ROWS;
}

bool cg_select_range(const struct cg_case *c, uint64_t from, struct cg_range *r)
{
	if (from > CG_MAX_ROWS)
		return false;
	*r = (struct cg_range){.from = from, .choice = cg_select(c, from)};
	if (r->choice.protocol == CG_AUTO)
		return false;
	r->to = same_until(c, from, &r->choice);
	return true;
}

void cg_print_select(const struct cg_case *c, struct arena *a, struct strbuf *out)
{
	const char *kind = c->multicast ? "multicast" : "no multicast";
	struct cg_range r;

	strbuf_printf(out, "selection of %s: target %s, %s, tp %u; sums of %llu bytes a row\n",
	              c->kernel, c->target->name, kind, c->tp, (unsigned long long)c->row.sums);
	for (uint64_t T = 1; cg_select_range(c, T, &r); T = r.to + 1) {
		const struct cg_choice *x = &r.choice;
		const char *range;

		range = r.to >= CG_MAX_ROWS
		                ? T == 1 ? "any T"
		                         : arena_printf(a, "T >= %llu", (unsigned long long)T)
		                : arena_printf(a, "T <= %llu", (unsigned long long)r.to);
		strbuf_printf(out, "  %s: %s, %s%s; at T = %llu: %s\n", range,
		              cg_protocol_name(x->protocol),
		              x->source ? "measured: " : "by the model", x->source ? x->source : "",
		              (unsigned long long)T, cg_costs_text(c, T, a));
	}
	for (int p = CG_AUTO + 1; p < CG_NPROTOCOLS; p++)
		if (c->why_not[p] && p != CG_LOCAL)
			strbuf_printf(out, "  not %s: %s\n", cg_protocol_name((enum cg_protocol)p),
			              c->why_not[p]);
}
