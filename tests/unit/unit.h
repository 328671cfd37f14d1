/* What every unit test includes: cmocka, in the order in which it needs its own headers. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
