/* For tests of ir/: an arena, diagnostics, and IR from text. */
#pragma once
#include "tests/unit/unit.h"
#include "ir/ir.h"
#include <string.h>

struct ir_fixture {
	struct arena arena;
	struct diags d;
};

static inline int ir_set_up(void **state)
{
	static struct ir_fixture f;

	arena_init(&f.arena, 0);
	if (setjmp(f.arena.oom))
		return -1;
	diags_init(&f.d, &f.arena);
	*state = &f;
	return 0;
}

static inline int ir_tear_down(void **state)
{
	struct ir_fixture *f = *state;

	arena_free(&f->arena);
	return 0;
}

static inline struct ir_module *ir_text(struct ir_fixture *f, const char *text)
{
	return ir_parse(&f->arena, &f->d, diags_add_source(&f->d, "test.ir", text, strlen(text)));
}

static inline const char *ir_shown(struct ir_fixture *f)
{
	struct strbuf b;

	strbuf_init(&b, &f->arena);
	diags_render(&f->d, DIAG_REMARK, &b);
	return b.s;
}

static inline const char *ir_printed(struct ir_fixture *f, const struct ir_module *m)
{
	struct strbuf b;

	strbuf_init(&b, &f->arena);
	ir_print(m, &b);
	return b.s;
}
