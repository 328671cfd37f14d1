/*
 * Decoder layers of llama3-70b and llama3-8b shapes on all GPUs of this machine, four ways, in CUDA graphs:
 *
 *	unfused     NCCL's all-reduce and one add + norm kernel
 *	fused       plait's kernels between the GEMMs
 *	split       plait's kernels beside the GEMMs of the other part of the rows, as the planner says
 *	removed     no communication at all, with the full norm: the yardstick, which computes nothing useful
 *
 * GEMMs are cuBLASLt's, on random data.  Attention and the activation are left out: their results are random
 * data that stay.  The planner's machine is measured at the start.  Times are medians of runs of all ways in
 * turn, and quotients are medians of those of one turn; recovered is (unfused - split) / (unfused - removed).
 *
 *	cc -O2 overlap.c overlap_layers.c $(pkg-config --cflags --libs plait) -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart -lm -o overlap
 *	./overlap [70b|8b] [--grid] [--layers N] [--json] [--trace NAME] [--ranks N] [--predict] [T ...]
 *
 * --grid also runs splits at other rows; --json writes lines that scripts/overlap-tables makes tables of;
 * --trace writes NAME-MODEL-T-WAY.json, what was predicted and what one run did, for ui.perfetto.dev; --ranks puts
 * several ranks on a GPU where there are fewer, to try (times then mean nothing); --predict prints what the
 * planner expects of two H200s, and needs no GPU.
 */
#include "overlap.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WAYS = 12, LEAST_RUNS = 11, MOST_RUNS = 41, SESSION_MS = 1500 };

static const struct model models[] = {{"70b", "8192", "28672", "64"},
                                      {"8b", "4096", "14336", "32"}};
static const char *const mode_name[] = {"unfused", "removed", "fused", "split"};

struct options {
	const char *trace; /* NULL: none */
	int64_t T[32];
	unsigned n;
	bool grid, predict, json;
};

/* ---- a way to run, as a graph on each GPU ---- */

struct stat {
	double low, median, high; /* the middle half */
};

struct way {
	const plait_plan *plan; /* NULL: this one is left out */
	struct plait_plan_info info;
	cudaGraphExec_t exec[MOST_GPUS];
	double ms[MOST_RUNS]; /* in the order of the turns */
	struct stat time;     /* ms; of a prediction its own */
};

struct session { /* of one T */
	struct app *a;
	int64_t T;
	unsigned nway, runs;   /* the first four are the modes */
	unsigned choice, best; /* the planner's; the fastest that computes what it should */
	struct way way[MOST_WAYS];
	double differs;
};

static enum plait_status capture(struct app *a, struct way *w)
{
	enum plait_status s = PLAIT_OK;
	unsigned begun = 0;

	for (; begun < a->info.nlocal && s == PLAIT_OK; begun++)
		if (cudaSetDevice(a->gpu[begun].device) ||
		    cudaStreamBeginCapture(a->gpu[begun].stream, cudaStreamCaptureModeRelaxed))
			s = PLAIT_ENV;
	if (s == PLAIT_OK)
		s = plait_schedule_run(a->schedule, w->plan, NULL, a->stream);
	for (unsigned r = 0; r < begun; r++) {
		cudaGraph_t graph = NULL;

		if (cudaSetDevice(a->gpu[r].device) ||
		    cudaStreamEndCapture(a->gpu[r].stream, &graph) ||
		    (s == PLAIT_OK && cudaGraphInstantiate(&w->exec[r], graph, 0)))
			s = s == PLAIT_OK ? PLAIT_ENV : s;
		if (graph)
			cudaGraphDestroy(graph);
	}
	return s;
}

/* Whether there is such a way already. */
static bool has_way(const struct session *x, const struct plait_plan_info *p)
{
	for (unsigned i = 0; i < x->nway; i++)
		if (x->way[i].info.mode == p->mode && x->way[i].info.split == p->split)
			return true;
	return false;
}

/* Adds a way; of splits, at row `at`, or at the planner's best, if it is not there yet. */
static enum plait_status open_way(struct session *x, enum plait_run_mode mode, int64_t at)
{
	struct way *w = &x->way[x->nway];
	struct plait_batch b = PLAIT_BATCH_INIT;
	enum plait_status s;

	*w = (struct way){.info = PLAIT_PLAN_INFO_INIT};
	b.tokens = x->T;
	s = plait_plan_force(x->a->planner, &b, mode, at, &w->plan);
	if (s != PLAIT_OK)
		return s;
	plait_plan_get(w->plan, &w->info);
	if (has_way(x, &w->info))
		return PLAIT_OK;
	x->nway++;
	if (x->a->shared && mode == PLAIT_RUN_UNFUSED)
		w->plan = NULL;
	if (!x->a->schedule || !w->plan)
		return PLAIT_OK;
	s = plait_schedule_agree(x->a->schedule, w->plan);
	if (s == PLAIT_OK)
		s = plait_schedule_warm(x->a->schedule, w->plan, NULL, x->a->stream);
	return s == PLAIT_OK ? capture(x->a, w) : s;
}

static void close_ways(struct session *x)
{
	while (x->nway--)
		for (unsigned r = 0; r < x->a->info.nlocal; r++)
			if (x->way[x->nway].exec[r])
				cudaGraphExecDestroy(x->way[x->nway].exec[r]);
}

/* The four ways, splits at other rows, and the planner's choice, which is one of them or one more. */
static enum plait_status open_ways(struct session *x, bool grid)
{
	struct plait_plan_info chosen = PLAIT_PLAN_INFO_INIT;
	struct plait_batch b = PLAIT_BATCH_INIT;
	enum plait_status s = PLAIT_OK;
	const plait_plan *plan;

	for (unsigned i = 0; i < 4 && s == PLAIT_OK; i++)
		s = open_way(x, (enum plait_run_mode)i, 0);
	for (int64_t k = 2; k < 8 && s == PLAIT_OK && grid && x->T >= 512; k++)
		s = open_way(x, PLAIT_RUN_SPLIT, x->T * k / 8);
	b.tokens = x->T;
	if (s == PLAIT_OK)
		s = plait_plan_make(x->a->planner, &b, &plan);
	if (s != PLAIT_OK)
		return s;
	plait_plan_get(plan, &chosen);
	while (x->choice < x->nway && (x->way[x->choice].info.mode != chosen.mode ||
	                               x->way[x->choice].info.split != chosen.split))
		x->choice++;
	return x->choice < x->nway ? PLAIT_OK : open_way(x, chosen.mode, chosen.split);
}

/* ---- measuring ---- */

/* One run, ms: of the GPU that took least, since the others waited for it to begin. */
static double once(struct app *a, struct way *w)
{
	float least = INFINITY, ms;

	for (unsigned r = 0; r < a->info.nlocal; r++) {
		struct gpu *g = &a->gpu[r];

		if (cudaSetDevice(g->device) || cudaEventRecord(g->begin, g->stream) ||
		    cudaGraphLaunch(w->exec[r], g->stream) || cudaEventRecord(g->end, g->stream))
			return NAN;
	}
	for (unsigned r = 0; r < a->info.nlocal; r++) {
		struct gpu *g = &a->gpu[r];

		if (cudaSetDevice(g->device) || cudaStreamSynchronize(g->stream) ||
		    cudaEventElapsedTime(&ms, g->begin, g->end))
			return NAN;
		least = ms < least ? ms : least;
	}
	return least;
}

static int rising(const void *x, const void *y)
{
	const double *a = x, *b = y;

	return (*a > *b) - (*a < *b);
}

static struct stat stat_of(const double *x, unsigned n)
{
	double sorted[MOST_RUNS];

	memcpy(sorted, x, n * sizeof *x);
	qsort(sorted, n, sizeof *x, rising);
	return (struct stat){sorted[n / 4], sorted[n / 2], sorted[n * 3 / 4]};
}

static enum plait_status check_workspace(struct app *a)
{
	enum plait_status s = PLAIT_OK;

	for (unsigned r = 0; r < a->info.nlocal && s == PLAIT_OK; r++)
		s = plait_workspace_check(plait_schedule_workspace(a->schedule), r, NULL);
	return s;
}

/* All ways in turn, so that clocks and heat are the same for all. */
static enum plait_status measure(struct session *x)
{
	double all = 0;

	for (unsigned i = 0; i < 2 * x->nway; i++) /* the second time counts */
		if (x->way[i % x->nway].plan)
			all = (i < x->nway ? 0 : all) + once(x->a, &x->way[i % x->nway]);
	if (!(all > 0))
		return PLAIT_ENV;
	x->runs = all * MOST_RUNS > SESSION_MS ? (unsigned)(SESSION_MS / all) : MOST_RUNS;
	x->runs = x->runs < LEAST_RUNS ? LEAST_RUNS : x->runs;
	for (unsigned k = 0; k < x->runs; k++)
		for (unsigned i = 0; i < x->nway; i++)
			if (x->way[i].plan)
				x->way[i].ms[k] = once(x->a, &x->way[i]);
	for (unsigned i = 0; i < x->nway; i++)
		x->way[i].time = stat_of(x->way[i].ms, x->runs);
	return check_workspace(x->a);
}

static void predict(struct session *x)
{
	x->runs = 1;
	for (unsigned i = 0; i < x->nway; i++) {
		struct way *w = &x->way[i];

		w->ms[0] = w->info.us / 1000;
		w->time = (struct stat){w->ms[0], w->ms[0], w->ms[0]};
	}
}

/* ---- whether all compute the same ---- */

enum { CHECK_ROWS = 32 };

/* Some rows of y on rank r, after one run from the same beginning. */
static int result(struct session *x, struct way *w, unsigned r, float *out)
{
	struct app *a = x->a;
	const struct named *y = named_tensor(a, "y"), *residual = named_tensor(a, "residual");
	const struct named *sum[] = {named_tensor(a, "o"), named_tensor(a, "d")};
	const size_t cols = (size_t)atoi(a->model->hidden), bytes = (size_t)x->T * cols * 2;
	uint16_t *line = malloc(cols * 2);
	int bad = !line;

	for (unsigned i = 0; i < a->info.nlocal && !bad; i++) {
		bad = cudaSetDevice(a->gpu[i].device) || cudaMemset(residual->at[i], 0, bytes);
		for (unsigned k = 0; k < 2 && !bad; k++) /* not what is there from before */
			bad = cudaMemset((void *)(uintptr_t)plait_buffer_address(sum[k]->buffer, i),
			                 0, bytes);
		bad = bad ||
		      fill_random((void *)(uintptr_t)plait_buffer_address(y->buffer, i), bytes);
	}
	bad = bad || !(once(a, w) > 0) || cudaSetDevice(a->gpu[r].device);
	for (size_t k = 0; k < CHECK_ROWS && !bad; k++) {
		size_t row = (size_t)(x->T - 1) * k / (CHECK_ROWS - 1);

		bad = cudaMemcpy(line,
		                 (char *)(uintptr_t)plait_buffer_address(y->buffer, r) +
		                         row * cols * 2,
		                 cols * 2, cudaMemcpyDeviceToHost);
		for (size_t i = 0; i < cols; i++) {
			uint32_t u = (uint32_t)line[i] << 16;

			memcpy(&out[k * cols + i], &u, 4);
		}
	}
	free(line);
	return bad;
}

/* The largest difference between two ways on any GPU, in parts of the values' size. */
static double difference(struct session *x, struct way *v, struct way *w)
{
	const size_t n = CHECK_ROWS * (size_t)atoi(x->a->model->hidden);
	float *p = malloc(n * sizeof *p), *q = malloc(n * sizeof *q);
	double most = p && q ? 0 : INFINITY;

	for (unsigned r = 0; r < x->a->info.nlocal && most < INFINITY; r++) {
		double square = 0, worst = 0;

		if (result(x, v, r, p) || result(x, w, r, q))
			most = INFINITY;
		for (size_t i = 0; i < n && most < INFINITY; i++) {
			square += (double)p[i] * (double)p[i];
			worst = fmax(worst, fabs((double)p[i] - (double)q[i]));
		}
		worst = square > 0 ? worst / sqrt(square / (double)n) : INFINITY;
		most = worst > most || isnan(worst) ? worst : most;
	}
	free(p);
	free(q);
	return most;
}

/* Of fused and split from unfused: bf16 and other orders of sums are a few hundredths. */
static enum plait_status compare(struct session *x)
{
	struct way *base = &x->way[x->way[0].plan ? PLAIT_RUN_UNFUSED : PLAIT_RUN_FUSED];

	for (unsigned i = PLAIT_RUN_FUSED; i <= PLAIT_RUN_SPLIT; i++) {
		double d = difference(x, base, &x->way[i]);

		x->differs = d > x->differs || isnan(d) ? d : x->differs;
	}
	return x->differs < 0.1 ? PLAIT_OK : PLAIT_INTERNAL;
}

/* ---- what it comes to ---- */

/* (unfused - w) / (unfused - removed), of each turn. */
static struct stat recovered(const struct session *x, const struct way *w)
{
	const struct way *unfused = &x->way[PLAIT_RUN_UNFUSED];
	double part[MOST_RUNS];

	for (unsigned k = 0; k < x->runs; k++)
		part[k] = (unfused->ms[k] - w->ms[k]) /
		          (unfused->ms[k] - x->way[PLAIT_RUN_REMOVED].ms[k]);
	if (unfused->plan)
		return stat_of(part, x->runs);
	return (struct stat){NAN, NAN, NAN};
}

/* What the choice takes more than w, as a part, of each turn. */
static struct stat beyond(const struct session *x, const struct way *w)
{
	double part[MOST_RUNS];

	for (unsigned k = 0; k < x->runs; k++)
		part[k] = x->way[x->choice].ms[k] / w->ms[k] - 1;
	return stat_of(part, x->runs);
}

static void find_best(struct session *x)
{
	x->best = x->choice;
	for (unsigned i = 0; i < x->nway; i++)
		if (x->way[i].plan && i != PLAIT_RUN_REMOVED &&
		    x->way[i].time.median < x->way[x->best].time.median)
			x->best = i;
}

static double spread(const struct way *w)
{
	return (w->time.high - w->time.low) / w->time.median;
}

/* ---- as text ---- */

static void put_name(const struct way *w)
{
	if (w->info.mode == PLAIT_RUN_SPLIT)
		printf("split %lld", (long long)w->info.split);
	else
		printf("%s", mode_name[w->info.mode]);
}

/* Times are of one layer, us. */
static void print_row(const struct session *x)
{
	const struct way *w = x->way, *chosen = &w[x->choice];
	const double each = 1000.0 / x->a->layers;

	printf("| %5lld |", (long long)x->T);
	for (unsigned i = 0; i < 4; i++)
		printf(" %8.1f |", w[i].plan ? w[i].time.median * each : NAN);
	printf(" %5.2f | %5.2f | ", recovered(x, &w[PLAIT_RUN_SPLIT]).median,
	       recovered(x, &w[PLAIT_RUN_FUSED]).median);
	put_name(chosen);
	printf(" | ");
	put_name(&w[x->best]);
	printf(" | %.1f %% | %.1f | %+.1f %% | %.1f %% | %.3f |\n",
	       100 * beyond(x, &w[x->best]).median, chosen->info.us / x->a->layers,
	       100 * (chosen->info.us / 1000 / chosen->time.median - 1), 100 * spread(chosen),
	       x->differs);
	for (unsigned i = 4; i < x->nway; i++) {
		printf("%s", i == 4 ? "        other splits (predicted):" : "");
		printf(" %lld: %.1f (%.1f)", (long long)w[i].info.split, w[i].time.median * each,
		       w[i].info.us / x->a->layers);
	}
	printf("%s", x->nway > 4 ? "\n" : "");
}

static void print_head(const struct app *a)
{
	printf("\nllama3-%s, %u layers on %u ranks, %s; us a layer\n\n"
	       "|     T |  unfused |  removed |    fused |    split | recov | fused | plan | best "
	       "| off | predicted | error | spread | differs |\n"
	       "|--|--|--|--|--|--|--|--|--|--|--|--|--|--|\n",
	       a->model->name, a->layers, a->info.size,
	       a->measured ? "a measured machine" : "the database's machine");
}

/* ---- as lines of JSON ---- */

static void json_number(const char *name, double v)
{
	if (isfinite(v))
		printf("\"%s\":%.6g,", name, v);
	else
		printf("\"%s\":null,", name);
}

static void json_stat(const char *name, struct stat s)
{
	if (isfinite(s.median))
		printf("\"%s\":[%.6g,%.6g,%.6g],", name, s.low, s.median, s.high);
	else
		printf("\"%s\":null,", name);
}

static void json_head(const struct app *a, bool predicted)
{
	int driver = 0;

	cudaDriverGetVersion(&driver);
	printf("{\"record\":\"run\",\"model\":\"%s\",\"gpu\":\"%s\",\"ranks\":%u,\"layers\":%u,"
	       "\"hidden\":%s,\"ffn\":%s,\"heads\":%s,\"shared\":%s,\"predicted\":%s,",
	       a->model->name, a->gpu_name, a->info.size, a->layers, a->model->hidden,
	       a->model->ffn, a->model->heads, a->shared ? "true" : "false",
	       predicted ? "true" : "false");
	printf("\"driver\":%d,\"calibrated\":%s,\"calibration_s\":%.3f,\"cached\":%s,"
	       "\"left_out\":[\"attention\",\"activation\"]}\n",
	       driver, a->measured ? "true" : "false", a->calibration.seconds,
	       a->calibration.cached ? "true" : "false");
}

/* Times are of one layer, us: [a quarter is below, the median, a quarter is above]. */
static void json_row(const struct session *x, bool predicted)
{
	const double each = 1000.0 / x->a->layers;
	const struct stat none = {NAN, NAN, NAN};
	bool more = false;

	printf("{\"record\":\"T\",\"model\":\"%s\",\"T\":%lld,\"runs\":%u,\"ways\":[",
	       x->a->model->name, (long long)x->T, predicted ? 0 : x->runs);
	for (unsigned i = 0; i < x->nway; i++) {
		const struct way *w = &x->way[i];
		struct stat us = {w->time.low * each, w->time.median * each, w->time.high * each};

		if (!w->plan)
			continue;
		printf("%s{\"way\":\"%s\",", more ? "," : "", mode_name[w->info.mode]);
		if (w->info.mode == PLAIT_RUN_SPLIT)
			printf("\"row\":%lld,", (long long)w->info.split);
		json_stat("us", predicted ? none : us);
		json_stat("recovered", i == 0 || i == PLAIT_RUN_REMOVED ? none : recovered(x, w));
		json_stat("choice_beyond", predicted ? none : beyond(x, w));
		printf("\"choice\":%s,\"predicted_us\":%.6g}", i == x->choice ? "true" : "false",
		       w->info.us / x->a->layers);
		more = true;
	}
	printf("],");
	json_number("differs", predicted ? NAN : x->differs);
	printf("\"best\":\"%s\",\"best_row\":%lld}\n", mode_name[x->way[x->best].info.mode],
	       (long long)x->way[x->best].info.split);
}

/* ---- traces ---- */

/* Of the four ways: one run of each, outside of graphs. */
static enum plait_status write_traces(const struct session *x, const char *name)
{
	struct app *a = x->a;

	for (unsigned i = 0; i < 4; i++) {
		const struct way *w = &x->way[i];
		enum plait_status s = PLAIT_OK;
		char path[4096], *json = NULL;
		FILE *f;

		if (!w->plan)
			continue;
		snprintf(path, sizeof path, "%s-%s-%lld-%s.json", name, a->model->name,
		         (long long)x->T, mode_name[i]);
		if (a->schedule)
			s = plait_schedule_trace(a->schedule, w->plan, NULL, a->stream, &json);
		else
			json = plait_plan_trace(a->planner, w->plan);
		f = json ? fopen(path, "w") : NULL;
		if (json && (!f || fputs(json, f) < 0 || fclose(f))) {
			fprintf(stderr, "overlap: cannot write '%s'\n", path);
			s = PLAIT_ENV;
		}
		plait_text_free(json);
		if (s != PLAIT_OK)
			return s;
	}
	return PLAIT_OK;
}

/* ---- the program ---- */

static enum plait_status run_rows(struct app *a, const struct options *o, int64_t T)
{
	static struct session x;
	enum plait_status s;

	x = (struct session){.a = a, .T = T};
	s = open_ways(&x, o->grid);
	if (s == PLAIT_OK && a->schedule) {
		s = measure(&x);
		if (s == PLAIT_OK)
			s = compare(&x);
	} else if (s == PLAIT_OK) {
		predict(&x);
	}
	if (s == PLAIT_OK || s == PLAIT_INTERNAL) { /* what differs too much is shown */
		find_best(&x);
		if (o->json)
			json_row(&x, !a->schedule);
		else
			print_row(&x);
		fflush(stdout);
	}
	if (s == PLAIT_OK && o->trace)
		s = write_traces(&x, o->trace);
	close_ways(&x);
	return s;
}

static int read_options(struct options *o, struct app *a, int argc, char **argv)
{
	int64_t given = 0;

	for (int i = 1; i < argc; i++) {
		bool known = false;

		for (size_t k = 0; k < sizeof models / sizeof *models; k++)
			if (!strcmp(argv[i], models[k].name)) {
				a->model = &models[k];
				known = true;
			}
		if (known)
			continue;
		if (!strcmp(argv[i], "--grid"))
			o->grid = true;
		else if (!strcmp(argv[i], "--predict"))
			o->predict = true;
		else if (!strcmp(argv[i], "--json"))
			o->json = true;
		else if (!strcmp(argv[i], "--trace") && i + 1 < argc)
			o->trace = argv[++i];
		else if (!strcmp(argv[i], "--layers") && i + 1 < argc)
			a->layers = (unsigned)atoi(argv[++i]);
		else if (!strcmp(argv[i], "--ranks") && i + 1 < argc)
			a->ranks = (unsigned)atoi(argv[++i]);
		else if (o->n < 32 && atoll(argv[i]) >= 256) /* two parts of 128 rows */
			given = o->T[o->n++] = atoll(argv[i]);
		else
			return 2;
	}
	for (int64_t T = 256; !o->n || (!given && T <= 16384); T *= 2)
		o->T[o->n++] = T;
	for (unsigned i = 0; i < o->n; i++)
		a->most = (uint64_t)o->T[i] > a->most ? (uint64_t)o->T[i] : a->most;
	return a->layers < 1 || a->layers > 100 || a->ranks > MOST_GPUS ? 2 : 0;
}

int main(int argc, char **argv)
{
	static struct app a = {.model = &models[0], .layers = LAYERS};
	static struct options o;
	enum plait_status s;

	if (read_options(&o, &a, argc, argv)) {
		fprintf(stderr,
		        "usage: overlap [70b|8b] [--grid] [--layers N] [--json] [--trace NAME] "
		        "[--ranks N] [--predict] [T ...]\n");
		return PLAIT_USAGE;
	}
	s = o.predict ? open_planner(&a) : open_app(&a);
	if (s == PLAIT_OK && o.json)
		json_head(&a, o.predict);
	else if (s == PLAIT_OK)
		print_head(&a);
	for (unsigned i = 0; i < o.n && s == PLAIT_OK; i++)
		s = run_rows(&a, &o, o.T[i]);
	if (s != PLAIT_OK)
		fprintf(stderr, "overlap: llama3-%s: %s: %s\n", a.model->name, plait_status_text(s),
		        a.comm ? plait_comm_error(a.comm) : "");
	close_app(&a);
	return (int)s;
}
