/*
 * Rows that do not fit into registers go through them vector by vector, in each level again:
 *
 *	level l:  vector 0: from memory, or from where it is parked; the level's work; park it
 *	          vector 1: ...
 *	          reductions: shuffles, bar.sync
 *
 * What a later level reads is parked in shared memory: every thread has its own places there, so
 * that no barrier is needed for them.  A vector's places are units of elems 16-bit words, dealt by
 * lifetime.  The last vectors of a thread may stay in registers, where shared memory is too small.
 * The order of additions, and so the numeric class, is that of rows in registers.
 */
#include "codegen/emit.h"
#include "codegen/wide.h"

/* Registers that vectors may stay in; the estimate is cautious, and some bytes spilled are better than
 * no kernel. */
#define MOST_KEPT 16

static const struct ptx_mod shared = {.space = PTX_SHARED};

/* ---- where values are ---- */

static bool is_element(const struct cg_value *v)
{
	return v->home == CG_HOME_ELEM && v->used && !cg_is_store(v->ir);
}

/* Of what is loaded: may it be loaded again, in a later level?  Not what is summed, nor what the
 * kernel itself may have changed by then. */
static bool unchanged(const struct cg_rowprog *rp, const struct cg_value *v)
{
	return v->ir->op == IR_OP_LOAD && rp->func->param[v->ir->param].mode == IR_IN;
}

bool cg_wide_again(const struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_value *v)
{
	return cg_is_alias(v->ir) || (p->reread && unchanged(rp, v));
}

/* Before the first store that may change it. */
static int loaded_at(const struct cg_rowprog *rp, const struct cg_value *v)
{
	unsigned level = v->first;

	if (unchanged(rp, v))
		return (int)level;
	for (unsigned i = 0; i < rp->nval; i++)
		if (cg_is_store(rp->val[i].ir) && rp->val[i].ir->param == v->ir->param &&
		    rp->val[i].level < level)
			level = rp->val[i].level;
	return (int)level;
}

/* The level that makes the value; -1: it is there before level 0. */
static int made_at(const struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_value *v)
{
	if (v->summed)
		return p->xchg_row ? -1 : 0;
	if (cg_shared_inout(rp, v))
		return -1;
	if (cg_is_load(v->ir))
		return loaded_at(rp, v);
	return (int)(v->reduces ? v->level : v->first);
}

bool cg_wide_held(const struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_value *v,
                  int l)
{
	return is_element(v) && !cg_wide_again(p, rp, v) && made_at(p, rp, v) <= l &&
	       (int)v->last > l;
}

/* ---- the plan ---- */

static unsigned unit_words(const struct cg_rowprog *rp)
{
	return rp->elems / 2;
}

/* Less than a unit of a vector, as values of groups have: they are parked in single words. */
static bool is_narrow(const struct cg_rowprog *rp, const struct cg_value *v)
{
	return cg_value_regs(v, 1) < unit_words(rp);
}

/* Units, or words of a narrow value. */
static unsigned units_of(const struct cg_rowprog *rp, const struct cg_value *v)
{
	return is_narrow(rp, v) ? cg_value_regs(v, 1) : cg_value_regs(v, 1) / unit_words(rp);
}

static bool parked(const struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_value *v)
{
	return is_element(v) && !cg_wide_again(p, rp, v) && made_at(p, rp, v) < (int)v->last;
}

/* Is one of u's units one of v's, which begin at `at`, while both are needed?  A level reads what it
 * takes before it parks what it makes. */
static bool collide(const struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_value *u,
                    const struct cg_value *v, unsigned at)
{
	return parked(p, rp, u) && is_narrow(rp, u) == is_narrow(rp, v) &&
	       made_at(p, rp, u) < (int)v->last && made_at(p, rp, v) < (int)u->last &&
	       u->park < at + units_of(rp, v) && at < u->park + units_of(rp, u);
}

/* Units of a vector, or the words of narrow values. */
static unsigned deal_units(const struct cg_plan *p, const struct cg_rowprog *rp, bool narrow)
{
	unsigned n = 0;

	for (struct cg_value *v = rp->val; v < rp->val + rp->nval; v++) {
		unsigned at = 0;
		bool again = true;

		if (!parked(p, rp, v) || is_narrow(rp, v) != narrow)
			continue;
		while (again) {
			again = false;
			for (const struct cg_value *u = rp->val; u < v && !again; u++)
				again = collide(p, rp, u, v, at);
			at += again;
		}
		v->park = at;
		if (at + units_of(rp, v) > n)
			n = at + units_of(rp, v);
	}
	return n;
}

/* Most registers of one vector that are kept from a level to the next. */
static unsigned held_regs(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	unsigned most = 0;

	for (int l = -1; l + 1 < (int)rp->nlevel; l++) {
		unsigned n = 0;

		for (unsigned i = 0; i < rp->nval; i++)
			if (cg_wide_held(p, rp, &rp->val[i], l))
				n += cg_value_regs(&rp->val[i], 1);
		most = n > most ? n : most;
	}
	return most;
}

unsigned cg_wide_loaded(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	unsigned n = 0;

	for (unsigned i = 0; i < rp->nval; i++) {
		const struct cg_value *v = &rp->val[i];

		if (is_element(v) && cg_in_slot(v) && made_at(p, rp, v) == 0)
			n += cg_value_regs(v, 1);
	}
	return n;
}

static uint64_t load_bytes(const struct cg_rowprog *rp)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < rp->nval; i++)
		if (is_element(&rp->val[i]) && cg_in_slot(&rp->val[i]))
			n += 4 * (uint64_t)cg_value_regs(&rp->val[i], 1);
	return n;
}

/*
 * Shared memory first, then registers for what it cannot hold; with what registers are left, loads
 * are issued vectors ahead.  `regs` are those that one vector's work needs.
 */
bool cg_wide_plan(struct cg_plan *p, const struct cg_rowprog *rp, unsigned regs, unsigned limit)
{
	uint32_t room = p->target->smem_per_cta - p->smem - 128, each;
	unsigned held, ahead = cg_wide_loaded(p, rp);

	p->park_units = deal_units(p, rp, false);
	p->park_words = deal_units(p, rp, true);
	each = (p->park_units * unit_words(rp) + p->park_words) * p->threads * 4;
	p->parked = p->vecs;
	while (p->parked && (uint64_t)p->parked * each > room)
		p->parked--;
	p->dynamic = p->parked * each;
	held = (p->vecs - p->parked) * held_regs(p, rp);
	p->est_regs = regs + held;
	if (held > MOST_KEPT)
		return false;
	p->ahead = 0;
	while (ahead && p->ahead + 1 < p->vecs && p->est_regs + ahead <= limit &&
	       load_bytes(rp) * p->threads * (p->ahead + 1) < CG_BYTES_IN_FLIGHT) {
		p->est_regs += ahead;
		p->ahead++;
	}
	return true;
}

/* What all vectors' places come to. */
uint64_t cg_wide_bytes(const struct cg_plan *p, const struct cg_rowprog *rp)
{
	uint64_t words =
	        (uint64_t)deal_units(p, rp, false) * unit_words(rp) + deal_units(p, rp, true);

	return words * p->threads * 4 * p->vecs;
}

/* ---- parking ---- */

void cg_wide_setup(struct cg_emit *e)
{
	unsigned unit = 4 * unit_words(e->rp);
	struct ptx_opnd row;

	if (!e->p->wide || !e->p->dynamic)
		return;
	row = ptx_mov(e->f, PTX_T_u32, ptx_var_add(e->f, PTX_SHARED, PTX_T_b8, 128, 0, "parked"));
	e->park = ptx_mad(e->f, PTX_T_u32, e->tid, ptx_imm(unit), row);
	if (!e->p->park_words)
		return;
	row = ptx_add(e->f, PTX_T_u32, row,
	              ptx_imm((int64_t)unit * e->p->park_units * e->p->threads * e->p->parked));
	e->park_narrow = ptx_mad(e->f, PTX_T_u32, e->tid, ptx_imm(4), row);
}

/* A lone 16-bit element that was loaded is in a register of 16 bits. */
static bool lone(const struct cg_value *v)
{
	return v->half && v->n == 1 && cg_in_slot(v);
}

static enum ptx_type type_of(const struct cg_value *v)
{
	return v->half                        ? lone(v) ? PTX_T_b16 : PTX_T_b32
	       : v->ir->type.dtype == IR_BOOL ? PTX_T_u32
	                                      : PTX_T_f32;
}

/* Registers of a value that are parked together. */
static unsigned words_at_once(const struct cg_emit *e, const struct cg_value *v)
{
	return is_narrow(e->rp, v) ? 1 : unit_words(e->rp);
}

static struct ptx_opnd place(const struct cg_emit *e, const struct cg_value *v, unsigned vec,
                             unsigned unit)
{
	bool narrow = is_narrow(e->rp, v);
	int64_t at = (int64_t)vec * (narrow ? e->p->park_words : e->p->park_units) + v->park + unit;

	return ptx_at(narrow ? e->park_narrow : e->park,
	              4 * (int64_t)words_at_once(e, v) * e->p->threads * at);
}

void cg_wide_park(struct cg_emit *e, const struct cg_value *v, unsigned vec)
{
	unsigned n = cg_value_regs(v, 1), words = words_at_once(e, v);
	struct ptx_opnd *reg = cg_value_vec(v, vec), word[4];
	struct ptx_mod mod = shared;

	if (vec >= e->p->parked)
		return;
	for (unsigned i = 0; i < n; i += words) {
		unsigned k = n - i < words ? n - i : words;

		for (unsigned j = 0; j < k; j++)
			word[j] = v->ir->type.dtype != IR_BOOL
			                  ? reg[i + j]
			                  : ptx_selp(e->f, PTX_T_u32, ptx_imm(1), ptx_imm(0),
			                             reg[i + j]);
		mod.vec = cg_vec_mod(k);
		ptx_st(e->f, mod, type_of(v), place(e, v, vec, i / words), cg_vec_of(word, k));
	}
}

static void unpark(struct cg_emit *e, const struct cg_value *v, unsigned vec)
{
	unsigned n = cg_value_regs(v, 1), words = words_at_once(e, v);
	struct ptx_opnd *reg = cg_value_vec(v, vec);
	struct ptx_mod mod = shared;

	if (vec >= e->p->parked)
		return;
	for (unsigned i = 0; i < n; i += words) {
		unsigned k = n - i < words ? n - i : words;

		for (unsigned j = 0; j < k; j++)
			reg[i + j] = ptx_reg(e->f, ptx_type_info[type_of(v)].cls);
		mod.vec = cg_vec_mod(k);
		ptx_put_ld(e->f, mod, type_of(v), cg_vec_of(&reg[i], k),
		           place(e, v, vec, i / words));
		for (unsigned j = 0; v->ir->type.dtype == IR_BOOL && j < k; j++)
			reg[i + j] = ptx_setp(e->f, PTX_NE, PTX_T_u32, reg[i + j], ptx_imm(0));
	}
}

/* ---- a level ---- */

static bool reads(const struct cg_value *v, unsigned level)
{
	return is_element(v) && v->used >> level & 1;
}

static bool loads(const struct cg_emit *e, const struct cg_value *v, unsigned level)
{
	if (!is_element(v) || !cg_in_slot(v))
		return false;
	return cg_wide_again(e->p, e->rp, v) ? v->used >> level & 1
	                                     : made_at(e->p, e->rp, v) == (int)level;
}

static void load(struct cg_emit *e, unsigned level, unsigned vec)
{
	for (unsigned i = 0; i < e->rp->nval; i++)
		if (loads(e, &e->rp->val[i], level))
			cg_load_vector(e, &e->rp->val[i], vec, cg_value_vec(&e->rp->val[i], vec));
}

/* What has to be loaded before any thread stores. */
void cg_wide_early(struct cg_emit *e)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		if (v->home != CG_HOME_ELEM || !cg_shared_inout(e->rp, v))
			continue;
		for (unsigned vec = 0; vec < e->p->vecs; vec++) {
			cg_load_vector(e, v, vec, cg_value_vec(v, vec));
			cg_wide_park(e, v, vec);
		}
	}
}

/* What the level reads of the vector, and loads have not brought. */
static void fetch(struct cg_emit *e, unsigned level, unsigned vec)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		if (is_element(v) && v->summed && !level && !e->p->xchg_row)
			cg_p2p_vector(e, v, vec);
		else if (reads(v, level) && cg_wide_held(e->p, e->rp, v, (int)level - 1))
			unpark(e, v, vec);
	}
}

static void park(struct cg_emit *e, unsigned level, unsigned vec)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		const struct cg_value *v = &e->rp->val[i];

		if (cg_wide_held(e->p, e->rp, v, (int)level) &&
		    !cg_wide_held(e->p, e->rp, v, (int)level - 1) && !cg_group_shared(e->rp, v))
			cg_wide_park(e, v, vec);
	}
}

static void group_results(struct cg_emit *e, unsigned level)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		struct cg_value *v = &e->rp->val[i];

		if (v->level != level || !cg_group_shared(e->rp, v))
			continue;
		for (unsigned vec = 0; vec < e->p->vecs; vec++) {
			v->f[vec] = cg_group_result(e, v, vec);
			cg_wide_park(e, v, vec);
		}
	}
}

void cg_wide_level(struct cg_emit *e, unsigned level)
{
	unsigned vecs = e->p->vecs;

	cg_reduce_begin(e, level);
	for (unsigned vec = 0; vec < e->p->ahead; vec++)
		load(e, level, vec);
	for (unsigned vec = 0; vec < vecs; vec++) {
		if (vec + e->p->ahead < vecs)
			load(e, level, vec + e->p->ahead);
		fetch(e, level, vec);
		cg_reduce_begin_vec(e, level, vec);
		for (unsigned pair = 0; pair < e->p->elems / 2; pair++) {
			cg_eval_pair(e, level, vec, pair);
			cg_reduce_pair(e, level, vec, pair);
		}
		cg_store_vecs(e, level, vec);
		cg_reduce_groups_vec(e, level, vec);
		park(e, level, vec);
	}
	cg_store_rows(e, level);
	cg_group_end(e, level);
	group_results(e, level);
	cg_group_done(e, level);
	cg_reduce_rows(e, level);
}

void cg_wide_forget(struct cg_emit *e, struct cg_value *v, unsigned level)
{
	bool keep = cg_wide_held(e->p, e->rp, v, (int)level);
	unsigned n = cg_value_regs(v, 1);

	for (unsigned i = 0; v->half && i < e->p->vecs * v->n; i++)
		v->f[i].kind = PTX_NONE;
	for (unsigned i = 0; i < e->p->vecs * n; i++)
		if (!keep || i / n < e->p->parked)
			(v->half ? v->w : v->f)[i].kind = PTX_NONE;
}
