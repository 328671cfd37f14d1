/*
 * Tokens and comments of a spec, and what follows from their neighbours: where blanks stand, where
 * a line may be broken.
 */
#include "frontend/format.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool one_of(const struct fmt_item *t, const char *const *set)
{
	while (*set && !fmt_is(t, *set))
		set++;
	return *set;
}

/* Bytes of the number at s: digits, then a fraction, then an exponent.  `0..n` has no fraction. */
static size_t number_length(const char *s, const char *end)
{
	const char *p = s, *q;

	while (p < end && is_digit(*p))
		p++;
	if (p + 1 < end && *p == '.' && is_digit(p[1]))
		for (p++; p < end && is_digit(*p); p++)
			;
	q = p;
	if (q < end && (*q == 'e' || *q == 'E')) {
		q++;
		q += q < end && (*q == '+' || *q == '-');
		if (q < end && is_digit(*q)) {
			while (q < end && is_digit(*q))
				q++;
			return (size_t)(q - s);
		}
	}
	return (size_t)(p - s);
}

static size_t mark_length(const char *s, const char *end)
{
	static const char two[][3] = {"->", "..", "==", "!=", "<=", ">=", "&&", "||"};

	for (size_t i = 0; s + 1 < end && i < sizeof(two) / sizeof(two[0]); i++)
		if (s[0] == two[i][0] && s[1] == two[i][1])
			return 2;
	return 1;
}

static size_t comment_length(const char *s, const char *end, bool block)
{
	const char *p = s + 2;

	if (!block) {
		while (p < end && *p != '\n')
			p++;
		return (size_t)(p - s);
	}
	while (p + 1 < end && !(p[0] == '*' && p[1] == '/'))
		p++;
	return (size_t)((p + 2 < end ? p + 2 : end) - s);
}

static struct fmt_item read_item(const char *s, const char *end)
{
	struct fmt_item t = {.kind = FMT_MARK, .s = s};
	size_t n = 1;

	if (s + 1 < end && s[0] == '/' && (s[1] == '/' || s[1] == '*')) {
		t.kind = FMT_COMMENT;
		t.block = s[1] == '*';
		n = comment_length(s, end, t.block);
		t.lines = memchr(s, '\n', n) != NULL;
	} else if (is_letter(*s)) {
		t.kind = FMT_WORD;
		while (s + n < end && (is_letter(s[n]) || is_digit(s[n])))
			n++;
	} else if (is_digit(*s)) {
		t.kind = FMT_NUMBER;
		n = number_length(s, end);
	} else {
		n = mark_length(s, end);
	}
	t.n = (uint32_t)n;
	return t;
}

/* ---- neighbours ---- */

static const char *const before_values[] = {"assert", "in", "return", "when", NULL};
static const char *const operators[] = {
        "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", NULL};

/* A value may end with t. */
static bool ends_value(const struct fmt_item *t)
{
	return t->kind == FMT_NUMBER || t->close ||
	       (t->kind == FMT_WORD && !one_of(t, before_values));
}

/* t behind the token p; p_prefix: p is a prefix - or !. */
static bool is_glued(const struct fmt_item *p, bool p_prefix, const struct fmt_item *t)
{
	static const char *const behind[] = {",", ";", ":", "..", ")", "]", NULL};

	if (p->open || p_prefix || fmt_is(p, "..") || one_of(t, behind))
		return true;
	return t->open && p->kind == FMT_WORD && !one_of(p, before_values);
}

static void relate(struct fmt *f)
{
	const struct fmt_item *p = NULL;
	size_t brace = 0;
	unsigned depth = 0;
	bool prefix = false;

	for (size_t i = 0; i < f->n; i++) {
		struct fmt_item *t = &f->item[i];
		bool operand;

		if (t->kind == FMT_COMMENT) {
			t->depth = (uint16_t)depth;
			continue;
		}
		t->open = fmt_is(t, "(") || fmt_is(t, "[");
		t->close = fmt_is(t, ")") || fmt_is(t, "]");
		depth -= t->close && depth > 0;
		t->depth = (uint16_t)depth;
		depth += t->open;
		if (fmt_is(t,
		           "{")) { /* blocks nest: the outer one is kept where the inner one ends */
			t->match = brace;
			brace = i;
		} else if (fmt_is(t, "}")) {
			size_t outer = f->item[brace].match;

			t->match = brace;
			f->item[brace].match = i;
			brace = outer;
		}
		operand = p && ends_value(p);
		t->glued = p && is_glued(p, prefix, t);
		prefix = (fmt_is(t, "-") || fmt_is(t, "!")) && !operand;
		t->breaks_before = fmt_is(t, "->") || (operand && one_of(t, operators)) ||
		                   (operand && fmt_is(t, "cost"));
		t->breaks_behind = fmt_is(t, ",") || fmt_is(t, "=");
		p = t;
	}
}

void fmt_scan(struct fmt *f, const char *text, size_t n)
{
	const char *s = text, *end = text + n;
	uint32_t newlines = 0;

	while (s < end) {
		struct fmt_item t;

		if (*s == ' ' || *s == '\t' || *s == '\r' || *s == '\n') {
			newlines += *s++ == '\n';
			continue;
		}
		t = read_item(s, end);
		s += t.n;
		t.newlines = newlines;
		newlines = 0;
		if (t.kind == FMT_COMMENT && !t.block)
			while (t.n > 2 && (t.s[t.n - 1] == ' ' || t.s[t.n - 1] == '\t' ||
			                   t.s[t.n - 1] == '\r'))
				t.n--;
		f->item = arena_grow(f->arena, f->item, f->n, &f->cap, f->n + 1, sizeof(t));
		f->item[f->n++] = t;
	}
	relate(f);
}
