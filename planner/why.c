/* The one line that says why a plan is as it is. */
#include "planner/search.h"

/* What splitting costs: the compute of both parts beyond that of all rows, and the operation that
 * costs most. */
struct cost {
	double whole, parts, worst;
	const struct pl_op *op;
	double w, w1, w2;
	bool mem;
};

static void of_shape(struct pl_search *s, const struct pl_stage *first,
                     const struct pl_stage *second, double n, struct cost *c)
{
	for (uint32_t k = 0; k < first->nop; k++) {
		const struct pl_op_plan *a = &first->op[k], *b = &second->op[k];
		double more = n * (a->us + b->us - a->us_before);

		c->whole += n * a->us_before;
		c->parts += n * (a->us + b->us);
		if (c->op && more <= c->worst)
			continue;
		c->worst = more;
		c->op = a->op;
		c->w = a->waves_before;
		c->w1 = a->gemm.run.waves;
		c->w2 = b->gemm.run.waves;
		c->mem = a->gemm.run.mem >= a->gemm.run.waves * a->gemm.run.tau;
	}
	(void)s;
}

/* The parts of each shape, alone: what the split itself costs, without any collective beside. */
static struct cost cost_of(struct pl_search *s, const struct planner *p, struct arena *a,
                           uint32_t i)
{
	struct cost c = {0};

	for (uint32_t g = 0; g < p->model->nshape; g++) {
		struct pl_stage st[2] = {{0}, {0}};
		struct pl_op_plan *whole;

		if (!p->model->shape[g].nop)
			continue;
		whole = arena_news(a, struct pl_op_plan, p->model->shape[g].nop);
		pl_whole_compute(s, g, whole);
		for (uint32_t h = 0; h < 2; h++) {
			struct pl_pair alone = {g, h, -1, 1};

			st[h].nop = p->model->shape[g].nop;
			st[h].op = arena_news(a, struct pl_op_plan, st[h].nop);
			pl_best_stage(s, &alone, i, st[h].op);
			for (uint32_t k = 0; k < st[h].nop; k++) {
				st[h].op[k].waves_before = whole[k].gemm.run.waves;
				st[h].op[k].us_before = whole[k].us;
			}
		}
		of_shape(s, &st[0], &st[1], p->model->shape[g].count, &c);
	}
	return c;
}

static const char *culprit(const struct cost *c, struct arena *a)
{
	if (!c->op)
		return "";
	if (c->op->kind != PL_GEMM && c->op->kind != PL_GROUPED)
		return arena_printf(a, " (most of it '%s')", c->op->name);
	if (c->mem)
		return arena_printf(a, " ('%s' reads its weights twice)", c->op->name);
	return arena_printf(a, " ('%s': %.0f waves become %.0f + %.0f)", c->op->name, c->w, c->w1,
	                    c->w2);
}

static const char *no_row(const struct pl_plan *plan, const struct planner *p, struct arena *a)
{
	if (p->model->tp < 2)
		return "no split: one rank does not communicate";
	if (p->o.no_split)
		return "no split: it was excluded";
	return arena_printf(
	        a, "no split: %lld rows are no more than the %u that both parts are cut at",
	        (long long)plan->tokens, p->o.align ? p->o.align : 128);
}

static const char *chosen(const struct pl_plan *plan, struct arena *a)
{
	double whole = plan->mode_us[PL_FUSED], hidden = 0, all = 0;

	for (uint32_t i = 0; i < plan->nstage; i++) {
		all += plan->stage[i].count * plan->stage[i].collective;
		hidden +=
		        plan->stage[i].count * (plan->stage[i].collective - plan->stage[i].exposed);
	}
	return arena_printf(
	        a,
	        "split at %lld of %lld rows: %.1f %% less time than fused-only, %.0f %% "
	        "of the communication is hidden",
	        (long long)plan->split, (long long)plan->tokens, 100 * (whole - plan->us) / whole,
	        all > 0 ? 100 * hidden / all : 0);
}

const char *pl_why(const struct pl_plan *plan, const struct planner *p, struct pl_search *s,
                   struct arena *a)
{
	double whole = plan->mode_us[PL_FUSED] < plan->mode_us[PL_UNFUSED]
	                       ? plan->mode_us[PL_FUSED]
	                       : plan->mode_us[PL_UNFUSED];
	struct cost c;
	double comm;

	if (p->o.forced)
		return arena_printf(a, "%s, as asked for", pl_mode_name[plan->mode]);
	if (plan->mode == PL_SPLIT)
		return chosen(plan, a);
	if (!s->ncand)
		return no_row(plan, p, a);
	c = cost_of(s, p, a, (uint32_t)(plan->best_split / s->align) - 1);
	comm = whole - c.whole;
	return arena_printf(a,
	                    "no split: two parts compute %.1f %% longer%s, and the collectives are "
	                    "%.1f %%; the best, at %lld of %lld rows, would take %.1f %% %s",
	                    100 * (c.parts - c.whole) / c.whole, culprit(&c, a), 100 * comm / whole,
	                    (long long)plan->best_split, (long long)plan->tokens,
	                    100 *
	                            (plan->best_split_us < whole ? whole - plan->best_split_us
	                                                         : plan->best_split_us - whole) /
	                            whole,
	                    plan->best_split_us < whole ? "less, within the margin" : "more");
}
