/*
 * merge: all_reduce(a) + all_reduce(b) becomes all_reduce(a + b), likewise reduce_scatter and
 * differences.
 *
 * Before and after: form PLACED.  Only where the kernel says `allow merged_sums`, since the order
 * of additions changes, and only where both sums are f32, since a sum rounded to fewer bits would
 * lose its rounding.  Each sum must have no other use.  Elsewhere a remark (R453) says what was
 * possible.
 */
#include "ir/edit.h"
#include "ir/pass.h"

static void count_uses(struct ir_func *f)
{
	ir_clear_scratch(f);
	for (struct ir_value *v = f->first; v; v = v->next)
		for (unsigned i = 0; i < v->nsrc; i++)
			v->src[i]->aux = (void *)((uintptr_t)v->src[i]->aux + 1);
}

static bool is_sum(const struct ir_value *v)
{
	return v->nsrc == 1 && ir_op_info[v->op].linear == IR_LIN_COLL && v->type.dtype == IR_F32 &&
	       (uintptr_t)v->aux == 1;
}

static bool is_sum_of_sums(const struct ir_value *v)
{
	return ir_op_info[v->op].linear == IR_LIN_SUM && is_sum(v->src[0]) && is_sum(v->src[1]) &&
	       v->src[0] != v->src[1] && v->src[0]->op == v->src[1]->op;
}

static void merge(struct ir_func *f, struct ir_value *v)
{
	struct ir_value *const addend[] = {v->src[0]->src[0], v->src[1]->src[0]};
	struct ir_value *sum = ir_value_new(f, (enum ir_op)v->op, v->at, 2, addend);
	enum ir_op reduce = (enum ir_op)v->src[0]->op;

	ir_set_type(f, sum);
	ir_insert_before(f, v, sum);
	for (unsigned i = 0; i < 2; i++)
		ir_remove(f, v->src[i]);
	ir_become(f, v, reduce, sum);
}

bool ir_pass_merge(struct ir_func *f, const struct ir_pass_options *o, struct diags *d)
{
	(void)o;
	count_uses(f);
	for (struct ir_value *v = f->first; v; v = v->next) {
		if (!is_sum_of_sums(v))
			continue;
		if (f->merged_sums) {
			merge(f, v);
			continue;
		}
		diag_at(d, DIAG_REMARK, DIAG_REMARK_MERGE, v->at,
		        "two sums over the ranks are added here and could be one");
		diag_note(d, (struct span){0},
		          "'allow merged_sums;' permits the other order of additions");
	}
	return true;
}
