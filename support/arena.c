/*
 * The arena: zeroed chunks from calloc, carved front to back.  Under AddressSanitizer a gap of
 * poisoned bytes follows every block, so that a write past a block is found although its neighbour
 * is the arena's too.
 */
#include "support/arena.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#endif

#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   __asan_poison_memory_region((p), (n))
#define UNPOISON(p, n) __asan_unpoison_memory_region((p), (n))
enum { GAP = 16 };
#else
#define POISON(p, n)   ((void)0)
#define UNPOISON(p, n) ((void)0)
enum { GAP = 0 };
#endif

enum { ALIGN = 16, FIRST_CHUNK = 64 << 10, LARGEST_CHUNK = 1 << 20 };

struct arena_chunk {
	struct arena_chunk *next;
	size_t used, cap;
	_Alignas(ALIGN) unsigned char mem[];
};

_Noreturn static void fail(struct arena *a)
{
	longjmp(a->oom, 1);
}

void arena_init(struct arena *a, size_t limit)
{
	memset(a, 0, sizeof *a);
	a->limit = limit;
}

void arena_free(struct arena *a)
{
	for (struct arena_chunk *c = a->head, *next; c; c = next) {
		next = c->next;
		UNPOISON(c->mem, c->cap);
		free(c);
	}
	a->head = NULL;
	a->used = 0;
	a->count = 0;
	a->fail_at = 0;
}

/* A chunk with room for n bytes; chunks double, so a large compilation asks the system only a few
 * times. */
static struct arena_chunk *new_chunk(struct arena *a, size_t n)
{
	size_t cap = a->head ? a->head->cap * 2 : FIRST_CHUNK;
	struct arena_chunk *c;

	if (cap > LARGEST_CHUNK)
		cap = LARGEST_CHUNK;
	if (cap < n)
		cap = n;
	if (cap > SIZE_MAX - sizeof *c)
		fail(a);
	c = calloc(1, sizeof *c + cap);
	if (!c)
		fail(a);
	c->cap = cap;
	c->next = a->head;
	a->head = c;
	POISON(c->mem, cap);
	return c;
}

void *arena_alloc(struct arena *a, size_t n)
{
	struct arena_chunk *c = a->head;
	size_t room;
	void *p;

	a->count++;
	if (a->count == a->fail_at || n > SIZE_MAX / 2)
		fail(a);
	if (a->limit && (n > a->limit || a->used > a->limit - n))
		fail(a);
	room = (n + (n == 0) + GAP + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if (!c || c->cap - c->used < room)
		c = new_chunk(a, room);
	p = c->mem + c->used;
	c->used += room;
	a->used += n;
	UNPOISON(p, n + (n == 0));
	return p;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
	if (size && count > SIZE_MAX / size)
		fail(a);
	return arena_alloc(a, count * size);
}

void *arena_grow(struct arena *a, void *old, size_t have, size_t *cap, size_t need, size_t size)
{
	size_t more = *cap < 8 ? 8 : *cap;
	void *p;

	if (need <= *cap)
		return old;
	while (more < need)
		more = more > SIZE_MAX / 2 ? need : more * 2;
	p = arena_array(a, more, size);
	if (have)
		memcpy(p, old, have * size);
	*cap = more;
	return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	char *p;

	if (n == SIZE_MAX)
		fail(a);
	p = arena_alloc(a, n + 1);
	if (n)
		memcpy(p, s, n);
	return p;
}

char *arena_vprintf(struct arena *a, const char *fmt, va_list ap)
{
	va_list again;
	char *p;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0)
		fail(a);
	p = arena_alloc(a, (size_t)n + 1);
	vsnprintf(p, (size_t)n + 1, fmt, ap);
	return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	char *p;

	va_start(ap, fmt);
	p = arena_vprintf(a, fmt, ap);
	va_end(ap);
	return p;
}
