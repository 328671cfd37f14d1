/* Any text as PTX: refused with a diagnostic, or it prints, and what is printed reads back as the
 * same.  The reader of foreign text and lint take it too. */
#include "tests/fuzz/fuzz.h"
#include "codegen/ptx/ptx.h"
#include "lint/lint.h"
#include <string.h>

static void check(struct arena *a, const char *text, size_t size)
{
	struct strbuf once, twice, shown;
	struct ptx_module *m;
	struct diags d;

	diags_init(&d, a);
	m = ptx_parse_any(a, &d, diags_add_source(&d, "any", text, size));
	if (m)
		lint_module(m, a, &d);
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

FUZZ_IN_ARENA(check)
