/*
 * reorder: all_reduce followed by row-local work becomes reduce_scatter, the work on own rows,
 * all_gather.
 *
 * Before and after: form PLACED.  After: if any value has own rows, or any all_reduce could move,
 * then everything with rows is on own rows, slices stand directly behind replicated parameters, and
 * gathers directly in front of stores to replicated parameters: gather(f(x)) = f(gather(x)) and
 * slice(f(x)) = f(slice(x)) for row-local f, slice(all_gather(x)) = x, slice(all_reduce(x)) =
 * reduce_scatter(x).  So two ways to write a tail end alike.
 *
 * Legal because all work of the IR is row-local and a replicated value has the same bits on every
 * rank.  The exception: a replicated value that scales a partial one is needed in all rows on every
 * rank, and so is what it is computed from.  Those values stay; a remark (R452) says so.
 *
 * On all rows (IR_ROWS_ALL) sums stay as they are; only kernels without forms have sharded values.
 */
#include "ir/edit.h"
#include "ir/map.h"
#include "ir/pass.h"

struct reorder {
	struct ir_func *f;
	struct diags *d;
	struct ir_map
	        whole; /* values that every rank needs in all rows; to the value that needs them */
	struct ir_map slice; /* replicated value to its own rows */
	unsigned moved;      /* all_reduces that became reduce_scatter */
};

/* The partial value (or, in turn, the value) that needs all rows of v on every rank; NULL: own rows
 * will do. */
static struct ir_value *needs_whole(const struct reorder *r, const struct ir_value *v)
{
	return ir_map_get(&r->whole, v);
}

static void find_whole(struct reorder *r)
{
	for (struct ir_value *v = r->f->last; v; v = v->prev) {
		struct ir_value *needs = needs_whole(r, v);

		if (!ir_is_row_local(v))
			continue;
		if (v->type.place == IR_PARTIAL)
			needs = v;
		for (unsigned i = 0; needs && i < v->nsrc; i++)
			if (ir_has_rows(v->src[i], IR_REPLICATED))
				ir_map_put(&r->whole, v->src[i], needs);
	}
}

/* Is there anything to bring to own rows?  Remarks about sums that cannot move are given here. */
static bool applies(struct reorder *r, enum ir_rows rows)
{
	bool own = false, any = false;

	for (struct ir_value *v = r->f->first; v; v = v->next) {
		struct ir_value *needs = needs_whole(r, v);

		own |= ir_has_rows(v, IR_SHARDED);
		if (v->op != IR_OP_ALL_REDUCE || rows == IR_ROWS_ALL)
			continue;
		any = true;
		own |= !needs;
		if (!needs)
			continue;
		diag_at(r->d, DIAG_REMARK, DIAG_REMARK_NOT_REORDERED, v->at,
		        "this sum stays an all_reduce: every rank needs all of its rows");
		diag_note(r->d, needs->at, "they scale an addend of another sum here");
	}
	if (!own && !any && rows == IR_ROWS_OWN) {
		diag_at(r->d, DIAG_REMARK, DIAG_REMARK_NOT_REORDERED, r->f->at,
		        "'%s' has no sum over the ranks and no sharded value: every rank computes "
		        "all rows",
		        r->f->name);
	}
	return own;
}

/* The own rows of v, by a slice if there is no other way. */
static struct ir_value *own_rows(struct reorder *r, struct ir_value *v)
{
	struct ir_value *s;

	v = ir_resolve(v);
	if (!ir_has_rows(v, IR_REPLICATED))
		return v;
	if (v->op == IR_OP_ALL_GATHER)
		return v->src[0];
	s = ir_map_get(&r->slice, v);
	if (!s) {
		s = ir_unary(r->f, IR_OP_SLICE, v->at, v);
		ir_insert_after(r->f, v, s);
		ir_map_put(&r->slice, v, s);
	}
	return s;
}

/* A store to a replicated parameter gathers in front of it; a gather that was written keeps its
 * span, without a remark. */
static void move_out(struct reorder *r, struct ir_value *v)
{
	struct ir_value *src = v->src[0], *gather;
	bool replicated = r->f->param[v->param].type.place == IR_REPLICATED;

	if (src->op == IR_OP_ALL_GATHER && src == v->prev) {
		return;
	} else if (src->op == IR_OP_ALL_GATHER) {
		gather = ir_unary(r->f, IR_OP_ALL_GATHER, src->at, src->src[0]);
		ir_insert_before(r->f, v, gather);
		v->src[0] = gather;
	} else if (replicated && src->type.ndim == 2 && !needs_whole(r, src)) {
		ir_gather_at(r->f, v, own_rows(r, src), r->d);
	}
	v->type = v->src[0]->type;
}

static void move(struct reorder *r, struct ir_value *v)
{
	ir_resolve_operands(v);
	if (v->op == IR_OP_OUT) {
		move_out(r, v);
	} else if (v->op == IR_OP_SLICE) {
		ir_forward(v, own_rows(r, v->src[0]));
		ir_remove(r->f, v);
	} else if (v->op == IR_OP_ALL_REDUCE && !needs_whole(r, v)) {
		v->op = IR_OP_REDUCE_SCATTER;
		ir_set_type(r->f, v);
		r->moved++;
	} else if (ir_is_row_local(v) && v->type.place != IR_PARTIAL && !needs_whole(r, v)) {
		for (unsigned i = 0; i < v->nsrc; i++)
			v->src[i] = own_rows(r, v->src[i]);
		ir_set_type(r->f, v);
	}
}

/* Counts of values, and room for as many slices. */
static void init(struct reorder *r)
{
	size_t n = 0;

	for (const struct ir_value *v = r->f->first; v; v = v->next)
		n++;
	ir_map_init(&r->whole, r->f->module->arena, n);
	ir_map_init(&r->slice, r->f->module->arena, n);
}

bool ir_pass_reorder(struct ir_func *f, const struct ir_pass_options *o, struct diags *d)
{
	struct reorder r = {.f = f, .d = d};
	struct ir_value *next;

	init(&r);
	find_whole(&r);
	if (!applies(&r, o->rows))
		return true;
	ir_clear_scratch(f);
	for (struct ir_value *v = f->first; v; v = next) {
		next = v->next;
		move(&r, v);
	}
	if (r.moved)
		diag_at(d, DIAG_REMARK, DIAG_REMARK_REORDERED, f->at,
		        "in '%s' the work behind %u sum%s over the ranks is done on own rows only",
		        f->name, r.moved, r.moved == 1 ? "" : "s");
	return true;
}
