/*
 * The selection table of one machine, as `plait tune` writes it and a stage reads it: text, a key
 * (what the times hold for) and points.  doc/tune.md has the format.
 */
#pragma once
#include "codegen/select.h"
#include "support/diag.h"
#include "support/status.h"

#define RT_TABLE_POINTS 4096u    /* a table has no more of them */
#define RT_TABLE_BYTES  1048576u /* nor its file of these */

/* All ranks of a communicator have the same; texts are of one line, without control characters. */
struct rt_table_key {
	const char *gpu;      /* "NVIDIA H200" */
	const char *driver;   /* "580.159.04" or "13.0" */
	const char *topology; /* how the ranks are linked: "nvlink", "pcie", "one-gpu" */
	unsigned tp;
	bool multicast;
};

struct rt_table {
	struct rt_table_key key;
	struct cg_point *point;
	size_t n;
};

/*
 * Reads a table from text of len bytes, which may be hostile.  ST_INPUT with a diagnostic that
 * names the line; texts are in `a`.  `name` is for diagnostics.
 */
enum status rt_table_parse(struct rt_table *t, const char *name, const char *text, size_t len,
                           struct arena *a, struct diags *d);

/* The same from a file.  ST_ENV: there is none, or it cannot be read. */
enum status rt_table_load(struct rt_table *t, const char *path, struct arena *a, struct diags *d);

/* The text of a table: rt_table_parse reads it back. */
const char *rt_table_text(const struct rt_table *t, struct arena *a);

/*
 * Writes it in one step: to a file beside `path`, then renamed; readers see the old or the new one.
 * ST_ENV with a diagnostic where that cannot be done.
 */
enum status rt_table_save(const struct rt_table *t, const char *path, struct arena *a,
                          struct diags *d);

/* Replaces t's points of the row lengths that `by` has. */
void rt_table_merge(struct rt_table *t, const struct rt_table *by, struct arena *a);

/* NULL where the keys are equal, else what differs ("driver 580.1, not 580.2"), in `a`. */
const char *rt_table_differs(const struct rt_table_key *have, const struct rt_table_key *want,
                             struct arena *a);

/* "select-0123456789abcdef.table": the table of this key has that name in the cache's folder. */
const char *rt_table_name(const struct rt_table_key *k, struct arena *a);

/* Where the table of this key is in a folder; NULL folder: NULL. */
const char *rt_table_path(const char *folder, const struct rt_table_key *k, struct arena *a);

/* As code generation takes it. */
struct cg_table rt_table_select(const struct rt_table *t, struct arena *a);
