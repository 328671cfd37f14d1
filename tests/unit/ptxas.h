/* Runs ptxas over text.  Missing, it is a visible skip, or a failure where CI=true. */
#pragma once
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The program to run; NULL: there is none. */
static inline const char *ptxas_path(void)
{
	static const char *const places[] = {"/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"};
	const char *e = getenv("PTXAS");

	if (e)
		return e;
	if (system("command -v ptxas >/dev/null 2>&1") == 0)
		return "ptxas";
	for (size_t k = 0; k < sizeof places / sizeof places[0]; k++)
		if (access(places[k], X_OK) == 0)
			return places[k];
	return NULL;
}

/* Skips the running test, or fails it where CI=true. */
#define NEED_PTXAS                                                    \
	do {                                                          \
		const char *ci_ = getenv("CI");                       \
		if (!ptxas_path() && ci_ && strcmp(ci_, "true") == 0) \
			fail_msg("ptxas is missing and CI=true");     \
		if (!ptxas_path())                                    \
			skip();                                       \
	} while (0)

/*
 * Assembles text for sm_NN.  wrong[1..lines]: whether ptxas reports an error on the line, `first`
 * the first message (of size bytes).  Returns whether it was accepted; -1: ptxas did not run.
 */
static inline int ptxas_run(const char *text, size_t n, unsigned sm, char suffix, bool *wrong,
                            unsigned lines, char *first, size_t size)
{
	char in[] = "/tmp/plait_XXXXXX.ptx", out[64], cmd[512], line[2048];
	int fd = mkstemps(in, 4), rc = -1;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	first[0] = 0;
	if (!f)
		return -1;
	fwrite(text, 1, n, f);
	fclose(f);
	snprintf(out, sizeof out, "%s.out", in);
	snprintf(cmd, sizeof cmd, "'%s' -O0 -arch=sm_%u%.1s %s -o %s 2>&1", ptxas_path(), sm,
	         suffix ? (char[]){suffix, 0} : "", in, out);
	f = popen(cmd, "r");
	while (f && fgets(line, sizeof line, f)) {
		const char *at = strstr(line, ", line ");
		unsigned k = at ? (unsigned)strtoul(at + 7, NULL, 10) : 0;

		if (strstr(line, "warning") || strstr(line, "info"))
			continue;
		if (!first[0])
			snprintf(first, size, "%s", line);
		if (k && k <= lines)
			wrong[k] = true;
	}
	if (f)
		rc = pclose(f);
	unlink(in);
	unlink(out);
	return rc < 0 || WEXITSTATUS(rc) == 127 ? -1 : WEXITSTATUS(rc) == 0;
}
