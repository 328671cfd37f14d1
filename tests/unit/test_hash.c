#include "tests/unit/unit.h"
#include "support/hash.h"

static void the_hash_is_fnv_1a(void **state)
{
	(void)state;
	/* Test vectors of the FNV authors. */
	assert_int_equal(hash_bytes(HASH_INIT, "", 0), 0xcbf29ce484222325u);
	assert_int_equal(hash_bytes(HASH_INIT, "a", 1), 0xaf63dc4c8601ec8cu);
	assert_int_equal(hash_bytes(HASH_INIT, "foobar", 6), 0x85944171f73967e8u);
}

static void a_hash_of_parts_is_the_hash_of_the_whole(void **state)
{
	(void)state;
	assert_int_equal(hash_bytes(hash_bytes(HASH_INIT, "foo", 3), "bar", 3),
	                 hash_bytes(HASH_INIT, "foobar", 6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(the_hash_is_fnv_1a),
	        cmocka_unit_test(a_hash_of_parts_is_the_hash_of_the_whole),
	};

	return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
