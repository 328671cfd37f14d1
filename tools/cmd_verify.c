/* plait verify: every kernel of a spec through the core of verify.h, and a short report of each. */
#include "runtime/jit.h"
#include "tools/commands.h"
#include "tools/json.h"
#include "tools/pipeline.h"
#include "tools/ptxas.h"
#include <stdio.h>
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
	const char *now; /* the kernel at work */
	cJSON *runs;     /* of the document; NULL: the report is text */
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

static const char *tokens_text(const struct session *s)
{
	struct strbuf b;

	strbuf_init(&b, s->p->a);
	for (unsigned i = 0; i < s->o.ntokens; i++)
		strbuf_printf(&b, "%s%lld", i ? "," : "", (long long)s->o.tokens[i]);
	return b.s;
}

/* The command that runs the failed schedule alone, of kernels that start with k. */
static const char *replay(const struct session *s, const struct pipe_kernel *k,
                          const struct vf_failure *f)
{
	static const char *const forms[] = {"auto", "own", "all"};
	const struct args *a = s->p->args;
	struct strbuf b;

	strbuf_init(&b, s->p->a);
	strbuf_printf(&b, "plait verify %s --tp %u --tokens %s", a->spec, a->tp, tokens_text(s));
	if (a->export)
		strbuf_printf(&b, " --export %s", a->export);
	else if (a->chain)
		strbuf_printf(&b, " --chain %s", a->chain);
	else
		strbuf_printf(&b, " --kernel %s", k->k->name);
	strbuf_printf(&b, " --launches %u --schedules 1 --seed %llu", f->launches,
	              (unsigned long long)f->seed);
	if (a->target != cg_target_by_name("sm_90"))
		strbuf_printf(&b, " --target %s", a->target->name);
	if (a->nprotocol > 1 && a->chain)
		for (unsigned i = 0; i < a->nprotocol; i++)
			strbuf_printf(&b, "%s%s", i ? "," : " --protocol ",
			              cg_protocol_name(a->protocols[i]));
	else if (a->nprotocol > 1 || a->protocol != CG_AUTO)
		strbuf_printf(&b, " --protocol %s", cg_protocol_name(k->protocol));
	if (a->multicast)
		strbuf_printf(&b, " --multicast %s", a->multicast == MULTICAST_YES ? "yes" : "no");
	if (a->order != CG_FORMAL)
		strbuf_printf(&b, " --order %s", cg_order_name(a->order));
	if (a->pdl)
		strbuf_printf(&b, " --pdl %s", cg_pdl_name(a->pdl));
	if (a->rows_in_memory)
		strbuf_puts(&b, " --rows-in-memory");
	if (a->form != FORM_AUTO)
		strbuf_printf(&b, " --form %s", forms[a->form]);
	if (a->ctas)
		strbuf_printf(&b, " --ctas %u", a->ctas);
	if (a->races)
		strbuf_printf(&b, " --races %s", sim_races_name[a->races - 1]);
	if (a->no_weak)
		strbuf_puts(&b, " --weak no");
	if (a->sum >= 0)
		strbuf_printf(&b, " --switch-sum %s", sim_sum_name[a->sum]);
	for (size_t i = 0; i < a->nset; i++)
		strbuf_printf(&b, " --set %s=%s", a->set[i].name, a->set[i].value);
	if (a->ptx)
		strbuf_printf(&b, " --ptx %s", a->ptx);
	return b.s;
}

static void print_failure(const struct session *s, const struct vf_result *r, const char *again)
{
	struct strbuf b;

	strbuf_init(&b, s->p->a);
	vf_print_failure(&r->failure, s->p->src->name, &b);
	fputs(b.s, stdout);
	printf("  replay: %s\n", again);
}

static void print_counts(const struct vf_result *r)
{
	printf("  %u schedule%s, %u launch%s, %.1f million instructions executed\n", r->schedules,
	       r->schedules == 1 ? "" : "s", r->launches, r->launches == 1 ? "" : "es",
	       (double)r->lane_insns * 1e-6);
	printf("  %llu elements compared bit for bit, %llu within a bound",
	       (unsigned long long)r->exact, (unsigned long long)r->bounded);
	if (r->worst > 0.0)
		printf("; largest error %.3g of %.3g allowed (%.0f %%)", r->worst_diff,
		       r->worst_err, r->worst * 100.0);
	putchar('\n');
}

/* `of`: in a chain, the kernel's name and a colon. */
static void print_shape(const struct session *s, const struct cg_kernel *k, const char *of,
                        const struct vf_result *r)
{
	printf("  %sranks %u, rows %s of %lld, protocol %s, up to %u CTA%s of %u threads\n", of,
	       s->o.tp, tokens_text(s), (long long)k->plan.cols, cg_protocol_name(k->plan.protocol),
	       r->most_ctas, r->most_ctas == 1 ? "" : "s", k->plan.threads);
}

/* What a run of kernels k[0..n) gave, as text or into the document. */
static void report(struct session *s, const struct pipe_kernel *k, unsigned n, const char *name,
                   const struct vf_result *r, const char *resources, double time)
{
	bool bad = r->failure.kind != VF_GOOD;
	const char *again = bad ? replay(s, k, &r->failure) : NULL;
	cJSON *o;

	if (!s->runs) {
		printf("%s: %s\n", name, bad ? "FAILED" : "good");
		if (bad)
			print_failure(s, r, again);
		for (unsigned i = 0; i < n; i++)
			print_shape(s, k[i].k,
			            n > 1 ? arena_printf(s->p->a, "%s: ", k[i].k->name) : "", r);
		print_counts(r);
		if (resources)
			printf("  %s\n", resources);
		printf("  %.2f s\n", time);
		fflush(stdout);
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "name", name);
	json_result(o, r);
	if (again)
		cJSON_AddStringToObject(o, "replay", again);
	if (resources)
		cJSON_AddStringToObject(o, "resources", resources);
	cJSON_AddNumberToObject(o, "seconds", time);
	cJSON_AddItemToArray(s->runs, o);
	o = cJSON_AddArrayToObject(o, "kernels");
	for (unsigned i = 0; i < n; i++)
		cJSON_AddItemToArray(o, json_kernel(k[i].k, k[i].rows));
}

/* ---- one kernel ---- */

/* The stages of the kernel's passes, for the check that each keeps its meaning. */
static struct vf_kernel with_stages(struct pipe *p, const struct pipe_kernel *pk)
{
	struct vf_kernel k = {.f = pk->f, .k = pk->k, .rows = pk->rows, .places = &p->d};
	struct vf_stage *st = arena_news(p->a, struct vf_stage, p->nstage + 1);

	for (size_t i = 0; i < p->nstage; i++) {
		const struct ir_func *g = ir_func_find(p->stage[i].m, pk->f->name);

		if (!g || p->stage[i].rows != pk->rows)
			continue;
		/* sums may be merged, and regrouped, by the user's leave: then what follows is the
		 * reference */
		if (k.f->merged_sums &&
		    (!strcmp(p->stage[i].pass, "merge") || !strcmp(p->stage[i].pass, "fuse"))) {
			k.f = g;
			k.nstage = 0;
		} else {
			st[k.nstage++] = (struct vf_stage){p->stage[i].pass, g};
		}
	}
	k.stage = st;
	return k;
}

/* The given entry has the arguments that will be passed; says so if not. */
static bool takes(struct session *s, const struct ptx_fn *f, const struct cg_kernel *k)
{
	bool same = f->nparam == k->narg;

	for (unsigned i = 0; same && i < k->narg; i++)
		same = f->param[i].offset == k->arg[i].offset &&
		       !strcmp(f->param[i].name, k->arg[i].name);
	if (same)
		return true;
	diag_at(&s->p->d, DIAG_ERROR, DIAG_VERIFY, (struct span){0, 0},
	        "'%s' of '%s' takes other arguments than protocol '%s' passes", f->name,
	        s->p->args->ptx, cg_protocol_name(k->plan.protocol));
	diag_note(&s->p->d, (struct span){0, 0},
	          "verify a text with the options that it was compiled with");
	return false;
}

/* The text to verify of a kernel: given, or printed and parsed.  t->m is NULL: not in the given
 * one. */
static enum status text_of(struct session *s, const struct cg_kernel *k, struct vf_text *t)
{
	struct strbuf b;

	*t = (struct vf_text){s->given, s->given_text};
	if (s->given) {
		const struct ptx_fn *f = entry_of(s->given, k->name);

		if (!f)
			t->m = NULL;
		return !f || takes(s, f, k) ? ST_OK : ST_INPUT;
	}
	strbuf_init(&b, s->p->a);
	ptx_print(k->module, &b);
	t->text = b.s;
	t->m = parse(s->p, arena_printf(s->p->a, "%s.ptx", k->name), b.s, b.n);
	return t->m ? ST_OK : ST_INTERNAL;
}

/* Kernels k[0..n), a chain where n is more than 1. */
static enum status verify_kernels(struct session *s, const struct pipe_kernel *k, unsigned n,
                                  const char *name)
{
	struct pipe *p = s->p;
	struct vf_kernel *vk = arena_news(p->a, struct vf_kernel, n);
	struct vf_text *t = arena_news(p->a, struct vf_text, n);
	const char *error, *resources = NULL;
	double start = seconds();
	struct vf_result r;
	struct vf_data *d;
	enum status st;

	for (unsigned i = 0; i < n; i++) {
		st = text_of(s, k[i].k, &t[i]);
		if (st != ST_OK || !t[i].m)
			return st;
		vk[i] = with_stages(p, &k[i]);
	}
	s->verified++;
	s->now = name;
	st = vf_chain_new(vk, n, &s->o, p->a, &d, &error);
	if (st != ST_OK) {
		diag_at(&p->d, DIAG_ERROR, DIAG_VERIFY, (struct span){0, 0}, "%s: %s", name, error);
		return st;
	}
	st = vf_run_chain(d, t, p->a, &r);
	vf_data_free(d);
	if (st == ST_NOMEM)
		return st;
	if (n == 1)
		resources = ptxas_resources(p->a, t[0].text, k->k->name, p->args->target->name);
	report(s, k, n, name, &r, resources, seconds() - start);
	return st;
}

/* ---- a chain ---- */

/* The kernel of the next name of the list, made with the protocol whose turn it is. */
static enum status chain_link(struct session *s, const char *name, unsigned turn,
                              struct pipe_kernel *to)
{
	struct pipe *p = s->p;
	const struct args *a = p->args;
	enum cg_protocol protocol = a->nprotocol ? a->protocols[turn % a->nprotocol] : a->protocol;

	for (size_t i = 0; i < p->nkernel; i++)
		if (!strcmp(p->kernel[i].f->name, name) && p->kernel[i].protocol == protocol) {
			*to = p->kernel[i];
			return ST_OK;
		}
	diag_at(&p->d, DIAG_ERROR, DIAG_NO_KERNEL, (struct span){0, 0}, "'%s' has no kernel '%s'",
	        p->src->name, name);
	return ST_INPUT;
}

static enum status verify_chain(struct session *s)
{
	const char *list = s->p->args->chain;
	struct pipe_kernel *k = NULL;
	size_t n = 0, cap = 0;

	for (;;) {
		size_t len = strcspn(list, ",");
		enum status st;

		k = arena_grow(s->p->a, k, n, &cap, n + 1, sizeof *k);
		st = chain_link(s, arena_strndup(s->p->a, list, len), (unsigned)n, &k[n]);
		if (st != ST_OK)
			return st;
		n++;
		if (!list[len])
			break;
		list += len + 1;
	}
	return verify_kernels(s, k, (unsigned)n, s->p->args->chain);
}

static enum status read_given(struct session *s)
{
	const char *path = s->p->args->ptx;
	char *text;
	size_t len;

	if (!path)
		return ST_OK;
	if (!read_named(s->p->a, &s->p->d, path, &text, &len))
		return ST_INPUT;
	s->given_text = text;
	s->given = parse(s->p, path, text, len);
	return s->given ? ST_OK : ST_INPUT;
}

/* Its name, and its protocol where there are several. */
static const char *name_of(const struct pipe *p, const struct pipe_kernel *k)
{
	if (p->args->nprotocol < 2)
		return k->k->name;
	return arena_printf(p->a, "%s, %s", k->k->name, cg_protocol_name(k->k->plan.protocol));
}

static enum status verify_all(struct session *s)
{
	enum status worst = pipe_all(s->p);

	if (worst == ST_OK)
		worst = read_given(s);
	if (worst != ST_OK)
		return worst;
	if (s->p->args->chain)
		worst = verify_chain(s);
	for (size_t i = 0; i < s->p->nkernel && !s->p->args->chain; i++) {
		const struct pipe_kernel *k = &s->p->kernel[i];
		enum status st = verify_kernels(s, k, 1, name_of(s->p, k));

		worst = st > worst ? st : worst;
	}
	if (worst == ST_OK && !s->verified) {
		diag_at(&s->p->d, DIAG_ERROR, DIAG_NO_KERNEL, (struct span){0, 0},
		        "'%s' has none of the spec's kernels", s->p->args->ptx);
		return ST_INPUT;
	}
	return worst;
}

static struct vf_options options(struct session *s, const struct args *args)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return (struct vf_options){
	        .tp = args->tp,
	        .tokens = args->ntokens ? args->tokens : default_tokens,
	        .ntokens = args->ntokens ? (unsigned)args->ntokens : 4,
	        .ctas = args->ctas,
	        .launches = args->launches,
	        .schedules = args->schedules ? args->schedules : 12,
	        .seed = args->seed,
	        .sum = args->sum,
	        .races = args->races,
	        .weak = !args->no_weak,
	        .threads = args->threads ? args->threads
	                   : cpus > 0    ? (unsigned)cpus
	                                 : 1,
	        .progress = isatty(2) ? progress : NULL,
	        .ctx = s,
	};
}

int cmd_verify(struct args *args)
{
	struct pipe p;
	struct session s = {.p = &p};
	cJSON *doc;
	double start = seconds();
	enum status st;
	int code;

	if (!args->tp)
		return args_wrong(args, "--tp is needed: the number of ranks");
	if (args->chain && args->kernel)
		return args_wrong(args, "--chain names the kernels, and so does --kernel");
	if (args->chain && args->export)
		return args_wrong(args, "--export makes one kernel, and --chain runs several");
	if (args->ptx && args->nprotocol > 1)
		return args_wrong(args, "--ptx has each kernel once, so one protocol goes with it");
	pipe_init(&p, args->arena, args);
	p.keep_stages = true;
	s.o = options(&s, args);
	if (args->json) {
		doc = json_document(args);
		s.runs = cJSON_AddArrayToObject(doc, "runs");
		st = verify_all(&s);
		return json_finish(doc, &p, st);
	}
	code = pipe_finish(&p, verify_all(&s));
	if (s.verified)
		printf("%u kernel%s, %s, %.1f s\n", s.verified, s.verified > 1 ? "s" : "",
		       code ? "FAILED" : "good", seconds() - start);
	return code;
}
