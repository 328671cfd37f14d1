/*
 * Templates: PTX with holes, read by the parser straight into the caller's function.
 * templates/README.md has the rules.
 */
#include "codegen/ptx/parse.h"
#include <string.h>

const struct ptx_template *ptx_template_find(const char *name)
{
	for (const struct ptx_template *t = ptx_templates; t->name; t++)
		if (strcmp(t->name, name) == 0)
			return t;
	return NULL;
}

static const char *const hole_kinds[] = {"", "register", "register or integer", "label",
                                         "variable"};

static bool is_kind(const struct ptx_hole *h, const struct ptx_opnd *o)
{
	switch (h->kind) {
	case PTX_HOLE_REG:
		return (o->kind == PTX_REG || o->kind == PTX_VEC) && o->n == (h->n ? h->n : 1) &&
		       o->cls == ptx_type_info[h->type].cls;
	case PTX_HOLE_VALUE:
		return (o->kind == PTX_REG && o->cls == ptx_type_info[h->type].cls) ||
		       o->kind == PTX_IMM;
	case PTX_HOLE_LABEL:
		return o->kind == PTX_LAB;
	case PTX_HOLE_SYM:
		return o->kind == PTX_SYM;
	}
	return false;
}

static const struct ptx_hole *find_hole(const struct ptx_template *t, const char *s, size_t n)
{
	for (const struct ptx_hole *h = t->holes; h->name; h++)
		if (strlen(h->name) == n && memcmp(h->name, s, n) == 0)
			return h;
	return NULL;
}

struct ptx_opnd ptx_hole(struct ptx_parser *p, const struct ptx_token *t)
{
	const struct ptx_hole *h = find_hole(p->tpl, t->s + 1, t->n - 1);

	for (size_t k = 0; h && k < p->nbind; k++) {
		struct ptx_opnd o = p->bind[k].value;

		if (strcmp(p->bind[k].hole, h->name) != 0)
			continue;
		p->bound[k] = true;
		if (is_kind(h, &o))
			return o;
		ptx_err(p, DIAG_PTX_HOLE, t->at,
		        "'$%s' of '%s' is bound to the wrong kind of operand", h->name,
		        p->tpl->name);
		diag_note(p->diags, (struct span){0, 0}, "it takes a %s%s%s", hole_kinds[h->kind],
		          h->type < PTX_NTYPES ? " of type " : "",
		          h->type < PTX_NTYPES ? ptx_type_info[h->type].text : "");
		return (struct ptx_opnd){0};
	}
	ptx_err(p, DIAG_PTX_UNBOUND, t->at, "'%.*s' of the template '%s' is not bound", (int)t->n,
	        t->s, p->tpl->name);
	return (struct ptx_opnd){0};
}

/* The source of a template is added once to the diagnostics, so that expansions share their places.
 */
static const struct source *source_of(struct diags *d, const struct ptx_template *t)
{
	for (const struct source *s = d->sources; s; s = s->next)
		if (s->text == t->text)
			return s;
	return diags_add_source(d, arena_printf(d->arena, "templates/%s.ptxt", t->name), t->text,
	                        strlen(t->text));
}

static void expand(struct ptx_parser *p, struct ptx_fn *f)
{
	uint32_t first = f->ninsn;

	p->module = f->module;
	p->fn = f;
	p->first_label = f->nlabel;
	p->loc_line = f->loc_line;
	p->loc_col = f->loc_col;
	ptx_next(p);
	if (!ptx_block_open(p, p->tok.at))
		return;
	ptx_parse_body(p);
	if (p->tok.kind != PTX_TOK_EOF && !p->stop)
		ptx_expected(p, "an instruction");
	ptx_labels_finish(p);
	ptx_block_close(p);
	for (uint32_t k = first; k < f->ninsn; k++)
		f->insn[k].line = 0;
	if (f->ninsn > first && !f->insn[first].comment)
		f->insn[first].comment = arena_printf(f->module->arena, "%s", p->tpl->name);
}

bool ptx_expand(struct ptx_fn *f, const char *name, const struct ptx_bind *bind, size_t nbind,
                struct diags *d)
{
	const struct ptx_template *t = ptx_template_find(name);
	const struct source *src = t ? source_of(d, t) : NULL;
	unsigned before = d->nerror;
	struct ptx_parser p;

	if (!src) {
		diag_at(d, DIAG_ERROR, DIAG_PTX_TEMPLATE, (struct span){0, 0},
		        "there is no template '%s'", name);
		return false;
	}
	if (f->error || f->guard) {
		diag_at(d, DIAG_ERROR, DIAG_PTX_BUILD, (struct span){0, 0},
		        "the template '%s' is expanded %s", name,
		        f->error ? "after a mistake of the builder" : "under a guard");
		return false;
	}
	ptx_parser_init(&p, f->module->arena, d, src);
	p.tpl = t;
	p.bind = bind;
	p.nbind = nbind;
	p.bound = arena_news(p.arena, bool, nbind + 1);
	expand(&p, f);
	for (size_t k = 0; k < nbind; k++)
		if (!p.bound[k] && d->nerror == before)
			diag_at(d, DIAG_ERROR, DIAG_PTX_UNUSED,
			        (struct span){src->base, src->base + 1},
			        "the template '%s' has no hole '$%s'", name, bind[k].hole);
	return d->nerror == before;
}
