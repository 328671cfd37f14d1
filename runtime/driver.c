/* Opening the CUDA driver, and the messages of what fails. */
#include "runtime/driver.h"
#include "runtime/symbols.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
static const struct rt_symbol rows[] = {
#define RT_DRIVER(need, member, symbol, args) {#symbol, offsetof(struct rt_driver, member), need},
#include "runtime/driver.def"
#undef RT_DRIVER
};
/* clang-format on */

_Static_assert(sizeof rows / sizeof *rows == RT_DRIVER_ROWS, "a row for each function");

void rt_error_clear(struct rt_error *e)
{
	e->status = PLAIT_OK;
	e->text[0] = '\0';
}

enum plait_status rt_fail(struct rt_error *e, enum plait_status s, const char *fmt, ...)
{
	va_list ap;

	if (e->status != PLAIT_OK)
		return s;
	e->status = s;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	return s;
}

void rt_error_context(struct rt_error *e, const char *fmt, ...)
{
	char old[sizeof e->text];
	va_list ap;
	size_t n;

	memcpy(old, e->text, sizeof old);
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	n = strlen(e->text);
	snprintf(e->text + n, sizeof e->text - n, ": %s", old);
}

const char *rt_driver_symbol(enum rt_driver_row row)
{
	return (unsigned)row < RT_DRIVER_ROWS ? rows[row].name : "?";
}

bool rt_cu_ok(const struct rt_driver *d, struct rt_error *e, enum rt_driver_row row, cu_result r)
{
	const char *name = NULL, *text = NULL;

	if (r == RT_CU_SUCCESS)
		return true;
	if (d->error_name(r, &name) != RT_CU_SUCCESS || !name)
		name = "an error that the driver has no name for";
	if (d->error_string(r, &text) != RT_CU_SUCCESS || !text)
		text = "no text";
	rt_fail(e, r == RT_CU_ERROR_OUT_OF_MEMORY ? PLAIT_NOMEM : PLAIT_ENV, "%s: %s (%d), %s",
	        rt_driver_symbol(row), name, r, text);
	return false;
}

bool rt_cu_given(bool good, void *out, size_t bytes)
{
	if (!good)
		memset(out, 0, bytes);
	return good;
}

enum plait_status rt_driver_load(struct rt_driver *d, const char *path, struct rt_error *e)
{
	const char *name = path ? path : "libcuda.so.1";
	void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	const char *missing;

	memset(d, 0, sizeof *d);
	if (!lib)
		return rt_fail(e, PLAIT_ENV,
		               "the CUDA driver cannot be opened (%s); kernels run on NVIDIA GPUs "
		               "with their driver "
		               "installed, and in a container only when it is passed through",
		               dlerror());
	missing = rt_symbols_load(lib, rows, RT_DRIVER_ROWS, d);
	if (!missing)
		return PLAIT_OK;
	dlclose(lib);
	return rt_fail(e, PLAIT_ENV, "%s has no '%s'; a driver for CUDA 12.0 or newer is needed",
	               name, missing);
}

enum plait_status rt_driver_open(struct rt_driver *d, const char *path, struct rt_error *e)
{
	enum plait_status s = rt_driver_load(d, path, e);
	int n = 0;

	if (s != PLAIT_OK)
		return s;
	if (!RT_CU(d, e, init, 0) || !RT_CU(d, e, device_count, &n))
		return e->status;
	return n > 0 ? PLAIT_OK : rt_fail(e, PLAIT_ENV, "the CUDA driver finds no GPU");
}
