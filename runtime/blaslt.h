/*
 * cuBLASLt, opened at run time: a table of its functions, as runtime/driver.h is of the driver's.  What
 * it needs of the binary interface is declared here, after cublasLt.h (12.0 to 13.1);
 * runtime/abi_cublas.c holds it against the vendor's header where there is one.
 */
#pragma once
#include "runtime/driver.h"

struct lt_handle;
struct lt_op;
struct lt_layout;
struct lt_wish;

struct lt_algo {
	uint64_t data[8];
};

struct lt_found { /* a result of the heuristic */
	struct lt_algo algo;
	size_t bytes; /* of the workspace */
	int status;
	float waves;
	int reserved[4];
};

enum {
	LT_SUCCESS = 0,
	LT_NOT_SUPPORTED = 15,
	LT_COMPUTE_32F = 68,
	LT_R_32F = 0,
	LT_R_16F = 2,
	LT_R_16BF = 14,
	LT_OP_N = 0,
	LT_OP_T = 1,
	LT_OP_TRANSA = 3,
	LT_OP_SM_COUNT_TARGET = 15,
	LT_WISH_MAX_BYTES = 1,
	LT_CONFIG_TILE = 1,
	LT_CONFIG_SPLIT_K = 2,
	LT_CONFIG_CLUSTER = 8,
};

struct rt_blaslt {
/* clang-format off */
#define RT_BLASLT(result, member, symbol, args) result (*member) args;
#include "runtime/blaslt.def"
#undef RT_BLASLT
	/* clang-format on */
};

enum rt_blaslt_row {
#define RT_BLASLT(result, member, symbol, args) RT_BLASLT_NO_##member,
#include "runtime/blaslt.def"
#undef RT_BLASLT
	RT_BLASLT_ROWS
};

/*
 * Opens the library, which stays open for the life of the process.  `path` NULL: libcublasLt.so.13, or
 * .12.  PLAIT_ENV with a message when there is none, or it lacks a function.
 */
enum plait_status rt_blaslt_open(struct rt_blaslt *t, const char *path, struct rt_error *e);

/* "cublasLtMatmul" */
const char *rt_blaslt_symbol(enum rt_blaslt_row row);

/* Whether r is success; if not, e says which function gave which error. */
bool rt_blaslt_ok(const struct rt_blaslt *t, struct rt_error *e, enum rt_blaslt_row row, int r);

/* Calls one function: true on success. */
#define RT_LT(t, e, member, ...) \
	rt_blaslt_ok((t), (e), RT_BLASLT_NO_##member, (t)->member(__VA_ARGS__))

/* A tile or a cluster of CTAs, in the library's rows and columns; 0, 0: not one that is known. */
struct lt_shape {
	unsigned short rows, columns;
};
struct lt_shape rt_blaslt_tile(unsigned id);
struct lt_shape rt_blaslt_cluster(unsigned id);
