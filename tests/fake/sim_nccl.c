/*
 * NCCL on the simulated driver: what a group has of all ranks is done when it ends, on memory.  Sums
 * are in order of ranks, and only of 16-bit floats.
 */
#include "tests/fake/sim_driver.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

struct nccl_comm {
	int rank, size;
};

struct op {
	const struct nccl_comm *c;
	uint64_t send, recv;
	size_t n;
	bool sum, all, done; /* all: an all-reduce */
	int type;
};

static struct sim_driver *drv;
static struct op ops[MOST];
static unsigned nops, depth;

static bool fails(void)
{
	return ++drv->calls == drv->fail_at;
}

static float value(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float v;

	memcpy(&v, &u, 4);
	return v;
}

static uint16_t rounded(float v)
{
	uint32_t u;

	memcpy(&u, &v, 4);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* The op of every rank that goes with `o`: the first of each that is not done. */
static bool match(const struct op *o, struct op **all)
{
	for (int r = 0; r < o->c->size; r++) {
		all[r] = NULL;
		for (unsigned i = 0; i < nops && !all[r]; i++)
			if (ops[i].c->rank == r && !ops[i].done)
				all[r] = &ops[i];
		if (!all[r] || all[r]->sum != o->sum || all[r]->all != o->all ||
		    all[r]->n != o->n || all[r]->type != o->type)
			return false;
	}
	return true;
}

/* Each rank gets its part, or all. */
static bool reduce(struct op **all, int size)
{
	const bool whole = all[0]->all;
	size_t n = all[0]->n;
	uint16_t *in = malloc(n * 2), *out = malloc(n * 2);
	float *sum = malloc(n * sizeof *sum);
	bool good = in && out && sum;

	for (int r = 0; r < size && good; r++) {
		memset(sum, 0, n * sizeof *sum);
		for (int q = 0; q < size && good; q++) {
			good = sim_read(drv->sim, all[q]->send + (whole ? 0 : (uint64_t)r * n * 2),
			                in, n * 2);
			for (size_t i = 0; i < n && good; i++)
				sum[i] += value(in[i]);
		}
		for (size_t i = 0; i < n && good; i++)
			out[i] = rounded(sum[i]);
		for (int q = 0; q < size && good && (!whole || !r); q++) /* in place: at once */
			if (whole || q == r)
				good = sim_write(drv->sim, all[q]->recv, out, n * 2);
		if (whole)
			break;
	}
	free(in);
	free(out);
	free(sum);
	return good;
}

static bool all_gather(struct op **all, int size)
{
	size_t n = all[0]->n;
	unsigned char *p = malloc(n * (size_t)size);
	bool good = p != NULL;

	for (int r = 0; r < size && good; r++)
		good = sim_read(drv->sim, all[r]->send, p + (size_t)r * n, n);
	for (int r = 0; r < size && good; r++)
		good = sim_write(drv->sim, all[r]->recv, p, n * (size_t)size);
	free(p);
	return good;
}

static int finish(void)
{
	bool good = sim_driver_run(drv);

	for (unsigned i = 0; i < nops && good; i++) {
		struct op *all[SIM_MAX_RANKS] = {NULL};
		int size = ops[i].c->size;

		if (ops[i].done)
			continue;
		good = match(&ops[i], all) &&
		       (ops[i].sum ? reduce(all, size) : all_gather(all, size));
		for (int r = 0; r < size && good; r++)
			all[r]->done = true;
	}
	nops = 0;
	return good ? RT_NCCL_SUCCESS : 3;
}

static int group_start(void)
{
	if (fails())
		return 3;
	depth++;
	return RT_NCCL_SUCCESS;
}

static int group_end(void)
{
	int r = --depth ? RT_NCCL_SUCCESS : finish();

	return fails() ? 3 : r;
}

static int enqueue(struct op o)
{
	if (fails() || nops == MOST)
		return 3;
	ops[nops++] = o;
	return depth ? RT_NCCL_SUCCESS : finish();
}

static int nccl_all_gather(const void *send, void *recv, size_t n, int type, struct nccl_comm *c,
                           struct cu_stream *s)
{
	(void)s;
	return type != RT_NCCL_CHAR ? 4
	                            : enqueue((struct op){.c = c,
	                                                  .send = (uint64_t)(uintptr_t)send,
	                                                  .recv = (uint64_t)(uintptr_t)recv,
	                                                  .n = n,
	                                                  .type = type});
}

static int sum(const void *send, void *recv, size_t n, int type, int op, bool all,
               struct nccl_comm *c)
{
	return type != RT_NCCL_BFLOAT16 || op != RT_NCCL_SUM
	               ? 4
	               : enqueue((struct op){.c = c,
	                                     .send = (uint64_t)(uintptr_t)send,
	                                     .recv = (uint64_t)(uintptr_t)recv,
	                                     .n = n,
	                                     .sum = true,
	                                     .all = all,
	                                     .type = type});
}

static int nccl_reduce_scatter(const void *send, void *recv, size_t n, int type, int op,
                               struct nccl_comm *c, struct cu_stream *s)
{
	(void)s;
	return sum(send, recv, n, type, op, false, c);
}

static int nccl_all_reduce(const void *send, void *recv, size_t n, int type, int op,
                           struct nccl_comm *c, struct cu_stream *s)
{
	(void)s;
	return sum(send, recv, n, type, op, true, c);
}

static const char *error_string(int r)
{
	(void)r;
	return "made up";
}

static int unique_id(struct nccl_id *id)
{
	memset(id, 0, sizeof *id);
	return fails() ? 3 : RT_NCCL_SUCCESS;
}

static int init_rank(struct nccl_comm **c, int size, struct nccl_id id, int rank)
{
	(void)id;
	if (fails())
		return 3;
	*c = malloc(sizeof **c);
	**c = (struct nccl_comm){rank, size};
	drv->live++;
	return RT_NCCL_SUCCESS;
}

static int destroy(struct nccl_comm *c)
{
	free(c);
	drv->live--;
	return RT_NCCL_SUCCESS;
}

static const struct rt_nccl table = {
        .error_string = error_string,
        .unique_id = unique_id,
        .init_rank = init_rank,
        .destroy = destroy,
        .abort = destroy,
        .group_start = group_start,
        .group_end = group_end,
        .all_reduce = nccl_all_reduce,
        .all_gather = nccl_all_gather,
        .reduce_scatter = nccl_reduce_scatter,
};

const struct rt_nccl *sim_nccl_begin(struct sim_driver *d)
{
	drv = d;
	nops = depth = 0;
	return &table;
}
