/*
 * Types of a model: extents of whole tensors, and who holds which part.
 */
#include "frontend/model.h"
#include <string.h>

const char *const fe_mplace_name[FE_NMPLACES] = {"replicated", "partial", "sharded", "carried",
                                                 "columns",    "rows",    "local"};

static bool read_extent(struct fe_model *m, const struct ast *e, struct fe_mtype *t, unsigned i)
{
	if (!fe_want_int(&m->cx, e, &t->dim[i], &t->known[i]))
		return false;
	if (!t->known[i] || t->dim[i] >= 1)
		return true;
	fe_error(&m->cx, DIAG_EXTENT, e->at, NULL, "an extent is 1 or more, this is %lld",
	         (long long)t->dim[i]);
	return false;
}

static bool read_extents(struct fe_model *m, const struct ast *type, struct fe_mtype *t)
{
	size_t n = ast_count(type->kids);
	const struct ast *e = type->kids;

	t->ndim = (uint8_t)n;
	t->rows = fe_is_rows(e);
	if (n > 2 || (n == 1 && t->rows)) {
		fe_error(&m->cx, DIAG_DIMS, type->at,
		         "extents are [T, n] for rows, [k, n] or [n] for weights, [] for a scalar",
		         "these are not the extents of a tensor");
		return false;
	}
	for (unsigned i = 0; i < n; i++, e = e->next)
		if (!(i == 0 && t->rows) && !read_extent(m, e, t, i))
			return false;
	return true;
}

static bool read_place(struct fe_model *m, const struct ast *a, const bool *allowed,
                       struct fe_mtype *t)
{
	unsigned p = 0;
	const char *near;

	while (a && p < FE_NMPLACES && strcmp(a->name, fe_mplace_name[p]))
		p++;
	t->place = (enum fe_mplace)p;
	if (p == FE_NMPLACES) {
		near = nearest_name(a->name, fe_mplace_name, FE_NMPLACES);
		fe_error(&m->cx, DIAG_PLACE_UNKNOWN, a->at,
		         "placements of a model: replicated, partial, sharded, carried, columns, "
		         "rows, local",
		         "'%s' is not a placement", a->name);
		if (near)
			fe_note(&m->cx, (struct span){0, 0}, "did you mean '%s'?", near);
		return false;
	}
	if (!allowed[p] || (p >= FE_PARTIAL && p <= FE_CARRIED && !t->rows) ||
	    (p == FE_ROWS && (t->rows || t->ndim != 2)) || (p == FE_COLUMNS && t->ndim == 0)) {
		fe_error(&m->cx, DIAG_PLACE_PARAM, a->at,
		         "partial, sharded and carried are for rows; rows is for matrices of "
		         "weights",
		         "this cannot be %s", a->name);
		return false;
	}
	return true;
}

/* Where tp is given, it divides what is split. */
static void check_divisible(struct fe_model *m, const struct ast *type, const struct fe_mtype *t)
{
	unsigned tp = m->fe->o->tp, i = t->place == FE_ROWS ? 0 : t->ndim - 1u;
	const struct ast *e = type->kids;

	if (!tp || (t->place != FE_ROWS && t->place != FE_COLUMNS) || t->dim[i] % tp == 0)
		return;
	if (i == 1)
		e = e->next;
	fe_error(&m->cx, DIAG_DIVIDE_TP, e->at, "each rank holds an equal part",
	         "%lld is not divisible by tp = %u", (long long)t->dim[i], tp);
}

struct fe_mtype fe_model_type(struct fe_model *m, const struct ast *type, const struct ast *attrs,
                              const bool allowed[FE_NMPLACES])
{
	struct fe_attrs a = fe_read_attrs(&m->cx, attrs);
	const struct ast *wrong = a.ld ? a.ld : a.align ? a.align : a.when;
	struct fe_mtype t = {0};

	if (wrong)
		fe_error(&m->cx, DIAG_ATTRIBUTE, wrong->at, "it belongs to a kernel's parameter",
		         "a model has no '%s'", wrong->name);
	t.ok = fe_type_dtype(&m->cx, type, &t.dtype);
	t.ok = read_extents(m, type, &t) && t.ok;
	t.ok = t.ok && read_place(m, a.place, allowed, &t);
	if (t.ok)
		check_divisible(m, type, &t);
	return t;
}

const char *fe_mtype_text(struct arena *a, struct fe_mtype t)
{
	struct strbuf b;

	strbuf_init(&b, a);
	strbuf_printf(&b, "%s[", ir_dtype_info[t.dtype].text);
	for (unsigned i = 0; i < t.ndim; i++) {
		strbuf_puts(&b, i ? ", " : "");
		if (i == 0 && t.rows)
			strbuf_puts(&b, "T");
		else if (!t.known[i])
			strbuf_puts(&b, "?");
		else
			strbuf_printf(&b, "%lld", (long long)t.dim[i]);
	}
	strbuf_puts(&b, "]");
	if (t.rows || t.place != FE_REPLICATED)
		strbuf_printf(&b, " %s", fe_mplace_name[t.place]);
	return b.s;
}

bool fe_mtype_equal(struct fe_mtype a, struct fe_mtype b)
{
	if (!a.ok || !b.ok)
		return true;
	if (a.dtype != b.dtype || a.ndim != b.ndim || a.rows != b.rows || a.place != b.place)
		return false;
	for (unsigned i = a.rows; i < a.ndim; i++)
		if (a.known[i] && b.known[i] && a.dim[i] != b.dim[i])
			return false;
	return true;
}

struct fe_mtype fe_mtype_of_param(struct ir_type t)
{
	static const enum fe_mplace place[IR_NPLACES] = {[IR_REPLICATED] = FE_REPLICATED,
	                                                 [IR_PARTIAL] = FE_PARTIAL,
	                                                 [IR_SHARDED] = FE_SHARDED,
	                                                 [IR_CARRIED] = FE_CARRIED};
	struct fe_mtype r = {.ok = true,
	                     .dtype = (enum ir_dtype)t.dtype,
	                     .ndim = t.ndim,
	                     .rows = t.ndim == 2,
	                     .place = place[t.place]};
	unsigned last = t.ndim == 2;

	r.dim[last] = t.cols;
	r.known[last] = true;
	return r;
}
