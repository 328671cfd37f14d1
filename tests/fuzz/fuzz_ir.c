/*
 * Any text as IR: it is refused with a diagnostic, or it prints, and what is printed reads back as
 * the same.  What the verifier accepts goes through the passes in both row forms, which never make
 * a program that it refuses.
 */
#include "tests/fuzz/fuzz.h"
#include "ir/pass.h"
#include <string.h>

static void check(struct arena *a, const char *text, size_t size)
{
	struct strbuf once, twice, shown;
	struct ir_module *m, *again;
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
	again = ir_module_copy(m, a);
	for (unsigned rows = 0; rows < 2; rows++) {
		const struct ir_pass_options options = {.rows = (enum ir_rows)rows};

		MUST(ir_run_passes(rows ? again : m, &options, &d) != ST_INTERNAL);
	}
	diags_init(&d, a);
	m = ir_parse(a, &d, diags_add_source(&d, "printed", once.s, once.n));
	MUST(m);
	strbuf_init(&twice, a);
	ir_print(m, &twice);
	MUST(strcmp(once.s, twice.s) == 0);
}

FUZZ_IN_ARENA(check)
