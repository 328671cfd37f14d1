/*
 * Text in: modules, entries, declarations.  What the printer writes, and what compilers write for
 * simple kernels; anything else is a diagnostic.
 */
#include "codegen/ptx/parse.h"
#include <string.h>

void ptx_parser_init(struct ptx_parser *p, struct arena *a, struct diags *d,
                     const struct source *src)
{
	memset(p, 0, sizeof *p);
	p->arena = a;
	p->diags = d;
	p->src = src;
	p->p = src->text;
	p->end = src->text + src->len;
	p->line = 1;
	ptx_names_init(p);
	ptx_rows_init(p);
}

/* To behind the next semicolon, or to a brace. */
static void skip_statement(struct ptx_parser *p)
{
	while (p->tok.kind != PTX_TOK_EOF && !ptx_is(p, ';') && !ptx_is(p, '}') && !ptx_is(p, '{'))
		ptx_next(p);
	ptx_accept(p, ';');
}

static void unsupported(struct ptx_parser *p, const char *what)
{
	ptx_err(p, DIAG_PTX_UNSUPPORTED, p->tok.at, "'.%.*s' is not supported%s", (int)p->tok.n,
	        p->tok.s, what);
	ptx_next(p);
	skip_statement(p);
}

static bool dot(const struct ptx_parser *p, const char *s)
{
	return p->tok.kind == PTX_TOK_DOT && ptx_tok_equals(&p->tok, s);
}

static bool accept_dot(struct ptx_parser *p, const char *s)
{
	if (!dot(p, s))
		return false;
	ptx_next(p);
	return true;
}

static bool take_type(struct ptx_parser *p, enum ptx_type *t)
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

static bool take_align(struct ptx_parser *p, unsigned *align)
{
	uint64_t v;
	struct span at;

	*align = 0;
	if (!accept_dot(p, "align"))
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
static bool take_name(struct ptx_parser *p, struct ptx_token *t)
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
	ok = take_type(p, &t);
	if (ok)
		do
			ok = reg_name(p, ptx_type_info[t].cls);
		while (ok && ptx_accept(p, ','));
	if (ok && ptx_expect(p, ';'))
		return;
	skip_statement(p);
}

/* [n], [n][m], [] */
static bool take_extents(struct ptx_parser *p, bool open_allowed, uint64_t max, uint64_t *count,
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
static void vars(struct ptx_parser *p, bool external)
{
	static const char *const spaces[] = {[PTX_GLOBAL] = "global",
	                                     [PTX_SHARED] = "shared",
	                                     [PTX_CONST] = "const",
	                                     [PTX_LOCAL] = "local"};
	struct ptx_var v = {0};
	struct ptx_token t;
	bool array;

	for (unsigned k = 0; k < sizeof spaces / sizeof spaces[0]; k++)
		if (spaces[k] && dot(p, spaces[k]))
			v.space = (enum ptx_space)k;
	ptx_next(p);
	if (!take_align(p, &v.align) || !take_type(p, &v.type))
		goto bad;
	if (v.type == PTX_T_pred) {
		ptx_err(p, DIAG_PTX_MODIFIER, p->tok.at, "a predicate has no place in memory");
		goto bad;
	}
	do {
		if (!take_name(p, &t) || !take_extents(p, external, UINT32_MAX, &v.count, &array))
			goto bad;
		if (external && v.count) {
			ptx_err(p, DIAG_PTX_UNSUPPORTED, t.at,
			        "an external variable is only supported as '.extern .shared "
			        "name[]'");
			goto bad;
		}
		v.name = arena_strndup(p->module->arena, t.s, t.n);
		add_var(p, v, &t);
		if (ptx_is(p, '=')) {
			ptx_err(p, DIAG_PTX_UNSUPPORTED, p->tok.at,
			        "initial values of variables are not supported");
			while (p->tok.kind != PTX_TOK_EOF && !ptx_is(p, ';'))
				ptx_next(p);
		}
	} while (ptx_accept(p, ','));
	if (ptx_expect(p, ';'))
		return;
bad:
	skip_statement(p);
}

static bool starts_var(const struct ptx_parser *p)
{
	return dot(p, "shared") || dot(p, "global") || dot(p, "const") || dot(p, "local");
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
static void pragma(struct ptx_parser *p)
{
	ptx_next(p);
	do {
		if (p->tok.kind != PTX_TOK_STRING) {
			ptx_expected(p, "a string");
			skip_statement(p);
			return;
		}
		ptx_next(p);
	} while (ptx_accept(p, ','));
	ptx_expect(p, ';');
}

static void directive(struct ptx_parser *p)
{
	if (dot(p, "reg")) {
		regs(p);
	} else if (starts_var(p)) {
		vars(p, false);
	} else if (dot(p, "loc")) {
		loc(p);
	} else if (dot(p, "pragma")) {
		pragma(p);
	} else {
		unsupported(p, " in a body");
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
			skip_statement(p);
		}
	}
	if (p->depth > outer && !p->stop)
		ptx_expected(p, "'}'");
	while (p->depth > outer)
		ptx_block_close(p);
}

/* ---- entries ---- */

/* .param [.align n] .type [.ptr [.space] [.align n]] name[count] */
static bool param(struct ptx_parser *p)
{
	struct arena *a = p->module->arena;
	struct ptx_fn *f = p->fn;
	struct ptx_param v = {0};
	struct ptx_token t;
	struct ptx_name *e;
	uint64_t count;
	unsigned unused;
	bool array;

	if (!accept_dot(p, "param")) {
		ptx_expected(p, "'.param'");
		return false;
	}
	if (!take_align(p, &v.align) || !take_type(p, &v.type))
		return false;
	if (accept_dot(p, "ptr")) {
		if (starts_var(p))
			ptx_next(p);
		if (!take_align(p, &unused))
			return false;
	}
	if (!take_name(p, &t) || !take_extents(p, false, 1 << 16, &count, &array))
		return false;
	if (v.type == PTX_T_pred || f->nparam >= PTX_MAX_PARAMS) {
		ptx_err(p, DIAG_PTX_LIMIT, t.at,
		        v.type == PTX_T_pred ? "a parameter is not a predicate"
		                             : "there are too many parameters");
		return false;
	}
	e = ptx_name_add(p, &t, PTX_N_SYM);
	if (!e)
		return false;
	v.count = array ? (uint32_t)count : 0;
	v.name = e->sym = arena_strndup(a, t.s, t.n);
	f->param = arena_grow(a, f->param, f->nparam, &f->cap_param, (size_t)f->nparam + 1,
	                      sizeof *f->param);
	f->param[f->nparam++] = v;
	return true;
}

static bool params(struct ptx_parser *p)
{
	if (!ptx_accept(p, '(') || ptx_accept(p, ')'))
		return true;
	do
		if (!param(p))
			return false;
	while (ptx_accept(p, ','));
	return ptx_expect(p, ')');
}

/* .maxntid x, y, z and .minnctapersm n */
static bool tuning(struct ptx_parser *p)
{
	uint64_t n, product = 1;

	for (;;) {
		if (accept_dot(p, "maxntid")) {
			do {
				if (!ptx_take_uint(p, 1024, &n))
					return false;
				product *= n ? n : 1;
			} while (product <= 1024 && ptx_accept(p, ','));
			p->fn->maxntid = product <= 1024 ? (unsigned)product : 1024;
		} else if (accept_dot(p, "minnctapersm")) {
			if (!ptx_take_uint(p, 64, &n))
				return false;
			p->fn->minctas = (unsigned)n;
		} else if (dot(p, "pragma")) {
			pragma(p);
		} else if (p->tok.kind == PTX_TOK_DOT) {
			unsupported(p, " before a body");
			return false;
		} else {
			return true;
		}
	}
}

static void skip_braces(struct ptx_parser *p)
{
	unsigned depth = 0;

	do {
		depth += ptx_is(p, '{');
		depth -= ptx_is(p, '}') && depth;
		ptx_next(p);
	} while (depth && p->tok.kind != PTX_TOK_EOF);
	if (depth)
		ptx_expected(p, "'}'");
}

static void entry(struct ptx_parser *p)
{
	struct ptx_token t;
	bool ok;

	ptx_next(p);
	if (!take_name(p, &t)) {
		skip_statement(p);
		return;
	}
	if (p->total_fns++ >= PTX_MAX_FNS) {
		ptx_err(p, DIAG_PTX_LIMIT, t.at, "there are more than %d entries", PTX_MAX_FNS);
		p->stop = true;
		return;
	}
	p->fn = ptx_fn_new(p->module, arena_strndup(p->arena, t.s, t.n));
	p->fn->line = t.line;
	p->loc_line = p->loc_col = 0;
	ptx_name_add(
	        p, &t,
	        PTX_N_ENTRY); /* so that a second one is found; nothing in a body can mean it */
	ptx_block_open(p, t.at);
	ok = params(p) && tuning(p) && ptx_expect(p, '{');
	if (ok) {
		ptx_parse_body(p);
		if (!p->stop)
			ptx_expect(p, '}');
		ptx_labels_finish(p);
	} else {
		while (p->tok.kind != PTX_TOK_EOF && !ptx_is(p, '{'))
			ptx_next(p);
		skip_braces(p);
	}
	ptx_block_close(p);
	p->fn = NULL;
}

/* ---- modules ---- */

static void version(struct ptx_parser *p)
{
	const struct ptx_token *t = &p->tok;
	unsigned v = 0;
	bool ok = t->kind == PTX_TOK_NUM && t->n <= 5 && t->n >= 3 && t->s[t->n - 2] == '.';

	for (uint32_t k = 0; ok && k < t->n; k++)
		if (k != t->n - 2) {
			ok = t->s[k] >= '0' && t->s[k] <= '9';
			v = v * 10 + (unsigned)(t->s[k] - '0');
		}
	if (!ok) {
		ptx_expected(p, "a version such as 8.1");
		return;
	}
	p->module->version = v;
	ptx_next(p);
}

/* sm_NN, sm_NNa, sm_NNf; what follows a comma (texmode, debug) is skipped */
static void target(struct ptx_parser *p)
{
	struct ptx_token t = p->tok;
	unsigned sm = 0;
	char suffix = 0;

	if (t.kind != PTX_TOK_WORD) {
		ptx_expected(p, "a target such as sm_90");
		return;
	}
	for (uint32_t k = 3; k < t.n && k < 7; k++)
		if (t.s[k] >= '0' && t.s[k] <= '9')
			sm = sm * 10 + (unsigned)(t.s[k] - '0');
		else
			suffix = t.s[k];
	if (t.n < 5 || t.n > 7 || memcmp(t.s, "sm_", 3) != 0 || !ptx_target_version(sm, suffix))
		ptx_err(p, DIAG_PTX_TARGET, t.at, "the target '%.*s' is not known", (int)t.n, t.s);
	p->module->sm = sm;
	p->module->sm_suffix = suffix;
	do
		ptx_next(p);
	while (ptx_accept(p, ',') && p->tok.kind == PTX_TOK_WORD);
}

/* .file n "name" [, time, size] */
static void file(struct ptx_parser *p)
{
	uint64_t n, v;

	if (!ptx_take_uint(p, UINT32_MAX, &n))
		return;
	if (p->tok.kind != PTX_TOK_STRING) {
		ptx_expected(p, "a file name");
		return;
	}
	if (!p->module->loc_file) {
		p->file = (unsigned)n;
		p->module->loc_file = arena_strndup(p->arena, p->tok.s, p->tok.n);
	}
	ptx_next(p);
	for (unsigned k = 0; k < 2 && ptx_accept(p, ','); k++)
		if (!ptx_take_uint(p, UINT64_MAX, &v))
			return;
}

static void address_size(struct ptx_parser *p)
{
	struct span at = p->tok.at;
	uint64_t n;

	if (ptx_take_uint(p, 64, &n) && n != 64)
		ptx_err(p, DIAG_PTX_UNSUPPORTED, at, "only '.address_size 64' is supported");
}

static void linked(struct ptx_parser *p, bool external)
{
	if (dot(p, "entry") && !external)
		entry(p);
	else if (starts_var(p))
		vars(p, external);
	else if (p->tok.kind == PTX_TOK_DOT)
		unsupported(p, " here: only entries and variables are");
	else
		ptx_expected(p, "'.entry' or a variable");
}

static void module_statement(struct ptx_parser *p)
{
	if (accept_dot(p, "version"))
		version(p);
	else if (accept_dot(p, "target"))
		target(p);
	else if (accept_dot(p, "address_size"))
		address_size(p);
	else if (accept_dot(p, "file"))
		file(p);
	else if (accept_dot(p, "visible") || accept_dot(p, "weak"))
		linked(p, false);
	else if (accept_dot(p, "extern"))
		linked(p, true);
	else if (dot(p, "entry") || starts_var(p))
		linked(p, false);
	else if (dot(p, "pragma"))
		pragma(p);
	else if (accept_dot(p, "section")) {
		while (p->tok.kind != PTX_TOK_EOF && !ptx_is(p, '{'))
			ptx_next(p);
		skip_braces(p);
	} else if (p->tok.kind == PTX_TOK_DOT) {
		unsupported(p, "");
		if (ptx_is(p, '{'))
			skip_braces(p);
	} else if (!ptx_accept(p, ';')) {
		ptx_expected(p, "a directive");
		ptx_next(p);
		skip_statement(p);
		if (ptx_is(p, '{'))
			skip_braces(p);
	}
}

struct ptx_module *ptx_parse(struct arena *a, struct diags *d, const struct source *src)
{
	struct ptx_parser p;
	struct strbuf header;
	struct ptx_module *m = ptx_module_new(a, 0, 0, 0);
	unsigned before = d->nerror;

	ptx_parser_init(&p, a, d, src);
	p.module = m;
	strbuf_init(&header, a);
	p.header = &header;
	ptx_next(&p);
	while (header.n && header.s[header.n - 1] == '\n')
		header.s[--header.n] = 0;
	m->header = header.n ? header.s : NULL;
	if (!dot(&p, "version")) {
		ptx_expected(&p, "'.version': PTX starts with it");
		return NULL;
	}
	while (p.tok.kind != PTX_TOK_EOF && !p.stop)
		module_statement(&p);
	if (!m->sm && d->nerror == before)
		ptx_err(&p, DIAG_PTX_TARGET, p.tok.at, "there is no '.target'");
	for (struct ptx_fn *f = m->fn; f; f = f->next)
		ptx_param_layout(f);
	return d->nerror == before ? m : NULL;
}
