/* plait bench: plait's protocols against the peers, in one run, on the GPUs of this machine. */
#include "runtime/machine.h"
#include "tools/bench_subject.h"
#include "tools/bundle.h"
#include "tools/commands.h"
#include "tools/pipeline.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Beyond them a push moves so much more than a two-shot that nobody takes it. */
enum { PUSH_ROWS = 4096, ROUNDS = 25, MAX_RUNS = 9 };

struct run { /* one width of rows */
	struct bench_subject s;
	struct bench_norm norm;
	struct bench_nccl nccl;
	struct bench_flashinfer fi;
	struct bench_contender c[BENCH_MAX_WHO];
	unsigned nc;
	struct bench_result result;
};

struct bench {
	const struct args *args;
	struct bench_gpu g;
	const char *text;
	size_t len;
	uint64_t *T;
	uint64_t most;
	struct run *run; /* [1 + nalso] */
	unsigned nrun;
};

static int gave_up(struct bench *b)
{
	enum plait_status s = b->g.e.status;

	fprintf(stderr, "plait bench: %s\n", b->g.e.text);
	return s == PLAIT_INPUT ? 1 : s == PLAIT_USAGE ? 2 : s == PLAIT_INTERNAL ? 4 : 3;
}

/* Something that is not here is a line on stderr, and the run goes on. */
static void without(struct bench *b, const char *what)
{
	fprintf(stderr, "plait bench: without %s: %s\n", what, b->g.e.text);
	rt_error_clear(&b->g.e);
}

/* ---- contenders ---- */

static uint64_t most_rows(const struct bench *b, const char *protocol)
{
	bool push = !strcmp(protocol, "push") || !strcmp(protocol, "mm-push");

	return push && b->most > PUSH_ROWS ? PUSH_ROWS : b->most;
}

static void add(struct run *r, struct bench_contender c)
{
	if (r->nc < BENCH_MAX_WHO)
		r->c[r->nc++] = c;
}

/* `plait` by its own choice is first: it is what all is compared with. */
static bool add_plait(struct bench *b, struct run *r)
{
	const struct args *args = b->args;
	struct bench_plait *p;

	p = bench_plait_new(&r->s, NULL, b->most);
	if (!p)
		return false;
	p->ctas = args->ctas;
	add(r, bench_plait_contender(p, "plait"));
	for (int i = CG_AUTO + 1; i < CG_NPROTOCOLS; i++) {
		const char *name = cg_protocol_name((enum cg_protocol)i);
		bool asked = !args->nprotocol && cg_protocol_info[i].memory == CG_SYM_PEER;

		for (unsigned k = 0; k < args->nprotocol; k++)
			asked |= args->protocols[k] == (enum cg_protocol)i;
		if (!asked)
			continue;
		p = bench_plait_new(&r->s, name, most_rows(b, name));
		if (!p) {
			without(b, name);
			continue;
		}
		p->ctas = args->ctas;
		add(r, bench_plait_contender(p, arena_printf(args->arena, "plait %s", name)));
	}
	return true;
}

static const char *peer(const struct bench *b, const char *name)
{
	for (size_t i = 0; i < b->args->npeer; i++)
		if (!strcmp(b->args->peer[i].name, name))
			return b->args->peer[i].value ? b->args->peer[i].value : "";
	return NULL;
}

static void add_peers(struct bench *b, struct run *r)
{
	const char *nccl = peer(b, "nccl"), *fi = peer(b, "flashinfer");

	if (bench_norm_open(&r->norm, &r->s)) {
		add(r, (struct bench_contender){.who = {"plait local", BENCH_NORM},
		                                .ctx = &r->norm,
		                                .launch = bench_norm_launch});
	} else {
		without(b, "the norm alone, and what NCCL needs of it");
		bench_norm_close(&r->norm);
		r->norm.s = NULL;
	}
	if (nccl && r->nc && r->c[r->nc - 1].ctx == &r->norm) {
		if (bench_nccl_open(&r->nccl, &r->s, *nccl ? nccl : NULL, &r->norm))
			r->nc += bench_nccl_contenders(&r->nccl, r->c + r->nc);
		else
			without(b, "NCCL");
	}
	if (fi) {
		if (bench_flashinfer_open(&r->fi, &r->s, fi))
			r->nc += bench_flashinfer_contenders(&r->fi, r->c + r->nc);
		else
			without(b, "FlashInfer");
	}
}

/* ---- one width ---- */

static bool open_run(struct bench *b, struct run *r, unsigned k)
{
	const struct args *args = b->args;
	struct plait_set *set = arena_news(args->arena, struct plait_set, args->nset + 2);
	struct bench_spec spec = {.name = args->spec,
	                          .text = b->text,
	                          .kernel = args->kernel,
	                          .len = b->len,
	                          .set = set,
	                          .table = args->table,
	                          .dependent = args->pdl != CG_PDL_NONE,
	                          .plain = args->plain};

	for (size_t i = 0; i < args->nset; i++)
		set[spec.nset++] = (struct plait_set){args->set[i].name, args->set[i].value};
	if (k)
		set[spec.nset++] =
		        (struct plait_set){args->also[k - 1].name, args->also[k - 1].value};
	if (!bench_subject_open(&r->s, &b->g, &spec, b->most) || !add_plait(b, r))
		return false;
	add_peers(b, r);
	return true;
}

static void close_run(struct run *r)
{
	bench_flashinfer_close(&r->fi);
	bench_nccl_close(&r->nccl);
	bench_norm_close(&r->norm);
	bench_subject_close(&r->s);
}

static void describe(struct bench *b, struct run *r)
{
	const struct args *args = b->args;
	struct bench_result *x = &r->result;

	x->gpu = b->g.name;
	x->driver = b->g.driver;
	x->spec = args->spec;
	x->kernel = r->s.kernel;
	x->dtype =
	        r->s.partial >= 0 ? r->s.param[r->s.partial].info.dtype : r->s.param[0].info.dtype;
	x->settings = arena_printf(args->arena, "Multicast %s. Programmatic dependent launch %s.",
	                           rt_multicast_off() ? "off" : "where it works",
	                           args->pdl == CG_PDL_NONE
	                                   ? "off"
	                                   : "with an early trigger, of plait and of FlashInfer");
	x->tp = b->g.tp;
	x->gpus = b->g.gpus;
	x->sm = b->g.sm;
	x->cols = r->s.cols;
	x->sum_bytes = r->s.sum_bytes;
	x->norm_bytes = r->s.norm_bytes;
	x->launches = BENCH_LAUNCHES;
	x->rounds = args->rounds ? args->rounds : ROUNDS;
	x->T = b->T;
	x->ntokens = (unsigned)args->ntokens;
	x->nwho = r->nc;
	x->who = arena_news(args->arena, struct bench_who, r->nc);
	x->cell = arena_news(args->arena, struct bench_cell, (size_t)r->nc * args->ntokens);
	for (unsigned w = 0; w < r->nc; w++)
		x->who[w] = r->c[w].who;
}

/* `local` gets the grid that is best at T, for itself and for NCCL's contenders: the peers at their best. */
static bool choose_norm(struct bench *b, struct run *r, uint64_t T)
{
	const unsigned grid[] = {0, b->g.processors, 2 * b->g.processors};
	struct bench_norm way[3];
	struct bench_contender c[3];
	struct bench_cell cell[3];
	double least = 0;

	if (!r->norm.s)
		return true;
	for (int i = 0; i < 3; i++) {
		way[i] = r->norm;
		way[i].ctas = grid[i] < CG_MAX_CTAS ? grid[i] : CG_MAX_CTAS;
		c[i] = (struct bench_contender){
		        .who = {"norm", BENCH_NORM}, .ctx = &way[i], .launch = bench_norm_launch};
	}
	if (!bench_time(&b->g, c, 3, T, 5, cell))
		return false;
	for (int i = 0; i < 3; i++) {
		double us = bench_stat_of(cell[i].us, 5, b->g.a).median;

		if (i && us >= least)
			continue;
		least = us;
		r->norm.ctas = r->nccl.norm[0].ctas = r->nccl.norm[1].ctas = way[i].ctas;
	}
	return true;
}

static bool time_run(struct bench *b, struct run *r)
{
	struct bench_result *x = &r->result;

	for (unsigned t = 0; t < x->ntokens; t++) {
		struct bench_cell *cells = bench_at(x, t, 0);

		if (isatty(2))
			fprintf(stderr, "\r%lld columns, T = %llu    ", (long long)x->cols,
			        (unsigned long long)b->T[t]);
		if (!choose_norm(b, r, b->T[t]) ||
		    !bench_time(&b->g, r->c, r->nc, b->T[t], x->rounds, cells) ||
		    !bench_check(&r->s, r->c, r->nc, b->T[t], cells))
			return false;
	}
	if (isatty(2))
		fputs("\r                                \r", stderr);
	return true;
}

/* ---- reports ---- */

/* The command without paths of this machine. */
static const char *command_text(const struct bench *b)
{
	const struct args *args = b->args;
	struct strbuf s;

	strbuf_init(&s, args->arena);
	strbuf_printf(&s, "plait bench %s", args->spec);
	if (args->kernel)
		strbuf_printf(&s, " --kernel %s", args->kernel);
	for (size_t i = 0; i < args->nset; i++)
		strbuf_printf(&s, " --set %s=%s", args->set[i].name, args->set[i].value);
	for (size_t i = 0; i < args->nalso; i++)
		strbuf_printf(&s, " --also %s=%s", args->also[i].name, args->also[i].value);
	for (size_t i = 0; i < args->npeer; i++)
		strbuf_printf(&s, " --peer %s%s", args->peer[i].name,
		              strcmp(args->peer[i].name, "flashinfer") ? "" : "=DIR");
	strbuf_puts(&s, " --markdown doc/performance.md --svg doc/performance.svg");
	return s.s;
}

static int write_reports(struct bench *b)
{
	const struct args *args = b->args;
	const struct bench_result *all[MAX_RUNS];
	struct strbuf lines, page, svg, text;
	const char *picture = args->svg ? strrchr(args->svg, '/') : NULL;
	int code = 0;

	strbuf_init(&lines, args->arena);
	strbuf_init(&page, args->arena);
	strbuf_init(&svg, args->arena);
	strbuf_init(&text, args->arena);
	picture = picture ? picture + 1 : args->svg;
	bench_markdown_head(&b->run[0].result, command_text(b), &page);
	for (unsigned k = 0; k < b->nrun; k++) {
		all[k] = &b->run[k].result;
		bench_json_lines(all[k], &lines);
		bench_markdown(all[k], NULL, &page);
		bench_text(all[k], &text);
	}
	if (picture)
		strbuf_printf(&page, "![times over T](%s)\n", picture);
	bench_svg(all, b->nrun, &svg);
	fputs(text.s, stdout);
	if (args->json_file)
		code = write_file(args->json_file, lines.s, lines.n);
	if (!code && args->markdown)
		code = write_file(args->markdown, page.s, page.n);
	if (!code && args->svg)
		code = write_file(args->svg, svg.s, svg.n);
	return code;
}

/* ---- the command ---- */

static int wrong_use(struct args *args)
{
	if (args->nalso >= MAX_RUNS)
		return args_wrong(args, "--also at most %d times", MAX_RUNS - 1);
	for (size_t i = 0; i < args->ntokens; i++)
		if (!args->tokens[i])
			return args_wrong(args, "--tokens are row counts from 1");
	return -1;
}

static bool measure(struct bench *b)
{
	double link = 0, copy = 0;
	unsigned ctas = 0;

	if (!bench_link(&b->g, &link, &ctas) || !bench_copy(&b->g, &copy))
		return false;
	for (unsigned k = 0; k <= b->args->nalso; k++) {
		struct run *r = &b->run[k];
		bool good = open_run(b, r, k);

		if (good) {
			describe(b, r);
			r->result.link_gbs = link;
			r->result.link_ctas = ctas;
			r->result.copy_gbs = copy;
			good = time_run(b, r);
		}
		close_run(r);
		if (!good)
			return false;
		b->nrun++;
	}
	return true;
}

int cmd_bench(struct args *args)
{
	static const int64_t usual[] = {1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
	struct bench b = {.args = args};
	const char *error;
	char *text;
	int code = wrong_use(args);

	if (code >= 0)
		return code;
	if (!read_file(args->arena, args->spec, &text, &b.len, &error)) {
		fprintf(stderr, "plait bench: %s: %s\n", args->spec, error);
		return 1;
	}
	b.text = text;
	if (!args->ntokens) {
		args->tokens = (int64_t *)(uintptr_t)usual;
		args->ntokens = sizeof usual / sizeof *usual;
	}
	b.T = arena_news(args->arena, uint64_t, args->ntokens);
	for (size_t i = 0; i < args->ntokens; i++) {
		b.T[i] = (uint64_t)args->tokens[i];
		b.most = b.T[i] > b.most ? b.T[i] : b.most;
	}
	b.run = arena_news(args->arena, struct run, args->nalso + 1);
	if (!bench_gpu_open(&b.g, args->tp, 0, args->arena) || !measure(&b))
		code = gave_up(&b);
	else
		code = 0;
	if (b.nrun && write_reports(&b))
		code = 3;
	bench_gpu_close(&b.g);
	return code;
}
