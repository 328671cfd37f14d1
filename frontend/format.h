/*
 * What the two halves of fe_format share: format_scan.c cuts the text into items, format.c lays
 * them out.
 */
#pragma once
#include "support/arena.h"
#include "support/strbuf.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum fmt_kind { FMT_WORD, FMT_NUMBER, FMT_MARK, FMT_COMMENT };

/* A token or comment.  `depth` counts the ( and [ around it; those of a pair have the same. */
struct fmt_item {
	enum fmt_kind kind;
	const char *s;
	uint32_t n;
	uint32_t newlines;  /* in the text before it, from the item before */
	bool block;         /* a comment with an end of its own ... */
	bool lines;         /* ... over several lines */
	bool glued;         /* no blank before it */
	bool breaks_before; /* a line may end before it: an operator between operands, ->, cost */
	bool breaks_behind; /* ... or after it: a comma, = */
	bool open, close;   /* ( [, ) ] */
	uint16_t depth;
	size_t match; /* of { and } */
};

struct fmt {
	struct arena *arena;
	struct strbuf *out;
	struct fmt_item *item;
	size_t n, cap;
	unsigned column; /* where the next character of `out` comes to stand, from 0 */
};

/* Fills f->item from text that the parser takes without errors. */
void fmt_scan(struct fmt *f, const char *text, size_t n);

static inline bool fmt_is(const struct fmt_item *t, const char *s)
{
	return t->kind != FMT_COMMENT && strlen(s) == t->n && !memcmp(t->s, s, t->n);
}
