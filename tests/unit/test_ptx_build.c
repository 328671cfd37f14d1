#include "tests/unit/unit.h"
#include "codegen/ptx/build.h"
#include <string.h>

#define WITH_ARENA         \
	struct arena a;    \
	(void)state;       \
	arena_init(&a, 0); \
	if (setjmp(a.oom)) \
		fail();

static const char *printed(struct ptx_module *m)
{
	struct strbuf b;

	strbuf_init(&b, m->arena);
	ptx_print(m, &b);
	return b.s;
}

static void a_kernel_is_printed_as_written(void **state)
{
	WITH_ARENA
	struct ptx_module *m = ptx_module_new(&a, 81, 90, 0);
	struct ptx_fn *f = ptx_fn_new(m, "k");
	struct ptx_opnd x = ptx_param_add(f, PTX_T_u64, "x"), n = ptx_param_add(f, PTX_T_u32, "n");
	struct ptx_opnd red = ptx_var_add(f, PTX_SHARED, PTX_T_b8, 16, 128, "red");
	struct ptx_opnd loop, p, base, count, vec, sum;

	m->header = "made by a test\n\nlast";
	m->loc_file = "a.plait";
	f->maxntid = 512;
	f->minctas = 1;
	base = ptx_ld(f, ptx_MODS(.space = PTX_PARAM), PTX_T_u64, ptx_at(x, 0));
	count = ptx_ld(f, ptx_MODS(.space = PTX_PARAM), PTX_T_u32, ptx_at(n, 0));
	loop = ptx_label_new(f, "loop");
	ptx_place(f, loop);
	ptx_loc(f, 3, 7);
	vec = ptx_mm_ld(f,
	                ptx_MODS(.order = PTX_RELAXED, .scope = PTX_SYS, .space = PTX_GLOBAL,
	                         .red = PTX_ADD, .acc = 1, .vec = 4),
	                PTX_T_bf16x2, ptx_at(base, 16));
	sum = ptx_addf(f, PTX_T_f32, ptx_f32(1.0f), ptx_f32(-2.0f));
	ptx_st(f, ptx_MODS(.space = PTX_SHARED), PTX_T_f32, ptx_at(red, 4), sum);
	ptx_comment(f, "the next");
	ptx_put_sub(f, PTX_T_u32, count, count, ptx_imm(1));
	p = ptx_setp(f, PTX_NE, PTX_T_u32, count, ptx_imm(0));
	ptx_guard(f, p, true);
	ptx_mm_st(f, ptx_MODS(.space = PTX_GLOBAL, .vec = 4), PTX_T_bf16x2,
	          ptx_at(ptx_at(base, -4), -12), vec);
	ptx_bra(f, loop);
	ptx_unguard(f);
	ptx_shfl(f, ptx_MODS(.shfl = PTX_BFLY), count, ptx_imm(16), ptx_imm(31), ptx_imm(-1));
	ptx_cvt(f, PTX_T_u64, PTX_T_u32, count);
	ptx_cvt2(f, PTX_T_bf16x2, PTX_T_f32, sum, sum);
	ptx_mul(f, PTX_T_u32, count, ptx_imm(3));
	ptx_mov(f, PTX_T_u32, ptx_spec(PTX_CTAID_X));
	ptx_mul_wide(f, PTX_T_u32, count, ptx_imm(8));
	ptx_fence_m(f, ptx_MODS(.order = PTX_ACQ_REL, .scope = PTX_SYS));
	ptx_bar_sync(f, ptx_imm(0));
	ptx_ret(f);
	assert_null(f->error);
	assert_string_equal(printed(m),
	                    "// made by a test\n//\n// last\n"
	                    ".version 8.1\n.target sm_90\n.address_size 64\n"
	                    ".file 1 \"a.plait\"\n"
	                    "\n"
	                    ".visible .entry k(\n\t.param .u64 x,\n\t.param .u32 n\n)\n"
	                    ".maxntid 512, 1, 1\n.minnctapersm 1\n"
	                    "{\n"
	                    "\t.reg .pred %p<1>;\n\t.reg .b32 %r<9>;\n\t.reg .b64 %rd<3>;\n"
	                    "\t.reg .f32 %f<1>;\n"
	                    "\t.shared .align 16 .b8 red[128];\n"
	                    "\n"
	                    "\tld.param.u64 %rd0, [x];\n"
	                    "\tld.param.u32 %r0, [n];\n"
	                    "loop_0:\n"
	                    "\t.loc 1 3 7\n"
	                    "\tmultimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 "
	                    "{%r1, %r2, %r3, %r4}, [%rd0+16];\n"
	                    "\tadd.rn.f32 %f0, 0f3F800000, 0fC0000000;\n"
	                    "\tst.shared.f32 [red+4], %f0;\n"
	                    "\tsub.u32 %r0, %r0, 1;  // the next\n"
	                    "\tsetp.ne.u32 %p0, %r0, 0;\n"
	                    "\t@!%p0 multimem.st.global.v4.bf16x2 [%rd0-16], "
	                    "{%r1, %r2, %r3, %r4};\n"
	                    "\t@!%p0 bra loop_0;\n"
	                    "\tshfl.sync.bfly.b32 %r5, %r0, 16, 31, -1;\n"
	                    "\tcvt.u64.u32 %rd1, %r0;\n"
	                    "\tcvt.rn.bf16x2.f32 %r6, %f0, %f0;\n"
	                    "\tmul.lo.u32 %r7, %r0, 3;\n"
	                    "\tmov.u32 %r8, %ctaid.x;\n"
	                    "\tmul.wide.u32 %rd2, %r0, 8;\n"
	                    "\tfence.acq_rel.sys;\n"
	                    "\tbar.sync 0;\n"
	                    "\tret;\n"
	                    "}\n");
	arena_free(&a);
}

static void printing_sets_the_line_of_every_instruction(void **state)
{
	WITH_ARENA
	struct ptx_module *m = ptx_module_new(&a, 70, 80, 0);
	const char *text;

	for (int k = 0; k < 3; k++) {
		struct ptx_fn *f = ptx_fn_new(m, k ? k == 1 ? "two" : "three" : "one");

		ptx_place(f, ptx_label_new(f, "here"));
		ptx_param_add(f, PTX_T_u32, "n");
		ptx_exit(f);
		ptx_place(f, ptx_label_new(f, "there"));
		ptx_ret(f);
	}
	text = printed(m);
	for (struct ptx_fn *f = m->fn; f; f = f->next)
		for (uint32_t k = 0; k < f->ninsn; k++) {
			const char *s = text;

			for (uint32_t line = 1; line < f->insn[k].line; line++)
				s = strchr(s, '\n') + 1;
			assert_memory_equal(s, k ? "\tret;" : "\texit;", 5);
		}
	arena_free(&a);
}

static void the_first_mistake_sticks_and_the_builder_goes_on(void **state)
{
	WITH_ARENA
	struct ptx_module *m = ptx_module_new(&a, 70, 80, 0);
	struct ptx_fn *f = ptx_fn_new(m, "k");
	struct ptx_opnd l = ptx_label_new(f, "l");

	ptx_exit(f);
	ptx_place(f, l);
	ptx_place(f, l);
	assert_string_equal(f->error, "a label is placed twice");
	ptx_guard(f, ptx_imm(1), false);
	ptx_add(f, PTX_T_u32, ptx_imm(1), ptx_imm(2));
	assert_string_equal(f->error, "a label is placed twice");
	assert_int_equal(f->ninsn, 1);
	arena_free(&a);
}

static void a_conversion_gets_the_rounding_that_must_be_written(void **state)
{
	static const struct {
		enum ptx_type to, from;
		enum ptx_round round;
	} cases[] = {
	        {PTX_T_f32, PTX_T_bf16, PTX_R_NONE}, {PTX_T_bf16, PTX_T_f32, PTX_RN},
	        {PTX_T_f32, PTX_T_u32, PTX_RN},      {PTX_T_u32, PTX_T_f32, PTX_RZI},
	        {PTX_T_f64, PTX_T_f32, PTX_R_NONE},  {PTX_T_f32, PTX_T_f64, PTX_RN},
	        {PTX_T_u64, PTX_T_u32, PTX_R_NONE},
	};
	WITH_ARENA
	struct ptx_fn *f = ptx_fn_new(ptx_module_new(&a, 70, 80, 0), "k");

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		ptx_cvt(f, cases[k].to, cases[k].from,
		        ptx_reg(f, ptx_type_info[cases[k].from].cls));
		assert_int_equal(f->insn[k].mod.round, cases[k].round);
	}
	arena_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_kernel_is_printed_as_written),
	        cmocka_unit_test(printing_sets_the_line_of_every_instruction),
	        cmocka_unit_test(the_first_mistake_sticks_and_the_builder_goes_on),
	        cmocka_unit_test(a_conversion_gets_the_rounding_that_must_be_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
