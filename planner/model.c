/*
 * From the steps of a model to segments: what is computed between two collectives, and the
 * collective, as one rank does them.  Segments that are alike are kept once.
 */
#include "planner/planner.h"
#include <string.h>

const char *const pl_kind_name[PL_NKINDS] = {"gemm", "grouped", "attention", "bytes", "work"};

/* Of real models: a handful, and a few dozen. */
enum { MOST_SHAPES = 256, MOST_OPS = 1024 };

struct build {
	struct arena *a;
	const struct fe_steps *steps;
	unsigned tp;
	struct pl_model *to;
	struct pl_op *op; /* of the segment at hand */
	size_t nop, op_cap;
	struct pl_segment *shape;
	uint32_t *seq, *first;
	size_t shape_cap, seq_cap, first_cap;
	uint32_t begun; /* the step at which the segment begins */
	size_t nall;    /* operations of all shapes */
	bool full;
};

static struct pl_op *add_op(struct build *b, enum pl_kind kind, const char *name, uint32_t step)
{
	b->op = arena_grow(b->a, b->op, b->nop, &b->op_cap, b->nop + 1, sizeof *b->op);
	b->op[b->nop] = (struct pl_op){.kind = kind, .name = name, .step = step, .share = 1};
	return &b->op[b->nop++];
}

static const struct fe_mvalue *value(const struct build *b, uint32_t v)
{
	return &b->steps->value[v];
}

/* A spec may say anything: beyond 2^40 sizes are all the same. */
static int64_t bounded(int64_t n)
{
	return n < (int64_t)1 << 40 ? n : (int64_t)1 << 40;
}

static int64_t part(int64_t n, unsigned tp)
{
	return (bounded(n) + tp - 1) / tp;
}

/* Bytes of a row of v on one rank; 0 for what has no rows. */
static double row_bytes(const struct build *b, const struct fe_mvalue *v)
{
	double bytes = v->rows ? (double)v->dim[1] * ir_dtype_info[v->dtype].bits / 8 : 0;

	return v->place == FE_COLUMNS || v->place == FE_SHARDED ? bytes / b->tp : bytes;
}

/* ---- steps to operations ---- */

static void of_gemm(struct build *b, const struct fe_step *s, uint32_t at)
{
	const struct fe_mvalue *x = value(b, s->in[0].value), *w = value(b, s->in[1].value);
	const struct fe_mvalue *y = value(b, s->out[0]);
	struct pl_op *op = add_op(b, PL_GEMM, s->name, at);

	op->k = w->place == FE_ROWS ? part(w->dim[0], b->tp) : bounded(w->dim[0]);
	op->n = w->place == FE_COLUMNS ? part(w->dim[1], b->tp) : bounded(w->dim[1]);
	op->share = x->place == FE_SHARDED ? b->tp : 1;
	op->x_bits = ir_dtype_info[x->dtype].bits;
	op->w_bits = ir_dtype_info[w->dtype].bits;
	op->out_bits = ir_dtype_info[y->dtype].bits;
	op->x_type = ir_dtype_info[x->dtype].text;
	op->w_type = ir_dtype_info[w->dtype].text;
	op->out_type = ir_dtype_info[y->dtype].text;
}

static void of_attention(struct build *b, const struct fe_step *s, uint32_t at)
{
	struct pl_op *op = add_op(b, PL_ATTENTION, s->name, at);

	op->heads = part(s->arg[0], b->tp);
	op->kv_heads = part(s->arg[1], b->tp);
	op->dim = bounded(s->arg[2]);
	op->window = bounded(s->arg[3]);
	op->x_bits = ir_dtype_info[value(b, s->out[0])->dtype].bits;
}

static void of_bytes(struct build *b, const struct fe_step *s, uint32_t at)
{
	struct pl_op *op = add_op(b, PL_BYTES, s->name, at);

	for (uint32_t i = 0; i < s->nin; i++)
		op->bytes += row_bytes(b, value(b, s->in[i].value));
	for (uint32_t i = 0; i < s->nout; i++)
		op->bytes += row_bytes(b, value(b, s->out[i]));
}

static void of_work(struct build *b, const struct fe_step *s, uint32_t at)
{
	struct pl_op *op = add_op(b, PL_WORK, s->name, at);

	op->flops = (double)s->arg[0] / b->tp;
	op->bytes = (double)s->arg[1] / b->tp;
}

static void expert_gemm(struct build *b, const struct fe_step *s, uint32_t at, bool up, bool shared)
{
	static const char *const suffix[2][2] = {{"down", "up"}, {"shared down", "shared up"}};
	const struct fe_mvalue *x = value(b, s->in[0].value);
	int64_t inner = part(s->arg[shared ? 3 : 2], b->tp), hidden = bounded(x->dim[1]);
	struct pl_op *op = add_op(b, shared ? PL_GEMM : PL_GROUPED,
	                          arena_printf(b->a, "%s %s", s->name, suffix[shared][up]), at);

	op->k = up ? hidden : inner;
	op->n = up ? 2 * inner : hidden;
	op->experts = shared ? 0 : bounded(s->arg[0]);
	op->active = shared ? 0 : bounded(s->arg[1]);
	op->x_bits = op->w_bits = op->out_bits = ir_dtype_info[x->dtype].bits;
	op->x_type = op->w_type = op->out_type = ir_dtype_info[x->dtype].text;
}

/* Experts of three matrices: rows are dealt out, two grouped GEMMs with the activation between, and
 * the weighted sum. */
static void of_moe(struct build *b, const struct fe_step *s, uint32_t at)
{
	const struct fe_mvalue *x = value(b, s->in[0].value);
	double wide = ir_dtype_info[x->dtype].bits / 8.0, active = (double)s->arg[1];
	double hidden = (double)x->dim[1] * wide, inner = (double)part(s->arg[2], b->tp) * wide;
	struct pl_op *op;

	if (s->arg[3]) {
		expert_gemm(b, s, at, true, true);
		expert_gemm(b, s, at, false, true);
	}
	expert_gemm(b, s, at, true, false);
	op = add_op(b, PL_BYTES, arena_printf(b->a, "%s act", s->name), at);
	op->bytes = 3 * inner * active;
	expert_gemm(b, s, at, false, false);
	op = add_op(b, PL_BYTES, arena_printf(b->a, "%s sum", s->name), at);
	op->bytes = hidden * (active + 1);
}

static void of_opaque(struct build *b, const struct fe_step *s, uint32_t at)
{
	static void (*const of[FE_NCOSTS])(struct build *, const struct fe_step *, uint32_t) = {
	        [FE_COST_ATTENTION] = of_attention,
	        [FE_COST_ELEMENTWISE] = of_bytes,
	        [FE_COST_MOE] = of_moe,
	        [FE_COST_WORK] = of_work,
	};

	if (s->cost == FE_COST_MOE &&
	    (!s->nin || !value(b, s->in[0].value)->rows || s->arg[0] < 1 || s->arg[1] < 1))
		of_bytes(b, s, at);
	else
		of[s->cost](b, s, at);
}

/* ---- segments ---- */

static bool same_op(const struct pl_op *x, const struct pl_op *y)
{
	return x->kind == y->kind && !strcmp(x->name, y->name) && x->share == y->share &&
	       x->n == y->n && x->k == y->k && x->x_bits == y->x_bits && x->w_bits == y->w_bits &&
	       x->out_bits == y->out_bits && x->x_type == y->x_type && x->w_type == y->w_type &&
	       x->out_type == y->out_type && x->experts == y->experts && x->active == y->active &&
	       x->heads == y->heads && x->kv_heads == y->kv_heads && x->dim == y->dim &&
	       x->window == y->window && x->flops <= y->flops && x->flops >= y->flops &&
	       x->bytes <= y->bytes && x->bytes >= y->bytes;
}

static bool same_shape(const struct pl_segment *s, const struct pl_op *op, size_t nop,
                       const struct pl_tail *t)
{
	if (s->nop != nop || !s->tail.kernel != !t->kernel ||
	    (t->kernel && strcmp(s->tail.kernel, t->kernel)))
		return false;
	for (size_t i = 0; i < nop; i++)
		if (!same_op(&s->op[i], &op[i]))
			return false;
	return true;
}

static void end_segment(struct build *b, struct pl_tail t, uint32_t next)
{
	uint32_t n = b->to->nshape, i = 0, at = b->to->nseq++;

	while (i < n && !same_shape(&b->shape[i], b->op, b->nop, &t))
		i++;
	if (i == MOST_SHAPES || b->nall + b->nop > MOST_OPS) {
		b->full = true;
		return;
	}
	if (i == n) {
		struct pl_op *op = arena_news(b->a, struct pl_op, b->nop);

		if (b->nop)
			memcpy(op, b->op, b->nop * sizeof *op);
		b->shape = arena_grow(b->a, b->shape, n, &b->shape_cap, n + 1, sizeof *b->shape);
		b->shape[n] = (struct pl_segment){.nop = (uint32_t)b->nop, .op = op, .tail = t};
		b->to->nshape++;
		b->nall += b->nop;
	}
	b->shape[i].count++;
	b->seq = arena_grow(b->a, b->seq, at, &b->seq_cap, at + 1, sizeof *b->seq);
	b->seq[at] = i;
	b->first = arena_grow(b->a, b->first, at, &b->first_cap, at + 2, sizeof *b->first);
	b->first[at] = b->begun;
	b->first[at + 1] = next;
	b->begun = next;
	b->nop = 0;
}

/* What a kernel reduces and gathers, by its parameters. */
static struct pl_tail tail_of(const struct build *b, const struct ir_func *f)
{
	struct pl_tail t = {.kernel = f->name};
	bool own = false;
	double sums = 0, gathers = 0;

	for (unsigned i = 0; i < f->nparam; i++) {
		const struct ir_param *p = &f->param[i];
		double bytes = p->type.ndim == 2 ? (double)p->type.cols *
		                                           ir_dtype_info[p->type.dtype].bits / 8
		                                 : 0;

		t.local_bytes += bytes * (p->mode == IR_INOUT ? 2 : 1);
		t.residual |= p->type.place == IR_CARRIED;
		own |= p->type.place == IR_CARRIED || p->type.place == IR_SHARDED;
		t.sums += p->type.place == IR_PARTIAL;
		sums += p->type.place == IR_PARTIAL ? bytes : 0;
	}
	for (unsigned i = 0; i < f->nparam; i++) {
		const struct ir_param *p = &f->param[i];

		if (p->mode != IR_OUT || p->type.ndim != 2 || p->type.place != IR_REPLICATED ||
		    !(t.sums || own))
			continue;
		t.gathers++;
		gathers += (double)p->type.cols * ir_dtype_info[p->type.dtype].bits / 8;
	}
	t.message = b->tp > 1 ? (sums + gathers) / 2 : 0;
	t.sum_bytes = sums;
	return t;
}

static void of_kernel(struct build *b, const struct fe_step *s, uint32_t at)
{
	struct pl_tail t = tail_of(b, s->func);

	if (t.sums || t.gathers)
		end_segment(b, t, at + 1);
	else
		add_op(b, PL_BYTES, s->name, at)->bytes = t.local_bytes;
}

struct pl_model *pl_model_make(struct arena *a, const struct fe_steps *steps, unsigned tp,
                               const char **why)
{
	struct build b = {.a = a, .steps = steps, .tp = tp, .to = arena_new(a, struct pl_model)};
	bool any = false;

	b.to->name = steps->name;
	b.to->tp = tp;
	for (uint32_t i = 0; i < steps->nstep && !b.full; i++) {
		const struct fe_step *s = &steps->step[i];

		if (s->kind == FE_STEP_KERNEL)
			of_kernel(&b, s, i);
		else if (s->kind == FE_STEP_GEMM)
			of_gemm(&b, s, i);
		else
			of_opaque(&b, s, i);
	}
	any = b.to->nseq > 0;
	if (b.nop)
		end_segment(&b, (struct pl_tail){0}, steps->nstep);
	b.to->shape = b.shape;
	b.to->seq = b.seq;
	b.to->first_step = b.first;
	*why = NULL;
	if (!any)
		*why = arena_printf(a, "model '%s' has no collective: there is nothing to plan",
		                    steps->name);
	if (b.full)
		*why = arena_printf(
		        a,
		        "model '%s' has more than %d kinds of segments, or %d operations "
		        "in them: repeat what is alike",
		        steps->name, MOST_SHAPES, MOST_OPS);
	return *why ? NULL : b.to;
}
