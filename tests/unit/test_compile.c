#include "tests/unit/unit.h"
#include "runtime/plait.h"

static const char spec[] =
        "const hidden = 512;\n"
        "kernel first(x: bf16[T, hidden] partial) -> y: bf16[T, hidden] replicated\n"
        "{\n"
        "    out y = all_reduce(x);\n"
        "}\n"
        "kernel second(x: bf16[T, hidden] partial, inout residual: bf16[T, hidden] carried,\n"
        "              gamma: bf16[hidden]) -> y: bf16[T, hidden] replicated\n"
        "{\n"
        "    h = all_reduce(x) + residual;\n"
        "    out residual = h;\n"
        "    out y = rmsnorm(h, gamma, eps = 1e-5);\n"
        "}\n";

static struct plait_compile_options options(const char *text)
{
	struct plait_compile_options o = PLAIT_COMPILE_OPTIONS_INIT;

	o.spec_name = "t.plait";
	o.text = text;
	o.text_len = strlen(text);
	o.tp = 8;
	return o;
}

/* Compiles, expects a status and a part of the diagnostics, and frees. */
static void expect(const struct plait_compile_options *o, enum plait_status want, const char *part)
{
	plait_code *code;

	assert_int_equal(plait_compile(o, &code), want);
	assert_non_null(code);
	if (!strstr(plait_code_diagnostics(code), part))
		fail_msg("'%s' is not in: %s", part, plait_code_diagnostics(code));
	if (want != PLAIT_OK)
		assert_int_equal(plait_code_count(code), 0);
	plait_code_free(code);
}

static void arguments_that_make_no_sense_are_usage(void **state)
{
	struct plait_compile_options o = options(spec);
	plait_code *code;

	(void)state;
	assert_int_equal(plait_compile(NULL, &code), PLAIT_USAGE);
	assert_null(code);
	assert_int_equal(plait_compile(&o, NULL), PLAIT_USAGE);
	o.struct_size = 0;
	assert_int_equal(plait_compile(&o, &code), PLAIT_USAGE);
	o = options(spec);
	o.tp = 0;
	expect(&o, PLAIT_USAGE, "tp is 0");
	o.tp = 17;
	expect(&o, PLAIT_USAGE, "tp is 17");
	o = options(spec);
	o.text = NULL;
	expect(&o, PLAIT_USAGE, "no spec");
	o = options(spec);
	o.nset = 1;
	expect(&o, PLAIT_USAGE, "an override has no name or no value");
	o.set = &(struct plait_set){"hidden", NULL};
	expect(&o, PLAIT_USAGE, "an override has no name or no value");
	o.set = &(struct plait_set){NULL, "1"};
	expect(&o, PLAIT_USAGE, "an override has no name or no value");
	o.nset = SIZE_MAX;
	expect(&o, PLAIT_USAGE, "more than 65536 overrides");
	o = options(spec);
	o.target = "sm_1";
	expect(&o, PLAIT_USAGE, "'sm_1'");
	o.target = NULL;
	o.protocol = "pigeon";
	expect(&o, PLAIT_USAGE, "'pigeon'");
	o.protocol = NULL;
	o.order = "loose";
	expect(&o, PLAIT_USAGE, "'loose'");
	o.order = NULL;
	o.kernel = "secnd";
	expect(&o, PLAIT_USAGE, "did you mean 'second'?");
}

static void a_wrong_spec_is_input_with_its_place(void **state)
{
	struct plait_compile_options o = options("kernel k(x: bf16[T, 8]) -> y: bf16[T, 8]\n"
	                                         "{\n    out y = z;\n}\n");

	(void)state;
	expect(&o, PLAIT_INPUT, "t.plait:3:13: error: ");
	o = options("");
	o.spec_name = NULL;
	expect(&o, PLAIT_INPUT, "spec:1:1: error: ");
}

static void remarks_come_when_asked_for(void **state)
{
	struct plait_compile_options o = options(spec);
	plait_code *code;

	(void)state;
	assert_int_equal(plait_compile(&o, &code), PLAIT_OK);
	assert_string_equal(plait_code_diagnostics(code), "");
	plait_code_free(code);
	o.remarks = true;
	expect(&o, PLAIT_OK, "remark: 'y' is gathered here");
}

static void a_protocol_gets_the_rows_and_the_arguments_that_it_needs(void **state)
{
	/* an argument that only this protocol has */
	static const struct {
		const char *protocol;
		enum plait_arg_kind kind;
	} cases[] = {
	        {"mm-twoshot", PLAIT_ARG_WS_MC},
	        {"p2p-twoshot", PLAIT_ARG_PEERS},
	        {"push", PLAIT_ARG_XCHG_PEERS},
	        {"mm-push", PLAIT_ARG_XCHG_MC},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct plait_compile_options o = options(spec);
		struct plait_arg_info a = PLAIT_ARG_INFO_INIT;
		plait_code *code;
		bool found = false;

		o.protocol = cases[i].protocol;
		assert_int_equal(plait_compile(&o, &code), PLAIT_OK);
		for (size_t k = 0; plait_code_arg(code, 1, k, &a) == PLAIT_OK; k++)
			found |= a.kind == cases[i].kind;
		assert_true(found);
		plait_code_free(code);
	}
}

/* bf16[T, 512] from each of 8 ranks, by peers from 7: a row is 8 KB; a third has 128 bytes before its rows. */
static void kernels_that_push_say_what_buffer_they_need(void **state)
{
	struct plait_compile_options o = options(spec);
	size_t at[2];
	plait_code *code;

	(void)state;
	for (unsigned n = 0; n < 2; n++) {
		o.protocol = n ? "mm-push" : "push";
		assert_int_equal(plait_compile(&o, &code), PLAIT_OK);
		assert_int_equal(plait_code_exchange_size(code, 1, 0), 3 * 128);
		assert_int_equal(plait_code_exchange_size(code, 1, 5),
		                 3 * (128 + 5 * (n ? 8 : 7) * 512 * 2));
		assert_int_equal(plait_code_exchange_size(code, 1, UINT64_MAX / 3), 0);
		assert_int_equal(plait_code_exchange_size(code, 2, 5), 0);
		at[n] = plait_code_exchange_stride_at(code, 1);
		assert_true(at[n] % 8 == 0 && at[n] + 8 <= plait_workspace_size());
		assert_int_equal(plait_code_exchange_stride_at(code, 2), 0);
		plait_code_free(code);
	}
	assert_true(at[0] && at[1] && at[0] != at[1]);
	assert_int_equal(plait_exchange_fill(), 0x80000000u);
	o.protocol = "p2p-twoshot";
	assert_int_equal(plait_compile(&o, &code), PLAIT_OK);
	assert_int_equal(plait_code_exchange_size(code, 1, 5), 0);
	assert_int_equal(plait_code_exchange_stride_at(code, 1), 0);
	plait_code_free(code);
}

static void all_kernels_come_in_order_or_the_one_asked_for(void **state)
{
	struct plait_compile_options o = options(spec);
	plait_code *code;
	size_t len;

	(void)state;
	assert_int_equal(plait_compile(&o, &code), PLAIT_OK);
	assert_int_equal(plait_code_count(code), 2);
	assert_string_equal(plait_code_name(code, 0), "first");
	assert_string_equal(plait_code_name(code, 1), "second");
	for (size_t i = 0; i < 2; i++) {
		const char *ptx = plait_code_ptx(code, i, &len);

		assert_int_equal(strlen(ptx), len);
		assert_non_null(strstr(ptx, ".version"));
		assert_non_null(strstr(ptx, plait_code_entry(code, i)));
		assert_true(strlen(plait_code_plan(code, i)) > 0);
	}
	assert_null(plait_code_name(code, 2));
	assert_null(plait_code_ptx(code, 2, &len));
	assert_int_equal(len, 0);
	assert_int_equal(plait_code_grid(code, 2, 1, 0), 0);
	plait_code_free(code);

	o.kernel = "second";
	assert_int_equal(plait_compile(&o, &code), PLAIT_OK);
	assert_int_equal(plait_code_count(code), 1);
	assert_string_equal(plait_code_name(code, 0), "second");
	plait_code_free(code);
}

static void the_facts_are_those_of_the_spec(void **state)
{
	struct plait_compile_options o = options(spec);
	struct plait_set set = {"hidden", "1024"};
	struct plait_kernel_info k = PLAIT_KERNEL_INFO_INIT;
	struct plait_param_info p = PLAIT_PARAM_INFO_INIT;
	struct plait_arg_info a = PLAIT_ARG_INFO_INIT;
	uint32_t end = 0;
	plait_code *code;

	(void)state;
	o.set = &set;
	o.nset = 1;
	assert_int_equal(plait_compile(&o, &code), PLAIT_OK);
	assert_int_equal(plait_code_info(code, 1, &k), PLAIT_OK);
	assert_int_equal(k.tp, 8);
	assert_int_equal(k.cols, 1024);
	assert_string_equal(k.target, "sm_90");
	assert_string_equal(k.order, "formal");
	assert_true(k.threads % 32 == 0 && k.threads > 0);
	assert_true(k.communicates);
	assert_int_equal(k.nparam, 4);
	assert_int_equal(plait_code_param(code, 1, 1, &p), PLAIT_OK);
	assert_string_equal(p.name, "residual");
	assert_string_equal(p.dtype, "bf16");
	assert_int_equal(p.mode, PLAIT_INOUT);
	assert_int_equal(p.cols, 1024);
	assert_int_equal(plait_code_param(code, 1, 4, &p), PLAIT_USAGE);
	for (size_t i = 0; i < k.narg; i++) {
		assert_int_equal(plait_code_arg(code, 1, i, &a), PLAIT_OK);
		assert_true(a.offset >= end);
		end = a.offset + a.size;
	}
	assert_true(end <= k.argument_bytes);
	assert_int_equal(plait_code_arg(code, 1, k.narg, &a), PLAIT_USAGE);
	assert_in_range(plait_code_grid(code, 1, 64, 0), 1, k.max_ctas);
	assert_in_range(plait_code_grid(code, 1, 64, 2), 1, 2);
	plait_code_free(code);
}

static void a_caller_with_an_older_structure_gets_what_it_knows(void **state)
{
	struct plait_compile_options o = options(spec);
	struct {
		struct plait_kernel_info info;
	} old;
	size_t known = offsetof(struct plait_kernel_info, threads);
	plait_code *code;

	(void)state;
	assert_int_equal(plait_compile(&o, &code), PLAIT_OK);
	memset(&old, 0x5a, sizeof old);
	old.info.struct_size = known;
	assert_int_equal(plait_code_info(code, 0, &old.info), PLAIT_OK);
	assert_int_equal(old.info.struct_size, known);
	assert_int_equal(old.info.tp, 8);
	for (size_t i = known; i < sizeof old; i++)
		assert_int_equal(((unsigned char *)&old)[i], 0x5a);
	old.info.struct_size = 0;
	assert_int_equal(plait_code_info(code, 0, &old.info), PLAIT_USAGE);
	plait_code_free(code);
}

/* The protocol of kernel i; NULL: it was not compiled. */
static const char *gets(const struct plait_compile_options *o, size_t i)
{
	struct plait_kernel_info k = PLAIT_KERNEL_INFO_INIT;
	const char *protocol = NULL;
	plait_code *code;

	if (plait_compile(o, &code) == PLAIT_OK && plait_code_info(code, i, &k) == PLAIT_OK)
		protocol = k.protocol; /* a literal of the library's */
	plait_code_free(code);
	return protocol;
}

static void auto_chooses_as_the_program_does(void **state)
{
	static const char fixed[] = "kernel k(x: bf16[T, 512] partial) -> y: bf16[T, 512] "
	                            "replicated { deterministic; out y = all_reduce(x); }";
	static const struct {
		const char *text;
		enum plait_allow multicast;
		uint64_t rows;
		unsigned tp;
		const char *form, *target, *want;
	} cases[] = {
	        {spec, PLAIT_YES, 0, 8, NULL, NULL, "mm-twoshot"},
	        {spec, PLAIT_NO, 0, 8, NULL, NULL, "p2p-bulk"},
	        {spec, PLAIT_AUTO, 0, 8, NULL, "sm_80", "p2p-twoshot"},
	        {spec, PLAIT_YES, 1, 8, NULL, NULL, "mm-push"},
	        {spec, PLAIT_NO, 1, 8, NULL, NULL, "push"},
	        {spec, PLAIT_NO, 1, 8, "own", NULL, "p2p-twoshot"},
	        {spec, PLAIT_NO, 0, 8, "all", NULL, "push"},
	        {spec, PLAIT_YES, 0, 1, NULL, NULL, "local"},
	        {fixed, PLAIT_YES, 0, 8, NULL, NULL, "p2p-bulk"},
	        {fixed, PLAIT_YES, 1, 8, NULL, NULL, "mm-push"},
	};

	struct plait_compile_options o;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		o = options(cases[i].text);
		o.tp = cases[i].tp;
		o.multicast = cases[i].multicast;
		o.rows = cases[i].rows;
		o.form = cases[i].form;
		o.target = cases[i].target;
		for (size_t k = 0; k < (cases[i].text == spec ? 2u : 1u); k++) {
			const char *got = gets(&o, k);

			if (!got || strcmp(got, cases[i].want) != 0)
				fail_msg("case %zu gets %s", i, got ? got : "nothing");
		}
	}
	o = options(spec);
	assert_int_equal(setenv("PLAIT_MULTICAST", "0", 1), 0);
	assert_string_equal(gets(&o, 0), "p2p-bulk");
	o.multicast = PLAIT_YES;
	assert_string_equal(gets(&o, 0), "mm-twoshot");
	unsetenv("PLAIT_MULTICAST");
}

static void what_no_protocol_can_do_says_why_of_each(void **state)
{
	static const char text[] =
	        "kernel k(x: bf16[T, 512] partial, inout r: bf16[T, 512] carried, s: bf16[T, 512] "
	        "sharded) -> y: bf16[T, 512] replicated\n"
	        "{ h = all_reduce(x) + r + s; out r = h; out y = h; }";
	struct plait_compile_options o = options(text);

	(void)state;
	o.form = "all";
	expect(&o, PLAIT_INPUT, "sharded");
	o.form = "round";
	expect(&o, PLAIT_USAGE, "form 'round'");
	o.form = NULL;
	o.pdl = "soon";
	expect(&o, PLAIT_USAGE, "'soon'");
	o.pdl = NULL;
	o.multicast = (enum plait_allow)7;
	expect(&o, PLAIT_USAGE, "multicast '7'");
	o = options(spec);
	o.remarks = true;
	o.rows = 4;
	o.multicast = PLAIT_NO;
	expect(&o, PLAIT_OK, "'second' gets protocol 'push' at T = 4");
}

static void launches_may_depend_and_t_may_lie_in_memory(void **state)
{
	struct plait_compile_options o = options(spec);
	struct plait_arg_info a = PLAIT_ARG_INFO_INIT;
	bool found = false;
	plait_code *code;

	(void)state;
	o.pdl = "early";
	o.rows_in_memory = true;
	assert_int_equal(plait_compile(&o, &code), PLAIT_OK);
	assert_non_null(strstr(plait_code_ptx(code, 0, NULL), "griddepcontrol.wait"));
	for (size_t k = 0; plait_code_arg(code, 0, k, &a) == PLAIT_OK; k++) {
		found |= a.kind == PLAIT_ARG_ROWS_PTR;
		assert_int_not_equal(a.kind, PLAIT_ARG_ROWS);
	}
	assert_true(found);
	plait_code_free(code);
}

/* What is behind the size that a caller knows is not read: not even in the padding that it had. */
static void options_of_an_older_caller_end_where_it_says(void **state)
{
	struct plait_compile_options o = options(spec);

	(void)state;
	assert_int_equal(offsetof(struct plait_compile_options, rows),
	                 (offsetof(struct plait_compile_options, remarks) + 8) / 8 * 8);
	memset((char *)&o + offsetof(struct plait_compile_options, rows), 0x5a,
	       sizeof o - offsetof(struct plait_compile_options, rows));
	o.struct_size = offsetof(struct plait_compile_options, rows);
	assert_string_equal(gets(&o, 0), "mm-twoshot");
}

static void equal_contracts_mean_equal_kernels(void **state)
{
	struct plait_compile_options o = options(spec);
	struct plait_set set = {"hidden", "1024"};
	struct plait_kernel_info a = PLAIT_KERNEL_INFO_INIT, b = a, c = a;
	plait_code *code;

	(void)state;
	plait_compile(&o, &code);
	plait_code_info(code, 0, &a);
	plait_code_free(code);
	plait_compile(&o, &code);
	plait_code_info(code, 0, &b);
	plait_code_free(code);
	o.set = &set;
	o.nset = 1;
	plait_compile(&o, &code);
	plait_code_info(code, 0, &c);
	plait_code_free(code);
	assert_true(a.contract == b.contract);
	assert_true(a.contract != c.contract);
}

static void own_rows_cover_all_rows_once(void **state)
{
	static const uint64_t rows[] = {0, 1, 7, 8, 9, 64, 131, (uint64_t)1 << 40};
	uint64_t begin, end, at;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (unsigned tp = 1; tp <= 16; tp++) {
			at = 0;
			for (unsigned r = 0; r < tp; r++) {
				assert_int_equal(plait_own_rows(rows[i], tp, r, &begin, &end),
				                 PLAIT_OK);
				assert_true(begin == at && end >= begin);
				assert_true(end - begin <= (rows[i] + tp - 1) / tp);
				at = end;
			}
			assert_true(at == rows[i]);
		}
	assert_int_equal(plait_own_rows(8, 2, 2, &begin, &end), PLAIT_USAGE);
	assert_int_equal(plait_own_rows(8, 0, 0, &begin, &end), PLAIT_USAGE);
}

static void nothing_can_be_asked_of_no_handle(void **state)
{
	struct plait_kernel_info k = PLAIT_KERNEL_INFO_INIT;

	(void)state;
	plait_code_free(NULL);
	assert_int_equal(plait_code_count(NULL), 0);
	assert_null(plait_code_ptx(NULL, 0, NULL));
	assert_int_equal(plait_code_info(NULL, 0, &k), PLAIT_USAGE);
	assert_non_null(plait_code_diagnostics(NULL));
	assert_true(strlen(plait_version()) > 0);
	assert_string_not_equal(plait_status_text(PLAIT_OK), plait_status_text(PLAIT_ENV));
	assert_int_equal(plait_workspace_size() % 256, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(arguments_that_make_no_sense_are_usage),
	        cmocka_unit_test(a_wrong_spec_is_input_with_its_place),
	        cmocka_unit_test(remarks_come_when_asked_for),
	        cmocka_unit_test(a_protocol_gets_the_rows_and_the_arguments_that_it_needs),
	        cmocka_unit_test(kernels_that_push_say_what_buffer_they_need),
	        cmocka_unit_test(all_kernels_come_in_order_or_the_one_asked_for),
	        cmocka_unit_test(the_facts_are_those_of_the_spec),
	        cmocka_unit_test(a_caller_with_an_older_structure_gets_what_it_knows),
	        cmocka_unit_test(auto_chooses_as_the_program_does),
	        cmocka_unit_test(what_no_protocol_can_do_says_why_of_each),
	        cmocka_unit_test(launches_may_depend_and_t_may_lie_in_memory),
	        cmocka_unit_test(options_of_an_older_caller_end_where_it_says),
	        cmocka_unit_test(equal_contracts_mean_equal_kernels),
	        cmocka_unit_test(own_rows_cover_all_rows_once),
	        cmocka_unit_test(nothing_can_be_asked_of_no_handle),
	};

	return cmocka_run_group_tests_name("compile", tests, NULL, NULL);
}
