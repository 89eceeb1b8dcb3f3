// SPDX-License-Identifier: Apache-2.0

//! The functions of the kernel that programs call: helpers by number (`<linux/bpf.h>`) and kfuncs
//! by name.

use crate::context::ProgramKind::{self, Netfilter, SocketFilter, Tc, Xdp};

/// Kinds of programs that a function is for.
const ALL: &[ProgramKind] = &[SocketFilter, Tc, Xdp, Netfilter];
const SKB: &[ProgramKind] = &[Tc];
const SOCKET: &[ProgramKind] = &[SocketFilter, Tc];
const SUM: &[ProgramKind] = &[Tc, Xdp];
const XDP: &[ProgramKind] = &[Xdp];

/// kfuncs have numbers from here on.
const KFUNC: i32 = 0x1_0000;

macro_rules! helpers {
    (helpers { $($name:ident $number:literal $text:literal $kinds:ident;)* }
     kfuncs { $($kname:ident $knumber:literal $ktext:literal $kkinds:ident;)* }) => {
        /// A function of the kernel.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        #[allow(missing_docs)]
        pub enum Helper {
            $($name = $number,)*
            $($kname = KFUNC + $knumber,)*
        }

        /// All of them, with names and kinds.
        const TABLE: &[(Helper, &str, &[ProgramKind])] = &[
            $((Helper::$name, $text, $kinds),)*
            $((Helper::$kname, $ktext, $kkinds),)*
        ];
    };
}

helpers! {
    helpers {
        MapLookup 1 "bpf_map_lookup_elem" ALL;
        MapUpdate 2 "bpf_map_update_elem" ALL;
        MapDelete 3 "bpf_map_delete_elem" ALL;
        KtimeGetNs 5 "bpf_ktime_get_ns" ALL;
        TracePrintk 6 "bpf_trace_printk" ALL;
        Prandom 7 "bpf_get_prandom_u32" ALL;
        Processor 8 "bpf_get_smp_processor_id" ALL;
        SkbStoreBytes 9 "bpf_skb_store_bytes" SKB;
        L3CsumReplace 10 "bpf_l3_csum_replace" SKB;
        L4CsumReplace 11 "bpf_l4_csum_replace" SKB;
        TailCall 12 "bpf_tail_call" ALL;
        SkbVlanPush 18 "bpf_skb_vlan_push" SKB;
        SkbVlanPop 19 "bpf_skb_vlan_pop" SKB;
        Redirect 23 "bpf_redirect" SUM;
        SkbLoadBytes 26 "bpf_skb_load_bytes" SOCKET;
        CsumDiff 28 "bpf_csum_diff" SUM;
        SkbChangeTail 38 "bpf_skb_change_tail" SKB;
        SkbPullData 39 "bpf_skb_pull_data" SKB;
        SetHashInvalid 41 "bpf_set_hash_invalid" SKB;
        NumaNode 42 "bpf_get_numa_node_id" ALL;
        SkbChangeHead 43 "bpf_skb_change_head" SKB;
        XdpAdjustHead 44 "bpf_xdp_adjust_head" XDP;
        RedirectMap 51 "bpf_redirect_map" XDP;
        XdpAdjustMeta 54 "bpf_xdp_adjust_meta" XDP;
        XdpAdjustTail 65 "bpf_xdp_adjust_tail" XDP;
        FibLookup 69 "bpf_fib_lookup" SUM;
        MapPush 87 "bpf_map_push_elem" ALL;
        MapPop 88 "bpf_map_pop_elem" ALL;
        MapPeek 89 "bpf_map_peek_elem" ALL;
        KtimeGetBootNs 125 "bpf_ktime_get_boot_ns" ALL;
        RingOutput 130 "bpf_ringbuf_output" ALL;
        RingReserve 131 "bpf_ringbuf_reserve" ALL;
        RingSubmit 132 "bpf_ringbuf_submit" ALL;
        RingDiscard 133 "bpf_ringbuf_discard" ALL;
        RingQuery 134 "bpf_ringbuf_query" ALL;
        KtimeGetCoarseNs 160 "bpf_ktime_get_coarse_ns" ALL;
        CheckMtu 163 "bpf_check_mtu" SUM;
        ForEachMapElem 164 "bpf_for_each_map_elem" ALL;
        Loop 181 "bpf_loop" ALL;
        XdpBuffLen 188 "bpf_xdp_get_buff_len" XDP;
        XdpLoadBytes 189 "bpf_xdp_load_bytes" XDP;
        XdpStoreBytes 190 "bpf_xdp_store_bytes" XDP;
        DynptrFromMem 197 "bpf_dynptr_from_mem" ALL;
        DynptrRead 201 "bpf_dynptr_read" ALL;
        DynptrWrite 202 "bpf_dynptr_write" ALL;
        DynptrData 203 "bpf_dynptr_data" ALL;
    }
    kfuncs {
        DynptrFromSkb 1 "bpf_dynptr_from_skb" NOT_XDP;
        DynptrFromXdp 2 "bpf_dynptr_from_xdp" XDP;
        DynptrSlice 3 "bpf_dynptr_slice" ALL;
        DynptrSliceRdwr 4 "bpf_dynptr_slice_rdwr" ALL;
        DynptrAdjust 5 "bpf_dynptr_adjust" ALL;
        DynptrIsNull 6 "bpf_dynptr_is_null" ALL;
        DynptrIsRdonly 7 "bpf_dynptr_is_rdonly" ALL;
        DynptrSize 8 "bpf_dynptr_size" ALL;
        DynptrClone 9 "bpf_dynptr_clone" ALL;
        RcuReadLock 10 "bpf_rcu_read_lock" ALL;
        RcuReadUnlock 11 "bpf_rcu_read_unlock" ALL;
        XdpCtLookup 13 "bpf_xdp_ct_lookup" XDP;
        SkbCtLookup 14 "bpf_skb_ct_lookup" SKB;
        CtRelease 15 "bpf_ct_release" SUM;
        Missing 12 "what is not there" ALL;
    }
}

const NOT_XDP: &[ProgramKind] = &[SocketFilter, Tc, Netfilter];

impl Helper {
    /// By the number that [`Helper::number`] gives.
    pub fn of_number(number: i32) -> Option<Helper> {
        TABLE.iter().map(|(helper, ..)| *helper).find(|helper| helper.number() == number)
    }

    /// A kfunc by its name.
    pub fn kfunc(name: &str) -> Option<Helper> {
        let (helper, ..) = TABLE
            .iter()
            .find(|(h, text, _)| h.is_kfunc() && *h != Helper::Missing && *text == name)?;
        Some(*helper)
    }

    /// The constant of a call: of a helper that of the kernel, of a kfunc one of our own.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// Whether it is called by name.
    pub fn is_kfunc(self) -> bool {
        self.number() > KFUNC
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Whether programs of a kind may call it.
    pub fn is_for(self, kind: ProgramKind) -> bool {
        self.row().2.contains(&kind)
    }

    fn row(self) -> (Helper, &'static str, &'static [ProgramKind]) {
        let row = TABLE.iter().find(|(helper, ..)| *helper == self).copied();
        row.unwrap_or((self, "", &[]))
    }
}
