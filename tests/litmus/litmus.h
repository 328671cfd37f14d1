/* A litmus test's text to PTX, and its runs (litmus.c has the language). */
#pragma once
#include "sim/sim.h"

struct lit_count {
	unsigned runs, seen, races;
	uint64_t states; /* of the search */
	bool complete;
	const char *error; /* the test could not be run; NULL: it was */
};

/* PTX of the threads, a kernel `t`; NULL: *error says what is wrong. */
struct lit_text {
	char ptx[1 << 15];
	unsigned ranks, ctas, warps, threads;
};
const char *lit_compile(const char *threads, struct lit_text *t);

enum { LIT_LOCS = 4, LIT_REGS = 6, LIT_RANKS = 4, LIT_LOC_BYTES = 64 };

struct lit_until {
	unsigned runs,
	        most; /* as many seeds; up to `most` when what is waited for is not seen by then */
	bool race, outcome; /* what that is; the first race ends the test */
};
struct lit_count lit_run(const char *threads, const char *outcome, struct lit_until until,
                         bool show);

/* All runs that there are, up to `most`; the first race ends it. */
struct lit_count lit_search(const char *threads, const char *outcome, unsigned most);
