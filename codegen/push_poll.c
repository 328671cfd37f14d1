/*
 * push and mm-push, the receiving half: a row's words are polled until none is the sentinel, and
 * summed in order of ranks.  Beside the first words of a row the headers of all ranks are compared.
 */
#include "codegen/push.h"
#include "codegen/wide.h"

#define BLIND_TURNS 16
#define WIDE_WORDS  32 /* registers of a wide row's words and sums at once, beyond one vector's */

static struct ptx_opnd any_missing(struct cg_emit *e, const struct ptx_opnd *word, unsigned n)
{
	struct ptx_opnd p = {0};

	for (unsigned i = 0; i < n; i++)
		p = p.kind ? ptx_setpb(e->f, PTX_EQ, PTX_B_OR, PTX_T_b32, word[i],
		                       e->push->sentinel, p)
		           : ptx_setp(e->f, PTX_EQ, PTX_T_b32, word[i], e->push->sentinel);
	return p;
}

struct poll {
	struct cg_value *v;
	struct ptx_opnd at;         /* b64 */
	struct ptx_opnd *word;      /* [place of the group][vector][word] */
	unsigned first, n;          /* places */
	unsigned words, from, vecs; /* vectors of the thread */
};

static void load_words(struct cg_emit *e, const struct poll *q)
{
	struct ptx_mod mod = cg_push_strong;

	for (unsigned g = 0; g < q->n; g++)
		for (unsigned vec = 0; vec < q->vecs; vec++) {
			int64_t at = cg_push_vec_at(e, q->v, q->from + vec) +
			             (int64_t)(q->first + g) * e->p->xchg_row;

			if (q->v->home == CG_HOME_ELEM && cg_partial(e, q->from + vec))
				ptx_guard(e->f, e->live, false);
			for (unsigned i = 0; i < q->words; i += 4) {
				unsigned n = q->words - i < 4 ? q->words - i : 4;

				mod.vec = cg_vec_mod(n);
				ptx_put_ld(
				        e->f, mod, PTX_T_b32,
				        cg_vec_of(&q->word[(g * q->vecs + vec) * q->words + i], n),
				        ptx_at(q->at, at + 4 * (int64_t)i));
			}
			ptx_unguard(e->f);
		}
}

/* Whose word is missing: the last rank of the group that lacks one, and the word's value is known.
 */
static struct ptx_opnd missing_rank(struct cg_emit *e, const struct poll *q)
{
	unsigned each = q->vecs * q->words;
	struct ptx_opnd peer = ptx_mov(e->f, PTX_T_u32, ptx_imm(q->first)), next, behind;

	for (unsigned g = 1; g < q->n; g++)
		peer = ptx_selp(e->f, PTX_T_u32, ptx_imm(q->first + g), peer,
		                any_missing(e, &q->word[g * each], each));
	if (!cg_push_own_apart(e))
		return peer;
	next = ptx_add(e->f, PTX_T_u32, peer, ptx_imm(1));
	behind = ptx_setp(e->f, PTX_GE, PTX_T_u32, peer, e->rank);
	return ptx_selp(e->f, PTX_T_u32, next, peer, behind);
}

/*
 * Beside the CTA's first words: lane i of warp 0 also looks at the header of source i, so that ranks
 * that launched something else are found, and not waited out.  Order: an acquire pattern, of one
 * load; with the source's push_release.ptxt all that its launches before did, its clearing of the
 * third that this rank pushes into in the next launch above all, happens before what follows this
 * kernel in stream order.  Order hw leans on what the hardware does at a kernel's end.
 */
struct header {
	struct ptx_opnd at, source;  /* b64, b32 */
	struct ptx_opnd number, tag; /* b32: as seen */
	struct ptx_opnd wrong;       /* predicate: it has come, and is not what was expected */
};

static struct header header_begin(struct cg_emit *e)
{
	struct header h = {.source = ptx_min(e->f, PTX_T_u32, e->lane, ptx_imm(e->p->tp - 1)),
	                   .number = ptx_reg(e->f, PTX_C_B32),
	                   .tag = ptx_reg(e->f, PTX_C_B32)};

	h.at = ptx_add(e->f, PTX_T_s64, cg_arg_load(e, CG_ARG_XCHG_UC, 0), e->push->here);
	h.at = ptx_mad_wide(e->f, PTX_T_u32, h.source, ptx_imm(8), h.at);
	ptx_put_mov(e->f, PTX_T_b32, h.number, e->push->number);
	ptx_put_mov(e->f, PTX_T_b32, h.tag, e->push->tag);
	return h;
}

static void header_load(struct cg_emit *e, const struct header *h)
{
	const struct ptx_opnd word[2] = {h->number, h->tag};
	struct ptx_mod mod = cg_push_strong;

	mod.vec = 2;
	if (e->p->order != CG_HW)
		mod.order = PTX_ACQUIRE;
	ptx_guard(e->f, e->push->looks, false);
	ptx_put_ld(e->f, mod, PTX_T_b32, ptx_vec_of(word, 2), ptx_at(h->at, 0));
	ptx_unguard(e->f);
}

/* p, or the header is not (yet) what is expected. */
static struct ptx_opnd or_header(struct cg_emit *e, const struct header *h, struct ptx_opnd p)
{
	p = p.kind ? ptx_setpb(e->f, PTX_NE, PTX_B_OR, PTX_T_b32, h->number, e->push->number, p)
	           : ptx_setp(e->f, PTX_NE, PTX_T_b32, h->number, e->push->number);
	return ptx_setpb(e->f, PTX_NE, PTX_B_OR, PTX_T_b32, h->tag, e->push->tag, p);
}

/* Sets h->wrong, and with it why and stop. */
static void header_judge(struct cg_emit *e, struct header *h, struct ptx_opnd why,
                         struct ptx_opnd stop)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd sentinel = e->push->sentinel, come, other;

	come = ptx_setp(f, PTX_NE, PTX_T_b32, h->number, sentinel);
	come = ptx_setpb(f, PTX_NE, PTX_B_AND, PTX_T_b32, h->tag, sentinel, come);
	other = ptx_setp(f, PTX_NE, PTX_T_b32, h->number, e->push->number);
	other = ptx_setpb(f, PTX_NE, PTX_B_OR, PTX_T_b32, h->tag, e->push->tag, other);
	h->wrong = ptx_and(f, PTX_T_pred, come, other);
	ptx_put_selp(f, PTX_T_u32, why, ptx_imm(CG_WS_CONTRACT), why, h->wrong);
	ptx_put_or(f, PTX_T_pred, stop, stop, h->wrong);
}

/* What is recorded of it, where it is at fault or no word of the row is. */
static void header_blame(struct cg_emit *e, const struct poll *q, const struct header *h,
                         struct cg_failure *x)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd words = any_missing(e, q->word, q->n * q->vecs * q->words),
	                blame = h->wrong;

	if (words.kind)
		blame = ptx_or(f, PTX_T_pred, blame, ptx_not(f, PTX_T_pred, words));
	else
		blame = ptx_setp(f, PTX_EQ, PTX_T_u32, h->source, h->source);
	x->peer = ptx_selp(f, PTX_T_u32, h->source, x->peer, blame);
	x->seen = ptx_selp(f, PTX_T_b64, cg_push_pair(e, h->number, h->tag), x->seen, blame);
}

/* Few turns of the spin look at the abort word and the time: those loads would make it slow. */
static void spin(struct cg_emit *e, struct ptx_opnd turn, struct ptx_opnd again)
{
	struct ptx_fn *f = e->f;

	ptx_put_add(f, PTX_T_u32, turn, turn, ptx_imm(1));
	ptx_guard(f,
	          ptx_setp(f, PTX_NE, PTX_T_u32,
	                   ptx_and(f, PTX_T_b32, turn, ptx_imm(BLIND_TURNS - 1)), ptx_imm(0)),
	          false);
	ptx_bra(f, again);
	ptx_unguard(f);
}

static bool give_up(struct cg_emit *e, const struct poll *q, struct header *h, struct cg_failure *x)
{
	x->peer = missing_rank(e, q);
	x->expected = cg_push_header(e);
	x->seen = cg_push_pair(e, e->push->sentinel, e->row.index);
	if (h)
		header_blame(e, q, h, x);
	return cg_push_fail(e, x);
}

static bool wait_for(struct cg_emit *e, const struct poll *q, bool header)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd again = ptx_label_new(f, "poll"), got = ptx_label_new(f, "got"), missing,
	                since = ptx_mov(f, PTX_T_u64, ptx_imm(0)), stop = ptx_reg(f, PTX_C_PRED),
	                turn = ptx_mov(f, PTX_T_u32, ptx_imm(0));
	struct cg_failure x = {.ws = e->push->ws, .why = ptx_reg(f, PTX_C_B32), .phase = 2};
	struct header h = {0};

	if (header)
		h = header_begin(e);
	ptx_place(f, again);
	load_words(e, q);
	if (header)
		header_load(e, &h);
	missing = any_missing(e, q->word, q->n * q->vecs * q->words);
	if (header)
		missing = or_header(e, &h, missing);
	ptx_guard(f, missing, true);
	ptx_bra(f, got);
	ptx_unguard(f);
	spin(e, turn, again);
	if (!CG_EXPAND(e, "push_stuck", {"ws", x.ws}, {"since", since},
	               {"default", ptx_imm(CG_DEFAULT_LIMIT_NS)}, {"why", x.why}, {"stop", stop}))
		return false;
	if (header)
		header_judge(e, &h, x.why, stop);
	ptx_guard(f, stop, true);
	ptx_bra(f, again);
	ptx_unguard(f);
	if (!give_up(e, q, header ? &h : NULL, &x))
		return false;
	ptx_place(f, got);
	if (header) /* seen: no more */
		ptx_put_setp(f, PTX_NE, PTX_T_u32, e->push->looks, e->tid, e->tid);
	return true;
}

/* At one rank there is nothing to wait for but, where it is asked for, a header. */
static bool poll(struct cg_emit *e, const struct poll *q, bool header)
{
	return (!q->n && !header) || wait_for(e, q, header);
}

/* A word as the register that sums are made of. */
static struct ptx_opnd as_addend(struct cg_emit *e, const struct cg_value *v, struct ptx_opnd word)
{
	struct cg_shape sh = cg_shape_of(e, v, v->ir->param);

	return sh.size == 4 ? cg_bits_to_f32(e, word) : word;
}

/*
 * Rank g's words, of n: the places skip this rank, so they are place g's for g below it, place
 * g - 1's above it, and those in registers for itself.
 */
static void pick_rank(struct cg_emit *e, const struct poll *q, unsigned g,
                      const struct ptx_opnd *own, const struct ptx_opnd *last, unsigned n,
                      struct ptx_opnd *reg)
{
	struct ptx_fn *f = e->f;
	bool below = g < q->first + q->n;
	const struct ptx_opnd *here = below ? &q->word[(g - q->first) * n] : NULL,
	                      *prev = g > q->first ? &q->word[(g - 1 - q->first) * n] : last;
	struct ptx_opnd before = ptx_setp(f, PTX_GT, PTX_T_u32, e->rank, ptx_imm(g)),
	                self = ptx_setp(f, PTX_EQ, PTX_T_u32, e->rank, ptx_imm(g));

	for (unsigned i = 0; i < n; i++) {
		struct ptx_opnd w = own[i];

		if (g)
			w = ptx_selp(f, PTX_T_b32, w, prev[i], self);
		if (here)
			w = ptx_selp(f, PTX_T_b32, here[i], w, before);
		reg[i] = as_addend(e, q->v, w);
	}
}

/* Adds what a group of places gives: all its ranks, or, own words apart, those up to the last but one
 * place, since the next group's first place may come in between; at the end the last, too. */
static void add_places(struct cg_emit *e, const struct poll *q, const struct ptx_opnd *own,
                       const struct ptx_opnd *last, struct ptx_opnd *acc)
{
	unsigned each = q->vecs * q->words, end = q->first + q->n;
	struct ptx_opnd *reg = arena_news(e->a, struct ptx_opnd, each);

	if (cg_push_own_apart(e) && end == e->p->xchg_ranks)
		end++;
	for (unsigned g = q->first; g < end; g++) {
		if (cg_push_own_apart(e))
			pick_rank(e, q, g, own, last, each, reg);
		else
			for (unsigned i = 0; i < each; i++)
				reg[i] = as_addend(e, q->v, q->word[(g - q->first) * each + i]);
		cg_sum_add_vectors(e, q->v, reg, 1, acc, !g, q->vecs);
	}
}

/* `vecs` vectors of the value, from `from` on. */
static bool consume_vectors(struct cg_emit *e, struct cg_value *v, const struct ptx_opnd *own,
                            unsigned from, unsigned vecs, bool first)
{
	unsigned places = e->p->xchg_ranks, most = e->p->sum_ranks;
	struct ptx_opnd xchg = cg_arg_load(e, CG_ARG_XCHG_UC, 0), *last = NULL;
	struct poll q = {.v = v,
	                 .at = ptx_add(e->f, PTX_T_s64, cg_push_row_at(e, v, e->row.index), xchg),
	                 .words = cg_sum_words(e->rp, v),
	                 .from = from,
	                 .vecs = vecs};
	unsigned each = q.vecs * q.words;
	struct ptx_opnd *acc = arena_news(e->a, struct ptx_opnd, vecs * v->n);

	cg_at(e, v);
	do { /* once for one rank alone, which has no places */
		q.n = places - q.first < most ? places - q.first : most;
		q.word = arena_news(e->a, struct ptx_opnd, q.n * each + 1);
		for (unsigned i = 0; i < q.n * each; i++) {
			q.word[i] = ptx_reg(e->f, PTX_C_B32);
			if (v->home == CG_HOME_ELEM && cg_partial(e, from + i / q.words % vecs))
				ptx_put_mov(e->f, PTX_T_b32, q.word[i], ptx_imm(0));
		}
		if (!poll(e, &q, first && !q.first))
			return false;
		add_places(e, &q, own, last, acc);
		last = q.n ? &q.word[(q.n - 1) * each] : NULL;
		q.first += q.n;
	} while (q.first < places);
	for (unsigned vec = 0; vec < vecs; vec++)
		cg_sum_round_vector(e, v, &acc[vec * v->n], from + vec);
	return true;
}

static bool consume_value(struct cg_emit *e, struct cg_value *v, const struct ptx_opnd *own,
                          bool first)
{
	unsigned vecs = cg_vecs_of(e, v), n = vecs, words = cg_sum_words(e->rp, v);

	if (e->p->wide && v->home != CG_HOME_ROW)
		n = WIDE_WORDS / (words * e->p->sum_ranks + v->n);
	n = n ? n : 1;
	for (unsigned from = 0; from < vecs; from += n) {
		unsigned some = vecs - from < n ? vecs - from : n;

		if (!consume_vectors(e, v, own, from, some, first && !from))
			return false;
		for (unsigned vec = from; e->p->wide && vec < from + some; vec++)
			if (v->home != CG_HOME_ROW)
				cg_wide_park(e, v, vec);
	}
	return true;
}

bool cg_push_consume(struct cg_emit *e, const struct cg_slot *s, struct ptx_opnd leave)
{
	unsigned slot = (unsigned)(s - e->slot);
	bool first = true;

	cg_push_ahead(e, slot);
	cg_push_clear(e);
	for (unsigned i = 0; i < e->rp->nval; i++) {
		if (!cg_pushed(&e->rp->val[i]))
			continue;
		if (!consume_value(e, &e->rp->val[i], e->push->own[slot * e->rp->nval + i], first))
			return false;
		first = false;
	}
	cg_push_agree_on_row(e, leave);
	return true;
}
