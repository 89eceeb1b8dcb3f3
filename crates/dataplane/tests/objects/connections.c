// SPDX-License-Identifier: Apache-2.0
/*
 * Asks for connections: a frame says what is asked, and goes back with what is known of the
 * connection in it.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#define RELOCATED __attribute__((preserve_access_index))

union address {
	__u32 all[4];
	__be32 ip;
	__be32 ip6[4];
} RELOCATED;

union port {
	__be16 all;
	struct {
		__be16 port;
	} RELOCATED tcp, udp;
} RELOCATED;

struct nf_conntrack_tuple {
	struct {
		union address u3;
		union port u;
		__u16 l3num;
	} RELOCATED src;
	struct {
		union address u3;
		union port u;
		__u8 protonum;
		__u8 dir;
	} RELOCATED dst;
} RELOCATED;

struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
} RELOCATED;

struct nf_conn {
	struct {
		__u16 id;
	} RELOCATED zone;
	struct nf_conntrack_tuple_hash tuplehash[2];
	unsigned long status;
	__u32 mark;
} RELOCATED;

struct bpf_ct_opts {
	__s32 netns_id;
	__s32 error;
	__u8 l4proto;
	__u8 dir;
	__u16 ct_zone_id;
	__u8 ct_zone_dir;
	__u8 reserved[3];
};

extern struct nf_conn *bpf_xdp_ct_lookup(struct xdp_md *xdp, struct bpf_sock_tuple *tuple,
					 __u32 tuple_len, struct bpf_ct_opts *options,
					 __u32 len) __ksym;
extern struct nf_conn *bpf_skb_ct_lookup(struct __sk_buff *skb, struct bpf_sock_tuple *tuple,
					 __u32 tuple_len, struct bpf_ct_opts *options,
					 __u32 len) __ksym;
extern void bpf_ct_release(struct nf_conn *connection) __ksym;

struct side {
	__be32 source[4], destination[4];
	__be16 sport, dport, tcp, udp;
	__u16 family;
	__u8 protocol, direction;
};

struct question {
	struct ethhdr link;
	/* Of the tuple: 4, 6, or another length; of the options: 16, 12, 8. */
	__u8 tuple, options;
	struct bpf_sock_tuple sought;
	struct bpf_ct_opts given;
	__u64 status;
	__u32 mark;
	__u16 zone;
	__u16 found;
	struct side sides[2];
} __attribute__((packed));

/* Indexes are numbers: clang relocates no others. */
#define WORD(i, word) \
	(question->sides[i].source[word] = connection->tuplehash[i].tuple.src.u3.ip6[word], \
	 question->sides[i].destination[word] = connection->tuplehash[i].tuple.dst.u3.all[word])

#define SIDE(i) \
	(WORD(i, 1), WORD(i, 2), WORD(i, 3), \
	 question->sides[i].source[0] = connection->tuplehash[i].tuple.src.u3.ip, \
	 question->sides[i].destination[0] = connection->tuplehash[i].tuple.dst.u3.all[0], \
	 question->sides[i].sport = connection->tuplehash[i].tuple.src.u.all, \
	 question->sides[i].dport = connection->tuplehash[i].tuple.dst.u.all, \
	 question->sides[i].tcp = connection->tuplehash[i].tuple.dst.u.tcp.port, \
	 question->sides[i].udp = connection->tuplehash[i].tuple.src.u.udp.port, \
	 question->sides[i].family = connection->tuplehash[i].tuple.src.l3num, \
	 question->sides[i].protocol = connection->tuplehash[i].tuple.dst.protonum, \
	 question->sides[i].direction = connection->tuplehash[i].tuple.dst.dir)

static __always_inline void tell(struct question *question, struct nf_conn *connection)
{
	question->found = 1;
	question->status = connection->status;
	question->mark = connection->mark;
	question->zone = connection->zone.id;
	SIDE(0);
	SIDE(1);
}

#define LOOKUP(function, size) \
	(tuple == 4 ? function(context, &sought, sizeof(sought.ipv4), &given, size) : \
	 tuple == 6 ? function(context, &sought, sizeof(sought.ipv6), &given, size) : \
		      function(context, &sought, 8, &given, size))

#define ASK(function) \
	do { \
		struct question *question = (void *)(long)context->data; \
		struct bpf_sock_tuple sought; \
		struct bpf_ct_opts given; \
		struct nf_conn *found; \
		__u8 tuple; \
		if ((void *)(question + 1) > (void *)(long)context->data_end) \
			return -1; \
		sought = question->sought; \
		given = question->given; \
		tuple = question->tuple; \
		if (question->options == 16) \
			found = LOOKUP(function, 16); \
		else if (question->options == 12) \
			found = LOOKUP(function, 12); \
		else \
			found = LOOKUP(function, 8); \
		question->given = given; \
		if (found) { \
			tell(question, found); \
			bpf_ct_release(found); \
		} \
	} while (0)

SEC("xdp")
int xdp_ask(struct xdp_md *context)
{
	ASK(bpf_xdp_ct_lookup);
	return XDP_TX;
}

SEC("tc")
int tc_ask(struct __sk_buff *context)
{
	ASK(bpf_skb_ct_lookup);
	return bpf_redirect(context->ifindex, 0);
}

char LICENSE[] SEC("license") = "GPL";
