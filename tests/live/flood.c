// SPDX-License-Identifier: Apache-2.0
// Sends UDP packets without a pause, or as many in a second as wanted:
// PROGRAM ADDRESS FLOWS PACKETS [RATE]. Packets have FLOWS destinations and ports by turns. Prints
// how many were sent, and how many in a second.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { TOGETHER = 64 };

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words)
{
	static struct sockaddr_in to[TOGETHER];
	static struct mmsghdr messages[TOGETHER];
	static char payload[18];
	struct iovec part = {payload, sizeof payload};
	long flows, packets, sent = 0, rate = 0;
	double begun;
	int fd;

	if (count < 4)
		return 1;
	flows = atol(words[2]);
	packets = atol(words[3]);
	if (count > 4)
		rate = atol(words[4]);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	for (int n = 0; n < TOGETHER; n++) {
		to[n].sin_family = AF_INET;
		inet_pton(AF_INET, words[1], &to[n].sin_addr);
		messages[n].msg_hdr.msg_name = &to[n];
		messages[n].msg_hdr.msg_namelen = sizeof to[n];
		messages[n].msg_hdr.msg_iov = &part;
		messages[n].msg_hdr.msg_iovlen = 1;
	}
	begun = now();
	while (sent < packets) {
		int many;
		for (int n = 0; n < TOGETHER; n++)
			to[n].sin_port = htons(1024 + (sent + n) % flows % 60000);
		// Others are other sources, of which there are as many as sockets.
		if (sent && flows > 60000 && sent % 60000 < TOGETHER) {
			fd = socket(AF_INET, SOCK_DGRAM, 0);
			if (fd < 0)
				return 2;
		}
		many = sendmmsg(fd, messages, TOGETHER, 0);
		if (many > 0)
			sent += many;
		while (rate && sent > (now() - begun) * rate)
			nanosleep(&(struct timespec){0, 50000}, NULL);
	}
	printf("%ld sent, %.0f in a second\n", sent, sent / (now() - begun));
	return 0;
}
