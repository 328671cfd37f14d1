/* Each public fault that can be seen in a text: a kernel that has it, and the same kernel mended. */
#include "tests/unit/unit.h"
#include "lint/lint.h"
#include <stdio.h>

#define HEAD                                                                                    \
	".version 8.6\n.target sm_90\n.address_size 64\n"                                       \
	".visible .entry k(.param .u64 flag, .param .u64 data, .param .u64 mc, .param .u32 n, " \
	".param .u32 epoch)\n{\n.reg .pred %p<9>;\n.reg .b32 %r<30>;\n.reg .b64 %rd<30>;\n"     \
	".reg .f32 %f<9>;\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\n"                      \
	"ld.param.u64 %rd0, [flag];\nld.param.u64 %rd1, [data];\nld.param.u64 %rd2, [mc];\n"    \
	"ld.param.u32 %r2, [n];\nld.param.u32 %r3, [epoch];\nmul.wide.u32 %rd3, %r0, 4;\n"      \
	"add.s64 %rd4, %rd1, %rd3;\nsetp.eq.u32 %p0, %r0, 0;\n"
#define TIMED /* a way out of a spin: %p7 after a while */                                     \
	"mov.u64 %rd21, %globaltimer;\nsub.u64 %rd22, %rd21, %rd20;\nsetp.gt.u64 %p7, %rd22, " \
	"100000;\n@%p7 bra out;\n"
#define START "mov.u64 %rd20, %globaltimer;\n"

struct example {
	const char *name;
	enum lint_rule rule;
	const char *wrong, *right;
};

/* clang-format off */
static const struct example examples[] = {
	{"the residual is read before the wait (flashinfer 5081)", LINT_BEFORE_WAIT,
	 "ld.global.u32 %r5, [%rd4];\ngriddepcontrol.wait;\ngriddepcontrol.launch_dependents;\nst.global.u32 [%rd4], %r5;\n",
	 "griddepcontrol.wait;\nld.global.u32 %r5, [%rd4];\ngriddepcontrol.launch_dependents;\nst.global.u32 [%rd4], %r5;\n"},
	{"the entry arrives before the wait, on one path only", LINT_BEFORE_WAIT,
	 "@%p0 bra arrive;\ngriddepcontrol.wait;\nbra on;\narrive:\nred.release.sys.global.add.u32 [%rd0], 1;\ngriddepcontrol.wait;\non:\n"
	 "griddepcontrol.launch_dependents;\n",
	 "griddepcontrol.wait;\n@!%p0 bra on;\nred.release.sys.global.add.u32 [%rd0], 1;\non:\ngriddepcontrol.launch_dependents;\n"},
	{"a read-only load before the wait is only as good as its reader's word", LINT_NC_BEFORE_WAIT,
	 "ld.global.nc.u32 %r5, [%rd4];\ngriddepcontrol.wait;\ngriddepcontrol.launch_dependents;\n",
	 "griddepcontrol.wait;\nld.global.nc.u32 %r5, [%rd4];\ngriddepcontrol.launch_dependents;\n"},
	{"the trigger without a wait", LINT_NO_WAIT,
	 "griddepcontrol.launch_dependents;\n", "griddepcontrol.wait;\ngriddepcontrol.launch_dependents;\n"},
	{"no trigger", LINT_NO_TRIGGER,
	 "griddepcontrol.wait;\n", "griddepcontrol.wait;\ngriddepcontrol.launch_dependents;\n"},
	{"the sentinel -0.0 is compared as a float (flashinfer 3053, 1136)", LINT_FLOAT_SENTINEL,
	 START "spin:\n" TIMED "ld.relaxed.sys.global.f32 %f0, [%rd4];\nsetp.eq.ftz.f32 %p1, %f0, 0f80000000;\n@%p1 bra spin;\nout:\n",
	 START "spin:\n" TIMED "ld.relaxed.sys.global.b32 %r5, [%rd4];\nsetp.eq.b32 %p1, %r5, 0x80000000;\n@%p1 bra spin;\nout:\n"},
	{"a word is moved to a float register before it is compared", LINT_FLOAT_SENTINEL,
	 START "spin:\n" TIMED "ld.volatile.global.b32 %r5, [%rd4];\nmov.b32 %f0, %r5;\nsetp.neu.f32 %p1, %f0, 0f80000000;\n@!%p1 bra spin;\nout:\n",
	 START "spin:\n" TIMED "ld.volatile.global.b32 %r5, [%rd4];\nmov.b32 %f0, %r5;\nsetp.ne.u32 %p1, %r5, 0x80000000;\n@!%p1 bra spin;\nout:\n"},
	{"thread 0 sets the flag before the others have stored (flashinfer 4092)", LINT_RELEASE,
	 "st.global.u32 [%rd4], %r2;\n@%p0 st.release.sys.global.u32 [%rd0], %r3;\n",
	 "st.global.u32 [%rd4], %r2;\nbar.sync 0;\n@%p0 st.release.sys.global.u32 [%rd0], %r3;\n"},
	{"the same by a branch, a fence and a relaxed store", LINT_RELEASE,
	 "st.global.u32 [%rd4], %r2;\n@!%p0 bra out;\nfence.acq_rel.sys;\nst.relaxed.sys.global.u32 [%rd0], %r3;\nout:\n",
	 "st.global.u32 [%rd4], %r2;\nbar.sync 0;\n@!%p0 bra out;\nfence.acq_rel.sys;\nst.relaxed.sys.global.u32 [%rd0], %r3;\nout:\n"},
	{"a wait for another GPU acquires at the scope of this one", LINT_SCOPE,
	 START "multimem.red.relaxed.sys.global.add.u32 [%rd2], 1;\nspin:\n" TIMED "ld.acquire.gpu.global.u32 %r5, [%rd0];\nsub.s32 %r6, %r5, %r3;\n"
	 "setp.lt.s32 %p1, %r6, 0;\n@%p1 bra spin;\nout:\n",
	 START "multimem.red.relaxed.sys.global.add.u32 [%rd2], 1;\nspin:\n" TIMED "ld.acquire.sys.global.u32 %r5, [%rd0];\nsub.s32 %r6, %r5, %r3;\n"
	 "setp.lt.s32 %p1, %r6, 0;\n@%p1 bra spin;\nout:\n"},
	{"a multicast store at the scope of a GPU", LINT_SCOPE,
	 "multimem.st.relaxed.gpu.global.u32 [%rd2], %r2;\n", "multimem.st.relaxed.sys.global.u32 [%rd2], %r2;\n"},
	{"row times row bytes in 32 bits (flashinfer 1223)", LINT_NARROW_ADDRESS,
	 "mul.lo.u32 %r5, %r1, 16384;\ncvt.u64.u32 %rd5, %r5;\nadd.s64 %rd6, %rd1, %rd5;\nst.global.u32 [%rd6], %r2;\n",
	 "mul.wide.u32 %rd5, %r1, 16384;\nadd.s64 %rd6, %rd1, %rd5;\nst.global.u32 [%rd6], %r2;\n"},
	{"the product of two parameters, shifted and widened later", LINT_NARROW_ADDRESS,
	 "mad.lo.s32 %r5, %r1, %r2, %r0;\nmul.wide.s32 %rd5, %r5, 2;\nadd.s64 %rd6, %rd1, %rd5;\nld.global.u32 %r6, [%rd6];\n",
	 "cvt.u64.u32 %rd7, %r2;\ncvt.u64.u32 %rd8, %r1;\nmad.lo.u64 %rd5, %rd7, %rd8, %rd3;\nadd.s64 %rd6, %rd1, %rd5;\nld.global.u32 %r6, [%rd6];\n"},
	{"a wait until the flag equals the epoch (vllm 8410)", LINT_EPOCH,
	 START "spin:\n" TIMED "ld.acquire.sys.global.u32 %r5, [%rd0];\nsetp.ne.u32 %p1, %r5, %r3;\n@%p1 bra spin;\nout:\n",
	 START "spin:\n" TIMED "ld.acquire.sys.global.u32 %r5, [%rd0];\nsub.u32 %r6, %r5, %r3;\nsetp.lt.s32 %p1, %r6, 0;\n@%p1 bra spin;\nout:\n"},
	{"a spin without end (vllm 35772)", LINT_SPIN,
	 "spin:\nld.acquire.sys.global.u32 %r5, [%rd0];\nsub.u32 %r6, %r5, %r3;\nsetp.lt.s32 %p1, %r6, 0;\n@%p1 bra spin;\n",
	 "mov.u32 %r7, 0;\nspin:\nld.acquire.sys.global.u32 %r5, [%rd0];\nsub.u32 %r6, %r5, %r3;\nsetp.lt.s32 %p1, %r6, 0;\n@!%p1 bra out;\n"
	 "add.u32 %r7, %r7, 1;\nsetp.lt.u32 %p2, %r7, 1000000;\n@%p2 bra spin;\nout:\n"},
	{"a spin without end inside a loop over rows", LINT_SPIN,
	 "mov.u32 %r8, %r1;\nrow:\nspin:\nld.acquire.sys.global.u32 %r5, [%rd0];\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra spin;\n"
	 "add.u32 %r8, %r8, 7;\nsetp.lt.u32 %p2, %r8, %r2;\n@%p2 bra row;\n",
	 "mov.u32 %r8, %r1;\nrow:\n" START "spin:\n" TIMED "ld.acquire.sys.global.u32 %r5, [%rd0];\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra spin;\n"
	 "add.u32 %r8, %r8, 7;\nsetp.lt.u32 %p2, %r8, %r2;\n@%p2 bra row;\nout:\n"},
	{"a plain store to a multicast address", LINT_MULTICAST,
	 "multimem.st.relaxed.sys.global.u32 [%rd2], %r2;\nst.global.u32 [%rd2+4], %r2;\n",
	 "multimem.st.relaxed.sys.global.u32 [%rd2], %r2;\nst.global.u32 [%rd1+4], %r2;\n"},
	{"a non-coherent load of what the kernel stores", LINT_NC,
	 "st.global.u32 [%rd4], %r2;\nbar.sync 0;\nld.global.nc.u32 %r5, [%rd1];\n",
	 "st.global.u32 [%rd4], %r2;\nbar.sync 0;\nld.global.u32 %r5, [%rd1];\n"},
};
/* clang-format on */

struct looked {
	struct arena arena;
	struct diags d;
	struct ptx_module *m;
	unsigned found;
};

/* The caller frees l->arena. */
static void look(struct looked *l, const char *text)
{
	arena_init(&l->arena, 0);
	if (setjmp(l->arena.oom))
		fail();
	diags_init(&l->d, &l->arena);
	l->m = ptx_parse_any(&l->arena, &l->d,
	                     diags_add_source(&l->d, "t.ptx", text, strlen(text)));
	l->found = l->m ? lint_module(l->m, &l->arena, &l->d) : 0;
}

static const char *shown(struct looked *l)
{
	struct strbuf b;

	strbuf_init(&b, &l->arena);
	diags_render(&l->d, DIAG_WARNING, &b);
	return b.s;
}

static void look_at_body(struct looked *l, const char *body)
{
	static char text[8192];

	snprintf(text, sizeof text, "%s%sret;\n}\n", HEAD, body);
	look(l, text);
	if (!l->m)
		fail_msg("%s", shown(l));
}

static void each_fault_is_found_and_nothing_else_in_its_kernel(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof examples / sizeof *examples; k++) {
		const struct example *e = &examples[k];
		const struct lint_rule_info *r = &lint_rule_info[e->rule];
		struct looked l;
		bool there = false;

		look_at_body(&l, e->wrong);
		for (const struct diag *d = l.d.head; d; d = d->next) {
			there |= d->code == r->code && d->severity == r->severity;
			if (d->severity != DIAG_NOTE && d->code != r->code)
				fail_msg("%s: also\n%s", e->name, shown(&l));
		}
		if (!there)
			fail_msg("%s: not found\n%s", e->name, shown(&l));
		assert_int_equal(l.found > 0, r->severity == DIAG_ERROR);
		arena_free(&l.arena);
	}
}

static void mended_nothing_is_found(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof examples / sizeof *examples; k++) {
		struct looked l;

		look_at_body(&l, examples[k].right);
		if (l.d.nerror || l.d.nwarning)
			fail_msg("%s:\n%s", examples[k].name, shown(&l));
		arena_free(&l.arena);
	}
}

static void every_rule_has_an_example(void **state)
{
	(void)state;
	for (unsigned r = 0; r < LINT_NRULES; r++) {
		bool there = r == LINT_LARGE; /* deep_nests_end */

		for (size_t k = 0; k < sizeof examples / sizeof *examples; k++)
			there |= examples[k].rule == r;
		if (!there)
			fail_msg("%s", lint_rule_info[r].name);
	}
}

static void what_other_compilers_write_passes_through(void **state)
{
	static const char text[] =
	        ".version 9.9\n.target sm_777a, debug\n.address_size 64\n"
	        ".global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n"
	        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
	        ".func (.param .b32 r) f(.param .b32 x)\n{\n.reg .b32 %r<3>;\n"
	        "ld.param.u32 %r1, [x];\nst.param.b32 [r+0], %r1;\nret;\n}\n"
	        ".entry k(.param .u64 p)\n.reqntid 128, 1, 1\n.maxnreg 64\n.explicitcluster\n{\n"
	        ".reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .pred %p<2>;\n"
	        "ld.param.u64 %rd1, [p];\n"
	        "{ .param .b32 param0;\nst.param.b32 [param0+0], %r1;\n"
	        "call.uni (retval0), f, (param0);\n}\n"
	        "ld.global.L1::no_allocate.L2::128B.u32 %r2, [%rd1];\n"
	        "st.global.cs.u32 [%rd1], %r2;\n"
	        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r3, %r4}, %rd1, %rd2, 1, "
	        "1;\n"
	        "mov.u32 %r5, %cluster_ctaid.x;\nsetp.eq.u32 %p1|_, %r5, 0;\n"
	        "quux.wibble [%rd1, {%r1, %r2}], 12;\n@%p1 bra $L__1;\n$L__1:\nret;\n}\n";
	struct looked l;
	unsigned opaque = 0, functions = 0;

	(void)state;
	look(&l, text);
	if (!l.m || l.d.nerror)
		fail_msg("%s", shown(&l));
	for (const struct ptx_fn *f = l.m->fn; f; f = f->next) {
		functions += f->ninsn > 0;
		for (uint32_t i = 0; i < f->ninsn; i++)
			opaque += f->insn[i].op == PTX_OPAQUE;
	}
	assert_int_equal(functions, 2);
	assert_int_equal(opaque, 7);
	arena_free(&l.arena);
}

/* n loops, each around the one before; between their beginnings: time must not grow with its square, and
 * what is not looked at is said. */
static void look_at_nest(struct looked *l, unsigned depth, const char *between)
{
	static char text[64 * 20000];
	size_t n = (size_t)snprintf(text, sizeof text, "%s", HEAD);

	for (unsigned k = 0; k < depth; k++)
		n += (size_t)snprintf(text + n, sizeof text - n, "l%u:\n%s", k, between);
	n += (size_t)snprintf(
	        text + n, sizeof text - n,
	        "ld.relaxed.sys.global.u32 %%r5, [%%rd0];\nsetp.eq.u32 %%p1, %%r5, 0;\n");
	for (unsigned k = 0; k < depth; k++)
		n += (size_t)snprintf(text + n, sizeof text - n, "@%%p1 bra l%u;\n", depth - 1 - k);
	snprintf(text + n, sizeof text - n, "ret;\n}\n");
	look(l, text);
	assert_non_null(l->m);
}

static void deep_nests_end(void **state)
{
	struct looked l;

	(void)state;
	look_at_nest(&l, 20000, "");
	assert_int_equal(l.d.nwarning, 0);
	arena_free(&l.arena);
	look_at_nest(&l, 5000, "add.u32 %r7, %r7, 1;\n");
	assert_non_null(strstr(shown(&l), "(too-large, "));
	arena_free(&l.arena);
}

/* Thousands of flags, each behind a condition and a barrier, but for the last one's barrier. */
static void long_kernels_are_read_to_their_end(void **state)
{
	enum { N = 8000 };
	static char text[192 * N];
	size_t n = (size_t)snprintf(text, sizeof text, "%s", HEAD);
	struct looked l;

	(void)state;
	for (unsigned k = 0; k < N; k++)
		n += (size_t)snprintf(
		        text + n, sizeof text - n,
		        "st.global.u32 [%%rd4], %%r2;\n%s\nsetp.ne.u32 %%p1, %%r0, %u;\n"
		        "@%%p1 bra l%u;\nst.release.sys.global.u32 [%%rd0], %%r3;\nl%u:\n"
		        "bar.sync 0;\n",
		        k < N - 1 ? "bar.sync 0;" : "", k, k, k);
	snprintf(text + n, sizeof text - n, "ret;\n}\n");
	look(&l, text);
	assert_int_equal(l.found, 1);
	assert_int_equal(l.d.nwarning, 0);
	assert_non_null(strstr(shown(&l), "(release-without-barrier, "));
	arena_free(&l.arena);
}

/* Weights may be loaded before the wait when they are named, and not where the kernel stores through
 * the pointer itself. */
static void parameters_that_are_named_may_be_loaded_before_the_wait(void **state)
{
	static const char head[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
	                           ".visible .entry k(.param .u64 p_w, .param .u64 p_x)\n{\n"
	                           ".reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n"
	                           "ld.param.b64 %rd0, [p_w];\nld.param.b64 %rd1, [p_x];\n"
	                           "ld.global.b32 %r0, [%rd0];\n";
	static const struct {
		const char *body, *name;
		unsigned found;
	} row[] = {
	        {"griddepcontrol.wait;\nst.global.b32 [%rd1], %r0;\nret;\n}\n", NULL, 1},
	        {"griddepcontrol.wait;\nst.global.b32 [%rd1], %r0;\nret;\n}\n", "p_w", 0},
	        {"griddepcontrol.wait;\nst.global.b32 [%rd1], %r0;\nret;\n}\n", "p_x", 1},
	        {"griddepcontrol.wait;\nst.global.b32 [%rd0], %r0;\nret;\n}\n", "p_w", 1},
	        {"ld.global.b32 %r1, [%rd1];\ngriddepcontrol.wait;\nret;\n}\n", "p_w", 1},
	        {"griddepcontrol.wait;\nst.global.b32 [%rd1], %r0;\nret;\n}\n", "p_v", 2},
	};
	char text[1024];

	(void)state;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct arena a;
		struct diags d;
		struct ptx_module *m;

		snprintf(text, sizeof text, "%s%s", head, row[i].body);
		arena_init(&a, 0);
		if (setjmp(a.oom))
			fail();
		diags_init(&d, &a);
		m = ptx_parse_any(&a, &d, diags_add_source(&d, "t.ptx", text, strlen(text)));
		assert_non_null(m);
		assert_int_equal(lint_module_given(m, &row[i].name, row[i].name ? 1 : 0, &a, &d),
		                 row[i].found);
		arena_free(&a);
	}
}

static void a_constant_that_no_kernel_has_is_an_error(void **state)
{
	static const char *const name = "nosuch";
	struct looked l;

	(void)state;
	look_at_body(&l, "");
	assert_int_equal(lint_module_given(l.m, &name, 1, &l.arena, &l.d), 1);
	assert_non_null(strstr(shown(&l), "no kernel has a parameter 'nosuch' [E914]"));
	assert_non_null(strstr(shown(&l), "'k' has 'flag', 'data', 'mc', 'n', 'epoch'"));
	arena_free(&l.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(each_fault_is_found_and_nothing_else_in_its_kernel),
	        cmocka_unit_test(parameters_that_are_named_may_be_loaded_before_the_wait),
	        cmocka_unit_test(mended_nothing_is_found),
	        cmocka_unit_test(every_rule_has_an_example),
	        cmocka_unit_test(what_other_compilers_write_passes_through),
	        cmocka_unit_test(deep_nests_end),
	        cmocka_unit_test(long_kernels_are_read_to_their_end),
	        cmocka_unit_test(a_constant_that_no_kernel_has_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
