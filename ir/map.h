/* Internal to ir/: pointers to pointers.  Sized once for at most n keys; NULL is not a key. */
#pragma once
#include "support/arena.h"

struct ir_pair {
	const void *from;
	void *to;
};

struct ir_map {
	struct ir_pair *pair;
	size_t mask;
};

void ir_map_init(struct ir_map *m, struct arena *a, size_t n);
void *ir_map_get(const struct ir_map *m, const void *from);    /* NULL: not there */
void ir_map_put(struct ir_map *m, const void *from, void *to); /* replaces */
