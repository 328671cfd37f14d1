/*
 * One function per row of insns.def, named ptx_<ID>, its signature given by the row's shape:
 *
 *	dA  dAB  dABC   struct ptx_opnd ptx_add(f, type, a, b)      a fresh destination
 *	                struct ptx_opnd ptx_add_m(f, mod, type, a, b)
 *	dABP            struct ptx_opnd ptx_selp(f, type, a, b, p)
 *	pAB             struct ptx_opnd ptx_setp(f, cmp, type, a, b)
 *	pABP            struct ptx_opnd ptx_setpb(f, cmp, boolean, type, a, b, p)
 *	dM dMA dMAB     struct ptx_opnd ptx_ld(f, mod, type, mem)   mod.vec: a vector
 *	MA              void ptx_st(f, mod, type, mem, a)
 *	A AB L          void ptx_bar_sync(f, a); void ptx_bra(f, label)
 *	none            void ptx_trap(f); void ptx_fence_m(f, mod)
 *	dqABCD          struct ptx_opnd ptx_shfl(f, mod, a, b, c, d)  no second destination
 *	dPA             struct ptx_opnd ptx_vote(f, mod, type, p, a)  a: the mask of members
 *	two types       struct ptx_opnd ptx_cvt(f, to, from, a)
 *	                struct ptx_opnd ptx_cvt2(f, to, from, upper, lower)
 *
 * A fresh destination has the type's class.  _m is the same with modifiers:
 * ptx_MODS(.order = PTX_RELAXED, .scope = PTX_SYS) makes them.  ptx_put_<ID> forms take a
 * destination d before the sources (loop-carried registers, unpacking):
 *
 *	ptx_put_add(f, type, d, a, b)       ptx_put_add_m(f, mod, type, d, a, b)
 *	ptx_put_ld(f, mod, type, d, mem)    ptx_put_setp(f, cmp, type, d, a, b)
 *
 * Not written, a modifier that must stand is .rn (%r of float arithmetic and narrowing cvt; .rzi
 * for float to integer) and .lo (mul, mad); others are left out.  mul.wide and mad.wide have
 * ptx_mul_wide and ptx_mad_wide.
 */
#pragma once
#include "codegen/ptx/ptx.h"

#define ptx_MODS(...) ((struct ptx_mod){__VA_ARGS__})

/* A fresh destination of the row's class for this type: what the wrappers without `put` write to.
 */
struct ptx_opnd ptx_fresh(struct ptx_fn *f, enum ptx_op op, enum ptx_type t,
                          const struct ptx_mod *mod);

/* clang-format off */
#define PTX_F  struct ptx_fn *f
#define PTX_T  enum ptx_type t
#define PTX_M  struct ptx_mod m
#define PTX_O  struct ptx_opnd
#define PTX_PUT(ID, mod, ...) \
	do { \
		const PTX_O o_[] = {__VA_ARGS__}; \
		ptx_emit(f, PTX_##ID, t, mod, o_, sizeof o_ / sizeof o_[0]); \
	} while (0)
#define PTX_GET(ID, mod, ...) \
	do { \
		PTX_O d = ptx_fresh(f, PTX_##ID, t, mod); \
		PTX_PUT(ID, mod, d, __VA_ARGS__); \
		return d; \
	} while (0)

/* Four forms of a row whose destination comes first; SIG and ARGS are its sources. */
#define PTX_W4(ID, SIG, ARGS) \
	static inline PTX_O ptx_##ID(PTX_F, PTX_T, SIG) { PTX_GET(ID, NULL, ARGS); } \
	static inline PTX_O ptx_##ID##_m(PTX_F, PTX_M, PTX_T, SIG) { PTX_GET(ID, &m, ARGS); } \
	static inline void ptx_put_##ID(PTX_F, PTX_T, PTX_O d, SIG) { PTX_PUT(ID, NULL, d, ARGS); } \
	static inline void ptx_put_##ID##_m(PTX_F, PTX_M, PTX_T, PTX_O d, SIG) { PTX_PUT(ID, &m, d, ARGS); }
/* Two forms of a row whose modifiers are always given. */
#define PTX_W2(ID, SIG, ARGS) \
	static inline PTX_O ptx_##ID(PTX_F, PTX_M, PTX_T, SIG) { PTX_GET(ID, &m, ARGS); } \
	static inline void ptx_put_##ID(PTX_F, PTX_M, PTX_T, PTX_O d, SIG) { PTX_PUT(ID, &m, d, ARGS); }
#define PTX_LIST(...) __VA_ARGS__

#define W_dA(ID)   PTX_W4(ID, PTX_O a, a)
#define W_dAB(ID)  PTX_W4(ID, PTX_LIST(PTX_O a, PTX_O b), PTX_LIST(a, b))
#define W_dABC(ID) PTX_W4(ID, PTX_LIST(PTX_O a, PTX_O b, PTX_O c), PTX_LIST(a, b, c))
#define W_dABP(ID) PTX_W4(ID, PTX_LIST(PTX_O a, PTX_O b, PTX_O p), PTX_LIST(a, b, p))
#define W_dM(ID)   PTX_W2(ID, PTX_O mem, mem)
#define W_dMA(ID)  PTX_W2(ID, PTX_LIST(PTX_O mem, PTX_O a), PTX_LIST(mem, a))
#define W_dMAB(ID) PTX_W2(ID, PTX_LIST(PTX_O mem, PTX_O a, PTX_O b), PTX_LIST(mem, a, b))
#define W_dPA(ID)  PTX_W2(ID, PTX_LIST(PTX_O p, PTX_O a), PTX_LIST(p, a))
#define W_MA(ID) \
	static inline void ptx_##ID(PTX_F, PTX_M, PTX_T, PTX_O mem, PTX_O a) { PTX_PUT(ID, &m, mem, a); }
#define W_pMA(ID) \
	static inline PTX_O ptx_##ID(PTX_F, PTX_M, PTX_O mem, PTX_O a) \
	{ PTX_T = PTX_T_none; PTX_GET(ID, &m, mem, a); }
#define W_M(ID) \
	static inline void ptx_##ID(PTX_F, PTX_M, PTX_O mem) { PTX_T = PTX_T_none; PTX_PUT(ID, &m, mem); }
#define W_MMA(ID) \
	static inline void ptx_##ID(PTX_F, PTX_O to, PTX_O from, PTX_O bytes) \
	{ PTX_T = PTX_T_none; PTX_PUT(ID, NULL, to, from, bytes); }
#define W_MMAM(ID) \
	static inline void ptx_##ID(PTX_F, PTX_O to, PTX_O from, PTX_O bytes, PTX_O mbar) \
	{ PTX_T = PTX_T_none; PTX_PUT(ID, NULL, to, from, bytes, mbar); }
#define W_pAB(ID) \
	static inline PTX_O ptx_##ID(PTX_F, enum ptx_cmp cmp, PTX_T, PTX_O a, PTX_O b) \
	{ PTX_M = {.cmp = (uint8_t)cmp}; PTX_GET(ID, &m, a, b); } \
	static inline void ptx_put_##ID(PTX_F, enum ptx_cmp cmp, PTX_T, PTX_O d, PTX_O a, PTX_O b) \
	{ PTX_M = {.cmp = (uint8_t)cmp}; PTX_PUT(ID, &m, d, a, b); }
#define W_pABP(ID) \
	static inline PTX_O ptx_##ID(PTX_F, enum ptx_cmp cmp, enum ptx_bool op, PTX_T, PTX_O a, PTX_O b, PTX_O p) \
	{ PTX_M = {.cmp = (uint8_t)cmp, .boolean = (uint8_t)op}; PTX_GET(ID, &m, a, b, p); } \
	static inline void ptx_put_##ID(PTX_F, enum ptx_cmp cmp, enum ptx_bool op, PTX_T, PTX_O d, PTX_O a, PTX_O b, PTX_O p) \
	{ PTX_M = {.cmp = (uint8_t)cmp, .boolean = (uint8_t)op}; PTX_PUT(ID, &m, d, a, b, p); }
#define W_none(ID) \
	static inline void ptx_##ID(PTX_F) { ptx_emit(f, PTX_##ID, PTX_T_none, NULL, NULL, 0); } \
	static inline void ptx_##ID##_m(PTX_F, PTX_M) { ptx_emit(f, PTX_##ID, PTX_T_none, &m, NULL, 0); }
#define W_A(ID) \
	static inline void ptx_##ID(PTX_F, PTX_O a) { PTX_T = PTX_T_none; PTX_PUT(ID, NULL, a); }
#define W_AB(ID) \
	static inline void ptx_##ID(PTX_F, PTX_O a, PTX_O b) { PTX_T = PTX_T_none; PTX_PUT(ID, NULL, a, b); }
#define W_L(ID) \
	static inline void ptx_##ID(PTX_F, PTX_O l) { PTX_T = PTX_T_none; PTX_PUT(ID, NULL, l); } \
	static inline void ptx_##ID##_m(PTX_F, PTX_M, PTX_O l) { PTX_T = PTX_T_none; PTX_PUT(ID, &m, l); }
#define W_dqABCD(ID) \
	static inline PTX_O ptx_##ID(PTX_F, PTX_M, PTX_O a, PTX_O b, PTX_O c, PTX_O members) \
	{ PTX_T = PTX_T_none; PTX_O q = {0}; PTX_GET(ID, &m, q, a, b, c, members); } \
	static inline void ptx_put_##ID(PTX_F, PTX_M, PTX_O d, PTX_O q, PTX_O a, PTX_O b, PTX_O c, PTX_O members) \
	{ PTX_T = PTX_T_none; PTX_PUT(ID, &m, d, q, a, b, c, members); }

/* Rows with a second type: it stands after the first. */
#define PTX_V4(ID, SIG, ARGS) \
	static inline PTX_O ptx_##ID(PTX_F, PTX_T, enum ptx_type u, SIG) \
	{ PTX_M = {.type2 = (uint8_t)u}; PTX_GET(ID, &m, ARGS); } \
	static inline PTX_O ptx_##ID##_m(PTX_F, PTX_M, PTX_T, enum ptx_type u, SIG) \
	{ m.type2 = (uint8_t)u; PTX_GET(ID, &m, ARGS); } \
	static inline void ptx_put_##ID(PTX_F, PTX_T, enum ptx_type u, PTX_O d, SIG) \
	{ PTX_M = {.type2 = (uint8_t)u}; PTX_PUT(ID, &m, d, ARGS); }
#define V_dA(ID)  PTX_V4(ID, PTX_O a, a)
#define V_dAB(ID) PTX_V4(ID, PTX_LIST(PTX_O a, PTX_O b), PTX_LIST(a, b))

#define PTX_INSN(ID, spelling, shape, ...)  W_##shape(ID)
#define PTX_INSN2(ID, spelling, shape, ...) V_##shape(ID)
#include "codegen/ptx/insns.def"

static inline PTX_O ptx_mul_wide(PTX_F, PTX_T, PTX_O a, PTX_O b)
{ return ptx_mul_m(f, ptx_MODS(.half = PTX_WIDE), t, a, b); }
static inline PTX_O ptx_mad_wide(PTX_F, PTX_T, PTX_O a, PTX_O b, PTX_O c)
{ return ptx_mad_m(f, ptx_MODS(.half = PTX_WIDE), t, a, b, c); }
/* .approx in place of the default .rn */
static inline PTX_O ptx_rcp_approx(PTX_F, PTX_O a)
{ return ptx_rcpf_m(f, ptx_MODS(.approx = PTX_APPROX), PTX_T_f32, a); }
static inline PTX_O ptx_sqrt_approx(PTX_F, PTX_O a)
{ return ptx_sqrtf_m(f, ptx_MODS(.approx = PTX_APPROX), PTX_T_f32, a); }
static inline PTX_O ptx_div_approx(PTX_F, PTX_O a, PTX_O b)
{ return ptx_divf_m(f, ptx_MODS(.approx = PTX_APPROX), PTX_T_f32, a, b); }
/* The address in .global of a generic address, and the like. */
static inline PTX_O ptx_cvta_to_space(PTX_F, enum ptx_space s, PTX_O a)
{ return ptx_cvta_to_m(f, ptx_MODS(.space = (uint8_t)s), PTX_T_u64, a); }

#undef W_dA
#undef W_dAB
#undef W_dABC
#undef W_dABP
#undef W_dM
#undef W_dMA
#undef W_dMAB
#undef W_dPA
#undef W_MA
#undef W_pMA
#undef W_M
#undef W_MMA
#undef W_MMAM
#undef W_pAB
#undef W_pABP
#undef W_none
#undef W_A
#undef W_AB
#undef W_L
#undef W_dqABCD
#undef V_dA
#undef V_dAB
#undef PTX_V4
#undef PTX_W4
#undef PTX_W2
#undef PTX_LIST
#undef PTX_GET
#undef PTX_PUT
#undef PTX_F
#undef PTX_T
#undef PTX_M
#undef PTX_O
/* clang-format on */
