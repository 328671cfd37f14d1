/*
 * An image with bytes changed: refused, or consistent and the same when written and read again.  The
 * input says what is changed: {offset, three bytes; value} from the start, and the length that is cut
 * off in its first byte.
 */
#include "tests/fuzz/fuzz.h"
#include "runtime/bundle.h"
#include <string.h>

static const char spec[] = "kernel k(x: bf16[T, 64] partial, inout r: bf16[T, 64] carried)\n"
                           "    -> y: bf16[T, 64] replicated\n"
                           "{\n"
                           "    h = all_reduce(x) + r;\n"
                           "    out r = h;\n"
                           "    out y = h;\n"
                           "}\n";

/* Made once, in memory that the runs do not give back. */
static struct rt_bytes original(void)
{
	static struct arena a;
	static struct rt_image m;
	static struct rt_bytes b;
	struct rt_variants_options o = {.max_rows = 2048};

	if (b.n)
		return b;
	arena_init(&a, 0);
	rt_image_init(&m);
	if (setjmp(a.oom) || setjmp(m.code.arena.oom))
		abort();
	o.compile = (struct plait_compile_options)PLAIT_COMPILE_OPTIONS_INIT;
	o.compile.text = spec;
	o.compile.text_len = sizeof spec - 1;
	o.compile.tp = 2;
	o.compile.target = "sm_90";
	MUST(rt_variants_make(&m, &o, &a) == ST_OK);
	b = rt_image_write(&m, &a);
	return b;
}

/* All that a stage does with an image before it meets a GPU. */
static void use(struct rt_image *m, struct arena *a)
{
	struct rt_bytes once = rt_image_write(m, a);

	for (uint32_t u = 0; u < m->nunit; u++)
		for (uint64_t T = 0; T <= m->max_rows; T = T * 3 + 1) {
			const struct rt_range *r = rt_image_range(m, u, T);
			const struct cg_plan *p = &m->variant[r->variant].k->plan;

			MUST(r->variant < m->nvariant);
			MUST(cg_grid(p, T, r->ctas) >= 1 && cg_grid(p, T, r->ctas) <= CG_MAX_CTAS);
			if (p->xchg_row)
				cg_exchange_bytes(p, T);
		}
	for (uint32_t v = 0; v < m->nvariant; v++)
		rt_image_most(m, v);
	MUST(once.n > 0);
	if (m->max_rows > 1) {
		MUST(rt_image_clip(m, m->max_rows / 2));
		MUST(rt_image_check(m));
	}
}

static void check(struct arena *a, const char *data, size_t size)
{
	const struct rt_bytes o = original();
	unsigned char *copy = arena_alloc(a, o.n);
	size_t n = size ? o.n - (unsigned char)data[0] % 2 * ((unsigned char)data[0] / 2) : o.n;
	struct rt_image m;

	memcpy(copy, o.p, o.n);
	for (size_t i = 1; i + 4 <= size; i += 4) {
		uint32_t at = (uint32_t)(unsigned char)data[i] << 16 |
		              (uint32_t)(unsigned char)data[i + 1] << 8 |
		              (unsigned char)data[i + 2];

		/* most of an image is PTX: the head is where the structure is */
		copy[at % (i % 8 == 1 ? o.n : 512)] = (unsigned char)data[i + 3];
	}
	rt_image_init(&m);
	memcpy(&m.code.arena.oom, &a->oom, sizeof a->oom);
	m.code.arena.limit = (size_t)256 << 20;
	if (rt_image_read(&m, (struct rt_bytes){copy, n}))
		use(&m, a);
	rt_image_free(&m);
}

FUZZ_IN_ARENA(check)
