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

/*
 * Reads a machine: {"base": "h200", ...}, the members of struct pl_machine that were measured in place
 * of the base's, and tables "fused", "push", "plain" of {"ctas", "alpha_us", "gbs"} for tp ranks.
 * ST_INPUT: see d.
 */
enum status machine_read(struct arena *a, struct diags *d, const char *path, unsigned tp,
                         bool multicast, struct pl_machine *m);

/*
 * Measures this machine for the first model of a spec (or args->model), writes args->measure, and prints
 * what was measured unless args->json.  ST_ENV where there is no GPU: see d.
 */
struct args;
enum status machine_measure(struct arena *a, struct diags *d, const struct args *args,
                            const char *text, size_t len);
