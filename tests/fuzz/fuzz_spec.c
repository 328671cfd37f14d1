/* Any text as a spec, all the way to PTX and to a plan: it compiles, or it is refused with a diagnostic; it is
 * never a bug of ours. */
#include "tests/fuzz/fuzz.h"
#include "runtime/plait.h"
#include <string.h>

/* Its first model, if there is one, gets a plan, the same twice. */
static void plan(const uint8_t *data, size_t size)
{
	struct plait_planner_options o = PLAIT_PLANNER_OPTIONS_INIT;
	struct plait_batch b = PLAIT_BATCH_INIT;
	struct plait_plan_info info = PLAIT_PLAN_INFO_INIT;
	const plait_plan *p, *again;
	enum plait_status s;
	plait_planner *q;

	o.text = (const char *)data;
	o.text_len = size;
	o.tp = 8;
	o.gpu = "h100";
	b.tokens = 700;
	s = plait_planner_make(&o, &q);
	MUST(s == PLAIT_OK || s == PLAIT_INPUT || s == PLAIT_NOMEM);
	MUST((s == PLAIT_OK) == !strstr(plait_planner_diagnostics(q), "error: "));
	if (s == PLAIT_OK) {
		MUST(plait_plan_make(q, &b, &p) == PLAIT_OK);
		MUST(plait_plan_make(q, &b, &again) == PLAIT_OK && p == again);
		MUST(plait_plan_get(p, &info) == PLAIT_OK && info.us >= 0 && info.why[0]);
	}
	plait_planner_free(q);
}

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
	plan(data, size);
	return 0;
}
