/* What a race's report says: both accesses, and what is missing between them. */
#include "sim/order.h"
#include <inttypes.h>

const char *const sim_races_name[SIM_NRACES] = {"off", "hw", "formal", "strict"};

static const char *const scope_name[] = {"", ".cta", ".cluster", ".gpu", ".sys"};
static const char *const proxy_name[] = {"unicast", "multicast", "bulk copies'"};

static const struct sim_op *op_of(const struct sim *s, uint32_t site, const struct sim_kernel **k)
{
	*k = s->race->kernel[site >> RACE_SITE_BITS];
	return &(*k)->op[site & ((1u << RACE_SITE_BITS) - 1)];
}

/* Who made the earlier access, and by which line. */
static void put_earlier(struct sim *s, const struct race_pair *p, struct strbuf *b)
{
	const struct race_slot *x = &s->race->slot[EPOCH_SLOT(p->was)];
	const char *did = p->was_write ? "written" : "read";
	const struct sim_kernel *k;
	const struct sim_op *op;

	if (x->kind == RACE_SLOT_HOST) {
		strbuf_printf(b, "%s by what precedes or follows on stream %u of rank %u", did,
		              x->stream, x->rank);
		return;
	}
	op = op_of(s, p->site, &k);
	strbuf_printf(b, "%s by rank %u, CTA %u, ", did, x->rank, x->cta);
	if (x->kind == RACE_SLOT_ASYNC)
		strbuf_puts(b, "a bulk copy");
	else if (p->was & EPOCH_MULTI)
		strbuf_printf(b, "warp %u", x->warp);
	else
		strbuf_printf(b, "thread %u", x->warp * 32u + EPOCH_LANE(p->was));
	if (EPOCH_CLOCK(p->was) >= x->since && x->kind == RACE_SLOT_WARP)
		strbuf_printf(b, ", launch %u of '%s'", x->launch, k->fn->name);
	else
		strbuf_printf(b, ", '%s'", k->fn->name);
	strbuf_printf(b, ", at PTX line %u: ", op->insn->line);
	ptx_print_insn(k->fn, op->insn, b);
	if (op->insn->loc_line && k->fn->module && k->fn->module->loc_file)
		strbuf_printf(b, " (%s:%u:%u)", k->fn->module->loc_file, op->insn->loc_line,
		              op->insn->loc_col);
}

/* Some thread of the CTA has seen a release that the access precedes, and has no fence behind. */
static const struct race_rel *unfenced(const struct sim *s, const struct sim_warp *w, uint64_t e)
{
	const struct race_cta *c = w->cta->race;

	for (unsigned t = 0; t < c->nwarp * SIM_LANES; t++)
		for (uint32_t i = 0; i < c->lane[t].npend; i++)
			for (uint32_t id = c->lane[t].pend[i]; id; id = sim_rel(s->race, id)->next)
				if (sim_rel_covers(s->race, sim_rel(s->race, id), e))
					return sim_rel(s->race, id);
	return NULL;
}

static const char *why_weak(const struct race_pair *p)
{
	if (EPOCH_SIZE(p->was) != EPOCH_SIZE(p->now))
		return "size: both are strong, but elements of other sizes overlap in part";
	return "scope: both are strong, but the scope of one does not include the other's thread";
}

static const char *missing(struct sim *s, const struct race_pair *p)
{
	const struct race_access *x = p->x;
	const bool strong = p->was & p->now & EPOCH_STRONG;
	const struct race_rel *r;
	const struct sim_kernel *k;

	if (!x->w)
		return sim_clock_covers(s->race->host->now, p->was, false)
		               ? "proxy fence: the stream orders them, but one is by a multicast "
		                 "address and no fence.proxy.alias is between"
		               : "order: nothing that the stream has waited for tells that it is "
		                 "over";
	if (sim_race_known(s, x->w, x->lane, p->was, false))
		return x->copy ? "proxy fence: they are ordered, but no fence.proxy.async stands "
		                 "between and the bulk copy"
		               : arena_printf(s->arena,
		                              "proxy fence: they are ordered, but by %s and %s "
		                              "addresses, and no fence.proxy.alias is on the path",
		                              proxy_name[EPOCH_PROXY(p->was)],
		                              proxy_name[EPOCH_PROXY(p->now)]);
	if (strong)
		return why_weak(p);
	r = unfenced(s, x->w, p->was);
	if (r && r->site)
		return arena_printf(
		        s->arena,
		        "order: the flag that is released at PTX line %u has been read, "
		        "but no acquire fence (of its thread, with a barrier behind) "
		        "stands before this",
		        op_of(s, r->site, &k)->insn->line);
	if (x->w->cta->race->note)
		return arena_printf(s->arena, "scope: %s", x->w->cta->race->note);
	return "order: no chain of barriers, or of releases and acquires, leads from one to the "
	       "other";
}

static void tell(struct sim *s, const struct race_pair *p)
{
	const struct sim_kernel *k;
	const struct sim_raced r = {
	        .buffer = p->b->name,
	        .wrote_earlier = p->was_write,
	        .writes = p->x->kind != SIM_ACC_READ,
	        .earlier = p->site ? op_of(s, p->site, &k)->insn : NULL,
	        .now = p->x->w ? p->x->op->insn : NULL,
	        .missing = missing(s, p),
	};

	s->o.on_race(s->o.ctx, &r);
}

bool sim_race_report(struct sim *s, const struct race_pair *p)
{
	const struct race_access *x = p->x;
	const bool write = x->kind != SIM_ACC_READ;
	const char *at = sim_address_text(s, p->b->addr + p->off);
	struct strbuf b;

	if (s->o.on_race) {
		tell(s, p);
		return true;
	}
	strbuf_init(&b, s->arena);
	put_earlier(s, p, &b);
	strbuf_printf(&b, "\n    and %s here%s%s\n    missing: %s", write ? "written" : "read",
	              p->now & EPOCH_STRONG ? " with scope " : "",
	              p->now & EPOCH_STRONG ? scope_name[EPOCH_SCOPE(p->now)] : "", missing(s, p));
	if (!x->w) {
		const struct sim_kernel *k = NULL;
		const struct sim_op *op = p->site ? op_of(s, p->site, &k) : NULL;

		sim_found_at(s, s->race->host_rank, SIM_RACE, op ? op->insn : NULL,
		             "%s: %s (by the kernels before or after on the stream of rank %u)", at,
		             b.s, s->race->host_rank);
		return false;
	}
	sim_found(s, x->w, x->op, x->lane, SIM_RACE, "%s: %s", at, b.s);
	return false;
}
