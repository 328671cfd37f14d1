/*
 * Speed of the simulator: a two-shot kernel of 512 threads, 8 ranks, 64 rows of 8192 columns, and
 * how many lane-instructions a second that is on one core.  Fails below a floor that only a broken
 * build goes under.
 */
#include "tests/unit/sim_run.h"
#include <time.h>

enum { HIDDEN = 8192, ROWS = 64, RANKS = 8, BLOCK = 512, LAUNCHES = 4 };

struct buffers {
	struct sim_symmetric x, y, flags;
	uint64_t residual[RANKS], gamma[RANKS], epoch[RANKS];
};

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void allocate(struct sim_test *t, struct buffers *b)
{
	const uint64_t bytes = (uint64_t)ROWS * HIDDEN * 2;
	uint8_t *ones = arena_alloc(&t->arena, bytes), zero[256] = {0};

	memset(ones, 0x3f, bytes);
	b->x = sim_alloc_symmetric(t->sim, bytes, true, "x");
	b->y = sim_alloc_symmetric(t->sim, bytes, true, "y");
	b->flags = sim_alloc_symmetric(t->sim, sizeof zero, true, "flags");
	for (unsigned r = 0; r < RANKS; r++) {
		b->residual[r] = sim_alloc(t->sim, r, bytes, "residual");
		b->gamma[r] = sim_alloc(t->sim, r, HIDDEN * 2, "gamma");
		b->epoch[r] = sim_alloc(t->sim, r, sizeof zero, "epoch");
		sim_write(t->sim, b->x.uc[r], ones, bytes);
		sim_write(t->sim, b->residual[r], ones, bytes);
		sim_write(t->sim, b->gamma[r], ones, HIDDEN * 2);
		sim_write(t->sim, b->flags.uc[r], zero, sizeof zero);
		sim_write(t->sim, b->epoch[r], zero, sizeof zero);
	}
}

static void launch(struct sim_test *t, const struct buffers *b, const struct sim_kernel *k)
{
	for (unsigned r = 0; r < RANKS; r++) {
		struct {
			uint64_t x, y, residual, gamma, flags_mc, flags, epoch;
			uint32_t from, to, ranks;
			float eps;
		} a = {b->x.mc,
		       b->y.mc,
		       b->residual[r],
		       b->gamma[r],
		       b->flags.mc,
		       b->flags.uc[r],
		       b->epoch[r],
		       r * ROWS / RANKS,
		       (r + 1) * ROWS / RANKS,
		       RANKS,
		       1e-5f};

		sim_launch(t->sim, r, 0, k, 4, BLOCK, &a, sizeof a);
	}
}

/* One run under a schedule; the time of sim_run alone is *run, of everything *all. */
static bool bench(enum sim_schedule schedule, double *rate)
{
	static struct sim_test t;
	struct buffers b;
	const struct sim_kernel *k;
	double start = seconds(), run;
	char *text;
	bool good;

	sim_test_begin(&t);
	t.o.ranks = RANKS;
	t.o.schedule = schedule;
	t.o.sum = SIM_SUM_RANK_ORDER;
	sim_test_start(&t);
	text = sim_test_file(&t, "tests/sim/twoshot.ptx");
	k = text ? sim_load(t.sim, sim_test_parse(&t, text), "ar_rms") : NULL;
	if (!k)
		return false;
	allocate(&t, &b);
	for (unsigned n = 0; n < LAUNCHES; n++)
		launch(&t, &b, k);
	run = seconds();
	good = sim_run(t.sim);
	run = seconds() - run;
	*rate = (double)sim_stats(t.sim).lane_insns / run / 1e6;
	printf("%-12s %.3f s in all, %.3f s running, %.1f million lane-instructions, %.0f million "
	       "a second\n",
	       sim_schedule_name[schedule], seconds() - start, run,
	       (double)sim_stats(t.sim).lane_insns / 1e6, *rate);
	if (!good)
		sim_test_show(&t);
	sim_test_end(&t);
	return good;
}

int main(void)
{
	double rate = 0;

	for (unsigned s = 0; s < SIM_NSCHEDULES; s++)
		if (!bench(s, &rate))
			return 1;
	return rate < 5;
}
