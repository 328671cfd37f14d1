/* Inside one schedule of verify: a launch and what is known around it. */
#pragma once
#include "tools/verify_priv.h"

#define VF_CANARY 0xff /* NaN in every float format */

struct vf_step_run;

struct vf_step { /* one launch of one kernel, on all ranks */
	struct vf_step_run *run;
	unsigned index; /* which pass over the chain */
	const struct vf_item *item;
	uint8_t **first; /* [param]: a replicated output as the first rank to end wrote it */
};

struct vf_step_run { /* one kernel of the chain */
	const struct vf_data *d;
	const struct ptx_module *m;
	const char *text;
	struct arena *a;
	struct vf_result *r;
	struct vf_schedule schedule;
	struct sim *sim;
	struct sim_symmetric *at; /* [param]; a linked one's is the owner's */
	const struct vf_memory *mem;
	const struct sim_kernel *entry;
	int64_t *had;              /* [rank]: T of the launch before; -1: none */
	uint8_t *scratch, *canary; /* as large as the largest buffer */
};

struct vf_rows { /* of a parameter on a rank: tensor rows [begin, end), the first at buffer row `at` */
	int64_t begin, end, at;
};

/* ---- verify_fail.c ---- */

struct vf_rows vf_rows_of(const struct vf_step_run *u, unsigned p, unsigned rank, int64_t T);
/* Bytes of a row; from row to row; rows of the buffer, whatever T is; where a row begins. */
uint64_t vf_row_bytes(const struct vf_step_run *u, unsigned p);
uint64_t vf_pitch(const struct vf_step_run *u, unsigned p);
int64_t vf_capacity(const struct vf_step_run *u, unsigned p);
uint64_t vf_address(const struct vf_step_run *u, unsigned p, unsigned rank, int64_t buffer_row);

/* The result's failure; s NULL: of no launch in particular. */
struct vf_failure *vf_failure_at(struct vf_step_run *u, enum vf_kind kind, const struct vf_step *s);
/* The PTX line at fault (0: none), and the spec's that it comes from. */
void vf_at_line(struct vf_step_run *u, struct vf_failure *f, uint32_t line);
const char *vf_spec_text(const struct vf_step_run *u, uint32_t line);
/* Element (row, col) of parameter p, at buffer row `at` of `rank`; false. */
bool vf_fail_at(const struct vf_step *s, enum vf_kind kind, unsigned p, unsigned rank, int64_t row,
                int64_t at, int64_t col);

/* ---- verify_after.c ---- */

/* Host work behind a launch (ctx: a struct vf_step): outputs are compared, inputs must be as they
 * were.  false: there is a failure. */
bool vf_after(void *ctx, struct sim *sim, unsigned rank);
