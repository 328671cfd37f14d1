/*
 * Checks of modules, from the table: operands against the shape, types against the row, then names,
 * labels, version and target.  What a text was parsed from shows the place; what was built shows
 * the instruction.
 */
#include "codegen/ptx/parse.h"
#include "codegen/ptx/rules.h"
#include <string.h>

struct check {
	const struct ptx_fn *f;
	const struct ptx_insn *i;
	struct diags *d;
	bool bad;
};

static void complain(struct check *c, enum diag_code code, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
static void complain(struct check *c, enum diag_code code, const char *fmt, ...)
{
	const char *text;
	va_list ap;

	va_start(ap, fmt);
	text = arena_vprintf(c->d->arena, fmt, ap);
	va_end(ap);
	c->bad = true;
	diag_at(c->d, DIAG_ERROR, code, c->i ? c->i->at : (struct span){0, 0}, "%s", text);
	if (c->i && span_none(c->i->at)) {
		struct strbuf b;

		strbuf_init(&b, c->d->arena);
		ptx_print_insn(c->f, c->i, &b);
		diag_note(c->d, (struct span){0, 0}, "in '%s' of '%s'", b.s, c->f->name);
	}
}

static unsigned class_bits(unsigned cls)
{
	static const uint8_t bits[PTX_NCLASSES] = {
#define X(ID, prefix, bits, decl) bits,
	        PTX_CLASSES(X)
#undef X
	};

	return cls < PTX_NCLASSES ? bits[cls] : 0;
}

static bool untyped(unsigned t)
{
	return t == PTX_T_b8 || t == PTX_T_b16 || t == PTX_T_b32 || t == PTX_T_b64;
}

static bool is_float(unsigned t)
{
	return t == PTX_T_f32 || t == PTX_T_f64;
}

/* Whether a register of the class may stand for the type: the same size, and not an integer for a
 * float the other way. */
static bool fits(unsigned cls, enum ptx_type t, bool wider)
{
	unsigned want = ptx_type_info[t].cls;

	if (cls == want)
		return true;
	if (cls == PTX_C_PRED || want == PTX_C_PRED)
		return false;
	if (class_bits(cls) == class_bits(want))
		return cls == PTX_C_B32 || cls == PTX_C_B64 || untyped(t);
	return wider && !is_float(t) && t != PTX_T_f16 && t != PTX_T_bf16 && cls != PTX_C_F32 &&
	       cls != PTX_C_F64 && class_bits(cls) > class_bits(want);
}

static void check_reg(struct check *c, const struct ptx_opnd *o, unsigned k, enum ptx_type t,
                      bool wider)
{
	for (unsigned e = 0; e < o->n && e < 8; e++)
		if (o->reg[e] != PTX_SINK &&
		    (o->cls >= PTX_NCLASSES || o->reg[e] >= c->f->nreg[o->cls])) {
			complain(c, DIAG_PTX_NAME, "operand %u is a register that is not declared",
			         k + 1);
			return;
		}
	if (o->cls == PTX_C_F32 && ptx_type_info[t].bits == 32 && c->i->op >= PTX_mm_ld &&
	    c->i->op <= PTX_mm_red)
		return; /* multimem moves 32 bits whatever they mean */
	if (!fits(o->cls, t, wider))
		complain(c, DIAG_PTX_CLASS, "operand %u: a register of another class than .%s",
		         k + 1, ptx_type_info[t].text);
}

static void check_vec(struct check *c, const struct ptx_opnd *o, unsigned k, enum ptx_type t,
                      unsigned n, bool sinks)
{
	if (o->kind != PTX_VEC || o->n != n) {
		complain(c, DIAG_PTX_OPERAND, "operand %u is to be a vector of %u", k + 1, n);
		return;
	}
	for (unsigned e = 0; e < n && !sinks; e++)
		if (o->reg[e] == PTX_SINK) {
			complain(c, DIAG_PTX_OPERAND,
			         "operand %u: '_' stands only where a load writes", k + 1);
			return;
		}
	check_reg(c, o, k, t, c->i->op == PTX_ld || c->i->op == PTX_st);
}

/* mov.b32 {h, h}, r and the like: the parts together have the type's size. */
static void check_packed(struct check *c, const struct ptx_opnd *o, unsigned k, enum ptx_type t)
{
	unsigned total = class_bits(o->cls) * o->n;

	if (!untyped(t) || total != ptx_type_info[t].bits || o->n < 2 || o->cls == PTX_C_PRED)
		complain(c, DIAG_PTX_OPERAND, "operand %u: the parts are not together a .%s", k + 1,
		         ptx_type_info[t].text);
	else
		for (unsigned e = 0; e < o->n; e++)
			if (o->reg[e] == PTX_SINK ? k != 0 : o->reg[e] >= c->f->nreg[o->cls]) {
				complain(c, DIAG_PTX_NAME,
				         "operand %u is a register that is not declared", k + 1);
				return;
			}
}

static void check_dest(struct check *c, const struct ptx_opnd *o, unsigned k, enum ptx_type t)
{
	bool load = c->i->op == PTX_ld;

	if (c->i->mod.vec) {
		check_vec(c, o, k, t, c->i->mod.vec, load);
	} else if (c->i->op == PTX_mov && o->kind == PTX_VEC) {
		check_packed(c, o, k, t);
	} else if (o->kind != PTX_REG || o->negated || o->reg[0] == PTX_SINK) {
		complain(c, DIAG_PTX_OPERAND, "operand %u is to be a register", k + 1);
	} else {
		check_reg(c, o, k, t, load || c->i->op == PTX_cvt);
	}
}

static void check_imm(struct check *c, const struct ptx_opnd *o, unsigned k, enum ptx_type t)
{
	unsigned bits = ptx_type_info[t].bits;

	if (o->cls == PTX_C_F32   ? t != PTX_T_f32 && t != PTX_T_b32
	    : o->cls == PTX_C_F64 ? t != PTX_T_f64 && t != PTX_T_b64
	                          : is_float(t))
		complain(c, DIAG_PTX_OPERAND, "operand %u: the constant is not a .%s", k + 1,
		         ptx_type_info[t].text);
	else if (t == PTX_T_f16 || t == PTX_T_bf16 || t == PTX_T_f16x2 || t == PTX_T_bf16x2)
		complain(c, DIAG_PTX_OPERAND, "operand %u: a .%s is not written as a constant",
		         k + 1, ptx_type_info[t].text);
	else if (o->cls == PTX_C_B64 && bits < 64 && bits > 1 &&
	         (o->imm < -((int64_t)1 << (bits - 1)) || o->imm >= (int64_t)1 << bits))
		complain(c, DIAG_PTX_OPERAND, "operand %u: the constant does not fit .%s", k + 1,
		         ptx_type_info[t].text);
}

static void check_source(struct check *c, const struct ptx_opnd *o, unsigned k, enum ptx_type t)
{
	bool store = c->i->op == PTX_st, mov = c->i->op == PTX_mov;

	if (c->i->mod.vec && strchr(ptx_shape((enum ptx_op)c->i->op), 'd') == NULL) {
		check_vec(c, o, k, t, c->i->mod.vec, false);
		return;
	}
	switch (o->kind) {
	case PTX_REG:
		if (c->i->op == PTX_bulk_wait || c->i->op == PTX_bulk_wait_read)
			complain(c, DIAG_PTX_OPERAND, "a number of groups is an integer");
		else if (o->reg[0] == PTX_SINK || o->negated)
			complain(c, DIAG_PTX_OPERAND, "operand %u is to be a register", k + 1);
		else
			check_reg(c, o, k, t, store || c->i->op == PTX_cvt);
		return;
	case PTX_IMM:
		if ((c->i->op == PTX_bulk_wait || c->i->op == PTX_bulk_wait_read) && o->imm < 0)
			complain(c, DIAG_PTX_OPERAND, "a number of groups is not negative");
		if ((c->i->op == PTX_bar_sync || c->i->op == PTX_bar_syncn) && k == 0 &&
		    (o->imm < 0 || o->imm > 15))
			complain(c, DIAG_PTX_OPERAND, "a CTA has barriers 0 to 15");
		check_imm(c, o, k, t);
		return;
	case PTX_SPEC:
		if (!mov && c->i->op != PTX_cvt)
			complain(c, DIAG_PTX_OPERAND,
			         "operand %u: special registers are read by mov and cvt only",
			         k + 1);
		else if (o->reg[0] >= PTX_NSPECIALS || is_float(t) ||
		         class_bits(o->cls) != ptx_type_info[t].bits)
			complain(c, DIAG_PTX_CLASS,
			         "operand %u: a special register of another size than .%s", k + 1,
			         ptx_type_info[t].text);
		return;
	case PTX_VEC:
		if (mov)
			check_packed(c, o, k, t);
		else
			complain(c, DIAG_PTX_OPERAND, "operand %u is not to be a vector", k + 1);
		return;
	case PTX_SYM:
		if ((mov &&
		     (t == PTX_T_u64 || t == PTX_T_b64 || t == PTX_T_u32 || t == PTX_T_b32)) ||
		    c->i->op == PTX_cvta)
			return;
		break;
	default:
		break;
	}
	complain(c, DIAG_PTX_OPERAND, "operand %u is of the wrong kind", k + 1);
}

static void check_pred(struct check *c, const struct ptx_opnd *o, unsigned k, bool may_negate)
{
	if (o->kind != PTX_REG || o->cls != PTX_C_PRED || (o->negated && !may_negate) ||
	    o->reg[0] == PTX_SINK)
		complain(c, DIAG_PTX_OPERAND, "operand %u is to be a predicate register", k + 1);
	else if (o->reg[0] >= c->f->nreg[PTX_C_PRED])
		complain(c, DIAG_PTX_NAME, "operand %u is a register that is not declared", k + 1);
}

/* ---- addresses ---- */

static const struct ptx_var *find_var(const struct ptx_var *v, uint32_t n, const char *name)
{
	for (uint32_t k = 0; k < n; k++)
		if (v[k].name == name || strcmp(v[k].name, name) == 0)
			return &v[k];
	return NULL;
}

static void check_bounds(struct check *c, const struct ptx_opnd *o, uint64_t size)
{
	unsigned n = ptx_access_bytes(c->i);

	if (o->imm < 0 || (uint64_t)o->imm + n > size)
		complain(c, DIAG_PTX_ADDRESS, "the access is outside of '%s', which has %llu bytes",
		         o->sym, (unsigned long long)size);
	else if (n && o->imm % n)
		complain(c, DIAG_PTX_ADDRESS,
		         "the offset is not a multiple of the access's %u bytes", n);
}

static void check_param(struct check *c, const struct ptx_opnd *o)
{
	for (unsigned k = 0; o->sym && k < c->f->nparam; k++) {
		const struct ptx_param *p = &c->f->param[k];

		if (strcmp(p->name, o->sym) == 0) {
			check_bounds(c, o,
			             (uint64_t)(ptx_type_info[p->type].bits + 7) / 8 *
			                     (p->count ? p->count : 1));
			return;
		}
	}
	complain(c, DIAG_PTX_ADDRESS, "the address of .param is a parameter's name");
}

static void check_variable(struct check *c, const struct ptx_opnd *o, enum ptx_space space)
{
	const struct ptx_var *v = find_var(c->f->var, c->f->nvar, o->sym);

	if (!v)
		v = find_var(c->f->module->var, c->f->module->nvar, o->sym);
	if (!v)
		complain(c, DIAG_PTX_NAME, "the variable '%s' is not declared", o->sym);
	else if (v->space != space)
		complain(c, DIAG_PTX_ADDRESS, "'%s' is not in the state space of the access",
		         o->sym);
	else if (v->count)
		check_bounds(c, o, (uint64_t)(ptx_type_info[v->type].bits + 7) / 8 * v->count);
}

static void check_address(struct check *c, const struct ptx_opnd *o, unsigned k)
{
	enum ptx_space space = ptx_opnd_space(c->i, k);

	if (o->kind != PTX_MEM)
		complain(c, DIAG_PTX_OPERAND, "operand %u is to be an address", k + 1);
	else if (space == PTX_PARAM)
		check_param(c, o);
	else if (o->sym)
		check_variable(c, o, space);
	else if (o->cls != PTX_C_B64 && !(o->cls == PTX_C_B32 && space == PTX_SHARED))
		complain(c, DIAG_PTX_ADDRESS,
		         "an address is a 64-bit register (32 bits only in .shared)");
	else if (o->reg[0] >= c->f->nreg[o->cls])
		complain(c, DIAG_PTX_NAME, "operand %u is a register that is not declared", k + 1);
	else if (o->imm < INT32_MIN || o->imm > INT32_MAX)
		complain(c, DIAG_PTX_ADDRESS, "the offset does not fit 32 bits");
}

/* ---- instructions ---- */

static void check_operand(struct check *c, unsigned k, char letter)
{
	const struct ptx_opnd *o = &c->i->o[k];
	enum ptx_type t = ptx_opnd_type(c->i, k);

	switch (letter) {
	case 'd':
		check_dest(c, o, k, t);
		break;
	case 'q':
		if (o->kind != PTX_NONE)
			check_pred(c, o, k, false);
		break;
	case 'p':
		check_pred(c, o, k, false);
		break;
	case 'P':
		check_pred(c, o, k, c->i->op != PTX_selp);
		break;
	case 'M':
		check_address(c, o, k);
		break;
	case 'L':
		if (o->kind != PTX_LAB || o->reg[0] >= c->f->nlabel)
			complain(c, DIAG_PTX_OPERAND, "operand %u is to be a label", k + 1);
		break;
	default:
		check_source(c, o, k, t);
		break;
	}
}

/* The type is of the row's, and modifiers that must stand do; the parser's text is always so, a
 * builder's may not be. */
static bool check_spelling(struct check *c)
{
	const struct ptx_insn_info *row = &ptx_insn_info[c->i->op];

	if (row->types ? c->i->type >= PTX_NTYPES || !(row->types >> c->i->type & 1)
	               : c->i->type != PTX_T_none) {
		complain(c, DIAG_PTX_MODIFIER, "'%s' is not for this type", row->name);
		return false;
	}
	for (const struct ptx_letter *l = ptx_letters; l->letter; l++) {
		uint8_t v = ptx_mod_get(&c->i->mod, l);
		bool here = ptx_has_letter((enum ptx_op)c->i->op, l->letter);

		if (v ? !here || v >= l->count || !l->names[v] : here && !l->optional) {
			complain(c, DIAG_PTX_MODIFIER, "'%s' %s a %s", row->name,
			         v ? "has no such or not" : "needs", l->what);
			return false;
		}
	}
	return true;
}

bool ptx_verify_insn(const struct ptx_fn *f, const struct ptx_insn *i, struct diags *d)
{
	struct check c = {f, i, d, false};
	const char *shape, *why;

	if (i->op >= PTX_NOPS) {
		diag_at(d, DIAG_ERROR, DIAG_PTX_INSN, i->at, "an instruction of no row");
		return false;
	}
	shape = ptx_shape((enum ptx_op)i->op);
	if (!check_spelling(&c))
		return false;
	why = ptx_combination(i);
	if (why) {
		complain(&c, DIAG_PTX_COMBINATION, "%s", why);
		return false;
	}
	if (i->nopnd != strlen(shape)) {
		complain(&c, DIAG_PTX_OPERAND, "'%s' has %zu operands, not %u",
		         ptx_insn_info[i->op].name, strlen(shape), i->nopnd);
		return false;
	}
	for (unsigned k = 0; shape[k] && !c.bad; k++)
		check_operand(&c, k, shape[k]);
	if (i->guard > f->nreg[PTX_C_PRED])
		complain(&c, DIAG_PTX_NAME, "the guard is a register that is not declared");
	return !c.bad;
}

static void check_needs(struct check *c)
{
	const struct ptx_module *m = c->f->module;
	unsigned version, sm;

	ptx_insn_needs(c->i, &version, &sm);
	if (version > m->version || sm > m->sm) {
		complain(c, DIAG_PTX_TARGET, "this needs .version %u.%u and sm_%u", version / 10,
		         version % 10, sm);
		diag_note(c->d, (struct span){0, 0}, "the module has .version %u.%u and sm_%u",
		          m->version / 10, m->version % 10, m->sm);
	}
}

/* The parser has seen to this; a builder may not have. */
static void check_names(struct check *c)
{
	const struct ptx_fn *f = c->f;

	for (unsigned k = 0; k < f->nparam; k++)
		for (unsigned j = 0; j < k; j++)
			if (strcmp(f->param[k].name, f->param[j].name) == 0)
				complain(c, DIAG_PTX_TWICE,
				         "the parameter '%s' of '%s' is declared twice",
				         f->param[k].name, f->name);
	for (uint32_t k = 0; k < f->nvar; k++)
		if (find_var(f->var, k, f->var[k].name))
			complain(c, DIAG_PTX_TWICE, "the variable '%s' of '%s' is declared twice",
			         f->var[k].name, f->name);
	for (const struct ptx_fn *g = f->next; g; g = g->next)
		if (strcmp(g->name, f->name) == 0)
			complain(c, DIAG_PTX_TWICE, "the entry '%s' is declared twice", f->name);
	if (f->maxntid > 1024)
		complain(c, DIAG_PTX_NUMBER, "a CTA of '%s' has more than 1024 threads", f->name);
}

static void check_fn(const struct ptx_fn *f, struct diags *d)
{
	struct check c = {f, NULL, d, false};

	if (f->error)
		complain(&c, DIAG_PTX_BUILD, "building '%s': %s", f->name, f->error);
	check_names(&c);
	for (uint32_t k = 0; k < f->nlabel; k++)
		if (f->label[k].at > f->ninsn)
			complain(&c, DIAG_PTX_LABEL, "the label '%s' of '%s' is not placed",
			         f->label[k].name, f->name);
	for (uint32_t k = 0; k < f->ninsn; k++) {
		c.i = &f->insn[k];
		if (ptx_verify_insn(f, c.i, d))
			check_needs(&c);
	}
}

bool ptx_verify(const struct ptx_module *m, struct diags *d)
{
	unsigned before = d->nerror, known = ptx_target_version(m->sm, m->sm_suffix);

	if (!known)
		diag_at(d, DIAG_ERROR, DIAG_PTX_TARGET, (struct span){0, 0},
		        "the target sm_%u is not known", m->sm);
	else if (known > m->version)
		diag_at(d, DIAG_ERROR, DIAG_PTX_TARGET, (struct span){0, 0},
		        "sm_%u needs .version %u.%u", m->sm, known / 10, known % 10);
	for (const struct ptx_fn *f = m->fn; f; f = f->next)
		check_fn(f, d);
	return d->nerror == before;
}
