/*
 * Memory of the ranks: allocations with guard bands, unicast and multicast addresses, who wrote
 * what, which bytes are defined.  An address says its allocation in the bits from SIM_ADDR_SHIFT
 * up, so that arithmetic that leaves an allocation cannot land in another by accident.
 */
#include "sim/order.h"
#include <string.h>

static struct sim_block *block_new(struct sim *s, unsigned rank, uint64_t bytes, const char *name)
{
	struct sim_block *b = arena_new(s->arena, struct sim_block);

	if (bytes > SIM_ALLOC_MAX || s->nblock >= SIM_MAX_ALLOCS)
		longjmp(s->arena->oom, 1);
	s->block = arena_grow(s->arena, s->block, s->nblock, &s->cap_block, s->nblock + 1,
	                      sizeof *s->block);
	b->name = arena_strndup(s->arena, name, strlen(name));
	b->rank = rank;
	b->bytes = bytes;
	s->block[s->nblock++] = b;
	b->addr = ((uint64_t)s->nblock << SIM_ADDR_SHIFT) + SIM_GUARD;
	return b;
}

uint64_t sim_alloc(struct sim *s, unsigned rank, uint64_t bytes, const char *name)
{
	struct sim_block *b = block_new(s, rank, bytes, name);

	b->data = arena_alloc(s->arena, bytes + 1);
	b->defined = arena_array(s->arena, bytes / 64 + 1, sizeof *b->defined);
	b->writer = arena_array(s->arena, bytes / 2 + 1, sizeof *b->writer);
	b->when = arena_array(s->arena, bytes / 2 + 1, sizeof *b->when);
	if (s->race)
		b->shadow = sim_race_shadow(s, bytes);
	return b->addr;
}

struct sim_symmetric sim_alloc_symmetric(struct sim *s, uint64_t bytes, bool multicast,
                                         const char *name)
{
	struct sim_symmetric m = {{0}, 0};
	struct sim_block *all;

	for (unsigned r = 0; r < s->o.ranks; r++)
		m.uc[r] = sim_alloc(s, r, bytes, name);
	if (!multicast)
		return m;
	all = block_new(s, SIM_MAX_RANKS, bytes, name);
	for (unsigned r = 0; r < s->o.ranks; r++)
		all->replica[r] = sim_find(s, m.uc[r]);
	m.mc = all->addr;
	return m;
}

struct sim_block *sim_find(struct sim *s, uint64_t addr)
{
	uint64_t n = addr >> SIM_ADDR_SHIFT;

	return n && n <= s->nblock ? s->block[n - 1] : NULL;
}

/* The unicast block that holds n bytes at addr, or NULL. */
static struct sim_block *host_block(struct sim *s, uint64_t addr, uint64_t n, uint64_t *off)
{
	struct sim_block *b = sim_find(s, addr);

	if (!b || b->rank == SIM_MAX_RANKS || addr < b->addr)
		return NULL;
	*off = addr - b->addr;
	return *off <= b->bytes && n <= b->bytes - *off ? b : NULL;
}

static void set_defined(struct sim_block *b, uint64_t off, uint64_t n, bool defined)
{
	while (n) {
		unsigned at = off & 63, count = n < 64 - at ? (unsigned)n : 64 - at;
		uint64_t bits = (~UINT64_C(0) >> (64 - count)) << at;

		if (defined)
			b->defined[off / 64] |= bits;
		else
			b->defined[off / 64] &= ~bits;
		off += count;
		n -= count;
	}
}

bool sim_bytes_defined(const struct sim_block *b, uint64_t off, uint64_t n)
{
	while (n) {
		unsigned at = off & 63, count = n < 64 - at ? (unsigned)n : 64 - at;
		uint64_t bits = (~UINT64_C(0) >> (64 - count)) << at;

		if ((b->defined[off / 64] & bits) != bits)
			return false;
		off += count;
		n -= count;
	}
	return true;
}

bool sim_write(struct sim *s, uint64_t addr, const void *p, uint64_t n)
{
	uint64_t off;
	struct sim_block *b = host_block(s, addr, n, &off);

	if (!b)
		return false;
	if (!n)
		return true;
	sim_race_host(s, b, off, n, true);
	memcpy(b->data + off, p, n);
	set_defined(b, off, n, true);
	if (b->written)
		memset(&b->writer[off / 2], 0,
		       ((off + n - 1) / 2 - off / 2 + 1) * sizeof *b->writer);
	return true;
}

bool sim_read(struct sim *s, uint64_t addr, void *p, uint64_t n)
{
	uint64_t off;
	struct sim_block *b = host_block(s, addr, n, &off);

	if (b && n) {
		sim_race_host(s, b, off, n, false);
		memcpy(p, b->data + off, n);
	}
	return b != NULL;
}

bool sim_undefine(struct sim *s, uint64_t addr, uint64_t n)
{
	uint64_t off;
	struct sim_block *b = host_block(s, addr, n, &off);

	if (b)
		set_defined(b, off, n, false);
	return b != NULL;
}

bool sim_defined(struct sim *s, uint64_t addr, uint64_t n)
{
	uint64_t off;
	struct sim_block *b = host_block(s, addr, n, &off);

	return b && sim_bytes_defined(b, off, n);
}

uint32_t sim_writer(struct sim *s, uint64_t addr, unsigned *rank)
{
	uint64_t off;
	struct sim_block *b = host_block(s, addr, 1, &off);
	uint32_t u = b ? b->writer[off / 2] : 0;

	if (rank)
		*rank = u ? (u & 31) - 1 : 0;
	return u >> 5;
}

/* Says what is wrong with an address: returns NULL. */
struct sim_block *sim_bad_addr(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                               unsigned lane, uint64_t addr, unsigned size, bool multicast)
{
	struct sim_block *b = sim_find(s, addr);
	uint64_t off = b ? addr - b->addr : 0;

	if (b && (b->rank == SIM_MAX_RANKS) != multicast)
		sim_found(s, w, op, lane, SIM_SPACE,
		          "%s is a %s address, which takes %s operations only",
		          sim_address_text(s, addr), multicast ? "unicast" : "multicast",
		          multicast ? "ordinary" : "multimem");
	else if (!b || off >= b->bytes || size > b->bytes - off)
		sim_found(s, w, op, lane, SIM_BOUNDS, "%u bytes at %s", size,
		          sim_address_text(s, addr));
	else
		sim_found(s, w, op, lane, SIM_ALIGN,
		          "%s is not a multiple of the access's %u bytes",
		          sim_address_text(s, addr), size);
	return NULL;
}

/* Is the launch that started as number `when` still running?  Any rank may read any memory. */
static bool running(const struct sim *s, uint16_t when)
{
	for (unsigned r = 0; r < s->o.ranks; r++)
		for (unsigned t = 0; t < SIM_STREAMS; t++) {
			const struct sim_launch *l = s->rank[r].stream[t];

			if (l && l->started && l->when == when)
				return true;
		}
	return false;
}

/* A write to bytes that a grid, still running, has read as constant (.nc). */
static void check_constant(struct sim *s, const struct sim_warp *w, const struct sim_op *op,
                           const struct sim_block *b, uint64_t off, unsigned n)
{
	for (uint64_t g = off / 2; g <= (off + n - 1) / 2; g++) {
		uint64_t note = b->constant[g];

		if (!note || !running(s, (uint16_t)note))
			continue;
		sim_found(s, w, op, SIM_LANES, SIM_READONLY,
		          "%s was read by ld.global.nc at PTX line %u by a grid that still runs",
		          sim_address_text(s, b->addr + g * 2), (unsigned)(note >> 16));
		return;
	}
}

void sim_store(struct sim *s, const struct sim_warp *w, const struct sim_op *op,
               struct sim_block *b, uint64_t off, const void *p, unsigned n)
{
	uint32_t line = op->insn->line < (1u << 27) ? op->insn->line : 0;
	uint32_t who = line << 5 | (w->cta->launch->rank + 1);
	const uint64_t first = off / 2, last = (off + n - 1) / 2;
	const uint16_t when = s->started;

	b->defined[off / 64] |= ((UINT64_C(1) << n) - 1) << (off & 63);
	if (n == 16) { /* nearly all stores: loops of a fixed length */
		memcpy(b->data + off, p, 16);
		for (unsigned i = 0; i < 8; i++)
			b->writer[first + i] = who;
		for (unsigned i = 0; i < 8; i++)
			b->when[first + i] = when;
	} else {
		memcpy(b->data + off, p, n);
		for (uint64_t i = first; i <= last; i++) {
			b->writer[i] = who;
			b->when[i] = when;
		}
	}
	b->last_write = s->started;
	b->written = true;
	s->progress++;
	if (b->watched)
		sim_wake_line(s, b->addr + off, n);
	if (b->constant)
		check_constant(s, w, op, b, off, n);
}

bool sim_bad_bytes(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned lane,
                   const struct sim_block *b, uint64_t off, unsigned n)
{
	unsigned k = 0;

	while (k < n && sim_bytes_defined(b, off + k, 1))
		k++;
	sim_found(s, w, op, lane, SIM_UNINIT_MEM, "%s has never been written",
	          sim_address_text(s, b->addr + off + k));
	return false;
}

void sim_event(struct sim *s, const struct sim_warp *w, const struct sim_op *op, unsigned lane,
               enum sim_access_kind kind, const struct sim_block *b, uint64_t off, unsigned n,
               bool multicast)
{
	struct sim_access e = {
	        .kind = kind,
	        .rank = w->cta->launch->rank,
	        .cta = w->cta->index,
	        .thread = sim_thread(w, lane),
	        .home = b ? b->rank : w->cta->launch->rank,
	        .offset = b ? b->addr - SIM_GUARD + off : off,
	        .size = n,
	        .shared = !b && kind != SIM_ACC_FENCE && kind != SIM_ACC_BARRIER,
	        .multicast = multicast,
	        .order = op->insn->mod.order,
	        .scope = op->insn->mod.scope,
	        .insn = op->insn,
	};

	s->o.on_access(s->o.ctx, &e);
}
