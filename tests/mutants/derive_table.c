/* What became of the mutants, counted; which are equivalent; doc/mutants.md. */
#include "tests/mutants/derive.h"
#include <string.h>

enum { MOST_KINDS = 24, MOST_CHECKS = 40 };

static const struct equivalent {
	const char *kinds, *ops, *text, *why;
} equivalents[] = {
#define EQUIVALENT(kinds, ops, text, why) {kinds, ops, text, why},
#include "tests/mutants/equivalent.def"
#undef EQUIVALENT
};
enum { NEQUIVALENT = sizeof equivalents / sizeof *equivalents };

struct tally { /* of one kind of kernel and one operator */
	unsigned all, equal, missed, found[MOST_CHECKS];
};

struct derive_table {
	struct arena *a;
	const char *kind[MOST_KINDS], *check[MOST_CHECKS];
	unsigned nkind, ncheck;
	struct tally tally[MOST_KINDS][DERIVE_NOPS];
	unsigned equal[NEQUIVALENT][MOST_KINDS];
};

bool derive_has_word(const char *list, const char *word)
{
	const size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)) != NULL; p += n)
		if ((p == list || p[-1] == ' ') && (!p[n] || p[n] == ' '))
			return true;
	return !strcmp(list, "*");
}

struct derive_table *derive_table_new(struct arena *a)
{
	struct derive_table *t = arena_new(a, struct derive_table);

	t->a = a;
	return t;
}

/* The name's number in a list; a new one is kept.  The last one stands for all beyond. */
static unsigned number(struct arena *a, const char **list, unsigned *n, unsigned most,
                       const char *name)
{
	unsigned i = 0;

	while (i < *n && strcmp(list[i], name) != 0)
		i++;
	if (i == *n && *n < most)
		list[(*n)++] = arena_strndup(a, name, strlen(name));
	return i < most ? i : most - 1;
}

bool derive_table_add(struct derive_table *t, const char *kind, enum derive_op op, const char *line,
                      const char *found)
{
	const unsigned k = number(t->a, t->kind, &t->nkind, MOST_KINDS, kind);
	struct tally *x = &t->tally[k][op];

	x->all++;
	if (found) {
		x->found[number(t->a, t->check, &t->ncheck, MOST_CHECKS, found)]++;
		return false;
	}
	for (unsigned i = 0; i < NEQUIVALENT; i++)
		if (derive_has_word(equivalents[i].kinds, kind) &&
		    derive_has_word(equivalents[i].ops, derive_name[op]) &&
		    strstr(line, equivalents[i].text)) {
			x->equal++;
			t->equal[i][k]++;
			return true;
		}
	x->missed++;
	return false;
}

const char *derive_table_unused(const struct derive_table *t)
{
	for (unsigned i = 0; i < NEQUIVALENT; i++) {
		unsigned n = 0;

		for (unsigned k = 0; k < t->nkind; k++)
			n += t->equal[i][k];
		if (!n)
			return equivalents[i].text;
	}
	return NULL;
}

static void print_checks(const struct derive_table *t, const unsigned *found, struct strbuf *out)
{
	const char *comma = "";

	for (unsigned c = 0; c < t->ncheck; c++)
		if (found[c]) {
			strbuf_printf(out, "%s%s %u", comma, t->check[c], found[c]);
			comma = ", ";
		}
}

static void add(struct tally *sum, const struct tally *x)
{
	sum->all += x->all;
	sum->equal += x->equal;
	sum->missed += x->missed;
	for (unsigned c = 0; c < MOST_CHECKS; c++)
		sum->found[c] += x->found[c];
}

static void print_row(const struct derive_table *t, const char *kind, const char *op,
                      const struct tally *x, struct strbuf *out)
{
	strbuf_printf(out, "| %s | %s | %u | ", kind, op, x->all);
	print_checks(t, x->found, out);
	strbuf_printf(out, " | %u | %u |\n", x->equal, x->missed);
}

static void print_equivalents(const struct derive_table *t, struct strbuf *out)
{
	strbuf_puts(out, "\n## Equivalent mutants\n\n| n | of | operator | line | why nothing can "
	                 "find it |\n|---|---|---|---|---|\n");
	for (unsigned i = 0; i < NEQUIVALENT; i++) {
		unsigned n = 0;
		struct strbuf of;

		strbuf_init(&of, t->a);
		for (unsigned k = 0; k < t->nkind; k++)
			if (t->equal[i][k]) {
				strbuf_printf(&of, "%s%s", n ? ", " : "", t->kind[k]);
				n += t->equal[i][k];
			}
		if (n)
			strbuf_printf(out, "| %u | %s | %s | `%s` | %s |\n", n, of.s,
			              equivalents[i].ops, equivalents[i].text, equivalents[i].why);
	}
}

/* clang-format off */
static const char head[] =
	"# Mutants\n\n"
	"Written by `build/tests/mutants/mutants samples/llama3-70b.plait table doc/mutants.md --update` (ten minutes of one core); every\n"
	"test run tries a part. Each is the PTX of one kernel (llama3-70b's add_norm, rows of 1024 elements, three ranks) with one\n"
	"instruction changed (tests/mutants/derive_ops.c):\n\n"
	"- **drop**: a fence, barrier, wait or trigger, a strong or a scalar store, or a loop's way back is gone;\n"
	"- **order**: a release or acquire becomes relaxed, a relaxed access weak;\n"
	"- **scope**: `.sys` becomes `.gpu`, the CTA's barrier the warp's;\n"
	"- **plus**, **minus**: an integer is one more or less: epochs, slots, counts, buffers (a third of the exchange buffer one\n"
	"  step early), bytes, places of addresses.\n\n"
	"Copies that unrolling made of one instruction count as two, the first and the last. Of `-pdl` (early), `-strict` and `-hw` only\n"
	"instructions that order or publish are changed. A mutant is found by `plait verify`'s schedules (*weak memory: X* is what only\n"
	"weak memory shows), by what ranks leave when one of them lapses, comes late or brings other rows, or when two CTAs fail in the\n"
	"same step (*a lapsing rank*, tests/mutants/lapse.c), or, where none of these does, by `plait lint`. `mutants SPEC derived KERNEL\n"
	"NUMBER` shows one and what finds it.\n\n";
/* clang-format on */

void derive_table_print(const struct derive_table *t, struct strbuf *out)
{
	struct tally sum = {0}, of[DERIVE_NOPS] = {{0}};

	strbuf_puts(out, head);
	strbuf_puts(out, "| kernel | operator | mutants | found by | equivalent | not found |\n"
	                 "|---|---|---|---|---|---|\n");
	for (unsigned k = 0; k < t->nkind; k++)
		for (unsigned op = 0; op < DERIVE_NOPS; op++) {
			const struct tally *x = &t->tally[k][op];

			if (!x->all)
				continue;
			print_row(t, t->kind[k], derive_name[op], x, out);
			add(&of[op], x);
			add(&sum, x);
		}
	for (unsigned op = 0; op < DERIVE_NOPS; op++)
		print_row(t, "**all**", derive_name[op], &of[op], out);
	print_row(t, "**all**", "**all**", &sum, out);
	strbuf_printf(out, "\nFound or equivalent: %u of %u; equivalent: %.1f %%.\n",
	              sum.all - sum.missed, sum.all, sum.all ? 100.0 * sum.equal / sum.all : 0.0);
	print_equivalents(t, out);
}
