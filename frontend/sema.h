/*
 * What the semantic checks share.  Private to the frontend.
 *
 * Three walks over a checked file: names (names.c: every name once, whatever the types), kernels
 * (kernel.c, expr.c, calls.c, instance.c: types, placements, IR), models (model*.c: types and
 * placements, nothing is made).  A later walk is silent about what an earlier one has reported: its
 * value is FE_BAD.
 */
#pragma once
#include "frontend/ast.h"
#include "frontend/frontend.h"

/* ---- values of expressions ---- */

enum fe_kind {
	FE_BAD, /* an error, already reported; silences what follows */
	FE_INT,
	FE_REAL,
	FE_BOOL,
	FE_DTYPE,
	FE_UNKNOWN, /* an integer that depends on tp, where tp is not given */
	FE_TENSOR,
	FE_ABSENT, /* a parameter whose `when` does not hold */
	FE_NKINDS
};

struct fe_val {
	enum fe_kind kind;
	bool b;
	enum ir_dtype dtype;
	int64_t i;
	double r;
	struct ir_value *v;
};

static inline bool fe_is_number(struct fe_val v)
{
	return v.kind == FE_INT || v.kind == FE_REAL;
}

/* ---- scopes (scope.c) ---- */

enum fe_symbol_kind {
	FE_SYM_CONST,
	FE_SYM_FN,
	FE_SYM_KERNEL,
	FE_SYM_MODEL,
	FE_SYM_LOCAL,
	FE_SYM_PARAM,
	FE_SYM_OUT,
	FE_SYM_INOUT
};

struct fe_symbol {
	const char *name;
	enum fe_symbol_kind kind;
	struct span at;
	struct ast *decl;
	bool used, written;
	bool checked;   /* a fn whose names have been checked: it may be called */
	bool recursive; /* a fn that is not looked into */
	struct span written_at;
	struct fe_val val; /* CONST; PARAM and LOCAL while lowering */
	unsigned param;    /* OUT and INOUT while lowering: index in the function's parameters */
	void *model;       /* struct fe_mvar in a model */
	const struct ir_func *func; /* of a KERNEL whose parameters are sound, once it is lowered */
	struct fe_symbol *next;     /* in order of declaration */
	unsigned order;             /* fns: how many were declared before */
};

struct fe_scope {
	struct arena *arena;
	struct fe_scope *parent;
	struct fe_symbol **slot, *first, **tail;
	size_t n, nslot; /* nslot: a power of two, or 0 */
};

void fe_scope_init(struct fe_scope *s, struct arena *a, struct fe_scope *parent);
struct fe_symbol *fe_scope_own(const struct fe_scope *s,
                               const char *name); /* NULL: not in s itself */
struct fe_symbol *fe_scope_find(const struct fe_scope *s,
                                const char *name); /* parents too; NULL: nowhere */
struct fe_symbol *fe_scope_add(struct fe_scope *s, enum fe_symbol_kind kind, const char *name,
                               struct span at, struct ast *decl);

/* ---- the state of fe_lower ---- */

struct fe_instance;

struct fe {
	struct arena *arena;
	struct diags *diags;
	const struct fe_options *o;
	const struct ast *decls; /* of the file */
	struct ir_module *module;
	struct ir_func **done; /* finished functions, callees first */
	size_t ndone, done_cap;
	struct fe_scope builtin, prelude, file; /* each the parent of the next */
	struct fe_instance **instances;         /* by signature (instance.c) */
	size_t ninstance, ninstance_slot;
	bool full; /* too many instances, and that has been said */
	unsigned nfn;
	bool damaged;     /* declarations were lost to syntax errors ... */
	bool lost_kernel; /* ... kernels or models */
};

/* Where an expression stands. */
struct fe_ctx {
	struct fe *fe;
	struct fe_scope *scope;
	struct ir_func *f;           /* NULL: only constants are possible here */
	const struct fe_ctx *caller; /* of a fn: where it is called ... */
	struct span call_at;         /* ... and from which place */
	const struct ast *fn;        /* the fn whose body this is, or NULL */
	unsigned depth;              /* of calls */
	unsigned nest;               /* expressions being evaluated, those of the callers too */
	size_t size;                 /* values of f once all calls are expanded */
	bool full;                   /* too many, and that has been said */
	bool exact;                  /* a constant expression: `/` must leave no remainder */
	bool walked;                 /* names.c has reported what is undefined */
	bool in_model;               /* tp has a value (perhaps FE_UNKNOWN) */
};

/* The one callable of models that is neither operation, function nor kernel. */
#define FE_GEMM "gemm"

/* ---- diagnostics ---- */

/* An error in cx, with a note for each call that led there; `fix` may be NULL. */
void fe_error(const struct fe_ctx *cx, enum diag_code code, struct span at, const char *fix,
              const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void fe_note(const struct fe_ctx *cx, struct span at, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/* "did you mean" over what is visible from `s` (and operations and functions, for calls). */
enum fe_want { FE_WANT_VALUE, FE_WANT_CALL, FE_WANT_KERNEL, FE_WANT_OUTPUT };
void fe_suggest(const struct fe_ctx *cx, const char *name, enum fe_want want);
bool fe_reserved(const char *name);

/* ---- builtins that are not operations of the IR (builtin.c) ---- */

enum fe_builtin { FE_CAST, FE_COLS, FE_CEIL_DIV, FE_NBUILTINS };
extern const char *const fe_builtin_name[FE_NBUILTINS];
int fe_builtin_find(const char *name); /* -1: none */
bool fe_is_callable_name(
        const char *name); /* an operation or builtin: a fn cannot be called that */

/* ---- names.c ---- */

void fe_check_names_fn(struct fe *fe, struct fe_scope *scope, struct ast *fn);
void fe_check_names_kernel(struct fe *fe, struct fe_scope *scope, struct ast *kernel);
/* Declares a name at the top of a file or prelude; reports reserved and doubled ones (then NULL).
 */
struct fe_symbol *fe_declare(struct fe *fe, struct fe_scope *s, enum fe_symbol_kind kind,
                             struct ast *decl);
/* The fn `name` as seen from scope; NULL: none. */
struct fe_symbol *fe_find_fn(const struct fe_scope *s, const char *name);

/* ---- consts.c: exact integers, real numbers, bools, dtypes ---- */

struct fe_val fe_const_unary(const struct fe_ctx *cx, enum ast_op op, struct span at,
                             struct fe_val a);
struct fe_val fe_const_binary(const struct fe_ctx *cx, enum ast_op op, const struct ast *e,
                              struct fe_val a, struct fe_val b);
/* An operation of the IR on constants; false: it is not one that folds. */
bool fe_const_call(const struct fe_ctx *cx, int op, struct span at, const struct fe_val *arg,
                   unsigned n, struct fe_val *result);
struct fe_val fe_ceil_div(const struct fe_ctx *cx, struct span at, struct fe_val a,
                          struct fe_val b);
double fe_real(struct fe_val v);          /* of a number */
const char *fe_kind_text(enum fe_kind k); /* "an integer" */

/* Constant expressions of one kind; on error the diagnostic is given and false returned. */
bool fe_want_int(const struct fe_ctx *cx, const struct ast *e, int64_t *out, bool *known);
bool fe_want_bool(const struct fe_ctx *cx, const struct ast *e, bool *out);
bool fe_want_dtype(const struct fe_ctx *cx, const struct ast *e, enum ir_dtype *out);
void fe_check_assert(const struct fe_ctx *cx, const struct ast *s);
void fe_check_const(struct fe *fe, struct fe_scope *s, struct ast *c);
void fe_check_sets(struct fe *fe);

/* ---- expr.c, calls.c: expressions to constants or IR ---- */

struct fe_val fe_expr(struct fe_ctx *cx, const struct ast *e);
struct fe_val fe_call_expr(struct fe_ctx *cx, const struct ast *e);
/* A value of the IR for v (constants become CONST); NULL: an error, reported or silenced. */
struct ir_value *fe_tensor(struct fe_ctx *cx, struct fe_val v, struct span at);
/* Makes, types and appends; `at_src` are the operands' spans.  FE_BAD after a diagnostic. */
struct fe_val fe_emit(struct fe_ctx *cx, struct ir_value *v, const struct span *at_src);
struct fe_val fe_cast(struct fe_ctx *cx, struct fe_val v, enum ir_dtype t, struct span at);

enum { FE_MAX_ARGS = 32 };

/* Arguments of a call, matched to parameters. */
struct fe_args {
	unsigned n;
	const struct ast *arg[FE_MAX_ARGS]; /* by parameter; NULL: not given */
};
/* `need` parameters of the n have no default.  false: reported. */
bool fe_match_args(const struct fe_ctx *cx, const struct ast *call, const char *const *names,
                   unsigned n, unsigned need, struct fe_args *out);

/* What calls of ops.def's operations take besides operands: the attribute's name, or NULL. */
const char *fe_attribute_of(enum ir_op op);

/* ---- instance.c: fns, one IR function for each signature of a call ---- */

struct fe_val fe_call_fn(struct fe_ctx *cx, const struct ast *e, struct fe_symbol *fn);

/* ---- kernel.c ---- */

/* Statements of a kernel or fn; the value returned (FE_BAD for a kernel). */
struct fe_val fe_body(struct fe_ctx *cx, const struct ast *body);
void fe_lower_kernel(struct fe *fe, struct ast *kernel);

/* What stands behind a parameter's type. */
struct fe_attrs {
	const struct ast *place, *ld, *align, *when;
};
/* Doubled and unknown properties are reported; of the placement only that there is one. */
struct fe_attrs fe_read_attrs(const struct fe_ctx *cx, const struct ast *attrs);
bool fe_type_dtype(const struct fe_ctx *cx, const struct ast *type, enum ir_dtype *t);
bool fe_is_rows(const struct ast *dim); /* the name T */
void fe_finish_func(struct fe *fe, struct ir_func *f);

/* ---- model.c ---- */

void fe_check_model(struct fe *fe, struct ast *model);
