/*
 * cse: of values that are computed alike, the first stands for all.
 *
 * Before and after: form PLACED; the others are left for dce.  Collectives too: every rank drops
 * the same one.
 */
#include "ir/edit.h"
#include "ir/pass.h"
#include "support/hash.h"
#include <string.h>

/* a op b and b op a are the same bits (min and max are not here: the sign of a zero may differ). */
static bool commutes(unsigned op)
{
	return op == IR_OP_ADD || op == IR_OP_MUL || op == IR_OP_EQ || op == IR_OP_NE;
}

static uint64_t hash_value(const struct ir_value *v)
{
	uint64_t h = hash_bytes(HASH_INIT, &v->op, sizeof(v->op)), operands = 0;

	for (unsigned i = 0; i < v->nsrc; i++) {
		uint64_t one = hash_bytes(HASH_INIT, &v->src[i]->id, sizeof(v->src[i]->id));

		operands = commutes(v->op) ? operands + one : operands * 31 + one;
	}
	h = hash_bytes(h, &operands, sizeof(operands));
	h = hash_bytes(h, &v->num, sizeof(v->num));
	h = hash_bytes(h, &v->n, sizeof(v->n));
	return hash_bytes(h, &v->param, sizeof(v->param));
}

static bool same_operands(const struct ir_value *a, const struct ir_value *b)
{
	bool same = true;

	for (unsigned i = 0; i < a->nsrc; i++)
		same &= a->src[i] == b->src[i];
	return same || (commutes(a->op) && a->src[0] == b->src[1] && a->src[1] == b->src[0]);
}

static bool same(const struct ir_value *a, const struct ir_value *b)
{
	return a->op == b->op && a->nsrc == b->nsrc && ir_type_equal(a->type, b->type) &&
	       !memcmp(&a->num, &b->num, sizeof(a->num)) && a->n == b->n && a->param == b->param &&
	       same_operands(a, b);
}

bool ir_pass_cse(struct ir_func *f, const struct ir_pass_options *o, struct diags *d)
{
	struct ir_value **slot;
	size_t n = 0, size = 16;

	(void)o;
	(void)d;
	for (struct ir_value *v = f->first; v; v = v->next)
		n++;
	while (size < 2 * n)
		size *= 2;
	slot = arena_news(f->module->arena, struct ir_value *, size);
	ir_clear_scratch(f);
	for (struct ir_value *v = f->first; v; v = v->next) {
		size_t i;

		ir_resolve_operands(v);
		if (ir_op_info[v->op].kind == IR_KIND_SINK)
			continue;
		i = hash_value(v);
		while (slot[i & (size - 1)] && !same(slot[i & (size - 1)], v))
			i++;
		if (slot[i & (size - 1)])
			ir_forward(v, slot[i & (size - 1)]);
		else
			slot[i & (size - 1)] = v;
	}
	return true;
}
