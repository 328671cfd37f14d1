/*
 * Protocols that sum in order of ranks, on simulated ranks: the same bits whichever protocol, any payload, any sequence of row counts
 * and grids on one workspace; and the push protocols' liveness: who does not come is named, what does not agree is reported.
 */
#include "tests/unit/cg_world.h"
#include <math.h>

/* clang-format off */
static const char spec[] =
	"kernel sum(x: bf16[T, 136] partial) -> y: bf16[T, 136] replicated { out y = all_reduce(x); }\n"
	"kernel twice(x: bf16[T, 136] partial) -> y: bf16[T, 136] replicated { out y = 2 * all_reduce(x); }\n"
	"kernel sum_f32(x: f32[T, 136] partial) -> y: f32[T, 136] replicated { out y = all_reduce(x); }\n"
	"kernel sum_f16(x: f16[T, 136] partial) -> y: f16[T, 136] replicated { out y = all_reduce(x); }\n";
/* clang-format on */

enum { COLS = 136, LAUNCHES = 12 };

static const enum cg_protocol protocols[] = {CG_PUSH, CG_MM_PUSH, CG_P2P_TWOSHOT};
enum { NPROTOCOLS = sizeof protocols / sizeof protocols[0] };

static struct world begin(struct cg_fixture *f, unsigned tp, unsigned most, unsigned size,
                          struct sim_options o, uint64_t limit_ns, uint32_t number)
{
	struct world w = {.f = f, .o = o, .tp = tp, .cols = COLS, .most = most, .size = size};

	w.o.ranks = tp;
	w.sim = sim_new(&f->arena, &w.o);
	world_memory(&w, (uint64_t)COLS * size, limit_ns, number);
	return w;
}

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* ---- the reference: f32, from +0, in order of ranks ---- */

static float bf16(uint16_t b)
{
	uint32_t u = (uint32_t)b << 16;
	float f;

	memcpy(&f, &u, 4);
	return f;
}

static uint16_t to_bf16(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	if (isnan(f))
		return 0x7fff;
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static uint16_t sum_of(uint16_t *const *x, unsigned tp, size_t i)
{
	float acc = 0.0f;

	for (unsigned r = 0; r < tp; r++)
		acc += bf16(x[r][i]);
	return to_bf16(acc);
}

/* ---- sequences of launches ---- */

struct turn { /* one launch on all ranks */
	struct world *w;
	uint32_t T;
	uint16_t **x;
};

static bool before(void *ctx, struct sim *sim, unsigned rank)
{
	const struct turn *q = ctx;

	if (!q->T)
		return true;
	return sim_undefine(sim, q->w->y.uc[rank], (uint64_t)q->T * COLS * 2) &&
	       sim_write(sim, q->w->x.uc[rank], q->x[rank], (uint64_t)q->T * COLS * 2);
}

static bool after(void *ctx, struct sim *sim, unsigned rank)
{
	const struct turn *q = ctx;
	size_t n = (size_t)q->T * COLS;
	uint16_t *y = arena_alloc(&q->w->f->arena, n * 2 + 2);

	sim_read(sim, q->w->y.uc[rank], y, n * 2);
	for (size_t i = 0; i < n; i++)
		if (y[i] != sum_of(q->x, q->w->tp, i))
			fail_msg("rank %u, T %u, element %zu: %04x, not %04x", rank, q->T, i, y[i],
			         sum_of(q->x, q->w->tp, i));
	return true;
}

static void run_sequence(struct cg_fixture *f, enum cg_protocol p, unsigned tp, uint64_t seed,
                         enum sim_schedule schedule, uint32_t number)
{
	struct sim_options o = {.seed = seed,
	                        .schedule = schedule,
	                        .slow_rank = (unsigned)seed % tp,
	                        .max_start_delay = 500};
	struct world w = begin(f, tp, 12, 2, o, 0, number);
	struct loaded l = world_load(&w, spec, "sum", p, (enum cg_order)(seed % 3));
	struct turn turn[LAUNCHES];

	for (unsigned i = 0; i < LAUNCHES; i++) {
		uint64_t h = mix(seed * 64 + i + 1);
		unsigned grid = (unsigned)(h >> 8) % 5 + 1;

		turn[i] = (struct turn){&w, (uint32_t)(h % 13),
		                        arena_news(&f->arena, uint16_t *, tp)};
		for (unsigned r = 0; r < tp; r++) {
			uint16_t *x = turn[i].x[r] = arena_alloc(&f->arena, 12 * COLS * 2);

			for (unsigned k = 0; k < 12 * COLS; k++)
				x[k] = (uint16_t)mix(h + r * 4096 + k);
			sim_host(w.sim, r, 0, before, &turn[i]);
			world_launch(&w, l, r, turn[i].T, grid);
			sim_host(w.sim, r, 0, after, &turn[i]);
		}
	}
	world_run(&w);
	for (unsigned r = 0; r < tp; r++)
		assert_int_equal(world_workspace(&w, r).abort, 0);
}

static void any_sequence_of_rows_and_grids_gives_the_sums(void **state)
{
	static const unsigned tps[] = {1, 2, 3, 5, 8, 16};

	for (unsigned i = 0; i < NPROTOCOLS; i++)
		for (unsigned t = 0; t < sizeof tps / sizeof tps[0]; t++)
			for (unsigned schedule = 0; schedule < 3; schedule++) {
				run_sequence(*state, protocols[i], tps[t], 3 * t + schedule + 1,
				             (enum sim_schedule)schedule,
				             schedule == 1 ? CG_PUSH_WRAP - 4 : 0);
				arena_free(&((struct cg_fixture *)*state)->arena);
				cg_begin(*state);
			}
}

/* Every pattern of 16 bits at even and at odd places; the other half of its word is any pattern that might make it a sentinel. */
static void every_payload_arrives(void **state)
{
	static const uint16_t others[] = {0x0000, 0x8000};
	enum { ROWS = 2 * 65536 / COLS + 1 };
	struct cg_fixture *f = *state;

	for (unsigned i = 0; i < NPROTOCOLS; i++)
		for (unsigned other = 0; other < 2; other++) {
			struct world w = begin(f, 2, ROWS, 2, (struct sim_options){0}, 0, 0);
			struct loaded l = world_load(&w, spec, "sum", protocols[i], CG_FORMAL);
			size_t n = (size_t)ROWS * COLS;
			uint16_t *x[2], *y = arena_alloc(&f->arena, n * 2);

			for (unsigned r = 0; r < 2; r++) {
				x[r] = arena_alloc(&f->arena, n * 2);
				for (size_t k = 0; k < n; k++)
					x[r][k] = k % 2 == r ? (uint16_t)(k / 2) : others[other];
				sim_write(w.sim, w.x.uc[r], x[r], n * 2);
				world_launch(&w, l, r, ROWS, 64);
			}
			world_run(&w);
			for (unsigned r = 0; r < 2; r++) {
				sim_read(w.sim, w.y.uc[r], y, n * 2);
				for (size_t k = 0; k < n; k++)
					if (y[k] != sum_of(x, 2, k))
						fail_msg("%s: %04x + %04x is %04x",
						         cg_protocol_name(protocols[i]), x[0][k],
						         x[1][k], y[k]);
			}
			arena_free(&f->arena);
			cg_begin(f);
		}
}

/* f32: the sentinel itself, and what is near; two launches, so that what was cleared is used again. */
static void negative_zero_arrives_in_f32(void **state)
{
	static const float some[] = {-0.0f, 0.0f, 1.0f, -1e-45f, -INFINITY, 3e38f, -3e38f};

	for (unsigned i = 0; i < NPROTOCOLS; i++) {
		struct world w = begin(*state, 3, 4, 4, (struct sim_options){0}, 0, 0);
		struct loaded l = world_load(&w, spec, "sum_f32", protocols[i], CG_FORMAL);
		float x[3][4 * COLS], y[4 * COLS];

		for (unsigned r = 0; r < 3; r++) {
			for (unsigned k = 0; k < 4 * COLS; k++)
				x[r][k] = some[mix(r * 1000 + k) % 7];
			sim_write(w.sim, w.x.uc[r], x[r], sizeof x[r]);
			for (unsigned n = 0; n < 5; n++)
				world_launch(&w, l, r, 4, 2);
		}
		world_run(&w);
		for (unsigned r = 0; r < 3; r++) {
			sim_read(w.sim, w.y.uc[r], y, sizeof y);
			for (unsigned k = 0; k < 4 * COLS; k++) {
				float want = 0.0f + x[0][k] + x[1][k] + x[2][k];

				assert_true(isnan(want) ? isnan(y[k]) : !memcmp(&y[k], &want, 4));
			}
		}
	}
}

/* ---- who does not come, what does not agree ---- */

static const enum cg_protocol pushes[] = {CG_PUSH, CG_MM_PUSH};

static void write_ones(struct world *w)
{
	uint16_t one[12 * COLS];

	for (unsigned i = 0; i < 12 * COLS; i++)
		one[i] = 0x3f80;
	for (unsigned r = 0; r < w->tp; r++)
		sim_write(w->sim, w->x.uc[r], one, sizeof one);
}

static struct world quick(void **state, enum cg_protocol p, struct loaded *l, bool jump)
{
	struct world w = begin(*state, 4, 12, 2, (struct sim_options){.jump_time = jump},
	                       jump ? 100000 : UINT64_MAX, 0);

	write_ones(&w);
	*l = world_load(&w, spec, "sum", p, CG_FORMAL);
	return w;
}

static void assert_nothing_written(struct world *w)
{
	for (unsigned r = 0; r < w->tp; r++)
		for (unsigned i = 0; i < w->most * COLS * 2; i++)
			assert_false(sim_defined(w->sim, w->y.uc[r] + i, 1));
}

static void a_rank_that_does_not_push_is_named(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct loaded l;
		struct world w = quick(state, pushes[i], &l, true);
		unsigned timeouts = 0;

		for (unsigned r = 0; r < 4; r++)
			if (r != 2)
				world_launch(&w, l, r, 6, 2);
		world_run(&w);
		assert_nothing_written(&w);
		for (unsigned r = 0; r < 4; r++) {
			struct cg_workspace ws = world_workspace(&w, r);

			assert_int_equal(ws.abort, 1);
			assert_int_equal(ws.push[i].phase, 0);
			if (ws.record.kind != CG_WS_TIMEOUT)
				continue;
			timeouts++;
			assert_int_equal(ws.record.peer, 2);
			assert_int_equal(ws.record.rank, r);
			assert_true(ws.record.phase == 0 || ws.record.phase == 2);
			assert_int_equal(ws.record.kernel, (uint32_t)l.k->contract);
		}
		assert_true(timeouts >= 1);
		/* and it stays dead */
		for (unsigned r = 0; r < 4; r++)
			world_launch(&w, l, r, 6, 2);
		world_run(&w);
		assert_nothing_written(&w);
	}
}

/* p2p-twoshot meets at barriers, whose records are tested with mm-twoshot (test_cg_barrier.c): here that peers are told. */
static void peers_that_do_not_come_are_named(void **state)
{
	struct loaded l;
	struct world w = quick(state, CG_P2P_TWOSHOT, &l, true);
	unsigned timeouts = 0;

	for (unsigned r = 0; r < 3; r++)
		world_launch(&w, l, r, 6, 2);
	world_run(&w);
	assert_nothing_written(&w);
	for (unsigned r = 0; r < 4; r++) {
		struct cg_workspace ws = world_workspace(&w, r);

		assert_int_equal(ws.abort, 1);
		assert_int_equal(ws.epoch[0], 0);
		timeouts += ws.record.kind == CG_WS_TIMEOUT;
		if (ws.record.kind == CG_WS_TIMEOUT)
			assert_int_equal(ws.record.peer, 3);
	}
	assert_true(timeouts >= 1);
	world_launch(&w, l, 3, 6, 2);
	world_run(&w);
	assert_true(world_workspace(&w, 0).slot[0][3] == 0); /* rank 3 has not even arrived */
}

static void peers_of_another_T_are_reported(void **state)
{
	struct loaded l;
	struct world w = quick(state, CG_P2P_TWOSHOT, &l, false);
	unsigned found = 0;

	for (unsigned r = 0; r < 4; r++)
		world_launch(&w, l, r, r == 1 ? 5 : 6, 1);
	world_run(&w);
	assert_nothing_written(&w);
	for (unsigned r = 0; r < 4; r++) {
		assert_int_equal(world_workspace(&w, r).abort, 1);
		found += world_workspace(&w, r).record.kind == CG_WS_CONTRACT;
	}
	assert_true(found >= 1);
}

/* No limit and no jumps of time: what disagrees is seen, not waited out. */
static void expect_contract(struct world *w, unsigned odd)
{
	unsigned found = 0;

	world_run(w);
	for (unsigned r = 0; r < w->tp; r++) {
		struct cg_workspace ws = world_workspace(w, r);

		assert_int_equal(ws.abort, 1);
		if (ws.record.kind != CG_WS_CONTRACT)
			continue;
		found++;
		if (r != odd)
			assert_int_equal(ws.record.peer, odd);
		assert_true(ws.record.expected != ws.record.seen);
		assert_int_equal((uint32_t)ws.record.expected, (uint32_t)ws.record.seen);
	}
	assert_true(found >= 1);
}

static void another_T_is_reported(void **state)
{
	for (unsigned i = 0; i < 2; i++)
		for (unsigned T = 1; T <= 8; T += 7) {
			struct loaded l;
			struct world w = quick(state, pushes[i], &l, false);

			for (unsigned r = 0; r < 4; r++)
				world_launch(&w, l, r, r == 1 ? T : 6, 2);
			expect_contract(&w, 1);
		}
}

static void another_kernel_is_reported(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct loaded l;
		struct world w = quick(state, pushes[i], &l, false);
		struct loaded m = world_load(&w, spec, "twice", pushes[i], CG_FORMAL);

		for (unsigned r = 0; r < 4; r++)
			world_launch(&w, r == 3 ? m : l, r, 6, 1);
		expect_contract(&w, 3);
	}
}

static void rows_beyond_the_buffer_are_reported(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct loaded l;
		struct world w = quick(state, pushes[i], &l, false);
		uint64_t room = cg_exchange_bytes(&l.k->plan, 11) / 3;

		for (unsigned r = 0; r < 4; r++) {
			struct cg_workspace ws = world_workspace(&w, r);

			ws.push[i].stride = room;
			sim_write(w.sim, w.ws.uc[r], &ws, sizeof ws);
			world_launch(&w, l, r, 12, 2);
		}
		world_run(&w);
		assert_nothing_written(&w);
		for (unsigned r = 0; r < 4; r++) {
			struct cg_workspace ws = world_workspace(&w, r);

			assert_int_equal(ws.abort, 1);
			assert_true(ws.record.kind == CG_WS_ROWS || ws.record.kind == CG_WS_PEER);
			if (ws.record.kind != CG_WS_ROWS)
				continue;
			assert_true(ws.record.expected == cg_exchange_bytes(&l.k->plan, 12) / 3);
			assert_true(ws.record.seen == room);
		}
	}
}

/* T = 0 leaves the state alone; other launches count one each. */
static void only_launches_with_rows_count(void **state)
{
	static const uint32_t T[] = {3, 0, 5, 0, 0, 1};

	for (unsigned i = 0; i < 2; i++) {
		struct loaded l;
		struct world w = quick(state, pushes[i], &l, false);

		for (unsigned n = 0; n < 6; n++)
			for (unsigned r = 0; r < 4; r++)
				world_launch(&w, l, r, T[n], 3);
		world_run(&w);
		for (unsigned r = 0; r < 4; r++) {
			struct cg_workspace ws = world_workspace(&w, r);

			assert_int_equal(ws.push[i].phase, 3);
			assert_int_equal(ws.push[i].done, 0);
			assert_true(ws.push[i].dirty == cg_exchange_bytes(&l.k->plan, 1) / 3);
			assert_int_equal(ws.push[1 - i].phase, 0);
		}
	}
}

/* Kernels of other rows and dtypes take turns on one exchange buffer. */
static void kernels_share_a_buffer(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct world w = begin(*state, 3, 8, 4, (struct sim_options){0}, 0, 0);
		struct loaded f32 = world_load(&w, spec, "sum_f32", pushes[i], CG_FORMAL);
		struct loaded f16 = world_load(&w, spec, "sum_f16", pushes[i], CG_FORMAL);
		float x[8 * COLS], y[8 * COLS];

		for (unsigned k = 0; k < 8 * COLS; k++)
			x[k] = k % 3 ? (float)k : -0.0f;
		for (unsigned r = 0; r < 3; r++) {
			sim_write(w.sim, w.x.uc[r], x, sizeof x);
			for (unsigned n = 0; n < 9; n++)
				world_launch(&w, n % 2 ? f16 : f32, r, 1 + n % 8, 1 + n % 3);
		}
		world_run(&w);
		for (unsigned r = 0; r < 3; r++) {
			assert_int_equal(world_workspace(&w, r).abort, 0);
			sim_read(w.sim, w.y.uc[r], y, COLS * 4);
			for (unsigned k = 0; k < COLS; k++)
				assert_true(y[k] == 3 * x[k]);
		}
	}
}

/* What orders the clearing before peers' later launches: a fence of each thread that stores a header, before it; and all reads
 * of headers acquire, unless the order is the hardware's. */
struct fences {
	unsigned stores, reads;
	enum cg_order order;
	bool fenced[4][64];
	bool bad;
};

static void note(void *ctx, const struct sim_access *a)
{
	struct fences *n = ctx;
	const struct ptx_insn *in = a->insn;
	bool header = in->mod.scope == PTX_SYS && in->mod.vec == 2;

	if (a->thread >= 32 || a->cta)
		return;
	if (a->kind == SIM_ACC_FENCE) {
		n->fenced[a->rank][a->thread] = true;
	} else if (header && a->kind == SIM_ACC_WRITE) {
		n->stores++;
		n->bad |= !n->fenced[a->rank][a->thread];
	} else if (header && a->kind == SIM_ACC_READ) {
		n->reads++;
		n->bad |= (in->mod.order == PTX_ACQUIRE) != (n->order != CG_HW);
	}
}

static void headers_are_released_and_acquired_by_their_own_threads(void **state)
{
	for (unsigned i = 0; i < 2; i++)
		for (unsigned order = CG_FORMAL; order <= CG_STRICT; order++) {
			struct fences n = {.order = (enum cg_order)order};
			struct sim_options o = {.on_access = note, .ctx = &n};
			struct world w = begin(*state, 4, 12, 2, o, UINT64_MAX, 0);
			struct loaded l =
			        world_load(&w, spec, "sum", pushes[i], (enum cg_order)order);

			write_ones(&w);
			for (unsigned r = 0; r < 4; r++)
				world_launch(&w, l, r, 5, 2);
			world_run(&w);
			assert_false(n.bad);
			assert_true(n.stores >= 4 && n.reads >= 4 * 32);
		}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cg_set_up, cg_tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(any_sequence_of_rows_and_grids_gives_the_sums),
	        TEST(every_payload_arrives),
	        TEST(negative_zero_arrives_in_f32),
	        TEST(a_rank_that_does_not_push_is_named),
	        TEST(peers_that_do_not_come_are_named),
	        TEST(peers_of_another_T_are_reported),
	        TEST(another_T_is_reported),
	        TEST(another_kernel_is_reported),
	        TEST(rows_beyond_the_buffer_are_reported),
	        TEST(only_launches_with_rows_count),
	        TEST(kernels_share_a_buffer),
	        TEST(headers_are_released_and_acquired_by_their_own_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
