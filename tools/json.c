/* Documents of --json and of manifests, by cJSON. */
#include "tools/json.h"
#include "runtime/plait.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_u64(cJSON *to, const char *name, uint64_t v)
{
	char hex[32];

	snprintf(hex, sizeof hex, "%016" PRIx64, v);
	cJSON_AddStringToObject(to, name, hex);
}

static void add_text(cJSON *to, const char *name, const char *s)
{
	if (s)
		cJSON_AddStringToObject(to, name, s);
	else
		cJSON_AddNullToObject(to, name);
}

static void add_number(cJSON *to, const char *name, double v)
{
	cJSON_AddNumberToObject(to, name, v);
}

cJSON *json_document(const struct args *a)
{
	cJSON *doc = cJSON_CreateObject();

	cJSON_AddStringToObject(doc, "plait", plait_version());
	cJSON_AddStringToObject(doc, "command", args_command(a->command));
	if (a->spec)
		cJSON_AddStringToObject(doc, "spec", a->spec);
	if (a->tp)
		add_number(doc, "tp", a->tp);
	return doc;
}

/* ---- diagnostics ---- */

static void add_place(cJSON *to, const struct diags *d, struct span at)
{
	struct span last = {at.end > at.begin ? at.end - 1 : at.begin, at.end};
	struct diag_place b = diag_place(d, at), e = diag_place(d, last);
	cJSON *end;

	if (span_none(at) || !b.src)
		return;
	add_text(to, "file", b.src->name);
	add_number(to, "line", b.line);
	add_number(to, "col", b.col);
	end = cJSON_AddObjectToObject(to, "end");
	add_number(end, "line", e.line);
	add_number(end, "col", e.col + (at.end > at.begin));
}

static cJSON *diagnostic(const struct diags *d, const struct diag *x)
{
	static const char *const severity[] = {"error", "warning", "remark", "note"};
	cJSON *o = cJSON_CreateObject();
	char code[16];

	if (x->severity != DIAG_NOTE) {
		snprintf(code, sizeof code, "%c%03d", "EWR"[x->severity], (int)x -> code);
		add_text(o, "severity", severity[x->severity]);
		add_text(o, "code", code);
	}
	add_text(o, "text", x->text);
	add_place(o, d, x->at);
	return o;
}

void json_diagnostics(cJSON *doc, const struct pipe *p)
{
	enum diag_severity least = p->args->remarks ? DIAG_REMARK : DIAG_WARNING;
	cJSON *all = cJSON_AddArrayToObject(doc, "diagnostics"), *notes = NULL;

	for (const struct diag *x = p->d.head; x; x = x->next) {
		cJSON *o;

		if (x->severity == DIAG_NOTE) {
			if (notes)
				cJSON_AddItemToArray(notes, diagnostic(&p->d, x));
			continue;
		}
		notes = NULL;
		if (x->severity > least)
			continue;
		o = diagnostic(&p->d, x);
		notes = cJSON_AddArrayToObject(o, "notes");
		cJSON_AddItemToArray(all, o);
	}
}

/* ---- kernels ---- */

static const char *const modes[] = {"in", "out", "inout"};

static void add_type(cJSON *to, struct ir_type t)
{
	add_text(to, "dtype", ir_dtype_info[t.dtype].text);
	add_number(to, "ndim", t.ndim);
	add_number(to, "cols", (double)t.cols);
	add_text(to, "placement", ir_place_name[t.place]);
}

cJSON *json_signature(const struct ir_func *f)
{
	cJSON *o = cJSON_CreateObject(), *params;

	add_text(o, "name", f->name);
	params = cJSON_AddArrayToObject(o, "params");
	for (unsigned i = 0; i < f->nparam; i++) {
		cJSON *p = cJSON_CreateObject();

		add_text(p, "name", f->param[i].name);
		add_text(p, "mode", modes[f->param[i].mode]);
		add_type(p, f->param[i].type);
		cJSON_AddItemToArray(params, p);
	}
	return o;
}

static void add_plan(cJSON *to, const struct cg_plan *p)
{
	cJSON *o = cJSON_AddObjectToObject(to, "plan");

	/* clang-format off */
	add_text(o, "protocol", cg_protocol_name(p->protocol));
	add_text(o, "order", cg_order_name(p->order));
	add_text(o, "pdl", cg_pdl_name(p->pdl));
	cJSON_AddBoolToObject(o, "rows_in_memory", p->rows_in_memory);
	add_text(o, "target", p->target->name);
	add_number(o, "tp", p->tp);
	add_number(o, "cols", (double)p->cols);
	add_number(o, "threads", p->threads);
	add_number(o, "elems", p->elems);
	add_number(o, "vecs", p->vecs);
	add_number(o, "rows_in_flight", p->in_flight);
	add_number(o, "stages", p->stages);
	add_number(o, "shared_bytes", p->smem);
	if (p->dynamic)
		add_number(o, "dynamic_bytes", p->dynamic);
	add_number(o, "max_ctas", p->max_ctas);
	cJSON_AddBoolToObject(o, "own_rows", p->own_rows);
	cJSON_AddBoolToObject(o, "communicates", p->communicates);
	add_number(o, "bytes_in_flight", (double)p->bytes_in_flight);
	add_number(o, "estimated_registers", p->est_regs);
	add_number(o, "sum_ranks", p->sum_ranks);
	add_text(o, "why", p->why);
	/* clang-format on */
}

static cJSON *parameter(const struct cg_param *q)
{
	static const char *const symmetric[] = {"none", "peer", "multicast"};
	cJSON *o = cJSON_CreateObject();

	add_text(o, "name", q->name);
	add_text(o, "mode", modes[q->mode]);
	add_type(o, q->type);
	add_number(o, "ld", (double)q->ld);
	add_number(o, "align", q->align);
	add_text(o, "symmetric", symmetric[q->symmetric]);
	add_text(o, "index", q->local_index ? "local" : "global");
	cJSON_AddBoolToObject(o, "constant", q->constant);
	return o;
}

static cJSON *argument(const struct cg_kernel *k, const struct cg_arg *g)
{
	static const struct {
		const char *name;
		bool of_param;
	} kinds[CG_NARGS] = {
	        [CG_ARG_UC] = {"address", true},
	        [CG_ARG_MC] = {"multicast", true},
	        [CG_ARG_PEERS] = {"peers", true},
	        [CG_ARG_WS_UC] = {"workspace", false},
	        [CG_ARG_WS_MC] = {"workspace_multicast", false},
	        [CG_ARG_WS_PEERS] = {"workspace_peers", false},
	        [CG_ARG_XCHG_UC] = {"exchange", false},
	        [CG_ARG_XCHG_MC] = {"exchange_multicast", false},
	        [CG_ARG_XCHG_PEERS] = {"exchange_peers", false},
	        [CG_ARG_ROWS] = {"rows", false},
	        [CG_ARG_ROWS_PTR] = {"rows_address", false},
	        [CG_ARG_RANK] = {"rank", false},
	};
	cJSON *o = cJSON_CreateObject();

	add_text(o, "name", g->name);
	add_text(o, "kind", kinds[g->kind].name);
	add_text(o, "param", kinds[g->kind].of_param ? k->param[g->param].name : NULL);
	add_number(o, "offset", g->offset);
	add_number(o, "size", g->size);
	return o;
}

/* The exchange buffer's size is linear in the rows. */
static void add_exchange(cJSON *to, const struct cg_plan *p)
{
	uint64_t base = cg_exchange_bytes(p, 0), row = cg_exchange_bytes(p, 1) - base;
	cJSON *o;
	char hex[16];

	if (!row) {
		cJSON_AddNullToObject(to, "exchange");
		return;
	}
	o = cJSON_AddObjectToObject(to, "exchange");
	add_number(o, "bytes", (double)base);
	add_number(o, "bytes_per_row", (double)row);
	snprintf(hex, sizeof hex, "%08" PRIx32, cg_exchange_fill());
	add_text(o, "fill_word", hex);
}

cJSON *json_kernel(const struct cg_kernel *k, enum ir_rows rows)
{
	cJSON *o = cJSON_CreateObject(), *params, *args;

	add_text(o, "name", k->name);
	add_text(o, "entry", k->name);
	add_u64(o, "contract", k->contract);
	add_text(o, "form", rows == IR_ROWS_ALL ? "all" : "own");
	add_plan(o, &k->plan);
	add_exchange(o, &k->plan);
	params = cJSON_AddArrayToObject(o, "params");
	for (unsigned i = 0; i < k->nparam; i++)
		cJSON_AddItemToArray(params, parameter(&k->param[i]));
	args = cJSON_AddArrayToObject(o, "args");
	for (unsigned i = 0; i < k->narg; i++)
		cJSON_AddItemToArray(args, argument(k, &k->arg[i]));
	add_number(o, "argument_bytes", k->param_bytes);
	return o;
}

/* ---- selection, models ---- */

static cJSON *range(const struct cg_case *c, const struct cg_range *r)
{
	cJSON *o = cJSON_CreateObject(), *costs;
	struct cg_choice x[CG_NPROTOCOLS];
	unsigned n = cg_costs(c, r->from, x);

	add_number(o, "from", (double)r->from);
	if (r->to < CG_MAX_ROWS)
		add_number(o, "to", (double)r->to);
	else
		cJSON_AddNullToObject(o, "to");
	add_text(o, "protocol", cg_protocol_name(r->choice.protocol));
	add_text(o, "form", r->choice.rows == IR_ROWS_ALL ? "all" : "own");
	add_number(o, "ctas", r->choice.ctas);
	add_text(o, "measured", r->choice.source);
	costs = cJSON_AddArrayToObject(o, "model_us");
	for (unsigned i = 0; i < n; i++) {
		cJSON *k = cJSON_CreateObject();

		add_text(k, "protocol", cg_protocol_name(x[i].protocol));
		add_number(k, "us", x[i].us);
		cJSON_AddItemToArray(costs, k);
	}
	return o;
}

void json_selection(cJSON *kernel, const struct cg_case *c)
{
	cJSON *o = cJSON_AddObjectToObject(kernel, "selection"), *all;
	struct cg_range r;

	add_text(o, "target", c->target->name);
	cJSON_AddBoolToObject(o, "multicast", c->multicast);
	add_number(o, "row_bytes", (double)c->row.sums);
	all = cJSON_AddArrayToObject(o, "ranges");
	for (uint64_t T = 1; cg_select_range(c, T, &r); T = r.to + 1)
		cJSON_AddItemToArray(all, range(c, &r));
	all = cJSON_AddArrayToObject(o, "cannot");
	for (int p = CG_AUTO + 1; p < CG_NPROTOCOLS; p++) {
		cJSON *x;

		if (!c->why_not[p])
			continue;
		x = cJSON_CreateObject();
		add_text(x, "protocol", cg_protocol_name((enum cg_protocol)p));
		add_text(x, "why", c->why_not[p]);
		cJSON_AddItemToArray(all, x);
	}
}

void json_models(cJSON *doc, const struct diags *d, const struct ast *decls)
{
	cJSON *all = cJSON_AddArrayToObject(doc, "models");

	for (const struct ast *m = decls; m; m = m->next) {
		cJSON *o;

		if (m->kind != AST_MODEL)
			continue;
		o = cJSON_CreateObject();
		add_text(o, "name", m->name);
		add_place(o, d, m->name_at);
		cJSON_AddItemToArray(all, o);
	}
}

/* ---- verify ---- */

static void add_failure(cJSON *to, const struct vf_failure *f)
{
	cJSON *o = cJSON_AddObjectToObject(to, "failure");

	add_text(o, "kind", vf_kind_name[f->kind]);
	add_text(o, "kernel", f->kernel);
	add_text(o, "param", f->param);
	add_number(o, "rank", f->rank);
	if (f->param) {
		add_number(o, "row", (double)f->row);
		add_number(o, "col", (double)f->col);
		add_number(o, "got", f->got);
		add_number(o, "want", f->want);
		add_number(o, "bound", f->err);
	}
	if (f->launch) {
		add_number(o, "launch", f->launch);
		add_number(o, "rows", (double)f->rows);
	}
	add_text(o, "schedule", f->schedule);
	add_u64(o, "seed", f->seed);
	if (f->line) {
		add_number(o, "ptx_line", f->line);
		add_text(o, "ptx_text", f->line_text);
	}
	if (f->spec_line) {
		add_number(o, "spec_line", f->spec_line);
		add_text(o, "spec_text", f->spec_text);
	}
	add_text(o, "text", f->text);
}

void json_result(cJSON *to, const struct vf_result *r)
{
	cJSON_AddBoolToObject(to, "good", r->failure.kind == VF_GOOD);
	add_number(to, "schedules", r->schedules);
	add_number(to, "launches", r->launches);
	add_number(to, "most_ctas", r->most_ctas);
	add_number(to, "rows", (double)r->rows);
	add_number(to, "instructions", (double)r->lane_insns);
	add_number(to, "elements_exact", (double)r->exact);
	add_number(to, "elements_bounded", (double)r->bounded);
	add_number(to, "worst_error_of_bound", r->worst);
	if (r->failure.kind != VF_GOOD)
		add_failure(to, &r->failure);
}

/* ---- text ---- */

const char *json_text(cJSON *doc, struct arena *a)
{
	char *s = cJSON_Print(doc);
	const char *kept = s ? arena_printf(a, "%s\n", s) : "";

	cJSON_free(s);
	cJSON_Delete(doc);
	return kept;
}

int json_finish(cJSON *doc, struct pipe *p, enum status s)
{
	int code = s == ST_OK && p->d.nerror ? ST_INPUT : s == ST_NOMEM ? 3 : (int)s;

	json_diagnostics(doc, p);
	add_number(doc, "exit", code);
	fputs(json_text(doc, p->a), stdout);
	return code;
}
