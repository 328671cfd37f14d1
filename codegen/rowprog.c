/*
 * From the fused IR to a row program: where each value lives, in which level it is made, and how
 * long it is kept.
 */
#include "codegen/rowprog.h"

unsigned cg_dtype_bytes(unsigned dtype)
{
	return ir_dtype_info[dtype].bits / 8;
}

static int64_t cols_of(const struct ir_value *v)
{
	return v->type.ndim == 0 ? 1 : v->type.cols;
}

static bool is_half(unsigned dtype)
{
	return dtype == IR_BF16 || dtype == IR_F16;
}

static enum ir_kind kind_of(const struct ir_value *v)
{
	return ir_op_info[v->op].kind;
}

/* The widest rows among what the kernel reads and writes are the rows of the program. */
static int64_t row_cols(const struct ir_func *f)
{
	int64_t cols = 1;

	for (const struct ir_value *v = f->first; v; v = v->next)
		if (v->type.ndim == 2 && v->type.cols > cols)
			cols = v->type.cols;
	return cols;
}

/* A group is a part of a vector, or of whole vectors. */
static bool ratio_fits(unsigned elems, int64_t ratio)
{
	return ratio <= elems ? elems % ratio == 0 : ratio % elems == 0;
}

/* Are all groups that the values of the kernel are of? */
static bool groups_fit(const struct ir_func *f, int64_t cols, unsigned elems)
{
	for (const struct ir_value *v = f->first; v; v = v->next)
		if (v->type.ndim > 0 && v->type.cols > 1 && cols % v->type.cols == 0 &&
		    !ratio_fits(elems, cols / v->type.cols))
			return false;
	return true;
}

/* The widest vectors that rows and groups consist of. */
static unsigned vector_elems(const struct ir_func *f, int64_t cols)
{
	unsigned elems = cols % 8 == 0 ? 8 : cols % 4 == 0 ? 4 : 2;

	while (elems > 2 && !groups_fit(f, cols, elems))
		elems /= 2;
	return elems;
}

/* Of one element: its own reduction. */
static bool reduces(const struct ir_value *v)
{
	if (v->op == IR_OP_EXPAND || (kind_of(v) != IR_KIND_ROW && kind_of(v) != IR_KIND_GROUP))
		return false;
	for (unsigned i = 0; i < v->nsrc; i++)
		if (cols_of(v->src[i]) > 1)
			return true;
	return false;
}

static enum cg_home home_of_result(const struct ir_value *v)
{
	bool row = false, elem = false;

	for (unsigned i = 0; i < v->nsrc; i++) {
		enum cg_home h = cg_value_of(v->src[i])->home;

		row |= h == CG_HOME_ROW;
		elem |= h == CG_HOME_ELEM;
	}
	if (cols_of(v) == 1)
		return row || elem ? CG_HOME_ROW : CG_HOME_UNIFORM;
	return row || elem ? CG_HOME_ELEM : CG_HOME_WEIGHT;
}

static enum cg_home home_of(const struct ir_value *v)
{
	if (v->op == IR_OP_CONST)
		return CG_HOME_CONST;
	if (cg_is_constant(v))
		return cols_of(v) == 1 ? CG_HOME_UNIFORM : CG_HOME_WEIGHT;
	if (cg_is_load(v))
		return cols_of(v) == 1 ? CG_HOME_ROW : CG_HOME_ELEM;
	if (reduces(v)) /* a group that is the whole row is one of these, too */
		return cols_of(v) == 1 ? CG_HOME_ROW : CG_HOME_ELEM;
	return home_of_result(v);
}

static bool set_ratio(const struct cg_rowprog *rp, struct cg_value *v, struct diags *d)
{
	int64_t cols = cols_of(v->ir);

	v->ratio = v->n = 1;
	if (v->home != CG_HOME_ELEM && v->home != CG_HOME_WEIGHT)
		return true;
	if (rp->cols % cols != 0) {
		diag_at(d, DIAG_ERROR, DIAG_CG_COLS, v->ir->at,
		        "rows of %lld and of %lld elements do not fit into one kernel",
		        (long long)rp->cols, (long long)cols);
		diag_note(d, (struct span){0, 0}, "write one kernel for each row length");
		return false;
	}
	v->ratio = (unsigned)(rp->cols / cols);
	if (!ratio_fits(rp->elems, v->ratio)) {
		diag_at(d, DIAG_ERROR, DIAG_CG_GROUP, v->ir->at,
		        "groups of %u elements in rows of %lld: the size of a group must be even",
		        v->ratio, (long long)rp->cols);
		diag_note(d, (struct span){0, 0},
		          "16-bit elements are moved in pairs; pad the groups by one column");
		return false;
	}
	v->n = v->ratio < rp->elems ? rp->elems / v->ratio : 1;
	return true;
}

static bool supported(const struct ir_value *v, struct diags *d)
{
	unsigned t = v->type.dtype;

	if (v->op != IR_OP_CONST && v->op != IR_OP_LOAD && v->op != IR_OP_LOAD_SUM &&
	    !cg_is_store(v) && v->op != IR_OP_SLICE && kind_of(v) != IR_KIND_ELEM &&
	    kind_of(v) != IR_KIND_ROW && kind_of(v) != IR_KIND_GROUP) {
		diag_at(d, DIAG_ERROR, DIAG_CG_FORM, v->at, "'%s' is not part of a fused kernel",
		        ir_op_info[v->op].text);
		return false;
	}
	if (cg_is_store(v))
		t = v->src[0]->type.dtype;
	if (t != IR_F32 && t != IR_BOOL && !is_half(t)) {
		diag_at(d, DIAG_ERROR, DIAG_CG_DTYPE, v->at, "code generation does not do %s yet",
		        ir_dtype_info[t].text);
		diag_note(d, (struct span){0, 0}, "use bf16, f16 or f32");
		return false;
	}
	return true;
}

/* An output without rows is stored once, before the rows; what it is made of must be there by then.
 */
static bool fixed_store(const struct cg_rowprog *rp, struct cg_value *v, struct diags *d)
{
	enum cg_home home = cg_value_of(v->ir->src[0])->home;

	v->level = CG_FIXED_LEVEL;
	if (home != CG_HOME_ROW && home != CG_HOME_ELEM &&
	    rp->func->param[v->ir->param].mode == IR_OUT)
		return true;
	diag_at(d, DIAG_ERROR, DIAG_CG_FORM, v->ir->at,
	        home == CG_HOME_ROW || home == CG_HOME_ELEM
	                ? "a reduction over a weight cannot be stored by itself"
	                : "a weight cannot be changed in place");
	diag_note(d, (struct span){0, 0}, "give the output rows, or write a kernel for it");
	return false;
}

/* Levels, upwards: a value is made when its operands are there. */
static bool set_level(struct cg_rowprog *rp, struct cg_value *v, struct diags *d)
{
	unsigned level = 0;

	if (cg_is_store(v->ir) && rp->func->param[v->ir->param].type.ndim < 2)
		return fixed_store(rp, v, d);
	for (unsigned i = 0; i < v->ir->nsrc; i++) {
		const struct cg_value *s = cg_value_of(v->ir->src[i]);
		unsigned ready = s->level + (s->reduces ? 1 : 0);

		level = ready > level ? ready : level;
	}
	v->level = level;
	if (level + 1 >= CG_MAX_LEVELS) {
		diag_at(d, DIAG_ERROR, DIAG_CG_DEEP, v->ir->at,
		        "more than %d reductions depend on each other", CG_MAX_LEVELS - 2);
		diag_note(d, (struct span){0, 0}, "split the kernel");
		return false;
	}
	if (v->reduces && v->home == CG_HOME_ROW)
		rp->level[level].nrow++;
	if (level + 1 > rp->nlevel)
		rp->nlevel = level + 1;
	return true;
}

/* Uses, downwards: a value is made in the first level that needs it, and kept; weights are made
 * again in each. */
static void set_uses(struct cg_value *v)
{
	uint32_t at;

	if (cg_is_store(v->ir) || v->reduces)
		at = UINT32_C(1) << v->level;
	else if (v->home == CG_HOME_ROW)
		at = v->used ? UINT32_C(1) << v->level : 0;
	else if (v->home == CG_HOME_WEIGHT || cg_is_alias(v->ir))
		at = v->used;
	else
		at = v->used & -v->used;
	for (unsigned i = 0; i < v->ir->nsrc; i++)
		cg_value_of(v->ir->src[i])->used |= at;
	v->first = 1;
	v->last = 0;
	if (v->used) {
		v->first = (unsigned)__builtin_ctz(v->used);
		v->last = 31 - (unsigned)__builtin_clz(v->used);
	}
}

/* All rows, or own rows: what the loads and stores of the kernel say, and they must say the same.
 */
static bool set_domain(struct cg_rowprog *rp, struct diags *d)
{
	const struct ir_value *whole = NULL, *own = NULL;

	for (const struct ir_value *v = rp->func->first; v; v = v->next) {
		if (v->op == IR_OP_LOAD_SUM)
			rp->sums = true;
		if (v->op == IR_OP_STORE_ALL)
			rp->gathers = true;
		if (cg_is_store(v) || cg_is_load(v)) {
			const struct ir_type t = cg_is_store(v) ? v->src[0]->type : v->type;
			bool sharded =
			        t.ndim == 2 && (t.place == IR_SHARDED || t.place == IR_CARRIED);

			if (v->op == IR_OP_STORE_ALL || sharded)
				own = v;
			else if (t.ndim == 2)
				whole = v;
		}
	}
	rp->own_rows = own != NULL;
	if (!own || !whole)
		return true;
	diag_at(d, DIAG_ERROR, DIAG_CG_DOMAIN, whole->at,
	        "this needs all rows on every rank, the rest of the kernel only own rows");
	diag_note(d, own->at, "own rows are used here; write two kernels");
	return false;
}

struct cg_rowprog *cg_rowprog_new(const struct ir_func *f, struct arena *a, struct diags *d)
{
	struct cg_rowprog *rp = arena_new(a, struct cg_rowprog);
	bool good = true;
	unsigned n = 0;

	for (const struct ir_value *v = f->first; v; v = v->next)
		n++;
	rp->func = f;
	rp->cols = row_cols(f);
	rp->val = arena_news(a, struct cg_value, n + 1);
	rp->nlevel = 1;
	if (rp->cols % 2 != 0) {
		diag_at(d, DIAG_ERROR, DIAG_CG_ODD, f->at,
		        "rows of %lld elements: the number must be even", (long long)rp->cols);
		diag_note(d, (struct span){0, 0},
		          "16-bit elements are moved in pairs; pad the rows by one column");
		return NULL;
	}
	rp->elems = vector_elems(f, rp->cols);
	rp->nvec = (unsigned)(rp->cols / rp->elems);
	for (struct ir_value *v = f->first; v && good; v = v->next) {
		struct cg_value *c = &rp->val[rp->nval++];

		v->aux = c;
		c->ir = v;
		good = supported(v, d);
		if (!good)
			break;
		c->reduces = reduces(v);
		c->home = home_of(v);
		c->half = is_half(v->type.dtype) && !cg_is_store(v) && c->home != CG_HOME_ROW &&
		          c->home != CG_HOME_UNIFORM;
		good = (cg_is_store(v) || set_ratio(rp, c, d)) && set_level(rp, c, d);
	}
	if (!good || !set_domain(rp, d))
		return NULL;
	for (unsigned i = rp->nval; i-- > 0;)
		set_uses(&rp->val[i]);
	for (unsigned l = 0; l < rp->nlevel; l++)
		if (rp->level[l].nrow > rp->max_nrow)
			rp->max_nrow = rp->level[l].nrow;
	return rp;
}

unsigned cg_value_regs(const struct cg_value *v, unsigned vecs)
{
	if (v->home == CG_HOME_ROW)
		return 1;
	if (v->half)
		return vecs * (v->n > 1 ? v->n / 2 : 1);
	return vecs * v->n;
}

bool cg_value_held(const struct cg_value *v, unsigned l)
{
	bool made_early = v->home == CG_HOME_ROW || v->reduces;

	if (!v->used || cg_in_slot(v) || v->last <= l)
		return false;
	if (v->home != CG_HOME_ROW && v->home != CG_HOME_ELEM)
		return false;
	return (made_early ? v->level : v->first) <= l;
}

bool cg_shared_inout(const struct cg_rowprog *rp, const struct cg_value *v)
{
	if (!v->used || v->ir->op != IR_OP_LOAD || rp->func->param[v->ir->param].mode != IR_INOUT)
		return false;
	return v->home == CG_HOME_ROW || (v->home == CG_HOME_ELEM && v->ratio > rp->elems);
}
