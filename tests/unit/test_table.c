/* Selection tables: what is written is read back, what is hostile is refused with its line, and
 * what was measured decides. */
#include "runtime/table.h"
#include "support/hash.h"
#include "tests/unit/unit.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

struct world {
	struct arena arena;
	struct diags d;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof *w);

	arena_init(&w->arena, 0);
	if (setjmp(w->arena.oom))
		abort();
	diags_init(&w->d, &w->arena);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	arena_free(&w->arena);
	free(w);
	return 0;
}

static const struct cg_point measured[] = {
        {16384, 1, CG_PUSH, 1, 5.0},
        {16384, 64, CG_PUSH, 64, 8.0},
        {16384, 512, CG_PUSH, 64, 30.0},
        {16384, 1, CG_P2P_TWOSHOT, 1, 9.0},
        {16384, 512, CG_P2P_TWOSHOT, 32, 32.0},
        {16384, 4096, CG_P2P_TWOSHOT, 48, 210.0},
        {16384, 4096, CG_P2P_BULK, 12, 220.0},
        {8192, 4096, CG_P2P_BULK, 8, 100.0},
};

static struct rt_table example(void)
{
	return (struct rt_table){
	        .key = {"NVIDIA H200", "580.159.04", "nvlink", 2, false},
	        .point = (struct cg_point *)measured,
	        .n = sizeof measured / sizeof *measured,
	};
}

static const char *complaint(struct world *w, const char *text, size_t len)
{
	struct rt_table t;

	diags_init(&w->d, &w->arena);
	if (rt_table_parse(&t, "t", text, len, &w->arena, &w->d) == ST_OK)
		return NULL;
	assert_null(t.point);
	return w->d.head ? w->d.head->text : "";
}

static void a_table_is_read_back_as_it_was_written(void **state)
{
	struct world *w = *state;
	struct rt_table t = example(), back;
	const char *text = rt_table_text(&t, &w->arena);

	assert_int_equal(rt_table_parse(&back, "t", text, strlen(text), &w->arena, &w->d), ST_OK);
	assert_null(rt_table_differs(&back.key, &t.key, &w->arena));
	assert_int_equal(back.n, t.n);
	for (size_t i = 0; i < t.n; i++) {
		assert_int_equal(back.point[i].row, t.point[i].row);
		assert_int_equal(back.point[i].T, t.point[i].T);
		assert_int_equal(back.point[i].protocol, t.point[i].protocol);
		assert_int_equal(back.point[i].ctas, t.point[i].ctas);
		assert_true(fabs(back.point[i].us - t.point[i].us) < 1e-3);
	}
	assert_string_equal(rt_table_text(&back, &w->arena), text);
}

/* The example with one thing replaced, and the sum made anew. */
static const char *spoilt(struct world *w, const char *from, const char *to)
{
	struct rt_table t = example();
	const char *text = rt_table_text(&t, &w->arena), *at = strstr(text, from);
	const char *end = strstr(text, "end "), *body;
	uint64_t h;

	assert_non_null(at);
	body = arena_printf(&w->arena, "%.*s%s%.*s", (int)(at - text), text, to,
	                    (int)(end - at - (long)strlen(from)), at + strlen(from));
	h = hash_bytes(HASH_INIT, body, strlen(body));
	return arena_printf(&w->arena, "%send %016llx\n", body, (unsigned long long)h);
}

static void what_is_hostile_is_refused_with_its_line(void **state)
{
	static const struct {
		const char *from, *to, *want;
	} rows[] = {
	        {"plait selection table 1", "plait selection table 2", "line 1: this is not"},
	        {"gpu NVIDIA H200", "gpu ", "line 2: 'gpu' has an empty"},
	        {"driver 580", "drive 580", "line 3: 'driver' and its value are missing"},
	        {"tp 2", "tp 17", "line 5: tp is from 1 to 16"},
	        {"tp 2", "tp 2 3", "line 5: tp"},
	        {"tp 2", "tp -1", "line 5: tp"},
	        {"multicast no", "multicast maybe", "line 6: multicast is yes or no"},
	        {"16384 1 push 1 5000", "0 1 push 1 5000", "line 7: bytes of a row"},
	        {"16384 1 push 1 5000", "16384 0 push 1 5000", "line 7: a number of rows"},
	        {"16384 1 push 1 5000", "16384 99999999999 push 1 5000",
	         "line 7: a number of rows"},
	        {"16384 1 push 1 5000", "16384 1 shove 1 5000",
	         "line 7: there is no such protocol"},
	        {"16384 1 push 1 5000", "16384 1 auto 1 5000", "line 7: there is no such protocol"},
	        {"16384 1 push 1 5000", "16384 1 push", "line 7: there is no such protocol"},
	        {"16384 1 push 1 5000", "16384 1 push 257 5000", "line 7: CTAs are from 1 to 256"},
	        {"16384 1 push 1 5000", "16384 1 push 1 0", "line 7: the line does not end"},
	        {"16384 1 push 1 5000", "16384 1 push 1 5e3", "line 7: the line does not end"},
	        {"16384 1 push 1 5000", "16384 1 push 1 5000 1", "line 7: the line does not end"},
	        {"16384 1 push 1 5000", "16384 1 push 1 99999999999999999999", "line 7"},
	        {"16384 64 push", "16384 1 push", "line 8: this point was there before"},
	        {"580.159", "580\t159", "line 3: a control character"},
	};
	struct world *w = *state;
	struct rt_table t = example();
	const char *text = rt_table_text(&t, &w->arena);

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const char *s = spoilt(w, rows[i].from, rows[i].to);
		const char *got = complaint(w, s, strlen(s));

		if (!got || !strstr(got, rows[i].want))
			fail_msg("'%s': '%s', not '%s'", rows[i].to, got ? got : "good",
			         rows[i].want);
	}
	for (size_t n = 0; n < strlen(text); n++)
		assert_non_null(complaint(w, text, n));
	assert_non_null(
	        strstr(complaint(w, arena_printf(&w->arena, "%s\n", text), strlen(text) + 1),
	               "something follows"));
	for (size_t n = 0; n < strlen(text); n++) { /* a flipped bit anywhere */
		char *s = arena_strndup(&w->arena, text, strlen(text));

		s[n] ^= 2;
		assert_non_null(complaint(w, s, strlen(text)));
	}
}

static void a_table_has_bounds(void **state)
{
	struct world *w = *state;
	struct rt_table t = example();
	struct cg_point *p = arena_news(&w->arena, struct cg_point, RT_TABLE_POINTS + 1);
	const char *text;
	char *big = arena_alloc(&w->arena, RT_TABLE_BYTES + 2);

	for (unsigned i = 0; i <= RT_TABLE_POINTS; i++)
		p[i] = (struct cg_point){16384, i + 1, CG_PUSH, 1, 5.0};
	t.point = p;
	t.n = RT_TABLE_POINTS + 1;
	text = rt_table_text(&t, &w->arena);
	assert_non_null(strstr(complaint(w, text, strlen(text)), "more than 4096 points"));
	memset(big, 'x', RT_TABLE_BYTES + 1);
	assert_non_null(strstr(complaint(w, big, RT_TABLE_BYTES + 1), "more than 1048576 bytes"));
	assert_non_null(strstr(complaint(w, big, 1000), "ends in the middle"));
	big[500] = '\n';
	assert_non_null(strstr(complaint(w, big, 1000), "a line of more than 200"));
}

static void a_file_is_written_in_one_step(void **state)
{
	struct world *w = *state;
	struct rt_table t = example(), back;
	char dir[] = "/tmp/plait-table.XXXXXX";
	const char *path;
	struct dirent *e;
	DIR *open;
	unsigned files = 0;

	assert_non_null(mkdtemp(dir));
	path = rt_table_path(dir, &t.key, &w->arena);
	assert_int_equal(rt_table_load(&back, path, &w->arena, &w->d), ST_ENV);
	assert_int_equal(rt_table_save(&t, path, &w->arena, &w->d), ST_OK);
	t.n--;
	assert_int_equal(rt_table_save(&t, path, &w->arena, &w->d), ST_OK);
	assert_int_equal(rt_table_load(&back, path, &w->arena, &w->d), ST_OK);
	assert_int_equal(back.n, t.n);
	open = opendir(dir);
	while ((e = readdir(open)))
		files += e->d_name[0] != '.';
	closedir(open);
	assert_int_equal(files, 1);
	assert_int_equal(rt_table_load(&back, dir, &w->arena, &w->d), ST_ENV); /* a folder */
	assert_int_equal(rt_table_save(&t, "/nowhere/x", &w->arena, &w->d), ST_ENV);
	unlink(path);
	rmdir(dir);
}

static void a_key_names_its_file_and_what_differs(void **state)
{
	static const struct {
		struct rt_table_key k;
		const char *want;
	} rows[] = {
	        {{"NVIDIA H100", "580.159.04", "nvlink", 2, false},
	         "gpu NVIDIA H200, not NVIDIA H100"},
	        {{"NVIDIA H200", "570", "nvlink", 2, false}, "driver 580.159.04, not 570"},
	        {{"NVIDIA H200", "580.159.04", "pcie", 2, false}, "topology nvlink, not pcie"},
	        {{"NVIDIA H200", "580.159.04", "nvlink", 4, false}, "tp 2, not 4"},
	        {{"NVIDIA H200", "580.159.04", "nvlink", 2, true}, "multicast no, not yes"},
	};
	struct world *w = *state;
	struct rt_table t = example();

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_string_equal(rt_table_differs(&t.key, &rows[i].k, &w->arena), rows[i].want);
		assert_string_not_equal(rt_table_name(&t.key, &w->arena),
		                        rt_table_name(&rows[i].k, &w->arena));
	}
}

static void a_new_measurement_replaces_its_row_length_only(void **state)
{
	struct world *w = *state;
	struct rt_table t = example();
	struct cg_point p = {16384, 8, CG_PUSH, 8, 5.5};
	struct rt_table by = {.key = t.key, .point = &p, .n = 1};

	rt_table_merge(&t, &by, &w->arena);
	assert_int_equal(t.n, 2);
	assert_int_equal(t.point[0].row, 8192);
	assert_int_equal(t.point[1].T, 8);
}

/* ---- what is chosen by it ---- */

static struct cg_case a_case(const struct cg_table *t)
{
	return (struct cg_case){.kernel = "k",
	                        .target = cg_target_by_name("sm_90"),
	                        .tp = 2,
	                        .row = {16384, 16384, 32768},
	                        .table = t,
	                        .can = 1u << CG_PUSH | 1u << CG_P2P_TWOSHOT | 1u << CG_P2P_BULK};
}

static void what_was_measured_decides(void **state)
{
	static const struct {
		uint64_t T;
		enum cg_protocol protocol;
		unsigned ctas;
		double us;
	} rows[] = {
	        {1, CG_PUSH, 1, 5.0},
	        {64, CG_PUSH, 64, 8.0},
	        {2, CG_PUSH, 1, 5.0476},
	        {32, CG_PUSH, 64, 6.4762},
	        {288, CG_PUSH, 64, 19.0},
	        {512, CG_PUSH, 64, 30.0},
	        {513, CG_P2P_TWOSHOT, 32, 32.0497}, /* push was measured to 512 only */
	        {4096, CG_P2P_TWOSHOT, 48, 210.0},
	        {16384, CG_P2P_TWOSHOT, 48, 840.0},
	};
	struct world *w = *state;
	struct rt_table t = example();
	struct cg_table table = rt_table_select(&t, &w->arena);
	struct cg_case c = a_case(&table);

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct cg_choice x = cg_select(&c, rows[i].T);

		if (x.protocol != rows[i].protocol || x.ctas != rows[i].ctas ||
		    fabs(x.us - rows[i].us) > 1e-3)
			fail_msg("T = %llu: %s, %u CTAs, %f us", (unsigned long long)rows[i].T,
			         cg_protocol_name(x.protocol), x.ctas, x.us);
		assert_string_equal(x.source,
		                    "plait tune on NVIDIA H200, driver 580.159.04, nvlink");
	}
	c.row.sums = 9000; /* nearest: 8192, by bytes */
	assert_int_equal(cg_select(&c, 4096).protocol, CG_P2P_BULK);
	c.row.sums = 16384;
	c.can = 1u << CG_P2P_BULK; /* the table's rows are of those that can */
	assert_int_equal(cg_select(&c, 1).protocol, CG_P2P_BULK);
}

static void a_table_of_another_machine_says_nothing(void **state)
{
	struct world *w = *state;
	struct rt_table t = example();
	struct cg_table table = rt_table_select(&t, &w->arena);
	struct cg_case c = a_case(&table);

	c.tp = 4;
	assert_int_equal(cg_measured(&c, 64, -1).protocol, CG_AUTO);
	assert_int_not_equal(cg_select(&c, 64).protocol, CG_AUTO); /* the model does */
	c.tp = 2;
	table.multicast = true;
	assert_int_equal(cg_measured(&c, 64, -1).protocol, CG_AUTO);
	table.multicast = false;
	c.can = 1u << CG_MM_PUSH;
	assert_int_equal(cg_measured(&c, 64, -1).protocol, CG_AUTO);
}

static void a_chain_gets_the_form_with_the_least_measured_time(void **state)
{
	struct world *w = *state;
	struct rt_table t = example();
	struct cg_table table = rt_table_select(&t, &w->arena);
	struct cg_case c[2] = {a_case(&table), a_case(&table)};
	struct cg_choice x[2];

	assert_true(cg_select_chain(c, 2, 64, x));
	assert_int_equal(x[0].protocol, CG_PUSH);
	assert_int_equal(x[1].protocol, CG_PUSH);
	/* push was measured to 512 only: the model's word for more is no match for a measured time */
	c[0].row.sums = c[1].row.sums = 16384;
	assert_true(cg_select_chain(c, 2, 600, x));
	assert_int_equal(x[0].protocol, CG_P2P_TWOSHOT);
	c[0].can = c[1].can = 1u << CG_PUSH; /* but where nothing else can, it is taken */
	assert_true(cg_select_chain(c, 2, 600, x));
	assert_int_equal(x[0].protocol, CG_PUSH);
	c[0].can = a_case(&table).can;
	c[1].can = 1u << CG_P2P_TWOSHOT;
	assert_true(cg_select_chain(c, 2, 64, x));
	assert_int_equal(x[0].protocol, CG_P2P_TWOSHOT);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(a_table_is_read_back_as_it_was_written),
	        TEST(what_is_hostile_is_refused_with_its_line),
	        TEST(a_table_has_bounds),
	        TEST(a_file_is_written_in_one_step),
	        TEST(a_key_names_its_file_and_what_differs),
	        TEST(a_new_measurement_replaces_its_row_length_only),
	        TEST(what_was_measured_decides),
	        TEST(a_table_of_another_machine_says_nothing),
	        TEST(a_chain_gets_the_form_with_the_least_measured_time),
	};

	return cmocka_run_group_tests_name("selection tables", tests, NULL, NULL);
}
