/*
 * plait fmt's layout: same tokens, same comments, the same tree; formatting twice is formatting
 * once. Over every spec of the repository, and over them with blanks, newlines and comments strewn
 * in.
 */
#include "frontend/format.h"
#include "frontend/frontend.h"
#include "tests/unit/unit.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 1 << 20, MUTATIONS = 6 };

/* The tree of text without the places, and its comments, one a line; NULL: text has errors. */
static char *meaning(struct arena *a, const char *text, size_t n)
{
	struct diags d;
	struct strbuf tree, bare;
	struct fmt f = {.arena = a};
	struct source *src;
	struct ast_file *ast;

	diags_init(&d, a);
	src = diags_add_source(&d, "spec", text, n);
	ast = src ? fe_parse(a, &d, src) : NULL;
	if (!ast || d.nerror)
		return NULL;
	strbuf_init(&tree, a);
	strbuf_init(&bare, a);
	fe_print_ast(ast, &d, &tree);
	/* strtok cuts the lines off, so that no search runs over all the rest */
	for (char *save, *s = strtok_r(tree.s, "\n", &save); s; s = strtok_r(NULL, "\n", &save)) {
		*strstr(s, "  spec:") = 0;
		strbuf_puts(&bare, s);
		strbuf_putc(&bare, '\n');
	}
	fmt_scan(&f, text, n);
	for (size_t i = 0; i < f.n; i++)
		if (f.item[i].kind == FMT_COMMENT)
			strbuf_printf(&bare, "%.*s\n", (int)f.item[i].n, f.item[i].s);
	return bare.s;
}

static struct strbuf format(struct arena *a, const char *text, size_t n)
{
	struct diags d;
	struct strbuf out;

	diags_init(&d, a);
	strbuf_init(&out, a);
	fe_format(a, diags_add_source(&d, "spec", text, n), &out);
	return out;
}

static void check_text(struct arena *a, const char *name, const char *text, size_t n)
{
	char *before = meaning(a, text, n), *after;
	struct strbuf once, twice;

	if (!before)
		fail_msg("%s does not parse:\n%s", name, text);
	once = format(a, text, n);
	after = meaning(a, once.s, once.n);
	if (!after || strcmp(before, after))
		fail_msg("%s: the meaning changed:\n%s\n---- became\n%s", name, text, once.s);
	twice = format(a, once.s, once.n);
	if (strcmp(once.s, twice.s))
		fail_msg("%s: formatted twice is not formatted once:\n%s\n---- became\n%s\n---- "
		         "became\n%s",
		         name, text, once.s, twice.s);
	for (const char *s = once.s; *s; s += strcspn(s, "\n") + 1) {
		size_t len = strcspn(s, "\n");

		if (len && s[len - 1] == ' ')
			fail_msg("%s: blanks at the end of a line:\n%s", name, once.s);
	}
}

static uint64_t random_next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* The same tokens, with other things between them. */
static struct strbuf strew(struct arena *a, const char *text, size_t n, uint64_t seed,
                           bool comments)
{
	static const char *const gaps[] = {
	        " ",         "\n",      "\n\n\n",     "\t ",           " \r\n",    "  ",
	        " /* c */ ", " // d\n", "\n// e\n\n", " /* f\n  g */", "\n/* h */"};
	struct fmt f = {.arena = a};
	struct strbuf out;

	strbuf_init(&out, a);
	fmt_scan(&f, text, n);
	for (size_t i = 0; i < f.n; i++) {
		const struct fmt_item *t = &f.item[i];
		uint64_t r = random_next(&seed);

		if (t->kind == FMT_COMMENT && comments)
			continue;
		if (r % 3 == 0)
			strbuf_puts(&out, gaps[r / 3 % (comments ? 11 : 6)]);
		else if (!t->glued)
			strbuf_puts(&out, r % 3 == 1 ? " " : "\n");
		strbuf_putn(&out, t->s, t->n);
		if (t->kind == FMT_COMMENT && !t->block)
			strbuf_putc(&out, '\n');
	}
	return out;
}

static char *read_text(const char *path, size_t *n)
{
	static char text[LARGEST];
	FILE *f = fopen(path, "rb");

	if (!f)
		fail_msg("%s cannot be read", path);
	*n = fread(text, 1, sizeof(text), f);
	fclose(f);
	return text;
}

/* The number of specs in the folder that were checked: those without errors of syntax. */
static unsigned check_folder(const char *folder, unsigned mutations)
{
	DIR *d = opendir(folder);
	unsigned checked = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		size_t n, len = strlen(e->d_name);
		char path[512], *text;
		struct arena a;

		if (len < 7 || strcmp(e->d_name + len - 6, ".plait"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		text = read_text(path, &n);
		arena_init(&a, 0);
		assert_int_equal(setjmp(a.oom), 0);
		if (meaning(&a, text, n)) {
			check_text(&a, path, text, n);
			checked++;
			for (uint64_t i = 0; i < mutations; i++) {
				struct strbuf m = strew(&a, text, n, i * 7919 + len, i % 2);

				check_text(&a, path, m.s, m.n);
			}
		}
		arena_free(&a);
	}
	closedir(d);
	return checked;
}

static void the_meaning_and_comments_of_the_samples_are_kept(void **state)
{
	(void)state;
	assert_true(check_folder("samples", MUTATIONS) >= 10);
}

static void the_meaning_and_comments_of_the_golden_specs_are_kept(void **state)
{
	(void)state;
	assert_true(check_folder("tests/golden/diag", MUTATIONS) >= 40);
	assert_true(check_folder("tests/sweep/specs", MUTATIONS) >= 1);
}

static void the_meaning_and_comments_of_the_prelude_are_kept(void **state)
{
	(void)state;
	assert_true(check_folder("frontend", 4 * MUTATIONS) == 1);
}

static void lays_out(const char *text, const char *want)
{
	struct arena a;
	struct strbuf got;

	arena_init(&a, 0);
	assert_int_equal(setjmp(a.oom), 0);
	check_text(&a, "case", text, strlen(text));
	got = format(&a, text, strlen(text));
	assert_string_equal(got.s, want);
	arena_free(&a);
}

static void blanks_stand_where_they_help(void **state)
{
	(void)state;
	lays_out("const a=-1,b = 2*( a+ - 3 ) ,c=!( a<b )||a>= b;",
	         "const a = -1, b = 2 * (a + -3), c = !(a < b) || a >= b;\n");
	lays_out("fn f( x,n=4 )=group_sum ( x,n )*n;", "fn f(x, n = 4) = group_sum(x, n) * n;\n");
	lays_out("model m{repeat i in 0 .. 4*( n ){y=k ( w [ i ],s);}(a,b)=j(y) ;output y;}",
	         "model m {\n    repeat i in 0..4 * (n) { y = k(w[i], s); }\n    (a, b) = j(y);\n  "
	         "  output y;\n}\n");
	lays_out("kernel k(x:bf16[T,8]partial ld=8 when(a))->y:bf16[T,8]{out y=x;}",
	         "kernel k(x: bf16[T, 8] partial ld = 8 when (a)) -> y: bf16[T, 8] { out y = x; "
	         "}\n");
}

static void comments_stay_where_they_were(void **state)
{
	(void)state;
	lays_out("// a  \n\n\n\n// b\nconst x = 1;   // c\n/* d */ const y = 2; /* e */\n// f",
	         "// a\n\n// b\nconst x = 1;  // c\n/* d */\nconst y = 2; /* e */\n// f\n");
	lays_out(
	        "fn f(x) { // why\n\n  // how\n  return x /* this */ + 1; // so\n\n\n  // end\n}\n",
	        "fn f(x) {  // why\n    // how\n    return x /* this */ + 1;  // so\n\n    // "
	        "end\n}\n");
	lays_out("kernel k(x: f32[T, 8], // the\n y: f32[T, 8] // two\n) -> z: f32[T, 8] { out z = "
	         "x // a\n + y; }",
	         "kernel k(\n    x: f32[T, 8],  // the\n    y: f32[T, 8]  // two\n) -> z: f32[T, "
	         "8] {\n"
	         "    out z = x  // a\n        + y;\n}\n");
	lays_out("const a = 1, // one\n b = 2; // two\n",
	         "const a = 1,  // one\n    b = 2;  // two\n");
}

static void short_blocks_stay_on_one_line_and_long_ones_do_not(void **state)
{
	(void)state;
	lays_out("fn f(x) { return x; }", "fn f(x) { return x; }\n");
	lays_out("fn f(x) { y = x; return y; }", "fn f(x) {\n    y = x;\n    return y;\n}\n");
	lays_out("fn f(x) {\nreturn x; }", "fn f(x) {\n    return x;\n}\n");
}

static void long_lines_break_where_few_brackets_are_open(void **state)
{
	(void)state;
#define LONG "a_name_of_more_than_forty_characters_in_this_file"
	lays_out("const x = f(" LONG ", " LONG ") + " LONG ";",
	         "const x = f(" LONG ", " LONG ")\n    + " LONG ";\n");
	lays_out("kernel k(" LONG ": bf16[T, 8] partial, second: bf16[T, 8]) -> " LONG
	         ": bf16[T, 8] { out y = x; }",
	         "kernel k(" LONG ": bf16[T, 8] partial, second: bf16[T, 8])\n    -> " LONG
	         ": bf16[T, 8]\n{\n    out y = x;\n}\n");
	lays_out("kernel k(" LONG ": bf16[T, 8], " LONG "2: bf16[T, 8], z: f32[]) { out y = x; }",
	         "kernel k(\n    " LONG ": bf16[T, 8],\n    " LONG
	         "2: bf16[T, 8],\n    z: f32[]\n) {\n    out y = x;\n}\n");
	lays_out("model m { y = opaque attention(qkv) -> dtype[T, " LONG
	         "] columns cost attention(heads = heads, dim = dim); }",
	         "model m {\n    y = opaque attention(qkv) -> dtype[T, " LONG "] columns\n"
	         "        cost attention(heads = heads, dim = dim);\n}\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(the_meaning_and_comments_of_the_samples_are_kept),
	        cmocka_unit_test(the_meaning_and_comments_of_the_golden_specs_are_kept),
	        cmocka_unit_test(the_meaning_and_comments_of_the_prelude_are_kept),
	        cmocka_unit_test(blanks_stand_where_they_help),
	        cmocka_unit_test(comments_stay_where_they_were),
	        cmocka_unit_test(short_blocks_stay_on_one_line_and_long_ones_do_not),
	        cmocka_unit_test(long_lines_break_where_few_brackets_are_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
