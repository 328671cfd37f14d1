/* What bench and tune run: a kernel of a spec, its memory on all ranks, plait's contenders and the peers. */
#pragma once
#include "runtime/libnccl.h"
#include "runtime/plait.h"
#include "tools/bench_gpu.h"

struct bench_param {
	struct plait_param_info info;
	enum ir_dtype dtype;
	size_t row;           /* bytes from row to row; of all of it where it has no rows */
	plait_buffer *buffer; /* NULL: no rows, then plain memory */
	cu_address at[BENCH_MAX_TP];
};

struct bench_plait { /* one stage: by a protocol, or by itself */
	struct bench_subject *s;
	const char *protocol; /* NULL: chosen */
	plait_stage *stage;
	plait_workspace *work;
	uint64_t most; /* rows */
	unsigned ctas; /* 0: as the stage has it */
	struct bench_plait *next;
};

struct bench_norm { /* the kernel without communication, on each rank by itself */
	struct bench_subject *s;
	plait_comm *comm[BENCH_MAX_TP];
	plait_stage *stage[BENCH_MAX_TP];
	unsigned ctas;
	const cu_address *sum; /* [tp]: where the sums are; NULL: the partial parameter itself */
};

struct bench_spec {
	const char *name, *text, *kernel;
	size_t len;
	const struct plait_set *set;
	size_t nset;
	const char *table; /* NULL: the cache's; "": none */
	bool dependent;    /* programmatic dependent launch */
	bool plain;        /* ordinary memory, imported, in place of plait's own */
};

struct bench_subject {
	struct bench_gpu *g;
	struct bench_spec spec;
	plait_comm *comm;
	plait_code *code; /* for facts of the kernel */
	const char *kernel;
	uint64_t max_rows, capacity; /* rows of one launch; in all sets of buffers together */
	struct bench_param *param;
	uint32_t nparam;
	int partial;       /* the only partial parameter of the kernel; -1: none, or several */
	int out;           /* a result with rows on all ranks; -1: none */
	size_t sum_bytes;  /* of a row, of all partial parameters */
	size_t norm_bytes; /* of a row that is read and written without communication */
	int64_t cols;
	struct bench_plait *stages; /* all that were made */
};

/* The first kernel where the spec names none.  false: g->e, whose status says whose fault it is. */
bool bench_subject_open(struct bench_subject *s, struct bench_gpu *g, const struct bench_spec *spec,
                        uint64_t max_rows);
void bench_subject_close(struct bench_subject *s);

/* New values in all that is read; the same on every call. */
bool bench_subject_fill(struct bench_subject *s);

/* Bytes into a parameter where launch i of T rows has its set. */
uint64_t bench_set_at(const struct bench_subject *s, unsigned i, uint64_t T, size_t row);

/* NULL: it cannot be made, and g->e says why; cleared by the caller where that is no failure. */
struct bench_plait *bench_plait_new(struct bench_subject *s, const char *protocol, uint64_t most);
struct bench_contender bench_plait_contender(struct bench_plait *p, const char *name);

/* false: g->e. */
bool bench_norm_open(struct bench_norm *n, struct bench_subject *s);
void bench_norm_close(struct bench_norm *n);
bool bench_norm_launch(void *norm, unsigned i, uint64_t T);

/* The rows of `out` on the first and the last rank after launch 0 of a contender, as numbers, against
 * those of the one before: fills cells[w].off. */
bool bench_check(struct bench_subject *s, const struct bench_contender *c, unsigned n, uint64_t T,
                 struct bench_cell *cells);

/* ---- peers ---- */

struct bench_nccl {
	struct bench_subject *s;
	struct rt_nccl lib;
	struct nccl_comm *comm[BENCH_MAX_TP];
	struct nccl_window *window[2][BENCH_MAX_TP];
	/* [0]: plain memory; [1]: NCCL's own in symmetric windows */
	cu_address from[2][BENCH_MAX_TP], to[2][BENCH_MAX_TP];
	bool windows;
	struct bench_norm norm[2];
	struct bench_nccl_way { /* one contender's */
		struct bench_nccl *n;
		int which;
		bool with_norm;
	} way[4];
};

/* `path` NULL: libnccl.so.2. `norm`'s stages are used with NCCL's results. false: g->e. */
bool bench_nccl_open(struct bench_nccl *n, struct bench_subject *s, const char *path,
                     const struct bench_norm *norm);
void bench_nccl_close(struct bench_nccl *n);
/* Appends its contenders to c, and returns how many. */
unsigned bench_nccl_contenders(struct bench_nccl *n, struct bench_contender *c);

struct bench_flashinfer {
	struct bench_subject *s;
	int x, residual, gamma, y;
	const char *(*open)(int n, const int *device, int max_rows, int oneshot_rows, int hidden);
	const char *(*launch)(int rank, int oneshot, int rows, void *x, void *residual, void *gamma,
	                      void *y, void *stream);
	void (*close)(void);
	struct bench_flashinfer_way {
		struct bench_flashinfer *f;
		int oneshot;
	} way[2];
};

/* `where`: the folder of FlashInfer's sources, which are compiled, or tools/peers/flashinfer.cu compiled
 * with them (*.so). */
bool bench_flashinfer_open(struct bench_flashinfer *f, struct bench_subject *s, const char *where);
void bench_flashinfer_close(struct bench_flashinfer *f);
unsigned bench_flashinfer_contenders(struct bench_flashinfer *f, struct bench_contender *c);
