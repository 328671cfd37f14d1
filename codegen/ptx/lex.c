/* Tokens of PTX text, and the parser's reports. */
#include "codegen/ptx/parse.h"
#include <string.h>

static bool word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$';
}

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

static struct span span_of(const struct ptx_parser *p, const char *begin, const char *end)
{
	uint32_t base = p->src->base;

	return (struct span){base + (uint32_t)(begin - p->src->text),
	                     base + (uint32_t)(end - p->src->text)};
}

void ptx_err(struct ptx_parser *p, enum diag_code code, struct span at, const char *fmt, ...)
{
	char *text;
	va_list ap;

	if (p->quiet)
		return;
	va_start(ap, fmt);
	text = arena_vprintf(p->arena, fmt, ap);
	va_end(ap);
	diag_at(p->diags, DIAG_ERROR, code, at, "%s", text);
	if (p->diags->nerror >= 100)
		p->stop = true;
}

/* A comment's text from behind the slashes: kept in the header or on the instruction before it. */
static void keep_comment(struct ptx_parser *p, const char *s, const char *end)
{
	if (s < end && *s == ' ')
		s++;
	if (end > s && end[-1] == '\r')
		end--;
	if (p->header) {
		strbuf_putn(p->header, s, (size_t)(end - s));
		strbuf_putc(p->header, '\n');
	} else if (p->comment_ends_insn && p->fn->ninsn) {
		p->fn->insn[p->fn->ninsn - 1].comment =
		        arena_strndup(p->arena, s, (size_t)(end - s));
	}
	p->comment_ends_insn = false;
}

static bool skip_comment(struct ptx_parser *p)
{
	const char *begin = p->p, *end;

	if (p->end - begin < 2 || begin[0] != '/')
		return false;
	if (begin[1] == '/') {
		end = memchr(begin, '\n', (size_t)(p->end - begin));
		p->p = end ? end : p->end;
		keep_comment(p, begin + 2, p->p);
		return true;
	}
	if (begin[1] != '*')
		return false;
	for (p->p += 2; p->end - p->p >= 2 && !(p->p[0] == '*' && p->p[1] == '/'); p->p++)
		if (*p->p == '\n')
			p->line++;
	if (p->end - p->p < 2) {
		ptx_err(p, DIAG_PTX_SYNTAX, span_of(p, begin, begin + 2),
		        "the comment does not end");
		p->p = p->end;
	} else {
		p->p += 2;
	}
	return true;
}

static void skip_space(struct ptx_parser *p)
{
	while (p->p < p->end) {
		char c = *p->p;

		if (c == '\n') {
			p->line++;
			p->comment_ends_insn = false;
			p->p++;
		} else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
			p->p++;
		} else if (!skip_comment(p)) {
			return;
		}
	}
}

static void lex_string(struct ptx_parser *p)
{
	const char *begin = ++p->p;

	while (p->p < p->end && *p->p != '"' && *p->p != '\n')
		p->p++;
	p->tok.kind = PTX_TOK_STRING;
	p->tok.s = begin;
	p->tok.n = (uint32_t)(p->p - begin);
	if (p->p < p->end && *p->p == '"')
		p->p++;
	else
		ptx_err(p, DIAG_PTX_SYNTAX, span_of(p, begin - 1, p->p), "the string does not end");
}

static void lex_dot(struct ptx_parser *p)
{
	p->tok.kind = PTX_TOK_DOT;
	p->tok.s = ++p->p;
	while (p->p < p->end && word_char(*p->p)) {
		p->p++;
		if (p->end - p->p > 2 && p->p[0] == ':' && p->p[1] == ':' && word_char(p->p[2]))
			p->p += 2;
	}
	p->tok.n = (uint32_t)(p->p - p->tok.s);
}

void ptx_next(struct ptx_parser *p)
{
	const char *begin;
	char c;

	skip_space(p);
	p->comment_ends_insn = false;
	if (p->header)
		p->header = NULL;
	begin = p->p;
	p->tok = (struct ptx_token){
	        .kind = PTX_TOK_EOF, .s = begin, .line = p->line, .at = span_of(p, begin, begin)};
	if (p->p >= p->end || p->stop)
		return;
	c = *p->p;
	if (digit(c)) {
		p->tok.kind = PTX_TOK_NUM;
		while (p->p < p->end &&
		       (word_char(*p->p) || (*p->p == '.' && p->end - p->p > 1 && digit(p->p[1]))))
			p->p++;
		p->tok.n = (uint32_t)(p->p - begin);
	} else if (word_char(c) || (c == '%' && p->end - p->p > 1 && word_char(p->p[1]))) {
		p->tok.kind = PTX_TOK_WORD;
		for (p->p++; p->p < p->end && word_char(*p->p);)
			p->p++;
		p->tok.n = (uint32_t)(p->p - begin);
	} else if (c == '.' && p->end - p->p > 1 && word_char(p->p[1])) {
		lex_dot(p);
	} else if (c == '"') {
		lex_string(p);
	} else {
		p->tok.kind = PTX_TOK_PUNCT;
		p->tok.punct = c;
		p->tok.n = 1;
		p->p++;
	}
	p->tok.at = span_of(p, begin, p->p);
	if (p->tok.n > PTX_MAX_NAME) {
		ptx_err(p, DIAG_PTX_LIMIT, p->tok.at, "a word is longer than %d bytes",
		        PTX_MAX_NAME);
		p->stop = true;
		p->tok.kind = PTX_TOK_EOF;
	}
}

bool ptx_is(const struct ptx_parser *p, char punct)
{
	return p->tok.kind == PTX_TOK_PUNCT && p->tok.punct == punct;
}

bool ptx_accept(struct ptx_parser *p, char punct)
{
	if (!ptx_is(p, punct))
		return false;
	ptx_next(p);
	return true;
}

void ptx_expected(struct ptx_parser *p, const char *what)
{
	if (p->stop)
		return;
	if (p->tok.kind == PTX_TOK_EOF)
		ptx_err(p, DIAG_PTX_SYNTAX, p->tok.at, "expected %s before the end of the text",
		        what);
	else if (p->tok.kind == PTX_TOK_PUNCT && (p->tok.punct < ' ' || p->tok.punct > '~'))
		ptx_err(p, DIAG_PTX_SYNTAX, p->tok.at, "expected %s, not byte 0x%02x", what,
		        (unsigned)(unsigned char)p->tok.punct);
	else
		ptx_err(p, DIAG_PTX_SYNTAX, p->tok.at, "expected %s, not '%s%.*s'", what,
		        p->tok.kind == PTX_TOK_DOT ? "." : "", (int)(p->tok.n < 60 ? p->tok.n : 60),
		        p->tok.s);
}

bool ptx_expect(struct ptx_parser *p, char punct)
{
	char what[4] = {'\'', punct, '\'', 0};

	if (ptx_accept(p, punct))
		return true;
	ptx_expected(p, what);
	return false;
}

bool ptx_tok_equals(const struct ptx_token *t, const char *s)
{
	return strlen(s) == t->n && memcmp(s, t->s, t->n) == 0;
}

static int digit_value(char c)
{
	if (digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 99;
}

/* Digits of a base into *value; false: none, another character, or more than 64 bits. */
static bool digits(const char *s, const char *end, unsigned base, uint64_t *value)
{
	uint64_t v = 0;

	if (s == end)
		return false;
	for (; s < end; s++) {
		unsigned k = (unsigned)digit_value(*s);

		if (k >= base || v > (UINT64_MAX - k) / base)
			return false;
		v = v * base + k;
	}
	*value = v;
	return true;
}

bool ptx_number(struct ptx_parser *p, const struct ptx_token *t, uint64_t *value, uint8_t *cls)
{
	const char *s = t->s, *end = s + t->n;
	char kind = t->n > 1 && s[0] == '0' ? s[1] | 0x20 : 0;
	bool ok;

	*cls = PTX_C_B64;
	if (kind == 'f' || kind == 'd') {
		*cls = kind == 'f' ? PTX_C_F32 : PTX_C_F64;
		ok = t->n == (kind == 'f' ? 10 : 18) && digits(s + 2, end, 16, value);
		if (!ok)
			ptx_err(p, DIAG_PTX_NUMBER, t->at, "%s",
			        kind == 'f' ? "0f takes 8 hexadecimal digits"
			                    : "0d takes 16 hexadecimal digits");
		return ok;
	}
	if (t->n > 1 && (end[-1] == 'U' || end[-1] == 'u'))
		end--;
	if (kind == 'x')
		ok = digits(s + 2, end, 16, value);
	else if (kind == 'b')
		ok = digits(s + 2, end, 2, value);
	else
		ok = digits(s, end, s[0] == '0' && end - s > 1 ? 8 : 10, value);
	if (!ok)
		ptx_err(p, DIAG_PTX_NUMBER, t->at, "'%.*s' is not an integer of at most 64 bits",
		        (int)(t->n < 60 ? t->n : 60), s);
	if (!ok && memchr(s, '.', t->n))
		diag_note(p->diags, (struct span){0, 0},
		          "write floating point as 0f and 8 digits or 0d and 16");
	return ok;
}

bool ptx_take_uint(struct ptx_parser *p, uint64_t max, uint64_t *value)
{
	uint8_t cls;

	if (p->tok.kind != PTX_TOK_NUM) {
		ptx_expected(p, "a number");
		return false;
	}
	if (!ptx_number(p, &p->tok, value, &cls))
		return false;
	if (cls != PTX_C_B64 || *value > max) {
		ptx_err(p, DIAG_PTX_NUMBER, p->tok.at, "a number of at most %llu is expected here",
		        (unsigned long long)max);
		return false;
	}
	ptx_next(p);
	return true;
}
