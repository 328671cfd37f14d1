/*
 * The frontend: spec text -> AST -> checked AST -> IR.  All mistakes of a file are reported in one
 * run.
 */
#pragma once
#include "ir/ir.h"
#include "support/diag.h"
#include "support/status.h"

struct ast_file;
struct fe_steps;

struct fe_set { /* --set NAME=VALUE: overrides a const */
	const char *name, *value;
};

struct fe_options {
	unsigned tp; /* 0: unknown; else models' extents are checked for divisibility */
	const struct fe_set *set;
	size_t nset;
	struct fe_steps *
	        *steps; /* NULL, or where the models' steps go (frontend/steps.h); needs tp */
};

/* Parses and checks; the AST even when there are errors (NULL only when nothing could be read).
 * Errors are in d. */
struct ast_file *fe_parse(struct arena *a, struct diags *d, const struct source *src);

/* Names, types, shapes, placements, models; lowers every kernel to IR (IR_FORM_SOURCE).  NULL when
 * d has errors. */
struct ir_module *fe_lower(struct arena *a, struct diags *d, struct ast_file *ast,
                           const struct fe_options *o);

/* For --emit ast: one line a node, indented, with file:line:col spans. */
void fe_print_ast(const struct ast_file *ast, const struct diags *d, struct strbuf *out);

/*
 * Appends the text of src in the one layout of specs: tokens and comments in the same order, so
 * that it means the same. src is text that fe_parse takes without errors.  Formatted text comes out
 * as it went in.
 */
void fe_format(struct arena *a, const struct source *src, struct strbuf *out);
