/*
 * Building modules.  Mistakes of the caller are sticky: the first is kept in fn->error (ptx_verify
 * reports it), and everything after it goes to a scratch instruction.
 */
#include "codegen/ptx/build.h"
#include "codegen/ptx/spell.h"
#include <string.h>

struct ptx_module *ptx_module_new(struct arena *a, unsigned version, unsigned sm, char sm_suffix)
{
	struct ptx_module *m = arena_new(a, struct ptx_module);

	*m = (struct ptx_module){.arena = a, .version = version, .sm = sm, .sm_suffix = sm_suffix};
	m->tail = &m->fn;
	return m;
}

struct ptx_fn *ptx_fn_new(struct ptx_module *m, const char *name)
{
	struct ptx_fn *f = arena_new(m->arena, struct ptx_fn);

	f->name = arena_strndup(m->arena, name, strlen(name));
	f->module = m;
	*m->tail = f;
	m->tail = &f->next;
	return f;
}

static void fail(struct ptx_fn *f, const char *why)
{
	if (!f->error)
		f->error = why;
}

/* The caller's program is too large, which is no mistake in building it. */
static void fail_full(struct ptx_fn *f, const char *why)
{
	f->full |= !f->error;
	fail(f, why);
}

struct ptx_opnd ptx_param_add(struct ptx_fn *f, enum ptx_type t, const char *name)
{
	struct arena *a = f->module->arena;
	struct ptx_param *p;

	f->param = arena_grow(a, f->param, f->nparam, &f->cap_param, (size_t)f->nparam + 1,
	                      sizeof *f->param);
	p = &f->param[f->nparam++];
	*p = (struct ptx_param){.name = arena_strndup(a, name, strlen(name)), .type = t};
	return (struct ptx_opnd){.kind = PTX_SYM, .cls = PTX_C_B64, .sym = p->name};
}

struct ptx_opnd ptx_var_add(struct ptx_fn *f, enum ptx_space sp, enum ptx_type t, unsigned align,
                            uint64_t count, const char *name)
{
	struct ptx_module *m = f->module;
	struct arena *a = m->arena;
	struct ptx_var *v;

	if (count) {
		f->var = arena_grow(a, f->var, f->nvar, &f->cap_var, (size_t)f->nvar + 1,
		                    sizeof *f->var);
		v = &f->var[f->nvar++];
	} else { /* PTX has external variables at module scope only */
		m->var = arena_grow(a, m->var, m->nvar, &m->cap_var, (size_t)m->nvar + 1,
		                    sizeof *m->var);
		v = &m->var[m->nvar++];
	}
	*v = (struct ptx_var){.name = arena_strndup(a, name, strlen(name)),
	                      .space = sp,
	                      .type = t,
	                      .align = align,
	                      .count = count};
	return (struct ptx_opnd){.kind = PTX_SYM, .cls = PTX_C_B64, .sym = v->name};
}

static uint32_t take_regs(struct ptx_fn *f, enum ptx_class c, unsigned n)
{
	uint32_t first = f->nreg[c];

	if (first + n > PTX_MAX_REGS) {
		fail_full(f, "too many registers");
		return 0;
	}
	f->nreg[c] += n;
	return first;
}

struct ptx_opnd ptx_reg(struct ptx_fn *f, enum ptx_class c)
{
	return (struct ptx_opnd){
	        .kind = PTX_REG, .cls = (uint8_t)c, .n = 1, .reg = {take_regs(f, c, 1)}};
}

struct ptx_opnd ptx_vec_reg(struct ptx_fn *f, enum ptx_class c, unsigned n)
{
	struct ptx_opnd o = {.kind = PTX_VEC, .cls = (uint8_t)c};
	uint32_t first;

	if (n < 1 || n > 8) {
		fail(f, "a vector has 1 to 8 registers");
		n = 1;
	}
	first = take_regs(f, c, n);
	o.n = (uint8_t)n;
	for (unsigned k = 0; k < n; k++)
		o.reg[k] = first + k;
	return o;
}

/* Without a function there is no place for an error: n and the classes are checked by the verifier
 * (kind PTX_NONE here). */
struct ptx_opnd ptx_vec_of(const struct ptx_opnd *regs, unsigned n)
{
	struct ptx_opnd o = {.kind = PTX_VEC};

	if (n < 1 || n > 8)
		return (struct ptx_opnd){0};
	o.cls = regs[0].cls;
	o.n = (uint8_t)n;
	for (unsigned k = 0; k < n; k++) {
		if (regs[k].kind != PTX_REG || regs[k].cls != o.cls)
			return (struct ptx_opnd){0};
		o.reg[k] = regs[k].reg[0];
	}
	return o;
}

struct ptx_opnd ptx_vec_get(struct ptx_opnd vec, unsigned k)
{
	if (vec.kind == PTX_REG && k == 0)
		return vec;
	if (vec.kind != PTX_VEC || k >= vec.n)
		return (struct ptx_opnd){0};
	return (struct ptx_opnd){.kind = PTX_REG, .cls = vec.cls, .n = 1, .reg = {vec.reg[k]}};
}

struct ptx_opnd ptx_imm(int64_t v)
{
	return (struct ptx_opnd){.kind = PTX_IMM, .cls = PTX_C_B64, .imm = v};
}

struct ptx_opnd ptx_f32(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof bits);
	return (struct ptx_opnd){.kind = PTX_IMM, .cls = PTX_C_F32, .imm = bits};
}

struct ptx_opnd ptx_spec(enum ptx_special s)
{
	bool wide = s == PTX_CLOCK64 || s == PTX_GLOBALTIMER;

	return (struct ptx_opnd){.kind = PTX_SPEC, .cls = wide ? PTX_C_B64 : PTX_C_B32, .reg = {s}};
}

struct ptx_opnd ptx_at(struct ptx_opnd base, int64_t off)
{
	struct ptx_opnd o = base;

	if (base.kind != PTX_REG && base.kind != PTX_SYM && base.kind != PTX_MEM)
		return (struct ptx_opnd){0};
	o.kind = PTX_MEM;
	o.imm = base.kind == PTX_MEM ? base.imm + off : off;
	return o;
}

struct ptx_opnd ptx_label_new(struct ptx_fn *f, const char *hint)
{
	struct arena *a = f->module->arena;

	f->label = arena_grow(a, f->label, f->nlabel, &f->cap_label, (size_t)f->nlabel + 1,
	                      sizeof *f->label);
	f->label[f->nlabel] =
	        (struct ptx_label){arena_printf(a, "%s_%u", hint, f->nlabel), UINT32_MAX};
	return (struct ptx_opnd){.kind = PTX_LAB, .reg = {f->nlabel++}};
}

void ptx_place(struct ptx_fn *f, struct ptx_opnd label)
{
	if (label.kind != PTX_LAB || label.reg[0] >= f->nlabel)
		fail(f, "ptx_place takes a label of the function");
	else if (f->label[label.reg[0]].at != UINT32_MAX)
		fail(f, "a label is placed twice");
	else
		f->label[label.reg[0]].at = f->ninsn;
}

void ptx_guard(struct ptx_fn *f, struct ptx_opnd p, bool negated)
{
	if (p.kind != PTX_REG || p.cls != PTX_C_PRED) {
		fail(f, "a guard is a predicate register");
		return;
	}
	f->guard = p.reg[0] + 1;
	f->guard_not = negated != p.negated;
}

void ptx_unguard(struct ptx_fn *f)
{
	f->guard = 0;
	f->guard_not = false;
}

void ptx_loc(struct ptx_fn *f, uint32_t line, uint32_t col)
{
	f->loc_line = line;
	f->loc_col = col;
}

void ptx_comment(struct ptx_fn *f, const char *text)
{
	f->comment = text ? arena_strndup(f->module->arena, text, strlen(text)) : NULL;
}

static bool is_float(unsigned t)
{
	return t == PTX_T_f32 || t == PTX_T_f64 || t == PTX_T_f16 || t == PTX_T_bf16 ||
	       t == PTX_T_f16x2 || t == PTX_T_bf16x2;
}

/* A conversion's rounding where one must be written (PTX ISA 9.1, cvt: "Rounding modifiers are
 * mandatory"). */
static uint8_t cvt_rounding(unsigned to, unsigned from)
{
	bool narrower;

	if (to >= PTX_NTYPES || from >= PTX_NTYPES)
		return PTX_R_NONE;
	narrower = ptx_type_info[to].bits < ptx_type_info[from].bits ||
	           (to != from && ptx_type_info[to].bits == ptx_type_info[from].bits);
	if (is_float(to) && is_float(from))
		return narrower ? PTX_RN : PTX_R_NONE;
	if (is_float(to))
		return PTX_RN;
	return is_float(from) ? PTX_RZI : PTX_R_NONE;
}

static void defaults(struct ptx_insn *i)
{
	struct ptx_mod *m = &i->mod;
	enum ptx_op op = (enum ptx_op)i->op;

	if (!m->round && !m->approx && ptx_has_letter(op, 'r')) {
		if (op == PTX_cvt)
			m->round = cvt_rounding(i->type, m->type2);
		else if (is_float(i->type) || op == PTX_cvt2)
			m->round = PTX_RN;
	}
	if (!m->half && ptx_has_letter(op, 'w'))
		m->half = PTX_LOW;
	if (!ptx_has_letter(op, 'u'))
		m->type2 = PTX_T_none;
}

struct ptx_insn *ptx_emit(struct ptx_fn *f, enum ptx_op op, enum ptx_type t,
                          const struct ptx_mod *mod, const struct ptx_opnd *o, unsigned n)
{
	struct ptx_insn *i;

	if (n > PTX_MAX_OPNDS)
		fail(f, "too many operands");
	if (f->ninsn >= PTX_MAX_INSNS)
		fail_full(f, "the function is too long");
	if (f->error) {
		memset(&f->scratch, 0, sizeof f->scratch);
		return &f->scratch;
	}
	f->insn = arena_grow(f->module->arena, f->insn, f->ninsn, &f->cap_insn,
	                     (size_t)f->ninsn + 1, sizeof *f->insn);
	i = &f->insn[f->ninsn++];
	*i = (struct ptx_insn){.op = (uint16_t)op,
	                       .type = (uint8_t)t,
	                       .nopnd = (uint8_t)n,
	                       .guard = f->guard,
	                       .guard_not = f->guard_not,
	                       .loc_line = f->loc_line,
	                       .loc_col = f->loc_col,
	                       .comment = f->comment};
	f->comment = NULL;
	if (mod)
		i->mod = *mod;
	if (n)
		memcpy(i->o, o, n * sizeof *o);
	defaults(i);
	return i;
}

/* A fresh destination for the row: a vector where mod->vec says so. */
struct ptx_opnd ptx_fresh(struct ptx_fn *f, enum ptx_op op, enum ptx_type t,
                          const struct ptx_mod *mod)
{
	struct ptx_insn i = {.op = (uint16_t)op, .type = (uint8_t)t};
	enum ptx_class c;

	if (mod)
		i.mod = *mod;
	c = ptx_type_info[ptx_opnd_type(&i, 0)].cls;
	return i.mod.vec > 1 ? ptx_vec_reg(f, c, i.mod.vec) : ptx_reg(f, c);
}
