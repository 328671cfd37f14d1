/* What writing a file whole takes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* All n bytes, signals notwithstanding; false: errno says why not. */
bool rt_write_all(int fd, const void *p, size_t n);
