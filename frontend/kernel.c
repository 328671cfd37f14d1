/*
 * Kernels to IR: parameters, statements, options.
 */
#include "frontend/sema.h"
#include <string.h>

enum { MAX_ALIGN = 256 };

void fe_finish_func(struct fe *fe, struct ir_func *f)
{
	fe->done = arena_grow(fe->arena, fe->done, fe->ndone, &fe->done_cap, fe->ndone + 1,
	                      sizeof(struct ir_func *));
	fe->done[fe->ndone++] = f;
}

/* ---- parameters ---- */

/* [T, n], [n] or []. */
static bool read_dims(const struct fe_ctx *cx, const struct ast *type, struct ir_type *t)
{
	size_t n = ast_count(type->kids);
	const struct ast *cols = type->kids;
	bool rows = fe_is_rows(cols);
	int64_t v;

	t->ndim = (uint8_t)n;
	t->cols = 1;
	if (n == 0)
		return true;
	if (n > 2 || rows != (n == 2)) {
		fe_error(cx, DIAG_DIMS, type->at,
		         "extents are [T, n] for rows, [n] for a vector, [] for a scalar",
		         n == 1 ? "a column of T values has two extents"
		                : "these are not the extents of a parameter");
		if (n == 1)
			fe_note(cx, (struct span){0, 0}, "write [T, 1]");
		return false;
	}
	if (rows)
		cols = cols->next;
	if (!fe_want_int(cx, cols, &v, NULL))
		return false;
	if (v < 1 || v > IR_MAX_COLS) {
		fe_error(cx, DIAG_EXTENT, cols->at, NULL,
		         "an extent is from 1 to %lld, this is %lld", (long long)IR_MAX_COLS,
		         (long long)v);
		return false;
	}
	t->cols = v;
	return true;
}

static bool read_place(const struct fe_ctx *cx, const struct ast *p, const struct ast *a,
                       struct ir_type *t, enum ir_mode mode)
{
	int place = a ? ir_place_by_name(a->name, strlen(a->name)) : IR_REPLICATED;
	static const char *const in_models[] = {"columns", "rows", "local"};

	if (place < 0) {
		bool model = false;
		const char *near = nearest_name(a->name, ir_place_name, IR_NPLACES);

		for (int i = 0; i < 3; i++)
			model |= !strcmp(a->name, in_models[i]);
		fe_error(cx, DIAG_PLACE_UNKNOWN, a->at,
		         "a parameter is replicated, partial, sharded or carried",
		         model ? "'%s' is a placement of models only" : "'%s' is not a placement",
		         a->name);
		if (near && !model)
			fe_note(cx, (struct span){0, 0}, "did you mean '%s'?", near);
		return false;
	}
	t->place = (uint8_t)place;
	if (t->ndim != 2 && place != IR_REPLICATED) {
		fe_error(cx, DIAG_PLACE_PARAM, a->at, "leave the placement out",
		         "'%s' has no rows: it is replicated", p->name);
		return false;
	}
	if (place == IR_PARTIAL && mode != IR_IN) {
		fe_error(cx, DIAG_PLACE_PARAM, a->at, "an output is replicated, sharded or carried",
		         "'%s' is written, so it cannot be partial", p->name);
		return false;
	}
	return true;
}

static void read_layout(const struct fe_ctx *cx, const struct fe_attrs *a, struct ir_param *ip)
{
	int64_t bits = ir_dtype_info[ip->type.dtype].bits, v;

	if (a->ld && fe_want_int(cx, a->ld->value, &v, NULL)) {
		if (ip->type.ndim != 2)
			fe_error(cx, DIAG_LD, a->ld->at, "leave it out", "'%s' has no rows",
			         ip->name);
		else if (v < ip->type.cols || v > 4 * IR_MAX_COLS)
			fe_error(cx, DIAG_LD, a->ld->at,
			         "it is the distance of two rows, in elements",
			         "a leading dimension of %lld for rows of %lld", (long long)v,
			         (long long)ip->type.cols);
		else
			ip->ld = v;
	}
	if (a->align && fe_want_int(cx, a->align->value, &v, NULL)) {
		int64_t row = (ip->ld ? ip->ld : ip->type.cols) * bits;

		if (v < 1 || v > MAX_ALIGN || (v & (v - 1)))
			fe_error(cx, DIAG_ALIGN, a->align->at, "in bytes: a power of two up to 256",
			         "%lld is not an alignment", (long long)v);
		else if (ip->type.ndim == 2 && row % (8 * v))
			fe_error(cx, DIAG_ALIGN, a->align->at,
			         "each row is aligned, not only the first: choose 'ld' accordingly",
			         "rows %lld elements apart are not aligned to %lld bytes",
			         (long long)(row / bits), (long long)v);
		else
			ip->align = (unsigned)v;
	}
}

/* One parameter into the function and the scope of its body. */
static void add_param(struct fe_ctx *cx, struct fe_scope *env, struct ast *p, bool output)
{
	struct fe_symbol *y = fe_scope_add(env,
	                                   output    ? FE_SYM_OUT
	                                   : p->flag ? FE_SYM_INOUT
	                                             : FE_SYM_PARAM,
	                                   p->name, p->name_at, p);
	struct fe_attrs a = fe_read_attrs(cx, p->attrs);
	struct ir_param ip = {.name = p->name,
	                      .at = p->at,
	                      .mode = output    ? IR_OUT
	                              : p->flag ? IR_INOUT
	                                        : IR_IN};
	enum ir_dtype t = IR_F32;
	bool present = true, ok;

	if (a.when && !fe_want_bool(cx, a.when->value, &present))
		return;
	ok = fe_type_dtype(cx, p->type, &t);
	ip.type.dtype = (uint8_t)t;
	ok = read_dims(cx, p->type, &ip.type) && ok;
	ok = ok && read_place(cx, p, a.place, &ip.type, ip.mode);
	if (!ok)
		return;
	read_layout(cx, &a, &ip);
	y->val.kind = FE_ABSENT;
	if (!present)
		return;
	y->param = ir_param_add(cx->f, ip);
	y->val.kind = FE_TENSOR;
	if (output)
		return;
	y->val.v = ir_value_new(cx->f, IR_OP_PARAM, p->name_at, 0, NULL);
	y->val.v->param = y->param;
	y->val.v->name = p->name;
	y->val = fe_emit(cx, y->val.v, NULL);
}

/* ---- statements ---- */

static void bind(struct fe_ctx *cx, const struct ast *s)
{
	struct fe_val v = fe_expr(cx, s->value);
	struct fe_symbol *y;
	enum ir_dtype t;

	if (s->type && fe_type_dtype(cx, s->type, &t))
		v = fe_cast(cx, v, t, s->value->at);
	if (v.kind == FE_ABSENT)
		fe_tensor(cx, v, s->value->at);
	if (v.kind == FE_ABSENT)
		v.kind = FE_BAD;
	if (v.kind == FE_TENSOR && !v.v->name)
		v.v->name = s->name;
	/* names.c has said what is wrong with a name bound twice; the first stands */
	if (fe_scope_own(cx->scope, s->name))
		return;
	y = fe_scope_add(cx->scope, FE_SYM_LOCAL, s->name, s->name_at, (struct ast *)s);
	y->val = v;
}

static void write_out(struct fe_ctx *cx, const struct ast *s)
{
	struct fe_symbol *y = fe_scope_own(cx->scope, s->name);
	const struct ir_param *p;
	struct ir_value *src, *v;
	struct fe_val val;

	if (!y || (y->kind != FE_SYM_OUT && y->kind != FE_SYM_INOUT) || y->val.kind == FE_ABSENT ||
	    y->written)
		return;
	y->written = true;
	src = fe_tensor(cx, fe_expr(cx, s->value), s->value->at);
	if (!src || y->val.kind == FE_BAD)
		return;
	p = &cx->f->param[y->param];
	if (src->type.ndim != p->type.ndim || src->type.cols != p->type.cols) {
		fe_error(cx, DIAG_TYPE_SHAPE, s->value->at, NULL, "'%s' is %s, this value is %s",
		         s->name, ir_type_text(cx->fe->arena, p->type),
		         ir_type_text(cx->fe->arena, src->type));
		return;
	}
	/* a partial value cannot be stored at all, which is more to the point than that it cannot
	 * be cast */
	if (src->type.place != IR_PARTIAL && src->type.dtype != IR_BOOL) {
		val = fe_cast(cx, (struct fe_val){.kind = FE_TENSOR, .v = src},
		              (enum ir_dtype)p->type.dtype, s->value->at);
		src = val.v;
	}
	if (!src)
		return;
	v = ir_value_new(cx->f, IR_OP_OUT, s->at, 1, &src);
	v->param = y->param;
	if (src->type.place == IR_PARTIAL) {
		fe_error(cx, ir_type_error_code(IR_PLACE_STORE), s->value->at,
		         ir_type_error_fix(IR_PLACE_STORE), "%s",
		         ir_type_error_text(cx->fe->arena, IR_PLACE_STORE, v, 0));
		return;
	}
	fe_emit(cx, v, &s->value->at);
}

static void set_option(struct fe_ctx *cx, const struct ast *s)
{
	static const char *const names[] = {"rank_divergence", "merged_sums"};
	struct ir_func *f = cx->f;
	bool *option;
	const char *near;

	if (cx->fn) {
		fe_error(cx, DIAG_OPTION, s->at, "put it into the kernel",
		         "a function has no options");
		return;
	}
	option = !s->flag                              ? &f->deterministic
	         : !strcmp(s->name, "rank_divergence") ? &f->rank_divergence
	         : !strcmp(s->name, "merged_sums")     ? &f->merged_sums
	                                               : NULL;
	if (!option) {
		near = nearest_name(s->name, names, 2);
		fe_error(cx, DIAG_OPTION, s->name_at,
		         "what can be allowed: rank_divergence, merged_sums",
		         "'%s' cannot be allowed", s->name);
		if (near)
			fe_note(cx, (struct span){0, 0}, "did you mean '%s'?", near);
		return;
	}
	if (*option)
		fe_error(cx, DIAG_OPTION, s->at, "once is enough", "this is said twice");
	*option = true;
	if (f->deterministic && f->rank_divergence)
		fe_error(cx, DIAG_OPTION_CLASH, s->at, "remove one of them",
		         "'deterministic' and 'allow rank_divergence' exclude each other");
}

struct fe_val fe_body(struct fe_ctx *cx, const struct ast *body)
{
	struct fe_val result = {.kind = FE_BAD};

	for (const struct ast *s = body; s; s = s->next) {
		switch (s->kind) {
		case AST_BIND:
			bind(cx, s);
			break;
		case AST_OUT:
			write_out(cx, s);
			break;
		case AST_RETURN:
			result = fe_expr(cx, s->value);
			break;
		case AST_ASSERT:
			fe_check_assert(cx, s);
			break;
		case AST_OPTION:
			set_option(cx, s);
			break;
		default:
			break;
		}
	}
	return result;
}

void fe_lower_kernel(struct fe *fe, struct ast *kernel)
{
	struct fe_scope env;
	struct fe_ctx cx = {.fe = fe, .scope = &env, .walked = true};
	struct fe_symbol *self = fe_scope_own(&fe->file, kernel->name);
	unsigned before = fe->diags->nerror;

	fe_scope_init(&env, fe->arena, &fe->file);
	cx.f = ir_func_new(fe->module, kernel->name, true, kernel->name_at);
	for (struct ast *p = kernel->kids; p; p = p->next)
		if (!fe_scope_own(&env, p->name))
			add_param(&cx, &env, p, false);
	for (struct ast *p = kernel->outs; p; p = p->next)
		if (!fe_scope_own(&env, p->name))
			add_param(&cx, &env, p, true);
	if (self && self->decl == kernel && fe->diags->nerror == before)
		self->func = cx.f;
	fe_body(&cx, kernel->body);
	fe_finish_func(fe, cx.f);
}
