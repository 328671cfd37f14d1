/*
 * The cross: kernels of all samples x protocols x ranks x element types, at a small hidden size,
 * each verified on simulated ranks over row counts around tp.  A line of TAP for each combination.
 *
 *	cross FOLDER                  every three of protocol, ranks and type, every pair of a sample
 *	                              and one of these; few schedules
 *	cross FOLDER all              every combination, 20 schedules; PLAIT_TEST_ALL=1 does the same
 *	cross FOLDER own              of those only the ones at the samples' own sizes: tp 8, two T
 *	cross FOLDER ... --update F   also writes the table of what was run to F (doc/verified.md)
 *	cross FOLDER ... --schedules N
 *	cross FOLDER ... --part K/N   every N-th combination, from the K-th on: deals the whole out
 *	                              over machines or nights
 *	cross FOLDER ... --protocol P --tp N
 *	                              only these, to run again what has failed; with --update the
 *	                              table's other cells stay as they are
 *
 * A kernel that another sample has too, equal but for its name, is run once for each combination.
 * Races, which take most of the time, are looked for in every fourth schedule (every other one).
 * A protocol may refuse a kernel (E421, E807, E809): that is counted apart, and a
 * kernel must have at least one protocol for every number of ranks.
 */
#include "support/hash.h"
#include "tools/verify_one.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Hours are spent once: in the build by gcc without sanitizers. */
#if defined(__SANITIZE_ADDRESS__)
enum { BRIEF = 1, SCHEDULES = 1 };
#elif defined(__clang__)
enum { BRIEF = 1, SCHEDULES = 2 };
#else
enum { BRIEF = 0, SCHEDULES = 4 };
#endif

static const unsigned ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 16};
static const char *const dtypes[] = {"bf16", "f16", "f32"};
enum { NRANKS = 9, NDTYPES = 3, MAX_SPECS = 64, SMALL = 128 };

struct cell { /* of the table */
	unsigned run, same, refused;
};

struct cross {
	unsigned test, failed, seed, threads, schedules;
	unsigned part, parts, number; /* of combinations: those of the part are run */
	char *spec[MAX_SPECS];
	unsigned nspec;
	bool all;
	int only_protocol;  /* CG_AUTO: all of them */
	unsigned only_rank; /* as one of the table; 0: all */
	struct cell cell[CG_NPROTOCOLS][NRANKS][NDTYPES];
	unsigned served[MAX_SPECS][NRANKS]; /* kernels that some protocol took */
	unsigned tried[MAX_SPECS][NRANKS];  /* combinations */
	uint64_t *seen;                     /* kernels and how they were compiled, by hash */
	size_t nseen;
	char folder[64]; /* for specs that were changed */
};

static void report(struct cross *c, const char *what, const char *wrong)
{
	c->test++;
	c->failed += wrong != NULL;
	printf("%sok %u - %s\n", wrong ? "not " : "", c->test, what);
	for (const char *s = wrong ? wrong : ""; *s;) {
		size_t n = strcspn(s, "\n");

		printf("# %.*s\n", (int)n, s);
		s += n + (s[n] == '\n');
	}
	fflush(stdout);
}

/* ---- one combination ---- */

struct combination {
	unsigned spec, rank, dtype;
	enum cg_protocol protocol;
	const char *hidden; /* NULL: the spec's own */
};

/* The spec, or where sums may only be made with it, a copy with `allow rank_divergence;` in every
 * kernel. */
static const char *path_of(struct cross *c, struct arena *a, const struct combination *x)
{
	const char *error, *path = c->spec[x->spec], *copy, *from;
	struct strbuf b;
	size_t len;
	char *text;
	FILE *f;

	if (x->protocol != CG_MM_ONESHOT || !read_file(a, path, &text, &len, &error))
		return path;
	strbuf_init(&b, a);
	for (from = text; *from;) {
		const char *k = strstr(from, "\nkernel "), *open = k ? strchr(k, '{') : NULL;

		if (!open)
			break;
		strbuf_printf(&b, "%.*s allow rank_divergence; ", (int)(open + 1 - from), from);
		from = open + 1;
	}
	strbuf_puts(&b, from);
	copy = arena_printf(a, "%s/%u.plait", c->folder, x->spec);
	f = fopen(copy, "w");
	if (!f)
		return path;
	fwrite(b.s, 1, b.n, f);
	fclose(f);
	return copy;
}

static bool has_dtype(struct arena *a, const char *path)
{
	const char *error;
	size_t len;
	char *text;

	return read_file(a, path, &text, &len, &error) && strstr(text, "dtype = ");
}

static unsigned row_counts(unsigned tp, bool full, int64_t *t)
{
	const int64_t all[] = {0, 1, (int64_t)tp - 1, tp, (int64_t)tp + 1, 33};
	unsigned n = 0, most = full ? 6 : 5;

	for (unsigned i = 0; i < most; i++) {
		bool seen = false;

		for (unsigned k = 0; k < n; k++)
			seen |= t[k] == all[i];
		if (!seen)
			t[n++] = all[i];
	}
	return n;
}

/* NULL, or what is wrong with the kernel. */
static const char *verify(struct cross *c, struct pipe *p, const struct pipe_kernel *k, bool small)
{
	unsigned tp = p->args->tp;
	int64_t tokens[6] = {1, (int64_t)tp + 1};
	const struct vf_options o = {.tp = tp,
	                             .tokens = tokens,
	                             .ntokens = small ? row_counts(tp, c->all, tokens) : 2,
	                             .launches = small ? 0 : 2,
	                             .schedules = small ? c->schedules : 1,
	                             .seed = c->seed++ % 1000,
	                             .race_every = c->all ? 4 : 2,
	                             .sum = -1,
	                             .threads = c->threads};

	return verify_one(p, k, &o);
}

/* Only refusals: a diagnostic for each kernel that says which protocols can do it. */
static bool refused(const struct diags *d)
{
	for (const struct diag *x = d->head; x; x = x->next)
		if (x->severity == DIAG_ERROR && x->code != DIAG_ROWS_SHARDED &&
		    x->code != DIAG_CG_PROTOCOL && x->code != DIAG_CG_DOMAIN)
			return false;
	return d->nerror > 0;
}

static uint64_t hash_func(uint64_t h, struct arena *a, const struct ir_func *f)
{
	struct strbuf b;
	const char *s;

	strbuf_init(&b, a);
	ir_print_func(f, &b);
	s = strchr(b.s, '('); /* behind the name */
	return hash_bytes(h, s ? s : b.s, strlen(s ? s : b.s));
}

/* A kernel with the same IR, before and after the passes, was verified in this combination. */
static bool seen_before(struct cross *c, struct pipe *p, const struct ir_func *f,
                        const struct combination *x)
{
	const unsigned how[] = {(unsigned)x->protocol, x->rank, x->dtype};
	uint64_t h = hash_bytes(HASH_INIT, how, sizeof how);
	uint64_t *more;

	h = hash_func(hash_func(h, p->a, f), p->a, ir_func_find(p->before, f->name));
	for (size_t i = 0; i < c->nseen; i++)
		if (c->seen[i] == h)
			return true;
	more = realloc(c->seen, (c->nseen + 1) * sizeof *more);
	if (more) {
		c->seen = more;
		c->seen[c->nseen++] = h;
	}
	return false;
}

/* Compiles kernel by kernel, so that one that is refused does not take the others with it. */
static const char *kernels(struct cross *c, struct pipe *p, const struct combination *x)
{
	const struct pipe_kernel like = {.rows = p->rows, .protocol = x->protocol};
	struct cell *cell = &c->cell[x->protocol][x->rank][x->dtype];
	enum status s;

	for (const struct ir_func *f = p->after->funcs; f; f = f->next) {
		const char *wrong;

		if (!f->is_kernel)
			continue;
		diags_init(&p->d, p->a);
		diags_add_source(&p->d, p->src->name, p->src->text, p->src->len);
		s = pipe_compile(p, f, x->protocol, &like);
		if (s != ST_OK && s != ST_INTERNAL && refused(&p->d)) {
			cell->refused++;
			continue;
		}
		if (s != ST_OK) {
			struct strbuf b;

			strbuf_init(&b, p->a);
			diags_render(&p->d, DIAG_WARNING, &b);
			return b.s;
		}
		c->served[x->spec][x->rank]++;
		if (seen_before(c, p, f, x)) {
			cell->same++;
			continue;
		}
		wrong = verify(c, p, &p->kernel[p->nkernel - 1], x->hidden != NULL);
		if (wrong)
			return wrong;
		cell->run++;
	}
	return NULL;
}

static bool is_filtered(const struct cross *c)
{
	return c->parts > 1 || c->only_protocol != CG_AUTO || c->only_rank;
}

static bool is_wanted(const struct cross *c, const struct combination *x)
{
	return (c->only_protocol == CG_AUTO || c->only_protocol == (int)x->protocol) &&
	       (!c->only_rank || c->only_rank == ranks[x->rank]);
}

static void combination(struct cross *c, const struct combination *x)
{
	struct fe_set set[2] = {{"dtype", dtypes[x->dtype]}, {"hidden", x->hidden}};
	/* what does not change the results goes through all of its values on the way */
	unsigned turn = x->spec + x->rank + x->dtype + (unsigned)x->protocol;
	struct args args = {.command = CMD_VERIFY,
	                    .order = (enum cg_order)(turn % 3),
	                    .pdl = (enum cg_pdl)(turn / 3 % 3),
	                    .rows_in_memory = turn % 4 == 3,
	                    .tp = ranks[x->rank],
	                    .sum = -1,
	                    .protocol = x->protocol,
	                    .target = cg_target_by_name("sm_90")};
	struct arena arena;
	struct pipe p;
	enum status s;
	char what[256];
	bool typed;

	if (c->number++ % c->parts != c->part || !is_wanted(c, x))
		return;
	snprintf(what, sizeof what, "%s, %s, tp %u, %s, order %s, pdl %s%s%s", c->spec[x->spec],
	         cg_protocol_name(x->protocol), ranks[x->rank], dtypes[x->dtype],
	         cg_order_name(args.order), cg_pdl_name(args.pdl),
	         args.rows_in_memory ? ", T in memory" : "", x->hidden ? "" : ", its own size");
	arena_init(&arena, 0);
	if (setjmp(arena.oom)) {
		report(c, what, "out of memory");
		arena_free(&arena);
		return;
	}
	args.arena = &arena;
	args.spec = path_of(c, &arena, x);
	typed = has_dtype(&arena, args.spec);
	args.set = typed ? set : set + 1;
	args.nset = (typed ? 1u : 0u) + (x->hidden ? 1u : 0u);
	c->tried[x->spec][x->rank]++;
	pipe_init(&p, &arena, &args);
	s = pipe_read(&p);
	if (s == ST_OK)
		s = pipe_parse(&p);
	if (s == ST_OK)
		s = pipe_lower(&p);
	if (s == ST_OK)
		s = pipe_passes(&p, cg_protocol_rows(x->protocol), NULL);
	if (s == ST_OK) {
		report(c, what, kernels(c, &p, x));
	} else if (s == ST_INPUT && refused(&p.d)) {
		c->cell[x->protocol][x->rank][x->dtype].refused++;
		report(c, what, NULL);
	} else {
		struct strbuf b;

		strbuf_init(&b, &arena);
		diags_render(&p.d, DIAG_WARNING, &b);
		report(c, what, b.s);
	}
	arena_free(&arena);
}

/* ---- which combinations ---- */

static const char small[] = "128";
_Static_assert(SMALL == 128, "as the text");

static void own_sizes(struct cross *c)
{
	for (unsigned s = 0; s < c->nspec; s++)
		for (int p = CG_AUTO + 1; p < CG_NPROTOCOLS; p++)
			combination(c, &(struct combination){s, 7, 0, (enum cg_protocol)p, NULL});
}

static void every(struct cross *c)
{
	for (unsigned s = 0; s < c->nspec; s++)
		for (int p = CG_AUTO + 1; p < CG_NPROTOCOLS; p++)
			for (unsigned r = 0; r < NRANKS; r++)
				for (unsigned t = 0; t < NDTYPES; t++)
					combination(c, &(struct combination){s, r, t,
					                                     (enum cg_protocol)p,
					                                     small});
	own_sizes(c);
}

struct pairs { /* of a spec with the other three: which have been seen */
	bool protocol[MAX_SPECS][CG_NPROTOCOLS], rank[MAX_SPECS][NRANKS], type[MAX_SPECS][NDTYPES];
};

static unsigned gain(const struct pairs *n, const struct combination *x)
{
	return (n->protocol[x->spec][x->protocol] ? 0u : 1u) +
	       (n->rank[x->spec][x->rank] ? 0u : 1u) + (n->type[x->spec][x->dtype] ? 0u : 1u);
}

static void see(struct pairs *n, const struct combination *x)
{
	n->protocol[x->spec][x->protocol] = true;
	n->rank[x->spec][x->rank] = true;
	n->type[x->spec][x->dtype] = true;
}

/* Every protocol with every number of ranks and every type, each with the spec that brings most new
 * pairs; then the pairs that are left. */
static void pairwise(struct cross *c)
{
	const unsigned np = CG_NPROTOCOLS - 1, n = np * NRANKS * NDTYPES;
	static struct pairs seen;

	for (unsigned i = 0; i < n; i++) {
		struct combination best = {0};
		unsigned most = 0;

		for (unsigned k = 0; k < c->nspec; k++) {
			struct combination x = {
			        (k + i) % c->nspec, i / NDTYPES % NRANKS, i % NDTYPES,
			        (enum cg_protocol)(1 + i / NDTYPES / NRANKS), small};

			if (!k || gain(&seen, &x) > most) {
				most = gain(&seen, &x);
				best = x;
			}
		}
		see(&seen, &best);
		combination(c, &best);
	}
	for (unsigned s = 0; s < c->nspec; s++)
		for (unsigned r = 0; r < NRANKS; r++)
			for (unsigned p = 1; p <= np; p++) {
				struct combination x = {s, r, (s + r + p) % NDTYPES,
				                        (enum cg_protocol)p, small};

				if (seen.rank[s][r] && seen.protocol[s][p] && seen.type[s][x.dtype])
					continue;
				see(&seen, &x);
				combination(c, &x);
			}
}

/* ---- the table ---- */

static char before[CG_NPROTOCOLS][NDTYPES][NRANKS][24]; /* what the table had */

static void read_row(char *line)
{
	char *at, *name = strtok_r(line, "|", &at), *type = strtok_r(NULL, "|", &at), *text;
	int p = name ? cg_protocol_by_name(strtok(name, " ")) : -1;

	for (unsigned t = 0; p > CG_AUTO && type && t < NDTYPES; t++)
		if (strstr(type, dtypes[t]) && strlen(dtypes[t]) + 2 == strlen(type))
			for (unsigned r = 0; r < NRANKS && (text = strtok_r(NULL, "|\n", &at)); r++)
				snprintf(before[p][t][r], sizeof before[p][t][r], "%s", text);
}

/* Of a run of some combinations only. */
static void read_table(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[1024];

	while (f && fgets(line, sizeof line, f))
		if (line[0] == '|')
			read_row(line);
	if (f)
		fclose(f);
}

static void print_row(FILE *f, const struct cross *c, int p, unsigned t)
{
	fprintf(f, "| %s | %s |", cg_protocol_name((enum cg_protocol)p), dtypes[t]);
	for (unsigned r = 0; r < NRANKS; r++) {
		const struct cell *x = &c->cell[p][r][t];

		if (x->run || x->same || x->refused)
			fprintf(f, " %u%s |", x->run, x->run || x->same ? "" : " (refused)");
		else
			fprintf(f, "%s|", *before[p][t][r] ? before[p][t][r] : " ");
	}
	fprintf(f, "\n");
}

static int update(const struct cross *c, const char *path)
{
	FILE *f;

	if (is_filtered(c))
		read_table(path);
	f = fopen(path, "w");
	if (!f)
		return 2;
	fprintf(f,
	        "# What plait verify has run\n\nWritten by tests/cross (`cross samples%s --update "
	        "doc/verified.md`): how many kernels of the samples were\nverified for each "
	        "protocol, "
	        "element type and number of ranks, with rows of %d elements, %u schedules\neach, "
	        "T = 0, 1, tp - 1, tp, tp + 1%s%s.  \"refused\": the protocol cannot do them, and "
	        "says "
	        "so.  A kernel that several samples have, equal but for its name, counts once.  "
	        "Failures: %u.\n\n| protocol | type |",
	        c->all ? " all" : "", SMALL, c->schedules, c->all ? " and 33" : "",
	        is_filtered(c) ? ", some of them in runs of a part of the combinations" : "",
	        c->failed);
	for (unsigned r = 0; r < NRANKS; r++)
		fprintf(f, " tp %u |", ranks[r]);
	fprintf(f, "\n|---|---|");
	for (unsigned r = 0; r < NRANKS; r++)
		fprintf(f, "---|");
	fprintf(f, "\n");
	for (int p = CG_AUTO + 1; p < CG_NPROTOCOLS; p++)
		for (unsigned t = 0; t < NDTYPES; t++)
			print_row(f, c, p, t);
	fprintf(f, "\nMemory orders, dependent launch and T in device memory go through their "
	           "values on the "
	           "way.  `scripts/test --all` runs every\ncombination with 20 schedules, and "
	           "every sample at "
	           "its own size.\n");
	return fclose(f) ? 2 : 0;
}

/* Where all was tried, every sample was served. */
static void check_served(struct cross *c)
{
	for (unsigned s = 0; s < c->nspec && c->all && !is_filtered(c); s++)
		for (unsigned r = 0; r < NRANKS; r++)
			if (!c->served[s][r])
				report(c, c->spec[s], "no protocol takes its kernels");
}

static int is_spec(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 6 && !strcmp(e->d_name + n - 6, ".plait");
}

static bool read_specs(struct cross *c, const char *folder)
{
	struct dirent **e;
	int n = scandir(folder, &e, is_spec, alphasort);

	for (int i = 0; i < n; i++) {
		char path[4096];

		snprintf(path, sizeof path, "%s/%s", folder, e[i]->d_name);
		if (c->nspec < MAX_SPECS)
			c->spec[c->nspec++] = strdup(path);
		free(e[i]);
	}
	if (n >= 0)
		free(e);
	return n > 0;
}

static void clean(struct cross *c)
{
	for (unsigned s = 0; s < c->nspec; s++) {
		char path[128];

		snprintf(path, sizeof path, "%s/%u.plait", c->folder, s);
		unlink(path);
		free(c->spec[s]);
	}
	rmdir(c->folder);
}

/* K/N; what makes no sense is no combination at all, which is a failure. */
static void read_part(struct cross *c, const char *s)
{
	unsigned k, n;

	if (sscanf(s, "%u/%u", &k, &n) != 2 || !k || !n || k > n)
		k = 2, n = 1;
	c->part = k - 1;
	c->parts = n;
}

int main(int argc, char **argv)
{
	static struct cross c = {.folder = "/tmp/cross.XXXXXX", .parts = 1};
	const char *env = getenv("PLAIT_TEST_ALL"), *table = NULL;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	bool own = false;
	int code = 0;

	c.threads = cpus > 0 ? (unsigned)cpus : 1;
	c.all = !BRIEF && env && !strcmp(env, "1");
	for (int i = 2; i < argc; i++) {
		c.all |= !strcmp(argv[i], "all");
		own |= !strcmp(argv[i], "own");
		if (!strcmp(argv[i], "--update") && i + 1 < argc)
			table = argv[++i];
		if (!strcmp(argv[i], "--schedules") && i + 1 < argc)
			c.schedules = (unsigned)strtoul(argv[++i], NULL, 10);
		if (!strcmp(argv[i], "--part") && i + 1 < argc)
			read_part(&c, argv[++i]);
		if (!strcmp(argv[i], "--protocol") && i + 1 < argc)
			c.only_protocol = cg_protocol_by_name(argv[++i]);
		if (!strcmp(argv[i], "--tp") && i + 1 < argc)
			c.only_rank = (unsigned)strtoul(argv[++i], NULL, 10);
	}
	if (!c.schedules)
		c.schedules = c.all ? 20 : SCHEDULES;
	if (argc < 2 || !read_specs(&c, argv[1]) || !mkdtemp(c.folder)) {
		fprintf(stderr,
		        "usage: cross FOLDER-OF-SPECS [all|own] [--update FILE] [--schedules "
		        "N] [--part K/N] [--protocol P] [--tp N]\n");
		return 2;
	}
	(own ? own_sizes : c.all ? every : pairwise)(&c);
	if (!own)
		check_served(&c);
	if (table)
		code = update(&c, table);
	clean(&c);
	printf("1..%u\n", c.test);
	free(c.seen);
	return c.failed || !c.test ? 1 : code;
}
