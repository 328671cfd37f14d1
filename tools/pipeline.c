/* From a spec's file to kernels, step by step. */
#include "tools/pipeline.h"
#include "tools/choose.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MAX_SPEC_BYTES ((size_t)64 << 20)

void pipe_init(struct pipe *p, struct arena *a, const struct args *args)
{
	memset(p, 0, sizeof *p);
	p->a = a;
	p->args = args;
	diags_init(&p->d, a);
}

bool read_file(struct arena *a, const char *path, char **text, size_t *len, const char **error)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
	size_t cap = 0, n = 0, got;
	char *s = NULL;

	*error = NULL;
	if (!f) {
		*error = arena_strndup(a, strerror(errno), strlen(strerror(errno)));
		return false;
	}
	do {
		s = arena_grow(a, s, n, &cap, n + 65536, 1);
		got = fread(s + n, 1, 65535, f);
		n += got;
	} while (got && n <= MAX_SPEC_BYTES);
	s[n] = '\0';
	if (ferror(f))
		*error = arena_strndup(a, strerror(errno), strlen(strerror(errno)));
	else if (n > MAX_SPEC_BYTES)
		*error = "it is larger than 64 MiB";
	if (f != stdin)
		fclose(f);
	*text = s;
	*len = n;
	return !*error;
}

static bool read_as(struct arena *a, struct diags *d, const char *path, const char *name,
                    char **text, size_t *len)
{
	const char *error;

	if (read_file(a, path, text, len, &error))
		return true;
	diag_at(d, DIAG_ERROR, DIAG_FILE, (struct span){0, 0}, "cannot read '%s': %s", name, error);
	return false;
}

bool read_named(struct arena *a, struct diags *d, const char *path, char **text, size_t *len)
{
	return read_as(a, d, path, path, text, len);
}

enum status pipe_read(struct pipe *p)
{
	const char *name = strcmp(p->args->spec, "-") ? p->args->spec : "(standard input)";
	char *text;
	size_t len;

	if (!read_as(p->a, &p->d, p->args->spec, name, &text, &len))
		return ST_INPUT;
	p->src = diags_add_source(&p->d, name, text, len);
	return p->src ? ST_OK : ST_INPUT;
}

enum status pipe_parse(struct pipe *p)
{
	p->ast = fe_parse(p->a, &p->d, p->src);
	return p->ast && !p->d.nerror ? ST_OK : ST_INPUT;
}

/* The kernel that is asked for, if one is, and what it calls: what is wrong with protocols, forms or
 * widths of others is no matter.  false: there is none. */
static bool keep_asked_for(struct ir_module *m, const char *kernel)
{
	struct ir_func **at = &m->funcs;
	bool found = !kernel;

	while (kernel && *at) {
		bool it = !strcmp((*at)->name, kernel);

		found |= it && (*at)->is_kernel;
		if (!it && (*at)->is_kernel)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	}
	if (kernel)
		m->tail = at;
	return found;
}

/* The kernel that gathers carried parameter `name` of the spec; NULL: there is none of this name. */
static struct ir_func *export_of(struct pipe *p, const char *name)
{
	for (const struct ir_func *f = p->before->funcs; f; f = f->next)
		for (unsigned i = 0; i < f->nparam; i++)
			if (f->is_kernel && f->param[i].type.ndim == 2 &&
			    f->param[i].type.place == IR_CARRIED && !strcmp(f->param[i].name, name))
				return cg_export(f, i, p->a);
	return NULL;
}

/* --export: in place of all others. */
static enum status make_export(struct pipe *p)
{
	const char *name = p->args->export;
	struct ir_func *g = export_of(p, name);

	if (g) {
		p->before = g->module;
		return ST_OK;
	}
	diag_at(&p->d, DIAG_ERROR, DIAG_NO_KERNEL, (struct span){0, 0},
	        "'%s' has no kernel with a carried parameter '%s'", p->src->name, name);
	return ST_INPUT;
}

/* --chain a,export_residual: beside the others, where the spec has no kernel of this name. */
static void add_exports(struct pipe *p)
{
	static const char prefix[] = "export_";
	size_t n = sizeof prefix - 1;

	for (const char *s = p->args->chain; s && *s;) {
		size_t len = strcspn(s, ",");
		const char *name = arena_strndup(p->a, s, len);
		struct ir_func *g = NULL;

		s += len + (s[len] == ',');
		if (!strncmp(name, prefix, n) && !ir_func_find(p->before, name))
			g = export_of(p, name + n);
		if (!g)
			continue;
		g->module = p->before;
		*p->before->tail = g;
		p->before->tail = &g->next;
	}
}

enum status pipe_lower(struct pipe *p)
{
	/* compile and verify look at kernels, which do not depend on tp: a model that tp does not
	 * divide is no matter */
	struct fe_options o = {.tp = p->args->command == CMD_CHECK ? p->args->tp : 0,
	                       .set = p->args->set,
	                       .nset = p->args->nset};

	/* with errors of syntax too: all mistakes of a file in one run */
	p->before = p->ast ? fe_lower(p->a, &p->d, p->ast, &o) : NULL;
	if (!p->before || p->d.nerror)
		return ST_INPUT;
	add_exports(p);
	if (keep_asked_for(p->before, p->args->kernel))
		return p->args->export ? make_export(p) : ST_OK;
	diag_at(&p->d, DIAG_ERROR, DIAG_NO_KERNEL, (struct span){0, 0}, "'%s' has no kernel '%s'",
	        p->src->name, p->args->kernel);
	return ST_INPUT;
}

static void keep_stage(void *ctx, const char *pass, const struct ir_module *m, enum ir_form form)
{
	struct pipe *p = ctx;

	p->stage = arena_grow(p->a, p->stage, p->nstage, &p->cap_stage, p->nstage + 1,
	                      sizeof *p->stage);
	(void)form;
	p->stage[p->nstage++] = (struct pipe_stage){pass, p->rows, ir_module_copy(m, p->a)};
}

enum status pipe_passes(struct pipe *p, enum ir_rows rows, struct strbuf *dump)
{
	struct ir_pass_options o = {.tp = p->args->tp,
	                            .rows = rows,
	                            .stop_after = p->args->stop_after,
	                            .dump = dump,
	                            .hook = p->keep_stages ? keep_stage : NULL,
	                            .ctx = p};
	enum status s;

	p->rows = rows;
	p->after = p->made[rows];
	if (p->after)
		return ST_OK;
	p->after = ir_module_copy(p->before, p->a);
	s = ir_run_passes(p->after, &o, &p->d);
	if (s == ST_OK)
		p->made[rows] = p->after;
	return s;
}

const struct ir_func *pipe_form(struct pipe *p, const char *name, enum ir_rows rows, bool stages,
                                struct diags *d)
{
	struct ir_pass_options o = {
	        .tp = p->args->tp, .rows = rows, .hook = stages ? keep_stage : NULL, .ctx = p};

	p->rows = rows;
	return cg_fuse(p->before, name, &o, p->a, d);
}

struct cg_options pipe_options(const struct pipe *p, enum cg_protocol protocol)
{
	return (struct cg_options){.tp = p->args->tp,
	                           .target = p->args->target,
	                           .protocol = protocol,
	                           .order = p->args->order,
	                           .pdl = p->args->pdl,
	                           .rows_in_memory = p->args->rows_in_memory,
	                           .max_ctas = 0,
	                           .wide = p->args->wide,
	                           .spec_name = p->src->name,
	                           .places = &p->d};
}

enum status pipe_compile(struct pipe *p, const struct ir_func *f, enum cg_protocol protocol,
                         const struct pipe_kernel *like)
{
	struct cg_options o = pipe_options(p, protocol);
	struct pipe_kernel k = *like;
	enum status s = cg_compile(f, &o, p->a, &p->d, &k.k);

	if (s != ST_OK)
		return s;
	k.f = ir_func_find(p->before, f->name);
	p->kernel = arena_grow(p->a, p->kernel, p->nkernel, &p->cap_kernel, p->nkernel + 1,
	                       sizeof *p->kernel);
	p->kernel[p->nkernel++] = k;
	return ST_OK;
}

enum status pipe_codegen(struct pipe *p, enum cg_protocol protocol)
{
	const struct pipe_kernel like = {.rows = p->rows, .protocol = protocol};
	enum status worst = ST_OK;
	size_t n = p->nkernel;

	for (const struct ir_func *f = p->after->funcs; f; f = f->next) {
		enum status s;

		if (!f->is_kernel)
			continue;
		s = pipe_compile(p, f, protocol, &like);
		if (s > worst)
			worst = s;
	}
	if (worst == ST_OK && p->nkernel == n) {
		diag_at(&p->d, DIAG_ERROR, DIAG_NO_KERNEL, (struct span){0, 0},
		        "'%s' has no kernel", p->src->name);
		return ST_INPUT;
	}
	return worst;
}

enum ir_rows pipe_rows(const struct args *args, enum cg_protocol protocol)
{
	return args->form == FORM_OWN   ? IR_ROWS_OWN
	       : args->form == FORM_ALL ? IR_ROWS_ALL
	                                : cg_protocol_rows(protocol);
}

enum status pipe_kernels(struct pipe *p)
{
	unsigned n = p->args->nprotocol ? p->args->nprotocol : 1;
	enum status s = ST_OK;

	for (unsigned i = 0; i < n && s == ST_OK; i++) {
		enum cg_protocol protocol =
		        p->args->nprotocol ? p->args->protocols[i] : p->args->protocol;

		s = pipe_passes(p, pipe_rows(p->args, protocol), NULL);
		if (s == ST_OK && protocol == CG_AUTO)
			s = choose_compile(p);
		else if (s == ST_OK)
			s = pipe_codegen(p, protocol);
	}
	return s;
}

enum status pipe_all(struct pipe *p)
{
	enum status s = pipe_read(p);

	if (s == ST_OK) {
		pipe_parse(p);
		s = pipe_lower(p);
	}
	return s == ST_OK ? pipe_kernels(p) : s;
}

int pipe_finish(struct pipe *p, enum status s)
{
	struct strbuf b;

	strbuf_init(&b, p->a);
	diags_render(&p->d, p->args->remarks ? DIAG_REMARK : DIAG_WARNING, &b);
	fputs(b.s, stderr);
	if (s == ST_INTERNAL)
		fputs("plait: this is a bug of plait's; please report it with the text above\n",
		      stderr);
	if (s == ST_OK && p->d.nerror)
		s = ST_INPUT;
	return s == ST_NOMEM ? 3 : (int)s;
}
