/*
 * The IR: SSA over whole tensors.  A module holds fns (expanded by the first pass) and kernels; a
 * function is a straight list of values, each made by one operation of ops.def (doc/ir.md).
 *
 * Everything lives in the module's arena.
 */
#pragma once
#include "support/arena.h"
#include "support/diag.h"
#include "support/strbuf.h"
#include <stdbool.h>
#include <stdint.h>

enum ir_dtype {
#define IR_DTYPE(ID, text, bits, precision, emax, doc) IR_##ID,
#include "ir/dtypes.def"
#undef IR_DTYPE
	IR_NDTYPES
};

struct ir_dtype_info {
	const char *text, *doc;
	unsigned bits, precision;
	int emax;
};
extern const struct ir_dtype_info ir_dtype_info[IR_NDTYPES];
int ir_dtype_by_name(const char *s, size_t n); /* -1: none */

/* Who holds which rows (design.md section 3). */
enum ir_place { IR_REPLICATED, IR_PARTIAL, IR_SHARDED, IR_CARRIED, IR_NPLACES };
extern const char *const ir_place_name[IR_NPLACES];
int ir_place_by_name(const char *s, size_t n);

/*
 * ndim 0: a scalar; 1: [cols], the same for all rows, replicated; 2: [T, cols].
 * Broadcasting: a scalar to all; [cols] over rows; [T, 1] and [1] over columns.
 */
struct ir_type {
	uint8_t dtype; /* enum ir_dtype */
	uint8_t ndim;
	uint8_t place; /* enum ir_place; replicated unless ndim is 2 */
	int64_t cols;  /* 1 for a scalar */
};

enum ir_op {
#define IR_OP(ID, ...) IR_OP_##ID,
#include "ir/ops.def"
	IR_NOPS
};
enum ir_kind {
	IR_KIND_SOURCE,
	IR_KIND_ELEM,
	IR_KIND_ROW,
	IR_KIND_GROUP,
	IR_KIND_COLL,
	IR_KIND_MOVE,
	IR_KIND_SINK,
	IR_KIND_CALL
};
enum ir_shape {
	IR_SHAPE_BCAST,
	IR_SHAPE_SAME,
	IR_SHAPE_ONE,
	IR_SHAPE_GRP,
	IR_SHAPE_EXPAND,
	IR_SHAPE_ATTR,
	IR_SHAPE_NONE
};
enum ir_linear { IR_LIN_NO, IR_LIN_UNARY, IR_LIN_SUM, IR_LIN_SCALE, IR_LIN_COLL };

struct ir_op_info {
	const char *text, *doc;
	int nsrc;
	enum ir_kind kind;
	enum ir_shape shape;
	enum ir_linear linear;
	bool pub;
	double ulp, abs;
};
extern const struct ir_op_info ir_op_info[IR_NOPS];
int ir_op_by_name(const char *s, size_t n); /* -1: none */

/* A comparison: its result is bool.  Every other result is a number; only select takes a bool
 * (operand 0). */
static inline bool ir_op_compares(unsigned op)
{
	return op >= IR_OP_LT && op <= IR_OP_NE;
}

/*
 * Which rows a kernel works on where the spec leaves it open (doc/ir.md, row forms), and so what a
 * carried buffer holds.  Both forms have T rows with the same indices.
 */
enum ir_rows {
	IR_ROWS_OWN, /* own rows: two-shot protocols; other rows of a carried buffer are undefined
	              */
	IR_ROWS_ALL, /* all rows on every rank: one-shot protocols */
};

#define IR_MAX_COLS ((int64_t)1 << 20) /* widest row, in elements */
#define IR_MAX_TP   16

/*
 * The most f32 additions one addend of a row reduction of `cols` elements passes through.  Part of
 * the numeric class (design.md section 3): a function of cols alone; code generation stays within
 * it, and eval's bounds are made from it.
 */
unsigned ir_reduction_depth(int64_t cols);

struct ir_func;

struct ir_value {
	uint16_t op;         /* enum ir_op */
	bool mark;           /* scratch for passes; no meaning between them */
	struct ir_type type; /* of the result; ndim, cols of the operand for a SINK */
	uint32_t id;         /* unique in the function; the printed name if name is NULL */
	const char *name;    /* the user's, or NULL */
	struct span at;
	struct ir_func *func; /* whose value it is */
	unsigned nsrc;
	struct ir_value **src;
	/* attributes; which ones an op has follows from ops.def's text */
	double num;             /* CONST */
	int64_t n;              /* GROUP_*, EXPAND: group size */
	unsigned param;         /* PARAM, OUT, LOAD*, STORE*: index in func->param */
	struct ir_func *callee; /* CALL */
	void *aux;              /* scratch for passes and code generation */
	struct ir_value *prev, *next;
};

enum ir_mode { IR_IN, IR_OUT, IR_INOUT };

struct ir_param {
	const char *name;
	struct ir_type type;
	enum ir_mode mode;
	int64_t ld;     /* leading dimension in elements; 0: cols */
	unsigned align; /* bytes of the base and each row; 0: what ld gives, at most 16 */
	struct span at;
};

struct ir_func {
	const char *name; /* of an instance of a fn: "rmsnorm.1" */
	bool is_kernel;
	bool deterministic, rank_divergence, merged_sums; /* deterministic; allow ...; */
	struct span at;
	unsigned nparam;
	struct ir_param *param;
	struct ir_value *first, *last;
	struct ir_value *result; /* of a fn; NULL for a kernel */
	uint32_t next_id;
	struct ir_module *module;
	struct ir_func *next;
};

struct ir_module {
	struct arena *arena;
	struct ir_func *funcs, **tail; /* callees before callers */
};

/* ---- building (build.c) ---- */

struct ir_module *ir_module_new(struct arena *a);
struct ir_func *ir_func_new(struct ir_module *m, const char *name, bool is_kernel, struct span at);
unsigned ir_param_add(struct ir_func *f, struct ir_param p);               /* its index */
struct ir_func *ir_func_find(const struct ir_module *m, const char *name); /* NULL: none */

/*
 * Makes a value without a place in the list.  Its type is not inferred yet: the dtype is f32, for a
 * COLL or MOVE the operand's, everything else 0.  The caller sets the attributes (num, n, param,
 * callee; type.dtype of a CAST and of a reduction with `out = f32`; type of a LOAD), then v->type
 * by ir_infer or ir_set_type.
 */
struct ir_value *ir_value_new(struct ir_func *f, enum ir_op op, struct span at, unsigned nsrc,
                              struct ir_value *const *src);
void ir_append(struct ir_func *f, struct ir_value *v);
void ir_insert_before(struct ir_func *f, struct ir_value *at, struct ir_value *v);
void ir_remove(struct ir_func *f, struct ir_value *v);
/* Of use to tests and tools: the passes use ir/edit.h's ir_forward, which is linear. */
void ir_replace_uses(struct ir_func *f, struct ir_value *old, struct ir_value *by);
unsigned ir_count_uses(const struct ir_func *f, const struct ir_value *v);

/* A deep copy of a module into arena `a` (for the evaluator: the IR before a pass, beside that
 * after it). */
struct ir_module *ir_module_copy(const struct ir_module *m, struct arena *a);

/* ---- typing (infer.c): the one place that knows shapes, dtypes and placements ---- */

enum ir_type_error {
	IR_TYPE_OK,
	IR_TYPE_ARITY,      /* wrong number of operands */
	IR_TYPE_BOOL,       /* bool where a number is needed, or the other way round */
	IR_TYPE_SHAPE,      /* extents differ and neither is 1 */
	IR_TYPE_ROWS,       /* the operation needs [T, cols] */
	IR_TYPE_GROUP,      /* n does not divide cols, or n < 1 */
	IR_TYPE_WIDE,       /* more than IR_MAX_COLS columns */
	IR_TYPE_DTYPE,      /* a store to a parameter of another dtype; a reduction to neither its
	                       operand's dtype nor f32 */
	IR_TYPE_CALLEE,     /* an operand is not of the type that the fn was instantiated for */
	IR_PLACE_NONLINEAR, /* not linear, on a partial */
	IR_PLACE_MIXED,     /* partial with a non-partial in a sum */
	IR_PLACE_SCALE,     /* partial * partial, or partial * something not replicated */
	IR_PLACE_NEED_PARTIAL,    /* all_reduce or reduce_scatter of something not partial */
	IR_PLACE_NEED_SHARDED,    /* all_gather of something not sharded (or carried) */
	IR_PLACE_NEED_REPLICATED, /* slice of something not replicated */
	IR_PLACE_STORE, /* a value of this placement cannot be stored to the parameter's */
	IR_TYPE_NERRORS
};

/*
 * The type of v's result from v->op, its operands and attributes (and, for ATTR shapes, v->type as
 * set by the caller). Mixed replicated and sharded (or carried) operands are legal and give sharded
 * (carried): the slice is implicit before pass `place`.  On error *bad is the operand at fault
 * (0-based).
 *
 * What it reads of v->type (set by the caller, see ir_value_new):
 *   CAST: the result's dtype.
 *   ALL_REDUCE, REDUCE_SCATTER: dtype, the operand's or f32 (`out = f32`).
 *   PARAM: of a carried parameter place and ndim; sharded reads it in row-owned form, replicated
 *   with ndim 2 in full form (from pass `place` on), anything else as carried.
 *   LOAD: place; sharded (own rows) or replicated (all rows); of a carried parameter as PARAM,
 *   but not carried.
 *   LOAD_SUM: place as LOAD, dtype as ALL_REDUCE.
 *
 * A SINK's type is its operand's.
 */
enum ir_type_error ir_infer(const struct ir_func *f, const struct ir_value *v,
                            struct ir_type *result, unsigned *bad);

/* v->type = ir_infer's; false, and v->type unchanged, on an error. */
bool ir_set_type(const struct ir_func *f, struct ir_value *v);

static inline bool ir_type_equal(struct ir_type a, struct ir_type b)
{
	return a.dtype == b.dtype && a.ndim == b.ndim && a.place == b.place && a.cols == b.cols;
}

/* One sentence for the error, with the types in it; and how to mend it (NULL: nothing to say). */
const char *ir_type_error_text(struct arena *a, enum ir_type_error e, const struct ir_value *v,
                               unsigned bad);
const char *ir_type_error_fix(enum ir_type_error e);
enum diag_code ir_type_error_code(enum ir_type_error e);

/* "f32[T, 8192] sharded"; "bf16[8192]"; "f32[]" */
const char *ir_type_text(struct arena *a, struct ir_type t);

/* ---- text form (print.c, parse.c); parse(print(m)) prints the same ---- */

void ir_print(const struct ir_module *m, struct strbuf *out);
void ir_print_func(const struct ir_func *f, struct strbuf *out);
struct ir_module *ir_parse(struct arena *a, struct diags *d,
                           const struct source *src); /* NULL: see d */

/* ---- verifier (verify.c) ---- */

enum ir_form {
	IR_FORM_SOURCE, /* as the frontend makes it: calls, implicit slices and gathers, carried */
	IR_FORM_PLACED, /* no calls, no carried values; every slice and gather is a value */
	IR_FORM_FUSED,  /* loads, a row program, stores */
};

/*
 * Checks a function against `form`: operands defined before use and in the function, types as
 * ir_infer gives them, each output written once, collectives legal.  Errors are E6xx diagnostics
 * with the program printed and the errors in place.
 */
bool ir_verify(const struct ir_func *f, enum ir_form form, struct diags *d);
