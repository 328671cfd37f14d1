/* Bulk copies and mbarriers: who may touch what (async.h). */
#include "sim/async.h"
#include "sim/order.h"
#include <inttypes.h>
#include <string.h>

void sim_know_join(struct sim_know *to, const struct sim_know *from)
{
	for (unsigned i = 0; i < SIM_MBARS; i++)
		if (from->phases[i] > to->phases[i])
			to->phases[i] = from->phases[i];
	for (unsigned i = 0; i < SIM_ISSUERS; i++)
		if (from->groups[i] > to->groups[i])
			to->groups[i] = from->groups[i];
	for (unsigned i = 0; i < SIM_ISSUERS; i++)
		if (from->written[i] > to->written[i])
			to->written[i] = from->written[i];
}

void sim_async_reset(struct sim_cta *c, const struct sim_kernel *k)
{
	struct sim_piece *piece = c->async->piece;

	memset(c->async, 0, sizeof *c->async);
	memset(piece, 0, (k->shared_bytes / SIM_PIECE + 1) * sizeof *piece);
	c->async->piece = piece;
}

struct sim_mbar *sim_mbar_at(struct sim_async *a, uint64_t at)
{
	for (unsigned i = 0; i < a->nmbar; i++)
		if (a->mbar[i].valid && a->mbar[i].at == at)
			return &a->mbar[i];
	return NULL;
}

/* Completes the phase when nothing is missing any more. */
void sim_mbar_check(struct sim *s, struct sim_cta *c, struct sim_mbar *m)
{
	if (m->pending || m->tx)
		return;
	m->phase++;
	m->pending = m->count;
	for (unsigned v = 0; v < SIM_MAX_WARPS; v++)
		if (m->clock[0][v] > m->clock[1][v])
			m->clock[1][v] = m->clock[0][v];
	sim_know_join(&m->know[1], &m->know[0]);
	if (s->race)
		sim_race_mbar_complete(s, c, (unsigned)(m - c->async->mbar));
	s->progress++;
	s->wake = true;
}

void sim_async_barrier(struct sim_cta *c, uint32_t warps)
{
	struct sim_know all;

	memset(&all, 0, sizeof all);
	SIM_EACH (i, warps)
		sim_know_join(&all, &c->async->know[i]);
	SIM_EACH (j, warps)
		c->async->know[j] = all;
}

bool sim_async_touch(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned lane,
                     const char *name, uint64_t addr, unsigned n, bool write)
{
	const struct sim_async *a = w->cta->async;
	const struct sim_know *know = &a->know[w->index];

	for (unsigned i = 0; i < a->nmbar; i++)
		if (a->mbar[i].valid && addr < a->mbar[i].at + 8 && a->mbar[i].at < addr + n) {
			sim_found(s, w, op, lane, SIM_MBARRIER,
			          "'%s' + %" PRIu32
			          " of shared memory is an mbarrier, initialised at "
			          "PTX line %u: it is not data",
			          name, a->mbar[i].at, a->mbar[i].init_line);
			return false;
		}
	for (uint64_t k = addr / SIM_PIECE; n && k <= (addr + n - 1) / SIM_PIECE; k++) {
		const struct sim_piece *p = &a->piece[k];

		if (p->kind == SIM_PIECE_FILLED && know->phases[p->who] <= p->number) {
			sim_found(s, w, op, lane, SIM_BULK_FILL,
			          "'%s' (shared address %" PRIu64
			          ") is filled by the bulk copy of PTX "
			          "line %u, whose mbarrier phase this thread has not seen complete",
			          name, k * SIM_PIECE, p->line);
			return false;
		}
		if (write && p->kind == SIM_PIECE_READ && know->groups[p->who] <= p->number) {
			sim_found(s, w, op, lane, SIM_BULK_SOURCE,
			          "'%s' (shared address %" PRIu64
			          ") is read by the bulk store of PTX "
			          "line %u, and no wait_group.read orders this write behind it",
			          name, k * SIM_PIECE, p->line);
			return false;
		}
	}
	return true;
}

bool sim_async_exit(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	const struct sim_async *a = w->cta->async;

	for (unsigned i = 0; i < a->nissuer; i++) {
		const struct sim_issuer *x = &a->issuer[i];

		if (x->thread / SIM_LANES != w->index || !(mask >> x->thread % SIM_LANES & 1))
			continue;
		if (!x->open && x->complete >= x->groups)
			continue;
		sim_found(s, w, op, x->thread % SIM_LANES, SIM_BULK_EXIT,
		          "the bulk store of PTX line %u %s", x->line,
		          x->open ? "was not committed to a group"
		                  : "has not been waited for by wait_group 0 (.read does not do)");
		return false;
	}
	return true;
}

bool sim_async_end(struct sim *s, struct sim_cta *c)
{
	for (size_t i = 0; i < s->ncopy; i++)
		if (s->copy[i]->w->cta == c) {
			sim_found(s, s->copy[i]->w, s->copy[i]->op, s->copy[i]->lane, SIM_BULK_EXIT,
			          "the CTA ends while the bulk copy of PTX line %u is under way",
			          s->copy[i]->op->insn->line);
			return false;
		}
	return true;
}
