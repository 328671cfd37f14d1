/*
 * Loads and stores of vectors: the widest accesses that the parameter's alignment allows, up to 16
 * bytes.
 */
#include "codegen/emit.h"

struct shape {                /* how one vector of a value lies in memory */
	unsigned dtype, size; /* of an element */
	unsigned n;           /* elements */
	unsigned regs;        /* registers that hold them: words, f32s, or one b16 */
	unsigned piece;       /* registers of one access: 1, 2 or 4 */
	uint64_t step;        /* bytes from one vector of a thread to its next */
};

static struct shape shape_of(const struct cg_emit *e, const struct cg_value *v, unsigned param)
{
	const struct ir_param *q = &e->rp->func->param[param];
	struct shape s = {.dtype = q->type.dtype, .size = cg_dtype_bytes(q->type.dtype), .n = v->n};
	unsigned align = cg_param_align(q), bytes = s.n * s.size;

	s.regs = bytes < 4 ? 1 : bytes / 4;
	s.piece = 1;
	while (s.piece < 4 && s.piece * 2 <= s.regs && s.piece * 8 <= align)
		s.piece *= 2;
	s.step = (uint64_t)e->p->threads * e->p->elems / v->ratio * s.size;
	return s;
}

/* Registers as memory sees them. */
static enum ptx_type reg_type(const struct shape *s)
{
	return s->size == 4 ? PTX_T_f32 : s->n == 1 ? PTX_T_b16 : PTX_T_b32;
}

bool cg_partial(const struct cg_emit *e, unsigned vec)
{
	return e->live.kind != PTX_NONE && vec + 1 == e->p->vecs;
}

/* Group values are the same on all lanes of the group: its first lane counts. */
static struct ptx_opnd group_leader(struct cg_emit *e, unsigned ratio)
{
	unsigned lanes = ratio / e->p->elems;
	struct ptx_opnd in = ptx_and(e->f, PTX_T_b32, e->lane, ptx_imm(lanes - 1));

	return ptx_setp(e->f, PTX_EQ, PTX_T_u32, in, ptx_imm(0));
}

void cg_guard_vec(struct cg_emit *e, unsigned ratio, unsigned vec)
{
	struct ptx_opnd guard = {0};

	if (ratio > e->p->elems)
		guard = group_leader(e, ratio);
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

		l.lanes = ratio > elems ? ratio / elems : 1;
		l.step = ratio > elems ? size : elems / ratio * size;
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

static struct ptx_opnd row_address(struct cg_emit *e, struct cg_row *r, unsigned param, bool all)
{
	return ptx_add(e->f, PTX_T_s64, row_offset(e, r, layout_of(e, param)),
	               all ? e->mc[param] : e->uc[param]);
}

static struct ptx_opnd some(const struct ptx_opnd *reg, unsigned n)
{
	return n == 1 ? reg[0] : ptx_vec_of(reg, n);
}

static uint8_t vec_mod(unsigned n)
{
	return n == 1 ? 0 : (uint8_t)n;
}

static void load_piece(struct cg_emit *e, const struct shape *s, bool sum, bool nc,
                       struct ptx_opnd addr, struct ptx_opnd to)
{
	uint8_t vec = vec_mod(s->piece);

	if (!sum)
		ptx_put_ld(e->f, ptx_MODS(.space = PTX_GLOBAL, .nc = nc, .vec = vec), reg_type(s),
		           to, addr);
	else
		ptx_put_mm_ld(e->f,
		              ptx_MODS(.order = PTX_RELAXED, .scope = PTX_SYS, .space = PTX_GLOBAL,
		                       .red = PTX_ADD, .acc = s->size == 2, .vec = vec),
		              s->size == 4          ? PTX_T_f32
		              : s->dtype == IR_BF16 ? PTX_T_bf16x2
		                                    : PTX_T_f16x2,
		              to, addr);
}

static void load_vec(struct cg_emit *e, const struct shape *s, bool sum, bool nc,
                     struct ptx_opnd addr, unsigned vec, const struct ptx_opnd *reg)
{
	for (unsigned i = 0; i < s->regs; i += s->piece)
		load_piece(e, s, sum, nc, ptx_at(addr, (int64_t)(vec * s->step + i * 4)),
		           some(&reg[i], s->piece));
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

void cg_slot_init(struct cg_emit *e, struct cg_slot *s)
{
	const struct cg_rowprog *rp = e->rp;

	s->f = arena_news(e->a, struct ptx_opnd *, rp->nval);
	s->w = arena_news(e->a, struct ptx_opnd *, rp->nval);
	for (unsigned i = 0; i < rp->nval; i++) {
		struct cg_value *v = &rp->val[i];
		unsigned vecs = v->home == CG_HOME_ROW ? 1 : e->p->vecs;
		struct ptx_opnd *reg;
		struct shape sh;

		if (!cg_is_load(v->ir) || !v->used)
			continue;
		sh = shape_of(e, v, v->ir->param);
		s->f[i] = arena_news(e->a, struct ptx_opnd, e->p->vecs * v->n);
		s->w[i] = arena_news(e->a, struct ptx_opnd, e->p->vecs * v->n);
		reg = value_regs(s, v, rp);
		for (unsigned k = 0; k < vecs * sh.regs; k++) {
			reg[k] = ptx_reg(e->f, class_of(reg_type(&sh)));
			if (v->home == CG_HOME_ELEM && cg_partial(e, k / sh.regs))
				ptx_put_mov(e->f, reg_type(&sh), reg[k],
				            reg_type(&sh) == PTX_T_f32 ? ptx_f32(0.0f)
				                                       : ptx_imm(0));
		}
	}
}

void cg_prefetch(struct cg_emit *e, const struct cg_slot *s, const struct cg_value *v,
                 struct cg_row *r, struct ptx_opnd valid)
{
	bool sum = v->ir->op == IR_OP_LOAD_SUM;
	struct shape sh = shape_of(e, v, v->ir->param);
	struct ptx_opnd addr = row_address(e, r, v->ir->param, sum);
	struct ptx_opnd *reg = value_regs(s, v, e->rp), guard = valid;

	for (unsigned vec = 0; vec < (v->home == CG_HOME_ROW ? 1 : e->p->vecs); vec++) {
		if (v->home == CG_HOME_ELEM && cg_partial(e, vec))
			guard = ptx_and(e->f, PTX_T_pred, valid, e->live);
		ptx_guard(e->f, guard, false);
		load_vec(e, &sh, sum, false, addr, vec, &reg[vec * sh.regs]);
		ptx_unguard(e->f);
	}
}

/*
 * Weights do not change while the kernel runs.  By .nc, and ptxas takes the loads out of the loop,
 * whether registers are left or not; plain loads stay after the stores before them.
 */
void cg_load_weight(struct cg_emit *e, struct cg_value *v, unsigned vec)
{
	struct shape sh = shape_of(e, v, v->ir->param);
	struct ptx_opnd *reg = v->half ? &v->w[vec * (v->n > 1 ? v->n / 2 : 1)] : &v->f[vec * v->n];
	struct cg_layout l = layout_of(e, v->ir->param);
	struct ptx_opnd addr;

	cg_at(e, v);
	addr = ptx_add(e->f, PTX_T_s64, thread_offset(e, l.step, l.lanes), e->uc[v->ir->param]);
	for (unsigned k = 0; k < sh.regs; k++) {
		reg[k] = ptx_reg(e->f, class_of(reg_type(&sh)));
		if (cg_partial(e, vec))
			ptx_put_mov(e->f, reg_type(&sh), reg[k],
			            reg_type(&sh) == PTX_T_f32 ? ptx_f32(0.0f) : ptx_imm(0));
	}
	cg_guard_vec(e, 1, vec);
	load_vec(e, &sh, false, e->p->keep_weights, addr, vec, reg);
	ptx_unguard(e->f);
}

void cg_load_uniform(struct cg_emit *e, struct cg_value *v)
{
	struct shape sh = shape_of(e, v, v->ir->param);
	struct ptx_opnd reg = ptx_reg(e->f, class_of(reg_type(&sh)));

	cg_at(e, v);
	load_vec(e, &sh, false, true, e->uc[v->ir->param], 0, &reg);
	v->f[0] = sh.size == 4 ? reg : cg_widen(e, sh.dtype, reg, false);
}

static void store_piece(struct cg_emit *e, const struct shape *s, bool all, struct ptx_opnd addr,
                        struct ptx_opnd from)
{
	uint8_t vec = vec_mod(s->piece);

	/* 16-bit pairs go as .f32, so that each 32-bit word arrives whole (facts: what a polling
	 * reader relies on). */
	if (!all)
		ptx_st(e->f, ptx_MODS(.space = PTX_GLOBAL, .vec = vec), reg_type(s), addr, from);
	else
		ptx_mm_st(e->f,
		          ptx_MODS(.order = PTX_RELAXED, .scope = PTX_SYS, .space = PTX_GLOBAL,
		                   .vec = vec),
		          PTX_T_f32, addr, from);
}

/* The registers to store: `regs` words, f32s, or one b16, of the source's vector. */
static void gather_regs(struct cg_emit *e, const struct shape *s, struct cg_value *src,
                        unsigned vec, struct ptx_opnd *reg)
{
	for (unsigned i = 0; i < s->regs; i++) {
		if (s->size == 4) {
			unsigned ratio = src->ratio;

			reg[i] = cg_get(e, src, vec, i * ratio);
			if (reg[i].kind == PTX_IMM)
				reg[i] = ptx_mov(e->f, PTX_T_f32, reg[i]);
		} else if (s->n > 1) {
			reg[i] = cg_get_pair(e, src, s->dtype, vec, i);
		} else {
			struct ptx_opnd x = cg_get(e, src, vec, 0), half[2];

			if (x.kind == PTX_IMM)
				x = ptx_mov(e->f, PTX_T_f32, x);
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

void cg_store_vec(struct cg_emit *e, struct cg_value *v, unsigned vec)
{
	struct cg_value *src = cg_value_of(v->ir->src[0]), as = store_as(e, v);
	bool all = v->ir->op == IR_OP_STORE_ALL;
	struct shape sh = shape_of(e, &as, v->ir->param);
	struct ptx_opnd reg[8], addr;

	cg_at(e, v);
	gather_regs(e, &sh, src, vec, reg);
	addr = row_address(e, &e->row, v->ir->param, all);
	cg_guard_vec(e, as.ratio, vec);
	for (unsigned i = 0; i < sh.regs; i += sh.piece)
		store_piece(e, &sh, all, ptx_at(addr, (int64_t)(vec * sh.step + i * 4)),
		            some(&reg[i], sh.piece));
	ptx_unguard(e->f);
}

/* One element a row: thread 0. */
void cg_store_row(struct cg_emit *e, struct cg_value *v)
{
	struct cg_value *src = cg_value_of(v->ir->src[0]), as = {.ratio = 1, .n = 1};
	bool all = v->ir->op == IR_OP_STORE_ALL;
	struct shape sh = shape_of(e, &as, v->ir->param);
	struct ptx_opnd reg, addr;

	cg_at(e, v);
	gather_regs(e, &sh, src, 0, &reg);
	addr = row_address(e, &e->row, v->ir->param, all);
	ptx_guard(e->f, e->tid0, false);
	store_piece(e, &sh, all, ptx_at(addr, 0), reg);
	ptx_unguard(e->f);
}
