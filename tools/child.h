/* Runs a program and reads what it prints. */
#pragma once
#include "support/strbuf.h"

/*
 * argv[0] is looked for on the PATH; standard output and standard error together go to *out.  Its exit code; 127 where it
 * cannot be run; 128 + the signal that ended it.
 */
int child_read(char *const argv[], struct strbuf *out);
