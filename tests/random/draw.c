/*
 * Draws a kernel statement by statement, on the language's own terms: it knows extents and placements, so that what
 * it writes is meant to be accepted by the frontend.  Every value that nothing reads gets an output of its own.
 */
#include "tests/random/draw.h"
#include <stdbool.h>
#include <stdlib.h>

enum { MAX_VALUES = 96 };
enum place { REPLICATED, SHARDED, CARRIED, PARTIAL };

struct value {
	const char *name;
	int64_t cols;
	unsigned ndim;
	enum place place;
	bool is_bool, used;
};

struct draw {
	uint64_t state;
	struct arena *a;
	struct strbuf params, body, outs;
	struct value v[MAX_VALUES];
	unsigned n, nparam, nout;
	int64_t cols;
	enum place own; /* what a parameter of own rows is called */
	bool whole;     /* all rows on every rank: no collective, no sharded values */
};

static uint32_t below(struct draw *g, uint32_t n)
{
	uint64_t z = (g->state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ (z >> 31)) >> 8) % n;
}

#define PICK(g, of) ((of)[below(g, sizeof(of) / sizeof *(of))])

static const char *const place_name[] = {"replicated", "sharded", "carried", "partial"};
static const char *const dtypes[] = {"bf16", "bf16", "f32", "f16"};
static const char *const casts[] = {"bf16", "f16", "f32", "bf16"};
static const char *const numbers[] = {"0",    "1",     "-1",  "0.5", "2.0",  "1e-5",   "-3.25",
                                      "1e30", "1e-40", "448", "0.1", "3e38", "1e-300", "16777217"};
static const char *const unary[] = {"-",    "abs",     "exp",  "log",  "sqrt",       "rsqrt",
                                    "tanh", "sigmoid", "silu", "gelu", "gelu_quick", "neg"};
static const char *const binary[] = {"+", "-", "*", "/"};
static const char *const compare[] = {"<", "<=", ">", ">=", "==", "!="};
static const char *const reduce[] = {"row_sum", "row_mean", "row_max", "row_min"};
static const char *const group[] = {"group_sum", "group_mean", "group_max", "group_min"};

static void param(struct draw *g, const char *mode, const char *dtype, unsigned ndim, int64_t cols,
                  enum place p)
{
	struct value *v = &g->v[g->n++];

	*v = (struct value){.name = arena_printf(g->a, "p%u", g->nparam),
	                    .cols = cols,
	                    .ndim = ndim,
	                    .place = p};
	strbuf_printf(&g->params, "%s%s%s: %s[", g->nparam++ ? ", " : "", mode, v->name, dtype);
	if (ndim == 2)
		strbuf_printf(&g->params, "T, %lld] %s", (long long)cols, place_name[p]);
	else if (ndim == 1)
		strbuf_printf(&g->params, "%lld]", (long long)cols);
	else
		strbuf_puts(&g->params, "]");
}

/* One of the values so far, often a late one; NULL: a few draws found none that suits. */
static struct value *operand(struct draw *g, bool is_bool)
{
	for (unsigned i = 0; i < 20; i++) {
		unsigned n = g->n > 5 && below(g, 2) ? 5 : g->n;
		struct value *v = &g->v[g->n - 1 - below(g, n)];

		if (v->is_bool == is_bool && v->place != PARTIAL)
			return v;
	}
	return NULL;
}

static bool meet(const struct value *a, const struct value *b, struct value *r)
{
	static const enum place join[3][3] = {{REPLICATED, SHARDED, CARRIED},
	                                      {SHARDED, SHARDED, CARRIED},
	                                      {CARRIED, CARRIED, CARRIED}};

	if (a->cols != b->cols && a->cols != 1 && b->cols != 1)
		return false;
	r->cols = a->cols > b->cols ? a->cols : b->cols;
	r->ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
	r->place = join[a->place][b->place];
	return true;
}

static const char *say(struct value *v)
{
	v->used = true;
	return v->name;
}

/* 'vN = ', or with a dtype; what follows is the value of r. */
static void bind(struct draw *g, struct value r, const char *text)
{
	const char *dtype = !r.is_bool && below(g, 6) == 0 ? PICK(g, casts) : NULL;

	r.name = arena_printf(g->a, "v%u", g->n);
	strbuf_printf(&g->body, "\t%s%s%s = %s;\n", r.name, dtype ? ": " : "", dtype ? dtype : "",
	              text);
	r.used = false;
	g->v[g->n++] = r;
}

static void draw_unary(struct draw *g)
{
	struct value *a = operand(g, false);

	if (a)
		bind(g, *a,
		     arena_printf(g->a, "%s(%s)", below(g, 5) ? PICK(g, unary) : PICK(g, casts),
		                  say(a)));
}

static void draw_number(struct draw *g)
{
	struct value *a = operand(g, false);
	const char *x = PICK(g, numbers), *op = PICK(g, binary);
	bool first = below(g, 2);

	if (a && !(op[0] == '/' && x[0] == '0' && !x[1]))
		bind(g, *a,
		     arena_printf(g->a, "%s %s %s", first ? x : say(a), op, first ? say(a) : x));
}

static void draw_binary(struct draw *g)
{
	struct value *a = operand(g, false), *b = operand(g, false), r = {0};
	uint32_t how = below(g, 9);

	if (!a || !b || !meet(a, b, &r))
		return;
	r.is_bool = how >= 7;
	if (how < 5)
		bind(g, r, arena_printf(g->a, "%s %s %s", say(a), PICK(g, binary), say(b)));
	else if (how < 7)
		bind(g, r,
		     arena_printf(g->a, "%s(%s, %s)", how == 5 ? "min" : "max", say(a), say(b)));
	else
		bind(g, r, arena_printf(g->a, "%s %s %s", say(a), PICK(g, compare), say(b)));
}

static void draw_three(struct draw *g)
{
	bool select = below(g, 2);
	struct value *a = operand(g, select), *b = operand(g, false), *c = operand(g, false),
	             r = {0}, s = {0};

	if (a && b && c && meet(b, c, &r) && meet(a, &r, &s))
		bind(g, s,
		     arena_printf(g->a, "%s(%s, %s, %s)", select ? "select" : "fma", say(a), say(b),
		                  say(c)));
}

static void draw_reduction(struct draw *g)
{
	struct value *a = operand(g, false), *b = operand(g, false), r = {0};
	bool dot = b && below(g, 3) == 0;

	if (!a || !a->ndim || (dot && !meet(a, b, &r)))
		return;
	if (!dot)
		r = *a;
	r.cols = 1;
	if (dot)
		bind(g, r, arena_printf(g->a, "row_dot(%s, %s)", say(a), say(b)));
	else
		bind(g, r, arena_printf(g->a, "%s(%s)", PICK(g, reduce), say(a)));
}

/* The greatest divisor of n that is at most `most`. */
static int64_t divisor(int64_t n, int64_t most)
{
	while (n % most != 0)
		most--;
	return most;
}

static void draw_group(struct draw *g)
{
	struct value *a = operand(g, false), r;
	int64_t n = (int64_t)1 << below(g, 7);
	bool back = below(g, 2) && a && a->cols < g->cols;

	if (!a || !a->ndim)
		return;
	if (below(g, 2)) /* of the row's divisors, odd multiples of powers of two among them */
		n = g->cols / divisor(g->cols, below(g, 48) + 1);
	r = *a;
	if (back && g->cols % a->cols == 0) {
		n = g->cols / a->cols;
		r.cols = g->cols;
		bind(g, r, arena_printf(g->a, "expand(%s, %lld)", say(a), (long long)n));
	} else if (a->cols == g->cols && a->cols % n == 0) {
		r.cols /= n;
		bind(g, r,
		     arena_printf(g->a, "%s(%s, %lld)", PICK(g, group), say(a), (long long)n));
	}
}

static void draw_norm(struct draw *g)
{
	struct value *a = operand(g, false), *w = NULL;

	for (unsigned i = 0; i < g->n; i++)
		if (g->v[i].ndim == 1 && g->v[i].cols == g->cols && !g->v[i].is_bool)
			w = &g->v[i];
	if (!a || a->ndim != 2 || a->cols != g->cols || !w)
		return;
	switch (below(g, 4)) {
	case 0:
		bind(g, *a,
		     arena_printf(g->a, "rmsnorm(%s, %s, eps = 1e-5, offset = %u)", say(a), say(w),
		                  below(g, 2)));
		break;
	case 1:
		bind(g, *a, arena_printf(g->a, "rmsnorm_rounded(%s, %s, 1e-6)", say(a), say(w)));
		break;
	case 2:
		bind(g, *a,
		     arena_printf(g->a, "layernorm_bias(%s, %s, %s, 1e-5)", say(a), say(w),
		                  say(w)));
		break;
	default:
		bind(g, *a, arena_printf(g->a, "l2norm(%s, eps = 1e-12)", say(a)));
		break;
	}
}

/* The sum of a partial parameter; a second one of it now and then. */
static void draw_sum(struct draw *g)
{
	static const char *const how[] = {"all_reduce", "reduce_scatter"};
	struct value *a = &g->v[below(g, g->nparam)], r;
	unsigned scatter = below(g, 2);

	if (a->place != PARTIAL)
		return;
	r = *a;
	r.place = scatter ? SHARDED : REPLICATED;
	bind(g, r, arena_printf(g->a, "%s(%s)", how[scatter], say(a)));
}

typedef void draw_fn(struct draw *g);
static draw_fn *const kinds[] = {draw_unary,     draw_unary,  draw_number, draw_binary,
                                 draw_binary,    draw_binary, draw_three,  draw_three,
                                 draw_reduction, draw_group,  draw_norm,   draw_sum};

/* ---- parameters and outputs ---- */

static void out(struct draw *g, struct value *v)
{
	enum place p = v->place == REPLICATED && (g->whole || below(g, 3)) ? REPLICATED
	               : below(g, 2) && !g->whole                          ? REPLICATED
	                                                                   : g->own;
	const char *dtype = v->cols < g->cols && below(g, 8) ? "f32" : PICK(g, dtypes);

	if (v->ndim < 2)
		p = REPLICATED;
	/* a value of bools leaves as numbers, one of a vector as rows */
	strbuf_printf(&g->outs, "%so%u: %s[T, %lld] %s", g->nout ? ", " : "", g->nout, dtype,
	              (long long)v->cols, place_name[p]);
	strbuf_printf(&g->body, "\tout o%u = ", g->nout++);
	if (v->is_bool)
		strbuf_printf(&g->body, "select(%s, 1, 0)", say(v));
	else
		strbuf_puts(&g->body, say(v));
	strbuf_puts(&g->body, v->ndim < 2 ? " + zero;\n" : ";\n");
}

static void parameters(struct draw *g)
{
	unsigned n = g->whole ? 0 : 1 + below(g, 2);

	for (unsigned i = 0; i < n; i++)
		param(g, "", PICK(g, dtypes), 2, g->cols, PARTIAL);
	n = below(g, 3) + g->whole;
	for (unsigned i = 0; i < n; i++)
		param(g, "", PICK(g, dtypes), 2, g->cols,
		      g->whole || below(g, 2) ? REPLICATED : g->own);
	if (below(g, 2))
		param(g, "", PICK(g, dtypes), 1, g->cols, REPLICATED);
	if (below(g, 3) == 0)
		param(g, "", "f32", 0, 1, REPLICATED);
	if (below(g, 3) == 0)
		param(g, "", PICK(g, dtypes), 2, 1, REPLICATED);
}

/* The parameter anew, from rows of as many columns or from its own. */
static void finish_inout(struct draw *g, const struct value *p, const struct value *rows)
{
	strbuf_printf(&g->body, "\tout %s = %s + zero;\n", p->name,
	              p->cols == rows->cols ? rows->name : arena_printf(g->a, "%s * 0.5", p->name));
}

/* What was not read gets an output; `zero`, [T, 1], turns a vector or scalar to rows. */
static void finish(struct draw *g, bool inout)
{
	unsigned rows = ~0u;

	for (unsigned i = 0; i < g->n; i++) {
		struct value *v = &g->v[i];

		if (v->place == PARTIAL && !v->used) {
			struct value r = *v;

			r.place = REPLICATED;
			bind(g, r, arena_printf(g->a, "all_reduce(%s)", say(v)));
		}
		if (v->place != PARTIAL && v->ndim == 2 && v->cols == g->cols && !v->is_bool)
			rows = i;
	}
	if (rows == ~0u)
		for (unsigned i = 0; i < g->n; i++)
			if (g->v[i].place != PARTIAL && g->v[i].ndim == 2 && !g->v[i].is_bool &&
			    g->v[i].cols == g->cols)
				rows = i;
	strbuf_printf(&g->body, "\tzero = select(row_sum(%s) == 0, 0, 0.0 * 1);\n",
	              say(&g->v[rows]));
	for (unsigned i = 0; i < g->n; i++)
		if (!g->v[i].used && !(inout && i == g->nparam - 1))
			out(g, &g->v[i]);
	if (!g->nout)
		out(g, &g->v[rows]);
	if (inout)
		finish_inout(g, &g->v[g->nparam - 1], &g->v[rows]);
	else
		strbuf_puts(&g->body, "\tout z = zero;\n");
	if (!inout)
		strbuf_printf(&g->outs, "%sz: f32[T, 1]", g->nout ? ", " : "");
}

struct drawn draw_spec(struct arena *a, uint64_t seed)
{
	static const int64_t widths[] = {2,   4,   6,   8,   10,  16,  24,   32,   64,   66,  96,
	                                 128, 160, 256, 258, 384, 512, 1000, 1024, 2048, 2880};
	static const unsigned ranks[] = {1, 2, 3, 4, 5, 7, 8, 11, 16};
	struct draw g = {.state = seed * 0x2545f4914f6cdd1du + 1, .a = a};
	struct drawn r;
	struct strbuf all;
	unsigned n;
	bool inout;

	strbuf_init(&g.params, a);
	strbuf_init(&g.body, a);
	strbuf_init(&g.outs, a);
	strbuf_init(&all, a);
	r.tp = PICK(&g, ranks);
	r.tokens = below(&g, 4) ? (int64_t)below(&g, 2 * r.tp + 3) : (int64_t)below(&g, 40);
	g.cols = PICK(&g, widths);
	g.own = below(&g, 2) ? SHARDED : CARRIED;
	g.whole = below(&g, 5) == 0;
	parameters(&g);
	inout = !g.whole && below(&g, 2);
	if (inout)
		param(&g, "inout ", PICK(&g, dtypes), 2,
		      below(&g, 4) ? g.cols : g.cols / divisor(g.cols, below(&g, 9) + 1), CARRIED);
	n = 1 + below(&g, below(&g, 4) ? 12 : 40);
	for (unsigned i = 0; i < n && g.n < MAX_VALUES - 16; i++)
		PICK(&g, kinds)(&g);
	finish(&g, inout);
	strbuf_printf(&all, "kernel k(%s)%s%s\n{\n%s}\n", g.params.s,
	              g.nout || !inout ? " -> " : "", g.outs.s, g.body.s);
	r.text = all.s;
	return r;
}
