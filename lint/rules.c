/* The other rules, and the report. */
#include "lint/internal.h"
#include <string.h>

enum { MOST_FINDINGS = 20, MOST_GUARDS = 16 };

#define ERROR   DIAG_ERROR
#define WARNING DIAG_WARNING
const struct lint_rule_info lint_rule_info[LINT_NRULES] = {
#define LINT_RULE(ID, name, severity, code, what, fix) \
	[LINT_##ID] = {name, severity, code, what, fix},
#include "lint/rules.def"
};
#undef ERROR
#undef WARNING

void lint_found(struct lint_fn *f, enum lint_rule rule, uint32_t i, uint32_t other)
{
	const struct lint_rule_info *r = &lint_rule_info[rule];
	uint32_t key = i * LINT_NRULES + rule;

	if (f->reported[rule] == MOST_FINDINGS)
		return;
	for (unsigned k = 0; k < f->nseen; k++)
		if (f->seen[k] == key)
			return;
	f->seen = arena_grow(f->a, f->seen, f->nseen, &f->cap_seen, f->nseen + 1, sizeof *f->seen);
	f->seen[f->nseen++] = key;
	f->reported[rule]++;
	f->found += r->severity == DIAG_ERROR;
	diag_at(f->d, r->severity, r->code, f->fn->insn[i].at, "%s (%s, in '%s')", r->what, r->name,
	        f->fn->name);
	if (other != LINT_NONE)
		diag_note(f->d, f->fn->insn[other].at, "the other one");
	diag_note(f->d, (struct span){0, 0}, "%s", r->fix);
}

/* ---- programmatic dependent launch ---- */

static bool is_wait(const struct lint_fn *f, uint32_t i)
{
	return f->fn->insn[i].op == PTX_gdc_wait;
}

static uint32_t first_of(const struct lint_fn *f, enum ptx_op op)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->fn->insn[i].op == op)
			return i;
	return LINT_NONE;
}

static bool is_constant(const struct lint_fn *f, const char *param)
{
	for (unsigned k = 0; k < f->nconstant; k++)
		if (!strcmp(f->constant[k], param))
			return true;
	return false;
}

/* Whether this loads through pointers alone that the user calls constant, and nothing here stores
 * through them. */
static bool of_constants(const struct lint_fn *f, uint32_t i, const struct lint_access *x)
{
	uint64_t roots = lint_opnd(f, &f->fn->insn[i].o[x->opnd]).roots;

	if (x->kind != LINT_LOAD || !roots || roots & f->written)
		return false;
	for (unsigned k = 0; k < f->nroot; k++)
		if (roots >> k & 1 && !is_constant(f, f->root[k].param))
			return false;
	return true;
}

static void dependent_launch(struct lint_fn *f)
{
	uint32_t wait = first_of(f, PTX_gdc_wait), launch = first_of(f, PTX_gdc_launch);
	struct lint_access x;
	bool *early;

	if (wait == LINT_NONE) {
		if (launch != LINT_NONE)
			lint_found(f, LINT_NO_WAIT, launch, LINT_NONE);
		return;
	}
	if (launch == LINT_NONE)
		lint_found(f, LINT_NO_TRIGGER, wait, LINT_NONE);
	early = arena_news(f->a, bool, f->n + 1);
	early[0] = true;
	if (!is_wait(f, 0))
		lint_reach(f, 0, false, is_wait, early);
	for (uint32_t i = 0; i < f->n; i++)
		if (early[i] && lint_access(f, i, &x) && !of_constants(f, i, &x))
			lint_found(f, x.nc ? LINT_NC_BEFORE_WAIT : LINT_BEFORE_WAIT, i, wait);
}

/* ---- publishing ---- */

static bool is_barrier(const struct lint_fn *f, uint32_t i)
{
	const struct ptx_insn *x = &f->fn->insn[i];

	return x->op == PTX_bar_sync || x->op == PTX_bar_syncn ||
	       (x->op == PTX_OPAQUE && !strncmp(x->opaque, "bar", 3));
}

/* Whether this may tell others that data are there: a release, or a strong store to a flag. */
static bool publishes(const struct lint_fn *f, uint32_t i, uint64_t *roots)
{
	const struct ptx_insn *x = &f->fn->insn[i];
	struct lint_access a;

	*roots = 0;
	if (x->op == PTX_fence)
		return x->mod.order != PTX_ACQUIRE && x->mod.scope >= PTX_GPU;
	if (!lint_access(f, i, &a) || a.kind == LINT_LOAD || !a.strong || a.scope < PTX_GPU)
		return false;
	if (x->mod.vec > 2 && !a.release)
		return false; /* data that are their own flags: they say nothing of others */
	*roots = lint_opnd(f, &x->o[a.opnd]).roots;
	return a.release || a.scope == PTX_SYS;
}

static bool among(uint32_t g, const uint32_t *guard, unsigned n)
{
	for (unsigned k = 0; k < n; k++)
		if (guard[k] == g)
			return true;
	return false;
}

/* Whether threads run store i that do not run what has these guards. */
static bool by_others(struct lint_fn *f, uint32_t i, const uint32_t *guard, unsigned n)
{
	uint32_t own[MOST_GUARDS];
	unsigned nown = lint_guards(f, i, own, MOST_GUARDS);

	for (unsigned k = 0; k < n; k++)
		if (!among(guard[k], own, nown))
			return true;
	return false;
}

/* A store of data that others than those at `at` make, through none of the flag's roots. */
static bool is_others(struct lint_fn *f, uint32_t i, uint64_t roots, const uint32_t *guard,
                      unsigned n)
{
	struct lint_access a;
	struct lint_value v;

	if (i >= f->n || !lint_access(f, i, &a) || a.kind != LINT_STORE || a.strong)
		return false;
	v = lint_opnd(f, &f->fn->insn[i].o[a.opnd]);
	if (v.roots & roots || !(v.facts & LINT_THREAD))
		return false; /* the flag's own memory; or one place, so one thread's */
	return by_others(f, i, guard, n);
}

static void release(struct lint_fn *f, uint32_t at)
{
	uint32_t guard[MOST_GUARDS], before, first = LINT_NONE;
	unsigned n;
	uint64_t roots;

	if (f->large || f->reported[LINT_RELEASE] == MOST_FINDINGS || !publishes(f, at, &roots) ||
	    !(n = lint_guards(f, at, guard, MOST_GUARDS)) || f->large ||
	    !lint_before(f, at, is_barrier, f->list, &before))
		return;
	for (uint32_t k = 0; k < before; k++)
		if (f->list[k] != at && f->list[k] < first &&
		    is_others(f, f->list[k], roots, guard, n))
			first = f->list[k];
	if (first != LINT_NONE)
		lint_found(f, LINT_RELEASE, at, first);
}

/* ---- single accesses ---- */

static void access(struct lint_fn *f, uint32_t i)
{
	struct lint_access a;
	struct lint_value v;

	if (!lint_access(f, i, &a))
		return;
	v = lint_opnd(f, &f->fn->insn[i].o[a.opnd]);
	if (v.facts & LINT_WIDENED)
		lint_found(f, LINT_NARROW_ADDRESS, i, LINT_NONE);
	if (!a.multimem && v.roots & f->multicast)
		lint_found(f, LINT_MULTICAST, i, LINT_NONE);
	if (a.nc && v.roots & (f->written | f->strong))
		lint_found(f, LINT_NC, i, LINT_NONE);
	if (a.strong && a.scope < PTX_SYS &&
	    (a.multimem || (a.release && f->across && !f->system_release)))
		lint_found(f, LINT_SCOPE, i, LINT_NONE);
}

static unsigned function(const struct ptx_fn *fn, const char *const *constant, unsigned n,
                         struct arena *a, struct diags *d)
{
	struct lint_fn f = {
	        .fn = fn, .a = a, .d = d, .n = fn->ninsn, .constant = constant, .nconstant = n};

	if (!fn->ninsn)
		return 0;
	lint_graph(&f);
	lint_flow(&f);
	dependent_launch(&f);
	for (uint32_t i = 0; i < f.n; i++) {
		access(&f, i);
		release(&f, i);
	}
	lint_spins(&f);
	if (f.large)
		lint_found(&f, LINT_LARGE, 0, LINT_NONE);
	return f.found;
}

unsigned lint_module(const struct ptx_module *m, struct arena *a, struct diags *d)
{
	return lint_module_given(m, NULL, 0, a, d);
}

static bool has_parameter(const struct ptx_module *m, const char *name)
{
	for (const struct ptx_fn *f = m->fn; f; f = f->next)
		for (unsigned k = 0; k < f->nparam; k++)
			if (!strcmp(f->param[k].name, name))
				return true;
	return false;
}

/* A name that nothing has is a mistake: what it was to allow would be reported, or is not there. */
static unsigned unknown_parameter(const struct ptx_module *m, const char *name, struct arena *a,
                                  struct diags *d)
{
	struct strbuf b;

	diag_at(d, DIAG_ERROR, DIAG_LINT_CONSTANT, (struct span){0, 0},
	        "no kernel has a parameter '%s'", name);
	for (const struct ptx_fn *f = m->fn; f; f = f->next) {
		strbuf_init(&b, a);
		for (unsigned k = 0; k < f->nparam; k++)
			strbuf_printf(&b, "%s'%s'", k ? ", " : "", f->param[k].name);
		diag_note(d, (struct span){0, 0}, "'%s' has %s", f->name, f->nparam ? b.s : "none");
	}
	return 1;
}

unsigned lint_module_given(const struct ptx_module *m, const char *const *constant, unsigned n,
                           struct arena *a, struct diags *d)
{
	unsigned found = 0;

	for (unsigned k = 0; k < n; k++)
		if (!has_parameter(m, constant[k]))
			found += unknown_parameter(m, constant[k], a, d);
	for (const struct ptx_fn *f = m->fn; f; f = f->next)
		found += function(f, constant, n, a, d);
	return found;
}
