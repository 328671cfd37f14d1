/*
 * Mutants of a chain: llama3-70b's first_norm and add_norm on one residual, of which one kernel is
 * broken.  verify --chain must fail and say which kernel of the chain was the first to go wrong.
 */
#include "tests/mutants/mutants.h"
#include "tools/pipeline.h"
#include "tools/verify.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINKS = 3 };
static const char *const links[LINKS] = {"first_norm", "add_norm", "add_norm"};

/* What is done to the residual's loads or stores of a kernel. */
enum harm { NONE, NOT_WRITTEN, WRITTEN_FURTHER, READ_FURTHER };

static const struct broken {
	const char *name;
	unsigned link; /* whose text is broken */
	enum harm harm;
} mutants[] = {
        {"the chain as it was is good", 0, NONE},
        {"the first kernel writes no residual", 0, NOT_WRITTEN},
        {"the first kernel writes the residual a vector further", 0, WRITTEN_FURTHER},
        {"the second kernel reads a wrong residual", 1, READ_FURTHER},
        {"the third kernel reads a wrong residual", 2, READ_FURTHER},
        {"the third kernel writes no residual", 2, NOT_WRITTEN},
};

/* Rows of the residual: plain accesses of vectors; weights are loaded as constants, x and y by the
 * switch. */
static bool of_residual(const struct ptx_insn *i, bool store)
{
	return i->op == (store ? PTX_st : PTX_ld) && i->mod.space == PTX_GLOBAL && i->mod.vec &&
	       !i->mod.nc;
}

static bool apply(struct ptx_fn *f, enum harm harm)
{
	for (uint32_t i = 0; i < f->ninsn; i++) {
		struct ptx_insn *x = &f->insn[i];

		if (!of_residual(x, harm != READ_FURTHER))
			continue;
		for (unsigned k = 0; k < x->nopnd; k++)
			if (x->o[k].kind == PTX_MEM && harm != NOT_WRITTEN)
				x->o[k].imm += 16;
		if (harm == NOT_WRITTEN)
			mutant_drop(f, i);
		return true;
	}
	return false;
}

/* ---- running them ---- */

struct bench {
	struct pipe p;
	struct vf_data *d;
	struct vf_text good[LINKS];
	struct tap *tap;
};

/* Printed and read back. */
static struct vf_text text_of(struct bench *b, struct ptx_module *m)
{
	struct vf_text t = {NULL, NULL};
	struct strbuf text;

	strbuf_init(&text, b->p.a);
	ptx_print(m, &text);
	t.text = text.s;
	t.m = mutant_parse(b->p.a, &b->p.d, text.s);
	return t;
}

static void run(struct bench *b, const struct broken *x)
{
	struct vf_text t[LINKS], broken;
	const char *wrong = NULL;
	struct strbuf text;
	struct vf_result r;

	memcpy(t, b->good, sizeof t);
	broken = text_of(b, (struct ptx_module *)(uintptr_t)t[x->link].m);
	if (x->harm != NONE) {
		struct ptx_module *m = (struct ptx_module *)(uintptr_t)broken.m;

		if (!m || !apply(m->fn, x->harm)) {
			tap_say(b->tap, x->name, "the pattern is not in the text any more", "");
			return;
		}
		t[x->link] = text_of(b, m);
	}
	vf_run_chain(b->d, t, b->p.a, &r);
	strbuf_init(&text, b->p.a);
	if (r.failure.kind != VF_GOOD)
		vf_print_failure(&r.failure, b->p.args->spec, &text);
	if (x->harm == NONE)
		wrong = r.failure.kind == VF_GOOD ? NULL : "verify refuses it";
	else if (r.failure.kind == VF_GOOD)
		wrong = "verify passes it";
	else if (!r.failure.kernel || strcmp(r.failure.kernel, links[x->link]) != 0)
		wrong = "the report names another kernel";
	tap_say(b->tap, x->name, wrong, text.s);
}

static const struct pipe_kernel *find(const struct pipe *p, const char *name)
{
	for (size_t i = 0; i < p->nkernel; i++)
		if (!strcmp(p->kernel[i].k->name, name))
			return &p->kernel[i];
	return NULL;
}

static const char *prepare(struct bench *b)
{
	static const int64_t tokens[] = {5, 9};
	static struct vf_kernel vk[LINKS];
	struct vf_options o = {.tp = 4,
	                       .tokens = tokens,
	                       .ntokens = 2,
	                       .launches = 3,
	                       .schedules = 6,
	                       .sum = -1,
	                       .threads = 2};
	const char *error = NULL;

	if (pipe_all(&b->p) != ST_OK)
		return "the spec does not compile";
	for (unsigned i = 0; i < LINKS; i++) {
		const struct pipe_kernel *k = find(&b->p, links[i]);

		if (!k)
			return "a kernel is not in the spec";
		vk[i] = (struct vf_kernel){
		        .f = k->f, .k = k->k, .rows = k->rows, .places = &b->p.d};
		b->good[i] = text_of(b, k->k->module);
		if (!b->good[i].m)
			return "the printed text does not parse";
	}
	return vf_chain_new(vk, LINKS, &o, b->p.a, &b->d, &error) == ST_OK ? NULL : error;
}

void run_chain(const char *spec, struct tap *tap)
{
	struct fe_set set = {"hidden", "1024"};
	struct arena arena;
	struct args args = {.command = CMD_VERIFY,
	                    .arena = &arena,
	                    .tp = 4,
	                    .sum = -1,
	                    .protocol = CG_MM_TWOSHOT,
	                    .spec = spec,
	                    .set = &set,
	                    .nset = 1,
	                    .target = cg_target_by_name("sm_90")};
	struct bench b = {.tap = tap};
	const char *error;

	arena_init(&arena, 0);
	if (setjmp(arena.oom)) {
		puts("Bail out! out of memory");
		exit(1);
	}
	pipe_init(&b.p, &arena, &args);
	error = prepare(&b);
	if (error)
		tap_say(tap, "the chain is prepared", error, "");
	for (size_t i = 0; !error && i < sizeof mutants / sizeof *mutants; i++)
		run(&b, &mutants[i]);
	vf_data_free(b.d);
	arena_free(&arena);
}
