/*
 * The processes of an NCCL communicator: small things are gathered by NCCL itself, through device
 * memory.
 */
#include "runtime/net.h"
#include "runtime/boot.h"
#include "codegen/workspace.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct by_nccl {
	struct rt_boot b;
	const struct rt_driver *drv;
	const struct rt_nccl *nccl;
	struct nccl_comm *comm;
	cu_device device;
	struct cu_ctx *ctx;
	struct cu_stream *stream;
	bool pending;    /* what was enqueued last is not known to have ended */
	cu_address room; /* processes * ROOM bytes; this process's part first */
	char host[];     /* (processes + 1) * ROOM: what is sent, then what comes */
};

enum { ROOM = 16384 };

static void close_nccl(struct rt_boot *b)
{
	struct by_nccl *n = (struct by_nccl *)b;
	struct cu_ctx *old;

	if (n->ctx && n->drv->ctx_push(n->ctx) == RT_CU_SUCCESS) {
		/* To free is to wait, for ever where a process has gone. */
		if (n->room && !n->pending)
			n->drv->mem_free(n->room);
		if (n->stream)
			n->drv->stream_destroy(n->stream);
		n->drv->ctx_pop(&old);
	}
	if (n->ctx)
		n->drv->ctx_release(n->device);
	free(n);
}

/* Waits for the stream, and for NCCL to say that it has failed. */
static bool wait(struct by_nccl *n, struct rt_error *e)
{
	uint64_t deadline = rt_deadline(n->b.timeout_ns);

	for (;;) {
		cu_result r = n->drv->stream_query(n->stream);
		int state = RT_NCCL_SUCCESS;

		n->pending = r == RT_CU_ERROR_NOT_READY;
		if (!n->pending)
			return rt_cu_ok(n->drv, e, RT_DRIVER_NO_stream_query, r);
		if (!RT_NC(n->nccl, e, async_error, n->comm, &state))
			return false;
		if (state != RT_NCCL_SUCCESS && state != RT_NCCL_IN_PROGRESS)
			return rt_nccl_ok(n->nccl, e, RT_NCCL_NO_all_gather, state);
		if (rt_now_ns() >= deadline) {
			rt_fail(e, PLAIT_TIMEOUT,
			        "ncclAllGather did not finish within %.1f s: a process did not "
			        "come, or the stream "
			        "waits for one that does not",
			        (double)n->b.timeout_ns * 1e-9);
			return false;
		}
		usleep(20);
	}
}

static bool gather_some(struct by_nccl *n, const char *send, char *recv, size_t bytes,
                        size_t stride, struct rt_error *e)
{
	char *all = n->host + ROOM;

	memcpy(n->host, send, bytes);
	if (!RT_CU(n->drv, e, copy_to_device, n->room, n->host, bytes, n->stream) ||
	    !RT_NC(n->nccl, e, all_gather, (const void *)(uintptr_t)n->room,
	           (void *)(uintptr_t)(n->room + ROOM), bytes, RT_NCCL_CHAR, n->comm, n->stream))
		return false;
	n->pending = true;
	if (!RT_CU(n->drv, e, copy_to_host, all, n->room + ROOM, bytes * n->b.processes,
	           n->stream) ||
	    !wait(n, e))
		return false;
	for (unsigned p = 0; p < n->b.processes; p++)
		memcpy(recv + p * stride, all + p * bytes, bytes);
	return true;
}

static bool gather_nccl(struct rt_boot *b, const void *send, void *recv, size_t bytes,
                        struct rt_error *e)
{
	struct by_nccl *n = (struct by_nccl *)b;
	struct cu_ctx *old;
	bool ok = RT_CU(n->drv, e, ctx_push, n->ctx);

	if (!ok)
		return false;
	for (size_t at = 0; at < bytes && ok; at += ROOM)
		ok = gather_some(n, (const char *)send + at, (char *)recv + at,
		                 bytes - at < ROOM ? bytes - at : ROOM, bytes, e);
	n->drv->ctx_pop(&old);
	return ok;
}

static bool prepare(struct by_nccl *n, struct rt_error *e)
{
	int ordinal;
	struct cu_ctx *old;
	bool ok;

	if (!RT_NC(n->nccl, e, cu_device, n->comm, &ordinal) ||
	    !RT_CU(n->drv, e, device_get, &n->device, ordinal) ||
	    !RT_CU_GIVES(n->drv, e, ctx_retain, &n->ctx, n->device) ||
	    !RT_CU(n->drv, e, ctx_push, n->ctx))
		return false;
	ok = RT_CU_GIVES(n->drv, e, stream_create, &n->stream, RT_CU_STREAM_NON_BLOCKING, 0) &&
	     RT_CU_GIVES(n->drv, e, mem_alloc, &n->room, ((size_t)n->b.processes + 1) * ROOM);
	n->drv->ctx_pop(&old);
	return ok;
}

struct rt_boot *rt_boot_nccl(const struct rt_driver *drv, const struct rt_nccl *nccl,
                             struct nccl_comm *comm, uint64_t timeout_ns, struct rt_error *e)
{
	struct by_nccl *n;
	int size, rank;

	if (!RT_NC(nccl, e, count, comm, &size) || !RT_NC(nccl, e, user_rank, comm, &rank))
		return NULL;
	n = calloc(1, sizeof *n + ((size_t)size + 1) * ROOM);
	if (!n) {
		rt_fail(e, PLAIT_NOMEM, "out of memory");
		return NULL;
	}
	n->b = (struct rt_boot){.process = (unsigned)rank,
	                        .processes = (unsigned)size,
	                        .timeout_ns = timeout_ns,
	                        .gather = gather_nccl,
	                        .close = close_nccl};
	n->drv = drv;
	n->nccl = nccl;
	n->comm = comm;
	if (prepare(n, e))
		return &n->b;
	close_nccl(&n->b);
	return NULL;
}
