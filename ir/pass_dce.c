/*
 * dce: values that no store needs go.
 *
 * Before and after: form PLACED.  Unused parameters stay: they are the caller's contract.  An
 * unused collective goes on every rank alike.
 */
#include "ir/edit.h"
#include "ir/pass.h"

bool ir_pass_dce(struct ir_func *f, const struct ir_pass_options *o, struct diags *d)
{
	struct ir_value *prev;

	(void)o;
	(void)d;
	ir_clear_scratch(f);
	if (f->result)
		f->result->mark = true;
	for (struct ir_value *v = f->last; v; v = prev) {
		prev = v->prev;
		if (!v->mark && ir_op_info[v->op].kind != IR_KIND_SINK) {
			ir_remove(f, v);
			continue;
		}
		for (unsigned i = 0; i < v->nsrc; i++)
			v->src[i]->mark = true;
	}
	return true;
}
