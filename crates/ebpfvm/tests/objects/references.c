// SPDX-License-Identifier: Apache-2.0
/* Connections that are looked up, and what must not be done with them. */
#include "bpf.h"

struct nf_conn {
	unsigned long status;
	__u32 mark;
	__u32 timeout;
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
					 __u32 len) SEC(".ksyms");
extern void bpf_ct_release(struct nf_conn *connection) SEC(".ksyms");
extern int bpf_ct_set_status(const struct nf_conn *connection, __u32 status) SEC(".ksyms");

static inline struct nf_conn *lookup(struct xdp_md *xdp)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_ct_opts options = { .netns_id = -1, .l4proto = IPPROTO_UDP };

	return bpf_xdp_ct_lookup(xdp, &tuple, sizeof(tuple.ipv4), &options, sizeof(options));
}

/* Many times, since each is released. */
SEC("xdp")
int releases(struct xdp_md *xdp)
{
	int status = 0;

	for (int i = 0; i < 20; i++) {
		struct nf_conn *found = lookup(xdp);

		if (!found)
			return 0;
		status = found->status;
		bpf_ct_release(found);
	}
	return status;
}

SEC("xdp")
int keeps(struct xdp_md *xdp)
{
	return lookup(xdp) ? XDP_PASS : XDP_DROP;
}

SEC("xdp")
int hoards(struct xdp_md *xdp)
{
	int found = 0;

	for (int i = 0; i < 20; i++)
		found += lookup(xdp) != 0;
	return found;
}

SEC("xdp")
int releases_twice(struct xdp_md *xdp)
{
	struct nf_conn *found = lookup(xdp);

	bpf_ct_release(found);
	bpf_ct_release(found);
	return XDP_PASS;
}

SEC("xdp")
int reads_later(struct xdp_md *xdp)
{
	struct nf_conn *found = lookup(xdp);

	bpf_ct_release(found);
	return found->status;
}

SEC("xdp")
int writes(struct xdp_md *xdp)
{
	struct nf_conn *found = lookup(xdp);

	found->mark = 1;
	bpf_ct_release(found);
	return XDP_PASS;
}

/* Jiffies are not known. */
SEC("xdp")
int reads_a_time(struct xdp_md *xdp)
{
	struct nf_conn *found = lookup(xdp);
	int timeout = found->timeout;

	bpf_ct_release(found);
	return timeout;
}

SEC("xdp")
int sets(struct xdp_md *xdp)
{
	struct nf_conn *found = lookup(xdp);

	bpf_ct_set_status(found, 1);
	bpf_ct_release(found);
	return XDP_PASS;
}
