/* Runs ptxas -v on a temporary file and reads its report; nvJitLink's report is the same text. */
#include "tools/ptxas.h"
#include "runtime/jit.h"
#include "support/strbuf.h"
#include "tools/child.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Its exit code, or -1 where it cannot be run. */
static int run(const char *program, const char *target, const char *file, struct strbuf *log)
{
	char arch[64];
	char *argv[] = {(char *)(uintptr_t)program,
	                arch,
	                (char[]){"-v"},
	                (char[]){"-o"},
	                (char[]){"/dev/null"},
	                (char *)(uintptr_t)file,
	                NULL};
	int code;

	snprintf(arch, sizeof arch, "-arch=%s", target);
	code = child_read(argv, log);
	return code == 127 ? -1 : code;
}

static int try_programs(struct arena *a, const char *target, const char *file, struct strbuf *log)
{
	const char *home = getenv("CUDA_HOME");
	int code = run("ptxas", target, file, log);

	if (code == -1 && home)
		code = run(arena_printf(a, "%s/bin/ptxas", home), target, file, log);
	if (code == -1)
		code = run("/usr/local/cuda/bin/ptxas", target, file, log);
	return code;
}

static int with_file(struct arena *a, const char *text, const char *target, struct strbuf *log)
{
	const char *dir = getenv("TMPDIR");
	char *path = arena_printf(a, "%s/plait-XXXXXX", dir ? dir : "/tmp");
	int fd = mkstemp(path), code = -1;
	size_t n = strlen(text);

	if (fd < 0)
		return -1;
	if (write(fd, text, n) == (ssize_t)n)
		code = try_programs(a, target, path, log);
	close(fd);
	unlink(path);
	return code;
}

/* The number before `unit` in the report of `entry`; -1: not there. */
static long number(const char *log, const char *entry, const char *unit)
{
	const char *at = strstr(log, entry), *u;

	u = at ? strstr(at, unit) : NULL;
	if (!u)
		return -1;
	while (u > at && (u[-1] == ' ' || (u[-1] >= '0' && u[-1] <= '9')))
		u--;
	return strtol(u, NULL, 10);
}

static const char *summary(struct arena *a, const char *who, const char *log, const char *entry,
                           const char *target)
{
	const char *quoted = arena_printf(a, "'%s'", entry);
	long regs = number(log, quoted, " registers"),
	     st = number(log, quoted, " bytes spill stores");
	long ld = number(log, quoted, " bytes spill loads");

	if (regs < 0)
		return arena_printf(a, "%s does not say how many registers %s has", who, target);
	return arena_printf(a, "%ld registers, %ld bytes spilled (%s, %s)", regs,
	                    (st > 0 ? st : 0) + (ld > 0 ? ld : 0), who, target);
}

const char *ptxas_resources(struct arena *a, const char *text, const char *entry,
                            const char *target)
{
	const struct rt_nvjitlink *link;
	struct rt_cubin cubin;
	struct strbuf log;
	struct diags d;
	int code;

	strbuf_init(&log, a);
	code = with_file(a, text, target, &log);
	if (code == 0)
		return summary(a, "ptxas", log.s, entry, target);
	if (code > 0)
		return arena_printf(a, "ptxas refuses the text: %.300s", log.s);
	diags_init(&d, a);
	if (rt_nvjitlink_open(a, &d, NULL, &link) != ST_OK)
		return "registers and spills: not known, neither ptxas nor nvJitLink is here";
	if (rt_nvjitlink_link(link, text, strlen(text), target, a, &d, &cubin) != ST_OK)
		return arena_printf(a, "nvJitLink refuses the text: %.300s", cubin.errors);
	return summary(a, "nvJitLink", cubin.info, entry, target);
}
