/*
 * From a PTX function to a kernel that runs: places of registers, constants and variables, then
 * instructions.  What does not depend on the lane's data is done here once.
 */
#include "sim/decode.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_SHARED = 256 << 10, SHARED_GAP = 16 };
#define MAX_REGISTER_BYTES (UINT64_C(16) << 20)

unsigned sim_class_width(unsigned cls)
{
	static const uint8_t width[PTX_NCLASSES] = {
	        [PTX_C_PRED] = 0, [PTX_C_B16] = 4, [PTX_C_B32] = 4,
	        [PTX_C_B64] = 8,  [PTX_C_F32] = 4, [PTX_C_F64] = 8,
	};

	return cls < PTX_NCLASSES ? width[cls] : 0;
}

bool sim_refuse(struct decoder *d, const struct ptx_insn *i, const char *why)
{
	struct strbuf b;

	if (d->failed)
		return false;
	d->failed = true;
	strbuf_init(&b, d->s->arena);
	if (i)
		strbuf_printf(&b, "PTX line %u: ", i->line);
	if (i && i->op < PTX_NOPS)
		ptx_print_insn(d->fn, i, &b);
	sim_found_at(d->s, 0, SIM_UNSUPPORTED, i, "'%s' in '%s': %s", b.s, d->fn->name, why);
	return false;
}

uint32_t sim_const(struct decoder *d, uint64_t value, unsigned width)
{
	struct sim_kernel *k = d->k;
	size_t at = 0;
	const size_t size = (size_t)width * SIM_LANES;

	if (width == 4)
		value = (uint32_t)value;
	/* Places are multiples of 128 bytes and equal widths are searched first to last. */
	for (; at + size <= d->const_bytes; at += 128) {
		bool same = true;

		for (unsigned i = 0; same && i < SIM_LANES; i++)
			same = width == 8 ? ((const uint64_t *)(const void *)(k->consts + at))[i] ==
			                            value
			                  : ((const uint32_t *)(const void *)(k->consts + at))[i] ==
			                            value;
		if (same)
			return (uint32_t)at | 1;
	}
	at = d->const_bytes;
	k->consts = arena_grow(d->s->arena, k->consts, at, &d->cap_const, at + size, 1);
	d->const_bytes += size;
	for (unsigned i = 0; i < SIM_LANES; i++) {
		if (width == 8)
			((uint64_t *)(void *)(k->consts + at))[i] = value;
		else
			((uint32_t *)(void *)(k->consts + at))[i] = (uint32_t)value;
	}
	return (uint32_t)at | 1;
}

uint32_t sim_slot(struct decoder *d, bool var, uint32_t index, unsigned width)
{
	struct sim_kernel *k = d->k;
	struct sim_slot *t;

	for (uint32_t n = 0; n < k->nslot; n++)
		if (k->slot[n].var == var && k->slot[n].index == index && k->slot[n].width == width)
			return k->slot[n].off;
	k->slot = arena_grow(d->s->arena, k->slot, k->nslot, &d->cap_slot, k->nslot + 1,
	                     sizeof *k->slot);
	t = &k->slot[k->nslot++];
	*t = (struct sim_slot){k->reg_bytes, (uint8_t)width, var, index};
	k->reg_bytes += width * SIM_LANES;
	return t->off;
}

bool sim_variable(struct decoder *d, const char *name, bool *shared, uint32_t *index)
{
	for (uint32_t i = 0; i < d->k->nshared; i++)
		if (strcmp(d->k->shared[i].name, name) == 0) {
			*shared = true;
			*index = i;
			return true;
		}
	for (uint32_t i = 0, n = 0; i < d->m->nvar; i++) {
		if (d->m->var[i].space != PTX_GLOBAL)
			continue;
		if (strcmp(d->m->var[i].name, name) == 0) {
			*shared = false;
			*index = n;
			return true;
		}
		n++;
	}
	return false;
}

static bool place_registers(struct decoder *d)
{
	uint64_t bytes = 0, n = 0;

	for (unsigned c = 0; c < PTX_NCLASSES; c++) {
		d->first[c] = (uint32_t)n;
		d->off[c] = (uint32_t)bytes;
		n += d->fn->nreg[c];
		bytes += (uint64_t)d->fn->nreg[c] * sim_class_width(c) * SIM_LANES;
		if (bytes > MAX_REGISTER_BYTES || n > MAX_REGISTER_BYTES / 128)
			return sim_refuse(d, NULL, "too many registers");
	}
	d->k->nreg = (uint32_t)n;
	d->k->npred = d->fn->nreg[PTX_C_PRED];
	d->k->reg_bytes = (uint32_t)bytes;
	d->k->timer_off[0] = sim_slot(d, false, PTX_GLOBALTIMER, 8);
	d->k->timer_off[1] = sim_slot(d, false, PTX_CLOCK64, 8);
	return true;
}

static uint64_t var_bytes(const struct ptx_var *v)
{
	uint64_t each = (ptx_type_info[v->type].bits + 7) / 8;

	return v->count > SIM_ALLOC_MAX / each ? SIM_ALLOC_MAX + 1 : v->count * each;
}

static bool place_shared(struct decoder *d, const struct ptx_var *v)
{
	struct sim_kernel *k = d->k;
	uint64_t bytes = var_bytes(v), align = v->align > 16 ? v->align : 16, at;

	if (v->space != PTX_SHARED)
		return sim_refuse(d, NULL, "a variable that is neither .shared nor .global");
	at = (k->shared_bytes + align - 1) / align * align;
	if (!v->count) { /* behind all others; a launch says how large it is */
		if (k->dynamic)
			return sim_refuse(d, NULL, "two dynamic arrays in shared memory");
		k->dynamic = k->nshared + 1;
	}
	if (align > 4096 || at + bytes > MAX_SHARED)
		return sim_refuse(d, NULL, "more shared memory than a CTA can have");
	k->shared = arena_grow(d->s->arena, k->shared, k->nshared, &d->cap_shared, k->nshared + 1,
	                       sizeof *k->shared);
	k->shared[k->nshared++] = (struct sim_shared_var){v->name, (uint32_t)at, (uint32_t)bytes};
	k->shared_bytes = (uint32_t)(at + bytes + SHARED_GAP);
	return true;
}

/* Variables of the module are on every rank and start as zeros. */
static bool place_global(struct decoder *d, const struct ptx_var *v, uint64_t *addr)
{
	uint64_t bytes = var_bytes(v);

	if (bytes > SIM_ALLOC_MAX)
		return sim_refuse(d, NULL, "a variable that is too large");
	for (unsigned r = 0; r < d->s->o.ranks; r++) {
		uint8_t *zero = arena_alloc(d->s->arena, bytes);

		addr[r] = sim_alloc(d->s, r, bytes, v->name);
		sim_write(d->s, addr[r], zero, bytes);
	}
	return true;
}

static bool place_variables(struct decoder *d)
{
	d->k->global = arena_array(d->s->arena, d->m->nvar + 1, sizeof *d->k->global);
	for (uint32_t i = 0; i < d->m->nvar; i++) {
		const struct ptx_var *v = &d->m->var[i];

		if (v->space == PTX_GLOBAL ? !place_global(d, v, d->k->global[d->k->nglobal++])
		                           : v->count && !place_shared(d, v))
			return false;
	}
	for (uint32_t i = 0; i < d->fn->nvar; i++)
		if (!place_shared(d, &d->fn->var[i]))
			return false;
	for (uint32_t i = 0; i < d->m->nvar; i++)
		if (d->m->var[i].space != PTX_GLOBAL && !d->m->var[i].count &&
		    !place_shared(d, &d->m->var[i]))
			return false;
	if (d->k->dynamic) /* CTAs are made with as much as there can be */
		d->k->shared_bytes = (227u << 10) + SHARED_GAP;
	return true;
}

/* The parameter block: natural alignment, or more where stated. */
static void place_params(struct decoder *d)
{
	struct sim_kernel *k = d->k;
	uint64_t at = 0;

	k->param_off = arena_news(d->s->arena, uint32_t, d->fn->nparam + 1);
	for (unsigned i = 0; i < d->fn->nparam; i++) {
		const struct ptx_param *p = &d->fn->param[i];
		uint64_t each = (ptx_type_info[p->type].bits + 7) / 8;
		uint64_t align = p->align > each ? p->align : each;

		at = (at + align - 1) / align * align;
		k->param_off[i] = (uint32_t)at;
		at += each * (p->count ? p->count : 1);
	}
	if (at > 4096)
		sim_refuse(d, NULL, "more than 4096 bytes of parameters");
	k->param_bytes = (uint32_t)at;
}

static bool check_target(struct decoder *d, const struct ptx_insn *i)
{
	unsigned version, sm;
	struct strbuf b;

	ptx_insn_needs(i, &version, &sm);
	if (version <= d->m->version && sm <= d->m->sm)
		return true;
	strbuf_init(&b, d->s->arena);
	ptx_print_insn(d->fn, i, &b);
	sim_found_at(d->s, 0, SIM_TARGET, i,
	             "PTX line %u: %s\n    needs .version %u.%u and sm_%u; the module says %u.%u "
	             "and sm_%u",
	             i->line, b.s, version / 10, version % 10, sm, d->m->version / 10,
	             d->m->version % 10, d->m->sm);
	d->failed = true;
	return false;
}

static const struct ptx_insn implicit_ret = {.op = PTX_ret, .type = PTX_T_none};

static void decode_body(struct decoder *d)
{
	struct sim_kernel *k = d->k;

	k->nop = d->fn->ninsn + 1;
	k->op = arena_news(d->s->arena, struct sim_op, k->nop);
	for (uint32_t n = 0; n < d->fn->ninsn; n++) {
		const struct ptx_insn *i = &d->fn->insn[n];

		if (i->op >= PTX_NOPS) {
			sim_refuse(d, i, "unknown instruction");
			return;
		}
		if (!check_target(d, i) || !sim_decode_insn(d, n, &k->op[n]))
			return;
	}
	k->op[d->fn->ninsn] = (struct sim_op){.exec = exec_ret, .insn = &implicit_ret};
}

const struct sim_kernel *sim_load(struct sim *s, const struct ptx_module *m, const char *entry)
{
	struct decoder d = {.s = s, .m = m};

	for (d.fn = m->fn; d.fn && strcmp(d.fn->name, entry) != 0; d.fn = d.fn->next)
		;
	if (!d.fn) {
		sim_found_at(s, 0, SIM_PARAM, NULL, "the module has no entry '%s'", entry);
		return NULL;
	}
	d.k = arena_new(s->arena, struct sim_kernel);
	d.k->sim = s;
	d.k->fn = d.fn;
	place_params(&d);
	if (!d.failed && place_registers(&d) && place_variables(&d))
		decode_body(&d);
	if (!d.failed && d.k->reg_bytes > MAX_REGISTER_BYTES)
		sim_refuse(&d, NULL, "too many registers");
	return d.failed ? NULL : d.k;
}
