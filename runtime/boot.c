/* Bootstraps of one process and of a caller's allgather; what all kinds share. */
#include "runtime/boot.h"
#include <stdlib.h>
#include <string.h>

const char *rt_getenv(const struct rt_env *env, const char *name)
{
	const char *s = env && env->get ? env->get(env->ctx, name) : getenv(name);

	return s && *s ? s : NULL;
}

bool rt_boot_gather(struct rt_boot *b, const void *send, void *recv, size_t bytes,
                    struct rt_error *e)
{
	const char *own = (const char *)recv + b->process * bytes;

	if (!b->broken && b->gather(b, send, recv, bytes, &b->failure)) {
		if (!bytes || memcmp(own, send, bytes) == 0)
			return true;
		rt_fail(&b->failure, PLAIT_ENV,
		        "an allgather gave process %u something else than what it had sent, at its "
		        "own place: it has to fill recv with the bytes of every process, in the "
		        "order of their numbers",
		        b->process);
	}
	b->broken = true;
	rt_fail(e, b->failure.status, "%s", b->failure.text);
	return false;
}

void rt_boot_close(struct rt_boot *b)
{
	if (b)
		b->close(b);
}

static void close_plain(struct rt_boot *b)
{
	free(b);
}

static bool gather_local(struct rt_boot *b, const void *send, void *recv, size_t bytes,
                         struct rt_error *e)
{
	(void)b;
	(void)e;
	memcpy(recv, send, bytes);
	return true;
}

struct rt_boot *rt_boot_local(struct rt_error *e)
{
	struct rt_boot *b = calloc(1, sizeof *b);

	if (!b) {
		rt_fail(e, PLAIT_NOMEM, "out of memory");
		return NULL;
	}
	*b = (struct rt_boot){.processes = 1, .gather = gather_local, .close = close_plain};
	return b;
}

struct callback {
	struct rt_boot b;
	plait_allgather_fn fn;
	void *ctx;
};

static bool gather_callback(struct rt_boot *b, const void *send, void *recv, size_t bytes,
                            struct rt_error *e)
{
	struct callback *c = (struct callback *)b;
	int r = c->fn(c->ctx, send, recv, bytes);

	if (r == 0)
		return true;
	rt_fail(e, PLAIT_ENV, "the caller's allgather returned %d", r);
	return false;
}

struct rt_boot *rt_boot_callback(plait_allgather_fn fn, void *ctx, unsigned process,
                                 unsigned processes, struct rt_error *e)
{
	struct callback *c = calloc(1, sizeof *c);

	if (!c) {
		rt_fail(e, PLAIT_NOMEM, "out of memory");
		return NULL;
	}
	*c = (struct callback){.fn = fn, .ctx = ctx};
	c->b = (struct rt_boot){.process = process,
	                        .processes = processes,
	                        .gather = gather_callback,
	                        .close = close_plain};
	return &c->b;
}
