/*
 * What ranks leave behind when one of them lapses: it does not come, comes with another number of
 * rows, or goes after the entry.  A mutant of what a kernel does then has to leave something else.
 */
#include "tests/mutants/derive.h"
#include "tests/mutants/mutants.h"
#include "tools/verify_priv.h"
#include <string.h>

enum { RANKS = 3, ABSENT = 1, ROWS = 6, CTAS = 2, LIMIT = 1000000, SEEDS = 2, MANY_SEEDS = 8 };
#define IN_STEP UINT64_MAX /* a seed: round robin, an instruction each */

/* What one rank does, and what limits the others have. */
enum {
	PRESENT = 1,
	ENTERED = 2,
	OTHER_EXIT = 4,
	SICK = 8,
	ALL_MANY = 16,
	NO_LIMIT = 32,
	PATIENT = 64,
	FIRST_PATIENT = 128,
	OTHER_ROWS = 256
};
static const unsigned lapses[] = {
        0,
        NO_LIMIT,
        PATIENT,
        FIRST_PATIENT,
        PRESENT | OTHER_ROWS,
        ENTERED,
        ENTERED | NO_LIMIT,
        ENTERED | PATIENT,
        ENTERED | FIRST_PATIENT,
        ENTERED | OTHER_EXIT,
        SICK,
        PRESENT | ALL_MANY,
        PRESENT | ALL_MANY | SICK,
};
enum { NLAPSES = sizeof lapses / sizeof *lapses };

struct world {
	struct sim *sim;
	const struct cg_kernel *k;
	struct vf_memory mem;
	struct sim_symmetric *at;
	uint64_t *bytes;
	struct arena *a;
	enum sim_races races;
	uint32_t kernel, tag; /* of the others, as they wrote it */
};

static int set_of(const struct world *w)
{
	return cg_push_set(w->k->plan.protocol);
}

static void make_buffers(struct world *w)
{
	const struct cg_kernel *k = w->k;

	w->at = arena_news(w->a, struct sim_symmetric, k->nparam);
	w->bytes = arena_news(w->a, uint64_t, k->nparam);
	for (unsigned p = 0; p < k->nparam; p++) {
		const struct cg_param *c = &k->param[p];
		const uint64_t cols =
		        (uint64_t)(c->ld > vf_cols(c->type) ? c->ld : vf_cols(c->type));
		uint8_t *image;

		w->bytes[p] = cols * vf_size(c->type) * (c->type.ndim == 2 ? ROWS + 3 : 1);
		w->at[p] = sim_alloc_symmetric(w->sim, w->bytes[p], true, c->name);
		image = arena_alloc(w->a, w->bytes[p]);
		memset(image, 0x3c, w->bytes[p]); /* a small number in every format */
		for (unsigned r = 0; r < RANKS; r++)
			sim_write(w->sim, w->at[p].uc[r], image, w->bytes[p]);
	}
}

/* The lost rank's arrivals, or its header. */
static void arrive(struct world *w, uint32_t epoch, uint32_t tag)
{
	const uint64_t word = epoch | (uint64_t)tag << 32, header = (uint64_t)tag << 32;

	for (unsigned r = 0; r < RANKS; r++) {
		for (unsigned c = 0; c < CTAS; c++)
			sim_write(w->sim,
			          w->mem.ws.uc[r] + offsetof(struct cg_workspace, slot) +
			                  (c * CG_MAX_RANKS + ABSENT) * 8,
			          &word, 8);
		if (set_of(w) >= 0)
			sim_write(w->sim, w->mem.xchg[set_of(w)].uc[r] + ABSENT * 8, &header, 8);
	}
}

/* How long each rank waits: one may wait for ever. */
static void set_limits(struct world *w, unsigned lapse)
{
	for (unsigned r = 0; r < RANKS; r++) {
		const bool patient =
		        (lapse & PATIENT && r == RANKS - 1) || (lapse & FIRST_PATIENT && r == 0);
		const uint64_t ns = lapse & NO_LIMIT ? 0 : patient ? (uint64_t)1 << 60 : LIMIT;

		sim_write(w->sim, w->mem.ws.uc[r] + offsetof(struct cg_workspace, limit_ns), &ns,
		          8);
	}
}

/* Another rank has given up already. */
static void fall_ill(struct world *w)
{
	const uint32_t yes = 1;

	for (unsigned r = 0; r < RANKS; r++)
		sim_write(w->sim, w->mem.ws.uc[r], &yes, 4);
}

/* What a record must write, all of it, but for its kind. */
static void spoil(struct world *w)
{
	uint8_t junk[sizeof(struct cg_ws_record) - 4];

	memset(junk, 0xee, sizeof junk);
	for (unsigned r = 0; r < RANKS; r++)
		sim_write(w->sim, w->mem.ws.uc[r] + offsetof(struct cg_workspace, record) + 4, junk,
		          sizeof junk);
}

static uint64_t hash(struct world *w, uint64_t addr, uint64_t n)
{
	uint8_t *p = arena_alloc(w->a, n + 1);
	uint64_t h = 0xcbf29ce484222325u;

	sim_read(w->sim, addr, p, n);
	for (uint64_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

static void describe_rank(struct world *w, unsigned r, struct strbuf *b)
{
	struct cg_workspace ws;
	const struct cg_ws_record *x = &ws.record;

	sim_read(w->sim, w->mem.ws.uc[r], &ws, sizeof ws);
	strbuf_printf(b, "%u: %u kind %u kernel %x rank %u cta %u phase %u peer %u ", r, ws.abort,
	              x->kind, x->kernel, x->rank, x->cta, x->phase, x->peer);
	strbuf_printf(b, "expected %llx seen %llx reserved %u ", (unsigned long long)x->expected,
	              (unsigned long long)x->seen, ws.reserved);
	for (unsigned i = 0; i < CG_NPUSH; i++)
		strbuf_printf(b, "push %u %u %llu ", ws.push[i].phase, ws.push[i].done,
		              (unsigned long long)ws.push[i].dirty);
	for (unsigned c = 0; c < CTAS + 1; c++)
		strbuf_printf(b, "epoch %u ", ws.epoch[c]);
	for (unsigned p = 0; p < w->k->nparam; p++)
		strbuf_printf(b, " %llx", (unsigned long long)hash(w, w->at[p].uc[r], w->bytes[p]));
	strbuf_puts(b, "\n");
	if (!w->kernel && x->kind == CG_WS_TIMEOUT) { /* in the first lapse */
		w->kernel = x->kernel;
		w->tag = x->kernel ^ ROWS;
	}
}

/*
 * Whatever the schedule: there is no finding; all who waited stop in time, and at least one has noted
 * what it found (who starts when a peer has given up already leaves at once).
 */
static const char *unsound(struct world *w, unsigned lapse)
{
	const struct sim_finding *f = sim_findings(w->sim);
	bool noted = lapse & ALL_MANY;

	if (f)
		return sim_check_name[f->check];
	if (lapse & (PATIENT | FIRST_PATIENT) && sim_stats(w->sim).ns > (uint64_t)1 << 40)
		return "late";
	for (unsigned r = 0; r < RANKS; r++) {
		struct cg_workspace ws;

		sim_read(w->sim, w->mem.ws.uc[r], &ws, sizeof ws);
		noted |= ws.record.kind == CG_WS_TIMEOUT || ws.record.kind == CG_WS_CONTRACT;
		if ((!ws.abort && !(lapse & ALL_MANY)) || ws.reserved)
			return "not told";
	}
	return noted ? NULL : "not noted";
}

static void describe(struct world *w, struct strbuf *b)
{
	const struct sim_finding *f = sim_findings(w->sim);
	const uint64_t ns = sim_stats(w->sim).ns;

	if (f)
		strbuf_printf(b, "%s\n", sim_check_name[f->check]);
	strbuf_puts(b, ns > (uint64_t)1 << 40 ? "never\n" : ns > 1000000000u ? "late\n" : "soon\n");
	for (unsigned r = 0; r < RANKS; r++)
		describe_rank(w, r, b);
}

static void queue(struct world *w, const struct sim_kernel *s, unsigned r, unsigned lapse)
{
	const uint64_t rows = lapse & ALL_MANY                    ? ROWS + 3
	                      : r == ABSENT && lapse & OTHER_ROWS ? ROWS + 1
	                                                          : ROWS;

	if (r == ABSENT && !(lapse & PRESENT))
		return;
	sim_launch_dynamic(w->sim, r, 0, s, cg_grid(&w->k->plan, rows, CTAS), w->k->plan.threads,
	                   w->k->plan.dynamic, vf_arguments(&w->mem, w->k, w->at, rows, r, w->a),
	                   w->k->param_bytes);
}

/* Seed 0: round robin, and what is left is described; else whether it is sound. */
static void run(struct world *w, const struct ptx_module *m, unsigned lapse, uint64_t seed,
                struct strbuf *b)
{
	const struct sim_options o = {.ranks = RANKS,
	                              .seed = seed,
	                              .schedule = !seed || seed == IN_STEP ? SIM_ROUND_ROBIN
	                                          : seed % 2               ? SIM_PCT
	                                                                   : SIM_RANDOM,
	                              .turn = seed == IN_STEP,
	                              .jump_time = true,
	                              .races = w->races,
	                              .max_steps = 2000000};
	const struct sim_kernel *s;
	const char *wrong;

	w->sim = sim_new(w->a, &o);
	vf_memory_new(&w->mem, w->sim, RANKS, LIMIT, &w->k, 1, ROWS + 2, w->a);
	make_buffers(w);
	set_limits(w, lapse);
	s = sim_load(w->sim, m, w->k->name);
	if (lapse & ENTERED)
		arrive(w, 1, w->tag);
	if (lapse & OTHER_EXIT) /* past the entry, with something else at the exit */
		arrive(w, 2, w->tag ^ 1);
	if (lapse & SICK)
		fall_ill(w);
	spoil(w);
	for (unsigned r = 0; r < RANKS && s; r++)
		queue(w, s, r, lapse);
	sim_run(w->sim);
	if (!seed) {
		describe(w, b);
		return;
	}
	wrong = unsound(w, lapse);
	if (wrong && seed == IN_STEP)
		strbuf_printf(b, "seed none, in step: %s\n", wrong);
	else if (wrong)
		strbuf_printf(b, "seed %u: %s\n", (unsigned)seed, wrong);
}

/* Reads what the kernel before it has stored on its rank, as soon as it may. */
static const char reader[] = ".version 7.8\n.target sm_90\n.address_size 64\n"
                             ".visible .entry reader(.param .u64 y, .param .u32 n)\n{\n"
                             ".reg .pred %p<1>; .reg .b32 %r<3>; .reg .b64 %rd<3>;\n"
                             "griddepcontrol.wait;\n"
                             "ld.param.u64 %rd0, [y]; cvta.to.global.u64 %rd1, %rd0;\n"
                             "ld.param.u32 %r0, [n]; mov.u32 %r1, %tid.x;\n"
                             "again: mad.wide.u32 %rd2, %r1, 4, %rd1;\n"
                             "ld.global.b32 %r2, [%rd2];\n"
                             "add.u32 %r1, %r1, 32; setp.lt.u32 %p0, %r1, %r0;\n"
                             "@%p0 bra again;\nret;\n}\n";

/* A kernel that lets its dependent start early, and one that reads its results. */
static void run_reader(struct world *w, const struct ptx_module *m, struct strbuf *b)
{
	const struct sim_options o = {.ranks = RANKS, .races = w->races};
	const struct sim_kernel *s, *s2;
	const struct ptx_module *m2;
	struct diags d;
	unsigned y = 0;

	diags_init(&d, w->a);
	m2 = mutant_parse(w->a, &d, reader);
	w->sim = sim_new(w->a, &o);
	vf_memory_new(&w->mem, w->sim, RANKS, LIMIT, &w->k, 1, ROWS + 2, w->a);
	make_buffers(w);
	while (y + 1 < w->k->nparam && strcmp(w->k->param[y].name, "y") != 0)
		y++;
	s = sim_load(w->sim, m, w->k->name);
	s2 = m2 ? sim_load(w->sim, m2, "reader") : NULL;
	for (unsigned r = 0; r < RANKS && s && s2; r++) {
		const struct {
			uint64_t y;
			uint32_t n, pad;
		} block = {w->at[y].uc[r], (uint32_t)w->bytes[y] / 4, 0};

		queue(w, s, r, PRESENT);
		sim_launch_early(w->sim, r, 0, s2, 1, 32, 0, &block, 12);
	}
	if (!sim_run(w->sim) || !s || !s2)
		strbuf_printf(b, "a dependent reads: %s\n",
		              sim_findings(w->sim) ? sim_findings(w->sim)->text : "?");
}

const char *derive_lapses(const struct cg_kernel *k, const struct ptx_module *m,
                          enum sim_races races, bool many, struct arena *a)
{
	struct world w = {.k = k, .a = a, .races = races};
	struct strbuf b;

	strbuf_init(&b, a);
	for (unsigned l = 0; l < NLAPSES; l++) {
		/* where it matters who is first; and all stop */
		const bool first = !(lapses[l] & (SICK | NO_LIMIT));
		const bool alone = !(lapses[l] & ~(unsigned)(ENTERED | PRESENT | ALL_MANY));
		const unsigned seeds = many && alone ? MANY_SEEDS : first ? SEEDS : 0;

		strbuf_printf(&b, "lapse %u\n", l);
		run(&w, m, lapses[l], 0, &b);
		for (unsigned seed = 1; seed <= seeds; seed++)
			run(&w, m, lapses[l], seed, &b);
		if (many && alone)
			run(&w, m, lapses[l], IN_STEP, &b);
	}
	if (k->plan.pdl)
		run_reader(&w, m, &b);
	return b.s;
}
