/*
 * Showing diagnostics: the place, the line, the whole span underlined.  What a terminal cannot show
 * in one column (control characters, bytes that are no UTF-8, marks that reorder text) is shown as
 * '?'; of a very long line only a window around the span.
 */
#include "support/diag.h"
#include "support/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TAB = 8,
	WHOLE_LINE = 120, /* lines of up to this many bytes are shown whole */
	WINDOW = 100,     /* columns of a longer line */
	LEAD = 40,        /* bytes shown before a span that lies deep in a long line */
};

/* Text of a message or a name, made safe to show. */
static void put_text(struct strbuf *out, const char *s)
{
	size_t len = strlen(s);
	struct text_glyph g;

	for (size_t i = 0; i < len; i += g.n) {
		g = text_glyph_at(s + i, len - i);
		if (g.plain || s[i] == '\n' || s[i] == '\t')
			strbuf_putn(out, s + i, g.n);
		else
			strbuf_putc(out, '?');
	}
}

static void put_repeated(struct strbuf *out, char c, uint32_t n)
{
	while (n--)
		strbuf_putc(out, c);
}

/* The source line and the line under it.  The span is bytes [begin, end) of the line, end may lie
 * beyond it. */
static void put_line(struct strbuf *out, const struct diag_place *at, uint32_t begin, uint32_t end)
{
	uint32_t len = at->line_len, from = 0, columns = UINT32_MAX, col = 0, i;
	char gutter[16];
	int width = snprintf(gutter, sizeof gutter, "%5u", at->line);
	const char *s = at->line_text;
	struct strbuf under;

	strbuf_init(&under, out->arena);
	if (len && s[len - 1] == '\r')
		len--;
	if (end > len)
		end = len;
	if (len > WHOLE_LINE) {
		columns = WINDOW;
		from = begin > WINDOW - LEAD / 2 ? begin - LEAD : 0;
		while (from > 0 && from < begin && ((unsigned char)s[from] & 0xc0) == 0x80)
			from++;
	}
	strbuf_printf(out, "%s | %s", gutter, from ? "..." : "");
	put_repeated(&under, ' ', from ? 3 : 0);
	for (i = from; i < len && col < columns;) {
		struct text_glyph g = text_glyph_at(s + i, len - i);
		uint32_t w = s[i] == '\t' && columns != WINDOW ? TAB - col % TAB : 1;

		if (s[i] == '\t')
			put_repeated(out, ' ', w);
		else if (g.plain)
			strbuf_putn(out, s + i, g.n);
		else
			strbuf_putc(out, '?');
		if (i < end || i <= begin)
			put_repeated(&under, i + g.n > begin ? '^' : ' ', w);
		col += w;
		i += g.n;
	}
	if (begin >= i)
		strbuf_putc(&under, '^');
	strbuf_printf(out, "%s\n%*s | %s\n", i < len ? "..." : "", width, "", under.s);
}

static const char *const words[] = {
        [DIAG_ERROR] = "error",
        [DIAG_WARNING] = "warning",
        [DIAG_REMARK] = "remark",
        [DIAG_NOTE] = "note",
};

static void put_diag(struct strbuf *out, const struct diags *d, const struct diag *p)
{
	struct diag_place at = diag_place(d, p->at);

	if (p->severity == DIAG_NOTE && !at.src) {
		strbuf_puts(out, "      = note: ");
		put_text(out, p->text);
		strbuf_putc(out, '\n');
		return;
	}
	if (at.src) {
		put_text(out, at.src->name);
		strbuf_printf(out, ":%u:%u: ", at.line, at.col);
	}
	strbuf_printf(out, "%s: ", words[p->severity]);
	put_text(out, p->text);
	if (p->severity != DIAG_NOTE)
		strbuf_printf(out, " [%c%03d]", "EWR"[p->severity], (int)p -> code);
	strbuf_putc(out, '\n');
	if (at.src) {
		uint32_t n = p->at.end > p->at.begin ? p->at.end - p->at.begin : 0;

		put_line(out, &at, at.col - 1,
		         n > UINT32_MAX - at.col ? UINT32_MAX : at.col - 1 + n);
	}
}

/* A diagnostic and the notes behind it, and its turn among those of one place. */
struct group {
	const struct diag *first;
	size_t turn;
};

static int by_place(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->first->at.begin != y->first->at.begin)
		return x->first->at.begin < y->first->at.begin ? -1 : 1;
	return x->turn < y->turn ? -1 : x->turn > y->turn;
}

void diags_render(const struct diags *d, enum diag_severity least, struct strbuf *out)
{
	size_t n = 0, kept = 0;
	struct group *groups;

	for (const struct diag *p = d->head; p; p = p->next)
		n += p == d->head || p->severity != DIAG_NOTE;
	groups = arena_news(out->arena, struct group, n);
	n = 0;
	for (const struct diag *p = d->head; p; p = p->next) {
		if (p == d->head || p->severity != DIAG_NOTE) {
			groups[n].first = p;
			groups[n].turn = n;
			n++;
		}
		kept += p->severity == DIAG_ERROR;
	}
	if (n)
		qsort(groups, n, sizeof *groups, by_place);
	for (size_t i = 0; i < n; i++) {
		const struct diag *p = groups[i].first;

		if (p->severity > least && p->severity != DIAG_NOTE)
			continue;
		do {
			put_diag(out, d, p);
			p = p->next;
		} while (p && p->severity == DIAG_NOTE);
	}
	if (d->nerror > kept)
		strbuf_printf(out, "and %zu more error%s\n", (size_t)d->nerror - kept,
		              d->nerror - kept == 1 ? "" : "s");
}
