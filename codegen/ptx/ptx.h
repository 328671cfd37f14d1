/*
 * PTX as data: modules, kernels, instructions.  Made by the builder (build.h) or the parser,
 * written by the printer, checked by the verifier, executed by sim/.  All of them read insns.def.
 * PTX ISA 9.1 is the reference.
 *
 * Everything lives in the module's arena.
 */
#pragma once
#include "support/arena.h"
#include "support/diag.h"
#include "support/strbuf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptx_op {
#define PTX_INSN(ID, ...) PTX_##ID,
#include "codegen/ptx/insns.def"
	PTX_NOPS,
	PTX_OPAQUE = PTX_NOPS /* one that is not in the table: ptx_parse_any */
};

/* Register classes: name prefix, bits, declaration type. */
#define PTX_CLASSES(X)           \
	X(PRED, "%p", 1, "pred") \
	X(B16, "%h", 16, "b16")  \
	X(B32, "%r", 32, "b32")  \
	X(B64, "%rd", 64, "b64") X(F32, "%f", 32, "f32") X(F64, "%fd", 64, "f64")
enum ptx_class {
#define X(ID, prefix, bits, decl) PTX_C_##ID,
	PTX_CLASSES(X)
#undef X
	        PTX_NCLASSES
};

enum ptx_type {
#define PTX_TYPE(ID, text, bits, class) PTX_T_##ID,
#include "codegen/ptx/types.def"
#undef PTX_TYPE
	PTX_NTYPES,
	PTX_T_none = PTX_NTYPES
};

struct ptx_type_info {
	const char *text;
	unsigned bits;
	enum ptx_class cls;
};
extern const struct ptx_type_info ptx_type_info[PTX_NTYPES];

/* Modifiers.  Value 0 is always "not written". */
enum ptx_order {
	PTX_O_NONE,
	PTX_WEAK,
	PTX_RELAXED,
	PTX_ACQUIRE,
	PTX_RELEASE,
	PTX_ACQ_REL,
	PTX_SC,
	PTX_VOLATILE
};
enum ptx_scope { PTX_S_NONE, PTX_CTA, PTX_CLUSTER, PTX_GPU, PTX_SYS };
enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_PARAM, PTX_CONST, PTX_LOCAL };
enum ptx_round { PTX_R_NONE, PTX_RN, PTX_RZ, PTX_RM, PTX_RP, PTX_RNI, PTX_RZI, PTX_RMI, PTX_RPI };
enum ptx_cmp {
	PTX_CMP_NONE,
	PTX_EQ,
	PTX_NE,
	PTX_LT,
	PTX_LE,
	PTX_GT,
	PTX_GE,
	PTX_LO,
	PTX_LS,
	PTX_HI,
	PTX_HS,
	PTX_EQU,
	PTX_NEU,
	PTX_LTU,
	PTX_LEU,
	PTX_GTU,
	PTX_GEU,
	PTX_NUM,
	PTX_NAN
};
enum ptx_red {
	PTX_RED_NONE,
	PTX_ADD,
	PTX_MIN,
	PTX_MAX,
	PTX_AND,
	PTX_OR,
	PTX_XOR,
	PTX_INC,
	PTX_DEC
};
enum ptx_shfl { PTX_SHFL_NONE, PTX_UP, PTX_DOWN, PTX_BFLY, PTX_IDX };
enum ptx_half { PTX_W_NONE, PTX_LOW, PTX_HIGH, PTX_WIDE }; /* .lo .hi .wide */
enum ptx_bool { PTX_B_NONE, PTX_B_AND, PTX_B_OR, PTX_B_XOR };
enum ptx_approx { PTX_A_NONE, PTX_APPROX, PTX_FULL };
enum ptx_sat { PTX_SAT_NONE, PTX_SAT, PTX_SATFINITE };
enum ptx_vote { PTX_VOTE_NONE, PTX_ALL, PTX_ANY, PTX_UNI, PTX_BALLOT };

struct ptx_mod { /* one member per letter of insns.def */
	uint8_t order, scope, space, round, cmp, red, shfl, half, boolean, approx, sat, vote;
	uint8_t vec; /* 0, 2, 4, 8 */
	uint8_t ftz, nc, acc, uni;
	uint8_t type2; /* enum ptx_type; for rows with %u */
};

enum ptx_special { /* read-only registers */
	           PTX_TID_X,
	           PTX_TID_Y,
	           PTX_TID_Z,
	           PTX_NTID_X,
	           PTX_NTID_Y,
	           PTX_NTID_Z,
	           PTX_CTAID_X,
	           PTX_CTAID_Y,
	           PTX_CTAID_Z,
	           PTX_NCTAID_X,
	           PTX_NCTAID_Y,
	           PTX_NCTAID_Z,
	           PTX_LANEID,
	           PTX_WARPID,
	           PTX_NWARPID,
	           PTX_SMID,
	           PTX_CLOCK64,
	           PTX_GLOBALTIMER,
	           PTX_NSPECIALS
};
extern const char *const ptx_special_name[PTX_NSPECIALS]; /* "%tid.x" */

enum ptx_kind {
	PTX_NONE,
	PTX_REG,  /* cls, reg[0] */
	PTX_VEC,  /* cls, n, reg[0..n); PTX_SINK for `_` */
	PTX_IMM,  /* imm: an integer, or the bits of an f32 / f64 (cls F32 / F64 then) */
	PTX_MEM,  /* [reg[0] + imm] (cls B64 or B32), or [symbol + imm] when sym is set */
	PTX_SYM,  /* a variable's address, or a parameter's name in ld.param */
	PTX_LAB,  /* reg[0]: index in fn->label */
	PTX_SPEC, /* reg[0]: enum ptx_special */
};
#define PTX_SINK UINT32_MAX

struct ptx_opnd {
	uint8_t kind; /* enum ptx_kind */
	uint8_t cls;  /* enum ptx_class */
	uint8_t n;
	bool negated; /* a predicate operand written !%p */
	uint32_t reg[8];
	int64_t imm;
	const char *sym;
};

#define PTX_MAX_OPNDS 6
struct ptx_insn {
	uint16_t op;  /* enum ptx_op */
	uint8_t type; /* enum ptx_type; PTX_T_none for rows without %t */
	uint8_t nopnd;
	struct ptx_mod mod;
	bool guard_not; /* @!%p */
	uint32_t guard; /* predicate register + 1; 0: always executed */
	struct ptx_opnd o[PTX_MAX_OPNDS];
	uint32_t line;  /* in the text it was parsed from or last printed to; from 1 */
	struct span at; /* in the source it was parsed from; nowhere when built */
	uint32_t loc_line,
	        loc_col;     /* .loc: place in the spec, file fn->module->loc_file; 0: none */
	const char *comment; /* printed at the end of the line; kept by the parser; NULL: none */
	const char
	        *opaque; /* of PTX_OPAQUE: the mnemonic; o has the registers it names, in order */
};

struct ptx_label {
	const char *name; /* unique in the function */
	uint32_t at; /* index of the instruction it stands before; ninsn: the end.  UINT32_MAX: not
	                placed */
};

struct ptx_var { /* a .shared or .global variable */
	const char *name;
	enum ptx_space space;
	enum ptx_type type;
	unsigned align;
	uint64_t count; /* elements; 0: extern .shared x[] (dynamic) */
};

struct ptx_param {
	const char *name;
	enum ptx_type type; /* b8 with count > 0: an array of bytes */
	unsigned align;     /* 0: natural */
	uint32_t count;     /* 0: a scalar */
	uint32_t offset;    /* in the parameter block, from the rules of the ABI; set by
	                       ptx_param_layout */
};

struct ptx_fn {
	const char *name;
	struct ptx_module *module;
	struct ptx_param *param;
	unsigned nparam;
	size_t cap_param;
	struct ptx_insn *insn;
	uint32_t ninsn;
	size_t cap_insn;
	struct ptx_label *label;
	uint32_t nlabel;
	size_t cap_label;
	struct ptx_var *var;
	uint32_t nvar;
	size_t cap_var; /* declared inside the body */
	uint32_t nreg[PTX_NCLASSES];
	unsigned maxntid; /* 0: not given */
	unsigned minctas; /* .minnctapersm; 0: not given */
	uint32_t line;
	/* builder state: what the next instruction gets */
	uint32_t guard;
	bool guard_not;
	uint32_t loc_line, loc_col;
	const char *comment;
	const char *error; /* the builder's first failure; it then hands out harmless operands */
	bool full; /* that failure: more instructions or registers than a function has room for */
	struct ptx_insn scratch; /* what ptx_emit returns after a failure */
	struct ptx_fn *next;
};

struct ptx_module {
	struct arena *arena;
	unsigned version;     /* .version times 10 */
	unsigned sm;          /* .target sm_90 -> 90 */
	char sm_suffix;       /* 'a', 'f' or 0 */
	const char *header;   /* comment lines at the top, without the slashes; NULL: none */
	const char *loc_file; /* .file 1 "..."; NULL: no .loc is printed */
	struct ptx_var *var;
	uint32_t nvar;
	size_t cap_var; /* module scope */
	struct ptx_fn *fn, **tail;
};

struct ptx_insn_info {
	const char *name; /* the row's ID */
	const char *spelling, *shape, *doc;
	uint32_t types; /* mask over enum ptx_type */
	unsigned version, sm;
};
extern const struct ptx_insn_info ptx_insn_info[PTX_NOPS];

/* Least .version (times 10) and sm of this instruction with its modifiers and type (insns.def and
 * ptx.c's table of modifiers). */
void ptx_insn_needs(const struct ptx_insn *i, unsigned *version, unsigned *sm);

/* ---- building (build.c; wrappers in build.h) ---- */

struct ptx_module *ptx_module_new(struct arena *a, unsigned version, unsigned sm, char sm_suffix);
struct ptx_fn *ptx_fn_new(struct ptx_module *m, const char *name);
struct ptx_opnd ptx_param_add(struct ptx_fn *f, enum ptx_type t,
                              const char *name); /* a SYM, for ld.param */
struct ptx_opnd ptx_var_add(struct ptx_fn *f, enum ptx_space sp, enum ptx_type t, unsigned align,
                            uint64_t count, const char *name);
struct ptx_opnd ptx_reg(struct ptx_fn *f, enum ptx_class c);
struct ptx_opnd ptx_vec_reg(struct ptx_fn *f, enum ptx_class c, unsigned n); /* n fresh registers */
struct ptx_opnd ptx_vec_of(const struct ptx_opnd *regs, unsigned n); /* of registers of one class */
struct ptx_opnd ptx_vec_get(struct ptx_opnd vec, unsigned k);        /* element k as a REG */
struct ptx_opnd ptx_imm(int64_t v);
struct ptx_opnd ptx_f32(float v);             /* printed 0fXXXXXXXX */
struct ptx_opnd ptx_spec(enum ptx_special s); /* a source of mov and cvt only */
struct ptx_opnd ptx_at(struct ptx_opnd base,
                       int64_t off); /* [base + off]; base a REG, SYM or MEM */
struct ptx_opnd ptx_label_new(struct ptx_fn *f, const char *hint); /* a LAB, not placed */
void ptx_place(struct ptx_fn *f, struct ptx_opnd label);           /* before the next instruction */

/* Instructions from here on are guarded by p (PTX_REG of class PRED); ptx_unguard ends it. */
void ptx_guard(struct ptx_fn *f, struct ptx_opnd p, bool negated);
void ptx_unguard(struct ptx_fn *f);
void ptx_loc(struct ptx_fn *f, uint32_t line, uint32_t col); /* spec place of what follows */
void ptx_comment(struct ptx_fn *f, const char *text);        /* on the next instruction */

/* Appends an instruction with operands o[0..n); rows with %r start as .rn for float types. */
struct ptx_insn *ptx_emit(struct ptx_fn *f, enum ptx_op op, enum ptx_type t,
                          const struct ptx_mod *mod, const struct ptx_opnd *o, unsigned n);

/* Sets the parameters' offsets; returns the size of the block in bytes. */
uint32_t ptx_param_layout(struct ptx_fn *f);

/* Sets .version and sm to the least that hold what the module uses (never below `version` and `sm`
 * as they are). */
void ptx_module_minimum(struct ptx_module *m);

/* ---- text out (print.c); also sets every instruction's line ---- */
void ptx_print(struct ptx_module *m, struct strbuf *out);
void ptx_print_insn(const struct ptx_fn *f, const struct ptx_insn *i,
                    struct strbuf *out); /* one line, no newline */

/* ---- text in (parse.c): NULL, with E7xx diagnostics, when the text is wrong ---- */
struct ptx_module *ptx_parse(struct arena *a, struct diags *d, const struct source *src);

/*
 * The same for text that other compilers wrote, to be looked at and not to be run: instructions that
 * are not in the table become PTX_OPAQUE, cache hints are dropped, .func bodies are read as entries
 * are, and what else is not understood is passed over.
 */
struct ptx_module *ptx_parse_any(struct arena *a, struct diags *d, const struct source *src);

/* ---- checks (verify.c), from the table: kinds and classes of operands, addresses, modifiers that
 * go together, labels, variables and registers known, version and sm.  false, with E7xx diagnostics
 * ---- */
bool ptx_verify(const struct ptx_module *m, struct diags *d);

/* ---- templates (template.c): PTX with holes; templates/README.md has the rules ---- */

enum ptx_hole_kind {
	PTX_HOLE_REG = 1, /* a register of the class, or a vector of n */
	PTX_HOLE_VALUE,   /* a register of the class, or an integer */
	PTX_HOLE_LABEL,
	PTX_HOLE_SYM, /* a variable */
};

struct ptx_hole { /* declared in the head of the template: //   $name   type   meaning */
	const char *name;
	enum ptx_hole_kind kind;
	enum ptx_type type; /* PTX_T_none for labels and variables */
	unsigned n;         /* > 1: a vector */
};

struct ptx_template { /* one file of templates/, embedded at build time (embed.c) */
	const char *name, *text;
	const struct ptx_hole *holes; /* ends with name NULL */
};
extern const struct ptx_template ptx_templates[]; /* ends with name NULL */
const struct ptx_template *ptx_template_find(const char *name);

struct ptx_bind {
	const char *hole;      /* without the $ */
	struct ptx_opnd value; /* a REG, IMM, SYM, LAB or VEC; inside [..] a REG or SYM */
};

/*
 * Appends the template to f: $hole is the caller's operand, %name a fresh register (its class from
 * `.reg` lines of the template), labels are local.  An unbound, unused or ill-typed hole is an E7xx
 * diagnostic and false.
 */
bool ptx_expand(struct ptx_fn *f, const char *name, const struct ptx_bind *bind, size_t nbind,
                struct diags *d);
