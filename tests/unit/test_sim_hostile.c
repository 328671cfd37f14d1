/*
 * Random instructions, well-formed or not: the simulator refuses them or runs them, and neither
 * crashes nor reads outside of its memory (the sanitizers watch).  Registers start with addresses
 * and small numbers, so that runs get far.
 */
#include "tests/unit/unit.h"
#include "tests/unit/sim_run.h"
#include "codegen/ptx/spell.h"

enum { REGS = 8, LABELS = 6, PROGRAMS = 3000 };

static uint64_t seed;

static unsigned draw(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((seed >> 33) % n);
}

static uint32_t some_reg(void)
{
	return draw(200) ? draw(REGS) : draw(4) ? REGS + draw(3) : UINT32_MAX;
}

static int64_t some_imm(void)
{
	static const int64_t v[] = {0,  1,  4,   16,        31,        -1,
	                            32, 64, 255, INT64_MAX, INT64_MIN, 1 << 20};

	return draw(2) ? v[draw(12)] : (int64_t)draw(64);
}

static struct ptx_opnd value(unsigned cls)
{
	struct ptx_opnd o = {.kind = PTX_REG, .cls = (uint8_t)cls};

	o.reg[0] = some_reg();
	switch (draw(8)) {
	case 0:
		o.kind = PTX_IMM;
		o.imm = some_imm();
		break;
	case 1:
		if (draw(3) == 0) {
			o.kind = PTX_SPEC;
			o.reg[0] = draw(PTX_NSPECIALS + 1);
		}
		break;
	case 2:
		if (draw(6) == 0) {
			o.kind = PTX_SYM;
			o.sym = draw(2) ? "buf" : "nothing";
		}
		break;
	default:
		break;
	}
	return o;
}

static struct ptx_opnd vector(unsigned cls, unsigned n)
{
	struct ptx_opnd o = {.kind = PTX_VEC, .cls = (uint8_t)cls, .n = (uint8_t)n};

	for (unsigned k = 0; k < n; k++)
		o.reg[k] = some_reg();
	return o;
}

static struct ptx_opnd address(const struct ptx_insn *i)
{
	struct ptx_opnd o = {.kind = PTX_MEM, .cls = PTX_C_B64};

	o.reg[0] = draw(10) ? draw(3) : some_reg();
	if (i->mod.space == PTX_SHARED) {
		o.sym = draw(4) ? "buf" : "nothing";
		o.imm = draw(8) * 4;
	} else if (i->mod.space == PTX_PARAM) {
		o.sym = draw(4) ? "a" : "n";
	} else {
		o.imm = draw(4) ? (int64_t)draw(8) * 16 : some_imm();
	}
	return o;
}

static void random_operand(struct ptx_insn *i, unsigned k, char letter)
{
	enum ptx_type t = ptx_opnd_type(i, k);
	unsigned cls = draw(40) ? (unsigned)ptx_type_info[t].cls : draw(PTX_NCLASSES);

	switch (letter) {
	case 'M':
		i->o[k] = address(i);
		break;
	case 'L':
		i->o[k] = (struct ptx_opnd){.kind = PTX_LAB};
		i->o[k].reg[0] = draw(LABELS);
		break;
	case 'q':
		i->o[k] = draw(2) ? (struct ptx_opnd){0} : value(PTX_C_PRED);
		break;
	case 'd':
	case 'A':
		i->o[k] = i->mod.vec ? vector(cls, i->mod.vec) : value(cls);
		if (i->op == PTX_mov && draw(4) == 0)
			i->o[k] = vector(ptx_type_info[t].bits == 32 ? PTX_C_B16 : PTX_C_B32, 2);
		break;
	default:
		i->o[k] = value(cls);
		break;
	}
}

static struct ptx_insn random_insn(void)
{
	struct ptx_insn i = {.op = (uint16_t)draw(PTX_NOPS), .type = PTX_T_none};
	const uint32_t types = ptx_insn_info[i.op].types;
	const char *shape = ptx_shape((enum ptx_op)i.op);

	i.mod.type2 = (uint8_t)draw(PTX_NTYPES + 1);
	while (types) {
		i.type = (uint8_t)draw(PTX_NTYPES);
		if (types >> i.type & 1)
			break;
	}
	for (const struct ptx_letter *l = ptx_letters; l->letter; l++)
		if (ptx_has_letter((enum ptx_op)i.op, l->letter) && (!l->optional || draw(2))) {
			unsigned v = draw(l->count);

			ptx_mod_set(&i.mod, l, l->names[v] ? v : 0);
		}
	if (i.mod.space > PTX_PARAM)
		i.mod.space = PTX_GLOBAL;
	if (draw(5) == 0) {
		i.guard = 1 + draw(REGS);
		i.guard_not = draw(2);
	}
	for (unsigned k = 0; shape[k] && k < PTX_MAX_OPNDS; k++) {
		random_operand(&i, k, shape[k]);
		i.nopnd = (uint8_t)(k + 1);
	}
	return i;
}

/* Gives every register a value; the first three 64-bit ones are the addresses. */
static void prologue(struct ptx_fn *f)
{
	static const uint8_t types[PTX_NCLASSES] = {[PTX_C_B16] = PTX_T_b16,
	                                            [PTX_C_B32] = PTX_T_b32,
	                                            [PTX_C_B64] = PTX_T_u64,
	                                            [PTX_C_F32] = PTX_T_f32,
	                                            [PTX_C_F64] = PTX_T_f64};
	static const char *const params[] = {"a", "b", "c"};
	struct ptx_mod mod = {0};

	for (unsigned c = 0; c < PTX_NCLASSES; c++)
		for (unsigned r = 0; r < REGS; r++) {
			struct ptx_opnd o[3] = {ptx_reg(f, (enum ptx_class)c),
			                        ptx_imm((int64_t)(r * r))};

			if (c == PTX_C_PRED) {
				mod.cmp = PTX_GT;
				o[1] = ptx_spec(PTX_TID_X);
				o[2] = ptx_imm((int64_t)r * 5);
				ptx_emit(f, PTX_setp, PTX_T_u32, &mod, o, 3);
				continue;
			}
			if (c == PTX_C_B64 && r < 3) {
				struct ptx_opnd sym = {.kind = PTX_SYM, .sym = params[r]};

				mod = (struct ptx_mod){.space = PTX_PARAM};
				o[1] = ptx_at(sym, 0);
				ptx_emit(f, PTX_ld, PTX_T_u64, &mod, o, 2);
				continue;
			}
			if (c == PTX_C_F32 || c == PTX_C_F64)
				o[1].cls = (uint8_t)c;
			ptx_emit(f, PTX_mov, (enum ptx_type)types[c], NULL, o, 2);
		}
}

/* Verifies the last instruction as if it were the only one. */
static bool alone_is_right(struct sim_test *t, struct ptx_fn *f)
{
	struct ptx_insn *all = f->insn;
	const uint32_t n = f->ninsn;
	struct diags d;
	bool right;

	diags_init(&d, &t->arena);
	f->insn += n - 1;
	f->ninsn = 1;
	right = ptx_verify(f->module, &d);
	f->insn = all;
	f->ninsn = n;
	return right;
}

static struct ptx_module *program(struct sim_test *t, bool verified)
{
	struct ptx_module *m = ptx_module_new(&t->arena, 88, 90, 0);
	struct ptx_fn *f = ptx_fn_new(m, "k");
	uint32_t first;

	ptx_param_add(f, PTX_T_u64, "a");
	ptx_param_add(f, PTX_T_u64, "b");
	ptx_param_add(f, PTX_T_u64, "c");
	ptx_param_add(f, PTX_T_u32, "n");
	ptx_param_layout(f);
	ptx_var_add(f, PTX_SHARED, PTX_T_b32, 16, 16, "buf");
	prologue(f);
	for (unsigned c = 0; c < PTX_NCLASSES; c++)
		ptx_reg(f, (enum ptx_class)c); /* never written */
	for (unsigned k = 0; k < LABELS; k++) {
		struct ptx_opnd label = ptx_label_new(f, "l");

		f->label[label.reg[0]].at = 0;
	}
	first = f->ninsn;
	for (unsigned want = f->ninsn + (verified ? 10 + draw(60) : 1 + draw(3));
	     f->ninsn < want;) {
		struct ptx_insn i = random_insn(), *put;

		put = ptx_emit(f, (enum ptx_op)i.op, (enum ptx_type)i.type, &i.mod, i.o, i.nopnd);
		f->error = NULL;
		if (!put)
			continue;
		put->guard = i.guard;
		put->guard_not = i.guard_not;
		if (verified && !alone_is_right(t, f))
			f->ninsn--;
	}
	for (unsigned k = 0; k < LABELS; k++)
		f->label[k].at = first + draw(f->ninsn - first + 1);
	return m;
}

/* Returns what the run ended with. */
static enum sim_check run_one(unsigned number, bool verified)
{
	static struct sim_test t;
	const struct sim_kernel *k;
	struct sim_symmetric b;
	uint8_t bytes[512];
	enum sim_check found;

	seed = number * 977u + verified;
	sim_test_begin(&t);
	t.o.ranks = 2;
	t.o.seed = number;
	t.o.schedule = number % SIM_NSCHEDULES;
	t.o.sum = number % SIM_NSUMS;
	t.o.perturb_approx = number & 1;
	t.o.max_steps = 5000;
	t.o.jump_time = number & 2;
	sim_test_start(&t);
	k = sim_load(t.sim, program(&t, verified), "k");
	b = sim_alloc_symmetric(t.sim, sizeof bytes, true, "b");
	for (unsigned i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)draw(256);
	for (unsigned r = 0; r < 2; r++)
		sim_write(t.sim, b.uc[r], bytes, sizeof bytes);
	for (unsigned r = 0; k && r < 2; r++) {
		struct sim_test_args a = {b.uc[r], b.uc[1 - r], b.mc, 3};

		sim_launch(t.sim, r, 0, k, 2, 40, &a, SIM_TEST_ARGS);
	}
	sim_run(t.sim);
	found = sim_test_found(&t);
	sim_test_end(&t);
	return found;
}

static void random_programs_are_refused_or_run_but_never_crash(void **state)
{
	unsigned count[SIM_NCHECKS + 1] = {0}, ran = 0;

	(void)state;
	for (unsigned n = 0; n < PROGRAMS; n++) {
		count[run_one(n, false)]++;
		count[run_one(n, true)]++;
	}
	for (unsigned c = 0; c <= SIM_NCHECKS; c++)
		if (c != SIM_UNSUPPORTED && c != SIM_TARGET)
			ran += count[c];
	/* Enough of them have to have been executed for this to mean anything. */
	assert_in_range(ran, PROGRAMS / 4, 2 * PROGRAMS);
	assert_in_range(count[SIM_NCHECKS], PROGRAMS / 100, PROGRAMS);
	if (getenv("SIM_HOSTILE_COUNTS"))
		for (unsigned c = 0; c <= SIM_NCHECKS; c++)
			fprintf(stderr, "%s %u\n", c < SIM_NCHECKS ? sim_check_name[c] : "none",
			        count[c]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(random_programs_are_refused_or_run_but_never_crash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
