/* Ranks, memory and graphs of bench. */
#include "tools/bench_gpu.h"
#include "ir/eval.h"
#include "runtime/machine.h"
#include <stdlib.h>
#include <string.h>

extern const char bench_probe_text[];

#define CU(g, member, ...) RT_CU(&(g)->drv, &(g)->e, member, __VA_ARGS__)

static const uint64_t delay_ns = 60000;

bool bench_enter(struct bench_gpu *g, unsigned rank)
{
	return CU(g, ctx_set, g->ctx[rank]);
}

static bool open_rank(struct bench_gpu *g, unsigned r)
{
	cu_device dev;

	g->device[r] = (int)(r % g->gpus);
	if (!CU(g, device_get, &dev, g->device[r]) || !CU(g, ctx_retain, &g->ctx[r], dev) ||
	    !bench_enter(g, r) ||
	    !CU(g, stream_create, &g->stream[r], RT_CU_STREAM_NON_BLOCKING, 0) ||
	    !CU(g, module_load, &g->probe[r], bench_probe_text) ||
	    !CU(g, module_function, &g->delay[r], g->probe[r], "plait_delay") ||
	    !CU(g, module_function, &g->link[r], g->probe[r], "plait_link") ||
	    !bench_alloc(g, r, BENCH_NOISE, &g->noise[r]))
		return false;
	return r || (CU(g, event_create, &g->begin, RT_CU_EVENT_DEFAULT) &&
	             CU(g, event_create, &g->end, RT_CU_EVENT_DEFAULT));
}

/* Each rank's GPU reaches the others' plain memory; plait's own symmetric memory needs none of it. */
static bool open_peers(struct bench_gpu *g)
{
	for (unsigned i = 0; i < g->gpus && i < g->tp; i++)
		for (unsigned j = 0; j < g->gpus && j < g->tp; j++) {
			cu_result r;

			if (i == j)
				continue;
			if (!bench_enter(g, i))
				return false;
			r = g->drv.ctx_enable_peer(g->ctx[j], 0);
			if (r != RT_CU_ERROR_PEER_ACCESS_ALREADY_ENABLED &&
			    !rt_cu_ok(&g->drv, &g->e, RT_DRIVER_NO_ctx_enable_peer, r))
				return false;
		}
	return true;
}

bool bench_gpu_open(struct bench_gpu *g, unsigned tp, unsigned gpus, struct arena *a)
{
	struct rt_machine m;

	*g = (struct bench_gpu){.a = a};
	if (rt_driver_open(&g->drv, NULL, &g->e) != PLAIT_OK ||
	    rt_machine_read(&m, &g->drv, a, &g->e) != PLAIT_OK)
		return false;
	g->tp = tp ? tp : m.n < BENCH_MAX_TP ? m.n : BENCH_MAX_TP;
	g->gpus = m.n < g->tp ? m.n : g->tp;
	g->gpus = gpus && gpus < g->gpus ? gpus : g->gpus;
	memcpy(g->name, m.gpu[0].name, sizeof g->name);
	g->driver = m.driver;
	g->sm = m.gpu[0].sm;
	g->processors = m.gpu[0].processors;
	g->l2 = m.gpu[0].l2;
	g->memory = m.gpu[0].memory;
	for (unsigned r = 0; r < g->tp; r++)
		if (!open_rank(g, r))
			return false;
	return open_peers(g);
}

void bench_gpu_close(struct bench_gpu *g)
{
	for (struct bench_memory *m = g->memory_head; m; m = m->next)
		if (!g->drv.ctx_set(g->ctx[m->rank]))
			g->drv.mem_free(m->at);
	for (unsigned r = 0; r < g->tp; r++) {
		cu_device dev;

		if (!g->ctx[r] || g->drv.ctx_set(g->ctx[r]))
			continue;
		if (!r && g->begin)
			g->drv.event_destroy(g->begin);
		if (!r && g->end)
			g->drv.event_destroy(g->end);
		if (g->probe[r])
			g->drv.module_unload(g->probe[r]);
		if (g->stream[r])
			g->drv.stream_destroy(g->stream[r]);
		g->drv.ctx_set(NULL);
		if (!g->drv.device_get(&dev, g->device[r]))
			g->drv.ctx_release(dev);
	}
}

bool bench_alloc(struct bench_gpu *g, unsigned rank, size_t bytes, cu_address *out)
{
	struct bench_memory *m = arena_new(g->a, struct bench_memory);

	if (!bench_enter(g, rank) || !CU(g, mem_alloc, out, bytes ? bytes : 16))
		return false;
	*m = (struct bench_memory){rank, *out, g->memory_head};
	g->memory_head = m;
	return true;
}

/* In [-1, 1), small ones among them: what activations look like to the power and the link. */
bool bench_noise(struct bench_gpu *g, enum ir_dtype t)
{
	unsigned size = ir_dtype_info[t].bits / 8;
	size_t n = size ? BENCH_NOISE / size : 0, whole = n < 4u << 20 ? n : 4u << 20;
	unsigned char *host = malloc(BENCH_NOISE);
	uint64_t s = 88172645463325252u;
	bool good = host != NULL;

	if (!good)
		rt_fail(&g->e, PLAIT_NOMEM, "out of memory");
	for (size_t i = 0; good && i < whole; i++) {
		uint32_t bits;

		s = s * 6364136223846793005u + 1442695040888963407u;
		bits = ir_encode(t, ir_round(t, (double)(int64_t)s * 0x1p-63));
		memcpy(host + i * size, &bits, size);
	}
	for (size_t i = whole * size; good && i < BENCH_NOISE; i++)
		host[i] = host[i - whole * size];
	for (unsigned r = 0; good && r < g->tp; r++)
		good = bench_enter(g, r) &&
		       CU(g, copy_to_device, g->noise[r], host, BENCH_NOISE, g->stream[r]) &&
		       CU(g, stream_synchronize, g->stream[r]);
	free(host);
	return good;
}

bool bench_fill(struct bench_gpu *g, unsigned rank, cu_address to, size_t bytes, unsigned seed)
{
	size_t from = (size_t)seed * 1048592 % (BENCH_NOISE / 2) & ~(size_t)15;

	if (!bench_enter(g, rank))
		return false;
	while (bytes) {
		size_t n = bytes < BENCH_NOISE / 2 ? bytes : BENCH_NOISE / 2;

		if (!CU(g, copy, to, g->noise[rank] + from, n, g->stream[rank]))
			return false;
		to += n;
		bytes -= n;
	}
	return true;
}

bool bench_wait(struct bench_gpu *g)
{
	const char *problem;

	for (unsigned r = 0; r < g->tp; r++)
		if (!bench_enter(g, r) || !CU(g, stream_synchronize, g->stream[r]))
			return false;
	problem = g->problem ? g->problem(g->problem_ctx) : NULL;
	if (problem)
		rt_fail(&g->e, PLAIT_TIMEOUT, "%s", problem);
	return !problem;
}

/* ---- graphs ---- */

struct timed { /* one contender at one T */
	struct cu_graph_exec *exec[BENCH_MAX_TP];
};

static void forget(struct bench_gpu *g, struct timed *x)
{
	for (unsigned r = 0; r < g->tp; r++)
		if (x->exec[r])
			g->drv.graph_exec_destroy(x->exec[r]);
	*x = (struct timed){0};
}

static bool capture(struct bench_gpu *g, const struct bench_contender *c, uint64_t T,
                    struct timed *x)
{
	bool good = true;

	for (unsigned r = 0; r < g->tp && good; r++)
		good = bench_enter(g, r) &&
		       CU(g, stream_begin_capture, g->stream[r], RT_CU_STREAM_CAPTURE_MODE_RELAXED);
	for (unsigned i = 0; i < BENCH_LAUNCHES && good; i++)
		good = c->launch(c->ctx, i, T);
	for (unsigned r = 0; r < g->tp; r++) {
		struct cu_graph *graph = NULL;

		/* a capture that was begun is ended whatever happened */
		if (g->drv.ctx_set(g->ctx[r]) || g->drv.stream_end_capture(g->stream[r], &graph) ||
		    !graph) {
			if (good)
				rt_fail(&g->e, PLAIT_ENV, "%s cannot be captured in a graph",
				        c->who.name);
			good = false;
			continue;
		}
		good = good && CU(g, graph_instantiate, &x->exec[r], graph, 0);
		g->drv.graph_destroy(graph);
	}
	return good;
}

static bool delay(struct bench_gpu *g, unsigned r, uint64_t ns)
{
	struct cu_launch l = {{1, 1, 1}, {1, 1, 1}, 0, g->stream[r], NULL, 0};
	void *params[] = {&ns};

	return CU(g, launch, &l, g->delay[r], params, NULL);
}

/* Rank 0 is last to start, so that its time has no waiting for the others' start in it. */
static bool once(struct bench_gpu *g, const struct timed *x, double *us)
{
	float ms = 0;

	for (unsigned i = g->tp; i--;) {
		if (!bench_enter(g, i) || !delay(g, i, delay_ns) ||
		    (!i && !CU(g, event_record, g->begin, g->stream[i])) ||
		    !CU(g, graph_launch, x->exec[i], g->stream[i]) ||
		    (!i && !CU(g, event_record, g->end, g->stream[i])))
			return false;
	}
	if (!bench_wait(g) || !bench_enter(g, 0) || !CU(g, event_elapsed, &ms, g->begin, g->end))
		return false;
	*us = (double)ms * 1e3 / BENCH_LAUNCHES;
	return true;
}

bool bench_time(struct bench_gpu *g, const struct bench_contender *c, unsigned n, uint64_t T,
                unsigned rounds, struct bench_cell *cells)
{
	struct timed x[BENCH_MAX_WHO] = {0};
	bool good = n <= BENCH_MAX_WHO;
	double us;

	for (unsigned w = 0; w < n && good; w++) {
		const char *why = c[w].refuses ? c[w].refuses(c[w].ctx, T) : NULL;

		cells[w] = (struct bench_cell){.why = why, .off = -1};
		if (why)
			continue;
		if (c[w].describe)
			c[w].describe(c[w].ctx, T, &cells[w]);
		cells[w].us = arena_news(g->a, double, rounds);
		/* once outside of a graph, so that nothing is set up in one */
		good = c[w].launch(c[w].ctx, 0, T) && bench_wait(g) &&
		       capture(g, &c[w], T, &x[w]) && once(g, &x[w], &us);
		if (!good)
			rt_error_context(&g->e, "%s, %llu rows", c[w].who.name,
			                 (unsigned long long)T);
	}
	for (unsigned k = 0; k < rounds && good; k++)
		for (unsigned j = 0; j < n && good; j++) {
			unsigned w = (j + k) % n; /* nobody is always behind the same neighbour */

			if (cells[w].us)
				good = once(g, &x[w], &cells[w].us[k]);
		}
	for (unsigned w = 0; w < n && w < BENCH_MAX_WHO; w++)
		forget(g, &x[w]);
	return good;
}
