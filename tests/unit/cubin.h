/*
 * NVIDIA's assembler for tests: PTX text in, its report and the cubin out.
 */
#pragma once
#include "tests/unit/unit.h"
#include "support/arena.h"
#include "tests/unit/ptxas.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cubin_result {
	const char *log;
	const uint8_t *cubin;
	size_t size;
};

static inline uint8_t *cubin_slurp(struct arena *a, const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	size_t cap = (size_t)4 << 20;
	uint8_t *p = arena_alloc(a, cap);

	assert_non_null(f);
	*n = fread(p, 1, cap - 1, f);
	fclose(f);
	return p;
}

/* Assembles; a refusal fails the test with the assembler's words. */
static inline struct cubin_result cubin_run(struct arena *a, const char *text, const char *arch)
{
	char dir[] = "/tmp/plait-ptxas-XXXXXX";
	struct cubin_result r = {0};
	FILE *f;
	int code;
	size_t n;

	assert_non_null(mkdtemp(dir));
	f = fopen(arena_printf(a, "%s/k.ptx", dir), "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	code = system(arena_printf(a, "%s -arch=%s -v %s/k.ptx -o %s/k.cubin >%s/log 2>&1",
	                           ptxas_path(), arch, dir, dir, dir));
	r.log = (const char *)cubin_slurp(a, arena_printf(a, "%s/log", dir), &n);
	if (code == 0)
		r.cubin = cubin_slurp(a, arena_printf(a, "%s/k.cubin", dir), &r.size);
	unlink(arena_printf(a, "%s/k.ptx", dir));
	unlink(arena_printf(a, "%s/k.cubin", dir));
	unlink(arena_printf(a, "%s/log", dir));
	rmdir(dir);
	if (code != 0)
		fail_msg("ptxas -arch=%s: %s", arch, r.log);
	return r;
}

static inline uint64_t cubin_bytes(const struct cubin_result *r, size_t at, unsigned n)
{
	uint64_t v = 0;

	assert_true(at + n <= r->size);
	memcpy(&v, r->cubin + at, n); /* cubins are little endian, as the machines that test are */
	return v;
}

/*
 * The opcodes (low 12 bits of each 128-bit instruction) of the first section whose name begins with
 * .text: an ELF64 file, read without a disassembler.
 */
static inline uint16_t *cubin_opcodes(struct arena *a, const struct cubin_result *r, size_t *n)
{
	size_t table = cubin_bytes(r, 0x28, 8), entry = cubin_bytes(r, 0x3a, 2);
	size_t count = cubin_bytes(r, 0x3c, 2), strings = cubin_bytes(r, 0x3e, 2);
	size_t names = cubin_bytes(r, table + strings * entry + 0x18, 8);

	for (size_t i = 0; i < count; i++) {
		size_t sh = table + i * entry, name = names + cubin_bytes(r, sh, 4);
		size_t at = cubin_bytes(r, sh + 0x18, 8), size = cubin_bytes(r, sh + 0x20, 8);
		uint16_t *op;

		if (name + 6 > r->size || memcmp(r->cubin + name, ".text.", 6) != 0)
			continue;
		op = arena_news(a, uint16_t, size / 16 + 1);
		for (*n = 0; *n < size / 16; ++*n)
			op[*n] = (uint16_t)(cubin_bytes(r, at + *n * 16, 2) & 0xfff);
		return op;
	}
	fail_msg("no code in the cubin");
	return NULL;
}
