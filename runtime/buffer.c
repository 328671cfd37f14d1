/* Symmetric buffers: of the runtime's own memory, or of the caller's. */
#include "runtime/comm.h"
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

enum plait_status plait_buffer_create(plait_comm *c, size_t bytes, plait_buffer **out)
{
	plait_buffer *b;
	enum plait_status s;

	if (!out)
		return PLAIT_USAGE;
	*out = NULL;
	if (!c || !c->boot)
		return PLAIT_USAGE;
	rt_error_clear(&c->error);
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

/* Whether an address is one that the GPUs can use, as far as the driver says. */
static bool check_address(plait_comm *c, unsigned l, unsigned r, plait_address a)
{
	if (a == 0)
		return rt_fail(&c->error, PLAIT_USAGE,
		               "the address of rank %u's memory is 0 for rank %u", r,
		               c->local[l].rank) == PLAIT_OK;
	if (a % 256)
		return rt_fail(&c->error, PLAIT_USAGE,
		               "the address of rank %u's memory, 0x%llx for rank %u, is not "
		               "256-byte aligned",
		               r, (unsigned long long)a, c->local[l].rank) == PLAIT_OK;
	return true;
}

enum plait_status plait_buffer_import(plait_comm *c, const plait_address *peer,
                                      const plait_address *multicast, size_t bytes,
                                      plait_buffer **out)
{
	plait_buffer *b;

	if (!out)
		return PLAIT_USAGE;
	*out = NULL;
	if (!c || !c->boot)
		return PLAIT_USAGE;
	rt_error_clear(&c->error);
	if (!peer || !bytes)
		return rt_fail(&c->error, PLAIT_USAGE,
		               "the addresses or the size of the memory are missing");
	for (unsigned l = 0; l < c->nlocal; l++)
		for (unsigned r = 0; r < c->size; r++)
			if (!check_address(c, l, r, peer[l * c->size + r]))
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
