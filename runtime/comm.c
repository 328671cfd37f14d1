/* Making a communicator: its processes, its GPUs, what all know of each rank. */
#include "runtime/comm.h"
#include "runtime/fdpass.h"
#include "support/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELLO_VERSION = 1 };

/* What a process says first; `mine` of them have to be equal. */
struct hello {
	uint32_t version, size, nlocal, struct_bytes;
	char plait[32];
	int32_t status;
	char text[400];
};

struct creation {
	struct plait_comm_options o;
	const struct rt_hooks *h;
	struct rt_env env;
	plait_comm *c;
};

static enum plait_status usage(plait_comm *c, const char *what)
{
	return rt_fail(&c->error, PLAIT_USAGE, "%s", what);
}

/* ---- the processes ---- */

static enum plait_status boot_local(struct creation *k)
{
	plait_comm *c = k->c;

	c->size = k->o.size ? k->o.size : k->o.nlocal;
	if (c->size > CG_MAX_RANKS || (k->o.nlocal && k->o.nlocal != c->size))
		return rt_fail(
		        &c->error, PLAIT_USAGE,
		        "size is %u and nlocal %u: one process has all the ranks, at most %d",
		        c->size, k->o.nlocal, CG_MAX_RANKS);
	c->nlocal = c->size; /* 0: the number of GPUs, when it is known */
	c->boot = rt_boot_local(&c->error);
	return c->error.status;
}

/* From the number of processes to that of ranks, or from ranks to processes. */
static enum plait_status share(struct creation *k, unsigned processes)
{
	plait_comm *c = k->c;
	uint64_t nlocal = k->o.nlocal, size = k->o.size;

	if (!processes || processes > CG_MAX_RANKS)
		return rt_fail(&c->error, PLAIT_USAGE, "%u processes, not 1 to %d", processes,
		               CG_MAX_RANKS);
	if (!nlocal)
		nlocal = size ? size / processes : 1;
	if (!size)
		size = nlocal * processes;
	if (nlocal == 0 || size > CG_MAX_RANKS || size != nlocal * processes)
		return rt_fail(
		        &c->error, PLAIT_USAGE,
		        "%u processes of %llu ranks each are not a group of %llu (at most %d)",
		        processes, (unsigned long long)nlocal, (unsigned long long)size,
		        CG_MAX_RANKS);
	/* only now: what is freed after a failure is counted by these */
	c->processes = processes;
	c->nlocal = (unsigned)nlocal;
	c->size = (unsigned)size;
	return PLAIT_OK;
}

static enum plait_status boot_callback(struct creation *k)
{
	plait_comm *c = k->c;

	if (!k->o.allgather)
		return usage(c, "no allgather is given");
	if (share(k, k->o.processes) != PLAIT_OK)
		return c->error.status;
	if (k->o.process >= k->o.processes)
		return rt_fail(&c->error, PLAIT_USAGE, "process %u of %u", k->o.process,
		               k->o.processes);
	c->boot = rt_boot_callback(k->o.allgather, k->o.allgather_ctx, k->o.process, k->o.processes,
	                           &c->error);
	return c->error.status;
}

static enum plait_status boot_env(struct creation *k)
{
	plait_comm *c = k->c;
	unsigned each = k->o.nlocal ? k->o.nlocal : 1, base;
	struct rt_world w;

	if (rt_world_read(&k->env, &w, &c->error) != PLAIT_OK)
		return c->error.status;
	if (k->o.base % each || k->o.size % each)
		return rt_fail(&c->error, PLAIT_USAGE,
		               "base %u and size %u are not multiples of the %u ranks of a process",
		               k->o.base, k->o.size, each);
	base = k->o.base / each;
	if (base >= w.processes || k->o.size / each > w.processes - base)
		return rt_fail(&c->error, PLAIT_USAGE,
		               "the group [%u, %llu) is not within the %llu ranks that %s started",
		               k->o.base, (unsigned long long)k->o.base + k->o.size,
		               (unsigned long long)w.processes * each, w.launcher);
	if (share(k, k->o.size ? k->o.size / each : w.processes - base) != PLAIT_OK)
		return c->error.status;
	if (w.process < base || w.process - base >= c->processes)
		return rt_fail(&c->error, PLAIT_USAGE,
		               "process %u is not one of the group [%u, %u): only its own may join",
		               w.process, base, base + c->processes);
	c->boot = rt_boot_tcp(&w, base, c->processes, c->setup_timeout_ns, &c->error);
	return c->error.status;
}

/*
 * NCCL's functions come from the caller's library when it is there: it is the one that made its
 * comm.
 */
static enum plait_status boot_nccl(struct creation *k)
{
	plait_comm *c = k->c;
	int n = 0;

	if (!k->o.nccl)
		return usage(c, "no NCCL communicator is given");
	c->nccl = k->h->nccl;
	if (!c->nccl && rt_nccl_open(&c->own_nccl, NULL, &c->error) != PLAIT_OK)
		return c->error.status;
	if (!c->nccl)
		c->nccl = &c->own_nccl;
	if (!RT_NC(c->nccl, &c->error, count, k->o.nccl, &n))
		return c->error.status;
	if (k->o.nlocal > 1 || share(k, (unsigned)n) != PLAIT_OK)
		return usage(c, "an NCCL communicator is of one rank a process, of at most 16");
	c->boot = rt_boot_nccl(c->drv, c->nccl, k->o.nccl, c->setup_timeout_ns, &c->error);
	return c->error.status;
}

static void open_driver(struct creation *k)
{
	plait_comm *c = k->c;

	if (k->h->drv)
		c->drv = k->h->drv;
	else if (rt_driver_open(&c->own_drv, NULL, &c->error) == PLAIT_OK)
		c->drv = &c->own_drv;
}

static enum plait_status bootstrap(struct creation *k)
{
	/* clang-format off */
	static enum plait_status (*const boots[])(struct creation *) = {
		[PLAIT_BOOT_LOCAL]     = boot_local,
		[PLAIT_BOOT_ALLGATHER] = boot_callback,
		[PLAIT_BOOT_ENV]       = boot_env,
		[PLAIT_BOOT_NCCL]      = boot_nccl,
	};
	/* clang-format on */
	plait_comm *c = k->c;
	struct rt_error early = {0};

	if ((unsigned)k->o.bootstrap >= sizeof boots / sizeof *boots ||
	    (unsigned)k->o.at_most > PLAIT_BY_NCCL)
		return usage(c, "'bootstrap' or 'at_most' has an unknown value");
	/* A process without a driver still comes, to say so to the others. */
	open_driver(k);
	if (k->o.bootstrap != PLAIT_BOOT_NCCL) {
		early = c->error;
		rt_error_clear(&c->error);
	}
	if (c->error.status != PLAIT_OK || boots[k->o.bootstrap](k) != PLAIT_OK)
		return c->error.status;
	c->error = early;
	c->boot->timeout_ns = c->setup_timeout_ns;
	c->process = c->boot->process;
	c->processes = c->boot->processes;
	c->first = c->process * c->nlocal;
	return PLAIT_OK;
}

/* ---- the GPUs of this process ---- */

static int ordinal_of(struct creation *k, unsigned l, int count)
{
	int local;

	if (k->o.device)
		return k->o.device[l];
	if (k->o.bootstrap == PLAIT_BOOT_NCCL &&
	    RT_NC(k->c->nccl, &k->c->error, cu_device, k->o.nccl, &local))
		return local;
	if (k->c->nlocal > 1 || k->c->processes == 1)
		return (int)l;
	local = rt_local_rank(&k->env);
	/* A launcher may show each process its own GPU only. */
	return local < 0 ? (int)k->c->process : count == 1 ? 0 : local;
}

static bool open_local(struct creation *k, unsigned l, int count)
{
	plait_comm *c = k->c;
	struct rt_local *at = &c->local[l];
	struct rt_error *e = &c->error;
	int ordinal = ordinal_of(k, l, count);
	bool ok;

	at->rank = c->first + l;
	if (e->status != PLAIT_OK)
		return false;
	if (ordinal < 0 || ordinal >= count) {
		rt_fail(e, PLAIT_USAGE,
		        "there is no GPU %d: the driver finds %d; say in 'device' which to use",
		        ordinal, count);
		return false;
	}
	c->rank[at->rank].ordinal = ordinal;
	if (!RT_CU_GIVES(c->drv, e, device_get, &at->device, ordinal) ||
	    !RT_CU_GIVES(c->drv, e, ctx_retain, &at->ctx, at->device))
		return false;
	if (!rt_enter(c, l))
		return false;
	ok = RT_CU_GIVES(c->drv, e, stream_create, &at->stream, RT_CU_STREAM_NON_BLOCKING, 0);
	rt_leave(c);
	return ok;
}

/* A fact that the driver need not know is 0 there. */
static int attribute(plait_comm *c, unsigned l, int which)
{
	int v = 0;

	return c->drv->device_attribute(&v, which, c->local[l].device) == RT_CU_SUCCESS ? v : 0;
}

static bool describe(struct creation *k, unsigned l)
{
	plait_comm *c = k->c;
	struct rt_rank *r = &c->rank[c->local[l].rank];
	struct cu_uuid uuid;

	if (!RT_CU(c->drv, &c->error, device_uuid, &uuid, c->local[l].device) ||
	    !RT_CU(c->drv, &c->error, device_name, r->name, sizeof r->name, c->local[l].device))
		return false;
	memcpy(r->uuid, uuid.bytes, sizeof r->uuid);
	r->host = rt_host_id(&k->env);
	r->process = c->process;
	r->major = attribute(c, l, RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	r->minor = attribute(c, l, RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	r->sms = attribute(c, l, RT_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	r->shared_optin =
	        (uint32_t)attribute(c, l, RT_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
	r->vmm = attribute(c, l, RT_CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
	r->fd = attribute(c, l, RT_CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
	r->fabric = attribute(c, l, RT_CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
	r->multicast_off = rt_why_no_multicast(&k->env, k->o.at_most);
	if (!r->multicast_off)
		r->multicast = attribute(c, l, RT_CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED);
	return true;
}

static void open_gpus(struct creation *k)
{
	plait_comm *c = k->c;
	int count = 0;

	if (!c->drv || !RT_CU(c->drv, &c->error, device_count, &count))
		return;
	if (k->o.bootstrap == PLAIT_BOOT_LOCAL && c->size == 0) {
		c->size = c->nlocal = (unsigned)(count < CG_MAX_RANKS ? count : CG_MAX_RANKS);
		if (count <= 0)
			rt_fail(&c->error, PLAIT_ENV, "the driver finds no GPU");
	}
	for (unsigned l = 0; l < c->nlocal && c->error.status == PLAIT_OK; l++)
		if (!open_local(k, l, count) || !describe(k, l))
			rt_blame(c, l);
}

/* ---- what all agree on ---- */

static enum plait_status greet(plait_comm *c)
{
	struct hello mine = {.version = HELLO_VERSION,
	                     .size = c->size,
	                     .nlocal = c->nlocal,
	                     .struct_bytes = sizeof(struct rt_rank)};
	struct hello all[CG_MAX_RANKS];

	snprintf(mine.plait, sizeof mine.plait, "%s", plait_version());
	if (rt_gather(c, &mine, all, sizeof mine) != PLAIT_OK)
		return c->error.status;
	for (unsigned p = 0; p < c->processes; p++) {
		all[p].plait[sizeof all[p].plait - 1] = '\0';
		text_make_plain(all[p].plait);
	}
	for (unsigned p = 1; p < c->processes; p++) {
		const struct hello *a = &all[0], *b = &all[p];

		if (a->version != b->version || a->struct_bytes != b->struct_bytes ||
		    strncmp(a->plait, b->plait, sizeof a->plait) != 0)
			return rt_fail(&c->error, PLAIT_MISMATCH,
			               "process 0 has plait %.31s, process %u %.31s: all need the "
			               "same",
			               a->plait, p, b->plait);
		if (a->size != b->size || a->nlocal != b->nlocal)
			return rt_fail(&c->error, PLAIT_MISMATCH,
			               "process 0 says %u ranks, %u of them its own; process %u "
			               "says %u and %u",
			               a->size, a->nlocal, p, b->size, b->nlocal);
	}
	return PLAIT_OK;
}

static enum plait_status learn(plait_comm *c)
{
	const int32_t sane = 1 << 16;
	struct rt_rank mine[CG_MAX_RANKS];

	memcpy(mine, c->rank + c->first, sizeof *mine * c->nlocal);
	if (rt_gather(c, mine, c->rank, sizeof *mine * c->nlocal) != PLAIT_OK)
		return c->error.status;
	for (unsigned r = 0; r < c->size; r++) {
		struct rt_rank *k = &c->rank[r];

		k->name[sizeof k->name - 1] = '\0';
		text_make_plain(k->name);
		/* not more: a fact that the driver does not know is 0 */
		if (k->process != r / c->nlocal || k->sms < 0 || k->major < 0 || k->minor < 0 ||
		    k->sms > sane || k->major > sane || k->minor > sane ||
		    !rt_is_why_no_multicast(k->multicast_off))
			return rt_fail(&c->error, PLAIT_ENV,
			               "what process %u says of its GPU makes no sense: the "
			               "allgather does not give what the processes send",
			               r / c->nlocal);
	}
	return PLAIT_OK;
}

static enum plait_status create(struct creation *k)
{
	plait_comm *c = k->c;

	if (bootstrap(k) != PLAIT_OK)
		return c->error.status;
	if (c->error.status == PLAIT_OK)
		open_gpus(k);
	if (rt_vote(c) != PLAIT_OK || greet(c) != PLAIT_OK || learn(c) != PLAIT_OK)
		return c->error.status;
	return rt_find_transport(c, &k->o, k->h);
}

static void teardown(plait_comm *c)
{
	if (c->nccl_owned)
		rt_nccl_ranks_free(c, c->nccl_comm);
	for (unsigned l = 0; l < c->nlocal; l++) {
		struct rt_local *at = &c->local[l];

		if (at->stream && c->drv->ctx_push(at->ctx) == RT_CU_SUCCESS) {
			struct cu_ctx *old;

			c->drv->stream_destroy(at->stream);
			c->drv->ctx_pop(&old);
		}
		if (at->ctx)
			c->drv->ctx_release(at->device);
		*at = (struct rt_local){0};
	}
	rt_boot_close(c->boot);
	c->boot = NULL;
	c->nlocal = 0;
}

enum plait_status rt_comm_create(const struct plait_comm_options *o, const struct rt_hooks *h,
                                 plait_comm **out)
{
	static const struct rt_hooks none;
	size_t size = o ? o->struct_size : 0;
	struct creation k = {.h = h ? h : &none};

	if (!out)
		return PLAIT_USAGE;
	*out = NULL;
	if (size < sizeof o->struct_size)
		return PLAIT_USAGE;
	memcpy(&k.o, o, size < sizeof k.o ? size : sizeof k.o);
	k.env = (struct rt_env){k.h->env, k.h->ctx};
	*out = k.c = calloc(1, sizeof *k.c);
	if (!k.c)
		return PLAIT_NOMEM;
	k.c->timeout_ns = k.o.timeout_ns ? k.o.timeout_ns : 10000000000u;
	k.c->setup_timeout_ns = k.o.setup_timeout_ns ? k.o.setup_timeout_ns : 60000000000u;
	if (create(&k) != PLAIT_OK)
		teardown(k.c);
	return k.c->error.status;
}

enum plait_status plait_comm_create(const struct plait_comm_options *o, plait_comm **out)
{
	return rt_comm_create(o, NULL, out);
}

void plait_comm_free(plait_comm *c)
{
	if (!c)
		return;
	teardown(c);
	free(c);
}

const char *plait_comm_error(const plait_comm *c)
{
	return c ? c->error.text : "out of memory";
}

enum plait_status plait_comm_info(const plait_comm *c, struct plait_comm_info *info)
{
	struct plait_comm_info mine;

	if (!c || !c->boot || !info || info->struct_size < sizeof info->struct_size)
		return PLAIT_USAGE;
	mine = (struct plait_comm_info){.struct_size = info->struct_size,
	                                .size = c->size,
	                                .first = c->first,
	                                .nlocal = c->nlocal,
	                                .transport = c->transport,
	                                .why = c->why};
	memcpy(info, &mine, mine.struct_size < sizeof mine ? mine.struct_size : sizeof mine);
	return PLAIT_OK;
}

enum plait_status plait_comm_barrier(plait_comm *c)
{
	if (!c || !c->boot)
		return PLAIT_USAGE;
	rt_error_clear(&c->error);
	return rt_vote(c);
}
