/* The functions of the driver's table, on the simulator. */
#include "tests/fake/sim_driver.h"
#include "sim/internal.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, GRANULE = 4096, UNKNOWN = 999 };

struct cu_ctx {
	int device;
};
struct cu_stream {
	int device;
	unsigned queue;
};
struct cu_module {
	struct ptx_module *m;
};
struct cu_function {
	const struct sim_kernel *k;
};

struct cu_event {
	struct cu_stream *stream; /* of the last record */
	const struct sim_launch *mark;
	uint64_t *
	        ns; /* the simulator's time at the last record, once it is there; NULL: not timed */
};

/* Physical memory, or a multicast object. */
struct object {
	uint64_t at; /* in the simulator */
	size_t bytes;
	bool multicast, live;
};

static struct sim_driver drv;
static struct cu_ctx ctx[SIM_MAX_RANKS];
static struct cu_ctx *stack[16];
static unsigned depth, queues[SIM_MAX_RANKS];
static struct object object[MOST];
static unsigned nobject, next_map; /* objects in the order in which they are mapped */

/* One that gives something: of no use when it fails. */
#define CALL_GIVING(out)                                    \
	do {                                                \
		if (++drv.calls == drv.fail_at) {           \
			memset((out), 0xee, sizeof *(out)); \
			return UNKNOWN;                     \
		}                                           \
	} while (0)
/* Every function begins with one of them. */
#define CALL()                                  \
	do {                                    \
		if (++drv.calls == drv.fail_at) \
			return UNKNOWN;         \
	} while (0)

bool sim_driver_run(struct sim_driver *d)
{
	if (!d->failed)
		d->failed = !sim_run(d->sim);
	return !d->failed;
}

static cu_result settle(void)
{
	return sim_driver_run(&drv) ? RT_CU_SUCCESS : RT_CU_ERROR_LAUNCH_FAILED;
}

/* ---- devices, contexts ---- */

static cu_result init(unsigned flags)
{
	CALL();
	return flags ? RT_CU_ERROR_INVALID_VALUE : 0;
}

static cu_result version(int *v)
{
	CALL();
	*v = 13000;
	return 0;
}

static cu_result error_name(cu_result r, const char **s)
{
	*s = r == UNKNOWN ? "CUDA_ERROR_MADE_UP" : "CUDA_ERROR_OTHER";
	return 0;
}

static cu_result error_string(cu_result r, const char **s)
{
	*s = r == UNKNOWN ? "made up" : "another";
	return 0;
}

static cu_result device_count(int *n)
{
	CALL();
	*n = (int)drv.o.gpus;
	return 0;
}

static cu_result device_get(cu_device *d, int ordinal)
{
	CALL();
	*d = ordinal;
	return ordinal < (int)drv.o.gpus ? 0 : RT_CU_ERROR_INVALID_DEVICE;
}

static cu_result device_attribute(int *v, int a, cu_device d)
{
	CALL();
	(void)d;
	*v = a == RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR            ? 9
	     : a == RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR          ? 0
	     : a == RT_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT              ? 132
	     : a == RT_CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED               ? drv.o.multicast
	     : a == RT_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? 232448
	                                                                     : 1;
	return 0;
}

static cu_result device_name(char *s, int n, cu_device d)
{
	CALL();
	(void)d;
	strncpy(s, "Simulated", (size_t)n);
	return 0;
}

static cu_result device_uuid(struct cu_uuid *u, cu_device d)
{
	CALL();
	memset(u, drv.o.one_gpu ? 1 : d + 1, sizeof *u);
	return 0;
}

static cu_result device_can_access(int *can, cu_device d, cu_device peer)
{
	CALL();
	*can = d != peer;
	return 0;
}

static cu_result device_p2p(int *v, int a, cu_device d, cu_device peer)
{
	CALL();
	(void)a;
	*v = d != peer;
	return 0;
}

static cu_result ctx_retain(struct cu_ctx **c, cu_device d)
{
	CALL_GIVING(c);
	*c = &ctx[d];
	drv.live++;
	return 0;
}

static cu_result ctx_release(cu_device d)
{
	(void)d;
	drv.live--;
	return 0;
}

static cu_result ctx_push(struct cu_ctx *c)
{
	CALL();
	if (depth == 16)
		return RT_CU_ERROR_INVALID_CONTEXT;
	stack[depth++] = c;
	return 0;
}

static cu_result ctx_pop(struct cu_ctx **c)
{
	if (!depth)
		return RT_CU_ERROR_INVALID_CONTEXT;
	*c = stack[--depth];
	return 0;
}

static int current(void)
{
	return depth ? stack[depth - 1]->device : -1;
}

static cu_result ctx_synchronize(void)
{
	CALL();
	drv.waits++;
	return settle();
}

static cu_result ctx_priorities(int *least, int *greatest)
{
	CALL();
	*least = 0;
	*greatest = -5;
	return 0;
}

/* ---- memory ---- */

static cu_result mem_alloc(cu_address *a, size_t n)
{
	CALL_GIVING(a);
	if (current() < 0)
		return RT_CU_ERROR_INVALID_CONTEXT;
	drv.live++;
	drv.allocations++;
	*a = sim_alloc(drv.sim, (unsigned)current(), n, "memory");
	return 0;
}

static cu_result mem_free(cu_address a)
{
	(void)a;
	drv.live--;
	return 0;
}

static cu_result done(bool good)
{
	return good ? RT_CU_SUCCESS : RT_CU_ERROR_ILLEGAL_ADDRESS;
}

static cu_result copy_to_device(cu_address to, const void *from, size_t n, struct cu_stream *s)
{
	CALL();
	(void)s;
	settle();
	return done(sim_write(drv.sim, to, from, n));
}

static cu_result copy_to_host(void *to, cu_address from, size_t n, struct cu_stream *s)
{
	CALL();
	(void)s;
	settle();
	return done(sim_read(drv.sim, from, to, n));
}

static cu_result copy(cu_address to, cu_address from, size_t n, struct cu_stream *s)
{
	unsigned char *p = malloc(n + 1);
	bool good;

	(void)s;
	settle();
	good = p && sim_read(drv.sim, from, p, n) && sim_write(drv.sim, to, p, n);
	free(p);
	CALL();
	return done(good);
}

static cu_result set_d8(cu_address a, unsigned char v, size_t n, struct cu_stream *s)
{
	unsigned char *p = malloc(n + 1);
	bool good = p != NULL;

	(void)s;
	settle();
	if (p) {
		memset(p, v, n);
		good = sim_write(drv.sim, a, p, n);
	}
	free(p);
	CALL();
	return done(good);
}

static cu_result set_d32(cu_address a, unsigned v, size_t n, struct cu_stream *s)
{
	bool good = true;

	CALL();
	(void)s;
	settle();
	for (size_t i = 0; i < n && good; i++)
		good = sim_write(drv.sim, a + i * 4, &v, 4);
	return done(good);
}

static cu_result host_alloc(void **p, size_t n, unsigned flags)
{
	CALL_GIVING(p);
	(void)flags;
	*p = calloc(1, n);
	drv.live += *p != NULL;
	drv.allocations++;
	return *p ? 0 : RT_CU_ERROR_OUT_OF_MEMORY;
}

static cu_result host_free(void *p)
{
	free(p);
	drv.live--;
	return 0;
}

/* ---- streams ---- */

static cu_result stream_create(struct cu_stream **s, unsigned flags, int priority)
{
	CALL_GIVING(s);
	(void)flags;
	(void)priority;
	if (current() < 0)
		return RT_CU_ERROR_INVALID_CONTEXT;
	*s = calloc(1, sizeof **s);
	(*s)->device = current();
	(*s)->queue = queues[current()]++ % 4;
	drv.live++;
	return 0;
}

static cu_result stream_destroy(struct cu_stream *s)
{
	free(s);
	drv.live--;
	return 0;
}

static cu_result stream_synchronize(struct cu_stream *s)
{
	CALL();
	(void)s;
	drv.waits++;
	return settle();
}

static cu_result stream_query(struct cu_stream *s)
{
	CALL();
	(void)s;
	return settle();
}

/* ---- events ---- */

static void note(enum sim_driver_call what, struct cu_stream *s, const void *other)
{
	if (drv.nlog < drv.log_room)
		drv.log[drv.nlog++] = (struct sim_driver_entry){what, s, other};
}

static cu_result event_create(struct cu_event **e, unsigned flags)
{
	CALL_GIVING(e);
	if (current() < 0 || (flags && flags != RT_CU_EVENT_DISABLE_TIMING))
		return RT_CU_ERROR_INVALID_VALUE;
	*e = calloc(1, sizeof **e);
	(*e)->ns = flags ? NULL : arena_new(drv.a, uint64_t);
	drv.live++;
	drv.allocations++;
	return 0;
}

static cu_result event_destroy(struct cu_event *e)
{
	free(e);
	drv.live--;
	return 0;
}

static bool stamp(void *ns, struct sim *s, unsigned rank)
{
	(void)rank;
	*(uint64_t *)ns = s->ns;
	return true;
}

static cu_result event_record(struct cu_event *e, struct cu_stream *s)
{
	CALL();
	note(SIM_DRIVER_RECORD, s, e);
	if (e->ns) {
		*e->ns = 0;
		sim_host(drv.sim, (unsigned)s->device, s->queue, stamp, e->ns);
	}
	e->stream = s;
	e->mark = sim_mark(drv.sim, (unsigned)s->device, s->queue);
	return 0;
}

static cu_result event_elapsed(float *ms, struct cu_event *from, struct cu_event *to)
{
	CALL_GIVING(ms);
	if (!from->ns || !to->ns || !*from->ns || !*to->ns ||
	    from->stream->device != to->stream->device)
		return RT_CU_ERROR_INVALID_VALUE;
	*ms = (float)((double)*to->ns - (double)*from->ns) * 1e-6F;
	return 0;
}

static cu_result stream_wait_event(struct cu_stream *s, struct cu_event *e, unsigned flags)
{
	CALL();
	note(SIM_DRIVER_WAIT, s, e);
	if (flags || !e->stream || e->stream->device != s->device)
		return RT_CU_ERROR_INVALID_VALUE;
	if (e->stream->queue != s->queue)
		sim_wait(drv.sim, (unsigned)s->device, s->queue, e->mark);
	return 0;
}

void sim_driver_host(struct cu_stream *s, bool (*fn)(void *ctx, struct sim *sim, unsigned rank),
                     void *ctx_)
{
	note(SIM_DRIVER_HOST, s, ctx_);
	sim_host(drv.sim, (unsigned)s->device, s->queue, fn, ctx_);
}

struct host_call {
	void (*fn)(void *);
	void *ctx;
};

static bool call_host(void *call, struct sim *s, unsigned rank)
{
	const struct host_call *c = call;

	(void)s;
	(void)rank;
	c->fn(c->ctx);
	return true;
}

static cu_result launch_host(struct cu_stream *s, void (*fn)(void *), void *ctx_)
{
	struct host_call *c = arena_new(drv.a, struct host_call);

	CALL();
	*c = (struct host_call){fn, ctx_};
	sim_host(drv.sim, (unsigned)s->device, s->queue, call_host, c);
	return 0;
}

static cu_result stream_is_capturing(struct cu_stream *s, int *status)
{
	CALL_GIVING(status);
	(void)s;
	*status = drv.capturing;
	return 0;
}

/* ---- modules ---- */

/* What a compiler made of the PTX cannot be simulated. */
static cu_result module_load(struct cu_module **m, const void *image)
{
	CALL();
	(void)image;
	memset(m, 0xee, sizeof *m);
	return RT_CU_ERROR_NOT_SUPPORTED;
}

static cu_result module_load_ex(struct cu_module **m, const void *image, unsigned n, int *option,
                                void **value)
{
	struct diags d;

	CALL_GIVING(m);
	(void)n;
	(void)option;
	diags_init(&d, drv.a);
	*m = arena_new(drv.a, struct cu_module);
	(*m)->m = ptx_parse(drv.a, &d, diags_add_source(&d, "module", image, strlen(image)));
	if (!(*m)->m) {
		strcpy(value[0], "not PTX");
		return UNKNOWN;
	}
	drv.live++;
	drv.loads++;
	return 0;
}

static cu_result module_unload(struct cu_module *m)
{
	(void)m;
	drv.live--;
	return 0;
}

static cu_result module_function(struct cu_function **f, struct cu_module *m, const char *name)
{
	CALL_GIVING(f);
	*f = arena_new(drv.a, struct cu_function);
	(*f)->k = sim_load(drv.sim, m->m, name);
	return (*f)->k ? 0 : RT_CU_ERROR_NOT_FOUND;
}

static cu_result function_set_attribute(struct cu_function *f, int a, int v)
{
	CALL();
	(void)f;
	(void)a;
	return v > 0 ? 0 : RT_CU_ERROR_INVALID_VALUE;
}

static cu_result function_load(struct cu_function *f)
{
	CALL();
	(void)f;
	return 0;
}

/* A launch as the driver takes it by `extra`. */
static cu_result launch(const struct cu_launch *l, struct cu_function *f, void **params,
                        void **extra)
{
	struct sim_launch_seen *x = &drv.last;
	size_t bytes;

	CALL();
	if (params || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] || !l->stream ||
	    current() != l->stream->device)
		return RT_CU_ERROR_INVALID_VALUE;
	memcpy(&bytes, extra[3], sizeof bytes);
	if (bytes > sizeof x->block_)
		return RT_CU_ERROR_INVALID_VALUE;
	*x = (struct sim_launch_seen){.grid = l->grid[0],
	                              .block = l->block[0],
	                              .shared = l->shared_bytes,
	                              .rank = (unsigned)l->stream->device,
	                              .nattr = l->nattr,
	                              .bytes = (uint32_t)bytes};
	if (l->nattr) {
		x->attr = l->attr[0].id;
		x->attr_value = l->attr[0].value.i;
	}
	memcpy(x->block_, extra[1], bytes);
	note(SIM_DRIVER_LAUNCH, l->stream, f);
	sim_launch_dynamic(drv.sim, x->rank, l->stream->queue, f->k, x->grid, x->block, x->shared,
	                   x->block_, x->bytes);
	return 0;
}

/* ---- virtual memory: an object's address is known before it is reserved ---- */

static cu_result vmm_granularity(size_t *n, const struct cu_alloc_prop *p, int option)
{
	CALL();
	(void)p;
	(void)option;
	*n = GRANULE;
	return 0;
}

static cu_result vmm_create(cu_handle *h, size_t n, const struct cu_alloc_prop *p,
                            unsigned long long flags)
{
	CALL();
	(void)flags;
	drv.live++;
	drv.allocations++;
	object[nobject] =
	        (struct object){.at = sim_alloc(drv.sim, (unsigned)p->location.id, n, "symmetric"),
	                        .bytes = n,
	                        .live = true};
	next_map = nobject;
	*h = ++nobject;
	return 0;
}

static cu_result vmm_release(cu_handle h)
{
	if (!h || h > nobject || !object[h - 1].live)
		return RT_CU_ERROR_INVALID_HANDLE;
	object[h - 1].live = false;
	drv.live--;
	return 0;
}

static cu_result vmm_reserve(cu_address *a, size_t n, size_t align, cu_address hint,
                             unsigned long long flags)
{
	CALL();
	(void)n;
	(void)align;
	(void)hint;
	(void)flags;
	*a = object[next_map].at;
	drv.live++;
	return 0;
}

static cu_result vmm_unreserve(cu_address a, size_t n)
{
	(void)a;
	(void)n;
	drv.live--;
	return 0;
}

static cu_result vmm_map(cu_address a, size_t n, size_t offset, cu_handle h,
                         unsigned long long flags)
{
	CALL();
	(void)flags;
	if (!h || h > nobject || a != object[h - 1].at || offset || n > object[h - 1].bytes)
		return RT_CU_ERROR_INVALID_VALUE;
	drv.live++;
	return 0;
}

static cu_result vmm_unmap(cu_address a, size_t n)
{
	(void)a;
	(void)n;
	drv.live--;
	return 0;
}

static cu_result vmm_access(cu_address a, size_t n, const struct cu_access *x, size_t count)
{
	CALL();
	(void)a;
	(void)n;
	return x && count ? 0 : RT_CU_ERROR_INVALID_VALUE;
}

/* ---- multicast ---- */

static cu_result multicast_granularity(size_t *n, const struct cu_multicast_prop *p, int option)
{
	CALL();
	(void)p;
	(void)option;
	*n = GRANULE;
	return 0;
}

static cu_result multicast_create(cu_handle *h, const struct cu_multicast_prop *p)
{
	CALL();
	drv.multicasts++;
	drv.live++;
	object[nobject] =
	        (struct object){.at = sim_alloc_symmetric(drv.sim, p->size, true, "multicast").mc,
	                        .bytes = p->size,
	                        .multicast = true,
	                        .live = true};
	next_map = nobject;
	*h = ++nobject;
	return 0;
}

static cu_result multicast_add(cu_handle h, cu_device d)
{
	CALL();
	(void)d;
	return h && h <= nobject && object[h - 1].multicast ? 0 : RT_CU_ERROR_INVALID_HANDLE;
}

static cu_result multicast_bind(cu_handle h, size_t at, cu_handle mem, size_t mem_at, size_t n,
                                unsigned long long flags)
{
	struct sim_block *all, *own;

	CALL();
	(void)flags;
	if (at || mem_at || n > object[h - 1].bytes || n > object[mem - 1].bytes)
		return RT_CU_ERROR_INVALID_VALUE;
	all = sim_find(drv.sim, object[h - 1].at);
	own = sim_find(drv.sim, object[mem - 1].at);
	all->replica[own->rank] = own;
	return 0;
}

static cu_result multicast_unbind(cu_handle h, cu_device d, size_t at, size_t n)
{
	(void)h;
	(void)d;
	(void)at;
	(void)n;
	return 0;
}

static const struct rt_driver table = {
        .init = init,
        .version = version,
        .error_name = error_name,
        .error_string = error_string,
        .device_count = device_count,
        .device_get = device_get,
        .device_attribute = device_attribute,
        .device_name = device_name,
        .device_uuid = device_uuid,
        .device_can_access = device_can_access,
        .device_p2p = device_p2p,
        .ctx_retain = ctx_retain,
        .ctx_release = ctx_release,
        .ctx_push = ctx_push,
        .ctx_pop = ctx_pop,
        .ctx_synchronize = ctx_synchronize,
        .ctx_priorities = ctx_priorities,
        .mem_alloc = mem_alloc,
        .mem_free = mem_free,
        .copy_to_device = copy_to_device,
        .copy_to_host = copy_to_host,
        .copy = copy,
        .set_d8 = set_d8,
        .set_d32 = set_d32,
        .host_alloc = host_alloc,
        .host_free = host_free,
        .stream_create = stream_create,
        .stream_destroy = stream_destroy,
        .stream_synchronize = stream_synchronize,
        .stream_query = stream_query,
        .stream_wait_event = stream_wait_event,
        .stream_is_capturing = stream_is_capturing,
        .launch_host = launch_host,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .event_record = event_record,
        .event_elapsed = event_elapsed,
        .module_load = module_load,
        .module_load_ex = module_load_ex,
        .module_unload = module_unload,
        .module_function = module_function,
        .function_set_attribute = function_set_attribute,
        .function_load = function_load,
        .launch = launch,
        .vmm_granularity = vmm_granularity,
        .vmm_create = vmm_create,
        .vmm_release = vmm_release,
        .vmm_reserve = vmm_reserve,
        .vmm_unreserve = vmm_unreserve,
        .vmm_map = vmm_map,
        .vmm_unmap = vmm_unmap,
        .vmm_access = vmm_access,
        .multicast_granularity = multicast_granularity,
        .multicast_create = multicast_create,
        .multicast_add = multicast_add,
        .multicast_bind = multicast_bind,
        .multicast_unbind = multicast_unbind,
};

struct sim_driver *sim_driver_begin(struct arena *a, const struct sim_driver_options *o)
{
	memset(&drv, 0, sizeof drv);
	memset(queues, 0, sizeof queues);
	memset(object, 0, sizeof object);
	nobject = depth = next_map = 0;
	drv.table = table;
	drv.o = *o;
	drv.o.sim.ranks = o->gpus;
	drv.a = a;
	drv.sim = sim_new(a, &drv.o.sim);
	for (unsigned i = 0; i < SIM_MAX_RANKS; i++)
		ctx[i].device = (int)i;
	return &drv;
}
