/* Internal to ir/: the tokens of the text form, and a table of names, for parse.c. */
#pragma once
#include "support/diag.h"

enum ir_token {
	IR_TOK_END = 0,
	IR_TOK_BAD = 1,
	IR_TOK_NAME = 2,
	IR_TOK_NUMBER = 3,
	IR_TOK_REF = 4, /* else: the character */
};

struct ir_lexer {
	const struct source *src;
	uint32_t pos;
	/* the token in view */
	int kind;            /* enum ir_token, or a punctuation character */
	uint32_t begin, end; /* in src->text */
	uint32_t last;       /* where the token before it ended */
	bool first;          /* first of its line */
};

/* Puts the first token in view. */
void ir_lex_init(struct ir_lexer *l, const struct source *src);

/* Puts the next token in view; at the end stays there. */
void ir_lex_next(struct ir_lexer *l);

/* The token in view is this NAME. */
bool ir_lex_is(const struct ir_lexer *l, const char *name);

struct span ir_lex_span(const struct ir_lexer *l);

/* Names to pointers; as many as memory holds.  Look-up is by content. */
struct ir_entry {
	const char *s;
	size_t n;
	void *p;
};

struct ir_table {
	struct arena *arena;
	struct ir_entry *slot;
	size_t used, mask;
};

void ir_table_init(struct ir_table *t, struct arena *a);
void *ir_table_get(const struct ir_table *t, const char *s, size_t n);   /* NULL: not there */
void ir_table_put(struct ir_table *t, const char *s, size_t n, void *p); /* replaces; s is kept */
