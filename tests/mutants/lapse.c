/*
 * What ranks leave behind when one of them lapses: it does not come, comes with another number of
 * rows, or goes after the entry.  A mutant of what a kernel does then has to leave something else.
 */
#include "tests/mutants/derive.h"
#include "tools/verify_priv.h"
#include <string.h>

enum { RANKS = 3, ABSENT = 1, ROWS = 6 };

enum lapse { SILENT, NO_LIMIT, OTHER_ROWS, GONE, CHANGED, SICK, MANY_ROWS, NLAPSES };

struct world {
	struct sim *sim;
	const struct cg_kernel *k;
	struct vf_memory mem;
	struct sim_symmetric *at;
	uint64_t *bytes;
	struct arena *a;
};

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

/* The lost rank's arrivals, as the first rank's are. */
static void arrive(struct world *w, uint32_t epoch, uint32_t tag)
{
	const uint64_t word = epoch | (uint64_t)tag << 32;

	for (unsigned r = 0; r < RANKS; r++)
		sim_write(w->sim,
		          w->mem.ws.uc[r] + offsetof(struct cg_workspace, slot) + ABSENT * 8, &word,
		          8);
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

static void describe(struct world *w, struct strbuf *b)
{
	const struct sim_finding *f = sim_findings(w->sim);
	const uint64_t ns = sim_stats(w->sim).ns;

	if (f)
		strbuf_printf(b, "%s\n", sim_check_name[f->check]);
	strbuf_puts(b, ns > 1000000000u ? "late\n" : "soon\n");
	for (unsigned r = 0; r < RANKS; r++) {
		struct cg_workspace ws;
		const struct cg_ws_record *x = &ws.record;

		sim_read(w->sim, w->mem.ws.uc[r], &ws, sizeof ws);
		strbuf_printf(b, "%u: %u kind %u kernel %x rank %u cta %u phase %u peer %u ", r,
		              ws.abort, x->kind, x->kernel, x->rank, x->cta, x->phase, x->peer);
		strbuf_printf(b, "expected %llx seen %llx epoch %u push %u %u", //
		              (unsigned long long)x->expected, (unsigned long long)x->seen,
		              ws.epoch[0], ws.push[0].phase, ws.push[1].phase);
		for (unsigned p = 0; p < w->k->nparam; p++)
			strbuf_printf(b, " %llx",
			              (unsigned long long)hash(w, w->at[p].uc[r], w->bytes[p]));
		strbuf_puts(b, "\n");
	}
}

static uint32_t run(struct world *w, const struct ptx_module *m, enum lapse lapse, uint32_t tag,
                    struct strbuf *b)
{
	const struct sim_options o = {
	        .ranks = RANKS, .jump_time = true, .races = SIM_RACES_FORMAL, .max_steps = 2000000};
	const struct sim_kernel *s;
	uint64_t word = 0;

	w->sim = sim_new(w->a, &o);
	vf_memory_new(&w->mem, w->sim, RANKS, lapse == NO_LIMIT ? 0 : 1000000, &w->k, 1, ROWS + 2,
	              w->a);
	make_buffers(w);
	s = sim_load(w->sim, m, w->k->name);
	if (lapse == GONE)
		arrive(w, 1, tag);
	if (lapse == CHANGED) /* past the entry, with something else at the exit */
		arrive(w, 2, tag ^ 1);
	if (lapse == SICK)
		fall_ill(w);
	spoil(w);
	for (unsigned r = 0; r < RANKS && s; r++) {
		const uint64_t rows = lapse == MANY_ROWS                   ? ROWS + 3
		                      : r == ABSENT && lapse == OTHER_ROWS ? ROWS + 1
		                                                           : ROWS;

		if (r == ABSENT && lapse != OTHER_ROWS && lapse != MANY_ROWS)
			continue;
		sim_launch_dynamic(w->sim, r, 0, s, 1, w->k->plan.threads, w->k->plan.dynamic,
		                   vf_arguments(&w->mem, w->k, w->at, rows, r, w->a),
		                   w->k->param_bytes);
	}
	sim_run(w->sim);
	describe(w, b);
	sim_read(w->sim, w->mem.ws.uc[0] + offsetof(struct cg_workspace, slot), &word, 8);
	return (uint32_t)(word >> 32);
}

const char *derive_lapses(const struct cg_kernel *k, const struct ptx_module *m, struct arena *a)
{
	struct world w = {.k = k, .a = a};
	struct strbuf b;
	uint32_t tag = 0;

	strbuf_init(&b, a);
	for (unsigned l = 0; l < NLAPSES; l++) {
		uint32_t t = run(&w, m, (enum lapse)l, tag, &b);

		tag = l == SILENT ? t : tag;
	}
	return b.s;
}
