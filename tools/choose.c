/* Selection for a spec: cases from its kernels, choices for chains and for single kernels, remarks. */
#include "tools/choose.h"
#include <stdlib.h>
#include <string.h>

struct option {
	const struct ir_func *own, *all; /* fused */
	struct cg_case *which;
	struct cg_choice choice;
	bool carried;
};

struct options {
	struct option *of;
	unsigned n;
	uint64_t T; /* 0: not given */
};

bool choose_multicast(const struct args *args)
{
	static const struct {
		const char *name, *off;
	} env[] = {
	        {"PLAIT_MULTICAST", "0"},
	        {"NCCL_NVLS_ENABLE", "0"},
	        {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"},
	        {"NVSHMEM_DISABLE_NVLS", "1"},
	};

	if (args->multicast != MULTICAST_AUTO)
		return args->multicast == MULTICAST_YES;
	for (size_t i = 0; i < sizeof env / sizeof *env; i++) {
		const char *s = getenv(env[i].name);

		if (s && !strcmp(s, env[i].off))
			return false;
	}
	return args->target->sm >= 90;
}

static bool has_carried(const struct ir_func *f)
{
	for (unsigned i = 0; i < f->nparam; i++)
		if (f->param[i].type.ndim == 2 && f->param[i].type.place == IR_CARRIED)
			return true;
	return false;
}

/* The kernel in both forms, or in that of --form. */
static struct option option_of(struct pipe *p, const struct ir_func *f)
{
	struct cg_options o = pipe_options(p, CG_AUTO);
	enum ir_rows made = p->rows;
	struct option x = {.carried = has_carried(f)};
	const char *no_all = "--form own";
	struct diags d = p->d;

	x.which = arena_new(p->a, struct cg_case);
	if (p->args->form == FORM_ALL)
		x.all = f;
	else
		x.own = f;
	if (p->args->form == FORM_AUTO) {
		d.head = NULL;
		d.tail = &d.head;
		d.nerror = d.nwarning = d.nremark = 0;
		x.all = pipe_form(p, f->name, IR_ROWS_ALL, false, &d);
		for (const struct diag *e = d.head; !x.all && e; e = e->next)
			if (e->severity == DIAG_ERROR)
				no_all = e->text;
		p->rows = made;
	}
	cg_case_make(x.which, x.own, "--form all", x.all, no_all, &o, choose_multicast(p->args),
	             p->a);
	return x;
}

/* Kernels with carried parameters are taken for one chain. */
static void choose(struct pipe *p, struct options *s)
{
	struct cg_case *chain = arena_news(p->a, struct cg_case, s->n + 1);
	struct cg_choice *best = arena_news(p->a, struct cg_choice, s->n + 1);
	unsigned n = 0;

	for (unsigned i = 0; i < s->n; i++)
		if (s->of[i].carried)
			chain[n++] = *s->of[i].which;
		else
			s->of[i].choice = s->T ? cg_select(s->of[i].which, s->T)
			                       : cg_select_default(s->of[i].which);
	cg_select_chain(chain, n, s->T, best);
	n = 0;
	for (unsigned i = 0; i < s->n; i++)
		if (s->of[i].carried)
			s->of[i].choice = best[n++];
}

static void remark(struct pipe *p, const struct options *s, const struct option *x)
{
	const struct cg_case *c = x->which;
	uint64_t T = s->T ? s->T : 16384;
	const char *when = s->T ? arena_printf(p->a, "at T = %llu", (unsigned long long)T)
	                        : "for many rows (no T was given)";

	if (x->choice.protocol == CG_AUTO || x->choice.protocol == CG_LOCAL)
		return;
	diag_at(&p->d, DIAG_REMARK, DIAG_REMARK_PROTOCOL, ir_func_find(p->before, c->kernel)->at,
	        "'%s' gets protocol '%s' %s%s%s", c->kernel, cg_protocol_name(x->choice.protocol),
	        when, s->T ? x->choice.source ? ", measured: " : ", by the model" : "",
	        s->T && x->choice.source ? x->choice.source : "");
	diag_note(&p->d, (struct span){0, 0}, "model at T = %llu: %s", (unsigned long long)T,
	          cg_costs_text(c, T, p->a));
	for (int i = CG_AUTO + 1; i < CG_NPROTOCOLS; i++)
		if (c->why_not[i] && i != CG_LOCAL)
			diag_note(&p->d, (struct span){0, 0}, "not %s: %s",
			          cg_protocol_name((enum cg_protocol)i), c->why_not[i]);
}

static struct options options_of(struct pipe *p)
{
	struct options s = {0};
	size_t cap = 0;

	if (p->args->command == CMD_COMPILE && p->args->ntokens)
		s.T = (uint64_t)p->args->tokens[0];
	for (const struct ir_func *f = p->after->funcs; f; f = f->next) {
		if (!f->is_kernel)
			continue;
		s.of = arena_grow(p->a, s.of, s.n, &cap, s.n + 1, sizeof *s.of);
		s.of[s.n++] = option_of(p, f);
	}
	choose(p, &s);
	for (unsigned i = 0; i < s.n; i++)
		remark(p, &s, &s.of[i]);
	return s;
}

void choose_remarks(struct pipe *p)
{
	options_of(p);
}

static enum status compile(struct pipe *p, const struct option *x)
{
	const struct ir_func *f = x->own ? x->own : x->all;
	struct pipe_kernel like = {.rows = p->rows, .protocol = CG_AUTO};

	/* nothing can: the error of what is asked for first */
	if (x->choice.protocol == CG_AUTO)
		return pipe_compile(p, f, CG_AUTO, &like);
	like.which = x->which->can >> CG_LOCAL & 1 ? NULL : x->which;
	if (x->choice.rows != p->rows && x->own && x->all) {
		enum ir_rows made = p->rows;

		f = pipe_form(p, f->name, x->choice.rows, p->keep_stages, &p->d);
		p->rows = made;
		like.rows = x->choice.rows;
	}
	return f ? pipe_compile(p, f, x->choice.protocol, &like) : ST_INTERNAL;
}

enum status choose_compile(struct pipe *p)
{
	struct options s = options_of(p);
	enum status worst = ST_OK;

	if (!s.n)
		return pipe_codegen(p, CG_AUTO);
	for (unsigned i = 0; i < s.n; i++) {
		enum status st = compile(p, &s.of[i]);

		worst = st > worst ? st : worst;
	}
	return worst;
}
