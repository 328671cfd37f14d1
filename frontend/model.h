/*
 * What the checks of a model share.  Private to model*.c.
 *
 * A model is checked here and scheduled elsewhere: types, placements, kernels' signatures, indices
 * of weights, names. In a model a name may be bound again; each binding must be read before the
 * next.
 */
#pragma once
#include "frontend/sema.h"
#include "frontend/steps.h"

/* Extents are those of the whole tensor; `columns` and `rows` split the last and the first one over
 * the ranks. */
struct fe_mtype {
	bool ok;   /* false: not known because of an error; fits everything */
	bool rows; /* the first of two extents is T */
	uint8_t ndim;
	enum ir_dtype dtype;
	enum fe_mplace place;
	int64_t dim[2]; /* dim[0] of [n]; dim[1] of [T, n] and [k, n] */
	bool known[2];  /* false: depends on tp, which is not given */
};

enum { FE_MAX_LOOPS = 8 };

struct fe_mvar {
	enum fe_mkind kind;
	struct fe_mtype type;
	bool array, count_known;
	int64_t count;
	bool used; /* since it was last bound */
	struct span bound_at;
	unsigned depth; /* loops around its first binding */
	uint32_t value; /* while its model's steps are listed: which value it has now */
	/* what came first in the current turn of the loop at each depth */
	uint32_t touched[FE_MAX_LOOPS];
	bool read_first[FE_MAX_LOOPS];
};

struct fe_loop {
	struct fe_symbol *index;
	int64_t lo, hi;
	uint32_t serial;
	struct fe_scope scope;
	struct fe_mvar **written; /* bound in this loop, from outside of it */
	size_t nwritten, written_cap;
};

struct fe_model {
	struct fe *fe;
	struct ast *decl;
	struct fe_ctx cx; /* constants of the model: tp, the indices of loops */
	struct fe_scope scope;
	struct fe_loop loop[FE_MAX_LOOPS];
	unsigned depth;
	uint32_t serial;
	int64_t turns; /* of loops that indices were checked for */
	bool has_output;
	bool undefined; /* a name was: it may be a misspelt one, which then looks unused */
};

/* ---- model_type.c ---- */

/* A type as written, with its placement; reports extents that tp does not divide. */
struct fe_mtype fe_model_type(struct fe_model *m, const struct ast *type, const struct ast *attrs,
                              const bool allowed[FE_NMPLACES]);
const char *fe_mtype_text(struct arena *a, struct fe_mtype t);
bool fe_mtype_equal(struct fe_mtype a, struct fe_mtype b);
struct fe_mtype fe_mtype_of_param(struct ir_type t);

/* ---- model_call.c ---- */

enum { FE_MAX_RESULTS = 32 };

/* The results of a call, gemm or opaque node; false: not one of these, or in error (reported). */
bool fe_model_call(struct fe_model *m, const struct ast *e, struct fe_mtype result[FE_MAX_RESULTS],
                   unsigned *n);
/* The kind and arguments of a cost that is right, as far as they are known now. */
void fe_model_cost(struct fe_model *m, const struct ast *e, enum fe_cost_kind *kind,
                   int64_t arg[4]);
/* A name, or an element of an array: its type.  Counts as a read. */
struct fe_mtype fe_model_operand(struct fe_model *m, const struct ast *e, struct fe_mvar **var);

/* ---- model_steps.c ---- */

/* The steps of a model without errors, of which tp is known.  Too many of them are an error. */
struct fe_steps *fe_model_steps(struct fe *fe, struct ast *model);
