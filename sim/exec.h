/*
 * One function per row of insns.def executes the row's instruction for the lanes in `mask`.  A row
 * without one does not link.
 *
 *	exec_int.c exec_float.c exec_approx.c exec_cvt.c exec_pred.c    lanes apart
 *	exec_mem.c exec_atom.c exec_multi.c                             memory
 *	exec_warp.c exec_control.c                                      the warp and the CTA
 */
#pragma once
#include "sim/internal.h"

#define PTX_INSN(ID, ...) sim_exec_fn exec_##ID;
#include "codegen/ptx/insns.def"
