/* What `plait doctor` looks at, as findings that can be printed, written as JSON, and tested. */
#pragma once
#include "runtime/machine.h"
#include "support/strbuf.h"
#include <cjson/cJSON.h>

enum doctor_state {
	DOCTOR_GOOD,
	DOCTOR_NOTE,  /* works, but not as well as it could */
	DOCTOR_LACKS, /* something cannot be done here */
};

struct doctor_finding {
	const char *what; /* "driver": also the name in JSON */
	enum doctor_state state;
	const char *text;
	const char *todo; /* what to do about it; NULL: nothing */
	struct doctor_finding *next;
};

struct doctor {
	struct arena *a;
	struct doctor_finding *head, **tail;
	struct rt_machine machine; /* n = 0: no GPU can be used */
	bool gpus;                 /* kernels can run here */
};

void doctor_init(struct doctor *d, struct arena *a);
void doctor_add(struct doctor *d, const char *what, enum doctor_state s, const char *todo,
                const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The driver and the GPUs, from an open driver (NULL: `why` says why there is none). */
void doctor_gpus(struct doctor *d, const struct rt_driver *drv, const char *why);

/* Multicast: attributes and variables; nothing is called. */
void doctor_multicast(struct doctor *d);

/* nvJitLink, ptxas, NCCL, the kernel cache and the selection tables in it. */
void doctor_software(struct doctor *d);

/* NVLinks of each GPU as NVML says, as a finding; nothing where there is no NVML. */
void doctor_nvlinks(struct doctor *d);

void doctor_print(const struct doctor *d, struct strbuf *out);
void doctor_json(const struct doctor *d, cJSON *to);
