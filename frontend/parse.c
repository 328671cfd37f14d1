/*
 * fe_parse: scanner and grammar over one source, and the nodes that the grammar makes.
 */
#include "frontend/frontend.h"
#include "frontend/parser.h"
#include "frontend/spec.tab.h"
#include "frontend/spec.lex.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ast *fe_make(struct fe_parser *p, enum ast_kind kind, struct span at, struct fe_name name)
{
	return ast_named(p->arena, kind, at, name.s, name.at);
}

struct ast *fe_bad(struct fe_parser *p, struct span at)
{
	p->damaged = true;
	return ast_new(p->arena, AST_BAD, at);
}

void fe_lost_name(struct fe_parser *p)
{
	p->damaged = p->lost_name = true;
}

void fe_too_deep(struct fe_parser *p, struct span at)
{
	if (!p->stop) {
		diag_at(p->diags, DIAG_ERROR, DIAG_NESTING, at,
		        "this is nested too deeply to be read");
		diag_note(p->diags, (struct span){0, 0},
		          "brackets nest at most %u deep, and an expression is at most %u "
		          "operations deep",
		          FE_MAX_NESTING, AST_MAX_DEPTH);
	}
	p->stop = true;
	fe_lost_name(p);
}

/* The node, or AST_BAD when it is too deep for a walk that recurses. */
static struct ast *deepen(struct fe_parser *p, struct ast *n, unsigned depth)
{
	if (depth < AST_MAX_DEPTH) {
		n->depth = (uint16_t)(depth + 1);
		return n;
	}
	fe_too_deep(p, n->at);
	return fe_bad(p, n->at);
}

struct ast *fe_unary(struct fe_parser *p, enum ast_op op, struct span at, struct ast *a)
{
	struct ast *n = ast_new(p->arena, AST_UNARY, at);

	n->op = (uint8_t)op;
	n->value = a;
	return deepen(p, n, a->depth);
}

struct ast *fe_binary(struct fe_parser *p, enum ast_op op, struct span at, struct ast *a,
                      struct ast *b)
{
	struct ast *n = ast_new(p->arena, AST_BINARY, at);

	n->op = (uint8_t)op;
	n->kids = a;
	a->next = b;
	return deepen(p, n, a->depth > b->depth ? a->depth : b->depth);
}

struct ast *fe_call(struct fe_parser *p, struct span at, struct fe_name name, struct ast *args)
{
	struct ast *n = fe_make(p, AST_CALL, at, name);
	unsigned depth = 0;

	n->kids = args;
	for (const struct ast *a = args; a; a = a->next)
		depth = a->depth > depth ? a->depth : depth;
	return deepen(p, n, depth);
}

struct ast *fe_arg(struct fe_parser *p, struct span at, struct fe_name name, struct ast *value)
{
	struct ast *n = fe_make(p, AST_ARG, at, name);

	n->value = value;
	n->depth = value->depth;
	return n;
}

int64_t fe_read_int(struct fe_parser *p, const char *text, size_t n, struct span at)
{
	int64_t v = 0;

	for (size_t i = 0; i < n; i++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, text[i] - '0', &v)) {
			diag_at(p->diags, DIAG_ERROR, DIAG_OVERFLOW, at,
			        "this number does not fit 64 bits");
			diag_note(p->diags, (struct span){0, 0},
			          "constant integers go to %lld; a real number is written with a "
			          "point or an exponent",
			          (long long)INT64_MAX);
			return 1;
		}
	return v;
}

double fe_read_real(struct fe_parser *p, const char *text, struct span at)
{
	double v = strtod_l(text, NULL, p->c_locale);

	if (isfinite(v))
		return v;
	diag_at(p->diags, DIAG_ERROR, DIAG_OVERFLOW, at, "this number is too large");
	return 1.0;
}

void fe_stray(struct fe_parser *p, const char *text, size_t n, struct span at)
{
	bool plain = n == 1 && text[0] > ' ' && text[0] <= '~';

	if (plain)
		diag_at(p->diags, DIAG_ERROR, DIAG_STRAY, at, "'%c' means nothing here", text[0]);
	else
		diag_at(p->diags, DIAG_ERROR, DIAG_STRAY, at,
		        n == 1 ? "%zu byte that means nothing here: specs are ASCII text"
		               : "%zu bytes that mean nothing here: specs are ASCII text",
		        n);
}

void fe_syntax_error(struct fe_parser *p, struct span at, const char *expected)
{
	const char *text = p->src->text + (at.begin - p->src->base);
	uint32_t n = at.end - at.begin, shown = n > 40 ? 40 : n;

	if (n == 0)
		diag_at(p->diags, DIAG_ERROR, DIAG_SYNTAX, at, "the file ends too early%s",
		        expected);
	else
		diag_at(p->diags, DIAG_ERROR, DIAG_SYNTAX, at, "unexpected '%.*s%s'%s", (int)shown,
		        text, n > shown ? "..." : "", expected);
}

/* Text has no zero bytes; a file that has one is not worth 100 messages. */
static bool is_text(struct fe_parser *p)
{
	const char *zero = memchr(p->src->text, 0, p->src->len);
	uint32_t at;

	if (!zero)
		return true;
	at = p->src->base + (uint32_t)(zero - p->src->text);
	diag_at(p->diags, DIAG_ERROR, DIAG_NOT_TEXT, (struct span){at, at + 1},
	        "this is not text: a zero byte at offset %u", at - p->src->base);
	return false;
}

struct ast_file *fe_parse(struct arena *a, struct diags *d, const struct source *src)
{
	struct ast_file *f = arena_new(a, struct ast_file);
	struct fe_parser *p = arena_new(a, struct fe_parser);
	yyscan_t sc;

	*p = (struct fe_parser){.arena = a, .diags = d, .src = src, .pos = src->base};
	/* The C locale is static in the C library: nothing to free. */
	p->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!is_text(p))
		return NULL;
	if (fe_yylex_init_extra(p, &sc))
		return NULL;
	fe_yy_scan_bytes(src->text, (int)src->len, sc);
	if (fe_yyparse(p, sc))
		p->lost = true;
	fe_yylex_destroy(sc);
	f->decls = p->decls.head;
	f->src = src;
	f->damaged = p->lost || p->damaged;
	f->lost_kernel = f->damaged || p->lost_kernel;
	return f;
}
