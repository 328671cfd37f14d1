/* Launching kernels on simulated ranks: memory of protocols, argument blocks, abort records. */
#include "tools/launch.h"
#include <string.h>

static void need_exchange(struct vf_memory *m, const struct cg_kernel *k, uint64_t rows)
{
	int set = cg_push_set(k->plan.protocol);
	uint64_t n;

	if (set < 0)
		return;
	n = cg_exchange_bytes(&k->plan, rows);
	if (n > m->xchg_bytes[set])
		m->xchg_bytes[set] = n;
}

void vf_memory_new(struct vf_memory *m, struct sim *s, unsigned tp, uint64_t limit_ns,
                   const struct cg_kernel *const *k, unsigned n, uint64_t rows, struct arena *a)
{
	bool communicates = false, multicast = false, in_memory = false;

	*m = (struct vf_memory){.sim = s, .tp = tp, .limit_ns = limit_ns};
	for (unsigned i = 0; i < n; i++) {
		communicates |= k[i]->plan.communicates;
		multicast |= cg_protocol_info[k[i]->plan.protocol].memory == CG_SYM_MULTICAST;
		for (unsigned g = 0; g < k[i]->narg; g++)
			in_memory |= k[i]->arg[g].kind == CG_ARG_ROWS_PTR;
		need_exchange(m, k[i], rows);
	}
	for (unsigned r = 0; r < tp && in_memory; r++)
		m->rows_at[r] = sim_alloc(s, r, 4, "T");
	if (!communicates)
		return;
	m->ws = sim_alloc_symmetric(s, sizeof(struct cg_workspace), multicast, "workspace");
	for (int i = 0; i < CG_NPUSH; i++)
		if (m->xchg_bytes[i])
			m->xchg[i] = sim_alloc_symmetric(s, m->xchg_bytes[i],
			                                 i == CG_PUSH_MULTICAST, "exchange");
	vf_memory_reset(m, false, a);
}

void vf_memory_reset(const struct vf_memory *m, bool wrap, struct arena *a)
{
	uint32_t epoch = wrap ? UINT32_MAX - 2 : 0;
	struct cg_workspace *w = arena_new(a, struct cg_workspace);
	uint64_t most = 0;
	uint32_t *fill;

	if (!m->ws.uc[0])
		return;
	w->limit_ns = m->limit_ns;
	for (unsigned c = 0; c < CG_MAX_CTAS; c++) {
		w->epoch[c] = epoch;
		for (unsigned r = 0; r < CG_MAX_RANKS; r++)
			w->slot[c][r] = epoch;
	}
	for (int i = 0; i < CG_NPUSH; i++) {
		w->push[i].stride = m->xchg_bytes[i] / 3;
		w->push[i].phase = wrap ? CG_PUSH_WRAP - 2 : 0;
		most = m->xchg_bytes[i] > most ? m->xchg_bytes[i] : most;
	}
	fill = arena_news(a, uint32_t, most / 4 + 1);
	for (uint64_t i = 0; i < most / 4; i++)
		fill[i] = cg_exchange_fill();
	for (unsigned r = 0; r < m->tp; r++) {
		sim_write(m->sim, m->ws.uc[r], w, sizeof *w);
		for (int i = 0; i < CG_NPUSH; i++)
			if (m->xchg_bytes[i])
				sim_write(m->sim, m->xchg[i].uc[r], fill, m->xchg_bytes[i]);
	}
}

uint8_t *vf_arguments(const struct vf_memory *m, const struct cg_kernel *k,
                      const struct sim_symmetric *at, uint64_t T, unsigned rank, struct arena *a)
{
	uint8_t *block = arena_alloc(a, k->param_bytes + 8);
	int set = cg_push_set(k->plan.protocol);
	static const struct sim_symmetric none;
	const struct sim_symmetric *xchg = set < 0 ? &none : &m->xchg[set];

	memset(block, 0, k->param_bytes + 8);
	for (unsigned i = 0; i < k->narg; i++) {
		const struct cg_arg *g = &k->arg[i];
		const struct sim_symmetric *p = &at[g->param];
		const uint64_t one[CG_NARGS] = {
		        [CG_ARG_UC] = p->uc[rank],
		        [CG_ARG_MC] = p->mc,
		        [CG_ARG_WS_UC] = m->ws.uc[rank],
		        [CG_ARG_WS_MC] = m->ws.mc,
		        [CG_ARG_ROWS] = T,
		        [CG_ARG_RANK] = rank,
		        [CG_ARG_XCHG_UC] = xchg->uc[rank],
		        [CG_ARG_XCHG_MC] = xchg->mc,
		        [CG_ARG_ROWS_PTR] = m->rows_at[rank],
		};
		const uint64_t *const many[CG_NARGS] = {
		        [CG_ARG_PEERS] = p->uc,
		        [CG_ARG_WS_PEERS] = m->ws.uc,
		        [CG_ARG_XCHG_PEERS] = xchg->uc,
		};

		memcpy(block + g->offset, many[g->kind] ? many[g->kind] : &one[g->kind], g->size);
	}
	return block;
}

/* Where data are the flags, a rank without rows is not to be told from one that has not come. */
static const char *what_happened(const struct cg_workspace *w, struct arena *a)
{
	static const char *const kinds[] = {
	        [CG_WS_GOOD] = "none",
	        [CG_WS_TIMEOUT] = "a spin ran out of time",
	        [CG_WS_CONTRACT] = "ranks launched with different contracts",
	        [CG_WS_PEER] = "another rank aborted",
	        [CG_WS_ROWS] = "more rows than the exchange buffer has room for",
	};

	if (w->record.kind == CG_WS_TIMEOUT && w->record.phase == 2)
		return arena_printf(
		        a,
		        "rank %u has not come, or came with no rows (T = 0) where others "
		        "have some",
		        w->record.peer);
	return w->record.kind <= CG_WS_ROWS ? kinds[w->record.kind] : "unknown";
}

const char *vf_abort_text(const struct vf_memory *m, unsigned rank, struct arena *a)
{
	struct cg_workspace w;

	if (!m->ws.uc[rank] || !sim_read(m->sim, m->ws.uc[rank], &w, sizeof w) || !w.abort)
		return NULL;
	return arena_printf(a,
	                    "rank %u aborted: %s (recorded by rank %u, CTA %u, phase %u: peer %u, "
	                    "expected %#llx, seen %#llx)",
	                    rank, what_happened(&w, a), w.record.rank, w.record.cta, w.record.phase,
	                    w.record.peer, (unsigned long long)w.record.expected,
	                    (unsigned long long)w.record.seen);
}
