/* One run of a user's own kernels on simulated ranks. */
#include "tools/foreign.h"
#include <string.h>

static uint64_t mix(uint64_t x) /* splitmix64 */
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* Random bytes are small numbers in every element type of 16 or 32 bits: none is NaN or infinite. */
static void fill(struct sim *s, const struct foreign_buffer *b, uint64_t at, unsigned rank,
                 uint64_t seed, struct arena *a)
{
	uint8_t *data;

	if (b->fill == FOREIGN_UNDEFINED)
		return;
	data = arena_alloc(a, b->bytes + 4);
	for (uint64_t i = 0; i < b->bytes; i += 4) {
		uint32_t w = b->word;

		if (b->fill == FOREIGN_RANDOM)
			w = (uint32_t)mix(seed ^ (uint64_t)rank << 56 ^ i) & 0x3fff3fffu;
		memcpy(data + i, &w, 4);
	}
	sim_write(s, at, data, b->bytes);
}

static void make_buffers(const struct foreign *f, struct sim *s, struct sim_symmetric *at,
                         uint64_t seed, struct arena *a)
{
	for (unsigned k = 0; k < f->nbuffer; k++) {
		const struct foreign_buffer *b = &f->buffer[k];

		if (b->symmetric != FOREIGN_OWN)
			at[k] = sim_alloc_symmetric(s, b->bytes, b->symmetric == FOREIGN_MULTICAST,
			                            b->name);
		for (unsigned r = 0; r < f->ranks; r++) {
			if (b->symmetric == FOREIGN_OWN)
				at[k].uc[r] = sim_alloc(s, r, b->bytes, b->name);
			fill(s, b, at[k].uc[r], r, seed + k, a);
		}
	}
}

/* Arguments lie as the ABI has parameters: each at a multiple of its element's size. */
static uint32_t arguments(const struct foreign_launch *l, const struct sim_symmetric *at,
                          unsigned rank, unsigned nth, uint8_t *block)
{
	uint32_t n = 0;

	for (unsigned k = 0; k < l->narg; k++) {
		const struct foreign_arg *g = &l->arg[k];
		const struct sim_symmetric *b = &at[g->buffer];
		uint32_t align = g->size < 8 ? g->size : 8;
		uint64_t one[] = {
		        [FOREIGN_ADDRESS] = b->uc[rank] + g->offset,
		        [FOREIGN_OF_RANK] = b->uc[g->of] + g->offset,
		        [FOREIGN_PEERS] = 0,
		        [FOREIGN_MC] = b->mc + g->offset,
		        [FOREIGN_RANK] = rank,
		        [FOREIGN_LAUNCH] = nth,
		        [FOREIGN_VALUE] = g->bits,
		};

		n = (n + align - 1) / align * align;
		memcpy(block + n, g->kind == FOREIGN_PEERS ? b->uc : &one[g->kind], g->size);
		n += g->size;
	}
	return n;
}

static bool queue(const struct foreign *f, const struct ptx_module *m, struct sim *s,
                  const struct sim_symmetric *at)
{
	uint8_t block[FOREIGN_MAX_ARGS * 8 * SIM_MAX_RANKS];
	unsigned nth = 0;

	for (unsigned k = 0; k < f->nlaunch; k++) {
		const struct foreign_launch *l = &f->launch[k];
		const struct sim_kernel *entry = sim_load(s, m, l->entry);

		if (!entry)
			return false;
		for (unsigned i = 0; i < l->repeat; i++) {
			nth++;
			for (unsigned r = 0; r < f->ranks; r++) {
				uint32_t n = arguments(l, at, r, nth, block);

				if (l->ranks >> r & 1)
					sim_launch_dynamic(s, r, l->stream, entry, l->grid,
					                   l->block, l->shared, block, n);
			}
		}
	}
	return true;
}

/* The first byte that rank r has otherwise than rank 0; b->bytes: none. */
static uint64_t difference(const struct foreign_buffer *b, struct sim *s,
                           const struct sim_symmetric *at, unsigned r, struct arena *a)
{
	uint8_t *x = arena_alloc(a, b->bytes), *y = arena_alloc(a, b->bytes);
	uint64_t i = 0;

	sim_read(s, at->uc[0], x, b->bytes);
	sim_read(s, at->uc[r], y, b->bytes);
	while (i < b->bytes && x[i] == y[i])
		i++;
	return i;
}

static const char *expectation(const struct foreign *f, struct sim *s,
                               const struct sim_symmetric *at, struct arena *a)
{
	for (unsigned k = 0; k < f->nbuffer; k++) {
		const struct foreign_buffer *b = &f->buffer[k];

		for (unsigned r = 0; r < f->ranks; r++) {
			uint64_t i = 0;
			unsigned who = 0;

			while (b->written && i < b->bytes && sim_defined(s, at[k].uc[r] + i, 1))
				i++;
			if (b->written && i < b->bytes)
				return arena_printf(
				        a, "byte %llu of '%s' on rank %u was never written",
				        (unsigned long long)i, b->name, r);
			if (!b->same || (i = difference(b, s, &at[k], r, a)) == b->bytes)
				continue;
			return arena_printf(a,
			                    "byte %llu of '%s' differs between ranks 0 and %u; PTX "
			                    "line %u wrote "
			                    "it on rank 0, line %u on rank %u",
			                    (unsigned long long)i, b->name, r,
			                    sim_writer(s, at[k].uc[0] + i, &who),
			                    sim_writer(s, at[k].uc[r] + i, &who), r);
		}
	}
	return NULL;
}

bool foreign_run(const struct foreign *f, const struct ptx_module *m, const struct sim_options *o,
                 struct arena *a, const char **report, struct sim_stats *stats)
{
	struct sim_symmetric *at = arena_news(a, struct sim_symmetric, f->nbuffer + 1);
	struct sim *s = sim_new(a, o);
	struct strbuf b;

	*report = NULL;
	make_buffers(f, s, at, mix(o->seed), a);
	if (queue(f, m, s, at) && sim_run(s))
		*report = expectation(f, s, at, a);
	*stats = sim_stats(s);
	if (!sim_findings(s))
		return !*report;
	strbuf_init(&b, a);
	sim_render_findings(s, &b);
	*report = b.s;
	return false;
}
