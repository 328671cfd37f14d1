/*
 * The examples of doc/ir.md.  A block ```ir parses and passes the verifier; a block ```ir after
 * PASS is what the block before it becomes, on all rows if it says so.  GOLDEN_UPDATE=1 writes the
 * latter anew.
 */
#include "tests/unit/unit.h"
#include "ir/pass.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *path;

static char *read_file(struct arena *a)
{
	FILE *f = fopen(path, "r");
	char *s = arena_alloc(a, 1 << 18);

	assert_non_null(f);
	s[fread(s, 1, (1 << 18) - 1, f)] = 0;
	fclose(f);
	return s;
}

/* The program after `pass` ("fuse", "fuse, all rows"), or as it is for NULL.  Fails the test when
 * it is wrong. */
static const char *after(struct arena *a, const char *program, const char *pass)
{
	const char *comma = pass ? strchr(pass, ',') : NULL;
	struct ir_pass_options o = {.rows = comma ? IR_ROWS_ALL : IR_ROWS_OWN};
	struct strbuf out;
	struct ir_module *m;
	struct diags d;
	bool ok;

	o.stop_after = comma ? arena_strndup(a, pass, (size_t)(comma - pass)) : pass;
	diags_init(&d, a);
	strbuf_init(&out, a);
	m = ir_parse(a, &d, diags_add_source(&d, "doc/ir.md", program, strlen(program)));
	ok = m != NULL;
	if (ok && pass)
		ok = ir_run_passes(m, &o, &d) == ST_OK;
	else
		for (struct ir_func *f = m ? m->funcs : NULL; f; f = f->next)
			ok &= ir_verify(f, IR_FORM_SOURCE, &d);
	if (!ok) {
		diags_render(&d, DIAG_REMARK, &out);
		fail_msg("%s\n%s", program, out.s);
	}
	ir_print(m, &out);
	return out.s;
}

/* The document with every `after` as it should be; *n counts the examples. */
static const char *remake(struct arena *a, const char *doc, unsigned *n)
{
	const char *fence = "```ir", *program = NULL, *at;
	struct strbuf out;

	strbuf_init(&out, a);
	for (; (at = strstr(doc, fence)) != NULL; ++*n) {
		const char *line = at + strlen(fence), *body = strchr(line, '\n') + 1;
		const char *end = strstr(body, "```");

		assert_non_null(end);
		if (strncmp(line, " after ", 7)) {
			program = arena_strndup(a, body, (size_t)(end - body));
			after(a, program, NULL);
			strbuf_putn(&out, doc, (size_t)(end + 3 - doc));
		} else {
			assert_non_null(program);
			strbuf_putn(&out, doc, (size_t)(body - doc));
			strbuf_puts(&out, after(a, program,
			                        arena_strndup(a, line + 7,
			                                      (size_t)(body - 1 - (line + 7)))));
			strbuf_puts(&out, "```");
		}
		doc = end + 3;
	}
	strbuf_puts(&out, doc);
	return out.s;
}

static void every_example_is_what_it_says(void **state)
{
	static struct arena a;
	static unsigned n;
	const char *have, *want;
	FILE *f;

	(void)state;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail_msg("out of memory");
	have = read_file(&a);
	want = remake(&a, have, &n);
	assert_true(n >= 15);
	if (strcmp(have, want) && getenv("GOLDEN_UPDATE")) {
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(want, f);
		assert_int_equal(fclose(f), 0);
	} else if (strcmp(have, want)) {
		fail_msg("%s should be:\n%s", path, want);
	}
	arena_free(&a);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(every_example_is_what_it_says),
	};

	path = argc > 1 ? argv[1] : "doc/ir.md";
	return cmocka_run_group_tests_name("ir doc", tests, NULL, NULL);
}
