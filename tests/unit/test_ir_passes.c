/* The runner of the passes: order, stopping, dumps, hook, errors, and memory that runs out
 * anywhere. */
#include "tests/unit/ir_fixture.h"
#include "ir/pass.h"
#include <stdio.h>

static const char program[] =
        "fn f.1(in a: bf16[T, 8]) { %a = param a %n = neg %a return %n }\n"
        "kernel k(in x: bf16[T, 8] partial, inout r: bf16[T, 8] carried, out y: f32[T, 8]) {\n"
        "%x = param x\n%r = param r\n%s = all_reduce %x\n%n = call f.1(%s)\n"
        "%h = add %n, %r\n%c = cast %h : bf16[T, 8] carried\nout r = %c\nout y = %h\n}\n";

struct seen {
	const char *names[16];
	unsigned n;
};

static void note(void *ctx, const char *pass, const struct ir_module *m, enum ir_form form)
{
	struct seen *s = ctx;

	(void)m;
	s->names[s->n++] = pass;
	assert_int_equal(form == IR_FORM_FUSED, !strcmp(pass, "fuse"));
	assert_int_equal(form == IR_FORM_SOURCE, !strcmp(pass, "expand"));
}

static void passes_run_in_their_order_and_stop_where_told(void **state)
{
	struct ir_fixture *f = *state;

	for (unsigned last = 0; ir_pass_names[last]; last++) {
		struct seen s = {.n = 0};
		struct ir_pass_options o = {
		        .stop_after = ir_pass_names[last], .hook = note, .ctx = &s};

		assert_int_equal(ir_run_passes(ir_text(f, program), &o, &f->d), ST_OK);
		assert_int_equal(s.n, last + 1);
		for (unsigned i = 0; i <= last; i++)
			assert_string_equal(s.names[i], ir_pass_names[i]);
	}
}

static void an_unknown_pass_is_a_mistake_of_the_caller(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_pass_options o = {.stop_after = "fus"};

	assert_int_equal(ir_run_passes(ir_text(f, program), &o, &f->d), ST_USAGE);
}

static void a_dump_holds_the_program_after_every_pass(void **state)
{
	struct ir_fixture *f = *state;
	struct strbuf b;
	struct ir_pass_options o = {.dump = &b};

	strbuf_init(&b, &f->arena);
	assert_int_equal(ir_run_passes(ir_text(f, program), &o, &f->d), ST_OK);
	for (unsigned i = 0; ir_pass_names[i]; i++)
		assert_non_null(strstr(
		        b.s, arena_printf(&f->arena, "// after %s\nkernel k(", ir_pass_names[i])));
}

static void a_wrong_program_does_not_reach_the_passes(void **state)
{
	struct ir_fixture *f = *state;
	struct seen s = {.n = 0};
	struct ir_pass_options o = {.hook = note, .ctx = &s};
	struct ir_module *m = ir_text(f, program);

	m->funcs->next->first->type.cols = 9;
	assert_int_equal(ir_run_passes(m, &o, &f->d), ST_INPUT);
	assert_int_equal(s.n, 0);
}

static void mistakes_of_all_kernels_are_reported(void **state)
{
	struct ir_fixture *f = *state;
	static const char kernel[] =
	        "kernel k%d(in x: f32[T, 8] partial, out y: f32[T, 8]) {\n"
	        "%%x = param x\n%%n = neg %%x\n%%s = all_reduce %%n\nout y = %%s\n}\n";
	char text[1024];

	snprintf(text, sizeof(text), kernel, 1);
	snprintf(text + strlen(text), sizeof(text) - strlen(text), kernel, 2);
	assert_int_equal(ir_run_passes(ir_text(f, text), &(struct ir_pass_options){0}, &f->d),
	                 ST_INPUT);
	assert_int_equal(f->d.nerror, 2);
}

/* Damages the program behind the runner's back. */
static void wreck(void *ctx, const char *pass, const struct ir_module *m, enum ir_form form)
{
	(void)ctx;
	(void)form;
	if (!strcmp(pass, "place"))
		m->funcs->first->type.cols = 9;
}

static void a_program_that_a_pass_breaks_is_a_bug_of_ours(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_pass_options o = {.hook = wreck};

	assert_int_equal(ir_run_passes(ir_text(f, program), &o, &f->d), ST_INTERNAL);
	assert_non_null(strstr(ir_shown(f), "wrong after pass 'merge'"));
	assert_non_null(strstr(ir_shown(f), "\t// ^ the type should be"));
}

static void uses_are_counted_and_replaced(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_module *m =
	        ir_text(f, "fn g(in a: f32[], in b: f32[]) { %a = param a %b = param b "
	                   "%c = add %a, %a %d = mul %b, %c return %a }");
	struct ir_func *g = ir_func_find(m, "g");
	struct ir_value *a = g->first, *b = a->next;

	assert_null(ir_func_find(m, "h"));
	assert_int_equal(ir_count_uses(g, a), 3);
	assert_int_equal(ir_count_uses(g, b), 1);
	ir_replace_uses(g, a, b);
	assert_int_equal(ir_count_uses(g, a), 0);
	assert_int_equal(ir_count_uses(g, b), 4);
	assert_ptr_equal(g->result, b);
}

/* Kept out of line, so that nothing of the caller's is in a register when an allocation fails. */
static __attribute__((noinline)) bool runs_with(struct arena *a, uint64_t fail_at)
{
	struct diags d;
	struct ir_module *m;

	arena_init(a, 0);
	a->fail_at = fail_at;
	if (setjmp(a->oom))
		return false;
	diags_init(&d, a);
	m = ir_parse(a, &d, diags_add_source(&d, "test.ir", program, strlen(program)));
	assert_non_null(m);
	assert_non_null(ir_module_copy(m, a));
	assert_int_equal(ir_run_passes(m, &(struct ir_pass_options){0}, &d), ST_OK);
	return true;
}

static void each_failed_allocation_goes_to_the_owner_of_the_arena(void **state)
{
	static struct arena a;
	uint64_t n = 0;
	bool done = false;

	(void)state;
	while (!done) {
		done = runs_with(&a, ++n);
		arena_free(&a);
	}
	assert_in_range(n, 100, 100000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, ir_set_up, ir_tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(passes_run_in_their_order_and_stop_where_told),
	        TEST(an_unknown_pass_is_a_mistake_of_the_caller),
	        TEST(a_dump_holds_the_program_after_every_pass),
	        TEST(a_wrong_program_does_not_reach_the_passes),
	        TEST(mistakes_of_all_kernels_are_reported),
	        TEST(a_program_that_a_pass_breaks_is_a_bug_of_ours),
	        TEST(uses_are_counted_and_replaced),
	        TEST(each_failed_allocation_goes_to_the_owner_of_the_arena),
	};

	return cmocka_run_group_tests_name("ir passes", tests, NULL, NULL);
}
