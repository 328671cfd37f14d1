/* Requests of a batch: which of them a part of the rows has, and what attention costs for them. */
#include "planner/planner.h"

bool pl_is_batch(const struct pl_batch *b)
{
	if (b->tokens < 1 || b->tokens > (int64_t)1 << 24)
		return false;
	if (!b->nrequest)
		return true;
	if (!b->cum || b->cum[0] || b->cum[b->nrequest] != b->tokens)
		return false;
	for (size_t i = 0; i < b->nrequest; i++)
		if (b->cum[i + 1] < b->cum[i] ||
		    (b->cached && (b->cached[i] < 0 || b->cached[i] > (int64_t)1 << 40)))
			return false;
	return true;
}

/* The request that row `row` is in. */
static size_t request_of(const struct pl_batch *b, int64_t row)
{
	size_t lo = 0, hi = b->nrequest;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (b->cum[mid] <= row)
			lo = mid;
		else
			hi = mid;
	}
	while (lo + 1 < b->nrequest && b->cum[lo + 1] <= row) /* requests of no rows */
		lo++;
	return lo;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

size_t pl_part_into(const struct pl_batch *b, int64_t row, int64_t rows, size_t *first,
                    int64_t *length, int64_t *cached, size_t room)
{
	int64_t end = row + rows, one[2] = {0, b->tokens};
	struct pl_batch whole = {.tokens = b->tokens, .nrequest = 1, .cum = one};
	size_t n = 0;

	*first = 0;
	if (!b->nrequest)
		b = &whole;
	if (rows < 1)
		return 0;
	*first = request_of(b, row);
	for (size_t i = *first; i < b->nrequest && b->cum[i] < end; i++, n++) {
		int64_t lo = b->cum[i], hi = b->cum[i + 1];

		if (length && n < room)
			length[n] = least(hi, end) - most(lo, row);
		if (cached && n < room)
			cached[n] = (b->cached ? b->cached[i] : 0) + most(lo, row) - lo;
	}
	return n;
}

struct pl_part pl_part_of(const struct pl_batch *b, int64_t row, int64_t rows, struct arena *a)
{
	struct pl_part p = {.row = row, .rows = rows};

	p.n = pl_part_into(b, row, rows, &p.first, NULL, NULL, 0);
	p.length = arena_news(a, int64_t, p.n);
	p.cached = arena_news(a, int64_t, p.n);
	pl_part_into(b, row, rows, &p.first, p.length, p.cached, p.n);
	return p;
}

/* Queries at positions [from, from + n) of a request, each of which sees what is before it and
 * itself, at most `window` keys. */
static void pairs_of(int64_t from, int64_t n, int64_t window, double *pairs, double *keys)
{
	double a = (double)from, m = (double)n, w = (double)window, grow = m;

	if (!window || from + n <= window) {
		*pairs += m * a + m * (m + 1) / 2;
		*keys += a + m;
		return;
	}
	grow = from < window ? w - a : 0; /* queries that see fewer than the window */
	*pairs += grow * a + grow * (grow + 1) / 2 + (m - grow) * w;
	*keys += a + m < w + m - 1 ? a + m : w + m - 1;
}

void pl_attention_pairs(const struct pl_batch *b, int64_t row, int64_t rows, int64_t window,
                        double *pairs, double *keys)
{
	int64_t end = row + rows;

	*pairs = *keys = 0;
	if (rows < 1)
		return;
	if (!b->nrequest) {
		pairs_of(row, rows, window, pairs, keys);
		return;
	}
	for (size_t i = request_of(b, row); i < b->nrequest && b->cum[i] < end; i++) {
		int64_t lo = most(b->cum[i], row), hi = least(b->cum[i + 1], end);
		int64_t before = b->cached ? b->cached[i] : 0;

		if (hi > lo)
			pairs_of(before + lo - b->cum[i], hi - lo, window, pairs, keys);
	}
}
