/*
 * The sequences that models use (seq_NAME.plait) through the frontend and all passes.
 * seq_NAME.fused is the fused kernel in both row forms; the fused kernels mean what the spec means,
 * and both forms mean the same.  GOLDEN_UPDATE=1 writes the files anew.
 */
#include "tests/unit/unit.h"
#include "frontend/frontend.h"
#include "ir/eval.h"
#include "ir/pass.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TP = 3, ROWS = 7, MAX_PARAMS = 16 };

static const char *folder;

struct sequence {
	struct arena arena;
	struct diags d;
	const char *name;
	struct ir_module *spec, *fused[2]; /* by enum ir_rows; NULL: there is no such form */
};

static const char *path_of(struct sequence *s, const char *ending)
{
	return arena_printf(&s->arena, "%s/%s.%s", folder, s->name, ending);
}

static const char *read_file(struct arena *a, const char *path)
{
	FILE *f = fopen(path, "r");
	char *s = arena_alloc(a, 1 << 16);

	if (!f)
		return "";
	s[fread(s, 1, (1 << 16) - 1, f)] = 0;
	fclose(f);
	return s;
}

static const char *shown(struct sequence *s, enum diag_severity least)
{
	struct strbuf b;

	strbuf_init(&b, &s->arena);
	diags_render(&s->d, least, &b);
	return b.s;
}

/* ---- what the kernels are ---- */

static void lower(struct sequence *s)
{
	const char *text = read_file(&s->arena, path_of(s, "plait"));
	const struct source *src = diags_add_source(
	        &s->d, arena_printf(&s->arena, "%s.plait", s->name), text, strlen(text));
	struct ast_file *ast = fe_parse(&s->arena, &s->d, src);

	s->spec = fe_lower(&s->arena, &s->d, ast, &(struct fe_options){0});
	if (!s->spec)
		fail_msg("%s", shown(s, DIAG_ERROR));
}

/* Fuses in one form; appends the result to `out`. */
static void fuse(struct sequence *s, enum ir_rows rows, struct strbuf *out)
{
	struct ir_module *m = ir_module_copy(s->spec, &s->arena);
	struct ir_pass_options o = {.rows = rows};
	enum status st = ir_run_passes(m, &o, &s->d);

	strbuf_puts(out, rows == IR_ROWS_OWN ? "// own rows\n" : "\n// all rows\n");
	assert_true(st == ST_OK || st == ST_INPUT);
	if (st == ST_OK) {
		ir_print(m, out);
		s->fused[rows] = m;
	} else {
		strbuf_puts(out, shown(s, DIAG_ERROR));
	}
}

static void check_text(struct sequence *s)
{
	const char *path = path_of(s, "fused");
	struct strbuf out;
	FILE *f;

	strbuf_init(&out, &s->arena);
	lower(s);
	fuse(s, IR_ROWS_OWN, &out);
	fuse(s, IR_ROWS_ALL, &out);
	if (getenv("GOLDEN_UPDATE")) {
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(out.s, f);
		assert_int_equal(fclose(f), 0);
	}
	assert_string_equal(out.s, read_file(&s->arena, path));
}

/* ---- what they mean ---- */

static const struct ir_func *kernel(const struct ir_module *m)
{
	const struct ir_func *f = m->funcs;

	while (!f->is_kernel)
		f = f->next;
	return f;
}

static double number(uint64_t *state, enum ir_dtype t)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return ir_round(t, (double)(int64_t)(*state >> 32) * 0x1p-30 - 2.0);
}

static void fill(struct arena *a, const struct ir_param *p, struct ir_buffer *b, uint64_t seed)
{
	const struct ir_type t = p->type;

	for (unsigned r = 0; r < TP; r++) {
		int64_t begin = 0, end = t.ndim == 2 ? ROWS : 1;

		b[r] = b[0];
		if (t.ndim == 2 && t.place == IR_SHARDED)
			ir_own_rows(ROWS, TP, r, &begin, &end);
		else if (r && t.place != IR_PARTIAL)
			continue;
		b[r] = (struct ir_buffer){.rows = end - begin, .cols = t.cols};
		b[r].v = arena_news(a, double, (size_t)(b[r].rows * t.cols) + 1);
		for (int64_t i = 0; i < b[r].rows * t.cols; i++)
			b[r].v[i] = number(&seed, (enum ir_dtype)t.dtype);
	}
}

static struct ir_buffer *evaluate(struct sequence *s, const struct ir_module *m, enum ir_rows rows,
                                  enum ir_sum sum)
{
	const struct ir_func *f = kernel(m);
	struct ir_buffer *in = arena_news(&s->arena, struct ir_buffer, MAX_PARAMS * TP);
	struct ir_buffer *out = arena_news(&s->arena, struct ir_buffer, MAX_PARAMS * TP);
	struct ir_eval_options o = {TP, ROWS, IR_EVAL_SPEC, sum, rows, false};

	assert_in_range(f->nparam, 1, MAX_PARAMS);
	for (unsigned p = 0; p < f->nparam; p++)
		if (f->param[p].mode != IR_OUT)
			fill(&s->arena, &f->param[p], &in[p * TP], 77 + p);
	if (ir_eval(f, &o, in, out, &s->arena, &s->d))
		fail_msg("%s", shown(s, DIAG_ERROR));
	return out;
}

/* The same values and bounds, in the rows that `want` says are written; so many elements were. */
static unsigned compare(const struct sequence *s, const struct ir_func *f,
                        const struct ir_buffer *have, const struct ir_buffer *want, bool same_rows)
{
	unsigned n = 0;

	for (unsigned i = 0; i < f->nparam * TP; i++) {
		if (f->param[i / TP].mode == IR_IN)
			continue;
		assert_int_equal(have[i].rows, want[i].rows);
		for (int64_t c = 0; c < want[i].rows * want[i].cols; c++) {
			bool written = want[i].err[c] >= 0.0,
			     both = written && have[i].err[c] >= 0.0;

			n += written;
			if (same_rows && written != both)
				fail_msg("%s: '%s' on rank %u, element %d: who writes it?", s->name,
				         f->param[i / TP].name, i % TP, (int)c);
			if (both &&
			    (have[i].v[c] != want[i].v[c] || have[i].err[c] != want[i].err[c]))
				fail_msg("%s: '%s' on rank %u, element %d: %.9g +- %g, not %.9g +- "
				         "%g",
				         s->name, f->param[i / TP].name, i % TP, (int)c,
				         have[i].v[c], have[i].err[c], want[i].v[c],
				         want[i].err[c]);
		}
	}
	return n;
}

static void check_meaning(struct sequence *s)
{
	static const enum ir_sum sums[] = {IR_SUM_RANK_ORDER, IR_SUM_EXACT, IR_SUM_FAITHFUL};
	const struct ir_func *f = kernel(s->spec);

	for (unsigned k = 0; k < 3; k++) {
		struct ir_buffer *spec[2];

		/* merged sums are not what the spec says when additions round */
		if (f->merged_sums)
			continue;
		for (unsigned rows = 0; rows < 2; rows++) {
			spec[rows] = evaluate(s, s->spec, (enum ir_rows)rows, sums[k]);
			if (!s->fused[rows])
				continue;
			assert_true(
			        compare(s, f,
			                evaluate(s, s->fused[rows], (enum ir_rows)rows, sums[k]),
			                spec[rows], true) >= (ROWS / TP) * 64);
		}
		compare(s, f, spec[IR_ROWS_ALL], spec[IR_ROWS_OWN], false);
	}
}

static int is_sequence(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 6 && !strncmp(e->d_name, "seq_", 4) && !strcmp(e->d_name + n - 6, ".plait");
}

static void check_file(const char *name)
{
	static struct sequence s;

	s = (struct sequence){0};
	arena_init(&s.arena, 0);
	if (setjmp(s.arena.oom))
		fail_msg("out of memory");
	diags_init(&s.d, &s.arena);
	s.name = arena_strndup(&s.arena, name, strlen(name) - strlen(".plait"));
	check_text(&s);
	check_meaning(&s);
	arena_free(&s.arena);
}

static void each_sequence_fuses_in_both_forms_and_means_the_same(void **state)
{
	struct dirent **e;
	int n = scandir(folder, &e, is_sequence, alphasort);

	(void)state;
	assert_true(n >= 19);
	for (int i = 0; i < n; i++) {
		check_file(e[i]->d_name);
		free(e[i]);
	}
	free(e);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(each_sequence_fuses_in_both_forms_and_means_the_same),
	};

	folder = argc > 1 ? argv[1] : "tests/golden/ir";
	return cmocka_run_group_tests_name("golden sequences", tests, NULL, NULL);
}
