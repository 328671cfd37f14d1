/* Random specs of one kernel, well typed: the same seed gives the same text everywhere. */
#pragma once
#include "support/strbuf.h"
#include <stdint.h>

struct drawn {
	const char *text; /* the spec, of one kernel */
	unsigned tp;
	int64_t tokens; /* a row count that suits it */
};

/* The spec of a seed, and the ranks and rows to try it with; in `a`. */
struct drawn draw_spec(struct arena *a, uint64_t seed);
