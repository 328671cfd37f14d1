/*
 * Text out: the only place that writes PTX.  A mnemonic is its spelling walked from left to right.
 * What the parser reads from this text prints as the same text.
 */
#include "codegen/ptx/spell.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const class_prefix[PTX_NCLASSES] = {
#define X(ID, prefix, bits, decl) prefix,
        PTX_CLASSES(X)
#undef X
};
static const char *const class_decl[PTX_NCLASSES] = {
#define X(ID, prefix, bits, decl) decl,
        PTX_CLASSES(X)
#undef X
};

static const char *type_text(unsigned t)
{
	return t < PTX_NTYPES ? ptx_type_info[t].text : "?";
}

static void put_int(struct strbuf *out, int64_t v)
{
	char buf[24], *p = buf + sizeof buf;
	uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;

	do
		*--p = (char)('0' + u % 10);
	while (u /= 10);
	if (v < 0)
		*--p = '-';
	strbuf_putn(out, p, (size_t)(buf + sizeof buf - p));
}

static void put_hex(struct strbuf *out, const char *prefix, uint64_t v, unsigned digits)
{
	strbuf_puts(out, prefix);
	while (digits--)
		strbuf_putc(out, "0123456789ABCDEF"[v >> 4 * digits & 15]);
}

static void put_reg(struct strbuf *out, unsigned cls, uint32_t reg)
{
	if (reg == PTX_SINK) {
		strbuf_putc(out, '_');
		return;
	}
	strbuf_puts(out, cls < PTX_NCLASSES ? class_prefix[cls] : "?");
	put_int(out, reg);
}

/* Text that must stay on its line: control characters become spaces. */
static void put_line(struct strbuf *out, const char *s, size_t n)
{
	for (size_t k = 0; k < n; k++)
		strbuf_putc(out, (unsigned char)s[k] < ' ' && s[k] != '\t' ? ' ' : s[k]);
}

static void put_opnd(const struct ptx_fn *f, const struct ptx_opnd *o, struct strbuf *out)
{
	switch ((enum ptx_kind)o->kind) {
	case PTX_REG:
		if (o->negated)
			strbuf_putc(out, '!');
		put_reg(out, o->cls, o->reg[0]);
		break;
	case PTX_VEC:
		for (unsigned k = 0; k < o->n && k < 8; k++) {
			strbuf_puts(out, k ? ", " : "{");
			put_reg(out, o->cls, o->reg[k]);
		}
		strbuf_putc(out, '}');
		break;
	case PTX_IMM:
		if (o->cls == PTX_C_F32)
			put_hex(out, "0f", (uint32_t)o->imm, 8);
		else if (o->cls == PTX_C_F64)
			put_hex(out, "0d", (uint64_t)o->imm, 16);
		else
			put_int(out, o->imm);
		break;
	case PTX_MEM:
		strbuf_putc(out, '[');
		if (o->sym)
			strbuf_puts(out, o->sym);
		else
			put_reg(out, o->cls, o->reg[0]);
		if (o->imm > 0)
			strbuf_putc(out, '+');
		if (o->imm)
			put_int(out, o->imm);
		strbuf_putc(out, ']');
		break;
	case PTX_SYM:
		strbuf_puts(out, o->sym);
		break;
	case PTX_LAB:
		strbuf_puts(out, o->reg[0] < f->nlabel ? f->label[o->reg[0]].name : "?");
		break;
	case PTX_SPEC:
		strbuf_puts(out, o->reg[0] < PTX_NSPECIALS ? ptx_special_name[o->reg[0]] : "?");
		break;
	case PTX_NONE:
		break;
	}
}

static void put_mnemonic(const struct ptx_insn *i, struct strbuf *out)
{
	const char *s = i->op < PTX_NOPS ? ptx_insn_info[i->op].spelling : "?";

	for (; *s; s++) {
		const struct ptx_letter *l;
		uint8_t v;

		if (*s != '%') {
			strbuf_putc(out, *s);
			continue;
		}
		if (*++s == 't') {
			strbuf_puts(out, type_text(i->type));
		} else if (*s == 'u') {
			strbuf_puts(out, type_text(i->mod.type2));
		} else if ((l = ptx_letter_find(*s))) {
			v = ptx_mod_get(&i->mod, l);
			if (v < l->count && l->names[v])
				strbuf_puts(out, l->names[v]);
		}
	}
}

void ptx_print_insn(const struct ptx_fn *f, const struct ptx_insn *i, struct strbuf *out)
{
	const char *shape = i->op < PTX_NOPS ? ptx_shape((enum ptx_op)i->op) : "";
	bool first = true;

	if (i->guard) {
		strbuf_puts(out, i->guard_not ? "@!" : "@");
		put_reg(out, PTX_C_PRED, i->guard - 1);
		strbuf_putc(out, ' ');
	}
	put_mnemonic(i, out);
	for (unsigned k = 0; k < i->nopnd && k < PTX_MAX_OPNDS; k++) {
		if (!i->o[k].kind)
			continue;
		strbuf_puts(out, first ? " " : k < strlen(shape) && shape[k] == 'q' ? "|" : ", ");
		first = false;
		put_opnd(f, &i->o[k], out);
	}
	strbuf_putc(out, ';');
}

static void put_var(const struct ptx_var *v, struct strbuf *out)
{
	const struct ptx_letter *space = ptx_letter_find('p');

	if (!v->count)
		strbuf_puts(out, ".extern ");
	strbuf_puts(out, v->space && v->space < space->count ? space->names[v->space] : ".?");
	if (v->align)
		strbuf_printf(out, " .align %u", v->align);
	strbuf_printf(out, " .%s %s", type_text(v->type), v->name);
	if (!v->count)
		strbuf_puts(out, "[]");
	else if (v->count > 1)
		strbuf_printf(out, "[%" PRIu64 "]", v->count);
	strbuf_puts(out, ";\n");
}

static void put_params(const struct ptx_fn *f, struct strbuf *out)
{
	strbuf_printf(out, ".visible .entry %s(", f->name);
	for (unsigned k = 0; k < f->nparam; k++) {
		const struct ptx_param *p = &f->param[k];

		strbuf_puts(out, k ? ",\n\t.param" : "\n\t.param");
		if (p->align)
			strbuf_printf(out, " .align %u", p->align);
		strbuf_printf(out, " .%s %s", type_text(p->type), p->name);
		if (p->count)
			strbuf_printf(out, "[%u]", p->count);
	}
	strbuf_puts(out, f->nparam ? "\n)\n" : ")\n");
	if (f->maxntid)
		strbuf_printf(out, ".maxntid %u, 1, 1\n", f->maxntid);
	if (f->minctas)
		strbuf_printf(out, ".minnctapersm %u\n", f->minctas);
}

static int by_place(const void *x, const void *y)
{
	const struct ptx_label *a = *(const struct ptx_label *const *)x,
	                       *b = *(const struct ptx_label *const *)y;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* The labels in order of place; at one place by name, so that the order does not depend on who was
 * used first. */
static const struct ptx_label **sort_labels(const struct ptx_fn *f, struct arena *a)
{
	const struct ptx_label **l = arena_news(a, const struct ptx_label *, (size_t)f->nlabel + 1);

	for (uint32_t k = 0; k < f->nlabel; k++)
		l[k] = &f->label[k];
	if (f->nlabel)
		qsort(l, f->nlabel, sizeof(*l), by_place);
	return l;
}

/* Writes those that stand before instruction `at`; returns how many.  *l ends with NULL. */
static uint32_t put_labels(const struct ptx_label ***l, uint32_t at, struct strbuf *out)
{
	uint32_t n = 0;

	for (; **l && (**l)->at <= at; ++*l, n++) {
		strbuf_puts(out, (**l)->name);
		strbuf_puts(out, ":\n");
	}
	return n;
}

static uint32_t count_lines(const char *s, size_t n)
{
	uint32_t lines = 0;

	for (const char *nl; n && (nl = memchr(s, '\n', n)); lines++) {
		n -= (size_t)(nl + 1 - s);
		s = nl + 1;
	}
	return lines;
}

/* Instructions from `line` on; returns the line after the last. */
static uint32_t put_insns(struct ptx_fn *f, uint32_t line, struct strbuf *out)
{
	const struct ptx_label **l = sort_labels(f, out->arena);
	uint32_t loc_line = 0, loc_col = 0;

	for (uint32_t k = 0; k < f->ninsn; k++) {
		struct ptx_insn *i = &f->insn[k];

		line += put_labels(&l, k, out);
		if (f->module->loc_file && i->loc_line &&
		    (i->loc_line != loc_line || i->loc_col != loc_col)) {
			loc_line = i->loc_line;
			loc_col = i->loc_col;
			strbuf_printf(out, "\t.loc 1 %u %u\n", loc_line, loc_col);
			line++;
		}
		strbuf_putc(out, '\t');
		ptx_print_insn(f, i, out);
		if (i->comment && *i->comment) {
			strbuf_puts(out, "  // ");
			put_line(out, i->comment, strlen(i->comment));
		}
		strbuf_putc(out, '\n');
		i->line = line++;
	}
	return line + put_labels(&l, f->ninsn, out);
}

static void put_fn(struct ptx_fn *f, uint32_t line, struct strbuf *out)
{
	size_t start = out->n;

	strbuf_putc(out, '\n');
	put_params(f, out);
	strbuf_puts(out, "{\n");
	for (unsigned c = 0; c < PTX_NCLASSES; c++)
		if (f->nreg[c])
			strbuf_printf(out, "\t.reg .%s %s<%u>;\n", class_decl[c], class_prefix[c],
			              f->nreg[c]);
	for (uint32_t k = 0; k < f->nvar; k++) {
		strbuf_putc(out, '\t');
		put_var(&f->var[k], out);
	}
	strbuf_putc(out, '\n');
	f->line = line + 1;
	put_insns(f, line + count_lines(out->s + start, out->n - start), out);
	strbuf_puts(out, "}\n");
}

static void put_header(const struct ptx_module *m, struct strbuf *out)
{
	for (const char *s = m->header, *end; s && *s; s = *end ? end + 1 : end) {
		end = strchr(s, '\n');
		if (!end)
			end = s + strlen(s);
		strbuf_puts(out, end > s ? "// " : "//");
		put_line(out, s, (size_t)(end - s));
		strbuf_putc(out, '\n');
	}
	strbuf_printf(out, ".version %u.%u\n.target sm_%u", m->version / 10, m->version % 10,
	              m->sm);
	if (m->sm_suffix)
		strbuf_putc(out, m->sm_suffix);
	strbuf_puts(out, "\n.address_size 64\n");
}

void ptx_print(struct ptx_module *m, struct strbuf *out)
{
	size_t start = out->n, counted;
	uint32_t line = 1;

	put_header(m, out);
	if (m->loc_file) {
		strbuf_puts(out, ".file 1 \"");
		for (const char *s = m->loc_file; *s; s++)
			strbuf_putc(out,
			            *s == '"' || *s == '\\' || (unsigned char)*s < ' ' ? '_' : *s);
		strbuf_puts(out, "\"\n");
	}
	if (m->nvar)
		strbuf_putc(out, '\n');
	for (uint32_t k = 0; k < m->nvar; k++)
		put_var(&m->var[k], out);
	counted = start;
	for (struct ptx_fn *f = m->fn; f; f = f->next) {
		line += count_lines(out->s + counted, out->n - counted);
		counted = out->n;
		put_fn(f, line, out);
	}
}
