/* Cases from the kernels of a spec, choices for chains and for single kernels, remarks. */
#include "codegen/offer.h"
#include <string.h>

/* Leaves this kernel and what it may call. */
static void keep_only(struct ir_module *m, const char *kernel)
{
	struct ir_func **at = &m->funcs;

	while (*at)
		if ((*at)->is_kernel && strcmp((*at)->name, kernel) != 0)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	m->tail = at;
}

struct ir_func *cg_fuse(const struct ir_module *m, const char *name,
                        const struct ir_pass_options *o, struct arena *a, struct diags *d)
{
	struct ir_module *copy = ir_module_copy(m, a);

	keep_only(copy, name);
	return ir_run_passes(copy, o, d) == ST_OK ? ir_func_find(copy, name) : NULL;
}

/* What is said of this form is not for the user, who did not ask for it. */
static struct ir_func *fuse_quietly(const struct ir_module *m, const char *name, enum ir_rows rows,
                                    const struct cg_options *o, struct arena *a, const char **why)
{
	struct ir_pass_options po = {.tp = o->tp, .rows = rows};
	struct ir_func *f;
	struct diags d;

	diags_init(&d, a);
	f = cg_fuse(m, name, &po, a, &d);
	for (const struct diag *e = d.head; !f && e; e = e->next)
		if (e->severity == DIAG_ERROR)
			*why = e->text;
	return f;
}

bool cg_has_carried(const struct ir_func *f)
{
	for (unsigned i = 0; i < f->nparam; i++)
		if (f->param[i].type.ndim == 2 && f->param[i].type.place == IR_CARRIED)
			return true;
	return false;
}

struct cg_offer cg_offer_make(const struct ir_func *made, enum ir_rows rows,
                              const struct ir_module *before, const struct cg_options *o,
                              bool multicast, struct arena *a)
{
	enum ir_rows turned = rows == IR_ROWS_OWN ? IR_ROWS_ALL : IR_ROWS_OWN;
	const char *why =
	        rows == IR_ROWS_OWN ? "own rows were asked for" : "all rows were asked for";
	const struct ir_func *other = NULL;
	struct cg_offer x = {.carried = cg_has_carried(made)};

	if (before)
		other = fuse_quietly(before, made->name, turned, o, a, &why);
	x.own = rows == IR_ROWS_OWN ? made : other;
	x.all = rows == IR_ROWS_OWN ? other : made;
	cg_case_make(&x.which, x.own, why, x.all, why, o, multicast, a);
	return x;
}

void cg_offers_choose(struct cg_offer *x, unsigned count, uint64_t T, struct arena *a)
{
	struct cg_case *chain = arena_news(a, struct cg_case, count + 1);
	struct cg_choice *best = arena_news(a, struct cg_choice, count + 1);
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++)
		if (x[i].carried)
			chain[n++] = x[i].which;
		else
			x[i].choice =
			        T ? cg_select(&x[i].which, T) : cg_select_default(&x[i].which);
	cg_select_chain(chain, n, T, best);
	n = 0;
	for (unsigned i = 0; i < count; i++)
		if (x[i].carried)
			x[i].choice = best[n++];
}

static void note_refusals(const struct cg_case *c, struct diags *d)
{
	for (int i = CG_AUTO + 1; i < CG_NPROTOCOLS; i++)
		if (c->why_not[i] && i != CG_LOCAL)
			diag_note(d, (struct span){0, 0}, "not %s: %s",
			          cg_protocol_name((enum cg_protocol)i), c->why_not[i]);
}

void cg_offer_remark(const struct cg_offer *x, uint64_t T, struct span at, struct arena *a,
                     struct diags *d)
{
	const struct cg_case *c = &x->which;
	unsigned long long rows = T ? T : CG_MANY_ROWS;
	const char *when =
	        T ? arena_printf(a, "at T = %llu", rows) : "for many rows (no T was given)";

	if (x->choice.protocol == CG_AUTO || x->choice.protocol == CG_LOCAL)
		return;
	diag_at(d, DIAG_REMARK, DIAG_REMARK_PROTOCOL, at, "'%s' gets protocol '%s' %s%s%s",
	        c->kernel, cg_protocol_name(x->choice.protocol), when,
	        T ? x->choice.source ? ", measured: " : ", by the model" : "",
	        T && x->choice.source ? x->choice.source : "");
	diag_note(d, (struct span){0, 0}, "model at T = %llu: %s", rows, cg_costs_text(c, rows, a));
	note_refusals(c, d);
}

enum status cg_offer_refuse(const struct cg_offer *x, const struct cg_options *o, struct arena *a,
                            struct diags *d)
{
	const struct ir_func *f = x->own ? x->own : x->all;
	struct cg_options with = *o;
	struct cg_kernel *k;
	enum status s;

	/* the error of what is asked for first: often all have the same */
	with.protocol = CG_AUTO;
	s = cg_compile(f, &with, a, d, &k);
	if (s != ST_OK)
		return s;
	diag_at(d, DIAG_ERROR, DIAG_CG_PROTOCOL, f->at, "no protocol can do '%s'%s", f->name,
	        x->carried && x->which.can ? " and the kernels that it shares rows with" : "");
	note_refusals(&x->which, d);
	return ST_INPUT;
}
