/*
 * Code generation: a fused IR kernel -> kernel plan -> PTX module.  Design section 5.
 */
#pragma once
#include "codegen/ptx/ptx.h"
#include "codegen/workspace.h"
#include "ir/ir.h"
#include "support/status.h"

enum cg_protocol {
	CG_AUTO,
#define CG_PROTOCOL(ID, ...) CG_##ID,
#include "codegen/protocols.def"
	CG_NPROTOCOLS
};
enum cg_order { CG_FORMAL, CG_HW, CG_STRICT };

/* By the spelling of the command line ("mm-twoshot", "auto"; "formal"); -1: unknown. */
int cg_protocol_by_name(const char *s);
const char *cg_protocol_name(enum cg_protocol p);
/* The spellings of the protocols whose rows are in `rows` (a mask of 1 << enum cg_rows), with
 * commas. */
const char *cg_protocol_names(struct arena *a, unsigned rows);
int cg_order_by_name(const char *s);
const char *cg_order_name(enum cg_order o);
const char *cg_order_names(struct arena *a); /* "formal, hw, strict" for messages */

enum cg_symmetric { CG_SYM_NONE, CG_SYM_PEER, CG_SYM_MULTICAST };
enum cg_rows { CG_ROWS_OWN, CG_ROWS_ALL, CG_ROWS_ANY }; /* OWN and ALL as enum ir_rows */

struct cg_protocol_info { /* a row of protocols.def; that of CG_AUTO says nothing */
	const char *name;
	enum cg_rows rows;
	enum cg_symmetric memory;
	unsigned sm;
	const char *doc;
};
extern const struct cg_protocol_info cg_protocol_info[CG_NPROTOCOLS];

/* The row form that the passes have to make for a protocol (ir_pass_options.rows). */
enum ir_rows cg_protocol_rows(enum cg_protocol p);

struct cg_target {
	const char *name; /* "sm_90" */
	unsigned sm;
	char suffix;      /* 'a', 'f' or 0 */
	unsigned version; /* least .version times 10 that knows the target */
	unsigned regs_per_sm, max_regs_per_thread;
	unsigned smem_per_cta, max_threads; /* bytes, with opt-in; of a CTA */
	int spare_regs; /* registers of a thread by which ptxas stays below the estimate, when it
	                   must; negative: it needs more (regs.c) */
};
const struct cg_target *cg_target_by_name(const char *s); /* NULL: unknown */
/* The newest that a GPU of this compute capability (times 10) runs, without a suffix; NULL: none. */
const struct cg_target *cg_target_of(unsigned sm);
const char *cg_target_names(struct arena *a); /* "sm_80, sm_90, ..." for messages */

/*
 * Programmatic dependent launch (sm_90): the kernel may be launched before the one before it in the
 * stream has ended, and waits for it.  WAIT lets its own successor start when its rows are done;
 * EARLY already when the loads of the last rows have been issued.
 */
enum cg_pdl { CG_PDL_NONE, CG_PDL_WAIT, CG_PDL_EARLY };
int cg_pdl_by_name(const char *s); /* "none", "wait", "early"; -1: unknown */
const char *cg_pdl_name(enum cg_pdl p);

struct cg_options {
	unsigned tp; /* 1..CG_MAX_RANKS */
	const struct cg_target *target;
	enum cg_protocol protocol;
	enum cg_order order;
	unsigned threads, in_flight; /* 0: chosen; else forced (tests, tuning) */
	unsigned max_ctas;           /* 0: CG_MAX_CTAS */
	bool wide;                   /* rows go vector by vector even if they fit (tests) */
	enum cg_pdl pdl;
	bool rows_in_memory;        /* T is read from device memory: CG_ARG_ROWS_PTR */
	const char *spec_name;      /* for .file and comments; NULL: none */
	const struct diags *places; /* to turn spans into lines for .loc; NULL: no .loc */
};

struct cg_plan {
	enum cg_protocol protocol;
	enum cg_order order;
	unsigned tp;
	const struct cg_target *target;
	int64_t cols;     /* hidden */
	unsigned elems;   /* of a vector of the row: 8, 4 or 2 (rowprog.h) */
	unsigned threads; /* block size, a multiple of 32 */
	unsigned teams;   /* of threads in a block, each with rows of its own; 1 but for p2p-bulk */
	unsigned row_threads; /* of a team: threads / teams, a multiple of 32 */
	unsigned vecs;        /* vectors a thread holds of a row */
	unsigned in_flight;   /* rows in flight per CTA (slots of the unrolled loop) */
	unsigned stages;      /* levels that end in a row reduction, + 1 */
	unsigned smem;        /* bytes of static shared memory */
	unsigned dynamic;     /* of dynamic shared memory, which a launch has to ask for */
	unsigned ring_stages,
	        ring_ranks; /* p2p-bulk: stages of the ring, ranks whose rows are in one */
	unsigned ring_out;  /* bytes of the staging buffers of results */
	unsigned ring_bars; /* mbarriers that are declared: with spare ones, to align the ring */
	unsigned max_ctas;
	unsigned per_sm; /* CTAs that the code is made to fit into an SM at once */
	bool wide;       /* the row does not fit into registers: it goes vector by vector */
	bool reread;     /* wide: inputs are loaded again in each level that reads them */
	unsigned parked; /* wide: vectors of a thread that are in shared memory between levels */
	unsigned park_units;      /* of such a vector: places of elems 16-bit words */
	unsigned park_words;      /* and of single words */
	unsigned ahead;           /* wide: vectors whose loads are issued ahead */
	bool own_rows;            /* the row domain: own rows, or all rows (nothing sharded) */
	bool communicates;        /* has a workspace, and waits for other ranks */
	uint64_t bytes_in_flight; /* in-switch (or peer) loads outstanding per CTA */
	unsigned est_regs;        /* estimate the shape was chosen with */
	bool keep_weights;        /* weights are loaded once, into registers */
	unsigned sum_ranks;  /* ranks whose addends are in registers at once; 0: the switch sums, or
	                       nobody */
	uint32_t xchg_row;   /* bytes of a row that one rank pushes; 0: no exchange buffer */
	unsigned xchg_ranks; /* ranks that have a place in a row of it */
	enum cg_pdl pdl;
	bool rows_in_memory;
	const char *why; /* one line: how the shape was chosen */
};

enum cg_arg_kind {
	CG_ARG_UC,       /* u64: parameter `param` on this rank */
	CG_ARG_MC,       /* u64: multicast address of parameter `param` */
	CG_ARG_WS_UC,    /* u64: this rank's workspace */
	CG_ARG_WS_MC,    /* u64: multicast address of the workspace */
	CG_ARG_ROWS,     /* u32: T */
	CG_ARG_RANK,     /* u32 */
	CG_ARG_PEERS,    /* u64[tp] by value: parameter `param` on every rank, this one included */
	CG_ARG_WS_PEERS, /* u64[tp]: the workspaces */
	CG_ARG_XCHG_UC,  /* u64: this rank's exchange buffer */
	CG_ARG_XCHG_MC,  /* u64: its multicast address */
	CG_ARG_XCHG_PEERS, /* u64[tp]: the exchange buffers */
	CG_ARG_ROWS_PTR,   /* u64: T, a u32 in device memory */
	CG_NARGS
};

struct cg_arg {
	enum cg_arg_kind kind;
	unsigned param;        /* index in the ir_func's parameters */
	uint32_t offset, size; /* in the parameter block */
	const char *name;      /* of the .param */
};

struct cg_param { /* the caller's side of a parameter: manifest, API, checker */
	const char *name;
	struct ir_type type;
	enum ir_mode mode;
	int64_t ld;     /* elements between rows */
	unsigned align; /* bytes; base and rows */
	enum cg_symmetric symmetric;
	bool local_index; /* row 0 of the buffer is the first own row (sharded); else row t is row t
	                   */
	bool constant; /* read before a dependent launch waits, or through .nc: must not change */
};

struct cg_kernel {
	const char *name; /* of the spec's kernel; also the entry's */
	struct cg_plan plan;
	struct cg_param *param; /* as the ir_func's parameters */
	unsigned nparam;
	struct cg_arg *arg;
	unsigned narg;
	uint32_t param_bytes;
	uint64_t contract; /* hash of all that ranks must agree on (design section 5) */
	struct ptx_module *module;
};

/*
 * Compiles one kernel in IR_FORM_FUSED.  ST_INPUT with E8xx diagnostics where the protocol cannot
 * do it (and what can); ST_INTERNAL when our own PTX does not verify.
 */
enum status cg_compile(const struct ir_func *f, const struct cg_options *o, struct arena *a,
                       struct diags *d, struct cg_kernel **out);

/*
 * The kernel that gathers a carried parameter: `export_PARAM`(PARAM, out PARAM_whole), in
 * IR_FORM_SOURCE, alone in a module of its own (f->module) in the arena.  In own rows it is
 * store_all(load(PARAM)); in all rows a copy.
 */
struct ir_func *cg_export(const struct ir_func *f, unsigned param, struct arena *a);

/*
 * CTAs to launch for T rows, given a wish (0: as many as pay, on 128 SMs): a pure function, the same
 * on all ranks, at least 1.  All CTAs of a kernel that communicates have to be resident at once:
 * where a GPU has fewer SMs, or gives fewer to it, give a wish of at most per_sm for each.
 */
unsigned cg_grid(const struct cg_plan *p, uint64_t T, unsigned ctas);

/*
 * The exchange buffer of a kernel that pushes (plan.xchg_row is not 0): symmetric, one for each
 * workspace and protocol, at least this many bytes for launches of at most `rows` rows; a third of
 * its bytes goes to push_state.stride of the workspace.  Kernels of different row lengths may share
 * one.  Filled with 32-bit words of cg_exchange_fill, collectively, when it is new and after an
 * abort.
 */
uint64_t cg_exchange_bytes(const struct cg_plan *p, uint64_t rows);
uint32_t cg_exchange_fill(void);

/* The set of push state that the protocol uses; -1: none. */
int cg_push_set(enum cg_protocol p);

/* For --emit plan. */
void cg_print_plan(const struct cg_kernel *k, struct strbuf *out);
