/* GEMM facts from a JSON file, looked up by shape and SM target. */
#include "tools/facts.h"
#include "tools/pipeline.h"
#include <cjson/cJSON.h>
#include <stdlib.h>

struct row {
	int64_t m, n, k;
	unsigned target;
	struct pl_gemm_fact fact;
};

struct facts {
	struct row *row;
	size_t n;
};

static int by_shape(const void *x, const void *y)
{
	const struct row *a = x, *b = y;
	int64_t d[] = {a->n - b->n, a->k - b->k, (int64_t)a->target - b->target, a->m - b->m};

	for (int i = 0; i < 4; i++)
		if (d[i])
			return d[i] < 0 ? -1 : 1;
	return 0;
}

static bool same(const struct row *r, const struct pl_gemm_query *q)
{
	return r->n == q->n && r->k == q->k && r->target == q->sm_target;
}

/* The entry with as many rows, or a time between those of its neighbours; not beyond the last. */
static bool lookup(void *ctx, const struct pl_gemm_query *q, struct pl_gemm_fact *fact)
{
	const struct facts *f = ctx;
	const struct row *lo = NULL, *hi = NULL;

	for (size_t i = 0; i < f->n; i++) {
		const struct row *r = &f->row[i];

		if (!same(r, q))
			continue;
		if (r->m <= q->m)
			lo = r;
		if (r->m >= q->m && !hi)
			hi = r;
	}
	if (!lo || !hi)
		return false;
	*fact = hi->fact;
	if (lo == hi)
		return true;
	fact->waves = 0;
	fact->us = lo->fact.us +
	           (hi->fact.us - lo->fact.us) * (double)(q->m - lo->m) / (double)(hi->m - lo->m);
	return lo->fact.us > 0 && hi->fact.us > 0;
}

static double number(const cJSON *o, const char *name, double otherwise)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsNumber(v) ? v->valuedouble : otherwise;
}

static unsigned element(const cJSON *o, const char *name, int i)
{
	const cJSON *v = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(o, name), i);

	return cJSON_IsNumber(v) && v->valuedouble >= 1 && v->valuedouble <= 4096
	               ? (unsigned)v->valuedouble
	               : 0;
}

static bool read_row(const cJSON *o, struct row *r)
{
	double m = number(o, "m", 0), n = number(o, "n", 0), k = number(o, "k", 0);
	double us = number(o, "us", 0), waves = number(o, "waves", 0);
	double target = number(o, "sm_target", 0), splitk = number(o, "split_k", 1);

	if (!cJSON_IsObject(o) || m < 1 || n < 1 || k < 1 || m > 1e9 || n > 1e9 || k > 1e9 ||
	    us < 0 || waves < 0 || target < 0 || target > 4096 || splitk < 1 || splitk > 64)
		return false;
	*r = (struct row){
	        .m = (int64_t)m, .n = (int64_t)n, .k = (int64_t)k, .target = (unsigned)target};
	r->fact = (struct pl_gemm_fact){.bm = element(o, "tile", 0),
	                                .bn = element(o, "tile", 1),
	                                .cm = element(o, "cluster", 0),
	                                .cn = element(o, "cluster", 1),
	                                .splitk = (unsigned)splitk,
	                                .waves = waves,
	                                .us = us};
	r->fact.persistent = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "persistent"));
	r->fact.dynamic = cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(o, "persistent"));
	return us > 0 || (r->fact.bm && r->fact.bn);
}

/* The rows of the document; NULL, and *bad is the number of the first that is none. */
static struct facts *read_rows(struct arena *a, const cJSON *doc, int *bad)
{
	struct facts *f = arena_new(a, struct facts);
	const cJSON *o;

	f->row = arena_news(a, struct row, (size_t)cJSON_GetArraySize(doc) + 1);
	cJSON_ArrayForEach(o, doc)
	{
		*bad = (int)f->n;
		if (!read_row(o, &f->row[f->n]))
			return NULL;
		f->n++;
	}
	qsort(f->row, f->n, sizeof *f->row, by_shape);
	return f;
}

enum status facts_read(struct arena *a, struct diags *d, const char *path, pl_gemm_fn **fn,
                       void **ctx)
{
	struct facts *f = NULL;
	char *text;
	size_t len;
	cJSON *doc;
	int bad = -1;

	if (!read_named(a, d, path, &text, &len))
		return ST_INPUT;
	doc = cJSON_ParseWithLength(text, len);
	if (cJSON_IsArray(doc))
		f = read_rows(a, doc, &bad);
	cJSON_Delete(doc);
	if (f) {
		*fn = lookup;
		*ctx = f;
		return ST_OK;
	}
	if (bad >= 0)
		diag_at(d, DIAG_ERROR, DIAG_FACTS, (struct span){0, 0},
		        "entry %d of '%s' is not a GEMM", bad, path);
	else
		diag_at(d, DIAG_ERROR, DIAG_FACTS, (struct span){0, 0}, "'%s' is not a JSON array",
		        path);
	diag_note(d, (struct span){0, 0},
	          "an entry is {\"m\": 1024, \"n\": 1280, \"k\": 8192, \"us\": 31.5}, perhaps with "
	          "sm_target, tile, cluster, split_k, waves, persistent");
	return ST_INPUT;
}
