/*
 * Each check of sim/checks.def on PTX that commits the offence.  The offending line ends in "//!":
 * the finding has to name it.  Beside them, texts that come close and are right.
 */
#include "tests/unit/unit.h"
#include "tests/unit/sim_run.h"

/* a: 64 words on every rank, written; b: 64 words, never written; c: the multicast address of a. */
struct offence {
	enum sim_check check;
	const char *vars, *body;
	unsigned ranks, block;
	const char *says; /* in the text of the finding */
};

#define T4                                                                                        \
	"mul.wide.u32 %rd4, %r1, 4; add.s64 %rd5, %rd0, %rd4; add.s64 %rd6, %rd1, %rd4; add.s64 " \
	"%rd7, %rd2, %rd4;\n"
#define BUF ".shared .align 16 .b32 buf[32]; .shared .b32 other[32];"
#define SLOT                                                                                    \
	"mov.u32 %r10, buf; and.b32 %r11, %r1, 31; shl.b32 %r11, %r11, 2; add.u32 %r12, %r10, " \
	"%r11;\n"

/* clang-format off */
static const struct offence offences[] = {
	{SIM_BOUNDS, "", "ld.global.u32 %r10, [%rd0+256]; //!\n", 1, 32, "0 bytes past the end of 'a' (rank 0, 256 bytes)"},
	{SIM_BOUNDS, "", "ld.global.u32 %r10, [%rd0-4]; //!\n", 1, 32, "4 bytes before 'a'"},
	{SIM_BOUNDS, "", "ld.global.v4.b32 {%r10,%r11,%r12,%r13}, [%rd0+248]; //!\n", 1, 32, "16 bytes at 'a' + 248"},
	{SIM_BOUNDS, "", "mov.u64 %rd9, 64; ld.global.u32 %r10, [%rd9]; //!\n", 1, 32, "0x40"},
	{SIM_BOUNDS, "", "add.s64 %rd9, %rd0, %rd1; st.global.u32 [%rd9], %r0; //!\n", 1, 32, "no allocation"},
	{SIM_BOUNDS, "", T4 "setp.eq.u32 %p1, %r1, 9; @%p1 add.s64 %rd5, %rd5, 1024;\n st.global.u32 [%rd5], %r0; //!\n", 1, 32, "thread 9"},
	{SIM_BOUNDS, "", "multimem.ld_reduce.relaxed.sys.global.add.u32 %r10, [%rd2+1024]; //!\n", 2, 32, "multicast"},
	{SIM_BOUNDS, BUF, "mov.u32 %r10, buf; st.shared.u32 [%r10+128], %r0; //!\n", 1, 1, "no variable"},
	{SIM_BOUNDS, BUF, "mov.u32 %r10, buf; st.shared.u32 [%r10+65536], %r0; //!\n", 1, 1, "no variable"},
	{SIM_ALIGN, "", "ld.global.u32 %r10, [%rd0+2]; //!\n", 1, 32, "4 bytes"},
	{SIM_ALIGN, "", "ld.global.v4.b32 {%r10,%r11,%r12,%r13}, [%rd0+8]; //!\n", 1, 32, "'a' + 8"},
	{SIM_ALIGN, "", "mov.f32 %f0, 0f00000000; multimem.st.relaxed.sys.global.v4.f32 [%rd2+4], {%f0,%f0,%f0,%f0}; //!\n", 2, 32, "multicast"},
	{SIM_ALIGN, BUF, "mov.u32 %r10, buf; st.shared.u32 [%r10+2], %r0; //!\n", 1, 1, "'buf' + 2"},
	{SIM_UNINIT_REG, "", "add.u32 %r10, %r0, %r40; //!\n", 1, 32, "%r40"},
	{SIM_UNINIT_REG, "", "mul.rn.f32 %f1, %f2, %f2; //!\n", 1, 32, "%f2"},
	{SIM_UNINIT_REG, "", "@%p3 mov.u32 %r10, 1; //!\n", 1, 32, "%p3"},
	{SIM_UNINIT_REG, "", "mov.u32 %r10, 1; st.global.v2.b32 [%rd0], {%r10, %r11}; //!\n", 1, 32, "%r11"},
	{SIM_UNINIT_REG, "", "setp.lt.u32 %p1, %r1, 7; @%p1 mov.u32 %r10, 1;\n add.u32 %r11, %r10, 1; //!\n", 1, 32, "thread 7"},
	{SIM_UNINIT_MEM, "", "ld.global.u32 %r10, [%rd1+20]; //!\n", 1, 32, "'b' + 20"},
	{SIM_UNINIT_MEM, "", "st.global.u32 [%rd1], %r0;\n ld.global.v2.b32 {%r10, %r11}, [%rd1]; //!\n", 1, 32, "'b' + 4"},
	{SIM_UNINIT_MEM, "", "atom.global.add.u32 %r10, [%rd1], 1; //!\n", 1, 32, "'b'"},
	{SIM_UNINIT_MEM, BUF, SLOT "ld.shared.u32 %r13, [%r12]; //!\n", 1, 32, "'buf'"},
	{SIM_SPACE, "", "ld.global.u32 %r10, [%rd2]; //!\n", 2, 32, "multicast address"},
	{SIM_SPACE, "", "st.global.u32 [%rd2], %r0; //!\n", 2, 32, "multicast address"},
	{SIM_SPACE, "", "red.global.add.u32 [%rd2], 1; //!\n", 2, 32, "multicast address"},
	{SIM_SPACE, "", "multimem.ld_reduce.relaxed.sys.global.add.u32 %r10, [%rd0]; //!\n", 2, 32, "unicast address"},
	{SIM_SPACE, "", "multimem.st.relaxed.sys.global.u32 [%rd0], %r0; //!\n", 2, 32, "unicast address"},
	{SIM_SPACE, "", "multimem.red.relaxed.sys.global.add.u32 [%rd0], 1; //!\n", 2, 32, "unicast address"},
	{SIM_READONLY, "", T4 "st.global.u32 [%rd5], %r0;\n ld.global.nc.u32 %r10, [%rd5]; //!\n", 1, 32, "rank 0 at PTX line"},
	{SIM_READONLY, "", "st.global.u32 [%rd0+4], %r0; bar.sync 0;\n ld.global.nc.v4.b32 {%r10,%r11,%r12,%r13}, [%rd0]; //!\n", 1, 64, "written while"},
	{SIM_READONLY, "", "ld.global.nc.u32 %r10, [%rd0]; bar.sync 0;\n st.global.u32 [%rd0], %r0; //!\n", 1, 64, "a grid that still runs"},
	/* of the other rank's memory: allocations 1 and 2 are the copies of `a` */
	{SIM_READONLY, "", "xor.b64 %rd9, %rd0, 0x30000000000; ld.global.nc.u32 %r10, [%rd9]; bar.sync 0;\n st.global.u32 [%rd9], %r0; //!\n", 2, 64, "a grid that still runs"},
	{SIM_RACE, "", "st.global.u32 [%rd0], %r1; //!\n", 1, 64, "missing: order"},
	{SIM_RACE, "", "ld.global.u32 %r10, [%rd0]; setp.eq.u32 %p1, %r1, 0;\n @%p1 st.global.u32 [%rd0], %r10; //!\n", 1, 2, "read by rank 0, CTA 0, "},
	{SIM_SHFL, "", "setp.lt.u32 %p1, %r1, 8; @!%p1 bra over;\n shfl.sync.bfly.b32 %r10, %r1, 1, 31, -1; //!\nover:\n", 1, 32, "0xffffff00 are missing"},
	{SIM_SHFL, "", "setp.lt.u32 %p1, %r1, 8;\n @%p1 shfl.sync.bfly.b32 %r10, %r1, 1, 31, -1; //!\n", 1, 32, "take part"},
	{SIM_SHFL, "", "setp.lt.u32 %p1, %r1, 8;\n @%p1 shfl.sync.idx.b32 %r10, %r1, 20, 31, 0xff; //!\n", 1, 32, "lane 20"},
	{SIM_SHFL, "", "shfl.sync.idx.b32 %r10, %r1, 0, 31, 0xff; //!\n", 1, 32, "own mask"},
	{SIM_SHFL, "", "setp.ge.u32 %p1, %r1, 30; @%p1 exit;\n vote.sync.any.pred %p2, %p1, -1; //!\n", 1, 32, "they have ended"},
	{SIM_SHFL, "", "setp.eq.u32 %p1, %r1, 0;\n @%p1 bar.warp.sync -1; //!\n", 1, 32, "bar.warp.sync"},
	{SIM_BARRIER, "", "setp.eq.u32 %p1, %r1, 0;\n @%p1 bar.sync 0; //!\n", 1, 32, "0xfffffffe are missing"},
	{SIM_BARRIER, "", "setp.lt.u32 %p1, %r1, 4; @%p1 exit;\n bar.sync 0; //!\n", 1, 32, "they have ended"},
	{SIM_BARRIER, "", "setp.lt.u32 %p1, %r1, 32; @%p1 exit;\n bar.sync 0; //!\n", 1, 64, "have ended without it"},
	{SIM_BARRIER, "", "setp.ge.u32 %p1, %r1, 32; @%p1 exit;\n bar.sync 0; //!\n", 1, 64, "have ended without it"},
	{SIM_BARRIER, "", "mov.u32 %r10, 16; bar.sync %r10; //!\n", 1, 32, "16 barriers"},
	{SIM_BARRIER, "", "bar.sync 1, 33; //!\n", 1, 64, "multiple of 32"},
	{SIM_BARRIER, "", "and.b32 %r10, %r1, 1; bar.sync %r10; //!\n", 1, 32, "different barriers"},
	{SIM_SHARED_RACE, BUF, SLOT "st.shared.u32 [%r12], %r1; //!\n", 1, 64, "no barrier between"},
	{SIM_SHARED_RACE, BUF, SLOT "st.shared.u32 [%r12], %r1; setp.ge.u32 %p1, %r1, 32; @%p1 bra e;\n ld.shared.u32 %r13, [%r10+4]; //!\ne:\n", 1, 32, "'buf' + 4"},
	{SIM_SHARED_RACE, BUF, "mov.u32 %r10, buf; setp.ne.u32 %p1, %r1, 0; @!%p1 st.shared.u32 [%r10], 5; bar.sync 0;\n"
		"setp.ne.u32 %p2, %r1, 32; ld.shared.u32 %r13, [%r10];\n @!%p2 st.shared.u32 [%r10], %r13; //!\n", 1, 64, "read it at PTX line"},
	{SIM_SHARED_RACE, BUF, "mov.u32 %r10, buf; st.shared.u32 [%r10], %r1; //!\n", 1, 32, "thread 0 wrote"},
	{SIM_TRAP, "", "trap; //!\n", 1, 32, "aborted"},
	{SIM_LIMIT, "", "again: bra again;\n", 1, 32, "executed"},
	{SIM_DEADLOCK, "", "again: ld.relaxed.sys.global.u32 %r10, [%rd0+8]; //!\nsetp.ne.u32 %p1, %r10, 77; @%p1 bra again;\n", 1, 32,
		"polls 'a' + 8 (rank 0)"},
	{SIM_DEADLOCK, "", "setp.lt.u32 %p1, %r1, 32; @!%p1 bra wait;\nagain: ld.volatile.global.u32 %r10, [%rd0]; //!\n"
		"setp.ne.u32 %p1, %r10, 77; @%p1 bra again;\nwait: bar.sync 0;\n", 1, 64, "1 of 2 warps wait in bar.sync 0"},
	{SIM_DEADLOCK, "", "setp.lt.u32 %p1, %r1, 32; @%p1 bra other;\n bar.sync 0; //!\n bra end;\nother: bar.sync 1;\nend:\n", 1, 64,
		"2 warps wait at barriers that others of their CTA do not reach"},
	{SIM_DEADLOCK, "", "again: atom.global.cas.b32 %r10, [%rd0], 77, 78; //!\nsetp.ne.u32 %p1, %r10, 77; @%p1 bra again;\n", 1, 1, "sees 0x3e8"},
};

static const struct offence innocent[] = {
	{SIM_NCHECKS, BUF, SLOT "setp.lt.u32 %p1, %r1, 32; @%p1 st.shared.u32 [%r12], %r1; bar.sync 0; ld.shared.u32 %r13, [%r10+4]; bar.sync 0;"
		"@!%p1 st.shared.u32 [%r12], %r1;\n", 1, 64, NULL},
	{SIM_NCHECKS, BUF, "cvt.u16.u32 %h1, %r1; mov.u32 %r10, buf; shl.b32 %r11, %r1, 1; add.u32 %r10, %r10, %r11; st.shared.b16 [%r10], %h1;\n", 1, 64, NULL},
	{SIM_NCHECKS, BUF, "mov.u32 %r10, buf; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r10], 0; bar.sync 0; atom.shared.add.u32 %r11, [%r10], 1;\n", 1, 96, NULL},
	{SIM_NCHECKS, "", "ld.global.nc.u32 %r10, [%rd0]; st.global.u32 [%rd0+16], %r10; ld.global.nc.u32 %r11, [%rd0+4];\n", 1, 32, NULL},
	{SIM_NCHECKS, "", "setp.lt.u32 %p1, %r1, 8; @!%p1 bra e; shfl.sync.bfly.b32 %r10, %r1, 1, 31, 0xff;\ne: bar.sync 0;\n", 1, 40, NULL},
	{SIM_NCHECKS, "", "bar.sync 0; bar.sync 3, 64; shfl.sync.idx.b32 %r10, %r1, 0, 31, -1;\n", 1, 40, NULL},
	/* one lane of a warp waits for another: both get on */
	{SIM_NCHECKS, "", "setp.eq.u32 %p1, %r1, 0; @!%p1 bra give;\nagain: ld.relaxed.sys.global.u32 %r10, [%rd0]; setp.ne.u32 %p2, %r10, 77; @%p2 bra again; bra e;\n"
		"give: st.relaxed.sys.global.u32 [%rd0], 77;\ne: bar.sync 0;\n", 1, 32, NULL},
	/* a loop that polls a word which never changes, and ends by itself */
	{SIM_NCHECKS, "", "mov.u32 %r10, 0;\nagain: ld.relaxed.sys.global.u32 %r11, [%rd0]; add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, 20; @%p1 bra again;\n", 2, 64, NULL},
};
/* clang-format on */

static unsigned marked_line(const char *text)
{
	const char *at = strstr(text, "//!");
	unsigned line = 1;

	for (const char *s = text; at && s < at; s++)
		line += *s == '\n';
	return at ? line : 0;
}

static void run(struct sim_test *t, const struct offence *o, const char *text, unsigned schedule)
{
	const struct sim_kernel *k;
	struct ptx_module *m;
	struct sim_symmetric a, b;
	uint32_t words[64];

	t->o.ranks = o->ranks;
	t->o.schedule = schedule;
	t->o.races = o->check == SIM_RACE ? SIM_RACES_FORMAL : SIM_RACES_OFF;
	t->o.max_steps = 100000;
	sim_test_start(t);
	m = sim_test_parse(t, text);
	assert_non_null(m);
	k = sim_load(t->sim, m, "k");
	if (!k)
		return;
	for (unsigned i = 0; i < 64; i++)
		words[i] = 1000 + i;
	a = sim_alloc_symmetric(t->sim, sizeof words, true, "a");
	b = sim_alloc_symmetric(t->sim, sizeof words, false, "b");
	for (unsigned r = 0; r < o->ranks; r++)
		sim_write(t->sim, a.uc[r], words, sizeof words);
	for (unsigned r = 0; r < o->ranks; r++) {
		struct sim_test_args args = {a.uc[r], b.uc[r], a.mc, 3};

		sim_launch(t->sim, r, 0, k, 1, o->block, &args, SIM_TEST_ARGS);
	}
	sim_run(t->sim);
}

static void every_offence_is_found_at_its_line(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof offences / sizeof offences[0]; i++) {
		const struct offence *o = &offences[i];

		for (unsigned schedule = 0; o->ranks && schedule < SIM_NSCHEDULES; schedule++) {
			static struct sim_test t;
			const struct sim_finding *f;
			struct strbuf b;
			const char *text;

			sim_test_begin(&t);
			text = sim_test_text(&t, o->vars, o->body);
			run(&t, o, text, schedule);
			f = sim_findings(t.sim);
			if (!f)
				fail_msg("%s: nothing found in\n%s", sim_check_name[o->check],
				         o->body);
			strbuf_init(&b, &t.arena);
			sim_render_findings(t.sim, &b);
			if (f->check != o->check)
				fail_msg("%s: found %s in\n%s", sim_check_name[o->check], b.s,
				         o->body);
			if (o->check != SIM_SHARED_RACE && !strstr(b.s, o->says))
				fail_msg("no '%s' in: %s", o->says, b.s);
			if (strstr(text, "//!") && f->line != marked_line(text))
				fail_msg("line %u, not %u: %s", f->line, marked_line(text), b.s);
			sim_test_end(&t);
		}
	}
}

static void what_only_comes_close_is_let_pass(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof innocent / sizeof innocent[0]; i++)
		for (unsigned schedule = 0; schedule < SIM_NSCHEDULES; schedule++) {
			static struct sim_test t;

			sim_test_begin(&t);
			run(&t, &innocent[i], sim_test_text(&t, innocent[i].vars, innocent[i].body),
			    schedule);
			if (sim_findings(t.sim)) {
				sim_test_show(&t);
				fail_msg("%s", innocent[i].body);
			}
			sim_test_end(&t);
		}
}

static enum sim_check load_text(struct sim_test *t, const char *text)
{
	struct ptx_module *m;

	sim_test_begin(t);
	sim_test_start(t);
	m = sim_test_parse(t, text);
	assert_non_null(m);
	assert_null(sim_load(t->sim, m, "k"));
	return sim_test_found(t);
}

#define HEAD(version, target)                   \
	".version " version "\n.target " target \
	"\n.address_size 64\n.visible .entry k(.param .u64 a)\n"

static void what_the_target_lacks_is_found_on_loading(void **state)
{
	static struct sim_test t;
	const struct sim_finding *f;

	(void)state;
	assert_int_equal(load_text(&t, HEAD("8.2", "sm_90") "{\nfence.acquire.sys;\nret;\n}\n"),
	                 SIM_TARGET);
	f = sim_findings(t.sim);
	assert_int_equal(f->line, 6);
	assert_non_null(strstr(f->text, "needs .version 8.6"));
	sim_test_end(&t);
	assert_int_equal(
	        load_text(
	                &t,
	                HEAD("7.8",
	                     "sm_80") "{\n.reg .b64 %rd<2>; .reg .b32 %r<2>;\nld.param.u64 %rd0, "
	                              "[a];\n"
	                              "multimem.ld_reduce.global.add.u32 %r0, [%rd0];\nret;\n}\n"),
	        SIM_TARGET);
	sim_test_end(&t);
}

static void what_is_not_modelled_is_said_on_loading(void **state)
{
	static struct sim_test t;

	(void)state;
	assert_int_equal(load_text(&t, HEAD("8.8", "sm_90") "{\n.reg .b64 %rd<2>; .reg .b32 "
	                                                    "%r<2>;\nld.param.u64 %rd0, [a];\n"
	                                                    "ld.const.u32 %r0, [%rd0];\nret;\n}\n"),
	                 SIM_UNSUPPORTED);
	assert_int_equal(sim_findings(t.sim)->line, 8);
	sim_test_end(&t);
}

static void launches_that_do_not_fit_the_parameters_are_found(void **state)
{
	static struct sim_test t;
	const struct sim_kernel *k;
	struct sim_test_args args = {0};

	(void)state;
	for (unsigned wrong = 0; wrong < 5; wrong++) {
		sim_test_begin(&t);
		sim_test_start(&t);
		k = sim_test_load(&t, "", "");
		assert_non_null(k);
		sim_launch(t.sim, wrong == 0 ? 1 : 0, wrong == 1 ? 9 : 0, wrong == 4 ? NULL : k, 1,
		           wrong == 2 ? 1025 : 32, &args, wrong == 3 ? 24 : SIM_TEST_ARGS);
		assert_false(sim_run(t.sim));
		assert_int_equal(sim_test_found(&t), SIM_PARAM);
		sim_test_end(&t);
	}
}

static void a_spin_with_a_time_limit_ends_when_time_may_jump(void **state)
{
	static const char body[] = "mov.u64 %rd8, %globaltimer; add.s64 %rd8, %rd8, 1000000000;\n"
	                           "again: ld.relaxed.sys.global.u32 %r10, [%rd0]; mov.u64 %rd9, "
	                           "%globaltimer; setp.gt.u64 %p2, %rd9, %rd8; @%p2 bra late;\n"
	                           "setp.ne.u32 %p1, %r10, 77; @%p1 bra again;\nret;\nlate: "
	                           "st.global.u32 [%rd1], 5;\n";

	(void)state;
	for (unsigned jump = 0; jump < 2; jump++) {
		static struct sim_test t;
		struct offence o = {SIM_DEADLOCK, "", body, 1, 1, NULL};

		sim_test_begin(&t);
		t.o.jump_time = jump;
		run(&t, &o, sim_test_text(&t, "", body), SIM_RANDOM);
		assert_int_equal(sim_test_found(&t), jump ? SIM_NCHECKS : SIM_DEADLOCK);
		sim_test_end(&t);
	}
}

/* A spin with plain loads is no poll to the simulator, but it does not run for ever either. */
static void a_run_that_changes_nothing_is_given_up(void **state)
{
	static struct sim_test t;
	const struct sim_kernel *k;
	uint32_t zero = 0;
	struct sim_test_args args = {0};

	(void)state;
	sim_test_begin(&t);
	t.o.max_steps = 0;
	sim_test_start(&t);
	k = sim_test_load(
	        &t, "",
	        "again: ld.global.u32 %r10, [%rd0]; setp.eq.u32 %p1, %r10, 0; @%p1 bra again;\n");
	args.a = sim_alloc(t.sim, 0, 4, "flag");
	sim_write(t.sim, args.a, &zero, 4);
	sim_launch(t.sim, 0, 0, k, 1, 1, &args, SIM_TEST_ARGS);
	assert_false(sim_run(t.sim));
	assert_int_equal(sim_test_found(&t), SIM_LIMIT);
	assert_int_equal(sim_findings(t.sim)->line, 11);
	assert_non_null(strstr(sim_findings(t.sim)->text, "without a store"));
	sim_test_end(&t);
}

static void every_check_has_an_offence(void **state)
{
	bool seen[SIM_NCHECKS] = {[SIM_TARGET] = true,
	                          [SIM_UNSUPPORTED] = true,
	                          [SIM_PARAM] = true,
	                          /* in test_sim_bulk.c */
	                          [SIM_MBARRIER] = true,
	                          [SIM_BULK_FILL] = true,
	                          [SIM_BULK_SOURCE] = true,
	                          [SIM_BULK_EXIT] = true,
	                          [SIM_PROXY] = true};

	(void)state;
	for (size_t i = 0; i < sizeof offences / sizeof offences[0]; i++)
		seen[offences[i].check] |= offences[i].ranks != 0;
	for (unsigned c = 0; c < SIM_NCHECKS; c++)
		if (!seen[c])
			fail_msg("no test commits %s", sim_check_name[c]);
}

static void the_manual_lists_every_check(void **state)
{
	static struct sim_test t;
	static const char *const title[SIM_NCHECKS] = {
#define SIM_CHECK(ID, name, title) title,
#include "sim/checks.def"
#undef SIM_CHECK
	};
	char *manual;

	(void)state;
	sim_test_begin(&t);
	manual = sim_test_file(&t, "doc/simulator.md");
	assert_non_null(manual);
	for (unsigned c = 0; c < SIM_NCHECKS; c++) {
		const char *row =
		        arena_printf(&t.arena, "| `%s` | %s |", sim_check_name[c], title[c]);

		if (!strstr(manual, row))
			fail_msg("doc/simulator.md has no row: %s", row);
	}
	for (unsigned c = 0; c < SIM_NSCHEDULES; c++)
		assert_non_null(
		        strstr(manual, arena_printf(&t.arena, "| `%s` |", sim_schedule_name[c])));
	for (unsigned c = 0; c < SIM_NSUMS; c++)
		assert_non_null(
		        strstr(manual, arena_printf(&t.arena, "| `%s` |", sim_sum_name[c])));
	sim_test_end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(every_offence_is_found_at_its_line),
	        cmocka_unit_test(what_only_comes_close_is_let_pass),
	        cmocka_unit_test(what_the_target_lacks_is_found_on_loading),
	        cmocka_unit_test(what_is_not_modelled_is_said_on_loading),
	        cmocka_unit_test(launches_that_do_not_fit_the_parameters_are_found),
	        cmocka_unit_test(a_spin_with_a_time_limit_ends_when_time_may_jump),
	        cmocka_unit_test(a_run_that_changes_nothing_is_given_up),
	        cmocka_unit_test(every_check_has_an_offence),
	        cmocka_unit_test(the_manual_lists_every_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
