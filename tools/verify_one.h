/* One kernel of a pipe through verify, for programs that verify many: tests/cross, tests/sweep. */
#pragma once
#include "tools/pipeline.h"
#include "tools/verify.h"

/*
 * Prints the kernel's text, reads that back, and runs it as o says.  NULL: good; else what is wrong,
 * in p->a.
 */
const char *verify_one(struct pipe *p, const struct pipe_kernel *k, const struct vf_options *o);
