/*
 * The passes, in order, each in its own file pass_*.c.  pass.c holds the table and runs it: after
 * each pass the verifier, the dump if asked, and the caller's hook (tests evaluate the IR there).
 */
#pragma once
#include "ir/ir.h"
#include "support/status.h"

struct ir_pass_options {
	unsigned tp; /* 0: not known yet (check without --tp); splits are then symbolic, which is
	                all passes need */
	enum ir_rows rows;      /* ALL: E421 for a kernel with a sharded parameter, unless it has
	                           neither carried parameters nor collectives: the form does not
	                           touch those */
	const char *stop_after; /* a pass's name, or NULL; an unknown name is ST_USAGE */
	struct strbuf *dump;    /* NULL: no dumps; else the IR after each pass, with a heading */
	/* called after every pass that changed or kept the module; NULL: not called */
	void (*hook)(void *ctx, const char *pass, const struct ir_module *m, enum ir_form form);
	void *ctx;
};

/*
 * Runs the passes over the kernels of m, in place.  Remarks (why a gather was made, why reorder did
 * not apply) and errors go to d.  ST_INPUT: the spec is wrong; ST_INTERNAL: the verifier found a
 * wrong pass; d has the program.
 */
enum status ir_run_passes(struct ir_module *m, const struct ir_pass_options *o, struct diags *d);

/* The passes' names in order, NULL-terminated. */
extern const char *const ir_pass_names[];

/*
 * IR_PASS(name, form after it), in order; the contract is at the head of ir/pass_NAME.c.
 *
 *	expand      fns into their callers
 *	place       slices and gathers explicit; carried -> sharded (own rows) or replicated (all)
 *	merge       all_reduce(a) + all_reduce(b) -> all_reduce(a + b) where allowed
 *	reorder     all_reduce, row-local work -> reduce_scatter, work, all_gather; own rows only
 *	constants   folded; exact identities only
 *	cse, dce
 *	fuse        loads and stores; the row program between
 */
/* clang-format off */
#define IR_PASSES(IR_PASS) \
	IR_PASS(expand,    SOURCE) \
	IR_PASS(place,     PLACED) \
	IR_PASS(merge,     PLACED) \
	IR_PASS(reorder,   PLACED) \
	IR_PASS(constants, PLACED) \
	IR_PASS(cse,       PLACED) \
	IR_PASS(dce,       PLACED) \
	IR_PASS(fuse,      FUSED)

/* False: an error was given to d. */
#define IR_PASS_DECLARE(name, form) \
	bool ir_pass_##name(struct ir_func *f, const struct ir_pass_options *o, struct diags *d);
IR_PASSES(IR_PASS_DECLARE)
#undef IR_PASS_DECLARE
/* clang-format on */
