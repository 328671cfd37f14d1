/*
 * What modifiers and types go together.  Memory rows: which orders and spaces (PTX ISA 9.1,
 * sections 9.7.9 and 9.7.13, and for multimem 9.7.9.14); arithmetic: which roundings; conversions
 * by the kinds of their two types.
 */
#include "codegen/ptx/rules.h"

#define T(ID)       (1u << PTX_T_##ID)
#define IN(v, mask) ((mask) >> (v)&1u)
enum {
	O_PLAIN = 1u << PTX_O_NONE | 1u << PTX_WEAK,
	O_RLX = 1u << PTX_RELAXED,
	O_ACQ = 1u << PTX_ACQUIRE,
	O_REL = 1u << PTX_RELEASE,
	O_BOTH = 1u << PTX_ACQ_REL,
	O_SC = 1u << PTX_SC,
	O_VOL = 1u << PTX_VOLATILE,
	O_NONE_ = 1u << PTX_O_NONE,
	S_GEN = 1u << PTX_GENERIC,
	S_GLOBAL = 1u << PTX_GLOBAL,
	S_SHARED = 1u << PTX_SHARED,
	S_LOCAL = 1u << PTX_LOCAL,
	S_STRONG = S_GEN | S_GLOBAL | S_SHARED,
	S_ALL = S_STRONG | S_LOCAL | 1u << PTX_PARAM | 1u << PTX_CONST,
	FLOATS = T(f16) | T(bf16) | T(f16x2) | T(bf16x2) | T(f32) | T(f64),
	HALVES = T(f16) | T(bf16) | T(f16x2) | T(bf16x2),
	SIGNED = T(s8) | T(s16) | T(s32) | T(s64),
	UNSIGNED = T(u8) | T(u16) | T(u32) | T(u64),
	BITS = T(b8) | T(b16) | T(b32) | T(b64),
};

/* clang-format off */
/* Rows with an address or a fence: orders, spaces, and whether a scope may stand without an order. */
static const struct memory_rule {
	uint16_t op;
	uint16_t orders;
	uint8_t spaces;
	bool scope_alone;
} memory_rules[] = {
	{PTX_ld,        O_PLAIN | O_VOL | O_RLX | O_ACQ,           S_ALL,                                false},
	{PTX_st,        O_PLAIN | O_VOL | O_RLX | O_REL,           S_STRONG | S_LOCAL,                   false},
	{PTX_atom,      O_NONE_ | O_RLX | O_ACQ | O_REL | O_BOTH,  S_STRONG,                             true},
	{PTX_atom_cas,  O_NONE_ | O_RLX | O_ACQ | O_REL | O_BOTH,  S_STRONG,                             true},
	{PTX_atom_exch, O_NONE_ | O_RLX | O_ACQ | O_REL | O_BOTH,  S_STRONG,                             true},
	{PTX_red,       O_NONE_ | O_RLX | O_REL,                   S_STRONG,                             true},
	{PTX_mm_ld,     O_PLAIN | O_RLX | O_ACQ,                   S_GEN | S_GLOBAL,                     false},
	{PTX_mm_st,     O_PLAIN | O_RLX | O_REL,                   S_GEN | S_GLOBAL,                     false},
	{PTX_mm_red,    O_NONE_ | O_RLX | O_REL,                   S_GEN | S_GLOBAL,                     false},
	{PTX_mbar_init,       O_NONE_, S_GEN | S_SHARED, false},
	{PTX_mbar_inval,      O_NONE_, S_GEN | S_SHARED, false},
	{PTX_mbar_arrive,     O_NONE_, S_GEN | S_SHARED, false},
	{PTX_mbar_arrive_tx,  O_NONE_, S_GEN | S_SHARED, false},
	{PTX_mbar_test,       O_NONE_, S_GEN | S_SHARED, false},
	{PTX_mbar_test_parity, O_NONE_, S_GEN | S_SHARED, false},
	{PTX_mbar_try,        O_NONE_, S_GEN | S_SHARED, false},
	{PTX_mbar_try_parity, O_NONE_, S_GEN | S_SHARED, false},
	{PTX_fence,     O_NONE_ | O_SC | O_BOTH | O_ACQ | O_REL,   S_GEN,                                true},
	{PTX_cvta,      O_NONE_, S_GLOBAL | S_SHARED | S_LOCAL | 1u << PTX_CONST | 1u << PTX_PARAM,      false},
	{PTX_cvta_to,   O_NONE_, S_GLOBAL | S_SHARED | S_LOCAL | 1u << PTX_CONST | 1u << PTX_PARAM,      false},
};

/* Reductions: for these operations these types. */
static const struct red_rule {
	uint16_t first, last;
	uint16_t ops;
	uint32_t types;
} red_rules[] = {
	{PTX_atom,   PTX_red,    1u << PTX_ADD,                                        T(u32) | T(s32) | T(u64) | T(f32) | T(f64)},
	{PTX_atom,   PTX_red,    1u << PTX_MIN | 1u << PTX_MAX,                        T(u32) | T(s32) | T(u64) | T(s64)},
	{PTX_atom,   PTX_red,    1u << PTX_AND | 1u << PTX_OR | 1u << PTX_XOR,         T(b32) | T(b64)},
	{PTX_atom,   PTX_red,    1u << PTX_INC | 1u << PTX_DEC,                        T(u32)},
	{PTX_mm_ld,  PTX_mm_red, 1u << PTX_ADD,                                        T(u32) | T(s32) | T(u64) | FLOATS},
	{PTX_mm_ld,  PTX_mm_red, 1u << PTX_MIN | 1u << PTX_MAX,                        T(u32) | T(s32) | T(u64) | T(s64)},
	{PTX_mm_ld,  PTX_mm_ld,  1u << PTX_MIN | 1u << PTX_MAX,                        HALVES},
	{PTX_mm_ld,  PTX_mm_red, 1u << PTX_AND | 1u << PTX_OR | 1u << PTX_XOR,         T(b32) | T(b64)},
};

/* Vector widths of multimem, by type: bits 1 (scalar), 2, 4, 8. */
static const struct {
	uint32_t types;
	uint16_t widths;
} multimem_widths[] = {
	{T(f16) | T(bf16),                       1u << 2 | 1u << 4 | 1u << 8},
	{T(f16x2) | T(bf16x2) | T(f32),          1u << 1 | 1u << 2 | 1u << 4},
	{T(f64) | T(u32) | T(s32) | T(u64) | T(s64) | T(b32) | T(b64), 1u << 1},
};
/* clang-format on */

static unsigned bits(unsigned t)
{
	return t < PTX_NTYPES ? ptx_type_info[t].bits : 0;
}

unsigned ptx_access_bytes(const struct ptx_insn *i)
{
	if (i->op >= PTX_mbar_init && i->op <= PTX_mbar_try_parity)
		return 8;
	return (bits(i->type) + 7) / 8 * (i->mod.vec ? i->mod.vec : 1);
}

static const char *check_order(const struct ptx_insn *i)
{
	const struct ptx_mod *m = &i->mod;
	bool scoped = m->order != PTX_O_NONE && m->order != PTX_WEAK && m->order != PTX_VOLATILE;

	for (size_t k = 0; k < sizeof memory_rules / sizeof memory_rules[0]; k++) {
		const struct memory_rule *r = &memory_rules[k];

		if (r->op != i->op)
			continue;
		if (!IN(m->order, r->orders))
			return "this memory order is not for this instruction";
		if (scoped && !m->scope)
			return "a memory order needs a scope";
		if (!scoped && m->scope && (!r->scope_alone || m->order))
			return "a scope needs a memory order";
		if (!IN(m->space, r->spaces))
			return "this state space is not for this instruction";
		if ((scoped || m->order == PTX_VOLATILE) && !IN(m->space, S_STRONG))
			return "ordered accesses are to global or shared memory";
		if (i->op == PTX_fence && !m->scope)
			return "a fence needs a scope";
	}
	return NULL;
}

static const char *check_vector(const struct ptx_insn *i)
{
	unsigned n = i->mod.vec, total = bits(i->type) * n;

	if (!n)
		return NULL;
	if (total <= 128 && n <= 4)
		return NULL;
	if (total == 256 && bits(i->type) >= 32 && (i->mod.space == PTX_GLOBAL))
		return NULL;
	return "a vector access is of at most 4 elements and 128 bits (256 bits: .v8 of 32 or .v4 "
	       "of 64 bits, .global)";
}

static const char *check_multimem(const struct ptx_insn *i)
{
	const struct ptx_mod *m = &i->mod;

	if (m->acc && (m->red != PTX_ADD || !IN(i->type, HALVES)))
		return ".acc::f32 goes with .add of f16 and bf16";
	for (size_t k = 0; k < sizeof multimem_widths / sizeof multimem_widths[0]; k++)
		if (IN(i->type, multimem_widths[k].types) &&
		    IN(m->vec ? m->vec : 1, multimem_widths[k].widths))
			return NULL;
	return "multimem has no such vector of this type";
}

static const char *check_reduction(const struct ptx_insn *i)
{
	for (size_t k = 0; k < sizeof red_rules / sizeof red_rules[0]; k++) {
		const struct red_rule *r = &red_rules[k];

		if (i->op >= r->first && i->op <= r->last && IN(i->mod.red, r->ops) &&
		    IN(i->type, r->types))
			return NULL;
	}
	return "this reduction is not for this type";
}

static const char *check_memory(const struct ptx_insn *i)
{
	const char *why = check_order(i);

	if (!why && (i->op == PTX_ld || i->op == PTX_st))
		why = check_vector(i);
	if (!why && i->mod.nc && (i->mod.space != PTX_GLOBAL || i->mod.order))
		why = ".nc is for plain loads from global memory";
	if (!why && i->op >= PTX_mm_ld && i->op <= PTX_mm_red)
		why = check_multimem(i);
	if (!why && ptx_has_letter((enum ptx_op)i->op, 'o'))
		why = check_reduction(i);
	return why;
}

/* ---- arithmetic ---- */

static bool int_rounding(unsigned r)
{
	return r >= PTX_RNI && r <= PTX_RPI;
}

static const char *check_rounding(const struct ptx_insn *i)
{
	const struct ptx_mod *m = &i->mod;

	if (int_rounding(m->round))
		return "this rounding is for conversions";
	if (ptx_has_letter((enum ptx_op)i->op, 'i')) {
		if (!m->approx == !m->round)
			return "either a rounding or .approx stands";
		if (m->approx == PTX_FULL && i->op != PTX_divf)
			return ".full is for div";
		return NULL;
	}
	if (IN(i->type, HALVES) && m->round > PTX_RN)
		return "16-bit arithmetic rounds by .rn";
	if (i->op == PTX_fma && !m->round)
		return "fma needs a rounding";
	return NULL;
}

static const char *check_ftz(const struct ptx_insn *i)
{
	if (!i->mod.ftz || i->op == PTX_cvt)
		return NULL;
	return IN(i->type, T(f32) | T(f16) | T(f16x2)) ? NULL : ".ftz is for f32 and f16";
}

static const char *check_compare(const struct ptx_insn *i)
{
	unsigned c = i->mod.cmp;

	if (IN(i->type, FLOATS))
		return c >= PTX_LO && c <= PTX_HS ? "this comparison is for unsigned integers"
		                                  : NULL;
	if (c >= PTX_EQU)
		return "this comparison is for floating point";
	if (IN(i->type, BITS) && c > PTX_NE)
		return "untyped bits compare by .eq and .ne";
	if (c >= PTX_LO && c <= PTX_HS && !IN(i->type, UNSIGNED))
		return "this comparison is for unsigned integers";
	return NULL;
}

static const char *check_half(const struct ptx_insn *i)
{
	if (i->mod.half == PTX_WIDE && bits(i->type) > 32)
		return ".wide is for 16 and 32 bits";
	return NULL;
}

/* ---- conversions ---- */

static const char *check_cvt_float(const struct ptx_insn *i)
{
	unsigned to = i->type, from = i->mod.type2, r = i->mod.round;
	bool narrower = bits(to) < bits(from) || (bits(to) == bits(from) && to != from);

	if (to == from)
		return r && (!int_rounding(r) || to == PTX_T_bf16)
		               ? "this rounding is not for this conversion"
		               : NULL;
	if (!narrower)
		return r ? "a conversion to a wider type has no rounding" : NULL;
	if (!r || int_rounding(r))
		return "a conversion to a narrower type needs a rounding";
	if (r > PTX_RZ && (to == PTX_T_bf16 || bits(from) == 16))
		return "this rounding is not for this conversion";
	return NULL;
}

/* Whether the integer type `to` holds every value of `from`. */
static bool holds(unsigned to, unsigned from)
{
	bool sign = IN(from, SIGNED);

	return IN(to, SIGNED) ? bits(to) > bits(from) || (sign && bits(to) == bits(from))
	                      : !sign && bits(to) >= bits(from);
}

static const char *check_cvt_sat(const struct ptx_insn *i)
{
	unsigned to = i->type, from = i->mod.type2;

	if (i->mod.sat == PTX_SATFINITE) {
		if (from != PTX_T_f32 || !IN(to, T(f16) | T(bf16)))
			return ".satfinite is for f16 and bf16 of f32";
		return i->mod.round > PTX_RZ || i->mod.ftz
		               ? ".satfinite goes with .rn and .rz, without .ftz"
		               : NULL;
	}
	if (i->mod.sat != PTX_SAT)
		return NULL;
	if (to == PTX_T_bf16 || from == PTX_T_bf16)
		return ".sat is not for bf16";
	if (!IN(to, FLOATS) && !IN(from, FLOATS) && holds(to, from))
		return ".sat changes nothing: the type holds every value of the other";
	return NULL;
}

static const char *check_cvt(const struct ptx_insn *i)
{
	bool to = IN(i->type, FLOATS), from = i->mod.type2 < PTX_NTYPES && IN(i->mod.type2, FLOATS);
	unsigned r = i->mod.round;

	if (i->mod.type2 >= PTX_NTYPES || !(ptx_insn_info[PTX_cvt].types >> i->mod.type2 & 1))
		return "the second type is not for cvt";
	if (i->mod.ftz && i->type != PTX_T_f32 && i->mod.type2 != PTX_T_f32)
		return ".ftz is for f32";
	if (i->mod.ftz && !(from && (to || i->mod.type2 == PTX_T_f32)))
		return ".ftz is for f32";
	if (to && from)
		return check_cvt_float(i) ? check_cvt_float(i) : check_cvt_sat(i);
	if ((i->type == PTX_T_bf16 && !from && bits(i->mod.type2) == 8) ||
	    (i->mod.type2 == PTX_T_bf16 && !to && bits(i->type) == 8))
		return "bf16 and 8-bit integers do not convert directly";
	if (to && (!r || int_rounding(r)))
		return "a conversion from an integer to floating point needs a rounding";
	if (!to && from && !int_rounding(r))
		return "a conversion from floating point to an integer needs .rni, .rzi, .rmi or "
		       ".rpi";
	if (!to && !from && r)
		return "a conversion of integers has no rounding";
	return check_cvt_sat(i);
}

static const char *check_cvt2(const struct ptx_insn *i)
{
	if (i->mod.type2 != PTX_T_f32)
		return "two values are packed from f32";
	if (i->mod.round != PTX_RN && i->mod.round != PTX_RZ)
		return "packing rounds by .rn or .rz";
	return i->mod.sat == PTX_SAT ? "packing has .satfinite, not .sat" : NULL;
}

const char *ptx_combination(const struct ptx_insn *i)
{
	enum ptx_op op = (enum ptx_op)i->op;
	const char *why = check_memory(i);

	if (!why && op == PTX_cvt)
		why = check_cvt(i);
	else if (!why && op == PTX_cvt2)
		why = check_cvt2(i);
	else if (!why && ptx_has_letter(op, 'r'))
		why = check_rounding(i);
	if (!why && ptx_has_letter(op, 'c'))
		why = check_compare(i);
	if (!why && ptx_has_letter(op, 'w'))
		why = check_half(i);
	if (!why && op == PTX_vote && (i->mod.vote == PTX_BALLOT) != (i->type == PTX_T_b32))
		why = ".ballot gives .b32, the others .pred";
	return why ? why : check_ftz(i);
}
