/*
 * Inside the PTX parser: lex.c makes tokens, names.c knows what is declared, parse_insn.c reads
 * instructions, parse_body.c and parse.c the rest, template.c drives the same code over templates.
 * No recursion over the input; every count is limited.
 */
#pragma once
#include "codegen/ptx/spell.h"

enum ptx_token_kind {
	PTX_TOK_EOF,
	PTX_TOK_WORD,   /* abc %r1 $x _ */
	PTX_TOK_DOT,    /* .abc .acc::f32; text starts behind the dot */
	PTX_TOK_NUM,    /* 12 0x1F 0f3F800000 8.1 */
	PTX_TOK_STRING, /* text without the quotes */
	PTX_TOK_PUNCT,  /* one byte */
};

struct ptx_token {
	enum ptx_token_kind kind;
	char punct;
	const char *s;
	uint32_t n;
	struct span at;
	uint32_t line;
};

/* What a name stands for. */
enum ptx_name_kind { PTX_N_REG, PTX_N_RANGE, PTX_N_LABEL, PTX_N_SYM, PTX_N_ENTRY };

struct ptx_name {
	const char *s;
	uint32_t n;
	enum ptx_name_kind kind;
	uint8_t cls;
	uint32_t first, count; /* registers; label index in first */
	const char *sym;
	struct span at;
	uint32_t next; /* in its bucket, + 1 */
};

enum {
	PTX_MAX_DEPTH = 64, /* of blocks */
	PTX_MAX_NAMES = 1 << 18,
	PTX_MAX_NAME = 1 << 10, /* bytes of a name */
	PTX_MAX_FNS = 1 << 12,
	PTX_MAX_PARAMS = 1 << 10, /* and variables */
	PTX_MAX_PARTS = 16,       /* of a mnemonic */
	PTX_ROW_BUCKETS = 128,
};

struct ptx_parser {
	struct arena *arena;
	struct diags *diags;
	const struct source *src;
	const char *p, *end;
	uint32_t line;
	struct ptx_token tok;
	struct strbuf *header;  /* where comments before the first token go; NULL: past it */
	bool comment_ends_insn; /* a comment now belongs to the last instruction */
	bool stop;              /* no use in going on */
	bool any;               /* ptx_parse_any: pass over what is not understood */
	bool quiet;             /* an attempt: do not report */

	struct ptx_module *module;
	struct ptx_fn *fn;
	uint32_t total_insns, total_fns;
	unsigned file; /* number of the .file that is kept; 0: none yet */
	uint32_t loc_line, loc_col;

	/* names.c: names of open blocks, innermost last */
	struct ptx_name *name;
	uint32_t nname;
	size_t cap_name;
	uint32_t *bucket, nbucket;
	uint32_t block[PTX_MAX_DEPTH]; /* where each open block's names start */
	unsigned depth;
	uint32_t *alias; /* of labels of this function: what it really is, + 1; 0: itself */
	size_t cap_alias;
	uint32_t nalias;
	uint32_t first_label; /* labels before it are not the parser's */
	struct span *label_at;
	size_t cap_label_at;
	bool inner_names; /* labels or variables in inner blocks, which may need new names */
	bool aliases;

	uint8_t row_first[PTX_ROW_BUCKETS], row_next[PTX_NOPS]; /* rows by first word, + 1 */

	/* templates */
	const struct ptx_template *tpl;
	const struct ptx_bind *bind;
	size_t nbind;
	bool *bound;
};

/* ---- lex.c ---- */
void ptx_next(struct ptx_parser *p);
bool ptx_is(const struct ptx_parser *p, char punct);
bool ptx_accept(struct ptx_parser *p, char punct);
/* Takes the punctuation or reports what stands in its place. */
bool ptx_expect(struct ptx_parser *p, char punct);
bool ptx_tok_equals(const struct ptx_token *t, const char *s);
/* A number token's value: an integer, or the bits of 0f / 0d with *cls set (else B64).  Reports and
 * returns false. */
bool ptx_number(struct ptx_parser *p, const struct ptx_token *t, uint64_t *value, uint8_t *cls);
/* Takes an unsigned integer of at most `max`. */
bool ptx_take_uint(struct ptx_parser *p, uint64_t max, uint64_t *value);
void ptx_err(struct ptx_parser *p, enum diag_code code, struct span at, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
/* Reports "expected WHAT" at the token. */
void ptx_expected(struct ptx_parser *p, const char *what);

/* ---- names.c ---- */
void ptx_names_init(struct ptx_parser *p);
bool ptx_block_open(struct ptx_parser *p, struct span at);
void ptx_block_close(struct ptx_parser *p);
/* Innermost meaning of a name that is not a range. */
struct ptx_name *ptx_name_find(struct ptx_parser *p, const char *s, uint32_t n);
/* Declares in the innermost block; reports a second declaration there.  NULL then. */
struct ptx_name *ptx_name_add(struct ptx_parser *p, const struct ptx_token *t,
                              enum ptx_name_kind kind);
/* The register of this name; false: none is declared. */
bool ptx_name_reg(struct ptx_parser *p, const char *s, uint32_t n, struct ptx_opnd *o);
/* A use of a label that may be placed later, and its placing. */
struct ptx_opnd ptx_label_use(struct ptx_parser *p, const struct ptx_token *t);
void ptx_label_here(struct ptx_parser *p, const struct ptx_token *t);
/* At the end of a function: every label used is placed, names are unique. */
void ptx_labels_finish(struct ptx_parser *p);

/* ---- parse_insn.c ---- */
void ptx_rows_init(struct ptx_parser *p);
/* An instruction from its guard or mnemonic to its semicolon. */
void ptx_parse_insn(struct ptx_parser *p);

/* ---- parse_body.c ---- */
/* To behind the next semicolon, or to a brace. */
void ptx_skip_statement(struct ptx_parser *p);
/* Reports the directive at hand as not supported `where`, and skips its statement. */
void ptx_unsupported(struct ptx_parser *p, const char *where);
bool ptx_dot(const struct ptx_parser *p, const char *s);
bool ptx_accept_dot(struct ptx_parser *p, const char *s);
bool ptx_take_type(struct ptx_parser *p, enum ptx_type *t);
bool ptx_take_align(struct ptx_parser *p, unsigned *align);
/* A name that is declared: not a register's. */
bool ptx_take_name(struct ptx_parser *p, struct ptx_token *t);
/* [n], [n][m], and [] (count 0) where open_allowed; *array: there was one. */
bool ptx_take_extents(struct ptx_parser *p, bool open_allowed, uint64_t max, uint64_t *count,
                      bool *array);
bool ptx_starts_var(const struct ptx_parser *p);
/* Variables; the state space is the token at hand. */
void ptx_parse_vars(struct ptx_parser *p, bool external);
void ptx_parse_pragma(struct ptx_parser *p);
/* The statements of a body: to the brace that closes it, or to the end of a template. */
void ptx_parse_body(struct ptx_parser *p);

/* ---- parse.c ---- */
void ptx_parser_init(struct ptx_parser *p, struct arena *a, struct diags *d,
                     const struct source *src);
enum ptx_type ptx_type_by_name(const char *s, size_t n);

/* ---- template.c ---- */
/* The operand bound to the hole $name (token); kind PTX_NONE, reported, when there is none. */
struct ptx_opnd ptx_hole(struct ptx_parser *p, const struct ptx_token *t);

/* ---- verify.c ---- */
/* Everything but labels, names and the module: false, reported. */
bool ptx_verify_insn(const struct ptx_fn *f, const struct ptx_insn *i, struct diags *d);
