/*
 * A test, not part of the library: runtime/libnccl.h against the vendor's <nccl.h>, where there is
 * one.  It compiles only if all agree.
 */
#include "runtime/libnccl.h"
#include <stdio.h>

#if defined __has_include
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#define HAVE_NCCL_H 1
#endif
#endif

#ifdef HAVE_NCCL_H
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wconversion"
#include <nccl.h>
#pragma GCC diagnostic pop

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
_Static_assert(sizeof(struct nccl_id) == sizeof(ncclUniqueId), "ncclUniqueId");
_Static_assert(sizeof(int) == sizeof(ncclDataType_t), "ncclDataType_t");
SAME(RT_NCCL_SUCCESS, ncclSuccess);
SAME(RT_NCCL_IN_PROGRESS, ncclInProgress);
SAME(RT_NCCL_CHAR, ncclChar);
SAME(RT_NCCL_FLOAT16, ncclFloat16);
SAME(RT_NCCL_FLOAT32, ncclFloat32);
SAME(RT_NCCL_BFLOAT16, ncclBfloat16);
SAME(RT_NCCL_SUM, ncclSum);
#ifdef NCCL_WIN_COLL_SYMMETRIC
SAME(RT_NCCL_WIN_SYMMETRIC, NCCL_WIN_COLL_SYMMETRIC);
#endif
#endif

int main(void)
{
#ifdef HAVE_NCCL_H
	printf("1..1\nok 1 - NCCL's interface is as nccl.h (%d) has it\n", NCCL_VERSION_CODE);
#else
	printf("1..1\nok 1 - # SKIP no nccl.h\n");
#endif
	return 0;
}
