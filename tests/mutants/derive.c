/*
 * Mutants derived from the PTX of every protocol, one change each:
 *
 *	drop     a fence, barrier, wait, trigger, a strong or unvectored store, or a loop's way back is gone
 *	order    a release or acquire becomes relaxed, a relaxed access weak
 *	scope    .sys becomes .gpu, the CTA's barrier the warp's
 *	plus     an integer in the instruction is one more: epochs, slots, counts, buffers, sizes
 *	minus    one less
 *
 * Copies that unrolling made of an instruction are one: the first and the last of them stand for
 * all.  Each mutant must be found, or be in equivalent.def with the reason why nothing can find it:
 * by verify (several shapes, weak memory in every other schedule), by what ranks leave behind when
 * one lapses (lapse.c), or by lint.
 */
#include "tests/mutants/derive.h"
#include "lint/lint.h"
#include "tests/mutants/mutants.h"
#include "tools/pipeline.h"
#include "tools/verify_priv.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kind {
	const char *name, *spec;
	enum cg_protocol protocol;
	enum cg_order order;
	enum cg_pdl pdl;
	bool sync; /* the rest is as in the kernel of order formal */
} kinds[] = {
        {"push", NULL, CG_PUSH, CG_FORMAL, CG_PDL_NONE, false},
        {"mm-push", NULL, CG_MM_PUSH, CG_FORMAL, CG_PDL_NONE, false},
        {"p2p-twoshot", NULL, CG_P2P_TWOSHOT, CG_FORMAL, CG_PDL_NONE, false},
        {"mm-twoshot", NULL, CG_MM_TWOSHOT, CG_FORMAL, CG_PDL_NONE, false},
        {"mm-oneshot", "tests/mutants/oneshot.plait", CG_MM_ONESHOT, CG_FORMAL, CG_PDL_NONE, false},
        {"p2p-bulk", NULL, CG_P2P_BULK, CG_FORMAL, CG_PDL_NONE, false},
        {"mm-twoshot-pdl", NULL, CG_MM_TWOSHOT, CG_FORMAL, CG_PDL_EARLY, true},
        {"push-pdl", NULL, CG_PUSH, CG_FORMAL, CG_PDL_EARLY, true},
        {"p2p-bulk-pdl", NULL, CG_P2P_BULK, CG_FORMAL, CG_PDL_EARLY, true},
        {"mm-twoshot-strict", NULL, CG_MM_TWOSHOT, CG_STRICT, CG_PDL_NONE, true},
        {"mm-twoshot-hw", NULL, CG_MM_TWOSHOT, CG_HW, CG_PDL_NONE, true},
};
enum { NKINDS = sizeof kinds / sizeof *kinds };

/* What is run, in this order, until something is wrong. */
static const struct shape {
	int64_t tokens[6];
	unsigned ntokens, launches, schedules, ctas;
	const char *kinds; /* NULL: all */
} shapes[] = {
        {{2, 5, 1, 4}, 4, 6, 10, 0, NULL},
        {{31, 4},
         2,
         2,
         4,
         0,
         "mm-twoshot p2p-twoshot mm-oneshot mm-twoshot-pdl mm-twoshot-strict mm-twoshot-hw"},
        {{122}, 1, 2, 4, 1, "p2p-bulk p2p-bulk-pdl"},
};
enum { NSHAPES = sizeof shapes / sizeof *shapes };

struct bench {
	struct arena arena; /* of one kind */
	struct pipe p;
	struct args args;
	const struct kind *kind;
	struct vf_data *d[NSHAPES];
	const char *text;
	const struct derive_names *names;
	const char *lapses; /* what the text as it is leaves */
	unsigned lint;
	struct tap *tap;
	struct derive_table *table;
	const struct derive_choice *choice;
};

/* ---- looking for it ---- */

/* The check's name, or the kind of failure. */
static const char *killer(const struct vf_failure *f, struct arena *a)
{
	const char *colon = f->kind == VF_FINDING && f->text ? strchr(f->text, ':') : NULL;

	return colon ? arena_strndup(a, f->text, (size_t)(colon - f->text)) : vf_kind_name[f->kind];
}

/* By verify in the shapes from..to; NULL: nothing. */
static const char *verify(struct bench *b, const struct ptx_module *m, const char *text,
                          unsigned from, unsigned to, struct arena *a)
{
	struct strbuf report;
	struct vf_result r;

	for (unsigned i = from; i < to; i++) {
		if (!b->d[i])
			continue;
		vf_run(b->d[i], m, text, a, &r);
		if (r.failure.kind == VF_GOOD)
			continue;
		if (b->choice->number) {
			strbuf_init(&report, a);
			vf_print_failure(&r.failure, b->args.spec, &report);
			fputs(report.s, stderr);
		}
		return killer(&r.failure, a);
	}
	return NULL;
}

static void set_weak(struct bench *b, bool weak)
{
	for (unsigned i = 0; i < NSHAPES; i++)
		if (b->d[i])
			b->d[i]->o.weak = weak;
}

static enum sim_races level(const struct kind *k)
{
	return k->order == CG_HW       ? SIM_RACES_HW
	       : k->order == CG_STRICT ? SIM_RACES_STRICT
	                               : SIM_RACES_FORMAL;
}

static unsigned lint_errors(struct arena *a, const char *text)
{
	struct diags d;
	struct source *s;
	const struct ptx_module *m;

	diags_init(&d, a);
	s = diags_add_source(&d, "mutant", text, strlen(text));
	m = s ? ptx_parse_any(a, &d, s) : NULL;
	return m ? lint_module(m, a, &d) : 0;
}

/* The same; what only weak memory shows is called so. */
static const char *verify_both(struct bench *b, const struct ptx_module *m, const char *text,
                               unsigned from, unsigned to, struct arena *a)
{
	const char *found = verify(b, m, text, from, to, a);
	bool without;

	if (!found || !strcmp(found, "race"))
		return found;
	set_weak(b, false);
	without = verify(b, m, text, 0, to, a) != NULL;
	set_weak(b, true);
	return without ? found : arena_printf(a, "weak memory: %s", found);
}

static const char *by_lapses(struct bench *b, const struct ptx_module *m, bool many,
                             struct arena *a)
{
	const char *lapses = derive_lapses(b->p.kernel[0].k, m, level(b->kind), many, a);

	if (!strcmp(lapses, b->lapses))
		return NULL;
	if (b->choice->number)
		fprintf(stderr, "--- was\n%s--- is\n%s", b->lapses, lapses);
	return "a lapsing rank";
}

/* What finds the mutant, what is likely or cheap first; NULL: nothing. */
static const char *look(struct bench *b, const struct ptx_module *m, const char *line,
                        const char *text, struct arena *a)
{
	const bool state = strstr(line, "%ws") != NULL; /* much of it is for what goes wrong */
	const char *found = state ? by_lapses(b, m, false, a) : NULL;

	if (!found)
		found = verify_both(b, m, text, 0, 1, a);
	if (!found && !state)
		found = by_lapses(b, m, false, a);
	if (!found)
		found = verify_both(b, m, text, 1, NSHAPES, a);
	if (!found && strstr(line, ".cas."))
		found = by_lapses(b, m, true, a);
	return found ? found : lint_errors(a, text) > b->lint ? "lint" : NULL;
}

static void note(struct bench *b, const struct derived *x, const char *line, const char *found)
{
	const bool equal = derive_table_add(b->table, b->kind->name, x->op, line, found);
	char name[300];

	snprintf(name, sizeof name, "%s %u %s: %s (%s)", b->kind->name, x->number,
	         derive_name[x->op], line,
	         found   ? found
	         : equal ? "equivalent"
	                 : "nothing finds it");
	tap_say(b->tap, name, found || equal ? NULL : "neither found nor argued to be equivalent",
	        "");
}

static void run_one(struct bench *b, const struct derived *x)
{
	struct arena a;
	struct ptx_module *m;
	struct strbuf text;
	struct diags d;
	const char *line;

	arena_init(&a, 0);
	if (setjmp(a.oom)) {
		puts("Bail out! out of memory");
		exit(1);
	}
	diags_init(&d, &a);
	m = mutant_parse(&a, &d, b->text);
	line = derive_line(&a, m->fn, b->names, x->at);
	derive_apply(m->fn, x);
	if (x->op != DERIVE_DROP)
		line = arena_printf(&a, "%s => %s", line, derive_line(&a, m->fn, b->names, x->at));
	strbuf_init(&text, &a);
	ptx_print(m, &text);
	m = mutant_parse(&a, &d, text.s);
	note(b, x, line, m ? look(b, m, line, text.s, &a) : "PTX verifier");
	arena_free(&a);
}

/* ---- one kind of kernel ---- */

static bool data_of(struct bench *b, unsigned i)
{
	static struct vf_kernel vk;
	const struct pipe_kernel *k = &b->p.kernel[0];
	const struct shape *s = &shapes[i];
	const struct vf_options o = {.tp = 3,
	                             .tokens = s->tokens,
	                             .ntokens = s->ntokens,
	                             .launches = s->launches,
	                             .schedules = s->schedules,
	                             .ctas = s->ctas,
	                             .sum = -1,
	                             .weak = true,
	                             .threads = 1};
	const char *error = "";

	vk = (struct vf_kernel){.f = k->f, .k = k->k, .rows = k->rows, .places = &b->p.d};
	if (s->kinds && !derive_has_word(s->kinds, b->kind->name))
		return true;
	if (vf_data_new(&vk, &o, &b->arena, &b->d[i], &error) == ST_OK)
		return true;
	printf("# %s\n", error);
	return false;
}

static struct fe_set set = {"hidden", "1024"};

/* The kernel, small, and its references; and that it is good. */
static bool prepare(struct bench *b, const char *spec)
{
	struct ptx_module *m;
	struct strbuf text;

	b->args = (struct args){.command = CMD_VERIFY,
	                        .arena = &b->arena,
	                        .tp = 3,
	                        .kernel = "add_norm",
	                        .spec = b->kind->spec ? b->kind->spec : spec,
	                        .set = &set,
	                        .nset = 1,
	                        .protocol = b->kind->protocol,
	                        .order = b->kind->order,
	                        .pdl = b->kind->pdl,
	                        .target = cg_target_by_name("sm_90")};
	pipe_init(&b->p, &b->arena, &b->args);
	strbuf_init(&text, &b->arena);
	if (pipe_all(&b->p) != ST_OK) {
		diags_render(&b->p.d, DIAG_WARNING, &text);
		fputs(text.s, stderr);
		return false;
	}
	ptx_print(b->p.kernel[0].k->module, &text);
	b->text = text.s;
	for (unsigned i = 0; i < NSHAPES; i++)
		if (!data_of(b, i))
			return false;
	m = mutant_parse(&b->arena, &b->p.d, b->text);
	b->names = derive_names_new(&b->arena, m->fn);
	b->lapses = derive_lapses(b->p.kernel[0].k, m, level(b->kind), true, &b->arena);
	b->lint = lint_errors(&b->arena, b->text);
	if (strstr(b->lapses, "seed ") || strstr(b->lapses, "reads: ")) {
		fputs(b->lapses, stderr);
		return false;
	}
	return !verify(b, m, b->text, 0, NSHAPES, &b->arena);
}

static void run_kind(struct bench *b, const struct kind *k, const char *spec)
{
	const struct derive_choice *c = b->choice;
	struct derived *list;
	unsigned n;

	b->kind = k;
	arena_init(&b->arena, 0);
	if (setjmp(b->arena.oom)) {
		puts("Bail out! out of memory");
		exit(1);
	}
	if (prepare(b, spec)) {
		list = derive_all(&b->arena, mutant_parse(&b->arena, &b->p.d, b->text)->fn, k->sync,
		                  &n);
		for (unsigned i = 0; i < n; i++)
			if (c->number ? list[i].number == c->number
			              : list[i].number % c->every == 1 % c->every)
				run_one(b, &list[i]);
	} else {
		tap_say(b->tap, k->name, "the text as it was is not good", "");
	}
	for (unsigned i = 0; i < NSHAPES; i++) {
		vf_data_free(b->d[i]);
		b->d[i] = NULL;
	}
	arena_free(&b->arena);
}

/* The table is that of the file, or becomes it. */
static void compare(struct bench *b, struct arena *a)
{
	const struct derive_choice *c = b->choice;
	struct strbuf want;
	char *have;
	size_t n;
	FILE *f;

	strbuf_init(&want, a);
	derive_table_print(b->table, &want);
	if (derive_table_unused(b->table))
		tap_say(b->tap, derive_table_unused(b->table),
		        "in equivalent.def, and no mutant needs it", "");
	if (c->update) {
		f = fopen(c->table, "w");
		if (!f || fwrite(want.s, 1, want.n, f) != want.n || fclose(f))
			tap_say(b->tap, c->table, "cannot be written", "");
		return;
	}
	have = arena_alloc(a, want.n + 2);
	f = fopen(c->table, "r");
	n = f ? fread(have, 1, want.n + 1, f) : 0;
	tap_say(b->tap, c->table,
	        n == want.n && !memcmp(have, want.s, n)
	                ? NULL
	                : "it has another table: mutants SPEC table FILE --update, and look at it",
	        "");
	if (f)
		fclose(f);
}

void run_derived(const char *spec, const struct derive_choice *choice, struct tap *tap)
{
	struct bench *b = calloc(1, sizeof *b);
	struct arena a;

	arena_init(&a, 0);
	if (!b || setjmp(a.oom)) {
		puts("Bail out! out of memory");
		exit(1);
	}
	b->tap = tap;
	b->choice = choice;
	b->table = derive_table_new(&a);
	for (unsigned i = 0; i < NKINDS; i++)
		if (!choice->kind || !strcmp(choice->kind, kinds[i].name))
			run_kind(b, &kinds[i], spec);
	if (choice->table)
		compare(b, &a);
	arena_free(&a);
	free(b);
}
