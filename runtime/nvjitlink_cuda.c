/*
 * nvJitLink through dlopen.  Its prototypes are declared here, so that no vendor header is needed;
 * they follow the nvJitLink documentation (CUDA 12.0 to 13.x: "nvJitLink", chapter "Linking"),
 * where they are the same.
 */
#include "runtime/jit.h"
#include "runtime/symbols.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvJitLink *handle;

/* nvJitLinkResult, as far as it is told apart here. */
enum {
	SUCCESS = 0,
	ERROR_UNRECOGNIZED_ARCH = 16,
	ERROR_UNSUPPORTED_ARCH = 17,
};

enum { INPUT_PTX = 2 }; /* nvJitLinkInputType */

struct rt_nvjitlink {
	int (*create)(handle *h, uint32_t noptions, const char **options);
	int (*destroy)(handle *h);
	int (*add_data)(handle h, int type, const void *data, size_t size, const char *name);
	int (*complete)(handle h);
	int (*cubin_size)(handle h, size_t *size);
	int (*cubin)(handle h, void *cubin);
	int (*error_log_size)(handle h, size_t *size);
	int (*error_log)(handle h, char *log);
	int (*info_log_size)(handle h, size_t *size);
	int (*info_log)(handle h, char *log);
};

/* clang-format off */
static const struct rt_symbol functions[] = {
	{"nvJitLinkCreate",             offsetof(struct rt_nvjitlink, create), true},
	{"nvJitLinkDestroy",            offsetof(struct rt_nvjitlink, destroy), true},
	{"nvJitLinkAddData",            offsetof(struct rt_nvjitlink, add_data), true},
	{"nvJitLinkComplete",           offsetof(struct rt_nvjitlink, complete), true},
	{"nvJitLinkGetLinkedCubinSize", offsetof(struct rt_nvjitlink, cubin_size), true},
	{"nvJitLinkGetLinkedCubin",     offsetof(struct rt_nvjitlink, cubin), true},
	{"nvJitLinkGetErrorLogSize",    offsetof(struct rt_nvjitlink, error_log_size), true},
	{"nvJitLinkGetErrorLog",        offsetof(struct rt_nvjitlink, error_log), true},
	{"nvJitLinkGetInfoLogSize",     offsetof(struct rt_nvjitlink, info_log_size), true},
	{"nvJitLinkGetInfoLog",         offsetof(struct rt_nvjitlink, info_log), true},
};
/* clang-format on */

static const char *const sonames[] = {
        "libnvJitLink.so.13",
        "libnvJitLink.so.12",
        "libnvJitLink.so",
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void *open_in(struct arena *a, const char *dir, const char *sub)
{
	void *lib = NULL;

	for (size_t i = 0; i < COUNT(sonames) && !lib; i++) {
		const char *path =
		        dir ? arena_printf(a, "%s%s/%s", dir, sub, sonames[i]) : sonames[i];

		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return lib;
}

static void *open_library(struct arena *a, const char *dir)
{
	const char *home = getenv("CUDA_HOME"), *path = getenv("CUDA_PATH");
	void *lib = open_in(a, dir, "");

	if (dir)
		return lib;
	if (!lib && home)
		lib = open_in(a, home, "/lib64");
	if (!lib && path)
		lib = open_in(a, path, "/lib64");
	if (!lib)
		lib = open_in(a, "/usr/local/cuda", "/lib64");
	return lib;
}

enum status rt_nvjitlink_open(struct arena *a, struct diags *d, const char *dir,
                              const struct rt_nvjitlink **out)
{
	struct rt_nvjitlink *l = arena_new(a, struct rt_nvjitlink);
	void *lib = open_library(a, dir);
	const char *missing;

	*out = NULL;
	if (!lib) {
		diag_at(d, DIAG_ERROR, DIAG_RT_LIBRARY, (struct span){0},
		        "libnvJitLink.so (13 or 12) cannot be opened; it is needed to make cubins");
		diag_note(d, (struct span){0},
		          "install the CUDA toolkit's nvJitLink, or set CUDA_HOME to where it is; "
		          "PTX needs "
		          "neither");
		return ST_ENV;
	}
	missing = rt_symbols_load(lib, functions, COUNT(functions), l);
	if (missing) {
		diag_at(d, DIAG_ERROR, DIAG_RT_LIBRARY, (struct span){0},
		        "libnvJitLink.so has no '%s'; version 12.0 or newer is needed to make "
		        "cubins",
		        missing);
		return ST_ENV;
	}
	*out = l;
	return ST_OK;
}

/* A log as a string; "" where there is none. */
static const char *log_text(handle h, struct arena *a, int (*size)(handle, size_t *),
                            int (*get)(handle, char *))
{
	size_t n = 0;
	char *s;

	if (!h || size(h, &n) != SUCCESS || n == 0)
		return "";
	s = arena_alloc(a, n + 1);
	return get(h, s) == SUCCESS ? s : "";
}

static enum status report(int result, const char *what, const char *target,
                          const struct rt_cubin *out, struct diags *d)
{
	if (result == ERROR_UNRECOGNIZED_ARCH || result == ERROR_UNSUPPORTED_ARCH) {
		diag_at(d, DIAG_ERROR, DIAG_RT_LIBRARY, (struct span){0},
		        "this nvJitLink does not know the target '%s'", target);
		diag_note(d, (struct span){0}, "a newer CUDA toolkit may");
		return ST_ENV;
	}
	diag_at(d, DIAG_ERROR, DIAG_RT_LINK, (struct span){0},
	        "nvJitLink refuses the PTX (%s: error %d)%s%s", what, result,
	        *out->errors ? "\n" : "", out->errors);
	return ST_INPUT;
}

static enum status link_with(const struct rt_nvjitlink *l, handle *h, const char *ptx, size_t len,
                             const char *target, struct arena *a, struct diags *d,
                             struct rt_cubin *out)
{
	const char *options[] = {arena_printf(a, "-arch=%s", target), "-verbose"};
	const char *what = "nvJitLinkCreate";
	unsigned char *data;
	int result = l->create(h, COUNT(options), options);

	if (result == SUCCESS) {
		what = "nvJitLinkAddData";
		result = l->add_data(*h, INPUT_PTX, ptx, len, "kernel.ptx");
	}
	if (result == SUCCESS) {
		what = "nvJitLinkComplete";
		result = l->complete(*h);
	}
	out->errors = log_text(*h, a, l->error_log_size, l->error_log);
	out->info = log_text(*h, a, l->info_log_size, l->info_log);
	if (result == SUCCESS) {
		what = "nvJitLinkGetLinkedCubin";
		result = l->cubin_size(*h, &out->size);
	}
	if (result != SUCCESS)
		return report(result, what, target, out, d);
	data = arena_alloc(a, out->size);
	result = l->cubin(*h, data);
	if (result != SUCCESS)
		return report(result, what, target, out, d);
	out->data = data;
	return ST_OK;
}

/* The linker's handle is the one thing here that the arena does not own: running out of memory
 * passes through. */
enum status rt_nvjitlink_link(const struct rt_nvjitlink *l, const char *ptx, size_t len,
                              const char *target, struct arena *a, struct diags *d,
                              struct rt_cubin *out)
{
	handle *h = arena_new(a, handle);
	jmp_buf outer;
	enum status s;

	*out = (struct rt_cubin){.info = "", .errors = ""};
	memcpy(&outer, &a->oom, sizeof outer);
	if (setjmp(a->oom)) {
		if (*h)
			l->destroy(h);
		memcpy(&a->oom, &outer, sizeof outer);
		longjmp(a->oom, 1);
	}
	s = link_with(l, h, ptx, len, target, a, d, out);
	if (*h)
		l->destroy(h);
	memcpy(&a->oom, &outer, sizeof outer);
	return s;
}
