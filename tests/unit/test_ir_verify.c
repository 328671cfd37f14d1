/* The verifier finds each kind of mistake, names it, and shows it in the program. */
#include "tests/unit/ir_fixture.h"

#define SRC IR_FORM_SOURCE
#define PLC IR_FORM_PLACED
#define FUS IR_FORM_FUSED

static const struct wrong {
	enum ir_form form;
	const char *text, *error;
} wrong[] = {
        {SRC, "kernel k(in x: f32[4] sharded) { }", "'x': a value without rows is replicated"},
        {SRC, "kernel k(in x: bool[T, 4]) { }", "'x': bool is not stored"},
        {SRC, "kernel k(out x: f32[T, 4] partial) { }", "'x': an output is not partial"},
        {SRC, "kernel k(in x: f32[T, 4] ld 3) { }", "leading dimension is less than its columns"},
        {SRC, "kernel k(out x: f32[T, 4]) { }", "'x' is never written"},
        {SRC, "kernel k() deterministic rank_divergence { }",
         "deterministic excludes rank_divergence"},
        {SRC, "fn f(out x: f32[]) { %0 = const 1 return %0 }", "'x': a fn has no outputs"},
        {PLC, "fn f(in x: f32[]) { %0 = const 1 return %0 }", "a fn after pass expand"},
        {SRC, "kernel k(in x: f32[T, 4]) { %0 = param x : f32[T, 5] }",
         "the type should be f32[T, 4] replicated"},
        {SRC, "kernel k(in x: f32[T, 4]) { %0 = param x : f32[4] sharded }",
         "a value without rows is replicated"},
        {SRC, "kernel k(in x: f32[T, 4]) { %0 = param x %1 = add %0 : f32[T, 4] }",
         "'add' has 2 operands, not 1"},
        {SRC, "kernel k(in x: f32[T, 4]) { %0 = param x %1 = neg %0 : bf16[T, 4] }",
         "the type should be f32[T, 4] replicated"},
        {SRC, "kernel k(in x: f32[T, 4] partial) { %0 = param x %1 = exp %0 : f32[T, 4] partial }",
         "'exp' is not linear"},
        {SRC, "kernel k(out y: f32[T, 4]) { %0 = param y }", "'y' is an output and cannot be read"},
        {SRC, "kernel k(in x: f32[T, 4]) { %0 = param x out x = %0 }",
         "'x' is an input and cannot be written"},
        {SRC, "kernel k(inout x: f32[T, 4]) { %0 = param x out x = %0 out x = %0 }",
         "'x' is written twice"},
        {SRC, "kernel k(in x: f32[T, 4], out y: bf16[T, 4]) { %0 = param x out y = %0 }",
         "'out' takes f32[T, 4] replicated to another dtype: bf16[T, 4] replicated"},
        {SRC, "kernel k(in x: f32[4], out y: f32[T, 4]) { %0 = param x out y = %0 }",
         "'out' cannot combine f32[4] and f32[T, 4] replicated"},
        {SRC, "kernel k(in x: f32[T, 4] partial, out y: f32[T, 4]) { %0 = param x out y = %0 }",
         "cannot be stored to an output"},
        {SRC, "kernel k(in x: f32[T, 4]) { %0 = load x : f32[T, 4] }",
         "'load' is not allowed in this form"},
        {SRC, "kernel j() { } kernel k() { %0 = call j() : f32[] }", "a kernel cannot be called"},
        {SRC,
         "fn f(in a: f32[T, 4]) { %0 = param a return %0 } kernel k(in x: bf16[T, 4]) { %0 = param "
         "x %1 = call f(%0) : f32[T, 4] }",
         "'f' passes bf16[T, 4] replicated where the function takes f32[T, 4] replicated"},
        {PLC, "kernel k(in x: f32[T, 4] carried) { %0 = param x : f32[T, 4] carried }",
         "a carried value after pass place"},
        {PLC,
         "kernel k(in x: f32[T, 4], in y: f32[T, 4] sharded) { %0 = param x %1 = param y %2 = add "
         "%0, %1 }",
         "operand 0 is sliced implicitly after pass place"},
        {PLC, "kernel k(in x: f32[T, 4] sharded, out y: f32[T, 4]) { %0 = param x out y = %0 }",
         "an implicit gather at a store after pass place"},
        {PLC, "kernel k(in x: f32[T, 4], out y: f32[T, 4] sharded) { %0 = param x out y = %0 }",
         "an implicit slice at a store after pass place"},
        {FUS, "kernel k(in x: f32[T, 4]) { %0 = param x }", "'param' is not allowed in this form"},
        {FUS,
         "kernel k(in x: f32[T, 4], in y: f32[T, 4] sharded) { %0 = load x : f32[T, 4] replicated "
         "%1 = load y : f32[T, 4] sharded }",
         "own rows or on all rows, not on both"},
        {FUS,
         "kernel k(inout x: f32[T, 4] sharded) { %0 = load x : f32[T, 4] sharded store x = %0 %1 = "
         "load x : f32[T, 4] sharded }",
         "'x' is read after it was written"},
        {FUS, "kernel k(in x: f32[T, 4] partial) { %0 = load x : f32[T, 4] sharded }",
         "not linear"},
        {FUS, "kernel k(in x: f32[T, 4]) { %0 = load_sum x : f32[T, 4] sharded }",
         "sums a partial value"},
        {FUS,
         "kernel k(in x: f32[T, 4] sharded, out y: f32[T, 4]) { %0 = load x : f32[T, 4] sharded "
         "store y = %0 }",
         "cannot be stored"},
        {FUS,
         "kernel k(in x: f32[T, 4], out y: f32[T, 4]) { %0 = load x : f32[T, 4] replicated "
         "store_all y = %0 }",
         "cannot be stored"},
};

static bool refuses(struct ir_fixture *f, struct ir_module *m, enum ir_form form, const char *error)
{
	bool ok = true;

	for (struct ir_func *g = m->funcs; g; g = g->next)
		ok &= ir_verify(g, form, &f->d);
	return !ok && strstr(ir_shown(f), error) && strstr(ir_shown(f), "// ^ ");
}

static void each_mistake_in_a_text_is_found(void **state)
{
	struct ir_fixture *f = *state;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct ir_module *m;

		diags_init(&f->d, &f->arena);
		m = ir_text(f, wrong[i].text);
		if (!m || !refuses(f, m, wrong[i].form, wrong[i].error))
			fail_msg("%s\n gave: %s", wrong[i].text, ir_shown(f));
	}
}

/* Damage that a text cannot express: each function breaks the program below in one way. */
static const char sound[] = "kernel k(in x: f32[T, 4] sharded, out y: f32[T, 4] sharded) {\n"
                            "%0 = param x\n%1 = neg %0\n%2 = add %0, %1\nout y = %2\n}\n";

static void missing_operand(struct ir_func *f)
{
	f->first->next->src[0] = NULL;
}

static void use_before_definition(struct ir_func *f)
{
	f->first->next->src[0] = f->first->next->next;
}

static void loop_of_definitions(struct ir_func *f)
{
	f->first->next->src[0] = f->first->next;
}

static void removed_operand(struct ir_func *f)
{
	ir_remove(f, f->first->next);
}

static void operand_is_a_store(struct ir_func *f)
{
	struct ir_value *v = f->last;

	ir_remove(f, v);
	ir_insert_before(f, f->first->next, v);
	v->src[0] = f->first;
	f->last->src[1] = v;
}

static void no_such_operation(struct ir_func *f)
{
	f->first->next->op = IR_NOPS + 3;
}

static void no_such_dtype(struct ir_func *f)
{
	f->first->next->type.dtype = 99;
}

static void no_such_placement(struct ir_func *f)
{
	f->first->next->type.place = 99;
}

static void no_columns(struct ir_func *f)
{
	f->first->next->type.cols = 0;
}

static void three_dimensions(struct ir_func *f)
{
	f->first->next->type.ndim = 3;
}

static void no_such_parameter(struct ir_func *f)
{
	f->first->param = 7;
}

static void same_number_twice(struct ir_func *f)
{
	f->first->next->id = f->first->id;
}

static void broken_list(struct ir_func *f)
{
	f->first->next->next->prev = f->first;
}

static void nameless_parameter(struct ir_func *f)
{
	f->param[0].name = NULL;
}

static void one_name_for_two_parameters(struct ir_func *f)
{
	f->param[0].name = "y";
}

static void call_of_nothing(struct ir_func *f)
{
	f->first->next->op = IR_OP_CALL;
}

static void fn_without_result(struct ir_func *f)
{
	f->is_kernel = false;
}

static void damage_is_found(void **state)
{
	static const struct {
		void (*wreck)(struct ir_func *);
		const char *error;
	} damage[] = {
	        {missing_operand, "operand 0 is missing"},
	        {use_before_definition, "operand 0 (%2) is not defined before this line"},
	        {loop_of_definitions, "operand 0 (%1) is not defined before this line"},
	        {removed_operand, "operand 1 (%1) is not defined before this line"},
	        {operand_is_a_store, "is a store, which has no result"},
	        {no_such_operation, "there is no operation"},
	        {no_such_dtype, "no such dtype"},
	        {no_such_placement, "no such placement"},
	        {no_columns, "columns are 1 to 1048576"},
	        {three_dimensions, "more than two dimensions"},
	        {no_such_parameter, "there is no parameter 7"},
	        {same_number_twice, "two values have the number 0"},
	        {broken_list, "the list of values is broken here"},
	        {nameless_parameter, "parameter 0 has no name"},
	        {one_name_for_two_parameters, "two parameters are called 'y'"},
	        {call_of_nothing, "the function called does not stand before this one"},
	        {fn_without_result, "the result of this fn is not one of its values"},
	};
	struct ir_fixture *f = *state;

	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		struct ir_module *m = ir_text(f, sound);

		diags_init(&f->d, &f->arena);
		assert_true(ir_verify(m->funcs, SRC, &f->d));
		damage[i].wreck(m->funcs);
		if (!refuses(f, m, SRC, damage[i].error))
			fail_msg("'%s' not in: %s", damage[i].error, ir_shown(f));
	}
}

static void the_program_is_shown_with_the_errors_in_place(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_module *m = ir_text(f, "kernel k(in x: f32[T, 4] partial) {\n"
	                                 "%0 = param x\n%1 = neg %0 : bf16[T, 4] partial\n}\n");

	assert_false(ir_verify(m->funcs, SRC, &f->d));
	assert_non_null(strstr(ir_shown(f), "\t%1 = neg %0 : bf16[T, 4] partial\n"
	                                    "\t// ^ the type should be f32[T, 4] partial\n}"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(each_mistake_in_a_text_is_found, ir_set_up,
	                                        ir_tear_down),
	        cmocka_unit_test_setup_teardown(damage_is_found, ir_set_up, ir_tear_down),
	        cmocka_unit_test_setup_teardown(the_program_is_shown_with_the_errors_in_place,
	                                        ir_set_up, ir_tear_down),
	};

	return cmocka_run_group_tests_name("ir verify", tests, NULL, NULL);
}
