/*
 * Symmetric memory of the runtime's own: each rank allocates, exports a descriptor, and maps
 * everybody's. Ranks of one process share the mappings: rank r's memory has one address there, open
 * to all its GPUs.
 */
#include "runtime/comm.h"
#include "runtime/fdpass.h"
#include <string.h>

static struct cu_alloc_prop prop_of(const plait_comm *c, unsigned local, enum plait_transport by)
{
	struct cu_alloc_prop p = {.type = RT_CU_MEM_ALLOCATION_TYPE_PINNED};

	p.location = (struct cu_location){RT_CU_MEM_LOCATION_TYPE_DEVICE, c->local[local].device};
	/*
	 * "Externally shareable multicast objects can be bound only to externally shareable
	 * memory."
	 */
	if (by != PLAIT_BY_NCCL)
		p.handle_types = c->handle_type;
	return p;
}

/* The GPUs of this process, each once; or one rank's. */
static unsigned devices(const plait_comm *c, int local, struct cu_access *out)
{
	unsigned n = 0;

	for (unsigned l = 0; l < c->nlocal; l++) {
		struct cu_location at = {RT_CU_MEM_LOCATION_TYPE_DEVICE, c->local[l].device};
		bool known = local >= 0 && (unsigned)local != l;

		for (unsigned i = 0; i < n; i++)
			known |= out[i].location.id == at.id;
		if (!known)
			out[n++] = (struct cu_access){at, RT_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	}
	return n;
}

bool rt_map(plait_comm *c, cu_handle h, size_t bytes, int local, cu_address *va, size_t *reserved,
            bool *mapped)
{
	struct cu_access access[CG_MAX_RANKS];
	unsigned n = devices(c, local, access);

	if (!RT_CU(c->drv, &c->error, vmm_reserve, va, bytes, 0, 0, 0))
		return false;
	*reserved = bytes;
	*mapped = RT_CU(c->drv, &c->error, vmm_map, *va, bytes, 0, h, 0);
	return *mapped && RT_CU(c->drv, &c->error, vmm_access, *va, bytes, access, n);
}

void rt_unmap(plait_comm *c, cu_address *va, size_t *reserved, bool *mapped)
{
	if (*mapped)
		c->drv->vmm_unmap(*va, *reserved);
	if (*reserved)
		c->drv->vmm_unreserve(*va, *reserved);
	*va = 0;
	*reserved = 0;
	*mapped = false;
}

size_t rt_granularity(plait_comm *c, enum plait_transport by)
{
	uint64_t mine = 1, all[CG_MAX_RANKS];

	for (unsigned l = 0; l < c->nlocal; l++) {
		struct cu_alloc_prop p = prop_of(c, l, by);
		struct cu_multicast_prop mp = {.num_devices = c->size, .size = 1};
		size_t g = 0, mg = 0;

		mp.handle_types = (unsigned long long)p.handle_types;
		if (!RT_CU(c->drv, &c->error, vmm_granularity, &g, &p,
		           RT_CU_MEM_ALLOC_GRANULARITY_MINIMUM)) {
			rt_blame(c, l);
			break;
		}
		/* The least: the recommended one can be half a gigabyte. */
		if (by == PLAIT_BY_MULTICAST) {
			mp.size = g;
			if (!RT_CU(c->drv, &c->error, multicast_granularity, &mg, &mp,
			           RT_CU_MULTICAST_GRANULARITY_MINIMUM)) {
				rt_blame(c, l);
				break;
			}
		}
		mine = g > mine ? g : mine;
		mine = mg > mine ? mg : mine;
	}
	if (rt_vote(c) != PLAIT_OK || rt_gather(c, &mine, all, sizeof mine) != PLAIT_OK)
		return 0;
	for (unsigned p = 0; p < c->processes; p++) {
		if (all[p] == 0 || all[p] > (uint64_t)1 << 40 || (all[p] & (all[p] - 1))) {
			rt_fail(&c->error, PLAIT_ENV,
			        "process %u says that memory comes in pieces of %llu bytes: the "
			        "allgather does not give what the processes send",
			        p, (unsigned long long)all[p]);
			return 0;
		}
		mine = all[p] > mine ? all[p] : mine;
	}
	return (size_t)mine;
}

/* Own memory: allocated, mapped, zero. */
static bool make_own(plait_comm *c, struct rt_memory *m, unsigned l, enum plait_transport by)
{
	struct cu_alloc_prop p = prop_of(c, l, by);
	struct rt_local *at = &c->local[l];
	unsigned r = at->rank;
	bool ok;

	if (!RT_CU(c->drv, &c->error, vmm_create, &m->own[l], m->bytes, &p, 0))
		return false;
	m->have[l] = true;
	if (!rt_map(c, m->own[l], m->bytes, by == PLAIT_BY_NCCL ? (int)l : -1, &m->va[r],
	            &m->reserved[r], &m->mapped[r]))
		return false;
	if (!rt_enter(c, l))
		return false;
	ok = RT_CU(c->drv, &c->error, set_d8, m->va[r], 0, m->bytes, at->stream) &&
	     rt_wait(c, l, at->stream);
	rt_leave(c);
	return ok;
}

static enum plait_status make_all_own(plait_comm *c, struct rt_memory *m, enum plait_transport by)
{
	for (unsigned l = 0; l < c->nlocal; l++)
		if (!make_own(c, m, l, by)) {
			rt_blame(c, l);
			break;
		}
	return rt_vote(c);
}

/* Exports this process's memory, in order; how much of it. */
static unsigned export_own(plait_comm *c, const struct rt_memory *m, union rt_shared *out)
{
	for (unsigned l = 0; l < c->nlocal; l++)
		if (!rt_export(c, m->own[l], &out[l])) {
			rt_blame(c, l);
			return l;
		}
	return c->nlocal;
}

static bool import_one(plait_comm *c, struct rt_memory *m, unsigned rank, union rt_shared *from)
{
	cu_handle h;
	bool ok;

	if (!rt_import(c, from, &h))
		return false;
	ok = rt_map(c, h, m->bytes, -1, &m->va[rank], &m->reserved[rank], &m->mapped[rank]);
	/* The mapping keeps the memory. */
	c->drv->vmm_release(h);
	return ok;
}

static void import_all(plait_comm *c, struct rt_memory *m, union rt_shared *got)
{
	for (unsigned r = 0; r < c->size; r++) {
		unsigned p = r / c->nlocal;

		if (p != c->process && !import_one(c, m, r, &got[p * RT_FDS + r % c->nlocal])) {
			rt_error_context(&c->error, "rank %u: mapping the memory of rank %u",
			                 c->first, r);
			return;
		}
	}
}

static enum plait_status share_memory(plait_comm *c, struct rt_memory *m)
{
	union rt_shared give[RT_FDS], got[CG_MAX_RANKS * RT_FDS];
	unsigned n[CG_MAX_RANKS], have;

	for (unsigned p = 0; p < c->processes; p++)
		n[p] = c->nlocal;
	have = export_own(c, m, give);
	if (rt_vote(c) == PLAIT_OK) {
		if (rt_exchange(c, give, n, got)) {
			import_all(c, m, got);
			rt_shared_close(c, got, c->processes * RT_FDS);
		}
		rt_vote(c);
	}
	rt_shared_close(c, give, have);
	return c->error.status;
}

enum plait_status rt_memory_create(plait_comm *c, struct rt_memory *m, size_t bytes,
                                   enum plait_transport by)
{
	size_t granule;

	*m = (struct rt_memory){0};
	granule = rt_granularity(c, by);
	if (!granule || rt_same(c, "the size of a buffer", bytes) != PLAIT_OK)
		return c->error.status;
	if (bytes == 0 || bytes > SIZE_MAX - granule)
		return rt_fail(&c->error, PLAIT_USAGE, "a buffer of %zu bytes", bytes);
	m->bytes = (bytes + granule - 1) / granule * granule;
	if (make_all_own(c, m, by) != PLAIT_OK ||
	    (by != PLAIT_BY_NCCL && c->processes > 1 && share_memory(c, m) != PLAIT_OK))
		rt_memory_free(c, m);
	else if (by == PLAIT_BY_MULTICAST && rt_multicast_create(c, m) != PLAIT_OK) {
		if (c->boot->broken) {
			rt_memory_free(c, m);
			return c->error.status;
		}
		rt_why(c, "a buffer of %zu bytes has no multicast address: %s", m->bytes,
		       c->error.text);
		rt_error_clear(&c->error);
	}
	return c->error.status;
}

void rt_memory_free(plait_comm *c, struct rt_memory *m)
{
	rt_multicast_free(c, m);
	for (unsigned r = 0; r < c->size; r++)
		rt_unmap(c, &m->va[r], &m->reserved[r], &m->mapped[r]);
	for (unsigned l = 0; l < c->nlocal; l++)
		if (m->have[l]) {
			c->drv->vmm_release(m->own[l]);
			m->have[l] = false;
		}
}
