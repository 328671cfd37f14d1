/*
 * Handles of memory from process to process: as descriptors on one host, as fabric handles, which
 * are bytes, where all GPUs are on one NVLink fabric that spans hosts.
 */
#include "runtime/comm.h"
#include "runtime/fdpass.h"
#include <string.h>
#include <unistd.h>

static bool by_descriptor(const plait_comm *c)
{
	return c->handle_type == RT_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

bool rt_export(plait_comm *c, cu_handle h, union rt_shared *out)
{
	memset(out, 0, sizeof *out);
	out->fd = by_descriptor(c) ? -1 : 0;
	return RT_CU(c->drv, &c->error, vmm_export, out, h, c->handle_type, 0);
}

bool rt_import(plait_comm *c, union rt_shared *from, cu_handle *h)
{
	void *os = by_descriptor(c) ? (void *)(intptr_t)from->fd : (void *)from->fabric;

	return RT_CU(c->drv, &c->error, vmm_import, h, os, c->handle_type);
}

void rt_shared_close(const plait_comm *c, union rt_shared *s, unsigned n)
{
	for (unsigned i = 0; i < n && by_descriptor(c); i++) {
		if (s[i].fd >= 0)
			close(s[i].fd);
		s[i].fd = -1;
	}
}

static bool exchange_bytes(plait_comm *c, const union rt_shared *give, unsigned n,
                           union rt_shared *got)
{
	union rt_shared mine[RT_FDS];

	memset(mine, 0, sizeof mine);
	memcpy(mine, give, sizeof *give * n);
	return rt_gather(c, mine, got, sizeof mine) == PLAIT_OK;
}

bool rt_exchange(plait_comm *c, const union rt_shared *give, const unsigned *n,
                 union rt_shared *got)
{
	int fd[RT_FDS], all[CG_MAX_RANKS * RT_FDS];

	if (!by_descriptor(c))
		return exchange_bytes(c, give, n[c->process], got);
	for (unsigned i = 0; i < n[c->process]; i++)
		fd[i] = give[i].fd;
	if (!rt_fd_exchange(c->boot, c->setup_timeout_ns, fd, n, all, &c->error))
		return false;
	for (unsigned i = 0; i < c->processes * RT_FDS; i++)
		got[i].fd = all[i];
	return true;
}
