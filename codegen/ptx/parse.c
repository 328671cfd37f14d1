/*
 * Text in: modules and entries.  What the printer writes, and what compilers write for
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

	if (!ptx_accept_dot(p, "param")) {
		ptx_expected(p, "'.param'");
		return false;
	}
	if (!ptx_take_align(p, &v.align) || !ptx_take_type(p, &v.type))
		return false;
	if (ptx_accept_dot(p, "ptr")) {
		if (ptx_starts_var(p))
			ptx_next(p);
		if (!ptx_take_align(p, &unused))
			return false;
	}
	if (!ptx_take_name(p, &t) || !ptx_take_extents(p, false, 1 << 16, &count, &array))
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
		if (ptx_accept_dot(p, "maxntid")) {
			do {
				if (!ptx_take_uint(p, 1024, &n))
					return false;
				product *= n ? n : 1;
			} while (product <= 1024 && ptx_accept(p, ','));
			p->fn->maxntid = product <= 1024 ? (unsigned)product : 1024;
		} else if (ptx_accept_dot(p, "minnctapersm")) {
			if (!ptx_take_uint(p, 64, &n))
				return false;
			p->fn->minctas = (unsigned)n;
		} else if (ptx_dot(p, "pragma")) {
			ptx_parse_pragma(p);
		} else if (p->tok.kind == PTX_TOK_DOT && p->any) {
			do
				ptx_next(p);
			while (p->tok.kind == PTX_TOK_NUM || ptx_is(p, ','));
		} else if (p->tok.kind == PTX_TOK_DOT) {
			ptx_unsupported(p, " before a body");
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
	if (ptx_is(p, '(')) /* what a .func returns */
		while (p->tok.kind != PTX_TOK_EOF && !ptx_accept(p, ')'))
			ptx_next(p);
	if (!ptx_take_name(p, &t)) {
		ptx_skip_statement(p);
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
	p->quiet = p->any; /* a .func may be declared before it is defined */
	ptx_name_add(
	        p, &t,
	        PTX_N_ENTRY); /* so that a second one is found; nothing in a body can mean it */
	p->quiet = false;
	ptx_block_open(p, t.at);
	ok = params(p) && tuning(p);
	if (ok && p->any && ptx_accept(p, ';')) { /* declared only */
		ptx_block_close(p);
		p->fn = NULL;
		return;
	}
	ok = ok && ptx_expect(p, '{');
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
	if (p->any && t.n >= 4 && memcmp(t.s, "sm_", 3) == 0) {
		/* a later target than we know */
	} else if (t.n < 5 || t.n > 7 || memcmp(t.s, "sm_", 3) != 0 ||
	           !ptx_target_version(sm, suffix))
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
	if ((ptx_dot(p, "entry") && !external) || (ptx_dot(p, "func") && p->any))
		entry(p);
	else if (ptx_starts_var(p))
		ptx_parse_vars(p, external);
	else if (p->tok.kind == PTX_TOK_DOT)
		ptx_unsupported(p, " here: only entries and variables are");
	else
		ptx_expected(p, "'.entry' or a variable");
}

static void module_statement(struct ptx_parser *p)
{
	if (ptx_accept_dot(p, "version"))
		version(p);
	else if (ptx_accept_dot(p, "target"))
		target(p);
	else if (ptx_accept_dot(p, "address_size"))
		address_size(p);
	else if (ptx_accept_dot(p, "file"))
		file(p);
	else if (ptx_accept_dot(p, "visible") || ptx_accept_dot(p, "weak"))
		linked(p, false);
	else if (ptx_accept_dot(p, "extern"))
		linked(p, true);
	else if (ptx_dot(p, "entry") || ptx_dot(p, "func") || ptx_starts_var(p))
		linked(p, false);
	else if (ptx_dot(p, "pragma"))
		ptx_parse_pragma(p);
	else if (ptx_accept_dot(p, "section")) {
		while (p->tok.kind != PTX_TOK_EOF && !ptx_is(p, '{'))
			ptx_next(p);
		skip_braces(p);
	} else if (p->tok.kind == PTX_TOK_DOT) {
		ptx_unsupported(p, "");
		if (ptx_is(p, '{'))
			skip_braces(p);
	} else if (!ptx_accept(p, ';')) {
		ptx_expected(p, "a directive");
		ptx_next(p);
		ptx_skip_statement(p);
		if (ptx_is(p, '{'))
			skip_braces(p);
	}
}

static struct ptx_module *parse(struct arena *a, struct diags *d, const struct source *src,
                                bool any)
{
	struct ptx_parser p;
	struct strbuf header;
	struct ptx_module *m = ptx_module_new(a, 0, 0, 0);
	unsigned before = d->nerror;

	ptx_parser_init(&p, a, d, src);
	p.any = any;
	p.module = m;
	strbuf_init(&header, a);
	p.header = &header;
	ptx_next(&p);
	while (header.n && header.s[header.n - 1] == '\n')
		header.s[--header.n] = 0;
	m->header = header.n ? header.s : NULL;
	if (!ptx_dot(&p, "version")) {
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

struct ptx_module *ptx_parse(struct arena *a, struct diags *d, const struct source *src)
{
	return parse(a, d, src, false);
}

struct ptx_module *ptx_parse_any(struct arena *a, struct diags *d, const struct source *src)
{
	return parse(a, d, src, true);
}
