/*
 * A `deterministic` row has the same bits whatever it stands beside: at any place among T rows, with any grid, by any protocol that
 * may do it (design section 3).  In f32, where no rounding at the end hides a difference.
 */
#include "tests/unit/cg_world.h"

/* clang-format off */
static const char spec[] =
	"kernel rms(x: f32[T, 1000] partial) -> y: f32[T, 1000] { deterministic; h = all_reduce(x);\n"
	"    out y = h * rsqrt(row_mean(h * h) + 1e-5); }\n"
	"kernel layer(x: f32[T, 1000] partial) -> y: f32[T, 1000] { deterministic; h = all_reduce(x);\n"
	"    c = h - row_mean(h); out y = c * rsqrt(row_mean(c * c) + 1e-5); }\n"
	"kernel groups(x: f32[T, 1000] partial) -> y: f32[T, 1000] { deterministic; h = all_reduce(x);\n"
	"    g = h * expand(rsqrt(group_mean(h * h, 8) + 1e-5), 8); out y = g * rsqrt(row_mean(g * g) + 1e-5); }\n";
static const char *const kernels[] = {"rms", "layer", "groups"};
/* clang-format on */

enum { COLS = 1000, KEYS = 5, MOST = 11, ROW = COLS * 4, NKERNELS = 3 };

struct launch { /* of all ranks: row t has the data of key (from + t) % KEYS */
	struct world *w;
	uint32_t T, from;
	float (*want)[COLS]; /* of each key, from the first launch of all */
	bool *known;
	const char *what;
};

static uint32_t mix(uint32_t z)
{
	z = (z ^ z >> 16) * 0x7feb352du;
	z = (z ^ z >> 15) * 0x846ca68bu;
	return z ^ z >> 16;
}

/* In [-1, 1), of magnitudes that make sums round. */
static float element(unsigned key, unsigned rank, unsigned c)
{
	uint32_t h = mix(c + 1024 * rank + 65536 * key + 1);

	return ((float)(h >> 8) * 0x1p-23f - 1.0f) * (h & 7 ? 1.0f : 64.0f);
}

static bool fill(void *ctx, struct sim *sim, unsigned rank)
{
	const struct launch *l = ctx;
	float row[COLS];

	for (unsigned t = 0; t < l->T; t++) {
		for (unsigned c = 0; c < COLS; c++)
			row[c] = element((l->from + t) % KEYS, rank, c);
		if (!sim_write(sim, l->w->x.uc[rank] + t * ROW, row, ROW))
			return false;
	}
	return sim_undefine(sim, l->w->y.uc[rank], (uint64_t)l->T * ROW);
}

static bool compare(void *ctx, struct sim *sim, unsigned rank)
{
	const struct launch *l = ctx;
	float row[COLS];

	for (unsigned t = 0; t < l->T; t++) {
		unsigned key = (l->from + t) % KEYS;

		if (!sim_read(sim, l->w->y.uc[rank] + t * ROW, row, ROW))
			return false;
		if (!l->known[key])
			memcpy(l->want[key], row, ROW);
		l->known[key] = true;
		for (unsigned c = 0; c < COLS; c++)
			if (memcmp(&row[c], &l->want[key][c], 4))
				fail_msg("%s: rank %u, row %u of %u, element %u: %a, elsewhere %a",
				         l->what, rank, t, l->T, c, (double)row[c],
				         (double)l->want[key][c]);
	}
	return true;
}

/* Several launches by one protocol; the first row of all that has a key says what its bits are. */
static void launch_all(struct cg_fixture *f, const char *kernel, enum cg_protocol p, unsigned tp,
                       float (*want)[COLS], bool *known)
{
	static const struct {
		uint32_t T, from;
		unsigned grid;
	} shape[] = {{5, 0, 3}, {1, 3, 1}, {MOST, 2, 2}, {8, 4, 8}, {3, 1, 5}};
	enum { N = sizeof shape / sizeof shape[0] };
	struct world w = {.f = f,
	                  .tp = tp,
	                  .cols = COLS,
	                  .most = MOST,
	                  .size = 4,
	                  .o = {.ranks = tp, .seed = tp, .schedule = SIM_RANDOM}};
	struct launch l[N];
	struct loaded k;

	w.sim = sim_new(&f->arena, &w.o);
	world_memory(&w, ROW, 0, 0);
	k = world_load(&w, spec, kernel, p, CG_FORMAL);
	for (unsigned i = 0; i < N; i++) {
		l[i] = (struct launch){.w = &w,
		                       .T = shape[i].T,
		                       .from = shape[i].from,
		                       .want = want,
		                       .known = known};
		l[i].what = arena_printf(&f->arena, "%s by %s, tp %u, %u CTAs", kernel,
		                         cg_protocol_name(p), tp, shape[i].grid);
		for (unsigned r = 0; r < tp; r++) {
			sim_host(w.sim, r, 0, fill, &l[i]);
			world_launch(&w, k, r, l[i].T, shape[i].grid);
			sim_host(w.sim, r, 0, compare, &l[i]);
		}
	}
	world_run(&w);
}

static void a_row_has_the_same_bits_at_any_place_in_any_grid_by_any_protocol(void **state)
{
	static const enum cg_protocol protocols[] = {CG_P2P_TWOSHOT, CG_P2P_BULK, CG_PUSH,
	                                             CG_MM_PUSH};
	static const unsigned tps[] = {2, 3, 8};
	static float want[KEYS][COLS];
	struct cg_fixture *f = *state;

	for (unsigned k = 0; k < NKERNELS; k++)
		for (unsigned t = 0; t < sizeof tps / sizeof tps[0]; t++) {
			bool known[KEYS] = {false};

			for (unsigned p = 0; p < sizeof protocols / sizeof protocols[0]; p++) {
				launch_all(f, kernels[k], protocols[p], tps[t], want, known);
				arena_free(&f->arena);
				cg_begin(f);
			}
			for (unsigned i = 0; i < KEYS; i++)
				assert_true(known[i]);
		}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cg_set_up, cg_tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(a_row_has_the_same_bits_at_any_place_in_any_grid_by_any_protocol),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
