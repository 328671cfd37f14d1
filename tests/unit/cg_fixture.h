/* For tests of codegen/: kernels from spec text, through the frontend and all passes. */
#pragma once
#include "tests/unit/unit.h"
#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/pass.h"
#include <stdio.h>
#include <string.h>

struct cg_fixture {
	struct arena arena;
	struct diags d;
};

/* clang-format off */
static const char cg_norms[] =
	"const hidden = 8192;\n"
	"kernel add_norm(x: bf16[T, hidden] partial, inout residual: bf16[T, hidden] carried, gamma: bf16[hidden])\n"
	"    -> y: bf16[T, hidden] replicated\n"
	"{\n"
	"    h = all_reduce(x) + residual;\n"
	"    out residual = h;\n"
	"    out y = rmsnorm(h, gamma, eps = 1e-5);\n"
	"}\n"
	"kernel layer(x: bf16[T, hidden] partial, inout residual: bf16[T, hidden] carried, w: bf16[hidden], b: bf16[hidden])\n"
	"    -> y: bf16[T, hidden] replicated\n"
	"{\n"
	"    h = all_reduce(x) + residual;\n"
	"    out residual = h;\n"
	"    out y = layernorm_bias(h, w, b, eps = 1e-5);\n"
	"}\n"
	"kernel sandwich(x: bf16[T, hidden] partial, inout residual: bf16[T, hidden] carried, w: bf16[hidden], v: bf16[hidden])\n"
	"    -> y: bf16[T, hidden] replicated\n"
	"{\n"
	"    h = rmsnorm(all_reduce(x), w, eps = 1e-6, offset = 1) + residual;\n"
	"    out residual = h;\n"
	"    out y = rmsnorm(h, v, eps = 1e-6, offset = 1);\n"
	"}\n";
/* clang-format on */

static inline void cg_begin(struct cg_fixture *f)
{
	arena_init(&f->arena, 0);
	diags_init(&f->d, &f->arena);
}

static inline int cg_set_up(void **state)
{
	static struct cg_fixture f;

	cg_begin(&f);
	if (setjmp(f.arena.oom))
		return -1;
	*state = &f;
	return 0;
}

static inline int cg_tear_down(void **state)
{
	struct cg_fixture *f = *state;

	arena_free(&f->arena);
	return 0;
}

static inline const char *cg_shown(struct cg_fixture *f)
{
	struct strbuf b;

	strbuf_init(&b, &f->arena);
	diags_render(&f->d, DIAG_WARNING, &b);
	return b.s;
}

/* The spec's kernels after all passes; `hidden` overrides the const of this name (0: as written).
 */
static inline struct ir_module *cg_fused(struct cg_fixture *f, const char *spec, unsigned hidden,
                                         unsigned tp)
{
	struct fe_set set = {"hidden", arena_printf(&f->arena, "%u", hidden)};
	struct fe_options fo = {.set = &set, .nset = hidden ? 1 : 0};
	struct ir_pass_options po = {.tp = tp};
	const struct source *src = diags_add_source(&f->d, "test.plait", spec, strlen(spec));
	struct ast_file *ast = fe_parse(&f->arena, &f->d, src);
	struct ir_module *m = ast ? fe_lower(&f->arena, &f->d, ast, &fo) : NULL;

	return m && ir_run_passes(m, &po, &f->d) == ST_OK ? m : NULL;
}

static inline struct cg_options cg_defaults(struct cg_fixture *f, const char *target)
{
	return (struct cg_options){.tp = 8,
	                           .target = cg_target_by_name(target),
	                           .spec_name = "test.plait",
	                           .places = &f->d};
}

/* Compiles kernel `name` (NULL: the first); NULL when that is refused, see cg_shown. */
static inline struct cg_kernel *cg_kernel_of(struct cg_fixture *f, const char *spec,
                                             const char *name, unsigned hidden,
                                             const struct cg_options *o)
{
	struct ir_module *m = cg_fused(f, spec, hidden, o->tp);
	struct cg_kernel *k = NULL;

	for (struct ir_func *g = m ? m->funcs : NULL; g; g = g->next)
		if (g->is_kernel && (!name || strcmp(g->name, name) == 0)) {
			if (cg_compile(g, o, &f->arena, &f->d, &k) == ST_OK)
				return k;
			return NULL;
		}
	return NULL;
}

static inline struct cg_kernel *cg_must(struct cg_fixture *f, const char *spec, const char *name,
                                        unsigned hidden, const char *target)
{
	struct cg_options o = cg_defaults(f, target);
	struct cg_kernel *k = cg_kernel_of(f, spec, name, hidden, &o);

	if (!k)
		fail_msg("%s", cg_shown(f));
	return k;
}

static inline const char *cg_text(struct cg_fixture *f, const struct cg_kernel *k)
{
	struct strbuf b;

	strbuf_init(&b, &f->arena);
	ptx_print(k->module, &b);
	return b.s;
}
