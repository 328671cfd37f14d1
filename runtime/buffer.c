/* Symmetric buffers: of the runtime's own memory, or of the caller's. */
#include "runtime/comm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill_addresses(plait_buffer *b)
{
	plait_comm *c = b->comm;

	for (unsigned l = 0; l < c->nlocal; l++) {
		for (unsigned r = 0; r < c->size; r++)
			if (c->transport != PLAIT_BY_NCCL || r == c->local[l].rank)
				b->peer[l][r] = b->memory.va[r];
		b->multicast[l] = b->memory.mc_va[l];
	}
}

/* What both ways to a buffer begin with; false: PLAIT_USAGE. */
static bool wanted(plait_comm *c, plait_buffer **out)
{
	if (out)
		*out = NULL;
	if (!c || !c->boot)
		return false;
	rt_error_clear(&c->error);
	return out || rt_fail(&c->error, PLAIT_USAGE,
	                      "'out' is NULL: there is no place for the "
	                      "buffer") == PLAIT_OK;
}

enum plait_status plait_buffer_create(plait_comm *c, size_t bytes, plait_buffer **out)
{
	plait_buffer *b;
	enum plait_status s;

	if (!wanted(c, out))
		return PLAIT_USAGE;
	b = calloc(1, sizeof *b);
	if (!b)
		rt_fail(&c->error, PLAIT_NOMEM, "out of memory");
	if (rt_vote(c) == PLAIT_OK)
		rt_memory_create(c, &b->memory, bytes, c->transport);
	s = c->error.status;
	if (s != PLAIT_OK) {
		free(b);
		return s;
	}
	b->comm = c;
	b->owned = true;
	b->bytes = b->memory.bytes;
	fill_addresses(b);
	*out = b;
	return PLAIT_OK;
}

/* Whether an address is one that the GPUs can use; `what` names the entry. */
static bool check_address(plait_comm *c, const char *what, unsigned of, plait_address a,
                          size_t bytes)
{
	const char *wrong = a == 0       ? "is 0"
	                    : a % 256    ? "is not 256-byte aligned"
	                    : bytes > ~a ? "and the size go beyond the end of the addresses"
	                                 : NULL;

	if (!wrong)
		return true;
	rt_fail(&c->error, PLAIT_USAGE, "%s, 0x%llx for rank %u, %s", what, (unsigned long long)a,
	        of, wrong);
	return false;
}

static bool check_peers(plait_comm *c, const plait_address *peer, size_t bytes)
{
	char what[80];

	for (unsigned l = 0; l < c->nlocal; l++)
		for (unsigned r = 0; r < c->size; r++) {
			snprintf(what, sizeof what, "peer[%u][%u], the address of rank %u's memory",
			         l, r, r);
			if (!check_address(c, what, c->local[l].rank, peer[l * c->size + r], bytes))
				return false;
		}
	return true;
}

/* All or none: a kernel that goes through the switch needs one on every rank. */
static bool check_multicast(plait_comm *c, const plait_address *multicast, size_t bytes)
{
	char what[80];
	bool any = false;

	for (unsigned l = 0; l < c->nlocal; l++)
		any |= multicast[l] != 0;
	for (unsigned l = 0; l < c->nlocal && any; l++) {
		snprintf(what, sizeof what, "multicast[%u]", l);
		if (multicast[l] == 0) {
			rt_fail(&c->error, PLAIT_USAGE,
			        "%s, for rank %u, is 0, and others are not: give the multicast "
			        "address of every rank, or none",
			        what, c->local[l].rank);
			return false;
		}
		if (!check_address(c, what, c->local[l].rank, multicast[l], bytes))
			return false;
	}
	return true;
}

enum plait_status plait_buffer_import(plait_comm *c, const plait_address *peer,
                                      const plait_address *multicast, size_t bytes,
                                      plait_buffer **out)
{
	plait_buffer *b;

	if (!wanted(c, out))
		return PLAIT_USAGE;
	if (!peer || !bytes)
		return rt_fail(&c->error, PLAIT_USAGE,
		               "the addresses or the size of the memory are missing");
	if (!check_peers(c, peer, bytes) || (multicast && !check_multicast(c, multicast, bytes)))
		return PLAIT_USAGE;
	b = calloc(1, sizeof *b);
	if (!b)
		return rt_fail(&c->error, PLAIT_NOMEM, "out of memory");
	b->comm = c;
	b->bytes = bytes;
	for (unsigned l = 0; l < c->nlocal; l++) {
		memcpy(b->peer[l], peer + l * c->size, sizeof *peer * c->size);
		if (multicast && c->transport == PLAIT_BY_MULTICAST)
			b->multicast[l] = multicast[l];
	}
	*out = b;
	return PLAIT_OK;
}

void plait_buffer_free(plait_buffer *b)
{
	if (!b)
		return;
	if (b->owned)
		rt_memory_free(b->comm, &b->memory);
	free(b);
}

plait_address plait_buffer_address(const plait_buffer *b, unsigned local)
{
	return b && local < b->comm->nlocal ? b->peer[local][b->comm->local[local].rank] : 0;
}

plait_address plait_buffer_peer(const plait_buffer *b, unsigned local, unsigned rank)
{
	return b && local < b->comm->nlocal && rank < b->comm->size ? b->peer[local][rank] : 0;
}

plait_address plait_buffer_multicast(const plait_buffer *b, unsigned local)
{
	return b && local < b->comm->nlocal ? b->multicast[local] : 0;
}

size_t plait_buffer_bytes(const plait_buffer *b)
{
	return b ? b->bytes : 0;
}
