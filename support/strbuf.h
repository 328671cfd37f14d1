/* A string under construction, in an arena.  s is always NUL-terminated. */
#pragma once
#include "support/arena.h"
#include <stdarg.h>

struct strbuf {
	struct arena *arena;
	char *s;
	size_t n, cap;
};

/* An empty string; strbuf_init allocates, so s is valid at once. */
void strbuf_init(struct strbuf *b, struct arena *a);
void strbuf_putc(struct strbuf *b, char c);
void strbuf_puts(struct strbuf *b, const char *s);
void strbuf_putn(struct strbuf *b, const char *s, size_t n);
void strbuf_printf(struct strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void strbuf_vprintf(struct strbuf *b, const char *fmt, va_list ap)
        __attribute__((format(printf, 2, 0)));
