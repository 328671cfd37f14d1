/* plait: the program.  Chooses the command; everything else is in cmd_*.c. */
#include "runtime/plait.h"
#include "tools/commands.h"
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	enum command command;
	int (*run)(struct args *a);
	const char *about;
} commands[] = {
#define COMMAND(id, name, operand, list, help) {#name, CMD_##id, cmd_##name, list},
#include "tools/commands.def"
};

static void help(FILE *f)
{
	fputs("usage: plait COMMAND [FILE] [OPTION ...]\n\ncommands:\n", f);
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		fprintf(f, "  %-9s %s\n", commands[i].name, commands[i].about);
	fputs("\nplait COMMAND --help lists the options of a command; plait --version.\n", f);
}

static int run(size_t command, int argc, char **argv)
{
	struct arena arena;
	struct args args = {.arena = &arena, .command = commands[command].command};
	int code;

	arena_init(&arena, 0);
	if (setjmp(arena.oom)) {
		arena_free(&arena);
		fputs("plait: out of memory\n", stderr);
		return 3;
	}
	code = args_parse(&args, argc, argv);
	if (code < 0)
		code = commands[command].run(&args);
	arena_free(&arena);
	return code;
}

static int program(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (!strcmp(name, commands[i].name))
			return run(i, argc - 1, argv + 1);
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
		help(stdout);
		return 0;
	}
	if (!strcmp(name, "--version")) {
		printf("plait %s\n", plait_version());
		return 0;
	}
	if (argc > 1)
		fprintf(stderr, "plait: there is no command '%s'\n", name);
	help(stderr);
	return 2;
}

/* What was printed must have got there: a report into a full disk is no report. */
int main(int argc, char **argv)
{
	int code = program(argc, argv);
	bool lost = fflush(stdout) || ferror(stdout);

	if (!lost || code)
		return code;
	fputs("plait: cannot write standard output\n", stderr);
	return 3;
}
