/* A generated document: compared with what a test has found, or written anew. */
#pragma once
#include "support/strbuf.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* NULL, or what is wrong; `anew`: the command that writes it, for the message. */
static inline const char *table_file(struct arena *a, const char *file, const struct strbuf *want,
                                     bool update, const char *anew)
{
	FILE *f = fopen(file, update ? "w" : "r");
	char *have;
	size_t n;

	if (update)
		return !f || fwrite(want->s, 1, want->n, f) != want->n || fclose(f)
		               ? "cannot be written"
		               : NULL;
	have = arena_alloc(a, want->n + 2);
	n = f ? fread(have, 1, want->n + 1, f) : 0;
	if (f)
		fclose(f);
	if (n == want->n && !memcmp(have, want->s, n))
		return NULL;
	return arena_printf(a, "it has another table: %s, and look at it", anew);
}
