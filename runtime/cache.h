/*
 * Results of compilations, kept in a folder from run to run.
 *
 * A key is any bytes: all that the value depends on.  A file holds key and value with a hash, so
 * that a truncated or altered file, and another key with the same name, are misses.  Files appear
 * by rename, whole.  A folder that cannot be used, or is full, makes every look-up a miss and is no
 * error.  A struct rt_cache is read-only once open: any threads and processes may use it at once.
 */
#pragma once
#include "support/arena.h"
#include "support/status.h"
#include <stdbool.h>

struct rt_bytes {
	const void *p;
	size_t n;
};

struct rt_cache {
	int dir;           /* -1: there is none */
	const char *path;  /* of the folder; "" */
	const char *why;   /* why there is none; "" */
	unsigned wait_ms;  /* for another that is making the same; set by open to a minute */
	uint64_t failed_s; /* seconds that a failure is remembered; set by open to an hour */
	uint64_t most;     /* bytes of all files, beyond which the oldest go; set to 1 GiB */
};

/* The folder that `dir` stands for: NULL: $PLAIT_CACHE_DIR, else $XDG_CACHE_HOME/plait, else
 * $HOME/.cache/plait. NULL where there is none: "" is given, or no variable is set. */
const char *rt_cache_folder(const char *dir, struct arena *a);

/*
 * Opens the folder, making it (mode 0700) and those above it where they are missing.  Refused, with
 * the reason in c->why: a folder of another user's, or one that others may write to.  Texts are in
 * `a`.
 */
void rt_cache_open(struct rt_cache *c, const char *dir, struct arena *a);
void rt_cache_close(struct rt_cache *c);

enum rt_cached { RT_CACHE_MISS, RT_CACHE_HIT, RT_CACHE_FAILED };

/* HIT: *value is what was put; FAILED: it is the log of a failure not older than failed_s. */
enum rt_cached rt_cache_get(const struct rt_cache *c, struct rt_bytes key, struct arena *a,
                            struct rt_bytes *value);

/* Keeps a value, or the log of a failure. False: not kept, and whatever was there is as it was. */
bool rt_cache_put(const struct rt_cache *c, struct rt_bytes key, struct rt_bytes value,
                  bool failure);

/* Forgets a key: its value turned out to be of no use here. */
void rt_cache_drop(const struct rt_cache *c, struct rt_bytes key);

/* ST_OK: *value is made; ST_INPUT: it cannot be made, ever; *value is the log, which is kept, too. */
typedef enum status (*rt_cache_maker)(void *ctx, struct arena *a, struct rt_bytes *value);

/*
 * The value of a key, made if need be.  Of several threads and processes that need it at once one
 * makes it and the others wait, at most wait_ms; the lock goes with its owner, whatever ends it.
 * *hit: it was there.
 */
enum status rt_cache_make(const struct rt_cache *c, struct rt_bytes key, rt_cache_maker make,
                          void *ctx, struct arena *a, struct rt_bytes *value, bool *hit);

/* A file's contents, as rt_cache_get judges them (`now`: seconds of the epoch). */
enum rt_cached rt_cache_judge(struct rt_bytes file, struct rt_bytes key, uint64_t now,
                              uint64_t failed_s, struct rt_bytes *value);

/* Removes what crashed writers left, and the oldest files while there are more than `most` bytes. */
void rt_cache_prune(const struct rt_cache *c);
