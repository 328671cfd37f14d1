/*
 * What an instruction, a kernel, a module need: least .version and target, the parameter block.
 * The row gives the base; the table of rules raises it for modifiers and types.
 */
#include "codegen/ptx/spell.h"

#define T(ID) (1u << PTX_T_##ID)
enum {
	HALF_F = T(f16) | T(f16x2),
	HALF_B = T(bf16) | T(bf16x2),
	B64_ = T(b64) | T(u64) | T(s64) | T(f64)
};

enum match { M_ALWAYS, M_ORDER, M_SCOPE, M_VEC, M_ACC, M_TYPE2, M_SATFINITE, M_NC, M_SPACE, M_FTZ };

/* Rows from `first` to `last` of insns.def, of one of these types (0: any), whose modifier is
 * `value`. */
/* clang-format off */
static const struct rule {
	uint16_t first, last;
	uint32_t types;
	enum match match;
	uint32_t value;
	uint8_t version, sm;
} rules[] = {
	/* half-precision arithmetic */
	{PTX_addf, PTX_fma,  HALF_F, M_ALWAYS, 0, 42, 53},
	{PTX_addf, PTX_mulf, HALF_B, M_ALWAYS, 0, 78, 90},
	{PTX_fma,  PTX_fma,  HALF_B, M_ALWAYS, 0, 70, 80},
	{PTX_minf, PTX_maxf, HALF_F | HALF_B, M_ALWAYS, 0, 70, 80},
	{PTX_negf, PTX_negf, HALF_F, M_ALWAYS, 0, 60, 53},
	{PTX_absf, PTX_absf, HALF_F, M_ALWAYS, 0, 65, 53},
	{PTX_negf, PTX_absf, HALF_B, M_ALWAYS, 0, 70, 80},
	{PTX_setp, PTX_setpb, HALF_F, M_ALWAYS, 0, 42, 53},
	{PTX_setp, PTX_setpb, HALF_B, M_ALWAYS, 0, 78, 90},
	/* conversions */
	{PTX_cvt, PTX_cvt, T(bf16), M_TYPE2, T(f32), 70, 80},
	{PTX_cvt, PTX_cvt, T(bf16), M_TYPE2, ~T(f32), 78, 90},
	{PTX_cvt, PTX_cvt, T(f32), M_TYPE2, T(bf16), 71, 80},
	{PTX_cvt, PTX_cvt, T(f32), M_FTZ, T(bf16), 78, 90},
	{PTX_cvt, PTX_cvt, ~(T(f32) | T(bf16)), M_TYPE2, T(bf16), 78, 90},
	{PTX_cvta, PTX_cvta_to, 0, M_SPACE, 1u << PTX_PARAM, 77, 70},
	{PTX_cvt, PTX_cvt2, 0, M_SATFINITE, 0, 81, 80},
	/* memory order, scopes, widths */
	{PTX_ld, PTX_red, 0, M_ORDER, 1u << PTX_WEAK | 1u << PTX_RELAXED | 1u << PTX_ACQUIRE | 1u << PTX_RELEASE | 1u << PTX_ACQ_REL, 60, 70},
	{PTX_ld, PTX_fence, 0, M_SCOPE, 1u << PTX_CLUSTER, 78, 90},
	{PTX_atom, PTX_red, 0, M_SCOPE, 1u << PTX_CTA | 1u << PTX_GPU | 1u << PTX_SYS, 50, 60},
	{PTX_ld, PTX_ld, 0, M_NC, 0, 31, 32},
	{PTX_ld, PTX_st, 0, M_VEC, 1u << 8, 88, 100},
	{PTX_ld, PTX_st, B64_, M_VEC, 1u << 4, 88, 100},
	{PTX_atom_cas, PTX_atom_cas, T(b16), M_ALWAYS, 0, 63, 70},
	{PTX_atom, PTX_red, T(f64), M_ALWAYS, 0, 50, 60},
	{PTX_mm_ld, PTX_mm_red, 0, M_ACC, 0, 82, 90},
	{PTX_fence, PTX_fence, 0, M_ORDER, 1u << PTX_ACQUIRE | 1u << PTX_RELEASE, 86, 90},
};
/* clang-format on */

static bool applies(const struct rule *r, const struct ptx_insn *i)
{
	const struct ptx_mod *m = &i->mod;

	if (i->op < r->first || i->op > r->last)
		return false;
	if (r->types && (i->type >= PTX_NTYPES || !(r->types >> i->type & 1)))
		return false;
	switch (r->match) {
	case M_ALWAYS:
		return true;
	case M_ORDER:
		return r->value >> m->order & 1;
	case M_SCOPE:
		return r->value >> m->scope & 1;
	case M_VEC:
		return r->value >> m->vec & 1;
	case M_ACC:
		return m->acc;
	case M_TYPE2:
		return m->type2 < PTX_NTYPES && (r->value >> m->type2 & 1);
	case M_SATFINITE:
		return m->sat == PTX_SATFINITE;
	case M_NC:
		return m->nc;
	case M_FTZ:
		return m->ftz && m->type2 < PTX_NTYPES && (r->value >> m->type2 & 1);
	case M_SPACE:
		return r->value >> m->space & 1;
	}
	return false;
}

void ptx_insn_needs(const struct ptx_insn *i, unsigned *version, unsigned *sm)
{
	*version = *sm = 0;
	if (i->op >= PTX_NOPS)
		return;
	*version = ptx_insn_info[i->op].version;
	*sm = ptx_insn_info[i->op].sm;
	for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++)
		if (applies(&rules[k], i)) {
			if (rules[k].version > *version)
				*version = rules[k].version;
			if (rules[k].sm > *sm)
				*sm = rules[k].sm;
		}
}

void ptx_module_minimum(struct ptx_module *m)
{
	unsigned known;

	for (const struct ptx_fn *f = m->fn; f; f = f->next)
		for (uint32_t k = 0; k < f->ninsn; k++) {
			unsigned version, sm;

			ptx_insn_needs(&f->insn[k], &version, &sm);
			if (version > m->version)
				m->version = version;
			if (sm > m->sm)
				m->sm = sm;
		}
	known = ptx_target_version(m->sm, m->sm_suffix);
	if (known > m->version)
		m->version = known;
}

uint32_t ptx_param_layout(struct ptx_fn *f)
{
	uint32_t at = 0;

	for (unsigned k = 0; k < f->nparam; k++) {
		struct ptx_param *p = &f->param[k];
		uint32_t size = (ptx_type_info[p->type].bits + 7) / 8,
		         align = p->align > size ? p->align : size;

		at = (at + align - 1) / align * align;
		p->offset = at;
		at += size * (p->count ? p->count : 1);
	}
	return at;
}
