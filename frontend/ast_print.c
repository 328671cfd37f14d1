/*
 * --emit ast: one line a node, indented, with the place of each.
 */
#include "frontend/frontend.h"
#include "frontend/ast.h"
#include <stdio.h>
#include <stdlib.h>

struct printer {
	struct strbuf *out;
	/* a cursor: places of neighbouring nodes are close, so lines are not counted from the top
	 * each time */
	const struct source *src;
	uint32_t offset;
	unsigned line;
	uint32_t bol;
};

static void print_list(struct printer *p, const char *label, const struct ast *n, unsigned depth);

/* Line and column of an offset, counted on (or back) from the last one asked for. */
static void move_to(struct printer *p, uint32_t offset)
{
	const char *text = p->src->text;
	uint32_t to = offset - p->src->base;

	while (p->offset < to)
		if (text[p->offset++] == '\n') {
			p->line++;
			p->bol = p->offset;
		}
	if (p->offset == to)
		return;
	while (p->offset > to)
		if (text[--p->offset] == '\n')
			p->line--;
	for (p->bol = to; p->bol > 0 && text[p->bol - 1] != '\n';)
		p->bol--;
}

/* The shortest text that reads back as the same number. */
static void print_real(struct strbuf *out, double r)
{
	char text[40];
	int digits = 1;

	do
		snprintf(text, sizeof(text), " %.*g", digits, r);
	while (strtod(text, NULL) != r && digits++ < 17);
	strbuf_puts(out, text);
}

static void print_head(struct printer *p, const struct ast *n, const char *label, unsigned depth)
{
	for (unsigned i = 0; i < depth; i++)
		strbuf_puts(p->out, "  ");
	if (label)
		strbuf_printf(p->out, "%s: ", label);
	strbuf_puts(p->out, ast_kind_text[n->kind]);
	if (n->name)
		strbuf_printf(p->out, " %s", n->name);
	if (n->kind == AST_INT)
		strbuf_printf(p->out, " %lld", (long long)n->i);
	if (n->kind == AST_REAL)
		print_real(p->out, n->r);
	if (n->kind == AST_UNARY || n->kind == AST_BINARY)
		strbuf_printf(p->out, " %s", ast_op_text[n->op]);
	if (n->kind == AST_DECL)
		strbuf_printf(p->out, " (%s)", ast_decl_text[n->op]);
	if (n->kind == AST_PARAM && n->flag)
		strbuf_puts(p->out, " (inout)");
	move_to(p, n->at.begin);
	strbuf_printf(p->out, "  %s:%u:%u-", p->src->name, p->line, p->offset - p->bol + 1);
	move_to(p, n->at.end);
	strbuf_printf(p->out, "%u:%u\n", p->line, p->offset - p->bol + 1);
}

static void print_node(struct printer *p, const char *label, const struct ast *n, unsigned depth)
{
	print_head(p, n, label, depth);
	print_list(p, NULL, n->kids, depth + 1);
	print_list(p, "type", n->type, depth + 1);
	print_list(p, NULL, n->attrs, depth + 1);
	print_list(p, n->kind == AST_OPAQUE ? "cost" : NULL, n->value, depth + 1);
	print_list(p, "out", n->outs, depth + 1);
	print_list(p, NULL, n->body, depth + 1);
}

static void print_list(struct printer *p, const char *label, const struct ast *n, unsigned depth)
{
	for (; n; n = n->next)
		print_node(p, label, n, depth);
}

void fe_print_ast(const struct ast_file *ast, const struct diags *d, struct strbuf *out)
{
	/* the file knows its source; the spans of a tree are all in it */
	(void)d;
	struct printer p = {.out = out, .src = ast->src, .line = 1};

	print_list(&p, NULL, ast->decls, 0);
}
