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
	uint32_t phase; /* 0: entry barrier, 1: exit barrier */
	uint32_t peer;
	uint64_t expected, seen; /* the slot's word */
};

enum cg_ws_abort {
	CG_WS_GOOD,
	CG_WS_TIMEOUT,
	CG_WS_CONTRACT,
	CG_WS_PEER
}; /* PEER: another rank aborted */

struct cg_workspace {
	uint32_t abort; /* sticky, set on all ranks; tested at entry and in every spin; reset
	                   collectively */
	uint32_t reserved;
	uint64_t limit_ns; /* longest spin in %globaltimer ns; 0: CG_DEFAULT_LIMIT_NS; set by the
	                      host */
	struct cg_ws_record record;
	uint8_t pad[256 - 16 - sizeof(struct cg_ws_record)];
	uint32_t epoch[CG_MAX_CTAS]; /* of this rank's CTA; own copy only; wrap-safe */
	uint64_t slot[CG_MAX_CTAS]
	             [CG_MAX_RANKS]; /* slot[cta][source]: {low: epoch, high: T xor kernel} */
};

#define CG_DEFAULT_LIMIT_NS 10000000000u
