/*
 * One process a GPU, as torchrun, mpirun or srun start them: kernels of a spec captured in a CUDA graph
 * and replayed, with an eye on the record of aborts.
 *
 *	cc ranks.c $(pkg-config --cflags --libs plait) -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart -o ranks
 *	torchrun --no-python --nproc-per-node 2 ./ranks SPEC.plait KERNEL [T [REPLAYS]]
 *
 * Every parameter gets memory of its own, of zeroes.  doc/embedding.md explains it.
 */
#include <cuda_runtime_api.h>
#include <plait.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARAMS = 64 };

struct job {
	const char *kernel;
	uint64_t T, replays;
	plait_comm *comm;
	plait_stage *stage;
	plait_workspace *ws;
	cudaStream_t stream;
	struct plait_operand operand[MOST_PARAMS];
	plait_buffer *buffer[MOST_PARAMS];
	void *memory[MOST_PARAMS];
	size_t n;
};

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

static long find_kernel(const plait_code *code, const char *name)
{
	for (size_t i = 0; i < plait_code_count(code); i++)
		if (!strcmp(plait_code_name(code, i), name))
			return (long)i;
	return -1;
}

/* Memory for every parameter: symmetric where other ranks reach it.  Enough for any dtype; all ranks
 * ask for the same, in the same order. */
static enum plait_status allocate(struct job *j, size_t kernel)
{
	const plait_code *code = plait_stage_code(j->stage);
	struct plait_param_info p = PLAIT_PARAM_INFO_INIT;
	enum plait_status s = PLAIT_OK;

	for (j->n = 0; s == PLAIT_OK && plait_code_param(code, kernel, j->n, &p) == PLAIT_OK;
	     j->n++) {
		size_t bytes = (size_t)(p.ndim == 2 ? j->T : 1) * (size_t)(p.ndim ? p.ld : 1) * 4;

		if (j->n == MOST_PARAMS)
			return PLAIT_USAGE;
		if (p.symmetric != PLAIT_SYM_NONE) {
			s = plait_buffer_create(j->comm, bytes, &j->buffer[j->n]);
			j->operand[j->n].buffer = j->buffer[j->n];
		} else if (cudaMalloc(&j->memory[j->n], bytes) ||
		           cudaMemset(j->memory[j->n], 0, bytes)) {
			s = PLAIT_ENV;
		} else {
			j->operand[j->n].address = (plait_address)(uintptr_t)j->memory[j->n];
		}
	}
	return s;
}

/* The graph of one launch; *exec is the caller's to destroy. */
static enum plait_status capture(struct job *j, size_t kernel, cudaGraphExec_t *exec)
{
	struct plait_launch l = PLAIT_LAUNCH_INIT;
	cudaGraph_t graph = NULL;
	enum plait_status s;

	l.kernel = kernel;
	l.workspace = j->ws;
	l.stream = j->stream;
	l.operand = j->operand;
	l.noperand = j->n;
	l.rows = j->T;
	if (cudaStreamBeginCapture(j->stream, cudaStreamCaptureModeThreadLocal))
		return PLAIT_ENV;
	s = plait_launch(j->stage, &l);
	if (cudaStreamEndCapture(j->stream, &graph))
		return PLAIT_ENV;
	if (s == PLAIT_OK && cudaGraphInstantiate(exec, graph, 0))
		s = PLAIT_ENV;
	cudaGraphDestroy(graph);
	return s;
}

/* Waits for the stream.  A rank that died, or launched something else, is an error after the time-out,
 * not a hang: the kernels end, and the record says who waited for whom. */
static enum plait_status wait_for(struct job *j)
{
	struct plait_record record = PLAIT_RECORD_INIT;
	enum plait_status s = PLAIT_OK;
	cudaError_t e;

	while ((e = cudaStreamQuery(j->stream)) == cudaErrorNotReady && s == PLAIT_OK)
		s = plait_workspace_check(j->ws, 0, &record);
	if (e != cudaSuccess && e != cudaErrorNotReady)
		return PLAIT_ENV;
	if (s == PLAIT_OK)
		s = plait_workspace_check(j->ws, 0, &record);
	if (s != PLAIT_OK)
		fprintf(stderr, "ranks: %s\n", record.text ? record.text : plait_status_text(s));
	return s;
}

static enum plait_status run(struct job *j, unsigned rank)
{
	long kernel = find_kernel(plait_stage_code(j->stage), j->kernel);
	cudaGraphExec_t exec = NULL;
	enum plait_status s;

	if (kernel < 0) {
		fprintf(stderr, "ranks: there is no kernel '%s'\n", j->kernel);
		return PLAIT_USAGE;
	}
	s = plait_workspace_create(j->stage, &j->ws);
	if (s == PLAIT_OK)
		s = allocate(j, (size_t)kernel);
	if (s == PLAIT_OK && cudaStreamCreateWithFlags(&j->stream, cudaStreamNonBlocking))
		s = PLAIT_ENV;
	if (s == PLAIT_OK)
		s = capture(j, (size_t)kernel, &exec);
	/* cudaMemset above is not ordered before other ranks' kernels: meet first. */
	if (s == PLAIT_OK && cudaDeviceSynchronize())
		s = PLAIT_ENV;
	if (s == PLAIT_OK)
		s = plait_comm_barrier(j->comm);
	for (uint64_t i = 0; i < j->replays && s == PLAIT_OK; i++)
		if (cudaGraphLaunch(exec, j->stream))
			s = PLAIT_ENV;
	if (s == PLAIT_OK)
		s = wait_for(j);
	if (s == PLAIT_OK && rank == 0)
		printf("%llu launches of '%s', T = %llu, by %s\n", (unsigned long long)j->replays,
		       j->kernel, (unsigned long long)j->T,
		       plait_stage_protocol(j->stage, (size_t)kernel, j->T, NULL));
	if (exec)
		cudaGraphExecDestroy(exec);
	return s;
}

/* Buffers are other ranks' memory, too: nobody frees before all have ended. */
static void give_back(struct job *j)
{
	if (j->stream)
		cudaStreamDestroy(j->stream);
	plait_comm_barrier(j->comm);
	for (size_t i = 0; i < j->n; i++) {
		plait_buffer_free(j->buffer[i]);
		cudaFree(j->memory[i]);
	}
	plait_workspace_free(j->ws);
	plait_stage_free(j->stage);
}

int main(int argc, char **argv)
{
	struct job j = {.T = argc > 3 ? strtoull(argv[3], NULL, 10) : 64,
	                .replays = argc > 4 ? strtoull(argv[4], NULL, 10) : 100};
	struct plait_comm_options co = PLAIT_COMM_OPTIONS_INIT;
	struct plait_comm_info info = PLAIT_COMM_INFO_INIT;
	struct plait_stage_options so = PLAIT_STAGE_OPTIONS_INIT;
	const char *local = getenv("LOCAL_RANK");
	enum plait_status s;
	char *text = NULL;

	if (argc < 3) {
		fprintf(stderr, "usage: %s SPEC.plait KERNEL [T [REPLAYS]]\n", argv[0]);
		return PLAIT_USAGE;
	}
	j.kernel = argv[2];
	so.compile.spec_name = argv[1];
	so.max_rows = j.T ? j.T : 1;
	text = read_file(argv[1], &so.compile.text_len);
	so.compile.text = text;
	co.bootstrap = PLAIT_BOOT_ENV; /* RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK */
	s = text ? plait_comm_create(&co, &j.comm) : PLAIT_INPUT;
	if (s == PLAIT_OK && cudaSetDevice(local ? atoi(local) : 0))
		s = PLAIT_ENV;
	if (s == PLAIT_OK)
		s = plait_stage_create(j.comm, &so, &j.stage);
	if (s == PLAIT_OK) {
		plait_comm_info(j.comm, &info);
		s = run(&j, info.first);
	} else if (j.stage) {
		fputs(plait_code_diagnostics(plait_stage_code(j.stage)), stderr);
	}
	if (s != PLAIT_OK)
		fprintf(stderr, "ranks: %s: %s\n", plait_status_text(s),
		        j.comm ? plait_comm_error(j.comm) : argv[1]);
	if (j.comm)
		give_back(&j);
	plait_comm_free(j.comm);
	free(text);
	return (int)s;
}
