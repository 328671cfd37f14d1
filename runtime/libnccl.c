/* Opening NCCL, the messages of what fails, and the halves of the fallback. */
#include "runtime/libnccl.h"
#include "runtime/symbols.h"
#include <dlfcn.h>
#include <string.h>

static const struct rt_symbol rows[] = {
#define RT_NCCL(need, result, member, symbol, args) \
	{#symbol, offsetof(struct rt_nccl, member), need},
#include "runtime/libnccl.def"
#undef RT_NCCL
};

_Static_assert(sizeof rows / sizeof *rows == RT_NCCL_ROWS, "a row for each function");

const char *rt_nccl_symbol(enum rt_nccl_row row)
{
	return (unsigned)row < RT_NCCL_ROWS ? rows[row].name : "?";
}

bool rt_nccl_ok(const struct rt_nccl *n, struct rt_error *e, enum rt_nccl_row row, int r)
{
	if (r == RT_NCCL_SUCCESS)
		return true;
	rt_fail(e, PLAIT_ENV, "%s: %s (%d)", rt_nccl_symbol(row), n->error_string(r), r);
	return false;
}

enum plait_status rt_nccl_open(struct rt_nccl *n, const char *path, struct rt_error *e)
{
	const char *name = path ? path : "libnccl.so.2";
	void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	const char *missing;

	memset(n, 0, sizeof *n);
	if (!lib)
		return rt_fail(e, PLAIT_ENV, "NCCL cannot be opened: %s", dlerror());
	missing = rt_symbols_load(lib, rows, RT_NCCL_ROWS, n);
	if (!missing)
		return PLAIT_OK;
	dlclose(lib);
	return rt_fail(e, PLAIT_ENV, "%s has no '%s'; NCCL 2.18 or newer is needed", name, missing);
}

bool rt_nccl_reduce_scatter(const struct rt_nccl *n, struct rt_error *e, struct nccl_comm *c,
                            cu_address from, cu_address to, uint64_t each, uint64_t cols, int type,
                            struct cu_stream *s)
{
	return RT_NC(n, e, reduce_scatter, (const void *)(uintptr_t)from, (void *)(uintptr_t)to,
	             (size_t)(each * cols), type, RT_NCCL_SUM, c, s);
}

bool rt_nccl_all_gather(const struct rt_nccl *n, struct rt_error *e, struct nccl_comm *c,
                        cu_address own, cu_address all, uint64_t each, uint64_t row,
                        struct cu_stream *s)
{
	return RT_NC(n, e, all_gather, (const void *)(uintptr_t)own, (void *)(uintptr_t)all,
	             (size_t)(each * row), RT_NCCL_CHAR, c, s);
}
