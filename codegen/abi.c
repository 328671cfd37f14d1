/*
 * A kernel's parameters, in PTX and for the caller, and the contract that ranks must agree on.
 */
#include "codegen/emit.h"
#include "support/hash.h"
#include <string.h>

int64_t cg_param_ld(const struct ir_param *q)
{
	return q->ld ? q->ld : q->type.ndim == 0 ? 1 : q->type.cols;
}

unsigned cg_param_align(const struct ir_param *q)
{
	uint64_t row = (uint64_t)cg_param_ld(q) * cg_dtype_bytes(q->type.dtype);
	unsigned align = 16;

	/* What the leading dimension gives; a single row ([cols]) starts at the base, which is
	 * aligned to 16. */
	while (q->type.ndim == 2 && row % align != 0)
		align /= 2;
	if (q->type.ndim == 0)
		align = cg_dtype_bytes(q->type.dtype);
	return q->align && q->align < align ? q->align : align;
}

/* PTX identifiers: letters, digits, _ and $; ours begin with a prefix that no keyword has. */
const char *cg_symbol(struct arena *a, const char *prefix, const char *name, const char *suffix)
{
	char *s = arena_printf(a, "%s%s%s", prefix, name, suffix);

	for (char *c = s; *c; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
		      (*c >= '0' && *c <= '9') || *c == '_'))
			*c = '_';
	return s;
}

static bool is_array(enum cg_arg_kind kind)
{
	return kind == CG_ARG_PEERS || kind == CG_ARG_WS_PEERS || kind == CG_ARG_XCHG_PEERS;
}

static void add_arg(struct cg_kernel *k, enum cg_arg_kind kind, unsigned param, const char *name)
{
	struct cg_arg *g = &k->arg[k->narg++];
	uint32_t align = kind == CG_ARG_ROWS || kind == CG_ARG_RANK ? 4 : 8;
	uint32_t size = is_array(kind) ? 8 * k->plan.tp : align;

	k->param_bytes = (k->param_bytes + align - 1) / align * align;
	*g = (struct cg_arg){
	        .kind = kind, .param = param, .offset = k->param_bytes, .size = size, .name = name};
	k->param_bytes += size;
}

/* How the row program reaches a parameter: on this rank, and on all (CG_ARG_UC: it does not). */
struct use {
	bool own;
	enum cg_arg_kind all;
};

static struct use use_of(const struct cg_kernel *k, const struct cg_rowprog *rp, unsigned param)
{
	const struct cg_protocol_ops *ops = cg_ops(&k->plan);
	struct use u = {false, CG_ARG_UC};

	for (unsigned i = 0; i < rp->nval; i++) {
		const struct cg_value *v = &rp->val[i];
		bool reads = cg_is_load(v->ir) || cg_is_constant(v->ir);
		enum cg_arg_kind by = v->ir->op == IR_OP_LOAD_SUM    ? ops->sums
		                      : v->ir->op == IR_OP_STORE_ALL ? ops->gathers
		                                                     : CG_ARG_UC;

		if (v->ir->param != param || !(cg_is_store(v->ir) || (reads && v->used)))
			continue;
		if (by == CG_ARG_UC)
			u.own = true;
		else
			u.all = by;
	}
	return u;
}

static void describe(struct cg_param *out, const struct ir_param *q, enum cg_arg_kind all,
                     bool constant)
{
	*out = (struct cg_param){
	        .name = q->name,
	        .type = q->type,
	        .mode = q->mode,
	        .ld = cg_param_ld(q),
	        .align = cg_param_align(q),
	        .symmetric = all == CG_ARG_MC      ? CG_SYM_MULTICAST
	                     : all == CG_ARG_PEERS ? CG_SYM_PEER
	                                           : CG_SYM_NONE,
	        .local_index = q->type.ndim == 2 && q->type.place == IR_SHARDED,
	        .constant = constant,
	};
}

static void add_workspace(struct cg_kernel *k)
{
	const struct cg_protocol_ops *ops = cg_ops(&k->plan);

	if (!k->plan.communicates)
		return;
	add_arg(k, CG_ARG_WS_UC, 0, "ws");
	add_arg(k, ops->ws, 0, ops->ws == CG_ARG_WS_MC ? "ws_mc" : "ws_peers");
	if (ops->xchg == CG_NARGS)
		return;
	add_arg(k, CG_ARG_XCHG_UC, 0, "xchg");
	add_arg(k, ops->xchg, 0, ops->xchg == CG_ARG_XCHG_MC ? "xchg_mc" : "xchg_peers");
}

void cg_abi_make(struct cg_kernel *k, const struct cg_rowprog *rp, struct arena *a)
{
	const struct ir_func *f = rp->func;

	k->nparam = f->nparam;
	k->param = arena_news(a, struct cg_param, f->nparam + 1);
	k->arg = arena_news(a, struct cg_arg, 2 * f->nparam + 6);
	for (unsigned i = 0; i < f->nparam; i++) {
		struct use u = use_of(k, rp, i);

		describe(&k->param[i], &f->param[i], u.all, f->param[i].type.ndim < 2);
		if (u.own)
			add_arg(k, CG_ARG_UC, i, cg_symbol(a, "p_", f->param[i].name, ""));
		if (u.all != CG_ARG_UC)
			add_arg(k, u.all, i,
			        cg_symbol(a, "p_", f->param[i].name,
			                  u.all == CG_ARG_MC ? "_mc" : "_peers"));
	}
	add_workspace(k);
	if (k->plan.rows_in_memory)
		add_arg(k, CG_ARG_ROWS_PTR, 0, "rows_at");
	else
		add_arg(k, CG_ARG_ROWS, 0, "rows");
	if (k->plan.own_rows || k->plan.communicates)
		add_arg(k, CG_ARG_RANK, 0, "rank");
}

static const struct cg_arg *find_arg(const struct cg_emit *e, enum cg_arg_kind kind, unsigned param)
{
	for (unsigned i = 0; i < e->k->narg; i++)
		if (e->k->arg[i].kind == kind && e->k->arg[i].param == param)
			return &e->k->arg[i];
	return NULL;
}

static struct ptx_opnd load_arg(struct cg_emit *e, const struct cg_arg *g, unsigned at,
                                enum ptx_type t)
{
	struct ptx_opnd sym = {.kind = PTX_SYM, .cls = PTX_C_B64, .sym = g->name}, v;

	v = ptx_ld(e->f, ptx_MODS(.space = PTX_PARAM), t, ptx_at(sym, at));
	return t == PTX_T_u32 ? v : ptx_cvta_to_space(e->f, PTX_GLOBAL, v);
}

struct ptx_opnd cg_arg_load(struct cg_emit *e, enum cg_arg_kind kind, unsigned param)
{
	const struct cg_arg *g = find_arg(e, kind, param);

	if (!g)
		return (struct ptx_opnd){0};
	return load_arg(e, g, 0, g->size == 4 ? PTX_T_u32 : PTX_T_u64);
}

struct ptx_opnd cg_arg_peer(struct cg_emit *e, enum cg_arg_kind kind, unsigned param, unsigned rank)
{
	const struct cg_arg *g = find_arg(e, kind, param);

	return g ? load_arg(e, g, 8 * rank, PTX_T_u64) : (struct ptx_opnd){0};
}

/* By selection: parameters are read at constant offsets. */
struct ptx_opnd cg_arg_peer_of(struct cg_emit *e, enum cg_arg_kind kind, unsigned param,
                               struct ptx_opnd rank)
{
	struct ptx_opnd at = cg_arg_peer(e, kind, param, 0);

	for (unsigned i = 1; i < e->p->tp; i++) {
		struct ptx_opnd here = ptx_setp(e->f, PTX_EQ, PTX_T_u32, rank, ptx_imm(i));

		at = ptx_selp(e->f, PTX_T_b64, cg_arg_peer(e, kind, param, i), at, here);
	}
	return at;
}

#define HASH(h, x) hash_bytes((h), &(x), sizeof(x))

static uint64_t hash_text(uint64_t h, const char *s)
{
	return hash_bytes(h, s, strlen(s) + 1);
}

/* Field by field: structures have padding. */
static uint64_t hash_plan(uint64_t h, const struct cg_plan *p)
{
	const uint64_t x[] = {
	        p->protocol,     p->order,     p->tp,       (uint64_t)p->cols,
	        p->elems,        p->threads,   p->vecs,     p->in_flight,
	        p->stages,       p->smem,      p->max_ctas, p->own_rows,
	        p->communicates, CG_MAX_RANKS, CG_MAX_CTAS, sizeof(struct cg_workspace)};

	const uint64_t more[] = {p->sum_ranks, p->xchg_row, p->xchg_ranks,
	                         p->per_sm,    p->pdl,      p->rows_in_memory};

	if (p->teams > 1)
		h = HASH(h, p->teams);
	if (p->dynamic) {
		const uint64_t ring[] = {p->dynamic, p->ring_stages, p->ring_ranks, p->ring_out};

		h = HASH(h, ring);
	}
	if (p->wide) {
		const uint64_t wide[] = {p->reread, p->parked, p->park_units, p->park_words,
		                         p->ahead};

		h = HASH(h, wide);
	}
	h = hash_text(HASH(h, x), p->target->name);
	return p->sum_ranks || p->pdl || p->rows_in_memory ? HASH(h, more) : h;
}

static uint64_t hash_value(uint64_t h, const struct cg_rowprog *rp, const struct ir_value *v)
{
	const int64_t x[] = {v->op,        v->type.dtype, v->type.ndim,     v->type.place,
	                     v->type.cols, v->n,          (int64_t)v->param};

	h = HASH(HASH(h, x), v->num);
	for (unsigned i = 0; i < v->nsrc; i++) {
		const int64_t at = cg_value_of(v->src[i]) - rp->val;

		h = HASH(h, at);
	}
	return h;
}

uint64_t cg_contract(const struct cg_kernel *k, const struct cg_rowprog *rp)
{
	uint64_t h = hash_plan(HASH_INIT, &k->plan);

	for (unsigned i = 0; i < k->nparam; i++) {
		const struct cg_param *q = &k->param[i];
		const int64_t x[] = {q->type.dtype, q->type.ndim,          q->type.place,
		                     q->type.cols,  (int64_t)q->mode,      q->ld,
		                     q->align,      (int64_t)q->symmetric, q->local_index,
		                     q->constant};

		h = hash_text(HASH(h, x), q->name);
	}
	for (unsigned i = 0; i < rp->nval; i++)
		h = hash_value(h, rp, rp->val[i].ir);
	return hash_text(h, rp->func->name);
}
