/*
 * Build tool: embed OUT.c FILE.ptxt...  Templates as a C table: name, text, and the holes declared
 * in the head:
 *
 *	//   $name   type   meaning
 *
 * type is a PTX type (a register of its class), #type (that or an integer), typexN (a vector),
 * label, or symbol.  Every hole used is declared and every hole declared is used, or the build stops.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const types[] = {
#define PTX_TYPE(ID, text, bits, class) text,
#include "codegen/ptx/types.def"
#undef PTX_TYPE
};

enum { MAX_TEXT = 1 << 16, MAX_HOLES = 32, MAX_WORD = 64 };

struct hole {
	char name[MAX_WORD], type[MAX_WORD];
	int used;
};

static int fail(const char *file, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(const char *file, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", file);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return 1;
}

static size_t word(const char *s)
{
	return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

/* "u64", "#u32", "b32x4", "label", "symbol" as the fields of struct ptx_hole behind the name. */
static int put_hole(FILE *out, const char *file, const struct hole *h)
{
	const char *t = h->type[0] == '#' ? h->type + 1 : h->type;
	unsigned n = 0;

	if (strcmp(t, "label") == 0 || strcmp(t, "symbol") == 0) {
		fprintf(out, "\t{\"%s\", %s, PTX_T_none, 0},\n", h->name,
		        t[0] == 'l' ? "PTX_HOLE_LABEL" : "PTX_HOLE_SYM");
		return 0;
	}
	for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
		size_t len = strlen(types[k]);

		if (strncmp(t, types[k], len) != 0)
			continue;
		if (t[len] == 'x' &&
		    (t[len + 1] == '2' || t[len + 1] == '4' || t[len + 1] == '8') && !t[len + 2])
			n = (unsigned)(t[len + 1] - '0');
		else if (t[len])
			continue;
		fprintf(out, "\t{\"%s\", %s, PTX_T_%s, %u},\n", h->name,
		        t == h->type ? "PTX_HOLE_REG" : "PTX_HOLE_VALUE", types[k], n);
		return 0;
	}
	return fail(file, "the type '%s' of $%s is not known", h->type, h->name);
}

/* The head's declarations: lines of comment that start with a hole. */
static int read_holes(const char *file, const char *s, struct hole *hole, size_t *n)
{
	for (; strncmp(s, "//", 2) == 0; s = strchr(s, '\n') + 1) {
		const char *p = s + 2 + strspn(s + 2, " \t");
		size_t len;

		if (!strchr(s, '\n'))
			break;
		if (*p != '$')
			continue;
		len = word(++p);
		if (!len || len >= MAX_WORD || *n == MAX_HOLES)
			return fail(file,
			            "a hole's name is empty or too long, or there are too many");
		memcpy(hole[*n].name, p, len);
		p += len;
		p += strspn(p, " \t");
		len = strcspn(p, " \t\n");
		if (!len || len >= MAX_WORD)
			return fail(file, "$%s has no type", hole[*n].name);
		memcpy(hole[(*n)++].type, p, len);
	}
	return 0;
}

static int check_uses(const char *file, const char *s, struct hole *hole, size_t n)
{
	while (*s) {
		size_t k, len;

		if (strncmp(s, "//", 2) == 0) {
			s += strcspn(s, "\n");
			continue;
		}
		if (*s++ != '$')
			continue;
		len = word(s);
		for (k = 0; k < n; k++)
			if (strlen(hole[k].name) == len && strncmp(hole[k].name, s, len) == 0)
				break;
		if (k == n)
			return fail(file, "$%.*s is not declared in the head", (int)len, s);
		hole[k].used = 1;
	}
	for (size_t k = 0; k < n; k++)
		if (!hole[k].used)
			return fail(file, "$%s is not used", hole[k].name);
	return 0;
}

static int embed(FILE *out, const char *file, unsigned number)
{
	static char text[MAX_TEXT];
	struct hole hole[MAX_HOLES] = {0};
	size_t n = 0, len;
	FILE *in = fopen(file, "rb");

	if (!in)
		return fail(file, "cannot be opened");
	len = fread(text, 1, MAX_TEXT - 1, in);
	fclose(in);
	if (len == MAX_TEXT - 1)
		return fail(file, "is too long");
	text[len] = 0;
	if (read_holes(file, text, hole, &n) || check_uses(file, text, hole, n))
		return 1;
	fprintf(out, "static const char text_%u[] = {", number);
	for (size_t k = 0; k <= len; k++)
		fprintf(out, "%s%d,", k % 24 ? " " : "\n\t", text[k]);
	fprintf(out, "\n};\nstatic const struct ptx_hole holes_%u[] = {\n", number);
	for (size_t k = 0; k < n; k++)
		if (put_hole(out, file, &hole[k]))
			return 1;
	fprintf(out, "\t{0},\n};\n\n");
	return 0;
}

static void put_row(FILE *out, const char *file, unsigned number)
{
	const char *name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;

	fprintf(out, "\t{\"%.*s\", text_%u, holes_%u},\n", (int)strcspn(name, "."), name, number,
	        number);
}

int main(int argc, char **argv)
{
	FILE *out = argc > 1 ? fopen(argv[1], "w") : NULL;

	if (!out)
		return fail("embed", "usage: embed OUT.c FILE.ptxt...");
	fprintf(out, "/* Made by embed.c from templates/. */\n#include \"codegen/ptx/ptx.h\"\n\n");
	for (int k = 2; k < argc; k++)
		if (embed(out, argv[k], (unsigned)k))
			return 1;
	fprintf(out, "const struct ptx_template ptx_templates[] = {\n");
	for (int k = 2; k < argc; k++)
		put_row(out, argv[k], (unsigned)k);
	fprintf(out, "\t{0},\n};\n");
	return fclose(out) != 0;
}
