/*
 * What the machine has, as the driver says it: GPUs, how they reach each other.  Attributes are read; nothing is allocated, no context is made.
 */
#pragma once
#include "runtime/driver.h"
#include "support/arena.h"

struct rt_gpu {
	char name[96], pci[32];
	unsigned sm; /* 90 */
	unsigned processors, clock_mhz;
	size_t memory, l2;
	bool exclusive;      /* compute mode: one process at a time */
	bool vmm, fd_handle; /* symmetric memory of plait's own needs both */
	bool fabric_handle;
	bool multicast; /* the attribute alone: says nothing about whether it may be used */
};

struct rt_link {
	bool access;  /* loads and stores reach the other's memory */
	bool atomics; /* natively: over NVLink they do */
	int rank;     /* the driver's performance rank, 0 the best */
};

struct rt_machine {
	const char *driver; /* "580.159.04", or "CUDA 13.0" where the system does not say */
	int cuda;           /* 13000 */
	unsigned n;
	struct rt_gpu *gpu;   /* [n] */
	struct rt_link *link; /* [n * n]: from, to */
};

/* The variable that switches multicast off, as "NCCL_NVLS_ENABLE=0"; NULL: none does. */
const char *rt_multicast_off(void);

/* May `auto` take multicast on a target of this sm, where the caller does not say?  From sm_90 on, unless it
 * is switched off. */
bool rt_multicast_default(unsigned sm);

/* The names of all such variables and the value that switches off; NULL ends. */
struct rt_switch {
	const char *name, *off;
};
extern const struct rt_switch rt_multicast_switches[];

/* Whether a value of the variable switches off: 0 or a word for it where that is "0", anything else where
 * it is "1".  NULL and "" do not. */
bool rt_switched_off(const struct rt_switch *s, const char *value);

/* The driver's version, as rt_machine has it: "580.159.04". */
const char *rt_machine_driver(const struct rt_driver *d, struct arena *a);

/* Reads all; texts are in `a`. PLAIT_ENV where an attribute cannot be read. */
enum plait_status rt_machine_read(struct rt_machine *m, const struct rt_driver *d, struct arena *a,
                                  struct rt_error *e);
