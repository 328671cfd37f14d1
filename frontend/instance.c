/*
 * Functions are text that takes any types.  A call makes (or finds) the IR function for its
 * signature: the types of tensor arguments and the values of constant ones, which are constants in
 * the body too.
 */
#include "frontend/sema.h"
#include "support/hash.h"
#include <string.h>

enum { MAX_CALL_DEPTH = 64, MAX_INSTANCES = 1 << 14 };

struct fe_instance {
	const char *key;
	struct ir_func *f;
	struct fe_val result; /* FE_TENSOR, a constant, or FE_BAD */
	size_t size;          /* values, all calls expanded */
};

static size_t place_of(const struct fe *fe, const char *key)
{
	size_t i = (size_t)hash_bytes(HASH_INIT, key, strlen(key)) & (fe->ninstance_slot - 1);

	while (fe->instances[i] && strcmp(fe->instances[i]->key, key))
		i = (i + 1) & (fe->ninstance_slot - 1);
	return i;
}

static void grow(struct fe *fe)
{
	struct fe_instance **old = fe->instances;
	size_t n = fe->ninstance_slot;

	fe->ninstance_slot = n ? 2 * n : 32;
	fe->instances = arena_news(fe->arena, struct fe_instance *, fe->ninstance_slot);
	for (size_t i = 0; i < n; i++)
		if (old[i])
			fe->instances[place_of(fe, old[i]->key)] = old[i];
}

static void add_to_key(struct strbuf *b, struct fe_val v)
{
	switch (v.kind) {
	case FE_INT:
		strbuf_printf(b, " i%lld", (long long)v.i);
		break;
	case FE_REAL:
		strbuf_printf(b, " r%a", v.r);
		break;
	case FE_BOOL:
		strbuf_printf(b, " b%d", v.b);
		break;
	case FE_DTYPE:
		strbuf_printf(b, " d%d", (int)v.dtype);
		break;
	case FE_TENSOR:
		strbuf_printf(b, " t%d.%d.%d.%lld", v.v->type.dtype, v.v->type.ndim,
		              v.v->type.place, (long long)v.v->type.cols);
		break;
	default:
		strbuf_puts(b, " -");
		break;
	}
}

struct call {
	const struct ast *e;
	const struct fe_symbol *fn;
	struct fe_val val[FE_MAX_ARGS];
	struct span at[FE_MAX_ARGS];
	bool given[FE_MAX_ARGS];
	unsigned n;
};

/* Binds the parameters in `env`; tensors become parameters of in->f. */
static void bind_params(struct fe_ctx *in, struct fe_scope *env, const struct call *c)
{
	unsigned i = 0;

	for (struct ast *p = c->fn->decl->kids; p && i < c->n; p = p->next, i++) {
		struct fe_val v = c->val[i];
		struct fe_ctx constant = *in;
		struct fe_symbol *y;

		constant.f = NULL;
		if (!c->given[i])
			v = fe_expr(&constant, p->value);
		if (v.kind == FE_TENSOR && c->given[i]) {
			struct ir_param ip = {.name = p->name, .type = v.v->type, .at = p->at};
			struct ir_value *pv = ir_value_new(in->f, IR_OP_PARAM, p->at, 0, NULL);

			pv->param = ir_param_add(in->f, ip);
			pv->name = p->name;
			v = fe_emit(in, pv, NULL);
		}
		y = fe_scope_add(env, FE_SYM_PARAM, p->name, p->name_at, p);
		y->val = v;
	}
}

static struct fe_instance *make_instance(struct fe_ctx *cx, const struct call *c, const char *key)
{
	struct fe *fe = cx->fe;
	const struct fe_scope *home =
	        fe_scope_own(&fe->file, c->fn->name) == c->fn ? &fe->file : &fe->prelude;
	struct fe_instance *inst = arena_new(fe->arena, struct fe_instance);
	struct fe_scope *env = arena_new(fe->arena, struct fe_scope);
	struct fe_ctx in = {.fe = fe,
	                    .scope = env,
	                    .caller = cx,
	                    .call_at = c->e->at,
	                    .fn = c->fn->decl,
	                    .depth = cx->depth + 1,
	                    .nest = cx->nest,
	                    .walked = true};

	inst->key = key;
	inst->f = ir_func_new(fe->module,
	                      arena_printf(fe->arena, "%s.%zu", c->fn->name, fe->ninstance + 1),
	                      false, c->fn->decl->name_at);
	fe_scope_init(env, fe->arena, (struct fe_scope *)home);
	in.f = inst->f;
	bind_params(&in, env, c);
	inst->result = fe_body(&in, c->fn->decl->body);
	inst->size = in.size;
	if (inst->result.kind == FE_TENSOR) {
		inst->f->result = inst->result.v;
		fe_finish_func(fe, inst->f);
	}
	return inst;
}

static struct fe_instance *find_instance(struct fe_ctx *cx, const struct call *c)
{
	struct fe *fe = cx->fe;
	struct fe_instance *inst;
	struct strbuf key;

	strbuf_init(&key, fe->arena);
	strbuf_printf(&key, "%u", c->fn->order);
	for (unsigned i = 0; i < c->n; i++)
		add_to_key(&key, c->val[i]);
	if (2 * fe->ninstance >= fe->ninstance_slot)
		grow(fe);
	inst = fe->instances[place_of(fe, key.s)];
	if (inst)
		return inst;
	inst = make_instance(cx, c, key.s);
	/* the body may have added instances, and made the table grow */
	if (2 * fe->ninstance >= fe->ninstance_slot)
		grow(fe);
	fe->instances[place_of(fe, key.s)] = inst;
	fe->ninstance++;
	return inst;
}

static struct fe_val emit_call(struct fe_ctx *cx, const struct call *c, struct fe_instance *inst)
{
	struct ir_value *src[FE_MAX_ARGS], *v;
	struct span at[FE_MAX_ARGS];
	unsigned n = 0;

	if (!cx->f) {
		fe_error(cx, DIAG_NOT_CONST, c->e->at, NULL, "this must be constant");
		return (struct fe_val){.kind = FE_BAD};
	}
	for (unsigned i = 0; i < c->n; i++)
		if (c->val[i].kind == FE_TENSOR) {
			src[n] = c->val[i].v;
			at[n++] = c->at[i];
		}
	v = ir_value_new(cx->f, IR_OP_CALL, c->e->at, n, src);
	v->callee = inst->f;
	cx->size += inst->size;
	return fe_emit(cx, v, at);
}

struct fe_val fe_call_fn(struct fe_ctx *cx, const struct ast *e, struct fe_symbol *fn)
{
	const char *names[FE_MAX_ARGS] = {NULL};
	struct fe_val none = {.kind = FE_BAD};
	struct call c = {.e = e, .fn = fn};
	struct fe_instance *inst;
	struct fe_args args;
	unsigned need = 0;
	bool ok = true;

	fn->used = true;
	if (fn->recursive)
		return none;
	if (!fn->checked) {
		fe_error(cx, DIAG_RECURSION, e->name_at,
		         "a constant calls functions that are declared before it",
		         "'%s' is declared later", e->name);
		return none;
	}
	for (const struct ast *p = fn->decl->kids; p && c.n < FE_MAX_ARGS; p = p->next) {
		names[c.n++] = p->name;
		need += p->value == NULL;
	}
	if (!fe_match_args(cx, e, names, c.n, need, &args))
		return none;
	for (unsigned i = 0; i < c.n; i++) {
		c.given[i] = args.arg[i] != NULL;
		if (!c.given[i])
			continue;
		c.at[i] = args.arg[i]->at;
		c.val[i] = fe_expr(cx, args.arg[i]);
		if (c.val[i].kind == FE_ABSENT)
			fe_tensor(cx, c.val[i], c.at[i]);
		ok &= c.val[i].kind != FE_BAD && c.val[i].kind != FE_ABSENT;
	}
	if (!ok)
		return none;
	if (cx->depth >= MAX_CALL_DEPTH) {
		fe_error(cx, DIAG_NESTING, e->at, NULL,
		         "functions call functions more than %d deep", MAX_CALL_DEPTH);
		return none;
	}
	if (cx->fe->ninstance >= MAX_INSTANCES) {
		if (!cx->fe->full)
			fe_error(cx, DIAG_TOO_LARGE, e->at,
			         "call them with the same types and constants, or split the spec",
			         "functions are called with more than %d signatures",
			         MAX_INSTANCES);
		cx->fe->full = true;
		return none;
	}
	inst = find_instance(cx, &c);
	return inst->result.kind == FE_TENSOR ? emit_call(cx, &c, inst) : inst->result;
}
