/*
 * Mutants derived from the PTX of every protocol, one change each:
 *
 *	drop     a fence, barrier, wait, trigger, or a strong or unvectored store is gone
 *	order    a release or acquire becomes relaxed, a relaxed access weak
 *	scope    .sys becomes .gpu
 *	plus     an integer in the instruction is one more: epochs, slots, counts, buffers, sizes
 *	minus    one less
 *
 * Copies that unrolling made of an instruction are one: the first and the last of them stand for
 * all.  Each mutant must be found, with weak memory or without, or be in equivalent.def with the
 * reason why nothing can find it.
 *
 *	derive SPEC [PROTOCOL [NUMBER]]    a line of TAP for each
 *	derive SPEC --table                the table of doc/mutants.md
 */
#include "tests/mutants/derive.h"
#include "tools/pipeline.h"
#include "tools/verify.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct equivalent {
	const char *protocol, *op, *text, *why;
};

static const struct equivalent equivalents[] = {
#define EQUIVALENT(protocol, op, text, why) {protocol, op, text, why},
#include "tests/mutants/equivalent.def"
#undef EQUIVALENT
        {NULL, NULL, NULL, NULL},
};

static struct fe_set set = {"hidden", "1024"};

struct bench {
	struct arena arena;
	struct pipe p;
	struct args args;
	struct vf_data *d;
	const char *text, *protocol;
	const char *lapses; /* what the text as it is leaves */
	unsigned test, failed, killed, equal;
	long only; /* number of one mutant; -1: all */
	bool table;
};

static struct ptx_module *parse(struct bench *b, struct arena *a, struct diags *d, const char *text)
{
	struct source *s = diags_add_source(d, "mutant", text, strlen(text));

	(void)b;
	return s ? ptx_parse(a, d, s) : NULL;
}

static const struct equivalent *equivalent_of(const struct bench *b, const char *op,
                                              const char *line)
{
	for (const struct equivalent *e = equivalents; e->protocol; e++)
		if ((!strcmp(e->protocol, "*") || strstr(e->protocol, b->protocol)) &&
		    (!strcmp(e->op, "*") || strstr(e->op, op)) && strstr(line, e->text))
			return e;
	return NULL;
}

/* What found it: the check's name, or the kind of failure. */
static const char *killer(const struct vf_failure *f, char *buf, size_t n)
{
	const char *colon = f->kind == VF_FINDING && f->text ? strchr(f->text, ':') : NULL;

	if (!colon)
		return vf_kind_name[f->kind];
	snprintf(buf, n, "%.*s", (int)(colon - f->text), f->text);
	return buf;
}

static void tell(struct bench *b, const struct derived *x, const char *line, const char *found,
                 const struct equivalent *e)
{
	const bool bad = !found && !e;

	b->test++;
	b->failed += bad;
	b->killed += found != NULL;
	b->equal += !found && e;
	if (b->table)
		printf("| %s | %s | `%s` | %s |\n", b->protocol, derive_name[x->op], line,
		       found ? found
		       : e   ? e->why
		             : "**not found**");
	else
		printf("%sok %u - %s %u %s: %s (%s)\n", bad ? "not " : "", b->test, b->protocol,
		       x->number, derive_name[x->op], line,
		       found ? found
		       : e   ? e->why
		             : "nothing finds it");
	fflush(stdout);
}

static bool run_one(struct bench *b, const struct derived *x)
{
	static struct arena a;
	static struct diags d;
	struct ptx_module *m;
	struct strbuf text;
	struct vf_result r;
	char line[200], name[64];
	const char *found;

	arena_init(&a, 0);
	if (setjmp(a.oom)) {
		puts("Bail out! out of memory");
		exit(1);
	}
	diags_init(&d, &a);
	m = parse(b, &a, &d, b->text);
	derive_line(m->fn, x, line, sizeof line);
	derive_apply(m->fn, x);
	strbuf_init(&text, &a);
	ptx_print(m, &text);
	m = parse(b, &a, &d, text.s);
	if (!m) {
		arena_free(&a);
		return false;
	}
	vf_run(b->d, m, text.s, &a, &r);
	found = r.failure.kind == VF_GOOD ? NULL : killer(&r.failure, name, sizeof name);
	if (!found && !b->args.pdl &&
	    strcmp(derive_lapses(b->p.kernel[0].k, m, &a), b->lapses) != 0)
		found = "abort record";
	if (found && b->only >= 0) {
		strbuf_init(&text, &a);
		vf_print_failure(&r.failure, b->args.spec, &text);
		fputs(text.s, stderr);
	}
	tell(b, x, line, found, found ? NULL : equivalent_of(b, derive_name[x->op], line));
	arena_free(&a);
	return true;
}

/* The kernel by this protocol, small, and its reference. */
static bool prepare(struct bench *b, enum cg_protocol protocol, enum cg_pdl pdl)
{
	static const int64_t many[] = {4, 31},
	                     few[] = {2, 5}; /* all of a pipeline; every rank's rows */
	const bool push = cg_protocol_info[protocol].rows == CG_ROWS_ALL;
	const struct vf_options o = {.tp = 3,
	                             .tokens = push ? few : many,
	                             .ntokens = 2,
	                             .launches = 3,
	                             .schedules = 10,
	                             .ctas = 0,
	                             .sum = -1,
	                             .weak = true,
	                             .threads = 1};
	static struct vf_kernel vk;
	struct strbuf text;
	const char *error = "";
	struct vf_result r;
	struct diags *d = &b->p.d;

	set.value = push ? "512" : "1024";
	b->args.protocol = protocol;
	b->args.pdl = pdl;
	pipe_init(&b->p, &b->arena, &b->args);
	strbuf_init(&text, &b->arena);
	if (pipe_all(&b->p) != ST_OK)
		return false;
	ptx_print(b->p.kernel[0].k->module, &text);
	b->text = text.s;
	vk = (struct vf_kernel){.f = b->p.kernel[0].f,
	                        .k = b->p.kernel[0].k,
	                        .rows = b->p.kernel[0].rows,
	                        .places = d};
	if (vf_data_new(&vk, &o, &b->arena, &b->d, &error) != ST_OK) {
		printf("# %s\n", error);
		return false;
	}
	vf_run(b->d, parse(b, &b->arena, d, b->text), b->text, &b->arena, &r);
	b->lapses = derive_lapses(b->p.kernel[0].k, parse(b, &b->arena, d, b->text), &b->arena);
	if (b->only >= 0)
		fputs(b->lapses, stderr);
	if (r.failure.kind == VF_GOOD)
		return true;
	strbuf_init(&text, &b->arena);
	vf_print_failure(&r.failure, b->args.spec, &text);
	fputs(text.s, stderr);
	return false;
}

static bool run_protocol(struct bench *b, enum cg_protocol protocol, enum cg_pdl pdl)
{
	static char name[64];
	struct derived *list;
	struct ptx_module *m;
	unsigned n;

	snprintf(name, sizeof name, "%s%s", cg_protocol_name(protocol), pdl ? " pdl" : "");
	b->protocol = name;
	if (!prepare(b, protocol, pdl)) {
		printf("not ok %u - %s: the text as it was is good\n", ++b->test, name);
		b->failed++;
		return false;
	}
	m = parse(b, &b->arena, &b->p.d, b->text);
	list = derive_all(&b->arena, m->fn, &n);
	for (unsigned i = 0; i < n; i++)
		if (b->only < 0 || b->only == (long)list[i].number)
			run_one(b, &list[i]);
	vf_data_free(b->d);
	return true;
}

int main(int argc, char **argv)
{
	static const enum cg_protocol all[] = {CG_MM_TWOSHOT,  CG_MM_ONESHOT, CG_MM_PUSH,
	                                       CG_P2P_TWOSHOT, CG_P2P_BULK,   CG_PUSH};
	static struct bench b;
	const char *only;

	if (argc < 2 || argc > 4) {
		fputs("usage: derive SPEC [PROTOCOL [NUMBER] | --table]\n", stderr);
		return 2;
	}
	arena_init(&b.arena, 0);
	if (setjmp(b.arena.oom)) {
		puts("Bail out! out of memory");
		return 1;
	}
	b.args = (struct args){.command = CMD_VERIFY,
	                       .arena = &b.arena,
	                       .tp = 3,
	                       .kernel = "add_norm",
	                       .spec = argv[1],
	                       .set = &set,
	                       .nset = 1,
	                       .target = cg_target_by_name("sm_90")};
	b.only = argc > 3 ? atol(argv[3]) : -1;
	b.table = argc > 2 && !strcmp(argv[2], "--table");
	only = argc > 2 && !b.table ? argv[2] : NULL;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!only || !strcmp(only, cg_protocol_name(all[i])))
			run_protocol(&b, all[i], CG_PDL_NONE);
	if (!only || !strcmp(only, "pdl"))
		run_protocol(&b, CG_MM_TWOSHOT, CG_PDL_EARLY);
	if (!b.table)
		printf("1..%u\n# %u found, %u equivalent, %u not found\n", b.test, b.killed,
		       b.equal, b.failed);
	arena_free(&b.arena);
	return b.failed != 0;
}
