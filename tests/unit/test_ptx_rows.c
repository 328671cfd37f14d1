/*
 * Every row of insns.def with every type and every combination of modifiers: text both ways, ptxas
 * at the least version and target, below them, and on what the verifier refuses.
 */
#include "tests/unit/unit.h"
#include "tests/unit/ptx_rows.h"
#include "tests/unit/ptxas.h"

/*
 * Where the installed ptxas (13.0) takes what the document (PTX ISA 9.1) and so the verifier
 * refuses: these rows only, each at least once.
 */
static const struct lax {
	enum ptx_op op;
	const char *what;
} lax[] = {
        {PTX_cvt, ".f16 of .bf16 without rounding, .rm and .rp to .bf16, .ftz with integers"},
        {PTX_fma, "any rounding of .f16"},
        {PTX_ld, "vectors of 256 bits of any type and space"},
        {PTX_st, "vectors of 256 bits of any type and space"},
        {PTX_atom, "an order without a scope (the document has a default, we do not)"},
        {PTX_atom_cas, "an order without a scope"},
        {PTX_atom_exch, "an order without a scope"},
        {PTX_red, "an order without a scope"},
        {PTX_mm_red, ".min and .max of vectors of 16-bit floating point"},
};
/* Taken below the documented version or target: fence.acquire and .release anywhere, cvt .satfinite
 * on sm_75. */
static bool lax_below(const struct ptx_insn *i)
{
	return i->op == PTX_fence || (i->op == PTX_cvt && i->mod.sat == PTX_SATFINITE);
}

enum { MAX_CASES = 1 << 15 };

struct cases {
	struct ptx_insn *i;
	unsigned n, seen, stride;
	bool legal;
};

static void collect(const struct ptx_insn *i, void *ctx)
{
	struct cases *c = ctx;

	if ((ptx_combination(i) == NULL) != c->legal || c->n == MAX_CASES || c->seen++ % c->stride)
		return;
	c->i[c->n++] = *i;
}

/* The legal (or every stride-th illegal) combinations of rows [from, to). */
static struct cases take(struct arena *a, enum ptx_op from, enum ptx_op to, bool legal,
                         unsigned stride)
{
	struct cases c = {arena_news(a, struct ptx_insn, MAX_CASES), 0, 0, stride, legal};

	for (enum ptx_op op = from; op < to; op++)
		rows_each(op, collect, &c);
	assert_true(c.n < MAX_CASES);
	return c;
}

static struct ptx_module *module_of(struct arena *a, const struct ptx_insn *i, unsigned n,
                                    unsigned version, unsigned sm)
{
	struct ptx_module *m = ptx_module_new(a, version, sm, 0);
	struct row_state s;

	rows_begin(&s, m, "k");
	for (unsigned k = 0; k < n; k++)
		row_emit(&s, &i[k]);
	rows_end(&s);
	return m;
}

static const char *rendered(const struct diags *d)
{
	struct strbuf b;

	strbuf_init(&b, d->arena);
	diags_render(d, DIAG_REMARK, &b);
	return b.s;
}

/* Prints, parses, prints the row's legal combinations; returns how many there are. */
static unsigned round_trip(struct arena *a, enum ptx_op op)
{
	struct cases c = take(a, op, op + 1, true, 1);
	struct ptx_module *m = module_of(a, c.i, c.n, 90, 100), *back;
	struct strbuf text, again;
	struct diags d;

	diags_init(&d, a);
	strbuf_init(&text, a);
	strbuf_init(&again, a);
	assert_true(c.n > 0);
	ptx_print(m, &text);
	if (!ptx_verify(m, &d))
		fail_msg("%s", rendered(&d));
	back = ptx_parse(a, &d, diags_add_source(&d, "text", text.s, text.n));
	if (!back || !ptx_verify(back, &d))
		fail_msg("%s", rendered(&d));
	ptx_print(back, &again);
	assert_string_equal(text.s, again.s);
	assert_int_equal(back->fn->ninsn, m->fn->ninsn);
	for (uint32_t k = 0; k < m->fn->ninsn; k++) {
		const struct ptx_insn *x = &m->fn->insn[k], *y = &back->fn->insn[k];

		assert_int_equal(x->op, y->op);
		assert_int_equal(x->type, y->type);
		assert_memory_equal(&x->mod, &y->mod, sizeof x->mod);
		assert_int_equal(x->line, y->line);
	}
	return c.n;
}

static void every_legal_combination_prints_and_parses_as_itself(void **state)
{
	static unsigned total;

	(void)state;
	for (enum ptx_op op = 0; op < PTX_NOPS; op++) {
		struct arena a;

		arena_init(&a, 0);
		if (setjmp(a.oom))
			fail();
		total += round_trip(&a, op);
		arena_free(&a);
	}
	assert_true(total > 5000);
}

/* ---- ptxas ---- */

/* The least version and target to test with: ptxas 13.0 knows sm_75 and later. */
static void testable_needs(const struct ptx_insn *i, unsigned *version, unsigned *sm)
{
	static const uint8_t known[] = {75, 80, 90, 100};
	unsigned want;

	ptx_insn_needs(i, version, sm);
	want = *sm;
	for (size_t k = sizeof known; k-- > 0;)
		if (known[k] >= want)
			*sm = known[k];
	if (ptx_target_version(*sm, 0) > *version)
		*version = ptx_target_version(*sm, 0);
}

struct group {
	unsigned version, sm, n;
	struct ptx_insn *i;
};

static unsigned group_by_needs(struct arena *a, const struct cases *c, struct group *g,
                               unsigned max)
{
	unsigned n = 0;

	for (unsigned k = 0; k < c->n; k++) {
		unsigned version, sm, at = 0;

		testable_needs(&c->i[k], &version, &sm);
		while (at < n && (g[at].version != version || g[at].sm != sm))
			at++;
		if (at == n) {
			assert_true(n < max);
			g[n++] = (struct group){version, sm, 0,
			                        arena_news(a, struct ptx_insn, c->n)};
		}
		g[at].i[g[at].n++] = c->i[k];
	}
	return n;
}

/* Assembles the group at a version and target; calls judge for each of its instructions. */
static void assemble(struct arena *a, const struct group *g, unsigned version, unsigned sm,
                     void (*judge)(const struct ptx_fn *f, const struct ptx_insn *i, bool accepted,
                                   void *ctx),
                     void *ctx)
{
	struct ptx_module *m = module_of(a, g->i, g->n, version, sm);
	struct strbuf text;
	char first[2048];
	bool *wrong;
	unsigned lines;
	int ok;

	strbuf_init(&text, a);
	ptx_print(m, &text);
	lines = m->fn->insn[m->fn->ninsn - 1].line + 4;
	wrong = arena_news(a, bool, lines + 1);
	ok = ptxas_run(text.s, text.n, sm, 0, wrong, lines, first, sizeof first);
	assert_true(ok >= 0);
	if (!ok && !strstr(first, ", line "))
		fail_msg("%s", first);
	for (uint32_t k = 0; k + 1 < m->fn->ninsn; k++)
		if (k >= 2)
			judge(m->fn, &m->fn->insn[k], ok || !wrong[m->fn->insn[k].line], ctx);
}

static const char *text_of(const struct ptx_fn *f, const struct ptx_insn *i)
{
	struct strbuf b;

	strbuf_init(&b, f->module->arena);
	ptx_print_insn(f, i, &b);
	return b.s;
}

static void must_be_accepted(const struct ptx_fn *f, const struct ptx_insn *i, bool accepted,
                             void *ctx)
{
	(void)ctx;
	if (!accepted)
		fail_msg("ptxas refuses '%s' at .version %u, sm_%u", text_of(f, i),
		         f->module->version, f->module->sm);
}

static void ptxas_accepts_every_combination_at_its_minimum(void **state)
{
	struct arena a;
	struct group g[32];
	struct cases c;
	unsigned n;

	(void)state;
	NEED_PTXAS;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail();
	c = take(&a, 0, PTX_NOPS, true, 1);
	n = group_by_needs(&a, &c, g, 32);
	for (unsigned k = 0; k < n; k++)
		assemble(&a, &g[k], g[k].version, g[k].sm, must_be_accepted, NULL);
	arena_free(&a);
}

static void must_be_refused(const struct ptx_fn *f, const struct ptx_insn *i, bool accepted,
                            void *ctx)
{
	unsigned *refused = ctx;

	*refused += !accepted;
	if (accepted && !lax_below(i))
		fail_msg("ptxas takes '%s' at .version %u, sm_%u", text_of(f, i),
		         f->module->version, f->module->sm);
}

/* The instructions whose own needs (not only the target's) exceed the version or the target. */
static struct group above(struct arena *a, const struct group *g, unsigned version, unsigned sm)
{
	struct group r = {version, sm, 0, arena_news(a, struct ptx_insn, g->n)};

	for (unsigned k = 0; k < g->n; k++) {
		unsigned v, s;

		ptx_insn_needs(&g->i[k], &v, &s);
		if (v > version || s > sm)
			r.i[r.n++] = g->i[k];
	}
	return r;
}

static void ptxas_refuses_what_needs_a_later_version_or_target(void **state)
{
	static const struct {
		uint8_t version, sm;
	} below[] = {{63, 75}, {90, 75}, {70, 80}, {90, 80},
	             {78, 90}, {80, 90}, {81, 90}, {90, 90}};
	struct arena a;
	struct group all;
	struct cases c;
	static unsigned refused; /* kept across the jump */

	(void)state;
	NEED_PTXAS;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail();
	c = take(&a, 0, PTX_NOPS, true, 1);
	all = (struct group){.n = c.n, .i = c.i};
	for (size_t k = 0; k < sizeof below / sizeof below[0]; k++) {
		struct group g = above(&a, &all, below[k].version, below[k].sm);

		if (g.n)
			assemble(&a, &g, g.version, g.sm, must_be_refused, &refused);
	}
	assert_true(refused > 1000);
	arena_free(&a);
}

static void note_lax(const struct ptx_fn *f, const struct ptx_insn *i, bool accepted, void *ctx)
{
	unsigned *taken = ctx;

	if (!accepted)
		return;
	for (size_t k = 0; k < sizeof lax / sizeof lax[0]; k++)
		if (lax[k].op == i->op) {
			taken[k]++;
			return;
		}
	fail_msg("the verifier refuses what ptxas takes: '%s' (%s)", text_of(f, i),
	         ptx_combination(i));
}

static void what_the_verifier_refuses_ptxas_refuses_but_for_a_list(void **state)
{
	bool all = getenv("PLAIT_TEST_ALL") && strcmp(getenv("PLAIT_TEST_ALL"), "1") == 0;
	unsigned taken[sizeof lax / sizeof lax[0]] = {0};

	(void)state;
	NEED_PTXAS;
	for (enum ptx_op op = 0; op < PTX_NOPS; op++) {
		bool few = op == PTX_cvt || (op >= PTX_ld && op <= PTX_mm_red);
		struct arena a;
		struct cases c;
		struct group g;

		arena_init(&a, 0);
		if (setjmp(a.oom))
			fail();
		c = take(&a, op, op + 1, false, !few ? 1 : all ? 7 : 31);
		g = (struct group){.n = c.n, .i = c.i};
		if (c.n)
			assemble(&a, &g, 90, 100, note_lax, taken);
		arena_free(&a);
	}
	for (size_t k = 0; k < sizeof lax / sizeof lax[0]; k++)
		if (!taken[k])
			fail_msg("%s is no longer laxer: %s", ptx_insn_info[lax[k].op].name,
			         lax[k].what);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(every_legal_combination_prints_and_parses_as_itself),
	        cmocka_unit_test(ptxas_accepts_every_combination_at_its_minimum),
	        cmocka_unit_test(ptxas_refuses_what_needs_a_later_version_or_target),
	        cmocka_unit_test(what_the_verifier_refuses_ptxas_refuses_but_for_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
