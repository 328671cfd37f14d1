/* A kernel's PTX broken in one place. */
#pragma once
#include "codegen/ptx/ptx.h"

struct mutant {
	const char *name;
	bool (*apply)(struct ptx_fn *f); /* false: the pattern is not in the text */
};

extern const struct mutant bulk_mutants[]; /* of p2p-bulk; ends with name NULL */
