/* One verification: text, data, schedules, report. */
#include "tools/verify_one.h"

const char *verify_one(struct pipe *p, const struct pipe_kernel *k, const struct vf_options *o)
{
	struct vf_kernel vk = {.f = k->f, .k = k->k, .rows = k->rows, .places = &p->d};
	const struct ptx_module *m;
	struct source *src;
	struct strbuf text, report;
	struct vf_data *d;
	struct vf_result r;
	const char *error;

	strbuf_init(&text, p->a);
	ptx_print(k->k->module, &text);
	src = diags_add_source(&p->d, "kernel.ptx", text.s, text.n);
	m = src ? ptx_parse(p->a, &p->d, src) : NULL;
	if (!m)
		return "the printed text does not parse";
	if (vf_data_new(&vk, o, p->a, &d, &error) != ST_OK)
		return error;
	vf_run(d, m, text.s, p->a, &r);
	vf_data_free(d);
	if (r.failure.kind == VF_GOOD)
		return NULL;
	strbuf_init(&report, p->a);
	strbuf_printf(&report, "%s:\n", k->k->name);
	vf_print_failure(&r.failure, p->args->spec, &report);
	return report.s;
}
