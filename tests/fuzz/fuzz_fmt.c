/* Any text that parses, through the layout: it parses again, and laid out twice it is the same. */
#include "frontend/frontend.h"
#include "tests/fuzz/fuzz.h"
#include <string.h>

/* NULL: text has errors of syntax. */
static struct strbuf *layout(struct arena *a, const char *text, size_t n)
{
	struct strbuf *out = arena_new(a, struct strbuf);
	struct diags d;
	struct source *src;

	diags_init(&d, a);
	src = diags_add_source(&d, "spec", text, n);
	if (!src || !fe_parse(a, &d, src) || d.nerror)
		return NULL;
	strbuf_init(out, a);
	fe_format(a, src, out);
	return out;
}

static void check(struct arena *a, const char *text, size_t size)
{
	struct strbuf *once = layout(a, text, size), *twice;

	if (!once)
		return;
	twice = layout(a, once->s, once->n);
	MUST(twice && twice->n == once->n && !memcmp(twice->s, once->s, once->n));
}

FUZZ_IN_ARENA(check)
