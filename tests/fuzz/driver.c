/*
 * Runs a fuzz target without a fuzzing engine: inputs are mutations of a corpus, made from a seed,
 * in child processes, so that a crash, an abort, a sanitizer's finding or a hang is named with the
 * seed and the run that replays it, and its input is kept.  With clang's engine link the target
 * alone: clang -fsanitize=fuzzer,address.
 *
 *	fuzz_TARGET [--runs N] [--seed S] [--only K] FILE|FOLDER...
 *
 * --only: run K alone, in this process.
 */
#include "tests/fuzz/fuzz.h"
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGEST = 1 << 16, BATCH = 200, MOST_FILES = 256, SECONDS = 20 };

struct corpus {
	size_t n;
	uint8_t *data[MOST_FILES];
	size_t size[MOST_FILES];
};

/* splitmix64: the same on every machine. */
static uint64_t next(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static size_t below(uint64_t *s, size_t n)
{
	return n ? (size_t)(next(s) % n) : 0;
}

static bool load(struct corpus *c, const char *path)
{
	FILE *f = fopen(path, "rb");

	if (!f || c->n == MOST_FILES) {
		perror(path);
		return false;
	}
	c->data[c->n] = malloc(LARGEST);
	c->size[c->n] = c->data[c->n] ? fread(c->data[c->n], 1, LARGEST, f) : 0;
	fclose(f);
	c->n++;
	return true;
}

static int visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

/* A file; or a folder's files, by name. */
static bool load_all(struct corpus *c, const char *path)
{
	struct dirent **e;
	int n = scandir(path, &e, visible, alphasort);
	bool good = true;

	if (n < 0)
		return load(c, path);
	for (int i = 0; i < n; i++) {
		char name[4096];

		snprintf(name, sizeof name, "%s/%s", path, e[i]->d_name);
		good = good && load(c, name);
		free(e[i]);
	}
	free(e);
	return good;
}

/* Replaces `cut` bytes at `at` by n bytes of p. */
static size_t splice(uint8_t *b, size_t len, size_t at, size_t cut, const uint8_t *p, size_t n)
{
	if (cut > len - at)
		cut = len - at;
	if (n > LARGEST - (len - cut))
		n = LARGEST - (len - cut);
	memmove(b + at + n, b + at + cut, len - at - cut);
	if (n)
		memcpy(b + at, p, n);
	return len - cut + n;
}

static size_t mutate(uint8_t *b, size_t len, const struct corpus *c, uint64_t *s)
{
	static const char *const odd[] = {
	        "0",
	        "-1",
	        "4294967296",
	        "9223372036854775807",
	        "9223372036854775808",
	        "1e999",
	        "nan",
	        "/*",
	        "\"",
	        "{",
	        "}",
	        "(((((((((",
	        ")",
	        "[",
	        "]",
	        ";",
	        ",",
	        "%",
	        "@",
	        "$",
	        "\n",
	        "\t",
	        "\xff",
	};
	size_t at = below(s, len + 1), other = below(s, c->n), from = below(s, c->size[other] + 1);
	uint8_t byte = (uint8_t)next(s);
	const char *word = odd[below(s, sizeof odd / sizeof *odd)];

	switch (below(s, 7)) {
	case 0: /* a byte changed */
		return splice(b, len, at, 1, &byte, 1);
	case 1: /* some removed */
		return splice(b, len, at, 1 + below(s, 16), NULL, 0);
	case 2: /* an odd word */
		return splice(b, len, at, below(s, 8), (const uint8_t *)word, strlen(word));
	case 3: /* the end cut off */
		return at;
	case 4: /* a piece of the corpus */
		return splice(b, len, at, below(s, 32), c->data[other] + from,
		              below(s, c->size[other] - from + 1) % 64);
	case 5: /* a digit changed */
		while (at < len && (b[at] < '0' || b[at] > '9'))
			at++;
		byte = (uint8_t)('0' + byte % 10);
		return splice(b, len, at, at < len, &byte, at < len);
	default: /* a line twice, or gone */
		while (at > 0 && b[at - 1] != '\n')
			at--;
		for (from = at; from < len && b[from] != '\n';)
			from++;
		if (byte & 1)
			return splice(b, len, at, from - at + 1, NULL, 0);
		uint8_t line[512];
		size_t n = from - at < sizeof line ? from - at : sizeof line;
		memcpy(line, b + at, n);
		return splice(b, len, at, 0, line, n);
	}
}

/* The input of run k. */
static size_t make(uint8_t *b, const struct corpus *c, uint64_t seed, uint64_t k)
{
	uint64_t s = seed * 0x100000001b3u ^ k;
	size_t file = below(&s, c->n), len = c->size[file], times = below(&s, 6);

	memcpy(b, c->data[file], len);
	while (times--)
		len = mutate(b, len, c, &s);
	return len;
}

static void run(const struct corpus *c, uint64_t seed, uint64_t k)
{
	uint8_t *scratch = malloc(LARGEST), *exact;
	size_t len = make(scratch, c, seed, k);

	exact = malloc(len ? len : 1); /* of its very size, so that reading beyond it is found */
	memcpy(exact, scratch, len);
	free(scratch);
	LLVMFuzzerTestOneInput(exact, len);
	free(exact);
}

/* Runs [from, to) in a child; whether it ended well. */
static bool batch(const struct corpus *c, uint64_t seed, uint64_t from, uint64_t to)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(SECONDS);
		for (uint64_t k = from; k < to; k++)
			run(c, seed, k);
		exit(0); /* not _exit: leaks are looked for here */
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void keep(const struct corpus *c, uint64_t seed, uint64_t k)
{
	char name[64];
	uint8_t *b = malloc(LARGEST);
	size_t len = make(b, c, seed, k);
	FILE *f;

	snprintf(name, sizeof name, "fuzz-%llu-%llu", (unsigned long long)seed,
	         (unsigned long long)k);
	f = fopen(name, "wb");
	if (f) {
		fwrite(b, 1, len, f);
		fclose(f);
	}
	printf("run %llu of seed %llu fails; its input is in %s, replay it with --seed %llu --only "
	       "%llu\n",
	       (unsigned long long)k, (unsigned long long)seed, name, (unsigned long long)seed,
	       (unsigned long long)k);
	free(b);
}

static int run_all(const struct corpus *c, uint64_t seed, uint64_t runs)
{
	int failed = 0;

	for (uint64_t k = 0; k < runs && failed < 5; k += BATCH) {
		uint64_t to = k + BATCH < runs ? k + BATCH : runs;

		if (batch(c, seed, k, to))
			continue;
		for (uint64_t i = k; i < to; i++)
			if (!batch(c, seed, i, i + 1)) {
				keep(c, seed, i);
				failed++;
			}
	}
	printf("%llu runs over %zu files, %d failed\n", (unsigned long long)runs, c->n, failed);
	return failed != 0;
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, runs = 2000, only = UINT64_MAX;
	static struct corpus c;
	int status = 0;

	for (int i = 1; i < argc; i++) {
		uint64_t *option = strcmp(argv[i], "--runs") == 0   ? &runs
		                   : strcmp(argv[i], "--seed") == 0 ? &seed
		                   : strcmp(argv[i], "--only") == 0 ? &only
		                                                    : NULL;

		if (option && i + 1 < argc)
			*option = strtoull(argv[++i], NULL, 10);
		else if (!load_all(&c, argv[i]))
			return 2;
	}
	if (c.n == 0) {
		fprintf(stderr, "usage: %s [--runs N] [--seed S] [--only K] FILE...\n", argv[0]);
		return 2;
	}
	if (only != UINT64_MAX)
		run(&c, seed, only);
	else
		status = run_all(&c, seed, runs);
	for (size_t i = 0; i < c.n; i++)
		free(c.data[i]);
	return status;
}
