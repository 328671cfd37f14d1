/*
 * p2p-bulk: a row's addends come from the peers by bulk copies into a ring in shared memory, and
 * results go to the peers by bulk stores from a staging buffer (doc/protocols.md, p2p-bulk).
 *
 * Each team of threads has a ring.  A stage holds the rows of `ring_ranks` ranks, a part of a row.
 * The parts of a row follow one another, then those of the team's next row.  The first threads of
 * the team issue copies, one for each rank, beginning with the next: so ranks do not all read from
 * one first.  All is counted at compile time but for the place in the ring and its parity.
 */
#include "codegen/emit.h"

enum { MAX_STAGES = 16, GOOD_STAGES = 3 };

struct cg_bulk {
	unsigned parts;            /* of a row */
	unsigned staging;          /* buffers of results; 0: none is staged */
	bool late;                 /* a row's last stage is filled again when the row has ended */
	struct ptx_opnd ring, bar; /* u32 shared addresses: the first stage, its mbarrier */
	struct ptx_opnd stage, full, parity; /* of the next part to be read */
	struct ptx_opnd out;                 /* u32: the staging buffer of this row */
	struct ptx_opnd source;              /* b32: an issuing thread's rank */
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

/* Bytes of the values before `end` in one rank's part of a stage, or of the results in the staging
 * buffer; what fits nowhere is cut, so that sums of some do not overflow. */
static uint32_t bytes_before(const struct cg_rowprog *rp, const struct cg_value *end, bool results)
{
	const uint64_t most = UINT32_MAX / 64;
	uint64_t n = 0;

	for (const struct cg_value *v = rp->val; v < end; v++)
		if (results ? staged(rp, v) : ringed(v))
			n += row_bytes(rp, v->ir);
	return (uint32_t)(n < most ? n : most);
}

static uint32_t ring_row(const struct cg_rowprog *rp)
{
	return bytes_before(rp, rp->val + rp->nval, false);
}

static uint32_t staging_row(const struct cg_rowprog *rp)
{
	return bytes_before(rp, rp->val + rp->nval, true);
}

/* Bytes that precede the value in such a row. */
static uint32_t offset_in(const struct cg_rowprog *rp, const struct cg_value *v)
{
	return bytes_before(rp, v, v->ir->op != IR_OP_LOAD_SUM);
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

/* Bytes of dynamic shared memory for a team. */
static uint32_t room(const struct cg_plan *p)
{
	return (p->target->smem_per_cta - p->smem - 128 - 8 * MAX_STAGES * p->teams) / p->teams /
	       128 * 128;
}

bool cg_bulk_fits(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	return staging_row(rp) + GOOD_STAGES * ring_row(rp) <= room(p);
}

/*
 * Static shared memory fills whole lines of 128 bytes: nvJitLink, which links what it assembled,
 * begins dynamic memory right behind it, whatever alignment is declared, and bulk copies to places
 * that are not so aligned take a sixth longer.
 */
static void align_ring(struct cg_plan *p)
{
	unsigned at = (p->smem + 7) / 8 * 8, used = p->teams * p->ring_stages * 8;

	p->smem = (at + used + 127) / 128 * 128;
	p->ring_bars = (p->smem - at) / 8;
}

/* Ranks of a stage: as many as leave room for enough stages; a second staging buffer where there is
 * room beside. */
bool cg_bulk_plan(struct cg_plan *p, const struct cg_rowprog *rp, struct diags *d)
{
	uint32_t row = ring_row(rp), out = staging_row(rp), most = room(p), left;
	unsigned n = p->tp;

	p->ring_stages = p->ring_ranks = 0;
	if (out > most || (row && row > most - out)) {
		diag_at(d, DIAG_ERROR, DIAG_CG_WIDE, rp->func->at,
		        "protocol 'p2p-bulk' cannot do '%s': %u bytes of a row and %u of results "
		        "do "
		        "not fit into the %u bytes of shared memory of %s",
		        rp->func->name, row, out, most, p->target->name);
		diag_note(d, (struct span){0, 0}, "use --protocol p2p-twoshot");
		return false;
	}
	left = most - out;
	if (row) {
		while (n > 1 && n * row * GOOD_STAGES > left)
			n = (n + 1) / 2;
		p->ring_ranks = n;
		p->ring_stages = left / (n * row);
		if (p->ring_stages > MAX_STAGES)
			p->ring_stages = MAX_STAGES;
		left -= p->ring_stages * n * row;
		if (left < out && p->ring_stages > GOOD_STAGES) {
			p->ring_stages--;
			left += n * row;
		}
	}
	p->ring_out = left >= out ? 2 * out : out;
	p->dynamic = p->teams * (p->ring_out + p->ring_stages * p->ring_ranks * row);
	align_ring(p);
	return true;
}

/* ---- the ring ---- */

static uint32_t stage_bytes(const struct cg_emit *e)
{
	return e->p->ring_ranks * ring_row(e->rp);
}

static unsigned ranks_of(const struct cg_emit *e, unsigned part)
{
	unsigned left = e->p->tp - part * e->p->ring_ranks;

	return left < e->p->ring_ranks ? left : e->p->ring_ranks;
}

/* Skips what the issuing threads do. */
static struct ptx_opnd not_issuers(struct cg_emit *e, const char *hint)
{
	struct ptx_opnd skip = ptx_label_new(e->f, hint),
	                others = ptx_setp(e->f, PTX_GE, PTX_T_u32, e->tid, ptx_imm(e->p->tp));

	ptx_guard(e->f, others, false);
	ptx_bra(e->f, skip);
	ptx_unguard(e->f);
	return skip;
}

/* The address of a row on the issuing thread's rank. */
static struct ptx_opnd row_there(struct cg_emit *e, struct ptx_opnd row, unsigned param)
{
	struct ptx_opnd off = cg_row_start(e, row, param);

	return ptx_add(e->f, PTX_T_s64, off,
	               cg_arg_peer_of(e, CG_ARG_PEERS, param, e->bulk->source));
}

/* The issuing threads: the copies of one part of a row into a stage. */
static void issue(struct cg_emit *e, struct ptx_opnd row, unsigned part, struct ptx_opnd stage,
                  struct ptx_opnd full)
{
	struct ptx_fn *f = e->f;
	const unsigned n = ranks_of(e, part), first = part * e->p->ring_ranks;
	struct ptx_opnd skip = ptx_label_new(f, "no_row"), bytes, place, mine = {0};

	ptx_guard(f, ptx_setp(f, PTX_GE, PTX_T_u32, row, e->end), false);
	ptx_bra(f, skip);
	ptx_unguard(f);
	bytes = ptx_mov(f, PTX_T_u32, ptx_imm((int64_t)n * ring_row(e->rp)));
	ptx_guard(f, e->tid0, false);
	ptx_mbar_arrive_tx(f, shared, PTX_T_none, ptx_at(full, 0), bytes);
	ptx_unguard(f);
	place = e->bulk->source;
	if (n < e->p->tp) {
		place = ptx_sub(f, PTX_T_u32, place, ptx_imm(first));
		mine = ptx_setp(f, PTX_LT, PTX_T_u32, place, ptx_imm(n));
	}
	place = ptx_mad(f, PTX_T_u32, place, ptx_imm(ring_row(e->rp)), stage);
	for (unsigned i = 0; i < e->rp->nval; i++) {
		const struct cg_value *v = &e->rp->val[i];
		struct ptx_opnd from;

		if (!ringed(v))
			continue;
		cg_at(e, v);
		from = row_there(e, row, v->ir->param);
		bytes = ptx_mov(f, PTX_T_u32, ptx_imm((int64_t)row_bytes(e->rp, v->ir)));
		if (mine.kind)
			ptx_guard(f, mine, false);
		ptx_bulk_ld(f, ptx_at(place, offset_in(e->rp, v)), ptx_at(from, 0), bytes,
		            ptx_at(full, 0));
		ptx_unguard(f);
	}
	ptx_loc(f, 0, 0);
	ptx_place(f, skip);
}

/* mbarriers, and the copies of the first parts.  The proxy fence is behind the entry's acquire, by
 * each thread that issues. */
static void fill(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	struct cg_bulk *b = e->bulk;
	struct ptx_opnd skip = not_issuers(e, "filled"), row = cg_first_row(e),
	                one = ptx_mov(f, PTX_T_u32, ptx_imm(1));

	ptx_guard(f, e->tid0, false);
	for (unsigned s = 0; s < e->p->ring_stages; s++)
		ptx_mbar_init(f, shared, PTX_T_none, ptx_at(b->bar, 8 * (int64_t)s), one);
	if (e->p->ring_stages)
		ptx_fence_mbar_init(f);
	ptx_unguard(f);
	ptx_bar_warp(f, ptx_imm((INT64_C(1) << e->p->tp) - 1));
	ptx_fence_async(f);
	for (unsigned s = 0; s < e->p->ring_stages; s++) {
		struct ptx_opnd full, stage;

		if (s && s % b->parts == 0)
			row = ptx_add(f, PTX_T_u32, row, e->step);
		full = ptx_add(f, PTX_T_u32, b->bar, ptx_imm(8 * (int64_t)s));
		stage = ptx_add(f, PTX_T_u32, b->ring, ptx_imm((int64_t)s * stage_bytes(e)));
		issue(e, row, s % b->parts, stage, full);
	}
	ptx_place(f, skip);
	ptx_bar_sync(f, ptx_imm(0));
}

/* A barrier stands in a row before all stores to the staging buffer. */
static bool meets_before_results(const struct cg_rowprog *rp)
{
	unsigned level = 0;

	while (level < rp->nlevel && !rp->level[level].nrow)
		level++;
	for (unsigned i = 0; i < rp->nval; i++)
		if (staged(rp, &rp->val[i]) && rp->val[i].level <= level)
			return false;
	return true;
}

/* The team's own part of something that each has. */
static struct ptx_opnd own_part(struct cg_emit *e, struct ptx_opnd base, int64_t bytes)
{
	if (e->p->teams == 1)
		return ptx_mov(e->f, PTX_T_u32, base);
	base = ptx_mov(e->f, PTX_T_u32, base);
	return ptx_mad(e->f, PTX_T_u32, e->team, ptx_imm(bytes), base);
}

static void set_source(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd next = ptx_add(f, PTX_T_u32, e->rank, ptx_imm(1)), less, over;

	next = ptx_add(f, PTX_T_u32, next, e->tid);
	less = ptx_add(f, PTX_T_u32, next, ptx_imm(-(int64_t)e->p->tp));
	over = ptx_setp(f, PTX_GE, PTX_T_u32, next, ptx_imm(e->p->tp));
	e->bulk->source = ptx_selp(f, PTX_T_b32, less, next, over);
}

bool cg_bulk_entry(struct cg_emit *e, struct ptx_opnd leave)
{
	struct ptx_fn *f = e->f;
	struct cg_bulk *b = e->bulk = arena_new(e->a, struct cg_bulk);
	const struct cg_plan *p = e->p;
	struct ptx_opnd ring;

	if (!cg_barrier_entry(e, leave))
		return false;
	b->staging = p->ring_out ? p->ring_out / staging_row(e->rp) : 0;
	b->late = b->staging && meets_before_results(e->rp);
	if (p->dynamic) {
		ring = ptx_var_add(f, PTX_SHARED, PTX_T_b8, 128, 0, "ring");
		b->ring = own_part(e, ring, p->dynamic / p->teams);
	}
	if (p->ring_stages) {
		b->parts = (p->tp + p->ring_ranks - 1) / p->ring_ranks;
		ring = ptx_var_add(f, PTX_SHARED, PTX_T_b64, 8, p->ring_bars, "full");
		b->bar = own_part(e, ring, 8 * (int64_t)p->ring_stages);
		b->stage = ptx_mov(f, PTX_T_u32, b->ring);
		b->full = ptx_mov(f, PTX_T_u32, b->bar);
		b->parity = ptx_mov(f, PTX_T_u32, ptx_imm(0));
	}
	if (b->staging)
		b->out = ptx_add(f, PTX_T_u32, b->ring,
		                 ptx_imm((int64_t)p->ring_stages * stage_bytes(e)));
	set_source(e);
	fill(e);
	return true;
}

/* Until all copies of the part have come. */
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

/* Adds a part's ranks, in their order, to the sums. */
static void add_part(struct cg_emit *e, unsigned part, struct ptx_opnd **acc)
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
		for (unsigned k = 0; k < ranks_of(e, part); k++) {
			reg = arena_news(e->a, struct ptx_opnd, e->p->vecs * sh.regs);
			cg_addend_regs(e, v, 1, reg);
			load_addend(e, v,
			            ptx_at(at, (int64_t)k * ring_row(e->rp) + offset_in(e->rp, v)),
			            reg);
			cg_sum_add(e, v, reg, 1, acc[i], !part && !k);
		}
	}
}

/* The staging buffer has been read: by then, of the groups of copies all but those of the other
 * one. */
static void wait_staging(struct cg_emit *e)
{
	struct ptx_opnd skip;

	if (!e->bulk->staging)
		return;
	skip = not_issuers(e, "read");
	ptx_bulk_wait_read(e->f, ptx_imm(e->bulk->staging - 1));
	ptx_place(e->f, skip);
}

/* The stage that has been read is filled again, for the issuing threads. */
static void refill(struct cg_emit *e, unsigned part)
{
	struct cg_bulk *b = e->bulk;
	unsigned next = part + e->p->ring_stages;
	struct ptx_opnd row =
	        ptx_mad(e->f, PTX_T_u32, e->step, ptx_imm(next / b->parts), e->row.index);

	issue(e, row, next % b->parts, b->stage, b->full);
}

/*
 * The row's sums.  A barrier of the team behind each part is what lets its stage be filled again;
 * that of the last part may be the one that ends the row.  One of them, or one of the row's
 * reductions, also tells all threads that the staging buffer has been read.
 */
bool cg_bulk_consume(struct cg_emit *e, const struct cg_slot *s, struct ptx_opnd leave)
{
	struct cg_bulk *b = e->bulk;
	struct ptx_opnd **acc = arena_news(e->a, struct ptx_opnd *, e->rp->nval), skip;

	(void)s;
	(void)leave;
	for (unsigned i = 0; i < e->rp->nval; i++)
		acc[i] = arena_news(e->a, struct ptx_opnd, e->p->vecs * e->rp->val[i].n);
	if (!b->late)
		wait_staging(e);
	for (unsigned part = 0; part < b->parts; part++) {
		ptx_comment(e->f, "a stage of the ring");
		wait_full(e);
		add_part(e, part, acc);
		ptx_loc(e->f, 0, 0);
		if (b->late && part + 1 == b->parts)
			break;
		cg_row_sync(e);
		skip = not_issuers(e, "refilled");
		refill(e, part);
		ptx_place(e->f, skip);
		advance(e);
	}
	if (b->late)
		wait_staging(e);
	else if (!b->parts && b->staging)
		cg_row_sync(e);
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

/* The issuing threads: the row's staging buffer to all ranks. */
static void send(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;

	for (unsigned i = 0; i < e->rp->nval; i++) {
		const struct cg_value *v = &e->rp->val[i];
		struct ptx_opnd to, bytes;

		if (!staged(e->rp, v))
			continue;
		cg_at(e, v);
		to = row_there(e, e->row.index, v->ir->param);
		bytes = ptx_mov(f, PTX_T_u32, ptx_imm((int64_t)row_bytes(e->rp, v->ir)));
		ptx_bulk_st(f, ptx_at(to, 0), ptx_at(e->bulk->out, offset_in(e->rp, v)), bytes);
	}
	ptx_loc(f, 0, 0);
	ptx_bulk_commit(f);
}

static void other_staging(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	struct cg_bulk *b = e->bulk;
	struct ptx_opnd first, second, at_first;

	if (b->staging < 2)
		return;
	first = ptx_add(f, PTX_T_u32, b->ring,
	                ptx_imm((int64_t)e->p->ring_stages * stage_bytes(e)));
	second = ptx_add(f, PTX_T_u32, first, ptx_imm(staging_row(e->rp)));
	at_first = ptx_setp(f, PTX_EQ, PTX_T_u32, b->out, first);
	ptx_put_selp(f, PTX_T_b32, b->out, second, first, at_first);
}

/* What the row has read by plain loads is overwritten by the copies: a replicated residual. */
static bool overwrites(const struct cg_rowprog *rp)
{
	for (unsigned i = 0; i < rp->nval; i++)
		for (unsigned k = 0; k < rp->nval && staged(rp, &rp->val[i]); k++)
			if (rp->val[k].ir->op == IR_OP_LOAD &&
			    rp->val[k].ir->param == rp->val[i].ir->param)
				return true;
	return false;
}

/* Writers fence, meet, and the issuing threads send. */
bool cg_bulk_row_end(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	struct cg_bulk *b = e->bulk;
	struct ptx_opnd skip;

	if (!b->staging)
		return true;
	ptx_comment(f, "results");
	if (overwrites(e->rp))
		ptx_fence_async(f);
	else
		ptx_fence_async_shared(f);
	cg_row_sync(e);
	skip = not_issuers(e, "sent");
	send(e);
	if (b->late && b->parts)
		refill(e, b->parts - 1);
	ptx_place(f, skip);
	if (b->late && b->parts)
		advance(e);
	other_staging(e);
	return true;
}

/* Not .read: the results have to be written before the others are told. */
bool cg_bulk_exit(struct cg_emit *e)
{
	if (e->p->ring_out) {
		struct ptx_opnd skip = not_issuers(e, "written");

		ptx_bulk_wait(e->f, ptx_imm(0));
		ptx_place(e->f, skip);
	}
	return cg_barrier_exit(e);
}
