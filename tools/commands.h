/* The commands, one file each (cmd_*.c).  Each returns the program's exit code; args->arena is set
 * up with its oom. */
#pragma once
#include "tools/args.h"

#define COMMAND(id, name, operand, list, help) int cmd_##name(struct args *a);
#include "tools/commands.def"
