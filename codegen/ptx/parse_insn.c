/*
 * Instructions.  The first word of a mnemonic selects rows; each row's spelling is walked against
 * the parts behind it, the operands are read, and the first row that both fit is it.
 */
#include "codegen/ptx/parse.h"
#include "support/hash.h"
#include <string.h>

struct operands {
	struct ptx_opnd o[PTX_MAX_OPNDS + 1];
	struct ptx_token hole[PTX_MAX_OPNDS + 1]; /* n > 0: what stood there was this hole */
	bool bar[PTX_MAX_OPNDS + 1];              /* written after | */
	struct span at[PTX_MAX_OPNDS + 1];
	unsigned n;
};

struct mnemonic {
	struct ptx_token part[PTX_MAX_PARTS];
	unsigned n;
	struct span at;
};

static unsigned row_bucket(const char *s, size_t n)
{
	return (unsigned)(hash_bytes(HASH_INIT, s, n) % PTX_ROW_BUCKETS);
}

static size_t first_word(const char *spelling)
{
	return strcspn(spelling, ".%");
}

void ptx_rows_init(struct ptx_parser *p)
{
	for (unsigned op = PTX_NOPS; op-- > 0;) {
		const char *s = ptx_insn_info[op].spelling;
		uint8_t *b = &p->row_first[row_bucket(s, first_word(s))];

		p->row_next[op] = *b;
		*b = (uint8_t)(op + 1);
	}
}

/* ---- mnemonics ---- */

enum ptx_type ptx_type_by_name(const char *s, size_t n)
{
	for (unsigned t = 0; t < PTX_NTYPES; t++)
		if (strlen(ptx_type_info[t].text) == n && memcmp(ptx_type_info[t].text, s, n) == 0)
			return (enum ptx_type)t;
	return PTX_T_none;
}

/* Matches one letter; *at moves past what it takes. */
static bool match_letter(char c, const struct ptx_insn_info *row, const struct mnemonic *m,
                         unsigned *at, struct ptx_insn *i)
{
	const struct ptx_token *t = *at < m->n ? &m->part[*at] : NULL;
	const struct ptx_letter *l;
	enum ptx_type type;

	if (c == 't' || c == 'u') {
		type = t ? ptx_type_by_name(t->s, t->n) : PTX_T_none;
		if (type == PTX_T_none || (c == 't' && !(row->types >> type & 1)))
			return false;
		*(c == 't' ? &i->type : &i->mod.type2) = (uint8_t)type;
		++*at;
		return true;
	}
	l = ptx_letter_find(c);
	if (c == 'p' && t && ptx_tok_equals(t, "shared::cta")) { /* another spelling of .shared */
		i->mod.space = PTX_SHARED;
		++*at;
		return true;
	}
	for (unsigned v = 0; t && v < l->count; v++)
		if (l->names[v] && ptx_tok_equals(t, l->names[v] + 1)) {
			ptx_mod_set(&i->mod, l, v);
			++*at;
			return true;
		}
	return l->optional;
}

/* Matches the parts to a row's spelling; *at says how many of them fitted. */
static bool match_row(enum ptx_op op, const struct mnemonic *m, struct ptx_insn *i, unsigned *at)
{
	const struct ptx_insn_info *row = &ptx_insn_info[op];
	const char *s = row->spelling;

	*i = (struct ptx_insn){.op = (uint16_t)op, .type = PTX_T_none, .mod.type2 = PTX_T_none};
	*at = 0;
	while (*s) {
		size_t n;

		if (*s == '.') {
			s++;
			continue;
		}
		if (*s == '%') {
			if (!match_letter(s[1], row, m, at, i))
				return false;
			s += 2;
			continue;
		}
		n = first_word(s);
		if (*at >= m->n || m->part[*at].n != n || memcmp(m->part[*at].s, s, n) != 0)
			return false;
		++*at;
		s += n;
	}
	return *at == m->n;
}

static bool is_spelt(char letter, const struct ptx_token *t)
{
	const struct ptx_letter *l = ptx_letter_find(letter);

	for (unsigned v = 1; v < l->count; v++)
		if (l->names[v] && ptx_tok_equals(t, l->names[v] + 1))
			return true;
	return false;
}

/* Compilers write atom.global.sys.add where the document has atom.sys.global.add. */
static void scope_before_space(struct mnemonic *m)
{
	for (unsigned k = 1; k + 1 < m->n; k++)
		if (is_spelt('p', &m->part[k]) && is_spelt('s', &m->part[k + 1])) {
			struct ptx_token space = m->part[k];

			m->part[k] = m->part[k + 1];
			m->part[k + 1] = space;
		}
}

static bool read_mnemonic(struct ptx_parser *p, struct mnemonic *m)
{
	if (p->tok.kind != PTX_TOK_WORD) {
		ptx_expected(p, "an instruction");
		return false;
	}
	m->at = p->tok.at;
	m->n = 0;
	do {
		if (m->n == PTX_MAX_PARTS) {
			ptx_err(p, DIAG_PTX_MODIFIER, p->tok.at,
			        "an instruction has at most %d parts", PTX_MAX_PARTS);
			return false;
		}
		m->part[m->n++] = p->tok;
		m->at.end = p->tok.at.end;
		ptx_next(p);
	} while (p->tok.kind == PTX_TOK_DOT);
	if (ptx_tok_equals(&m->part[0], "atom") || ptx_tok_equals(&m->part[0], "red"))
		scope_before_space(m);
	return true;
}

static void unknown_instruction(struct ptx_parser *p, const struct mnemonic *m)
{
	const char *names[PTX_NOPS], *near;
	const struct ptx_token *t = &m->part[0];

	if (p->quiet)
		return;
	ptx_err(p, DIAG_PTX_INSN, t->at, "the instruction '%.*s' is not known", (int)t->n, t->s);
	for (unsigned op = 0; op < PTX_NOPS; op++)
		names[op] = arena_strndup(p->arena, ptx_insn_info[op].spelling,
		                          first_word(ptx_insn_info[op].spelling));
	near = t->n < 32 ? nearest_name(arena_strndup(p->arena, t->s, t->n), names, PTX_NOPS)
	                 : NULL;
	if (near)
		diag_note(p->diags, (struct span){0, 0}, "did you mean '%s'?", near);
}

static void wrong_modifier(struct ptx_parser *p, const struct mnemonic *m, unsigned fitted,
                           unsigned op)
{
	const struct ptx_token *t = &m->part[fitted];

	if (p->quiet)
		return;
	if (fitted < m->n)
		ptx_err(p, DIAG_PTX_MODIFIER, t->at, "'.%.*s' does not fit '%.*s' here", (int)t->n,
		        t->s, (int)m->part[0].n, m->part[0].s);
	else
		ptx_err(p, DIAG_PTX_MODIFIER, m->at, "'%.*s' lacks a modifier or its type",
		        (int)m->part[0].n, m->part[0].s);
	diag_note(p->diags, (struct span){0, 0}, "it is spelt %s (doc/ptx.md explains the letters)",
	          ptx_insn_info[op].spelling);
}

/* ---- operands ---- */

static bool operand_name(struct ptx_parser *p, struct ptx_opnd *o)
{
	struct ptx_token t = p->tok;
	const struct ptx_name *e;

	if (ptx_tok_equals(&t, "_")) {
		*o = (struct ptx_opnd){
		        .kind = PTX_REG, .cls = PTX_C_B32, .n = 1, .reg = {PTX_SINK}};
		ptx_next(p);
		return true;
	}
	if (t.s[0] == '$' && p->tpl) {
		*o = ptx_hole(p, &t);
		ptx_next(p);
		return o->kind != PTX_NONE;
	}
	if (ptx_name_reg(p, t.s, t.n, o)) {
		ptx_next(p);
		return true;
	}
	ptx_next(p);
	if (t.s[0] == '%' && p->tok.kind == PTX_TOK_DOT && p->tok.at.begin == t.at.end) {
		t.n += 1 + p->tok.n;
		t.at.end = p->tok.at.end;
		ptx_next(p);
	}
	for (unsigned k = 0; t.s[0] == '%' && k < PTX_NSPECIALS; k++)
		if (ptx_tok_equals(&t, ptx_special_name[k])) {
			*o = ptx_spec((enum ptx_special)k);
			return true;
		}
	if (ptx_tok_equals(&t, "WARP_SZ")) {
		*o = ptx_imm(32);
		return true;
	}
	e = ptx_name_find(p, t.s, t.n);
	if (e && e->kind == PTX_N_SYM) {
		*o = (struct ptx_opnd){.kind = PTX_SYM, .cls = PTX_C_B64, .sym = e->sym};
		return true;
	}
	ptx_err(p, DIAG_PTX_NAME, t.at, "%s '%.*s' is not declared",
	        t.s[0] == '%' ? "the register" : "the name", (int)t.n, t.s);
	return false;
}

static bool operand_number(struct ptx_parser *p, bool negative, struct ptx_opnd *o)
{
	struct ptx_token t = p->tok;
	uint64_t v;
	uint8_t cls;

	if (t.kind != PTX_TOK_NUM) {
		ptx_expected(p, "a number");
		return false;
	}
	if (!ptx_number(p, &t, &v, &cls))
		return false;
	if (negative && (cls != PTX_C_B64 || v > (uint64_t)INT64_MAX + 1)) {
		ptx_err(p, DIAG_PTX_NUMBER, t.at,
		        "this cannot be negated: write the sign in the number");
		return false;
	}
	ptx_next(p);
	*o = (struct ptx_opnd){.kind = PTX_IMM, .cls = cls, .imm = (int64_t)(negative ? -v : v)};
	return true;
}

/* { r, r, _, r } */
static bool operand_vector(struct ptx_parser *p, struct ptx_opnd *o)
{
	struct ptx_opnd v = {.kind = PTX_VEC};
	struct span open = p->tok.at;
	bool sunk = true;

	ptx_next(p);
	do {
		struct ptx_opnd e;
		struct span at = p->tok.at;

		if (p->tok.kind != PTX_TOK_WORD) {
			ptx_expected(p, "a register");
			return false;
		}
		if (!operand_name(p, &e))
			return false;
		if (e.kind != PTX_REG || v.n == 8) {
			ptx_err(p, DIAG_PTX_OPERAND, at, "a vector is of 1 to 8 registers");
			return false;
		}
		if (e.reg[0] != PTX_SINK && !sunk && e.cls != v.cls) {
			ptx_err(p, DIAG_PTX_OPERAND, at,
			        "the registers of a vector are of one class");
			return false;
		}
		if (e.reg[0] != PTX_SINK) {
			v.cls = e.cls;
			sunk = false;
		}
		v.reg[v.n++] = e.reg[0];
	} while (ptx_accept(p, ','));
	if (sunk) {
		ptx_err(p, DIAG_PTX_OPERAND, open, "a vector has at least one register");
		return false;
	}
	*o = v;
	return ptx_expect(p, '}');
}

/* [ base ], [ base + n ], [ base - n ], [ base + -n ] */
static bool operand_address(struct ptx_parser *p, struct ptx_opnd *o)
{
	struct ptx_opnd base, off = {0};
	struct span at;
	bool plus, minus;

	ptx_next(p);
	at = p->tok.at;
	if (p->tok.kind != PTX_TOK_WORD) {
		ptx_expected(p, "a register or a variable");
		return false;
	}
	if (!operand_name(p, &base))
		return false;
	if ((base.kind != PTX_REG && base.kind != PTX_SYM && base.kind != PTX_MEM) ||
	    (base.kind == PTX_REG && base.reg[0] == PTX_SINK)) {
		ptx_err(p, DIAG_PTX_OPERAND, at, "an address starts with a register or a variable");
		return false;
	}
	plus = ptx_accept(p, '+');
	minus = ptx_accept(p, '-');
	if (plus || minus) {
		at = p->tok.at;
		if (p->tok.kind == PTX_TOK_WORD && p->tok.s[0] == '$' && p->tpl) {
			if (!operand_name(p, &off))
				return false;
			if (minus)
				off.imm = (int64_t) - (uint64_t)off.imm;
		} else if (!operand_number(p, minus, &off)) {
			return false;
		}
		if (off.kind != PTX_IMM || off.cls != PTX_C_B64) {
			ptx_err(p, DIAG_PTX_OPERAND, at, "an offset is an integer");
			return false;
		}
	}
	base.imm = base.kind == PTX_MEM ? base.imm : 0;
	base.imm = (int64_t)((uint64_t)base.imm + (uint64_t)off.imm);
	base.kind = PTX_MEM;
	*o = base;
	return ptx_expect(p, ']');
}

static bool operand(struct ptx_parser *p, bool label, struct ptx_opnd *o)
{
	struct ptx_token t = p->tok;

	if (ptx_is(p, '['))
		return operand_address(p, o);
	if (ptx_is(p, '{'))
		return operand_vector(p, o);
	if (ptx_accept(p, '-'))
		return operand_number(p, true, o);
	if (p->tok.kind == PTX_TOK_NUM)
		return operand_number(p, false, o);
	if (label && p->tok.kind == PTX_TOK_WORD && !(t.s[0] == '$' && p->tpl)) {
		ptx_next(p);
		*o = ptx_label_use(p, &t);
		return o->kind != PTX_NONE;
	}
	if (ptx_accept(p, '!')) {
		if (p->tok.kind != PTX_TOK_WORD || !operand_name(p, o) || o->kind != PTX_REG ||
		    o->cls != PTX_C_PRED) {
			ptx_err(p, DIAG_PTX_OPERAND, t.at,
			        "'!' stands before a predicate register");
			return false;
		}
		o->negated = !o->negated;
		return true;
	}
	if (p->tok.kind == PTX_TOK_WORD)
		return operand_name(p, o);
	ptx_expected(p, "an operand");
	return false;
}

static bool read_operands(struct ptx_parser *p, bool label, struct operands *list)
{
	bool bar = false;

	list->n = 0;
	if (ptx_is(p, ';'))
		return true;
	for (;;) {
		unsigned k = list->n;

		if (k > PTX_MAX_OPNDS - 1) {
			ptx_err(p, DIAG_PTX_OPERAND, p->tok.at,
			        "an instruction has at most %d operands", PTX_MAX_OPNDS);
			return false;
		}
		list->at[k] = p->tok.at;
		list->bar[k] = bar;
		list->hole[k] = p->tok.kind == PTX_TOK_WORD && p->tok.s[0] == '$'
		                        ? p->tok
		                        : (struct ptx_token){0};
		if (!operand(p, label, &list->o[k]))
			return false;
		list->n++;
		bar = ptx_is(p, '|');
		if (!ptx_accept(p, '|') && !ptx_accept(p, ','))
			return true;
	}
}

/* Puts operands at the places of the row's shape; false: they do not fit. */
static bool fit_shape(struct ptx_insn *i, const struct operands *list)
{
	const char *shape = ptx_shape((enum ptx_op)i->op);
	unsigned n = 0, k = 0;

	for (; shape[k] && k < PTX_MAX_OPNDS; k++) {
		bool second = shape[k] == 'q';

		i->o[k] = (struct ptx_opnd){0};
		if (n < list->n && list->bar[n] == second)
			i->o[k] = list->o[n++];
		else if (!second)
			return false;
	}
	i->nopnd = (uint8_t)k;
	return n == list->n;
}

static unsigned least_operands(enum ptx_op op)
{
	const char *shape = ptx_shape(op);

	return (unsigned)(strlen(shape) - (strchr(shape, 'q') != NULL));
}

/* ---- an instruction ---- */

static bool read_guard(struct ptx_parser *p, struct ptx_insn *guard)
{
	struct ptx_opnd o;
	struct span at;

	if (!ptx_accept(p, '@'))
		return true;
	guard->guard_not = ptx_accept(p, '!');
	at = p->tok.at;
	if (p->tok.kind != PTX_TOK_WORD) {
		ptx_expected(p, "a predicate register");
		return false;
	}
	if (!operand_name(p, &o))
		return false;
	if (o.kind != PTX_REG || o.cls != PTX_C_PRED || o.reg[0] == PTX_SINK) {
		ptx_err(p, DIAG_PTX_OPERAND, at, "a guard is a predicate register");
		return false;
	}
	guard->guard = o.reg[0] + 1;
	guard->guard_not = guard->guard_not != o.negated;
	return true;
}

static void append(struct ptx_parser *p, const struct ptx_insn *i)
{
	struct ptx_fn *f = p->fn;

	if (p->total_insns++ >= PTX_MAX_INSNS) {
		ptx_err(p, DIAG_PTX_LIMIT, i->at, "there are more than %d instructions",
		        PTX_MAX_INSNS);
		p->stop = true;
		return;
	}
	f->insn = arena_grow(f->module->arena, f->insn, f->ninsn, &f->cap_insn,
	                     (size_t)f->ninsn + 1, sizeof *f->insn);
	f->insn[f->ninsn++] = *i;
}

/* Templates are checked at once, while the holes are known by name. */
static void check_expanded(struct ptx_parser *p, const struct operands *list)
{
	const struct ptx_insn *i = &p->fn->insn[p->fn->ninsn - 1];

	if (ptx_verify_insn(p->fn, i, p->diags))
		return;
	for (unsigned k = 0; k < list->n; k++)
		if (list->hole[k].n)
			diag_note(p->diags, (struct span){0, 0}, "'%.*s' was given by the caller",
			          (int)list->hole[k].n, list->hole[k].s);
}

/* The row that mnemonic and operands fit, in *best; false, reported, when there is none. */
static bool choose_row(struct ptx_parser *p, const struct mnemonic *m, struct operands *list,
                       struct ptx_insn *best)
{
	const struct ptx_token *word = &m->part[0];
	uint8_t rows[PTX_NOPS];
	unsigned n = 0, fitted = 0, nearest = PTX_NOPS, at;
	struct ptx_insn i;

	for (unsigned r = p->row_first[row_bucket(word->s, word->n)]; r; r = p->row_next[r - 1]) {
		bool ok = match_row((enum ptx_op)(r - 1), m, &i, &at);

		if (ok)
			rows[n++] = (uint8_t)(r - 1);
		else if (at > fitted) {
			fitted = at;
			nearest = r - 1;
		}
	}
	if (!n) {
		if (nearest == PTX_NOPS)
			unknown_instruction(p, m);
		else
			wrong_modifier(p, m, fitted, nearest);
		return false;
	}
	if (!read_operands(p, strchr(ptx_shape((enum ptx_op)rows[0]), 'L') != NULL, list))
		return false;
	for (unsigned k = 0; k < n; k++) {
		match_row((enum ptx_op)rows[k], m, best, &at);
		if (fit_shape(best, list))
			return true;
	}
	ptx_err(p, DIAG_PTX_OPERAND, m->at, "'%.*s' takes %u operands, not %u", (int)word->n,
	        word->s, least_operands((enum ptx_op)rows[0]), list->n);
	return false;
}

/* ---- of other compilers (ptx_parse_any) ---- */

/* Cache operators and hints say nothing about what is read or written. */
static void drop_cache_hints(struct mnemonic *m)
{
	static const char *const words[] = {"ca", "cg", "cs", "lu", "cv", "wb", "wt"};
	unsigned n = 1;

	if (!ptx_tok_equals(&m->part[0], "ld") && !ptx_tok_equals(&m->part[0], "st"))
		return;
	for (unsigned k = 1; k < m->n; k++) {
		const struct ptx_token *t = &m->part[k];
		bool hint = t->n > 4 && t->s[0] == 'L' && t->s[2] == ':';

		for (unsigned w = 0; w < sizeof words / sizeof words[0]; w++)
			hint |= ptx_tok_equals(t, words[w]);
		if (!hint)
			m->part[n++] = *t;
	}
	m->n = n;
}

/* The registers that stand before the semicolon. */
static void opaque(struct ptx_parser *p, const struct mnemonic *m, struct ptx_insn *i)
{
	struct ptx_opnd o;
	unsigned depth = 0;

	*i = (struct ptx_insn){.op = PTX_OPAQUE, .type = PTX_T_none, .mod.type2 = PTX_T_none};
	i->opaque = arena_strndup(p->arena, p->src->text + (m->at.begin - p->src->base),
	                          m->at.end - m->at.begin);
	while (p->tok.kind != PTX_TOK_EOF && !ptx_is(p, ';') && (depth || !ptx_is(p, '}'))) {
		depth += ptx_is(p, '{');
		depth -= ptx_is(p, '}');
		if (p->tok.kind == PTX_TOK_WORD && i->nopnd < PTX_MAX_OPNDS &&
		    ptx_name_reg(p, p->tok.s, p->tok.n, &o))
			i->o[i->nopnd++] = o;
		ptx_next(p);
	}
}

/* As the table has it; else, where that is allowed, opaque. */
static bool read_insn(struct ptx_parser *p, struct mnemonic *m, struct operands *list,
                      struct ptx_insn *i)
{
	const char *at = p->p;
	struct ptx_token tok = p->tok;
	uint32_t line = p->line;
	bool ok;

	if (!p->any)
		return choose_row(p, m, list, i);
	drop_cache_hints(m);
	p->quiet = true;
	ok = choose_row(p, m, list, i) && ptx_is(p, ';');
	p->quiet = false;
	if (ok)
		return true;
	p->p = at;
	p->tok = tok;
	p->line = line;
	opaque(p, m, i);
	return true;
}

void ptx_parse_insn(struct ptx_parser *p)
{
	struct span start = p->tok.at;
	uint32_t line = p->tok.line;
	struct ptx_insn guard = {0}, i;
	struct mnemonic m;
	struct operands list;

	if (!read_guard(p, &guard) || !read_mnemonic(p, &m) || !read_insn(p, &m, &list, &i))
		goto bad;
	i.guard = guard.guard;
	i.guard_not = guard.guard_not;
	i.line = line;
	i.at = (struct span){start.begin,
	                     p->tok.at.begin > start.end ? p->tok.at.begin : start.end};
	i.loc_line = p->loc_line;
	i.loc_col = p->loc_col;
	if (!ptx_is(p, ';')) {
		ptx_expected(p, "';'");
		goto bad;
	}
	append(p, &i);
	p->comment_ends_insn = !p->stop;
	if (p->tpl && !p->stop)
		check_expanded(p, &list);
	ptx_next(p);
	return;
bad:
	while (!p->stop && p->tok.kind != PTX_TOK_EOF && !ptx_is(p, ';') && !ptx_is(p, '}'))
		ptx_next(p);
	ptx_accept(p, ';');
}
