/* Which characters of a text may be shown. */
#include "support/text.h"
#include <string.h>

static bool unsafe(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200e && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
	       (c >= 0xd800 && c < 0xe000) || c > 0x10ffff;
}

struct text_glyph text_glyph_at(const char *s, size_t len)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned char b = (unsigned char)s[0];
	uint32_t n = b < 0x80 ? 1 : b >= 0xf0 && b < 0xf8 ? 4 : b >= 0xe0 ? 3 : b >= 0xc0 ? 2 : 0;
	uint32_t c = n > 1 ? b & (0x7fu >> n) : b;

	if (n == 0 || n > len || b >= 0xf8)
		return (struct text_glyph){1, false};
	for (uint32_t i = 1; i < n; i++) {
		if (((unsigned char)s[i] & 0xc0) != 0x80)
			return (struct text_glyph){1, false};
		c = c << 6 | ((unsigned char)s[i] & 0x3f);
	}
	if (c < least[n])
		return (struct text_glyph){1, false};
	return (struct text_glyph){n, !unsafe(c)};
}

void text_make_plain(char *s)
{
	size_t len = strlen(s), to = 0;
	struct text_glyph g;

	for (size_t i = 0; i < len; i += g.n) {
		g = text_glyph_at(s + i, len - i);
		if (g.plain) {
			memmove(s + to, s + i, g.n);
			to += g.n;
		} else {
			s[to++] = s[i] == '\n' || s[i] == '\t' ? ' ' : '?';
		}
	}
	s[to] = '\0';
}
