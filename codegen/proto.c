/*
 * The protocols: which one a kernel gets, what each cannot do, and how each is done.  What they are
 * is in protocols.def and doc/protocols.md.
 */
#include "codegen/emit.h"

static bool refuse(struct diags *d, struct span at, const char *why, const char *fix)
{
	diag_at(d, DIAG_ERROR, DIAG_CG_PROTOCOL, at, "%s", why);
	diag_note(d, (struct span){0, 0}, "%s", fix);
	return false;
}

/* What sums in the switch cannot do. */
static bool check_switch(const struct cg_rowprog *rp, const struct cg_plan *p, struct arena *a,
                         struct diags *d)
{
	const char *me = cg_protocol_name(p->protocol);

	for (unsigned i = 0; i < rp->nval; i++) {
		const struct ir_value *v = rp->val[i].ir;
		const struct ir_param *q = &rp->func->param[v->param];

		if (v->op != IR_OP_LOAD_SUM)
			continue;
		if (rp->func->deterministic)
			return refuse(
			        d, v->at,
			        arena_printf(a,
			                     "protocol '%s' cannot do '%s': it is "
			                     "deterministic, and the switch sums in any order",
			                     me, rp->func->name),
			        "use --protocol p2p-twoshot, push or mm-push, which sum in "
			        "order of ranks, or drop 'deterministic'");
		if (q->type.dtype != v->type.dtype)
			return refuse(
			        d, v->at,
			        arena_printf(a,
			                     "protocol '%s' cannot keep the %s sum of %s '%s': "
			                     "the switch rounds it",
			                     me, ir_dtype_info[v->type.dtype].text,
			                     ir_dtype_info[q->type.dtype].text, q->name),
			        arena_printf(a,
			                     "use --protocol p2p-twoshot, push or mm-push, "
			                     "which sum in registers, or drop 'out = %s'",
			                     ir_dtype_info[v->type.dtype].text));
	}
	return true;
}

/* Every rank has the switch sum for itself, and may get other bits. */
static bool check_oneshot(const struct cg_rowprog *rp, const struct cg_plan *p, struct arena *a,
                          struct diags *d)
{
	if (rp->sums && !rp->func->rank_divergence)
		return refuse(d, rp->func->at,
		              arena_printf(a,
		                           "protocol 'mm-oneshot' cannot do '%s': sums in the "
		                           "switch may differ by rank",
		                           rp->func->name),
		              "use --protocol mm-push or push, which sum in order of ranks, or say "
		              "'allow rank_divergence;' in the kernel");
	return check_switch(rp, p, a, d);
}

/* The switch moves 32 bits at least; a thread with one 16-bit element of a row, or of a group, has
 * less. */
static bool check_singles(const struct cg_rowprog *rp, const struct cg_plan *p, struct arena *a,
                          struct diags *d)
{
	for (unsigned i = 0; i < rp->nval; i++) {
		const struct ir_value *v = rp->val[i].ir;
		const struct ir_param *q = &rp->func->param[v->param];
		bool through = (v->op == IR_OP_LOAD_SUM && cg_ops(p)->sums == CG_ARG_MC) ||
		               (v->op == IR_OP_STORE_ALL && cg_ops(p)->gathers == CG_ARG_MC);

		if (!through || cg_dtype_bytes(q->type.dtype) >= 4 ||
		    q->type.cols * rp->elems >= rp->cols * 2)
			continue;
		return refuse(d, v->at,
		              arena_printf(a,
		                           "protocol '%s' cannot move '%s': a thread has one "
		                           "16-bit element of it",
		                           cg_protocol_name(p->protocol), q->name),
		              "make it f32, or use --protocol p2p-twoshot or push");
	}
	return true;
}

/* clang-format off */
static const struct cg_protocol_ops ops[CG_NPROTOCOLS] = {
	[CG_LOCAL] = {
		.sums = CG_ARG_UC, .gathers = CG_ARG_UC, .ws = CG_NARGS, .xchg = CG_NARGS,
		.ahead = true, .consume = cg_p2p_consume,
	},
	[CG_MM_TWOSHOT] = {
		.sums = CG_ARG_MC, .gathers = CG_ARG_MC, .ws = CG_ARG_WS_MC, .xchg = CG_NARGS,
		.check = check_switch, .entry = cg_barrier_entry, .exit = cg_barrier_exit,
	},
	[CG_MM_ONESHOT] = {
		.sums = CG_ARG_MC, .gathers = CG_ARG_MC, .ws = CG_ARG_WS_MC, .xchg = CG_NARGS,
		.check = check_oneshot, .entry = cg_barrier_entry, .exit = cg_barrier_exit,
	},
	[CG_P2P_TWOSHOT] = {
		.sums = CG_ARG_PEERS, .gathers = CG_ARG_PEERS, .ws = CG_ARG_WS_PEERS, .xchg = CG_NARGS,
		.ahead = true, .entry = cg_barrier_entry, .consume = cg_p2p_consume, .exit = cg_barrier_exit,
	},
	[CG_P2P_BULK] = {
		.sums = CG_ARG_PEERS, .gathers = CG_ARG_PEERS, .ws = CG_ARG_WS_PEERS, .xchg = CG_NARGS,
		.check = cg_bulk_check, .plan = cg_bulk_plan, .entry = cg_bulk_entry, .consume = cg_bulk_consume,
		.stages = cg_bulk_stages, .stage = cg_bulk_stage, .row_end = cg_bulk_row_end, .exit = cg_bulk_exit,
	},
	[CG_PUSH] = {
		.sums = CG_ARG_UC, .gathers = CG_ARG_PEERS, .ws = CG_ARG_WS_PEERS, .xchg = CG_ARG_XCHG_PEERS,
		.ahead = true, .entry = cg_push_entry, .consume = cg_push_consume, .exit = cg_push_exit,
	},
	[CG_MM_PUSH] = {
		.sums = CG_ARG_UC, .gathers = CG_ARG_MC, .ws = CG_ARG_WS_MC, .xchg = CG_ARG_XCHG_MC,
		.ahead = true, .entry = cg_push_entry, .consume = cg_push_consume, .exit = cg_push_exit,
	},
};
/* clang-format on */

const struct cg_protocol_ops *cg_ops(const struct cg_plan *p)
{
	return &ops[p->communicates ? p->protocol : CG_LOCAL];
}

int cg_push_set(enum cg_protocol p)
{
	return p == CG_PUSH ? CG_PUSH_PEER : p == CG_MM_PUSH ? CG_PUSH_MULTICAST : -1;
}

static bool check_rows(const struct cg_plan *p, const struct cg_rowprog *rp, struct arena *a,
                       struct diags *d)
{
	enum cg_rows rows = cg_protocol_info[p->protocol].rows;
	bool own = rows == CG_ROWS_OWN;

	if (rows == CG_ROWS_ANY || own == rp->own_rows)
		return true;
	return refuse(
	        d, rp->func->at,
	        arena_printf(a,
	                     "protocol '%s' cannot do '%s': it works on %s rows, the kernel is "
	                     "made for %s rows",
	                     cg_protocol_name(p->protocol), rp->func->name, own ? "own" : "all",
	                     own ? "all" : "own"),
	        arena_printf(a, "for %s rows there are %s", own ? "all" : "own",
	                     cg_protocol_names(a, 1u << (own ? CG_ROWS_ALL : CG_ROWS_OWN))));
}

static bool check_target(const struct cg_plan *p, const struct cg_rowprog *rp, struct arena *a,
                         struct diags *d)
{
	const struct cg_protocol_info *q = &cg_protocol_info[p->protocol];

	if (p->target->sm >= q->sm)
		return true;
	return refuse(d, rp->func->at,
	              arena_printf(a, "protocol '%s' needs sm_%u or later, the target is %s",
	                           q->name, q->sm, p->target->name),
	              q->memory == CG_SYM_MULTICAST
	                      ? "in-switch reduction came with sm_90: use --target sm_90"
	                      : arena_printf(a, "use --target sm_%u", q->sm));
}

static void mark_sums(struct cg_plan *p, const struct cg_rowprog *rp)
{
	unsigned most = p->tp;

	if (cg_ops(p)->sums == CG_ARG_MC)
		return;
	if (cg_ops(p)->xchg == CG_ARG_XCHG_PEERS && most > 1)
		most--; /* its own are there */
	for (unsigned i = 0; i < rp->nval; i++)
		if (rp->val[i].ir->op == IR_OP_LOAD_SUM) {
			rp->val[i].summed = true;
			rp->val[i].first = rp->val[i].used ? 0 : rp->val[i].first;
			p->sum_ranks = cg_ops(p)->plan         ? 1 /* from shared memory */
			               : most < CG_MAX_ADDENDS ? most
			                                       : CG_MAX_ADDENDS;
		}
}

bool cg_protocol_choose(struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_options *o,
                        struct arena *a, struct diags *d)
{
	const char *name = rp->func->name;

	/* one rank's sum is its addend: `local` is what auto means there */
	p->communicates = (rp->sums || rp->gathers) &&
	                  (p->tp > 1 || (o->protocol != CG_AUTO && o->protocol != CG_LOCAL));
	p->protocol = o->protocol != CG_AUTO ? o->protocol
	              : !p->communicates     ? CG_LOCAL
	              : rp->own_rows         ? CG_MM_TWOSHOT
	                                     : CG_MM_PUSH;
	if (!p->communicates) {
		mark_sums(p, rp);
		return true;
	}
	if (p->protocol == CG_LOCAL)
		return refuse(
		        d, rp->func->at,
		        arena_printf(a,
		                     "protocol 'local' cannot do '%s': it communicates among %u "
		                     "ranks",
		                     name, p->tp),
		        "use --protocol auto; at --tp 1 'local' does every kernel");
	if (!check_target(p, rp, a, d) || !check_rows(p, rp, a, d) || !check_singles(rp, p, a, d) ||
	    (cg_ops(p)->check && !cg_ops(p)->check(rp, p, a, d)))
		return false;
	mark_sums(p, rp);
	p->xchg_row = cg_ops(p)->xchg != CG_NARGS ? cg_push_row(rp) : 0;
	/* through the switch a store reaches all, its own rank too */
	p->xchg_ranks = cg_ops(p)->xchg == CG_ARG_XCHG_PEERS ? p->tp - 1 : p->tp;
	return true;
}
