/* Inside the core of verify: data (verify_data.c), one schedule (verify_run.c), threads and reports
 * (verify.c). */
#pragma once
#include "tools/launch.h"
#include "tools/verify.h"

#define VF_SCHEDULE_BITS 10 /* of a seed: which schedule; above: which data */
#define VF_VARIANTS      4

struct vf_ref {           /* what an output of T rows must be */
	uint8_t *bits;    /* T x cols elements in the parameter's dtype */
	float *err;       /* bounds, rounded up; NULL: all 0 */
	int64_t *bounded; /* elements of each row whose bound is not 0; NULL with err */
};

/* One row count with one variant of the data. */
struct vf_item {
	int64_t T;
	unsigned variant;
	struct arena arena;
	uint8_t **in; /* [param * tp + rank]: T x cols elements (1 row for [cols]); shared where
	                 equal; NULL for outputs */
	struct vf_ref *ref[3]; /* [enum ir_sum][param]; NULL where not needed */
	const char *error;     /* in `arena`; NULL: good */
	enum status status;
};

/* Where a carried parameter of a chain's kernel comes from. */
struct vf_link {
	bool linked;
	unsigned owner, owner_param;   /* the kernel that has the buffer: the first with the name */
	unsigned writer, writer_param; /* the kernel that wrote it last; written: there is one */
	bool written;
};

struct vf_data { /* of one kernel; the first of a chain has all */
	const struct vf_kernel *k;
	struct vf_data **chain; /* the chain's kernels, this one first; NULL but in the first */
	unsigned nchain;        /* 0 but in the first */
	unsigned length, index; /* of the chain; in it */
	struct vf_link *link;   /* [param] */
	bool in_switch;         /* some kernel of the chain has sums made by the switch */
	struct vf_options o;    /* launches filled in */
	unsigned variants;
	struct vf_item *item; /* [token index * variants + variant] */
	unsigned nitem;
	int64_t most; /* largest T */
};

/* Bytes of one element of a parameter; 0 where elements are not whole bytes. */
unsigned vf_size(struct ir_type t);
int64_t vf_cols(struct ir_type t);

/* Which sum of the reference goes with a switch's. */
enum ir_sum vf_reference_sum(enum sim_sum s);

/* Fills item i of every kernel of the chain d: inputs, references. */
void vf_fill(const struct vf_data *d, unsigned i);

/* The reference's way of summing in a schedule's: in order of ranks where no switch sums. */
enum ir_sum vf_sum_of(const struct vf_data *d, enum sim_sum s);

/* The rows of a rank are its own: sharded, or carried in that form. */
bool vf_own(const struct vf_data *d, unsigned p);

/* What a schedule does, as a function of the seed alone. */
struct vf_schedule {
	struct sim_options sim;
	unsigned which; /* low bits of the seed */
	uint64_t seed;
};
struct vf_schedule vf_schedule_of(const struct vf_data *d, uint64_t seed);
const char *vf_schedule_text(struct arena *a, const struct vf_schedule *s);

/* Runs one schedule; r counts and has the failure; its texts are in `a`. */
void vf_run_schedule(const struct vf_data *d, const struct vf_text *t, uint64_t seed,
                     struct arena *a, struct vf_result *r);

/* The failure with its texts in `a`. */
struct vf_failure vf_keep(const struct vf_failure *f, struct arena *a);

uint64_t vf_mix(uint64_t a, uint64_t b);
