/* Layers of a model on all GPUs, for overlap.c: tensors of random data, cuBLASLt's GEMMs, a measured planner. */
#include "overlap.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- tensors ---- */

int fill_random(void *at, size_t bytes)
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

	if (g->nmemory == sizeof g->memory / sizeof *g->memory || cudaSetDevice(g->device) ||
	    cudaMalloc(&at, bytes))
		return NULL;
	g->memory[g->nmemory++] = at;
	return fill_random(at, bytes) ? NULL : at;
}

struct named *named_tensor(struct app *a, const char *name)
{
	unsigned i = 0;

	while (i < a->nnamed && strcmp(a->named[i].name, name) != 0)
		i++;
	return i < a->nnamed ? &a->named[i] : NULL;
}

/* Values and the residual are one tensor for all layers, weights are of each. */
static int tensor(void *ctx, const struct plait_tensor *t, struct plait_operand *at)
{
	struct app *a = ctx;
	size_t bytes = (size_t)t->dim[0] * (size_t)(t->ndim == 2 ? t->dim[1] : 1) * 2;
	const char *name = strcmp(t->name, "x") ? t->name : "y"; /* `begin` does nothing */
	struct named *v = named_tensor(a, name);

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
		return cudaSetDevice(a->gpu[t->local].device) ||
		       fill_random((void *)(uintptr_t)plait_buffer_address(v->buffer, t->local),
		                   bytes);
	}
	if (!v->at[t->local])
		v->at[t->local] = memory_of(a, t->local, bytes);
	at->address = (plait_address)(uintptr_t)v->at[t->local];
	return !at->address;
}

/* ---- operations ---- */

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

/* In place of NCCL, which takes no two ranks of one GPU: unfused plans are not run then. */
static int no_sum(void *ctx, unsigned local, plait_stream stream, plait_address at, size_t n,
                  const char *dtype)
{
	(void)ctx;
	(void)local;
	(void)stream;
	(void)at;
	(void)n;
	(void)dtype;
	return 1;
}

/* ---- the planner ---- */

static enum plait_status make_planner(struct app *a, unsigned tp, const struct plait_machine *m)
{
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
	enum plait_status s;

	plait_planner_free(a->planner);
	o.text = spec;
	o.text_len = strlen(spec);
	o.set = a->set;
	o.nset = 4;
	o.tp = tp;
	o.machine = m;
	o.gemm = a->gemms ? plait_gemms_fact : NULL; /* the tiles that will run */
	o.gemm_ctx = a->gemms;
	s = plait_planner_make(&o, &a->planner);
	if (s != PLAIT_OK)
		fputs(plait_planner_diagnostics(a->planner), stderr);
	return s;
}

/* The database's entry for the GPU, for as many ranks. */
static enum plait_status base_planner(struct app *a, unsigned tp, bool multicast,
                                      struct plait_machine *m)
{
	static const char *const known[][2] = {
	        {"H200", "h200"}, {"H100", "h100"}, {"B200", "b200"}, {"A100", "a100"}};
	const char *name = "h200";
	enum plait_status s;

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strstr(a->gpu_name, known[i][0]))
			name = known[i][1];
	s = plait_machine_get(name, tp, multicast, m);
	return s == PLAIT_OK ? make_planner(a, tp, m) : s;
}

/* This machine's, if it can be measured. */
static enum plait_status calibrate(struct app *a, struct plait_machine *m)
{
	struct plait_measure_options o = PLAIT_MEASURE_OPTIONS_INIT;

	if (a->info.size < 2) /* there is nothing beside GEMMs */
		return PLAIT_OK;
	o.gemms = a->gemms;
	a->calibration = (struct plait_measured)PLAIT_MEASURED_INIT;
	if (plait_machine_measure(a->stage, a->planner, &o, m, &a->calibration) != PLAIT_OK) {
		fprintf(stderr, "overlap: the database's machine, not a measured one: %s\n",
		        plait_comm_error(a->comm));
		return PLAIT_OK;
	}
	a->measured = true;
	return make_planner(a, a->info.size, m);
}

/* ---- opening and closing ---- */

static void set_sizes(struct app *a)
{
	snprintf(a->layers_text, sizeof a->layers_text, "%u", a->layers);
	a->set[0] = (struct plait_set){"hidden", a->model->hidden};
	a->set[1] = (struct plait_set){"ffn", a->model->ffn};
	a->set[2] = (struct plait_set){"heads", a->model->heads};
	a->set[3] = (struct plait_set){"layers", a->layers_text};
}

enum plait_status open_planner(struct app *a)
{
	struct plait_machine m = PLAIT_MACHINE_INIT;

	set_sizes(a);
	a->info = (struct plait_comm_info)PLAIT_COMM_INFO_INIT;
	a->info.size = 2;
	snprintf(a->gpu_name, sizeof a->gpu_name, "H200");
	return base_planner(a, 2, false, &m);
}

static int open_rank(struct app *a, unsigned r)
{
	struct gpu *g = &a->gpu[r];
	int bad = cudaSetDevice(g->device) ||
	          cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking) ||
	          cudaEventCreate(&g->begin) || cudaEventCreate(&g->end);

	a->stream[r] = g->stream;
	return bad;
}

static enum plait_status open_comm(struct app *a)
{
	struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;
	int device[MOST_GPUS], n = 0;
	enum plait_status s;

	o.bootstrap = PLAIT_BOOT_LOCAL;
	if (a->ranks && !cudaGetDeviceCount(&n) && n) {
		for (unsigned r = 0; r < a->ranks; r++)
			a->gpu[r].device = device[r] = (int)r % n;
		a->shared = a->ranks > (unsigned)n;
		o.device = device;
		o.size = a->ranks;
	}
	s = plait_comm_create(&o, &a->comm);
	if (s != PLAIT_OK)
		return s;
	a->info = (struct plait_comm_info)PLAIT_COMM_INFO_INIT;
	plait_comm_info(a->comm, &a->info);
	for (unsigned r = 0; r < a->info.nlocal && !a->ranks && r < MOST_GPUS; r++)
		a->gpu[r].device = (int)r;
	return a->info.nlocal > MOST_GPUS ? PLAIT_ENV : PLAIT_OK;
}

static enum plait_status open_stage(struct app *a)
{
	struct plait_stage_options o = PLAIT_STAGE_OPTIONS_INIT;

	o.compile.spec_name = "overlap.plait";
	o.compile.text = spec;
	o.compile.text_len = strlen(spec);
	o.compile.set = a->set;
	o.compile.nset = 4;
	o.max_rows = a->most;
	return plait_stage_create(a->comm, &o, &a->stage);
}

enum plait_status open_app(struct app *a)
{
	struct plait_schedule_options o = PLAIT_SCHEDULE_OPTIONS_INIT;
	struct plait_machine m = PLAIT_MACHINE_INIT;
	struct cudaDeviceProp prop;
	enum plait_status s;

	set_sizes(a);
	s = open_comm(a);
	if (s != PLAIT_OK)
		return s;
	if (cudaGetDeviceProperties(&prop, 0))
		return PLAIT_ENV;
	snprintf(a->gpu_name, sizeof a->gpu_name, "%s", prop.name);
	for (unsigned r = 0; r < a->info.nlocal; r++)
		if (open_rank(a, r))
			return PLAIT_ENV;
	s = plait_gemms_create(a->comm, &a->gemms);
	if (s == PLAIT_OK)
		s = open_stage(a);
	if (s == PLAIT_OK)
		s = base_planner(a, a->info.size, a->info.transport == PLAIT_BY_MULTICAST, &m);
	if (s == PLAIT_OK)
		s = calibrate(a, &m);
	o.tensor = tensor;
	o.operation = operation;
	o.ctx = a;
	o.unfused = true;
	o.all_reduce = a->shared ? no_sum : NULL;
	return s == PLAIT_OK ? plait_schedule_create(a->stage, a->planner, &o, &a->schedule) : s;
}

void close_app(struct app *a)
{
	for (unsigned r = 0; r < a->info.nlocal; r++) {
		struct gpu *g = &a->gpu[r];

		cudaSetDevice(g->device);
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
