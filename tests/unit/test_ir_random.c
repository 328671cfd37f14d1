/*
 * Random kernels through everything: the verifier accepts them, their text reads back, and each
 * pass keeps the meaning, bit for bit, in the reference on several ranks, in f32 and in real
 * arithmetic.
 */
#include "tests/unit/ir_fixture.h"
#include "tests/unit/ir_random.h"
#include "ir/eval.h"
#include "ir/pass.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PARAMS = 300 };

struct trial {
	struct ir_fixture *f;
	struct ir_random draw;
	uint64_t seed;
	enum ir_rows rows;
	struct ir_eval_options o;
	struct ir_buffer *in, *want;
	const char *before;
	unsigned nparam;
	unsigned compared; /* passes after which outputs were compared */
	bool failed;
};

static void complain(struct trial *t, const char *pass, const char *what, const char *text)
{
	if (!t->failed)
		fprintf(stderr, "seed %llu, after %s: %s\n%s\n%s\n", (unsigned long long)t->seed,
		        pass, what, t->before, text);
	t->failed = true;
}

/* What is drawn is exact in the dtype; small integers, so that sums of them have no rounding in any
 * order. */
static double draw_number(struct trial *t, enum ir_dtype d, bool integers)
{
	double x = (double)((int)ir_draw(&t->draw, 9) - 4);

	if (x == 0.0 && ir_draw(&t->draw, 2))
		x = -x;
	if (!integers)
		x += (double)ir_draw(&t->draw, 1 << 20) * 0x1p-20;
	return ir_round(d, x);
}

static void fill(struct trial *t, const struct ir_func *k, unsigned p)
{
	const struct ir_type ty = k->param[p].type;
	struct ir_buffer *b = &t->in[p * t->o.tp];

	for (unsigned r = 0; r < t->o.tp; r++) {
		int64_t begin = 0, end = ty.ndim == 2 ? t->o.rows : 1;

		if (ty.place == IR_SHARDED)
			ir_own_rows(t->o.rows, t->o.tp, r, &begin, &end);
		b[r] = b[0];
		if (r && (ty.place == IR_REPLICATED || ty.place == IR_CARRIED))
			continue;
		b[r].rows = end - begin;
		b[r].cols = ty.cols;
		b[r].err = NULL;
		b[r].v = arena_news(&t->f->arena, double, (size_t)(b[r].rows * ty.cols));
		for (int64_t i = 0; i < b[r].rows * ty.cols; i++)
			b[r].v[i] = draw_number(t, (enum ir_dtype)ty.dtype, k->merged_sums);
	}
}

/* In row-owned form a rank knows nothing of rows that are not its own: they are NaN. */
static void forget_rows(struct trial *t, unsigned p)
{
	for (unsigned r = 0; r < t->o.tp; r++) {
		struct ir_buffer *b = &t->in[p * t->o.tp + r];
		size_t n = (size_t)(b->rows * b->cols);
		double *all = b->v;
		int64_t begin, end;

		ir_own_rows(t->o.rows, t->o.tp, r, &begin, &end);
		b->v = arena_news(&t->f->arena, double, n);
		for (size_t i = 0; i < n; i++)
			b->v[i] = (int64_t)i >= begin * b->cols && (int64_t)i < end * b->cols
			                  ? all[i]
			                  : (double)NAN;
	}
}

/* The sign of a zero counts too, unless sums were regrouped. */
static bool same_number(double a, double b, bool signs)
{
	return (a == b && (!signs || !signbit(a) == !signbit(b))) || (isnan(a) && isnan(b));
}

static void compare(struct trial *t, const char *pass, const struct ir_func *k)
{
	struct ir_buffer *have = arena_news(&t->f->arena, struct ir_buffer, MAX_PARAMS * t->o.tp);
	struct ir_module one = {.arena = &t->f->arena, .funcs = (struct ir_func *)(uintptr_t)k};

	if (ir_eval(k, &t->o, t->in, have, &t->f->arena, &t->f->d)) {
		complain(t, pass, ir_shown(t->f), ir_printed(t->f, &one));
		return;
	}
	for (unsigned i = 0; i < k->nparam * t->o.tp; i++) {
		struct ir_buffer *w = &t->want[i], *h = &have[i];

		if (k->param[i / t->o.tp].mode == IR_IN)
			continue;
		if (h->rows != w->rows || h->cols != w->cols)
			complain(t, pass, "other extents", ir_printed(t->f, &one));
		for (int64_t c = 0; !t->failed && c < w->rows * w->cols; c++) {
			if (same_number(h->v[c], w->v[c], !k->merged_sums) &&
			    (h->err[c] < 0) == (w->err[c] < 0))
				continue;
			complain(t, pass,
			         arena_printf(&t->f->arena,
			                      "%s, rank %u, element %d: %.17g is now %.17g",
			                      k->param[i / t->o.tp].name, i % t->o.tp, (int)c,
			                      w->v[c], h->v[c]),
			         ir_printed(t->f, &one));
		}
	}
	t->compared++;
}

static void after_pass(void *ctx, const char *pass, const struct ir_module *m, enum ir_form form)
{
	struct trial *t = ctx;
	const char *text = ir_printed(t->f, m);
	struct ir_module *again = ir_text(t->f, text);
	struct ir_func *k = m->funcs;

	(void)form;
	if (!again || strcmp(ir_printed(t->f, again), text))
		complain(t, pass, "the text does not read back", text);
	while (k->next)
		k = k->next;
	compare(t, pass, k);
}

static void set_up_trial(struct trial *t, struct ir_func *k)
{
	static const unsigned ranks[] = {1, 2, 3, 8};

	t->o.tp = ranks[ir_draw(&t->draw, 4)];
	t->o.rows = (int64_t)ir_draw(&t->draw, 10);
	t->o.mode = ir_draw(&t->draw, 4) ? IR_EVAL_SPEC : IR_EVAL_REAL;
	t->o.sum = IR_SUM_RANK_ORDER;
	t->o.carried = t->rows;
	t->in = arena_news(&t->f->arena, struct ir_buffer, MAX_PARAMS * t->o.tp);
	t->want = arena_news(&t->f->arena, struct ir_buffer, MAX_PARAMS * t->o.tp);
	assert_in_range(k->nparam, 0, MAX_PARAMS);
	for (unsigned p = 0; p < k->nparam; p++)
		if (k->param[p].mode != IR_OUT) {
			fill(t, k, p);
			if (k->param[p].type.place == IR_CARRIED && t->rows == IR_ROWS_OWN)
				forget_rows(t, p);
		}
}

/* Did the passes refuse for a reason that random kernels may give? */
static bool refused_well(const struct diags *d, const struct ir_func *k, enum ir_rows rows)
{
	bool sharded = false;

	for (unsigned p = 0; p < k->nparam; p++)
		sharded |= k->param[p].type.place == IR_SHARDED;
	for (const struct diag *i = d->head; i; i = i->next)
		if (i->severity == DIAG_ERROR && i->code != DIAG_FUSE_COMPUTED &&
		    (i->code != DIAG_ROWS_SHARDED || !sharded || rows == IR_ROWS_OWN))
			return false;
	return true;
}

static unsigned run_trial(uint64_t seed, enum ir_rows rows, bool *whole)
{
	struct ir_fixture f;
	struct trial t = {.f = &f, .seed = seed, .rows = rows, .draw = {.state = ~seed}};
	struct ir_pass_options o = {.rows = rows, .hook = after_pass, .ctx = &t};
	struct ir_module *m;
	struct ir_func *k;
	enum status st;

	arena_init(&f.arena, 0);
	if (setjmp(f.arena.oom))
		fail_msg("out of memory");
	diags_init(&f.d, &f.arena);
	m = ir_module_new(&f.arena);
	k = ir_random_kernel(m, seed);
	t.before = ir_printed(&f, m);
	set_up_trial(&t, k);
	for (struct ir_func *g = m->funcs; g; g = g->next)
		if (!ir_verify(g, IR_FORM_SOURCE, &f.d))
			complain(&t, "nothing", ir_shown(&f), "");
	if (!t.failed && ir_eval(k, &t.o, t.in, t.want, &f.arena, &f.d))
		complain(&t, "nothing", ir_shown(&f), "");
	if (!t.failed) {
		st = ir_run_passes(m, &o, &f.d);
		*whole = st == ST_OK;
		if (st != ST_OK && (st != ST_INPUT || !refused_well(&f.d, k, rows)))
			complain(&t, "the passes", ir_shown(&f), ir_printed(&f, m));
	}
	arena_free(&f.arena);
	if (t.failed)
		fail();
	return t.compared;
}

static void try_kernels(enum ir_rows rows)
{
	const char *n = getenv("IR_RANDOM_TRIALS"), *first = getenv("IR_RANDOM_SEED");
	uint64_t trials = n ? strtoull(n, NULL, 10) : 1200,
	         seed = first ? strtoull(first, NULL, 10) : 1;
	unsigned fused = 0, compared = 0;

	for (uint64_t i = 0; i < trials; i++) {
		bool whole = false;

		compared += run_trial(seed + i, rows, &whole);
		fused += whole;
	}
	print_message("# %u of %u kernels fused, %u comparisons\n", fused, (unsigned)trials,
	              compared);
	if (trials > 100)
		assert_in_range(fused, trials / 3, trials);
}

static void each_pass_keeps_the_meaning_of_random_kernels_on_own_rows(void **state)
{
	(void)state;
	try_kernels(IR_ROWS_OWN);
}

static void each_pass_keeps_the_meaning_of_random_kernels_on_all_rows(void **state)
{
	(void)state;
	try_kernels(IR_ROWS_ALL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(each_pass_keeps_the_meaning_of_random_kernels_on_own_rows),
	        cmocka_unit_test(each_pass_keeps_the_meaning_of_random_kernels_on_all_rows),
	};

	return cmocka_run_group_tests_name("ir random", tests, NULL, NULL);
}
