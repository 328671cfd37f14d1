/* Any bytes as a file of the cache: a miss, or a value that lies within the file. */
#include "tests/fuzz/fuzz.h"
#include "runtime/cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct rt_bytes file = {data, size}, key = {"a key", 5};
	struct rt_bytes v;
	enum rt_cached got = rt_cache_judge(file, key, 2000000000, UINT64_MAX, &v);

	if (got == RT_CACHE_MISS)
		MUST(v.n == 0);
	else
		MUST((const uint8_t *)v.p >= data + key.n &&
		     (const uint8_t *)v.p + v.n == data + size);
	return 0;
}
