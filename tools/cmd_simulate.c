/* plait simulate: a user's own PTX on simulated ranks, under hostile schedules. */
#include "tools/commands.h"
#include "tools/foreign.h"
#include "tools/pipeline.h"
#include <stdio.h>
#include <string.h>

enum { SCHEDULES = 12 };

static struct sim_options schedule(const struct foreign *f, uint64_t seed, int sum)
{
	static const enum sim_schedule kinds[] = {SIM_ROUND_ROBIN, SIM_RANDOM, SIM_SLOW_RANK,
	                                          SIM_PCT};
	struct sim_options o = {
	        .ranks = f->ranks,
	        .seed = seed,
	        .schedule = kinds[seed % 4],
	        .slow_rank = (unsigned)(seed / 4 % f->ranks),
	        .sum = sum < 0 ? (enum sim_sum)(seed % SIM_NSUMS) : (enum sim_sum)sum,
	        .perturb_approx = seed & 1,
	        .tear = seed % 4 != 0,
	        .max_start_delay = seed % 4 ? 2000 : 0,
	        .jump_time = seed % 8 == 7,
	};

	return o;
}

static enum status read_all(struct pipe *p, struct foreign **f, struct ptx_module **m)
{
	const char *error;
	char *text;
	size_t len;
	enum status s = pipe_read(p);

	if (s != ST_OK)
		return s;
	*f = foreign_read(p->a, p->src->text, p->src->len, p->args->spec, &error);
	if (!*f) {
		diag_at(&p->d, DIAG_ERROR, DIAG_SIMULATE, (struct span){0, 0}, "%s: %s",
		        p->src->name, error);
		return ST_INPUT;
	}
	if (!read_named(p->a, &p->d, (*f)->ptx, &text, &len))
		return ST_INPUT;
	*m = ptx_parse(p->a, &p->d, diags_add_source(&p->d, (*f)->ptx, text, len));
	return *m ? ST_OK : ST_INPUT;
}

/* An arena for each, so that memory is of one schedule at a time. */
static bool one(const struct args *args, const struct foreign *f, const struct ptx_module *m,
                uint64_t seed, uint64_t *insns, bool *oom)
{
	struct sim_options o = schedule(f, seed, args->sum);
	struct sim_stats stats = {0};
	const char *report;
	struct arena a;
	bool good;

	o.races = args->races ? (enum sim_races)(args->races - 1) : SIM_RACES_FORMAL;
	o.weak = !args->no_weak && o.races && seed % 2;
	arena_init(&a, 0);
	if (setjmp(a.oom)) {
		arena_free(&a);
		*oom = true;
		return false;
	}
	good = foreign_run(f, m, &o, &a, &report, &stats);
	if (!good)
		printf("%s\n  schedule %llu: %s%s; again: plait simulate %s --seed %llu "
		       "--schedules 1%s%s%s\n",
		       report, (unsigned long long)seed, sim_schedule_name[o.schedule],
		       o.weak ? ", weak memory" : "", args->spec, (unsigned long long)seed,
		       args->races ? " --races " : "", args->races ? sim_races_name[o.races] : "",
		       args->no_weak ? " --weak no" : "");
	*insns += stats.lane_insns;
	arena_free(&a);
	return good;
}

int cmd_simulate(struct args *args)
{
	unsigned n = args->schedules ? args->schedules : SCHEDULES;
	struct ptx_module *m = NULL;
	struct foreign *f = NULL;
	uint64_t insns = 0;
	bool oom = false;
	struct pipe p;
	enum status s;

	pipe_init(&p, args->arena, args);
	s = read_all(&p, &f, &m);
	for (unsigned i = 0; s == ST_OK && i < n; i++)
		if (!one(args, f, m, args->seed + i, &insns, &oom))
			s = oom ? ST_NOMEM : ST_INPUT;
	if (s == ST_OK)
		printf("%s: %u schedules on %u ranks, no finding (%.1f million lane "
		       "instructions)\n",
		       p.src->name, n, f->ranks, (double)insns / 1e6);
	return pipe_finish(&p, s);
}
