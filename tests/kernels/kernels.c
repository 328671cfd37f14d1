/*
 * The kernels of all samples: doc/kernels.md is as they are, they assemble, and do not spill.
 *
 *	kernels FOLDER TABLE              compares the table but for what ptxas says; assembles a few
 *	                                  kernels for each target and protocol
 *	kernels FOLDER TABLE all          compares all of it, assembles every kernel for every
 *	                                  target and for ranks that the table has not;
 *	                                  PLAIT_TEST_ALL=1 does the same
 *	kernels FOLDER TABLE --update     writes the table
 *	kernels FOLDER TABLE --plan       writes it with ? for what ptxas says
 */
#include "tests/kernels/kernels.h"
#include "tests/unit/ptxas.h"
#include <dirent.h>

static const unsigned ranks[] = {2, 8, 3, 4, 5, 6, 7, 16};
enum { NRANKS = 8, IN_TABLE = 2 /* the first so many ranks */, NO_SPILLS_UP_TO = 8192 };

struct run {
	struct kernels k;
	unsigned test, failed;
};

static void report(struct run *x, const char *what, const char *wrong)
{
	x->test++;
	x->failed += wrong != NULL;
	printf("%sok %u - %s\n", wrong ? "not " : "", x->test, what);
	for (const char *s = wrong ? wrong : ""; *s;) {
		size_t n = strcspn(s, "\n");

		printf("# %.*s\n", (int)n, s);
		s += n + (s[n] == '\n');
	}
	fflush(stdout);
}

/* ---- the table ---- */

/* The name of a sample: its file's, without folder and ending. */
static const char *base(const char *path, int *len)
{
	const char *slash = strrchr(path, '/');

	slash = slash ? slash + 1 : path;
	*len = (int)strcspn(slash, ".");
	if (strlen(slash) > 6)
		*len = (int)strlen(slash) - 6;
	return slash;
}

static void print_head(FILE *f, const char *version)
{
	fprintf(f,
	        "# Kernels of the samples\n\n"
	        "Written by tests/kernels (`build/tests/kernels/kernels samples doc/kernels.md "
	        "--update`); registers and bytes\nspilled are by ptxas %s for %s.  Each sample at "
	        "its own hidden size, bf16; for\nmm-oneshot with `allow rank_divergence`.  A "
	        "protocol that is not listed refuses the kernel.\n\n"
	        "- rows: rows in flight per CTA, one after the other in the unrolled loop;\n"
	        "- in flight: bytes of loads of summed operands that a CTA keeps outstanding (of "
	        "any loads, where nothing\n  is summed);\n"
	        "- shared: bytes of shared memory;\n"
	        "- PTX a row: instructions of the loop over rows that a thread executes for each "
	        "row.\n",
	        version, kernels_target[0]);
}

static void print_table(FILE *f, const struct kernels *k, const char *version)
{
	unsigned spec = MAX_SPECS;

	print_head(f, version);
	for (size_t i = 0; i < k->nrow; i++) {
		const struct row *r = &k->row[i];
		const struct cg_plan *p = &r->plan;
		int len;

		if (r->target || (r->tp != ranks[0] && r->tp != ranks[1]))
			continue;
		if (r->spec != spec) {
			const char *name = base(k->spec[r->spec], &len);

			fprintf(f,
			        "\n## %.*s, hidden %lld\n\n"
			        "| kernel | tp | protocol | threads | rows | in flight | shared | "
			        "PTX a row | registers | spilled |\n"
			        "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|\n",
			        len, name, (long long)p->cols);
			spec = r->spec;
		}
		fprintf(f, "| %s | %u | %s | %u | %u | %llu | %u | %u |", r->kernel, r->tp,
		        cg_protocol_name(r->protocol), p->threads, p->in_flight,
		        (unsigned long long)p->bytes_in_flight, p->smem, r->per_row);
		if (r->regs < 0)
			fprintf(f, " ? | ? |\n");
		else
			fprintf(f, " %d | %d |\n", r->regs, r->spilled);
	}
}

/* Bytes of a line that need no ptxas: all but a row's last two columns, nothing of the line that
 * names its version. */
static size_t known(const char *line, size_t n)
{
	unsigned bars = 0;

	if (strstr(line, "ptxas ") && strstr(line, "ptxas ") < line + n)
		return 0;
	if (n && line[0] == '|')
		for (size_t i = 0; i < n; i++) {
			bars += line[i] == '|';
			if (bars == 9)
				return i;
		}
	return n;
}

/* NULL, or the first difference. */
static const char *difference(const char *want, const char *got, bool whole, char *buf, size_t size)
{
	for (unsigned line = 1; *want || *got; line++) {
		size_t n = strcspn(want, "\n"), m = strcspn(got, "\n");
		size_t a = whole ? n : known(want, n), b = whole ? m : known(got, m);

		if (a != b || memcmp(want, got, a)) {
			snprintf(buf, size,
			         "line %u\nis       %.*s\nshall be %.*s\nafter a review: "
			         "kernels samples doc/kernels.md --update",
			         line, (int)n, want, (int)m, got);
			return buf;
		}
		want += n + (want[n] == '\n');
		got += m + (got[m] == '\n');
	}
	return NULL;
}

static char *slurp(const char *path)
{
	size_t cap = (size_t)4 << 20, n;
	char *s = calloc(1, cap);
	FILE *f = fopen(path, "r");

	if (!s)
		abort();
	n = f ? fread(s, 1, cap - 1, f) : 0;
	s[n] = 0;
	if (f)
		fclose(f);
	return s;
}

static void compare(struct run *x, const char *path, bool all)
{
	char version[64], buf[4096], *got = NULL, *want = slurp(path);
	size_t size;
	FILE *f = open_memstream(&got, &size);

	if (!f)
		abort();
	print_table(f, &x->k, kernels_ptxas_version(version, sizeof version));
	fclose(f);
	/* another ptxas allocates in another way */
	if (all && !strstr(want, version))
		all = false;
	report(x, all ? "the table, with ptxas" : "the table",
	       difference(want, got, all, buf, sizeof buf));
	free(got);
	free(want);
}

/* ---- which kernels ---- */

/* Every kernel of a sample once, protocols, targets and ranks in turn; every protocol with every
 * target. */
static void want_pairs(struct kernels *k)
{
	bool seen[CG_NPROTOCOLS][NTARGETS] = {{false}};

	for (size_t i = 0; i < k->nrow;) {
		struct row *r = &k->row[i];
		size_t n = 1, pick;

		while (i + n < k->nrow && r[n].spec == r->spec && !strcmp(r[n].kernel, r->kernel))
			n++;
		pick = i * 7 % n;
		for (size_t j = 0; j < n; j++)
			if (!r[j].as && !seen[r[j].protocol][r[j].target]) {
				pick = j;
				break;
			}
		r[pick].wanted = true;
		seen[r[pick].protocol][r[pick].target] = true;
		i += n;
	}
	for (size_t i = 0; i < k->nrow; i++) {
		struct row *r = &k->row[i];

		if (!r->as && !seen[r->protocol][r->target])
			seen[r->protocol][r->target] = r->wanted = true;
	}
}

static int by_kernel(const void *x, const void *y)
{
	const struct row *a = x, *b = y;
	int c;

	if (a->spec != b->spec)
		return a->spec < b->spec ? -1 : 1;
	c = strcmp(a->kernel, b->kernel);
	if (!c)
		c = (int)a->tp - (int)b->tp;
	if (!c)
		c = (int)a->protocol - (int)b->protocol;
	return c ? c : (int)a->target - (int)b->target;
}

static bool compile(struct kernels *k, bool targets, unsigned nranks)
{
	for (unsigned s = 0; s < k->nspec; s++)
		for (int p = CG_AUTO + 1; p < CG_NPROTOCOLS; p++)
			for (unsigned t = 0; t < nranks; t++)
				for (unsigned g = 0; g < (targets ? NTARGETS : 1); g++)
					if (!kernels_compile(k, s, (enum cg_protocol)p, ranks[t],
					                     g))
						return false;
	qsort(k->row, k->nrow, sizeof *k->row, by_kernel);
	kernels_fold(k);
	return true;
}

/* Sixteen ranks of GPUs without a link between them: assembled, and a kernel of two sums and two norms
 * keeps some of its sixteen peers' addresses in local memory there. */
static bool exempt(const struct row *r)
{
	return r->tp == 16 && !strcmp(kernels_target[r->target], "sm_120");
}

static void check_spills(struct run *x)
{
	static char wrong[1 << 16];
	size_t n = 0, l = 0;

	for (size_t i = 0; i < x->k.nrow; i++) {
		const struct row *r = &x->k.row[i];

		n += r->regs > 0;
		if (r->spilled <= 0 || r->plan.cols > NO_SPILLS_UP_TO || exempt(r) ||
		    l + 256 > sizeof wrong)
			continue;
		l += (size_t)snprintf(wrong + l, sizeof wrong - l,
		                      "%s, %s, tp %u, %s, %s: %d bytes, est %u, rows %u\n",
		                      x->k.spec[r->spec], r->kernel, r->tp,
		                      cg_protocol_name(r->protocol), kernels_target[r->target],
		                      r->spilled, r->plan.est_regs, r->plan.in_flight);
	}
	report(x, "nothing spills up to hidden 8192 (sm_120: to 8 ranks)",
	       !n         ? "nothing was assembled"
	       : wrong[0] ? wrong
	                  : NULL);
}

static void assemble(struct run *x, bool all)
{
	const char *ci = getenv("CI");

	if (!ptxas_path()) {
		x->test++;
		x->failed += ci && !strcmp(ci, "true");
		printf("%sok %u - kernels assemble # SKIP ptxas is missing\n",
		       ci && !strcmp(ci, "true") ? "not " : "", x->test);
		return;
	}
	if (all)
		for (size_t i = 0; i < x->k.nrow; i++)
			x->k.row[i].wanted = true;
	else
		want_pairs(&x->k);
	report(x, "kernels assemble", kernels_assemble(&x->k) ? NULL : x->k.wrong);
	check_spills(x);
}

static int is_spec(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 6 && !strcmp(e->d_name + n - 6, ".plait");
}

static bool read_specs(struct kernels *k, const char *folder)
{
	struct dirent **e;
	int n = scandir(folder, &e, is_spec, alphasort);

	for (int i = 0; i < n; i++) {
		char path[4096];

		snprintf(path, sizeof path, "%s/%s", folder, e[i]->d_name);
		if (k->nspec < MAX_SPECS)
			k->spec[k->nspec++] = strdup(path);
		free(e[i]);
	}
	if (n >= 0)
		free(e);
	return n > 0;
}

static int update(struct run *x, const char *path)
{
	char version[64];
	FILE *f = fopen(path, "w");

	if (!f)
		return 2;
	print_table(f, &x->k, kernels_ptxas_version(version, sizeof version));
	return fclose(f) ? 2 : 0;
}

static void clean(struct kernels *k)
{
	for (size_t i = 0; i < k->nrow; i++) {
		free(k->row[i].kernel);
		free(k->row[i].body);
	}
	free(k->row);
	for (unsigned s = 0; s < k->nspec; s++)
		free(k->spec[s]);
}

int main(int argc, char **argv)
{
	const char *env = getenv("PLAIT_TEST_ALL");
	bool all = env && !strcmp(env, "1"), write = false, plan = false;
	static struct run x;
	int code = 0;

	for (int i = 3; i < argc; i++) {
		all |= !strcmp(argv[i], "all");
		plan |= !strcmp(argv[i], "--plan");
		write |= plan || !strcmp(argv[i], "--update");
	}
	if (argc < 3 || !read_specs(&x.k, argv[1])) {
		fprintf(stderr, "usage: kernels FOLDER-OF-SPECS TABLE [all] [--update]\n");
		return 2;
	}
	if (compile(&x.k, !write, all && !write ? NRANKS : IN_TABLE)) {
		if (!plan)
			assemble(&x, all || write);
		if (write)
			code = update(&x, argv[2]);
		else
			compare(&x, argv[2], all);
	} else {
		report(&x, "kernels compile", x.k.wrong);
	}
	clean(&x.k);
	printf("1..%u\n", x.test);
	return x.failed ? 1 : code;
}
