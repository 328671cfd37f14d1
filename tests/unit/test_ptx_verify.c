/* What the verifier refuses, by body text in a fixed entry; and needs, minimum, parameter blocks.
 */
#include "tests/unit/unit.h"
#include "codegen/ptx/build.h"
#include <string.h>

#define ENTRY                                                                                     \
	".version 8.2\n.target sm_90\n.address_size 64\n.global .align 16 .b8 glob[64];\n"        \
	".visible .entry k(.param .u64 a, .param .align 16 .b8 blob[64])\n{\n"                    \
	".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .f32 %f<4>; " \
	".reg .f64 %fd<4>; .shared .align 16 .b8 sm[64];\n"

struct verdict {
	const char *insn;
	enum diag_code code; /* 0: right */
	const char *says;
};

#define GOOD 0
static const struct verdict verdicts[] = {
        /* orders and scopes: facts of section 9.7.9 */
        {"ld.relaxed.sys.global.u32 %r0, [%rd0];", GOOD, ""},
        {"ld.relaxed.global.u32 %r0, [%rd0];", DIAG_PTX_COMBINATION, "needs a scope"},
        {"ld.weak.sys.global.u32 %r0, [%rd0];", DIAG_PTX_COMBINATION, "needs a memory order"},
        {"ld.sys.global.u32 %r0, [%rd0];", DIAG_PTX_COMBINATION, "needs a memory order"},
        {"ld.release.sys.global.u32 %r0, [%rd0];", DIAG_PTX_COMBINATION, "memory order is not"},
        {"st.acquire.sys.global.u32 [%rd0], %r0;", DIAG_PTX_COMBINATION, "memory order is not"},
        {"ld.relaxed.sys.param.u32 %r0, [a];", DIAG_PTX_COMBINATION, "global or shared"},
        {"ld.relaxed.sys.global.nc.u32 %r0, [%rd0];", DIAG_PTX_COMBINATION, ".nc is for plain"},
        {"ld.shared.nc.u32 %r0, [%rd0];", DIAG_PTX_COMBINATION, ".nc is for plain"},
        {"st.param.u32 [a], %r0;", DIAG_PTX_COMBINATION, "state space"},
        {"fence.acq_rel;", DIAG_PTX_COMBINATION, "needs a scope"},
        {"fence.relaxed.sys;", DIAG_PTX_COMBINATION, "memory order is not"},
        {"red.acquire.gpu.global.add.u32 [%rd0], 1;", DIAG_PTX_COMBINATION, "memory order is not"},
        /* multimem: facts of section 9.7.9.14 */
        {"multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%r0, %r1, %r2, %r3}, "
         "[%rd0];",
         GOOD, ""},
        {"multimem.ld_reduce.global.min.v4.bf16x2 {%r0, %r1, %r2, %r3}, [%rd0];", GOOD, ""},
        {"multimem.ld_reduce.global.min.acc::f32.v4.bf16x2 {%r0, %r1, %r2, %r3}, [%rd0];",
         DIAG_PTX_COMBINATION, ".acc::f32"},
        {"multimem.ld_reduce.global.add.acc::f32.f32 %f0, [%rd0];", DIAG_PTX_COMBINATION,
         ".acc::f32"},
        {"multimem.ld_reduce.global.min.f32 %f0, [%rd0];", DIAG_PTX_COMBINATION, "reduction"},
        {"multimem.ld_reduce.global.add.s64 %rd1, [%rd0];", DIAG_PTX_COMBINATION, "reduction"},
        {"multimem.ld_reduce.global.add.bf16 %h0, [%rd0];", DIAG_PTX_COMBINATION, "no such vector"},
        {"multimem.ld_reduce.global.add.v2.u32 {%r0, %r1}, [%rd0];", DIAG_PTX_COMBINATION,
         "no such vector"},
        {"multimem.ld_reduce.shared.add.u32 %r0, [%rd0];", DIAG_PTX_COMBINATION, "state space"},
        {"multimem.ld_reduce.release.sys.global.add.u32 %r0, [%rd0];", DIAG_PTX_COMBINATION,
         "memory order is not"},
        {"multimem.st.release.sys.global.b64 [%rd0], %rd1;", GOOD, ""},
        {"multimem.st.acquire.sys.global.b64 [%rd0], %rd1;", DIAG_PTX_COMBINATION,
         "memory order is not"},
        {"multimem.st.relaxed.sys.global.v4.f32 [%rd0], {%r0, %r1, %r2, %r3};", GOOD, ""},
        {"multimem.red.weak.global.add.u32 [%rd0], 1;", DIAG_PTX_COMBINATION,
         "memory order is not"},
        {"multimem.red.release.sys.global.add.u32 [%rd0], 1;", GOOD, ""},
        /* vectors */
        {"ld.global.v4.u64 {%rd0, %rd1, %rd2, %rd3}, [%rd0];", DIAG_PTX_TARGET,
         "needs .version 8.8"},
        {"ld.shared.v4.u64 {%rd0, %rd1, %rd2, %rd3}, [%rd0];", DIAG_PTX_COMBINATION,
         "at most 4 elements"},
        {"ld.global.v4.u32 {%r0, %r1}, [%rd0];", DIAG_PTX_OPERAND, "a vector of 4"},
        {"ld.global.v4.u32 {%r0, _, _, %r1}, [%rd0];", GOOD, ""},
        {"st.global.v2.u32 [%rd0], {%r0, _};", DIAG_PTX_OPERAND, "'_'"},
        {"ld.global.u32 {%r0, %r1}, [%rd0];", DIAG_PTX_OPERAND, "to be a register"},
        /* classes */
        {"ld.global.u8 %r0, [%rd0];", GOOD, ""},
        {"ld.global.u32 %h0, [%rd0];", DIAG_PTX_CLASS, "another class"},
        {"ld.global.u32 %f0, [%rd0];", DIAG_PTX_CLASS, "another class"},
        {"ld.global.b32 %f0, [%rd0];", GOOD, ""},
        {"add.f32 %r0, %r1, %f0;", GOOD, ""},
        {"add.u32 %f0, %r1, %r0;", DIAG_PTX_CLASS, "operand 1"},
        {"add.u32 %r0, %r1, %rd0;", DIAG_PTX_CLASS, "operand 3"},
        {"add.u32 %r0, %r1, %p0;", DIAG_PTX_CLASS, "operand 3"},
        {"shl.b64 %rd0, %rd1, %rd2;", DIAG_PTX_CLASS, "operand 3"},
        {"mul.wide.u32 %r0, %r1, %r2;", DIAG_PTX_CLASS, "operand 1"},
        {"cvt.rn.bf16.f32 %r0, %f0;", DIAG_PTX_CLASS, "operand 1"},
        {"cvt.u8.u32 %r0, %r1;", GOOD, ""},
        {"mov.b32 %r0, {%h0, %h1};", GOOD, ""},
        {"mov.b32 %r0, {%r1, %r2};", DIAG_PTX_OPERAND, "are not together"},
        {"mov.u64 {%r0, %r1}, %rd0;", DIAG_PTX_OPERAND, "are not together"},
        {"add.b64 %rd0, %rd0, 1;", DIAG_PTX_MODIFIER, ""},
        /* sources */
        {"mov.u32 %r0, %tid.x;", GOOD, ""},
        {"add.u32 %r0, %r0, %tid.x;", DIAG_PTX_OPERAND, "mov and cvt only"},
        {"mov.u64 %rd0, %tid.x;", DIAG_PTX_CLASS, "another size"},
        {"mov.u32 %r0, 0f3F800000;", DIAG_PTX_OPERAND, "not a .u32"},
        {"add.f32 %f0, %f1, 1;", DIAG_PTX_OPERAND, "not a .f32"},
        {"add.rn.bf16x2 %r0, %r0, 0;", DIAG_PTX_OPERAND, "not written as a constant"},
        {"mov.u32 %r0, 4294967295;", GOOD, ""},
        {"mov.u32 %r0, 4294967296;", DIAG_PTX_OPERAND, "does not fit"},
        {"mov.u32 %r0, -2147483649;", DIAG_PTX_OPERAND, "does not fit"},
        {"setp.eq.and.u32 %p0, %r0, 1, !%p1;", GOOD, ""},
        {"selp.u32 %r0, 1, 2, %r1;", DIAG_PTX_OPERAND, "a predicate"},
        {"setp.eq.u32 %r0, 1, 2;", DIAG_PTX_OPERAND, "a predicate"},
        {"bar.sync 16;", DIAG_PTX_OPERAND, "barriers 0 to 15"},
        {"add.u32 %r0, %r1, sm;", DIAG_PTX_OPERAND, "wrong kind"},
        /* addresses */
        {"ld.shared.u32 %r0, [%r1];", GOOD, ""},
        {"ld.global.u32 %r0, [%r1];", DIAG_PTX_ADDRESS, "64-bit register"},
        {"ld.global.u32 %r0, [%f1];", DIAG_PTX_ADDRESS, "64-bit register"},
        {"ld.global.u32 %r0, [glob+60];", GOOD, ""},
        {"ld.global.u32 %r0, [glob+64];", DIAG_PTX_ADDRESS, "outside of 'glob'"},
        {"ld.global.u32 %r0, [glob-4];", DIAG_PTX_ADDRESS, "outside of 'glob'"},
        {"ld.global.u32 %r0, [glob+2];", DIAG_PTX_ADDRESS, "not a multiple"},
        {"ld.global.u32 %r0, [sm];", DIAG_PTX_ADDRESS, "not in the state space"},
        {"ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [sm+8];", DIAG_PTX_ADDRESS, "not a multiple"},
        {"ld.param.u64 %rd0, [a+8];", DIAG_PTX_ADDRESS, "outside of 'a'"},
        {"ld.param.u64 %rd0, [%rd0];", DIAG_PTX_ADDRESS, "a parameter's name"},
        {"ld.param.u64 %rd0, [sm];", DIAG_PTX_ADDRESS, "a parameter's name"},
        {"ld.global.u32 %r0, %rd0;", DIAG_PTX_OPERAND, "to be an address"},
        /* arithmetic */
        {"fma.rn.ftz.f32 %f0, %f1, %f2, %f3;", GOOD, ""},
        {"fma.f32 %f0, %f1, %f2, %f3;", DIAG_PTX_COMBINATION, "needs a rounding"},
        {"add.rz.bf16x2 %r0, %r1, %r2;", DIAG_PTX_COMBINATION, "round"},
        {"add.ftz.f64 %fd0, %fd1, %fd2;", DIAG_PTX_COMBINATION, ".ftz"},
        {"div.f32 %f0, %f1, %f2;", DIAG_PTX_COMBINATION, "either a rounding"},
        {"rcp.full.f32 %f0, %f1;", DIAG_PTX_COMBINATION, ".full is for div"},
        {"cvt.f32.u32 %f0, %r0;", DIAG_PTX_COMBINATION, "needs a rounding"},
        {"cvt.rn.u32.f32 %r0, %f0;", DIAG_PTX_COMBINATION, ".rzi"},
        {"cvt.rn.f32.bf16 %f0, %h0;", DIAG_PTX_COMBINATION, "wider"},
        {"cvt.bf16.f32 %h0, %f0;", DIAG_PTX_COMBINATION, "narrower"},
        {"setp.lo.s32 %p0, %r0, %r1;", DIAG_PTX_COMBINATION, "unsigned"},
        {"setp.lt.b32 %p0, %r0, %r1;", DIAG_PTX_COMBINATION, ".eq and .ne"},
        {"setp.ltu.u32 %p0, %r0, %r1;", DIAG_PTX_COMBINATION, "floating point"},
        {"mul.wide.u64 %rd0, %rd0, %rd0;", DIAG_PTX_COMBINATION, ".wide"},
        {"vote.sync.ballot.pred %p0, %p1, -1;", DIAG_PTX_COMBINATION, ".ballot"},
        /* versions */
        {"fence.acquire.sys;", DIAG_PTX_TARGET, "needs .version 8.6"},
        {"fence.acq_rel.sys;", GOOD, ""},
        {"add.rn.bf16x2 %r0, %r1, %r2;", GOOD, ""},
};

static bool judged_as(const struct verdict *v)
{
	struct arena a;
	struct diags d;
	struct strbuf b;
	struct ptx_module *m;
	const char *text;
	bool ok, right;

	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail();
	diags_init(&d, &a);
	text = arena_printf(&a, "%s\t%s\n\tret;\n}\n", ENTRY, v->insn);
	m = ptx_parse(&a, &d, diags_add_source(&d, "t.ptx", text, strlen(text)));
	ok = m && ptx_verify(m, &d);
	strbuf_init(&b, &a);
	diags_render(&d, DIAG_REMARK, &b);
	right = ok ? v->code == GOOD
	           : d.nerror == 1 && d.head->code == v->code && strstr(b.s, v->says);
	if (!right)
		print_error("%s\n%s", v->insn, ok ? "is accepted\n" : b.s);
	arena_free(&a);
	return right;
}

static void each_instruction_is_judged_as_documented(void **state)
{
	unsigned bad = 0;

	(void)state;
	for (size_t k = 0; k < sizeof verdicts / sizeof verdicts[0]; k++)
		bad += !judged_as(&verdicts[k]);
	assert_int_equal(bad, 0);
}

#define WITH_ARENA         \
	struct arena a;    \
	struct diags d;    \
	(void)state;       \
	arena_init(&a, 0); \
	if (setjmp(a.oom)) \
		fail();    \
	diags_init(&d, &a);

static void what_was_built_wrongly_is_shown_as_text(void **state)
{
	WITH_ARENA
	struct ptx_module *m = ptx_module_new(&a, 81, 90, 0);
	struct ptx_fn *f = ptx_fn_new(m, "k");
	struct strbuf b;

	ptx_add(f, PTX_T_f32, ptx_imm(1), ptx_reg(f, PTX_C_B32));
	ptx_put_mov(f, PTX_T_u32,
	            (struct ptx_opnd){.kind = PTX_REG, .cls = PTX_C_B32, .n = 1, .reg = {99}},
	            ptx_imm(1));
	ptx_bra(f, ptx_label_new(f, "gone"));
	assert_false(ptx_verify(m, &d));
	assert_int_equal(d.nerror, 3);
	strbuf_init(&b, &a);
	diags_render(&d, DIAG_REMARK, &b);
	assert_non_null(strstr(b.s, "'add' is not for this type"));
	assert_non_null(strstr(b.s, "in 'mov.u32 %r99, 1;' of 'k'"));
	assert_non_null(strstr(b.s, "the label 'gone_0' of 'k' is not placed"));
	arena_free(&a);
}

static void the_minimum_holds_what_the_module_uses(void **state)
{
	WITH_ARENA
	struct ptx_module *m = ptx_module_new(&a, 70, 80, 0);
	struct ptx_fn *f = ptx_fn_new(m, "k");
	struct ptx_opnd x = ptx_reg(f, PTX_C_B64);

	ptx_ret(f);
	ptx_module_minimum(m);
	assert_int_equal(m->version, 70);
	assert_int_equal(m->sm, 80);
	ptx_mm_st(f, ptx_MODS(.space = PTX_GLOBAL), PTX_T_u64, ptx_at(x, 0), x);
	assert_false(ptx_verify(m, &d));
	ptx_module_minimum(m);
	assert_int_equal(m->version, 81);
	assert_int_equal(m->sm, 90);
	ptx_mm_ld(f, ptx_MODS(.space = PTX_GLOBAL, .red = PTX_ADD, .acc = 1), PTX_T_bf16x2,
	          ptx_at(x, 0));
	ptx_module_minimum(m);
	assert_int_equal(m->version, 82);
	ptx_fence_m(f, ptx_MODS(.order = PTX_ACQUIRE, .scope = PTX_SYS));
	ptx_module_minimum(m);
	assert_int_equal(m->version, 86);
	d.nerror = 0;
	assert_true(ptx_verify(m, &d));
	arena_free(&a);
}

static void a_target_needs_its_version(void **state)
{
	WITH_ARENA
	struct ptx_module *m = ptx_module_new(&a, 81, 100, 0);

	assert_false(ptx_verify(m, &d));
	ptx_module_minimum(m);
	assert_int_equal(m->version, 86);
	m->sm_suffix = 'f';
	ptx_module_minimum(m);
	assert_int_equal(m->version, 88);
	m->sm = 91;
	assert_false(ptx_verify(m, &d));
	arena_free(&a);
}

static void parameters_lie_at_their_alignment(void **state)
{
	WITH_ARENA
	struct ptx_fn *f = ptx_fn_new(ptx_module_new(&a, 81, 90, 0), "k");

	ptx_param_add(f, PTX_T_u32, "a");
	ptx_param_add(f, PTX_T_u64, "b");
	ptx_param_add(f, PTX_T_u16, "c");
	ptx_param_add(f, PTX_T_f32, "d");
	ptx_param_add(f, PTX_T_b8, "e");
	f->param[4].count = 5;
	f->param[4].align = 16;
	assert_int_equal(ptx_param_layout(f), 37);
	assert_int_equal(f->param[1].offset, 8);
	assert_int_equal(f->param[2].offset, 16);
	assert_int_equal(f->param[3].offset, 20);
	assert_int_equal(f->param[4].offset, 32);
	arena_free(&a);
}

static void names_built_twice_are_found(void **state)
{
	WITH_ARENA
	struct ptx_module *m = ptx_module_new(&a, 78, 90, 0);
	struct ptx_fn *f = ptx_fn_new(m, "k");

	ptx_ret(f);
	ptx_ret(ptx_fn_new(m, "l"));
	assert_true(ptx_verify(m, &d));
	ptx_ret(ptx_fn_new(m, "k"));
	ptx_param_add(f, PTX_T_u32, "n");
	ptx_param_add(f, PTX_T_u64, "n");
	ptx_var_add(f, PTX_SHARED, PTX_T_b8, 16, 64, "red");
	ptx_var_add(f, PTX_SHARED, PTX_T_b8, 16, 64, "red");
	f->maxntid = 2048;
	assert_false(ptx_verify(m, &d));
	assert_int_equal(d.nerror, 4);
	arena_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(each_instruction_is_judged_as_documented),
	        cmocka_unit_test(what_was_built_wrongly_is_shown_as_text),
	        cmocka_unit_test(the_minimum_holds_what_the_module_uses),
	        cmocka_unit_test(a_target_needs_its_version),
	        cmocka_unit_test(parameters_lie_at_their_alignment),
	        cmocka_unit_test(names_built_twice_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
