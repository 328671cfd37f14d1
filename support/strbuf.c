#include "support/strbuf.h"
#include <stdio.h>
#include <string.h>

/* Room for n more bytes and the NUL. */
static void reserve(struct strbuf *b, size_t n)
{
	size_t need = n > SIZE_MAX - b->n - 1 ? SIZE_MAX : b->n + n + 1;

	b->s = arena_grow(b->arena, b->s, b->n, &b->cap, need, 1);
}

void strbuf_init(struct strbuf *b, struct arena *a)
{
	*b = (struct strbuf){.arena = a};
	b->s = arena_grow(a, NULL, 0, &b->cap, 64, 1);
}

void strbuf_putn(struct strbuf *b, const char *s, size_t n)
{
	reserve(b, n);
	if (n)
		memcpy(b->s + b->n, s, n);
	b->n += n;
	b->s[b->n] = '\0';
}

void strbuf_putc(struct strbuf *b, char c)
{
	strbuf_putn(b, &c, 1);
}

void strbuf_puts(struct strbuf *b, const char *s)
{
	strbuf_putn(b, s, strlen(s));
}

void strbuf_vprintf(struct strbuf *b, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(b->s + b->n, b->cap - b->n, fmt, again);
	va_end(again);
	if (n < 0) {
		b->s[b->n] = '\0';
		return;
	}
	if ((size_t)n >= b->cap - b->n) {
		reserve(b, (size_t)n);
		vsnprintf(b->s + b->n, b->cap - b->n, fmt, ap);
	}
	b->n += (size_t)n;
}

void strbuf_printf(struct strbuf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	strbuf_vprintf(b, fmt, ap);
	va_end(ap);
}
