/* Content hashes: FNV-1a, 64 bits.  For names of artefacts and tables in memory, not against an
 * adversary. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define HASH_INIT 0xcbf29ce484222325u
uint64_t hash_bytes(uint64_t h, const void *p, size_t n);
