/* Functions of a library that is opened at run time, into a table of pointers: the driver's, NCCL's,
 * cuBLASLt's, nvJitLink's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct rt_symbol {
	const char *name;
	size_t offset; /* of its pointer, in the table */
	bool need;
};

/* Fills the table with what `lib` has, else NULL.  The first name that is needed and not there; NULL:
 * all are. */
const char *rt_symbols_load(void *lib, const struct rt_symbol *row, size_t n, void *table);
