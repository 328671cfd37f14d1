/*
 * plait: from a spec of a tensor-parallel layer's tail to kernels.  The public interface.
 *
 *	struct plait_compile_options o = PLAIT_COMPILE_OPTIONS_INIT;
 *	plait_code *code;
 *
 *	o.text = text;
 *	o.text_len = strlen(text);
 *	o.tp = 8;
 *	if (plait_compile(&o, &code) != PLAIT_OK)
 *		fprintf(stderr, "%s", plait_code_diagnostics(code));
 *	else
 *		load(plait_code_ptx(code, 0, NULL), plait_code_entry(code, 0));
 *	plait_code_free(code);
 *
 * Nothing here prints, exits or keeps global state; compiling needs no GPU.  A handle is used by one
 * thread at a time; different handles by different threads at once.  Text that a call returns belongs to the
 * handle and is valid until it is freed.
 *
 * Structures begin with struct_size, which the caller sets to sizeof of what it was compiled with
 * (the _INIT macros do): later versions append members, and neither side touches what the other does
 * not know.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum plait_status {
	PLAIT_OK = 0,
	PLAIT_INPUT = 1,    /* the spec, or a check of it, is wrong: see the diagnostics */
	PLAIT_USAGE = 2,    /* the arguments make no sense: see the diagnostics */
	PLAIT_ENV = 3,      /* the environment lacks something */
	PLAIT_INTERNAL = 4, /* a bug of plait's: please report it with the diagnostics */
	PLAIT_NOMEM = 5,
	PLAIT_TIMEOUT = 6,  /* a collective was given up: see the record */
	PLAIT_MISMATCH = 7, /* ranks differ in what they must agree on */
};

/* "0.1.0": of the library, not of this header. */
const char *plait_version(void);

/* One English phrase, never NULL. */
const char *plait_status_text(enum plait_status s);

/* ---- compiling ---- */

/* Overrides a constant of the spec, for sweeps: {"hidden", "4096"}. */
struct plait_set {
	const char *name, *value;
};

enum plait_allow { PLAIT_AUTO, PLAIT_NO, PLAIT_YES };

struct plait_compile_options {
	size_t struct_size;
	const char *spec_name; /* shown in diagnostics and in the PTX; NULL: "spec" */
	const char *text;      /* the spec, UTF-8; need not end in a NUL */
	size_t text_len;
	const char *kernel;   /* compile this one only; NULL: all */
	unsigned tp;          /* ranks, 1..16 */
	const char *target;   /* "sm_90"; NULL: that */
	const char *protocol; /* "mm-twoshot", "p2p-twoshot", "push", ...; NULL: "auto" */
	const char *order;    /* memory order: "formal", "hw", "strict"; NULL: "formal" */
	const struct plait_set *set;
	size_t nset;
	size_t memory_limit; /* bytes a compilation may take; 0: 1 GiB */
	bool remarks;        /* also say what the compiler chose and why: gathers, reorderings */
	/*
	 * Of protocol "auto", which chooses as `plait compile` does: kernels with carried parameters
	 * get protocols of one form of rows.
	 */
	uint64_t rows; /* T to choose for; 0: not known, what is right for many */
	const char
	        *form;   /* "own", "all": which rows a rank works on; NULL: as the protocol needs */
	const char *pdl; /* programmatic dependent launch: "none", "wait", "early"; NULL: "none" */
	enum plait_allow multicast; /* may "auto" take multicast? PLAIT_AUTO: if the target has it,
	                               unless the environment says no (doc/protocols.md) */
	bool rows_in_memory;        /* T is read from device memory (PLAIT_ARG_ROWS_PTR) */
};

#define PLAIT_COMPILE_OPTIONS_INIT                                  \
	{                                                           \
		.struct_size = sizeof(struct plait_compile_options) \
	}

/* The result of a compilation: diagnostics, and, when it went well, kernels. */
typedef struct plait_code plait_code;

/*
 * Compiles a spec.  *out is set whenever there is memory for it, also on failure: then it has the
 * diagnostics and no kernels.  The caller frees it.
 */
enum plait_status plait_compile(const struct plait_compile_options *o, plait_code **out);

/* NULL is accepted. */
void plait_code_free(plait_code *c);

/* Errors, warnings and, if asked for, remarks, as text; "" when there are none.  NULL gives "out
 * of memory". */
const char *plait_code_diagnostics(const plait_code *c);

/* How many kernels; below, i counts them from 0, in the order of the spec.  An i beyond gives NULL.
 */
size_t plait_code_count(const plait_code *c);

/* The name of the kernel in the spec. */
const char *plait_code_name(const plait_code *c, size_t i);

/* The PTX of one kernel, a module of its own, NUL-terminated; *len (may be NULL) without the NUL.
 */
const char *plait_code_ptx(const plait_code *c, size_t i, size_t *len);

/* The symbol to launch. */
const char *plait_code_entry(const plait_code *c, size_t i);

/* How it runs and why, for people. */
const char *plait_code_plan(const plait_code *c, size_t i);

/* ---- facts for the caller that launches ---- */

struct plait_kernel_info {
	size_t struct_size;
	const char *protocol, *order, *target;
	uint32_t tp;
	uint32_t threads;      /* block size */
	uint32_t shared_bytes; /* static: part of the module, so a launch asks for none */
	uint32_t max_ctas;     /* the largest grid */
	uint32_t nparam, narg;
	uint32_t argument_bytes; /* size of the kernel's argument block */
	int64_t cols;            /* row length */
	uint64_t contract;       /* equal on all ranks, or they must not launch together */
	bool communicates;       /* needs a workspace, and all ranks to launch it */
	uint32_t dynamic_bytes;  /* of dynamic shared memory: a launch asks for them */
};

#define PLAIT_KERNEL_INFO_INIT                                  \
	{                                                       \
		.struct_size = sizeof(struct plait_kernel_info) \
	}

enum plait_mode { PLAIT_IN, PLAIT_OUT, PLAIT_INOUT };
enum plait_symmetric {
	PLAIT_SYM_NONE,
	PLAIT_SYM_PEER,     /* every rank reaches every rank's buffer */
	PLAIT_SYM_MULTICAST /* and there is a multicast address */
};

/* A parameter of the kernel as the spec declares it. */
struct plait_param_info {
	size_t struct_size;
	const char *name;
	const char *dtype;     /* "bf16" */
	const char *placement; /* "replicated", "partial", "sharded", "carried" */
	enum plait_mode mode;
	uint32_t ndim; /* 0: a scalar; 1: [cols]; 2: [T, cols] */
	int64_t cols;
	int64_t ld;     /* elements from row to row */
	uint32_t align; /* bytes that the base and every row are aligned to */
	enum plait_symmetric symmetric;
	bool local_index; /* row 0 of the buffer is the rank's first own row; else row t is row t */
	bool constant;    /* must not change while the kernel runs */
};

#define PLAIT_PARAM_INFO_INIT                                  \
	{                                                      \
		.struct_size = sizeof(struct plait_param_info) \
	}

enum plait_arg_kind {
	PLAIT_ARG_UC,         /* u64: address of parameter `param` on this rank */
	PLAIT_ARG_MC,         /* u64: multicast address of parameter `param` */
	PLAIT_ARG_WS_UC,      /* u64: this rank's workspace */
	PLAIT_ARG_WS_MC,      /* u64: multicast address of the workspace */
	PLAIT_ARG_ROWS,       /* u32: T */
	PLAIT_ARG_RANK,       /* u32 */
	PLAIT_ARG_PEERS,      /* u64[tp]: parameter `param` on every rank, this one included */
	PLAIT_ARG_WS_PEERS,   /* u64[tp]: the workspaces */
	PLAIT_ARG_XCHG_UC,    /* u64: this rank's exchange buffer */
	PLAIT_ARG_XCHG_MC,    /* u64: its multicast address */
	PLAIT_ARG_XCHG_PEERS, /* u64[tp]: the exchange buffers */
	PLAIT_ARG_ROWS_PTR,   /* u64: address of T, a u32 in device memory */
};

/* An argument of the entry, in the order of its parameters. */
struct plait_arg_info {
	size_t struct_size;
	const char *name;
	enum plait_arg_kind kind;
	uint32_t param;
	uint32_t offset, size; /* bytes in the argument block */
};

#define PLAIT_ARG_INFO_INIT                                  \
	{                                                    \
		.struct_size = sizeof(struct plait_arg_info) \
	}

/* Each fills *info; PLAIT_USAGE when there is no such kernel, parameter or argument, or struct_size
 * is 0. */
enum plait_status plait_code_info(const plait_code *c, size_t i, struct plait_kernel_info *info);
enum plait_status plait_code_param(const plait_code *c, size_t i, size_t p,
                                   struct plait_param_info *info);
enum plait_status plait_code_arg(const plait_code *c, size_t i, size_t a,
                                 struct plait_arg_info *info);

/*
 * CTAs to launch for T rows: a pure function of the kernel and its arguments, so that all ranks
 * launch the same. wish 0: as many as are useful.  0 when there is no such kernel.
 */
unsigned plait_code_grid(const plait_code *c, size_t i, uint64_t rows, unsigned wish);

/* Rows [*begin, *end) of T that rank r of tp owns.  PLAIT_USAGE when r >= tp. */
enum plait_status plait_own_rows(uint64_t rows, unsigned tp, unsigned r, uint64_t *begin,
                                 uint64_t *end);

/* Bytes of the workspace of a stream: symmetric, 256-byte aligned, zeroed once on all ranks before
 * the first launch. */
size_t plait_workspace_size(void);

/*
 * The exchange buffer of a kernel that pushes (protocols push and mm-push; doc/protocols.md): the
 * caller allocates it symmetrically, 256-byte aligned, one for each workspace and protocol.  Kernels
 * of one protocol may share it: then it is as large as the largest of theirs, for the most rows of
 * any launch.
 *
 * Before the first launch, and again after an abort, on all ranks before any of them launches: the
 * workspace is zeroed; the u64 at plait_code_exchange_stride_at() of the workspace is set to a third
 * of the buffer's bytes, the same on all ranks; the buffer is filled with words of
 * plait_exchange_fill().  A launch of more rows than fit aborts and leaves a record.
 *
 * T has to be the same on all ranks: a rank that launches with T = 0 while others have rows is not
 * compared with them but missed, so they end by their time-out.
 */

/* Bytes for launches of at most `rows` rows, a multiple of 48; 0 when the kernel needs none (or
 * there is no such kernel, or the bytes do not fit size_t). */
size_t plait_code_exchange_size(const plait_code *c, size_t i, uint64_t rows);

/* Where in the workspace the stride is, in bytes from its beginning; 0 when the kernel needs none.
 */
size_t plait_code_exchange_stride_at(const plait_code *c, size_t i);

/* The 32-bit word that the buffer is filled with. */
uint32_t plait_exchange_fill(void);

/* ---- running on GPUs ---- */

/*
 * A communicator: the ranks of one tensor-parallel group.  One process may drive several of them
 * (all the GPUs of a host, or several ranks on one GPU), so a handle stands for the `nlocal` ranks
 * of this process, and a call named "collective" is made once per process, for all of them.  Below,
 * `local` counts the ranks of this process from 0: rank first + local.
 */
typedef struct plait_comm plait_comm;
typedef struct plait_buffer plait_buffer;       /* symmetric memory: the same bytes on every rank */
typedef struct plait_stage plait_stage;         /* kernels loaded on the GPUs of a communicator */
typedef struct plait_workspace plait_workspace; /* the state of collectives of one stream */

/* A CUstream or cudaStream_t; a device address. */
typedef void *plait_stream;
typedef uint64_t plait_address;

/*
 * Gathers `bytes` bytes of every process, in order of processes, into recv (processes * bytes).
 * 0: done; else the communicator fails with PLAIT_ENV.  Called by the thread that makes a
 * collective call, never at a launch.
 */
typedef int (*plait_allgather_fn)(void *ctx, const void *send, void *recv, size_t bytes);

enum plait_bootstrap {
	PLAIT_BOOT_LOCAL,     /* one process has all the ranks */
	PLAIT_BOOT_ALLGATHER, /* the caller's function */
	PLAIT_BOOT_ENV,  /* RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; or those of mpirun, srun */
	PLAIT_BOOT_NCCL, /* an ncclComm_t of the same ranks */
};

enum plait_transport { PLAIT_BY_ANY, PLAIT_BY_MULTICAST, PLAIT_BY_PEER, PLAIT_BY_NCCL };

struct plait_comm_options {
	size_t struct_size;
	enum plait_bootstrap bootstrap;
	unsigned size;    /* ranks of the group; 0: all of the world */
	unsigned base;    /* PLAIT_BOOT_ENV: the group is ranks [base, base + size) of the world */
	unsigned process; /* PLAIT_BOOT_ALLGATHER: this process's number ... */
	unsigned processes; /* ... of so many; each has the same number of ranks */
	plait_allgather_fn allgather;
	void *allgather_ctx;
	void *nccl; /* ncclComm_t */
	const int
	        *device; /* CUDA ordinals of this process's ranks, repeats allowed; NULL: 0, 1, ...;
	                      with one rank a process: LOCAL_RANK */
	unsigned nlocal; /* 0: size / processes */
	enum plait_transport at_most; /* PLAIT_BY_PEER: never multicast; PLAIT_BY_NCCL: only NCCL */
	uint64_t timeout_ns;          /* of a wait in a kernel; 0: 10 s */
	uint64_t setup_timeout_ns;    /* of a wait for peers in a collective call; 0: 60 s */
	                              /* of both, UINT64_MAX is for ever */
};

#define PLAIT_COMM_OPTIONS_INIT                                  \
	{                                                        \
		.struct_size = sizeof(struct plait_comm_options) \
	}

/* Collective.  *out is set whenever there is memory for it, also on failure: then
 * plait_comm_error() says why.  All ranks fail, or none. */
enum plait_status plait_comm_create(const struct plait_comm_options *o, plait_comm **out);
/* Not collective; its buffers, stages and workspaces must be freed before. */
void plait_comm_free(plait_comm *c);
/* The message of the last call on this communicator, or on what was made of it, that failed; "" */
const char *plait_comm_error(const plait_comm *c);
/* Collective: returns when all processes are here, or with PLAIT_TIMEOUT. */
enum plait_status plait_comm_barrier(plait_comm *c);

struct plait_comm_info {
	size_t struct_size;
	unsigned size, first, nlocal;
	enum plait_transport transport; /* the best that all ranks have */
	const char *why; /* how it was found; what was tried before and refused, a line each */
};

#define PLAIT_COMM_INFO_INIT                                  \
	{                                                     \
		.struct_size = sizeof(struct plait_comm_info) \
	}

enum plait_status plait_comm_info(const plait_comm *c, struct plait_comm_info *info);

/* Collective: `bytes` on every rank (rounded up to the granularity), zeroed, mapped on all. */
enum plait_status plait_buffer_create(plait_comm *c, size_t bytes, plait_buffer **out);
/*
 * Not collective: the caller's own symmetric memory, 256-byte aligned.  peer has [nlocal][size]
 * addresses: of every rank's memory as each rank of this process sees it; multicast [nlocal], or NULL
 * (or 0 for all, which is the same): every entry is checked, also where it will not be used.
 * What is behind the addresses remains the caller's, and mapped until the buffer is freed.  A multicast
 * address is used only where the communicator's transport is multicast.
 */
enum plait_status plait_buffer_import(plait_comm *c, const plait_address *peer,
                                      const plait_address *multicast, size_t bytes,
                                      plait_buffer **out);
/* Not collective, but nothing may use the buffer on any rank: a barrier comes before.  NULL is accepted. */
void plait_buffer_free(plait_buffer *b);
/* The address of the rank's own copy; 0 when local >= nlocal. */
plait_address plait_buffer_address(const plait_buffer *b, unsigned local);
/* Where it finds another rank's copy; 0 when it cannot reach it. */
plait_address plait_buffer_peer(const plait_buffer *b, unsigned local, unsigned rank);
/* The multicast address of all copies; 0 when there is none, and then on no rank. */
plait_address plait_buffer_multicast(const plait_buffer *b, unsigned local);
/* Bytes of each copy that may be used: at least those asked for. */
size_t plait_buffer_bytes(const plait_buffer *b);

struct plait_stage_options {
	size_t struct_size;
	/*
	 * Of it, tp is the communicator's and target NULL the GPU's; protocol NULL: chosen for each T;
	 * multicast PLAIT_NO: no protocol that needs it.  rows and form are left out.
	 */
	struct plait_compile_options compile;
	const void *bundle; /* instead of compile.text: what plait compile --emit image wrote */
	size_t bundle_len;
	uint64_t max_rows;     /* the largest T of any launch */
	const char *cache_dir; /* NULL: PLAIT_CACHE_DIR, else XDG_CACHE_HOME/plait; "": none */
	const char *table;     /* the selection table that `plait tune` wrote; NULL: the cache's */
	bool dependent_launch; /* programmatic dependent launch: compile.pdl, else "early" */
	bool rows_in_memory;   /* kernels read T from device memory: launches give rows_address */
};

#define PLAIT_STAGE_OPTIONS_INIT                                   \
	{                                                          \
		.struct_size = sizeof(struct plait_stage_options), \
		.compile = PLAIT_COMPILE_OPTIONS_INIT              \
	}

/*
 * Collective: compiles (or loads from the cache) every kernel in every protocol that T up to
 * max_rows can get, loads them on all GPUs, and compares over the ranks what they have to agree on:
 * PLAIT_MISMATCH names the ranks and the field that differ.  *out is set whenever there is memory
 * for it, also on failure: then only plait_stage_code() is of use, for its diagnostics.
 */
enum plait_status plait_stage_create(plait_comm *c, const struct plait_stage_options *o,
                                     plait_stage **out);

/* Not collective; its workspaces must be freed before, and nothing of it may run.  NULL is accepted.
 */
void plait_stage_free(plait_stage *s);

/*
 * What was compiled, with its diagnostics, as long as the stage lives: the spec's kernels in its
 * order, then the export kernels.  Of each it is the variant for max_rows rows, but a parameter's
 * `symmetric` is what the strictest of its variants needs.
 */
const plait_code *plait_stage_code(const plait_stage *s);

/*
 * The number, for plait_launch.kernel, of the kernel that gathers parameter `param` of kernel
 * `kernel`, which is carried: its operands are the parameter and where the whole of it goes, on
 * every rank.  SIZE_MAX when the parameter is not carried.
 */
size_t plait_stage_export(const plait_stage *s, size_t kernel, size_t param);

/* The protocol that T = rows gets, and the CTAs in *ctas (may be NULL); NULL when there is no such
 * kernel, or rows are more than max_rows. */
const char *plait_stage_protocol(const plait_stage *s, size_t kernel, uint64_t rows,
                                 unsigned *ctas);

/*
 * Collective: a workspace for one stream on each rank, large enough for every kernel of the stage.
 * The exchange buffers in it are for the most rows that the protocols that push are chosen for.
 */
enum plait_status plait_workspace_create(plait_stage *s, plait_workspace **out);

/* Not collective; nothing may run on it.  NULL is accepted. */
void plait_workspace_free(plait_workspace *w);

/* Bytes that are allocated on each rank, the exchange buffers included. */
size_t plait_workspace_bytes(const plait_workspace *w);

/* Collective, after an abort; nothing may run on the workspace. */
enum plait_status plait_workspace_reset(plait_workspace *w);

/* A parameter's memory: a symmetric buffer, where plait_param_info says so, else an address. */
struct plait_operand {
	const plait_buffer *buffer;
	plait_address address; /* with a buffer: an offset into it, in bytes */
};

struct plait_launch {
	size_t struct_size;
	unsigned local; /* which rank of this process */
	size_t kernel; /* as plait_code_name() of plait_stage_code() counts; plait_stage_export() */
	plait_workspace *workspace;
	plait_stream stream;
	const struct plait_operand *operand; /* one a parameter */
	size_t noperand;
	uint64_t rows; /* T, the same on all ranks */
	plait_address
	        rows_address; /* instead: a u32 in device memory; then rows is its largest value */
	unsigned ctas;        /* 0: as tuned */
	const char *protocol; /* NULL: chosen */
};

#define PLAIT_LAUNCH_INIT                                  \
	{                                                  \
		.struct_size = sizeof(struct plait_launch) \
	}

/*
 * Enqueues one kernel.  No allocation, registration or synchronisation: may be captured in a graph.
 * PLAIT_USAGE with a message for every argument that does not fit; PLAIT_TIMEOUT when the workspace
 * was seen to be dead.  Ranks of one process may be launched by threads of their own.
 */
enum plait_status plait_launch(plait_stage *s, const struct plait_launch *l);

/* Who waited for whom. */
struct plait_record {
	size_t struct_size;
	const char *what;   /* "time-out", "contract", "peer", "rows"; "" when all is good */
	const char *kernel; /* the spec's name, or "" */
	uint32_t rank, cta, phase, peer;
	uint64_t expected, seen;
	const char *text; /* one line for people */
};

#define PLAIT_RECORD_INIT                                  \
	{                                                  \
		.struct_size = sizeof(struct plait_record) \
	}

/*
 * Whether a collective on this workspace has aborted, as seen by rank `local`, without waiting for
 * the GPU, so perhaps only at a later call: PLAIT_OK; PLAIT_TIMEOUT; PLAIT_MISMATCH for contracts
 * and rows that differ; PLAIT_ENV where the GPU can no longer be asked.  *record (may be NULL) has
 * texts that are valid until the next call for that rank.  A capture of any stream is not disturbed;
 * ranks of one process may be checked by threads of their own.
 */
enum plait_status plait_workspace_check(plait_workspace *w, unsigned local,
                                        struct plait_record *record);

/* ---- planning: how a model of a spec runs (doc/planner.md); no GPU is needed ---- */

enum { PLAIT_MAX_CTA_ROWS = 12, PLAIT_MAX_RATES = 16 };

/* A collective of so many CTAs takes alpha_us + bytes / (gbs * 1000) microseconds, bytes being rows x
 * row bytes. */
struct plait_collective_row {
	unsigned ctas; /* rising; 0: the library chooses */
	double alpha_us, gbs;
};

/* GEMMs with weights of n columns and k rows, one rank's, take `rate` times what gemm_eff says. */
struct plait_gemm_rate {
	int64_t n, k;
	double rate;
};

/* A machine: of the database, measured, or both.  doc/planner.md says what each member is. */
struct plait_machine {
	size_t struct_size;
	char name[32];
	unsigned sms, sms_per_gpc;
	double tflops, hbm_gbs, link_gbs; /* dense 16-bit; memory; a link, one direction */
	double gemm_eff, grouped_eff, attention_eff, mem_eff; /* parts of the peaks */
	double tile_us, launch_us, join_us, gamma;
	bool persistent; /* GEMMs whose CTAs wait for an SM that is taken */
	/* the fused kernel; all rows on every rank; an all-reduce */
	unsigned nfused, npush, nplain;
	struct plait_collective_row fused[PLAIT_MAX_CTA_ROWS], push[PLAIT_MAX_CTA_ROWS],
	        plain[PLAIT_MAX_CTA_ROWS];
	/* the fused kernel beside a GEMM; none: as alone */
	unsigned nbeside, nrate;
	struct plait_collective_row beside[PLAIT_MAX_CTA_ROWS];
	struct plait_gemm_rate rate[PLAIT_MAX_RATES];
};

#define PLAIT_MACHINE_INIT                                  \
	{                                                   \
		.struct_size = sizeof(struct plait_machine) \
	}

/* "h100", "h200", "b200", "a100", for tp ranks, with or without sums in the switch.  PLAIT_USAGE: there
 * is no such machine. */
enum plait_status plait_machine_get(const char *name, unsigned tp, bool multicast,
                                    struct plait_machine *m);

/* What is asked of a GEMM [m, k] by [k, n], and the answer: a tile (rows by columns), or a time, or
 * both; what is 0 follows from the rest. */
struct plait_gemm_query {
	int64_t m, n, k;
	unsigned x_bits, w_bits, out_bits;
	unsigned sm_target; /* 0: all SMs */
	const char *x_dtype, *w_dtype,
	        *out_dtype; /* "bf16"; NULL: the bits are all that is known */
};

struct plait_gemm_fact {
	unsigned tile_m, tile_n, cluster_m, cluster_n, split_k;
	bool persistent, fractional; /* fractional: stream-K, waves are not rounded up */
	double waves, us;
	bool dynamic; /* not persistent; neither: as the machine says (plait_machine.persistent) */
};

/* false: not known, the built-in table answers.  Must be a pure function, the same on all ranks. */
typedef bool (*plait_gemm_fn)(void *ctx, const struct plait_gemm_query *q,
                              struct plait_gemm_fact *f);

struct plait_planner_options {
	size_t struct_size;
	const char *spec_name; /* NULL: "spec" */
	const char *text;      /* the spec */
	size_t text_len;
	const char *model; /* NULL: the spec's first */
	unsigned tp;
	const struct plait_set *set;
	size_t nset;
	const char *gpu; /* a machine of the database, through the switch if it can; */
	const struct plait_machine *machine; /* or this one */
	plait_gemm_fn gemm;                  /* NULL: the built-in table of tiles */
	void *gemm_ctx;
	unsigned align;    /* split rows are multiples of it; 0: 128 */
	double hysteresis; /* a split has to be better by this part; 0: 0.02 */
	bool no_split, no_sm_targets;
};

#define PLAIT_PLANNER_OPTIONS_INIT                                  \
	{                                                           \
		.struct_size = sizeof(struct plait_planner_options) \
	}

/* A model on a machine, and the plans made for it.  Used by one thread at a time. */
typedef struct plait_planner plait_planner;
/* A plan.  Belongs to its planner; valid until 1024 further ones were made. */
typedef struct plait_plan plait_plan;

/* *out is set whenever there is memory for it, also on failure: then it has the diagnostics. */
enum plait_status plait_planner_make(const struct plait_planner_options *o, plait_planner **out);
void plait_planner_free(plait_planner *p); /* NULL is accepted */
const char *plait_planner_diagnostics(const plait_planner *p);

/* What runs at once. */
struct plait_batch {
	size_t struct_size;
	int64_t tokens;        /* T, 1 to 2^24 */
	size_t nrequest;       /* 0: one request of T rows */
	const int64_t *cum;    /* nrequest + 1: prefix sums of the requests' lengths, from 0 to T */
	const int64_t *cached; /* rows that each has in its cache already; NULL: none */
};

#define PLAIT_BATCH_INIT                                  \
	{                                                 \
		.struct_size = sizeof(struct plait_batch) \
	}

/* The plan for a batch, made or remembered.  PLAIT_USAGE: it is no batch, or the caller's `gemm` has
 * answered what makes no sense: then the diagnostics say for what. */
enum plait_status plait_plan_make(plait_planner *p, const struct plait_batch *b,
                                  const plait_plan **out);

/* How a model runs: an all-reduce and a norm kernel of its own; that without the all-reduce, which is
 * for comparison and computes nothing useful; fused kernels; fused kernels beside the other part's
 * compute. */
enum plait_run_mode { PLAIT_RUN_UNFUSED, PLAIT_RUN_REMOVED, PLAIT_RUN_FUSED, PLAIT_RUN_SPLIT };

/*
 * The plan of a mode, whichever is best, to measure it.  split_at: the rows of the first part, as near as
 * `align` lets it; 0: the best.  PLAIT_USAGE also where the batch cannot be split.
 */
enum plait_status plait_plan_force(plait_planner *p, const struct plait_batch *b,
                                   enum plait_run_mode mode, int64_t split_at,
                                   const plait_plan **out);

struct plait_plan_info {
	size_t struct_size;
	int64_t tokens, split; /* split: rows of the first part; tokens where there is one */
	enum plait_run_mode mode;
	bool own_rows;            /* the residual's form; else all rows on every rank */
	int64_t row_base[2];      /* of both parts, in the batch */
	int64_t residual_base[2]; /* and in the residual's buffer, the same on all ranks */
	double us;                /* of the whole model */
	double mode_us[4];        /* by enum plait_run_mode; 0: not possible */
	size_t nstage, nstep;
	unsigned last_ctas; /* of the last collective of a split, which nothing hides */
	uint64_t hash;      /* of what all ranks must agree on */
	const char *why;    /* one line */
};

#define PLAIT_PLAN_INFO_INIT                                  \
	{                                                     \
		.struct_size = sizeof(struct plait_plan_info) \
	}

/* Compute of one part between two collectives, and a collective: beside it (overlap), of the step
 * before, or behind it, its own. */
struct plait_plan_stage {
	size_t struct_size;
	unsigned part;
	int64_t row, rows;
	bool overlap;
	const char *kernel; /* of the collective; NULL: there is none */
	int64_t kernel_row, kernel_rows;
	unsigned ctas; /* of the collective; 0: its library's choice */
	double us, compute_us, collective_us, exposed_us;
	size_t noperation;
	uint32_t times; /* how often it occurs */
};

#define PLAIT_PLAN_STAGE_INIT                                  \
	{                                                      \
		.struct_size = sizeof(struct plait_plan_stage) \
	}

struct plait_plan_operation {
	size_t struct_size;
	const char *name; /* a GEMM's weight, an opaque node */
	const char *kind; /* "gemm", "grouped", "attention", "bytes", "work" */
	int64_t rows, n, k;
	unsigned sm_target; /* of a GEMM; 0: all SMs */
	unsigned tile_m, tile_n, split_k;
	double waves_before, waves; /* of all rows; of this part */
	double last_wave;           /* part of the last wave's slots that work */
	double start_us, us;
};

#define PLAIT_PLAN_OPERATION_INIT                                  \
	{                                                          \
		.struct_size = sizeof(struct plait_plan_operation) \
	}

/* Each fills *info; PLAIT_USAGE when there is no such stage or operation, or struct_size is 0. */
enum plait_status plait_plan_get(const plait_plan *plan, struct plait_plan_info *info);
enum plait_status plait_plan_get_stage(const plait_plan *plan, size_t i,
                                       struct plait_plan_stage *info);
enum plait_status plait_plan_get_operation(const plait_plan *plan, size_t i, size_t k,
                                           struct plait_plan_operation *info);
/* The stage of step k of the schedule; nstage when there is no such step. */
size_t plait_plan_step(const plait_plan *plan, size_t k);

/* The plan for people, and as JSON; the same bytes on every rank.  NULL: out of memory.  The caller
 * frees it by plait_text_free. */
char *plait_plan_text(const plait_planner *p, const plait_plan *plan);
char *plait_plan_json(const plait_planner *p, const plait_plan *plan);
char *plait_plan_trace(const plait_planner *p, const plait_plan *plan);
void plait_text_free(char *text);

/*
 * The requests of rows [row, row + rows) of a batch: *first, and of at most `room` requests from there
 * their lengths within the rows and what attention sees before them (each may be NULL); *n, how many
 * there are.
 */
enum plait_status plait_batch_part(const struct plait_batch *b, int64_t row, int64_t rows,
                                   size_t *first, size_t *n, int64_t *length, int64_t *cached,
                                   size_t room);

#ifdef __cplusplus
}
#endif
