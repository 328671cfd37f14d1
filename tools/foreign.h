/*
 * A kernel of the user's own, and how to launch it: what plait simulate reads (doc/simulator.md,
 * "Kernels of your own").  All of it is untrusted: sizes, counts and names are checked.
 */
#pragma once
#include "sim/sim.h"

enum { FOREIGN_MAX_BUFFERS = 64, FOREIGN_MAX_LAUNCHES = 64, FOREIGN_MAX_ARGS = 64 };
#define FOREIGN_MAX_BYTES (UINT64_C(1) << 28) /* of all buffers on all ranks */

enum foreign_fill { FOREIGN_UNDEFINED, FOREIGN_WORD, FOREIGN_RANDOM };
enum foreign_symmetric { FOREIGN_OWN, FOREIGN_PEER, FOREIGN_MULTICAST };

struct foreign_buffer { /* on every rank */
	const char *name;
	uint64_t bytes;
	enum foreign_symmetric symmetric;
	enum foreign_fill fill;
	uint32_t word;      /* FOREIGN_WORD: in every 32 bits */
	bool same, written; /* at the end: equal on all ranks; no byte undefined */
};

enum foreign_kind {
	FOREIGN_ADDRESS, /* u64: buffer, on the rank itself, plus offset */
	FOREIGN_OF_RANK, /* u64: buffer on rank `of` */
	FOREIGN_PEERS,   /* u64[ranks]: buffer on every rank */
	FOREIGN_MC,      /* u64: its multicast address */
	FOREIGN_RANK,    /* u32: the rank */
	FOREIGN_LAUNCH,  /* u32: the number of the launch, from 1 */
	FOREIGN_VALUE,   /* `size` bytes of `bits` */
};

struct foreign_arg {
	enum foreign_kind kind;
	unsigned buffer, of, size;
	uint64_t offset, bits;
};

struct foreign_launch {
	const char *entry;
	unsigned grid, block, shared, stream, repeat;
	uint32_t ranks; /* bit r: launched on rank r */
	struct foreign_arg *arg;
	unsigned narg;
};

struct foreign {
	const char *ptx; /* path */
	unsigned ranks;
	struct foreign_buffer *buffer;
	unsigned nbuffer;
	struct foreign_launch *launch;
	unsigned nlaunch;
};

/* Reads a description; NULL, with one sentence in *error. `path` is what ptx is relative to. */
struct foreign *foreign_read(struct arena *a, const char *text, size_t len, const char *path,
                             const char **error);

/*
 * Runs all launches once, under one schedule.  false: *report, a paragraph for people (findings of
 * the simulator, or what was expected of a buffer and is not so).
 */
bool foreign_run(const struct foreign *f, const struct ptx_module *m, const struct sim_options *o,
                 struct arena *a, const char **report, struct sim_stats *stats);
