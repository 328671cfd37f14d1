/*
 * What the programs of suite `gpu` share.  Each runs on real GPUs, prints a line a case, and exits with 77 and the reason where
 * there is none.
 */
#pragma once
#include "runtime/plait.h"
#include "tools/bench_gpu.h"
#include <stdio.h>

enum { GPU_SKIPPED = 77 };

/* Opens tp ranks on at most `gpus` GPUs (0: all); exits with 77, or with 1 where it should have worked. */
void gpu_open(struct bench_gpu *g, unsigned tp, unsigned gpus, struct arena *a);

/* GPUs of this machine; exits with 77 where there is none. */
unsigned gpu_count(void);

/* A communicator of all ranks of g, in this process.  `ms`: the limit of waits; 0: the usual one. */
plait_comm *gpu_comm(struct bench_gpu *g, unsigned ms);

/* Prints "ok - ..." or "NOT OK - ..." and counts. */
bool gpu_verdict(bool good, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The program's exit code. */
int gpu_end(void);

/* The file's text; exits where it cannot be read. */
const char *gpu_read(const char *path, struct arena *a, size_t *len);
double gpu_seconds(void);
