/*
 * Reductions over groups whose lanes do not lie in one warp.  The tree follows from the row and the
 * group alone, neither from threads nor from T: the lanes of a *part*, the greatest power of two (up
 * to 32) that divides the group's vectors; then its parts, by way of shared memory: a few are added
 * in order by everybody who wants the result, many by a warp, lane by lane.
 *
 *	parts -> shared; bar.sync; [warp w: groups w, w + warps, ...; bar.sync;] results
 *
 * Two buffers are used in turn where they are small, so that one bar.sync is enough; else a bar.sync
 * comes before the parts, too.
 */
#include "codegen/emit.h"

#define FEW         8 /* parts that are read by everybody */
#define UNROLLED    4 /* parts that a lane reads without a loop */
#define TWO_BUFFERS 16384

static const struct ptx_mod shared = {.space = PTX_SHARED};

struct group {
	unsigned lanes;  /* vectors */
	unsigned part;   /* lanes of a part */
	unsigned nparts; /* of a group */
	unsigned ngroups;
	uint32_t
	        at; /* bytes that precede it in the buffer: parts, then results if there are many */
};

static struct group group_of(const struct cg_rowprog *rp, const struct cg_value *v)
{
	struct group g = {.lanes = cg_lanes(rp->elems, v->ratio)};

	g.part = g.lanes & -g.lanes;
	g.part = g.part < 32 ? g.part : 32;
	g.nparts = g.lanes / g.part;
	g.ngroups = rp->nvec / g.lanes;
	return g;
}

bool cg_group_shared(const struct cg_rowprog *rp, const struct cg_value *v)
{
	return v->reduces && v->used && v->home == CG_HOME_ELEM &&
	       !cg_in_warp(cg_lanes(rp->elems, v->ratio));
}

static uint32_t bytes_of(const struct group *g)
{
	return 4 * g->ngroups * (g->nparts + (g->nparts > FEW ? 1 : 0));
}

static bool at_level(const struct cg_rowprog *rp, const struct cg_value *v, unsigned level)
{
	return v->level == level && cg_group_shared(rp, v);
}

/* Bytes of the level's values before `end`. */
static uint32_t level_bytes(const struct cg_rowprog *rp, unsigned level, const struct cg_value *end)
{
	uint32_t n = 0;

	for (const struct cg_value *v = rp->val; v < end; v++)
		if (at_level(rp, v, level)) {
			struct group g = group_of(rp, v);

			n += bytes_of(&g);
		}
	return n;
}

static struct group placed(const struct cg_rowprog *rp, const struct cg_value *v)
{
	struct group g = group_of(rp, v);

	g.at = level_bytes(rp, v->level, v);
	return g;
}

/* Of one buffer. */
static uint32_t buffer_bytes(const struct cg_rowprog *rp)
{
	uint32_t most = 0;

	for (unsigned l = 0; l < rp->nlevel; l++) {
		uint32_t n = level_bytes(rp, l, rp->val + rp->nval);

		most = n > most ? n : most;
	}
	return most;
}

static bool two_buffers(const struct cg_rowprog *rp)
{
	return 2 * buffer_bytes(rp) <= TWO_BUFFERS;
}

uint32_t cg_group_bytes(const struct cg_rowprog *rp)
{
	return buffer_bytes(rp) * (two_buffers(rp) ? 2 : 1);
}

void cg_group_setup(struct cg_emit *e)
{
	uint32_t n = cg_group_bytes(e->rp);
	struct ptx_opnd first;

	if (!n)
		return;
	first = ptx_mov(e->f, PTX_T_u32,
	                ptx_var_add(e->f, PTX_SHARED, PTX_T_f32, 16, n / 4, "groups"));
	e->group = ptx_mov(e->f, PTX_T_u32, first);
	if (two_buffers(e->rp)) /* the sum of both addresses, to go from one to the other */
		e->groups = ptx_add(e->f, PTX_T_u32, ptx_add(e->f, PTX_T_u32, first, first),
		                    ptx_imm(n / 2));
}

static bool any(const struct cg_emit *e, unsigned level)
{
	return level_bytes(e->rp, level, e->rp->val + e->rp->nval) > 0;
}

void cg_group_begin(struct cg_emit *e, unsigned level)
{
	if (any(e, level) && !two_buffers(e->rp))
		ptx_bar_sync(e->f, ptx_imm(0));
}

/* The lanes of a part add theirs; the first of them leaves it. */
void cg_group_part(struct cg_emit *e, const struct cg_value *v, unsigned vec)
{
	struct ptx_fn *f = e->f;
	struct group g = placed(e->rp, v);
	struct ptx_opnd at = ptx_shr(f, PTX_T_u32, e->tid, ptx_imm(__builtin_ctz(g.part)));

	at = ptx_mad(f, PTX_T_u32, at, ptx_imm(4), e->group);
	cg_red_lanes(e, v->ir->op, v->f[vec], g.part);
	cg_guard_vec(e, g.part * e->p->elems, vec);
	ptx_st(f, shared, PTX_T_f32,
	       ptx_at(at, g.at + 4 * (int64_t)vec * e->p->row_threads / g.part), v->f[vec]);
	ptx_unguard(f);
}

/* Parts 32 * k + lane of the group whose parts are at `at` (lane's included). */
static void add_parts(struct cg_emit *e, const struct cg_value *v, const struct group *g,
                      struct ptx_opnd x, struct ptx_opnd at)
{
	struct ptx_fn *f = e->f;

	for (unsigned k = 0; k < g->nparts; k += 32) {
		struct ptx_opnd y = cg_red_start(e, v->ir->op);

		if (k + 32 > g->nparts)
			ptx_guard(f,
			          ptx_setp(f, PTX_LT, PTX_T_u32, e->lane, ptx_imm(g->nparts - k)),
			          false);
		ptx_put_ld(f, shared, PTX_T_f32, y, ptx_at(at, 4 * (int64_t)k));
		ptx_unguard(f);
		cg_red_combine(e, v->ir->op, x, y);
	}
}

/* The same for many: all lanes go round equally often. */
static void add_many_parts(struct cg_emit *e, const struct cg_value *v, const struct group *g,
                           struct ptx_opnd x, struct ptx_opnd at)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd again = ptx_label_new(f, "parts"), k = ptx_mov(f, PTX_T_u32, e->lane),
	                p = ptx_mov(f, PTX_T_u32, at), y = ptx_reg(f, PTX_C_F32), first;

	ptx_place(f, again);
	ptx_put_mov(f, PTX_T_f32, y, cg_red_start(e, v->ir->op));
	ptx_guard(f, ptx_setp(f, PTX_LT, PTX_T_u32, k, ptx_imm(g->nparts)), false);
	ptx_put_ld(f, shared, PTX_T_f32, y, ptx_at(p, 0));
	ptx_unguard(f);
	cg_red_combine(e, v->ir->op, x, y);
	ptx_put_add(f, PTX_T_u32, k, k, ptx_imm(32));
	ptx_put_add(f, PTX_T_u32, p, p, ptx_imm(128));
	first = ptx_sub(f, PTX_T_u32, k, e->lane);
	ptx_guard(f, ptx_setp(f, PTX_LT, PTX_T_u32, first, ptx_imm(g->nparts)), false);
	ptx_bra(f, again);
	ptx_unguard(f);
}

/* Warp w: groups w, w + warps, ... */
static void by_warps(struct cg_emit *e, const struct cg_value *v)
{
	struct ptx_fn *f = e->f;
	struct group g = placed(e->rp, v);
	struct ptx_opnd again = ptx_label_new(f, "groups"), done = ptx_label_new(f, "grouped"), at,
	                x, n = ptx_mov(f, PTX_T_u32, ptx_shr(f, PTX_T_u32, e->tid, ptx_imm(5)));

	ptx_place(f, again);
	ptx_guard(f, ptx_setp(f, PTX_GE, PTX_T_u32, n, ptx_imm(g.ngroups)), false);
	ptx_bra(f, done);
	ptx_unguard(f);
	at = ptx_mad(f, PTX_T_u32, n, ptx_imm(g.nparts), e->lane);
	at = ptx_mad(f, PTX_T_u32, at, ptx_imm(4), e->group);
	at = ptx_add(f, PTX_T_u32, at, ptx_imm(g.at));
	x = cg_red_start(e, v->ir->op);
	if (g.nparts <= 32 * UNROLLED)
		add_parts(e, v, &g, x, at);
	else
		add_many_parts(e, v, &g, x, at);
	cg_red_lanes(e, v->ir->op, x, 32);
	at = ptx_mad(f, PTX_T_u32, n, ptx_imm(4), e->group);
	ptx_guard(f, e->lane0, false);
	ptx_st(f, shared, PTX_T_f32, ptx_at(at, g.at + 4 * (int64_t)g.ngroups * g.nparts), x);
	ptx_unguard(f);
	ptx_put_add(f, PTX_T_u32, n, n, ptx_imm(e->p->row_threads / 32));
	ptx_bra(f, again);
	ptx_place(f, done);
}

void cg_group_end(struct cg_emit *e, unsigned level)
{
	bool many = false;

	if (!any(e, level))
		return;
	ptx_bar_sync(e->f, ptx_imm(0));
	for (unsigned i = 0; i < e->rp->nval; i++) {
		const struct cg_value *v = &e->rp->val[i];

		if (!at_level(e->rp, v, level) || group_of(e->rp, v).nparts <= FEW)
			continue;
		cg_at(e, v);
		by_warps(e, v);
		many = true;
	}
	if (many)
		ptx_bar_sync(e->f, ptx_imm(0));
}

struct ptx_opnd cg_group_result(struct cg_emit *e, const struct cg_value *v, unsigned vec)
{
	struct ptx_fn *f = e->f;
	struct group g = placed(e->rp, v);
	struct ptx_opnd at = cg_vector(e, vec), x;
	unsigned n = g.nparts > FEW ? 1 : g.nparts;

	cg_at(e, v);
	if (cg_partial(e, vec)) /* beyond the row: any group */
		at = ptx_selp(f, PTX_T_u32, at, ptx_imm(0), e->live);
	at = ptx_div(f, PTX_T_u32, at, ptx_imm(g.lanes));
	at = ptx_mad(f, PTX_T_u32, at, ptx_imm(4 * (int64_t)n), e->group);
	at = ptx_at(at, g.at + (n == 1 ? 4 * (int64_t)g.ngroups * g.nparts : 0));
	x = ptx_ld(f, shared, PTX_T_f32, at);
	for (unsigned k = 1; k < n; k++)
		cg_red_combine(e, v->ir->op, x, ptx_ld(f, shared, PTX_T_f32, ptx_at(at, 4 * k)));
	cg_red_finish(e, v, x, v->ir->n);
	return x;
}

/* The other buffer is next. */
void cg_group_done(struct cg_emit *e, unsigned level)
{
	if (any(e, level) && two_buffers(e->rp))
		ptx_put_sub(e->f, PTX_T_u32, e->group, e->groups, e->group);
}
