/*
 * Every protocol that communicates, on simulated ranks: one that does not come, one that comes with
 * something else, what is left of a workspace then, and long random lives of one workspace.  Launches
 * are plain, and dependent ones whose T lies in device memory.
 */
#include "tests/unit/unit.h"
#include "frontend/frontend.h"
#include "ir/pass.h"
#include "tools/launch.h"
#include <stdio.h>

enum { RANKS = 3, COLS = 64, ROWS = 6, ABSENT = 2, KERNELS = 2 * CG_NPROTOCOLS };
#define CANARY 0xa5a5u

static const char spec[] =
        "kernel sum(x: bf16[T, 64] partial) -> y: bf16[T, 64] replicated { allow rank_divergence; "
        "out y = all_reduce(x); }\n"
        "kernel twice(x: bf16[T, 64] partial) -> y: bf16[T, 64] replicated { allow "
        "rank_divergence; out y = 2 * all_reduce(x); }\n";

struct kernel {
	const struct cg_kernel *k;
	const struct sim_kernel *s;
	unsigned factor; /* of the sum */
};

struct side { /* one workspace and its buffers */
	struct vf_memory mem;
	struct sim_symmetric at[2]; /* x, y */
	unsigned stream;
};

/* How kernels are launched. */
static const struct mode {
	enum cg_pdl pdl;
	bool in_memory;
} modes[] = {
        {CG_PDL_NONE, false}, {CG_PDL_WAIT, true}, {CG_PDL_EARLY, false}, {CG_PDL_EARLY, true}};
enum { MODES = sizeof modes / sizeof *modes };

struct world {
	struct arena a;
	struct diags d;
	struct sim_options o;
	struct sim *sim;
	struct kernel kernel[KERNELS];
	unsigned n;
	struct side side[2];
	const char *wrong; /* what a host function found first */
};

/* ---- kernels ---- */

static const struct ir_module *module(struct world *w, enum ir_rows rows)
{
	struct fe_options fo = {0};
	struct ir_pass_options po = {.tp = RANKS, .rows = rows};
	const struct source *src = diags_add_source(&w->d, "test.plait", spec, strlen(spec));
	struct ast_file *ast = fe_parse(&w->a, &w->d, src);
	struct ir_module *m = ast ? fe_lower(&w->a, &w->d, ast, &fo) : NULL;

	assert_non_null(m);
	assert_int_equal(ir_run_passes(m, &po, &w->d), ST_OK);
	return m;
}

static void add_kernels(struct world *w, enum cg_protocol p, const struct mode *how)
{
	struct cg_options o = {.tp = RANKS,
	                       .target = cg_target_by_name("sm_90"),
	                       .protocol = p,
	                       .pdl = how->pdl,
	                       .rows_in_memory = how->in_memory};
	const struct ir_module *m = module(w, cg_protocol_rows(p));

	for (const struct ir_func *f = m->funcs; f; f = f->next) {
		struct cg_kernel *k;
		struct strbuf b;

		if (!f->is_kernel)
			continue;
		if (cg_compile(f, &o, &w->a, &w->d, &k) != ST_OK) {
			strbuf_init(&b, &w->a);
			diags_render(&w->d, DIAG_WARNING, &b);
			fail_msg("%s", b.s);
		}
		strbuf_init(&b, &w->a);
		ptx_print(k->module, &b); /* gives lines their numbers */
		w->kernel[w->n++] = (struct kernel){k, NULL, strcmp(f->name, "twice") ? 1 : 2};
	}
}

static bool communicates(enum cg_protocol p)
{
	return p != CG_AUTO && cg_protocol_info[p].memory != CG_SYM_NONE;
}

/* ---- worlds ---- */

static struct world *begin(struct sim_options o)
{
	struct world *w = calloc(1, sizeof *w);

	assert_non_null(w);
	arena_init(&w->a, 0);
	if (setjmp(w->a.oom))
		fail_msg("out of memory");
	diags_init(&w->d, &w->a);
	w->o = o;
	w->o.ranks = RANKS;
	return w;
}

static void end(struct world *w)
{
	arena_free(&w->a);
	free(w);
}

static void make_side(struct world *w, struct side *s, unsigned stream, uint64_t limit_ns)
{
	const struct cg_kernel *all[KERNELS];
	uint16_t canary[ROWS * COLS];

	for (unsigned i = 0; i < w->n; i++)
		all[i] = w->kernel[i].k;
	for (unsigned i = 0; i < ROWS * COLS; i++)
		canary[i] = CANARY;
	vf_memory_new(&s->mem, w->sim, RANKS, limit_ns, all, w->n, ROWS, &w->a);
	s->at[0] = sim_alloc_symmetric(w->sim, sizeof canary, true, "x");
	s->at[1] = sim_alloc_symmetric(w->sim, sizeof canary, true, "y");
	s->stream = stream;
	for (unsigned r = 0; r < RANKS; r++)
		for (unsigned i = 0; i < 2; i++)
			sim_write(w->sim, s->at[i].uc[r], canary, sizeof canary);
}

/* The simulator, with all kernels that were added. */
static void start(struct world *w, unsigned sides, uint64_t limit_ns)
{
	w->sim = sim_new(&w->a, &w->o);
	for (unsigned i = 0; i < w->n; i++) {
		w->kernel[i].s = sim_load(w->sim, w->kernel[i].k->module, w->kernel[i].k->name);
		assert_non_null(w->kernel[i].s);
	}
	for (unsigned i = 0; i < sides; i++)
		make_side(w, &w->side[i], i, limit_ns);
}

static struct world *of_protocol(enum cg_protocol p, const struct mode *how, uint64_t limit_ns,
                                 bool jump_time)
{
	struct world *w = begin((struct sim_options){.jump_time = jump_time});

	add_kernels(w, p, how);
	start(w, 1, limit_ns);
	return w;
}

struct rows { /* for a launch to read */
	uint64_t at;
	uint32_t T;
};

static bool put_rows(void *ctx, struct sim *sim, unsigned rank)
{
	const struct rows *x = ctx;

	(void)rank;
	return sim_write(sim, x->at, &x->T, sizeof x->T);
}

static void launch(struct world *w, struct side *s, const struct kernel *k, unsigned rank,
                   uint32_t T, unsigned wish)
{
	bool in_memory = k->k->plan.rows_in_memory;
	/* where T is read, the argument must not matter, and the grid is for the largest */
	const uint8_t *block = vf_arguments(&s->mem, k->k, s->at, in_memory ? 0 : T, rank, &w->a);

	if (in_memory) {
		struct rows *x = arena_new(&w->a, struct rows);

		*x = (struct rows){s->mem.rows_at[rank], T};
		sim_host(w->sim, rank, s->stream, put_rows, x);
	}
	sim_launch_dynamic(w->sim, rank, s->stream, k->s,
	                   cg_grid(&k->k->plan, in_memory ? ROWS : T, wish), k->k->plan.threads,
	                   k->k->plan.dynamic, block, k->k->param_bytes);
}

static void run(struct world *w)
{
	struct strbuf b;

	if (sim_run(w->sim))
		return;
	strbuf_init(&b, &w->a);
	sim_render_findings(w->sim, &b);
	fail_msg("%s\n%.4000s", w->wrong ? w->wrong : "", b.s);
}

static struct cg_workspace workspace(struct world *w, unsigned rank)
{
	struct cg_workspace ws;

	assert_true(sim_read(w->sim, w->side[0].mem.ws.uc[rank], &ws, sizeof ws));
	return ws;
}

static void assert_nothing_stored(struct world *w, enum cg_protocol p)
{
	for (unsigned r = 0; r < RANKS; r++) {
		uint16_t y[ROWS * COLS];

		sim_read(w->sim, w->side[0].at[1].uc[r], y, sizeof y);
		for (unsigned i = 0; i < ROWS * COLS; i++)
			if (y[i] != CANARY)
				fail_msg("%s: rank %u has stored to row %u", cg_protocol_name(p), r,
				         i / COLS);
	}
}

/* ---- launches with known sums ---- */

struct launch_of { /* launch `n` of a side with T rows, on all ranks */
	struct world *w;
	struct side *s;
	const struct kernel *k;
	unsigned n, T;
};

static uint16_t bf16(unsigned small)
{
	float f = (float)small;
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	return (uint16_t)(bits >> 16);
}

/* An addend from 0 to 15: sums are exact, in whichever order. */
static unsigned addend(const struct launch_of *l, unsigned rank, unsigned i)
{
	return (l->n * 7 + rank * 3 + i * 5 + i / COLS * (1 + rank)) % 16;
}

static bool before(void *ctx, struct sim *sim, unsigned rank)
{
	const struct launch_of *l = ctx;
	uint16_t x[ROWS * COLS], y[ROWS * COLS];

	for (unsigned i = 0; i < ROWS * COLS; i++) {
		x[i] = i < l->T * COLS ? bf16(addend(l, rank, i)) : CANARY;
		y[i] = CANARY;
	}
	return sim_write(sim, l->s->at[0].uc[rank], x, sizeof x) &&
	       sim_write(sim, l->s->at[1].uc[rank], y, sizeof y);
}

static bool after(void *ctx, struct sim *sim, unsigned rank)
{
	const struct launch_of *l = ctx;
	uint16_t y[ROWS * COLS];

	sim_read(sim, l->s->at[1].uc[rank], y, sizeof y);
	for (unsigned i = 0; i < ROWS * COLS; i++) {
		unsigned want = 0;

		for (unsigned r = 0; r < RANKS; r++)
			want += l->k->factor * addend(l, r, i);
		if (y[i] == (i < l->T * COLS ? bf16(want) : CANARY))
			continue;
		l->w->wrong =
		        arena_printf(&l->w->a,
		                     "launch %u (%s, %s, T %u): rank %u row %u column %u is "
		                     "%04x, not %u",
		                     l->n, l->k->k->name, cg_protocol_name(l->k->k->plan.protocol),
		                     l->T, rank, i / COLS, i % COLS, y[i], want);
		return false;
	}
	return true;
}

static void checked_launch(struct world *w, struct side *s, const struct kernel *k, unsigned n,
                           unsigned T, unsigned wish)
{
	struct launch_of *l = arena_new(&w->a, struct launch_of);

	*l = (struct launch_of){w, s, k, n, T};
	for (unsigned r = 0; r < RANKS; r++) {
		sim_host(w->sim, r, s->stream, before, l);
		launch(w, s, k, r, (uint32_t)T, wish);
		sim_host(w->sim, r, s->stream, after, l);
	}
}

static void assert_good(struct world *w)
{
	for (unsigned i = 0; i < 2; i++)
		for (unsigned r = 0; r < RANKS && w->side[i].mem.sim; r++) {
			const char *text = vf_abort_text(&w->side[i].mem, r, &w->a);

			if (text)
				fail_msg("%s", text);
		}
	if (w->wrong)
		fail_msg("%s", w->wrong);
}

/* ---- a rank does not come ---- */

static void assert_time_out_is_recorded(struct world *w, enum cg_protocol p)
{
	unsigned timeouts = 0;

	for (unsigned r = 0; r < RANKS; r++) {
		struct cg_workspace ws = workspace(w, r);

		if (!ws.abort)
			fail_msg("%s: rank %u does not know", cg_protocol_name(p), r);
		if (ws.record.kind != CG_WS_TIMEOUT)
			continue;
		timeouts++;
		assert_int_equal(ws.record.rank, r);
		assert_int_equal(ws.record.peer, ABSENT);
		assert_in_range(ws.record.cta, 0, 1);
		assert_in_range(ws.record.phase, 0, 2);
		assert_int_equal(ws.record.kernel, (uint32_t)w->kernel[0].k->contract);
		assert_true(ws.record.expected != ws.record.seen);
	}
	if (!timeouts)
		fail_msg("%s: no rank has a record", cg_protocol_name(p));
}

/* A world of each protocol that communicates, in each mode. */
static void each_protocol_and_mode(uint64_t limit_ns, bool jump_time,
                                   void (*check)(struct world *w, enum cg_protocol p))
{
	for (int i = 0; i < CG_NPROTOCOLS * MODES; i++) {
		enum cg_protocol p = (enum cg_protocol)(i / MODES);
		struct world *w;

		if (!communicates(p))
			continue;
		w = of_protocol(p, &modes[i % MODES], limit_ns, jump_time);
		check(w, p);
		end(w);
	}
}

static void check_of_a_rank_that_never_comes_all_know_and_only_a_reset_helps(struct world *w,
                                                                             enum cg_protocol p)
{
	for (unsigned r = 0; r < RANKS; r++)
		if (r != ABSENT)
			launch(w, &w->side[0], &w->kernel[0], r, ROWS, 2);
	run(w);
	assert_nothing_stored(w, p);
	assert_time_out_is_recorded(w, p);
	for (unsigned n = 0; n < 2; n++)
		for (unsigned r = 0; r < RANKS; r++)
			launch(w, &w->side[0], &w->kernel[n], r, ROWS, 2);
	run(w);
	assert_nothing_stored(w, p);
	vf_memory_reset(&w->side[0].mem, false, &w->a);
	for (unsigned n = 0; n < 4; n++)
		checked_launch(w, &w->side[0], &w->kernel[n % 2], n, ROWS - n, 2);
	run(w);
	assert_good(w);
}

static void of_a_rank_that_never_comes_all_know_and_only_a_reset_helps(void **state)
{
	(void)state;
	each_protocol_and_mode(100000, true,
	                       check_of_a_rank_that_never_comes_all_know_and_only_a_reset_helps);
}

/* After good launches: what a slot or a buffer holds is then the last launch's. */
static void check_of_a_rank_that_stops_coming_all_know(struct world *w, enum cg_protocol p)
{
	for (unsigned n = 0; n < 5; n++)
		checked_launch(w, &w->side[0], &w->kernel[0], n, ROWS, 2);
	run(w);
	assert_good(w);
	for (unsigned r = 0; r < RANKS; r++)
		if (r != ABSENT)
			launch(w, &w->side[0], &w->kernel[0], r, ROWS, 2);
	run(w);
	assert_time_out_is_recorded(w, p);
}

static void of_a_rank_that_stops_coming_all_know(void **state)
{
	(void)state;
	each_protocol_and_mode(100000, true, check_of_a_rank_that_stops_coming_all_know);
}

/* ---- a rank comes with something else: no time passes, so nothing is waited out ---- */

static void assert_broken_contract(struct world *w, enum cg_protocol p)
{
	unsigned found = 0;

	run(w);
	assert_nothing_stored(w, p);
	for (unsigned r = 0; r < RANKS; r++) {
		struct cg_workspace ws = workspace(w, r);

		if (!ws.abort)
			fail_msg("%s: rank %u does not know", cg_protocol_name(p), r);
		found += ws.record.kind == CG_WS_CONTRACT;
	}
	if (!found)
		fail_msg("%s: no rank has a record", cg_protocol_name(p));
}

static void check_another_number_of_rows_is_a_broken_contract(struct world *w, enum cg_protocol p)
{
	for (unsigned r = 0; r < RANKS; r++)
		launch(w, &w->side[0], &w->kernel[0], r, r == 1 ? ROWS - 1 : ROWS, 1);
	assert_broken_contract(w, p);
}

static void another_number_of_rows_is_a_broken_contract(void **state)
{
	(void)state;
	each_protocol_and_mode(UINT64_MAX, false,
	                       check_another_number_of_rows_is_a_broken_contract);
}

/* T = 0 waits for nobody and tells nobody: where data are the flags, the others miss that rank, and
 * the record names it; with barriers it comes, and is compared. */
static void check_a_rank_without_rows_is_named(struct world *w, enum cg_protocol p)
{
	unsigned named = 0;

	for (unsigned r = 0; r < RANKS; r++)
		launch(w, &w->side[0], &w->kernel[0], r, r == ABSENT ? 0 : ROWS, 1);
	run(w);
	assert_nothing_stored(w, p);
	for (unsigned r = 0; r < RANKS; r++) {
		const char *text = vf_abort_text(&w->side[0].mem, r, &w->a);

		if (cg_push_set(p) < 0 || workspace(w, r).record.kind != CG_WS_TIMEOUT)
			continue;
		named++;
		if (!text || !strstr(text, "rank 2 has not come, or came with no rows"))
			fail_msg("%s: rank %u: %s", cg_protocol_name(p), r,
			         text ? text : "nothing");
	}
	if (cg_push_set(p) < 0)
		assert_broken_contract(w, p);
	else
		assert_int_not_equal(named, 0);
}

static void a_rank_without_rows_is_named(void **state)
{
	(void)state;
	each_protocol_and_mode(100000, true, check_a_rank_without_rows_is_named);
}

static void check_another_kernel_is_a_broken_contract(struct world *w, enum cg_protocol p)
{
	for (unsigned r = 0; r < RANKS; r++)
		launch(w, &w->side[0], &w->kernel[r == 2], r, ROWS, 1);
	assert_broken_contract(w, p);
}

static void another_kernel_is_a_broken_contract(void **state)
{
	(void)state;
	each_protocol_and_mode(UINT64_MAX, false, check_another_kernel_is_a_broken_contract);
}

/* ---- long lives ---- */

static unsigned draw(uint64_t *s, unsigned n)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((*s >> 33) % n);
}

enum { LAUNCHES = 1000 };

/* Kernels and protocols of one row form in random order, row counts and grids that change, one slow
 * rank. */
static void long_life(enum ir_rows rows, bool wrap, const struct mode *how, uint64_t seed)
{
	struct world *w = begin((struct sim_options){.schedule = SIM_SLOW_RANK,
	                                             .slow_rank = 1,
	                                             .seed = seed,
	                                             .sum = SIM_SUM_FAITHFUL,
	                                             .max_steps = UINT64_MAX,
	                                             .max_start_delay = 4096});
	uint64_t random = seed;

	for (int p = 0; p < CG_NPROTOCOLS; p++)
		if (communicates((enum cg_protocol)p) &&
		    cg_protocol_rows((enum cg_protocol)p) == rows)
			add_kernels(w, (enum cg_protocol)p, how);
	assert_true(w->n >= 2);
	start(w, 1, UINT64_MAX);
	vf_memory_reset(&w->side[0].mem, wrap, &w->a);
	for (unsigned n = 0; n < LAUNCHES; n++)
		checked_launch(w, &w->side[0], &w->kernel[draw(&random, w->n)], n,
		               draw(&random, 4) ? draw(&random, ROWS + 1) : 0, draw(&random, 5));
	run(w);
	assert_good(w);
	end(w);
}

static void a_workspace_serves_random_launches_of_own_rows(void **state)
{
	(void)state;
	long_life(IR_ROWS_OWN, true, &modes[0], 1);
	long_life(IR_ROWS_OWN, false, &modes[1], 2);
	long_life(IR_ROWS_OWN, true, &modes[2], 5);
}

static void a_workspace_serves_random_launches_of_all_rows(void **state)
{
	(void)state;
	long_life(IR_ROWS_ALL, true, &modes[0], 3);
	long_life(IR_ROWS_ALL, false, &modes[1], 4);
	long_life(IR_ROWS_ALL, true, &modes[2], 6);
}

static void two_workspaces_serve_two_streams_at_once(void **state)
{
	(void)state;
	for (int p = 0; p < CG_NPROTOCOLS; p++) {
		struct world *w;

		if (!communicates((enum cg_protocol)p))
			continue;
		w = begin((struct sim_options){.schedule = SIM_RANDOM, .seed = (uint64_t)p + 1});
		add_kernels(w, (enum cg_protocol)p, &modes[p % MODES]);
		start(w, 2, UINT64_MAX);
		for (unsigned n = 0; n < 8; n++)
			for (unsigned i = 0; i < 2; i++)
				checked_launch(w, &w->side[i], &w->kernel[(n + i) % 2], n + 3 * i,
				               (n * 5 + i) % (ROWS + 1), n % 3);
		run(w);
		assert_good(w);
		end(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(of_a_rank_that_never_comes_all_know_and_only_a_reset_helps),
	        cmocka_unit_test(of_a_rank_that_stops_coming_all_know),
	        cmocka_unit_test(another_number_of_rows_is_a_broken_contract),
	        cmocka_unit_test(a_rank_without_rows_is_named),
	        cmocka_unit_test(another_kernel_is_a_broken_contract),
	        cmocka_unit_test(a_workspace_serves_random_launches_of_own_rows),
	        cmocka_unit_test(a_workspace_serves_random_launches_of_all_rows),
	        cmocka_unit_test(two_workspaces_serve_two_streams_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
