/* A caller's spec, with the constants that it overrides, to IR: for all calls that take one. */
#pragma once
#include "frontend/frontend.h"
#include "runtime/plait.h"
#include "support/status.h"

/* What is wrong with a caller's list of overrides, as a sentence; NULL: nothing. */
#define RT_SET_FIX "'set' has 'nset' entries like {\"hidden\", \"4096\"}"
const char *rt_set_wrong(const struct plait_set *set, size_t nset);

/*
 * Reads `len` bytes of text, which must outlive `d`, as a source of that name.  *o says what the caller wants of
 * lowering; its set is taken from `set`, with which nothing is
 * wrong.  *m has the module before all passes.  ST_INPUT: d says why not.
 */
enum status rt_front(struct arena *a, struct diags *d, const char *name, const char *text,
                     size_t len, const struct plait_set *set, size_t nset, struct fe_options *o,
                     struct ir_module **m);
