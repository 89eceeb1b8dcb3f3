/* SPDX-License-Identifier: Apache-2.0 */
/* What programs of netfilter have in common: structures of the kernel, the packet by a dynptr. */
#include "bpf.h"

#define RELOCATED __attribute__((preserve_access_index))

struct net_device {
	char name[16];
	int ifindex;
	unsigned int mtu;
	unsigned short type;
} RELOCATED;

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	unsigned int data_len;
	__u32 mark;
	__u32 priority;
	__be16 protocol;
} RELOCATED;

struct nf_hook_state {
	__u8 hook;
	__u8 pf;
	struct net_device *in, *out;
} RELOCATED;

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
};

extern __u32 bpf_dynptr_size(const struct bpf_dynptr *of) SEC(".ksyms");
extern int bpf_dynptr_adjust(const struct bpf_dynptr *of, __u32 start, __u32 end) SEC(".ksyms");
extern _Bool bpf_dynptr_is_null(const struct bpf_dynptr *of) SEC(".ksyms");
extern _Bool bpf_dynptr_is_rdonly(const struct bpf_dynptr *of) SEC(".ksyms");
extern int bpf_dynptr_clone(const struct bpf_dynptr *of, struct bpf_dynptr *to) SEC(".ksyms");

static long (*dynptr_write)(const struct bpf_dynptr *to, __u64 at, void *from, __u64 len,
			    __u64 flags) = (void *)BPF_FUNC_dynptr_write;
static void *(*dynptr_data)(const struct bpf_dynptr *of, __u64 at,
			    __u64 len) = (void *)BPF_FUNC_dynptr_data;
static __u32 (*processor)(void) = (void *)BPF_FUNC_get_smp_processor_id;

char _license[] SEC("license") = "GPL";
