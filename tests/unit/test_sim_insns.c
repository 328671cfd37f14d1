/*
 * Every row of insns.def executed by itself, on ordinary and extreme operands, against values
 * computed here in another way. Rows that compute are a table; the others (memory, barriers,
 * control) have a test each.
 */
#include "tests/unit/unit.h"
#include "tests/unit/sim_rows.h"
#include "tests/unit/sim_run.h"
#include <math.h>

enum { LANES = 32, ROUNDS = 6 };

static bool covered[PTX_NOPS];

static void note_ops(const struct ptx_module *m)
{
	for (const struct ptx_fn *f = m->fn; f; f = f->next)
		for (uint32_t i = 0; i < f->ninsn; i++)
			covered[f->insn[i].op] = true;
}

static const char *register_of(char cls)
{
	switch (cls) {
	case 'd':
		return "%rd";
	case 'f':
		return "%f";
	case 'D':
		return "%fd";
	case 'h':
		return "%h";
	case 'p':
		return "%p";
	default:
		return "%r";
	}
}

/* Puts u64 operand k into register 10+k of its class. */
static void put_operand(struct strbuf *b, char cls, unsigned k)
{
	unsigned n = 10 + k;

	strbuf_printf(b, "ld.global.u64 %%rd%u, [%%rd%u+%u];\n", n, 5, k * 8);
	switch (cls) {
	case 'f':
		strbuf_printf(b, "cvt.u32.u64 %%r%u, %%rd%u; mov.b32 %%f%u, %%r%u;\n", n, n, n, n);
		break;
	case 'D':
		strbuf_printf(b, "mov.b64 %%fd%u, %%rd%u;\n", n, n);
		break;
	case 'h':
		strbuf_printf(b, "cvt.u16.u64 %%h%u, %%rd%u;\n", n, n);
		break;
	case 'p':
		strbuf_printf(
		        b,
		        "cvt.u32.u64 %%r%u, %%rd%u; and.b32 %%r%u, %%r%u, 1; setp.ne.u32 %%p%u, "
		        "%%r%u, 0;\n",
		        n, n, n, n, n, n);
		break;
	case 'r':
		strbuf_printf(b, "cvt.u32.u64 %%r%u, %%rd%u;\n", n, n);
		break;
	default:
		break;
	}
}

static void put_result(struct strbuf *b, char cls)
{
	static const char *const how[] = {['d'] = "mov.u64 %rd20, %rd9;",
	                                  ['f'] = "mov.b32 %r20, %f9; cvt.u64.u32 %rd20, %r20;",
	                                  ['D'] = "mov.b64 %rd20, %fd9;",
	                                  ['h'] = "cvt.u64.u16 %rd20, %h9;",
	                                  ['p'] = "selp.b64 %rd20, 1, 0, %p9;",
	                                  ['r'] = "cvt.u64.u32 %rd20, %r9;"};

	strbuf_puts(b, how[(unsigned char)cls]);
	strbuf_puts(b, "\nst.global.u64 [%rd5+24], %rd20;\n");
}

static const char *row_body(struct sim_test *t, const struct row *r)
{
	struct strbuf b;
	const unsigned n = (unsigned)strlen(r->classes) - 1;

	strbuf_init(&b, &t->arena);
	strbuf_puts(&b, "mul.wide.u32 %rd4, %r1, 32; add.s64 %rd5, %rd0, %rd4;\n");
	for (unsigned k = 0; k < n; k++)
		put_operand(&b, r->classes[k + 1], k);
	for (const char *s = r->text; *s; s++) {
		if (*s == 'R')
			strbuf_printf(&b, "%s9", register_of(r->classes[0]));
		else if (*s >= 'A' && *s <= 'C')
			strbuf_printf(&b, "%s%d", register_of(r->classes[*s - 'A' + 1]),
			              10 + *s - 'A');
		else
			strbuf_putc(&b, *s);
	}
	strbuf_puts(&b, ";\n");
	put_result(&b, r->classes[0]);
	return b.s;
}

static uint64_t keep_bits(char cls, uint64_t u)
{
	return cls == 'h' ? u & 0xffff : cls == 'd' || cls == 'D' ? u : u & 0xffffffff;
}

static bool near(const struct row *r, uint64_t got, uint64_t want)
{
	double g, w;

	if (got == want)
		return true;
	if (r->classes[0] == 'D')
		return isnan(d_of(got)) && isnan(d_of(want));
	if (r->classes[0] != 'f' || r->bound == 0)
		return false;
	g = (double)f_of(got);
	w = (double)f_of(want);
	return (isnan(g) && isnan(w)) || fabs(g - w) <= r->bound * fabs(w) + 3e-45;
}

static void run_row(const struct row *r, bool perturb)
{
	static struct sim_test t;
	const struct sim_kernel *k;
	struct ptx_module *m;
	uint64_t data[LANES][4];

	sim_test_begin(&t);
	t.o.perturb_approx = perturb;
	sim_test_start(&t);
	m = sim_test_parse(&t, sim_test_text(&t, "", row_body(&t, r)));
	assert_non_null(m);
	note_ops(m);
	k = sim_load(t.sim, m, "k");
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct sim_test_args args = {sim_alloc(t.sim, 0, sizeof data, "a"), 0, 0, 0};

		for (unsigned i = 0; i < LANES; i++)
			for (unsigned j = 0; j < 4; j++)
				data[i][j] = operand(i, round, j);
		assert_true(sim_write(t.sim, args.a, data, sizeof data));
		sim_launch(t.sim, 0, 0, k, 1, LANES, &args, SIM_TEST_ARGS);
		if (!sim_run(t.sim)) {
			sim_test_show(&t);
			fail_msg("%s", r->text);
		}
		for (unsigned i = 0; i < LANES; i++) {
			uint64_t got, a = keep_bits(r->classes[1], data[i][0]);
			uint64_t b = data[i][1], c = data[i][2], want;

			b = r->classes[2] ? keep_bits(r->classes[2], b) : b;
			c = r->classes[2] && r->classes[3] ? keep_bits(r->classes[3], c) : c;
			want = keep_bits(r->classes[0], r->expect(a, b, c));
			assert_true(sim_read(t.sim, args.a + i * 32 + 24, &got, 8));
			if (!near(r, got, want))
				fail_msg("%s of 0x%llx, 0x%llx, 0x%llx: 0x%llx, not 0x%llx",
				         r->text, (unsigned long long)a, (unsigned long long)b,
				         (unsigned long long)c, (unsigned long long)got,
				         (unsigned long long)want);
		}
	}
	sim_test_end(&t);
}

static void rows_that_compute_give_the_values_of_the_manual(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		run_row(&rows[i], false);
}

static void perturbed_approximations_stay_within_their_bounds(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i].bound != 0)
			run_row(&rows[i], true);
}

/* ---- the others: a body, 32 threads, and what has to be in memory afterwards ---- */

/* a: 64 words 1000 + i on every rank; b: 64 words of zeros; mc in c when two ranks. Word i of b
 * afterwards is want(i). */
typedef uint32_t want_fn(unsigned i);

static void run_body(const char *vars, const char *body, unsigned ranks, want_fn *want)
{
	static struct sim_test t;
	struct ptx_module *m;
	const struct sim_kernel *k;
	struct sim_symmetric a, b;
	uint32_t words[64], zero[64] = {0};

	sim_test_begin(&t);
	t.o.ranks = ranks;
	sim_test_start(&t);
	m = sim_test_parse(&t, sim_test_text(&t, vars, body));
	assert_non_null(m);
	note_ops(m);
	k = sim_load(t.sim, m, "k");
	if (!k)
		sim_test_show(&t);
	assert_non_null(k);
	a = sim_alloc_symmetric(t.sim, sizeof words, true, "a");
	b = sim_alloc_symmetric(t.sim, sizeof words, true, "b");
	for (unsigned r = 0; r < ranks; r++) {
		for (unsigned i = 0; i < 64; i++)
			words[i] = 1000 + i;
		sim_write(t.sim, a.uc[r], words, sizeof words);
		sim_write(t.sim, b.uc[r], zero, sizeof zero);
	}
	for (unsigned r = 0; r < ranks; r++) {
		struct sim_test_args args = {ranks > 1 ? a.mc : a.uc[r], b.uc[r], b.mc, 32};

		sim_launch(t.sim, r, 0, k, 1, LANES, &args, SIM_TEST_ARGS);
		if (r == 0 && !sim_run(t.sim)) {
			sim_test_show(&t);
			fail_msg("%s", body);
		}
		if (r == 0)
			break;
	}
	for (unsigned r = 0; r < ranks; r++) {
		sim_read(t.sim, b.uc[r], words, sizeof words);
		for (unsigned i = 0; i < 64; i++)
			if (words[i] != want(i) &&
			    (r == 0 || strstr(body, "multimem.st") || strstr(body, "multimem.red")))
				fail_msg("%s: word %u of rank %u is %u, not %u", body, i, r,
				         words[i], want(i));
	}
	sim_test_end(&t);
}

#define W(NAME, EXPR)                    \
	static uint32_t NAME(unsigned i) \
	{                                \
		return (uint32_t)(EXPR); \
	}
W(w_copy, i < 32 ? 1000 + i : 0)
W(w_copy64, 1000 + i)
W(w_neighbour, i < 31 ? 1001 + i : i == 31 ? 1031 : 0)
W(w_xor, i < 32 ? 1000 + (i ^ 5) : 0)
W(w_up, i < 32 ? (i < 3 ? 1000 + i : 1000 + i - 3) : 0)
W(w_idx, i < 32 ? 1007 : 0)
W(w_in_range, i < 32 ? (i + 4 < 32) : 0)
W(w_ballot, i < 32 ? 0xff : 0)
W(w_one, i < 32)
W(w_count, i == 0 ? 32 : i < 33 ? i - 1 : 0)
W(w_cas, i == 0 ? 1 : i < 33 ? (i == 1 ? 0 : 1) : 0)
W(w_exch, i == 0 ? 31 : i < 33 ? (i == 1 ? 0 : i - 2) : 0)
W(w_sum2, i < 32 ? 2 * (1000 + i) : 0)
W(w_red32, i == 0 ? 32 : 0)
W(w_odd, i < 32 ? (i & 1 ? 7 : 0) : 0)
W(w_loop, i < 32 ? i * (i + 1) / 2 : 0)
W(w_warp, i < 32 ? 1000 + 31 - i : 0)
W(w_pack, i < 32 ? (1000 + i) << 16 | (1000 + i) : 0)

#define MINE                                                                                      \
	"mul.wide.u32 %rd4, %r1, 4; add.s64 %rd5, %rd0, %rd4; add.s64 %rd6, %rd1, %rd4; add.s64 " \
	"%rd7, %rd2, %rd4;\n"
#define READ  MINE "ld.global.u32 %r10, [%rd5];\n"
#define WRITE "st.global.u32 [%rd6], %r11;\n"

static void loads_and_stores_move_what_they_say(void **state)
{
	(void)state;
	run_body("", MINE "ld.global.u32 %r11, [%rd5];" WRITE, 1, w_copy);
	run_body("",
	         MINE "cvta.global.u64 %rd8, %rd5; ld.u32 %r11, [%rd8]; cvta.to.global.u64 %rd9, "
	              "%rd6; st.global.u32 [%rd9], %r11;",
	         1, w_copy);
	run_body("", MINE "ld.global.nc.u32 %r11, [%rd5];" WRITE, 1, w_copy);
	run_body("",
	         "mul.wide.u32 %rd4, %r1, 8; add.s64 %rd5, %rd0, %rd4; add.s64 %rd6, %rd1, %rd4;"
	         "ld.relaxed.sys.global.v2.b32 {%r10, %r11}, [%rd5]; st.release.sys.global.v2.b32 "
	         "[%rd6], {%r10, %r11};",
	         1, w_copy64);
	run_body(".shared .align 16 .b32 buf[32];",
	         READ "mov.u32 %r12, buf; shl.b32 %r13, %r1, 2; add.u32 %r12, %r12, %r13; "
	              "st.shared.u32 [%r12], %r10;"
	              "bar.sync 0; mov.u32 %r14, buf; sub.u32 %r15, 31, %r1; shl.b32 %r15, %r15, "
	              "2; add.u32 %r14, %r14, %r15;"
	              "ld.shared.u32 %r11, [%r14];" WRITE,
	         1, w_warp);
	run_body(".shared .align 16 .b32 buf[32];",
	         READ "mov.u32 %r12, buf; shl.b32 %r13, %r1, 2; add.u32 %r12, %r12, %r13; "
	              "st.shared.u32 [%r12], %r10;"
	              "bar.warp.sync -1; mov.u32 %r14, buf; sub.u32 %r15, 31, %r1; shl.b32 %r15, "
	              "%r15, 2; add.u32 %r14, %r14, %r15;"
	              "ld.shared.u32 %r11, [%r14];" WRITE,
	         1, w_warp);
	run_body("",
	         READ "cvt.u16.u32 %h1, %r10; mov.b32 %r11, {%h1, %h1}; mov.b32 {%h2, %h3}, %r11; "
	              "mov.b32 %r11, {%h3, %h2};" WRITE,
	         1, w_pack);
}

static void lanes_exchange_by_shuffles_and_votes(void **state)
{
	(void)state;
	run_body("", READ "shfl.sync.down.b32 %r11, %r10, 1, 31, -1;" WRITE, 1, w_neighbour);
	run_body("", READ "shfl.sync.bfly.b32 %r11, %r10, 5, 31, -1;" WRITE, 1, w_xor);
	run_body("", READ "shfl.sync.up.b32 %r11, %r10, 3, 0, -1;" WRITE, 1, w_up);
	run_body("", READ "shfl.sync.idx.b32 %r11, %r10, 7, 31, -1;" WRITE, 1, w_idx);
	run_body("",
	         READ
	         "shfl.sync.down.b32 %r12|%p1, %r10, 4, 31, -1; selp.b32 %r11, 1, 0, %p1;" WRITE,
	         1, w_in_range);
	run_body("", READ "setp.lt.u32 %p1, %r1, 8; vote.sync.ballot.b32 %r11, %p1, -1;" WRITE, 1,
	         w_ballot);
	run_body("",
	         READ "setp.lt.u32 %p1, %r1, 8; vote.sync.any.pred %p2, %p1, -1; "
	              "vote.sync.all.pred %p3, %p1, -1;"
	              "selp.b32 %r11, 1, 0, %p2; @%p3 mov.u32 %r11, 9;" WRITE,
	         1, w_one);
}

static void atomics_return_the_old_value_and_store_the_new(void **state)
{
	(void)state;
	run_body("", MINE "atom.global.add.u32 %r11, [%rd1], 1; st.global.u32 [%rd6+4], %r11;", 1,
	         w_count);
	run_body(
	        "",
	        MINE
	        "atom.relaxed.gpu.global.cas.b32 %r11, [%rd1], 0, 1; st.global.u32 [%rd6+4], %r11;",
	        1, w_cas);
	run_body("", MINE "atom.global.exch.b32 %r11, [%rd1], %r1; st.global.u32 [%rd6+4], %r11;",
	         1, w_exch);
	run_body("", MINE "red.relaxed.sys.global.add.u32 [%rd1], 1;", 1, w_red32);
}

static void multimem_reaches_all_replicas(void **state)
{
	(void)state;
	run_body("", MINE "multimem.ld_reduce.relaxed.sys.global.add.u32 %r11, [%rd5];" WRITE, 2,
	         w_sum2);
	run_body("",
	         MINE "add.u32 %r11, %r1, 1000; multimem.st.relaxed.sys.global.b32 [%rd7], %r11;",
	         3, w_copy);
	run_body("", MINE "multimem.red.release.sys.global.add.u32 [%rd2], 1;", 4, w_red32);
}

static void control_goes_where_it_says(void **state)
{
	(void)state;
	run_body("",
	         MINE "and.b32 %r12, %r1, 1; setp.eq.u32 %p1, %r12, 0; mov.u32 %r11, 0; @%p1 bra "
	              "even; mov.u32 %r11, 7; even:" WRITE,
	         1, w_odd);
	run_body("",
	         MINE "mov.u32 %r11, 0; mov.u32 %r12, 0; again: add.u32 %r11, %r11, %r12; add.u32 "
	              "%r12, %r12, 1;"
	              "setp.le.u32 %p1, %r12, %r1; @%p1 bra again;" WRITE,
	         1, w_loop);
	run_body("",
	         MINE "setp.ge.u32 %p1, %r1, 32; @%p1 exit; mov.u32 %r11, 1;" WRITE "ret; trap;", 1,
	         w_one);
	run_body("",
	         MINE "fence.acq_rel.sys; fence.proxy.alias; griddepcontrol.wait; "
	              "griddepcontrol.launch_dependents; nanosleep.u32 20;"
	              "bar.sync 1, 32; mov.u64 %rd9, %globaltimer; setp.gt.u64 %p1, %rd9, 0; "
	              "selp.u32 %r11, 1, 0, %p1;" WRITE,
	         1, w_one);
}

static void every_row_has_been_executed(void **state)
{
	(void)state;
	for (unsigned op = 0; op < PTX_NOPS; op++)
		if (!covered[op] &&
		    !(op >= PTX_mbar_init && op <= PTX_fence_mbar_init)) /* test_sim_bulk.c */
			fail_msg("no test executes %s", ptx_insn_info[op].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(rows_that_compute_give_the_values_of_the_manual),
	        cmocka_unit_test(perturbed_approximations_stay_within_their_bounds),
	        cmocka_unit_test(loads_and_stores_move_what_they_say),
	        cmocka_unit_test(lanes_exchange_by_shuffles_and_votes),
	        cmocka_unit_test(atomics_return_the_old_value_and_store_the_new),
	        cmocka_unit_test(multimem_reaches_all_replicas),
	        cmocka_unit_test(control_goes_where_it_says),
	        cmocka_unit_test(every_row_has_been_executed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
