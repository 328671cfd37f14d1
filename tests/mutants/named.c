/*
 * Mutants written by hand: the PTX of llama3-70b's add_norm, by mm-twoshot and (bulk.c) p2p-bulk.
 * verify must fail on every one and name a line of the PTX (or, where the broken thing is a line
 * that is gone, the statement of the spec), and must pass the text as it was.  A pattern that is not
 * found in the text fails the test, so that it keeps up with code generation.
 */
#include "tests/mutants/mutants.h"
#include "tools/pipeline.h"
#include "tools/verify.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HIDDEN 1024

/* ---- finding and changing instructions ---- */

typedef bool match_fn(const struct ptx_fn *f, const struct ptx_insn *i);

/* The n-th (from 0; -1: the last) instruction that matches; NULL: there is none. */
static struct ptx_insn *nth(struct ptx_fn *f, match_fn *match, int n)
{
	struct ptx_insn *last = NULL;

	for (uint32_t i = 0; i < f->ninsn; i++) {
		if (!match(f, &f->insn[i]))
			continue;
		last = &f->insn[i];
		if (n-- == 0)
			return last;
	}
	return n < 0 ? last : NULL;
}

/* The first that matches after `from`; NULL: none, or from is NULL. */
static struct ptx_insn *after(struct ptx_fn *f, const struct ptx_insn *from, match_fn *match)
{
	for (int n = 0; from && nth(f, match, n); n++)
		if (nth(f, match, n) > from)
			return nth(f, match, n);
	return NULL;
}

/* The last that matches before `to`; NULL: none, or to is NULL. */
static struct ptx_insn *before(struct ptx_fn *f, const struct ptx_insn *to, match_fn *match)
{
	struct ptx_insn *last = NULL;

	for (int n = 0; to && nth(f, match, n) && nth(f, match, n) < to; n++)
		last = nth(f, match, n);
	return last;
}

static bool drop(struct ptx_fn *f, struct ptx_insn *i)
{
	if (i)
		mutant_drop(f, (uint32_t)(i - f->insn));
	return i != NULL;
}

/* Room for one instruction before `i`; it is a copy of *i until it is filled. */
static struct ptx_insn *insert(struct ptx_fn *f, struct ptx_insn *i)
{
	uint32_t at = (uint32_t)(i - f->insn);
	struct ptx_insn copy = *i;

	f->insn = arena_grow(f->module->arena, f->insn, f->ninsn, &f->cap_insn, f->ninsn + 1u,
	                     sizeof *f->insn);
	memmove(&f->insn[at + 1], &f->insn[at], (f->ninsn - at) * sizeof *f->insn);
	f->ninsn++;
	for (uint32_t k = 0; k < f->nlabel; k++)
		if (f->label[k].at != UINT32_MAX && f->label[k].at > at)
			f->label[k].at++;
	f->insn[at] = copy;
	return &f->insn[at];
}

/* The instruction's operand of this kind; NULL: none. */
static struct ptx_opnd *operand(struct ptx_insn *i, enum ptx_kind kind)
{
	for (unsigned k = 0; i && k < i->nopnd; k++)
		if (i->o[k].kind == kind)
			return &i->o[k];
	return NULL;
}

static bool move(struct ptx_insn *i, int64_t bytes)
{
	struct ptx_opnd *m = operand(i, PTX_MEM);

	if (m)
		m->imm += bytes;
	return m != NULL;
}

static int64_t bits_of(float x)
{
	uint32_t b;

	memcpy(&b, &x, sizeof b);
	return b;
}

/* Every immediate f32 `from` becomes `to`. */
static bool replace_f32(struct ptx_fn *f, float from, float to)
{
	bool found = false;

	for (uint32_t i = 0; i < f->ninsn; i++)
		for (unsigned k = 0; k < f->insn[i].nopnd; k++) {
			struct ptx_opnd *o = &f->insn[i].o[k];

			if (o->kind == PTX_IMM && o->cls == PTX_C_F32 &&
			    (uint32_t)o->imm == (uint32_t)bits_of(from)) {
				o->imm = bits_of(to);
				found = true;
			}
		}
	return found;
}

static bool replace_imm(struct ptx_insn *i, int64_t from, int64_t to)
{
	for (unsigned k = 0; i && k < i->nopnd; k++)
		if (i->o[k].kind == PTX_IMM && i->o[k].imm == from) {
			i->o[k].imm = to;
			return true;
		}
	return false;
}

/* ---- what they look for ---- */

/* clang-format off */
#define MATCH(name, condition) \
	static bool name(const struct ptx_fn *f, const struct ptx_insn *i) { (void)f; return condition; }

/* Rows may be beyond the last; a weight is there. */
MATCH(is_own_row,    i->guard)
MATCH(is_spin,       i->op == PTX_bra && i->guard && i->o[0].kind == PTX_LAB && f->label[i->o[0].reg[0]].at <= (uint32_t)(i - f->insn))
MATCH(is_arrive,     i->op == PTX_mm_st && i->type == PTX_T_b64)
MATCH(is_broadcast,  i->op == PTX_mm_st && i->type != PTX_T_b64 && i->mod.vec)
MATCH(is_sum,        i->op == PTX_mm_ld)
MATCH(is_row_load,   i->op == PTX_ld && i->mod.space == PTX_GLOBAL && !i->mod.nc && i->mod.vec && is_own_row(f, i))
MATCH(is_row_store,  i->op == PTX_st && i->mod.space == PTX_GLOBAL && i->mod.vec)
MATCH(is_weight,     i->op == PTX_ld && i->mod.space == PTX_GLOBAL && !i->mod.nc && i->mod.vec && !is_own_row(f, i))
MATCH(is_barrier,    i->op == PTX_bar_sync)
MATCH(is_round,      i->op == PTX_cvt2)
MATCH(is_shuffle,    i->op == PTX_shfl)
MATCH(is_word_store, i->op == PTX_st && i->mod.space == PTX_GLOBAL && i->type == PTX_T_u32)
MATCH(is_end_of_rows, i->op == PTX_setp && i->mod.cmp == PTX_GE && i->type == PTX_T_u32 && i->o[2].kind == PTX_REG)
MATCH(is_more_rows,  i->op == PTX_setp && i->mod.cmp == PTX_LT && i->type == PTX_T_u32 && i->o[2].kind == PTX_REG)
MATCH(is_domain,     i->op == PTX_cvt && i->type == PTX_T_u32 && i->mod.type2 == PTX_T_u64)
MATCH(is_rsqrt,      i->op == PTX_rsqrt)
MATCH(is_fma,        i->op == PTX_fma)
MATCH(is_add,        i->op == PTX_addf)
MATCH(is_mul,        i->op == PTX_mulf)
MATCH(is_offset,     (i->op == PTX_mul || i->op == PTX_mad) && i->mod.half == PTX_WIDE)
MATCH(is_put_shared, i->op == PTX_st && i->mod.space == PTX_SHARED && i->type == PTX_T_f32)
MATCH(is_rank,       i->op == PTX_ld && i->mod.space == PTX_PARAM && operand((struct ptx_insn *)(uintptr_t)i, PTX_SYM)
                     ? strstr(operand((struct ptx_insn *)(uintptr_t)i, PTX_SYM)->sym, "rank") != NULL
                     : i->op == PTX_ld && i->mod.space == PTX_PARAM && operand((struct ptx_insn *)(uintptr_t)i, PTX_MEM) &&
                       operand((struct ptx_insn *)(uintptr_t)i, PTX_MEM)->sym &&
                       strstr(operand((struct ptx_insn *)(uintptr_t)i, PTX_MEM)->sym, "rank") != NULL)

/* ---- the mutants ---- */

static bool no_entry_barrier(struct ptx_fn *f)   { return drop(f, nth(f, is_spin, 0)); }
static bool no_exit_barrier(struct ptx_fn *f)    { return nth(f, is_spin, 1) && drop(f, nth(f, is_spin, -1)); }
static bool no_arrival(struct ptx_fn *f)         { return drop(f, nth(f, is_arrive, 0)); }
static bool wrong_slot(struct ptx_fn *f)         { return move(nth(f, is_arrive, 0), 8); }
static bool stale_epoch(struct ptx_fn *f)        { return drop(f, nth(f, is_word_store, -1)); }
static bool misaligned(struct ptx_fn *f)         { return move(nth(f, is_sum, 0), 4); }
static bool weight_shifted(struct ptx_fn *f)     { return move(nth(f, is_weight, 0), -16); }
static bool weight_ahead(struct ptx_fn *f)       { return move(nth(f, is_weight, 0), 16); }
static bool residual_not_written(struct ptx_fn *f) { return drop(f, nth(f, is_row_store, 0)); }
static bool residual_shifted(struct ptx_fn *f)   { return move(nth(f, is_row_store, 0), 16); }
static bool output_not_written(struct ptx_fn *f) { return drop(f, nth(f, is_broadcast, 0)); }
static bool output_shifted(struct ptx_fn *f)     { return move(nth(f, is_broadcast, 0), -16); }
static bool eps_dropped(struct ptx_fn *f)        { return replace_f32(f, 1e-5f, 0.0f); }
static bool wrong_mean(struct ptx_fn *f)         { return replace_f32(f, 1.0f / HIDDEN, 2.0f / HIDDEN); }
static bool half_a_shuffle(struct ptx_fn *f)     { return replace_imm(nth(f, is_shuffle, 0), 16, 8); }
static bool no_shuffle(struct ptx_fn *f)         { return replace_imm(nth(f, is_shuffle, 0), 16, 0); }
static bool wrong_stride(struct ptx_fn *f)
{
	for (int n = 0; nth(f, is_offset, n); n++)
		if (replace_imm(nth(f, is_offset, n), HIDDEN * 2, HIDDEN * 2 - 16))
			return true;
	return false;
}
/* clang-format on */

/* The second of the two bounds of the CTA's rows is where they end. */
static bool one_row_missed(struct ptx_fn *f)
{
	struct ptx_insn *end = nth(f, is_domain, 1), *less;

	if (!end)
		return false;
	less = insert(f, end + 1);
	end = less - 1;
	memset(less, 0, sizeof *less);
	less->op = PTX_sub;
	less->type = PTX_T_u32;
	less->nopnd = 3;
	less->o[0] = less->o[1] = end->o[0];
	less->o[2] = ptx_imm(1);
	return true;
}

static bool one_row_too_many(struct ptx_fn *f)
{
	struct ptx_insn *i = nth(f, is_end_of_rows, 0), *less = nth(f, is_more_rows, 0);

	if (!i || !less)
		return false;
	i->mod.cmp = PTX_GT;
	less->mod.cmp = PTX_LE;
	return true;
}

/* Loads that are not kept within the rows there are. */
static bool unguarded_load(struct ptx_fn *f)
{
	struct ptx_insn *i = nth(f, is_sum, 0);

	if (!i || !i->guard)
		return false;
	i->guard = 0;
	return true;
}

/* The barrier between warps: the first that follows a store to shared memory of the reduction. */
static bool no_bar_sync(struct ptx_fn *f)
{
	return drop(f, after(f, nth(f, is_put_shared, 0), is_barrier));
}

/* From here on the rank is another one. */
static bool wrong_rank(struct ptx_fn *f)
{
	struct ptx_insn *ld = nth(f, is_rank, 0), *i;

	if (!ld)
		return false;
	i = insert(f, ld + 1);
	ld = i - 1;
	memset(i, 0, sizeof *i);
	i->op = PTX_xor;
	i->type = PTX_T_b32;
	i->nopnd = 3;
	i->o[0] = i->o[1] = ld->o[0];
	i->o[2] = ptx_imm(1);
	return true;
}

static bool rounding_dropped(struct ptx_fn *f)
{
	struct ptx_insn *i = nth(f, is_round, 0);

	if (!i)
		return false;
	i->mod.round = PTX_RZ;
	return true;
}

static bool output_truncated(struct ptx_fn *f)
{
	struct ptx_insn *i = before(f, nth(f, is_broadcast, 0), is_round);

	if (!i)
		return false;
	i->mod.round = PTX_RZ;
	return true;
}

static bool halves_swapped(struct ptx_fn *f)
{
	struct ptx_insn *i = nth(f, is_round, 0);
	struct ptx_opnd t;

	if (!i)
		return false;
	t = i->o[1];
	i->o[1] = i->o[2];
	i->o[2] = t;
	return true;
}

static bool plain_load_of_multicast(struct ptx_fn *f)
{
	struct ptx_insn *i = nth(f, is_sum, 0);
	uint8_t vec;

	if (!i)
		return false;
	vec = i->mod.vec;
	memset(&i->mod, 0, sizeof i->mod);
	i->op = PTX_ld;
	i->type = PTX_T_b32;
	i->mod.space = PTX_GLOBAL;
	i->mod.vec = vec;
	return true;
}

static bool plain_store_to_multicast(struct ptx_fn *f)
{
	struct ptx_insn *i = nth(f, is_broadcast, 0);
	uint8_t vec;

	if (!i)
		return false;
	vec = i->mod.vec;
	memset(&i->mod, 0, sizeof i->mod);
	i->op = PTX_st;
	i->mod.space = PTX_GLOBAL;
	i->mod.vec = vec;
	return true;
}

/* The residual is written during the grid, so it must not be read as if it were constant. */
static bool residual_as_constant(struct ptx_fn *f)
{
	struct ptx_insn *i = nth(f, is_row_load, 0);

	if (!i)
		return false;
	i->mod.nc = 1;
	return true;
}

static bool residual_not_added(struct ptx_fn *f)
{
	struct ptx_insn *i = nth(f, is_add, 0);

	if (!i)
		return false;
	i->op = PTX_mulf; /* by one */
	i->o[2] = ptx_f32(1.0f);
	return true;
}

static bool sqrt_for_rsqrt(struct ptx_fn *f)
{
	struct ptx_insn *i = nth(f, is_rsqrt, 0);

	if (!i)
		return false;
	memset(&i->mod, 0, sizeof i->mod);
	i->op = PTX_sqrtf;
	i->mod.round = PTX_RN;
	return true;
}

static bool element_not_counted(struct ptx_fn *f)
{
	return drop(f, nth(f, is_fma, 0));
}

static bool weight_not_applied(struct ptx_fn *f)
{
	struct ptx_insn *i = before(f, nth(f, is_broadcast, 0), is_mul);

	if (!i)
		return false;
	i->o[2] = ptx_f32(1.0f);
	return true;
}

static bool shared_shifted(struct ptx_fn *f)
{
	return move(nth(f, is_put_shared, 0), 4);
}

static const struct mutant mutants[] = {
        {"no entry barrier", no_entry_barrier},
        {"no exit barrier", no_exit_barrier},
        {"no arrival at the entry", no_arrival},
        {"arrival in the wrong slot", wrong_slot},
        {"stale epoch", stale_epoch},
        {"a row missed", one_row_missed},
        {"a row too many", one_row_too_many},
        {"loads beyond the last row", unguarded_load},
        {"another rank's rows", wrong_rank},
        {"residual truncated, not rounded", rounding_dropped},
        {"output truncated, not rounded", output_truncated},
        {"halves of a word swapped", halves_swapped},
        {"eps dropped", eps_dropped},
        {"mean over half the row", wrong_mean},
        {"weight shifted by a vector back", weight_shifted},
        {"weight shifted by a vector ahead", weight_ahead},
        {"weight not applied", weight_not_applied},
        {"misaligned in-switch load", misaligned},
        {"plain load of a multicast address", plain_load_of_multicast},
        {"plain store to a multicast address", plain_store_to_multicast},
        {"bar.sync missing between warps", no_bar_sync},
        {"reduction narrower than the warp", half_a_shuffle},
        {"reduction of one lane with itself", no_shuffle},
        {"partial results in the wrong word", shared_shifted},
        {"element left out of the sum of squares", element_not_counted},
        {"residual not written", residual_not_written},
        {"residual written a vector further", residual_shifted},
        {"residual not added", residual_not_added},
        {"residual read as a constant", residual_as_constant},
        {"output not written", output_not_written},
        {"output written a vector before", output_shifted},
        {"sqrt for rsqrt", sqrt_for_rsqrt},
        {"row stride too short", wrong_stride},
        {NULL, NULL},
};

/* ---- running them ---- */

struct bench {
	struct pipe p;
	struct vf_data *d;
	const char *text;
	struct tap *tap;
};

static void report(struct bench *b, const char *name, const char *wrong, const char *more)
{
	tap_say(b->tap, name, wrong, more);
}

static struct ptx_module *parse(struct bench *b, const char *text)
{
	return mutant_parse(b->p.a, &b->p.d, text);
}

static void run_mutant(struct bench *b, const struct mutant *x)
{
	struct ptx_module *m = parse(b, b->text);
	const struct vf_failure *f;
	struct vf_result r;
	struct strbuf text;

	if (!m || !x->apply(m->fn)) {
		report(b, x->name, "the pattern is not in the text any more", "");
		return;
	}
	strbuf_init(&text, b->p.a);
	ptx_print(m, &text);
	m = parse(b, text.s);
	if (!m || !strcmp(text.s, b->text)) {
		report(b, x->name, m ? "it changes nothing" : "it does not parse", "");
		return;
	}
	vf_run(b->d, m, text.s, b->p.a, &r);
	f = &r.failure;
	strbuf_init(&text, b->p.a);
	if (f->kind != VF_GOOD)
		vf_print_failure(f, b->p.args->spec, &text);
	report(b, x->name,
	       f->kind == VF_GOOD          ? "verify passes it"
	       : !f->line && !f->spec_line ? "the report names no line"
	                                   : NULL,
	       text.s);
}

static void run_all(struct bench *b, const struct mutant *x, const char *only)
{
	for (; x->name; x++)
		if (!only || !strcmp(only, x->name))
			run_mutant(b, x);
}

static bool prepare(struct bench *b)
{
	static const int64_t few[] = {5, 9}, many[] = {5, 77};
	const bool bulk = b->p.args->protocol == CG_P2P_BULK; /* goes round its ring, on one CTA */
	static struct vf_kernel vk;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct vf_options o = {.tp = 4,
	                       .tokens = bulk ? many : few,
	                       .ntokens = 2,
	                       .launches = bulk ? 2 : 5,
	                       .schedules = bulk ? 10 : 24,
	                       .ctas = bulk ? 1 : 0,
	                       .sum = -1,
	                       .threads = cpus > 0 ? (unsigned)cpus : 1};
	struct strbuf text;
	const char *error = "";
	struct vf_result r;

	strbuf_init(&text, b->p.a);
	if (pipe_all(&b->p) != ST_OK) {
		diags_render(&b->p.d, DIAG_WARNING, &text);
		report(b, "the kernel compiles", "it does not", text.s);
		return false;
	}
	ptx_print(b->p.kernel[0].k->module, &text);
	b->text = text.s;
	vk = (struct vf_kernel){.f = b->p.kernel[0].f, .k = b->p.kernel[0].k, .places = &b->p.d};
	if (vf_data_new(&vk, &o, b->p.a, &b->d, &error) != ST_OK) {
		report(b, "the reference evaluates", error, "");
		return false;
	}
	vf_run(b->d, parse(b, b->text), b->text, b->p.a, &r);
	strbuf_init(&text, b->p.a);
	if (r.failure.kind != VF_GOOD)
		vf_print_failure(&r.failure, b->p.args->spec, &text);
	report(b, "the text as it was is good", r.failure.kind == VF_GOOD ? NULL : "it is not",
	       text.s);
	return r.failure.kind == VF_GOOD;
}

/* A pass that changes what the kernel means (here: eps) is found on the IR, before any PTX runs. */
static void wrong_pass(struct bench *b)
{
	struct ir_module *m = ir_module_copy(b->p.before, b->p.a);
	struct vf_stage stage = {"spoil", ir_func_find(m, "add_norm")};
	struct vf_kernel vk = {b->p.kernel[0].f, b->p.kernel[0].k, IR_ROWS_OWN, &stage, 1, &b->p.d};
	static const int64_t tokens[] = {3};
	struct vf_options o = {
	        .tp = 4, .tokens = tokens, .ntokens = 1, .schedules = 1, .threads = 1};
	const char *error = "";
	struct vf_data *d;
	bool found = false;

	for (struct ir_func *f = m->funcs; f; f = f->next)
		for (struct ir_value *v = f->first; v; v = v->next)
			if (v->op == IR_OP_CONST && v->num == 1e-5) {
				v->num = 1e-6;
				found = true;
			}
	found = found && vf_data_new(&vk, &o, b->p.a, &d, &error) == ST_INTERNAL;
	report(b, "a pass that changes the meaning",
	       found && strstr(error, "spoil") ? NULL : "it is not found", error);
}

void run_named(const char *spec, const char *only, struct tap *tap)
{
	struct fe_set set = {"hidden", "1024"};
	struct arena arena;
	struct args args = {.command = CMD_VERIFY,
	                    .arena = &arena,
	                    .tp = 4,
	                    .kernel = "add_norm",
	                    .spec = spec,
	                    .set = &set,
	                    .nset = 1,
	                    .target = cg_target_by_name("sm_90")};
	struct bench b = {.tap = tap};

	arena_init(&arena, 0);
	if (setjmp(arena.oom)) {
		puts("Bail out! out of memory");
		exit(1);
	}
	pipe_init(&b.p, &arena, &args);
	if (prepare(&b))
		run_all(&b, mutants, only);
	if (b.d)
		wrong_pass(&b);
	vf_data_free(b.d);
	b.d = NULL;
	args.protocol = CG_P2P_BULK;
	pipe_init(&b.p, &arena, &args);
	if (prepare(&b))
		run_all(&b, bulk_mutants, only);
	vf_data_free(b.d);
	arena_free(&arena);
}
