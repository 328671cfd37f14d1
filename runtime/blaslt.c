/* Opening cuBLASLt, the messages of what fails, the shapes behind its ids. */
#include "runtime/blaslt.h"
#include "runtime/symbols.h"
#include <dlfcn.h>
#include <string.h>

static const struct rt_symbol rows[] = {
#define RT_BLASLT(result, member, symbol, args) {#symbol, offsetof(struct rt_blaslt, member), true},
#include "runtime/blaslt.def"
#undef RT_BLASLT
};

_Static_assert(sizeof rows / sizeof *rows == RT_BLASLT_ROWS, "a row for each function");

const char *rt_blaslt_symbol(enum rt_blaslt_row row)
{
	return (unsigned)row < RT_BLASLT_ROWS ? rows[row].name : "?";
}

bool rt_blaslt_ok(const struct rt_blaslt *t, struct rt_error *e, enum rt_blaslt_row row, int r)
{
	if (r == LT_SUCCESS)
		return true;
	rt_fail(e, PLAIT_ENV, "%s: %s (%d)", rt_blaslt_symbol(row), t->status_string(r), r);
	return false;
}

static void *open_any(const char *path, const char **name)
{
	static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
	void *lib = NULL;

	*name = path ? path : names[0];
	if (path)
		return dlopen(path, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; i < sizeof names / sizeof *names && !lib; i++) {
		*name = names[i];
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	}
	return lib;
}

enum plait_status rt_blaslt_open(struct rt_blaslt *t, const char *path, struct rt_error *e)
{
	const char *name, *missing;
	void *lib = open_any(path, &name);

	memset(t, 0, sizeof *t);
	if (!lib)
		return rt_fail(e, PLAIT_ENV,
		               "cuBLASLt cannot be opened: %s; it is in the package of cuBLAS, and "
		               "LD_LIBRARY_PATH may name its folder",
		               dlerror());
	missing = rt_symbols_load(lib, rows, RT_BLASLT_ROWS, t);
	if (!missing)
		return PLAIT_OK;
	dlclose(lib);
	return rt_fail(e, PLAIT_ENV, "%s has no '%s'; cuBLAS 12 or 13 is needed", name, missing);
}

/* ---- ids ---- */

static const struct lt_shape tiles[] = {
        {0, 0},
#define LT_TILE(m, n) {m, n},
#define LT_CLUSTER(id, m, n)
#include "runtime/blaslt_ids.def"
#undef LT_TILE
#undef LT_CLUSTER
};

static const struct lt_shape clusters[] = {
#define LT_TILE(m, n)
#define LT_CLUSTER(id, m, n) [id] = {m, n},
#include "runtime/blaslt_ids.def"
#undef LT_TILE
#undef LT_CLUSTER
};

struct lt_shape rt_blaslt_tile(unsigned id)
{
	return tiles[id < sizeof tiles / sizeof *tiles ? id : 0];
}

struct lt_shape rt_blaslt_cluster(unsigned id)
{
	return clusters[id < sizeof clusters / sizeof *clusters ? id : 0];
}
