/* From a spec to the image of a stage: which protocols its kernels can get, and all of them compiled. */
#pragma once
#include "runtime/image.h"

struct rt_variants_options {
	struct plait_compile_options compile; /* tp and target as they are; protocol NULL: by T */
	bool multicast;                       /* the ranks' buffers may have multicast addresses */
	bool nccl;                            /* NCCL carries the rows: no protocol but `local` */
	enum cg_pdl pdl;                      /* where the target has it */
	bool rows_in_memory;                  /* T is read from device memory */
	uint64_t max_rows;
	const struct cg_table *table; /* NULL: none */
};

/*
 * Fills *m, which is empty, and m->code.diagnostics, also on failure.  `scratch` is the caller's,
 * with its oom set, as is that of m->code.arena.  ST_INPUT, ST_USAGE, ST_INTERNAL: see the
 * diagnostics.
 */
enum status rt_variants_make(struct rt_image *m, const struct rt_variants_options *o,
                             struct arena *scratch);

/* All that the image depends on, as bytes in `a`: a key for the cache. */
struct rt_bytes rt_variants_key(const struct rt_variants_options *o, struct arena *a);
