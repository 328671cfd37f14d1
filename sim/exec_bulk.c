/* mbarriers, bulk copies and the fences between ordinary accesses and copies (async.h). */
#include "sim/async.h"
#include "sim/exec.h"
#include "sim/lanes.h"
#include "sim/order.h"
#include <inttypes.h>

static uint64_t shared_addr(const struct sim_op *op, uint64_t addr)
{
	return op->space != PTX_SHARED && addr >> SIM_ADDR_SHIFT == SIM_SHARED_NUMBER
	               ? addr - SIM_SHARED_WINDOW
	               : addr;
}

/* The mbarrier at an address, which the thread has to know to be initialised; NULL: a finding. */
static struct sim_mbar *mbar_of(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                unsigned lane, uint64_t addr)
{
	struct sim_mbar *m = sim_mbar_at(w->cta->async, addr);

	if (!m) {
		sim_found(s, w, op, lane, SIM_MBARRIER,
		          "no mbarrier has been initialised at shared address %" PRIu64, addr);
		return NULL;
	}
	if (!sim_shared_ordered(w->cta, sim_thread(w, lane), m->init_thread, m->init_clock)) {
		sim_found(s, w, op, lane, SIM_SHARED_RACE,
		          "the mbarrier at shared address %" PRIu64
		          ": thread %u initialised it at PTX "
		          "line %u, with no barrier between",
		          addr, m->init_thread, m->init_line);
		return NULL;
	}
	return m;
}

static enum sim_step init_one(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                              unsigned lane)
{
	struct sim_async *a = w->cta->async;
	const uint64_t addr = shared_addr(op, sim_lane_addr(w, op, lane));
	const uint32_t count = ((const uint32_t *)sim_src(w, op->a))[lane];
	struct sim_mbar *m = NULL;

	if (!sim_shared_access(s, w, op, lane, addr, 8, false, true))
		return SIM_STEP_STOP;
	if (!count || count >= 1u << 20)
		return sim_found(s, w, op, lane, SIM_MBARRIER,
		                 "an mbarrier expects 1 to 2^20 - 1 arrivals, not %u", count);
	for (unsigned i = 0; i < a->nmbar && !m; i++)
		if (!a->mbar[i].valid && a->mbar[i].at == addr)
			m = &a->mbar[i];
	if (!m && a->nmbar == SIM_MBARS)
		return sim_found(s, w, op, lane, SIM_UNSUPPORTED, "more than %d mbarriers in a CTA",
		                 SIM_MBARS);
	if (!m)
		m = &a->mbar[a->nmbar++];
	m->at = (uint32_t)addr;
	m->count = m->pending = count;
	m->tx = 0;
	m->valid = true;
	m->fenced = false;
	m->init_thread = (uint16_t)sim_thread(w, lane);
	m->init_clock = w->cta->clock[w->index];
	m->init_line = op->insn->line;
	return SIM_STEP_NEXT;
}

enum sim_step exec_mbar_init(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                             uint32_t mask)
{
	SIM_EACH (i, mask)
		if (init_one(s, w, op, i) == SIM_STEP_STOP)
			return SIM_STEP_STOP;
	sim_note_store(s, w);
	return SIM_STEP_NEXT;
}

enum sim_step exec_mbar_inval(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                              uint32_t mask)
{
	SIM_EACH (i, mask) {
		struct sim_mbar *m = mbar_of(s, w, op, i, shared_addr(op, sim_lane_addr(w, op, i)));

		if (!m)
			return SIM_STEP_STOP;
		m->valid = false;
		/* A later mbarrier here starts at phase 0 with an even number of the count. */
		m->phase += m->phase & 1;
	}
	return SIM_STEP_NEXT;
}

/* What the warp did before, whoever waits for the phase is ordered behind. */
static void release(struct sim_warp *w, struct sim_mbar *m)
{
	struct sim_cta *c = w->cta;

	for (unsigned v = 0; v < c->nwarp; v++)
		if (c->seen[w->index][v] > m->clock[0][v])
			m->clock[0][v] = c->seen[w->index][v];
	c->seen[w->index][w->index] = m->clock[0][w->index] = ++c->clock[w->index];
	sim_know_join(&m->know[0], &c->async->know[w->index]);
}

static void acquire(struct sim_warp *w, struct sim_mbar *m)
{
	struct sim_cta *c = w->cta;
	struct sim_know *know = &c->async->know[w->index];
	uint32_t *phases = &know->phases[m - c->async->mbar];

	for (unsigned v = 0; v < c->nwarp; v++)
		if (m->clock[1][v] > c->seen[w->index][v])
			c->seen[w->index][v] = m->clock[1][v];
	if (m->clock[1][w->index] > c->met[w->index])
		c->met[w->index] = m->clock[1][w->index];
	sim_know_join(know, &m->know[1]);
	if (m->phase > *phases)
		*phases = m->phase;
}

static enum sim_step arrive(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                            uint32_t mask, bool expect)
{
	uint64_t *d = sim_reg(w, op->d);

	SIM_EACH (i, mask) {
		uint64_t addr = shared_addr(op, sim_lane_addr(w, op, i));
		struct sim_mbar *m = mbar_of(s, w, op, i, addr);

		if (!m)
			return SIM_STEP_STOP;
		if (expect)
			m->tx += ((const uint32_t *)sim_src(w, op->a))[i];
		if (!m->pending)
			return sim_found(s, w, op, i, SIM_MBARRIER,
			                 "more arrivals at the mbarrier of shared address %" PRIu64
			                 " than the %u it expects in a phase",
			                 addr, m->count);
		if (op->d != SIM_NOREG)
			d[i] = m->phase;
		m->pending--;
		release(w, m);
		if (s->race)
			sim_race_mbar_arrive(s, w, (unsigned)(m - w->cta->async->mbar));
		sim_mbar_check(s, w->cta, m);
	}
	sim_note_store(s, w);
	return SIM_STEP_NEXT;
}

enum sim_step exec_mbar_arrive(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                               uint32_t mask)
{
	return arrive(s, w, op, mask, false);
}

enum sim_step exec_mbar_arrive_tx(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                  uint32_t mask)
{
	return arrive(s, w, op, mask, true);
}

static enum sim_step test(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask,
                          bool parity)
{
	const void *a = sim_src(w, op->a);
	uint64_t addr[SIM_LANES] = {0}, seen[SIM_LANES] = {0};
	uint32_t over = 0;

	SIM_EACH (i, mask) {
		struct sim_mbar *m;
		bool yes;

		addr[i] = shared_addr(op, sim_lane_addr(w, op, i));
		m = mbar_of(s, w, op, i, addr[i]);
		if (!m)
			return SIM_STEP_STOP;
		if (parity && ((const uint32_t *)a)[i] > 1)
			return sim_found(s, w, op, i, SIM_MBARRIER, "a parity is 0 or 1, not %u",
			                 ((const uint32_t *)a)[i]);
		yes = parity ? (m->phase & 1) != ((const uint32_t *)a)[i]
		             : m->phase > ((const uint64_t *)a)[i];
		over |= (uint32_t)yes << i;
		if (yes)
			acquire(w, m);
		if (yes && s->race)
			sim_race_mbar_wait(s, w, (unsigned)(m - w->cta->async->mbar));
		seen[i] = m->phase;
		addr[i] += SIM_SHARED_WINDOW;
	}
	sim_note_load(w, op, mask, addr, seen);
	return sim_set_pred(w, op, mask, over);
}

enum sim_step exec_mbar_test(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                             uint32_t mask)
{
	return test(s, w, op, mask, false);
}

enum sim_step exec_mbar_test_parity(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                    uint32_t mask)
{
	return test(s, w, op, mask, true);
}

enum sim_step exec_mbar_try(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                            uint32_t mask)
{
	return test(s, w, op, mask, false);
}

enum sim_step exec_mbar_try_parity(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                   uint32_t mask)
{
	return test(s, w, op, mask, true);
}

/* ---- copies ---- */

/* The bytes in global memory, whole and aligned. */
static bool global_side(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned lane,
                        uint64_t addr, struct sim_copy *x)
{
	struct sim_block *b = sim_find(s, addr);

	if (!b || b->rank == SIM_MAX_RANKS || addr < b->addr || addr - b->addr > b->bytes ||
	    x->bytes > b->bytes - (addr - b->addr) || addr % SIM_PIECE) {
		sim_bad_addr(s, w, op, lane, addr, addr % SIM_PIECE ? SIM_PIECE : x->bytes, false);
		return false;
	}
	x->b = b;
	x->off = addr - b->addr;
	return true;
}

static bool check_bytes(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned lane,
                        uint32_t bytes)
{
	if (bytes % SIM_PIECE == 0)
		return true;
	sim_found(s, w, op, lane, SIM_ALIGN,
	          "a bulk copy of %u bytes: the size is not a multiple of 16", bytes);
	return false;
}

/* Marks the shared memory of the copy. */
static void mark(struct sim_cta *c, const struct sim_copy *x, enum sim_piece_kind kind,
                 unsigned who, uint32_t number, uint32_t line)
{
	for (uint32_t k = 0; k < x->bytes / SIM_PIECE; k++)
		c->async->piece[x->shared / SIM_PIECE + k] =
		        (struct sim_piece){(uint8_t)kind, (uint8_t)who, number, line};
}

/* What the thread acquired from other ranks, its copies see only behind a proxy fence. */
static bool check_global_fence(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                               unsigned lane)
{
	const struct sim_async *a = w->cta->async;

	if (a->global_at[sim_thread(w, lane)] >= a->acquires)
		return true;
	sim_found(
	        s, w, op, lane, SIM_PROXY,
	        "since the CTA's last acquire this thread has made no fence.proxy.async (of global "
	        "memory): the copy need not see what was acquired");
	return false;
}

/* The thread's last proxy fence: what its copies see. */
static uint32_t fence_of(struct sim *s, const struct sim_warp *w, unsigned lane)
{
	if (!s->race)
		return 0;
	return sim_rel_ref(s->race, w->cta->race->lane[sim_thread(w, lane)].async);
}

static bool load_one(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned i)
{
	struct sim_cta *c = w->cta;
	const uint64_t at = shared_addr(op, sim_lane_addr(w, op, i));
	struct sim_mbar *m;
	struct sim_copy x = {.w = w, .op = op, .lane = i, .load = true, .shared = (uint32_t)at};

	x.bytes = ((const uint32_t *)sim_src(w, op->a))[i];
	if (!check_bytes(s, w, op, i, x.bytes) ||
	    !global_side(s, w, op, i, sim_more_addr(w, op, 0, i), &x) ||
	    !sim_shared_bulk(s, w, op, i, at, x.bytes, true) || !check_global_fence(s, w, op, i))
		return false;
	m = mbar_of(s, w, op, i, shared_addr(op, sim_more_addr(w, op, 1, i)));
	if (!m)
		return false;
	if (!m->fenced) {
		sim_found(s, w, op, i, SIM_PROXY,
		          "no fence.mbarrier_init or fence.proxy.async follows the mbarrier's "
		          "initialisation at PTX line %u",
		          m->init_line);
		return false;
	}
	x.mbar = (unsigned)(m - c->async->mbar);
	x.group = m->phase;
	x.fence = fence_of(s, w, i);
	mark(c, &x, SIM_PIECE_FILLED, x.mbar, m->phase, op->insn->line);
	return sim_copy_new(s, &x);
}

static enum sim_step load_bulk(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                               uint32_t mask)
{
	SIM_EACH (i, mask)
		if (!load_one(s, w, op, i))
			return SIM_STEP_STOP;
	sim_note_store(s, w);
	return SIM_STEP_NEXT;
}

enum sim_step exec_bulk_ld(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                           uint32_t mask)
{
	return load_bulk(s, w, op, mask);
}

enum sim_step exec_bulk_ld_cta(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                               uint32_t mask)
{
	return load_bulk(s, w, op, mask);
}

/* The thread's entry in the table of those that store; SIM_ISSUERS: there are too many. */
static unsigned issuer_of(struct sim_async *a, unsigned thread, bool make)
{
	for (unsigned i = 0; i < a->nissuer; i++)
		if (a->issuer[i].thread == thread)
			return i;
	if (!make || a->nissuer == SIM_ISSUERS)
		return SIM_ISSUERS;
	a->issuer[a->nissuer] = (struct sim_issuer){.thread = thread};
	return a->nissuer++;
}

static bool store_one(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned i)
{
	struct sim_async *a = w->cta->async;
	struct sim_copy x = {.w = w, .op = op, .lane = i};
	const uint64_t at = shared_addr(op, sim_more_addr(w, op, 0, i));
	struct sim_issuer *own;

	x.bytes = ((const uint32_t *)sim_src(w, op->a))[i];
	x.shared = (uint32_t)at;
	if (!check_bytes(s, w, op, i, x.bytes) ||
	    !global_side(s, w, op, i, sim_lane_addr(w, op, i), &x) ||
	    !sim_shared_bulk(s, w, op, i, at, x.bytes, false))
		return false;
	x.issuer = issuer_of(a, sim_thread(w, i), true);
	if (x.issuer == SIM_ISSUERS) {
		sim_found(s, w, op, i, SIM_UNSUPPORTED,
		          "more than %d threads of a CTA issue bulk stores", SIM_ISSUERS);
		return false;
	}
	own = &a->issuer[x.issuer];
	own->open++;
	own->line = op->insn->line;
	x.group = own->groups;
	x.fence = fence_of(s, w, i);
	mark(w->cta, &x, SIM_PIECE_READ, x.issuer, x.group, op->insn->line);
	return sim_copy_new(s, &x);
}

enum sim_step exec_bulk_st(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                           uint32_t mask)
{
	SIM_EACH (i, mask)
		if (!store_one(s, w, op, i))
			return SIM_STEP_STOP;
	sim_note_store(s, w);
	return SIM_STEP_NEXT;
}

enum sim_step exec_bulk_commit(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                               uint32_t mask)
{
	struct sim_async *a = w->cta->async;

	(void)s;
	(void)op;
	SIM_EACH (i, mask) {
		unsigned k = issuer_of(a, sim_thread(w, i), true);

		if (k == SIM_ISSUERS)
			continue; /* it has no copies, and empty groups are complete */
		a->issuer[k].groups++;
		a->issuer[k].open = 0;
	}
	return SIM_STEP_NEXT;
}

static enum sim_step wait_groups(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                 uint32_t mask, bool read)
{
	struct sim_async *a = w->cta->async;
	const uint32_t *n = sim_src(w, op->a);
	bool left = false;

	SIM_EACH (i, mask) {
		unsigned k = issuer_of(a, sim_thread(w, i), false);
		struct sim_issuer *x = &a->issuer[k % SIM_ISSUERS];
		uint32_t first, *known = &a->know[w->index].groups[k % SIM_ISSUERS];

		if (k == SIM_ISSUERS || x->groups <= n[i])
			continue;
		first = x->groups - n[i];
		if (sim_copies_left(s, w->cta, k, first, read)) {
			left = true;
			continue;
		}
		if (first > *known)
			*known = first;
		if (!read && first > x->complete)
			x->complete = first;
		if (!read && first > a->know[w->index].written[k])
			a->know[w->index].written[k] = first;
	}
	if (!left)
		return SIM_STEP_NEXT;
	sim_copies_advance(s); /* copies never wait for anybody, so this ends */
	return s->findings ? SIM_STEP_STOP : SIM_STEP_STAY;
}

enum sim_step exec_bulk_wait(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                             uint32_t mask)
{
	return wait_groups(s, w, op, mask, false);
}

enum sim_step exec_bulk_wait_read(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                  uint32_t mask)
{
	return wait_groups(s, w, op, mask, true);
}

/* ---- fences ---- */

static enum sim_step proxy_fence(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                 uint32_t mask, bool shared, bool global)
{
	struct sim_async *a = w->cta->async;

	if (global && s->race)
		sim_race_async_fence(s, w, op, mask);
	SIM_EACH (i, mask) {
		const unsigned t = sim_thread(w, i);

		if (shared)
			a->fences[t]++;
		if (global)
			a->global_at[t] = a->acquires;
		for (unsigned k = 0; shared && k < a->nmbar; k++)
			a->mbar[k].fenced |= a->mbar[k].init_thread == t;
		if (s->o.on_access)
			sim_event(s, w, op, i, SIM_ACC_FENCE, NULL, UINT64_MAX, 0, false);
	}
	return SIM_STEP_NEXT;
}

enum sim_step exec_fence_async(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                               uint32_t mask)
{
	return proxy_fence(s, w, op, mask, true, true);
}

enum sim_step exec_fence_async_shared(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                      uint32_t mask)
{
	return proxy_fence(s, w, op, mask, true, false);
}

enum sim_step exec_fence_async_global(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                      uint32_t mask)
{
	return proxy_fence(s, w, op, mask, false, true);
}

enum sim_step exec_fence_mbar_init(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                   uint32_t mask)
{
	struct sim_async *a = w->cta->async;

	(void)s;
	(void)op;
	SIM_EACH (i, mask)
		for (unsigned k = 0; k < a->nmbar; k++)
			a->mbar[k].fenced |= a->mbar[k].init_thread == sim_thread(w, i);
	return SIM_STEP_NEXT;
}
