/*
 * Random kernels, well typed by construction: operations and operands are drawn until ir_infer
 * accepts them.  The same seed gives the same kernel everywhere.
 */
#pragma once
#include "ir/ir.h"

struct ir_random {
	uint64_t state;
	struct ir_func *f;
	struct ir_value *pool[256];
	unsigned npool;
	int64_t cols;      /* of most tensors: a power of two */
	enum ir_place own; /* of parameters that do not have all rows: sharded or carried */
	bool no_fp8;       /* only dtypes that code generation does */
};

static inline uint32_t ir_draw(struct ir_random *g, uint32_t below)
{
	uint64_t z = (g->state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ (z >> 31)) % below);
}

static inline enum ir_dtype ir_draw_dtype(struct ir_random *g)
{
	static const enum ir_dtype d[] = {IR_F32, IR_F32,  IR_BF16, IR_BF16,
	                                  IR_F16, IR_E4M3, IR_E5M2};

	return d[ir_draw(g, g->no_fp8 ? 5 : sizeof(d) / sizeof(d[0]))];
}

static inline void ir_keep(struct ir_random *g, struct ir_value *v)
{
	ir_append(g->f, v);
	if (g->npool < 256)
		g->pool[g->npool++] = v;
}

static inline unsigned ir_random_param(struct ir_random *g, enum ir_mode mode, enum ir_place place,
                                       unsigned ndim, int64_t cols, enum ir_dtype dtype)
{
	struct ir_param p = {.mode = mode};

	p.name = arena_printf(g->f->module->arena, "p%u", g->f->nparam);
	p.type = (struct ir_type){.dtype = (uint8_t)dtype,
	                          .ndim = (uint8_t)ndim,
	                          .place = (uint8_t)place,
	                          .cols = cols};
	return ir_param_add(g->f, p);
}

static inline struct ir_value *ir_random_read(struct ir_random *g, unsigned param)
{
	struct ir_value *v = ir_value_new(g->f, IR_OP_PARAM, (struct span){0}, 0, NULL);

	v->param = param;
	ir_set_type(g->f, v);
	ir_keep(g, v);
	return v;
}

static inline struct ir_value *ir_random_operand(struct ir_random *g)
{
	/* Half of the time one of the last few, so that chains get long. */
	unsigned n = g->npool > 6 && ir_draw(g, 2) ? 6 : g->npool;

	return g->pool[g->npool - 1 - ir_draw(g, n)];
}

/* Types v and keeps it, if it types. */
static inline bool ir_try(struct ir_random *g, struct ir_value *v)
{
	bool ok = ir_set_type(g->f, v);

	if (ok)
		ir_keep(g, v);
	else
		g->f->next_id = v->id;
	return ok;
}

/* An operation much like an earlier one: the same, or with operands turned round, or with another
 * attribute. */
static inline bool ir_random_twin(struct ir_random *g)
{
	struct ir_value *old = ir_random_operand(g), *v;
	uint32_t how = ir_draw(g, 4);

	if (old->op == IR_OP_CALL)
		return false;
	v = ir_value_new(g->f, (enum ir_op)old->op, (struct span){0}, old->nsrc, old->src);
	v->num = how == 1 ? -old->num : old->num;
	v->n = how == 2 && old->n > 1 ? old->n / 2 : old->n;
	v->param = old->param;
	v->type.dtype = old->type.dtype;
	for (unsigned i = 0; how == 3 && i < v->nsrc; i++)
		v->src[i] = old->src[v->nsrc - 1 - i];
	return ir_try(g, v);
}

/* all_reduce(a) + all_reduce(b), in f32: what pass merge looks for. */
static inline bool ir_random_sums(struct ir_random *g)
{
	struct ir_value *src[2], *v;

	for (unsigned i = 0; i < 2; i++) {
		v = ir_random_operand(g);
		v = ir_value_new(g->f, IR_OP_ALL_REDUCE, (struct span){0}, 1, &v);
		v->type.dtype = IR_F32;
		if (!ir_try(g, v))
			return false;
		src[i] = v;
	}
	return ir_try(g, ir_value_new(g->f, ir_draw(g, 2) ? IR_OP_ADD : IR_OP_SUB, (struct span){0},
	                              2, src));
}

/* One more value (or a few), or none when the draw does not type. */
static inline bool ir_random_value(struct ir_random *g)
{
	static const double num[] = {0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 0.1};
	enum ir_op op = (enum ir_op)ir_draw(g, IR_OP_CALL);
	const struct ir_op_info *info = &ir_op_info[op];
	struct ir_value *src[3], *v;

	if (!ir_draw(g, 6))
		return ir_random_twin(g);
	if (!ir_draw(g, 8))
		return ir_random_sums(g);
	if (op == IR_OP_PARAM)
		return false;
	for (int i = 0; i < info->nsrc; i++)
		src[i] = ir_random_operand(g);
	v = ir_value_new(g->f, op, (struct span){0}, (unsigned)info->nsrc, src);
	v->num = op == IR_OP_CONST ? num[ir_draw(g, 8 - g->f->merged_sums)] : 0;
	v->n = info->shape == IR_SHAPE_GRP || info->shape == IR_SHAPE_EXPAND
	               ? (int64_t)1 << ir_draw(g, 4)
	               : 0;
	if (op == IR_OP_CAST)
		v->type.dtype = (uint8_t)ir_draw_dtype(g);
	if (info->linear == IR_LIN_COLL && ir_draw(g, 2))
		v->type.dtype = IR_F32;
	return ir_try(g, v);
}

static inline void ir_random_values(struct ir_random *g, unsigned n)
{
	for (unsigned tries = 0; n && tries < 2000; tries++)
		n -= ir_random_value(g);
}

/* A fn of two operands, and the call of it on values of the pool. */
static inline void ir_random_call(struct ir_random *g, struct ir_module *m)
{
	struct ir_value *arg[] = {ir_random_operand(g), ir_random_operand(g)}, *call;
	struct ir_random in = {.state = g->state + 77, .cols = g->cols, .no_fp8 = g->no_fp8};

	in.f = ir_func_new(m, arena_printf(m->arena, "f.%u", g->f->next_id), false,
	                   (struct span){0});
	for (unsigned i = 0; i < 2; i++) {
		const struct ir_type t = arg[i]->type;

		ir_random_read(&in, ir_random_param(&in, IR_IN, (enum ir_place)t.place, t.ndim,
		                                    t.cols, (enum ir_dtype)t.dtype));
	}
	ir_random_values(&in, 1 + ir_draw(g, 5));
	in.f->result = in.pool[in.npool - 1];
	call = ir_value_new(g->f, IR_OP_CALL, (struct span){0}, 2, arg);
	call->callee = in.f;
	ir_try(g, call);
}

static inline void ir_random_out(struct ir_random *g, struct ir_value *v, unsigned param)
{
	struct ir_value *out, *cast;

	if (v->type.dtype != g->f->param[param].type.dtype) {
		cast = ir_value_new(g->f, IR_OP_CAST, (struct span){0}, 1, &v);
		cast->type.dtype = g->f->param[param].type.dtype;
		ir_set_type(g->f, cast);
		ir_append(g->f, cast);
		v = cast;
	}
	out = ir_value_new(g->f, IR_OP_OUT, (struct span){0}, 1, &v);
	out->param = param;
	ir_set_type(g->f, out);
	ir_append(g->f, out);
}

static inline bool ir_can_leave(const struct ir_value *v)
{
	return v->type.place != IR_PARTIAL && v->type.dtype != IR_BOOL;
}

static inline void ir_random_outs(struct ir_random *g, unsigned inout)
{
	struct ir_value *last = g->pool[0];

	for (unsigned i = 0; i < g->npool; i++) {
		struct ir_value *v = g->pool[i];
		bool new = i + 4 > g->npool || !ir_draw(g, 8);
		unsigned p;

		if (ir_can_leave(v) && v->type.ndim == 2 && v->type.cols == g->cols)
			last = v;
		if (!ir_can_leave(v) || !new)
			continue;
		p = v->type.ndim == 2 && ir_draw(g, 3) == 0 ? g->own : IR_REPLICATED;
		ir_random_out(g, v,
		              ir_random_param(g, IR_OUT, (enum ir_place)p, v->type.ndim,
		                              v->type.cols, ir_draw_dtype(g)));
	}
	if (inout < g->f->nparam)
		ir_random_out(g, last, inout);
}

/*
 * A kernel "k" of the module, the last of its functions.  Sums may be merged in one of four.
 * cols: of its rows; 0: drawn, and any dtype.
 */
static inline struct ir_func *ir_random_kernel_of(struct ir_module *m, uint64_t seed, int64_t cols)
{
	struct ir_random g = {.state = seed, .no_fp8 = cols != 0};
	struct ir_func *k = arena_new(m->arena, struct ir_func);
	unsigned inout = ~0u, n;

	*k = (struct ir_func){.name = "k", .is_kernel = true, .module = m};
	g.f = k;
	g.cols = (int64_t)1 << ir_draw(&g, 5);
	g.cols = cols ? cols : g.cols;
	g.own = ir_draw(&g, 2) ? IR_SHARDED : IR_CARRIED;
	k->merged_sums = !ir_draw(&g, 4);
	if (ir_draw(&g, 3)) {
		inout = ir_random_param(&g, IR_INOUT, IR_CARRIED, 2, g.cols, ir_draw_dtype(&g));
		ir_random_read(&g, inout);
	} else {
		ir_random_read(&g, ir_random_param(&g, IR_IN, IR_REPLICATED, 2, g.cols,
		                                   ir_draw_dtype(&g)));
	}
	n = ir_draw(&g, 3);
	for (unsigned i = 0; i < n; i++)
		ir_random_read(
		        &g, ir_random_param(&g, IR_IN, IR_PARTIAL, 2, g.cols, ir_draw_dtype(&g)));
	n = ir_draw(&g, 3);
	for (unsigned i = 0; i < n; i++)
		ir_random_read(&g,
		               ir_random_param(&g, IR_IN, ir_draw(&g, 2) ? g.own : IR_REPLICATED, 2,
		                               g.cols, ir_draw_dtype(&g)));
	ir_random_read(&g, ir_random_param(&g, IR_IN, IR_REPLICATED, ir_draw(&g, 2), 1, IR_F32));
	ir_random_read(&g, ir_random_param(&g, IR_IN, IR_REPLICATED, 1, g.cols, IR_BF16));
	ir_random_values(&g, 1 + ir_draw(&g, 10));
	if (ir_draw(&g, 2))
		ir_random_call(&g, m);
	ir_random_values(&g, 1 + ir_draw(&g, 12));
	ir_random_outs(&g, inout);
	*m->tail = k;
	m->tail = &k->next;
	return k;
}

static inline struct ir_func *ir_random_kernel(struct ir_module *m, uint64_t seed)
{
	return ir_random_kernel_of(m, seed, 0);
}
