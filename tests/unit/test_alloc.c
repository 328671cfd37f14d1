/*
 * Memory runs out at every allocation in turn, from the scanner to the printed PTX.  Each time the
 * compilation comes back by the arena's jump, and AddressSanitizer finds nothing left behind.
 */
#include "tests/unit/unit.h"
#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/pass.h"
#include "runtime/plait.h"
#include "support/status.h"
#include <stdio.h>
#include <time.h>

static const char path[] = "samples/llama3-70b.plait";

struct text {
	char *s;
	size_t n;
};

static int read_spec(void **state)
{
	static struct text t;
	FILE *f = fopen(path, "rb");

	if (!f)
		return -1;
	t.s = malloc(1 << 20);
	t.n = t.s ? fread(t.s, 1, 1 << 20, f) : 0;
	fclose(f);
	*state = &t;
	return t.n ? 0 : -1;
}

static int free_spec(void **state)
{
	free(((struct text *)*state)->s);
	return 0;
}

static enum status compile(struct arena *a, const struct text *t)
{
	struct diags d;
	struct fe_options fo = {.tp = 8};
	struct ir_pass_options po = {.tp = 8};
	struct cg_options cg = {.tp = 8, .target = cg_target_by_name("sm_90"), .places = &d};
	struct ast_file *ast;
	struct ir_module *m;
	struct strbuf out;
	enum status s;

	diags_init(&d, a);
	ast = fe_parse(a, &d, diags_add_source(&d, path, t->s, t->n));
	m = ast ? fe_lower(a, &d, ast, &fo) : NULL;
	s = m ? ir_run_passes(m, &po, &d) : ST_INPUT;
	strbuf_init(&out, a);
	for (const struct ir_func *f = m ? m->funcs : NULL; f && s == ST_OK; f = f->next) {
		struct cg_kernel *k;

		if (!f->is_kernel)
			continue;
		s = cg_compile(f, &cg, a, &d, &k);
		if (s == ST_OK)
			ptx_print(k->module, &out);
	}
	diags_render(&d, DIAG_ERROR, &out);
	if (s != ST_OK)
		print_message("# %s\n", out.s);
	return s;
}

/* Compiles with allocation `fail_at` failing (0: none); *count is how many there were. */
static enum status compile_failing(const struct text *t, uint64_t fail_at, uint64_t *count)
{
	struct arena a;
	enum status s;

	arena_init(&a, 0);
	a.fail_at = fail_at;
	if (setjmp(a.oom)) {
		arena_free(&a);
		return ST_NOMEM;
	}
	s = compile(&a, t);
	*count = a.count;
	arena_free(&a);
	return s;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Each of the first 200, then as many as fit into some seconds, spread over all, and the last. */
static void every_failed_allocation_comes_back_clean(void **state)
{
	const struct text *t = *state;
	uint64_t count = 0, step, ignored;
	double start = now(), each;

	assert_int_equal(compile_failing(t, 0, &count), ST_OK);
	each = now() - start;
	assert_true(count > 500);
	step = (uint64_t)((double)count * each / 3.0) + 1;
	if (step > count / 100)
		step = count / 100;
	for (uint64_t k = 1; k <= count; k += k < 200 ? 1 : step)
		assert_int_equal(compile_failing(t, k, &ignored), ST_NOMEM);
	assert_int_equal(compile_failing(t, count, &ignored), ST_NOMEM);
	assert_int_equal(compile_failing(t, count + 1, &ignored), ST_OK);
}

static void the_library_says_that_its_limit_is_reached(void **state)
{
	const struct text *t = *state;
	struct plait_compile_options o = PLAIT_COMPILE_OPTIONS_INIT;
	enum plait_status s = PLAIT_NOMEM;
	unsigned refused = 0;

	o.text = t->s;
	o.text_len = t->n;
	o.tp = 8;
	for (o.memory_limit = 1; s == PLAIT_NOMEM; o.memory_limit *= 2) {
		plait_code *code;

		s = plait_compile(&o, &code);
		assert_non_null(code);
		refused += s == PLAIT_NOMEM;
		if (s == PLAIT_NOMEM) {
			assert_int_equal(plait_code_count(code), 0);
			assert_non_null(strstr(plait_code_diagnostics(code), "out of memory"));
		}
		plait_code_free(code);
	}
	assert_int_equal(s, PLAIT_OK);
	assert_true(refused > 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(every_failed_allocation_comes_back_clean),
	        cmocka_unit_test(the_library_says_that_its_limit_is_reached),
	};

	return cmocka_run_group_tests_name("alloc", tests, read_spec, free_spec);
}
