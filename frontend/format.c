/*
 * The layout of specs (plait fmt): tokens and comments stay, in order; blanks and newlines between
 * them are made anew, so the meaning cannot change.  Two things are taken from the text as it was:
 * where blank lines group statements, and whether a short block stands on one line.
 */
#include "frontend/format.h"
#include "frontend/frontend.h"
#include <string.h>

enum { WIDTH = 120, INDENT = 4, AFTER_EQUALS = 1000 };

static void put_spaces(struct fmt *f, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		strbuf_putc(f->out, ' ');
	f->column += n;
}

static void put_newline(struct fmt *f, unsigned indent)
{
	strbuf_putc(f->out, '\n');
	f->column = 0;
	put_spaces(f, indent);
}

static void put_item(struct fmt *f, const struct fmt_item *t)
{
	const char *last = NULL;

	for (uint32_t i = 0; i < t->n; i++) {
		if (t->s[i] != '\r')
			strbuf_putc(f->out, t->s[i]);
		if (t->s[i] == '\n')
			last = t->s + i + 1;
	}
	f->column = last ? (unsigned)(t->s + t->n - last) : f->column + t->n;
}

/* ---- lines of one statement ---- */

/* Blanks between neighbours on a line. */
static unsigned gap(const struct fmt *f, size_t i)
{
	const struct fmt_item *t = &f->item[i];

	if (t->kind == FMT_COMMENT && t->newlines == 0)
		return t[-1].kind == FMT_COMMENT || t->block ? 1 : 2;
	return t->glued ? 0 : 1;
}

/* Columns of items [b, e) on one line. */
static size_t flat_width(const struct fmt *f, size_t b, size_t e)
{
	size_t n = 0;

	for (size_t i = b; i < e; i++)
		n += f->item[i].n + (i > b ? gap(f, i) : 0);
	return n;
}

/* No comment of [b, e) needs the line's end. */
static bool can_be_flat(const struct fmt *f, size_t b, size_t e)
{
	for (size_t i = b; i < e; i++)
		if (f->item[i].kind == FMT_COMMENT &&
		    (!f->item[i].block || f->item[i].newlines || f->item[i].lines))
			return false;
	return true;
}

/* A newline must stand between items i - 1 and i. */
static bool must_break(const struct fmt *f, size_t i)
{
	const struct fmt_item *t = &f->item[i];

	return (t->kind == FMT_COMMENT && t->newlines) ||
	       (t[-1].kind == FMT_COMMENT && (!t[-1].block || t[-1].newlines));
}

/* What stands between items i - 1 and i when they are not laid out together. */
static void put_gap(struct fmt *f, size_t i, unsigned indent)
{
	if (must_break(f, i))
		put_newline(f, indent);
	else
		put_spaces(f, gap(f, i));
}

/* A line may end before item i, and the fewer brackets are open there, the better it reads. */
static bool may_break(const struct fmt *f, size_t i)
{
	const struct fmt_item *t = &f->item[i];

	return t->kind != FMT_COMMENT && (t->breaks_before || t[-1].breaks_behind);
}

/* Where the line that begins with item i ends: the item after its last. */
static size_t line_end(const struct fmt *f, size_t i, size_t e, unsigned column)
{
	size_t width = column + f->item[i].n, best = 0;
	unsigned best_rank = UINT32_MAX;

	for (size_t k = i + 1; k < e; k++) {
		if (must_break(f, k))
			return k;
		if (may_break(f, k)) {
			/* after = last of all: a value begins beside its name */
			unsigned rank = f->item[k].depth;

			if (fmt_is(&f->item[k - 1], "="))
				rank += AFTER_EQUALS;
			if (rank <= best_rank) {
				best = k;
				best_rank = rank;
			}
		}
		if (f->item[k].kind != FMT_COMMENT)
			width += gap(f, k) + f->item[k].n;
		if (width > WIDTH && best)
			return best;
	}
	return e;
}

/* Items [b, e), in as many lines as they need; the cursor is at `indent`. */
static void put_lines(struct fmt *f, size_t b, size_t e, unsigned indent)
{
	for (size_t i = b; i < e;) {
		size_t end = line_end(f, i, e, f->column);

		put_item(f, &f->item[i++]);
		for (; i < end; i++) {
			put_spaces(f, gap(f, i));
			put_item(f, &f->item[i]);
		}
		if (i < e)
			put_newline(
			        f,
			        indent + (f->item[i].close && f->item[i].depth == 0 ? 0 : INDENT));
	}
}

/* ---- heads ---- */

/* The first item at or after i, of [i, e), that is `text` outside brackets; e: none. */
static size_t find_outside(const struct fmt *f, size_t i, size_t e, const char *text)
{
	while (i < e && (f->item[i].depth || !fmt_is(&f->item[i], text)))
		i++;
	return i;
}

/* Parameters one to a line, between the brackets at b (open) and e - 1 (close). */
static void put_parameters(struct fmt *f, size_t b, size_t e, unsigned indent)
{
	size_t i = b + 1;

	put_item(f, &f->item[b]);
	while (i < e - 1) {
		size_t end = i + 1;

		if (f->item[i].kind == FMT_COMMENT && !f->item[i].newlines) {
			put_spaces(f, gap(f, i));
			put_item(f, &f->item[i++]);
			continue;
		}
		put_newline(f, indent + INDENT);
		while (end < e - 1 &&
		       !(f->item[end - 1].depth == 1 && fmt_is(&f->item[end - 1], ",")) &&
		       !must_break(f, end))
			end++;
		put_lines(f, i, end, indent + INDENT);
		i = end;
	}
	if (e - b > 2)
		put_newline(f, indent);
	put_item(f, &f->item[e - 1]);
}

/*
 * kernel NAME(PARAMETERS) -> OUTPUTS {, items [b, e).  On one line; else with the outputs on the
 * second and the brace on the third; else with the parameters one to a line.
 */
static void put_kernel_head(struct fmt *f, size_t b, size_t e, unsigned indent)
{
	size_t open = b, close, arrow = find_outside(f, b, e, "->");
	bool flat = can_be_flat(f, b, e);

	while (!f->item[open].open)
		open++;
	close = find_outside(f, open + 1, e, ")");
	if (flat && indent + flat_width(f, b, e) <= WIDTH) {
		put_lines(f, b, e, indent);
	} else if (flat && arrow < e && indent + flat_width(f, b, arrow) <= WIDTH) {
		put_lines(f, b, arrow, indent);
		put_newline(f, indent + INDENT);
		put_lines(f, arrow, e - 1, indent + INDENT);
		put_newline(f, indent);
		put_item(f, &f->item[e - 1]);
	} else {
		put_lines(f, b, open, indent);
		put_gap(f, open, indent);
		put_parameters(f, open, close + 1, indent);
		put_gap(f, close + 1, indent);
		put_lines(f, close + 1, e, indent);
	}
}

/* ---- blocks ---- */

static void put_statements(struct fmt *f, size_t b, size_t e, unsigned indent);

/* The item behind the statement, declaration or comment that begins at i. */
static size_t statement_end(const struct fmt *f, size_t i, size_t e, size_t *brace)
{
	*brace = 0;
	if (f->item[i].kind == FMT_COMMENT)
		return i + 1;
	for (; i < e; i++) {
		if (fmt_is(&f->item[i], ";"))
			return i + 1;
		if (fmt_is(&f->item[i], "{")) {
			*brace = i;
			return f->item[i].match + 1;
		}
	}
	return e;
}

/* A block that was on one line with its head and fits there, of at most one statement. */
static bool stays_flat(const struct fmt *f, size_t b, size_t brace, size_t e, unsigned indent)
{
	unsigned statements = 0;

	for (size_t i = brace + 1; i < e; i++) {
		if (f->item[i].newlines)
			return false;
		statements += fmt_is(&f->item[i], ";");
	}
	for (size_t i = b; i < e; i++)
		if (f->item[i].kind == FMT_COMMENT)
			return false;
	return statements <= 1 && indent + flat_width(f, b, e) <= WIDTH;
}

static void put_statement(struct fmt *f, size_t b, size_t e, size_t brace, unsigned indent)
{
	if (!brace) {
		put_lines(f, b, e, indent);
		return;
	}
	if (stays_flat(f, b, brace, e, indent)) {
		put_lines(f, b, e, indent);
		return;
	}
	if (fmt_is(&f->item[b], "kernel"))
		put_kernel_head(f, b, brace + 1, indent);
	else
		put_lines(f, b, brace + 1, indent);
	put_statements(f, brace + 1, e - 1, indent + INDENT);
	put_newline(f, indent);
	put_item(f, &f->item[e - 1]);
}

/* Statements [b, e), each on a new line; comments behind what was before stay there. */
static void put_statements(struct fmt *f, size_t b, size_t e, unsigned indent)
{
	bool first = true;

	for (size_t i = b; i < e;) {
		const struct fmt_item *t = &f->item[i];
		size_t brace, end = statement_end(f, i, e, &brace);

		if (t->kind == FMT_COMMENT && !t->newlines && i > 0) {
			put_spaces(f, gap(f, i));
			put_item(f, t);
			i = end;
			continue;
		}
		if (i > 0) {
			if (t->newlines > 1 && !first)
				strbuf_putc(f->out, '\n');
			put_newline(f, indent);
		}
		put_statement(f, i, end, brace, indent);
		first = false;
		i = end;
	}
}

void fe_format(struct arena *a, const struct source *src, struct strbuf *out)
{
	struct fmt f = {.arena = a, .out = out};

	fmt_scan(&f, src->text, src->len);
	put_statements(&f, 0, f.n, 0);
	if (f.n)
		strbuf_putc(out, '\n');
}
