/* Findings: what, where, in words. */
#include "sim/internal.h"
#include <inttypes.h>
#include <stdio.h>

enum { MAX_FINDINGS = 16 };

const char *const sim_check_name[SIM_NCHECKS] = {
#define SIM_CHECK(ID, name, title) name,
#include "sim/checks.def"
#undef SIM_CHECK
};

static const char *const title[SIM_NCHECKS] = {
#define SIM_CHECK(ID, name, title) title,
#include "sim/checks.def"
#undef SIM_CHECK
};

const char *const sim_schedule_name[SIM_NSCHEDULES] = {"round-robin", "random", "slow-rank", "pct"};
const char *const sim_sum_name[SIM_NSUMS] = {"rank-order", "permuted", "exact", "faithful"};

static struct sim_finding *add(struct sim *s, enum sim_check check, const struct ptx_insn *i)
{
	struct sim_finding *f;

	if (s->nfinding == MAX_FINDINGS)
		return NULL;
	s->nfinding++;
	f = arena_new(s->arena, struct sim_finding);
	f->check = check;
	f->line = i ? i->line : 0;
	f->loc_line = i ? i->loc_line : 0;
	*s->tail = f;
	s->tail = (struct sim_finding **)(uintptr_t)&f->next;
	return f;
}

static void put_insn(struct strbuf *b, const struct ptx_fn *fn, const struct ptx_insn *i)
{
	strbuf_printf(b, "\n    PTX line %u: ", i->line);
	ptx_print_insn(fn, i, b);
	if (i->loc_line && fn->module && fn->module->loc_file)
		strbuf_printf(b, "\n    from %s:%u:%u", fn->module->loc_file, i->loc_line,
		              i->loc_col);
	else if (i->loc_line)
		strbuf_printf(b, "\n    from line %u of the spec", i->loc_line);
}

enum sim_step sim_found(struct sim *s, const struct sim_warp *w, const struct sim_op *op,
                        unsigned lane, enum sim_check check, const char *fmt, ...)
{
	const struct sim_launch *l = w->cta->launch;
	struct sim_finding *f = add(s, check, op->insn);
	struct strbuf b;
	va_list ap;

	if (!f)
		return SIM_STEP_STOP;
	if (lane >= SIM_LANES)
		lane = w->active ? (unsigned)__builtin_ctz(w->active) : 0;
	f->rank = l->rank;
	f->kernel = l->kernel;
	f->cta = w->cta->index;
	f->thread = sim_thread(w, lane);
	strbuf_init(&b, s->arena);
	va_start(ap, fmt);
	strbuf_vprintf(&b, fmt, ap);
	va_end(ap);
	strbuf_printf(&b, "\n    rank %u, CTA %u, thread %u, launch %u of '%s'", f->rank, f->cta,
	              f->thread, l->number, l->kernel->fn->name);
	put_insn(&b, l->kernel->fn, op->insn);
	f->text = b.s;
	return SIM_STEP_STOP;
}

void sim_found_at(struct sim *s, unsigned rank, enum sim_check check, const struct ptx_insn *i,
                  const char *fmt, ...)
{
	struct sim_finding *f = add(s, check, i);
	struct strbuf b;
	va_list ap;

	if (!f)
		return;
	f->rank = rank;
	strbuf_init(&b, s->arena);
	va_start(ap, fmt);
	strbuf_vprintf(&b, fmt, ap);
	va_end(ap);
	f->text = b.s;
}

const char *sim_address_text(struct sim *s, uint64_t addr)
{
	const struct sim_block *b = sim_find(s, addr);
	char home[32] = "multicast";

	if (addr >> SIM_ADDR_SHIFT == SIM_SHARED_NUMBER)
		return arena_printf(s->arena, "generic address 0x%" PRIx64 " of shared memory",
		                    addr);
	if (!b)
		return arena_printf(s->arena, "address 0x%" PRIx64 ", which no allocation is near",
		                    addr);
	if (b->rank != SIM_MAX_RANKS)
		snprintf(home, sizeof home, "rank %u", b->rank);
	if (addr < b->addr)
		return arena_printf(s->arena, "%" PRIu64 " bytes before '%s' (%s)", b->addr - addr,
		                    b->name, home);
	if (addr - b->addr >= b->bytes)
		return arena_printf(
		        s->arena, "%" PRIu64 " bytes past the end of '%s' (%s, %" PRIu64 " bytes)",
		        addr - b->addr - b->bytes, b->name, home, b->bytes);
	return arena_printf(s->arena, "'%s' + %" PRIu64 " (%s)", b->name, addr - b->addr, home);
}

const char *sim_writer_text(struct sim *s, const struct sim_block *b, uint64_t off)
{
	uint32_t u = b->writer[off / 2];

	if (u)
		return arena_printf(s->arena, "rank %u at PTX line %u", (u & 31) - 1, u >> 5);
	return sim_bytes_defined(b, off, 1) ? "the host" : "nobody";
}

const char *sim_register_text(struct sim *s, const struct sim_kernel *k, uint32_t index)
{
#define X(ID, prefix, bits, decl) prefix,
	static const char *const prefix[PTX_NCLASSES] = {PTX_CLASSES(X)};
#undef X

	for (unsigned c = 0; c < PTX_NCLASSES; c++) {
		if (index < k->fn->nreg[c])
			return arena_printf(s->arena, "%s%u", prefix[c], index);
		index -= k->fn->nreg[c];
	}
	return "?";
}

const struct sim_finding *sim_findings(const struct sim *s)
{
	return s->findings;
}

void sim_render_findings(const struct sim *s, struct strbuf *out)
{
	for (const struct sim_finding *f = s->findings; f; f = f->next)
		strbuf_printf(out, "%s: %s: %s\n", sim_check_name[f->check], title[f->check],
		              f->text);
}
