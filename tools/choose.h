/* --protocol auto: which protocol each kernel of a spec gets (codegen/offer.h). */
#pragma once
#include "codegen/offer.h"
#include "tools/pipeline.h"

/* May auto take multicast?  What --multicast says; else rt_multicast_default. */
bool choose_multicast(const struct args *args);

/*
 * After pipe_passes: the offers of the kernels that are asked for, chosen for the T of `compile
 * --tokens` or else by default, in the order of the spec; *n of them.  Says what was chosen as
 * remarks (R830).
 */
struct cg_offer *choose_offers(struct pipe *p, unsigned *n);

/* That, and appends the kernels. */
enum status choose_compile(struct pipe *p);
