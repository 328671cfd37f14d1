/* Every kernel of the samples, as compiled, and what the assembler makes of it. */
#pragma once
#include "codegen/codegen.h"

enum { MAX_SPECS = 64, NTARGETS = 5 };

struct row { /* a kernel of a sample, with a protocol, for a number of ranks and a target */
	unsigned spec, tp, target;
	enum cg_protocol protocol;
	char *kernel;         /* its name */
	char vars[256];       /* what is declared outside of the entry */
	char *body;           /* the entry from its '(' on, without comments and places */
	struct cg_plan plan;  /* without target and why */
	unsigned version, sm; /* of its head: .version times 10, .target */
	unsigned per_row;     /* PTX instructions of the loop over rows, for each row */
	const struct row
	        *as;       /* an earlier row with the same text for the same target; NULL: none */
	bool wanted;       /* it is to be assembled */
	int regs, spilled; /* bytes; -1: not assembled */
};

struct kernels {
	char *spec[MAX_SPECS];
	unsigned nspec;
	struct row *row;
	size_t nrow, cap_row;
	char wrong[4096]; /* the first failure; "": none */
};

extern const char *const kernels_target[NTARGETS]; /* the first: of the table */

/* Appends the kernels of a spec that the protocol can do, at the spec's own size.  false: k->wrong.
 */
bool kernels_compile(struct kernels *k, unsigned spec, enum cg_protocol protocol, unsigned tp,
                     unsigned target);

/* Finds texts that occur twice: sets `as`.  After the last kernels_compile. */
void kernels_fold(struct kernels *k);

/* Assembles what is wanted and not yet assembled, several kernels at a time; then all rows with the
 * same text have regs and spilled.  false: k->wrong. */
bool kernels_assemble(struct kernels *k);

/* What ptxas calls its version ("13.0.88"); "?": it is not here. */
const char *kernels_ptxas_version(char *buf, size_t size);
