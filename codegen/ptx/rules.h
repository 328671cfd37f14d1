/* What modifiers and types go together, row by row (rules.c); for the verifier and the row tests.
 */
#pragma once
#include "codegen/ptx/spell.h"

/* NULL: the instruction's modifiers and types go together; else what does not, as a phrase. */
const char *ptx_combination(const struct ptx_insn *i);

/* Bytes of memory that an access of the instruction touches (one replica); 0: it has no address. */
unsigned ptx_access_bytes(const struct ptx_insn *i);
