/*
 * Bulk copies and mbarriers of a CTA: what is under way, and what each warp knows to be over.
 *
 * Knowledge is what orders: a warp may touch the destination of a copy when it has seen the
 * mbarrier's phase complete, or is ordered by barriers behind a warp that has; likewise for the
 * sources of bulk stores and wait_group.  So a missing wait is found in every schedule, not only
 * when the copy happens to be late.
 */
#pragma once
#include "sim/internal.h"

enum { SIM_MBARS = 64, SIM_ISSUERS = 256, SIM_PIECE = 16 };

struct sim_know {
	uint32_t phases[SIM_MBARS];    /* of an mbarrier: this many are complete */
	uint32_t groups[SIM_ISSUERS];  /* of an issuing thread: this many bulk groups have been read
	                               */
	uint32_t written[SIM_ISSUERS]; /* and this many are complete */
};

struct sim_mbar {
	uint32_t at; /* in shared memory */
	uint32_t count, pending, phase;
	int64_t tx; /* bytes that are still to come */
	bool valid, fenced;
	uint16_t init_thread;
	uint32_t init_clock, init_line;
	/* what arrivals bring, and what complete phases give to those who wait */
	uint32_t clock[2][SIM_MAX_WARPS];
	struct sim_know know[2];
};

struct sim_issuer { /* a thread that has issued bulk stores */
	unsigned thread;
	uint32_t open;             /* stores of the group that is not yet committed */
	uint32_t groups, complete; /* committed; known to be complete */
	uint32_t line;
};

enum sim_piece_kind { SIM_PIECE_NONE, SIM_PIECE_FILLED, SIM_PIECE_READ };
struct sim_piece {         /* 16 bytes of shared memory: the last copy that had to do with them */
	uint8_t kind, who; /* who: mbarrier or issuer */
	uint32_t number;   /* phase or group */
	uint32_t line;
};

struct sim_async {
	struct sim_mbar mbar[SIM_MBARS];
	unsigned nmbar;
	struct sim_issuer issuer[SIM_ISSUERS];
	unsigned nissuer;
	struct sim_know know[SIM_MAX_WARPS];
	struct sim_piece *piece;
	uint32_t fences[SIM_MAX_WARPS * SIM_LANES]; /* of shared memory with the async proxy */
	uint32_t global_at[SIM_MAX_WARPS *
	                   SIM_LANES]; /* `acquires` at the last fence of global memory */
	uint32_t acquires;             /* by any thread of the CTA */
};

struct sim_copy { /* an agent of its own: reads pieces, then writes them, in an order of its own */
	struct sim_warp *w;
	const struct sim_op *op;
	unsigned lane, mbar, issuer;
	bool load;
	uint32_t shared, bytes, group; /* group: of a load, its mbarrier's phase */
	uint32_t fence;                /* rel of the thread's last proxy fence (order.h); 0: none */
	struct sim_block *b;
	uint64_t off;
	uint32_t npiece, nread, nwritten, start, stride;
	uint8_t *data;
};

/* ---- async.c ---- */
void sim_async_reset(struct sim_cta *c, const struct sim_kernel *k);
/* A thread's own access: false, with a finding, when a copy still has to do with the bytes. */
bool sim_async_touch(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned lane,
                     const char *name, uint64_t addr, unsigned n, bool write);
void sim_async_barrier(struct sim_cta *c, uint32_t warps);
/* Lanes `mask` of w end: false, with a finding, when bulk stores of theirs may not be complete. */
bool sim_async_exit(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask);
/* All warps of c have ended: false, with a finding, when a copy still is under way. */
bool sim_async_end(struct sim *s, struct sim_cta *c);
struct sim_mbar *sim_mbar_at(struct sim_async *a, uint64_t at);
void sim_mbar_check(struct sim *s, struct sim_cta *c, struct sim_mbar *m);
void sim_know_join(struct sim_know *to, const struct sim_know *from);

/* ---- copy.c ---- */
bool sim_copy_new(struct sim *s, const struct sim_copy *like);
/* Lets the copies get on by some pieces. */
void sim_copies_advance(struct sim *s);
/* Copies of this issuer's groups below `group` that have not been written (or not even read). */
bool sim_copies_left(const struct sim *s, const struct sim_cta *c, unsigned issuer, uint32_t group,
                     bool read);
