/* Verification in all ways: every execution of a small case that the memory model allows, in place of
 * some schedules. */
#include "tools/verify_priv.h"

static void one(const struct vf_data *d, const struct vf_text *t, struct sim_explore *e,
                struct arena *a, struct vf_explored *x)
{
	struct vf_result r = {.schedules = 0};

	vf_run_schedule(d, t, d->o.seed, a, &r);
	if (sim_explored(e).runs == 1) /* the search has begun again */
		x->whole = 0;
	if (sim_explored(e).cut)
		return;
	x->whole++;
	if (r.failure.kind != VF_GOOD)
		x->r = r;
}

enum status vf_explore(struct vf_data *d, const struct ptx_module *m, const char *text,
                       uint64_t most, struct arena *a, struct vf_explored *x)
{
	const struct vf_text t = {m, text};
	struct sim_explore *e = sim_explore_new(a, most);
	struct arena run;
	enum status s = ST_OK;

	*x = (struct vf_explored){.runs = 0};
	d->o.explore = e;
	while (s == ST_OK && x->r.failure.kind == VF_GOOD && sim_explore_next(e)) {
		x->all_runs++;
		arena_init(&run, 0);
		if (setjmp(run.oom))
			s = ST_NOMEM;
		else
			one(d, &t, e, &run, x);
		if (s == ST_OK && x->r.failure.kind != VF_GOOD)
			x->r.failure = vf_keep(&x->r.failure, a);
		arena_free(&run);
	}
	d->o.explore = NULL;
	x->runs = sim_explored(e).runs;
	x->states = sim_explored(e).states;
	x->complete = sim_explored(e).complete;
	return s;
}
