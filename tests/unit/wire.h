/* What goes over the wire of a rendezvous, written down once more: boot_tcp.c must not change it
 * unnoticed. */
#pragma once
#include <stdint.h>

struct hello {
	char magic[8];
	uint32_t order, version;
	uint64_t key;
	uint32_t process, zero;
};

struct reply {
	char magic[8];
	uint32_t version, answer;
	uint64_t session;
};

struct frame {
	uint32_t kind, process;
	uint64_t session, number, bytes;
};

enum { WELCOME, NOT_THIS, OTHER_VERSION, TWICE };
enum { DATA = 0x61746164, FAILURE = 0x6c696166 };
