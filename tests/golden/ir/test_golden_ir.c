/*
 * Golden files of the passes.  A case NAME.ir is a program, then sections: `// => PASS` is the
 * program after that pass, `// => diagnostics` what all passes say of it; with `, all rows` behind
 * it in that form of rows.  Cases NAME.a.ir,
 * NAME.b.ir, ... are ways to write one tail: after the last pass they are the same text.
 * GOLDEN_UPDATE=1 writes the sections anew (a section must be there to be written).
 */
#include "tests/unit/unit.h"
#include "frontend/frontend.h"
#include "ir/pass.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK     "// => "
#define ALL_ROWS ", all rows"

static const char *folder;

struct context {
	struct arena arena;
	struct diags d;
};

static void begin(struct context *c)
{
	arena_init(&c->arena, 0);
	diags_init(&c->d, &c->arena);
}

static char *read_file(struct arena *a, const char *path)
{
	FILE *f = fopen(path, "r");
	char *s = arena_alloc(a, 1 << 16);

	if (!f)
		fail_msg("cannot read %s", path);
	s[fread(s, 1, (1 << 16) - 1, f)] = 0;
	fclose(f);
	return s;
}

static void write_file(const char *path, const char *s)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(s, f);
	assert_int_equal(fclose(f), 0);
}

/* The program after `pass` (NULL: the last), or what went wrong. */
static enum status after(struct context *c, const char *program, const char *pass,
                         enum ir_rows rows, struct strbuf *out)
{
	struct ir_pass_options o = {.stop_after = pass, .rows = rows};
	struct ir_module *m = ir_parse(
	        &c->arena, &c->d, diags_add_source(&c->d, "input.ir", program, strlen(program)));
	enum status st = m ? ir_run_passes(m, &o, &c->d) : ST_INPUT;

	if (m)
		ir_print(m, out);
	return st;
}

/* What belongs in a section. */
static void make_section(const char *program, const char *name, enum ir_rows rows,
                         struct strbuf *out)
{
	struct context c;
	struct strbuf text;
	enum status st;

	begin(&c);
	if (setjmp(c.arena.oom))
		fail_msg("out of memory");
	strbuf_init(&text, &c.arena);
	if (strcmp(name, "diagnostics")) {
		st = after(&c, program, name, rows, &text);
		if (st)
			strbuf_printf(out, "status: %s\n", status_text(st));
		strbuf_puts(out, text.s);
	} else {
		after(&c, program, NULL, rows, &text);
		diags_render(&c.d, DIAG_REMARK, out);
	}
	arena_free(&c.arena);
}

/* The whole file as it should be. */
static const char *remake(struct arena *a, const char *file)
{
	const char *mark = strstr(file, MARK), *end;
	const char *program = arena_strndup(a, file, mark ? (size_t)(mark - file) : strlen(file));
	struct strbuf out;

	strbuf_init(&out, a);
	strbuf_puts(&out, program);
	for (; mark; mark = strstr(end, MARK)) {
		const char *all;
		char *name;

		mark += strlen(MARK);
		end = mark + strcspn(mark, "\n");
		name = arena_strndup(a, mark, (size_t)(end - mark));
		strbuf_printf(&out, MARK "%s\n", name);
		all = strstr(name, ALL_ROWS);
		make_section(program, all ? arena_strndup(a, name, (size_t)(all - name)) : name,
		             all ? IR_ROWS_ALL : IR_ROWS_OWN, &out);
		if (strstr(end, MARK))
			strbuf_putc(&out, '\n');
	}
	return out.s;
}

static int is_case(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 3 && !strcmp(e->d_name + n - 3, ".ir");
}

static void each_case_is_what_its_file_says(void **state)
{
	struct dirent **e;
	int n = scandir(folder, &e, is_case, alphasort);
	bool update = getenv("GOLDEN_UPDATE") != NULL, ok = true;

	(void)state;
	assert_true(n > 10);
	for (int i = 0; i < n; i++) {
		struct arena a;
		const char *path, *have, *want;

		arena_init(&a, 0);
		if (setjmp(a.oom))
			fail_msg("out of memory");
		path = arena_printf(&a, "%s/%s", folder, e[i]->d_name);
		have = read_file(&a, path);
		want = remake(&a, have);
		if (strcmp(have, want) && update)
			write_file(path, want);
		else if (strcmp(have, want)) {
			fprintf(stderr, "%s should be:\n%s\n", e[i]->d_name, want);
			ok = false;
		}
		arena_free(&a);
		free(e[i]);
	}
	free(e);
	assert_true(ok);
}

/* NAME of NAME.a.ir; 0: not of a group. */
static size_t group(const char *file)
{
	size_t n = strlen(file);

	return n > 5 && file[n - 5] == '.' ? n - 5 : 0;
}

static void ways_to_write_one_tail_end_alike(void **state)
{
	struct dirent **e;
	int n = scandir(folder, &e, is_case, alphasort);
	unsigned pairs = 0;
	struct context c;

	(void)state;
	assert_true(n > 0);
	begin(&c);
	if (setjmp(c.arena.oom))
		fail_msg("out of memory");
	for (int i = 1; i < n; i++) {
		size_t len = group(e[i]->d_name);
		struct strbuf text[2];

		if (!len || len != group(e[i - 1]->d_name) ||
		    strncmp(e[i]->d_name, e[i - 1]->d_name, len))
			continue;
		for (int k = 0; k < 2; k++) {
			const char *path =
			        arena_printf(&c.arena, "%s/%s", folder, e[i - k]->d_name);
			char *program = read_file(&c.arena, path), *mark = strstr(program, MARK);

			if (mark)
				*mark = 0;
			strbuf_init(&text[k], &c.arena);
			assert_int_equal(after(&c, program, NULL, IR_ROWS_OWN, &text[k]), ST_OK);
		}
		assert_string_equal(text[0].s, text[1].s);
		pairs++;
	}
	for (int i = 0; i < n; i++)
		free(e[i]);
	free(e);
	arena_free(&c.arena);
	assert_true(pairs >= 4);
}

/* ---- specs ---- */

static int is_spec(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 6 && !strncmp(e->d_name, "tail.", 5) && !strcmp(e->d_name + n - 6, ".plait");
}

/* A spec through the frontend and all passes. */
static const char *fused(struct context *c, const char *path)
{
	const char *text = read_file(&c->arena, path);
	struct ast_file *ast =
	        fe_parse(&c->arena, &c->d, diags_add_source(&c->d, path, text, strlen(text)));
	struct ir_module *m = fe_lower(&c->arena, &c->d, ast, &(struct fe_options){0});
	struct strbuf out;

	strbuf_init(&out, &c->arena);
	if (!m || ir_run_passes(m, &(struct ir_pass_options){0}, &c->d)) {
		diags_render(&c->d, DIAG_ERROR, &out);
		fail_msg("%s", out.s);
	}
	ir_print(m, &out);
	return out.s;
}

/* The specs tail.*.plait say one tail; its IR after the last pass is in tail.fused. */
static void specs_of_one_tail_end_alike(void **state)
{
	static struct context c;
	struct dirent **e;
	int n = scandir(folder, &e, is_spec, alphasort);
	const char *path;

	(void)state;
	begin(&c);
	if (setjmp(c.arena.oom))
		fail_msg("out of memory");
	assert_true(n >= 3);
	path = arena_printf(&c.arena, "%s/tail.fused", folder);
	for (int i = 0; i < n; i++) {
		const char *spec = arena_printf(&c.arena, "%s/%s", folder, e[i]->d_name);
		const char *text = fused(&c, spec);

		if (i == 0 && getenv("GOLDEN_UPDATE"))
			write_file(path, text);
		assert_string_equal(text, read_file(&c.arena, path));
		free(e[i]);
	}
	free(e);
	arena_free(&c.arena);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(each_case_is_what_its_file_says),
	        cmocka_unit_test(ways_to_write_one_tail_end_alike),
	        cmocka_unit_test(specs_of_one_tail_end_alike),
	};

	folder = argc > 1 ? argv[1] : "tests/golden/ir";
	return cmocka_run_group_tests_name("golden ir", tests, NULL, NULL);
}
