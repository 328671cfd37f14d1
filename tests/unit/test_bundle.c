#include "tests/unit/unit.h"
#include "runtime/bundle.h"

static const char spec[] = "kernel sum(x: bf16[T, 64] partial) -> y: bf16[T, 64] replicated\n"
                           "{\n"
                           "    out y = all_reduce(x);\n"
                           "}\n";

struct fixture {
	struct arena arena;
	struct rt_image image;
	struct rt_variants_options o;
	struct rt_bytes bundle;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	setenv("PLAIT_JIT", "driver", 1); /* cubins are test_finalize's */
	arena_init(&f->arena, 0);
	rt_image_init(&f->image);
	if (setjmp(f->arena.oom) || setjmp(f->image.code.arena.oom))
		return -1;
	f->o.compile = (struct plait_compile_options)PLAIT_COMPILE_OPTIONS_INIT;
	f->o.compile.text = spec;
	f->o.compile.text_len = strlen(spec);
	f->o.compile.tp = 2;
	f->o.compile.target = "sm_90";
	f->o.max_rows = 4096;
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	rt_image_free(&f->image);
	arena_free(&f->arena);
	free(f);
	return 0;
}

static void write(struct fixture *f)
{
	const char *said;

	if (rt_bundle_write(&f->o, &f->arena, &f->bundle, &said) != ST_OK)
		fail_msg("%s", said);
	assert_string_equal(said, "");
}

static enum status again(struct fixture *f, struct rt_bytes b)
{
	rt_image_free(&f->image);
	rt_image_init(&f->image);
	memcpy(&f->image.code.arena.oom, &f->arena.oom, sizeof f->arena.oom);
	return rt_bundle_read(&f->image, b, &f->o);
}

static void refused(struct fixture *f, const char *said)
{
	assert_int_equal(again(f, f->bundle), ST_INPUT);
	if (!strstr(f->image.code.diagnostics, said))
		fail_msg("'%s' is not in: %s", said, f->image.code.diagnostics);
}

static void each_transport_has_kernels_of_its_own(void **state)
{
	struct fixture *f = *state;
	write(f);
	for (int i = 0; i < 3; i++) {
		unsigned multicast = 0, local = 0;

		f->o.multicast = i == 0;
		f->o.nccl = i == 2;
		assert_int_equal(again(f, f->bundle), ST_OK);
		for (uint32_t v = 0; v < f->image.nvariant; v++) {
			const char *p = f->image.variant[v].k->info.protocol;

			multicast += !strncmp(p, "mm-", 3);
			local += !strcmp(p, "local");
		}
		assert_int_equal(multicast > 0, i == 0);
		assert_int_equal(local, i == 2 ? f->image.nvariant : 0);
	}
}

static void a_stage_for_fewer_rows_keeps_what_they_get(void **state)
{
	struct fixture *f = *state;

	write(f);
	f->o.max_rows = 3;
	assert_int_equal(again(f, f->bundle), ST_OK);
	assert_int_equal(f->image.max_rows, 3);
	assert_non_null(rt_image_range(&f->image, 0, 3));
	assert_null(rt_image_range(&f->image, 0, 4));
	assert_true(rt_image_check(&f->image));
}

static void what_does_not_suit_is_said(void **state)
{
	struct fixture *f = *state;
	struct rt_variants_options good;

	write(f);
	good = f->o;
	f->o.compile.tp = 4;
	refused(f, "for 2 ranks, not 4");
	f->o = good;
	f->o.max_rows = 4097;
	refused(f, "at most 4096 rows, not 4097");
	f->o = good;
	f->o.compile.target = "sm_80";
	refused(f, "is for sm_90");
	f->o = good;
	f->o.rows_in_memory = true;
	refused(f, "without --rows-in-memory");
	f->o = good;
	f->o.pdl = CG_PDL_EARLY;
	refused(f, "with --pdl none, not early");
}

static void a_bundle_cut_anywhere_is_refused(void **state)
{
	struct fixture *f = *state;

	write(f);
	for (size_t n = 0; n < f->bundle.n; n += n < 200 ? 1 : 701) {
		unsigned char *exact = malloc(n + 1);

		memcpy(exact, f->bundle.p, n);
		f->o.nccl = true; /* the last in it */
		assert_int_equal(again(f, (struct rt_bytes){exact, n}), ST_INPUT);
		free(exact);
	}
	f->bundle = (struct rt_bytes){"{\"plait\": \"0.1.0\"}", 18};
	refused(f, "kernels.image");
}

/* Any bit of the image that is wanted, or of its entry; what other transports have may be damaged. */
static void a_bundle_with_a_bit_flipped_is_refused_or_the_same(void **state)
{
	struct fixture *f = *state;
	struct rt_bytes whole, now;
	unsigned char *p;
	unsigned refused = 0, tried = 0;

	write(f);
	p = malloc(f->bundle.n);
	memcpy(p, f->bundle.p, f->bundle.n);
	f->o.multicast = true; /* the first in it */
	assert_int_equal(again(f, f->bundle), ST_OK);
	whole = rt_image_write(&f->image, &f->arena);
	for (size_t i = 0; i < whole.n + 48; i += i < 512 ? 1 : 331) {
		p[i] ^= (unsigned char)(1 << i % 8);
		tried++;
		if (again(f, (struct rt_bytes){p, f->bundle.n}) == ST_OK) {
			now = rt_image_write(&f->image, &f->arena);
			assert_int_equal(now.n, whole.n);
			assert_memory_equal(now.p, whole.p, whole.n);
		} else {
			refused++;
		}
		p[i] ^= (unsigned char)(1 << i % 8);
	}
	free(p);
	/* but for the number of images */
	assert_true(refused >= tried - 4);
}

static void running_out_of_memory_comes_back_clean(void **state)
{
	struct fixture *f = *state;
	struct rt_bytes b;
	const char *said;

	for (volatile uint64_t k = 1; k < 20000; k = k * 3 + 1) {
		struct arena a;

		arena_init(&a, 0);
		a.fail_at = k;
		if (!setjmp(a.oom))
			rt_bundle_write(&f->o, &a, &b, &said);
		arena_free(&a);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(each_transport_has_kernels_of_its_own),
	        TEST(a_stage_for_fewer_rows_keeps_what_they_get),
	        TEST(what_does_not_suit_is_said),
	        TEST(a_bundle_cut_anywhere_is_refused),
	        TEST(a_bundle_with_a_bit_flipped_is_refused_or_the_same),
	        TEST(running_out_of_memory_comes_back_clean),
	};

	return cmocka_run_group_tests_name("bundle", tests, NULL, NULL);
}
