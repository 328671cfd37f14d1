/* Any text as a spec, all the way to PTX: it compiles, or it is refused with a diagnostic; it is
 * never a bug of ours. */
#include "tests/fuzz/fuzz.h"
#include "runtime/plait.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct plait_compile_options o = PLAIT_COMPILE_OPTIONS_INIT;
	enum plait_status s;
	plait_code *code;

	o.text = (const char *)data;
	o.text_len = size;
	o.tp = 8;
	o.memory_limit = (size_t)256 << 20;
	s = plait_compile(&o, &code);
	if (s == PLAIT_INTERNAL)
		fputs(plait_code_diagnostics(code), stderr);
	MUST(s == PLAIT_OK || s == PLAIT_INPUT || s == PLAIT_NOMEM);
	MUST((s == PLAIT_OK) == (plait_code_count(code) > 0));
	MUST(s == PLAIT_OK || strstr(plait_code_diagnostics(code), "error: "));
	plait_code_free(code);
	return 0;
}
