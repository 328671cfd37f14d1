/* Typing, against tables written by hand from the language's rules (design: placements; shapes;
 * dtypes). */
#include "tests/unit/ir_fixture.h"

/* R replicated, P partial, S sharded, C carried, ! an error; by the placements of the operands in
 * that order. */
static const char letters[] = "RPSC";

/* clang-format off */
static const struct {
	const char *op, *result;
} unary[] = {
	{"neg", "RPSC"}, {"abs", "R!SC"}, {"exp", "R!SC"}, {"log", "R!SC"}, {"sqrt", "R!SC"}, {"rsqrt", "R!SC"},
	{"tanh", "R!SC"}, {"sigmoid", "R!SC"}, {"cast", "R!SC"},
	{"row_sum", "RPSC"}, {"row_mean", "RPSC"}, {"row_max", "R!SC"}, {"row_min", "R!SC"},
	{"group_sum", "RPSC"}, {"group_mean", "RPSC"}, {"group_max", "R!SC"}, {"group_min", "R!SC"}, {"expand", "RPSC"},
	{"all_reduce", "!R!!"}, {"reduce_scatter", "!S!!"}, {"all_gather", "!!RR"}, {"slice", "S!!!"},
};

#define SUM   "R!SC" "!P!!" "S!SC" "C!CC"
#define SCALE "RPSC" "P!!!" "S!SC" "C!CC"
#define PLAIN "R!SC" "!!!!" "S!SC" "C!CC"

static const struct {
	const char *op, *result;
} binary[] = {
	{"add", SUM}, {"sub", SUM}, {"mul", SCALE}, {"div", PLAIN}, {"min", PLAIN}, {"max", PLAIN},
	{"lt", PLAIN}, {"le", PLAIN}, {"gt", PLAIN}, {"ge", PLAIN}, {"eq", PLAIN}, {"ne", PLAIN}, {"row_dot", PLAIN},
};
/* clang-format on */

static struct ir_value *param(struct ir_func *f, struct ir_type t)
{
	struct ir_param p = {.name = "p", .type = t};
	struct ir_value *v = ir_value_new(f, IR_OP_PARAM, (struct span){0}, 0, NULL);

	v->param = ir_param_add(f, p);
	assert_true(ir_set_type(f, v));
	return v;
}

static struct ir_type rows(char place)
{
	return (struct ir_type){.dtype = IR_BF16,
	                        .ndim = 2,
	                        .cols = 8,
	                        .place = (uint8_t)(strchr(letters, place) - letters)};
}

static char result_of(struct ir_func *f, const char *name, unsigned n, struct ir_value *const *src)
{
	int op = ir_op_by_name(name, strlen(name));
	struct ir_value *v;

	assert_true(op >= 0);
	v = ir_value_new(f, (enum ir_op)op, (struct span){0}, n, src);
	v->n = 2;
	return ir_set_type(f, v) ? letters[v->type.place] : '!';
}

static struct ir_func *empty(struct ir_fixture *f)
{
	return ir_func_new(ir_module_new(&f->arena), "k", true, (struct span){0});
}

static void placements_of_one_operand(void **state)
{
	struct ir_func *f = empty(*state);

	for (size_t i = 0; i < sizeof(unary) / sizeof(unary[0]); i++)
		for (unsigned a = 0; a < 4; a++) {
			struct ir_value *v = param(f, rows(letters[a]));
			char have = result_of(f, unary[i].op, 1, &v);

			if (have != unary[i].result[a])
				fail_msg("%s of %c gives %c, not %c", unary[i].op, letters[a], have,
				         unary[i].result[a]);
		}
}

static void placements_of_two_operands(void **state)
{
	struct ir_func *f = empty(*state);

	for (size_t i = 0; i < sizeof(binary) / sizeof(binary[0]); i++)
		for (unsigned ab = 0; ab < 16; ab++) {
			struct ir_value *v[] = {param(f, rows(letters[ab / 4])),
			                        param(f, rows(letters[ab % 4]))};
			char have = result_of(f, binary[i].op, 2, v);

			if (have != binary[i].result[ab])
				fail_msg("%s of %c and %c gives %c, not %c", binary[i].op,
				         letters[ab / 4], letters[ab % 4], have,
				         binary[i].result[ab]);
		}
}

static char plain(char a, char b)
{
	if (a == '!' || b == '!')
		return '!';
	return PLAIN[(strchr(letters, a) - letters) * 4 + (strchr(letters, b) - letters)];
}

static void placements_of_three_operands(void **state)
{
	struct ir_func *f = empty(*state);

	for (unsigned abc = 0; abc < 64; abc++) {
		char a = letters[abc / 16], b = letters[abc / 4 % 4], c = letters[abc % 4];
		struct ir_value *v[] = {param(f, rows(a)), param(f, rows(b)), param(f, rows(c))};
		char want = a == 'P' && b == 'P' && c == 'P' ? '!' : plain(plain(a, b), c);

		assert_int_equal(result_of(f, "fma", 3, v), want);
		v[0]->type.dtype = IR_BOOL;
		assert_int_equal(result_of(f, "select", 3, v), want);
	}
}

static void values_without_rows_are_replicated_operands(void **state)
{
	struct ir_func *f = empty(*state);
	static const struct ir_type small[] = {{.dtype = IR_F32, .cols = 1},
	                                       {.dtype = IR_F32, .ndim = 1, .cols = 8}};

	for (unsigned k = 0; k < 2; k++)
		for (unsigned a = 0; a < 4; a++) {
			struct ir_value *v[] = {param(f, rows(letters[a])), param(f, small[k])};

			assert_int_equal(result_of(f, "mul", 2, v), letters[a]);
			assert_int_equal(result_of(f, "add", 2, v), "R!SC"[a]);
		}
}

/* Every operation with operands is in a table above, except those tested by themselves. */
static void the_tables_hold_every_operation(void **state)
{
	(void)state;
	for (int op = 0; op < IR_NOPS; op++) {
		const char *name = ir_op_info[op].text;
		unsigned n = op == IR_OP_FMA || op == IR_OP_SELECT;

		if (ir_op_info[op].nsrc <= 0 || ir_op_info[op].kind == IR_KIND_SINK)
			continue;
		for (size_t i = 0; i < sizeof(unary) / sizeof(unary[0]); i++)
			n += !strcmp(unary[i].op, name);
		for (size_t i = 0; i < sizeof(binary) / sizeof(binary[0]); i++)
			n += !strcmp(binary[i].op, name);
		if (n != 1)
			fail_msg("'%s' is in the tables %u times", name, n);
	}
}

/* clang-format off */
static const char storable[4][5] = {
	/* to:   RPSC */
	/* R */ "y!yy",
	/* P */ "!!!!",
	/* S */ "y!yy",
	/* C */ "y!yy",
};

/* `expr` of params a, b, c of the types given: the result's type, or a piece of the message. */
static const struct {
	const char *params, *expr, *want;
} shapes[] = {
	{"in a: bf16[T, 8], in b: bf16[T, 8]", "add %a, %b", "f32[T, 8] replicated"},
	{"in a: bf16[T, 8], in b: bf16[T, 1]", "add %a, %b", "f32[T, 8] replicated"},
	{"in a: bf16[T, 1], in b: bf16[T, 8] sharded", "add %a, %b", "f32[T, 8] sharded"},
	{"in a: bf16[8], in b: bf16[T, 8]", "mul %a, %b", "f32[T, 8] replicated"},
	{"in a: bf16[8], in b: bf16[T, 1]", "mul %a, %b", "f32[T, 8] replicated"},
	{"in a: bf16[8], in b: f32[]", "mul %a, %b", "f32[8]"},
	{"in a: bf16[1], in b: f32[]", "mul %a, %b", "f32[1]"},
	{"in a: f32[], in b: f32[]", "lt %a, %b", "bool[]"},
	{"in a: f32[T, 8], in b: f32[T, 8]", "lt %a, %b", "bool[T, 8] replicated"},
	{"in a: bf16[T, 8], in b: bf16[T, 4]", "add %a, %b", "'add' cannot combine bf16[T, 4] replicated and "},
	{"in a: bf16[8], in b: bf16[T, 4]", "add %a, %b", "cannot combine"},
	{"in a: bf16[T, 8]", "row_sum %a", "f32[T, 1] replicated"},
	{"in a: bf16[8]", "row_sum %a", "f32[1]"},
	{"in a: bf16[]", "row_sum %a", "'row_sum' needs rows, this is bf16[]"},
	{"in a: bf16[T, 8], in b: bf16[8]", "row_dot %a, %b", "f32[T, 1] replicated"},
	{"in a: bf16[T, 8], in b: bf16[T, 3]", "row_dot %a, %b", "cannot combine"},
	{"in a: bf16[T, 8]", "group_sum %a, n = 2", "f32[T, 4] replicated"},
	{"in a: bf16[T, 8]", "group_max %a, n = 8", "f32[T, 1] replicated"},
	{"in a: bf16[T, 8]", "group_sum %a, n = 3", "divides the columns of bf16[T, 8]"},
	{"in a: bf16[T, 8]", "group_sum %a, n = 0", "a group size of 1 or more"},
	{"in a: bf16[]", "group_sum %a, n = 1", "needs rows"},
	{"in a: bf16[T, 8]", "expand %a, n = 4", "f32[T, 32] replicated"},
	{"in a: bf16[T, 8]", "expand %a, n = 0", "a group size of 1 or more"},
	{"in a: bf16[T, 8]", "expand %a, n = 131072", "f32[T, 1048576] replicated"},
	{"in a: bf16[T, 8]", "expand %a, n = 131073", "more than 1048576 columns"},
	{"in a: bf16[T, 8] partial", "all_reduce %a", "bf16[T, 8] replicated"},
	{"in a: e4m3[T, 8] sharded", "all_gather %a", "e4m3[T, 8] replicated"},
	{"in a: bf16[T, 8]", "slice %a", "bf16[T, 8] sharded"},
	{"in a: bf16[8]", "slice %a", "'slice' needs rows, this is bf16[8]"},
	{"in a: bf16[8]", "all_reduce %a", "'all_reduce' needs rows"},
	{"in a: f32[T, 8], in b: f32[T, 1]", "select %a, %b, %b", "'select' cannot take f32[T, 8] replicated here"},
	{"in a: f32[T, 8] partial, in b: f32[T, 8]", "add %a, %b", "count the latter once per rank"},
	{"in a: f32[T, 8] partial, in b: f32[T, 8] sharded", "mul %a, %b", "not the same on every rank"},
	{"in a: f32[T, 8] partial", "exp %a", "'exp' is not linear, and f32[T, 8] partial is an addend on each rank"},
	{"in a: f32[T, 8]", "all_reduce %a", "sums a partial value over the ranks, this is f32[T, 8] replicated"},
	{"in a: f32[T, 8] partial", "all_gather %a", "gathers a sharded value, this is f32[T, 8] partial"},
	{"in a: f32[T, 8] sharded", "slice %a", "takes own rows of a replicated value"},
};
/* clang-format on */

static void shapes_and_messages(void **state)
{
	struct ir_fixture *f = *state;

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		const char *b = strstr(shapes[i].params, "in b:") ? "%b = param b\n" : "", *have;
		struct ir_module *m;

		diags_init(&f->d, &f->arena);
		m = ir_text(f,
		            arena_printf(&f->arena, "kernel k(%s) {\n%%a = param a\n%s%%r = %s\n}",
		                         shapes[i].params, b, shapes[i].expr));
		have = m ? ir_type_text(&f->arena, m->funcs->last->type) : ir_shown(f);
		if (m ? strcmp(have, shapes[i].want) != 0 : !strstr(have, shapes[i].want))
			fail_msg("%s of (%s): %s\n not %s", shapes[i].expr, shapes[i].params, have,
			         shapes[i].want);
	}
}

static void what_can_be_stored_where(void **state)
{
	struct ir_func *f = empty(*state);

	for (unsigned vp = 0; vp < 16; vp++) {
		struct ir_value *v = param(f, rows(letters[vp / 4]));
		struct ir_value *out = ir_value_new(f, IR_OP_OUT, (struct span){0}, 1, &v);
		bool ok;

		param(f, rows(letters[vp % 4]));
		out->param = f->nparam - 1;
		ok = ir_set_type(f, out);
		if (ok != (storable[vp / 4][vp % 4] == 'y'))
			fail_msg("a store of %c to %c is %s", letters[vp / 4], letters[vp % 4],
			         ok ? "legal" : "not");
	}
}

static void a_reduction_keeps_its_dtype_or_gives_f32(void **state)
{
	struct ir_func *f = empty(*state);
	struct ir_value *x = param(f, rows('P')), *v;

	for (int t = 0; t < IR_NDTYPES; t++) {
		v = ir_value_new(f, IR_OP_ALL_REDUCE, (struct span){0}, 1, &x);
		v->type.dtype = (uint8_t)t;
		assert_int_equal(ir_set_type(f, v), t == IR_BF16 || t == IR_F32);
	}
}

static void every_error_has_a_code_of_its_own_and_a_sentence(void **state)
{
	struct ir_fixture *f = *state;
	struct ir_func *k = empty(f);
	struct ir_value *x = param(k, rows('R'));
	struct ir_value *v = ir_value_new(k, IR_OP_NEG, (struct span){0}, 1, &x);

	for (int e = 1; e < IR_TYPE_NERRORS; e++) {
		assert_true(strlen(ir_type_error_text(&f->arena, (enum ir_type_error)e, v, 0)) >
		            10);
		assert_int_not_equal(ir_type_error_code((enum ir_type_error)e), 0);
		for (int i = 1; i < e; i++)
			assert_int_not_equal(ir_type_error_code((enum ir_type_error)e),
			                     ir_type_error_code((enum ir_type_error)i));
	}
}

static void the_depth_of_a_row_reduction_follows_from_its_columns(void **state)
{
	(void)state;
	assert_int_equal(ir_reduction_depth(1), 0);
	assert_int_equal(ir_reduction_depth(2), 1);
	assert_int_equal(ir_reduction_depth(65), 64);
	assert_int_equal(ir_reduction_depth(8192), 64 + 13);
	assert_int_equal(ir_reduction_depth(8193), 64 + 14);
	assert_int_equal(ir_reduction_depth(IR_MAX_COLS), 64 + 20);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, ir_set_up, ir_tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(placements_of_one_operand),
	        TEST(placements_of_two_operands),
	        TEST(placements_of_three_operands),
	        TEST(values_without_rows_are_replicated_operands),
	        TEST(the_tables_hold_every_operation),
	        TEST(shapes_and_messages),
	        TEST(what_can_be_stored_where),
	        TEST(a_reduction_keeps_its_dtype_or_gives_f32),
	        TEST(every_error_has_a_code_of_its_own_and_a_sentence),
	        TEST(the_depth_of_a_row_reduction_follows_from_its_columns),
	};

	return cmocka_run_group_tests_name("ir infer", tests, NULL, NULL);
}
