/*
 * Sums made in registers: addends of the ranks, in order of ranks, in f32, from +0; rounded once.
 * So the bits are the same on every rank and for every protocol that sums so; a sum is never -0,
 * and its NaNs are the canonical one.
 */
#include "codegen/emit.h"

unsigned cg_sum_words(const struct cg_rowprog *rp, const struct cg_value *v)
{
	unsigned bytes = v->n * cg_dtype_bytes(rp->func->param[v->ir->param].type.dtype);

	return bytes < 4 ? 1 : bytes / 4;
}

/* Element k of a vector in registers. */
static struct ptx_opnd element(struct cg_emit *e, const struct cg_shape *s,
                               const struct ptx_opnd *reg, unsigned k)
{
	if (s->size == 4)
		return reg[k];
	return cg_widen(e, s->dtype, reg[k / 2], k % 2);
}

void cg_sum_add_vectors(struct cg_emit *e, const struct cg_value *v, const struct ptx_opnd *addend,
                        unsigned n, struct ptx_opnd *acc, bool start, unsigned vecs)
{
	struct cg_shape sh = cg_shape_of(e, v, v->ir->param);

	for (unsigned vec = 0; vec < vecs; vec++)
		for (unsigned k = 0; k < sh.n; k++) {
			struct ptx_opnd *to = &acc[vec * sh.n + k];

			for (unsigned g = 0; g < n; g++)
				*to = ptx_addf(
				        e->f, PTX_T_f32,
				        element(e, &sh, &addend[(g * vecs + vec) * sh.regs], k),
				        start && !g ? ptx_f32(0.0f) : *to);
		}
}

void cg_sum_add(struct cg_emit *e, const struct cg_value *v, const struct ptx_opnd *addend,
                unsigned n, struct ptx_opnd *acc, bool start)
{
	cg_sum_add_vectors(e, v, addend, n, acc, start, cg_vecs_of(e, v));
}

static void sum_round(struct cg_emit *e, struct cg_value *v, const struct ptx_opnd *acc,
                      unsigned vec, unsigned vecs)
{
	unsigned t = v->ir->type.dtype, n = vecs * v->n;
	struct ptx_opnd zero = {0}, *f = v->f + vec * v->n,
	                *w = v->w + (v->n > 1 ? vec * v->n / 2 : vec);

	if (!v->half) {
		for (unsigned k = 0; k < n; k++)
			f[k] = acc[k];
		if (v->home == CG_HOME_ROW && t != IR_F32)
			f[0] = cg_rounded(e, t, acc[0]);
		return;
	}
	if (v->n == 1)
		zero = ptx_mov(e->f, PTX_T_f32, ptx_f32(0.0f));
	for (unsigned k = 0; k < n; k += (v->n > 1 ? 2 : 1))
		w[v->n > 1 ? k / 2 : k] = cg_narrow(e, t, v->n > 1 ? acc[k + 1] : zero, acc[k]);
}

void cg_sum_round(struct cg_emit *e, struct cg_value *v, const struct ptx_opnd *acc)
{
	sum_round(e, v, acc, 0, cg_vecs_of(e, v));
}

void cg_sum_round_vector(struct cg_emit *e, struct cg_value *v, const struct ptx_opnd *acc,
                         unsigned vec)
{
	sum_round(e, v, acc, vec, 1);
}
