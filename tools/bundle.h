/*
 * A bundle: a folder with all that a caller needs of a spec's kernels (doc/cli.md):
 * KERNEL.PROTOCOL.ptx and .cubin, one C header, manifest.json.  The same input gives the same
 * bytes.
 */
#pragma once
#include "tools/pipeline.h"

/* The header's text: argument blocks, constants, grid functions of all kernels. */
const char *bundle_header(const struct pipe *p);

/* Writes the bundle to the folder p->args->out, which is made if need be.  *code: an exit code
 * where a file cannot be written (said on stderr). */
enum status bundle_write(struct pipe *p, int *code);

/*
 * After pipe_read: writes the one file that plait_stage_options.bundle takes, for all transports, to
 * p->args->out.  Diagnostics go to stderr; *code as above.
 */
enum status image_write(struct pipe *p, int *code);

/* 0, or the exit code; said on stderr. */
int make_folder(const char *path);

/* Writes n bytes to a file ("-" or NULL: standard output): 0, or the exit code; said on stderr. */
int write_file(const char *path, const void *bytes, size_t n);
