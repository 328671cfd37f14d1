/* Status codes.  Every call that can fail returns one; details are in the diagnostics. */
#pragma once

enum status {
	ST_OK = 0,       /* done */
	ST_INPUT = 1,    /* the input, or a check of it, is wrong: see the diagnostics */
	ST_USAGE = 2,    /* the caller's arguments make no sense */
	ST_ENV = 3,      /* the environment lacks something: a library, a GPU, a file system */
	ST_INTERNAL = 4, /* a bug of plait's */
	ST_NOMEM = 5,    /* out of memory; the program maps it to exit code 3 */
	ST_TIMEOUT = 6,  /* ranks did not come, or a collective was given up */
	ST_MISMATCH = 7, /* ranks differ in what they must agree on */
};

/* One English phrase for `s`, never NULL. */
const char *status_text(enum status s);
