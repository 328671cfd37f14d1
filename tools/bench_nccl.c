/* The peer NCCL: all-reduce of plain memory and of symmetric windows, alone and followed by plait's
 * own kernel without communication. */
#include "runtime/machine.h"
#include "tools/bench_subject.h"
#include <stdlib.h>
#include <string.h>

#define CU(g, member, ...) RT_CU(&(g)->drv, &(g)->e, member, __VA_ARGS__)
#define NC(n, member, ...) RT_NC(&(n)->lib, &(n)->s->g->e, member, __VA_ARGS__)
#define NC0(n, member)     RT_NC0(&(n)->lib, &(n)->s->g->e, member)

static int type_of(enum ir_dtype t)
{
	return t == IR_BF16  ? RT_NCCL_BFLOAT16
	       : t == IR_F16 ? RT_NCCL_FLOAT16
	       : t == IR_F32 ? RT_NCCL_FLOAT32
	                     : -1;
}

static size_t bytes_of(const struct bench_nccl *n)
{
	return n->s->capacity * n->s->param[n->s->partial].row;
}

static bool open_comm(struct bench_nccl *n)
{
	struct bench_gpu *g = n->s->g;
	struct nccl_id id;
	bool good = NC(n, unique_id, &id) && NC0(n, group_start);

	for (unsigned r = 0; r < g->tp && good; r++)
		good = bench_enter(g, r) && NC(n, init_rank, &n->comm[r], (int)g->tp, id, (int)r);
	return good && NC0(n, group_end);
}

/* The same values as the partial parameter has. */
static bool allocate(struct bench_nccl *n, int which)
{
	struct bench_gpu *g = n->s->g;
	size_t bytes = bytes_of(n);

	for (unsigned r = 0; r < g->tp; r++) {
		if (!bench_enter(g, r))
			return false;
		if (which) {
			void *from, *to;

			if (!NC(n, mem_alloc, &from, bytes) || !NC(n, mem_alloc, &to, bytes))
				return false;
			n->from[1][r] = (cu_address)(uintptr_t)from;
			n->to[1][r] = (cu_address)(uintptr_t)to;
		} else if (!bench_alloc(g, r, bytes, &n->from[0][r]) ||
		           !bench_alloc(g, r, bytes, &n->to[0][r])) {
			return false;
		}
		if (!CU(g, copy, n->from[which][r], n->s->param[n->s->partial].at[r], bytes,
		        g->stream[r]))
			return false;
	}
	return bench_wait(g);
}

static bool register_windows(struct bench_nccl *n)
{
	struct bench_gpu *g = n->s->g;
	cu_address *const memory[] = {n->from[1], n->to[1]};

	for (int k = 0; k < 2; k++) {
		bool good = NC0(n, group_start);

		for (unsigned r = 0; r < g->tp && good; r++)
			good = bench_enter(g, r) &&
			       NC(n, window_register, n->comm[r], (void *)(uintptr_t)memory[k][r],
			          bytes_of(n), &n->window[k][r], RT_NCCL_WIN_SYMMETRIC);
		if (!good || !NC0(n, group_end))
			return false;
		if (!n->window[k][0]) { /* NCCL takes them for ordinary registrations */
			rt_fail(&g->e, PLAIT_ENV, "NCCL has no symmetric windows here");
			return false;
		}
	}
	return true;
}

bool bench_nccl_open(struct bench_nccl *n, struct bench_subject *s, const char *path,
                     const struct bench_norm *norm)
{
	*n = (struct bench_nccl){.s = s};
	/* switched off for plait is switched off for all that runs here */
	if (rt_multicast_off())
		setenv("NCCL_NVLS_ENABLE", "0", 1);
	if (s->partial < 0 || type_of(s->param[s->partial].dtype) < 0) {
		rt_fail(&s->g->e, PLAIT_INPUT,
		        "the kernel has not one partial parameter that NCCL could sum");
		return false;
	}
	if (s->g->gpus < s->g->tp) {
		rt_fail(&s->g->e, PLAIT_ENV, "NCCL needs a GPU for each rank");
		return false;
	}
	if (rt_nccl_open(&n->lib, path, &s->g->e) != PLAIT_OK || !open_comm(n) || !allocate(n, 0))
		return false;
	n->windows =
	        n->lib.mem_alloc && n->lib.window_register && allocate(n, 1) && register_windows(n);
	if (!n->windows)
		rt_error_clear(&s->g->e); /* the other is measured all the same */
	for (int which = 0; which < 2; which++) {
		n->norm[which] = *norm;
		n->norm[which].sum = n->to[which];
	}
	return true;
}

void bench_nccl_close(struct bench_nccl *n)
{
	struct bench_gpu *g = n->s ? n->s->g : NULL;

	for (unsigned r = 0; g && r < g->tp; r++) {
		if (!n->comm[r] || g->drv.ctx_set(g->ctx[r]))
			continue;
		for (int k = 0; k < 2; k++)
			if (n->window[k][r] && n->lib.window_deregister)
				n->lib.window_deregister(n->comm[r], n->window[k][r]);
		n->lib.destroy(n->comm[r]);
		if (n->lib.mem_free && n->from[1][r])
			n->lib.mem_free((void *)(uintptr_t)n->from[1][r]);
		if (n->lib.mem_free && n->to[1][r])
			n->lib.mem_free((void *)(uintptr_t)n->to[1][r]);
	}
}

static bool launch(void *ctx, unsigned i, uint64_t T)
{
	struct bench_nccl_way *way = ctx;
	struct bench_nccl *n = way->n;
	struct bench_subject *s = n->s;
	const struct bench_param *p = &s->param[s->partial];
	uint64_t at = bench_set_at(s, i, T, p->row);
	size_t elements = T * (p->row / (ir_dtype_info[p->dtype].bits / 8));
	bool good = NC0(n, group_start);

	for (unsigned r = 0; r < s->g->tp && good; r++)
		good = bench_enter(s->g, r) &&
		       NC(n, all_reduce, (const void *)(uintptr_t)(n->from[way->which][r] + at),
		          (void *)(uintptr_t)(n->to[way->which][r] + at), elements,
		          type_of(p->dtype), RT_NCCL_SUM, n->comm[r], s->g->stream[r]);
	good = good && NC0(n, group_end);
	return good && (!way->with_norm || bench_norm_launch(&n->norm[way->which], i, T));
}

unsigned bench_nccl_contenders(struct bench_nccl *n, struct bench_contender *c)
{
	static const struct bench_who who[2][2] = {
	        {{"NCCL", BENCH_REDUCE}, {"NCCL + norm", BENCH_UNFUSED}},
	        {{"NCCL windows", BENCH_REDUCE}, {"NCCL windows + norm", BENCH_UNFUSED}}};
	unsigned k = 0;

	for (int which = 0; which <= (n->windows ? 1 : 0); which++)
		for (int norm = 0; norm < 2; norm++) {
			n->way[k] = (struct bench_nccl_way){n, which, norm};
			c[k] = (struct bench_contender){
			        .who = who[which][norm], .ctx = &n->way[k], .launch = launch};
			k++;
		}
	return k;
}
