// SPDX-License-Identifier: Apache-2.0
// Accepts each packet of a queue by libnetfilter_queue; prints how many there were, and how many
// there were in a second, after so many: PROGRAM QUEUE PACKETS
#include <arpa/inet.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <linux/netfilter.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

static long seen;

static int accepted(struct nfq_q_handle *queue, struct nfgenmsg *message, struct nfq_data *data,
                    void *unused)
{
	struct nfqnl_msg_packet_hdr *header = nfq_get_msg_packet_hdr(data);
	(void)message, (void)unused;
	seen++;
	return nfq_set_verdict(queue, ntohl(header->packet_id), NF_ACCEPT, 0, NULL);
}

int main(int count, char **words)
{
	static char buffer[1 << 17] __attribute__((aligned));
	struct nfq_handle *handle = nfq_open();
	struct nfq_q_handle *queue;
	struct timespec begun, ended;
	long wanted;

	if (count != 3 || !handle)
		return 1;
	wanted = atol(words[2]);
	queue = nfq_create_queue(handle, atoi(words[1]), accepted, NULL);
	if (!queue || nfq_set_mode(queue, NFQNL_COPY_PACKET, 0xffff) < 0 ||
	    nfq_set_queue_maxlen(queue, 4096) < 0)
		return 2;
	printf("listens\n");
	fflush(stdout);
	// Packets may have come while the last request was answered.
	clock_gettime(CLOCK_MONOTONIC, &begun);
	while (seen < wanted) {
		int length = recv(nfq_fd(handle), buffer, sizeof(buffer), 0);
		if (length < 0)
			return 3;
		nfq_handle_packet(handle, buffer, length);
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	printf("%ld packets, %.0f in a second\n", seen,
	       seen / (ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) / 1e9));
	nfq_destroy_queue(queue);
	nfq_close(handle);
	return 0;
}
