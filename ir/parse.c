/*
 * Reads the text form: LL(1), no recursion, the grammar is in doc/ir.md.  Says only what is wrong
 * with the text; whether the program is legal is the verifier's question, so that a wrong program
 * can be written down and shown to it.
 */
#include "ir/ir.h"
#include "ir/lex.h"
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ERRORS = 20, MAX_ID = 0xfffff };

struct parser {
	struct ir_lexer l;
	struct arena *arena;
	struct diags *d;
	struct ir_module *m;
	struct ir_func *f;
	struct ir_table funcs, params, values;
	struct ir_value *nothing; /* stands for an operand that is not defined */
	unsigned nerror;
	int64_t max_id; /* of the function's numbered values; -1: none */
};

static void *fail_at(struct parser *p, struct span at, const char *what)
{
	if (p->nerror++ < MAX_ERRORS)
		diag_at(p->d, DIAG_ERROR, DIAG_IR_TEXT, at, "%s", what);
	return NULL;
}

static bool fail(struct parser *p, const char *what)
{
	fail_at(p, ir_lex_span(&p->l), what);
	return false;
}

static bool accept(struct parser *p, int kind)
{
	if (p->l.kind != kind)
		return false;
	ir_lex_next(&p->l);
	return true;
}

static bool expect(struct parser *p, int kind)
{
	const char what[] = {'\'', (char)kind, '\'', ' ', 'e', 'x', 'p',
	                     'e',  'c',        't',  'e', 'd', 0};

	return accept(p, kind) || fail(p, what);
}

static bool accept_word(struct parser *p, const char *word)
{
	if (!ir_lex_is(&p->l, word))
		return false;
	ir_lex_next(&p->l);
	return true;
}

static const char *token(const struct parser *p)
{
	return p->l.src->text + p->l.begin;
}

static size_t token_len(const struct parser *p)
{
	return p->l.end - p->l.begin;
}

/* A NAME, copied. */
static const char *name(struct parser *p, const char *what)
{
	const char *s;

	if (p->l.kind != IR_TOK_NAME) {
		fail(p, what);
		return NULL;
	}
	s = arena_strndup(p->arena, token(p), token_len(p));
	ir_lex_next(&p->l);
	return s;
}

static bool integer(struct parser *p, int64_t least, int64_t most, int64_t *v)
{
	const char *s = token(p);
	size_t n = token_len(p);

	*v = 0;
	for (size_t i = 0; p->l.kind == IR_TOK_NUMBER && i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return fail(p, "an integer expected");
		*v = *v * 10 + (s[i] - '0');
		if (*v > most)
			return fail(p, "this number is too large here");
	}
	if (p->l.kind != IR_TOK_NUMBER)
		return fail(p, "an integer expected");
	if (*v < least)
		return fail(p, "this number is too small here");
	ir_lex_next(&p->l);
	return true;
}

/* A real number with a sign; inf and nan too.  Read in the C locale, whatever the program's is. */
static bool real(struct parser *p, double *v)
{
	bool minus = accept(p, '-');
	locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	char s[64], *end = s;

	if (token_len(p) < sizeof(s) && (p->l.kind == IR_TOK_NUMBER || p->l.kind == IR_TOK_NAME)) {
		memcpy(s, token(p), token_len(p));
		s[token_len(p)] = 0;
		if (c)
			*v = strtod_l(s, &end, c);
	}
	if (c)
		freelocale(c);
	if (end == s || *end)
		return fail(p, "a number expected");
	if (minus)
		*v = -*v;
	ir_lex_next(&p->l);
	return true;
}

/* dtype "[" [ "T" "," ] [ cols ] "]" [ placement ] */
static bool type(struct parser *p, struct ir_type *t)
{
	int dtype = p->l.kind == IR_TOK_NAME ? ir_dtype_by_name(token(p), token_len(p)) : -1, place;

	*t = (struct ir_type){.cols = 1};
	if (dtype < 0)
		return fail(p, "a dtype expected");
	t->dtype = (uint8_t)dtype;
	ir_lex_next(&p->l);
	if (!expect(p, '['))
		return false;
	if (p->l.kind != ']') {
		t->ndim = 1;
		if (accept_word(p, "T")) {
			t->ndim = 2;
			if (!expect(p, ','))
				return false;
		}
		if (!integer(p, 1, IR_MAX_COLS, &t->cols))
			return false;
	}
	if (!expect(p, ']'))
		return false;
	place = p->l.kind == IR_TOK_NAME ? ir_place_by_name(token(p), token_len(p)) : -1;
	if (place >= 0) {
		t->place = (uint8_t)place;
		ir_lex_next(&p->l);
	}
	return true;
}

/* ---- values ---- */

/* A reference as a definition or a use: its key in the table, without "%". */
static bool reference(struct parser *p, const char **s, size_t *n, int64_t *id)
{
	*s = token(p) + 1;
	*n = token_len(p) - 1;
	*id = -1;
	if (p->l.kind != IR_TOK_REF || *n == 0 || **s == '.')
		return fail(p, "a value ('%name' or '%12') expected");
	if (**s < '0' || **s > '9')
		return true;
	*id = 0;
	for (size_t i = 0; i < *n; i++) {
		if ((*s)[i] < '0' || (*s)[i] > '9' || (i && **s == '0'))
			return fail(
			        p,
			        "a value's name begins with a letter, its number has only digits");
		*id = *id * 10 + ((*s)[i] - '0');
		if (*id > MAX_ID)
			return fail(p, "this number is too large here");
	}
	return true;
}

/* The value that is used here; one that is not defined is an error and `nothing`. */
static struct ir_value *use(struct parser *p)
{
	const char *s;
	size_t n;
	int64_t id;
	struct ir_value *v;

	if (!reference(p, &s, &n, &id))
		return NULL;
	v = ir_table_get(&p->values, s, n);
	if (!v) {
		fail(p, "this value is not defined before its use");
		v = p->nothing;
	}
	ir_lex_next(&p->l);
	return v;
}

struct operands {
	struct ir_value **v;
	size_t n, cap;
	int64_t group;
	bool has_group;
};

static bool group_size(struct parser *p, struct operands *o)
{
	o->has_group = true;
	return accept_word(p, "n") && expect(p, '=') && integer(p, 0, INT64_MAX / 16, &o->group);
}

/* [ value { "," value } ] [ "," "n" "=" integer ] */
static bool operands(struct parser *p, struct operands *o)
{
	if (p->l.kind != IR_TOK_REF)
		return true;
	do {
		if (o->n && ir_lex_is(&p->l, "n"))
			return group_size(p, o);
		o->v = arena_grow(p->arena, o->v, o->n, &o->cap, o->n + 1, sizeof(*o->v));
		o->v[o->n] = use(p);
		if (!o->v[o->n++])
			return false;
	} while (accept(p, ','));
	return true;
}

static bool param_name(struct parser *p, unsigned *index)
{
	uintptr_t i;

	if (p->l.kind != IR_TOK_NAME)
		return fail(p, "a parameter expected");
	i = (uintptr_t)ir_table_get(&p->params, token(p), token_len(p));
	if (!i)
		return fail(p, "no parameter has this name");
	*index = (unsigned)(i - 1);
	ir_lex_next(&p->l);
	return true;
}

static bool callee(struct parser *p, struct ir_func **f)
{
	if (p->l.kind != IR_TOK_NAME)
		return fail(p, "a function's name expected");
	*f = ir_table_get(&p->funcs, token(p), token_len(p));
	if (!*f)
		return fail(p, "no function before this one has this name");
	ir_lex_next(&p->l);
	return expect(p, '(');
}

/* The rest of a line behind the operation's name; NULL after an error. */
static struct ir_value *value_tail(struct parser *p, enum ir_op op, struct span at)
{
	const struct ir_op_info *info = &ir_op_info[op];
	bool sink = info->kind == IR_KIND_SINK, call = op == IR_OP_CALL;
	struct operands o = {0};
	struct ir_func *f = NULL;
	struct ir_value *v;
	unsigned param = 0;
	double num = 0;

	if (op == IR_OP_CONST         ? !real(p, &num)
	    : sink || info->nsrc == 0 ? !param_name(p, &param) || (sink && !expect(p, '='))
	                              : call && !callee(p, &f))
		return NULL;
	if ((info->nsrc && !operands(p, &o)) || (call && !expect(p, ')')))
		return NULL;
	if (o.n > UINT16_MAX)
		return fail_at(p, at, "too many operands");
	if (o.has_group != (info->shape == IR_SHAPE_GRP || info->shape == IR_SHAPE_EXPAND))
		return fail_at(p, at,
		               o.has_group ? "this operation has no 'n'" : "', n = ...' expected");
	v = ir_value_new(p->f, op, at, (unsigned)o.n, o.v);
	v->num = num;
	v->param = param;
	v->callee = f;
	v->n = o.group;
	if (sink && o.n)
		v->type = o.v[0]->type;
	return v;
}

/* ": type", or nothing where ir_infer knows it. */
static bool value_type(struct parser *p, struct ir_value *v)
{
	struct ir_type t;
	enum ir_type_error e;
	unsigned bad;

	if (accept(p, ':'))
		return type(p, &v->type);
	if (v->op == IR_OP_CAST)
		return fail(p, "': type' expected");
	if (v->op == IR_OP_LOAD_SUM)
		v->type.dtype = p->f->param[v->param].type.dtype;
	e = ir_infer(p->f, v, &t, &bad);
	if (e)
		return fail_at(p, v->at, ir_type_error_text(p->arena, e, v, bad));
	v->type = t;
	return true;
}

/* Enters the value in view behind "%" as v; its place in the table is held even where v is wrong.
 */
static bool define(struct parser *p, const char *s, size_t n, int64_t id, struct span at,
                   struct ir_value *v)
{
	if (ir_table_get(&p->values, s, n))
		return fail_at(p, at, "a value of this name is defined already");
	ir_table_put(&p->values, s, n, v ? v : p->nothing);
	if (!v)
		return false;
	if (id >= 0)
		v->id = (uint32_t)id;
	else
		v->name = arena_strndup(p->arena, s, n);
	if (id > p->max_id)
		p->max_id = id;
	return true;
}

static int operation(struct parser *p)
{
	int op = p->l.kind == IR_TOK_NAME ? ir_op_by_name(token(p), token_len(p)) : -1;

	if (op < 0)
		fail(p, "an operation expected");
	else
		ir_lex_next(&p->l);
	return op;
}

/* "%name = op ..." or "out y = %name" */
static bool statement(struct parser *p)
{
	struct span at = ir_lex_span(&p->l);
	bool named = p->l.kind == IR_TOK_REF;
	struct ir_value *v = NULL;
	const char *s = NULL;
	size_t n = 0;
	int64_t id = -1;
	int op;

	if (named) {
		if (!reference(p, &s, &n, &id))
			return false;
		ir_lex_next(&p->l);
		if (!expect(p, '='))
			return false;
	}
	op = operation(p);
	if (op >= 0 && named == (ir_op_info[op].kind == IR_KIND_SINK))
		fail_at(p, at, named ? "this operation has no result" : "'%name =' expected");
	else if (op >= 0)
		v = value_tail(p, (enum ir_op)op, at);
	if (v && named && !value_type(p, v))
		v = NULL;
	if (named && !define(p, s, n, id, at, v))
		return false;
	if (v) {
		v->at.end = p->l.src->base + p->l.last;
		ir_append(p->f, v);
	}
	return v != NULL;
}

/* ---- functions ---- */

static bool param(struct parser *p)
{
	static const char *const mode[] = {[IR_IN] = "in", [IR_OUT] = "out", [IR_INOUT] = "inout"};
	struct ir_param q = {0};
	int64_t align = 0;
	int m = IR_IN;

	while (m <= IR_INOUT && !accept_word(p, mode[m]))
		m++;
	if (m > IR_INOUT)
		return fail(p, "'in', 'out' or 'inout' expected");
	q.mode = (enum ir_mode)m;
	q.at = ir_lex_span(&p->l);
	q.name = name(p, "a parameter's name expected");
	if (!q.name || !expect(p, ':') || !type(p, &q.type))
		return false;
	if (accept_word(p, "ld") && !integer(p, 1, INT64_MAX / 16, &q.ld))
		return false;
	if (accept_word(p, "align") && !integer(p, 1, 1 << 20, &align))
		return false;
	q.align = (unsigned)align;
	if (ir_table_get(&p->params, q.name, strlen(q.name)))
		return fail_at(p, q.at, "a parameter of this name is there already");
	ir_table_put(&p->params, q.name, strlen(q.name),
	             (void *)(uintptr_t)(ir_param_add(p->f, q) + 1));
	return true;
}

static bool head(struct parser *p)
{
	bool is_kernel = accept_word(p, "kernel");
	struct span at;
	const char *s;

	if (!is_kernel && !accept_word(p, "fn"))
		return fail(p, "'kernel' or 'fn' expected");
	at = ir_lex_span(&p->l);
	s = name(p, "a function's name expected");
	if (!s || !expect(p, '('))
		return false;
	if (ir_table_get(&p->funcs, s, strlen(s)))
		return fail_at(p, at, "a function of this name is there already");
	p->f = ir_func_new(p->m, s, is_kernel, at);
	ir_table_init(&p->params, p->arena);
	ir_table_init(&p->values, p->arena);
	p->nothing = ir_value_new(p->f, IR_OP_CONST, at, 0, NULL);
	p->nothing->type.cols = 1;
	p->max_id = -1;
	if (p->l.kind != ')')
		do {
			if (!param(p))
				return false;
		} while (accept(p, ','));
	if (!expect(p, ')'))
		return false;
	p->f->deterministic = accept_word(p, "deterministic");
	p->f->rank_divergence = accept_word(p, "rank_divergence");
	p->f->merged_sums = accept_word(p, "merged_sums");
	return expect(p, '{');
}

/* Named values and stores have numbers too: those behind the largest that the text gives. */
static void number(struct parser *p)
{
	int64_t next = p->max_id + 1;

	for (struct ir_value *v = p->f->first; v; v = v->next)
		if (v->name || ir_op_info[v->op].kind == IR_KIND_SINK)
			v->id = (uint32_t)next++;
	p->f->next_id = (uint32_t)next;
}

static bool body(struct parser *p)
{
	uint32_t start;

	while (p->l.kind != '}' && p->l.kind != IR_TOK_END && p->nerror < MAX_ERRORS) {
		if (accept_word(p, "return")) {
			if (p->f->is_kernel)
				return fail(p, "a kernel returns nothing");
			p->f->result = use(p);
			break;
		}
		start = p->l.begin;
		if (statement(p))
			continue;
		while (p->l.begin == start ||
		       (!p->l.first && p->l.kind != IR_TOK_END && p->l.kind != '}'))
			ir_lex_next(&p->l);
	}
	if (!p->f->is_kernel && !p->f->result)
		fail(p, "'return' expected");
	number(p);
	return expect(p, '}');
}

struct ir_module *ir_parse(struct arena *a, struct diags *d, const struct source *src)
{
	struct parser p = {.arena = a, .d = d, .m = ir_module_new(a)};

	ir_table_init(&p.funcs, a);
	ir_lex_init(&p.l, src);
	while (p.l.kind != IR_TOK_END && p.nerror < MAX_ERRORS) {
		if (head(&p) && body(&p)) {
			ir_table_put(&p.funcs, p.f->name, strlen(p.f->name), p.f);
			continue;
		}
		while (p.l.kind != IR_TOK_END &&
		       !(p.l.first && (ir_lex_is(&p.l, "kernel") || ir_lex_is(&p.l, "fn"))))
			ir_lex_next(&p.l);
	}
	return p.nerror ? NULL : p.m;
}
