/*
 * The verifier.  Trusts nothing but the list of values: a pass may have left an operand out of the
 * list, a wrong type or a loop of definitions.  All mistakes are collected and shown in the printed
 * program.
 */
#include "ir/lex.h"
#include "ir/map.h"
#include "ir/text.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_ISSUES = 20 };

struct issue {
	const struct ir_value *v; /* NULL: the function's head */
	const char *text;
	struct issue *next;
};

struct check {
	const struct ir_func *f;
	enum ir_form form;
	struct arena *arena;
	struct issue *issues, **tail;
	unsigned n;
	struct ir_map seen; /* values before the one in hand */
	unsigned *written;  /* by parameter: how often */
	int rows;           /* FUSED: placement of the rows; -1: none met yet */
	int carried;        /* PLACED: likewise of carried parameters' rows */
};

__attribute__((format(printf, 3, 4))) static bool issue(struct check *c, const struct ir_value *v,
                                                        const char *fmt, ...)
{
	struct issue *i;
	va_list ap;

	if (c->n++ >= MAX_ISSUES)
		return false;
	i = arena_new(c->arena, struct issue);
	va_start(ap, fmt);
	i->text = arena_vprintf(c->arena, fmt, ap);
	va_end(ap);
	i->v = v;
	*c->tail = i;
	c->tail = &i->next;
	return false;
}

/* What is wrong with a type by itself; NULL: nothing. */
static const char *bad_type(struct ir_type t)
{
	if (t.dtype >= IR_NDTYPES)
		return "no such dtype";
	if (t.place >= IR_NPLACES)
		return "no such placement";
	if (t.ndim > 2)
		return "more than two dimensions";
	if (t.cols < 1 || t.cols > IR_MAX_COLS)
		return "columns are 1 to 1048576";
	if (t.ndim == 0 && t.cols != 1)
		return "a scalar has one column";
	if (t.ndim < 2 && t.place != IR_REPLICATED)
		return "a value without rows is replicated";
	return NULL;
}

static void check_param(struct check *c, unsigned i)
{
	const struct ir_param *p = &c->f->param[i];
	const char *bad = bad_type(p->type);

	if (!p->name) {
		issue(c, NULL, "parameter %u has no name", i);
		return;
	}
	if (bad)
		issue(c, NULL, "parameter '%s': %s", p->name, bad);
	else if (c->f->is_kernel && p->type.dtype == IR_BOOL)
		issue(c, NULL, "parameter '%s': bool is not stored", p->name);
	if (p->mode != IR_IN && !c->f->is_kernel)
		issue(c, NULL, "parameter '%s': a fn has no outputs", p->name);
	if (p->mode != IR_IN && p->type.place == IR_PARTIAL)
		issue(c, NULL, "parameter '%s': an output is not partial", p->name);
	if (p->ld && p->ld < p->type.cols)
		issue(c, NULL, "parameter '%s': its leading dimension is less than its columns",
		      p->name);
}

static void check_head(struct check *c)
{
	const struct ir_func *f = c->f;
	struct ir_table names;

	for (unsigned i = 0; i < f->nparam; i++)
		check_param(c, i);
	ir_table_init(&names, c->arena);
	for (unsigned i = 0; i < f->nparam; i++) {
		const char *name = f->param[i].name;

		if (name && ir_table_get(&names, name, strlen(name)))
			issue(c, NULL, "two parameters are called '%s'", name);
		if (name)
			ir_table_put(&names, name, strlen(name), &names);
	}
	if (f->deterministic && f->rank_divergence)
		issue(c, NULL, "deterministic excludes rank_divergence");
	if (f->is_kernel && f->result)
		issue(c, NULL, "a kernel has no result");
}

/* ---- what a form allows ---- */

/* clang-format off */
static const bool allowed[][3] = {
	/* by kind:            SOURCE PLACED FUSED */
	[IR_KIND_SOURCE]     = {true,  true,  true},
	[IR_KIND_ELEM]       = {true,  true,  true},
	[IR_KIND_ROW]        = {true,  true,  true},
	[IR_KIND_GROUP]      = {true,  true,  true},
	[IR_KIND_COLL]       = {true,  true,  false},
	[IR_KIND_MOVE]       = {true,  true,  false},
	[IR_KIND_SINK]       = {true,  true,  true},
	[IR_KIND_CALL]       = {true,  false, false},
};
/* clang-format on */

static bool op_allowed(unsigned op, enum ir_form form)
{
	if (op >= IR_OP_LOAD_SUM)
		return form == IR_FORM_FUSED;
	if (op == IR_OP_PARAM || op == IR_OP_OUT)
		return form != IR_FORM_FUSED;
	return allowed[ir_op_info[op].kind][form];
}

/* The form of a carried parameter's rows: one for all of them. */
static void check_carried(struct check *c, const struct ir_value *v)
{
	if (v->type.place != IR_SHARDED && v->type.place != IR_REPLICATED)
		return;
	if (c->carried >= 0 && c->carried != v->type.place)
		issue(c, v, "carried parameters have own rows or all rows, not both");
	c->carried = v->type.place;
}

/* PLACED: operands of row-local work agree, and a store moves no rows; no value is carried. */
static void check_placed(struct check *c, const struct ir_value *v)
{
	enum ir_place want;

	if (v->type.place == IR_CARRIED) {
		issue(c, v, "a carried value after pass place");
		return;
	}
	if ((v->op == IR_OP_OUT || v->op == IR_OP_PARAM) && v->type.ndim == 2 &&
	    c->f->param[v->param].type.place == IR_CARRIED) {
		check_carried(c, v);
	} else if (v->op == IR_OP_OUT && v->type.ndim == 2) {
		want = c->f->param[v->param].type.place == IR_REPLICATED ? IR_REPLICATED
		                                                         : IR_SHARDED;
		if (v->type.place != want)
			issue(c, v, "an implicit %s at a store after pass place",
			      want == IR_REPLICATED ? "gather" : "slice");
	}
	if (ir_op_info[v->op].kind == IR_KIND_COLL || ir_op_info[v->op].kind == IR_KIND_MOVE)
		return;
	for (unsigned i = 0; i < v->nsrc; i++)
		if (v->src[i]->type.ndim == 2 && v->src[i]->type.place == IR_REPLICATED &&
		    v->type.place == IR_SHARDED)
			issue(c, v, "operand %u is sliced implicitly after pass place", i);
}

/* FUSED: all values with rows have the same rows; a parameter is read before it is written. */
static void check_fused(struct check *c, const struct ir_value *v)
{
	if (v->type.ndim == 2) {
		if (v->type.place != IR_SHARDED && v->type.place != IR_REPLICATED)
			issue(c, v, "a %s value in a fused kernel", ir_place_name[v->type.place]);
		else if (c->rows >= 0 && c->rows != v->type.place)
			issue(c, v, "a fused kernel works on own rows or on all rows, not on both");
		c->rows = v->type.place;
	}
	if ((v->op == IR_OP_LOAD || v->op == IR_OP_LOAD_SUM) && c->written[v->param])
		issue(c, v, "'%s' is read after it was written", c->f->param[v->param].name);
}

/* ---- values ---- */

static bool check_operands(struct check *c, const struct ir_value *v)
{
	bool ok = true;

	for (unsigned i = 0; i < v->nsrc; i++) {
		if (!v->src || !v->src[i])
			ok = issue(c, v, "operand %u is missing", i);
		else if (!ir_map_get(&c->seen, v->src[i]))
			ok = issue(c, v,
			           "operand %u (%%%" PRIu32 ") is not defined before this line", i,
			           v->src[i]->id);
		else if (v->src[i]->op < IR_NOPS && ir_op_info[v->src[i]->op].kind == IR_KIND_SINK)
			ok = issue(c, v, "operand %u is a store, which has no result", i);
		else if (bad_type(v->src[i]->type))
			ok = false; /* said already, there */
	}
	return ok;
}

static bool check_access(struct check *c, const struct ir_value *v)
{
	const struct ir_op_info *op = &ir_op_info[v->op];
	const struct ir_param *p;

	if (op->kind != IR_KIND_SINK && (op->nsrc != 0 || v->op == IR_OP_CONST))
		return true;
	if (v->param >= c->f->nparam)
		return issue(c, v, "there is no parameter %u", v->param);
	p = &c->f->param[v->param];
	if (bad_type(p->type) || !p->name)
		return false;
	if (op->kind != IR_KIND_SINK)
		return p->mode != IR_OUT ||
		       issue(c, v, "'%s' is an output and cannot be read", p->name);
	if (p->mode == IR_IN)
		return issue(c, v, "'%s' is an input and cannot be written", p->name);
	if (c->written[v->param]++)
		return issue(c, v, "'%s' is written twice", p->name);
	return true;
}

static bool check_callee(struct check *c, const struct ir_value *v)
{
	const struct ir_func *g = c->f->module ? c->f->module->funcs : NULL;

	if (v->op != IR_OP_CALL)
		return true;
	while (g && g != c->f && g != v->callee)
		g = g->next;
	if (!v->callee || g != v->callee || g == c->f)
		return issue(c, v, "the function called does not stand before this one");
	return !v->callee->is_kernel || issue(c, v, "a kernel cannot be called");
}

static void check_type(struct check *c, const struct ir_value *v)
{
	struct ir_type t;
	unsigned bad;
	enum ir_type_error e = ir_infer(c->f, v, &t, &bad);

	if (e)
		issue(c, v, "%s", ir_type_error_text(c->arena, e, v, bad));
	else if (!ir_type_equal(t, v->type))
		issue(c, v, "the type should be %s", ir_type_text(c->arena, t));
	else if (c->form == IR_FORM_PLACED)
		check_placed(c, v);
	else if (c->form == IR_FORM_FUSED)
		check_fused(c, v);
}

static void check_value(struct check *c, const struct ir_value *v)
{
	const char *bad;

	if (v->op >= IR_NOPS) {
		issue(c, v, "there is no operation %u", v->op);
		return;
	}
	if (!op_allowed(v->op, c->form))
		issue(c, v, "'%s' is not allowed in this form", ir_op_info[v->op].text);
	if (ir_op_info[v->op].nsrc >= 0 && v->nsrc != (unsigned)ir_op_info[v->op].nsrc) {
		issue(c, v, "'%s' has %d operands, not %u", ir_op_info[v->op].text,
		      ir_op_info[v->op].nsrc, v->nsrc);
		return;
	}
	bad = bad_type(v->type);
	if (bad)
		issue(c, v, "%s", bad);
	if (check_operands(c, v) && check_access(c, v) && check_callee(c, v) && !bad)
		check_type(c, v);
}

static void check_values(struct check *c)
{
	const struct ir_value *prev = NULL;
	struct ir_map ids;
	size_t n = 0;

	for (const struct ir_value *v = c->f->first; v; v = v->next)
		n++;
	ir_map_init(&c->seen, c->arena, n);
	ir_map_init(&ids, c->arena, n);
	for (struct ir_value *v = c->f->first; v; v = v->next) {
		const void *id = (const void *)(((uintptr_t)v->id + 1) << 4);

		if (v->prev != prev || (!v->next && c->f->last != v))
			issue(c, v, "the list of values is broken here");
		if (ir_map_get(&ids, id))
			issue(c, v, "two values have the number %" PRIu32, v->id);
		ir_map_put(&ids, id, v);
		check_value(c, v);
		ir_map_put(&c->seen, v, v);
		prev = v;
	}
}

static void check_end(struct check *c)
{
	const struct ir_func *f = c->f;

	for (unsigned i = 0; i < f->nparam; i++)
		if (f->is_kernel && f->param[i].mode != IR_IN && !c->written[i])
			issue(c, NULL, "'%s' is never written",
			      f->param[i].name ? f->param[i].name : "?");
	if (!f->is_kernel && (!f->result || !ir_map_get(&c->seen, f->result)))
		issue(c, NULL, "the result of this fn is not one of its values");
	if (!f->is_kernel && c->form != IR_FORM_SOURCE)
		issue(c, NULL, "a fn after pass expand");
}

/* ---- report ---- */

static void put_issues(const struct check *c, const struct ir_value *v, struct strbuf *b)
{
	for (const struct issue *i = c->issues; i; i = i->next)
		if (i->v == v)
			strbuf_printf(b, "\t// ^ %s\n", i->text);
}

static const char *annotated(const struct check *c)
{
	struct ir_names names;
	struct strbuf b;

	strbuf_init(&b, c->arena);
	ir_names_init(&names, c->f, c->arena);
	ir_print_head(c->f, &b);
	strbuf_putc(&b, '\n');
	put_issues(c, NULL, &b);
	for (const struct ir_value *v = c->f->first; v; v = v->next) {
		strbuf_putc(&b, '\t');
		ir_print_value(&names, v, &b);
		strbuf_putc(&b, '\n');
		put_issues(c, v, &b);
	}
	strbuf_puts(&b, "}");
	return b.s;
}

bool ir_verify(const struct ir_func *f, enum ir_form form, struct diags *d)
{
	struct check c = {.f = f, .form = form, .arena = d->arena, .rows = -1, .carried = -1};

	c.tail = &c.issues;
	c.written = arena_news(c.arena, unsigned, f->nparam);
	check_head(&c);
	check_values(&c);
	check_end(&c);
	if (!c.n)
		return true;
	for (const struct issue *i = c.issues; i; i = i->next)
		diag_at(d, DIAG_ERROR, DIAG_IR_INVALID, i->v ? i->v->at : f->at, "in '%s': %s",
		        f->name, i->text);
	diag_note(d, (struct span){0}, "the program:\n%s", annotated(&c));
	return false;
}
