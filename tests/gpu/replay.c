/*
 * Twenty graphs of different row counts and protocols, replayed in random order on all ranks, now and then with one rank that
 * comes late: every replay of a graph gives the bits that it gave the first time.
 *	gpu_replay SPEC [--tp N] [--gpus N] [--replays N] [--protocol P]
 */
#include "tests/gpu/gpu.h"
#include <stdlib.h>
#include <string.h>

#define CU(g, member, ...) RT_CU(&(g)->drv, &(g)->e, member, __VA_ARGS__)

enum { GRAPHS = 20, PROTOCOLS = 3, MOST = 256, COLS = 1024, LOOK_EVERY = 250 };

static const char *const protocol[PROTOCOLS] = {"push", "p2p-twoshot", "p2p-bulk"};
static const uint64_t rows[GRAPHS] = {1,  2,  3,  5,  7,   8,   13,  16,  24,  31,
                                      48, 64, 65, 99, 128, 130, 177, 200, 255, 256};

struct replay {
	struct bench_gpu g;
	struct arena arena;
	plait_comm *comm;
	plait_stage *stage[PROTOCOLS];
	plait_workspace *work[PROTOCOLS];
	plait_buffer *x, *r, *y; /* y: of all graphs */
	cu_address gamma[BENCH_MAX_TP];
	struct cu_graph_exec *exec[GRAPHS][BENCH_MAX_TP];
	unsigned char *want[GRAPHS], *got;
	uint64_t random;
	unsigned long late;
	long done;
	int first_protocol, nprotocol; /* those that are used */
};

static void stop(struct replay *t, const char *what, const char *why)
{
	gpu_verdict(false, "%s: %s", what, why);
	(void)t;
	exit(1);
}

static void must(struct replay *t, bool good, const char *what)
{
	if (!good)
		stop(t, what, t->g.e.status ? t->g.e.text : plait_comm_error(t->comm));
}

static unsigned protocol_of(const struct replay *t, unsigned k)
{
	return (unsigned)t->first_protocol + k % (unsigned)t->nprotocol;
}

static uint64_t draw(struct replay *t)
{
	t->random = t->random * 6364136223846793005u + 1442695040888963407u;
	return t->random >> 33;
}

static size_t row_bytes(void)
{
	return COLS * 2;
}

static uint64_t y_at(unsigned k)
{
	return (uint64_t)k * MOST * row_bytes();
}

/* ---- set-up ---- */

static void make_stages(struct replay *t, const char *path)
{
	struct plait_stage_options o = PLAIT_STAGE_OPTIONS_INIT;

	o.compile.text = gpu_read(path, &t->arena, &o.compile.text_len);
	o.max_rows = MOST;
	o.table = "";
	for (int i = 0; i < PROTOCOLS; i++) {
		o.compile.protocol = protocol[i];
		must(t, plait_stage_create(t->comm, &o, &t->stage[i]) == PLAIT_OK, protocol[i]);
		must(t, plait_workspace_create(t->stage[i], &t->work[i]) == PLAIT_OK, "workspace");
	}
}

static void make_memory(struct replay *t)
{
	const size_t all = MOST * row_bytes();

	must(t,
	     plait_buffer_create(t->comm, all, &t->x) == PLAIT_OK &&
	             plait_buffer_create(t->comm, all, &t->r) == PLAIT_OK &&
	             plait_buffer_create(t->comm, GRAPHS * all, &t->y) == PLAIT_OK &&
	             bench_noise(&t->g, IR_BF16),
	     "memory");
	for (unsigned q = 0; q < t->g.tp; q++)
		must(t,
		     bench_alloc(&t->g, q, row_bytes(), &t->gamma[q]) &&
		             bench_fill(&t->g, q, t->gamma[q], row_bytes(), 99) &&
		             bench_fill(&t->g, q, plait_buffer_address(t->x, q), all, q) &&
		             bench_fill(&t->g, q, plait_buffer_address(t->r, q), all, 50),
		     "inputs");
	must(t, bench_wait(&t->g), "inputs");
}

static void launch(struct replay *t, unsigned k, unsigned rank)
{
	struct plait_operand op[] = {{t->x, 0}, {t->r, 0}, {NULL, t->gamma[rank]}, {t->y, y_at(k)}};
	struct plait_launch l = PLAIT_LAUNCH_INIT;
	unsigned which = protocol_of(t, k);

	l.local = rank;
	l.workspace = t->work[which];
	l.stream = t->g.stream[rank];
	l.operand = op;
	l.noperand = 4;
	l.rows = rows[k];
	must(t, plait_launch(t->stage[which], &l) == PLAIT_OK, "launch");
}

static void capture(struct replay *t, unsigned k)
{
	for (unsigned q = 0; q < t->g.tp; q++) {
		struct cu_graph *graph;

		must(t,
		     bench_enter(&t->g, q) && CU(&t->g, stream_begin_capture, t->g.stream[q],
		                                 RT_CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
		     "capture");
		launch(t, k, q);
		must(t,
		     CU(&t->g, stream_end_capture, t->g.stream[q], &graph) &&
		             CU(&t->g, graph_instantiate, &t->exec[k][q], graph, 0),
		     "capture");
		t->g.drv.graph_destroy(graph);
	}
}

/* ---- replays ---- */

static void replay(struct replay *t, unsigned k)
{
	unsigned late = draw(t) % 64 ? t->g.tp : (unsigned)(draw(t) % t->g.tp);
	uint64_t ns = 50000 + draw(t) % 450000;

	for (unsigned q = 0; q < t->g.tp; q++) {
		struct cu_launch l = {{1, 1, 1}, {1, 1, 1}, 0, t->g.stream[q], NULL, 0};
		void *params[] = {&ns};

		must(t,
		     bench_enter(&t->g, q) &&
		             (q != late || CU(&t->g, launch, &l, t->g.delay[q], params, NULL)) &&
		             CU(&t->g, graph_launch, t->exec[k][q], t->g.stream[q]),
		     "replay");
	}
	t->late += late < t->g.tp;
}

static void finish(struct replay *t)
{
	bool good = true;

	must(t, bench_wait(&t->g), "wait");
	for (int i = 0; i < PROTOCOLS; i++)
		for (unsigned q = 0; q < t->g.tp; q++) {
			struct plait_record rec = PLAIT_RECORD_INIT;

			if (plait_workspace_check(t->work[i], q, &rec) == PLAIT_OK)
				continue;
			printf("# %s, rank %u: %s\n", protocol[i], q, rec.text);
			good = false;
		}
	if (!good)
		stop(t, "aborted", arena_printf(&t->arena, "after %ld replays", t->done));
}

/* The result of graph k on a rank, and its place spoilt. */
static void take(struct replay *t, unsigned k, unsigned q, unsigned char *to)
{
	cu_address at = plait_buffer_address(t->y, q) + y_at(k);
	size_t n = rows[k] * row_bytes();

	must(t,
	     bench_enter(&t->g, q) && CU(&t->g, copy_to_host, to, at, n, t->g.stream[q]) &&
	             CU(&t->g, set_d8, at, 0xff, n, t->g.stream[q]) &&
	             CU(&t->g, stream_synchronize, t->g.stream[q]),
	     "result");
}

static void first(struct replay *t, unsigned k)
{
	size_t n = rows[k] * row_bytes();

	t->want[k] = malloc(n);
	replay(t, k);
	finish(t);
	take(t, k, 0, t->want[k]);
	for (unsigned q = 1; q < t->g.tp; q++) {
		take(t, k, q, t->got);
		if (memcmp(t->got, t->want[k], n) != 0)
			stop(t, protocol[protocol_of(t, k)], "ranks differ");
	}
}

static void look(struct replay *t, unsigned k)
{
	unsigned q = (unsigned)(draw(t) % t->g.tp);

	finish(t);
	take(t, k, q, t->got); /* what was there; then once more into what is spoilt */
	replay(t, k);
	finish(t);
	take(t, k, q, t->got);
	if (memcmp(t->got, t->want[k], rows[k] * row_bytes()) != 0)
		stop(t, protocol[protocol_of(t, k)],
		     arena_printf(&t->arena, "graph %u, rank %u: other bits", k, q));
}

static void close_all(struct replay *t)
{
	for (unsigned k = 0; k < GRAPHS; k++) {
		for (unsigned q = 0; q < t->g.tp; q++)
			t->g.drv.graph_exec_destroy(t->exec[k][q]);
		free(t->want[k]);
	}
	for (int i = 0; i < PROTOCOLS; i++) {
		plait_workspace_free(t->work[i]);
		plait_stage_free(t->stage[i]);
	}
	plait_buffer_free(t->x);
	plait_buffer_free(t->r);
	plait_buffer_free(t->y);
	plait_comm_free(t->comm);
	bench_gpu_close(&t->g);
	free(t->got);
	arena_free(&t->arena);
}

struct plan {
	unsigned tp, gpus;
	long replays;
};

static int run(struct replay *t, const char *spec, const struct plan *p)
{
	double start;

	gpu_open(&t->g, p->tp, p->gpus, &t->arena);
	t->comm = gpu_comm(&t->g, 3000);
	make_stages(t, spec);
	make_memory(t);
	t->got = malloc(MOST * row_bytes());
	for (unsigned k = 0; k < GRAPHS; k++)
		capture(t, k);
	for (unsigned k = 0; k < GRAPHS; k++)
		first(t, k);
	start = gpu_seconds();
	for (long i = 0; i < p->replays; i++) {
		unsigned k = (unsigned)(draw(t) % GRAPHS);

		replay(t, k);
		t->done++;
		if (i % LOOK_EVERY == LOOK_EVERY - 1)
			look(t, k);
	}
	finish(t);
	gpu_verdict(true,
	            "%ld replays of %d graphs on %u ranks, %u GPU%s, %lu with a late rank, in %.1f "
	            "s: the "
	            "same bits",
	            p->replays, GRAPHS, t->g.tp, t->g.gpus, t->g.gpus == 1 ? "" : "s", t->late,
	            gpu_seconds() - start);
	close_all(t);
	return gpu_end();
}

static void only(struct replay *t, const char *name)
{
	for (int i = 0; i < PROTOCOLS; i++)
		if (!strcmp(name, protocol[i])) {
			t->first_protocol = i;
			t->nprotocol = 1;
		}
}

int main(int argc, char **argv)
{
	static struct replay t = {.random = 1, .nprotocol = PROTOCOLS};
	struct plan p = {8, 1, 100000};

	for (int i = 2; i + 1 < argc; i += 2)
		if (!strcmp(argv[i], "--tp"))
			p.tp = (unsigned)atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--gpus"))
			p.gpus = (unsigned)atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--replays"))
			p.replays = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "--protocol"))
			only(&t, argv[i + 1]);
	if (argc < 2) {
		fprintf(stderr, "usage: gpu_replay SPEC [--tp N] [--gpus N] [--replays N] "
		                "[--protocol P]\n");
		return 2;
	}
	arena_init(&t.arena, 0);
	if (setjmp(t.arena.oom))
		return 1;
	return run(&t, argv[1], &p);
}
