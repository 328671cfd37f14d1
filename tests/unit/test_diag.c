#include "tests/unit/unit.h"
#include "support/diag.h"
#include <string.h>

/* One arena and one set of diagnostics per test. */
struct fixture {
	struct arena arena;
	struct diags d;
};

static int set_up(void **state)
{
	static struct fixture f;

	arena_init(&f.arena, 0);
	if (setjmp(f.arena.oom))
		return -1;
	diags_init(&f.d, &f.arena);
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	arena_free(&f->arena);
	return 0;
}

static const char *shown(struct fixture *f, enum diag_severity least)
{
	struct strbuf b;

	strbuf_init(&b, &f->arena);
	diags_render(&f->d, least, &b);
	return b.s;
}

static struct source *add(struct fixture *f, const char *name, const char *text)
{
	return diags_add_source(&f->d, name, text, strlen(text));
}

/* The span of the first `what` in a source. */
static struct span find(const struct source *s, const char *what)
{
	const char *p = strstr(s->text, what);
	uint32_t begin;

	assert_non_null(p);
	begin = s->base + (uint32_t)(p - s->text);
	return (struct span){begin, begin + (uint32_t)strlen(what)};
}

static void error(struct fixture *f, struct span at, const char *text)
{
	diag_at(&f->d, DIAG_ERROR, (enum diag_code)214, at, "%s", text);
}

static void the_whole_span_is_underlined(void **state)
{
	struct fixture *f = *state;
	struct source *s = add(f, "a.plait", "one\ntwo\n    out yy = h;\n");

	error(f, find(s, "yy"), "'yy' is written twice");
	diag_note(&f->d, (struct span){0}, "remove one of the two");
	assert_string_equal(shown(f, DIAG_REMARK),
	                    "a.plait:3:9: error: 'yy' is written twice [E214]\n"
	                    "    3 |     out yy = h;\n"
	                    "      |         ^^\n"
	                    "      = note: remove one of the two\n");
}

static void tabs_are_spread_in_both_lines(void **state)
{
	struct fixture *f = *state;
	struct source *s = add(f, "a", "\tab\tcd e;");

	error(f, find(s, "b\tcd"), "m");
	assert_string_equal(shown(f, DIAG_REMARK), "a:1:3: error: m [E214]\n"
	                                           "    1 |         ab      cd e;\n"
	                                           "      |          ^^^^^^^^^\n");
}

static void a_span_over_lines_is_underlined_to_the_end_of_the_first(void **state)
{
	struct fixture *f = *state;
	struct source *s = add(f, "a", "y = f(a,\r\n      b);\n");

	error(f, find(s, "f(a,\r\n      b)"), "m");
	assert_string_equal(shown(f, DIAG_REMARK), "a:1:5: error: m [E214]\n"
	                                           "    1 | y = f(a,\n"
	                                           "      |     ^^^^\n");
}

static void an_empty_span_and_the_end_of_the_text_get_one_caret(void **state)
{
	struct fixture *f = *state;
	struct source *s = add(f, "a", "ab");
	struct span mid = {s->base + 1, s->base + 1}, end = {s->base + 2, s->base + 2};

	error(f, mid, "m");
	error(f, end, "n");
	assert_string_equal(shown(f, DIAG_REMARK), "a:1:2: error: m [E214]\n"
	                                           "    1 | ab\n"
	                                           "      |  ^\n"
	                                           "a:1:3: error: n [E214]\n"
	                                           "    1 | ab\n"
	                                           "      |   ^\n");
}

static void an_empty_source_has_a_first_line(void **state)
{
	struct fixture *f = *state;
	struct source *s = add(f, "empty", "");

	error(f, (struct span){s->base, s->base}, "nothing here");
	assert_string_equal(shown(f, DIAG_REMARK), "empty:1:1: error: nothing here [E214]\n"
	                                           "    1 | \n"
	                                           "      | ^\n");
}

static void a_diagnostic_without_a_place_shows_its_text(void **state)
{
	struct fixture *f = *state;

	add(f, "a", "x");
	error(f, (struct span){0}, "no such file");
	assert_string_equal(shown(f, DIAG_REMARK), "error: no such file [E214]\n");
}

static void sources_share_one_space_of_offsets(void **state)
{
	struct fixture *f = *state;
	struct source *one = add(f, "one", "a\nb\n"), *two = add(f, "two", "c\nd\n");
	struct diag_place p;

	p = diag_place(&f->d, find(one, "b"));
	assert_ptr_equal(p.src, one);
	assert_int_equal(p.line, 2);
	assert_int_equal(p.col, 1);
	p = diag_place(&f->d, find(two, "d"));
	assert_ptr_equal(p.src, two);
	assert_int_equal(p.line, 2);
	assert_int_equal(p.line_len, 1);
	assert_null(diag_place(&f->d, (struct span){0}).src);
	assert_null(diag_place(&f->d, (struct span){1000, 1001}).src);
}

static void diagnostics_come_in_order_of_position_with_their_notes(void **state)
{
	struct fixture *f = *state;
	struct source *one = add(f, "one", "aaa\n"), *two = add(f, "two", "b c\n");

	error(f, find(two, "c"), "third");
	diag_note(&f->d, find(one, "aaa"), "the first use is here");
	diag_note(&f->d, (struct span){0}, "mend it");
	error(f, find(two, "b"), "second");
	error(f, find(one, "aaa"), "first");
	error(f, find(two, "b"), "second again");
	assert_string_equal(shown(f, DIAG_REMARK), "one:1:1: error: first [E214]\n"
	                                           "    1 | aaa\n"
	                                           "      | ^^^\n"
	                                           "two:1:1: error: second [E214]\n"
	                                           "    1 | b c\n"
	                                           "      | ^\n"
	                                           "two:1:1: error: second again [E214]\n"
	                                           "    1 | b c\n"
	                                           "      | ^\n"
	                                           "two:1:3: error: third [E214]\n"
	                                           "    1 | b c\n"
	                                           "      |   ^\n"
	                                           "one:1:1: note: the first use is here\n"
	                                           "    1 | aaa\n"
	                                           "      | ^^^\n"
	                                           "      = note: mend it\n");
}

static void what_is_less_important_is_left_out_with_its_notes(void **state)
{
	struct fixture *f = *state;
	struct source *s = add(f, "a", "x");

	diag_at(&f->d, DIAG_REMARK, (enum diag_code)7, find(s, "x"), "costs a gather");
	diag_note(&f->d, (struct span){0}, "a note to the remark");
	diag_at(&f->d, DIAG_WARNING, (enum diag_code)8, find(s, "x"), "odd");
	assert_string_equal(shown(f, DIAG_ERROR), "");
	assert_string_equal(shown(f, DIAG_WARNING), "a:1:1: warning: odd [W008]\n"
	                                            "    1 | x\n"
	                                            "      | ^\n");
	assert_non_null(strstr(shown(f, DIAG_REMARK), "remark: costs a gather [R007]"));
	assert_non_null(strstr(shown(f, DIAG_REMARK), "a note to the remark"));
	assert_int_equal(f->d.nerror, 0);
	assert_int_equal(f->d.nwarning, 1);
	assert_int_equal(f->d.nremark, 1);
}

static void errors_beyond_the_limit_are_counted_and_their_notes_dropped(void **state)
{
	struct fixture *f = *state;
	struct source *s = add(f, "a", "x");
	const char *out;

	f->d.max_errors = 2;
	for (int i = 0; i < 5; i++) {
		error(f, find(s, "x"), i < 2 ? "kept" : "too many");
		diag_note(&f->d, (struct span){0}, i < 2 ? "kept note" : "lost note");
	}
	diag_at(&f->d, DIAG_WARNING, (enum diag_code)8, find(s, "x"), "still heard");
	out = shown(f, DIAG_REMARK);
	assert_int_equal(f->d.nerror, 5);
	assert_null(strstr(out, "too many"));
	assert_null(strstr(out, "lost note"));
	assert_non_null(strstr(out, "kept note"));
	assert_non_null(strstr(out, "still heard"));
	assert_non_null(strstr(out, "and 3 more errors\n"));
}

static void bytes_that_a_terminal_cannot_show_become_question_marks(void **state)
{
	struct fixture *f = *state;
	struct source *s = add(f, "a\x1b", "\xff\x01 \xc3\xa9 \xe2\x80\xae \xc0\xaf z");

	error(f, find(s, "z"), "bad \x80 byte");
	assert_string_equal(shown(f, DIAG_REMARK), "a?:1:14: error: bad ? byte [E214]\n"
	                                           "    1 | ?? \xc3\xa9 ? ?? z\n"
	                                           "      |           ^\n");
}

static void a_nul_byte_does_not_end_a_line(void **state)
{
	struct fixture *f = *state;
	struct source *s = diags_add_source(&f->d, "a", "a\0b", 3);

	error(f, (struct span){s->base + 2, s->base + 3}, "m");
	assert_string_equal(shown(f, DIAG_REMARK), "a:1:3: error: m [E214]\n"
	                                           "    1 | a?b\n"
	                                           "      |   ^\n");
}

static void of_a_very_long_line_a_window_is_shown(void **state)
{
	struct fixture *f = *state;
	size_t len = 10 << 20;
	char *text = arena_alloc(&f->arena, len);
	struct source *s;
	const char *out, *nl;
	size_t mark;

	memset(text, '\t', len);
	memcpy(text + len / 2, "needle", 6);
	s = diags_add_source(&f->d, "long", text, len);
	mark = s->base + len / 2;
	error(f, (struct span){(uint32_t)mark, (uint32_t)mark + 6}, "deep");
	error(f, (struct span){(uint32_t)mark, s->base + (uint32_t)len}, "to the end");
	out = shown(f, DIAG_REMARK);
	assert_true(strlen(out) < 800);
	nl = strchr(out, '\n') + 1;
	assert_non_null(strstr(nl, "    1 | ...   "));
	nl = strstr(nl, "needle");
	assert_non_null(nl);
	/* The carets stand under the word: gutter, dots, 40 bytes. */
	nl = strchr(nl, '\n') + 1;
	assert_int_equal(strspn(nl, " |"), 8 + 3 + 40);
	assert_memory_equal(nl + 8 + 3 + 40, "^^^^^^\n", 7);
}

static void near_names_are_suggested_and_far_ones_are_not(void **state)
{
	static const char *const names[] = {"rmsnorm", "layernorm", "silu", "gelu", "h"};

	(void)state;
	assert_string_equal(nearest_name("rmsnrm", names, 5), "rmsnorm");
	assert_string_equal(nearest_name("RMSNorm", names, 5), "rmsnorm");
	assert_string_equal(nearest_name("layernrom", names, 5), "layernorm");
	assert_string_equal(nearest_name("slu", names, 5), "silu");
	assert_null(nearest_name("x", names, 5));
	assert_null(nearest_name("attention", names, 5));
	assert_null(nearest_name("", names, 5));
	assert_null(nearest_name("silu", names, 0));
}

static void names_of_any_length_can_be_asked_for(void **state)
{
	char name[200] = {0};
	const char *const names[] = {name, "silu"};

	(void)state;
	memset(name, 'a', sizeof name - 1);
	assert_null(nearest_name(name, names, 2));
	assert_string_equal(nearest_name("silo", names, 2), "silu");
}

static void no_code_stands_for_two_things(void **state)
{
	static const int numbers[] = {
#define DIAG_CODE(ID, number, title) number,
#include "support/codes.def"
#undef DIAG_CODE
	};

	(void)state;
	for (size_t i = 1; i < sizeof numbers / sizeof *numbers; i++)
		assert_in_range(numbers[i], numbers[i - 1] + 1, 999);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(the_whole_span_is_underlined),
	        TEST(tabs_are_spread_in_both_lines),
	        TEST(a_span_over_lines_is_underlined_to_the_end_of_the_first),
	        TEST(an_empty_span_and_the_end_of_the_text_get_one_caret),
	        TEST(an_empty_source_has_a_first_line),
	        TEST(a_diagnostic_without_a_place_shows_its_text),
	        TEST(sources_share_one_space_of_offsets),
	        TEST(diagnostics_come_in_order_of_position_with_their_notes),
	        TEST(what_is_less_important_is_left_out_with_its_notes),
	        TEST(errors_beyond_the_limit_are_counted_and_their_notes_dropped),
	        TEST(bytes_that_a_terminal_cannot_show_become_question_marks),
	        TEST(a_nul_byte_does_not_end_a_line),
	        TEST(of_a_very_long_line_a_window_is_shown),
	        TEST(near_names_are_suggested_and_far_ones_are_not),
	        TEST(names_of_any_length_can_be_asked_for),
	        TEST(no_code_stands_for_two_things),
	};

	return cmocka_run_group_tests_name("diag", tests, NULL, NULL);
}
