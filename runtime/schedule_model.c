/* The statements of a model as a schedule needs them: kernels by number, operands by address. */
#include "runtime/schedule.h"
#include <string.h>

/* ---- tensors ---- */

static const char *const what_name[] = {[FE_M_INPUT] = "input",
                                        [FE_M_STATE] = "state",
                                        [FE_M_WEIGHT] = "weight",
                                        [FE_M_VALUE] = "value"};

static int64_t divided(int64_t n, unsigned tp)
{
	return (n + tp - 1) / tp;
}

/* The rank's part of the last extent. */
static int64_t columns_of(const struct fe_mvalue *v, unsigned tp)
{
	int64_t n = v->dim[v->ndim == 2];

	return v->place == FE_COLUMNS ? divided(n, tp) : n;
}

static struct plait_tensor describe(const plait_schedule *s, const struct fe_mvalue *v)
{
	const unsigned tp = s->comm->size;
	struct plait_tensor t = {.struct_size = sizeof t,
	                         .name = v->name,
	                         .what = what_name[v->kind],
	                         .dtype = ir_dtype_info[v->dtype].text,
	                         .placement = fe_mplace_name[v->place],
	                         .has_rows = v->rows,
	                         .ndim = v->ndim};

	t.dim[v->ndim == 2] = columns_of(v, tp);
	if (v->ndim == 2)
		t.dim[0] = v->rows ? (int64_t)s->stage->image.max_rows : v->dim[0];
	if (v->place == FE_ROWS || v->place == FE_SHARDED)
		t.dim[0] = divided(t.dim[0], tp);
	return t;
}

static enum plait_status ask(plait_schedule *s, const struct fe_mvalue *v, uint32_t slot)
{
	struct plait_tensor t = describe(s, v);

	for (unsigned l = 0; l < s->comm->nlocal; l++)
		for (int64_t i = 0; i < (v->count ? v->count : 1); i++) {
			int r;

			t.local = l;
			t.index = i;
			r = s->o.tensor(s->o.ctx, &t, &s->local[l].tensor[slot + i]);
			if (rt_callback_good(s, r))
				continue;
			rt_error_context(&s->comm->error, "rank %u: tensor '%s', element %lld",
			                 s->comm->local[l].rank, v->name, (long long)i);
			return s->comm->error.status;
		}
	return PLAIT_OK;
}

static enum plait_status place_tensors(plait_schedule *s)
{
	const struct fe_steps *m = s->planner->steps;
	enum plait_status st = PLAIT_OK;

	s->first_slot = arena_news(&s->arena, uint32_t, m->nvalue);
	for (uint32_t v = 0; v < m->nvalue; v++) {
		s->first_slot[v] = s->nslot;
		s->nslot += m->value[v].count ? (uint32_t)m->value[v].count : 1;
	}
	for (unsigned l = 0; l < s->comm->nlocal; l++)
		s->local[l].tensor = arena_news(&s->arena, struct plait_operand, s->nslot);
	for (uint32_t v = 0; v < m->nvalue && st == PLAIT_OK; v++)
		st = ask(s, &m->value[v], s->first_slot[v]);
	return st;
}

/* ---- operands ---- */

static enum rt_base base_of(const struct fe_mvalue *v)
{
	/* a carried tensor has row t at row t, whichever rank it belongs to */
	return !v->rows ? RT_BASE_NONE : v->place == FE_SHARDED ? RT_BASE_OWN : RT_BASE_BATCH;
}

static struct rt_ref ref_of(const plait_schedule *s, uint32_t value, int64_t index)
{
	const struct fe_mvalue *v = &s->planner->steps->value[value];

	return (struct rt_ref){.slot = s->first_slot[value] + (uint32_t)index,
	                       .base = base_of(v),
	                       .row = (uint64_t)columns_of(v, s->comm->size) *
	                              ir_dtype_info[v->dtype].bits / 8,
	                       .dtype = ir_dtype_info[v->dtype].text};
}

/* Operands of a kernel in the order of its parameters, with the rows that these have. */
static void of_kernel(plait_schedule *s, const struct fe_step *f, const struct rt_step *x)
{
	const struct plait_param_info *q = s->stage->view.kernel[x->unit].param;
	uint32_t in = 0, out = 0;

	for (uint32_t i = 0; i < x->nin; i++) {
		struct rt_ref *r = &s->ref[x->ref + i];
		uint64_t each = s->stage->element[x->unit][i];

		*r = f->func->param[i].mode == IR_OUT ? ref_of(s, f->out[out++], 0)
		                                      : ref_of(s, f->in[in].value, f->in[in].index);
		in += f->func->param[i].mode != IR_OUT;
		if (f->func->param[i].type.place == IR_SHARDED) {
			s->sharded = s->sharded ? s->sharded : f->func->name;
			if (r->base == RT_BASE_BATCH) /* a replicated value suits */
				r->base = RT_BASE_SLICE;
		}
		r->row = q[i].ndim == 2 ? (uint64_t)q[i].ld * each : 0;
		if (f->func->param[i].type.place == IR_PARTIAL)
			r->numbers = (uint64_t)q[i].ld;
	}
}

static void of_operation(const plait_schedule *s, const struct fe_step *f, struct rt_step *x)
{
	const struct fe_mvalue *v = s->planner->steps->value;

	for (uint32_t i = 0; i < f->nin; i++)
		s->ref[x->ref + i] = ref_of(s, f->in[i].value, f->in[i].index);
	for (uint32_t i = 0; i < f->nout; i++)
		s->ref[x->ref + f->nin + i] = ref_of(s, f->out[i], 0);
	x->own = f->nin && v[f->in[0].value].place == FE_SHARDED;
	x->dtype = f->nout ? ir_dtype_info[v[f->out[0]].dtype].text : "";
	if (f->kind == FE_STEP_GEMM) {
		const struct fe_mvalue *w = &v[f->in[1].value];

		x->n = columns_of(w, s->comm->size);
		x->k = w->place == FE_ROWS ? divided(w->dim[0], s->comm->size) : w->dim[0];
	}
}

/* ---- statements ---- */

static uint32_t unit_of(const plait_stage *s, const char *name)
{
	for (uint32_t i = 0; s && i < s->image.nkernel; i++)
		if (!strcmp(s->image.unit[i].name, name))
			return i;
	return RT_NONE;
}

/* The forms of rows that a unit has. */
static void forms_of(const plait_stage *s, uint32_t unit, bool *own, bool *all)
{
	const struct rt_unit *u = &s->image.unit[unit];

	*own = *all = false;
	for (uint32_t i = 0; i < u->nrange; i++)
		*(s->image.variant[u->range[i].variant].rows == IR_ROWS_OWN ? own : all) = true;
}

/* A parameter of the planner's spec, and of the stage's. */
static bool same_param(const struct ir_param *p, const struct plait_param_info *q)
{
	return !strcmp(p->name, q->name) && p->type.cols == q->cols &&
	       !strcmp(ir_dtype_info[p->type.dtype].text, q->dtype);
}

static enum plait_status same_params(plait_schedule *s, const struct ir_func *f, uint32_t unit)
{
	for (uint32_t i = 0; i < f->nparam; i++) {
		const struct plait_param_info *q = &s->stage->view.kernel[unit].param[i];

		if (!same_param(&f->param[i], q))
			return rt_fail(&s->comm->error, PLAIT_USAGE,
			               "kernel '%s': parameter '%s' is %s[%lld] in the planner's "
			               "spec, and in the stage's '%s', %s[%lld]: make both of one "
			               "spec",
			               f->name, f->param[i].name,
			               ir_dtype_info[f->param[i].type.dtype].text,
			               (long long)f->param[i].type.cols, q->name, q->dtype,
			               (long long)q->cols);
	}
	return PLAIT_OK;
}

static enum plait_status take_kernel(plait_schedule *s, const struct fe_step *f, struct rt_step *x)
{
	bool own, all;

	x->unit = unit_of(s->stage, f->func->name);
	x->alone = unit_of(s->alone, f->func->name);
	if (x->unit == RT_NONE || s->stage->image.unit[x->unit].nparam != f->func->nparam)
		return rt_fail(
		        &s->comm->error, PLAIT_USAGE,
		        "the stage has no kernel '%s' as the planner's model has it: make both "
		        "of one spec",
		        f->func->name);
	if (same_params(s, f->func, x->unit) != PLAIT_OK)
		return s->comm->error.status;
	if (s->stage->image.unit[x->unit].carried) {
		forms_of(s->stage, x->unit, &own, &all);
		s->can_own &= own;
		s->can_all &= all;
	}
	x->nin = f->func->nparam;
	of_kernel(s, f, x);
	return PLAIT_OK;
}

/* How often each statement ran before: statements are told apart by their place in the text. */
static void count_turns(plait_schedule *s)
{
	const struct fe_steps *m = s->planner->steps;
	uint32_t *last = arena_news(&s->arena, uint32_t, m->nstep); /* of each that differs */
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->nstep; i++) {
		uint32_t k = 0;

		while (k < n && m->step[last[k]].at.begin != m->step[i].at.begin)
			k++;
		s->step[i].turn = k < n ? s->step[last[k]].turn + 1 : 0;
		last[k] = i;
		n += k == n;
	}
}

/* The operations that the planner made of each statement. */
static void find_operations(plait_schedule *s)
{
	const struct pl_model *mo = s->model;

	s->shape_seg = arena_news(&s->arena, uint32_t, mo->nshape);
	for (uint32_t g = mo->nseq; g-- > 0;)
		s->shape_seg[mo->seq[g]] = g;
	for (uint32_t g = 0; g < mo->nseq; g++) {
		const struct pl_segment *shape = &mo->shape[mo->seq[g]];
		uint32_t begin = mo->first_step[s->shape_seg[mo->seq[g]]];

		for (uint32_t k = shape->nop; k-- > 0;) {
			struct rt_step *x = &s->step[mo->first_step[g] + shape->op[k].step - begin];

			x->op = k;
			x->nop++;
		}
	}
}

enum plait_status rt_schedule_model(plait_schedule *s)
{
	const struct fe_steps *m = s->planner->steps;
	enum plait_status st = place_tensors(s);
	uint32_t nref = 0;

	s->step = arena_news(&s->arena, struct rt_step, m->nstep);
	for (uint32_t i = 0; i < m->nstep; i++) {
		const struct fe_step *f = &m->step[i];
		uint32_t n = f->kind == FE_STEP_KERNEL ? f->func->nparam : f->nin + f->nout;

		s->step[i] = (struct rt_step){.kind = f->kind,
		                              .ref = nref,
		                              .nin = f->nin,
		                              .nout = f->nout,
		                              .unit = RT_NONE,
		                              .alone = RT_NONE,
		                              .name = f->name};
		nref += n;
		s->nparam = n > s->nparam ? n : s->nparam;
	}
	s->ref = arena_news(&s->arena, struct rt_ref, nref);
	s->operand = arena_news(&s->arena, struct plait_operand, s->nparam);
	s->address = arena_news(&s->arena, plait_address, s->nparam);
	s->can_own = s->can_all = true;
	for (uint32_t i = 0; i < m->nstep && st == PLAIT_OK; i++)
		if (m->step[i].kind == FE_STEP_KERNEL)
			st = take_kernel(s, &m->step[i], &s->step[i]);
		else
			of_operation(s, &m->step[i], &s->step[i]);
	if (st != PLAIT_OK)
		return st;
	count_turns(s);
	find_operations(s);
	return PLAIT_OK;
}
