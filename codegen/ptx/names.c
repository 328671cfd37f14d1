/*
 * Names of the blocks that are open.  The array is a stack, so closing a block drops its tail; a
 * bucket's newest name is first, so the innermost meaning is found first.  Labels may be used
 * before they are placed, and from an inner block: at the end of a block an unplaced one moves
 * outwards, where it may turn out to be another (alias).
 */
#include "codegen/ptx/parse.h"
#include "support/hash.h"
#include <string.h>

enum { FIRST_BUCKETS = 256 };

static uint32_t *bucket_of(struct ptx_parser *p, const char *s, uint32_t n)
{
	uint64_t h = hash_bytes(HASH_INIT, s, n);

	return &p->bucket[(h ^ h >> 32) & (p->nbucket - 1)];
}

void ptx_names_init(struct ptx_parser *p)
{
	p->nbucket = FIRST_BUCKETS;
	p->bucket = arena_news(p->arena, uint32_t, p->nbucket);
	p->depth = 1;
}

static void link_name(struct ptx_parser *p, uint32_t k)
{
	uint32_t *b = bucket_of(p, p->name[k].s, p->name[k].n);

	p->name[k].next = *b;
	*b = k + 1;
}

static void grow_buckets(struct ptx_parser *p)
{
	p->nbucket *= 2;
	p->bucket = arena_news(p->arena, uint32_t, p->nbucket);
	for (uint32_t k = 0; k < p->nname; k++)
		link_name(p, k);
}

static struct ptx_name *push(struct ptx_parser *p, struct ptx_name n)
{
	if (p->nname >= PTX_MAX_NAMES) {
		ptx_err(p, DIAG_PTX_LIMIT, n.at, "there are more than %d names", PTX_MAX_NAMES);
		p->stop = true;
		return NULL;
	}
	p->name = arena_grow(p->arena, p->name, p->nname, &p->cap_name, (size_t)p->nname + 1,
	                     sizeof *p->name);
	p->name[p->nname] = n;
	link_name(p, p->nname++);
	if (p->nname > p->nbucket)
		grow_buckets(p);
	return &p->name[p->nname - 1];
}

static struct ptx_name *find(struct ptx_parser *p, const char *s, uint32_t n, bool range,
                             uint32_t from)
{
	for (uint32_t k = *bucket_of(p, s, n); k > from; k = p->name[k - 1].next) {
		struct ptx_name *e = &p->name[k - 1];

		if (e->n == n && (e->kind == PTX_N_RANGE) == range && memcmp(e->s, s, n) == 0)
			return e;
	}
	return NULL;
}

struct ptx_name *ptx_name_find(struct ptx_parser *p, const char *s, uint32_t n)
{
	return find(p, s, n, false, 0);
}

struct ptx_name *ptx_name_add(struct ptx_parser *p, const struct ptx_token *t,
                              enum ptx_name_kind kind)
{
	struct ptx_name *old = find(p, t->s, t->n, kind == PTX_N_RANGE, p->block[p->depth - 1]);

	if (old) {
		ptx_err(p, DIAG_PTX_TWICE, t->at, "'%.*s' is declared twice", (int)t->n, t->s);
		diag_note(p->diags, old->at, "here for the first time");
		return NULL;
	}
	return push(p, (struct ptx_name){.s = t->s, .n = t->n, .kind = kind, .at = t->at});
}

bool ptx_name_reg(struct ptx_parser *p, const char *s, uint32_t n, struct ptx_opnd *o)
{
	struct ptx_name *e = ptx_name_find(p, s, n);
	uint32_t number = 0, scale = 1;

	*o = (struct ptx_opnd){.kind = PTX_REG, .n = 1};
	if (e) {
		o->cls = e->cls;
		o->reg[0] = e->first;
		return e->kind == PTX_N_REG;
	}
	/* %r12 is number 12 of %r<N>, or number 2 of %r1<N> */
	for (uint32_t k = n; k-- > 1 && n - k <= 7 && s[k] >= '0' && s[k] <= '9'; scale *= 10) {
		number += (uint32_t)(s[k] - '0') * scale;
		if (s[k] == '0' && n - k > 1)
			continue; /* no leading zeros */
		e = find(p, s, k, true, 0);
		if (e && number < e->count) {
			o->cls = e->cls;
			o->reg[0] = e->first + number;
			return true;
		}
	}
	return false;
}

bool ptx_block_open(struct ptx_parser *p, struct span at)
{
	if (p->depth == PTX_MAX_DEPTH) {
		ptx_err(p, DIAG_PTX_LIMIT, at, "blocks are nested more than %d deep",
		        PTX_MAX_DEPTH - 1);
		p->stop = true;
		return false;
	}
	p->block[p->depth++] = p->nname;
	return true;
}

/* ---- labels ---- */

static uint32_t new_label(struct ptx_parser *p, const struct ptx_token *t)
{
	struct ptx_fn *f = p->fn;
	struct arena *a = p->arena;
	char *name = arena_strndup(a, t->s, t->n);
	uint32_t k = f->nlabel;

	if (p->tpl) {
		k = ptx_label_new(f, name).reg[0];
	} else {
		f->label = arena_grow(f->module->arena, f->label, k, &f->cap_label, (size_t)k + 1,
		                      sizeof *f->label);
		f->label[f->nlabel++] = (struct ptx_label){name, UINT32_MAX};
	}
	p->alias =
	        arena_grow(a, p->alias, p->nalias, &p->cap_alias, (size_t)k + 1, sizeof *p->alias);
	p->label_at = arena_grow(a, p->label_at, p->nalias, &p->cap_label_at, (size_t)k + 1,
	                         sizeof *p->label_at);
	memset(p->alias + p->nalias, 0, (k + 1 - p->nalias) * sizeof *p->alias);
	p->nalias = k + 1;
	p->label_at[k] = t->at;
	return k;
}

static struct ptx_name *find_label(struct ptx_parser *p, const char *s, uint32_t n, uint32_t from)
{
	struct ptx_name *e = find(p, s, n, false, from);

	return e && e->kind == PTX_N_LABEL ? e : NULL;
}

struct ptx_opnd ptx_label_use(struct ptx_parser *p, const struct ptx_token *t)
{
	struct ptx_name *e = ptx_name_find(p, t->s, t->n);
	struct ptx_opnd o = {.kind = PTX_LAB};

	if (e && e->kind == PTX_N_LABEL) {
		o.reg[0] = e->first;
		return o;
	}
	e = ptx_name_add(p, t, PTX_N_LABEL);
	if (!e)
		return (struct ptx_opnd){0};
	o.reg[0] = new_label(p, t);
	p->name[p->nname - 1].first = o.reg[0];
	return o;
}

void ptx_label_here(struct ptx_parser *p, const struct ptx_token *t)
{
	struct ptx_name *e = find_label(p, t->s, t->n, p->block[p->depth - 1]);

	if (!e || p->fn->label[e->first].at != UINT32_MAX) {
		if (!ptx_name_add(p, t, PTX_N_LABEL))
			return;
		p->name[p->nname - 1].first = new_label(p, t);
		e = &p->name[p->nname - 1];
	}
	p->label_at[e->first] = t->at;
	p->fn->label[e->first].at = p->fn->ninsn;
	if (p->depth > 2)
		p->inner_names = true;
}

void ptx_block_close(struct ptx_parser *p)
{
	uint32_t from = p->block[--p->depth], n = p->nname, kept = from;
	struct ptx_fn *f = p->fn;

	while (p->nname > from) {
		struct ptx_name *e = &p->name[--p->nname];

		*bucket_of(p, e->s, e->n) = e->next;
	}
	if (p->depth < 2) /* the function's own block */
		return;
	for (uint32_t k = from; k < n; k++) {
		struct ptx_name e = p->name[k], *outer;

		if (e.kind != PTX_N_LABEL || f->label[e.first].at != UINT32_MAX)
			continue;
		outer = find_label(p, e.s, e.n, 0);
		if (outer) {
			p->alias[e.first] = outer->first + 1;
			p->aliases = true;
		} else {
			p->name[kept++] = e;
			p->nname = kept;
			link_name(p, kept - 1);
		}
	}
}

static uint32_t real_label(struct ptx_parser *p, uint32_t k)
{
	while (p->alias[k])
		k = p->alias[k] - 1;
	return k;
}

/* Operands name the label that an alias stands for, and aliases leave the list. */
static void drop_aliases(struct ptx_parser *p)
{
	struct ptx_fn *f = p->fn;
	uint32_t *to = arena_news(p->arena, uint32_t, f->nlabel), kept = 0;

	for (uint32_t k = 0; k < f->nlabel; k++)
		if (!p->alias[k]) {
			to[k] = kept;
			f->label[kept] = f->label[k];
			p->label_at[kept++] = p->label_at[k];
		}
	for (uint32_t k = 0; k < f->ninsn; k++)
		for (unsigned j = 0; j < f->insn[k].nopnd; j++)
			if (f->insn[k].o[j].kind == PTX_LAB)
				f->insn[k].o[j].reg[0] = to[real_label(p, f->insn[k].o[j].reg[0])];
	f->nlabel = kept;
}

/* A name of the function or the module that is taken; a set of its own, because blocks have closed.
 */
struct taken {
	const char **slot;
	uint32_t size;
};

static bool take(struct taken *t, const char *s)
{
	uint64_t h = hash_bytes(HASH_INIT, s, strlen(s));

	for (uint32_t k = (uint32_t)(h ^ h >> 32);; k++) {
		const char **e = &t->slot[k & (t->size - 1)];

		if (!*e) {
			*e = s;
			return true;
		}
		if (strcmp(*e, s) == 0)
			return false;
	}
}

/* Labels of inner blocks may repeat a name; in the flat function they get a number. */
static void rename_labels(struct ptx_parser *p)
{
	struct ptx_fn *f = p->fn;
	uint64_t need = 2 * ((uint64_t)f->nlabel + f->nvar + f->nparam + p->module->nvar + 1);
	struct taken t = {.size = 64};
	uint32_t number = 0;

	while (t.size < need)
		t.size *= 2;
	t.slot = arena_news(p->arena, const char *, t.size);
	for (uint32_t k = 0; k < p->module->nvar; k++)
		take(&t, p->module->var[k].name);
	for (unsigned k = 0; k < f->nparam; k++)
		take(&t, f->param[k].name);
	for (uint32_t k = 0; k < f->nvar; k++)
		take(&t, f->var[k].name);
	for (uint32_t k = 0; k < f->nlabel; k++) {
		const char *was = f->label[k].name;

		while (!take(&t, f->label[k].name))
			f->label[k].name = arena_printf(f->module->arena, "%s_%u", was, number++);
	}
}

void ptx_labels_finish(struct ptx_parser *p)
{
	struct ptx_fn *f = p->fn;

	if (p->aliases)
		drop_aliases(p);
	for (uint32_t k = p->first_label; k < f->nlabel && !p->stop; k++)
		if (f->label[k].at == UINT32_MAX)
			ptx_err(p, DIAG_PTX_LABEL, p->label_at[k], "the label '%s' is not placed",
			        f->label[k].name);
	if (p->inner_names)
		rename_labels(p);
	p->inner_names = p->aliases = false;
	p->nalias = 0;
}
