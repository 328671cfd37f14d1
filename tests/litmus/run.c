/* Runs of a litmus test: many seeds, each a simulator of its own. */
#include "tests/litmus/litmus.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
	uint64_t at[LIT_LOCS][LIT_RANKS + 1], out;
	uint32_t rank;
};

struct world {
	struct arena arena;
	struct diags diags;
	struct sim *sim;
	struct sim_symmetric loc[LIT_LOCS];
	uint64_t out;
};

/* The outcome of a run: "1:r0=1 x=2" all hold. */
static bool holds(struct world *w, const char *outcome)
{
	char text[256], *save = NULL;

	snprintf(text, sizeof text, "%s", outcome);
	for (char *p = strtok_r(text, " ", &save); p; p = strtok_r(NULL, " ", &save)) {
		const char *eq = strchr(p, '=');
		uint32_t want = (uint32_t)strtoul(eq + 1, NULL, 10), got = 0;
		uint64_t at;

		if (p[1] == ':')
			at = w->out + 4u * (uint64_t)((p[0] - '0') * LIT_REGS + (p[3] - '0'));
		else
			at = w->loc[strchr("xyzw", p[0]) - "xyzw"].uc[p[1] == '@' ? p[2] - '0' : 0];
		sim_read(w->sim, at, &got, 4);
		if (got != want)
			return false;
	}
	return true;
}

static bool prepare(struct world *w, const struct lit_text *t, const struct ptx_module *m,
                    unsigned seed)
{
	const uint8_t zero[LIT_LOC_BYTES] = {0};
	const struct sim_options o = {.ranks = t->ranks,
	                              .seed = seed,
	                              .schedule = seed % 4 ? SIM_RANDOM : SIM_PCT,
	                              .races = SIM_RACES_FORMAL,
	                              .weak = true,
	                              .max_steps = 100000};
	const struct sim_kernel *k;

	w->sim = sim_new(&w->arena, &o);
	for (unsigned i = 0; i < LIT_LOCS; i++) {
		const char name[2] = {"xyzw"[i], 0};

		w->loc[i] = sim_alloc_symmetric(w->sim, sizeof zero, true, name);
		for (unsigned r = 0; r < t->ranks; r++)
			sim_write(w->sim, w->loc[i].uc[r], zero, sizeof zero);
	}
	w->out = sim_alloc(w->sim, 0, 1024, "out");
	k = sim_load(w->sim, m, "t");
	for (unsigned r = 0; k && r < t->ranks; r++) {
		struct args a = {.out = w->out, .rank = r};

		for (unsigned i = 0; i < LIT_LOCS; i++) {
			for (unsigned q = 0; q < LIT_RANKS; q++)
				a.at[i][q] = w->loc[i].uc[q < t->ranks ? q : 0];
			a.at[i][LIT_RANKS] = w->loc[i].mc;
		}
		sim_launch(w->sim, r, 0, k, t->ctas, t->warps * 32, &a, sizeof a.at + 12);
	}
	return k != NULL;
}

static void one(struct world *w, const struct lit_text *t, const struct ptx_module *m,
                const char *outcome, unsigned seed, struct lit_count *n)
{
	if (!prepare(w, t, m, seed)) {
		n->error = "the kernel does not load";
		return;
	}
	n->runs++;
	if (sim_run(w->sim)) {
		n->seen += holds(w, outcome);
		return;
	}
	if (sim_findings(w->sim) && sim_findings(w->sim)->check == SIM_RACE)
		n->races++;
	else
		n->error = "another finding than a race";
}

static void show(struct world *w)
{
	struct strbuf b;

	strbuf_init(&b, &w->arena);
	diags_render(&w->diags, DIAG_REMARK, &b);
	if (w->sim)
		sim_render_findings(w->sim, &b);
	fprintf(stderr, "%s", b.s);
}

/* One run in an arena of its own. */
static void fresh(const struct lit_text *t, const struct ptx_module *m, const char *outcome,
                  unsigned seed, bool show_races, struct lit_count *n)
{
	static struct world w;
	const unsigned was = n->races;

	memset(&w, 0, sizeof w);
	arena_init(&w.arena, 0);
	if (setjmp(w.arena.oom))
		abort();
	diags_init(&w.diags, &w.arena);
	one(&w, t, m, outcome, seed, n);
	if (n->error || (show_races && n->races > was && n->races == 1))
		show(&w);
	arena_free(&w.arena);
}

static bool more(const struct lit_count *n, const struct lit_until *u)
{
	if (u->race && n->races)
		return false;
	if (n->runs < u->runs)
		return true;
	return n->runs < u->most && ((u->race && !n->races) || (u->outcome && !n->seen));
}

struct lit_count lit_run(const char *threads, const char *outcome, struct lit_until u,
                         bool show_all)
{
	static struct lit_text t;
	static struct world parsed;
	static struct lit_count n;
	struct ptx_module *m;

	memset(&n, 0, sizeof n);
	n.error = lit_compile(threads, &t);
	if (n.error)
		return n;
	arena_init(&parsed.arena, 0);
	if (setjmp(parsed.arena.oom))
		abort();
	diags_init(&parsed.diags, &parsed.arena);
	m = ptx_parse(&parsed.arena, &parsed.diags,
	              diags_add_source(&parsed.diags, "litmus.ptx", t.ptx, strlen(t.ptx)));
	if (show_all)
		fputs(t.ptx, stderr);
	if (!m) {
		show(&parsed);
		n.error = "the text is no PTX";
	}
	for (unsigned seed = 0; m && !n.error && more(&n, &u); seed++)
		fresh(&t, m, outcome, seed, show_all, &n);
	arena_free(&parsed.arena);
	return n;
}
