/*
 * NCCL, opened at run time: a table of its functions, as runtime/driver.h is of the driver's.  What
 * it needs of the binary interface is declared here, after nccl.h (2.18 to 2.28);
 * runtime/abi_nccl.c holds it against the vendor's header where there is one.
 */
#pragma once
#include "runtime/driver.h"

struct nccl_comm;
struct nccl_window;

struct nccl_id {
	char bytes[128];
};

enum {
	RT_NCCL_SUCCESS = 0,
	RT_NCCL_IN_PROGRESS = 7,
	RT_NCCL_CHAR = 0,
	RT_NCCL_FLOAT16 = 6,
	RT_NCCL_FLOAT32 = 7,
	RT_NCCL_BFLOAT16 = 9,
	RT_NCCL_SUM = 0,
	RT_NCCL_WIN_SYMMETRIC = 1,
};

struct rt_nccl {
/* clang-format off */
#define RT_NCCL(need, result, member, symbol, args) result (*member) args;
#include "runtime/libnccl.def"
#undef RT_NCCL
	/* clang-format on */
};

enum rt_nccl_row {
#define RT_NCCL(need, result, member, symbol, args) RT_NCCL_NO_##member,
#include "runtime/libnccl.def"
#undef RT_NCCL
	RT_NCCL_ROWS
};

/*
 * Opens the library, which stays open for the life of the process.  `path` NULL: libnccl.so.2.
 * PLAIT_ENV with a message when there is none or it is too old.
 */
enum plait_status rt_nccl_open(struct rt_nccl *n, const char *path, struct rt_error *e);

/* "ncclAllGather" */
const char *rt_nccl_symbol(enum rt_nccl_row row);

/* Whether r is success; if not, e says which function gave which error. */
bool rt_nccl_ok(const struct rt_nccl *n, struct rt_error *e, enum rt_nccl_row row, int r);

/* Calls one function of NCCL: true on success. */
#define RT_NC(n, e, member, ...) rt_nccl_ok((n), (e), RT_NCCL_NO_##member, (n)->member(__VA_ARGS__))
/* One without arguments. */
#define RT_NC0(n, e, member) rt_nccl_ok((n), (e), RT_NCCL_NO_##member, (n)->member())

/*
 * The fallback's halves, enqueued on a stream of one rank; several ranks of one process are put
 * between group_start and group_end by the caller.  A buffer is padded: `each` rows of `cols`
 * elements for each rank, so size * each rows, in the order of ranks; a rank's own rows are its
 * part of that.  type is RT_NCCL_FLOAT32, RT_NCCL_FLOAT16 or RT_NCCL_BFLOAT16.  Nothing is
 * allocated: may be captured.
 */
bool rt_nccl_reduce_scatter(const struct rt_nccl *n, struct rt_error *e, struct nccl_comm *c,
                            cu_address from, cu_address to, uint64_t each, uint64_t cols, int type,
                            struct cu_stream *s);
/* `row` bytes a row; in place when own is where the rank's part of all is. */
bool rt_nccl_all_gather(const struct rt_nccl *n, struct rt_error *e, struct nccl_comm *c,
                        cu_address own, cu_address all, uint64_t each, uint64_t row,
                        struct cu_stream *s);
