/*
 * What the planner and the emitters share (internal to codegen/); doc/codegen.md says what each file
 * does.  Emitters append PTX to e->f and allocate from e->a (out of memory: its owner's longjmp);
 * those that are bool return false when a template did not expand, with a diagnostic in e->d.  An
 * operand of kind PTX_NONE is one that is not there.
 */
#pragma once
#include "codegen/codegen.h"
#include "codegen/ptx/build.h"
#include "codegen/rowprog.h"

#define CG_MAX_ROW_OFFSETS 16
#define CG_MAX_ADDENDS     8 /* ranks whose addends are in registers at once, at most */

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

struct cg_thread_offset { /* tid / lanes * step, bytes, as u64 */
	uint64_t step;
	unsigned lanes;
	struct ptx_opnd at;
};

struct cg_slot { /* the registers of one row in flight: by value, as cg_value's f and w */
	struct ptx_opnd **f, **w;
	struct ptx_opnd **addend; /* of a summed value: [rank of a group][vector][register] */
};

struct cg_shape {             /* how one vector of a value lies in memory */
	unsigned dtype, size; /* of an element */
	unsigned n;           /* elements */
	unsigned regs;        /* registers that hold them: words, f32s, or one b16 */
	unsigned piece;       /* registers of one access: 1, 2 or 4 */
	uint64_t step;        /* bytes from one vector of a thread to its next */
	unsigned lanes; /* not 0: vector V is at V / lanes, and thread and vector go that way */
};

struct cg_emit;

/* A protocol: what protocols.def says is in cg_protocol_info; this is how it is done.  NULL:
 * nothing to do. */
struct cg_protocol_ops {
	enum cg_arg_kind sums;     /* where LOAD_SUM loads from: CG_ARG_MC (the switch sums), else
	                              the addends, which are summed in order of ranks: CG_ARG_PEERS, or
	                              CG_ARG_UC, the rank's own, which it gives to all */
	enum cg_arg_kind gathers;  /* what STORE_ALL stores to: CG_ARG_MC or CG_ARG_PEERS */
	enum cg_arg_kind ws, xchg; /* how peers' workspaces and exchange buffers are reached: _MC or
	                              _PEERS; CG_NARGS: not used */
	bool ahead;                /* LOAD_SUM is loaded rows ahead, into the slot */
	/* More that it cannot do; false with a diagnostic. */
	bool (*check)(const struct cg_rowprog *rp, const struct cg_plan *p, struct arena *a,
	              struct diags *d);
	/* All CTAs of all ranks have come, and memory is as they found it; or jumps to `leave`. */
	bool (*entry)(struct cg_emit *e, struct ptx_opnd leave);
	/* At the beginning of a row: makes the summed values. */
	bool (*consume)(struct cg_emit *e, const struct cg_slot *s, struct ptx_opnd leave);
	bool (*exit)(struct cg_emit *e);
	/* Shared memory of its own, once the shape is known; false with a diagnostic. */
	bool (*plan)(struct cg_plan *p, const struct cg_rowprog *rp, struct diags *d);
	/* Stores that it makes itself, vector by vector: registers as `sh` has them. */
	bool (*stages)(const struct cg_emit *e, const struct cg_value *v);
	void (*stage)(struct cg_emit *e, const struct cg_value *v, const struct cg_shape *sh,
	              unsigned ratio, unsigned vec, const struct ptx_opnd *reg);
	/* At the end of a row. */
	bool (*row_end)(struct cg_emit *e);
};

struct cg_emit {
	struct arena *a;
	struct diags *d;
	const struct cg_options *o;
	const struct cg_rowprog *rp;
	struct cg_kernel *k;
	const struct cg_plan *p; /* &k->plan */
	struct ptx_fn *f;

	struct ptx_opnd cta_tid, lane, cta, grid;
	struct ptx_opnd tid, team; /* in the team; which team (NONE: there is one) */
	struct ptx_opnd turn,
	        step; /* u32: rows of the team: its first of the rank's, to the next */
	struct ptx_opnd begin, end; /* u32: the rank's rows among all T (begin NONE: 0) */
	struct ptx_opnd rank, T;
	struct ptx_opnd ahead; /* u32: step * in_flight */
	struct ptx_opnd
	        live; /* predicate: the thread's last vector is in the row; NONE: it always is */
	struct ptx_opnd lane0, tid0;
	const struct cg_protocol_ops *ops;
	struct ptx_opnd park, park_narrow; /* u32: shared address of the thread's first parked unit,
	                                      and word */
	struct ptx_opnd *uc, *mc;          /* by parameter: its address; NONE: not needed */
	struct ptx_opnd **peer;            /* by parameter and rank; NULL: not needed */
	struct cg_thread_offset *thread;
	unsigned nthread;
	struct cg_row row; /* being worked on */
	struct cg_slot *slot;

	struct ptx_opnd red_out,
	        red_in;          /* u32 shared addresses: the warp's word, the lane's word */
	struct ptx_opnd red_has; /* predicate: the lane has a word; NONE: all have */
	struct ptx_opnd **kept;  /* by value: a weight's registers; NULL: it is loaded where used */
	struct ptx_opnd *acc;    /* by value: two accumulators each */
	struct ptx_opnd group, groups; /* u32: shared address of the groups' buffer in use; the
	                                  sum of both buffers' */
	struct ptx_opnd flag;          /* shared word: the entry barrier's verdict */
	struct cg_push *push;          /* of proto_push.c */
	struct cg_bulk *bulk;          /* of proto_bulk.c */
};

/* proto.c */
const struct cg_protocol_ops *cg_ops(const struct cg_plan *p);
/* Sets the plan's protocol, and marks summed values; false with E809 where it cannot do the kernel.
 */
bool cg_protocol_choose(struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_options *o,
                        struct arena *a, struct diags *d);

/* plan.c.  The shape and all that follows from it; false with E8xx where there is none.  `why` is in
 * the arena. */
bool cg_plan_make(struct cg_plan *p, const struct cg_rowprog *rp, const struct cg_options *o,
                  struct arena *a, struct diags *d);

/* abi.c */
/* Bytes that the base and each row are aligned to, at most 16. */
unsigned cg_param_align(const struct ir_param *q);
/* Elements from row to row. */
int64_t cg_param_ld(const struct ir_param *q);
/* Fills k's param and arg (in the arena) from its plan. */
void cg_abi_make(struct cg_kernel *k, const struct cg_rowprog *rp, struct arena *a);
/* ld.param of an argument (u32, or an address in .global); PTX_NONE: the kernel has none. */
struct ptx_opnd cg_arg_load(struct cg_emit *e, enum cg_arg_kind kind, unsigned param);
/* The same of rank `rank` of an array of addresses. */
struct ptx_opnd cg_arg_peer(struct cg_emit *e, enum cg_arg_kind kind, unsigned param,
                            unsigned rank);
/* Of the rank that the register `rank` names, below tp. */
struct ptx_opnd cg_arg_peer_of(struct cg_emit *e, enum cg_arg_kind kind, unsigned param,
                               struct ptx_opnd rank);
/* The hash of cg_kernel.contract, from plan, parameters and row program. */
uint64_t cg_contract(const struct cg_kernel *k, const struct cg_rowprog *rp);
/* A PTX identifier of a name of the spec, in the arena. */
const char *cg_symbol(struct arena *a, const char *prefix, const char *name, const char *suffix);

/* Of a wide row: is the load no slot's, but made where it is needed? */
static inline bool cg_wide_loads(const struct cg_plan *p, const struct cg_value *v)
{
	return p->wide && (v->home != CG_HOME_ROW || (v->summed && p->xchg_row));
}

/* access.c: `vec` counts the thread's vectors of a row */
struct cg_shape cg_shape_of(const struct cg_emit *e, const struct cg_value *v, unsigned param);
enum ptx_type cg_shape_type(const struct cg_shape *s); /* of its registers, as memory sees them */
unsigned cg_vecs_of(const struct cg_emit *e, const struct cg_value *v); /* a thread's vectors */
struct ptx_opnd cg_vec_of(const struct ptx_opnd *reg, unsigned n);      /* one, or a vector */
uint8_t cg_vec_mod(unsigned n);
/* Bytes from a parameter's base to the thread's part of the row. */
struct ptx_opnd cg_row_offset(struct cg_emit *e, struct cg_row *r, unsigned param);
/* To the row itself. */
struct ptx_opnd cg_row_start(struct cg_emit *e, struct ptx_opnd row, unsigned param);
/* Guards what follows, where needed: the vector is in the row, the lane the first of its group of
 * `ratio` elements. */
void cg_guard_vec(struct cg_emit *e, unsigned ratio, unsigned vec);
bool cg_partial(const struct cg_emit *e, unsigned vec);
/* u32: the number, in the row, of the thread's vector. */
struct ptx_opnd cg_vector(struct cg_emit *e, unsigned vec);
/* Where in memory vector `vec` of the thread is, `addr` being its first. */
struct ptx_opnd cg_vector_at(struct cg_emit *e, const struct cg_shape *s, struct ptx_opnd addr,
                             unsigned vec);
void cg_thread_offsets(struct cg_emit *e); /* e->thread */
void cg_row_set(struct cg_row *r, struct ptx_opnd index);
void cg_slot_init(struct cg_emit *e,
                  struct cg_slot *s); /* registers; those a thread may never load are cleared */
void cg_prefetch(struct cg_emit *e, const struct cg_slot *s, const struct cg_value *v,
                 struct cg_row *r, struct ptx_opnd valid);
/* A row of the rank's own parameter. */
void cg_load_own(struct cg_emit *e, const struct cg_value *v, struct cg_row *r,
                 struct ptx_opnd valid, const struct ptx_opnd *reg);
/* Addends of ranks [first, first + n): registers (those a thread may never load are cleared), loads
 * from the peers.  `valid` NONE: the row is there. */
void cg_addend_regs(struct cg_emit *e, const struct cg_value *v, unsigned n, struct ptx_opnd *reg);
void cg_load_addends(struct cg_emit *e, const struct cg_value *v, struct cg_row *r,
                     struct ptx_opnd valid, unsigned first, unsigned n,
                     const struct ptx_opnd *addend);
/* One vector of a row that is no addend, into new registers. */
void cg_load_vector(struct cg_emit *e, const struct cg_value *v, unsigned vec,
                    struct ptx_opnd *reg);
/* The same of a rank's own addend. */
void cg_load_own_vector(struct cg_emit *e, const struct cg_value *v, struct cg_row *r, unsigned vec,
                        struct ptx_opnd *reg);
/* One vector of the addends of ranks [first, first + n), likewise: [rank][register]. */
void cg_load_addend_vector(struct cg_emit *e, const struct cg_value *v, unsigned vec,
                           unsigned first, unsigned n, struct ptx_opnd *reg);
/*
 * Weights do not change while the kernel runs.  Where there are registers for them they are loaded
 * once, before the kernel waits for anybody: plainly, since ptxas would move loads by .nc to their
 * use.
 */
void cg_keep_weights(struct cg_emit *e);
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

/* A move between the kinds of registers. */
struct ptx_opnd cg_bits_to_f32(struct cg_emit *e, struct ptx_opnd word);
/* An f32 immediate moved into a register; anything else as it is. */
struct ptx_opnd cg_in_register(struct cg_emit *e, struct ptx_opnd x);
/* f32 that holds a value of the narrower dtype. */
struct ptx_opnd cg_rounded(struct cg_emit *e, unsigned dtype, struct ptx_opnd x);

/* lower_op.c */
struct ptx_opnd cg_lower(struct cg_emit *e, const struct ir_value *v, const struct ptx_opnd *s);

/* reduce.c.  In each level: begin, every pair of elements, groups, rows (of wide rows begin_vec and
 * groups_vec for each vector). */
/* Bytes of one of the two shared buffers for n row reductions: a power of two. */
unsigned cg_reduce_buffer(unsigned n, unsigned warps);
void cg_reduce_setup(struct cg_emit *e);
void cg_reduce_begin(struct cg_emit *e, unsigned level);
void cg_reduce_begin_vec(struct cg_emit *e, unsigned level, unsigned vec);
void cg_reduce_groups_vec(struct cg_emit *e, unsigned level, unsigned vec);
void cg_reduce_pair(struct cg_emit *e, unsigned level, unsigned vec, unsigned pair);
void cg_reduce_groups(struct cg_emit *e, unsigned level);
void cg_reduce_rows(struct cg_emit *e, unsigned level);

/* What groups.c takes from reduce.c: `op` is of a reduction. */
struct ptx_opnd cg_red_start(struct cg_emit *e, enum ir_op op); /* its identity, in a register */
void cg_red_combine(struct cg_emit *e, enum ir_op op, struct ptx_opnd to, struct ptx_opnd x);
/* All lanes within `width` (a power of two) get the combination of theirs. */
void cg_red_lanes(struct cg_emit *e, enum ir_op op, struct ptx_opnd x, unsigned width);
/* A mean is divided by its extent. */
void cg_red_finish(struct cg_emit *e, const struct cg_value *v, struct ptx_opnd x, int64_t extent);

/* groups.c: reductions over groups that do not lie in a warp, by way of shared memory */
bool cg_group_shared(const struct cg_rowprog *rp, const struct cg_value *v);
/* Bytes that they take of it; 0: there are none. */
uint32_t cg_group_bytes(const struct cg_rowprog *rp);
void cg_group_setup(struct cg_emit *e);
/* Before the level's partial results; of one vector; once all are there, the results of all. */
void cg_group_begin(struct cg_emit *e, unsigned level);
void cg_group_part(struct cg_emit *e, const struct cg_value *v, unsigned vec);
void cg_group_end(struct cg_emit *e, unsigned level);
/* The result of one vector, from then to the level's end. */
struct ptx_opnd cg_group_result(struct cg_emit *e, const struct cg_value *v, unsigned vec);
void cg_group_done(struct cg_emit *e, unsigned level);

/* sum.c: values made from addends in registers */
unsigned cg_sum_words(const struct cg_rowprog *rp,
                      const struct cg_value *v); /* of an addend's vector */
/* Adds n ranks' addends of all vectors to acc (by vector and element), or starts it. */
void cg_sum_add(struct cg_emit *e, const struct cg_value *v, const struct ptx_opnd *addend,
                unsigned n, struct ptx_opnd *acc, bool start);
/* Rounds acc to the value. */
void cg_sum_round(struct cg_emit *e, struct cg_value *v, const struct ptx_opnd *acc);
/* The same of `vecs` vectors; of one. */
void cg_sum_add_vectors(struct cg_emit *e, const struct cg_value *v, const struct ptx_opnd *addend,
                        unsigned n, struct ptx_opnd *acc, bool start, unsigned vecs);
void cg_sum_round_vector(struct cg_emit *e, struct cg_value *v, const struct ptx_opnd *acc,
                         unsigned vec);

/* barrier.c */
#define CG_EXPAND(e, name, ...)                                                              \
	ptx_expand((e)->f, name, (const struct ptx_bind[]){__VA_ARGS__},                     \
	           sizeof((const struct ptx_bind[]){__VA_ARGS__}) / sizeof(struct ptx_bind), \
	           (e)->d)
struct cg_failure { /* what is recorded: see abort_record.ptxt */
	struct ptx_opnd ws, why, seen, peer, expected;
	unsigned phase;
};
bool cg_record(struct cg_emit *e, const struct cg_failure *x); /* and tells all ranks */
void cg_alias_fence(struct cg_emit *e); /* where a kernel boundary is missing */
struct ptx_opnd cg_only_warp0(struct cg_emit *e, const char *hint); /* others go to the label */
bool cg_barrier_entry(struct cg_emit *e,
                      struct ptx_opnd leave); /* jumps to `leave` when the workspace is dead */
bool cg_barrier_exit(struct cg_emit *e);

/* proto_p2p.c, proto_push.c and push_poll.c, proto_bulk.c: the functions of cg_protocol_ops, which says
 * what each does */
bool cg_p2p_consume(struct cg_emit *e, const struct cg_slot *s, struct ptx_opnd leave);
void cg_p2p_vector(struct cg_emit *e, struct cg_value *v, unsigned vec); /* wide rows */
bool cg_push_entry(struct cg_emit *e, struct ptx_opnd leave);
bool cg_push_consume(struct cg_emit *e, const struct cg_slot *s, struct ptx_opnd leave);
bool cg_push_exit(struct cg_emit *e);
bool cg_bulk_check(const struct cg_rowprog *rp, const struct cg_plan *p, struct arena *a,
                   struct diags *d);
/* Do the plan's teams have room for a ring worth having? */
bool cg_bulk_fits(const struct cg_plan *p, const struct cg_rowprog *rp);
bool cg_bulk_plan(struct cg_plan *p, const struct cg_rowprog *rp, struct diags *d);
bool cg_bulk_entry(struct cg_emit *e, struct ptx_opnd leave);
bool cg_bulk_consume(struct cg_emit *e, const struct cg_slot *s, struct ptx_opnd leave);
bool cg_bulk_stages(const struct cg_emit *e, const struct cg_value *v);
void cg_bulk_stage(struct cg_emit *e, const struct cg_value *v, const struct cg_shape *sh,
                   unsigned ratio, unsigned vec, const struct ptx_opnd *reg);
bool cg_bulk_row_end(struct cg_emit *e);
bool cg_bulk_exit(struct cg_emit *e);
uint32_t cg_push_row(const struct cg_rowprog *rp); /* plan.xchg_row */

/* loop.c */
void cg_store_vecs(struct cg_emit *e, unsigned level, unsigned vec); /* the level's stores */
void cg_store_rows(struct cg_emit *e, unsigned level);
bool cg_emit_kernel(struct cg_emit *e);
struct ptx_opnd cg_first_row(struct cg_emit *e); /* u32: of the team */
void cg_row_sync(struct cg_emit *e);             /* the threads of a row meet */
