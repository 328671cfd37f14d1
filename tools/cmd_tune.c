/* plait tune: measures protocols and CTAs over T on this machine, and writes the selection table. */
#include "runtime/cache.h"
#include "runtime/stage.h"
#include "runtime/table.h"
#include "tools/bench_subject.h"
#include "tools/commands.h"
#include "tools/pipeline.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
static const int64_t usual[] = {1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
static const unsigned grids[] = {1, 2, 4, 8, 10, 11, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};
/* clang-format on */

#define COUNT(x) (sizeof(x) / sizeof *(x))
#define SLACK    1.01 /* the fewest CTAs within it of the best */

/* Rows from which a kernel may run beside a GEMM, so that it gets few CTAs; a push needs them all. */
enum { ROUNDS = 9, MANY_ROWS = 1024, FEW_CTAS = 12, PUSH_ROWS = 2048 };

struct tune {
	const struct args *args;
	struct bench_gpu g;
	struct bench_subject s;
	struct rt_table table;
	size_t cap;
	unsigned few;
};

static void keep(struct tune *t, uint64_t T, enum cg_protocol p, unsigned ctas, double us)
{
	t->table.point = arena_grow(t->args->arena, t->table.point, t->table.n, &t->cap,
	                            t->table.n + 1, sizeof *t->table.point);
	t->table.point[t->table.n++] = (struct cg_point){t->s.sum_bytes, T, p, ctas, us};
}

/* The grids to try, as the kernel would launch them: no two alike. */
static unsigned candidates(const struct tune *t, const struct bench_plait *p, bool push, uint64_t T,
                           unsigned *to)
{
	unsigned n = 0, most = UINT32_MAX;

	if (T >= MANY_ROWS && !push)
		most = t->few;
	for (size_t i = 0; i < COUNT(grids); i++) {
		unsigned grid = rt_stage_grid(p->stage, p->stage->image.variant[0].k, T,
		                              grids[i] < most ? grids[i] : most);

		if (!n || to[n - 1] < grid)
			to[n++] = grid;
	}
	return n;
}

/* The time of each grid, all alternated; the fewest CTAs that are near the best. */
static bool tune_point(struct tune *t, const struct bench_plait *p, enum cg_protocol protocol,
                       uint64_t T)
{
	bool push = cg_push_set(protocol) >= 0;
	struct bench_plait way[COUNT(grids)];
	struct bench_contender c[COUNT(grids)];
	struct bench_cell cell[COUNT(grids)];
	double us[COUNT(grids)], best = INFINITY;
	unsigned ctas[COUNT(grids)], n = candidates(t, p, push, T, ctas);

	for (unsigned i = 0; i < n; i++) {
		way[i] = *p;
		way[i].ctas = ctas[i];
		c[i] = bench_plait_contender(&way[i], cg_protocol_name(protocol));
	}
	if (!bench_time(&t->g, c, n, T, ROUNDS, cell))
		return false;
	for (unsigned i = 0; i < n; i++) {
		us[i] = bench_stat_of(cell[i].us, ROUNDS, t->g.a).median;
		best = fmin(best, us[i]);
		if (t->args->remarks)
			fprintf(stderr, "T %llu %s %u CTAs: %.2f us\n", (unsigned long long)T,
			        cg_protocol_name(protocol), ctas[i], us[i]);
	}
	for (unsigned i = 0; i < n; i++)
		if (us[i] <= SLACK * best) {
			keep(t, T, protocol, ctas[i], us[i]);
			break;
		}
	return true;
}

static bool asked(const struct tune *t, enum cg_protocol p)
{
	const struct args *args = t->args;
	bool mc = cg_protocol_info[p].memory == CG_SYM_MULTICAST;

	for (unsigned k = 0; k < args->nprotocol; k++)
		if (args->protocols[k] == p)
			return true;
	return !args->nprotocol && p != CG_LOCAL && (!mc || t->table.key.multicast);
}

static bool tune_protocol(struct tune *t, enum cg_protocol protocol, uint64_t most)
{
	const char *name = cg_protocol_name(protocol);
	struct bench_plait *p;

	if (cg_push_set(protocol) >= 0 && most > PUSH_ROWS)
		most = PUSH_ROWS;
	p = bench_plait_new(&t->s, name, most);
	if (!p) {
		fprintf(stderr, "plait tune: without %s: %s\n", name, t->g.e.text);
		rt_error_clear(&t->g.e);
		return true;
	}
	for (size_t i = 0; i < t->args->ntokens; i++)
		if ((uint64_t)t->args->tokens[i] <= most &&
		    !tune_point(t, p, protocol, (uint64_t)t->args->tokens[i]))
			return false;
	return true;
}

/* ---- the table ---- */

/* Where it goes, and what is there of other row lengths. */
static int write_table(struct tune *t)
{
	const struct args *args = t->args;
	struct rt_table old;
	struct rt_cache cache;
	struct diags d;
	const char *path = args->out;
	enum status s;

	diags_init(&d, args->arena);
	if (!path) {
		rt_cache_open(&cache, NULL, args->arena);
		path = cache.dir < 0 ? NULL : rt_table_path(cache.path, &t->table.key, args->arena);
		if (!path) {
			fprintf(stderr, "plait tune: no folder for the table: %s\n", cache.why);
			return 3;
		}
		rt_cache_close(&cache);
	}
	if (rt_table_load(&old, path, args->arena, &d) == ST_OK &&
	    !rt_table_differs(&old.key, &t->table.key, args->arena)) {
		rt_table_merge(&old, &t->table, args->arena);
		t->table = old;
	}
	diags_init(&d, args->arena);
	s = rt_table_save(&t->table, path, args->arena, &d);
	if (s != ST_OK) {
		fprintf(stderr, "plait tune: %s\n", d.head->text);
		return 3;
	}
	fputs(rt_table_text(&t->table, args->arena), stdout);
	fprintf(stderr, "plait tune: %s\n", path);
	return 0;
}

static bool measure(struct tune *t, const struct bench_spec *spec, uint64_t most)
{
	if (!bench_gpu_open(&t->g, t->args->tp, 0, t->args->arena) ||
	    !bench_subject_open(&t->s, &t->g, spec, most))
		return false;
	if (!t->s.sum_bytes) {
		rt_fail(&t->g.e, PLAIT_INPUT, "'%s' sums nothing over the ranks", t->s.kernel);
		return false;
	}
	rt_machine_key(t->s.comm, t->args->arena, &t->table.key);
	for (int i = CG_AUTO + 1; i < CG_NPROTOCOLS; i++)
		if (asked(t, (enum cg_protocol)i) && !tune_protocol(t, (enum cg_protocol)i, most))
			return false;
	return true;
}

static int gave_up(struct tune *t)
{
	enum plait_status s = t->g.e.status;

	fprintf(stderr, "plait tune: %s\n", t->g.e.text);
	return s == PLAIT_INPUT ? 1 : s == PLAIT_USAGE ? 2 : s == PLAIT_INTERNAL ? 4 : 3;
}

int cmd_tune(struct args *args)
{
	struct tune t = {.args = args, .few = args->ctas ? args->ctas : FEW_CTAS};
	struct plait_set *set = arena_news(args->arena, struct plait_set, args->nset + 1);
	struct bench_spec spec = {.name = args->spec,
	                          .kernel = args->kernel,
	                          .set = set,
	                          .nset = args->nset,
	                          .table = "",
	                          .dependent = args->pdl != CG_PDL_NONE,
	                          .plain = args->plain};
	uint64_t most = 0;
	const char *error;
	char *text;
	int code;

	if (!read_file(args->arena, args->spec, &text, &spec.len, &error)) {
		fprintf(stderr, "plait tune: %s: %s\n", args->spec, error);
		return 1;
	}
	spec.text = text;
	for (size_t i = 0; i < args->nset; i++)
		set[i] = (struct plait_set){args->set[i].name, args->set[i].value};
	if (!args->ntokens) {
		args->tokens = (int64_t *)(uintptr_t)usual;
		args->ntokens = COUNT(usual);
	}
	for (size_t i = 0; i < args->ntokens; i++) {
		if (!args->tokens[i])
			return args_wrong(args, "--tokens are row counts from 1");
		most = (uint64_t)args->tokens[i] > most ? (uint64_t)args->tokens[i] : most;
	}
	code = measure(&t, &spec, most) ? write_table(&t) : gave_up(&t);
	if (t.s.g)
		bench_subject_close(&t.s);
	bench_gpu_close(&t.g);
	return code;
}
