/*
 * What the emitters share (internal to codegen/).  One file each: loop.c the software pipeline,
 * access.c loads and stores, value.c evaluation, lower_op.c elementwise operations, reduce.c
 * reductions, barrier.c the protocol.
 */
#pragma once
#include "codegen/codegen.h"
#include "codegen/ptx/build.h"
#include "codegen/rowprog.h"

#define CG_MAX_ROW_OFFSETS 16

/* Where in a parameter a thread's part of a row begins, base aside; parameters of one layout share
 * it. */
struct cg_layout {
	uint64_t stride; /* bytes from row to row */
	uint64_t step;   /* bytes from thread to thread, or from `lanes` threads to the next; 0: all
	                    at one place */
	unsigned lanes;
	bool local; /* rows are counted from the rank's first own one */
};

struct cg_row {                /* a row's number among all T, and byte offsets made from it */
	struct ptx_opnd index; /* u32 */
	unsigned n;
	struct cg_layout layout[CG_MAX_ROW_OFFSETS];
	struct ptx_opnd offset[CG_MAX_ROW_OFFSETS];
};

struct cg_thread_offset { /* tid / lanes * step, as u64 */
	uint64_t step;
	unsigned lanes;
	struct ptx_opnd at;
};

struct cg_slot { /* the registers of one row in flight: by value, as cg_value's f and w */
	struct ptx_opnd **f, **w;
};

struct cg_emit {
	struct arena *a;
	struct diags *d;
	const struct cg_options *o;
	const struct cg_rowprog *rp;
	struct cg_kernel *k;
	const struct cg_plan *p; /* &k->plan */
	struct ptx_fn *f;

	struct ptx_opnd tid, lane, cta, grid;
	struct ptx_opnd begin, end; /* u32: the rank's rows among all T (begin NONE: 0) */
	struct ptx_opnd rank, T;
	struct ptx_opnd ahead; /* u32: grid * in_flight */
	struct ptx_opnd
	        live; /* predicate: the thread's last vector is in the row; NONE: it always is */
	struct ptx_opnd lane0, tid0;
	struct ptx_opnd *uc, *mc; /* by parameter: its address; NONE: not needed */
	struct cg_thread_offset *thread;
	unsigned nthread;
	struct cg_row row; /* being worked on */
	struct cg_slot *slot;

	struct ptx_opnd red_out,
	        red_in;          /* u32 shared addresses: the warp's word, the lane's word */
	struct ptx_opnd red_has; /* predicate: the lane has a word; NONE: all have */
	struct ptx_opnd *acc;    /* by value: two accumulators each */
	struct ptx_opnd flag;    /* shared word: the entry barrier's verdict */
};

/* plan.c */
bool cg_plan_make(struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_options *o,
                  struct arena *a, struct diags *d);

/* abi.c */
unsigned cg_param_align(
        const struct ir_param *q); /* bytes the base and each row are aligned to, at most 16 */
int64_t cg_param_ld(const struct ir_param *q);
void cg_abi_make(struct cg_kernel *k, const struct cg_rowprog *rp, struct arena *a);
struct ptx_opnd cg_arg_load(struct cg_emit *e, enum cg_arg_kind kind,
                            unsigned param); /* ld.param; addresses are .global */
uint64_t cg_contract(const struct cg_kernel *k, const struct cg_rowprog *rp);
const char *cg_symbol(struct arena *a, const char *prefix, const char *name, const char *suffix);

/* access.c: `vec` counts the thread's vectors of a row */
/* Guards what follows, where needed: the vector is in the row, the lane the first of its group of
 * `ratio` elements. */
void cg_guard_vec(struct cg_emit *e, unsigned ratio, unsigned vec);
bool cg_partial(const struct cg_emit *e, unsigned vec);
void cg_thread_offsets(struct cg_emit *e); /* e->thread */
void cg_row_set(struct cg_row *r, struct ptx_opnd index);
void cg_slot_init(struct cg_emit *e,
                  struct cg_slot *s); /* registers; those a thread may never load are cleared */
void cg_prefetch(struct cg_emit *e, const struct cg_slot *s, const struct cg_value *v,
                 struct cg_row *r, struct ptx_opnd valid);
void cg_load_weight(struct cg_emit *e, struct cg_value *v, unsigned vec);
void cg_load_uniform(struct cg_emit *e, struct cg_value *v);
void cg_store_vec(struct cg_emit *e, struct cg_value *v, unsigned vec);
void cg_store_row(struct cg_emit *e, struct cg_value *v);

/* value.c: `elem` counts the row's elements inside of a vector */
struct ptx_opnd cg_get(struct cg_emit *e, struct cg_value *v, unsigned vec,
                       unsigned elem); /* f32, or a predicate */
struct ptx_opnd cg_get_pair(struct cg_emit *e, struct cg_value *v, unsigned dtype, unsigned vec,
                            unsigned pair);
struct ptx_opnd cg_widen(struct cg_emit *e, unsigned dtype, struct ptx_opnd word, bool upper);
struct ptx_opnd cg_narrow(struct cg_emit *e, unsigned dtype, struct ptx_opnd upper,
                          struct ptx_opnd lower);
void cg_eval_uniform(struct cg_emit *e);
void cg_eval_row(struct cg_emit *e, unsigned level);
void cg_eval_pair(struct cg_emit *e, unsigned level, unsigned vec, unsigned pair);
void cg_forget(struct cg_emit *e, unsigned level);       /* drops what later levels do not read */
void cg_at(struct cg_emit *e, const struct cg_value *v); /* .loc of what follows */

struct ptx_opnd cg_bits_to_f32(struct cg_emit *e,
                               struct ptx_opnd word); /* a move between the kinds of registers */

/* lower_op.c */
struct ptx_opnd cg_lower(struct cg_emit *e, const struct ir_value *v, const struct ptx_opnd *s);

/* reduce.c */
unsigned
cg_reduce_buffer(unsigned n,
                 unsigned warps); /* bytes of one of the two shared buffers: a power of two */
void cg_reduce_setup(struct cg_emit *e);
void cg_reduce_begin(struct cg_emit *e, unsigned level);
void cg_reduce_pair(struct cg_emit *e, unsigned level, unsigned vec, unsigned pair);
void cg_reduce_groups(struct cg_emit *e, unsigned level);
void cg_reduce_rows(struct cg_emit *e, unsigned level);

/* barrier.c */
bool cg_barrier_entry(struct cg_emit *e,
                      struct ptx_opnd leave); /* jumps to `leave` when the workspace is dead */
bool cg_barrier_exit(struct cg_emit *e);

/* loop.c */
bool cg_emit_kernel(struct cg_emit *e);
