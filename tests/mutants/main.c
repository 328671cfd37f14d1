/*
 * Tests with PTX broken on purpose, in one place each: verify must see it.
 *
 *	mutants SPEC named [NAME]             written by hand, and the report names the place
 *	mutants SPEC chain                    of a chain of kernels
 *	mutants SPEC derived [KIND [NUMBER]]  derived from the PTX of every protocol: all of a kind, or one
 *	mutants SPEC every N                  each N-th of them
 *	mutants SPEC table FILE [--update]    all of them, and FILE has the table of them
 */
#include "tests/mutants/mutants.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tap_say(struct tap *t, const char *name, const char *wrong, const char *more)
{
	t->failed += wrong != NULL;
	printf("%sok %u - %s\n", wrong ? "not " : "", ++t->test, name);
	if (wrong)
		printf("# %s\n", wrong);
	while (*more) {
		const size_t n = strcspn(more, "\n");

		printf("# %.*s\n", (int)n, more);
		more += n + (more[n] == '\n');
	}
	fflush(stdout);
}

struct ptx_module *mutant_parse(struct arena *a, struct diags *d, const char *text)
{
	struct source *s = diags_add_source(d, "mutant", text, strlen(text));

	return s ? ptx_parse(a, d, s) : NULL;
}

void mutant_drop(struct ptx_fn *f, uint32_t at)
{
	memmove(&f->insn[at], &f->insn[at + 1], (f->ninsn - at - 1) * sizeof *f->insn);
	f->ninsn--;
	for (uint32_t k = 0; k < f->nlabel; k++)
		if (f->label[k].at != UINT32_MAX && f->label[k].at > at)
			f->label[k].at--;
}

static bool derived(int n, char **word, struct derive_choice *c)
{
	if (!strcmp(word[0], "derived") && n <= 3) {
		c->kind = n > 1 ? word[1] : NULL;
		c->number = n > 2 ? (unsigned)strtoul(word[2], NULL, 10) : 0;
		return true;
	}
	if (!strcmp(word[0], "every") && n == 2) {
		c->every = (unsigned)strtoul(word[1], NULL, 10);
		return c->every > 0;
	}
	if (!strcmp(word[0], "table") && (n == 2 || (n == 3 && !strcmp(word[2], "--update")))) {
		c->table = word[1];
		c->update = n == 3;
		return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	struct derive_choice choice = {.every = 1};
	struct tap tap = {0, 0};

	if (argc > 2 && argc < 5 && !strcmp(argv[2], "named"))
		run_named(argv[1], argc > 3 ? argv[3] : NULL, &tap);
	else if (argc == 3 && !strcmp(argv[2], "chain"))
		run_chain(argv[1], &tap);
	else if (argc > 2 && derived(argc - 2, argv + 2, &choice))
		run_derived(argv[1], &choice, &tap);
	else
		return fputs("usage: mutants SPEC named|chain|derived|every|table ...\n", stderr),
		       2;
	printf("1..%u\n", tap.test);
	return tap.failed != 0;
}
