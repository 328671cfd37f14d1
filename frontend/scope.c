/*
 * Names and what they stand for: a hash table a scope, so that a file of any size is read in linear
 * time.
 */
#include "frontend/sema.h"
#include "support/hash.h"
#include <string.h>

void fe_scope_init(struct fe_scope *s, struct arena *a, struct fe_scope *parent)
{
	*s = (struct fe_scope){.arena = a, .parent = parent};
	s->tail = &s->first;
}

static size_t place_of(const struct fe_scope *s, const char *name)
{
	size_t i = (size_t)hash_bytes(HASH_INIT, name, strlen(name)) & (s->nslot - 1);

	while (s->slot[i] && strcmp(s->slot[i]->name, name))
		i = (i + 1) & (s->nslot - 1);
	return i;
}

static void rehash(struct fe_scope *s)
{
	s->nslot = s->nslot ? 2 * s->nslot : 16;
	s->slot = arena_news(s->arena, struct fe_symbol *, s->nslot);
	for (struct fe_symbol *y = s->first; y; y = y->next)
		s->slot[place_of(s, y->name)] = y;
}

struct fe_symbol *fe_scope_own(const struct fe_scope *s, const char *name)
{
	return s->nslot ? s->slot[place_of(s, name)] : NULL;
}

struct fe_symbol *fe_scope_find(const struct fe_scope *s, const char *name)
{
	for (; s; s = s->parent) {
		struct fe_symbol *y = fe_scope_own(s, name);

		if (y)
			return y;
	}
	return NULL;
}

struct fe_symbol *fe_scope_add(struct fe_scope *s, enum fe_symbol_kind kind, const char *name,
                               struct span at, struct ast *decl)
{
	struct fe_symbol *y = arena_new(s->arena, struct fe_symbol);

	y->name = name;
	y->kind = kind;
	y->at = at;
	y->decl = decl;
	if (2 * s->n >= s->nslot)
		rehash(s);
	s->slot[place_of(s, name)] = y;
	*s->tail = y;
	s->tail = &y->next;
	s->n++;
	return y;
}
