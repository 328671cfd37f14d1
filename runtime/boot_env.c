/* Reading what launchers say: torchrun, mpirun (Open MPI; MPICH and others by PMI), srun. */
#include "runtime/boot.h"
#include "support/hash.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
static const struct launcher {
	const char *name, *rank, *size, *local;
	const char *local_size; /* processes on this host; equal to size: all are here */
	const char *job[2];     /* what tells one run from another */
} launchers[] = {
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
	 {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
	{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
	 "OMPI_COMM_WORLD_LOCAL_SIZE", {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
	{"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
	 {"PMI_JOBID", "HYDRA_JOB_ID"}},
	{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL,
	 {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};
/* clang-format on */

static const size_t nlaunchers = sizeof launchers / sizeof *launchers;

/* A number of at most `max`; false when it is none. */
static bool number(const char *s, unsigned max, unsigned *out)
{
	char *end;
	unsigned long v;

	if (!s || *s < '0' || *s > '9')
		return false;
	errno = 0;
	v = strtoul(s, &end, 10);
	if (errno || *end || v > max)
		return false;
	*out = (unsigned)v;
	return true;
}

int rt_local_rank(const struct rt_env *env)
{
	unsigned n;

	for (size_t i = 0; i < nlaunchers; i++)
		if (number(rt_getenv(env, launchers[i].local), 1 << 20, &n))
			return (int)n;
	return -1;
}

static const struct launcher *find(const struct rt_env *env, struct rt_error *e)
{
	const struct launcher *half = NULL;

	for (size_t i = 0; i < nlaunchers; i++) {
		const char *rank = rt_getenv(env, launchers[i].rank);
		const char *size = rt_getenv(env, launchers[i].size);

		if (rank && size)
			return &launchers[i];
		if ((rank || size) && !half)
			half = &launchers[i];
	}
	if (half)
		rt_fail(e, PLAIT_ENV, "of %s and %s only one is set", half->rank, half->size);
	else
		rt_fail(e, PLAIT_ENV,
		        "no launcher's variables are set: RANK and WORLD_SIZE (torchrun), "
		        "OMPI_COMM_WORLD_RANK (mpirun), PMI_RANK or SLURM_PROCID (srun); start "
		        "the program "
		        "with one of them, or use another bootstrap");
	return NULL;
}

static enum plait_status read_numbers(const struct rt_env *env, const struct launcher *l,
                                      struct rt_world *w, struct rt_error *e)
{
	const char *rank = rt_getenv(env, l->rank), *size = rt_getenv(env, l->size);
	unsigned local;

	if (!number(size, 1 << 20, &w->processes) || w->processes == 0)
		return rt_fail(e, PLAIT_ENV, "%s='%s' is not a number of processes", l->size, size);
	if (!number(rank, w->processes - 1, &w->process))
		return rt_fail(e, PLAIT_ENV, "%s='%s' is not a number below %s=%s", l->rank, rank,
		               l->size, size);
	w->local = number(rt_getenv(env, l->local), 1 << 20, &local) ? (int)local : -1;
	w->launcher = l->name;
	return PLAIT_OK;
}

/* Whether the launcher says that all processes are on this host. */
static bool one_host(const struct rt_env *env, const struct launcher *l, unsigned processes)
{
	unsigned n;

	if (l->local_size)
		return number(rt_getenv(env, l->local_size), 1 << 20, &n) && n == processes;
	return number(rt_getenv(env, "SLURM_NNODES"), 1 << 20, &n) && n == 1;
}

static uint64_t hash_text(uint64_t h, const char *s)
{
	return s ? hash_bytes(h, s, strlen(s) + 1) : hash_bytes(h, "", 1);
}

enum plait_status rt_world_read(const struct rt_env *env, struct rt_world *w, struct rt_error *e)
{
	const struct launcher *l = find(env, e);
	const char *address = rt_getenv(env, "MASTER_ADDR"), *port;
	uint64_t h = HASH_INIT;
	uid_t uid = getuid();

	*w = (struct rt_world){.local = -1};
	if (!l || read_numbers(env, l, w, e) != PLAIT_OK)
		return e->status;
	if (!address && !one_host(env, l, w->processes) && w->processes > 1)
		return rt_fail(e, PLAIT_ENV,
		               "MASTER_ADDR is not set: set it to the host of process 0");
	if (!address)
		address = "127.0.0.1";
	if (strlen(address) >= sizeof w->address)
		return rt_fail(e, PLAIT_ENV, "MASTER_ADDR is too long");
	memcpy(w->address, address, strlen(address) + 1);

	for (size_t i = 0; i < 2; i++)
		h = hash_text(h, rt_getenv(env, l->job[i]));
	h = hash_bytes(h, &uid, sizeof uid);
	port = rt_getenv(env, "PLAIT_PORT");
	if (port) {
		if (!number(port, 65535, &w->port) || w->port == 0)
			return rt_fail(e, PLAIT_ENV, "PLAIT_PORT='%s' is not a port", port);
	} else if ((port = rt_getenv(env, "MASTER_PORT"))) {
		if (!number(port, 65535, &w->port) || w->port == 0)
			return rt_fail(e, PLAIT_ENV, "MASTER_PORT='%s' is not a port", port);
		w->port++; /* the launcher itself listens there */
	} else {
		w->port = 20000 + (unsigned)(h % 12000);
	}
	h = hash_text(h, rt_getenv(env, "MASTER_PORT"));
	w->job = hash_text(h, address);
	return PLAIT_OK;
}
