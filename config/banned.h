/* banned.h: calls that do not compile, because each has a bounded or counted replacement. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_BANNED_H
#define FOLDKV_CONFIG_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#undef strcpy
#undef strcat
#undef strncpy
#undef strncat
#undef sprintf
#undef vsprintf
#undef gets
#undef strtok
#undef atoi
#undef atol
#undef atof

#define strcpy(a, b) strcpy_is_banned_use_snprintf
#define strcat(a, b) strcat_is_banned_use_snprintf
#define strncpy(a, b, n) strncpy_is_banned_use_snprintf
#define strncat(a, b, n) strncat_is_banned_use_snprintf
#define sprintf(...) sprintf_is_banned_use_snprintf
#define vsprintf(...) vsprintf_is_banned_use_vsnprintf
#define gets(a) gets_is_banned
#define strtok(a, b) strtok_is_banned
#define atoi(a) atoi_is_banned_use_a_checked_parser
#define atol(a) atol_is_banned_use_a_checked_parser
#define atof(a) atof_is_banned_use_a_checked_parser

#endif
