/* plait check: diagnostics of a spec; on a good one, a line for each kernel and model. */
#include "tools/choose.h"
#include "tools/commands.h"
#include "frontend/ast.h"
#include "tools/json.h"
#include "tools/pipeline.h"
#include <stdio.h>
#include <string.h>

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

/* With a number of ranks, what each kernel gets, too. */
static enum status check(struct pipe *p, const struct cg_offer **of, unsigned *n)
{
	enum status s = pipe_read(p);

	if (s == ST_OK) {
		pipe_parse(p);
		s = pipe_lower(p);
	}
	if (s == ST_OK)
		s = pipe_passes(p, IR_ROWS_OWN, NULL);
	if (s == ST_OK && (p->args->remarks || p->args->json) && p->args->tp)
		*of = choose_offers(p, n);
	return s == ST_OK && p->d.nerror ? ST_INPUT : s;
}

static int finish_json(struct pipe *p, enum status s, const struct cg_offer *of, unsigned n)
{
	cJSON *doc = json_document(p->args), *kernels = cJSON_AddArrayToObject(doc, "kernels");
	const struct ast *decls = s == ST_OK ? p->ast->decls : NULL;

	for (const struct ir_func *f = s == ST_OK ? p->before->funcs : NULL; f; f = f->next) {
		cJSON *k;

		if (!f->is_kernel)
			continue;
		k = json_signature(f);
		for (unsigned i = 0; i < n; i++)
			if (!strcmp(of[i].which.kernel, f->name))
				json_selection(k, &of[i].which);
		cJSON_AddItemToArray(kernels, k);
	}
	json_models(doc, &p->d, decls);
	return json_finish(doc, p, s);
}

int cmd_check(struct args *args)
{
	const struct cg_offer *of = NULL;
	struct pipe p;
	unsigned n = 0;
	enum status s;

	pipe_init(&p, args->arena, args);
	s = check(&p, &of, &n);
	if (args->json)
		return finish_json(&p, s, of, n);
	for (const struct ir_func *f = s == ST_OK ? p.before->funcs : NULL; f; f = f->next)
		if (f->is_kernel)
			print_kernel(p.a, f);
	for (const struct ast *m = s == ST_OK ? p.ast->decls : NULL; m; m = m->next)
		if (m->kind == AST_MODEL)
			printf("model %s: good%s\n", m->name,
			       args->tp ? "" : " (--tp also checks what depends on it)");
	return pipe_finish(&p, s);
}
