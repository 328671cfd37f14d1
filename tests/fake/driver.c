/* The fake driver: contexts, streams, memory; see fake.h. */
#include "tests/fake/fake.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct fake fake;
_Thread_local struct fake_thread fake_thread;

enum { PAGE = 1 << 16, MAX = 512, META = 4096 };

/* Behind the memory, in its file, so that every process that has it sees it. */
struct meta {
	uint64_t size;
	int device; /* -1: a multicast object */
	unsigned num_devices;
	int handle_types;
	atomic_uint added;
};

struct object { /* a handle is its number + 1 */
	int fd; /* -1: free */
	struct meta *meta;
};

struct range {
	cu_address at;
	size_t size;
	int device;      /* of the memory that is mapped; -1: multicast; -2: none */
	uint32_t access; /* devices */
	bool used, plain;
};

struct cu_ctx {
	cu_device device;
};
struct cu_event {
	double us;
};

struct cu_stream {
	double us; /* the clock: what was enqueued has ended by then */
	struct cu_ctx *ctx;
	int asked;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object objects[MAX];
static struct range ranges[MAX];
static struct cu_ctx contexts[FAKE_DEVICES];
static int retained[FAKE_DEVICES];
static _Thread_local struct cu_ctx *stack[64];
static _Thread_local int depth;
static _Thread_local int capture_mode;

/* Copies on their way. */
static struct held {
	void *to;
	cu_address from;
	size_t n;
} held[64];
static unsigned nheld;

void fake_reset(int devices)
{
	memset(&fake, 0, sizeof fake);
	fake.devices = devices;
	memset(retained, 0, sizeof retained);
	memset(ranges, 0, sizeof ranges);
	for (int i = 0; i < MAX; i++)
		objects[i].fd = -1;
	for (int i = 0; i < FAKE_DEVICES; i++)
		contexts[i].device = i;
	fake_thread = (struct fake_thread){0};
	depth = 0;
	nheld = 0;
}

int fake_alive(void)
{
	return fake.contexts + fake.streams + fake.handles + fake.reservations + fake.mappings +
	       fake.allocations + fake.bound + fake.comms + fake.modules;
}

static cu_result wrong(const char *what)
{
	pthread_mutex_lock(&lock);
	if (fake.wrong++ == 0)
		snprintf(fake.what_wrong, sizeof fake.what_wrong, "%s", what);
	pthread_mutex_unlock(&lock);
	return RT_CU_ERROR_INVALID_VALUE;
}

/* Whether this call is the one that fails. */
static bool fails(const char *symbol)
{
	if (++fake_thread.calls != fake_thread.fail_at)
		return false;
	fake_thread.failed = symbol;
	return true;
}
/* One that gives something: when it fails, what is there afterwards is of no use, as drivers do. */
#define MAY_FAIL_GIVING(member, out)                                  \
	do {                                                          \
		if (fails(rt_driver_symbol(RT_DRIVER_NO_##member))) { \
			memset((out), 0xee, sizeof *(out));           \
			return fake_thread.calls % 2 ? 999 : 2;       \
		}                                                     \
	} while (0)
#define MAY_FAIL(member)                                            \
	do {                                                        \
		if (fails(rt_driver_symbol(RT_DRIVER_NO_##member))) \
			return fake_thread.calls % 2 ? 999 : 2;     \
	} while (0)

static cu_result error_name(cu_result r, const char **s)
{
	*s = r == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : r == 999 ? "CUDA_ERROR_UNKNOWN" : "CUDA_ERROR";
	return 0;
}

static cu_result error_string(cu_result r, const char **s)
{
	(void)r;
	*s = "as the test wants it";
	return 0;
}

static cu_result init(unsigned flags)
{
	(void)flags;
	MAY_FAIL(init);
	return 0;
}

static cu_result version(int *v)
{
	MAY_FAIL_GIVING(version, v);
	*v = 13000;
	return 0;
}

static cu_result device_count(int *n)
{
	MAY_FAIL_GIVING(device_count, n);
	*n = fake.devices;
	return 0;
}

static cu_result device_get(cu_device *d, int ordinal)
{
	MAY_FAIL_GIVING(device_get, d);
	*d = ordinal;
	return ordinal >= 0 && ordinal < fake.devices ? 0 : RT_CU_ERROR_INVALID_DEVICE;
}

static cu_result device_attribute(int *v, int a, cu_device d)
{
	(void)d;
	MAY_FAIL_GIVING(device_attribute, v);
	switch (a) {
	case RT_CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
		*v = !fake.no_multicast;
		break;
	case RT_CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
		*v = !fake.no_vmm;
		break;
	case RT_CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
		*v = !fake.no_fd;
		break;
	case RT_CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
		*v = fake.fabric;
		break;
	case RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*v = 9;
		break;
	default:
		*v = 132;
	}
	return 0;
}

static cu_result device_name(char *name, int len, cu_device d)
{
	MAY_FAIL(device_name);
	snprintf(name, (size_t)len, "fake GPU %d", d);
	return 0;
}

static cu_result device_uuid(struct cu_uuid *u, cu_device d)
{
	MAY_FAIL_GIVING(device_uuid, u);
	memset(u, 0, sizeof *u);
	u->bytes[0] = (unsigned char)d;
	return 0;
}

static cu_result ctx_retain(struct cu_ctx **c, cu_device d)
{
	MAY_FAIL_GIVING(ctx_retain, c);
	pthread_mutex_lock(&lock);
	retained[d]++;
	fake.contexts++;
	pthread_mutex_unlock(&lock);
	*c = &contexts[d];
	return 0;
}

static cu_result ctx_release(cu_device d)
{
	int left;

	pthread_mutex_lock(&lock);
	fake.contexts--;
	left = --retained[d];
	pthread_mutex_unlock(&lock);
	return left < 0 ? wrong("a context is released that was not retained") : 0;
}

static cu_result ctx_push(struct cu_ctx *c)
{
	if (depth >= 64)
		return wrong("contexts are pushed and not popped");
	stack[depth++] = c;
	return 0;
}

static cu_result ctx_pop(struct cu_ctx **c)
{
	if (depth == 0)
		return wrong("a context is popped that was not pushed");
	*c = stack[--depth];
	return 0;
}

static struct cu_ctx *current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

static cu_result stream_create(struct cu_stream **s, unsigned flags, int priority)
{
	(void)flags;
	(void)priority;
	MAY_FAIL_GIVING(stream_create, s);
	if (!current())
		return wrong("a stream without a context");
	*s = calloc(1, sizeof **s);
	(*s)->ctx = current();
	fake.streams++;
	return 0;
}

static cu_result stream_destroy(struct cu_stream *s)
{
	free(s);
	fake.streams--;
	return 0;
}

static cu_result stream_query(struct cu_stream *s)
{
	MAY_FAIL(stream_query);
	if (fake.capturing && capture_mode != RT_CU_STREAM_CAPTURE_MODE_RELAXED)
		return wrong("a query that ends a capture");
	if (fake.sticky)
		return fake.sticky;
	if (fake.hold && --fake.hold)
		return RT_CU_ERROR_NOT_READY;
	for (unsigned i = 0; i < nheld; i++)
		memcpy(held[i].to, (void *)(uintptr_t)held[i].from, held[i].n);
	nheld = 0;
	return fake.hang || s->asked++ % (fake.slow + 1) < fake.slow ? RT_CU_ERROR_NOT_READY : 0;
}

static cu_result stream_synchronize(struct cu_stream *s)
{
	(void)s;
	return fake.sticky;
}

/* ---- events: streams have clocks, which only the test's work and waits move ---- */

double *fake_clock(struct cu_stream *s)
{
	return &s->us;
}

static cu_result event_create(struct cu_event **e, unsigned flags)
{
	(void)flags;
	MAY_FAIL_GIVING(event_create, e);
	if (!current())
		return wrong("an event without a context");
	*e = calloc(1, sizeof **e);
	fake.streams++;
	return 0;
}

static cu_result event_destroy(struct cu_event *e)
{
	free(e);
	fake.streams--;
	return 0;
}

static cu_result event_record(struct cu_event *e, struct cu_stream *s)
{
	MAY_FAIL(event_record);
	e->us = s->us;
	return 0;
}

static cu_result stream_wait_event(struct cu_stream *s, struct cu_event *e, unsigned flags)
{
	(void)flags;
	MAY_FAIL(stream_wait_event);
	s->us = e->us > s->us ? e->us : s->us;
	return 0;
}

static cu_result event_elapsed(float *ms, struct cu_event *from, struct cu_event *to)
{
	MAY_FAIL(event_elapsed);
	*ms = (float)((to->us - from->us) * 1e-3);
	return 0;
}

static cu_result thread_capture_mode(int *mode)
{
	int was = capture_mode;

	MAY_FAIL(thread_capture_mode);
	capture_mode = *mode;
	*mode = was;
	return 0;
}

/* ---- memory ---- */

static struct range *range_of(cu_address a, size_t bytes)
{
	for (int i = 0; i < MAX; i++)
		if (ranges[i].used && a >= ranges[i].at &&
		    a + bytes <= ranges[i].at + ranges[i].size)
			return &ranges[i];
	return NULL;
}

static struct range *new_range(void)
{
	for (int i = 0; i < MAX; i++)
		if (!ranges[i].used)
			return &ranges[i];
	return NULL;
}

/* Whether the current context's device may touch the bytes; *lost: and whether in vain. */
static bool may_touch(cu_address a, size_t bytes, struct cu_stream *s, bool *lost)
{
	struct range *r;
	bool ok;

	*lost = false;
	if (!current() || !s || s->ctx != current())
		return false;
	pthread_mutex_lock(&lock);
	r = range_of(a, bytes);
	ok = r && (r->plain || (r->device >= -1 && (r->access >> current()->device & 1)));
	if (ok && !r->plain && r->device >= 0)
		*lost = fake.lost[current()->device][r->device];
	pthread_mutex_unlock(&lock);
	return ok;
}

static void *host(cu_address a)
{
	return (void *)(uintptr_t)a;
}

static cu_result copy_to_device(cu_address to, const void *from, size_t n, struct cu_stream *s)
{
	bool lost;

	MAY_FAIL(copy_to_device);
	if (!may_touch(to, n, s, &lost))
		return wrong("a copy to where the device has no access");
	if (!lost)
		memcpy(host(to), from, n);
	return 0;
}

static cu_result copy(cu_address to, cu_address from, size_t n, struct cu_stream *s)
{
	(void)s;
	MAY_FAIL(copy);
	memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
	return 0;
}

static cu_result copy_to_host(void *to, cu_address from, size_t n, struct cu_stream *s)
{
	bool lost;

	MAY_FAIL(copy_to_host);
	if (!may_touch(from, n, s, &lost))
		return wrong("a copy from where the device has no access");
	if (fake.hold || fake.sticky) {
		if (nheld == sizeof held / sizeof *held)
			return wrong("copies pile up");
		held[nheld++] = (struct held){to, from, n};
		return 0;
	}
	memcpy(to, host(from), n);
	return 0;
}

static cu_result set_d8(cu_address a, unsigned char v, size_t n, struct cu_stream *s)
{
	bool lost;

	MAY_FAIL(set_d8);
	if (!may_touch(a, n, s, &lost))
		return wrong("memset where the device has no access");
	memset(host(a), v, n);
	return 0;
}

static cu_result set_d32(cu_address a, unsigned v, size_t n, struct cu_stream *s)
{
	bool lost;

	MAY_FAIL(set_d32);
	if (!may_touch(a, n * 4, s, &lost))
		return wrong("memset where the device has no access");
	for (size_t i = 0; i < n && !lost; i++)
		memcpy((char *)host(a) + i * 4, &v, 4);
	return 0;
}

static cu_result mem_alloc(cu_address *a, size_t n)
{
	struct range *r;

	MAY_FAIL_GIVING(mem_alloc, a);
	if (!current())
		return wrong("an allocation without a context");
	*a = (cu_address)(uintptr_t)aligned_alloc(256,
	                                          (n + 255) & ~(size_t)255); /* as drivers do */
	memset((void *)(uintptr_t)*a, 0, n);
	pthread_mutex_lock(&lock);
	r = new_range();
	*r = (struct range){.at = *a, .size = n, .used = true, .plain = true};
	pthread_mutex_unlock(&lock);
	fake.allocations++;
	return 0;
}

static cu_result mem_free(cu_address a)
{
	struct range *r;

	pthread_mutex_lock(&lock);
	r = range_of(a, 1);
	if (r)
		r->used = false;
	pthread_mutex_unlock(&lock);
	if (!r)
		return wrong("memory is freed that was not allocated");
	free(host(a));
	fake.allocations--;
	return 0;
}

static cu_result vmm_granularity(size_t *n, const struct cu_alloc_prop *p, int option)
{
	(void)option;
	MAY_FAIL_GIVING(vmm_granularity, n);
	*n = PAGE;
	return p->location.id < fake.devices ? 0 : RT_CU_ERROR_INVALID_DEVICE;
}

static cu_result add_object(int fd, cu_handle *h)
{
	struct stat st;
	int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < MAX && objects[i].fd >= 0; i++)
		;
	objects[i].fd = fd;
	pthread_mutex_unlock(&lock);
	if (fstat(fd, &st) != 0 || st.st_size < META)
		return wrong("what is imported is not memory");
	objects[i].meta =
	        mmap(NULL, META, PROT_READ | PROT_WRITE, MAP_SHARED, fd, st.st_size - META);
	*h = (cu_handle)i + 1;
	fake.handles++;
	return 0;
}

static struct object *object(cu_handle h)
{
	return h >= 1 && h <= MAX && objects[h - 1].fd >= 0 ? &objects[h - 1] : NULL;
}

static cu_result make_object(cu_handle *h, size_t n, int device, unsigned num_devices, int types)
{
	int fd = memfd_create("fake", MFD_CLOEXEC);
	cu_result r;

	if (n == 0 || n % PAGE)
		return wrong("a size that is not of the granularity");
	if (fd < 0 || ftruncate(fd, (off_t)(n + META)) != 0)
		abort();
	r = add_object(fd, h);
	object(*h)->meta->size = n;
	object(*h)->meta->device = device;
	object(*h)->meta->num_devices = num_devices;
	object(*h)->meta->handle_types = types;
	return r;
}

static cu_result vmm_create(cu_handle *h, size_t n, const struct cu_alloc_prop *p,
                            unsigned long long flags)
{
	(void)flags;
	MAY_FAIL_GIVING(vmm_create, h);
	if (p->type != RT_CU_MEM_ALLOCATION_TYPE_PINNED ||
	    p->location.type != RT_CU_MEM_LOCATION_TYPE_DEVICE)
		return wrong("memory of no kind");
	return make_object(h, n, p->location.id, 0, p->handle_types);
}

static cu_result vmm_release(cu_handle h)
{
	struct object *o = object(h);

	if (!o)
		return wrong("memory is released that is not there");
	munmap(o->meta, META);
	pthread_mutex_lock(&lock);
	close(o->fd);
	o->fd = -1;
	pthread_mutex_unlock(&lock);
	fake.handles--;
	return 0;
}

static cu_result vmm_reserve(cu_address *a, size_t n, size_t align, cu_address hint,
                             unsigned long long flags)
{
	void *p;

	(void)align;
	(void)hint;
	(void)flags;
	MAY_FAIL_GIVING(vmm_reserve, a);
	p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return RT_CU_ERROR_OUT_OF_MEMORY;
	*a = (cu_address)(uintptr_t)p;
	pthread_mutex_lock(&lock);
	*new_range() = (struct range){.at = *a, .size = n, .device = -2, .used = true};
	pthread_mutex_unlock(&lock);
	fake.reservations++;
	return 0;
}

/* The reservation that is exactly this. */
static struct range *exact(cu_address a, size_t n)
{
	struct range *r;

	pthread_mutex_lock(&lock);
	r = range_of(a, n);
	pthread_mutex_unlock(&lock);
	return r && r->at == a && r->size == n && !r->plain ? r : NULL;
}

static cu_result vmm_unreserve(cu_address a, size_t n)
{
	struct range *r = exact(a, n);

	if (!r || r->device != -2)
		return wrong("addresses are given back that are mapped or were not reserved");
	pthread_mutex_lock(&lock);
	r->used = false;
	pthread_mutex_unlock(&lock);
	munmap(host(a), n);
	fake.reservations--;
	return 0;
}

static cu_result vmm_map(cu_address a, size_t n, size_t offset, cu_handle h,
                         unsigned long long flags)
{
	struct range *r = exact(a, n);
	struct object *o = object(h);

	(void)flags;
	MAY_FAIL(vmm_map);
	if (!r || !o || offset || r->device != -2 || o->meta->size < n)
		return wrong("a mapping that does not fit");
	if (o->meta->device == -1 && o->meta->added != o->meta->num_devices)
		return wrong("a multicast object is mapped before all devices are added");
	if (mmap(host(a), n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, o->fd, 0) ==
	    MAP_FAILED)
		return RT_CU_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	r->device = o->meta->device;
	r->access = 0;
	pthread_mutex_unlock(&lock);
	fake.mappings++;
	return 0;
}

static cu_result vmm_unmap(cu_address a, size_t n)
{
	struct range *r = exact(a, n);

	if (!r || r->device == -2)
		return wrong("what is not mapped is unmapped");
	mmap(host(a), n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
	r->device = -2;
	fake.mappings--;
	return 0;
}

static cu_result vmm_access(cu_address a, size_t n, const struct cu_access *x, size_t count)
{
	struct range *r = exact(a, n);

	MAY_FAIL(vmm_access);
	if (!r || r->device == -2)
		return wrong("access to what is not mapped");
	for (size_t i = 0; i < count; i++) {
		if (r->access >> x[i].location.id & 1)
			return wrong("access is given to a device twice");
		r->access |= 1u << x[i].location.id;
	}
	return 0;
}

/* A fabric handle: zeros, then where the file is. */
struct fabric {
	char zeros[48];
	int pid, fd;
	char more[8];
};
_Static_assert(sizeof(struct fabric) == 64, "as the driver's");

static cu_result vmm_export(void *os, cu_handle h, int type, unsigned long long flags)
{
	struct object *o = object(h);
	struct fabric f = {.pid = getpid()};
	int fd;

	(void)flags;
	if (fails(rt_driver_symbol(RT_DRIVER_NO_vmm_export))) {
		memset(os, 0xee, type == RT_CU_MEM_HANDLE_TYPE_FABRIC ? sizeof f : sizeof fd);
		return 999;
	}
	if (!o || o->meta->handle_types != type)
		return wrong("what is exported is not memory, or cannot be exported so");
	if (type == RT_CU_MEM_HANDLE_TYPE_FABRIC) {
		f.fd = o->fd;
		memcpy(os, &f, sizeof f);
		return 0;
	}
	fd = dup(o->fd);
	memcpy(os, &fd, sizeof fd);
	return 0;
}

static cu_result vmm_import(cu_handle *h, void *os, int type)
{
	struct fabric f;
	char path[64];

	MAY_FAIL_GIVING(vmm_import, h);
	if (type != RT_CU_MEM_HANDLE_TYPE_FABRIC)
		return add_object(dup((int)(intptr_t)os), h);
	memcpy(&f, os, sizeof f);
	snprintf(path, sizeof path, "/proc/%d/fd/%d", f.pid, f.fd);
	return add_object(open(path, O_RDWR | O_CLOEXEC), h);
}

/* ---- multicast ---- */

static cu_result multicast_granularity(size_t *n, const struct cu_multicast_prop *p, int option)
{
	(void)p;
	(void)option;
	fake.multicast_calls++;
	MAY_FAIL_GIVING(multicast_granularity, n);
	*n = 2 * PAGE;
	return 0;
}

static cu_result multicast_create(cu_handle *h, const struct cu_multicast_prop *p)
{
	fake.multicast_calls++;
	MAY_FAIL_GIVING(multicast_create, h);
	if (p->size % (2 * PAGE))
		return wrong("a multicast object that is not of the granularity");
	return make_object(h, p->size, -1, p->num_devices, (int)p->handle_types);
}

static cu_result multicast_add(cu_handle h, cu_device d)
{
	struct object *o = object(h);

	(void)d;
	fake.multicast_calls++;
	MAY_FAIL(multicast_add);
	if (!o || o->meta->device != -1)
		return wrong("a device is added to what is not a multicast object");
	return ++o->meta->added <= o->meta->num_devices ? 0 : wrong("too many devices are added");
}

static cu_result multicast_bind(cu_handle h, size_t at, cu_handle mem, size_t mem_at, size_t n,
                                unsigned long long flags)
{
	struct object *o = object(h), *m = object(mem);

	(void)at;
	(void)mem_at;
	(void)flags;
	fake.multicast_calls++;
	MAY_FAIL(multicast_bind);
	if (!o || !m || o->meta->device != -1 || m->meta->device < 0 || n > m->meta->size)
		return wrong("what is bound is not memory");
	if (o->meta->added != o->meta->num_devices)
		return wrong("memory is bound before all devices are added");
	fake.bound++;
	return 0;
}

static cu_result multicast_unbind(cu_handle h, cu_device d, size_t at, size_t n)
{
	(void)d;
	(void)at;
	(void)n;
	fake.multicast_calls++;
	if (!object(h))
		return wrong("unbound from what is not there");
	fake.bound--;
	return 0;
}

/* ---- kernels, which do nothing ---- */

struct cu_module {
	int unused;
};

static cu_result ctx_priorities(int *least, int *greatest)
{
	MAY_FAIL_GIVING(ctx_priorities, least);
	*least = 0;
	*greatest = -1;
	return 0;
}

static cu_result host_alloc(void **p, size_t n, unsigned flags)
{
	(void)flags;
	MAY_FAIL_GIVING(host_alloc, p);
	*p = calloc(1, n);
	fake.allocations++;
	return 0;
}

static cu_result host_free(void *p)
{
	free(p);
	fake.allocations--;
	return 0;
}

static cu_result module_load_ex(struct cu_module **m, const void *image, unsigned n, int *option,
                                void **value)
{
	(void)image;
	(void)n;
	(void)option;
	(void)value;
	MAY_FAIL_GIVING(module_load_ex, m);
	*m = calloc(1, sizeof **m);
	fake.modules++;
	return 0;
}

static cu_result module_unload(struct cu_module *m)
{
	free(m);
	fake.modules--;
	return 0;
}

static cu_result module_function(struct cu_function **f, struct cu_module *m, const char *name)
{
	(void)name;
	MAY_FAIL_GIVING(module_function, f);
	*f = (struct cu_function *)m;
	return 0;
}

static cu_result launch(const struct cu_launch *l, struct cu_function *f, void **params,
                        void **extra)
{
	(void)f;
	(void)params;
	MAY_FAIL(launch);
	if (fake.launched)
		fake.launched(l, extra);
	return 0;
}

const struct rt_driver fake_driver = {
        .ctx_priorities = ctx_priorities,
        .host_alloc = host_alloc,
        .host_free = host_free,
        .module_load_ex = module_load_ex,
        .module_unload = module_unload,
        .module_function = module_function,
        .launch = launch,
        .init = init,
        .error_name = error_name,
        .error_string = error_string,
        .version = version,
        .device_count = device_count,
        .device_get = device_get,
        .device_attribute = device_attribute,
        .device_name = device_name,
        .device_uuid = device_uuid,
        .ctx_retain = ctx_retain,
        .ctx_release = ctx_release,
        .ctx_push = ctx_push,
        .ctx_pop = ctx_pop,
        .stream_create = stream_create,
        .stream_destroy = stream_destroy,
        .stream_query = stream_query,
        .stream_synchronize = stream_synchronize,
        .thread_capture_mode = thread_capture_mode,
        .copy_to_device = copy_to_device,
        .copy_to_host = copy_to_host,
        .copy = copy,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .event_record = event_record,
        .event_elapsed = event_elapsed,
        .stream_wait_event = stream_wait_event,
        .set_d8 = set_d8,
        .set_d32 = set_d32,
        .mem_alloc = mem_alloc,
        .mem_free = mem_free,
        .vmm_granularity = vmm_granularity,
        .vmm_create = vmm_create,
        .vmm_release = vmm_release,
        .vmm_reserve = vmm_reserve,
        .vmm_unreserve = vmm_unreserve,
        .vmm_map = vmm_map,
        .vmm_unmap = vmm_unmap,
        .vmm_access = vmm_access,
        .vmm_export = vmm_export,
        .vmm_import = vmm_import,
        .multicast_granularity = multicast_granularity,
        .multicast_create = multicast_create,
        .multicast_add = multicast_add,
        .multicast_bind = multicast_bind,
        .multicast_unbind = multicast_unbind,
};
