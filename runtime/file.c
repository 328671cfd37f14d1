/* Bytes to a descriptor. */
#include "runtime/file.h"
#include <errno.h>
#include <unistd.h>

bool rt_write_all(int fd, const void *p, size_t n)
{
	const unsigned char *s = p;

	while (n) {
		ssize_t k = write(fd, s, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		s += k;
		n -= (size_t)k;
	}
	return true;
}
