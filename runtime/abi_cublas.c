/*
 * A test, not part of the library: runtime/blaslt.h and blaslt_ids.def against the vendor's <cublasLt.h>,
 * where there is one.  It compiles only if all agree.
 */
#include "runtime/blaslt.h"
#include <stdio.h>

#if defined __has_include
#if __has_include(<cublasLt.h>) && __has_include(<cuda_runtime_api.h>)
#define HAVE_CUBLASLT_H 1
#endif
#endif

#ifdef HAVE_CUBLASLT_H
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wconversion"
#include <cublasLt.h>
#pragma GCC diagnostic pop

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
_Static_assert(sizeof(struct lt_algo) == sizeof(cublasLtMatmulAlgo_t), "cublasLtMatmulAlgo_t");
_Static_assert(sizeof(struct lt_found) == sizeof(cublasLtMatmulHeuristicResult_t), "its size");
_Static_assert(offsetof(struct lt_found, bytes) ==
                       offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize),
               "workspaceSize");
_Static_assert(offsetof(struct lt_found, status) ==
                       offsetof(cublasLtMatmulHeuristicResult_t, state),
               "state");
_Static_assert(offsetof(struct lt_found, waves) ==
                       offsetof(cublasLtMatmulHeuristicResult_t, wavesCount),
               "wavesCount");
_Static_assert(sizeof(int) == sizeof(cublasStatus_t), "cublasStatus_t");
SAME(LT_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME(LT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(LT_R_32F, CUDA_R_32F);
SAME(LT_R_16F, CUDA_R_16F);
SAME(LT_R_16BF, CUDA_R_16BF);
SAME(LT_OP_N, CUBLAS_OP_N);
SAME(LT_OP_T, CUBLAS_OP_T);
SAME(LT_OP_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(LT_OP_SM_COUNT_TARGET, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET);
SAME(LT_WISH_MAX_BYTES, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(LT_CONFIG_TILE, CUBLASLT_ALGO_CONFIG_TILE_ID);
SAME(LT_CONFIG_SPLIT_K, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
SAME(LT_CONFIG_CLUSTER, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);

enum {
	LT_ID_NONE,
#define LT_TILE(m, n) LT_ID_##m##_##n,
#define LT_CLUSTER(id, m, n)
#include "runtime/blaslt_ids.def"
#undef LT_TILE
#undef LT_CLUSTER
};
/* a header older than 13.0 has fewer */
#if CUBLAS_VERSION >= 130000
#define LT_TILE(m, n)        SAME(LT_ID_##m##_##n, CUBLASLT_MATMUL_TILE_##m##x##n);
#define LT_CLUSTER(id, m, n) SAME(id, CUBLASLT_CLUSTER_SHAPE_##m##x##n##x1);
#include "runtime/blaslt_ids.def"
#endif
#endif

int main(void)
{
#ifdef HAVE_CUBLASLT_H
	printf("1..1\nok 1 - cuBLASLt's interface is as cublasLt.h (%d) has it\n", CUBLAS_VERSION);
#else
	printf("1..1\nok 1 - # SKIP no cublasLt.h\n");
#endif
	return 0;
}
