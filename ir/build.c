/* Making and editing functions: values, their list, and a deep copy of a module. */
#include "ir/ir.h"
#include "ir/map.h"
#include <string.h>

struct ir_module *ir_module_new(struct arena *a)
{
	struct ir_module *m = arena_new(a, struct ir_module);

	m->arena = a;
	m->tail = &m->funcs;
	return m;
}

struct ir_func *ir_func_new(struct ir_module *m, const char *name, bool is_kernel, struct span at)
{
	struct ir_func *f = arena_new(m->arena, struct ir_func);

	f->name = name;
	f->is_kernel = is_kernel;
	f->at = at;
	f->module = m;
	*m->tail = f;
	m->tail = &f->next;
	return f;
}

unsigned ir_param_add(struct ir_func *f, struct ir_param p)
{
	unsigned n = f->nparam;

	/* Room doubles whenever the count is a power of two. */
	if (!(n & (n - 1))) {
		struct ir_param *room =
		        arena_news(f->module->arena, struct ir_param, n ? 2 * (size_t)n : 1);

		if (n)
			memcpy(room, f->param, n * sizeof(*room));
		f->param = room;
	}
	f->param[n] = p;
	f->nparam = n + 1;
	return n;
}

struct ir_func *ir_func_find(const struct ir_module *m, const char *name)
{
	for (struct ir_func *f = m->funcs; f; f = f->next)
		if (!strcmp(f->name, name))
			return f;
	return NULL;
}

struct ir_value *ir_value_new(struct ir_func *f, enum ir_op op, struct span at, unsigned nsrc,
                              struct ir_value *const *src)
{
	struct ir_value *v = arena_new(f->module->arena, struct ir_value);
	enum ir_kind kind = ir_op_info[op].kind;

	v->op = (uint16_t)op;
	v->at = at;
	v->func = f;
	v->id = f->next_id++;
	v->nsrc = nsrc;
	v->src = arena_news(f->module->arena, struct ir_value *, nsrc);
	if (nsrc)
		memcpy(v->src, src, nsrc * sizeof(*src));
	v->type.dtype = IR_F32;
	if ((kind == IR_KIND_COLL || kind == IR_KIND_MOVE) && nsrc && src[0])
		v->type.dtype = src[0]->type.dtype;
	return v;
}

void ir_append(struct ir_func *f, struct ir_value *v)
{
	v->prev = f->last;
	v->next = NULL;
	if (f->last)
		f->last->next = v;
	else
		f->first = v;
	f->last = v;
}

void ir_insert_before(struct ir_func *f, struct ir_value *at, struct ir_value *v)
{
	v->prev = at->prev;
	v->next = at;
	if (at->prev)
		at->prev->next = v;
	else
		f->first = v;
	at->prev = v;
}

void ir_remove(struct ir_func *f, struct ir_value *v)
{
	if (v->prev)
		v->prev->next = v->next;
	else
		f->first = v->next;
	if (v->next)
		v->next->prev = v->prev;
	else
		f->last = v->prev;
	v->prev = v->next = NULL;
}

void ir_replace_uses(struct ir_func *f, struct ir_value *old, struct ir_value *by)
{
	for (struct ir_value *v = f->first; v; v = v->next)
		for (unsigned i = 0; i < v->nsrc; i++)
			if (v->src[i] == old)
				v->src[i] = by;
	if (f->result == old)
		f->result = by;
}

unsigned ir_count_uses(const struct ir_func *f, const struct ir_value *v)
{
	unsigned n = f->result == v;

	for (const struct ir_value *u = f->first; u; u = u->next)
		for (unsigned i = 0; i < u->nsrc; i++)
			n += u->src[i] == v;
	return n;
}

static const char *copy_name(struct arena *a, const char *s)
{
	return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

static struct ir_value *copy_value(struct arena *a, struct ir_func *to, const struct ir_value *v,
                                   struct ir_map *map)
{
	struct ir_value *c = arena_new(a, struct ir_value);

	*c = *v;
	c->func = to;
	c->name = copy_name(a, v->name);
	c->aux = NULL;
	c->callee = ir_map_get(map, v->callee);
	c->src = arena_news(a, struct ir_value *, v->nsrc);
	for (unsigned i = 0; i < v->nsrc; i++)
		c->src[i] = ir_map_get(map, v->src[i]);
	ir_map_put(map, v, c);
	return c;
}

static void copy_func(struct ir_module *m, const struct ir_func *f, struct ir_map *map)
{
	struct ir_func *c = ir_func_new(m, copy_name(m->arena, f->name), f->is_kernel, f->at);

	c->deterministic = f->deterministic;
	c->rank_divergence = f->rank_divergence;
	c->merged_sums = f->merged_sums;
	c->next_id = f->next_id;
	for (unsigned i = 0; i < f->nparam; i++) {
		struct ir_param p = f->param[i];

		p.name = copy_name(m->arena, p.name);
		ir_param_add(c, p);
	}
	for (const struct ir_value *v = f->first; v; v = v->next)
		ir_append(c, copy_value(m->arena, c, v, map));
	c->result = ir_map_get(map, f->result);
	ir_map_put(map, f, c);
}

struct ir_module *ir_module_copy(const struct ir_module *m, struct arena *a)
{
	struct ir_module *c = ir_module_new(a);
	struct ir_map map;
	size_t n = 0;

	for (const struct ir_func *f = m->funcs; f; f = f->next) {
		n++;
		for (const struct ir_value *v = f->first; v; v = v->next)
			n++;
	}
	ir_map_init(&map, a, n);
	for (const struct ir_func *f = m->funcs; f; f = f->next)
		copy_func(c, f, &map);
	return c;
}
