/*
 * One instruction: its operands by the letters of its row's shape.  Anything that does not fit the
 * row is refused here, so that execution can trust offsets and widths whatever the text was.
 */
#include "sim/decode.h"
#include "codegen/ptx/spell.h"
#include <string.h>

static sim_exec_fn *const exec[PTX_NOPS] = {
#define PTX_INSN(ID, ...) [PTX_##ID] = exec_##ID,
#include "codegen/ptx/insns.def"
};

struct cursor {
	struct decoder *d;
	const struct ptx_insn *i;
	struct sim_op *op;
};

static bool refuse(struct cursor *c, const char *why)
{
	return sim_refuse(c->d, c->i, why);
}

static bool use(struct cursor *c, unsigned cls, uint32_t reg)
{
	if (cls >= PTX_NCLASSES || reg >= c->d->fn->nreg[cls])
		return refuse(c, "a register that is not declared");
	if (c->op->nuse == sizeof c->op->use / sizeof c->op->use[0])
		return refuse(c, "too many operands");
	c->op->use[c->op->nuse++] = c->d->first[cls] + reg;
	return true;
}

static bool define(struct cursor *c, unsigned cls, uint32_t reg)
{
	if (cls >= PTX_NCLASSES || reg >= c->d->fn->nreg[cls])
		return refuse(c, "a register that is not declared");
	if (c->op->ndef == sizeof c->op->def / sizeof c->op->def[0])
		return refuse(c, "too many operands");
	c->op->def[c->op->ndef++] = c->d->first[cls] + reg;
	return true;
}

static uint32_t reg_off(const struct cursor *c, unsigned cls, uint32_t reg)
{
	return c->d->off[cls] + reg * sim_class_width(cls) * SIM_LANES;
}

/* Memory operations and cvt may have registers wider than their type. */
static bool any_width(const struct ptx_insn *i)
{
	return i->op == PTX_cvt || i->op == PTX_ld || i->op == PTX_st;
}

static unsigned type_width(enum ptx_type t)
{
	return ptx_type_info[t].bits > 32 ? 8 : 4;
}

static uint64_t immediate(const struct ptx_opnd *o, enum ptx_type t)
{
	uint64_t u = (uint64_t)o->imm;
	float f;
	double g;

	if (o->cls == PTX_C_F64 && t == PTX_T_f32) {
		uint32_t v;

		memcpy(&g, &u, sizeof g);
		f = (float)g;
		memcpy(&v, &f, sizeof v);
		return v;
	}
	if (o->cls == PTX_C_F32 && t == PTX_T_f64) {
		uint32_t v = (uint32_t)u;

		memcpy(&f, &v, sizeof f);
		g = (double)f;
		memcpy(&u, &g, sizeof u);
	}
	return u;
}

static bool symbol(struct cursor *c, const char *name, unsigned width, uint32_t *at)
{
	bool shared;
	uint32_t n;

	if (!name || !sim_variable(c->d, name, &shared, &n))
		return refuse(c, "a name that is no variable");
	*at = shared ? sim_const(c->d, c->d->k->shared[n].at, width)
	             : sim_slot(c->d, true, n, width);
	return true;
}

/* A value that is read: its offset, and the bytes a lane. */
static bool source(struct cursor *c, unsigned n, uint32_t *at, uint8_t *width)
{
	const struct ptx_opnd *o = &c->i->o[n];
	enum ptx_type t = ptx_opnd_type(c->i, n);
	unsigned want = type_width(t);

	*width = (uint8_t)want;
	if (t == PTX_T_pred && o->kind == PTX_IMM && c->i->op == PTX_mov)
		return true; /* mov.pred %p, 0: read where it runs */
	if (t == PTX_T_pred && o->kind != PTX_REG)
		return refuse(c, "a predicate was expected");
	switch (o->kind) {
	case PTX_REG:
		if (t == PTX_T_pred) {
			*at = o->reg[0];
			return o->cls == PTX_C_PRED && !o->negated
			               ? use(c, o->cls, o->reg[0])
			               : refuse(c, "a plain predicate was expected");
		}
		*width = (uint8_t)sim_class_width(o->cls);
		if (!*width || (*width != want && !any_width(c->i)) || *width < want)
			return refuse(c, "a register of another width than the type");
		*at = reg_off(c, o->cls, o->reg[0]);
		return use(c, o->cls, o->reg[0]);
	case PTX_IMM:
		*at = sim_const(c->d, immediate(o, t), want);
		return true;
	case PTX_SYM:
		return symbol(c, o->sym, want, at);
	case PTX_SPEC:
		c->op->timer |= o->reg[0] == PTX_GLOBALTIMER || o->reg[0] == PTX_CLOCK64;
		if (o->reg[0] >= PTX_NSPECIALS || (c->op->timer && want != 8))
			return refuse(c, "a special register of another width");
		*at = sim_slot(c->d, false, o->reg[0], want);
		return true;
	default:
		return refuse(c, "an operand of this kind");
	}
}

static bool destination(struct cursor *c, unsigned n)
{
	const struct ptx_opnd *o = &c->i->o[n];
	enum ptx_type t = ptx_opnd_type(c->i, n);
	unsigned width = sim_class_width(o->cls), want = type_width(t);

	if (o->kind != PTX_REG)
		return refuse(c, "a destination that is no register");
	if (t == PTX_T_pred) {
		c->op->d = o->reg[0];
		return o->cls == PTX_C_PRED ? define(c, o->cls, o->reg[0])
		                            : refuse(c, "a predicate was expected");
	}
	if (o->reg[0] == PTX_SINK &&
	    (c->i->op == PTX_atom || c->i->op == PTX_atom_cas || c->i->op == PTX_atom_exch ||
	     c->i->op == PTX_mbar_arrive || c->i->op == PTX_mbar_arrive_tx)) {
		c->op->d = SIM_NOREG;
		return true;
	}
	if (!width || (width != want && !any_width(c->i)) || width < want)
		return refuse(c, "a register of another width than the type");
	c->op->dw = (uint8_t)width;
	c->op->d = reg_off(c, o->cls, o->reg[0]);
	return define(c, o->cls, o->reg[0]);
}

/* The registers of a vector, or of one value, that go to or come from memory or a wider register.
 */
static bool elements(struct cursor *c, unsigned n, bool write)
{
	const struct ptx_opnd *o = &c->i->o[n];
	struct sim_op *op = c->op;

	if (o->kind != PTX_VEC && o->kind != PTX_REG) {
		op->nv = 1;
		return write ? refuse(c, "a destination that is no register")
		             : source(c, n, &op->v[0], &op->dw);
	}
	op->nv = o->kind == PTX_VEC ? o->n : 1;
	op->dw = (uint8_t)sim_class_width(o->cls);
	if (!op->nv || op->nv > 8 || (op->nv & (op->nv - 1)) || !op->dw || op->dw < op->size)
		return refuse(c, "a vector of this shape");
	for (unsigned k = 0; k < op->nv; k++) {
		if (o->reg[k] == PTX_SINK) {
			if (!write)
				return refuse(c, "a sink where a value is read");
			op->v[k] = SIM_NOREG;
			continue;
		}
		if (write ? !define(c, o->cls, o->reg[k]) : !use(c, o->cls, o->reg[k]))
			return false;
		op->v[k] = reg_off(c, o->cls, o->reg[k]);
	}
	return true;
}

static bool param_address(struct cursor *c, const struct ptx_opnd *o)
{
	const struct ptx_fn *fn = c->d->fn;

	for (unsigned k = 0; o->sym && k < fn->nparam; k++) {
		const struct ptx_param *p = &fn->param[k];
		uint64_t size =
		        (uint64_t)(ptx_type_info[p->type].bits + 7) / 8 * (p->count ? p->count : 1);
		uint64_t want = c->op->size * (uint64_t)(c->op->nv ? c->op->nv : 1);

		if (strcmp(p->name, o->sym) != 0)
			continue;
		if (o->imm < 0 || (uint64_t)o->imm + want > size)
			return refuse(c, "a load past the end of the parameter");
		c->op->imm = o->imm + c->d->k->param_off[k];
		return true;
	}
	return refuse(c, "a name that is no parameter");
}

static bool address(struct cursor *c, unsigned n)
{
	const struct ptx_opnd *o = &c->i->o[n];
	struct sim_op *op = c->op;

	op->space = (uint8_t)ptx_opnd_space(c->i, n);
	if (o->kind != PTX_MEM && o->kind != PTX_SYM)
		return refuse(c, "an address was expected");
	if (op->space == PTX_PARAM)
		return c->i->op == PTX_ld ? param_address(c, o)
		                          : refuse(c, "only ld reads parameters");
	if (op->space != PTX_GENERIC && op->space != PTX_GLOBAL && op->space != PTX_SHARED)
		return refuse(c, "a state space that is not modelled");
	if (o->sym) {
		bool shared;
		uint32_t k;

		if (!sim_variable(c->d, o->sym, &shared, &k) || shared != (op->space == PTX_SHARED))
			return refuse(c, "no variable of this space has the name");
		op->imm = o->imm;
		op->addr32 = shared;
		return symbol(c, o->sym, shared ? 4 : 8, &op->addr);
	}
	if (o->kind != PTX_MEM || (o->cls != PTX_C_B64 && o->cls != PTX_C_B32))
		return refuse(c, "an address in a register of this class");
	op->addr32 = o->cls == PTX_C_B32;
	if (op->addr32 && op->space != PTX_SHARED)
		return refuse(c, "a 32-bit address outside of shared memory");
	op->addr = reg_off(c, o->cls, o->reg[0]);
	op->imm = o->imm;
	return use(c, o->cls, o->reg[0]);
}

/* The second and third address of a copy. */
static bool more_address(struct cursor *c, unsigned n)
{
	struct sim_op first = *c->op;
	const unsigned k = c->op->nmore++;

	if (k > 1)
		return refuse(c, "too many addresses");
	if (!address(c, n))
		return false;
	c->op->more[k] = c->op->addr;
	c->op->more_imm[k] = c->op->imm;
	c->op->more32[k] = c->op->addr32;
	c->op->addr = first.addr;
	c->op->imm = first.imm;
	c->op->addr32 = first.addr32;
	c->op->space = first.space;
	return true;
}

static bool predicate(struct cursor *c, unsigned n)
{
	const struct ptx_opnd *o = &c->i->o[n];

	if (o->kind != PTX_REG || o->cls != PTX_C_PRED)
		return refuse(c, "a predicate was expected");
	c->op->p = o->reg[0];
	c->op->p_not = o->negated;
	return use(c, o->cls, o->reg[0]);
}

static bool second_destination(struct cursor *c, unsigned n)
{
	const struct ptx_opnd *o = &c->i->o[n];

	c->op->p = SIM_NOREG;
	if (o->kind == PTX_NONE)
		return true;
	if (o->kind != PTX_REG || o->cls != PTX_C_PRED)
		return refuse(c, "a predicate was expected");
	c->op->p = o->reg[0];
	return define(c, o->cls, o->reg[0]);
}

static bool label(struct cursor *c, unsigned n, uint32_t index)
{
	const struct ptx_opnd *o = &c->i->o[n];

	if (o->kind != PTX_LAB || o->reg[0] >= c->d->fn->nlabel ||
	    c->d->fn->label[o->reg[0]].at > c->d->fn->ninsn)
		return refuse(c, "a label that is not placed");
	c->op->target = c->d->fn->label[o->reg[0]].at;
	if (c->op->target <= index)
		c->op->back = ++c->d->k->nback;
	return true;
}

/* Values of these rows move through v[]. */
static bool moves_elements(const struct ptx_insn *i, char letter)
{
	switch (i->op) {
	case PTX_ld:
	case PTX_mm_ld:
		return letter == 'd';
	case PTX_st:
	case PTX_mm_st:
	case PTX_mm_red:
		return letter == 'A';
	default:
		return false;
	}
}

/* mov with a vector on one side. */
static bool packing_mov(struct cursor *c)
{
	const bool unpack = c->i->o[0].kind == PTX_VEC;
	const struct ptx_opnd *v = &c->i->o[unpack ? 0 : 1];
	const unsigned bits = ptx_type_info[c->i->type].bits;
	uint8_t ignored;

	if (v->kind != PTX_VEC || !v->n || c->i->o[unpack ? 1 : 0].kind == PTX_VEC ||
	    bits % (8 * v->n) || bits < 8 * v->n || sim_class_width(v->cls) != 4 ||
	    bits / v->n > 32)
		return refuse(c, "a move of this shape");
	if (unpack) {
		if (!source(c, 1, &c->op->a, &c->op->aw))
			return false;
	} else if (!destination(c, 0)) {
		return false;
	}
	ignored = c->op->dw;
	c->op->size = (uint8_t)(bits / 8 / v->n);
	if (!elements(c, unpack ? 0 : 1, unpack))
		return false;
	c->op->dw = ignored;
	return true;
}

static bool operand(struct cursor *c, unsigned n, char letter, uint32_t index)
{
	struct sim_op *op = c->op;
	uint8_t width;

	if (moves_elements(c->i, letter))
		return elements(c, n, letter == 'd');
	switch (letter) {
	case 'd':
	case 'p':
		return destination(c, n);
	case 'q':
		return second_destination(c, n);
	case 'A':
		return source(c, n, &op->a, &op->aw);
	case 'B':
		return source(c, n, &op->b, &width);
	case 'C':
		return source(c, n, &op->c, &width);
	case 'D':
		return source(c, n, &op->v[0], &width);
	case 'M':
		return n && c->i->op >= PTX_bulk_ld && c->i->op <= PTX_bulk_st ? more_address(c, n)
		                                                               : address(c, n);
	case 'P':
		return predicate(c, n);
	case 'L':
		return label(c, n, index);
	default:
		return refuse(c, "an operand of this kind");
	}
}

static bool is_strong(const struct sim_op *op, const struct ptx_insn *i)
{
	switch (i->op) {
	case PTX_atom:
	case PTX_atom_cas:
	case PTX_atom_exch:
	case PTX_red:
	case PTX_mbar_test:
	case PTX_mbar_test_parity:
	case PTX_mbar_try:
	case PTX_mbar_try_parity:
		return true;
	case PTX_mm_ld: /* vectors are data, not flags */
		return i->mod.order > PTX_WEAK && op->nv == 1;
	default:
		return i->mod.order > PTX_WEAK;
	}
}

bool sim_decode_insn(struct decoder *d, uint32_t n, struct sim_op *op)
{
	const struct ptx_insn *i = &d->fn->insn[n];
	struct cursor c = {d, i, op};
	const char *shape = ptx_shape((enum ptx_op)i->op);

	op->exec = exec[i->op];
	op->insn = i;
	op->type = i->type < PTX_NTYPES ? i->type : PTX_T_b32;
	op->type2 = i->mod.type2 < PTX_NTYPES ? i->mod.type2 : PTX_T_b32;
	op->size = (uint8_t)((ptx_type_info[op->type].bits + 7) / 8);
	op->dw = op->aw = 4;
	if (i->type >= PTX_NTYPES ? ptx_insn_info[i->op].types != 0
	                          : !(ptx_insn_info[i->op].types >> i->type & 1))
		return refuse(&c, "a type that the instruction does not have");
	if ((i->op == PTX_cvt && !(ptx_insn_info[i->op].types >> op->type2 & 1)) ||
	    (i->op == PTX_cvt2 && op->type2 != PTX_T_f32))
		return refuse(&c, "a second type that the instruction does not have");
	if (strlen(shape) > PTX_MAX_OPNDS || i->nopnd > PTX_MAX_OPNDS)
		return refuse(&c, "too many operands");
	if (i->guard) {
		op->guard = i->guard;
		op->guard_not = i->guard_not;
		if (!use(&c, PTX_C_PRED, i->guard - 1))
			return false;
	}
	if (i->op == PTX_mov && (i->o[0].kind == PTX_VEC || i->o[1].kind == PTX_VEC))
		return packing_mov(&c);
	for (unsigned k = 0; shape[k]; k++)
		if (!operand(&c, k, shape[k], n))
			return false;
	if (op->nv && op->nv * (unsigned)op->size > 32)
		return refuse(&c, "more than 32 bytes at once");
	d->k->bulk |= i->op >= PTX_mbar_init && i->op <= PTX_fence_mbar_init;
	op->strong = is_strong(op, i);
	return true;
}
