/* The commands, one file each (cmd_*.c).  Each returns the program's exit code; args->arena is set
 * up with its oom. */
#pragma once
#include "tools/args.h"

int cmd_check(struct args *a);
int cmd_compile(struct args *a);
int cmd_verify(struct args *a);
int cmd_fmt(struct args *a);
int cmd_bench(struct args *a);
int cmd_tune(struct args *a);
int cmd_doctor(struct args *a);
int cmd_lint(struct args *a);
int cmd_simulate(struct args *a);
int cmd_plan(struct args *a);
