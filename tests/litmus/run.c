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
                    unsigned seed, struct sim_explore *search)
{
	const uint8_t zero[LIT_LOC_BYTES] = {0};
	const struct sim_options o = {.ranks = t->ranks,
	                              .seed = seed,
	                              .schedule = search     ? SIM_ROUND_ROBIN
	                                          : seed % 4 ? SIM_RANDOM
	                                                     : SIM_PCT,
	                              .explore = search,
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
                const char *outcome, unsigned seed, struct sim_explore *search, struct lit_count *n)
{
	if (!prepare(w, t, m, seed, search)) {
		n->error = "the kernel does not load";
		return;
	}
	n->runs++;
	if (sim_run(w->sim)) {
		n->seen += holds(w, outcome);
		return;
	}
	if (search && sim_explored(search).cut)
		return;
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
                  unsigned seed, struct sim_explore *search, bool show_races, struct lit_count *n)
{
	static struct world w;
	const unsigned was = n->races;

	memset(&w, 0, sizeof w);
	arena_init(&w.arena, 0);
	if (setjmp(w.arena.oom))
		abort();
	diags_init(&w.diags, &w.arena);
	one(&w, t, m, outcome, seed, search, n);
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

/* The text and its module, in an arena that the next test has again. */
static struct ptx_module *parse(const char *threads, struct lit_text *t, struct world *w,
                                const char **error)
{
	struct ptx_module *m;

	*error = lit_compile(threads, t);
	if (*error)
		return NULL;
	arena_free(&w->arena);
	arena_init(&w->arena, 0);
	if (setjmp(w->arena.oom))
		abort();
	diags_init(&w->diags, &w->arena);
	m = ptx_parse(&w->arena, &w->diags,
	              diags_add_source(&w->diags, "litmus.ptx", t->ptx, strlen(t->ptx)));
	if (!m) {
		show(w);
		*error = "the text is no PTX";
	}
	return m;
}

struct lit_count lit_run(const char *threads, const char *outcome, struct lit_until u,
                         bool show_all)
{
	static struct lit_text t;
	static struct world parsed;
	static struct lit_count n;
	struct ptx_module *m;

	memset(&n, 0, sizeof n);
	m = parse(threads, &t, &parsed, &n.error);
	if (m && show_all)
		fputs(t.ptx, stderr);
	for (unsigned seed = 0; m && !n.error && more(&n, &u); seed++)
		fresh(&t, m, outcome, seed, NULL, show_all, &n);
	return n;
}

struct lit_count lit_search(const char *threads, const char *outcome, unsigned most)
{
	static struct lit_text t;
	static struct world parsed;
	static struct lit_count n;
	static struct sim_explore *e;
	struct ptx_module *m;

	memset(&n, 0, sizeof n);
	m = parse(threads, &t, &parsed, &n.error);
	if (!m)
		return n;
	e = sim_explore_new(&parsed.arena, most);
	while (!n.error && !n.races && sim_explore_next(e))
		fresh(&t, m, outcome, 0, e, false, &n);
	n.states = sim_explored(e).states;
	n.complete = sim_explored(e).complete;
	return n;
}
