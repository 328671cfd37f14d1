/*
 * Reductions.  The tree is fixed by cols: a thread adds its even and its odd elements, in order;
 * then lanes at distance 16, 8, 4, 2, 1; then warps, at half the next power of two, and so on.
 * Every lane of every warp ends with the same bits.
 *
 * Warps meet in shared memory.  Two buffers are used in turn, so that one bar.sync per level
 * suffices: a warp can only write a buffer again after the next level's barrier, which all readers
 * have reached.
 */
#include "codegen/emit.h"
#include <math.h>

struct red {
	enum ptx_op op; /* combines two partial results */
	float identity;
	bool mean; /* times 1 / extent at the end */
};

static const struct red reds[IR_NOPS] = {
        [IR_OP_ROW_SUM] = {PTX_addf, 0.0f, false},   [IR_OP_ROW_MEAN] = {PTX_addf, 0.0f, true},
        [IR_OP_ROW_DOT] = {PTX_addf, 0.0f, false},   [IR_OP_ROW_MAX] = {PTX_maxf, NAN, false},
        [IR_OP_ROW_MIN] = {PTX_minf, NAN, false},    [IR_OP_GROUP_SUM] = {PTX_addf, 0.0f, false},
        [IR_OP_GROUP_MEAN] = {PTX_addf, 0.0f, true}, [IR_OP_GROUP_MAX] = {PTX_maxf, NAN, false},
        [IR_OP_GROUP_MIN] = {PTX_minf, NAN, false},
};

static unsigned pow2_ceil(unsigned n)
{
	unsigned p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static unsigned nwarps(const struct cg_emit *e)
{
	return e->p->row_threads / 32;
}

unsigned cg_reduce_buffer(unsigned n, unsigned warps)
{
	return n ? pow2_ceil(n * warps * 4) : 0;
}

void cg_reduce_setup(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	unsigned warps = nwarps(e), span = pow2_ceil(warps),
	         buffer = cg_reduce_buffer(e->rp->max_nrow, warps);
	struct ptx_opnd red, base, word;

	e->acc = arena_news(e->a, struct ptx_opnd, 2 * e->rp->nval);
	cg_group_setup(e);
	if (!buffer || warps < 2)
		return;
	/* Aligned to both buffers together, so that one bit of the address selects the buffer. */
	red = ptx_var_add(f, PTX_SHARED, PTX_T_f32, 2 * buffer, e->p->teams * buffer / 2, "red");
	base = ptx_mov(f, PTX_T_u32, red);
	if (e->p->teams > 1)
		base = ptx_mad(f, PTX_T_u32, e->team, ptx_imm(2 * buffer), base);
	word = ptx_shl(f, PTX_T_b32, ptx_shr(f, PTX_T_u32, e->tid, ptx_imm(5)), ptx_imm(2));
	e->red_out = ptx_add(f, PTX_T_u32, base, word);
	word = ptx_and(f, PTX_T_b32, e->lane, ptx_imm(span - 1));
	if (span != warps)
		e->red_has = ptx_setp(f, PTX_LT, PTX_T_u32, word, ptx_imm(warps));
	e->red_in = ptx_add(f, PTX_T_u32, base, ptx_shl(f, PTX_T_b32, word, ptx_imm(2)));
}

static bool reduces_at(const struct cg_value *v, unsigned level)
{
	return v->reduces && v->level == level && v->used;
}

static struct ptx_opnd fresh(struct cg_emit *e, float x)
{
	return ptx_mov(e->f, PTX_T_f32, ptx_f32(x));
}

struct ptx_opnd cg_red_start(struct cg_emit *e, enum ir_op op)
{
	return fresh(e, reds[op].identity);
}

void cg_reduce_begin(struct cg_emit *e, unsigned level)
{
	cg_group_begin(e, level);
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];
		const struct red *r = &reds[v->ir->op];

		if (!reduces_at(v, level))
			continue;
		cg_at(e, v);
		if (v->home == CG_HOME_ROW)
			for (unsigned k = 0; k < 2; k++)
				e->acc[2 * i + k] = fresh(e, r->identity);
		else if (!e->p->wide)
			for (unsigned k = 0; k < e->p->vecs * v->n; k++)
				v->f[k] = fresh(e, r->identity);
	}
}

void cg_reduce_begin_vec(struct cg_emit *e, unsigned level, unsigned vec)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		if (!reduces_at(v, level) || v->home == CG_HOME_ROW)
			continue;
		cg_at(e, v);
		for (unsigned k = 0; k < v->n; k++)
			v->f[vec * v->n + k] = cg_red_start(e, v->ir->op);
	}
}

static void combine(struct cg_emit *e, const struct red *r, struct ptx_opnd to, struct ptx_opnd x)
{
	const struct ptx_opnd o[3] = {to, to, x};

	ptx_emit(e->f, r->op, PTX_T_f32, NULL, o, 3);
}

void cg_red_combine(struct cg_emit *e, enum ir_op op, struct ptx_opnd to, struct ptx_opnd x)
{
	combine(e, &reds[op], to, x);
}

/* Row elements for one of the operand's: 1, or a group's size. */
static unsigned operand_ratio(const struct cg_value *v)
{
	unsigned ratio = UINT32_MAX;

	for (unsigned i = 0; i < v->ir->nsrc; i++) {
		const struct cg_value *s = cg_value_of(v->ir->src[i]);

		if ((s->home == CG_HOME_ELEM || s->home == CG_HOME_WEIGHT) && s->ratio < ratio)
			ratio = s->ratio;
	}
	return ratio;
}

/* Elements beyond the row do not count, those of a group once. */
static void accumulate(struct cg_emit *e, struct cg_value *v, struct ptx_opnd acc, unsigned vec,
                       unsigned elem)
{
	struct ptx_opnd x = cg_get(e, cg_value_of(v->ir->src[0]), vec, elem), y = {0};

	x = cg_in_register(e, x);
	if (v->ir->op == IR_OP_ROW_DOT)
		y = cg_get(e, cg_value_of(v->ir->src[1]), vec, elem);
	cg_guard_vec(e, operand_ratio(v), vec);
	if (v->ir->op == IR_OP_ROW_DOT)
		ptx_put_fma(e->f, PTX_T_f32, acc, x, y, acc);
	else
		combine(e, &reds[v->ir->op], acc, x);
	ptx_unguard(e->f);
}

void cg_reduce_pair(struct cg_emit *e, unsigned level, unsigned vec, unsigned pair)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		if (!reduces_at(v, level))
			continue;
		cg_at(e, v);
		for (unsigned k = 0; k < 2; k++) {
			unsigned elem = 2 * pair + k;

			if (elem % operand_ratio(v) != 0)
				continue;
			if (v->home == CG_HOME_ROW)
				accumulate(e, v, e->acc[2 * i + k], vec, elem);
			else
				accumulate(e, v,
				           v->f[vec * v->n + (v->n > 1 ? elem / v->ratio : 0)], vec,
				           elem);
		}
	}
}

/* All lanes within `width` (a power of two) get the combination of theirs. */
static void butterfly(struct cg_emit *e, const struct red *r, struct ptx_opnd x, unsigned width)
{
	struct ptx_fn *f = e->f;

	for (unsigned mask = width / 2; mask; mask /= 2) {
		struct ptx_opnd word = ptx_mov(f, PTX_T_b32, x);
		struct ptx_opnd other = ptx_shfl(f, ptx_MODS(.shfl = PTX_BFLY), word, ptx_imm(mask),
		                                 ptx_imm(31), ptx_imm(-1));

		combine(e, r, x, cg_bits_to_f32(e, other));
	}
}

void cg_red_lanes(struct cg_emit *e, enum ir_op op, struct ptx_opnd x, unsigned width)
{
	butterfly(e, &reds[op], x, width);
}

void cg_red_finish(struct cg_emit *e, const struct cg_value *v, struct ptx_opnd x, int64_t extent)
{
	if (reds[v->ir->op].mean)
		ptx_put_mulf(e->f, PTX_T_f32, x, x, ptx_f32((float)(1.0 / (double)extent)));
}

static void reduce_groups(struct cg_emit *e, unsigned level, unsigned vec, unsigned vecs)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];
		unsigned lanes = cg_lanes(e->p->elems, v->ratio);

		if (!reduces_at(v, level) || v->home != CG_HOME_ELEM)
			continue;
		cg_at(e, v);
		for (unsigned k = vec * v->n; k < (vec + vecs) * v->n; k++) {
			if (cg_group_shared(e->rp, v)) {
				cg_group_part(e, v, k);
				continue;
			}
			butterfly(e, &reds[v->ir->op], v->f[k], lanes);
			cg_red_finish(e, v, v->f[k], v->ir->n);
		}
	}
}

void cg_reduce_groups_vec(struct cg_emit *e, unsigned level, unsigned vec)
{
	reduce_groups(e, level, vec, 1);
}

void cg_reduce_groups(struct cg_emit *e, unsigned level)
{
	reduce_groups(e, level, 0, e->p->vecs);
	cg_group_end(e, level);
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		if (!reduces_at(v, level) || !cg_group_shared(e->rp, v))
			continue;
		for (unsigned k = 0; k < e->p->vecs; k++)
			v->f[k] = cg_group_result(e, v, k);
	}
	cg_group_done(e, level);
}

/* The warps' results through shared memory: `order` numbers the level's reductions. */
static void across_warps(struct cg_emit *e, unsigned level)
{
	struct ptx_fn *f = e->f;
	const struct ptx_mod shared = ptx_MODS(.space = PTX_SHARED);
	unsigned order = 0;

	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = order = 0; i < e->rp->nval; i++) {
			struct cg_value *v = &e->rp->val[i];
			const struct red *r = &reds[v->ir->op];
			int64_t at = 4 * (int64_t)nwarps(e) * order;

			if (!reduces_at(v, level) || v->home != CG_HOME_ROW)
				continue;
			order++;
			cg_at(e, v);
			if (pass == 0) {
				ptx_guard(f, e->lane0, false);
				ptx_st(f, shared, PTX_T_f32, ptx_at(e->red_out, at), v->f[0]);
				ptx_unguard(f);
				continue;
			}
			v->f[0] = e->red_has.kind ? fresh(e, r->identity) : ptx_reg(f, PTX_C_F32);
			if (e->red_has.kind)
				ptx_guard(f, e->red_has, false);
			ptx_put_ld(f, shared, PTX_T_f32, v->f[0], ptx_at(e->red_in, at));
			ptx_unguard(f);
			butterfly(e, r, v->f[0], pow2_ceil(nwarps(e)));
		}
		if (pass == 0)
			cg_row_sync(e);
	}
}

static void next_buffer(struct cg_emit *e)
{
	struct ptx_opnd bit = ptx_imm(cg_reduce_buffer(e->rp->max_nrow, nwarps(e)));

	ptx_put_xor(e->f, PTX_T_b32, e->red_out, e->red_out, bit);
	ptx_put_xor(e->f, PTX_T_b32, e->red_in, e->red_in, bit);
}

void cg_reduce_rows(struct cg_emit *e, unsigned level)
{
	bool any = false;

	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];
		const struct red *r = &reds[v->ir->op];

		if (!reduces_at(v, level) || v->home != CG_HOME_ROW)
			continue;
		cg_at(e, v);
		any = true;
		combine(e, r, e->acc[2 * i], e->acc[2 * i + 1]);
		v->f[0] = e->acc[2 * i];
		butterfly(e, r, v->f[0], 32);
	}
	if (any && nwarps(e) > 1) {
		across_warps(e, level);
		next_buffer(e);
	}
	for (unsigned i = 0; any && i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		if (reduces_at(v, level) && v->home == CG_HOME_ROW)
			cg_red_finish(e, v, v->f[0], v->ir->src[0]->type.cols);
	}
}
