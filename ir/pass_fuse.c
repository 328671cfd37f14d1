/*
 * fuse: the kernel becomes loads, a row program, stores.
 *
 * Before: form PLACED, after reorder and dce.  After: form FUSED, on own rows if any value was
 * sharded, else on all rows: reduce_scatter of a parameter is load_sum, a parameter or its slice is
 * load, out is store or store_all.  Canonical order: loads in order of parameters, then work depth
 * first from the stores in order of parameters, each store directly behind its value; numbers from
 * 0, no names.
 *
 * Since all work is row-local, own rows of operands suffice for own rows of results: what reorder
 * left replicated moves too, once its reason is gone.  A sum over ranks of a computed value needs a
 * second kernel (E420); but under `allow merged_sums` sums may be regrouped, and
 * reduce_scatter(a * s + b) is load_sum(a) * s + load_sum(b), in f32.
 */
#include "ir/edit.h"
#include "ir/map.h"
#include "ir/pass.h"

struct fuse {
	struct ir_func *f;
	bool own;               /* own rows, not all */
	struct ir_value **sink; /* by parameter: its store, or NULL */
	struct ir_value **load;
	size_t nload, load_cap;
	struct ir_map sums;  /* partial value -> its sum over the ranks */
	struct ir_map sinks; /* value -> its first store; the next is in the store's aux */
	struct ir_value **stack;
	size_t nstack, stack_cap;
};

/* Refuses before anything has changed. */
static bool can_fuse(const struct ir_func *f, struct diags *d)
{
	bool ok = true;

	for (const struct ir_value *v = f->first; v && !f->merged_sums; v = v->next) {
		if (ir_op_info[v->op].linear != IR_LIN_COLL || v->src[0]->op == IR_OP_PARAM)
			continue;
		ok = false;
		diag_at(d, DIAG_ERROR, DIAG_FUSE_COMPUTED, v->at,
		        "this sum over the ranks is of a computed value, which one kernel cannot "
		        "do");
		diag_note(d, (struct span){0},
		          "sum each parameter by itself, or let 'allow merged_sums;' regroup the "
		          "sums, or write two kernels");
	}
	return ok;
}

/* ---- values, one by one ---- */

static struct ir_value *make_load(struct fuse *u, enum ir_op op, const struct ir_value *v,
                                  unsigned param, enum ir_dtype dtype)
{
	struct ir_value *l = ir_value_new(u->f, op, v->at, 0, NULL);

	l->param = param;
	l->type.dtype = (uint8_t)dtype;
	l->type.place = u->own ? IR_SHARDED : IR_REPLICATED;
	l->type.ndim = 2; /* says that the placement counts */
	ir_set_type(u->f, l);
	u->load = arena_grow(u->f->module->arena, u->load, u->nload, &u->load_cap, u->nload + 1,
	                     sizeof(struct ir_value *));
	u->load[u->nload++] = l;
	return l;
}

/* v's work on the sums of its partial operands, behind v; its replicated operand is resolved
 * already. */
static struct ir_value *work_on_sums(struct fuse *u, struct ir_value *v)
{
	struct ir_value *s = ir_value_new(u->f, (enum ir_op)v->op, v->at, v->nsrc, v->src);

	s->n = v->n;
	for (unsigned i = 0; i < v->nsrc; i++)
		if (v->src[i]->type.place == IR_PARTIAL)
			s->src[i] = ir_map_get(&u->sums, v->src[i]);
	ir_set_type(u->f, s);
	ir_insert_after(u->f, v, s);
	return s;
}

static void fuse_partial(struct fuse *u, struct ir_value *v)
{
	if (!u->f->merged_sums)
		return;
	ir_map_put(&u->sums, v,
	           v->op == IR_OP_PARAM ? make_load(u, IR_OP_LOAD_SUM, v, v->param, IR_F32)
	                                : work_on_sums(u, v));
}

static void fuse_reduction(struct fuse *u, struct ir_value *v)
{
	struct ir_value *src = v->src[0], *sum = ir_map_get(&u->sums, src);

	if (src->op == IR_OP_PARAM)
		sum = make_load(u, IR_OP_LOAD_SUM, v, src->param, (enum ir_dtype)v->type.dtype);
	ir_forward(v, sum);
}

static void fuse_out(struct fuse *u, struct ir_value *v)
{
	struct ir_value *src = v->src[0];
	bool all =
	        src->type.place == IR_SHARDED && u->f->param[v->param].type.place == IR_REPLICATED;

	ir_become(u->f, v, all ? IR_OP_STORE_ALL : IR_OP_STORE, src);
	u->sink[v->param] = v;
}

static void fuse_value(struct fuse *u, struct ir_value *v)
{
	ir_resolve_operands(v);
	if (v->type.place == IR_PARTIAL)
		fuse_partial(u, v);
	else if (v->op == IR_OP_PARAM)
		ir_forward(v, make_load(u, IR_OP_LOAD, v, v->param, (enum ir_dtype)v->type.dtype));
	else if (v->op == IR_OP_SLICE || v->op == IR_OP_ALL_GATHER)
		ir_forward(v, v->src[0]);
	else if (v->op == IR_OP_OUT)
		fuse_out(u, v);
	else if (ir_op_info[v->op].linear == IR_LIN_COLL)
		fuse_reduction(u, v);
	else if (ir_is_row_local(v))
		ir_set_type(u->f, v);
}

/* ---- the new order ---- */

static void emit(struct fuse *u, struct ir_value *v)
{
	ir_append(u->f, v);
	for (struct ir_value *s = ir_map_get(&u->sinks, v); s; s = s->aux)
		ir_append(u->f, s);
}

static void push(struct fuse *u, struct ir_value *v)
{
	if (v->mark)
		return;
	v->mark = true;
	v->aux = NULL;
	u->stack = arena_grow(u->f->module->arena, u->stack, u->nstack, &u->stack_cap,
	                      u->nstack + 1, sizeof(struct ir_value *));
	u->stack[u->nstack++] = v;
}

/* Depth first, operands in order; loads are only marked.  A value's aux counts the operands done.
 */
static void walk(struct fuse *u, struct ir_value *root)
{
	push(u, root);
	while (u->nstack) {
		struct ir_value *v = u->stack[u->nstack - 1];
		uintptr_t i = (uintptr_t)v->aux;

		v->aux = (void *)(i + 1);
		if (i < v->nsrc) {
			push(u, v->src[i]);
			continue;
		}
		u->nstack--;
		if (v->op != IR_OP_LOAD && v->op != IR_OP_LOAD_SUM)
			emit(u, v);
	}
}

/* Moves the loads that are used to the front, in order of parameters. */
static void emit_loads(struct fuse *u)
{
	struct ir_value *work = u->f->first, *last = u->f->last;

	u->f->first = u->f->last = NULL;
	for (unsigned p = 0; p < u->f->nparam; p++)
		for (size_t i = 0; i < u->nload; i++)
			if (u->load[i]->mark && u->load[i]->param == p)
				ir_append(u->f, u->load[i]);
	for (unsigned p = 0; p < u->f->nparam; p++)
		if (u->sink[p] && u->sink[p]->src[0]->nsrc == 0 &&
		    u->sink[p]->src[0]->op != IR_OP_CONST)
			ir_append(u->f, u->sink[p]);
	if (!work)
		return;
	work->prev = u->f->last;
	if (u->f->last)
		u->f->last->next = work;
	else
		u->f->first = work;
	u->f->last = last;
}

static void renumber(struct ir_func *f)
{
	f->next_id = 0;
	for (int sinks = 0; sinks < 2; sinks++)
		for (struct ir_value *v = f->first; v; v = v->next) {
			v->name = NULL;
			if ((ir_op_info[v->op].kind == IR_KIND_SINK) == sinks)
				v->id = f->next_id++;
		}
}

static void reorder_list(struct fuse *u, size_t nvalues)
{
	ir_clear_scratch(u->f);
	ir_map_init(&u->sinks, u->f->module->arena, nvalues);
	for (unsigned p = u->f->nparam; p-- > 0;) {
		struct ir_value *s = u->sink[p];

		if (!s)
			continue;
		s->aux = ir_map_get(&u->sinks, s->src[0]);
		ir_map_put(&u->sinks, s->src[0], s);
	}
	u->f->first = u->f->last = NULL;
	for (unsigned p = 0; p < u->f->nparam; p++)
		if (u->sink[p])
			walk(u, u->sink[p]->src[0]);
	emit_loads(u);
	renumber(u->f);
}

bool ir_pass_fuse(struct ir_func *f, const struct ir_pass_options *o, struct diags *d)
{
	struct fuse u = {.f = f};
	struct ir_value *next;
	size_t n = 0;

	(void)o;
	if (!can_fuse(f, d))
		return false;
	for (const struct ir_value *v = f->first; v; v = v->next) {
		n++;
		u.own |= v->type.ndim == 2 && v->type.place == IR_SHARDED;
	}
	u.sink = arena_news(f->module->arena, struct ir_value *, f->nparam);
	ir_map_init(&u.sums, f->module->arena, n);
	ir_clear_scratch(f);
	for (struct ir_value *v = f->first; v; v = next) {
		next = v->next;
		fuse_value(&u, v);
	}
	reorder_list(&u, f->nparam);
	return true;
}
