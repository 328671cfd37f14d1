/*
 * The file kernels.image of a bundle (`plait compile --emit bundle`): the images of a spec for each
 * transport that a communicator may turn out to have, with cubins where they could be made.
 */
#pragma once
#include "runtime/variants.h"

/*
 * Makes the images for multicast (where the target has it), for peers and for NCCL (where it can
 * carry the kernels), and finalizes them where there is nvJitLink.  Of `o`, multicast and nccl are
 * not looked at.  ST_INPUT and the like: *diagnostics says why.  All is in `a`.
 */
enum status rt_bundle_write(const struct rt_variants_options *o, struct arena *a,
                            struct rt_bytes *out, const char **diagnostics);

/*
 * Fills *m, which is empty, with the image for o->multicast and o->nccl, from bytes that may be
 * hostile.  ST_INPUT: see m->code.diagnostics.  Of `o`, compile.target, compile.tp, max_rows, pdl
 * and rows_in_memory have to go with it.
 */
enum status rt_bundle_read(struct rt_image *m, struct rt_bytes b,
                           const struct rt_variants_options *o);
