/* Looking up a library's functions. */
#include "runtime/symbols.h"
#include <dlfcn.h>
#include <string.h>

const char *rt_symbols_load(void *lib, const struct rt_symbol *row, size_t n, void *table)
{
	for (size_t i = 0; i < n; i++) {
		void *f = dlsym(lib, row[i].name);

		if (!f && row[i].need)
			return row[i].name;
		memcpy((char *)table + row[i].offset, &f, sizeof f);
	}
	return NULL;
}
