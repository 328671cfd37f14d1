/* Collecting diagnostics, finding places in the sources, suggesting names.  render.c shows them. */
#include "support/diag.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { DEFAULT_MAX_ERRORS = 100 };

void diags_init(struct diags *d, struct arena *a)
{
	*d = (struct diags){.arena = a, .next_base = 1};
	d->tail = &d->head;
}

/* A source takes one offset more than it has bytes, so that the place behind its last byte is its
 * own. */
struct source *diags_add_source(struct diags *d, const char *name, const char *text, size_t len)
{
	struct source *s;

	if (len >= UINT32_MAX - d->next_base)
		return NULL;
	s = arena_new(d->arena, struct source);
	*s = (struct source){
	        .name = name, .text = text, .len = (uint32_t)len, .base = d->next_base};
	s->next = d->sources;
	d->sources = s;
	d->next_base += (uint32_t)len + 1;
	return s;
}

static void append(struct diags *d, struct diag diag)
{
	struct diag *p = arena_new(d->arena, struct diag);

	*p = diag;
	*d->tail = p;
	d->tail = &p->next;
}

void diag_at(struct diags *d, enum diag_severity sev, enum diag_code code, struct span at,
             const char *fmt, ...)
{
	unsigned max = d->max_errors ? d->max_errors : DEFAULT_MAX_ERRORS;
	struct diag diag = {.severity = sev, .code = code, .at = at};
	va_list ap;

	if (sev == DIAG_ERROR)
		d->nerror++;
	else if (sev == DIAG_WARNING)
		d->nwarning++;
	else if (sev == DIAG_REMARK)
		d->nremark++;
	if (sev != DIAG_NOTE)
		d->dropping = sev == DIAG_ERROR && d->nerror > max;
	if (d->dropping)
		return;
	va_start(ap, fmt);
	diag.text = arena_vprintf(d->arena, fmt, ap);
	va_end(ap);
	append(d, diag);
}

void diag_note(struct diags *d, struct span at, const char *fmt, ...)
{
	struct diag diag = {.severity = DIAG_NOTE, .code = DIAG_NOTE_CODE, .at = at};
	va_list ap;

	if (d->dropping)
		return;
	va_start(ap, fmt);
	diag.text = arena_vprintf(d->arena, fmt, ap);
	va_end(ap);
	append(d, diag);
}

static const struct source *source_of(const struct diags *d, uint32_t offset)
{
	for (const struct source *s = d->sources; s; s = s->next)
		if (offset >= s->base && offset - s->base <= s->len)
			return s;
	return NULL;
}

struct diag_place diag_place(const struct diags *d, struct span at)
{
	const struct source *s = span_none(at) ? NULL : source_of(d, at.begin);
	const char *p, *bol, *eol, *nl, *end;
	struct diag_place r = {.src = s, .line = 1};

	if (!s)
		return (struct diag_place){0};
	bol = s->text;
	p = s->text + (at.begin - s->base);
	while (bol < p && (nl = memchr(bol, '\n', (size_t)(p - bol)))) {
		bol = nl + 1;
		r.line++;
	}
	end = s->text + s->len;
	eol = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
	r.col = (unsigned)(p - bol) + 1;
	r.line_text = bol;
	r.line_len = (uint32_t)((eol ? eol : end) - bol);
	return r;
}

enum { LONGEST_NAME = 64 };

/* Insertions, deletions, substitutions and swaps of neighbours that turn a into b, letter case
 * ignored. */
static unsigned distance(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned row[3][LONGEST_NAME + 1];
	unsigned *before = row[0], *last = row[1], *now = row[2];

	for (size_t j = 0; j <= nb; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned *reuse = before;

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			bool same = strncasecmp(a + i - 1, b + j - 1, 1) == 0;
			unsigned best = last[j - 1] + !same;

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			now[j] = best;
		}
		before = last;
		last = now;
		now = reuse;
	}
	return last[nb];
}

const char *nearest_name(const char *s, const char *const *names, size_t n)
{
	size_t len = strlen(s);
	unsigned best = UINT32_MAX;
	const char *nearest = NULL;

	if (len > LONGEST_NAME)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t other = strlen(names[i]);
		unsigned far;

		if (other > LONGEST_NAME)
			continue;
		far = distance(s, len, names[i], other);
		if (far <= (len > other ? len : other) / 3 && far < best) {
			best = far;
			nearest = names[i];
		}
	}
	return nearest;
}
