/* Where a kernel's PTX can be changed, and the changes. */
#include "tests/mutants/derive.h"
#include "tests/mutants/mutants.h"
#include <string.h>

enum { MOST = 512, COPIES = 2 };

const char *const derive_name[DERIVE_NOPS] = {"drop", "order", "scope", "plus", "minus"};

static bool strong(const struct ptx_insn *i)
{
	return i->mod.order > PTX_WEAK;
}

static bool stores(const struct ptx_insn *i)
{
	return i->op == PTX_st || i->op == PTX_mm_st || i->op == PTX_red || i->op == PTX_mm_red;
}

static bool global(const struct ptx_insn *i)
{
	return i->mod.space == PTX_GLOBAL;
}

/* It synchronises, or publishes. */
static bool can_drop(const struct ptx_insn *i)
{
	switch (i->op) {
	case PTX_fence:
	case PTX_fence_alias:
	case PTX_fence_async:
	case PTX_fence_async_shared:
	case PTX_fence_async_global:
	case PTX_fence_mbar_init:
	case PTX_bar_sync:
	case PTX_bar_syncn:
	case PTX_bar_warp:
	case PTX_gdc_wait:
	case PTX_bulk_wait:
	case PTX_bulk_wait_read:
	case PTX_mbar_init:
	case PTX_mbar_arrive:
	case PTX_mbar_arrive_tx:
	case PTX_bulk_commit:
		return true;
	default:
		return stores(i) && global(i) && (strong(i) || !i->mod.vec);
	}
}

static bool weaker_order(const struct ptx_insn *i, uint8_t *to)
{
	const bool memory = i->op == PTX_ld || stores(i) || i->op == PTX_mm_ld ||
	                    i->op == PTX_atom || i->op == PTX_atom_cas || i->op == PTX_atom_exch;

	if (!memory || i->mod.order < PTX_RELAXED)
		return false;
	*to = i->mod.order > PTX_RELAXED ? PTX_RELAXED : PTX_O_NONE;
	return i->mod.order > PTX_RELAXED || i->op == PTX_ld || i->op == PTX_st ||
	       i->op == PTX_mm_st || i->op == PTX_mm_ld;
}

static bool has_imm(const struct ptx_insn *i, unsigned k)
{
	static const uint16_t ops[] = {PTX_add, PTX_sub,  PTX_mul,  PTX_mad,
	                               PTX_rem, PTX_setp, PTX_setpb};
	const struct ptx_opnd *o = &i->o[k];

	if (o->kind == PTX_MEM && global(i) && !i->mod.vec && (strong(i) || stores(i)))
		return true;
	if (o->kind != PTX_IMM || o->cls == PTX_C_F32 || o->cls == PTX_C_F64)
		return false;
	if (i->type == PTX_T_b32 || i->type == PTX_T_b16 || i->type == PTX_T_bf16x2)
		return i->op == PTX_atom || i->op == PTX_atom_cas; /* else: arithmetic on values */
	for (size_t n = 0; n < sizeof ops / sizeof *ops; n++)
		if (i->op == ops[n])
			return true;
	return i->op == PTX_atom || i->op == PTX_atom_cas || i->op == PTX_bulk_wait_read ||
	       i->op == PTX_bulk_wait;
}

/* The same instruction but for registers and, of addresses, what unrolling adds. */
static bool alike(const struct ptx_insn *a, const struct ptx_insn *b)
{
	if (a->op != b->op || a->type != b->type || memcmp(&a->mod, &b->mod, sizeof a->mod) ||
	    a->loc_line != b->loc_line || a->nopnd != b->nopnd)
		return false;
	for (unsigned k = 0; k < a->nopnd; k++)
		if (a->o[k].kind != b->o[k].kind || a->o[k].cls != b->o[k].cls ||
		    (a->o[k].kind == PTX_IMM && a->o[k].imm != b->o[k].imm) ||
		    (a->o[k].kind == PTX_MEM && !a->mod.vec && a->o[k].imm != b->o[k].imm))
			return false;
	return true;
}

/* A copy between the first and the last; how many are before it. */
static bool one_of_many(const struct ptx_fn *f, uint32_t at, unsigned *first)
{
	unsigned before = 0, after = 0;

	for (uint32_t i = 0; i < f->ninsn; i++)
		if (i != at && alike(&f->insn[i], &f->insn[at])) {
			before += i < at;
			after += i > at;
		}
	*first = before;
	return before >= COPIES - 1 && after > 0;
}

/* A loop does not go round again. */
static bool is_back(const struct ptx_fn *f, uint32_t at)
{
	const struct ptx_insn *i = &f->insn[at];

	return i->op == PTX_bra && i->o[0].kind == PTX_LAB && i->o[0].reg[0] < f->nlabel &&
	       f->label[i->o[0].reg[0]].at <= at;
}

/* It orders, or publishes and waits, and does not belong to the record of a failure. */
static bool synchronises(const struct ptx_insn *i)
{
	const bool memory = i->op == PTX_ld || i->op == PTX_mm_ld || stores(i);

	return memory ? strong(i) && !(i->op == PTX_st && i->type == PTX_T_u32) : can_drop(i);
}

struct derived *derive_all(struct arena *a, const struct ptx_fn *f, bool sync, unsigned *n)
{
	struct derived *list = arena_news(a, struct derived, MOST);
	unsigned before;
	uint8_t to;

	*n = 0;
	for (uint32_t at = 0; at < f->ninsn && *n + 8 < MOST; at++) {
		const struct ptx_insn *i = &f->insn[at];

		if (one_of_many(f, at, &before) || (sync && !synchronises(i)))
			continue;
		if (can_drop(i) || (!sync && is_back(f, at)))
			list[(*n)++] = (struct derived){DERIVE_DROP, at, 0, 0};
		if (weaker_order(i, &to))
			list[(*n)++] = (struct derived){DERIVE_ORDER, at, 0, 0};
		if ((i->mod.scope == PTX_SYS && i->mod.order > PTX_WEAK) || i->op == PTX_bar_sync)
			list[(*n)++] = (struct derived){DERIVE_SCOPE, at, 0, 0};
		for (unsigned k = 0; !sync && !before && k < i->nopnd && *n + 2 < MOST; k++) {
			if (!has_imm(i, k))
				continue;
			list[(*n)++] = (struct derived){DERIVE_PLUS, at, k, 0};
			if (i->o[k].kind == PTX_IMM && i->o[k].imm > 1)
				list[(*n)++] = (struct derived){DERIVE_MINUS, at, k, 0};
		}
	}
	for (unsigned k = 0; k < *n; k++)
		list[k].number = k + 1;
	return list;
}

void derive_apply(struct ptx_fn *f, const struct derived *x)
{
	struct ptx_insn *i = &f->insn[x->at];
	struct ptx_opnd *o = &i->o[x->opnd];
	uint8_t to;

	switch (x->op) {
	case DERIVE_DROP:
		mutant_drop(f, x->at);
		break;
	case DERIVE_ORDER:
		if (weaker_order(i, &to)) {
			i->mod.order = to;
			if (to == PTX_O_NONE)
				i->mod.scope = PTX_S_NONE;
		}
		break;
	case DERIVE_SCOPE:
		if (i->op == PTX_bar_sync) {
			i->op = PTX_bar_warp;
			i->o[0] = ptx_imm(-1);
		} else {
			i->mod.scope = PTX_GPU;
		}
		break;
	case DERIVE_PLUS: /* of an address: the next word */
		o->imm += o->kind == PTX_MEM ? (ptx_type_info[i->type].bits + 7) / 8 : 1;
		break;
	default:
		o->imm--;
		break;
	}
}
