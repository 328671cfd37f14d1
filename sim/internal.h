/*
 * The simulator's own structures: decoded kernels, warps, CTAs, launches, memory.
 *
 * A register is 32 lanes side by side: 4 bytes a lane for 1..32-bit classes, 8 for 64-bit ones;
 * predicates are masks. Every register has a mask of lanes that have written it.
 */
#pragma once
#include "sim/sim.h"

enum { SIM_LANES = 32, SIM_STREAMS = 4, SIM_BARRIERS = 16, SIM_MAX_WARPS = 32, SIM_POLLS = 24 };
enum { SIM_LINES = 128 }; /* words of a set of lines of 64 bytes, by hash */
enum { SIM_SHARED_OURS = 1, SIM_SHARED_DEFINED = 2 }; /* of a byte of shared memory */
#define SIM_ALL_LANES UINT32_C(0xffffffff)
#define SIM_NOREG     UINT32_MAX

/* Addresses: bits 40.. are the allocation's number, bits below an offset that starts at SIM_GUARD.
 */
#define SIM_ADDR_SHIFT    40
#define SIM_GUARD         UINT64_C(0x10000)
#define SIM_MAX_ALLOCS    0x7f00
#define SIM_SHARED_NUMBER UINT64_C(0x7f80)
#define SIM_SHARED_WINDOW (SIM_SHARED_NUMBER << SIM_ADDR_SHIFT)
#define SIM_ALLOC_MAX     (UINT64_C(1) << 38)

struct sim_op;
struct sim_warp;
struct sim_async;
struct sim_copy;
struct sim_race;
struct race_cta;
struct race_launch;
struct race_cell;
struct sim_explore;

/* What an instruction did to its warp. */
enum sim_step {
	SIM_STEP_NEXT,   /* on to the next instruction */
	SIM_STEP_JUMPED, /* pc and active are set */
	SIM_STEP_YIELD,  /* on to the next instruction, but others first */
	SIM_STEP_STAY,   /* the same instruction again, others first */
	SIM_STEP_BLOCK,  /* the warp left the ready list; pc is set */
	SIM_STEP_STOP,   /* a finding */
};
typedef enum sim_step sim_exec_fn(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                  uint32_t mask);

/* A decoded instruction.  Operands are byte offsets into warp->base[bit 0 of the offset]. */
struct sim_op {
	sim_exec_fn *exec;
	const struct ptx_insn *insn;
	uint32_t d, a, b, c, addr; /* for predicates: the index */
	uint32_t guard;            /* predicate + 1; 0: none */
	uint32_t p;                /* predicate source */
	uint32_t target, back;     /* branches: index of an op; of a backward one, its number + 1 */
	int64_t imm;               /* of the address */
	uint32_t v[8];    /* registers of a vector or scalar that moves to or from memory */
	uint32_t more[2]; /* further addresses, as addr and imm */
	int64_t more_imm[2];
	uint32_t use[16]; /* registers read and written, as indices of warp->def */
	uint32_t def[9];
	uint8_t nv, nuse, ndef, nmore;
	uint8_t type, type2;
	uint8_t size;   /* bytes of an element in memory */
	uint8_t dw, aw; /* bytes a lane of destination and first source: 4 or 8 */
	uint8_t space;  /* of a memory access */
	bool guard_not, p_not;
	bool strong; /* a load or store that is part of synchronisation */
	bool timer;  /* reads %globaltimer or %clock64 */
	bool addr32; /* the address is a 32-bit register */
	bool more32[2];
};

struct sim_slot { /* a value that every warp holds a copy of: special registers, addresses of
	             variables */
	uint32_t off;
	uint8_t width;
	bool var;
	uint32_t index; /* enum ptx_special, or number in sim_kernel.global */
};

struct sim_shared_var {
	const char *name;
	uint32_t at, size;
};

struct sim_kernel {
	struct sim *sim;
	const struct ptx_fn *fn;
	struct sim_op *op; /* nop, the last is an implicit ret */
	uint32_t nop, nback;
	uint32_t reg_bytes, nreg, npred;
	uint32_t timer_off[2]; /* offsets of %globaltimer and %clock64 */
	uint8_t *consts;
	struct sim_slot *slot;
	uint32_t nslot;
	struct sim_shared_var *shared;
	uint32_t nshared, shared_bytes;
	uint32_t dynamic; /* number of the extern variable in shared + 1; 0: none */
	bool bulk;        /* it has mbarriers or bulk copies */
	uint64_t (*global)[SIM_MAX_RANKS]; /* addresses of .global variables */
	uint32_t nglobal;
	uint32_t *param_off;
	uint32_t param_bytes;
	struct sim_cta *pool; /* finished CTAs, to be used again */
	uint32_t race_number; /* in sim_race.kernel */
};

/* ---- memory ---- */
struct sim_block {
	const char *name;
	unsigned rank; /* SIM_MAX_RANKS: multicast */
	uint64_t addr, bytes;
	uint8_t *data;
	uint64_t *defined;  /* a bit a byte */
	uint32_t *writer;   /* per 2 bytes: line << 5 | rank + 1; 0: the host or nobody */
	uint16_t *when;     /* per 2 bytes: the count of launches started at the last write from a
	                       kernel */
	uint64_t *constant; /* per 2 bytes: line << 16 | `when` of the launch that read it by .nc;
	                       NULL: none did */
	uint16_t last_write;
	bool written;                             /* by a kernel, ever */
	bool watched;                             /* a waiting warp polls it */
	struct race_cell **shadow;                /* pages of it; NULL: no races are looked for */
	struct sim_block *replica[SIM_MAX_RANKS]; /* of a multicast block */
};

struct sim_word { /* who touched a word of shared memory last */
	uint16_t wthread, rthread, rthread2;
	uint8_t wmask, rmask, rmask2; /* bytes of the word; 0: nobody */
	uint32_t wclock, rclock, rclock2;
	uint32_t wline, rline, rline2;
	uint32_t wfence; /* proxy fences that the writer had made */
};

/* ---- agents ---- */
struct sim_poll { /* the last execution of a strong load */
	const struct sim_op *op;
	uint32_t mask;
	uint64_t turn; /* warp->strong then */
	uint64_t addr[SIM_LANES], value[SIM_LANES];
	/* explore: the warp's trace before it made this load the first time since it stored, how
	 * much it had stored, and how often it had waited */
	uint64_t before, stores, waits;
};

struct sim_back { /* what a backward branch saw when it was last taken */
	uint64_t loads, change, stores, strong;
	uint32_t mask;
	bool seen;
};

enum sim_state {
	SIM_READY,
	SIM_WAITING,
	SIM_AT_BARRIER,
	SIM_AT_GRID, /* waits for the launches before to end */
	SIM_DONE
};

struct sim_warp {
	struct sim_cta *cta;
	uint8_t *base[2];
	uint32_t *def, *pred;
	uint32_t pc, stop_pc; /* stop_pc: lanes that are not active wait there */
	uint32_t active, live, born;
	uint32_t waiting,
	        parked; /* lanes that poll in vain; lanes at a barrier that those have to reach */
	uint32_t lane_pc[SIM_LANES];
	unsigned index, where; /* in the CTA; in the list of its state */
	enum sim_state state;
	unsigned barrier;          /* SIM_AT_BARRIER: which one */
	unsigned replica;          /* of a multimem access under way */
	uint64_t order_key;        /* of its order of replicas */
	unsigned torn;             /* elements of a torn store that are written */
	const struct sim_op *late; /* weak memory: a load that is still to be made; NULL: none */
	uint32_t late_mask;
	uint64_t late_addr[SIM_LANES];
	int64_t priority; /* SIM_PCT: the highest runs */
	uint64_t count, loads, stores, strong;
	struct sim_back *back;
	struct sim_poll poll[SIM_POLLS];
	unsigned npoll, next_poll;
	struct {                       /* explore.h */
		uint64_t place, trace; /* which warp, in every run; what it has done and seen */
		uint64_t before;       /* the trace, before the instruction */
		uint64_t waits;        /* how often it has waited */
		uint64_t version;      /* postponed: of what it is about to touch, then */
		bool at_choice, granted, postponed;
		bool again; /* the load is one of a loop that waits: it sees what it saw */
		bool fresh; /* it waited, and all that can come has come */
	} x;
	uint64_t poll_from;        /* polls of the iterations in vain have a later turn than this */
	uint64_t evicted;          /* the latest turn of a poll that was forgotten ... */
	uint64_t gone[SIM_LINES];  /* ... and the lines of those, since it waited last */
	uint64_t lines[SIM_LINES]; /* a bit for each line of memory that it polls, by hash */
	_Alignas(16) uint64_t tmp[SIM_LANES];
};

struct sim_barrier {
	unsigned threads, expect; /* expect 0: all */
	uint32_t warps;           /* mask */
};

struct sim_cta {
	struct sim_launch *launch;
	unsigned index, nwarp, done;
	uint32_t exited; /* mask of warps */
	bool triggered;  /* it has let dependents start */
	struct sim_barrier barrier[SIM_BARRIERS];
	uint8_t *shared;
	uint8_t *shared_defined; /* a byte a byte: bit 0 belongs to a variable, bit 1 defined */
	struct sim_word *word;
	struct sim_async *async;       /* NULL: the kernel has no bulk copies */
	uint32_t clock[SIM_MAX_WARPS]; /* counts a warp's barriers and arrivals */
	uint32_t met[SIM_MAX_WARPS]; /* its clock when its lanes last met, at a barrier or behind an
	                                mbarrier that the warp has arrived at */
	uint32_t seen[SIM_MAX_WARPS][SIM_MAX_WARPS]; /* [w][v]: v's clock that w is ordered after */
	struct sim_warp *warp[SIM_MAX_WARPS];
	struct race_cta *race; /* NULL: no races are looked for */
	struct sim_cta *next;
};

struct sim_launch {
	const struct sim_kernel *kernel;
	unsigned rank, stream, grid, block, number;
	uint32_t dynamic;      /* bytes of dynamic shared memory */
	unsigned begun, ended; /* CTAs */
	bool started;
	bool programmatic;  /* it may start before the item before it has ended */
	bool over;          /* all its CTAs have ended, and it is not yet its turn to */
	unsigned triggered; /* CTAs that let dependents start, or have ended */
	unsigned race_turn;
	struct race_launch *race;
	uint64_t start_at; /* step, once it heads its stream; UINT64_MAX: not yet known */
	uint16_t when;     /* count of launches started, this one included */
	uint32_t *order;
	uint8_t *params;
	bool (*host)(void *ctx, struct sim *s, unsigned rank); /* instead of a kernel */
	void *host_ctx;
	const struct sim_launch *after; /* instead of a kernel: an item that has to finish before */
	bool marked, finished;
	struct race_clock *left; /* marked and finished: what its stream knew then */
	struct sim_cta *resident;
	struct sim_launch *next;
};

struct sim_list { /* warps in one state */
	struct sim_warp **w;
	size_t n, cap;
};

struct sim_rank {
	struct sim_launch *stream[SIM_STREAMS], **tail[SIM_STREAMS];
	struct sim_launch *last[SIM_STREAMS]; /* queued */
	struct sim_list ready, waiting;
	unsigned resident, turn;
	unsigned launched, finished;
};

struct sim {
	struct arena *arena;
	struct sim_options o;
	struct sim_block **block;
	size_t nblock, cap_block;
	struct sim_rank rank[SIM_MAX_RANKS];
	struct sim_finding *findings, **tail;
	unsigned nfinding;
	uint64_t rng;
	uint64_t steps, ns, progress;
	uint16_t started; /* launches started, modulo 2^16 */
	unsigned pending; /* launches queued or running */
	unsigned nwaiting, turn, slow_odds;
	bool stopped;             /* by a host function */
	bool wake;                /* something that any waiting warp may wait for came */
	uint64_t wake_at;         /* the step at which all waiting warps look again */
	uint64_t watches;         /* how often a warp began to wait */
	uint64_t woken, woken_at; /* the line that was written last, and `watches` then */
	struct sim_stats stats;
	struct sim_copy **copy, *free_copy; /* bulk copies under way */
	size_t ncopy, cap_copy;
	uint64_t change_at;    /* SIM_PCT: the step of the next change of priorities */
	unsigned changes;      /* that are left */
	uint64_t pct_progress; /* and `progress` when last looked at, and turns without any since */
	unsigned pct_idle;
	int64_t lowest;              /* SIM_PCT: no priority is lower */
	bool lazy_copies;            /* SIM_PCT: bulk copies get on when nobody else can */
	struct sim_race *race;       /* NULL: none are looked for */
	struct sim_explore *explore; /* who makes the choices; NULL: the generator */
	bool fresh;                  /* weak memory: reads see the last write */
};

/* ---- mem.c, shared.c ---- */
struct sim_block *sim_find(struct sim *s, uint64_t addr);
bool sim_bytes_defined(const struct sim_block *b, uint64_t off, uint64_t n);
struct sim_block *sim_bad_addr(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                               unsigned lane, uint64_t addr, unsigned size, bool multicast);
bool sim_bad_bytes(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned lane,
                   const struct sim_block *b, uint64_t off, unsigned n);
/* A kernel's store: contents, defined, writer. */
void sim_store(struct sim *s, const struct sim_warp *w, const struct sim_op *op,
               struct sim_block *b, uint64_t off, const void *p, unsigned n);
void sim_event(struct sim *s, const struct sim_warp *w, const struct sim_op *op, unsigned lane,
               enum sim_access_kind kind, const struct sim_block *b, uint64_t off, unsigned n,
               bool multicast);
/* Shared memory: the bytes of a legal access, or NULL with a finding; also looks for races. */
uint8_t *sim_shared_access(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                           unsigned lane, uint64_t addr, unsigned n, bool read, bool write);
/* Shared memory of a bulk copy, filled (load) or read by it: false with a finding. */
bool sim_shared_bulk(struct sim *s, struct sim_warp *w, const struct sim_op *op, unsigned lane,
                     uint64_t addr, uint32_t n, bool load);
/* Is thread `me` ordered behind what `thread` did when its warp's clock was `clock`? */
bool sim_shared_ordered(const struct sim_cta *c, unsigned me, unsigned thread, uint32_t clock);
/* The warps in the mask, and the lanes of each, are ordered from here on. */
void sim_shared_barrier(struct sim_cta *c, uint32_t warps);

/* ---- report.c ---- */
/* Records a finding; lane SIM_LANES: the warp's first active lane. Always returns SIM_STEP_STOP. */
enum sim_step sim_found(struct sim *s, const struct sim_warp *w, const struct sim_op *op,
                        unsigned lane, enum sim_check check, const char *fmt, ...)
        __attribute__((format(printf, 6, 7)));
/* A finding that no warp made. */
void sim_found_at(struct sim *s, unsigned rank, enum sim_check check, const struct ptx_insn *i,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* "'x' + 16 of rank 3", or what else the address is. */
const char *sim_address_text(struct sim *s, uint64_t addr);
const char *sim_writer_text(struct sim *s, const struct sim_block *b, uint64_t off);

const char *sim_register_text(struct sim *s, const struct sim_kernel *k, uint32_t index);

/* ---- deadlock.c ---- */
void sim_report_deadlock(struct sim *s);

/* ---- warp.c: lanes and their program counters ---- */
/* Active lanes become those with the least pc; false: none can run. */
bool sim_pick(struct sim_warp *w);
/* Lanes in `mask` step aside at pc: as ones that poll in vain, or (parked) behind those.  What the
 * warp does then. */
enum sim_step sim_step_aside(struct sim *s, struct sim_warp *w, uint32_t mask, bool parked);
/* Takes the lanes in `mask` out of `active` to pc `at`. */
void sim_split(struct sim_warp *w, uint32_t mask, uint32_t at);
/* Runs at most `budget` instructions.  false: a finding. */
bool sim_run_warp(struct sim *s, struct sim_warp *w, unsigned budget);

/* ---- wait.c: is a warp waiting? ---- */
void sim_note_load(struct sim_warp *w, const struct sim_op *op, uint32_t mask, const uint64_t *addr,
                   const uint64_t *value);
void sim_note_store(struct sim *s, struct sim_warp *w);
/* A backward branch is taken by `mask`: true when the iteration that it ends changed nothing. */
bool sim_note_back(struct sim_warp *w, const struct sim_op *op, uint32_t mask);
void sim_watch(struct sim *s, struct sim_warp *w);
/* n bytes at addr were written: the warps that poll their lines are ready. */
void sim_wake_line(struct sim *s, uint64_t addr, unsigned n);
void sim_wake_all(struct sim *s);

/* ---- late.c: loads that are made later than their place (weak memory) ---- */
/* Puts the load off, if it may be and the choice falls so. */
bool sim_late_begin(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask,
                    const uint64_t *addr);
/* May `op`, for the lanes in mask, come before it? */
bool sim_late_passes(const struct sim_warp *w, const struct sim_op *op, uint32_t mask);
/* Makes it, when `op`, for the lanes in mask, may not come before it.  false: a finding. */
bool sim_late_before(struct sim *s, struct sim_warp *w, const struct sim_op *op, uint32_t mask);
/* exec_mem.c */
enum sim_step sim_load_global(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                              uint32_t mask, const uint64_t *addr);

/* ---- cta.c ---- */
void sim_cta_start(struct sim *s, struct sim_launch *l, unsigned index);
/* All lanes of w have ended.  false: a finding. */
bool sim_warp_done(struct sim *s, struct sim_warp *w);
enum sim_step sim_barrier_arrive(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                 unsigned barrier, unsigned threads);

/* ---- sched.c ---- */
void sim_set_state(struct sim *s, struct sim_warp *w, enum sim_state state);
/* All its CTAs have ended; where it does not head its stream yet, that is noted. */
void sim_launch_done(struct sim *s, struct sim_launch *l);
uint64_t sim_random(struct sim *s);
/* One of n, where a search makes the choices. */
unsigned sim_choose(struct sim *s, unsigned n);

/* A hash for choices that must not depend on the schedule: of a key and the seed. */
static inline uint64_t sim_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	h ^= h >> 32;
	h *= UINT64_C(0xd6e8feb86659fd93);
	return h ^ h >> 29;
}

static inline const void *sim_src(const struct sim_warp *w, uint32_t o)
{
	return w->base[o & 1] + (o & ~1u);
}

static inline void *sim_reg(struct sim_warp *w, uint32_t o)
{
	return w->base[0] + o;
}

static inline uint64_t sim_lane_addr(const struct sim_warp *w, const struct sim_op *op, unsigned i)
{
	const void *a = sim_src(w, op->addr);
	uint64_t base = op->addr32 ? ((const uint32_t *)a)[i] : ((const uint64_t *)a)[i];

	base += (uint64_t)op->imm;
	return op->addr32 ? (uint32_t)base : base;
}

/* Further addresses of a bulk copy. */
static inline uint64_t sim_more_addr(const struct sim_warp *w, const struct sim_op *op, unsigned k,
                                     unsigned i)
{
	const void *a = sim_src(w, op->more[k]);
	uint64_t base = op->more32[k] ? ((const uint32_t *)a)[i] : ((const uint64_t *)a)[i];

	base += (uint64_t)op->more_imm[k];
	return op->more32[k] ? (uint32_t)base : base;
}

/* Bytes that the kernel's extern .shared array can have (227 KB for a CTA, as sm_90 has). */
static inline uint32_t sim_most_dynamic(const struct sim_kernel *k)
{
	return k->dynamic ? (227u << 10) - k->shared[k->dynamic - 1].at : 0;
}

static inline unsigned sim_thread(const struct sim_warp *w, unsigned lane)
{
	return w->index * SIM_LANES + lane;
}

/* The block and offset of an access that is legal for lane `lane` of w, or NULL with a finding. */
static inline struct sim_block *sim_check_addr(struct sim *s, struct sim_warp *w,
                                               const struct sim_op *op, unsigned lane,
                                               uint64_t addr, unsigned size, bool multicast,
                                               uint64_t *off)
{
	uint64_t n = addr >> SIM_ADDR_SHIFT;
	struct sim_block *b = n && n <= s->nblock ? s->block[n - 1] : NULL;

	*off = 0;

	if (b && (b->rank == SIM_MAX_RANKS) == multicast) {
		*off = addr - b->addr;
		if (*off < b->bytes && size <= b->bytes - *off && !(addr & (size - 1)))
			return b;
	}
	return sim_bad_addr(s, w, op, lane, addr, size, multicast);
}

/* False with a finding: bytes that are not defined. */
static inline bool sim_check_defined(struct sim *s, struct sim_warp *w, const struct sim_op *op,
                                     unsigned lane, const struct sim_block *b, uint64_t off,
                                     unsigned n)
{
	uint64_t bits =
	        (UINT64_C(1) << n) - 1; /* n is a power of 2, at most 32, and off a multiple */

	if ((b->defined[off / 64] >> (off & 63) & bits) == bits)
		return true;
	return sim_bad_bytes(s, w, op, lane, b, off, n);
}

#define SIM_EACH(lane, mask)             \
	for (uint32_t m_ = (mask), lane; \
	     m_ && (lane = (uint32_t)__builtin_ctz(m_), m_ &= m_ - 1, true);)
