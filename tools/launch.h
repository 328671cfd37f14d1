/*
 * Launching kernels on simulated ranks: the memory that protocols keep their state in, and a
 * kernel's argument block.
 */
#pragma once
#include "codegen/codegen.h"
#include "sim/sim.h"

struct vf_memory {
	struct sim *sim;
	unsigned tp;
	struct sim_symmetric ws;
	struct sim_symmetric xchg[CG_NPUSH]; /* one set of addresses a set of push state */
	uint64_t xchg_bytes[CG_NPUSH];       /* 0: no kernel needs it */
	uint64_t rows_at[SIM_MAX_RANKS]; /* T in device memory, for kernels that read it there */
	uint64_t limit_ns;               /* longest spin */
};

/*
 * Allocates what the kernels k[0..n) need for launches of at most `rows` rows, and makes it ready
 * by vf_memory_reset.
 */
void vf_memory_new(struct vf_memory *m, struct sim *s, unsigned tp, uint64_t limit_ns,
                   const struct cg_kernel *const *k, unsigned n, uint64_t rows, struct arena *a);

/* The collective reset: the workspace zeroed, or with epochs and launch numbers about to wrap; the
 * exchange buffers filled. */
void vf_memory_reset(const struct vf_memory *m, bool wrap, struct arena *a);

/*
 * The argument block of a launch on `rank`, k->param_bytes long, in `a`.  at[p]: where the kernel's
 * parameter p is.  A T in device memory is the caller's to write there.
 */
uint8_t *vf_arguments(const struct vf_memory *m, const struct cg_kernel *k,
                      const struct sim_symmetric *at, uint64_t T, unsigned rank, struct arena *a);

/* The abort record of a rank in words, in `a`; NULL: that rank has not aborted. */
const char *vf_abort_text(const struct vf_memory *m, unsigned rank, struct arena *a);
