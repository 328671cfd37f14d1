/*
 * Litmus tests of the memory model: the tables of *.def as PTX, run many times with weak memory and
 * under the search, and what is seen against what is expected.
 *
 * A thread is "RANK.CTA.WARP[.LANE]: instructions", joined by '|'.  Locations x y z w are words on
 * every rank, all 0; x means that of rank 0, x@1 rank 1's, and x+2:2 two bytes of it from the second
 * on.  Registers are r0 to r5.
 *
 *	W.sem.scope LOC VALUE      a store; sem weak (no scope), rlx, rel, vol; VALUE a number or register
 *	R.sem.scope REG LOC        a load; sem weak, rlx, acq, vol
 *	A.sem.scope REG LOC VALUE  atom.exch;  I..: atom.add;  C.sem.scope REG LOC OLD NEW: atom.cas
 *	D.sem.scope LOC VALUE      red.add
 *	MW MR MD                   the same by the multicast address: store, ld_reduce (max), red.add
 *	F.sem.scope                a fence: sem ar, sc
 *	PA                         fence.proxy.alias
 *	B, BW                      bar.sync of the CTA's threads; bar.warp.sync
 *	Q REG VALUE                the thread goes on only if they are equal
 *
 * Each test runs with many seeds, and with all choices there are (sim_explore_new).
 * The outcome is a list of REG (as 1:r0) or LOC = VALUE.  Verdict: allowed outcomes must be seen,
 * forbidden ones never.  Races: what level formal must find in some run, or in none.
 */
#include "tests/litmus/litmus.h"
#include <malloc.h>
#include <stdio.h>
#include <string.h>

struct litmus {
	const char *name, *threads, *outcome;
	enum { ALLOWED, FORBIDDEN, UNSAID } verdict;
	enum { CLEAN, RACE } race;
};

/* clang-format off */
static const struct litmus table[] = {
#define LITMUS(name, threads, outcome, verdict, race) {name, threads, outcome, verdict, race},
#include "tests/litmus/basic.def"
#include "tests/litmus/scopes.def"
#include "tests/litmus/atomics.def"
#include "tests/litmus/proxies.def"
#undef LITMUS
};
/* clang-format on */

static unsigned ntest, nfailed;

static void report(const char *name, const char *how, const char *wrong, struct lit_count n)
{
	nfailed += wrong != NULL;
	printf("%sok %u - %s, %s (%u of %u runs, %llu states; %u races)\n", wrong ? "not " : "",
	       ++ntest, name, how, n.seen, n.runs, (unsigned long long)n.states, n.races);
	if (wrong)
		printf("# %s\n", wrong);
}

static const char *judge(const struct litmus *t, struct lit_count n)
{
	if (n.error)
		return n.error;
	if (t->race == CLEAN && n.races)
		return "a race was reported, and there is none";
	if (t->race == RACE && !n.races)
		return "the race was not reported";
	if (t->verdict == ALLOWED && !n.seen)
		return "the outcome is allowed, and was not seen";
	if (t->verdict == FORBIDDEN && n.seen)
		return "the outcome is forbidden, and was seen";
	return NULL;
}

/* When enough has been seen. */
static struct lit_until until(const struct litmus *t)
{
	return (struct lit_until){.runs = 240,
	                          .most = t->race == RACE || t->verdict == ALLOWED ? 12000 : 240,
	                          .race = t->race == RACE,
	                          .outcome = t->verdict == ALLOWED};
}

int main(int argc, char **argv)
{
	/* each run has an arena of its own: what one gave back the next one takes */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		const struct litmus *t = &table[i];
		struct lit_count n;

		if (argc > 1 && strcmp(argv[1], t->name))
			continue;
		n = lit_run(t->threads, t->outcome, until(t), argc > 1);
		report(t->name, "by seeds", judge(t, n), n);
		n = lit_search(t->threads, t->outcome, 100000);
		report(t->name, "all",
		       n.complete || n.races ? judge(t, n) : "not all runs were made", n);
	}
	printf("1..%u\n", ntest);
	return nfailed != 0;
}
