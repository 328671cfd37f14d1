/* GEMM facts from a file: what an engine's own GEMMs take (doc/planner.md). */
#pragma once
#include "planner/planner.h"
#include "support/diag.h"

/*
 * Reads a JSON array of {"m", "n", "k", and perhaps "sm_target", "tile": [bm, bn], "cluster": [cm,
 * cn], "split_k", "waves", "us", "persistent"}.  Sets *fn and *ctx to answer from it: for the same n,
 * k and SM target, rows between two entries get a time between theirs.  ST_INPUT: see d.
 */
enum status facts_read(struct arena *a, struct diags *d, const char *path, pl_gemm_fn **fn,
                       void **ctx);
