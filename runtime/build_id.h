/* What tells one build of the library from another of the same version: for keys of the cache. */
#pragma once
#include "support/arena.h"

/* The linker's build id of the object that this code is in, in hex; else the version. In `a`. */
const char *rt_build_id(struct arena *a);
