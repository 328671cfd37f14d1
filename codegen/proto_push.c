/*
 * push and mm-push: the data are the flag (doc/protocols.md has the argument).
 *
 * The exchange buffer has three thirds, used in turn.  A third holds a header of each source rank,
 * then rows; in a row the sources one after the other, so that what a launch dirties is one block
 * from the third's beginning, whatever the kernel:
 *
 *	{number, tag} x CG_MAX_RANKS   row 0: rank 0, rank 1, ...   row 1: ...
 *
 * By peers a rank has no place in its own buffer: its addends come from registers.  Every 32-bit word
 * is the sentinel until its payload comes.  Row by row a launch pushes (in_flight - 1 rows ahead),
 * clears a share of what the launch before dirtied, and polls and sums (push_poll.c).
 */
#include "codegen/push.h"
#include <assert.h>

static_assert(offsetof(struct cg_workspace, push) == 56 && sizeof(struct cg_push_state) == 32 &&
                      offsetof(struct cg_workspace, epoch) == 256,
              "the push state is where padding was");
static_assert(CG_XCHG_HEAD == 8 * CG_MAX_RANKS, "a header of two words for each rank");

#define WIDE_WORDS 16 /* registers of a wide row on its way */

/* ---- where things are ---- */

uint32_t cg_exchange_fill(void)
{
	return CG_XCHG_FILL;
}

uint64_t cg_exchange_bytes(const struct cg_plan *p, uint64_t rows)
{
	return p->xchg_row ? 3 * (CG_XCHG_HEAD + rows * p->xchg_ranks * p->xchg_row) : 0;
}

/* Bytes of one vector of a value in a row: whole words. */
static unsigned vec_bytes(const struct cg_rowprog *rp, const struct cg_value *v)
{
	return 4 * cg_sum_words(rp, v);
}

bool cg_pushed(const struct cg_value *v)
{
	return v->ir->op == IR_OP_LOAD_SUM && v->used;
}

/* Bytes of a pushed value's part of a row, padded so that the next is aligned. */
static uint32_t value_bytes(const struct cg_rowprog *rp, const struct cg_value *v)
{
	unsigned vecs = v->home == CG_HOME_ROW ? 1 : rp->nvec;

	return (vecs * vec_bytes(rp, v) + 15) / 16 * 16;
}

uint32_t cg_push_row(const struct cg_rowprog *rp)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < rp->nval; i++)
		if (cg_pushed(&rp->val[i]))
			n += value_bytes(rp, &rp->val[i]);
	return n;
}

/* Where in a source's row the value begins. */
static uint32_t value_offset(const struct cg_rowprog *rp, const struct cg_value *v)
{
	uint32_t n = 0;

	for (const struct cg_value *u = rp->val; u < v; u++)
		if (cg_pushed(u))
			n += value_bytes(rp, u);
	return n;
}

/* Bytes of a row from all ranks that have a place. */
static int64_t places(const struct cg_emit *e)
{
	return (int64_t)e->p->xchg_ranks * e->p->xchg_row;
}

/* Bytes from the buffer's beginning to the thread's part of the first place's row. */
struct ptx_opnd cg_push_row_at(struct cg_emit *e, const struct cg_value *v, struct ptx_opnd row)
{
	struct ptx_opnd at = ptx_mad_wide(e->f, PTX_T_u32, row, ptx_imm(places(e)), e->push->here);

	if (v->home == CG_HOME_ROW)
		return at;
	return ptx_mad_wide(e->f, PTX_T_u32, e->tid, ptx_imm(vec_bytes(e->rp, v)), at);
}

int64_t cg_push_vec_at(const struct cg_emit *e, const struct cg_value *v, unsigned vec)
{
	return (int64_t)CG_XCHG_HEAD + value_offset(e->rp, v) +
	       (int64_t)vec * e->p->row_threads * vec_bytes(e->rp, v);
}

bool cg_push_own_apart(const struct cg_emit *e)
{
	return e->p->xchg_ranks < e->p->tp;
}

/* ---- verdicts: a CTA goes on together or not at all ---- */

static struct ptx_opnd verdict_at(struct cg_emit *e, unsigned k)
{
	return ptx_at(e->flag, 4 * (int64_t)k);
}

/* All threads; jumps to `leave` when one of them has set the word. */
static void agree(struct cg_emit *e, struct ptx_opnd word, struct ptx_opnd leave)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd v;

	ptx_bar_sync(f, ptx_imm(0));
	v = ptx_ld(f, ptx_MODS(.space = PTX_SHARED), PTX_T_u32, word);
	v = ptx_setp(f, PTX_NE, PTX_T_u32, v, ptx_imm(0));
	ptx_guard(f, v, false);
	ptx_bra(f, leave);
	ptx_unguard(f);
}

/* The next row's word: not the one that slow threads may still be reading. */
void cg_push_agree_on_row(struct cg_emit *e, struct ptx_opnd leave)
{
	struct ptx_opnd v = e->push->verdict;

	agree(e, ptx_at(v, 0), leave);
	ptx_put_xor(e->f, PTX_T_b32, v, v, ptx_imm(4));
}

bool cg_push_fail(struct cg_emit *e, const struct cg_failure *x)
{
	if (!cg_record(e, x))
		return false;
	ptx_red(e->f, ptx_MODS(.space = PTX_SHARED, .red = PTX_OR), PTX_T_b32,
	        ptx_at(e->push->verdict, 0), ptx_mov(e->f, PTX_T_b32, ptx_imm(1)));
	return true;
}

struct ptx_opnd cg_push_pair(struct cg_emit *e, struct ptx_opnd low, struct ptx_opnd high)
{
	const struct ptx_opnd half[2] = {low, high};

	return ptx_mov(e->f, PTX_T_b64, ptx_vec_of(half, 2));
}

struct ptx_opnd cg_push_header(struct cg_emit *e)
{
	return cg_push_pair(e, e->push->number, e->push->tag);
}

/* ---- entry ---- */

/* Payload must not look like the sentinel: that word is -0 (and +0, in 16-bit pairs), and becomes
 * +0, which no sum can tell. */
static struct ptx_opnd sanitised(struct cg_emit *e, struct ptx_opnd w)
{
	struct ptx_opnd same = ptx_setp(e->f, PTX_EQ, PTX_T_b32, w, e->push->sentinel);

	return ptx_selp(e->f, PTX_T_b32, e->push->zero, w, same);
}

/* Bytes that the launch dirties. */
static struct ptx_opnd need(struct cg_emit *e)
{
	struct ptx_opnd head = ptx_mov(e->f, PTX_T_u64, ptx_imm(CG_XCHG_HEAD));

	return ptx_mad_wide(e->f, PTX_T_u32, e->T, ptx_imm(places(e)), head);
}

static void read_state(struct cg_emit *e, struct cg_push *p)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd third;

	p->ws = cg_arg_load(e, CG_ARG_WS_UC, 0);
	p->state = ptx_add(
	        f, PTX_T_s64, p->ws,
	        ptx_imm((int64_t)offsetof(struct cg_workspace, push) +
	                cg_push_set(e->p->protocol) * (int64_t)sizeof(struct cg_push_state)));
	p->phase = ptx_ld(f, ptx_MODS(.space = PTX_GLOBAL), PTX_T_u32, ptx_at(p->state, 0));
	third = ptx_rem(f, PTX_T_u32, p->phase, ptx_imm(3));
	p->here = ptx_ld(f, ptx_MODS(.space = PTX_GLOBAL), PTX_T_u64,
	                 ptx_at(p->state, offsetof(struct cg_push_state, stride)));
	p->here = ptx_mul(f, PTX_T_u64, p->here, ptx_cvt(f, PTX_T_u64, PTX_T_u32, third));
	p->need = need(e);
	p->sentinel = ptx_mov(f, PTX_T_b32, ptx_imm(CG_XCHG_FILL));
	p->zero = ptx_mov(f, PTX_T_b32, ptx_imm(0));
	p->number = sanitised(e, p->phase);
	p->tag = sanitised(e,
	                   ptx_xor(f, PTX_T_b32, e->T, ptx_imm((int64_t)(uint32_t)e->k->contract)));
}

/* CTA 0, warp 0: lane i tells rank i, or lane 0 all. */
static struct ptx_opnd tells(struct cg_emit *e)
{
	bool peers = e->ops->xchg == CG_ARG_XCHG_PEERS;
	struct ptx_opnd mine =
	        ptx_setp(e->f, PTX_LT, PTX_T_u32, e->tid, ptx_imm(peers ? e->p->tp : 1));

	return ptx_setpb(e->f, PTX_EQ, PTX_B_AND, PTX_T_u32, e->cta, ptx_imm(0), mine);
}

/* One thread, not of the warp that fences: is the workspace dead, or the buffer too small? */
static bool judge_state(struct cg_emit *e, struct cg_push *p)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd join = ptx_label_new(f, "judged"), dead, stride, others, fits,
	                zero = ptx_mov(f, PTX_T_u32, ptx_imm(0));
	struct cg_failure x = {.ws = p->ws, .peer = e->rank, .expected = p->need};

	others = ptx_setp(f, PTX_NE, PTX_T_u32, e->tid, ptx_imm(e->p->row_threads > 32 ? 32 : 0));
	ptx_guard(f, others, false);
	ptx_bra(f, join);
	ptx_unguard(f);
	ptx_st(f, ptx_MODS(.space = PTX_SHARED), PTX_T_u32, verdict_at(e, 1), zero);
	dead = ptx_ld(f, cg_push_strong, PTX_T_u32, ptx_at(p->ws, 0));
	ptx_st(f, ptx_MODS(.space = PTX_SHARED), PTX_T_u32, verdict_at(e, 0), dead);
	x.seen = stride = ptx_ld(f, ptx_MODS(.space = PTX_GLOBAL), PTX_T_u64,
	                         ptx_at(p->state, offsetof(struct cg_push_state, stride)));
	fits = ptx_setp(f, PTX_LE, PTX_T_u64, p->need, stride);
	ptx_guard(f, fits, false);
	ptx_bra(f, join);
	ptx_unguard(f);
	x.why = ptx_mov(f, PTX_T_u32, ptx_imm(CG_WS_ROWS));
	if (!cg_record(e, &x))
		return false;
	ptx_st(f, ptx_MODS(.space = PTX_SHARED), PTX_T_u32, verdict_at(e, 0), x.why);
	ptx_place(f, join);
	return true;
}

/*
 * The threads that will store the header, while another warp judges.  The header is what orders this
 * launch's past, the words that the launch before cleared, before a peer's later launches: the
 * thread that stores it has fenced before; the load that reads it acquires (push_poll.c).
 */
static bool fence_before_header(struct cg_emit *e)
{
	struct ptx_opnd skip = ptx_label_new(e->f, "fenced");

	ptx_guard(e->f, tells(e), true);
	ptx_bra(e->f, skip);
	ptx_unguard(e->f);
	cg_alias_fence(e);
	if (!ptx_expand(e->f, "push_release", NULL, 0, e->d))
		return false;
	ptx_place(e->f, skip);
	return true;
}

/* ---- pushing ---- */

/* Where stores to all ranks go: one multicast address, or every peer's. */
static unsigned nstores(const struct cg_emit *e)
{
	return e->ops->xchg == CG_ARG_XCHG_PEERS ? e->p->tp : 1;
}

static struct ptx_opnd store_base(struct cg_emit *e, unsigned i)
{
	return e->ops->xchg == CG_ARG_XCHG_PEERS ? cg_arg_peer(e, CG_ARG_XCHG_PEERS, 0, i)
	                                         : cg_arg_load(e, CG_ARG_XCHG_MC, 0);
}

static void store_words(struct cg_emit *e, struct ptx_opnd at, const struct ptx_opnd *word,
                        unsigned n)
{
	struct ptx_mod mod = cg_push_strong;

	mod.vec = cg_vec_mod(n);
	if (e->ops->xchg == CG_ARG_XCHG_PEERS)
		ptx_st(e->f, mod, PTX_T_b32, at, cg_vec_of(word, n));
	else
		ptx_mm_st(e->f, mod, PTX_T_f32, at, cg_vec_of(word, n));
}

static void push_header(struct cg_emit *e, const struct cg_push *p)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd skip = ptx_label_new(f, "told"), at, word[2] = {p->number, p->tag};
	bool peers = e->ops->xchg == CG_ARG_XCHG_PEERS;

	ptx_guard(f, tells(e), true);
	ptx_bra(f, skip);
	ptx_unguard(f);
	at = peers ? cg_arg_peer_of(e, CG_ARG_XCHG_PEERS, 0, e->tid) : store_base(e, 0);
	at = ptx_add(f, PTX_T_s64, at, p->here);
	at = ptx_mad_wide(f, PTX_T_u32, e->rank, ptx_imm(8), at);
	store_words(e, ptx_at(at, 0), word, 2);
	ptx_place(f, skip);
}

/* A loaded register as a word. */
static struct ptx_opnd word_of(struct cg_emit *e, struct ptx_opnd reg)
{
	struct ptx_opnd half[2], w;

	if (reg.cls == PTX_C_B32)
		return reg;
	if (reg.cls == PTX_C_B16) {
		half[0] = reg;
		half[1] = ptx_mov(e->f, PTX_T_b16, ptx_imm(0));
		return ptx_mov(e->f, PTX_T_b32, ptx_vec_of(half, 2));
	}
	w = ptx_reg(e->f, PTX_C_B32);
	ptx_put_mov(e->f, PTX_T_b32, w, reg);
	return w;
}

/* The words of `n` vectors of the value, from `from` on, to every rank that has none of them yet. */
static void store_value(struct cg_emit *e, const struct cg_value *v, struct ptx_opnd row,
                        const struct ptx_opnd *word, unsigned from, unsigned n)
{
	struct ptx_fn *f = e->f;
	unsigned words = cg_sum_words(e->rp, v);
	struct ptx_opnd at = cg_push_row_at(e, v, row), to, guard, less;

	at = ptx_mad_wide(f, PTX_T_u32, e->rank, ptx_imm(e->p->xchg_row), at);
	less = ptx_add(f, PTX_T_s64, at, ptx_imm(-(int64_t)e->p->xchg_row));
	for (unsigned s = 0; s < nstores(e); s++) {
		struct ptx_opnd other = {0};

		to = at;
		if (cg_push_own_apart(e)) { /* ranks behind the receiver are one place ahead */
			struct ptx_opnd behind =
			        ptx_setp(f, PTX_GT, PTX_T_u32, e->rank, ptx_imm(s));

			to = ptx_selp(f, PTX_T_b64, less, at, behind);
			other = ptx_setp(f, PTX_NE, PTX_T_u32, e->rank, ptx_imm(s));
		}
		to = ptx_add(f, PTX_T_s64, to, store_base(e, s));
		for (unsigned vec = from; vec < from + n; vec++) {
			guard = v->home == CG_HOME_ROW ? e->tid0
			        : cg_partial(e, vec)   ? e->live
			                               : (struct ptx_opnd){0};
			if (guard.kind && other.kind)
				guard = ptx_and(f, PTX_T_pred, guard, other);
			else if (other.kind)
				guard = other;
			if (guard.kind)
				ptx_guard(f, guard, false);
			for (unsigned i = 0; i < words; i += 4)
				store_words(e,
				            ptx_at(to, cg_push_vec_at(e, v, vec) + 4 * (int64_t)i),
				            &word[(vec - from) * words + i],
				            words - i < 4 ? words - i : 4);
			ptx_unguard(f);
		}
	}
}

/* A row that is in a slot: its words, sanitised, are kept as the rank's own addends. */
static void push_slot(struct cg_emit *e, unsigned slot, struct ptx_opnd row)
{
	for (unsigned i = 0; i < e->rp->nval; i++) {
		const struct cg_value *v = &e->rp->val[i];
		unsigned n = cg_vecs_of(e, v) * cg_sum_words(e->rp, v);
		struct ptx_opnd *own = e->push->own[slot * e->rp->nval + i];

		if (!cg_pushed(v))
			continue;
		cg_at(e, v);
		for (unsigned k = 0; k < n; k++) {
			struct ptx_opnd w = word_of(e, e->slot[slot].addend[i][k]), same;

			same = ptx_setp(e->f, PTX_EQ, PTX_T_b32, w, e->push->sentinel);
			ptx_put_selp(e->f, PTX_T_b32, own[k], e->push->zero, w, same);
		}
		store_value(e, v, row, own, 0, cg_vecs_of(e, v));
	}
	ptx_loc(e->f, 0, 0);
}

/* A wide row: from memory, as many vectors at a time as there are registers for. */
static void push_wide(struct cg_emit *e, struct ptx_opnd index)
{
	struct cg_row row;

	cg_row_set(&row, index);
	for (unsigned i = 0; i < e->rp->nval; i++) {
		const struct cg_value *v = &e->rp->val[i];
		unsigned words = cg_sum_words(e->rp, v), vecs = cg_vecs_of(e, v), n;
		struct ptx_opnd *word = arena_news(e->a, struct ptx_opnd, vecs * words);

		if (!cg_pushed(v))
			continue;
		for (unsigned vec = 0; vec < vecs; vec += n) {
			n = WIDE_WORDS / words ? WIDE_WORDS / words : 1;
			n = vecs - vec < n ? vecs - vec : n;
			for (unsigned k = 0; k < n; k++)
				cg_load_own_vector(e, v, &row, vec + k, &word[k * words]);
			for (unsigned k = 0; k < n * words; k++)
				word[k] = sanitised(e, word_of(e, word[k]));
			store_value(e, v, index, word, vec, n);
		}
	}
	ptx_loc(e->f, 0, 0);
}

/* The same, of a row that may not be there. */
static void push_slot_if(struct cg_emit *e, unsigned slot, struct ptx_opnd row)
{
	struct ptx_opnd skip = ptx_label_new(e->f, "pushed");

	ptx_guard(e->f, ptx_setp(e->f, PTX_GE, PTX_T_u32, row, e->end), false);
	ptx_bra(e->f, skip);
	ptx_unguard(e->f);
	if (e->p->wide)
		push_wide(e, row);
	else
		push_slot(e, slot, row);
	ptx_place(e->f, skip);
}

static void own_registers(struct cg_emit *e, struct cg_push *p)
{
	p->own = arena_news(e->a, struct ptx_opnd *, e->p->in_flight * e->rp->nval);
	if (e->p->wide) /* its own words take the way of all others */
		return;
	for (unsigned s = 0; s < e->p->in_flight; s++)
		for (unsigned i = 0; i < e->rp->nval; i++) {
			const struct cg_value *v = &e->rp->val[i];
			unsigned n = cg_vecs_of(e, v) * cg_sum_words(e->rp, v);

			if (!cg_pushed(v))
				continue;
			p->own[s * e->rp->nval + i] = arena_news(e->a, struct ptx_opnd, n);
			for (unsigned k = 0; k < n; k++)
				p->own[s * e->rp->nval + i][k] = ptx_reg(e->f, PTX_C_B32);
		}
}

/* Rows that are pushed before the one that is polled. */
static unsigned ahead_of(const struct cg_emit *e)
{
	return e->p->wide ? 1 : e->p->in_flight - 1;
}

/* The first rows, but for the one that the loop pushes at its first row. */
static void push_first(struct cg_emit *e)
{
	struct ptx_opnd row = e->cta;

	for (unsigned s = 0; s < ahead_of(e); s++) {
		push_slot_if(e, s, row);
		row = ptx_add(e->f, PTX_T_u32, row, e->grid);
	}
}

/* In the loop, at the row of `slot`: the row in_flight - 1 ahead, whose loads are the oldest; of wide
 * rows the next, which is loaded only now. */
void cg_push_ahead(struct cg_emit *e, unsigned slot)
{
	unsigned ahead = ahead_of(e);
	struct ptx_opnd row = e->row.index;

	if (!ahead) {
		push_slot(e, slot, row);
		return;
	}
	row = ptx_mad(e->f, PTX_T_u32, e->grid, ptx_imm(ahead), row);
	push_slot_if(e, (slot + ahead) % e->p->in_flight, row);
}

/* ---- clearing ---- */

/* What the launch before dirtied, whatever its grid, in 16-byte pieces, and a row's share of them. */
static void plan_clear(struct cg_emit *e, struct cg_push *p)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd dirty, round;

	dirty = ptx_ld(f, ptx_MODS(.space = PTX_GLOBAL), PTX_T_u64,
	               ptx_at(p->state, offsetof(struct cg_push_state, dirty)));
	p->dirty = ptx_cvt(f, PTX_T_u32, PTX_T_u64, ptx_shr(f, PTX_T_u64, dirty, ptx_imm(4)));
	round = ptx_add(f, PTX_T_u32, p->dirty, ptx_add(f, PTX_T_u32, e->T, ptx_imm(-1)));
	p->share = ptx_div(f, PTX_T_u32, round, e->T);
}

static struct ptx_opnd third_before(struct cg_emit *e, const struct cg_push *p)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd third, base;

	third = ptx_rem(f, PTX_T_u32, p->phase, ptx_imm(3));
	third = ptx_rem(f, PTX_T_u32, ptx_add(f, PTX_T_u32, third, ptx_imm(2)), ptx_imm(3));
	base = ptx_ld(f, ptx_MODS(.space = PTX_GLOBAL), PTX_T_u64,
	              ptx_at(p->state, offsetof(struct cg_push_state, stride)));
	base = ptx_mul(f, PTX_T_u64, base, ptx_cvt(f, PTX_T_u64, PTX_T_u32, third));
	return ptx_add(f, PTX_T_s64, base, cg_arg_load(e, CG_ARG_XCHG_UC, 0));
}

/* The row's share; strongly, since peers wrote the same words. */
void cg_push_clear(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	const struct cg_push *p = e->push;
	struct ptx_opnd first, last, at, piece, again = ptx_label_new(f, "clear"),
	                                        done = ptx_label_new(f, "cleared");
	const struct ptx_opnd fill[4] = {p->sentinel, p->sentinel, p->sentinel, p->sentinel};
	struct ptx_mod mod = cg_push_strong;

	mod.vec = 4;
	first = ptx_mul_wide(f, PTX_T_u32, e->row.index, p->share);
	last = ptx_cvt(f, PTX_T_u64, PTX_T_u32, p->dirty);
	first = ptx_min(f, PTX_T_u64, first, last);
	last = ptx_min(f, PTX_T_u64, last,
	               ptx_add(f, PTX_T_u64, first, ptx_cvt(f, PTX_T_u64, PTX_T_u32, p->share)));
	first = ptx_add(f, PTX_T_u64, first, ptx_cvt(f, PTX_T_u64, PTX_T_u32, e->tid));
	at = ptx_reg(f, PTX_C_B64);
	piece = ptx_cvt(f, PTX_T_u32, PTX_T_u64, first);
	last = ptx_cvt(f, PTX_T_u32, PTX_T_u64, last);
	ptx_put_mov(f, PTX_T_u64, at, ptx_mad_wide(f, PTX_T_u32, piece, ptx_imm(16), p->before));
	ptx_place(f, again);
	ptx_guard(f, ptx_setp(f, PTX_GE, PTX_T_u32, piece, last), false);
	ptx_bra(f, done);
	ptx_unguard(f);
	ptx_st(f, mod, PTX_T_b32, ptx_at(at, 0), ptx_vec_of(fill, 4));
	ptx_put_add(f, PTX_T_u32, piece, piece, ptx_imm(e->p->row_threads));
	ptx_put_add(f, PTX_T_s64, at, at, ptx_imm(16 * (int64_t)e->p->row_threads));
	ptx_bra(f, again);
	ptx_place(f, done);
}

/* No rows: the state stays as it is. */
static void skip_without_rows(struct cg_emit *e, struct ptx_opnd to)
{
	ptx_guard(e->f, ptx_setp(e->f, PTX_EQ, PTX_T_u32, e->T, ptx_imm(0)), false);
	ptx_bra(e->f, to);
	ptx_unguard(e->f);
}

bool cg_push_entry(struct cg_emit *e, struct ptx_opnd leave)
{
	struct ptx_fn *f = e->f;
	struct cg_push *p = e->push = arena_new(e->a, struct cg_push);
	struct ptx_opnd empty = ptx_label_new(f, "entered");

	e->flag = ptx_var_add(f, PTX_SHARED, PTX_T_u32, 8, 2, "dead");
	own_registers(e, p);
	p->looks = ptx_setp(f, PTX_LT, PTX_T_u32, e->tid, ptx_imm(32));
	skip_without_rows(e, empty);
	read_state(e, p);
	plan_clear(e, p);
	p->before = third_before(e, p);
	if (!judge_state(e, p) || !fence_before_header(e))
		return false;
	agree(e, verdict_at(e, 0), leave);
	p->verdict = ptx_mov(f, PTX_T_u32, e->flag);
	p->verdict = ptx_add(f, PTX_T_u32, p->verdict, ptx_imm(4));
	push_header(e, p);
	push_first(e);
	ptx_place(f, empty);
	return true;
}

/* ---- exit ---- */

/* The CTA that finishes last of all moves the state on: by then all threads of all have read it,
 * before their CTA's first barrier. */
bool cg_push_exit(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	struct cg_push *p = e->push;
	struct ptx_opnd skip = ptx_label_new(f, "left"), n, zero, last;

	ptx_comment(f, "the state moves on");
	skip_without_rows(e, skip);
	ptx_bar_sync(f, ptx_imm(0));
	ptx_guard(f, e->tid0, true);
	ptx_bra(f, skip);
	ptx_unguard(f);
	n = ptx_atom(f,
	             ptx_MODS(.order = PTX_ACQ_REL, .scope = PTX_GPU, .space = PTX_GLOBAL,
	                      .red = PTX_ADD),
	             PTX_T_u32, ptx_at(p->state, offsetof(struct cg_push_state, done)),
	             ptx_mov(f, PTX_T_u32, ptx_imm(1)));
	n = ptx_add(f, PTX_T_u32, n, ptx_imm(1));
	last = ptx_setp(f, PTX_EQ, PTX_T_u32, n, e->grid);
	zero = ptx_mov(f, PTX_T_u32, ptx_imm(0));
	/* launch numbers wrap at a multiple of three */
	n = ptx_add(f, PTX_T_u32, p->phase, ptx_imm(1));
	n = ptx_selp(f, PTX_T_u32, zero, n,
	             ptx_setp(f, PTX_EQ, PTX_T_u32, n, ptx_imm(CG_PUSH_WRAP)));
	ptx_guard(f, last, false);
	ptx_st(f, ptx_MODS(.space = PTX_GLOBAL), PTX_T_u32, ptx_at(p->state, 0), n);
	ptx_st(f, ptx_MODS(.space = PTX_GLOBAL), PTX_T_u32,
	       ptx_at(p->state, offsetof(struct cg_push_state, done)), zero);
	ptx_st(f, ptx_MODS(.space = PTX_GLOBAL), PTX_T_u64,
	       ptx_at(p->state, offsetof(struct cg_push_state, dirty)), p->need);
	ptx_unguard(f);
	ptx_place(f, skip);
	return true;
}
