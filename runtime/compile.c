/*
 * plait_compile: frontend, passes, code generation, in one scratch arena that is freed before it
 * returns.  What the caller may see is copied to the handle's arena.  Either arena running out
 * jumps back here.
 */
#include "runtime/code.h"
#include "codegen/offer.h"
#include "runtime/front.h"
#include "runtime/machine.h"
#include <stdlib.h>
#include <string.h>

#define CHECK(name) _Static_assert((int)PLAIT_##name == (int)ST_##name, "statuses agree")
CHECK(OK);
CHECK(INPUT);
CHECK(USAGE);
CHECK(ENV);
CHECK(INTERNAL);
CHECK(NOMEM);
CHECK(TIMEOUT);
CHECK(MISMATCH);
#undef CHECK

static const size_t default_limit = (size_t)1 << 30;

/* One compilation.  On the heap: a jump leaves it as it was. */
struct job {
	struct arena scratch;
	struct diags d;
	struct plait_compile_options o;
	struct cg_options cg;
	int form;                 /* enum ir_rows; -1: as the protocol needs */
	struct ir_module *before; /* the passes */
	plait_code *code;
};

static enum status usage(struct job *j, const char *what, const char *value, const char *choice)
{
	diag_at(&j->d, DIAG_ERROR, DIAG_RT_ARGUMENT, (struct span){0}, "%s '%s' is not known", what,
	        value);
	diag_note(&j->d, (struct span){0}, "give one of: %s", choice);
	return ST_USAGE;
}

/* What says how the kernels are launched. */
static enum status check_launch(struct job *j)
{
	const struct plait_compile_options *o = &j->o;
	const char *pdl = o->pdl ? o->pdl : "none";
	int m = cg_pdl_by_name(pdl);

	if (m < 0)
		return usage(j, "programmatic dependent launch", pdl, "none, wait, early");
	j->cg.pdl = (enum cg_pdl)m;
	j->cg.rows_in_memory = o->rows_in_memory;
	j->form = -1;
	if (o->form && !strcmp(o->form, "own"))
		j->form = IR_ROWS_OWN;
	else if (o->form && !strcmp(o->form, "all"))
		j->form = IR_ROWS_ALL;
	else if (o->form)
		return usage(j, "form", o->form, "own, all");
	if ((unsigned)o->multicast <= PLAIT_YES)
		return ST_OK;
	return usage(j, "multicast", arena_printf(&j->scratch, "%d", (int)o->multicast),
	             "PLAIT_AUTO, PLAIT_NO, PLAIT_YES");
}

static enum status check_arguments(struct job *j)
{
	const struct plait_compile_options *o = &j->o;
	const char *protocol = o->protocol ? o->protocol : "auto";
	const char *order = o->order ? o->order : "formal";
	const char *target = o->target ? o->target : "sm_90";
	int p = cg_protocol_by_name(protocol), m = cg_order_by_name(order);

	if (!o->text) {
		diag_at(&j->d, DIAG_ERROR, DIAG_RT_ARGUMENT, (struct span){0}, "no spec is given");
		diag_note(&j->d, (struct span){0}, "set 'text' and 'text_len'");
		return ST_USAGE;
	}
	if (rt_set_wrong(o->set, o->nset)) {
		diag_at(&j->d, DIAG_ERROR, DIAG_RT_ARGUMENT, (struct span){0}, "%s",
		        rt_set_wrong(o->set, o->nset));
		diag_note(&j->d, (struct span){0}, RT_SET_FIX);
		return ST_USAGE;
	}
	if (o->tp < 1 || o->tp > CG_MAX_RANKS) {
		diag_at(&j->d, DIAG_ERROR, DIAG_RT_ARGUMENT, (struct span){0},
		        "tp is %u, not 1 to %d", o->tp, CG_MAX_RANKS);
		diag_note(&j->d, (struct span){0}, "set 'tp' to the number of ranks");
		return ST_USAGE;
	}
	j->cg = (struct cg_options){.tp = o->tp, .spec_name = o->spec_name, .places = &j->d};
	j->cg.target = cg_target_by_name(target);
	if (!j->cg.target)
		return usage(j, "target", target, cg_target_names(&j->scratch));
	if (p < 0)
		return usage(
		        j, "protocol", protocol,
		        arena_printf(&j->scratch, "auto, %s", cg_protocol_names(&j->scratch, ~0u)));
	if (m < 0)
		return usage(j, "order", order, cg_order_names(&j->scratch));
	j->cg.protocol = (enum cg_protocol)p;
	j->cg.order = (enum cg_order)m;
	return check_launch(j);
}

static enum status front(struct job *j)
{
	struct fe_options fo = {0};

	return rt_front(&j->scratch, &j->d, j->o.spec_name, j->o.text, j->o.text_len, j->o.set,
	                j->o.nset, &fo, &j->before);
}

static enum status no_such_kernel(struct job *j, const struct ir_module *m)
{
	const char **names = NULL, *near;
	size_t n = 0, cap = 0;

	for (const struct ir_func *f = m->funcs; f; f = f->next)
		if (f->is_kernel) {
			names = arena_grow(&j->scratch, names, n, &cap, n + 1, sizeof *names);
			names[n++] = f->name;
		}
	near = nearest_name(j->o.kernel, names, n);
	diag_at(&j->d, DIAG_ERROR, DIAG_RT_ARGUMENT, (struct span){0},
	        "the spec has no kernel '%s'", j->o.kernel);
	if (near)
		diag_note(&j->d, (struct span){0}, "did you mean '%s'?", near);
	return ST_USAGE;
}

static bool wanted(const struct job *j, const struct ir_func *f)
{
	return f->is_kernel && (!j->o.kernel || strcmp(f->name, j->o.kernel) == 0);
}

/* Fused, in the form that is asked for or that goes with the protocol. */
static const struct ir_func *fuse(struct job *j, const struct ir_func *f, enum ir_rows *rows)
{
	struct ir_pass_options po = {.tp = j->o.tp};

	*rows = j->form >= 0 ? (enum ir_rows)j->form : cg_protocol_rows(j->cg.protocol);
	po.rows = *rows;
	return cg_fuse(j->before, f->name, &po, &j->scratch, &j->d);
}

static enum status compile(struct job *j, const struct ir_func *f, enum cg_protocol p)
{
	struct cg_options o = j->cg;
	struct cg_kernel *k;
	enum status s;

	o.protocol = p;
	s = cg_compile(f, &o, &j->scratch, &j->d, &k);
	if (s == ST_OK)
		rt_keep_kernel(j->code, &j->code->kernel[j->code->nkernel++], k, &j->scratch);
	return s;
}

/* Protocol auto: all kernels first get one, since those of a chain need one form of rows. */
static enum status choose(struct job *j, size_t n)
{
	struct cg_offer *of = arena_news(&j->scratch, struct cg_offer, n);
	bool multicast = j->o.multicast == PLAIT_AUTO ? rt_multicast_default(j->cg.target->sm)
	                                              : j->o.multicast == PLAIT_YES;
	enum status worst = ST_OK;
	unsigned k = 0;

	for (const struct ir_func *f = j->before->funcs; f; f = f->next) {
		const struct ir_func *made;
		enum ir_rows rows;

		if (!wanted(j, f))
			continue;
		made = fuse(j, f, &rows);
		if (!made)
			return j->d.nerror ? ST_INPUT : ST_INTERNAL;
		of[k++] = cg_offer_make(made, rows, j->form < 0 ? j->before : NULL, &j->cg,
		                        multicast, &j->scratch);
	}
	cg_offers_choose(of, k, j->o.rows, &j->scratch);
	for (unsigned i = 0; i < k; i++) {
		const struct cg_offer *x = &of[i];
		enum status s;

		cg_offer_remark(x, j->o.rows, ir_func_find(j->before, x->which.kernel)->at,
		                &j->scratch, &j->d);
		if (x->choice.protocol == CG_AUTO)
			s = cg_offer_refuse(x, &j->cg, &j->scratch, &j->d);
		else
			s = compile(j, x->choice.rows == IR_ROWS_ALL ? x->all : x->own,
			            x->choice.protocol);
		worst = s > worst ? s : worst;
	}
	return worst;
}

static enum status generate(struct job *j)
{
	enum status worst = ST_OK;
	size_t n = 0;

	for (const struct ir_func *f = j->before->funcs; f; f = f->next)
		n += wanted(j, f);
	if (j->o.kernel && n == 0)
		return no_such_kernel(j, j->before);
	j->code->kernel = arena_news(&j->code->arena, struct rt_kernel, n);
	if (j->cg.protocol == CG_AUTO)
		return choose(j, n);
	for (const struct ir_func *f = j->before->funcs; f; f = f->next) {
		const struct ir_func *made;
		enum ir_rows rows;
		enum status s;

		if (!wanted(j, f))
			continue;
		made = fuse(j, f, &rows);
		s = made ? compile(j, made, j->cg.protocol) : j->d.nerror ? ST_INPUT : ST_INTERNAL;
		worst = s > worst ? s : worst;
	}
	return worst;
}

/* All that may jump.  The caller of plait_compile gets the diagnostics whatever the outcome. */
static enum status run(struct job *j)
{
	struct strbuf text;
	enum status s = check_arguments(j);

	if (s == ST_OK)
		s = front(j);
	if (s == ST_OK)
		s = generate(j);
	if (s != ST_OK)
		j->code->nkernel = 0;
	if (s != ST_OK && !j->d.nerror) {
		diag_at(&j->d, DIAG_ERROR, DIAG_RT_BUG, (struct span){0},
		        "the compiler stopped without saying why");
		s = ST_INTERNAL;
	}
	strbuf_init(&text, &j->scratch);
	diags_render(&j->d, j->o.remarks ? DIAG_REMARK : DIAG_WARNING, &text);
	j->code->diagnostics = arena_strndup(&j->code->arena, text.s, text.n);
	return s;
}

static enum status out_of_memory(struct job *j)
{
	j->code->diagnostics = "error: out of memory\n";
	j->code->nkernel = 0;
	return ST_NOMEM;
}

static enum status run_guarded(struct job *j)
{
	if (setjmp(j->scratch.oom))
		return out_of_memory(j);
	if (setjmp(j->code->arena.oom))
		return out_of_memory(j);
	diags_init(&j->d, &j->scratch);
	return run(j);
}

enum plait_status plait_compile(const struct plait_compile_options *o, plait_code **out)
{
	size_t size = o ? o->struct_size : 0;
	struct job *j;
	enum status s;

	if (!out)
		return PLAIT_USAGE;
	*out = NULL;
	if (size < sizeof o->struct_size)
		return PLAIT_USAGE;
	j = calloc(1, sizeof *j);
	*out = calloc(1, sizeof **out);
	if (!j || !*out) {
		free(j);
		free(*out);
		*out = NULL;
		return PLAIT_NOMEM;
	}
	memcpy(&j->o, o, size < sizeof j->o ? size : sizeof j->o);
	if (!j->o.spec_name)
		j->o.spec_name = "spec";
	j->code = *out;
	arena_init(&j->scratch, j->o.memory_limit ? j->o.memory_limit : default_limit);
	arena_init(&j->code->arena, 0);
	s = run_guarded(j);
	arena_free(&j->scratch);
	free(j);
	return (enum plait_status)s;
}
