/*
 * A model as a list of steps: every statement of every turn of its loops, in order, with names,
 * indices and costs resolved.  What the planner and the schedule read.
 */
#pragma once
#include "ir/ir.h"
#include "support/diag.h"

enum fe_mplace {
	FE_REPLICATED,
	FE_PARTIAL,
	FE_SHARDED,
	FE_CARRIED,
	FE_COLUMNS,
	FE_ROWS,
	FE_LOCAL,
	FE_NMPLACES
};
extern const char *const fe_mplace_name[FE_NMPLACES];

enum fe_mkind { FE_M_INPUT, FE_M_STATE, FE_M_WEIGHT, FE_M_VALUE };

/* A tensor of the model.  Extents are those of the whole tensor: `columns` and `rows` split the
 * last and the first one over the ranks. */
struct fe_mvalue {
	const char *name;
	enum fe_mkind kind;
	enum ir_dtype dtype;
	enum fe_mplace place;
	bool rows; /* the first of two extents is T (and dim[0] is 0) */
	uint8_t ndim;
	int64_t dim[2]; /* dim[0] of [n]; dim[1] of [T, n] and [k, n] */
	int64_t count;  /* elements of an array of weights; 0: no array */
};

struct fe_operand {
	uint32_t value; /* index in the model's values */
	int64_t index;  /* of an element of an array; else 0 */
};

enum fe_step_kind { FE_STEP_GEMM, FE_STEP_KERNEL, FE_STEP_OPAQUE };

/* What an opaque step costs, with its arguments in the order of doc/language.md; those left out are
 * 0.  Extents are those of all ranks together. */
enum fe_cost_kind { FE_COST_ATTENTION, FE_COST_ELEMENTWISE, FE_COST_MOE, FE_COST_WORK, FE_NCOSTS };

struct fe_step {
	enum fe_step_kind kind;
	const char *name;           /* the kernel's, the opaque node's; of a GEMM its weight's */
	const struct ir_func *func; /* KERNEL: as fe_lower made it, before any pass */
	struct span at;
	/* GEMM: x, w and perhaps bias.  KERNEL: by parameter, the outputs left out. */
	uint32_t nin, nout;
	const struct fe_operand *in;
	const uint32_t
	        *out; /* a value for each result; a state that is updated is not among them */
	enum fe_cost_kind cost; /* OPAQUE */
	int64_t arg[4];
};

struct fe_steps {
	const char *name; /* the model's */
	struct span at;
	const struct fe_mvalue *value;
	const struct fe_step *step;
	const uint32_t *output; /* values that leave the model */
	uint32_t nvalue, nstep, noutput;
	struct fe_steps *next; /* of the same file */
};

/* More steps than this are an error: a model is planned step by step. */
enum { FE_MAX_STEPS = 1 << 16 };
