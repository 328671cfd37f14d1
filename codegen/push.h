/* What the two halves of push and mm-push share: proto_push.c (entry, pushing, exit) and
 * push_poll.c. */
#pragma once
#include "codegen/emit.h"

struct cg_push {
	struct ptx_opnd **own;        /* [slot][value]: b32, the words that were pushed */
	struct ptx_opnd ws, state;    /* b64 */
	struct ptx_opnd phase;        /* b32: this launch's number */
	struct ptx_opnd number, tag;  /* b32: the header, as pushed */
	struct ptx_opnd here, need;   /* b64: offset of this launch's third; bytes it dirties */
	struct ptx_opnd dirty, share; /* b32: 16-byte pieces to clear; of them, at each row */
	struct ptx_opnd before;       /* b64: address of the third of the launch before */
	struct ptx_opnd looks;   /* predicate: the thread has not seen its header yet (warp 0) */
	struct ptx_opnd verdict; /* b32: the shared word in use */
	struct ptx_opnd sentinel, zero; /* b32 registers */
};

/* Of every access to the exchange buffer, but for its width. */
static const struct ptx_mod cg_push_strong = {
        .order = PTX_RELAXED, .scope = PTX_SYS, .space = PTX_GLOBAL};

/* Is it a value whose rows are pushed? */
bool cg_pushed(const struct cg_value *v);

/* By peers a rank has no place in its own buffer: its addends are in registers. */
bool cg_push_own_apart(const struct cg_emit *e);

/* b64: bytes from the buffer's beginning to the thread's part of the first place's row, header
 * aside; and what to add for the header, the value and its vector. */
struct ptx_opnd cg_push_row_at(struct cg_emit *e, const struct cg_value *v, struct ptx_opnd row);
int64_t cg_push_vec_at(const struct cg_emit *e, const struct cg_value *v, unsigned vec);

/* At a row, before it is polled: the row that is to be pushed now, of the slots' rows; the row's
 * share of the clearing. */
void cg_push_ahead(struct cg_emit *e, unsigned slot);
void cg_push_clear(struct cg_emit *e);

/* All threads, once a row: jumps to `leave` when one of them has failed. */
void cg_push_agree_on_row(struct cg_emit *e, struct ptx_opnd leave);
/* Records a failure and tells the CTA; false when a template does not expand. */
bool cg_push_fail(struct cg_emit *e, const struct cg_failure *x);

/* b64 of two b32; of this launch's header. */
struct ptx_opnd cg_push_pair(struct cg_emit *e, struct ptx_opnd low, struct ptx_opnd high);
struct ptx_opnd cg_push_header(struct cg_emit *e);
