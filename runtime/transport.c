/*
 * Which transport: each is tried, best first, and taken when it works on all ranks.  Peers are
 * tried by doing: every rank writes into everybody's memory and reads it back.
 */
#include "runtime/comm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what rules a transport out, the same on all ranks ---- */

/* The first rank on another host than rank 0; 0: none is. */
static unsigned elsewhere(const plait_comm *c)
{
	for (unsigned r = 1; r < c->size; r++)
		if (c->rank[r].host != c->rank[0].host)
			return r;
	return 0;
}

static bool peer_refused(const plait_comm *c, char *why, size_t n)
{
	unsigned away = elsewhere(c);

	for (unsigned r = 0; r < c->size; r++) {
		const struct rt_rank *a = &c->rank[r];

		if (!a->vmm)
			snprintf(why, n, "rank %u's GPU has no virtual memory management", r);
		else if (away && !a->fabric)
			snprintf(why, n,
			         "rank 0 and rank %u are on different hosts (or in different "
			         "network "
			         "namespaces), and rank %u's GPU is on no fabric that spans them",
			         away, r);
		else if (!away && !a->fd && c->processes > 1)
			snprintf(why, n, "rank %u's GPU cannot share memory by descriptors", r);
		else
			continue;
		return true;
	}
	return false;
}

/* Whether an earlier rank is on rank r's GPU, and which. */
static bool shares_a_gpu(const plait_comm *c, unsigned r, char *why, size_t n)
{
	for (unsigned q = 0; q < r; q++)
		if (memcmp(c->rank[q].uuid, c->rank[r].uuid, sizeof c->rank[r].uuid) == 0) {
			snprintf(why, n, "ranks %u and %u are on one GPU", q, r);
			return true;
		}
	return false;
}

static bool multicast_refused(const plait_comm *c, char *why, size_t n)
{
	char what[64];

	for (unsigned r = 0; r < c->size; r++)
		if (c->rank[r].multicast_off) {
			rt_why_no_multicast_text(c->rank[r].multicast_off, what, sizeof what);
			snprintf(why, n, "switched off on rank %u by %s", r, what);
			return true;
		}
	if (c->size < 2) {
		snprintf(why, n, "there is one rank only");
		return true;
	}
	for (unsigned r = 0; r < c->size; r++) {
		if (!c->rank[r].multicast) {
			snprintf(why, n, "rank %u's GPU, or its driver, has none", r);
			return true;
		}
		if (shares_a_gpu(c, r, why, n))
			return true;
	}
	return false;
}

/* ---- peers ---- */

enum { WORDS = 4, SLOT = 256 }; /* of a pair, and bytes from one source's to the next */

static uint32_t pattern(unsigned from, unsigned to, unsigned word)
{
	return 0x9e3779b9u * (1 + from * 1031u + to * 65537u + word * 257u);
}

static bool write_all(plait_comm *c, const struct rt_memory *m, unsigned l)
{
	struct rt_local *at = &c->local[l];
	bool ok = rt_enter(c, l);

	if (!ok)
		return false;
	for (unsigned r = 0; r < c->size && ok; r++) {
		for (unsigned w = 0; w < WORDS && ok; w++)
			ok = RT_CU(c->drv, &c->error, set_d32,
			           m->va[r] + (cu_address)at->rank * SLOT + w * 4,
			           pattern(at->rank, r, w), 1, at->stream);
		if (!ok)
			rt_error_context(&c->error, "rank %u: writing to rank %u", at->rank, r);
	}
	ok = ok && rt_wait(c, l, at->stream);
	rt_leave(c);
	return ok;
}

/* Reads the words that `from` wrote to `to`, as local rank l sees them. */
static bool read_one(plait_comm *c, const struct rt_memory *m, unsigned l, unsigned from,
                     unsigned to)
{
	struct rt_local *at = &c->local[l];
	uint32_t seen[WORDS] = {0};

	if (!RT_CU(c->drv, &c->error, copy_to_host, seen, m->va[to] + (cu_address)from * SLOT,
	           sizeof seen, at->stream) ||
	    !rt_wait(c, l, at->stream)) {
		rt_error_context(&c->error, "rank %u: reading from rank %u", at->rank, to);
		return false;
	}
	for (unsigned w = 0; w < WORDS; w++)
		if (seen[w] != pattern(from, to, w)) {
			rt_fail(&c->error, PLAIT_ENV,
			        "rank %u: of what rank %u wrote to rank %u, word %u is 0x%x and "
			        "not 0x%x: "
			        "the GPUs cannot reach one another",
			        at->rank, from, to, w, seen[w], pattern(from, to, w));
			return false;
		}
	return true;
}

/* What all wrote to this rank, and what this rank and the target itself wrote to everybody. */
static bool read_all(plait_comm *c, const struct rt_memory *m, unsigned l)
{
	unsigned own = c->local[l].rank;
	bool ok = rt_enter(c, l);

	if (!ok)
		return false;
	for (unsigned r = 0; r < c->size && ok; r++)
		ok = read_one(c, m, l, r, own) && read_one(c, m, l, own, r) &&
		     read_one(c, m, l, r, r);
	rt_leave(c);
	return ok;
}

static enum plait_status probe_peers(plait_comm *c, const struct rt_memory *m)
{
	for (unsigned l = 0; l < c->nlocal; l++)
		if (!write_all(c, m, l)) {
			rt_blame(c, l);
			break;
		}
	if (rt_vote(c) != PLAIT_OK)
		return c->error.status;
	for (unsigned l = 0; l < c->nlocal; l++)
		if (!read_all(c, m, l)) {
			rt_blame(c, l);
			break;
		}
	return rt_vote(c);
}

/* Allocates a page by `by`, probes it, and frees it. */
static enum plait_status try_memory(plait_comm *c, enum plait_transport by, bool *multicast)
{
	struct rt_memory m;

	*multicast = false;
	/* Multicast objects are made exportable also for one process, as NVIDIA's guide does. */
	if (c->processes > 1 || (by == PLAIT_BY_MULTICAST && c->rank[0].fd))
		c->handle_type = elsewhere(c) ? RT_CU_MEM_HANDLE_TYPE_FABRIC
		                              : RT_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (rt_memory_create(c, &m, (size_t)SLOT * CG_MAX_RANKS, by) != PLAIT_OK)
		return c->error.status;
	*multicast = m.have_mc;
	probe_peers(c, &m);
	rt_memory_free(c, &m);
	return c->error.status;
}

/* ---- NCCL ---- */

static bool nccl_refused(const plait_comm *c, char *why, size_t n)
{
	for (unsigned r = 0; r < c->size; r++)
		if (shares_a_gpu(c, r, why, n))
			return true;
	return false;
}

/*
 * NCCL has its own ways to multicast: what switches it off here switches it off there.  Of its options
 * for one communicator none did so before 2.32, so it is the variable, which doc/communicators.md tells
 * of; not where it says so already, since to set one is not for programs of several threads.
 */
static void hush_nccl(const plait_comm *c)
{
	const char *now = getenv("NCCL_NVLS_ENABLE");
	bool off = false;

	for (unsigned r = 0; r < c->size; r++)
		off |= c->rank[r].multicast_off != 0;
	if (off && (!now || strcmp(now, "0") != 0))
		setenv("NCCL_NVLS_ENABLE", "0", 1);
}

static bool init_ranks(plait_comm *c, struct nccl_id id, struct nccl_comm **out)
{
	bool ok = RT_NC0(c->nccl, &c->error, group_start);

	for (unsigned l = 0; l < c->nlocal && ok; l++) {
		ok = rt_enter(c, l);
		if (!ok)
			break;
		ok = rt_cu_given(RT_NC(c->nccl, &c->error, init_rank, &out[l], (int)c->size, id,
		                       (int)c->local[l].rank),
		                 &out[l], sizeof out[l]);
		rt_leave(c);
	}
	return RT_NC0(c->nccl, &c->error, group_end) && ok;
}

enum plait_status rt_nccl_ranks(plait_comm *c, struct nccl_comm **out)
{
	struct nccl_id id, all[CG_MAX_RANKS];

	hush_nccl(c);
	if (!c->nccl && rt_nccl_open(&c->own_nccl, NULL, &c->error) == PLAIT_OK)
		c->nccl = &c->own_nccl;
	memset(&id, 0, sizeof id);
	if (c->process == 0 && c->error.status == PLAIT_OK)
		RT_NC(c->nccl, &c->error, unique_id, &id);
	if (rt_vote(c) != PLAIT_OK || rt_gather(c, &id, all, sizeof id) != PLAIT_OK)
		return c->error.status;
	init_ranks(c, all[0], out);
	return rt_vote(c);
}

void rt_nccl_ranks_free(plait_comm *c, struct nccl_comm **comm)
{
	/* Destroying waits for the others, who may be gone. */
	for (unsigned l = 0; l < c->nlocal; l++)
		if (comm[l])
			(c->boot && c->boot->broken ? c->nccl->abort : c->nccl->destroy)(comm[l]);
}

static enum plait_status try_nccl(plait_comm *c, const struct plait_comm_options *o,
                                  const struct rt_hooks *h)
{
	if (h->nccl)
		c->nccl = h->nccl;
	if (o->bootstrap == PLAIT_BOOT_NCCL) {
		c->nccl_comm[0] = o->nccl;
		return rt_vote(c);
	}
	c->nccl_owned = true;
	return rt_nccl_ranks(c, c->nccl_comm);
}

/* ---- the choice ---- */

/* Notes why the one that was tried is not taken. */
static void refuse(plait_comm *c, const char *what)
{
	rt_why(c, "%s: %s", what, c->error.text);
	if (!c->boot->broken)
		rt_error_clear(&c->error);
}

static bool find_memory(plait_comm *c, const struct plait_comm_options *o)
{
	char why[400];
	bool multicast = false;
	enum plait_transport by = PLAIT_BY_MULTICAST;

	if (multicast_refused(c, why, sizeof why)) {
		rt_why(c, "multicast: %s", why);
		by = PLAIT_BY_PEER;
	}
	if (o->at_most == PLAIT_BY_NCCL)
		snprintf(why, sizeof why, "switched off by at_most");
	if (o->at_most == PLAIT_BY_NCCL || peer_refused(c, why, sizeof why)) {
		rt_why(c, "peer: %s", why);
		return false;
	}
	if (try_memory(c, by, &multicast) != PLAIT_OK) {
		refuse(c, "peer");
		return false;
	}
	c->transport = multicast ? PLAIT_BY_MULTICAST : PLAIT_BY_PEER;
	rt_why(c, "peer: every rank wrote to every rank's memory and read it back");
	if (multicast)
		rt_why(c, "multicast: the object was made on all ranks");
	return true;
}

enum plait_status rt_find_transport(plait_comm *c, const struct plait_comm_options *o,
                                    const struct rt_hooks *h)
{
	char why[400];

	if (rt_same(c, "at_most", o->at_most) != PLAIT_OK)
		return c->error.status;
	if (find_memory(c, o) || c->boot->broken)
		return c->error.status;
	if (nccl_refused(c, why, sizeof why)) {
		rt_why(c, "NCCL: %s", why);
	} else if (try_nccl(c, o, h) == PLAIT_OK) {
		c->transport = PLAIT_BY_NCCL;
		rt_why(c, "NCCL: a communicator of all ranks was made");
		return PLAIT_OK;
	} else {
		refuse(c, "NCCL");
	}
	return c->error.status != PLAIT_OK
	               ? c->error.status
	               : rt_fail(&c->error, PLAIT_ENV, "no transport works:\n%s", c->why);
}
