/* Stages, workspaces and launches of one process, on a driver whose GPUs are simulated. */
#include "tests/unit/unit.h"
#include "tests/unit/folder.h"
#include "tests/fake/sim_driver.h"
#include "runtime/bundle.h"
#include "runtime/launch.h"
#include "runtime/net.h"
#include <dirent.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

enum { GPUS = 4, COLS = 512, MOST = 1200 };

static const char spec[] =
        "const hidden = 512;\n"
        "kernel add_norm(x: bf16[T, hidden] partial, inout residual: bf16[T, hidden] carried,\n"
        "                gamma: bf16[hidden]) -> y: bf16[T, hidden] replicated\n"
        "{\n"
        "    h = all_reduce(x) + residual;\n"
        "    out residual = h;\n"
        "    out y = rmsnorm(h, gamma, eps = 1e-5);\n"
        "}\n"
        "kernel scatter(x: bf16[T, hidden] partial) -> y: bf16[T, hidden] sharded\n"
        "{\n"
        "    out y = reduce_scatter(x);\n"
        "}\n";

enum { X, RESIDUAL, GAMMA, Y, NOPERAND };

struct fixture {
	struct arena arena;
	bool one_gpu;
	struct sim_driver *d;
	plait_comm *c;
	plait_stage *s;
	plait_workspace *w;
	plait_buffer *x, *y;
	cu_address residual[GPUS], whole[GPUS], gamma[GPUS];
	struct cu_stream *stream[GPUS];
	struct plait_stage_options o;
	struct plait_operand operand[GPUS][NOPERAND];
};

static const char *no_variable(void *ctx, const char *name)
{
	(void)ctx;
	(void)name;
	return NULL;
}

/* A driver and a communicator of all its GPUs. */
static void begin_by(struct fixture *f, bool multicast, enum plait_transport at_most)
{
	struct sim_driver_options o = {.gpus = GPUS, .multicast = multicast, .one_gpu = f->one_gpu};
	struct plait_comm_options co = PLAIT_COMM_OPTIONS_INIT;
	struct rt_hooks h = {.env = no_variable};

	o.sim.schedule = SIM_RANDOM;
	o.sim.seed = 7;
	o.sim.sum = SIM_SUM_EXACT;
	o.sim.jump_time = true; /* a rank that does not come is a time-out, as on a GPU */
	f->d = sim_driver_begin(&f->arena, &o);
	h.drv = &f->d->table;
	h.nccl = at_most == PLAIT_BY_NCCL ? sim_nccl_begin(f->d) : NULL;
	co.at_most = at_most;
	co.bootstrap = PLAIT_BOOT_LOCAL;
	co.size = GPUS;
	co.timeout_ns = 2000000;
	if (rt_comm_create(&co, &h, &f->c) != PLAIT_OK)
		fail_msg("%s", plait_comm_error(f->c));
	assert_int_equal(f->c->transport, at_most     ? at_most
	                                  : multicast ? PLAIT_BY_MULTICAST
	                                              : PLAIT_BY_PEER);
}

static void begin(struct fixture *f, bool multicast)
{
	begin_by(f, multicast, PLAIT_BY_ANY);
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	setenv("PLAIT_JIT", "driver", 1);
	arena_init(&f->arena, 0);
	if (setjmp(f->arena.oom))
		return -1;
	f->o = (struct plait_stage_options)PLAIT_STAGE_OPTIONS_INIT;
	f->o.compile.spec_name = "t.plait";
	f->o.compile.text = spec;
	f->o.compile.text_len = strlen(spec);
	f->o.max_rows = MOST;
	f->o.cache_dir = "";
	*state = f;
	return 0;
}

static void end(struct fixture *f)
{
	for (unsigned r = 0; r < GPUS; r++) {
		if (f->stream[r])
			f->d->table.stream_destroy(f->stream[r]);
		if (f->residual[r])
			f->d->table.mem_free(f->residual[r]);
		if (f->whole[r])
			f->d->table.mem_free(f->whole[r]);
		if (f->gamma[r])
			f->d->table.mem_free(f->gamma[r]);
		f->stream[r] = NULL;
		f->residual[r] = f->whole[r] = f->gamma[r] = 0;
	}
	plait_buffer_free(f->x);
	plait_buffer_free(f->y);
	plait_workspace_free(f->w);
	plait_stage_free(f->s);
	plait_comm_free(f->c);
	f->x = f->y = NULL;
	f->w = NULL;
	f->s = NULL;
	f->c = NULL;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	end(f);
	if (f->d && f->d->live)
		print_message("# %u things were not given back\n", f->d->live);
	arena_free(&f->arena);
	if (f->d && f->d->live)
		return -1;
	free(f);
	return 0;
}

static void good(struct fixture *f, enum plait_status s)
{
	if (s != PLAIT_OK)
		fail_msg("%d: %s\n%s", (int)s, plait_comm_error(f->c),
		         f->s ? plait_code_diagnostics(plait_stage_code(f->s)) : "");
}

static void enter(struct fixture *f, unsigned r)
{
	assert_true(rt_enter(f->c, r));
}

/* Stage, workspace, buffers of `rows` rows. */
static void make(struct fixture *f, uint64_t rows)
{
	uint64_t bytes = rows * COLS * 2;

	good(f, plait_stage_create(f->c, &f->o, &f->s));
	good(f, plait_workspace_create(f->s, &f->w));
	good(f, plait_buffer_create(f->c, bytes, &f->x));
	good(f, plait_buffer_create(f->c, bytes, &f->y));
	for (unsigned r = 0; r < GPUS; r++) {
		enter(f, r);
		assert_int_equal(f->d->table.mem_alloc(&f->residual[r], bytes), 0);
		assert_int_equal(f->d->table.mem_alloc(&f->whole[r], bytes), 0);
		assert_int_equal(f->d->table.mem_alloc(&f->gamma[r], COLS * 2), 0);
		assert_int_equal(f->d->table.stream_create(&f->stream[r], 0, 0), 0);
		rt_leave(f->c);
		f->operand[r][X].buffer = f->x;
		f->operand[r][RESIDUAL].address = f->residual[r];
		f->operand[r][GAMMA].address = f->gamma[r];
		f->operand[r][Y].buffer = f->y;
	}
}

static uint16_t bf16(float v)
{
	uint32_t u;

	memcpy(&u, &v, 4);
	return (uint16_t)(u >> 16);
}

static float value(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float v;

	memcpy(&v, &u, 4);
	return v;
}

/* Small whole numbers: every sum is exact. */
static float x_of(unsigned r, uint64_t row, unsigned col)
{
	return (float)((r * 7 + row * 3 + col) % 9) - 4;
}

static float residual_of(uint64_t row, unsigned col)
{
	return (float)((row + col * 5) % 7);
}

static float sum_of(uint64_t row, unsigned col)
{
	float s = 0;

	for (unsigned r = 0; r < GPUS; r++)
		s += x_of(r, row, col);
	return s;
}

static void fill(struct fixture *f, uint64_t rows)
{
	uint16_t line[COLS];

	for (unsigned r = 0; r < GPUS; r++) {
		for (unsigned i = 0; i < COLS; i++)
			line[i] = bf16(1);
		assert_true(sim_write(f->d->sim, f->gamma[r], line, sizeof line));
		for (uint64_t t = 0; t < rows; t++) {
			for (unsigned i = 0; i < COLS; i++)
				line[i] = bf16(x_of(r, t, i));
			assert_true(sim_write(f->d->sim,
			                      plait_buffer_address(f->x, r) + t * sizeof line, line,
			                      sizeof line));
			for (unsigned i = 0; i < COLS; i++)
				line[i] = bf16(residual_of(t, i));
			assert_true(sim_write(f->d->sim, f->residual[r] + t * sizeof line, line,
			                      sizeof line));
		}
	}
}

static struct plait_launch call(struct fixture *f, unsigned r, uint64_t rows)
{
	struct plait_launch l = PLAIT_LAUNCH_INIT;

	l.local = r;
	l.workspace = f->w;
	l.stream = (plait_stream)f->stream[r];
	l.operand = f->operand[r];
	l.noperand = NOPERAND;
	l.rows = rows;
	return l;
}

static void run(struct fixture *f)
{
	struct strbuf b;

	if (sim_driver_run(f->d))
		return;
	strbuf_init(&b, &f->arena);
	sim_render_findings(f->d->sim, &b);
	fail_msg("%s", b.s);
}

static void launch_all(struct fixture *f, uint64_t rows)
{
	for (unsigned r = 0; r < GPUS; r++) {
		struct plait_launch l = call(f, r, rows);

		good(f, plait_launch(f->s, &l));
	}
	run(f);
}

static void read_row(struct fixture *f, cu_address at, uint64_t row, uint16_t line[COLS])
{
	assert_true(sim_read(f->d->sim, at + row * COLS * 2, line, COLS * 2));
}

/* The residual of the rows that the rank has, exactly; y of all rows, closely. */
static void check(struct fixture *f, uint64_t rows)
{
	bool own = f->s->image.variant[rt_image_range(&f->s->image, 0, rows)->variant].rows ==
	           IR_ROWS_OWN;

	for (unsigned r = 0; r < GPUS; r++) {
		uint64_t begin, last;
		uint16_t y[COLS], h[COLS];

		plait_own_rows(rows, GPUS, r, &begin, &last);
		for (uint64_t t = 0; t < rows; t++) {
			double square = 0;

			read_row(f, plait_buffer_address(f->y, r), t, y);
			read_row(f, f->residual[r], t, h);
			for (unsigned i = 0; i < COLS; i++) {
				double v = sum_of(t, i) + residual_of(t, i);

				square += v * v;
				if (!own || (t >= begin && t < last))
					assert_true(value(h[i]) == (float)v);
			}
			square = 1 / sqrt(square / COLS + 1e-5);
			for (unsigned i = 0; i < COLS; i++) {
				double v = (sum_of(t, i) + residual_of(t, i)) * square;

				assert_true(fabs(value(y[i]) - v) <= 0.004 * fabs(v) + 1e-6);
			}
		}
	}
}

static void launch_and_check(struct fixture *f, uint64_t rows)
{
	fill(f, rows);
	launch_all(f, rows);
	check(f, rows);
}

/* ---- tests ---- */

static void a_launch_computes_what_the_spec_says(void **state)
{
	struct fixture *f = *state;

	begin(f, false);
	make(f, MOST);
	for (uint64_t T = 0; T < 40; T = T * 2 + 1)
		launch_and_check(f, T);
	assert_string_equal(plait_stage_protocol(f->s, 0, 1, NULL), "push");
	assert_string_equal(plait_stage_protocol(f->s, 0, MOST, NULL), "p2p-twoshot");
	launch_and_check(f, MOST);
	launch_and_check(f, 5);
}

static void and_by_multicast(void **state)
{
	struct fixture *f = *state;

	begin(f, true);
	make(f, MOST);
	assert_true(f->d->multicasts > 0);
	assert_string_equal(plait_stage_protocol(f->s, 0, 1, NULL), "mm-push");
	assert_string_equal(plait_stage_protocol(f->s, 0, MOST, NULL), "mm-twoshot");
	launch_and_check(f, 3);
	launch_and_check(f, MOST);
}

static void each_protocol_by_name(void **state)
{
	struct fixture *f = *state;
	static const char *const names[] = {"mm-twoshot", "mm-push", "p2p-twoshot", "p2p-bulk",
	                                    "push"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		f->o.compile.protocol = names[i];
		f->o.compile.kernel = "add_norm";
		f->o.max_rows = 20;
		begin(f, true);
		make(f, 20);
		launch_and_check(f, 20);
		launch_and_check(f, 9);
		end(f);
		assert_int_equal(f->d->live, 0);
	}
}

static void dependent_launches_say_so(void **state)
{
	struct fixture *f = *state;

	f->o.dependent_launch = true;
	f->one_gpu = true; /* not where a successor would take the SMs of other ranks */
	begin(f, false);
	make(f, 8);
	launch_and_check(f, 8);
	assert_int_equal(f->d->last.nattr, 0);
	end(f);
	f->one_gpu = false;
	begin(f, false);
	make(f, 8);
	launch_and_check(f, 8);
	assert_int_equal(f->d->last.nattr, 1);
	assert_int_equal(f->d->last.attr, RT_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
	assert_int_equal(f->d->last.attr_value, 1);
}

static void T_may_be_in_device_memory(void **state)
{
	struct fixture *f = *state;
	uint32_t T = 6;
	struct plait_launch l;
	cu_address at[GPUS];

	f->o.rows_in_memory = true;
	begin(f, false);
	make(f, 16);
	fill(f, 16);
	for (unsigned r = 0; r < GPUS; r++) {
		l = call(f, r, 16);
		assert_int_equal(plait_launch(f->s, &l), PLAIT_USAGE);
		enter(f, r);
		assert_int_equal(f->d->table.mem_alloc(&at[r], 4), 0);
		rt_leave(f->c);
		sim_write(f->d->sim, at[r], &T, 4);
		l.rows_address = at[r];
		good(f, plait_launch(f->s, &l));
	}
	run(f);
	check(f, T);
	for (unsigned r = 0; r < GPUS; r++)
		f->d->table.mem_free(at[r]);
}

static void a_carried_residual_is_exported_whole(void **state)
{
	struct fixture *f = *state;
	const uint64_t sizes[] = {3, MOST};

	begin(f, false);
	make(f, MOST);
	/* the whole goes to where every rank reaches it */
	for (size_t k = 0; k < 2; k++) {
		uint64_t T = sizes[k];
		size_t n = plait_stage_export(f->s, 0, RESIDUAL);

		launch_and_check(f, T);
		assert_string_equal(plait_code_name(plait_stage_code(f->s), n), "export_residual");
		for (unsigned r = 0; r < GPUS; r++) {
			struct plait_launch l = call(f, r, T);
			struct plait_operand o[2] = {{.address = f->residual[r]}, {.buffer = f->y}};

			l.kernel = n;
			l.operand = o;
			l.noperand = 2;
			good(f, plait_launch(f->s, &l));
		}
		run(f);
		for (unsigned r = 0; r < GPUS; r++)
			for (uint64_t t = 0; t < T; t++) {
				uint16_t line[COLS];

				read_row(f, plait_buffer_address(f->y, r), t, line);
				for (unsigned i = 0; i < COLS; i++)
					assert_true(value(line[i]) ==
					            sum_of(t, i) + residual_of(t, i));
			}
	}
	assert_int_equal(plait_stage_export(f->s, 0, X), SIZE_MAX);
	assert_int_equal(plait_stage_export(f->s, 1, 0), SIZE_MAX);
}

static void a_sharded_result_is_indexed_by_own_rows(void **state)
{
	struct fixture *f = *state;
	const uint64_t T = 10;

	begin(f, false);
	make(f, 16);
	fill(f, T);
	for (unsigned r = 0; r < GPUS; r++) {
		struct plait_launch l = call(f, r, T);
		struct plait_operand o[2] = {{.buffer = f->x}, {.address = f->whole[r]}};

		l.kernel = 1;
		l.operand = o;
		l.noperand = 2;
		good(f, plait_launch(f->s, &l));
	}
	run(f);
	for (unsigned r = 0; r < GPUS; r++) {
		uint64_t begin_, last;
		uint16_t line[COLS];

		plait_own_rows(T, GPUS, r, &begin_, &last);
		for (uint64_t t = begin_; t < last; t++) {
			read_row(f, f->whole[r], t - begin_, line);
			for (unsigned i = 0; i < COLS; i++)
				assert_true(value(line[i]) == sum_of(t, i));
		}
	}
}

static void launches_allocate_load_and_wait_for_nothing(void **state)
{
	struct fixture *f = *state;

	begin(f, false);
	make(f, 64);
	fill(f, 64);
	f->d->allocations = f->d->loads = f->d->waits = 0;
	for (unsigned r = 0; r < GPUS; r++) {
		struct plait_launch l = call(f, r, 64);
		unsigned calls = f->d->calls;

		good(f, plait_launch(f->s, &l));
		/* context, launch */
		assert_int_equal(f->d->calls - calls, 2);
	}
	assert_int_equal(f->d->allocations + f->d->loads + f->d->waits, 0);
	run(f);
}

/* 132 SMs; kernels that push are made for two CTAs an SM. */
static void a_grid_is_no_larger_than_what_runs_at_once(void **state)
{
	struct fixture *f = *state;
	const unsigned most[] = {CG_MAX_CTAS, 132 / GPUS};

	f->o.compile.protocol = "push";
	f->o.compile.kernel = "add_norm";
	for (int i = 0; i < 2; i++) {
		unsigned ctas;

		f->one_gpu = i;
		begin(f, false);
		good(f, plait_stage_create(f->c, &f->o, &f->s));
		assert_string_equal(plait_stage_protocol(f->s, 0, MOST, &ctas), "push");
		assert_int_equal(ctas, most[i]);
		assert_string_equal(plait_stage_protocol(f->s, 0, 3, &ctas), "push");
		assert_int_equal(ctas, 3);
		end(f);
	}
}

/* Field by field, what is wrong and what the message says. */
static void every_argument_that_does_not_fit_is_refused(void **state)
{
	struct fixture *f = *state;
	static const char *const said[] = {
	        "local is 4",
	        "no kernel 9",
	        "1201 rows",
	        "4 parameters, not 3",
	        "'y' has to be in",
	        "'x' has to be in",
	        "'gamma' is not aligned",
	        "the buffer of 'y'",
	        "'residual' is missing",
	        "needs a workspace",
	        "was not compiled for protocol 'pigeon'",
	        "rows_address needs",
	        "at offset",
	        "4 parameters, not 0",
	        "struct_size of the launch is 0",
	        "go beyond the end of the addresses",
	};

	begin(f, false);
	make(f, 64);
	for (unsigned i = 0; i < sizeof said / sizeof *said; i++) {
		struct plait_launch l = call(f, 0, 64);
		struct plait_operand o[NOPERAND];

		memcpy(o, f->operand[0], sizeof o);
		l.operand = o;
		l.local = i == 0 ? 4 : 0;
		l.kernel = i == 1 ? 9 : 0;
		l.rows = i == 2 ? MOST + 1 : i == 7 ? MOST : 64;
		l.noperand = i == 3 ? 3 : NOPERAND;
		if (i == 4)
			o[Y] = (struct plait_operand){.address = f->whole[0]};
		if (i == 5)
			o[X] = (struct plait_operand){.address = f->whole[0]};
		o[GAMMA].address += i == 6 ? 2 : 0;
		if (i == 7)
			o[X] = (struct plait_operand){.buffer = f->w->buffer};
		if (i == 8)
			o[RESIDUAL].address = 0;
		l.workspace = i == 9 ? NULL : f->w;
		l.protocol = i == 10 ? "pigeon" : NULL;
		l.rows_address = i == 11 ? 4096 : 0;
		o[Y].address += i == 12 ? 1024 : 0;
		if (i == 13)
			l.operand = NULL;
		l.struct_size = i == 14 ? 0 : sizeof l;
		if (i == 15)
			o[RESIDUAL].address = UINT64_MAX - 255;
		assert_int_equal(plait_launch(f->s, &l), PLAIT_USAGE);
		if (!strstr(plait_comm_error(f->c), said[i]))
			fail_msg("'%s' is not in '%s'", said[i], plait_comm_error(f->c));
	}
	assert_int_equal(plait_launch(NULL, NULL), PLAIT_USAGE);
	assert_int_equal(plait_launch(f->s, NULL), PLAIT_USAGE);
	assert_non_null(strstr(plait_comm_error(f->c), "no struct plait_launch"));
	launch_and_check(f, 64);
}

static void the_exchange_buffer_is_for_the_rows_that_are_pushed(void **state)
{
	struct fixture *f = *state;
	uint64_t most = 0;
	size_t need = 0;

	begin(f, false);
	make(f, 64);
	for (uint32_t i = 0; i < f->s->image.nvariant; i++) {
		const struct rt_kernel *k = f->s->image.variant[i].k;

		if (strcmp(k->info.protocol, "push") != 0)
			continue;
		most = rt_image_most(&f->s->image, i);
		need = cg_exchange_bytes(&k->plan, most) > need
		               ? (size_t)cg_exchange_bytes(&k->plan, most)
		               : need;
	}
	assert_true(most > 0 && most < MOST);
	assert_int_equal(f->w->xchg[CG_PUSH_PEER].bytes, need);
	assert_true(plait_workspace_bytes(f->w) >= sizeof(struct cg_workspace) + need);
	assert_int_equal(sizeof(struct cg_workspace), 34048); /* doc/embedding.md */
	/* the granularity of the driver's, no more */
	assert_true(plait_workspace_bytes(f->w) < sizeof(struct cg_workspace) + need + 8192);
}

static void an_abort_reaches_every_rank_and_ends_with_a_reset(void **state)
{
	struct fixture *f = *state;
	struct plait_record rec = PLAIT_RECORD_INIT;
	struct plait_launch l;

	begin(f, false);
	make(f, 64);
	fill(f, 8);
	good(f, plait_workspace_check(f->w, 0, &rec));
	assert_string_equal(rec.what, "");
	/* rank 3 does not come */
	for (unsigned r = 0; r < GPUS - 1; r++) {
		l = call(f, r, 8);
		good(f, plait_launch(f->s, &l));
	}
	run(f);
	for (unsigned r = 0; r < GPUS - 1; r++) {
		assert_int_equal(plait_workspace_check(f->w, r, &rec), PLAIT_TIMEOUT);
		assert_true(!strcmp(rec.what, "time-out") || !strcmp(rec.what, "peer"));
		if (!strcmp(rec.what, "time-out")) {
			assert_int_equal(rec.peer, 3);
			assert_string_equal(rec.kernel, "add_norm");
			assert_non_null(strstr(rec.text, "rank 3"));
			assert_string_equal(plait_comm_error(f->c), rec.text);
		}
	}
	l = call(f, 0, 8);
	assert_int_equal(plait_launch(f->s, &l), PLAIT_TIMEOUT);
	assert_non_null(strstr(plait_comm_error(f->c), "plait_workspace_reset"));
	good(f, plait_workspace_reset(f->w));
	good(f, plait_workspace_check(f->w, 0, &rec));
	launch_and_check(f, 8);
	launch_and_check(f, 64);
}

/* A rank that waits for another's compilation gives up before the others give it up. */
static void the_cache_is_waited_for_half_as_long_as_ranks_are(void **state)
{
	struct fixture *f = *state;
	char dir[] = "/tmp/plait-wait.XXXXXX";
	struct rt_cache c;
	uint64_t start;
	int fd[64], n = 0;

	assert_non_null(mkdtemp(dir));
	begin(f, false);
	f->c->setup_timeout_ns = 400000000;
	f->o.cache_dir = dir;
	rt_cache_open(&c, dir, &f->arena);
	for (; n < 64; n++) { /* somebody has all its locks */
		char name[64];

		snprintf(name, sizeof name, "%s/lock-%02d", dir, n);
		fd[n] = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(flock(fd[n], LOCK_EX), 0);
	}
	rt_cache_close(&c);
	start = rt_now_ns();
	f->o.compile.kernel = "add_norm";
	f->o.compile.protocol = "push";
	good(f, plait_stage_create(f->c, &f->o, &f->s));
	/* an image and a few cubins, one after the other at worst; a minute each it must not be */
	assert_true(rt_now_ns() - start < 20000000000u);
	while (n)
		close(fd[--n]);
	remove_folder(dir);
}

static void ranks_that_launch_different_T_are_told(void **state)
{
	struct fixture *f = *state;
	struct plait_record rec = PLAIT_RECORD_INIT;
	bool found = false;

	begin(f, false);
	make(f, 64);
	fill(f, 8);
	for (unsigned r = 0; r < GPUS; r++) {
		struct plait_launch l = call(f, r, r == 2 ? 7 : 8);

		good(f, plait_launch(f->s, &l));
	}
	run(f);
	for (unsigned r = 0; r < GPUS; r++)
		found |= plait_workspace_check(f->w, r, &rec) == PLAIT_MISMATCH &&
		         !strcmp(rec.what, "contract");
	assert_true(found);
}

/* NCCL's groups, padded rows and own rows around a kernel that does not communicate. */
static void where_NCCL_carries_the_rows_the_results_are_the_same(void **state)
{
	struct fixture *f = *state;
	size_t n;

	begin_by(f, false, PLAIT_BY_NCCL);
	make(f, MOST);
	assert_string_equal(plait_stage_protocol(f->s, 0, 9, NULL), "local");
	for (uint64_t T = 0; T < 40; T = T * 2 + 1)
		launch_and_check(f, T);
	launch_and_check(f, 8); /* of which each rank has as many: no padding */
	launch_and_check(f, MOST - 1);
	n = plait_stage_export(f->s, 0, RESIDUAL);
	for (unsigned r = 0; r < GPUS; r++) {
		struct plait_launch l = call(f, r, MOST - 1);
		struct plait_operand o[2] = {{.address = f->residual[r]}, {.buffer = f->y}};

		l.kernel = n;
		l.operand = o;
		l.noperand = 2;
		good(f, plait_launch(f->s, &l));
		/* it is held back, so it must not come again before the others */
		if (r == 0)
			assert_int_equal(plait_launch(f->s, &l), PLAIT_USAGE);
	}
	run(f);
	for (uint64_t t = 0; t < MOST - 1; t += 7) {
		uint16_t line[COLS];

		read_row(f, plait_buffer_address(f->y, 2), t, line);
		for (unsigned i = 0; i < COLS; i++)
			assert_true(value(line[i]) == sum_of(t, i) + residual_of(t, i));
	}
}

/* What a thread of rank 0's does while NCCL takes the launches before. */
static struct early {
	struct rt_nccl nccl;
	struct fixture *f;
	pthread_t thread;
	atomic_bool begun, done;
	bool held_back;
	enum plait_status status;
} early;

static void *launch_next(void *ctx)
{
	struct plait_launch l = call(early.f, 0, 9);

	(void)ctx;
	early.status = plait_launch(early.f->s, &l);
	atomic_store(&early.done, true);
	return NULL;
}

static int group_start_slowly(void)
{
	if (!atomic_exchange(&early.begun, true)) {
		assert_int_equal(pthread_create(&early.thread, NULL, launch_next, NULL), 0);
		usleep(50000);
		early.held_back = !atomic_load(&early.done);
	}
	return early.nccl.group_start();
}

static void the_next_launch_waits_until_those_that_are_held_are_enqueued(void **state)
{
	struct fixture *f = *state;
	const struct rt_nccl *was;
	struct rt_nccl slow;

	begin_by(f, false, PLAIT_BY_NCCL);
	make(f, 16);
	was = f->c->nccl;
	early = (struct early){.nccl = *was, .f = f};
	slow = early.nccl;
	slow.group_start = group_start_slowly;
	f->c->nccl = &slow;
	fill(f, 9);
	launch_all(f, 9);
	assert_int_equal(pthread_join(early.thread, NULL), 0);
	assert_true(early.held_back);
	assert_int_equal(early.status, PLAIT_OK);
	check(f, 9);
	/* the other ranks' launches of the second round */
	fill(f, 9);
	for (unsigned r = 1; r < GPUS; r++) {
		struct plait_launch l = call(f, r, 9);

		good(f, plait_launch(f->s, &l));
	}
	run(f);
	check(f, 9);
	f->c->nccl = was;
}

static void a_failure_of_any_call_of_NCCL_is_an_error(void **state)
{
	struct fixture *f = *state;
	unsigned failed = 0;

	f->o.max_rows = 16;
	begin_by(f, false, PLAIT_BY_NCCL);
	make(f, 16);
	fill(f, 9);
	for (unsigned k = 1; k < 200; k++) {
		enum plait_status s = PLAIT_OK;

		f->d->calls = 0;
		f->d->fail_at = k;
		for (unsigned r = 0; r < GPUS && s == PLAIT_OK; r++) {
			struct plait_launch l = call(f, r, 9);

			s = plait_launch(f->s, &l);
		}
		failed += s != PLAIT_OK;
		assert_true(s == PLAIT_OK || s == PLAIT_ENV);
		if (s == PLAIT_OK && f->d->calls < k)
			break;
		assert_true(s == PLAIT_ENV && *plait_comm_error(f->c));
	}
	f->d->fail_at = 0;
	assert_true(failed > 20);
	launch_and_check(f, 9);
}

/* Everything from the stage on, with the call number k failing; whether it went well. */
static bool with_failure(struct fixture *f, unsigned k)
{
	struct plait_launch l;
	enum plait_status s;

	f->d->calls = 0;
	f->d->fail_at = k;
	s = plait_stage_create(f->c, &f->o, &f->s);
	if (s == PLAIT_OK)
		s = plait_workspace_create(f->s, &f->w);
	if (s != PLAIT_OK) {
		assert_true(*plait_comm_error(f->c));
		assert_null(f->w);
	}
	l = call(f, 0, 0);
	if (s == PLAIT_OK)
		s = plait_launch(f->s, &l);
	if (s == PLAIT_OK)
		s = plait_workspace_check(f->w, 0, NULL);
	f->d->fail_at = 0;
	assert_true(s == PLAIT_OK || *plait_comm_error(f->c));
	if (s != PLAIT_OK && s != PLAIT_ENV && s != PLAIT_NOMEM)
		fail_msg("call %u: %d: %s", k, (int)s, plait_comm_error(f->c));
	plait_workspace_free(f->w);
	plait_stage_free(f->s);
	f->w = NULL;
	f->s = NULL;
	return s == PLAIT_OK && f->d->calls < k;
}

static void a_failure_of_any_call_of_the_driver_unwinds(void **state)
{
	struct fixture *f = *state;
	unsigned live, k = 1;

	f->o.compile.kernel = "add_norm";
	f->o.compile.protocol = "push";
	f->o.max_rows = 8;
	begin(f, false);
	enter(f, 0);
	assert_int_equal(f->d->table.stream_create(&f->stream[0], 0, 0), 0);
	assert_int_equal(f->d->table.mem_alloc(&f->gamma[0], COLS * 2), 0);
	rt_leave(f->c);
	assert_int_equal(f->d->table.set_d8(f->gamma[0], 0, COLS * 2, f->stream[0]), 0);
	f->operand[0][GAMMA].address = f->gamma[0];
	live = f->d->live;
	while (!with_failure(f, k)) {
		assert_int_equal(f->d->live, live);
		assert_true(k++ < 400);
	}
	assert_int_equal(f->d->live, live);
	assert_true(k > 20);
}

static void a_wrong_spec_fails_with_its_diagnostics(void **state)
{
	struct fixture *f = *state;

	f->o.compile.text = "kernel k(x: bf16[T, 8]) -> y: bf16[T, 8]\n{\n    out y = z;\n}\n";
	f->o.compile.text_len = strlen(f->o.compile.text);
	begin(f, false);
	assert_int_equal(plait_stage_create(f->c, &f->o, &f->s), PLAIT_INPUT);
	assert_non_null(f->s);
	assert_non_null(strstr(plait_code_diagnostics(plait_stage_code(f->s)), "t.plait:3:13"));
	if (!strstr(plait_comm_error(f->c), "t.plait:3:13"))
		fail_msg("%s", plait_comm_error(f->c));
	assert_int_equal(plait_workspace_create(f->s, &f->w), PLAIT_USAGE);
	assert_int_equal(plait_launch(f->s, &(struct plait_launch)PLAIT_LAUNCH_INIT), PLAIT_USAGE);
}

/* The time is for people; that nothing was compiled is what counts. */
static void a_second_start_takes_its_kernels_from_the_cache(void **state)
{
	struct fixture *f = *state;
	char dir[] = "/tmp/plait-stage-XXXXXX";

	assert_non_null(mkdtemp(dir));
	f->o.cache_dir = dir;
	begin(f, false);
	for (int i = 0; i < 2; i++) {
		good(f, plait_stage_create(f->c, &f->o, &f->s));
		assert_int_equal(f->s->stats.image_hit, i);
		print_message("# image %s: %llu us\n", i ? "from the cache" : "made",
		              (unsigned long long)f->s->stats.front_ns / 1000);
		plait_stage_free(f->s);
		f->s = NULL;
	}
	make(f, 64);
	launch_and_check(f, 64);
	remove_folder(dir);
}

/* `plait compile --emit image` and a stage without a spec. */
static void a_stage_may_be_made_of_a_bundle(void **state)
{
	struct fixture *f = *state;
	struct rt_variants_options v = {.max_rows = 4096};
	struct rt_bytes b;
	const char *said;

	v.compile = f->o.compile;
	v.compile.tp = GPUS;
	v.compile.target = "sm_90";
	assert_int_equal(rt_bundle_write(&v, &f->arena, &b, &said), ST_OK);
	f->o.compile.text = NULL;
	f->o.bundle = b.p;
	f->o.bundle_len = b.n;
	begin(f, false);
	make(f, 64);
	launch_and_check(f, 64);
	plait_workspace_free(f->w);
	plait_stage_free(f->s);
	f->w = NULL;
	f->s = NULL;
	f->o.max_rows = 5000;
	assert_int_equal(plait_stage_create(f->c, &f->o, &f->s), PLAIT_INPUT);
	assert_non_null(strstr(plait_comm_error(f->c), "at most 4096 rows"));
}

static void running_out_of_memory_comes_back_clean(void **state)
{
	struct fixture *f = *state;
	unsigned live;

	begin(f, false);
	live = f->d->live;
	for (size_t limit = 1000; limit < 1 << 20; limit = limit * 5 / 2) {
		f->o.compile.memory_limit = limit;
		assert_int_equal(plait_stage_create(f->c, &f->o, &f->s), PLAIT_NOMEM);
		assert_non_null(strstr(plait_comm_error(f->c), "out of memory"));
		plait_stage_free(f->s);
		f->s = NULL;
		assert_int_equal(f->d->live, live);
	}
}

static cu_result no_multicast(cu_handle *h, const struct cu_multicast_prop *p)
{
	(void)h;
	(void)p;
	return RT_CU_ERROR_OUT_OF_MEMORY;
}

/* Objects of the switch are few: that the communicator got one says nothing of the next. */
static void a_workspace_without_the_multicast_address_it_needs_is_refused(void **state)
{
	struct fixture *f = *state;

	begin(f, true);
	good(f, plait_stage_create(f->c, &f->o, &f->s));
	f->d->table.multicast_create = no_multicast;
	assert_int_equal(plait_workspace_create(f->s, &f->w), PLAIT_ENV);
	assert_non_null(strstr(plait_comm_error(f->c), "PLAIT_NO"));
	assert_null(f->w);
	plait_stage_free(f->s);
	f->o.compile.multicast = PLAIT_NO;
	make(f, 64);
	launch_and_check(f, 64);
}

static void a_table_that_is_named_has_to_be_there(void **state)
{
	struct fixture *f = *state;

	begin(f, false);
	f->o.table = "/nowhere/select.table";
	assert_int_equal(plait_stage_create(f->c, &f->o, &f->s), PLAIT_ENV);
	assert_non_null(strstr(plait_comm_error(f->c), "/nowhere/select.table"));
	plait_stage_free(f->s);
	f->o.table = ""; /* none */
	good(f, plait_stage_create(f->c, &f->o, &f->s));
}

static void options_that_make_no_sense_are_refused(void **state)
{
	struct fixture *f = *state;
	struct plait_stage_options ok = f->o;

	begin(f, false);
	for (unsigned i = 0; i < 9; i++) {
		f->o = ok;
		f->o.compile.nset = i == 8;
		f->o.compile.rows = i == 4 ? 8 : 0;
		f->o.compile.form = i == 5 ? "own" : NULL;
		f->o.compile.pdl = i == 6 ? "late" : NULL;
		f->o.compile.struct_size -= i == 7 ? 8 : 0;
		f->o.max_rows = i == 0 ? 0 : i == 1 ? UINT64_MAX : 64;
		f->o.compile.text = i == 2 ? NULL : spec;
		f->o.bundle = i == 3 ? spec : NULL;
		assert_int_equal(plait_stage_create(f->c, &f->o, &f->s), PLAIT_USAGE);
		assert_true(*plait_comm_error(f->c));
		plait_stage_free(f->s);
		f->s = NULL;
	}
	f->o = ok;
	f->o.struct_size = 0;
	assert_int_equal(plait_stage_create(f->c, &f->o, &f->s), PLAIT_USAGE);
	assert_null(f->s);
}

static void what_differs_in_a_contract_is_named(void **state)
{
	struct fixture *f = *state;
	struct arena *a = &f->arena;

	assert_null(rt_contract_differs("a: 1\nb: 2\n", "a: 1\nb: 2\n", a));
	assert_string_equal(rt_contract_differs("a: 1\nkernel k, hidden: 8192\n",
	                                        "a: 1\nkernel k, hidden: 8190\n", a),
	                    "kernel k, hidden: 8192, but 8190");
	assert_string_equal(rt_contract_differs("a: 1\nb: 2\n", "a: 1\n", a),
	                    "one has 'b: 2' where another has ''");
	assert_string_equal(rt_contract_differs("a: 1\n", "b: 1\n", a),
	                    "one has 'a: 1' where another has 'b: 1'");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(a_launch_computes_what_the_spec_says),
	        TEST(and_by_multicast),
	        TEST(each_protocol_by_name),
	        TEST(dependent_launches_say_so),
	        TEST(T_may_be_in_device_memory),
	        TEST(a_carried_residual_is_exported_whole),
	        TEST(a_sharded_result_is_indexed_by_own_rows),
	        TEST(launches_allocate_load_and_wait_for_nothing),
	        TEST(every_argument_that_does_not_fit_is_refused),
	        TEST(a_grid_is_no_larger_than_what_runs_at_once),
	        TEST(the_exchange_buffer_is_for_the_rows_that_are_pushed),
	        TEST(an_abort_reaches_every_rank_and_ends_with_a_reset),
	        TEST(the_cache_is_waited_for_half_as_long_as_ranks_are),
	        TEST(ranks_that_launch_different_T_are_told),
	        TEST(where_NCCL_carries_the_rows_the_results_are_the_same),
	        TEST(a_failure_of_any_call_of_NCCL_is_an_error),
	        TEST(a_failure_of_any_call_of_the_driver_unwinds),
	        TEST(a_wrong_spec_fails_with_its_diagnostics),
	        TEST(a_second_start_takes_its_kernels_from_the_cache),
	        TEST(a_stage_may_be_made_of_a_bundle),
	        TEST(running_out_of_memory_comes_back_clean),
	        TEST(the_next_launch_waits_until_those_that_are_held_are_enqueued),
	        TEST(a_workspace_without_the_multicast_address_it_needs_is_refused),
	        TEST(a_table_that_is_named_has_to_be_there),
	        TEST(options_that_make_no_sense_are_refused),
	        TEST(what_differs_in_a_contract_is_named),
	};

	return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
