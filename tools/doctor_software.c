/* Findings of doctor: libraries and programs, the cache, NVLinks. */
#include "runtime/cache.h"
#include "runtime/jit.h"
#include "tools/doctor.h"
#include "tools/child.h"
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* A function of a library that stays open; NULL: neither. */
static void (*find(const char *library, const char *symbol))(void)
{
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	void *p = lib ? dlsym(lib, symbol) : NULL;
	void (*f)(void);

	memcpy(&f, &p, sizeof f);
	return f;
}

static void add_nvjitlink(struct doctor *d)
{
	const struct rt_nvjitlink *link;
	struct diags dg;

	diags_init(&dg, d->a);
	if (rt_nvjitlink_open(d->a, &dg, NULL, &link) == ST_OK)
		doctor_add(d, "nvJitLink", DOCTOR_GOOD, NULL,
		           "kernels are assembled in this process");
	else
		doctor_add(d, "nvJitLink", DOCTOR_NOTE,
		           "install the CUDA toolkit's nvJitLink, or set CUDA_HOME: the driver "
		           "assembles instead, "
		           "and --emit cubin is not possible",
		           "%s", dg.head ? dg.head->text : "cannot be opened");
}

static void add_ptxas(struct doctor *d)
{
	const char *home = getenv("CUDA_HOME");
	const char *from[] = {"ptxas", home ? arena_printf(d->a, "%s/bin/ptxas", home) : "ptxas",
	                      "/usr/local/cuda/bin/ptxas"};
	struct strbuf b;
	const char *release;

	for (size_t i = 0; i < 3; i++) {
		char *argv[] = {(char *)(uintptr_t)from[i], (char[]){"--version"}, NULL};

		strbuf_init(&b, d->a);
		if (child_read(argv, &b))
			continue;
		release = strstr(b.s, "release ");
		doctor_add(d, "ptxas", DOCTOR_GOOD, NULL, "%s, %.*s", from[i],
		           (int)strcspn(release ? release : "", "\n"), release ? release : "");
		return;
	}
	doctor_add(d, "ptxas", DOCTOR_NOTE, "install the CUDA toolkit to see them",
	           "not found: verify shows no registers and spills");
}

static void add_nccl(struct doctor *d)
{
	void (*f)(void) = find("libnccl.so.2", "ncclGetVersion");
	int v = 0;

	if (f && !((int (*)(int *))f)(&v))
		doctor_add(d, "NCCL", DOCTOR_GOOD, NULL, "%d.%d.%d", v / 10000, v / 100 % 100,
		           v % 100);
	else
		doctor_add(d, "NCCL", DOCTOR_NOTE,
		           "put the folder of libnccl.so.2 on LD_LIBRARY_PATH (in Python "
		           "environments: "
		           "site-packages/nvidia/nccl/lib)",
		           "not found: no fallback where GPUs cannot reach each other, and bench "
		           "has one "
		           "peer less");
}

static unsigned count_tables(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	unsigned n = 0;

	while (dir && (e = readdir(dir))) {
		size_t len = strlen(e->d_name);

		n += !strncmp(e->d_name, "select-", 7) && len > 6 &&
		     !strcmp(e->d_name + len - 6, ".table");
	}
	if (dir)
		closedir(dir);
	return n;
}

static void add_cache(struct doctor *d)
{
	struct rt_cache c;
	unsigned tables;

	rt_cache_open(&c, NULL, d->a);
	if (c.dir < 0) {
		doctor_add(d, "cache", DOCTOR_NOTE,
		           "set PLAIT_CACHE_DIR to a folder of yours: else every start compiles "
		           "anew",
		           "no folder for compiled kernels: %s",
		           *c.why ? c.why : "no variable is set");
		return;
	}
	tables = count_tables(c.path);
	doctor_add(d, "cache", DOCTOR_GOOD, NULL, "%s", c.path);
	doctor_add(d, "tables", tables || !d->gpus ? DOCTOR_GOOD : DOCTOR_NOTE,
	           tables || !d->gpus ? NULL
	                              : "plait tune SPEC measures this machine; until then "
	                                "protocols are chosen by "
	                                "figures of other machines",
	           "%u selection table%s of plait tune", tables, tables == 1 ? "" : "s");
	rt_cache_close(&c);
}

void doctor_software(struct doctor *d)
{
	add_nvjitlink(d);
	add_ptxas(d);
	add_nccl(d);
	add_cache(d);
}

/* ---- NVML ---- */

#define NVML "libnvidia-ml.so.1"

typedef int nvml_init(void);
typedef int nvml_by_pci(const char *pci, void **device);
typedef int nvml_link_state(void *device, unsigned link, unsigned *on);

void doctor_nvlinks(struct doctor *d)
{
	nvml_init *init = (nvml_init *)find(NVML, "nvmlInit_v2");
	nvml_init *done = (nvml_init *)find(NVML, "nvmlShutdown");
	nvml_by_pci *by_pci = (nvml_by_pci *)find(NVML, "nvmlDeviceGetHandleByPciBusId_v2");
	nvml_link_state *state = (nvml_link_state *)find(NVML, "nvmlDeviceGetNvLinkState");
	struct strbuf b;

	if (!d->machine.n || !init || !done || !by_pci || !state || init())
		return;
	strbuf_init(&b, d->a);
	for (unsigned i = 0; i < d->machine.n; i++) {
		unsigned up = 0, on;
		void *device;

		if (by_pci(d->machine.gpu[i].pci, &device))
			continue;
		for (unsigned l = 0; l < 36; l++)
			up += !state(device, l, &on) && on;
		strbuf_printf(&b, "%sgpu %u: %u", b.n ? ", " : "", i, up);
	}
	done();
	doctor_add(d, "NVLinks", DOCTOR_GOOD, NULL, "that are up: %s", b.s);
}
