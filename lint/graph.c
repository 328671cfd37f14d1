/* The graph of instructions: successors, predecessors, postdominators (Cooper, Harvey, Kennedy: A
 * simple, fast dominance algorithm). */
#include "lint/internal.h"
#include <string.h>

/* What searches may cost: each instruction this often, and more in small kernels. */
enum { STEPS = 1024, LEAST = 4096 };

bool lint_steps(struct lint_fn *f, uint64_t n)
{
	f->large |= n > f->steps;
	f->steps = f->large ? 0 : f->steps - n;
	return !f->large;
}

static bool ends(const struct ptx_insn *i)
{
	return i->op == PTX_ret || i->op == PTX_exit || i->op == PTX_trap;
}

static void successors(struct lint_fn *f)
{
	f->succ = arena_array(f->a, f->n + 1, sizeof *f->succ);
	f->bra_target = arena_news(f->a, uint32_t, f->n + 1);
	for (uint32_t i = 0; i <= f->n; i++) {
		const struct ptx_insn *x = i < f->n ? &f->fn->insn[i] : NULL;
		uint32_t label = LINT_NONE;

		f->succ[i][0] = f->succ[i][1] = f->bra_target[i] = LINT_NONE;
		if (!x)
			continue;
		if (x->op == PTX_bra && x->o[0].kind == PTX_LAB)
			label = f->fn->label[x->o[0].reg[0]].at;
		if (label != LINT_NONE && label > f->n)
			label = f->n;
		if (x->guard || (!ends(x) && x->op != PTX_bra))
			f->succ[i][0] = i + 1;
		if (x->op == PTX_bra)
			f->succ[i][1] = f->bra_target[i] = label == LINT_NONE ? f->n : label;
		else if (ends(x))
			f->succ[i][1] = f->n;
	}
}

static void predecessors(struct lint_fn *f)
{
	uint32_t *at = arena_news(f->a, uint32_t, f->n + 3);

	/* Counted two places up, so that filling moves each start to where it belongs. */
	for (uint32_t i = 0; i < f->n; i++)
		for (unsigned k = 0; k < 2; k++)
			if (f->succ[i][k] != LINT_NONE)
				at[f->succ[i][k] + 2]++;
	for (uint32_t i = 1; i < f->n + 3; i++)
		at[i] += at[i - 1];
	f->pred = arena_news(f->a, uint32_t, at[f->n + 2] + 1);
	for (uint32_t i = 0; i < f->n; i++)
		for (unsigned k = 0; k < 2; k++)
			if (f->succ[i][k] != LINT_NONE)
				f->pred[at[f->succ[i][k] + 1]++] = i;
	f->pred_at = at;
}

/* Nodes in postorder of the backward graph from the end; order[] holds each one's number. */
static uint32_t backward_postorder(const struct lint_fn *f, uint32_t *list, uint32_t *order)
{
	uint32_t *stack = arena_news(f->a, uint32_t, f->n + 1),
	         *next = arena_news(f->a, uint32_t, f->n + 1);
	uint32_t n = 0, depth = 0;
	bool *seen = arena_news(f->a, bool, f->n + 1);

	stack[depth++] = f->n;
	seen[f->n] = true;
	next[f->n] = f->pred_at[f->n];
	while (depth) {
		uint32_t i = stack[depth - 1];

		if (next[i] < f->pred_at[i + 1]) {
			uint32_t p = f->pred[next[i]++];

			if (!seen[p]) {
				seen[p] = true;
				next[p] = f->pred_at[p];
				stack[depth++] = p;
			}
			continue;
		}
		order[i] = n;
		list[n++] = i;
		depth--;
	}
	return n;
}

static uint32_t common(const uint32_t *after, const uint32_t *order, uint32_t a, uint32_t b)
{
	while (a != b) {
		while (order[a] < order[b])
			a = after[a];
		while (order[b] < order[a])
			b = after[b];
	}
	return a;
}

/* Nodes that never reach the end (a loop without exit) have none. */
static void postdominators(struct lint_fn *f)
{
	uint32_t *list = arena_news(f->a, uint32_t, f->n + 1),
	         *order = arena_news(f->a, uint32_t, f->n + 1);
	uint32_t n = backward_postorder(f, list, order);
	bool changed = true;

	f->after = arena_news(f->a, uint32_t, f->n + 1);
	for (uint32_t i = 0; i <= f->n; i++)
		f->after[i] = LINT_NONE;
	f->after[f->n] = f->n;
	while (changed) {
		changed = false;
		for (uint32_t k = n; k-- > 0;) {
			uint32_t i = list[k], is = LINT_NONE;

			for (unsigned s = 0; s < 2 && i != f->n; s++) {
				uint32_t to = f->succ[i][s];

				if (to != LINT_NONE && f->after[to] != LINT_NONE)
					is = is == LINT_NONE ? to : common(f->after, order, is, to);
			}
			if (i != f->n && is != f->after[i]) {
				f->after[i] = is;
				changed = true;
			}
		}
	}
}

void lint_graph(struct lint_fn *f)
{
	f->stack = arena_news(f->a, uint32_t, f->n + 2);
	f->list = arena_news(f->a, uint32_t, f->n + 2);
	f->stamp = arena_news(f->a, uint32_t, f->n + 1);
	f->steps = (uint64_t)(f->n + LEAST) * STEPS;
	successors(f);
	predecessors(f);
	postdominators(f);
}

/* The k-th next node; LINT_NONE behind the last (a successor that is none is skipped). */
static uint32_t neighbour(const struct lint_fn *f, uint32_t i, bool backward, unsigned k)
{
	if (backward)
		return f->pred_at[i] + k < f->pred_at[i + 1] ? f->pred[f->pred_at[i] + k]
		                                             : LINT_NONE;
	if (f->succ[i][0] == LINT_NONE)
		k++;
	return k < 2 ? f->succ[i][k] : LINT_NONE;
}

void lint_reach(const struct lint_fn *f, uint32_t from, bool backward,
                bool (*stop)(const struct lint_fn *f, uint32_t i), bool *mark)
{
	uint32_t depth = 0, to;

	f->stack[depth++] = from;
	while (depth) {
		uint32_t i = f->stack[--depth];

		if (i != from && i < f->n && stop && stop(f, i))
			continue;
		for (unsigned k = 0; (to = neighbour(f, i, backward, k)) != LINT_NONE; k++)
			if (!mark[to]) {
				mark[to] = true;
				f->stack[depth++] = to;
			}
	}
}

bool lint_before(struct lint_fn *f, uint32_t from,
                 bool (*stop)(const struct lint_fn *f, uint32_t i), uint32_t *list, uint32_t *n)
{
	uint32_t to;

	*n = 0;
	f->turn++;
	for (uint32_t done = 0, i = from;; i = list[done++]) {
		if (!lint_steps(f, 1))
			return false;
		for (unsigned k = 0;
		     (i == from || !stop(f, i)) && (to = neighbour(f, i, true, k)) != LINT_NONE;
		     k++)
			if (f->stamp[to] != f->turn) {
				f->stamp[to] = f->turn;
				list[(*n)++] = to;
			}
		if (done == *n)
			return true;
	}
}
