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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct strbuf *once, *twice;
	struct arena a;

	arena_init(&a, (size_t)256 << 20);
	if (setjmp(a.oom)) {
		arena_free(&a);
		return 0;
	}
	once = layout(&a, (const char *)data, size);
	if (once) {
		twice = layout(&a, once->s, once->n);
		MUST(twice && twice->n == once->n && !memcmp(twice->s, once->s, once->n));
	}
	arena_free(&a);
	return 0;
}
