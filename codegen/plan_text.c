/*
 * A plan as text, for --emit plan.
 */
#include "codegen/emit.h"
#include "support/strbuf.h"

static void print_block(const struct cg_plan *p, struct strbuf *out)
{
	strbuf_printf(out, "  block %u threads", p->threads);
	if (p->teams > 1)
		strbuf_printf(out, " in %u teams", p->teams);
	strbuf_printf(
	        out, " x %u vectors x %u elements, %u rows in flight (%llu bytes), %u stages\n",
	        p->vecs, p->elems, p->in_flight, (unsigned long long)p->bytes_in_flight, p->stages);
}

static void print_params(const struct cg_kernel *k, struct strbuf *out)
{
	static const char *const sym[] = {"", ", peer", ", multicast"};

	for (unsigned i = 0; i < k->nparam; i++) {
		const struct cg_param *q = &k->param[i];

		strbuf_printf(out, "  param %s: %s", q->name, ir_dtype_info[q->type.dtype].text);
		if (q->type.ndim == 2)
			strbuf_printf(out, "[T, %lld] %s", (long long)q->type.cols,
			              ir_place_name[q->type.place]);
		else if (q->type.ndim == 1)
			strbuf_printf(out, "[%lld]", (long long)q->type.cols);
		strbuf_printf(out, ", ld %lld, align %u%s%s%s\n", (long long)q->ld, q->align,
		              sym[q->symmetric], q->local_index ? ", local rows" : "",
		              q->constant ? ", constant" : "");
	}
}

void cg_print_plan(const struct cg_kernel *k, struct strbuf *out)
{
	static const char *const kinds[] = {
	        [CG_ARG_UC] = "address",
	        [CG_ARG_MC] = "multicast address",
	        [CG_ARG_WS_UC] = "workspace",
	        [CG_ARG_WS_MC] = "multicast workspace",
	        [CG_ARG_ROWS] = "T",
	        [CG_ARG_RANK] = "rank",
	        [CG_ARG_PEERS] = "peers' addresses",
	        [CG_ARG_WS_PEERS] = "peers' workspaces",
	        [CG_ARG_XCHG_UC] = "exchange buffer",
	        [CG_ARG_XCHG_MC] = "multicast exchange buffer",
	        [CG_ARG_XCHG_PEERS] = "peers' exchange buffers",
	        [CG_ARG_ROWS_PTR] = "where T is",
	};
	const struct cg_plan *p = &k->plan;

	strbuf_printf(out, "kernel %s\n", k->name);
	strbuf_printf(out, "  protocol %s, order %s, tp %u, target %s\n",
	              cg_protocol_name(p->protocol), cg_order_name(p->order), p->tp,
	              p->target->name);
	strbuf_printf(out, "  rows: %s of %lld elements, %s\n", p->own_rows ? "own" : "all",
	              (long long)p->cols,
	              p->xchg_row       ? "data are the flags"
	              : p->communicates ? "barriers at entry and exit"
	                                : "no communication");
	print_block(p, out);
	if (p->sum_ranks)
		strbuf_printf(out, "  sums in order of ranks, %u of %u at a time\n", p->sum_ranks,
		              p->tp);
	if (p->xchg_row)
		strbuf_printf(out, "  exchange buffer: 3 x (%d + %u x rows) bytes\n", CG_XCHG_HEAD,
		              p->xchg_ranks * p->xchg_row);
	if (p->pdl)
		strbuf_printf(out, "  programmatic dependent launch: %s\n", cg_pdl_name(p->pdl));
	if (p->wide)
		strbuf_printf(out,
		              "  wide: vector by vector, %u loaded ahead; %u vectors of a thread "
		              "parked in %u bytes of dynamic shared memory, %u in registers\n",
		              p->ahead, p->parked, p->dynamic, p->vecs - p->parked);
	else if (p->dynamic)
		strbuf_printf(out,
		              "  ring of %u stages x %u ranks, results staged in %u bytes, each "
		              "team: %u bytes of dynamic shared memory\n",
		              p->ring_stages, p->ring_ranks, p->ring_out, p->dynamic);
	strbuf_printf(out, "  shared memory %u bytes, at most %u CTAs, about %u registers\n",
	              p->smem, p->max_ctas, p->est_regs);
	strbuf_printf(out, "  chosen: %s\n", p->why);
	print_params(k, out);
	for (unsigned i = 0; i < k->narg; i++) {
		const struct cg_arg *g = &k->arg[i];
		bool of = g->kind == CG_ARG_UC || g->kind == CG_ARG_MC || g->kind == CG_ARG_PEERS;

		strbuf_printf(out, "  argument %u: %s, %u bytes at %u: %s%s%s\n", i, g->name,
		              g->size, g->offset, kinds[g->kind], of ? " of " : "",
		              of ? k->param[g->param].name : "");
	}
	strbuf_printf(out, "  contract %016llx\n", (unsigned long long)k->contract);
}
