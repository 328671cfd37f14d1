/*
 * Kernels on GPUs: cubins, else the driver's own compiler; every module eagerly on every GPU of this
 * process, since a load while a collective spins may wait for it.
 */
#include "runtime/finalize.h"
#include "runtime/stage.h"
#include <stdlib.h>
#include <string.h>

enum { LOG = 8192 };

/* By the driver, from PTX. */
static bool load_text(plait_stage *s, const struct rt_kernel *k, const struct rt_cubin_job *job,
                      struct cu_module **m)
{
	plait_comm *c = s->comm;
	char *log = calloc(1, LOG);
	int option[] = {RT_CU_JIT_ERROR_LOG_BUFFER, RT_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *value[] = {log, (void *)(uintptr_t)(LOG - 1)};
	bool good;

	if (!log) {
		rt_fail(&c->error, PLAIT_NOMEM, "out of memory");
		return false;
	}
	good = RT_CU_GIVES(c->drv, &c->error, module_load_ex, m, k->ptx, 2, option, value);
	if (!good)
		rt_error_context(&c->error, "kernel '%s' (%s)%s%s%s%s", k->name, k->info.protocol,
		                 *job->log ? "; nvJitLink: " : "", job->log,
		                 *log ? "; driver: " : "", log);
	free(log);
	s->stats.jit += good;
	return good;
}

/* Made for another driver, say: of no use to the next start either. */
static void drop(const struct rt_finalize *f, struct rt_cubin_job *job)
{
	if (!setjmp(job->arena.oom))
		rt_cache_drop(f->cache, rt_cubin_key(f, job, &job->arena));
}

static bool load_module(plait_stage *s, const struct rt_kernel *k, struct rt_cubin_job *job,
                        const struct rt_finalize *f, struct cu_module **m)
{
	if (job->cubin.n) {
		if (s->comm->drv->module_load(m, job->cubin.p) == RT_CU_SUCCESS)
			return true;
		drop(f, job);
	}
	return load_text(s, k, job, m);
}

static bool prepare(plait_stage *s, const struct rt_kernel *k, struct rt_loaded *l)
{
	plait_comm *c = s->comm;
	const struct rt_driver *d = c->drv;
	int dynamic = (int)k->info.dynamic_bytes;

	if (!RT_CU(d, &c->error, module_function, &l->function, l->module, k->entry))
		return false;
	if (dynamic && !RT_CU(d, &c->error, function_set_attribute, l->function,
	                      RT_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic))
		return false;
	return !d->function_load || RT_CU(d, &c->error, function_load, l->function);
}

/* A rank before this one on the same GPU; the rank itself: there is none. */
static unsigned same_gpu(const plait_comm *c, unsigned local)
{
	unsigned i = 0;

	while (c->local[i].ctx != c->local[local].ctx)
		i++;
	return i;
}

static bool load_variant(plait_stage *s, uint32_t variant, struct rt_cubin_job *job,
                         const struct rt_finalize *f)
{
	plait_comm *c = s->comm;
	const struct rt_kernel *k = s->image.variant[variant].k;
	struct rt_loaded *row = &s->loaded[(size_t)variant * c->nlocal];
	bool good = true;

	for (unsigned i = 0; i < c->nlocal && good; i++) {
		unsigned before = same_gpu(c, i);

		if (before < i) {
			row[i] = row[before];
			row[i].shared = true;
			continue;
		}
		if (!rt_enter(c, i))
			return false;
		good = load_module(s, k, job, f, &row[i].module) && prepare(s, k, &row[i]);
		rt_leave(c);
		if (!good)
			rt_error_context(&c->error, "rank %u", c->local[i].rank);
	}
	return good;
}

static bool load_all(plait_stage *s, const struct rt_finalize *f, struct rt_cubin_job *job)
{
	struct rt_image *m = &s->image;
	uint64_t start = rt_now_ns();
	bool good;

	for (uint32_t i = 0; i < m->nvariant; i++) {
		job[i].ptx = m->variant[i].k->ptx;
		job[i].ptx_len = m->variant[i].k->ptx_len;
		job[i].cubin = m->variant[i].cubin;
	}
	good = rt_finalize_all(f, job, m->nvariant);
	s->stats.finalize_ns = rt_now_ns() - start;
	if (!good)
		rt_fail(&s->comm->error, PLAIT_NOMEM, "out of memory");
	start = rt_now_ns();
	for (uint32_t i = 0; i < m->nvariant && good; i++) {
		s->stats.cubin_hits += job[i].hit && job[i].cubin.n;
		s->stats.cubins += !job[i].hit && job[i].cubin.n;
		good = load_variant(s, i, &job[i], f);
	}
	s->stats.load_ns = rt_now_ns() - start;
	for (uint32_t i = 0; i < m->nvariant; i++)
		arena_free(&job[i].arena);
	return good;
}

bool rt_stage_load(plait_stage *s, const struct rt_cache *cache)
{
	plait_comm *c = s->comm;
	struct rt_finalize f = {.cache = cache, .target = s->image.variant[0].k->info.target};
	struct rt_cubin_job *job = calloc(s->image.nvariant, sizeof *job);
	bool good;

	s->loaded = calloc((size_t)s->image.nvariant * c->nlocal, sizeof *s->loaded);
	if (!job || !s->loaded) {
		free(job);
		rt_fail(&c->error, PLAIT_NOMEM, "out of memory");
		return false;
	}
	good = RT_CU(c->drv, &c->error, version, &f.driver) && load_all(s, &f, job);
	free(job);
	return good;
}

void rt_stage_unload(plait_stage *s)
{
	plait_comm *c = s->comm;
	size_t n = s->loaded ? (size_t)s->image.nvariant * c->nlocal : 0;

	for (size_t i = 0; i < n; i++) {
		struct rt_loaded *l = &s->loaded[i];

		if (!l->module || l->shared || !rt_enter(c, (unsigned)(i % c->nlocal)))
			continue;
		c->drv->module_unload(l->module);
		rt_leave(c);
	}
	free(s->loaded);
	s->loaded = NULL;
}
