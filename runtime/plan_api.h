/* What is behind plait_planner and plait_plan: for what runs plans. */
#pragma once
#include "frontend/steps.h"
#include "planner/planner.h"
#include "runtime/plait.h"

struct plait_planner {
	struct arena arena;
	struct diags d;
	struct plait_planner_options o; /* its texts are copies, in the arena */
	struct pl_options plan;
	const struct fe_steps *steps; /* of the model, in the arena, as is the model */
	const struct pl_model *model;
	struct planner *planner;
	const char *diagnostics;
	/* the first answer of the caller's that makes no sense */
	bool has_strange;
	struct plait_gemm_query strange;
	char text[256];
};

/* A plait_plan is a pl_plan. */
static inline const struct pl_plan *rt_plan(const plait_plan *p)
{
	return (const struct pl_plan *)(const void *)p;
}

/* The caller's machine, for tp ranks; false: a member makes no sense.  And back. */
bool rt_machine_in(const struct plait_machine *m, unsigned tp, struct pl_machine *to);
void rt_machine_out(const struct pl_machine *from, struct plait_machine *to);

/* As much of the caller's batch as it has; false: it has no size. */
bool rt_batch_in(const struct plait_batch *b, struct pl_batch *to);
