/* What doctor makes of a driver's answers: here, a driver of the test's own. */
#include "tests/unit/unit.h"
#include "tools/doctor.h"
#include <stdio.h>

static struct {
	int gpus, access, atomics, multicast, fail_attribute;
} fake;

static cu_result version(int *v)
{
	*v = 13000;
	return 0;
}

static cu_result count(int *n)
{
	*n = fake.gpus;
	return 0;
}

static cu_result get(cu_device *d, int ordinal)
{
	*d = ordinal;
	return 0;
}

static cu_result attribute(int *v, int id, cu_device d)
{
	(void)d;
	*v = id == RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
	     : id == RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
	     : id == RT_CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED      ? fake.multicast
	     : id == RT_CU_DEVICE_ATTRIBUTE_COMPUTE_MODE             ? 0
	                                                             : 1;
	return id == fake.fail_attribute ? RT_CU_ERROR_INVALID_VALUE : 0;
}

static cu_result name(char *s, int n, cu_device d)
{
	snprintf(s, (size_t)n, "NVIDIA T%d", d);
	return 0;
}

static cu_result pci(char *s, int n, cu_device d)
{
	snprintf(s, (size_t)n, "0000:%02d:00.0", d);
	return 0;
}

static cu_result total(size_t *bytes, cu_device d)
{
	(void)d;
	*bytes = (size_t)8 << 30;
	return 0;
}

static cu_result access_peer(int *can, cu_device a, cu_device b)
{
	(void)a, (void)b;
	*can = fake.access;
	return 0;
}

static cu_result p2p(int *v, int id, cu_device a, cu_device b)
{
	(void)a, (void)b;
	*v = id == RT_CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED ? fake.atomics : 0;
	return 0;
}

static cu_result error_text(cu_result r, const char **s)
{
	(void)r;
	*s = "wrong";
	return 0;
}

static const struct rt_driver driver = {
        .version = version,
        .device_count = count,
        .device_get = get,
        .device_attribute = attribute,
        .device_name = name,
        .device_pci = pci,
        .device_total = total,
        .device_can_access = access_peer,
        .device_p2p = p2p,
        .error_name = error_text,
        .error_string = error_text,
};

static int set_up(void **state)
{
	struct arena *a = calloc(1, sizeof *a);

	arena_init(a, 0);
	if (setjmp(a->oom))
		abort();
	*state = a;
	for (const struct rt_switch *s = rt_multicast_switches; s->name; s++)
		unsetenv(s->name);
	memset(&fake, 0, sizeof fake);
	fake.gpus = 2;
	return 0;
}

static int tear_down(void **state)
{
	struct arena *a = *state;

	arena_free(a);
	free(a);
	return 0;
}

/* The report on the fake machine. */
static const char *report(struct arena *a)
{
	struct doctor d;
	struct strbuf out;

	doctor_init(&d, a);
	doctor_gpus(&d, &driver, NULL);
	doctor_multicast(&d);
	strbuf_init(&out, a);
	doctor_print(&d, &out);
	return out.s;
}

static void has(const char *text, const char *want)
{
	if (!strstr(text, want))
		fail_msg("no '%s' in:\n%s", want, text);
}

static void links_are_read_for_each_pair(void **state)
{
	struct rt_machine m;
	struct rt_error e = {0};

	fake.atomics = 1;
	assert_int_equal(rt_machine_read(&m, &driver, *state, &e), PLAIT_OK);
	assert_int_equal(m.n, 2);
	assert_true(m.link[0].access && m.link[3].access); /* a GPU reaches itself */
	assert_false(m.link[1].access || m.link[1].atomics);
	fake.access = 1;
	assert_int_equal(rt_machine_read(&m, &driver, *state, &e), PLAIT_OK);
	assert_true(m.link[1].access && m.link[2].atomics);
	assert_string_equal(m.gpu[1].name, "NVIDIA T1");
	assert_string_not_equal(m.driver, "");
}

static void each_variable_switches_multicast_off(void **state)
{
	(void)state;
	assert_null(rt_multicast_off());
	for (const struct rt_switch *s = rt_multicast_switches; s->name; s++) {
		setenv(s->name, s->off[0] == '0' ? "1" : "0", 1);
		assert_null(rt_multicast_off());
		setenv(s->name, s->off, 1);
		assert_string_equal(rt_multicast_off(), s->name);
		unsetenv(s->name);
	}
}

static void doctor_says_what_is_missing(void **state)
{
	const char *s = report(*state);

	has(s, "gpu 0 does not reach the memory of gpu 1");
	has(s, "0 of 2 GPUs have the attribute");
	has(s, "kernels can run on this machine; 2 things missing");
	fake.access = fake.atomics = fake.multicast = 1;
	s = report(*state);
	has(s, "all 2 pairs reach each other, with native atomics (NVLink)");
	has(s, "all 2 GPUs have the attribute");
	has(s, "0 things missing");
	has(s, "   0  .  N\n");
	setenv("NCCL_NVLS_ENABLE", "0", 1);
	has(report(*state), "switched off by NCCL_NVLS_ENABLE=0: no multicast call is made");
}

static void a_driver_that_fails_is_a_finding(void **state)
{
	const char *s;

	fake.fail_attribute = RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
	s = report(*state);
	has(s, "cuDeviceGetAttribute: wrong (1)");
	has(s, "there is no GPU that kernels could run on");
	fake.fail_attribute = RT_CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED; /* older drivers */
	has(report(*state), "kernels can run on this machine");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(links_are_read_for_each_pair),
	        TEST(each_variable_switches_multicast_off),
	        TEST(doctor_says_what_is_missing),
	        TEST(a_driver_that_fails_is_a_finding),
	};

	return cmocka_run_group_tests_name("the machine", tests, NULL, NULL);
}
