/*
 * place: every slice and gather becomes a value; the form of rows is fixed.
 *
 * Before: form SOURCE without calls.  After: form PLACED.
 *
 * Own rows: carried becomes sharded.  A replicated operand beside a sharded one is sliced, once for
 * all its uses; a store to a replicated parameter of a sharded value gathers (remark R450).
 *
 * All rows: carried becomes replicated, reduce_scatter becomes all_reduce, slices and gathers go:
 * nothing is sharded.  With a sharded parameter that is an error (E421); a kernel without carried
 * parameters and collectives has no forms, and is placed as for own rows.
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

static void place_work(struct ir_func *f, struct ir_value *v)
{
	ir_set_type(f, v);
	for (unsigned i = 0; v->type.place == IR_SHARDED && i < v->nsrc; i++)
		if (ir_has_rows(v->src[i], IR_REPLICATED))
			v->src[i] = own_rows(f, v->src[i]);
}

static void place_out(struct ir_func *f, struct ir_value *v, struct diags *d)
{
	enum ir_place want = f->param[v->param].type.place;

	if (want == IR_REPLICATED && ir_has_rows(v->src[0], IR_SHARDED))
		ir_gather_at(f, v, v->src[0], d);
	else if (want != IR_REPLICATED && ir_has_rows(v->src[0], IR_REPLICATED))
		v->src[0] = own_rows(f, v->src[0]);
	v->type = v->src[0]->type;
}

/* Own rows where that is the only way: on values that are sharded or carried. */
static void place_own(struct ir_func *f, struct diags *d)
{
	struct ir_value *next;

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
}

/* ---- all rows ---- */

/* Would the kernel do anything else in the other form?  Not without carried parameters and
 * communication; a store to every rank of what is sharded is communication. */
static bool has_forms(const struct ir_func *f)
{
	bool sharded = false, whole = false, more = false;

	for (unsigned i = 0; i < f->nparam; i++) {
		const struct ir_type t = f->param[i].type;

		more |= t.ndim == 2 && t.place == IR_CARRIED;
		sharded |= t.ndim == 2 && t.place == IR_SHARDED;
		whole |= t.ndim == 2 && t.place == IR_REPLICATED && f->param[i].mode != IR_IN;
	}
	for (const struct ir_value *v = f->first; v; v = v->next) {
		more |= ir_op_info[v->op].kind == IR_KIND_COLL;
		sharded |= ir_has_rows(v, IR_SHARDED);
	}
	return more || (sharded && whole);
}

/* A sharded buffer holds own rows, and nothing else can be read or written there. */
static bool can_have_all(const struct ir_func *f, struct diags *d)
{
	bool ok = true;

	for (unsigned i = 0; i < f->nparam; i++) {
		const struct ir_param *p = &f->param[i];

		if (p->type.ndim < 2 || p->type.place != IR_SHARDED)
			continue;
		ok = false;
		diag_at(d, DIAG_ERROR, DIAG_ROWS_SHARDED, p->at,
		        "'%s' is sharded, so '%s' cannot work on all rows on every rank", p->name,
		        f->name);
		diag_note(d, (struct span){0},
		          "take a protocol that works on own rows, or declare '%s' carried",
		          p->name);
	}
	return ok;
}

static void place_all(struct ir_func *f)
{
	struct ir_value *next;

	for (struct ir_value *v = f->first; v; v = next) {
		next = v->next;
		ir_resolve_operands(v);
		if (v->op == IR_OP_SLICE || v->op == IR_OP_ALL_GATHER) {
			ir_remove(f, v);
			ir_forward(v, v->src[0]);
			continue;
		}
		if (v->op == IR_OP_REDUCE_SCATTER)
			v->op = IR_OP_ALL_REDUCE;
		if (v->op == IR_OP_PARAM && v->type.place != IR_PARTIAL)
			v->type.place = IR_REPLICATED; /* taken where the parameter is carried */
		ir_set_type(f, v);
	}
}

bool ir_pass_place(struct ir_func *f, const struct ir_pass_options *o, struct diags *d)
{
	ir_clear_scratch(f);
	if (o->rows == IR_ROWS_OWN || !has_forms(f))
		place_own(f, d);
	else if (can_have_all(f, d))
		place_all(f);
	else
		return false;
	return true;
}
