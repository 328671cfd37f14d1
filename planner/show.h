/* What the ways to show a plan share. */
#pragma once
#include "planner/planner.h"

/* "A.1": the letter of a shape, and the part where there are two.  Returns out. */
const char *pl_stage_name(const struct pl_plan *p, uint32_t shape, uint32_t half, char out[16]);

/* Digits of v without a NUL; how many. */
int pl_put_number(char *out, uint32_t v);
