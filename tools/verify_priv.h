/* Inside the core of verify: data (verify_data.c), one schedule (verify_run.c), threads and reports
 * (verify.c). */
#pragma once
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

struct vf_data {
	const struct vf_kernel *k;
	struct vf_options o; /* launches filled in */
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

/* Fills an item: inputs, references. */
void vf_fill(const struct vf_data *d, struct vf_item *it);

/* What a schedule does, as a function of the seed alone. */
struct vf_schedule {
	struct sim_options sim;
	unsigned which; /* low bits of the seed */
	uint64_t seed;
};
struct vf_schedule vf_schedule_of(const struct vf_data *d, uint64_t seed);
const char *vf_schedule_text(struct arena *a, const struct vf_schedule *s);

/* Runs one schedule; r counts and has the failure; its texts are in `a`. */
void vf_run_schedule(const struct vf_data *d, const struct ptx_module *m, const char *text,
                     uint64_t seed, struct arena *a, struct vf_result *r);

/* What buffers of carried parameters hold; do sums depend on the switch? */
enum ir_rows vf_carried(const struct vf_data *d);
bool vf_switch_sums(const struct vf_data *d);

struct vf_memory {                /* of a schedule */
	struct sim_symmetric *at; /* [param] */
	struct sim_symmetric ws, xchg;
	uint64_t exchange;            /* bytes of the exchange buffer; 0: none */
	uint64_t rows[SIM_MAX_RANKS]; /* where T is in device memory */
};

/* Fills in `ws`, `xchg` and `exchange`. */
void vf_communication(const struct vf_data *d, struct sim *sim, struct arena *a, unsigned which,
                      struct vf_memory *m);
/* The block of arguments, k->param_bytes long. */
void vf_arguments(const struct cg_kernel *k, const struct vf_memory *m, unsigned rank, uint64_t T,
                  uint8_t *block);

uint64_t vf_mix(uint64_t a, uint64_t b);
