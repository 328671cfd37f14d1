/*
 * Loops by strongly connected components (Tarjan); the loops inside one are the components that
 * remain when its entry is taken out.  Iterative, and within lint_steps: text decides the depth.
 */
#include "lint/internal.h"
#include <string.h>

enum { COST = 8 /* of a node, in steps */, MOST_WAYS = 16 };

struct tarjan {
	struct lint_fn *f;
	const uint32_t *member; /* of each node: the set it is searched in; 0: none */
	uint32_t *index, *low, *stack, *call, *edge, *way;
	bool *on, *in_way;
	uint32_t n, depth;
};

struct work { /* a set of nodes to look for loops in */
	const uint32_t *node;
	uint32_t n;
	struct work *next;
};

static bool loops_to_itself(const struct lint_fn *f, uint32_t i)
{
	return f->succ[i][0] == i || f->succ[i][1] == i;
}

/* The node that is entered from outside; else the first. */
static uint32_t entry_of(const struct lint_fn *f, const uint32_t *node, uint32_t n, const bool *in)
{
	uint32_t first = node[0];

	for (uint32_t k = 0; k < n; k++)
		first = node[k] < first ? node[k] : first;
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t e = f->pred_at[node[k]]; e < f->pred_at[node[k] + 1]; e++)
			if (!in[f->pred[e]])
				return node[k];
	return first;
}

/*
 * Loops that begin at the same instruction are one component; each way back makes one: what leads
 * to it without passing the entry.
 */
static void each_way_back(const struct tarjan *t, uint32_t entry, uint32_t n, const bool *in,
                          lint_loop_fn *each)
{
	struct lint_fn *f = t->f;
	bool *part = t->in_way;
	uint32_t *node = t->way, ways = 0;

	for (uint32_t e = f->pred_at[entry]; e < f->pred_at[entry + 1]; e++)
		ways += in[f->pred[e]];
	if (ways < 2 || ways > MOST_WAYS)
		return;
	for (uint32_t e = f->pred_at[entry]; e < f->pred_at[entry + 1]; e++) {
		uint32_t have = 0, done = 0;

		if (!in[f->pred[e]] || f->pred[e] == entry || !lint_steps(f, COST * (uint64_t)n))
			continue;
		node[have++] = entry;
		node[have++] = f->pred[e];
		part[entry] = part[f->pred[e]] = true;
		for (done = 1; done < have; done++)
			for (uint32_t k = f->pred_at[node[done]]; k < f->pred_at[node[done] + 1];
			     k++)
				if (in[f->pred[k]] && !part[f->pred[k]]) {
					part[f->pred[k]] = true;
					node[have++] = f->pred[k];
				}
		if (have < n)
			each(f, node, have, part);
		while (have)
			part[node[--have]] = false;
	}
}

static void component(struct tarjan *t, uint32_t root, struct work **queue, bool *in,
                      lint_loop_fn *each)
{
	struct lint_fn *f = t->f;
	uint32_t from = t->depth, n, *node, entry;
	struct work *w;

	do
		t->on[t->stack[--from]] = false;
	while (t->stack[from] != root);
	n = t->depth - from;
	t->depth = from;
	if (n == 1 && !loops_to_itself(f, root))
		return;
	node = arena_news(f->a, uint32_t, n);
	memcpy(node, t->stack + from, n * sizeof *node);
	for (uint32_t k = 0; k < n; k++)
		in[node[k]] = true;
	each(f, node, n, in);
	entry = entry_of(f, node, n, in);
	each_way_back(t, entry, n, in, each);
	for (uint32_t k = 0; k < n; k++)
		in[node[k]] = false;
	if (n == 1)
		return;
	for (uint32_t k = 0; k < n; k++)
		if (node[k] == entry)
			node[k] = node[n - 1];
	w = arena_new(f->a, struct work);
	*w = (struct work){.node = node, .n = n - 1, .next = *queue};
	*queue = w;
}

/* One step down or up the search; what it has to find is in index, low and edge. */
static void search(struct tarjan *t, uint32_t start, struct work **queue, bool *in,
                   lint_loop_fn *each)
{
	uint32_t depth = 0, set = t->member[start];

	t->call[depth++] = start;
	while (depth) {
		uint32_t i = t->call[depth - 1], to;

		if (!t->index[i]) {
			t->index[i] = t->low[i] = ++t->n;
			t->stack[t->depth++] = i;
			t->on[i] = true;
			t->edge[i] = 0;
		}
		if (t->edge[i] < 2) {
			to = t->f->succ[i][t->edge[i]++];
			if (to == LINT_NONE || t->member[to] != set)
				continue;
			if (!t->index[to])
				t->call[depth++] = to;
			else if (t->on[to] && t->index[to] < t->low[i])
				t->low[i] = t->index[to];
			continue;
		}
		depth--;
		if (depth && t->low[i] < t->low[t->call[depth - 1]])
			t->low[t->call[depth - 1]] = t->low[i];
		if (t->low[i] == t->index[i])
			component(t, i, queue, in, each);
	}
}

void lint_loops(struct lint_fn *f, lint_loop_fn *each)
{
	uint32_t n = f->n + 1, set = 0, *member = arena_news(f->a, uint32_t, n);
	uint32_t *all = arena_news(f->a, uint32_t, n);
	struct tarjan t = {.f = f, .member = member};
	struct work first = {.node = all, .n = n}, *queue = &first;
	bool *in = arena_news(f->a, bool, n);

	t.index = arena_news(f->a, uint32_t, n);
	t.low = arena_news(f->a, uint32_t, n);
	t.stack = arena_news(f->a, uint32_t, n);
	t.call = arena_news(f->a, uint32_t, n);
	t.edge = arena_news(f->a, uint32_t, n);
	t.on = arena_news(f->a, bool, n);
	t.way = arena_news(f->a, uint32_t, n);
	t.in_way = arena_news(f->a, bool, n);
	for (uint32_t i = 0; i < n; i++)
		all[i] = i;
	while (queue && lint_steps(f, COST * (uint64_t)queue->n)) {
		struct work w = *queue;

		queue = queue->next;
		set++;
		for (uint32_t k = 0; k < w.n; k++) {
			member[w.node[k]] = set;
			t.index[w.node[k]] = 0;
		}
		t.n = t.depth = 0;
		for (uint32_t k = 0; k < w.n; k++)
			if (!t.index[w.node[k]])
				search(&t, w.node[k], &queue, in, each);
	}
}
