/* What the processes of a communicator do together, and the small things of each. */
#include "runtime/comm.h"
#include "runtime/net.h"
#include "support/text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a process says in a vote. */
struct ballot {
	int32_t status;
	char text[508];
};

enum plait_status rt_gather(plait_comm *c, const void *send, void *recv, size_t bytes)
{
	return rt_boot_gather(c->boot, send, recv, bytes, &c->error) ? PLAIT_OK : c->error.status;
}

/* A status that another process sent. */
static bool is_status(int32_t s)
{
	return s >= PLAIT_OK && s <= PLAIT_MISMATCH;
}

enum plait_status rt_vote(plait_comm *c)
{
	struct ballot mine = {.status = (int32_t)c->error.status}, all[CG_MAX_RANKS];

	if (mine.status != PLAIT_OK && strncmp(c->error.text, "rank ", 5) != 0)
		rt_error_context(&c->error, "rank %u", c->first);
	snprintf(mine.text, sizeof mine.text, "%.*s", (int)sizeof mine.text - 1, c->error.text);
	if (rt_gather(c, &mine, all, sizeof mine) != PLAIT_OK)
		return c->error.status;
	for (unsigned p = 0; p < c->processes; p++) {
		if (all[p].status == PLAIT_OK)
			continue;
		all[p].text[sizeof all[p].text - 1] = '\0';
		text_make_plain(all[p].text);
		rt_error_clear(&c->error);
		if (!is_status(all[p].status))
			return rt_fail(&c->error, PLAIT_ENV,
			               "process %u votes with status %d, which there is not: the "
			               "allgather does not give what the processes send",
			               p, (int)all[p].status);
		return rt_fail(&c->error, (enum plait_status)all[p].status, "%s", all[p].text);
	}
	return PLAIT_OK;
}

enum plait_status rt_same(plait_comm *c, const char *what, uint64_t value)
{
	uint64_t all[CG_MAX_RANKS];

	if (rt_gather(c, &value, all, sizeof value) != PLAIT_OK)
		return c->error.status;
	for (unsigned p = 1; p < c->processes; p++)
		if (all[p] != all[0])
			return rt_fail(&c->error, PLAIT_MISMATCH,
			               "%s differs: %llu on rank 0, %llu on rank %u", what,
			               (unsigned long long)all[0], (unsigned long long)all[p],
			               p * c->nlocal);
	return PLAIT_OK;
}

bool rt_enter(plait_comm *c, unsigned local)
{
	return RT_CU(c->drv, &c->error, ctx_push, c->local[local].ctx);
}

void rt_leave(plait_comm *c)
{
	struct cu_ctx *old;

	c->drv->ctx_pop(&old);
}

bool rt_wait(plait_comm *c, unsigned local, struct cu_stream *s)
{
	uint64_t deadline = rt_deadline(c->setup_timeout_ns);

	for (unsigned n = 0;; n++) {
		cu_result r = c->drv->stream_query(s);

		if (r != RT_CU_ERROR_NOT_READY)
			return rt_cu_ok(c->drv, &c->error, RT_DRIVER_NO_stream_query, r);
		if (rt_now_ns() >= deadline) {
			rt_fail(&c->error, PLAIT_TIMEOUT,
			        "rank %u: the GPU did not finish within %.1f s",
			        c->local[local].rank, (double)c->setup_timeout_ns * 1e-9);
			return false;
		}
		if (n > 1000)
			usleep(50);
	}
}

void rt_blame(plait_comm *c, unsigned local)
{
	if (strncmp(c->error.text, "rank ", 5) != 0)
		rt_error_context(&c->error, "rank %u", c->local[local].rank);
}

void rt_why(plait_comm *c, const char *fmt, ...)
{
	size_t n = strlen(c->why);
	va_list ap;

	if (n && n + 1 < sizeof c->why)
		c->why[n++] = '\n';
	va_start(ap, fmt);
	vsnprintf(c->why + n, sizeof c->why - n, fmt, ap);
	va_end(ap);
}
