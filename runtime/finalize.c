/*
 * Cubins.  What the linker does depends on nothing but the text and the target, so the cache is
 * asked first; the linker's library, which takes long to load, is opened only when something is
 * missing.
 */
#include "runtime/finalize.h"
#include "runtime/jit.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_THREADS = 16 };

struct pool {
	const struct rt_finalize *f;
	struct rt_cubin_job *job;
	unsigned n;
	atomic_uint next;
	atomic_bool out_of_memory;
};

struct linking {
	const struct rt_finalize *f;
	struct rt_cubin_job *job;
};

struct rt_bytes rt_cubin_key(const struct rt_finalize *f, const struct rt_cubin_job *job,
                             struct arena *a)
{
	struct strbuf k;

	strbuf_init(&k, a);
	strbuf_printf(&k, "plait cubin\ntarget=%s driver=%d text=%zu:", f->target, f->driver,
	              job->ptx_len);
	strbuf_putn(&k, job->ptx, job->ptx_len);
	return (struct rt_bytes){k.s, k.n};
}

static enum status link_job(void *ctx, struct arena *a, struct rt_bytes *value)
{
	const struct linking *l = ctx;
	const struct rt_nvjitlink *lib;
	struct rt_cubin cubin;
	struct diags d;
	struct strbuf log;
	enum status s;

	diags_init(&d, a);
	s = rt_nvjitlink_open(a, &d, NULL, &lib);
	if (s == ST_OK)
		s = rt_nvjitlink_link(lib, l->job->ptx, l->job->ptx_len, l->f->target, a, &d,
		                      &cubin);
	if (s == ST_OK) {
		*value = (struct rt_bytes){cubin.data, cubin.size};
		return ST_OK;
	}
	strbuf_init(&log, a);
	diags_render(&d, DIAG_WARNING, &log);
	*value = (struct rt_bytes){log.s, log.n};
	return s;
}

/* PLAIT_JIT=driver leaves all to the driver. */
static bool switched_off(void)
{
	const char *s = getenv("PLAIT_JIT");

	return s && strcmp(s, "driver") == 0;
}

static void do_job(const struct rt_finalize *f, struct rt_cubin_job *job)
{
	struct linking l = {f, job};
	struct rt_bytes key = rt_cubin_key(f, job, &job->arena), value;
	enum status s = rt_cache_make(f->cache, key, link_job, &l, &job->arena, &value, &job->hit);

	if (s == ST_OK)
		job->cubin = value;
	else
		job->log = arena_strndup(&job->arena, value.p, value.n);
}

static bool guarded(struct pool *p, struct rt_cubin_job *job)
{
	if (job->cubin.n || switched_off())
		return true;
	if (setjmp(job->arena.oom))
		return false;
	do_job(p->f, job);
	return true;
}

static void *work(void *ctx)
{
	struct pool *p = ctx;

	for (unsigned i; (i = atomic_fetch_add(&p->next, 1)) < p->n;)
		if (!guarded(p, &p->job[i]))
			atomic_store(&p->out_of_memory, true);
	return NULL;
}

static unsigned threads_of(const struct rt_finalize *f, unsigned n)
{
	long processors = f->threads ? (long)f->threads : sysconf(_SC_NPROCESSORS_ONLN);
	unsigned most = processors < 1              ? 1
	                : processors > MOST_THREADS ? MOST_THREADS
	                                            : (unsigned)processors;

	return n < most ? n : most;
}

/* A thread that takes none of the program's signals. */
static bool start(pthread_t *t, void *(*f)(void *), void *ctx)
{
	sigset_t all, was;
	bool good;

	sigfillset(&all);
	if (pthread_sigmask(SIG_SETMASK, &all, &was) != 0)
		return false;
	good = pthread_create(t, NULL, f, ctx) == 0;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return good;
}

bool rt_finalize_all(const struct rt_finalize *f, struct rt_cubin_job *job, unsigned n)
{
	struct pool p = {.f = f, .job = job, .n = n};
	unsigned want = threads_of(f, n), have = 0;
	pthread_t thread[MOST_THREADS];

	for (unsigned i = 0; i < n; i++) {
		arena_init(&job[i].arena, 0);
		job[i].log = "";
	}
	while (have + 1 < want && start(&thread[have], work, &p))
		have++;
	work(&p);
	while (have)
		pthread_join(thread[--have], NULL);
	return !atomic_load(&p.out_of_memory);
}

static void *open_linker(void *unused)
{
	const struct rt_nvjitlink *lib;
	struct arena a;
	struct diags d;

	(void)unused;
	arena_init(&a, 0);
	if (!setjmp(a.oom)) {
		diags_init(&d, &a);
		rt_nvjitlink_open(&a, &d, NULL, &lib); /* the library stays; the table does not */
	}
	arena_free(&a);
	return NULL;
}

void rt_finalize_prefetch(struct rt_prefetch *p)
{
	p->begun = !switched_off() && start(&p->thread, open_linker, NULL);
}

void rt_finalize_prefetched(struct rt_prefetch *p)
{
	if (p->begun)
		pthread_join(p->thread, NULL);
	p->begun = false;
}
