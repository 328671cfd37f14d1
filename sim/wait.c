/*
 * Is a warp waiting?  An iteration of a loop that made strong loads, all of which gave what they
 * gave the iteration before, and that changed no memory, can only be left when another agent writes
 * (or when time passes).  Iterations are told apart by a running sum of hashes of loads; every
 * backward branch remembers the sum at its last turn.
 */
#include "sim/explore.h"
#include <string.h>

/* Warps whose lines were not written look again after so many steps for each of them: a loop may
 * wait for what it does not poll strongly.  To find that they wait takes each some hundred steps, in
 * which nobody else may run. */
enum { WAKE_STEPS = 1 << 12 };

static uint64_t line_of(uint64_t addr)
{
	return addr / 64;
}

static unsigned bit_of(uint64_t line)
{
	return (unsigned)((line * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % (64 * SIM_LINES);
}

/* The line of b, where that is polled, goes into a set of lines. */
static void watch(uint64_t *lines, struct sim_block *b, uint64_t off)
{
	unsigned bit = bit_of(line_of(b->addr + off));

	b->watched = true;
	lines[bit / 64] |= UINT64_C(1) << bit % 64;
}

static void watch_poll(struct sim *s, uint64_t *lines, const struct sim_poll *p)
{
	uint64_t last = UINT64_MAX;

	SIM_EACH (i, p->mask) {
		struct sim_block *b;
		uint64_t off;

		if (line_of(p->addr[i]) == last)
			continue;
		last = line_of(p->addr[i]);
		b = sim_find(s, p->addr[i]);
		if (!b)
			continue;
		off = p->addr[i] - b->addr;
		if (b->rank != SIM_MAX_RANKS)
			watch(lines, b, off);
		for (unsigned r = 0; b->rank == SIM_MAX_RANKS && r < s->o.ranks; r++)
			watch(lines, b->replica[r], off);
	}
}

static struct sim_poll *poll_of(struct sim_warp *w, const struct sim_op *op)
{
	struct sim_poll *p;

	for (unsigned k = 0; k < w->npoll; k++)
		if (w->poll[k].op == op)
			return &w->poll[k];
	if (w->npoll < SIM_POLLS) {
		p = &w->poll[w->npoll++];
	} else {
		p = &w->poll[w->next_poll];
		w->evicted = p->turn > w->evicted ? p->turn : w->evicted;
		watch_poll(w->cta->launch->kernel->sim, w->gone, p);
		w->next_poll = (w->next_poll + 1) % SIM_POLLS;
	}
	p->op = op;
	return p;
}

void sim_note_load(struct sim_warp *w, const struct sim_op *op, uint32_t mask, const uint64_t *addr,
                   const uint64_t *value)
{
	const uint64_t at = (uint64_t)(op - w->cta->launch->kernel->op) << 8;
	struct sim_poll *p;

	if (!op->strong) {
		uint32_t i = (uint32_t)__builtin_ctz(mask);

		w->loads += sim_mix(sim_mix(at, addr[i]), value[i]);
		return;
	}
	p = poll_of(w, op);
	if (!sim_explore_same(w, p, mask, addr))
		p->before = w->x.before;
	p->stores = w->stores;
	p->waits = w->x.waits;
	p->mask = mask;
	p->turn = ++w->strong;
	SIM_EACH (i, mask) {
		w->loads += sim_mix(sim_mix(at + i, addr[i]), value[i]);
		p->addr[i] = addr[i];
		p->value[i] = value[i];
	}
}

void sim_note_store(struct sim *s, struct sim_warp *w)
{
	w->stores++;
	s->progress++;
}

bool sim_note_back(struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	struct sim_back *b = &w->back[op->back - 1];
	uint64_t change = w->loads - b->loads;
	bool idle = b->seen && b->mask == mask && change == b->change && w->stores == b->stores &&
	            w->strong != b->strong;

	if (idle && (!w->waiting || b->strong < w->poll_from))
		w->poll_from = b->strong;
	b->seen = true;
	b->mask = mask;
	b->change = change;
	b->loads = w->loads;
	b->stores = w->stores;
	b->strong = w->strong;
	return idle;
}

/* From now on a write to what w polls wakes it. */
void sim_watch(struct sim *s, struct sim_warp *w)
{
	memset(w->lines, 0, sizeof w->lines);
	if (w->evicted > w->poll_from)
		memcpy(w->lines, w->gone, sizeof w->lines);
	memset(w->gone, 0, sizeof w->gone);
	s->watches++;
	for (unsigned k = 0; k < w->npoll; k++)
		watch_poll(s, w->lines, &w->poll[k]);
	if (s->explore)
		sim_explore_waits(s, w);
}

static void wake_bit(struct sim *s, unsigned bit)
{
	for (unsigned r = 0; r < s->o.ranks; r++) {
		struct sim_list *l = &s->rank[r].waiting;

		/* the last one takes the place of one that goes */
		for (size_t i = l->n; i-- > 0;)
			if (l->w[i]->lines[bit / 64] >> bit % 64 & 1)
				sim_set_state(s, l->w[i], SIM_READY);
	}
}

void sim_wake_line(struct sim *s, uint64_t addr, unsigned n)
{
	uint64_t first = line_of(addr), last = line_of(addr + n - 1);

	for (uint64_t line = first; line <= last && s->nwaiting; line++) {
		if (line == s->woken && s->watches == s->woken_at)
			continue; /* by the lane before; nobody has begun to wait since */
		s->woken = line;
		s->woken_at = s->watches;
		wake_bit(s, bit_of(line));
	}
}

void sim_wake_all(struct sim *s)
{
	s->wake_at = s->steps + WAKE_STEPS * (uint64_t)(16 + s->nwaiting);
	for (unsigned r = 0; r < s->o.ranks; r++) {
		struct sim_list *l = &s->rank[r].waiting;

		while (l->n)
			sim_set_state(s, l->w[l->n - 1], SIM_READY);
	}
	s->wake = false;
}
