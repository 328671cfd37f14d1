/*
 * Rows wider than registers: where they are kept, what is refused and with what advice, that the bits are those of rows in
 * registers, and that groups of any even size have theirs.
 */
#include "tests/unit/cg_world.h"
#include "tests/unit/cubin.h"

/* clang-format off */
static const char norm[] =
	"const hidden = 65536;\n"
	"kernel norm(x: bf16[T, hidden] partial, inout r: bf16[T, hidden] carried, g: bf16[hidden]) -> y: bf16[T, hidden]\n"
	"{ allow rank_divergence; h: bf16 = all_reduce(x) + r; out r = h; out y = rmsnorm(h, g, eps = 1e-5); }\n"
	"kernel norm_f32(x: f32[T, hidden] partial, inout r: f32[T, hidden] carried, g: f32[hidden]) -> y: f32[T, hidden]\n"
	"{ allow rank_divergence; h = all_reduce(x) + r; out r = h; out y = rmsnorm(h, g, eps = 1e-5); }\n"
	"kernel two(x: f32[T, hidden] partial, z: f32[T, hidden] partial) -> (y: f32[T, hidden], u: f32[T, hidden])\n"
	"{ a = all_reduce(x); b = all_reduce(z); m = row_max(a) * row_max(b); out y = a * m; out u = b * m; }\n"
	"kernel own(x: f32[T, hidden], z: f32[T, hidden]) -> (y: f32[T, hidden], u: f32[T, hidden])\n"
	"{ m = row_max(x) * row_max(z); out y = x * m; out u = z * m; }\n";
/* clang-format on */

static struct cg_kernel *compiled(struct cg_fixture *f, const char *name, unsigned hidden,
                                  enum cg_protocol p, const char *target)
{
	struct cg_options o = cg_defaults(f, target);

	o.protocol = p;
	return world_kernel(f, norm, name, hidden, &o);
}

static void every_protocol_does_rows_of_65536(void **state)
{
	static const unsigned hidden[] = {16386, 20480, 32768, 65536};
	static const enum cg_protocol protocols[] = {CG_MM_TWOSHOT, CG_MM_ONESHOT, CG_P2P_TWOSHOT,
	                                             CG_PUSH, CG_MM_PUSH};
	struct cg_fixture *f = *state;

	for (unsigned i = 0; i < 4 * 5 * 2; i++) {
		const struct cg_plan *p = &compiled(f, i % 2 ? "norm" : "norm_f32", hidden[i / 10],
		                                    protocols[i / 2 % 5], "sm_90")
		                                   ->plan;

		assert_int_equal(p->threads, 1024);
		assert_true(p->vecs * p->elems <= 64);
		assert_true(p->wide || p->vecs * p->elems <= 24);
		assert_true(p->smem + p->dynamic <= p->target->smem_per_cta);
		if (p->wide)
			assert_int_equal(p->in_flight, 1);
		arena_free(&f->arena);
		cg_begin(f);
	}
}

static void rows_that_registers_hold_stay_there(void **state)
{
	assert_false(compiled(*state, "norm", 16384, CG_MM_TWOSHOT, "sm_90")->plan.wide);
	assert_false(compiled(*state, "norm_f32", 16384, CG_PUSH, "sm_90")->plan.wide);
}

static void what_shared_memory_lacks_is_in_registers(void **state)
{
	static const struct {
		const char *kernel, *target;
		unsigned parked;
	} cases[] = {{"norm", "sm_90", 8},
	             {"norm", "sm_80", 8},
	             {"norm", "sm_120", 6},
	             {"norm_f32", "sm_90", 7}};
	struct cg_fixture *f = *state;

	for (unsigned i = 0; i < 4; i++) {
		const struct cg_plan *p =
		        &compiled(f, cases[i].kernel, 65536, CG_P2P_TWOSHOT, cases[i].target)->plan;
		struct strbuf b;

		assert_int_equal(p->vecs, 8);
		assert_int_equal(p->parked, cases[i].parked);
		strbuf_init(&b, &f->arena);
		cg_print_plan(compiled(f, cases[i].kernel, 65536, CG_P2P_TWOSHOT, cases[i].target),
		              &b);
		assert_non_null(strstr(
		        b.s, arena_printf(&f->arena, "%u vectors of a thread parked in %u bytes",
		                          p->parked, p->dynamic)));
	}
}

/* Two rows of f32 do not fit at once; but what is only an input is read again. */
static void inputs_are_read_again_where_they_do_not_fit(void **state)
{
	const struct cg_kernel *k = compiled(*state, "own", 65536, CG_AUTO, "sm_90");
	unsigned loads = 0;

	assert_true(k->plan.wide && k->plan.reread);
	assert_int_equal(k->plan.dynamic, 0);
	for (uint32_t i = 0; i < k->module->fn->ninsn; i++)
		loads += k->module->fn->insn[i].op == PTX_ld &&
		         k->module->fn->insn[i].mod.space == PTX_GLOBAL;
	assert_int_equal(loads, 2 * 2 * 8 * 2); /* levels, inputs, vectors, 16 bytes each */
	assert_false(compiled(*state, "own", 20480, CG_AUTO, "sm_90")->plan.reread);
}

/* A sum is loaded once, whatever is parked. */
static void sums_are_loaded_once(void **state)
{
	const struct cg_kernel *k = compiled(*state, "norm", 65536, CG_MM_TWOSHOT, "sm_90");
	unsigned loads = 0;

	for (uint32_t i = 0; i < k->module->fn->ninsn; i++)
		loads += k->module->fn->insn[i].op == PTX_mm_ld;
	assert_int_equal(loads, k->plan.vecs);
}

static void what_does_not_fit_is_refused_with_advice(void **state)
{
	static const struct {
		const char *kernel;
		unsigned hidden;
		enum cg_protocol protocol;
		const char *says;
	} cases[] = {
	        {"two", 65536, CG_P2P_TWOSHOT, "takes 524288 bytes"},
	        {"norm", 65538, CG_MM_TWOSHOT, "rows of up to 65536 elements"},
	        {"norm", 32768, CG_P2P_BULK, "use --protocol p2p-twoshot"},
	};
	struct cg_fixture *f = *state;

	for (unsigned i = 0; i < 3; i++) {
		struct cg_options o = cg_defaults(f, "sm_90");

		o.protocol = cases[i].protocol;
		assert_null(cg_kernel_of(f, norm, cases[i].kernel, cases[i].hidden, &o));
		if (!strstr(cg_shown(f), "E808") || !strstr(cg_shown(f), cases[i].says))
			fail_msg("%s", cg_shown(f));
		arena_free(&f->arena);
		cg_begin(f);
	}
}

/* ---- the same bits ---- */

enum { COLS = 1000, ROWS = 5, TP = 3 };

static void run(struct cg_fixture *f, enum cg_protocol p, bool wide, const char *kernel,
                uint16_t *y)
{
	static const char spec[] =
	        "kernel norm(x: bf16[T, 1000] partial) -> y: bf16[T, 1000]\n"
	        "{ h = all_reduce(x); c = h - row_mean(h); out y = c * rsqrt(row_dot(c, c)); }\n"
	        "kernel groups(x: bf16[T, 1000] partial) -> y: bf16[T, 1000]\n"
	        "{ h = all_reduce(x); out y = h - expand(group_mean(h, 200), 200) * "
	        "expand(group_max(h, 10), 10); }\n";
	struct sim_options so = {.ranks = TP, .seed = 7};
	struct cg_options o = cg_defaults(f, "sm_90");
	struct world w = {.f = f, .o = so, .tp = TP, .cols = COLS, .most = ROWS, .size = 2};
	struct loaded l;

	w.sim = sim_new(&f->arena, &w.o);
	world_memory(&w, COLS * 2 + 16, 0, 7);
	for (unsigned r = 0; r < TP; r++) {
		uint16_t x[ROWS * COLS];

		for (unsigned i = 0; i < ROWS * COLS; i++)
			x[i] = (uint16_t)(0x3c00 + (i * 2654435761u + r * 40503u) % 1024);
		assert_true(sim_write(w.sim, w.x.uc[r], x, sizeof x));
	}
	o.tp = TP;
	o.protocol = p;
	o.wide = wide;
	l.k = world_kernel(f, spec, kernel, 0, &o);
	assert_int_equal(l.k->plan.wide, wide);
	cg_text(f, l.k);
	l.s = sim_load(w.sim, l.k->module, l.k->name);
	assert_non_null(l.s);
	for (unsigned r = 0; r < TP; r++)
		world_launch(&w, l, r, ROWS, 2);
	world_run(&w);
	assert_true(sim_read(w.sim, w.y.uc[1], y, ROWS * COLS * 2));
}

static void rows_in_shared_memory_have_the_bits_of_rows_in_registers(void **state)
{
	static const enum cg_protocol protocols[] = {CG_P2P_TWOSHOT, CG_PUSH, CG_MM_PUSH};
	static const char *const kernels[] = {"norm", "groups"};
	static uint16_t first[ROWS * COLS], y[ROWS * COLS];

	for (unsigned k = 0; k < 2; k++) {
		run(*state, CG_P2P_TWOSHOT, false, kernels[k], first);
		assert_true(first[0] || first[1]);
		for (unsigned i = 0; i < 3; i++) {
			run(*state, protocols[i], true, kernels[k], y);
			assert_memory_equal(first, y, sizeof y);
		}
	}
}

/* ---- the assembler ---- */

static unsigned spilled(struct cg_fixture *f, const struct cg_kernel *k, const char *arch)
{
	struct cubin_result r = cubin_run(&f->arena, cg_text(f, k), arch);
	const char *at = strstr(r.log, "bytes spill stores");
	unsigned n = 0, digit = 1;

	assert_non_null(at);
	for (at -= 2; *at >= '0' && *at <= '9'; at--, digit *= 10)
		n += digit * (unsigned)(*at - '0');
	return n;
}

/* A thread has 64 registers here: some bytes of addresses are spilled where 64 elements go through them. */
static void little_is_spilled(void **state)
{
	static const enum cg_protocol protocols[] = {CG_MM_TWOSHOT, CG_P2P_TWOSHOT, CG_PUSH,
	                                             CG_MM_PUSH};
	struct cg_fixture *f = *state;

	SKIP_UNLESS(ptxas_path(), "ptxas");
	for (unsigned i = 0; i < 8; i++) {
		unsigned hidden = i / 4 ? 65536 : 20480;
		enum cg_protocol p = protocols[i % 4];
		unsigned n = spilled(f, compiled(f, "norm", hidden, p, "sm_90"), "sm_90");

		if (n > (hidden > 32768 ? 48 : 0))
			fail_msg("%s, %u: %u bytes", cg_protocol_name(p), hidden, n);
		arena_free(&f->arena);
		cg_begin(f);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cg_set_up, cg_tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(every_protocol_does_rows_of_65536),
	        TEST(rows_that_registers_hold_stay_there),
	        TEST(what_shared_memory_lacks_is_in_registers),
	        TEST(inputs_are_read_again_where_they_do_not_fit),
	        TEST(sums_are_loaded_once),
	        TEST(what_does_not_fit_is_refused_with_advice),
	        TEST(rows_in_shared_memory_have_the_bits_of_rows_in_registers),
	        TEST(little_is_spilled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
