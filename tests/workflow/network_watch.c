/* Preloaded into programs: notes every address of the internet that they look up or connect to, in the file $NETWORK_WATCH. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void note(const char *what, const char *where) {
  const char *file = getenv("NETWORK_WATCH");
  if (file == NULL) return;
  char line[512];
  int length = snprintf(line, sizeof line, "%s: %s %s\n", program_invocation_short_name, what, where ? where : "-");
  int out = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (out < 0) return;
  if (write(out, line, length) < 0) { /* nothing more can be done here */ }
  close(out);
}

static void note_address(const char *what, const struct sockaddr *address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address == NULL) return;
  if (address->sa_family == AF_INET)
    inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, sizeof text);
  else if (address->sa_family == AF_INET6)
    inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, text, sizeof text);
  else
    return;
  note(what, text);
}

/* Libraries bind a port of ::1 for a moment to see whether this machine has IPv6. */
static int is_loopback(const struct sockaddr *address) {
  if (address->sa_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
  return address->sa_family == AF_INET && ((const struct sockaddr_in *)address)->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
  int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
  note_address("connect", address);
  return real(fd, address, length);
}

int bind(int fd, const struct sockaddr *address, socklen_t length) {
  int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");
  if (!is_loopback(address)) note_address("bind", address);
  return real(fd, address, length);
}

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *address, socklen_t length) {
  ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "sendto");
  note_address("sendto", address);
  return real(fd, data, size, flags, address, length);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result) {
  int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
  note("getaddrinfo", node);
  return real(node, service, hints, result);
}
