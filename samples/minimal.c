/*
 * All GPUs of this machine, from one process: AllReduce + residual + RMSNorm as one kernel, checked.
 *
 *	cc minimal.c $(pkg-config --cflags --libs plait) -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart -lm -o minimal
 *	./minimal [T]
 *
 * doc/embedding.md explains it.
 */
#include <cuda_runtime_api.h>
#include <math.h>
#include <plait.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 4096, MOST_GPUS = 16 };

static const char spec[] =
        "kernel add_norm(x: bf16[T, 4096] partial, inout residual: bf16[T, 4096] carried,\n"
        "                gamma: bf16[4096]) -> y: bf16[T, 4096] replicated\n"
        "{\n"
        "    h = all_reduce(x) + residual;\n"
        "    out residual = h;\n"
        "    out y = rmsnorm(h, gamma, eps = 1e-5);\n"
        "}\n";

struct gpu { /* what each has of its own */
	cudaStream_t stream;
	uint16_t *residual, *gamma;
};

static uint16_t bf16(float v)
{
	uint32_t u;

	memcpy(&u, &v, sizeof u);
	return (uint16_t)(u >> 16);
}

static float from_bf16(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float v;

	memcpy(&v, &u, sizeof v);
	return v;
}

/* Small whole numbers, so that the sum over the ranks is exact. */
static float x_of(unsigned rank, size_t i)
{
	return (float)((rank * 7 + i) % 9) - 4;
}

static int fill(struct gpu *g, unsigned rank, uint64_t x, size_t n)
{
	uint16_t *host = malloc(n * sizeof *host);
	int bad = !host;

	bad = bad || cudaSetDevice((int)rank) || cudaStreamCreate(&g->stream);
	bad = bad || cudaMalloc((void **)&g->residual, n * sizeof *host) ||
	      cudaMemset(g->residual, 0, n * sizeof *host) ||
	      cudaMalloc((void **)&g->gamma, HIDDEN * sizeof *host);
	for (size_t i = 0; !bad && i < HIDDEN; i++)
		host[i] = bf16(1);
	bad = bad || cudaMemcpy(g->gamma, host, HIDDEN * sizeof *host, cudaMemcpyHostToDevice);
	for (size_t i = 0; !bad && i < n; i++)
		host[i] = bf16(x_of(rank, i));
	bad = bad ||
	      cudaMemcpy((void *)(uintptr_t)x, host, n * sizeof *host, cudaMemcpyHostToDevice);
	free(host);
	return bad;
}

/* The rows of one GPU against a plain loop; the largest difference relative to the row. */
static double worst(uint64_t y, unsigned tp, size_t n)
{
	uint16_t *host = malloc(n * sizeof *host);
	double most = host && !cudaMemcpy(host, (void *)(uintptr_t)y, n * sizeof *host,
	                                  cudaMemcpyDeviceToHost)
	                      ? 0
	                      : INFINITY;

	for (size_t row = 0; most < INFINITY && row < n; row += HIDDEN) {
		double h[HIDDEN], square = 0;

		for (size_t i = 0; i < HIDDEN; i++) {
			h[i] = 0;
			for (unsigned r = 0; r < tp; r++)
				h[i] += x_of(r, row + i);
			square += h[i] * h[i];
		}
		for (size_t i = 0; i < HIDDEN; i++)
			most = fmax(most, fabs(from_bf16(host[row + i]) -
			                       h[i] / sqrt(square / HIDDEN + 1e-5)));
	}
	free(host);
	return most;
}

static int run(plait_comm *c, uint64_t T)
{
	struct plait_comm_info info = PLAIT_COMM_INFO_INIT;
	struct plait_stage_options o = PLAIT_STAGE_OPTIONS_INIT;
	struct gpu gpu[MOST_GPUS] = {{0}};
	plait_stage *stage;
	plait_workspace *ws = NULL;
	plait_buffer *x = NULL, *y = NULL;
	enum plait_status s;
	unsigned ctas;

	plait_comm_info(c, &info);
	o.compile.spec_name = "minimal.plait";
	o.compile.text = spec;
	o.compile.text_len = strlen(spec);
	o.max_rows = T;
	s = plait_stage_create(c, &o, &stage);
	if (s != PLAIT_OK && stage)
		fputs(plait_code_diagnostics(plait_stage_code(stage)), stderr);
	if (s == PLAIT_OK)
		s = plait_workspace_create(stage, &ws);
	if (s == PLAIT_OK)
		s = plait_buffer_create(c, T * HIDDEN * sizeof(uint16_t), &x);
	if (s == PLAIT_OK)
		s = plait_buffer_create(c, T * HIDDEN * sizeof(uint16_t), &y);
	for (unsigned r = 0; r < info.nlocal && s == PLAIT_OK; r++)
		if (fill(&gpu[r], r, plait_buffer_address(x, r), T * HIDDEN))
			s = PLAIT_ENV;

	/* One launch a rank; the kernels find each other on the GPUs. */
	for (unsigned r = 0; r < info.nlocal && s == PLAIT_OK; r++) {
		const struct plait_operand operand[] = {
		        {.buffer = x},
		        {.address = (plait_address)(uintptr_t)gpu[r].residual},
		        {.address = (plait_address)(uintptr_t)gpu[r].gamma},
		        {.buffer = y},
		};
		struct plait_launch l = PLAIT_LAUNCH_INIT;

		l.local = r;
		l.workspace = ws;
		l.stream = gpu[r].stream;
		l.operand = operand;
		l.noperand = 4;
		l.rows = T;
		s = plait_launch(stage, &l);
	}
	for (unsigned r = 0; r < info.nlocal && s == PLAIT_OK; r++)
		if (cudaSetDevice((int)r) || cudaStreamSynchronize(gpu[r].stream))
			s = PLAIT_ENV;
	for (unsigned r = 0; r < info.nlocal && s == PLAIT_OK; r++)
		s = plait_workspace_check(ws, r, NULL);
	if (s == PLAIT_OK) {
		const char *protocol = plait_stage_protocol(stage, 0, T, &ctas);

		for (unsigned r = 0; r < info.nlocal && s == PLAIT_OK; r++) {
			double d = cudaSetDevice((int)r) ? INFINITY
			                                 : worst(plait_buffer_address(y, r),
			                                         info.size, T * HIDDEN);

			printf("rank %u of %u: %llu rows by %s, %u CTAs; largest difference %.3g\n",
			       r, info.size, (unsigned long long)T, protocol, ctas, d);
			s = d < 0.02 ? PLAIT_OK : PLAIT_INTERNAL;
		}
	} else {
		fprintf(stderr, "minimal: %s: %s\n", plait_status_text(s), plait_comm_error(c));
	}

	for (unsigned r = 0; r < info.nlocal; r++) {
		cudaSetDevice((int)r);
		cudaFree(gpu[r].residual);
		cudaFree(gpu[r].gamma);
		if (gpu[r].stream)
			cudaStreamDestroy(gpu[r].stream);
	}
	plait_buffer_free(x);
	plait_buffer_free(y);
	plait_workspace_free(ws);
	plait_stage_free(stage);
	return (int)s;
}

int main(int argc, char **argv)
{
	uint64_t T = argc > 1 ? strtoull(argv[1], NULL, 10) : 64;
	struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;
	struct plait_comm_info info = PLAIT_COMM_INFO_INIT;
	plait_comm *c;
	int code;

	o.bootstrap = PLAIT_BOOT_LOCAL;
	code = (int)plait_comm_create(&o, &c);
	if (code) {
		fprintf(stderr, "minimal: %s\n", plait_comm_error(c));
	} else {
		plait_comm_info(c, &info);
		printf("%s\n", info.why);
		code = run(c, T ? T : 1);
	}
	plait_comm_free(c);
	return code;
}
