/* Any text as PTX: refused with a diagnostic, or it prints, and what is printed reads back as the
 * same. */
#include "tests/fuzz/fuzz.h"
#include "codegen/ptx/ptx.h"
#include <string.h>

static void check(struct arena *a, const char *text, size_t size)
{
	struct strbuf once, twice, shown;
	struct ptx_module *m;
	struct diags d;

	diags_init(&d, a);
	strbuf_init(&shown, a);
	m = ptx_parse(a, &d, diags_add_source(&d, "fuzz", text, size));
	diags_render(&d, DIAG_REMARK, &shown);
	MUST((m != NULL) == (d.nerror == 0));
	if (!m)
		return;
	ptx_verify(m, &d);
	strbuf_init(&once, a);
	ptx_print(m, &once);
	diags_init(&d, a);
	m = ptx_parse(a, &d, diags_add_source(&d, "printed", once.s, once.n));
	MUST(m);
	strbuf_init(&twice, a);
	ptx_print(m, &twice);
	MUST(strcmp(once.s, twice.s) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a;

	arena_init(&a, (size_t)256 << 20);
	if (!setjmp(a.oom))
		check(&a, (const char *)data, size);
	arena_free(&a);
	return 0;
}
