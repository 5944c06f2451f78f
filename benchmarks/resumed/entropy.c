/* Gives a process the same "random" bytes in every run: what an unseeded training draws from the system can then be
 * drawn again, so that two unseeded trainings can be compared bit by bit. Loaded with LD_PRELOAD.
 *
 * ENTROPY is a number; each attempt of `oomph run` (its number is in OOMPH_HANDOVER) gets bytes of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static uint64_t seed(void) {
    const char *text = getenv("ENTROPY"), *handover = getenv("OOMPH_HANDOVER");
    uint64_t number = text ? strtoull(text, NULL, 10) : 0;
    const char *attempt = handover ? strstr(handover, "\"attempt\": ") : NULL;
    return number * 1000003 + (attempt ? strtoull(attempt + 11, NULL, 10) : 1);
}

static void fill(void *buffer, size_t length) {
    uint64_t state = seed();
    unsigned char *bytes = buffer;
    for (size_t i = 0; i < length; i++) { /* splitmix64 */
        if (i % 8 == 0) state += 0x9E3779B97F4A7C15ull;
        uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        bytes[i] = (unsigned char)((z ^ (z >> 31)) >> (8 * (i % 8)));
    }
}

ssize_t getrandom(void *buffer, size_t length, unsigned flags) {
    (void)flags;
    fill(buffer, length);
    return (ssize_t)length;
}

int getentropy(void *buffer, size_t length) {
    fill(buffer, length);
    return 0;
}

/* /dev/urandom and /dev/random become a file with the same bytes at every opening. */
static int ours(const char *path) {
    if (strcmp(path, "/dev/urandom") != 0 && strcmp(path, "/dev/random") != 0) return -1;
    static __thread char bytes[1 << 16];
    int fd = memfd_create("entropy", MFD_CLOEXEC);
    if (fd < 0) return -1;
    fill(bytes, sizeof bytes);
    if (write(fd, bytes, sizeof bytes) < 0) { close(fd); return -1; }
    lseek(fd, 0, SEEK_SET);
    return fd;
}

#define OPEN(name)                                                                 \
    int name(const char *path, int flags, ...) {                                   \
        static int (*real)(const char *, int, ...);                                \
        if (!real) real = dlsym(RTLD_NEXT, #name);                                 \
        va_list list;                                                              \
        va_start(list, flags);                                                     \
        int mode = va_arg(list, int);                                              \
        va_end(list);                                                              \
        int fd = ours(path);                                                       \
        return fd >= 0 ? fd : real(path, flags, mode);                             \
    }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                                                \
    FILE *name(const char *path, const char *mode) {                               \
        static FILE *(*real)(const char *, const char *);                          \
        if (!real) real = dlsym(RTLD_NEXT, #name);                                 \
        int fd = ours(path);                                                       \
        return fd >= 0 ? fdopen(fd, "r") : real(path, mode);                       \
    }
FOPEN(fopen)
FOPEN(fopen64)
