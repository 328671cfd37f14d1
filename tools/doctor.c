/* Findings of doctor: the driver, the GPUs, how they reach each other, and multicast. */
#include "tools/doctor.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void doctor_init(struct doctor *d, struct arena *a)
{
	*d = (struct doctor){.a = a};
	d->tail = &d->head;
}

void doctor_add(struct doctor *d, const char *what, enum doctor_state s, const char *todo,
                const char *fmt, ...)
{
	struct doctor_finding *f = arena_new(d->a, struct doctor_finding);
	va_list ap;

	va_start(ap, fmt);
	*f = (struct doctor_finding){what, s, arena_vprintf(d->a, fmt, ap), todo, NULL};
	va_end(ap);
	*d->tail = f;
	d->tail = &f->next;
}

static void add_gpu(struct doctor *d, unsigned i)
{
	const struct rt_gpu *g = &d->machine.gpu[i];
	const char *what = arena_printf(d->a, "gpu %u", i);

	doctor_add(d, what, g->sm < 80 ? DOCTOR_LACKS : DOCTOR_GOOD,
	           g->sm < 80 ? "kernels need compute capability 8.0 or newer" : NULL,
	           "%s, sm_%u, %u SMs, %.0f GiB, L2 %.0f MiB, PCI %s", g->name, g->sm,
	           g->processors, (double)g->memory / (1u << 30), (double)g->l2 / (1u << 20),
	           g->pci);
	if (!g->vmm || !g->fd_handle)
		doctor_add(d, what, DOCTOR_LACKS, "hand in memory of your own: plait_buffer_import",
		           "no shareable memory (%s): plait cannot allocate symmetric buffers",
		           g->vmm ? "file descriptors" : "virtual memory management");
	if (g->exclusive)
		doctor_add(d, what, DOCTOR_NOTE, "nvidia-smi -c DEFAULT",
		           "compute mode is exclusive: one process has it at a time");
}

/* One line a pair that is not as good as the best. */
static void add_links(struct doctor *d)
{
	const struct rt_machine *m = &d->machine;
	unsigned direct = 0, native = 0, pairs = m->n * (m->n - 1);

	for (unsigned i = 0; i < m->n; i++)
		for (unsigned j = 0; j < m->n; j++) {
			const struct rt_link *l = &m->link[i * m->n + j];

			if (i == j)
				continue;
			direct += l->access;
			native += l->atomics;
			if (!l->access)
				doctor_add(d, "peer", DOCTOR_LACKS,
				           "peer protocols fall back to NCCL; check ACS and IOMMU "
				           "settings "
				           "and nvidia-smi topo -p2p r",
				           "gpu %u does not reach the memory of gpu %u", i, j);
		}
	if (!pairs)
		doctor_add(d, "peer", DOCTOR_NOTE, NULL,
		           "one GPU: several ranks run on it for tests, not for speed");
	else if (direct == pairs)
		doctor_add(d, "peer", DOCTOR_GOOD, NULL, "all %u pairs reach each other, %s", pairs,
		           native == pairs
		                   ? "with native atomics (NVLink)"
		                   : arena_printf(d->a, "%u of them with native atomics (NVLink)",
		                                  native));
}

void doctor_gpus(struct doctor *d, const struct rt_driver *drv, const char *why)
{
	struct rt_error e = {0};

	if (!drv) {
		doctor_add(d, "driver", DOCTOR_LACKS,
		           "bench and tune do not work without it; all other commands do", "%s",
		           why);
		return;
	}
	if (rt_machine_read(&d->machine, drv, d->a, &e) != PLAIT_OK) {
		d->machine.n = 0;
		doctor_add(d, "driver", DOCTOR_LACKS, "see nvidia-smi and the system's log", "%s",
		           e.text);
		return;
	}
	d->gpus = d->machine.n > 0;
	doctor_add(d, "driver", d->machine.cuda < 12000 ? DOCTOR_LACKS : DOCTOR_GOOD,
	           d->machine.cuda < 12000 ? "install a driver for CUDA 12.0 or newer" : NULL,
	           "%s, for CUDA %d.%d", d->machine.driver, d->machine.cuda / 1000,
	           d->machine.cuda % 1000 / 10);
	for (unsigned i = 0; i < d->machine.n; i++)
		add_gpu(d, i);
	add_links(d);
}

void doctor_multicast(struct doctor *d)
{
	const char *off = rt_multicast_off();
	unsigned have = 0;

	for (unsigned i = 0; i < d->machine.n; i++)
		have += d->machine.gpu[i].multicast;
	if (off)
		doctor_add(d, "multicast", DOCTOR_NOTE, NULL,
		           "switched off by %s=%s: no multicast call is made; %u of %u GPUs have "
		           "the attribute",
		           off, getenv(off), have, d->machine.n);
	else if (d->machine.n > 1 && have == d->machine.n)
		doctor_add(
		        d, "multicast", DOCTOR_GOOD, NULL,
		        "all %u GPUs have the attribute; whether it works is found when a group is "
		        "set up",
		        have);
	else if (d->machine.n)
		doctor_add(d, "multicast", DOCTOR_NOTE, NULL,
		           "%u of %u GPUs have the attribute: mm-* protocols are not taken", have,
		           d->machine.n);
}

/* ---- reports ---- */

static const char *const state_name[] = {"good", "note", "lacks"};

static void print_matrix(const struct doctor *d, struct strbuf *out)
{
	const struct rt_machine *m = &d->machine;

	if (m->n < 2)
		return;
	strbuf_puts(
	        out,
	        "\npeer access, from (row) to (column): N native atomics, P access, - none\n    ");
	for (unsigned j = 0; j < m->n; j++)
		strbuf_printf(out, "%3u", j);
	for (unsigned i = 0; i < m->n; i++) {
		strbuf_printf(out, "\n%4u", i);
		for (unsigned j = 0; j < m->n; j++) {
			const struct rt_link *l = &m->link[i * m->n + j];

			strbuf_printf(out, "  %c",
			              i == j       ? '.'
			              : l->atomics ? 'N'
			              : l->access  ? 'P'
			                           : '-');
		}
	}
	strbuf_putc(out, '\n');
}

void doctor_print(const struct doctor *d, struct strbuf *out)
{
	unsigned lacks = 0;

	for (const struct doctor_finding *f = d->head; f; f = f->next) {
		strbuf_printf(out, "%-5s  %-11s %s\n", state_name[f->state], f->what, f->text);
		if (f->todo)
			strbuf_printf(out, "%*s-> %s\n", 19, "", f->todo);
		lacks += f->state == DOCTOR_LACKS;
	}
	print_matrix(d, out);
	strbuf_printf(out, "\n%s; %u thing%s missing\n",
	              d->gpus ? "kernels can run on this machine"
	                      : "there is no GPU that kernels could run on",
	              lacks, lacks == 1 ? "" : "s");
}

static void json_gpus(const struct rt_machine *m, cJSON *to)
{
	cJSON *gpus = cJSON_AddArrayToObject(to, "gpus");
	cJSON *links = cJSON_AddArrayToObject(to, "links");

	for (unsigned i = 0; i < m->n; i++) {
		const struct rt_gpu *g = &m->gpu[i];
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "name", g->name);
		cJSON_AddStringToObject(o, "pci", g->pci);
		cJSON_AddNumberToObject(o, "sm", g->sm);
		cJSON_AddNumberToObject(o, "processors", g->processors);
		cJSON_AddNumberToObject(o, "memory_bytes", (double)g->memory);
		cJSON_AddNumberToObject(o, "l2_bytes", (double)g->l2);
		cJSON_AddBoolToObject(o, "shareable_memory", g->vmm && g->fd_handle);
		cJSON_AddBoolToObject(o, "multicast_attribute", g->multicast);
		cJSON_AddItemToArray(gpus, o);
		for (unsigned j = 0; j < m->n; j++) {
			const struct rt_link *l = &m->link[i * m->n + j];

			if (i == j)
				continue;
			o = cJSON_CreateObject();
			cJSON_AddNumberToObject(o, "from", i);
			cJSON_AddNumberToObject(o, "to", j);
			cJSON_AddBoolToObject(o, "access", l->access);
			cJSON_AddBoolToObject(o, "native_atomics", l->atomics);
			cJSON_AddNumberToObject(o, "performance_rank", l->rank);
			cJSON_AddItemToArray(links, o);
		}
	}
}

void doctor_json(const struct doctor *d, cJSON *to)
{
	cJSON *all = cJSON_AddArrayToObject(to, "findings");

	for (const struct doctor_finding *f = d->head; f; f = f->next) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "what", f->what);
		cJSON_AddStringToObject(o, "state", state_name[f->state]);
		cJSON_AddStringToObject(o, "text", f->text);
		if (f->todo)
			cJSON_AddStringToObject(o, "todo", f->todo);
		cJSON_AddItemToArray(all, o);
	}
	cJSON_AddBoolToObject(to, "can_run", d->gpus);
	if (d->machine.driver)
		cJSON_AddStringToObject(to, "driver", d->machine.driver);
	json_gpus(&d->machine, to);
}
