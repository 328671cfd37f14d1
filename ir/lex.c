/* Tokens of the text form, and a table of names. */
#include "ir/lex.h"
#include "support/hash.h"
#include <string.h>

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The character at pos, or NUL behind the end (NUL in the text is a bad token like any other). */
static char at(const struct ir_lexer *l, uint32_t pos)
{
	return pos < l->src->len ? l->src->text[pos] : '\0';
}

static void skip_blanks(struct ir_lexer *l)
{
	for (;; l->pos++) {
		char c = at(l, l->pos);

		if (c == '/' && at(l, l->pos + 1) == '/')
			while (l->pos < l->src->len && at(l, l->pos) != '\n')
				l->pos++;
		else if (c != ' ' && c != '\t' && c != '\r' && c != '\n')
			return;
		if (at(l, l->pos) == '\n')
			l->first = true;
		if (l->pos >= l->src->len)
			return;
	}
}

static void skip_name(struct ir_lexer *l)
{
	while (is_letter(at(l, l->pos)) || is_digit(at(l, l->pos)) || at(l, l->pos) == '.')
		l->pos++;
}

/* Digits, a fraction and an exponent; what strtod reads of a decimal number. */
static void skip_number(struct ir_lexer *l)
{
	while (is_digit(at(l, l->pos)) || at(l, l->pos) == '.')
		l->pos++;
	if (at(l, l->pos) == 'e' || at(l, l->pos) == 'E') {
		l->pos++;
		if (at(l, l->pos) == '+' || at(l, l->pos) == '-')
			l->pos++;
		while (is_digit(at(l, l->pos)))
			l->pos++;
	}
}

void ir_lex_next(struct ir_lexer *l)
{
	char c;

	l->first = false;
	l->last = l->end;
	skip_blanks(l);
	l->begin = l->pos;
	c = at(l, l->pos);
	if (l->pos >= l->src->len) {
		l->kind = IR_TOK_END;
	} else if (is_letter(c)) {
		l->kind = IR_TOK_NAME;
		skip_name(l);
	} else if (is_digit(c)) {
		l->kind = IR_TOK_NUMBER;
		skip_number(l);
	} else if (c == '%') {
		l->kind = IR_TOK_REF;
		l->pos++;
		skip_name(l);
	} else {
		l->kind = c && strchr("(){}[],:=-", c) ? c : IR_TOK_BAD;
		l->pos++;
	}
	l->end = l->pos;
}

void ir_lex_init(struct ir_lexer *l, const struct source *src)
{
	*l = (struct ir_lexer){.src = src};
	ir_lex_next(l);
	l->first = true;
}

bool ir_lex_is(const struct ir_lexer *l, const char *name)
{
	size_t n = strlen(name);

	return l->kind == IR_TOK_NAME && l->end - l->begin == n &&
	       !memcmp(l->src->text + l->begin, name, n);
}

struct span ir_lex_span(const struct ir_lexer *l)
{
	return (struct span){l->src->base + l->begin, l->src->base + l->end};
}

void ir_table_init(struct ir_table *t, struct arena *a)
{
	*t = (struct ir_table){.arena = a, .mask = 15};
	t->slot = arena_news(a, struct ir_entry, 16);
}

static struct ir_entry *entry(const struct ir_table *t, const char *s, size_t n)
{
	size_t i = hash_bytes(HASH_INIT, s, n);

	for (;; i++) {
		struct ir_entry *e = &t->slot[i & t->mask];

		if (!e->s || (e->n == n && !memcmp(e->s, s, n)))
			return e;
	}
}

void *ir_table_get(const struct ir_table *t, const char *s, size_t n)
{
	return entry(t, s, n)->p;
}

void ir_table_put(struct ir_table *t, const char *s, size_t n, void *p)
{
	struct ir_entry *e = entry(t, s, n);

	t->used += !e->s;
	*e = (struct ir_entry){s, n, p};
	if (2 * t->used > t->mask) {
		struct ir_table big = {.arena = t->arena, .mask = 2 * t->mask + 1, .used = t->used};

		big.slot = arena_news(t->arena, struct ir_entry, big.mask + 1);
		for (size_t i = 0; i <= t->mask; i++)
			if (t->slot[i].s)
				*entry(&big, t->slot[i].s, t->slot[i].n) = t->slot[i];
		*t = big;
	}
}
