/*
 * Loads and stores of vectors: the widest accesses that the parameter's alignment allows, up to 16
 * bytes.
 */
#include "codegen/emit.h"

struct cg_shape cg_shape_of(const struct cg_emit *e, const struct cg_value *v, unsigned param)
{
	const struct ir_param *q = &e->rp->func->param[param];
	struct cg_shape s = {
	        .dtype = q->type.dtype, .size = cg_dtype_bytes(q->type.dtype), .n = v->n};
	unsigned align = cg_param_align(q), bytes = s.n * s.size;

	s.regs = bytes < 4 ? 1 : bytes / 4;
	s.piece = 1;
	while (s.piece < 4 && s.piece * 2 <= s.regs && s.piece * 8 <= align)
		s.piece *= 2;
	s.step = (uint64_t)e->p->row_threads * e->p->elems / v->ratio * s.size;
	s.lanes = cg_lanes(e->p->elems, v->ratio);
	if (cg_in_warp(s.lanes))
		s.lanes = 0;
	return s;
}

enum ptx_type cg_shape_type(const struct cg_shape *s)
{
	return s->size == 4 ? PTX_T_f32 : s->n == 1 ? PTX_T_b16 : PTX_T_b32;
}

bool cg_partial(const struct cg_emit *e, unsigned vec)
{
	return e->live.kind != PTX_NONE && vec + 1 == e->p->vecs;
}

struct ptx_opnd cg_vector(struct cg_emit *e, unsigned vec)
{
	return vec ? ptx_add(e->f, PTX_T_u32, e->tid, ptx_imm((int64_t)vec * e->p->row_threads))
	           : e->tid;
}

struct ptx_opnd cg_vector_at(struct cg_emit *e, const struct cg_shape *s, struct ptx_opnd addr,
                             unsigned vec)
{
	struct ptx_opnd group;

	if (!s->lanes)
		return ptx_at(addr, (int64_t)(vec * s->step));
	group = ptx_div(e->f, PTX_T_u32, cg_vector(e, vec), ptx_imm(s->lanes));
	return ptx_at(ptx_mad_wide(e->f, PTX_T_u32, group, ptx_imm(s->size), addr), 0);
}

/* Group values are the same on all lanes of the group: its first lane counts. */
static struct ptx_opnd group_leader(struct cg_emit *e, unsigned ratio, unsigned vec)
{
	unsigned lanes = ratio / e->p->elems;
	struct ptx_opnd in = cg_in_warp(lanes)
	                             ? ptx_and(e->f, PTX_T_b32, e->lane, ptx_imm(lanes - 1))
	                             : ptx_rem(e->f, PTX_T_u32, cg_vector(e, vec), ptx_imm(lanes));

	return ptx_setp(e->f, PTX_EQ, PTX_T_u32, in, ptx_imm(0));
}

void cg_guard_vec(struct cg_emit *e, unsigned ratio, unsigned vec)
{
	struct ptx_opnd guard = {0};

	if (ratio > e->p->elems)
		guard = group_leader(e, ratio, vec);
	if (cg_partial(e, vec))
		guard = guard.kind ? ptx_and(e->f, PTX_T_pred, guard, e->live) : e->live;
	if (guard.kind)
		ptx_guard(e->f, guard, false);
}

void cg_row_set(struct cg_row *r, struct ptx_opnd index)
{
	r->index = index;
	r->n = 0;
}

static struct ptx_opnd thread_offset(struct cg_emit *e, uint64_t step, unsigned lanes)
{
	struct cg_thread_offset *t = e->thread;

	for (; t < e->thread + e->nthread; t++)
		if (t->step == step && t->lanes == lanes)
			return t->at;
	return ptx_imm(0);
}

static struct cg_layout layout_of(const struct cg_emit *e, unsigned param)
{
	const struct ir_param *q = &e->rp->func->param[param];
	unsigned size = cg_dtype_bytes(q->type.dtype), elems = e->p->elems;
	struct cg_layout l = {.lanes = 1};

	if (q->type.ndim == 2) {
		l.stride = (uint64_t)cg_param_ld(q) * size;
		l.local = e->p->own_rows && q->type.place == IR_SHARDED;
	}
	if (q->type.ndim > 0 && q->type.cols > 1) {
		unsigned ratio = (unsigned)(e->rp->cols / q->type.cols);

		l.lanes = cg_lanes(elems, ratio);
		l.step = ratio > elems ? size : elems / ratio * size;
		if (!cg_in_warp(l.lanes)) { /* see cg_vector_at */
			l.lanes = 1;
			l.step = 0;
		}
	}
	return l;
}

void cg_thread_offsets(struct cg_emit *e)
{
	const struct ir_func *func = e->rp->func;

	e->thread = arena_news(e->a, struct cg_thread_offset, func->nparam);
	for (unsigned i = 0; i < func->nparam; i++) {
		struct cg_layout l = layout_of(e, i);
		struct cg_thread_offset *t = &e->thread[e->nthread];
		struct ptx_opnd tid = e->tid;

		if (!l.step || thread_offset(e, l.step, l.lanes).kind == PTX_REG)
			continue;
		if (l.lanes > 1)
			tid = ptx_div(e->f, PTX_T_u32, tid, ptx_imm(l.lanes));
		*t = (struct cg_thread_offset){
		        l.step, l.lanes,
		        ptx_mul_wide(e->f, PTX_T_u32, tid, ptx_imm((int64_t)l.step))};
		e->nthread++;
	}
}

/*
 * Bytes from the parameter's base to the thread's part of the row: one multiplication for all
 * parameters of a layout. The base is added last: it comes from the parameter block and needs no
 * register of its own.
 */
static struct ptx_opnd row_offset(struct cg_emit *e, struct cg_row *r, struct cg_layout l)
{
	struct ptx_opnd index = r->index, off;

	for (unsigned i = 0; i < r->n; i++)
		if (r->layout[i].stride == l.stride && r->layout[i].step == l.step &&
		    r->layout[i].lanes == l.lanes && r->layout[i].local == l.local)
			return r->offset[i];
	if (l.local)
		index = ptx_sub(e->f, PTX_T_u32, index, e->begin);
	if (l.step)
		off = ptx_mad_wide(e->f, PTX_T_u32, index, ptx_imm((int64_t)l.stride),
		                   thread_offset(e, l.step, l.lanes));
	else
		off = ptx_mul_wide(e->f, PTX_T_u32, index, ptx_imm((int64_t)l.stride));
	if (r->n < CG_MAX_ROW_OFFSETS) {
		r->layout[r->n] = l;
		r->offset[r->n++] = off;
	}
	return off;
}

struct ptx_opnd cg_row_offset(struct cg_emit *e, struct cg_row *r, unsigned param)
{
	return row_offset(e, r, layout_of(e, param));
}

struct ptx_opnd cg_row_start(struct cg_emit *e, struct ptx_opnd row, unsigned param)
{
	struct cg_layout l = layout_of(e, param);

	if (l.local)
		row = ptx_sub(e->f, PTX_T_u32, row, e->begin);
	return ptx_mul_wide(e->f, PTX_T_u32, row, ptx_imm((int64_t)l.stride));
}

static struct ptx_opnd address_in(struct cg_emit *e, struct cg_row *r, unsigned param,
                                  struct ptx_opnd base)
{
	return ptx_add(e->f, PTX_T_s64, cg_row_offset(e, r, param), base);
}

/* Addresses of a row to store to, and how many: on this rank, or so that all ranks get it. */
static unsigned targets(struct cg_emit *e, unsigned param, bool all, struct ptx_opnd *addr)
{
	bool peers = all && e->ops->gathers == CG_ARG_PEERS;
	unsigned n = peers ? e->p->tp : 1;

	for (unsigned i = 0; i < n; i++)
		addr[i] = address_in(e, &e->row, param,
		                     peers ? e->peer[param][i]
		                     : all ? e->mc[param]
		                           : e->uc[param]);
	return n;
}

unsigned cg_vecs_of(const struct cg_emit *e, const struct cg_value *v)
{
	return v->home == CG_HOME_ROW ? 1 : e->p->vecs;
}

struct ptx_opnd cg_vec_of(const struct ptx_opnd *reg, unsigned n)
{
	return n == 1 ? reg[0] : ptx_vec_of(reg, n);
}

uint8_t cg_vec_mod(unsigned n)
{
	return n == 1 ? 0 : (uint8_t)n;
}

enum cg_from { PLAIN, CONSTANT, SWITCH, PEER }; /* where a load comes from */

static void load_piece(struct cg_emit *e, const struct cg_shape *s, enum cg_from from,
                       struct ptx_opnd addr, struct ptx_opnd to)
{
	const struct ptx_mod mods[] = {
	        [PLAIN] = {.space = PTX_GLOBAL},
	        [CONSTANT] = {.space = PTX_GLOBAL, .nc = true},
	        [SWITCH] = {.order = PTX_RELAXED,
	                    .scope = PTX_SYS,
	                    .space = PTX_GLOBAL,
	                    .red = PTX_ADD,
	                    .acc = s->size == 2},
	        [PEER] = {.order = PTX_RELAXED, .scope = PTX_SYS, .space = PTX_GLOBAL},
	};
	struct ptx_mod mod = mods[from];

	mod.vec = cg_vec_mod(s->piece);
	if (from != SWITCH)
		ptx_put_ld(e->f, mod, cg_shape_type(s), to, addr);
	else
		ptx_put_mm_ld(e->f, mod,
		              s->size == 4          ? PTX_T_f32
		              : s->dtype == IR_BF16 ? PTX_T_bf16x2
		                                    : PTX_T_f16x2,
		              to, addr);
}

static void load_vec(struct cg_emit *e, const struct cg_shape *s, enum cg_from from,
                     struct ptx_opnd at, const struct ptx_opnd *reg)
{
	for (unsigned i = 0; i < s->regs; i += s->piece)
		load_piece(e, s, from, ptx_at(at, i * 4), cg_vec_of(&reg[i], s->piece));
}

static struct ptx_opnd *value_regs(const struct cg_slot *s, const struct cg_value *v,
                                   const struct cg_rowprog *rp)
{
	size_t i = (size_t)(v - rp->val);

	return v->half || v->home == CG_HOME_ROW ? s->w[i] : s->f[i];
}

static enum ptx_class class_of(enum ptx_type t)
{
	return ptx_type_info[t].cls;
}

/* A register to load into; zero where the thread may never do so. */
static struct ptx_opnd load_reg(struct cg_emit *e, enum ptx_type t, bool never)
{
	struct ptx_opnd r = ptx_reg(e->f, class_of(t));

	if (never)
		ptx_put_mov(e->f, t, r, t == PTX_T_f32 ? ptx_f32(0.0f) : ptx_imm(0));
	return r;
}

void cg_addend_regs(struct cg_emit *e, const struct cg_value *v, unsigned n, struct ptx_opnd *reg)
{
	struct cg_shape sh = cg_shape_of(e, v, v->ir->param);
	enum ptx_type t = cg_shape_type(&sh);
	unsigned vecs = cg_vecs_of(e, v);

	for (unsigned k = 0; k < n * vecs * sh.regs; k++)
		reg[k] = load_reg(e, t,
		                  v->home == CG_HOME_ELEM && cg_partial(e, k / sh.regs % vecs));
}

void cg_slot_init(struct cg_emit *e, struct cg_slot *s)
{
	const struct cg_rowprog *rp = e->rp;

	s->f = arena_news(e->a, struct ptx_opnd *, rp->nval);
	s->w = arena_news(e->a, struct ptx_opnd *, rp->nval);
	s->addend = arena_news(e->a, struct ptx_opnd *, rp->nval);
	for (unsigned i = 0; i < rp->nval; i++) {
		struct cg_value *v = &rp->val[i];
		unsigned n = v->summed && !e->p->xchg_row ? e->p->sum_ranks : 1;
		struct ptx_opnd *reg;

		if (!cg_is_load(v->ir) || !v->used || (v->summed && !e->ops->ahead) ||
		    cg_wide_loads(e->p, v))
			continue;
		s->f[i] = arena_news(e->a, struct ptx_opnd, e->p->vecs * v->n);
		s->w[i] = arena_news(e->a, struct ptx_opnd, e->p->vecs * v->n);
		reg = value_regs(s, v, rp);
		if (v->summed)
			reg = s->addend[i] =
			        arena_news(e->a, struct ptx_opnd, n * e->p->vecs * v->n);
		cg_addend_regs(e, v, n, reg);
	}
}

/* All the thread's vectors of a row at one address. */
static void load_vecs(struct cg_emit *e, const struct cg_value *v, enum cg_from from,
                      struct ptx_opnd addr, struct ptx_opnd valid, const struct ptx_opnd *reg)
{
	struct cg_shape sh = cg_shape_of(e, v, v->ir->param);
	struct ptx_opnd guard = valid;

	for (unsigned vec = 0; vec < cg_vecs_of(e, v); vec++) {
		struct ptx_opnd at = cg_vector_at(e, &sh, addr, vec);

		if (v->home == CG_HOME_ELEM && cg_partial(e, vec))
			guard = valid.kind ? ptx_and(e->f, PTX_T_pred, valid, e->live) : e->live;
		if (guard.kind)
			ptx_guard(e->f, guard, false);
		load_vec(e, &sh, from, at, &reg[vec * sh.regs]);
		ptx_unguard(e->f);
	}
}

void cg_load_own(struct cg_emit *e, const struct cg_value *v, struct cg_row *r,
                 struct ptx_opnd valid, const struct ptx_opnd *reg)
{
	load_vecs(e, v, PLAIN, address_in(e, r, v->ir->param, e->uc[v->ir->param]), valid, reg);
}

void cg_load_addends(struct cg_emit *e, const struct cg_value *v, struct cg_row *r,
                     struct ptx_opnd valid, unsigned first, unsigned n,
                     const struct ptx_opnd *addend)
{
	unsigned p = v->ir->param;
	struct cg_shape sh = cg_shape_of(e, v, p);
	bool own = e->ops->sums == CG_ARG_UC; /* the only rank */

	for (unsigned i = 0; i < n; i++)
		load_vecs(e, v, own ? PLAIN : PEER,
		          address_in(e, r, p, own ? e->uc[p] : e->peer[p][first + i]), valid,
		          &addend[i * cg_vecs_of(e, v) * sh.regs]);
}

void cg_prefetch(struct cg_emit *e, const struct cg_slot *s, const struct cg_value *v,
                 struct cg_row *r, struct ptx_opnd valid)
{
	unsigned param = v->ir->param;

	if (v->summed && e->p->xchg_row) /* what is to be pushed */
		cg_load_own(e, v, r, valid, s->addend[v - e->rp->val]);
	else if (v->summed)
		cg_load_addends(e, v, r, valid, 0, e->p->sum_ranks, s->addend[v - e->rp->val]);
	else if (v->ir->op == IR_OP_LOAD_SUM)
		load_vecs(e, v, SWITCH, address_in(e, r, param, e->mc[param]), valid,
		          value_regs(s, v, e->rp));
	else
		cg_load_own(e, v, r, valid, value_regs(s, v, e->rp));
}

/* One vector at an address. */
static void load_at(struct cg_emit *e, const struct cg_value *v, enum cg_from from,
                    struct ptx_opnd addr, unsigned vec, struct ptx_opnd *reg)
{
	struct cg_shape sh = cg_shape_of(e, v, v->ir->param);
	struct ptx_opnd at = cg_vector_at(e, &sh, addr, vec);

	for (unsigned k = 0; k < sh.regs; k++)
		reg[k] = load_reg(e, cg_shape_type(&sh), cg_partial(e, vec));
	if (cg_partial(e, vec))
		ptx_guard(e->f, e->live, false);
	load_vec(e, &sh, from, at, reg);
	ptx_unguard(e->f);
}

void cg_load_vector(struct cg_emit *e, const struct cg_value *v, unsigned vec, struct ptx_opnd *reg)
{
	unsigned param = v->ir->param;
	bool sum = v->ir->op == IR_OP_LOAD_SUM;

	cg_at(e, v);
	load_at(e, v, sum ? SWITCH : PLAIN,
	        address_in(e, &e->row, param, sum ? e->mc[param] : e->uc[param]), vec, reg);
}

void cg_load_own_vector(struct cg_emit *e, const struct cg_value *v, struct cg_row *r, unsigned vec,
                        struct ptx_opnd *reg)
{
	unsigned p = v->ir->param;

	cg_at(e, v);
	load_at(e, v, PLAIN, address_in(e, r, p, e->uc[p]), vec, reg);
}

void cg_load_addend_vector(struct cg_emit *e, const struct cg_value *v, unsigned vec,
                           unsigned first, unsigned n, struct ptx_opnd *reg)
{
	unsigned p = v->ir->param, words = cg_sum_words(e->rp, v);
	bool own = e->ops->sums == CG_ARG_UC;

	for (unsigned i = 0; i < n; i++)
		load_at(e, v, own ? PLAIN : PEER,
		        address_in(e, &e->row, p, own ? e->uc[p] : e->peer[p][first + i]), vec,
		        &reg[i * words]);
}

static void load_weight(struct cg_emit *e, const struct cg_value *v, unsigned vec,
                        struct ptx_opnd *reg)
{
	struct cg_shape sh = cg_shape_of(e, v, v->ir->param);
	struct cg_layout l = layout_of(e, v->ir->param);
	struct ptx_opnd addr;

	cg_at(e, v);
	addr = e->uc[v->ir->param];
	if (l.step)
		addr = ptx_add(e->f, PTX_T_s64, thread_offset(e, l.step, l.lanes), addr);
	for (unsigned k = 0; k < sh.regs; k++)
		reg[k] = load_reg(e, cg_shape_type(&sh), cg_partial(e, vec));
	addr = cg_vector_at(e, &sh, addr, vec);
	cg_guard_vec(e, 1, vec);
	load_vec(e, &sh, PLAIN, addr, reg);
	ptx_unguard(e->f);
}

void cg_keep_weights(struct cg_emit *e)
{
	e->kept = arena_news(e->a, struct ptx_opnd *, e->rp->nval);
	for (unsigned i = 0; i < e->rp->nval && e->p->keep_weights; i++) {
		const struct cg_value *v = &e->rp->val[i];
		unsigned each;

		if (!cg_is_constant(v->ir) || v->home != CG_HOME_WEIGHT || !v->used)
			continue;
		each = cg_shape_of(e, v, v->ir->param).regs;
		e->kept[i] = arena_news(e->a, struct ptx_opnd, e->p->vecs * each);
		for (unsigned vec = 0; vec < e->p->vecs; vec++)
			load_weight(e, v, vec, &e->kept[i][vec * each]);
	}
}

void cg_load_weight(struct cg_emit *e, struct cg_value *v, unsigned vec)
{
	unsigned each = cg_shape_of(e, v, v->ir->param).regs;
	struct ptx_opnd *reg = cg_value_vec(v, vec), *kept = e->kept[v - e->rp->val];

	if (!kept)
		load_weight(e, v, vec, reg);
	for (unsigned k = 0; kept && k < each; k++)
		reg[k] = kept[vec * each + k];
}

void cg_load_uniform(struct cg_emit *e, struct cg_value *v)
{
	struct cg_shape sh = cg_shape_of(e, v, v->ir->param);
	struct ptx_opnd reg = ptx_reg(e->f, class_of(cg_shape_type(&sh)));

	cg_at(e, v);
	load_vec(e, &sh, CONSTANT, ptx_at(e->uc[v->ir->param], 0), &reg);
	v->f[0] = sh.size == 4 ? reg : cg_widen(e, sh.dtype, reg, false);
}

static void store_piece(struct cg_emit *e, const struct cg_shape *s, bool all, struct ptx_opnd addr,
                        struct ptx_opnd from)
{
	uint8_t vec = cg_vec_mod(s->piece);

	/* 16-bit pairs go as .f32, so that each 32-bit word arrives whole (doc/codegen.md, the
	 * loop: a polling reader relies on it). */
	if (!all)
		ptx_st(e->f, ptx_MODS(.space = PTX_GLOBAL, .vec = vec), cg_shape_type(s), addr,
		       from);
	else if (e->ops->gathers == CG_ARG_PEERS)
		ptx_st(e->f,
		       ptx_MODS(.order = PTX_RELAXED, .scope = PTX_SYS, .space = PTX_GLOBAL,
		                .vec = vec),
		       cg_shape_type(s), addr, from);
	else
		ptx_mm_st(e->f,
		          ptx_MODS(.order = PTX_RELAXED, .scope = PTX_SYS, .space = PTX_GLOBAL,
		                   .vec = vec),
		          PTX_T_f32, addr, from);
}

/* The registers to store: `regs` words, f32s, or one b16, of the source's vector. */
static void gather_regs(struct cg_emit *e, const struct cg_shape *s, struct cg_value *src,
                        unsigned vec, struct ptx_opnd *reg)
{
	for (unsigned i = 0; i < s->regs; i++) {
		if (s->size == 4) {
			unsigned ratio = src->ratio;

			reg[i] = cg_in_register(e, cg_get(e, src, vec, i * ratio));
		} else if (s->n > 1) {
			reg[i] = cg_get_pair(e, src, s->dtype, vec, i);
		} else {
			struct ptx_opnd x = cg_in_register(e, cg_get(e, src, vec, 0)), half[2];

			half[0] = ptx_reg(e->f, PTX_C_B16);
			half[1] = ptx_reg(e->f, PTX_C_B16);
			ptx_put_mov(
			        e->f, PTX_T_b32, ptx_vec_of(half, 2),
			        cg_narrow(e, s->dtype, ptx_mov(e->f, PTX_T_f32, ptx_f32(0.0f)), x));
			reg[i] = half[0];
		}
	}
}

/* A stored value has as many elements as its parameter; constants and row scalars are spread. */
static struct cg_value store_as(const struct cg_emit *e, const struct cg_value *v)
{
	int64_t cols = e->rp->func->param[v->ir->param].type.cols;
	struct cg_value as = {.ratio = (unsigned)(e->rp->cols / cols), .n = 1};

	if (as.ratio < e->rp->elems)
		as.n = e->rp->elems / as.ratio;
	return as;
}

/* To other ranks too. */
static bool stores_all(const struct cg_emit *e, const struct cg_value *v)
{
	return v->ir->op == IR_OP_STORE_ALL && e->ops->gathers != CG_ARG_UC;
}

/*
 * A replicated parameter in place, through the switch: what was loaded by one address is
 * overwritten by another, which only an alias fence between them orders; order hw leans on the
 * data's dependence.
 */
static void alias_in_place(struct cg_emit *e, const struct cg_value *v)
{
	if (!stores_all(e, v) || e->ops->gathers != CG_ARG_MC || e->p->order == CG_HW)
		return;
	for (unsigned i = 0; i < e->rp->nval; i++)
		if (e->rp->val[i].ir->op == IR_OP_LOAD && e->rp->val[i].ir->param == v->ir->param) {
			ptx_fence_alias(e->f);
			return;
		}
}

void cg_store_vec(struct cg_emit *e, struct cg_value *v, unsigned vec)
{
	struct cg_value *src = cg_value_of(v->ir->src[0]), as = store_as(e, v);
	bool all = stores_all(e, v);
	struct cg_shape sh = cg_shape_of(e, &as, v->ir->param);
	struct ptx_opnd reg[8], addr[CG_MAX_RANKS];
	unsigned n;

	cg_at(e, v);
	gather_regs(e, &sh, src, vec, reg);
	if (all && e->ops->stages && e->ops->stages(e, v)) {
		e->ops->stage(e, v, &sh, as.ratio, vec, reg);
		return;
	}
	alias_in_place(e, v);
	n = targets(e, v->ir->param, all, addr);
	for (unsigned k = 0; k < n; k++)
		addr[k] = cg_vector_at(e, &sh, addr[k], vec);
	cg_guard_vec(e, as.ratio, vec);
	for (unsigned k = 0; k < n; k++)
		for (unsigned i = 0; i < sh.regs; i += sh.piece)
			store_piece(e, &sh, all, ptx_at(addr[k], i * 4),
			            cg_vec_of(&reg[i], sh.piece));
	ptx_unguard(e->f);
}

/* One element a row: thread 0. */
void cg_store_row(struct cg_emit *e, struct cg_value *v)
{
	struct cg_value *src = cg_value_of(v->ir->src[0]), as = {.ratio = 1, .n = 1};
	bool all = stores_all(e, v);
	struct cg_shape sh = cg_shape_of(e, &as, v->ir->param);
	struct ptx_opnd reg, addr[CG_MAX_RANKS];
	unsigned n;

	cg_at(e, v);
	gather_regs(e, &sh, src, 0, &reg);
	alias_in_place(e, v);
	n = targets(e, v->ir->param, all, addr);
	ptx_guard(e->f, e->tid0, false);
	for (unsigned k = 0; k < n; k++)
		store_piece(e, &sh, all, ptx_at(addr[k], 0), reg);
	ptx_unguard(e->f);
}
