/*
 * The tables of the PTX layer: types, letters of spellings, instructions, and what versions and
 * targets they need.
 */
#include "codegen/ptx/spell.h"
#include <string.h>

const struct ptx_type_info ptx_type_info[PTX_NTYPES] = {
#define PTX_TYPE(ID, text, bits, class) [PTX_T_##ID] = {text, bits, PTX_C_##class},
#include "codegen/ptx/types.def"
#undef PTX_TYPE
};

/* clang-format off */
#define T(ID) (1u << PTX_T_##ID)
enum {
	M_NONE    = 0,
	M_SINT    = T(s16) | T(s32) | T(s64),
	M_INT     = M_SINT | T(u16) | T(u32) | T(u64),
	M_BITS    = T(b16) | T(b32) | T(b64),
	M_BITS32  = T(b32) | T(b64),
	M_LOGIC   = M_BITS | T(pred),
	M_INTBITS = M_INT | M_BITS,
	M_A64     = T(u64),
	M_B32     = T(b32),
	M_F32     = T(f32),
	M_HALF    = T(f16) | T(bf16),
	M_HALF2   = T(f16x2) | T(bf16x2),
	M_FLOAT   = M_HALF | M_HALF2 | T(f32) | T(f64),
	M_ANY     = M_INTBITS | T(pred) | T(f32) | T(f64),
	M_CVT     = M_INT | T(u8) | T(s8) | M_HALF | T(f32) | T(f64),
	M_CMP     = M_INTBITS | M_HALF | T(f32) | T(f64),
	M_SEL     = M_INTBITS | T(f32) | T(f64),
	M_MEM     = M_INTBITS | T(b8) | T(u8) | T(s8) | T(f32) | T(f64),
	M_ATOM    = T(u32) | T(s32) | T(u64) | T(s64) | M_BITS32 | T(f32) | T(f64),
	M_MULTI   = M_ATOM | M_HALF | M_HALF2,
	M_MULTIST = M_MULTI,
	M_VOTE    = T(pred) | T(b32),
};

const struct ptx_insn_info ptx_insn_info[PTX_NOPS] = {
#define PTX_INSN(ID, spelling, shape, types, version, sm, doc) \
	[PTX_##ID] = {#ID, spelling, #shape, doc, M_##types, version, sm},
#include "codegen/ptx/insns.def"
};

const char *const ptx_special_name[PTX_NSPECIALS] = {
	[PTX_TID_X] = "%tid.x",       [PTX_TID_Y] = "%tid.y",       [PTX_TID_Z] = "%tid.z",
	[PTX_NTID_X] = "%ntid.x",     [PTX_NTID_Y] = "%ntid.y",     [PTX_NTID_Z] = "%ntid.z",
	[PTX_CTAID_X] = "%ctaid.x",   [PTX_CTAID_Y] = "%ctaid.y",   [PTX_CTAID_Z] = "%ctaid.z",
	[PTX_NCTAID_X] = "%nctaid.x", [PTX_NCTAID_Y] = "%nctaid.y", [PTX_NCTAID_Z] = "%nctaid.z",
	[PTX_LANEID] = "%laneid",     [PTX_WARPID] = "%warpid",     [PTX_NWARPID] = "%nwarpid",
	[PTX_SMID] = "%smid",         [PTX_CLOCK64] = "%clock64",   [PTX_GLOBALTIMER] = "%globaltimer",
};

static const char *const order_name[] = {
	[PTX_WEAK] = ".weak", [PTX_RELAXED] = ".relaxed", [PTX_ACQUIRE] = ".acquire", [PTX_RELEASE] = ".release",
	[PTX_ACQ_REL] = ".acq_rel", [PTX_SC] = ".sc", [PTX_VOLATILE] = ".volatile",
};
static const char *const scope_name[] = {
	[PTX_CTA] = ".cta", [PTX_CLUSTER] = ".cluster", [PTX_GPU] = ".gpu", [PTX_SYS] = ".sys",
};
static const char *const space_name[] = {
	[PTX_GLOBAL] = ".global", [PTX_SHARED] = ".shared", [PTX_PARAM] = ".param", [PTX_CONST] = ".const",
	[PTX_LOCAL] = ".local",
};
static const char *const vec_name[] = {[2] = ".v2", [4] = ".v4", [8] = ".v8"};
static const char *const cmp_name[] = {
	[PTX_EQ] = ".eq",   [PTX_NE] = ".ne",   [PTX_LT] = ".lt",   [PTX_LE] = ".le",   [PTX_GT] = ".gt",   [PTX_GE] = ".ge",
	[PTX_LO] = ".lo",   [PTX_LS] = ".ls",   [PTX_HI] = ".hi",   [PTX_HS] = ".hs",   [PTX_EQU] = ".equ", [PTX_NEU] = ".neu",
	[PTX_LTU] = ".ltu", [PTX_LEU] = ".leu", [PTX_GTU] = ".gtu", [PTX_GEU] = ".geu", [PTX_NUM] = ".num", [PTX_NAN] = ".nan",
};
static const char *const round_name[] = {
	[PTX_RN] = ".rn",   [PTX_RZ] = ".rz",   [PTX_RM] = ".rm",   [PTX_RP] = ".rp",
	[PTX_RNI] = ".rni", [PTX_RZI] = ".rzi", [PTX_RMI] = ".rmi", [PTX_RPI] = ".rpi",
};
static const char *const red_name[] = {
	[PTX_ADD] = ".add", [PTX_MIN] = ".min", [PTX_MAX] = ".max", [PTX_AND] = ".and", [PTX_OR] = ".or", [PTX_XOR] = ".xor",
	[PTX_INC] = ".inc", [PTX_DEC] = ".dec",
};
static const char *const shfl_name[]  = {[PTX_UP] = ".up", [PTX_DOWN] = ".down", [PTX_BFLY] = ".bfly", [PTX_IDX] = ".idx"};
static const char *const half_name[]  = {[PTX_LOW] = ".lo", [PTX_HIGH] = ".hi", [PTX_WIDE] = ".wide"};
static const char *const bool_name[]  = {[PTX_B_AND] = ".and", [PTX_B_OR] = ".or", [PTX_B_XOR] = ".xor"};
static const char *const approx_name[] = {[PTX_APPROX] = ".approx", [PTX_FULL] = ".full"};
static const char *const sat_name[]   = {[PTX_SAT] = ".sat", [PTX_SATFINITE] = ".satfinite"};
static const char *const vote_name[]  = {[PTX_ALL] = ".all", [PTX_ANY] = ".any", [PTX_UNI] = ".uni", [PTX_BALLOT] = ".ballot"};
static const char *const ftz_name[]   = {NULL, ".ftz"};
static const char *const nc_name[]    = {NULL, ".nc"};
static const char *const acc_name[]   = {NULL, ".acc::f32"};
static const char *const uni_name[]   = {NULL, ".uni"};

#define L(c, optional, member, names, what) \
	{c, optional, sizeof(names) / sizeof((names)[0]), offsetof(struct ptx_mod, member), names, what}
const struct ptx_letter ptx_letters[] = {
	L('q', true,  order,   order_name,  "memory order"),
	L('s', true,  scope,   scope_name,  "scope"),
	L('p', true,  space,   space_name,  "state space"),
	L('v', true,  vec,     vec_name,    "vector width"),
	L('c', false, cmp,     cmp_name,    "comparison"),
	L('r', true,  round,   round_name,  "rounding"),
	L('z', true,  ftz,     ftz_name,    ".ftz"),
	L('h', true,  sat,     sat_name,    "saturation"),
	L('o', false, red,     red_name,    "reduction"),
	L('k', false, shfl,    shfl_name,   "shuffle mode"),
	L('b', false, boolean, bool_name,   "boolean operation"),
	L('n', true,  nc,      nc_name,     ".nc"),
	L('w', false, half,    half_name,   "half (.lo, .hi or .wide)"),
	L('a', true,  acc,     acc_name,    "accumulator"),
	L('i', true,  approx,  approx_name, ".approx or .full"),
	L('l', true,  uni,     uni_name,    ".uni"),
	L('m', false, vote,    vote_name,   "vote mode"),
	{0},
};

/* Targets and the least .version that knows them. */
static const struct {
	uint16_t sm, plain, a, f;
} targets[] = {
	{50, 40, 0, 0},  {52, 41, 0, 0},  {53, 42, 0, 0},  {60, 50, 0, 0},  {61, 50, 0, 0},  {62, 50, 0, 0},
	{70, 60, 0, 0},  {72, 61, 0, 0},  {75, 63, 0, 0},  {80, 70, 0, 0},  {86, 71, 0, 0},  {87, 74, 0, 0},
	{88, 90, 0, 0},  {89, 78, 0, 0},  {90, 78, 80, 0}, {100, 86, 86, 88}, {103, 88, 88, 88},
	{110, 90, 90, 90}, {120, 87, 87, 88}, {121, 88, 88, 88},
};
/* clang-format on */

unsigned ptx_target_version(unsigned sm, char suffix)
{
	for (size_t k = 0; k < sizeof targets / sizeof targets[0]; k++)
		if (targets[k].sm == sm)
			return suffix == 'a'   ? targets[k].a
			       : suffix == 'f' ? targets[k].f
			                       : targets[k].plain;
	return 0;
}

const struct ptx_letter *ptx_letter_find(char letter)
{
	for (const struct ptx_letter *l = ptx_letters; l->letter; l++)
		if (l->letter == letter)
			return l;
	return NULL;
}

bool ptx_has_letter(enum ptx_op op, char letter)
{
	for (const char *s = ptx_insn_info[op].spelling; (s = strchr(s, '%')); s += 2)
		if (s[1] == letter)
			return true;
	return false;
}

static enum ptx_type twice_as_wide(enum ptx_type t)
{
	static const uint8_t wide[PTX_NTYPES] = {[PTX_T_u16] = PTX_T_u32,
	                                         [PTX_T_s16] = PTX_T_s32,
	                                         [PTX_T_u32] = PTX_T_u64,
	                                         [PTX_T_s32] = PTX_T_s64};

	return wide[t] ? (enum ptx_type)wide[t] : t;
}

enum ptx_space ptx_opnd_space(const struct ptx_insn *i, unsigned k)
{
	switch (i->op) {
	case PTX_bulk_ld:
	case PTX_bulk_ld_cta:
		return k == 1 ? PTX_GLOBAL : PTX_SHARED;
	case PTX_bulk_st:
		return k == 0 ? PTX_GLOBAL : PTX_SHARED;
	default:
		return (enum ptx_space)i->mod.space;
	}
}

enum ptx_type ptx_opnd_type(const struct ptx_insn *i, unsigned k)
{
	char c = ptx_shape((enum ptx_op)i->op)[k];
	enum ptx_type t = i->type < PTX_NTYPES ? (enum ptx_type)i->type : PTX_T_b32;

	if (c == 'p' || c == 'P' || c == 'q')
		return PTX_T_pred;
	switch (i->op) {
	case PTX_mul:
	case PTX_mad:
		return i->mod.half == PTX_WIDE && (c == 'd' || c == 'C') ? twice_as_wide(t) : t;
	case PTX_shl:
	case PTX_shr:
		return c == 'B' ? PTX_T_u32 : t;
	case PTX_cvt:
	case PTX_cvt2:
		return c == 'd' ? t : i->mod.type2 < PTX_NTYPES ? (enum ptx_type)i->mod.type2 : t;
	case PTX_mbar_arrive:
	case PTX_mbar_arrive_tx:
		return c == 'd' ? PTX_T_b64 : t;
	case PTX_mbar_test:
	case PTX_mbar_try:
		return PTX_T_b64;
	case PTX_vote:
		return c == 'A' ? PTX_T_b32 : t;
	default:
		return t;
	}
}
