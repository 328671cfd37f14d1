/* A fuzz target: any bytes at all.  It aborts when something holds that must not. */
#pragma once
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
