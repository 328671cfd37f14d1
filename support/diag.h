/*
 * Diagnostics: what is wrong, where, and how to mend it.
 *
 * All sources of a compilation (the prelude, the user's file) share one space of byte offsets, so a
 * span is two numbers and says which file it is in.  Diagnostics are collected; nothing here
 * prints.
 */
#pragma once
#include "support/arena.h"
#include "support/strbuf.h"
#include <stdbool.h>
#include <stdint.h>

/* Bytes [begin, end) of the space of sources; {0, 0} is "nowhere" (offset 0 belongs to no source).
 */
struct span {
	uint32_t begin, end;
};

static inline bool span_none(struct span s)
{
	return s.begin == 0 && s.end == 0;
}

struct source {
	const char *name; /* as the user knows it */
	const char *text;
	uint32_t len, base; /* text[i] is at offset base + i */
	struct source *next;
};

enum diag_severity { DIAG_ERROR, DIAG_WARNING, DIAG_REMARK, DIAG_NOTE };

/* Stable codes, never reused: the table is support/codes.def. */
enum diag_code {
#define DIAG_CODE(ID, number, title) ID = number,
#include "support/codes.def"
#undef DIAG_CODE
};

struct diag {
	enum diag_severity severity;
	enum diag_code code;
	struct span at;
	const char *text;
	struct diag *next; /* notes follow what they explain */
};

struct diags {
	struct arena *arena;
	struct source *sources;
	uint32_t next_base;
	struct diag *head, **tail;
	unsigned nerror, nwarning, nremark;
	unsigned max_errors; /* further errors are counted but not kept; 0: 100 */
	bool dropping;       /* the last diagnostic was not kept, so its notes are not either */
};

struct diag_place {
	const struct source *src; /* NULL: nowhere */
	unsigned line, col;       /* from 1; col counts bytes */
	const char *line_text;
	uint32_t line_len;
};

void diags_init(struct diags *d, struct arena *a);

/* Adds a source; the text is not copied and must outlive `d`.  NULL when the space of 4 GiB is
 * full. */
struct source *diags_add_source(struct diags *d, const char *name, const char *text, size_t len);

/* Records a diagnostic; `fmt` is one sentence without a final stop, names in single quotes. */
void diag_at(struct diags *d, enum diag_severity sev, enum diag_code code, struct span at,
             const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* A note to the diagnostic before it: the fix, or the other place.  `at` may be nowhere. */
void diag_note(struct diags *d, struct span at, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

struct diag_place diag_place(const struct diags *d, struct span at);

/*
 * Appends all diagnostics of at least this importance (DIAG_REMARK shows all), in order of
 * position:
 *
 *	file:3:9: error: 'y' is written twice [E214]
 *	    3 |     out y = h;
 *	      |         ^
 *	      = note: ...
 *
 * The whole span is underlined; a span over several lines is underlined to the end of its first
 * line.
 */
void diags_render(const struct diags *d, enum diag_severity least, struct strbuf *out);

/* The name nearest to s among n names, or NULL when none is near enough to suggest. */
const char *nearest_name(const char *s, const char *const *names, size_t n);
