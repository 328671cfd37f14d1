/*
 * Specs against what the frontend says about them.  TAP on standard output.
 *
 *	specs diag DIR    every DIR/NAME.plait against NAME.txt; and every code of the frontend is
 *	                  in one of them.  The first line may give options: // --tp 8 --set NAME=VALUE
 *	specs doc FILE    every ```plait block of a manual compiles, every ```plait-error block does
 *	                  not
 *	specs good DIR    every DIR/NAME.plait compiles, for every tp that it does not except
 *
 * GOLDEN_UPDATE=1 rewrites the .txt files that differ; review the difference before committing it.
 */
#include "frontend/frontend.h"
#include "ir/ir.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CASES = 1000, MAX_SETS = 8, LARGEST = 32 << 20 };

static unsigned ntest, nfailed;

static void report(bool ok, const char *name, const char *why)
{
	printf("%s %u - %s\n", ok ? "ok" : "not ok", ++ntest, name);
	nfailed += !ok;
	if (!ok)
		for (const char *p = why; *p;) {
			size_t n = strcspn(p, "\n");

			fprintf(stderr, "# %.*s\n", (int)n, p);
			p += n + (p[n] == '\n');
		}
}

/* The whole file, NUL-terminated; NULL: it cannot be read. */
static char *read_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	char *text = NULL;
	long size = -1;

	if (f && !fseek(f, 0, SEEK_END))
		size = ftell(f);
	if (size >= 0 && size < LARGEST && !fseek(f, 0, SEEK_SET))
		text = malloc((size_t)size + 1);
	if (text) {
		*n = fread(text, 1, (size_t)size, f);
		text[*n] = 0;
	}
	if (f)
		fclose(f);
	return text;
}

/* Compiles text; the diagnostics, in a new string, and whether there is a module. */
static char *compile(const char *name, const char *text, size_t n, const struct fe_options *o,
                     bool *good)
{
	struct arena a;
	struct diags d;
	struct strbuf out;
	struct source *src;
	char *volatile result = NULL;

	arena_init(&a, (size_t)1 << 30);
	*good = false;
	if (setjmp(a.oom)) {
		arena_free(&a);
		return strdup("out of memory\n");
	}
	diags_init(&d, &a);
	strbuf_init(&out, &a);
	src = diags_add_source(&d, name, text, n);
	if (src) {
		struct ir_module *m = fe_lower(&a, &d, fe_parse(&a, &d, src), o);

		*good = m != NULL;
		for (const struct ir_func *f = m ? m->funcs : NULL; f; f = f->next)
			*good &= ir_verify(f, IR_FORM_SOURCE, &d);
	}
	diags_render(&d, DIAG_REMARK, &out);
	result = strdup(out.s);
	arena_free(&a);
	return result;
}

/* ---- diag ---- */

struct line_options {
	char line[256];
	struct fe_set set[MAX_SETS];
	struct fe_options o;
};

static void read_options(const char *text, struct line_options *l)
{
	char *save = NULL, *eq;

	memset(l, 0, sizeof(*l));
	l->o.set = l->set;
	if (strncmp(text, "// --", 5))
		return;
	snprintf(l->line, sizeof(l->line), "%.*s", (int)strcspn(text, "\n") - 3, text + 3);
	for (char *w = strtok_r(l->line, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		char *v = strtok_r(NULL, " ", &save);

		if (v && !strcmp(w, "--tp"))
			l->o.tp = (unsigned)atoi(v);
		eq = v ? strchr(v, '=') : NULL;
		if (eq && !strcmp(w, "--set") && l->o.nset < MAX_SETS) {
			*eq = 0;
			l->set[l->o.nset++] = (struct fe_set){v, eq + 1};
		}
	}
}

static bool seen[1000];

static void note_codes(const char *text)
{
	for (const char *p = text; (p = strstr(p, "[E")); p++) {
		unsigned code = (unsigned)atoi(p + 2);

		if (code < 1000)
			seen[code] = true;
	}
}

static void diag_case(const char *dir, const char *name)
{
	char path[1024], want_path[1024];
	size_t n = 0, nwant = 0;
	struct line_options l;
	char *text, *want, *got;
	bool good, same;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	snprintf(want_path, sizeof(want_path), "%.*s.txt", (int)strlen(path) - 6, path);
	text = read_file(path, &n);
	if (!text) {
		report(false, name, "the file cannot be read");
		return;
	}
	read_options(text, &l);
	got = compile(name, text, n, &l.o, &good);
	want = read_file(want_path, &nwant);
	same = want && got && !strcmp(want, got);
	if (!same && got && getenv("GOLDEN_UPDATE")) {
		FILE *f = fopen(want_path, "wb");

		same = f && fputs(got, f) >= 0;
		if (f)
			fclose(f);
	}
	note_codes(got ? got : "");
	report(same && !good, name, good ? "this compiled" : got);
	free(text);
	free(want);
	free(got);
}

/* Codes of 1xx to 5xx that the frontend does not give: it says the same earlier, or they are the
 * passes'. */
static bool elsewhere(int code)
{
	return code < 100 || code >= 600 || code == DIAG_FILE || code == DIAG_TYPE_ARITY ||
	       code == DIAG_TYPE_DTYPE || code == DIAG_TYPE_CALLEE ||
	       code == DIAG_PLACE_NEED_REPLICATED || (code >= DIAG_FUSE_COMPUTED && code < 500);
}

static const struct {
	int code;
	const char *id, *title;
} codes[] = {
#define DIAG_CODE(ID, number, title) {number, #ID, title},
#include "support/codes.def"
#undef DIAG_CODE
};
enum { NCODES = sizeof(codes) / sizeof(codes[0]) };

static void check_codes(void)
{
	char why[4096] = "no case has these codes:";
	size_t empty = strlen(why);

	for (size_t i = 0; i < NCODES; i++)
		if (!elsewhere(codes[i].code) && !seen[codes[i].code])
			snprintf(why + strlen(why), sizeof(why) - strlen(why), " %s", codes[i].id);
	report(!why[empty], "every code has a case", why);
}

/* The manual's table has a row for every code that a spec can get. */
static void check_table(const char *text)
{
	char why[4096] = "rows are missing:", row[256];
	size_t empty = strlen(why);

	for (size_t i = 0; i < NCODES; i++) {
		if (codes[i].code < 100 || codes[i].code >= 600)
			continue;
		snprintf(row, sizeof(row), "%03d | %s |", codes[i].code, codes[i].title);
		if (!strstr(text, row))
			snprintf(why + strlen(why), sizeof(why) - strlen(why), "\n| E%s", row);
	}
	report(!why[empty], "the manual lists every code", why);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The specs of a folder, in order of names; their number. */
static size_t list_specs(const char *dir, char *names[MAX_CASES])
{
	size_t n = 0;
	DIR *d = opendir(dir);

	for (struct dirent *e; d && n < MAX_CASES && (e = readdir(d));) {
		size_t len = strlen(e->d_name);

		if (len > 6 && !strcmp(e->d_name + len - 6, ".plait"))
			names[n++] = strdup(e->d_name);
	}
	if (d)
		closedir(d);
	qsort(names, n, sizeof(names[0]), by_name);
	return n;
}

static int run_diag(const char *dir)
{
	char *names[MAX_CASES];
	size_t n = list_specs(dir, names);

	if (!n)
		return 2;
	for (size_t i = 0; i < n; i++) {
		diag_case(dir, names[i]);
		free(names[i]);
	}
	check_codes();
	return 0;
}

/* ---- doc, good ---- */

static void good_case(const char *name, const char *text, size_t n, bool want, unsigned tp)
{
	struct fe_options o = {.tp = tp};
	bool good;
	char *said = compile(name, text, n, &o, &good);

	report(good == want, name, said && *said ? said : "this compiled");
	free(said);
}

static int run_doc(const char *path)
{
	static const char open[] = "```plait", error[] = "-error";
	size_t n = 0;
	char *text = read_file(path, &n), *p = text;
	unsigned line = 1;

	while (p && *p) {
		size_t len = strcspn(p, "\n");
		bool wrong = !strncmp(p + sizeof(open) - 1, error, sizeof(error) - 1);
		char *begin = p + len + (p[len] == '\n'), *end, name[64];

		if (strncmp(p, open, sizeof(open) - 1)) {
			p = begin;
			line++;
			continue;
		}
		end = strstr(begin, "\n```");
		snprintf(name, sizeof(name), "line %u", line);
		if (!end) {
			report(false, name, "the block does not end");
			break;
		}
		good_case(name, begin, (size_t)(end + 1 - begin), !wrong, 0);
		for (; p < end + 1; p++)
			line += *p == '\n';
		p = end + 4;
	}
	report(ntest > 5, "the manual has examples", "too few");
	check_table(text ? text : "");
	free(text);
	return 0;
}

/* A sample is good for every tp but those of which its head says "Not for tp N". */
static void check_sample(const char *path, const char *name)
{
	static const unsigned tp[] = {0, 1, 2, 4, 8, 16};
	char what[1024], not_for[32];
	size_t n = 0;
	char *text = read_file(path, &n);

	for (size_t i = 0; i < sizeof(tp) / sizeof(tp[0]); i++) {
		snprintf(what, sizeof(what), "%s, tp %u", name, tp[i]);
		snprintf(not_for, sizeof(not_for), "Not for tp %u:", tp[i]);
		if (text)
			good_case(what, text, n, !strstr(text, not_for), tp[i]);
		else
			report(false, what, "the file cannot be read");
	}
	free(text);
}

static int run_good(const char *dir)
{
	char *names[MAX_CASES], path[1024];
	size_t n = list_specs(dir, names);

	for (size_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		check_sample(path, names[i]);
		free(names[i]);
	}
	return n ? 0 : 2;
}

int main(int argc, char **argv)
{
	int rc = 2;

	if (argc == 3 && !strcmp(argv[1], "diag"))
		rc = run_diag(argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "doc"))
		rc = run_doc(argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "good"))
		rc = run_good(argv[2]);
	printf("1..%u\n", ntest);
	return rc ? rc : nfailed != 0;
}
