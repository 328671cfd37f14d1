/*
 * What the scanner and the grammar share.  Private to spec.l, spec.y and parse.c.
 */
#pragma once
#include "frontend/ast.h"
#include <locale.h>

/* Brackets open at once, and the parser's stack: bounds that no honest file meets. */
#define FE_MAX_NESTING 200u
#define FE_MAX_STACK   4000

struct fe_name {
	const char *s;
	struct span at;
};

struct fe_parser {
	struct arena *arena;
	struct diags *diags;
	const struct source *src;
	locale_t c_locale;   /* numbers are read the same whatever the program's locale */
	uint32_t pos;        /* of the scanner, in the space of sources */
	unsigned open;       /* brackets */
	struct span comment; /* the one being read */
	/* since the last declaration began: uses of names are missing, and perhaps names */
	bool damaged, lost_name;
	bool lost;        /* a whole declaration is missing ... */
	bool lost_kernel; /* ... which was a kernel or model */
	bool stop;        /* give up: the rest is not worth reading */
	struct ast_list decls;
};

/* Grammar actions (parse.c).  Each makes one node. */
struct ast *fe_make(struct fe_parser *p, enum ast_kind kind, struct span at, struct fe_name name);
struct ast *fe_unary(struct fe_parser *p, enum ast_op op, struct span at, struct ast *a);
struct ast *fe_binary(struct fe_parser *p, enum ast_op op, struct span at, struct ast *a,
                      struct ast *b);
struct ast *fe_call(struct fe_parser *p, struct span at, struct fe_name name, struct ast *args);
struct ast *fe_arg(struct fe_parser *p, struct span at, struct fe_name name, struct ast *value);
/* A statement is missing, and the name it may have bound. */
void fe_lost_name(struct fe_parser *p);
struct ast *fe_bad(struct fe_parser *p, struct span at);

/* Gives up with one diagnostic about nesting; later ones about it are not given. */
void fe_too_deep(struct fe_parser *p, struct span at);
int64_t fe_read_int(struct fe_parser *p, const char *text, size_t n, struct span at);
double fe_read_real(struct fe_parser *p, const char *text, struct span at);
void fe_syntax_error(struct fe_parser *p, struct span at, const char *expected);
void fe_stray(struct fe_parser *p, const char *text, size_t n, struct span at);
