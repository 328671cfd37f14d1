/* Litmus tests to PTX. */
#include "tests/litmus/litmus.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 8, SEGMENTS = 4, MOST = 5 };

struct gen {
	struct lit_text *t;
	size_t n;
	unsigned thread, tmp;
	uint8_t used[WORDS]; /* registers of each thread that it writes */
	const char *error;
};

static void put(struct gen *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct gen *g, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(g->t->ptx + g->n, sizeof g->t->ptx - g->n, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof g->t->ptx - g->n)
		g->error = "the text is too long";
	else
		g->n += (size_t)n;
}

struct loc {
	char name[8];
	unsigned off, size;
};

/* x, x@1, x+2:2; `multi`: the multicast address. */
static struct loc loc_of(struct gen *g, const char *s, bool multi)
{
	struct loc l = {.size = 4};
	unsigned rank = 0;

	if (!s || !strchr("xyzw", *s)) {
		g->error = "a location was expected";
		return l;
	}
	for (const char *p = s + 1; *p; p++) {
		unsigned v = (unsigned)strtoul(p + 1, NULL, 10);

		if (*p == '@')
			rank = v;
		else if (*p == '+')
			l.off = v;
		else if (*p == ':')
			l.size = v;
	}
	snprintf(l.name, sizeof l.name, "%c%c", *s, multi ? 'm' : (char)('0' + rank % 10));
	return l;
}

/* The address in %rd1. */
static const char *address(struct gen *g, const struct loc *l)
{
	put(g, "ld.param.u64 %%rd1, [%s];\n", l->name);
	return "%rd1";
}

/* A value in a register of 32 bits: its name. */
static const char *value(struct gen *g, const char *s)
{
	static char name[16];

	if (s && *s == 'r') {
		snprintf(name, sizeof name, "%%r%u",
		         10 + g->thread * LIT_REGS + (unsigned)atoi(s + 1));
		return name;
	}
	if (!s || !isdigit((unsigned char)*s))
		g->error = "a value was expected";
	put(g, "mov.u32 %%r1, %s;\n", s ? s : "0");
	return "%r1";
}

static const char *reg(struct gen *g, const char *s)
{
	static char name[16];

	if (!s || *s != 'r')
		g->error = "a register was expected";
	if (s)
		g->used[g->thread % WORDS] |= (uint8_t)(1u << (unsigned)atoi(s + 1) % 8);
	snprintf(name, sizeof name, "%%r%u",
	         10 + g->thread * LIT_REGS + (s ? (unsigned)atoi(s + 1) : 0));
	return name;
}

/* ".relaxed.sys" of "rlx.sys". */
static const char *order(struct gen *g, const char *s)
{
	static const char *const names[][2] = {
	        {"weak", ""},       {"rlx", ".relaxed"}, {"rel", ".release"}, {"acq", ".acquire"},
	        {"ar", ".acq_rel"}, {"sc", ".sc"},       {"vol", ".volatile"}};
	static char text[32];
	const char *dot = strchr(s, '.');
	const size_t n = dot ? (size_t)(dot - s) : strlen(s);

	if (!*s)
		return ""; /* the instruction's default */
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strlen(names[i][0]) == n && !memcmp(names[i][0], s, n)) {
			snprintf(text, sizeof text, "%s%s", names[i][1], dot ? dot : "");
			return text;
		}
	g->error = "an order was expected";
	return "";
}

static void store(struct gen *g, bool multi, const char *sem, char *w[])
{
	const struct loc l = loc_of(g, w[1], multi);
	const char *v = value(g, w[2]);

	address(g, &l);
	if (l.size == 8)
		put(g, "mov.b64 %%rd2, {%s, %s};\n", v, v);
	put(g, "%sst%s.global.%s%u [%%rd1+%u], %s;\n", multi ? "multimem." : "", order(g, sem),
	    l.size == 2 && !multi ? "b" : "u", l.size * 8, l.off, l.size == 8 ? "%rd2" : v);
}

static void load(struct gen *g, bool multi, const char *sem, char *w[])
{
	const struct loc l = loc_of(g, w[2], multi);
	const char *d = reg(g, w[1]);

	address(g, &l);
	if (multi)
		put(g, "multimem.ld_reduce%s.global.max.u32 %s, [%%rd1+%u];\n", order(g, sem), d,
		    l.off);
	else
		put(g, "ld%s.global.u%u %s, [%%rd1+%u];\n", order(g, sem), l.size * 8,
		    l.size == 8 ? "%rd2" : d, l.off);
	if (l.size == 8)
		put(g, "cvt.u32.u64 %s, %%rd2;\n", d);
}

static void atomic(struct gen *g, char kind, const char *sem, char *w[])
{
	const struct loc l = loc_of(g, w[2], false);
	char d[16];

	snprintf(d, sizeof d, "%s", reg(g, w[1]));
	address(g, &l);
	if (kind == 'C')
		put(g, "atom%s.global.cas.b32 %s, [%%rd1], %s, %s;\n", order(g, sem), d, w[3],
		    w[4]);
	else
		put(g, "atom%s.global.%s.%s32 %s, [%%rd1], %s;\n", order(g, sem),
		    kind == 'A' ? "exch" : "add", kind == 'A' ? "b" : "u", d, w[3]);
}

static void reduction(struct gen *g, bool multi, const char *sem, char *w[])
{
	const struct loc l = loc_of(g, w[1], multi);

	address(g, &l);
	put(g, "%sred%s.global.add.u32 [%%rd1], %s;\n", multi ? "multimem." : "", order(g, sem),
	    w[2]);
}

static void insn(struct gen *g, char *text)
{
	char *w[MOST + 1] = {NULL}, *save = NULL, *sem;
	unsigned n = 0;

	for (char *p = strtok_r(text, " \n\t", &save); p && n < MOST;
	     p = strtok_r(NULL, " \n\t", &save))
		w[n++] = p;
	if (!n)
		return;
	sem = strchr(w[0], '.');
	sem = sem ? sem + 1 : w[0] + strlen(w[0]);
	switch (*w[0] == 'M' ? w[0][1] : *w[0]) {
	case 'W':
		store(g, *w[0] == 'M', sem, w);
		break;
	case 'R':
		load(g, *w[0] == 'M', sem, w);
		break;
	case 'A':
	case 'I':
	case 'C':
		atomic(g, *w[0], sem, w);
		break;
	case 'D':
		reduction(g, *w[0] == 'M', sem, w);
		break;
	case 'F':
		put(g, "fence%s;\n", order(g, sem));
		break;
	case 'P':
		put(g, "fence.proxy.alias;\n");
		break;
	case 'B':
		put(g, "bar.warp.sync 0xffffffff;\n");
		break;
	case 'Q':
		put(g, "setp.ne.u32 %%p2, %s, %s;\n@%%p2 mov.u32 %%r9, 0;\n@%%p2 bra skip%u;\n",
		    reg(g, w[1]), w[2], g->tmp);
		break;
	default:
		g->error = "an instruction of no known kind";
	}
}

struct thread {
	unsigned rank, cta, warp, lane, nsegment;
	char *segment[SEGMENTS]; /* between bar.syncs */
	char text[512];
};

static const char *parse(const char *s, size_t n, struct thread *t)
{
	char *colon, *save = NULL, *at;
	unsigned v[4] = {0}, k = 0;

	if (n >= sizeof t->text)
		return "a thread is too long";
	memset(t, 0, sizeof *t);
	memcpy(t->text, s, n);
	colon = strchr(t->text, ':');
	/* the place ends at the first ": " */
	if (!colon)
		return "a thread begins with its place";
	*colon = 0;
	for (char *p = strtok_r(t->text, ". ", &save); p && k < 4; p = strtok_r(NULL, ". ", &save))
		v[k++] = (unsigned)atoi(p);
	t->rank = v[0];
	t->cta = v[1];
	t->warp = v[2];
	t->lane = v[3];
	at = colon + 1;
	t->segment[t->nsegment++] = at;
	while ((at = strstr(at, "B;")) && t->nsegment < SEGMENTS) {
		*at = 0;
		at += 2;
		t->segment[t->nsegment++] = at;
	}
	return NULL;
}

static void head(struct gen *g)
{
	put(g, ".version 8.8\n.target sm_90\n.address_size 64\n.visible .entry t(");
	for (unsigned i = 0; i < LIT_LOCS; i++)
		for (unsigned r = 0; r <= LIT_RANKS; r++)
			put(g, ".param .u64 %c%c, ", "xyzw"[i],
			    r == LIT_RANKS ? 'm' : (char)('0' + r));
	put(g, ".param .u64 out, .param .u32 rank)\n{\n"
	       ".reg .pred %%p<4>; .reg .b32 %%r<80>; .reg .b64 %%rd<8>;\n"
	       "ld.param.u64 %%rd0, [out]; ld.param.u32 %%r0, [rank]; mov.u32 %%r2, %%ctaid.x;\n"
	       "mov.u32 %%r3, %%tid.x; mov.u32 %%r9, 1;\n");
	for (unsigned i = 0; i < 60; i++)
		put(g, "mov.u32 %%r%u, 0;\n", 10 + i);
}

/* Is this thread number i, and still at it? */
static void am_i(struct gen *g, const struct thread *t, unsigned i, const char *label)
{
	put(g, "setp.eq.u32 %%p1, %%r0, %u; setp.eq.and.u32 %%p1, %%r2, %u, %%p1;\n", t->rank,
	    t->cta);
	put(g, "setp.eq.and.u32 %%p1, %%r3, %u, %%p1; setp.eq.and.u32 %%p1, %%r9, 1, %%p1;\n",
	    t->warp * 32 + t->lane);
	put(g, "@!%%p1 bra %s%u;\n", label, i);
}

static void body(struct gen *g, struct thread *t, unsigned n)
{
	unsigned most = 1;

	for (unsigned i = 0; i < n; i++)
		most = t[i].nsegment > most ? t[i].nsegment : most;
	for (unsigned k = 0; k < most; k++) {
		if (k)
			put(g, "bar.sync 0;\n");
		for (unsigned i = 0; i < n; i++) {
			char *save = NULL;

			if (k >= t[i].nsegment)
				continue;
			g->thread = i;
			g->tmp = k * 16 + i;
			am_i(g, &t[i], g->tmp, "skip");
			for (char *p = strtok_r(t[i].segment[k], ";", &save); p;
			     p = strtok_r(NULL, ";", &save))
				insn(g, p);
			put(g, "skip%u:\n", g->tmp);
		}
	}
	put(g, "mov.u32 %%r9, 1;\n");
	for (unsigned i = 0; i < n; i++) {
		am_i(g, &t[i], i, "told");
		for (unsigned r = 0; r < LIT_REGS; r++)
			if (g->used[i] >> r & 1)
				put(g, "st.global.u32 [%%rd0+%u], %%r%u;\n", (i * LIT_REGS + r) * 4,
				    10 + i * LIT_REGS + r);
		put(g, "told%u:\n", i);
	}
	put(g, "ret;\n}\n");
}

const char *lit_compile(const char *threads, struct lit_text *text)
{
	static struct thread t[WORDS];
	struct gen g = {.t = text};
	unsigned n = 0;

	text->ranks = text->ctas = text->warps = 1;
	for (const char *p = threads; p && n < WORDS;) {
		const char *bar = strchr(p, '|');
		const char *wrong = parse(p, bar ? (size_t)(bar - p) : strlen(p), &t[n]);

		if (wrong)
			return wrong;
		if (t[n].rank >= text->ranks)
			text->ranks = t[n].rank + 1;
		if (t[n].cta >= text->ctas)
			text->ctas = t[n].cta + 1;
		if (t[n].warp >= text->warps)
			text->warps = t[n].warp + 1;
		n++;
		p = bar ? bar + 1 : NULL;
	}
	text->threads = n;
	head(&g);
	body(&g, t, n);
	return g.error;
}
