/*
 * PTX -> cubin in this process, by NVIDIA's nvJitLink, opened at run time: nothing here is needed
 * to build, and a machine without it is ST_ENV with a diagnostic that names the library.
 */
#pragma once
#include "support/arena.h"
#include "support/diag.h"
#include "support/status.h"

struct rt_nvjitlink;

/*
 * The library's functions.  It stays loaded for the life of the process: loading takes a tenth of a
 * second, and it has threads of its own.  `dir` is the folder it is in; NULL: the loader's path,
 * $CUDA_HOME/lib64, $CUDA_PATH/lib64 and /usr/local/cuda/lib64 are searched.
 */
enum status rt_nvjitlink_open(struct arena *a, struct diags *d, const char *dir,
                              const struct rt_nvjitlink **out);

struct rt_cubin {
	const unsigned char *data; /* an ELF file, `size` bytes, in the arena */
	size_t size;
	const char *info; /* the finalizer's report: registers, spills, shared memory; never NULL */
	const char *errors; /* warnings and errors; never NULL */
};

/*
 * Links one PTX module (len bytes, without a NUL) for `target` ("sm_90").  *out has the logs also
 * on failure. ST_INPUT: the PTX is refused, the diagnostic has the log; ST_ENV: this nvJitLink does
 * not know the target.
 */
enum status rt_nvjitlink_link(const struct rt_nvjitlink *l, const char *ptx, size_t len,
                              const char *target, struct arena *a, struct diags *d,
                              struct rt_cubin *out);
