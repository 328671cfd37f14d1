/* What is behind the handle plait_code: copies of what a compilation made, in an arena of the
 * handle's own. */
#pragma once
#include "codegen/codegen.h"
#include "runtime/plait.h"
#include "support/arena.h"

struct rt_kernel {
	const char *name, *entry, *ptx, *plan_text;
	size_t ptx_len;
	struct cg_plan plan;
	struct plait_kernel_info info;
	struct plait_param_info *param;
	struct plait_arg_info *arg;
};

struct plait_code {
	struct arena arena;
	const char *diagnostics;
	struct rt_kernel *kernel;
	size_t nkernel;
};

/* Copies all that a caller may ask about k into the handle's arena (which may jump to its oom). */
void rt_keep_kernel(struct plait_code *c, struct rt_kernel *to, struct cg_kernel *k,
                    struct arena *scratch);
