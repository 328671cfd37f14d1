/* Text in: what a body holds: declarations, blocks, labels, directives.  parse_insn.c reads
 * instructions. */
#include "codegen/ptx/parse.h"
#include <string.h>

/* To behind the next semicolon, or to a brace. */
void ptx_skip_statement(struct ptx_parser *p)
{
	while (p->tok.kind != PTX_TOK_EOF && !ptx_is(p, ';') && !ptx_is(p, '}') && !ptx_is(p, '{'))
		ptx_next(p);
	ptx_accept(p, ';');
}

void ptx_unsupported(struct ptx_parser *p, const char *what)
{
	if (!p->any)
		ptx_err(p, DIAG_PTX_UNSUPPORTED, p->tok.at, "'.%.*s' is not supported%s",
		        (int)p->tok.n, p->tok.s, what);
	ptx_next(p);
	ptx_skip_statement(p);
}

bool ptx_dot(const struct ptx_parser *p, const char *s)
{
	return p->tok.kind == PTX_TOK_DOT && ptx_tok_equals(&p->tok, s);
}

bool ptx_accept_dot(struct ptx_parser *p, const char *s)
{
	if (!ptx_dot(p, s))
		return false;
	ptx_next(p);
	return true;
}

bool ptx_take_type(struct ptx_parser *p, enum ptx_type *t)
{
	*t = p->tok.kind == PTX_TOK_DOT ? ptx_type_by_name(p->tok.s, p->tok.n) : PTX_T_none;
	if (*t == PTX_T_none) {
		if (p->tok.kind == PTX_TOK_DOT)
			ptx_err(p, DIAG_PTX_MODIFIER, p->tok.at, "'.%.*s' is not a type known here",
			        (int)p->tok.n, p->tok.s);
		else
			ptx_expected(p, "a type");
		return false;
	}
	ptx_next(p);
	return true;
}

bool ptx_take_align(struct ptx_parser *p, unsigned *align)
{
	uint64_t v;
	struct span at;

	*align = 0;
	if (!ptx_accept_dot(p, "align"))
		return true;
	at = p->tok.at;
	if (!ptx_take_uint(p, 1024, &v))
		return false;
	if (!v || (v & (v - 1))) {
		ptx_err(p, DIAG_PTX_NUMBER, at, "an alignment is a power of two");
		return false;
	}
	*align = (unsigned)v;
	return true;
}

/* A name that is declared: not a register's. */
bool ptx_take_name(struct ptx_parser *p, struct ptx_token *t)
{
	*t = p->tok;
	if (t->kind != PTX_TOK_WORD || t->s[0] == '%' || ptx_tok_equals(t, "_")) {
		ptx_expected(p, "a name");
		return false;
	}
	ptx_next(p);
	return true;
}

/* ---- declarations ---- */

/* name, name<count> of a .reg */
static bool reg_name(struct ptx_parser *p, enum ptx_class c)
{
	struct ptx_token t = p->tok;
	struct ptx_name *e;
	uint64_t count = 1;
	bool range;

	if (t.kind != PTX_TOK_WORD || ptx_tok_equals(&t, "_")) {
		ptx_expected(p, "a register name");
		return false;
	}
	ptx_next(p);
	range = ptx_accept(p, '<');
	if (range && (!ptx_take_uint(p, PTX_MAX_REGS, &count) || !ptx_expect(p, '>')))
		return false;
	if (p->fn->nreg[c] + count > PTX_MAX_REGS) {
		ptx_err(p, DIAG_PTX_LIMIT, t.at, "there are more than %d registers", PTX_MAX_REGS);
		return false;
	}
	e = ptx_name_add(p, &t, range ? PTX_N_RANGE : PTX_N_REG);
	if (!e)
		return false;
	e->cls = (uint8_t)c;
	e->first = p->fn->nreg[c];
	e->count = (uint32_t)count;
	p->fn->nreg[c] += (uint32_t)count;
	return true;
}

static void regs(struct ptx_parser *p)
{
	enum ptx_type t;
	bool ok;

	ptx_next(p);
	ok = ptx_take_type(p, &t);
	if (ok)
		do
			ok = reg_name(p, ptx_type_info[t].cls);
		while (ok && ptx_accept(p, ','));
	if (ok && ptx_expect(p, ';'))
		return;
	ptx_skip_statement(p);
}

/* [n], [n][m], [] */
bool ptx_take_extents(struct ptx_parser *p, bool open_allowed, uint64_t max, uint64_t *count,
                      bool *array)
{
	struct span at = p->tok.at;
	uint64_t n;

	*count = 1;
	*array = ptx_is(p, '[');
	while (ptx_accept(p, '[')) {
		if (open_allowed && ptx_accept(p, ']')) {
			*count = 0;
			return true;
		}
		if (!ptx_take_uint(p, max, &n) || !ptx_expect(p, ']'))
			return false;
		if (!n || *count > max / n) {
			ptx_err(p, DIAG_PTX_NUMBER, at, "the array has no or too many elements");
			return false;
		}
		*count *= n;
	}
	return true;
}

static void add_var(struct ptx_parser *p, struct ptx_var v, const struct ptx_token *t)
{
	struct arena *a = p->module->arena;
	struct ptx_fn *f = p->fn;
	uint32_t *n = f ? &f->nvar : &p->module->nvar;
	struct ptx_var **list = f ? &f->var : &p->module->var;
	struct ptx_name *e;

	if (*n >= PTX_MAX_PARAMS) {
		ptx_err(p, DIAG_PTX_LIMIT, t->at, "there are more than %d variables",
		        PTX_MAX_PARAMS);
		p->stop = true;
		return;
	}
	if (f &&
	    p->depth > 2) { /* moves to the function: it may not hide, or be taken for, another */
		const struct ptx_name *other = ptx_name_find(p, t->s, t->n);
		bool twice = other != NULL;

		for (uint32_t k = 0; k < f->nvar; k++)
			twice |= strcmp(f->var[k].name, v.name) == 0;
		if (twice) {
			ptx_err(p, DIAG_PTX_TWICE, t->at, "'%s' in a block hides another '%s'",
			        v.name, v.name);
			return;
		}
		p->inner_names = true;
	}
	e = ptx_name_add(p, t, PTX_N_SYM);
	if (!e)
		return;
	e->sym = v.name;
	*list = arena_grow(a, *list, *n, f ? &f->cap_var : &p->module->cap_var, (size_t)*n + 1,
	                   sizeof **list);
	(*list)[(*n)++] = v;
}

/* .shared .align 16 .b8 name[128], ...; the space is the current token */
void ptx_parse_vars(struct ptx_parser *p, bool external)
{
	static const char *const spaces[] = {[PTX_GLOBAL] = "global",
	                                     [PTX_SHARED] = "shared",
	                                     [PTX_CONST] = "const",
	                                     [PTX_LOCAL] = "local"};
	struct ptx_var v = {0};
	struct ptx_token t;
	bool array;

	for (unsigned k = 0; k < sizeof spaces / sizeof spaces[0]; k++)
		if (spaces[k] && ptx_dot(p, spaces[k]))
			v.space = (enum ptx_space)k;
	ptx_next(p);
	if (!ptx_take_align(p, &v.align) || !ptx_take_type(p, &v.type))
		goto bad;
	if (v.type == PTX_T_pred) {
		ptx_err(p, DIAG_PTX_MODIFIER, p->tok.at, "a predicate has no place in memory");
		goto bad;
	}
	do {
		if (!ptx_take_name(p, &t) ||
		    !ptx_take_extents(p, external, UINT32_MAX, &v.count, &array))
			goto bad;
		if (external && v.count && !p->any) {
			ptx_err(p, DIAG_PTX_UNSUPPORTED, t.at,
			        "an external variable is only supported as '.extern .shared "
			        "name[]'");
			goto bad;
		}
		v.name = arena_strndup(p->module->arena, t.s, t.n);
		add_var(p, v, &t);
		if (ptx_is(p, '=')) {
			p->quiet = p->any;
			ptx_err(p, DIAG_PTX_UNSUPPORTED, p->tok.at,
			        "initial values of variables are not supported");
			p->quiet = false;
			while (p->tok.kind != PTX_TOK_EOF && !ptx_is(p, ';'))
				ptx_next(p);
		}
	} while (ptx_accept(p, ','));
	if (ptx_expect(p, ';'))
		return;
bad:
	ptx_skip_statement(p);
}

bool ptx_starts_var(const struct ptx_parser *p)
{
	return ptx_dot(p, "shared") || ptx_dot(p, "global") || ptx_dot(p, "const") ||
	       ptx_dot(p, "local");
}

/* ---- statements of a body ---- */

/* .loc file line column [, function_name ..., inlined_at ...]: no semicolon ends it */
static void loc(struct ptx_parser *p)
{
	uint64_t file, line, col;
	uint32_t at = p->tok.line;

	ptx_next(p);
	if (!ptx_take_uint(p, UINT32_MAX, &file) || !ptx_take_uint(p, UINT32_MAX, &line) ||
	    !ptx_take_uint(p, UINT32_MAX, &col))
		return;
	p->loc_line = file == p->file ? (uint32_t)line : 0;
	p->loc_col = file == p->file ? (uint32_t)col : 0;
	if (ptx_is(p, ','))
		while (p->tok.kind != PTX_TOK_EOF && p->tok.line == at)
			ptx_next(p);
}

/* .pragma "..."; */
void ptx_parse_pragma(struct ptx_parser *p)
{
	ptx_next(p);
	do {
		if (p->tok.kind != PTX_TOK_STRING) {
			ptx_expected(p, "a string");
			ptx_skip_statement(p);
			return;
		}
		ptx_next(p);
	} while (ptx_accept(p, ','));
	ptx_expect(p, ';');
}

static void directive(struct ptx_parser *p)
{
	if (ptx_dot(p, "reg")) {
		regs(p);
	} else if (ptx_starts_var(p)) {
		ptx_parse_vars(p, false);
	} else if (ptx_dot(p, "loc")) {
		loc(p);
	} else if (ptx_dot(p, "pragma")) {
		ptx_parse_pragma(p);
	} else {
		ptx_unsupported(p, " in a body");
	}
}

static void label_or_insn(struct ptx_parser *p)
{
	struct ptx_token t = p->tok;
	const char *s = p->p;

	while (s < p->end && (*s == ' ' || *s == '\t'))
		s++;
	if (s == p->end || *s != ':') {
		ptx_parse_insn(p);
		return;
	}
	ptx_next(p);
	ptx_next(p);
	if (t.s[0] == '%' || ptx_tok_equals(&t, "_") || (t.s[0] == '$' && p->tpl))
		ptx_err(p, DIAG_PTX_SYNTAX, t.at, "'%.*s' cannot be a label", (int)t.n, t.s);
	else
		ptx_label_here(p, &t);
}

void ptx_parse_body(struct ptx_parser *p)
{
	unsigned outer = p->depth;

	while (p->tok.kind != PTX_TOK_EOF && !p->stop) {
		if (ptx_is(p, '{')) {
			if (ptx_block_open(p, p->tok.at))
				ptx_next(p);
		} else if (ptx_is(p, '}')) {
			if (p->depth == outer)
				return;
			ptx_block_close(p);
			ptx_next(p);
		} else if (p->tok.kind == PTX_TOK_DOT) {
			directive(p);
		} else if (p->tok.kind == PTX_TOK_WORD) {
			label_or_insn(p);
		} else if (ptx_is(p, '@')) {
			ptx_parse_insn(p);
		} else if (!ptx_accept(p, ';')) {
			ptx_expected(p, "an instruction");
			ptx_next(p);
			ptx_skip_statement(p);
		}
	}
	if (p->depth > outer && !p->stop)
		ptx_expected(p, "'}'");
	while (p->depth > outer)
		ptx_block_close(p);
}
