/* Any text as the description of a launch: refused with a sentence, or all that it says is in
 * bounds. */
#include "tests/fuzz/fuzz.h"
#include "tools/foreign.h"

static void check(struct arena *a, const char *text, size_t size)
{
	const char *error;
	struct foreign *f = foreign_read(a, text, size, "folder/launch.json", &error);

	MUST(!f == (error != NULL));
	if (!f)
		return;
	MUST(f->ranks >= 1 && f->ranks <= SIM_MAX_RANKS && f->nlaunch &&
	     f->nlaunch <= FOREIGN_MAX_LAUNCHES);
	for (unsigned k = 0; k < f->nlaunch; k++) {
		const struct foreign_launch *l = &f->launch[k];

		MUST(l->grid && l->block && l->block <= 1024 && l->stream < 4 &&
		     l->narg <= FOREIGN_MAX_ARGS);
		MUST(!(l->ranks >> f->ranks));
		for (unsigned i = 0; i < l->narg; i++)
			MUST(l->arg[i].kind >= FOREIGN_RANK || l->arg[i].buffer < f->nbuffer);
	}
}

FUZZ_IN_ARENA(check)
