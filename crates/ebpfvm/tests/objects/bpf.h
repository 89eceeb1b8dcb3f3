/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of these tests have in common: helpers by their numbers, maps, headers. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#define SEC(name) __attribute__((section(name), used))
#define RELOCATED __attribute__((preserve_access_index))
#define noinline __attribute__((noinline))
#define inline __attribute__((always_inline)) inline
#define ntohs(x) __builtin_bswap16(x)
#define htons(x) __builtin_bswap16(x)
#define ntohl(x) __builtin_bswap32(x)
#define htonl(x) __builtin_bswap32(x)

#define __uint(name, number) int(*name)[number]
#define __type(name, type) type *name
#define __array(name, type) typeof(type) *name[]

static void *(*map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*map_update)(void *map, const void *key, const void *value,
			  __u64 flags) = (void *)BPF_FUNC_map_update_elem;
static long (*map_delete)(void *map, const void *key) = (void *)BPF_FUNC_map_delete_elem;
static long (*tail_call)(void *context, void *map, __u32 index) = (void *)BPF_FUNC_tail_call;
static __s64 (*csum_diff)(const void *from, __u32 from_size, const void *to, __u32 to_size,
			  __u32 seed) = (void *)BPF_FUNC_csum_diff;
static long (*xdp_adjust_head)(struct xdp_md *xdp, int by) = (void *)BPF_FUNC_xdp_adjust_head;
static long (*xdp_adjust_tail)(struct xdp_md *xdp, int by) = (void *)BPF_FUNC_xdp_adjust_tail;
static long (*xdp_adjust_meta)(struct xdp_md *xdp, int by) = (void *)BPF_FUNC_xdp_adjust_meta;
static long (*xdp_load_bytes)(struct xdp_md *xdp, __u32 at, void *to,
			      __u32 len) = (void *)BPF_FUNC_xdp_load_bytes;
static long (*xdp_store_bytes)(struct xdp_md *xdp, __u32 at, void *from,
			       __u32 len) = (void *)BPF_FUNC_xdp_store_bytes;
static __u64 (*xdp_buff_len)(struct xdp_md *xdp) = (void *)BPF_FUNC_xdp_get_buff_len;
static long (*redirect)(__u32 device, __u64 flags) = (void *)BPF_FUNC_redirect;
static long (*redirect_map)(void *map, __u64 key, __u64 flags) = (void *)BPF_FUNC_redirect_map;
static long (*skb_load_bytes)(const void *skb, __u32 at, void *to,
			      __u32 len) = (void *)BPF_FUNC_skb_load_bytes;
static long (*skb_store_bytes)(struct __sk_buff *skb, __u32 at, const void *from, __u32 len,
			       __u64 flags) = (void *)BPF_FUNC_skb_store_bytes;
static long (*l3_csum_replace)(struct __sk_buff *skb, __u32 at, __u64 from, __u64 to,
			       __u64 flags) = (void *)BPF_FUNC_l3_csum_replace;
static long (*l4_csum_replace)(struct __sk_buff *skb, __u32 at, __u64 from, __u64 to,
			       __u64 flags) = (void *)BPF_FUNC_l4_csum_replace;
static long (*skb_vlan_push)(struct __sk_buff *skb, __be16 protocol,
			     __u16 tci) = (void *)BPF_FUNC_skb_vlan_push;
static long (*skb_vlan_pop)(struct __sk_buff *skb) = (void *)BPF_FUNC_skb_vlan_pop;
static long (*skb_change_tail)(struct __sk_buff *skb, __u32 len,
			       __u64 flags) = (void *)BPF_FUNC_skb_change_tail;
static long (*skb_change_head)(struct __sk_buff *skb, __u32 by,
			       __u64 flags) = (void *)BPF_FUNC_skb_change_head;
static long (*skb_pull_data)(struct __sk_buff *skb, __u32 len) = (void *)BPF_FUNC_skb_pull_data;
static void (*set_hash_invalid)(struct __sk_buff *skb) = (void *)BPF_FUNC_set_hash_invalid;
static long (*ring_output)(void *ring, void *data, __u64 size,
			   __u64 flags) = (void *)BPF_FUNC_ringbuf_output;
static void *(*ring_reserve)(void *ring, __u64 size,
			     __u64 flags) = (void *)BPF_FUNC_ringbuf_reserve;
static void (*ring_submit)(void *data, __u64 flags) = (void *)BPF_FUNC_ringbuf_submit;
static void (*ring_discard)(void *data, __u64 flags) = (void *)BPF_FUNC_ringbuf_discard;
static __u64 (*ring_query)(void *ring, __u64 flags) = (void *)BPF_FUNC_ringbuf_query;
static long (*bpf_loop)(__u32 rounds, void *function, void *context,
			__u64 flags) = (void *)BPF_FUNC_loop;
static long (*for_each_map_elem)(void *map, void *function, void *context,
				 __u64 flags) = (void *)BPF_FUNC_for_each_map_elem;
static long (*dynptr_read)(void *to, __u64 len, const struct bpf_dynptr *from, __u64 at,
			   __u64 flags) = (void *)BPF_FUNC_dynptr_read;
static long (*trace_printk)(const char *format, __u32 size, ...) = (void *)BPF_FUNC_trace_printk;

static __u64 (*ktime)(void) = (void *)BPF_FUNC_ktime_get_ns;
static __u64 (*ktime_boot)(void) = (void *)BPF_FUNC_ktime_get_boot_ns;
static __u64 (*ktime_coarse)(void) = (void *)BPF_FUNC_ktime_get_coarse_ns;
static __u32 (*prandom)(void) = (void *)BPF_FUNC_get_prandom_u32;
static long (*numa_node)(void) = (void *)BPF_FUNC_get_numa_node_id;
static long (*dynptr_from_mem)(void *data, __u32 len, __u64 flags,
			       struct bpf_dynptr *to) = (void *)BPF_FUNC_dynptr_from_mem;

extern int bpf_dynptr_from_xdp(struct xdp_md *xdp, __u64 flags,
			       struct bpf_dynptr *to) SEC(".ksyms");
extern void *bpf_dynptr_slice_rdwr(const struct bpf_dynptr *of, __u32 at, void *buffer,
				   __u32 len) SEC(".ksyms");
extern void bpf_rcu_read_lock(void) SEC(".ksyms");
extern void bpf_rcu_read_unlock(void) SEC(".ksyms");
extern int bpf_dynptr_from_skb(struct __sk_buff *skb, __u64 flags,
			       struct bpf_dynptr *to) SEC(".ksyms");
extern void *bpf_dynptr_slice(const struct bpf_dynptr *of, __u32 at, void *buffer,
			      __u32 len) SEC(".ksyms");
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
