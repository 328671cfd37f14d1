/*
 * Is a warp waiting?  An iteration of a loop that made strong loads, all of which gave what they
 * gave the iteration before, and that changed no memory, can only be left when another agent writes
 * (or when time passes).  Iterations are told apart by a running sum of hashes of loads; every
 * backward branch remembers the sum at its last turn.
 */
#include "sim/internal.h"

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

/* From now on a write to what w polls wakes the waiting warps. */
void sim_watch(struct sim *s, struct sim_warp *w)
{
	for (unsigned k = 0; k < w->npoll; k++)
		SIM_EACH (i, w->poll[k].mask) {
			struct sim_block *b = sim_find(s, w->poll[k].addr[i]);

			if (!b)
				continue;
			if (b->rank != SIM_MAX_RANKS)
				b->watched = true;
			for (unsigned r = 0; b->rank == SIM_MAX_RANKS && r < s->o.ranks; r++)
				b->replica[r]->watched = true;
		}
}

void sim_wake_all(struct sim *s)
{
	for (unsigned r = 0; r < s->o.ranks; r++) {
		struct sim_list *l = &s->rank[r].waiting;

		while (l->n)
			sim_set_state(s, l->w[l->n - 1], SIM_READY);
	}
	s->wake = false;
}
