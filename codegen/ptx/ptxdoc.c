/*
 * Build tool: prints the manual of the PTX layer, from insns.def, types.def and the letters
 * (tests/golden/manual holds doc/ptx.md to it).
 */
#include "codegen/ptx/spell.h"
#include <stdio.h>

static const char head[] =
        "# The PTX layer\n\n"
        "Written by `ptxdoc` from `codegen/ptx/insns.def` and `types.def`; do not edit.\n\n"
        "plait prints, parses, checks and simulates the instructions below, with all the modifiers "
        "of PTX ISA 9.1 that\n"
        "their spelling names, and refuses others with a diagnostic.  In a spelling `%x` stands "
        "for a modifier or a type\n"
        "(second table).  In a shape each letter is an operand: d destination, p predicate "
        "destination, A B C D value,\n"
        "M address, P predicate source, L label, q optional predicate destination written after a "
        "bar.\n\n"
        "The least version and target are the row's; modifiers and types may need more "
        "(`codegen/ptx/needs.c`).\n"
        "`plait lint` shows what does not go together (`codegen/ptx/rules.c`).\n\n"
        "## Instructions\n\n"
        "| row | spelling | shape | types | version | target | meaning "
        "|\n|---|---|---|---|---|---|---|\n";

static const char lax[] = "\n## Where ptxas takes more\n\n"
                          "The verifier follows the document.  ptxas 13.0 also takes the "
                          "following; a test holds both to it.\n\n"
                          "- `fence.acquire` and `fence.release` below version 8.6 and sm_90; "
                          "`cvt` with `.satfinite` on sm_75.\n"
                          "- `cvt`: f16 of bf16 without a rounding, `.rm` and `.rp` to bf16, "
                          "roundings from bf16 to wider types, `.ftz` with integers.\n"
                          "- `fma`: any rounding of f16.\n"
                          "- `ld` and `st`: 256-bit vectors of 64-bit and 32-bit elements in any "
                          "space, and of other types.\n"
                          "- `atom` and `red`: a memory order without a scope.  The document gives "
                          "it a default; plait wants it written.\n"
                          "- `multimem.red` with `.min` and `.max` on vectors of f16 and bf16.\n"
                          "- Offsets outside of a parameter or a variable, or misaligned; "
                          "constants too large for the type.\n";

/* A table cell: "|" would end it. */
static void put_cell(struct strbuf *b, const char *s)
{
	for (; *s; s++) {
		if (*s == '|')
			strbuf_putc(b, '\\');
		strbuf_putc(b, *s);
	}
}

static void put_types(struct strbuf *b, uint32_t types)
{
	const char *sep = "";

	for (unsigned t = 0; t < PTX_NTYPES; t++)
		if (types >> t & 1) {
			strbuf_printf(b, "%s%s", sep, ptx_type_info[t].text);
			sep = " ";
		}
}

static void put_rows(struct strbuf *b)
{
	for (unsigned op = 0; op < PTX_NOPS; op++) {
		const struct ptx_insn_info *row = &ptx_insn_info[op];

		strbuf_printf(b, "| `%s` | `%s` | %s | ", row->name, row->spelling, row->shape);
		put_types(b, row->types);
		strbuf_printf(b, " | %u.%u | sm_%u | ", row->version / 10, row->version % 10,
		              row->sm);
		put_cell(b, row->doc);
		strbuf_puts(b, " |\n");
	}
}

static void put_letters(struct strbuf *b)
{
	strbuf_puts(b,
	            "\n## Letters of spellings\n\n| letter | what | spelt |\n|---|---|---|\n"
	            "| `%t` | type | one of the row's types |\n| `%u` | second type | a type |\n");
	for (const struct ptx_letter *l = ptx_letters; l->letter; l++) {
		strbuf_printf(b, "| `%%%c` | %s |", l->letter, l->what);
		for (unsigned v = 0; v < l->count; v++)
			if (l->names[v])
				strbuf_printf(b, " `%s`", l->names[v]);
		strbuf_puts(b, l->optional ? " or none |\n" : " |\n");
	}
}

static void put_classes(struct strbuf *b)
{
	static const char *const names[] = {
#define X(ID, prefix, bits, decl) "`" prefix "N` (.reg ." decl ")",
	        PTX_CLASSES(X)
#undef X
	};

	strbuf_puts(b, "\n## Types\n\n| type | bits | register |\n|---|---|---|\n");
	for (unsigned t = 0; t < PTX_NTYPES; t++)
		strbuf_printf(b, "| %s | %u | %s |\n", ptx_type_info[t].text, ptx_type_info[t].bits,
		              names[ptx_type_info[t].cls]);
}

int main(void)
{
	static struct arena a;
	struct strbuf b;

	arena_init(&a, 0);
	if (setjmp(a.oom))
		return 1;
	strbuf_init(&b, &a);
	strbuf_puts(&b, head);
	put_rows(&b);
	put_letters(&b);
	put_classes(&b);
	strbuf_puts(&b, lax);
	fputs(b.s, stdout);
	arena_free(&a);
	return 0;
}
