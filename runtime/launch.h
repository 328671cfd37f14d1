/* One launch in the making (runtime/launch.c), and the launch where NCCL carries the rows. */
#pragma once
#include "runtime/stage.h"

struct rt_launching {
	struct plait_launch l; /* as much as the caller gave */
	uint32_t unit, variant;
	unsigned rank, ctas; /* ctas: wished for */
	const struct rt_kernel *k;
	plait_workspace *w; /* may be NULL */
	bool fixed;         /* the variant is given */
	bool plain;         /* not a dependent launch */
};

/*
 * plait_launch of a variant of the kernel, whatever T (RT_NONE: of T's), and not as a dependent launch: behind a wait for
 * another stream there is no launch that it could depend on.
 */
enum plait_status rt_launch_variant(plait_stage *s, const struct plait_launch *l, uint32_t variant);

/* Sets the communicator's message, and returns st. */
enum plait_status rt_launch_refuse(plait_stage *s, enum plait_status st, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/* Keys of cuLaunchKernelEx's `extra`. */
enum { RT_LAUNCH_END = 0, RT_LAUNCH_BLOCK = 1, RT_LAUNCH_BYTES = 2 };

/* The argument block, x->k->info.argument_bytes long; what was checked is taken for good. */
void rt_launch_arguments(const plait_stage *s, const struct rt_launching *x, unsigned char *block);

/* The kernel alone. */
enum plait_status rt_launch_kernel(plait_stage *s, const struct rt_launching *x);

/* Sums, kernel, gathers. */
enum plait_status rt_launch_nccl(plait_stage *s, const struct rt_launching *x);

/* Bytes of the padded rows that launches of the stage need on each rank; 0: none. */
size_t rt_nccl_bytes(const plait_stage *s);

/* Launches of ranks of one process, held back until the last of them comes (runtime/nccl_rows.c). */
struct rt_held {
	struct rt_launching x;
	struct plait_operand *operand; /* as many as the largest kernel's */
	bool here;
};
