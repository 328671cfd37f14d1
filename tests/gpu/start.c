/*
 * What a start costs: all kernels of a spec cold and from the cache; and what memory a workspace takes.
 *	gpu_start SPEC
 */
#include "codegen/workspace.h"
#include "runtime/stage.h"
#include "tests/gpu/gpu.h"
#include <stdlib.h>
#include <string.h>

#define CU(g, member, ...) RT_CU(&(g)->drv, &(g)->e, member, __VA_ARGS__)

static void one_start(plait_comm *comm, const struct plait_stage_options *o, const char *name,
                      double limit_ms)
{
	double start = gpu_seconds(), all, made;
	plait_stage *s;

	if (plait_stage_create(comm, o, &s) != PLAIT_OK) {
		gpu_verdict(false, "%s: %s", name, plait_comm_error(comm));
		return;
	}
	all = (gpu_seconds() - start) * 1e3;
	made = (double)(s->stats.front_ns + s->stats.finalize_ns) / 1e6;
	gpu_verdict(made < limit_ms,
	            "%s: %u variants, %.1f ms (front %.1f, assembling %.1f; limit %.0f), loading "
	            "%.1f, all %.1f ms",
	            name, s->image.nvariant, made, (double)s->stats.front_ns / 1e6,
	            (double)s->stats.finalize_ns / 1e6, limit_ms, (double)s->stats.load_ns / 1e6,
	            all);
	plait_stage_free(s);
}

static size_t free_memory(struct bench_gpu *g)
{
	size_t left = 0, total;

	if (!bench_enter(g, 0) || !CU(g, mem_info, &left, &total))
		gpu_verdict(false, "cuMemGetInfo: %s", g->e.text);
	return left;
}

/* What plait_workspace_bytes says is what is allocated, and what doc/protocols.md says it should be. */
static void memory_of(struct bench_gpu *g, plait_comm *comm, struct plait_stage_options *o,
                      const char *protocol)
{
	const size_t grain = (size_t)2 << 20;
	size_t before, taken, says, want;
	plait_workspace *w;
	plait_stage *s;

	o->compile.protocol = protocol;
	if (plait_stage_create(comm, o, &s) != PLAIT_OK) {
		gpu_verdict(false, "%s: %s", protocol, plait_comm_error(comm));
		return;
	}
	before = free_memory(g);
	if (plait_workspace_create(s, &w) != PLAIT_OK) {
		gpu_verdict(false, "%s: %s", protocol, plait_comm_error(comm));
		return;
	}
	taken = (before - free_memory(g)) / (g->tp / g->gpus);
	says = plait_workspace_bytes(w);
	want = plait_workspace_size() +
	       plait_code_exchange_size(plait_stage_code(s), 0, o->max_rows);
	gpu_verdict(says >= want && says < want + grain && taken <= says + grain &&
	                    taken + grain >= says,
	            "workspace of %s for %llu rows: %zu bytes, %zu of state and exchange, %zu gone "
	            "from the GPU",
	            protocol, (unsigned long long)o->max_rows, says, want, taken);
	plait_workspace_free(w);
	plait_stage_free(s);
}

int main(int argc, char **argv)
{
	static const char *const protocol[] = {"p2p-twoshot", "p2p-bulk", "push"};
	struct plait_stage_options o = PLAIT_STAGE_OPTIONS_INIT;
	char cache[] = "/tmp/plait-gpu-XXXXXX";
	struct bench_gpu g;
	struct arena arena;
	plait_comm *comm;

	if (argc < 2 || !mkdtemp(cache)) {
		fprintf(stderr, "usage: gpu_start SPEC\n");
		return 2;
	}
	arena_init(&arena, 0);
	if (setjmp(arena.oom))
		return 1;
	gpu_open(&g, 2, 0, &arena);
	comm = gpu_comm(&g, 0);
	o.compile.text = gpu_read(argv[1], &arena, &o.compile.text_len);
	o.max_rows = 16384;
	o.cache_dir = cache;
	o.table = "";
	one_start(comm, &o, "cold", 300);
	one_start(comm, &o, "from the cache", 5);
	o.max_rows = 2048;
	o.compile.kernel = argc > 2 ? argv[2] : NULL;
	for (size_t i = 0; i < sizeof protocol / sizeof *protocol; i++)
		memory_of(&g, comm, &o, protocol[i]);
	plait_comm_free(comm);
	bench_gpu_close(&g);
	arena_free(&arena);
	return gpu_end();
}
