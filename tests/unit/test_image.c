#include "tests/unit/unit.h"
#include "runtime/variants.h"

static const char spec[] =
        "const hidden = 512;\n"
        "kernel add_norm(x: bf16[T, hidden] partial, inout residual: bf16[T, hidden] carried,\n"
        "                gamma: bf16[hidden]) -> y: bf16[T, hidden] replicated\n"
        "{\n"
        "    h = all_reduce(x) + residual;\n"
        "    out residual = h;\n"
        "    out y = rmsnorm(h, gamma, eps = 1e-5);\n"
        "}\n"
        "kernel sum(x: bf16[T, hidden] partial) -> y: bf16[T, hidden] replicated\n"
        "{\n"
        "    out y = all_reduce(x);\n"
        "}\n"
        "kernel twice(x: bf16[T, hidden]) -> y: bf16[T, hidden] replicated\n"
        "{\n"
        "    out y = x + x;\n"
        "}\n";

struct fixture {
	struct arena arena;
	struct rt_image image, again;
	struct rt_variants_options o;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	arena_init(&f->arena, 0);
	rt_image_init(&f->image);
	rt_image_init(&f->again);
	if (setjmp(f->arena.oom) || setjmp(f->image.code.arena.oom) ||
	    setjmp(f->again.code.arena.oom))
		return -1;
	f->o.compile = (struct plait_compile_options)PLAIT_COMPILE_OPTIONS_INIT;
	f->o.compile.spec_name = "t.plait";
	f->o.compile.text = spec;
	f->o.compile.text_len = strlen(spec);
	f->o.compile.tp = 2;
	f->o.compile.target = "sm_90";
	f->o.max_rows = 16384;
	*state = f;
	return 0;
}

/* An empty image; running out of memory ends the test as it does for the fixture's. */
static void begin(struct fixture *f, struct rt_image *m)
{
	rt_image_init(m);
	memcpy(&m->code.arena.oom, &f->arena.oom, sizeof m->code.arena.oom);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	rt_image_free(&f->image);
	rt_image_free(&f->again);
	arena_free(&f->arena);
	free(f);
	return 0;
}

static void make(struct fixture *f)
{
	enum status s = rt_variants_make(&f->image, &f->o, &f->arena);

	if (s != ST_OK)
		fail_msg("%d: %s", (int)s, f->image.code.diagnostics);
	assert_string_equal(f->image.code.diagnostics, "");
}

static const struct rt_variant *at(struct fixture *f, uint32_t unit, uint64_t rows)
{
	return &f->image.variant[rt_image_range(&f->image, unit, rows)->variant];
}

static const char *protocol(struct fixture *f, uint32_t unit, uint64_t rows)
{
	return at(f, unit, rows)->k->info.protocol;
}

static void every_kernel_has_what_some_T_gets(void **state)
{
	struct fixture *f = *state;
	struct rt_image *m = &f->image;

	f->o.max_rows = 65536;
	make(f);
	assert_int_equal(m->nkernel, 3);
	assert_int_equal(m->nunit, 4);
	assert_string_equal(m->unit[0].name, "add_norm");
	assert_string_equal(m->unit[3].name, "export_residual");
	assert_true(m->unit[0].carried && !m->unit[1].carried);
	assert_int_equal(m->unit[0].export_[1], 3);
	assert_int_equal(m->unit[0].export_[0], RT_NONE);
	assert_string_equal(protocol(f, 0, 1), "push");
	assert_string_equal(protocol(f, 1, 1), "push");
	assert_string_equal(protocol(f, 2, 1), "local");
	assert_string_equal(protocol(f, 0, 65536), "p2p-bulk");
	for (uint32_t i = 0; i < m->nvariant; i++)
		assert_true(rt_image_most(m, i) > 0);
}

static void an_export_gathers_in_the_form_that_the_chain_has(void **state)
{
	struct fixture *f = *state;

	make(f);
	for (uint64_t T = 0; T <= 16384; T = T * 2 + 1) {
		const struct rt_variant *kernel = at(f, 0, T), *ex = at(f, 3, T);

		assert_int_equal(kernel->rows, ex->rows);
		if (ex->rows == IR_ROWS_ALL)
			assert_string_equal(ex->k->info.protocol, "local");
		else
			assert_true(ex->k->info.communicates);
	}
}

/* The ranges against the selection itself. */
static void the_ranges_are_those_of_the_selection(void **state)
{
	struct fixture *f = *state;
	uint64_t last = 0;

	f->o.max_rows = 3000;
	make(f);
	for (uint32_t u = 0; u < f->image.nunit; u++) {
		const struct rt_unit *x = &f->image.unit[u];

		assert_int_equal(x->range[x->nrange - 1].until, 3000);
		assert_null(rt_image_range(&f->image, u, 3001));
		last = 0;
		for (uint32_t i = 0; i < x->nrange; i++) {
			assert_true(i == 0 || x->range[i].until > last);
			last = x->range[i].until;
			assert_ptr_equal(rt_image_range(&f->image, u, last), &x->range[i]);
		}
		assert_ptr_equal(rt_image_range(&f->image, u, 0), &x->range[0]);
	}
}

static void a_protocol_that_is_named_is_the_only_one(void **state)
{
	struct fixture *f = *state;

	f->o.compile.protocol = "p2p-bulk";
	make(f);
	assert_int_equal(f->image.nvariant, 4);
	assert_string_equal(protocol(f, 0, 1), "p2p-bulk");
	assert_string_equal(protocol(f, 1, 16384), "p2p-bulk");
	assert_string_equal(protocol(f, 2, 1), "local");
	assert_true(at(f, 0, 1)->k->info.dynamic_bytes > 0);
}

static void one_rank_by_the_local_protocol_needs_nothing_symmetric(void **state)
{
	struct fixture *f = *state;

	f->o.compile.tp = 1;
	f->o.compile.protocol = "local";
	make(f);
	for (uint32_t v = 0; v < f->image.nvariant; v++) {
		const struct rt_kernel *k = f->image.variant[v].k;

		assert_string_equal(k->info.protocol, "local");
		for (uint32_t i = 0; i < k->info.nparam; i++)
			assert_int_equal(k->param[i].symmetric, PLAIT_SYM_NONE);
	}
}

static void a_named_protocol_that_cannot_is_said_why(void **state)
{
	struct fixture *f = *state;

	f->o.compile.protocol = "mm-oneshot";
	f->o.multicast = true;
	assert_int_equal(rt_variants_make(&f->image, &f->o, &f->arena), ST_INPUT);
	assert_non_null(strstr(f->image.code.diagnostics, "mm-oneshot"));
	assert_non_null(strstr(f->image.code.diagnostics, "may differ by rank"));
}

static void with_NCCL_no_kernel_communicates(void **state)
{
	struct fixture *f = *state;

	f->o.nccl = true;
	make(f);
	for (uint32_t i = 0; i < f->image.nvariant; i++)
		assert_string_equal(f->image.code.kernel[i].info.protocol, "local");
	assert_int_equal(f->image.unit[0].role[0], RT_SUMMED);
	assert_int_equal(f->image.unit[0].role[1], RT_PLAIN);
	assert_int_equal(f->image.unit[0].role[3], RT_GATHERED);
	assert_int_equal(f->image.unit[3].role[1], RT_GATHERED);
}

static void options_that_are_wrong_are_named(void **state)
{
	struct fixture *f = *state;
	struct rt_variants_options good = f->o;
	const struct {
		const char *field, *said;
	} cases[] = {{"target", "'sm_1'"},
	             {"protocol", "'pigeon'"},
	             {"order", "'loose'"},
	             {"kernel", "'none'"},
	             {"text", "no spec"}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		f->o = good;
		f->o.compile.target = i == 0 ? "sm_1" : "sm_90";
		f->o.compile.protocol = i == 1 ? "pigeon" : NULL;
		f->o.compile.order = i == 2 ? "loose" : NULL;
		f->o.compile.kernel = i == 3 ? "none" : NULL;
		f->o.compile.text = i == 4 ? NULL : spec;
		assert_int_equal(rt_variants_make(&f->image, &f->o, &f->arena), ST_USAGE);
		assert_non_null(strstr(f->image.code.diagnostics, cases[i].said));
		rt_image_free(&f->image);
		begin(f, &f->image);
	}
}

static void an_image_written_and_read_is_the_same(void **state)
{
	struct fixture *f = *state;
	struct rt_bytes once, twice;

	make(f);
	once = rt_image_write(&f->image, &f->arena);
	assert_true(rt_image_read(&f->again, once));
	twice = rt_image_write(&f->again, &f->arena);
	assert_int_equal(once.n, twice.n);
	assert_memory_equal(once.p, twice.p, once.n);
	for (uint32_t i = 0; i < f->image.nvariant; i++) {
		const struct rt_kernel *a = f->image.variant[i].k, *b = f->again.variant[i].k;

		assert_string_equal(a->ptx, b->ptx);
		assert_int_equal(a->plan.pdl, b->plan.pdl);
		assert_int_equal(a->info.threads, b->plan.threads);
		for (uint64_t T = 0; T < 2000; T += 111)
			assert_int_equal(cg_grid(&a->plan, T, 0), cg_grid(&b->plan, T, 0));
		if (a->plan.xchg_row)
			assert_int_equal(cg_exchange_bytes(&a->plan, 9),
			                 cg_exchange_bytes(&b->plan, 9));
	}
}

static void an_image_cut_anywhere_is_refused(void **state)
{
	struct fixture *f = *state;
	struct rt_bytes b;

	make(f);
	b = rt_image_write(&f->image, &f->arena);
	for (size_t n = 0; n < b.n; n += n < 2000 ? 1 : 997) {
		struct rt_image m;
		unsigned char *exact = malloc(n + 1);

		begin(f, &m);
		memcpy(exact, b.p, n);
		assert_false(rt_image_read(&m, (struct rt_bytes){exact, n}));
		rt_image_free(&m);
		free(exact);
	}
}

static void the_key_has_all_that_matters(void **state)
{
	struct fixture *f = *state;
	struct rt_bytes k = rt_variants_key(&f->o, &f->arena);
	struct rt_variants_options good = f->o;
	struct cg_point point = {.row = 1024, .T = 1, .protocol = CG_PUSH, .us = 1};
	struct cg_table table = {.point = &point, .n = 1};
	struct plait_set set = {"hidden", "1024"};

	for (int i = 0; i < 14; i++) {
		struct rt_bytes other;

		f->o = good;
		f->o.compile.tp += i == 0;
		f->o.max_rows += i == 1;
		f->o.multicast = i == 2;
		f->o.nccl = i == 3;
		f->o.pdl = i == 4 ? CG_PDL_EARLY : CG_PDL_NONE;
		f->o.rows_in_memory = i == 5;
		f->o.compile.target = i == 6 ? "sm_100" : "sm_90";
		f->o.compile.protocol = i == 7 ? "push" : NULL;
		f->o.compile.order = i == 8 ? "hw" : NULL;
		f->o.compile.kernel = i == 9 ? "sum" : NULL;
		f->o.compile.text_len -= i == 10;
		f->o.table = i == 11 ? &table : NULL;
		f->o.compile.set = &set;
		f->o.compile.nset = i == 12;
		f->o.compile.spec_name = i == 13 ? "u.plait" : "t.plait";
		other = rt_variants_key(&f->o, &f->arena);
		assert_false(other.n == k.n && memcmp(other.p, k.p, k.n) == 0);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(every_kernel_has_what_some_T_gets),
	        TEST(an_export_gathers_in_the_form_that_the_chain_has),
	        TEST(the_ranges_are_those_of_the_selection),
	        TEST(a_protocol_that_is_named_is_the_only_one),
	        TEST(one_rank_by_the_local_protocol_needs_nothing_symmetric),
	        TEST(a_named_protocol_that_cannot_is_said_why),
	        TEST(with_NCCL_no_kernel_communicates),
	        TEST(options_that_are_wrong_are_named),
	        TEST(an_image_written_and_read_is_the_same),
	        TEST(an_image_cut_anywhere_is_refused),
	        TEST(the_key_has_all_that_matters),
	};

	return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
