/*
 * A plan as a trace that ui.perfetto.dev and chrome://tracing open: both streams, an arrow from each
 * compute stage to its collective and on to what reads it, and counters of SMs and link traffic.
 */
#include "planner/show.h"

struct out {
	struct strbuf *b;
	bool more;
};

static void event(struct out *o)
{
	strbuf_puts(o->b, o->more ? ",\n" : "\n");
	o->more = true;
}

static void meta(struct out *o, const char *what, unsigned tid, const char *name, unsigned order)
{
	event(o);
	strbuf_printf(
	        o->b,
	        "{\"ph\":\"M\",\"pid\":0,\"tid\":%u,\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}",
	        tid, what, name);
	if (what[0] != 't')
		return;
	event(o);
	strbuf_printf(o->b,
	              "{\"ph\":\"M\",\"pid\":0,\"tid\":%u,\"name\":\"thread_sort_index\",\"args\":{"
	              "\"sort_index\":%u}}",
	              tid, order);
}

static void of_op(struct out *o, const struct pl_plan *p, const struct pl_span *s)
{
	const struct pl_op_plan *q = s->op;
	char stage[16];

	event(o);
	strbuf_printf(
	        o->b,
	        "{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"cat\":\"%s\",\"name\":\"%s %s\",\"ts\":%.3f,"
	        "\"dur\":%.3f,\"args\":{\"step\":%u,\"rows\":%lld",
	        pl_kind_name[q->op->kind], pl_stage_name(p, s->stage->shape, s->stage->half, stage),
	        s->name, s->start, s->us, s->at, (long long)q->rows);
	if (q->op->kind == PL_GEMM || q->op->kind == PL_GROUPED)
		strbuf_printf(
		        o->b,
		        ",\"N\":%lld,\"K\":%lld,\"tile\":\"%ux%u\",\"split_k\":%u,\"sm_target\":%u,"
		        "\"waves_before\":%.4g,\"waves\":%.4g,\"last_wave\":%.3f",
		        (long long)q->op->n, (long long)q->op->k, q->gemm.fact.bm, q->gemm.fact.bn,
		        q->gemm.fact.splitk, q->sm_target, q->waves_before, q->gemm.run.waves,
		        q->gemm.tail);
	strbuf_puts(o->b, "}}");
}

static void flow(struct out *o, unsigned id, const char *ph, unsigned tid, double ts)
{
	event(o);
	strbuf_printf(
	        o->b,
	        "{\"ph\":\"%s\",\"pid\":0,\"tid\":%u,\"cat\":\"flow\",\"name\":\"rows\",\"id\":%u,"
	        "\"ts\":%.3f%s}",
	        ph, tid, id, ts, ph[0] == 'f' ? ",\"bp\":\"e\"" : "");
}

static void counters(struct out *o, const struct pl_machine *m, double ts, unsigned ctas,
                     double gbs)
{
	event(o);
	strbuf_printf(
	        o->b,
	        "{\"ph\":\"C\",\"pid\":0,\"name\":\"SMs\",\"ts\":%.3f,\"args\":{\"compute\":%u,"
	        "\"collective\":%u}}",
	        ts, m->sms > ctas ? m->sms - ctas : 0, ctas);
	event(o);
	strbuf_printf(o->b,
	              "{\"ph\":\"C\",\"pid\":0,\"name\":\"link "
	              "GB/s\",\"ts\":%.3f,\"args\":{\"GB/s\":%.1f}}",
	              ts, gbs);
}

static void of_collective(struct out *o, const struct pl_plan *p, const struct pl_machine *m,
                          const struct pl_span *s)
{
	bool last = s->at == p->nseq;
	const struct pl_stage *st = s->stage;
	uint32_t shape = last ? st->shape : st->kernel_shape;
	uint32_t half = last ? st->half : st->kernel_half;
	int64_t rows = last ? st->rows : st->kernel_rows;
	unsigned ctas = last ? p->tail_ctas : st->ctas;
	double gbs =
	        s->us > 0 ? p->model->shape[shape].tail.message * (double)rows / (s->us * 1e3) : 0;
	char stage[16];

	event(o);
	strbuf_printf(o->b,
	              "{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"cat\":\"collective\",\"name\":\"%s %s\","
	              "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"step\":%u,\"rows\":%lld,\"ctas\":%u,"
	              "\"exposed_us\":%.3f,\"GB/s\":%.1f}}",
	              pl_stage_name(p, shape, half, stage), s->name, s->start, s->us, s->at,
	              (long long)rows, ctas, last ? s->us : st->exposed, gbs);
	counters(o, m, s->start, ctas, gbs);
	counters(o, m, s->start + s->us, 0, 0);
}

/* How many of n compute spans, which are in order of time, have ended by t; have begun before t. */
static size_t ended_by(const struct pl_span *const *c, size_t n, double t)
{
	size_t lo = 0;

	while (lo < n) {
		size_t mid = lo + (n - lo) / 2;

		if (c[mid]->start + c[mid]->us > t + 1e-6)
			n = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static size_t begun_before(const struct pl_span *const *c, size_t n, double t)
{
	size_t lo = 0;

	while (lo < n) {
		size_t mid = lo + (n - lo) / 2;

		if (c[mid]->start >= t - 1e-6)
			n = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* From the compute that makes rows to their collective, and from that to the compute that reads
 * them: what ends before and begins after on the other stream. */
static void flows(struct out *o, const struct pl_span *s, size_t n)
{
	const struct pl_span **c = arena_array(o->b->arena, n, sizeof *c);
	size_t nc = 0, at;
	unsigned id = 0;

	for (size_t i = 0; i < n; i++)
		if (s[i].stream == 0)
			c[nc++] = &s[i];
	for (size_t i = 0; i < n; i++) {
		double end = s[i].start + s[i].us;

		if (s[i].stream == 0)
			continue;
		at = ended_by(c, nc, s[i].start);
		if (at) {
			flow(o, ++id, "s", 0, c[at - 1]->start + c[at - 1]->us);
			flow(o, id, "f", 1, s[i].start);
		}
		at = begun_before(c, nc, end);
		if (at < nc) {
			flow(o, ++id, "s", 1, end);
			flow(o, id, "f", 0, c[at]->start);
		}
	}
}

void pl_trace(const struct pl_plan *p, const struct pl_machine *m, struct strbuf *out)
{
	struct out o = {.b = out};
	struct pl_span *s;
	double us;
	size_t n;

	s = pl_simulate(p, out->arena, &n, &us);
	strbuf_puts(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
	meta(&o, "process_name", 0, "predicted", 0);
	meta(&o, "thread_name", 0, "compute", 0);
	meta(&o, "thread_name", 1, "collectives", 1);
	counters(&o, m, 0, 0, 0);
	for (size_t i = 0; i < n; i++)
		if (s[i].op)
			of_op(&o, p, &s[i]);
		else
			of_collective(&o, p, m, &s[i]);
	flows(&o, s, n);
	strbuf_printf(
	        out,
	        "\n],\"otherData\":{\"model\":\"%s\",\"machine\":\"%s\",\"tp\":%u,\"tokens\":%lld,"
	        "\"mode\":\"%s\",\"split\":%lld,\"hash\":\"%016llx\"}}\n",
	        p->model->name, m->name, p->model->tp, (long long)p->tokens, pl_mode_name[p->mode],
	        (long long)p->split, (unsigned long long)p->hash);
}
