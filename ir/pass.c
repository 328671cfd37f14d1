/* Runs the passes: the table is the list, in order. */
#include "ir/pass.h"
#include <string.h>

/* clang-format off */
static const struct {
	const char *name;
	bool (*run)(struct ir_func *f, const struct ir_pass_options *o, struct diags *d);
	enum ir_form form;          /* after it */
} passes[] = {
#define IR_PASS(name, form) {#name, ir_pass_##name, IR_FORM_##form},
	IR_PASSES(IR_PASS)
#undef IR_PASS
};

const char *const ir_pass_names[] = {
#define IR_PASS(name, form) #name,
	IR_PASSES(IR_PASS)
#undef IR_PASS
	NULL,
};
/* clang-format on */

enum { NPASSES = sizeof(passes) / sizeof(passes[0]) };

static bool verify(const struct ir_module *m, enum ir_form form, const char *pass, struct diags *d)
{
	bool ok = true;

	for (const struct ir_func *f = m->funcs; f; f = f->next)
		ok &= ir_verify(f, form, d);
	if (!ok && pass)
		diag_note(d, (struct span){0},
		          "the program was wrong after pass '%s'; this is a bug of plait's", pass);
	return ok;
}

/* Fns have done their work once they stand in their callers. */
static void drop_fns(struct ir_module *m)
{
	struct ir_func **link = &m->funcs;

	while (*link) {
		if ((*link)->is_kernel)
			link = &(*link)->next;
		else
			*link = (*link)->next;
	}
	m->tail = link;
}

static void dump(const struct ir_module *m, const char *pass, struct strbuf *out)
{
	if (out->n)
		strbuf_putc(out, '\n');
	strbuf_printf(out, "// after %s\n", pass);
	ir_print(m, out);
}

/* One pass over all functions, then what the caller asked for. */
static enum status run(struct ir_module *m, unsigned i, const struct ir_pass_options *o,
                       struct diags *d)
{
	bool ok = true;

	/* Mistakes of all kernels are shown; one in a fn would come again in each of its callers.
	 */
	for (struct ir_func *f = m->funcs; f && (ok || f->is_kernel); f = f->next)
		ok &= passes[i].run(f, o, d);
	if (!ok)
		return ST_INPUT;
	if (passes[i].run == ir_pass_expand)
		drop_fns(m);
	if (!verify(m, passes[i].form, passes[i].name, d))
		return ST_INTERNAL;
	if (o->dump)
		dump(m, passes[i].name, o->dump);
	if (o->hook)
		o->hook(o->ctx, passes[i].name, m, passes[i].form);
	return ST_OK;
}

enum status ir_run_passes(struct ir_module *m, const struct ir_pass_options *o, struct diags *d)
{
	unsigned last = NPASSES - 1;
	enum status st = ST_OK;

	if (o->stop_after) {
		for (last = 0; last < NPASSES && strcmp(passes[last].name, o->stop_after); last++)
			;
		if (last == NPASSES)
			return ST_USAGE;
	}
	if (!verify(m, IR_FORM_SOURCE, NULL, d))
		return ST_INPUT;
	for (unsigned i = 0; !st && i <= last; i++)
		st = run(m, i, o, d);
	return st;
}
