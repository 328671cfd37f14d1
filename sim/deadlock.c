/* The report of a deadlock: of every rank, who waits, at which line, for which address, and who
 * wrote there last. */
#include "sim/async.h"
#include <inttypes.h>

enum { MAX_WARPS = 6, MAX_ADDRESSES = 4 };

static void put_place(struct strbuf *b, const struct ptx_insn *i)
{
	strbuf_printf(b, "PTX line %u", i->line);
	if (i->loc_line)
		strbuf_printf(b, " (spec line %u)", i->loc_line);
}

/* A wait for a phase of an mbarrier: what it lacks.  1: shown. */
static unsigned put_mbar(struct strbuf *b, const struct sim_warp *w, const struct sim_poll *p,
                         unsigned lane, unsigned shown)
{
	const struct sim_mbar *m = sim_mbar_at(w->cta->async, p->addr[lane] - SIM_SHARED_WINDOW);

	if (!m || shown == 1)
		return 0;
	strbuf_printf(
	        b, "\n    rank %u CTA %u thread %u waits for the mbarrier of shared address %u at ",
	        w->cta->launch->rank, w->cta->index, sim_thread(w, lane), m->at);
	put_place(b, p->op->insn);
	strbuf_printf(b, ": phase %u lacks %u arrivals and %" PRId64 " bytes", m->phase, m->pending,
	              m->tx);
	return 1;
}

static void put_poll(struct sim *s, struct strbuf *b, const struct sim_warp *w,
                     const struct sim_poll *p)
{
	unsigned shown = 0;
	uint64_t last = 0;

	SIM_EACH (i, p->mask & w->waiting) {
		const struct sim_block *m = sim_find(s, p->addr[i]);

		if (p->addr[i] >> SIM_ADDR_SHIFT == SIM_SHARED_NUMBER && w->cta->async)
			shown += put_mbar(b, w, p, i, shown);
		if (p->addr[i] == last || !m || shown == MAX_ADDRESSES)
			continue;
		last = p->addr[i];
		shown++;
		strbuf_printf(b, "\n    rank %u CTA %u thread %u polls %s at ",
		              w->cta->launch->rank, w->cta->index, sim_thread(w, i),
		              sim_address_text(s, last));
		put_place(b, p->op->insn);
		strbuf_printf(b, ": sees 0x%" PRIx64, p->value[i]);
		if (m->rank != SIM_MAX_RANKS)
			strbuf_printf(b, ", last written by %s",
			              sim_writer_text(s, m, last - m->addr));
	}
}

static void put_rank(struct sim *s, struct strbuf *b, unsigned rank)
{
	const struct sim_rank *r = &s->rank[rank];
	unsigned queued = r->launched - r->finished;

	for (size_t i = 0; i < r->waiting.n && i < MAX_WARPS; i++) {
		const struct sim_warp *w = r->waiting.w[i];

		for (unsigned k = 0; k < w->npoll; k++)
			if (w->poll[k].turn > w->poll_from)
				put_poll(s, b, w, &w->poll[k]);
	}
	if (r->waiting.n > MAX_WARPS)
		strbuf_printf(b, "\n    rank %u: and %zu warps more", rank,
		              r->waiting.n - MAX_WARPS);
	if (!queued)
		strbuf_printf(b, "\n    rank %u has ended all of its %u launches", rank,
		              r->launched);
	for (unsigned t = 0; t < SIM_STREAMS; t++) {
		const struct sim_launch *l = r->stream[t];

		if (l && l->begun < l->grid)
			strbuf_printf(b,
			              "\n    rank %u: %u CTAs of '%s' are not resident, the first "
			              "is CTA %u",
			              rank, l->grid - l->begun, l->kernel->fn->name,
			              l->order ? l->order[l->begun] : 0);
	}
}

/* Warps of a rank that wait at CTA barriers, by CTA. */
static const struct sim_warp *put_barriers(struct sim *s, struct strbuf *b, unsigned rank)
{
	const struct sim_warp *first = NULL;
	unsigned shown = 0;

	for (unsigned t = 0; t < SIM_STREAMS; t++) {
		const struct sim_launch *l = s->rank[rank].stream[t];

		for (const struct sim_cta *c = l ? l->resident : NULL; c; c = c->next)
			for (unsigned k = 0; k < SIM_BARRIERS; k++) {
				const struct sim_warp *w;

				if (!c->barrier[k].warps || shown == MAX_WARPS)
					continue;
				shown++;
				w = c->warp[__builtin_ctz(c->barrier[k].warps)];
				first = first ? first : w;
				strbuf_printf(b,
				              "\n    rank %u CTA %u: %d of %u warps wait in "
				              "bar.sync %u at ",
				              rank, c->index,
				              __builtin_popcount(c->barrier[k].warps), c->nwarp, k);
				put_place(b, l->kernel->op[w->pc - 1].insn);
			}
	}
	return first;
}

/* The instruction that a waiting warp polls with. */
static const struct ptx_insn *polls_with(const struct sim_warp *w)
{
	for (unsigned k = 0; k < w->npoll; k++)
		if (w->poll[k].turn > w->poll_from && (w->poll[k].mask & w->waiting))
			return w->poll[k].op->insn;
	return NULL;
}

static unsigned warps_at_barriers(const struct sim *s)
{
	unsigned n = 0;

	for (unsigned r = 0; r < s->o.ranks; r++)
		for (unsigned t = 0; t < SIM_STREAMS; t++) {
			const struct sim_launch *l = s->rank[r].stream[t];

			for (const struct sim_cta *c = l ? l->resident : NULL; c; c = c->next)
				for (unsigned k = 0; k < SIM_BARRIERS; k++)
					n += (unsigned)__builtin_popcount(c->barrier[k].warps);
		}
	return n;
}

void sim_report_deadlock(struct sim *s)
{
	const struct sim_warp *at_barrier = NULL, *who = NULL;
	const struct ptx_insn *insn = NULL;
	struct strbuf b;
	unsigned rank = 0;

	strbuf_init(&b, s->arena);
	if (s->nwaiting)
		strbuf_printf(&b, "%u warps poll memory that nobody writes any more", s->nwaiting);
	else
		strbuf_printf(&b, "%u warps wait at barriers that others of their CTA do not reach",
		              warps_at_barriers(s));
	for (unsigned r = 0; r < s->o.ranks; r++) {
		const struct sim_warp *w;

		put_rank(s, &b, r);
		w = put_barriers(s, &b, r);
		if (w && !at_barrier)
			at_barrier = w;
		if (s->rank[r].waiting.n && !who) {
			who = s->rank[r].waiting.w[0];
			insn = polls_with(who);
		}
	}
	if (!who && at_barrier) {
		who = at_barrier;
		insn = who->cta->launch->kernel->op[who->pc - 1].insn;
	}
	if (who)
		rank = who->cta->launch->rank;
	sim_found_at(s, rank, SIM_DEADLOCK, insn, "%s", b.s);
	if (who && s->nfinding == 1) {
		s->findings->cta = who->cta->index;
		s->findings->thread =
		        sim_thread(who, who->waiting ? (unsigned)__builtin_ctz(who->waiting) : 0);
	}
}
