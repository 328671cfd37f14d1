/*
 * push and mm-push, the receiving half: a row's words are polled until none is the sentinel, and
 * summed in order of ranks.  Beside the first words of a row the headers of all ranks are compared.
 */
#include "codegen/push.h"

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
	struct ptx_opnd at;    /* b64 */
	struct ptx_opnd *word; /* [rank of the group][vector][word] */
	unsigned first, n;     /* ranks */
	unsigned words, vecs;
};

static void load_words(struct cg_emit *e, const struct poll *q)
{
	struct ptx_mod mod = cg_push_strong;

	for (unsigned g = 0; g < q->n; g++)
		for (unsigned vec = 0; vec < q->vecs; vec++) {
			int64_t at = cg_push_vec_at(e, q->v, vec) +
			             (int64_t)(q->first + g) * e->p->xchg_row;

			if (q->v->home == CG_HOME_ELEM && cg_partial(e, vec))
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
	struct ptx_opnd peer = ptx_mov(e->f, PTX_T_u32, ptx_imm(q->first));

	for (unsigned g = 1; g < q->n; g++)
		peer = ptx_selp(e->f, PTX_T_u32, ptx_imm(q->first + g), peer,
		                any_missing(e, &q->word[g * each], each));
	return peer;
}

/* Beside a row's first words: lane i also looks at the header of source i, so that ranks that launched something else are
 * found, and not waited out. */
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
	return h;
}

static void header_load(struct cg_emit *e, const struct header *h)
{
	const struct ptx_opnd word[2] = {h->number, h->tag};
	struct ptx_mod mod = cg_push_strong;

	mod.vec = 2;
	ptx_put_ld(e->f, mod, PTX_T_b32, ptx_vec_of(word, 2), ptx_at(h->at, 0));
}

/* p, or the header is not (yet) what is expected. */
static struct ptx_opnd or_header(struct cg_emit *e, const struct header *h, struct ptx_opnd p)
{
	p = ptx_setpb(e->f, PTX_NE, PTX_B_OR, PTX_T_b32, h->number, e->push->number, p);
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
	struct ptx_opnd words = any_missing(e, q->word, q->n * q->vecs * q->words), blame;

	blame = ptx_not(f, PTX_T_pred, words);
	blame = ptx_or(f, PTX_T_pred, blame, h->wrong);
	x->peer = ptx_selp(f, PTX_T_u32, h->source, x->peer, blame);
	x->seen = ptx_selp(f, PTX_T_b64, cg_push_pair(e, h->number, h->tag), x->seen, blame);
}

static bool poll(struct cg_emit *e, const struct poll *q, bool header)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd again = ptx_label_new(f, "poll"), got = ptx_label_new(f, "got"), missing,
	                since = ptx_mov(f, PTX_T_u64, ptx_imm(0)), stop = ptx_reg(f, PTX_C_PRED);
	struct cg_failure x = {.ws = e->push->ws, .why = ptx_reg(f, PTX_C_B32), .phase = 2};
	struct header h = {0};

	if (header)
		h = header_begin(e);
	ptx_place(f, again);
	load_words(e, q);
	if (header)
		header_load(e, &h);
	missing = any_missing(e, q->word, q->n * q->vecs * q->words);
	ptx_guard(f, header ? or_header(e, &h, missing) : missing, true);
	ptx_bra(f, got);
	ptx_unguard(f);
	if (!CG_EXPAND(e, "push_stuck", {"ws", x.ws}, {"since", since},
	               {"default", ptx_imm(CG_DEFAULT_LIMIT_NS)}, {"why", x.why}, {"stop", stop}))
		return false;
	if (header)
		header_judge(e, &h, x.why, stop);
	ptx_guard(f, stop, true);
	ptx_bra(f, again);
	ptx_unguard(f);
	x.peer = missing_rank(e, q);
	x.expected = cg_push_header(e);
	x.seen = cg_push_pair(e, e->push->sentinel, e->row.index);
	if (header)
		header_blame(e, q, &h, &x);
	if (!cg_push_fail(e, &x))
		return false;
	ptx_place(f, got);
	return true;
}

/* Words as the registers that sums are made of. */
static void as_addends(struct cg_emit *e, const struct poll *q, struct ptx_opnd *reg)
{
	struct cg_shape sh = cg_shape_of(e, q->v, q->v->ir->param);

	for (unsigned i = 0; i < q->n * q->vecs * q->words; i++)
		reg[i] = sh.size == 4 ? cg_bits_to_f32(e, q->word[i]) : q->word[i];
}

static bool consume_value(struct cg_emit *e, struct cg_value *v, bool first)
{
	unsigned tp = e->p->tp, most = e->p->sum_ranks;
	struct ptx_opnd xchg = cg_arg_load(e, CG_ARG_XCHG_UC, 0);
	struct poll q = {.v = v,
	                 .at = ptx_add(e->f, PTX_T_s64, cg_push_row_at(e, v, e->row.index), xchg),
	                 .words = cg_sum_words(e->rp, v),
	                 .vecs = cg_vecs_of(e, v)};
	unsigned each = q.vecs * q.words;
	struct ptx_opnd *acc = arena_news(e->a, struct ptx_opnd, e->p->vecs * v->n);
	struct ptx_opnd *reg = arena_news(e->a, struct ptx_opnd, most * each);

	cg_at(e, v);
	q.word = arena_news(e->a, struct ptx_opnd, most * each);
	for (q.first = 0; q.first < tp; q.first += most) {
		q.n = tp - q.first < most ? tp - q.first : most;
		for (unsigned i = 0; i < q.n * each; i++) {
			q.word[i] = ptx_reg(e->f, PTX_C_B32);
			if (v->home == CG_HOME_ELEM && cg_partial(e, i / q.words % q.vecs))
				ptx_put_mov(e->f, PTX_T_b32, q.word[i], ptx_imm(0));
		}
		if (!poll(e, &q, first && !q.first))
			return false;
		as_addends(e, &q, reg);
		cg_sum_add(e, v, reg, q.n, acc, !q.first);
	}
	cg_sum_round(e, v, acc);
	return true;
}

bool cg_push_consume(struct cg_emit *e, const struct cg_slot *s, struct ptx_opnd leave)
{
	bool first = true;

	(void)s;
	for (unsigned i = 0; i < e->rp->nval; i++) {
		if (!cg_pushed(&e->rp->val[i]))
			continue;
		if (!consume_value(e, &e->rp->val[i], first))
			return false;
		first = false;
	}
	cg_push_agree_on_row(e, leave);
	return true;
}
