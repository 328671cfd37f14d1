/*
 * One function per row of insns.def, named ptx_<ID>, its signature given by the row's shape:
 *
 *	dA  dAB  dABC     struct ptx_opnd ptx_add(f, type, a, b)            a fresh destination of the type's class
 *	dABP              struct ptx_opnd ptx_selp(f, type, a, b, p)
 *	pAB  pABP         struct ptx_opnd ptx_setp(f, cmp, type, a, b)      a fresh predicate
 *	dM dMA dMAB       struct ptx_opnd ptx_ld(f, mod, type, mem)         mod.vec gives a vector destination
 *	MA                void ptx_st(f, mod, type, mem, a)
 *	none A AB L       void ptx_bar_sync(f, a); void ptx_bra(f, label); void ptx_fence(f, mod)
 *	dqABCD            struct ptx_opnd ptx_shfl(f, mod, a, b, c, d)      (no second destination)
 *
 * ptx_MODS(.order = PTX_RELAXED, .scope = PTX_SYS) makes a mod.  ptx_put_<ID> forms write to a destination given by the
 * caller (loop-carried registers).  Rows whose spelling has modifiers but whose shape has no mod argument (mul, cvt, ...)
 * have a hand-written wrapper at the end.
 */
#pragma once
#include "codegen/ptx/ptx.h"

#define ptx_MODS(...) ((struct ptx_mod){__VA_ARGS__})
