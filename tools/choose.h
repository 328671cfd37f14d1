/* --protocol auto: which protocol each kernel of a spec gets. */
#pragma once
#include "tools/pipeline.h"

/*
 * May auto take multicast?  What --multicast says; else from sm_90 on, unless PLAIT_MULTICAST=0,
 * NCCL_NVLS_ENABLE=0, TORCH_SYMM_MEM_DISABLE_MULTICAST=1 or NVSHMEM_DISABLE_NVLS=1 is in the
 * environment.
 */
bool choose_multicast(const struct args *args);

/*
 * After pipe_passes: a protocol for each kernel that is asked for, for the T of `compile --tokens`
 * or else by default; kernels with carried parameters get protocols of one form.  Says what was
 * chosen as a remark (R830), and appends the kernels.
 */
enum status choose_compile(struct pipe *p);

/* The remarks alone. */
void choose_remarks(struct pipe *p);
