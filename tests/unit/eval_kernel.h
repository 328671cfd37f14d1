/* For tests of the reference: a kernel under construction, its buffers, and its evaluation. */
#pragma once
#include "tests/unit/unit.h"
#include "ir/eval.h"
#include <string.h>

struct kernel {
	struct arena a;
	struct diags d;
	struct ir_module *m;
	struct ir_func *f;
	unsigned tp;
	int64_t rows;
	bool in_switch;
	struct ir_buffer *in, *out;
};

static const struct span nowhere;

static inline void begin(struct kernel *k, unsigned tp, int64_t rows)
{
	memset(k, 0, sizeof *k);
	arena_init(&k->a, 0);
	if (setjmp(k->a.oom))
		fail_msg("out of memory");
	diags_init(&k->d, &k->a);
	k->m = ir_module_new(&k->a);
	k->f = ir_func_new(k->m, "k", true, nowhere);
	k->tp = tp;
	k->rows = rows;
	k->in = arena_news(&k->a, struct ir_buffer, 16 * (size_t)tp);
	k->out = arena_news(&k->a, struct ir_buffer, 16 * (size_t)tp);
}

static inline unsigned param(struct kernel *k, enum ir_mode mode, enum ir_dtype t, unsigned ndim,
                             enum ir_place place, int64_t cols)
{
	struct ir_param p = {.name = "p", .mode = mode};
	unsigned i;

	p.type = (struct ir_type){(uint8_t)t, (uint8_t)ndim, (uint8_t)place, cols};
	i = ir_param_add(k->f, p);
	for (unsigned r = 0; r < k->tp; r++) {
		struct ir_buffer *b = &k->in[i * k->tp + r];
		int64_t lo, hi;

		ir_own_rows(k->rows, k->tp, r, &lo, &hi);
		b->rows = ndim < 2 ? 1 : place == IR_SHARDED ? hi - lo : k->rows;
		b->cols = cols;
		b->v = arena_news(&k->a, double, (size_t)(b->rows * cols) + 1);
	}
	return i;
}

static inline struct ir_value *value(struct kernel *k, enum ir_op op, unsigned n,
                                     struct ir_value *a, struct ir_value *b, struct ir_value *c)
{
	struct ir_value *src[3] = {a, b, c}, *v = ir_value_new(k->f, op, nowhere, n, src);
	unsigned bad;

	if (op == IR_OP_CONST)
		v->type = (struct ir_type){IR_F32, 0, IR_REPLICATED, 1};
	else if (ir_op_info[op].shape != IR_SHAPE_ATTR)
		assert_int_equal(ir_infer(k->f, v, &v->type, &bad), IR_TYPE_OK);
	ir_append(k->f, v);
	return v;
}

static inline struct ir_value *load(struct kernel *k, unsigned p)
{
	struct ir_value *v = value(k, IR_OP_PARAM, 0, NULL, NULL, NULL);

	v->param = p;
	v->type = k->f->param[p].type;
	return v;
}

static inline struct ir_value *number(struct kernel *k, double x)
{
	struct ir_value *v = value(k, IR_OP_CONST, 0, NULL, NULL, NULL);

	v->num = x;
	return v;
}

static inline void store(struct kernel *k, unsigned p, struct ir_value *x)
{
	struct ir_value *v = ir_value_new(k->f, IR_OP_OUT, nowhere, 1, &x);

	v->type = x->type;
	v->param = p;
	ir_append(k->f, v);
}

static inline void eval(struct kernel *k, enum ir_eval_mode mode, enum ir_sum sum)
{
	struct ir_eval_options o = {k->tp, k->rows, mode, sum, IR_ROWS_OWN, k->in_switch};

	assert_int_equal(ir_eval(k->f, &o, k->in, k->out, &k->a, &k->d), ST_OK);
}

static inline double frand(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (double)(*s >> 40) * 0x1p-23 - 1.0;
}
