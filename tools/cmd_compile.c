/* plait compile: one stage of a spec's kernels, written to a file, a folder or standard output. */
#include "runtime/jit.h"
#include "tools/commands.h"
#include "tools/pipeline.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *out)
{
	struct stat st;
	size_t n = out ? strlen(out) : 0;

	return n && (out[n - 1] == '/' || (!stat(out, &st) && S_ISDIR(st.st_mode)));
}

static int cannot(const char *path, const char *what)
{
	fprintf(stderr, "plait compile: cannot %s '%s': %s\n", what, path, strerror(errno));
	return 3;
}

static int put(const char *path, const void *bytes, size_t n)
{
	bool std = !path || !strcmp(path, "-");
	FILE *f = std ? stdout : fopen(path, "wb");

	if (!f)
		return cannot(path, "write");
	if (fwrite(bytes, 1, n, f) != n || fflush(f)) {
		if (!std)
			fclose(f);
		return cannot(std ? "standard output" : path, "write");
	}
	if (!std && fclose(f))
		return cannot(path, "write");
	return 0;
}

/* One module with every kernel's entry: their functions share no names but those of the module's
 * header. */
static struct ptx_module *merge(struct pipe *p)
{
	struct ptx_module *m = p->kernel[0]->module;

	for (size_t i = 1; i < p->nkernel; i++) {
		struct ptx_module *o = p->kernel[i]->module;

		m->version = o->version > m->version ? o->version : m->version;
		for (struct ptx_fn *f = o->fn; f; f = f->next)
			f->module = m;
		*m->tail = o->fn;
		m->tail = o->tail;
	}
	m->header = arena_printf(p->a, "%s: %zu kernels", p->src->name, p->nkernel);
	return m;
}

static const char *kernel_path(struct pipe *p, size_t i, const char *ending)
{
	const char *out = p->args->out;

	return arena_printf(p->a, "%s%s%s.%s", out, out[strlen(out) - 1] == '/' ? "" : "/",
	                    p->kernel[i]->name, ending);
}

/* The PTX text m, or the cubin of it. */
static enum status emit_module(struct pipe *p, struct ptx_module *m, const char *path, int *code)
{
	const struct rt_nvjitlink *link;
	struct rt_cubin cubin;
	struct strbuf text;
	enum status s;

	strbuf_init(&text, p->a);
	ptx_print(m, &text);
	if (!strcmp(p->args->emit, "ptx")) {
		*code = put(path, text.s, text.n);
		return ST_OK;
	}
	s = rt_nvjitlink_open(p->a, &p->d, NULL, &link);
	if (s == ST_OK)
		s = rt_nvjitlink_link(link, text.s, text.n, p->args->target->name, p->a, &p->d,
		                      &cubin);
	if (s == ST_OK)
		*code = put(path, cubin.data, cubin.size);
	return s;
}

static enum status emit_kernels(struct pipe *p, bool folder, int *code)
{
	enum status s = ST_OK;
	struct strbuf plan;

	strbuf_init(&plan, p->a);
	for (size_t i = 0; i < p->nkernel && !*code && s == ST_OK; i++) {
		if (!strcmp(p->args->emit, "plan")) {
			if (folder)
				plan.n = 0;
			cg_print_plan(p->kernel[i], &plan);
			if (folder)
				*code = put(kernel_path(p, i, "plan"), plan.s, plan.n);
		} else if (folder) {
			s = emit_module(p, p->kernel[i]->module, kernel_path(p, i, p->args->emit),
			                code);
		}
	}
	if (folder || *code || s != ST_OK)
		return s;
	if (!strcmp(p->args->emit, "plan"))
		*code = put(p->args->out, plan.s, plan.n);
	else
		return emit_module(p, p->nkernel > 1 ? merge(p) : p->kernel[0]->module,
		                   p->args->out, code);
	return ST_OK;
}

static enum status emit(struct pipe *p, int *code)
{
	const char *kind = p->args->emit;
	bool folder = is_folder(p->args->out);
	struct strbuf text;
	enum status s;

	strbuf_init(&text, p->a);
	s = pipe_read(p);
	if (s == ST_OK)
		s = pipe_parse(p);
	if (!strcmp(kind, "ast")) {
		if (s == ST_OK)
			fe_print_ast(p->ast, &p->d, &text);
		if (s == ST_OK)
			*code = put(p->args->out, text.s, text.n);
		return s;
	}
	if (p->ast)
		s = pipe_lower(p);
	if (s == ST_OK)
		s = pipe_passes(p, p->args->dump_passes ? &text : NULL);
	fputs(text.s, stderr);
	if (s != ST_OK)
		return s;
	if (strcmp(kind, "ir")) {
		s = pipe_codegen(p);
		if (s == ST_OK && folder && mkdir(p->args->out, 0777) && errno != EEXIST)
			*code = cannot(p->args->out, "make the folder");
		return s == ST_OK && !*code ? emit_kernels(p, folder, code) : s;
	}
	strbuf_init(&text, p->a);
	ir_print(p->after, &text);
	*code = put(p->args->out, text.s, text.n);
	return ST_OK;
}

static bool is_pass(const char *name)
{
	for (size_t i = 0; ir_pass_names[i]; i++)
		if (!strcmp(ir_pass_names[i], name))
			return true;
	return false;
}

static int wrong_pass(const struct args *args)
{
	struct strbuf b;

	strbuf_init(&b, args->arena);
	for (size_t i = 0; ir_pass_names[i]; i++)
		strbuf_printf(&b, "%s%s", i ? ", " : "", ir_pass_names[i]);
	return args_wrong(args, "there is no pass '%s'; the passes are %s", args->stop_after, b.s);
}

int cmd_compile(struct args *args)
{
	struct pipe p;
	enum status s;
	int code = 0, end;
	bool kernels;

	if (!args->emit)
		args->emit = "ptx";
	kernels = strcmp(args->emit, "ast") && strcmp(args->emit, "ir");
	if (kernels && !args->tp)
		return args_wrong(args, "--emit %s needs --tp, the number of ranks", args->emit);
	if (args->stop_after && strcmp(args->emit, "ir"))
		return args_wrong(args, "--stop-after goes with --emit ir");
	if (args->stop_after && !is_pass(args->stop_after))
		return wrong_pass(args);
	if (!kernels && is_folder(args->out))
		return args_wrong(args, "--emit %s writes one file, and '%s' is a folder",
		                  args->emit, args->out);
	pipe_init(&p, args->arena, args);
	s = emit(&p, &code);
	end = pipe_finish(&p, s);
	return end ? end : code;
}
