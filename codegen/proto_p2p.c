/*
 * p2p-twoshot: a row's addends come from the peers into registers.  Those of the first sum_ranks
 * ranks are loaded rows ahead; where there are more, they follow in groups, into the same
 * registers.
 */
#include "codegen/emit.h"

static void consume_value(struct cg_emit *e, struct cg_value *v, const struct ptx_opnd *addend)
{
	unsigned tp = e->p->tp, n = e->p->sum_ranks;
	struct ptx_opnd *acc = arena_news(e->a, struct ptx_opnd, e->p->vecs * v->n), none = {0};

	cg_at(e, v);
	cg_sum_add(e, v, addend, n, acc, true);
	for (unsigned first = n; first < tp; first += n) {
		n = tp - first < n ? tp - first : n;
		cg_load_addends(e, v, &e->row, none, first, n, addend);
		cg_sum_add(e, v, addend, n, acc, false);
	}
	cg_sum_round(e, v, acc);
}

/* Of a wide row, a vector; its addends are not loaded ahead. */
void cg_p2p_vector(struct cg_emit *e, struct cg_value *v, unsigned vec)
{
	unsigned tp = e->p->tp, n, words = cg_sum_words(e->rp, v);
	struct ptx_opnd *acc = arena_news(e->a, struct ptx_opnd, v->n);

	cg_at(e, v);
	for (unsigned first = 0; first < tp; first += n) {
		struct ptx_opnd *addend = arena_news(e->a, struct ptx_opnd, tp * words);

		n = tp - first < e->p->sum_ranks ? tp - first : e->p->sum_ranks;
		cg_load_addend_vector(e, v, vec, first, n, addend);
		cg_sum_add_vectors(e, v, addend, n, acc, !first, 1);
	}
	cg_sum_round_vector(e, v, acc, vec);
}

bool cg_p2p_consume(struct cg_emit *e, const struct cg_slot *s, struct ptx_opnd leave)
{
	(void)leave;
	for (unsigned i = 0; i < e->rp->nval; i++)
		if (e->rp->val[i].summed && e->rp->val[i].used &&
		    !(e->p->wide && e->rp->val[i].home == CG_HOME_ELEM))
			consume_value(e, &e->rp->val[i], s->addend[i]);
	return true;
}
