/* The mutants of a kernel's PTX (derive.c). */
#pragma once
#include "codegen/codegen.h"

enum derive_op { DERIVE_DROP, DERIVE_ORDER, DERIVE_SCOPE, DERIVE_PLUS, DERIVE_MINUS, DERIVE_NOPS };
extern const char *const derive_name[DERIVE_NOPS];

struct derived {
	enum derive_op op;
	uint32_t at;     /* index of the instruction */
	unsigned opnd;   /* PLUS, MINUS */
	unsigned number; /* from 1 */
};

/* All of f, in order; *n of them. */
struct derived *derive_all(struct arena *a, const struct ptx_fn *f, unsigned *n);
/* The instruction as it was. */
void derive_line(const struct ptx_fn *f, const struct derived *x, char *buf, size_t n);
/* What three ranks leave when one lapses, in words (lapse.c). */
const char *derive_lapses(const struct cg_kernel *k, const struct ptx_module *m, struct arena *a);
void derive_apply(struct ptx_fn *f, const struct derived *x);
