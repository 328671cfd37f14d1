/* plait check: diagnostics of a spec; on a good one, a line for each kernel and model. */
#include "tools/choose.h"
#include "tools/commands.h"
#include "frontend/ast.h"
#include "tools/json.h"
#include "tools/pipeline.h"
#include <stdio.h>

static void print_kernel(struct arena *a, const struct ir_func *f)
{
	printf("kernel %s:", f->name);
	for (unsigned i = 0; i < f->nparam; i++) {
		static const char *const mode[] = {"", "out ", "inout "};
		const struct ir_param *p = &f->param[i];

		printf("%s %s%s: %s", i ? "," : "", mode[p->mode], p->name,
		       ir_type_text(a, p->type));
	}
	putchar('\n');
}

static enum status check(struct pipe *p)
{
	enum status s = pipe_read(p);

	if (s == ST_OK) {
		pipe_parse(p);
		s = pipe_lower(p);
	}
	if (s == ST_OK)
		s = pipe_passes(p, IR_ROWS_OWN, NULL);
	if (s == ST_OK && p->args->remarks && p->args->tp && p->after->funcs)
		choose_remarks(p);
	return s == ST_OK && p->d.nerror ? ST_INPUT : s;
}

static int finish_json(struct pipe *p, enum status s)
{
	cJSON *doc = json_document(p->args), *kernels = cJSON_AddArrayToObject(doc, "kernels");

	for (const struct ir_func *f = s == ST_OK ? p->before->funcs : NULL; f; f = f->next)
		if (f->is_kernel)
			cJSON_AddItemToArray(kernels, json_signature(f));
	return json_finish(doc, p, s);
}

int cmd_check(struct args *args)
{
	struct pipe p;
	enum status s;

	pipe_init(&p, args->arena, args);
	s = check(&p);
	if (args->json)
		return finish_json(&p, s);
	for (const struct ir_func *f = s == ST_OK ? p.before->funcs : NULL; f; f = f->next)
		if (f->is_kernel)
			print_kernel(p.a, f);
	for (const struct ast *m = s == ST_OK ? p.ast->decls : NULL; m; m = m->next)
		if (m->kind == AST_MODEL)
			printf("model %s: good%s\n", m->name,
			       args->tp ? "" : " (--tp also checks what depends on it)");
	return pipe_finish(&p, s);
}
