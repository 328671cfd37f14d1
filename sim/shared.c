/*
 * Shared memory of a CTA: bounds by variable, defined bytes, and races.  Warps are ordered by
 * barriers alone: each warp counts its barriers, and knows of every other warp the count it is
 * ordered after.  A word keeps its last writer and two readers that are not ordered with one
 * another.
 */
#include "sim/async.h"
#include "sim/order.h"
#include <inttypes.h>
#include <string.h>

bool sim_shared_ordered(const struct sim_cta *c, unsigned me, unsigned thread, uint32_t clock)
{
	unsigned v = thread / SIM_LANES;

	if (thread == me)
		return true;
	if (v == me / SIM_LANES)
		return clock < c->met[v];
	return c->seen[me / SIM_LANES][v] > clock;
}

static bool race(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned lane,
                 const char *name, uint64_t at, const char *what, unsigned other, uint32_t line)
{
	sim_found(s, w, op, lane, SIM_SHARED_RACE,
	          "'%s' + %" PRIu64 " of shared memory: thread %u %s it at PTX line %u, with no "
	          "barrier between",
	          name, at, other, what, line);
	return false;
}

/* Checks one word and notes the access; false: a race was reported. */
static bool touch(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned lane,
                  const struct sim_shared_var *v, uint64_t addr, uint8_t bytes, bool write)
{
	struct sim_cta *c = w->cta;
	struct sim_word *x = &c->word[addr / 4];
	const unsigned me = sim_thread(w, lane);
	const uint64_t at = addr - v->at;

	if ((x->wmask & bytes) && !sim_shared_ordered(c, me, x->wthread, x->wclock))
		return race(s, w, op, lane, v->name, at, "wrote", x->wthread, x->wline);
	if (write) {
		if ((x->rmask & bytes) && !sim_shared_ordered(c, me, x->rthread, x->rclock))
			return race(s, w, op, lane, v->name, at, "read", x->rthread, x->rline);
		if ((x->rmask2 & bytes) && !sim_shared_ordered(c, me, x->rthread2, x->rclock2))
			return race(s, w, op, lane, v->name, at, "read", x->rthread2, x->rline2);
		x->wthread = (uint16_t)me;
		x->wclock = c->clock[w->index];
		x->wline = op->insn->line;
		x->wmask = bytes;
		x->wfence = c->async ? c->async->fences[me] : 0;
		return true;
	}
	if (x->rmask && x->rthread / SIM_LANES != w->index) {
		x->rthread2 = x->rthread;
		x->rclock2 = x->rclock;
		x->rline2 = x->rline;
		x->rmask2 = x->rmask;
	}
	x->rthread = (uint16_t)me;
	x->rclock = c->clock[w->index];
	x->rline = op->insn->line;
	x->rmask = bytes;
	return true;
}

static uint32_t size_of(const struct sim_warp *w, const struct sim_shared_var *v)
{
	const struct sim_launch *l = w->cta->launch;

	return l->kernel->dynamic && v == &l->kernel->shared[l->kernel->dynamic - 1] ? l->dynamic
	                                                                             : v->size;
}

static const struct sim_shared_var *variable_at(const struct sim_warp *w, uint64_t addr)
{
	const struct sim_kernel *k = w->cta->launch->kernel;

	for (uint32_t i = 0; i < k->nshared; i++)
		if (addr >= k->shared[i].at && addr - k->shared[i].at < size_of(w, &k->shared[i]))
			return &k->shared[i];
	return NULL;
}

uint8_t *sim_shared_access(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                           unsigned lane, uint64_t addr, unsigned n, bool read, bool write)
{
	struct sim_cta *c = w->cta;
	const struct sim_shared_var *v = variable_at(w, addr);

	if (!v || n > v->at + size_of(w, v) - addr) {
		sim_found(s, w, op, lane, SIM_BOUNDS,
		          "%u bytes at shared address %" PRIu64 ", %s%s%s", n, addr,
		          v ? "which pass the end of '" : "where no variable is", v ? v->name : "",
		          v ? "'" : "");
		return NULL;
	}
	if (addr & (n - 1)) {
		sim_found(s, w, op, lane, SIM_ALIGN,
		          "'%s' + %" PRIu64
		          " of shared memory is not a multiple of the access's %u bytes",
		          v->name, addr - v->at, n);
		return NULL;
	}
	if (c->async && !sim_async_touch(s, w, op, lane, v->name, addr, n, write))
		return NULL;
	for (unsigned k = 0; k < n; k++) {
		if (read && !(c->shared_defined[addr + k] & SIM_SHARED_DEFINED)) {
			sim_found(s, w, op, lane, SIM_UNINIT_MEM,
			          "'%s' + %" PRIu64
			          " of shared memory has not been written by this CTA",
			          v->name, addr + k - v->at);
			return NULL;
		}
		if (write)
			c->shared_defined[addr + k] |= SIM_SHARED_DEFINED;
	}
	for (unsigned k = 0; k < n && !(read && write); k += 4) { /* atomics do not race */
		uint8_t bytes = (uint8_t)((n >= 4 ? 15u : (1u << n) - 1) << (addr & 3));

		if (read && !touch(s, w, op, lane, v, addr + k, bytes, false))
			return NULL;
		if (write && !touch(s, w, op, lane, v, addr + k, bytes, true))
			return NULL;
	}
	if (s->o.on_access)
		sim_event(s, w, op, lane,
		          read && write ? SIM_ACC_RMW
		          : read        ? SIM_ACC_READ
		                        : SIM_ACC_WRITE,
		          NULL, addr, n, false);
	return c->shared + addr;
}

/* What threads did to a word that a copy now fills or reads: all of it ordered, writes fenced. */
static bool word_is_ready(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned lane,
                          const struct sim_shared_var *v, uint64_t addr, bool load)
{
	struct sim_cta *c = w->cta;
	struct sim_word *x = &c->word[addr / 4];
	const unsigned me = sim_thread(w, lane);
	const uint64_t at = addr - v->at;

	if (x->wmask && !sim_shared_ordered(c, me, x->wthread, x->wclock))
		return race(s, w, op, lane, v->name, at, "wrote", x->wthread, x->wline);
	if (load && x->rmask && !sim_shared_ordered(c, me, x->rthread, x->rclock))
		return race(s, w, op, lane, v->name, at, "read", x->rthread, x->rline);
	if (load && x->rmask2 && !sim_shared_ordered(c, me, x->rthread2, x->rclock2))
		return race(s, w, op, lane, v->name, at, "read", x->rthread2, x->rline2);
	if (x->wmask && c->async->fences[x->wthread] == x->wfence) {
		sim_found(s, w, op, lane, SIM_PROXY,
		          "'%s' + %" PRIu64
		          " of shared memory: thread %u wrote it at PTX line %u and "
		          "made no fence.proxy.async since",
		          v->name, at, x->wthread, x->wline);
		return false;
	}
	if (load)
		x->wmask = x->rmask = x->rmask2 = 0;
	return true;
}

bool sim_shared_bulk(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned lane,
                     uint64_t addr, uint32_t n, bool load)
{
	struct sim_cta *c = w->cta;
	const struct sim_shared_var *v = variable_at(w, addr);

	if (!v || n > v->at + size_of(w, v) - addr) {
		sim_found(s, w, op, lane, SIM_BOUNDS,
		          "a bulk copy of %u bytes at shared address %" PRIu64 ", %s%s%s", n, addr,
		          v ? "which pass the end of '" : "where no variable is", v ? v->name : "",
		          v ? "'" : "");
		return false;
	}
	if (addr % 16) {
		sim_found(s, w, op, lane, SIM_ALIGN,
		          "'%s' + %" PRIu64 " of shared memory is not a multiple of 16 bytes",
		          v->name, addr - v->at);
		return false;
	}
	if (!sim_async_touch(s, w, op, lane, v->name, addr, n, load))
		return false;
	for (uint32_t k = 0; k < n; k++)
		if (!load && !(c->shared_defined[addr + k] & SIM_SHARED_DEFINED)) {
			sim_found(s, w, op, lane, SIM_UNINIT_MEM,
			          "'%s' + %" PRIu64
			          " of shared memory has not been written by this CTA",
			          v->name, addr + k - v->at);
			return false;
		}
	for (uint32_t k = 0; k < n; k += 4)
		if (!word_is_ready(s, w, op, lane, v, addr + k, load))
			return false;
	return true;
}

void sim_shared_barrier(struct sim_cta *c, uint32_t warps)
{
	uint32_t most[SIM_MAX_WARPS] = {0};

	SIM_EACH (i, warps) {
		c->seen[i][i] = c->met[i] = ++c->clock[i];
		for (unsigned v = 0; v < c->nwarp; v++)
			if (c->seen[i][v] > most[v])
				most[v] = c->seen[i][v];
	}
	SIM_EACH (j, warps)
		memcpy(c->seen[j], most, sizeof most);
	if (c->async)
		sim_async_barrier(c, warps);
	if (c->race)
		sim_race_barrier(c->launch->kernel->sim, c, warps);
}
