/* Selection for a spec: offers of its kernels by codegen/offer.h, compiled as they got. */
#include "tools/choose.h"
#include "runtime/machine.h"

bool choose_multicast(const struct args *args)
{
	return args->multicast != MULTICAST_AUTO ? args->multicast == MULTICAST_YES
	                                         : rt_multicast_default(args->target->sm);
}

struct cg_offer *choose_offers(struct pipe *p, unsigned *n)
{
	struct cg_options o = pipe_options(p, CG_AUTO);
	const struct ir_module *before = p->args->form == FORM_AUTO ? p->before : NULL;
	uint64_t T = 0;
	struct cg_offer *of = NULL;
	size_t cap = 0;

	*n = 0;
	if (p->args->command == CMD_COMPILE && p->args->ntokens)
		T = (uint64_t)p->args->tokens[0];
	for (const struct ir_func *f = p->after->funcs; f; f = f->next) {
		if (!f->is_kernel)
			continue;
		of = arena_grow(p->a, of, *n, &cap, *n + 1, sizeof *of);
		of[(*n)++] = cg_offer_make(f, p->rows, before, &o, choose_multicast(p->args), p->a);
	}
	cg_offers_choose(of, *n, T, p->a);
	for (unsigned i = 0; i < *n; i++)
		cg_offer_remark(&of[i], T, ir_func_find(p->before, of[i].which.kernel)->at, p->a,
		                &p->d);
	return of;
}

static enum status compile(struct pipe *p, const struct cg_offer *x)
{
	struct cg_options o = pipe_options(p, CG_AUTO);
	const struct ir_func *f = x->own ? x->own : x->all;
	struct pipe_kernel like = {.rows = p->rows, .protocol = CG_AUTO};

	if (x->choice.protocol == CG_AUTO)
		return cg_offer_refuse(x, &o, p->a, &p->d);
	like.which = x->which.can >> CG_LOCAL & 1 ? NULL : &x->which;
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
	enum status worst = ST_OK;
	struct cg_offer *of;
	unsigned n;

	of = choose_offers(p, &n);
	if (!n)
		return pipe_codegen(p, CG_AUTO);
	for (unsigned i = 0; i < n; i++) {
		enum status s = compile(p, &of[i]);

		worst = s > worst ? s : worst;
	}
	return worst;
}
