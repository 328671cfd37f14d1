/* A kernel's memory on all ranks, and plait's own contenders. */
#include "tools/bench_subject.h"
#include "ir/eval.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CU(g, member, ...) RT_CU(&(g)->drv, &(g)->e, member, __VA_ARGS__)

/* Whether a call of plait.h went well; if not, g->e has what the communicator says. */
static bool plait_ok(struct bench_subject *s, enum plait_status st, const plait_comm *c)
{
	const char *text = c ? plait_comm_error(c) : "";

	if (st == PLAIT_OK)
		return true;
	rt_fail(&s->g->e, st, "%s", *text ? text : plait_status_text(st));
	return false;
}

static struct plait_compile_options compile_options(const struct bench_subject *s)
{
	struct plait_compile_options o = PLAIT_COMPILE_OPTIONS_INIT;

	o.spec_name = s->spec.name;
	o.text = s->spec.text;
	o.text_len = s->spec.len;
	o.kernel = s->kernel;
	o.tp = s->g->tp;
	o.set = s->spec.set;
	o.nset = s->spec.nset;
	return o;
}

/* ---- facts ---- */

static bool read_param(struct bench_subject *s, size_t i)
{
	struct bench_param *p = &s->param[i];
	int dtype;

	p->info.struct_size = sizeof p->info;
	if (plait_code_param(s->code, 0, i, &p->info) != PLAIT_OK)
		return false;
	dtype = ir_dtype_by_name(p->info.dtype, strlen(p->info.dtype));
	if (dtype < 0 || ir_dtype_info[dtype].bits < 8)
		return false;
	p->dtype = (enum ir_dtype)dtype;
	p->row = ir_dtype_info[dtype].bits / 8 *
	         (size_t)(p->info.ndim == 2 ? p->info.ld
	                  : p->info.ndim    ? p->info.cols
	                                    : 1);
	return true;
}

static void note_role(struct bench_subject *s, size_t i)
{
	const struct bench_param *p = &s->param[i];
	bool partial = !strcmp(p->info.placement, "partial");

	if (p->info.ndim != 2)
		return;
	s->norm_bytes += p->row * (p->info.mode == PLAIT_INOUT ? 2 : 1);
	s->cols = p->info.cols;
	if (partial) {
		s->partial = s->sum_bytes ? -1 : (int)i;
		s->sum_bytes += p->row;
	}
	if (p->info.mode == PLAIT_OUT && !strcmp(p->info.placement, "replicated"))
		s->out = (int)i;
}

static bool read_kernel(struct bench_subject *s)
{
	struct plait_compile_options o = compile_options(s);
	struct plait_kernel_info info = PLAIT_KERNEL_INFO_INIT;
	enum plait_status st = plait_compile(&o, &s->code);

	if (st != PLAIT_OK) {
		rt_fail(&s->g->e, st, "%s", plait_code_diagnostics(s->code));
		return false;
	}
	if (!s->kernel && plait_code_name(s->code, 0)) { /* the first, and it alone */
		s->kernel = arena_printf(s->g->a, "%s", plait_code_name(s->code, 0));
		plait_code_free(s->code);
		s->code = NULL;
		return read_kernel(s);
	}
	if (plait_code_info(s->code, 0, &info) != PLAIT_OK) {
		rt_fail(&s->g->e, PLAIT_INPUT, "%s has no kernel", s->spec.name);
		return false;
	}
	s->nparam = info.nparam;
	s->param = arena_news(s->g->a, struct bench_param, s->nparam + 1);
	s->partial = s->out = -1;
	for (uint32_t i = 0; i < s->nparam; i++) {
		if (!read_param(s, i)) {
			rt_fail(&s->g->e, PLAIT_INPUT,
			        "parameter %u of '%s' is of a dtype that bench does not fill", i,
			        s->kernel);
			return false;
		}
		note_role(s, i);
	}
	return true;
}

/* ---- memory ---- */

/* Memory of the driver's ordinary allocator, as a caller would hand it in. */
static bool import(struct bench_subject *s, struct bench_param *p)
{
	plait_address peer[BENCH_MAX_TP * BENCH_MAX_TP];
	unsigned tp = s->g->tp;

	for (unsigned r = 0; r < tp; r++)
		if (!bench_alloc(s->g, r, s->capacity * p->row, &p->at[r]))
			return false;
	for (unsigned i = 0; i < tp * tp; i++)
		peer[i] = p->at[i % tp];
	return plait_ok(s,
	                plait_buffer_import(s->comm, peer, NULL, s->capacity * p->row, &p->buffer),
	                s->comm);
}

static bool allocate(struct bench_subject *s, struct bench_param *p)
{
	if (p->info.ndim != 2) {
		for (unsigned r = 0; r < s->g->tp; r++)
			if (!bench_alloc(s->g, r, p->row, &p->at[r]))
				return false;
		return true;
	}
	if (s->spec.plain)
		return import(s, p);
	if (!plait_ok(s, plait_buffer_create(s->comm, s->capacity * p->row, &p->buffer), s->comm))
		return false;
	for (unsigned r = 0; r < s->g->tp; r++)
		p->at[r] = plait_buffer_address(p->buffer, r);
	return true;
}

bool bench_subject_fill(struct bench_subject *s)
{
	for (uint32_t i = 0; i < s->nparam; i++) {
		struct bench_param *p = &s->param[i];
		bool partial = !strcmp(p->info.placement, "partial");
		size_t bytes = p->info.ndim == 2 ? s->capacity * p->row : p->row;

		for (unsigned r = 0; r < s->g->tp && p->info.mode != PLAIT_OUT; r++)
			if (!bench_fill(s->g, r, p->at[r], bytes, 16 * i + (partial ? r : 0)))
				return false;
	}
	return bench_wait(s->g);
}

/* An abort on any workspace. */
static const char *problem(void *ctx)
{
	struct bench_subject *s = ctx;

	for (struct bench_plait *p = s->stages; p; p = p->next)
		for (unsigned r = 0; r < s->g->tp; r++) {
			struct plait_record rec = PLAIT_RECORD_INIT;

			if (plait_workspace_check(p->work, r, &rec) != PLAIT_OK)
				return arena_printf(s->g->a, "a collective was given up: %s",
				                    rec.text ? rec.text : "");
		}
	return NULL;
}

bool bench_subject_open(struct bench_subject *s, struct bench_gpu *g, const struct bench_spec *spec,
                        uint64_t max_rows)
{
	struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;
	enum ir_dtype noise = IR_BF16;

	*s = (struct bench_subject){.g = g,
	                            .spec = *spec,
	                            .kernel = spec->kernel,
	                            .max_rows = max_rows,
	                            .capacity = max_rows < 64 ? 16 * max_rows : 2 * max_rows};
	if (!read_kernel(s))
		return false;
	o.bootstrap = PLAIT_BOOT_LOCAL;
	o.size = o.nlocal = g->tp;
	o.device = g->device;
	if (!plait_ok(s, plait_comm_create(&o, &s->comm), s->comm))
		return false;
	for (uint32_t i = 0; i < s->nparam; i++) {
		if (s->param[i].info.ndim == 2 && s->param[i].info.mode != PLAIT_OUT)
			noise = s->param[i].dtype;
		if (!allocate(s, &s->param[i]))
			return false;
	}
	g->problem = problem;
	g->problem_ctx = s;
	return bench_noise(g, noise) && bench_subject_fill(s);
}

void bench_subject_close(struct bench_subject *s)
{
	s->g->problem = NULL;
	for (struct bench_plait *p = s->stages; p; p = p->next) {
		plait_workspace_free(p->work);
		plait_stage_free(p->stage);
	}
	for (uint32_t i = 0; i < s->nparam; i++)
		plait_buffer_free(s->param[i].buffer);
	plait_code_free(s->code);
	plait_comm_free(s->comm);
}

uint64_t bench_set_at(const struct bench_subject *s, unsigned i, uint64_t T, size_t row)
{
	uint64_t sets = T ? s->capacity / T : 1;

	return i % (sets ? sets : 1) * T * row;
}

/* ---- plait's contenders ---- */

struct bench_plait *bench_plait_new(struct bench_subject *s, const char *protocol, uint64_t most)
{
	struct plait_stage_options o = PLAIT_STAGE_OPTIONS_INIT;
	struct bench_plait *p = arena_new(s->g->a, struct bench_plait);

	o.compile = compile_options(s);
	o.compile.protocol = protocol;
	o.max_rows = most;
	o.table = s->spec.table;
	o.dependent_launch = s->spec.dependent;
	*p = (struct bench_plait){.s = s, .protocol = protocol, .most = most};
	if (!plait_ok(s, plait_stage_create(s->comm, &o, &p->stage), s->comm) ||
	    !plait_ok(s, plait_workspace_create(p->stage, &p->work), s->comm)) {
		plait_stage_free(p->stage);
		return NULL;
	}
	p->next = s->stages;
	s->stages = p;
	return p;
}

static void operands(const struct bench_subject *s, unsigned rank, unsigned i, uint64_t T,
                     bool symmetric, struct plait_operand *to)
{
	for (uint32_t k = 0; k < s->nparam; k++) {
		const struct bench_param *p = &s->param[k];
		uint64_t at = p->info.ndim == 2 ? bench_set_at(s, i, T, p->row) : 0;

		to[k] = p->buffer && symmetric ? (struct plait_operand){p->buffer, at}
		                               : (struct plait_operand){NULL, p->at[rank] + at};
	}
}

static bool launch_plait(void *ctx, unsigned i, uint64_t T)
{
	struct bench_plait *p = ctx;
	struct bench_subject *s = p->s;
	struct plait_operand *op = malloc((s->nparam + 1) * sizeof *op);
	bool good = op != NULL;

	for (unsigned r = 0; r < s->g->tp && good; r++) {
		struct plait_launch l = PLAIT_LAUNCH_INIT;

		operands(s, r, i, T, true, op);
		l.local = r;
		l.workspace = p->work;
		l.stream = s->g->stream[r];
		l.operand = op;
		l.noperand = s->nparam;
		l.rows = T;
		l.ctas = p->ctas;
		good = plait_ok(s, plait_launch(p->stage, &l), s->comm);
	}
	free(op);
	return good;
}

static const char *plait_refuses(void *ctx, uint64_t T)
{
	struct bench_plait *p = ctx;

	return T > p->most ? "more rows than its exchange buffer is made for" : NULL;
}

static void describe(void *ctx, uint64_t T, struct bench_cell *cell)
{
	struct bench_plait *p = ctx;

	cell->protocol = plait_stage_protocol(p->stage, 0, T, &cell->ctas);
	if (p->ctas)
		cell->ctas = plait_code_grid(plait_stage_code(p->stage), 0, T, p->ctas);
}

struct bench_contender bench_plait_contender(struct bench_plait *p, const char *name)
{
	return (struct bench_contender){.who = {name, BENCH_PLAIT},
	                                .ctx = p,
	                                .refuses = plait_refuses,
	                                .launch = launch_plait,
	                                .describe = describe};
}

/* ---- without communication ---- */

bool bench_norm_open(struct bench_norm *n, struct bench_subject *s)
{
	struct plait_stage_options o = PLAIT_STAGE_OPTIONS_INIT;

	*n = (struct bench_norm){.s = s};
	o.compile = compile_options(s);
	o.compile.tp = 1;
	o.compile.protocol = "local";
	o.max_rows = s->max_rows;
	o.dependent_launch = s->spec.dependent;
	o.table = "";
	for (unsigned r = 0; r < s->g->tp; r++) {
		struct plait_comm_options c = PLAIT_COMM_OPTIONS_INIT;

		c.bootstrap = PLAIT_BOOT_LOCAL;
		c.size = c.nlocal = 1;
		c.device = &s->g->device[r];
		if (!plait_ok(s, plait_comm_create(&c, &n->comm[r]), n->comm[r]) ||
		    !plait_ok(s, plait_stage_create(n->comm[r], &o, &n->stage[r]), n->comm[r]))
			return false;
	}
	return true;
}

void bench_norm_close(struct bench_norm *n)
{
	for (unsigned r = 0; n->s && r < n->s->g->tp; r++) {
		plait_stage_free(n->stage[r]);
		plait_comm_free(n->comm[r]);
	}
}

bool bench_norm_launch(void *norm, unsigned i, uint64_t T)
{
	struct bench_norm *n = norm;
	struct bench_subject *s = n->s;
	struct plait_operand *op = malloc((s->nparam + 1) * sizeof *op);
	bool good = op != NULL;

	for (unsigned r = 0; r < s->g->tp && good; r++) {
		struct plait_launch l = PLAIT_LAUNCH_INIT;

		operands(s, r, i, T, false, op);
		if (n->sum && s->partial >= 0)
			op[s->partial].address =
			        n->sum[r] + bench_set_at(s, i, T, s->param[s->partial].row);
		l.stream = s->g->stream[r];
		l.operand = op;
		l.noperand = s->nparam;
		l.rows = T;
		l.ctas = n->ctas;
		l.protocol = "local"; /* by name: the stage may have others for many rows */
		good = plait_ok(s, plait_launch(n->stage[r], &l), n->comm[r]);
	}
	free(op);
	return good;
}

/* ---- right results ---- */

enum { CHECK_ROWS = 16 };

/* Some rows of the result on one rank, as numbers. */
static bool read_rows(struct bench_subject *s, unsigned rank, uint64_t T, double *to)
{
	const struct bench_param *p = &s->param[s->out];
	unsigned size = ir_dtype_info[p->dtype].bits / 8;
	unsigned char *host = malloc(p->row);
	unsigned rows = T < CHECK_ROWS ? (unsigned)T : CHECK_ROWS;
	bool good = host && bench_enter(s->g, rank);

	for (unsigned k = 0; k < rows && good; k++) {
		uint64_t row = rows > 1 ? (T - 1) * k / (rows - 1) : 0;

		good = CU(s->g, copy_to_host, host, p->at[rank] + row * p->row, p->row,
		          s->g->stream[rank]) &&
		       CU(s->g, stream_synchronize, s->g->stream[rank]);
		for (int64_t c = 0; c < s->cols && good; c++) {
			uint32_t bits = 0;

			memcpy(&bits, host + (size_t)c * size, size);
			to[(int64_t)k * s->cols + c] = ir_decode(p->dtype, bits);
		}
	}
	free(host);
	return good;
}

/* Inputs as they were, the result spoilt. */
static bool again(struct bench_subject *s, uint64_t T)
{
	const struct bench_param *out = &s->param[s->out];

	for (unsigned r = 0; r < s->g->tp; r++) {
		for (uint32_t i = 0; i < s->nparam; i++) {
			struct bench_param *p = &s->param[i];

			if (p->info.mode == PLAIT_INOUT &&
			    !bench_fill(s->g, r, p->at[r], p->info.ndim == 2 ? T * p->row : p->row,
			                16 * i))
				return false;
		}
		if (!bench_enter(s->g, r) ||
		    !CU(s->g, set_d8, out->at[r], 0xff, T * out->row, s->g->stream[r]))
			return false;
	}
	return bench_wait(s->g);
}

static double differs(const double *x, const double *want, size_t n)
{
	double most = 0, off = 0;

	for (size_t i = 0; i < n; i++) {
		most = fmax(most, fabs(want[i]));
		if (isnan(x[i]) != isnan(want[i]))
			return INFINITY;
		off = fmax(off, fabs(x[i] - want[i]));
	}
	return most > 0 ? off / most : off;
}

bool bench_check(struct bench_subject *s, const struct bench_contender *c, unsigned n, uint64_t T,
                 struct bench_cell *cells)
{
	size_t each = (size_t)(T < CHECK_ROWS ? T : CHECK_ROWS) * (size_t)s->cols;
	double *first = malloc(2 * each * sizeof *first + 8);
	double *x = malloc(2 * each * sizeof *x + 8);
	bool good = first && x, have = false;

	for (unsigned w = 0; w < n && good && s->out >= 0; w++) {
		bool compared = c[w].who.kind == BENCH_PLAIT || c[w].who.kind == BENCH_UNFUSED ||
		                c[w].who.kind == BENCH_FUSED;

		if (!compared || !cells[w].us)
			continue;
		good = again(s, T) && c[w].launch(c[w].ctx, 0, T) && bench_wait(s->g) &&
		       read_rows(s, 0, T, x) && read_rows(s, s->g->tp - 1, T, x + each);
		if (!have)
			memcpy(first, x, 2 * each * sizeof *x);
		have = true;
		cells[w].off = differs(x, first, 2 * each);
	}
	free(first);
	free(x);
	return good;
}
