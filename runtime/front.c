/* Text to IR: parse, then lower with overridden constants. */
#include "runtime/front.h"

enum { MOST_SET = 1 << 16 };

const char *rt_set_wrong(const struct plait_set *set, size_t nset)
{
	if (nset > MOST_SET)
		return "there are more than 65536 overrides";
	for (size_t i = 0; i < nset; i++)
		if (!set || !set[i].name || !set[i].value)
			return "an override has no name or no value";
	return NULL;
}

enum status rt_front(struct arena *a, struct diags *d, const char *name, const char *text,
                     size_t len, const struct plait_set *set, size_t nset, struct fe_options *o,
                     struct ir_module **m)
{
	struct source *src = diags_add_source(d, name, text, len);
	struct fe_set *fe = arena_news(a, struct fe_set, nset);
	struct ast_file *ast;

	*m = NULL;
	if (!src) {
		diag_at(d, DIAG_ERROR, DIAG_RT_ARGUMENT, (struct span){0, 0},
		        "the spec is larger than 4 GiB");
		return ST_INPUT;
	}
	for (size_t i = 0; i < nset; i++)
		fe[i] = (struct fe_set){set[i].name, set[i].value};
	o->set = fe;
	o->nset = nset;
	ast = fe_parse(a, d, src);
	*m = ast ? fe_lower(a, d, ast, o) : NULL;
	return *m && !d->nerror ? ST_OK : ST_INPUT;
}
