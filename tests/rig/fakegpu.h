/* fakegpu.h - what fakecuda.c, fakecudart.c and fakenvml.c share: values per GPU, and which code of a kernel a GPU can run. */
#ifndef FAKEGPU_H
#define FAKEGPU_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* The value for one GPU of a variable such as FAKE_MEM_MB=8192,4096: the last one counts for the GPUs after it. */
static const char *word_of(const char *k, int gpu, char *out, size_t n) {
  const char *v = getenv(k);
  if (!v)
    return 0;
  for (const char *c; gpu > 0 && (c = strchr(v, ',')); gpu--)
    v = c + 1;
  size_t l = strcspn(v, ",");
  if (l >= n)
    l = n - 1;
  memcpy(out, v, l);
  out[l] = 0;
  return out;
}
static long env_of(const char *k, int gpu, long d) {
  char b[64];
  return word_of(k, gpu, b, sizeof b) ? strtol(b, 0, 0) : d;
}
/* Whether something in this image runs on a GPU of compute capability cc (86 = 8.6): machine code of the same major and
 * no newer minor version, or PTX that is not newer. An image is a fat binary (0xBA55ED50, the container that nvcc and
 * fatbinary write; entries of kind 1 are PTX, of kind 2 machine code, the architecture stands at byte 28) or the wrapper
 * that points to one (0x466243B1). Others, such as PTX text and single cubins, were made for the GPU at hand. */
static int runs_on(const void *image, long cc) {
  const unsigned char *p = image;
  if (p && *(const uint32_t *)p == 0x466243B1u)
    p = *(const unsigned char *const *)(p + 8);
  if (!p || *(const uint32_t *)p != 0xBA55ED50u)
    return 1;
  const unsigned char *e = p + *(const uint16_t *)(p + 6), *end = e + *(const uint64_t *)(p + 8);
  while (e < end) {
    unsigned kind = *(const uint16_t *)e, arch = *(const uint32_t *)(e + 28);
    if (kind == 2 ? arch / 10 == cc / 10 && arch <= cc : arch <= cc)
      return 1;
    e += *(const uint32_t *)(e + 4) + *(const uint64_t *)(e + 8);
  }
  return 0;
}
#endif
