/* What the driver says of the machine. */
#include "runtime/machine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct rt_switch rt_multicast_switches[] = {
        {"PLAIT_MULTICAST", "0"},
        {"NCCL_NVLS_ENABLE", "0"},
        {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"},
        {"NVSHMEM_DISABLE_NVLS", "1"},
        {NULL, NULL},
};

bool rt_switched_off(const struct rt_switch *s, const char *value)
{
	static const char *const zero[] = {"0", "false", "no", "off", "n"};
	bool is_zero = false;

	if (!value || !*value)
		return false;
	for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
		is_zero |= strcasecmp(value, zero[i]) == 0;
	return is_zero == (strcmp(s->off, "0") == 0);
}

const char *rt_multicast_off(void)
{
	for (const struct rt_switch *s = rt_multicast_switches; s->name; s++)
		if (rt_switched_off(s, getenv(s->name)))
			return s->name;
	return NULL;
}

bool rt_multicast_default(unsigned sm)
{
	return sm >= 90 && !rt_multicast_off();
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue ...": the word of digits and
 * points. */
static const char *version_word(const char *line, struct arena *a)
{
	for (const char *s = line; *s;) {
		size_t n = strspn(s, "0123456789."), word = strcspn(s, " \t\n");

		if (n && n == word && memchr(s, '.', n))
			return arena_strndup(a, s, n);
		s += word;
		s += strspn(s, " \t\n");
	}
	return NULL;
}

static const char *driver_text(int cuda, struct arena *a)
{
	FILE *f = fopen("/proc/driver/nvidia/version", "re");
	char line[256];
	const char *v = NULL;

	if (f && fgets(line, sizeof line, f))
		v = version_word(line, a);
	if (f)
		fclose(f);
	return v ? v : arena_printf(a, "CUDA %d.%d", cuda / 1000, cuda % 1000 / 10);
}

const char *rt_machine_driver(const struct rt_driver *d, struct arena *a)
{
	int cuda = 0;

	return d->version(&cuda) == RT_CU_SUCCESS ? driver_text(cuda, a) : "unknown";
}

struct attribute {
	int id;
	int *to;
};

static bool read_gpu(struct rt_gpu *g, const struct rt_driver *d, int ordinal, struct rt_error *e)
{
	int major, minor, processors, khz, l2, mode, vmm, fd, fabric, multicast;
	/* clang-format off */
	const struct attribute need[] = {
		{RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
		{RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
		{RT_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &processors},
		{RT_CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &khz},
		{RT_CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2},
		{RT_CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, &mode},
	};
	const struct attribute may[] = { /* an older driver does not know some of them */
		{RT_CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &vmm},
		{RT_CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, &fd},
		{RT_CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, &fabric},
		{RT_CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, &multicast},
	};
	/* clang-format on */
	cu_device dev;

	if (!RT_CU(d, e, device_get, &dev, ordinal) ||
	    !RT_CU(d, e, device_name, g->name, sizeof g->name, dev) ||
	    !RT_CU(d, e, device_pci, g->pci, sizeof g->pci, dev) ||
	    !RT_CU(d, e, device_total, &g->memory, dev))
		return false;
	for (size_t i = 0; i < sizeof need / sizeof *need; i++)
		if (!RT_CU(d, e, device_attribute, need[i].to, need[i].id, dev))
			return false;
	for (size_t i = 0; i < sizeof may / sizeof *may; i++)
		if (d->device_attribute(may[i].to, may[i].id, dev) != RT_CU_SUCCESS)
			*may[i].to = 0;
	g->name[sizeof g->name - 1] = g->pci[sizeof g->pci - 1] = '\0';
	g->sm = (unsigned)(major * 10 + minor);
	g->processors = (unsigned)processors;
	g->clock_mhz = (unsigned)khz / 1000;
	g->l2 = (size_t)l2;
	g->exclusive = mode == RT_CU_COMPUTEMODE_EXCLUSIVE_PROCESS;
	g->vmm = vmm;
	g->fd_handle = fd;
	g->fabric_handle = fabric;
	g->multicast = multicast;
	return true;
}

static bool read_link(struct rt_link *l, const struct rt_driver *d, int from, int to,
                      struct rt_error *e)
{
	cu_device a, b;
	int access = 0, atomics = 0;

	if (from == to) {
		*l = (struct rt_link){true, true, 0};
		return true;
	}
	if (!RT_CU(d, e, device_get, &a, from) || !RT_CU(d, e, device_get, &b, to) ||
	    !RT_CU(d, e, device_can_access, &access, a, b))
		return false;
	if (d->device_p2p(&atomics, RT_CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, a, b) !=
	    RT_CU_SUCCESS)
		atomics = 0;
	if (d->device_p2p(&l->rank, RT_CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, a, b) !=
	    RT_CU_SUCCESS)
		l->rank = 0;
	l->access = access;
	l->atomics = access && atomics;
	return true;
}

enum plait_status rt_machine_read(struct rt_machine *m, const struct rt_driver *d, struct arena *a,
                                  struct rt_error *e)
{
	int n = 0;

	*m = (struct rt_machine){0};
	if (!RT_CU(d, e, version, &m->cuda) || !RT_CU(d, e, device_count, &n))
		return e->status;
	m->driver = driver_text(m->cuda, a);
	m->n = n > 0 ? (unsigned)n : 0;
	m->gpu = arena_news(a, struct rt_gpu, m->n + 1);
	m->link = arena_news(a, struct rt_link, (size_t)m->n * m->n + 1);
	for (int i = 0; i < n; i++)
		if (!read_gpu(&m->gpu[i], d, i, e))
			return e->status;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			if (!read_link(&m->link[i * n + j], d, i, j, e))
				return e->status;
	return PLAIT_OK;
}
