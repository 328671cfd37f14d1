/*
 * place: every slice and gather becomes a value; carried becomes sharded (the row-owned form).
 *
 * Before: form SOURCE without calls.  After: form PLACED.  A replicated operand beside a sharded
 * one is sliced, once for all its uses; a store to a replicated parameter of a sharded value
 * gathers (remark R450).
 */
#include "ir/edit.h"
#include "ir/pass.h"

/* The own rows of a replicated value; the slice stands right behind it. */
static struct ir_value *own_rows(struct ir_func *f, struct ir_value *v)
{
	struct ir_value *s = v->aux;

	if (!s) {
		s = ir_unary(f, IR_OP_SLICE, v->at, v);
		ir_insert_after(f, v, s);
		v->aux = s;
	}
	return s;
}

static bool has_rows(const struct ir_value *v, enum ir_place p)
{
	return v->type.ndim == 2 && v->type.place == p;
}

static void place_work(struct ir_func *f, struct ir_value *v)
{
	ir_set_type(f, v);
	for (unsigned i = 0; v->type.place == IR_SHARDED && i < v->nsrc; i++)
		if (has_rows(v->src[i], IR_REPLICATED))
			v->src[i] = own_rows(f, v->src[i]);
}

static void place_out(struct ir_func *f, struct ir_value *v, struct diags *d)
{
	enum ir_place want = f->param[v->param].type.place;

	if (want == IR_REPLICATED && has_rows(v->src[0], IR_SHARDED))
		ir_gather_at(f, v, v->src[0], d);
	else if (want != IR_REPLICATED && has_rows(v->src[0], IR_REPLICATED))
		v->src[0] = own_rows(f, v->src[0]);
	v->type = v->src[0]->type;
}

bool ir_pass_place(struct ir_func *f, struct diags *d)
{
	struct ir_value *next;

	ir_clear_scratch(f);
	for (struct ir_value *v = f->first; v; v = next) {
		next = v->next;
		if (v->op == IR_OP_OUT) {
			place_out(f, v, d);
		} else if (v->op == IR_OP_PARAM) {
			v->type.place = IR_SHARDED; /* taken where the parameter is carried */
			ir_set_type(f, v);
		} else if (ir_is_row_local(v)) {
			place_work(f, v);
		}
	}
	return true;
}
