/*
 * expand: the body of a fn takes the place of each call.
 *
 * Before: form SOURCE; callees stand before their callers and have been expanded.  After: f has no
 * calls.  Spans stay those of the body; the call's name goes to the value that took its place.  A
 * function that grows beyond MAX_VALUES is an error of the spec (doubling calls grow without
 * bound).
 */
#include "ir/edit.h"
#include "ir/map.h"
#include "ir/pass.h"

enum { MAX_VALUES = 1 << 16 };

static size_t length(const struct ir_func *f)
{
	size_t n = 0;

	for (const struct ir_value *v = f->first; v; v = v->next)
		n++;
	return n;
}

/* A copy of a value of the callee, operands through `map`, in front of the call. */
static void copy_before(struct ir_func *f, struct ir_value *call, struct ir_value *v,
                        struct ir_map *map)
{
	struct ir_value *c;

	if (v->op == IR_OP_PARAM) {
		ir_map_put(map, v, call->src[v->param]);
		return;
	}
	c = ir_value_new(f, (enum ir_op)v->op, v->at, v->nsrc, v->src);
	for (unsigned i = 0; i < v->nsrc; i++)
		c->src[i] = ir_map_get(map, v->src[i]);
	c->type = v->type;
	c->num = v->num;
	c->n = v->n;
	ir_insert_before(f, call, c);
	ir_map_put(map, v, c);
}

static void inline_call(struct ir_func *f, struct ir_value *call)
{
	struct ir_func *g = call->callee;
	struct ir_value *result;
	struct ir_map map;

	ir_map_init(&map, f->module->arena, length(g));
	for (struct ir_value *v = g->first; v; v = v->next)
		copy_before(f, call, v, &map);
	result = ir_map_get(&map, g->result);
	if (!result->name && call->name)
		result->name = call->name;
	ir_forward(call, result);
}

bool ir_pass_expand(struct ir_func *f, const struct ir_pass_options *o, struct diags *d)
{
	size_t n = length(f);
	struct ir_value *next;

	(void)o;
	ir_clear_scratch(f);
	for (struct ir_value *v = f->first; v; v = next) {
		next = v->next;
		ir_resolve_operands(v);
		if (v->op != IR_OP_CALL)
			continue;
		n += length(v->callee);
		if (n > MAX_VALUES) {
			diag_at(d, DIAG_ERROR, DIAG_EXPAND_SIZE, v->at,
			        "the calls in '%s' expand to more than %d operations", f->name,
			        MAX_VALUES);
			diag_note(d, (struct span){0},
			          "split the kernel, or let functions call each other less often");
			return false;
		}
		inline_call(f, v);
		ir_remove(f, v);
	}
	if (f->result)
		f->result = ir_resolve(f->result);
	return true;
}
