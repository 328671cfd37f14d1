/*
 * Random kernels, of random widths and ranks, compiled and run on simulated ranks against the
 * reference.
 *
 *	RANDOM_TRIALS=N RANDOM_SEED=S random_kernels
 */
#include "tests/unit/unit.h"
#include "codegen/codegen.h"
#include "ir/pass.h"
#include "tests/unit/ir_random.h"
#include "tools/verify.h"
#include <stdio.h>

struct outcome {
	unsigned run, refused;
	uint64_t exact, bounded;
};

static bool only(const struct diags *d, enum diag_severity s, unsigned from, unsigned to)
{
	for (const struct diag *i = d->head; i; i = i->next)
		if (i->severity == s && ((unsigned)i->code < from || (unsigned)i->code > to))
			return false;
	return true;
}

static void show(const struct ir_func *f, const struct diags *d, const char *why, uint64_t seed,
                 struct arena *a)
{
	struct strbuf b;

	strbuf_init(&b, a);
	strbuf_printf(&b, "seed %llu: %s\n", (unsigned long long)seed, why);
	ir_print_func(f, &b);
	diags_render(d, DIAG_WARNING, &b);
	fprintf(stderr, "%s\n", b.s);
}

static const char *simulate(const struct ir_func *before, const struct cg_kernel *k, unsigned tp,
                            uint64_t seed, struct arena *a, struct outcome *o)
{
	static const int64_t tokens[] = {0, 1, 5, 18};
	struct vf_options vo = {.tp = tp,
	                        .tokens = tokens,
	                        .ntokens = 4,
	                        .schedules = 1,
	                        .seed = seed % 1024,
	                        .sum = -1,
	                        .threads = 1};
	struct vf_kernel vk = {.f = before, .k = k};
	struct vf_result r;
	struct vf_data *data;
	struct strbuf text, why;
	const char *error = NULL;
	enum status st;

	strbuf_init(&text, a);
	strbuf_init(&why, a);
	ptx_print(k->module, &text);
	if (vf_data_new(&vk, &vo, a, &data, &error) != ST_OK)
		return error;
	st = vf_run(data, k->module, text.s, a, &r);
	vf_data_free(data);
	o->exact += r.exact;
	o->bounded += r.bounded;
	if (st == ST_OK)
		return NULL;
	vf_print_failure(&r.failure, "random", &why);
	return why.s;
}

static bool trial(uint64_t seed, struct outcome *o)
{
	static const int64_t cols[] = {2, 8, 12, 64, 128, 250, 512, 1000, 1536};
	static const unsigned ranks[] = {1, 2, 3, 8};
	struct arena a;
	struct diags d;
	struct ir_module *m, *before;
	struct ir_pass_options po = {0};
	struct cg_options co = {.target = cg_target_by_name("sm_90")};
	struct cg_kernel *k;
	const struct ir_func *f;
	const char *why = NULL;
	enum status st;

	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail_msg("out of memory");
	diags_init(&d, &a);
	m = ir_module_new(&a);
	ir_random_kernel_of(m, seed, cols[seed % 9]);
	before = ir_module_copy(m, &a);
	co.tp = ranks[seed / 9 % 4];
	st = ir_run_passes(m, &po, &d);
	f = ir_func_find(m, "k");
	if (st == ST_OK) {
		st = cg_compile(f, &co, &a, &d, &k);
		if (st == ST_OK)
			why = simulate(ir_func_find(before, "k"), k, co.tp, seed, &a, o);
		else if (st != ST_INPUT || !only(&d, DIAG_ERROR, 800, 899))
			why = "code generation failed";
	}
	if (getenv("RANDOM_REFUSALS"))
		for (const struct diag *i = d.head; i; i = i->next)
			if (i->severity == DIAG_ERROR)
				print_message("# seed %llu: E%d %s\n", (unsigned long long)seed,
				              (int)i->code, i->text);
	o->run += st == ST_OK;
	o->refused += st != ST_OK;
	if (why)
		show(f, &d, why, seed, &a);
	arena_free(&a);
	return !why;
}

static void random_kernels_agree_with_the_reference(void **state)
{
	const char *n = getenv("RANDOM_TRIALS"), *first = getenv("RANDOM_SEED");
	uint64_t trials = n ? strtoull(n, NULL, 10) : 400,
	         seed = first ? strtoull(first, NULL, 10) : 1;
	struct outcome o = {0};
	unsigned bad = 0;

	(void)state;
	for (uint64_t i = 0; i < trials && bad < 3; i++)
		bad += !trial(seed + i, &o);
	print_message(
	        "# %u run, %u refused; %llu elements compared bit for bit, %llu within a bound\n",
	        o.run, o.refused, (unsigned long long)o.exact, (unsigned long long)o.bounded);
	assert_int_equal(bad, 0);
	if (trials >= 100)
		assert_true(o.run > trials / 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(random_kernels_agree_with_the_reference),
	};

	return cmocka_run_group_tests_name("random kernels", tests, NULL, NULL);
}
