/* plait lint: faults of communicating kernels that can be seen by reading their PTX. */
#include "lint/lint.h"
#include "tools/commands.h"
#include "tools/json.h"
#include "tools/pipeline.h"
#include <stdio.h>

static unsigned functions(const struct ptx_module *m)
{
	unsigned n = 0;

	for (const struct ptx_fn *f = m->fn; f; f = f->next)
		n++;
	return n;
}

int cmd_lint(struct args *args)
{
	const struct ptx_module *m = NULL;
	struct pipe p;
	enum status s;

	pipe_init(&p, args->arena, args);
	s = pipe_read(&p);
	if (s == ST_OK) {
		m = ptx_parse_any(p.a, &p.d, p.src);
		s = m && !lint_module_given(m, args->constant, args->nconstant, p.a, &p.d)
		            ? ST_OK
		            : ST_INPUT;
	}
	if (args->json)
		return json_finish(json_document(args), &p, s);
	if (m && s == ST_OK)
		printf("%s: %u function%s, no finding%s\n", p.src->name, functions(m),
		       functions(m) == 1 ? "" : "s", p.d.nwarning ? " but warnings" : "");
	return pipe_finish(&p, s);
}
