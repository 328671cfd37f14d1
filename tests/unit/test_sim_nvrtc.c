/*
 * The simulator against C: CUDA kernels of our own, compiled by NVRTC where it is there, must give
 * bit for bit what the same arithmetic gives on this machine.  What NVRTC makes of them is text that
 * nobody here wrote: divergence, loops, predication, every kind of address.
 */
#include "tests/unit/unit.h"
#include "tests/unit/sim_run.h"
#include <dlfcn.h>
#include <math.h>

enum { N = 384, BLOCK = 96, MAX_OPTIONS = 2 };

/* ---- NVRTC, opened at run time ---- */

typedef struct nvrtc_program *program;
struct nvrtc {
	int (*create)(program *p, const char *src, const char *name, int n, const char *const *h,
	              const char *const *i);
	int (*compile)(program p, int n, const char *const *options);
	int (*ptx_size)(program p, size_t *n);
	int (*ptx)(program p, char *text);
	int (*log_size)(program p, size_t *n);
	int (*log)(program p, char *text);
	int (*destroy)(program *p);
};

static bool nvrtc_open(struct nvrtc *r)
{
	static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
	                                    "/usr/local/cuda/lib64/libnvrtc.so"};
	void *lib = NULL;

	for (unsigned k = 0; k < sizeof names / sizeof *names && !lib; k++)
		lib = dlopen(names[k], RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return false;
#define GET(member, symbol) *(void **)&r->member = dlsym(lib, symbol)
	GET(create, "nvrtcCreateProgram");
	GET(compile, "nvrtcCompileProgram");
	GET(ptx_size, "nvrtcGetPTXSize");
	GET(ptx, "nvrtcGetPTX");
	GET(log_size, "nvrtcGetProgramLogSize");
	GET(log, "nvrtcGetProgramLog");
	GET(destroy, "nvrtcDestroyProgram");
#undef GET
	return r->create && r->compile && r->ptx_size && r->ptx && r->log_size && r->log &&
	       r->destroy;
}

/* The PTX of a source; the caller frees it. */
static char *nvrtc_compile(const struct nvrtc *r, const char *src)
{
	static const char *const options[MAX_OPTIONS] = {"--gpu-architecture=compute_90",
	                                                 "--fmad=false"};
	program p;
	size_t n = 0;
	char *text;

	assert_int_equal(r->create(&p, src, "k.cu", 0, NULL, NULL), 0);
	if (r->compile(p, MAX_OPTIONS, options)) {
		r->log_size(p, &n);
		text = calloc(1, n + 1);
		assert_non_null(text);
		r->log(p, text);
		fail_msg("%s", text);
	}
	assert_int_equal(r->ptx_size(p, &n), 0);
	text = calloc(1, n + 1);
	assert_non_null(text);
	assert_int_equal(r->ptx(p, text), 0);
	r->destroy(&p);
	return text;
}

/* ---- kernels, and the same in C ---- */

#define HEAD                                                                                 \
	"extern \"C\" __global__ void k(const unsigned *in, unsigned *out, unsigned n)\n{\n" \
	"unsigned i = blockIdx.x * blockDim.x + threadIdx.x, a, b, r;\n"                     \
	"a = in[i]; b = in[(i * 7 + 3) % n];\n"
#define TAIL "out[i] = r;\n}\n"

static float f32(uint32_t u)
{
	float f;

	memcpy(&f, &u, 4);
	return f;
}

static uint32_t u32(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	return u;
}

/* A finite float of moderate size from any bits. */
static float moderate(uint32_t u)
{
	return f32((u & 0x83ffffffu) | 0x3c000000u);
}
#define MODERATE                                                                            \
	"__device__ float moderate(unsigned u) { return __uint_as_float((u & 0x83ffffffu) " \
	"| 0x3c000000u); }\n"

static uint32_t integers(const uint32_t *in, uint32_t i)
{
	uint32_t a = in[i], b = in[(i * 7 + 3) % N];
	uint64_t w = (uint64_t)a * b;

	return (a * 2654435761u ^ b >> 13) + (uint32_t)(w >> 32) * 3 + (uint32_t)(w >> 17) +
	       (a % 1000 / 7) + (a << (b & 31)) + (a & ~b) + (b > a ? a : b);
}

static uint32_t signed_integers(const uint32_t *in, uint32_t i)
{
	int32_t a = (int32_t)in[i], b = (int32_t)(in[(i * 7 + 3) % N] | 1);
	int64_t w = (int64_t)a * b;
	int32_t q = (int32_t)(a / (int64_t)b), m = (int32_t)(a % (int64_t)b);

	return (uint32_t)q + (uint32_t)m * 5u + (uint32_t)(a >> 5) + (uint32_t)(w >> 33) +
	       (uint32_t)(a < b ? a : b) + (uint32_t)(a > -1000 && b < 1000 ? 17 : -4);
}

static uint32_t collatz(const uint32_t *in, uint32_t i)
{
	uint32_t v = in[i] % 1000 + 1, steps = 0;

	while (v != 1 && steps < 60) {
		if (v & 1) {
			v = 3 * v + 1;
			if (v % 5 == 0)
				steps += 2;
		} else {
			v /= 2;
		}
		if (v % 97 == 13)
			break;
		steps++;
	}
	return steps * 65536 + v;
}

static uint32_t floats(const uint32_t *in, uint32_t i)
{
	float a = moderate(in[i]), b = moderate(in[(i * 7 + 3) % N]), c;

	c = fmaf(a, b, a - b);
	c = c / (b * b + 1.0f) + sqrtf(fabsf(a)) * 0.125f;
	c = a < b ? c : -c;
	return u32(fmaxf(c, fminf(a, b)));
}

static uint32_t conversions(const uint32_t *in, uint32_t i)
{
	float a = moderate(in[i]) * 1000.0f;
	int32_t t = (int32_t)a;
	uint32_t near = (uint32_t)lrintf(fabsf(a)), u = u32(a);
	uint32_t bf = ((u >> 16) + ((u & 0xffff) > 0x8000 || ((u & 0x1ffff) == 0x18000))) & 0xffff;

	return (uint32_t)t * 3u + near + u32((float)t) + u32((float)in[i]) + (bf << 16);
}

static uint32_t block_sum(const uint32_t *in, uint32_t i)
{
	uint32_t sum = 0, scan = 0, first = i / BLOCK * BLOCK;

	for (uint32_t k = first; k < first + BLOCK; k++) {
		sum += in[k];
		scan += k <= i ? in[k] : 0;
	}
	return sum ^ scan;
}

static uint32_t warp_votes(const uint32_t *in, uint32_t i)
{
	uint32_t first = i / BLOCK * BLOCK + i % BLOCK / 32 * 32, ballot = 0, r = in[i];

	for (uint32_t k = 0; k < 32; k++)
		ballot |= (in[first + k] & 1) << k;
	for (uint32_t d = 16; d; d /= 2) { /* the butterfly sums the same values in every lane */
		uint32_t next = 0;

		for (uint32_t k = 0; k < 32; k++)
			next += in[first + k];
		r = next;
	}
	return ballot * 3 + r + in[first + (i % 32 + 31) % 32];
}

struct example {
	const char *name, *source;
	uint32_t (*same)(const uint32_t *in, uint32_t i);
};

/* clang-format off */
static const struct example examples[] = {
	{"integers", HEAD
	 "unsigned long long w = (unsigned long long)a * b;\n"
	 "r = (a * 2654435761u ^ b >> 13) + __umulhi(a, b) * 3 + (unsigned)(w >> 17) + (a % 1000 / 7) + (a << (b & 31)) + (a & ~b) + min(a, b);\n"
	 TAIL, integers},
	{"signed integers", HEAD
	 "int x = (int)a, y = (int)(b | 1);\nlong long w = (long long)x * y;\n"
	 "r = (unsigned)(int)((long long)x / y) + (unsigned)(int)((long long)x % y) * 5u + (unsigned)(x >> 5) + (unsigned)(w >> 33) + (unsigned)min(x, y)"
	 " + (unsigned)(x > -1000 && y < 1000 ? 17 : -4);\n" TAIL, signed_integers},
	{"loops that diverge", HEAD
	 "unsigned v = a % 1000 + 1, steps = 0;\nwhile (v != 1 && steps < 60) {\n"
	 "if (v & 1) { v = 3 * v + 1; if (v % 5 == 0) steps += 2; } else { v /= 2; }\nif (v % 97 == 13) break;\nsteps++;\n}\n"
	 "r = steps * 65536 + v;\n" TAIL, collatz},
	{"floats", MODERATE HEAD
	 "float x = moderate(a), y = moderate(b), c = __fmaf_rn(x, y, x - y);\n"
	 "c = __fdiv_rn(c, y * y + 1.0f) + __fsqrt_rn(fabsf(x)) * 0.125f;\nc = x < y ? c : -c;\n"
	 "r = __float_as_uint(fmaxf(c, fminf(x, y)));\n" TAIL, floats},
	{"conversions", MODERATE HEAD
	 "float x = moderate(a) * 1000.0f;\nint t = (int)x;\nunsigned short h;\nasm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(x));\n"
	 "r = (unsigned)t * 3u + __float2uint_rn(fabsf(x)) + __float_as_uint((float)t) + __float_as_uint((float)a) + ((unsigned)h << 16);\n"
	 TAIL, conversions},
	{"shared memory and barriers", HEAD
	 "__shared__ unsigned s[96], total;\nunsigned t = threadIdx.x, v = a;\ns[t] = v;\nif (t == 0) total = 0;\n__syncthreads();\natomicAdd(&total, v);\n"
	 "for (unsigned d = 1; d < 96; d *= 2) { unsigned add = t >= d ? s[t - d] : 0; __syncthreads(); s[t] += add; __syncthreads(); }\n"
	 "r = total ^ s[t];\n" TAIL, block_sum},
	{"shuffles and votes", HEAD
	 "unsigned ballot = __ballot_sync(~0u, a & 1), v = a, lane = threadIdx.x & 31;\n"
	 "for (unsigned d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);\nr = ballot * 3 + v + __shfl_sync(~0u, a, (lane + 31) % 32);\n"
	 TAIL, warp_votes},
};
/* clang-format on */

static void run(const struct nvrtc *r, const struct example *e, enum sim_schedule schedule)
{
	char *text = nvrtc_compile(r, e->source);
	struct sim_test t;
	struct ptx_module *m;
	const struct sim_kernel *k;
	uint32_t in[N], out[N], state = 12345;
	struct {
		uint64_t in, out;
		uint32_t n;
	} args = {0};

	sim_test_begin(&t);
	t.o.schedule = schedule;
	t.o.seed = 7;
	sim_test_start(&t);
	m = sim_test_parse(&t, text);
	assert_non_null(m);
	k = sim_load(t.sim, m, "k");
	for (uint32_t i = 0; i < N; i++)
		in[i] = state = state * 1664525u + 1013904223u;
	args.in = sim_alloc(t.sim, 0, sizeof in, "in");
	args.out = sim_alloc(t.sim, 0, sizeof out, "out");
	args.n = N;
	sim_write(t.sim, args.in, in, sizeof in);
	if (k)
		sim_launch(t.sim, 0, 0, k, N / BLOCK, BLOCK, &args, 20);
	if (!k || !sim_run(t.sim)) {
		sim_test_show(&t);
		fail_msg("%s", e->name);
	}
	sim_read(t.sim, args.out, out, sizeof out);
	for (uint32_t i = 0; i < N; i++)
		if (out[i] != e->same(in, i))
			fail_msg("%s: thread %u has %08x, and C %08x", e->name, i, out[i],
			         e->same(in, i));
	sim_test_end(&t);
	free(text);
}

static void what_nvrtc_makes_of_cuda_gives_what_c_gives(void **state)
{
	struct nvrtc r;

	(void)state;
	if (!nvrtc_open(&r))
		skip_because("no NVRTC");
	for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
		for (int s = SIM_ROUND_ROBIN; s < SIM_NSCHEDULES; s++)
			run(&r, &examples[i], (enum sim_schedule)s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(what_nvrtc_makes_of_cuda_gives_what_c_gives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
