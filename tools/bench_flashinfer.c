/* The peer FlashInfer: its kernel from the user's copy of its sources, compiled by nvcc (peers/flashinfer.cu). */
#include "tools/bench_subject.h"
#include "tools/child.h"
#include "tools/pipeline.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char bench_flashinfer_text[];
extern const unsigned bench_flashinfer_len;

enum { ONESHOT_ROWS = 2048 };

/* Its pattern is sum + residual, rmsnorm: the kernel has to have these parameters and no other. */
static bool find_roles(struct bench_flashinfer *f)
{
	struct bench_subject *s = f->s;

	f->x = s->partial;
	f->y = s->out;
	f->residual = f->gamma = -1;
	for (uint32_t i = 0; i < s->nparam; i++) {
		const struct bench_param *p = &s->param[i];

		if (p->dtype != IR_BF16 || (p->info.ndim == 2 && p->info.ld != s->cols))
			return false;
		if (p->info.ndim == 2 && p->info.mode == PLAIT_INOUT)
			f->residual = (int)i;
		if (p->info.ndim == 1 && p->info.mode == PLAIT_IN)
			f->gamma = (int)i;
	}
	return s->nparam == 4 && f->x >= 0 && f->y >= 0 && f->residual >= 0 && f->gamma >= 0;
}

static bool write_source(struct bench_gpu *g, const char *path)
{
	FILE *to = fopen(path, "we");
	bool good = to && fwrite(bench_flashinfer_text, 1, bench_flashinfer_len, to) ==
	                          bench_flashinfer_len;

	if (to && fclose(to))
		good = false;
	if (!good)
		rt_fail(&g->e, PLAIT_ENV, "%s cannot be written", path);
	return good;
}

/* nvcc's output, in a folder of its own; the caller removes both. */
static bool compile(struct bench_gpu *g, const char *dir, const char *source, const char *so)
{
	const char *home = getenv("CUDA_HOME");
	const char *from[] = {"nvcc", home ? arena_printf(g->a, "%s/bin/nvcc", home) : "nvcc",
	                      "/usr/local/cuda/bin/nvcc"};
	const char *arch = arena_printf(g->a, "-arch=sm_%u%s", g->sm, g->sm == 90 ? "a" : "");
	const char *argv[] = {NULL,
	                      "-shared",
	                      "-Xcompiler",
	                      "-fPIC",
	                      "-O3",
	                      "-std=c++17",
	                      arch,
	                      "--expt-relaxed-constexpr",
	                      arena_printf(g->a, "-DRANKS=%u", g->tp),
	                      arena_printf(g->a, "-I%s/include", dir),
	                      "-o",
	                      so,
	                      source,
	                      NULL};
	struct strbuf log;
	int code = 127;

	for (size_t i = 0; i < 3 && code == 127; i++) {
		strbuf_init(&log, g->a);
		argv[0] = from[i];
		code = child_read((char *const *)(uintptr_t)argv, &log);
	}
	if (!code)
		return true;
	rt_fail(&g->e, PLAIT_ENV, "%s", code == 127 ? "nvcc is not here" : log.s);
	rt_error_context(&g->e, "FlashInfer from %s", dir);
	return false;
}

static bool load(struct bench_flashinfer *f, const char *so)
{
	void *lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
	const char *const name[] = {"plait_peer_open", "plait_peer_launch", "plait_peer_close"};
	void *const to[] = {&f->open, &f->launch, &f->close};

	for (size_t i = 0; i < 3; i++) {
		void *p = lib ? dlsym(lib, name[i]) : NULL;

		if (!p) {
			rt_fail(&f->s->g->e, PLAIT_ENV, "FlashInfer's kernel cannot be loaded: %s",
			        dlerror());
			return false;
		}
		memcpy(to[i], &p, sizeof p);
	}
	return true;
}

static bool compile_and_load(struct bench_flashinfer *f, const char *dir)
{
	struct bench_gpu *g = f->s->g;
	const char *tmp = getenv("TMPDIR");
	char *folder = arena_printf(g->a, "%s/plait-peer-XXXXXX", tmp ? tmp : "/tmp");
	const char *source, *so;
	bool good;

	if (!mkdtemp(folder)) {
		rt_fail(&g->e, PLAIT_ENV, "%s cannot be made", folder);
		return false;
	}
	source = arena_printf(g->a, "%s/flashinfer.cu", folder);
	so = arena_printf(g->a, "%s/flashinfer.so", folder);
	good = write_source(g, source) && compile(g, dir, source, so) && load(f, so);
	unlink(source);
	unlink(so);
	rmdir(folder);
	return good;
}

bool bench_flashinfer_open(struct bench_flashinfer *f, struct bench_subject *s, const char *where)
{
	struct bench_gpu *g = s->g;
	size_t n = strlen(where);
	const char *why;

	*f = (struct bench_flashinfer){.s = s};
	if (!find_roles(f)) {
		rt_fail(&g->e, PLAIT_INPUT,
		        "FlashInfer's kernel is a bf16 sum + residual and rmsnorm; '%s' is another",
		        s->kernel);
		return false;
	}
	if (g->gpus < g->tp) {
		rt_fail(&g->e, PLAIT_ENV, "FlashInfer's kernel needs a GPU for each rank");
		return false;
	}
	if (n > 3 && !strcmp(where + n - 3, ".so") ? !load(f, where) : !compile_and_load(f, where))
		return false;
	why = f->open((int)g->tp, g->device, (int)s->max_rows, ONESHOT_ROWS, (int)s->cols);
	if (why)
		rt_fail(&g->e, PLAIT_ENV, "FlashInfer: %s", why);
	return !why;
}

void bench_flashinfer_close(struct bench_flashinfer *f)
{
	if (f->close)
		f->close();
}

static const char *refuses(void *ctx, uint64_t T)
{
	struct bench_flashinfer_way *way = ctx;

	if (way->oneshot)
		return T > ONESHOT_ROWS ? "its one-shot kernel is for few rows" : NULL;
	return T < way->f->s->g->tp ? "its two-shot kernel needs a row for each rank" : NULL;
}

static void *pointer(const struct bench_subject *s, int param, unsigned rank, unsigned i,
                     uint64_t T)
{
	const struct bench_param *p = &s->param[param];
	uint64_t at = p->info.ndim == 2 ? bench_set_at(s, i, T, p->row) : 0;

	return (void *)(uintptr_t)(p->at[rank] + at);
}

static bool launch(void *ctx, unsigned i, uint64_t T)
{
	struct bench_flashinfer_way *way = ctx;
	struct bench_flashinfer *f = way->f;
	struct bench_subject *s = f->s;

	for (unsigned r = 0; r < s->g->tp; r++) {
		const char *why =
		        f->launch((int)r, way->oneshot, (int)T, pointer(s, f->x, r, i, T),
		                  pointer(s, f->residual, r, i, T), pointer(s, f->gamma, r, i, T),
		                  pointer(s, f->y, r, i, T), s->g->stream[r]);

		if (why) {
			rt_fail(&s->g->e, PLAIT_ENV, "FlashInfer: %s", why);
			return false;
		}
	}
	return true;
}

unsigned bench_flashinfer_contenders(struct bench_flashinfer *f, struct bench_contender *c)
{
	static const char *const name[] = {"FlashInfer two-shot", "FlashInfer one-shot"};

	for (int k = 0; k < 2; k++) {
		f->way[k] = (struct bench_flashinfer_way){f, k};
		c[k] = (struct bench_contender){.who = {name[k], BENCH_FUSED},
		                                .ctx = &f->way[k],
		                                .refuses = refuses,
		                                .launch = launch};
	}
	return 2;
}
