/* Every template of templates/ with dummy operands, and what is refused. */
#include "tests/unit/unit.h"
#include "tests/unit/ptxas.h"
#include "codegen/ptx/build.h"
#include <string.h>

enum { MAX_HOLES = 32 };

struct setting {
	struct arena arena;
	struct diags diags;
	struct ptx_module *m;
	struct ptx_fn *f;
	struct ptx_opnd end;
};

static void set_up(struct setting *s)
{
	arena_init(&s->arena, 0);
	if (setjmp(s->arena.oom))
		fail();
	diags_init(&s->diags, &s->arena);
	s->m = ptx_module_new(&s->arena, 78, 90, 0);
	s->f = ptx_fn_new(s->m, "k");
	s->end = ptx_label_new(s->f, "done");
}

static const char *rendered(struct setting *s)
{
	struct strbuf b;

	strbuf_init(&b, &s->arena);
	diags_render(&s->diags, DIAG_REMARK, &b);
	return b.s;
}

static struct ptx_opnd dummy(struct setting *s, const struct ptx_hole *h)
{
	enum ptx_class c = h->type < PTX_NTYPES ? ptx_type_info[h->type].cls : PTX_C_B64;
	struct ptx_opnd o;

	switch (h->kind) {
	case PTX_HOLE_LABEL:
		return s->end;
	case PTX_HOLE_SYM:
		return ptx_var_add(s->f, PTX_SHARED, PTX_T_b8, 16, 256, h->name);
	default:
		o = h->n > 1 ? ptx_vec_reg(s->f, c, h->n) : ptx_reg(s->f, c);
	}
	for (unsigned k = 0; k < o.n; k++) {
		struct ptx_opnd r = h->n > 1 ? ptx_vec_get(o, k) : o;

		if (c == PTX_C_PRED)
			ptx_put_setp(s->f, PTX_EQ, PTX_T_u32, r, ptx_imm(0), ptx_imm(0));
		else
			ptx_put_mov(s->f,
			            c == PTX_C_B16                     ? PTX_T_b16
			            : c == PTX_C_B64 || c == PTX_C_F64 ? PTX_T_b64
			                                               : PTX_T_b32,
			            r, ptx_imm(0));
	}
	return o;
}

static size_t bind_all(struct setting *s, const struct ptx_template *t, struct ptx_bind *bind)
{
	size_t n = 0;

	for (const struct ptx_hole *h = t->holes; h->name; h++) {
		assert_true(n < MAX_HOLES);
		bind[n++] = (struct ptx_bind){h->name, dummy(s, h)};
	}
	return n;
}

/* Twice into one function: nothing clashes. */
static const char *expanded_twice(struct setting *s, const struct ptx_template *t)
{
	struct ptx_bind bind[MAX_HOLES];
	size_t n = bind_all(s, t, bind);
	struct strbuf text;

	for (int k = 0; k < 2; k++)
		if (!ptx_expand(s->f, t->name, bind, n, &s->diags))
			fail_msg("%s: %s", t->name, rendered(s));
	ptx_place(s->f, s->end);
	ptx_ret(s->f);
	ptx_module_minimum(s->m);
	if (!ptx_verify(s->m, &s->diags))
		fail_msg("%s: %s", t->name, rendered(s));
	strbuf_init(&text, &s->arena);
	ptx_print(s->m, &text);
	return text.s;
}

static void every_template_expands_verifies_and_prints_both_ways(void **state)
{
	(void)state;
	assert_non_null(ptx_templates[0].name);
	for (const struct ptx_template *t = ptx_templates; t->name; t++) {
		struct setting s;
		struct ptx_module *back;
		struct strbuf again;
		const char *text;

		set_up(&s);
		text = expanded_twice(&s, t);
		back = ptx_parse(&s.arena, &s.diags,
		                 diags_add_source(&s.diags, "again", text, strlen(text)));
		if (!back)
			fail_msg("%s", rendered(&s));
		strbuf_init(&again, &s.arena);
		ptx_print(back, &again);
		assert_string_equal(text, again.s);
		arena_free(&s.arena);
	}
}

static void ptxas_takes_every_template(void **state)
{
	(void)state;
	NEED_PTXAS;
	for (const struct ptx_template *t = ptx_templates; t->name; t++) {
		struct setting s;
		char first[2048];
		const char *text;

		set_up(&s);
		text = expanded_twice(&s, t);
		if (ptxas_run(text, strlen(text), s.m->sm, 0, NULL, 0, first, sizeof first) != 1)
			fail_msg("%s: %s\n%s", t->name, first, text);
		arena_free(&s.arena);
	}
}

static bool reports(struct setting *s, enum diag_code code)
{
	for (const struct diag *g = s->diags.head; g; g = g->next)
		if (g->code == code)
			return true;
	print_error("no E%d in: %s\n", (int)code, rendered(s));
	return false;
}

static void each_hole_must_be_bound(void **state)
{
	(void)state;
	for (const struct ptx_template *t = ptx_templates; t->name; t++) {
		struct ptx_bind bind[MAX_HOLES];
		struct setting s;
		size_t n;

		set_up(&s);
		n = bind_all(&s, t, bind);
		if (n) {
			assert_false(ptx_expand(s.f, t->name, bind, n - 1, &s.diags));
			assert_true(reports(&s, DIAG_PTX_UNBOUND));
		}
		arena_free(&s.arena);
	}
}

static void each_hole_takes_its_kind_only(void **state)
{
	(void)state;
	for (const struct ptx_template *t = ptx_templates; t->name; t++) {
		struct ptx_bind bind[MAX_HOLES];
		struct setting s;
		size_t n;

		set_up(&s);
		n = bind_all(&s, t, bind);
		if (n) {
			bool pred =
			        bind[0].value.kind == PTX_REG && bind[0].value.cls == PTX_C_PRED;

			bind[0].value = ptx_reg(s.f, pred ? PTX_C_B32 : PTX_C_PRED);
			assert_false(ptx_expand(s.f, t->name, bind, n, &s.diags));
			assert_true(reports(&s, DIAG_PTX_HOLE));
		}
		arena_free(&s.arena);
	}
}

static void what_is_no_hole_or_no_template_is_refused(void **state)
{
	struct ptx_bind bind[MAX_HOLES + 1];
	struct setting s;
	size_t n;

	(void)state;
	set_up(&s);
	n = bind_all(&s, &ptx_templates[0], bind);
	bind[n] = (struct ptx_bind){"nothing", ptx_imm(1)};
	assert_false(ptx_expand(s.f, ptx_templates[0].name, bind, n + 1, &s.diags));
	assert_true(reports(&s, DIAG_PTX_UNUSED));
	assert_false(ptx_expand(s.f, "nothing", bind, n, &s.diags));
	assert_true(reports(&s, DIAG_PTX_TEMPLATE));
	ptx_guard(s.f, ptx_reg(s.f, PTX_C_PRED), false);
	assert_false(ptx_expand(s.f, ptx_templates[0].name, bind, n, &s.diags));
	assert_true(reports(&s, DIAG_PTX_BUILD));
	arena_free(&s.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(every_template_expands_verifies_and_prints_both_ways),
	        cmocka_unit_test(ptxas_takes_every_template),
	        cmocka_unit_test(each_hole_must_be_bound),
	        cmocka_unit_test(each_hole_takes_its_kind_only),
	        cmocka_unit_test(what_is_no_hole_or_no_template_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
