/* The GNU build id, found in the loaded object's notes. */
#include "runtime/build_id.h"
#include "runtime/plait.h"
#include <elf.h>
#include <link.h>
#include <string.h>

struct search {
	uintptr_t code; /* an address of ours */
	const unsigned char *id;
	size_t n;
};

static bool holds(const struct dl_phdr_info *i, uintptr_t at)
{
	for (size_t p = 0; p < i->dlpi_phnum; p++) {
		const ElfW(Phdr) *h = &i->dlpi_phdr[p];

		if (h->p_type == PT_LOAD && at - i->dlpi_addr >= h->p_vaddr &&
		    at - i->dlpi_addr - h->p_vaddr < h->p_memsz)
			return true;
	}
	return false;
}

static void look(struct search *s, const unsigned char *p, size_t n)
{
	while (n >= sizeof(ElfW(Nhdr))) {
		ElfW(Nhdr) h;
		size_t name, desc;

		memcpy(&h, p, sizeof h);
		name = (h.n_namesz + 3u) & ~(size_t)3;
		desc = (h.n_descsz + 3u) & ~(size_t)3;
		if (name > n || desc > n || sizeof h + name + desc > n)
			return;
		if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 &&
		    memcmp(p + sizeof h, "GNU", 4) == 0) {
			s->id = p + sizeof h + name;
			s->n = h.n_descsz;
			return;
		}
		p += sizeof h + name + desc;
		n -= sizeof h + name + desc;
	}
}

static int visit(struct dl_phdr_info *i, size_t size, void *ctx)
{
	struct search *s = ctx;

	(void)size;
	if (!holds(i, s->code))
		return 0;
	for (size_t p = 0; p < i->dlpi_phnum && !s->id; p++)
		if (i->dlpi_phdr[p].p_type == PT_NOTE)
			look(s, (const unsigned char *)(i->dlpi_addr + i->dlpi_phdr[p].p_vaddr),
			     i->dlpi_phdr[p].p_memsz);
	return 1;
}

const char *rt_build_id(struct arena *a)
{
	struct search s = {.code = (uintptr_t)&rt_build_id};
	const char *text = "";

	dl_iterate_phdr(visit, &s);
	for (size_t i = 0; i < s.n; i++)
		text = arena_printf(a, "%s%02x", text, s.id[i]);
	return *text ? text : plait_version();
}
