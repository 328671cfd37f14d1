/* What the two halves of push and mm-push share: proto_push.c (entry, pushing, exit) and
 * push_poll.c. */
#pragma once
#include "codegen/emit.h"

#define CG_PUSH_GOING 4 /* rows on their way at once, at most */

struct cg_push_going { /* a row on its way */
	struct ptx_opnd row, valid, **reg;
};

struct cg_push {
	struct cg_push_going going[CG_PUSH_GOING];
	unsigned ngoing;
	struct ptx_opnd ws, state;      /* b64 */
	struct ptx_opnd phase;          /* b32: this launch's number */
	struct ptx_opnd number, tag;    /* b32: the header, as pushed */
	struct ptx_opnd here, need;     /* b64: offset of this launch's third; bytes it dirties */
	struct ptx_opnd verdict;        /* b32: the shared word in use */
	struct ptx_opnd sentinel, zero; /* b32 registers */
};

/* Of every access to the exchange buffer, but for its width. */
static const struct ptx_mod cg_push_strong = {
        .order = PTX_RELAXED, .scope = PTX_SYS, .space = PTX_GLOBAL};

/* Is it a value whose rows are pushed? */
bool cg_pushed(const struct cg_value *v);

/* b64: bytes from the buffer's beginning to the thread's part of source rank 0's row, header aside;
 * and what to add for the header, the value and its vector. */
struct ptx_opnd cg_push_row_at(struct cg_emit *e, const struct cg_value *v, struct ptx_opnd row);
int64_t cg_push_vec_at(const struct cg_emit *e, const struct cg_value *v, unsigned vec);

/* All threads, once a row: jumps to `leave` when one of them has failed. */
void cg_push_agree_on_row(struct cg_emit *e, struct ptx_opnd leave);
/* Records a failure and tells the CTA; false when a template does not expand. */
bool cg_push_fail(struct cg_emit *e, const struct cg_failure *x);

/* b64 of two b32; of this launch's header. */
struct ptx_opnd cg_push_pair(struct cg_emit *e, struct ptx_opnd low, struct ptx_opnd high);
struct ptx_opnd cg_push_header(struct cg_emit *e);
