/*
 * Constructors of the syntax tree.
 */
#include "frontend/ast.h"

const char *const ast_kind_text[AST_NKINDS] = {
#define AST_KIND(ID, text) [AST_##ID] = text,
        AST_KINDS(AST_KIND)
#undef AST_KIND
};

/* clang-format off */
const char *const ast_op_text[AST_NOPS] = {
	[AST_OR] = "||", [AST_AND] = "&&", [AST_EQ] = "==", [AST_NE] = "!=", [AST_LT] = "<",
	[AST_LE] = "<=", [AST_GT] = ">",   [AST_GE] = ">=", [AST_ADD] = "+", [AST_SUB] = "-",
	[AST_MUL] = "*", [AST_DIV] = "/",  [AST_REM] = "%", [AST_NEG] = "-", [AST_NOT] = "!",
};
/* clang-format on */

const char *const ast_decl_text[AST_NDECLS] = {"input", "state", "weight"};

struct ast *ast_new(struct arena *a, enum ast_kind kind, struct span at)
{
	struct ast *n = arena_new(a, struct ast);

	n->kind = kind;
	n->at = at;
	return n;
}

struct ast *ast_named(struct arena *a, enum ast_kind kind, struct span at, const char *name,
                      struct span name_at)
{
	struct ast *n = ast_new(a, kind, at);

	n->name = name;
	n->name_at = name_at;
	return n;
}

struct ast_list ast_append(struct ast_list l, struct ast *n)
{
	if (!n)
		return l;
	if (!l.head)
		return (struct ast_list){n, n};
	l.last->next = n;
	l.last = n;
	return l;
}

size_t ast_count(const struct ast *list)
{
	size_t n = 0;

	for (; list; list = list->next)
		n++;
	return n;
}
