/*
 * What looking for races costs, and weak memory: CPU time of verifying one kernel a protocol and a
 * number of ranks (llama3-70b's add_norm, rows of 128 elements, T of 1, tp + 1 and 33, one thread),
 * without races, with them, and with weak memory besides in every other schedule, in turn and
 * medians of three rounds (one where a run takes half a second).  Prints the table of
 * doc/simulator.md; fails where races cost more than five times.
 *
 *	race_bench [--quick]     --quick, for tests: 2 and 8 ranks, and ten times, on busy machines
 */
#include "tools/pipeline.h"
#include "tools/verify_priv.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 3, SCHEDULES = 4, MOST = 5 };
#define ENOUGH 0.5 /* seconds: one round will do */
enum { PLAIN, RACES, WEAK, NMODES };

static const struct {
	const char *name, *spec;
	enum cg_protocol protocol;
} rows[] = {
        {"mm-twoshot", "samples/llama3-70b.plait", CG_MM_TWOSHOT},
        {"mm-oneshot", "tests/mutants/oneshot.plait", CG_MM_ONESHOT},
        {"p2p-twoshot", "samples/llama3-70b.plait", CG_P2P_TWOSHOT},
        {"p2p-bulk", "samples/llama3-70b.plait", CG_P2P_BULK},
        {"push", "samples/llama3-70b.plait", CG_PUSH},
        {"mm-push", "samples/llama3-70b.plait", CG_MM_PUSH},
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Seconds of all schedules; below 0: it failed, and said so. */
static double once(struct vf_data *d, unsigned mode, const struct ptx_module *m, const char *text)
{
	struct arena a;
	struct vf_result r;
	double start;

	d->o.races = mode == PLAIN ? SIM_RACES_OFF + 1 : 0;
	d->o.weak = mode == WEAK;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		return -1;
	start = now();
	vf_run(d, m, text, &a, &r);
	start = now() - start;
	if (r.failure.kind != VF_GOOD) {
		printf("%s: %s\n", vf_kind_name[r.failure.kind],
		       r.failure.text ? r.failure.text : "");
		start = -1;
	}
	arena_free(&a);
	return start;
}

static bool measure(struct vf_data *d, const struct ptx_module *m, const char *text,
                    double median[NMODES])
{
	double all[NMODES][ROUNDS];
	unsigned rounds = ROUNDS;

	if (once(d, PLAIN, m, text) < 0) /* and makes the data */
		return false;
	for (unsigned k = 0; k < rounds; k++)
		for (unsigned mode = 0; mode < NMODES; mode++) {
			all[mode][k] = once(d, mode, m, text);
			if (all[mode][k] < 0)
				return false;
			if (all[mode][k] > ENOUGH)
				rounds = 1;
		}
	for (unsigned mode = 0; mode < NMODES; mode++) {
		qsort(all[mode], rounds, sizeof all[mode][0], by_value);
		median[mode] = all[mode][rounds / 2];
	}
	return true;
}

/* One row's medians; false: it cannot be made, or is not good. */
static bool look(struct arena *a, unsigned row, unsigned tp, double median[NMODES])
{
	struct fe_set set = {"hidden", "128"};
	struct args args = {.command = CMD_VERIFY,
	                    .arena = a,
	                    .tp = tp,
	                    .kernel = "add_norm",
	                    .spec = rows[row].spec,
	                    .set = &set,
	                    .nset = 1,
	                    .protocol = rows[row].protocol,
	                    .order = CG_FORMAL,
	                    .target = cg_target_by_name("sm_90")};
	const int64_t tokens[] = {1, tp + 1, 33};
	const struct vf_options o = {.tp = tp,
	                             .tokens = tokens,
	                             .ntokens = 3,
	                             .schedules = SCHEDULES,
	                             .sum = -1,
	                             .threads = 1};
	struct vf_data *d = NULL;
	struct vf_kernel k;
	struct pipe p;
	struct strbuf text;
	const char *error = "";
	bool good;

	pipe_init(&p, a, &args);
	strbuf_init(&text, a);
	if (pipe_all(&p) != ST_OK) {
		diags_render(&p.d, DIAG_WARNING, &text);
		fputs(text.s, stdout);
		return false;
	}
	ptx_print(p.kernel[0].k->module, &text);
	k = (struct vf_kernel){
	        .f = p.kernel[0].f, .k = p.kernel[0].k, .rows = p.kernel[0].rows, .places = &p.d};
	if (vf_data_new(&k, &o, a, &d, &error) != ST_OK) {
		puts(error);
		return false;
	}
	good = measure(d, p.kernel[0].k->module, text.s, median);
	vf_data_free(d);
	return good;
}

static bool cell(unsigned row, unsigned tp, unsigned most)
{
	double median[NMODES];
	struct arena a;
	bool good;

	arena_init(&a, 0);
	if (setjmp(a.oom))
		return false;
	good = look(&a, row, tp, median);
	arena_free(&a);
	if (!good)
		return false;
	printf(" %.2f s; %.1fx, %.1fx |", median[PLAIN], median[RACES] / median[PLAIN],
	       median[WEAK] / median[PLAIN]);
	fflush(stdout);
	return median[RACES] <= most * median[PLAIN];
}

int main(int argc, char **argv)
{
	static const unsigned ranks[] = {2, 8, 16};
	const bool quick = argc == 2 && !strcmp(argv[1], "--quick");
	const unsigned n = quick ? 2 : 3, most = quick ? 2 * MOST : MOST;
	bool good = true;

	if (argc > 1 && !quick)
		return fputs("usage: race_bench [--quick]\n", stderr), 2;
	printf("| protocol |");
	for (unsigned k = 0; k < n; k++)
		printf(" tp %u |", ranks[k]);
	printf("\n|---|%.*s\n", (int)(4 * n), "---|---|---|");
	for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
		printf("| %s |", rows[row].name);
		for (unsigned k = 0; k < n; k++)
			good &= cell((unsigned)row, ranks[k], most);
		puts("");
	}
	if (!good)
		printf("failed, or races cost more than %ux\n", most);
	return !good;
}
