/* From a spec's file to kernels: what every command does first.  Diagnostics collect in p->d. */
#pragma once
#include "codegen/codegen.h"
#include "ir/pass.h"
#include "tools/args.h"

struct pipe_stage { /* the IR after a pass */
	const char *pass;
	struct ir_module *m;
};

struct pipe {
	struct arena *a;
	struct diags d;
	const struct args *args;
	const struct source *src;
	struct ast_file *ast;
	struct ir_module *before; /* a copy of the IR as the frontend made it */
	struct ir_module *after;  /* after the passes */
	bool keep_stages;         /* set by the caller: fill `stage` */
	struct pipe_stage *stage;
	size_t nstage, cap_stage;
	struct cg_kernel **kernel;   /* in the spec's order */
	const struct ir_func **func; /* of `before`, for each kernel */
	size_t nkernel;
};

void pipe_init(struct pipe *p, struct arena *a, const struct args *args);

/* Each does its step; what it needs has been done.  ST_INPUT and the like: see p->d. */
enum status pipe_read(struct pipe *p);
enum status pipe_parse(struct pipe *p);
enum status pipe_lower(struct pipe *p);
enum status pipe_passes(struct pipe *p, struct strbuf *dump);
enum status pipe_codegen(struct pipe *p);

/* All of them, until one fails. */
enum status pipe_all(struct pipe *p);

/* The file at `path` ("-": standard input), NUL-terminated.  false: *error says why not. */
bool read_file(struct arena *a, const char *path, char **text, size_t *len, const char **error);

/* Diagnostics to stderr (remarks if asked), and the exit code for s. */
int pipe_finish(struct pipe *p, enum status s);
