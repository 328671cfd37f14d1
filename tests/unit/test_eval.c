/* The reference: values and bounds of operations, reductions and collectives (test_eval_num.c:
 * formats). */
#include "tests/unit/unit.h"
#include "ir/eval.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a kernel under construction ---- */

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

static void begin(struct kernel *k, unsigned tp, int64_t rows)
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

static unsigned param(struct kernel *k, enum ir_mode mode, enum ir_dtype t, unsigned ndim,
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

static struct ir_value *value(struct kernel *k, enum ir_op op, unsigned n, struct ir_value *a,
                              struct ir_value *b, struct ir_value *c)
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

static struct ir_value *load(struct kernel *k, unsigned p)
{
	struct ir_value *v = value(k, IR_OP_PARAM, 0, NULL, NULL, NULL);

	v->param = p;
	v->type = k->f->param[p].type;
	return v;
}

static struct ir_value *number(struct kernel *k, double x)
{
	struct ir_value *v = value(k, IR_OP_CONST, 0, NULL, NULL, NULL);

	v->num = x;
	return v;
}

static void store(struct kernel *k, unsigned p, struct ir_value *x)
{
	struct ir_value *v = ir_value_new(k->f, IR_OP_OUT, nowhere, 1, &x);

	v->type = x->type;
	v->param = p;
	ir_append(k->f, v);
}

static void eval(struct kernel *k, enum ir_eval_mode mode, enum ir_sum sum)
{
	struct ir_eval_options o = {k->tp, k->rows, mode, sum, IR_ROWS_OWN, k->in_switch};

	assert_int_equal(ir_eval(k->f, &o, k->in, k->out, &k->a, &k->d), ST_OK);
}

static double frand(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (double)(*s >> 40) * 0x1p-23 - 1.0;
}

/* ---- operations ---- */

/* One row of one rank through one elementwise operation; v and err of the first column. */
static double apply(enum ir_op op, unsigned n, const double *x, double *err)
{
	struct kernel k;
	struct ir_value *src[3] = {NULL, NULL, NULL};
	unsigned p[3], y;
	double v;

	begin(&k, 1, 1);
	for (unsigned i = 0; i < n; i++) {
		p[i] = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 1);
		k.in[p[i]].v[0] = x[i];
	}
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
	for (unsigned i = 0; i < n; i++)
		src[i] = load(&k, p[i]);
	store(&k, y, value(&k, op, n, src[0], src[1], src[2]));
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	v = k.out[y].v[0];
	*err = k.out[y].err[0];
	arena_free(&k.a);
	return v;
}

static void arithmetic_is_that_of_f32_and_its_bits_are_fixed(void **state)
{
	uint64_t s = 1;

	(void)state;
	for (unsigned i = 0; i < 2000; i++) {
		float a = (float)(frand(&s) * ldexp(1.0, (int)(i % 60) - 30)), b = (float)frand(&s);
		float c = (float)(frand(&s) * ldexp(1.0, (int)(i % 40) - 20));
		double x[3] = {(double)a, (double)b, (double)c}, err;

		assert_true(apply(IR_OP_ADD, 2, x, &err) == (double)(a + b) && err == 0.0);
		assert_true(apply(IR_OP_SUB, 2, x, &err) == (double)(a - b) && err == 0.0);
		assert_true(apply(IR_OP_MUL, 2, x, &err) == (double)(a * b) && err == 0.0);
		assert_true(apply(IR_OP_DIV, 2, x, &err) == (double)(a / b) && err == 0.0);
		assert_true(apply(IR_OP_FMA, 3, x, &err) == (double)fmaf(a, b, c) && err == 0.0);
		x[0] = fabs(x[0]);
		assert_true(apply(IR_OP_SQRT, 1, x, &err) == (double)sqrtf(fabsf(a)) && err == 0.0);
	}
}

static void approximations_have_the_bounds_of_the_table(void **state)
{
	double x = 1.75, err, v, ulp = 0x1p-24; /* rsqrt(1.75) is in [0.5, 1) */

	(void)state;
	v = apply(IR_OP_RSQRT, 1, &x, &err);
	assert_true(fabs(v - 1.0 / sqrt(1.75)) <= ulp / 2);
	assert_true(err == 3.0 * ulp);
	x = 0.0;
	assert_true(isinf(apply(IR_OP_RSQRT, 1, &x, &err)) && err == 0.0);
	x = -0.0; /* as IEEE 754 has it, and PTX */
	assert_true(apply(IR_OP_RSQRT, 1, &x, &err) == -(double)INFINITY && err == 0.0);
	x = -1.0;
	assert_true(isnan(apply(IR_OP_RSQRT, 1, &x, &err)) && err == 0.0);
	v = apply(IR_OP_TANH, 1, &x, &err);
	assert_true(fabs(v - tanh(-1.0)) <= ulp && err >= 0x1p-21 && err < 0x1p-20);
}

/* What ops.def grants exp does not reach from its first infinity back to FLT_MAX; its last finite
 * value may be an infinity. */
static void an_exp_that_overflows_overflows_everywhere(void **state)
{
	float last = logf(FLT_MAX);
	double x, err, v;

	(void)state;
	if (exp((double)last) > (double)FLT_MAX)
		last = nextafterf(last, 0.0f);
	x = (double)nextafterf(last, INFINITY);
	assert_true(exp(x) - 4.0 * 0x1p104 > 0x1.ffffffp127); /* where f32 rounds to infinity */
	assert_true(isinf(apply(IR_OP_EXP, 1, &x, &err)) && err == 0.0);
	x = (double)last;
	v = apply(IR_OP_EXP, 1, &x, &err);
	assert_true(isfinite(v) && err >= 4.0 * 0x1p104);
}

static void minimum_and_maximum_pass_over_a_nan(void **state)
{
	double x[2] = {(double)NAN, 3.0}, y[2] = {2.0, (double)NAN},
	       z[2] = {(double)NAN, (double)NAN}, err;

	(void)state;
	assert_true(apply(IR_OP_MIN, 2, x, &err) == 3.0 && err == 0.0);
	assert_true(apply(IR_OP_MAX, 2, y, &err) == 2.0 && err == 0.0);
	assert_true(isnan(apply(IR_OP_MAX, 2, z, &err)));
}

static void a_select_on_an_undecided_comparison_is_bounded_by_both_sides(void **state)
{
	struct kernel k;
	struct ir_value *x, *c;
	unsigned p, y;

	(void)state;
	begin(&k, 1, 1);
	p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 1);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
	k.in[p].v[0] = 4.0;
	x = value(&k, IR_OP_RSQRT, 1, load(&k, p), NULL, NULL); /* 0.5, give or take 3 ulp */
	c = value(&k, IR_OP_LT, 2, x, number(&k, 0.5), NULL);
	store(&k, y, value(&k, IR_OP_SELECT, 3, c, number(&k, -1.0), number(&k, 7.0)));
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	assert_true(k.out[y].v[0] == 7.0 && k.out[y].err[0] == 8.0);
	arena_free(&k.a);
}

static void a_quotient_near_a_pole_is_unknown(void **state)
{
	struct kernel k;
	struct ir_value *x;
	unsigned p, y;

	(void)state;
	begin(&k, 1, 1);
	p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 1);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
	k.in[p].v[0] = 4.0;
	x = value(&k, IR_OP_SUB, 2, value(&k, IR_OP_RSQRT, 1, load(&k, p), NULL, NULL),
	          number(&k, 0.5), NULL);
	store(&k, y, value(&k, IR_OP_DIV, 2, number(&k, 1.0), x, NULL));
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	assert_true(isinf(k.out[y].err[0]));
	assert_true(ir_conforms((double)NAN, k.out[y].v[0], k.out[y].err[0]));
	arena_free(&k.a);
}

/* x / x, times 0, of an x that may be 0: a NaN may be in it, whatever follows. */
static void what_is_unknown_stays_unknown(void **state)
{
	static const enum ir_op then[] = {IR_OP_SIGMOID, IR_OP_TANH, IR_OP_EXP, IR_OP_ABS};

	(void)state;
	for (unsigned i = 0; i < sizeof then / sizeof *then; i++) {
		struct kernel k;
		struct ir_value *x;
		unsigned p, y;

		begin(&k, 1, 1);
		p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 1);
		y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
		k.in[p].v[0] = 4.0;
		x = value(&k, IR_OP_SUB, 2, value(&k, IR_OP_RSQRT, 1, load(&k, p), NULL, NULL),
		          number(&k, 0.5), NULL); /* 0, give or take */
		x = value(&k, IR_OP_MUL, 2, value(&k, IR_OP_DIV, 2, x, x, NULL), number(&k, 0.0),
		          NULL);
		store(&k, y, value(&k, then[i], 1, x, NULL, NULL));
		eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
		assert_true(isinf(k.out[y].err[0]));
		arena_free(&k.a);
	}
}

/* ---- row reductions ---- */

#define COLS 1000

/* Sums x in f32 in a random tree no deeper than `depth`; 0 when the tree drawn was too deep. */
static bool random_tree(uint64_t *s, const float *x, unsigned n, unsigned depth, float *sum)
{
	float v[COLS];
	unsigned d[COLS];

	for (unsigned i = 0; i < n; i++) {
		v[i] = x[i];
		d[i] = 0;
	}
	for (unsigned m = n; m > 1; m--) {
		unsigned i = (unsigned)((frand(s) + 1.0) * 0.5 * m) % m, j = (i + 1 + m / 2) % m;

		if (i == j)
			j = (i + 1) % m;
		v[i] += v[j];
		d[i] = (d[i] > d[j] ? d[i] : d[j]) + 1;
		v[j] = v[m - 1];
		d[j] = d[m - 1];
	}
	*sum = v[0];
	return d[0] <= depth;
}

static void a_row_sum_in_any_legal_order_is_within_the_bound(void **state)
{
	uint64_t s = 7;
	unsigned tried = 0;

	(void)state;
	for (unsigned round = 0; round < 60; round++) {
		struct kernel k;
		unsigned p, y;
		float x[COLS], sum;

		begin(&k, 1, 1);
		p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, COLS);
		y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
		for (unsigned i = 0; i < COLS; i++) {
			x[i] = (float)(frand(&s) * ldexp(1.0, (int)(i % 30) - 15));
			k.in[p].v[i] = (double)x[i];
		}
		store(&k, y, value(&k, IR_OP_ROW_SUM, 1, load(&k, p), NULL, NULL));
		eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
		if (random_tree(&s, x, COLS, ir_reduction_depth(COLS), &sum)) {
			assert_true(ir_conforms((double)sum, k.out[y].v[0], k.out[y].err[0]));
			tried++;
		}
		arena_free(&k.a);
	}
	assert_true(tried > 40);
}

/* rmsnorm in long double against the reference: near it, and with a bound of a few units. */
static void the_bound_of_an_rmsnorm_is_a_few_units_and_holds(void **state)
{
	struct kernel k;
	struct ir_value *x, *m, *n;
	unsigned p, g, y;
	uint64_t s = 3;
	long double q = 0, scale;

	(void)state;
	begin(&k, 1, 1);
	p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, COLS);
	g = param(&k, IR_IN, IR_BF16, 1, IR_REPLICATED, COLS);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, COLS);
	for (unsigned i = 0; i < COLS; i++) {
		k.in[p].v[i] = (double)(float)frand(&s);
		k.in[g].v[i] = ir_round(IR_BF16, frand(&s));
		q += (long double)k.in[p].v[i] * k.in[p].v[i];
	}
	x = load(&k, p);
	m = value(&k, IR_OP_ROW_MEAN, 1, value(&k, IR_OP_MUL, 2, x, x, NULL), NULL, NULL);
	m = value(&k, IR_OP_RSQRT, 1, value(&k, IR_OP_ADD, 2, m, number(&k, 1e-5), NULL), NULL,
	          NULL);
	n = value(&k, IR_OP_MUL, 2, value(&k, IR_OP_MUL, 2, x, m, NULL), load(&k, g), NULL);
	store(&k, y, n);
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	scale = 1 / sqrtl(q / COLS + 1e-5L);
	for (unsigned i = 0; i < COLS; i++) {
		long double want = k.in[p].v[i] * scale * k.in[g].v[i];

		assert_true(fabsl(want - k.out[y].v[i]) <= k.out[y].err[i] + 1e-45);
		assert_true(k.out[y].err[i] <= 64 * 0x1p-23 * fabs(k.out[y].v[i]) + 1e-44);
	}
	eval(&k, IR_EVAL_REAL, IR_SUM_RANK_ORDER);
	for (unsigned i = 0; i < COLS; i++) {
		double want = (double)(k.in[p].v[i] * scale * k.in[g].v[i]);

		assert_true(fabs(want - k.out[y].v[i]) <= fabs(want) * 1e-14);
		assert_true(k.out[y].err[i] == 0.0);
	}
	arena_free(&k.a);
}

static void the_sum_of_a_row_of_zeros_is_zero_to_the_bit(void **state)
{
	struct kernel k;
	unsigned p, y;

	(void)state;
	begin(&k, 1, 1);
	p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, COLS);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
	store(&k, y, value(&k, IR_OP_ROW_SUM, 1, load(&k, p), NULL, NULL));
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	assert_true(k.out[y].v[0] == 0.0 && k.out[y].err[0] == 0.0);
	arena_free(&k.a);
}

static void groups_reduce_and_expand(void **state)
{
	struct kernel k;
	struct ir_value *x, *g;
	unsigned p, y, z;

	(void)state;
	begin(&k, 1, 1);
	p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 6);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 2);
	z = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 6);
	for (unsigned i = 0; i < 6; i++)
		k.in[p].v[i] = i == 2 ? 9.0 : i;
	x = load(&k, p);
	g = ir_value_new(k.f, IR_OP_GROUP_MAX, nowhere, 1, &x);
	g->n = 3;
	g->type = (struct ir_type){IR_F32, 2, IR_REPLICATED, 2};
	ir_append(k.f, g);
	store(&k, y, g);
	x = ir_value_new(k.f, IR_OP_EXPAND, nowhere, 1, &g);
	x->n = 3;
	x->type = (struct ir_type){IR_F32, 2, IR_REPLICATED, 6};
	ir_append(k.f, x);
	store(&k, z, x);
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	assert_true(k.out[y].v[0] == 9.0 && k.out[y].v[1] == 5.0);
	assert_true(k.out[z].v[2] == 9.0 && k.out[z].v[3] == 5.0);
	arena_free(&k.a);
}

/* In f32 (a + b) - a overflows where (a - a) + b does not. */
static void a_row_sum_that_overflows_in_some_order_is_unknown(void **state)
{
	static const double x[4][4] = {{3e38, 3e38, -3e38, 1.0},
	                               {3e38, 3e38, -INFINITY, 1.0},
	                               {3e38, 3e38, 3e38, 1.0},
	                               {3e38, -INFINITY, -3e38, 1.0}};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct kernel k;
		unsigned p, y;

		begin(&k, 1, 1);
		p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 4);
		y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
		for (unsigned c = 0; c < 4; c++)
			k.in[p].v[c] = (double)(float)x[i][c];
		store(&k, y, value(&k, IR_OP_ROW_SUM, 1, load(&k, p), NULL, NULL));
		eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
		assert_true(!isinf(k.out[y].v[0]) == (i == 0));
		assert_true(i < 2 ? isinf(k.out[y].err[0]) : k.out[y].err[0] == 0.0);
		arena_free(&k.a);
	}
}

/* A sum of zeros, or of products that round to zero, may be either zero: 1 / sqrt of it is either
 * infinity. */
static void the_sign_of_a_zero_that_was_summed_is_unknown(void **state)
{
	static const double x[2] = {0.0, 0x1p-100};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct kernel k;
		struct ir_value *s, *v;
		unsigned p, y;

		begin(&k, 1, 1);
		p = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 4);
		y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
		for (unsigned c = 0; c < 4; c++)
			k.in[p].v[c] = x[i];
		v = load(&k, p);
		s = value(&k, IR_OP_ROW_DOT, 2, v, v, NULL);
		store(&k, y, value(&k, IR_OP_RSQRT, 1, s, NULL, NULL));
		eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
		assert_true(isinf(k.out[y].v[0]) && isinf(k.out[y].err[0]));
		arena_free(&k.a);
	}
}

/* ---- collectives ---- */

/* The sum over ranks of one number each, as bf16. */
static double reduce(const double *x, unsigned tp, enum ir_sum sum, double *err)
{
	struct kernel k;
	unsigned p, y;
	double v;

	begin(&k, tp, 1);
	p = param(&k, IR_IN, IR_BF16, 2, IR_PARTIAL, 1);
	y = param(&k, IR_OUT, IR_BF16, 2, IR_REPLICATED, 1);
	for (unsigned r = 0; r < tp; r++)
		k.in[p * tp + r].v[0] = x[r];
	store(&k, y, value(&k, IR_OP_ALL_REDUCE, 1, load(&k, p), NULL, NULL));
	eval(&k, IR_EVAL_SPEC, sum);
	v = k.out[y * tp].v[0];
	*err = k.out[y * tp].err[0];
	arena_free(&k.a);
	return v;
}

static void a_sum_over_ranks_is_rounded_as_the_mode_says(void **state)
{
	/* In f32, in order: 2^24 + 1 + 1 + ... stays; exactly it grows. */
	const double x[4] = {0x1p24, 1.0, 1.0, -0x1p24};
	/* 1 + 2^-8 is a tie in bf16; with 2^-40 it is over it, which f32 does not see. */
	const double y[3] = {1.0, 0x1p-8, 0x1p-40};
	double err;

	(void)state;
	assert_true(reduce(x, 4, IR_SUM_RANK_ORDER, &err) == 0.0 && err == 0.0);
	assert_true(reduce(x, 4, IR_SUM_EXACT, &err) == 2.0 && err == 0.0);
	assert_true(reduce(x, 4, IR_SUM_FAITHFUL, &err) == 2.0 && err >= 2.0);
	assert_true(reduce(y, 3, IR_SUM_RANK_ORDER, &err) == 1.0 && err == 0.0);
	assert_true(reduce(y, 3, IR_SUM_EXACT, &err) == 1.0 + 0x1p-7 && err == 0.0);
	assert_true(reduce(y, 3, IR_SUM_FAITHFUL, &err) == 1.0 + 0x1p-7 && err == 0x1p-7);
}

/* From +0 in registers: 1 / sqrt of it is +inf.  The switch may have either zero, but where an
 * addend is +0. */
static void a_sum_of_negative_zeros_is_positive_unless_the_switch_made_it(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 12; i++) {
		bool in_switch = i & 1, mixed = i & 2;
		struct ir_value *s;
		struct kernel k;
		unsigned p, y;

		begin(&k, 2, 1);
		k.in_switch = in_switch;
		p = param(&k, IR_IN, IR_F32, 2, IR_PARTIAL, 1);
		y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 1);
		k.in[p * 2].v[0] = -0.0;
		k.in[p * 2 + 1].v[0] = mixed ? 0.0 : -0.0;
		s = value(&k, IR_OP_ALL_REDUCE, 1, load(&k, p), NULL, NULL);
		store(&k, y, value(&k, IR_OP_RSQRT, 1, s, NULL, NULL));
		eval(&k, IR_EVAL_SPEC, (enum ir_sum)(i / 4));
		assert_true(isinf(k.out[y * 2].v[0]) && k.out[y * 2].v[0] > 0.0);
		assert_true(isinf(k.out[y * 2].err[0]) == (in_switch && !mixed));
		arena_free(&k.a);
	}
}

static void a_representable_sum_is_faithful_only_as_itself(void **state)
{
	const double x[3] = {1.0, 0.5, -0.25};
	double err;

	(void)state;
	assert_true(reduce(x, 3, IR_SUM_FAITHFUL, &err) == 1.25 && err == 0.0);
}

/* Against integers: addends are multiples of 2^-20 below 2^20, so their sum is an exact int64. */
static void exact_sums_agree_with_integer_arithmetic(void **state)
{
	uint64_t s = 11;

	(void)state;
	for (unsigned i = 0; i < 3000; i++) {
		double x[16], err, v, want;
		int64_t sum = 0;

		for (unsigned r = 0; r < 16; r++) {
			x[r] = ir_round(IR_BF16, frand(&s) * ldexp(1.0, (int)((i + r * 7) % 24)));
			x[r] = rint(x[r] * 0x1p20) * 0x1p-20;
			x[r] = ir_round(IR_BF16, x[r]);
			sum += (int64_t)(x[r] * 0x1p20);
		}
		want = ir_round(IR_BF16, (double)sum * 0x1p-20);
		assert_true(reduce(x, 16, IR_SUM_EXACT, &err) == want && err == 0.0);
		v = reduce(x, 16, IR_SUM_FAITHFUL, &err);
		assert_true(v == want && fabs((double)sum * 0x1p-20 - v) <= err);
	}
}

static void f32_sums_in_any_order_are_within_the_faithful_bound(void **state)
{
	uint64_t s = 5;

	(void)state;
	for (unsigned i = 0; i < 3000; i++) {
		double x[8], err, v;
		float sum = 0;

		for (unsigned r = 0; r < 8; r++)
			x[r] = ir_round(IR_BF16,
			                frand(&s) * ldexp(1.0, (int)((i * 5 + r * 11) % 50) - 25));
		for (unsigned r = 0; r < 8; r++)
			sum += (float)x[(r * 3 + i) % 8];
		v = reduce(x, 8, IR_SUM_FAITHFUL, &err);
		assert_true(ir_conforms(ir_round(IR_BF16, (double)sum), v, err));
	}
}

static void infinities_and_nans_pass_through_a_sum(void **state)
{
	const double x[3] = {(double)INFINITY, 1.0, 2.0},
	             y[3] = {(double)INFINITY, -(double)INFINITY, 2.0};
	double err;

	(void)state;
	for (int m = IR_SUM_RANK_ORDER; m <= IR_SUM_FAITHFUL; m++) {
		assert_true(isinf(reduce(x, 3, (enum ir_sum)m, &err)) && err == 0.0);
		assert_true(isnan(reduce(y, 3, (enum ir_sum)m, &err)) && err == 0.0);
	}
}

static void a_sum_over_ranks_that_overflows_in_some_order_is_unknown(void **state)
{
	const double x[3] = {0x1.fep127, 0x1.fep127, -0x1.fep127};
	double err;

	(void)state;
	assert_true(isfinite(reduce(x, 3, IR_SUM_FAITHFUL, &err)) && isinf(err));
	assert_true(isinf(reduce(x, 3, IR_SUM_RANK_ORDER, &err)) && err == 0.0);
	assert_true(reduce(x, 3, IR_SUM_EXACT, &err) == x[0] && err == 0.0);
}

/* ---- rows and placements ---- */

static void ranks_own_rows_in_chunks_and_the_last_may_own_none(void **state)
{
	int64_t lo, hi;

	(void)state;
	ir_own_rows(9, 8, 0, &lo, &hi);
	assert_true(lo == 0 && hi == 2);
	ir_own_rows(9, 8, 4, &lo, &hi);
	assert_true(lo == 8 && hi == 9);
	ir_own_rows(9, 8, 7, &lo, &hi);
	assert_true(lo == 9 && hi == 9);
	ir_own_rows(0, 8, 3, &lo, &hi);
	assert_true(lo == 0 && hi == 0);
}

static void a_carried_output_is_written_on_own_rows_and_a_sharded_one_indexed_locally(void **state)
{
	struct kernel k;
	struct ir_value *h;
	unsigned x, res, sh;

	(void)state;
	begin(&k, 2, 3);
	x = param(&k, IR_IN, IR_BF16, 2, IR_PARTIAL, 2);
	res = param(&k, IR_INOUT, IR_BF16, 2, IR_CARRIED, 2);
	sh = param(&k, IR_OUT, IR_F32, 2, IR_SHARDED, 2);
	for (unsigned i = 0; i < 6; i++) {
		k.in[x * 2].v[i] = i;
		k.in[x * 2 + 1].v[i] = 10.0 * i;
		k.in[res * 2].v[i] = i / 2 < 2 ? 100.0 : (double)NAN;
		k.in[res * 2 + 1].v[i] = i / 2 < 2 ? (double)NAN : 200.0;
	}
	h = value(&k, IR_OP_REDUCE_SCATTER, 1, load(&k, x), NULL, NULL);
	h = value(&k, IR_OP_ADD, 2, h, load(&k, res), NULL);
	store(&k, res, h);
	h = ir_value_new(k.f, IR_OP_OUT, nowhere, 1, &h);
	h->type = h->src[0]->type;
	h->param = sh;
	ir_append(k.f, h);
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	assert_int_equal(k.out[sh * 2].rows, 2);
	assert_int_equal(k.out[sh * 2 + 1].rows, 1);
	assert_true(k.out[sh * 2].v[3] == 133.0 && k.out[sh * 2 + 1].v[1] == 255.0);
	assert_true(k.out[res * 2].v[3] == 133.0 && k.out[res * 2].err[3] == 0.0);
	assert_true(k.out[res * 2].err[4] == -1.0 && k.out[res * 2 + 1].err[3] == -1.0);
	assert_true(k.out[res * 2 + 1].v[5] == 255.0 && k.out[res * 2 + 1].err[5] == 0.0);
	arena_free(&k.a);
}

static void a_call_means_its_body(void **state)
{
	struct kernel k;
	struct ir_func *kernel, *fn;
	struct ir_value *a, *b, *src[2], *c;
	unsigned x, g, y;

	(void)state;
	begin(&k, 1, 2);
	kernel = k.f;
	fn = k.f = ir_func_new(k.m, "f.1", false, nowhere);
	ir_param_add(fn, (struct ir_param){.name = "a", .type = {IR_F32, 2, IR_REPLICATED, 3}});
	ir_param_add(fn, (struct ir_param){.name = "w", .type = {IR_F32, 1, IR_REPLICATED, 3}});
	a = load(&k, 0);
	b = value(&k, IR_OP_ADD, 2, load(&k, 1), number(&k, 1.0), NULL);
	fn->result = value(&k, IR_OP_MUL, 2, a, b, NULL);
	k.f = kernel;
	x = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 3);
	g = param(&k, IR_IN, IR_F32, 1, IR_REPLICATED, 3);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 3);
	for (unsigned i = 0; i < 6; i++)
		k.in[x].v[i] = i;
	for (unsigned i = 0; i < 3; i++)
		k.in[g].v[i] = i;
	src[0] = load(&k, x);
	src[1] = load(&k, g);
	c = ir_value_new(k.f, IR_OP_CALL, nowhere, 2, src);
	c->callee = fn;
	c->type = fn->result->type;
	ir_append(k.f, c);
	store(&k, y, c);
	eval(&k, IR_EVAL_SPEC, IR_SUM_RANK_ORDER);
	for (unsigned i = 0; i < 6; i++)
		assert_true(k.out[y].v[i] == i * (i % 3 + 1.0) && k.out[y].err[i] == 0.0);
	arena_free(&k.a);
}

static void wrong_buffers_are_refused(void **state)
{
	struct ir_eval_options o = {2, 2, IR_EVAL_SPEC, IR_SUM_RANK_ORDER, IR_ROWS_OWN, false};
	struct kernel k;
	unsigned x, y;

	(void)state;
	begin(&k, 2, 2);
	x = param(&k, IR_IN, IR_F32, 2, IR_REPLICATED, 3);
	y = param(&k, IR_OUT, IR_F32, 2, IR_REPLICATED, 3);
	store(&k, y, load(&k, x));
	k.in[x * 2 + 1].v[4] = 1.0;
	assert_int_equal(ir_eval(k.f, &o, k.in, k.out, &k.a, &k.d), ST_INPUT);
	assert_int_equal(k.d.head->code, DIAG_EVAL_REPLICATED);
	k.in[x * 2 + 1].v[4] = 0.0;
	k.in[x * 2 + 1].rows = 1;
	assert_int_equal(ir_eval(k.f, &o, k.in, k.out, &k.a, &k.d), ST_INPUT);
	o.tp = 17;
	assert_int_equal(ir_eval(k.f, &o, k.in, k.out, &k.a, &k.d), ST_USAGE);
	arena_free(&k.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(arithmetic_is_that_of_f32_and_its_bits_are_fixed),
	        cmocka_unit_test(approximations_have_the_bounds_of_the_table),
	        cmocka_unit_test(an_exp_that_overflows_overflows_everywhere),
	        cmocka_unit_test(minimum_and_maximum_pass_over_a_nan),
	        cmocka_unit_test(a_select_on_an_undecided_comparison_is_bounded_by_both_sides),
	        cmocka_unit_test(a_quotient_near_a_pole_is_unknown),
	        cmocka_unit_test(what_is_unknown_stays_unknown),
	        cmocka_unit_test(a_row_sum_in_any_legal_order_is_within_the_bound),
	        cmocka_unit_test(a_row_sum_that_overflows_in_some_order_is_unknown),
	        cmocka_unit_test(the_sign_of_a_zero_that_was_summed_is_unknown),
	        cmocka_unit_test(the_bound_of_an_rmsnorm_is_a_few_units_and_holds),
	        cmocka_unit_test(the_sum_of_a_row_of_zeros_is_zero_to_the_bit),
	        cmocka_unit_test(groups_reduce_and_expand),
	        cmocka_unit_test(a_sum_over_ranks_is_rounded_as_the_mode_says),
	        cmocka_unit_test(a_sum_of_negative_zeros_is_positive_unless_the_switch_made_it),
	        cmocka_unit_test(a_representable_sum_is_faithful_only_as_itself),
	        cmocka_unit_test(exact_sums_agree_with_integer_arithmetic),
	        cmocka_unit_test(f32_sums_in_any_order_are_within_the_faithful_bound),
	        cmocka_unit_test(infinities_and_nans_pass_through_a_sum),
	        cmocka_unit_test(a_sum_over_ranks_that_overflows_in_some_order_is_unknown),
	        cmocka_unit_test(ranks_own_rows_in_chunks_and_the_last_may_own_none),
	        cmocka_unit_test(
	                a_carried_output_is_written_on_own_rows_and_a_sharded_one_indexed_locally),
	        cmocka_unit_test(a_call_means_its_body),
	        cmocka_unit_test(wrong_buffers_are_refused),
	};

	return cmocka_run_group_tests_name("eval", tests, NULL, NULL);
}
