/*
 * The branches on a thread's number that decide whether an instruction runs: those of which one side
 * alone meets it before both sides join again.  Each branch is followed once, and noted where it
 * decides.
 */
#include "lint/internal.h"

enum { MOST_KEPT = 16 };

struct lint_guard { /* the branches that decide one instruction: each is 2 * branch + side */
	unsigned n;
	uint32_t branch[MOST_KEPT];
};

struct region {         /* what is met from the sides of a branch */
	uint8_t *met;   /* by instruction: a bit a side */
	uint32_t *list; /* all that are met */
	uint32_t n, depth;
};

static bool on_thread(const struct lint_fn *f, const struct ptx_insn *x)
{
	return x->guard && f->reg[lint_reg(f, PTX_C_PRED, x->guard - 1)].facts & LINT_THREAD;
}

static void meet(struct lint_fn *f, struct region *r, uint32_t at, uint8_t bit)
{
	if (r->met[at] & bit)
		return;
	if (!r->met[at])
		r->list[r->n++] = at;
	r->met[at] |= bit;
	f->stack[r->depth++] = at;
}

/* false: there are no steps left. */
static bool follow(struct lint_fn *f, struct region *r, uint32_t b, unsigned side)
{
	const uint32_t join = f->after[b], first = f->succ[b][side];
	const uint8_t bit = (uint8_t)(1u << side);

	if (first == join || first == LINT_NONE)
		return true;
	r->depth = 0;
	meet(f, r, first, bit);
	while (r->depth) {
		const uint32_t at = f->stack[--r->depth];

		if (!lint_steps(f, 1))
			return false;
		for (unsigned k = 0; k < 2; k++) {
			const uint32_t to = f->succ[at][k];

			if (to != LINT_NONE && to != join && to != b)
				meet(f, r, to, bit);
		}
	}
	return true;
}

static void note(struct lint_fn *f, struct region *r, uint32_t b)
{
	for (uint32_t k = 0; k < r->n; k++) {
		struct lint_guard *g = &f->guard[r->list[k]];
		const uint8_t met = r->met[r->list[k]];

		if (met != 3 && g->n < MOST_KEPT)
			g->branch[g->n++] = 2 * b + (met == 2);
		r->met[r->list[k]] = 0;
	}
	r->n = 0;
}

static void find_all(struct lint_fn *f)
{
	struct region r = {.n = 0};

	f->guard = arena_news(f->a, struct lint_guard, f->n + 1);
	r.met = arena_news(f->a, uint8_t, f->n + 1);
	r.list = arena_news(f->a, uint32_t, f->n + 1);
	for (uint32_t b = 0; b < f->n; b++) {
		const struct ptx_insn *x = &f->fn->insn[b];

		if (x->op != PTX_bra || !on_thread(f, x))
			continue;
		if (!follow(f, &r, b, 0) || !follow(f, &r, b, 1))
			return;
		note(f, &r, b);
	}
}

unsigned lint_guards(struct lint_fn *f, uint32_t i, uint32_t *guard, unsigned max)
{
	const struct ptx_insn *x = &f->fn->insn[i];
	unsigned n = 0;

	if (!f->guard)
		find_all(f);
	if (x->op != PTX_bra && n < max && on_thread(f, x))
		guard[n++] = UINT32_MAX - 2 * x->guard - x->guard_not;
	for (unsigned k = 0; k < f->guard[i].n && n < max; k++)
		guard[n++] = f->guard[i].branch[k];
	return n;
}
