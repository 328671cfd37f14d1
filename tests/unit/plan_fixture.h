/* Models for tests of the planner: of a spec, and drawn at random. */
#pragma once
#include "planner/gemm.h"
#include "frontend/frontend.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct plan_fixture {
	struct arena arena;
	struct diags d;
	uint64_t random;
};

static inline int plan_set_up(void **state)
{
	struct plan_fixture *f = calloc(1, sizeof *f);

	assert_non_null(f);
	arena_init(&f->arena, 0);
	if (setjmp(f->arena.oom))
		abort();
	diags_init(&f->d, &f->arena);
	f->random = 0x9e3779b97f4a7c15u;
	*state = f;
	return 0;
}

static inline int plan_tear_down(void **state)
{
	struct plan_fixture *f = *state;

	arena_free(&f->arena);
	free(f);
	return 0;
}

/* From lo to hi. */
static inline int64_t draw(struct plan_fixture *f, int64_t lo, int64_t hi)
{
	f->random ^= f->random << 13;
	f->random ^= f->random >> 7;
	f->random ^= f->random << 17;
	return lo + (int64_t)(f->random % (uint64_t)(hi - lo + 1));
}

static inline const struct fe_steps *spec_steps(struct plan_fixture *f, const char *text,
                                                size_t len, unsigned tp)
{
	struct source *src = diags_add_source(&f->d, "spec.plait", text, len);
	struct fe_steps *steps = NULL;
	struct fe_options o = {.tp = tp, .steps = &steps};
	struct strbuf b;

	if (fe_lower(&f->arena, &f->d, fe_parse(&f->arena, &f->d, src), &o))
		return steps;
	strbuf_init(&b, &f->arena);
	diags_render(&f->d, DIAG_WARNING, &b);
	print_error("%s", b.s);
	return NULL;
}

static inline struct pl_model *sample(struct plan_fixture *f, const char *name, unsigned tp)
{
	char *path = arena_printf(&f->arena, "samples/%s.plait", name), *text;
	FILE *file = fopen(path, "rb");
	const struct fe_steps *steps;
	const char *why;
	size_t n;

	assert_non_null(file);
	text = arena_alloc(&f->arena, 65536);
	n = fread(text, 1, 65535, file);
	fclose(file);
	steps = spec_steps(f, text, n, tp);
	assert_non_null(steps);
	return pl_model_make(&f->arena, steps, tp, &why);
}

static inline struct pl_op gemm_op(const char *name, int64_t n, int64_t k)
{
	return (struct pl_op){.kind = PL_GEMM,
	                      .name = name,
	                      .share = 1,
	                      .n = n,
	                      .k = k,
	                      .x_bits = 16,
	                      .w_bits = 16,
	                      .out_bits = 16};
}

/* A model of `nshape` segments, each of `ngemm` GEMMs and perhaps attention, `layers` times. */
static inline struct pl_model *random_model(struct plan_fixture *f, unsigned nshape, unsigned ngemm,
                                            unsigned layers)
{
	struct pl_model *m = arena_new(&f->arena, struct pl_model);
	struct pl_segment *shape = arena_news(&f->arena, struct pl_segment, nshape);
	uint32_t *seq = arena_news(&f->arena, uint32_t, nshape * layers);

	for (unsigned i = 0; i < nshape; i++) {
		unsigned attention = draw(f, 0, 1) ? 1 : 0;
		struct pl_op *op = arena_news(&f->arena, struct pl_op, ngemm + 1);
		double row = (double)(draw(f, 1, 8) * 2048);

		for (unsigned k = 0; k < ngemm; k++)
			op[k] = gemm_op("g", draw(f, 2, 60) * 128, draw(f, 4, 60) * 128);
		if (attention)
			op[ngemm] = (struct pl_op){.kind = PL_ATTENTION,
			                           .name = "a",
			                           .share = 1,
			                           .heads = draw(f, 1, 16),
			                           .kv_heads = 1,
			                           .dim = 128,
			                           .x_bits = 16};
		shape[i] = (struct pl_segment){.nop = ngemm + attention, .op = op, .count = layers};
		shape[i].tail = (struct pl_tail){.kernel = i ? "tail b" : "tail a",
		                                 .sums = 1,
		                                 .gathers = 1,
		                                 .message = row,
		                                 .sum_bytes = row,
		                                 .local_bytes = 4 * row,
		                                 .residual = true};
	}
	for (unsigned k = 0; k < nshape * layers; k++)
		seq[k] = k % nshape;
	*m = (struct pl_model){.name = "random",
	                       .tp = 8,
	                       .nshape = nshape,
	                       .nseq = nshape * layers,
	                       .shape = shape,
	                       .seq = seq};
	return m;
}

static inline struct pl_options plan_options(const char *gpu, unsigned tp)
{
	struct pl_options o = {.hysteresis = -1};

	assert_true(pl_machine_find(gpu, tp, true, &o.machine));
	return o;
}
