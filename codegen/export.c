/*
 * The export of a carried parameter: own rows of every rank become all rows on every rank.
 */
#include "codegen/codegen.h"

struct ir_func *cg_export(const struct ir_func *f, unsigned param, struct arena *a)
{
	const struct ir_param *q = &f->param[param];
	struct ir_module *m = ir_module_new(a);
	struct ir_func *g = ir_func_new(m, arena_printf(a, "export_%s", q->name), true, q->at);
	struct ir_param in = *q, whole = {.name = arena_printf(a, "%s_whole", q->name),
	                                  .type = q->type,
	                                  .mode = IR_OUT,
	                                  .at = q->at};
	struct ir_value *v;

	in.mode = IR_IN;
	whole.type.place = IR_REPLICATED;
	ir_param_add(g, in);
	v = ir_value_new(g, IR_OP_PARAM, q->at, 0, NULL);
	v->param = 0;
	v->name = q->name;
	v->type = q->type;
	ir_set_type(g, v);
	ir_append(g, v);
	v = ir_value_new(g, IR_OP_OUT, q->at, 1, &v);
	v->param = ir_param_add(g, whole);
	v->type = v->src[0]->type;
	ir_append(g, v);
	return g;
}
