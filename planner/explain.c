/* A plan as text: what was decided, each stage, each GEMM's waves, and a chart of the first stages. */
#include "planner/planner.h"
#include "planner/show.h"
#include <string.h>

/* "A.1": a shape's letter and the part. */
const char *pl_stage_name(const struct pl_plan *p, uint32_t shape, uint32_t half, char out[16])
{
	uint32_t letter = 0, n = 0;

	/* shapes without operations have no letter of their own */
	for (uint32_t i = 0; i < shape; i++)
		letter += p->model->shape[i].nop > 0;
	if (!p->model->shape[shape].nop)
		out[n++] = '-';
	else if (letter < 26)
		out[n++] = (char)('A' + letter);
	else
		n += (uint32_t)pl_put_number(out, letter);
	if (p->mode == PL_SPLIT) {
		out[n++] = '.';
		out[n++] = (char)('1' + half);
	}
	out[n] = 0;
	return out;
}

int pl_put_number(char *out, uint32_t v)
{
	char digits[12];
	int n = 0, k = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);
	while (n)
		out[k++] = digits[--n];
	return k;
}

void pl_summary(const struct pl_plan *p, const struct pl_machine *m, struct strbuf *out)
{
	double gain = p->mode_us[PL_UNFUSED] - p->mode_us[PL_REMOVED];

	strbuf_printf(out, "%s on %s, tp %u, %lld rows: %s\n", p->model->name, m->name,
	              p->model->tp, (long long)p->tokens, pl_mode_name[p->mode]);
	strbuf_printf(out, "%s\n\n", p->why);
	for (unsigned i = 0; i < PL_NMODES; i++) {
		if (i == PL_SPLIT && !p->best_split)
			continue;
		strbuf_printf(out, "  %-17s %10.3f ms", pl_mode_name[i], p->mode_us[i] / 1e3);
		if (i == PL_SPLIT)
			strbuf_printf(out, "  at row %lld", (long long)p->best_split);
		strbuf_puts(out, i == p->mode ? "  <- the plan\n" : "\n");
	}
	if (gain > 0)
		strbuf_printf(out, "  %.2f of what communication costs is recovered\n",
		              (p->mode_us[PL_UNFUSED] - p->us) / gain);
	if (p->mode == PL_SPLIT)
		strbuf_printf(out, "  parts begin at rows 0 and %lld; residual: own rows of each\n",
		              (long long)p->row_base[1]);
	else if (p->model->tp > 1)
		strbuf_printf(out, "  residual: %s\n",
		              p->own_rows ? "own rows" : "all rows on every rank");
}

static void legend(const struct pl_plan *p, struct strbuf *out)
{
	char name[16];

	for (uint32_t i = 0; i < p->model->nshape; i++) {
		const struct pl_segment *g = &p->model->shape[i];

		if (!g->nop)
			continue;
		pl_stage_name(p, i, 0, name);
		if (strchr(name, '.'))
			*strchr(name, '.') = 0;
		strbuf_printf(out, "  %s =", name);
		for (uint32_t k = 0; k < g->nop; k++)
			strbuf_printf(out, "%s %s", k ? "," : "", g->op[k].name);
		if (g->tail.kernel)
			strbuf_printf(out, " -> %s", g->tail.kernel);
		strbuf_printf(out, "   (%u times)\n", g->count);
	}
}

static void stage_row(const struct pl_plan *p, const struct pl_stage *st, struct strbuf *out)
{
	char name[16], other[32] = "", kernel[16];

	pl_stage_name(p, st->shape, st->half, name);
	if (st->kernel) {
		pl_stage_name(p, st->kernel_shape, st->kernel_half, kernel);
		strcpy(other, "of ");
		strcat(other, kernel);
	}
	strbuf_printf(out, "  %-6s %7lld %6u %10.1f %10.1f", name, (long long)st->rows, st->count,
	              st->us, st->compute);
	if (!st->kernel)
		strbuf_puts(out, "   -\n");
	else if (st->ctas)
		strbuf_printf(out, "   %-7s %5u %10.1f %9.1f\n", other, st->ctas, st->collective,
		              st->exposed);
	else
		strbuf_printf(out, "   %-7s %5s %10.1f %9.1f\n", other, "-", st->collective,
		              st->exposed);
}

static void stages(const struct pl_plan *p, struct strbuf *out)
{
	strbuf_printf(out, "\n  stage     rows  times   us, stage    compute   %s%s\n",
	              p->mode == PL_SPLIT ? "beside " : "then   ", "  CTAs collective   exposed");
	for (uint32_t i = 0; i < p->nstage; i++)
		if (p->stage[i].nop || p->stage[i].kernel)
			stage_row(p, &p->stage[i], out);
	if (p->mode == PL_SPLIT && p->tail_us > 0)
		strbuf_printf(out, "  last collective: %.1f us with %u CTAs, exposed\n", p->tail_us,
		              p->tail_ctas);
}

static void op_row(const struct pl_plan *p, const struct pl_stage *st, const struct pl_op_plan *o,
                   struct strbuf *out)
{
	bool tiles = o->op->kind == PL_GEMM || o->op->kind == PL_GROUPED;
	char name[16], tile[32] = "";
	int n = 0;

	pl_stage_name(p, st->shape, st->half, name);
	strbuf_printf(out, "  %-6s %-20s %7lld %9.1f", name, o->op->name, (long long)o->rows,
	              o->us);
	if (!tiles) {
		strbuf_printf(out, "  %s\n", pl_kind_name[o->op->kind]);
		return;
	}
	n += pl_put_number(tile + n, o->gemm.fact.bm);
	tile[n++] = 'x';
	n += pl_put_number(tile + n, o->gemm.fact.bn);
	tile[n] = 0;
	strbuf_printf(out, "  %6lld x %-6lld", (long long)o->op->n, (long long)o->op->k);
	if (o->sm_target)
		strbuf_printf(out, " %6u", o->sm_target);
	else
		strbuf_printf(out, " %6s", "all");
	strbuf_printf(out, " %9s%s", tile, o->gemm.fact.splitk > 1 ? " split-K" : "");
	strbuf_printf(out, " %7.4g %7.4g %5.0f %%%s\n", o->waves_before, o->gemm.run.waves,
	              100 * o->gemm.tail,
	              o->gemm.run.mem >= o->gemm.run.waves * o->gemm.run.tau ? "  memory" : "");
}

static void operations(const struct pl_plan *p, struct strbuf *out)
{
	strbuf_puts(out,
	            "\n  stage  operation               rows        us         N x K    SMs      "
	            "tile  waves:  before  after  last full\n");
	for (uint32_t i = 0; i < p->nstage; i++)
		for (uint32_t k = 0; k < p->stage[i].nop; k++)
			op_row(p, &p->stage[i], &p->stage[i].op[k], out);
}

void pl_explain(const struct pl_plan *p, const struct pl_machine *m, struct strbuf *out)
{
	pl_summary(p, m, out);
	strbuf_puts(out, "\n");
	legend(p, out);
	stages(p, out);
	operations(p, out);
}

/* ---- the chart ---- */

/* Steps that are drawn: the first that have operations, and five more. */
static void window(const struct pl_span *s, size_t n, double *from, double *to, uint32_t *first)
{
	size_t i = 0;

	while (i < n && !s[i].op)
		i++;
	*first = i < n ? s[i].at + 4 : 0;
	*from = -1;
	*to = 0;
	for (i = 0; i < n; i++) {
		if (s[i].at < *first || s[i].at >= *first + 6)
			continue;
		if (*from < 0 || s[i].start < *from)
			*from = s[i].start;
		if (s[i].start + s[i].us > *to)
			*to = s[i].start + s[i].us;
	}
}

static void lane(const struct pl_plan *p, const struct pl_span *s, size_t n, unsigned stream,
                 double from, double to, char *row, unsigned width)
{
	memset(row, ' ', width);
	row[width] = 0;
	for (size_t i = 0; i < n; i++) {
		const struct pl_stage *st = s[i].stage;
		double a = (s[i].start - from) / (to - from) * width;
		double b = (s[i].start + s[i].us - from) / (to - from) * width;
		bool tail = s[i].at == p->nseq;
		uint32_t shape = stream && !tail ? st->kernel_shape : st->shape;
		uint32_t half = stream && !tail ? st->kernel_half : st->half;
		char name[16], c;

		if (s[i].stream != stream || b < 0 || a > width)
			continue;
		c = pl_stage_name(p, shape, half, name)[0];
		if (half && c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		for (int k = a < 0 ? 0 : (int)a; k < (int)width && (k + 0.5 < b || k == (int)a);
		     k++)
			row[k] = k == (int)a && a > 0 ? '|' : c;
	}
}

void pl_gantt(const struct pl_plan *p, unsigned width, struct strbuf *out)
{
	double from, to, us;
	struct pl_span *s;
	uint32_t first;
	char *row;
	size_t n;

	s = pl_simulate(p, out->arena, &n, &us);
	window(s, n, &from, &to, &first);
	if (to <= from)
		return;
	row = arena_alloc(out->arena, width + 1);
	strbuf_printf(out, "\n  from %.1f to %.1f us%s\n", from, to,
	              p->mode == PL_SPLIT
	                      ? "; capitals are the first part, small letters the second"
	                      : "");
	lane(p, s, n, 0, from, to, row, width);
	strbuf_printf(out, "  compute     %s|\n", row);
	lane(p, s, n, 1, from, to, row, width);
	strbuf_printf(out, "  collectives %s|\n", row);
}
