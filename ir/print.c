/*
 * The text form (its grammar is in doc/ir.md).  Prints wrong programs too, since the verifier shows
 * them: nothing here trusts an index, an enum or a pointer to an operand.
 */
#include "ir/text.h"
#include "support/hash.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const mode_text[] = {[IR_IN] = "in", [IR_OUT] = "out", [IR_INOUT] = "inout"};

static const struct ir_value **slot_of(const struct ir_names *n, const char *name)
{
	size_t i = hash_bytes(HASH_INIT, name, strlen(name));

	while (n->slot[i & n->mask] && strcmp(n->slot[i & n->mask]->name, name))
		i++;
	return &n->slot[i & n->mask];
}

void ir_names_init(struct ir_names *n, const struct ir_func *f, struct arena *a)
{
	size_t named = 0, size = 16;

	for (const struct ir_value *v = f->first; v; v = v->next)
		named += v->name != NULL;
	while (size < 2 * named)
		size *= 2;
	n->f = f;
	n->mask = size - 1;
	n->slot = (const struct ir_value **)arena_array(a, size, sizeof(*n->slot));
	for (const struct ir_value *v = f->first; v; v = v->next) {
		const struct ir_value **s = v->name ? slot_of(n, v->name) : NULL;

		if (s && !*s)
			*s = v;
	}
}

void ir_print_ref(const struct ir_names *n, const struct ir_value *v, struct strbuf *out)
{
	if (!v)
		strbuf_puts(out, "%?");
	else if (v->name && *slot_of(n, v->name) == v)
		strbuf_printf(out, "%%%s", v->name);
	else
		strbuf_printf(out, "%%%" PRIu32, v->id);
}

void ir_print_type(struct ir_type t, struct strbuf *out)
{
	strbuf_puts(out, t.dtype < IR_NDTYPES ? ir_dtype_info[t.dtype].text : "?");
	if (t.ndim == 0)
		strbuf_puts(out, "[]");
	else
		strbuf_printf(out, t.ndim == 1 ? "[%" PRId64 "]" : "[T, %" PRId64 "]", t.cols);
	if (t.ndim > 1 || t.place != IR_REPLICATED)
		strbuf_printf(out, " %s", t.place < IR_NPLACES ? ir_place_name[t.place] : "?");
}

const char *ir_type_text(struct arena *a, struct ir_type t)
{
	struct strbuf b;

	strbuf_init(&b, a);
	ir_print_type(t, &b);
	return b.s;
}

/* The shortest decimal that reads back as x. */
static void print_number(double x, struct strbuf *out)
{
	char s[40];

	if (isnan(x)) {
		strbuf_puts(out, "nan");
		return;
	}
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(s, sizeof(s), "%.*g", digits, x);
		if (strtod(s, NULL) == x)
			break;
	}
	/* The point is the only byte that a locale may change. */
	for (const char *c = s; *c; c++)
		if (!strchr("0123456789+-einf", *c)) {
			strbuf_putc(out, '.');
			while (c[1] && !strchr("0123456789", c[1]))
				c++;
		} else {
			strbuf_putc(out, *c);
		}
}

static void print_param(const struct ir_func *f, unsigned i, struct strbuf *out)
{
	if (i < f->nparam && f->param[i].name)
		strbuf_printf(out, " %s", f->param[i].name);
	else
		strbuf_puts(out, " ?");
}

static bool has_group(const struct ir_op_info *op)
{
	return op->shape == IR_SHAPE_GRP || op->shape == IR_SHAPE_EXPAND;
}

void ir_print_value(const struct ir_names *n, const struct ir_value *v, struct strbuf *out)
{
	static const struct ir_op_info none = {.text = "?", .kind = IR_KIND_ELEM};
	const struct ir_op_info *op = v->op < IR_NOPS ? &ir_op_info[v->op] : &none;
	bool sink = op->kind == IR_KIND_SINK;

	if (!sink) {
		ir_print_ref(n, v, out);
		strbuf_puts(out, " = ");
	}
	strbuf_puts(out, op->text);
	if (v->op == IR_OP_CONST) {
		strbuf_putc(out, ' ');
		print_number(v->num, out);
	} else if (sink || op->nsrc == 0) {
		print_param(n->f, v->param, out);
	}
	if (v->op == IR_OP_CALL)
		strbuf_printf(out, " %s(", v->callee && v->callee->name ? v->callee->name : "?");
	else if (sink)
		strbuf_puts(out, " = ");
	else if (v->nsrc)
		strbuf_putc(out, ' ');
	for (unsigned i = 0; i < v->nsrc; i++) {
		if (i)
			strbuf_puts(out, ", ");
		ir_print_ref(n, v->src ? v->src[i] : NULL, out);
	}
	if (v->op == IR_OP_CALL)
		strbuf_putc(out, ')');
	if (has_group(op))
		strbuf_printf(out, ", n = %" PRId64, v->n);
	if (!sink) {
		strbuf_puts(out, " : ");
		ir_print_type(v->type, out);
	}
}

static void print_param_decl(const struct ir_param *p, struct strbuf *out)
{
	strbuf_printf(out, "%s %s: ", mode_text[p->mode], p->name ? p->name : "?");
	ir_print_type(p->type, out);
	if (p->ld)
		strbuf_printf(out, " ld %" PRId64, p->ld);
	if (p->align)
		strbuf_printf(out, " align %u", p->align);
}

void ir_print_head(const struct ir_func *f, struct strbuf *out)
{
	strbuf_printf(out, "%s %s(", f->is_kernel ? "kernel" : "fn", f->name);
	for (unsigned i = 0; i < f->nparam; i++) {
		strbuf_puts(out, i ? ",\n\t\t" : "");
		print_param_decl(&f->param[i], out);
	}
	strbuf_puts(out, ")");
	if (f->deterministic)
		strbuf_puts(out, " deterministic");
	if (f->rank_divergence)
		strbuf_puts(out, " rank_divergence");
	if (f->merged_sums)
		strbuf_puts(out, " merged_sums");
	strbuf_puts(out, " {");
}

void ir_print_func(const struct ir_func *f, struct strbuf *out)
{
	struct ir_names n;

	ir_names_init(&n, f, out->arena);
	ir_print_head(f, out);
	strbuf_putc(out, '\n');
	for (const struct ir_value *v = f->first; v; v = v->next) {
		strbuf_putc(out, '\t');
		ir_print_value(&n, v, out);
		strbuf_putc(out, '\n');
	}
	if (f->result) {
		strbuf_puts(out, "\treturn ");
		ir_print_ref(&n, f->result, out);
		strbuf_putc(out, '\n');
	}
	strbuf_puts(out, "}\n");
}

void ir_print(const struct ir_module *m, struct strbuf *out)
{
	for (const struct ir_func *f = m->funcs; f; f = f->next) {
		if (f != m->funcs)
			strbuf_putc(out, '\n');
		ir_print_func(f, out);
	}
}
