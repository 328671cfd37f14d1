/* Reports of bench: JSON lines, Markdown, text. */
#include "tools/bench.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_name[] = {"plait", "norm", "all-reduce", "unfused", "fused"};
_Static_assert(sizeof kind_name / sizeof *kind_name == BENCH_NKINDS, "a name for each kind");

/* ---- JSON lines ---- */

static void put_line(cJSON *o, struct strbuf *out)
{
	char *s = cJSON_PrintUnformatted(o);

	strbuf_puts(out, s ? s : "{}");
	strbuf_putc(out, '\n');
	free(s);
	cJSON_Delete(o);
}

static cJSON *json_run(const struct bench_result *r)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "record", "run");
	cJSON_AddStringToObject(o, "gpu", r->gpu);
	cJSON_AddStringToObject(o, "driver", r->driver);
	cJSON_AddStringToObject(o, "spec", r->spec);
	cJSON_AddStringToObject(o, "kernel", r->kernel);
	cJSON_AddStringToObject(o, "dtype", r->dtype);
	cJSON_AddStringToObject(o, "settings", r->settings);
	cJSON_AddNumberToObject(o, "tp", r->tp);
	cJSON_AddNumberToObject(o, "gpus", r->gpus);
	cJSON_AddNumberToObject(o, "cols", (double)r->cols);
	cJSON_AddNumberToObject(o, "launches", r->launches);
	cJSON_AddNumberToObject(o, "rounds", r->rounds);
	cJSON_AddNumberToObject(o, "link_gbs", r->link_gbs);
	cJSON_AddNumberToObject(o, "link_ctas", r->link_ctas);
	cJSON_AddNumberToObject(o, "copy_gbs", r->copy_gbs);
	return o;
}

static cJSON *json_cell(const struct bench_result *r, unsigned t, unsigned w, struct arena *a)
{
	const struct bench_cell *c = bench_at(r, t, w);
	cJSON *o = cJSON_CreateObject();
	struct bench_stat s;

	cJSON_AddStringToObject(o, "record", "time");
	cJSON_AddNumberToObject(o, "cols", (double)r->cols);
	cJSON_AddNumberToObject(o, "T", (double)r->T[t]);
	cJSON_AddStringToObject(o, "who", r->who[w].name);
	cJSON_AddStringToObject(o, "kind", kind_name[r->who[w].kind]);
	if (c->protocol)
		cJSON_AddStringToObject(o, "protocol", c->protocol);
	if (c->ctas)
		cJSON_AddNumberToObject(o, "ctas", c->ctas);
	if (!c->us) {
		cJSON_AddStringToObject(o, "why_not", c->why ? c->why : "");
		return o;
	}
	s = bench_stat_of(c->us, r->rounds, a);
	cJSON_AddNumberToObject(o, "us", s.median);
	cJSON_AddNumberToObject(o, "us_10", s.low);
	cJSON_AddNumberToObject(o, "us_90", s.high);
	if (c->off >= 0)
		cJSON_AddNumberToObject(o, "difference", c->off);
	cJSON_AddItemToObject(o, "samples", cJSON_CreateDoubleArray(c->us, (int)r->rounds));
	return o;
}

void bench_json_lines(const struct bench_result *r, struct strbuf *out)
{
	put_line(json_run(r), out);
	for (unsigned t = 0; t < r->ntokens; t++)
		for (unsigned w = 0; w < r->nwho; w++)
			put_line(json_cell(r, t, w, out->arena), out);
}

/* ---- comparisons ---- */

struct against { /* the first contender against the best of a kind */
	const char *name;
	double us;
	struct bench_stat times; /* 0: not measured */
	double target;           /* 0: none */
};

static struct against against(const struct bench_result *r, unsigned t, enum bench_kind kind,
                              struct arena *a)
{
	int w = bench_best(r, t, kind, a);
	struct against x = {0};
	struct bench_target g;

	if (w < 0 || !bench_at(r, t, 0)->us)
		return x;
	x.name = r->who[w].name;
	x.us = bench_stat_of(bench_at(r, t, (unsigned)w)->us, r->rounds, a).median;
	x.times = bench_ratio(bench_at(r, t, 0)->us, bench_at(r, t, (unsigned)w)->us, r->rounds, a);
	if (bench_target(r, r->T[t], &g))
		x.target = kind == BENCH_UNFUSED ? g.unfused : g.fused;
	return x;
}

/* "9.11": three figures that count. */
static const char *us_text(double us, struct arena *a)
{
	return arena_printf(a, us < 10 ? "%.2f" : us < 100 ? "%.1f" : "%.0f", us);
}

static const char *against_text(const struct against *x, struct arena *a)
{
	const char *s;

	if (!x->name)
		return "- | - ";
	s = arena_printf(a, "%s (%s) | **%.2fx** (%.2f to %.2f)", us_text(x->us, a), x->name,
	                 x->times.median, x->times.low, x->times.high);
	if (x->target > 0)
		s = arena_printf(a, "%s, asked %.2f: %s", s, x->target,
		                 x->times.median >= x->target ? "met" : "**not met**");
	return s;
}

/* ---- Markdown ---- */

void bench_markdown_head(const struct bench_result *r, const char *command, struct strbuf *out)
{
	strbuf_printf(out,
	              "# Performance\n\nWritten by `%s`; do not edit.\n\n"
	              "%u x %s, driver %s. %s\n\nA time is that of one launch: CUDA graphs of %u "
	              "launches on "
	              "all ranks, started behind a delay so that the host is not part of it, "
	              "random data, "
	              "buffers in rotation. %u rounds time "
	              "every contender in turn; a time is the median with the 10th and 90th "
	              "percentile, a "
	              "speed-up the median of the quotients of the same round. All figures of a "
	              "section are of "
	              "one run.\n\n",
	              command, r->gpus, r->gpu, r->driver, r->settings, r->launches, r->rounds);
}

static const char *share_text(double share, double asked, struct arena *a)
{
	const char *s;

	if (!(share > 0))
		return "-";
	s = arena_printf(a, "%.0f %%", 100 * share);
	return asked > 0 ? arena_printf(a, "%s, asked %.0f %%: %s", s, 100 * asked,
	                                share >= asked ? "met" : "**not met**")
	                 : s;
}

/* What `local` reaches of a copy of memory at T[t] rows; 0: not measured. */
static double norm_share(const struct bench_result *r, unsigned t, struct arena *a)
{
	int w = bench_best(r, t, BENCH_NORM, a);

	if (w < 0)
		return 0;
	return bench_copy_share(
	        r, t, bench_stat_of(bench_at(r, t, (unsigned)w)->us, r->rounds, a).median);
}

static void summary(const struct bench_result *r, struct strbuf *out)
{
	struct arena *a = out->arena;

	strbuf_puts(out,
	            "| T | plait, us | protocol, CTAs | best unfused, us | speed-up | best other "
	            "fused, us | speed-up | of the link | norm of copy |\n"
	            "|---|---|---|---|---|---|---|---|---|\n");
	for (unsigned t = 0; t < r->ntokens; t++) {
		const struct bench_cell *c = bench_at(r, t, 0);
		struct against u = against(r, t, BENCH_UNFUSED, a);
		struct against f = against(r, t, BENCH_FUSED, a);
		struct bench_target g = {0};
		double us;

		if (!c->us)
			continue;
		bench_target(r, r->T[t], &g);
		us = bench_stat_of(c->us, r->rounds, a).median;
		strbuf_printf(out, "| %" PRIu64 " | **%s** | %s, %u | %s | %s | %s | %s |\n",
		              r->T[t], us_text(us, a), c->protocol ? c->protocol : "", c->ctas,
		              against_text(&u, a), against_text(&f, a),
		              share_text(bench_link_share(r, t, us), g.link, a),
		              share_text(norm_share(r, t, a), g.norm, a));
	}
}

static void all_times(const struct bench_result *r, struct strbuf *out)
{
	struct arena *a = out->arena;

	strbuf_puts(out, "\n| T |");
	for (unsigned w = 0; w < r->nwho; w++)
		strbuf_printf(out, " %s |", r->who[w].name);
	strbuf_puts(out, "\n|---|");
	for (unsigned w = 0; w < r->nwho; w++)
		strbuf_puts(out, "---|");
	for (unsigned t = 0; t < r->ntokens; t++) {
		strbuf_printf(out, "\n| %" PRIu64 " |", r->T[t]);
		for (unsigned w = 0; w < r->nwho; w++) {
			const struct bench_cell *c = bench_at(r, t, w);
			struct bench_stat s;

			if (!c->us) {
				strbuf_puts(out, " - |");
				continue;
			}
			s = bench_stat_of(c->us, r->rounds, a);
			strbuf_printf(out, " %s (%s to %s)", us_text(s.median, a),
			              us_text(s.low, a), us_text(s.high, a));
			if (w && c->ctas)
				strbuf_printf(out, ", %u CTAs", c->ctas);
			strbuf_puts(out, " |");
		}
	}
	strbuf_putc(out, '\n');
}

/* What a reader has to know of the run that the tables do not say. */
static void notes(const struct bench_result *r, struct strbuf *out)
{
	if (r->link_gbs > 0)
		strbuf_printf(out,
		              "\nThe link: %.0f GB/s in each direction by bulk copies, half pulled "
		              "and half "
		              "pushed, on %u CTAs of both GPUs at once. ",
		              r->link_gbs, r->link_ctas);
	if (r->copy_gbs > 0)
		strbuf_printf(out, "Memory: %.0f GB/s read and written by a device-to-device copy.",
		              r->copy_gbs);
	strbuf_putc(out, '\n');
	for (unsigned w = 0; w < r->nwho; w++) {
		const char *why = NULL;

		for (unsigned t = 0; t < r->ntokens && !why; t++)
			why = bench_at(r, t, w)->why;
		if (why)
			strbuf_printf(out, "\n%s was not measured everywhere: %s\n", r->who[w].name,
			              why);
	}
	for (unsigned t = 0; t < r->ntokens; t++)
		for (unsigned w = 0; w < r->nwho; w++)
			if (bench_at(r, t, w)->us && bench_at(r, t, w)->off > 0.02)
				strbuf_printf(
				        out,
				        "\n**%s at T = %" PRIu64
				        ": its result differs by %.1g of the largest value**\n",
				        r->who[w].name, r->T[t], bench_at(r, t, w)->off);
}

void bench_markdown(const struct bench_result *r, const char *svg, struct strbuf *out)
{
	strbuf_printf(out, "## %s, rows of %lld %s, %u ranks\n\n", r->kernel, (long long)r->cols,
	              r->dtype, r->tp);
	summary(r, out);
	notes(r, out);
	strbuf_puts(out, "\nAll times, us:\n");
	all_times(r, out);
	if (svg)
		strbuf_printf(out, "\n![times over T](%s)\n", svg);
	strbuf_putc(out, '\n');
}

/* ---- text ---- */

void bench_text(const struct bench_result *r, struct strbuf *out)
{
	struct arena *a = out->arena;

	strbuf_printf(out, "%s, %lld columns, tp %u, %s\n", r->kernel, (long long)r->cols, r->tp,
	              r->gpu);
	for (unsigned t = 0; t < r->ntokens; t++) {
		strbuf_printf(out, "T %-6" PRIu64, r->T[t]);
		for (unsigned w = 0; w < r->nwho; w++) {
			const struct bench_cell *c = bench_at(r, t, w);

			if (!c->us)
				continue;
			strbuf_printf(out, "  %s %s", r->who[w].name,
			              us_text(bench_stat_of(c->us, r->rounds, a).median, a));
			if (c->ctas)
				strbuf_printf(out, " [%s %u]", c->protocol ? c->protocol : "",
				              c->ctas);
		}
		for (int kind = BENCH_UNFUSED; kind <= BENCH_FUSED; kind++) {
			struct against x = against(r, t, (enum bench_kind)kind, a);

			if (x.name)
				strbuf_printf(out, "  | %.2fx %s%s", x.times.median, x.name,
				              x.target > 0 && x.times.median < x.target
				                      ? " (asked more)"
				                      : "");
		}
		strbuf_putc(out, '\n');
	}
}
