/*
 * The software pipeline.  The loop over a CTA's rows is unrolled over the rows in flight, one slot
 * of registers each:
 *
 *	slot s:   level 0 of row i, from the slot's registers; stores that are ready
 *	          issue the loads of row i + in_flight * grid into the slot
 *	          reductions: shuffles, bar.sync
 *	          level 1, ...
 *
 * A load is issued after the last level that reads its registers, right before the barrier that
 * ends this level: the assembler does not move it across bar.sync, and sinks it to its use from any
 * other place (doc/codegen.md, the loop).
 */
#include "codegen/emit.h"
#include "codegen/wide.h"

void cg_row_sync(struct cg_emit *e)
{
	if (e->p->teams == 1)
		ptx_bar_sync(e->f, ptx_imm(0));
	else
		ptx_bar_syncn(e->f, ptx_add(e->f, PTX_T_u32, e->team, ptx_imm(1)),
		              ptx_imm(e->p->row_threads));
}

static struct ptx_opnd special(struct cg_emit *e, enum ptx_special s)
{
	return ptx_mov(e->f, PTX_T_u32, ptx_spec(s));
}

/* Rows [begin, end) of T: own ones are [min(T, rank * c), min(T, (rank + 1) * c)), c = ceil(T /
 * tp). */
static void set_domain(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd c, wide, first, last, tp = ptx_imm(e->p->tp);

	if (e->p->rows_in_memory) {
		struct ptx_opnd at = cg_arg_load(e, CG_ARG_ROWS_PTR, 0);

		e->T = ptx_ld(f, ptx_MODS(.space = PTX_GLOBAL), PTX_T_u32, ptx_at(at, 0));
	} else {
		e->T = cg_arg_load(e, CG_ARG_ROWS, 0);
	}
	e->rank = cg_arg_load(e, CG_ARG_RANK, 0);
	e->end = e->T;
	if (!e->p->own_rows)
		return;
	c = ptx_div(f, PTX_T_u32, ptx_add(f, PTX_T_u32, e->T, ptx_imm(e->p->tp - 1)), tp);
	wide = ptx_cvt(f, PTX_T_u64, PTX_T_u32, e->T);
	first = ptx_mul_wide(f, PTX_T_u32, e->rank, c);
	last = ptx_add(f, PTX_T_u64, first, ptx_cvt(f, PTX_T_u64, PTX_T_u32, c));
	first = ptx_cvt(f, PTX_T_u32, PTX_T_u64, ptx_min(f, PTX_T_u64, first, wide));
	last = ptx_cvt(f, PTX_T_u32, PTX_T_u64, ptx_min(f, PTX_T_u64, last, wide));
	e->begin = first;
	e->end = last;
}

/* A team is to its rows what a CTA of one team is: teams of all CTAs take turns, first teams first. */
static void set_team(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;

	e->tid = e->cta_tid;
	e->turn = e->cta;
	e->step = e->grid;
	if (e->p->teams == 1)
		return;
	e->team = ptx_div(f, PTX_T_u32, e->cta_tid, ptx_imm(e->p->row_threads));
	e->tid = ptx_rem(f, PTX_T_u32, e->cta_tid, ptx_imm(e->p->row_threads));
	e->turn = ptx_mad(f, PTX_T_u32, e->team, e->grid, e->cta);
	e->step = ptx_mul(f, PTX_T_u32, e->grid, ptx_imm(e->p->teams));
}

static void load_addresses(struct cg_emit *e)
{
	const struct ir_func *func = e->rp->func;

	e->uc = arena_news(e->a, struct ptx_opnd, func->nparam);
	e->mc = arena_news(e->a, struct ptx_opnd, func->nparam);
	e->peer = arena_news(e->a, struct ptx_opnd *, func->nparam);
	for (unsigned i = 0; i < func->nparam; i++) {
		e->uc[i] = cg_arg_load(e, CG_ARG_UC, i);
		e->mc[i] = cg_arg_load(e, CG_ARG_MC, i);
		e->peer[i] = arena_news(e->a, struct ptx_opnd, e->p->tp);
		for (unsigned r = 0; r < e->p->tp; r++)
			e->peer[i][r] = cg_arg_peer(e, CG_ARG_PEERS, i, r);
	}
}

static void prologue(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	unsigned whole = e->p->row_threads * (e->p->vecs - 1);

	e->cta_tid = special(e, PTX_TID_X);
	e->cta = special(e, PTX_CTAID_X);
	e->grid = special(e, PTX_NCTAID_X);
	set_team(e);
	e->lane = ptx_and(f, PTX_T_b32, e->cta_tid, ptx_imm(31));
	e->lane0 = ptx_setp(f, PTX_EQ, PTX_T_u32, e->lane, ptx_imm(0));
	e->tid0 = ptx_setp(f, PTX_EQ, PTX_T_u32, e->tid, ptx_imm(0));
	if (whole + e->p->row_threads > e->rp->nvec)
		e->live = ptx_setp(f, PTX_LT, PTX_T_u32, e->tid, ptx_imm(e->rp->nvec - whole));
	load_addresses(e);
	cg_thread_offsets(e);
	cg_keep_weights(e);
	if (e->p->pdl) /* before all that the kernel before may have written: T, epochs, rows */
		ptx_gdc_wait(f);
	set_domain(e);
	e->ahead = ptx_mul(f, PTX_T_u32, e->step, ptx_imm(e->p->in_flight));
	cg_reduce_setup(e);
	cg_wide_setup(e);
}

/* The level at whose end a load's registers are free; its end is where the load of a later row is
 * issued. */
static bool issued_at(const struct cg_emit *e, const struct cg_value *v, int level)
{
	if (!cg_is_load(v->ir) || !v->used || (v->summed && !e->ops->ahead) ||
	    cg_wide_loads(e->p, v))
		return false;
	return level < 0 || (v->home == CG_HOME_ROW || v->summed ? 0 : v->last) == (unsigned)level;
}

/* Loads whose last reader is `level`; all of them for the rows that start the pipeline. */
static void issue(struct cg_emit *e, const struct cg_slot *s, int level, struct ptx_opnd row)
{
	struct ptx_opnd valid = {0};
	struct cg_row r;

	cg_row_set(&r, row);
	for (unsigned i = 0; i < e->rp->nval; i++) {
		const struct cg_value *v = &e->rp->val[i];

		if (!issued_at(e, v, level))
			continue;
		if (!valid.kind)
			valid = ptx_setp(e->f, PTX_LT, PTX_T_u32, row, e->end);
		cg_at(e, v);
		cg_prefetch(e, s, v, &r, valid);
	}
}

static bool issues_at(const struct cg_emit *e, unsigned level)
{
	for (unsigned i = 0; i < e->rp->nval; i++)
		if (issued_at(e, &e->rp->val[i], (int)level))
			return true;
	return false;
}

struct ptx_opnd cg_first_row(struct cg_emit *e)
{
	return e->begin.kind ? ptx_add(e->f, PTX_T_u32, e->begin, e->turn) : e->turn;
}

static void fill_pipeline(struct cg_emit *e)
{
	struct ptx_opnd row = cg_first_row(e);

	for (unsigned s = 0; s < e->p->in_flight; s++) {
		ptx_comment(e->f, s ? NULL : "the first rows");
		issue(e, &e->slot[s], -1, row);
		if (s + 1 < e->p->in_flight)
			row = ptx_add(e->f, PTX_T_u32, row, e->step);
	}
}

void cg_store_vecs(struct cg_emit *e, unsigned level, unsigned vec)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		if (cg_is_store(v->ir) && v->level == level &&
		    e->rp->func->param[v->ir->param].type.cols > 1)
			cg_store_vec(e, v, vec);
	}
}

void cg_store_rows(struct cg_emit *e, unsigned level)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		if (cg_is_store(v->ir) && v->level == level &&
		    e->rp->func->param[v->ir->param].type.cols == 1)
			cg_store_row(e, v);
	}
}

/* Outputs without rows: the first CTA. */
static void store_fixed(struct cg_emit *e)
{
	struct ptx_opnd skip, others;
	bool any = false;

	for (unsigned i = 0; i < e->rp->nval; i++)
		any |= cg_is_store(e->rp->val[i].ir) && e->rp->val[i].level == CG_FIXED_LEVEL;
	if (!any)
		return;
	skip = ptx_label_new(e->f, "rows_only");
	others = ptx_setp(e->f, PTX_NE, PTX_T_u32, e->turn, ptx_imm(0));
	ptx_guard(e->f, others, false);
	ptx_bra(e->f, skip);
	ptx_unguard(e->f);
	cg_row_set(&e->row, e->turn);
	for (unsigned vec = 0; vec < e->p->vecs; vec++) {
		for (unsigned pair = 0; pair < e->p->elems / 2; pair++)
			cg_eval_pair(e, CG_FIXED_LEVEL, vec, pair);
		cg_store_vecs(e, CG_FIXED_LEVEL, vec);
	}
	cg_store_rows(e, CG_FIXED_LEVEL);
	cg_forget(e, CG_FIXED_LEVEL);
	ptx_place(e->f, skip);
}

/* The parameter's loads, by several lanes an element (2) or by all threads (3); 0: each its own. */
static unsigned shared_loads(const struct cg_emit *e, unsigned param)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		const struct cg_value *v = &e->rp->val[i];

		if (!cg_is_load(v->ir) || v->ir->param != param || !v->used)
			continue;
		return v->home == CG_HOME_ROW ? 3 : v->ratio > e->p->elems ? 2 : 0;
	}
	return 0;
}

/*
 * One thread stores an element in place that others have loaded, too: they must have, and nothing
 * but a barrier says so.  Behind a reduction over the row there was one.
 */
static void before_stores(struct cg_emit *e, unsigned level)
{
	unsigned most = 0;

	for (unsigned l = 0; l < level; l++)
		if (e->rp->level[l].nrow)
			return;
	for (unsigned i = 0; i < e->rp->nval; i++) {
		const struct cg_value *v = &e->rp->val[i];

		if (cg_is_store(v->ir) && v->level == level && shared_loads(e, v->ir->param) > most)
			most = shared_loads(e, v->ir->param);
	}
	if (most == 3)
		cg_row_sync(e);
	else if (most == 2)
		ptx_bar_warp(e->f, ptx_imm(0xffffffff));
}

static void emit_level(struct cg_emit *e, const struct cg_slot *s, unsigned level)
{
	ptx_comment(e->f, arena_printf(e->a, "level %u", level));
	cg_row_set(&e->row, e->row.index);
	cg_eval_row(e, level);
	if (e->p->wide) {
		if (issues_at(e, level))
			issue(e, s, (int)level, ptx_add(e->f, PTX_T_u32, e->row.index, e->ahead));
		cg_wide_level(e, level);
		cg_forget(e, level);
		return;
	}
	cg_reduce_begin(e, level);
	before_stores(e, level);
	for (unsigned vec = 0; vec < e->p->vecs; vec++) {
		for (unsigned pair = 0; pair < e->p->elems / 2; pair++) {
			cg_eval_pair(e, level, vec, pair);
			cg_reduce_pair(e, level, vec, pair);
		}
		cg_store_vecs(e, level, vec);
	}
	cg_store_rows(e, level);
	cg_reduce_groups(e, level);
	if (issues_at(e, level))
		issue(e, s, (int)level, ptx_add(e->f, PTX_T_u32, e->row.index, e->ahead));
	cg_reduce_rows(e, level);
	cg_forget(e, level);
}

static void use_slot(struct cg_emit *e, const struct cg_slot *s)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		if (!cg_in_slot(v) || !v->used || (e->p->wide && v->home != CG_HOME_ROW))
			continue;
		v->w = s->w[i];
		if (v->home != CG_HOME_ROW)
			v->f = s->f[i];
	}
}

/* Before level 0: what one thread will store anew, all have loaded. */
static void load_before_stores(struct cg_emit *e)
{
	bool any = false;

	if (e->p->wide)
		cg_wide_early(e);
	for (unsigned i = 0; i < e->rp->nval; i++)
		any |= cg_shared_inout(e->rp, &e->rp->val[i]);
	if (any)
		cg_row_sync(e); /* teams have rows of their own, and not equally many */
}

/* The CTA's last rows are on their way: the next kernel's CTAs may come. */
static void let_next_start(struct cg_emit *e, struct ptx_opnd row)
{
	struct ptx_opnd next;

	if (e->p->pdl != CG_PDL_EARLY)
		return;
	next = ptx_add(e->f, PTX_T_u32, row, e->ahead);
	ptx_guard(e->f, ptx_setp(e->f, PTX_GE, PTX_T_u32, next, e->end), false);
	ptx_gdc_launch(e->f);
	ptx_unguard(e->f);
}

static bool emit_loop(struct cg_emit *e, struct ptx_opnd leave)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd row = ptx_mov(f, PTX_T_u32, cg_first_row(e));
	struct ptx_opnd again = ptx_label_new(f, "rows"), done = ptx_label_new(f, "done");

	ptx_place(f, again);
	for (unsigned s = 0; s < e->p->in_flight; s++) {
		struct ptx_opnd none;

		ptx_loc(f, 0, 0);
		ptx_comment(f, arena_printf(e->a, "slot %u", s));
		none = ptx_setp(f, PTX_GE, PTX_T_u32, row, e->end);
		ptx_guard(f, none, false);
		ptx_bra(f, done);
		ptx_unguard(f);
		let_next_start(e, row);
		cg_row_set(&e->row, row);
		use_slot(e, &e->slot[s]);
		load_before_stores(e);
		if (e->ops->consume && !e->ops->consume(e, &e->slot[s], leave))
			return false;
		for (unsigned l = 0; l < e->rp->nlevel; l++)
			emit_level(e, &e->slot[s], l);
		if (e->ops->row_end && !e->ops->row_end(e))
			return false;
		ptx_put_add(f, PTX_T_u32, row, row, e->step);
	}
	ptx_bra(f, again);
	ptx_place(f, done);
	ptx_loc(f, 0, 0);
	if (e->p->pdl)
		ptx_gdc_launch(f);
	return true;
}

static void make_registers(struct cg_emit *e)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		v->f = arena_news(e->a, struct ptx_opnd, (size_t)e->p->vecs * v->n);
		v->w = arena_news(e->a, struct ptx_opnd, (size_t)e->p->vecs * v->n);
	}
	e->slot = arena_news(e->a, struct cg_slot, e->p->in_flight);
	for (unsigned s = 0; s < e->p->in_flight; s++)
		cg_slot_init(e, &e->slot[s]);
}

bool cg_emit_kernel(struct cg_emit *e)
{
	struct ptx_opnd leave = ptx_label_new(e->f, "leave");

	prologue(e);
	if (e->p->xchg_row) { /* they wait for nobody: own rows, and what they are pushed from */
		make_registers(e);
		fill_pipeline(e);
	}
	if (e->ops->entry && !e->ops->entry(e, leave))
		return false;
	if (!e->p->xchg_row)
		make_registers(e);
	cg_eval_uniform(e);
	store_fixed(e);
	if (!e->p->xchg_row)
		fill_pipeline(e);
	if (!emit_loop(e, leave) || (e->ops->exit && !e->ops->exit(e)))
		return false;
	ptx_place(e->f, leave);
	ptx_ret(e->f);
	return true;
}
