// Makes the disk of PostgreSQL full for tables and indexes while the file in FULL_DISK_FLAG exists: a write that would
// make such a file longer fails with ENOSPC. Used with LD_PRELOAD.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_full(int fd, off_t end) {
  const char *flag = getenv("FULL_DISK_FLAG");
  if (!flag || access(flag, F_OK)) return 0;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  struct stat file;
  return strstr(path, "/base/") && !fstat(fd, &file) && end > file.st_size;
}

#define REFUSE_IF_FULL(fd, end) \
  if (is_full(fd, end)) {       \
    errno = ENOSPC;             \
    return -1;                  \
  }

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
  REFUSE_IF_FULL(fd, at + (off_t)size)
  ssize_t (*next)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
  return next(fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
  size_t size = 0;
  for (int i = 0; i < count; i++) size += parts[i].iov_len;
  REFUSE_IF_FULL(fd, at + (off_t)size)
  ssize_t (*next)(int, const struct iovec *, int, off64_t) = dlsym(RTLD_NEXT, "pwritev64");
  return next(fd, parts, count, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return pwritev64(fd, parts, count, at); }

int posix_fallocate64(int fd, off64_t at, off64_t size) {
  if (is_full(fd, at + size)) return ENOSPC;
  int (*next)(int, off64_t, off64_t) = dlsym(RTLD_NEXT, "posix_fallocate64");
  return next(fd, at, size);
}

int posix_fallocate(int fd, off_t at, off_t size) { return posix_fallocate64(fd, at, size); }
