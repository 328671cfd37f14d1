/*
 * Every protocol's kernel, as small as it gets, in all ways that the memory model allows.
 *
 *	explore FOLDER FILE             the quick cases; with PLAIT_TEST_ALL=1 all, and FILE has their table
 *	explore FOLDER FILE --update    all of them, and FILE is written
 *	explore FOLDER one NAME         one case or mutant, with its report and its row
 */
#include "tests/explore/explore.h"
#include "tests/table_file.h"
#include "tools/pipeline.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const struct explore_case cases[] = {
#define EXPLORE(name, protocol, order, pdl, tp, ctas, launches, hidden, t0, t1, when) \
	{name, CG_##protocol, CG_##order, CG_PDL_##pdl, tp, ctas, launches, #hidden, {t0, t1}, when},
#define MUTANT(name, of, was, is, which, found, when)
#include "tests/explore/cases.def"
#undef EXPLORE
#undef MUTANT
};
static const struct explore_mutant mutants[] = {
#define EXPLORE(name, protocol, order, pdl, tp, ctas, launches, hidden, t0, t1, when)
#define MUTANT(name, of, was, is, which, found, when) {name, of, was, is, which, found, when},
#include "tests/explore/cases.def"
#undef EXPLORE
#undef MUTANT
};
/* clang-format on */
enum { NCASES = sizeof cases / sizeof *cases, NMUTANTS = sizeof mutants / sizeof *mutants };

static const char *const orders[] = {
        [CG_FORMAL] = "formal", [CG_HW] = "hw", [CG_STRICT] = "strict"};

struct bench {
	const char *folder;
	unsigned test, failed;
	bool show;
	uint64_t most;
	struct arena arena; /* of one case */
	struct pipe p;
	struct args args;
	struct fe_set set;
	struct vf_kernel vk;
	struct strbuf text;
	struct arena all;
	struct strbuf rows, found; /* of the tables */
};

static void say(struct bench *b, const char *name, const char *wrong, const struct vf_explored *x)
{
	b->failed += wrong != NULL;
	printf("%sok %u - %s", wrong ? "not " : "", ++b->test, name);
	if (x)
		printf(" (%llu executions, %llu runs, %llu states%s)", (unsigned long long)x->whole,
		       (unsigned long long)x->runs, (unsigned long long)x->states,
		       x->complete ? ", complete" : "");
	putchar('\n');
	if (wrong)
		printf("# %s\n", wrong);
	fflush(stdout);
}

static const char *compile(struct bench *b, const struct explore_case *c)
{
	const char *file = c->protocol == CG_MM_ONESHOT ? "oneshot" : "sum";
	struct strbuf report;

	b->set = (struct fe_set){"hidden", c->hidden};
	b->args = (struct args){.command = CMD_VERIFY,
	                        .arena = &b->arena,
	                        .tp = c->tp,
	                        .spec = arena_printf(&b->arena, "%s/%s.plait", b->folder, file),
	                        .set = &b->set,
	                        .nset = 1,
	                        .protocol = c->protocol,
	                        .order = c->order,
	                        .pdl = c->pdl,
	                        .target = cg_target_by_name("sm_90")};
	pipe_init(&b->p, &b->arena, &b->args);
	strbuf_init(&report, &b->arena);
	strbuf_init(&b->text, &b->arena);
	if (pipe_all(&b->p) != ST_OK) {
		diags_render(&b->p.d, DIAG_WARNING, &report);
		return report.s;
	}
	ptx_print(b->p.kernel[0].k->module, &b->text);
	return NULL;
}

/* The text with the n-th `was` made `is`; NULL: there are not so many. */
static const char *broken(struct bench *b, const struct explore_mutant *m)
{
	const char *at = b->text.s;
	struct strbuf out;

	for (unsigned i = 0; at && i <= m->which; i++)
		at = strstr(i ? at + 1 : at, m->was);
	if (!at)
		return NULL;
	strbuf_init(&out, &b->arena);
	strbuf_printf(&out, "%.*s%s%s", (int)(at - b->text.s), b->text.s, m->is,
	              at + strlen(m->was));
	return out.s;
}

static const char *search(struct bench *b, const struct explore_case *c, const char *text,
                          struct vf_explored *x)
{
	const struct pipe_kernel *k = &b->p.kernel[0];
	const struct vf_options o = {.tp = c->tp,
	                             .tokens = c->rows,
	                             .ntokens = 1 + (c->rows[1] >= 0),
	                             .launches = c->launches,
	                             .schedules = 1,
	                             .ctas = c->ctas,
	                             .sum = -1,
	                             .threads = 1};
	struct source *src = diags_add_source(&b->p.d, "kernel.ptx", text, strlen(text));
	const struct ptx_module *m = src ? ptx_parse(&b->arena, &b->p.d, src) : NULL;
	const char *error = "the text does not parse";
	struct vf_data *d;

	b->vk = (struct vf_kernel){.f = k->f, .k = k->k, .rows = k->rows, .places = &b->p.d};
	if (!m || vf_data_new(&b->vk, &o, &b->arena, &d, &error) != ST_OK)
		return error;
	if (vf_explore(d, m, text, b->most, &b->arena, x) != ST_OK)
		error = "out of memory";
	else
		error = NULL;
	vf_data_free(d);
	return error;
}

static const char *report(struct bench *b, const struct vf_explored *x)
{
	struct strbuf s;

	strbuf_init(&s, &b->arena);
	vf_print_failure(&x->r.failure, "spec", &s);
	return s.s;
}

static void begin(struct bench *b)
{
	arena_init(&b->arena, 0);
	if (setjmp(b->arena.oom)) {
		puts("Bail out! out of memory");
		exit(1);
	}
}

static void run_case(struct bench *b, const struct explore_case *c)
{
	struct vf_explored x = {.runs = 0};
	const char *wrong;

	begin(b);
	wrong = compile(b, c);
	if (!wrong)
		wrong = search(b, c, b->text.s, &x);
	if (!wrong && x.r.failure.kind != VF_GOOD)
		wrong = report(b, &x);
	else if (!wrong && !x.complete)
		wrong = "the search is not complete";
	say(b, c->name, wrong, &x);
	strbuf_printf(&b->rows, "| %s | %s | %u | %u | %u | %lld", c->name, orders[c->order], c->tp,
	              c->ctas, c->launches, (long long)c->rows[0]);
	if (c->rows[1] >= 0)
		strbuf_printf(&b->rows, ", %lld", (long long)c->rows[1]);
	strbuf_printf(&b->rows, " | %llu | %llu | %llu | %s |\n", (unsigned long long)x.whole,
	              (unsigned long long)x.runs, (unsigned long long)x.states,
	              x.complete ? "complete" : "bounded by runs");
	arena_free(&b->arena);
}

/* The report's first words. */
static const char *first_words(struct bench *b, const struct vf_failure *f)
{
	const char *colon = f->kind == VF_FINDING && f->text ? strchr(f->text, ':') : NULL;

	return colon ? arena_strndup(&b->arena, f->text, (size_t)(colon - f->text))
	             : vf_kind_name[f->kind];
}

static void run_mutant(struct bench *b, const struct explore_mutant *m)
{
	const struct explore_case *c = cases;
	struct vf_explored x = {.runs = 0};
	const char *text, *wrong;
	char name[200];

	while (strcmp(c->name, m->of) != 0)
		c++;
	begin(b);
	wrong = compile(b, c);
	text = wrong ? NULL : broken(b, m);
	if (!wrong)
		wrong = text ? search(b, c, text, &x) : "there is no such text";
	if (!wrong && x.r.failure.kind == VF_GOOD)
		wrong = "it was not found";
	else if (!wrong && strcmp(first_words(b, &x.r.failure), m->found) != 0)
		wrong = report(b, &x);
	if (b->show && x.r.failure.kind != VF_GOOD)
		fputs(report(b, &x), stderr);
	snprintf(name, sizeof name, "%s: %s", m->of, m->name);
	say(b, name, wrong, &x);
	strbuf_printf(&b->found, "| %s | %s | %s | %llu |\n", m->of, m->name, m->found,
	              (unsigned long long)x.all_runs);
	arena_free(&b->arena);
}

/* ---- the table ---- */

static const char head[] =
        "# Explored in all ways\n"
        "\n"
        "Written by `build/tests/explore/explore tests/explore doc/explored.md --update`. Each row "
        "is "
        "the emitted PTX of `y = all_reduce(x)`\n"
        "(tests/explore/sum.plait, rows of two f32, of four for `p2p-bulk`; one warp a CTA, four "
        "there), with "
        "what "
        "its neighbours on the stream do, in every\n"
        "execution that the memory model allows (doc/simulator.md, \"In all ways\").\n"
        "*Executions* are ends that differ in what some access saw or in some location's order of "
        "writes; *runs* are those that the search made,\n"
        "most of which come to a state that was there before; *states* are those in which it had a "
        "choice, and ends. No race, deadlock, wrong\n"
        "value or other finding is in any of them.\n"
        "\n"
        "| kernel | order | ranks | CTAs | launches | T | executions | runs | states | |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n";
static const char head2[] =
        "\n## Broken kernels\n\nThe search finds each of these; *runs* until then.\n\n"
        "| kernel | what is broken | found as | runs |\n|---|---|---|---|\n";

static void compare(struct bench *b, const char *file, bool update)
{
	struct strbuf want;
	const char *wrong;

	strbuf_init(&want, &b->all);
	strbuf_printf(&want, "%s%s%s%s", head, b->rows.s, head2, b->found.s);
	wrong = table_file(&b->all, file, &want, update, "explore FOLDER FILE --update");
	if (wrong || !update)
		say(b, file, wrong, NULL);
}

int main(int argc, char **argv)
{
	const char *all = getenv("PLAIT_TEST_ALL");
	struct bench b = {.folder = argc > 1 ? argv[1] : "", .most = 1000000};
	const bool one = argc == 4 && !strcmp(argv[2], "one");
	const bool full = !one && (argc == 4 || (all && !strcmp(all, "1")));

	if (argc != 3 && argc != 4)
		return fputs("usage: explore FOLDER FILE [--update] | FOLDER one NAME\n", stderr),
		       2;
	/* each run has an arena of its own: what one gave back the next one takes */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	b.show = one;
	arena_init(&b.all, 0);
	if (setjmp(b.all.oom)) {
		puts("Bail out! out of memory");
		return 1;
	}
	strbuf_init(&b.rows, &b.all);
	strbuf_init(&b.found, &b.all);
	for (unsigned i = 0; i < NCASES; i++)
		if (one    ? !strcmp(argv[3], cases[i].name)
		    : full ? cases[i].when != BROKEN
		           : cases[i].when == QUICK)
			run_case(&b, &cases[i]);
	for (unsigned i = 0; i < NMUTANTS; i++)
		if (one ? !strcmp(argv[3], mutants[i].name) : full || mutants[i].when == QUICK)
			run_mutant(&b, &mutants[i]);
	if (one)
		fprintf(stderr, "%s%s", b.rows.s, b.found.s);
	if (full)
		compare(&b, argv[2], argc == 4);
	arena_free(&b.all);
	printf("1..%u\n", b.test);
	return b.failed != 0;
}
