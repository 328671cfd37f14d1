/* Kernel plans: the shape follows from the row's length, the registers suffice, and what cannot be
 * done is said. */
#include "codegen/emit.h"
#include "tests/unit/cg_fixture.h"

/* clang-format off */
static const char *const norms[] = {
	"%%h = add %%x, %%r : f32[T, %1$u] sharded\n"
	"%%ss = row_dot %%h, %%h : f32[T, 1] sharded %%i = rsqrt %%ss : f32[T, 1] sharded\n"
	"%%a = mul %%h, %%i : f32[T, %1$u] sharded %%o = mul %%a, %%g : f32[T, %1$u] sharded\n",
	"%%h = add %%x, %%r : f32[T, %1$u] sharded\n"
	"%%m = row_mean %%h : f32[T, 1] sharded %%c = sub %%h, %%m : f32[T, %1$u] sharded\n"
	"%%ss = row_dot %%c, %%c : f32[T, 1] sharded %%i = rsqrt %%ss : f32[T, 1] sharded\n"
	"%%a = mul %%c, %%i : f32[T, %1$u] sharded %%b = mul %%a, %%g : f32[T, %1$u] sharded\n"
	"%%o = add %%b, %%w : f32[T, %1$u] sharded\n",
	"%%s1 = row_dot %%x, %%x : f32[T, 1] sharded %%i1 = rsqrt %%s1 : f32[T, 1] sharded\n"
	"%%a1 = mul %%x, %%i1 : f32[T, %1$u] sharded %%b1 = mul %%a1, %%g : f32[T, %1$u] sharded\n"
	"%%h = add %%b1, %%r : f32[T, %1$u] sharded\n"
	"%%s2 = row_dot %%h, %%h : f32[T, 1] sharded %%i2 = rsqrt %%s2 : f32[T, 1] sharded\n"
	"%%a2 = mul %%h, %%i2 : f32[T, %1$u] sharded %%o = mul %%a2, %%w : f32[T, %1$u] sharded\n",
};
static const char head[] =
	"kernel k(in x: bf16[T, %1$u] partial, inout r: bf16[T, %1$u] carried, in g: bf16[%1$u], in w: bf16[%1$u],\n"
	"	out y: bf16[T, %1$u] replicated) {\n"
	"%%x = load_sum x : bf16[T, %1$u] sharded %%r = load r : bf16[T, %1$u] sharded\n"
	"%%g = load g : bf16[%1$u] %%w = load w : bf16[%1$u]\n";
static const char tail[] =
	"%%hb = cast %%h : bf16[T, %1$u] sharded store r = %%hb\n"
	"%%ob = cast %%o : bf16[T, %1$u] sharded store_all y = %%ob }\n";
/* clang-format on */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static char *ir_norm(struct arena *a, unsigned which, unsigned cols)
{
	const char *parts[] = {head, norms[which], tail};
	char *s = arena_alloc(a, 4096);
	size_t n = 0;

	for (unsigned i = 0; i < 3; i++)
		n += (size_t)snprintf(s + n, 4096 - n, parts[i], cols);
	return s;
}
#pragma GCC diagnostic pop

/* What one CTA may use of an SM, without the margin: four partitions of 512 registers a lane. */
static unsigned reg_limit(const struct cg_plan *p)
{
	unsigned r = 512 / ((p->threads / 32 + 3) / 4) / 8 * 8;

	return r < 255 ? r : 255;
}

static void check_plan(const struct cg_plan *p, unsigned cols, unsigned which)
{
	bool good = p->threads % 32 == 0 && p->threads >= 32 && p->threads <= 1024 &&
	            cols % p->elems == 0 && p->threads * p->vecs * p->elems >= cols &&
	            p->threads * (p->vecs - 1) * p->elems < cols && p->elems * p->vecs <= 16 &&
	            p->in_flight >= 1 && p->in_flight <= 8 && p->est_regs <= reg_limit(p) &&
	            p->smem <= p->target->smem_per_cta && p->own_rows && p->communicates;

	if (!good)
		fail_msg("cols %u, norm %u: %u threads, %u vectors of %u, %u rows, %u registers of "
		         "%u",
		         cols, which, p->threads, p->vecs, p->elems, p->in_flight, p->est_regs,
		         reg_limit(p));
}

static void every_even_row_length_has_a_plan(void **state)
{
	struct cg_fixture *f = *state;

	for (unsigned cols = 2; cols <= 16384; cols += 2) {
		unsigned threads = 0;

		for (unsigned which = 0; which < 3; which++) {
			struct cg_options o = {.tp = 8, .target = cg_target_by_name("sm_90")};
			const char *text = ir_norm(&f->arena, which, cols);
			struct ir_module *m =
			        ir_parse(&f->arena, &f->d,
			                 diags_add_source(&f->d, "t.ir", text, strlen(text)));
			struct cg_rowprog *rp =
			        m ? cg_rowprog_new(m->funcs, &f->arena, &f->d) : NULL;
			struct cg_plan p;

			if (!rp || !cg_plan_make(&p, rp, &o, &f->arena, &f->d))
				fail_msg("%u: %s", cols, cg_shown(f));
			check_plan(&p, cols, which);
			assert_true(!threads || threads == p.threads);
			threads = p.threads;
		}
		arena_free(&f->arena);
		cg_begin(f);
	}
}

static void the_reduction_is_no_deeper_than_the_class_allows(void **state)
{
	struct cg_fixture *f = *state;

	for (unsigned hidden = 128; hidden <= 16384; hidden *= 2) {
		const struct cg_plan *p = &cg_must(f, cg_norms, NULL, hidden, "sm_90")->plan;
		unsigned depth = p->elems * p->vecs / 2 + 1 + 5;

		for (unsigned warps = 1; warps < p->threads / 32; warps *= 2)
			depth++;
		assert_true(depth <= ir_reduction_depth(hidden));
	}
}

static void hidden_8192_keeps_64_KB_in_flight(void **state)
{
	static const char *const kernels[] = {"add_norm", "layer", "sandwich"};

	for (unsigned i = 0; i < 3; i++) {
		const struct cg_plan *p =
		        &cg_must(*state, cg_norms, kernels[i], 8192, "sm_90")->plan;

		assert_int_equal(p->threads, 512);
		assert_int_equal(p->vecs, 2);
		assert_int_equal(p->in_flight, 4);
		assert_true(p->bytes_in_flight >= 65536);
	}
}

static void stages_count_row_reductions_in_sequence(void **state)
{
	assert_int_equal(cg_must(*state, cg_norms, "add_norm", 0, "sm_90")->plan.stages, 2);
	assert_int_equal(cg_must(*state, cg_norms, "layer", 0, "sm_90")->plan.stages, 3);
	assert_int_equal(cg_must(*state, cg_norms, "sandwich", 0, "sm_90")->plan.stages, 3);
}

static void independent_reductions_share_a_stage(void **state)
{
	static const char spec[] = "kernel k(x: bf16[T, 512]) -> y: f32[T, 512]\n"
	                           "{ out y = (x - row_min(x)) / (row_max(x) + row_sum(x)); }";
	const struct cg_kernel *k = cg_must(*state, spec, NULL, 0, "sm_90");
	unsigned barriers = 0;

	assert_int_equal(k->plan.stages, 2);
	for (uint32_t i = 0; i < k->module->fn->ninsn; i++)
		barriers += k->module->fn->insn[i].op == PTX_bar_sync;
	assert_int_equal(barriers, k->plan.threads > 32 ? k->plan.in_flight : 0);
}

static void the_grid_follows_from_plan_and_T(void **state)
{
	const struct cg_plan *p = &cg_must(*state, cg_norms, NULL, 0, "sm_90")->plan;

	assert_int_equal(cg_grid(p, 0, 0), 1);
	assert_int_equal(cg_grid(p, 1, 4), 1);
	assert_int_equal(cg_grid(p, 8, 4), 1);
	assert_int_equal(cg_grid(p, 9, 4), 2);
	assert_int_equal(cg_grid(p, 4096, 4), 4);
	assert_int_equal(cg_grid(p, UINT64_C(1) << 40, 4096), CG_MAX_CTAS);
	assert_true(cg_grid(p, 4096, 0) <= p->max_ctas);
}

static void the_contract_changes_with_what_ranks_must_agree_on(void **state)
{
	static const char other_eps[] = "kernel add_norm(x: bf16[T, 512] partial, g: bf16[512]) -> "
	                                "y: bf16[T, 512] replicated\n"
	                                "{ out y = rmsnorm(all_reduce(x), g, eps = 1e-6); }";
	static const char eps[] = "kernel add_norm(x: bf16[T, 512] partial, g: bf16[512]) -> y: "
	                          "bf16[T, 512] replicated\n"
	                          "{ out y = rmsnorm(all_reduce(x), g, eps = 1e-5); }";
	struct cg_fixture *f = *state;
	struct cg_options o = cg_defaults(f, "sm_90");
	uint64_t base = cg_kernel_of(f, eps, NULL, 0, &o)->contract;

	assert_true(cg_kernel_of(f, eps, NULL, 0, &o)->contract == base);
	assert_true(cg_kernel_of(f, other_eps, NULL, 0, &o)->contract != base);
	o.tp = 4;
	assert_true(cg_kernel_of(f, eps, NULL, 0, &o)->contract != base);
	o.tp = 8;
	o.in_flight = 2;
	assert_true(cg_kernel_of(f, eps, NULL, 0, &o)->contract != base);
	o.in_flight = 0;
	o.order = CG_HW;
	assert_true(cg_kernel_of(f, eps, NULL, 0, &o)->contract != base);
}

struct refused {
	const char *spec, *code;
	enum cg_protocol protocol;
	const char *target;
	unsigned tp;
};

/* clang-format off */
static const struct refused refusals[] = {
	{"kernel k(x: bf16[T, 129] partial) -> y: bf16[T, 129] replicated { out y = all_reduce(x); }", "E805", CG_AUTO, "sm_90", 8},
	{"kernel k(x: bf16[T, 131072]) -> y: bf16[T, 131072] { out y = x * rsqrt(row_dot(x, x)); }", "E808", CG_AUTO, "sm_90", 8},
	{"kernel k(x: bf16[T, 128] partial) -> y: bf16[T, 128] replicated { out y = all_reduce(x); }", "E809", CG_LOCAL, "sm_90", 8},
	{"kernel k(x: bf16[T, 128] partial) -> y: bf16[T, 128] replicated { out y = all_reduce(x); }", "E809", CG_AUTO, "sm_80", 8},
	{"kernel k(x: bf16[T, 128] partial) -> y: bf16[T, 128] replicated { out y = all_reduce(x); }", "E809", CG_P2P_BULK, "sm_80", 8},
	{"kernel k(x: bf16[T, 124] partial) -> y: bf16[T, 124] replicated { out y = all_reduce(x); }", "E809", CG_P2P_BULK, "sm_90", 8},
	{"kernel k(x: bf16[T, 128] partial) -> y: f32[T, 128] replicated { out y = all_reduce(x, out = f32); }", "E809",
	 CG_AUTO, "sm_90", 8},
	{"kernel k(x: bf16[T, 128] partial) -> y: bf16[T, 128] replicated { deterministic; out y = all_reduce(x); }", "E809",
	 CG_AUTO, "sm_90", 8},
	{"kernel k(x: bf16[T, 128]) -> y: bf16[T, 128] { out y = x; }", "E810", CG_AUTO, "sm_90", 17},
	{"kernel k(x: bf16[T, 168]) -> y: f32[T, 8] { out y = group_sum(x, 21); }", "E804", CG_AUTO, "sm_90", 8},
	{"kernel k(x: bf16[T, 15996]) -> y: f32[T, 2666] { out y = group_sum(x, 6) + group_max(x, 6); }", "E804", CG_AUTO, "sm_90", 8},
	{"kernel k(x: bf16[T, 128], z: bf16[T, 96]) -> (y: bf16[T, 128], u: bf16[T, 96]) { out y = x; out u = z; }", "E803",
	 CG_AUTO, "sm_90", 8},
	{"kernel k(x: bf16[T, 128]) -> y: e4m3[T, 128] { out y = x; }", "E802", CG_AUTO, "sm_90", 8},
	{"kernel _(x: bf16[T, 128]) -> y: bf16[T, 128] { out y = x; }", "E812", CG_AUTO, "sm_90", 8},
	{"kernel WARP_SZ(x: bf16[T, 128]) -> y: bf16[T, 128] { out y = x; }", "E812", CG_AUTO, "sm_90", 8},
};
/* clang-format on */

static void what_cannot_be_done_is_refused_with_a_code(void **state)
{
	struct cg_fixture *f = *state;

	for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
		const struct refused *r = &refusals[i];
		struct cg_options o = cg_defaults(f, r->target);

		o.protocol = r->protocol;
		o.tp = r->tp;
		if (!cg_fused(f, r->spec, 0, 8))
			fail_msg("%s", cg_shown(f));
		if (cg_kernel_of(f, r->spec, NULL, 0, &o))
			fail_msg("compiled: %s", r->spec);
		if (!strstr(cg_shown(f), r->code))
			fail_msg("not %s: %s\n%s", r->code, r->spec, cg_shown(f));
		arena_free(&f->arena);
		cg_begin(f);
	}
}

/* Three thousand multiplications of each of 8192 elements: more than a function of PTX may hold. */
static void a_kernel_too_long_for_ptx_is_refused(void **state)
{
	struct cg_fixture *f = *state;
	struct cg_options o = cg_defaults(f, "sm_90");
	struct strbuf b;

	strbuf_init(&b, &f->arena);
	strbuf_puts(&b, "kernel k(x: bf16[T, 8192]) -> y: bf16[T, 8192] { v0 = x + 1;");
	for (unsigned i = 1; i < 3000; i++)
		strbuf_printf(&b, " v%u = v%u * x;", i, i - 1);
	strbuf_puts(&b, " out y = v2999; }");
	if (cg_kernel_of(f, b.s, NULL, 0, &o))
		fail_msg("compiled");
	if (!strstr(cg_shown(f), "E813") || strstr(cg_shown(f), "E714"))
		fail_msg("%s", cg_shown(f));
}

/* Fused IR that specs do not give, or not yet. */
static void fused_programs_that_cannot_be_done_are_refused(void **state)
{
	/* clang-format off */
	static const char *const cases[][2] = {
		{"E809", "kernel k(in x: bf16[T, 64] partial, out y: bf16[T, 64] replicated) {\n"
			 "%x = load_sum x : bf16[T, 64] replicated store y = %x }"},
		{"E807", "kernel k(in x: bf16[T, 64] sharded, in z: bf16[T, 64] replicated, out y: bf16[T, 64] sharded,\n"
			 "	out w: bf16[T, 64] replicated) {\n"
			 "%x = load x : bf16[T, 64] sharded %z = load z : bf16[T, 64] replicated store y = %x store w = %z }"},
		{"E811", "kernel k(in x: bf16[T, 64] replicated ld 65, out y: bf16[T, 64] replicated) {\n"
			 "%x = load x : bf16[T, 64] replicated store y = %x }"},
		{"E801", "kernel k(in x: bf16[T, 64] partial, out y: bf16[T, 64] replicated) {\n"
			 "%x = param x %y = all_reduce %x out y = %y }"},
	};
	/* clang-format on */
	struct cg_fixture *f = *state;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct cg_options o = cg_defaults(f, "sm_90");
		const char *text = cases[i][1];
		struct ir_module *m = ir_parse(&f->arena, &f->d,
		                               diags_add_source(&f->d, "t.ir", text, strlen(text)));
		struct cg_kernel *k;

		o.protocol = i == 0 ? CG_MM_TWOSHOT : CG_AUTO;
		if (!m)
			fail_msg("%s", cg_shown(f));
		assert_int_equal(cg_compile(m->funcs, &o, &f->arena, &f->d, &k), ST_INPUT);
		if (!strstr(cg_shown(f), cases[i][0]))
			fail_msg("not %s: %s", cases[i][0], cg_shown(f));
		arena_free(&f->arena);
		cg_begin(f);
	}
}

static void accesses_are_as_wide_as_the_leading_dimension_allows(void **state)
{
	static const char text[] = "kernel k(in x: bf16[T, 64] replicated ld 68, out y: bf16[T, "
	                           "64] replicated ld 66) {\n"
	                           "%x = load x : bf16[T, 64] replicated store y = %x }";
	struct cg_fixture *f = *state;
	struct cg_options o = cg_defaults(f, "sm_90");
	struct ir_module *m =
	        ir_parse(&f->arena, &f->d, diags_add_source(&f->d, "t.ir", text, strlen(text)));
	struct cg_kernel *k;

	assert_non_null(m);
	assert_int_equal(cg_compile(m->funcs, &o, &f->arena, &f->d, &k), ST_OK);
	for (uint32_t i = 0; i < k->module->fn->ninsn; i++) {
		const struct ptx_insn *in = &k->module->fn->insn[i];

		if (in->op == PTX_ld && in->mod.space == PTX_GLOBAL)
			assert_int_equal(in->mod.vec, 2);
		if (in->op == PTX_st)
			assert_int_equal(in->mod.vec, 0);
	}
}

static void names_are_known_both_ways(void **state)
{
	(void)state;
	assert_int_equal(cg_protocol_by_name("mm-twoshot"), CG_MM_TWOSHOT);
	assert_int_equal(cg_protocol_by_name("twoshot"), -1);
	assert_string_equal(cg_protocol_name(CG_LOCAL), "local");
	assert_int_equal(cg_order_by_name("strict"), CG_STRICT);
	assert_null(cg_target_by_name("sm_1"));
	assert_int_equal(cg_target_by_name("sm_100a")->suffix, 'a');
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cg_set_up, cg_tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(every_even_row_length_has_a_plan),
	        TEST(the_reduction_is_no_deeper_than_the_class_allows),
	        TEST(hidden_8192_keeps_64_KB_in_flight),
	        TEST(stages_count_row_reductions_in_sequence),
	        TEST(independent_reductions_share_a_stage),
	        TEST(the_grid_follows_from_plan_and_T),
	        TEST(the_contract_changes_with_what_ranks_must_agree_on),
	        TEST(what_cannot_be_done_is_refused_with_a_code),
	        TEST(fused_programs_that_cannot_be_done_are_refused),
	        TEST(a_kernel_too_long_for_ptx_is_refused),
	        TEST(accesses_are_as_wide_as_the_leading_dimension_allows),
	        TEST(names_are_known_both_ways),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
