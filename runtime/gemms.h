/* plait_gemms with a cuBLASLt of the caller's. */
#pragma once
#include "runtime/blaslt.h"
#include "runtime/plait_gemms.h"

/* Whose they are, and the version of the library. */
const plait_comm *rt_gemms_comm(const plait_gemms *g);
size_t rt_gemms_version(const plait_gemms *g);

/* As plait_gemms_create; lt NULL: the one that is found. */
enum plait_status rt_gemms_create(plait_comm *c, const struct rt_blaslt *lt, plait_gemms **out);
