/* From samples to rows: compiled kernels, each text once. */
#include "lint/lint.h"
#include "tests/kernels/kernels.h"
#include "tools/pipeline.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kernels_target[NTARGETS] = {"sm_90", "sm_100", "sm_103", "sm_120", "sm_80"};

/* The text of the only entry, from its parameters on, without what differs from sample to sample.
 */
static char *body_of(const char *text)
{
	const char *at = strstr(text, ".entry ");
	char *body = malloc(strlen(text) + 1);
	size_t n = 0;

	at = at ? strchr(at, '(') : NULL;
	if (!at || !body)
		abort();
	while (*at) {
		const char *end = at + strcspn(at, "\n"), *stop = strstr(at, "//");
		size_t len = (size_t)((stop && stop < end ? stop : end) - at);

		if (len && strncmp(at, "\t.loc", 5)) {
			memcpy(body + n, at, len);
			n += len;
			body[n++] = '\n';
		}
		at = end + (*end == '\n');
	}
	body[n] = 0;
	return body;
}

/* The head says the least that the text needs, whatever the target. */
static void read_head(struct row *r, const char *text)
{
	const char *at = strstr(text, ".version "), *target = strstr(text, ".target sm_");
	unsigned major, minor;

	if (!at || sscanf(at, ".version %u.%u", &major, &minor) != 2 || !target)
		abort();
	r->version = major * 10 + minor;
	r->sm = (unsigned)strtoul(target + 11, NULL, 10);
	r->vars[0] = 0;
	for (at = target; at && strncmp(at, ".visible", 8); at = strchr(at, '\n'), at += at != NULL)
		if (strstr(at, ".shared") &&
		    strcspn(at, "\n") > (size_t)(strstr(at, ".shared") - at))
			snprintf(r->vars, sizeof r->vars, "%.*s\n", (int)strcspn(at, "\n"), at);
}

/* Instructions from a label to the last jump back to it, of the longest such loop. */
static unsigned loop_length(const struct ptx_fn *f)
{
	unsigned most = 0;

	for (uint32_t i = 0; i < f->ninsn; i++) {
		const struct ptx_insn *x = &f->insn[i];
		uint32_t to;

		if (x->op != PTX_bra || x->o[0].kind != PTX_LAB)
			continue;
		to = f->label[x->o[0].reg[0]].at;
		if (to <= i && i + 1 - to > most)
			most = i + 1 - to;
	}
	return most;
}

/* Nothing of what plait lint looks for is in a kernel of ours.  false: k->wrong. */
static bool lint(struct kernels *k, struct arena *a, const struct strbuf *text, const char *name)
{
	struct diags d;
	struct strbuf b;
	struct ptx_module *m;

	diags_init(&d, a);
	m = ptx_parse_any(a, &d, diags_add_source(&d, name, text->s, text->n));
	if (m)
		lint_module(m, a, &d);
	if (m && !d.nerror && !d.nwarning)
		return true;
	strbuf_init(&b, a);
	diags_render(&d, DIAG_WARNING, &b);
	snprintf(k->wrong, sizeof k->wrong, "lint:\n%s", b.s);
	return false;
}

static bool add(struct kernels *k, const struct cg_kernel *c, const struct row *like)
{
	struct arena *a = c->module->arena;
	struct strbuf b;
	struct row *r;

	if (k->nrow == k->cap_row) {
		k->cap_row = k->cap_row ? 2 * k->cap_row : 256;
		k->row = realloc(k->row, k->cap_row * sizeof *k->row);
		if (!k->row)
			abort();
	}
	strbuf_init(&b, a);
	ptx_print(c->module, &b);
	r = &k->row[k->nrow++];
	*r = *like;
	r->kernel = strdup(c->name);
	r->body = body_of(b.s);
	r->plan = c->plan;
	r->plan.target = NULL;
	r->plan.why = NULL;
	read_head(r, b.s);
	r->per_row = (loop_length(c->module->fn) + c->plan.in_flight / 2) / c->plan.in_flight;
	r->regs = r->spilled = -1;
	return lint(k, a, &b, c->name);
}

static bool refused(const struct diags *d)
{
	for (const struct diag *x = d->head; x; x = x->next)
		if (x->severity == DIAG_ERROR && x->code != DIAG_ROWS_SHARDED &&
		    x->code != DIAG_CG_PROTOCOL && x->code != DIAG_CG_DOMAIN &&
		    x->code != DIAG_CG_WIDE)
			return false;
	return d->nerror > 0;
}

static bool fail(struct kernels *k, struct pipe *p, const struct row *like)
{
	struct strbuf b;

	strbuf_init(&b, p->a);
	diags_render(&p->d, DIAG_WARNING, &b);
	snprintf(k->wrong, sizeof k->wrong, "%s, %s, tp %u, %s:\n%s", k->spec[like->spec],
	         cg_protocol_name(like->protocol), like->tp, kernels_target[like->target], b.s);
	return false;
}

/* Kernel by kernel, so that one that is refused does not take the others with it. */
static bool compile(struct kernels *k, struct pipe *p, const struct row *like)
{
	struct pipe_kernel how = {.protocol = like->protocol};
	enum status s = pipe_read(p);

	if (s == ST_OK)
		s = pipe_parse(p);
	if (s == ST_OK)
		s = pipe_lower(p);
	for (struct ir_func *f = s == ST_OK ? p->before->funcs : NULL; f; f = f->next)
		f->rank_divergence |= like->protocol == CG_MM_ONESHOT;
	if (s == ST_OK)
		s = pipe_passes(p, cg_protocol_rows(like->protocol), NULL);
	if (s != ST_OK)
		return refused(&p->d) || fail(k, p, like);
	for (const struct ir_func *f = p->after->funcs; f; f = f->next) {
		if (!f->is_kernel)
			continue;
		diags_init(&p->d, p->a);
		diags_add_source(&p->d, p->src->name, p->src->text, p->src->len);
		s = pipe_compile(p, f, like->protocol, &how);
		if (s == ST_OK && !add(k, p->kernel[p->nkernel - 1].k, like))
			return false;
		if (s == ST_OK)
			continue;
		if (s == ST_INTERNAL || !refused(&p->d))
			return fail(k, p, like);
	}
	return true;
}

bool kernels_compile(struct kernels *k, unsigned spec, enum cg_protocol protocol, unsigned tp,
                     unsigned target)
{
	struct row like = {.spec = spec, .tp = tp, .target = target, .protocol = protocol};
	struct args args = {.command = CMD_COMPILE,
	                    .spec = k->spec[spec],
	                    .tp = tp,
	                    .protocol = protocol,
	                    .target = cg_target_by_name(kernels_target[target])};
	struct arena a;
	struct pipe p;
	bool good;

	if (args.target->sm < cg_protocol_info[protocol].sm)
		return true;
	arena_init(&a, 0);
	if (setjmp(a.oom))
		abort();
	args.arena = &a;
	pipe_init(&p, &a, &args);
	good = compile(k, &p, &like);
	arena_free(&a);
	return good;
}

static int by_body(const void *x, const void *y)
{
	const struct row *a = *(struct row *const *)x, *b = *(struct row *const *)y;
	int c = a->target < b->target ? -1 : a->target > b->target;

	if (!c)
		c = strcmp(a->body, b->body);
	return c ? c : a < b ? -1 : a > b;
}

void kernels_fold(struct kernels *k)
{
	struct row **sorted = calloc(k->nrow + 1, sizeof *sorted), *first = NULL;

	if (!sorted)
		abort();
	for (size_t i = 0; i < k->nrow; i++)
		sorted[i] = &k->row[i];
	qsort(sorted, k->nrow, sizeof *sorted, by_body);
	for (size_t i = 0; i < k->nrow; i++) {
		struct row *r = sorted[i];

		if (first && first->target == r->target && !strcmp(first->body, r->body))
			r->as = first;
		else
			first = r;
	}
	free(sorted);
}
