/* Parses the command line by one table: which command takes which option, what it sets, and what
 * help says. */
#include "tools/args.h"
#include "planner/machine.h"
#include "sim/sim.h"
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sets one option; NULL, or what is wrong with the value. */
typedef const char *set_fn(struct args *a, const char *value);

/* A whole number in [least, most] that fills s up to `end` (one character, or the end). */
static bool number(const char *s, const char *end, uint64_t least, uint64_t most, uint64_t *v)
{
	char *stop;

	errno = 0;
	if (*s < '0' || *s > '9')
		return false;
	*v = strtoull(s, &stop, 10);
	return !errno && stop == end && *v >= least && *v <= most;
}

static const char *whole(const char *s, uint64_t least, uint64_t most, const char *text,
                         unsigned *v)
{
	uint64_t n;

	if (!number(s, s + strlen(s), least, most, &n))
		return text;
	*v = (unsigned)n;
	return NULL;
}

static const char *set_tp(struct args *a, const char *s)
{
	return whole(s, 1, IR_MAX_TP, "a number of ranks from 1 to 16", &a->tp);
}

static const char *set_ctas(struct args *a, const char *s)
{
	return whole(s, 1, CG_MAX_CTAS, "a number of CTAs from 1 to 256", &a->ctas);
}

static const char *set_launches(struct args *a, const char *s)
{
	return whole(s, 1, 1000, "a number from 1 to 1000", &a->launches);
}

static const char *set_schedules(struct args *a, const char *s)
{
	return whole(s, 1, 1000, "a number from 1 to 1000", &a->schedules);
}

static const char *set_threads(struct args *a, const char *s)
{
	return whole(s, 1, 256, "a number from 1 to 256", &a->threads);
}

static const char *set_seed(struct args *a, const char *s)
{
	return number(s, s + strlen(s), 0, UINT64_MAX, &a->seed) ? NULL : "a number below 2^64";
}

static void add_tokens(struct args *a, uint64_t v)
{
	a->tokens = arena_grow(a->arena, a->tokens, a->ntokens, &a->cap_tokens, a->ntokens + 1,
	                       sizeof *a->tokens);
	a->tokens[a->ntokens++] = (int64_t)v;
}

static const char *set_tokens(struct args *a, const char *s)
{
	static const char wrong[] =
	        "row counts up to 1000000 as 1,7,64 or 1-9 (at most 64 of them)";
	const uint64_t most = 1000000;

	for (;;) {
		size_t n = strcspn(s, ",");
		const char *dash = memchr(s, '-', n);
		uint64_t lo, hi;

		if (!number(s, dash ? dash : s + n, 0, most, &lo))
			return wrong;
		hi = lo;
		if (dash && !number(dash + 1, s + n, lo, most, &hi))
			return wrong;
		for (; lo <= hi; lo++) {
			if (a->ntokens == 64)
				return wrong;
			add_tokens(a, lo);
		}
		if (!s[n])
			return NULL;
		s += n + 1;
	}
}

static const char *set_const(struct args *a, const char *s)
{
	const char *eq = strchr(s, '=');
	struct fe_set *e;

	if (!eq || eq == s || !eq[1])
		return "NAME=VALUE";
	a->set = arena_grow(a->arena, a->set, a->nset, &a->cap_set, a->nset + 1, sizeof *a->set);
	e = &a->set[a->nset++];
	e->name = arena_strndup(a->arena, s, (size_t)(eq - s));
	e->value = eq + 1;
	return NULL;
}

static const char *set_also(struct args *a, const char *s)
{
	const char *eq = strchr(s, '=');

	if (!eq || eq == s || !eq[1])
		return "NAME=VALUE";
	a->also = arena_grow(a->arena, a->also, a->nalso, &a->cap_also, a->nalso + 1,
	                     sizeof *a->also);
	a->also[a->nalso++] = (struct fe_set){.name = arena_strndup(a->arena, s, (size_t)(eq - s)),
	                                      .value = eq + 1};
	return NULL;
}

static const char *set_peer(struct args *a, const char *s)
{
	for (;;) {
		size_t n = strcspn(s, ","), name = strcspn(s, ",=");
		struct fe_set p = {.name = arena_strndup(a->arena, s, name)};
		bool nccl = !strcmp(p.name, "nccl"), fi = !strcmp(p.name, "flashinfer");

		if (name < n)
			p.value = arena_strndup(a->arena, s + name + 1, n - name - 1);
		if ((!nccl && !fi) || (fi && (!p.value || !*p.value)))
			return "nccl, nccl=FILE or flashinfer=DIR, with commas";
		a->peer = arena_grow(a->arena, a->peer, a->npeer, &a->cap_peer, a->npeer + 1,
		                     sizeof *a->peer);
		a->peer[a->npeer++] = p;
		if (!s[n])
			return NULL;
		s += n + 1;
	}
}

static const char *set_memory(struct args *a, const char *s)
{
	a->plain = !strcmp(s, "plain");
	return a->plain || !strcmp(s, "own") ? NULL : "own or plain";
}

static const char *set_rounds(struct args *a, const char *s)
{
	return whole(s, 1, 1000, "a number from 1 to 1000", &a->rounds);
}

static const char *set_target(struct args *a, const char *s)
{
	a->target = cg_target_by_name(s);
	return a->target ? NULL : arena_printf(a->arena, "one of %s", cg_target_names(a->arena));
}

static const char *set_protocol(struct args *a, const char *s)
{
	struct strbuf b;

	a->nprotocol = 0;
	for (;;) {
		size_t n = strcspn(s, ",");
		int p = cg_protocol_by_name(arena_strndup(a->arena, s, n));

		if (p < 0 || a->nprotocol == CG_NPROTOCOLS)
			break;
		a->protocols[a->nprotocol++] = (enum cg_protocol)p;
		if (!s[n]) {
			a->protocol = a->protocols[0];
			return NULL;
		}
		s += n + 1;
	}
	strbuf_init(&b, a->arena);
	for (int i = 0; i < CG_NPROTOCOLS; i++)
		strbuf_printf(&b, "%s%s", i ? ", " : "some of ",
		              cg_protocol_name((enum cg_protocol)i));
	return b.s;
}

static const char *set_form(struct args *a, const char *s)
{
	static const char *const forms[] = {"auto", "own", "all"};

	for (unsigned i = 0; i < 3; i++)
		if (!strcmp(s, forms[i])) {
			a->form = (enum form)i;
			return NULL;
		}
	return "own, all or auto";
}

static const char *set_multicast(struct args *a, const char *s)
{
	a->multicast = strcmp(s, "yes") ? MULTICAST_NO : MULTICAST_YES;
	return strcmp(s, "yes") && strcmp(s, "no") ? "yes or no" : NULL;
}

static const char *set_order(struct args *a, const char *s)
{
	int o = cg_order_by_name(s);

	if (o < 0)
		return "hw, formal or strict";
	a->order = (enum cg_order)o;
	return NULL;
}

static const char *set_pdl(struct args *a, const char *s)
{
	int p = cg_pdl_by_name(s);

	if (p < 0)
		return "none, wait or early";
	a->pdl = (enum cg_pdl)p;
	return NULL;
}

static const char *set_sum(struct args *a, const char *s)
{
	for (a->sum = 0; a->sum < SIM_NSUMS; a->sum++)
		if (!strcmp(s, sim_sum_name[a->sum]))
			return NULL;
	a->sum = -1;
	return strcmp(s, "all") ? "rank-order, permuted, exact, faithful or all" : NULL;
}

static const char *set_weak(struct args *a, const char *s)
{
	a->no_weak = strcmp(s, "yes") != 0;
	return a->no_weak && strcmp(s, "no") ? "yes or no" : NULL;
}

static const char *set_constant(struct args *a, const char *s)
{
	a->constant = arena_grow(a->arena, a->constant, a->nconstant, &a->cap_constant,
	                         a->nconstant + 1, sizeof *a->constant);
	a->constant[a->nconstant++] = s;
	return NULL;
}

static const char *set_races(struct args *a, const char *s)
{
	for (a->races = 1; a->races <= SIM_NRACES; a->races++)
		if (!strcmp(s, sim_races_name[a->races - 1]))
			return NULL;
	return "off, hw, formal or strict";
}

static const char *set_emit(struct args *a, const char *s)
{
	static const char *const kinds[] = {"ast", "ir", "plan", "ptx", "cubin", "bundle", "image"};

	a->emit = s;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(s, kinds[i]))
			return NULL;
	return "ast, ir, plan, ptx, cubin, bundle or image";
}

static const char *set_gpu(struct args *a, const char *s)
{
	struct pl_machine m;

	a->gpu = s;
	return pl_machine_find(s, 8, true, &m)
	               ? NULL
	               : arena_printf(a->arena, "one of %s", pl_machine_names());
}

static const char *set_sweep(struct args *a, const char *s)
{
	const char *colon = strchr(s, ':');
	uint64_t lo, hi;

	if (!colon || !number(s, colon, 1, 1000000, &lo) ||
	    !number(colon + 1, s + strlen(s), lo, 1000000, &hi))
		return "row counts as 256:16384, up to 1000000";
	a->sweep[0] = (int64_t)lo;
	a->sweep[1] = (int64_t)hi;
	return NULL;
}

static const char *set_requests(struct args *a, const char *s)
{
	static const char wrong[] = "lengths of requests as 512,1024,64 (at most 4096 of them)";

	for (;;) {
		size_t n = strcspn(s, ",");
		uint64_t v;

		if (!number(s, s + n, 1, 1000000, &v) || a->nrequest == 4096)
			return wrong;
		a->request = arena_grow(a->arena, a->request, a->nrequest, &a->cap_request,
		                        a->nrequest + 1, sizeof *a->request);
		a->request[a->nrequest++] = (int64_t)v;
		if (!s[n])
			return NULL;
		s += n + 1;
	}
}

static const char *set_split(struct args *a, const char *s)
{
	unsigned v;
	const char *wrong = whole(s, 1, 1000000, "a row count from 1 to 1000000", &v);

	a->split = wrong ? 0 : v;
	return wrong;
}

static const char *set_align(struct args *a, const char *s)
{
	return whole(s, 1, 65536, "a number of rows from 1 to 65536", &a->align);
}

/* clang-format off */
static const char *set_machine(struct args *a, const char *s) { a->machine = s;       return NULL; }
static const char *set_measure(struct args *a, const char *s) { a->measure = s;       return NULL; }
static const char *set_model(struct args *a, const char *s)   { a->model = s;         return NULL; }
static const char *set_trace(struct args *a, const char *s)   { a->trace = s;         return NULL; }
static const char *set_svg(struct args *a, const char *s)     { a->svg = s;           return NULL; }
static const char *set_facts(struct args *a, const char *s)   { a->facts = s;         return NULL; }
static const char *set_explain(struct args *a, const char *s) { (void)s; a->explain = true;     return NULL; }
static const char *set_gantt(struct args *a, const char *s)   { (void)s; a->gantt = true;       return NULL; }
static const char *set_kernel(struct args *a, const char *s)  { a->kernel = s;        return NULL; }
static const char *set_out(struct args *a, const char *s)     { a->out = s;           return NULL; }
static const char *set_stop(struct args *a, const char *s)    { a->stop_after = s;    return NULL; }
static const char *set_export(struct args *a, const char *s)  { a->export = s;        return NULL; }
static const char *set_ptx(struct args *a, const char *s)     { a->ptx = s;           return NULL; }
static const char *set_markdown(struct args *a, const char *s) { a->markdown = s;     return NULL; }
static const char *set_json_file(struct args *a, const char *s) { a->json_file = s;   return NULL; }
static const char *set_table(struct args *a, const char *s)   { a->table = strcmp(s, "none") ? s : ""; return NULL; }
static const char *set_chain(struct args *a, const char *s)   { a->chain = s;         return NULL; }
static const char *set_json(struct args *a, const char *s)    { (void)s; a->json = true;        return NULL; }
static const char *set_rows_in_memory(struct args *a, const char *s) { (void)s; a->rows_in_memory = true; return NULL; }
static const char *set_remarks(struct args *a, const char *s) { (void)s; a->remarks = true;     return NULL; }
static const char *set_dump(struct args *a, const char *s)    { (void)s; a->dump_passes = true; return NULL; }
static const char *set_check(struct args *a, const char *s)   { (void)s; a->check = true;       return NULL; }
static const char *set_place(struct args *a, const char *s)   { (void)s; a->in_place = true;    return NULL; }

static const struct {
	const char *name, *value; /* value NULL: takes none */
	set_fn *set;
	unsigned commands;
	const char *help;
} options[] = {
	{"tp", "N", set_tp, CMD_CHECK | CMD_COMPILE | CMD_VERIFY | CMD_PLAN | CMD_BENCH | CMD_TUNE, "ranks, 1 to 16"},
	{"set", "NAME=VALUE", set_const, CMD_CHECK | CMD_COMPILE | CMD_VERIFY | CMD_PLAN | CMD_BENCH | CMD_TUNE, "override a const of the spec; may be repeated"},
	{"remarks", NULL, set_remarks, CMD_TUNE, "print each time as it is measured on standard error"},
	{"remarks", NULL, set_remarks, CMD_CHECK | CMD_COMPILE, "say where gathers were made and what was not reordered, and why"},
	{"kernel", "NAME", set_kernel, CMD_COMPILE | CMD_VERIFY | CMD_BENCH | CMD_TUNE, "this kernel only (default: all of the spec)"},
	{"target", "SM", set_target, CMD_COMPILE | CMD_VERIFY, "the GPU, as sm_90 (the default)"},
	{"protocol", "P", set_protocol, CMD_COMPILE | CMD_VERIFY, "how ranks exchange rows (default: auto); several, as a,b: each of them"},
	{"protocol", "P", set_protocol, CMD_BENCH | CMD_TUNE, "these protocols, as a,b (default: each that this machine can run)"},
	{"form", "F", set_form, CMD_COMPILE | CMD_VERIFY, "which rows a rank works on: own, all, or auto (the default): what the protocol needs"},
	{"multicast", "YES", set_multicast, CMD_COMPILE | CMD_VERIFY | CMD_PLAN, "whether multicast may be taken: yes (the default from sm_90 on, unless the environment switches it off) or no"},
	{"order", "O", set_order, CMD_COMPILE | CMD_VERIFY, "memory order: formal (the default), hw, strict"},
	{"pdl", "P", set_pdl, CMD_COMPILE | CMD_VERIFY, "programmatic dependent launch: none (the default), wait, early"},
	{"pdl", "P", set_pdl, CMD_BENCH | CMD_TUNE, "programmatic dependent launch: none, wait, early (the default)"},
	{"rows-in-memory", NULL, set_rows_in_memory, CMD_COMPILE | CMD_VERIFY, "T is read from device memory, so that one graph serves several"},
	{"export", "PARAM", set_export, CMD_COMPILE | CMD_VERIFY, "in place of each kernel with this carried parameter, the kernel that gathers it whole"},
	{"emit", "KIND", set_emit, CMD_COMPILE, "ast, ir, plan, ptx (the default), cubin, bundle: a folder with all that a caller needs, or image: a file that the library loads"},
	{"output", "FILE", set_out, CMD_TUNE, "the table (default: the cache's, which the library reads)"},
	{"output", "OUT", set_out, CMD_COMPILE, "file to write; - is standard output (the default); a folder gets one file a kernel"},
	{"stop-after", "PASS", set_stop, CMD_COMPILE, "run the passes up to this one; for --emit ir"},
	{"dump-passes", NULL, set_dump, CMD_COMPILE, "print the IR after every pass on standard error"},
	{"tokens", "LIST", set_tokens, CMD_VERIFY, "row counts T, as 0,1,7-9,64 (default: 0,1,7,64)"},
	{"tokens", "T", set_tokens, CMD_COMPILE, "the row count that auto chooses a protocol for (default: many)"},
	{"tokens", "T", set_tokens, CMD_PLAN, "rows of the batch"},
	{"ctas", "N", set_ctas, CMD_VERIFY, "CTAs of every launch (default: differs from launch to launch)"},
	{"launches", "N", set_launches, CMD_VERIFY, "launches back to back in one schedule, over the row counts in turn (default: all of them, at least 4)"},
	{"schedules", "N", set_schedules, CMD_VERIFY | CMD_SIMULATE, "schedules to try (default: 12 for each kernel)"},
	{"seed", "S", set_seed, CMD_VERIFY | CMD_SIMULATE, "of data and schedules (default: 0); a report's replay line has the one that failed"},
	{"races", "LEVEL", set_races, CMD_VERIFY, "what accesses have to be ordered by: hw, formal or strict (default: as --order), or off"},
	{"races", "LEVEL", set_races, CMD_SIMULATE, "what accesses have to be ordered by: hw, formal (the default) or strict, or off"},
	{"weak", "YES", set_weak, CMD_VERIFY | CMD_SIMULATE, "weak memory in every other schedule, where strong loads and stores come when the memory model lets them: yes (the default) or no"},
	{"switch-sum", "MODE", set_sum, CMD_VERIFY | CMD_SIMULATE, "how the switch sums: rank-order, permuted, exact, faithful; all (the default) in turn"},
	{"chain", "LIST", set_chain, CMD_VERIFY, "kernels as a,b,b that run one after the other and share their carried parameters by name; protocols in turn"},
	{"json", NULL, set_json, CMD_CHECK | CMD_COMPILE | CMD_VERIFY | CMD_LINT | CMD_DOCTOR | CMD_PLAN, "one JSON document on standard output (doc/cli.md)"},
	{"tokens", "LIST", set_tokens, CMD_BENCH | CMD_TUNE, "row counts T (default: 1 to 16384, by steps of 2 or 4)"},
	{"ctas", "N", set_ctas, CMD_BENCH, "CTAs of plait's launches (default: as tuned)"},
	{"ctas", "N", set_ctas, CMD_TUNE, "most CTAs from 1024 rows up, where a GEMM may run beside (default: 12; a push may have more)"},
	{"peer", "LIST", set_peer, CMD_BENCH, "whom to measure beside plait: nccl, nccl=FILE (libnccl.so.2), flashinfer=DIR (its sources; nvcc compiles them)"},
	{"also", "NAME=VALUE", set_also, CMD_BENCH, "one more section with this const set; may be repeated"},
	{"rounds", "N", set_rounds, CMD_BENCH, "samples of each time (default: 25)"},
	{"memory", "KIND", set_memory, CMD_BENCH | CMD_TUNE, "of the kernel's rows: own (the default): plait's symmetric buffers; plain: the driver's ordinary allocator, imported"},
	{"table", "FILE", set_table, CMD_BENCH, "the selection table (default: the cache's; none: what plait ships)"},
	{"json", "FILE", set_json_file, CMD_BENCH, "JSON lines: all times with their samples"},
	{"svg", "FILE", set_svg, CMD_BENCH, "a picture of the times"},
	{"markdown", "FILE", set_markdown, CMD_BENCH, "a page with tables (doc/performance.md)"},
	{"ptx", "FILE", set_ptx, CMD_VERIFY, "verify this text in place of the generated one; kernels that it lacks are left out"},
	{"constant", "PARAM", set_constant, CMD_LINT, "this parameter points to what no earlier kernel of the stream writes (weights); may be repeated"},
	{"check", NULL, set_check, CMD_FMT, "write nothing; exit with 1 when the text would change"},
	{"in-place", NULL, set_place, CMD_FMT, "write to the file, in one step, instead of standard output"},
	{"gpu", "NAME", set_gpu, CMD_PLAN, "the machine: h100 (the default), h200, b200, a100"},
	{"machine", "FILE", set_machine, CMD_PLAN, "a machine with measured figures as JSON, in place of --gpu (doc/planner.md)"},
	{"measure", "FILE", set_measure, CMD_PLAN, "measure this machine's GPUs, GEMMs beside collectives, and write FILE for --machine; a plan that is asked for is made with it"},
	{"model", "NAME", set_model, CMD_PLAN, "this model of the spec (default: its first)"},
	{"explain", NULL, set_explain, CMD_PLAN, "each stage and each operation: times, CTAs, SM targets, tiles, waves before and after"},
	{"gantt", NULL, set_gantt, CMD_PLAN, "a chart of the first stages"},
	{"sweep", "A:B", set_sweep, CMD_PLAN, "a line for each of several row counts from A to B"},
	{"trace", "FILE", set_trace, CMD_PLAN, "write the predicted schedule for ui.perfetto.dev"},
	{"svg", "FILE", set_svg, CMD_PLAN, "write a chart: time by the split row; with --sweep, time by T"},
	{"requests", "LIST", set_requests, CMD_PLAN, "lengths of the batch's requests, as 512,1024; then --tokens may be left out"},
	{"split", "ROW", set_split, CMD_PLAN, "split there (rounded down to --align), whatever is best"},
	{"align", "N", set_align, CMD_PLAN, "split rows are multiples of N (default: 128)"},
	{"facts", "FILE", set_facts, CMD_PLAN, "tiles and times of GEMMs as JSON, in place of the built-in table (doc/planner.md)"},
	{"threads", "N", set_threads, CMD_VERIFY, "threads of this machine to use (default: all)"},
};

static const struct {
	enum command command;
	const char *name, *operand, *about;
} commands[] = {
#define COMMAND(id, name, operand, list, help) {CMD_##id, #name, operand, help},
#include "tools/commands.def"
};
/* clang-format on */

#define NOPTIONS (sizeof options / sizeof *options)

static size_t row_of(enum command c)
{
	size_t i = 0;

	while (commands[i].command != c)
		i++;
	return i;
}

const char *args_command(enum command c)
{
	return commands[row_of(c)].name;
}

/* What it reads; "": nothing. */
static const char *operand(enum command c)
{
	return commands[row_of(c)].operand;
}

void args_help(enum command c)
{
	const char *name = args_command(c), *file = operand(c);

	printf("usage: plait %s %s%s[OPTION ...]\n\nplait %s %s.\n\n", name, file, *file ? " " : "",
	       name, commands[row_of(c)].about);
	if (*file)
		printf("%s is a file; - is standard input.\n\n", file);
	for (size_t i = 0; i < NOPTIONS; i++) {
		char left[64];

		if (!(options[i].commands & c))
			continue;
		snprintf(left, sizeof left, "%s--%s%s%s",
		         options[i].set == set_out     ? "-o, "
		         : options[i].set == set_place ? "-i, "
		                                       : "",
		         options[i].name, options[i].value ? " " : "",
		         options[i].value ? options[i].value : "");
		printf("  %-22s %s\n", left, options[i].help);
	}
	printf("  %-22s %s\n\nexit codes: 0 good; 1 the input or a check is wrong; 2 usage; 3 the "
	       "environment lacks\nsomething; 4 a bug of plait's\n",
	       "--help", "this text");
}

int args_wrong(const struct args *a, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "plait %s: ", args_command(a->command));
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n(plait %s --help lists the options)\n", args_command(a->command));
	return 2;
}

/* Options for getopt: the value returned is 256 + the row of the table. */
static void getopt_table(enum command c, struct option *to)
{
	size_t n = 0;

	for (size_t i = 0; i < NOPTIONS; i++)
		if (options[i].commands & c)
			to[n++] = (struct option){
			        options[i].name, options[i].value ? required_argument : no_argument,
			        NULL, 256 + (int)i};
	to[n++] = (struct option){"help", no_argument, NULL, 'h'};
	to[n] = (struct option){NULL, 0, NULL, 0};
}

int args_parse(struct args *a, int argc, char **argv)
{
	struct option table[NOPTIONS + 2];
	const char *wrong;
	int c;

	a->sum = -1;
	a->target = cg_target_by_name("sm_90");
	a->pdl = a->command & (CMD_BENCH | CMD_TUNE) ? CG_PDL_EARLY : CG_PDL_NONE;
	getopt_table(a->command, table);
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":o:ih", table, NULL)) != -1) {
		if (c == 'h') {
			args_help(a->command);
			return 0;
		}
		if (c == ':')
			return args_wrong(a, "'%s' needs a value", argv[optind - 1]);
		if ((c == 'o' && !(a->command & (CMD_COMPILE | CMD_TUNE))) ||
		    (c == 'i' && !(a->command & CMD_FMT)))
			c = '?';
		if (c == '?')
			return args_wrong(a, "there is no option '%s'", argv[optind - 1]);
		if (c == 'o')
			a->out = optarg;
		if (c == 'i')
			a->in_place = true;
		if (c < 256)
			continue;
		wrong = options[c - 256].set(a, optarg);
		if (wrong)
			return args_wrong(a, "--%s takes %s, not '%s'", options[c - 256].name,
			                  wrong, optarg);
	}
	if (!*operand(a->command))
		return optind == argc ? -1 : args_wrong(a, "it takes no '%s'", argv[optind]);
	if (optind == argc)
		return args_wrong(a, "no %s is given", operand(a->command));
	a->spec = argv[optind];
	if (optind + 1 < argc)
		return args_wrong(a, "one %s at a time, and then '%s'", operand(a->command),
		                  argv[optind + 1]);
	return -1;
}
