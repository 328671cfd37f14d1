/* What several passes do to a function.  Forwarding uses the scratch fields: mark says that aux is
 * the replacement. */
#include "ir/edit.h"
#include <inttypes.h>

void ir_clear_scratch(struct ir_func *f)
{
	for (struct ir_value *v = f->first; v; v = v->next) {
		v->aux = NULL;
		v->mark = false;
	}
}

void ir_insert_after(struct ir_func *f, struct ir_value *at, struct ir_value *v)
{
	if (at->next)
		ir_insert_before(f, at->next, v);
	else
		ir_append(f, v);
}

struct ir_value *ir_unary(struct ir_func *f, enum ir_op op, struct span at, struct ir_value *src)
{
	struct ir_value *v = ir_value_new(f, op, at, 1, &src);

	ir_set_type(f, v);
	return v;
}

void ir_become(struct ir_func *f, struct ir_value *v, enum ir_op op, struct ir_value *src)
{
	v->op = (uint16_t)op;
	v->src = arena_news(f->module->arena, struct ir_value *, 1);
	v->src[0] = src;
	v->nsrc = 1;
	ir_set_type(f, v);
}

void ir_forward(struct ir_value *v, struct ir_value *by)
{
	v->mark = true;
	v->aux = by;
}

struct ir_value *ir_resolve(struct ir_value *v)
{
	while (v->mark)
		v = v->aux;
	return v;
}

void ir_resolve_operands(struct ir_value *v)
{
	for (unsigned i = 0; i < v->nsrc; i++)
		v->src[i] = ir_resolve(v->src[i]);
}

bool ir_is_row_local(const struct ir_value *v)
{
	enum ir_kind k = ir_op_info[v->op].kind;

	return k == IR_KIND_ELEM || k == IR_KIND_ROW || k == IR_KIND_GROUP;
}

int64_t ir_row_bytes(struct ir_type t)
{
	return (t.cols * ir_dtype_info[t.dtype].bits + 7) / 8;
}

void ir_gather_at(struct ir_func *f, struct ir_value *out, struct ir_value *own, struct diags *d)
{
	struct ir_value *g = ir_unary(f, IR_OP_ALL_GATHER, out->at, own);

	ir_insert_before(f, out, g);
	out->src[0] = g;
	out->type = g->type;
	diag_at(d, DIAG_REMARK, DIAG_REMARK_GATHER, out->at,
	        "'%s' is gathered here: each row goes to every rank, %" PRId64 " bytes",
	        f->param[out->param].name, ir_row_bytes(g->type));
}
