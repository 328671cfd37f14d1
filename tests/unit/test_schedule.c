/* Schedules on a driver whose GPUs are simulated: GEMMs are functions of the host's in the ranks' streams. */
#include "tests/unit/unit.h"
#include "tests/fake/sim_driver.h"
#include "runtime/schedule.h"
#include <math.h>
#include <stdio.h>

enum { MOST_GPUS = 4, HIDDEN = 256, FFN = 128, LAYERS = 2, MOST = 160, TENSORS = 8 };

static const char spec[] =
        "const hidden = 256, ffn = 128, layers = 2;\n"
        "kernel first_norm(x: bf16[T, hidden] partial, inout residual: bf16[T, hidden] carried,\n"
        "                  gamma: bf16[hidden]) -> y: bf16[T, hidden] replicated\n"
        "{\n"
        "    h = all_reduce(x);\n"
        "    out residual = h;\n"
        "    out y = rmsnorm(h, gamma, eps = 1e-5);\n"
        "}\n"
        "kernel add_norm(x: bf16[T, hidden] partial, inout residual: bf16[T, hidden] carried,\n"
        "                gamma: bf16[hidden]) -> y: bf16[T, hidden] replicated\n"
        "{\n"
        "    h = all_reduce(x) + residual;\n"
        "    out residual = h;\n"
        "    out y = rmsnorm(h, gamma, eps = 1e-5);\n"
        "}\n"
        "model small {\n"
        "    input e: bf16[T, hidden] partial;\n"
        "    state residual: bf16[T, hidden] carried;\n"
        "    weight g[2 * layers + 1]: bf16[hidden];\n"
        "    weight w_qkv[layers]: bf16[hidden, hidden] columns;\n"
        "    weight w_o[layers]: bf16[hidden, hidden] rows;\n"
        "    weight w_up[layers]: bf16[hidden, ffn] columns;\n"
        "    weight w_down[layers]: bf16[ffn, hidden] rows;\n"
        "    y = first_norm(e, residual, g[0]);\n"
        "    repeat i in 0..layers {\n"
        "        qkv = gemm(y, w_qkv[i]);\n"
        "        a = opaque attention(qkv) -> bf16[T, hidden] columns\n"
        "            cost attention(heads = 4, kv_heads = 4, dim = 64);\n"
        "        o = gemm(a, w_o[i]);\n"
        "        y = add_norm(o, residual, g[2 * i + 1]);\n"
        "        u = gemm(y, w_up[i]);\n"
        "        s = opaque act(u) -> bf16[T, ffn] columns cost elementwise();\n"
        "        d = gemm(s, w_down[i]);\n"
        "        y = add_norm(d, residual, g[2 * i + 2]);\n"
        "    }\n"
        "    output y;\n"
        "}\n";

/* The model's tensors with rows, and whether other ranks reach them. */
static const struct tensor {
	const char *name;
	unsigned cols;
	bool symmetric, split; /* split: columns, of which each rank has a part */
} tensors[TENSORS] = {{"e", HIDDEN, true, false},   {"y", HIDDEN, true, false},
                      {"o", HIDDEN, true, false},   {"d", HIDDEN, true, false},
                      {"qkv", HIDDEN, false, true}, {"a", HIDDEN, false, true},
                      {"u", FFN, false, true},      {"s", FFN, false, true}};

struct fixture {
	struct arena arena;
	int refused; /* what calls_what_is_refused gives */
	unsigned tp;
	uint64_t seed;
	const char *protocol;
	enum plait_transport at_most;
	struct sim_driver *d;
	plait_comm *c;
	plait_stage *s;
	plait_schedule *sched;
	plait_planner *planner;
	enum plait_run_mode mode; /* of plans, and where they split */
	int64_t at;
	const plait_plan *plan;
	struct plait_schedule_options o;
	plait_buffer *buffer[TENSORS];
	cu_address memory[MOST_GPUS][TENSORS], residual[MOST_GPUS], gamma[MOST_GPUS];
	plait_stream stream[MOST_GPUS];
	/* what the callbacks do and see */
	int fail_at, calls, sums;
	unsigned stale; /* operands that were read before they were there */
	struct plait_operation last;
	struct batch_seen {
		size_t first, n;
		int64_t length[4], cached[4];
	} part[2];
};

static const char *no_variable(void *ctx, const char *name)
{
	(void)ctx;
	(void)name;
	return NULL;
}

static uint16_t bf16(float v)
{
	uint32_t u;

	memcpy(&u, &v, 4);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static float value(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float v;

	memcpy(&v, &u, 4);
	return v;
}

/* ---- operations ---- */

/* A matrix of the whole model's; a rank takes its columns or rows. */
static float weight(char which, uint32_t turn, unsigned k, unsigned j)
{
	return (float)((int)((k * 3 + j * 7 + turn * 5 + (unsigned)which) % 9) - 4) / 64;
}

struct work {
	struct fixture *f;
	char which; /* of a GEMM; else 0 */
	uint32_t turn;
	uint64_t rows;
	unsigned n, k, j0, k0;
	plait_address in, out;
	uint32_t step;
	unsigned part, local;
};

static bool do_work(void *ctx, struct sim *s, unsigned rank)
{
	struct work *w = ctx;
	uint16_t x[HIDDEN], y[HIDDEN];

	(void)rank;
	for (uint64_t t = 0; t < w->rows; t++) {
		if (!sim_defined(s, w->in + t * w->k * 2, w->k * 2)) {
			w->f->stale++;
			memset(x, 0, sizeof x);
		} else if (!sim_read(s, w->in + t * w->k * 2, x, w->k * 2)) {
			return false;
		}
		for (unsigned j = 0; j < w->n; j++) {
			float sum = 0;

			for (unsigned k = 0; k < w->k && w->which; k++)
				sum += value(x[k]) *
				       weight(w->which, w->turn, w->k0 + k, w->j0 + j);
			y[j] = w->which ? bf16(sum) : x[j];
		}
		if (!sim_write(s, w->out + t * w->n * 2, y, w->n * 2))
			return false;
	}
	return true;
}

static int operation(void *ctx, const struct plait_operation *op)
{
	struct fixture *f = ctx;
	struct work *w = arena_new(&f->arena, struct work);
	unsigned rank = f->c->local[op->local].rank;
	bool rows = !strcmp(op->name, "w_o") || !strcmp(op->name, "w_down");

	if (++f->calls == f->fail_at)
		return 7;
	f->last = *op;
	*w = (struct work){.f = f,
	                   .turn = op->turn,
	                   .rows = (uint64_t)op->rows,
	                   .in = op->in[0],
	                   .out = op->out[0],
	                   .step = op->step,
	                   .part = op->part,
	                   .local = op->local};
	if (op->kind == PLAIT_OP_GEMM) {
		w->which = op->name[2];
		w->n = (unsigned)op->n;
		w->k = (unsigned)op->k;
		w->j0 = rows ? 0 : rank * w->n;
		w->k0 = rows ? rank * w->k : 0;
	} else {
		w->n = w->k = (!strcmp(op->name, "act") ? FFN : HIDDEN) / f->tp;
	}
	if (!strcmp(op->name, "attention")) {
		struct batch_seen *b = &f->part[op->part];

		b->first = op->first;
		b->n = op->nrequest;
		for (size_t i = 0; i < op->nrequest && i < 4; i++) {
			b->length[i] = op->length[i];
			b->cached[i] = op->cached[i];
		}
	}
	if (!op->warm)
		sim_driver_host((struct cu_stream *)op->stream, do_work, w);
	return 0;
}

static int tensor(void *ctx, const struct plait_tensor *t, struct plait_operand *at)
{
	struct fixture *f = ctx;

	if (!strcmp(t->name, "residual"))
		at->address = f->residual[t->local];
	if (!strcmp(t->name, "g"))
		at->address = f->gamma[t->local] + (plait_address)t->index * HIDDEN * 2;
	for (unsigned i = 0; i < TENSORS; i++) {
		if (strcmp(t->name, tensors[i].name) != 0)
			continue;
		assert_int_equal(t->ndim, 2);
		assert_int_equal(t->dim[1], tensors[i].cols / (tensors[i].split ? f->tp : 1));
		at->buffer = f->buffer[i];
		at->address = f->memory[t->local][i];
	}
	return 0;
}

/* An all-reduce of the host's: the last rank that calls does it, when all streams have come. */
static int all_reduce(void *ctx, unsigned local, plait_stream stream, plait_address at, size_t n,
                      const char *dtype)
{
	struct fixture *f = ctx;
	static plait_address where[MOST_GPUS];

	(void)stream;
	assert_string_equal(dtype, "bf16");
	f->sums++;
	where[local] = at;
	if (local + 1 < f->tp)
		return 0;
	assert_true(sim_driver_run(f->d));
	for (size_t i = 0; i < n; i++) {
		float sum = 0;
		uint16_t v;

		for (unsigned r = 0; r < f->tp; r++) {
			assert_true(sim_read(f->d->sim, where[r] + i * 2, &v, 2));
			sum += value(v);
		}
		v = bf16(sum);
		for (unsigned r = 0; r < f->tp; r++)
			sim_write(f->d->sim, where[r] + i * 2, &v, 2);
	}
	return 0;
}

/* ---- set-up ---- */

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	setenv("PLAIT_JIT", "driver", 1);
	arena_init(&f->arena, 0);
	if (setjmp(f->arena.oom))
		return -1;
	f->tp = 2;
	f->seed = 7;
	f->mode = PLAIT_RUN_SPLIT;
	f->at = 24;
	f->o = (struct plait_schedule_options)PLAIT_SCHEDULE_OPTIONS_INIT;
	f->o.tensor = tensor;
	f->o.operation = operation;
	f->o.ctx = f;
	f->o.cache_dir = "";
	f->o.max_requests = 4;
	*state = f;
	return 0;
}

static void end(struct fixture *f)
{
	for (unsigned r = 0; r < MOST_GPUS; r++) {
		if (f->stream[r])
			f->d->table.stream_destroy((struct cu_stream *)f->stream[r]);
		for (unsigned i = 0; i < TENSORS; i++)
			if (f->memory[r][i])
				f->d->table.mem_free(f->memory[r][i]);
		if (f->residual[r])
			f->d->table.mem_free(f->residual[r]);
		if (f->gamma[r])
			f->d->table.mem_free(f->gamma[r]);
		f->stream[r] = NULL;
		f->residual[r] = f->gamma[r] = 0;
	}
	memset(f->memory, 0, sizeof f->memory);
	for (unsigned i = 0; i < TENSORS; i++) {
		plait_buffer_free(f->buffer[i]);
		f->buffer[i] = NULL;
	}
	plait_schedule_free(f->sched);
	plait_planner_free(f->planner);
	plait_stage_free(f->s);
	plait_comm_free(f->c);
	f->sched = NULL;
	f->planner = NULL;
	f->s = NULL;
	f->c = NULL;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	unsigned live;

	end(f);
	live = f->d ? f->d->live : 0;
	if (live)
		print_message("# %u things were not given back\n", live);
	arena_free(&f->arena);
	free(f);
	return live ? -1 : 0;
}

static void good(struct fixture *f, enum plait_status s)
{
	if (s != PLAIT_OK)
		fail_msg("%d: %s\n%s", (int)s, plait_comm_error(f->c),
		         f->s ? plait_code_diagnostics(plait_stage_code(f->s)) : "");
}

static void make_stage(struct fixture *f)
{
	struct sim_driver_options o = {.gpus = f->tp};
	struct plait_comm_options co = PLAIT_COMM_OPTIONS_INIT;
	struct rt_hooks h = {.env = no_variable};
	struct plait_stage_options so = PLAIT_STAGE_OPTIONS_INIT;

	o.sim.schedule = SIM_RANDOM;
	o.sim.seed = f->seed;
	o.sim.jump_time = true;
	f->d = sim_driver_begin(&f->arena, &o);
	h.drv = &f->d->table;
	h.nccl = f->at_most == PLAIT_BY_NCCL ? sim_nccl_begin(f->d) : NULL;
	co.at_most = f->at_most;
	co.bootstrap = PLAIT_BOOT_LOCAL;
	co.size = f->tp;
	co.timeout_ns = 2000000;
	if (rt_comm_create(&co, &h, &f->c) != PLAIT_OK)
		fail_msg("%s", plait_comm_error(f->c));
	so.compile.text = spec;
	so.compile.text_len = strlen(spec);
	so.compile.protocol = f->protocol;
	so.max_rows = MOST;
	so.cache_dir = "";
	so.table = "";
	good(f, plait_stage_create(f->c, &so, &f->s));
}

static void make_planner_of(struct fixture *f, const char *text)
{
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;

	o.text = text;
	o.text_len = strlen(text);
	o.tp = f->tp;
	o.gpu = "h200";
	o.align = 8;
	if (plait_planner_make(&o, &f->planner) != PLAIT_OK)
		fail_msg("%s", plait_planner_diagnostics(f->planner));
}

static void make_planner(struct fixture *f)
{
	make_planner_of(f, spec);
}

static void make_memory(struct fixture *f)
{
	const struct rt_driver *d = &f->d->table;

	for (unsigned i = 0; i < TENSORS; i++)
		if (tensors[i].symmetric)
			good(f, plait_buffer_create(f->c, MOST * HIDDEN * 2, &f->buffer[i]));
	for (unsigned r = 0; r < f->tp; r++) {
		struct cu_stream *s;

		assert_true(rt_enter(f->c, r));
		for (unsigned i = 0; i < TENSORS; i++)
			if (!tensors[i].symmetric)
				assert_int_equal(d->mem_alloc(&f->memory[r][i], MOST * HIDDEN * 2),
				                 0);
		assert_int_equal(d->mem_alloc(&f->residual[r], MOST * HIDDEN * 2), 0);
		assert_int_equal(d->mem_alloc(&f->gamma[r], (2 * LAYERS + 1) * HIDDEN * 2), 0);
		assert_int_equal(d->stream_create(&s, 0, 0), 0);
		f->stream[r] = (plait_stream)s;
		rt_leave(f->c);
	}
}

static float e_of(unsigned r, uint64_t row, unsigned col)
{
	return (float)((r * 7 + row * 3 + col) % 9) - 4;
}

static float gamma_of(unsigned layer, unsigned col)
{
	return 1 + (float)((layer + col) % 3) / 4;
}

/* Inputs; what is computed is undefined, so that nothing of before is taken for it. */
static void fill(struct fixture *f, uint64_t rows)
{
	struct sim *s = f->d->sim;
	uint16_t line[HIDDEN];

	for (unsigned r = 0; r < f->tp; r++) {
		for (unsigned g = 0; g < 2 * LAYERS + 1; g++) {
			for (unsigned i = 0; i < HIDDEN; i++)
				line[i] = bf16(gamma_of(g, i));
			sim_write(s, f->gamma[r] + g * sizeof line, line, sizeof line);
		}
		for (uint64_t t = 0; t < rows; t++) {
			for (unsigned i = 0; i < HIDDEN; i++)
				line[i] = bf16(e_of(r, t, i));
			sim_write(s, plait_buffer_address(f->buffer[0], r) + t * sizeof line, line,
			          sizeof line);
		}
		for (unsigned i = 1; i < TENSORS; i++)
			sim_undefine(s,
			             f->buffer[i] ? plait_buffer_address(f->buffer[i], r)
			                          : f->memory[r][i],
			             MOST * HIDDEN * 2);
	}
	f->stale = 0;
}

static void run_sim(struct fixture *f)
{
	struct strbuf b;

	if (sim_driver_run(f->d))
		return;
	strbuf_init(&b, &f->arena);
	sim_render_findings(f->d->sim, &b);
	fail_msg("%s", b.s);
}

static const plait_plan *plan_of(struct fixture *f, int64_t rows)
{
	struct plait_batch b = PLAIT_BATCH_INIT;

	b.tokens = rows;
	assert_int_equal(plait_plan_force(f->planner, &b, f->mode, f->at, &f->plan), PLAIT_OK);
	return f->plan;
}

static void schedule(struct fixture *f, enum plait_run_mode mode, int64_t at)
{
	plait_schedule_free(f->sched);
	plait_planner_free(f->planner);
	f->sched = NULL;
	f->planner = NULL;
	f->mode = mode;
	f->at = at;
	make_planner(f);
	good(f, plait_schedule_create(f->s, f->planner, &f->o, &f->sched));
}

static void run_model(struct fixture *f, int64_t rows)
{
	fill(f, (uint64_t)rows);
	good(f, plait_schedule_run(f->sched, plan_of(f, rows), NULL, f->stream));
	run_sim(f);
	assert_int_equal(f->stale, 0);
}

static void read_y(struct fixture *f, unsigned r, int64_t rows, uint16_t *y)
{
	assert_true(sim_read(f->d->sim, plait_buffer_address(f->buffer[1], r), y,
	                     (uint64_t)rows * HIDDEN * 2));
}

/* ---- the reference: one row, in double, rounded where the spec stores ---- */

static float rounded(double v)
{
	return value(bf16((float)v));
}

static void norm(const double *h, unsigned layer, float *y)
{
	double square = 0;

	for (unsigned i = 0; i < HIDDEN; i++)
		square += h[i] * h[i];
	square = 1 / sqrt(square / HIDDEN + 1e-5);
	for (unsigned i = 0; i < HIDDEN; i++)
		y[i] = rounded(h[i] * square * (double)gamma_of(layer, i));
}

/* With k in as many parts as there are ranks, where each has an addend. */
static void multiply(const float *x, unsigned k, unsigned n, unsigned parts, char which,
                     uint32_t turn, float *out)
{
	for (unsigned j = 0; j < n; j++) {
		double sum = 0;

		for (unsigned r = 0; r < parts; r++) {
			double part = 0;

			for (unsigned i = r * k / parts; i < (r + 1) * k / parts; i++)
				part += (double)(x[i] * weight(which, turn, i, j));
			sum += (double)rounded(part);
		}
		out[j] = rounded(sum);
	}
}

static void reference(const struct fixture *f, uint64_t row, float *y)
{
	double h[HIDDEN];
	float u[HIDDEN], o[HIDDEN], residual[HIDDEN];

	for (unsigned i = 0; i < HIDDEN; i++) {
		h[i] = 0;
		for (unsigned r = 0; r < f->tp; r++)
			h[i] += (double)e_of(r, row, i);
		residual[i] = rounded(h[i]);
	}
	norm(h, 0, y);
	for (unsigned k = 0; k < 2 * LAYERS; k++) {
		unsigned inner = k % 2 ? FFN : HIDDEN;

		multiply(y, HIDDEN, inner, 1, k % 2 ? 'u' : 'q', k / 2, u);
		multiply(u, inner, HIDDEN, f->tp, k % 2 ? 'd' : 'o', k / 2, o);
		for (unsigned i = 0; i < HIDDEN; i++) {
			h[i] = (double)o[i] + (double)residual[i];
			residual[i] = rounded(h[i]);
		}
		norm(h, k + 1, y);
	}
}

static void check(struct fixture *f, int64_t rows, const uint16_t *y)
{
	float want[HIDDEN];

	for (int64_t t = 0; t<rows; t += rows> 20 ? 13 : 1) {
		reference(f, (uint64_t)t, want);
		for (unsigned i = 0; i < HIDDEN; i++)
			if (!(fabsf(value(y[t * HIDDEN + i]) - want[i]) < 0.06F))
				fail_msg("row %lld, column %u: %g, not %g", (long long)t, i,
				         (double)value(y[t * HIDDEN + i]), (double)want[i]);
	}
}

/* ---- tests ---- */

/* One piece is right, and all splits of it are the same bits on all ranks. */
static void splits_equal_the_whole(struct fixture *f)
{
	static const int64_t rows[] = {MOST, 67, 24, 16};
	uint16_t *whole = malloc(MOST * HIDDEN * 2), *y = malloc(MOST * HIDDEN * 2);
	struct plait_plan_info info = PLAIT_PLAN_INFO_INIT;

	make_stage(f);
	make_memory(f);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		schedule(f, PLAIT_RUN_FUSED, 0);
		run_model(f, rows[i]);
		read_y(f, 0, rows[i], whole);
		check(f, rows[i], whole);
		for (int64_t at = 8; at < rows[i]; at += i ? 24 : 72) {
			schedule(f, PLAIT_RUN_SPLIT, at);
			run_model(f, rows[i]);
			plait_plan_get(f->plan, &info);
			assert_int_equal(info.mode, PLAIT_RUN_SPLIT);
			assert_int_equal(info.split, at);
			for (unsigned r = 0; r < f->tp; r++) {
				read_y(f, r, rows[i], y);
				assert_memory_equal(whole, y, (size_t)rows[i] * HIDDEN * 2);
			}
		}
	}
	free(whole);
	free(y);
}

static void two_parts_of_own_rows_are_the_whole(void **state)
{
	struct fixture *f = *state;

	f->protocol = "p2p-twoshot";
	splits_equal_the_whole(f);
	assert_true(plait_schedule_own_rows(f->sched, f->plan));
}

static void and_where_all_rows_are_on_every_rank(void **state)
{
	struct fixture *f = *state;

	f->protocol = "push";
	splits_equal_the_whole(f);
	assert_false(plait_schedule_own_rows(f->sched, f->plan));
}

static void and_of_four_ranks_whose_protocol_depends_on_T(void **state)
{
	struct fixture *f = *state;

	f->tp = 4;
	f->seed = 11;
	splits_equal_the_whole(f);
}

static void unfused_plans_run_with_an_all_reduce_of_the_callers(void **state)
{
	struct fixture *f = *state;
	uint16_t *y = malloc(MOST * HIDDEN * 2);

	make_stage(f);
	make_memory(f);
	f->o.unfused = true;
	f->o.all_reduce = all_reduce;
	schedule(f, PLAIT_RUN_UNFUSED, 0);
	run_model(f, 40);
	assert_int_equal(f->sums, (2 * LAYERS + 1) * (int)f->tp);
	for (unsigned r = 0; r < f->tp; r++) {
		read_y(f, r, 40, y);
		check(f, 40, y);
	}
	schedule(f, PLAIT_RUN_REMOVED, 0);
	f->sums = 0;
	run_model(f, 40);
	assert_int_equal(f->sums, 0);
	f->o.unfused = false;
	schedule(f, PLAIT_RUN_UNFUSED, 0);
	assert_int_equal(plait_schedule_run(f->sched, plan_of(f, 40), NULL, f->stream),
	                 PLAIT_USAGE);
	assert_non_null(strstr(plait_comm_error(f->c), "'unfused'"));
	free(y);
}

/* By peers, with an NCCL for the sums alone; and where NCCL carries all rows. */
static void and_with_NCCL(void **state)
{
	struct fixture *f = *state;
	uint16_t *y = malloc(MOST * HIDDEN * 2);

	for (unsigned all = 0; all < 2; all++) {
		f->at_most = all ? PLAIT_BY_NCCL : PLAIT_BY_ANY;
		make_stage(f);
		make_memory(f);
		if (!all)
			f->c->nccl = sim_nccl_begin(f->d);
		f->o.unfused = true;
		for (unsigned mode = PLAIT_RUN_UNFUSED; mode <= PLAIT_RUN_SPLIT; mode++) {
			if (mode == PLAIT_RUN_REMOVED)
				continue;
			schedule(f, (enum plait_run_mode)mode, mode == PLAIT_RUN_SPLIT ? 24 : 0);
			run_model(f, 64);
			for (unsigned r = 0; r < f->tp; r++) {
				read_y(f, r, 64, y);
				check(f, 64, y);
			}
		}
		end(f);
		assert_int_equal(f->d->live, 0);
	}
	free(y);
}

/* ---- order ---- */

enum { MOST_LOG = 4096 };

/* reach[i]: entries that entry i comes behind, by stream order and events. */
static void order_log(const struct sim_driver *d, bool *reach)
{
	size_t n = d->nlog;

	for (size_t i = 0; i < n; i++) {
		const struct sim_driver_entry *x = &d->log[i];

		for (size_t j = i; j-- > 0;) {
			const struct sim_driver_entry *y = &d->log[j];
			bool before = y->stream == x->stream ||
			              (x->what == SIM_DRIVER_WAIT && y->what == SIM_DRIVER_RECORD &&
			               y->other == x->other);

			if (!before || reach[i * n + j])
				continue;
			reach[i * n + j] = true;
			for (size_t k = 0; k < j; k++)
				reach[i * n + k] |= reach[j * n + k];
			if (x->what == SIM_DRIVER_WAIT && y->what == SIM_DRIVER_RECORD &&
			    y->other == x->other)
				break; /* an event's last record only; stream order is transitive */
		}
	}
}

/* Launches of a rank are its collectives in order: step k's is the k-th. */
static void each_part_waits_for_its_own_collective_and_not_for_the_other(void **state)
{
	struct fixture *f = *state;
	struct sim_driver *d;
	const struct cu_stream *comm;
	bool *reach;
	size_t n, overlapped = 0;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	d = f->d;
	d->log = arena_news(&f->arena, struct sim_driver_entry, MOST_LOG);
	d->log_room = MOST_LOG;
	fill(f, 64);
	good(f, plait_schedule_run(f->sched, plan_of(f, 64), NULL, f->stream));
	n = d->nlog;
	assert_true(n < MOST_LOG);
	reach = calloc(n * n, sizeof *reach);
	order_log(d, reach);
	for (unsigned r = 0; r < f->tp; r++) {
		size_t launch[64], nlaunch = 0;

		comm = f->sched->local[r].stream;
		for (size_t i = 0; i < n; i++)
			if (d->log[i].what == SIM_DRIVER_LAUNCH && d->log[i].stream == comm)
				launch[nlaunch++] = i;
		assert_int_equal(nlaunch, 2 * (2 * LAYERS + 1));
		for (size_t i = 0; i < n; i++) {
			const struct work *w = d->log[i].other;
			size_t seg, own, other;

			if (d->log[i].what != SIM_DRIVER_HOST || w->local != r)
				continue;
			seg = 1 + w->turn * 2 + (w->step - 1) % 8 / 4;
			own = launch[2 * (seg - 1) + w->part]; /* makes what it reads */
			other = launch[2 * seg + w->part - 1]; /* beside it */
			assert_true(reach[i * n + own]);
			overlapped += !reach[i * n + other];
			assert_true(reach[launch[2 * seg + w->part] * n + i]);
		}
		/* all of it is behind the caller's stream, and joined to it */
		for (size_t k = 0; k < nlaunch; k++)
			for (size_t i = n; i-- > 0;)
				if (d->log[i].stream == (struct cu_stream *)f->stream[r]) {
					assert_true(reach[i * n + launch[k]]);
					break;
				}
	}
	assert_int_equal(overlapped, f->tp * 2 * LAYERS * 6);
	run_sim(f);
	free(reach);
}

static void running_allocates_loads_and_waits_for_nothing(void **state)
{
	struct fixture *f = *state;
	const plait_plan *plan;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 40);
	plan = plan_of(f, 96);
	good(f, plait_schedule_agree(f->sched, plan));
	good(f, plait_schedule_warm(f->sched, plan, NULL, f->stream));
	/* one for each stage: A.1 occurs beside two collectives */
	assert_int_equal(f->calls, 5 * 3 * f->tp);
	assert_true(f->last.warm);
	fill(f, 96);
	f->d->allocations = f->d->loads = f->d->waits = 0;
	for (unsigned i = 0; i < 3; i++)
		good(f, plait_schedule_run(f->sched, plan, NULL, f->stream));
	assert_int_equal(f->d->allocations + f->d->loads + f->d->waits, 0);
	assert_false(f->last.warm);
	run_sim(f);
	assert_int_equal(f->stale, 0);
}

static void a_request_that_is_cut_is_in_both_parts(void **state)
{
	struct fixture *f = *state;
	const int64_t cum[] = {0, 10, 70, 96}, cached[] = {5, 6, 7};
	struct plait_batch b = PLAIT_BATCH_INIT;
	const plait_plan *plan;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 40);
	b.tokens = 96;
	b.nrequest = 3;
	b.cum = cum;
	b.cached = cached;
	assert_int_equal(plait_plan_force(f->planner, &b, f->mode, f->at, &plan), PLAIT_OK);
	fill(f, 96);
	good(f, plait_schedule_run(f->sched, plan, &b, f->stream));
	run_sim(f);
	assert_int_equal(f->part[0].first, 0);
	assert_int_equal(f->part[0].n, 2);
	assert_int_equal(f->part[0].length[1], 30);
	assert_int_equal(f->part[0].cached[0], 5);
	assert_int_equal(f->part[1].first, 1);
	assert_int_equal(f->part[1].n, 2);
	assert_int_equal(f->part[1].length[0], 30);
	assert_int_equal(f->part[1].cached[0], 36);
	b.tokens = 95;
	assert_int_equal(plait_schedule_run(f->sched, plan, &b, f->stream), PLAIT_USAGE);
	b.tokens = 96;
	f->o.max_requests = 2;
	schedule(f, PLAIT_RUN_SPLIT, 40);
	assert_int_equal(plait_plan_force(f->planner, &b, f->mode, f->at, &plan), PLAIT_OK);
	assert_int_equal(plait_schedule_run(f->sched, plan, &b, f->stream), PLAIT_USAGE);
	assert_non_null(strstr(plait_comm_error(f->c), "3 requests"));
}

/* ---- what goes wrong ---- */

static void a_callback_that_fails_is_named_and_nothing_hangs(void **state)
{
	struct fixture *f = *state;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	for (int at = 1; at <= 2 * 2 * LAYERS * 6; at++) {
		fill(f, 64);
		f->calls = 0;
		f->fail_at = at;
		assert_int_equal(plait_schedule_run(f->sched, plan_of(f, 64), NULL, f->stream),
		                 PLAIT_ENV);
		assert_non_null(strstr(plait_comm_error(f->c), "the callback gave 7"));
		if (at == 1)
			assert_non_null(
			        strstr(plait_comm_error(f->c), "rank 0: 'w_qkv', turn 0, part 0"));
		run_sim(f);
		for (unsigned r = 0; r < f->tp; r++)
			good(f, plait_workspace_check(plait_schedule_workspace(f->sched), r, NULL));
	}
	f->fail_at = 0;
	run_model(f, 64);
}

/* Both streams are one again after a failure of any call, so that a capture can be ended. */
static void after_any_failure_the_streams_are_joined(void **state)
{
	struct fixture *f = *state;
	const plait_plan *plan;
	unsigned before, n;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	plan = plan_of(f, 64);
	f->d->log = arena_news(&f->arena, struct sim_driver_entry, MOST_LOG);
	f->d->log_room = MOST_LOG;
	before = f->d->calls;
	fill(f, 64);
	good(f, plait_schedule_run(f->sched, plan, NULL, f->stream));
	n = f->d->calls - before;
	run_sim(f);
	for (unsigned at = 1; at <= n; at += 3) {
		f->d->calls = 0;
		f->d->nlog = 0;
		f->d->fail_at = at;
		assert_int_equal(plait_schedule_run(f->sched, plan, NULL, f->stream), PLAIT_ENV);
		assert_non_null(strstr(plait_comm_error(f->c), "made up"));
		f->d->fail_at = 0;
		for (unsigned r = 0; r < f->tp; r++) {
			const struct sim_driver_entry *last = NULL, *used = NULL;

			for (size_t i = 0; i < f->d->nlog; i++) {
				const struct sim_driver_entry *x = &f->d->log[i];

				if (x->stream == f->sched->local[r].stream)
					used = x;
				if (x->stream == (struct cu_stream *)f->stream[r])
					last = x;
			}
			if (used)
				assert_true(last && last->what == SIM_DRIVER_WAIT &&
				            used->what == SIM_DRIVER_RECORD &&
				            used->other == last->other);
		}
		run_sim(f); /* with time-outs where a rank did not come */
		good(f, plait_workspace_reset(plait_schedule_workspace(f->sched)));
	}
}

static void a_failure_of_any_call_of_creation_unwinds(void **state)
{
	struct fixture *f = *state;
	unsigned live, calls, at = 0, failed = 0;
	enum plait_status st;

	make_stage(f);
	make_memory(f);
	make_planner(f);
	f->o.unfused = true;
	f->o.all_reduce = all_reduce;
	live = f->d->live;
	do {
		f->d->calls = 0;
		f->d->fail_at = ++at;
		st = plait_schedule_create(f->s, f->planner, &f->o, &f->sched);
		calls = f->d->calls;
		f->d->fail_at = 0;
		if (st ==
		    PLAIT_OK) { /* done without what failed, or that was beyond the last call */
			plait_schedule_free(f->sched);
			f->sched = NULL;
		} else {
			assert_null(f->sched);
			assert_true(*plait_comm_error(f->c));
			failed++;
		}
		assert_int_equal(f->d->live, live);
	} while (calls >= at);
	assert_true(failed > 40);
	good(f, plait_schedule_create(f->s, f->planner, &f->o, &f->sched));
	run_model(f, 64);
}

static void what_does_not_fit_is_refused(void **state)
{
	struct fixture *f = *state;
	struct plait_schedule_options o;
	plait_schedule *other = NULL;
	plait_planner *first;
	const plait_plan *plan;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	assert_int_equal(plait_schedule_run(f->sched, plan_of(f, MOST + 8), NULL, f->stream),
	                 PLAIT_USAGE);
	assert_non_null(strstr(plait_comm_error(f->c), "168 rows"));
	assert_non_null(strstr(plait_comm_error(f->c), "160 at most"));
	assert_int_equal(plait_schedule_agree(f->sched, f->plan), PLAIT_USAGE);
	assert_int_equal(plait_schedule_run(f->sched, NULL, NULL, f->stream), PLAIT_USAGE);
	plan = plan_of(f, 64);
	assert_int_equal(plait_schedule_run(f->sched, plan, NULL, NULL), PLAIT_USAGE);
	o = f->o;
	o.tensor = NULL;
	assert_int_equal(plait_schedule_create(f->s, f->planner, &o, &other), PLAIT_USAGE);
	o = f->o;
	o.struct_size = 0;
	assert_int_equal(plait_schedule_create(f->s, f->planner, &o, &other), PLAIT_USAGE);
	first = f->planner;
	f->tp = 4;
	make_planner(f);
	f->tp = 2;
	assert_int_equal(plait_schedule_create(f->s, f->planner, &f->o, &other), PLAIT_USAGE);
	assert_non_null(strstr(plait_comm_error(f->c), "4 ranks"));
	assert_int_equal(plait_schedule_run(f->sched, plan_of(f, 64), NULL, f->stream),
	                 PLAIT_USAGE);
	plait_schedule_free(f->sched);
	f->sched = NULL;
	plait_planner_free(first);
}

/* Another process, whose plan is as the test wants it. */
static bool other_facts;

static bool gather_two(struct rt_boot *b, const void *send, void *recv, size_t bytes,
                       struct rt_error *e)
{
	(void)b;
	(void)e;
	memcpy(recv, send, bytes);
	memcpy((char *)recv + bytes, send, bytes);
	if (bytes == 40) { /* what plans are compared by: T first */
		int64_t tokens = 48;

		memcpy((char *)recv + bytes, &tokens, sizeof tokens);
		((char *)recv)[bytes + 16] ^= 1;
		((char *)recv)[bytes + 24] ^= (char)other_facts;
	}
	return true;
}

static void ranks_with_different_plans_are_named(void **state)
{
	struct fixture *f = *state;
	struct rt_boot two = {.processes = 2, .gather = gather_two}, *own;

	make_stage(f);
	make_memory(f);
	schedule(f, PLAIT_RUN_SPLIT, 24);
	good(f, plait_schedule_agree(f->sched, plan_of(f, 64)));
	own = f->c->boot;
	f->c->boot = &two;
	f->c->processes = 2;
	assert_int_equal(plait_schedule_agree(f->sched, f->plan), PLAIT_MISMATCH);
	assert_non_null(strstr(plait_comm_error(f->c), "split of 64 rows, split at 24"));
	assert_non_null(strstr(plait_comm_error(f->c), "of 48"));
	assert_non_null(strstr(plait_comm_error(f->c), "on rank 2"));
	assert_non_null(strstr(plait_comm_error(f->c), "times of GEMMs are the same"));
	other_facts = true;
	assert_int_equal(plait_schedule_agree(f->sched, f->plan), PLAIT_MISMATCH);
	assert_non_null(strstr(plait_comm_error(f->c), "other tiles or times of GEMMs"));
	other_facts = false;
	f->c->boot = own;
	f->c->processes = 1;
}

static int refuses(void *ctx, const struct plait_tensor *t, struct plait_operand *at)
{
	return strcmp(t->name, "u") ? tensor(ctx, t, at) : 3;
}

static void a_tensor_that_is_not_there_is_named(void **state)
{
	struct fixture *f = *state;

	make_stage(f);
	make_memory(f);
	make_planner(f);
	f->o.tensor = refuses;
	assert_int_equal(plait_schedule_create(f->s, f->planner, &f->o, &f->sched), PLAIT_ENV);
	assert_non_null(strstr(plait_comm_error(f->c), "tensor 'u'"));
}

static int leaves_out(void *ctx, const struct plait_tensor *t, struct plait_operand *at)
{
	(void)ctx;
	(void)t;
	(void)at;
	return 0;
}

/* A kernel of that name with other rows would read and write beyond what it is given. */
static void a_planner_of_another_spec_than_the_stages_is_refused(void **state)
{
	static const char *const other[][2] = {{"hidden = 256", "hidden = 128"}, {"bf16", "f16"}};
	struct fixture *f = *state;

	make_stage(f);
	f->o.tensor = leaves_out;
	for (unsigned i = 0; i < 2; i++) {
		struct strbuf b;

		strbuf_init(&b, &f->arena);
		for (const char *s = spec; *s;) {
			bool is = !strncmp(s, other[i][0], strlen(other[i][0]));

			strbuf_printf(&b, "%.*s", is ? 99 : 1, is ? other[i][1] : s);
			s += is ? strlen(other[i][0]) : 1;
		}
		make_planner_of(f, b.s);
		assert_int_equal(plait_schedule_create(f->s, f->planner, &f->o, &f->sched),
		                 PLAIT_USAGE);
		assert_non_null(strstr(plait_comm_error(f->c),
		                       i ? "is f16[256] in the planner's spec, and in the stage's "
		                           "'x', bf16[256]"
		                         : "is bf16[128] in the planner's spec"));
		assert_null(f->sched);
		plait_planner_free(f->planner);
		f->planner = NULL;
	}
}

/* What a callback's own calls leave in the message is not the schedule's. */
static int calls_what_is_refused(void *ctx, const struct plait_operation *op)
{
	struct fixture *f = ctx;

	assert_int_equal(plait_launch(f->s, NULL), PLAIT_USAGE);
	return op->warm ? 0 : f->refused;
}

static void a_callbacks_own_failures_do_not_hide_the_schedules(void **state)
{
	struct fixture *f = *state;

	make_stage(f);
	make_memory(f);
	f->o.operation = calls_what_is_refused;
	schedule(f, PLAIT_RUN_SPLIT, 24);
	good(f, plait_schedule_warm(f->sched, plan_of(f, 64), NULL, f->stream));
	f->refused = 0;
	good(f, plait_schedule_run(f->sched, f->plan, NULL, f->stream));
	f->refused = 5;
	assert_int_equal(plait_schedule_run(f->sched, f->plan, NULL, f->stream), PLAIT_ENV);
	/* why is what it said itself, behind where */
	assert_non_null(strstr(plait_comm_error(f->c), "turn 0, part 0"));
	assert_non_null(strstr(plait_comm_error(f->c), "no struct plait_launch is given"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(two_parts_of_own_rows_are_the_whole),
	        TEST(and_where_all_rows_are_on_every_rank),
	        TEST(and_of_four_ranks_whose_protocol_depends_on_T),
	        TEST(unfused_plans_run_with_an_all_reduce_of_the_callers),
	        TEST(and_with_NCCL),
	        TEST(each_part_waits_for_its_own_collective_and_not_for_the_other),
	        TEST(running_allocates_loads_and_waits_for_nothing),
	        TEST(a_request_that_is_cut_is_in_both_parts),
	        TEST(a_callback_that_fails_is_named_and_nothing_hangs),
	        TEST(after_any_failure_the_streams_are_joined),
	        TEST(a_failure_of_any_call_of_creation_unwinds),
	        TEST(what_does_not_fit_is_refused),
	        TEST(ranks_with_different_plans_are_named),
	        TEST(a_tensor_that_is_not_there_is_named),
	        TEST(a_planner_of_another_spec_than_the_stages_is_refused),
	        TEST(a_callbacks_own_failures_do_not_hide_the_schedules),
	};

	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
