/* plait_gemms_*: what cuBLASLt chooses for a shape, remembered, and its launch. */
#include "runtime/gemms.h"
#include "runtime/comm.h"
#include "support/hash.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024 };
static const size_t room_bytes = (size_t)64 << 20;

struct key {
	int64_t m, n, k;
	int32_t type, w_is_k_by_n, sm_target, zero;
};

/* A shape, and what was chosen for it. */
struct choice {
	struct key key;
	bool none; /* there is no algorithm: nothing else is here, and it is not asked again */
	struct lt_op *op;
	struct lt_layout *w, *x, *out;
	struct lt_algo algo;
	size_t bytes;
	float waves;
	struct choice *next;
};

struct plait_gemms {
	plait_comm *comm;
	const struct rt_blaslt *lt;
	struct rt_blaslt own;
	struct lt_handle *handle[CG_MAX_RANKS]; /* [nlocal] */
	cu_address room[CG_MAX_RANKS];
	pthread_mutex_t lock; /* of the choices, and of comm->error */
	struct choice *bucket[BUCKETS];
	bool w_is_k_by_n; /* of facts */
};

/* ---- choosing ---- */

static void empty(const struct rt_blaslt *t, struct choice *c)
{
	if (c->op)
		t->op_destroy(c->op);
	if (c->w)
		t->layout_destroy(c->w);
	if (c->x)
		t->layout_destroy(c->x);
	if (c->out)
		t->layout_destroy(c->out);
	c->op = NULL;
	c->w = c->x = c->out = NULL;
}

static void drop(const struct rt_blaslt *t, struct choice *c)
{
	empty(t, c);
	free(c);
}

/* cuBLASLt counts columns first: what is [rows, columns] here is columns x rows there, so out is w x,
 * and the tile's rows are columns here. */
static bool describe(const struct rt_blaslt *t, struct choice *c, struct rt_error *e)
{
	const struct key *k = &c->key;
	const uint64_t m = (uint64_t)k->m, n = (uint64_t)k->n, depth = (uint64_t)k->k;
	const int transpose = k->w_is_k_by_n ? LT_OP_N : LT_OP_T;

	return RT_LT(t, e, op_create, &c->op, LT_COMPUTE_32F, LT_R_32F) &&
	       RT_LT(t, e, op_set, c->op, LT_OP_TRANSA, &transpose, sizeof transpose) &&
	       RT_LT(t, e, op_set, c->op, LT_OP_SM_COUNT_TARGET, &k->sm_target,
	             sizeof k->sm_target) &&
	       (k->w_is_k_by_n ? RT_LT(t, e, layout_create, &c->w, k->type, n, depth, k->n)
	                       : RT_LT(t, e, layout_create, &c->w, k->type, depth, n, k->k)) &&
	       RT_LT(t, e, layout_create, &c->x, k->type, depth, m, k->k) &&
	       RT_LT(t, e, layout_create, &c->out, k->type, n, m, k->n);
}

static bool ask(const plait_gemms *g, struct choice *c, struct rt_error *e)
{
	const struct rt_blaslt *t = g->lt;
	struct lt_found found = {0};
	struct lt_wish *wish = NULL;
	int n = 0;
	int r = LT_SUCCESS;
	bool good;

	good = RT_LT(t, e, wish_create, &wish) &&
	       RT_LT(t, e, wish_set, wish, LT_WISH_MAX_BYTES, &room_bytes, sizeof room_bytes);
	if (good)
		r = t->heuristic(g->handle[0], c->op, c->w, c->x, c->out, c->out, wish, 1, &found,
		                 &n);
	if (wish)
		t->wish_destroy(wish);
	c->none = good && (r == LT_NOT_SUPPORTED ||
	                   (r == LT_SUCCESS && (n < 1 || found.status != LT_SUCCESS)));
	good = good && (c->none || rt_blaslt_ok(t, e, RT_BLASLT_NO_heuristic, r));
	c->algo = found.algo;
	c->bytes = found.bytes;
	c->waves = found.waves;
	return good;
}

/* What cannot be entered is said in e, as all else here is; the communicator's message stays. */
static bool enter(plait_gemms *g, unsigned local, struct rt_error *e)
{
	struct rt_error kept = g->comm->error;
	bool good;

	rt_error_clear(&g->comm->error);
	good = rt_enter(g->comm, local);
	if (!good)
		*e = g->comm->error;
	g->comm->error = kept;
	return good;
}

/* What is known of a shape, asked or remembered; NULL: e says why nothing is.  With the lock. */
static const struct choice *known(plait_gemms *g, const struct key *key, struct rt_error *e)
{
	struct choice **at = &g->bucket[hash_bytes(HASH_INIT, key, sizeof *key) % BUCKETS], *c;
	bool good;

	for (c = *at; c; c = c->next)
		if (!memcmp(&c->key, key, sizeof *key))
			return c;
	c = calloc(1, sizeof *c);
	if (!c) {
		rt_fail(e, PLAIT_NOMEM, "out of memory");
		return NULL;
	}
	c->key = *key;
	good = enter(g, 0, e);
	if (good) {
		good = describe(g->lt, c, e) && ask(g, c, e);
		if (good && c->none)
			empty(g->lt, c);
		rt_leave(g->comm);
	}
	if (!good) {
		drop(g->lt, c);
		return NULL;
	}
	c->next = *at;
	return *at = c;
}

/* The algorithm for a shape; NULL: e says why there is none.  With the lock. */
static const struct choice *choice_of(plait_gemms *g, const struct key *key, struct rt_error *e)
{
	const struct choice *c = known(g, key, e);

	if (!c || !c->none)
		return c;
	rt_fail(e, PLAIT_ENV, "cuBLASLt has no algorithm for a GEMM of %lld x %lld x %lld",
	        (long long)key->m, (long long)key->n, (long long)key->k);
	return NULL;
}

/* ---- facts ---- */

static bool configured(const plait_gemms *g, const struct choice *c, struct plait_gemm_fact *f,
                       struct rt_error *e)
{
	const struct rt_blaslt *t = g->lt;
	uint32_t tile = 0, split = 0;
	uint16_t cluster = 0;
	struct lt_shape s, cs;
	size_t n;

	/* clusters came with Hopper: a library that does not know them has none */
	if (!RT_LT(t, e, config, &c->algo, LT_CONFIG_TILE, &tile, sizeof tile, &n) ||
	    !RT_LT(t, e, config, &c->algo, LT_CONFIG_SPLIT_K, &split, sizeof split, &n))
		return false;
	if (t->config(&c->algo, LT_CONFIG_CLUSTER, &cluster, sizeof cluster, &n) != LT_SUCCESS)
		cluster = 0;
	s = rt_blaslt_tile(tile);
	cs = rt_blaslt_cluster(cluster);
	f->tile_m = s.columns;
	f->tile_n = s.rows;
	f->cluster_m = cs.columns ? cs.columns : 1;
	f->cluster_n = cs.rows ? cs.rows : 1;
	f->split_k = split ? split : 1;
	f->waves = c->waves > 0 && c->waves < 1e6f ? (double)c->waves : 0;
	return s.rows != 0;
}

static int type_of(const char *dtype)
{
	return !dtype                   ? -1
	       : !strcmp(dtype, "bf16") ? LT_R_16BF
	       : !strcmp(dtype, "f16")  ? LT_R_16F
	                                : -1;
}

/* The type of all three operands, as plait_gemms_run has it; false: they have not one. */
static bool is_one_type(const struct plait_gemm_query *q, int *type)
{
	const char *const dtype[] = {q->x_dtype, q->w_dtype, q->out_dtype};
	int t[3];

	if (q->x_bits != 16 || q->w_bits != 16 || q->out_bits != 16)
		return false;
	for (int i = 0; i < 3; i++)
		t[i] = dtype[i] ? type_of(dtype[i]) : LT_R_16BF;
	*type = t[0];
	return t[0] >= 0 && t[1] == t[0] && t[2] == t[0];
}

void plait_gemms_weights(plait_gemms *g, bool w_is_k_by_n)
{
	if (!g)
		return;
	pthread_mutex_lock(&g->lock);
	g->w_is_k_by_n = w_is_k_by_n;
	pthread_mutex_unlock(&g->lock);
}

bool plait_gemms_fact(void *gemms, const struct plait_gemm_query *q, struct plait_gemm_fact *f)
{
	plait_gemms *g = gemms;
	struct rt_error ignored = {0};
	const struct choice *c;
	struct key key;
	int type;
	bool good;

	if (!g || !is_one_type(q, &type))
		return false;
	key = (struct key){.m = q->m,
	                   .n = q->n,
	                   .k = q->k,
	                   .type = type,
	                   .w_is_k_by_n = g->w_is_k_by_n,
	                   .sm_target = (int32_t)q->sm_target};
	pthread_mutex_lock(&g->lock);
	c = choice_of(g, &key, &ignored);
	good = c && configured(g, c, f, &ignored);
	pthread_mutex_unlock(&g->lock);
	return good;
}

/* ---- running ---- */

static const char *wrong(const plait_gemms *g, const struct plait_gemm_call *c)
{
	if (c->local >= g->comm->nlocal)
		return "'local' is not a rank of this process";
	if (c->m < 1 || c->n < 1 || c->k < 1 || c->m > INT32_MAX || c->n > INT32_MAX ||
	    c->k > INT32_MAX)
		return "'m', 'n' or 'k' is not 1 to 2^31 - 1";
	if (type_of(c->dtype) < 0)
		return "'dtype' is neither \"bf16\" nor \"f16\"";
	if (!c->x || !c->w || !c->out || (c->x | c->w | c->out) % 256)
		return "'x', 'w' or 'out' is no address of 256-byte alignment";
	if (c->sm_target > 4096)
		return "'sm_target' is more than any GPU has";
	return NULL;
}

static bool launch(plait_gemms *g, const struct plait_gemm_call *c, struct rt_error *e)
{
	static const float one = 1, zero = 0;
	const struct key key = {.m = c->m,
	                        .n = c->n,
	                        .k = c->k,
	                        .type = type_of(c->dtype),
	                        .w_is_k_by_n = c->w_is_k_by_n,
	                        .sm_target = (int32_t)c->sm_target};
	const struct choice *x = choice_of(g, &key, e);
	void *out = (void *)(uintptr_t)c->out;
	bool good;

	if (!x || !enter(g, c->local, e))
		return false;
	good = RT_LT(g->lt, e, matmul, g->handle[c->local], x->op, &one,
	             (const void *)(uintptr_t)c->w, x->w, (const void *)(uintptr_t)c->x, x->x,
	             &zero, out, x->out, out, x->out, &x->algo,
	             (void *)(uintptr_t)g->room[c->local], room_bytes,
	             (struct cu_stream *)c->stream);
	rt_leave(g->comm);
	return good;
}

enum plait_status plait_gemms_run(plait_gemms *g, const struct plait_gemm_call *call)
{
	struct plait_gemm_call c = {0};
	struct rt_error e = {0};
	const char *why;

	if (!g || !call || call->struct_size < sizeof call->struct_size)
		return PLAIT_USAGE;
	memcpy(&c, call, call->struct_size < sizeof c ? call->struct_size : sizeof c);
	why = wrong(g, &c);
	pthread_mutex_lock(&g->lock);
	if (why)
		rt_fail(&e, PLAIT_USAGE, "plait_gemms_run: %s", why);
	else if (!launch(g, &c, &e))
		rt_error_context(&e, "rank %u: a GEMM of %lld x %lld x %lld",
		                 g->comm->local[c.local].rank, (long long)c.m, (long long)c.n,
		                 (long long)c.k);
	if (e.status != PLAIT_OK)
		g->comm->error = e;
	pthread_mutex_unlock(&g->lock);
	return e.status;
}

/* ---- making ---- */

const plait_comm *rt_gemms_comm(const plait_gemms *g)
{
	return g->comm;
}

size_t rt_gemms_version(const plait_gemms *g)
{
	return g->lt->version();
}

static bool open_rank(plait_gemms *g, unsigned l)
{
	struct rt_error *e = &g->comm->error;
	bool good;

	if (!rt_enter(g->comm, l))
		return false;
	good = RT_LT(g->lt, e, create, &g->handle[l]) &&
	       RT_CU_GIVES(g->comm->drv, e, mem_alloc, &g->room[l], room_bytes);
	rt_leave(g->comm);
	if (!good)
		rt_blame(g->comm, l);
	return good;
}

/* What cuBLASLt chooses for a few GEMMs, with an SM target and without; what it does not know is 0. */
enum { TASTES = 6 };
struct taste {
	uint32_t tile[TASTES], cluster[TASTES], split[TASTES];
	float waves[TASTES];
};

static bool taste(plait_gemms *g, struct taste *t)
{
	static const int64_t shape[][3] = {
	        {256, 5120, 8192}, {2048, 5120, 8192}, {4096, 8192, 3584}};
	const int32_t sms = g->comm->rank[0].sms;
	struct rt_error *e = &g->comm->error;

	for (unsigned i = 0; i < TASTES; i++) {
		const struct key key = {.m = shape[i / 2][0],
		                        .n = shape[i / 2][1],
		                        .k = shape[i / 2][2],
		                        .type = LT_R_16BF,
		                        .sm_target = i % 2 && sms > 16 ? sms - 8 : 0};
		const struct choice *c = known(g, &key, e);
		struct plait_gemm_fact f = {0};

		if (!c)
			return false;
		if (c->none)
			continue;
		configured(g, c, &f, e);
		if (e->status != PLAIT_OK)
			return false;
		t->tile[i] = f.tile_m << 16 | f.tile_n;
		t->cluster[i] = f.cluster_m << 16 | f.cluster_n;
		t->split[i] = f.split_k;
		t->waves[i] = c->waves;
	}
	return true;
}

/* Collective: do ranks with one version and one kind of GPU choose alike? */
static enum plait_status agree_on_choices(plait_gemms *g)
{
	struct taste mine = {0}, all[CG_MAX_RANKS];
	plait_comm *c = g->comm;
	enum plait_status s;

	taste(g, &mine);
	s = rt_vote(c);
	if (s == PLAIT_OK)
		s = rt_gather(c, &mine, all, sizeof mine);
	if (s != PLAIT_OK)
		return s;
	for (unsigned p = 1; p < c->processes; p++)
		for (unsigned i = 0; i < TASTES; i++)
			if (all[p].tile[i] != all[0].tile[i] ||
			    all[p].cluster[i] != all[0].cluster[i] ||
			    all[p].split[i] != all[0].split[i] ||
			    memcmp(&all[p].waves[i], &all[0].waves[i], sizeof(float)) != 0)
				return rt_fail(
				        &c->error, PLAIT_MISMATCH,
				        "cuBLASLt %zu chooses tile %ux%u, split-K %u on rank 0 and "
				        "%ux%u, %u on rank %u for the same GEMM: an environment "
				        "variable of cuBLAS's may differ",
				        g->lt->version(), all[0].tile[i] >> 16,
				        all[0].tile[i] & 0xffff, all[0].split[i],
				        all[p].tile[i] >> 16, all[p].tile[i] & 0xffff,
				        all[p].split[i], p * c->nlocal);
	return PLAIT_OK;
}

/* What has to be equal for facts to be. */
static enum plait_status agree(plait_gemms *g)
{
	plait_comm *c = g->comm;
	uint64_t mine = g->lt->version(), all[CG_MAX_RANKS];
	enum plait_status s = rt_gather(c, &mine, all, sizeof mine);

	if (s != PLAIT_OK)
		return s;
	for (unsigned p = 1; p < c->processes; p++)
		if (all[p] != all[0])
			return rt_fail(&c->error, PLAIT_MISMATCH,
			               "cuBLASLt is version %llu on rank 0 and %llu on rank %u",
			               (unsigned long long)all[0], (unsigned long long)all[p],
			               p * c->nlocal);
	for (unsigned r = 1; r < c->size; r++)
		if (c->rank[r].major != c->rank[0].major || c->rank[r].minor != c->rank[0].minor ||
		    c->rank[r].sms != c->rank[0].sms)
			return rt_fail(&c->error, PLAIT_MISMATCH,
			               "GEMMs run otherwise on rank 0 (%s, %d SMs) than on rank %u "
			               "(%s, %d)",
			               c->rank[0].name, c->rank[0].sms, r, c->rank[r].name,
			               c->rank[r].sms);
	return agree_on_choices(g);
}

static enum plait_status create(plait_gemms *g, const struct rt_blaslt *lt)
{
	plait_comm *c = g->comm;
	enum plait_status s;

	g->lt = lt;
	if (!lt && rt_blaslt_open(&g->own, NULL, &c->error) == PLAIT_OK)
		g->lt = &g->own;
	for (unsigned l = 0; l < c->nlocal && g->lt; l++)
		if (!open_rank(g, l))
			break;
	s = rt_vote(c);
	return s == PLAIT_OK ? agree(g) : s;
}

enum plait_status rt_gemms_create(plait_comm *c, const struct rt_blaslt *lt, plait_gemms **out)
{
	plait_gemms *g;
	enum plait_status s;

	if (out)
		*out = NULL;
	if (!c || !c->boot || !out)
		return PLAIT_USAGE;
	rt_error_clear(&c->error);
	g = calloc(1, sizeof *g);
	if (!g) {
		rt_fail(&c->error, PLAIT_NOMEM, "out of memory");
		return rt_vote(c);
	}
	g->comm = c;
	pthread_mutex_init(&g->lock, NULL);
	s = create(g, lt);
	if (s == PLAIT_OK)
		*out = g;
	else
		plait_gemms_free(g);
	return s;
}

enum plait_status plait_gemms_create(plait_comm *c, plait_gemms **out)
{
	return rt_gemms_create(c, NULL, out);
}

void plait_gemms_free(plait_gemms *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		while (g->bucket[i]) {
			struct choice *c = g->bucket[i];

			g->bucket[i] = c->next;
			drop(g->lt, c);
		}
	for (unsigned l = 0; l < g->comm->nlocal; l++) {
		if ((!g->handle[l] && !g->room[l]) || !rt_enter(g->comm, l))
			continue;
		if (g->room[l])
			g->comm->drv->mem_free(g->room[l]);
		if (g->handle[l])
			g->lt->destroy(g->handle[l]);
		rt_leave(g->comm);
	}
	pthread_mutex_destroy(&g->lock);
	free(g);
}
