/*
 * A plan's schedule as events on two streams: each stage waits for what it reads, each stream runs
 * one thing at a time.  The lockstep's sum says the same; this says when each thing runs.
 */
#include "planner/planner.h"

enum { COMPUTE, COLLECTIVE };

struct task {
	unsigned stream;
	double us, delay; /* delay: of the wait for another stream's event */
	int64_t dep[2];   /* tasks; -1: none */
	const struct pl_stage *stage;
	uint32_t at;
	double start, end;
	bool done;
};

struct list {
	struct arena *a;
	struct task *t;
	size_t n, cap;
};

static int64_t add(struct list *l, struct task t)
{
	l->t = arena_grow(l->a, l->t, l->n, &l->cap, l->n + 1, sizeof *l->t);
	l->t[l->n] = t;
	return (int64_t)l->n++;
}

/* Step k: its compute waits for the collective of its own part's last segment, two steps before; the
 * collective of step k - 1 is issued beside it. */
static void overlapped(const struct pl_plan *p, struct list *l)
{
	int64_t c = -1, x1 = -1, x2 = -1; /* compute k - 1; collectives k - 2 and k - 1 */
	const struct pl_stage *last;

	for (uint32_t k = 0; k < p->nseq; k++) {
		const struct pl_stage *st = &p->stage[p->seq[k]];
		double join =
		        st->us - (st->compute > st->collective ? st->compute : st->collective);
		int64_t before = c;
		struct task x = {.stream = COLLECTIVE,
		                 .us = st->collective,
		                 .delay = join,
		                 .dep = {c, -1},
		                 .stage = st,
		                 .at = k};

		c = add(l, (struct task){.stream = COMPUTE,
		                         .us = st->compute,
		                         .delay = join,
		                         .dep = {before, x1},
		                         .stage = st,
		                         .at = k});
		x2 = st->kernel ? add(l, x) : -1;
		x1 = x2;
	}
	last = &p->stage[p->seq[p->nseq - 1]];
	if (p->tail_us > 0)
		add(l, (struct task){.stream = COLLECTIVE,
		                     .us = p->tail_us,
		                     .dep = {c, -1},
		                     .stage = last,
		                     .at = p->nseq});
}

static void one_by_one(const struct pl_plan *p, struct list *l)
{
	int64_t before = -1;

	for (uint32_t k = 0; k < p->nseq; k++) {
		const struct pl_stage *st = &p->stage[p->seq[k]];

		before = add(l, (struct task){.stream = COMPUTE,
		                              .us = st->compute,
		                              .dep = {before, -1},
		                              .stage = st,
		                              .at = k});
		if (st->kernel)
			before = add(l, (struct task){.stream = COLLECTIVE,
			                              .us = st->collective,
			                              .dep = {before, -1},
			                              .stage = st,
			                              .at = k});
	}
}

/* Each stream takes its next task when what that waits for is done. */
static double run(struct list *l)
{
	size_t next[2] = {0, 0}, left = l->n;
	double now[2] = {0, 0}, end = 0;

	while (left) {
		size_t before = left;

		for (unsigned s = 0; s < 2; s++)
			for (;;) {
				struct task *t;
				bool ready = true;

				while (next[s] < l->n && l->t[next[s]].stream != s)
					next[s]++;
				if (next[s] == l->n)
					break;
				t = &l->t[next[s]];
				t->start = now[s];
				for (unsigned d = 0; d < 2; d++) {
					if (t->dep[d] < 0)
						continue;
					ready &= l->t[t->dep[d]].done;
					if (l->t[t->dep[d]].end > t->start)
						t->start = l->t[t->dep[d]].end;
				}
				if (!ready)
					break;
				t->start += t->delay;
				t->end = now[s] = t->start + t->us;
				t->done = true;
				end = t->end > end ? t->end : end;
				next[s]++;
				left--;
			}
		if (left == before) /* cannot be: dependencies point backwards */
			return -1;
	}
	return end;
}

struct pl_span *pl_simulate(const struct pl_plan *p, struct arena *a, size_t *n, double *us)
{
	struct list l = {.a = a};
	struct pl_span *span;
	size_t count = 0;

	if (p->mode == PL_SPLIT)
		overlapped(p, &l);
	else
		one_by_one(p, &l);
	*us = run(&l);
	for (size_t i = 0; i < l.n; i++)
		count += l.t[i].stream == COMPUTE ? l.t[i].stage->nop : 1;
	span = arena_news(a, struct pl_span, count);
	*n = 0;
	for (size_t i = 0; i < l.n; i++) {
		const struct task *t = &l.t[i];
		const struct pl_stage *st = t->stage;

		if (t->stream == COLLECTIVE) {
			const bool last = t->at == p->nseq;
			const char *name =
			        last ? p->model->shape[st->shape].tail.kernel : st->kernel;

			span[(*n)++] = (struct pl_span){.stream = COLLECTIVE,
			                                .name = name,
			                                .stage = st,
			                                .at = t->at,
			                                .start = t->start,
			                                .us = t->us,
			                                .ctas = last ? p->tail_ctas : st->ctas,
			                                .exposed = last ? t->us : st->exposed};
			continue;
		}
		for (uint32_t k = 0; k < st->nop; k++)
			span[(*n)++] = (struct pl_span){.stream = COMPUTE,
			                                .name = st->op[k].op->name,
			                                .stage = st,
			                                .op = &st->op[k],
			                                .at = t->at,
			                                .start = t->start + st->op[k].start,
			                                .us = st->op[k].us};
	}
	return span;
}
