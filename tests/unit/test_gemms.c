/*
 * GEMMs by a cuBLASLt that is not there: it computes by the layouts it is given, on the fake driver's
 * memory, which is the host's.
 */
#include "runtime/gemms.h"
#include "tests/fake/fake.h"
#include "tests/unit/unit.h"
#include "runtime/comm.h"
#include <math.h>
#include <stdlib.h>

struct lt_handle {
	int nothing;
};
struct lt_op {
	int transpose;
	int32_t target;
};
struct lt_layout {
	int type;
	uint64_t rows, columns;
	int64_t ld;
};
struct lt_wish {
	size_t bytes;
};

/* What it does, and has done. */
static struct {
	unsigned calls, fail_at;
	unsigned alive, heuristics, matmuls;
	int tile, cluster, split, found; /* found: algorithms for any shape */
	int32_t target;                  /* of the last one that ran */
	int asked_type, asked_transpose; /* of the last heuristic */
	int status;                      /* of the heuristic */
	void *room;
	size_t version;
	float waves;
	unsigned contexts, no_context; /* entered; the one (from 1) that cannot be: 0: all can */
} lt;

#define MAY_FAIL()                                                      \
	do {                                                            \
		if (++lt.calls == lt.fail_at)                           \
			return 13; /* CUBLAS_STATUS_EXECUTION_FAILED */ \
	} while (0)
#define MAKE(p)                                 \
	do {                                    \
		MAY_FAIL();                     \
		*(p) = calloc(1, sizeof **(p)); \
		lt.alive++;                     \
	} while (0)

static size_t version(void)
{
	return lt.version;
}

static const char *status_string(int status)
{
	return status == 13 ? "execution failed" : "another one";
}

static int create(struct lt_handle **h)
{
	MAKE(h);
	return 0;
}

static int destroy(void *p)
{
	free(p);
	lt.alive--;
	return 0;
}

static int destroy_handle(struct lt_handle *h)
{
	return destroy(h);
}

static int op_create(struct lt_op **op, int compute, int scale)
{
	MAKE(op);
	assert_int_equal(compute, LT_COMPUTE_32F);
	assert_int_equal(scale, LT_R_32F);
	return 0;
}

static int op_set(struct lt_op *op, int attribute, const void *value, size_t bytes)
{
	MAY_FAIL();
	assert_int_equal(bytes, 4);
	memcpy(attribute == LT_OP_TRANSA ? &op->transpose : &op->target, value, bytes);
	assert_true(attribute == LT_OP_TRANSA || attribute == LT_OP_SM_COUNT_TARGET);
	return 0;
}

static int op_destroy(struct lt_op *op)
{
	return destroy(op);
}

static int layout_create(struct lt_layout **l, int type, uint64_t rows, uint64_t columns,
                         int64_t ld)
{
	MAKE(l);
	**l = (struct lt_layout){type, rows, columns, ld};
	return 0;
}

static int layout_destroy(struct lt_layout *l)
{
	return destroy(l);
}

static int wish_create(struct lt_wish **w)
{
	MAKE(w);
	return 0;
}

static int wish_set(struct lt_wish *w, int attribute, const void *value, size_t bytes)
{
	MAY_FAIL();
	assert_int_equal(attribute, LT_WISH_MAX_BYTES);
	assert_int_equal(bytes, sizeof w->bytes);
	memcpy(&w->bytes, value, bytes);
	return 0;
}

static int wish_destroy(struct lt_wish *w)
{
	return destroy(w);
}

static int heuristic(struct lt_handle *h, struct lt_op *op, struct lt_layout *a,
                     struct lt_layout *b, struct lt_layout *c, struct lt_layout *d,
                     struct lt_wish *w, int most, struct lt_found *found, int *n)
{
	MAY_FAIL();
	assert_non_null(h);
	assert_true(c == d && most == 1 && w->bytes > 0 && a && b);
	*found = (struct lt_found){.bytes = 1024, .waves = lt.waves};
	found->algo.data[0] = (uint64_t)op->target;
	*n = lt.found;
	lt.heuristics++;
	lt.asked_type = a->type == b->type && b->type == c->type ? a->type : -1;
	lt.asked_transpose = op->transpose;
	return lt.status;
}

static int config(const struct lt_algo *algo, int attribute, void *value, size_t bytes,
                  size_t *written)
{
	const uint32_t word = (uint32_t)(attribute == LT_CONFIG_TILE ? lt.tile : lt.split);
	const uint16_t half = (uint16_t)lt.cluster;

	(void)algo;
	MAY_FAIL();
	if (attribute == LT_CONFIG_CLUSTER)
		memcpy(value, &half, bytes);
	else
		memcpy(value, &word, bytes);
	*written = bytes;
	return 0;
}

static float number(const uint16_t *p, uint64_t i)
{
	uint32_t u = (uint32_t)p[i] << 16;
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

/* d = op(a) b, columns first. */
static int matmul(struct lt_handle *h, struct lt_op *op, const void *alpha, const void *a,
                  struct lt_layout *al, const void *b, struct lt_layout *bl, const void *beta,
                  const void *c, struct lt_layout *cl, void *d, struct lt_layout *dl,
                  const struct lt_algo *algo, void *room, size_t bytes, struct cu_stream *s)
{
	const uint64_t depth = op->transpose ? al->rows : al->columns;
	float one, zero;

	MAY_FAIL();
	memcpy(&one, alpha, sizeof one);
	memcpy(&zero, beta, sizeof zero);
	assert_true(h && one == 1 && zero == 0 && c == d && cl == dl && bytes > 0 && room);
	assert_int_equal(algo->data[0], op->target);
	assert_int_equal(bl->rows, depth);
	assert_int_equal(dl->rows, op->transpose ? al->columns : al->rows);
	assert_int_equal(dl->columns, bl->columns);
	(void)s;
	for (uint64_t col = 0; col < dl->columns; col++)
		for (uint64_t row = 0; row < dl->rows; row++) {
			float sum = 0;
			uint32_t u;

			for (uint64_t i = 0; i < depth; i++)
				sum += number(a, op->transpose ? row * (uint64_t)al->ld + i
				                               : i * (uint64_t)al->ld + row) *
				       number(b, col * (uint64_t)bl->ld + i);
			memcpy(&u, &sum, sizeof u);
			((uint16_t *)d)[col * (uint64_t)dl->ld + row] = (uint16_t)(u >> 16);
		}
	lt.target = op->target;
	lt.room = room;
	lt.matmuls++;
	return 0;
}

static const struct rt_blaslt fake_lt = {
        .version = version,
        .status_string = status_string,
        .create = create,
        .destroy = destroy_handle,
        .op_create = op_create,
        .op_set = op_set,
        .op_destroy = op_destroy,
        .layout_create = layout_create,
        .layout_destroy = layout_destroy,
        .wish_create = wish_create,
        .wish_set = wish_set,
        .wish_destroy = wish_destroy,
        .heuristic = heuristic,
        .config = config,
        .matmul = matmul,
};

/* ---- the communicator ---- */

static struct rt_driver drv;

static cu_result ctx_push(struct cu_ctx *c)
{
	return ++lt.contexts == lt.no_context ? 719 : fake_driver.ctx_push(c);
}

enum { M = 3, N = 5, K = 4 };

struct fixture {
	plait_comm *c;
	plait_gemms *g;
	_Alignas(256) uint16_t x[M * K];
	_Alignas(256) uint16_t w[2][128]; /* [n, k]; [k, n] */
	_Alignas(256) uint16_t out[M * N];
};

static uint16_t bf16(int small)
{
	float f = (float)small;
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return (uint16_t)(u >> 16);
}

static int set_up(void **state)
{
	struct fixture *f = aligned_alloc(256, sizeof *f);
	struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;
	struct rt_hooks h = {.drv = &drv};

	memset(f, 0, sizeof *f);
	memset(&lt, 0, sizeof lt);
	lt.tile = 23;   /* 128 x 256 of cuBLASLt's: 256 rows by 128 columns of ours */
	lt.cluster = 3; /* 2 x 1 */
	lt.split = 1;
	lt.found = 1;
	lt.version = 130100;
	lt.waves = 1.5f;
	fake_reset(2);
	drv = fake_driver;
	drv.ctx_push = ctx_push;
	o.bootstrap = PLAIT_BOOT_LOCAL;
	o.size = 2;
	if (rt_comm_create(&o, &h, &f->c) != PLAIT_OK)
		return -1;
	for (int i = 0; i < M * K; i++)
		f->x[i] = bf16(i - 5);
	for (int n = 0; n < N; n++)
		for (int k = 0; k < K; k++)
			f->w[0][n * K + k] = f->w[1][k * N + n] = bf16(2 * n - k);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	plait_gemms_free(f->g);
	plait_comm_free(f->c);
	free(f);
	return lt.alive || fake_alive() ? -1 : 0;
}

static void open(struct fixture *f)
{
	if (rt_gemms_create(f->c, &fake_lt, &f->g) != PLAIT_OK)
		fail_msg("%s", plait_comm_error(f->c));
	lt.heuristics = 0; /* ranks compare a few choices */
}

static struct plait_gemm_call call_of(struct fixture *f, unsigned local, bool w_is_k_by_n)
{
	struct plait_gemm_call c = PLAIT_GEMM_CALL_INIT;

	c.local = local;
	c.m = M;
	c.n = N;
	c.k = K;
	c.dtype = "bf16";
	c.w_is_k_by_n = w_is_k_by_n;
	c.sm_target = 100;
	c.x = (plait_address)(uintptr_t)f->x;
	c.w = (plait_address)(uintptr_t)f->w[w_is_k_by_n];
	c.out = (plait_address)(uintptr_t)f->out;
	return c;
}

static void a_gemm_multiplies_rows_by_weights_in_both_layouts(void **state)
{
	struct fixture *f = *state;

	open(f);
	for (unsigned i = 0; i < 4; i++) {
		struct plait_gemm_call c = call_of(f, i / 2, i % 2);

		memset(f->out, 0, sizeof f->out);
		assert_int_equal(plait_gemms_run(f->g, &c), PLAIT_OK);
		for (int m = 0; m < M; m++)
			for (int n = 0; n < N; n++) {
				int sum = 0;

				for (int k = 0; k < K; k++)
					sum += (m * K + k - 5) * (2 * n - k);
				assert_int_equal(f->out[m * N + n], bf16(sum));
			}
		assert_int_equal(lt.target, 100);
	}
	/* each layout was asked for once, by whichever rank */
	assert_int_equal(lt.heuristics, 2);
	assert_int_equal(lt.matmuls, 4);
}

static void facts_are_in_rows_by_columns_and_remembered(void **state)
{
	struct fixture *f = *state;
	struct plait_gemm_query q = {.m = 4096,
	                             .n = 5120,
	                             .k = 8192,
	                             .x_bits = 16,
	                             .w_bits = 16,
	                             .out_bits = 16,
	                             .sm_target = 124};
	struct plait_gemm_fact fact = {0};

	open(f);
	for (unsigned i = 0; i < 3; i++)
		assert_true(plait_gemms_fact(f->g, &q, &fact));
	assert_int_equal(lt.heuristics, 1);
	assert_int_equal(fact.tile_m, 256);
	assert_int_equal(fact.tile_n, 128);
	assert_int_equal(fact.cluster_m, 1);
	assert_int_equal(fact.cluster_n, 2);
	assert_int_equal(fact.split_k, 1);
	assert_true(fact.waves > 1.49 && fact.waves < 1.51);
	/* the library does not say it: the planner's machine does */
	assert_false(fact.persistent || fact.dynamic);
	q.sm_target = 0;
	lt.cluster = 0; /* automatic */
	assert_true(plait_gemms_fact(f->g, &q, &fact));
	assert_int_equal(lt.heuristics, 2);
	assert_int_equal(fact.cluster_m * fact.cluster_n, 1);
	/* what is not known is left to the planner's table */
	lt.tile = 9999;
	q.m = 1;
	assert_false(plait_gemms_fact(f->g, &q, &fact));
	lt.found = 0;
	q.m = 2;
	assert_false(plait_gemms_fact(f->g, &q, &fact));
	q.x_bits = 8;
	assert_false(plait_gemms_fact(f->g, &q, &fact));
	assert_false(plait_gemms_fact(NULL, &q, &fact));
}

static void facts_are_asked_in_the_types_and_the_layout_of_the_plan(void **state)
{
	struct fixture *f = *state;
	struct plait_gemm_query q = {.m = 512,
	                             .n = 5120,
	                             .k = 8192,
	                             .x_bits = 16,
	                             .w_bits = 16,
	                             .out_bits = 16,
	                             .x_dtype = "f16",
	                             .w_dtype = "f16",
	                             .out_dtype = "f16"};
	struct plait_gemm_fact fact = {0};

	open(f);
	assert_true(plait_gemms_fact(f->g, &q, &fact));
	assert_int_equal(lt.asked_type, LT_R_16F);
	assert_int_equal(lt.asked_transpose, LT_OP_T);
	q.x_dtype = q.w_dtype = q.out_dtype = "bf16";
	assert_true(plait_gemms_fact(f->g, &q, &fact));
	assert_int_equal(lt.asked_type, LT_R_16BF);
	q.x_dtype = q.w_dtype = q.out_dtype = NULL; /* the same */
	assert_true(plait_gemms_fact(f->g, &q, &fact));
	assert_int_equal(lt.heuristics, 2);
	plait_gemms_weights(f->g, true);
	assert_true(plait_gemms_fact(f->g, &q, &fact));
	assert_int_equal(lt.asked_transpose, LT_OP_N);
	assert_int_equal(lt.heuristics, 3);
	/* several types, and one that is not run */
	q.x_dtype = "f16";
	assert_false(plait_gemms_fact(f->g, &q, &fact));
	q.x_dtype = q.w_dtype = q.out_dtype = "i16";
	assert_false(plait_gemms_fact(f->g, &q, &fact));
	assert_int_equal(lt.heuristics, 3);
	plait_gemms_weights(NULL, true);
}

static void a_shape_without_an_algorithm_is_asked_for_once(void **state)
{
	struct fixture *f = *state;
	struct plait_gemm_query q = {
	        .m = 7, .n = 8, .k = 9, .x_bits = 16, .w_bits = 16, .out_bits = 16};
	struct plait_gemm_fact fact = {0};

	open(f);
	for (int status = LT_SUCCESS; status <= LT_NOT_SUPPORTED; status += LT_NOT_SUPPORTED) {
		struct plait_gemm_call c = call_of(f, 0, status != LT_SUCCESS);

		lt.found = 0;
		lt.status = status; /* either way it says so */
		q.m++;
		lt.heuristics = 0;
		for (unsigned i = 0; i < 3; i++) {
			assert_false(plait_gemms_fact(f->g, &q, &fact));
			assert_int_equal(plait_gemms_run(f->g, &c), PLAIT_ENV);
			assert_non_null(strstr(plait_comm_error(f->c), "no algorithm"));
		}
		assert_int_equal(lt.heuristics, 2);
	}
	/* what failed otherwise may go well later */
	lt.status = 13;
	q.m++;
	for (unsigned i = 0; i < 3; i++)
		assert_false(plait_gemms_fact(f->g, &q, &fact));
	lt.status = 0;
	lt.found = 1;
	assert_true(plait_gemms_fact(f->g, &q, &fact));
	assert_int_equal(lt.heuristics, 6);
}

static void waves_that_make_no_sense_are_left_out(void **state)
{
	static const float nonsense[] = {NAN, INFINITY, -1, 0, 1e30f};
	struct fixture *f = *state;
	struct plait_gemm_query q = {
	        .m = 7, .n = 8, .k = 9, .x_bits = 16, .w_bits = 16, .out_bits = 16};

	open(f);
	for (unsigned i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
		struct plait_gemm_fact fact = {0};

		lt.waves = nonsense[i];
		q.m++;
		assert_true(plait_gemms_fact(f->g, &q, &fact));
		assert_true(fact.waves <= 0 && fact.waves >= 0);
		assert_int_equal(fact.tile_m, 256);
	}
}

/* Another process, whose library chooses otherwise. */
static unsigned other_gathers;

static bool gather_two(struct rt_boot *b, const void *send, void *recv, size_t bytes,
                       struct rt_error *e)
{
	(void)b;
	(void)e;
	memcpy(recv, send, bytes);
	memcpy((char *)recv + bytes, send, bytes);
	if (bytes == 6 * 16)
		((uint32_t *)recv)[bytes / 4 + 2] = 64 << 16 | 256, other_gathers++;
	return true;
}

static void ranks_whose_library_chooses_otherwise_are_named(void **state)
{
	struct fixture *f = *state;
	struct rt_boot two = {.processes = 2, .gather = gather_two}, *own = f->c->boot;

	other_gathers = 0;
	f->c->boot = &two;
	f->c->processes = 2;
	assert_int_equal(rt_gemms_create(f->c, &fake_lt, &f->g), PLAIT_MISMATCH);
	f->c->boot = own;
	f->c->processes = 1;
	assert_null(f->g);
	assert_int_equal(other_gathers, 1);
	assert_non_null(
	        strstr(plait_comm_error(f->c),
	               "chooses tile 256x128, split-K 1 on rank 0 and 64x256, 1 on rank 2"));
}

static void what_does_not_fit_is_named(void **state)
{
	static const char *const said[] = {"'local'", "'m'",   "'m'",   "'m'",        "'dtype'",
	                                   "'dtype'", "'out'", "'out'", "'sm_target'"};
	struct fixture *f = *state;
	struct plait_gemm_call c;
	plait_gemms *none;

	open(f);
	for (unsigned i = 0; i < sizeof said / sizeof *said; i++) {
		c = call_of(f, 0, false);
		c.local = i == 0 ? 2 : 0;
		c.m = i == 1 ? 0 : c.m;
		c.n = i == 2 ? INT64_MAX : c.n;
		c.k = i == 3 ? -1 : c.k;
		c.dtype = i == 4 ? NULL : i == 5 ? "f32" : c.dtype;
		c.x += i == 6 ? 16 : 0;
		c.out = i == 7 ? 0 : c.out;
		c.sm_target = i == 8 ? UINT32_MAX : c.sm_target;
		assert_int_equal(plait_gemms_run(f->g, &c), PLAIT_USAGE);
		if (!strstr(plait_comm_error(f->c), said[i]))
			fail_msg("%u: %s", i, plait_comm_error(f->c));
	}
	c = call_of(f, 0, false);
	c.struct_size = 0;
	assert_int_equal(plait_gemms_run(f->g, &c), PLAIT_USAGE);
	assert_int_equal(plait_gemms_run(f->g, NULL), PLAIT_USAGE);
	assert_int_equal(plait_gemms_run(NULL, &c), PLAIT_USAGE);
	lt.found = 0;
	c = call_of(f, 1, false);
	assert_int_equal(plait_gemms_run(f->g, &c), PLAIT_ENV);
	assert_non_null(strstr(plait_comm_error(f->c), "rank 1: a GEMM of 3 x 5 x 4"));
	assert_non_null(strstr(plait_comm_error(f->c), "no algorithm"));
	assert_int_equal(lt.matmuls, 0);
	assert_int_equal(plait_gemms_create(NULL, &none), PLAIT_USAGE);
	assert_int_equal(plait_gemms_create(f->c, NULL), PLAIT_USAGE);
}

static void a_failure_of_any_call_unwinds_and_is_named(void **state)
{
	struct fixture *f = *state;
	unsigned k = 1, failed = 0;

	for (bool good = false; !good; k++) {
		struct plait_gemm_call c = call_of(f, 1, false);
		enum plait_status s;

		lt.calls = 0;
		lt.fail_at = k;
		s = rt_gemms_create(f->c, &fake_lt, &f->g);
		if (s == PLAIT_OK)
			s = plait_gemms_run(f->g, &c);
		good = s == PLAIT_OK;
		failed += !good;
		if (!good) {
			assert_int_equal(s, PLAIT_ENV);
			assert_non_null(strstr(plait_comm_error(f->c), "execution failed (13)"));
			assert_non_null(strstr(plait_comm_error(f->c), "cublasLt"));
		}
		lt.fail_at = 0;
		/* what failed once is asked again */
		if (f->g)
			assert_int_equal(plait_gemms_run(f->g, &c), PLAIT_OK);
		plait_gemms_free(f->g);
		f->g = NULL;
		assert_int_equal(lt.alive, 0);
	}
	assert_true(failed >= 12);
}

/* First to choose, then to launch. */
static void a_context_that_cannot_be_entered_is_an_error(void **state)
{
	struct fixture *f = *state;
	struct plait_gemm_query q = {
	        .m = 7, .n = 8, .k = 9, .x_bits = 16, .w_bits = 16, .out_bits = 16};
	struct plait_gemm_fact fact = {0};

	open(f);
	for (unsigned k = 1; k <= 2; k++) {
		struct plait_gemm_call c = call_of(f, 1, k == 2);

		lt.contexts = 0;
		lt.no_context = k;
		assert_int_equal(plait_gemms_run(f->g, &c), PLAIT_ENV);
		assert_non_null(strstr(plait_comm_error(f->c), "rank 1: a GEMM of 3 x 5 x 4"));
		assert_non_null(strstr(plait_comm_error(f->c), "cuCtxPushCurrent_v2"));
		assert_int_equal(lt.matmuls, 0);
	}
	lt.contexts = 0;
	lt.no_context = 1;
	assert_false(plait_gemms_fact(f->g, &q, &fact));
	lt.no_context = 0;
}

static void where_there_is_no_cuBLASLt_it_is_said(void **state)
{
	struct rt_blaslt t;
	struct rt_error e = {0};

	(void)state;
	assert_int_equal(rt_blaslt_open(&t, "/nowhere/libcublasLt.so.13", &e), PLAIT_ENV);
	assert_non_null(strstr(e.text, "cuBLASLt cannot be opened"));
	rt_error_clear(&e);
	assert_int_equal(rt_blaslt_open(&t, "libm.so.6", &e), PLAIT_ENV);
	assert_non_null(strstr(e.text, "has no 'cublasLtGetVersion'"));
	assert_string_equal(rt_blaslt_symbol(RT_BLASLT_NO_matmul), "cublasLtMatmul");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(a_gemm_multiplies_rows_by_weights_in_both_layouts),
	        TEST(facts_are_in_rows_by_columns_and_remembered),
	        TEST(facts_are_asked_in_the_types_and_the_layout_of_the_plan),
	        TEST(a_shape_without_an_algorithm_is_asked_for_once),
	        TEST(waves_that_make_no_sense_are_left_out),
	        TEST(ranks_whose_library_chooses_otherwise_are_named),
	        TEST(what_does_not_fit_is_named),
	        TEST(a_failure_of_any_call_unwinds_and_is_named),
	        TEST(a_context_that_cannot_be_entered_is_an_error),
	        TEST(where_there_is_no_cuBLASLt_it_is_said),
	};

	return cmocka_run_group_tests_name("gemms", tests, NULL, NULL);
}
