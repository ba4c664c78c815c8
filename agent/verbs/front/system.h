/* What the front needs of the C library. All references are weak and without a version, so that it
 * can be loaded into any process. Before use, each must be compared with NULL: programs for a glibc
 * before 2.34 may lack those of libdl, and musl has no dlvsym. */
#ifndef ESPALIER_FRONT_SYSTEM_H
#define ESPALIER_FRONT_SYSTEM_H

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#pragma weak __errno_location
#pragma weak access
#pragma weak dl_iterate_phdr
#pragma weak dlclose
#pragma weak dlerror
#pragma weak dlsym
#pragma weak dlvsym
#pragma weak getauxval
#pragma weak getenv
#pragma weak realpath
#pragma weak write

enum { kMostPath = 4096 }; /* bytes */

/* All other functions are hidden. */
#define FRONT_EXPORT __attribute__((visibility("default")))

static inline int front_is_same(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) {
    ++a;
    ++b;
  }
  return *a == *b;
}

/* Copies `text` to `to` at position `at` and returns the position behind it, or `size` if it does
 * not fit with a NUL, which it writes. */
static inline size_t front_append(char* to, size_t at, size_t size, const char* text) {
  while (at < size && *text != '\0') to[at++] = *text++;
  if (at >= size) return size;
  to[at] = '\0';
  return at;
}

#endif
