/* Rows through ptxas, many entries in one file: its start costs as much as a kernel. */
#include "tests/kernels/kernels.h"
#include "tests/unit/ptxas.h"

enum { BATCH = 12 };

const char *kernels_ptxas_version(char *buf, size_t size)
{
	char cmd[512], line[256];
	FILE *f;

	snprintf(buf, size, "?");
	if (!ptxas_path())
		return buf;
	snprintf(cmd, sizeof cmd, "'%s' --version", ptxas_path());
	f = popen(cmd, "r");
	while (f && fgets(line, sizeof line, f)) {
		const char *v = strstr(line, ", V");

		if (v)
			snprintf(buf, size, "%.*s", (int)strcspn(v + 3, "\n"), v + 3);
	}
	if (f)
		pclose(f);
	return buf;
}

static bool write_batch(const char *path, struct row *const *r, unsigned n)
{
	FILE *f = fopen(path, "w");
	unsigned version = 0, sm = 0;

	if (!f)
		return false;
	for (unsigned i = 0; i < n; i++) {
		version = r[i]->version > version ? r[i]->version : version;
		sm = r[i]->sm > sm ? r[i]->sm : sm;
	}
	fprintf(f, ".version %u.%u\n.target sm_%u\n.address_size 64\n", version / 10, version % 10,
	        sm);
	for (unsigned i = 0; i < n; i++) {
		unsigned j = 0;

		while (j < i && strcmp(r[j]->vars, r[i]->vars))
			j++;
		if (j == i)
			fputs(r[i]->vars, f);
	}
	for (unsigned i = 0; i < n; i++)
		fprintf(f, ".visible .entry k%u%s", i, r[i]->body);
	return fclose(f) == 0;
}

/* Reads the report; what is no report is a message. */
static void read_report(struct kernels *k, FILE *f, struct row *const *r, unsigned n)
{
	struct row *now = NULL;
	char line[2048];

	while (fgets(line, sizeof line, f)) {
		const char *entry = strstr(line, "Compiling entry function 'k");
		const char *used = strstr(line, "Used ");
		int frame, st, ld;

		if (entry) {
			unsigned i = (unsigned)strtoul(entry + 27, NULL, 10);

			now = i < n ? r[i] : NULL;
		} else if (now &&
		           sscanf(line,
		                  "%d bytes stack frame, %d bytes spill stores, %d bytes spill "
		                  "loads",
		                  &frame, &st, &ld) == 3) {
			now->spilled = st + ld;
		} else if (now && used) {
			now->regs = (int)strtol(used + 5, NULL, 10);
		} else if (!strstr(line, "info") && !k->wrong[0]) {
			snprintf(k->wrong, sizeof k->wrong, "%s", line);
		}
	}
}

static bool assemble_batch(struct kernels *k, struct row *const *r, unsigned n)
{
	char path[] = "/tmp/kernels_XXXXXX.ptx", cmd[512];
	int fd = mkstemps(path, 4), code = -1;
	FILE *f;

	if (fd < 0)
		return false;
	close(fd);
	if (write_batch(path, r, n)) {
		snprintf(cmd, sizeof cmd, "'%s' -v -arch=%s -o /dev/null %s 2>&1", ptxas_path(),
		         kernels_target[r[0]->target], path);
		f = popen(cmd, "r");
		if (f) {
			read_report(k, f, r, n);
			code = pclose(f);
		}
	}
	unlink(path);
	if (code == 0)
		return true;
	if (!k->wrong[0])
		snprintf(k->wrong, sizeof k->wrong, "ptxas failed\n");
	for (unsigned i = 0; i < n; i++) {
		size_t l = strlen(k->wrong);

		snprintf(k->wrong + l, sizeof k->wrong - l, "k%u: %s, %s, %s, tp %u, %s\n", i,
		         k->spec[r[i]->spec], r[i]->kernel, cg_protocol_name(r[i]->protocol),
		         r[i]->tp, kernels_target[r[i]->target]);
	}
	return false;
}

bool kernels_assemble(struct kernels *k)
{
	for (size_t i = 0; i < k->nrow; i++)
		if (k->row[i].wanted && k->row[i].as)
			((struct row *)(uintptr_t)k->row[i].as)->wanted = true;
	for (unsigned t = 0; t < NTARGETS; t++) {
		struct row *batch[BATCH];
		unsigned n = 0;

		for (size_t i = 0; i <= k->nrow; i++) {
			if (n == BATCH || (i == k->nrow && n)) {
				if (!assemble_batch(k, batch, n))
					return false;
				n = 0;
			}
			if (i < k->nrow && k->row[i].target == t && k->row[i].wanted &&
			    !k->row[i].as && k->row[i].regs < 0)
				batch[n++] = &k->row[i];
		}
	}
	for (size_t i = 0; i < k->nrow; i++)
		if (k->row[i].as) {
			k->row[i].regs = k->row[i].as->regs;
			k->row[i].spilled = k->row[i].as->spilled;
		}
	return true;
}
