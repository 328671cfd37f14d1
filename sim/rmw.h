/* Read-modify-write of one element, shared by atom, red and multimem. */
#pragma once
#include "sim/internal.h"

/* old op x, as bits of the type; float additions round to nearest even. */
uint64_t sim_reduce(enum ptx_red red, enum ptx_type t, uint64_t old, uint64_t x);
