/*
 * One kernel, from fused IR to a verified PTX module.
 */
#include "codegen/emit.h"
#include <string.h>

/* Lines in the spec itself; what comes from the prelude keeps the line before it. */
static void set_locs(struct cg_rowprog *rp, const struct cg_options *o)
{
	uint32_t line = 0, col = 0;

	for (unsigned i = 0; i < rp->nval; i++) {
		struct cg_value *v = &rp->val[i];

		if (o->places && !span_none(v->ir->at)) {
			struct diag_place p = diag_place(o->places, v->ir->at);

			if (p.src && (!o->spec_name || strcmp(p.src->name, o->spec_name) == 0)) {
				line = p.line;
				col = p.col;
			}
		}
		v->loc_line = line;
		v->loc_col = col;
	}
}

static const char *header(const struct cg_kernel *k, const struct cg_options *o, struct arena *a)
{
	const struct cg_plan *p = &k->plan;

	return arena_printf(a,
	                    "plait: kernel %s%s%s\n"
	                    "%s, order %s, tp %u; rows of %lld elements: %u threads x %u vectors x "
	                    "%u, %u rows in flight\n"
	                    "contract %016llx",
	                    k->name, o->spec_name ? " of " : "", o->spec_name ? o->spec_name : "",
	                    cg_protocol_name(p->protocol), cg_order_name(p->order), p->tp,
	                    (long long)p->cols, p->threads, p->vecs, p->elems, p->in_flight,
	                    (unsigned long long)k->contract);
}

static void add_params(struct cg_emit *e)
{
	for (unsigned i = 0; i < e->k->narg; i++) {
		const struct cg_arg *g = &e->k->arg[i];
		struct ptx_param *p;

		ptx_param_add(e->f,
		              g->size == 4   ? PTX_T_u32
		              : g->size == 8 ? PTX_T_u64
		                             : PTX_T_b8,
		              g->name);
		p = &e->f->param[e->f->nparam - 1];
		if (g->size > 8) {
			p->align = 8;
			p->count = g->size;
		}
	}
}

/* The least .version and .target that hold what is used; a target of one architecture only when
 * asked for. */
static struct ptx_module *new_module(const struct cg_kernel *k, const struct cg_options *o,
                                     struct arena *a)
{
	const struct cg_target *t = o->target;
	struct ptx_module *m = ptx_module_new(a, 70, 80, 0);

	if (t->suffix) {
		m->version = t->version;
		m->sm = t->sm;
		m->sm_suffix = t->suffix;
	} else if (cg_protocol_info[k->plan.protocol].memory == CG_SYM_MULTICAST &&
	           k->plan.communicates) {
		m->version = 82;
		m->sm = 90;
	}
	m->header = header(k, o, a);
	m->loc_file = o->places ? o->spec_name : NULL;
	return m;
}

/* Names of the language that are none in PTX: "_" alone, and the one predefined name without a '%'. */
static bool check_name(const struct ir_func *f, struct diags *d)
{
	if (strcmp(f->name, "_") != 0 && strcmp(f->name, "WARP_SZ") != 0)
		return true;
	diag_at(d, DIAG_ERROR, DIAG_CG_NAME, f->at, "PTX does not take '%s' as a kernel's name",
	        f->name);
	diag_note(d, (struct span){0, 0}, "name the kernel otherwise");
	return false;
}

static bool check_length(const struct cg_emit *e, const struct ir_func *f)
{
	if (!e->f->full)
		return true;
	diag_at(e->d, DIAG_ERROR, DIAG_CG_LONG, f->at, "'%s' comes to more than %u instructions",
	        f->name, e->f->ninsn);
	diag_note(e->d, (struct span){0, 0}, "split the kernel");
	return false;
}

enum status cg_compile(const struct ir_func *f, const struct cg_options *o, struct arena *a,
                       struct diags *d, struct cg_kernel **out)
{
	struct cg_kernel *k = arena_new(a, struct cg_kernel);
	struct cg_rowprog *rp = cg_rowprog_new(f, a, d);
	struct cg_emit e = {.a = a, .d = d, .o = o, .rp = rp, .k = k, .p = &k->plan};
	bool emitted;

	*out = NULL;
	if (!check_name(f, d) || !rp || !cg_plan_make(&k->plan, rp, o, a, d))
		return ST_INPUT;
	e.ops = cg_ops(&k->plan);
	k->name = cg_symbol(a, "", f->name, "");
	cg_abi_make(k, rp, a);
	k->contract = cg_contract(k, rp);
	k->module = new_module(k, o, a);
	set_locs(rp, o);
	e.f = ptx_fn_new(k->module, k->name);
	e.f->maxntid = k->plan.threads;
	e.f->minctas = k->plan.per_sm; /* else ptxas spills where that lets more in */
	add_params(&e);
	emitted = cg_emit_kernel(&e);
	if (!check_length(&e, f))
		return ST_INPUT;
	if (!emitted)
		return ST_INTERNAL;
	ptx_module_minimum(k->module);
	ptx_param_layout(e.f);
	if (!ptx_verify(k->module, d))
		return ST_INTERNAL;
	*out = k;
	return ST_OK;
}
