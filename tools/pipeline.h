/* From a spec's file to kernels: what every command does first.  Diagnostics collect in p->d. */
#pragma once
#include "codegen/select.h"
#include "ir/pass.h"
#include "tools/args.h"

struct pipe_stage { /* the IR after a pass */
	const char *pass;
	enum ir_rows rows;
	struct ir_module *m;
};

struct pipe {
	struct arena *a;
	struct diags d;
	const struct args *args;
	const struct source *src;
	struct ast_file *ast;
	struct ir_module *before;  /* a copy of the IR as the frontend made it */
	struct ir_module *after;   /* after the passes, in the form that pipe_passes made last */
	struct ir_module *made[2]; /* [enum ir_rows]: that of each form; NULL: not made yet */
	enum ir_rows rows;         /* of `after` */
	bool keep_stages;          /* set by the caller: fill `stage` */
	struct pipe_stage *stage;
	size_t nstage, cap_stage;
	struct pipe_kernel { /* in the spec's order, protocol by protocol */
		struct cg_kernel *k;
		const struct ir_func *f; /* of `before` */
		enum ir_rows rows;
		enum cg_protocol protocol;   /* as asked for */
		const struct cg_case *which; /* of auto: what was chosen from; else NULL */
	} * kernel;
	size_t nkernel, cap_kernel;
};

void pipe_init(struct pipe *p, struct arena *a, const struct args *args);

/* Each does its step; what it needs has been done.  ST_INPUT and the like: see p->d. */
enum status pipe_read(struct pipe *p);
enum status pipe_parse(struct pipe *p);
enum status pipe_lower(struct pipe *p);
enum status pipe_passes(struct pipe *p, enum ir_rows rows, struct strbuf *dump);
/* Appends the kernels that are asked for, with this protocol, from `after`. */
enum status pipe_codegen(struct pipe *p, enum cg_protocol protocol);

/* Appends kernel f, fused in form `rows`, by a protocol; `like` says what was asked for. */
enum status pipe_compile(struct pipe *p, const struct ir_func *f, enum cg_protocol protocol,
                         const struct pipe_kernel *like);
struct cg_options pipe_options(const struct pipe *p, enum cg_protocol protocol);

/* The kernel of this name alone through the passes, in a form; NULL: d says why not.  `stages`:
 * they are kept. */
const struct ir_func *pipe_form(struct pipe *p, const char *name, enum ir_rows rows, bool stages,
                                struct diags *d);

/* The row form that goes with a protocol, or that was asked for. */
enum ir_rows pipe_rows(const struct args *args, enum cg_protocol protocol);

/* Passes and code generation for every protocol that is asked for. */
enum status pipe_kernels(struct pipe *p);

/* All of them, until one fails. */
enum status pipe_all(struct pipe *p);

/* The file at `path` ("-": standard input), NUL-terminated.  false: *error says why not. */
bool read_file(struct arena *a, const char *path, char **text, size_t *len, const char **error);

/* The same; on failure the diagnostic is in d. */
bool read_named(struct arena *a, struct diags *d, const char *path, char **text, size_t *len);

/* Diagnostics to stderr (remarks if asked), and the exit code for s. */
int pipe_finish(struct pipe *p, enum status s);
