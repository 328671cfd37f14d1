/* The picture of bench: a panel a run, a line a contender, both axes logarithmic. */
#include "tools/bench.h"
#include <inttypes.h>
#include <math.h>

enum { WIDTH = 900, PANEL = 420, LEFT = 60, RIGHT = 210, TOP = 40, BOTTOM = 50 };

/* Told apart also without colour: by dashes. */
static const char *const colours[] = {"#0b6e4f", "#d1495b", "#30638e", "#edae49", "#6c4ab6",
                                      "#8d6b94", "#7a7a7a", "#00798c", "#b5651d", "#444444"};
static const char *const dashes[] = {"", "6 3", "2 3", "8 3 2 3"};

struct axes {
	double x0, x1, y0, y1; /* logarithms */
	int top;
};

static double px(const struct axes *x, double T)
{
	double span = x->x1 > x->x0 ? x->x1 - x->x0 : 1;

	return LEFT + (log2(T) - x->x0) / span * (WIDTH - LEFT - RIGHT);
}

static double py(const struct axes *x, double us)
{
	double span = x->y1 > x->y0 ? x->y1 - x->y0 : 1;

	return x->top + PANEL - BOTTOM - (log10(us) - x->y0) / span * (PANEL - TOP - BOTTOM);
}

static void escape(struct strbuf *out, const char *s)
{
	for (; *s; s++)
		if (*s == '<')
			strbuf_puts(out, "&lt;");
		else if (*s == '&')
			strbuf_puts(out, "&amp;");
		else
			strbuf_putc(out, *s);
}

static struct axes axes_of(const struct bench_result *r, int top, struct arena *a)
{
	struct axes x = {INFINITY, -INFINITY, INFINITY, -INFINITY, top};

	for (unsigned t = 0; t < r->ntokens; t++)
		for (unsigned w = 0; w < r->nwho; w++) {
			const struct bench_cell *c = bench_at(r, t, w);
			double us;

			if (!c->us || !r->T[t])
				continue;
			us = log10(bench_stat_of(c->us, r->rounds, a).median);
			x.x0 = fmin(x.x0, log2((double)r->T[t]));
			x.x1 = fmax(x.x1, log2((double)r->T[t]));
			x.y0 = fmin(x.y0, floor(us));
			x.y1 = fmax(x.y1, ceil(us));
		}
	return x;
}

static void text(struct strbuf *out, double x, double y, const char *anchor, const char *s)
{
	strbuf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	escape(out, s);
	strbuf_puts(out, "</text>\n");
}

static void grid(const struct bench_result *r, const struct axes *x, struct strbuf *out)
{
	struct arena *a = out->arena;

	for (unsigned t = 0; t < r->ntokens; t++) {
		double at;

		if (!r->T[t])
			continue;
		at = px(x, (double)r->T[t]);
		strbuf_printf(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>\n", at, x->top + TOP,
		              x->top + PANEL - BOTTOM);
		text(out, at, x->top + PANEL - BOTTOM + 18, "middle",
		     arena_printf(a, "%" PRIu64, r->T[t]));
	}
	for (double d = x->y0; d <= x->y1; d++) {
		double at = py(x, pow(10, d));

		strbuf_printf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT, at,
		              WIDTH - RIGHT);
		text(out, LEFT - 6, at + 4, "end", arena_printf(a, "%g", pow(10, d)));
	}
	text(out, LEFT, x->top + 22, "start",
	     arena_printf(a, "%s, rows of %lld %s, %u ranks on %s: microseconds over T", r->kernel,
	                  (long long)r->cols, r->dtype, r->tp, r->gpu));
}

static void line(const struct bench_result *r, const struct axes *x, unsigned w, struct strbuf *out)
{
	const char *colour = colours[w % (sizeof colours / sizeof *colours)];
	const char *dash = dashes[r->who[w].kind == BENCH_PLAIT ? 0 : 1 + w % 3];
	double y = x->top + TOP + 8 + 18.0 * w;
	bool pen = false;

	strbuf_printf(out,
	              "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" "
	              "stroke-dasharray=\"%s\" d=\"",
	              colour, w ? "1.5" : "3", dash);
	for (unsigned t = 0; t < r->ntokens; t++) {
		const struct bench_cell *c = bench_at(r, t, w);

		if (c->us && r->T[t])
			strbuf_printf(out, "%c%.1f %.1f", pen ? 'L' : 'M', px(x, (double)r->T[t]),
			              py(x, bench_stat_of(c->us, r->rounds, out->arena).median));
		pen = c->us && r->T[t];
	}
	strbuf_printf(out, "M%d %.1fh28\"/>\n", WIDTH - RIGHT + 12, y);
	text(out, WIDTH - RIGHT + 46, y + 4, "start", r->who[w].name);
}

void bench_svg(const struct bench_result *const *r, unsigned n, struct strbuf *out)
{
	strbuf_printf(out,
	              "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" "
	              "font-family=\"sans-serif\" font-size=\"12\">\n"
	              "<style>.grid{stroke:#ccc;stroke-width:.6}</style>\n"
	              "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
	              WIDTH, n * PANEL);
	for (unsigned i = 0; i < n; i++) {
		struct axes x = axes_of(r[i], (int)i * PANEL, out->arena);

		if (!isfinite(x.x0))
			continue;
		grid(r[i], &x, out);
		for (unsigned w = 0; w < r[i]->nwho; w++)
			line(r[i], &x, w, out);
	}
	strbuf_puts(out, "</svg>\n");
}
