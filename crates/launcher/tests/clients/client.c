// SPDX-License-Identifier: Apache-2.0

// A static client: requests from several threads, over its own sockets and one in common. With
// the argument "time" it prints the time of a round trip.
#include <linux/netlink.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int open_socket(void) {
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    struct sockaddr_nl own = {.nl_family = AF_NETLINK};
    if (fd < 0) fail("socket");
    if (bind(fd, (struct sockaddr *)&own, sizeof own) < 0) fail("bind");
    return fd;
}

static unsigned ask(int fd, unsigned sequence) {
    struct { struct nlmsghdr h; unsigned char family[4]; } request = {
        .h = {.nlmsg_len = 20, .nlmsg_type = 0x0a10, .nlmsg_flags = 1, .nlmsg_seq = sequence}};
    char answer[8192];
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK}, from = {0};
    struct iovec part = {answer, sizeof answer};
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1};
    if (sendto(fd, &request, 20, 0, (struct sockaddr *)&kernel, sizeof kernel) != 20) fail("sendto");
    if (recvmsg(fd, &message, 0) < 20) fail("recvmsg");
    if (from.nl_family != AF_NETLINK || from.nl_pid != 0) fail("sender");
    return ((struct nlmsghdr *)answer)->nlmsg_seq;
}

static void *work(void *unused) {
    int fd = open_socket();
    for (unsigned n = 1; n <= 100; n++)
        if (ask(fd, n) != n) fail("sequence");
    close(fd);
    return unused;
}

static int later(const void *a, const void *b) {
    return (*(long *)a > *(long *)b) - (*(long *)a < *(long *)b);
}

static void measure(void) {
    enum { MANY = 5000 };
    static long times[MANY];
    int fd = open_socket();
    for (int n = 0; n < MANY; n++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        ask(fd, n);
        clock_gettime(CLOCK_MONOTONIC, &end);
        times[n] = (end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec;
    }
    qsort(times, MANY, sizeof *times, later);
    printf("median %.1f us, p10 %.1f us, p90 %.1f us\n", times[MANY / 2] / 1e3, times[MANY / 10] / 1e3,
           times[MANY * 9 / 10] / 1e3);
}

int main(int count, char **arguments) {
    pthread_t threads[4];
    if (count > 1 && !strcmp(arguments[1], "time")) {
        measure();
        return 0;
    }
    for (int n = 0; n < 4; n++)
        if (pthread_create(&threads[n], 0, work, 0)) fail("pthread_create");
    for (int n = 0; n < 4; n++) pthread_join(threads[n], 0);
    return 0;
}
