/* Opening, verdicts, files. */
#include "tests/gpu/gpu.h"
#include "tools/pipeline.h"
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

static struct {
	unsigned good, bad;
} count;

unsigned gpu_count(void)
{
	struct rt_driver drv;
	struct rt_error e = {0};
	int n = 0;

	if (rt_driver_open(&drv, NULL, &e) != PLAIT_OK || !RT_CU(&drv, &e, device_count, &n)) {
		printf("SKIP: %s\n", e.text);
		exit(GPU_SKIPPED);
	}
	return (unsigned)n;
}

void gpu_open(struct bench_gpu *g, unsigned tp, unsigned gpus, struct arena *a)
{
	gpu_count();
	/* streams of many ranks on one GPU must not share a queue: the driver reads it once */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
	if (bench_gpu_open(g, tp, gpus, a))
		return;
	printf("NOT OK - %u ranks: %s\n", tp, g->e.text);
	exit(1);
}

plait_comm *gpu_comm(struct bench_gpu *g, unsigned ms)
{
	struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;
	plait_comm *c;

	o.bootstrap = PLAIT_BOOT_LOCAL;
	o.size = o.nlocal = g->tp;
	o.device = g->device;
	o.timeout_ns = (uint64_t)ms * 1000000;
	if (plait_comm_create(&o, &c) == PLAIT_OK)
		return c;
	printf("NOT OK - communicator of %u ranks: %s\n", g->tp, plait_comm_error(c));
	exit(1);
}

bool gpu_verdict(bool good, const char *fmt, ...)
{
	va_list ap;

	fputs(good ? "ok - " : "NOT OK - ", stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	count.good += good;
	count.bad += !good;
	return good;
}

int gpu_end(void)
{
	printf("%u good, %u not\n", count.good, count.bad);
	return count.bad || !count.good;
}

const char *gpu_read(const char *path, struct arena *a, size_t *len)
{
	const char *error;
	char *text;

	if (read_file(a, path, &text, len, &error))
		return text;
	printf("NOT OK - %s: %s\n", path, error);
	exit(1);
}

double gpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
