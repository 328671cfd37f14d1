/*
 * Random kernels through the whole line: spec text, passes, code generation, PTX text, simulated ranks, reference.
 * Every kernel must verify, or be refused by code generation with a diagnostic (and few may be).
 *
 *	random_specs FIRST COUNT [refusals]    seeds; says what is wrong with which, and what is refused
 *	random_specs --print SEED              the spec of a seed
 */
#include "tests/random/draw.h"
#include "tools/pipeline.h"
#include "tools/verify.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
enum { SLOWER = 8 };
#else
enum { SLOWER = 1 };
#endif

enum result { GOOD, REFUSED, WRONG };

struct trial {
	struct arena *a;
	struct drawn spec;
	enum cg_protocol protocol;
	uint64_t seed;
	const char *said;
};

/* Refusals are code generation's and those of passes for what one kernel cannot do; all else is a mistake here or there. */
static bool only_refused(const struct diags *d)
{
	for (const struct diag *g = d->head; g; g = g->next)
		if (g->severity == DIAG_ERROR && g->code / 100 != 8 &&
		    g->code != DIAG_FUSE_COMPUTED && g->code != DIAG_ROWS_SHARDED)
			return false;
	return true;
}

static enum result verify(struct trial *t, struct pipe *p)
{
	struct vf_kernel vk = {
	        .f = p->kernel->f, .k = p->kernel->k, .rows = p->kernel->rows, .places = &p->d};
	struct vf_stage *st = arena_news(t->a, struct vf_stage, p->nstage + 1);
	int64_t tokens[] = {t->spec.tokens, 0, 1, (int64_t)t->spec.tp + 1};
	struct vf_options o = {.tp = t->spec.tp,
	                       .tokens = tokens,
	                       .ntokens = 4,
	                       .launches = 4,
	                       .schedules = 2,
	                       .seed = t->seed,
	                       .sum = -1,
	                       .threads = 2};
	const struct ptx_module *m;
	struct vf_data *d;
	struct vf_result r;
	struct source *src;
	struct strbuf b;
	enum status s;

	for (size_t i = 0; i < p->nstage; i++)
		st[vk.nstage++] =
		        (struct vf_stage){p->stage[i].pass, ir_func_find(p->stage[i].m, "k")};
	vk.stage = st;
	strbuf_init(&b, t->a);
	ptx_print(p->kernel->k->module, &b);
	src = diags_add_source(&p->d, "kernel.ptx", b.s, b.n);
	m = src ? ptx_parse(t->a, &p->d, src) : NULL;
	if (!m || !ptx_verify(m, &p->d)) {
		strbuf_init(&b, t->a);
		diags_render(&p->d, DIAG_WARNING, &b);
		t->said = b.s;
		return WRONG;
	}
	if (vf_data_new(&vk, &o, t->a, &d, &t->said) != ST_OK)
		return WRONG;
	s = vf_run(d, m, b.s, t->a, &r);
	vf_data_free(d);
	if (s == ST_OK && r.failure.kind == VF_GOOD)
		return GOOD;
	strbuf_init(&b, t->a);
	vf_print_failure(&r.failure, "spec", &b);
	t->said = b.s;
	return WRONG;
}

static enum result try(struct trial *t)
{
	struct args args = {.command = CMD_VERIFY,
	                    .arena = t->a,
	                    .tp = t->spec.tp,
	                    .protocol = t->protocol,
	                    .wide = t->seed % 3 == 0,
	                    .sum = -1};
	struct pipe p;
	struct strbuf b;
	enum status s;

	args.target = cg_target_by_name("sm_90");
	pipe_init(&p, t->a, &args);
	p.keep_stages = true;
	p.src = diags_add_source(&p.d, "random.plait", t->spec.text, strlen(t->spec.text));
	pipe_parse(&p);
	s = pipe_lower(&p);
	if (s == ST_OK)
		s = pipe_passes(&p, cg_protocol_rows(t->protocol), NULL);
	if (s == ST_OK)
		s = pipe_codegen(&p, t->protocol);
	if (s == ST_OK)
		return verify(t, &p);
	strbuf_init(&b, t->a);
	diags_render(&p.d, DIAG_WARNING, &b);
	t->said = b.s;
	return s == ST_INPUT && only_refused(&p.d) ? REFUSED : WRONG;
}

static void complain(const struct trial *t)
{
	const char *c = arena_printf(
	        t->a, "seed %llu, tp %u, T %lld, %s%s\n%s\n%s", (unsigned long long)t->seed,
	        t->spec.tp, (long long)t->spec.tokens, cg_protocol_name(t->protocol),
	        t->seed % 3 == 0 ? ", vector by vector" : "", t->spec.text, t->said);

	while (*c) {
		size_t n = strcspn(c, "\n");

		printf("# %.*s\n", (int)n, c);
		c += n + (c[n] == '\n');
	}
}

static enum result one(uint64_t seed, bool refusals)
{
	struct arena a;
	struct trial t = {.a = &a, .seed = seed, .said = ""};
	enum result r;

	arena_init(&a, 0);
	if (setjmp(a.oom)) {
		printf("# seed %llu: out of memory\n", (unsigned long long)seed);
		arena_free(&a);
		return WRONG;
	}
	t.spec = draw_spec(&a, seed);
	t.protocol = seed % 2 ? CG_AUTO : (enum cg_protocol)(seed / 2 % CG_NPROTOCOLS);
	r = try(&t);
	if (r == WRONG || (r == REFUSED && refusals))
		complain(&t);
	arena_free(&a);
	return r;
}

static int print_spec(const char *seed)
{
	struct arena a;
	struct drawn d;

	arena_init(&a, 0);
	if (setjmp(a.oom))
		return 3;
	d = draw_spec(&a, strtoull(seed, NULL, 10));
	printf("// --tp %u --tokens %lld\n%s", d.tp, (long long)d.tokens, d.text);
	arena_free(&a);
	return 0;
}

int main(int argc, char **argv)
{
	bool refusals = argc == 4 && !strcmp(argv[3], "refusals");
	uint64_t first, count;
	unsigned n[3] = {0};

	if (argc == 3 && !strcmp(argv[1], "--print"))
		return print_spec(argv[2]);
	if (argc != 3 && !refusals) {
		fputs("usage: random_specs FIRST COUNT [refusals], or --print SEED\n", stderr);
		return 2;
	}
	first = strtoull(argv[1], NULL, 10);
	count = strtoull(argv[2], NULL, 10);
	for (uint64_t s = first; s < first + count / SLOWER; s++) {
		n[one(s, refusals)]++;
		fflush(stdout);
	}
	printf("%sok 1 - every random spec verifies or is refused\n# good %u, refused %u, wrong "
	       "%u\n",
	       n[WRONG] ? "not " : "", n[GOOD], n[REFUSED], n[WRONG]);
	printf("%sok 2 - most of them verify\n1..2\n", n[GOOD] < n[REFUSED] ? "not " : "");
	return n[WRONG] || n[GOOD] < n[REFUSED];
}
