/* PTX that parses, verified or not: the simulator refuses it or runs it, within its memory. */
#include "tests/fuzz/fuzz.h"
#include "sim/sim.h"
#include <string.h>

enum { RANKS = 2, BYTES = 4096 };

/* 8-byte parameters are addresses of `b`, unicast and multicast by turns; the others small numbers.
 */
static uint32_t arguments(struct ptx_fn *f, unsigned rank, const struct sim_symmetric *b,
                          uint8_t params[4096])
{
	uint32_t bytes = ptx_param_layout(f);

	if (bytes > 4096)
		return 0;
	memset(params, 0, bytes);
	for (unsigned i = 0; i < f->nparam; i++) {
		uint64_t addr = i & 1 ? b->mc : b->uc[rank];
		uint32_t number = i + 1;

		if (ptx_type_info[f->param[i].type].bits == 64)
			memcpy(params + f->param[i].offset, &addr, 8);
		else if (ptx_type_info[f->param[i].type].bits == 32)
			memcpy(params + f->param[i].offset, &number, 4);
	}
	return bytes;
}

static void run(struct arena *a, const struct ptx_module *m, uint64_t seed)
{
	struct sim_options o = {.ranks = RANKS,
	                        .seed = seed,
	                        .schedule = seed % SIM_NSCHEDULES,
	                        .sum = seed / 3 % SIM_NSUMS,
	                        .max_steps = 20000};
	struct sim *s = sim_new(a, &o);
	const struct sim_kernel *k = sim_load(s, m, m->fn->name);
	struct sim_symmetric b;
	uint8_t data[BYTES], params[4096];
	struct strbuf shown;

	MUST(k || sim_findings(s));
	b = sim_alloc_symmetric(s, BYTES, true, "b");
	memset(data, 1, sizeof data);
	for (unsigned r = 0; r < RANKS; r++)
		sim_write(s, b.uc[r], data, sizeof data);
	for (unsigned r = 0; k && r < RANKS; r++) {
		uint32_t bytes = arguments(m->fn, r, &b, params);

		sim_launch(s, r, 0, k, 2, m->fn->maxntid ? m->fn->maxntid % 97 + 1 : 40, params,
		           bytes);
	}
	MUST(sim_run(s) == !sim_findings(s));
	strbuf_init(&shown, a);
	sim_render_findings(s, &shown);
}

static void check(struct arena *a, const char *text, size_t size)
{
	struct ptx_module *m;
	struct diags d;

	diags_init(&d, a);
	m = ptx_parse(a, &d, diags_add_source(&d, "fuzz", text, size));
	if (m && m->fn)
		run(a, m, size);
}

FUZZ_IN_ARENA(check)
