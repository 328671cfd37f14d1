/* plait plan --measure: the machine that this is, measured for a spec's model, as a file for --machine. */
#include "runtime/comm.h"
#include "runtime/machine.h"
#include "runtime/plait_gemms.h"
#include "tools/facts.h"
#include "tools/pipeline.h"
#include <stdio.h>
#include <string.h>

enum { ROWS = 4096 };

struct calibrate {
	struct arena *a;
	struct diags *d;
	const struct args *args;
	const char *text;
	size_t len;
	struct plait_set *set;
	const char *base;
	unsigned gpus; /* fewer than ranks: they share them */
	plait_comm *comm;
	plait_stage *stage;
	plait_gemms *gemms;
	plait_planner *planner;
	struct plait_machine machine;
	struct plait_measured got;
};

static enum status fails(struct calibrate *q, enum plait_status st, const char *what,
                         const char *why)
{
	diag_at(q->d, DIAG_ERROR, DIAG_RT_MEASURE, (struct span){0, 0}, "%s: %s", what,
	        why && *why ? why : plait_status_text(st));
	return st == PLAIT_INPUT || st == PLAIT_USAGE ? ST_INPUT
	       : st == PLAIT_INTERNAL                 ? ST_INTERNAL
	                                              : ST_ENV;
}

/* "NVIDIA H200" is "h200" of the database. */
static const char *base_of(struct calibrate *q, const char *gpu)
{
	char *names = arena_printf(q->a, "%s", pl_machine_names()), *rest = names;

	if (q->args->gpu)
		return q->args->gpu;
	for (char *n; (n = strtok_r(rest, ", ", &rest));)
		if (strcasestr(gpu, n))
			return n;
	return NULL;
}

/* Ranks in turn on the GPUs that there are, all in this process. */
static enum status open_ranks(struct calibrate *q)
{
	struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;
	struct rt_error e = {0};
	struct rt_driver drv;
	struct rt_machine m;
	int device[CG_MAX_RANKS];
	enum plait_status st = rt_driver_open(&drv, NULL, &e);

	if (st == PLAIT_OK)
		st = rt_machine_read(&m, &drv, q->a, &e);
	if (st != PLAIT_OK)
		return fails(q, st, "there is nothing to measure", e.text);
	q->base = base_of(q, m.gpu[0].name);
	if (!q->base)
		return fails(q, PLAIT_USAGE, "the database does not know this GPU",
		             arena_printf(q->a, "'%s'; say by --gpu which of %s is like it",
		                          m.gpu[0].name, pl_machine_names()));
	q->gpus = m.n < q->args->tp ? m.n : q->args->tp;
	for (unsigned r = 0; r < q->args->tp; r++)
		device[r] = (int)(r % q->gpus);
	o.bootstrap = PLAIT_BOOT_LOCAL;
	o.size = o.nlocal = q->args->tp;
	o.device = device;
	st = plait_comm_create(&o, &q->comm);
	return st == PLAIT_OK
	               ? ST_OK
	               : fails(q, st, "a communicator", q->comm ? plait_comm_error(q->comm) : "");
}

static enum status make_stage(struct calibrate *q)
{
	struct plait_stage_options o = PLAIT_STAGE_OPTIONS_INIT;
	enum plait_status st;

	o.compile.spec_name = q->args->spec;
	o.compile.text = q->text;
	o.compile.text_len = q->len;
	o.compile.set = q->set;
	o.compile.nset = q->args->nset;
	o.max_rows = ROWS;
	st = plait_stage_create(q->comm, &o, &q->stage);
	if (st != PLAIT_OK)
		return fails(q, st, "the kernels", plait_comm_error(q->comm));
	st = plait_gemms_create(q->comm, &q->gemms);
	return st == PLAIT_OK ? ST_OK : fails(q, st, "GEMMs", plait_comm_error(q->comm));
}

static enum status make_planner(struct calibrate *q)
{
	struct plait_comm_info info = PLAIT_COMM_INFO_INIT;
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
	struct plait_machine base = PLAIT_MACHINE_INIT;
	enum plait_status st = plait_comm_info(q->comm, &info);

	if (st == PLAIT_OK)
		st = plait_machine_get(q->base, q->args->tp, info.transport == PLAIT_BY_MULTICAST,
		                       &base);
	o.spec_name = q->args->spec;
	o.text = q->text;
	o.text_len = q->len;
	o.set = q->set;
	o.nset = q->args->nset;
	o.model = q->args->model;
	o.tp = q->args->tp;
	o.machine = &base;
	if (st == PLAIT_OK)
		st = plait_planner_make(&o, &q->planner);
	return st == PLAIT_OK ? ST_OK
	                      : fails(q, st, "the model", plait_planner_diagnostics(q->planner));
}

static enum status run(struct calibrate *q)
{
	struct plait_measure_options o = PLAIT_MEASURE_OPTIONS_INIT;
	enum plait_status st;

	o.gemms = q->gemms;
	o.again = true; /* whoever asks wants it measured, and has it kept for programs */
	q->machine = (struct plait_machine)PLAIT_MACHINE_INIT;
	q->got = (struct plait_measured)PLAIT_MEASURED_INIT;
	st = plait_machine_measure(q->stage, q->planner, &o, &q->machine, &q->got);
	return st == PLAIT_OK ? ST_OK : fails(q, st, "measuring", plait_comm_error(q->comm));
}

/* ---- what came out ---- */

static enum status write_json(struct calibrate *q, const char *path)
{
	char *text = plait_machine_json(&q->machine, q->base);
	FILE *f = text ? fopen(path, "wb") : NULL;
	bool bad = !f || fputs(text, f) < 0;

	if (f)
		bad |= fclose(f) != 0;
	plait_text_free(text);
	return bad ? fails(q, PLAIT_ENV, "cannot write", path) : ST_OK;
}

static void print(const struct calibrate *q)
{
	const struct plait_measured *x = &q->got;

	printf("%s, tp %u%s: measured in %.2f s%s\n", q->machine.name, q->args->tp,
	       q->gpus < q->args->tp
	               ? ", ranks that share a GPU (of its links these are no figures)"
	               : "",
	       x->seconds, x->partial ? ", of which not all that was wanted" : "");
	printf("gemm_eff %.3f, gamma %.3f, join %.1f us, CTAs without an SM %s\n",
	       q->machine.gemm_eff, q->machine.gamma, q->machine.join_us,
	       q->machine.persistent ? "wait" : "start elsewhere");
	printf("us: GEMM alone (with its target), collective alone; beside one another; both; "
	       "predicted\n"
	       "     rows         N x K   rows  CTAs  SMs      GEMM collective  |    GEMM "
	       "collective"
	       "    both  predicted\n");
	for (unsigned i = 0; i < x->npair; i++) {
		const struct plait_pair *p = &x->pair[i];

		printf("  %7lld %6lld x %5lld %6lld  %4u ", (long long)p->rows, (long long)p->n,
		       (long long)p->k, (long long)p->kernel_rows, p->ctas);
		if (p->sm_target)
			printf("%4u", p->sm_target);
		else
			printf(" all");
		printf(" %9.1f %10.1f  | %7.1f %10.1f %7.1f %10.1f\n", p->gemm_us, p->collective_us,
		       p->gemm_beside_us, p->collective_beside_us, p->both_us, p->predicted_us);
	}
}

enum status machine_measure(struct arena *a, struct diags *d, const struct args *args,
                            const char *text, size_t len)
{
	struct calibrate q = {.a = a, .d = d, .args = args, .text = text, .len = len};
	enum status s;

	q.set = arena_news(a, struct plait_set, args->nset + 1);
	for (size_t i = 0; i < args->nset; i++)
		q.set[i] = (struct plait_set){args->set[i].name, args->set[i].value};
	s = open_ranks(&q);
	if (s == ST_OK)
		s = make_planner(&q);
	if (s == ST_OK)
		s = make_stage(&q);
	if (s == ST_OK)
		s = run(&q);
	if (s == ST_OK)
		s = write_json(&q, args->measure);
	if (s == ST_OK && !args->json)
		print(&q);
	plait_planner_free(q.planner);
	plait_gemms_free(q.gemms);
	plait_stage_free(q.stage);
	plait_comm_free(q.comm);
	return s;
}
