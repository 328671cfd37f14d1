/* What NVIDIA's assembler says of a kernel: registers, spills. */
#pragma once
#include "support/arena.h"

/*
 * One line about `entry` of the PTX text for `target` ("sm_90"), from ptxas -v where it is on the
 * PATH (or under CUDA_HOME or /usr/local/cuda), else from nvJitLink's log, else a line that says
 * that neither is here.
 */
const char *ptxas_resources(struct arena *a, const char *text, const char *entry,
                            const char *target);
