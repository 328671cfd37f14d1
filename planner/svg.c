/* Charts as SVG: time against T for every way to run, and against the split row for one T. */
#include "planner/show.h"

enum { WIDTH = 900, HEIGHT = 520, LEFT = 80, RIGHT = 180, TOP = 50, BOTTOM = 60 };

struct chart {
	struct strbuf *b;
	double x0, x1, y0, y1;
	bool log_x; /* each doubling is as wide */
};

/* log2 for drawing: exact at powers of two, straight between. */
static double log_of(double x)
{
	double n = 0;

	while (x >= 2) {
		x /= 2;
		n++;
	}
	return n + x - 1;
}

static double px(const struct chart *c, double x)
{
	double a = c->log_x ? log_of(c->x0) : c->x0, b = c->log_x ? log_of(c->x1) : c->x1;
	double v = c->log_x ? log_of(x) : x;

	return LEFT + (b > a ? (v - a) / (b - a) : 0.5) * (WIDTH - LEFT - RIGHT);
}

static double py(const struct chart *c, double y)
{
	double f = c->y1 > c->y0 ? (y - c->y0) / (c->y1 - c->y0) : 0.5;

	return HEIGHT - BOTTOM - f * (HEIGHT - TOP - BOTTOM);
}

static double step_of(double range)
{
	double s = 1e-3;

	while (s * 8 < range) {
		if (s * 16 >= range)
			return s * 2;
		if (s * 40 >= range)
			return s * 5;
		s *= 10;
	}
	return s;
}

static void text(struct strbuf *b, double x, double y, const char *anchor, const char *s)
{
	strbuf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor,
	              s);
}

static void axes(const struct chart *c, const char *title, const char *x, const char *y)
{
	struct strbuf *b = c->b;
	double step = step_of(c->y1 - c->y0);

	strbuf_printf(b,
	              "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
	              "font-family=\"sans-serif\" font-size=\"13\">\n"
	              "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
	              WIDTH, HEIGHT, WIDTH, HEIGHT);
	text(b, LEFT, TOP - 22, "start", title);
	text(b, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16, "middle", x);
	text(b, LEFT, TOP - 6, "end", y);
	for (double v = step * (double)(int64_t)(c->y0 / step + 0.999); v <= c->y1 * 1.0001;
	     v += step) {
		strbuf_printf(b,
		              "<path d=\"M%d %.1f H%d\" stroke=\"#ddd\"/>\n"
		              "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
		              LEFT, py(c, v), WIDTH - RIGHT, LEFT - 6, py(c, v) + 4, v);
	}
}

static void x_mark(const struct chart *c, double x)
{
	strbuf_printf(c->b,
	              "<path d=\"M%.1f %d v5\" stroke=\"black\"/>\n"
	              "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n",
	              px(c, x), HEIGHT - BOTTOM, px(c, x), HEIGHT - BOTTOM + 20, x);
}

static void line(const struct chart *c, const double *x, const double *y, size_t n,
                 const char *colour, const char *name, unsigned at)
{
	strbuf_printf(c->b, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
	              colour);
	for (size_t i = 0; i < n; i++)
		if (y[i] > 0)
			strbuf_printf(c->b, "%.1f,%.1f ", px(c, x[i]), py(c, y[i]));
	strbuf_printf(c->b,
	              "\"/>\n<path d=\"M%d %u h24\" stroke=\"%s\" stroke-width=\"2\"/>\n"
	              "<text x=\"%d\" y=\"%u\">%s</text>\n",
	              WIDTH - RIGHT + 14, TOP + 10 + 22 * at, colour, WIDTH - RIGHT + 44,
	              TOP + 14 + 22 * at, name);
}

static const char *const colours[PL_NMODES] = {"#c0392b", "#7f8c8d", "#2980b9", "#27ae60"};

static void bounds(struct chart *c, const double *y, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (y[i] <= 0)
			continue;
		c->y0 = c->y0 < 0 || y[i] < c->y0 ? y[i] : c->y0;
		c->y1 = y[i] > c->y1 ? y[i] : c->y1;
	}
}

void pl_svg_rows(const struct pl_model *model, const struct pl_machine *m, const int64_t *tokens,
                 const double (*us)[PL_NMODES], const double *plan_us, size_t n, struct strbuf *out)
{
	struct chart c = {.b = out, .y0 = -1, .log_x = true};
	double *x = arena_news(out->arena, double, n), *y = arena_news(out->arena, double, n);

	if (!n)
		return;
	c.x0 = (double)tokens[0];
	c.x1 = (double)tokens[n - 1];
	for (size_t i = 0; i < n; i++) {
		x[i] = (double)tokens[i];
		for (unsigned k = 0; k < PL_NMODES; k++) {
			double v = us[i][k] / x[i];

			bounds(&c, &v, 1);
		}
	}
	c.y0 *= 0.95;
	c.y1 *= 1.02;
	axes(&c,
	     arena_printf(out->arena, "%s on %s, tp %u: time of the model by rows", model->name,
	                  m->name, model->tp),
	     "rows T", "us per row");
	for (size_t i = 0; i < n; i++)
		if (i == 0 || i + 1 == n || !(tokens[i] & (tokens[i] - 1)))
			x_mark(&c, x[i]);
	for (unsigned k = 0; k < PL_NMODES; k++) {
		for (size_t i = 0; i < n; i++)
			y[i] = us[i][k] / x[i];
		line(&c, x, y, n, colours[k], pl_mode_name[k], k);
	}
	for (size_t i = 0; i < n; i++)
		strbuf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", px(&c, x[i]),
		              py(&c, plan_us[i] / x[i]));
	strbuf_printf(
	        out,
	        "<circle cx=\"%d\" cy=\"%d\" r=\"3\"/>\n<text x=\"%d\" y=\"%d\">the plan</text>\n",
	        WIDTH - RIGHT + 26, TOP + 98, WIDTH - RIGHT + 44, TOP + 102);
	strbuf_puts(out, "</svg>\n");
}

void pl_svg_split(const struct pl_plan *p, const struct pl_machine *m, const int64_t *row,
                  const double *us, size_t n, struct strbuf *out)
{
	struct chart c = {.b = out, .y0 = -1, .x1 = (double)p->tokens};
	double *x = arena_news(out->arena, double, n + 2),
	       *y = arena_news(out->arena, double, n + 2);

	for (size_t i = 0; i < n; i++) {
		x[i] = (double)row[i];
		y[i] = us[i] / 1e3;
	}
	bounds(&c, y, n);
	for (unsigned k = 0; k < PL_SPLIT; k++) {
		double v = p->mode_us[k] / 1e3;

		bounds(&c, &v, 1);
	}
	c.y0 *= 0.97;
	c.y1 *= 1.02;
	axes(&c,
	     arena_printf(out->arena, "%s on %s, tp %u, %lld rows: time by the split row",
	                  p->model->name, m->name, p->model->tp, (long long)p->tokens),
	     "rows of the first part", "ms");
	for (int k = 0; k <= 4; k++)
		x_mark(&c, (double)p->tokens * k / 4);
	line(&c, x, y, n, colours[PL_SPLIT], pl_mode_name[PL_SPLIT], PL_SPLIT);
	for (unsigned k = 0; k < PL_SPLIT; k++) {
		x[0] = 0;
		x[1] = (double)p->tokens;
		y[0] = y[1] = p->mode_us[k] / 1e3;
		line(&c, x, y, 2, colours[k], pl_mode_name[k], k);
	}
	if (p->best_split)
		strbuf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/>\n",
		              px(&c, (double)p->best_split), py(&c, p->best_split_us / 1e3));
	text(out, WIDTH - RIGHT + 14, TOP + 120, "start",
	     p->mode == PL_SPLIT ? "dot: the plan" : "dot: the best split,");
	if (p->mode != PL_SPLIT)
		text(out, WIDTH - RIGHT + 14, TOP + 138, "start", "which is not taken");
	strbuf_puts(out, "</svg>\n");
}
