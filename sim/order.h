/*
 * What happens before what, by the PTX memory model (PTX ISA section 8), while kernels run.
 *
 * A slot is a warp's place: rank, stream, CTA, warp; or the bulk copies of an mbarrier or of a thread;
 * or a stream's host functions.  A slot has a clock that never goes back.  An access is an epoch:
 * slot, lane, clock.  A clock object says, for every slot, up to which clock (not included) its
 * accesses are known, and up to which across an alias fence.  Objects are shared and not changed
 * once two hold them.  What a CTA's warps know of one another is apart, in small tables.
 */
#pragma once
#include "sim/explore.h"

enum { RACE_WARPS = SIM_MAX_WARPS, RACE_SITE_BITS = 20 };

/* ---- epochs: 64 bits ---- */
#define EPOCH_CLOCK(e) ((uint32_t)(e))
#define EPOCH_SLOT(e)  ((uint32_t)((e) >> 32 & 0x3ffff))
#define EPOCH_LANE(e)  ((unsigned)((e) >> 50 & 31))
#define EPOCH_MULTI    (UINT64_C(1) << 55) /* several lanes of the slot, at clocks up to this */
#define EPOCH_STRONG   (UINT64_C(1) << 56)
#define EPOCH_SCOPE(e) ((enum ptx_scope)(1 + ((e) >> 57 & 3)))
#define EPOCH_PROXY(e) ((enum race_proxy)((e) >> 59 & 3))
#define EPOCH_SIZE(e)  (1u << ((e) >> 61 & 7)) /* bytes of an element */
#define EPOCH_KIND     (~UINT64_C(0) << 56)
#define EPOCH_PLACE    (UINT64_C(0x7fffff) << 32)
#define RACE_MAX_SLOTS 0x3ffffu

enum race_proxy { RACE_GENERIC, RACE_MULTI, RACE_ASYNC };

struct race_one { /* of a thread: slot << 5 | lane */
	uint32_t who, d, a;
};

/* Up to which clock the accesses of each slot are known, and known across an alias fence.  Most lanes
 * of a warp, and warps behind a barrier, know the same: they share it. */
enum { RACE_SIZES = 26 };

struct race_table {
	uint64_t serial; /* of what is in it: another one whenever that may have changed */
	uint32_t refs, n, cap;
	uint32_t *d, *a; /* [slot] */
	struct race_table *free;
};

struct race_clock {
	uint32_t refs, none, cap_one;
	struct race_one *one; /* threads that are known beyond their warps */
	struct race_table *t;
	struct race_clock *free;
};

/* What joining `what` into a table with serial `before` made, while `after` still has its serial. */
enum { RACE_JOINS = 256 };
struct race_join {
	uint64_t before, what;
	bool alias;
	struct race_table *after;
	uint64_t serial;
};

/* What a release pattern hands on; refs are of fences, of reads that await a fence, of memory. */
struct race_rel {
	uint32_t uid;        /* never given out twice */
	uint64_t same;       /* equal: so are the table of `base`, own and async */
	uint32_t refs, next; /* next: a further one, of a chain of read-modify-writes */
	struct race_clock *base;
	uint32_t first, n; /* the CTA's warps, and what is known of them */
	uint32_t own[RACE_WARPS];
	uint32_t nasync, *async; /* {slot, clock}: bulk copies of the CTA */
	size_t cap_async;
	uint32_t who, clock, site; /* the thread, its own accesses before the clock; where */
	uint8_t scope;
};

enum { RACE_HAD = 16 };

struct race_lane {
	uint32_t
	        had[RACE_HAD]; /* uids of releases that it has acquired: again they bring nothing */
	uint32_t fence;        /* rel of its last release fence; 0: none */
	uint32_t async;        /* rel of its last proxy fence with bulk copies */
	uint32_t npend, *pend; /* rels of what it read strongly since the last acquire fence */
	size_t cap_pend;
	struct race_clock *own; /* what it knows beyond its warp; NULL: nothing */
};

struct race_mbar { /* [0] brought by arrivals, [1] given by complete phases */
	uint32_t seen[2][RACE_WARPS];
	struct race_clock *base[2];
};

struct race_place { /* a CTA's slots, kept from launch to launch */
	uint32_t first, nwarp;
	uint32_t *async; /* [mbarrier, then issuer]: slot + 1; NULL: it has no bulk copies */
	struct race_place *next;
	unsigned cta;
};

struct race_cta {
	struct race_place *place;
	uint32_t first, nwarp;
	uint32_t clock[RACE_WARPS];
	uint32_t seen[RACE_WARPS][RACE_WARPS];
	uint32_t dirty[RACE_WARPS]; /* lanes that know more than their warp */
	struct race_clock *base[RACE_WARPS];
	struct race_clock *start; /* what precedes the launch */
	struct race_lane *lane;   /* [warp * 32 + lane] */
	struct race_mbar *mbar;
	uint32_t *async_base; /* clock of an async slot at the CTA's start */
	uint32_t rel;         /* hw: of the kernel's start */
	/* the last release: most lanes of a warp release the same */
	struct {
		uint64_t table, same;
		uint32_t first, own[RACE_WARPS];
	} said;
	const char *note; /* why a release was not acquired, if one was not */
	struct race_clock *sc;
};

struct race_slot {
	uint8_t rank, warp, kind; /* enum race_slot_kind */
	uint16_t stream;
	uint32_t cta;
	uint32_t clock;         /* where the last user left it */
	uint32_t launch, since; /* the launch that has it, and its first clock */
	uint64_t instance;      /* of the CTA */
};
enum race_slot_kind { RACE_SLOT_WARP, RACE_SLOT_ASYNC, RACE_SLOT_HOST };

struct race_launch {
	struct race_clock *start,
	        *early;         /* what it knows; what one that starts early behind it does */
	struct race_clock *end; /* joined by CTAs that have ended */
	uint32_t rel;           /* hw: rel of `start` */
};

struct race_stream {
	struct race_clock *now, *early; /* early: when the item before began */
	struct race_clock
	        *last; /* what the launch that ended last knew, its alias fences with it */
	struct race_place *place[2];
	uint32_t host; /* slot + 1 */
	unsigned count;
};

struct race_more;
struct weak_hist;

#define SIM_EACH2(lane, mask)             \
	for (uint32_t m2_ = (mask), lane; \
	     m2_ && (lane = (uint32_t)__builtin_ctz(m2_), m2_ &= m2_ - 1, true);)

struct sim_race {
	enum sim_races level;
	struct race_slot *slot;
	uint32_t nslot;
	size_t cap_slot;
	struct race_rel **rel;
	uint32_t nrel, free_rel;
	size_t cap_rel;
	struct race_clock *free_clock, *zero;
	struct race_table *free_table[RACE_SIZES]; /* by size: 64 << k */
	uint64_t serial;                           /* the last ones given out */
	uint32_t uid;
	struct race_join join[RACE_JOINS];
	struct race_stream stream[SIM_MAX_RANKS][SIM_STREAMS];
	struct race_clock *sc_gpu[SIM_MAX_RANKS], *sc_sys;
	const struct sim_kernel **kernel; /* by number */
	size_t nkernel, cap_kernel;
	uint64_t instances;
	bool ran;
	/* a host function that runs */
	struct race_stream *host;
	unsigned host_rank;
	/* shadow memory (race.c) */
	struct race_more *free_more;
	struct weak_hist *free_hist;
};

/* ---- clock.c ---- */
struct race_clock *sim_clock_zero(struct sim *s);
struct race_clock *sim_clock_ref(struct race_clock *c);
void sim_clock_put(struct sim *s, struct race_clock *c);
/* *to becomes the join of itself and `from`. */
void sim_clock_join(struct sim *s, struct race_clock **to, const struct race_clock *from);
/* The same, but not across aliases. */
void sim_clock_join_plain(struct sim *s, struct race_clock **to, const struct race_clock *from);
/* Makes *c the caller's alone, with room for all slots. */
struct race_clock *sim_clock_own(struct sim *s, struct race_clock **c);
/* An alias fence: all that is known, the CTA's `seen` and thread `who` up to `clock`, across too. */
void sim_clock_bridge(struct sim *s, struct race_clock **to, uint32_t first, const uint32_t *seen,
                      uint32_t n, uint32_t who, uint32_t clock);
/* A stream's boundary: all that is known is known across aliases (section 8.9.4). */
void sim_clock_cross(struct sim *s, struct race_clock **to);
bool sim_clock_covers(const struct race_clock *c, uint64_t e, bool alias);
/* Releases (order.c): the table, own and async of x, and the ones of its base; thread x->who. */
void sim_clock_join_rel(struct sim *s, struct race_clock **to, const struct race_rel *x);

/* ---- order.c ---- */
void sim_race_new(struct sim *s);
struct race_rel *sim_rel(const struct sim_race *r, uint32_t id);
uint32_t sim_rel_ref(struct sim_race *r, uint32_t id);
void sim_rel_put(struct sim *s, uint32_t id);
/* What `lane` of w knows now; its later accesses are not in it. */
uint32_t sim_rel_new(struct sim *s, struct sim_warp *w, unsigned lane, unsigned scope,
                     uint32_t site);
/* A rel of both, `a` first; takes over neither. */
uint32_t sim_rel_chain(struct sim *s, uint32_t a, uint32_t b);
/* All that a release hands on, whatever its scopes. */
void sim_rel_join(struct sim *s, struct race_clock **to, uint32_t id);
/* What the hardware makes of a kernel's start: a release of all before. */
uint32_t sim_rel_boundary(struct sim *s, struct race_clock *start);
/* Thread (w, lane) has read what `id` came with: acquires the parts of it whose scope and `scope`
 * include one another.  false: some part is left over. */
bool sim_race_acquire(struct sim *s, struct sim_warp *w, unsigned lane, uint32_t id, unsigned scope,
                      uint32_t site);
void sim_race_pend(struct sim *s, struct sim_warp *w, unsigned lane, uint32_t id);
/* The epoch's access is ordered before what thread (w, lane) does now. */
bool sim_race_known(const struct sim *s, const struct sim_warp *w, unsigned lane, uint64_t e,
                    bool alias);
bool sim_rel_covers(const struct sim_race *r, const struct race_rel *x, uint64_t e);
/* Does a scope of a thread of slot a include the thread of slot b? */
bool sim_scope_includes(const struct sim_race *r, unsigned scope, uint32_t a, uint32_t b);
/* The slot of a bulk copy's accesses, and their clock. */
uint32_t sim_race_async_slot(struct sim *s, struct sim_cta *c, const struct sim_copy *x,
                             uint32_t *clock);
uint32_t sim_site(const struct sim *s, const struct sim_warp *w, const struct sim_op *op);

/* Called by the rest of the simulator when s->race is there. */
void sim_race_launch_start(struct sim *s, struct sim_launch *l);
void sim_race_launch_end(struct sim *s, struct sim_launch *l);
/* An item that is marked has finished; one that waited for it is done. */
void sim_race_mark(struct sim *s, struct sim_launch *l);
void sim_race_after(struct sim *s, const struct sim_launch *l);
void sim_race_grid_wait(struct sim *s, struct sim_warp *w, uint32_t mask);
void sim_race_cta_start(struct sim *s, struct sim_cta *c);
void sim_race_cta_end(struct sim *s, struct sim_cta *c);
void sim_race_barrier(struct sim *s, struct sim_cta *c, uint32_t warps);
void sim_race_fence(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask);
void sim_race_alias(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask);
void sim_race_async_fence(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                          uint32_t mask);
void sim_race_mbar_arrive(struct sim *s, struct sim_warp *w, unsigned mbar);
void sim_race_mbar_complete(struct sim *s, struct sim_cta *c, unsigned mbar);
void sim_race_mbar_wait(struct sim *s, struct sim_warp *w, unsigned mbar);
void sim_race_host_begin(struct sim *s, unsigned rank, unsigned stream);
void sim_race_host_end(struct sim *s);
void sim_race_run(struct sim *s); /* sim_run begins: all that was is over */

/* ---- race.c ---- */
struct race_access {
	struct sim_warp *w; /* NULL: the host */
	const struct sim_op *op;
	unsigned lane;
	enum sim_access_kind kind; /* READ, WRITE, RMW */
	enum race_proxy proxy;
	const struct sim_copy *copy; /* RACE_ASYNC */
	unsigned elem;               /* bytes of an element */
	uint8_t *bytes; /* weak memory: of a write, what it stores, and then what memory gets; of a
	                   read, what memory has, and then what is read; NULL: no matter */
};
struct race_cell **sim_race_shadow(struct sim *s, uint64_t bytes);
/* Notes the access and checks it: false with a finding. */
bool sim_race_access(struct sim *s, const struct race_access *x, struct sim_block *b, uint64_t off,
                     unsigned n);
/* The host's, in a host function; outside of one all are ordered.  A race becomes a finding. */
void sim_race_host(struct sim *s, struct sim_block *b, uint64_t off, uint64_t n, bool write);

/* ---- race_report.c ---- */
struct race_pair { /* an earlier access, and what now conflicts with it */
	const struct race_access *x;
	struct sim_block *b;
	uint64_t off;
	uint64_t was, now;
	uint32_t site;
	bool was_write;
};
/* A finding (false), or told to whom it may concern. */
bool sim_race_report(struct sim *s, const struct race_pair *p);

struct race_cell {
	union {
		struct {
			uint64_t ww, rd, sw; /* weak write, a read, a strong write; 0: none */
		};
		struct race_cell *sub; /* parts of `split` bytes */
	};
	struct race_more *more;
	uint32_t ww_site, rd_site, sw_site;
	uint32_t rel;           /* what the last write hands on */
	uint8_t split, last;    /* last: enum race_last */
	uint64_t written;       /* explore: a hash of its strong writes in order */
	struct weak_hist *hist; /* with weak memory; NULL: there is one value only */
};

enum race_last { RACE_NOBODY, RACE_WEAK, RACE_STRONG };

struct ctx { /* an access that is looked at */
	struct sim *s;
	const struct race_access *x;
	struct race_pair pair;
	uint64_t me;
	uint32_t slot, site;
	unsigned order, scope;
	bool strong, write, read;
	uint64_t saw, put; /* explore: the write that is read; the place of the one that is made */
	uint64_t from;     /* offset of its first byte */
};

bool sim_race_ordered(const struct ctx *c, uint64_t e);
/* A strong read sees the write of epoch e, and what it came with. */
void sim_race_observe(struct ctx *c, uint64_t e, uint32_t rel);

/* ---- weak.c ---- */
/* A strong read of an element: *bytes, memory's value, becomes the one that is read; NULL: memory's
 * value is.  Of a strong write, or of the result of a read-modify-write: *bytes becomes what memory
 * has after it; begin comes before, with what memory has. */
void sim_weak_read(struct ctx *c, struct race_cell *cell, uint8_t *bytes);
void sim_weak_begin(const struct ctx *c, struct race_cell *cell, const uint8_t *now);
void sim_weak_write(struct ctx *c, struct race_cell *cell, uint8_t *bytes);
/* The write that was just made is `name` in traces; a hash of the location's writes in order. */
uint64_t sim_weak_named(struct race_cell *cell, uint64_t name, uint64_t put);
void sim_weak_drop(struct sim *s, struct race_cell *cell);

static inline bool sim_race_lane(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                 unsigned lane, struct sim_block *b, uint64_t off, unsigned n,
                                 enum sim_access_kind kind, enum race_proxy proxy, uint8_t *bytes)
{
	const bool pair = op->type == PTX_T_f16x2 || op->type == PTX_T_bf16x2;
	const struct race_access x = {w, op, lane, kind, proxy, NULL, op->size >> pair, bytes};

	return !s->race || sim_race_access(s, &x, b, off, n);
}
