/*
 * What order hw relies on beyond the memory model: the kernels of every protocol, emitted with each
 * order, judged at each level, all races collected.
 *
 *	orders FILE [--update]    FILE has the table of them, or is written
 *
 * Kernels are clean at the level of their order; what those of a lower order lack at a higher one is the
 * table.
 */
#include "tests/table_file.h"
#include "tools/pipeline.h"
#include "tools/verify.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kind {
	const char *name, *spec;
	enum cg_protocol protocol;
	enum cg_pdl pdl;
} kinds[] = {
        {"push", "samples/llama3-70b.plait", CG_PUSH, CG_PDL_NONE},
        {"mm-push", "samples/llama3-70b.plait", CG_MM_PUSH, CG_PDL_NONE},
        {"p2p-twoshot", "samples/llama3-70b.plait", CG_P2P_TWOSHOT, CG_PDL_NONE},
        {"mm-twoshot", "samples/llama3-70b.plait", CG_MM_TWOSHOT, CG_PDL_NONE},
        {"mm-oneshot", "tests/mutants/oneshot.plait", CG_MM_ONESHOT, CG_PDL_NONE},
        {"p2p-bulk", "samples/llama3-70b.plait", CG_P2P_BULK, CG_PDL_NONE},
        {"push, dependent", "samples/llama3-70b.plait", CG_PUSH, CG_PDL_EARLY},
        {"mm-push, dependent", "samples/llama3-70b.plait", CG_MM_PUSH, CG_PDL_EARLY},
        {"p2p-twoshot, dependent", "samples/llama3-70b.plait", CG_P2P_TWOSHOT, CG_PDL_EARLY},
        {"mm-twoshot, dependent", "samples/llama3-70b.plait", CG_MM_TWOSHOT, CG_PDL_EARLY},
        {"mm-oneshot, dependent", "tests/mutants/oneshot.plait", CG_MM_ONESHOT, CG_PDL_EARLY},
        {"p2p-bulk, dependent", "samples/llama3-70b.plait", CG_P2P_BULK, CG_PDL_EARLY},
};
enum { NKINDS = sizeof kinds / sizeof *kinds };

static const struct reason {
	const char *buffer, *missing, *why;
} reasons[] = {
#define REASON(buffer, missing, why) {buffer, missing, why},
#include "tests/orders/reasons.def"
#undef REASON
};
enum { NREASONS = sizeof reasons / sizeof *reasons };

static const struct level {
	enum cg_order order;
	enum sim_races races;
} levels[] = {
        {CG_HW, SIM_RACES_HW},
        {CG_FORMAL, SIM_RACES_FORMAL},
        {CG_STRICT, SIM_RACES_STRICT},
};
enum { NLEVELS = 3 };

static const unsigned ranks[] = {2, 8};

struct row {
	const char *kernels; /* the kinds, with commas */
	const char *last;    /* of them */
	const char *text;    /* buffer | earlier | later | missing */
	const char *why;
	unsigned order, level; /* of levels */
};

struct bench {
	struct arena a, one; /* of all; of one verification */
	struct pipe p;
	struct args args;
	struct fe_set set;
	const char *kind; /* what runs */
	unsigned order, level, races;
	struct row *row;
	size_t nrow, cap_row;
	unsigned test, failed;
};

static void say(struct bench *b, const char *name, const char *wrong)
{
	b->failed += wrong != NULL;
	printf("%sok %u - %s\n", wrong ? "not " : "", ++b->test, name);
	if (wrong)
		printf("# %s\n", wrong);
	fflush(stdout);
}

/* The instruction without operands; where the host stands for kernels, "the kernel before ..". */
static const char *access_text(struct arena *a, const struct ptx_insn *i, bool write)
{
	const struct ptx_fn none = {.name = "k"};
	struct strbuf b;

	if (!i)
		return write ? "a write before or after, on the stream"
		             : "a read before or after, on the stream";
	strbuf_init(&b, a);
	ptx_print_insn(&none, i, &b);
	if (*b.s == '@') /* a guard */
		b.s += strcspn(b.s, " ") + 1;
	return arena_printf(a, "`%.*s`", (int)strcspn(b.s, " ;"), b.s);
}

static const char *why(const struct sim_raced *r)
{
	for (unsigned i = 0; i < NREASONS; i++)
		if ((!*reasons[i].buffer || !strcmp(reasons[i].buffer, r->buffer)) &&
		    !strncmp(reasons[i].missing, r->missing, strlen(reasons[i].missing)))
			return reasons[i].why;
	return NULL;
}

static void note(void *ctx, const struct sim_raced *r)
{
	struct bench *b = ctx;
	struct row *x = b->row;
	const char *text = arena_printf(&b->a, "%s | %s | %s | %.*s", r->buffer,
	                                access_text(&b->a, r->earlier, r->wrote_earlier),
	                                access_text(&b->a, r->now, r->writes),
	                                (int)strcspn(r->missing, ":"), r->missing);

	b->races++;
	for (; x < b->row + b->nrow; x++)
		if (x->order == b->order && x->level == b->level && !strcmp(x->text, text))
			break;
	if (x == b->row + b->nrow) {
		b->row = arena_grow(&b->a, b->row, b->nrow, &b->cap_row, b->nrow + 1, sizeof *x);
		x = &b->row[b->nrow++];
		*x = (struct row){b->kind, b->kind, text, why(r), b->order, b->level};
	} else if (x->last != b->kind) {
		x->kernels = arena_printf(&b->a, "%s; %s", x->kernels, b->kind);
		x->last = b->kind;
	}
}

/* NULL, or what is wrong but for races. */
static const char *verify(struct bench *b, unsigned tp)
{
	const struct pipe_kernel *k = &b->p.kernel[0];
	const int64_t tokens[] = {1, tp + 1};
	const struct vf_options o = {.tp = tp,
	                             .tokens = tokens,
	                             .ntokens = 2,
	                             .launches = 5,
	                             .schedules = 2,
	                             .ctas = 2,
	                             .sum = -1,
	                             .races = levels[b->level].races + 1u,
	                             .on_race = note,
	                             .race_ctx = b,
	                             .threads = 1};
	struct vf_kernel vk = {.f = k->f, .k = k->k, .rows = k->rows, .places = &b->p.d};
	const struct ptx_module *m;
	struct strbuf text, report;
	struct vf_data *d;
	struct vf_result r;
	const char *error;

	strbuf_init(&text, &b->one);
	ptx_print(k->k->module, &text);
	m = ptx_parse(&b->one, &b->p.d, diags_add_source(&b->p.d, "kernel.ptx", text.s, text.n));
	if (!m || vf_data_new(&vk, &o, &b->one, &d, &error) != ST_OK)
		return "the kernel cannot be verified";
	vf_run(d, m, text.s, &b->one, &r);
	vf_data_free(d);
	if (r.failure.kind == VF_GOOD)
		return NULL;
	strbuf_init(&report, &b->one);
	vf_print_failure(&r.failure, b->args.spec, &report);
	return arena_strndup(&b->a, report.s, strcspn(report.s, "\n"));
}

static const char *compile(struct bench *b, const struct kind *k, unsigned tp)
{
	b->set = (struct fe_set){"hidden", "64"};
	b->args = (struct args){.command = CMD_VERIFY,
	                        .arena = &b->one,
	                        .tp = tp,
	                        .kernel = "add_norm",
	                        .spec = k->spec,
	                        .set = &b->set,
	                        .nset = 1,
	                        .protocol = k->protocol,
	                        .order = levels[b->order].order,
	                        .pdl = k->pdl,
	                        .target = cg_target_by_name("sm_90")};
	pipe_init(&b->p, &b->one, &b->args);
	return pipe_all(&b->p) == ST_OK ? NULL : "it does not compile";
}

/* A kernel with an order, at its level and those above. */
static void run(struct bench *b, const struct kind *k, unsigned tp)
{
	b->kind = k->name;
	for (b->level = b->order; b->level < NLEVELS; b->level++) {
		const char *wrong;
		char name[160];

		arena_init(&b->one, 0);
		if (setjmp(b->one.oom)) {
			puts("Bail out! out of memory");
			exit(1);
		}
		b->races = 0;
		wrong = compile(b, k, tp);
		if (!wrong)
			wrong = verify(b, tp);
		if (!wrong && b->races && b->level == b->order)
			wrong = "it has races at the level of its order";
		snprintf(name, sizeof name, "%s, %u ranks: order %s at level %s", k->name, tp,
		         cg_order_name(levels[b->order].order),
		         sim_races_name[levels[b->level].races]);
		say(b, name, wrong);
		arena_free(&b->one);
	}
}

/* ---- the table ---- */

static int by_place(const void *x, const void *y)
{
	const struct row *a = x, *b = y;

	return a->order != b->order   ? (int)a->order - (int)b->order
	       : a->level != b->level ? (int)a->level - (int)b->level
	                              : strcmp(a->text, b->text);
}

static const char head[] = "# What each order relies on\n"
                           "\n"
                           "Written by `build/tests/orders/orders doc/orders.md --update`, and "
                           "compared by a test. Kernels of every protocol (add_norm, "
                           "rows of 64\n"
                           "elements, 2 and 8 ranks), emitted with `--order` hw, formal and "
                           "strict, also as dependent launches (`--pdl early`), are judged "
                           "at the\n"
                           "levels of races (doc/simulator.md). **Each is clean at the level of "
                           "its own order**, and so at those below; the tables have all "
                           "pairs of\n"
                           "accesses that it leaves unordered at a higher one.\n";

static void print(struct bench *b, struct strbuf *out)
{
	unsigned order = NLEVELS, level = NLEVELS;

	qsort(b->row, b->nrow, sizeof *b->row, by_place);
	strbuf_puts(out, head);
	for (size_t i = 0; i < b->nrow; i++) {
		const struct row *x = &b->row[i];

		if (x->order != order || x->level != level) {
			order = x->order;
			level = x->level;
			strbuf_printf(out, "\n## Order %s, at level %s\n\n",
			              cg_order_name(levels[order].order),
			              sim_races_name[levels[level].races]);
			strbuf_puts(out, "| buffer | before | after | missing | kernels | why it "
			                 "holds |\n|---|---|---|---|---|---|\n");
		}
		strbuf_printf(out, "| %s | %s | %s |\n", x->text, x->kernels, x->why ? x->why : "");
	}
}

static void compare(struct bench *b, const char *file, bool update)
{
	struct strbuf want;
	const char *wrong;

	for (size_t i = 0; i < b->nrow; i++)
		if (!b->row[i].why)
			say(b, b->row[i].text, "no reason why it holds is in reasons.def");
	strbuf_init(&want, &b->a);
	print(b, &want);
	wrong = table_file(&b->a, file, &want, update, "orders FILE --update");
	if (wrong || !update)
		say(b, file, wrong);
}

int main(int argc, char **argv)
{
	static struct bench b;

	if (argc != 2 && (argc != 3 || strcmp(argv[2], "--update") != 0))
		return fputs("usage: orders FILE [--update]\n", stderr), 2;
	arena_init(&b.a, 0);
	if (setjmp(b.a.oom)) {
		puts("Bail out! out of memory");
		return 1;
	}
	for (unsigned i = 0; i < NKINDS; i++)
		for (unsigned r = 0; r < sizeof ranks / sizeof *ranks; r++)
			for (b.order = 0; b.order < NLEVELS; b.order++)
				run(&b, &kinds[i], ranks[r]);
	compare(&b, argv[1], argc == 3);
	arena_free(&b.a);
	printf("1..%u\n", b.test);
	return b.failed != 0;
}
