/* A hand-written two-shot kernel (all_reduce, residual, RMSNorm) on simulated ranks, against a
 * reference in plain C. */
#include "tests/unit/unit.h"
#include "tests/unit/sim_run.h"
#include <math.h>

enum { HIDDEN = 8192, MAX_ROWS = 64 };

struct twoshot {
	struct sim_test t;
	const struct sim_kernel *k;
	struct sim_symmetric x, y, flags;
	uint64_t residual[SIM_MAX_RANKS], gamma[SIM_MAX_RANKS], epoch[SIM_MAX_RANKS];
	unsigned rows;
};

static float value_of(uint16_t bits)
{
	uint32_t u = (uint32_t)bits << 16;
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

static uint16_t bits_of(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Inputs that are small multiples of a power of two, so that sums over the ranks are exact in f32.
 */
static float input(unsigned rank, unsigned row, unsigned col)
{
	uint32_t h = (rank * 7919 + row * 104729 + col * 31) * 2654435761u;

	return (float)((int)(h >> 24) - 128) / 64;
}

static void setup(struct twoshot *w, unsigned ranks, unsigned rows)
{
	char *text = sim_test_file(&w->t, "tests/sim/twoshot.ptx");
	struct ptx_module *m;
	uint16_t *buf = arena_news(&w->t.arena, uint16_t, rows * HIDDEN + HIDDEN);
	uint32_t zero[64] = {0};

	assert_non_null(text);
	w->t.o.ranks = ranks;
	w->rows = rows;
	sim_test_start(&w->t);
	m = sim_test_parse(&w->t, text);
	assert_non_null(m);
	w->k = sim_load(w->t.sim, m, "ar_rms");
	if (!w->k)
		sim_test_show(&w->t);
	assert_non_null(w->k);
	w->x = sim_alloc_symmetric(w->t.sim, rows * HIDDEN * 2ull, true, "x");
	w->y = sim_alloc_symmetric(w->t.sim, rows * HIDDEN * 2ull, true, "y");
	w->flags = sim_alloc_symmetric(w->t.sim, sizeof zero, true, "flags");
	for (unsigned r = 0; r < ranks; r++) {
		w->residual[r] = sim_alloc(w->t.sim, r, rows * HIDDEN * 2ull, "residual");
		w->gamma[r] = sim_alloc(w->t.sim, r, HIDDEN * 2, "gamma");
		w->epoch[r] = sim_alloc(w->t.sim, r, sizeof zero, "epoch");
		for (unsigned i = 0; i < rows * HIDDEN; i++)
			buf[i] = bits_of(input(r, i / HIDDEN, i % HIDDEN));
		sim_write(w->t.sim, w->x.uc[r], buf, rows * HIDDEN * 2ull);
		for (unsigned i = 0; i < rows * HIDDEN; i++)
			buf[i] = bits_of(input(100, i / HIDDEN, i % HIDDEN));
		sim_write(w->t.sim, w->residual[r], buf, rows * HIDDEN * 2ull);
		for (unsigned i = 0; i < HIDDEN; i++)
			buf[i] = bits_of(1 + (float)(i % 7) / 8);
		sim_write(w->t.sim, w->gamma[r], buf, HIDDEN * 2);
		sim_write(w->t.sim, w->flags.uc[r], zero, sizeof zero);
		sim_write(w->t.sim, w->epoch[r], zero, sizeof zero);
	}
}

static void launch(struct twoshot *w, unsigned grid)
{
	const unsigned ranks = w->t.o.ranks, each = (w->rows + ranks - 1) / ranks;

	for (unsigned r = 0; r < ranks; r++) {
		struct {
			uint64_t x, y, residual, gamma, flags_mc, flags, epoch;
			uint32_t from, to, ranks;
			float eps;
		} a = {w->x.mc,        w->y.mc,        w->residual[r], w->gamma[r],
		       w->flags.mc,    w->flags.uc[r], w->epoch[r],    r * each,
		       (r + 1) * each, ranks,          1e-5f};

		a.from = a.from < w->rows ? a.from : w->rows;
		a.to = a.to < w->rows ? a.to : w->rows;
		sim_launch(w->t.sim, r, 0, w->k, grid, 512, &a, sizeof a);
	}
}

static void check(struct twoshot *w)
{
	uint16_t *y = arena_news(&w->t.arena, uint16_t, HIDDEN);
	float *h = arena_news(&w->t.arena, float, HIDDEN);

	for (unsigned row = 0; row < w->rows; row++) {
		double ss = 0;

		for (unsigned i = 0; i < HIDDEN; i++) {
			double sum = 0;

			for (unsigned r = 0; r < w->t.o.ranks; r++)
				sum += (double)value_of(bits_of(input(r, row, i)));
			h[i] = value_of(bits_of(value_of(bits_of((float)sum)) +
			                        value_of(bits_of(input(100, row, i)))));
			ss += (double)h[i] * (double)h[i];
		}
		for (unsigned r = 0; r < w->t.o.ranks; r++) {
			assert_true(sim_read(w->t.sim, w->y.uc[r] + row * HIDDEN * 2ull, y,
			                     HIDDEN * 2));
			for (unsigned i = 0; i < HIDDEN; i++) {
				double want = (double)h[i] / sqrt(ss / HIDDEN + 1e-5) *
				              (1 + (i % 7) / 8.0);

				if (fabs((double)value_of(y[i]) - want) > fabs(want) / 200 + 1e-6)
					fail_msg("row %u rank %u column %u: %g, not %g", row, r, i,
					         (double)value_of(y[i]), want);
			}
		}
	}
}

static void a_two_shot_kernel_gives_the_reference_values_under_every_schedule(void **state)
{
	(void)state;
	for (unsigned schedule = 0; schedule < SIM_NSCHEDULES; schedule++)
		for (unsigned ranks = 2; ranks <= 8; ranks += 6) {
			static struct twoshot w;

			sim_test_begin(&w.t);
			w.t.o.schedule = schedule;
			w.t.o.seed = schedule + ranks;
			w.t.o.slow_rank = 1;
			setup(&w, ranks, 9);
			launch(&w, 2);
			if (!sim_run(w.t.sim))
				sim_test_show(&w.t);
			assert_int_equal(sim_test_found(&w.t), SIM_NCHECKS);
			check(&w);
			sim_test_end(&w.t);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_two_shot_kernel_gives_the_reference_values_under_every_schedule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
