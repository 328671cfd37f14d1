/*
 * The kernels of a spec in both forms of rows, the export kernels of its carried parameters, what
 * each gets for T up to max_rows, and the compilation of all that some T gets.
 */
#include "runtime/variants.h"
#include "codegen/offer.h"
#include "runtime/front.h"
#include <string.h>

struct source_unit {
	struct ir_func *own, *all; /* fused; NULL: not to be had */
	struct cg_case which;
	bool carried, is_export;
	struct cg_choice choice; /* at the T in hand */
};

struct builder {
	const struct rt_variants_options *o;
	struct rt_image *m;
	struct arena *a; /* scratch */
	struct diags d;
	struct cg_options cg;
	struct ir_module *before;
	struct source_unit *unit;
	uint32_t nunit, nkernel;
	size_t cap;
	uint32_t index[CG_NPROTOCOLS][2]; /* of the unit in hand: the variant, + 1 */
	size_t cap_variant;
};

static enum status usage(struct builder *b, const char *fmt, const char *value, const char *fix)
{
	diag_at(&b->d, DIAG_ERROR, DIAG_RT_ARGUMENT, (struct span){0, 0}, fmt, value);
	diag_note(&b->d, (struct span){0, 0}, "%s", fix);
	return ST_USAGE;
}

static enum status options(struct builder *b)
{
	const struct plait_compile_options *o = &b->o->compile;
	int p = cg_protocol_by_name(o->protocol ? o->protocol : "auto");
	int order = cg_order_by_name(o->order ? o->order : "formal");
	const struct cg_target *t = cg_target_by_name(o->target);

	if (!o->text)
		return usage(b, "no spec is given%s", "", "set 'compile.text', or 'bundle'");
	if (!t)
		return usage(b, "there is no target '%s'", o->target, cg_target_names(b->a));
	if (p < 0)
		return usage(b, "there is no protocol '%s'", o->protocol,
		             cg_protocol_names(b->a, ~0u));
	if (order < 0)
		return usage(b, "there is no memory order '%s'", o->order, cg_order_names(b->a));
	b->cg = (struct cg_options){.tp = o->tp,
	                            .target = t,
	                            .protocol = (enum cg_protocol)p,
	                            .order = (enum cg_order)order,
	                            .pdl = t->sm >= 90 ? b->o->pdl : CG_PDL_NONE,
	                            .rows_in_memory = b->o->rows_in_memory,
	                            .spec_name = o->spec_name ? o->spec_name : "spec",
	                            .places = &b->d};
	return ST_OK;
}

static enum status front(struct builder *b)
{
	const struct plait_compile_options *o = &b->o->compile;
	struct fe_options fo = {0};

	return rt_front(b->a, &b->d, b->cg.spec_name, o->text, o->text_len, o->set, o->nset, &fo,
	                &b->before);
}

/* The kernel through the passes; NULL: d says why not. */
static struct ir_func *form(struct builder *b, const struct ir_func *f, enum ir_rows rows,
                            struct diags *d)
{
	struct ir_pass_options po = {.tp = b->cg.tp, .rows = rows};

	return cg_fuse(f->module, f->name, &po, b->a, d);
}

static const char *first_error(const struct diags *d)
{
	for (const struct diag *x = d->head; x; x = x->next)
		if (x->severity == DIAG_ERROR)
			return x->text;
	return "it has not that form";
}

/* What is said of this form is not for the user, who did not ask for it. */
static struct ir_func *quiet_form(struct builder *b, const struct ir_func *f, enum ir_rows rows,
                                  const char **why)
{
	struct diags d = b->d;
	struct ir_func *g;

	d.head = NULL;
	d.tail = &d.head;
	d.nerror = d.nwarning = d.nremark = 0;
	g = form(b, f, rows, &d);
	*why = g ? NULL : first_error(&d);
	return g;
}

/* Where NCCL sums and gathers, the kernel has own rows of what was summed and of what will be
 * gathered. */
static enum status without_collectives(struct builder *b, struct ir_func *f, uint32_t *role)
{
	if (f->deterministic)
		return usage(b, "kernel '%s' is deterministic, and NCCL's sums are not", f->name,
		             "the GPUs of all ranks have to reach each other's memory");
	for (struct ir_value *v = f->first; v; v = v->next) {
		struct ir_param *q;

		if (v->op != IR_OP_LOAD_SUM && v->op != IR_OP_STORE_ALL)
			continue;
		q = &f->param[v->param];
		if (v->op == IR_OP_LOAD_SUM && v->type.dtype != q->type.dtype)
			return usage(b, "NCCL cannot keep the sum of '%s' in f32", q->name,
			             "the GPUs of all ranks have to reach each other's memory");
		if (v->op == IR_OP_LOAD_SUM && ir_dtype_info[q->type.dtype].bits < 16)
			return usage(b, "NCCL does not sum elements as small as those of '%s'",
			             q->name,
			             "the GPUs of all ranks have to reach each other's memory");
		if (q->ld && q->ld != q->type.cols)
			return usage(b, "NCCL cannot carry the rows of '%s', which are not dense",
			             q->name, "leave out its leading dimension");
		role[v->param] = v->op == IR_OP_LOAD_SUM ? RT_SUMMED : RT_GATHERED;
		v->op = v->op == IR_OP_LOAD_SUM ? IR_OP_LOAD : IR_OP_STORE;
		q->type.place = IR_SHARDED;
		q->ld = 0;
	}
	return ST_OK;
}

static uint32_t *numbers(struct builder *b, unsigned n, uint32_t value)
{
	uint32_t *x = arena_news(&b->m->code.arena, uint32_t, n);

	for (unsigned i = 0; i < n; i++)
		x[i] = value;
	return x;
}

/* Adds a unit for a kernel before the passes. */
static enum status add_unit(struct builder *b, const struct ir_func *f, bool is_export)
{
	struct arena *keep = &b->m->code.arena;
	struct rt_unit *u = &b->m->unit[b->nunit];
	struct source_unit *s = &b->unit[b->nunit];
	const char *no_own = NULL, *no_all = "NCCL carries the rows";
	enum status st = ST_OK;

	*u = (struct rt_unit){.name = arena_printf(keep, "%s", f->name),
	                      .carried = cg_has_carried(f),
	                      .nparam = f->nparam,
	                      .export_ = numbers(b, f->nparam, RT_NONE),
	                      .role = numbers(b, f->nparam, RT_PLAIN)};
	*s = (struct source_unit){.carried = u->carried && !is_export, .is_export = is_export};
	s->own = form(b, f, IR_ROWS_OWN, &b->d);
	if (!s->own)
		return b->d.nerror ? ST_INPUT : ST_INTERNAL;
	if (b->o->nccl)
		st = without_collectives(b, s->own, u->role);
	else
		s->all = quiet_form(b, f, IR_ROWS_ALL, &no_all);
	cg_case_make(&s->which, s->own, no_own, s->all, no_all, &b->cg, b->o->multicast, b->a);
	s->which.table = b->o->table;
	b->nunit++;
	return st;
}

/* Of a protocol that was named, nothing else is left; of a kernel that does not communicate,
 * `local`. */
static enum status restrict_to_named(struct builder *b, struct source_unit *s)
{
	enum cg_protocol p = b->cg.protocol;
	uint32_t local = s->which.can & 1u << CG_LOCAL;
	struct cg_options o = b->cg;
	const struct ir_func *f;
	struct cg_kernel *k;

	if (p == CG_LOCAL && local) /* also of one that sums, where there is one rank */
		s->which.can = local;
	if (p == CG_AUTO || b->o->nccl || local || s->is_export)
		return ST_OK;
	s->which.can &= 1u << p;
	if (s->which.can)
		return ST_OK;
	f = cg_protocol_rows(p) == IR_ROWS_ALL && s->all ? s->all : s->own;
	if (cg_compile(f, &o, b->a, &b->d, &k) != ST_OK)
		return ST_INPUT;
	return usage(b, "%s",
	             s->which.why_not[p] ? s->which.why_not[p] : "the protocol cannot do it",
	             "leave the protocol to plait, or name another");
}

static bool same_type(const struct ir_param *a, const struct ir_param *b)
{
	return a->type.dtype == b->type.dtype && a->type.cols == b->type.cols && a->ld == b->ld &&
	       a->align == b->align;
}

struct carried { /* a parameter that has an export unit */
	const struct ir_param *q;
	uint32_t unit;
};

/* One export kernel for all carried parameters of a type. */
static enum status add_exports(struct builder *b, const struct ir_func *f, uint32_t kernel,
                               struct carried *have, unsigned *n)
{
	enum status s = ST_OK;

	for (unsigned i = 0; i < f->nparam && s == ST_OK; i++) {
		const struct ir_param *q = &f->param[i];
		unsigned k = 0;

		if (q->type.ndim != 2 || q->type.place != IR_CARRIED)
			continue;
		while (k < *n && !same_type(have[k].q, q))
			k++;
		if (k == *n) {
			have[(*n)++] = (struct carried){q, b->nunit};
			s = add_unit(b, cg_export(f, i, b->a), true);
		}
		b->m->unit[kernel].export_[i] = have[k].unit;
	}
	return s;
}

static bool wanted(const struct builder *b, const struct ir_func *f)
{
	const char *only = b->o->compile.kernel;

	return f->is_kernel && (!only || strcmp(only, f->name) == 0);
}

static enum status add_units(struct builder *b)
{
	struct carried *have;
	unsigned nhave = 0, kernels = 0, params = 0;
	enum status s = ST_OK;
	uint32_t n = 0;

	for (const struct ir_func *f = b->before->funcs; f; f = f->next)
		if (wanted(b, f)) {
			kernels++;
			params += f->nparam;
		}
	if (!kernels)
		return usage(b, "the spec has no kernel '%s'",
		             b->o->compile.kernel ? b->o->compile.kernel : "",
		             "name one of the spec's kernels");
	b->unit = arena_news(b->a, struct source_unit, kernels + params);
	b->m->unit = arena_news(&b->m->code.arena, struct rt_unit, kernels + params);
	have = arena_news(b->a, struct carried, params);
	for (const struct ir_func *f = b->before->funcs; f && s == ST_OK; f = f->next)
		if (wanted(b, f))
			s = add_unit(b, f, false);
	b->nkernel = b->nunit;
	for (const struct ir_func *f = b->before->funcs; f && s == ST_OK; f = f->next)
		if (wanted(b, f))
			s = add_exports(b, f, n++, have, &nhave);
	for (uint32_t i = 0; i < b->nunit && s == ST_OK; i++)
		s = restrict_to_named(b, &b->unit[i]);
	return s;
}

/* ---- what T gets ---- */

static uint32_t protocols_of(enum cg_rows rows)
{
	uint32_t mask = 0;

	for (int p = CG_AUTO + 1; p < CG_NPROTOCOLS; p++)
		if (cg_protocol_info[p].rows == rows)
			mask |= 1u << p;
	return mask;
}

/* A carried parameter in own rows is gathered; in all rows it is copied. */
static struct cg_choice choose_export(const struct builder *b, const struct source_unit *s,
                                      enum ir_rows rows, uint64_t T)
{
	struct cg_case c = s->which;

	if (rows == IR_ROWS_ALL || b->o->nccl || c.can == 1u << CG_LOCAL)
		return (struct cg_choice){.protocol = CG_LOCAL, .rows = rows};
	c.can &= protocols_of(CG_ROWS_OWN);
	if (b->cg.protocol != CG_AUTO && c.can >> b->cg.protocol & 1)
		c.can = 1u << b->cg.protocol;
	return cg_select(&c, T);
}

/* Every unit's choice at T; false: there is none. */
static bool choose_at(struct builder *b, uint64_t T)
{
	struct cg_case *chain = arena_news(b->a, struct cg_case, b->nkernel + 1);
	struct cg_choice *best = arena_news(b->a, struct cg_choice, b->nkernel + 1);
	enum ir_rows rows = cg_protocol_rows(b->cg.protocol);
	uint32_t n = 0;
	bool good = true;

	for (uint32_t i = 0; i < b->nkernel; i++)
		if (b->unit[i].carried)
			chain[n++] = b->unit[i].which;
		else
			b->unit[i].choice = cg_select(&b->unit[i].which, T);
	if (n)
		good = cg_select_chain(chain, n, T, best);
	if (n && good)
		rows = best[0].rows;
	n = 0;
	for (uint32_t i = 0; i < b->nunit; i++) {
		struct source_unit *s = &b->unit[i];

		if (s->carried)
			s->choice = best[n++];
		else if (s->is_export)
			s->choice = choose_export(b, s, rows, T);
		if (b->o->nccl)
			s->choice = (struct cg_choice){.protocol = CG_LOCAL, .rows = IR_ROWS_OWN};
		good &= s->choice.protocol != CG_AUTO;
	}
	return good;
}

static enum status no_choice(struct builder *b, uint64_t T)
{
	diag_at(&b->d, DIAG_ERROR, DIAG_CG_PROTOCOL, (struct span){0, 0},
	        "no protocol can do all kernels at T = %llu", (unsigned long long)T);
	for (uint32_t i = 0; i < b->nunit; i++)
		for (int p = CG_AUTO + 1; p < CG_NPROTOCOLS; p++)
			if (b->unit[i].which.why_not[p] && p != CG_LOCAL)
				diag_note(&b->d, (struct span){0, 0}, "%s: not %s: %s",
				          b->m->unit[i].name, cg_protocol_name((enum cg_protocol)p),
				          b->unit[i].which.why_not[p]);
	return ST_INPUT;
}

static bool equal(const struct cg_choice *a, const struct cg_choice *b)
{
	return a->protocol == b->protocol && a->rows == b->rows && a->ctas == b->ctas;
}

/* Whether all choices at T are those of `first`. */
static bool as_before(struct builder *b, const struct cg_choice *first, uint64_t T)
{
	choose_at(b, T);
	for (uint32_t i = 0; i < b->nunit; i++)
		if (!equal(&first[i], &b->unit[i].choice))
			return false;
	return true;
}

/* The last T of [from, most] up to which all choices stay; by steps that grow with T, then halves. */
static uint64_t last_equal(struct builder *b, const struct cg_choice *first, uint64_t from)
{
	uint64_t at = from, most = b->o->max_rows, step = 1;

	while (at < most) {
		uint64_t next = at + step < most ? at + step : most;

		if (!as_before(b, first, next)) {
			while (next - at > 1) { /* equal at `at`, not at `next` */
				uint64_t mid = at + (next - at) / 2;

				if (as_before(b, first, mid))
					at = mid;
				else
					next = mid;
			}
			return at;
		}
		at = next;
		step = 1 + at / 16;
	}
	return most;
}

struct span_choice { /* choices of all units for T <= until */
	uint64_t until;
	struct cg_choice *of;
};

static enum status choose_all(struct builder *b, struct span_choice **out, size_t *n)
{
	uint64_t T = 1, most = b->o->max_rows;
	size_t cap = 0;

	*out = NULL;
	*n = 0;
	do {
		struct span_choice *x;

		*out = arena_grow(b->a, *out, *n, &cap, *n + 1, sizeof **out);
		x = &(*out)[(*n)++];
		x->of = arena_news(b->a, struct cg_choice, b->nunit);
		if (!choose_at(b, T))
			return no_choice(b, T);
		for (uint32_t i = 0; i < b->nunit; i++)
			x->of[i] = b->unit[i].choice;
		x->until = b->o->nccl ? most : last_equal(b, x->of, T);
		T = x->until + 1;
	} while (T <= most);
	(*out)[*n - 1].until = most;
	return ST_OK;
}

/* ---- compiling ---- */

static uint32_t variant_of(struct builder *b, uint32_t unit, const struct cg_choice *x)
{
	uint32_t *at = &b->index[x->protocol][x->rows];
	struct rt_image *m = b->m;

	if (!*at) {
		m->variant = arena_grow(&m->code.arena, m->variant, m->nvariant, &b->cap_variant,
		                        m->nvariant + 1, sizeof *m->variant);
		m->variant[m->nvariant] = (struct rt_variant){.unit = unit, .rows = x->rows};
		*at = ++m->nvariant;
		/* until it is compiled, the protocol is kept here */
		m->variant[m->nvariant - 1].k = arena_new(b->a, struct rt_kernel);
		m->variant[m->nvariant - 1].k->plan.protocol = x->protocol;
	}
	return *at - 1;
}

/* The model gives the fewest that come near the best time; where latency is what counts, and nothing was
 * measured here, all that are useful. */
static uint32_t ctas_of(const struct builder *b, const struct cg_choice *x)
{
	return b->o->table || cg_push_set(x->protocol) < 0 ? x->ctas : 0;
}

/* The ranges of one unit: neighbours that are equal for it become one. */
static void make_ranges(struct builder *b, uint32_t unit, const struct span_choice *x, size_t n)
{
	struct rt_unit *u = &b->m->unit[unit];

	u->range = arena_news(&b->m->code.arena, struct rt_range, n);
	memset(b->index, 0, sizeof b->index);
	for (size_t i = 0; i < n; i++) {
		uint32_t v = variant_of(b, unit, &x[i].of[unit]), ctas = ctas_of(b, &x[i].of[unit]);
		struct rt_range *last = u->nrange ? &u->range[u->nrange - 1] : NULL;

		if (!last || last->variant != v || last->ctas != ctas)
			last = &u->range[u->nrange++];
		*last = (struct rt_range){x[i].until, v, ctas};
	}
}

static enum status compile(struct builder *b)
{
	struct rt_image *m = b->m;

	m->code.kernel = arena_news(&m->code.arena, struct rt_kernel, m->nvariant);
	for (uint32_t i = 0; i < m->nvariant; i++) {
		struct rt_variant *v = &m->variant[i];
		const struct source_unit *s = &b->unit[v->unit];
		struct cg_options o = b->cg;
		struct cg_kernel *k;
		enum status st;

		o.protocol = v->k->plan.protocol;
		st = cg_compile(v->rows == IR_ROWS_OWN ? s->own : s->all, &o, b->a, &b->d, &k);
		if (st != ST_OK)
			return st;
		v->k = &m->code.kernel[i];
		rt_keep_kernel(&m->code, v->k, k, b->a);
		m->code.nkernel = i + 1;
	}
	return ST_OK;
}

static enum status build(struct builder *b)
{
	struct span_choice *x;
	size_t n;
	enum status s = options(b);

	if (s == ST_OK)
		s = front(b);
	if (s == ST_OK)
		s = add_units(b);
	if (s == ST_OK)
		s = choose_all(b, &x, &n);
	if (s != ST_OK)
		return s;
	for (uint32_t i = 0; i < b->nunit; i++)
		make_ranges(b, i, x, n);
	b->m->nunit = b->nunit;
	b->m->nkernel = b->nkernel;
	return compile(b);
}

enum status rt_variants_make(struct rt_image *m, const struct rt_variants_options *o,
                             struct arena *scratch)
{
	struct builder b = {.o = o, .m = m, .a = scratch};
	struct strbuf text;
	enum status s;

	diags_init(&b.d, scratch);
	m->max_rows = o->max_rows;
	m->tp = o->compile.tp;
	m->nccl = o->nccl;
	s = build(&b);
	if (s == ST_OK && !rt_image_check(m)) {
		diag_at(&b.d, DIAG_ERROR, DIAG_RT_BUG, (struct span){0, 0},
		        "the kernels contradict each other");
		s = ST_INTERNAL;
	}
	strbuf_init(&text, scratch);
	diags_render(&b.d, o->compile.remarks ? DIAG_REMARK : DIAG_WARNING, &text);
	m->code.diagnostics = arena_strndup(&m->code.arena, text.s, text.n);
	return s;
}

/* ---- the key ---- */

static void put(struct strbuf *k, const char *what, const char *value)
{
	strbuf_printf(k, "%s=%zu:%s\n", what, value ? strlen(value) : 0, value ? value : "");
}

struct rt_bytes rt_variants_key(const struct rt_variants_options *o, struct arena *a)
{
	const struct plait_compile_options *c = &o->compile;
	struct strbuf k;

	strbuf_init(&k, a);
	strbuf_printf(&k,
	              "plait image\ntp=%u multicast=%d nccl=%d pdl=%d rows_in_memory=%d "
	              "max_rows=%llu remarks=%d\n",
	              c->tp, o->multicast, o->nccl, (int)o->pdl, o->rows_in_memory,
	              (unsigned long long)o->max_rows, c->remarks);
	put(&k, "version", plait_version());
	put(&k, "name", c->spec_name);
	put(&k, "kernel", c->kernel);
	put(&k, "target", c->target);
	put(&k, "protocol", c->protocol);
	put(&k, "order", c->order);
	for (size_t i = 0; i < c->nset; i++) {
		put(&k, "set", c->set[i].name);
		put(&k, "to", c->set[i].value);
	}
	for (size_t i = 0; o->table && i < o->table->n; i++) {
		const struct cg_point *p = &o->table->point[i];

		strbuf_printf(&k, "point %llu %llu %d %u %.17g\n", (unsigned long long)p->row,
		              (unsigned long long)p->T, (int)p->protocol, p->ctas, p->us);
	}
	strbuf_printf(&k, "text=%zu:", c->text_len);
	strbuf_putn(&k, c->text, c->text_len);
	return (struct rt_bytes){k.s, k.n};
}
