/* The tests of broken PTX (main.c): what they share. */
#pragma once
#include "codegen/ptx/ptx.h"

/* ---- TAP (main.c) ---- */

struct tap {
	unsigned test, failed;
};

/* One test's line; wrong: NULL or why it failed; more: lines of comment. */
void tap_say(struct tap *t, const char *name, const char *wrong, const char *more);

/* ---- PTX (main.c) ---- */

/* NULL, with diagnostics in d, when the text is wrong. */
struct ptx_module *mutant_parse(struct arena *a, struct diags *d, const char *text);

/* Removes an instruction; labels stay at what they name. */
void mutant_drop(struct ptx_fn *f, uint32_t at);

/* ---- the tests, a line of TAP for each mutant ---- */

struct mutant {
	const char *name;
	bool (*apply)(struct ptx_fn *f); /* false: the pattern is not in the text */
};
extern const struct mutant bulk_mutants[]; /* of p2p-bulk; ends with name NULL */

/* Named ones of a kernel by mm-twoshot and p2p-bulk (named.c); only: one of them, or NULL. */
void run_named(const char *spec, const char *only, struct tap *t);

/* Of a chain of kernels (chain.c). */
void run_chain(const char *spec, struct tap *t);

/* Derived ones of every protocol (derive.c). */
struct derive_choice {
	const char *kind;  /* NULL: all */
	unsigned number;   /* 0: all; else one, with its report on stderr */
	unsigned every;    /* 1: all */
	const char *table; /* file of the table; NULL: none */
	bool update;       /* it is written, not compared */
};
void run_derived(const char *spec, const struct derive_choice *choice, struct tap *t);
