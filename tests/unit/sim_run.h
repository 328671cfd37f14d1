/* What tests of the simulator share: PTX text to a loaded kernel, a run, and the finding it ended
 * with. */
#pragma once
#include "sim/sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_test {
	struct arena arena;
	struct diags diags;
	struct sim_options o;
	struct sim *sim;
};

/* Fresh options: one rank, round robin, exact sums. */
static inline void sim_test_begin(struct sim_test *t)
{
	memset(t, 0, sizeof *t);
	arena_init(&t->arena, 0);
	if (setjmp(t->arena.oom)) {
		fprintf(stderr, "out of memory\n");
		abort();
	}
	t->o.ranks = 1;
	t->o.sum = SIM_SUM_EXACT;
	t->o.max_steps = 10000000;
}

static inline void sim_test_end(struct sim_test *t)
{
	arena_free(&t->arena);
}

static inline void sim_test_start(struct sim_test *t)
{
	t->sim = sim_new(&t->arena, &t->o);
}

static inline void sim_test_show(struct sim_test *t)
{
	struct strbuf b;

	strbuf_init(&b, &t->arena);
	diags_render(&t->diags, DIAG_REMARK, &b);
	if (t->sim)
		sim_render_findings(t->sim, &b);
	fprintf(stderr, "%s", b.s);
}

/* NULL, with the diagnostics shown, when the text is no PTX. */
static inline struct ptx_module *sim_test_parse(struct sim_test *t, const char *text)
{
	struct ptx_module *m;

	diags_init(&t->diags, &t->arena);
	m = ptx_parse(&t->arena, &t->diags,
	              diags_add_source(&t->diags, "test.ptx", text, strlen(text)));
	if (!m)
		sim_test_show(t);
	return m;
}

/* A kernel k(u64 a, u64 b, u64 c, u32 n) with registers of every class; `vars` are declarations. */
static inline const char *sim_test_text(struct sim_test *t, const char *vars, const char *body)
{
	return arena_printf(
	        &t->arena,
	        ".version 8.8\n.target sm_90\n.address_size 64\n"
	        ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n"
	        "{\n"
	        ".reg .pred %%p<16>; .reg .b16 %%h<32>; .reg .b32 %%r<64>; .reg .b64 %%rd<32>;\n"
	        ".reg .f32 %%f<32>; .reg .f64 %%fd<16>;\n"
	        "%s\n"
	        "ld.param.u64 %%rd0, [a]; ld.param.u64 %%rd1, [b]; ld.param.u64 %%rd2, [c];\n"
	        "ld.param.u32 %%r0, [n]; mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%ctaid.x;\n"
	        "%s\nret;\n}\n",
	        vars, body);
}

struct sim_test_args {
	uint64_t a, b, c;
	uint32_t n;
};

/* The launch block of that kernel is packed: 3 * 8 + 4 bytes. */
#define SIM_TEST_ARGS 28

static inline const struct sim_kernel *sim_test_load(struct sim_test *t, const char *vars,
                                                     const char *body)
{
	struct ptx_module *m = sim_test_parse(t, sim_test_text(t, vars, body));

	return m ? sim_load(t->sim, m, "k") : NULL;
}

/* Which check the run ended with; SIM_NCHECKS: none. */
static inline enum sim_check sim_test_found(const struct sim_test *t)
{
	const struct sim_finding *f = sim_findings(t->sim);

	return f ? f->check : SIM_NCHECKS;
}

/* A whole file, NUL-terminated, in the arena. */
static inline char *sim_test_file(struct sim_test *t, const char *name)
{
	FILE *f = fopen(name, "rb");
	char *s = NULL;
	long n;

	if (!f)
		return NULL;
	if (fseek(f, 0, SEEK_END) == 0 && (n = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0) {
		s = arena_alloc(&t->arena, (size_t)n + 1);
		if (fread(s, 1, (size_t)n, f) != (size_t)n)
			s = NULL;
	}
	fclose(f);
	return s;
}
