/*
 * plait_compile: frontend, passes, code generation, in one scratch arena that is freed before it
 * returns.  What the caller may see is copied to the handle's arena.  Either arena running out
 * jumps back here.
 */
#include "runtime/code.h"
#include "frontend/frontend.h"
#include "ir/pass.h"
#include <stdlib.h>
#include <string.h>

#define CHECK(name) _Static_assert((int)PLAIT_##name == (int)ST_##name, "statuses agree")
CHECK(OK);
CHECK(INPUT);
CHECK(USAGE);
CHECK(ENV);
CHECK(INTERNAL);
CHECK(NOMEM);
CHECK(TIMEOUT);
CHECK(MISMATCH);
#undef CHECK

static const size_t default_limit = (size_t)1 << 30;

/* One compilation.  On the heap: a jump leaves it as it was. */
struct job {
	struct arena scratch;
	struct diags d;
	struct plait_compile_options o;
	struct cg_options cg;
	plait_code *code;
};

static enum status usage(struct job *j, const char *what, const char *value, const char *choice)
{
	diag_at(&j->d, DIAG_ERROR, DIAG_RT_ARGUMENT, (struct span){0}, "%s '%s' is not known", what,
	        value);
	diag_note(&j->d, (struct span){0}, "give one of: %s", choice);
	return ST_USAGE;
}

static enum status check_arguments(struct job *j)
{
	const struct plait_compile_options *o = &j->o;
	const char *protocol = o->protocol ? o->protocol : "auto";
	const char *order = o->order ? o->order : "formal";
	const char *target = o->target ? o->target : "sm_90";
	int p = cg_protocol_by_name(protocol), m = cg_order_by_name(order);

	if (!o->text) {
		diag_at(&j->d, DIAG_ERROR, DIAG_RT_ARGUMENT, (struct span){0}, "no spec is given");
		diag_note(&j->d, (struct span){0}, "set 'text' and 'text_len'");
		return ST_USAGE;
	}
	if (o->tp < 1 || o->tp > CG_MAX_RANKS) {
		diag_at(&j->d, DIAG_ERROR, DIAG_RT_ARGUMENT, (struct span){0},
		        "tp is %u, not 1 to %d", o->tp, CG_MAX_RANKS);
		diag_note(&j->d, (struct span){0}, "set 'tp' to the number of ranks");
		return ST_USAGE;
	}
	j->cg = (struct cg_options){.tp = o->tp, .spec_name = o->spec_name, .places = &j->d};
	j->cg.target = cg_target_by_name(target);
	if (!j->cg.target)
		return usage(j, "target", target, cg_target_names(&j->scratch));
	if (p < 0)
		return usage(
		        j, "protocol", protocol,
		        arena_printf(&j->scratch, "auto, %s", cg_protocol_names(&j->scratch, ~0u)));
	if (m < 0)
		return usage(j, "order", order, cg_order_names(&j->scratch));
	j->cg.protocol = (enum cg_protocol)p;
	j->cg.order = (enum cg_order)m;
	return ST_OK;
}

static enum status front(struct job *j, struct ir_module **module)
{
	struct fe_options fo = {.nset = j->o.nset};
	struct ir_pass_options po = {.tp = j->o.tp, .rows = cg_protocol_rows(j->cg.protocol)};
	struct fe_set *set = arena_news(&j->scratch, struct fe_set, j->o.nset);
	struct source *src = diags_add_source(&j->d, j->o.spec_name, j->o.text, j->o.text_len);
	struct ast_file *ast;

	if (!src) {
		diag_at(&j->d, DIAG_ERROR, DIAG_RT_ARGUMENT, (struct span){0},
		        "the spec is larger than 4 GiB");
		return ST_INPUT;
	}
	for (size_t i = 0; i < j->o.nset; i++)
		set[i] = (struct fe_set){j->o.set[i].name, j->o.set[i].value};
	fo.set = set;
	ast = fe_parse(&j->scratch, &j->d, src);
	*module = ast ? fe_lower(&j->scratch, &j->d, ast, &fo) : NULL;
	if (!*module || j->d.nerror)
		return ST_INPUT;
	return ir_run_passes(*module, &po, &j->d);
}

static enum status no_such_kernel(struct job *j, const struct ir_module *m)
{
	const char **names = NULL, *near;
	size_t n = 0, cap = 0;

	for (const struct ir_func *f = m->funcs; f; f = f->next)
		if (f->is_kernel) {
			names = arena_grow(&j->scratch, names, n, &cap, n + 1, sizeof *names);
			names[n++] = f->name;
		}
	near = nearest_name(j->o.kernel, names, n);
	diag_at(&j->d, DIAG_ERROR, DIAG_RT_ARGUMENT, (struct span){0},
	        "the spec has no kernel '%s'", j->o.kernel);
	if (near)
		diag_note(&j->d, (struct span){0}, "did you mean '%s'?", near);
	return ST_USAGE;
}

static enum status generate(struct job *j, const struct ir_module *m)
{
	size_t n = 0;

	for (const struct ir_func *f = m->funcs; f; f = f->next)
		n += f->is_kernel && (!j->o.kernel || strcmp(f->name, j->o.kernel) == 0);
	if (j->o.kernel && n == 0)
		return no_such_kernel(j, m);
	j->code->kernel = arena_news(&j->code->arena, struct rt_kernel, n);
	n = 0;
	for (const struct ir_func *f = m->funcs; f; f = f->next) {
		struct cg_kernel *k;
		enum status s;

		if (!f->is_kernel || (j->o.kernel && strcmp(f->name, j->o.kernel) != 0))
			continue;
		s = cg_compile(f, &j->cg, &j->scratch, &j->d, &k);
		if (s != ST_OK)
			return s;
		rt_keep_kernel(j->code, &j->code->kernel[n++], k, &j->scratch);
	}
	j->code->nkernel = n;
	return ST_OK;
}

/* All that may jump.  The caller of plait_compile gets the diagnostics whatever the outcome. */
static enum status run(struct job *j)
{
	struct ir_module *m = NULL;
	struct strbuf text;
	enum status s = check_arguments(j);

	if (s == ST_OK)
		s = front(j, &m);
	if (s == ST_OK)
		s = generate(j, m);
	if (s != ST_OK && !j->d.nerror) {
		diag_at(&j->d, DIAG_ERROR, DIAG_RT_BUG, (struct span){0},
		        "the compiler stopped without saying why");
		s = ST_INTERNAL;
	}
	strbuf_init(&text, &j->scratch);
	diags_render(&j->d, j->o.remarks ? DIAG_REMARK : DIAG_WARNING, &text);
	j->code->diagnostics = arena_strndup(&j->code->arena, text.s, text.n);
	return s;
}

static enum status out_of_memory(struct job *j)
{
	j->code->diagnostics = "error: out of memory\n";
	j->code->nkernel = 0;
	return ST_NOMEM;
}

static enum status run_guarded(struct job *j)
{
	if (setjmp(j->scratch.oom))
		return out_of_memory(j);
	if (setjmp(j->code->arena.oom))
		return out_of_memory(j);
	diags_init(&j->d, &j->scratch);
	return run(j);
}

enum plait_status plait_compile(const struct plait_compile_options *o, plait_code **out)
{
	size_t size = o ? o->struct_size : 0;
	struct job *j;
	enum status s;

	if (!out)
		return PLAIT_USAGE;
	*out = NULL;
	if (size < sizeof o->struct_size)
		return PLAIT_USAGE;
	j = calloc(1, sizeof *j);
	*out = calloc(1, sizeof **out);
	if (!j || !*out) {
		free(j);
		free(*out);
		*out = NULL;
		return PLAIT_NOMEM;
	}
	memcpy(&j->o, o, size < sizeof j->o ? size : sizeof j->o);
	if (!j->o.spec_name)
		j->o.spec_name = "spec";
	j->code = *out;
	arena_init(&j->scratch, j->o.memory_limit ? j->o.memory_limit : default_limit);
	arena_init(&j->code->arena, 0);
	s = run_guarded(j);
	arena_free(&j->scratch);
	free(j);
	return (enum plait_status)s;
}
