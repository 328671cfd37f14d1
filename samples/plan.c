/*
 * Plans a model of a spec for a batch, as an engine would at each step: whether to split, where, and
 * what runs when.
 *
 *	cc plan.c $(pkg-config --cflags --libs plait) -o plan
 *	./plan SPEC.plait TP GPU LENGTH [LENGTH ...]        lengths of the batch's requests
 */
#include <inttypes.h>
#include <plait.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_REQUESTS = 256 };

static char *read_file(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	char *text = NULL;
	long n;

	if (f && fseek(f, 0, SEEK_END) == 0 && (n = ftell(f)) >= 0 &&
	    (text = malloc((size_t)n + 1))) {
		rewind(f);
		*len = fread(text, 1, (size_t)n, f);
	}
	if (f)
		fclose(f);
	return text;
}

/* The schedule: what an engine enqueues on its two streams, step by step. */
static void print_steps(const plait_plan *plan, size_t from, size_t to)
{
	for (size_t k = from; k < to; k++) {
		size_t i = plait_plan_step(plan, k);
		struct plait_plan_stage st = PLAIT_PLAN_STAGE_INIT;

		plait_plan_get_stage(plan, i, &st);
		printf("step %zu, rows %" PRId64 " to %" PRId64 ":", k, st.row,
		       st.row + st.rows - 1);
		for (size_t o = 0; o < st.noperation; o++) {
			struct plait_plan_operation op = PLAIT_PLAN_OPERATION_INIT;

			plait_plan_get_operation(plan, i, o, &op);
			printf(" %s", op.name);
			if (op.sm_target)
				printf(" (%u SMs)", op.sm_target);
		}
		if (st.kernel)
			printf(" %s %s of rows %" PRId64 " to %" PRId64 " with %u CTAs",
			       st.overlap ? "| beside it" : "| then", st.kernel, st.kernel_row,
			       st.kernel_row + st.kernel_rows - 1, st.ctas);
		printf("\n");
	}
}

static void print_part(const struct plait_batch *b, int64_t row, int64_t rows)
{
	int64_t length[MAX_REQUESTS], cached[MAX_REQUESTS];
	size_t first, n;

	if (plait_batch_part(b, row, rows, &first, &n, length, cached, MAX_REQUESTS) != PLAIT_OK)
		return;
	printf("attention of rows %" PRId64 " to %" PRId64 ":", row, row + rows - 1);
	for (size_t i = 0; i < n && i < MAX_REQUESTS; i++)
		printf(" request %zu, %" PRId64 " rows behind %" PRId64 ";", first + i, length[i],
		       cached[i]);
	printf("\n");
}

static int run(plait_planner *p, const struct plait_batch *b)
{
	struct plait_plan_info info = PLAIT_PLAN_INFO_INIT;
	const plait_plan *plan;
	enum plait_status s = plait_plan_make(p, b, &plan);

	if (s != PLAIT_OK) {
		fprintf(stderr, "%s\n", plait_status_text(s));
		return 1;
	}
	plait_plan_get(plan, &info);
	printf("%s\nplan %016" PRIx64 ": %.3f ms, predicted\n", info.why, info.hash, info.us / 1e3);
	print_part(b, 0, info.split);
	if (info.mode == PLAIT_RUN_SPLIT)
		print_part(b, info.split, info.tokens - info.split);
	print_steps(plan, 0, info.nstep < 8 ? info.nstep : 8);
	return 0;
}

int main(int argc, char **argv)
{
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
	struct plait_batch b = PLAIT_BATCH_INIT;
	int64_t cum[MAX_REQUESTS + 1] = {0};
	plait_planner *p = NULL;
	char *text;
	int code = 1;

	if (argc < 5 || argc - 4 > MAX_REQUESTS) {
		fprintf(stderr, "usage: %s SPEC.plait TP GPU LENGTH [LENGTH ...]\n", argv[0]);
		return 2;
	}
	text = read_file(argv[1], &o.text_len);
	o.spec_name = argv[1];
	o.text = text;
	o.tp = (unsigned)atoi(argv[2]);
	o.gpu = argv[3];
	for (int i = 4; i < argc; i++)
		cum[i - 3] = cum[i - 4] + atoll(argv[i]);
	b.nrequest = (size_t)(argc - 4);
	b.tokens = cum[b.nrequest];
	b.cum = cum;
	if (!text)
		perror(argv[1]);
	else if (plait_planner_make(&o, &p) == PLAIT_OK)
		code = run(p, &b);
	else
		fprintf(stderr, "%s", plait_planner_diagnostics(p));
	plait_planner_free(p);
	free(text);
	return code;
}
