/*
 * The workspace: symmetric memory, one per stream, that the protocols of section 5 of the design
 * keep their state in. State belongs to the memory it protects, so the layout is fixed here for the
 * kernels, the runtime and the checker. Every rank has its own copy at its unicast address; the
 * multicast address reaches all copies.  Zeroed once, collectively.
 */
#pragma once
#include <stdint.h>

#define CG_MAX_RANKS 16
#define CG_MAX_CTAS  256 /* slots; a grid is never larger */

/* Who waited for whom when a spin ran out of time; or what contract did not hold. */
struct cg_ws_record {
	uint32_t kind;   /* enum cg_ws_abort; written last */
	uint32_t kernel; /* low 32 bits of the contract hash */
	uint32_t rank, cta;
	uint32_t phase; /* 0: entry barrier; 1: exit barrier; 2: poll of a row or of a header */
	uint32_t peer;
	/* The slot's word; phase 2: {number, tag}, and the header's, or {word, row}. */
	uint64_t expected, seen;
};

enum cg_ws_abort {
	CG_WS_GOOD,
	CG_WS_TIMEOUT,
	CG_WS_CONTRACT,
	CG_WS_PEER, /* another rank aborted */
	CG_WS_ROWS, /* the exchange buffer is too small: bytes of a third, expected and seen */
};

/*
 * State of a protocol that pushes (proto_push.c), one set for each: the launch number, and what the
 * launch before left in its third of the exchange buffer.  `stride` is set by the host, once.
 */
struct cg_push_state {
	uint32_t phase;  /* launches with rows so far; modulo 3 the third of the buffer */
	uint32_t done;   /* CTAs of this launch that have finished */
	uint64_t dirty;  /* bytes to clear, from the third's beginning */
	uint64_t stride; /* bytes of a third: a multiple of 16 */
	uint64_t reserved;
};
#define CG_PUSH_WRAP 0xffffffffu /* launch numbers stay below: a multiple of three */
enum { CG_PUSH_PEER, CG_PUSH_MULTICAST, CG_NPUSH };

/* A third begins with {launch number, T xor kernel} of every source rank, two words each. */
#define CG_XCHG_HEAD 128
#define CG_XCHG_FILL 0x80000000u

struct cg_workspace {
	/* Sticky, set on all ranks; tested at entry and in every spin; reset collectively. */
	uint32_t abort;
	uint32_t reserved;
	/* Longest spin in %globaltimer ns; 0: CG_DEFAULT_LIMIT_NS; set by the host. */
	uint64_t limit_ns;
	struct cg_ws_record record;
	struct cg_push_state push[CG_NPUSH];
	uint8_t pad[256 - 16 - sizeof(struct cg_ws_record) -
	            CG_NPUSH * sizeof(struct cg_push_state)];
	uint32_t epoch[CG_MAX_CTAS]; /* of this rank's CTA; own copy only; wrap-safe */
	/* slot[cta][source]: {low: epoch, high: T xor kernel} */
	uint64_t slot[CG_MAX_CTAS][CG_MAX_RANKS];
};

#define CG_DEFAULT_LIMIT_NS 10000000000u
