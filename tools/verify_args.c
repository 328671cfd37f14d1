/* What a launch of verify gets beside the parameters' buffers: workspace, exchange buffer,
 * arguments. */
#include "tools/verify_priv.h"
#include <string.h>

/* As after many launches: in some schedules epochs and launch numbers are about to wrap. */
static void make_workspace(const struct vf_data *d, struct sim *sim, struct arena *a, bool wrap,
                           struct vf_memory *m)
{
	const struct cg_plan *p = &d->k->k->plan;
	struct cg_workspace *w = arena_new(a, struct cg_workspace);
	uint32_t epoch = wrap ? UINT32_MAX - 2 : 0;
	bool multicast = cg_protocol_info[p->protocol].memory == CG_SYM_MULTICAST;

	w->limit_ns = (uint64_t)1 << 60; /* a schedule may be slow; deadlocks are found otherwise */
	for (unsigned c = 0; c < CG_MAX_CTAS; c++) {
		w->epoch[c] = epoch;
		for (unsigned r = 0; r < CG_MAX_RANKS; r++)
			w->slot[c][r] = epoch;
	}
	for (unsigned i = 0; i < CG_NPUSH; i++) {
		w->push[i].phase = wrap ? CG_PUSH_WRAP - 2 : 0;
		w->push[i].stride = m->exchange / 3;
	}
	m->ws = sim_alloc_symmetric(sim, sizeof *w, multicast, "workspace");
	for (unsigned r = 0; r < d->o.tp; r++)
		sim_write(sim, m->ws.uc[r], w, sizeof *w);
}

/* Just large enough, or with room left. */
static void make_exchange(const struct vf_data *d, struct sim *sim, struct arena *a, bool room,
                          struct vf_memory *m)
{
	const struct cg_plan *p = &d->k->k->plan;
	uint32_t *fill;

	m->exchange = cg_exchange_bytes(p, (uint64_t)d->most + room);
	if (!m->exchange)
		return;
	fill = arena_alloc(a, m->exchange);
	for (uint64_t i = 0; i < m->exchange / 4; i++)
		fill[i] = cg_exchange_fill();
	m->xchg = sim_alloc_symmetric(sim, m->exchange,
	                              cg_protocol_info[p->protocol].memory == CG_SYM_MULTICAST,
	                              "exchange buffer");
	for (unsigned r = 0; r < d->o.tp; r++)
		sim_write(sim, m->xchg.uc[r], fill, m->exchange);
}

void vf_communication(const struct vf_data *d, struct sim *sim, struct arena *a, unsigned which,
                      struct vf_memory *m)
{
	if (!d->k->k->plan.communicates)
		return;
	make_exchange(d, sim, a, which & 1, m);
	make_workspace(d, sim, a, which % 4 == 3, m);
}

void vf_arguments(const struct cg_kernel *k, const struct vf_memory *m, unsigned rank, uint64_t T,
                  uint8_t *block)
{
	for (unsigned i = 0; i < k->narg; i++) {
		const struct cg_arg *g = &k->arg[i];
		const struct sim_symmetric *at = &m->at[g->param];
		const uint64_t word[CG_NARGS] = {
		        [CG_ARG_UC] = at->uc[rank],
		        [CG_ARG_MC] = at->mc,
		        [CG_ARG_WS_UC] = m->ws.uc[rank],
		        [CG_ARG_WS_MC] = m->ws.mc,
		        [CG_ARG_ROWS] = T,
		        [CG_ARG_RANK] = rank,
		        [CG_ARG_XCHG_UC] = m->xchg.uc[rank],
		        [CG_ARG_XCHG_MC] = m->xchg.mc,
		        [CG_ARG_ROWS_PTR] = m->rows[rank],
		};
		const void *from = g->kind == CG_ARG_PEERS        ? at->uc
		                   : g->kind == CG_ARG_WS_PEERS   ? m->ws.uc
		                   : g->kind == CG_ARG_XCHG_PEERS ? m->xchg.uc
		                                                  : &word[g->kind];

		memcpy(block + g->offset, from, g->size);
	}
}
