#include "support/status.h"
#include <stddef.h>

static const char *const texts[] = {
        [ST_OK] = "done",
        [ST_INPUT] = "the input, or a check of it, is wrong",
        [ST_USAGE] = "the arguments make no sense",
        [ST_ENV] = "the environment lacks something that is needed",
        [ST_INTERNAL] = "a bug of plait's",
        [ST_NOMEM] = "out of memory",
        [ST_TIMEOUT] = "a rank did not come in time",
        [ST_MISMATCH] = "ranks differ in what they must agree on",
};

const char *status_text(enum status s)
{
	size_t i = (size_t)s;

	return i < sizeof texts / sizeof *texts ? texts[i] : "not a status";
}
