/*
 * The CUDA driver, opened at run time: a table of its functions, and the messages of calls that fail.
 *
 *	struct rt_driver drv;
 *	struct rt_error e = {0};
 *
 *	if (rt_driver_open(&drv, NULL, &e) != PLAIT_OK)
 *		return e.status;
 *	if (!RT_CU(&drv, &e, mem_alloc, &address, bytes))
 *		return e.status;	// "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2), out of memory"
 *
 * Whoever needs the driver takes a `const struct rt_driver *`, so tests hand in one of their own.
 */
#pragma once
#include "runtime/abi.h"
#include "runtime/plait.h"

struct rt_driver {
#define RT_DRIVER(need, member, symbol, args) cu_result(*member) args;
#include "runtime/driver.def"
#undef RT_DRIVER
};

/* RT_DRIVER_NO_mem_alloc, ...: the row of a function, for rt_driver_symbol. */
enum rt_driver_row {
#define RT_DRIVER(need, member, symbol, args) RT_DRIVER_NO_##member,
#include "runtime/driver.def"
#undef RT_DRIVER
	RT_DRIVER_ROWS
};

/* Why something failed: the first failure stays, until rt_error_clear.  Zeroed is "all is well". */
struct rt_error {
	enum plait_status status;
	char text[1000]; /* a phrase without a full stop or a newline; "" when all is well */
};

void rt_error_clear(struct rt_error *e);

/* Sets the message, unless there is one already, and returns s. */
enum plait_status rt_fail(struct rt_error *e, enum plait_status s, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/* Puts "what: " before the message: what was being done, and on which rank. */
void rt_error_context(struct rt_error *e, const char *fmt, ...)
        __attribute__((format(printf, 2, 3)));

/*
 * Opens the driver and initialises it.  `path` NULL: libcuda.so.1.  It stays open for the life of the
 * process.  PLAIT_ENV, with a message that says what to do, when there is none, when it is too old, or
 * when it finds no GPU.
 */
enum plait_status rt_driver_open(struct rt_driver *d, const char *path, struct rt_error *e);

/* Fills the table without initialising.  PLAIT_ENV as above. */
enum plait_status rt_driver_load(struct rt_driver *d, const char *path, struct rt_error *e);

/* "cuMemAlloc_v2" */
const char *rt_driver_symbol(enum rt_driver_row row);

/* Whether r is success; if not, e says which function gave which error.  PLAIT_NOMEM for a lack of
 * memory, else PLAIT_ENV. */
bool rt_cu_ok(const struct rt_driver *d, struct rt_error *e, enum rt_driver_row row, cu_result r);

/* Calls one function of the driver: true on success. */
#define RT_CU(d, e, member, ...) rt_cu_ok((d), (e), RT_DRIVER_NO_##member, (d)->member(__VA_ARGS__))
/* One that gives something, in its first argument: zeroes there when it fails, since a driver may have
 * written to it all the same, and what seems to be there would be given back. */
#define RT_CU_GIVES(d, e, member, out, ...) \
	rt_cu_given(RT_CU((d), (e), member, (out), __VA_ARGS__), (out), sizeof *(out))
bool rt_cu_given(bool good, void *out, size_t bytes);
/* One without arguments. */
#define RT_CU0(d, e, member) rt_cu_ok((d), (e), RT_DRIVER_NO_##member, (d)->member())
