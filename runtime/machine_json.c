/* A machine as JSON: the members of `plait plan --machine FILE` (tools/measured.c). */
#include "runtime/plait_gemms.h"
#include "runtime/plan_api.h"
#include <stdlib.h>
#include <string.h>

static void number(struct strbuf *b, const char *name, double x)
{
	strbuf_printf(b, " \"%s\": %.9g,\n", name, x);
}

static void table(struct strbuf *b, const char *name, const struct pl_comm *c)
{
	if (!c->n)
		return;
	strbuf_printf(b, " \"%s\": [", name);
	for (unsigned i = 0; i < c->n; i++)
		strbuf_printf(b, "%s{\"ctas\": %u, \"alpha_us\": %.9g, \"gbs\": %.9g}",
		              i ? ",\n  " : "\n  ", c->ctas[i], c->alpha[i], c->gbs[i]);
	strbuf_puts(b, "],\n");
}

static void rates(struct strbuf *b, const struct pl_machine *m)
{
	if (!m->nrate)
		return;
	strbuf_puts(b, " \"rates\": [");
	for (unsigned i = 0; i < m->nrate; i++)
		strbuf_printf(b, "%s{\"n\": %lld, \"k\": %lld, \"rate\": %.9g}",
		              i ? ",\n  " : "\n  ", (long long)m->rate[i].n,
		              (long long)m->rate[i].k, m->rate[i].rate);
	strbuf_puts(b, "],\n");
}

static void write(struct strbuf *b, const struct pl_machine *m, const char *base)
{
	strbuf_printf(b, "{\"base\": \"%s\", \"name\": \"%s\",\n \"sms\": %u,\n", base, m->name,
	              m->sms);
	number(b, "tflops", m->tflops);
	number(b, "hbm_gbs", m->hbm_gbs);
	number(b, "link_gbs", m->link_gbs);
	number(b, "gemm_eff", m->gemm_eff);
	number(b, "grouped_eff", m->grouped_eff);
	number(b, "attention_eff", m->attention_eff);
	number(b, "mem_eff", m->mem_eff);
	number(b, "tile_us", m->tile_us);
	number(b, "launch_us", m->launch_us);
	number(b, "join_us", m->join_us);
	number(b, "gamma", m->gamma);
	table(b, "fused", &m->fused);
	table(b, "beside", &m->beside);
	table(b, "push", &m->push);
	table(b, "plain", &m->plain);
	rates(b, m);
	strbuf_printf(b, " \"persistent\": %s}\n", m->persistent ? "true" : "false");
}

char *plait_machine_json(const struct plait_machine *m, const char *base)
{
	struct pl_machine x, known;
	struct arena a;
	struct strbuf b;
	char *s;

	if (!m || !base || !rt_machine_in(m, 1, &x) || !pl_machine_find(base, 1, false, &known))
		return NULL;
	arena_init(&a, (size_t)1 << 20);
	if (setjmp(a.oom)) {
		arena_free(&a);
		return NULL;
	}
	strbuf_init(&b, &a);
	write(&b, &x, known.name);
	s = malloc(b.n + 1);
	if (s)
		memcpy(s, b.s, b.n + 1);
	arena_free(&a);
	return s;
}
