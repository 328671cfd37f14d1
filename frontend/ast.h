/*
 * The syntax tree: what the file says, before anything is known about it.
 *
 * One node type; which fields a kind uses follows from the table below.  Every node has its span,
 * so that every later message can point.  Nodes and lists live in the arena of the parse.
 */
#pragma once
#include "support/arena.h"
#include "support/diag.h"

/*
 * AST_KIND(ID, text): the fields in use
 *	name, name_at   what it is called
 *	kids            a list: parameters, operands, extents, targets
 *	outs            a kernel's outputs
 *	body            a list of statements
 *	type            AST_TYPE
 *	attrs           a list of AST_ATTR
 *	value           an expression
 */
#define AST_KINDS(_)                                                                   \
	_(CONST, "const")      /* name = value */                                      \
	_(ASSERT, "assert")    /* value */                                             \
	_(KERNEL, "kernel")    /* name(kids) -> outs { body } */                       \
	_(FN, "fn")            /* name(kids) { body }; the last of body is a RETURN */ \
	_(MODEL, "model")      /* name { body } */                                     \
	_(PARAM, "param")      /* name: type attrs; flag: inout */                     \
	_(FNPARAM, "fn-param") /* name = value (NULL: no default) */                   \
	_(TYPE, "type")        /* name [kids]; flag: dtype alone, without brackets */  \
	_(ATTR, "attr")        /* name, or name = value */                             \
	_(BIND, "bind")        /* name: type = value; in a model kids = targets */     \
	_(OUT, "out")          /* out name = value */                                  \
	_(RETURN, "return")    /* value */                                             \
	_(OPTION, "option")    /* name; flag: after `allow` */                         \
	_(DECL, "decl")        /* op (of ast_decl) name[value]: type attrs */          \
	_(REPEAT, "repeat")    /* name in kids->value .. kids->next->value { body } */ \
	_(OUTPUT, "output")    /* value */                                             \
	_(TARGET, "target")    /* name, on the left of a model's = */                  \
	_(OPAQUE, "opaque")    /* name(kids) -> type attrs cost value */               \
	_(INT, "int")          /* i */                                                 \
	_(REAL, "real")        /* r */                                                 \
	_(NAME, "name")        /* name */                                              \
	_(UNARY, "unary")      /* op value */                                          \
	_(BINARY, "binary")    /* kids op kids->next */                                \
	_(CALL, "call")        /* name(kids) */                                        \
	_(ARG, "arg")          /* value, or name = value */                            \
	_(INDEX, "index")      /* name[value] */                                       \
	_(BAD, "bad") /* stands for what could not be read; silences what follows from it */

enum ast_kind {
#define AST_KIND(ID, text) AST_##ID,
	AST_KINDS(AST_KIND)
#undef AST_KIND
	        AST_NKINDS
};
extern const char *const ast_kind_text[AST_NKINDS];

enum ast_op {
	AST_OR,
	AST_AND,
	AST_EQ,
	AST_NE,
	AST_LT,
	AST_LE,
	AST_GT,
	AST_GE,
	AST_ADD,
	AST_SUB,
	AST_MUL,
	AST_DIV,
	AST_REM,
	AST_NEG,
	AST_NOT,
	AST_NOPS
};
extern const char *const ast_op_text[AST_NOPS];

enum ast_decl { AST_INPUT, AST_STATE, AST_WEIGHT, AST_NDECLS };
extern const char *const ast_decl_text[AST_NDECLS];

/* Expressions deeper than this are an error, so that walks over the tree may recurse. */
#define AST_MAX_DEPTH 200u

struct ast {
	enum ast_kind kind;
	struct span at;
	struct ast *next; /* in the list it is in */
	const char *name;
	struct span name_at;
	struct ast *kids, *outs, *body, *type, *attrs, *value;
	int64_t i;
	double r;
	uint8_t op;
	bool flag;
	/* to syntax errors: uses of names in it are lost; names that it bound are lost too */
	bool damaged, lost_name;
	uint16_t depth; /* of an expression */
};

struct ast_list {
	struct ast *head, *last;
};

struct ast_file {
	struct ast *decls;
	const struct source *src;
	bool damaged;     /* declarations are missing */
	bool lost_kernel; /* kernels or models are */
};

struct ast *ast_new(struct arena *a, enum ast_kind kind, struct span at);
struct ast *ast_named(struct arena *a, enum ast_kind kind, struct span at, const char *name,
                      struct span name_at);
struct ast_list ast_append(struct ast_list l, struct ast *n); /* n may be NULL: nothing is added */
size_t ast_count(const struct ast *list);
