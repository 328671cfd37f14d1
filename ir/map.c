/* Pointers to pointers: an open hash table at least twice as large as its contents. */
#include "ir/map.h"
#include <stdint.h>

void ir_map_init(struct ir_map *m, struct arena *a, size_t n)
{
	size_t size = 16;

	while (size < 2 * n)
		size *= 2;
	m->pair = arena_news(a, struct ir_pair, size);
	m->mask = size - 1;
}

static struct ir_pair *pair_of(const struct ir_map *m, const void *from)
{
	size_t i = (size_t)(((uintptr_t)from >> 4) * 0x9e3779b97f4a7c15u >> 20);

	while (m->pair[i & m->mask].from && m->pair[i & m->mask].from != from)
		i++;
	return &m->pair[i & m->mask];
}

void *ir_map_get(const struct ir_map *m, const void *from)
{
	return from ? pair_of(m, from)->to : NULL;
}

void ir_map_put(struct ir_map *m, const void *from, void *to)
{
	*pair_of(m, from) = (struct ir_pair){from, to};
}
