/*
 * PTX lines of a kernel as a reader knows them: a register that is defined once, by something with a
 * name, is called by it: %lane, %T, %ws.  So a line is found again when codegen numbers registers
 * otherwise.
 */
#include "tests/mutants/derive.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct derive_names {
	const char **name[PTX_NCLASSES]; /* [register]; NULL: it has none */
	uint8_t *defs[PTX_NCLASSES];
	uint32_t n[PTX_NCLASSES];
};

static const char *const prefix[PTX_NCLASSES] = {
#define X(ID, text, bits, decl) text,
        PTX_CLASSES(X)
#undef X
};

static bool is_dest(const struct ptx_insn *i, unsigned k)
{
	const char *shape = i->op < PTX_NOPS ? ptx_insn_info[i->op].shape : "";

	return k < strlen(shape) && (shape[k] == 'd' || shape[k] == 'p' || shape[k] == 'q');
}

static const char **of(struct derive_names *d, const struct ptx_opnd *o, unsigned k)
{
	return o->cls < PTX_NCLASSES && o->reg[k] < d->n[o->cls] ? &d->name[o->cls][o->reg[k]]
	                                                         : NULL;
}

static void count(struct derive_names *d, const struct ptx_fn *f)
{
	for (uint32_t i = 0; i < f->ninsn; i++)
		for (unsigned k = 0; k < f->insn[i].nopnd; k++) {
			const struct ptx_opnd *o = &f->insn[i].o[k];

			if (!is_dest(&f->insn[i], k) || (o->kind != PTX_REG && o->kind != PTX_VEC))
				continue;
			for (unsigned r = 0; r < (o->kind == PTX_VEC ? o->n : 1u); r++)
				if (o->reg[r] < d->n[o->cls] && d->defs[o->cls][o->reg[r]] < 2)
					d->defs[o->cls][o->reg[r]]++;
		}
}

static const char *after_percent(const char *s)
{
	return *s == '%' ? s + 1 : s;
}

/* What the instruction makes of what has names; NULL: nothing that has one. */
static const char *made(struct arena *a, struct derive_names *d, const struct ptx_insn *i)
{
	const struct ptx_opnd *x = &i->o[1], *y = &i->o[2];
	const char **p = x->kind == PTX_REG || (x->kind == PTX_MEM && !x->sym) ? of(d, x, 0) : NULL;
	const char *s = p ? *p : NULL;
	const bool by = i->nopnd > 2 && y->kind == PTX_IMM;

	switch (i->op) {
	case PTX_mov:
	case PTX_cvt:
	case PTX_cvta_to:
		return x->kind == PTX_SPEC  ? after_percent(ptx_special_name[x->reg[0]])
		       : x->kind == PTX_SYM ? x->sym
		       : x->kind == PTX_IMM && i->op == PTX_mov
		               ? arena_printf(a, "%lld", (long long)x->imm)
		               : s;
	case PTX_ld:
		if (i->mod.space == PTX_PARAM)
			return !strcmp(x->sym, "rows") ? "T" : x->sym;
		return s && !i->mod.vec ? arena_printf(a, "(%s+%lld)", s, (long long)x->imm) : NULL;
	case PTX_and:
		return by && s && !strcmp(s, "tid.x") && y->imm == 31 ? "lane" : NULL;
	case PTX_shr:
		return by && s && !strcmp(s, "tid.x") && y->imm == 5 ? "warp" : NULL;
	case PTX_add:
	case PTX_rem:
		return by && s ? arena_printf(a, "%s%s%lld", s, i->op == PTX_add ? "+" : "%",
		                              (long long)y->imm)
		               : NULL;
	default:
		return NULL;
	}
}

struct derive_names *derive_names_new(struct arena *a, const struct ptx_fn *f)
{
	struct derive_names *d = arena_new(a, struct derive_names);

	for (unsigned c = 0; c < PTX_NCLASSES; c++) {
		d->n[c] = f->nreg[c];
		d->name[c] = arena_news(a, const char *, f->nreg[c] + 1u);
		d->defs[c] = arena_news(a, uint8_t, f->nreg[c] + 1u);
	}
	count(d, f);
	for (uint32_t i = 0; i < f->ninsn; i++) {
		const struct ptx_opnd *o = &f->insn[i].o[0];

		if (f->insn[i].nopnd > 1 && is_dest(&f->insn[i], 0) && o->kind == PTX_REG &&
		    o->reg[0] < d->n[o->cls] && d->defs[o->cls][o->reg[0]] == 1)
			d->name[o->cls][o->reg[0]] = made(a, d, &f->insn[i]);
	}
	return d;
}

/* The token at s, which begins with %; *end: behind it. */
static const char *named(const struct derive_names *d, const char *s, char **end)
{
	size_t n = 1;

	while (isalpha((unsigned char)s[n]))
		n++;
	if (!isdigit((unsigned char)s[n])) {
		*end = (char *)(uintptr_t)(s + n);
		return NULL;
	}
	for (unsigned c = 0; c < PTX_NCLASSES; c++)
		if (strlen(prefix[c]) == n && !strncmp(prefix[c], s, n)) {
			const unsigned long r = strtoul(s + n, end, 10);

			return r < d->n[c] && d->name[c][r] ? d->name[c][r] : prefix[c] + 1;
		}
	*end = (char *)(uintptr_t)(s + n);
	return NULL;
}

const char *derive_line(struct arena *a, const struct ptx_fn *f, const struct derive_names *names,
                        uint32_t at)
{
	struct strbuf raw, b;
	const char *p, *stop;

	strbuf_init(&raw, a);
	strbuf_init(&b, a);
	ptx_print_insn(f, &f->insn[at], &raw);
	stop = strstr(raw.s, "  //");
	if (!stop)
		stop = raw.s + strlen(raw.s);
	for (p = raw.s; p < stop && isspace((unsigned char)*p);)
		p++;
	while (p < stop) {
		const char *name = NULL;
		char *end = NULL;

		if (*p == '%')
			name = named(names, p, &end);
		if (name)
			strbuf_printf(&b, "%%%s", name);
		else
			strbuf_putc(&b, *p);
		p = name ? end : p + 1;
	}
	return b.s;
}
