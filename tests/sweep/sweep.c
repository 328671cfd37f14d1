/*
 * Kernels of the samples over ranks and row lengths: compiled, printed, parsed, executed on
 * simulated ranks and compared with the reference, a few rows and one schedule each.  A line of TAP
 * for each.
 *
 *	sweep FOLDER [all]    every pair; with `all` every combination, unless a sanitizer slows it
 *	                      down; with PLAIT_TEST_ALL=1 always every combination
 *	sweep FOLDER wide     rows that do not fit into registers, protocols in turn
 */
#include "tools/verify_one.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
enum { SLOW = 1 };
#else
enum { SLOW = 0 };
#endif

static const unsigned ranks[] = {2, 3, 4, 5, 6, 7, 8, 16};
static const char *const widths[] = {"128", "1000", "2880", "4096", "5376", "8192", "16384"};

#define NRANKS  (sizeof ranks / sizeof *ranks)
#define NWIDTHS (sizeof widths / sizeof *widths)

static const unsigned wide_ranks[] = {2, 3, 8};
static const char *const wide_widths[] = {"16388", "20480", "32768", "65536"};
static const enum cg_protocol wide_protocols[] = {CG_MM_TWOSHOT, CG_P2P_TWOSHOT, CG_PUSH,
                                                  CG_MM_PUSH};

struct sweep {
	unsigned test, failed, seed;
	unsigned threads;
	bool wide;
	unsigned only; /* 1 + number of the kernel, modulo their number; 0: all */
	enum cg_protocol protocol;
};

static void report(struct sweep *s, const char *what, const char *kernel, const char *wrong)
{
	s->test++;
	s->failed += wrong != NULL;
	printf("%sok %u - %s %s\n", wrong ? "not " : "", s->test, what, kernel);
	for (const char *c = wrong ? wrong : ""; *c;) {
		size_t n = strcspn(c, "\n");

		printf("# %.*s\n", (int)n, c);
		c += n + (c[n] == '\n');
	}
	fflush(stdout);
}

/* NULL, or what is wrong with kernel i. */
static const char *verify(struct sweep *s, struct pipe *p, size_t i)
{
	int64_t tokens[] = {s->wide ? 2 : 1, p->args->tp + 1};
	const struct vf_options o = {.tp = p->args->tp,
	                             .tokens = tokens,
	                             .ntokens = s->wide ? 1 : 2,
	                             .launches = s->wide ? 2 : 3,
	                             .schedules = 1,
	                             .seed = s->seed++ % 1024,
	                             .sum = -1,
	                             .threads = s->threads};

	return verify_one(p, &p->kernel[i], &o);
}

static void combination(struct sweep *s, const char *spec, unsigned tp, const char *width)
{
	struct fe_set set = {"hidden", width};
	struct arena arena;
	struct args args = {
	        .command = CMD_VERIFY, .arena = &arena, .spec = spec, .tp = tp, .sum = -1};
	struct pipe p;
	struct strbuf b;
	char what[256];

	snprintf(what, sizeof what, "%s, tp %u, hidden %s:", spec, tp, width);
	arena_init(&arena, 0);
	if (setjmp(arena.oom)) {
		report(s, what, "", "out of memory");
		arena_free(&arena);
		return;
	}
	args.set = &set;
	args.nset = 1;
	args.target = cg_target_by_name("sm_90");
	args.protocol = s->protocol;
	pipe_init(&p, &arena, &args);
	strbuf_init(&b, &arena);
	if (pipe_all(&p) != ST_OK) {
		diags_render(&p.d, DIAG_WARNING, &b);
		report(s, what, "compile", b.s);
	} else {
		for (size_t i = 0; i < p.nkernel; i++)
			if (!s->only || (s->only - 1) % p.nkernel == i)
				report(s, what, p.kernel[i].k->name, verify(s, &p, i));
	}
	arena_free(&arena);
}

/* Every pair of a sample and a number of ranks, of a sample and a width; all three in time with
 * --all. */
static void sample(struct sweep *s, const char *spec, unsigned index, bool all)
{
	for (unsigned r = 0; r < NRANKS; r++)
		for (unsigned w = 0; w < NWIDTHS; w++)
			if (all || (r + index) % NWIDTHS == w)
				combination(s, spec, ranks[r], widths[w]);
}

/* A kernel for each row length and protocol, so that each meets all of both; with --all all of them,
 * over more ranks. */
static void wide(struct sweep *s, const char *spec, bool all)
{
	enum { RANKS = 3, WIDTHS = 4, PROTOCOLS = sizeof wide_protocols / sizeof *wide_protocols };

	for (unsigned w = 0; w < WIDTHS; w++)
		for (unsigned r = 0; r < RANKS; r++)
			for (unsigned p = 0; p < PROTOCOLS; p++) {
				if (!all && r != (w < 2 ? (w + p) % RANKS : 0))
					continue;
				s->protocol = wide_protocols[p];
				s->only = all ? 0 : 1 + w + p;
				combination(s, spec, wide_ranks[r], wide_widths[w]);
			}
}

static int is_spec(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 6 && !strcmp(e->d_name + n - 6, ".plait");
}

int main(int argc, char **argv)
{
	const char *env = getenv("PLAIT_TEST_ALL");
	bool all = (argc == 3 && !strcmp(argv[2], "all") && !SLOW) || (env && !strcmp(env, "1"));
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct sweep s = {.threads = cpus > 0 ? (unsigned)cpus : 1};
	struct dirent **e;
	bool is_wide = argc == 3 && !strcmp(argv[2], "wide");
	int n = argc == 2 || argc == 3 ? scandir(argv[1], &e, is_spec, alphasort) : -1;

	if (n <= 0) {
		fprintf(stderr, "usage: sweep FOLDER-OF-SPECS [all|wide]\n");
		return 2;
	}
	for (int i = 0; i < n; i++) {
		char path[4096];

		snprintf(path, sizeof path, "%s/%s", argv[1], e[i]->d_name);
		s.wide = is_wide;
		if (is_wide)
			wide(&s, path, all);
		else
			sample(&s, path, (unsigned)i, all);
		free(e[i]);
	}
	free(e);
	printf("1..%u\n", s.test);
	return s.failed != 0;
}
