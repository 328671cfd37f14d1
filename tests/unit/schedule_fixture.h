/*
 * A small model on a driver whose GPUs are simulated: GEMMs are functions of the host's in the ranks'
 * streams, and a reference says what comes out.
 */
#pragma once
#include "tests/unit/unit.h"
#include "tests/fake/sim_driver.h"
#include "runtime/schedule.h"
#include <math.h>
#include <stdio.h>

enum { MOST_LOG = 4096 }; /* of a driver's log */
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

static inline uint16_t bf16(float v)
{
	uint32_t u;

	memcpy(&u, &v, 4);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float value(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float v;

	memcpy(&v, &u, 4);
	return v;
}

/* ---- operations ---- */

/* A matrix of the whole model's; a rank takes its columns or rows. */
static inline float weight(char which, uint32_t turn, unsigned k, unsigned j)
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

static inline bool do_work(void *ctx, struct sim *s, unsigned rank)
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

static inline int operation(void *ctx, const struct plait_operation *op)
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

static inline int tensor(void *ctx, const struct plait_tensor *t, struct plait_operand *at)
{
	struct fixture *f = ctx;

	if (!strcmp(t->name, "residual"))
		at->address = f->residual[t->local];
	if (!strcmp(t->name, "g"))
		at->address = f->gamma[t->local] +
		              (plait_address)(t->index % (2 * LAYERS + 1)) * HIDDEN * 2;
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
static inline int all_reduce(void *ctx, unsigned local, plait_stream stream, plait_address at,
                             size_t n, const char *dtype)
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

static inline int set_up(void **state)
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

static inline void end(struct fixture *f)
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

static inline int tear_down(void **state)
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

static inline void good(struct fixture *f, enum plait_status s)
{
	if (s != PLAIT_OK)
		fail_msg("%d: %s\n%s", (int)s, plait_comm_error(f->c),
		         f->s ? plait_code_diagnostics(plait_stage_code(f->s)) : "");
}

static inline void make_stage(struct fixture *f)
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

static inline void make_planner_of(struct fixture *f, const char *text)
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

static inline void make_planner(struct fixture *f)
{
	make_planner_of(f, spec);
}

static inline void make_memory(struct fixture *f)
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

static inline float e_of(unsigned r, uint64_t row, unsigned col)
{
	return (float)((r * 7 + row * 3 + col) % 9) - 4;
}

static inline float gamma_of(unsigned layer, unsigned col)
{
	return 1 + (float)((layer + col) % 3) / 4;
}

/* Inputs; what is computed is undefined, so that nothing of before is taken for it. */
static inline void fill(struct fixture *f, uint64_t rows)
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

static inline void run_sim(struct fixture *f)
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

static inline void schedule(struct fixture *f, enum plait_run_mode mode, int64_t at)
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

static inline void run_model(struct fixture *f, int64_t rows)
{
	fill(f, (uint64_t)rows);
	good(f, plait_schedule_run(f->sched, plan_of(f, rows), NULL, f->stream));
	run_sim(f);
	assert_int_equal(f->stale, 0);
}

static inline void read_y(struct fixture *f, unsigned r, int64_t rows, uint16_t *y)
{
	assert_true(sim_read(f->d->sim, plait_buffer_address(f->buffer[1], r), y,
	                     (uint64_t)rows * HIDDEN * 2));
}

/* ---- the reference: one row, in double, rounded where the spec stores ---- */

static inline float rounded(double v)
{
	return value(bf16((float)v));
}

static inline void norm(const double *h, unsigned layer, float *y)
{
	double square = 0;

	for (unsigned i = 0; i < HIDDEN; i++)
		square += h[i] * h[i];
	square = 1 / sqrt(square / HIDDEN + 1e-5);
	for (unsigned i = 0; i < HIDDEN; i++)
		y[i] = rounded(h[i] * square * (double)gamma_of(layer, i));
}

/* With k in as many parts as there are ranks, where each has an addend. */
static inline void multiply(const float *x, unsigned k, unsigned n, unsigned parts, char which,
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

static inline void reference(const struct fixture *f, uint64_t row, float *y)
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

static inline void check(struct fixture *f, int64_t rows, const uint16_t *y)
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
