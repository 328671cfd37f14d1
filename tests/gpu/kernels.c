/*
 * Kernels on GPUs against the reference: every sample, every protocol that goes by peers, 2 to 8 ranks, several row counts.
 *	gpu_kernels SAMPLES [--gpus N] [--tp N] [--small]
 * --gpus: at most so many GPUs (0: all); --small: for a memory checker.
 */
#include "ir/eval.h"
#include "tests/gpu/gpu.h"
#include "tools/pipeline.h"
#include "tools/verify_priv.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CU(g, member, ...) RT_CU(&(g)->drv, &(g)->e, member, __VA_ARGS__)

enum { CANARY = 0xff, GUARD = 4096 };

struct job {                       /* a spec in some widths */
	const char *path, *hidden; /* hidden NULL: as it is */
	const int64_t *tokens;
	unsigned ntokens;
};

struct test {
	struct arena *a; /* of one case */
	struct bench_gpu *g;
	plait_comm *comm;
	struct pipe p;
	const struct pipe_kernel *k;
	struct vf_data *d;
	plait_stage *stage;
	plait_workspace *work;
	plait_buffer **buffer; /* [param] */
	unsigned long elements;
	double worst;
};

static const struct cg_param *param(const struct test *t, unsigned p)
{
	return &t->k->k->param[p];
}

static size_t pitch(const struct test *t, unsigned p)
{
	return (size_t)(param(t, p)->type.ndim == 2 ? param(t, p)->ld
	                                            : vf_cols(param(t, p)->type)) *
	       vf_size(param(t, p)->type);
}

static size_t row_bytes(const struct test *t, unsigned p)
{
	return (size_t)vf_cols(param(t, p)->type) * vf_size(param(t, p)->type);
}

struct rows { /* tensor rows [begin, end), the first of them at buffer row `at` */
	int64_t begin, end, at;
};

static struct rows rows_of(const struct test *t, unsigned p, unsigned rank, int64_t T)
{
	struct rows r = {0, param(t, p)->type.ndim == 2 ? T : 1, 0};

	if (vf_own(t->d, p)) {
		ir_own_rows(T, t->g->tp, rank, &r.begin, &r.end);
		r.at = param(t, p)->local_index ? 0 : r.begin;
	}
	return r;
}

static bool said(bool good, const struct test *t, const char *what, const char *why)
{
	if (!good)
		printf("# %s: %s: %s\n", t->k ? t->k->k->name : "", what, why);
	return good;
}

/* ---- what the reference says ---- */

static bool reference(struct test *t, const struct job *j)
{
	struct vf_options o = {.tp = t->g->tp,
	                       .tokens = j->tokens,
	                       .ntokens = j->ntokens,
	                       .sum = SIM_SUM_RANK_ORDER,
	                       .schedules = 1,
	                       .threads = 8};
	struct vf_kernel *k = arena_new(t->a, struct vf_kernel);
	const char *error;

	*k = (struct vf_kernel){.f = t->k->f, .k = t->k->k, .rows = t->k->rows, .places = &t->p.d};
	for (size_t i = 0; i < t->p.nstage; i++) {
		const struct ir_func *f = ir_func_find(t->p.stage[i].m, t->k->f->name);

		if (f && t->p.stage[i].rows == t->k->rows && k->f->merged_sums &&
		    !strcmp(t->p.stage[i].pass, "merge"))
			k->f = f;
	}
	return said(vf_data_new(k, &o, t->a, &t->d, &error) == ST_OK, t, "reference", error);
}

/* ---- on the GPU ---- */

static bool memory(struct test *t, int64_t most)
{
	unsigned n = t->k->k->nparam;

	t->buffer = arena_news(t->a, plait_buffer *, n + 1);
	for (unsigned p = 0; p < n; p++) {
		size_t rows = param(t, p)->type.ndim == 2 ? (size_t)most : 1;

		if (plait_buffer_create(t->comm, rows * pitch(t, p) + GUARD, &t->buffer[p]) !=
		    PLAIT_OK)
			return said(false, t, "buffer", plait_comm_error(t->comm));
	}
	return true;
}

static bool stage(struct test *t, const struct job *j, const struct args *args, int64_t most)
{
	struct plait_stage_options o = PLAIT_STAGE_OPTIONS_INIT;
	struct plait_set set = {"hidden", j->hidden};

	o.compile.text = gpu_read(j->path, t->a, &o.compile.text_len);
	o.compile.spec_name = j->path;
	o.compile.kernel = args->kernel;
	o.compile.protocol = cg_protocol_name(args->protocol);
	o.compile.set = &set;
	o.compile.nset = j->hidden ? 1 : 0;
	o.max_rows = (uint64_t)most;
	o.table = "";
	if (plait_stage_create(t->comm, &o, &t->stage) != PLAIT_OK ||
	    plait_workspace_create(t->stage, &t->work) != PLAIT_OK)
		return said(false, t, "stage", plait_comm_error(t->comm));
	return true;
}

static bool upload(struct test *t, const struct vf_item *it, unsigned r)
{
	struct cu_stream *s = t->g->stream[r];

	for (unsigned p = 0; p < t->k->k->nparam; p++) {
		const uint8_t *image = it->in[(size_t)p * t->g->tp + r];
		cu_address at = plait_buffer_address(t->buffer[p], r);
		struct rows w = rows_of(t, p, r, it->T);
		size_t all = (param(t, p)->type.ndim == 2 ? (size_t)t->d->most : 1) * pitch(t, p);

		if (!CU(t->g, set_d8, at, CANARY, all + GUARD, s))
			return false;
		for (int64_t i = w.begin; image && i < w.end; i++)
			if (!CU(t->g, copy_to_device,
			        at + (size_t)(w.at + i - w.begin) * pitch(t, p),
			        image + (size_t)i * row_bytes(t, p), row_bytes(t, p), s))
				return false;
	}
	return CU(t->g, stream_synchronize, s);
}

static bool launch(struct test *t, const struct vf_item *it)
{
	struct plait_operand *op = arena_news(t->a, struct plait_operand, t->k->k->nparam + 1);

	for (unsigned p = 0; p < t->k->k->nparam; p++)
		op[p].buffer = t->buffer[p];
	for (unsigned r = 0; r < t->g->tp; r++) {
		struct plait_launch l = PLAIT_LAUNCH_INIT;

		l.local = r;
		l.workspace = t->work;
		l.stream = t->g->stream[r];
		l.operand = op;
		l.noperand = t->k->k->nparam;
		l.rows = (uint64_t)it->T;
		if (plait_launch(t->stage, &l) != PLAIT_OK)
			return said(false, t, "launch", plait_comm_error(t->comm));
	}
	if (!bench_wait(t->g))
		return said(false, t, "wait", t->g->e.text);
	for (unsigned r = 0; r < t->g->tp; r++) {
		struct plait_record rec = PLAIT_RECORD_INIT;

		if (plait_workspace_check(t->work, r, &rec) != PLAIT_OK)
			return said(false, t, "aborted", rec.text);
	}
	return true;
}

/* ---- comparing ---- */

static bool compare_row(struct test *t, const struct vf_item *it, unsigned p, unsigned r,
                        int64_t row, const uint8_t *got)
{
	const struct vf_ref *ref = &it->ref[IR_SUM_RANK_ORDER][p];
	enum ir_dtype dt = (enum ir_dtype)param(t, p)->type.dtype;
	unsigned size = vf_size(param(t, p)->type);
	int64_t cols = vf_cols(param(t, p)->type);

	for (int64_t c = 0; c < cols; c++) {
		double err = ref->err ? (double)ref->err[row * cols + c] : 0.0, gv, wv;
		uint32_t g = 0, w = 0;

		memcpy(&g, got + (size_t)c * size, size);
		memcpy(&w, ref->bits + (size_t)(row * cols + c) * size, size);
		t->elements++;
		if (g == w)
			continue;
		gv = ir_decode(dt, g);
		wv = ir_decode(dt, w);
		if (!ir_conforms(gv, wv, err)) {
			printf("# T = %lld, rank %u: %s[%lld, %lld] is %.9g, not %.9g within "
			       "%.3g\n",
			       (long long)it->T, r, param(t, p)->name, (long long)row, (long long)c,
			       gv, wv, err);
			return false;
		}
		if (err > 0 && isfinite(err))
			t->worst = fmax(t->worst, fabs(gv - wv) / err);
	}
	return true;
}

/* What the kernel may not write is still the canary. */
static bool compare_rest(struct test *t, const struct vf_item *it, unsigned p, unsigned r,
                         struct rows w, const uint8_t *host, size_t all)
{
	size_t from = (size_t)w.at * pitch(t, p);
	size_t to = from + (size_t)(w.end - w.begin) * pitch(t, p);

	for (size_t i = 0; i < all; i++)
		if ((i < from || i >= to) && host[i] != CANARY) {
			printf("# T = %lld, rank %u: byte %zu of %s was written\n",
			       (long long)it->T, r, i, param(t, p)->name);
			return false;
		}
	return true;
}

static bool compare(struct test *t, const struct vf_item *it, unsigned r)
{
	bool good = true;

	for (unsigned p = 0; p < t->k->k->nparam && good; p++) {
		size_t all = (param(t, p)->type.ndim == 2 ? (size_t)t->d->most : 1) * pitch(t, p) +
		             GUARD;
		struct rows w = rows_of(t, p, r, it->T);
		uint8_t *host;

		if (param(t, p)->mode == IR_IN)
			continue;
		host = malloc(all);
		good = host && bench_enter(t->g, r) &&
		       CU(t->g, copy_to_host, host, plait_buffer_address(t->buffer[p], r), all,
		          t->g->stream[r]) &&
		       CU(t->g, stream_synchronize, t->g->stream[r]);
		for (int64_t i = w.begin; i < w.end && good; i++)
			good = compare_row(t, it, p, r, i,
			                   host + (size_t)(w.at + i - w.begin) * pitch(t, p));
		good = good && compare_rest(t, it, p, r, w, host, all);
		free(host);
	}
	return good;
}

static bool run_item(struct test *t, const struct vf_item *it)
{
	for (unsigned r = 0; r < t->g->tp; r++)
		if (!bench_enter(t->g, r) || !upload(t, it, r))
			return said(false, t, "upload", t->g->e.text);
	if (!launch(t, it))
		return false;
	for (unsigned r = 0; r < t->g->tp; r++)
		if (!compare(t, it, r))
			return false;
	return true;
}

/* ---- cases ---- */

enum outcome { GOOD, BAD, CANNOT };

static enum outcome run(struct test *t, struct args *args, const struct job *j)
{
	int64_t most = 1;
	bool good;

	for (unsigned i = 0; i < j->ntokens; i++)
		most = j->tokens[i] > most ? j->tokens[i] : most;
	pipe_init(&t->p, t->a, args);
	t->p.keep_stages = true;
	if (pipe_all(&t->p) != ST_OK || !t->p.nkernel)
		return CANNOT; /* the protocol does not suit the kernel */
	t->k = &t->p.kernel[0];
	good = reference(t, j) && stage(t, j, args, most) && memory(t, most);
	for (unsigned i = 0; good && i < t->d->nitem; i++)
		good = run_item(t, &t->d->item[i]);
	plait_workspace_free(t->work);
	plait_stage_free(t->stage);
	for (unsigned p = 0; t->buffer && p < t->k->k->nparam; p++)
		plait_buffer_free(t->buffer[p]);
	if (t->d)
		vf_data_free(t->d);
	return good ? GOOD : BAD;
}

static void one(struct bench_gpu *g, plait_comm *comm, const struct job *j, const char *kernel,
                enum cg_protocol protocol)
{
	struct arena arena;
	struct test t = {.a = &arena, .g = g, .comm = comm};
	struct fe_set set = {.name = "hidden", .value = j->hidden};
	struct args args = {.command = CMD_VERIFY,
	                    .arena = &arena,
	                    .spec = j->path,
	                    .kernel = kernel,
	                    .tp = g->tp,
	                    .set = &set,
	                    .nset = j->hidden ? 1 : 0,
	                    .target = cg_target_by_name("sm_90"),
	                    .protocol = protocol,
	                    .sum = -1};
	double start = gpu_seconds();
	enum outcome o;

	arena_init(&arena, 0);
	if (setjmp(arena.oom)) {
		gpu_verdict(false, "out of memory");
		exit(1);
	}
	o = run(&t, &args, j);
	if (o != CANNOT)
		gpu_verdict(o == GOOD,
		            "%s %s, %s, %u ranks on %u GPU%s: %lu elements, worst %.2f of the "
		            "bound, %.2f s",
		            j->path, kernel, cg_protocol_name(protocol), g->tp, g->gpus,
		            g->gpus == 1 ? "" : "s", t.elements, t.worst, gpu_seconds() - start);
	arena_free(&arena);
	if (o == BAD && g->e.status != PLAIT_OK)
		exit(1); /* the GPU's context may be broken */
}

/* Every kernel of the spec by every protocol; `local` goes with one rank. */
static void all_of(struct bench_gpu *g, plait_comm *comm, const struct job *j)
{
	static const enum cg_protocol peer[] = {CG_P2P_TWOSHOT, CG_P2P_BULK, CG_PUSH};
	struct plait_compile_options o = PLAIT_COMPILE_OPTIONS_INIT;
	plait_code *code;

	o.text = gpu_read(j->path, g->a, &o.text_len);
	o.tp = g->tp;
	if (plait_compile(&o, &code) != PLAIT_OK)
		gpu_verdict(false, "%s: %s", j->path, plait_code_diagnostics(code));
	for (size_t i = 0; i < plait_code_count(code); i++)
		for (int p = 0; p < (g->tp > 1 ? 3 : 1); p++)
			one(g, comm, j, plait_code_name(code, i), g->tp > 1 ? peer[p] : CG_LOCAL);
	plait_code_free(code);
}

static bool ends_in(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n > m && !strcmp(s + n - m, end);
}

/* The specs whose turn it is at this number of ranks. */
static void some_of(struct bench_gpu *g, plait_comm *comm, const char *samples)
{
	static const int64_t few[] = {1, 9};
	DIR *dir = opendir(samples);
	struct dirent *e;
	unsigned turn = 0;

	while (dir && (e = readdir(dir)))
		if (ends_in(e->d_name, ".plait") && turn++ % 7 == g->tp % 7)
			all_of(g, comm,
			       &(struct job){arena_printf(g->a, "%s/%s", samples, e->d_name), NULL,
			                     few, 2});
	if (dir)
		closedir(dir);
}

static void with_ranks(unsigned tp, unsigned gpus, const char *samples, bool small)
{
	static const int64_t many[] = {0, 1, 2, 7, 16, 33, 65}, tiny[] = {3};
	struct job j = {.hidden = tp == 2 && !small ? NULL : "1024",
	                .tokens = small ? tiny : many,
	                .ntokens = small ? 1 : sizeof many / sizeof *many};
	struct arena arena;
	struct bench_gpu g;
	plait_comm *comm;

	arena_init(&arena, 0);
	if (setjmp(arena.oom))
		exit(1);
	gpu_open(&g, tp, gpus, &arena);
	comm = gpu_comm(&g, 0);
	j.path = arena_printf(&arena, "%s/llama3-70b.plait", samples);
	all_of(&g, comm, &j);
	if (!small)
		some_of(&g, comm, samples);
	plait_comm_free(comm);
	bench_gpu_close(&g);
	arena_free(&arena);
}

int main(int argc, char **argv)
{
	unsigned gpus = 0, only = 0;
	bool small = false;

	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], "--small"))
			small = true;
		else if (!strcmp(argv[i], "--gpus") && i + 1 < argc)
			gpus = (unsigned)atoi(argv[++i]);
		else if (!strcmp(argv[i], "--tp") && i + 1 < argc)
			only = (unsigned)atoi(argv[++i]);
	if (argc < 2) {
		fprintf(stderr, "usage: gpu_kernels SAMPLES [--gpus N] [--tp N] [--small]\n");
		return 2;
	}
	gpu_count();
	for (unsigned tp = 1; tp <= 8; tp++)
		if (!only || only == tp)
			with_ranks(tp, gpus, argv[1], small);
	return gpu_end();
}
