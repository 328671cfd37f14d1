/* plait compile: one stage of a spec's kernels, written to a file, a folder or standard output. */
#include "runtime/jit.h"
#include "tools/bundle.h"
#include "tools/commands.h"
#include "tools/json.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *out)
{
	struct stat st;
	size_t n = out ? strlen(out) : 0;

	return n && (out[n - 1] == '/' || (!stat(out, &st) && S_ISDIR(st.st_mode)));
}

/* One module with every kernel's entry: their functions share no names but those of the module's
 * header. */
static struct ptx_module *merge(struct pipe *p)
{
	struct ptx_module *m = p->kernel[0].k->module;

	for (size_t i = 1; i < p->nkernel; i++) {
		struct ptx_module *o = p->kernel[i].k->module;

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
	                    p->kernel[i].k->name, ending);
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
		*code = write_file(path, text.s, text.n);
		return ST_OK;
	}
	s = rt_nvjitlink_open(p->a, &p->d, NULL, &link);
	if (s == ST_OK)
		s = rt_nvjitlink_link(link, text.s, text.n, p->args->target->name, p->a, &p->d,
		                      &cubin);
	if (s == ST_OK)
		*code = write_file(path, cubin.data, cubin.size);
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
			cg_print_plan(p->kernel[i].k, &plan);
			if (p->kernel[i].which)
				cg_print_select(p->kernel[i].which, p->a, &plan);
			if (folder)
				*code = write_file(kernel_path(p, i, "plan"), plan.s, plan.n);
		} else if (folder) {
			s = emit_module(p, p->kernel[i].k->module, kernel_path(p, i, p->args->emit),
			                code);
		}
	}
	if (folder || *code || s != ST_OK || (p->args->json && !p->args->out))
		return s;
	if (!strcmp(p->args->emit, "plan"))
		*code = write_file(p->args->out, plan.s, plan.n);
	else
		return emit_module(p, p->nkernel > 1 ? merge(p) : p->kernel[0].k->module,
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
	if (s == ST_OK && !strcmp(kind, "image"))
		return image_write(p, code);
	if (s == ST_OK)
		s = pipe_parse(p);
	if (!strcmp(kind, "ast")) {
		if (s == ST_OK)
			fe_print_ast(p->ast, &p->d, &text);
		if (s == ST_OK)
			*code = write_file(p->args->out, text.s, text.n);
		return s;
	}
	if (p->ast)
		s = pipe_lower(p);
	if (s == ST_OK)
		s = pipe_passes(p, pipe_rows(p->args, p->args->protocol),
		                p->args->dump_passes ? &text : NULL);
	fputs(text.s, stderr);
	if (s != ST_OK)
		return s;
	if (strcmp(kind, "ir")) {
		s = pipe_kernels(p);
		if (s == ST_OK && !strcmp(kind, "bundle"))
			return bundle_write(p, code);
		if (s == ST_OK && folder)
			*code = make_folder(p->args->out);
		return s == ST_OK && !*code ? emit_kernels(p, folder, code) : s;
	}
	strbuf_init(&text, p->a);
	ir_print(p->after, &text);
	*code = write_file(p->args->out, text.s, text.n);
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

static bool takes_auto(const struct args *args)
{
	bool some = args->protocol == CG_AUTO;

	for (unsigned i = 0; i < args->nprotocol; i++)
		some |= args->protocols[i] == CG_AUTO;
	return some;
}

/* Options that do not go together: -1 when all is well. */
static int wrong_use(const struct args *args, bool kernels)
{
	const char *emit = args->emit;
	bool bundle = !strcmp(emit, "bundle"), plan = !strcmp(emit, "plan");

	if (kernels && !args->tp)
		return args_wrong(args, "--emit %s needs --tp, the number of ranks", emit);
	if (args->stop_after && strcmp(emit, "ir"))
		return args_wrong(args, "--stop-after goes with --emit ir");
	if (args->stop_after && !is_pass(args->stop_after))
		return wrong_pass(args);
	if (!kernels && is_folder(args->out))
		return args_wrong(args, "--emit %s writes one file, and '%s' is a folder", emit,
		                  args->out);
	if (bundle && (!args->out || !strcmp(args->out, "-")))
		return args_wrong(args, "--emit bundle needs a folder: -o DIR");
	if (!strcmp(emit, "image") && (!args->out || is_folder(args->out)))
		return args_wrong(args, "--emit image needs a file: -o FILE");
	if (!strcmp(emit, "image") && args->ntokens)
		return args_wrong(args, "an image has kernels for every T: no --tokens");
	if (args->nprotocol > 1 && !bundle && !plan)
		return args_wrong(args, "several protocols go with --emit bundle or plan");
	if (args->ntokens && (args->ntokens > 1 || !args->tokens[0]))
		return args_wrong(args, "--tokens of compile is one row count, at least 1");
	if (args->ntokens && !takes_auto(args))
		return args_wrong(args, "--tokens goes with --protocol auto, which chooses by it");
	if (args->json && !kernels)
		return args_wrong(args, "--json is about kernels, and --emit %s ends before them",
		                  emit);
	if (args->json && !plan && !args->out)
		return args_wrong(args, "--json takes standard output; --emit %s needs -o", emit);
	return -1;
}

static cJSON *kernel_json(const struct pipe_kernel *k)
{
	cJSON *o = json_kernel(k->k, k->rows);

	if (k->which)
		json_selection(o, k->which);
	return o;
}

/* All facts of the kernels; what --emit asks for is in a file. */
static int finish_json(struct pipe *p, enum status s, int code)
{
	cJSON *doc = json_document(p->args), *kernels = cJSON_AddArrayToObject(doc, "kernels");
	int end;

	for (size_t i = 0; s == ST_OK && i < p->nkernel; i++)
		cJSON_AddItemToArray(kernels, kernel_json(&p->kernel[i]));
	json_models(doc, &p->d, s == ST_OK ? p->ast->decls : NULL);
	end = json_finish(doc, p, s);
	return end ? end : code;
}

int cmd_compile(struct args *args)
{
	struct pipe p;
	enum status s;
	int code = 0, end;

	if (!args->emit)
		args->emit = args->json ? "plan" : "ptx";
	end = wrong_use(args, strcmp(args->emit, "ast") && strcmp(args->emit, "ir"));
	if (end >= 0)
		return end;
	pipe_init(&p, args->arena, args);
	s = emit(&p, &code);
	if (args->json)
		return finish_json(&p, s, code);
	end = pipe_finish(&p, s);
	return end ? end : code;
}
