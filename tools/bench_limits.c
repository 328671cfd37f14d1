/* What the machine itself can do: the link by bulk copies, memory by a copy. */
#include "tools/bench_gpu.h"

#define CU(g, member, ...) RT_CU(&(g)->drv, &(g)->e, member, __VA_ARGS__)

enum { CHUNK = 16384, RING = 10 * CHUNK };

static const size_t bytes = (size_t)256 << 20;

struct link {
	struct bench_gpu *g;
	cu_address from[BENCH_MAX_TP], to[BENCH_MAX_TP];
	unsigned ctas;
};

static bool launch_link(void *ctx, unsigned i, uint64_t T)
{
	struct link *l = ctx;
	struct bench_gpu *g = l->g;

	(void)i;
	for (unsigned r = 0; r < g->tp; r++) {
		unsigned peer = (r + 1) % g->tp;
		unsigned chunks = (unsigned)(T / 2);
		struct cu_launch x = {{l->ctas, 1, 1}, {64, 1, 1}, RING, g->stream[r], NULL, 0};
		void *params[] = {&l->from[peer], &l->to[peer], &chunks};

		if (!bench_enter(g, r) || !CU(g, launch, &x, g->link[r], params, NULL))
			return false;
	}
	return true;
}

bool bench_link(struct bench_gpu *g, double *gbs, unsigned *ctas)
{
	static const unsigned grids[] = {4, 8, 12, 16};
	struct link l = {.g = g};
	struct bench_contender c = {
	        .who = {"the link", BENCH_REDUCE}, .ctx = &l, .launch = launch_link};

	*gbs = 0;
	if (g->sm < 90 || g->tp < 2 || g->gpus < g->tp)
		return true;
	for (unsigned r = 0; r < g->tp; r++)
		if (!bench_alloc(g, r, bytes, &l.from[r]) || !bench_alloc(g, r, bytes, &l.to[r]) ||
		    !bench_fill(g, r, l.from[r], bytes, r) ||
		    !CU(g, function_set_attribute, g->link[r],
		        RT_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, RING))
			return false;
	for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
		struct bench_cell cell;
		double us;

		l.ctas = grids[i];
		if (!bench_time(g, &c, 1, bytes / CHUNK, 5, &cell))
			return false;
		us = bench_stat_of(cell.us, 5, g->a).median;
		if ((double)bytes / us / 1e3 > *gbs) {
			*gbs = (double)bytes / us / 1e3;
			*ctas = l.ctas;
		}
	}
	return true;
}

/* Not in a graph: there a copy is given to the copy engines, which are slower than the kernel that the driver has for it. */
bool bench_copy(struct bench_gpu *g, double *gbs)
{
	enum { COPIES = 5, ROUNDS = 5 };
	const size_t n = (size_t)1 << 30;
	cu_address from, to;
	double us[ROUNDS];

	if (!bench_alloc(g, 0, n, &from) || !bench_alloc(g, 0, n, &to) ||
	    !bench_fill(g, 0, from, n, 1))
		return false;
	for (int i = -1; i < ROUNDS; i++) {
		float ms = 0;

		if (!CU(g, event_record, g->begin, g->stream[0]))
			return false;
		for (int k = 0; k < COPIES; k++)
			if (!CU(g, copy, to, from, n, g->stream[0]))
				return false;
		if (!CU(g, event_record, g->end, g->stream[0]) || !bench_wait(g) ||
		    !bench_enter(g, 0) || !CU(g, event_elapsed, &ms, g->begin, g->end))
			return false;
		if (i >= 0) /* the first one warms up */
			us[i] = (double)ms * 1e3 / COPIES;
	}
	*gbs = 2 * (double)n / bench_stat_of(us, ROUNDS, g->a).median / 1e3;
	return true;
}
