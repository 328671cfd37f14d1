/* Loads and stores of global, shared and parameter memory. */
#include "sim/async.h"
#include "sim/exec.h"
#include "sim/move.h"
#include "sim/order.h"

static enum sim_step load_param(struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const uint8_t *p = w->cta->launch->params + op->imm;

	SIM_EACH (i, mask)
		sim_load_lane(w, op, i, p);
	return SIM_STEP_NEXT;
}

/* For writers to come: the bytes have been read as constant by this launch. */
static void note_nc(struct sim *s, const struct sim_warp *w, const struct sim_op *op,
                    struct sim_block *b, uint64_t off, unsigned n)
{
	uint64_t note = (uint64_t)op->insn->line << 16 | w->cta->launch->when;

	if (!b->constant)
		b->constant = arena_array(s->arena, b->bytes / 2 + 1, sizeof *b->constant);
	for (uint64_t g = off / 2; g <= (off + n - 1) / 2; g++)
		b->constant[g] = note;
}

/* .nc promises that nobody writes the bytes while the grid runs. */
static bool check_nc(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned lane,
                     const struct sim_block *b, uint64_t off, unsigned n)
{
	const struct sim_launch *l = w->cta->launch;
	uint16_t since = (uint16_t)(s->started - l->when);

	if (!b->written || (uint16_t)(s->started - b->last_write) > since)
		return true;
	for (uint64_t g = off / 2; g <= (off + n - 1) / 2; g++)
		if (b->writer[g] && (uint16_t)(s->started - b->when[g]) <= since) {
			sim_found(s, w, op, lane, SIM_READONLY,
			          "%s was written while this grid runs, by %s",
			          sim_address_text(s, b->addr + off), sim_writer_text(s, b, g * 2));
			return false;
		}
	return true;
}

enum sim_step sim_load_global(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                              uint32_t mask, const uint64_t *addr)
{
	const unsigned n = op->nv * (unsigned)op->size;
	uint64_t seen[SIM_LANES] = {0};
	uint8_t buf[64];

	SIM_EACH (i, mask) {
		uint64_t off;
		struct sim_block *b = sim_check_addr(s, w, op, i, addr[i], n, false, &off);
		const uint8_t *from;

		if (!b || !sim_check_defined(s, w, op, i, b, off, n))
			return SIM_STEP_STOP;
		if (op->insn->mod.nc && !check_nc(s, w, op, i, b, off, n))
			return SIM_STEP_STOP;
		if (op->insn->mod.nc)
			note_nc(s, w, op, b, off, n);
		from = b->data + off;
		if (s->o.weak && op->strong)
			from = memcpy(buf, from, n);
		if (!sim_race_lane(s, w, op, i, b, off, n, SIM_ACC_READ, RACE_GENERIC, buf))
			return SIM_STEP_STOP;
		sim_load_lane(w, op, i, from);
		if (op->strong)
			for (unsigned k = 0; k < op->nv; k++)
				seen[i] = seen[i] * 31 + sim_get(from + k * op->size, op->size);
		if (s->o.on_access)
			sim_event(s, w, op, i, SIM_ACC_READ, b, off, n, false);
	}
	if (w->cta->async && op->insn->mod.order == PTX_ACQUIRE)
		w->cta->async->acquires++;
	sim_note_load(w, op, mask, addr, seen);
	return SIM_STEP_NEXT;
}

/*
 * A vector is its elements, in no order (PTX ISA 8.2.4): one of them for all lanes, and others may
 * run before the next.  In some stores only, so that the run does not get too slow.
 */
static enum sim_step store_torn(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                uint32_t mask, const uint64_t *addr)
{
	const unsigned k = (w->torn + (unsigned)w->order_key) % op->nv;
	uint8_t buf[64];

	SIM_EACH (i, mask) {
		uint64_t off;
		struct sim_block *b = sim_check_addr(s, w, op, i, addr[i],
		                                     op->nv * (unsigned)op->size, false, &off);

		if (!b)
			return SIM_STEP_STOP;
		sim_store_lane(w, op, i, buf);
		if (!sim_race_lane(s, w, op, i, b, off + k * op->size, op->size, SIM_ACC_WRITE,
		                   RACE_GENERIC, buf + k * op->size))
			return SIM_STEP_STOP;
		sim_store(s, w, op, b, off + k * op->size, buf + k * op->size, op->size);
		if (s->o.on_access)
			sim_event(s, w, op, i, SIM_ACC_WRITE, b, off + k * op->size, op->size,
			          false);
	}
	sim_note_store(s, w);
	if (++w->torn < op->nv)
		return SIM_STEP_STAY;
	w->torn = 0;
	return SIM_STEP_NEXT;
}

static bool tears(struct sim *s, struct sim_warp *w, const struct sim_op *op)
{
	if (!s->o.tear || op->nv < 2 || s->o.schedule == SIM_ROUND_ROBIN)
		return false;
	if (!w->torn)
		w->order_key = sim_random(s);
	return w->torn || w->order_key >> 32 & 1;
}

static enum sim_step store_global(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                  uint32_t mask, const uint64_t *addr)
{
	const unsigned n = op->nv * (unsigned)op->size;
	uint8_t buf[64];

	if (tears(s, w, op))
		return store_torn(s, w, op, mask, addr);
	SIM_EACH (i, mask) {
		uint64_t off;
		struct sim_block *b = sim_check_addr(s, w, op, i, addr[i], n, false, &off);

		if (!b)
			return SIM_STEP_STOP;
		sim_store_lane(w, op, i, buf);
		if (!sim_race_lane(s, w, op, i, b, off, n, SIM_ACC_WRITE, RACE_GENERIC, buf))
			return SIM_STEP_STOP;
		sim_store(s, w, op, b, off, buf, n);
		if (s->o.on_access)
			sim_event(s, w, op, i, SIM_ACC_WRITE, b, off, n, false);
	}
	sim_note_store(s, w);
	return w->late ? SIM_STEP_YIELD : SIM_STEP_NEXT; /* others may see it before the load */
}

static enum sim_step load_global(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                 uint32_t mask, const uint64_t *addr)
{
	if (s->o.weak && sim_late_begin(s, w, op, mask, addr))
		return SIM_STEP_YIELD;
	return sim_load_global(s, w, op, mask, addr);
}

static enum sim_step load_shared(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                 uint32_t mask, const uint64_t *addr)
{
	const unsigned n = op->nv * (unsigned)op->size;

	SIM_EACH (i, mask) {
		const uint8_t *p = sim_shared_access(s, w, op, i, addr[i], n, true, false);

		if (!p)
			return SIM_STEP_STOP;
		sim_load_lane(w, op, i, p);
	}
	return SIM_STEP_NEXT;
}

static enum sim_step store_shared(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                  uint32_t mask, const uint64_t *addr)
{
	const unsigned n = op->nv * (unsigned)op->size;

	SIM_EACH (i, mask) {
		uint8_t *p = sim_shared_access(s, w, op, i, addr[i], n, false, true);

		if (!p)
			return SIM_STEP_STOP;
		sim_store_lane(w, op, i, p);
	}
	return SIM_STEP_NEXT;
}

typedef enum sim_step access_fn(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                uint32_t mask, const uint64_t *addr);

/* Sends the lanes of a generic access to the spaces that their addresses are in. */
static enum sim_step by_space(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                              uint32_t mask, access_fn *global, access_fn *shared)
{
	uint64_t addr[SIM_LANES];
	uint32_t in_shared = 0;
	enum sim_step r = SIM_STEP_NEXT;

	SIM_EACH (i, mask) {
		addr[i] = sim_lane_addr(w, op, i);
		if (op->space == PTX_SHARED) {
			in_shared |= 1u << i;
		} else if (op->space == PTX_GENERIC &&
		           addr[i] >> SIM_ADDR_SHIFT == SIM_SHARED_NUMBER) {
			in_shared |= 1u << i;
			addr[i] -= SIM_SHARED_WINDOW;
		}
	}
	if (in_shared)
		r = shared(s, w, op, in_shared, addr);
	if (mask & ~in_shared && r != SIM_STEP_STOP)
		r = global(s, w, op, mask & ~in_shared, addr);
	return r;
}

enum sim_step exec_ld(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	if (op->space == PTX_PARAM)
		return load_param(w, op, mask);
	return by_space(s, w, op, mask, load_global, load_shared);
}

enum sim_step exec_st(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	return by_space(s, w, op, mask, store_global, store_shared);
}
