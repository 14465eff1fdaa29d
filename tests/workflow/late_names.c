/* A shared file system on which names are seen late: LD_PRELOAD of this library hides what another session of processes has
 * created or renamed less than LATE_S seconds ago, below the directories of LATE_ROOTS (separated by colons).
 *
 * A session represents a machine: it sees its own files at once. LATE_NOTES records the creator of a file by inode. As on NFS,
 * opening with O_CREAT asks the server and finds the file. Listing a directory shows all names, opening them does not
 * work yet.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *roots, *notes;
static double late_s;

__attribute__((constructor)) static void start(void) {
  const char *seconds = getenv("LATE_S");
  roots = getenv("LATE_ROOTS") ? strdup(getenv("LATE_ROOTS")) : NULL;
  notes = getenv("LATE_NOTES") ? strdup(getenv("LATE_NOTES")) : NULL;
  late_s = seconds && roots && notes ? atof(seconds) : 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int plain_stat(int directory, const char *path, struct stat *found) {
  return (int)syscall(SYS_newfstatat, directory, path, found, 0);
}

static int is_shared(const char *path) {
  char whole[PATH_MAX];
  if (path == NULL || late_s <= 0) return 0;
  if (path[0] != '/') {
    if (getcwd(whole, sizeof whole / 2) == NULL) return 0;
    size_t length = strlen(whole);
    snprintf(whole + length, sizeof whole - length, "/%s", path);
    path = whole;
  }
  for (const char *root = roots; *root;) {
    size_t length = strcspn(root, ":");
    if (length && strncmp(path, root, length) == 0 && path[length] == '/') return 1;
    root += length + (root[length] == ':');
  }
  return 0;
}

static void note_name(char *name, size_t size, const struct stat *file) {
  snprintf(name, size, "%s/%lx-%lx", notes, (unsigned long)file->st_dev, (unsigned long)file->st_ino);
}

static void made(int directory, const char *path) {
  struct stat file;
  char name[PATH_MAX], text[32];
  int kept = errno;
  if ((directory == AT_FDCWD || path[0] == '/') && is_shared(path) && plain_stat(directory, path, &file) == 0) {
    note_name(name, sizeof name, &file);
    int note = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (note >= 0) {
      int length = snprintf(text, sizeof text, "%d\n", (int)getsid(0));
      if (write(note, text, (size_t)length) < 0) perror("late_names");
      close(note);
    }
  }
  errno = kept;
}

static int is_hidden(int directory, const char *path) {
  struct stat file, noted;
  struct timespec now;
  char name[PATH_MAX], text[32] = "";
  int kept = errno, hidden = 0;
  if (path && (directory == AT_FDCWD || path[0] == '/') && is_shared(path) && plain_stat(directory, path, &file) == 0 &&
      !S_ISDIR(file.st_mode)) {
    note_name(name, sizeof name, &file);
    int note = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY, 0);
    if (note >= 0) {
      clock_gettime(CLOCK_REALTIME, &now);
      if (fstat(note, &noted) == 0 && read(note, text, sizeof text - 1) > 0) {
        double age = (double)(now.tv_sec - noted.st_mtim.tv_sec) + (double)(now.tv_nsec - noted.st_mtim.tv_nsec) / 1e9;
        hidden = age < late_s && atoi(text) != (int)getsid(0);
      }
      close(note);
    }
  }
  errno = hidden ? ENOENT : kept;
  return hidden;
}

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; }

#define OPEN(name)                                            \
  int name(const char *path, int flags, ...) {                \
    va_list rest;                                             \
    struct stat before;                                       \
    va_start(rest, flags);                                    \
    mode_t mode = mode_of(flags, rest);                       \
    va_end(rest);                                             \
    if (!(flags & O_CREAT) && is_hidden(AT_FDCWD, path)) return -1; \
    int is_new = flags & O_CREAT && plain_stat(AT_FDCWD, path, &before) != 0; \
    int file = REAL(name)(path, flags, mode);                 \
    if (file >= 0 && is_new) made(AT_FDCWD, path);            \
    return file;                                              \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                          \
  int name(int directory, const char *path, int flags, ...) { \
    va_list rest;                                             \
    va_start(rest, flags);                                    \
    mode_t mode = mode_of(flags, rest);                       \
    va_end(rest);                                             \
    if (!(flags & O_CREAT) && is_hidden(directory, path)) return -1; \
    return REAL(name)(directory, path, flags, mode);          \
  }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                           \
  FILE *name(const char *path, const char *mode) {            \
    if (mode[0] == 'r' && is_hidden(AT_FDCWD, path)) return NULL; \
    return REAL(name)(path, mode);                            \
  }
FOPEN(fopen)
FOPEN(fopen64)

#define STAT(name, type)                                      \
  int name(const char *path, struct type *found) {            \
    return is_hidden(AT_FDCWD, path) ? -1 : REAL(name)(path, found); \
  }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

#define FSTATAT(name, type)                                   \
  int name(int directory, const char *path, struct type *found, int flags) { \
    return is_hidden(directory, path) ? -1 : REAL(name)(directory, path, found, flags); \
  }
FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)

int access(const char *path, int mode) { return is_hidden(AT_FDCWD, path) ? -1 : REAL(access)(path, mode); }

int rename(const char *from, const char *to) {
  int failed = REAL(rename)(from, to);
  if (!failed) made(AT_FDCWD, to);
  return failed;
}

int renameat(int old, const char *from, int new, const char *to) {
  int failed = REAL(renameat)(old, from, new, to);
  if (!failed) made(new, to);
  return failed;
}
