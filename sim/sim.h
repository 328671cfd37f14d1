/*
 * The simulator: N ranks x CTAs x warps execute the text of PTX modules, under a chosen schedule,
 * with every access checked.  Design section 6; doc/simulator.md.  It shares no arithmetic with the
 * evaluator or code generation.
 *
 *	struct sim *s = sim_new(&arena, &options);
 *	addresses from sim_alloc, sim_alloc_symmetric; contents by sim_write;
 *	sim_launch for every rank; sim_run; sim_read
 *
 * One sim is used by one thread.  Everything lives in the caller's arena.
 */
#pragma once
#include "codegen/ptx/ptx.h"
#include "support/arena.h"
#include "support/strbuf.h"
#include <stdbool.h>
#include <stdint.h>

#define SIM_MAX_RANKS 16

enum sim_check {
#define SIM_CHECK(ID, name, title) SIM_##ID,
#include "sim/checks.def"
#undef SIM_CHECK
	SIM_NCHECKS
};
extern const char *const sim_check_name[SIM_NCHECKS];

enum sim_schedule { SIM_ROUND_ROBIN, SIM_RANDOM, SIM_SLOW_RANK, SIM_PCT, SIM_NSCHEDULES };
extern const char
        *const sim_schedule_name[SIM_NSCHEDULES]; /* "round-robin", "random", "slow-rank", "pct" */

/* How the switch sums (doc/simulator.md).  Results are rounded once to the element type. */
enum sim_sum {
	SIM_SUM_RANK_ORDER, /* f32, in order of ranks, to nearest even */
	SIM_SUM_PERMUTED,   /* f32, in an order that differs by access and by requesting rank */
	SIM_SUM_EXACT,      /* the exact sum to nearest even */
	SIM_SUM_FAITHFUL,   /* either neighbour of the exact sum, by a keyed hash of access and
	                       requester */
	SIM_NSUMS
};
extern const char
        *const sim_sum_name[SIM_NSUMS]; /* "rank-order", "permuted", "exact", "faithful" */

/*
 * Which races are looked for.  FORMAL is the PTX memory model, where strong multimem and strong
 * unicast accesses of the same bytes cohere.  HW takes kernel boundaries for fences of all that
 * strong accesses carry, and aliases for one address.  STRICT asks for an alias fence on the
 * reader's side, unless its kernel began after the write.
 */
enum sim_races { SIM_RACES_OFF, SIM_RACES_HW, SIM_RACES_FORMAL, SIM_RACES_STRICT, SIM_NRACES };
extern const char *const sim_races_name[SIM_NRACES]; /* "off", "hw", "formal", "strict" */

struct sim_access;
struct sim_explore;
struct sim_raced { /* a race; instructions are NULL where the host stands for a kernel */
	const char *buffer;
	bool wrote_earlier, writes;
	const struct ptx_insn *earlier, *now;
	const char *missing; /* "order: ...", "scope: ...", "size: ...", "proxy fence: ..." */
};
struct sim_options {
	unsigned ranks; /* 1..SIM_MAX_RANKS */
	uint64_t seed;  /* of schedules, permutations, perturbations; the same seed replays the same
	                   run */
	enum sim_schedule schedule;
	unsigned turn; /* SIM_ROUND_ROBIN: instructions of a warp's turn; 0: 64; 1: all in step */
	unsigned slow_rank; /* SIM_SLOW_RANK: this one runs rarely */
	enum sim_sum sum;
	bool sum_no_negative_zero; /* the switch returns +0 for -0 */
	bool perturb_approx; /* approximate instructions are off by up to their documented bound, by
	                        a keyed hash */
	bool tear;           /* elements of a vector stored to global memory become visible one by
	                        one, with other warps' steps between (not under round robin) */
	unsigned resident;   /* CTAs of a rank that run at once; 0: all */
	unsigned max_start_delay; /* steps; each rank's launch starts after a random delay of at
	                             most this */
	uint64_t max_steps;       /* warp instructions; 0: a large default */
	bool jump_time; /* when nothing can progress, advance %globaltimer so that time-outs fire,
	                   instead of reporting a deadlock */
	enum sim_races races;
	/* gets each race, and the run goes on; NULL: the first one is a finding */
	void (*on_race)(void *ctx, const struct sim_raced *r);
	bool weak; /* strong accesses see and order writes as weak memory lets them; races not off
	            */
	struct sim_explore *explore; /* an exhaustive search makes the choices; races not off */
	/* events, for checkers to come (races, weak memory); NULL: none */
	void (*on_access)(void *ctx, const struct sim_access *e);
	void *ctx;
};

enum sim_access_kind { SIM_ACC_READ, SIM_ACC_WRITE, SIM_ACC_RMW, SIM_ACC_FENCE, SIM_ACC_BARRIER };
struct sim_access { /* one lane's access, by physical bytes; a multicast access is one event a
	               replica */
	enum sim_access_kind kind;
	unsigned rank, cta, thread; /* who */
	unsigned home;              /* whose memory */
	uint64_t offset;            /* in `home`'s memory; UINT64_MAX for fences and barriers */
	uint32_t size;
	bool shared, multicast;
	enum ptx_order order;
	enum ptx_scope scope;
	const struct ptx_insn *insn;
};

struct sim;
struct sim_kernel; /* a decoded entry of a module */

struct sim *sim_new(struct arena *a, const struct sim_options *o);

/* Memory of one rank: `bytes` undefined bytes with guard bands on both sides.  Its address (never
 * 0, at least 256-aligned). */
uint64_t sim_alloc(struct sim *s, unsigned rank, uint64_t bytes, const char *name);

/* One buffer on every rank.  uc[r] is rank r's address as every rank may use it; mc reaches all (0
 * when !multicast). */
struct sim_symmetric {
	uint64_t uc[SIM_MAX_RANKS];
	uint64_t mc;
};
struct sim_symmetric sim_alloc_symmetric(struct sim *s, uint64_t bytes, bool multicast,
                                         const char *name);

/* Host access.  false: outside of an allocation.  sim_write defines the bytes; sim_undefine makes
 * them undefined again. */
bool sim_write(struct sim *s, uint64_t addr, const void *p, uint64_t n);
bool sim_read(struct sim *s, uint64_t addr, void *p, uint64_t n);
bool sim_undefine(struct sim *s, uint64_t addr, uint64_t n);
bool sim_defined(struct sim *s, uint64_t addr, uint64_t n); /* all n bytes are */

/* The PTX line that last wrote the byte; 0: the host, or nobody.  *rank: who. */
uint32_t sim_writer(struct sim *s, uint64_t addr, unsigned *rank);

/* Decodes an entry once, for any number of launches.  NULL when it uses what the simulator does not
 * model: see sim_findings. */
const struct sim_kernel *sim_load(struct sim *s, const struct ptx_module *m, const char *entry);

/* Queues a launch on a rank's stream (streams 0..3); launches of a stream run one after the other.
 */
void sim_launch(struct sim *s, unsigned rank, unsigned stream, const struct sim_kernel *k,
                unsigned grid, unsigned block, const void *params, uint32_t param_bytes);

/* The same with dynamic shared memory: the size of the kernel's extern .shared array. */
void sim_launch_dynamic(struct sim *s, unsigned rank, unsigned stream, const struct sim_kernel *k,
                        unsigned grid, unsigned block, uint32_t shared_bytes, const void *params,
                        uint32_t param_bytes);

/*
 * The same as a programmatic dependent launch: its CTAs may start as soon as all CTAs of the launch
 * before it have let dependents start (griddepcontrol.launch_dependents) or ended, or before a host
 * function that it follows is called; griddepcontrol.wait waits for that to end.
 */
void sim_launch_early(struct sim *s, unsigned rank, unsigned stream, const struct sim_kernel *k,
                      unsigned grid, unsigned block, uint32_t shared_bytes, const void *params,
                      uint32_t param_bytes);

/*
 * Queues a host function on a rank's stream: it is called when all that was queued there before it
 * has finished, while other ranks may be in the middle of anything, and may use the host accesses
 * above.  So it stands for the kernels before and after a collective that write its inputs and read
 * its outputs.  When it returns false the run stops, without a finding. The start delay
 * (max_start_delay) comes before a rank's first queued item, whichever kind it is.
 */
void sim_host(struct sim *s, unsigned rank, unsigned stream,
              bool (*fn)(void *ctx, struct sim *s, unsigned rank), void *ctx);

/*
 * Events.  A mark is the last item that was queued on a rank's stream so far, NULL when there was none.
 * What is queued behind sim_wait on a stream of the same rank begins when the mark's item has finished,
 * and sees what it wrote.
 */
struct sim_launch;
const struct sim_launch *sim_mark(struct sim *s, unsigned rank, unsigned stream);
void sim_wait(struct sim *s, unsigned rank, unsigned stream, const struct sim_launch *mark);

/* Runs until all streams are empty.  false: a finding stopped it. */
bool sim_run(struct sim *s);

struct sim_finding {
	enum sim_check check;
	unsigned rank, cta, thread;
	uint32_t line;                   /* PTX line, 0: none */
	uint32_t loc_line;               /* spec line, 0: none */
	const struct sim_kernel *kernel; /* that was running; NULL: none */
	const char *text; /* one paragraph, complete: what, where, who waits for whom */
	const struct sim_finding *next;
};
const struct sim_finding *sim_findings(const struct sim *s);
void sim_render_findings(const struct sim *s, struct strbuf *out);

/*
 * Exhaustive search: as long as sim_explore_next says so, a new simulator with the same launches is
 * run with options.explore set (under round robin, with sums in rank order and no tearing), and its
 * outcome looked at, unless the run was cut since all that follows was seen in another.
 *
 *	e = sim_explore_new(&arena, 1000000);
 *	while (sim_explore_next(e)) { s = sim_new(..); ..; sim_run(s); if (!sim_explored(e).cut) .. }
 */
struct sim_explored {
	uint64_t runs, states;
	bool complete; /* no choice is left */
	bool cut;      /* the last run was */
};
struct sim_explore *sim_explore_new(struct arena *a, uint64_t most_runs);
bool sim_explore_next(struct sim_explore *e);
struct sim_explored sim_explored(const struct sim_explore *e);

struct sim_stats {
	uint64_t warp_insns, lane_insns, launches, ns; /* ns: modelled time */
};
struct sim_stats sim_stats(const struct sim *s);
