/*
 * What a stage is made of before it meets a GPU: the kernels of a spec (units), each in every
 * protocol that it can get (variants), and which one T gets (ranges).  An image comes from a spec
 * (runtime/variants.c) or, as bytes, from the cache or a bundle (runtime/bundle.c).
 */
#pragma once
#include "codegen/select.h"
#include "runtime/cache.h"
#include "runtime/code.h"

#define RT_NONE UINT32_MAX

enum { RT_MOST_BLOCK = 4096 }; /* bytes of a kernel's arguments */
enum { RT_MOST_PARAMS = 32 };  /* of a kernel, as the frontend has it */

/* What NCCL does with a parameter where it carries the rows (rt_image.nccl): the kernel itself then
 * has own rows of it. */
enum rt_role { RT_PLAIN, RT_SUMMED, RT_GATHERED };

struct rt_range { /* of T, from the end of the range before (from 0) */
	uint64_t until;
	uint32_t variant, ctas; /* ctas: 0: as many as are useful */
};

struct rt_unit {
	const char *name;
	bool carried; /* has a carried parameter: its form is that of all such units */
	uint32_t nparam;
	uint32_t *export_; /* [nparam]: the unit that gathers the parameter; RT_NONE: not carried */
	uint32_t *role;    /* [nparam]: enum rt_role */
	uint32_t nrange;
	struct rt_range *range; /* the last one ends at the image's max_rows */
};

struct rt_variant {
	uint32_t unit;
	enum ir_rows rows;
	struct rt_kernel *k;
	struct rt_bytes cubin; /* of a bundle; 0 bytes: to be made here */
};

struct rt_image {
	struct plait_code code; /* owns the memory; its kernels are those of the variants */
	uint64_t max_rows;
	uint32_t tp;
	bool nccl;        /* kernels do not communicate: NCCL does, before and behind them */
	uint32_t nkernel; /* units that are kernels of the spec; exports follow */
	uint32_t nunit, nvariant;
	struct rt_unit *unit;
	struct rt_variant *variant;
};

/* Its arena's oom is the caller's to set. */
void rt_image_init(struct rt_image *m);
void rt_image_free(struct rt_image *m);

/* The bytes of an image, in `a`; rt_image_read takes them. */
struct rt_bytes rt_image_write(struct rt_image *m, struct arena *a);

/*
 * Reads an image, which may be damaged or hostile: what comes out is consistent (every index in
 * bounds, every argument inside its block, every protocol and target known) or the answer is false.
 * All that it points to is in m->code.arena.
 */
bool rt_image_read(struct rt_image *m, struct rt_bytes b);

/* Forgets what only more than max_rows rows get: variants stay, ranges end there.  False: the image
 * is for fewer. */
bool rt_image_clip(struct rt_image *m, uint64_t max_rows);

/* The same checks, of an image in memory. */
bool rt_image_check(const struct rt_image *m);

/* The range that T rows get; NULL when T > max_rows. */
const struct rt_range *rt_image_range(const struct rt_image *m, uint32_t unit, uint64_t rows);

/* The most rows that a launch of the variant has when the table decides; 0: it is never chosen. */
uint64_t rt_image_most(const struct rt_image *m, uint32_t variant);
