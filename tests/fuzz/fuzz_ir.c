/*
 * Any text as IR: it is refused with a diagnostic, or it prints, and what is printed reads back as
 * the same.  What the verifier accepts goes through the passes, which never make a program that it
 * refuses.
 */
#include "tests/fuzz/fuzz.h"
#include "ir/pass.h"
#include <string.h>

static void check(struct arena *a, const char *text, size_t size)
{
	const struct ir_pass_options options = {0};
	struct strbuf once, twice, shown;
	struct ir_module *m;
	struct diags d;

	diags_init(&d, a);
	strbuf_init(&shown, a);
	m = ir_parse(a, &d, diags_add_source(&d, "fuzz", text, size));
	diags_render(&d, DIAG_REMARK, &shown);
	MUST((m != NULL) == (d.nerror == 0));
	if (!m)
		return;
	strbuf_init(&once, a);
	ir_print(m, &once);
	MUST(ir_run_passes(m, &options, &d) != ST_INTERNAL);
	diags_init(&d, a);
	m = ir_parse(a, &d, diags_add_source(&d, "printed", once.s, once.n));
	MUST(m);
	strbuf_init(&twice, a);
	ir_print(m, &twice);
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
