/* The database of machines, and how its tables of collectives are carried to another tp. */
#include "planner/machine.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum comm_kind { FUSED, PUSH, PLAIN };
enum comm_path { MC, P2P };

static const struct row {
	const char *name;
	unsigned sms, sms_per_gpc;
	double tflops, hbm_gbs, link_gbs;
	bool multicast;
	double gemm_eff, grouped_eff, attention_eff, mem_eff, tile_us, launch_us, join_us, gamma;
	bool persistent;
	const char *source;
} rows[] = {
#define PL_MACHINE(...) {__VA_ARGS__},
#include "planner/machines.def"
#undef PL_MACHINE
};

static const struct comm_row {
	const char *machine;
	enum comm_kind kind;
	enum comm_path path;
	unsigned tp, ctas;
	double alpha, gbs;
	const char *source;
} comms[] = {
#define PL_COMM(...) {__VA_ARGS__},
#include "planner/comm.def"
#undef PL_COMM
};

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))

/* Whose rows stand for a machine's that has none. */
static const struct {
	const char *machine;
	enum comm_path path;
	const char *from;
} stand_in[] = {
        {"h200", MC, "h100"},  {"b200", MC, "h100"},  {"h100", P2P, "h200"},
        {"b200", P2P, "h200"}, {"a100", P2P, "h200"},
};

static const struct row *find_row(const char *name)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		if (!strcasecmp(rows[i].name, name))
			return &rows[i];
	return NULL;
}

static bool has_comm(const char *machine, enum comm_kind kind, enum comm_path path)
{
	for (size_t i = 0; i < COUNT(comms); i++)
		if (!strcmp(comms[i].machine, machine) && comms[i].kind == kind &&
		    comms[i].path == path)
			return true;
	return false;
}

/*
 * Bytes that a rank's link carries each way, and its SMs read and write, per byte of the message.
 * In the switch both hardly depend on tp: a rank's addends leave it once, its rows of the result
 * come back.  Point to point, two-shot: (tp-1)/tp of the sums in, as much of the results out; the
 * SMs of an owner read tp addends and write tp results, with the residual, for 1/tp of the rows.  A
 * push carries everything to every peer, and every rank sums tp addends of every row.
 */
static void loads(enum comm_kind kind, enum comm_path path, double tp, double *link, double *sm)
{
	*link = *sm = 1;
	if (path == MC)
		return;
	*link = 2 * (tp - 1) / tp;
	*sm = (2 * tp + 2) / tp;
	if (kind == PUSH) {
		*link = tp - 1;
		*sm = 3 * tp + 3;
	}
}

/* One row for another tp and machine: a row that its SMs bind scales with what they carry, one that
 * the link binds with what that carries; latency grows a little with the ranks. */
static void scale(const struct comm_row *c, const struct row *from, const struct row *to,
                  unsigned tp, double most, double *alpha, double *gbs)
{
	double l0, s0, l1, s1, link, sm;

	loads(c->kind, c->path, c->tp, &l0, &s0);
	loads(c->kind, c->path, tp, &l1, &s1);
	/* (one rank has nothing on its link) */
	link = most * (l1 > 0 ? l0 / l1 : 1) * to->link_gbs / from->link_gbs;
	/* below the most of the table the SMs bind; there a faster link changes nothing */
	sm = c->gbs < 0.97 * most ? c->gbs * s0 / s1 : link;
	if (c->kind == PLAIN || c->ctas == 0 || c->kind == PUSH)
		sm = link;
	*gbs = sm < link ? sm : link;
	*alpha = c->alpha + 0.25 * ((double)tp - (double)c->tp) * (c->path == P2P);
	if (*alpha < 0.5 * c->alpha)
		*alpha = 0.5 * c->alpha;
}

static void fill(struct pl_comm *t, const struct row *to, enum comm_kind kind, enum comm_path path,
                 unsigned tp)
{
	const struct row *from = to;
	double most = 0;

	for (size_t i = 0; i < COUNT(stand_in) && !has_comm(from->name, kind, path); i++)
		if (!strcmp(stand_in[i].machine, to->name) && stand_in[i].path == path)
			from = find_row(stand_in[i].from);
	for (size_t i = 0; i < COUNT(comms); i++)
		if (!strcmp(comms[i].machine, from->name) && comms[i].kind == kind &&
		    comms[i].path == path && comms[i].gbs > most)
			most = comms[i].gbs;
	t->n = t->npoint = 0;
	for (size_t i = 0; i < COUNT(comms); i++) {
		const struct comm_row *c = &comms[i];

		if (strcmp(c->machine, from->name) || c->kind != kind || c->path != path ||
		    t->n == PL_MAX_CTA_ROWS)
			continue;
		scale(c, from, to, tp, most, &t->alpha[t->n], &t->gbs[t->n]);
		t->ctas[t->n++] = c->ctas;
	}
}

bool pl_machine_find(const char *name, unsigned tp, bool multicast, struct pl_machine *m)
{
	const struct row *r = find_row(name);
	enum comm_path path = r && r->multicast && multicast ? MC : P2P;

	if (!r || !tp)
		return false;
	*m = (struct pl_machine){.tp = tp,
	                         .sms = r->sms,
	                         .sms_per_gpc = r->sms_per_gpc,
	                         .tflops = r->tflops,
	                         .hbm_gbs = r->hbm_gbs,
	                         .link_gbs = r->link_gbs,
	                         .multicast = path == MC,
	                         .gemm_eff = r->gemm_eff,
	                         .grouped_eff = r->grouped_eff,
	                         .attention_eff = r->attention_eff,
	                         .mem_eff = r->mem_eff,
	                         .tile_us = r->tile_us,
	                         .launch_us = r->launch_us,
	                         .join_us = r->join_us,
	                         .gamma = r->gamma,
	                         .persistent = r->persistent};
	snprintf(m->name, sizeof m->name, "%s", r->name);
	fill(&m->fused, r, FUSED, path, tp);
	fill(&m->push, r, PUSH, P2P, tp);
	fill(&m->plain, r, PLAIN, path, tp);
	return true;
}

const char *pl_machine_names(void)
{
#define PL_MACHINE(name, ...) ", " name
	static const char names[] =
#include "planner/machines.def"
	        ;
#undef PL_MACHINE
	return names + 2;
}

const char *pl_machine_source(const char *name)
{
	const struct row *r = find_row(name);

	return r ? r->source : "";
}
