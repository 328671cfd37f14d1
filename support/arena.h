/*
 * Memory that is given back all at once.
 *
 * A compilation allocates from one arena and frees it in one call, so no exit leaks.  An allocation
 * that fails jumps to the arena's `oom`, which the owner of the arena has set; nobody else checks
 * for NULL (doc/decisions/0001-memory.md).
 *
 *	struct arena a;
 *	arena_init(&a, 0);
 *	if (setjmp(a.oom)) {
 *		arena_free(&a);
 *		return ST_NOMEM;
 *	}
 */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct arena_chunk;

struct arena {
	struct arena_chunk *head;
	size_t used;      /* bytes given out so far */
	size_t limit;     /* fail beyond this many bytes; 0: no limit */
	uint64_t count;   /* allocations so far */
	uint64_t fail_at; /* tests: the allocation with this number (from 1) fails; 0: none does */
	jmp_buf oom;      /* where a failed allocation goes */
};

/* An empty arena that gives out at most `limit` bytes (0: as many as there are).  Set a->oom before
 * the first use. */
void arena_init(struct arena *a, size_t limit);

/* Gives everything back.  The arena is then as after arena_init. */
void arena_free(struct arena *a);

/* n bytes, zeroed, 16-byte aligned.  Never NULL: failure goes to a->oom. */
void *arena_alloc(struct arena *a, size_t n);

/* count * size bytes, zeroed; an overflow of the product is a failed allocation. */
void *arena_array(struct arena *a, size_t count, size_t size);

/*
 * A growing array: returns room for at least `need` elements of `size` bytes, holding the `have`
 * elements of `old`. *cap (elements) is updated; the old block stays readable until arena_free.
 */
void *arena_grow(struct arena *a, void *old, size_t have, size_t *cap, size_t need, size_t size);

char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(struct arena *a, const char *fmt, va_list ap)
        __attribute__((format(printf, 2, 0)));

#define arena_new(a, type)     ((type *)arena_alloc((a), sizeof(type)))
#define arena_news(a, type, n) ((type *)arena_array((a), (n), sizeof(type)))
