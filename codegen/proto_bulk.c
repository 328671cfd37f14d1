/*
 * p2p-bulk: a row's addends come from the peers by bulk copies into a ring in shared memory, and
 * results go to the peers by bulk stores from a staging buffer (doc/protocols.md, p2p-bulk).
 *
 * A stage of the ring holds the rows of `group` ranks.  The groups of a row follow one another, then
 * those of the CTA's next row; thread 0 issues the copies of the stage that has just been read.  All
 * of it is counted at compile time but for the place in the ring and its parity.
 */
#include "codegen/emit.h"

enum { MAX_STAGES = 16, LEAST_STAGES = 2, STAGING = 2 };

struct cg_bulk {
	unsigned groups;           /* of a row */
	struct ptx_opnd ring, bar; /* u32 shared addresses: the first stage, its mbarrier */
	struct ptx_opnd stage, full, parity; /* of the next group to be read */
	struct ptx_opnd out;                 /* u32: the staging buffer of this row */
};

static const struct ptx_mod shared = {.space = PTX_SHARED};

/* ---- the plan ---- */

static uint64_t row_bytes(const struct cg_rowprog *rp, const struct ir_value *v)
{
	const struct ir_type *t = &rp->func->param[v->param].type;

	return (uint64_t)t->cols * cg_dtype_bytes(t->dtype);
}

/* Rows of the parameter are whole, aligned pieces of 16 bytes. */
static bool movable(const struct cg_rowprog *rp, const struct ir_value *v)
{
	const struct ir_param *q = &rp->func->param[v->param];

	return q->type.ndim == 2 && row_bytes(rp, v) % 16 == 0 && cg_param_align(q) == 16 &&
	       (uint64_t)cg_param_ld(q) * cg_dtype_bytes(q->type.dtype) % 16 == 0;
}

/* The store goes by way of the staging buffer; narrow ones do not pay. */
static bool staged(const struct cg_rowprog *rp, const struct cg_value *v)
{
	return v->ir->op == IR_OP_STORE_ALL && v->level != CG_FIXED_LEVEL && movable(rp, v->ir) &&
	       rp->func->param[v->ir->param].type.cols * rp->elems >= rp->cols;
}

static bool ringed(const struct cg_value *v)
{
	return v->ir->op == IR_OP_LOAD_SUM && v->used;
}

/* Bytes of a row in one rank's part of a stage, and in the staging buffer. */
static uint32_t ring_row(const struct cg_rowprog *rp)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < rp->nval; i++)
		n += ringed(&rp->val[i]) ? row_bytes(rp, rp->val[i].ir) : 0;
	return n < UINT32_MAX / 64 ? (uint32_t)n : UINT32_MAX / 64;
}

static uint32_t staging_row(const struct cg_rowprog *rp)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < rp->nval; i++)
		n += staged(rp, &rp->val[i]) ? row_bytes(rp, rp->val[i].ir) : 0;
	return n < UINT32_MAX / 64 ? (uint32_t)n : UINT32_MAX / 64;
}

/* Bytes that precede the value in such a row. */
static uint32_t offset_in(const struct cg_rowprog *rp, const struct cg_value *v)
{
	uint64_t n = 0;

	for (const struct cg_value *u = rp->val; u < v; u++)
		if (v->ir->op == IR_OP_LOAD_SUM ? ringed(u) : staged(rp, u))
			n += row_bytes(rp, u->ir);
	return (uint32_t)n;
}

bool cg_bulk_check(const struct cg_rowprog *rp, const struct cg_plan *p, struct arena *a,
                   struct diags *d)
{
	for (unsigned i = 0; i < rp->nval; i++) {
		const struct cg_value *v = &rp->val[i];
		const struct ir_param *q = &rp->func->param[v->ir->param];

		if (!ringed(v) || movable(rp, v->ir))
			continue;
		diag_at(d, DIAG_ERROR, DIAG_CG_PROTOCOL, v->ir->at,
		        "protocol 'p2p-bulk' cannot load '%s': bulk copies move multiples of 16 "
		        "bytes, and its rows are of %llu bytes, aligned to %u",
		        q->name, (unsigned long long)row_bytes(rp, v->ir), cg_param_align(q));
		diag_note(d, (struct span){0, 0}, "use --protocol p2p-twoshot");
		return false;
	}
	(void)p;
	(void)a;
	return true;
}

/* Ranks of a stage: as many as leave room for enough stages. */
bool cg_bulk_plan(struct cg_plan *p, const struct cg_rowprog *rp, struct diags *d)
{
	uint32_t row = ring_row(rp), out = STAGING * staging_row(rp);
	uint32_t most = p->target->smem_per_cta - p->smem - 128 - 8 * MAX_STAGES;
	unsigned n = p->tp;

	p->ring_stages = p->ring_ranks = 0;
	if (out > most || (row && row > most - out)) {
		diag_at(d, DIAG_ERROR, DIAG_CG_WIDE, rp->func->at,
		        "protocol 'p2p-bulk' cannot do '%s': %u bytes of a row and %u of results "
		        "do not "
		        "fit into the %u bytes of shared memory of %s",
		        rp->func->name, row, out, most, p->target->name);
		diag_note(d, (struct span){0, 0}, "use --protocol p2p-twoshot");
		return false;
	}
	p->ring_out = out;
	if (row) {
		while (n > 1 && n * row * 3 > most - out)
			n = (n + 1) / 2;
		p->ring_ranks = n;
		p->ring_stages = (most - out) / (n * row);
		if (p->ring_stages > MAX_STAGES)
			p->ring_stages = MAX_STAGES;
	}
	p->dynamic = out + p->ring_stages * p->ring_ranks * row;
	p->smem += p->ring_stages * 8;
	return true;
}

/* ---- the ring ---- */

static uint32_t stage_bytes(const struct cg_emit *e)
{
	return e->p->ring_ranks * ring_row(e->rp);
}

static unsigned ranks_of(const struct cg_emit *e, unsigned group)
{
	unsigned left = e->p->tp - group * e->p->ring_ranks;

	return left < e->p->ring_ranks ? left : e->p->ring_ranks;
}

/* Thread 0 alone: the copies of one group of a row into a stage. */
static void issue(struct cg_emit *e, struct ptx_opnd row, unsigned group, struct ptx_opnd stage,
                  struct ptx_opnd full)
{
	struct ptx_fn *f = e->f;
	const unsigned n = ranks_of(e, group), first = group * e->p->ring_ranks;
	struct ptx_opnd skip = ptx_label_new(f, "no_row");
	struct cg_row r;

	ptx_guard(f, ptx_setp(f, PTX_GE, PTX_T_u32, row, e->end), false);
	ptx_bra(f, skip);
	ptx_unguard(f);
	ptx_mbar_arrive_tx(f, shared, PTX_T_none, ptx_at(full, 0),
	                   ptx_mov(f, PTX_T_u32, ptx_imm((int64_t)n * ring_row(e->rp))));
	cg_row_set(&r, row);
	for (unsigned i = 0; i < e->rp->nval; i++) {
		const struct cg_value *v = &e->rp->val[i];
		struct ptx_opnd off, bytes;

		if (!ringed(v))
			continue;
		cg_at(e, v);
		off = cg_row_offset(e, &r, v->ir->param); /* thread 0: the row's beginning */
		bytes = ptx_mov(f, PTX_T_u32, ptx_imm((int64_t)row_bytes(e->rp, v->ir)));
		for (unsigned k = 0; k < n; k++)
			ptx_bulk_ld(
			        f,
			        ptx_at(stage, (int64_t)k * ring_row(e->rp) + offset_in(e->rp, v)),
			        ptx_at(ptx_add(f, PTX_T_s64, off, e->peer[v->ir->param][first + k]),
			               0),
			        bytes, ptx_at(full, 0));
	}
	ptx_loc(f, 0, 0);
	ptx_place(f, skip);
}

static struct ptx_opnd not_thread0(struct cg_emit *e, const char *hint)
{
	struct ptx_opnd skip = ptx_label_new(e->f, hint);

	ptx_guard(e->f, e->tid0, true);
	ptx_bra(e->f, skip);
	ptx_unguard(e->f);
	return skip;
}

static struct ptx_opnd first_row(struct cg_emit *e)
{
	return e->begin.kind ? ptx_add(e->f, PTX_T_u32, e->begin, e->cta) : e->cta;
}

/* mbarriers, and the copies of the first groups.  The proxy fence is behind the entry's acquire, by
 * the thread that issues. */
static void fill(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	struct cg_bulk *b = e->bulk;
	struct ptx_opnd skip = not_thread0(e, "filled"), row = first_row(e),
	                one = ptx_mov(f, PTX_T_u32, ptx_imm(1));

	for (unsigned s = 0; s < e->p->ring_stages; s++)
		ptx_mbar_init(f, shared, PTX_T_none, ptx_at(b->bar, 8 * (int64_t)s), one);
	if (e->p->ring_stages)
		ptx_fence_mbar_init(f);
	ptx_fence_async(f);
	for (unsigned s = 0; s < e->p->ring_stages; s++) {
		struct ptx_opnd full, stage;

		if (s && s % b->groups == 0)
			row = ptx_add(f, PTX_T_u32, row, e->grid);
		full = ptx_add(f, PTX_T_u32, b->bar, ptx_imm(8 * (int64_t)s));
		stage = ptx_add(f, PTX_T_u32, b->ring, ptx_imm((int64_t)s * stage_bytes(e)));
		issue(e, row, s % b->groups, stage, full);
	}
	ptx_place(f, skip);
	ptx_bar_sync(f, ptx_imm(0));
}

bool cg_bulk_entry(struct cg_emit *e, struct ptx_opnd leave)
{
	struct ptx_fn *f = e->f;
	struct cg_bulk *b = e->bulk = arena_new(e->a, struct cg_bulk);
	struct ptx_opnd ring = {0};

	if (!cg_barrier_entry(e, leave))
		return false;
	if (e->p->dynamic) {
		ring = ptx_var_add(f, PTX_SHARED, PTX_T_b8, 128, 0, "ring");
		b->ring = ptx_mov(f, PTX_T_u32, ring);
	}
	if (e->p->ring_stages) {
		b->groups = (e->p->tp + e->p->ring_ranks - 1) / e->p->ring_ranks;
		b->bar = ptx_mov(
		        f, PTX_T_u32,
		        ptx_var_add(f, PTX_SHARED, PTX_T_b64, 8, e->p->ring_stages, "full"));
		b->stage = ptx_mov(f, PTX_T_u32, b->ring);
		b->full = ptx_mov(f, PTX_T_u32, b->bar);
		b->parity = ptx_mov(f, PTX_T_u32, ptx_imm(0));
	}
	if (e->p->ring_out)
		b->out = ptx_add(f, PTX_T_u32, b->ring,
		                 ptx_imm((int64_t)e->p->ring_stages * stage_bytes(e)));
	fill(e);
	return true;
}

/* Until all copies of the group have come. */
static void wait_full(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd again = ptx_label_new(f, "full"), p;

	ptx_place(f, again);
	p = ptx_mbar_try_parity(f, shared, ptx_at(e->bulk->full, 0), e->bulk->parity);
	ptx_guard(f, p, true);
	ptx_bra(f, again);
	ptx_unguard(f);
}

/* The thread's part of a value in a row of shared memory. */
static struct ptx_opnd thread_at(struct cg_emit *e, struct ptx_opnd row, const struct cg_shape *s,
                                 unsigned ratio)
{
	unsigned lanes = cg_lanes(e->p->elems, ratio);
	struct ptx_opnd tid = e->tid;

	if (s->lanes) /* see vector_in */
		return ptx_mov(e->f, PTX_T_u32, row);
	if (lanes > 1)
		tid = ptx_div(e->f, PTX_T_u32, tid, ptx_imm(lanes));
	return ptx_mad(e->f, PTX_T_u32, tid, ptx_imm((int64_t)s->n * s->size), row);
}

/* Vector `vec` of the thread, from there; `at` may be a sum. */
static struct ptx_opnd vector_in(struct cg_emit *e, struct ptx_opnd at, const struct cg_shape *s,
                                 unsigned vec)
{
	struct ptx_opnd group, first = at;

	if (!s->lanes)
		return ptx_at(at, (int64_t)(vec * s->step));
	first.kind = PTX_REG;
	group = ptx_div(e->f, PTX_T_u32, cg_vector(e, vec), ptx_imm(s->lanes));
	return ptx_at(ptx_mad(e->f, PTX_T_u32, group, ptx_imm(s->size), first), at.imm);
}

/* The addends of one rank from the stage. */
static void load_addend(struct cg_emit *e, const struct cg_value *v, struct ptx_opnd row,
                        const struct ptx_opnd *reg)
{
	struct cg_shape sh = cg_shape_of(e, v, v->ir->param);
	struct ptx_mod mod = shared;

	mod.vec = cg_vec_mod(sh.piece);
	for (unsigned vec = 0; vec < e->p->vecs; vec++) {
		struct ptx_opnd at = vector_in(e, row, &sh, vec);

		if (cg_partial(e, vec))
			ptx_guard(e->f, e->live, false);
		for (unsigned i = 0; i < sh.regs; i += sh.piece)
			ptx_put_ld(e->f, mod, cg_shape_type(&sh),
			           cg_vec_of(&reg[vec * sh.regs + i], sh.piece), ptx_at(at, i * 4));
		ptx_unguard(e->f);
	}
}

/* The next stage: the place in the ring, and the parity when it goes round. */
static void advance(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	struct cg_bulk *b = e->bulk;
	struct ptx_opnd end = ptx_add(f, PTX_T_u32, b->bar,
	                              ptx_imm(8 * (int64_t)e->p->ring_stages)),
	                round;

	ptx_put_add(f, PTX_T_u32, b->full, b->full, ptx_imm(8));
	ptx_put_add(f, PTX_T_u32, b->stage, b->stage, ptx_imm(stage_bytes(e)));
	round = ptx_setp(f, PTX_EQ, PTX_T_u32, b->full, end);
	ptx_guard(f, round, false);
	ptx_put_mov(f, PTX_T_u32, b->full, b->bar);
	ptx_put_mov(f, PTX_T_u32, b->stage, b->ring);
	ptx_put_xor(f, PTX_T_b32, b->parity, b->parity, ptx_imm(1));
	ptx_unguard(f);
}

/* Adds a group's ranks, in their order, to the sums. */
static void add_group(struct cg_emit *e, unsigned group, struct ptx_opnd **acc)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];
		struct cg_shape sh;
		struct ptx_opnd *reg, at;

		if (!ringed(v))
			continue;
		sh = cg_shape_of(e, v, v->ir->param);
		cg_at(e, v);
		at = thread_at(e, e->bulk->stage, &sh, v->ratio);
		for (unsigned k = 0; k < ranks_of(e, group); k++) {
			reg = arena_news(e->a, struct ptx_opnd, e->p->vecs * sh.regs);
			cg_addend_regs(e, v, 1, reg);
			load_addend(e, v,
			            ptx_at(at, (int64_t)k * ring_row(e->rp) + offset_in(e->rp, v)),
			            reg);
			cg_sum_add(e, v, reg, 1, acc[i], !group && !k);
		}
	}
}

/*
 * The row's sums.  The CTA's barrier behind each group is what lets its stage be filled again; the
 * first one also tells all threads that the staging buffer of two rows ago has been read.
 */
bool cg_bulk_consume(struct cg_emit *e, const struct cg_slot *s, struct ptx_opnd leave)
{
	struct ptx_fn *f = e->f;
	struct cg_bulk *b = e->bulk;
	struct ptx_opnd **acc = arena_news(e->a, struct ptx_opnd *, e->rp->nval), skip, row;

	(void)s;
	(void)leave;
	for (unsigned i = 0; i < e->rp->nval; i++)
		acc[i] = arena_news(e->a, struct ptx_opnd, e->p->vecs * e->rp->val[i].n);
	if (e->p->ring_out) {
		ptx_guard(f, e->tid0, false);
		ptx_bulk_wait_read(f, ptx_imm(STAGING - 1));
		ptx_unguard(f);
	}
	for (unsigned g = 0; g < b->groups; g++) {
		unsigned next = g + e->p->ring_stages;

		ptx_comment(f, "a stage of the ring");
		wait_full(e);
		add_group(e, g, acc);
		ptx_loc(f, 0, 0);
		ptx_bar_sync(f, ptx_imm(0));
		skip = not_thread0(e, "refilled");
		row = ptx_mad(f, PTX_T_u32, e->grid, ptx_imm(next / b->groups), e->row.index);
		issue(e, row, next % b->groups, b->stage, b->full);
		ptx_place(f, skip);
		advance(e);
	}
	if (!b->groups && e->p->ring_out)
		ptx_bar_sync(f, ptx_imm(0));
	for (unsigned i = 0; i < e->rp->nval; i++)
		if (ringed(&e->rp->val[i]))
			cg_sum_round(e, &e->rp->val[i], acc[i]);
	return true;
}

/* ---- results ---- */

bool cg_bulk_stages(const struct cg_emit *e, const struct cg_value *v)
{
	return staged(e->rp, v);
}

void cg_bulk_stage(struct cg_emit *e, const struct cg_value *v, const struct cg_shape *sh,
                   unsigned ratio, unsigned vec, const struct ptx_opnd *reg)
{
	struct ptx_mod mod = shared;
	struct ptx_opnd at = thread_at(e, e->bulk->out, sh, ratio);

	mod.vec = cg_vec_mod(sh->piece);
	cg_guard_vec(e, ratio, vec);
	for (unsigned i = 0; i < sh->regs; i += sh->piece)
		ptx_st(e->f, mod, cg_shape_type(sh),
		       ptx_at(at, (int64_t)(offset_in(e->rp, v) + vec * sh->step + i * 4)),
		       cg_vec_of(&reg[i], sh->piece));
	ptx_unguard(e->f);
}

/* Thread 0 alone: the row's staging buffer to all ranks. */
static void send(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	struct cg_row r;

	cg_row_set(&r, e->row.index);
	for (unsigned i = 0; i < e->rp->nval; i++) {
		const struct cg_value *v = &e->rp->val[i];
		struct ptx_opnd off, bytes;

		if (!staged(e->rp, v))
			continue;
		cg_at(e, v);
		off = cg_row_offset(e, &r, v->ir->param);
		bytes = ptx_mov(f, PTX_T_u32, ptx_imm((int64_t)row_bytes(e->rp, v->ir)));
		for (unsigned k = 0; k < e->p->tp; k++)
			ptx_bulk_st(f,
			            ptx_at(ptx_add(f, PTX_T_s64, off, e->peer[v->ir->param][k]), 0),
			            ptx_at(e->bulk->out, offset_in(e->rp, v)), bytes);
	}
	ptx_loc(f, 0, 0);
	ptx_bulk_commit(f);
}

/* Writers fence, meet, and one thread issues; the other staging buffer is next. */
bool cg_bulk_row_end(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	struct cg_bulk *b = e->bulk;
	struct ptx_opnd skip, first, second, at_first;
	uint32_t half = e->p->ring_out / STAGING;

	if (!e->p->ring_out)
		return true;
	ptx_comment(f, "results");
	ptx_fence_async_shared(f);
	ptx_bar_sync(f, ptx_imm(0));
	skip = not_thread0(e, "sent");
	send(e);
	ptx_place(f, skip);
	first = ptx_add(f, PTX_T_u32, b->ring,
	                ptx_imm((int64_t)e->p->ring_stages * stage_bytes(e)));
	second = ptx_add(f, PTX_T_u32, first, ptx_imm(half));
	at_first = ptx_setp(f, PTX_EQ, PTX_T_u32, b->out, first);
	ptx_put_selp(f, PTX_T_b32, b->out, second, first, at_first);
	return true;
}

/* Not .read: the results have to be written before the others are told. */
bool cg_bulk_exit(struct cg_emit *e)
{
	if (e->p->ring_out) {
		ptx_guard(e->f, e->tid0, false);
		ptx_bulk_wait(e->f, ptx_imm(0));
		ptx_unguard(e->f);
	}
	return cg_barrier_exit(e);
}
