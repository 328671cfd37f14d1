/* What every unit test includes: cmocka, in the order in which it needs its own headers. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/*
 * cmocka 1.1.5 writes a skipped test as "not ok", which a TAP reader must take for a failure.  So a
 * test that cannot run here says so in a comment and returns; scripts/count-tests counts it as
 * skipped.
 */
#undef skip
#define skip_because(why)                            \
	do {                                         \
		print_message("# SKIP %s\n", (why)); \
		return;                              \
	} while (0)
#define skip() skip_because("not here")

/* Without something of the vendor's a test is skipped; in CI, where it must be there, it fails. */
#define SKIP_UNLESS(there, what)                                                    \
	do {                                                                        \
		const char *ci_ = getenv("CI");                                     \
                                                                                    \
		if (!(there)) {                                                     \
			if (ci_ && strcmp(ci_, "true") == 0)                        \
				fail_msg("no %s, and in CI there must be", (what)); \
			skip_because("no " what);                                   \
		}                                                                   \
	} while (0)
