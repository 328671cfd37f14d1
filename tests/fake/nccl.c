/* The fake NCCL: see fake.h. */
#include "tests/fake/fake.h"
#include <stdlib.h>
#include <string.h>

_Thread_local struct fake_nccl_rank fake_nccl_rank;

struct nccl_comm {
	struct fake_nccl_rank at;
};

static bool fails(const char *symbol)
{
	if (++fake_thread.calls != fake_thread.fail_at)
		return false;
	fake_thread.failed = symbol;
	return true;
}

static const char *error_string(int r)
{
	(void)r;
	return "as the test wants it";
}

static int unique_id(struct nccl_id *id)
{
	if (fails("ncclGetUniqueId")) {
		memset(id, 0xee, sizeof *id);
		return 3;
	}
	memset(id, 7, sizeof *id);
	return 0;
}

static int init_rank(struct nccl_comm **c, int size, struct nccl_id id, int rank)
{
	if (fails("ncclCommInitRank") || id.bytes[0] != 7) {
		memset(c, 0xee, sizeof *c);
		return 3;
	}
	*c = calloc(1, sizeof **c);
	(*c)->at = fake_nccl_rank;
	(*c)->at.rank = rank;
	(*c)->at.size = size;
	fake.comms++;
	return 0;
}

static int destroy(struct nccl_comm *c)
{
	free(c);
	fake.comms--;
	return 0;
}

static int async_error(struct nccl_comm *c, int *r)
{
	(void)c;
	*r = 0;
	return 0;
}

static int count(struct nccl_comm *c, int *n)
{
	*n = c->at.size;
	return 0;
}

static int user_rank(struct nccl_comm *c, int *n)
{
	*n = c->at.rank;
	return 0;
}

static int cu_device_of(struct nccl_comm *c, int *n)
{
	*n = c->at.device;
	return 0;
}

static int group(void)
{
	return 0;
}

static int all_gather(const void *send, void *recv, size_t n, int type, struct nccl_comm *c,
                      struct cu_stream *s)
{
	(void)s;
	if (fails("ncclAllGather"))
		return 3;
	return type == RT_NCCL_CHAR ? c->at.gather(c->at.ctx, send, recv, n) : 4;
}

const struct rt_nccl fake_nccl = {
        .error_string = error_string,
        .unique_id = unique_id,
        .init_rank = init_rank,
        .destroy = destroy,
        .abort = destroy,
        .async_error = async_error,
        .count = count,
        .user_rank = user_rank,
        .cu_device = cu_device_of,
        .group_start = group,
        .group_end = group,
        .all_gather = all_gather,
};
