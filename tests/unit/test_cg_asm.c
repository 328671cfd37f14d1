/* What ptxas makes of the kernels: no spills, and loads that stay where they were issued. */
#include "tests/unit/cg_world.h"
#include "tests/unit/cubin.h"

enum { LDGMC = 0x9a5, BAR = 0xb1d, STG = 0x986, LDG = 0x981 };

static void assert_no_spills(struct cg_fixture *f, const struct cg_kernel *k, const char *arch)
{
	struct cubin_result r = cubin_run(&f->arena, cg_text(f, k), arch);
	const char *used = strstr(r.log, "Used ");
	unsigned regs = used ? (unsigned)strtoul(used + 5, NULL, 10) : 0;
	const struct cg_plan *p = &k->plan;

	if (!strstr(r.log, " 0 bytes spill stores, 0 bytes spill loads"))
		fail_msg("%s, %lld columns, %s: %s", k->name, (long long)p->cols, arch, r.log);
	assert_true(regs > 0 && regs * p->threads <= p->target->regs_per_sm);
}

static void nothing_is_spilled_for(struct cg_fixture *f, const char *kernel)
{
	static const unsigned hidden[] = {128, 1000, 2880, 4096, 5120, 5376, 8192, 9216, 16384};

	SKIP_UNLESS(ptxas_path(), "ptxas");
	for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
		for (unsigned arch = 0; arch < 2; arch++) {
			const char *name = arch ? "sm_100" : "sm_90";

			assert_no_spills(f, cg_must(f, cg_norms, kernel, hidden[i], name), name);
			arena_free(&f->arena);
			cg_begin(f);
		}
}

static void rmsnorm_does_not_spill(void **state)
{
	nothing_is_spilled_for(*state, "add_norm");
}

static void layernorm_does_not_spill(void **state)
{
	nothing_is_spilled_for(*state, "layer");
}

static void sandwich_norm_does_not_spill(void **state)
{
	nothing_is_spilled_for(*state, "sandwich");
}

/*
 * In the loop, between two barriers of slots: the in-switch loads of a later row, before the
 * barrier that ends the level. Only so are as many rows in flight as the plan says.
 */
static void in_switch_loads_stand_before_the_barrier(void **state)
{
	struct cg_fixture *f = *state;
	const struct cg_kernel *k = cg_must(f, cg_norms, "add_norm", 8192, "sm_90");
	unsigned since = 0, barriers = 0, slots = 0, first = k->plan.in_flight * k->plan.vecs;
	struct cubin_result r;
	const uint16_t *op;
	size_t n = 0;

	SKIP_UNLESS(ptxas_path(), "ptxas");
	r = cubin_run(&f->arena, cg_text(f, k), "sm_90");
	op = cubin_opcodes(&f->arena, &r, &n);
	for (size_t i = 0; i < n; i++) {
		since += op[i] == LDGMC;
		if (op[i] != BAR)
			continue;
		barriers++;
		if (barriers > 1 && barriers < k->plan.in_flight + 2) {
			/* the first slot's barrier also has the loads that start the pipeline
			 * before it */
			assert_int_equal(since, k->plan.vecs + (barriers == 2 ? first : 0));
			slots++;
		}
		since = 0;
	}
	assert_int_equal(slots, k->plan.in_flight);
	assert_int_equal(since, 0);
	assert_true(k->plan.bytes_in_flight >= 65536);
}

static void keywords_of_ptx_are_good_names(void **state)
{
	static const char *const names[] = {"add", "ret",    "reg",  "entry", "sin",
	                                    "bra", "texref", "pred", "min"};
	struct cg_fixture *f = *state;

	SKIP_UNLESS(ptxas_path(), "ptxas");
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		const char *spec = arena_printf(
		        &f->arena,
		        "kernel %s(mov: bf16[T, 64]) -> u32: bf16[T, 64] { out u32 = mov; }",
		        names[i]);

		cubin_run(&f->arena, cg_text(f, cg_must(f, spec, NULL, 0, "sm_90")), "sm_90");
	}
}

static void every_target_assembles(void **state)
{
	static const char *const targets[] = {"sm_90",   "sm_90a", "sm_100",
	                                      "sm_100a", "sm_103", "sm_120"};
	struct cg_fixture *f = *state;

	SKIP_UNLESS(ptxas_path(), "ptxas");
	for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
		cubin_run(&f->arena, cg_text(f, cg_must(f, cg_norms, "add_norm", 512, targets[i])),
		          targets[i]);
}

static void every_order_assembles(void **state)
{
	struct cg_fixture *f = *state;
	struct cg_options o = cg_defaults(f, "sm_90");

	SKIP_UNLESS(ptxas_path(), "ptxas");
	for (unsigned i = CG_FORMAL; i <= CG_STRICT; i++) {
		struct cg_kernel *k;

		o.order = (enum cg_order)i;
		k = cg_kernel_of(f, cg_norms, "add_norm", 512, &o);
		assert_non_null(k);
		cubin_run(&f->arena, cg_text(f, k), "sm_90");
	}
}

/* Of all rows or own rows, in every protocol: no spills at 8192 columns, at 2, 8 and 16 ranks. */
static void no_protocol_spills(void **state)
{
	static const unsigned tp[] = {2, 8, 16};
	static const char norm[] =
	        "const hidden = 8192;\n"
	        "kernel add_norm(x: bf16[T, hidden] partial, inout residual: bf16[T, hidden] "
	        "carried, gamma: bf16[hidden])\n"
	        "    -> y: bf16[T, hidden] replicated { allow rank_divergence;\n"
	        "    h = all_reduce(x) + residual; out residual = h; out y = rmsnorm(h, gamma, eps "
	        "= 1e-5); }\n";
	struct cg_fixture *f = *state;

	SKIP_UNLESS(ptxas_path(), "ptxas");
	for (int p = CG_AUTO + 1; p < CG_NPROTOCOLS; p++)
		for (unsigned i = 0; i < 3; i++) {
			const char *arch = i ? "sm_90" : "sm_100";
			struct cg_options o = cg_defaults(f, arch);

			if (p == CG_LOCAL)
				continue;
			o.tp = tp[i];
			o.protocol = (enum cg_protocol)p;
			assert_no_spills(f, world_kernel(f, norm, NULL, 8192, &o), arch);
			arena_free(&f->arena);
			cg_begin(f);
		}
}

static void peer_protocols_assemble_for_sm_80(void **state)
{
	static const enum cg_protocol peers[] = {CG_P2P_TWOSHOT, CG_PUSH};
	static const char *const targets[] = {"sm_80", "sm_90", "sm_103", "sm_120"};
	struct cg_fixture *f = *state;

	SKIP_UNLESS(ptxas_path(), "ptxas");
	for (unsigned i = 0; i < 8; i++) {
		struct cg_options o = cg_defaults(f, targets[i / 2]);
		struct cg_kernel *k;

		o.protocol = peers[i % 2];
		o.order = (enum cg_order)(i % 3);
		k = world_kernel(f, cg_norms, "add_norm", 512, &o);
		assert_int_equal(k->module->sm, 80);
		cubin_run(&f->arena, cg_text(f, k), targets[i / 2]);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cg_set_up, cg_tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(rmsnorm_does_not_spill),
	        TEST(layernorm_does_not_spill),
	        TEST(sandwich_norm_does_not_spill),
	        TEST(in_switch_loads_stand_before_the_barrier),
	        TEST(keywords_of_ptx_are_good_names),
	        TEST(every_target_assembles),
	        TEST(every_order_assembles),
	        TEST(no_protocol_spills),
	        TEST(peer_protocols_assemble_for_sm_80),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
