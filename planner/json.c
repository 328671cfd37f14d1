/* A plan as one JSON document: the same bytes on every rank and in every run. */
#include "planner/show.h"

static void op_json(const struct pl_op_plan *o, struct strbuf *b)
{
	strbuf_printf(
	        b,
	        "{\"name\":\"%s\",\"kind\":\"%s\",\"step\":%u,\"rows\":%lld,\"start_us\":%.3f,"
	        "\"us\":%.3f",
	        o->op->name, pl_kind_name[o->op->kind], o->op->step, (long long)o->rows, o->start,
	        o->us);
	if (o->op->kind == PL_GEMM || o->op->kind == PL_GROUPED)
		strbuf_printf(
		        b,
		        ",\"n\":%lld,\"k\":%lld,\"sm_target\":%u,\"tile\":[%u,%u],\"cluster\":[%u,"
		        "%u],\"split_k\":%u,\"waves_before\":%.6g,\"waves_after\":%.6g,"
		        "\"last_wave\":%.4f",
		        (long long)o->op->n, (long long)o->op->k, o->sm_target, o->gemm.fact.bm,
		        o->gemm.fact.bn, o->gemm.fact.cm, o->gemm.fact.cn, o->gemm.fact.splitk,
		        o->waves_before, o->gemm.run.waves, o->gemm.tail);
	strbuf_puts(b, "}");
}

static void stage_json(const struct pl_plan *p, const struct pl_stage *st, struct strbuf *b)
{
	char name[16];

	strbuf_printf(
	        b,
	        "{\"name\":\"%s\",\"part\":%u,\"row\":%lld,\"rows\":%lld,\"times\":%u,\"us\":%.3f,"
	        "\"compute_us\":%.3f",
	        pl_stage_name(p, st->shape, st->half, name), st->half, (long long)st->row,
	        (long long)st->rows, st->count, st->us, st->compute);
	if (st->kernel) {
		strbuf_printf(b,
		              ",\"collective\":{\"kernel\":\"%s\",\"of\":\"%s\",\"overlaps\":%s,"
		              "\"rows\":%lld,\"ctas\":%u,\"us\":%.3f,\"exposed_us\":%.3f}",
		              st->kernel, pl_stage_name(p, st->kernel_shape, st->kernel_half, name),
		              st->overlap ? "true" : "false", (long long)st->kernel_rows, st->ctas,
		              st->collective, st->exposed);
	} else {
		strbuf_puts(b, ",\"collective\":null");
	}
	strbuf_puts(b, ",\"operations\":[");
	for (uint32_t k = 0; k < st->nop; k++) {
		strbuf_puts(b, k ? "," : "");
		op_json(&st->op[k], b);
	}
	strbuf_puts(b, "]}");
}

void pl_json(const struct pl_plan *p, const struct pl_machine *m, struct strbuf *out)
{
	strbuf_printf(
	        out,
	        "{\"model\":\"%s\",\"machine\":\"%s\",\"tp\":%u,\"tokens\":%lld,\"mode\":\"%s\","
	        "\"why\":\"%s\",\"us\":%.3f,\"hash\":\"%016llx\",\"modes\":{",
	        p->model->name, m->name, p->model->tp, (long long)p->tokens, pl_mode_name[p->mode],
	        p->why, p->us, (unsigned long long)p->hash);
	for (unsigned i = 0; i < PL_NMODES; i++)
		if (i != PL_SPLIT || p->best_split)
			strbuf_printf(out, "%s\"%s\":%.3f", i ? "," : "", pl_mode_name[i],
			              p->mode_us[i]);
	strbuf_printf(
	        out,
	        "},\"split\":%lld,\"best_split\":%lld,\"own_rows\":%s,\"row_base\":[%lld,%lld],"
	        "\"residual_base\":[%lld,%lld],\"last_collective\":{\"us\":%.3f,\"ctas\":%u},"
	        "\"stages\":[",
	        (long long)p->split, (long long)p->best_split, p->own_rows ? "true" : "false",
	        (long long)p->row_base[0], (long long)p->row_base[1],
	        (long long)p->residual_base[0], (long long)p->residual_base[1], p->tail_us,
	        p->tail_ctas);
	for (uint32_t i = 0; i < p->nstage; i++) {
		strbuf_puts(out, i ? "," : "");
		stage_json(p, &p->stage[i], out);
	}
	strbuf_puts(out, "],\"schedule\":[");
	for (uint32_t k = 0; k < p->nseq; k++)
		strbuf_printf(out, "%s%u", k ? "," : "", p->seq[k]);
	strbuf_puts(out, "]}");
}
