/*
 * Compiles a spec to PTX with the library and says what each kernel wants.
 *
 *	cc compile.c $(pkg-config --cflags --libs plait) -o compile
 *	./compile SPEC.plait [TP [DIR]]        DIR gets the PTX, a file for each kernel
 */
#include <inttypes.h>
#include <plait.h>
#include <stdio.h>
#include <stdlib.h>

static char *read_file(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	char *text = NULL;
	long n;

	if (f && fseek(f, 0, SEEK_END) == 0 && (n = ftell(f)) >= 0 &&
	    (text = malloc((size_t)n + 1))) {
		rewind(f);
		*len = fread(text, 1, (size_t)n, f);
	}
	if (f)
		fclose(f);
	return text;
}

static int write_ptx(const plait_code *code, size_t i, const char *dir)
{
	char path[4096];
	size_t len;
	const char *ptx = plait_code_ptx(code, i, &len);
	FILE *f;

	snprintf(path, sizeof path, "%s/%s.ptx", dir, plait_code_name(code, i));
	f = fopen(path, "w");
	if (!f || fwrite(ptx, 1, len, f) != len) {
		perror(path);
		if (f)
			fclose(f);
		return 1;
	}
	return fclose(f) != 0;
}

static void describe(const plait_code *code, size_t i)
{
	struct plait_kernel_info k = PLAIT_KERNEL_INFO_INIT;

	plait_code_info(code, i, &k);
	printf("%s: entry %s, %s, %" PRIu32 " threads, contract %016" PRIx64 "\n",
	       plait_code_name(code, i), plait_code_entry(code, i), k.protocol, k.threads,
	       k.contract);
	for (size_t p = 0; p < k.nparam; p++) {
		struct plait_param_info info = PLAIT_PARAM_INFO_INIT;

		plait_code_param(code, i, p, &info);
		printf("    %s: %s, %" PRId64 " columns, %s\n", info.name, info.dtype, info.cols,
		       info.placement);
	}
}

int main(int argc, char **argv)
{
	struct plait_compile_options o = PLAIT_COMPILE_OPTIONS_INIT;
	enum plait_status s;
	plait_code *code;
	char *text;

	if (argc < 2) {
		fprintf(stderr, "usage: %s SPEC [TP [DIR]]   (plait %s)\n", argv[0],
		        plait_version());
		return 2;
	}
	text = read_file(argv[1], &o.text_len);
	if (!text) {
		perror(argv[1]);
		return 1;
	}
	o.spec_name = argv[1];
	o.text = text;
	o.tp = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 8;
	s = plait_compile(&o, &code);
	fprintf(stderr, "%s", plait_code_diagnostics(code));
	if (s != PLAIT_OK)
		fprintf(stderr, "%s: %s\n", argv[1], plait_status_text(s));
	for (size_t i = 0; i < plait_code_count(code); i++) {
		describe(code, i);
		if (argc > 3 && write_ptx(code, i, argv[3]))
			s = PLAIT_ENV;
	}
	plait_code_free(code);
	free(text);
	return (int)s;
}
