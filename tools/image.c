/* --emit image: one file that a stage of the library loads instead of a spec (plait_stage_options.bundle). */
#include "runtime/bundle.h"
#include "tools/bundle.h"
#include <stdio.h>

enum { MOST_ROWS = 1 << 20 }; /* that a stage may ask for */

static struct rt_variants_options options(const struct pipe *p)
{
	const struct args *a = p->args;
	struct rt_variants_options o = {
	        .pdl = a->pdl, .rows_in_memory = a->rows_in_memory, .max_rows = MOST_ROWS};
	struct plait_set *set = arena_news(p->a, struct plait_set, a->nset);

	for (size_t i = 0; i < a->nset; i++)
		set[i] = (struct plait_set){a->set[i].name, a->set[i].value};
	o.compile = (struct plait_compile_options)PLAIT_COMPILE_OPTIONS_INIT;
	o.compile.spec_name = p->src->name;
	o.compile.text = p->src->text;
	o.compile.text_len = p->src->len;
	o.compile.kernel = a->kernel;
	o.compile.tp = a->tp;
	o.compile.target = a->target->name;
	o.compile.protocol = a->protocol == CG_AUTO ? NULL : cg_protocol_name(a->protocol);
	o.compile.order = cg_order_name(a->order);
	o.compile.set = set;
	o.compile.nset = a->nset;
	o.compile.remarks = a->remarks;
	return o;
}

enum status image_write(struct pipe *p, int *code)
{
	struct rt_variants_options o = options(p);
	struct rt_bytes b;
	const char *said;
	enum status s = rt_bundle_write(&o, p->a, &b, &said);

	fputs(said, stderr);
	if (s == ST_OK)
		*code = write_file(p->args->out, b.p, b.n);
	return s;
}
