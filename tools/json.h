/*
 * What --json prints and what a bundle's manifest holds: one document, with stable names of fields
 * (doc/cli.md).  64-bit hashes and seeds are strings, as a reader's numbers may be doubles.  cJSON
 * allocates with malloc; the caller of json_print or json_text gives the document up.
 */
#pragma once
#include "frontend/ast.h"
#include "tools/pipeline.h"
#include "tools/verify.h"
#include <cjson/cJSON.h>

/* {"plait": version, "command": ..., "spec": ..., "tp": ...} */
cJSON *json_document(const struct args *a);

/* Adds "diagnostics": errors, warnings and, if asked for, remarks, each with its notes. */
void json_diagnostics(cJSON *doc, const struct pipe *p);

/* All of a compiled kernel: plan, parameters, arguments, contract. */
cJSON *json_kernel(const struct cg_kernel *k, enum ir_rows rows);

/* A kernel of the spec before it is compiled: name and parameters. */
cJSON *json_signature(const struct ir_func *f);

/* Adds "selection": the table over T, and who cannot and why. */
void json_selection(cJSON *kernel, const struct cg_case *c);

/* Adds "models": names and places of the models among the declarations. */
void json_models(cJSON *doc, const struct diags *d, const struct ast *decls);

/* A result of verify: counts, and the failure if there is one. */
void json_result(cJSON *to, const struct vf_result *r);

/* The document's text in `a`; frees the document. */
const char *json_text(cJSON *doc, struct arena *a);

/* Adds the diagnostics and "exit", prints the document to standard output and frees it; returns the
 * exit code for s. */
int json_finish(cJSON *doc, struct pipe *p, enum status s);
