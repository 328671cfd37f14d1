/* For tests of protocols: ranks with x, y, a workspace and an exchange buffer, and kernels that are launched on them. */
#pragma once
#include "tests/unit/cg_fixture.h"
#include "sim/sim.h"

struct world {
	struct cg_fixture *f;
	struct sim *sim;
	struct sim_options o;
	unsigned tp, cols, most; /* most: rows of the buffers */
	unsigned size;           /* bytes of an element */
	struct sim_symmetric x, y, ws, xchg;
	uint64_t exchange;
};

struct loaded {
	const struct cg_kernel *k;
	const struct sim_kernel *s;
};

/* Compiles kernel `name` for the protocol and its row form; `hidden` overrides the const of this name (0: as written). */
static inline struct cg_kernel *world_kernel(struct cg_fixture *f, const char *spec,
                                             const char *name, unsigned hidden,
                                             const struct cg_options *o)
{
	struct fe_set set = {"hidden", arena_printf(&f->arena, "%u", hidden)};
	struct ir_pass_options po = {.tp = o->tp, .rows = cg_protocol_rows(o->protocol)};
	const struct source *src = diags_add_source(&f->d, "test.plait", spec, strlen(spec));
	struct ast_file *ast = fe_parse(&f->arena, &f->d, src);
	struct fe_options fo = {.set = &set, .nset = hidden ? 1 : 0};
	struct ir_module *m = ast ? fe_lower(&f->arena, &f->d, ast, &fo) : NULL;
	struct cg_kernel *k = NULL;

	if (m && ir_run_passes(m, &po, &f->d) == ST_OK)
		for (struct ir_func *g = m->funcs; g; g = g->next)
			if (g->is_kernel && (!name || strcmp(g->name, name) == 0) &&
			    cg_compile(g, o, &f->arena, &f->d, &k) != ST_OK)
				k = NULL;
	if (!k)
		fail_msg("%s", cg_shown(f));
	return k;
}

static inline struct loaded world_load(struct world *w, const char *spec, const char *name,
                                       enum cg_protocol p, enum cg_order order)
{
	struct cg_options o = cg_defaults(w->f, "sm_90");
	struct loaded l;

	o.tp = w->tp;
	o.protocol = p;
	o.order = order;
	l.k = world_kernel(w->f, spec, name, 0, &o);
	cg_text(w->f, l.k);
	l.s = sim_load(w->sim, l.k->module, l.k->name);
	assert_non_null(l.s);
	return l;
}

/* The workspace and the exchange buffer, for rows of `row` bytes from each rank; launch numbers begin at `number`. */
static inline void world_memory(struct world *w, uint64_t row, uint64_t limit_ns, uint32_t number)
{
	struct cg_workspace *ws = arena_new(&w->f->arena, struct cg_workspace);
	uint64_t bytes = (uint64_t)w->most * w->cols * w->size;
	uint32_t *fill;

	w->x = sim_alloc_symmetric(w->sim, bytes, true, "x");
	w->y = sim_alloc_symmetric(w->sim, bytes, true, "y");
	w->ws = sim_alloc_symmetric(w->sim, sizeof *ws, true, "workspace");
	w->exchange = 3 * (CG_XCHG_HEAD + (uint64_t)w->most * w->tp * row);
	w->xchg = sim_alloc_symmetric(w->sim, w->exchange, true, "exchange buffer");
	fill = arena_alloc(&w->f->arena, w->exchange);
	for (uint64_t i = 0; i < w->exchange / 4; i++)
		fill[i] = cg_exchange_fill();
	ws->limit_ns = limit_ns;
	for (unsigned i = 0; i < CG_NPUSH; i++) {
		ws->push[i].phase = number;
		ws->push[i].stride = w->exchange / 3;
	}
	for (unsigned c = 0; c < CG_MAX_CTAS; c++) {
		ws->epoch[c] = number;
		for (unsigned r = 0; r < CG_MAX_RANKS; r++)
			ws->slot[c][r] = number;
	}
	for (unsigned r = 0; r < w->tp; r++) {
		assert_true(sim_write(w->sim, w->ws.uc[r], ws, sizeof *ws));
		assert_true(sim_write(w->sim, w->xchg.uc[r], fill, w->exchange));
	}
}

static inline void world_launch(struct world *w, struct loaded l, unsigned rank, uint32_t T,
                                unsigned grid)
{
	uint8_t block[1024] = {0};

	for (unsigned i = 0; i < l.k->narg; i++) {
		const struct cg_arg *g = &l.k->arg[i];
		const struct sim_symmetric *s = g->param == 0 ? &w->x : &w->y;
		const uint64_t word[CG_NARGS] = {
		        [CG_ARG_UC] = s->uc[rank],
		        [CG_ARG_MC] = s->mc,
		        [CG_ARG_WS_UC] = w->ws.uc[rank],
		        [CG_ARG_WS_MC] = w->ws.mc,
		        [CG_ARG_ROWS] = T,
		        [CG_ARG_RANK] = rank,
		        [CG_ARG_XCHG_UC] = w->xchg.uc[rank],
		        [CG_ARG_XCHG_MC] = w->xchg.mc,
		};
		const void *from = g->kind == CG_ARG_PEERS        ? s->uc
		                   : g->kind == CG_ARG_WS_PEERS   ? w->ws.uc
		                   : g->kind == CG_ARG_XCHG_PEERS ? w->xchg.uc
		                                                  : &word[g->kind];

		memcpy(block + g->offset, from, g->size);
	}
	sim_launch_dynamic(w->sim, rank, 0, l.s, grid, l.k->plan.threads, l.k->plan.dynamic, block,
	                   l.k->param_bytes);
}

static inline void world_run(struct world *w)
{
	struct strbuf b;

	if (sim_run(w->sim))
		return;
	strbuf_init(&b, &w->f->arena);
	sim_render_findings(w->sim, &b);
	fail_msg("%s", b.s);
}

static inline struct cg_workspace world_workspace(struct world *w, unsigned rank)
{
	struct cg_workspace ws;

	assert_true(sim_read(w->sim, w->ws.uc[rank], &ws, sizeof ws));
	return ws;
}
