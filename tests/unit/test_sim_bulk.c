/*
 * Bulk copies and mbarriers in the simulator: a kernel that is right in every schedule, and the
 * same kernel with one mistake at a time, which every schedule has to find.
 */
#include "tests/unit/unit.h"
#include "tests/unit/sim_run.h"

enum { WORDS = 128, BYTES = 4 * WORDS };

#define VARS ".shared .align 128 .b8 ring[1024]; .shared .align 8 .b64 full[1];"

/* 64 threads: 512 bytes of a go to ring, are doubled into ring + 512, and go to b. */
static const char kernel[] =
        "mov.u32 %r10, ring; mov.u32 %r11, full; mov.u32 %r12, 512; setp.eq.u32 %p1, %r1, 0;\n"
        "@!%p1 bra ready;\n"
        "mbarrier.init.shared.b64 [%r11], 1;\n"
        "fence.mbarrier_init.release.cluster;\n"
        "fence.acq_rel.sys;\n"
        "fence.proxy.async;\n"
        "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r11], %r12;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd0], %r12, "
        "[%r11];\n"
        "ready:\n"
        "bar.sync 0;\n"
        "again: mbarrier.try_wait.parity.shared.b64 %p2, [%r11], 0;\n"
        "@!%p2 bra again;\n"
        "shl.b32 %r13, %r1, 3; add.u32 %r14, %r10, %r13;\n"
        "ld.shared.v2.b32 {%r15, %r16}, [%r14];\n"
        "add.u32 %r15, %r15, %r15; add.u32 %r16, %r16, %r16;\n"
        "st.shared.v2.b32 [%r14+512], {%r15, %r16};\n"
        "fence.proxy.async.shared::cta;\n"
        "bar.sync 0;\n"
        "@!%p1 bra over;\n"
        "add.u32 %r17, %r10, 512;\n"
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r17], %r12;\n"
        "cp.async.bulk.commit_group;\n"
        "cp.async.bulk.wait_group.read 0;\n"
        "st.shared.u32 [%r17], %r12;\n"
        "cp.async.bulk.wait_group 0;\n"
        "over:\n";

struct outcome {
	enum sim_check check;
	const char *text;
	bool right; /* b holds what it should */
};

/* The kernel with `from` replaced by `to`, on one schedule. */
static struct outcome run(struct sim_test *t, const char *from, const char *to,
                          enum sim_schedule schedule, uint64_t seed)
{
	struct outcome o = {SIM_NCHECKS, "", true};
	const char *at = from ? strstr(kernel, from) : kernel, *body = kernel;
	const struct sim_kernel *k;
	struct sim_test_args args = {0};
	uint32_t in[WORDS], out[WORDS] = {0};

	sim_test_begin(t);
	t->o.schedule = schedule;
	t->o.seed = seed;
	sim_test_start(t);
	assert_non_null(at);
	if (from)
		body = arena_printf(&t->arena, "%.*s%s%s", (int)(at - kernel), kernel, to,
		                    at + strlen(from));
	k = sim_test_load(t, VARS, body);
	args.a = sim_alloc(t->sim, 0, BYTES, "a");
	args.b = sim_alloc(t->sim, 0, BYTES, "b");
	for (unsigned i = 0; i < WORDS; i++)
		in[i] = i * 77 + 1;
	sim_write(t->sim, args.a, in, BYTES);
	if (k)
		sim_launch(t->sim, 0, 0, k, 1, 64, &args, SIM_TEST_ARGS);
	sim_run(t->sim);
	o.check = sim_test_found(t);
	if (sim_findings(t->sim))
		o.text = sim_findings(t->sim)->text;
	sim_read(t->sim, args.b, out, BYTES);
	for (unsigned i = 0; i < WORDS; i++)
		o.right &= out[i] == 2 * in[i];
	return o;
}

static void copies_are_right_in_every_schedule(void **state)
{
	static struct sim_test t;

	(void)state;
	for (unsigned q = 0; q < 10 * SIM_NSCHEDULES; q++) {
		struct outcome o = run(&t, NULL, NULL, (enum sim_schedule)(q % SIM_NSCHEDULES), q);

		if (o.check != SIM_NCHECKS || !o.right)
			fail_msg("schedule %u: %s", q, o.check == SIM_NCHECKS ? "wrong" : o.text);
		sim_test_end(&t);
	}
}

/* clang-format off */
static const struct mistake {
	enum sim_check check;
	const char *from, *to, *says;
} mistakes[] = {
	{SIM_ALIGN,       "mov.u32 %r12, 512;", "mov.u32 %r12, 504;", "multiple of 16"},
	{SIM_ALIGN,       "[%r10], [%rd0], %r12", "[%r10+8], [%rd0], %r12", "'ring' + 8"},
	{SIM_ALIGN,       "[%r10], [%rd0], %r12", "[%r10], [%rd0+8], %r12", "'a' + 8"},
	{SIM_BOUNDS,      "[%r10], [%rd0], %r12", "[%r10+768], [%rd0], %r12", "'ring'"},
	{SIM_BOUNDS,      "[%r10], [%rd0], %r12", "[%r10], [%rd0+16], %r12", "'a'"},
	{SIM_BOUNDS,      "[%rd1], [%r17], %r12", "[%rd1+16], [%r17], %r12", "'b'"},
	{SIM_BOUNDS,      "[%rd1], [%r17], %r12", "[%rd1], [%r17+16], %r12", "'ring'"},
	{SIM_UNINIT_MEM,  "[%r10], [%rd0], %r12", "[%r10], [%rd1], %r12", "'b'"},
	{SIM_UNINIT_MEM,  "st.shared.v2.b32 [%r14+512], {%r15, %r16};", "st.shared.b32 [%r14+512], %r15;", "'ring' + 516"},
	{SIM_MBARRIER,    "mbarrier.init.shared.b64 [%r11], 1;", "", "no mbarrier"},
	{SIM_MBARRIER,    "mbarrier.init.shared.b64 [%r11], 1;", "mbarrier.init.shared.b64 [%r11], 0;", "arrivals"},
	{SIM_MBARRIER,    "again:", "ld.shared.b64 %rd9, [%r11];\nagain:", "not data"},
	{SIM_MBARRIER,    "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r11], %r12;",
	 "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r11], %r12; mbarrier.arrive.shared.b64 %rd9, [%r11];", "more arrivals"},
	{SIM_BULK_FILL,   "again: mbarrier.try_wait.parity.shared.b64 %p2, [%r11], 0;\n@!%p2 bra again;", "", "has not seen complete"},
	{SIM_BULK_FILL,   "[%r11], 0;\n@!", "[%r11], 1;\n@!", "has not seen complete"},
	{SIM_BULK_FILL,   "ready:", "@%p1 st.shared.u32 [%r10], %r12;\nready:", "has not seen complete"},
	{SIM_BULK_SOURCE, "cp.async.bulk.wait_group.read 0;", "", "no wait_group.read"},
	{SIM_BULK_SOURCE, "cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group.read 1;", "no wait_group.read"},
	{SIM_BULK_EXIT,   "cp.async.bulk.wait_group 0;", "", "waited for"},
	{SIM_BULK_EXIT,   "cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;", ".read does not do"},
	{SIM_BULK_EXIT,   "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\nst.shared.u32 [%r17], %r12;", "", "not committed"},
	{SIM_PROXY,       "fence.proxy.async.shared::cta;", "", "made no fence.proxy.async since"},
	{SIM_PROXY,       "fence.proxy.async.shared::cta;\nbar.sync 0;", "bar.sync 0;\nfence.proxy.async.shared::cta;\nbar.sync 0;", NULL},
	{SIM_PROXY,       "fence.acq_rel.sys;\nfence.proxy.async;", "fence.proxy.async;\nfence.acq_rel.sys;", "last acquire"},
	{SIM_PROXY,       "fence.mbarrier_init.release.cluster;\nfence.acq_rel.sys;\nfence.proxy.async;", "fence.proxy.async.global;", "initialisation"},
	{SIM_SHARED_RACE, "fence.proxy.async.shared::cta;\nbar.sync 0;", "fence.proxy.async.shared::cta;", "no barrier between"},
	{SIM_SHARED_RACE, "ready:\n", "ready: setp.eq.u32 %p3, %r1, 1; @%p3 mbarrier.test_wait.parity.shared.b64 %p4, [%r11], 0;\n",
	 "initialised it"}, /* another lane of the warp; an arrival is no barrier */
	{SIM_DEADLOCK,    "[%r11], %r12;\ncp", "[%r11], 528;\ncp", "lacks 0 arrivals and 16 bytes"},
};
/* clang-format on */

static void every_mistake_is_found_in_every_schedule(void **state)
{
	static struct sim_test t;

	(void)state;
	for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++)
		for (unsigned q = 0; q < 3 * SIM_NSCHEDULES; q++) {
			const struct mistake *m = &mistakes[i];
			struct outcome o =
			        run(&t, m->from, m->to, (enum sim_schedule)(q % SIM_NSCHEDULES), q);

			/* a wrong parity sees nothing, or waits for a phase that does not come; what is not
			 * ordered may not even have been written */
			if ((m->check == SIM_BULK_FILL && o.check == SIM_DEADLOCK) ||
			    (m->check == SIM_SHARED_RACE && o.check == SIM_UNINIT_MEM))
				o = (struct outcome){m->check, m->says, false};
			if (m->says ? o.check != m->check || !strstr(o.text, m->says)
			            : o.check != SIM_NCHECKS || !o.right)
				fail_msg("mistake %zu, schedule %u: %s: %s", i, q,
				         o.check < SIM_NCHECKS ? sim_check_name[o.check]
				                               : "nothing",
				         o.text);
			sim_test_end(&t);
		}
}

/* A slot that is filled again: parities alternate, and a copy waits for those who read the slot. */
static const char twice[] =
        "mov.u32 %r10, ring; mov.u32 %r11, full; mov.u32 %r12, 256; setp.eq.u32 %p1, %r1, 0;\n"
        "mov.u32 %r20, 0; mov.u32 %r21, 0; mov.u64 %rd8, %rd0;\n"
        "@%p1 mbarrier.init.shared::cta.b64 [%r11], 1; @%p1 fence.proxy.async;\n"
        "next:\n"
        "@!%p1 bra ready;\n"
        "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r11], %r12;\n"
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r10], [%rd8], %r12, "
        "[%r11];\n"
        "ready: %s\n"
        "again: mbarrier.test_wait.parity.shared.b64 %p2, [%r11], %r20;\n"
        "@!%p2 bra again;\n"
        "shl.b32 %r13, %r1, 2; add.u32 %r14, %r10, %r13; ld.shared.b32 %r15, [%r14];\n"
        "%s\n"
        "xor.b32 %r20, %r20, 1; add.s64 %rd8, %rd8, 256; add.u32 %r21, %r21, 1;\n"
        "setp.lt.u32 %p3, %r21, 2; @%p3 bra next;\n"
        "mbarrier.arrive.shared.b64 %rd9, [%r11+0]; mbarrier.test_wait.shared.b64 %p4, [%r11], "
        "%rd9;\n"
        "mbarrier.try_wait.shared.b64 %p4, [%r11], %rd9; bar.sync 0; @%p1 "
        "mbarrier.inval.shared.b64 "
        "[%r11];\n";

static const char *with(struct sim_test *t, const char *first, const char *second)
{
	const char *a = strstr(twice, "%s"), *b = strstr(a + 2, "%s");

	return arena_printf(&t->arena, "%.*s%s%.*s%s%s", (int)(a - twice), twice, first,
	                    (int)(b - a - 2), a + 2, second, b + 2);
}

static enum sim_check run_twice(struct sim_test *t, const char *first, const char *second,
                                enum sim_schedule schedule, uint64_t seed)
{
	static uint32_t in[WORDS];
	const struct sim_kernel *k;
	struct sim_test_args args = {0};

	sim_test_begin(t);
	t->o.schedule = schedule;
	t->o.seed = seed;
	sim_test_start(t);
	k = sim_test_load(t, VARS, with(t, first, second));
	args.a = sim_alloc(t->sim, 0, BYTES, "a");
	sim_write(t->sim, args.a, in, BYTES);
	if (k)
		sim_launch(t->sim, 0, 0, k, 1, 64, &args, SIM_TEST_ARGS);
	sim_run(t->sim);
	return sim_test_found(t);
}

static void a_slot_is_filled_again_only_behind_its_readers(void **state)
{
	static struct sim_test t;
	enum sim_check c;

	(void)state;
	for (unsigned q = 0; q < 4 * SIM_NSCHEDULES; q++) {
		enum sim_schedule s = (enum sim_schedule)(q % SIM_NSCHEDULES);

		c = run_twice(&t, "bar.sync 0;", "bar.sync 0;", s, q);
		if (c != SIM_NCHECKS)
			fail_msg("schedule %u: %s", q, sim_findings(t.sim)->text);
		sim_test_end(&t);
		c = run_twice(&t, "bar.sync 0;", "", s, q);
		assert_true(c == SIM_SHARED_RACE || c == SIM_BULK_FILL);
		sim_test_end(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(copies_are_right_in_every_schedule),
	        cmocka_unit_test(every_mistake_is_found_in_every_schedule),
	        cmocka_unit_test(a_slot_is_filled_again_only_behind_its_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
