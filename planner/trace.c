/*
 * What happens when, as a trace that ui.perfetto.dev and chrome://tracing open: a process for what is
 * predicted and one for each GPU that was measured.  In each of them both streams, an arrow from each
 * compute stage to its collective and on to what reads it, and counters of SMs and link traffic.
 */
#include "planner/show.h"

enum { COMPUTE, COLLECTIVE };

struct out {
	struct strbuf *b;
	const struct pl_plan *p;
	const struct pl_machine *m;
	unsigned pid, flows; /* arrows so far, of all processes */
	bool more;
};

static void event(struct out *o)
{
	strbuf_puts(o->b, o->more ? ",\n" : "\n");
	o->more = true;
}

static void meta(struct out *o, const char *what, unsigned tid, const char *name)
{
	event(o);
	strbuf_printf(
	        o->b,
	        "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}",
	        o->pid, tid, what, name);
}

static void sort_index(struct out *o, const char *what, unsigned tid, unsigned order)
{
	event(o);
	strbuf_printf(o->b,
	              "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"args\":{"
	              "\"sort_index\":%u}}",
	              o->pid, tid, what, order);
}

static void of_compute(struct out *o, const struct pl_span *s)
{
	const struct pl_op_plan *q = s->op;
	char stage[16];

	event(o);
	strbuf_printf(
	        o->b,
	        "{\"ph\":\"X\",\"pid\":%u,\"tid\":0,\"cat\":\"%s\",\"name\":\"%s %s\",\"ts\":%.3f,"
	        "\"dur\":%.3f,\"args\":{\"step\":%u,\"rows\":%lld",
	        o->pid, q ? pl_kind_name[q->op->kind] : "operation",
	        pl_stage_name(o->p, s->stage->shape, s->stage->half, stage), s->name, s->start,
	        s->us, s->at, (long long)(q ? q->rows : s->stage->rows));
	if (q && (q->op->kind == PL_GEMM || q->op->kind == PL_GROUPED))
		strbuf_printf(
		        o->b,
		        ",\"N\":%lld,\"K\":%lld,\"tile\":\"%ux%u\",\"split_k\":%u,\"sm_target\":%u,"
		        "\"waves_before\":%.4g,\"waves\":%.4g,\"last_wave\":%.3f",
		        (long long)q->op->n, (long long)q->op->k, q->gemm.fact.bm, q->gemm.fact.bn,
		        q->gemm.fact.splitk, q->sm_target, q->waves_before, q->gemm.run.waves,
		        q->gemm.tail);
	strbuf_puts(o->b, "}}");
}

static void counters(struct out *o, double ts, unsigned ctas, double gbs)
{
	unsigned sms = o->m->sms;

	event(o);
	strbuf_printf(
	        o->b,
	        "{\"ph\":\"C\",\"pid\":%u,\"name\":\"SMs\",\"ts\":%.3f,\"args\":{\"compute\":%u,"
	        "\"collective\":%u}}",
	        o->pid, ts, sms > ctas ? sms - ctas : 0, ctas);
	event(o);
	strbuf_printf(o->b,
	              "{\"ph\":\"C\",\"pid\":%u,\"name\":\"link "
	              "GB/s\",\"ts\":%.3f,\"args\":{\"GB/s\":%.1f}}",
	              o->pid, ts, gbs);
}

static void of_collective(struct out *o, const struct pl_span *s)
{
	const struct pl_plan *p = o->p;
	const struct pl_stage *st = s->stage;
	bool last = s->at == p->nseq;
	uint32_t shape = last ? st->shape : st->kernel_shape;
	uint32_t half = last ? st->half : st->kernel_half;
	int64_t rows = last ? st->rows : st->kernel_rows;
	double bytes =
	        p->mode == PL_REMOVED ? 0 : p->model->shape[shape].tail.message * (double)rows;
	double gbs = s->us > 0 ? bytes / (s->us * 1e3) : 0;
	char stage[16];

	event(o);
	strbuf_printf(o->b,
	              "{\"ph\":\"X\",\"pid\":%u,\"tid\":1,\"cat\":\"collective\",\"name\":\"%s "
	              "%s\",\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"step\":%u,\"rows\":%lld,\"ctas\":"
	              "%u,\"exposed_us\":%.3f,\"GB/s\":%.1f}}",
	              o->pid, pl_stage_name(p, shape, half, stage), s->name, s->start, s->us, s->at,
	              (long long)rows, s->ctas, s->exposed, gbs);
	counters(o, s->start, s->ctas, gbs);
	counters(o, s->start + s->us, 0, 0);
}

/* ---- arrows ---- */

static void arrow(struct out *o, const struct pl_span *from, const struct pl_span *to)
{
	const struct pl_span *end[] = {from, to};

	o->flows++;
	for (unsigned i = 0; i < 2; i++) {
		event(o);
		strbuf_printf(
		        o->b,
		        "{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u,\"cat\":\"flow\",\"name\":\"rows\","
		        "\"id\":%u,\"ts\":%.3f%s}",
		        i ? "f" : "s", o->pid, end[i]->stream, o->flows,
		        end[i]->start + (i ? 0 : end[i]->us), i ? ",\"bp\":\"e\"" : "");
	}
}

/*
 * From the compute that makes rows to their collective, and from that to the compute that reads them.
 * The collective of step k is of that step's own compute, and with two parts of the one before; what
 * waits for it is in step k + 1.
 */
static void arrows(struct out *o, const struct pl_span *s, size_t n)
{
	const uint32_t steps = o->p->nseq + 2, back = o->p->mode == PL_SPLIT;
	const struct pl_span **first = arena_array(o->b->arena, steps, sizeof *first);
	const struct pl_span **last = arena_array(o->b->arena, steps, sizeof *last);

	for (size_t i = 0; i < n; i++) {
		if (s[i].stream != COMPUTE)
			continue;
		last[s[i].at] = &s[i];
		if (!first[s[i].at])
			first[s[i].at] = &s[i];
	}
	for (size_t i = 0; i < n; i++) {
		if (s[i].stream == COMPUTE)
			continue;
		if (s[i].at >= back && last[s[i].at - back])
			arrow(o, last[s[i].at - back], &s[i]);
		if (first[s[i].at + 1])
			arrow(o, &s[i], first[s[i].at + 1]);
	}
}

/* ---- all of it ---- */

static void process(struct out *o, const struct pl_process *q, unsigned order)
{
	o->pid = q->pid;
	meta(o, "process_name", 0, q->name);
	sort_index(o, "process_sort_index", 0, order);
	meta(o, "thread_name", COMPUTE, "compute");
	sort_index(o, "thread_sort_index", COMPUTE, COMPUTE);
	meta(o, "thread_name", COLLECTIVE, "collectives");
	sort_index(o, "thread_sort_index", COLLECTIVE, COLLECTIVE);
	counters(o, 0, 0, 0);
	for (size_t i = 0; i < q->n; i++)
		if (q->span[i].stream == COMPUTE)
			of_compute(o, &q->span[i]);
		else
			of_collective(o, &q->span[i]);
	arrows(o, q->span, q->n);
}

static double end_of(const struct pl_process *q)
{
	double end = 0;

	for (size_t i = 0; i < q->n; i++)
		if (q->span[i].start + q->span[i].us > end)
			end = q->span[i].start + q->span[i].us;
	return end;
}

void pl_trace_processes(const struct pl_plan *p, const struct pl_machine *m,
                        const struct pl_process *q, size_t n, struct strbuf *out)
{
	struct out o = {.b = out, .p = p, .m = m};

	strbuf_puts(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
	for (size_t i = 0; i < n; i++)
		process(&o, &q[i], (unsigned)i);
	strbuf_printf(
	        out,
	        "\n],\"otherData\":{\"model\":\"%s\",\"machine\":\"%s\",\"tp\":%u,\"tokens\":%lld,"
	        "\"mode\":\"%s\",\"split\":%lld,\"hash\":\"%016llx\",\"us\":{",
	        p->model->name, m->name, p->model->tp, (long long)p->tokens, pl_mode_name[p->mode],
	        (long long)p->split, (unsigned long long)p->hash);
	for (size_t i = 0; i < n; i++)
		strbuf_printf(out, "%s\"%s\":%.3f", i ? "," : "", q[i].name, end_of(&q[i]));
	strbuf_puts(out, "}}}\n");
}

void pl_trace(const struct pl_plan *p, const struct pl_machine *m, struct strbuf *out)
{
	struct pl_process q = {.name = "predicted"};
	double us;

	q.span = pl_simulate(p, out->arena, &q.n, &us);
	pl_trace_processes(p, m, &q, 1, out);
}
