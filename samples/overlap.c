/*
 * Decoder layers of llama3-70b and llama3-8b shapes on all GPUs of this machine, four ways, in CUDA graphs:
 *
 *	unfused     NCCL's all-reduce and one add + norm kernel
 *	fused       plait's kernels between the GEMMs
 *	split       plait's kernels beside the GEMMs of the other part of the rows, as the planner says
 *	removed     no communication at all, with the full norm: the yardstick, which computes nothing useful
 *
 * GEMMs are cuBLASLt's, on random data.  Attention and the activation are left out: their results are random
 * data that stay.  Times are medians of runs of all ways in turn; recovered is (unfused - split) / (unfused -
 * removed).
 *
 *	cc -O2 overlap.c $(pkg-config --cflags --libs plait) -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart -lm -o overlap
 *
 * The last column is the largest difference of fused and split from unfused, in parts of the values' size: bf16
 * and other orders of sums.
 *
 *	./overlap [70b|8b] [--grid] [--layers N] [--predict] [T ...]
 *
 * --grid also runs splits at other rows; --predict prints what the planner expects, and needs no GPU.
 */
#include <cuda_runtime_api.h>
#include <math.h>
#include <plait_gemms.h>
#include <plait_schedule.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GPUS = 8, MOST_WAYS = 8, MOST_RUNS = 41, LAYERS = 4 };

static const char spec[] =
        "const hidden = 8192, ffn = 28672, heads = 64, kv_heads = 8, dim = 128, layers = 4;\n"
        "kernel add_norm(x: bf16[T, hidden] partial, inout residual: bf16[T, hidden] carried,\n"
        "                gamma: bf16[hidden]) -> y: bf16[T, hidden] replicated\n"
        "{\n"
        "    h = all_reduce(x) + residual;\n"
        "    out residual = h;\n"
        "    out y = rmsnorm(h, gamma, eps = 1e-5);\n"
        "}\n"
        "model decoder {\n"
        "    input x: bf16[T, hidden] replicated;\n"
        "    state residual: bf16[T, hidden] carried;\n"
        "    weight g[2 * layers]: bf16[hidden];\n"
        "    weight w_qkv[layers]: bf16[hidden, (heads + 2 * max(kv_heads, tp)) * dim] columns;\n"
        "    weight w_o[layers]: bf16[heads * dim, hidden] rows;\n"
        "    weight w_gate_up[layers]: bf16[hidden, 2 * ffn] columns;\n"
        "    weight w_down[layers]: bf16[ffn, hidden] rows;\n"
        "    y = opaque begin(x) -> bf16[T, hidden] replicated cost work(flops = 0, bytes = 0);\n"
        "    repeat i in 0..layers {\n"
        "        qkv = gemm(y, w_qkv[i]);\n"
        "        a = opaque attention(qkv) -> bf16[T, heads * dim] columns\n"
        "            cost work(flops = 0, bytes = 0);\n"
        "        o = gemm(a, w_o[i]);\n"
        "        y = add_norm(o, residual, g[2 * i]);\n"
        "        u = gemm(y, w_gate_up[i]);\n"
        "        s = opaque silu_mul(u) -> bf16[T, ffn] columns cost work(flops = 0, bytes = 0);\n"
        "        d = gemm(s, w_down[i]);\n"
        "        y = add_norm(d, residual, g[2 * i + 1]);\n"
        "    }\n"
        "    output y;\n"
        "}\n";

static const struct model {
	const char *name, *hidden, *ffn, *heads;
} models[] = {{"70b", "8192", "28672", "64"}, {"8b", "4096", "14336", "32"}};

struct gpu {
	cudaStream_t stream;
	cudaEvent_t begin, end;
	void *memory[1024]; /* tensors that only this GPU reads */
	unsigned nmemory;
};

struct app {
	plait_comm *comm;
	plait_gemms *gemms;
	plait_stage *stage;
	plait_planner *planner;
	plait_schedule *schedule;
	struct plait_comm_info info;
	struct plait_set set[4];
	char layers[12];
	uint64_t most;
	struct gpu gpu[MOST_GPUS];
	plait_stream stream[MOST_GPUS];
	struct named { /* tensors that other GPUs reach, and those that are asked for again */
		char name[16];
		plait_buffer *buffer;
		void *at[MOST_GPUS];
	} named[32];
	unsigned nnamed;
};

/* ---- tensors ---- */

/* bf16 of about 2^-7, of both signs. */
static int fill_random(void *at, size_t bytes)
{
	static uint16_t tile[1 << 20];
	size_t done = sizeof tile < bytes ? sizeof tile : bytes;

	for (size_t i = 0; !tile[0] && i < sizeof tile / 2; i++)
		tile[i] = (uint16_t)(0x3c00 ^ (rand() & 0x80ff));
	if (cudaMemcpy(at, tile, done, cudaMemcpyHostToDevice))
		return 1;
	for (; done < bytes; done *= 2)
		if (cudaMemcpy((char *)at + done, at, bytes - done < done ? bytes - done : done,
		               cudaMemcpyDeviceToDevice))
			return 1;
	return cudaDeviceSynchronize() != cudaSuccess;
}

static void *memory_of(struct app *a, unsigned local, size_t bytes)
{
	struct gpu *g = &a->gpu[local];
	void *at = NULL;

	if (g->nmemory == sizeof g->memory / sizeof *g->memory || cudaSetDevice((int)local) ||
	    cudaMalloc(&at, bytes))
		return NULL;
	g->memory[g->nmemory++] = at;
	return fill_random(at, bytes) ? NULL : at;
}

/* Values and the residual are one tensor for all layers, weights are of each. */
static int tensor(void *ctx, const struct plait_tensor *t, struct plait_operand *at)
{
	struct app *a = ctx;
	size_t bytes = (size_t)t->dim[0] * (size_t)(t->ndim == 2 ? t->dim[1] : 1) * 2;
	const char *name = strcmp(t->name, "x") ? t->name : "y"; /* `begin` does nothing */
	struct named *v = NULL;

	for (unsigned i = 0; i < a->nnamed; i++)
		if (!strcmp(a->named[i].name, name))
			v = &a->named[i];
	if (!t->has_rows) {
		at->address = (plait_address)(uintptr_t)memory_of(a, t->local, bytes);
		return !at->address;
	}
	if (!v) {
		v = &a->named[a->nnamed++];
		snprintf(v->name, sizeof v->name, "%s", name);
	}
	if (strchr("yod", name[0]) && !name[1]) {
		/* collective, so it is made when the first rank of the process asks, as by all */
		if (!v->buffer && plait_buffer_create(a->comm, bytes, &v->buffer))
			return 1;
		at->buffer = v->buffer;
		if (cudaSetDevice((int)t->local) ||
		    fill_random((void *)(uintptr_t)plait_buffer_address(v->buffer, t->local),
		                bytes))
			return 1;
		return 0;
	}
	if (!v->at[t->local])
		v->at[t->local] = memory_of(a, t->local, bytes);
	at->address = (plait_address)(uintptr_t)v->at[t->local];
	return !at->address;
}

/* ---- GEMMs ---- */

static int operation(void *ctx, const struct plait_operation *op)
{
	struct app *a = ctx;
	struct plait_gemm_call c = PLAIT_GEMM_CALL_INIT;

	if (op->kind != PLAIT_OP_GEMM)
		return 0;
	c.local = op->local;
	c.stream = op->stream;
	c.m = op->rows;
	c.n = op->n;
	c.k = op->k;
	c.dtype = op->dtype;
	c.sm_target = op->sm_target;
	c.x = op->in[0];
	c.w = op->in[1];
	c.out = op->out[0];
	return (int)plait_gemms_run(a->gemms, &c);
}

/* ---- set-up ---- */

static void complain(const struct app *a, const char *what, enum plait_status s)
{
	fprintf(stderr, "overlap: %s: %s: %s\n", what, plait_status_text(s),
	        a->comm ? plait_comm_error(a->comm) : "");
}

/* The database's entry for the GPU, for as many ranks. */
static enum plait_status make_planner(struct app *a, const char *gpu, unsigned tp, bool multicast)
{
	static const char *const known[][2] = {
	        {"H200", "h200"}, {"H100", "h100"}, {"B200", "b200"}, {"A100", "a100"}};
	struct plait_machine m = PLAIT_MACHINE_INIT;
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
	const char *name = "h200";
	enum plait_status s;

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strstr(gpu, known[i][0]))
			name = known[i][1];
	s = plait_machine_get(name, tp, multicast, &m);
	if (s != PLAIT_OK)
		return s;
	o.text = spec;
	o.text_len = strlen(spec);
	o.set = a->set;
	o.nset = 4;
	o.tp = tp;
	o.machine = &m;
	o.gemm = a->gemms ? plait_gemms_fact : NULL; /* the tiles that will run */
	o.gemm_ctx = a->gemms;
	s = plait_planner_make(&o, &a->planner);
	if (s != PLAIT_OK)
		fputs(plait_planner_diagnostics(a->planner), stderr);
	return s;
}

static int open_gpu(struct app *a, unsigned r)
{
	struct gpu *g = &a->gpu[r];
	int bad = cudaSetDevice((int)r) ||
	          cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking) ||
	          cudaEventCreate(&g->begin) || cudaEventCreate(&g->end);

	a->stream[r] = g->stream;
	return bad;
}

static enum plait_status open_all(struct app *a)
{
	struct plait_stage_options so = PLAIT_STAGE_OPTIONS_INIT;
	struct plait_schedule_options o = PLAIT_SCHEDULE_OPTIONS_INIT;
	struct cudaDeviceProp prop;
	enum plait_status s;

	if (a->info.nlocal > MOST_GPUS || cudaGetDeviceProperties(&prop, 0))
		return PLAIT_ENV;
	for (unsigned r = 0; r < a->info.nlocal; r++)
		if (open_gpu(a, r))
			return PLAIT_ENV;
	so.compile.spec_name = "overlap.plait";
	so.compile.text = spec;
	so.compile.text_len = strlen(spec);
	so.compile.set = a->set;
	so.compile.nset = 4;
	so.max_rows = a->most;
	s = plait_gemms_create(a->comm, &a->gemms);
	if (s == PLAIT_OK)
		s = plait_stage_create(a->comm, &so, &a->stage);
	if (s == PLAIT_OK)
		s = make_planner(a, prop.name, a->info.size,
		                 a->info.transport == PLAIT_BY_MULTICAST);
	o.tensor = tensor;
	o.operation = operation;
	o.ctx = a;
	o.unfused = true;
	return s == PLAIT_OK ? plait_schedule_create(a->stage, a->planner, &o, &a->schedule) : s;
}

static void close_all(struct app *a)
{
	for (unsigned r = 0; r < a->info.nlocal; r++) {
		struct gpu *g = &a->gpu[r];

		cudaSetDevice((int)r);
		cudaDeviceSynchronize();
		for (unsigned i = 0; i < g->nmemory; i++)
			cudaFree(g->memory[i]);
	}
	plait_schedule_free(a->schedule);
	for (unsigned i = 0; i < a->nnamed; i++)
		plait_buffer_free(a->named[i].buffer);
	plait_planner_free(a->planner);
	plait_stage_free(a->stage);
	plait_gemms_free(a->gemms);
	plait_comm_free(a->comm);
}

/* ---- a way to run, as a graph on each GPU ---- */

struct way {
	const plait_plan *plan;
	struct plait_plan_info info;
	cudaGraphExec_t exec[MOST_GPUS];
	double ms[MOST_RUNS], median, spread; /* spread: of the middle half */
};

static enum plait_status capture(struct app *a, struct way *w)
{
	enum plait_status s = PLAIT_OK;
	unsigned begun = 0;

	for (; begun < a->info.nlocal && s == PLAIT_OK; begun++)
		if (cudaSetDevice((int)begun) ||
		    cudaStreamBeginCapture(a->gpu[begun].stream, cudaStreamCaptureModeRelaxed))
			s = PLAIT_ENV;
	if (s == PLAIT_OK)
		s = plait_schedule_run(a->schedule, w->plan, NULL, a->stream);
	for (unsigned r = 0; r < begun; r++) {
		cudaGraph_t graph = NULL;

		if (cudaSetDevice((int)r) || cudaStreamEndCapture(a->gpu[r].stream, &graph) ||
		    (s == PLAIT_OK && cudaGraphInstantiate(&w->exec[r], graph, 0)))
			s = s == PLAIT_OK ? PLAIT_ENV : s;
		if (graph)
			cudaGraphDestroy(graph);
	}
	return s;
}

static enum plait_status open_way(struct app *a, int64_t T, enum plait_run_mode mode, int64_t at,
                                  struct way *w)
{
	struct plait_batch b = PLAIT_BATCH_INIT;
	enum plait_status s;

	*w = (struct way){.info = PLAIT_PLAN_INFO_INIT};
	b.tokens = T;
	s = plait_plan_force(a->planner, &b, mode, at, &w->plan);
	if (s != PLAIT_OK)
		return s;
	plait_plan_get(w->plan, &w->info);
	if (a->schedule)
		s = plait_schedule_agree(a->schedule, w->plan);
	if (a->schedule && s == PLAIT_OK)
		s = plait_schedule_warm(a->schedule, w->plan, NULL, a->stream);
	if (a->schedule && s == PLAIT_OK)
		s = capture(a, w);
	return s;
}

static void close_way(struct app *a, struct way *w)
{
	for (unsigned r = 0; r < a->info.nlocal; r++)
		if (w->exec[r])
			cudaGraphExecDestroy(w->exec[r]);
}

/* One run, ms: of the GPU that took least, since the others waited for it to begin. */
static double once(struct app *a, struct way *w)
{
	float least = INFINITY, ms;

	for (unsigned r = 0; r < a->info.nlocal; r++) {
		struct gpu *g = &a->gpu[r];

		if (cudaSetDevice((int)r) || cudaEventRecord(g->begin, g->stream) ||
		    cudaGraphLaunch(w->exec[r], g->stream) || cudaEventRecord(g->end, g->stream))
			return NAN;
	}
	for (unsigned r = 0; r < a->info.nlocal; r++) {
		struct gpu *g = &a->gpu[r];

		if (cudaSetDevice((int)r) || cudaStreamSynchronize(g->stream) ||
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

/* All ways in turn, so that clocks and heat are the same for all. */
static enum plait_status measure(struct app *a, struct way *w, unsigned n)
{
	unsigned runs = MOST_RUNS;
	double all = 0;

	for (unsigned i = 0; i < 2 * n; i++) /* the second time counts */
		all = (i < n ? 0 : all) + once(a, &w[i % n]);
	if (!(all > 0))
		return PLAIT_ENV;
	if (all * runs > 1500)
		runs = all * 7 > 1500 ? 7 : (unsigned)(1500 / all);
	for (unsigned k = 0; k < runs; k++)
		for (unsigned i = 0; i < n; i++)
			w[i].ms[k] = once(a, &w[i]);
	for (unsigned i = 0; i < n; i++) {
		qsort(w[i].ms, runs, sizeof *w[i].ms, rising);
		w[i].median = w[i].ms[runs / 2];
		w[i].spread = w[i].ms[runs * 3 / 4] - w[i].ms[runs / 4];
	}
	for (unsigned r = 0; r < a->info.nlocal; r++) {
		enum plait_status s =
		        plait_workspace_check(plait_schedule_workspace(a->schedule), r, NULL);

		if (s != PLAIT_OK)
			return s;
	}
	return PLAIT_OK;
}

/* ---- results ---- */

enum { CHECK_ROWS = 32 };

static struct named *named(struct app *a, const char *name)
{
	unsigned i = 0;

	while (strcmp(a->named[i].name, name) != 0)
		i++;
	return &a->named[i];
}

/* Some rows of y on GPU r, after one run from the same beginning. */
static int result(struct app *a, struct way *w, int64_t T, unsigned r, float *out)
{
	const struct named *y = named(a, "y"), *residual = named(a, "residual");
	const struct named *sum[] = {named(a, "o"), named(a, "d")};
	const size_t cols = (size_t)atoi(a->set[0].value), bytes = (size_t)T * cols * 2;
	uint16_t *line = malloc(cols * 2);
	int bad = !line;

	for (unsigned i = 0; i < a->info.nlocal && !bad; i++) {
		bad = cudaSetDevice((int)i) || cudaMemset(residual->at[i], 0, bytes);
		for (unsigned k = 0; k < 2 && !bad; k++) /* not what is there from before */
			bad = cudaMemset((void *)(uintptr_t)plait_buffer_address(sum[k]->buffer, i),
			                 0, bytes);
		bad = bad ||
		      fill_random((void *)(uintptr_t)plait_buffer_address(y->buffer, i), bytes);
	}
	bad = bad || !(once(a, w) > 0) || cudaSetDevice((int)r);
	for (size_t k = 0; k < CHECK_ROWS && !bad; k++) {
		size_t row = (size_t)(T - 1) * k / (CHECK_ROWS - 1);

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
static double difference(struct app *a, struct way *x, struct way *y, int64_t T)
{
	const size_t n = CHECK_ROWS * (size_t)atoi(a->set[0].value);
	float *p = malloc(n * sizeof *p), *q = malloc(n * sizeof *q);
	double most = p && q ? 0 : INFINITY;

	for (unsigned r = 0; r < a->info.nlocal && most < INFINITY; r++) {
		double square = 0, worst = 0;

		if (result(a, x, T, r, p) || result(a, y, T, r, q))
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

/* ---- tables ---- */

static const char *const mode_name[] = {"unfused", "removed", "fused", "split"};

/* Times are of one layer, us. */
static enum plait_status row(struct app *a, int64_t T, unsigned layers)
{
	struct plait_plan_info best = PLAIT_PLAN_INFO_INIT;
	struct plait_batch b = PLAIT_BATCH_INIT;
	struct way w[4];
	const plait_plan *plan;
	enum plait_status s = PLAIT_OK;
	const double each = 1000.0 / layers;
	double unfused, worst = 0;
	unsigned n = 0;

	b.tokens = T;
	for (; n < 4 && s == PLAIT_OK; n++)
		s = open_way(a, T, (enum plait_run_mode)n, 0, &w[n]);
	if (s == PLAIT_OK && a->schedule)
		s = measure(a, w, 4);
	if (s == PLAIT_OK)
		s = plait_plan_make(a->planner, &b, &plan);
	if (s == PLAIT_OK) {
		plait_plan_get(plan, &best);
		for (unsigned i = 0; i < 4 && !a->schedule; i++)
			w[i].median = w[i].info.us / 1000;
		unfused = w[PLAIT_RUN_UNFUSED].median;
		for (unsigned i = PLAIT_RUN_FUSED; i < 4 && a->schedule; i++) {
			double d = difference(a, &w[PLAIT_RUN_UNFUSED], &w[i], T);

			worst = d > worst || isnan(d) ? d : worst;
		}
		printf("| %5lld | %8.1f | %8.1f | %8.1f | %8.1f | %5.2f | %5.2f | %6lld | %-7s | "
		       "%8.1f | %+5.1f %% | %4.1f %% | %8.3f |\n",
		       (long long)T, unfused * each, w[PLAIT_RUN_FUSED].median * each,
		       w[PLAIT_RUN_SPLIT].median * each, w[PLAIT_RUN_REMOVED].median * each,
		       (unfused - w[PLAIT_RUN_SPLIT].median) /
		               (unfused - w[PLAIT_RUN_REMOVED].median),
		       (unfused - w[PLAIT_RUN_FUSED].median) /
		               (unfused - w[PLAIT_RUN_REMOVED].median),
		       (long long)w[PLAIT_RUN_SPLIT].info.split, mode_name[best.mode],
		       best.us / layers, 100 * (best.us / 1000 / w[best.mode].median - 1),
		       100 * w[PLAIT_RUN_SPLIT].spread / w[PLAIT_RUN_SPLIT].median, worst);
		fflush(stdout);
		s = worst < 0.1 ? s : PLAIT_INTERNAL;
	}
	while (n)
		close_way(a, &w[--n]);
	return s;
}

/* Other split rows: whether the planner's was the best. */
static enum plait_status grid(struct app *a, int64_t T, unsigned layers)
{
	struct way w[MOST_WAYS];
	enum plait_status s = PLAIT_OK;
	unsigned n = 0, best = 0;

	s = open_way(a, T, PLAIT_RUN_FUSED, 0, &w[n++]);
	if (s == PLAIT_OK)
		s = open_way(a, T, PLAIT_RUN_SPLIT, 0, &w[n++]);
	for (int64_t k = 2; k < 8 && n < MOST_WAYS && s == PLAIT_OK; k++) {
		s = open_way(a, T, PLAIT_RUN_SPLIT, T * k / 8, &w[n++]);
		if (s == PLAIT_OK && w[n - 1].info.split == w[1].info.split)
			close_way(a, &w[--n]);
	}
	if (s == PLAIT_OK)
		s = measure(a, w, n);
	if (s == PLAIT_OK) {
		printf("grid T=%lld, us a layer (predicted): fused %.1f (%.1f)", (long long)T,
		       w[0].median * 1000 / layers, w[0].info.us / layers);
		for (unsigned i = 1; i < n; i++) {
			best = w[i].median < w[best].median ? i : best;
			printf(" %lld%s: %.1f (%.1f)", (long long)w[i].info.split,
			       i == 1 ? "*" : "", w[i].median * 1000 / layers,
			       w[i].info.us / layers);
		}
		printf("; the planner's is %.1f %% off the best\n",
		       100 * (w[1].median / w[best].median - 1));
		fflush(stdout);
	}
	while (n)
		close_way(a, &w[--n]);
	return s;
}

static enum plait_status run(struct app *a, const struct model *m, const int64_t *T, unsigned n,
                             unsigned layers, bool with_grid)
{
	enum plait_status s = PLAIT_OK;

	printf("\nllama3-%s, %u layers on %u GPUs; us a layer\n\n"
	       "|     T |  unfused |    fused |    split |  removed | recov | fused | at row | "
	       "plan    | "
	       "predicted | error  | spread | differs "
	       "|\n|--|--|--|--|--|--|--|--|--|--|--|--|--|\n",
	       m->name, layers, a->info.size);
	for (unsigned i = 0; i < n && s == PLAIT_OK; i++)
		s = row(a, T[i], layers);
	for (unsigned i = 0; i < n && s == PLAIT_OK && with_grid; i++)
		if (T[i] >= 512)
			s = grid(a, T[i], layers);
	return s;
}

/* ---- the program ---- */

struct options {
	const struct model *model;
	int64_t T[32];
	unsigned n, layers;
	bool grid, predict;
};

static int read_options(struct options *o, int argc, char **argv)
{
	int64_t given = 0;

	*o = (struct options){.model = &models[0], .layers = LAYERS};
	for (int i = 1; i < argc; i++) {
		bool known = false;

		for (size_t k = 0; k < sizeof models / sizeof *models; k++)
			if (!strcmp(argv[i], models[k].name)) {
				o->model = &models[k];
				known = true;
			}
		if (known)
			continue;
		if (!strcmp(argv[i], "--grid"))
			o->grid = true;
		else if (!strcmp(argv[i], "--predict"))
			o->predict = true;
		else if (!strcmp(argv[i], "--layers") && i + 1 < argc)
			o->layers = (unsigned)atoi(argv[++i]);
		else if (o->n < 32 && atoll(argv[i]) >= 256) /* two parts of 128 rows */
			given = o->T[o->n++] = atoll(argv[i]);
		else
			return 2;
	}
	for (int64_t T = 256; !o->n || (!given && T <= 16384); T *= 2)
		o->T[o->n++] = T;
	return o->layers < 1 || o->layers > 100 ? 2 : 0;
}

int main(int argc, char **argv)
{
	static struct app a;
	struct plait_comm_options co = PLAIT_COMM_OPTIONS_INIT;
	struct options o;
	enum plait_status s = PLAIT_OK;

	if (read_options(&o, argc, argv)) {
		fprintf(stderr,
		        "usage: overlap [70b|8b] [--grid] [--layers N] [--predict] [T ...]\n");
		return PLAIT_USAGE;
	}
	snprintf(a.layers, sizeof a.layers, "%u", o.layers);
	a.set[0] = (struct plait_set){"hidden", o.model->hidden};
	a.set[1] = (struct plait_set){"ffn", o.model->ffn};
	a.set[2] = (struct plait_set){"heads", o.model->heads};
	a.set[3] = (struct plait_set){"layers", a.layers};
	a.info = (struct plait_comm_info)PLAIT_COMM_INFO_INIT;
	for (unsigned i = 0; i < o.n; i++)
		a.most = (uint64_t)o.T[i] > a.most ? (uint64_t)o.T[i] : a.most;
	if (o.predict) {
		a.info.size = 2;
		s = make_planner(&a, "H200", 2, false);
	} else {
		co.bootstrap = PLAIT_BOOT_LOCAL;
		s = plait_comm_create(&co, &a.comm);
		if (s == PLAIT_OK) {
			plait_comm_info(a.comm, &a.info);
			s = open_all(&a);
		}
	}
	if (s == PLAIT_OK)
		s = run(&a, o.model, o.T, o.n, o.layers, o.grid && !o.predict);
	if (s != PLAIT_OK)
		complain(&a, o.model->name, s);
	close_all(&a);
	return (int)s;
}
