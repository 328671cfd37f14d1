/* Of a schedule of verify: where rows lie, and what a failure says of its place. */
#include "tools/verify_step.h"
#include <string.h>

/* ---- where things are ---- */

struct vf_rows vf_rows_of(const struct vf_step_run *u, unsigned p, unsigned rank, int64_t T)
{
	const struct cg_param *c = &u->d->k->k->param[p];
	struct ir_type t = u->d->k->f->param[p].type;
	struct vf_rows r = {0, t.ndim == 2 ? T : 1, 0};

	if (vf_own(u->d, p)) {
		ir_own_rows(T, u->d->o.tp, rank, &r.begin, &r.end);
		r.at = c->local_index ? 0 : r.begin;
	}
	return r;
}

uint64_t vf_row_bytes(const struct vf_step_run *u, unsigned p)
{
	struct ir_type t = u->d->k->f->param[p].type;

	return (uint64_t)vf_cols(t) * vf_size(t);
}

uint64_t vf_pitch(const struct vf_step_run *u, unsigned p)
{
	const struct cg_param *c = &u->d->k->k->param[p];
	uint64_t ld = (uint64_t)c->ld * vf_size(c->type);

	return ld > vf_row_bytes(u, p) ? ld : vf_row_bytes(u, p);
}

/* Rows of the buffer, whatever T is. */
int64_t vf_capacity(const struct vf_step_run *u, unsigned p)
{
	const struct cg_param *c = &u->d->k->k->param[p];
	int64_t n = c->type.ndim < 2 ? 1 : u->d->most, begin, end;

	if (c->type.ndim == 2 && c->local_index) {
		ir_own_rows(n, u->d->o.tp, 0, &begin, &end);
		n = end;
	}
	return n ? n : 1;
}

uint64_t vf_address(const struct vf_step_run *u, unsigned p, unsigned rank, int64_t buffer_row)
{
	return u->at[p].uc[rank] + (uint64_t)buffer_row * vf_pitch(u, p);
}

/* ---- failures ---- */

static const char *line_of(struct arena *a, const char *text, uint32_t line)
{
	const char *end;

	for (uint32_t i = 1; text && i < line; i++) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	if (!text || !line)
		return NULL;
	while (*text == '\t' || *text == ' ')
		text++;
	end = strchr(text, '\n');
	return arena_strndup(a, text, end ? (size_t)(end - text) : strlen(text));
}

static uint32_t spec_line_of(const struct ptx_module *m, uint32_t line)
{
	for (const struct ptx_fn *f = m->fn; f; f = f->next)
		for (uint32_t i = 0; i < f->ninsn; i++)
			if (f->insn[i].line == line)
				return f->insn[i].loc_line;
	return 0;
}

/* The spec's source line. */
const char *vf_spec_text(const struct vf_step_run *u, uint32_t line)
{
	const char *name = u->m->loc_file;

	for (const struct source *s = u->d->k->places ? u->d->k->places->sources : NULL; s;
	     s = s->next)
		if (line && name && !strcmp(s->name, name))
			return line_of(u->a, arena_strndup(u->a, s->text, s->len), line);
	return NULL;
}

/* The statement that writes output p, and an instruction that does so where the one at fault is not
 * known. */
static void spec_of_output(struct vf_step_run *u, unsigned p, struct vf_failure *f)
{
	const struct ir_value *v = u->d->k->f->first;
	struct diag_place at;

	while (v && !(v->op == IR_OP_OUT && v->param == p))
		v = v->next;
	if (!v || !u->d->k->places || span_none(v->at))
		return;
	at = diag_place(u->d->k->places, v->at);
	f->spec_line = at.line;
	for (const struct ptx_fn *fn = u->m->fn; fn && !f->line; fn = fn->next)
		for (uint32_t i = 0; i < fn->ninsn && !f->other; i++) {
			const struct ptx_insn *x = &fn->insn[i];

			if ((x->op == PTX_st || x->op == PTX_mm_st) && x->loc_line == at.line)
				f->other = x->line;
		}
	f->other_text = line_of(u->a, u->text, f->other);
}

/* s NULL: no launch in particular. */
struct vf_failure *vf_failure_at(struct vf_step_run *u, enum vf_kind kind, const struct vf_step *s)
{
	struct vf_failure *f = &u->r->failure;

	f->kind = kind;
	f->seed = u->schedule.seed;
	f->schedule = vf_schedule_text(u->a, &u->schedule);
	f->launches = u->d->o.launches;
	f->launch = s ? s->index + 1 : 0;
	f->rows = s ? s->item->T : 0;
	if (s && u->d->length > 1)
		f->kernel = u->d->k->k->name;
	return f;
}

void vf_at_line(struct vf_step_run *u, struct vf_failure *f, uint32_t line)
{
	f->line = line;
	f->line_text = line_of(u->a, u->text, line);
	f->spec_line = spec_line_of(u->m, line);
	f->spec_text = vf_spec_text(u, f->spec_line);
}

/* Element (row, col) of parameter p, at buffer row `at` of `rank`. */
bool vf_fail_at(const struct vf_step *s, enum vf_kind kind, unsigned p, unsigned rank, int64_t row,
                int64_t at, int64_t col)
{
	struct vf_step_run *u = s->run;
	const struct ir_param *pa = &u->d->k->f->param[p];
	unsigned size = vf_size(pa->type);
	uint64_t addr = vf_address(u, p, rank, at) + (uint64_t)col * size;
	struct vf_failure *f = vf_failure_at(u, kind, s);
	uint32_t bits = 0;

	f->param = pa->name;
	f->rank = rank;
	f->row = row;
	f->col = col;
	sim_read(u->sim, addr, &bits, size);
	f->got = ir_decode((enum ir_dtype)pa->type.dtype, bits);
	vf_at_line(u, f, sim_writer(u->sim, addr, &f->writer));
	if (!f->spec_line) {
		spec_of_output(u, p, f);
		f->spec_text = vf_spec_text(u, f->spec_line);
	}
	return false;
}
