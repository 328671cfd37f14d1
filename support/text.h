/*
 * Text from elsewhere (a spec, another process, a file), made safe to show: control characters, bytes
 * that are no UTF-8 and marks that reorder text are not plain.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One character: n bytes, at least 1; shown as itself, or as '?'. */
struct text_glyph {
	uint32_t n;
	bool plain;
};

/* The first character of s, which has len > 0 bytes. */
struct text_glyph text_glyph_at(const char *s, size_t len);

/*
 * Makes one plain line of a text, in place: ends of lines and tabs become spaces, what is not plain
 * '?'.  The text gets no longer.
 */
void text_make_plain(char *s);
