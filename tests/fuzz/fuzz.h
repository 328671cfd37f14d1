/* A fuzz target: any bytes at all.  It aborts when something holds that must not. */
#pragma once
#include "support/arena.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The name that fuzzing engines look for. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(what)                                                                         \
	do {                                                                               \
		if (!(what)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
			abort();                                                           \
		}                                                                          \
	} while (0)

/* Most targets: check(arena, data, size), in 256 MB. */
#define FUZZ_IN_ARENA(check)                                         \
	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) \
	{                                                            \
		struct arena a;                                      \
                                                                     \
		arena_init(&a, (size_t)256 << 20);                   \
		if (!setjmp(a.oom))                                  \
			check(&a, (const char *)data, size);         \
		arena_free(&a);                                      \
		return 0;                                            \
	}
