/* Exhaustive search of every protocol's kernels, shrunk (main.c): cases and what came of them. */
#pragma once
#include "codegen/codegen.h"
#include "tools/verify.h"

/* Not by itself, but broken; by scripts/test --all; by every test run. */
enum explore_when { BROKEN, ALL, QUICK };

struct explore_case {
	const char *name;
	enum cg_protocol protocol;
	enum cg_order order;
	enum cg_pdl pdl;
	unsigned tp, ctas, launches;
	const char *hidden;
	int64_t rows[2]; /* T, in turn; -1: none */
	enum explore_when when;
};

/* Kernels broken on purpose: the search has to find what follows. */
struct explore_mutant {
	const char *name, *of; /* of: the case */
	const char *was, *is;  /* text in the PTX */
	unsigned which;        /* the n-th of them, from 0 */
	const char *found;     /* what the report begins with */
	enum explore_when when;
};
