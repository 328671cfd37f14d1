/* The text of kernels: what is loaded and stored, how often, in what order; golden files; failing
 * allocations. */
#include "tests/unit/cg_world.h"
#include <stdlib.h>

#define GOLDEN "tests/golden/codegen/"

static unsigned bits_of(const struct ptx_insn *i)
{
	return ptx_type_info[i->type].bits * (i->mod.vec ? i->mod.vec : 1);
}

/* Accesses of rows: the barriers' own are scalars. */
static bool moves_row(const struct ptx_insn *i)
{
	return (i->op == PTX_mm_ld || i->op == PTX_mm_st || i->op == PTX_ld || i->op == PTX_st) &&
	       i->mod.space == PTX_GLOBAL && i->mod.vec;
}

static unsigned count(const struct cg_kernel *k, enum ptx_op op, bool nc)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < k->module->fn->ninsn; i++) {
		const struct ptx_insn *in = &k->module->fn->insn[i];

		n += in->op == op && moves_row(in) && in->mod.nc == nc;
	}
	return n;
}

static void rows_move_in_16_byte_accesses(void **state)
{
	static const char *const kernels[] = {"add_norm", "layer", "sandwich"};

	for (unsigned n = 0; n < 3; n++) {
		const struct cg_kernel *k = cg_must(*state, cg_norms, kernels[n], 8192, "sm_90");

		for (uint32_t i = 0; i < k->module->fn->ninsn; i++) {
			const struct ptx_insn *in = &k->module->fn->insn[i];

			if (moves_row(in))
				assert_int_equal(bits_of(in), 128);
			else if (in->op == PTX_mm_ld || in->mod.nc)
				fail_msg("a narrow access of a row in %s", kernels[n]);
		}
	}
}

/* Twice the rows in flight: the loads that start the pipeline, and those of the loop. */
static void every_row_is_loaded_and_stored_once(void **state)
{
	const struct cg_kernel *k = cg_must(*state, cg_norms, "add_norm", 8192, "sm_90");
	unsigned once = k->plan.vecs * k->plan.in_flight;

	assert_int_equal(count(k, PTX_mm_ld, false), 2 * once);
	/* the residual; and the weight, once for all rows */
	assert_int_equal(count(k, PTX_ld, false), 2 * once + k->plan.vecs);
	assert_int_equal(count(k, PTX_ld, true), 0);
	assert_int_equal(count(k, PTX_st, false), once);
	assert_int_equal(count(k, PTX_mm_st, false), once);
}

/* In each slot: the residual's stores, then the loads of a later row, then the barrier, then the
 * result's stores. */
static void loads_are_issued_right_before_the_barrier(void **state)
{
	const struct cg_kernel *k = cg_must(*state, cg_norms, "add_norm", 8192, "sm_90");
	const struct ptx_fn *f = k->module->fn;
	char order[4096];
	size_t n = 0;

	for (uint32_t i = 0; i < f->ninsn && n < sizeof order - 1; i++) {
		const struct ptx_insn *in = &f->insn[i];
		char c = in->op == PTX_bar_sync ? 'B'
		         : !moves_row(in)       ? 0
		         : in->op == PTX_mm_ld  ? 'L'
		         : in->op == PTX_mm_st  ? 'Y'
		         : in->op == PTX_st     ? 'R'
		         : in->mod.nc           ? 0
		                                : 'l';

		if (c && (!n || order[n - 1] != c))
			order[n++] = c;
	}
	order[n] = 0;
	/* the weight, entry barrier, four rows to start with, four slots, exit barrier */
	assert_string_equal(order, "lBLlLlLlLl"
	                           "RLlBY"
	                           "RLlBY"
	                           "RLlBY"
	                           "RLlBY"
	                           "B");
}

/* Is instruction `at` in a loop? */
static bool in_loop(const struct ptx_fn *f, uint32_t at)
{
	for (uint32_t i = at; i < f->ninsn; i++) {
		const struct ptx_insn *in = &f->insn[i];

		if (in->op == PTX_bra && f->label[in->o[0].reg[0]].at <= at)
			return true;
	}
	return false;
}

/* One of them may have a row less: a barrier of the whole CTA would wait for it in vain.  Elements
 * that several threads load and one stores anew need a barrier in each row. */
static void teams_meet_among_themselves_in_the_loop_over_rows(void **state)
{
	static const char spec[] = "const hidden = 1024;\n"
	                           "kernel scaled(x: bf16[T, hidden] partial, inout s: f32[T, 1] "
	                           "carried) -> y: bf16[T, "
	                           "hidden]\n"
	                           "{ out y = all_reduce(x) * s; out s = s * 0.5; }\n"
	                           "kernel grouped(x: bf16[T, hidden] partial, inout s: f32[T, 16] "
	                           "carried) -> y: bf16[T, "
	                           "hidden]\n"
	                           "{ out y = all_reduce(x) * expand(s, 64); out s = s * 0.5; }\n";
	static const char *const kernels[] = {"scaled", "grouped"};
	struct cg_fixture *f = *state;
	struct cg_options o = cg_defaults(f, "sm_90");

	o.tp = 2;
	o.protocol = CG_P2P_BULK;
	for (unsigned n = 0; n < 2; n++) {
		const struct cg_kernel *k = world_kernel(f, spec, kernels[n], 0, &o);
		const struct ptx_fn *fn = k->module->fn;
		unsigned own = 0;

		assert_true(k->plan.teams > 1);
		for (uint32_t i = 0; i < fn->ninsn; i++) {
			own += fn->insn[i].op == PTX_bar_syncn;
			if (fn->insn[i].op == PTX_bar_sync && in_loop(fn, i))
				fail_msg("all teams of '%s' meet in the loop", kernels[n]);
		}
		assert_true(own >=
		            3); /* before stores, behind the part of a row, at the row's end */
	}
}

static void a_kernel_that_does_not_communicate_runs_everywhere(void **state)
{
	static const char spec[] =
	        "kernel k(x: bf16[T, 512]) -> y: bf16[T, 512] { out y = silu(x); }";
	struct cg_fixture *f = *state;
	const struct cg_kernel *k = cg_must(f, spec, NULL, 0, "sm_90");

	assert_int_equal(k->plan.protocol, CG_LOCAL);
	assert_false(k->plan.communicates);
	assert_int_equal(k->module->version, 70);
	assert_int_equal(k->module->sm, 80);
	assert_null(strstr(cg_text(f, k), "multimem"));
	assert_null(strstr(cg_text(f, k), "bar.sync"));
	assert_int_equal(k->narg, 3);
}

/* One rank's sum is its addend, from +0: the text needs nothing of other ranks. */
static void at_one_rank_every_kernel_is_local(void **state)
{
	static const char *const kernels[] = {"add_norm", "layer", "sandwich"};
	static const char *const foreign[] = {"multimem", ".sys", " ws", "mbarrier", "_peers"};
	struct cg_fixture *f = *state;
	struct cg_options o = cg_defaults(f, "sm_80");

	o.tp = 1;
	for (unsigned i = 0; i < 6; i++) {
		const struct cg_kernel *k;

		o.protocol = i < 3 ? CG_AUTO : CG_LOCAL;
		k = cg_kernel_of(f, cg_norms, kernels[i % 3], 512, &o);
		assert_non_null(k);
		assert_int_equal(k->plan.protocol, CG_LOCAL);
		assert_false(k->plan.communicates);
		assert_int_equal(k->module->sm, 80);
		assert_non_null(strstr(cg_text(f, k), "0f00000000")); /* -0 becomes +0 */
		for (size_t w = 0; w < sizeof foreign / sizeof *foreign; w++)
			if (strstr(cg_text(f, k), foreign[w]))
				fail_msg("%s at tp 1 has '%s'", kernels[i % 3], foreign[w]);
		for (unsigned p = 0; p < k->nparam; p++)
			assert_int_equal(k->param[p].symmetric, CG_SYM_NONE);
	}
}

static void the_least_target_that_holds_what_is_used_is_named(void **state)
{
	struct cg_fixture *f = *state;

	assert_non_null(strstr(cg_text(f, cg_must(f, cg_norms, NULL, 0, "sm_100")),
	                       ".version 8.2\n.target sm_90\n"));
	assert_non_null(strstr(cg_text(f, cg_must(f, cg_norms, NULL, 0, "sm_100a")),
	                       ".version 8.6\n.target sm_100a\n"));
}

static void names_of_the_spec_do_not_clash_with_ptx(void **state)
{
	static const char spec[] =
	        "kernel add(reg: bf16[T, 512], ws: bf16[512]) -> rows: bf16[T, 512]\n"
	        "{ out rows = reg * ws; }";
	struct cg_fixture *f = *state;
	const struct cg_kernel *k = cg_must(f, spec, NULL, 0, "sm_90");

	assert_non_null(strstr(cg_text(f, k), ".param .u64 p_reg,"));
	assert_non_null(strstr(cg_text(f, k), ".param .u64 p_rows,"));
}

static void every_instruction_of_the_loop_names_a_line_of_the_spec(void **state)
{
	struct cg_fixture *f = *state;
	const struct cg_kernel *k = cg_must(f, cg_norms, "add_norm", 0, "sm_90");
	unsigned located = 0, multiplied = 0;

	for (uint32_t i = 0; i < k->module->fn->ninsn; i++) {
		const struct ptx_insn *in = &k->module->fn->insn[i];

		assert_true(in->loc_line <= 7);
		located += in->loc_line > 0;
		if (in->op == PTX_mm_st && in->mod.vec) {
			assert_int_equal(in->loc_line, 7); /* out y = ... */
			multiplied++;
		}
	}
	assert_true(multiplied > 0);
	assert_true(located > k->module->fn->ninsn / 2);
	assert_non_null(strstr(cg_text(f, k), ".file 1 \"test.plait\""));
}

/* An order that is weaker or stronger than formal changes the barriers and nothing else. */
static void orders_differ_in_their_barriers(void **state)
{
	static const struct {
		enum cg_order order;
		unsigned releases, acquires, alias;
	} want[] = {{CG_FORMAL, 2, 2, 0}, {CG_HW, 1, 1, 0}, {CG_STRICT, 2, 2, 2}};
	struct cg_fixture *f = *state;

	for (unsigned i = 0; i < 3; i++) {
		struct cg_options o = cg_defaults(f, "sm_90");
		const struct cg_kernel *k;
		unsigned releases = 0, acquires = 0, alias = 0;

		o.order = want[i].order;
		k = cg_kernel_of(f, cg_norms, NULL, 0, &o);
		assert_non_null(k);
		for (uint32_t n = 0; n < k->module->fn->ninsn; n++) {
			const struct ptx_insn *in = &k->module->fn->insn[n];

			releases += in->op == PTX_mm_st && in->mod.order == PTX_RELEASE;
			acquires += in->op == PTX_fence && in->mod.order == PTX_ACQ_REL;
			alias += in->op == PTX_fence_alias;
		}
		assert_int_equal(releases, want[i].releases);
		assert_int_equal(acquires, want[i].acquires);
		assert_int_equal(alias, want[i].alias);
	}
}

static void arguments_lie_where_the_abi_puts_them(void **state)
{
	const struct cg_kernel *k = cg_must(*state, cg_norms, "add_norm", 0, "sm_90");

	assert_int_equal(k->narg, k->module->fn->nparam);
	for (unsigned i = 0; i < k->narg; i++) {
		assert_string_equal(k->arg[i].name, k->module->fn->param[i].name);
		assert_int_equal(k->arg[i].offset, k->module->fn->param[i].offset);
	}
	assert_int_equal(k->param_bytes, 56);
	assert_int_equal(k->param[0].symmetric, CG_SYM_MULTICAST);
	assert_int_equal(k->param[1].symmetric, CG_SYM_NONE);
	assert_true(k->param[2].constant && !k->param[1].constant);
}

static void against_golden(struct cg_fixture *f, const char *name, const char *text)
{
	const char *path = arena_printf(&f->arena, GOLDEN "%s", name);
	char *old = arena_alloc(&f->arena, 1 << 20);
	FILE *file;

	if (getenv("GOLDEN_UPDATE")) {
		file = fopen(path, "w");
		assert_non_null(file);
		fputs(text, file);
		fclose(file);
		return;
	}
	file = fopen(path, "r");
	if (!file)
		fail_msg("%s is missing; GOLDEN_UPDATE=1 writes it", path);
	old[fread(old, 1, (1 << 20) - 1, file)] = 0;
	fclose(file);
	if (strcmp(old, text) != 0)
		fail_msg("%s differs; GOLDEN_UPDATE=1 writes it anew, then look at git diff", path);
}

static void golden_files_are_as_they_were(void **state)
{
	static const char small[] =
	        "kernel scale(x: bf16[T, 64] partial, s: f32[]) -> y: bf16[T, 64] sharded\n"
	        "{ out y = reduce_scatter(x) * s; }";
	static const char group[] =
	        "kernel group(x: bf16[T, 256]) -> (y: bf16[T, 256], s: f32[T, 2])\n"
	        "{ m = group_max(abs(x), 128); out y = x / expand(m, 128); out s = m; }";
	struct cg_fixture *f = *state;
	const struct cg_kernel *k = cg_must(f, cg_norms, "add_norm", 8192, "sm_90");
	struct strbuf plan;

	strbuf_init(&plan, &f->arena);
	cg_print_plan(k, &plan);
	against_golden(f, "add_norm.plan", plan.s);
	against_golden(f, "add_norm.ptx", cg_text(f, k));
	against_golden(f, "scale.ptx", cg_text(f, cg_must(f, small, NULL, 0, "sm_90")));
	against_golden(f, "group.ptx", cg_text(f, cg_must(f, group, NULL, 0, "sm_90")));
}

/* Rows vector by vector, and groups that do not lie in a warp. */
static void golden_files_of_wide_rows_are_as_they_were(void **state)
{
	static const char groups[] =
	        "kernel groups(x: bf16[T, 3840]) -> (y: bf16[T, 3840], m: f32[T, 2])\n"
	        "{ a = group_mean(x, 320); b = group_max(x, 1920); out m = b; out y = (x - "
	        "expand(a, 320)) / expand(b, 1920); }";
	struct cg_fixture *f = *state;
	struct cg_options o = cg_defaults(f, "sm_90");
	const struct cg_kernel *k;
	struct strbuf plan;

	o.wide = true;
	o.protocol = CG_P2P_TWOSHOT;
	o.tp = 2;
	k = cg_kernel_of(f, cg_norms, "add_norm", 512, &o);
	assert_non_null(k);
	strbuf_init(&plan, &f->arena);
	cg_print_plan(k, &plan);
	against_golden(f, "wide.plan", plan.s);
	against_golden(f, "wide.ptx", cg_text(f, k));
	o = cg_defaults(f, "sm_90");
	o.in_flight = 1;
	k = cg_kernel_of(f, groups, NULL, 0, &o);
	assert_non_null(k);
	against_golden(f, "groups.ptx", cg_text(f, k));
}

/* A small kernel in every protocol that sums in order of ranks. */
static void golden_files_of_protocols_are_as_they_were(void **state)
{
	static const enum cg_protocol protocols[] = {CG_P2P_TWOSHOT, CG_PUSH, CG_MM_PUSH,
	                                             CG_P2P_BULK};
	static const char small[] =
	        "kernel sum(x: bf16[T, 64] partial) -> y: bf16[T, 64] replicated "
	        "{ out y = all_reduce(x); }";
	struct cg_fixture *f = *state;

	for (unsigned i = 0; i < 4; i++) {
		struct cg_options o = cg_defaults(f, "sm_90");
		const char *name = cg_protocol_name(protocols[i]);

		o.tp = 2;
		o.in_flight = 1;
		o.protocol = protocols[i];
		against_golden(f, arena_printf(&f->arena, "%s.ptx", name),
		               cg_text(f, world_kernel(f, small, NULL, 0, &o)));
	}
}

/* What is printed is parsed and printed the same. */
static void the_text_is_read_back(void **state)
{
	struct cg_fixture *f = *state;
	const char *text = cg_text(f, cg_must(f, cg_norms, "sandwich", 1000, "sm_90"));
	struct ptx_module *m =
	        ptx_parse(&f->arena, &f->d, diags_add_source(&f->d, "k.ptx", text, strlen(text)));
	struct strbuf again;

	if (!m)
		fail_msg("%s", cg_shown(f));
	strbuf_init(&again, &f->arena);
	ptx_print(m, &again);
	assert_string_equal(again.s, text);
}

/* Each allocation in turn: the compilation ends at the arena's owner, and never before. */
static void an_allocation_that_fails_ends_the_compilation(void **state)
{
	static const char spec[] =
	        "kernel k(x: bf16[T, 64] partial, g: bf16[64]) -> y: bf16[T, 64] replicated\n"
	        "{ out y = rmsnorm(all_reduce(x), g, eps = 1e-5); }";
	static struct cg_fixture f;
	volatile uint64_t at;
	volatile bool done = false;

	(void)state;
	for (at = 1; !done && at < 100000; at += at < 200 ? 1 : 7) {
		cg_begin(&f);
		if (setjmp(f.arena.oom) == 0) {
			struct cg_options o = cg_defaults(&f, "sm_90");

			f.arena.fail_at = at;
			assert_non_null(cg_kernel_of(&f, spec, NULL, 0, &o));
			done = true;
		}
		arena_free(&f.arena);
	}
	assert_true(done);
	assert_true(at > 200);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cg_set_up, cg_tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(rows_move_in_16_byte_accesses),
	        TEST(every_row_is_loaded_and_stored_once),
	        TEST(loads_are_issued_right_before_the_barrier),
	        TEST(teams_meet_among_themselves_in_the_loop_over_rows),
	        TEST(a_kernel_that_does_not_communicate_runs_everywhere),
	        TEST(at_one_rank_every_kernel_is_local),
	        TEST(the_least_target_that_holds_what_is_used_is_named),
	        TEST(names_of_the_spec_do_not_clash_with_ptx),
	        TEST(every_instruction_of_the_loop_names_a_line_of_the_spec),
	        TEST(orders_differ_in_their_barriers),
	        TEST(arguments_lie_where_the_abi_puts_them),
	        TEST(golden_files_are_as_they_were),
	        TEST(golden_files_of_protocols_are_as_they_were),
	        TEST(golden_files_of_wide_rows_are_as_they_were),
	        TEST(the_text_is_read_back),
	        TEST(an_allocation_that_fails_ends_the_compilation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
