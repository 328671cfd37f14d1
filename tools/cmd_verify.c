/* plait verify: every kernel of a spec through the core of verify.h, and a short report of each. */
#include "runtime/jit.h"
#include "tools/commands.h"
#include "tools/pipeline.h"
#include "tools/ptxas.h"
#include "tools/verify.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const int64_t default_tokens[] = {0, 1, 7, 64};

struct session {
	struct pipe *p;
	struct vf_options o;
	struct ptx_module *given; /* --ptx */
	const char *given_text;
	unsigned verified;
	bool terminal;
	const char *now; /* the kernel at work */
};

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void progress(void *ctx, unsigned done, unsigned of)
{
	const struct session *s = ctx;

	fprintf(stderr, "\r%s: schedule %u of %u\r", s->now, done, of);
	if (done == of)
		fputs("\r                                                            \r", stderr);
}

static struct ptx_module *parse(struct pipe *p, const char *name, const char *text, size_t len)
{
	struct source *src = diags_add_source(&p->d, name, text, len);
	struct ptx_module *m = src ? ptx_parse(p->a, &p->d, src) : NULL;

	return m && ptx_verify(m, &p->d) ? m : NULL;
}

static const struct ptx_fn *entry_of(const struct ptx_module *m, const char *name)
{
	for (const struct ptx_fn *f = m->fn; f; f = f->next)
		if (!strcmp(f->name, name))
			return f;
	return NULL;
}

/* ---- the report ---- */

static void print_tokens(const struct vf_options *o)
{
	for (unsigned i = 0; i < o->ntokens; i++)
		printf("%s%lld", i ? "," : "", (long long)o->tokens[i]);
}

/* The command that runs the failed schedule alone. */
static void print_replay(const struct session *s, const struct cg_kernel *k,
                         const struct vf_failure *f)
{
	const struct args *a = s->p->args;

	printf("  replay: plait verify %s --tp %u --tokens ", a->spec, a->tp);
	print_tokens(&s->o);
	printf(" --kernel %s --launches %u --schedules 1 --seed %llu", k->name, f->launches,
	       (unsigned long long)f->seed);
	if (a->target != cg_target_by_name("sm_90"))
		printf(" --target %s", a->target->name);
	if (a->protocol != CG_AUTO)
		printf(" --protocol %s", cg_protocol_name(a->protocol));
	if (a->ctas)
		printf(" --ctas %u", a->ctas);
	if (a->sum >= 0)
		printf(" --switch-sum %s", sim_sum_name[a->sum]);
	for (size_t i = 0; i < a->nset; i++)
		printf(" --set %s=%s", a->set[i].name, a->set[i].value);
	if (a->ptx)
		printf(" --ptx %s", a->ptx);
	putchar('\n');
}

static void print_result(const struct session *s, const struct cg_kernel *k,
                         const struct vf_result *r, const char *resources, double time)
{
	const char *verdict = r->failure.kind == VF_GOOD ? "good" : "FAILED";

	printf("%s: %s\n", k->name, verdict);
	if (r->failure.kind != VF_GOOD) {
		struct strbuf b;

		strbuf_init(&b, s->p->a);
		vf_print_failure(&r->failure, s->p->src->name, &b);
		fputs(b.s, stdout);
		print_replay(s, k, &r->failure);
	}
	printf("  ranks %u, rows ", s->o.tp);
	print_tokens(&s->o);
	printf(" of %lld, protocol %s, up to %u CTA%s of %u threads\n", (long long)k->plan.cols,
	       cg_protocol_name(k->plan.protocol), r->most_ctas, r->most_ctas == 1 ? "" : "s",
	       k->plan.threads);
	printf("  %u schedules, %u launches, %.1f million instructions executed\n", r->schedules,
	       r->launches, (double)r->lane_insns * 1e-6);
	printf("  %llu elements compared bit for bit, %llu within a bound",
	       (unsigned long long)r->exact, (unsigned long long)r->bounded);
	if (r->worst > 0.0)
		printf("; largest error %.3g of %.3g allowed (%.0f %%)", r->worst_diff,
		       r->worst_err, r->worst * 100.0);
	printf("\n  %s\n  %.2f s\n", resources, time);
}

/* ---- one kernel ---- */

/* The stages of the kernel's passes, for the check that each keeps its meaning. */
static void find_stages(struct pipe *p, const struct ir_func *f, struct vf_kernel *k)
{
	struct vf_stage *st = arena_news(p->a, struct vf_stage, p->nstage + 1);

	for (size_t i = 0; i < p->nstage; i++) {
		const struct ir_func *g = ir_func_find(p->stage[i].m, f->name);

		/* sums may be merged by the user's leave: then what follows is the reference */
		if (g && f->merged_sums && !strcmp(p->stage[i].pass, "merge")) {
			k->f = g;
			k->nstage = 0;
		} else if (g) {
			st[k->nstage++] = (struct vf_stage){p->stage[i].pass, g};
		}
	}
	k->stage = st;
}

static enum status verify_kernel(struct session *s, size_t i)
{
	struct pipe *p = s->p;
	struct cg_kernel *k = p->kernel[i];
	struct vf_kernel vk = {.f = p->func[i], .k = k, .places = &p->d};
	const struct ptx_module *m = s->given;
	const char *text = s->given_text, *error, *resources;
	struct vf_result r;
	struct vf_data *d;
	double start = seconds();
	enum status st;

	if (!m) {
		struct strbuf b;

		strbuf_init(&b, p->a);
		ptx_print(k->module, &b);
		text = b.s;
		m = parse(p, arena_printf(p->a, "%s.ptx", k->name), b.s, b.n);
		if (!m)
			return ST_INTERNAL;
	} else if (!entry_of(m, k->name)) {
		return ST_OK;
	}
	s->verified++;
	s->now = k->name;
	find_stages(p, p->func[i], &vk);
	st = vf_data_new(&vk, &s->o, p->a, &d, &error);
	if (st != ST_OK) {
		fprintf(stderr, "plait verify: %s: %s\n", k->name, error);
		return st;
	}
	st = vf_run(d, m, text, p->a, &r);
	vf_data_free(d);
	if (st == ST_NOMEM)
		return st;
	resources = ptxas_resources(p->a, text, k->name, p->args->target->name);
	print_result(s, k, &r, resources, seconds() - start);
	fflush(stdout);
	return st;
}

static enum status read_given(struct session *s)
{
	const char *path = s->p->args->ptx, *error;
	char *text;
	size_t len;

	if (!path)
		return ST_OK;
	if (!read_file(s->p->a, path, &text, &len, &error)) {
		diag_at(&s->p->d, DIAG_ERROR, DIAG_FILE, (struct span){0, 0},
		        "cannot read '%s': %s", path, error);
		return ST_INPUT;
	}
	s->given_text = text;
	s->given = parse(s->p, path, text, len);
	return s->given ? ST_OK : ST_INPUT;
}

static enum status verify_all(struct session *s)
{
	enum status worst = pipe_all(s->p);

	if (worst == ST_OK)
		worst = read_given(s);
	if (worst != ST_OK)
		return worst;
	for (size_t i = 0; i < s->p->nkernel; i++) {
		enum status st = verify_kernel(s, i);

		worst = st > worst ? st : worst;
	}
	if (!s->verified) {
		diag_at(&s->p->d, DIAG_ERROR, DIAG_NO_KERNEL, (struct span){0, 0},
		        "'%s' has none of the spec's kernels", s->p->args->ptx);
		return ST_INPUT;
	}
	return worst;
}

int cmd_verify(struct args *args)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct pipe p;
	struct session s = {.p = &p, .terminal = isatty(2)};
	double start = seconds();
	int code;

	if (!args->tp)
		return args_wrong(args, "--tp is needed: the number of ranks");
	pipe_init(&p, args->arena, args);
	p.keep_stages = true;
	s.o = (struct vf_options){
	        .tp = args->tp,
	        .tokens = args->ntokens ? args->tokens : default_tokens,
	        .ntokens = args->ntokens ? (unsigned)args->ntokens : 4,
	        .ctas = args->ctas,
	        .launches = args->launches,
	        .schedules = args->schedules ? args->schedules : 12,
	        .seed = args->seed,
	        .sum = args->sum,
	        .threads = args->threads ? args->threads
	                   : cpus > 0    ? (unsigned)cpus
	                                 : 1,
	        .progress = s.terminal ? progress : NULL,
	        .ctx = &s,
	};
	code = pipe_finish(&p, verify_all(&s));
	if (s.verified)
		printf("%u kernel%s, %s, %.1f s\n", s.verified, s.verified > 1 ? "s" : "",
		       code ? "FAILED" : "good", seconds() - start);
	return code;
}
