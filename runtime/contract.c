/*
 * What ranks have to agree on before they launch together: a text of a line a field, so that a
 * difference can be named.  A process sends length and hash; the texts only when those differ.
 */
#include "runtime/stage.h"
#include "support/hash.h"
#include "support/text.h"
#include <stdlib.h>
#include <string.h>

static void line(struct strbuf *b, const char *field, const char *value)
{
	strbuf_printf(b, "%s: %s\n", field, value);
}

static void number(struct strbuf *b, const char *field, uint64_t value)
{
	strbuf_printf(b, "%s: %llu\n", field, (unsigned long long)value);
}

static void params(struct strbuf *b, const struct rt_kernel *k)
{
	for (uint32_t p = 0; p < k->info.nparam; p++) {
		const struct plait_param_info *q = &k->param[p];

		strbuf_printf(b, "kernel %s, dtype of %s: %s\n", k->name, q->name, q->dtype);
		strbuf_printf(b, "kernel %s, row of %s: %lld columns, leading dimension %lld\n",
		              k->name, q->name, (long long)q->cols, (long long)q->ld);
		strbuf_printf(b, "kernel %s, placement of %s: %s\n", k->name, q->name,
		              q->placement);
	}
}

static void unit(struct strbuf *b, const plait_stage *s, uint32_t n, struct arena *a)
{
	const struct rt_unit *u = &s->image.unit[n];
	const struct rt_kernel *k = s->image.variant[u->range[0].variant].k;
	const char *ranges = "";

	line(b, arena_printf(a, "kernel %u", n), u->name);
	number(b, arena_printf(a, "kernel %s, hidden", u->name), (uint64_t)k->info.cols);
	line(b, arena_printf(a, "kernel %s, memory order", u->name), k->info.order);
	params(b, k);
	for (uint32_t i = 0; i < u->nrange; i++) {
		const struct rt_range *r = &u->range[i];

		ranges = arena_printf(a, "%s %s(%u)<=%llu", ranges,
		                      s->image.variant[r->variant].k->info.protocol, r->ctas,
		                      (unsigned long long)r->until);
	}
	line(b, arena_printf(a, "kernel %s, protocols by T", u->name), ranges);
}

const char *rt_stage_contract(const plait_stage *s, struct arena *a)
{
	struct strbuf b;

	strbuf_init(&b, a);
	line(&b, "version of plait", plait_version());
	number(&b, "max_rows", s->image.max_rows);
	number(&b, "dependent_launch", s->dependent);
	number(&b, "rows_in_memory", s->rows_in_memory);
	number(&b, "carried by NCCL", s->image.nccl);
	number(&b, "time-out in ns", s->comm->timeout_ns);
	number(&b, "number of kernels", s->image.nkernel);
	for (uint32_t i = 0; i < s->image.nunit; i++)
		unit(&b, s, i, a);
	for (uint32_t i = 0; i < s->image.nvariant; i++) {
		const struct rt_kernel *k = s->image.variant[i].k;

		strbuf_printf(&b, "kernel %s, %s, contract: %016llx\n", k->name, k->info.protocol,
		              (unsigned long long)k->info.contract);
		strbuf_printf(&b, "kernel %s, %s, target: %s\n", k->name, k->info.protocol,
		              k->info.target);
		strbuf_printf(&b, "kernel %s, %s, code: %016llx\n", k->name, k->info.protocol,
		              (unsigned long long)hash_bytes(HASH_INIT, k->ptx, k->ptx_len));
	}
	return b.s;
}

const char *rt_contract_differs(const char *mine, const char *theirs, struct arena *a)
{
	size_t i = 0, start = 0, colon, m, t;

	while (mine[i] && mine[i] == theirs[i]) {
		if (mine[i] == '\n')
			start = i + 1;
		i++;
	}
	if (!mine[i] && !theirs[i])
		return NULL;
	mine += start;
	theirs += start;
	m = strcspn(mine, "\n");
	t = strcspn(theirs, "\n");
	colon = strcspn(mine, ":");
	if (colon + 2 <= m && strncmp(mine, theirs, colon + 2) == 0)
		return arena_printf(a, "%.*s: %.*s, but %.*s", (int)colon, mine,
		                    (int)(m - colon - 2), mine + colon + 2, (int)(t - colon - 2),
		                    theirs + colon + 2);
	return arena_printf(a, "one has '%.*s' where another has '%.*s'", (int)m, mine, (int)t,
	                    theirs);
}

struct digest {
	uint64_t bytes, hash;
};

static const char *ranks_of(const plait_comm *c, unsigned process, struct arena *a)
{
	unsigned first = process * c->nlocal;

	return c->nlocal == 1 ? arena_printf(a, "rank %u", first)
	                      : arena_printf(a, "ranks %u to %u", first, first + c->nlocal - 1);
}

/* All texts, and the first process whose text is not process 0's. */
static enum plait_status compare(plait_comm *c, const char *text, const struct digest *all,
                                 struct arena *a)
{
	unsigned odd = 0;
	size_t most = 0;
	char *mine, *theirs;
	enum plait_status s;
	const char *what;

	for (unsigned p = 0; p < c->processes; p++) {
		most = all[p].bytes > most ? all[p].bytes : most;
		if (!odd && (all[p].bytes != all[0].bytes || all[p].hash != all[0].hash))
			odd = p;
	}
	if (!odd)
		return PLAIT_OK;
	if (most > (size_t)16 << 20)
		return rt_fail(&c->error, PLAIT_MISMATCH, "%s and %s have other kernels",
		               ranks_of(c, 0, a), ranks_of(c, odd, a));
	mine = arena_alloc(a, most + 1);
	memcpy(mine, text, strlen(text));
	theirs = arena_array(a, c->processes, most + 1);
	s = rt_gather(c, mine, theirs, most + 1);
	if (s != PLAIT_OK)
		return s;
	theirs[most] = theirs[odd * (most + 1) + most] = '\0';
	what = rt_contract_differs(theirs, theirs + odd * (most + 1), a);
	rt_fail(&c->error, PLAIT_MISMATCH, "%s and %s differ in %s", ranks_of(c, 0, a),
	        ranks_of(c, odd, a), what ? what : "what they launch");
	text_make_plain(c->error.text);
	return PLAIT_MISMATCH;
}

static enum plait_status agree(plait_stage *s, struct arena *a)
{
	const char *text = rt_stage_contract(s, a);
	struct digest mine = {strlen(text), hash_bytes(HASH_INIT, text, strlen(text))};
	struct digest *all = arena_news(a, struct digest, s->comm->processes);
	enum plait_status st = rt_gather(s->comm, &mine, all, sizeof mine);

	return st == PLAIT_OK ? compare(s->comm, text, all, a) : st;
}

enum plait_status rt_stage_agree(plait_stage *s)
{
	struct arena a;
	enum plait_status st;

	arena_init(&a, 0);
	if (setjmp(a.oom)) {
		arena_free(&a);
		return rt_fail(&s->comm->error, PLAIT_NOMEM, "out of memory");
	}
	st = agree(s, &a);
	arena_free(&a);
	return st;
}
