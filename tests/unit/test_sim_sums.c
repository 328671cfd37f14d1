/* Rounding and the switch's sums: num.h against searches over all encodings, each mode against what
 * it promises. */
#include "tests/unit/unit.h"
#include "tests/unit/sim_run.h"
#include "sim/num.h"
#include <math.h>

static uint64_t state64 = 1;

static uint64_t draw(void)
{
	state64 = state64 * 6364136223846793005u + 1442695040888963407u;
	return state64 >> 16;
}

static void bf16_and_f16_are_rounded_to_the_nearest_encoding(void **state)
{
	(void)state;
	for (unsigned f = NUM_F16; f <= NUM_BF16; f++)
		for (uint32_t u = 0; u < (f == NUM_F16 ? 0x7bffu : 0x7f7fu); u++) {
			double lo = num_value(f, u), hi = num_value(f, u + 1),
			       mid = lo + (hi - lo) / 2;

			assert_true(lo < hi);
			assert_int_equal(num_round(f, lo, 0, PTX_RN), u);
			assert_int_equal(num_round(f, -lo, 0, PTX_RN), 0x8000 | u);
			assert_int_equal(num_round(f, mid, 0, PTX_RN), u + (u & 1));
			assert_int_equal(num_round(f, mid, lo * 1e-20 + 1e-300, PTX_RN), u + 1);
			assert_int_equal(num_round(f, mid, -1e-300, PTX_RN), u);
			assert_int_equal(num_round(f, mid, 0, PTX_RZ), u);
			assert_int_equal(num_round(f, mid, 0, NUM_AWAY), u + 1);
			assert_int_equal(num_round(f, mid, 0, PTX_RP), u + 1);
			assert_int_equal(num_round(f, -mid, 0, PTX_RM), 0x8000 | (u + 1));
			assert_int_equal(num_round(f, -mid, 0, PTX_RP), 0x8000 | u);
		}
	assert_int_equal(num_round(NUM_BF16, 3.4e38, 0, PTX_RN), 0x7f80);
	assert_int_equal(num_round(NUM_BF16, 3.4e38, 0, PTX_RZ), 0x7f7f);
	assert_int_equal(num_round(NUM_F16, (double)NAN, 0, PTX_RN), 0x7fff);
}

static void f32_is_rounded_as_the_host_does(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 200000; n++) {
		double d = num_double(draw() << 16 ^ draw());
		float f = (float)d;

		if (isnan(d))
			continue;
		assert_int_equal(num_round(NUM_F32, d, 0, PTX_RN), num_bits(f));
	}
}

/* Sums of numbers of very different sizes, that cancel: the long fixed-point number has to be
 * exact. */
static void exact_sums_survive_cancellation(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 20000; n++) {
		float small = num_float(0x3f800000 | (uint32_t)(draw() & 0x7fffff));
		float big = ldexpf(num_float(0x3f800000 | (uint32_t)(draw() & 0x7fffff)),
		                   (int)(draw() % 180) - 80);
		double v[5] = {(double)big, (double)small, -(double)big, (double)ldexpf(big, 20),
		               -(double)ldexpf(big, 20)};

		assert_int_equal(num_exact_sum(NUM_F32, v, 5, PTX_RN), num_bits(small));
		v[1] = -v[1];
		assert_int_equal(num_exact_sum(NUM_F32, v, 5, PTX_RN), num_bits(-small));
		v[1] = 0;
		assert_int_equal(num_exact_sum(NUM_BF16, v, 5, PTX_RN), 0);
	}
	/* a tie that only a tiny addend breaks */
	assert_int_equal(num_exact_sum(NUM_BF16, (double[]){1, 0x1p-8, 0x1p-130}, 3, PTX_RN),
	                 0x3f81);
	assert_int_equal(num_exact_sum(NUM_BF16, (double[]){1, 0x1p-8, -0x1p-130}, 3, PTX_RN),
	                 0x3f80);
	assert_int_equal(num_exact_sum(NUM_BF16, (double[]){-1, -0x1p-8, -0x1p-130}, 3, PTX_RN),
	                 0xbf81);
	assert_int_equal(num_exact_sum(NUM_BF16, (double[]){1, 0x1p-130, 0}, 3, NUM_AWAY), 0x3f81);
	assert_int_equal(num_exact_sum(NUM_BF16, (double[]){1, 0x1p-130, 0}, 3, PTX_RZ), 0x3f80);
}

enum { RANKS = 8, WORDS = 128, HALVES = 2 * WORDS };

struct sums {
	struct sim_test t;
	uint16_t in[RANKS][HALVES], out[RANKS][HALVES]; /* out: by requesting rank */
};

/* One warp of each rank reduces all words. */
static void reduce(struct sums *w, enum sim_sum mode, const char *type, bool positive_zero)
{
	const char *body = arena_printf(&w->t.arena,
	                                "mul.wide.u32 %%rd4, %%r1, 16; add.s64 %%rd5, %%rd0, "
	                                "%%rd4; add.s64 %%rd6, %%rd1, %%rd4;\n"
	                                "multimem.ld_reduce.relaxed.sys.global.add%s {%%r10, "
	                                "%%r11, %%r12, %%r13}, [%%rd5];\n"
	                                "st.global.v4.b32 [%%rd6], {%%r10, %%r11, %%r12, %%r13};\n",
	                                type);
	struct sim_symmetric x, y;
	const struct sim_kernel *k;

	w->t.o.ranks = RANKS;
	w->t.o.sum = mode;
	w->t.o.seed = 42;
	w->t.o.sum_no_negative_zero = positive_zero;
	sim_test_start(&w->t);
	k = sim_test_load(&w->t, "", body);
	assert_non_null(k);
	x = sim_alloc_symmetric(w->t.sim, sizeof w->in[0], true, "x");
	y = sim_alloc_symmetric(w->t.sim, sizeof w->in[0], false, "y");
	for (unsigned r = 0; r < RANKS; r++) {
		struct sim_test_args a = {x.mc, y.uc[r], 0, 0};

		sim_write(w->t.sim, x.uc[r], w->in[r], sizeof w->in[r]);
		sim_launch(w->t.sim, r, 0, k, 1, 32, &a, SIM_TEST_ARGS);
	}
	assert_true(sim_run(w->t.sim));
	for (unsigned r = 0; r < RANKS; r++)
		sim_read(w->t.sim, y.uc[r], w->out[r], sizeof w->out[r]);
}

/* Sums of sizes that make the order and the rounding matter. */
static void fill(struct sums *w)
{
	for (unsigned r = 0; r < RANKS; r++)
		for (unsigned i = 0; i < HALVES; i++)
			w->in[r][i] =
			        (uint16_t)((draw() & 0x807f) | (0x3a00 + ((draw() % 12) << 7)));
}

static double exact(const struct sums *w, unsigned i)
{
	double s = 0;

	for (unsigned r = 0; r < RANKS; r++)
		s += num_value(NUM_BF16, w->in[r][i]);
	return s;
}

#define ACC ".acc::f32.v4.bf16x2"

static void every_mode_keeps_its_promise(void **state)
{
	unsigned up = 0, between = 0, differ = 0;

	(void)state;
	for (unsigned mode = 0; mode < SIM_NSUMS; mode++) {
		static struct sums w;

		sim_test_begin(&w.t);
		fill(&w);
		reduce(&w, mode, ACC, false);
		for (unsigned r = 0; r < RANKS; r++)
			for (unsigned i = 0; i < HALVES; i++) {
				double s = exact(&w, i), got = num_value(NUM_BF16, w.out[r][i]);
				uint64_t nearest = num_round(NUM_BF16, s, 0, PTX_RN);
				uint64_t low = num_round(NUM_BF16, s, 0, PTX_RM),
				         high = num_round(NUM_BF16, s, 0, PTX_RP);

				assert_true(got >= num_value(NUM_BF16, low) &&
				            got <= num_value(NUM_BF16, high));
				if (mode == SIM_SUM_EXACT)
					assert_int_equal(w.out[r][i], nearest);
				if (mode == SIM_SUM_RANK_ORDER) {
					float f = num_float((uint32_t)w.in[0][i] << 16);

					for (unsigned k = 1; k < RANKS; k++)
						f += num_float((uint32_t)w.in[k][i] << 16);
					assert_int_equal(w.out[r][i], num_bf16_of(num_bits(f)));
				}
				if (mode == SIM_SUM_FAITHFUL && low != high) {
					between++;
					up += w.out[r][i] == high;
				}
				if (mode == SIM_SUM_FAITHFUL)
					differ += w.out[r][i] != w.out[0][i];
			}
		sim_test_end(&w.t);
	}
	assert_in_range(up, between / 3, between * 2 / 3);
	assert_true(differ > between / 4);
}

/* Without .acc::f32 the switch may round every addition to bf16. */
static void sums_without_acc_are_rounded_at_every_step(void **state)
{
	static struct sums w;
	unsigned worse = 0;

	(void)state;
	sim_test_begin(&w.t);
	fill(&w);
	reduce(&w, SIM_SUM_RANK_ORDER, ".v4.bf16x2", false);
	for (unsigned i = 0; i < HALVES; i++) {
		double s = num_value(NUM_BF16, w.in[0][i]);

		for (unsigned r = 1; r < RANKS; r++)
			s = num_value(NUM_BF16,
			              num_round(NUM_BF16, s + num_value(NUM_BF16, w.in[r][i]), 0,
			                        PTX_RN));
		assert_true(num_value(NUM_BF16, w.out[3][i]) == s);
		worse += s != num_value(NUM_BF16, num_round(NUM_BF16, exact(&w, i), 0, PTX_RN));
	}
	assert_true(worse > HALVES / 10);
	sim_test_end(&w.t);
}

static void negative_zeros_may_become_positive_ones(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < SIM_NSUMS; mode++)
		for (unsigned positive = 0; positive < 2; positive++) {
			static struct sums w;

			sim_test_begin(&w.t);
			for (unsigned r = 0; r < RANKS; r++)
				for (unsigned i = 0; i < HALVES; i++)
					w.in[r][i] = 0x8000;
			reduce(&w, mode, ACC, positive);
			assert_int_equal(w.out[0][0], positive ? 0 : 0x8000);
			sim_test_end(&w.t);
		}
}

static void infinities_and_nans_come_out_in_every_mode(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < SIM_NSUMS; mode++) {
		static struct sums w;

		sim_test_begin(&w.t);
		fill(&w);
		w.in[3][0] = 0x7f80;
		w.in[2][1] = 0x7f80;
		w.in[5][1] = 0xff80;
		w.in[7][2] = 0x7fc1;
		reduce(&w, mode, ACC, false);
		assert_int_equal(w.out[1][0], 0x7f80);
		assert_int_equal(w.out[1][1], 0x7fff);
		assert_int_equal(w.out[1][2], 0x7fff);
		sim_test_end(&w.t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(bf16_and_f16_are_rounded_to_the_nearest_encoding),
	        cmocka_unit_test(f32_is_rounded_as_the_host_does),
	        cmocka_unit_test(exact_sums_survive_cancellation),
	        cmocka_unit_test(every_mode_keeps_its_promise),
	        cmocka_unit_test(sums_without_acc_are_rounded_at_every_step),
	        cmocka_unit_test(negative_zeros_may_become_positive_ones),
	        cmocka_unit_test(infinities_and_nans_come_out_in_every_mode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
