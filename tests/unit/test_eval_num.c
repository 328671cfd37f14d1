/* Number formats of the reference: rounding, encoding. */
#include "tests/unit/unit.h"
#include "ir/eval.h"
#include <math.h>
#include <string.h>

static void every_16_bit_pattern_survives_decoding_and_encoding(void **state)
{
	static const enum ir_dtype types[] = {IR_BF16, IR_F16};

	(void)state;
	for (unsigned k = 0; k < 2; k++)
		for (uint32_t b = 0; b < 65536; b++) {
			double v = ir_decode(types[k], b);

			if (isnan(v)) {
				assert_true(isnan(ir_decode(types[k], ir_encode(types[k], v))));
				continue;
			}
			assert_int_equal(ir_encode(types[k], v), b);
			assert_true(ir_round(types[k], v) == v);
		}
}

static void every_narrow_pattern_survives_decoding_and_encoding(void **state)
{
	static const enum ir_dtype types[] = {IR_E4M3, IR_E5M2, IR_E8M0, IR_E2M1};

	(void)state;
	for (unsigned k = 0; k < 4; k++)
		for (uint32_t b = 0; b < 1u << ir_dtype_info[types[k]].bits; b++) {
			double v = ir_decode(types[k], b);

			if (isnan(v))
				continue;
			assert_int_equal(ir_encode(types[k], v), b);
			if (isfinite(v))
				assert_true(ir_round(types[k], v) == v);
		}
}

static void bf16_is_the_upper_half_of_f32(void **state)
{
	(void)state;
	for (uint32_t b = 0; b < 65536; b++) {
		uint32_t w = b << 16;
		float f;

		memcpy(&f, &w, sizeof f);
		if (!isnan(f))
			assert_true(ir_decode(IR_BF16, b) == (double)f);
	}
}

/* Between any two neighbours: below the middle goes down, above it up, the middle to the even code.
 */
static void rounding_goes_to_nearest_and_ties_to_even(void **state)
{
	static const enum ir_dtype types[] = {IR_BF16, IR_F16, IR_E4M3, IR_E5M2, IR_E2M1};

	(void)state;
	for (unsigned k = 0; k < 5; k++) {
		enum ir_dtype t = types[k];
		uint32_t top = 1u << (ir_dtype_info[t].bits - 1);

		for (uint32_t b = 0; b + 1 < top; b++) {
			double lo = ir_decode(t, b), hi = ir_decode(t, b + 1), mid;

			if (!isfinite(lo) || !isfinite(hi))
				continue;
			mid = (lo + hi) / 2;
			assert_true(ir_round(t, mid) == (b & 1 ? hi : lo));
			assert_true(ir_round(t, -mid) == (b & 1 ? -hi : -lo));
			assert_true(ir_round(t, nextafter(mid, 0.0)) == lo);
			assert_true(ir_round(t, nextafter(mid, INFINITY)) == hi);
		}
	}
}

static void overflow_goes_to_infinity_or_saturates_as_the_format_says(void **state)
{
	(void)state;
	assert_true(ir_round(IR_BF16, 0x1.fep127) == 0x1.fep127);
	assert_true(ir_round(IR_BF16, 0x1.fefp127) == 0x1.fep127);
	assert_true(isinf(ir_round(IR_BF16, 0x1.ffp127)));
	assert_true(ir_round(IR_F16, 65519.0) == 65504.0);
	assert_true(isinf(ir_round(IR_F16, 65520.0)));
	assert_true(ir_round(IR_E4M3, 1e9) == 448.0);
	assert_true(ir_round(IR_E4M3, -INFINITY) == -448.0);
	assert_true(ir_round(IR_E5M2, 61440.0) == 57344.0);
	assert_true(ir_round(IR_E2M1, -7.0) == -6.0);
	assert_true(ir_round(IR_E8M0, 3.0) == 2.0); /* a tie, to the even code */
	assert_true(ir_round(IR_E8M0, 1.5) == 2.0);
	assert_true(ir_round(IR_E8M0, 0.0) == 0x1p-127);
	assert_true(isnan(ir_round(IR_E8M0, -1.0)));
	assert_true(isnan(ir_round(IR_E4M3, (double)NAN)));
	assert_int_equal(ir_encode(IR_E4M3, (double)NAN), 0x7f);
}

static void subnormals_are_kept(void **state)
{
	(void)state;
	assert_true(ir_round(IR_BF16, 0x1p-133) == 0x1p-133);
	assert_true(ir_round(IR_BF16, 0x1p-134) == 0.0);
	assert_true(ir_round(IR_BF16, 0x1.8p-134) == 0x1p-133);
	assert_true(ir_round(IR_F16, 0x1.8p-24) == 0x1p-23);
	assert_true(signbit(ir_round(IR_F16, -0x1p-40)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(every_16_bit_pattern_survives_decoding_and_encoding),
	        cmocka_unit_test(every_narrow_pattern_survives_decoding_and_encoding),
	        cmocka_unit_test(bf16_is_the_upper_half_of_f32),
	        cmocka_unit_test(rounding_goes_to_nearest_and_ties_to_even),
	        cmocka_unit_test(overflow_goes_to_infinity_or_saturates_as_the_format_says),
	        cmocka_unit_test(subnormals_are_kept),
	};

	return cmocka_run_group_tests_name("eval_num", tests, NULL, NULL);
}
