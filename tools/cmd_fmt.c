/* plait fmt: a spec in the one layout, on standard output or in place. */
#include "tools/commands.h"
#include "tools/pipeline.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes beside the file, then takes its place, so that a reader sees the old text or the new one.
 * 0, or an errno. */
static int replace_file(struct arena *a, const char *path, const struct strbuf *text)
{
	char *real = realpath(path, NULL), *tmp;
	struct stat st;
	size_t done = 0;
	int fd, error = 0;

	if (!real)
		return errno;
	tmp = arena_printf(a, "%s.XXXXXX", real);
	if (stat(real, &st) || (fd = mkstemp(tmp)) < 0) {
		error = errno;
		free(real);
		return error;
	}
	while (done < text->n && !error) {
		ssize_t n = write(fd, text->s + done, text->n - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			error = errno;
	}
	if (!error && (fchmod(fd, st.st_mode & 07777) || fsync(fd)))
		error = errno;
	if (close(fd) && !error)
		error = errno;
	if (!error && rename(tmp, real))
		error = errno;
	if (error)
		unlink(tmp);
	free(real);
	return error;
}

static int finish(const struct args *args, const struct strbuf *text, bool same)
{
	int error;

	if (args->check) {
		if (!same)
			printf("%s: not as plait fmt writes it\n", args->spec);
		return !same;
	}
	if (!args->in_place) {
		if (fwrite(text->s, 1, text->n, stdout) == text->n && !fflush(stdout))
			return 0;
		fprintf(stderr, "plait: cannot write: %s\n", strerror(errno));
		return 3;
	}
	error = same ? 0 : replace_file(args->arena, args->spec, text);
	if (error)
		fprintf(stderr, "plait: cannot write '%s': %s\n", args->spec, strerror(error));
	return error ? 3 : 0;
}

int cmd_fmt(struct args *args)
{
	struct pipe p;
	struct strbuf text;
	enum status s;
	int code;

	if (args->in_place && args->check)
		return args_wrong(args, "--check and --in-place exclude each other");
	if (args->in_place && !strcmp(args->spec, "-"))
		return args_wrong(args, "standard input has no place to write to");
	pipe_init(&p, args->arena, args);
	s = pipe_read(&p);
	if (s == ST_OK)
		s = pipe_parse(&p);
	code = pipe_finish(&p, s);
	if (s != ST_OK || code)
		return code;
	strbuf_init(&text, p.a);
	fe_format(p.a, p.src, &text);
	return finish(args, &text, text.n == p.src->len && !memcmp(text.s, p.src->text, text.n));
}
