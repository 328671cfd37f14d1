/* A machine from a JSON file: a machine of the database, and what was measured in place of its
 * figures. */
#include "tools/facts.h"
#include "tools/pipeline.h"
#include <cjson/cJSON.h>
#include <stddef.h>
#include <string.h>

/* clang-format off */
static const struct {
	const char *name;
	size_t at;
	double least, most;
} numbers[] = {
	{"tflops",        offsetof(struct pl_machine, tflops),        1e-3, 1e7},
	{"hbm_gbs",       offsetof(struct pl_machine, hbm_gbs),       1e-3, 1e7},
	{"link_gbs",      offsetof(struct pl_machine, link_gbs),      1e-3, 1e7},
	{"gemm_eff",      offsetof(struct pl_machine, gemm_eff),      1e-3, 4},
	{"grouped_eff",   offsetof(struct pl_machine, grouped_eff),   1e-3, 4},
	{"attention_eff", offsetof(struct pl_machine, attention_eff), 1e-3, 4},
	{"mem_eff",       offsetof(struct pl_machine, mem_eff),       1e-3, 4},
	{"tile_us",       offsetof(struct pl_machine, tile_us),       0, 1e4},
	{"launch_us",     offsetof(struct pl_machine, launch_us),     0, 1e4},
	{"join_us",       offsetof(struct pl_machine, join_us),       0, 1e4},
	{"gamma",         offsetof(struct pl_machine, gamma),         0, 10},
};
static const struct {
	const char *name;
	size_t at;
} tables[] = {
	{"fused",  offsetof(struct pl_machine, fused)},
	{"beside", offsetof(struct pl_machine, beside)},
	{"push",   offsetof(struct pl_machine, push)},
	{"plain",  offsetof(struct pl_machine, plain)},
};
/* clang-format on */

static bool take_number(const cJSON *v, double least, double most, double *to)
{
	if (!cJSON_IsNumber(v) || !(v->valuedouble >= least && v->valuedouble <= most))
		return false;
	*to = v->valuedouble;
	return true;
}

/* [{"ctas": 8, "alpha_us": 12.0, "gbs": 222.0}, ...], CTAs rising. */
static bool take_table(const cJSON *rows, struct pl_comm *c)
{
	const cJSON *o;

	*c = (struct pl_comm){0};
	if (!cJSON_IsArray(rows))
		return false;
	cJSON_ArrayForEach(o, rows)
	{
		double ctas;

		if (c->n == PL_MAX_CTA_ROWS ||
		    !take_number(cJSON_GetObjectItemCaseSensitive(o, "ctas"), 0, 4096, &ctas) ||
		    !take_number(cJSON_GetObjectItemCaseSensitive(o, "alpha_us"), 0, 1e6,
		                 &c->alpha[c->n]) ||
		    !take_number(cJSON_GetObjectItemCaseSensitive(o, "gbs"), 1e-3, 1e7,
		                 &c->gbs[c->n]))
			return false;
		c->ctas[c->n] = (unsigned)ctas;
		if (c->n && c->ctas[c->n] <= c->ctas[c->n - 1])
			return false;
		c->n++;
	}
	return true;
}

/* [{"n": 5120, "k": 8192, "rate": 1.04}, ...] */
static bool take_rates(const cJSON *rows, struct pl_machine *m)
{
	const cJSON *o;

	m->nrate = 0;
	if (!cJSON_IsArray(rows))
		return false;
	cJSON_ArrayForEach(o, rows)
	{
		struct pl_rate *r = &m->rate[m->nrate];
		double n, k;

		if (m->nrate == PL_MAX_RATES ||
		    !take_number(cJSON_GetObjectItemCaseSensitive(o, "n"), 1, 1e9, &n) ||
		    !take_number(cJSON_GetObjectItemCaseSensitive(o, "k"), 1, 1e9, &k) ||
		    !take_number(cJSON_GetObjectItemCaseSensitive(o, "rate"), 1e-2, 1e2, &r->rate))
			return false;
		r->n = (int64_t)n;
		r->k = (int64_t)k;
		m->nrate++;
	}
	return true;
}

/* One member; false: there is none of this name, or its value makes no sense. */
static bool take_member(const cJSON *v, struct pl_machine *m)
{
	double sms;

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (!strcmp(v->string, numbers[i].name))
			return take_number(v, numbers[i].least, numbers[i].most,
			                   (double *)(void *)((char *)m + numbers[i].at));
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (!strcmp(v->string, tables[i].name))
			return take_table(v, (struct pl_comm *)(void *)((char *)m + tables[i].at));
	if (!strcmp(v->string, "rates"))
		return take_rates(v, m);
	if (!strcmp(v->string, "persistent")) {
		m->persistent = cJSON_IsTrue(v);
		return cJSON_IsBool(v);
	}
	if (!strcmp(v->string, "sms") && take_number(v, 1, 4096, &sms)) {
		m->sms = (unsigned)sms;
		return true;
	}
	if (!strcmp(v->string, "name") && cJSON_IsString(v)) {
		strncpy(m->name, v->valuestring, sizeof m->name - 1);
		m->name[strcspn(m->name, "\"\\\n")] = 0;
		return true;
	}
	return !strcmp(v->string, "base");
}

/* The machine; NULL, or what is wrong. */
static const char *take_machine(struct arena *a, const cJSON *doc, unsigned tp, bool multicast,
                                struct pl_machine *m)
{
	const cJSON *base = cJSON_GetObjectItemCaseSensitive(doc, "base"), *v;

	if (!cJSON_IsObject(doc) || !cJSON_IsString(base) ||
	    !pl_machine_find(base->valuestring, tp, multicast, m))
		return arena_printf(a, "it needs \"base\", one of %s", pl_machine_names());
	cJSON_ArrayForEach(v, doc) if (!take_member(v, m)) return arena_printf(
	        a, "'%s' is no member of a machine, or has no such value", v->string);
	return m->fused.n || m->push.n ? NULL : "it has no table of a fused collective";
}

enum status machine_read(struct arena *a, struct diags *d, const char *path, unsigned tp,
                         bool multicast, struct pl_machine *m)
{
	const char *error;
	char *text;
	size_t len;
	cJSON *doc;

	if (!read_named(a, d, path, &text, &len))
		return ST_INPUT;
	doc = cJSON_ParseWithLength(text, len);
	error = take_machine(a, doc, tp, multicast, m);
	cJSON_Delete(doc);
	if (!error)
		return ST_OK;
	diag_at(d, DIAG_ERROR, DIAG_FACTS, (struct span){0, 0}, "'%s' is not a machine: %s", path,
	        error);
	diag_note(d, (struct span){0, 0},
	          "as {\"base\": \"h200\", \"gemm_eff\": 0.8, \"fused\": [{\"ctas\": 8, "
	          "\"alpha_us\": 12, \"gbs\": 222}]}");
	return ST_INPUT;
}
