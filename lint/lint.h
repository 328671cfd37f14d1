/*
 * plait lint: what is wrong with a PTX kernel that communicates, found by reading it.  Design
 * section 9; the faults are those of public fused collectives (doc/lint.md).
 *
 * For any PTX, ours or not: instructions that codegen/ptx does not know pass through (their
 * registers are followed, what they do to memory is not).
 */
#pragma once
#include "codegen/ptx/ptx.h"

/* The rules, in the order of rules.def. */
enum lint_rule {
#define LINT_RULE(ID, ...) LINT_##ID,
#include "lint/rules.def"
	LINT_NRULES
};

struct lint_rule_info {
	const char *name; /* "unbounded-spin" */
	enum diag_severity severity;
	enum diag_code code;
	const char *what, *fix;
};
extern const struct lint_rule_info lint_rule_info[LINT_NRULES];

/*
 * Reports every finding in every function of a module that ptx_parse_any read from a source of `d`.
 * Returns their number, warnings not counted.
 */
unsigned lint_module(const struct ptx_module *m, struct arena *a, struct diags *d);

/* The same, where the n parameters of these names point to what no earlier kernel of the stream
 * writes (weights): loads through them may precede griddepcontrol.wait.  A name that no function's parameter has is an error, and
 * counts. */
unsigned lint_module_given(const struct ptx_module *m, const char *const *constant, unsigned n,
                           struct arena *a, struct diags *d);
